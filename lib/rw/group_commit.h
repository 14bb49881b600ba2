/* SPDX-License-Identifier: MIT */
/*
 * group_commit: one flush for all who sync a mapping (R14).
 */
#ifndef DBH_RW_GROUP_COMMIT_H
#define DBH_RW_GROUP_COMMIT_H

#include "mm/mapping.h"

/**
 * group_commit - make [@first_byte, @last_byte] durable, with all who ask for it
 * at the time
 * @datasync: as for fdatasync(2); a flush for several is what the most of them
 *	want
 *
 * Context: may sleep; no lock held, no folio lent
 * Return: 0; the error of the writeback of what was written in the round; -EIO
 * if a flush of the mapping has ever failed
 */
int group_commit(struct mapping *m, uint64_t first_byte, uint64_t last_byte,
		 bool datasync);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * space: whether a write may be taken in.
 */
#ifndef DBH_MM_SPACE_H
#define DBH_MM_SPACE_H

#include "mm/mapping.h"

enum admission {
	ADMIT,
	ADMIT_WHEN_WRITTEN, /* after what is dirty of the file was written */
	ADMIT_NOT, /* the error is told */
};

/**
 * write_admit - may a piece of a write that begins at @pos be taken in?
 * @written: the caller has just written what was dirty of the file
 * @err: out: -errno, with ADMIT_NOT
 * Context: any, but no lock held; a system call now and then
 */
enum admission write_admit(struct mapping *m, uint64_t pos, bool written,
			   int *err);

#endif

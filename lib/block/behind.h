/* SPDX-License-Identifier: MIT */
/*
 * behind: the second half of a write that went through the kernel's cache
 * because direct I/O was refused or is a pretence. A thread writes each one
 * out, waits, drops its pages and only then ends the bio: whoever waits for
 * bios waits for the disk, and the cache holds no more than what is in flight.
 * Likewise where a write went into pages that others had cached (shared.h);
 * those stay (BIO_F_KEEP).
 */
#ifndef DBH_BLOCK_BEHIND_H
#define DBH_BLOCK_BEHIND_H

#include "block/block.h"

struct behind;
struct kcache;

/**
 * behind_create - start the thread
 * @kc: stays the caller's, and valid until destroy
 * @finish: called by the thread for each bio, with no lock held; ends it.
 *	@left: pages of the bio are still cached: a folio that spans two bios,
 *	or data that could not be written
 */
int behind_create(const struct kcache *kc,
		  void (*finish)(struct bio *bio, bool left),
		  struct behind **out);
/** No bio is in flight. NULL is allowed. */
void behind_destroy(struct behind *behind);
/** @bio has been transferred with status 0. Does not sleep. */
void behind_add(struct behind *behind, struct bio *bio);
/** Its work in the caller's thread, for when there is no other: sets the
 * status and tells whether pages are left. */
bool behind_write_out(const struct kcache *kc, struct bio *bio);

#endif

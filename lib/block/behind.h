/* SPDX-License-Identifier: MIT */
/*
 * behind: the second half of a write that went through the kernel's cache
 * because direct I/O was refused or is a pretence. A thread writes each one
 * out, waits, drops its pages and only then ends the bio: whoever waits for
 * bios waits for the disk, and the cache holds no more than what is in flight.
 */
#ifndef DBH_BLOCK_BEHIND_H
#define DBH_BLOCK_BEHIND_H

#include "block/block.h"

struct behind;

/** @fd: stays the caller's, and open until destroy. */
int behind_create(int fd, struct behind **out);
/** No bio is in flight. NULL is allowed. */
void behind_destroy(struct behind *behind);
/** @bio has been transferred with status 0; @behind ends it. Does not sleep. */
void behind_add(struct behind *behind, struct bio *bio);
/** The same in the caller's thread, for when there is no other. */
void behind_now(int fd, struct bio *bio);

#endif

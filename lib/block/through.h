/* SPDX-License-Identifier: MIT */
/*
 * through: reads and writes through the kernel's cache, for a file that other
 * programs have open. Exact to the byte: a block of which another program
 * writes the other half must not be written whole. What they leave in the cache
 * is written out and dropped; what was there before stays.
 */
#ifndef DBH_BLOCK_THROUGH_H
#define DBH_BLOCK_THROUGH_H

#include "block/block.h"
#include "kcache.h"

/**
 * struct through - where to, with O_DIRECT off
 * @in_memory: the file system is the cache: nothing to write out or to drop
 */
struct through {
	struct kcache kc;
	bool in_memory;
};

/* See struct store_lease_ops. */
ssize_t through_read(const struct through *t, const struct iov_part *part,
		     uint64_t pos);
ssize_t through_write(const struct through *t, const struct iov_part *part,
		      uint64_t pos);
ssize_t through_append(const struct through *t, const struct iov_part *part);

#endif

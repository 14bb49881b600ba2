/* SPDX-License-Identifier: MIT */
/*
 * extents: where a file has blocks. Allocating, punching and moving them,
 * sharing them with another file, finding them; and tidying up what the kernel
 * leaves in its cache meanwhile. System calls only, no state.
 */
#ifndef DBH_BLOCK_EXTENTS_H
#define DBH_BLOCK_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kcache.h"

/** Zeros that are written, as the device can do it: came with 6.17. */
#ifndef FALLOC_FL_WRITE_ZEROES
#define FALLOC_FL_WRITE_ZEROES 0x80
#endif

/**
 * struct extents - of which file
 * @in_memory: the file system is the cache: nothing to write out or to drop
 * @block: what the kernel zeroes a part of lies within one such; a power of
 *	two, at least a page
 * @lost: out: a write-out said this, which may be of another page
 */
struct extents {
	struct kcache kc;
	bool in_memory;
	uint32_t block;
	int lost;
};

/* See struct store_ops. */
int extents_fallocate(struct extents *x, int mode, uint64_t pos, uint64_t len);
int extents_clone(struct extents *x, uint64_t pos, int from_fd,
		  uint64_t from_pos, uint64_t len);
int extents_seek(int fd, int whence, uint64_t pos, uint64_t *out);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * fiemap: where the blocks of a file lie.
 */
#ifndef DBH_TESTS_FIEMAP_H
#define DBH_TESTS_FIEMAP_H

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "support/check.h"

#define FIEMAP_EXTENTS 64u

/** All extents of a file, which are few, after its dirty pages were written. To
 * be freed. */
static inline struct fiemap *fiemap_get(int fd)
{
	struct fiemap *map =
		calloc(1, sizeof(*map) + FIEMAP_EXTENTS *
						 sizeof(struct fiemap_extent));

	CHECK(map, "no memory");
	map->fm_length = FIEMAP_MAX_OFFSET;
	map->fm_flags = FIEMAP_FLAG_SYNC;
	map->fm_extent_count = FIEMAP_EXTENTS;
	CHECK_OK(ioctl(fd, FS_IOC_FIEMAP, map) ? -errno : 0);
	CHECK(map->fm_mapped_extents < FIEMAP_EXTENTS, "too many extents");
	return map;
}

#endif

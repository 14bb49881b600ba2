/* SPDX-License-Identifier: MIT */
/*
 * device: the block device below a directory, and what was read from it.
 */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/** struct device - found once; constant from then on */
struct device {
	bool known; /* else only @fs is valid: no block device */
	char name[64];
	char fs[32]; /* type of the file system */
	char stat_path[PATH_MAX];
	unsigned sector_bytes; /* 0: unknown */
};

/**
 * device_find - the device and file system of a path
 *
 * A partition has counters of its own. A file system without a device of its
 * own number (btrfs) is looked up by what is mounted. Does not complain.
 */
void device_find(struct device *d, const char *path);

/** device_sectors_read - 512-byte sectors read since boot; false: unknown. */
bool device_sectors_read(const struct device *d, uint64_t *out);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * device: the block device below a directory, and what was asked of it.
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
	char flush_path[PATH_MAX]; /* a partition's flushes are its disk's */
	unsigned sector_bytes; /* 0: unknown */
};

/**
 * device_find - the device and file system of a path
 *
 * A partition has counters of its own. A file system without a device of its
 * own number (btrfs) is looked up by what is mounted. Does not complain.
 */
void device_find(struct device *d, const char *path);

/**
 * struct device_counts - since boot, by all who use it
 * @sectors_read: of 512 bytes
 * @flushes: of its cache; -1: the kernel does not tell, as before 5.5
 */
struct device_counts {
	uint64_t sectors_read;
	int64_t flushes;
};

/** device_count - false: unknown */
bool device_count(const struct device *d, struct device_counts *out);

#endif

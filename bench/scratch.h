/* SPDX-License-Identifier: MIT */
/*
 * scratch: a file system in memory, made anew as often as one likes.
 */
#ifndef BENCH_SCRATCH_H
#define BENCH_SCRATCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/stop.h"

/** struct scratch - zeroed but for the options at the head */
struct scratch {
	const char *fs; /* xfs, ext4 or btrfs */
	uint64_t block_bytes; /* 0: the file system's default */
	uint64_t size_bytes; /* of the image */

	unsigned sector_bytes; /* of the loop device */
	char loop[32]; /* its path */
	char dir[64]; /* mount point */
	int dir_lock;
	int loop_fd;
	struct stop_traces traces;
	bool mounted;
};

/**
 * scratch_open - fill an image with zeros and attach it; nothing is mounted
 * Return: 0; -EINTR without a word when asked to stop; another error.
 */
int scratch_open(struct scratch *s);

/** scratch_fresh - unmount what is mounted, make a file system, mount it. */
int scratch_fresh(struct scratch *s);

/** scratch_close - undo all of it, from whatever state. */
void scratch_close(struct scratch *s);

#endif

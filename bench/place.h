/* SPDX-License-Identifier: MIT */
/*
 * place: where the runs write: a directory, or a scratch file system.
 */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/device.h"
#include "bench/scratch.h"
#include "bench/stop.h"

struct bench_options;

/** struct place - made by place_open(), constant until place_close() */
struct place {
	char dir[PATH_MAX - 32]; /* of our own */
	char file[PATH_MAX]; /* what is written */
	char filler[PATH_MAX]; /* what keeps its pieces apart */
	char hot[PATH_MAX]; /* what is read beside it */
	struct stop_traces traces;
	int dir_lock; /* unless on_scratch */
	bool on_scratch;
	struct scratch scratch;
	struct device device;
	uint64_t block_bytes; /* of the file system */
	unsigned direct_align; /* of direct I/O, in bytes */
};

/** place_open - also checks that there is room. */
int place_open(struct place *p, const struct bench_options *o);

/** place_fresh - as if nothing had been written yet */
int place_fresh(struct place *p);

/** place_close - remove everything, from whatever state. */
void place_close(struct place *p);

#endif

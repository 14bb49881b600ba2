/* SPDX-License-Identifier: MIT */
/*
 * sampler: a thread that watches how much of a contender's open file is in
 * the kernel's cache while the contender works.
 */
#ifndef BENCH_SAMPLER_H
#define BENCH_SAMPLER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct contender;
struct contender_ops;

/** struct sampler - from sampler_start() to sampler_stop() */
struct sampler {
	const struct contender_ops *ops;
	struct contender *contender;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool stop; /* under lock */
	/* The thread's own while it runs. Pages, or -1 while unknown. */
	int fd;
	int64_t first, last, peak;
};

/** sampler_start - takes the first sample before it returns. */
int sampler_start(struct sampler *s, const struct contender_ops *ops,
		  struct contender *c);

/**
 * sampler_stop - takes the last sample, and leaves the file alone again
 * @peak_growth: pages that the file had at most more than at the start
 * @last: pages at the end, or -1 if they could not be counted
 */
void sampler_stop(struct sampler *s, int64_t *peak_growth, int64_t *last);

#endif

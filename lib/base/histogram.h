/* SPDX-License-Identifier: MIT */
/*
 * histogram: how often a value was how large, in buckets that are linear
 * within each power of two.
 *
 * Recording is two relaxed additions, from any thread; what happens very often
 * is sampled by its caller and recorded with a weight. A reader sees a moment
 * that may not have been, a few records early or late.
 */
#ifndef DBH_BASE_HISTOGRAM_H
#define DBH_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

/* Buckets of a power of two: what is told is at most an eighth too large. */
#define HIST_SUB_BITS 3u
/* Values from 2^36 on (69 s, in ns) share the last bucket. */
#define HIST_MAX_BITS 36u
#define HIST_BUCKETS ((HIST_MAX_BITS - HIST_SUB_BITS + 1) << HIST_SUB_BITS)

/**
 * struct histogram - all zero: empty; relaxed atomics
 * @bucket: records by size
 * @sum: of all values
 * @max: the largest one, exactly
 */
struct histogram {
	_Atomic uint64_t bucket[HIST_BUCKETS];
	_Atomic uint64_t sum;
	_Atomic uint64_t max;
};

/** struct hist_summary - percentiles are the upper ends of their buckets */
struct hist_summary {
	uint64_t count, sum, p50, p99, p999, max;
};

/** Record @value, which stands for @weight of its like. */
void hist_record_n(struct histogram *h, uint64_t value, uint64_t weight);

static inline void hist_record(struct histogram *h, uint64_t value)
{
	hist_record_n(h, value, 1);
}

void hist_summarize(struct histogram *h, struct hist_summary *out);

#endif

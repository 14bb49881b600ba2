/* SPDX-License-Identifier: MIT */
/*
 * histogram: how long things took, counted in buckets.
 *
 * Log-linear: 32 buckets for each power of two, so that a figure read from it
 * is at most 1/32 too large. Adding to it costs a shift and an increment; each
 * thread has one of its own, and they are merged when the threads are done.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 5
#define HISTOGRAM_SUB (1u << HISTOGRAM_SUB_BITS)
/* From here on, 68 seconds, all are in the last bucket. */
#define HISTOGRAM_MAX_BITS 36
#define HISTOGRAM_BUCKETS \
	((HISTOGRAM_MAX_BITS - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB)

/** struct histogram - of one thread; zeroed is empty */
struct histogram {
	uint64_t total; /* values in it */
	uint64_t max_ns; /* exact */
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Which bucket; those below two times HISTOGRAM_SUB hold one value each. */
static inline unsigned histogram_index(uint64_t ns)
{
	unsigned shift;

	if (ns < HISTOGRAM_SUB)
		return (unsigned)ns;
	if (ns >> HISTOGRAM_MAX_BITS)
		return HISTOGRAM_BUCKETS - 1;
	shift = 63 - (unsigned)__builtin_clzll(ns) - HISTOGRAM_SUB_BITS;
	return shift * HISTOGRAM_SUB + (unsigned)(ns >> shift);
}

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
	h->total++;
	if (h->max_ns < ns)
		h->max_ns = ns;
	h->buckets[histogram_index(ns)]++;
}

/** histogram_merge - add all of @from to @to */
void histogram_merge(struct histogram *to, const struct histogram *from);

/**
 * struct latency - what is reported of a histogram, in ns
 * @count: values; 0: the rest is not valid
 */
struct latency {
	uint64_t count;
	uint64_t p50_ns, p99_ns, p999_ns, max_ns;
};

/** histogram_latency - its percentiles: the upper ends of their buckets */
struct latency histogram_latency(const struct histogram *h);

#endif

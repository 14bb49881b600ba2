/* SPDX-License-Identifier: MIT */
/*
 * histogram: merging, and the percentiles.
 */
#include "bench/histogram.h"

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	unsigned i;

	to->total += from->total;
	if (to->max_ns < from->max_ns)
		to->max_ns = from->max_ns;
	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

/* The largest value that a bucket holds. */
static uint64_t bucket_end(unsigned index)
{
	unsigned shift;

	if (index < 2 * HISTOGRAM_SUB)
		return index;
	shift = index / HISTOGRAM_SUB - 1;
	return (((uint64_t)index % HISTOGRAM_SUB + HISTOGRAM_SUB + 1)
		<< shift) -
	       1;
}

/* The smallest value that @per_mille of all do not exceed. */
static uint64_t percentile(const struct histogram *h, unsigned per_mille)
{
	uint64_t rank = (h->total * per_mille + 999) / 1000;
	uint64_t seen = 0, end;
	unsigned i;

	for (i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		seen += h->buckets[i];
		if (seen >= rank) {
			end = bucket_end(i);
			return end < h->max_ns ? end : h->max_ns;
		}
	}
	return h->max_ns;
}

struct latency histogram_latency(const struct histogram *h)
{
	return (struct latency){ .count = h->total,
				 .p50_ns = percentile(h, 500),
				 .p99_ns = percentile(h, 990),
				 .p999_ns = percentile(h, 999),
				 .max_ns = h->max_ns };
}

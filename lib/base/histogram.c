// SPDX-License-Identifier: MIT
/*
 * histogram: buckets, and percentiles from them.
 */
#include "base/histogram.h"

#include "base/compiler.h"

static unsigned bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < 1u << HIST_SUB_BITS)
		return (unsigned)value;
	if (value >> HIST_MAX_BITS)
		return HIST_BUCKETS - 1;
	shift = 63u - (unsigned)__builtin_clzll(value) - HIST_SUB_BITS;
	/* The leading bit is in the row; those behind it say where in it. */
	return (shift << HIST_SUB_BITS) + (unsigned)(value >> shift);
}

/* The largest value that belongs to a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
	unsigned row = bucket >> HIST_SUB_BITS, shift;
	uint64_t sub = bucket & ((1u << HIST_SUB_BITS) - 1);

	if (!row)
		return bucket;
	if (bucket == HIST_BUCKETS - 1)
		return UINT64_MAX;
	shift = row - 1;
	return ((sub + (1u << HIST_SUB_BITS) + 1) << shift) - 1;
}

void hist_record_n(struct histogram *h, uint64_t value, uint64_t weight)
{
	uint64_t max = atomic_load_explicit(&h->max, memory_order_relaxed);

	while (value > max &&
	       !atomic_compare_exchange_weak_explicit(&h->max, &max, value,
						      memory_order_relaxed,
						      memory_order_relaxed))
		;
	atomic_fetch_add_explicit(&h->bucket[bucket_of(value)], weight,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, value * weight,
				  memory_order_relaxed);
}

/* The value that @permille of @count records do not exceed. */
static uint64_t percentile(const uint64_t *bucket, uint64_t count,
			   unsigned permille)
{
	uint64_t rank = count / 1000 * permille +
			(count % 1000 * permille + 999) / 1000;
	uint64_t seen = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += bucket[i];
		if (seen >= rank)
			return bucket_end(i);
	}
	return UINT64_MAX;
}

void hist_summarize(struct histogram *h, struct hist_summary *out)
{
	uint64_t bucket[HIST_BUCKETS], count = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		bucket[i] = atomic_load_explicit(&h->bucket[i],
						 memory_order_relaxed);
		count += bucket[i];
	}
	*out = (struct hist_summary){ .count = count };
	if (!count)
		return;
	out->sum = atomic_load_explicit(&h->sum, memory_order_relaxed);
	out->max = atomic_load_explicit(&h->max, memory_order_relaxed);
	out->p50 = MIN(percentile(bucket, count, 500), out->max);
	out->p99 = MIN(percentile(bucket, count, 990), out->max);
	out->p999 = MIN(percentile(bucket, count, 999), out->max);
}

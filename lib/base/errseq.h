/* SPDX-License-Identifier: MIT */
/*
 * errseq: an error that every observer hears of once (the kernel's errseq_t).
 *
 * The word holds an errno and a count of changes. An observer keeps a sample;
 * it has news when its sample differs.
 */
#ifndef DBH_BASE_ERRSEQ_H
#define DBH_BASE_ERRSEQ_H

#include <stdatomic.h>
#include <stdint.h>

/* errno in the low 12 bits (MAX_ERRNO is 4095), count above. */
typedef _Atomic uint32_t errseq_t;
#define ERRSEQ_ERRNO 0xfffu
#define ERRSEQ_COUNT 0x1000u

static inline uint32_t errseq_sample(errseq_t *eseq)
{
	return atomic_load_explicit(eseq, memory_order_acquire);
}

/** Record @err, a negative errno. */
static inline void errseq_set(errseq_t *eseq, int err)
{
	uint32_t old = atomic_load_explicit(eseq, memory_order_relaxed);
	uint32_t new;

	do {
		new = ((old & ~ERRSEQ_ERRNO) + ERRSEQ_COUNT) | (uint32_t)-err;
	} while (!atomic_compare_exchange_weak_explicit(
		eseq, &old, new, memory_order_release, memory_order_relaxed));
}

/** The error since *@since, or 0; *@since advances, so that it is told once
 * even if several threads ask through one observer. */
static inline int errseq_check_and_advance(errseq_t *eseq, errseq_t *since)
{
	uint32_t now = errseq_sample(eseq);
	uint32_t old = atomic_load_explicit(since, memory_order_relaxed);

	while (old != now) {
		if (atomic_compare_exchange_weak_explicit(
			    since, &old, now, memory_order_relaxed,
			    memory_order_relaxed))
			return -(int)(now & ERRSEQ_ERRNO);
	}
	return 0;
}

#endif

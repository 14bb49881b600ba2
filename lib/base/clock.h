/* SPDX-License-Identifier: MIT */
/*
 * clock: monotonic time.
 */
#ifndef DBH_BASE_CLOCK_H
#define DBH_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC 1000000000ull

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/** To a few ms, for ages: a few ns instead of some tens. */
static inline uint32_t clock_coarse_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint32_t)((uint64_t)ts.tv_sec * 1000u +
			  (uint64_t)ts.tv_nsec / 1000000u);
}

/** Milliseconds from @since to now, modulo 2^32. */
static inline uint32_t clock_age_ms(uint32_t since)
{
	return clock_coarse_ms() - since;
}

#endif

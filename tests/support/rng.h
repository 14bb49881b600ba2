/* SPDX-License-Identifier: MIT */
/*
 * rng: random numbers from a seed, and where the seed comes from.
 */
#ifndef DBH_TESTS_RNG_H
#define DBH_TESTS_RNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint64_t rng_next(struct rng *r)
{
	return rng_mix(r->state++);
}

/** 0 to @n - 1. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return n ? rng_next(r) % n : 0;
}

/** @lo to @hi, both included. */
static inline uint64_t rng_between(struct rng *r, uint64_t lo, uint64_t hi)
{
	return lo + rng_below(r, hi - lo + 1);
}

/** True @percent times in a hundred. */
static inline bool rng_chance(struct rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

/** Of all magnitudes alike: 1 to @max. */
static inline uint64_t rng_size(struct rng *r, uint64_t max)
{
	unsigned bits = 0;

	while (bits < 63 && (max >> bits) > 1)
		bits++;
	return 1 + rng_below(r, 1 + rng_below(r, max >> rng_below(r, bits + 1)));
}

static inline void rng_fill(struct rng *r, void *buf, size_t len)
{
	uint64_t x;

	for (size_t at = 0; at < len; at += sizeof(x)) {
		x = rng_next(r);
		memcpy((char *)buf + at, &x,
		       len - at < sizeof(x) ? len - at : sizeof(x));
	}
}

/** A generator for a part of a test, from the test's seed. */
static inline struct rng rng_fork(uint64_t seed, uint64_t part)
{
	return (struct rng){ rng_mix(seed ^ rng_mix(part)) };
}

/** The seed of this run, which is printed: $DBH_SEED, or a new one. */
static inline uint64_t test_seed(void)
{
	const char *text = getenv("DBH_SEED");
	struct timespec ts;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &ts);
	seed = rng_mix((uint64_t)ts.tv_sec * 1000000007u +
		       (uint64_t)ts.tv_nsec + (uint64_t)getpid()) >> 16;
	if (text)
		seed = strtoull(text, NULL, 0);
	printf("seed: %llu (DBH_SEED=%llu runs it again)\n",
	       (unsigned long long)seed, (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

#endif

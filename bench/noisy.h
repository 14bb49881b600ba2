/* SPDX-License-Identifier: MIT */
/*
 * noisy: what its run asks of its options.
 */
#ifndef BENCH_NOISY_H
#define BENCH_NOISY_H

#include <stdint.h>

#include "bench/options.h"

/**
 * noisy_budget - memory of the engine, and how much of it may be dirty; zero:
 * its default
 *
 * Where the engine has the cached file, the writers get beside it what they
 * have without it: dirty pages would crowd it out otherwise.
 */
void noisy_budget(const struct bench_options *o, struct variant v,
		  uint64_t *budget_bytes, uint64_t *dirty_bytes);

#endif

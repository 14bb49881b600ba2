/* SPDX-License-Identifier: MIT */
/*
 * values: sizes, numbers and lists as they are typed.
 *
 * Each complains about what it refuses, with the option's name before it.
 */
#ifndef BENCH_VALUES_H
#define BENCH_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

struct bench_options;

/** value_size - bytes, or k, M, G of them; at least @min */
bool value_size(const char *name, const char *text, uint64_t min,
		uint64_t *out);

/** value_number - from @min to @max */
bool value_number(const char *name, const char *text, unsigned min,
		  unsigned max, unsigned *out);

/** value_list - hand each element between commas to @add */
bool value_list(struct bench_options *o, const char *text,
		bool (*add)(struct bench_options *, const char *));

#endif

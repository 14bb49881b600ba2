/* SPDX-License-Identifier: MIT */
/*
 * run: one contender writes one file, once: what interleaved measures, and
 * noisy.
 */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include <stdint.h>

struct bench_case;
struct bench_options;
struct pattern;
struct place;
struct round_result;

/**
 * struct run - what to run; @number differs from run to run
 */
struct run {
	const struct bench_options *o;
	struct place *place;
	const struct pattern *pattern;
	const struct bench_case *c;
	unsigned number;
};

/**
 * run_once, run_noisy - from a fresh place to a verified file
 * @res: filled in as far as the run came
 * @reason: of REASON_BYTES: what went wrong with the contender, else ""
 *
 * Return: 0, also when @reason is not empty: the next case can go on;
 * an error of the place, after which nothing can; -EINTR when asked to stop,
 * without a word. What is said in @reason is not complained about.
 */
int run_once(const struct run *run, struct round_result *res, char *reason);
int run_noisy(const struct run *run, struct round_result *res, char *reason);

#endif

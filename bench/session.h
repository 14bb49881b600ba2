/* SPDX-License-Identifier: MIT */
/*
 * session: one invocation of a workload, and what a workload is made of.
 */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include "bench/options.h"
#include "bench/results.h"

struct json_t;
struct report;
struct run;

/**
 * struct workload - what `dropbehind bench` can run; all members are required
 * @figures: that JSON has, of a case and of each of its rounds
 * @run: as run_once() of run.h
 * @table: print the report for people
 * @variant_json: set the key that tells a case's variant
 * @options_json: add the options that no other workload has
 */
struct workload {
	const char *name;
	struct options_spec options;
	const struct figure *figures;
	unsigned nr_figures;
	int (*run)(const struct run *run, struct round_result *res,
		   char *reason);
	void (*table)(const struct report *r);
	void (*variant_json)(struct json_t *o, struct variant v);
	void (*options_json)(struct json_t *o, const struct bench_options *b);
};

/**
 * session_main - parse the command line, run, report
 * Return: an exit status of workload.h.
 */
int session_main(const struct workload *w, int argc, char **argv);

#endif

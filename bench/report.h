/* SPDX-License-Identifier: MIT */
/*
 * report: what a workload prints at its end. The table is the workload's own.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

struct bench_options;
struct place;
struct results;
struct workload;

/**
 * struct report - everything that a report is made from
 */
struct report {
	const struct workload *workload;
	const struct bench_options *o;
	const struct place *place;
	const struct results *results;
};

/** report_json - one object; 0 or a negative errno */
int report_json(const struct report *r);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * report: what a workload prints at its end.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

struct bench_options;
struct place;
struct results;

/**
 * struct report - everything that a report is made from
 * @workload: its name
 */
struct report {
	const char *workload;
	const struct bench_options *o;
	const struct place *place;
	const struct results *results;
};

/** report_table - for people, with a sentence about what it shows */
void report_table(const struct report *r);

/** report_json - one object; 0 or a negative errno */
int report_json(const struct report *r);

#endif

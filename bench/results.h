/* SPDX-License-Identifier: MIT */
/*
 * results: what was measured, and medians of it.
 */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/contender.h"
#include "bench/histogram.h"
#include "bench/options.h"

#define REASON_BYTES 240

/** struct round_result - one counted run */
struct round_result {
	uint64_t writes;
	uint64_t bytes; /* that were written */
	uint64_t write_ns; /* until the last write returned */
	uint64_t stable_ns; /* until a final fsync returned */
	bool reads_known; /* the next two are valid */
	double device_reads; /* of 4 KiB, until then */
	double close_reads; /* the same by the close afterwards */
	int64_t device_flushes; /* until stable; -1: unknown */
	struct latency write_latency; /* of each write call */
	int64_t resident_open; /* pages before the close; -1: unknown */
	int64_t resident; /* pages after the close; -1: unknown */
	int64_t kernel_pages_peak; /* growth of the kernel's cache, in pages */
	uint64_t peak_bytes; /* memory of the contender */
	uint64_t warm_pages_outside; /* --warm: cached, and not overwritten */
	uint64_t warm_kept_pages; /* of them, still there */
	int64_t extents; /* of the file before the run; -1: not asked */
	bool verified;
	/* noisy: what the readers met */
	uint64_t read_ns; /* how long they read */
	struct latency read_latency;
	int64_t hot_pages; /* of their file, all cached before */
	int64_t hot_kept_pages; /* and at the end; -1: unknown */
	struct contender_report report;
};

/** struct bench_case - a contender with a record size and a flag */
struct bench_case {
	uint64_t record;
	const struct contender_ops *ops;
	struct variant variant;
	char missing[REASON_BYTES]; /* why it did not run at all; else "" */
	char error[REASON_BYTES]; /* what stopped it; else "" */
	struct round_result *rounds;
	unsigned nr_rounds;
};

/** struct results - all cases, in the order of the report */
struct results {
	struct bench_case *cases;
	unsigned nr_cases;
};

struct spread {
	double median, min, max;
};

/** A figure of a round; negative: unknown. */
typedef double round_figure(const struct round_result *r);

double round_writes(const struct round_result *r);
double round_device_reads(const struct round_result *r);
double round_reads_per_write(const struct round_result *r);
double round_close_reads(const struct round_result *r);
double round_extents(const struct round_result *r);
double round_resident(const struct round_result *r);
double round_resident_open(const struct round_result *r);
double round_kernel_pages_peak(const struct round_result *r);
double round_peak_bytes(const struct round_result *r);
double round_write_p50_us(const struct round_result *r);
double round_write_p99_us(const struct round_result *r);
double round_write_p999_us(const struct round_result *r);
double round_write_max_us(const struct round_result *r);
double round_device_flushes(const struct round_result *r);
double round_flushes_per_write(const struct round_result *r);
double round_kicks(const struct round_result *r);
double round_mib_s_write(const struct round_result *r);
double round_mib_s_stable(const struct round_result *r);
double round_warm_pages_outside(const struct round_result *r);
double round_warm_kept_pages(const struct round_result *r);

double round_reads(const struct round_result *r);
double round_reads_per_s(const struct round_result *r);
double round_read_p50_us(const struct round_result *r);
double round_read_p99_us(const struct round_result *r);
double round_read_p999_us(const struct round_result *r);
double round_read_max_us(const struct round_result *r);
double round_hot_pages(const struct round_result *r);
double round_hot_kept_pages(const struct round_result *r);

/**
 * struct figure - a figure that a report has
 * @count: a whole number
 * @spread: of a case the least and the greatest are told too
 * @when: only if this holds; NULL: always
 */
struct figure {
	const char *key;
	round_figure *of;
	bool count;
	bool spread;
	bool (*when)(const struct bench_options *o);
};

/** case_spread - over the rounds; all -1 if unknown or no rounds */
struct spread case_spread(const struct bench_case *c, round_figure *figure);

/** case_verified - it has run, without error, and every round was right */
bool case_verified(const struct bench_case *c);

/** results_find - NULL if there is no such case, or it has no rounds */
const struct bench_case *results_find(const struct results *r, uint64_t record,
				      const struct contender_ops *ops,
				      struct variant variant);

/** results_good - every case that was not missing is verified */
bool results_good(const struct results *r);

void results_free(struct results *r);

#endif

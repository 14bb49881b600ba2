/* SPDX-License-Identifier: MIT */
/*
 * results: figures of a round, and their spread over rounds.
 */
#include "bench/results.h"

#include <stdlib.h>

static double mib_s(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (1 << 20) / ((double)ns / 1e9) : -1;
}

double round_writes(const struct round_result *r)
{
	return (double)r->writes;
}

double round_device_reads(const struct round_result *r)
{
	return r->reads_known ? r->device_reads : -1;
}

double round_reads_per_write(const struct round_result *r)
{
	return r->reads_known && r->writes ?
		       r->device_reads / (double)r->writes :
		       -1;
}

double round_close_reads(const struct round_result *r)
{
	return r->reads_known ? r->close_reads : -1;
}

double round_extents(const struct round_result *r)
{
	return (double)r->extents;
}

double round_resident(const struct round_result *r)
{
	return (double)r->resident;
}

double round_resident_open(const struct round_result *r)
{
	return (double)r->resident_open;
}

double round_kernel_pages_peak(const struct round_result *r)
{
	return (double)r->kernel_pages_peak;
}

double round_peak_bytes(const struct round_result *r)
{
	return (double)r->peak_bytes;
}

static double us(const struct latency *l, uint64_t ns)
{
	return l->count ? (double)ns / 1000 : -1;
}

double round_write_p50_us(const struct round_result *r)
{
	return us(&r->write_latency, r->write_latency.p50_ns);
}

double round_write_p99_us(const struct round_result *r)
{
	return us(&r->write_latency, r->write_latency.p99_ns);
}

double round_write_p999_us(const struct round_result *r)
{
	return us(&r->write_latency, r->write_latency.p999_ns);
}

double round_write_max_us(const struct round_result *r)
{
	return us(&r->write_latency, r->write_latency.max_ns);
}

double round_device_flushes(const struct round_result *r)
{
	return (double)r->device_flushes;
}

/* The engine's are those that it asked for; of others the device knows. */
double round_flushes_per_write(const struct round_result *r)
{
	double flushes = r->report.has_engine ?
				 (double)r->report.stats.flushes :
				 (double)r->device_flushes;

	return r->writes && flushes >= 0 ? flushes / (double)r->writes : -1;
}

double round_kicks(const struct round_result *r)
{
	return r->report.has_engine ? (double)r->report.stats.kicks : -1;
}

double round_mib_s_write(const struct round_result *r)
{
	return mib_s(r->bytes, r->write_ns);
}

double round_mib_s_stable(const struct round_result *r)
{
	return mib_s(r->bytes, r->stable_ns);
}

double round_warm_pages_outside(const struct round_result *r)
{
	return (double)r->warm_pages_outside;
}

double round_warm_kept_pages(const struct round_result *r)
{
	return (double)r->warm_kept_pages;
}

double round_reads(const struct round_result *r)
{
	return (double)r->read_latency.count;
}

double round_reads_per_s(const struct round_result *r)
{
	return r->read_ns ? (double)r->read_latency.count * 1e9 /
				    (double)r->read_ns :
			    -1;
}

double round_read_p50_us(const struct round_result *r)
{
	return us(&r->read_latency, r->read_latency.p50_ns);
}

double round_read_p99_us(const struct round_result *r)
{
	return us(&r->read_latency, r->read_latency.p99_ns);
}

double round_read_p999_us(const struct round_result *r)
{
	return us(&r->read_latency, r->read_latency.p999_ns);
}

double round_read_max_us(const struct round_result *r)
{
	return us(&r->read_latency, r->read_latency.max_ns);
}

double round_hot_pages(const struct round_result *r)
{
	return (double)r->hot_pages;
}

double round_hot_kept_pages(const struct round_result *r)
{
	return (double)r->hot_kept_pages;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct spread case_spread(const struct bench_case *c, round_figure *figure)
{
	struct spread s = { -1, -1, -1 };
	unsigned n = c->nr_rounds, i;
	double *v = n ? malloc(n * sizeof(*v)) : NULL;

	if (!v)
		return s;
	for (i = 0; i < n; i++)
		v[i] = figure(&c->rounds[i]);
	qsort(v, n, sizeof(*v), compare);
	/* One unknown round makes the figure unknown. */
	if (v[0] >= 0) {
		s.median = (v[(n - 1) / 2] + v[n / 2]) / 2;
		s.min = v[0];
		s.max = v[n - 1];
	}
	free(v);
	return s;
}

bool case_verified(const struct bench_case *c)
{
	unsigned i;

	if (c->missing[0] || c->error[0] || !c->nr_rounds)
		return false;
	for (i = 0; i < c->nr_rounds; i++)
		if (!c->rounds[i].verified)
			return false;
	return true;
}

static bool same_variant(struct variant a, struct variant b)
{
	return a.dsync == b.dsync && a.engine_reader == b.engine_reader;
}

const struct bench_case *results_find(const struct results *r, uint64_t record,
				      const struct contender_ops *ops,
				      struct variant variant)
{
	unsigned i;

	for (i = 0; i < r->nr_cases; i++) {
		const struct bench_case *c = &r->cases[i];

		if (c->record == record && c->ops == ops &&
		    same_variant(c->variant, variant) && c->nr_rounds)
			return c;
	}
	return NULL;
}

bool results_good(const struct results *r)
{
	unsigned i;

	for (i = 0; i < r->nr_cases; i++)
		if (!r->cases[i].missing[0] && !case_verified(&r->cases[i]))
			return false;
	return true;
}

void results_free(struct results *r)
{
	unsigned i;

	for (i = 0; i < r->nr_cases; i++)
		free(r->cases[i].rounds);
	free(r->cases);
	r->cases = NULL;
	r->nr_cases = 0;
}

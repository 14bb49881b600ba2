/* SPDX-License-Identifier: MIT */
/*
 * table_noisy: the report of `bench noisy`, with a sentence for each record
 * size about what it shows.
 */
#include "bench/table.h"

#include <stdio.h>

#include "bench/options.h"
#include "bench/report.h"
#include "bench/session.h"

static void print_head(const struct report *r)
{
	const struct bench_options *o = r->o;
	char read[32], hot[32], total[32];

	printf("%s: %u reader%s of %s in a cached file of %s",
	       r->workload->name, o->readers, o->readers == 1 ? "" : "s",
	       table_size(read, sizeof(read), o->read_bytes),
	       table_size(hot, sizeof(hot), o->hot_bytes));
	if (o->rate)
		printf(", %u reads/s each", o->rate);
	printf(",\nbeside %u writer%s in laps of %s; %u s, %u round%s\n",
	       o->threads, o->threads == 1 ? "" : "s",
	       table_size(total, sizeof(total), o->total_bytes), o->seconds,
	       o->rounds, o->rounds == 1 ? "" : "s");
	table_place(r);
}

static void print_identity(const struct bench_case *c)
{
	printf("%8llu %-16s %-6s", (unsigned long long)c->record, c->ops->name,
	       c->variant.engine_reader ? "engine" : "kernel");
}

static double hot_kept(const struct round_result *r)
{
	if (r->hot_pages <= 0 || r->hot_kept_pages < 0)
		return -1;
	return 100 * (double)r->hot_kept_pages / (double)r->hot_pages;
}

static double kreads_per_s(const struct round_result *r)
{
	return round_reads_per_s(r) / 1000;
}

static void print_case(const struct bench_case *c)
{
	static const struct column columns[] = {
		{ .of = round_read_p50_us, .width = 8, .decimals = 1 },
		{ .of = round_read_p99_us, .width = 9, .decimals = 1 },
		{ .of = round_read_p999_us, .width = 20, .spread = true },
		{ .of = round_read_max_us, .width = 9, .decimals = 1 },
		{ .of = kreads_per_s, .width = 8, .decimals = 1 },
		{ .of = hot_kept, .width = 5, .decimals = 1 },
		{ .of = round_mib_s_write, .width = 18, .spread = true },
	};

	print_identity(c);
	if (table_case_ran(c))
		table_figures(c, columns, sizeof(columns) / sizeof(columns[0]));
	putchar('\n');
}

static void print_cases(const struct results *results)
{
	unsigned i;

	printf("%8s %-16s %-6s %8s %9s %20s %9s %8s %5s %18s\n", "record",
	       "writers", "cached", "read p50", "p99", "p99.9", "max", "1000",
	       "kept", "MiB/s written");
	printf("%8s %-16s %-6s %8s %9s %20s %9s %8s %5s %18s\n", "", "", "by",
	       "us", "us", "us", "us", "reads/s", "%", "");
	for (i = 0; i < results->nr_cases; i++) {
		const struct bench_case *c = &results->cases[i];

		if (i && c->record != c[-1].record)
			putchar('\n');
		print_case(c);
	}
}

static void print_latency(const struct bench_case *c)
{
	static const struct column columns[] = {
		{ .of = round_write_p50_us, .width = 10, .decimals = 1 },
		{ .of = round_write_p99_us, .width = 10, .decimals = 1 },
		{ .of = round_write_p999_us, .width = 10, .decimals = 1 },
		{ .of = round_write_max_us, .width = 10, .decimals = 1 },
		{ .of = round_kicks, .width = 8 },
	};

	print_identity(c);
	table_figures(c, columns, sizeof(columns) / sizeof(columns[0]));
	putchar('\n');
}

static void print_latencies(const struct results *results)
{
	unsigned i;

	printf("\n%8s %-16s %-6s %10s %10s %10s %10s %8s\n", "record",
	       "writers", "cached", "write p50", "p99", "p99.9", "max", "kick");
	printf("%8s %-16s %-6s %10s %10s %10s %10s %8s\n", "", "", "by", "us",
	       "us", "us", "us", "rounds");
	for (i = 0; i < results->nr_cases; i++) {
		const struct bench_case *c = &results->cases[i];

		if (!c->missing[0] && !c->error[0] && !c->ops->idle)
			print_latency(c);
	}
}

/* ---- what it shows --------------------------------------------------- */

/* Of the reads beside a contender's writers; negative: unknown. */
static double tail(const struct results *r, uint64_t record,
		   const struct contender_ops *ops)
{
	const struct variant kernel_reader = { 0 };
	const struct bench_case *c =
		results_find(r, record, ops, kernel_reader);

	return c && case_verified(c) ?
		       case_spread(c, round_read_p999_us).median :
		       -1;
}

static void print_sentence(const struct results *r, uint64_t record)
{
	double engine = tail(r, record, &contender_engine_dontcache);
	double none = tail(r, record, &contender_kernel_none);
	double dontcache = tail(r, record, &contender_kernel_dontcache);

	if (engine < 0 || (none <= 0 && dontcache <= 0))
		return;
	printf("Beside the engine's writers of %llu-byte records the kernel's "
	       "reader had a p99.9 of\n%.1f us",
	       (unsigned long long)record, engine);
	if (none > 0)
		printf(", %.2f times that beside plain buffered writers",
		       engine / none);
	if (dontcache > 0)
		printf("%s %.2f times that beside RWF_DONTCACHE",
		       none > 0 ? " and" : ",", engine / dontcache);
	printf(".\n");
}

void table_noisy(const struct report *r)
{
	unsigned i;

	print_head(r);
	print_cases(r->results);
	if (r->o->latency)
		print_latencies(r->results);
	printf("\nMedians, with (minimum-maximum). %s\n",
	       r->o->rate ? "A read is late from when it was due." :
			    "A read lasts from its call to its return.");
	table_verdict(r);
	for (i = 0; i < r->o->nr_records; i++)
		print_sentence(r->results, r->o->records[i]);
}

/* SPDX-License-Identifier: MIT */
/*
 * table_interleaved: the report of `bench interleaved`, with a sentence about
 * what it shows.
 */
#include "bench/table.h"

#include <stdio.h>

#include "bench/options.h"
#include "bench/report.h"
#include "bench/sentence.h"
#include "bench/session.h"

static void print_head(const struct report *r)
{
	const struct bench_options *o = r->o;
	char total[32];

	printf("%s: %u thread%s, %s per run, %s, %u round%s\n",
	       r->workload->name, o->threads, o->threads == 1 ? "" : "s",
	       table_size(total, sizeof(total), o->total_bytes),
	       o->warm	    ? "half of a cached file overwritten" :
	       o->overwrite ? "an existing file overwritten" :
			      "a new file",
	       o->rounds, o->rounds == 1 ? "" : "s");
	if (o->fragment)
		printf("The file lies in pieces of eight blocks.\n");
	if (o->gap_us)
		printf("Each thread pauses %u us between two writes.\n",
		       o->gap_us);
	table_place(r);
}

static void print_columns(const struct bench_options *o)
{
	printf("%8s %-5s %-16s %8s %8s %7s %8s %9s %20s %20s", "record",
	       "flags", "contender", "writes", "4K reads", "reads/", "resident",
	       "peak", "MiB/s of the", "MiB/s to stable");
	printf("%s\n", o->warm ? "   kept of cached" : "");
	printf("%8s %-5s %-16s %8s %8s %7s %8s %9s %20s %20s", "", "", "", "",
	       "", "write", "pages", "MiB", "write phase", "");
	printf("%s\n", o->warm ? "          outside" : "");
}

static void print_warm(const struct bench_case *c)
{
	char kept[32], outside[32];

	table_number(kept, sizeof(kept),
		     case_spread(c, round_warm_kept_pages).median, 0);
	table_number(outside, sizeof(outside),
		     case_spread(c, round_warm_pages_outside).median, 0);
	printf(" %8s/%s", kept, outside);
}

static double peak_mib(const struct round_result *r)
{
	return round_peak_bytes(r) / (1 << 20);
}

static void print_figures(const struct report *r, const struct bench_case *c)
{
	static const struct column columns[] = {
		{ .of = round_writes, .width = 8 },
		{ .of = round_device_reads, .width = 8 },
		{ .of = round_reads_per_write, .width = 7, .decimals = 4 },
		{ .of = round_resident, .width = 8 },
		{ .of = peak_mib, .width = 9, .decimals = 1 },
		{ .of = round_mib_s_write, .width = 20, .spread = true },
		{ .of = round_mib_s_stable, .width = 20, .spread = true },
	};

	table_figures(c, columns, sizeof(columns) / sizeof(columns[0]));
	if (r->o->warm)
		print_warm(c);
}

static void print_identity(const struct bench_case *c)
{
	printf("%8llu %-5s %-16s", (unsigned long long)c->record,
	       c->variant.dsync ? "dsync" : "-", c->ops->name);
}

static void print_case(const struct report *r, const struct bench_case *c)
{
	print_identity(c);
	if (table_case_ran(c))
		print_figures(r, c);
	putchar('\n');
}

static void print_latency(const struct bench_case *c)
{
	static const struct column columns[] = {
		{ .of = round_write_p50_us, .width = 10, .decimals = 1 },
		{ .of = round_write_p99_us, .width = 10, .decimals = 1 },
		{ .of = round_write_p999_us, .width = 10, .decimals = 1 },
		{ .of = round_write_max_us, .width = 10, .decimals = 1 },
		{ .of = round_flushes_per_write, .width = 8, .decimals = 4 },
		{ .of = round_device_flushes, .width = 8 },
		{ .of = round_kicks, .width = 8 },
	};

	print_identity(c);
	table_figures(c, columns, sizeof(columns) / sizeof(columns[0]));
	putchar('\n');
}

static void print_latencies(const struct results *results)
{
	unsigned i;

	printf("\n%8s %-5s %-16s %10s %10s %10s %10s %8s %8s %8s\n", "record",
	       "flags", "contender", "write p50", "p99", "p99.9", "max",
	       "flushes/", "device", "kick");
	printf("%8s %-5s %-16s %10s %10s %10s %10s %8s %8s %8s\n", "", "", "",
	       "us", "us", "us", "us", "write", "flushes", "rounds");
	for (i = 0; i < results->nr_cases; i++) {
		const struct bench_case *c = &results->cases[i];

		if (!c->missing[0] && !c->error[0])
			print_latency(c);
	}
}

static void print_cases(const struct report *r)
{
	unsigned i;

	print_columns(r->o);
	for (i = 0; i < r->results->nr_cases; i++) {
		const struct bench_case *c = &r->results->cases[i];

		if (i && c->record != c[-1].record)
			putchar('\n');
		print_case(r, c);
	}
}

void table_interleaved(const struct report *r)
{
	char text[600];

	print_head(r);
	print_cases(r);
	if (r->o->latency)
		print_latencies(r->results);
	printf("\nMedians, with (minimum-maximum). \"To stable\" is until a "
	       "final fsync has returned.\n");
	table_verdict(r);
	if (sentence_make(r->results, text, sizeof(text)))
		printf("\n%s\n", text);
}

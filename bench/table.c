/* SPDX-License-Identifier: MIT */
/*
 * table: the report for people.
 */
#include "bench/report.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "bench/options.h"
#include "bench/place.h"
#include "bench/results.h"
#include "bench/sentence.h"

/* A figure, or a dash for one that is not known. */
static const char *number(char *buf, size_t size, double value, int decimals)
{
	if (value < 0)
		snprintf(buf, size, "-");
	else
		snprintf(buf, size, "%.*f", decimals, value);
	return buf;
}

static const char *spread(char *buf, size_t size, struct spread s)
{
	int decimals = s.median < 100 ? 1 : 0;

	if (s.median < 0)
		snprintf(buf, size, "-");
	else if (s.min == s.max)
		snprintf(buf, size, "%.*f", decimals, s.median);
	else
		snprintf(buf, size, "%.*f (%.*f-%.*f)", decimals, s.median,
			 decimals, s.min, decimals, s.max);
	return buf;
}

static const char *size_text(char *buf, size_t size, uint64_t bytes)
{
	static const char units[] = { 'k', 'M', 'G' };
	char unit = 0;
	size_t i;

	for (i = 0; i < sizeof(units) && bytes && bytes % 1024 == 0; i++) {
		bytes /= 1024;
		unit = units[i];
	}
	snprintf(buf, size, "%llu%.1s", (unsigned long long)bytes,
		 unit ? &unit : "");
	return buf;
}

static void print_head(const struct report *r)
{
	const struct bench_options *o = r->o;
	const struct place *p = r->place;
	char total[32], block[32], sector[32];
	struct utsname un;

	uname(&un);
	printf("%s: %u thread%s, %s per run, %s, %u round%s\n", r->workload,
	       o->threads, o->threads == 1 ? "" : "s",
	       size_text(total, sizeof(total), o->total_bytes),
	       o->warm	    ? "half of a cached file overwritten" :
	       o->overwrite ? "an existing file overwritten" :
			      "a new file",
	       o->rounds, o->rounds == 1 ? "" : "s");
	if (o->fragment)
		printf("The file lies in pieces of eight blocks.\n");
	if (o->gap_us)
		printf("Each thread pauses %u us between two writes.\n",
		       o->gap_us);
	printf("Linux %s, %s with %s blocks", un.release, p->device.fs,
	       size_text(block, sizeof(block), p->block_bytes));
	if (p->device.known)
		printf(", device %s with sectors of %s", p->device.name,
		       size_text(sector, sizeof(sector),
				 p->device.sector_bytes));
	printf("%s\n\n", p->on_scratch ? ", in memory" : "");
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

	number(kept, sizeof(kept), case_spread(c, round_warm_kept_pages).median,
	       0);
	number(outside, sizeof(outside),
	       case_spread(c, round_warm_pages_outside).median, 0);
	printf(" %8s/%s", kept, outside);
}

static void print_figures(const struct report *r, const struct bench_case *c)
{
	double peak = case_spread(c, round_peak_bytes).median;
	char b[7][64];

	printf(" %8s", number(b[0], sizeof(b[0]),
			      case_spread(c, round_writes).median, 0));
	printf(" %8s", number(b[1], sizeof(b[1]),
			      case_spread(c, round_device_reads).median, 0));
	printf(" %7s", number(b[2], sizeof(b[2]),
			      case_spread(c, round_reads_per_write).median, 4));
	printf(" %8s", number(b[3], sizeof(b[3]),
			      case_spread(c, round_resident).median, 0));
	printf(" %9s", number(b[4], sizeof(b[4]),
			      peak < 0 ? peak : peak / (1 << 20), 1));
	printf(" %20s",
	       spread(b[5], sizeof(b[5]), case_spread(c, round_mib_s_write)));
	printf(" %20s",
	       spread(b[6], sizeof(b[6]), case_spread(c, round_mib_s_stable)));
	if (r->o->warm)
		print_warm(c);
}

static void print_identity(const struct bench_case *c)
{
	printf("%8llu %-5s %-16s", (unsigned long long)c->record,
	       c->dsync ? "dsync" : "-", c->ops->name);
}

static void print_case(const struct report *r, const struct bench_case *c)
{
	print_identity(c);
	if (c->missing[0])
		printf(" missing: %s", c->missing);
	else if (c->error[0])
		printf(" FAILED: %s", c->error);
	else
		print_figures(r, c);
	putchar('\n');
}

static void print_latency(const struct bench_case *c)
{
	static const struct {
		round_figure *of;
		int width, decimals;
	} columns[] = {
		{ round_write_p50_us, 10, 1 },
		{ round_write_p99_us, 10, 1 },
		{ round_write_p999_us, 10, 1 },
		{ round_write_max_us, 10, 1 },
		{ round_flushes_per_write, 8, 4 },
		{ round_device_flushes, 8, 0 },
		{ round_kicks, 8, 0 },
	};
	char text[64];
	size_t i;

	print_identity(c);
	for (i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		printf(" %*s", columns[i].width,
		       number(text, sizeof(text),
			      case_spread(c, columns[i].of).median,
			      columns[i].decimals));
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

void report_table(const struct report *r)
{
	char text[600];

	print_head(r);
	print_cases(r);
	if (r->o->latency)
		print_latencies(r->results);
	printf("\nMedians, with (minimum-maximum). \"To stable\" is until a "
	       "final fsync has returned.\n%s\n",
	       results_good(r->results) ?
		       "The content of every file was verified." :
		       "NOT every file was as it should be.");
	if (sentence_make(r->results, text, sizeof(text)))
		printf("\n%s\n", text);
}

/* SPDX-License-Identifier: MIT */
/*
 * interleaved: the workload in which threads write records interleaved in one
 * file: its options and its figures. The run is run.c.
 */
#include "bench/workload.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "bench/contender.h"
#include "bench/run.h"
#include "bench/say.h"
#include "bench/session.h"
#include "bench/table.h"
#include "bench/values.h"

#define MAX_GAP_US 1000000

static const struct contender_ops *const contenders[] = {
	&contender_kernel_none,
	&contender_kernel_dontcache,
	&contender_kernel_direct,
	&contender_engine_dontcache,
};

#define NR_CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static void help(void)
{
	fputs("Usage: dropbehind bench interleaved [OPTION...]\n"
	      "\n"
	      "N threads write fixed-size records interleaved in one file, "
	      "for each contender\n"
	      "in turn. The content is verified after every run.\n"
	      "\n"
	      "  --records LIST      record sizes "
	      "(default 49152,47008,6000,1000)\n"
	      "  --contenders LIST   of kernel:none, kernel:dontcache, "
	      "kernel:direct,\n"
	      "                      engine:dontcache (default: all)\n"
	      "  --threads N         writers (default 32)\n"
	      "  --total SIZE        bytes in the file (default 1G)\n"
	      "  --dsync WHICH       no, yes or both (default)\n"
	      "  --gap USEC          pause of a thread between two writes\n"
	      "  --overwrite         the file exists already, uncached\n"
	      "  --warm              it exists and is cached; every other row "
	      "of records is\n"
	      "                      overwritten\n"
	      "  --fragment          it exists, in pieces of eight blocks\n",
	      stdout);
	options_help_place();
}

/* ---- options --------------------------------------------------------- */

static bool parse_threads(struct bench_options *o, const char *text)
{
	return value_number("--threads", text, 1, MAX_THREADS, &o->threads);
}

static bool parse_dsync(struct bench_options *o, const char *text)
{
	memset(o->variants, 0, sizeof(o->variants));
	if (!strcmp(text, "both")) {
		o->variants[1].dsync = true;
		o->nr_variants = 2;
	} else if (!strcmp(text, "no") || !strcmp(text, "yes")) {
		o->variants[0].dsync = text[0] == 'y';
		o->nr_variants = 1;
	} else {
		complain("--dsync: '%s' is none of no, yes and both", text);
		return false;
	}
	return true;
}

static bool parse_gap(struct bench_options *o, const char *text)
{
	return value_number("--gap", text, 0, MAX_GAP_US, &o->gap_us);
}

static bool parse_overwrite(struct bench_options *o, const char *text)
{
	(void)text;
	o->overwrite = true;
	return true;
}

static bool parse_warm(struct bench_options *o, const char *text)
{
	(void)text;
	o->warm = true;
	return true;
}

static bool parse_fragment(struct bench_options *o, const char *text)
{
	(void)text;
	o->fragment = true;
	return true;
}

static const struct option_def defs[] = {
	{ "threads", required_argument, parse_threads },
	{ "dsync", required_argument, parse_dsync },
	{ "gap", required_argument, parse_gap },
	{ "overwrite", no_argument, parse_overwrite },
	{ "warm", no_argument, parse_warm },
	{ "fragment", no_argument, parse_fragment },
};

static void defaults(struct bench_options *o)
{
	o->threads = 32;
	parse_dsync(o, "both");
	options_records(o, "49152,47008,6000,1000");
}

/* Its rows of records are overwritten in turn: there must be two. */
static bool check_warm(const struct bench_options *o)
{
	unsigned i;

	for (i = 0; o->warm && i < o->nr_records; i++) {
		if (o->total_bytes / o->records[i] > o->threads)
			continue;
		complain("--warm: --total %llu is too small for two rows of "
			 "%u records of %llu bytes",
			 (unsigned long long)o->total_bytes, o->threads,
			 (unsigned long long)o->records[i]);
		return false;
	}
	return true;
}

static bool check(struct bench_options *o)
{
	if (o->warm && o->overwrite) {
		complain("--warm and --overwrite exclude each other: the file "
			 "is cached or it is not");
		return false;
	}
	o->overwrite |= o->warm || o->fragment;
	return check_warm(o);
}

/* ---- the report ------------------------------------------------------ */

static bool if_warm(const struct bench_options *o)
{
	return o->warm;
}

static bool if_fragment(const struct bench_options *o)
{
	return o->fragment;
}

static const struct figure figures[] = {
	{ .key = "writes", .of = round_writes, .count = true },
	{ .key = "device_reads", .of = round_device_reads, .count = true },
	{ .key = "reads_per_write", .of = round_reads_per_write },
	{ .key = "resident_pages", .of = round_resident, .count = true },
	{ .key = "resident_pages_open",
	  .of = round_resident_open,
	  .count = true },
	{ .key = "kernel_pages_peak",
	  .of = round_kernel_pages_peak,
	  .count = true },
	{ .key = "peak_bytes", .of = round_peak_bytes, .count = true },
	{ .key = "mib_s_write", .of = round_mib_s_write },
	{ .key = "mib_s_stable", .of = round_mib_s_stable, .spread = true },
	{ .key = "close_reads", .of = round_close_reads, .count = true },
	{ .key = "write_p50_us", .of = round_write_p50_us },
	{ .key = "write_p99_us", .of = round_write_p99_us },
	{ .key = "write_p999_us", .of = round_write_p999_us },
	{ .key = "write_max_us", .of = round_write_max_us },
	{ .key = "device_flushes", .of = round_device_flushes, .count = true },
	{ .key = "flushes_per_write", .of = round_flushes_per_write },
	{ .key = "kicks", .of = round_kicks, .count = true },
	{ .key = "warm_pages_outside",
	  .of = round_warm_pages_outside,
	  .count = true,
	  .when = if_warm },
	{ .key = "warm_kept_pages",
	  .of = round_warm_kept_pages,
	  .count = true,
	  .when = if_warm },
	{ .key = "extents",
	  .of = round_extents,
	  .count = true,
	  .when = if_fragment },
};

static void variant_json(struct json_t *o, struct variant v)
{
	json_object_set_new(o, "dsync", json_boolean(v.dsync));
}

static void options_json(struct json_t *o, const struct bench_options *b)
{
	const char *dsync = b->nr_variants == 2	 ? "both" :
			    b->variants[0].dsync ? "yes" :
						   "no";

	json_object_set_new(o, "threads", json_integer(b->threads));
	json_object_set_new(o, "dsync", json_string(dsync));
	json_object_set_new(o, "gap_us", json_integer(b->gap_us));
	json_object_set_new(o, "overwrite", json_boolean(b->overwrite));
	json_object_set_new(o, "warm", json_boolean(b->warm));
	json_object_set_new(o, "fragment", json_boolean(b->fragment));
}

static const struct workload interleaved = {
	.name = "interleaved",
	.options = { .defs = defs,
		     .nr_defs = sizeof(defs) / sizeof(defs[0]),
		     .contenders = contenders,
		     .nr_contenders = NR_CONTENDERS,
		     .defaults = defaults,
		     .check = check,
		     .help = help },
	.figures = figures,
	.nr_figures = sizeof(figures) / sizeof(figures[0]),
	.run = run_once,
	.table = table_interleaved,
	.variant_json = variant_json,
	.options_json = options_json,
};

void interleaved_help(void)
{
	help();
}

int interleaved_main(int argc, char **argv)
{
	return session_main(&interleaved, argc, argv);
}

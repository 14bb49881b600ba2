/* SPDX-License-Identifier: MIT */
/*
 * noisy: the workload in which a file that is cached is read beside writers
 * at full speed: its options and its figures. The run is noisy_run.c.
 */
#include "bench/noisy.h"

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
#include "bench/workload.h"

#define MAX_SECONDS 3600
#define MAX_RATE 1000000

/* What the engine wants beside the cached file. */
#define WRITERS_BUDGET (256 * MIB)

static const struct contender_ops *const contenders[] = {
	&contender_idle,
	&contender_kernel_none,
	&contender_kernel_dontcache,
	&contender_kernel_direct,
	&contender_engine_dontcache,
};

#define NR_CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static void help(void)
{
	fputs("Usage: dropbehind bench noisy [OPTION...]\n"
	      "\n"
	      "A cached file is read at random beside writers of another file "
	      "at full speed, by\n"
	      "each contender in turn: what does a read cost then?\n"
	      "\n"
	      "  --records LIST      record sizes of the writers (default "
	      "47008,1M)\n"
	      "  --contenders LIST   who writes: of idle, kernel:none, "
	      "kernel:dontcache,\n"
	      "                      kernel:direct, engine:dontcache "
	      "(default: all)\n"
	      "  --writers N         writers (default 4)\n"
	      "  --total SIZE        bytes in the file that they write in laps "
	      "(default 1G)\n"
	      "  --readers N         readers (default 1)\n"
	      "  --cache WHICH       who caches what is read, beside the "
	      "engine: kernel, engine\n"
	      "                      or both (default)\n"
	      "  --hot SIZE          bytes in the cached file (default 256M)\n"
	      "  --read-size SIZE    bytes of a read (default 4k)\n"
	      "  --rate N            reads a second of a reader (default 10000; "
	      "0: as many as it\n"
	      "                      can)\n"
	      "  --seconds N         length of a run (default 5)\n",
	      stdout);
	options_help_place();
}

/* The folios of the cached file, and what is kept of each. */
static uint64_t hot_memory(const struct bench_options *o)
{
	return o->hot_bytes + o->hot_bytes / 8;
}

void noisy_budget(const struct bench_options *o, struct variant v,
		  uint64_t *budget_bytes, uint64_t *dirty_bytes)
{
	*budget_bytes = o->budget_bytes;
	*dirty_bytes = 0;
	if (!v.engine_reader)
		return;
	if (!*budget_bytes)
		*budget_bytes = hot_memory(o) + WRITERS_BUDGET;
	*dirty_bytes = (*budget_bytes - hot_memory(o)) / 2;
}

/* ---- options --------------------------------------------------------- */

static bool parse_writers(struct bench_options *o, const char *text)
{
	return value_number("--writers", text, 1, MAX_THREADS, &o->threads);
}

static bool parse_readers(struct bench_options *o, const char *text)
{
	return value_number("--readers", text, 1, MAX_THREADS, &o->readers);
}

static bool parse_cache(struct bench_options *o, const char *text)
{
	memset(o->variants, 0, sizeof(o->variants));
	if (!strcmp(text, "both")) {
		o->variants[1].engine_reader = true;
		o->nr_variants = 2;
	} else if (!strcmp(text, "kernel") || !strcmp(text, "engine")) {
		o->variants[0].engine_reader = text[0] == 'e';
		o->nr_variants = 1;
	} else {
		complain("--cache: '%s' is none of kernel, engine and both",
			 text);
		return false;
	}
	return true;
}

static bool parse_hot(struct bench_options *o, const char *text)
{
	return value_size("--hot", text, 1, &o->hot_bytes);
}

static bool parse_read_size(struct bench_options *o, const char *text)
{
	return value_size("--read-size", text, 1, &o->read_bytes);
}

static bool parse_rate(struct bench_options *o, const char *text)
{
	return value_number("--rate", text, 0, MAX_RATE, &o->rate);
}

static bool parse_seconds(struct bench_options *o, const char *text)
{
	return value_number("--seconds", text, 1, MAX_SECONDS, &o->seconds);
}

static const struct option_def defs[] = {
	{ "writers", required_argument, parse_writers },
	{ "readers", required_argument, parse_readers },
	{ "cache", required_argument, parse_cache },
	{ "hot", required_argument, parse_hot },
	{ "read-size", required_argument, parse_read_size },
	{ "rate", required_argument, parse_rate },
	{ "seconds", required_argument, parse_seconds },
};

static void defaults(struct bench_options *o)
{
	o->threads = 4;
	o->readers = 1;
	o->seconds = 5;
	o->rate = 10000;
	o->hot_bytes = 256 * MIB;
	o->read_bytes = 4 * KIB;
	parse_cache(o, "both");
	options_records(o, "47008,1M");
}

static bool engine_caches(const struct bench_options *o)
{
	return o->variants[o->nr_variants - 1].engine_reader;
}

/* Does an engine with --budget hold the cached file, and a MiB to write? */
static bool check_budget(const struct bench_options *o)
{
	if (!o->budget_bytes || !engine_caches(o) ||
	    o->budget_bytes >= hot_memory(o) + MIB)
		return true;
	complain("--budget: %llu bytes do not hold --hot %llu: at least %llu, "
		 "or --cache kernel",
		 (unsigned long long)o->budget_bytes,
		 (unsigned long long)o->hot_bytes,
		 (unsigned long long)(hot_memory(o) + MIB));
	return false;
}

static bool check(struct bench_options *o)
{
	if (o->read_bytes > o->hot_bytes || o->read_bytes > GIB) {
		complain("--read-size: %llu bytes are more than --hot %llu or "
			 "1G",
			 (unsigned long long)o->read_bytes,
			 (unsigned long long)o->hot_bytes);
		return false;
	}
	return check_budget(o);
}

/* ---- the report ------------------------------------------------------ */

static const struct figure figures[] = {
	{ .key = "reads", .of = round_reads, .count = true },
	{ .key = "reads_per_s", .of = round_reads_per_s, .spread = true },
	{ .key = "read_p50_us", .of = round_read_p50_us },
	{ .key = "read_p99_us", .of = round_read_p99_us },
	{ .key = "read_p999_us", .of = round_read_p999_us, .spread = true },
	{ .key = "read_max_us", .of = round_read_max_us },
	{ .key = "hot_pages", .of = round_hot_pages, .count = true },
	{ .key = "hot_kept_pages", .of = round_hot_kept_pages, .count = true },
	{ .key = "writes", .of = round_writes, .count = true },
	{ .key = "mib_s_write", .of = round_mib_s_write, .spread = true },
	{ .key = "write_p50_us", .of = round_write_p50_us },
	{ .key = "write_p99_us", .of = round_write_p99_us },
	{ .key = "write_p999_us", .of = round_write_p999_us },
	{ .key = "write_max_us", .of = round_write_max_us },
	{ .key = "kicks", .of = round_kicks, .count = true },
};

static void variant_json(struct json_t *o, struct variant v)
{
	json_object_set_new(o, "reader",
			    json_string(v.engine_reader ? "engine" : "kernel"));
}

static void options_json(struct json_t *o, const struct bench_options *b)
{
	const char *cache = b->nr_variants == 2 ? "both" :
			    engine_caches(b)	? "engine" :
						  "kernel";

	json_object_set_new(o, "writers", json_integer(b->threads));
	json_object_set_new(o, "readers", json_integer(b->readers));
	json_object_set_new(o, "cache", json_string(cache));
	json_object_set_new(o, "hot", json_integer((json_int_t)b->hot_bytes));
	json_object_set_new(o, "read_size",
			    json_integer((json_int_t)b->read_bytes));
	json_object_set_new(o, "rate", json_integer(b->rate));
	json_object_set_new(o, "seconds", json_integer(b->seconds));
}

static const struct workload noisy = {
	.name = "noisy",
	.options = { .defs = defs,
		     .nr_defs = sizeof(defs) / sizeof(defs[0]),
		     .contenders = contenders,
		     .nr_contenders = NR_CONTENDERS,
		     .defaults = defaults,
		     .check = check,
		     .help = help },
	.figures = figures,
	.nr_figures = sizeof(figures) / sizeof(figures[0]),
	.run = run_noisy,
	.table = table_noisy,
	.variant_json = variant_json,
	.options_json = options_json,
};

void noisy_help(void)
{
	help();
}

int noisy_main(int argc, char **argv)
{
	return session_main(&noisy, argc, argv);
}

/* SPDX-License-Identifier: MIT */
/*
 * options: parsing, and every complaint about the command line. Whether the
 * machine can do what is asked is not decided here, but for root.
 */
#include "bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/contender.h"
#include "bench/say.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#define MAX_THREADS 4096
#define MAX_ROUNDS 1000
#define MAX_GAP_US 1000000
#define MAX_RECORD_BYTES GIB

enum {
	OPT_THREADS = 256,
	OPT_TOTAL,
	OPT_RECORDS,
	OPT_CONTENDERS,
	OPT_DSYNC,
	OPT_ROUNDS,
	OPT_GAP,
	OPT_OVERWRITE,
	OPT_WARM,
	OPT_FRAGMENT,
	OPT_BUDGET,
	OPT_DIR,
	OPT_SCRATCH,
	OPT_BLOCK_SIZE,
	OPT_LATENCY,
	OPT_JSON,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "total", required_argument, NULL, OPT_TOTAL },
	{ "records", required_argument, NULL, OPT_RECORDS },
	{ "contenders", required_argument, NULL, OPT_CONTENDERS },
	{ "dsync", required_argument, NULL, OPT_DSYNC },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "gap", required_argument, NULL, OPT_GAP },
	{ "overwrite", no_argument, NULL, OPT_OVERWRITE },
	{ "warm", no_argument, NULL, OPT_WARM },
	{ "fragment", no_argument, NULL, OPT_FRAGMENT },
	{ "budget", required_argument, NULL, OPT_BUDGET },
	{ "dir", required_argument, NULL, OPT_DIR },
	{ "scratch", optional_argument, NULL, OPT_SCRATCH },
	{ "block-size", required_argument, NULL, OPT_BLOCK_SIZE },
	{ "latency", no_argument, NULL, OPT_LATENCY },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

void options_help(void)
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
	      "  --rounds N          counted runs of each case (default 3)\n"
	      "  --gap USEC          pause of a thread between two writes\n"
	      "  --overwrite         the file exists already, uncached\n"
	      "  --warm              it exists and is cached; every other row "
	      "of records is\n"
	      "                      overwritten\n"
	      "  --fragment          it exists, in pieces of eight blocks\n"
	      "  --budget SIZE       memory of the engine (at least 1M)\n"
	      "  --dir DIR           where to write (default $TMPDIR or the "
	      "current directory)\n"
	      "  --scratch[=FS]      on a fresh xfs (default), ext4 or btrfs "
	      "in memory; root only\n"
	      "  --block-size SIZE   block size of the scratch file system\n"
	      "  --latency           a second table: latencies, flushes and "
	      "kick rounds\n"
	      "  --json              print one JSON object instead of the "
	      "table\n"
	      "\n"
	      "Sizes take the suffixes k, M and G. See "
	      "dropbehind-bench(1).\n",
	      stdout);
}

static bool parse_size(const char *text, uint64_t *out)
{
	uint64_t unit = 1;
	unsigned long long value;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return false;
	switch (*end) {
	case 'k':
	case 'K':
		unit = KIB;
		break;
	case 'm':
	case 'M':
		unit = MIB;
		break;
	case 'g':
	case 'G':
		unit = GIB;
		break;
	}
	if (unit != 1)
		end++;
	if (*end || value > (uint64_t)INT64_MAX / unit)
		return false;
	*out = value * unit;
	return true;
}

static bool need_size(const char *name, const char *text, uint64_t min,
		      uint64_t *out)
{
	if (!parse_size(text, out)) {
		complain("%s: '%s' is not a size", name, text);
		return false;
	}
	if (*out < min) {
		complain("%s: '%s' is too small: at least %llu bytes", name,
			 text, (unsigned long long)min);
		return false;
	}
	return true;
}

static bool need_number(const char *name, const char *text, unsigned min,
			unsigned max, unsigned *out)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9') {
		complain("%s: '%s' is not a number", name, text);
		return false;
	}
	if (value < min || value > max) {
		complain("%s: %s is out of range (%u to %u)", name, text, min,
			 max);
		return false;
	}
	*out = (unsigned)value;
	return true;
}

static bool add_record(struct bench_options *o, const char *item)
{
	uint64_t size;
	unsigned i;

	if (!need_size("--records", item, 1, &size))
		return false;
	if (size > MAX_RECORD_BYTES) {
		complain("--records: '%s' is too large: at most 1G", item);
		return false;
	}
	for (i = 0; i < o->nr_records; i++) {
		if (o->records[i] == size) {
			complain("--records: %s is named twice", item);
			return false;
		}
	}
	if (o->nr_records == MAX_RECORDS) {
		complain("--records: more than %d sizes", MAX_RECORDS);
		return false;
	}
	o->records[o->nr_records++] = size;
	return true;
}

static bool add_contender(struct bench_options *o, const char *item)
{
	const struct contender_ops *ops = contender_find(item);
	unsigned i;

	if (!ops) {
		complain("--contenders: unknown contender '%s' (kernel:none, "
			 "kernel:dontcache, kernel:direct, engine:dontcache)",
			 item);
		return false;
	}
	for (i = 0; i < o->nr_contenders; i++) {
		if (o->contenders[i] == ops) {
			complain("--contenders: %s is named twice", item);
			return false;
		}
	}
	o->contenders[o->nr_contenders++] = ops;
	return true;
}

/* Each element between commas; an empty one is the adder's to complain of. */
static bool parse_list(struct bench_options *o, const char *text,
		       bool (*add)(struct bench_options *, const char *))
{
	char *copy = strdup(text);
	char *rest = copy;
	bool good = copy;
	char *item;

	while (good && (item = strsep(&rest, ",")))
		good = add(o, item);
	free(copy);
	return good;
}

static bool parse_dsync(struct bench_options *o, const char *text)
{
	if (!strcmp(text, "both")) {
		o->dsync[0] = false;
		o->dsync[1] = true;
		o->nr_dsync = 2;
	} else if (!strcmp(text, "no") || !strcmp(text, "yes")) {
		o->dsync[0] = text[0] == 'y';
		o->nr_dsync = 1;
	} else {
		complain("--dsync: '%s' is none of no, yes and both", text);
		return false;
	}
	return true;
}

/* @name: NULL: the default. Return: NULL if it is none. */
static const char *find_scratch_fs(const char *name)
{
	static const char *const known[] = { "xfs", "ext4", "btrfs" };
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!name || !strcmp(name, known[i]))
			return known[i];
	return NULL;
}

static bool parse_scratch(struct bench_options *o, const char *text)
{
	o->scratch_fs = find_scratch_fs(text);
	if (o->scratch_fs)
		return true;
	complain("--scratch: unknown file system '%s' (xfs, ext4 or btrfs)",
		 text);
	return false;
}

static bool parse_one(struct bench_options *o, int opt)
{
	switch (opt) {
	case OPT_THREADS:
		return need_number("--threads", optarg, 1, MAX_THREADS,
				   &o->threads);
	case OPT_TOTAL:
		return need_size("--total", optarg, 1, &o->total_bytes);
	case OPT_RECORDS:
		o->nr_records = 0;
		return parse_list(o, optarg, add_record);
	case OPT_CONTENDERS:
		o->nr_contenders = 0;
		return parse_list(o, optarg, add_contender);
	case OPT_DSYNC:
		return parse_dsync(o, optarg);
	case OPT_ROUNDS:
		return need_number("--rounds", optarg, 1, MAX_ROUNDS,
				   &o->rounds);
	case OPT_GAP:
		return need_number("--gap", optarg, 0, MAX_GAP_US, &o->gap_us);
	case OPT_BUDGET:
		return need_size("--budget", optarg, MIB, &o->budget_bytes);
	case OPT_SCRATCH:
		return parse_scratch(o, optarg);
	case OPT_BLOCK_SIZE:
		return need_size("--block-size", optarg, 512, &o->block_bytes);
	case OPT_DIR:
		o->dir = optarg;
		return true;
	case OPT_OVERWRITE:
		o->overwrite = true;
		return true;
	case OPT_WARM:
		o->warm = true;
		return true;
	case OPT_FRAGMENT:
		o->fragment = true;
		return true;
	case OPT_LATENCY:
		o->latency = true;
		return true;
	case OPT_JSON:
		o->json = true;
		return true;
	}
	return false;
}

static bool block_size_fits(const struct bench_options *o)
{
	/* XFS with its checksums begins at 1 KiB, as ext4 does. */
	uint64_t min = KIB;
	uint64_t max = strcmp(o->scratch_fs, "xfs") ? 4 * KIB : 64 * KIB;
	uint64_t size = o->block_bytes;

	if (!strcmp(o->scratch_fs, "btrfs")) {
		complain("--block-size: btrfs has blocks of 4 KiB only");
		return false;
	}
	if (size < min || size > max || (size & (size - 1))) {
		complain("--block-size: %s takes a power of two from %llu to "
			 "%llu bytes, not %llu",
			 o->scratch_fs, (unsigned long long)min,
			 (unsigned long long)max, (unsigned long long)size);
		return false;
	}
	return true;
}

static bool check_place(const struct bench_options *o)
{
	if (o->dir && o->scratch_fs) {
		complain("--dir and --scratch exclude each other");
		return false;
	}
	if (o->block_bytes && !o->scratch_fs) {
		complain("--block-size needs --scratch");
		return false;
	}
	if (o->block_bytes && !block_size_fits(o))
		return false;
	if (o->scratch_fs && geteuid() != 0) {
		complain("--scratch needs root: it attaches a loop device and "
			 "mounts it (use --dir DIR without root)");
		return false;
	}
	return true;
}

static bool check_sizes(const struct bench_options *o)
{
	unsigned i;

	for (i = 0; i < o->nr_records; i++) {
		if (o->records[i] <= o->total_bytes)
			continue;
		complain("--records: a record of %llu bytes does not fit "
			 "into --total %llu",
			 (unsigned long long)o->records[i],
			 (unsigned long long)o->total_bytes);
		return false;
	}
	return true;
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

static void set_defaults(struct bench_options *o)
{
	memset(o, 0, sizeof(*o));
	o->threads = 32;
	o->total_bytes = GIB;
	o->rounds = 3;
	parse_dsync(o, "both");
	parse_list(o, "49152,47008,6000,1000", add_record);
	o->nr_contenders = contender_all(o->contenders, MAX_CONTENDERS);
}

/* getopt has refused it: which of the reasons it was is in optopt. */
static void complain_option(const char *arg)
{
	if (optopt >= OPT_THREADS)
		complain("'%s': this option takes no value", arg);
	else if (optopt)
		complain("unknown option '-%c' (see --help)", optopt);
	else
		complain("unknown option '%s' (see --help)", arg);
}

/* A value that is optional follows a '=', or getopt does not see it. */
static void complain_argument(const struct bench_options *o, const char *arg)
{
	if (o->scratch_fs && find_scratch_fs(arg))
		complain("unexpected argument '%s': did you mean "
			 "--scratch=%s?",
			 arg, arg);
	else
		complain("unexpected argument '%s'", arg);
}

enum options_verdict options_parse(int argc, char **argv,
				   struct bench_options *o)
{
	int opt;

	set_defaults(o);
	opterr = 0;
	optind = 0;
	while ((opt = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		if (opt == OPT_HELP)
			return OPTIONS_HELP;
		if (opt == ':') {
			complain("%s needs a value", argv[optind - 1]);
			return OPTIONS_BAD;
		}
		if (opt == '?') {
			complain_option(argv[optind - 1]);
			return OPTIONS_BAD;
		}
		if (!parse_one(o, opt))
			return OPTIONS_BAD;
	}
	if (optind < argc) {
		complain_argument(o, argv[optind]);
		return OPTIONS_BAD;
	}
	if (o->warm && o->overwrite) {
		complain("--warm and --overwrite exclude each other: the file "
			 "is cached or it is not");
		return OPTIONS_BAD;
	}
	o->overwrite |= o->warm || o->fragment;
	if (!check_sizes(o) || !check_warm(o) || !check_place(o))
		return OPTIONS_BAD;
	return OPTIONS_RUN;
}

/* SPDX-License-Identifier: MIT */
/*
 * options: parsing, and the complaints about what all workloads have. Whether
 * the machine can do what is asked is not decided here, but for root.
 */
#include "bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/contender.h"
#include "bench/say.h"
#include "bench/values.h"

#define MAX_ROUNDS 1000
#define MAX_RECORD_BYTES GIB
#define MAX_OPTIONS 32

/* What getopt returns: this and the number of the option. */
#define OPT_FIRST 256

void options_help_place(void)
{
	fputs("  --rounds N          counted runs of each case (default 3)\n"
	      "  --budget SIZE       memory of the engine (at least 1M)\n"
	      "  --kick WHO          who starts its writeback: flusher (default), "
	      "inline\n"
	      "  --control PATH      its control socket, for dropbehind stat "
	      "and trace\n"
	      "  --dir DIR           where to write (default $TMPDIR or the "
	      "current directory)\n"
	      "  --scratch[=FS]      on a fresh xfs (default), ext4 or btrfs "
	      "in memory; root only\n"
	      "  --block-size SIZE   block size of the scratch file system\n"
	      "  --latency           a second table: latencies of writes, "
	      "flushes, kick rounds\n"
	      "  --json              print one JSON object instead of the "
	      "table\n"
	      "\n"
	      "Sizes take the suffixes k, M and G. See "
	      "dropbehind-bench(1).\n",
	      stdout);
}

/* ---- what all workloads have ----------------------------------------- */

static bool add_record(struct bench_options *o, const char *item)
{
	uint64_t size;
	unsigned i;

	if (!value_size("--records", item, 1, &size))
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

bool options_records(struct bench_options *o, const char *text)
{
	o->nr_records = 0;
	return value_list(o, text, add_record);
}

static const struct contender_ops *find_contender(const struct options_spec *s,
						  const char *name)
{
	unsigned i;

	for (i = 0; i < s->nr_contenders; i++)
		if (!strcmp(s->contenders[i]->name, name))
			return s->contenders[i];
	return NULL;
}

static void complain_contender(const struct options_spec *s, const char *item)
{
	char known[200] = "";
	unsigned i;

	for (i = 0; i < s->nr_contenders; i++) {
		strcat(known, i ? ", " : "");
		strcat(known, s->contenders[i]->name);
	}
	complain("--contenders: unknown contender '%s' (%s)", item, known);
}

static bool add_contender(struct bench_options *o, const char *item)
{
	const struct contender_ops *ops = find_contender(o->spec, item);
	unsigned i;

	if (!ops) {
		complain_contender(o->spec, item);
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

static bool parse_contenders(struct bench_options *o, const char *text)
{
	o->nr_contenders = 0;
	return value_list(o, text, add_contender);
}

static bool parse_total(struct bench_options *o, const char *text)
{
	return value_size("--total", text, 1, &o->total_bytes);
}

static bool parse_rounds(struct bench_options *o, const char *text)
{
	return value_number("--rounds", text, 1, MAX_ROUNDS, &o->rounds);
}

static bool parse_budget(struct bench_options *o, const char *text)
{
	return value_size("--budget", text, MIB, &o->budget_bytes);
}

static bool parse_kick(struct bench_options *o, const char *text)
{
	if (!strcmp(text, "flusher"))
		o->kick = DBH_KICK_FLUSHER;
	else if (!strcmp(text, "inline"))
		o->kick = DBH_KICK_INLINE;
	else {
		complain("--kick: %s is not one of flusher, inline", text);
		return false;
	}
	return true;
}

static bool parse_control(struct bench_options *o, const char *text)
{
	if (!*text)
		complain("--control: a path is empty");
	o->control_path = text;
	return *text;
}

static bool parse_block_size(struct bench_options *o, const char *text)
{
	return value_size("--block-size", text, 512, &o->block_bytes);
}

static bool parse_dir(struct bench_options *o, const char *text)
{
	o->dir = text;
	return true;
}

static bool parse_latency(struct bench_options *o, const char *text)
{
	(void)text;
	o->latency = true;
	return true;
}

static bool parse_json(struct bench_options *o, const char *text)
{
	(void)text;
	o->json = true;
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

/* ---- the parser ------------------------------------------------------ */

static const struct option_def shared_defs[] = {
	{ "records", required_argument, options_records },
	{ "contenders", required_argument, parse_contenders },
	{ "total", required_argument, parse_total },
	{ "rounds", required_argument, parse_rounds },
	{ "budget", required_argument, parse_budget },
	{ "kick", required_argument, parse_kick },
	{ "control", required_argument, parse_control },
	{ "dir", required_argument, parse_dir },
	{ "scratch", optional_argument, parse_scratch },
	{ "block-size", required_argument, parse_block_size },
	{ "latency", no_argument, parse_latency },
	{ "json", no_argument, parse_json },
	{ "help", no_argument, NULL },
};

#define NR_SHARED (sizeof(shared_defs) / sizeof(shared_defs[0]))

/* The workload's own come first; @defs and @options have MAX_OPTIONS. */
static void gather(const struct options_spec *spec,
		   const struct option_def **defs, struct option *options)
{
	unsigned i, n = spec->nr_defs + (unsigned)NR_SHARED;

	for (i = 0; i < n; i++) {
		defs[i] = i < spec->nr_defs ? &spec->defs[i] :
					      &shared_defs[i - spec->nr_defs];
		options[i] = (struct option){ .name = defs[i]->name,
					      .has_arg = defs[i]->has_arg,
					      .val = OPT_FIRST + (int)i };
	}
	options[n] = (struct option){ 0 };
}

/* getopt has refused it: which of the reasons it was is in optopt. */
static void complain_option(const char *arg)
{
	if (optopt >= OPT_FIRST)
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

static enum options_verdict parse_all(int argc, char **argv,
				      struct bench_options *o)
{
	const struct option_def *defs[MAX_OPTIONS];
	struct option options[MAX_OPTIONS];
	int opt;

	gather(o->spec, defs, options);
	opterr = 0;
	optind = 0;
	while ((opt = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (opt == ':') {
			complain("%s needs a value", argv[optind - 1]);
			return OPTIONS_BAD;
		}
		if (opt == '?') {
			complain_option(argv[optind - 1]);
			return OPTIONS_BAD;
		}
		if (!defs[opt - OPT_FIRST]->parse)
			return OPTIONS_HELP;
		if (!defs[opt - OPT_FIRST]->parse(o, optarg))
			return OPTIONS_BAD;
	}
	if (optind < argc) {
		complain_argument(o, argv[optind]);
		return OPTIONS_BAD;
	}
	return OPTIONS_RUN;
}

static void set_defaults(struct bench_options *o,
			 const struct options_spec *spec)
{
	memset(o, 0, sizeof(*o));
	o->spec = spec;
	o->total_bytes = GIB;
	o->rounds = 3;
	o->nr_variants = 1;
	memcpy(o->contenders, spec->contenders,
	       spec->nr_contenders * sizeof(o->contenders[0]));
	o->nr_contenders = spec->nr_contenders;
	spec->defaults(o);
}

enum options_verdict options_parse(int argc, char **argv,
				   const struct options_spec *spec,
				   struct bench_options *o)
{
	enum options_verdict verdict;

	set_defaults(o, spec);
	verdict = parse_all(argc, argv, o);
	if (verdict != OPTIONS_RUN)
		return verdict;
	if (!check_sizes(o) || !spec->check(o) || !check_place(o))
		return OPTIONS_BAD;
	return OPTIONS_RUN;
}

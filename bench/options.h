/* SPDX-License-Identifier: MIT */
/*
 * options: what the command line of a workload asked for. Here are those that
 * all workloads have, and the parser; a workload adds its own.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_RECORDS 64
#define MAX_CONTENDERS 8
#define MAX_VARIANTS 2
#define MAX_THREADS 4096

struct contender_ops;
struct options_spec;

/** struct variant - in what else cases differ; of each workload one of them */
struct variant {
	bool dsync; /* interleaved: every write is durable */
	bool engine_reader; /* noisy: the engine has the cached file */
};

/** struct bench_options - parsed, checked, with defaults filled in */
struct bench_options {
	const struct options_spec *spec;
	unsigned threads; /* writers */
	unsigned rounds;
	uint64_t total_bytes;
	uint64_t records[MAX_RECORDS]; /* sizes in bytes */
	unsigned nr_records;
	const struct contender_ops *contenders[MAX_CONTENDERS];
	unsigned nr_contenders;
	struct variant variants[MAX_VARIANTS]; /* to run, in order */
	unsigned nr_variants;
	bool latency; /* the table has it too */
	bool json;
	uint64_t budget_bytes; /* of the engine; 0: its default */
	unsigned kick; /* who starts its writeback: enum dbh_kick */
	const char *control_path; /* of its control socket; NULL: none */
	const char *dir; /* where the file goes; NULL: a default */
	const char *scratch_fs; /* a fresh file system instead; NULL: no */
	uint64_t block_bytes; /* of the scratch file system; 0: its default */

	/* interleaved */
	unsigned gap_us; /* between two writes of one thread */
	bool overwrite; /* the file exists; implied by the next two */
	bool warm; /* and is cached */
	bool fragment; /* and lies in small pieces */

	/* noisy */
	unsigned readers;
	unsigned seconds; /* of a run */
	unsigned rate; /* reads a second of a reader; 0: no limit */
	uint64_t hot_bytes; /* of the cached file; 0: there is none */
	uint64_t read_bytes; /* of a read */
};

/**
 * struct option_def - an option
 * @has_arg: as for getopt_long()
 * @parse: @text is the value, or NULL; false if it is refused, which it has
 *	complained about
 */
struct option_def {
	const char *name;
	int has_arg;
	bool (*parse)(struct bench_options *o, const char *text);
};

/**
 * struct options_spec - what a workload has of its own
 * @contenders: that it knows, in their order
 * @defaults: fill in what is not zero; the contenders are all already
 * @check: do they go together? Complains if not.
 * @help: print what `--help` prints, on standard output
 */
struct options_spec {
	const struct option_def *defs;
	unsigned nr_defs;
	const struct contender_ops *const *contenders;
	unsigned nr_contenders;
	void (*defaults)(struct bench_options *o);
	bool (*check)(struct bench_options *o);
	void (*help)(void);
};

enum options_verdict { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_BAD };

/**
 * options_parse - the arguments of `dropbehind bench WORKLOAD`
 * @argv: argv[0] is the workload's name
 * @o: refers to @argv and @spec from then on
 */
enum options_verdict options_parse(int argc, char **argv,
				   const struct options_spec *spec,
				   struct bench_options *o);

/** options_records - as --records does; for defaults. */
bool options_records(struct bench_options *o, const char *text);

/** options_help_place - the lines of --help on where to write and how. */
void options_help_place(void);

#endif

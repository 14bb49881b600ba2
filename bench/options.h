/* SPDX-License-Identifier: MIT */
/*
 * options: what the command line of a workload asked for.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_RECORDS 64
#define MAX_CONTENDERS 8

struct contender_ops;

/** struct bench_options - parsed, checked, with defaults filled in */
struct bench_options {
	unsigned threads;
	unsigned rounds;
	uint64_t total_bytes;
	uint64_t records[MAX_RECORDS]; /* sizes in bytes */
	unsigned nr_records;
	const struct contender_ops *contenders[MAX_CONTENDERS];
	unsigned nr_contenders;
	bool dsync[2]; /* the variants to run, in order */
	unsigned nr_dsync;
	unsigned gap_us; /* between two writes of one thread */
	bool overwrite; /* the file exists; implied by the next two */
	bool warm; /* and is cached */
	bool fragment; /* and lies in small pieces */
	bool latency; /* the table has it too */
	bool json;
	uint64_t budget_bytes; /* of the engine; 0: its default */
	const char *dir; /* where the file goes; NULL: a default */
	const char *scratch_fs; /* a fresh file system instead; NULL: no */
	uint64_t block_bytes; /* of the scratch file system; 0: its default */
};

enum options_verdict { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_BAD };

/**
 * options_parse - the arguments of `dropbehind bench interleaved`
 * @argv: argv[0] is the workload's name
 */
enum options_verdict options_parse(int argc, char **argv,
				   struct bench_options *o);

/** options_help - what `--help` prints, on standard output. */
void options_help(void);

#endif

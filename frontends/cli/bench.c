/* SPDX-License-Identifier: MIT */
/*
 * bench: `dropbehind bench WORKLOAD`. The workloads are in bench/.
 */
#include "frontends/cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "bench/workload.h"

struct workload {
	const char *name;
	const char *summary;
	int (*main)(int argc, char **argv);
	void (*help)(void);
};

static const struct workload workloads[] = {
	{ "interleaved", "threads write records interleaved in one file",
	  interleaved_main, interleaved_help },
	{ "noisy", "a cached file is read beside writers at full speed",
	  noisy_main, noisy_help },
};

#define NR_WORKLOADS (sizeof(workloads) / sizeof(workloads[0]))

static void print_help(FILE *to)
{
	size_t i;

	fputs("Usage: dropbehind bench WORKLOAD [OPTION...]\n"
	      "\n"
	      "Puts the engine beside what the running kernel has to offer.\n"
	      "\n",
	      to);
	for (i = 0; i < NR_WORKLOADS; i++)
		fprintf(to, "  %-12s %s\n", workloads[i].name,
			workloads[i].summary);
	fputs("\n"
	      "See dropbehind bench WORKLOAD --help, and "
	      "dropbehind-bench(1).\n",
	      to);
}

static const struct workload *find(const char *name)
{
	size_t i;

	for (i = 0; i < NR_WORKLOADS; i++)
		if (!strcmp(workloads[i].name, name))
			return &workloads[i];
	fprintf(stderr,
		"dropbehind bench: unknown workload '%s' (see dropbehind "
		"bench --help)\n",
		name);
	return NULL;
}

static int bench_help(int argc, char **argv)
{
	const struct workload *workload;

	if (argc < 2) {
		print_help(stdout);
		return 0;
	}
	workload = find(argv[1]);
	if (!workload)
		return CLI_USAGE;
	if (argc > 2) {
		fprintf(stderr, "dropbehind help: unexpected argument '%s'\n",
			argv[2]);
		return CLI_USAGE;
	}
	workload->help();
	return 0;
}

static int bench_main(int argc, char **argv)
{
	const struct workload *workload;

	if (argc < 2) {
		fputs("dropbehind bench: which workload?\n\n", stderr);
		print_help(stderr);
		return CLI_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
		return 0;
	}
	workload = find(argv[1]);
	return workload ? workload->main(argc - 1, argv + 1) : CLI_USAGE;
}

const struct subcommand cmd_bench = {
	.name = "bench",
	.summary = "put the engine beside the kernel",
	.main = bench_main,
	.help = bench_help,
};

/* SPDX-License-Identifier: MIT */
/*
 * cli: the subcommands of `dropbehind`.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#define CLI_USAGE 2 /* exit status: the command line was wrong */

/**
 * struct subcommand - one word after `dropbehind`
 * @main: argv[0] is the word; returns an exit status
 * @help: prints what it takes, on standard output
 */
struct subcommand {
	const char *name;
	const char *summary;
	int (*main)(int argc, char **argv);
	void (*help)(void);
};

extern const struct subcommand cmd_bench;

#endif

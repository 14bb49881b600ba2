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
 * @help: prints what it takes, on standard output; argv[0] is the word, and
 *	more words ask for a part of it; returns an exit status
 */
struct subcommand {
	const char *name;
	const char *summary;
	int (*main)(int argc, char **argv);
	int (*help)(int argc, char **argv);
};

extern const struct subcommand cmd_bench;
extern const struct subcommand cmd_stat;
extern const struct subcommand cmd_trace;

#endif

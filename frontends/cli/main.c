/* SPDX-License-Identifier: MIT */
/*
 * main: the `dropbehind` command: finds the subcommand, and no more.
 */
#include "frontends/cli/cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <dropbehind/dropbehind.h>

static const struct subcommand *const subcommands[] = {
	&cmd_bench,
	&cmd_stat,
	&cmd_trace,
};

#define NR_SUBCOMMANDS (sizeof(subcommands) / sizeof(subcommands[0]))

static const struct subcommand *find(const char *name)
{
	size_t i;

	for (i = 0; i < NR_SUBCOMMANDS; i++)
		if (!strcmp(subcommands[i]->name, name))
			return subcommands[i];
	return NULL;
}

static void print_help(FILE *to)
{
	size_t i;

	fputs("Usage: dropbehind SUBCOMMAND [ARGUMENT...]\n"
	      "       dropbehind help [SUBCOMMAND [WORD]]\n"
	      "       dropbehind --help | --version\n"
	      "\n"
	      "Uncached buffered I/O for any Linux.\n"
	      "\n",
	      to);
	for (i = 0; i < NR_SUBCOMMANDS; i++)
		fprintf(to, "  %-8s %s\n", subcommands[i]->name,
			subcommands[i]->summary);
}

static int unknown(const char *name)
{
	fprintf(stderr, "dropbehind: unknown %s '%s' (see dropbehind --help)\n",
		name[0] == '-' ? "option" : "subcommand", name);
	return CLI_USAGE;
}

static int help(int argc, char **argv)
{
	const struct subcommand *cmd;

	if (argc < 2) {
		print_help(stdout);
		return 0;
	}
	cmd = find(argv[1]);
	if (!cmd)
		return unknown(argv[1]);
	return cmd->help(argc - 1, argv + 1);
}

static bool is(const char *arg, const char *word, const char *letter)
{
	return !strcmp(arg, word) || !strcmp(arg, letter);
}

int main(int argc, char **argv)
{
	const struct subcommand *cmd;

	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (is(argv[1], "--version", "-V")) {
		printf("dropbehind %s\n", dbh_version());
		return 0;
	}
	if (is(argv[1], "--help", "-h") || !strcmp(argv[1], "help"))
		return help(argc - 1, argv + 1);
	cmd = find(argv[1]);
	if (!cmd)
		return unknown(argv[1]);
	return cmd->main(argc - 1, argv + 1);
}

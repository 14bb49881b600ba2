// SPDX-License-Identifier: MIT
/*
 * stat: `dropbehind stat PID|SOCKET`.
 */
#include "frontends/cli/stat.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontends/cli/cli.h"
#include "frontends/cli/socket.h"

#define PATIENCE_MS 5000
#define WATCH_MAX 86400.0

struct stat_options {
	const char *target;
	double watch; /* seconds; 0: once */
	void (*put)(const json_t *stat);
	bool help;
};

static void put_json(const json_t *stat)
{
	json_dumpf(stat, stdout, JSON_COMPACT);
	putchar('\n');
}

static void print_help(void)
{
	fputs("Usage: dropbehind stat [OPTION...] PID|SOCKET\n"
	      "\n"
	      "Prints the counters of a running engine that has a control "
	      "socket.\n"
	      "\n"
	      "  --watch[=SECONDS]   again and again (default: every second)\n"
	      "  --json              one line of JSON each time\n"
	      "  --prometheus        in the exposition format of Prometheus\n"
	      "\n"
	      "See dropbehind-stat(1).\n",
	      stdout);
}

static int bad(const char *fmt, const char *arg)
{
	fputs("dropbehind stat: ", stderr);
	fprintf(stderr, fmt, arg);
	fputs(" (see dropbehind stat --help)\n", stderr);
	return CLI_USAGE;
}

static int parse_watch(const char *text, double *out)
{
	char *end;
	double value = text ? strtod(text, &end) : 1.0;

	if (text && (end == text || *end || !(value >= 0.01) ||
		     value > WATCH_MAX))
		return bad("--watch: '%s' is no number of seconds from 0.01 "
			   "to 86400",
			   text);
	*out = value;
	return 0;
}

static int set_format(struct stat_options *o, void (*put)(const json_t *))
{
	if (o->put && o->put != put)
		return bad("%s", "--json and --prometheus exclude each other");
	o->put = put;
	return 0;
}

static int parse_one(struct stat_options *o, int opt, char **argv)
{
	switch (opt) {
	case 'w':
		return parse_watch(optarg, &o->watch);
	case 'j':
		return set_format(o, put_json);
	case 'p':
		return set_format(o, stat_prometheus);
	case 'h':
		o->help = true;
		return 0;
	}
	return bad("unknown option or no value for it: '%s'", argv[optind - 1]);
}

static int parse(int argc, char **argv, struct stat_options *o)
{
	static const struct option options[] = {
		{ "watch", optional_argument, NULL, 'w' },
		{ "json", no_argument, NULL, 'j' },
		{ "prometheus", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int opt, ret;

	opterr = 0;
	optind = 0;
	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		ret = parse_one(o, opt, argv);
		if (ret || o->help)
			return ret;
	}
	if (optind == argc)
		return bad("%s", "of which process, or at which socket?");
	if (optind + 1 < argc)
		return bad("unexpected argument '%s'", argv[optind + 1]);
	o->target = argv[optind];
	if (!o->put)
		o->put = stat_text;
	return 0;
}

/* Return: an exit status. */
static int ask_once(const struct stat_options *o)
{
	struct socket_reader r = { .who = "stat", .patience_ms = PATIENCE_MS };
	json_t *stat = NULL;
	bool end = false;

	r.fd = socket_open("stat", o->target);
	if (r.fd < 0)
		return 1;
	if (!socket_ask(&r, "stat\n"))
		stat = socket_json(&r, &end);
	if (end)
		fprintf(stderr, "dropbehind stat: %s: it went away\n",
			o->target);
	socket_fini(&r);
	if (!stat)
		return 1;
	o->put(stat);
	json_decref(stat);
	return fflush(stdout) || ferror(stdout);
}

/* A signal that ends it gives 130, as with other subcommands. */
static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static int watch(const struct stat_options *o)
{
	struct timespec ts = { (time_t)o->watch,
			       (long)((o->watch - (time_t)o->watch) * 1e9) };
	struct sigaction sa = { .sa_handler = on_signal };
	int ret;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	do {
		ret = ask_once(o);
		if (ret || interrupted || nanosleep(&ts, NULL))
			break;
		if (o->put != put_json)
			putchar('\n');
	} while (!interrupted);
	return interrupted ? 130 : ret;
}

static int stat_main(int argc, char **argv)
{
	struct stat_options o = { 0 };
	int ret = parse(argc, argv, &o);

	if (ret)
		return ret;
	if (o.help) {
		print_help();
		return 0;
	}
	return o.watch > 0 ? watch(&o) : ask_once(&o);
}

static int stat_help(int argc, char **argv)
{
	if (argc > 1) {
		fprintf(stderr, "dropbehind help: unexpected argument '%s'\n",
			argv[1]);
		return CLI_USAGE;
	}
	print_help();
	return 0;
}

const struct subcommand cmd_stat = {
	.name = "stat",
	.summary = "the counters of a running engine",
	.main = stat_main,
	.help = stat_help,
};

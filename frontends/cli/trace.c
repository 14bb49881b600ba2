// SPDX-License-Identifier: MIT
/*
 * trace: `dropbehind trace PID|SOCKET`: events as they come.
 */
#include "frontends/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/cli/socket.h"

#define PATIENCE_MS 5000

struct trace_options {
	const char *target;
	const char *events; /* NULL: all */
	uint64_t count; /* 0: until it is interrupted */
	bool json;
	bool help;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static void print_help(void)
{
	fputs("Usage: dropbehind trace [OPTION...] PID|SOCKET\n"
	      "\n"
	      "Prints what a running engine does, as it does it.\n"
	      "\n"
	      "  --events LIST   of edge_created, edge_covered, "
	      "edge_completed,\n"
	      "                  edge_expired, writeback_start, "
	      "writeback_written, kick,\n"
	      "                  bio_submit, bio_complete, flush (default: "
	      "all)\n"
	      "  --count N       end after N events\n"
	      "  --json          a line of JSON for each\n"
	      "\n"
	      "See dropbehind-trace(1).\n",
	      stdout);
}

static int bad(const char *fmt, const char *arg)
{
	fputs("dropbehind trace: ", stderr);
	fprintf(stderr, fmt, arg);
	fputs(" (see dropbehind trace --help)\n", stderr);
	return CLI_USAGE;
}

static int parse_count(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || !*out)
		return bad("--count: '%s' is no number from 1 on", text);
	return 0;
}

static int parse_events(const char *text, const char **out)
{
	/* A name that the engine does not know it will complain about; here
	 * only what would not be one line. */
	if (!*text || strlen(text) > 400 ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyz_,") != strlen(text))
		return bad("--events: '%s' is no list of events", text);
	*out = text;
	return 0;
}

static int parse_one(struct trace_options *o, int opt, char **argv)
{
	switch (opt) {
	case 'e':
		return parse_events(optarg, &o->events);
	case 'n':
		return parse_count(optarg, &o->count);
	case 'j':
		o->json = true;
		return 0;
	case 'h':
		o->help = true;
		return 0;
	}
	return bad("unknown option or no value for it: '%s'", argv[optind - 1]);
}

static int parse(int argc, char **argv, struct trace_options *o)
{
	static const struct option options[] = {
		{ "events", required_argument, NULL, 'e' },
		{ "count", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
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
	return 0;
}

/* As the kernel's trace shows them: time, place, event: arguments. */
static void put_text(json_t *json)
{
	const char *name = json_string_value(json_object_get(json, "event"));
	const char *dev = json_string_value(json_object_get(json, "dev"));
	json_int_t ns = json_integer_value(json_object_get(json, "ns"));
	const char *key;
	json_t *value;

	printf("%" JSON_INTEGER_FORMAT ".%06" JSON_INTEGER_FORMAT ": %s: dev %s",
	       ns / 1000000000, ns / 1000 % 1000000, name, dev ? dev : "?");
	json_object_foreach(json, key, value) {
		if (!strcmp(key, "event") || !strcmp(key, "dev") ||
		    !strcmp(key, "ns"))
			continue;
		if (json_is_string(value))
			printf(" %s %s", key, json_string_value(value));
		else
			printf(" %s %" JSON_INTEGER_FORMAT, key,
			       json_integer_value(value));
	}
	putchar('\n');
}

/* Return: it is an event; lost ones are told, not counted. */
static bool put(const struct trace_options *o, json_t *json, const char *line)
{
	json_t *lost = json_object_get(json, "lost");

	if (o->json)
		puts(line);
	else if (lost)
		printf("%" JSON_INTEGER_FORMAT " events lost\n",
		       json_integer_value(lost));
	else if (json_object_get(json, "event"))
		put_text(json);
	return json_object_get(json, "event");
}

static int follow(const struct trace_options *o, struct socket_reader *r)
{
	uint64_t seen = 0;
	bool end = false;

	/* From now on nothing is to be expected at any time. */
	r->patience_ms = -1;
	while (!interrupted && (!o->count || seen < o->count)) {
		json_t *json = socket_json(r, &end);

		if (!json)
			break;
		seen += put(o, json, r->line);
		json_decref(json);
		if (fflush(stdout) || ferror(stdout))
			return 1;
	}
	if (interrupted)
		return 130;
	if (end)
		fprintf(stderr,
			"dropbehind trace: %s: the engine is gone, or this was "
			"too slow for it\n",
			o->target);
	return o->count && seen == o->count ? 0 : 1;
}

static int trace(const struct trace_options *o)
{
	struct socket_reader r = { .who = "trace",
				   .patience_ms = PATIENCE_MS };
	struct sigaction sa = { .sa_handler = on_signal };
	char request[512];
	bool end = false;
	json_t *json = NULL;
	int ret = 1;

	snprintf(request, sizeof(request), "trace%s%s\n", o->events ? " " : "",
		 o->events ? o->events : "");
	r.fd = socket_open("trace", o->target);
	if (r.fd < 0)
		return 1;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	if (!socket_ask(&r, request))
		json = socket_json(&r, &end);
	if (end)
		fprintf(stderr, "dropbehind trace: %s: it went away\n",
			o->target);
	if (json) {
		json_decref(json);
		ret = follow(o, &r);
	}
	socket_fini(&r);
	return ret;
}

static int trace_main(int argc, char **argv)
{
	struct trace_options o = { 0 };
	int ret = parse(argc, argv, &o);

	if (ret)
		return ret;
	if (o.help) {
		print_help();
		return 0;
	}
	return trace(&o);
}

static int trace_help(int argc, char **argv)
{
	if (argc > 1) {
		fprintf(stderr, "dropbehind help: unexpected argument '%s'\n",
			argv[1]);
		return CLI_USAGE;
	}
	print_help();
	return 0;
}

const struct subcommand cmd_trace = {
	.name = "trace",
	.summary = "what a running engine does, as it does it",
	.main = trace_main,
	.help = trace_help,
};

/* SPDX-License-Identifier: MIT */
/*
 * session: one invocation of a workload. Makes the list of cases, runs each of
 * them in turn, round after round, and reports.
 */
#include "bench/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/pattern.h"
#include "bench/place.h"
#include "bench/report.h"
#include "bench/results.h"
#include "bench/run.h"
#include "bench/say.h"
#include "bench/stop.h"
#include "bench/workload.h"

/** struct session - all that one invocation has */
struct session {
	const struct workload *workload;
	struct bench_options o;
	struct place place;
	struct pattern pattern;
	struct results results;
	unsigned runs; /* begun so far */
	unsigned total_runs; /* that there will be */
};

/* A contender that cannot let others read through it has no such case. */
static bool has_case(const struct contender_ops *ops, struct variant v)
{
	return !v.engine_reader || ops->read_hot;
}

static unsigned cases_per_record(const struct session *s)
{
	unsigned v, k, count = 0;

	for (v = 0; v < s->o.nr_variants; v++)
		for (k = 0; k < s->o.nr_contenders; k++)
			count += has_case(s->o.contenders[k], s->o.variants[v]);
	return count;
}

/* Of a case, for people: what follows the size of its records. */
static const char *case_name(const struct bench_case *c, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s%s", c->ops->name,
		 c->variant.dsync ? " dsync" : "",
		 c->variant.engine_reader ? ", read through the engine" : "");
	return buf;
}

/* ---- the cases ------------------------------------------------------- */

static void probe_contender(struct session *s, unsigned index, char *reason)
{
	const struct contender_ops *ops = s->o.contenders[index];
	int ret;

	memset(reason, 0, REASON_BYTES);
	ret = ops->probe(s->place.file, s->o.budget_bytes, reason,
			 REASON_BYTES);
	if (ret && !reason[0])
		snprintf(reason, REASON_BYTES, "%s", strerror(-ret));
	unlink(s->place.file);
}

static void check_applies(const struct session *s, struct bench_case *c)
{
	uint64_t block = s->place.block_bytes;

	if (block < s->place.direct_align)
		block = s->place.direct_align;
	if (c->missing[0] || !c->ops->whole_blocks_only ||
	    c->record % block == 0)
		return;
	snprintf(c->missing, sizeof(c->missing),
		 "not applicable: %llu bytes are not whole blocks of %llu",
		 (unsigned long long)c->record, (unsigned long long)block);
}

static int add_case(struct session *s, uint64_t record, unsigned contender,
		    struct variant variant, const char *missing)
{
	struct bench_case *c = &s->results.cases[s->results.nr_cases++];

	c->record = record;
	c->ops = s->o.contenders[contender];
	c->variant = variant;
	memcpy(c->missing, missing, REASON_BYTES);
	check_applies(s, c);
	if (c->missing[0])
		return 0;
	s->total_runs += s->o.rounds;
	c->rounds = calloc(s->o.rounds, sizeof(c->rounds[0]));
	return c->rounds ? 0 : -ENOMEM;
}

static int make_cases(struct session *s)
{
	char missing[MAX_CONTENDERS][REASON_BYTES];
	const struct bench_options *o = &s->o;
	unsigned i, v, k;
	int ret = 0;

	for (k = 0; k < o->nr_contenders; k++)
		probe_contender(s, k, missing[k]);
	s->results.cases = calloc(o->nr_records * cases_per_record(s),
				  sizeof(s->results.cases[0]));
	if (!s->results.cases)
		return -ENOMEM;
	for (i = 0; i < o->nr_records; i++)
		for (v = 0; v < o->nr_variants; v++)
			for (k = 0; !ret && k < o->nr_contenders; k++)
				if (has_case(o->contenders[k], o->variants[v]))
					ret = add_case(s, o->records[i], k,
						       o->variants[v],
						       missing[k]);
	return ret;
}

/* ---- running them ---------------------------------------------------- */

static int run_case(struct session *s, struct bench_case *c,
		    struct round_result *res, char *reason)
{
	struct run run = { .o = &s->o,
			   .place = &s->place,
			   .pattern = &s->pattern,
			   .c = c,
			   .number = s->runs };

	if (stop_requested())
		return -EINTR;
	return s->workload->run(&run, res, reason);
}

static int run_counted(struct session *s, struct bench_case *c, unsigned round)
{
	struct round_result res;
	char reason[REASON_BYTES], name[64];
	int ret;

	if (c->missing[0] || c->error[0])
		return 0;
	s->runs++;
	case_name(c, name, sizeof(name));
	progress("[%u/%u] %llu bytes, %s, round %u of %u", s->runs,
		 s->total_runs, (unsigned long long)c->record, name, round + 1,
		 s->o.rounds);
	ret = run_case(s, c, &res, reason);
	if (ret)
		return ret;
	if (reason[0]) {
		memcpy(c->error, reason, REASON_BYTES);
		complain("%llu bytes, %s: %s", (unsigned long long)c->record,
			 name, reason);
	}
	c->rounds[c->nr_rounds++] = res;
	return 0;
}

/* In turn, and in the other direction every other round. */
static int run_round(struct session *s, unsigned first, unsigned round)
{
	unsigned n = cases_per_record(s), i;
	int ret = 0;

	for (i = 0; i < n && !ret; i++) {
		unsigned k = round & 1 ? n - 1 - i : i;

		ret = run_counted(s, &s->results.cases[first + k], round);
	}
	return ret;
}

/* One run that is not counted, of the first case that there is. */
static int warm_up(struct session *s)
{
	struct round_result res;
	char reason[REASON_BYTES];
	unsigned i;

	for (i = 0; i < s->results.nr_cases; i++) {
		if (s->results.cases[i].missing[0])
			continue;
		progress("one run that does not count");
		return run_case(s, &s->results.cases[i], &res, reason);
	}
	return 0;
}

static int run_all(struct session *s)
{
	unsigned n = cases_per_record(s), first, round;
	int ret;

	ret = warm_up(s);
	for (first = 0; first < s->results.nr_cases; first += n)
		for (round = 0; round < s->o.rounds && !ret; round++)
			ret = run_round(s, first, round);
	return ret;
}

/* ---- the whole ------------------------------------------------------- */

/* That is written or read in one go. */
static uint64_t longest_record(const struct bench_options *o)
{
	uint64_t longest = o->read_bytes;
	unsigned i;

	for (i = 0; i < o->nr_records; i++)
		if (longest < o->records[i])
			longest = o->records[i];
	return longest;
}

static void complain_nothing(const struct session *s)
{
	char name[64];
	unsigned i;

	complain("there is nothing that could be run");
	for (i = 0; i < s->results.nr_cases; i++) {
		const struct bench_case *c = &s->results.cases[i];

		complain("%llu bytes, %s: %s", (unsigned long long)c->record,
			 case_name(c, name, sizeof(name)), c->missing);
	}
}

static int run_session(struct session *s)
{
	int ret;

	ret = pattern_create(&s->pattern, longest_record(&s->o));
	if (!ret)
		ret = place_open(&s->place, &s->o);
	if (!ret) {
		ret = make_cases(s);
		if (ret)
			complain("%s", strerror(-ret));
	}
	if (!ret && !s->total_runs) {
		complain_nothing(s);
		ret = -ENOENT;
	}
	if (!ret)
		ret = run_all(s);
	place_close(&s->place);
	progress_clear();
	return ret;
}

static int report(const struct session *s)
{
	struct report r = { .workload = s->workload,
			    .o = &s->o,
			    .place = &s->place,
			    .results = &s->results };
	int ret = 0;

	/* All is removed by now: a closed pipe may end us as it does others. */
	signal(SIGPIPE, SIG_DFL);
	if (s->o.json)
		ret = report_json(&r);
	else
		s->workload->table(&r);
	if (ret || fflush(stdout) || ferror(stdout)) {
		complain("cannot write the report");
		return WORKLOAD_FAILED;
	}
	return results_good(&s->results) ? WORKLOAD_GOOD : WORKLOAD_FAILED;
}

int session_main(const struct workload *w, int argc, char **argv)
{
	static struct session s;
	int status, ret;

	s.workload = w;
	switch (options_parse(argc, argv, &w->options, &s.o)) {
	case OPTIONS_HELP:
		w->options.help();
		return WORKLOAD_GOOD;
	case OPTIONS_BAD:
		return WORKLOAD_USAGE;
	case OPTIONS_RUN:
		break;
	}
	stop_install();
	ret = run_session(&s);
	if (stop_requested())
		status = WORKLOAD_STOPPED;
	else if (ret)
		status = WORKLOAD_FAILED;
	else
		status = report(&s);
	results_free(&s.results);
	pattern_destroy(&s.pattern);
	return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * json: the report for programs. What is not known is null.
 */
#include "bench/report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/options.h"
#include "bench/place.h"
#include "bench/results.h"
#include "bench/session.h"

static void set_int(json_t *o, const char *key, uint64_t value)
{
	json_object_set_new(o, key, json_integer((json_int_t)value));
}

static void set_text(json_t *o, const char *key, const char *value)
{
	json_object_set_new(o, key, json_string(value));
}

static void set_bool(json_t *o, const char *key, bool value)
{
	json_object_set_new(o, key, json_boolean(value));
}

static void set_real(json_t *o, const char *key, double value)
{
	json_object_set_new(o, key, value < 0 ? json_null() : json_real(value));
}

/* A count that a median may have halved. */
static void set_count(json_t *o, const char *key, double value)
{
	if (value >= 0 && value < 1e15 && value == (double)(int64_t)value)
		set_int(o, key, (uint64_t)value);
	else
		set_real(o, key, value);
}

/* ---- the figures: the same keys for a case and for a round ----------- */

static void set_figure(json_t *o, const struct figure *f, double value)
{
	if (f->count)
		set_count(o, f->key, value);
	else
		set_real(o, f->key, value);
}

static void set_spread(json_t *o, const struct figure *f, struct spread s)
{
	char key[64];

	set_figure(o, f, s.median);
	if (!f->spread)
		return;
	snprintf(key, sizeof(key), "%s_min", f->key);
	set_real(o, key, s.min);
	snprintf(key, sizeof(key), "%s_max", f->key);
	set_real(o, key, s.max);
}

/* @round: NULL: the medians of the case */
static void set_figures(json_t *o, const struct report *r,
			const struct bench_case *c,
			const struct round_result *round)
{
	const struct workload *w = r->workload;
	unsigned i;

	for (i = 0; i < w->nr_figures; i++) {
		const struct figure *f = &w->figures[i];

		if (f->when && !f->when(r->o))
			continue;
		if (round)
			set_figure(o, f, f->of(round));
		else
			set_spread(o, f, case_spread(c, f->of));
	}
}

static void set_identity(json_t *o, const struct report *r,
			 const struct bench_case *c)
{
	set_text(o, "workload", r->workload->name);
	set_int(o, "record", c->record);
	set_text(o, "contender", c->ops->name);
	r->workload->variant_json(o, c->variant);
}

static json_t *engine_json(const struct contender_report *e)
{
	static const char *const direct[] = { "unproven", "proven", "pretence",
					      "refused" };
	static const char *const method[] = { "auto", "uring", "threads" };
	const struct dbh_stats *s = &e->stats;
	json_t *o = json_object();

	set_int(o, "memory_limit_bytes", s->memory_limit_bytes);
	set_int(o, "written_pages", s->written);
	set_int(o, "edges_completed", s->edges_completed);
	set_int(o, "edges_expired", s->edges_expired);
	set_int(o, "edges_filled_read", s->edges_filled_read);
	set_int(o, "edges_filled_zero", s->edges_filled_zero);
	set_int(o, "kicks", s->kicks);
	set_int(o, "kick_skips", s->kick_skips);
	set_int(o, "flushes", s->flushes);
	set_int(o, "sync_waiters", s->sync_waiters);
	set_int(o, "read_bios", s->read_bios);
	set_int(o, "read_bytes", s->read_bytes);
	set_int(o, "write_bios", s->write_bios);
	set_int(o, "write_bytes", s->write_bytes);
	set_int(o, "throttled", s->throttled);
	if (e->info.io_method < 3)
		set_text(o, "io_method", method[e->info.io_method]);
	if (e->info.direct < 4)
		set_text(o, "direct", direct[e->info.direct]);
	set_int(o, "min_folio_bytes", e->info.min_folio_bytes);
	return o;
}

static json_t *round_json(const struct report *r, const struct bench_case *c,
			  const struct round_result *round)
{
	json_t *o = json_object();

	set_identity(o, r, c);
	set_figures(o, r, c, round);
	set_bool(o, "verified", round->verified);
	if (round->report.has_engine)
		json_object_set_new(o, "engine", engine_json(&round->report));
	return o;
}

static json_t *case_json(const struct report *r, const struct bench_case *c)
{
	json_t *o = json_object(), *rounds = json_array();
	unsigned i;

	set_identity(o, r, c);
	set_figures(o, r, c, NULL);
	set_bool(o, "verified", case_verified(c));
	if (c->error[0])
		set_text(o, "error", c->error);
	for (i = 0; i < c->nr_rounds; i++)
		json_array_append_new(rounds, round_json(r, c, &c->rounds[i]));
	json_object_set_new(o, "rounds", rounds);
	return o;
}

static json_t *missing_json(const struct report *r, const struct bench_case *c)
{
	json_t *o = json_object();

	set_identity(o, r, c);
	set_text(o, "reason", c->missing);
	return o;
}

/* ---- the environment ------------------------------------------------- */

static json_t *options_json(const struct report *r)
{
	const struct bench_options *b = r->o;
	json_t *o = json_object(), *records = json_array();
	json_t *contenders = json_array();
	unsigned i;

	set_int(o, "total", b->total_bytes);
	for (i = 0; i < b->nr_records; i++)
		json_array_append_new(records,
				      json_integer((json_int_t)b->records[i]));
	json_object_set_new(o, "records", records);
	for (i = 0; i < b->nr_contenders; i++)
		json_array_append_new(contenders,
				      json_string(b->contenders[i]->name));
	json_object_set_new(o, "contenders", contenders);
	set_int(o, "rounds", b->rounds);
	json_object_set_new(o, "budget",
			    b->budget_bytes ?
				    json_integer((json_int_t)b->budget_bytes) :
				    json_null());
	r->workload->options_json(o, b);
	return o;
}

static void set_device(json_t *o, const struct place *p)
{
	set_text(o, "file_system", p->device.fs);
	set_int(o, "block_size", p->block_bytes);
	if (p->device.known) {
		set_text(o, "device", p->device.name);
		set_int(o, "sector_size", p->device.sector_bytes);
	} else {
		json_object_set_new(o, "device", json_null());
		json_object_set_new(o, "sector_size", json_null());
	}
	set_int(o, "direct_align", p->direct_align);
	set_bool(o, "scratch", p->on_scratch);
}

static json_t *environment_json(const struct report *r)
{
	json_t *o = json_object();
	time_t now = time(NULL);
	struct utsname un;
	struct tm tm;
	char date[32];

	uname(&un);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	set_text(o, "date", date);
	set_text(o, "version", dbh_version());
	set_text(o, "kernel", un.release);
	set_text(o, "machine", un.machine);
	set_int(o, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	set_int(o, "memory_bytes",
		(uint64_t)sysconf(_SC_PHYS_PAGES) *
			(uint64_t)sysconf(_SC_PAGESIZE));
	set_int(o, "page_size", (uint64_t)sysconf(_SC_PAGESIZE));
	set_device(o, r->place);
	json_object_set_new(o, "options", options_json(r));
	return o;
}

int report_json(const struct report *r)
{
	json_t *o = json_object(), *results = json_array();
	json_t *missing = json_array();
	unsigned i;
	int ret;

	for (i = 0; i < r->results->nr_cases; i++) {
		const struct bench_case *c = &r->results->cases[i];

		if (c->missing[0])
			json_array_append_new(missing, missing_json(r, c));
		else
			json_array_append_new(results, case_json(r, c));
	}
	json_object_set_new(o, "environment", environment_json(r));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "missing", missing);
	ret = json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(o);
	return ret ? -EIO : 0;
}

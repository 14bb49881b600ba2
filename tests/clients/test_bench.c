/* SPDX-License-Identifier: MIT */
/*
 * `dropbehind bench`: the JSON it prints, and what must hold of the figures
 * in it (R12, R16, R23); and that its verifier finds what is wrong.
 *
 * As root on a scratch file system, otherwise in a directory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/contender.h"
#include "bench/histogram.h"
#include "bench/pattern.h"
#include "bench/sample.h"
#include "bench/sampler.h"
#include "bench/writers.h"

/* Blocks that a fresh file system may read for itself. */
#define FS_READS 24.0

static char command[4096];
static bool scratch;
static const char *no_scratch; /* why not, unless scratch */

/* ---- running the command --------------------------------------------- */

/* The object that `bench @workload` prints; its exit status must be 0. */
static json_t *run_bench(const char *workload, const char *place,
			 const char *options)
{
	char line[8192];
	json_error_t err;
	json_t *o;
	int status;
	FILE *f;

	snprintf(line, sizeof(line), "'%s' bench %s --json %s %s", command,
		 workload, place, options);
	print_message("%s\n", line);
	f = popen(line, "r");
	assert_non_null(f);
	o = json_loadf(f, 0, &err);
	status = pclose(f);
	if (!o)
		fail_msg("no JSON: %s (line %d)", err.text, err.line);
	assert_int_equal(status, 0);
	return o;
}

static json_t *bench(const char *place, const char *options)
{
	return run_bench("interleaved", place, options);
}

static const char *default_place(void)
{
	return scratch ? "--scratch" : "";
}

static const char *text(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_string(v))
		fail_msg("%s is no string", key);
	return json_string_value(v);
}

static double figure(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_number(v))
		fail_msg("%s is no number", key);
	return json_number_value(v);
}

static bool is_engine(json_t *o)
{
	return !strcmp(text(o, "contender"), "engine:dontcache");
}

/* ---- what every report must have ------------------------------------- */

/* R14: what is durable was flushed, but not once for each write. */
static void check_flushes(json_t *o)
{
	json_t *dsync = json_object_get(o, "dsync");

	if (!is_engine(o)) {
		assert_true(json_is_null(json_object_get(o, "kicks")));
		return;
	}
	assert_true(figure(o, "kicks") >= 0);
	if (json_is_true(dsync))
		assert_true(figure(o, "flushes_per_write") > 0);
	else
		assert_true(figure(o, "flushes_per_write") < 0.5);
	if (scratch)
		assert_true(figure(o, "device_flushes") >= 1);
}

static void check_figures(json_t *env, json_t *o)
{
	assert_string_equal(text(o, "workload"), "interleaved");
	assert_true(json_is_boolean(json_object_get(o, "dsync")));
	assert_true(json_is_true(json_object_get(o, "verified")));
	assert_true(figure(o, "record") > 0);
	assert_true(figure(o, "writes") > 0);
	assert_true(figure(o, "resident_pages") >= 0);
	assert_true(figure(o, "peak_bytes") >= 0);
	assert_true(figure(o, "mib_s_write") > 0);
	assert_true(figure(o, "mib_s_stable") > 0);
	assert_true(figure(o, "write_p50_us") > 0);
	assert_true(figure(o, "write_p99_us") >= figure(o, "write_p50_us"));
	assert_true(figure(o, "write_p999_us") >= figure(o, "write_p99_us"));
	assert_true(figure(o, "write_max_us") >= figure(o, "write_p999_us"));
	check_flushes(o);
	if (json_is_null(json_object_get(env, "device")))
		assert_true(
			json_is_null(json_object_get(o, "reads_per_write")));
	else
		assert_true(figure(o, "reads_per_write") >= 0);
}

static void check_case(json_t *env, json_t *o, size_t nr_rounds)
{
	json_t *rounds = json_object_get(o, "rounds"), *round;
	size_t i;

	check_figures(env, o);
	assert_int_equal(json_array_size(rounds), nr_rounds);
	json_array_foreach(rounds, i, round)
	{
		check_figures(env, round);
		assert_true(figure(round, "record") == figure(o, "record"));
	}
}

static void check_environment(json_t *env)
{
	assert_non_null(text(env, "kernel"));
	assert_non_null(text(env, "file_system"));
	assert_non_null(text(env, "date"));
	assert_non_null(text(env, "version"));
	assert_true(figure(env, "cpus") >= 1);
	assert_true(figure(env, "memory_bytes") > 0);
	assert_true(figure(env, "block_size") > 0);
	assert_true(json_is_object(json_object_get(env, "options")));
}

static void check_missing(json_t *missing)
{
	json_t *o;
	size_t i;

	json_array_foreach(missing, i, o)
	{
		assert_true(strlen(text(o, "reason")) > 0);
		/* That would leave nothing to test. */
		assert_string_not_equal(text(o, "contender"), "kernel:none");
		assert_string_not_equal(text(o, "contender"),
					"engine:dontcache");
	}
}

static void check_report(json_t *o, size_t nr_cases, size_t nr_rounds)
{
	json_t *env = json_object_get(o, "environment");
	json_t *results = json_object_get(o, "results");
	json_t *missing = json_object_get(o, "missing");
	json_t *c;
	size_t i;

	check_environment(env);
	check_missing(missing);
	assert_int_equal(json_array_size(results) + json_array_size(missing),
			 nr_cases);
	json_array_foreach(results, i, c) check_case(env, c, nr_rounds);
}

/* ---- the cases ------------------------------------------------------- */

/* R12, R16, R23: nothing read, nothing left, the budget kept. */
static void check_engine_new(json_t *o)
{
	json_t *results = json_object_get(o, "results"), *c, *round, *engine;
	size_t i, k;

	json_array_foreach(results, i, c)
	{
		if (!is_engine(c))
			continue;
		assert_true(figure(c, "resident_pages") == 0);
		assert_true(figure(c, "resident_pages_open") <= 1);
		if (scratch)
			assert_true(figure(c, "device_reads") <= FS_READS);
		json_array_foreach(json_object_get(c, "rounds"), k, round)
		{
			engine = json_object_get(round, "engine");
			assert_true(figure(round, "peak_bytes") <=
				    figure(engine, "memory_limit_bytes"));
		}
	}
}

static void new_file(void **state)
{
	json_t *o = bench(default_place(),
			  "--total 4M --records 8192,6000,1000 --rounds 2 "
			  "--threads 8");

	check_report(o, 3 * 4 * 2, 2);
	check_engine_new(o);
	json_decref(o);
}

static void one_writer_with_a_gap(void **state)
{
	json_t *o = bench(default_place(),
			  "--total 600k --records 6000 --rounds 1 "
			  "--threads 1 --gap 100 --dsync no");

	check_report(o, 4, 1);
	check_engine_new(o);
	json_decref(o);
}

static void small_budget(void **state)
{
	json_t *o = bench(default_place(),
			  "--total 8M --records 6000 --rounds 1 --dsync no "
			  "--contenders kernel:none,engine:dontcache "
			  "--budget 1M");
	json_t *c, *round;
	size_t i;

	check_report(o, 2, 1);
	json_array_foreach(json_object_get(o, "results"), i, c)
	{
		round = json_array_get(json_object_get(c, "rounds"), 0);
		if (is_engine(c))
			assert_true(figure(round, "peak_bytes") <= 1 << 20);
	}
	json_decref(o);
}

static void overwrite(void **state)
{
	json_t *o = bench(default_place(),
			  "--total 4M --records 6000 --rounds 1 --overwrite");

	check_report(o, 8, 1);
	json_decref(o);
}

static void warm(void **state)
{
	json_t *o = bench(default_place(),
			  "--total 4M --records 4096 --rounds 1 --threads 8 "
			  "--warm");
	json_t *c;
	size_t i;

	check_report(o, 8, 1);
	json_array_foreach(json_object_get(o, "results"), i, c)
	{
		double outside = figure(c, "warm_pages_outside");
		double kept = figure(c, "warm_kept_pages");

		/* Half of the file; the kernel keeps it all. */
		assert_true(outside == 512);
		assert_true(kept <= outside);
		if (!strcmp(text(c, "contender"), "kernel:none"))
			assert_true(kept == outside);
	}
	json_decref(o);
}

static void need_scratch(void)
{
	if (scratch)
		return;
	print_message("skipped: %s\n", no_scratch);
	skip();
}

static void fragmented(void **state)
{
	json_t *o, *c;
	size_t i;

	need_scratch();
	o = bench("--scratch=xfs --block-size 1k",
		  "--total 4M --records 6000 --rounds 1 --fragment "
		  "--dsync no");
	check_report(o, 4, 1);
	json_array_foreach(json_object_get(o, "results"), i, c)
	{
		json_t *round = json_array_get(json_object_get(c, "rounds"), 0);

		/* Pieces of 8 KiB: 512 of them, unless some were joined. */
		assert_true(figure(round, "extents") >= 256);
	}
	json_decref(o);
}

static void other_file_systems(void **state)
{
	static const char *const places[] = { "--scratch=ext4",
					      "--scratch=btrfs" };
	json_t *o;
	size_t i;

	need_scratch();
	for (i = 0; i < 2; i++) {
		o = bench(places[i],
			  "--total 2M --records 6000 --rounds 1 --dsync no");
		check_report(o, 4, 1);
		json_decref(o);
	}
}

/* ---- noisy ----------------------------------------------------------- */

static void check_noisy(json_t *o)
{
	bool idle = !strcmp(text(o, "contender"), "idle");

	assert_string_equal(text(o, "workload"), "noisy");
	assert_true(json_is_true(json_object_get(o, "verified")));
	assert_true(figure(o, "reads") > 0);
	assert_true(figure(o, "reads_per_s") > 0);
	assert_true(figure(o, "read_p50_us") > 0);
	assert_true(figure(o, "read_p99_us") >= figure(o, "read_p50_us"));
	assert_true(figure(o, "read_p999_us") >= figure(o, "read_p99_us"));
	assert_true(figure(o, "read_max_us") >= figure(o, "read_p999_us"));
	assert_true(figure(o, "hot_pages") == 512);
	assert_true(figure(o, "hot_kept_pages") <= 512);
	if (idle) {
		assert_true(figure(o, "writes") == 0);
		assert_true(json_is_null(json_object_get(o, "mib_s_write")));
	} else {
		assert_true(figure(o, "writes") > 0);
		assert_true(figure(o, "write_p999_us") > 0);
	}
}

/* A reader of each cache, in each of the ways to write. */
static void noisy(void **state)
{
	json_t *o = run_bench("noisy", default_place(),
			      "--total 2M --records 6000 --hot 2M --seconds 1 "
			      "--rounds 2 --readers 2 --rate 1000");
	json_t *results = json_object_get(o, "results");
	json_t *missing = json_object_get(o, "missing"), *c, *round;
	size_t i, k, through_engine = 0;

	check_environment(json_object_get(o, "environment"));
	check_missing(missing);
	assert_int_equal(json_array_size(results) + json_array_size(missing),
			 6);
	json_array_foreach(results, i, c)
	{
		check_noisy(c);
		through_engine += !strcmp(text(c, "reader"), "engine");
		assert_int_equal(json_array_size(json_object_get(c, "rounds")),
				 2);
		json_array_foreach(json_object_get(c, "rounds"), k, round)
			check_noisy(round);
	}
	assert_int_equal(through_engine, 1);
	json_decref(o);
}

/* As fast as it can; each read larger than a page. */
static void noisy_unpaced(void **state)
{
	json_t *o = run_bench("noisy", default_place(),
			      "--total 2M --records 8192 --hot 2M --seconds 1 "
			      "--rounds 1 --rate 0 --read-size 10000 "
			      "--cache engine");
	json_t *results = json_object_get(o, "results");

	assert_int_equal(json_array_size(results), 1);
	check_noisy(json_array_get(results, 0));
	json_decref(o);
}

/* ---- the verifier ---------------------------------------------------- */

static void spoil(const char *path, off_t off)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, off), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, off), 1);
	assert_int_equal(fsync(fd), 0);
	close(fd);
}

static off_t file_size(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void verifier_finds_it(void **state)
{
	char path[] = "test_bench.XXXXXX";
	char where[200];
	struct pattern p;
	struct layout l = { .pattern = &p,
			    .size = 3000001,
			    .stripe = 4096,
			    .phases = { 4096, 4096 } };

	assert_int_equal(pattern_create(&p, 1000), 0);
	close(mkstemp(path));
	assert_int_equal(layout_write(&l, path), 0);
	assert_int_equal(layout_verify(&l, path, where, sizeof(where)), 0);

	spoil(path, 3000000);
	assert_int_equal(layout_verify(&l, path, where, sizeof(where)),
			 -EILSEQ);
	assert_non_null(strstr(where, "byte 3000000 "));
	spoil(path, 3000000);

	/* Old data in a stripe where new data should be. */
	l.phases[1] = 8192;
	assert_int_equal(layout_verify(&l, path, where, sizeof(where)),
			 -EILSEQ);
	l.phases[1] = 4096;

	/* A padded end, and a lost one. */
	assert_int_equal(truncate(path, 3000002), 0);
	assert_int_equal(layout_verify(&l, path, where, sizeof(where)),
			 -EILSEQ);
	assert_int_equal(truncate(path, 3000000), 0);
	assert_int_equal(layout_verify(&l, path, where, sizeof(where)),
			 -EILSEQ);
	unlink(path);
	assert_int_equal(layout_verify(&l, path, where, sizeof(where)),
			 -ENOENT);
	pattern_destroy(&p);
}

/* Its first record is no longer as in the first lap. */
static void await_second_lap(const struct work *work, const char *path)
{
	const uint8_t *first = pattern_at(work->pattern, pattern_phase(0), 0);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[1000];

	assert_true(fd >= 0);
	while (file_size(path) < 1001000 ||
	       pread(fd, buf, sizeof(buf), 0) != (ssize_t)sizeof(buf) ||
	       !memcmp(buf, first, sizeof(buf)))
		sched_yield();
	close(fd);
}

/* The laps that the samples are compared with, and what they find. */
static void samples_find_it(void **state)
{
	char path[] = "test_bench.XXXXXX", where[200];
	const struct contender_ops *ops = &contender_kernel_none;
	struct target target = { .path = path };
	struct work work = { .ops = ops,
			     .record = 1000,
			     .count = 1001,
			     .threads = 4,
			     .laps = true };
	struct contender_report report;
	struct work_done done;
	struct writers *w;
	struct pattern p;

	assert_int_equal(pattern_create(&p, 1000), 0);
	work.pattern = &p;
	close(mkstemp(path));
	assert_int_equal(ops->open(&target, &work.contender), 0);
	assert_int_equal(writers_create(&work, &w), 0);
	writers_start(w);
	await_second_lap(&work, path);
	assert_int_equal(writers_stop(w, &done), 0);
	assert_int_equal(ops->close(work.contender, &report), 0);
	assert_true(done.writes > 1001);
	assert_int_equal(sample_verify(&work, w, path, where, sizeof(where)),
			 0);
	spoil(path, 1000999);
	assert_int_equal(sample_verify(&work, w, path, where, sizeof(where)),
			 -EILSEQ);
	assert_non_null(strstr(where, "record 1000 "));
	spoil(path, 1000999);
	/* All is as in a lap, but of another run. */
	work.phase_number = 1;
	assert_int_equal(sample_verify(&work, w, path, where, sizeof(where)),
			 -EILSEQ);
	work.phase_number = 0;
	assert_int_equal(truncate(path, 1001001), 0);
	assert_int_equal(sample_verify(&work, w, path, where, sizeof(where)),
			 -EILSEQ);
	writers_destroy(w);
	unlink(path);
	pattern_destroy(&p);
}

/* ---- the histogram --------------------------------------------------- */

static void percentiles(void **state)
{
	static struct histogram all, other;
	struct latency l = histogram_latency(&all);
	uint64_t ns;

	assert_int_equal(l.count, 0);
	/* 1 to 100000 ns, half of them from another thread. */
	for (ns = 1; ns <= 100000; ns++)
		histogram_add(ns & 1 ? &all : &other, ns);
	histogram_merge(&all, &other);
	l = histogram_latency(&all);
	assert_int_equal(l.count, 100000);
	assert_in_range(l.p50_ns, 50000, 50000 * 33 / 32);
	assert_in_range(l.p99_ns, 99000, 100000);
	assert_in_range(l.p999_ns, 99900, 100000);
	assert_int_equal(l.max_ns, 100000);
}

/* Every value is in a bucket that it may be in, up to the last one. */
static void buckets(void **state)
{
	static const uint64_t hours = 3600000000000u;
	static struct histogram h;
	unsigned bits, before = 0;

	for (bits = 0; bits < 64; bits++) {
		uint64_t ns = (uint64_t)1 << bits;
		unsigned index = histogram_index(ns);

		assert_true(index < HISTOGRAM_BUCKETS);
		assert_true(index > before || index == HISTOGRAM_BUCKETS - 1);
		/* One below is in the bucket before. */
		if (bits && bits < HISTOGRAM_MAX_BITS)
			assert_int_equal(histogram_index(ns - 1), index - 1);
		before = index;
	}
	histogram_add(&h, 7);
	histogram_add(&h, hours);
	assert_int_equal(histogram_latency(&h).p50_ns, 7);
	assert_int_equal(histogram_latency(&h).p999_ns, hours);
}

/* ---- whoever looks, does not disturb --------------------------------- */

static bool was_opened(int watch)
{
	char events[4096];

	return read(watch, events, sizeof(events)) > 0;
}

/* R22: one more open file would take its lease from the engine. */
static void nobody_opens_it(void **state)
{
	char path[] = "test_bench.XXXXXX";
	const struct contender_ops *ops = &contender_engine_dontcache;
	struct target target = { .path = path };
	struct work work = {
		.ops = ops, .record = 6000, .count = 400, .threads = 4
	};
	struct contender_report report;
	struct work_done done;
	struct sampler sampler;
	struct writers *w;
	struct pattern p;
	int64_t growth, last;
	int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	assert_int_equal(pattern_create(&p, 6000), 0);
	close(mkstemp(path));
	assert_int_equal(ops->open(&target, &work.contender), 0);
	work.pattern = &p;
	assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
	assert_int_equal(writers_create(&work, &w), 0);
	assert_int_equal(sampler_start(&sampler, ops, work.contender), 0);
	assert_int_equal(writers_run(w, &done), 0);
	assert_int_equal(ops->sync(work.contender), 0);
	sampler_stop(&sampler, &growth, &last);
	assert_true(last >= 0); /* it has looked */
	writers_destroy(w);
	assert_int_equal(ops->close(work.contender, &report), 0);
	assert_false(was_opened(watch));

	close(open(path, O_RDONLY | O_CLOEXEC));
	assert_true(was_opened(watch));
	close(watch);
	unlink(path);
	pattern_destroy(&p);
}

/* Can this process have a scratch file system? Return: NULL, or why not. */
static const char *try_scratch(void)
{
	char line[8192];

	if (geteuid())
		return "no scratch file system: not root";
	if (system("unshare --mount true 2>/dev/null"))
		return "no scratch file system: root without the right to "
		       "mount";
	snprintf(line, sizeof(line),
		 "'%s' bench interleaved --scratch --total 64k --records 4096 "
		 "--contenders kernel:none --rounds 1 --dsync no >/dev/null",
		 command);
	/* It has said why. */
	return system(line) ? "no scratch file system: see above" : NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verifier_finds_it),
		cmocka_unit_test(samples_find_it),
		cmocka_unit_test(percentiles),
		cmocka_unit_test(buckets),
		cmocka_unit_test(nobody_opens_it),
		cmocka_unit_test(new_file),
		cmocka_unit_test(one_writer_with_a_gap),
		cmocka_unit_test(small_budget),
		cmocka_unit_test(overwrite),
		cmocka_unit_test(warm),
		cmocka_unit_test(fragmented),
		cmocka_unit_test(other_file_systems),
		cmocka_unit_test(noisy),
		cmocka_unit_test(noisy_unpaced),
	};
	const char *build = getenv("DBH_BUILD");

	snprintf(command, sizeof(command), "%s/frontends/cli/dropbehind",
		 build ? build : ".");
	if (access(command, X_OK)) {
		printf("skipped: there is no %s (set DBH_BUILD)\n", command);
		return 77;
	}
	no_scratch = try_scratch();
	scratch = !no_scratch;
	if (!scratch)
		print_message("%s; in a directory\n", no_scratch);
	return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/*
 * A store that fails (R15): nothing acknowledged is lost, everybody hears of it
 * once, nobody hangs, and others go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>

#include "scale.h"
#include "support/rig.h"

static uint64_t seed;

static void set_faults(struct rig *rig, unsigned bios, unsigned flushes,
		       unsigned tails)
{
	struct store_fault_options opts = { .error_every = bios,
					    .flush_error_every = flushes,
					    .tail_error_every = tails };

	store_fault_set(rig->spy->inner, &opts);
}

static void fault_up(struct rig *rig, uint32_t min_folio, size_t memory)
{
	struct store_fault_options faults = { .seed = seed };
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = memory };
	struct store *store;

	CHECK_OK(store_fault_create(min_folio, 512, &faults, &store));
	rig_up(rig, spy_create(store), &opts);
}

/* The fault is gone: until this handle has heard all of the past. */
static void sync_until_clean(struct dbh_file *file)
{
	int res;

	while ((res = dbh_fsync(file)))
		CHECK_IS(res, -EIO);
}

/* ---- who hears of it ------------------------------------------------- */

static void test_r15_each_handle_once(void **state)
{
	struct dbh_file *b, *c, *late;
	struct rig rig;

	(void)state;
	guard(120);
	fault_up(&rig, 4096, 8u << 20);
	b = rig_open(&rig, O_RDWR);
	c = rig_open(&rig, O_RDONLY);
	set_faults(&rig, 1, 0, 1);
	rig_write(&rig, 100001, 0, 1, DBH_DONTCACHE);
	CHECK_IS(dbh_fsync(rig.file), -EIO);
	CHECK(rig_residency(&rig).dirty, "the data is gone");
	rig_read(&rig, 100001, 0, 1, DBH_DONTCACHE);
	set_faults(&rig, 0, 0, 0);
	sync_until_clean(rig.file);
	CHECK_OK(dbh_fsync(rig.file));
	/* All is well again, and the others hear of it yet. */
	late = rig_open(&rig, O_RDWR);
	CHECK_IS(dbh_fsync(b), -EIO);
	CHECK_OK(dbh_fsync(b));
	CHECK_IS(dbh_fdatasync(c), -EIO);
	CHECK_OK(dbh_fdatasync(c));
	CHECK_OK(dbh_fsync(late));
	CHECK_OK(dbh_close(late));
	CHECK_OK(dbh_close(b));
	CHECK_OK(dbh_close(c));
	rig_close(&rig);
	rig_check_store(&rig, 100001, 0, 1);
	rig_down(&rig);
}

/* A close that is not the last one tells what its handle has not heard. */
static void test_r15_close_tells(void **state)
{
	struct dbh_file *b;
	struct rig rig;

	(void)state;
	guard(120);
	fault_up(&rig, 4096, 8u << 20);
	b = rig_open(&rig, O_RDWR);
	set_faults(&rig, 1, 0, 1);
	rig_write(&rig, 8192, 0, 1, 0);
	CHECK_IS(dbh_fsync(rig.file), -EIO);
	set_faults(&rig, 0, 0, 0);
	sync_until_clean(rig.file);
	CHECK_IS(dbh_close(b), -EIO);
	rig_down(&rig);
}

/* ---- the last close -------------------------------------------------- */

static void fail_last_close(struct rig *rig)
{
	guard(120);
	fault_up(rig, 4096, 8u << 20);
	rig_write(rig, 4096, 0, 1, DBH_DSYNC);
	set_faults(rig, 1, 0, 1);
	rig_write(rig, 50001, 4096, 1, DBH_DONTCACHE);
	rig_write(rig, 100, 80000, 1, 0);
	CHECK_IS(dbh_close(rig->file), -EIO);
	rig->file = NULL;
	CHECK_IS(dbh_engine_destroy(rig->engine), -EIO);
	CHECK(rig_stats(rig).dirty, "the data is gone");
}

static void test_r15_last_close_then_retry(void **state)
{
	struct rig rig;

	(void)state;
	fail_last_close(&rig);
	set_faults(&rig, 0, 0, 0);
	CHECK_OK(dbh_engine_destroy(rig.engine));
	rig_check_store(&rig, 54097, 0, 1);
	rig_check_store(&rig, 100, 80000, 1);
	CHECK_IS(store_mem_size(rig.spy->inner), 80100);
	spy_destroy(rig.spy);
}

static void test_r15_last_close_then_reopen(void **state)
{
	struct rig rig;

	(void)state;
	fail_last_close(&rig);
	rig.file = rig_open(&rig, O_RDWR);
	rig_read(&rig, 54097, 0, 1, 0);
	CHECK_IS(dbh_fsync(rig.file), -EIO);
	set_faults(&rig, 0, 0, 0);
	sync_until_clean(rig.file);
	rig_close(&rig);
	rig_check_store(&rig, 54097, 0, 1);
	rig_down(&rig);
}

static void test_r15_discard(void **state)
{
	struct dbh_file *read_only;
	struct rig rig;

	(void)state;
	fail_last_close(&rig);
	rig.file = rig_open(&rig, O_RDWR);
	read_only = rig_open(&rig, O_RDONLY);
	CHECK_IS(dbh_discard(read_only), -EBADF);
	CHECK_OK(dbh_close(read_only));
	while (rig_residency(&rig).dirty) {
		int res = dbh_fsync(rig.file);

		CHECK(!res || res == -EIO, "%d", res);
		CHECK_OK(dbh_discard(rig.file));
	}
	set_faults(&rig, 0, 0, 0);
	dbh_fsync(rig.file); /* it may have news */
	rig_close(&rig);
	rig_check_store(&rig, 4096, 0, 1);
	rig_down(&rig);
}

/* ---- flushes --------------------------------------------------------- */

static void test_r15_failed_flush(void **state)
{
	struct dbh_file *b;
	struct rig rig;
	char buf[100];

	(void)state;
	guard(120);
	fault_up(&rig, 4096, 8u << 20);
	b = rig_open(&rig, O_RDWR);
	rig_write(&rig, 100000, 0, 1, DBH_DONTCACHE);
	set_faults(&rig, 0, 1, 0);
	CHECK_IS(dbh_fdatasync(rig.file), -EIO);
	set_faults(&rig, 0, 0, 0);
	/* Nobody may believe that it is safe now. */
	for (int i = 0; i < 3; i++) {
		CHECK_IS(dbh_fsync(rig.file), -EIO);
		CHECK_IS(dbh_fdatasync(b), -EIO);
		CHECK_IS(dbh_sync_range(b, 0, 0, true), -EIO);
		CHECK_IS(dbh_pwrite(b, buf, 100, 0, DBH_DSYNC), -EIO);
		CHECK_IS(dbh_pwrite(b, buf, 100, 0, DBH_SYNC), -EIO);
	}
	/* Not even a new handle. */
	CHECK_OK(dbh_close(b));
	b = rig_open(&rig, O_RDWR);
	CHECK_IS(dbh_fsync(b), -EIO);
	CHECK_IS(dbh_close(b), 0);
	/* Until the last close. */
	CHECK_OK(dbh_close(rig.file));
	rig.file = rig_open(&rig, O_RDWR);
	CHECK_OK(dbh_fsync(rig.file));
	rig_write(&rig, 100, 0, 2, DBH_DSYNC);
	rig_down(&rig);
}

/* ---- reads ----------------------------------------------------------- */

static void test_r15_reads(void **state)
{
	struct rig rig;
	char buf[8192];

	(void)state;
	guard(120);
	fault_up(&rig, 4096, 8u << 20);
	rig_write(&rig, 1u << 20, 0, 1, DBH_DONTCACHE);
	rig_close(&rig);
	rig.file = rig_open(&rig, O_RDWR);
	rig_write(&rig, 100, 4096, 2, DBH_DONTCACHE);
	set_faults(&rig, 1, 0, 0);
	CHECK_IS(dbh_pread(rig.file, buf, 4096, 0, DBH_DONTCACHE), -EIO);
	CHECK_IS(dbh_pread(rig.file, buf, 4096, 0, 0), -EIO);
	/* What is known is known; the rest of its block cannot be had. */
	rig_read(&rig, 100, 4096, 2, 0);
	CHECK_IS(dbh_pread(rig.file, buf, 200, 4096, 0), -EIO);
	set_faults(&rig, 0, 0, 0);
	rig_read(&rig, 4096, 0, 1, DBH_DONTCACHE);
	rig_read(&rig, 4096, 0, 1, 0);
	rig_read(&rig, 3996, 4196, 1, 0);
	rig_read(&rig, 100, 4096, 2, 0);
	dbh_fsync(rig.file); /* it may have news */
	rig_close(&rig);
	rig_check_store(&rig, 100, 4096, 2);
	rig_check_store(&rig, 3996, 4196, 1);
	rig_down(&rig);
}

/* An edge that must go to disk and cannot be filled. */
static void test_r15_fill_fails(void **state)
{
	struct rig rig;

	(void)state;
	guard(120);
	fault_up(&rig, 4096, 8u << 20);
	rig_write(&rig, 1u << 20, 0, 1, DBH_DONTCACHE);
	rig_close(&rig);
	rig.file = rig_open(&rig, O_RDWR);
	set_faults(&rig, 1, 0, 0);
	rig_write(&rig, 100, 5000, 2, DBH_DONTCACHE);
	CHECK_IS(dbh_fsync(rig.file), -EIO);
	rig_read(&rig, 100, 5000, 2, DBH_DONTCACHE);
	set_faults(&rig, 0, 0, 0);
	sync_until_clean(rig.file);
	rig_check_store(&rig, 100, 5000, 2);
	rig_check_store(&rig, 904, 4096, 1);
	rig_down(&rig);
}

/* ---- truncate -------------------------------------------------------- */

static void test_r24_truncate_fails(void **state)
{
	struct rig rig;
	struct stat st;

	(void)state;
	guard(120);
	fault_up(&rig, 4096, 8u << 20);
	rig_write(&rig, 100000, 0, 1, 0);
	CHECK_OK(dbh_fsync(rig.file));
	rig_write(&rig, 10000, 50000, 2, 0);
	set_faults(&rig, 0, 0, 1);
	atomic_store(&rig.spy->size_limit, 200000);
	CHECK_IS(dbh_ftruncate(rig.file, 55000), -EIO);
	CHECK_IS(dbh_ftruncate(rig.file, 200000), -EIO);
	atomic_store(&rig.spy->size_limit, 0);
	CHECK_OK(dbh_fstat(rig.file, &st));
	CHECK_IS(st.st_size, 100000);
	/* Nothing was dropped. */
	rig_read(&rig, 50000, 0, 1, 0);
	rig_read(&rig, 10000, 50000, 2, 0);
	rig_read(&rig, 40000, 60000, 1, 0);
	set_faults(&rig, 0, 0, 0);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_OK(dbh_ftruncate(rig.file, 55000));
	rig_close(&rig);
	CHECK_IS(store_mem_size(rig.spy->inner), 55000);
	rig_check_store(&rig, 50000, 0, 1);
	rig_check_store(&rig, 5000, 50000, 2);
	rig_down(&rig);
}

/* ---- one fails, others go on ----------------------------------------- */

static void *write_bad(void *arg)
{
	struct rig *bad = arg;
	char buf[20000];
	int err = 0;

	/* It gets the error when it holds its share. */
	memset(buf, 1, sizeof(buf));
	for (unsigned i = 0; i < 100000 && !err; i++) {
		ssize_t n = dbh_pwrite(bad->file, buf, sizeof(buf),
				       (off_t)(i * sizeof(buf)),
				       i % 2 ? DBH_DONTCACHE : 0);

		err = n < 0 ? (int)n : 0;
	}
	CHECK_IS(err, -EIO);
	return NULL;
}

static void test_r15_others_go_on(void **state)
{
	static const size_t budgets[] = { 1u << 20, 4u << 20 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rig bad, good;
		pthread_t thread;

		guard(120);
		fault_up(&bad, 4096, budgets[i]);
		set_faults(&bad, 1, 0, 1);
		good.engine = bad.engine;
		good.spy = spy_create_mem(4096, 512);
		good.file = rig_open(&good, O_RDWR);
		pthread_create(&thread, NULL, write_bad, &bad);
		for (unsigned n = 0; n < 500; n++) {
			rig_write(&good, 20000, n * 20000ull, 1,
				  n % 3 ? DBH_DONTCACHE : 0);
			if (n % 100 == 99)
				CHECK_OK(dbh_fsync(good.file));
		}
		pthread_join(thread, NULL);
		rig_read(&good, 20000, 0, 1, 0);
		CHECK_OK(dbh_close(good.file));
		rig_check_store(&good, 500 * 20000, 0, 1);
		set_faults(&bad, 0, 0, 0);
		sync_until_clean(bad.file);
		rig_down(&bad);
		spy_destroy(good.spy);
	}
}

/* ---- at random ------------------------------------------------------- */

#define THREADS 4u
#define RECORDS 64u
#define RECORD 5001u

struct writer {
	struct rig *rig;
	struct rng rng;
	unsigned id;
	unsigned gen[RECORDS]; /* acknowledged; 0: not written */
};

static uint64_t record_pos(const struct writer *w, unsigned i)
{
	return (i * THREADS + w->id) * (uint64_t)RECORD;
}

static void *write_in_trouble(void *arg)
{
	struct writer *w = arg;
	unsigned long steps = test_scale(300);
	char *buf = malloc(RECORD);

	CHECK(buf, "no memory");
	for (unsigned gen = 1; gen <= steps; gen++) {
		unsigned i = (unsigned)rng_below(&w->rng, RECORDS);
		unsigned flags = rng_chance(&w->rng, 70) ? DBH_DONTCACHE : 0;
		uint64_t pos = record_pos(w, i);
		ssize_t n;

		if (rng_chance(&w->rng, 15)) {
			int err = dbh_fdatasync(w->rig->file);

			CHECK(!err || err == -EIO, "%d", err);
			continue;
		}
		if (rng_chance(&w->rng, 20) && w->gen[i]) {
			n = dbh_pread(w->rig->file, buf, RECORD, (off_t)pos,
				      flags);
			CHECK(n == RECORD || n < 0 ||
				      (n > 0 && n < RECORD), "%zd", n);
			if (n > 0)
				pattern_check(buf, (size_t)n, pos, w->gen[i]);
			continue;
		}
		/* While it holds its share it may be refused, or half: until
		 * the whole record has been taken. */
		pattern_fill(buf, RECORD, pos, gen);
		for (size_t at = 0; at < RECORD;) {
			n = dbh_pwrite(w->rig->file, buf + at, RECORD - at,
				       (off_t)(pos + at), flags);
			CHECK(n > 0 || n == -EIO, "%zd", n);
			/* A sync tries again at once. */
			if (n < 0)
				dbh_fdatasync(w->rig->file);
			else
				at += (size_t)n;
		}
		w->gen[i] = gen;
	}
	free(buf);
	return NULL;
}

static void trouble(uint32_t min_folio, size_t memory, struct rng *r)
{
	struct writer writers[THREADS];
	pthread_t threads[THREADS];
	struct store_fault_options faults = {
		.error_every = (unsigned)rng_between(r, 2, 20),
		.tail_error_every = (unsigned)rng_between(r, 2, 20),
		.delay_us = (unsigned)rng_below(r, 300),
	};
	struct rig rig;

	guard(120);
	fault_up(&rig, min_folio, memory);
	store_fault_set(rig.spy->inner, &faults);
	for (unsigned i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ .rig = &rig,
					      .rng = { rng_next(r) },
					      .id = i };
		pthread_create(&threads[i], NULL, write_in_trouble,
			       &writers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	set_faults(&rig, 0, 0, 0);
	sync_until_clean(rig.file);
	rig_close(&rig);
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned n = 0; n < RECORDS; n++)
			if (writers[i].gen[n])
				rig_check_store(&rig, RECORD,
						record_pos(&writers[i], n),
						writers[i].gen[n]);
	rig_down(&rig);
}

static void test_r15_nothing_is_lost(void **state)
{
	struct rng r = rng_fork(seed, 9);

	(void)state;
	for (unsigned round = 0; round < 12; round++)
		trouble(round % 3 == 0 ? 4096 : round % 3 == 1 ? 16384 : 65536,
			(size_t)1 << (20 + round % 4), &r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r15_each_handle_once),
		cmocka_unit_test(test_r15_close_tells),
		cmocka_unit_test(test_r15_last_close_then_retry),
		cmocka_unit_test(test_r15_last_close_then_reopen),
		cmocka_unit_test(test_r15_discard),
		cmocka_unit_test(test_r15_failed_flush),
		cmocka_unit_test(test_r15_reads),
		cmocka_unit_test(test_r15_fill_fails),
		cmocka_unit_test(test_r24_truncate_fails),
		cmocka_unit_test(test_r15_others_go_on),
		cmocka_unit_test(test_r15_nothing_is_lost),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

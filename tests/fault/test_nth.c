// SPDX-License-Identifier: MIT
/*
 * A fault at every n-th I/O of a script (R15): whatever fails, and whenever,
 * once it is well again all that was acknowledged is there, each handle has
 * heard of it once, and nothing hangs or is left.
 *
 * The script runs with the first I/O of a kind failing, then with the second,
 * and so on, until a run meets no fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "scale.h"
#include "support/rig.h"

#define BLOCK 4096u
#define CONTENT 200001u
#define MODEL_BYTES (1u << 20)
#define NR_THREADS 8u

static uint64_t seed;

enum kind { KIND_BIO, KIND_TAIL, KIND_FLUSH, NR_KINDS };

/* Whom we ask what it has heard. */
enum who { WRITER, OTHER, READER, NR_WHO };

/**
 * struct script - a run
 * @is, @may: what a byte is, or may be as well: where a write failed after its
 *	data was taken in
 * @told: how often each handle was told, by a sync, a stable write or close
 */
struct script {
	struct rig rig;
	struct dbh_file *file[NR_WHO];
	unsigned told[NR_WHO];
	char is[MODEL_BYTES], may[MODEL_BYTES];
	uint64_t size;
	unsigned gen;
	int error;
	bool onwards, async;
};

static struct script *fresh(void)
{
	struct script *s = calloc(1, sizeof(*s));

	CHECK(s, "no memory");
	return s;
}

/* ---- what the script is made of -------------------------------------- */

struct pending {
	sem_t done;
	ssize_t result;
};

static void request_done(void *arg, ssize_t result)
{
	struct pending *p = arg;

	p->result = result;
	sem_post(&p->done);
}

static ssize_t wait_for(struct pending *p, int err)
{
	CHECK_OK(err);
	while (sem_wait(&p->done))
		;
	sem_destroy(&p->done);
	return p->result;
}

static ssize_t submit(struct script *s, bool write, void *buf, size_t len,
		      uint64_t pos, unsigned flags)
{
	struct dbh_file *file = s->file[WRITER];
	struct iovec iov = { buf, len };
	struct pending p;

	if (!s->async)
		return write ? dbh_pwrite(file, buf, len, (off_t)pos, flags) :
			       dbh_pread(file, buf, len, (off_t)pos, flags);
	CHECK_OK(sem_init(&p.done, 0, 0));
	return wait_for(&p, (write ? dbh_submit_write :
				     dbh_submit_read)(file, &iov, 1, (off_t)pos,
						      flags, request_done, &p));
}

/* Only what was made to fail fails. */
static void check_error(struct script *s, ssize_t res)
{
	CHECK(res == -s->error || res == -EIO, "%zd", res);
	CHECK(store_fault_count(s->rig.spy->inner), "nothing has failed: %zd",
	      res);
}

static void put(struct script *s, size_t len, uint64_t pos, unsigned flags)
{
	bool stable = flags & (DBH_DSYNC | DBH_SYNC);
	char *buf = malloc(len);
	ssize_t n;

	CHECK(buf, "no memory");
	if (flags & DBH_APPEND)
		pos = s->size;
	pattern_fill(buf, len, pos, ++s->gen);
	n = submit(s, true, buf, len, pos, flags);
	if (n < 0) {
		check_error(s, n);
		s->told[WRITER] += stable;
	}
	/* A stable write that failed lies inside the file, and is taken in. */
	CHECK(!stable || pos + len <= s->size, "of the script");
	if (n > 0) {
		memcpy(s->is + pos, buf, (size_t)n);
		memcpy(s->may + pos, buf, (size_t)n);
		s->size = MAX(s->size, pos + (size_t)n);
	} else if (stable) {
		memcpy(s->may + pos, buf, len);
	}
	free(buf);
}

static void check_bytes(const struct script *s, const char *buf, size_t len,
			uint64_t pos)
{
	for (size_t i = 0; i < len; i++)
		CHECK(buf[i] == s->is[pos + i] || buf[i] == s->may[pos + i],
		      "byte %llu", (unsigned long long)(pos + i));
}

static void get(struct script *s, size_t len, uint64_t pos, unsigned flags)
{
	char *buf = malloc(len);
	ssize_t n;

	CHECK(buf, "no memory");
	n = submit(s, false, buf, len, pos, flags);
	if (n < 0)
		check_error(s, n);
	else
		check_bytes(s, buf, (size_t)n, pos);
	free(buf);
}

static void cut(struct script *s, uint64_t size)
{
	int err;

	atomic_store(&s->rig.spy->size_limit, MAX(size, s->size));
	err = dbh_ftruncate(s->file[WRITER], (off_t)size);
	atomic_store(&s->rig.spy->size_limit, 0);
	if (err) {
		check_error(s, err);
		return;
	}
	if (size < s->size) {
		memset(s->is + size, 0, s->size - size);
		memset(s->may + size, 0, s->size - size);
	}
	s->size = size;
}

static int sync_one(struct script *s, enum who who)
{
	int err = dbh_fsync(s->file[who]);

	if (err)
		check_error(s, err);
	s->told[who] += !!err;
	return err;
}

/* ---- the script ------------------------------------------------------ */

static void play(struct script *s)
{
	put(s, 47008, 0, DBH_DONTCACHE);
	put(s, 47008, 47008, DBH_DONTCACHE);
	put(s, 100, 60000, 0);
	get(s, 5000, 58000, 0);
	put(s, 6000, 150001, DBH_DONTCACHE);
	get(s, 9000, 149000, DBH_DONTCACHE);
	sync_one(s, WRITER);
	put(s, 7001, CONTENT, DBH_DONTCACHE);
	put(s, 3000, 0, DBH_DONTCACHE | DBH_APPEND);
	put(s, 12345, 100001, DBH_DONTCACHE | DBH_DSYNC);
	put(s, 2000, 5000, DBH_SYNC);
	cut(s, 170001);
	put(s, 30000, 171000, 0);
	cut(s, 260000);
	put(s, 9000, 250000, DBH_DONTCACHE | DBH_DEFER);
	put(s, 9000, 259000, DBH_DONTCACHE | DBH_DEFER);
	sync_one(s, WRITER);
	for (uint64_t at = 249856; at < 268000; at += BLOCK)
		dbh_edge_complete(s->file[WRITER], (off_t)at);
	get(s, 20000, 160000, 0);
	put(s, 50000, 300000, DBH_DONTCACHE);
	sync_one(s, OTHER);
	put(s, 100, 299990, DBH_DONTCACHE);
}

static void set_fault(struct script *s, enum kind kind, unsigned nth)
{
	struct store_fault_options opts = {
		.error = s->error,
		.onwards = s->onwards,
		.nth_bio = kind == KIND_BIO ? nth : 0,
		.nth_tail = kind == KIND_TAIL ? nth : 0,
		.nth_flush = kind == KIND_FLUSH ? nth : 0,
	};

	store_fault_set(s->rig.spy->inner, &opts);
}

static void start(struct script *s, enum kind kind, unsigned nth)
{
	struct store_fault_options faults = { .seed = seed };
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 8u << 20 };
	struct store *store;

	CHECK_OK(store_fault_create(BLOCK, 512, &faults, &store));
	rig_up(&s->rig, spy_create(store), &opts);
	rig_write(&s->rig, CONTENT, 0, 1, DBH_DONTCACHE);
	rig_close(&s->rig);
	pattern_fill(s->is, CONTENT, 0, 1);
	memcpy(s->may, s->is, CONTENT);
	s->size = CONTENT;
	s->gen = 1;
	s->file[WRITER] = rig_open(&s->rig, O_RDWR);
	s->file[OTHER] = rig_open(&s->rig, O_RDWR);
	s->file[READER] = rig_open(&s->rig, O_RDONLY);
	set_fault(s, kind, nth);
}

static void check_content(struct script *s)
{
	char *buf = malloc(MODEL_BYTES);

	CHECK(buf, "no memory");
	CHECK_IS(store_mem_size(s->rig.spy->inner), s->size);
	CHECK_IS(store_mem_peek(s->rig.spy->inner, buf, s->size, 0), s->size);
	check_bytes(s, buf, s->size, 0);
	free(buf);
}

/* After a failed flush nobody believes anything, until the last close. */
static void check_flush_failed(struct script *s)
{
	for (unsigned i = 0; i < 2; i++)
		for (enum who who = 0; who < OTHER + 1; who++)
			CHECK_IS(dbh_fsync(s->file[who]), -EIO);
	for (enum who who = 0; who < NR_WHO; who++)
		dbh_close(s->file[who]);
	s->rig.file = rig_open(&s->rig, O_RDWR);
	CHECK_OK(dbh_fsync(s->rig.file));
	rig_close(&s->rig);
}

/* All is well again: what is there, and who has heard what? */
static void check_told(struct script *s)
{
	unsigned tries = 0;

	while (sync_one(s, WRITER))
		CHECK(++tries < 3, "told again and again");
	CHECK_OK(dbh_fsync(s->file[WRITER]));
	CHECK(!sync_one(s, OTHER) || !sync_one(s, OTHER), "told twice");
	s->told[READER] += !!dbh_close(s->file[READER]);
	CHECK_OK(dbh_close(s->file[OTHER]));
	s->rig.file = s->file[WRITER];
	rig_close(&s->rig);
	if (!s->onwards)
		for (enum who who = 0; who < NR_WHO; who++)
			CHECK(s->told[who] <= 1, "%u told %u times", who,
			      s->told[who]);
	/* What one has heard, all have. */
	for (enum who who = 1; who < NR_WHO; who++)
		CHECK(!s->told[who] == !s->told[WRITER], "%u told %u, %u", who,
		      s->told[who], s->told[WRITER]);
}

/* Return: something has failed. */
static bool run(struct script *s, enum kind kind, unsigned nth)
{
	bool failed;

	guard(120);
	start(s, kind, nth);
	play(s);
	failed = store_fault_count(s->rig.spy->inner);
	set_fault(s, KIND_BIO, 0);
	if (kind == KIND_FLUSH && failed)
		check_flush_failed(s);
	else
		check_told(s);
	CHECK(failed || (!s->told[WRITER] && !s->told[OTHER]),
	      "told of nothing");
	check_content(s);
	rig_down(&s->rig);
	return failed;
}

static void every_nth(enum kind kind, int error, bool onwards, bool async)
{
	unsigned nth, step = test_scale(4) < 4 ? 3 : 1;
	bool failed;

	nth = 1;
	do {
		struct script *s = fresh();

		s->error = error;
		s->onwards = onwards;
		s->async = async;
		failed = run(s, kind, nth);
		free(s);
		nth += step;
	} while (failed);
	CHECK(nth > 2 * step, "nothing was made to fail");
}

static void every_kind(int error, bool async)
{
	for (enum kind kind = 0; kind < NR_KINDS; kind++) {
		every_nth(kind, error, false, async);
		every_nth(kind, error, true, async);
	}
}

static void test_r15_nth_eio(void **state)
{
	(void)state;
	every_kind(EIO, false);
}

static void test_r15_nth_enospc(void **state)
{
	(void)state;
	every_kind(ENOSPC, false);
}

static void test_r15_nth_async(void **state)
{
	(void)state;
	every_kind(EIO, true);
	every_kind(ENOSPC, true);
}

/* ---- one handle, several threads ------------------------------------- */

static void *sync_once(void *arg)
{
	return dbh_fsync(arg) ? arg : NULL;
}

static void test_r15_one_thread_is_told(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		pthread_t threads[NR_THREADS];
		struct script *s = fresh();
		unsigned told = 0;

		guard(120);
		s->error = EIO;
		s->onwards = true;
		start(s, KIND_BIO, 1);
		put(s, 47008, 0, DBH_DONTCACHE);
		CHECK_IS(sync_one(s, OTHER), -EIO);
		set_fault(s, KIND_BIO, 0);
		while (dbh_fsync(s->file[OTHER]))
			;
		for (unsigned i = 0; i < NR_THREADS; i++)
			CHECK_OK(pthread_create(&threads[i], NULL, sync_once,
						s->file[WRITER]));
		for (unsigned i = 0; i < NR_THREADS; i++) {
			void *was;

			CHECK_OK(pthread_join(threads[i], &was));
			told += !!was;
		}
		CHECK_IS(told, 1);
		CHECK_IS(dbh_close(s->file[READER]), -EIO);
		CHECK_OK(dbh_close(s->file[OTHER]));
		s->rig.file = s->file[WRITER];
		rig_close(&s->rig);
		check_content(s);
		rig_down(&s->rig);
		free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r15_nth_eio),
		cmocka_unit_test(test_r15_nth_enospc),
		cmocka_unit_test(test_r15_nth_async),
		cmocka_unit_test(test_r15_one_thread_is_told),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

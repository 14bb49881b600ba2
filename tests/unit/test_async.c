// SPDX-License-Identifier: MIT
/*
 * The calls that do not wait: submit with callbacks, DBH_NOWAIT, and folios
 * that are lent (write_begin and write_end).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>

#include "scale.h"
#include "support/rig.h"

static uint64_t seed;

/* ---- callbacks ------------------------------------------------------- */

#define JOBS 64u
#define JOB_BYTES 47008u

struct job {
	struct dbh_file *file;
	char *buf;
	unsigned nr; /* of this write: the file is written in turns */
	unsigned left; /* further writes that its callback submits */
	bool read;
	_Atomic unsigned called;
	pthread_t caller;
	sem_t *done;
};

static void submit(struct job *j);

static void job_done(void *arg, ssize_t result)
{
	struct job *j = arg;

	CHECK_IS(result, JOB_BYTES);
	atomic_fetch_add(&j->called, 1);
	if (!j->left--) {
		sem_post(j->done);
		return;
	}
	j->nr += JOBS;
	submit(j);
}

static void submit(struct job *j)
{
	struct iovec iov = { j->buf, JOB_BYTES };
	uint64_t pos = j->nr * (uint64_t)JOB_BYTES;

	if (!j->read)
		pattern_fill(j->buf, JOB_BYTES, pos, 1);
	CHECK_OK((j->read ? dbh_submit_read : dbh_submit_write)(
		j->file, &iov, 1, (off_t)pos, DBH_DONTCACHE, job_done, j));
}

/* Many at a time, each of which goes on from its callback; with a budget that
 * they must wait for. */
static void run_jobs(struct rig *rig, bool read, unsigned turns)
{
	static struct job jobs[JOBS];
	sem_t done;

	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < JOBS; i++) {
		jobs[i] = (struct job){ .file = rig->file,
					.buf = malloc(JOB_BYTES),
					.nr = i,
					.left = turns - 1,
					.read = read,
					.done = &done };
		CHECK(jobs[i].buf, "no memory");
		submit(&jobs[i]);
	}
	for (unsigned i = 0; i < JOBS; i++)
		while (sem_wait(&done))
			;
	for (unsigned i = 0; i < JOBS; i++) {
		CHECK_IS(atomic_load(&jobs[i].called), turns);
		if (read)
			pattern_check(jobs[i].buf, JOB_BYTES,
				      jobs[i].nr * (uint64_t)JOB_BYTES, 1);
		free(jobs[i].buf);
	}
	sem_destroy(&done);
}

static void test_callbacks(void **state)
{
	static const uint32_t folios[] = { 4096, 65536 };
	unsigned turns = (unsigned)test_scale(10);

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct store_fault_options slow = { .seed = seed,
						    .delay_us = 200 };
		struct dbh_options opts = { .struct_size = sizeof(opts),
					    .memory_bytes =
						    i < 2 ? 1u << 20 :
							    16u << 20 };
		struct store *store;
		struct rig rig;

		guard(120);
		CHECK_OK(store_fault_create(folios[i % 2], 512, &slow,
					    &store));
		rig_up(&rig, spy_create(store), &opts);
		run_jobs(&rig, false, turns);
		run_jobs(&rig, true, turns);
		rig_close(&rig);
		rig_check_store(&rig, JOBS * turns * (size_t)JOB_BYTES, 0, 1);
		rig_down(&rig);
	}
}

struct one {
	sem_t done;
	ssize_t result;
};

static void one_done(void *arg, ssize_t result)
{
	struct one *o = arg;

	o->result = result;
	sem_post(&o->done);
}

/* A synced one ends when it is durable, and an append where the file ended. */
static void test_submit_sync_and_append(void **state)
{
	struct one o;
	struct rig rig;
	char buf[6000];
	struct iovec iov[2];

	(void)state;
	guard(60);
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	sem_init(&o.done, 0, 0);
	for (unsigned i = 0; i < 20; i++) {
		pattern_fill(buf, 6000, i * 6000ull, 1);
		iov[0] = (struct iovec){ buf, 1000 };
		iov[1] = (struct iovec){ buf + 1000, 5000 };
		CHECK_OK(dbh_submit_write(rig.file, iov, 2, 0,
					  DBH_APPEND | DBH_DSYNC |
						  DBH_DONTCACHE,
					  one_done, &o));
		/* The vectors are ours again. */
		memset(iov, 0xee, sizeof(iov));
		while (sem_wait(&o.done))
			;
		CHECK_IS(o.result, 6000);
		rig_check_store(&rig, 6000, i * 6000ull, 1);
	}
	sem_destroy(&o.done);
	rig_down(&rig);
}

/* ---- NOWAIT ---------------------------------------------------------- */

static void test_nowait(void **state)
{
	struct rig rig;
	char buf[8192];

	(void)state;
	guard(60);
	pattern_fill(buf, sizeof(buf), 0, 2);
	rig_up(&rig, spy_with_content(4096, 65536, 1), NULL);
	/* What is not there must be waited for; what is there need not. */
	CHECK_IS(dbh_pread(rig.file, buf, 100, 0, DBH_NOWAIT), -EAGAIN);
	CHECK_IS(rig_reads(&rig), 0);
	rig_read(&rig, 4096, 0, 1, 0);
	rig_read(&rig, 4096, 0, 1, DBH_NOWAIT);
	/* As far as it goes. */
	pattern_fill(buf, sizeof(buf), 0, 1);
	CHECK_IS(dbh_pread(rig.file, buf, 8192, 0, DBH_NOWAIT), 4096);
	pattern_fill(buf, sizeof(buf), 0, 2);
	CHECK_IS(dbh_pwrite(rig.file, buf, 4096, 0, DBH_NOWAIT), 4096);
	CHECK_IS(dbh_pwrite(rig.file, buf + 4096, 100, 4096,
			    DBH_NOWAIT | DBH_DONTCACHE),
		 100);
	rig_read(&rig, 100, 4096, 2, DBH_NOWAIT);
	/* The rest of the edge is below. */
	CHECK_IS(dbh_pread(rig.file, buf, 200, 4096, DBH_NOWAIT), -EAGAIN);
	/* Under writeback it does not change. */
	spy_hold(rig.spy, true, false);
	rig_write(&rig, 4096, 8192, 2, DBH_DONTCACHE);
	spy_wait_held(rig.spy, BIO_WRITE, 1);
	CHECK_IS(dbh_pwrite(rig.file, buf, 100, 8192, DBH_NOWAIT), -EAGAIN);
	rig_read(&rig, 4096, 8192, 2, DBH_NOWAIT);
	spy_release(rig.spy);
	rig_down(&rig);
}

/* ---- lent folios ----------------------------------------------------- */

static void fill_lent(const struct iovec *iov, int cnt, size_t len,
		      uint64_t pos, unsigned gen)
{
	for (int i = 0; i < cnt && len; i++) {
		size_t n = MIN(len, iov[i].iov_len);

		pattern_fill(iov[i].iov_base, n, pos, gen);
		pos += n;
		len -= n;
	}
}

/* Lend and give back [@pos, @pos + @len), of which @written; all of it may take
 * several. */
static void lend(struct rig *rig, size_t len, uint64_t pos, size_t written,
		 unsigned gen, unsigned flags)
{
	while (len) {
		struct dbh_write *wr;
		struct iovec iov[8];
		int cnt = 8;
		ssize_t n;
		size_t use;

		n = dbh_write_begin(rig->file, (off_t)pos, len, flags, iov,
				    &cnt, &wr);
		CHECK(n > 0 && (size_t)n <= len && cnt >= 1 && cnt <= 8,
		      "%zd of %zu in %d", n, len, cnt);
		use = MIN((size_t)n, written);
		fill_lent(iov, cnt, use, pos, gen);
		CHECK_IS(dbh_write_end(wr, use), use);
		if (use < (size_t)n)
			return;
		pos += use;
		len -= use;
		written -= use;
	}
}

static void test_lent(void **state)
{
	struct rig rig;
	struct stat st;

	(void)state;
	guard(60);
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	lend(&rig, 1u << 20, 0, 1u << 20, 1, DBH_DONTCACHE);
	lend(&rig, 47008, 1u << 20, 47008, 1, DBH_DONTCACHE);
	lend(&rig, 47008, (1u << 20) + 47008, 47008, 1, 0);
	CHECK_OK(dbh_fstat(rig.file, &st));
	CHECK_IS(st.st_size, (1u << 20) + 2 * 47008);
	CHECK_OK(dbh_fsync(rig.file));
	rig_check_store(&rig, (1u << 20) + 2 * 47008, 0, 1);
	CHECK_IS(rig_reads(&rig), 0);
	rig_down(&rig);
}

/* It ends short: the rest is as it was. */
static void test_lent_short(void **state)
{
	static const size_t ends[] = { 0, 1, 4095, 4096, 5000, 9999 };
	static const unsigned flags[] = { 0, DBH_DONTCACHE,
					  DBH_DONTCACHE | DBH_DEFER };

	(void)state;
	guard(60);
	for (unsigned i = 0; i < 6 * 3 * 2; i++) {
		size_t written = ends[i % 6];
		struct stat st;
		struct rig rig;

		rig_up(&rig, spy_with_content(4096, 65536, 1), NULL);
		/* Some of it is in the cache. */
		if (i >= 18)
			rig_read(&rig, 8192, 0, 1, 0);
		lend(&rig, 10000, 100, written, 2, flags[i % 3]);
		if (written)
			rig_read(&rig, written, 100, 2, DBH_DONTCACHE);
		rig_read(&rig, 100, 0, 1, DBH_DONTCACHE);
		rig_read(&rig, 10000, 100 + written, 1, DBH_DONTCACHE);
		/* Past the end of the file it grows by what was written. */
		lend(&rig, 10000, 65536, written, 2, flags[i % 3]);
		CHECK_OK(dbh_fstat(rig.file, &st));
		CHECK_IS(st.st_size, 65536 + written);
		rig_close(&rig);
		CHECK_IS(store_mem_size(rig.spy->inner), 65536 + written);
		rig_check_store(&rig, 100, 0, 1);
		if (written) {
			rig_check_store(&rig, written, 100, 2);
			rig_check_store(&rig, written, 65536, 2);
		}
		rig_check_store(&rig, 50000, 100 + written, 1);
		rig_down(&rig);
	}
}

static void *read_lent(void *arg)
{
	/* Another folio is free. */
	rig_read(arg, 10, 8192, 1, 0);
	rig_read(arg, 4096, 0, 2, 0);
	return NULL;
}

/* Others wait until it is given back, and see all of it. */
static void test_lent_is_locked(void **state)
{
	pthread_t reader;
	struct dbh_write *wr;
	struct iovec iov;
	struct rig rig;
	int cnt = 1;

	(void)state;
	guard(60);
	rig_up(&rig, spy_with_content(4096, 65536, 1), NULL);
	CHECK_IS(dbh_write_begin(rig.file, 0, 4096, 0, &iov, &cnt, &wr), 4096);
	pthread_create(&reader, NULL, read_lent, &rig);
	pattern_fill(iov.iov_base, 2048, 0, 2);
	usleep(10000);
	pattern_fill((char *)iov.iov_base + 2048, 2048, 2048, 2);
	CHECK_IS(dbh_write_end(wr, 4096), 4096);
	pthread_join(reader, NULL);
	rig_down(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_callbacks),
		cmocka_unit_test(test_submit_sync_and_append),
		cmocka_unit_test(test_nowait),
		cmocka_unit_test(test_lent),
		cmocka_unit_test(test_lent_short),
		cmocka_unit_test(test_lent_is_locked),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

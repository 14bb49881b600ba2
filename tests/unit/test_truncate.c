// SPDX-License-Identifier: MIT
/*
 * Truncate: R24, R16, and the cases D16 and D6.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "scale.h"
#include "support/rig.h"

static uint64_t seed;

static void truncate_to(struct rig *rig, uint64_t size)
{
	struct stat st;

	CHECK_OK(dbh_fstat(rig->file, &st));
	atomic_store(&rig->spy->size_limit,
		     MAX(size, (uint64_t)st.st_size));
	CHECK_OK(dbh_ftruncate(rig->file, (off_t)size));
	atomic_store(&rig->spy->size_limit, 0);
	CHECK_OK(dbh_fstat(rig->file, &st));
	CHECK_IS(st.st_size, size);
	CHECK(store_mem_size(rig->spy->inner) <= size, "R16");
}

static void check_zeros(struct rig *rig, uint64_t pos, size_t len)
{
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	CHECK_IS(dbh_pread(rig->file, buf, len, (off_t)pos, 0), len);
	for (size_t i = 0; i < len; i++)
		CHECK(!buf[i], "byte %llu", (unsigned long long)(pos + i));
	free(buf);
}

/* D16: shrink, grow again: what was cut off is zero. */
static void test_d16_regrow(void **state)
{
	static const uint64_t cuts[] = { 1u << 20, 1000000, 4095, 4096, 1, 0 };
	static const unsigned flags[] = { 0, DBH_DONTCACHE,
					  DBH_DONTCACHE | DBH_DEFER };

	(void)state;
	for (unsigned i = 0; i < 6 * 3 * 2; i++) {
		uint64_t cut = cuts[i % 6];
		struct rig rig;

		rig_up(&rig, spy_create_mem(i & 1 ? 16384 : 4096, 512), NULL);
		rig_write(&rig, 4u << 20, 0, 1, flags[i / 6 % 3]);
		if (i >= 18)
			CHECK_OK(dbh_fsync(rig.file));
		truncate_to(&rig, cut);
		if (cut)
			rig_read(&rig, cut, 0, 1, 0);
		truncate_to(&rig, 4u << 20);
		check_zeros(&rig, cut, (4u << 20) - cut);
		if (cut)
			rig_read(&rig, cut, 0, 1, DBH_DONTCACHE);
		rig_close(&rig);
		CHECK_IS(store_mem_size(rig.spy->inner), 4u << 20);
		if (cut)
			rig_check_store(&rig, cut, 0, 1);
		rig_down(&rig);
	}
}

/* An edge behind or across the new end: coverage is clipped. */
static void test_r24_clips_coverage(void **state)
{
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(4096, 65536, 1), NULL);
	rig_write(&rig, 100, 100, 2, DBH_DONTCACHE);
	rig_write(&rig, 3000, 1000, 2, DBH_DONTCACHE);
	rig_write(&rig, 100, 9000, 2, DBH_DONTCACHE);
	truncate_to(&rig, 2000);
	CHECK_IS(rig_residency(&rig).cached, 1);
	truncate_to(&rig, 5000);
	check_zeros(&rig, 2000, 3000);
	/* The rest of it is written now: complete, though a part of that was
	 * covered before. */
	rig_write(&rig, 2096, 2000, 3, DBH_DONTCACHE);
	rig_write(&rig, 100, 0, 3, DBH_DONTCACHE);
	rig_write(&rig, 800, 200, 3, DBH_DONTCACHE);
	CHECK_OK(dbh_fsync(rig.file));
	rig_check_store(&rig, 100, 0, 3);
	rig_check_store(&rig, 100, 100, 2);
	rig_check_store(&rig, 800, 200, 3);
	rig_check_store(&rig, 1000, 1000, 2);
	rig_check_store(&rig, 2096, 2000, 3);
	rig_down(&rig);
}

/* D6: exact sizes after a sync, whatever the end. */
static void test_d6_sizes(void **state)
{
	static const size_t sizes[] = { 0,    1,     511,   512,   513,
					4095, 4096,  4097,  16383, 16384,
					16385, 65535, 65536, 1048577 };

	(void)state;
	for (unsigned i = 0; i < 14 * 3; i++) {
		size_t size = sizes[i % 14];
		struct rig rig;

		rig_up(&rig,
		       spy_create_mem(4096u << (i / 14 * 2), 512), NULL);
		if (size)
			rig_write(&rig, size, 0, 1, DBH_DONTCACHE);
		CHECK(store_mem_size(rig.spy->inner) <= size, "R16");
		CHECK_OK(dbh_fsync(rig.file));
		CHECK_IS(store_mem_size(rig.spy->inner), size);
		/* One more byte at a time (R16: the end block, exactly). */
		for (unsigned n = 0; n < 3; n++) {
			rig_write(&rig, 1, size + n, 1,
				  DBH_DONTCACHE | DBH_DSYNC);
			CHECK_IS(store_mem_size(rig.spy->inner), size + n + 1);
		}
		rig_close(&rig);
		CHECK_IS(store_mem_size(rig.spy->inner), size + 3);
		CHECK_IS(rig_reads(&rig), 0);
		rig_check_store(&rig, size + 3, 0, 1);
		rig_down(&rig);
	}
}

/* ---- racing ---------------------------------------------------------- */

#define THREADS 4u
#define SPAN (1u << 20)

struct racer {
	struct rig *rig;
	struct rng rng;
	unsigned long steps;
};

/* Bytes are zero or what belongs there, at every moment. */
static void *race(void *arg)
{
	struct racer *a = arg;
	char *buf = malloc(SPAN);

	CHECK(buf, "no memory");
	for (unsigned long i = 0; i < a->steps; i++) {
		size_t len = rng_size(&a->rng, 20000);
		uint64_t pos = rng_below(&a->rng, SPAN - len);
		ssize_t n;

		switch (rng_below(&a->rng, 8)) {
		case 0:
			CHECK_OK(dbh_ftruncate(a->rig->file, (off_t)pos));
			break;
		case 1:
			CHECK_OK(dbh_fdatasync(a->rig->file));
			break;
		case 2:
		case 3:
			n = dbh_pread(a->rig->file, buf, len, (off_t)pos,
				      i % 2 ? DBH_DONTCACHE : 0);
			CHECK(n >= 0, "a read failed: %zd", n);
			for (ssize_t b = 0; b < n; b++)
				CHECK(!buf[b] ||
					      buf[b] == pattern_byte(
								pos + (uint64_t)b,
								1),
				      "byte %llu",
				      (unsigned long long)pos +
					      (unsigned long long)b);
			break;
		default:
			rig_write(a->rig, len, pos, 1,
				  i % 3 ? DBH_DONTCACHE : 0);
		}
	}
	free(buf);
	return NULL;
}

static void test_r24_racing_writers(void **state)
{
	struct racer racers[THREADS];
	pthread_t threads[THREADS];

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		struct dbh_options opts = { .struct_size = sizeof(opts),
					    .memory_bytes = 1u << (20 + round),
					    .expire_ms = 10 };
		char *buf = malloc(SPAN);
		struct stat st;
		struct rig rig;

		CHECK(buf, "no memory");
		rig_up(&rig, spy_create_mem(4096u << (round * 2), 512), &opts);
		/* Truncates race: no one limit holds at a time. */
		atomic_store(&rig.spy->size_limit, SPAN);
		for (unsigned i = 0; i < THREADS; i++) {
			racers[i] = (struct racer){
				&rig, rng_fork(seed, round * 10 + i),
				test_scale(1500)
			};
			pthread_create(&threads[i], NULL, race, &racers[i]);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		CHECK_OK(dbh_fstat(rig.file, &st));
		rig_close(&rig);
		CHECK_IS(store_mem_size(rig.spy->inner), st.st_size);
		CHECK_IS(store_mem_peek(rig.spy->inner, buf, SPAN, 0),
			 st.st_size);
		for (off_t b = 0; b < st.st_size; b++)
			CHECK(!buf[b] || buf[b] == pattern_byte((uint64_t)b, 1),
			      "byte %lld", (long long)b);
		free(buf);
		rig_down(&rig);
	}
}

/* Appends of several threads: each record whole, none over another. */
static void *append(void *arg)
{
	struct racer *a = arg;
	char buf[700];

	for (unsigned long i = 0; i < a->steps; i++) {
		size_t len = 4 + rng_below(&a->rng, sizeof(buf) - 4);
		uint16_t head[2] = { (uint16_t)len, 0xbeef };

		memset(buf, (int)(len & 0xff), len);
		memcpy(buf, head, 4);
		CHECK_IS(dbh_pwrite(a->rig->file, buf, len, 0,
				    DBH_APPEND |
					    (i % 4 ? DBH_DONTCACHE : 0)),
			 len);
	}
	return NULL;
}

static void test_append_threads(void **state)
{
	struct racer racers[THREADS];
	pthread_t threads[THREADS];
	unsigned long n = test_scale(1000), found = 0;
	struct rig rig;
	struct stat st;
	char *buf;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		racers[i] = (struct racer){ &rig, rng_fork(seed, 50 + i), n };
		pthread_create(&threads[i], NULL, append, &racers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_OK(dbh_fstat(rig.file, &st));
	buf = malloc((size_t)st.st_size);
	CHECK_IS(dbh_pread(rig.file, buf, (size_t)st.st_size, 0, 0),
		 st.st_size);
	for (off_t at = 0; at < st.st_size; found++) {
		uint16_t head[2];

		memcpy(head, buf + at, 4);
		CHECK_IS(head[1], 0xbeef);
		for (unsigned i = 4; i < head[0]; i++)
			CHECK(buf[at + i] == (char)(head[0] & 0xff),
			      "record at %lld", (long long)at);
		at += head[0];
	}
	CHECK_IS(found, n * THREADS);
	CHECK_IS(rig_reads(&rig), 0);
	free(buf);
	rig_down(&rig);
}

/* ---- a sync that meets a truncate ------------------------------------- */

#define RACE_BYTES (64u << 10)

/** struct race - the sync starts when the truncate reaches the store */
struct race {
	struct rig rig;
	_Atomic bool armed, synced;
	pthread_t syncer;
	int err;
};

static void *sync_meanwhile(void *arg)
{
	struct race *race = arg;

	race->err = dbh_fsync(race->rig.file);
	atomic_store(&race->synced, true);
	return NULL;
}

/* The store waits until the sync is done, or for a while: it may not be. */
static void start_sync(void *arg)
{
	struct race *race = arg;

	if (!atomic_exchange(&race->armed, false))
		return;
	CHECK_OK(-pthread_create(&race->syncer, NULL, sync_meanwhile, race));
	for (int i = 0; i < 100 && !atomic_load(&race->synced); i++)
		usleep(1000);
}

static void check_cut(struct race *race, uint64_t cut_seed, bool fails)
{
	struct store *cut;
	char *buf = malloc(RACE_BYTES);
	size_t n;

	CHECK(buf, "no memory");
	CHECK_OK(store_fault_power_cut(race->rig.spy->inner, cut_seed, &cut));
	n = store_mem_peek(cut, buf, RACE_BYTES, 0);
	CHECK_IS(n, fails ? RACE_BYTES : 4096);
	pattern_check(buf, n, 0, fails ? 2 : 1);
	store_destroy(cut);
	free(buf);
}

static void sync_meets_truncate(bool fails)
{
	struct store_fault_options faults = { .tail_error_every = fails };
	struct race race = { 0 };
	struct store *store;

	CHECK_OK(store_fault_create(4096, 512, NULL, &store));
	rig_up(&race.rig, spy_create(store), NULL);
	race.rig.spy->event = start_sync;
	race.rig.spy->event_arg = &race;
	rig_write(&race.rig, RACE_BYTES, 0, 1, 0);
	CHECK_OK(dbh_fsync(race.rig.file));
	/* What is cut off, or not. */
	rig_write(&race.rig, RACE_BYTES - 4096, 4096, 2, 0);
	if (fails)
		rig_write(&race.rig, 4096, 0, 2, 0);
	store_fault_set(store, &faults);
	atomic_store(&race.rig.spy->size_limit, RACE_BYTES);
	atomic_store(&race.armed, true);
	CHECK_IS(dbh_ftruncate(race.rig.file, 4096), fails ? -EIO : 0);
	pthread_join(race.syncer, NULL);
	CHECK_OK(race.err);
	for (uint64_t i = 0; i < 50; i++)
		check_cut(&race, i, fails);
	store_fault_set(store, &(struct store_fault_options){ 0 });
	rig_down(&race.rig);
}

/* What was written before a sync is durable after it, or the truncate is that
 * has cut it off; and if that one fails, the data comes back. */
static void test_r14_sync_meets_truncate(void **state)
{
	(void)state;
	guard(60);
	sync_meets_truncate(false);
	sync_meets_truncate(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_d16_regrow),
		cmocka_unit_test(test_r24_clips_coverage),
		cmocka_unit_test(test_d6_sizes),
		cmocka_unit_test(test_r24_racing_writers),
		cmocka_unit_test(test_append_threads),
		cmocka_unit_test(test_r14_sync_meets_truncate),
	};

	guard(240);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/*
 * Fallocate: R24, R16, R4, and the cases D18 and D19, on stores in memory; what
 * real file systems make of it is in test_extents.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "scale.h"
#include "shadow.h"
#include "support/rig.h"

static uint64_t seed;

static const unsigned write_flags[] = { 0, DBH_DONTCACHE,
					DBH_DONTCACHE | DBH_DEFER };

/* ---- what becomes zero ----------------------------------------------- */

/* D18: from a-5 to d+6, over every kind of cache. */
static void test_d18_partial_blocks(void **state)
{
	static struct shadow s;

	(void)state;
	for (unsigned i = 0; i < 3 * 2 * 2 * 2; i++) {
		int mode = i & 1 ? PUNCH :
				   FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
		uint32_t folio = i & 2 ? 16384 : 4096;

		shadow_up(&s, folio);
		shadow_write(&s, 0, 300000, 1, write_flags[i / 8]);
		if (i & 4)
			CHECK_OK(dbh_fsync(s.rig.file));
		shadow_fallocate(&s, mode, 2 * folio - 5, 3 * folio + 11);
		shadow_check(&s);
		/* Inside a block; up to the end and over it. */
		shadow_fallocate(&s, mode, 7 * folio + 100, 1000);
		shadow_fallocate(&s, mode, 290000, 500);
		shadow_fallocate(&s, mode, 299000, 100000);
		shadow_check(&s);
		shadow_write(&s, 2 * folio, 100, 2, write_flags[i / 8]);
		CHECK_OK(dbh_fsync(s.rig.file));
		shadow_check_store(&s);
		shadow_down(&s);
	}
}

/* R24: an edge's coverage stays right, bytes not yet known are the store's. */
static void test_r24_edges(void **state)
{
	static struct shadow s;

	(void)state;
	shadow_up(&s, 4096);
	shadow_write(&s, 0, 65536, 1, DBH_DONTCACHE | DBH_DSYNC);
	rig_wait_cached(&s.rig, 0);
	/* Covered in part: before, inside and behind what goes. */
	shadow_write(&s, 4096 + 100, 200, 2, DBH_DONTCACHE);
	shadow_write(&s, 4096 + 1000, 500, 2, DBH_DONTCACHE);
	shadow_write(&s, 8192 + 3000, 500, 2, DBH_DONTCACHE);
	shadow_fallocate(&s, PUNCH, 4096 + 200, 1000);
	shadow_fallocate(&s, PUNCH, 4096 + 4000, 4096);
	shadow_check(&s);
	shadow_down(&s);
}

/* All that was covered of a block is punched: nothing is left to be written, nor
 * read for that. */
static void test_r4_punched_edge_reads_nothing(void **state)
{
	static struct shadow s;

	(void)state;
	shadow_up(&s, 4096);
	shadow_write(&s, 0, 65536, 1, DBH_DONTCACHE | DBH_DSYNC);
	rig_wait_cached(&s.rig, 0);
	shadow_write(&s, 8192 + 3000, 500, 2, DBH_DONTCACHE);
	shadow_fallocate(&s, PUNCH, 8192 + 2900, 700);
	CHECK_IS(rig_residency(&s.rig).cached, 0);
	CHECK_OK(dbh_fsync(s.rig.file));
	CHECK_IS(rig_reads(&s.rig), 0);
	shadow_down(&s);
}

/* What is punched is not written first. */
static void test_r24_punched_data_is_not_written(void **state)
{
	static struct shadow s;
	uint64_t before;

	(void)state;
	for (unsigned synced = 0; synced < 2; synced++) {
		shadow_up(&s, 4096);
		shadow_write(&s, 0, 500001, 1, 0);
		if (synced)
			CHECK_OK(dbh_fsync(s.rig.file));
		shadow_write(&s, 0, 500001, 2, 0);
		before = atomic_load(&s.rig.spy->bytes[BIO_WRITE]);
		shadow_fallocate(&s, PUNCH, 4096, 500001 - 4096);
		CHECK_IS(rig_residency(&s.rig).cached, 1);
		CHECK_OK(dbh_fsync(s.rig.file));
		CHECK_IS(atomic_load(&s.rig.spy->bytes[BIO_WRITE]),
			 before + 4096);
		/* Nothing dirty would have brought the file to its size. */
		CHECK_IS(store_mem_size(s.rig.spy->inner), 500001);
		shadow_down(&s);
	}
}

/* ---- sizes ------------------------------------------------------------- */

/* Mode 0 beyond what is on disk, beyond the end, and KEEP_SIZE. */
static void test_d19_sizes(void **state)
{
	static struct shadow s;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		shadow_up(&s, 4096);
		shadow_write(&s, 0, 100001, 1, write_flags[i]);
		/* Inside the file, of which little is on disk yet. */
		shadow_fallocate(&s, 0, 20000, 50000);
		shadow_fallocate(&s, FALLOC_FL_KEEP_SIZE, 90000, 200000);
		shadow_check(&s);
		shadow_fallocate(&s, 0, 150000, 3);
		shadow_check(&s);
		shadow_write(&s, 150001, 1, 2, write_flags[i]);
		shadow_fallocate(&s, FALLOC_FL_ZERO_RANGE, 150002, 5000);
		shadow_fallocate(&s, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
				 155000, 5000);
		shadow_fallocate(&s, FALLOC_FL_UNSHARE_RANGE, 0, 160000);
		shadow_down(&s);
	}
}

static int try_fallocate(struct shadow *s, int mode, off_t off, off_t len)
{
	return dbh_fallocate(s->rig.file, mode, off, len);
}

static void test_arguments(void **state)
{
	static struct shadow s;

	(void)state;
	shadow_up(&s, 4096);
	shadow_write(&s, 0, 10000, 1, 0);
	CHECK_IS(try_fallocate(&s, 0, -1, 5), -EINVAL);
	CHECK_IS(try_fallocate(&s, 0, 5, 0), -EINVAL);
	CHECK_IS(try_fallocate(&s, 0, 5, -5), -EINVAL);
	CHECK_IS(try_fallocate(&s, 0, INT64_MAX, 1), -EFBIG);
	CHECK_IS(try_fallocate(&s, FALLOC_FL_PUNCH_HOLE, 0, 5), -EOPNOTSUPP);
	CHECK_IS(try_fallocate(&s, PUNCH | FALLOC_FL_ZERO_RANGE, 0, 5),
		 -EOPNOTSUPP);
	CHECK_IS(try_fallocate(&s, 0x4000, 0, 5), -EOPNOTSUPP);
	CHECK_IS(try_fallocate(&s, 0x80, 0, 5), -EOPNOTSUPP);
	CHECK_IS(try_fallocate(&s, FALLOC_FL_COLLAPSE_RANGE, 5, 4096), -EINVAL);
	CHECK_IS(try_fallocate(&s, FALLOC_FL_COLLAPSE_RANGE, 4096, 8192),
		 -EINVAL);
	CHECK_IS(try_fallocate(&s, FALLOC_FL_INSERT_RANGE, 12288, 4096),
		 -EINVAL);
	CHECK_IS(try_fallocate(&s, FALLOC_FL_INSERT_RANGE, 0, INT64_MAX - 4095),
		 -EFBIG);
	CHECK_IS(dbh_lseek(s.rig.file, 0, SEEK_END), -EINVAL);
	CHECK_IS(dbh_lseek(s.rig.file, -1, SEEK_DATA), -ENXIO);
	CHECK_IS(dbh_lseek(s.rig.file, 10000, SEEK_HOLE), -ENXIO);
	shadow_down(&s);
}

/* ---- bytes that move --------------------------------------------------- */

static void test_d18_collapse_insert(void **state)
{
	static struct shadow s;

	(void)state;
	for (unsigned i = 0; i < 3 * 2; i++) {
		uint32_t folio = i & 1 ? 16384 : 4096;

		shadow_up(&s, folio);
		shadow_write(&s, 0, 200001, 1, write_flags[i / 2]);
		shadow_fallocate(&s, FALLOC_FL_COLLAPSE_RANGE, 2 * folio,
				 3 * folio);
		shadow_check(&s);
		shadow_write(&s, 2 * folio + 5, 100, 2, write_flags[i / 2]);
		shadow_fallocate(&s, FALLOC_FL_INSERT_RANGE, folio, 2 * folio);
		shadow_check(&s);
		shadow_write(&s, s.size, 1, 2, write_flags[i / 2]);
		shadow_fallocate(&s, FALLOC_FL_INSERT_RANGE, 0, folio);
		shadow_down(&s);
	}
}

/* ---- failure ------------------------------------------------------------ */

static void fail_tails(struct shadow *s, bool fail)
{
	struct store_fault_options o = { .tail_error_every = fail,
					 .error = ENOSPC };

	store_fault_set(s->rig.spy->inner, &o);
}

/* R24, D19: the errno is passed on, and nothing has changed. */
static void test_r24_failure_changes_nothing(void **state)
{
	static const int modes[] = { 0,
				     FALLOC_FL_KEEP_SIZE,
				     PUNCH,
				     FALLOC_FL_ZERO_RANGE,
				     FALLOC_FL_COLLAPSE_RANGE,
				     FALLOC_FL_INSERT_RANGE };
	static struct shadow s;
	struct store *store;

	(void)state;
	CHECK_OK(store_fault_create(4096, 512, NULL, &store));
	shadow_up_on(&s, store);
	shadow_write(&s, 0, 65536, 1, DBH_DONTCACHE | DBH_DSYNC);
	for (unsigned i = 0; i < 6; i++) {
		shadow_write(&s, i * 5000, 30000, i + 2, write_flags[i % 3]);
		if (modes[i] &
		    (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE))
			CHECK_OK(dbh_fsync(s.rig.file));
		fail_tails(&s, true);
		CHECK_IS(try_fallocate(&s, modes[i], 8192,
				       81920 - 24576 * (i == 4)),
			 -ENOSPC);
		fail_tails(&s, false);
		shadow_check(&s);
	}
	shadow_down(&s);
}

/* It fails after it has done something: what is clean is not believed. */
static void test_r24_failure_halfway(void **state)
{
	static struct shadow s;

	(void)state;
	shadow_up(&s, 4096);
	shadow_write(&s, 0, 65536, 1, 0);
	CHECK_OK(dbh_fsync(s.rig.file));
	shadow_write(&s, 20000, 10000, 2, 0);
	atomic_store(&s.rig.spy->lie_err, -EIO);
	CHECK_IS(try_fallocate(&s, PUNCH, 8192, 40960), -EIO);
	/* What is dirty is still there, and on its block everything. */
	shadow_zero(&s, PUNCH, 8192, 16384 - 8192);
	shadow_zero(&s, PUNCH, 32768, 49152 - 32768);
	shadow_check(&s);
	/* Grown, and then it says that it could not. */
	atomic_store(&s.rig.spy->lie_err, -ENOSPC);
	CHECK_IS(try_fallocate(&s, 0, 0, 100000), -ENOSPC);
	shadow_down(&s);
}

/* What cannot be written does not move. */
static void test_collapse_needs_writeback(void **state)
{
	struct store_fault_options bad = { .bad_pos = 20480, .bad_len = 512 };
	static struct shadow s;
	struct store *store;

	(void)state;
	CHECK_OK(store_fault_create(4096, 512, NULL, &store));
	shadow_up_on(&s, store);
	shadow_write(&s, 0, 65536, 1, 0);
	store_fault_set(store, &bad);
	CHECK_IS(try_fallocate(&s, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), -EIO);
	shadow_check(&s);
	store_fault_set(store, &(struct store_fault_options){ 0 });
	CHECK_IS(dbh_fsync(s.rig.file), -EIO);
	shadow_fallocate(&s, FALLOC_FL_COLLAPSE_RANGE, 0, 4096);
	shadow_down(&s);
}

/* ---- a sync that meets it ---------------------------------------------- */

/** struct race - a sync starts at the n-th event of the store */
struct race {
	struct shadow s;
	_Atomic int armed;
	_Atomic bool synced;
	pthread_t syncer;
	int err;
};

static void *sync_meanwhile(void *arg)
{
	struct race *race = arg;

	race->err = dbh_fsync(race->s.rig.file);
	atomic_store(&race->synced, true);
	return NULL;
}

/* The store waits until the sync is done, or for a while: it may not be. */
static void start_sync(void *arg)
{
	struct race *race = arg;

	if (atomic_fetch_sub(&race->armed, 1) != 1)
		return;
	CHECK_OK(-pthread_create(&race->syncer, NULL, sync_meanwhile, race));
	for (int i = 0; i < 100 && !atomic_load(&race->synced); i++)
		usleep(1000);
}

static void check_cut(struct race *race, uint64_t cut_seed)
{
	char *buf = malloc(SHADOW_BYTES);
	struct store *cut;

	CHECK(buf, "no memory");
	CHECK_OK(store_fault_power_cut(race->s.rig.spy->inner, cut_seed, &cut));
	shadow_compare(&race->s, buf, store_mem_peek(cut, buf, SHADOW_BYTES, 0),
		       "after the cut");
	store_destroy(cut);
	free(buf);
}

/* @when: 1: before the store has done it; 2: afterwards. */
static void sync_meets_punch(int when, bool fails)
{
	static struct race race;
	struct store *store;

	memset(&race, 0, sizeof(race));
	CHECK_OK(store_fault_create(4096, 512, NULL, &store));
	shadow_up_on(&race.s, store);
	race.s.rig.spy->event = start_sync;
	race.s.rig.spy->event_arg = &race;
	shadow_write(&race.s, 0, 65536, 1, 0);
	CHECK_OK(dbh_fsync(race.s.rig.file));
	shadow_write(&race.s, 0, 65536, 2, 0);
	if (fails)
		store_fault_set(store, &(struct store_fault_options){
					       .tail_error_every = 1 });
	atomic_store(&race.armed, when);
	if (fails)
		CHECK_IS(try_fallocate(&race.s, PUNCH, 5000, 20000), -EIO);
	else
		shadow_fallocate(&race.s, PUNCH, 5000, 20000);
	pthread_join(race.syncer, NULL);
	CHECK_OK(race.err);
	for (uint64_t i = 0; i < 50; i++)
		check_cut(&race, i);
	store_fault_set(store, &(struct store_fault_options){ 0 });
	shadow_down(&race.s);
}

/* R14, R24: what was written before the sync is durable after it, in the blocks
 * at both ends too, which are hidden from it; and so is the hole, into which
 * nothing is written. If it fails, the data is. */
static void test_r14_sync_meets_punch(void **state)
{
	(void)state;
	guard(60);
	for (int when = 1; when <= 2; when++) {
		sync_meets_punch(when, false);
		sync_meets_punch(when, true);
	}
}

/* ---- racing -------------------------------------------------------------- */

#define THREADS 4u

struct racer {
	struct rig *rig;
	struct rng rng;
	unsigned long steps;
};

static void race_fallocate(struct racer *a, uint64_t pos, uint64_t len)
{
	static const int modes[] = { PUNCH, PUNCH, 0, FALLOC_FL_KEEP_SIZE,
				     FALLOC_FL_ZERO_RANGE };
	int mode = modes[rng_below(&a->rng, 5)];

	CHECK_OK(dbh_fallocate(a->rig->file, mode, (off_t)pos, (off_t)len));
}

static void race_check(struct racer *a, char *buf, uint64_t pos, size_t len)
{
	ssize_t n = dbh_pread(a->rig->file, buf, len, (off_t)pos,
			      rng_chance(&a->rng, 50) ? DBH_DONTCACHE : 0);

	CHECK(n >= 0, "a read failed: %zd", n);
	for (ssize_t i = 0; i < n; i++)
		CHECK(!buf[i] || buf[i] == pattern_byte(pos + (uint64_t)i, 1),
		      "byte %llu", (unsigned long long)pos + (uint64_t)i);
}

/* Bytes are zero or what belongs there, at every moment. */
static void *race(void *arg)
{
	struct racer *a = arg;
	char *buf = malloc(20001);

	CHECK(buf, "no memory");
	for (unsigned long i = 0; i < a->steps; i++) {
		size_t len = rng_size(&a->rng, 20000);
		uint64_t pos = rng_below(&a->rng, SHADOW_BYTES - len);

		switch (rng_below(&a->rng, 10)) {
		case 0:
			CHECK_OK(dbh_ftruncate(a->rig->file, (off_t)pos));
			break;
		case 1:
			CHECK_OK(dbh_fdatasync(a->rig->file));
			break;
		case 2:
		case 3:
			race_fallocate(a, pos, len);
			break;
		case 4:
		case 5:
			race_check(a, buf, pos, len);
			break;
		default:
			rig_write(a->rig, len, pos, 1,
				  i % 3 ? DBH_DONTCACHE : 0);
		}
	}
	free(buf);
	return NULL;
}

static void race_round(unsigned round)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 1u << (20 + round),
				    .expire_ms = 10 };
	struct racer racers[THREADS];
	pthread_t threads[THREADS];
	struct stat st;
	struct rig rig;

	rig_up(&rig, spy_create_mem(4096u << (round * 2), 512), &opts);
	/* Sizes race: no one limit holds at a time. */
	atomic_store(&rig.spy->size_limit, SHADOW_BYTES);
	for (unsigned i = 0; i < THREADS; i++) {
		racers[i] = (struct racer){ &rig,
					    rng_fork(seed, round * 10 + i),
					    test_scale(600) };
		pthread_create(&threads[i], NULL, race, &racers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_OK(dbh_fstat(rig.file, &st));
	rig_close(&rig);
	CHECK_IS(store_mem_size(rig.spy->inner), st.st_size);
	rig_down(&rig);
}

static void test_r24_racing(void **state)
{
	(void)state;
	guard(240);
	for (unsigned round = 0; round < 3; round++)
		race_round(round);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_d18_partial_blocks),
		cmocka_unit_test(test_r24_edges),
		cmocka_unit_test(test_r4_punched_edge_reads_nothing),
		cmocka_unit_test(test_r24_punched_data_is_not_written),
		cmocka_unit_test(test_d19_sizes),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_d18_collapse_insert),
		cmocka_unit_test(test_r24_failure_changes_nothing),
		cmocka_unit_test(test_r24_failure_halfway),
		cmocka_unit_test(test_collapse_needs_writeback),
		cmocka_unit_test(test_r14_sync_meets_punch),
		cmocka_unit_test(test_r24_racing),
	};

	guard(240);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/*
 * The budget (R12): never exceeded, and enough for any number of writers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>

#include "scale.h"
#include "support/rig.h"

#define WRITERS 64u

static uint64_t seed;

struct job {
	struct rig *rig;
	unsigned id;
	size_t record;
	unsigned records;
	unsigned flags;
	bool read;
};

static void *write_interleaved(void *arg)
{
	struct job *j = arg;
	struct rng r = rng_fork(seed, j->id);

	for (unsigned i = 0; i < j->records; i++) {
		uint64_t pos = (i * (uint64_t)WRITERS + j->id) * j->record;

		rig_write(j->rig, j->record, pos, 1, j->flags);
		if (j->read && rng_chance(&r, 10))
			rig_read(j->rig, j->record, pos, 1,
				 rng_chance(&r, 50) ? DBH_DONTCACHE : 0);
	}
	return NULL;
}

struct watch {
	struct rig *rig;
	_Atomic bool stop;
};

static void *watch_memory(void *arg)
{
	struct watch *w = arg;

	while (!atomic_load(&w->stop)) {
		rig_stats(w->rig); /* checks it */
		usleep(200);
	}
	return NULL;
}

static void many_writers(uint32_t min_folio, size_t memory, size_t record,
			 unsigned flags, bool read)
{
	struct store_fault_options slow = { .seed = seed, .delay_us = 100 };
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = memory };
	unsigned records = (unsigned)(test_scale(8u << 20) / record / WRITERS);
	struct job jobs[WRITERS];
	pthread_t threads[WRITERS], watcher;
	struct store *store;
	struct watch w = { 0 };
	struct rig rig;

	records = records ? records : 1;
	guard(120);
	CHECK_OK(store_fault_create(min_folio, 512, &slow, &store));
	rig_up(&rig, spy_create(store), &opts);
	CHECK_IS(rig_stats(&rig).memory_limit_bytes, memory);
	w.rig = &rig;
	pthread_create(&watcher, NULL, watch_memory, &w);
	for (unsigned i = 0; i < WRITERS; i++) {
		jobs[i] = (struct job){ &rig, i, record, records, flags, read };
		pthread_create(&threads[i], NULL, write_interleaved, &jobs[i]);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&w.stop, true);
	pthread_join(watcher, NULL);
	rig_close(&rig);
	CHECK_IS(store_mem_size(rig.spy->inner), records * WRITERS * record);
	rig_check_store(&rig, records * WRITERS * record, 0, 1);
	rig_down(&rig);
}

static void test_r12_uncached_in_1m(void **state)
{
	(void)state;
	many_writers(4096, 1u << 20, 47008, DBH_DONTCACHE, false);
	many_writers(4096, 1u << 20, 6000, DBH_DONTCACHE, false);
	many_writers(65536, 1u << 20, 47008, DBH_DONTCACHE, false);
	many_writers(65536, 1u << 20, 1000, DBH_DONTCACHE, false);
}

static void test_r12_cached_in_1m(void **state)
{
	(void)state;
	many_writers(4096, 1u << 20, 47008, 0, true);
	many_writers(65536, 1u << 20, 6000, 0, true);
}

static void test_r12_deferred_in_1m(void **state)
{
	(void)state;
	many_writers(4096, 1u << 20, 6000, DBH_DONTCACHE | DBH_DEFER, true);
	many_writers(16384, 1u << 20, 47008, DBH_DONTCACHE | DBH_DEFER, false);
}

static void test_r12_larger_budgets(void **state)
{
	(void)state;
	many_writers(4096, 2u << 20, 6000, DBH_DONTCACHE, true);
	many_writers(16384, 5u << 20, 1000, DBH_DONTCACHE, true);
	many_writers(65536, 32u << 20, 47008, DBH_DONTCACHE, true);
}

/* One call that is larger than all of the memory. */
static void test_r12_large_calls(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 1u << 20 };
	const size_t len = 5000001;

	(void)state;
	guard(120);
	for (unsigned flags = 0; flags <= DBH_DONTCACHE; flags++) {
		struct rig rig;

		rig_up(&rig, spy_create_mem(16384, 4096), &opts);
		rig_write(&rig, len, 77, 1, flags);
		rig_read(&rig, len, 77, 1, flags);
		CHECK_OK(dbh_fsync(rig.file));
		rig_check_store(&rig, len, 77, 1);
		rig_down(&rig);
	}
}

/* R12: what is dirty is bounded by its own option. */
static void test_r12_dirty_limit(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 16u << 20,
				    .dirty_bytes = 1u << 20 };
	struct rig rig;

	(void)state;
	guard(120);
	rig_up(&rig, spy_create_mem(4096, 512), &opts);
	for (unsigned i = 0; i < 500; i++) {
		struct dbh_stats s;

		rig_write(&rig, 20000, i * 20000ull, 1, i % 2);
		s = rig_stats(&rig);
		CHECK(s.dirty + s.writeback <= 256 + 64,
		      "%llu dirty, %llu under writeback",
		      (unsigned long long)s.dirty,
		      (unsigned long long)s.writeback);
	}
	rig_down(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r12_uncached_in_1m),
		cmocka_unit_test(test_r12_cached_in_1m),
		cmocka_unit_test(test_r12_deferred_in_1m),
		cmocka_unit_test(test_r12_larger_budgets),
		cmocka_unit_test(test_r12_large_calls),
		cmocka_unit_test(test_r12_dirty_limit),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

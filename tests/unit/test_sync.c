// SPDX-License-Identifier: MIT
/*
 * Syncs: what is durable when they return, how many flushes that took (R14),
 * and that nothing is written twice (R9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>

#include "scale.h"
#include "support/rig.h"

#define THREADS 12u

static uint64_t seed;

/* ---- group commit ---------------------------------------------------- */

struct syncer {
	struct rig *rig;
	unsigned id;
};

static void *sync_one(void *arg)
{
	struct syncer *s = arg;

	/* No two share a block: who shares one that is being written waits for
	 * that, not for the round. */
	rig_write(s->rig, 6000, s->id * 8192ull, 1,
		  DBH_DONTCACHE | DBH_DSYNC);
	return NULL;
}

static unsigned waiting_syncs(struct rig *rig)
{
	struct sync_group *g = &rig->file->m->sync;
	struct list_head *pos;
	unsigned nr = 0;

	mutex_lock(&g->lock);
	list_for_each(pos, &g->waiting)
		nr++;
	mutex_unlock(&g->lock);
	return nr;
}

/* One round is held up by the store; all who come meanwhile share the next. */
static void test_r14_group_commit(void **state)
{
	struct syncer syncers[THREADS];
	pthread_t threads[THREADS];
	struct rig rig;
	unsigned flushes;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	rig_write(&rig, 4096, 1 << 20, 1, DBH_DSYNC);
	flushes = atomic_load(&rig.spy->flushes);
	spy_hold(rig.spy, true, false);
	for (unsigned i = 0; i < THREADS; i++) {
		syncers[i] = (struct syncer){ &rig, i };
		pthread_create(&threads[i], NULL, sync_one, &syncers[i]);
		if (i == 0)
			spy_wait_held(rig.spy, BIO_WRITE, 1);
	}
	while (waiting_syncs(&rig) < THREADS - 1)
		usleep(1000);
	CHECK_IS(atomic_load(&rig.spy->flushes), flushes);
	spy_release(rig.spy);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_IS(atomic_load(&rig.spy->flushes), flushes + 2);
	CHECK_IS(rig_stats(&rig).sync_waiters, THREADS + 1);
	for (unsigned i = 0; i < THREADS; i++)
		rig_check_store(&rig, 6000, i * 8192ull, 1);
	rig_down(&rig);
}

/* ---- a failure just before -------------------------------------------- */

struct late_sync {
	struct rig *rig;
	int res;
};

static void *sync_late(void *arg)
{
	struct late_sync *s = arg;

	s->res = dbh_fdatasync(s->rig->file);
	return NULL;
}

static unsigned waiting_for_folios(struct dbh_engine *e)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < ENGINE_FOLIO_WAITQS; i++)
		nr += atomic_load(&e->folio_waitq[i].nr);
	return nr;
}

static void fail_every(struct rig *rig, unsigned bios)
{
	struct store_fault_options opts = { .error_every = bios };

	store_fault_set(rig->spy->inner, &opts);
}

/* A write has failed, and its handle has been told, but the folio is not yet
 * dirty again: a sync that comes now must not call it durable. See
 * BROKEN_FAILS_EARLY in models/edge.pml. */
static void test_r14_fails_under_sync(void **state)
{
	struct store *store;
	struct late_sync s;
	struct folio *f;
	struct rig rig;
	pthread_t thread;

	(void)state;
	CHECK_OK(store_fault_create(4096, 512, NULL, &store));
	rig_up(&rig, spy_create(store), NULL);
	spy_hold(rig.spy, true, false);
	rig_write(&rig, 4096, 0, 1, DBH_DONTCACHE);
	spy_wait_held(rig.spy, BIO_WRITE, 1);
	f = mapping_lookup(rig.file->m, 0);
	folio_lock(rig.engine, f);
	fail_every(&rig, 1);
	spy_release(rig.spy);
	while (!file_check_error(rig.file))
		usleep(1000);
	fail_every(&rig, 0);
	s.rig = &rig;
	pthread_create(&thread, NULL, sync_late, &s);
	/* The end of the bio, and the sync. */
	while (waiting_for_folios(rig.engine) < 2)
		usleep(1000);
	folio_unlock(rig.engine, f);
	pthread_join(thread, NULL);
	CHECK_IS(s.res, -EIO);
	CHECK_OK(dbh_fdatasync(rig.file));
	rig_check_store(&rig, 4096, 0, 1);
	rig_down(&rig);
}

/* ---- durable on return ----------------------------------------------- */

#define RECORD 3000u
#define RECORDS 40u

struct durable {
	struct rig *rig;
	struct rng rng;
	unsigned id;
	unsigned steps;
};

/* Every record that was synced survives a power cut, and no byte is there that
 * was never written. */
static void check_cut(struct durable *d, const unsigned *gen)
{
	char buf[RECORD];
	struct store *cut;

	CHECK_OK(store_fault_power_cut(d->rig->spy->inner,
				       rng_next(&d->rng), &cut));
	CHECK(store_mem_size(cut) <= RECORD * RECORDS * THREADS, "R16");
	for (unsigned i = 0; i < RECORDS; i++) {
		uint64_t pos = (i * THREADS + d->id) * (uint64_t)RECORD;

		if (!gen[i])
			continue;
		CHECK_IS(store_mem_peek(cut, buf, RECORD, pos), RECORD);
		pattern_check(buf, RECORD, pos, gen[i]);
	}
	store_destroy(cut);
}

static void *write_durably(void *arg)
{
	struct durable *d = arg;
	unsigned gen[RECORDS] = { 0 };

	for (unsigned step = 1; step <= d->steps; step++) {
		unsigned i = (unsigned)rng_below(&d->rng, RECORDS);
		unsigned flags = rng_chance(&d->rng, 70) ? DBH_DONTCACHE : 0;
		uint64_t pos = (i * THREADS + d->id) * (uint64_t)RECORD;

		/* Of another generation it may be both, torn. */
		if (rng_chance(&d->rng, 70)) {
			rig_write(d->rig, RECORD, pos, step,
				  flags | DBH_DSYNC);
		} else {
			rig_write(d->rig, RECORD, pos, step, flags);
			CHECK_OK(dbh_sync_range(d->rig->file, (off_t)pos,
						RECORD, true));
		}
		gen[i] = step;
		if (rng_chance(&d->rng, 15))
			check_cut(d, gen);
	}
	check_cut(d, gen);
	return NULL;
}

static void durable_on(uint32_t min_folio, size_t memory)
{
	struct store_fault_options faults = { .seed = seed, .delay_us = 300 };
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = memory,
				    .expire_ms = 50 };
	struct durable d[THREADS];
	pthread_t threads[THREADS];
	struct store *store;
	struct rig rig;

	CHECK_OK(store_fault_create(min_folio, 512, &faults, &store));
	rig_up(&rig, spy_create(store), &opts);
	for (unsigned i = 0; i < THREADS; i++) {
		d[i] = (struct durable){
			.rig = &rig,
			.rng = rng_fork(seed, i + min_folio),
			.id = i,
			.steps = (unsigned)test_scale(60),
		};
		pthread_create(&threads[i], NULL, write_durably, &d[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(rig_stats(&rig).flushes <= rig_stats(&rig).sync_waiters,
	      "more flushes than syncs");
	rig_down(&rig);
}

static void test_r14_durable_on_return(void **state)
{
	(void)state;
	durable_on(4096, 1u << 20);
	durable_on(4096, 16u << 20);
	durable_on(16384, 4u << 20);
	durable_on(65536, 8u << 20);
}

/* ---- ranges ---------------------------------------------------------- */

/* Only what is asked for goes to disk. */
static void test_sync_range(void **state)
{
	struct rig rig;
	unsigned writes;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	rig_write(&rig, 100 * 4096, 0, 1, 0);
	CHECK_OK(dbh_sync_range(rig.file, 10 * 4096 + 5, 3, true));
	rig_check_store(&rig, 4096, 10 * 4096, 1);
	/* And at most the rest of a large folio. */
	CHECK(rig_residency(&rig).dirty >= 36, "all of it was written");
	CHECK_OK(dbh_sync_range(rig.file, 50 * 4096, 0, false));
	rig_check_store(&rig, 50 * 4096, 50 * 4096, 1);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_IS(rig_residency(&rig).dirty, 0);
	rig_check_store(&rig, 100 * 4096, 0, 1);
	/* Nothing is dirty: nothing is written (R9, D3). */
	writes = atomic_load(&rig.spy->bios[BIO_WRITE]) +
		 atomic_load(&rig.spy->tails);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_OK(dbh_fdatasync(rig.file));
	CHECK_IS(atomic_load(&rig.spy->bios[BIO_WRITE]) +
			 atomic_load(&rig.spy->tails),
		 writes);
	rig_down(&rig);
}

/* D3: the tail is written once for new data, not for each flush. */
static void test_d3_tail_written_once(void **state)
{
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	rig_write(&rig, 1030, 0, 1, DBH_DONTCACHE);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_IS(atomic_load(&rig.spy->tails), 1);
	CHECK_IS(store_mem_size(rig.spy->inner), 1030);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_OK(dbh_fdatasync(rig.file));
	rig_close(&rig);
	CHECK_IS(atomic_load(&rig.spy->tails), 1);
	CHECK_IS(atomic_load(&rig.spy->bios[BIO_WRITE]), 0);
	CHECK_IS(rig_reads(&rig), 0);
	rig_check_store(&rig, 1030, 0, 1);
	rig_down(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r14_group_commit),
		cmocka_unit_test(test_r14_fails_under_sync),
		cmocka_unit_test(test_r14_durable_on_return),
		cmocka_unit_test(test_sync_range),
		cmocka_unit_test(test_d3_tail_written_once),
	};

	guard(240);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

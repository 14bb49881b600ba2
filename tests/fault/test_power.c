// SPDX-License-Identifier: MIT
/*
 * Power cuts (R14, R16): at any moment, also in the middle of other writes,
 * every byte that was synced is there, no byte is one that nobody wrote, and
 * the file is no longer than it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>

#include "scale.h"
#include "support/history.h"
#include "support/rig.h"

#define THREADS 4u
#define PER_THREAD (HISTORY_RECORDS / THREADS)

static uint64_t seed;

struct disk {
	struct rig rig;
	struct history h;
	_Atomic bool stop;
};

struct writer {
	struct disk *d;
	struct rng rng;
	unsigned id;
};

/* ---- writing --------------------------------------------------------- */

static void write_record(struct writer *w, unsigned i, unsigned flags)
{
	struct history *h = &w->d->h;
	unsigned gen = history_begin(h, i);

	rig_write(&w->d->rig, h->bytes, i * (uint64_t)h->bytes, gen, flags);
	if (flags & (DBH_DSYNC | DBH_SYNC))
		history_synced(h, i, gen);
}

static void sync_records(struct writer *w)
{
	struct history *h = &w->d->h;
	unsigned gens[PER_THREAD];

	for (unsigned n = 0; n < PER_THREAD; n++)
		gens[n] = atomic_load(&h->rec[n * THREADS + w->id].written);
	CHECK_OK(rng_chance(&w->rng, 50) ? dbh_fsync(w->d->rig.file) :
					   dbh_fdatasync(w->d->rig.file));
	for (unsigned n = 0; n < PER_THREAD; n++)
		history_synced(h, n * THREADS + w->id, gens[n]);
}

static void *write_and_sync(void *arg)
{
	struct writer *w = arg;

	while (!atomic_load(&w->d->stop)) {
		unsigned i = (unsigned)rng_below(&w->rng, PER_THREAD) *
				     THREADS +
			     w->id;
		unsigned flags = rng_chance(&w->rng, 70) ? DBH_DONTCACHE : 0;

		if (rng_chance(&w->rng, 10))
			sync_records(w);
		else
			write_record(w, i,
				     flags | (rng_chance(&w->rng, 20) ?
						      DBH_DSYNC :
						      0));
	}
	return NULL;
}

/* ---- cutting --------------------------------------------------------- */

static void cut_power(struct disk *d, struct rng *r)
{
	struct synced synced = history_snapshot(&d->h);
	char *buf = malloc(d->h.bytes);
	struct store *cut;

	CHECK(buf, "no memory");
	CHECK_OK(store_fault_power_cut(d->rig.spy->inner, rng_next(r), &cut));
	CHECK(store_mem_size(cut) <= atomic_load(&d->h.end), "R16: %llu",
	      (unsigned long long)store_mem_size(cut));
	for (unsigned i = 0; i < HISTORY_RECORDS; i++) {
		size_t n = store_mem_peek(cut, buf, d->h.bytes,
					  i * (uint64_t)d->h.bytes);

		history_check(&d->h, &synced, i, buf, n);
	}
	store_destroy(cut);
	free(buf);
}

static struct store *make_store(struct disk *d, uint32_t min_folio,
				struct rng *r)
{
	struct store_fault_options faults = {
		.seed = rng_next(r),
		.delay_us = (unsigned)rng_below(r, 600),
	};
	size_t len = HISTORY_RECORDS * d->h.bytes;
	struct store *store;
	char *buf;

	CHECK_OK(store_fault_create(min_folio, 512, &faults, &store));
	if (!d->h.existing)
		return store;
	buf = malloc(len);
	CHECK(buf, "no memory");
	pattern_fill(buf, len, 0, 0);
	CHECK_OK(store->ops->write_tail(store, buf, len, 0));
	CHECK_OK(store->ops->flush(store, true));
	atomic_store(&d->h.end, len);
	free(buf);
	return store;
}

static void one_disk(uint32_t min_folio, struct rng *r)
{
	static const size_t records[] = { 47008, 6000, 1000, 333 };
	struct dbh_options opts = {
		.struct_size = sizeof(opts),
		.memory_bytes = (size_t)1 << rng_between(r, 20, 24),
		.expire_ms = (unsigned)rng_between(r, 5, 100),
	};
	unsigned long cuts = test_scale(15);
	struct disk *d = calloc(1, sizeof(*d));
	struct writer writers[THREADS];
	pthread_t threads[THREADS];

	CHECK(d, "no memory");
	guard(240);
	d->h.bytes = records[rng_below(r, 4)];
	d->h.existing = rng_chance(r, 50);
	rig_up(&d->rig, spy_create(make_store(d, min_folio, r)), &opts);
	for (unsigned i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ d, { rng_next(r) }, i };
		pthread_create(&threads[i], NULL, write_and_sync, &writers[i]);
	}
	for (unsigned long i = 0; i < cuts; i++) {
		usleep((useconds_t)rng_below(r, 5000));
		cut_power(d, r);
	}
	atomic_store(&d->stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* And after a sync of everything all of it is there. */
	for (unsigned i = 0; i < THREADS; i++)
		sync_records(&writers[i]);
	cut_power(d, r);
	rig_down(&d->rig);
	free(d);
}

static void test_r14_r16_power_cuts(void **state)
{
	struct rng r = rng_fork(seed, 1);

	(void)state;
	for (unsigned i = 0; i < 24; i++)
		one_disk(i % 3 == 0 ? 65536 : i % 3 == 1 ? 16384 : 4096, &r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r14_r16_power_cuts),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

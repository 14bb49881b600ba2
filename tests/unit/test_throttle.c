// SPDX-License-Identifier: MIT
/*
 * Dirty limits per device, and the pace of writers (R12).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "scale.h"
#include "support/rig.h"

#define MIB (1u << 20)
#define RECORD 47008u
#define DIRTY_BYTES (8u * MIB)

static uint64_t seed;

static const struct dbh_options small = {
	.struct_size = sizeof(small),
	.memory_bytes = 64u * MIB,
	.dirty_bytes = DIRTY_BYTES,
	.expire_ms = 3600 * 1000,
};

/* A file on device @dev of the engine of @rig. */
static void add_file(struct rig *rig, struct spy *spy, unsigned dev,
		     unsigned ino)
{
	rig->spy = spy;
	spy->store.dev = dev;
	spy->store.ino = ino;
	rig->file = rig_open(rig, O_RDWR);
}

static struct rig add_device(struct dbh_engine *e, unsigned dev)
{
	struct rig rig = { .engine = e };

	add_file(&rig, spy_create_mem(4096, 512), dev, 1);
	return rig;
}

static void remove_file(struct rig *rig)
{
	CHECK_OK(dbh_close(rig->file));
	spy_destroy(rig->spy);
}

static uint64_t busy_bytes(struct rig *rig)
{
	struct dbh_stats s = rig_stats(rig);

	/* Each is right by itself; a page that goes from one to the other
	 * between the two is counted once or not at all. */
	return (s.dirty + s.writeback) * 4096;
}

/* ---- a stream to one device ------------------------------------------ */

struct stream {
	struct rig *rig;
	uint64_t bytes;
	unsigned flags;
	_Atomic bool done;
	pthread_t thread;
};

static void *write_stream(void *arg)
{
	struct stream *s = arg;

	for (uint64_t pos = 0; pos < s->bytes; pos += RECORD)
		rig_write(s->rig, RECORD, pos, 1, s->flags);
	atomic_store(&s->done, true);
	return NULL;
}

static void start(struct stream *s, struct rig *rig, uint64_t bytes,
		  unsigned flags)
{
	s->rig = rig;
	s->bytes = bytes;
	s->flags = flags;
	atomic_init(&s->done, false);
	CHECK_OK(pthread_create(&s->thread, NULL, write_stream, s));
}

/* Sleep until a writer to a device that does not write has come to a stop, or is
 * done. */
static void wait_stopped(struct stream *s)
{
	struct rig *rig = s->rig;
	uint64_t before;

	do {
		before = rig_stats(rig).throttled;
		usleep(20000);
	} while (!atomic_load(&s->done) &&
		 (!before || busy_bytes(rig) < DIRTY_BYTES / 3));
}

/* Devices that never write keep nobody from another one. */
static void stuck_devices(unsigned nr_stuck, unsigned flags)
{
	struct rig stuck[3], good;
	struct stream to_stuck[3], to_good;
	struct dbh_engine *e;

	guard(120);
	CHECK_OK(dbh_engine_create(&small, &e));
	for (unsigned i = 0; i < nr_stuck; i++) {
		stuck[i] = add_device(e, i + 1);
		spy_hold(stuck[i].spy, true, false);
		start(&to_stuck[i], &stuck[i], 2 * DIRTY_BYTES, flags);
		wait_stopped(&to_stuck[i]);
	}
	good = add_device(e, 9);
	start(&to_good, &good, 4 * DIRTY_BYTES, flags);
	CHECK_OK(pthread_join(to_good.thread, NULL));
	CHECK_OK(dbh_fsync(good.file));
	rig_check_store(&good, 4 * DIRTY_BYTES, 0, 1);
	CHECK(busy_bytes(&good) <= DIRTY_BYTES, "over the limit");
	for (unsigned i = 0; i < nr_stuck; i++) {
		CHECK(spy_held(stuck[i].spy, BIO_WRITE), "nothing is held");
		spy_release(stuck[i].spy);
		CHECK_OK(pthread_join(to_stuck[i].thread, NULL));
		CHECK_OK(dbh_fsync(stuck[i].file));
		rig_check_store(&stuck[i], 2 * DIRTY_BYTES, 0, 1);
		remove_file(&stuck[i]);
	}
	remove_file(&good);
	CHECK_OK(dbh_engine_destroy(e));
}

static void test_r12_stuck_device_uncached(void **state)
{
	(void)state;
	stuck_devices(1, DBH_DONTCACHE);
}

static void test_r12_stuck_device_cached(void **state)
{
	(void)state;
	stuck_devices(1, 0);
}

static void test_r12_two_stuck_devices(void **state)
{
	(void)state;
	stuck_devices(2, DBH_DONTCACHE);
}

/* ---- many files ------------------------------------------------------ */

#define NR_FILES 1000u
#define NR_DEVICES 3u
#define NR_THREADS 8u
#define FILE_RECORDS 3u

struct files {
	struct rig rig[NR_FILES];
	_Atomic unsigned next;
};

static void *write_files(void *arg)
{
	struct files *all = arg;
	unsigned i;

	/* Round and round, so that all are dirty together. */
	while ((i = atomic_fetch_add(&all->next, 1)) <
	       NR_FILES * FILE_RECORDS) {
		struct rig *rig = &all->rig[i % NR_FILES];
		uint64_t pos = (uint64_t)(i / NR_FILES) * 6000;

		rig_write(rig, 6000, pos, 1, i % 2 ? DBH_DONTCACHE : 0);
		CHECK(busy_bytes(rig) <= DIRTY_BYTES + MIB, "over the limit");
	}
	return NULL;
}

/* Device 0 writes slowly, 1 sometimes, 2 at once. */
static struct spy *device_file(unsigned dev)
{
	struct store_fault_options slow = { .seed = seed,
					    .delay_us = dev ? 200 : 1000 };
	struct store *store;

	if (dev == 2)
		return spy_create_mem(4096, 512);
	CHECK_OK(store_fault_create(4096, 512, &slow, &store));
	return spy_create(store);
}

static void test_r12_many_files(void **state)
{
	struct files *all = calloc(1, sizeof(*all));
	pthread_t threads[NR_THREADS];
	struct dbh_engine *e;

	(void)state;
	guard(120);
	CHECK(all, "no memory");
	CHECK_OK(dbh_engine_create(&small, &e));
	for (unsigned i = 0; i < NR_FILES; i++) {
		unsigned dev = i % NR_DEVICES;

		all->rig[i].engine = e;
		add_file(&all->rig[i], device_file(dev), dev + 1, i + 1);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		CHECK_OK(pthread_create(&threads[i], NULL, write_files, all));
	for (unsigned i = 0; i < NR_THREADS; i++)
		CHECK_OK(pthread_join(threads[i], NULL));
	for (unsigned i = 0; i < NR_FILES; i++) {
		CHECK_OK(dbh_close(all->rig[i].file));
		rig_check_store(&all->rig[i], FILE_RECORDS * 6000, 0, 1);
		spy_destroy(all->rig[i].spy);
	}
	rig_check_idle(&all->rig[0]);
	CHECK_OK(dbh_engine_destroy(e));
	free(all);
}

/* ---- pace ------------------------------------------------------------ */

/* Who may not wait is told so before the limit, and nothing is lost. */
static void test_r12_nowait(void **state)
{
	static char buf[RECORD];
	struct dbh_engine *e;
	struct rig rig;
	uint64_t pos = 0;
	ssize_t n;

	(void)state;
	guard(60);
	CHECK_OK(dbh_engine_create(&small, &e));
	rig = add_device(e, 1);
	spy_hold(rig.spy, true, false);
	for (;;) {
		pattern_fill(buf, RECORD, pos, 1);
		n = dbh_pwrite(rig.file, buf, RECORD, (off_t)pos, DBH_NOWAIT);
		if (n <= 0)
			break;
		pos += (uint64_t)n;
		CHECK(pos <= DIRTY_BYTES, "never throttled");
	}
	CHECK_IS(n, -EAGAIN);
	CHECK(pos > DIRTY_BYTES / 2, "throttled at %llu",
	      (unsigned long long)pos);
	spy_release(rig.spy);
	CHECK_OK(dbh_fsync(rig.file));
	rig_check_store(&rig, pos, 0, 1);
	remove_file(&rig);
	CHECK_OK(dbh_engine_destroy(e));
}

/* What the device writes lets as much in: a writer goes on with each bio, and
 * does not wait for the device to catch up. */
static void test_r12_pace(void **state)
{
	struct stream s;
	struct dbh_engine *e;
	struct rig rig;

	(void)state;
	guard(60);
	CHECK_OK(dbh_engine_create(&small, &e));
	rig = add_device(e, 1);
	spy_hold(rig.spy, true, false);
	start(&s, &rig, 4 * DIRTY_BYTES, DBH_DONTCACHE);
	wait_stopped(&s);
	CHECK(!atomic_load(&s.done), "never throttled");
	while (!atomic_load(&s.done)) {
		struct dbh_stats before, after;

		before = rig_stats(&rig);
		/* Let go what is held, and hold again. */
		spy_release(rig.spy);
		spy_hold(rig.spy, true, false);
		do {
			usleep(1000);
			after = rig_stats(&rig);
		} while (after.dirtied == before.dirtied &&
			 !atomic_load(&s.done));
		CHECK(busy_bytes(&rig) <= DIRTY_BYTES, "over the limit");
		wait_stopped(&s);
	}
	spy_release(rig.spy);
	CHECK_OK(pthread_join(s.thread, NULL));
	CHECK_OK(dbh_fsync(rig.file));
	rig_check_store(&rig, 4 * DIRTY_BYTES, 0, 1);
	remove_file(&rig);
	CHECK_OK(dbh_engine_destroy(e));
}

/* Cached data beyond the background limit is written before it is old. */
static void test_r12_background(void **state)
{
	struct dbh_options opts = small;
	struct dbh_engine *e;
	struct rig rig;

	(void)state;
	guard(60);
	opts.background_bytes = MIB;
	CHECK_OK(dbh_engine_create(&opts, &e));
	rig = add_device(e, 1);
	for (unsigned i = 0; i < 2 * MIB / 65536; i++)
		rig_write(&rig, 65536, i * 65536ull, 1, 0);
	while (!atomic_load(&rig.spy->bios[BIO_WRITE]))
		usleep(1000);
	remove_file(&rig);
	CHECK_OK(dbh_engine_destroy(e));
}

static void test_r12_limits_are_told(void **state)
{
	struct dbh_engine *e;
	struct rig rig;
	long background, thresh;

	(void)state;
	CHECK_OK(dbh_engine_create(&small, &e));
	rig = add_device(e, 1);
	wb_dirty_limits(rig.file->m->wb, &background, &thresh);
	CHECK_IS(thresh, DIRTY_BYTES / 4096 / 8 * 7);
	CHECK_IS(background, thresh / 4);
	CHECK(wb_write_bandwidth(rig.file->m->wb) > 0, "no bandwidth");
	remove_file(&rig);
	CHECK_OK(dbh_engine_destroy(e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r12_limits_are_told),
		cmocka_unit_test(test_r12_stuck_device_uncached),
		cmocka_unit_test(test_r12_stuck_device_cached),
		cmocka_unit_test(test_r12_two_stuck_devices),
		cmocka_unit_test(test_r12_nowait),
		cmocka_unit_test(test_r12_pace),
		cmocka_unit_test(test_r12_background),
		cmocka_unit_test(test_r12_many_files),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

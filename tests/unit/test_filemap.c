// SPDX-License-Identifier: MIT
/*
 * Edges and dropping behind: R1 to R7, R23, on a store in memory that counts.
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

/* ---- R1 -------------------------------------------------------------- */

static void test_r1_whole_folios_are_dropped(void **state)
{
	static const uint32_t folios[] = { 4096, 16384, 65536 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct rig rig;

		rig_up(&rig, spy_create_mem(folios[i], 512), NULL);
		rig_write(&rig, 4u << 20, 0, 1, DBH_DONTCACHE);
		CHECK_IS(rig_residency(&rig).edges, 0);
		rig_wait_cached(&rig, 0);
		rig_check_store(&rig, 4u << 20, 0, 1);
		rig_check_idle(&rig);
		CHECK_IS(rig_reads(&rig), 0);
		/* R9: once each, in large bios. */
		CHECK_IS(atomic_load(&rig.spy->bytes[BIO_WRITE]), 4u << 20);
		CHECK_IS(rig_stats(&rig).dirtied, (4u << 20) / 4096);
		CHECK_IS(rig_stats(&rig).written, (4u << 20) / 4096);
		rig_down(&rig);
	}
}

/* ---- R2 -------------------------------------------------------------- */

#define WRITERS 8u

struct writer {
	struct rig *rig;
	size_t record;
	unsigned *order;
	unsigned from, to;
	unsigned gen, flags;
};

static void *write_records(void *arg)
{
	struct writer *w = arg;

	for (unsigned i = w->from; i < w->to; i++)
		rig_write(w->rig, w->record, w->order[i] * w->record, w->gen,
			  w->flags);
	return NULL;
}

/* All records of a file, by several threads, in random order. */
static void write_all_records(struct rig *rig, size_t record, unsigned nr,
			      unsigned gen, unsigned flags)
{
	struct rng r = rng_fork(seed, record);
	unsigned *order = calloc(nr, sizeof(*order));
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];

	CHECK(order, "no memory");
	for (unsigned i = 0; i < nr; i++)
		order[i] = i;
	for (unsigned i = nr; i-- > 1;) {
		unsigned j = (unsigned)rng_below(&r, i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){
			.rig = rig,
			.record = record,
			.order = order,
			.from = nr * i / WRITERS,
			.to = nr * (i + 1) / WRITERS,
			.gen = gen,
			.flags = flags,
		};
		pthread_create(&threads[i], NULL, write_records, &writers[i]);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	free(order);
}

/* @laps: over the same bytes again and again. */
static void check_records(uint32_t min_folio, size_t record, unsigned laps,
			  bool existing)
{
	size_t bytes = test_scale(1u << 20);
	unsigned nr = (unsigned)(bytes / record);
	struct spy *spy;
	struct rig rig;

	nr = nr < 2 * WRITERS ? 2 * WRITERS : nr;
	bytes = nr * record;
	spy = existing ? spy_with_content(min_folio, bytes, 99) :
			 spy_create_mem(min_folio, 512);
	rig_up(&rig, spy, NULL);
	for (unsigned lap = 1; lap <= laps; lap++) {
		write_all_records(&rig, record, nr, lap, DBH_DONTCACHE);
		/* R23. All but the block that holds the end of the file. */
		rig_wait_cached(&rig, min_folio / 4096);
		CHECK_IS(rig_residency(&rig).dropbehind, 0);
	}
	CHECK_IS(rig_reads(&rig), 0);
	CHECK_IS(rig_stats(&rig).edges_expired, 0);
	rig_close(&rig);
	CHECK_IS(rig_reads(&rig), existing && bytes % min_folio ? 0 : 0);
	CHECK_IS(store_mem_size(spy->inner), bytes);
	rig_check_store(&rig, bytes, 0, laps);
	rig_down(&rig);
}

static void test_r2_many_writers_per_folio(void **state)
{
	static const size_t records[] = { 47008, 12288, 6000, 2048,
					  1365,	 1000,	100 };
	static const uint32_t folios[] = { 4096, 16384, 65536 };

	(void)state;
	for (unsigned i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		for (unsigned f = 0; f < 3; f++)
			check_records(folios[f], records[i], 1, false);
}

static void test_r2_r23_overwriting(void **state)
{
	static const size_t records[] = { 47008, 6000, 1000 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		check_records(4096, records[i], 1, true);
		check_records(16384, records[i], 3, true);
		check_records(4096, records[i], 2, false);
	}
}

static void *write_half(void *arg)
{
	rig_write(arg, 2048, 0, 2, DBH_DONTCACHE);
	return NULL;
}

/* A partial write into a folio that is marked and under writeback unmarks it:
 * nothing is read back, and its coverage begins anew. */
static void test_r2_second_lap_unmarks(void **state)
{
	pthread_t thread;
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	rig_write(&rig, 4096, 1 << 20, 1, 0); /* the end is elsewhere */
	spy_hold(rig.spy, true, false);
	rig_write(&rig, 4096, 0, 1, DBH_DONTCACHE);
	spy_wait_held(rig.spy, BIO_WRITE, 1);
	pthread_create(&thread, NULL, write_half, &rig);
	while (rig_residency(&rig).dropbehind)
		usleep(1000);
	spy_release(rig.spy);
	pthread_join(thread, NULL);
	CHECK_IS(rig_residency(&rig).edges, 1);
	CHECK(!dbh_edge_completes(rig.file, 0), "half of it was written");
	rig_read(&rig, 2048, 2048, 1, DBH_DONTCACHE);
	rig_write(&rig, 2048, 2048, 2, DBH_DONTCACHE);
	CHECK_IS(rig_residency(&rig).edges, 0);
	rig_wait_cached(&rig, 1);
	CHECK_IS(rig_reads(&rig), 0);
	rig_check_store(&rig, 4096, 0, 2);
	rig_down(&rig);
}

/* ---- R3 -------------------------------------------------------------- */

static void test_r3_cached_folios_stay(void **state)
{
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(4096, 64 * 4096, 1), NULL);
	/* Read, written, or half written through the cache: */
	rig_read(&rig, 4096, 0, 1, 0);
	rig_write(&rig, 4096, 4096, 2, 0);
	rig_write(&rig, 100, 2 * 4096, 2, 0);
	CHECK_OK(dbh_fsync(rig.file));
	/* then written by uncached writes, whole and in two pieces. */
	rig_write(&rig, 3 * 4096, 0, 3, DBH_DONTCACHE);
	CHECK_IS(rig_residency(&rig).dropbehind, 0);
	CHECK_OK(dbh_fsync(rig.file));
	rig_write(&rig, 1000, 0, 4, DBH_DONTCACHE);
	rig_write(&rig, 3096, 1000, 4, DBH_DONTCACHE);
	CHECK_IS(rig_residency(&rig).dropbehind, 0);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK(rig_residency(&rig).cached >= 3, "a cached page was dropped");
	rig_read(&rig, 4096, 0, 4, 0);
	rig_read(&rig, 2 * 4096, 4096, 3, 0);
	rig_down(&rig);
}

static void test_r3_cached_access_unmarks(void **state)
{
	for (unsigned write = 0; write < 2; write++) {
		struct rig rig;

		(void)state;
		rig_up(&rig, spy_create_mem(4096, 512), NULL);
		rig_write(&rig, 4096, 1 << 20, 1, 0);
		CHECK_OK(dbh_fsync(rig.file));
		rig_write(&rig, 2048, 0, 1, DBH_DONTCACHE);
		if (write)
			rig_write(&rig, 10, 2000, 1, 0);
		else
			rig_read(&rig, 2048, 0, 1, 0);
		/* Completed, but a cached access has touched it. */
		rig_write(&rig, 2048, 2048, 1, DBH_DONTCACHE);
		CHECK_IS(rig_residency(&rig).edges, 0);
		CHECK_IS(rig_residency(&rig).dropbehind, 0);
		CHECK_IS(rig_stats(&rig).dontcache_dirty, 0);
		CHECK_OK(dbh_fsync(rig.file));
		CHECK_IS(rig_residency(&rig).cached, 2);
		rig_down(&rig);
	}
}

/* A cached read of what is on its way out. */
static void test_r3_unmarks_under_writeback(void **state)
{
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	spy_hold(rig.spy, true, false);
	rig_write(&rig, 2 * 4096, 0, 1, DBH_DONTCACHE);
	spy_wait_held(rig.spy, BIO_WRITE, 1);
	CHECK_IS(rig_residency(&rig).writeback, 2);
	rig_read(&rig, 2 * 4096, 0, 1, 0);
	CHECK_IS(rig_residency(&rig).dropbehind, 0);
	spy_release(rig.spy);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_IS(rig_residency(&rig).cached, 2);
	rig_check_idle(&rig);
	rig_down(&rig);
}

/* ---- R4 -------------------------------------------------------------- */

static void test_r4_new_data_reads_nothing(void **state)
{
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	rig_write(&rig, 50, 100, 1, DBH_DONTCACHE);
	rig_write(&rig, 50, 10000, 1, DBH_DONTCACHE);
	CHECK_IS(rig_residency(&rig).edges, 2);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_IS(rig_reads(&rig), 0);
	CHECK(rig_stats(&rig).edges_filled_zero >= 1, "zeros");
	CHECK_IS(rig_stats(&rig).edges_filled_read, 0);
	CHECK_IS(store_mem_size(rig.spy->inner), 10050);
	rig_check_store(&rig, 50, 100, 1);
	rig_check_store(&rig, 50, 10000, 1);
	rig_down(&rig);
}

static void test_r4_fetched_when_needed(void **state)
{
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(4096, 16 * 4096, 1), NULL);
	rig_write(&rig, 50, 100, 2, DBH_DONTCACHE);
	rig_write(&rig, 50, 200, 2, DBH_DONTCACHE);
	/* What was written is known; nothing else is wanted yet. */
	rig_read(&rig, 50, 100, 2, DBH_DONTCACHE);
	CHECK_IS(rig_reads(&rig), 0);
	rig_read(&rig, 50, 150, 1, DBH_DONTCACHE);
	CHECK_IS(rig_reads(&rig), 1);
	rig_read(&rig, 3000, 1000, 1, DBH_DONTCACHE);
	CHECK_IS(rig_reads(&rig), 1);
	CHECK_IS(rig_stats(&rig).edges_filled_read, 1);
	/* A sync needs another one whole; the first is known. */
	rig_write(&rig, 50, 5000, 2, DBH_DONTCACHE);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_IS(rig_reads(&rig), 2);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_IS(rig_reads(&rig), 2);
	rig_check_store(&rig, 100, 0, 1);
	rig_check_store(&rig, 50, 100, 2);
	rig_check_store(&rig, 50, 150, 1);
	rig_check_store(&rig, 50, 5000, 2);
	rig_check_store(&rig, 50, 5050, 1);
	rig_down(&rig);
}

/* ---- R5 -------------------------------------------------------------- */

static void test_r5_expiry(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 8u << 20,
				    .expire_ms = 20 };
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(4096, 64 * 4096, 1), &opts);
	rig_write(&rig, 50, 100, 2, DBH_DONTCACHE);
	/* Complete, and nobody says so. */
	rig_write(&rig, 4096, 8192, 2, DBH_DONTCACHE | DBH_DEFER);
	/* And one that a sync has written. */
	rig_write(&rig, 50, 20000, 2, DBH_DONTCACHE | DBH_DSYNC);
	rig_wait_cached(&rig, 0);
	rig_check_idle(&rig);
	rig_check_store(&rig, 50, 100, 2);
	rig_check_store(&rig, 4096, 8192, 2);
	rig_check_store(&rig, 50, 20000, 2);
	CHECK(rig_stats(&rig).edges_expired >= 2, "who wrote them?");
	CHECK_IS(rig_reads(&rig), 2);
	rig_down(&rig);
}

static void test_r5_last_close(void **state)
{
	struct dbh_file *other;
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(16384, 64 * 4096, 1), NULL);
	other = rig_open(&rig, O_RDWR);
	rig_write(&rig, 50, 100, 2, DBH_DONTCACHE);
	rig_write(&rig, 16384, 65536, 2, DBH_DONTCACHE | DBH_DEFER);
	rig_write(&rig, 100, 200000, 2, 0);
	CHECK_OK(dbh_close(other));
	CHECK_IS(rig_residency(&rig).edges, 8);
	rig_close(&rig);
	rig_check_store(&rig, 50, 100, 2);
	rig_check_store(&rig, 50, 150, 1);
	rig_check_store(&rig, 16384, 65536, 2);
	rig_check_store(&rig, 100, 200000, 2);
	rig_down(&rig);
}

/* More edges than their share of memory: the oldest go. */
static void test_r5_share_of_memory(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 4u << 20,
				    .edge_bytes = 256u << 10 };
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), &opts);
	for (unsigned i = 0; i < 2000; i++)
		rig_write(&rig, 100, i * 12288ull + 50, 1, DBH_DONTCACHE);
	while (rig_stats(&rig).edges_live > 64)
		usleep(1000);
	CHECK(rig_stats(&rig).edges_expired, "none was evicted");
	rig_close(&rig);
	for (unsigned i = 0; i < 2000; i++)
		rig_check_store(&rig, 100, i * 12288ull + 50, 1);
	rig_down(&rig);
}

/* Nodes that hold a piece each: as many as may be open. */
static pgoff_t open_nodes(struct rig *rig)
{
	pgoff_t nr = (pgoff_t)rig->engine->limit.open_nodes;

	for (pgoff_t i = 0; i < nr; i++)
		rig_write(rig, 1000, (i << NODE_SHIFT) * PAGE_BYTES, 1,
			  DBH_DONTCACHE);
	CHECK_IS(atomic_load(&rig->engine->nr_open_nodes), nr);
	return nr;
}

struct ahead {
	struct rig *rig;
	uint64_t pos;
	_Atomic bool done;
};

static void *write_ahead(void *arg)
{
	struct ahead *a = arg;

	rig_write(a->rig, 1000, a->pos, 1, DBH_DONTCACHE);
	atomic_store(&a->done, true);
	return NULL;
}

/* A writer that would open more waits for those who complete what is open; one
 * that comes behind never does; and where nobody comes it goes on in the end. */
static void wait_for_neighbours(bool they_come)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 4u << 20 };
	struct ahead ahead;
	struct rig rig;
	pthread_t thread;
	char byte = 'x';
	pgoff_t nr;

	guard(60);
	rig_up(&rig, spy_create_mem(4096, 512), &opts);
	nr = open_nodes(&rig);
	ahead = (struct ahead){ &rig, (3 * nr << NODE_SHIFT) * PAGE_BYTES,
				false };
	CHECK_IS(dbh_pwrite(rig.file, &byte, 1, (off_t)ahead.pos,
			    DBH_DONTCACHE | DBH_NOWAIT),
		 -EAGAIN);
	CHECK_IS(dbh_pwrite(rig.file, &byte, 1, 5000,
			    DBH_DONTCACHE | DBH_NOWAIT),
		 1);
	CHECK_OK(-pthread_create(&thread, NULL, write_ahead, &ahead));
	while (!rig_stats(&rig).throttled)
		usleep(100);
	for (pgoff_t i = 0; i < nr && they_come; i++)
		rig_write(&rig, NODE_PAGES * PAGE_BYTES - 1000,
			  (i << NODE_SHIFT) * PAGE_BYTES + 1000, 1,
			  DBH_DONTCACHE);
	pthread_join(thread, NULL);
	CHECK(atomic_load(&ahead.done), "it waits");
	rig_down(&rig);
}

static void test_r5_wait_for_neighbours(void **state)
{
	(void)state;
	wait_for_neighbours(true);
	wait_for_neighbours(false);
}

/* ---- R11 ------------------------------------------------------------- */

/* Nobody syncs or closes, nothing expires, memory is plenty, and yet whole
 * folios and completed edges go to the store: soon, the guard sees to that. */
static void test_r11_on_its_way(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 64u << 20,
				    .expire_ms = 3600 * 1000 };
	struct rig rig;

	(void)state;
	guard(10);
	rig_up(&rig, spy_create_mem(4096, 512), &opts);
	rig_write(&rig, 1, 1 << 20, 1, 0); /* the end is elsewhere */
	spy_hold(rig.spy, true, false);
	rig_write(&rig, 4096, 0, 1, DBH_DONTCACHE);
	spy_wait_held(rig.spy, BIO_WRITE, 1);
	rig_write(&rig, 1000, 65536, 1, DBH_DONTCACHE);
	rig_write(&rig, 3096, 66536, 1, DBH_DONTCACHE);
	spy_wait_held(rig.spy, BIO_WRITE, 2);
	spy_release(rig.spy);
	rig_wait_cached(&rig, 1);
	CHECK_IS(rig_stats(&rig).edges_expired, 0);
	rig_check_store(&rig, 4096, 0, 1);
	rig_check_store(&rig, 4096, 65536, 1);
	rig_down(&rig);
}

/* ---- R6 -------------------------------------------------------------- */

static void test_r6_deferred(void **state)
{
	const unsigned deferred = DBH_DONTCACHE | DBH_DEFER;
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	rig_write(&rig, 4096, 1 << 20, 1, DBH_DSYNC); /* the end is elsewhere */
	/* Incomplete: nothing happens. */
	rig_write(&rig, 1000, 0, 1, deferred);
	CHECK(!dbh_edge_completes(rig.file, 0), "1000 of 4096");
	dbh_edge_complete(rig.file, 0);
	CHECK_IS(rig_residency(&rig).edges, 1);
	CHECK_IS(rig_residency(&rig).dropbehind, 0);
	/* Complete and clean: dropped at once. */
	rig_write(&rig, 3096, 1000, 1, deferred);
	CHECK(dbh_edge_completes(rig.file, 4095), "all of it");
	CHECK_IS(rig_residency(&rig).dropbehind, 0);
	CHECK_OK(dbh_fdatasync(rig.file));
	CHECK_IS(rig_residency(&rig).cached, 2);
	dbh_edge_complete(rig.file, 0);
	CHECK_IS(rig_residency(&rig).cached, 1);
	dbh_edge_complete(rig.file, 0); /* of nothing */
	/* Complete and dirty: marked, and dropped once written. */
	rig_write(&rig, 4096, 4096, 1, deferred);
	CHECK_IS(rig_residency(&rig).dropbehind, 0);
	dbh_edge_complete(rig.file, 5000);
	rig_wait_cached(&rig, 1);
	/* A folio that a cached access has touched is not. */
	rig_write(&rig, 4096, 8192, 1, deferred);
	rig_read(&rig, 10, 8192, 1, 0);
	CHECK_OK(dbh_fdatasync(rig.file));
	dbh_edge_complete(rig.file, 8192);
	CHECK_IS(rig_residency(&rig).cached, 2);
	CHECK_IS(rig_reads(&rig), 0);
	CHECK(!dbh_edge_completes(rig.file, 1ll << 40), "nothing is there");
	rig_down(&rig);
}

/* A stable write causes no kick. @end: the file is as long already, a hole. */
static void stable_stream(uint64_t end)
{
	struct rig rig;
	uint64_t kicks;

	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	if (end)
		rig_write(&rig, 4096, end, 1, DBH_DSYNC);
	kicks = rig_stats(&rig).kicks;
	for (unsigned i = 0; i < 200; i++) {
		rig_write(&rig, 1000, i * 1000ull, 1,
			  DBH_DONTCACHE | DBH_DEFER | DBH_DSYNC);
		dbh_edge_complete(rig.file, (off_t)(i * 1000));
		dbh_edge_complete(rig.file, (off_t)(i * 1000 + 999));
	}
	CHECK_IS(rig_stats(&rig).kicks, kicks);
	/* Every folio but the last one and the end of the file has gone. */
	CHECK_IS(rig_residency(&rig).cached, end ? 2 : 1);
	/* R23: none for new data; inside the file one for each block that had
	 * to go to disk incomplete. */
	CHECK_IS(rig_reads(&rig), end ? (200000 + 4095) / 4096 : 0);
	CHECK_IS(rig_stats(&rig).edges_filled_read, rig_reads(&rig));
	rig_check_store(&rig, 200000, 0, 1);
	rig_down(&rig);
}

static void test_r6_r23_stable_stream(void **state)
{
	(void)state;
	stable_stream(0);
	stable_stream(1 << 20);
}

/* ---- R7 -------------------------------------------------------------- */

static void test_r7_large_folios_are_split(void **state)
{
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_create_mem(4096, 512), NULL);
	rig_write(&rig, 4096, 4 << 20, 1, DBH_DSYNC);
	/* Held in writeback as large folios, then written into in part. */
	rig_write(&rig, 1u << 20, 0, 1, DBH_DONTCACHE | DBH_DEFER);
	rig_write(&rig, 100, 5000, 2, DBH_DONTCACHE);
	rig_write(&rig, 8192 + 10, 100 * 4096, 2, DBH_DONTCACHE);
	CHECK_IS(rig_residency(&rig).edges, 2);
	rig_read(&rig, 5000, 0, 1, DBH_DONTCACHE);
	rig_read(&rig, 100, 5000, 2, DBH_DONTCACHE);
	rig_read(&rig, 8202, 100 * 4096, 2, DBH_DONTCACHE);
	CHECK_OK(dbh_fsync(rig.file));
	for (unsigned i = 0; i < 256; i++)
		dbh_edge_complete(rig.file, i * 4096);
	/* The two edges and the end of the file stay. */
	rig_wait_cached(&rig, 3);
	CHECK_IS(rig_residency(&rig).cached, 3);
	CHECK_IS(rig_reads(&rig), 0);
	rig_check_store(&rig, 5000, 0, 1);
	rig_check_store(&rig, 100, 5000, 2);
	rig_check_store(&rig, 300000, 5100, 1);
	rig_check_store(&rig, 8202, 100 * 4096, 2);
	rig_down(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r1_whole_folios_are_dropped),
		cmocka_unit_test(test_r2_many_writers_per_folio),
		cmocka_unit_test(test_r2_r23_overwriting),
		cmocka_unit_test(test_r2_second_lap_unmarks),
		cmocka_unit_test(test_r3_cached_folios_stay),
		cmocka_unit_test(test_r3_cached_access_unmarks),
		cmocka_unit_test(test_r3_unmarks_under_writeback),
		cmocka_unit_test(test_r4_new_data_reads_nothing),
		cmocka_unit_test(test_r4_fetched_when_needed),
		cmocka_unit_test(test_r5_expiry),
		cmocka_unit_test(test_r5_last_close),
		cmocka_unit_test(test_r5_share_of_memory),
		cmocka_unit_test(test_r5_wait_for_neighbours),
		cmocka_unit_test(test_r11_on_its_way),
		cmocka_unit_test(test_r6_deferred),
		cmocka_unit_test(test_r6_r23_stable_stream),
		cmocka_unit_test(test_r7_large_folios_are_split),
	};

	guard(240);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

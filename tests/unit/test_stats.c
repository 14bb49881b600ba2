// SPDX-License-Identifier: MIT
/*
 * Counters against workloads of which each count is known.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/rig.h"

#define PAGE 4096u

static struct dbh_bdi_stats bdi_stats(struct rig *rig)
{
	struct dbh_bdi_stats s = { .struct_size = sizeof(s) };

	CHECK_OK(dbh_bdi_stats(rig->engine, 0, &s));
	return s;
}

static uint64_t sum(const uint64_t *v, unsigned n)
{
	uint64_t total = 0;

	while (n--)
		total += v[n];
	return total;
}

static void check_latency(const char *what, const struct dbh_latency *l,
			  uint64_t count)
{
	CHECK(l->count == count, "%s: %llu, not %llu", what,
	      (unsigned long long)l->count, (unsigned long long)count);
	CHECK(l->p50_ns <= l->p99_ns && l->p99_ns <= l->p999_ns &&
		      l->p999_ns <= l->max_ns && l->sum_ns >= l->max_ns &&
		      !l->max_ns == !count,
	      "%s: %llu %llu %llu %llu", what, (unsigned long long)l->p50_ns,
	      (unsigned long long)l->p99_ns, (unsigned long long)l->p999_ns,
	      (unsigned long long)l->max_ns);
}

/* What is true of any engine whose files are closed. */
static void check_sums(struct rig *rig)
{
	struct dbh_stats s = rig_stats(rig);

	CHECK_IS(sum(s.write_bio_sizes, DBH_BIO_SIZES), s.write_bios);
	CHECK_IS(sum(s.read_bio_sizes, DBH_BIO_SIZES), s.read_bios);
	CHECK_IS(sum(s.sync_sizes, DBH_SYNC_SIZES), s.flushes);
	check_latency("write bios", &s.latency_write_bio, s.write_bios);
	check_latency("read bios", &s.latency_read_bio, s.read_bios);
	check_latency("flushes", &s.latency_flush, s.flushes);
	check_latency("syncs", &s.latency_sync, s.sync_waiters);
	check_latency("throttling", &s.latency_throttle, s.throttled);
	CHECK(s.sync_waiters_max <= s.sync_waiters &&
		      s.flushes <= s.sync_waiters,
	      "flushes %llu for %llu", (unsigned long long)s.flushes,
	      (unsigned long long)s.sync_waiters);
}

/* Pages dirtied and written, bios by size, syncs, calls. */
static void test_scripted(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 64u << 20 };
	struct dbh_bdi_stats b;
	struct dbh_stats s;
	struct rig rig;

	(void)state;
	guard(60);
	rig_up(&rig, spy_create_mem(PAGE, 512), &opts);
	/* One bio of 64 KiB and its flush. */
	rig_write(&rig, 16 * PAGE, 0, 1, DBH_DSYNC);
	/* The same pages again: dirtied again, written again. */
	rig_write(&rig, 16 * PAGE, 0, 2, 0);
	CHECK_OK(dbh_fsync(rig.file));
	/* Nothing dirty: a flush all the same. */
	CHECK_OK(dbh_fsync(rig.file));
	rig_read(&rig, 16 * PAGE, 0, 2, 0);
	b = bdi_stats(&rig);
	CHECK(b.dirtied == 32 && b.written == 32 && !b.dirty && !b.writeback,
	      "dirtied %llu written %llu", (unsigned long long)b.dirtied,
	      (unsigned long long)b.written);
	CHECK(!b.b_dirty && !b.b_io && !b.b_more_io && !b.b_dirty_time &&
		      !(b.state & DBH_WB_HAS_DIRTY_IO) &&
		      (b.state & DBH_WB_REGISTERED),
	      "state %llx", (unsigned long long)b.state);
	s = rig_stats(&rig);
	CHECK_IS(s.write_bytes, 32 * PAGE);
	CHECK_IS(s.flushes, 3);
	CHECK_IS(s.sync_waiters, 3);
	CHECK_IS(s.sync_waiters_max, 1);
	CHECK_IS(s.sync_sizes[0], 3);
	CHECK_IS(s.write_bio_sizes[4], s.write_bios); /* of up to 64 KiB */
	CHECK_IS(s.read_bios, 0);
	CHECK_IS(s.throttled, 0);
	rig_close(&rig);
	check_sums(&rig);
	rig_down(&rig);
}

/* What waits is seen on its list. */
static void test_lists(void **state)
{
	struct dbh_bdi_stats b;
	struct rig rig;

	(void)state;
	guard(60);
	rig_up(&rig, spy_create_mem(PAGE, 512), NULL);
	rig_write(&rig, 3 * PAGE, 0, 1, 0);
	b = bdi_stats(&rig);
	CHECK(b.b_dirty == 1 && b.dirty == 3 && !b.b_more_io &&
		      (b.state & DBH_WB_HAS_DIRTY_IO),
	      "b_dirty %llu", (unsigned long long)b.b_dirty);
	/* Uncached data behind a device that does not answer: under writeback
	 * the file is still among the dirty ones. */
	spy_hold(rig.spy, true, false);
	rig_write(&rig, 64 * PAGE, 64 * PAGE, 1, DBH_DONTCACHE);
	spy_wait_held(rig.spy, BIO_WRITE, 1);
	b = bdi_stats(&rig);
	CHECK(b.b_dirty == 1 && b.writeback, "writeback %llu",
	      (unsigned long long)b.writeback);
	spy_release(rig.spy);
	rig_close(&rig);
	b = bdi_stats(&rig);
	CHECK(!b.b_dirty && !b.b_io && !b.b_more_io, "after the close");
	rig_down(&rig);
}

/* Of calls that wait for nothing one in 16 is measured, for 16; who waits, and
 * stable ones, each for itself. */
static void test_calls(void **state)
{
	struct dbh_stats s;
	struct rig rig;

	(void)state;
	guard(60);
	rig_up(&rig, spy_create_mem(PAGE, 512), NULL);
	for (unsigned i = 0; i < 320; i++)
		rig_write(&rig, 100, i * 100, 1, 0);
	s = rig_stats(&rig);
	/* 320, unless one had to wait: then up to 16 more or less for it. */
	CHECK(s.latency_write.count >= 16 && s.latency_write.count <= 640,
	      "%llu writes", (unsigned long long)s.latency_write.count);
	check_latency("writes", &s.latency_write, s.latency_write.count);
	for (unsigned i = 0; i < 10; i++)
		rig_write(&rig, 100, i * 100, 1, DBH_DSYNC);
	CHECK_IS(rig_stats(&rig).latency_write.count -
			 s.latency_write.count,
		 10);
	CHECK_IS(rig_stats(&rig).latency_read.count, 0);
	rig_close(&rig);
	check_sums(&rig);
	rig_down(&rig);
}

/* Edges: two that are completed, one that leaves by the last close behind the
 * end, one inside the file that must be read. */
static void test_edges(void **state)
{
	struct dbh_stats s;
	struct rig rig;

	(void)state;
	guard(60);
	rig_up(&rig, spy_with_content(PAGE, 8 * PAGE, 1), NULL);
	rig_write(&rig, 6000, 0, 2, DBH_DONTCACHE);
	CHECK_IS(rig_stats(&rig).edges_live, 1);
	rig_write(&rig, 2 * PAGE - 6000, 6000, 2, DBH_DONTCACHE);
	rig_write(&rig, 10, 3 * PAGE, 2, DBH_DONTCACHE);
	rig_write(&rig, 10, 20 * PAGE, 2, DBH_DONTCACHE);
	s = rig_stats(&rig);
	CHECK_IS(s.edges_live, 2);
	CHECK_IS(s.edges_completed, 1);
	rig_close(&rig);
	s = rig_stats(&rig);
	CHECK_IS(s.edges_filled_read, 1);
	CHECK_IS(s.edges_filled_zero, 1);
	CHECK_IS(s.read_bios, 1);
	CHECK_IS(s.read_bio_sizes[0], 1);
	check_sums(&rig);
	rig_down(&rig);
}

/* Who waits for memory is counted and measured, each time. */
static void test_throttle(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 1u << 20 };
	struct rig rig;

	(void)state;
	guard(120);
	rig_up(&rig, spy_create_mem(PAGE, 512), &opts);
	for (unsigned i = 0; i < 400 && !rig_stats(&rig).throttled; i++)
		rig_write(&rig, 64 * PAGE, (uint64_t)i * 64 * PAGE, 1,
			  i % 2 ? DBH_DONTCACHE : 0);
	CHECK(rig_stats(&rig).throttled, "a MiB took it all at once");
	rig_close(&rig);
	check_sums(&rig);
	rig_down(&rig);
}

struct syncer {
	struct rig *rig;
	pthread_t thread;
	uint64_t pos;
};

static void *sync_some(void *arg)
{
	struct syncer *s = arg;

	for (unsigned i = 0; i < 20; i++)
		rig_write(s->rig, PAGE, s->pos + i * PAGE, 1,
			  DBH_DSYNC | DBH_DONTCACHE);
	return NULL;
}

/* R14: several share a flush; the sums come out even. */
static void test_group(void **state)
{
	struct syncer syncers[8];
	struct rig rig;

	(void)state;
	guard(120);
	rig_up(&rig, spy_create_mem(PAGE, 512), NULL);
	for (unsigned i = 0; i < 8; i++) {
		syncers[i].rig = &rig;
		syncers[i].pos = (uint64_t)i << 20;
		CHECK_OK(pthread_create(&syncers[i].thread, NULL, sync_some,
					&syncers[i]));
	}
	for (unsigned i = 0; i < 8; i++)
		pthread_join(syncers[i].thread, NULL);
	CHECK_IS(rig_stats(&rig).sync_waiters, 160);
	CHECK_IS(rig_stats(&rig).latency_write.count, 160);
	rig_close(&rig);
	check_sums(&rig);
	rig_down(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripted),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_throttle),
		cmocka_unit_test(test_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

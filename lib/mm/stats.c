// SPDX-License-Identifier: MIT
/*
 * stats: counting I/O, and telling what was counted.
 */
#include "mm/stats.h"

#include "base/clock.h"
#include "mm/trace.h"

/* The first power-of-two class, of @nr, that @n belongs to: up to 1, 2, 4… */
static unsigned size_class(uint64_t n, unsigned nr)
{
	unsigned class = n > 1 ? 64u - (unsigned)__builtin_clzll(n - 1) : 0;

	return MIN(class, nr - 1);
}

void io_start_acct(struct mapping *m, enum bio_op op, uint64_t pos,
		   uint32_t len)
{
	struct dbh_engine *e = m->engine;
	unsigned class = size_class(ALIGN_UP(len, PAGE_BYTES) / PAGE_BYTES,
				    DBH_BIO_SIZES);

	if (op == BIO_WRITE) {
		stat_inc(e, write_bios);
		stat_add(e, write_bytes, len);
		stat_inc(e, write_bio_sizes[class]);
	} else {
		stat_inc(e, read_bios);
		stat_add(e, read_bytes, len);
		stat_inc(e, read_bio_sizes[class]);
	}
	trace_bio_submit(m, op, pos, len);
}

void io_end_acct(struct mapping *m, enum bio_op op, uint64_t pos, uint32_t len,
		 int status, uint64_t start_ns)
{
	uint64_t ns = clock_ns() - start_ns;

	hist_record(&m->engine->stats.latency[op == BIO_WRITE ?
						      LATENCY_WRITE_BIO :
						      LATENCY_READ_BIO],
		    ns);
	trace_bio_complete(m, op, pos, len, status, ns);
}

void flush_acct(struct mapping *m, unsigned waiters, int err, uint64_t ns)
{
	struct dbh_engine *e = m->engine;
	uint64_t max = atomic_load_explicit(&e->stats.sync_waiters_max,
					    memory_order_relaxed);

	stat_inc(e, flushes);
	stat_add(e, sync_waiters, waiters);
	stat_inc(e, sync_sizes[size_class(waiters, DBH_SYNC_SIZES)]);
	while (waiters > max &&
	       !atomic_compare_exchange_weak(&e->stats.sync_waiters_max, &max,
					     waiters))
		;
	hist_record(&e->stats.latency[LATENCY_FLUSH], ns);
	trace_flush(m, waiters, err, ns);
}

void trace_mapping(struct mapping *m, enum trace_type type, int err,
		   uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct trace_event ev = {
		.ns = clock_ns(),
		.type = type,
		.err = err,
		.dev = m->store->dev,
		.ino = m->store->ino,
		.arg = { a, b, c, d },
	};

	trace_emit(&m->engine->trace, &ev);
}

void trace_wb(struct wb *wb, enum trace_type type, uint64_t a, uint64_t b)
{
	struct trace_event ev = {
		.ns = clock_ns(),
		.type = type,
		.dev = wb->dev,
		.arg = { a, b },
	};

	trace_emit(&wb->engine->trace, &ev);
}

/* ---- telling --------------------------------------------------------- */

static uint64_t wb_total(struct dbh_engine *e, enum wb_stat item)
{
	long total = 0;

	for (struct wb *wb = wb_first(e); wb; wb = wb_next(wb))
		total += wb_stat(wb, item);
	return (uint64_t)total;
}

static void latency_read(struct dbh_engine *e, enum latency which,
			 struct dbh_latency *out)
{
	struct hist_summary s;

	hist_summarize(&e->stats.latency[which], &s);
	*out = (struct dbh_latency){
		.count = s.count,
		.sum_ns = s.sum,
		.p50_ns = s.p50,
		.p99_ns = s.p99,
		.p999_ns = s.p999,
		.max_ns = s.max,
	};
}

static void read_memory(struct dbh_engine *e, struct dbh_stats *s)
{
	size_t low_free = atomic_load(&e->pool.low_free);

	s->memory_limit_bytes = e->limit.memory_bytes;
	s->memory_used_bytes = engine_used_bytes(e);
	s->memory_peak_bytes = e->limit.fixed_bytes +
			       (e->pool.nr_pages - low_free) * PAGE_BYTES;
}

static void read_events(struct engine_stats *es, struct dbh_stats *s)
{
	s->edges_completed = atomic_load(&es->edges_completed);
	s->edges_expired = atomic_load(&es->edges_expired);
	s->edges_filled_read = atomic_load(&es->edges_filled_read);
	s->edges_filled_zero = atomic_load(&es->edges_filled_zero);
	s->kicks = atomic_load(&es->kicks);
	s->kick_skips = atomic_load(&es->kick_skips);
	s->flushes = atomic_load(&es->flushes);
	s->sync_waiters = atomic_load(&es->sync_waiters);
	s->sync_waiters_max = atomic_load(&es->sync_waiters_max);
	s->read_bios = atomic_load(&es->read_bios);
	s->read_bytes = atomic_load(&es->read_bytes);
	s->write_bios = atomic_load(&es->write_bios);
	s->write_bytes = atomic_load(&es->write_bytes);
	s->throttled = atomic_load(&es->throttled);
	s->lease_breaks = atomic_load(&es->lease_breaks);
	s->files_shared = (uint64_t)atomic_load(&es->files[OWNER_SHARED]);
	s->files_unsupported =
		(uint64_t)atomic_load(&es->files[OWNER_UNSUPPORTED]);
	for (unsigned i = 0; i < DBH_SYNC_SIZES; i++)
		s->sync_sizes[i] = atomic_load(&es->sync_sizes[i]);
	for (unsigned i = 0; i < DBH_BIO_SIZES; i++) {
		s->read_bio_sizes[i] = atomic_load(&es->read_bio_sizes[i]);
		s->write_bio_sizes[i] = atomic_load(&es->write_bio_sizes[i]);
	}
}

void engine_stats_read(struct dbh_engine *e, struct dbh_stats *s)
{
	read_memory(e, s);
	read_events(&e->stats, s);
	s->dirty = wb_total(e, WB_DIRTY);
	s->writeback = wb_total(e, WB_WRITEBACK);
	s->dontcache_dirty = wb_total(e, WB_DONTCACHE_DIRTY);
	s->dirtied = wb_total(e, WB_DIRTIED);
	s->written = wb_total(e, WB_WRITTEN);
	s->dirty_thresh = (uint64_t)e->limit.dirty_pages;
	s->background_thresh = (uint64_t)e->limit.background_pages;
	s->edges_live = (uint64_t)atomic_load(&e->nr_edges);
	latency_read(e, LATENCY_WRITE, &s->latency_write);
	latency_read(e, LATENCY_READ, &s->latency_read);
	latency_read(e, LATENCY_SYNC, &s->latency_sync);
	latency_read(e, LATENCY_FLUSH, &s->latency_flush);
	latency_read(e, LATENCY_WRITE_BIO, &s->latency_write_bio);
	latency_read(e, LATENCY_READ_BIO, &s->latency_read_bio);
	latency_read(e, LATENCY_THROTTLE, &s->latency_throttle);
}

static uint64_t wb_state(struct wb *wb)
{
	uint64_t state = DBH_WB_REGISTERED;

	if (atomic_load(&wb->busy))
		state |= DBH_WB_WRITEBACK_RUNNING;
	if (atomic_load(&wb->nr_b_dirty))
		state |= DBH_WB_HAS_DIRTY_IO;
	if (atomic_load(&wb->pressure))
		state |= DBH_WB_START_ALL;
	return state;
}

void wb_stats_read(struct wb *wb, struct dbh_bdi_stats *s)
{
	long background, thresh;

	s->dev = wb->dev;
	s->dirty = (uint64_t)wb_stat(wb, WB_DIRTY);
	s->writeback = (uint64_t)wb_stat(wb, WB_WRITEBACK);
	s->dontcache_dirty = (uint64_t)wb_stat(wb, WB_DONTCACHE_DIRTY);
	s->dirtied = (uint64_t)wb_stat(wb, WB_DIRTIED);
	s->written = (uint64_t)wb_stat(wb, WB_WRITTEN);
	s->b_dirty = atomic_load(&wb->nr_b_dirty);
	s->b_io = atomic_load(&wb->nr_io);
	s->b_more_io = atomic_load(&wb->nr_ready) +
		       atomic_load(&wb->nr_partial);
	s->state = wb_state(wb);
	wb_dirty_limits(wb, &background, &thresh);
	s->dirty_thresh = (uint64_t)thresh;
	s->background_thresh = (uint64_t)background;
	s->write_bandwidth = (uint64_t)wb_write_bandwidth(wb) * PAGE_BYTES;
}

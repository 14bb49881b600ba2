// SPDX-License-Identifier: MIT
/*
 * throttle: bounds of dirty memory per device, and the pace of writers.
 *
 * Limits. A device may have as many dirty pages as SHARE times what is left of
 * the engine's limit (a dynamic threshold, as switches have for their packet
 * memory). Alone it gets SHARE / (SHARE + 1) of the limit; of several that
 * want all each gets a part, and something is always left for the next one,
 * so that a device that writes slowly, or not at all, keeps nobody from
 * another. The share of a slow device is smaller, in proportion to the
 * bandwidth of the fastest that is busy.
 *
 * Pace. Writers are not slowed down while less can be written than half way
 * between the background limit and the limit, as in the kernel. From there on
 * a byte is let in for each that the device has written, times a factor: 2 at
 * that point, 1 half way to the limit, 0 at the limit. So writers go at the
 * device's own pace, and no estimate has to be right. What a device writes in
 * some ms is let in at a time, and used by as many writers as can run, who
 * then wait behind the others: for a wake costs more than a small write.
 *
 * Edges that are incomplete count for the limit, but not for the pace: nobody
 * can write them, and who is slowed down may be the one to complete them.
 */
#include "mm/throttle.h"

#include "base/clock.h"
#include "mm/engine.h"
#include "mm/mapping.h"
#include "mm/writeback.h"

#define SHARE 7l
/* In 1/SHARE_UNIT; the least of a slow device is half of what is left. */
#define SHARE_UNIT 1024l
#define SHARE_MIN (SHARE_UNIT / 2)
/* Two of the largest minimum folios: a write may need both ends at a time. */
#define THRESH_MIN 32l

/* As the kernel's INIT_BW: 100 MiB/s. */
#define BANDWIDTH_INIT ((100l << 20) / (long)PAGE_BYTES)
/* Measured over so much time in which the device was busy. */
#define BANDWIDTH_NS (50 * NSEC_PER_MSEC)

#define LIMITS_MS 8u

/* Admitted at a time: what is written in so long, and not less than this. */
#define QUANTUM_MS 4l
#define QUANTUM_MIN (64l << 10)

/* Factors of the pace, fixed point. */
#define POS_SHIFT 10
#define POS_ONE (1l << POS_SHIFT)

/* ---- limits ---------------------------------------------------------- */

static long load(_Atomic long *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static void store(_Atomic long *v, long to)
{
	atomic_store_explicit(v, to, memory_order_relaxed);
}

/* The bandwidth of the fastest device that has anything to write. */
static long fastest(struct dbh_engine *e)
{
	long max = 1;

	for (struct wb *wb = wb_first(e); wb; wb = wb_next(wb))
		if (load(&wb->dt.nr_dirty))
			max = MAX(max, load(&wb->dt.bandwidth));
	return max;
}

/* The solution of x = share * (limit - others - x). */
static void wb_limits_update(struct wb *wb, long max_bandwidth)
{
	struct engine_limits *l = &wb->engine->limit;
	struct dirty_throttle *dt = &wb->dt;
	long bandwidth = MIN(load(&dt->bandwidth), max_bandwidth);
	long share =
		MAX(SHARE * SHARE_UNIT * bandwidth / max_bandwidth, SHARE_MIN);
	long others = load(&wb->engine->nr_dirty) - load(&dt->nr_dirty);
	long left = l->dirty_pages - MAX(others, 0l), thresh, background;

	thresh = MAX(left, 0l) * share / (share + SHARE_UNIT);
	thresh = MAX(thresh, MIN(THRESH_MIN, l->dirty_pages));
	background = thresh * l->background_pages / l->dirty_pages;
	store(&dt->thresh, thresh);
	store(&dt->background, background);
	store(&dt->freerun, (background + thresh) / 2);
}

void dirty_limits_update(struct dbh_engine *e)
{
	uint32_t now = clock_coarse_ms(), last = atomic_load(&e->limits_ms);
	long max;

	/* One at a time is enough, and not too often. */
	if (now - last < LIMITS_MS ||
	    !atomic_compare_exchange_strong(&e->limits_ms, &last, now))
		return;
	max = fastest(e);
	for (struct wb *wb = wb_first(e); wb; wb = wb_next(wb))
		wb_limits_update(wb, max);
}

void wb_dirty_limits(struct wb *wb, long *background, long *thresh)
{
	*background = load(&wb->dt.background);
	*thresh = load(&wb->dt.thresh);
}

void throttle_init(struct wb *wb)
{
	waitq_init(&wb->dt.throttled);
	waitq_init(&wb->dt.limited);
	atomic_init(&wb->dt.bandwidth, BANDWIDTH_INIT);
	wb_limits_update(wb, BANDWIDTH_INIT);
}

long wb_write_bandwidth(struct wb *wb)
{
	return load(&wb->dt.bandwidth);
}

/* ---- reserving ------------------------------------------------------- */

/* What has failed stays for long. A part of it does not count for those whose
 * data can be written, as far as is known, so that they go on when it fills the
 * limit. Each may have as much of that as it leaves to others. */
static long failed_spared(struct wb *wb)
{
	return MIN(load(&wb->nr_failed),
		   wb->engine->limit.dirty_pages / (SHARE + 1));
}

static long spared(struct mapping *m)
{
	if (mapping_failing(m))
		return 0;
	return MAX(failed_spared(m->wb) - atomic_load(&m->nr_dirty), 0l);
}

static bool room(struct mapping *m, long pages)
{
	struct wb *wb = m->wb;

	pages -= spared(m);
	return atomic_load(&wb->dt.nr_dirty) + pages <= load(&wb->dt.thresh) &&
	       atomic_load(&wb->engine->nr_dirty) + pages <=
		       wb->engine->limit.dirty_pages;
}

bool dirty_reserve(struct mapping *m, long pages)
{
	struct wb *wb = m->wb;
	struct dbh_engine *e = wb->engine;
	long mine = atomic_fetch_add(&wb->dt.nr_dirty, pages) + pages;
	long all = atomic_fetch_add(&e->nr_dirty, pages) + pages;
	long more = 0;

	if (unlikely(load(&wb->nr_failed)))
		more = spared(m);
	if (likely(mine <= load(&wb->dt.thresh) + more &&
		   all <= e->limit.dirty_pages + more))
		return true;
	dirty_unreserve(wb, pages);
	return false;
}

void dirty_unreserve(struct wb *wb, long pages)
{
	if (!pages)
		return;
	atomic_fetch_sub(&wb->dt.nr_dirty, pages);
	atomic_fetch_sub(&wb->engine->nr_dirty, pages);
}

bool dirty_charge(struct folio *f)
{
	if (f->flags & (FOLIO_DIRTY | FOLIO_CHARGED))
		return true;
	if (!dirty_reserve(f->mapping, (long)folio_pages(f)))
		return false;
	f->flags |= FOLIO_CHARGED;
	return true;
}

void dirty_uncharge(struct folio *f)
{
	struct wb *wb = f->mapping->wb;

	if (!(f->flags & FOLIO_CHARGED))
		return;
	f->flags &= ~FOLIO_CHARGED;
	dirty_unreserve(wb, (long)folio_pages(f));
	mem_wake(wb->engine);
	dirty_wake(wb);
}

/* ---- waiting --------------------------------------------------------- */

/* Pages that could be written, or are just being written. What has failed is
 * tried again now and then, and is nobody's pace. */
static long writable_pages(struct wb *wb)
{
	return wb_stat(wb, WB_DIRTY) + wb_stat(wb, WB_WRITEBACK) -
	       load(&wb->nr_edges) - load(&wb->nr_failed);
}

static bool must_wait(struct wb *wb)
{
	return unlikely(writable_pages(wb) > load(&wb->dt.freerun));
}

static bool take_credit(struct wb *wb, size_t bytes)
{
	_Atomic long *credit = &wb->dt.credit;

	/* Overdrawn by a write at most for each who asks. */
	if (atomic_load(credit) <= 0)
		return false;
	atomic_fetch_sub(credit, (long)bytes);
	return true;
}

int balance_dirty_pages(struct wb *wb, size_t bytes, struct waiter *w)
{
	struct waitq *q = &wb->dt.throttled;
	uint64_t ticket;

	if (w && w->key == wb) {
		w->key = NULL; /* woken: its turn, whatever is left */
		atomic_fetch_sub(&wb->dt.credit, (long)bytes);
		return 0;
	}
	if (unlikely(writable_pages(wb) > load(&wb->dt.background)))
		wb_alarm(wb, UNCACHED_TICK_MS);
	if (likely(!must_wait(wb)) || take_credit(wb, bytes))
		return 0;
	if (!w)
		return -EAGAIN;
	throttle_begin(wb->engine, w);
	ticket = waitq_add(q, w, wb);
	/* seq_cst here and in wb_io_end(), which changes the counters and then
	 * looks for waiters. */
	if (must_wait(wb) && atomic_load(&wb->dt.credit) <= 0) {
		if (!atomic_load(&wb->in_flight))
			wb_kick(wb);
		return -EIOCBQUEUED;
	}
	if (!waitq_cancel(q, w, ticket))
		return -EIOCBQUEUED;
	w->key = NULL;
	throttle_end(wb->engine, w);
	return 0;
}

/* What cannot be written fills the limit: nothing would come of waiting, but
 * for who has data that is still to be tried. */
static bool all_failed(struct mapping *m)
{
	long failed = atomic_load(&m->wb->nr_failed);
	long thresh = load(&m->wb->dt.thresh);

	if (likely(!failed) ||
	    (!mapping_failing(m) && atomic_load(&m->nr_dirty)))
		return false;
	return failed >= thresh - thresh / 8 + spared(m);
}

int dirty_limit_wait(struct mapping *m, long pages, struct waiter *w)
{
	struct wb *wb = m->wb;
	struct waitq *q = &wb->dt.limited;
	uint64_t ticket;

	if (unlikely(all_failed(m)))
		return atomic_load(&wb->failed_err);
	if (!w)
		return -EAGAIN;
	throttle_begin(wb->engine, w);
	ticket = waitq_add(q, w, q);
	if (!atomic_exchange(&wb->pressure, true))
		wb_kick(wb);
	dirty_limits_update(wb->engine);
	if (!room(m, pages))
		return -EIOCBQUEUED;
	if (!waitq_cancel(q, w, ticket))
		return -EIOCBQUEUED;
	throttle_end(wb->engine, w);
	return 0;
}

bool throttle_waiters(struct wb *wb)
{
	return waitq_active(&wb->dt.throttled) || waitq_active(&wb->dt.limited);
}

/* ---- waking ---------------------------------------------------------- */

/* As many as may run at once: each uses what there is, and the others would be
 * woken for nothing. */
static unsigned batch_of(const struct wb *wb)
{
	return 2 * wb->engine->pool.nr_cpus;
}

void dirty_wake(struct wb *wb)
{
	struct dirty_throttle *dt = &wb->dt;
	long thresh = load(&dt->thresh);

	/* Not one by one, as pages become clean: when there is room for each
	 * to go on for a while. */
	if (waitq_active(&dt->limited) &&
	    atomic_load(&dt->nr_dirty) <=
		    thresh - thresh / 8 + failed_spared(wb))
		waitq_wake(&dt->limited, NULL, batch_of(wb));
	if (waitq_active(&dt->throttled) && !must_wait(wb)) {
		atomic_store(&dt->credit, 0);
		atomic_store(&dt->earned, 0);
		waitq_wake(&dt->throttled, NULL, UINT32_MAX);
	}
}

void throttle_tick(struct wb *wb)
{
	struct dirty_throttle *dt = &wb->dt;

	dirty_limits_update(wb->engine);
	if (waitq_active(&dt->limited))
		waitq_wake(&dt->limited, NULL, batch_of(wb));
	if (waitq_active(&dt->throttled) &&
	    (!must_wait(wb) || !atomic_load(&wb->in_flight)))
		waitq_wake(&dt->throttled, NULL, batch_of(wb));
}

/*
 * The factor of the pace, 0 to 2 in POS_ONE: 1 + x^3, where x goes from 1 at
 * freerun to -1 at the limit (the kernel's pos_ratio_polynom()).
 */
static long pos_ratio(struct wb *wb, long pages)
{
	struct dirty_throttle *dt = &wb->dt;
	long freerun = load(&dt->freerun), limit = load(&dt->thresh);
	long setpoint = (freerun + limit) / 2, half = setpoint - freerun;
	long x;

	if (half <= 0)
		return pages >= limit ? 0 : POS_ONE;
	x = (setpoint - pages) * POS_ONE / half;
	x = MAX(MIN(x, POS_ONE), -POS_ONE);
	return POS_ONE + x * x / POS_ONE * x / POS_ONE;
}

static long quantum(struct wb *wb)
{
	long pages = load(&wb->dt.bandwidth) * QUANTUM_MS / 1000;

	pages = MIN(pages, load(&wb->dt.thresh) / 8);
	return MAX(pages * (long)PAGE_BYTES, QUANTUM_MIN);
}

/* @pages were written: let as much in. */
static void admit(struct wb *wb, long pages)
{
	struct dirty_throttle *dt = &wb->dt;
	long now = writable_pages(wb), earned;

	if (now <= load(&dt->freerun))
		return; /* dirty_wake() has let all in */
	earned = pages * (long)PAGE_BYTES * pos_ratio(wb, now) / POS_ONE;
	earned += atomic_fetch_add(&dt->earned, earned);
	if (earned < quantum(wb) && atomic_load(&wb->in_flight))
		return;
	earned = atomic_exchange(&dt->earned, 0);
	/* What nobody has used is not kept. */
	if (atomic_fetch_add(&dt->credit, earned) > 0)
		atomic_store(&dt->credit, earned);
	waitq_wake(&dt->throttled, NULL, batch_of(wb));
}

void wb_io_begin(struct wb *wb)
{
	if (atomic_fetch_add(&wb->in_flight, 1))
		return;
	mutex_lock(&wb->list_lock);
	wb->dt.busy_since_ns = clock_ns();
	mutex_unlock(&wb->list_lock);
}

/* What it writes while it has something to write. */
static void measure(struct wb *wb, long pages)
{
	struct dirty_throttle *dt = &wb->dt;
	uint64_t now = clock_ns();
	long old, new;

	mutex_lock(&wb->list_lock);
	dt->busy_ns += now - dt->busy_since_ns;
	dt->busy_since_ns = now;
	dt->busy_pages += (uint64_t)pages;
	if (dt->busy_ns >= BANDWIDTH_NS) {
		new = (long)(dt->busy_pages * NSEC_PER_SEC / dt->busy_ns);
		old = load(&dt->bandwidth);
		/* Smoothed, but for the first step away from the guess. */
		store(&dt->bandwidth,
		      MAX(old == BANDWIDTH_INIT ? new : old + (new - old) / 8,
			  1l));
		dt->busy_ns = 0;
		dt->busy_pages = 0;
	}
	mutex_unlock(&wb->list_lock);
}

void wb_io_end(struct wb *wb, long pages)
{
	measure(wb, pages);
	atomic_fetch_sub(&wb->in_flight, 1);
	dirty_limits_update(wb->engine);
	dirty_wake(wb);
	if (waitq_active(&wb->dt.throttled))
		admit(wb, pages);
}

/* ---- counting -------------------------------------------------------- */

void throttle_begin(struct dbh_engine *e, struct waiter *w)
{
	stat_inc(e, throttled);
	w->since_ns = clock_ns();
}

void throttle_end(struct dbh_engine *e, struct waiter *w)
{
	if (likely(!w->since_ns))
		return;
	hist_record(&e->stats.latency[LATENCY_THROTTLE],
		    clock_ns() - w->since_ns);
	w->since_ns = 0;
}

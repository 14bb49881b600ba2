// SPDX-License-Identifier: MIT
/*
 * flusher: the thread of a backing device that decides what is written when.
 *
 * A round writes, in this order: nodes that are whole (all 64 pages may go),
 * when there are enough of them for large bios or the oldest has waited long
 * enough; nodes of which only some pages may go, when they are old enough;
 * cached dirty data beyond the background limit or its age; edges that are too
 * old, too many, or in the way of those who wait for memory.
 *
 * It never queues behind itself: a kick while it works is one more look
 * afterwards, and it writes no more than what it found.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mm/filemap.h"
#include "mm/trace.h"
#include "mm/writeback.h"

/* R11: on its way within 100 ms. Half of it leaves time to get there. */
#define UNCACHED_AGE_MS 50u
/* How long writers wait for those behind them, who may want a processor first,
 * which others have. */
#define OPEN_PATIENCE_MS 100u
/* While somebody waits, look again after so long. */
#define WAITERS_TICK_MS 5u
/* So long may writers wait for memory that incomplete edges hold. */
#define STARVE_NS (50 * NSEC_PER_MSEC)
/* So long may writers wait while the device is idle. */
#define IDLE_NS (10 * NSEC_PER_MSEC)
#define EXPIRE_TICK_MS 1000u
/* Nodes taken off a list at a time. */
#define TAKE_MAX 512u

struct key {
	struct mapping *m;
	pgoff_t base;
};

/**
 * struct flusher - the state of one
 * @keys: nodes taken off a list, to be sorted
 * @closed: edges completed and nodes filled when last looked at
 * @open_wait_ns: since when writers have waited for neighbours, 0 if not
 * @expired_ms, @woken_ms: when it last looked for what is too old, and last
 *	woke all who wait
 * @idle_ns: since when the device is idle and writers wait, 0 if not so
 * @starve_ns: since when writers wait for memory and nothing moves;
 *	@starve_done: what had been done then
 * @patience_ms: halved when nobody came, doubled when somebody did
 */
struct flusher {
	struct wb *wb;
	struct dbh_engine *e;
	unsigned nr_keys;
	struct key keys[TAKE_MAX];
	uint64_t closed;
	uint64_t open_wait_ns;
	uint32_t patience_ms;
	uint32_t expired_ms;
	uint32_t woken_ms;
	uint64_t idle_ns;
	uint64_t starve_ns, starve_done;
};

void wb_kick(struct wb *wb)
{
	/* It does not queue behind itself: one more look afterwards is all. */
	if (atomic_load_explicit(&wb->busy, memory_order_relaxed))
		stat_inc(wb->engine, kick_skips);
	event_set(&wb->kick);
}

/* ---- nodes ----------------------------------------------------------- */

static int key_cmp(const void *va, const void *vb)
{
	const struct key *a = va, *b = vb;

	if (a->m != b->m)
		return (uintptr_t)a->m < (uintptr_t)b->m ? -1 : 1;
	return a->base < b->base ? -1 : a->base > b->base;
}

/* Take up to @max nodes that are older than @age_ms off @list. */
static void take_nodes(struct flusher *fl, struct list_head *list, unsigned max,
		       uint32_t age_ms)
{
	struct wb *wb = fl->wb;

	fl->nr_keys = 0;
	mutex_lock(&wb->list_lock);
	while (fl->nr_keys < MIN(max, TAKE_MAX) && !list_empty(list)) {
		struct node *n = list_first_entry(list, struct node, wb_link);

		if (clock_age_ms(n->wb_since) < age_ms)
			break;
		list_del(&n->wb_link);
		atomic_fetch_sub(list == &wb->ready ? &wb->nr_ready :
						      &wb->nr_partial,
				 1);
		atomic_store_explicit(&n->wb_state, NODE_IDLE,
				      memory_order_relaxed);
		fl->keys[fl->nr_keys++] = (struct key){
			atomic_load_explicit(&n->mapping, memory_order_relaxed),
			atomic_load_explicit(&n->base, memory_order_relaxed),
		};
	}
	atomic_store(&wb->nr_io, fl->nr_keys);
	mutex_unlock(&wb->list_lock);
}

/* Write what was taken, neighbours together. */
static void write_nodes(struct flusher *fl)
{
	unsigned i = 0;

	qsort(fl->keys, fl->nr_keys, sizeof(fl->keys[0]), key_cmp);
	while (i < fl->nr_keys) {
		struct mapping *m = fl->keys[i].m;
		pgoff_t first = fl->keys[i].base, last = first;

		for (i++; i < fl->nr_keys && fl->keys[i].m == m &&
			  fl->keys[i].base == last + 1;
		     i++)
			last++;
		if (m && mapping_due(m))
			writeback_range(m, first << NODE_SHIFT,
					(last << NODE_SHIFT) + NODE_PAGES - 1,
					WRITEBACK_DROPBEHIND, NULL);
		atomic_store(&fl->wb->nr_io, fl->nr_keys - i);
	}
}

/* A round of uncached data begins (R11). */
static void kick_round(struct wb *wb, unsigned nodes)
{
	stat_inc(wb->engine, kicks);
	trace_kick(wb, (uint64_t)wb_stat(wb, WB_DONTCACHE_DIRTY), nodes);
}

static uint32_t oldest_age_ms(struct wb *wb, struct list_head *list)
{
	uint32_t age = 0;

	mutex_lock(&wb->list_lock);
	if (!list_empty(list))
		age = clock_age_ms(
			list_first_entry(list, struct node, wb_link)->wb_since);
	mutex_unlock(&wb->list_lock);
	return age;
}

/* Return: something was written. */
static bool flush_uncached(struct flusher *fl, bool pressure)
{
	struct wb *wb = fl->wb;
	unsigned ready = atomic_load(&wb->nr_ready), rounds = 0;
	bool wrote = false;

	if (ready >= fl->e->limit.kick_nodes || (pressure && ready) ||
	    oldest_age_ms(wb, &wb->ready) >= UNCACHED_AGE_MS) {
		kick_round(wb, ready);
		do {
			take_nodes(fl, &wb->ready, TAKE_MAX, 0);
			write_nodes(fl);
			wrote |= fl->nr_keys;
			rounds++;
		} while (atomic_load(&wb->nr_ready) >=
				 fl->e->limit.kick_nodes &&
			 rounds < 4);
	}
	take_nodes(fl, &wb->partial, TAKE_MAX, UNCACHED_AGE_MS);
	if (fl->nr_keys)
		kick_round(wb, fl->nr_keys);
	write_nodes(fl);
	return wrote | fl->nr_keys;
}

/* ---- cached and old data --------------------------------------------- */

static struct mapping *oldest_dirty(struct wb *wb, uint32_t min_age_ms)
{
	struct mapping *m = NULL;
	struct list_head *pos;

	mutex_lock(&wb->list_lock);
	list_for_each(pos, &wb->b_dirty) {
		struct mapping *at =
			list_entry(pos, struct mapping, dirty_link);

		if (clock_age_ms(at->dirtied_ms) < min_age_ms)
			break;
		if (!mapping_due(at))
			continue;
		/* It goes to the young end, whether all can be written or
		 * not: others have their turn. */
		m = at;
		list_del(&at->dirty_link);
		list_add_tail(&at->dirty_link, &wb->b_dirty);
		at->dirtied_ms = clock_coarse_ms();
		break;
	}
	mutex_unlock(&wb->list_lock);
	return m;
}

/* Dirty pages that neither the kick nor the eviction of edges takes care of. */
static long cached_dirty(struct wb *wb)
{
	return wb_stat(wb, WB_DIRTY) - wb_stat(wb, WB_DONTCACHE_DIRTY) -
	       atomic_load(&wb->nr_edges);
}

static bool flush_dirty(struct flusher *fl, bool pressure)
{
	struct dbh_engine *e = fl->e;
	uint32_t age = fl->e->limit.expire_ms;
	uint64_t bios = atomic_load(&e->stats.write_bios);
	long background, thresh;
	struct mapping *m;

	wb_dirty_limits(fl->wb, &background, &thresh);
	if (pressure || cached_dirty(fl->wb) > background)
		age = 0;
	/* By age all of them, each goes to the young end; for room one at a
	 * time, and the next round sees whether more is needed. */
	while ((m = oldest_dirty(fl->wb, age))) {
		writeback_range(m, 0, UINT64_MAX, WRITEBACK_KNOWN, NULL);
		if (!age)
			break;
	}
	return atomic_load(&e->stats.write_bios) != bios;
}

/* A mapping whose writes failed is tried again, whatever its data's kind. */
static void retry_failing(struct flusher *fl)
{
	struct wb *wb = fl->wb;
	struct list_head *pos;
	struct mapping *m = NULL;

	mutex_lock(&wb->list_lock);
	list_for_each(pos, &wb->b_dirty) {
		struct mapping *at =
			list_entry(pos, struct mapping, dirty_link);

		if (mapping_failing(at) && mapping_due(at)) {
			m = at;
			break;
		}
	}
	mutex_unlock(&wb->list_lock);
	if (m)
		writeback_range(m, 0, UINT64_MAX, WRITEBACK_KNOWN, NULL);
}

/* ---- edges ----------------------------------------------------------- */

/* Writers wait, the device has nothing to do, and it is not just the moment
 * until somebody gets a processor. */
static bool idle_too_long(struct flusher *fl)
{
	struct dbh_engine *e = fl->e;

	if (!waitq_active(&e->open_waitq) || atomic_load(&fl->wb->in_flight) ||
	    atomic_load(&fl->wb->nr_ready)) {
		fl->idle_ns = 0;
		return false;
	}
	if (!fl->idle_ns)
		fl->idle_ns = clock_ns();
	return clock_ns() - fl->idle_ns >= IDLE_NS;
}

/*
 * R5: the wait for those who are behind ends when nobody comes: writers then go
 * on, until edges exceed their share or are completed again. Each time that
 * happens patience is halved. Nothing is evicted for it: those behind may only
 * be waiting for a processor.
 */
static void end_open_waits(struct flusher *fl)
{
	struct dbh_engine *e = fl->e;
	uint64_t closed = atomic_load(&e->stats.edges_completed) +
			  atomic_load(&e->stats.nodes_filled);
	bool progress = closed != fl->closed;

	fl->closed = closed;
	if (!atomic_load(&e->open_patient)) {
		if (progress)
			atomic_store(&e->open_patient, true);
		return;
	}
	if (idle_too_long(fl)) {
		/* What may go in pieces goes: its others may have gone
		 * before. */
		take_nodes(fl, &fl->wb->partial,
			   (unsigned)e->limit.open_nodes / 4 + 1, 0);
		write_nodes(fl);
	}
	if (!waitq_active(&e->open_waitq) || progress || !fl->open_wait_ns) {
		if (progress)
			fl->patience_ms =
				MIN(fl->patience_ms * 2 + 1, OPEN_PATIENCE_MS);
		fl->open_wait_ns = clock_ns();
		return;
	}
	if (clock_ns() - fl->open_wait_ns < fl->patience_ms * NSEC_PER_MSEC)
		return;
	fl->patience_ms /= 2;
	fl->open_wait_ns = 0;
	atomic_store(&e->open_patient, false);
	open_wake_all(e);
}

/* Who waits looks again after a tick at the latest; not in every round, which
 * the waiting itself may have caused. */
static void safety_net(struct flusher *fl)
{
	struct dbh_engine *e = fl->e;

	if (clock_age_ms(fl->woken_ms) < WAITERS_TICK_MS)
		return;
	fl->woken_ms = clock_coarse_ms();
	if (waitq_active(&e->mem_waitq))
		mem_wake_some(e);
	if (waitq_active(&e->open_waitq))
		open_wake_all(e);
	throttle_tick(fl->wb);
}

/*
 * Writers wait for memory, and nothing can be written or is on its way: edges
 * must go. At once where they are clean and hold the memory; else when nobody
 * has come for a while to complete them, for who would may be waiting for a
 * processor.
 */
static bool must_evict(struct flusher *fl, bool starving)
{
	struct dbh_engine *e = fl->e;
	uint64_t done = atomic_load(&e->stats.edges_completed) +
			atomic_load(&e->stats.write_bios);

	if (!starving || done != fl->starve_done) {
		fl->starve_done = done;
		fl->starve_ns = 0;
		return false;
	}
	if (pool_nr_free(&e->pool) < e->pool.nr_pages / 16 &&
	    atomic_load(&e->nr_dirty) < (long)e->pool.nr_pages / 2)
		return true;
	if (!fl->starve_ns)
		fl->starve_ns = clock_ns();
	return clock_ns() - fl->starve_ns >= STARVE_NS;
}

static void evict_edges(struct flusher *fl, bool starving)
{
	struct dbh_engine *e = fl->e;
	long all = atomic_load(&e->nr_edges), over = all - e->limit.edge_pages;

	/* Each device its part of what is too many. */
	over = over > 0 ? over * atomic_load(&fl->wb->nr_edges) / all : 0;
	if (over > 0)
		edges_evict(fl->wb, (unsigned)over, 0);
	if (must_evict(fl, starving))
		edges_evict(fl->wb,
			    (unsigned)MAX(atomic_load(&fl->wb->nr_on_edges) / 8,
					  16l),
			    0);
}

/* Once a tick: what has come of age (R5, R17). */
static void expire(struct flusher *fl)
{
	struct dbh_engine *e = fl->e;
	uint32_t tick = MIN(EXPIRE_TICK_MS, e->limit.expire_ms / 4 + 1);

	if (clock_age_ms(fl->expired_ms) < tick)
		return;
	fl->expired_ms = clock_coarse_ms();
	edges_evict(fl->wb, UINT32_MAX, e->limit.expire_ms);
	reclaim_once_expired(e, e->limit.expire_ms);
}

/* ---- the thread ------------------------------------------------------ */

void wb_alarm(struct wb *wb, uint32_t ms)
{
	/* seq_cst: pairs with set_alarm(); either the flusher finds what was
	 * put on a list before, or its alarm is seen here. */
	if (unlikely(atomic_load(&wb->alarm_ms) > ms))
		wb_kick(wb);
}

uint32_t expire_tick_ms(const struct dbh_engine *e)
{
	return MIN(EXPIRE_TICK_MS, e->limit.expire_ms / 4 + 1);
}

/* When to look again if nobody kicks. */
static uint32_t next_look_ms(struct flusher *fl)
{
	struct dbh_engine *e = fl->e;
	struct wb *wb = fl->wb;
	uint32_t ms = UINT32_MAX;

	if (fl->idle_ns || waitq_active(&e->mem_waitq) ||
	    waitq_active(&e->open_waitq) || throttle_waiters(wb))
		return WAITERS_TICK_MS;
	mutex_lock(&wb->list_lock);
	if (!list_empty(&wb->partial) || !list_empty(&wb->ready))
		ms = UNCACHED_TICK_MS;
	else if (!list_empty(&wb->b_dirty))
		ms = expire_tick_ms(e);
	mutex_unlock(&wb->list_lock);
	if (ms == UINT32_MAX && lru_needs_tick(wb))
		ms = expire_tick_ms(e);
	return ms;
}

static uint64_t set_alarm(struct flusher *fl)
{
	uint32_t ms;

	/* First as if there were none: whoever adds something from here on
	 * kicks. */
	atomic_store(&fl->wb->alarm_ms, UINT32_MAX);
	ms = next_look_ms(fl);
	atomic_store(&fl->wb->alarm_ms, ms);
	return ms == UINT32_MAX ? UINT64_MAX : ms * NSEC_PER_MSEC;
}

static void flush_round(struct flusher *fl)
{
	struct dbh_engine *e = fl->e;
	bool pressure = atomic_exchange(&fl->wb->pressure, false);
	bool wrote;

	/* Pressure is told once; the waiters are still there. */
	pressure |= waitq_active(&e->mem_waitq) ||
		    waitq_active(&fl->wb->dt.limited) ||
		    (waitq_active(&fl->wb->dt.throttled) &&
		     !atomic_load(&fl->wb->in_flight));
	wrote = flush_uncached(fl, pressure);
	retry_failing(fl);
	if (!wrote && pressure && !atomic_load(&fl->wb->in_flight)) {
		/* What is whole is on its way or there is none: now what may
		 * go in pieces, the oldest first. */
		take_nodes(fl, &fl->wb->partial, 64, 0);
		write_nodes(fl);
		wrote = fl->nr_keys;
	}
	wrote |= flush_dirty(fl, pressure && !wrote &&
					 !atomic_load(&fl->wb->in_flight));
	end_open_waits(fl);
	evict_edges(fl, pressure && !wrote && !atomic_load(&fl->wb->in_flight));
	expire(fl);
	safety_net(fl);
}

void *flusher_main(void *arg)
{
	struct wb *wb = arg;
	struct flusher fl = {
		.wb = wb,
		.e = wb->engine,
		.patience_ms = OPEN_PATIENCE_MS,
		.expired_ms = clock_coarse_ms(),
	};

	while (!atomic_load(&wb->stop)) {
		event_wait(&wb->kick, set_alarm(&fl));
		atomic_store(&wb->alarm_ms, 0);
		atomic_store(&wb->busy, true);
		flush_round(&fl);
		atomic_store(&wb->busy, false);
	}
	return NULL;
}

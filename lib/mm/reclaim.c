// SPDX-License-Identifier: MIT
/*
 * reclaim: folios by age, dropping clean ones, and waiting for memory.
 *
 * lru->lock is taken under a folio lock (a folio changes its own list) and
 * before none: reclaim looks at the old end of a list under it, and only tries
 * the folio's lock.
 */
#include "mm/reclaim.h"

#include "base/clock.h"
#include "mm/engine.h"
#include "mm/filemap.h"
#include "mm/writeback.h"

/* Folios that one reclaim looks at: some have a second chance, some are
 * dirty. */
#define RECLAIM_SCAN 256
/* Pages to drop when nodes have run out. */
#define RECLAIM_NODES 16

void lru_init(struct lru *lru)
{
	mutex_init(&lru->lock, RANK_LRU);
	list_init(&lru->once);
	list_init(&lru->cached);
}

static struct list_head *lru_list(struct lru *lru, struct wb *wb, uint32_t on)
{
	return on == FOLIO_ON_EDGES ? &wb->edges :
	       on == FOLIO_ON_LRU   ? &lru->cached :
				      &lru->once;
}

void lru_move(struct dbh_engine *e, struct folio *f, uint32_t on)
{
	struct lru *lru = &e->lru;
	uint32_t was = f->flags & FOLIO_ON_LIST;
	bool first = false;
	struct wb *wb;

	if (!was && !on)
		return;
	wb = f->mapping->wb;
	mutex_lock(&lru->lock);
	if (was)
		list_del(&f->lru);
	if (was == FOLIO_ON_EDGES)
		atomic_fetch_sub(&wb->nr_on_edges, 1);
	if (on) {
		struct list_head *list = lru_list(lru, wb, on);

		first = on != FOLIO_ON_LRU && list_empty(list);
		list_add_tail(&f->lru, list);
		f->stamp = clock_coarse_ms();
	}
	if (on == FOLIO_ON_EDGES)
		atomic_fetch_add(&wb->nr_on_edges, 1);
	f->flags = (f->flags & ~(uint32_t)FOLIO_ON_LIST) | on;
	mutex_unlock(&lru->lock);
	if (first)
		wb_alarm(wb, expire_tick_ms(e));
}

/* Take the oldest folio of @list that can be locked; what was looked at goes
 * to the young end. */
static struct folio *lru_take(struct lru *lru, struct list_head *list)
{
	struct folio *found = NULL;

	mutex_lock(&lru->lock);
	if (!list_empty(list)) {
		struct folio *f = list_first_entry(list, struct folio, lru);

		list_del(&f->lru);
		list_add_tail(&f->lru, list);
		if (folio_trylock(f))
			found = f;
	}
	mutex_unlock(&lru->lock);
	return found;
}

static bool reclaimable(struct folio *f)
{
	if (f->flags & (FOLIO_DIRTY | FOLIO_WRITEBACK | FOLIO_CHARGED))
		return false;
	if (f->flags & FOLIO_REFERENCED) {
		f->flags &= ~FOLIO_REFERENCED; /* its second chance */
		return false;
	}
	return f->flags & (FOLIO_UPTODATE | FOLIO_ERROR);
}

static size_t reclaim_list(struct dbh_engine *e, struct list_head *list,
			   size_t want)
{
	size_t freed = 0;

	for (unsigned i = 0; i < RECLAIM_SCAN && freed < want; i++) {
		struct folio *f = lru_take(&e->lru, list);
		size_t pages;

		if (!f)
			continue;
		pages = folio_pages(f);
		if (reclaimable(f)) {
			folio_drop(e, f);
			freed += pages;
		} else {
			folio_unlock(e, f);
		}
	}
	return freed;
}

size_t reclaim_clean(struct dbh_engine *e, size_t want)
{
	size_t freed = reclaim_list(e, &e->lru.once, want);

	if (freed < want)
		freed += reclaim_list(e, &e->lru.cached, want - freed);
	return freed;
}

void reclaim_once_expired(struct dbh_engine *e, uint32_t age_ms)
{
	struct lru *lru = &e->lru;

	for (;;) {
		struct folio *f = NULL;

		mutex_lock(&lru->lock);
		if (!list_empty(&lru->once)) {
			f = list_first_entry(&lru->once, struct folio, lru);
			if (clock_age_ms(f->stamp) < age_ms ||
			    !folio_trylock(f))
				f = NULL;
		}
		mutex_unlock(&lru->lock);
		if (!f)
			return;
		if (f->flags & (FOLIO_DIRTY | FOLIO_WRITEBACK)) {
			/* Written since: no longer what this list is for. */
			lru_move(e, f, 0);
			folio_unlock(e, f);
		} else {
			folio_drop(e, f);
		}
	}
}

bool lru_needs_tick(struct wb *wb)
{
	struct lru *lru = &wb->engine->lru;
	bool any;

	mutex_lock(&lru->lock);
	any = !list_empty(&wb->edges) || !list_empty(&lru->once);
	mutex_unlock(&lru->lock);
	return any;
}

struct folio *folio_alloc(struct dbh_engine *e, unsigned order,
			  unsigned min_order)
{
	struct folio *f;

	for (;;) {
		unsigned o = order;

		do {
			f = pool_alloc(&e->pool, o);
		} while (!f && o-- > min_order);
		if (f)
			return f;
		if (!reclaim_clean(e, (size_t)8 << min_order))
			return NULL;
		order = min_order;
	}
}

int folio_insert(struct mapping *m, struct folio *f, pgoff_t index)
{
	struct dbh_engine *e = m->engine;
	int err;

	/* A node is free when the last of its folios has gone: with single
	 * pages far apart nodes run out before memory does. */
	do {
		err = mapping_insert(m, f, index);
	} while (err == -ENOMEM && reclaim_clean(e, RECLAIM_NODES));
	if (err)
		/* No news for those who wait: no folio_free(). */
		pool_free(&e->pool, f);
	return err;
}

/* ---- waiting --------------------------------------------------------- */

static void pressure_all(struct dbh_engine *e)
{
	struct wb *wb;

	for (wb = wb_first(e); wb; wb = wb_next(wb))
		if (!atomic_exchange(&wb->pressure, true))
			wb_kick(wb);
}

/* Not one by one, as pages come in: each wake costs more than a small write.
 * When there is room for each to go on for a while. The flusher's tick is the
 * safety net. */
static bool worth_waking(struct dbh_engine *e)
{
	return pool_nr_free(&e->pool) >= e->pool.nr_pages / 16;
}

int mem_wait(struct dbh_engine *e, uint32_t seq, struct waiter *w)
{
	uint64_t ticket;

	if (!w)
		return -EAGAIN;
	throttle_begin(e, w);
	ticket = waitq_add(&e->mem_waitq, w, e);
	pressure_all(e);
	/* seq_cst here, in waitq_add() and in mem_wake(): memory that was
	 * freed after the caller found none has changed the count, or its
	 * freer sees the waiter. */
	if (mem_seq(e) == seq || !worth_waking(e))
		return -EIOCBQUEUED;
	if (!waitq_cancel(&e->mem_waitq, w, ticket))
		return -EIOCBQUEUED;
	throttle_end(e, w);
	return 0;
}

void mem_wake(struct dbh_engine *e)
{
	atomic_fetch_add(&e->mem_seq, 1);
	if (waitq_active(&e->mem_waitq) && worth_waking(e))
		mem_wake_some(e);
}

/* As many as may run at once: each uses what there is, and the others would be
 * woken for nothing. */
void mem_wake_some(struct dbh_engine *e)
{
	atomic_fetch_add(&e->mem_seq, 1);
	waitq_wake(&e->mem_waitq, NULL, 2 * e->pool.nr_cpus);
}

void folio_free(struct dbh_engine *e, struct folio *f)
{
	pool_free(&e->pool, f);
	mem_wake(e);
}

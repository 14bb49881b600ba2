// SPDX-License-Identifier: MIT
/*
 * backing_dev: counters of a device, and the one place that changes them.
 *
 * Locks: the folio's, then node->lock, then wb->list_lock. A node's place on
 * wb->ready and wb->partial belongs to wb->list_lock; the flusher takes a node
 * off under it and then looks at the node under node->lock. A change that
 * finds the node on a list leaves it there: the flusher has yet to look.
 *
 * models/accounting.pml checks the setter, and the dirty limit.
 */
#include "mm/backing_dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/trace.h"
#include "mm/engine.h"
#include "mm/filemap.h"
#include "mm/writeback.h"

struct wb *wb_first(struct dbh_engine *e)
{
	/* acquire: pairs with the release in wb_get_locked() */
	return atomic_load_explicit(&e->wbs, memory_order_acquire);
}

static struct wb *wb_create(struct dbh_engine *e, dev_t dev)
{
	struct wb *wb = aligned_alloc(CACHELINE, sizeof(*wb));

	if (!wb)
		return NULL;
	memset(wb, 0, sizeof(*wb));
	wb->engine = e;
	wb->dev = dev;
	mutex_init(&wb->list_lock, RANK_WB);
	list_init(&wb->ready);
	list_init(&wb->partial);
	list_init(&wb->b_dirty);
	list_init(&wb->edges);
	event_init(&wb->kick);
	throttle_init(wb);
	return wb;
}

int wb_get_locked(struct dbh_engine *e, dev_t dev, struct wb **out)
{
	_Atomic(struct wb *) *link = &e->wbs;
	struct wb *wb;
	int err;

	assert_held(&e->lock);
	for (wb = wb_first(e); wb; wb = wb_next(wb)) {
		if (wb->dev == dev) {
			*out = wb;
			return 0;
		}
		link = &wb->next;
	}
	wb = wb_create(e, dev);
	if (!wb)
		return -ENOMEM;
	err = engine_thread(&wb->flusher, "dbh-flush", flusher_main, wb);
	if (err) {
		free(wb);
		return err;
	}
	atomic_store_explicit(link, wb, memory_order_release);
	*out = wb;
	return 0;
}

void wb_stop(struct wb *wb)
{
	atomic_store(&wb->stop, true);
	event_set(&wb->kick);
	pthread_join(wb->flusher, NULL);
}

void wb_destroy(struct wb *wb)
{
	ioq_destroy(wb->ioq);
	free(wb);
}

/* The first device takes what engine_create() has tried out. */
int wb_ioq_locked(struct wb *wb, struct ioq **out)
{
	struct dbh_engine *e = wb->engine;
	int err = 0;

	assert_held(&e->lock);
	if (!wb->ioq) {
		wb->ioq = e->spare_ioq;
		e->spare_ioq = NULL;
	}
	if (!wb->ioq)
		err = ioq_create(e->limit.method, e->limit.queue_depth,
				 &wb->ioq);
	if (!err)
		*out = wb->ioq;
	return err;
}

/* ---- the setter ------------------------------------------------------ */

static void wb_stat_mod(struct wb *wb, enum wb_stat item, long pages)
{
	atomic_fetch_add_explicit(&wb->stat[item], pages,
				  memory_order_relaxed);
}

static void mapping_dirty_mod(struct mapping *m, long pages)
{
	struct wb *wb = m->wb;
	long old = atomic_fetch_add(&m->nr_dirty, pages);
	bool first = false;

	if (likely(old && old + pages))
		return;
	mutex_lock(&wb->list_lock);
	if (!atomic_load(&m->nr_dirty)) {
		if (!list_empty(&m->dirty_link))
			atomic_fetch_sub(&wb->nr_b_dirty, 1);
		list_del(&m->dirty_link);
	} else if (list_empty(&m->dirty_link)) {
		first = true;
		m->dirtied_ms = clock_coarse_ms();
		list_add_tail(&m->dirty_link, &wb->b_dirty);
		atomic_fetch_add(&wb->nr_b_dirty, 1);
	}
	mutex_unlock(&wb->list_lock);
	if (first)
		wb_alarm(wb, expire_tick_ms(wb->engine));
}

/* DIRTY or WRITEBACK has changed: one of them is what the limit counts. */
static void busy_mod(struct mapping *m, struct folio *f, bool busy)
{
	long pages = (long)folio_pages(f);

	if (busy) {
		if (f->flags & FOLIO_CHARGED) {
			f->flags &= ~FOLIO_CHARGED;
		} else {
			atomic_fetch_add(&m->wb->dt.nr_dirty, pages);
			atomic_fetch_add(&m->engine->nr_dirty, pages);
		}
		mapping_dirty_mod(m, pages);
	} else {
		dirty_unreserve(m->wb, pages);
		mapping_dirty_mod(m, -pages);
	}
}

static void edge_mod(struct dbh_engine *e, struct node *n, struct folio *f,
		     bool edge)
{
	long pages = (long)folio_pages(f), old;

	if (edge) {
		n->edge |= folio_mask(f);
		atomic_fetch_add(&f->mapping->wb->nr_edges, pages);
		old = atomic_fetch_add(&e->nr_edges, pages);
		/* Too many now: the flusher evicts the oldest. */
		if (old <= e->limit.edge_pages &&
		    old + pages > e->limit.edge_pages)
			wb_kick(f->mapping->wb);
	} else {
		n->edge &= ~folio_mask(f);
		atomic_fetch_sub(&f->mapping->wb->nr_edges, pages);
		atomic_fetch_sub(&e->nr_edges, pages);
	}
}

static void node_open_update(struct mapping *m, struct node *n)
{
	struct dbh_engine *e = m->engine;
	bool open = node_is_open(n);

	if (open == n->open)
		return;
	n->open = open;
	if (open) {
		atomic_fetch_add(&e->nr_open_nodes, 1);
		mapping_open_hint(m, atomic_load_explicit(
					     &n->base, memory_order_relaxed));
	} else {
		atomic_fetch_sub(&e->nr_open_nodes, 1);
		atomic_fetch_add(&e->node_closes, 1);
	}
}

static void tag_mod(uint64_t *tag, uint64_t mask, bool set)
{
	if (set)
		*tag |= mask;
	else
		*tag &= ~mask;
}

/* Put the node where the flusher will find what may be written of it. */
void node_wb_update(struct wb *wb, struct node *n)
{
	enum node_wb want = !node_writable(n)  ? NODE_IDLE :
			    node_is_ready(n) ? NODE_READY :
					       NODE_PARTIAL;
	enum node_wb have = atomic_load_explicit(&n->wb_state,
						 memory_order_relaxed);
	bool kick = false;

	if (have == want || (have == NODE_READY && want == NODE_PARTIAL))
		return;
	mutex_lock(&wb->list_lock);
	have = atomic_load_explicit(&n->wb_state, memory_order_relaxed);
	if (have == NODE_READY)
		atomic_fetch_sub(&wb->nr_ready, 1);
	else if (have == NODE_PARTIAL)
		atomic_fetch_sub(&wb->nr_partial, 1);
	if (have != NODE_IDLE)
		list_del(&n->wb_link);
	else
		n->wb_since = clock_coarse_ms();
	if (want == NODE_READY) {
		stat_inc(wb->engine, nodes_filled);
		list_add_tail(&n->wb_link, &wb->ready);
		kick = atomic_fetch_add(&wb->nr_ready, 1) + 1 ==
		       wb->engine->limit.kick_nodes;
	} else if (want == NODE_PARTIAL) {
		list_add_tail(&n->wb_link, &wb->partial);
		atomic_fetch_add(&wb->nr_partial, 1);
	}
	atomic_store_explicit(&n->wb_state, want, memory_order_relaxed);
	mutex_unlock(&wb->list_lock);
	if (kick)
		wb_kick(wb);
	else if (want != NODE_IDLE)
		wb_alarm(wb, UNCACHED_TICK_MS);
}

void folio_change(struct node *n, struct folio *f, uint32_t set,
		  uint32_t clear)
{
	struct mapping *m = f->mapping;
	struct wb *wb = m->wb;
	const uint32_t dropping = FOLIO_DIRTY | FOLIO_DROPBEHIND;
	const uint32_t busy = FOLIO_DIRTY | FOLIO_WRITEBACK;
	uint32_t old = f->flags, new = (old | set) & ~clear;
	uint32_t diff = old ^ new;
	uint64_t mask = folio_mask(f);
	long pages = (long)folio_pages(f);

	assert_held(&n->lock);
	assert(!((new & FOLIO_DIRTY) && (new & FOLIO_WRITEBACK)));
	assert(!((new & FOLIO_DROPBEHIND) &&
		 (new & (FOLIO_EDGE | FOLIO_CACHED))));
	paranoid_enter();
	f->flags = new;
	if (diff & FOLIO_DIRTY) {
		bool dirty = new & FOLIO_DIRTY;

		tag_mod(&n->dirty, mask, dirty);
		wb_stat_mod(wb, WB_DIRTY, dirty ? pages : -pages);
		if (dirty) {
			wb_stat_mod(wb, WB_DIRTIED, pages);
			trace_probe3(folio_dirtied, m, f->index, pages);
		}
	}
	if (diff & FOLIO_WRITEBACK) {
		bool writeback = new & FOLIO_WRITEBACK;

		tag_mod(&n->writeback, mask, writeback);
		wb_stat_mod(wb, WB_WRITEBACK, writeback ? pages : -pages);
		if (!writeback && !(new & FOLIO_DIRTY))
			wb_stat_mod(wb, WB_WRITTEN, pages);
		else if (!writeback)
			atomic_fetch_add(&m->wb_fails, 1);
	}
	if (diff & FOLIO_DROPBEHIND)
		tag_mod(&n->dropbehind, mask, new & FOLIO_DROPBEHIND);
	if (diff & FOLIO_EDGE)
		edge_mod(m->engine, n, f, new & FOLIO_EDGE);
	if ((old & dropping) == dropping || (new & dropping) == dropping) {
		if ((old & dropping) != dropping)
			wb_stat_mod(wb, WB_DONTCACHE_DIRTY, pages);
		else if ((new & dropping) != dropping)
			wb_stat_mod(wb, WB_DONTCACHE_DIRTY, -pages);
	}
	if (!(old & busy) != !(new & busy))
		busy_mod(m, f, new & busy);
	if (diff & dropping)
		node_wb_update(wb, n);
	if (diff & (dropping | FOLIO_EDGE))
		node_open_update(m, n);
	paranoid_leave();
}

void folio_change_flags(struct folio *f, uint32_t set, uint32_t clear)
{
	struct node *n = folio_node_lock(f);

	folio_change(n, f, set, clear);
	mutex_unlock(&n->lock);
	open_wake(f->mapping);
}

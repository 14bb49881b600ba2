// SPDX-License-Identifier: MIT
/*
 * fill: the missing bytes of edges, and edges that leave incomplete.
 *
 * Missing bytes are fetched only when somebody needs them (R4): zero behind
 * the on-disk end, and otherwise by a direct read, into a bounce buffer, since
 * the folio holds the newer bytes. The folio stays locked all the while.
 *
 * models/edge.pml checks how edges are filled and evicted.
 */
#include <string.h>

#include "base/clock.h"
#include "mm/filemap.h"
#include "mm/trace.h"
#include "mm/writeback.h"

/* Edges that one search looks at: the oldest may be locked. */
#define EVICT_SCAN 64u

/* Put @src (NULL: zeros) into the gaps of a folio's coverage. */
static void merge_gaps(struct folio *f, const char *src)
{
	struct dbh_engine *e = f->mapping->engine;
	unsigned size = (unsigned)folio_bytes(f), at = 0, end;
	char *data = folio_data(&e->pool, f);

	while ((at = coverage_gap(&f->cov, size, at, &end)) < size) {
		if (src)
			memcpy(data + at, src + at, end - at);
		else
			memset(data + at, 0, end - at);
		at = end;
	}
	f->flags |= FOLIO_UPTODATE;
}

static void fill_end(struct bio *bio)
{
	struct fill *fill = container_of(bio, struct fill, bio);
	struct dbh_engine *e = fill->m->engine;
	struct wb *wb = fill->m->wb;

	bio_end_io_acct(fill->m, bio);
	if (!bio->status) {
		merge_gaps(fill->folio, fill->bounce);
		stat_inc(e, edges_filled_read);
	}
	fill->done(fill);
	mapping_io_put(fill->m);
	fill_put(wb, fill);
}

void edge_fill(struct fill *fill, struct folio *f,
	       void (*done)(struct fill *fill), void *arg)
{
	struct mapping *m = f->mapping;
	struct dbh_engine *e = m->engine;
	unsigned size = (unsigned)folio_bytes(f), end;
	unsigned gap = coverage_gap(&f->cov, size, 0, &end);

	assert((f->flags & FOLIO_EDGE) && !(f->flags & FOLIO_UPTODATE));
	fill->folio = f;
	fill->m = m;
	fill->done = done;
	fill->arg = arg;
	fill->bio.status = 0;
	/* Where others have it open they may have written there just now. */
	if (folio_pos(f) + gap >= atomic_load(&m->disk_bound) &&
	    !mapping_shared(m)) {
		merge_gaps(f, NULL);
		stat_inc(e, edges_filled_zero);
		done(fill);
		fill_put(m->wb, fill);
		return;
	}
	fill->vec = (struct iovec){ fill->bounce, size };
	fill->bio.store = m->store;
	fill->bio.op = BIO_READ;
	fill->bio.pos = folio_pos(f);
	fill->bio.len = size;
	fill->bio.vecs = &fill->vec;
	fill->bio.nr_vecs = 1;
	fill->bio.end_io = fill_end;
	mapping_io_get(m);
	bio_start_io_acct(m, &fill->bio);
	bio_submit(&fill->bio);
}

/* ---- for a sync ------------------------------------------------------ */

static void fill_range_done(struct fill *fill)
{
	struct batch *batch = fill->arg;
	int err = fill->bio.status;

	if (err) {
		writeback_failed(fill->m, err);
		folio_set_failed(fill->folio);
	}
	folio_unlock(fill->m->engine, fill->folio);
	batch_put(batch, err);
}

static void fill_index(struct mapping *m, pgoff_t index, struct batch *batch)
{
	struct dbh_engine *e = m->engine;
	struct folio *f = mapping_lookup(m, index);
	struct fill *fill;

	if (!f)
		return;
	/* Neither is held while the other is waited for: the folio may be lent
	 * to a slow caller, and others need the request. */
	fill = fill_get_wait(m->wb);
	while (!folio_trylock(f)) {
		fill_put(m->wb, fill);
		folio_lock(e, f);
		folio_unlock(e, f);
		fill = fill_get_wait(m->wb);
	}
	if (folio_is(f, m, index) &&
	    (f->flags & (FOLIO_DIRTY | FOLIO_UPTODATE)) == FOLIO_DIRTY) {
		batch_get(batch);
		edge_fill(fill, f, fill_range_done, batch);
		return;
	}
	folio_unlock(e, f);
	fill_put(m->wb, fill);
}

void fill_range(struct mapping *m, pgoff_t first, pgoff_t last,
		struct batch *batch)
{
	pgoff_t index = first;

	while ((index = node_next(m, index)) <= last) {
		pgoff_t base = ALIGN_DOWN(index, NODE_PAGES);
		struct node *n = node_lock_find(m, index);
		uint64_t bits = 0;

		if (n) {
			bits = n->dirty & n->edge;
			mutex_unlock(&n->lock);
		}
		bits &= ~0ull << (index - base);
		for (; bits; bits &= bits - 1) {
			index = base + (unsigned)__builtin_ctzll(bits);
			if (index > last)
				return;
			if (!(index & ((1u << m->min_order) - 1)))
				fill_index(m, index, batch);
		}
		index = base + NODE_PAGES;
		if (!index)
			return;
	}
}

/* ---- leaving incomplete ---------------------------------------------- */

static void edge_expired(struct folio *f)
{
	stat_inc(f->mapping->engine, edges_expired);
	trace_edge_expired(f->mapping, f->index, clock_age_ms(f->stamp));
}

/* The bytes are known: as if it were complete now, but for the count. */
static void evict_filled(struct fill *fill)
{
	struct folio *f = fill->folio;
	struct dbh_engine *e = fill->m->engine;
	bool cached = f->flags & FOLIO_CACHED;

	f->flags &= ~FOLIO_EVICTING;
	if (fill->bio.status) {
		writeback_failed(fill->m, fill->bio.status);
		folio_set_failed(f);
		/* To the young end: others first. */
		lru_move(e, f, FOLIO_ON_EDGES);
		folio_unlock(e, f);
		return;
	}
	edge_expired(f);
	lru_move(e, f, cached ? FOLIO_ON_LRU : 0);
	edge_finish(f, cached ? 0 : FOLIO_DROPBEHIND, 0);
	folio_unlock(e, f);
}

/* A locked folio off the edges' list. */
static void edge_evict(struct fill *fill, struct folio *f)
{
	struct mapping *m = f->mapping;
	struct dbh_engine *e = m->engine;

	if (!(f->flags & (FOLIO_DIRTY | FOLIO_WRITEBACK))) {
		/* Written already, by a sync. */
		edge_expired(f);
		fill_put(m->wb, fill);
		if (f->flags & FOLIO_CACHED) {
			edge_finish(f, 0, 0);
			lru_move(e, f, FOLIO_ON_LRU);
			folio_unlock(e, f);
		} else {
			folio_drop(e, f);
		}
		return;
	}
	f->flags |= FOLIO_EVICTING;
	if (f->flags & FOLIO_UPTODATE) {
		fill->folio = f;
		fill->m = m;
		fill->bio.status = 0;
		f->flags &= ~(FOLIO_COMPLETE | FOLIO_DEFERRED);
		evict_filled(fill);
		fill_put(m->wb, fill);
		return;
	}
	edge_fill(fill, f, evict_filled, NULL);
}

/* May this locked folio be evicted now? */
static bool evictable(const struct folio *f)
{
	return f->mapping && !(f->flags & (FOLIO_EVICTING | FOLIO_WRITEBACK)) &&
	       mapping_due(f->mapping);
}

/* The oldest edge that can be had, locked, if it is old enough. */
static struct folio *edge_take(struct wb *wb, uint32_t min_age_ms)
{
	struct dbh_engine *e = wb->engine;
	struct lru *lru = &e->lru;
	struct folio *found = NULL;
	struct list_head *pos;
	unsigned scan = EVICT_SCAN;

	mutex_lock(&lru->lock);
	list_for_each(pos, &wb->edges) {
		struct folio *f = list_entry(pos, struct folio, lru);

		if (clock_age_ms(f->stamp) < min_age_ms || !scan--)
			break;
		if (!folio_trylock(f))
			continue;
		if (evictable(f)) {
			found = f;
			break;
		}
		folio_unlock(e, f);
	}
	mutex_unlock(&lru->lock);
	return found;
}

unsigned edges_evict(struct wb *wb, unsigned max, uint32_t min_age_ms)
{
	unsigned evicted = 0;

	while (evicted < max) {
		struct fill *fill = fill_get_wait(wb);
		struct folio *f = edge_take(wb, min_age_ms);

		if (!f) {
			fill_put(wb, fill);
			break;
		}
		edge_evict(fill, f);
		evicted++;
	}
	return evicted;
}

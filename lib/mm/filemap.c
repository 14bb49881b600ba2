// SPDX-License-Identifier: MIT
/*
 * filemap: folios for writing, their edges, and dropping behind.
 *
 * What a write does to a folio is decided in write_done(): the rules R1 to R3
 * and R6 stand there. A batch locks folios in ascending order and waits only
 * while it holds none, so that no two writers wait for each other.
 *
 * models/edge.pml checks edges, from the first write to the drop.
 */
#include "mm/filemap.h"

#include "base/clock.h"
#include "dropbehind/dropbehind.h"
#include "mm/trace.h"
#include "mm/writeback.h"

/* ---- dropping -------------------------------------------------------- */

void folio_discard(struct dbh_engine *e, struct folio *f)
{
	struct wb *wb;

	assert(!(f->flags & FOLIO_WRITEBACK));
	dirty_uncharge(f);
	folio_clear_failed(f);
	lru_move(e, f, 0);
	if (f->flags & FOLIO_EDGE)
		coverage_reset(&f->cov, &e->pool, (unsigned)folio_bytes(f));
	if (f->flags & FOLIO_ACCOUNTED)
		folio_change_flags(f, 0, FOLIO_ACCOUNTED);
	wb = f->mapping->wb;
	folio_remove(f);
	folio_unlock(e, f);
	folio_free(e, f);
	dirty_wake(wb);
}

void folio_drop(struct dbh_engine *e, struct folio *f)
{
	assert(!(f->flags & FOLIO_DIRTY));
	folio_discard(e, f);
}

/* ---- edges ----------------------------------------------------------- */

/*
 * R5, R11: while many nodes are open, an uncached writer that runs ahead waits
 * a moment before it opens another one: what completes those there comes
 * behind it. Ahead is what lies further from the mapping's first open node
 * than the limit; whoever is behind goes on, or nothing would be completed.
 */
static pgoff_t open_window(struct dbh_engine *e)
{
	return (pgoff_t)e->limit.open_nodes << NODE_SHIFT;
}

static bool runs_ahead(struct mapping *m, pgoff_t index)
{
	struct dbh_engine *e = m->engine;

	return unlikely(atomic_load(&e->nr_open_nodes) >=
			e->limit.open_nodes) &&
	       index >= mapping_first_open(m, index) + open_window(e) &&
	       /* Where nobody ever comes, the flusher makes room. */
	       atomic_load(&e->open_patient);
}

/* Return: 0: go on; else as mem_wait(). */
static int open_throttle(struct mapping *m, pgoff_t index, struct waiter *w)
{
	struct dbh_engine *e = m->engine;
	uint64_t ticket;

	if (likely(!runs_ahead(m, index)))
		return 0;
	if (!w)
		return -EAGAIN;
	throttle_begin(e, w);
	w->arg = index;
	ticket = waitq_add(&e->open_waitq, w, m);
	wb_kick(m->wb);
	if (runs_ahead(m, index))
		return -EIOCBQUEUED;
	if (!waitq_cancel(&e->open_waitq, w, ticket))
		return -EIOCBQUEUED;
	throttle_end(e, w);
	return 0;
}

void open_wake_all(struct dbh_engine *e)
{
	waitq_wake(&e->open_waitq, NULL, atomic_load(&e->open_waitq.nr));
}

/* Those who may go on now: of @m up to @end; of others as many as nodes may be
 * opened. */
struct open_wake {
	struct mapping *m;
	pgoff_t first, end;
	long spare;
};

static bool find_first(const struct waiter *w, void *ctx)
{
	struct open_wake *ow = ctx;

	if (w->key == ow->m)
		ow->first = MIN(ow->first, w->arg);
	return false;
}

static bool may_open(const struct waiter *w, void *ctx)
{
	struct open_wake *ow = ctx;

	if (w->key == ow->m)
		return w->arg < ow->end;
	return ow->spare-- > 0;
}

void open_wake(struct mapping *m)
{
	struct dbh_engine *e = m->engine;
	struct open_wake ow = { .m = m, .first = UINT64_MAX };

	if (likely(!waitq_active(&e->open_waitq)) ||
	    !atomic_exchange(&e->node_closes, 0))
		return;
	ow.spare = e->limit.open_nodes - atomic_load(&e->nr_open_nodes);
	if (ow.spare > 0)
		/* The one that is furthest behind opens the next window. */
		waitq_wake_if(&e->open_waitq, find_first, &ow);
	ow.first = MIN(ow.first, mapping_first_open(m, UINT64_MAX));
	ow.end = ow.first + open_window(e);
	if (ow.end < ow.first)
		ow.end = UINT64_MAX;
	waitq_wake_if(&e->open_waitq, may_open, &ow);
}

void edge_finish(struct folio *f, uint32_t set, uint32_t clear)
{
	struct dbh_engine *e = f->mapping->engine;

	if (f->flags & FOLIO_EDGE)
		coverage_reset(&f->cov, &e->pool, (unsigned)folio_bytes(f));
	f->flags |= FOLIO_UPTODATE;
	folio_change_flags(f, set, clear | FOLIO_EDGE);
}

bool filemap_edge_completes(struct mapping *m, uint64_t pos)
{
	struct dbh_engine *e = m->engine;
	struct folio *f = mapping_lookup(m, pos >> PAGE_SHIFT);
	bool complete = false;

	if (!f)
		return false;
	folio_lock(e, f);
	if (folio_is(f, m, pos >> PAGE_SHIFT))
		complete = (f->flags & (FOLIO_UPTODATE | FOLIO_EDGE)) ==
			   FOLIO_UPTODATE;
	folio_unlock(e, f);
	return complete;
}

void filemap_edge_complete(struct mapping *m, uint64_t pos)
{
	struct dbh_engine *e = m->engine;
	struct folio *f = mapping_lookup(m, pos >> PAGE_SHIFT);

	if (!f)
		return;
	folio_lock(e, f);
	if (!folio_is(f, m, pos >> PAGE_SHIFT) ||
	    !(f->flags & FOLIO_COMPLETE)) {
		folio_unlock(e, f);
		return;
	}
	f->flags &= ~(FOLIO_COMPLETE | FOLIO_DEFERRED);
	if (!(f->flags & (FOLIO_DIRTY | FOLIO_WRITEBACK))) {
		folio_drop(e, f);
		return;
	}
	lru_move(e, f, 0);
	folio_change_flags(f, FOLIO_DROPBEHIND, 0);
	folio_unlock(e, f);
}

void folio_mark_accessed(struct folio *f)
{
	struct dbh_engine *e = f->mapping->engine;

	if (likely(f->flags & FOLIO_CACHED)) {
		f->flags |= FOLIO_REFERENCED;
		return;
	}
	if (f->flags & FOLIO_DROPBEHIND)
		folio_change_flags(f, 0, FOLIO_DROPBEHIND);
	f->flags &= ~(FOLIO_COMPLETE | FOLIO_DEFERRED | FOLIO_READ_ONCE);
	f->flags |= FOLIO_CACHED;
	/* An edge keeps its place among the edges, which expire. */
	if (!(f->flags & FOLIO_EDGE))
		lru_move(e, f, FOLIO_ON_LRU);
}

/* ---- a write begins -------------------------------------------------- */

/* The largest order, up to @max, of an aligned block at @index that lies in
 * @len bytes from there on. */
static unsigned order_within(pgoff_t index, size_t len, unsigned min,
			     unsigned max)
{
	unsigned order = min;

	while (order < max && !(index & ((2u << order) - 1)) &&
	       len >= (size_t)PAGE_BYTES << (order + 1))
		order++;
	return order;
}

static bool covers_folio(const struct mapping *m, uint64_t pos, size_t len)
{
	return !(pos & (min_folio_bytes(m) - 1)) && len >= min_folio_bytes(m);
}

/* Make a folio for what is absent at @pos; locked, charged, no flag set. */
static int folio_create(struct mapping *m, uint64_t pos, size_t len,
			unsigned flags, struct waiter *w, struct folio **out)
{
	struct dbh_engine *e = m->engine;
	pgoff_t index = ALIGN_DOWN(pos >> PAGE_SHIFT, 1u << m->min_order);
	unsigned order = m->min_order;
	uint32_t seq = mem_seq(e);
	struct folio *f;
	long pages;
	int err;

	if ((flags & DBH_DONTCACHE) &&
	    (!covers_folio(m, pos, len) || !node_find(m, index))) {
		err = open_throttle(m, index, w);
		if (err)
			return err;
	}
	if (covers_folio(m, pos, len) && !(flags & FILEMAP_LENT)) {
		order = order_within(index, len, m->min_order,
				     MAX(e->limit.max_order, m->min_order));
		while (order > m->min_order && !mapping_absent(m, index, order))
			order--;
	}
	pages = 1l << order;
	if (!dirty_reserve(m, pages)) {
		/* Rather a small folio than none. */
		order = m->min_order;
		pages = 1l << order;
		if (!dirty_reserve(m, pages)) {
			err = dirty_limit_wait(m, pages, w);
			return err ? err : -EEXIST;
		}
	}
	f = folio_alloc(e, order, m->min_order);
	if (!f) {
		dirty_unreserve(m->wb, pages);
		goto wait;
	}
	dirty_unreserve(m->wb, pages - (long)folio_pages(f));
	pages = (long)folio_pages(f);
	err = folio_insert(m, f, index);
	if (err) {
		dirty_unreserve(m->wb, pages);
		if (err == -EEXIST)
			return -EEXIST;
		goto wait;
	}
	f->flags |= FOLIO_CHARGED;
	*out = f;
	return 0;
wait:
	err = mem_wait(e, seq, w);
	return err ? err : -EEXIST;
}

static bool reserve_coverage(struct dbh_engine *e, struct folio *f,
			     unsigned start, unsigned end)
{
	unsigned size = (unsigned)folio_bytes(f);

	return coverage_reserve(&f->cov, &e->pool, size, start, end) ||
	       (reclaim_clean(e, 8) &&
		coverage_reserve(&f->cov, &e->pool, size, start, end));
}

/* Make a locked folio ready to be written into; unlocked on failure. */
static int folio_prepare(struct mapping *m, struct folio *f, uint64_t pos,
			 size_t len, unsigned flags, struct waiter *w,
			 struct folio **out)
{
	struct dbh_engine *e = m->engine;
	size_t off = pos - folio_pos(f);
	size_t n = MIN(len, folio_bytes(f) - off);
	uint32_t seq;
	int err;

	if (f->flags & FOLIO_WRITEBACK) {
		/* It is wanted again: it need not be read back later. Should
		 * the writer not come back, it expires. */
		if (w && (f->flags & FOLIO_DROPBEHIND) &&
		    (n < folio_bytes(f) || !(flags & DBH_DONTCACHE))) {
			folio_change_flags(f, 0, FOLIO_DROPBEHIND);
			lru_move(e, f, FOLIO_ON_EDGES);
		}
		if (w)
			folio_wait_writeback(e, f, w);
		folio_unlock(e, f);
		return w ? -EIOCBQUEUED : -EAGAIN;
	}
	if (unlikely(f->flags & FOLIO_ERROR) &&
	    !(f->flags & (FOLIO_UPTODATE | FOLIO_EDGE))) {
		folio_drop(e, f); /* a read that failed */
		return -EEXIST;
	}
	if ((n < folio_bytes(f) || (flags & FILEMAP_LENT)) &&
	    f->order > m->min_order) {
		f = folio_split(f, pos >> PAGE_SHIFT,
				covers_folio(m, pos, len) &&
						!(flags & FILEMAP_LENT) ?
					order_within(pos >> PAGE_SHIFT, len,
						     m->min_order, f->order) :
					m->min_order);
		off = pos - folio_pos(f);
		n = MIN(len, folio_bytes(f) - off);
	}
	seq = mem_seq(e);
	if ((f->flags & FOLIO_EDGE) &&
	    (n < folio_bytes(f) || (flags & FILEMAP_LENT)) &&
	    !reserve_coverage(e, f, (unsigned)off, (unsigned)(off + n)))
		goto wait;
	if (!dirty_charge(f)) {
		long pages = (long)folio_pages(f);

		folio_unlock(e, f);
		err = dirty_limit_wait(m, pages, w);
		return err ? err : -EEXIST;
	}
	*out = f;
	return 0;
wait:
	folio_unlock(e, f);
	err = mem_wait(e, seq, w);
	return err ? err : -EEXIST;
}

static int get_folio(struct mapping *m, uint64_t pos, size_t len,
		     unsigned flags, struct waiter *w, struct folio **out)
{
	struct dbh_engine *e = m->engine;
	pgoff_t index = pos >> PAGE_SHIFT;
	int err;

	do {
		struct folio *f = mapping_lookup(m, index);

		err = -EEXIST;
		if (!f) {
			err = folio_create(m, pos, len, flags, w, out);
		} else if (!folio_trylock(f)) {
			if (!w)
				return -EAGAIN;
			if (folio_wait_unlock(e, f, w))
				return -EIOCBQUEUED;
		} else if (!folio_is(f, m, index)) {
			folio_unlock(e, f);
		} else {
			err = folio_prepare(m, f, pos, len, flags, w, out);
		}
	} while (err == -EEXIST); /* it has come, or gone: look again */
	return err;
}

int filemap_write_begin(struct mapping *m, struct folio_batch *b, uint64_t pos,
			size_t len, unsigned flags, struct waiter *w)
{
	int err;

	b->pos = pos;
	b->len = 0;
	b->nr = 0;
	err = balance_dirty_pages(m->wb, len, w);
	if (err)
		return err;
	while (b->len < len && b->nr < FOLIO_BATCH_MAX) {
		struct folio *f;

		err = get_folio(m, pos, len - b->len, flags, b->nr ? NULL : w,
				&f);
		if (err)
			return b->nr ? 0 : err;
		b->folio[b->nr++] = f;
		b->len +=
			MIN(len - b->len, folio_pos(f) + folio_bytes(f) - pos);
		pos = b->pos + b->len;
	}
	return 0;
}

struct iovec folio_batch_vec(struct mapping *m, const struct folio_batch *b,
			     unsigned i)
{
	const struct folio *f = b->folio[i];
	uint64_t start = MAX(b->pos, folio_pos(f));
	uint64_t end = MIN(b->pos + b->len, folio_pos(f) + folio_bytes(f));

	return (struct iovec){
		.iov_base = folio_data(&m->engine->pool, f) +
			    (start - folio_pos(f)),
		.iov_len = end - start,
	};
}

/* ---- a write ends ---------------------------------------------------- */

/* Bytes [@off, @off + @n) of a locked folio have been written. */
static void write_done(struct folio *f, size_t off, size_t n, unsigned flags)
{
	struct dbh_engine *e = f->mapping->engine;
	unsigned size = (unsigned)folio_bytes(f);
	bool uncached = flags & DBH_DONTCACHE;
	bool whole = n == size, complete = whole;
	uint32_t set = FOLIO_DIRTY, clear = 0;

	if (f->flags & FOLIO_EDGE) {
		complete = whole || coverage_add(&f->cov, size, (unsigned)off,
						 (unsigned)(off + n));
		trace_edge_covered(f->mapping, f->index, (unsigned)off,
				   (unsigned)n);
		if (complete) {
			coverage_reset(&f->cov, &e->pool, size);
			clear |= FOLIO_EDGE;
			stat_inc(e, edges_completed);
			trace_edge_completed(f->mapping, f->index);
		}
	} else if (!whole && (!(f->flags & FOLIO_UPTODATE) ||
			      (uncached && !(f->flags & FOLIO_CACHED)))) {
		/* R2: a new edge; or a second lap over a whole folio, whose
		 * other bytes are known. */
		coverage_init(&f->cov);
		coverage_add(&f->cov, size, (unsigned)off, (unsigned)(off + n));
		trace_edge_created(f->mapping, f->index, (unsigned)off,
				   (unsigned)n);
		set |= FOLIO_EDGE;
		clear |= FOLIO_DROPBEHIND;
		f->flags &= ~(FOLIO_COMPLETE | FOLIO_DEFERRED);
	}
	if (complete)
		f->flags |= FOLIO_UPTODATE;
	if (!uncached) {
		f->flags |= FOLIO_CACHED;
		f->flags &= ~(FOLIO_COMPLETE | FOLIO_DEFERRED);
		clear |= FOLIO_DROPBEHIND;
	}
	f->flags &= ~FOLIO_READ_ONCE;
	if (complete && uncached && !(f->flags & FOLIO_CACHED)) {
		if ((flags & DBH_DEFER) && !(f->flags & FOLIO_DROPBEHIND)) {
			f->flags |= FOLIO_COMPLETE |
				    (whole ? FOLIO_DEFERRED : 0);
		} else {
			f->flags &= ~(FOLIO_COMPLETE | FOLIO_DEFERRED);
			set |= FOLIO_DROPBEHIND;
		}
	}
	folio_change_flags(f, set, clear);
	if ((f->flags & FOLIO_EDGE) || (f->flags & FOLIO_COMPLETE)) {
		if (!(f->flags & FOLIO_ON_EDGES))
			lru_move(e, f, FOLIO_ON_EDGES);
	} else if (f->flags & FOLIO_CACHED) {
		if (!(f->flags & FOLIO_ON_LRU))
			lru_move(e, f, FOLIO_ON_LRU);
	} else {
		lru_move(e, f, 0);
	}
}

void filemap_write_end(struct mapping *m, struct folio_batch *b, size_t written,
		       unsigned flags)
{
	struct dbh_engine *e = m->engine;
	uint64_t end = b->pos + written;

	if (written)
		i_size_grow(m, end);
	for (unsigned i = 0; i < b->nr; i++) {
		struct folio *f = b->folio[i];
		uint64_t from = MAX(b->pos, folio_pos(f));
		uint64_t to = MIN(end, folio_pos(f) + folio_bytes(f));

		if (from < to) {
			write_done(f, from - folio_pos(f), to - from, flags);
			folio_unlock(e, f);
		} else if (!(f->flags & (FOLIO_UPTODATE | FOLIO_EDGE))) {
			folio_discard(e, f); /* made for nothing */
		} else {
			dirty_uncharge(f);
			folio_unlock(e, f);
		}
	}
}

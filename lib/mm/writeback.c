// SPDX-License-Identifier: MIT
/*
 * writeback: bios from runs of dirty folios.
 *
 * A folio goes to disk like this: under its lock and the node's, DIRTY gives
 * way to WRITEBACK, and it is unlocked; while WRITEBACK is set nobody changes
 * its bytes. Bios grow across nodes while the file goes on without a hole.
 * What goes beyond the on-disk end is disk_end.c's, what follows a bio
 * end_io.c's.
 *
 * models/edge.pml checks this against writers and the ends of bios.
 */
#include "mm/writeback.h"

#include "mm/filemap.h"
#include "mm/trace.h"

/**
 * struct collect - a bio that is being made
 * @b: NULL, or got; empty while its bio.len is 0
 * @tail: where the block that holds the end starts, if it is dirty; NO_TAIL
 * @bytes: submitted so far
 * @split: at which page a large folio is to be split
 * @alone: what is in @b has failed before
 */
struct collect {
	struct mapping *m;
	struct batch *batch;
	struct wb_bio *b;
	enum writeback_mode mode;
	uint64_t tail;
	uint64_t bytes;
	pgoff_t split;
	bool alone;
};

static void wb_bio_submit(struct wb_bio *b)
{
	b->bio.store = b->m->store;
	b->bio.op = BIO_WRITE;
	b->bio.end_io = writeback_end;
	wb_io_begin(b->m->wb);
	mapping_io_get(b->m);
	bio_start_io_acct(b->m, &b->bio);
	bio_submit(&b->bio);
}

/* As wb_bio_submit(), and wait. */
static int wb_bio_submit_wait(struct wb_bio *b)
{
	struct batch batch;

	batch_init(&batch);
	batch_get(&batch);
	b->batch = &batch;
	wb_bio_submit(b);
	return batch_wait(&batch);
}

/* A bio that ends beyond the on-disk end. */
static void collect_submit_beyond(struct collect *c, struct wb_bio *b)
{
	struct mapping *m = c->m;
	uint64_t pos = b->bio.pos, end = pos + b->bio.len, size;
	int err;

	mutex_lock(&m->size_lock);
	size = atomic_load(&m->disk_size);
	if (size > pos && size < end) {
		disk_bound_raise(m, end);
		/* It rewrites the block that holds the on-disk end, and goes
		 * on from there: nothing else may be beyond before. Once it
		 * has ended, only our hold keeps the mapping. */
		mapping_io_get(m);
		err = wb_bio_submit_wait(b);
		if (!err && atomic_load(&m->disk_size) < end)
			atomic_store(&m->disk_size, end);
		mutex_unlock(&m->size_lock);
		mapping_io_put(m);
		if (c->batch)
			batch_put(c->batch, err);
		return;
	}
	err = disk_size_extend_locked(m, end);
	mutex_unlock(&m->size_lock);
	if (!err) {
		wb_bio_submit(b);
		return;
	}
	b->bio.status = err;
	mapping_io_get(m);
	wb_io_begin(m->wb);
	writeback_end(&b->bio);
}

static void collect_submit(struct collect *c)
{
	struct wb_bio *b = c->b;

	c->bytes += b->bio.len;
	c->b = NULL;
	b->m = c->m;
	b->batch = c->batch;
	if (c->batch)
		batch_get(c->batch);
	if (b->bio.pos + b->bio.len > atomic_load(&c->m->disk_size))
		collect_submit_beyond(c, b);
	else
		wb_bio_submit(b);
}

/* Does @f, at the end of it, still fit the bio? What has failed is tried alone,
 * so that a bad block keeps no other one from the disk. */
static bool collect_fits(const struct collect *c, const struct folio *f)
{
	const struct bio *bio = &c->b->bio;

	return !bio->len || (!c->alone && !(f->flags & FOLIO_FAILED) &&
			     bio->pos + bio->len == folio_pos(f) &&
			     bio->len + folio_bytes(f) <= BIO_MAX_BYTES &&
			     bio->nr_vecs < BIO_MAX_VECS);
}

static void collect_add(struct collect *c, struct folio *f)
{
	struct bio *bio = &c->b->bio;
	char *data = folio_data(&c->m->engine->pool, f);
	struct iovec *last = &c->b->vecs[bio->nr_vecs - 1];

	if (!bio->len)
		bio->pos = folio_pos(f);
	if (bio->len && (char *)last->iov_base + last->iov_len == data)
		last->iov_len += folio_bytes(f);
	else
		c->b->vecs[bio->nr_vecs++] =
			(struct iovec){ data, folio_bytes(f) };
	bio->len += (uint32_t)folio_bytes(f);
	c->alone = f->flags & FOLIO_FAILED;
}

static uint64_t collect_bits(const struct node *n, enum writeback_mode mode)
{
	switch (mode) {
	case WRITEBACK_DROPBEHIND:
		return node_writable(n);
	case WRITEBACK_KNOWN:
		return n->dirty & ~n->edge;
	case WRITEBACK_ALL:
		break;
	}
	return n->dirty;
}

enum collected {
	COLLECT_NEXT, /* go on behind it */
	COLLECT_FULL, /* submit, then come back to it */
	COLLECT_LOCKED, /* it must be waited for */
	COLLECT_SPLIT, /* it must be split */
};

/* Put the folio that starts at @index, of the locked node, into the bio. */
static enum collected collect_folio(struct collect *c, struct node *n,
				    struct folio *f)
{
	struct dbh_engine *e = c->m->engine;
	uint64_t size;

	if (!folio_trylock(f))
		return c->mode == WRITEBACK_ALL ? COLLECT_LOCKED : COLLECT_NEXT;
	if ((f->flags & (FOLIO_DIRTY | FOLIO_UPTODATE)) !=
	    (FOLIO_DIRTY | FOLIO_UPTODATE)) {
		folio_unlock(e, f);
		return COLLECT_NEXT;
	}
	size = i_size_read(c->m);
	if (folio_pos(f) >= size || mapping_hides(c->m, f)) {
		/* It is just being cut off, or changed. */
		folio_unlock(e, f);
		return COLLECT_NEXT;
	}
	if (folio_pos(f) + folio_bytes(f) > size) {
		if (f->order > c->m->min_order) {
			/* Only its last block is the tail's. */
			c->split = size >> PAGE_SHIFT;
			folio_unlock(e, f);
			return COLLECT_SPLIT;
		}
		c->tail = folio_pos(f);
		folio_unlock(e, f);
		return COLLECT_NEXT;
	}
	if (unlikely(f->flags & FOLIO_FAILED) && f->order > c->m->min_order) {
		c->split = f->index;
		folio_unlock(e, f);
		return COLLECT_SPLIT;
	}
	if (!collect_fits(c, f)) {
		folio_unlock(e, f);
		return COLLECT_FULL;
	}
	collect_add(c, f);
	if (f->flags & FOLIO_DEFERRED) {
		/* Nobody completes it: its writer covered it whole. */
		f->flags &= ~(FOLIO_DEFERRED | FOLIO_COMPLETE);
		folio_change(n, f, FOLIO_DROPBEHIND, 0);
		lru_move(e, f, 0);
	}
	if (f->flags & FOLIO_DROPBEHIND)
		n->sent |= folio_mask(f);
	folio_change(n, f, FOLIO_WRITEBACK, FOLIO_DIRTY);
	folio_unlock(e, f);
	return COLLECT_NEXT;
}

static struct folio *node_folio(struct mapping *m, struct node *n, unsigned bit)
{
	uint32_t id = atomic_load_explicit(&n->slot[bit], memory_order_relaxed);

	return id ? &m->engine->pool.folios[id - 1] : NULL;
}

void mapping_split_at(struct mapping *m, pgoff_t index)
{
	struct dbh_engine *e = m->engine;
	struct folio *f = mapping_lookup(m, index);

	if (!f)
		return;
	folio_lock(e, f);
	if (folio_is(f, m, index) && !(f->flags & FOLIO_WRITEBACK) &&
	    f->order > m->min_order)
		f = folio_split(f, index, m->min_order);
	folio_unlock(e, f);
}

/* Collect from one node, pages [*index, @last]; *index is where to go on.
 * Return: the folio to wait for, or NULL. */
static struct folio *collect_node(struct collect *c, pgoff_t *index,
				  pgoff_t last)
{
	pgoff_t base = ALIGN_DOWN(*index, NODE_PAGES);
	enum collected res = COLLECT_NEXT;
	struct folio *f = NULL;
	struct node *n;
	uint64_t bits;

	if (!c->b) {
		/* Got while no lock is held. */
		c->b = wb_bio_get(c->m->wb);
		c->b->bio.vecs = c->b->vecs;
		c->b->bio.len = 0;
		c->b->bio.nr_vecs = 0;
	}
	n = node_lock_find(c->m, *index);
	if (!n) {
		*index = base + NODE_PAGES;
		return NULL;
	}
	paranoid_enter();
	bits = collect_bits(n, c->mode) & (~0ull << (*index - base));
	while (bits) {
		unsigned bit = (unsigned)__builtin_ctzll(bits);

		if (base + bit > last)
			break;
		f = node_folio(c->m, n, bit);
		res = collect_folio(c, n, f);
		if (res != COLLECT_NEXT)
			break;
		/* A large folio has several bits: what is WRITEBACK now is
		 * no longer dirty. */
		bits &= collect_bits(n, c->mode) & ~(1ull << bit);
		bits &= ~0ull << bit;
		*index = base + bit + 1;
	}
	paranoid_leave();
	if (res == COLLECT_NEXT)
		*index = base + NODE_PAGES;
	/* What was skipped, because somebody had its lock, is not forgotten. */
	if (c->mode == WRITEBACK_DROPBEHIND)
		node_wb_update(c->m->wb, n);
	mutex_unlock(&n->lock);
	open_wake(c->m);
	if (res == COLLECT_FULL)
		collect_submit(c);
	else if (res == COLLECT_SPLIT)
		mapping_split_at(c->m, c->split);
	return res == COLLECT_LOCKED ? f : NULL;
}

static void collect_finish(struct collect *c)
{
	if (c->b && c->b->bio.len) {
		collect_submit(c);
	} else if (c->b) {
		wb_bio_put(c->m->wb, c->b);
		c->b = NULL;
	}
}

uint64_t writeback_range(struct mapping *m, pgoff_t first, pgoff_t last,
			 enum writeback_mode mode, struct batch *batch)
{
	struct collect c = {
		.m = m,
		.batch = batch,
		.mode = mode,
		.tail = NO_TAIL,
	};
	pgoff_t index = first;
	uint64_t pos;

	trace_writeback_start(m, first, last, mode);
	while (index <= last && (index = node_next(m, index)) <= last) {
		pgoff_t stop = ALIGN_DOWN(index, NODE_PAGES) + NODE_PAGES;

		while (index < stop && index <= last) {
			struct folio *f = collect_node(&c, &index, last);

			if (!f)
				continue;
			/* What it waits for may be this very bio. */
			collect_finish(&c);
			folio_lock(m->engine, f);
			folio_unlock(m->engine, f);
		}
		if (!stop)
			break;
	}
	collect_finish(&c);
	trace_writeback_written(m, first, last, c.bytes);
	/* A sync writes the tail when all else is done. */
	if (c.tail != NO_TAIL && mode != WRITEBACK_ALL)
		writeback_tail(m, &pos);
	return c.tail;
}

void writeback_kick_range(struct mapping *m, pgoff_t first, pgoff_t last)
{
	struct dbh_engine *e = m->engine;

	if (atomic_exchange(&m->kicking, true)) {
		stat_inc(e, kick_skips);
		return;
	}
	if (mapping_due(m)) {
		stat_inc(e, kicks);
		trace_kick(m->wb, (uint64_t)wb_stat(m->wb, WB_DONTCACHE_DIRTY),
			   0);
		writeback_range(m, first, last, WRITEBACK_DROPBEHIND, NULL);
	}
	atomic_store(&m->kicking, false);
}

/* ---- waiting --------------------------------------------------------- */

static void wait_folio(struct mapping *m, pgoff_t index)
{
	struct dbh_engine *e = m->engine;
	struct folio *f = mapping_lookup(m, index);
	struct thread_waiter tw;

	if (!f)
		return;
	thread_waiter_init(&tw);
	folio_lock(e, f);
	if (folio_is(f, m, index) && (f->flags & FOLIO_WRITEBACK)) {
		folio_wait_writeback(e, f, &tw.w);
		folio_unlock(e, f);
		thread_waiter_sleep(&tw);
	} else {
		folio_unlock(e, f);
	}
}

void writeback_wait(struct mapping *m, pgoff_t first, pgoff_t last)
{
	pgoff_t index = first;

	while (index <= last && (index = node_next(m, index)) <= last) {
		pgoff_t base = ALIGN_DOWN(index, NODE_PAGES);
		struct node *n = node_lock_find(m, index);
		uint64_t bits = 0;

		if (n) {
			bits = n->writeback & (~0ull << (index - base));
			mutex_unlock(&n->lock);
		}
		if (bits && base + (unsigned)__builtin_ctzll(bits) <= last) {
			index = base + (unsigned)__builtin_ctzll(bits);
			wait_folio(m, index);
			index++;
		} else {
			index = base + NODE_PAGES;
		}
		if (!index)
			break;
	}
}

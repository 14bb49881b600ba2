// SPDX-License-Identifier: MIT
/*
 * writeback: bios from runs of dirty folios, the on-disk end, and what follows
 * the end of a bio.
 *
 * A folio goes to disk like this: under its lock and the node's, DIRTY gives
 * way to WRITEBACK, and it is unlocked; while WRITEBACK is set nobody changes
 * its bytes. Bios grow across nodes while the file goes on without a hole.
 *
 * The on-disk end (R16) moves under size_lock, which comes before folio locks:
 * no holder of a folio lock takes it. It is raised by ftruncate to the last
 * whole block of the logical size before bios go beyond it, so that several of
 * them can be under way: extending writes would be done one by one. Never
 * beyond the logical end; and while it lies inside a block, that block is
 * rewritten whole first.
 */
#include "mm/writeback.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "mm/filemap.h"

#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 10000u

/* ---- the end of a bio ------------------------------------------------ */

bool mapping_due(const struct mapping *m)
{
	return !atomic_load(&m->failing) ||
	       (int32_t)(clock_coarse_ms() - atomic_load(&m->retry_ms)) >= 0;
}

void writeback_failed(struct mapping *m, int err)
{
	uint32_t backoff = atomic_load(&m->backoff_ms);

	errseq_set(&m->wb_err, err);
	/* Of a burst of failures the first one counts. Only the flusher's next
	 * try depends on this; a race between two ends makes it a little
	 * earlier or later. */
	if (!mapping_due(m))
		return;
	backoff = backoff ? MIN(backoff * 2, BACKOFF_MAX_MS) : BACKOFF_MIN_MS;
	atomic_store(&m->retry_ms, clock_coarse_ms() + backoff);
	atomic_store(&m->backoff_ms, backoff);
	atomic_store(&m->failing, true);
}

static void writeback_succeeded(struct mapping *m)
{
	if (likely(!atomic_load_explicit(&m->failing, memory_order_relaxed)))
		return;
	atomic_store(&m->failing, false);
	atomic_store(&m->backoff_ms, 0);
}

/* One folio of an ended bio, locked, as its node. Return: it is to be freed. */
static bool folio_end_writeback(struct dbh_engine *e, struct node *n,
				struct folio *f, int err)
{
	if (unlikely(err)) {
		n->sent &= ~folio_mask(f);
		folio_change(n, f, FOLIO_DIRTY, FOLIO_WRITEBACK);
		f->flags |= FOLIO_FAILED;
	} else if (f->flags & FOLIO_DROPBEHIND) {
		folio_change(n, f, 0, FOLIO_WRITEBACK | FOLIO_DROPBEHIND);
		folio_wake_writeback(e, f);
		folio_remove_locked(n, f);
		folio_unlock(e, f);
		return true;
	} else {
		folio_change(n, f, 0, FOLIO_WRITEBACK);
		f->flags &= ~FOLIO_FAILED;
	}
	folio_wake_writeback(e, f);
	folio_unlock(e, f);
	return false;
}

/* The folios of one vector; those to be freed are collected. */
struct ended {
	struct mapping *m;
	struct node *node; /* locked, or NULL */
	pgoff_t base;
	unsigned nr;
	size_t pages;
	struct folio *folio[64];
};

static void ended_node_leave(struct ended *end)
{
	bool empty;

	if (!end->node)
		return;
	empty = !end->node->present;
	mutex_unlock(&end->node->lock);
	end->node = NULL;
	if (empty)
		node_put_empty(end->m, end->base << NODE_SHIFT);
}

static void ended_free(struct ended *end)
{
	ended_node_leave(end);
	if (end->nr)
		pool_free_bulk(&end->m->engine->pool, end->folio, end->nr);
	end->nr = 0;
}

static size_t ended_folio(struct ended *end, struct folio *f, int err)
{
	struct dbh_engine *e = end->m->engine;
	pgoff_t base;
	size_t bytes;

	/* A holder of the lock may want the node; a try is in no order. */
	if (!folio_trylock(f)) {
		ended_node_leave(end);
		folio_lock(e, f);
	}
	base = f->index >> NODE_SHIFT;
	bytes = folio_bytes(f);
	if (end->node && end->base != base)
		ended_node_leave(end);
	if (!end->node) {
		end->node = folio_node_lock(f);
		end->base = base;
	}
	if (folio_end_writeback(e, end->node, f, err)) {
		end->folio[end->nr++] = f;
		end->pages += bytes / PAGE_BYTES;
	}
	if (end->nr == sizeof(end->folio) / sizeof(end->folio[0]))
		ended_free(end);
	return bytes;
}

void writeback_end(struct bio *bio)
{
	struct wb_bio *b = container_of(bio, struct wb_bio, bio);
	struct mapping *m = b->m;
	struct dbh_engine *e = m->engine;
	struct batch *batch = b->batch;
	struct ended end = { .m = m };
	int err = bio->status;

	if (unlikely(err))
		writeback_failed(m, err);
	else
		writeback_succeeded(m);
	paranoid_enter();
	for (uint32_t i = 0; i < bio->nr_vecs; i++) {
		char *at = bio->vecs[i].iov_base;
		char *stop = at + bio->vecs[i].iov_len;

		while (at < stop)
			at += ended_folio(&end, folio_of(&e->pool, at), err);
	}
	ended_free(&end);
	paranoid_leave();
	wb_bio_put(e, b);
	atomic_fetch_sub(&e->wb_in_flight, 1);
	mem_wake(e);
	mapping_io_put(m);
	if (batch)
		batch_put(batch, err);
}

/* ---- bios from folios ------------------------------------------------ */

static int disk_size_extend_locked(struct mapping *m, uint64_t end);

/**
 * struct collect - a bio that is being made
 * @b: NULL, or got; empty while its bio.len is 0
 * @tail: where the block that holds the end starts, if it is dirty; NO_TAIL
 */
struct collect {
	struct mapping *m;
	struct batch *batch;
	struct wb_bio *b;
	enum writeback_mode mode;
	uint64_t tail;
};

static void wb_bio_submit(struct wb_bio *b)
{
	struct dbh_engine *e = b->m->engine;

	b->bio.store = b->m->store;
	b->bio.op = BIO_WRITE;
	b->bio.end_io = writeback_end;
	atomic_fetch_add(&e->wb_in_flight, 1);
	mapping_io_get(b->m);
	stat_inc(e, write_bios);
	stat_add(e, write_bytes, b->bio.len);
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
	atomic_fetch_add(&m->engine->wb_in_flight, 1);
	writeback_end(&b->bio);
}

static void collect_submit(struct collect *c)
{
	struct wb_bio *b = c->b;

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

/* Does @f, at the end of it, still fit the bio? */
static bool collect_fits(const struct collect *c, const struct folio *f)
{
	const struct bio *bio = &c->b->bio;

	return !bio->len || (bio->pos + bio->len == folio_pos(f) &&
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
	COLLECT_SPLIT, /* it reaches past the end of the file */
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
	if (folio_pos(f) >= size) {
		/* It is just being cut off. */
		folio_unlock(e, f);
		return COLLECT_NEXT;
	}
	if (folio_pos(f) + folio_bytes(f) > size) {
		if (f->order > c->m->min_order) {
			/* Only its last block is the tail's: split it. */
			folio_unlock(e, f);
			return COLLECT_SPLIT;
		}
		c->tail = folio_pos(f);
		folio_unlock(e, f);
		return COLLECT_NEXT;
	}
	if (!collect_fits(c, f)) {
		folio_unlock(e, f);
		return COLLECT_FULL;
	}
	collect_add(c, f);
	if (f->flags & FOLIO_DROPBEHIND)
		n->sent |= folio_mask(f);
	folio_change(n, f, FOLIO_WRITEBACK, FOLIO_DIRTY);
	folio_unlock(e, f);
	return COLLECT_NEXT;
}

static struct folio *node_folio(struct mapping *m, struct node *n, unsigned bit)
{
	uint32_t id = atomic_load_explicit(&n->slot[bit],
					   memory_order_relaxed);

	return id ? &m->engine->pool.folios[id - 1] : NULL;
}

/* Make the block that holds the end of the file a folio of its own. */
static void split_at_end(struct mapping *m)
{
	struct dbh_engine *e = m->engine;
	uint64_t size = i_size_read(m);
	pgoff_t index = size >> PAGE_SHIFT;
	struct folio *f = mapping_lookup(m, index);

	if (!f)
		return;
	folio_lock(e, f);
	if (folio_is(f, m, index) && !(f->flags & FOLIO_WRITEBACK) &&
	    !(size == folio_pos(f)))
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
		c->b = wb_bio_get(c->m->engine);
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
		split_at_end(c->m);
	return res == COLLECT_LOCKED ? f : NULL;
}

static void collect_finish(struct collect *c)
{
	if (c->b && c->b->bio.len) {
		collect_submit(c);
	} else if (c->b) {
		wb_bio_put(c->m->engine, c->b);
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
	/* A sync writes the tail when all else is done. */
	if (c.tail != NO_TAIL && mode != WRITEBACK_ALL)
		writeback_tail(m, &pos);
	return c.tail;
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

/* ---- the on-disk end ------------------------------------------------- */

static void sync_end(struct bio *bio)
{
	batch_put(bio->private, bio->status);
}

/* One block of the store, to or from @buf; sleeps. */
static int block_rw(struct mapping *m, struct bio *bio, enum bio_op op,
		    uint64_t pos, void *buf)
{
	struct iovec vec = { buf, min_folio_bytes(m) };
	struct batch batch;

	batch_init(&batch);
	batch_get(&batch);
	bio->store = m->store;
	bio->op = op;
	bio->pos = pos;
	bio->len = (uint32_t)vec.iov_len;
	bio->vecs = &vec;
	bio->nr_vecs = 1;
	bio->end_io = sync_end;
	bio->private = &batch;
	bio_submit(bio);
	return batch_wait(&batch);
}

/* A locked folio, of which one block was written as it is; unlocks it. */
static void end_block_written(struct folio *f, int err)
{
	struct mapping *m = f->mapping;
	struct dbh_engine *e = m->engine;

	if (err || f->order > m->min_order || !(f->flags & FOLIO_DIRTY)) {
		folio_unlock(e, f);
		return;
	}
	/* Through WRITEBACK, for the counters' sake. */
	folio_change_flags(f, FOLIO_WRITEBACK, FOLIO_DIRTY);
	folio_change_flags(f, 0, FOLIO_WRITEBACK);
	if (f->flags & FOLIO_DROPBEHIND)
		folio_drop(e, f);
	else
		folio_unlock(e, f);
}

/*
 * The block that holds the on-disk end, when that is to move beyond: from the
 * cache where it is known there, which is what happens when a file is written
 * on; else read, and written whole.
 */
static int end_block_rewrite(struct mapping *m, uint64_t pos)
{
	struct dbh_engine *e = m->engine;
	struct fill *fill = fill_get_wait(e);
	struct folio *f = mapping_lookup(m, pos >> PAGE_SHIFT);
	bool locked = false;
	char *data = NULL;
	int err = 0;

	if (f) {
		folio_lock(e, f);
		locked = true;
	}
	if (f && folio_is(f, m, pos >> PAGE_SHIFT) &&
	    (f->flags & FOLIO_UPTODATE)) {
		data = folio_data(&e->pool, f) + (pos - folio_pos(f));
	}
	/* Under writeback it is in a bio that waits for size_lock, which we
	 * hold: it does not change meanwhile. */
	if (locked && (!data || (f->flags & FOLIO_WRITEBACK))) {
		folio_unlock(e, f);
		locked = false;
	}
	if (!data)
		err = block_rw(m, &fill->bio, BIO_READ, pos, fill->bounce);
	if (!err)
		err = block_rw(m, &fill->bio, BIO_WRITE, pos,
			       data ? data : fill->bounce);
	fill_put(e, fill);
	if (locked)
		end_block_written(f, err);
	return err;
}

static int disk_size_extend_locked(struct mapping *m, uint64_t end)
{
	uint64_t size = atomic_load(&m->disk_size);
	uint64_t min = min_folio_bytes(m), pos = ALIGN_DOWN(size, min);
	int err;

	if (size >= end)
		return 0;
	if (size > pos) {
		disk_bound_raise(m, pos + min);
		err = end_block_rewrite(m, pos);
		if (err)
			return err;
		size = pos + min;
		atomic_store(&m->disk_size, size);
	}
	end = MAX(end, ALIGN_DOWN(i_size_read(m), min));
	if (size >= end)
		return 0;
	disk_bound_raise(m, end);
	err = m->store->ops->truncate(m->store, end);
	if (!err)
		atomic_store(&m->disk_size, end);
	return err;
}

int disk_size_extend(struct mapping *m, uint64_t end)
{
	int err;

	mutex_lock(&m->size_lock);
	err = disk_size_extend_locked(m, end);
	mutex_unlock(&m->size_lock);
	return err;
}

/* The folio that holds the logical end, locked, dirty and known; or NULL. */
static struct folio *tail_lock(struct mapping *m, uint64_t *size)
{
	struct dbh_engine *e = m->engine;
	struct folio *f;
	pgoff_t index;

	*size = i_size_read(m);
	if (!(*size & (min_folio_bytes(m) - 1)))
		return NULL;
	index = *size >> PAGE_SHIFT;
	f = mapping_lookup(m, index);
	if (!f)
		return NULL;
	folio_lock(e, f);
	if (folio_is(f, m, index) &&
	    (f->flags & (FOLIO_DIRTY | FOLIO_UPTODATE)) ==
		    (FOLIO_DIRTY | FOLIO_UPTODATE)) {
		f = folio_split(f, index, m->min_order);
		*size = i_size_read(m);
		if (*size < folio_pos(f) + folio_bytes(f))
			return f;
		/* Grown past it meanwhile: no tail any more. */
	}
	folio_unlock(e, f);
	return NULL;
}

/* The tail could not even be begun: it has failed all the same (R15). */
static int tail_failed(struct mapping *m, int err)
{
	uint64_t size;
	struct folio *f = tail_lock(m, &size);

	writeback_failed(m, err);
	if (f) {
		f->flags |= FOLIO_FAILED;
		folio_unlock(m->engine, f);
	}
	return err;
}

static int writeback_tail_locked(struct mapping *m, uint64_t *out)
{
	struct dbh_engine *e = m->engine;
	struct folio *f;
	uint64_t size, pos;
	int err;

	*out = NO_TAIL;
	f = tail_lock(m, &size);
	if (!f)
		return 0;
	pos = folio_pos(f);
	if (atomic_load(&m->disk_size) < pos) {
		/* size_lock comes before the folio: let go and look again. */
		folio_unlock(e, f);
		err = disk_size_extend_locked(m, pos);
		if (err)
			return tail_failed(m, err);
		f = tail_lock(m, &size);
		if (!f)
			return 0;
		if (folio_pos(f) != pos) {
			folio_unlock(e, f);
			return writeback_tail_locked(m, out);
		}
	}
	*out = pos;
	disk_bound_raise(m, size);
	folio_change_flags(f, FOLIO_WRITEBACK, FOLIO_DIRTY);
	folio_unlock(e, f);
	stat_inc(e, write_bios);
	stat_add(e, write_bytes, size - pos);
	err = m->store->ops->write_tail(m->store, folio_data(&e->pool, f),
					size - pos, pos);
	if (err)
		writeback_failed(m, err);
	else
		writeback_succeeded(m);
	if (!err && atomic_load(&m->disk_size) < size)
		atomic_store(&m->disk_size, size);
	folio_lock(e, f);
	folio_change_flags(f, err ? FOLIO_DIRTY : 0, FOLIO_WRITEBACK);
	f->flags = err ? f->flags | FOLIO_FAILED : f->flags & ~FOLIO_FAILED;
	folio_wake_writeback(e, f);
	/* Marked only if it was evicted; else it stays until it is whole. */
	if (!err && (f->flags & FOLIO_DROPBEHIND))
		folio_drop(e, f);
	else
		folio_unlock(e, f);
	mem_wake(e);
	return err;
}

int writeback_tail(struct mapping *m, uint64_t *pos)
{
	int err;

	mutex_lock(&m->size_lock);
	err = writeback_tail_locked(m, pos);
	mutex_unlock(&m->size_lock);
	return err;
}

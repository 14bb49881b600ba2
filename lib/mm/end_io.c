// SPDX-License-Identifier: MIT
/*
 * end_io: what follows the end of a bio of folios (R13), and what a failed
 * write means for its mapping (R15).
 *
 * Runs in the completion thread. A folio under writeback is in exactly one
 * bio, whose end takes the folio's lock, then the node's; while it holds a
 * node it only tries the lock of the next folio.
 *
 * models/edge.pml checks this against writers, syncs and eviction.
 */
#include "mm/writeback.h"

#include "base/clock.h"
#include "mm/filemap.h"

#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 10000u

/* ---- failure --------------------------------------------------------- */

bool mapping_due(const struct mapping *m)
{
	return !mapping_failing(m) ||
	       (int32_t)(clock_coarse_ms() - atomic_load(&m->retry_ms)) >= 0;
}

void writeback_failed(struct mapping *m, int err)
{
	uint32_t backoff = atomic_load(&m->backoff_ms);

	errseq_set(&m->wb_err, err);
	atomic_store(&m->wb->failed_err, err);
	/* Of a burst of failures the first one counts. Only the flusher's next
	 * try depends on this; a race between two ends makes it a little
	 * earlier or later. */
	if (backoff &&
	    (int32_t)(clock_coarse_ms() - atomic_load(&m->retry_ms)) < 0)
		return;
	backoff = backoff ? MIN(backoff * 2, BACKOFF_MAX_MS) : BACKOFF_MIN_MS;
	atomic_store(&m->retry_ms, clock_coarse_ms() + backoff);
	atomic_store(&m->backoff_ms, backoff);
}

static void nr_failed_mod(struct mapping *m, long pages)
{
	struct dbh_engine *e = m->engine;
	long old = atomic_fetch_add(&m->nr_failed, pages);

	atomic_fetch_add(&m->wb->nr_failed, pages);
	atomic_fetch_add(&e->nr_failed, pages);
	if (!old)
		atomic_fetch_add(&e->nr_failing, 1);
	if (old + pages)
		return;
	atomic_fetch_sub(&e->nr_failing, 1);
	atomic_store(&m->backoff_ms, 0);
}

void folio_set_failed(struct folio *f)
{
	if (f->flags & FOLIO_FAILED)
		return;
	paranoid_enter();
	f->flags |= FOLIO_FAILED;
	nr_failed_mod(f->mapping, (long)folio_pages(f));
	paranoid_leave();
}

void folio_clear_failed(struct folio *f)
{
	if (likely(!(f->flags & FOLIO_FAILED)))
		return;
	paranoid_enter();
	f->flags &= ~FOLIO_FAILED;
	nr_failed_mod(f->mapping, -(long)folio_pages(f));
	paranoid_leave();
}

/* ---- the end of a bio ------------------------------------------------ */

/* One folio of an ended bio, locked, as its node. Return: it is to be freed. */
static bool folio_end_writeback(struct dbh_engine *e, struct node *n,
				struct folio *f, int err)
{
	if (unlikely(err)) {
		n->sent &= ~folio_mask(f);
		folio_change(n, f, FOLIO_DIRTY, FOLIO_WRITEBACK);
		folio_set_failed(f);
	} else if (f->flags & FOLIO_DROPBEHIND) {
		folio_clear_failed(f);
		folio_change(n, f, 0, FOLIO_WRITEBACK | FOLIO_DROPBEHIND);
		folio_wake_writeback(e, f);
		folio_remove_locked(n, f);
		folio_unlock(e, f);
		return true;
	} else {
		folio_clear_failed(f);
		folio_change(n, f, 0, FOLIO_WRITEBACK);
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
	long written = err ? 0 : (long)(bio->len / PAGE_BYTES);

	bio_end_io_acct(m, bio);
	if (unlikely(err))
		writeback_failed(m, err);
	paranoid_enter();
	for (uint32_t i = 0; i < bio->nr_vecs; i++) {
		char *at = bio->vecs[i].iov_base;
		char *stop = at + bio->vecs[i].iov_len;

		while (at < stop)
			at += ended_folio(&end, folio_of(&e->pool, at), err);
	}
	ended_free(&end);
	paranoid_leave();
	wb_bio_put(m->wb, b);
	wb_io_end(m->wb, written);
	mem_wake(e);
	mapping_io_put(m);
	if (batch)
		batch_put(batch, err);
}

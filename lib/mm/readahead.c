// SPDX-License-Identifier: MIT
/*
 * readahead: large reads into new folios, ahead of those who read in order.
 */
#include "mm/readahead.h"

#include <string.h>

#include "mm/bio_pool.h"
#include "mm/filemap.h"

#define WINDOW_MIN (128u << 10)
#define WINDOW_MAX (2u << 20)

/* @alone: nothing else was read with it. */
static void read_done(struct read_bio *rb, struct folio *f, int err, bool alone)
{
	struct mapping *m = rb->m;
	struct dbh_engine *e = m->engine;
	bool uncached = f->flags & FOLIO_READ_ONCE;

	f->read_bytes = 0;
	if (unlikely(err)) {
		/* Of several only one may be bad: whoever wants one
		 * tries it alone. */
		f->flags |= FOLIO_ERROR | (alone ? 0 : FOLIO_ALONE);
		f->read_bytes = (uint32_t)-err;
	} else {
		f->flags |= FOLIO_UPTODATE | FOLIO_REFERENCED;
	}
	lru_move(e, f, uncached ? FOLIO_ON_ONCE : FOLIO_ON_LRU);
	folio_unlock(e, f);
}

static void read_end(struct bio *bio)
{
	struct read_bio *rb = container_of(bio, struct read_bio, bio);
	struct mapping *m = rb->m;
	struct dbh_engine *e = m->engine;
	struct wb *wb = m->wb;

	bio_end_io_acct(m, bio);
	for (uint32_t i = 0; i < bio->nr_vecs; i++) {
		char *at = bio->vecs[i].iov_base;
		char *stop = at + bio->vecs[i].iov_len;

		while (at < stop) {
			struct folio *f = folio_of(&e->pool, at);

			at += folio_bytes(f);
			read_done(rb, f, bio->status,
				  bio->len == min_folio_bytes(m));
		}
	}
	mapping_io_put(m);
	read_bio_put(wb, rb);
}

static void add_folio(struct read_bio *rb, struct folio *f)
{
	struct bio *bio = &rb->bio;
	char *data = folio_data(&rb->m->engine->pool, f);
	struct iovec *last = &rb->vecs[bio->nr_vecs - 1];

	if (bio->nr_vecs && (char *)last->iov_base + last->iov_len == data)
		last->iov_len += folio_bytes(f);
	else
		rb->vecs[bio->nr_vecs++] =
			(struct iovec){ data, folio_bytes(f) };
	bio->len += (uint32_t)folio_bytes(f);
}

/* A new folio at @index, locked; NULL if one is there, or no memory. */
static struct folio *add_new(struct mapping *m, pgoff_t index, size_t len,
			     bool uncached, int *err)
{
	struct dbh_engine *e = m->engine;
	unsigned order = m->min_order;
	struct folio *f;

	while (order < MAX(e->limit.max_order, m->min_order) &&
	       !(index & ((2u << order) - 1)) &&
	       len >= (size_t)PAGE_BYTES << (order + 1) &&
	       mapping_absent(m, index, order + 1))
		order++;
	f = folio_alloc(e, order, m->min_order);
	if (!f) {
		*err = -ENOMEM;
		return NULL;
	}
	*err = folio_insert(m, f, index);
	if (*err)
		return NULL;
	f->flags |= uncached ? FOLIO_READ_ONCE : FOLIO_CACHED;
	return f;
}

int read_folios(struct mapping *m, uint64_t pos, size_t len, bool uncached,
		struct waiter *w)
{
	struct dbh_engine *e = m->engine;
	uint64_t min = min_folio_bytes(m);
	uint64_t end = MIN(pos + len, i_size_read(m));
	uint32_t seq = mem_seq(e);
	struct read_bio *rb;
	int err = 0;

	pos = ALIGN_DOWN(pos, min);
	end = MIN(ALIGN_UP(end, min), pos + BIO_MAX_BYTES);
	rb = read_bio_get(m->wb, w);
	if (!rb)
		return w ? -EIOCBQUEUED : -EAGAIN;
	rb->m = m;
	rb->bio.len = 0;
	rb->bio.nr_vecs = 0;
	rb->bio.pos = pos;
	while (pos < end && rb->bio.nr_vecs < READ_BIO_VECS) {
		struct folio *f = add_new(m, pos >> PAGE_SHIFT, end - pos,
					  uncached, &err);

		if (!f)
			break;
		add_folio(rb, f);
		pos += folio_bytes(f);
	}
	if (!rb->bio.len) {
		read_bio_put(m->wb, rb);
		if (err == -ENOMEM)
			return mem_wait(e, seq, w);
		return 0;
	}
	rb->bio.store = m->store;
	rb->bio.op = BIO_READ;
	rb->bio.vecs = rb->vecs;
	rb->bio.end_io = read_end;
	mapping_io_get(m);
	bio_start_io_acct(m, &rb->bio);
	bio_submit(&rb->bio);
	return 0;
}

/* ---- ahead ----------------------------------------------------------- */

void readahead_init(struct readahead *ra)
{
	memset(ra, 0, sizeof(*ra));
	mutex_init(&ra->lock, RANK_LEAF);
}

/* Update the state for a read of [@pos, @pos + @len). Return: what to ask for
 * now, *@from to the result, or nothing if they are equal. */
static uint64_t plan(struct readahead *ra, uint64_t pos, size_t len,
		     uint64_t max_window, uint64_t *from)
{
	uint64_t want;

	if (pos != ra->next) {
		ra->window = 0;
		ra->end = 0;
	} else if (pos || ra->end) {
		ra->window = ra->window ? MIN(ra->window * 2, max_window) :
					  MIN(WINDOW_MIN, max_window);
	}
	ra->next = pos + len;
	*from = MAX(ra->end, pos);
	if (!ra->window || ra->end >= pos + len + ra->window / 2)
		return *from;
	want = pos + len + ra->window;
	ra->end = want;
	return want;
}

void readahead_start(struct mapping *m, struct readahead *ra, uint64_t pos,
		     size_t len, bool uncached)
{
	struct dbh_engine *e = m->engine;
	uint64_t max =
		MIN((uint64_t)WINDOW_MAX, e->pool.nr_pages * PAGE_BYTES / 16);
	uint64_t from, to, size = i_size_read(m), min = min_folio_bytes(m);

	if (!mutex_trylock(&ra->lock))
		return;
	to = plan(ra, pos, len, max, &from);
	mutex_unlock(&ra->lock);
	/* Whole minimum folios: a block is not asked for twice. */
	to = ALIGN_UP(MIN(to, size), min);
	from = from > pos ? ALIGN_UP(from, min) : ALIGN_DOWN(from, min);
	while (from < to) {
		size_t step = MIN(to - from, (uint64_t)BIO_MAX_BYTES);

		if (!mapping_lookup(m, from >> PAGE_SHIFT) &&
		    read_folios(m, from, step, uncached, NULL))
			return;
		from += step;
	}
}

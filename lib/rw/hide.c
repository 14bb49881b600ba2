// SPDX-License-Identifier: MIT
/*
 * hide: a range that is about to change in the store, under the cache (R24).
 *
 * The io_lock is held alone, so nobody reads or writes. But the flusher, syncs
 * and evictions go on, and what they wrote could overtake the change. So from
 * hide_begin() on nothing of the range starts to the disk, and nothing of it is
 * under way; size_lock is held, so that the block of an end is not written
 * either, and the on-disk end stays. Dirty data of the range is still there if
 * the change fails. If it succeeds, hide_zero() drops the folios.
 *
 * A sync that has left something out because it was hidden comes back for it:
 * see write_all_of_round().
 *
 * models/hide.pml checks this against the flusher, syncs and writers.
 */
#include <string.h>

#include "mm/filemap.h"
#include "mm/writeback.h"
#include "rw/rw.h"

void hide_begin(struct mapping *m, uint64_t start, uint64_t end)
{
	pgoff_t first = first_page(m, start), last = last_page(m, end - 1);

	/* Before the range: pairs with write_all_of_round() in group_commit.c. */
	atomic_fetch_add(&m->hide_seq, 1);
	atomic_store(&m->hide_first, first);
	atomic_store(&m->hide_end, last + 1);
	writeback_wait(m, first, last);
	mutex_lock(&m->size_lock);
}

void hide_end(struct mapping *m)
{
	mutex_unlock(&m->size_lock);
	atomic_store(&m->hide_end, 0);
	atomic_fetch_add(&m->hide_seq, 1);
}

struct zero {
	struct dbh_engine *e;
	uint64_t start, end;
};

static bool covers_none(const struct coverage *c, unsigned size, unsigned from,
			unsigned to)
{
	unsigned end;

	return from == to ||
	       (coverage_gap(c, size, from, &end) == from && end >= to);
}

/* Is nothing known of a locked folio but bytes of [@from, @to)? */
static bool known_only_in(const struct folio *f, unsigned from, unsigned to)
{
	unsigned size = (unsigned)folio_bytes(f);

	if (f->flags & FOLIO_UPTODATE)
		return false;
	return !(f->flags & FOLIO_EDGE) ||
	       (covers_none(&f->cov, size, 0, from) &&
		covers_none(&f->cov, size, to, size));
}

/* What is covered stays so: the bytes are known, and zero. What is not is zero
 * in the store. */
static void zero_folio(struct folio *f, void *arg)
{
	const struct zero *z = arg;
	uint64_t pos = folio_pos(f);
	unsigned from = (unsigned)(MAX(z->start, pos) - pos);
	unsigned to = (unsigned)(MIN(z->end, pos + folio_bytes(f)) - pos);

	if (to - from == folio_bytes(f) || known_only_in(f, from, to)) {
		folio_discard(z->e, f);
		return;
	}
	memset(folio_data(&z->e->pool, f) + from, 0, to - from);
	folio_unlock(z->e, f);
}

void hide_zero(struct mapping *m, uint64_t start, uint64_t end, uint64_t size)
{
	struct zero z = { m->engine, start, end };

	/* Behind the end of the file there is nothing to keep. */
	if (end >= size)
		z.end = (last_page(m, end - 1) + 1) << PAGE_SHIFT;
	mapping_split_at(m, z.start >> PAGE_SHIFT);
	mapping_split_at(m, (z.end - 1) >> PAGE_SHIFT);
	mapping_for_each_folio(m, first_page(m, z.start),
			       last_page(m, z.end - 1), zero_folio, &z);
}

void hide_failed(struct mapping *m, uint64_t start, uint64_t end, int err)
{
	/* These were refused from the start. */
	if (err == -EOPNOTSUPP || err == -EINVAL)
		return;
	mapping_drop_clean_range(m, first_page(m, start),
				 last_page(m, end - 1));
}

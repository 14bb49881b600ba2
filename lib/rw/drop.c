// SPDX-License-Identifier: MIT
/*
 * drop: folios of a mapping go: clean ones, all of them, what was read once, and
 * data that is given up (R15).
 */
#include "mm/writeback.h"
#include "rw/rw.h"

void mapping_for_each_folio(struct mapping *m, pgoff_t first, pgoff_t last,
			    void (*fn)(struct folio *f, void *arg), void *arg)
{
	struct dbh_engine *e = m->engine;
	pgoff_t index = first;

	while (index <= last && (index = node_next(m, index)) <= last &&
	       index != UINT64_MAX) {
		struct folio *f = mapping_lookup(m, index);
		struct thread_waiter tw;

		if (!f) {
			index++;
			continue;
		}
		folio_lock(e, f);
		if (!folio_is(f, m, index)) {
			folio_unlock(e, f);
			continue;
		}
		if (f->flags & FOLIO_WRITEBACK) {
			thread_waiter_init(&tw);
			folio_wait_writeback(e, f, &tw.w);
			folio_unlock(e, f);
			thread_waiter_sleep(&tw);
			continue;
		}
		index = f->index + folio_pages(f);
		fn(f, arg);
		if (!index)
			return;
	}
}

static void drop_clean(struct folio *f, void *arg)
{
	if (f->flags & FOLIO_DIRTY)
		folio_unlock(arg, f);
	else
		folio_drop(arg, f);
}

void mapping_drop_clean_range(struct mapping *m, pgoff_t first, pgoff_t last)
{
	mapping_for_each_folio(m, first, last, drop_clean, m->engine);
}

void mapping_drop_clean(struct mapping *m)
{
	mapping_drop_clean_range(m, 0, UINT64_MAX);
	mapping_free_ghosts(m);
}

static void discard(struct folio *f, void *arg)
{
	folio_discard(arg, f);
}

void mapping_discard_all(struct mapping *m)
{
	iolock_exclusive(&m->io_lock);
	mapping_for_each_folio(m, 0, UINT64_MAX, discard, m->engine);
	iolock_unexclusive(&m->io_lock);
}

static void drop_once(struct folio *f, void *arg)
{
	struct dbh_engine *e = arg;

	if ((f->flags & FOLIO_READ_ONCE) &&
	    !(f->flags & (FOLIO_DIRTY | FOLIO_EDGE)))
		folio_drop(e, f);
	else
		folio_unlock(e, f);
}

void mapping_drop_once(struct mapping *m)
{
	mapping_for_each_folio(m, 0, UINT64_MAX, drop_once, m->engine);
}

struct discard_failed {
	struct dbh_engine *e;
	uint64_t end; /* of the dirty data that stays */
};

static void discard_failed(struct folio *f, void *arg)
{
	struct discard_failed *df = arg;

	if ((f->flags & (FOLIO_DIRTY | FOLIO_FAILED)) ==
	    (FOLIO_DIRTY | FOLIO_FAILED)) {
		folio_discard(df->e, f);
		return;
	}
	if (f->flags & FOLIO_DIRTY)
		df->end = folio_pos(f) + folio_bytes(f);
	folio_unlock(df->e, f);
}

void mapping_discard_failed(struct mapping *m)
{
	struct discard_failed df = { .e = m->engine };
	uint64_t size;

	iolock_exclusive(&m->io_lock);
	mapping_for_each_folio(m, 0, UINT64_MAX, discard_failed, &df);
	/* As if the lost bytes had not been written: the file ends where the
	 * store or what is left ends. */
	mutex_lock(&m->size_lock);
	size = MAX(atomic_load(&m->disk_size), df.end);
	if (size < i_size_read(m))
		atomic_store(&m->i_size, size);
	mutex_unlock(&m->size_lock);
	iolock_unexclusive(&m->io_lock);
}

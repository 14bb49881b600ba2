// SPDX-License-Identifier: MIT
/*
 * truncate: the size changes, folios go (R24); and giving data up (R15).
 *
 * The io_lock is held alone, so that no read or write is under way; the
 * flusher and the ends of bios are, and are waited for.
 */
#include <errno.h>
#include <string.h>

#include "mm/writeback.h"
#include "rw/owner.h"
#include "rw/rw.h"

/* ---- dropping -------------------------------------------------------- */

/* Call @fn on every folio from page @first on, locked and not under writeback;
 * it unlocks or drops it. */
static void for_each_folio(struct mapping *m, pgoff_t first,
			   void (*fn)(struct folio *f, void *arg), void *arg)
{
	struct dbh_engine *e = m->engine;
	pgoff_t index = first;

	while ((index = node_next(m, index)) != UINT64_MAX) {
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

void mapping_drop_clean(struct mapping *m)
{
	for_each_folio(m, 0, drop_clean, m->engine);
	mapping_free_ghosts(m);
}

static void discard(struct folio *f, void *arg)
{
	folio_discard(arg, f);
}

void mapping_discard_all(struct mapping *m)
{
	iolock_exclusive(&m->io_lock);
	for_each_folio(m, 0, discard, m->engine);
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
	for_each_folio(m, 0, drop_once, m->engine);
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
	for_each_folio(m, 0, discard_failed, &df);
	/* As if the lost bytes had not been written: the file ends where the
	 * store or what is left ends. */
	mutex_lock(&m->size_lock);
	size = MAX(atomic_load(&m->disk_size), df.end);
	if (size < i_size_read(m))
		atomic_store(&m->i_size, size);
	mutex_unlock(&m->size_lock);
	iolock_unexclusive(&m->io_lock);
}

/* ---- truncate -------------------------------------------------------- */

/* The new end lies inside this locked folio: what is behind it is zero, and
 * covered no more. Unlocks it. */
static void clip_end_block(struct folio *f, uint64_t size)
{
	struct dbh_engine *e = f->mapping->engine;
	unsigned bytes = (unsigned)folio_bytes(f);
	unsigned keep = (unsigned)(size - folio_pos(f));

	memset(folio_data(&e->pool, f) + keep, 0, bytes - keep);
	if (f->flags & FOLIO_EDGE) {
		coverage_clip(&f->cov, bytes, keep);
	} else if (f->flags & (FOLIO_DROPBEHIND | FOLIO_COMPLETE)) {
		/* The block of the end is whole no more (R16). */
		f->flags &= ~(FOLIO_COMPLETE | FOLIO_DEFERRED);
		coverage_init(&f->cov);
		coverage_add(&f->cov, bytes, 0, keep);
		folio_change_flags(f, FOLIO_EDGE, FOLIO_DROPBEHIND);
		lru_move(e, f, FOLIO_ON_EDGES);
	}
	folio_unlock(e, f);
}

static void truncate_folio(struct folio *f, void *arg)
{
	struct mapping *m = f->mapping;
	uint64_t size = *(uint64_t *)arg;

	if (folio_pos(f) >= size) {
		folio_discard(m->engine, f);
		return;
	}
	if (folio_pos(f) + folio_bytes(f) <= size) {
		folio_unlock(m->engine, f);
		return;
	}
	if (f->order > m->min_order) {
		/* Its parts come by again, but for the one that holds the
		 * end. */
		f = folio_split(f, size >> PAGE_SHIFT, m->min_order);
		if (folio_pos(f) >= size) {
			folio_discard(m->engine, f);
			return;
		}
	}
	clip_end_block(f, size);
}

static int shrink(struct mapping *m, uint64_t old, uint64_t size)
{
	int err = 0;

	/* Before the size: pairs with write_all_of_round() in sync.c. */
	atomic_store(&m->shrinking, true);
	mutex_lock(&m->size_lock);
	/* From here on nothing behind it starts to the disk. */
	atomic_store(&m->i_size, size);
	mutex_unlock(&m->size_lock);
	writeback_wait(m, size >> PAGE_SHIFT, UINT64_MAX >> PAGE_SHIFT);
	mutex_lock(&m->size_lock);
	/* Not only down: where the new end lies in a hole that was never
	 * written, nothing else would bring the file on disk to its size. */
	if (atomic_load(&m->disk_size) != size) {
		disk_bound_raise(m, size);
		err = m->store->ops->truncate(m->store, size);
		if (!err)
			atomic_store(&m->disk_size, size);
	}
	if (!err)
		atomic_store(&m->disk_bound, size);
	if (err) {
		atomic_store(&m->i_size, old);
		atomic_fetch_add(&m->shrinks_failed, 1);
	}
	mutex_unlock(&m->size_lock);
	atomic_store(&m->shrinking, false);
	if (err)
		return err;
	/* Twice: a large folio that was split leaves parts behind the end. */
	for (int i = 0; i < 2; i++)
		for_each_folio(m, size >> PAGE_SHIFT, truncate_folio, &size);
	return 0;
}

static int extend(struct mapping *m, uint64_t size)
{
	int err;

	/* At once, since only the store knows whether it may. The size first:
	 * the file on disk never ends beyond it (R16). */
	mutex_lock(&m->size_lock);
	disk_bound_raise(m, size);
	err = m->store->ops->truncate(m->store, size);
	if (!err) {
		atomic_store(&m->disk_size, size);
		atomic_store(&m->i_size, size);
	}
	mutex_unlock(&m->size_lock);
	return err;
}

int file_truncate(struct dbh_file *file, uint64_t size)
{
	struct mapping *m = file->m;
	size_t grow;
	uint64_t old;
	int err = 0;

	iolock_exclusive(&m->io_lock);
	if (mapping_shared(m))
		owner_read_size(m);
	old = i_size_read(m);
	if (size > old) {
		grow = size - old;
		err = write_check_limit(m, old, &grow);
		if (!err && grow < size - old)
			err = write_check_limit(m, old + grow, &grow);
		if (!err)
			err = extend(m, size);
	} else if (size < old) {
		err = shrink(m, old, size);
	}
	if (!err)
		atomic_store(&m->mtime_pending, true);
	iolock_unexclusive(&m->io_lock);
	return err;
}

// SPDX-License-Identifier: MIT
/*
 * truncate: the size changes, folios go (R24).
 *
 * The io_lock is held alone, so that no read or write is under way; the
 * flusher and the ends of bios are, and are waited for.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "mm/writeback.h"
#include "rw/owner.h"
#include "rw/rw.h"

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

	/* Before the size: pairs with write_all_of_round() in group_commit.c. */
	atomic_fetch_add(&m->hide_seq, 1);
	mutex_lock(&m->size_lock);
	/* From here on nothing behind it starts to the disk. */
	atomic_store(&m->i_size, size);
	mutex_unlock(&m->size_lock);
	writeback_wait(m, size >> PAGE_SHIFT, UINT64_MAX >> PAGE_SHIFT);
	mutex_lock(&m->size_lock);
	/* Not only down: where the new end lies in a hole that was never
	 * written, nothing else would bring the file on disk to its size. */
	disk_bound_raise(m, size);
	err = m->store->ops->truncate(m->store, size);
	if (!err) {
		atomic_store(&m->disk_size, size);
		atomic_store(&m->disk_bound, size);
	} else {
		atomic_store(&m->i_size, old);
	}
	mutex_unlock(&m->size_lock);
	atomic_fetch_add(&m->hide_seq, 1);
	if (err)
		return err;
	/* Twice: a large folio that was split leaves parts behind the end. */
	for (int i = 0; i < 2; i++)
		mapping_for_each_folio(m, size >> PAGE_SHIFT, UINT64_MAX,
				       truncate_folio, &size);
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

/* What fallocate(2) has allocated behind the end goes. */
static int trim(struct mapping *m)
{
	int err;

	mutex_lock(&m->size_lock);
	err = disk_size_catch_up_locked(m);
	if (!err)
		err = m->store->ops->truncate(m->store, i_size_read(m));
	mutex_unlock(&m->size_lock);
	return err;
}

int size_check_limit(struct mapping *m, uint64_t size)
{
	struct rlimit rl;

	if (size <= i_size_read(m))
		return 0;
	if (!getrlimit(RLIMIT_FSIZE, &rl) && rl.rlim_cur != RLIM_INFINITY &&
	    size > rl.rlim_cur) {
		raise(SIGXFSZ);
		return -EFBIG;
	}
	return size > m->store->max_bytes ? -EFBIG : 0;
}

static int truncate_locked(struct mapping *m, uint64_t size)
{
	uint64_t old = i_size_read(m);
	int err;

	if (size < old)
		err = shrink(m, old, size);
	else if (size == old)
		err = trim(m);
	else
		err = size_check_limit(m, size);
	if (!err && size > old)
		err = extend(m, size);
	if (!err)
		atomic_store(&m->mtime_pending, true);
	return err;
}

int file_truncate(struct dbh_file *file, uint64_t size)
{
	struct mapping *m = file->m;
	int err;

	mapping_lock_alone(m);
	err = truncate_locked(m, size);
	iolock_unexclusive(&m->io_lock);
	return err;
}

int file_grow(struct dbh_file *file, uint64_t size)
{
	struct mapping *m = file->m;
	int err = 0;

	mapping_lock_alone(m);
	if (size > i_size_read(m))
		err = truncate_locked(m, size);
	iolock_unexclusive(&m->io_lock);
	return err;
}

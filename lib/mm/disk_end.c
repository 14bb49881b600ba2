// SPDX-License-Identifier: MIT
/*
 * disk_end: where the file ends on disk, and the block that holds its end
 * (R16).
 *
 * The on-disk end moves under size_lock, which comes before folio locks: no
 * holder of a folio lock takes it. It is raised by ftruncate to the last whole
 * block of the logical size before bios go beyond it, so that several of them
 * can be under way: extending writes would be done one by one. Never beyond
 * the logical end; and while it lies inside a block, that block is rewritten
 * whole first.
 */
#include "mm/writeback.h"

#include "base/clock.h"
#include "mm/filemap.h"

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
	int err;

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
	bio_start_io_acct(m, bio);
	bio_submit(bio);
	err = batch_wait(&batch);
	bio_end_io_acct(m, bio);
	return err;
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
	folio_clear_failed(f);
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
	struct fill *fill = fill_get_wait(m->wb);
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
	fill_put(m->wb, fill);
	if (locked)
		end_block_written(f, err);
	return err;
}

/* Others may have written the file on: what is to extend it must not cut it
 * (R22). */
static void disk_size_look_locked(struct mapping *m)
{
	struct stat st;

	if (likely(mapping_owner(m) == OWNER_OWNED) ||
	    m->store->ops->stat(m->store, &st) ||
	    (uint64_t)st.st_size <= atomic_load(&m->disk_size))
		return;
	disk_bound_raise(m, (uint64_t)st.st_size);
	atomic_store(&m->disk_size, (uint64_t)st.st_size);
}

int disk_size_extend_locked(struct mapping *m, uint64_t end)
{
	uint64_t min = min_folio_bytes(m), size, pos;
	int err;

	disk_size_look_locked(m);
	size = atomic_load(&m->disk_size);
	pos = ALIGN_DOWN(size, min);
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

int disk_size_catch_up_locked(struct mapping *m)
{
	uint64_t size = i_size_read(m);
	int err;

	assert_held(&m->size_lock);
	disk_size_look_locked(m);
	if (atomic_load(&m->disk_size) >= size)
		return 0;
	disk_bound_raise(m, size);
	err = m->store->ops->truncate(m->store, size);
	if (!err)
		atomic_store(&m->disk_size, size);
	return err;
}

void disk_end_look_locked(struct mapping *m, bool failed)
{
	const struct store_ops *ops = m->store->ops;
	uint64_t size = i_size_read(m);
	struct stat st;

	assert_held(&m->size_lock);
	if (ops->stat(m->store, &st))
		return;
	if (failed && (uint64_t)st.st_size > size &&
	    mapping_owner(m) == OWNER_OWNED &&
	    !ops->truncate(m->store, size))
		st.st_size = (off_t)size;
	/* Nobody else moves it: exact. */
	atomic_store(&m->disk_bound, (uint64_t)st.st_size);
	atomic_store(&m->disk_size, (uint64_t)st.st_size);
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
		folio_set_failed(f);
		folio_unlock(m->engine, f);
	}
	return err;
}

static int writeback_tail_locked(struct mapping *m, uint64_t *out)
{
	struct dbh_engine *e = m->engine;
	struct folio *f;
	uint64_t size, pos, start_ns;
	uint32_t len;
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
	len = (uint32_t)(size - pos);
	start_ns = clock_ns();
	io_start_acct(m, BIO_WRITE, pos, len);
	wb_io_begin(m->wb);
	err = m->store->ops->write_tail(m->store, folio_data(&e->pool, f), len,
					pos);
	io_end_acct(m, BIO_WRITE, pos, len, err, start_ns);
	if (err)
		writeback_failed(m, err);
	if (!err && atomic_load(&m->disk_size) < size)
		atomic_store(&m->disk_size, size);
	folio_lock(e, f);
	folio_change_flags(f, err ? FOLIO_DIRTY : 0, FOLIO_WRITEBACK);
	if (err)
		folio_set_failed(f);
	else
		folio_clear_failed(f);
	folio_wake_writeback(e, f);
	/* Marked only if it was evicted; else it stays until it is whole. */
	if (!err && (f->flags & FOLIO_DROPBEHIND))
		folio_drop(e, f);
	else
		folio_unlock(e, f);
	wb_io_end(m->wb, err ? 0 : (long)(min_folio_bytes(m) / PAGE_BYTES));
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

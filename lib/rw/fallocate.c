// SPDX-License-Identifier: MIT
/*
 * fallocate: space is allocated, bytes become zero, bytes move (R24).
 *
 * The io_lock is held alone. What is allocated or unshared changes no byte: the
 * cache stays as it is, and dirty data goes where it would have gone. What
 * becomes zero is hidden from writeback meanwhile, and dropped afterwards; it
 * is not written first. Where bytes move, everything from the range on is
 * written and dropped before.
 *
 * The store knows the size that the file has on disk, and goes by that; so it
 * is brought to the logical end first, where it matters.
 */
#include <errno.h>
#include <fcntl.h>

#include "block/extents.h"
#include "mm/writeback.h"
#include "rw/owner.h"
#include "rw/rw.h"

/* What a mode does to the bytes of the range. */
enum effect {
	EFFECT_NONE,
	EFFECT_ZERO,
	EFFECT_MOVE,
};

/* As vfs_fallocate() has it. Return: enum effect or -errno */
static int mode_effect(int mode)
{
	bool keep = mode & FALLOC_FL_KEEP_SIZE;

	switch (mode & ~FALLOC_FL_KEEP_SIZE) {
	case 0:
	case FALLOC_FL_UNSHARE_RANGE:
		return EFFECT_NONE;
	case FALLOC_FL_ZERO_RANGE:
		return EFFECT_ZERO;
	case FALLOC_FL_PUNCH_HOLE:
		return keep ? EFFECT_ZERO : -EOPNOTSUPP;
	case FALLOC_FL_WRITE_ZEROES:
		return keep ? -EOPNOTSUPP : EFFECT_ZERO;
	case FALLOC_FL_COLLAPSE_RANGE:
	case FALLOC_FL_INSERT_RANGE:
		return keep ? -EOPNOTSUPP : EFFECT_MOVE;
	default:
		return -EOPNOTSUPP;
	}
}

static int check_arguments(const struct dbh_file *file, int mode, off_t off,
			   off_t len)
{
	int effect = mode_effect(mode);

	if (off < 0 || len <= 0)
		return -EINVAL;
	if (effect < 0)
		return effect;
	if ((file->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	if (len > INT64_MAX - off ||
	    (uint64_t)(off + len) > file->m->store->max_bytes)
		return -EFBIG;
	return effect;
}

/* Call the store, with the end that the file will have. */
static int call_store_locked(struct mapping *m, int mode, uint64_t start,
			     uint64_t end, uint64_t size)
{
	int err;

	disk_bound_raise(m, size);
	err = m->store->ops->fallocate(m->store, mode, start, end - start);
	disk_end_look_locked(m, err);
	if (!err)
		atomic_store_explicit(&m->i_size, size, memory_order_release);
	return err;
}

/* What the file's size becomes. */
static uint64_t new_size(struct mapping *m, int mode, uint64_t end)
{
	uint64_t size = i_size_read(m);

	return mode & FALLOC_FL_KEEP_SIZE ? size : MAX(size, end);
}

/* ---- without effect on the bytes -------------------------------------- */

static int allocate(struct mapping *m, int mode, uint64_t start, uint64_t end)
{
	int err;

	mutex_lock(&m->size_lock);
	err = call_store_locked(m, mode, start, end, new_size(m, mode, end));
	mutex_unlock(&m->size_lock);
	return err;
}

/* ---- bytes that become zero ------------------------------------------- */

/* Folios that would have brought the file on disk to its end are dropped. */
static int reach(struct mapping *m, uint64_t end)
{
	return atomic_load(&m->disk_size) < end ? disk_size_catch_up_locked(m) :
						  0;
}

static int zero(struct mapping *m, int mode, uint64_t start, uint64_t end)
{
	uint64_t old = i_size_read(m);
	int err;

	hide_begin(m, start, end);
	err = reach(m, MIN(end, old));
	if (!err)
		err = call_store_locked(m, mode, start, end,
					new_size(m, mode, end));
	if (!err)
		hide_zero(m, start, end, old);
	else
		hide_failed(m, start, end, err);
	hide_end(m);
	return err;
}

/* ---- bytes that move --------------------------------------------------- */

/* Everything from @start on is in the store, and nothing of it here. */
static int write_and_drop(struct mapping *m, uint64_t start)
{
	pgoff_t first = first_page(m, start);
	int err = mapping_write_bytes(m, start, UINT64_MAX);

	if (err)
		return err;
	mapping_drop_clean_range(m, first, UINT64_MAX);
	/* A writeback that was under way beside ours has failed. */
	return mapping_next_dirty(m, first) == UINT64_MAX ? 0 : -EIO;
}

static int move(struct mapping *m, int mode, uint64_t start, uint64_t end)
{
	uint64_t size = i_size_read(m), len = end - start;
	int err;

	/* Too much, either way, is the store's to refuse. */
	if (mode & FALLOC_FL_INSERT_RANGE)
		size += len;
	else
		size -= MIN(size, len);
	err = write_and_drop(m, start);
	if (err)
		return err;
	mutex_lock(&m->size_lock);
	err = disk_size_catch_up_locked(m);
	if (!err)
		err = call_store_locked(m, mode, start, end, size);
	mutex_unlock(&m->size_lock);
	mapping_free_ghosts(m);
	return err;
}

/* ---- all --------------------------------------------------------------- */

static int fallocate_locked(struct mapping *m, int mode, uint64_t start,
			    uint64_t end)
{
	int effect = mode_effect(mode);
	int err = 0;

	if (effect == EFFECT_MOVE)
		err = move(m, mode, start, end);
	else if (!(mode & FALLOC_FL_KEEP_SIZE))
		err = size_check_limit(m, end);
	if (!err && effect == EFFECT_ZERO)
		err = zero(m, mode, start, end);
	if (!err && effect == EFFECT_NONE)
		err = allocate(m, mode, start, end);
	if (!err)
		atomic_store(&m->mtime_pending, true);
	/* Others may have changed the size meanwhile. */
	if (mapping_owner(m) != OWNER_OWNED)
		owner_read_size(m);
	return err;
}

int file_fallocate(struct dbh_file *file, int mode, off_t off, off_t len)
{
	struct mapping *m = file->m;
	int err = check_arguments(file, mode, off, len);

	if (err < 0)
		return err;
	mapping_lock_alone(m);
	err = fallocate_locked(m, mode, (uint64_t)off, (uint64_t)(off + len));
	iolock_unexclusive(&m->io_lock);
	if (!err && (file->flags & O_DSYNC))
		err = file_sync(file, (uint64_t)off, (uint64_t)(off + len - 1),
				(file->flags & O_SYNC) != O_SYNC);
	return err;
}

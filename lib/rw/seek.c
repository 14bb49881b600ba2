// SPDX-License-Identifier: MIT
/*
 * seek: where a file has data, and where holes.
 *
 * Data is what the store has, and what is dirty. The cache is asked first and
 * the store afterwards: what the cache had ceased to have by then, the store
 * has got. The other way round, data that is written between the two would look
 * like a hole.
 */
#include <errno.h>
#include <unistd.h>

#include "rw/rw.h"

static uint64_t to_bytes(pgoff_t index)
{
	return index == UINT64_MAX ? UINT64_MAX : index << PAGE_SHIFT;
}

/* At or after @pos; @size if there is none. */
static int next_data(struct mapping *m, uint64_t pos, uint64_t size,
		     uint64_t *out)
{
	uint64_t dirty = to_bytes(mapping_next_dirty(m, pos >> PAGE_SHIFT));
	uint64_t there = size;
	int err = m->store->ops->seek(m->store, SEEK_DATA, pos, &there);

	if (err && err != -ENXIO)
		return err;
	*out = MIN(MIN(MAX(dirty, pos), there), size);
	return 0;
}

/* The store has nothing from @pos on; it may do so inside a block, at its end:
 * the rest of that block is data as soon as the file goes on. */
static uint64_t round_end(struct mapping *m, uint64_t pos)
{
	return pos == atomic_load(&m->disk_size) ?
		       ALIGN_UP(pos, min_folio_bytes(m)) :
		       pos;
}

static int next_hole(struct mapping *m, uint64_t pos, uint64_t size,
		     uint64_t *out)
{
	while (pos < size) {
		uint64_t clean, there = pos;
		int err;

		clean = to_bytes(mapping_next_clean(m, pos >> PAGE_SHIFT));
		if (clean > pos) {
			pos = clean;
			continue;
		}
		err = m->store->ops->seek(m->store, SEEK_HOLE, pos, &there);
		if (err && err != -ENXIO)
			return err;
		if (there == pos)
			break;
		/* What the cache had there when it was asked is not known. */
		pos = round_end(m, there);
	}
	*out = MIN(pos, size);
	return 0;
}

off_t file_seek(struct dbh_file *file, off_t off, int whence)
{
	struct mapping *m = file->m;
	uint64_t pos = (uint64_t)off, size, at;
	int slot, err;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	slot = mapping_lock_shared(m);
	size = i_size_read(m);
	if (off < 0 || pos >= size)
		err = -ENXIO;
	else if (whence == SEEK_DATA)
		err = next_data(m, pos, size, &at);
	else
		err = next_hole(m, pos, size, &at);
	iolock_unshared(&m->io_lock, slot);
	if (err)
		return err;
	return whence == SEEK_DATA && at == size ? -ENXIO : (off_t)at;
}

// SPDX-License-Identifier: MIT
/*
 * lent: folios that a front end fills by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "mm/space.h"
#include "rw/rw.h"

/**
 * struct dbh_write - folios lent
 * @slot: of the io_lock, held shared until the end
 * @lent: bytes that the caller's vectors name
 */
struct dbh_write {
	struct dbh_file *file;
	unsigned flags;
	int slot;
	size_t lent;
	struct folio_batch batch;
};

#define LENT_FLAGS (DBH_DONTCACHE | DBH_DEFER | DBH_NOWAIT)

/* Sleeps if there is a waiter. */
static int lent_admitted(struct mapping *m, uint64_t pos, struct waiter *w)
{
	enum admission is;
	bool written = false;
	int err = 0;

	while ((is = write_admit(m, pos, written, &err)) ==
	       ADMIT_WHEN_WRITTEN) {
		if (!w)
			return -EAGAIN;
		mapping_write_known(m);
		written = true;
	}
	return is == ADMIT ? 0 : err;
}

static int lent_lock(struct dbh_write *wr, uint64_t pos, size_t len,
		     struct waiter *w)
{
	struct mapping *m = wr->file->m;
	int err = iolock_shared(&m->io_lock, w);

	if (err < 0)
		return err;
	wr->slot = err;
	err = write_check_limit(m, pos, &len);
	if (!err && mapping_shared(m))
		err = w ? shared_write_out(m, pos, len) : -EAGAIN;
	if (!err)
		err = lent_admitted(m, pos, w);
	if (!err)
		err = filemap_write_begin(m, &wr->batch, pos, len,
					  wr->flags | FILEMAP_LENT, w);
	if (err)
		iolock_unshared(&m->io_lock, wr->slot);
	return err;
}

/* Trim the batch to what the caller's vectors can name. */
static int lent_vectors(struct dbh_write *wr, struct iovec *iov, int max)
{
	struct folio_batch *b = &wr->batch;
	int cnt = 0;

	for (unsigned i = 0; i < b->nr && cnt < max; i++)
		iov[cnt++] = folio_batch_vec(wr->file->m, b, i);
	return cnt;
}

ssize_t lent_begin(struct dbh_file *file, off_t off, size_t len, unsigned flags,
		   struct iovec *iov, int *cnt, struct dbh_write **out)
{
	struct thread_waiter tw;
	struct dbh_write *wr;
	ssize_t lent = 0;
	int err, used;

	if (flags & ~LENT_FLAGS)
		return -EOPNOTSUPP;
	if (off < 0 || *cnt < 1 || !len ||
	    ((flags & DBH_DEFER) && !(flags & DBH_DONTCACHE)))
		return -EINVAL;
	if ((file->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	wr = malloc(sizeof(*wr));
	if (!wr)
		return -ENOMEM;
	wr->file = file;
	wr->flags = flags;
	thread_waiter_init(&tw);
	while ((err = lent_lock(
			wr, (uint64_t)off, MIN(len, (size_t)RW_MAX_BYTES),
			flags & DBH_NOWAIT ? NULL : &tw.w)) == -EIOCBQUEUED) {
		thread_waiter_sleep(&tw);
		throttle_end(file->m->engine, &tw.w);
	}
	if (err) {
		free(wr);
		return err;
	}
	used = lent_vectors(wr, iov, *cnt);
	for (int i = 0; i < used; i++)
		lent += (ssize_t)iov[i].iov_len;
	wr->lent = (size_t)lent;
	*cnt = used;
	*out = wr;
	return lent;
}

/* Others have the file open: the bytes go there, and no folio keeps them. */
static ssize_t lent_through(struct dbh_write *wr, size_t written)
{
	struct iovec iov[FOLIO_BATCH_MAX];
	struct iov_part part = {
		.iov = iov,
		.cnt = lent_vectors(wr, iov, FOLIO_BATCH_MAX),
		.len = written,
	};

	return shared_write(wr->file->m, &part, wr->batch.pos, false);
}

ssize_t lent_end(struct dbh_write *wr, size_t written)
{
	struct mapping *m = wr->file->m;
	ssize_t res = (ssize_t)written;
	uint64_t pos = wr->batch.pos;
	bool breaking;

	if (!*m->engine->fork_mark)
		return -EPERM; /* a forked child (R25) */
	if (written > wr->lent) {
		written = 0;
		res = -EINVAL;
	}
	if (mapping_shared(m) && written) {
		res = lent_through(wr, written);
		written = 0;
	}
	filemap_write_end(m, &wr->batch, written, wr->flags);
	if (res > 0)
		atomic_store(&m->mtime_pending, true);
	breaking = mapping_owner(m) == OWNER_BREAKING;
	iolock_unshared(&m->io_lock, wr->slot);
	/* As in request_sync(). */
	if (breaking && written)
		mapping_write_bytes(m, pos, pos + written - 1);
	free(wr);
	return res;
}

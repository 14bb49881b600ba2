// SPDX-License-Identifier: MIT
/*
 * shared: reads and writes of a file that other programs have open (R22).
 *
 * They go through the kernel's cache, exact to the byte, and nothing is kept:
 * what a write has returned for, others see, and a read sees what they have
 * written. The file has the only true size.
 *
 * Folios are there for one reason only: their data could not be written (R15).
 * It is newer than the file, so a read takes it from there, and a write over
 * it must first get it out of the way. The flusher goes on trying, and may
 * leave clean folios, which are old as soon as they are clean.
 */
#include <errno.h>

#include "base/clock.h"
#include "mm/filemap.h"
#include "rw/rw.h"

static bool has_leftovers(struct mapping *m)
{
	return unlikely(node_next(m, 0) != UINT64_MAX);
}

int shared_write_out(struct mapping *m, uint64_t pos, size_t len)
{
	int err;

	if (!has_leftovers(m) || !len)
		return 0;
	err = mapping_write_bytes(m, pos, pos + len - 1);
	mapping_drop_clean(m);
	return err;
}

ssize_t shared_write(struct mapping *m, const struct iov_part *part,
		     uint64_t pos, bool append)
{
	const struct store_lease_ops *ops = m->store->ops->lease;
	uint64_t start = clock_ns();
	ssize_t n;

	io_start_acct(m, BIO_WRITE, pos, (uint32_t)part->len);
	n = append ? ops->append(m->store, part) :
		     ops->write(m->store, part, pos);
	io_end_acct(m, BIO_WRITE, pos, (uint32_t)part->len,
		    n < 0 ? (int)n : 0, start);
	return n;
}

/* What could not be written of page @index is here. What lies there clean goes. */
static bool is_leftover(struct mapping *m, pgoff_t index)
{
	struct dbh_engine *e = m->engine;
	struct folio *f = mapping_lookup(m, index);
	bool left;

	if (!f)
		return false;
	folio_lock(e, f);
	left = folio_is(f, m, index) &&
	       (f->flags & (FOLIO_DIRTY | FOLIO_WRITEBACK));
	if (folio_is(f, m, index) && !left)
		folio_drop(e, f);
	else
		folio_unlock(e, f);
	return left;
}

/* How much of [@pos, @pos + @len) can be read at once from the file. */
static size_t piece(struct mapping *m, uint64_t pos, size_t len)
{
	uint64_t page = ALIGN_DOWN(pos, PAGE_BYTES) + PAGE_BYTES;

	return has_leftovers(m) ? MIN(len, (size_t)(page - pos)) : len;
}

static int read_piece_through(struct request *req)
{
	struct mapping *m = req->file->m;
	struct iov_part part = {
		.iov = req->iov,
		.cnt = req->cnt,
		.skip = req->iov_off,
		.len = piece(m, req->pos, req->left),
	};
	uint64_t start = clock_ns();
	ssize_t n;

	io_start_acct(m, BIO_READ, req->pos, (uint32_t)part.len);
	n = m->store->ops->lease->read(m->store, &part, req->pos);
	io_end_acct(m, BIO_READ, req->pos, (uint32_t)part.len,
		    n < 0 ? (int)n : 0, start);
	if (n <= 0) {
		req->left = 0;
		return (int)n;
	}
	request_skip(req, (size_t)n);
	return 0;
}

int request_read_shared(struct request *req)
{
	struct mapping *m = req->file->m;
	int err = 0;

	while (!err && req->left) {
		if (is_leftover(m, req->pos >> PAGE_SHIFT))
			err = read_piece(req);
		else
			err = read_piece_through(req);
	}
	return err;
}

int request_write_shared(struct request *req)
{
	struct mapping *m = req->file->m;
	struct iov_part part = {
		.iov = req->iov,
		.cnt = req->cnt,
		.skip = req->iov_off,
		.len = req->left,
	};
	ssize_t n = shared_write_out(m, req->pos, req->left);

	if (!n)
		n = shared_write(m, &part, req->pos, req->flags & DBH_APPEND);
	req->left = 0;
	if (n < 0)
		return (int)n;
	request_skip(req, (size_t)n);
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * copy: bytes from one file to another, or within one.
 *
 * Where both lie alike on whole blocks, and the file system can, the target
 * shares the source's blocks. Else bytes are read and written as any caller
 * would, uncached; and where the source has a hole, the target gets one. Like
 * the system call it copies piece by piece, and what it has copied when it
 * meets an error is what it returns.
 *
 * To share, the source's range is written back, with its io_lock held shared,
 * and the target's is hidden, as fallocate does (hide.c). The two io_locks are
 * taken in the order of their addresses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "mm/writeback.h"
#include "rw/owner.h"
#include "rw/rw.h"

#define COPY_BYTES (256u << 10)

/**
 * struct copy - one call
 * @from, @to, @left: where to go on, and how much
 * @no_share, @no_punch: it was tried in vain
 * @is_hole: what the source has up to @extent_end
 * @buf: COPY_BYTES, at first need
 */
struct copy {
	struct dbh_file *in, *out;
	uint64_t from, to;
	size_t left, done;
	bool no_share, no_punch;
	bool is_hole;
	uint64_t extent_end;
	char *buf;
};

/* ---- arguments ------------------------------------------------------- */

static bool overlaps(const struct copy *c)
{
	return c->left && c->in->m == c->out->m && c->from < c->to + c->left &&
	       c->to < c->from + c->left;
}

/* As generic_copy_file_checks() has it. What is beyond the end of the source is
 * not asked for. */
static int check(struct copy *c, off_t off_in, off_t off_out, size_t len)
{
	uint64_t size;
	int slot, err;

	if ((c->in->flags & O_ACCMODE) == O_WRONLY ||
	    (c->out->flags & O_ACCMODE) == O_RDONLY ||
	    (c->out->flags & O_APPEND))
		return -EBADF;
	if ((uint64_t)off_in > UINT64_MAX - len ||
	    (uint64_t)off_out > UINT64_MAX - len)
		return -EOVERFLOW;
	if (off_out < 0)
		return -EINVAL;
	c->from = (uint64_t)off_in;
	c->to = (uint64_t)off_out;
	slot = mapping_lock_shared(c->in->m);
	size = i_size_read(c->in->m);
	iolock_unshared(&c->in->m->io_lock, slot);
	c->left = c->from < size ? MIN(len, size - c->from) : 0;
	err = write_check_limit(c->out->m, c->to, &c->left);
	if (err)
		return err;
	c->left = MIN(c->left, (size_t)RW_MAX_BYTES);
	return off_in < 0 || overlaps(c) ? -EINVAL : 0;
}

static void advance(struct copy *c, size_t n)
{
	c->from += n;
	c->to += n;
	c->left -= n;
	c->done += n;
}

/* ---- sharing blocks --------------------------------------------------- */

static uint64_t unit(const struct copy *c)
{
	return MAX(min_folio_bytes(c->in->m), min_folio_bytes(c->out->m));
}

static bool may_share(const struct copy *c)
{
	const struct store *in = c->in->m->store, *out = c->out->m->store;

	return !c->no_share && out->ops->clone &&
	       !atomic_load(&out->no_clone) && out->ops == in->ops &&
	       out->dev == in->dev && !((c->from ^ c->to) & (unit(c) - 1));
}

/* How much from here on can be shared: whole blocks, and the end of both. */
static size_t shareable(const struct copy *c)
{
	if (!may_share(c) || (c->from & (unit(c) - 1)))
		return 0;
	if (c->from + c->left == i_size_read(c->in->m) &&
	    c->to + c->left >= i_size_read(c->out->m))
		return c->left;
	return ALIGN_DOWN(c->left, unit(c));
}

/* Return: the slot of the source's io_lock, or -1 if it is the target's too. */
static int lock_both(struct mapping *in, struct mapping *out)
{
	int slot = -1;

	if (in < out)
		slot = mapping_lock_shared(in);
	mapping_lock_alone(out);
	if (in > out)
		slot = mapping_lock_shared(in);
	return slot;
}

/* The source's bytes are in its store. Return: 0, or an error: they cannot be */
static int write_source(struct mapping *m, uint64_t from, size_t len)
{
	int err;

	if (from + len > i_size_read(m))
		return -EINVAL;
	err = mapping_write_bytes(m, from, from + len - 1);
	if (err)
		return err;
	mutex_lock(&m->size_lock);
	if (atomic_load(&m->disk_size) < from + len)
		err = disk_size_catch_up_locked(m);
	mutex_unlock(&m->size_lock);
	return err;
}

static int share_locked(struct copy *c, size_t len)
{
	struct mapping *m = c->out->m;
	uint64_t old = i_size_read(m), end = c->to + len;
	int err;

	/* As if it were refused: then it is read. */
	if (write_source(c->in->m, c->from, len))
		return -EINVAL;
	hide_begin(m, c->to, end);
	disk_bound_raise(m, end);
	err = m->store->ops->clone(m->store, c->to, c->in->m->store, c->from,
				   len);
	disk_end_look_locked(m, err);
	if (!err) {
		hide_zero(m, c->to, end, old);
		i_size_grow(m, end);
		atomic_store(&m->mtime_pending, true);
	} else {
		hide_failed(m, c->to, end, err);
	}
	hide_end(m);
	return err;
}

static bool is_refusal(int err)
{
	return err == -EOPNOTSUPP || err == -EINVAL || err == -EXDEV ||
	       err == -ETXTBSY;
}

/* Return: bytes; 0: not so; -errno */
static ssize_t share(struct copy *c, size_t len)
{
	struct mapping *in = c->in->m, *out = c->out->m;
	int slot = lock_both(in, out);
	int err = share_locked(c, len);

	if (mapping_owner(out) != OWNER_OWNED)
		owner_read_size(out);
	if (slot >= 0)
		iolock_unshared(&in->io_lock, slot);
	iolock_unexclusive(&out->io_lock);
	if (!err)
		return (ssize_t)len;
	if (err == -EOPNOTSUPP)
		atomic_store(&out->store->no_clone, true);
	c->no_share = is_refusal(err);
	return c->no_share ? 0 : err;
}

/* ---- holes ------------------------------------------------------------- */

/* What does the source have from here on, and how far? Holes of less than a
 * block of the target are none. */
static void look(struct copy *c)
{
	uint64_t end = c->from + c->left;
	off_t at;

	if (c->from < c->extent_end)
		return;
	c->is_hole = false;
	c->extent_end = end;
	at = file_seek(c->in, (off_t)c->from, SEEK_DATA);
	if (at < 0 && at != -ENXIO)
		return;
	if (at >= 0)
		end = MIN(end, (uint64_t)at);
	c->is_hole = end - c->from >= min_folio_bytes(c->out->m);
	if (!c->is_hole)
		at = file_seek(c->in, (off_t)end, SEEK_HOLE);
	else
		at = (off_t)end;
	/* Not behind us: punched just now. */
	if (at > (off_t)c->from)
		c->extent_end = MIN(c->extent_end, (uint64_t)at);
}

/* Return: bytes; 0: not so; -errno */
static ssize_t copy_hole(struct copy *c, size_t len)
{
	int err = file_fallocate(c->out,
				 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 (off_t)c->to, (off_t)len);

	if (!err)
		err = file_grow(c->out, c->to + len);
	c->no_punch = err == -EOPNOTSUPP;
	return !err ? (ssize_t)len : c->no_punch ? 0 : err;
}

/* ---- bytes ------------------------------------------------------------- */

static ssize_t transfer(struct dbh_file *file, bool write, char *buf,
			size_t len, uint64_t pos)
{
	struct iovec iov = { buf, len };
	struct request req;
	int err = request_init(&req, file, write, &iov, 1, (off_t)pos,
			       DBH_DONTCACHE);

	return err ? err : request_run(&req);
}

/* Return: bytes; 0: the source has become shorter; -errno */
static ssize_t copy_bytes(struct copy *c)
{
	size_t len = MIN(c->extent_end - c->from, (size_t)COPY_BYTES);
	ssize_t n;

	/* Up to where blocks can be shared. */
	if (may_share(c))
		len = MIN(len, unit(c) - (c->from & (unit(c) - 1)));
	if (!c->buf)
		c->buf = malloc(COPY_BYTES);
	if (!c->buf)
		return -ENOMEM;
	n = transfer(c->in, false, c->buf, len, c->from);
	return n > 0 ? transfer(c->out, true, c->buf, (size_t)n, c->to) : n;
}

static ssize_t copy_piece(struct copy *c)
{
	size_t len = shareable(c);
	ssize_t n = len ? share(c, len) : 0;

	if (n)
		return n;
	look(c);
	if (c->is_hole && !c->no_punch)
		n = copy_hole(c, c->extent_end - c->from);
	return n ? n : copy_bytes(c);
}

ssize_t file_copy_range(struct dbh_file *in, off_t off_in, struct dbh_file *out,
			off_t off_out, size_t len, unsigned flags)
{
	struct copy c = { .in = in, .out = out };
	ssize_t n = flags ? -EINVAL : check(&c, off_in, off_out, len);
	int err = 0;

	while (n >= 0 && c.left) {
		n = copy_piece(&c);
		if (n <= 0)
			break;
		advance(&c, (size_t)n);
	}
	free(c.buf);
	/* Bytes that were written were synced by that. */
	if (c.done && (out->flags & O_DSYNC))
		err = file_sync(out, (uint64_t)off_out, c.to - 1,
				(out->flags & O_SYNC) != O_SYNC);
	return err ? err : c.done ? (ssize_t)c.done : n;
}

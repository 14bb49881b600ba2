// SPDX-License-Identifier: MIT
/*
 * extents: see extents.h.
 *
 * The kernel zeroes parts of blocks, at both ends of a range and behind an end
 * of the file that moves, in its cache. Those blocks are written out and
 * dropped again, unless something of them was cached before: then they are
 * somebody's. To unshare blocks it copies them through its cache: that is done
 * in pieces, each written out and dropped before the next.
 */
#include "extents.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ioq.h"

/* ---- what is left in the kernel's cache ------------------------------ */

/* Blocks of which nothing was cached: both ends of a range, and both of a file.
 */
struct ends {
	uint64_t at[4];
	unsigned nr;
};

static void note_end(const struct extents *x, struct ends *ends, uint64_t pos)
{
	uint64_t start = pos / x->block * x->block;

	if (pos == start || x->in_memory ||
	    kcache_resident(&x->kc, start, x->block))
		return;
	ends->at[ends->nr++] = start;
}

static int drop_range(struct extents *x, uint64_t pos, uint64_t len)
{
	int err;

	if (kcache_resident(&x->kc, pos, len) <= 0)
		return 0;
	err = kcache_write_out(&x->kc, pos, len);
	if (err)
		x->lost = err;
	else
		kcache_drop(&x->kc, pos, len);
	return err;
}

static int drop_ends(struct extents *x, const struct ends *ends)
{
	int err = 0;

	for (unsigned i = 0; i < ends->nr; i++) {
		int res = drop_range(x, ends->at[i], x->block);

		err = err ? err : res;
	}
	return err;
}

/* ---- fallocate ------------------------------------------------------- */

static int call(const struct extents *x, int mode, uint64_t pos, uint64_t len)
{
	unsigned tries = 0;
	int err;

	/* Some begin anew at each signal, and a timer may send many. */
	do {
		err = fallocate(x->kc.fd, mode, (off_t)pos, (off_t)len) ?
			      -errno :
			      0;
	} while (err == -EINTR && ++tries < BIO_TRIES);
	return err;
}

/* A piece of at most BIO_MAX_BYTES. Only what was not cached before is dropped,
 * a page at a time: it may lie between those of others. */
static int unshare_piece(struct extents *x, int mode, uint64_t pos,
			 uint64_t len)
{
	unsigned char map[BIO_MAX_BYTES / KCACHE_PAGE + 1];
	uint64_t first = pos / KCACHE_PAGE, end = pos + len;
	int err, res = 0;

	if (kcache_map(&x->kc, pos, len, map) < 0)
		memset(map, 1, sizeof(map));
	err = call(x, mode, pos, len);
	for (uint64_t at = first; at * KCACHE_PAGE < end && !res; at++) {
		uint64_t from = at;

		while (at * KCACHE_PAGE < end && !map[at - first])
			at++;
		if (at > from)
			res = drop_range(x, from * KCACHE_PAGE,
					 (at - from) * KCACHE_PAGE);
	}
	return err ? err : res;
}

/* What lies behind the end of the file shares nothing, and makes it grow. */
static int unshare_range(struct extents *x, int mode, uint64_t pos,
			 uint64_t len, uint64_t size)
{
	while (pos < size && len && !x->in_memory) {
		uint64_t next = (pos / BIO_MAX_BYTES + 1) * BIO_MAX_BYTES;
		uint64_t n = next < size ? next - pos : size - pos;
		int err;

		n = n < len ? n : len;
		err = unshare_piece(x, mode, pos, n);
		if (err)
			return err;
		pos += n;
		len -= n;
	}
	return len ? call(x, mode, pos, len) : 0;
}

int extents_fallocate(struct extents *x, int mode, uint64_t pos, uint64_t len)
{
	struct ends ends = { .nr = 0 };
	struct stat st;
	int err, res;

	if (fstat(x->kc.fd, &st))
		return -errno;
	note_end(x, &ends, pos);
	note_end(x, &ends, pos + len);
	note_end(x, &ends, (uint64_t)st.st_size);
	if (mode & FALLOC_FL_UNSHARE_RANGE)
		err = unshare_range(x, mode, pos, len, (uint64_t)st.st_size);
	else
		err = call(x, mode, pos, len);
	res = drop_ends(x, &ends);
	return err ? err : res;
}

/* ---- sharing blocks --------------------------------------------------- */

int extents_clone(struct extents *x, uint64_t pos, int from_fd,
		  uint64_t from_pos, uint64_t len)
{
	struct file_clone_range range = {
		.src_fd = from_fd,
		.src_offset = from_pos,
		.src_length = len,
		.dest_offset = pos,
	};
	struct ends ends = { .nr = 0 };
	unsigned tries = 0;
	struct stat st;
	int err, res;

	if (fstat(x->kc.fd, &st))
		return -errno;
	note_end(x, &ends, (uint64_t)st.st_size);
	do {
		err = ioctl(x->kc.fd, FICLONERANGE, &range) ? -errno : 0;
	} while (err == -EINTR && ++tries < BIO_TRIES);
	if (err == -ENOTTY)
		err = -EOPNOTSUPP;
	res = drop_ends(x, &ends);
	return err ? err : res;
}

/* ---- finding ---------------------------------------------------------- */

int extents_seek(int fd, int whence, uint64_t pos, uint64_t *out)
{
	/* The descriptor's own offset, which moves, is nobody's. */
	off_t at = lseek(fd, (off_t)pos, whence);

	if (at < 0)
		return -errno;
	*out = (uint64_t)at;
	return 0;
}

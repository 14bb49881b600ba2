// SPDX-License-Identifier: MIT
/*
 * extents: fallocate, copying and looking for holes, against the array.
 *
 * A thread punches and copies bytes of its own while others write theirs beside
 * them, in the same folios. Who is alone does so anywhere, and moves bytes.
 */
#include <errno.h>
#include <fcntl.h>

#include "model.h"

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define ZERO_KEEP (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)

/* Return: false: the file system cannot. */
static bool fallocate_range(struct actor *a, int mode, size_t pos, size_t len)
{
	struct model *m = a->m;
	int err = model_fallocate(m, m->file[a->id], mode, pos, len);

	/* tmpfs punches, and no more. */
	CHECK(!err || (err == -EOPNOTSUPP && !m->spy), "%d (%s)", err,
	      strerror(-err));
	return !err;
}

/* ---- where data is ---------------------------------------------------- */

/* No byte of [@start, @end), which nobody changes, lies in a hole unless it is
 * zero. */
static void check_holes(struct actor *a, size_t start, size_t end)
{
	struct dbh_file *file = a->m->file[a->id];

	while (start < end) {
		off_t hole = dbh_lseek(file, (off_t)start, SEEK_HOLE);
		off_t data;

		CHECK(hole >= (off_t)start, "SEEK_HOLE at %zu: %lld", start,
		      (long long)hole);
		if ((size_t)hole >= end)
			return;
		data = dbh_lseek(file, hole, SEEK_DATA);
		CHECK(data == -ENXIO || data >= hole, "SEEK_DATA at %lld: %lld",
		      (long long)hole, (long long)data);
		start = data < 0 || (size_t)data > end ? end : (size_t)data;
		for (size_t i = (size_t)hole; i < start; i++)
			CHECK(!a->m->bytes[i],
			      "byte %zu lies in the hole [%lld, %lld)", i,
			      (long long)hole, (long long)data);
	}
}

void op_seek(struct actor *a)
{
	struct range r = own_range(a);
	size_t known = known_size(a);

	check_holes(a, r.start,
		    r.start + r.len < known ? r.start + r.len : known);
}

void alone_seek(struct actor *a)
{
	size_t size = a->m->size;
	off_t end = (off_t)size;

	check_holes(a, 0, size);
	CHECK_IS(dbh_lseek(a->m->file[a->id], end, SEEK_HOLE), -ENXIO);
	if (size)
		CHECK(dbh_lseek(a->m->file[a->id], end - 1, SEEK_HOLE) >=
			      end - 1,
		      "a hole before where it was asked for");
}

/* ---- fallocate -------------------------------------------------------- */

void op_punch(struct actor *a)
{
	static const int modes[] = { PUNCH, PUNCH, ZERO_KEEP,
				     FALLOC_FL_KEEP_SIZE };
	int mode = modes[rng_below(&a->rng, 4)];
	struct range r = own_range(a);

	if (fallocate_range(a, mode, r.start, r.len) &&
	    mode != FALLOC_FL_KEEP_SIZE)
		memset(a->m->bytes + r.start, 0, r.len);
}

/* Of the whole file, often from or to a border of blocks. */
static struct range any_range(struct actor *a)
{
	struct range r;

	r.len = rng_size(&a->rng, a->m->cfg.span);
	r.start = rng_below(&a->rng, a->m->cfg.span - r.len + 1);
	if (rng_chance(&a->rng, 30) && r.start % 4096 < r.len)
		r.start -= r.start % 4096;
	return r;
}

void alone_fallocate(struct actor *a)
{
	static const int modes[] = {
		0, FALLOC_FL_KEEP_SIZE, PUNCH, ZERO_KEEP, FALLOC_FL_ZERO_RANGE,
	};
	int mode = modes[rng_below(&a->rng, 5)];
	struct range r = any_range(a);
	struct model *m = a->m;

	if (!fallocate_range(a, mode, r.start, r.len))
		return;
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		memset(m->bytes + r.start, 0, r.len);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && r.start + r.len > m->size)
		m->size = r.start + r.len;
	model_settle(m);
}

static void collapse(struct actor *a, size_t pos, size_t len)
{
	struct model *m = a->m;

	if (pos + len >= m->size ||
	    !fallocate_range(a, FALLOC_FL_COLLAPSE_RANGE, pos, len))
		return;
	memmove(m->bytes + pos, m->bytes + pos + len, m->size - pos - len);
	m->size -= len;
	memset(m->bytes + m->size, 0, len);
}

static void insert(struct actor *a, size_t pos, size_t len)
{
	struct model *m = a->m;

	if (pos >= m->size || m->size + len > m->cfg.span ||
	    !fallocate_range(a, FALLOC_FL_INSERT_RANGE, pos, len))
		return;
	memmove(m->bytes + pos + len, m->bytes + pos, m->size - pos);
	memset(m->bytes + pos, 0, len);
	m->size += len;
}

void alone_move(struct actor *a)
{
	size_t block = a->m->spy ? a->m->cfg.min_folio : 4096;
	size_t blocks = a->m->size / block;
	size_t pos = rng_below(&a->rng, blocks + 1) * block;
	size_t len = rng_size(&a->rng, blocks + 1) * block;

	if (rng_chance(&a->rng, 50))
		collapse(a, pos, len);
	else
		insert(a, pos, len);
	model_settle(a->m);
}

/* ---- copying ----------------------------------------------------------- */

/* @must: so many bytes at least have to be there. */
static void copy_range(struct actor *a, size_t from, size_t to, size_t len,
		       size_t must)
{
	struct model *m = a->m;
	struct dbh_file *file = m->file[a->id];
	ssize_t n =
		dbh_copy_file_range(file, (off_t)from, file, (off_t)to, len, 0);

	CHECK(n <= (ssize_t)len, "%zd of %zu copied", n, len);
	if (n < (ssize_t)must) {
		model_failed(m, n);
		/* What came of it is not known. */
		memcpy(a->buf, m->bytes + from, len);
		model_repair(m, file, a->buf, len, to);
		n = (ssize_t)len;
	}
	memmove(m->bytes + to, m->bytes + from, (size_t)n);
	if (n)
		grew_to(a, to + (size_t)n);
}

/* Both lie alike on blocks, often: they can be shared then. */
static size_t lie_alike(struct actor *a, size_t from, size_t to)
{
	size_t block = a->m->spy ? a->m->cfg.min_folio : 4096;
	size_t off = (from - to) % block;

	return rng_chance(&a->rng, 60) && to + off < a->m->cfg.span ? to + off :
								      to;
}

void op_copy(struct actor *a)
{
	struct range from = own_range(a), to = own_range(a);
	size_t known = known_size(a), at = lie_alike(a, from.start, to.start);
	size_t end = to.start + to.len, len;

	/* It grows when somebody is alone: the store goes ahead then. */
	end = end < known ? end : known;
	if (at >= end)
		return;
	len = end - at < from.len ? end - at : from.len;
	if (from.start < at + len && at < from.start + len)
		return;
	copy_range(a, from.start, at, len,
		   from.start >= known	    ? 0 :
		   from.start + len > known ? known - from.start :
					      len);
}

void alone_copy(struct actor *a)
{
	struct range r = any_range(a);
	struct model *m = a->m;
	size_t to = lie_alike(a, r.start, rng_below(&a->rng, m->cfg.span));
	size_t size = m->size, must;

	if (r.len > m->cfg.span - to)
		r.len = m->cfg.span - to;
	must = r.start >= size	      ? 0 :
	       r.start + r.len > size ? size - r.start :
					r.len;
	if (r.start < to + must && to < r.start + must) {
		CHECK_IS(dbh_copy_file_range(m->file[a->id], (off_t)r.start,
					     m->file[a->id], (off_t)to, r.len,
					     0),
			 -EINVAL);
		return;
	}
	/* Nothing behind the end is to be copied, whatever becomes of it. */
	model_set_limit(m, m->cfg.span);
	if (must)
		copy_range(a, r.start, to, must, must);
	model_set_limit(m, 0);
	model_settle(m);
}

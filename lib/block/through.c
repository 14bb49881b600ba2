// SPDX-License-Identifier: MIT
/*
 * through: see through.h.
 */
#include "through.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "ioq.h"

/* Pages that a piece touches at most. */
#define PIECE_PAGES (BIO_MAX_BYTES / KCACHE_PAGE + 1)

/* The vectors of the next @max bytes of @part, and how many bytes they have. */
static int part_vecs(const struct iov_part *part, size_t max, struct iovec *v,
		     size_t *len)
{
	size_t skip = part->skip, left = part->len < max ? part->len : max;
	int nr = 0;

	*len = 0;
	for (int i = 0; i < part->cnt && left && nr < IOV_MAX; i++) {
		size_t n = part->iov[i].iov_len - skip;

		n = n < left ? n : left;
		if (n)
			v[nr++] = (struct iovec){
				(char *)part->iov[i].iov_base + skip, n
			};
		skip = 0;
		left -= n;
		*len += n;
	}
	return nr;
}

static void part_advance(struct iov_part *part, size_t n)
{
	part->len -= n;
	part->skip += n;
	while (part->cnt && part->skip >= part->iov->iov_len) {
		part->skip -= part->iov->iov_len;
		part->iov++;
		part->cnt--;
	}
}

/* "Not now" is waited for, as that of a bio. Return: false: give up. */
static bool try_again(ssize_t n, unsigned *tries)
{
	if (n > 0 || !bio_is_transient((int)n) || ++*tries > BIO_TRIES)
		return false;
	if (*tries > 2)
		block_sleep_us(100);
	return true;
}

/* @map: which pages of the range were cached before we came. */
static void look_before(const struct through *t, uint64_t pos, size_t len,
			unsigned char *map)
{
	if (!t->in_memory && kcache_map(&t->kc, pos, len, map) < 0)
		memset(map, 1, PIECE_PAGES);
}

static void drop_new(const struct through *t, uint64_t pos, size_t len,
		     const unsigned char *map)
{
	uint64_t first = pos / KCACHE_PAGE, end = pos + len;

	if (t->in_memory)
		return;
	for (uint64_t at = first; at * KCACHE_PAGE < end;) {
		uint64_t from = at;

		while (at * KCACHE_PAGE < end && !map[at - first])
			at++;
		if (at > from)
			kcache_drop(&t->kc, from * KCACHE_PAGE,
				    (at - from) * KCACHE_PAGE);
		else
			at++;
	}
}

static int write_out(const struct through *t, uint64_t pos, uint64_t len)
{
	return t->in_memory ? 0 : kcache_write_out(&t->kc, pos, len);
}

static ssize_t transfer(const struct through *t, struct iov_part *part,
			uint64_t pos, bool write)
{
	unsigned char map[PIECE_PAGES];
	struct iovec v[IOV_MAX];
	unsigned tries = 0;
	size_t len;
	ssize_t n;
	int err = 0, nr = part_vecs(part, BIO_MAX_BYTES, v, &len);

	look_before(t, pos, len, map);
	do {
		n = write ? pwritev(t->kc.fd, v, nr, (off_t)pos) :
			    preadv(t->kc.fd, v, nr, (off_t)pos);
		n = n < 0 ? -errno : n;
	} while (try_again(n, &tries));
	if (n > 0 && write)
		err = write_out(t, pos, (uint64_t)n);
	if (n > 0)
		drop_new(t, pos, (size_t)n, map);
	if (n > 0 && !err)
		part_advance(part, (size_t)n);
	return err ? err : n;
}

static ssize_t transfer_all(const struct through *t, struct iov_part part,
			    uint64_t pos, bool write)
{
	size_t done = 0;
	ssize_t n = 0;

	while (part.len) {
		n = transfer(t, &part, pos + done, write);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done ? (ssize_t)done : n;
}

ssize_t through_read(const struct through *t, const struct iov_part *part,
		     uint64_t pos)
{
	return transfer_all(t, *part, pos, false);
}

ssize_t through_write(const struct through *t, const struct iov_part *part,
		      uint64_t pos)
{
	return transfer_all(t, *part, pos, true);
}

/* What lies behind the old end cannot have been cached before. */
static int append_out(const struct through *t, uint64_t old, bool end_cached)
{
	uint64_t start = old;
	struct stat st;
	int err;

	if (fstat(t->kc.fd, &st) || (uint64_t)st.st_size <= old)
		return 0; /* cut by another, meanwhile */
	err = write_out(t, old, (uint64_t)st.st_size - old);
	if (end_cached)
		start = (old / KCACHE_PAGE + 1) * KCACHE_PAGE;
	if (!t->in_memory && start < (uint64_t)st.st_size)
		kcache_drop(&t->kc, start, (uint64_t)st.st_size - start);
	return err;
}

/* In one call, so that another program's appends fall before or behind it. */
ssize_t through_append(const struct through *t, const struct iov_part *part)
{
	struct iov_part left = *part;
	struct iovec v[IOV_MAX];
	unsigned tries = 0;
	bool end_cached;
	struct stat st;
	size_t len;
	ssize_t n;
	int err, nr;

	if (fstat(t->kc.fd, &st))
		return -errno;
	end_cached = !t->in_memory &&
		     kcache_resident(&t->kc, (uint64_t)st.st_size, 1) != 0;
	do {
		nr = part_vecs(&left, SIZE_MAX, v, &len);
		n = pwritev2(t->kc.fd, v, nr, 0, RWF_APPEND);
		n = n < 0 ? -errno : n;
		if (n > 0)
			part_advance(&left, (size_t)n);
	} while (n > 0 ? left.len : try_again(n, &tries));
	if (left.len == part->len)
		return n;
	err = append_out(t, (uint64_t)st.st_size, end_cached);
	return err ? err : (ssize_t)(part->len - left.len);
}

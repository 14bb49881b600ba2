// SPDX-License-Identifier: MIT
/*
 * shadow: see shadow.h.
 */
#include "shadow.h"

void shadow_up_on(struct shadow *s, struct store *store)
{
	memset(s, 0, sizeof(*s));
	rig_up(&s->rig, spy_create(store), NULL);
	/* A fallocate may go ahead of the logical size. */
	atomic_store(&s->rig.spy->size_limit, SHADOW_BYTES);
}

void shadow_up(struct shadow *s, uint32_t min_folio)
{
	struct store *store;

	CHECK_OK(store_mem_create(min_folio, 512, &store));
	shadow_up_on(s, store);
}

void shadow_write(struct shadow *s, size_t pos, size_t len, unsigned gen,
		  unsigned flags)
{
	rig_write(&s->rig, len, pos, gen, flags);
	pattern_fill(s->bytes + pos, len, pos, gen);
	s->size = MAX(s->size, pos + len);
}

void shadow_zero(struct shadow *s, int mode, size_t pos, size_t len)
{
	memset(s->bytes + pos, 0, len);
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		s->size = MAX(s->size, pos + len);
}

static void shadow_collapse(struct shadow *s, size_t pos, size_t len)
{
	memmove(s->bytes + pos, s->bytes + pos + len, s->size - pos - len);
	memset(s->bytes + s->size - len, 0, len);
	s->size -= len;
}

static void shadow_insert(struct shadow *s, size_t pos, size_t len)
{
	memmove(s->bytes + pos + len, s->bytes + pos, s->size - pos);
	memset(s->bytes + pos, 0, len);
	s->size += len;
}

void shadow_fallocate(struct shadow *s, int mode, size_t pos, size_t len)
{
	CHECK_OK(dbh_fallocate(s->rig.file, mode, (off_t)pos, (off_t)len));
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		shadow_zero(s, mode, pos, len);
	else if (mode & FALLOC_FL_COLLAPSE_RANGE)
		shadow_collapse(s, pos, len);
	else if (mode & FALLOC_FL_INSERT_RANGE)
		shadow_insert(s, pos, len);
	else if (!(mode & FALLOC_FL_KEEP_SIZE))
		s->size = MAX(s->size, pos + len);
}

void shadow_compare(const struct shadow *s, const char *buf, size_t size,
		    const char *where)
{
	CHECK(size == s->size, "%s: the size is %zu, not %zu", where, size,
	      s->size);
	for (size_t i = 0; i < size; i++)
		CHECK(buf[i] == s->bytes[i], "%s: byte %zu is %02x, not %02x",
		      where, i, (unsigned char)buf[i],
		      (unsigned char)s->bytes[i]);
}

void shadow_check(struct shadow *s)
{
	char *buf = malloc(SHADOW_BYTES);
	struct stat st;
	ssize_t n;

	CHECK(buf, "no memory");
	CHECK_OK(dbh_fstat(s->rig.file, &st));
	CHECK_IS(st.st_size, s->size);
	CHECK(store_mem_size(s->rig.spy->inner) <= s->size, "R16");
	n = dbh_pread(s->rig.file, buf, SHADOW_BYTES, 0, DBH_DONTCACHE);
	shadow_compare(s, buf, (size_t)n, "read");
	free(buf);
}

void shadow_check_store(struct shadow *s)
{
	char *buf = malloc(SHADOW_BYTES);

	CHECK(buf, "no memory");
	shadow_compare(s, buf,
		       store_mem_peek(s->rig.spy->inner, buf, SHADOW_BYTES, 0),
		       "store");
	free(buf);
}

void shadow_down(struct shadow *s)
{
	shadow_check(s);
	rig_close(&s->rig);
	shadow_check_store(s);
	rig_down(&s->rig);
}

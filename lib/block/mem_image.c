/* SPDX-License-Identifier: MIT */
/*
 * mem_image: see mem_image.h.
 */
#include "mem_image.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the image ------------------------------------------------------- */

void mem_image_fini(struct mem_image *img)
{
	for (size_t i = 0; i < img->nr_chunks; i++)
		free(img->chunks[i]);
	free(img->chunks);
	*img = (struct mem_image){ 0 };
}

static size_t in_chunk(uint64_t pos, uint64_t len)
{
	size_t room = MEM_CHUNK - (size_t)(pos % MEM_CHUNK);

	return len < room ? (size_t)len : room;
}

void mem_image_read(const struct mem_image *img, void *buf, size_t len,
		    uint64_t pos)
{
	char *to = buf;

	while (len) {
		size_t n = in_chunk(pos, len);
		uint64_t i = pos / MEM_CHUNK;

		if (i < img->nr_chunks && img->chunks[i])
			memcpy(to, img->chunks[i] + pos % MEM_CHUNK, n);
		else
			memset(to, 0, n);
		to += n;
		pos += n;
		len -= n;
	}
}

static char *get_chunk(struct mem_image *img, uint64_t i)
{
	if (i >= img->nr_chunks) {
		size_t nr = (size_t)i + 1 + img->nr_chunks / 2;
		char **chunks = realloc(img->chunks, nr * sizeof(*chunks));

		if (!chunks)
			return NULL;
		memset(chunks + img->nr_chunks, 0,
		       (nr - img->nr_chunks) * sizeof(*chunks));
		img->chunks = chunks;
		img->nr_chunks = nr;
	}
	if (!img->chunks[i])
		img->chunks[i] = calloc(1, MEM_CHUNK);
	return img->chunks[i];
}

int mem_image_write(struct mem_image *img, const void *buf, size_t len,
		    uint64_t pos)
{
	const char *from = buf;

	while (len) {
		size_t n = in_chunk(pos, len);
		char *chunk = get_chunk(img, pos / MEM_CHUNK);

		if (!chunk)
			return -ENOMEM;
		memcpy(chunk + pos % MEM_CHUNK, from, n);
		from += n;
		pos += n;
		len -= n;
		if (pos > img->size)
			img->size = pos;
	}
	return 0;
}

void mem_image_zero(struct mem_image *img, uint64_t pos, uint64_t len)
{
	while (len && pos / MEM_CHUNK < img->nr_chunks) {
		size_t n = in_chunk(pos, len);
		char *chunk = img->chunks[pos / MEM_CHUNK];

		if (chunk)
			memset(chunk + pos % MEM_CHUNK, 0, n);
		pos += n;
		len -= n;
	}
}

void mem_image_truncate(struct mem_image *img, uint64_t size)
{
	uint64_t i = size / MEM_CHUNK, keep = size % MEM_CHUNK;

	if (size < img->size && i < img->nr_chunks) {
		if (keep && img->chunks[i])
			memset(img->chunks[i] + keep, 0, MEM_CHUNK - keep);
		for (i += keep ? 1 : 0; i < img->nr_chunks; i++) {
			free(img->chunks[i]);
			img->chunks[i] = NULL;
		}
	}
	img->size = size;
}

int mem_image_copy(struct mem_image *to, const struct mem_image *from)
{
	*to = (struct mem_image){ 0 };
	for (size_t i = 0; i < from->nr_chunks; i++) {
		if (from->chunks[i] &&
		    mem_image_write(to, from->chunks[i], MEM_CHUNK,
				    (uint64_t)i * MEM_CHUNK)) {
			mem_image_fini(to);
			return -ENOMEM;
		}
	}
	to->size = from->size;
	return 0;
}

/* ---- the base -------------------------------------------------------- */

int mem_base_init(struct mem_base *base, const struct store_ops *ops,
		  uint32_t min_folio_bytes, uint32_t align)
{
	static _Atomic uint64_t next_ino = 1;

	if (align < 512 || align > 65536 || align & (align - 1) ||
	    min_folio_bytes < 4096 || min_folio_bytes > 65536 ||
	    min_folio_bytes & (min_folio_bytes - 1) || min_folio_bytes < align)
		return -EINVAL;
	base->store.ops = ops;
	base->store.offset_align = align;
	base->store.mem_align = align;
	base->store.min_folio_bytes = min_folio_bytes;
	base->store.max_bytes = INT64_MAX;
	base->store.direct = STORE_PROVEN;
	base->store.writable = true;
	base->store.ino = (ino_t)atomic_fetch_add(&next_ino, 1);
	pthread_mutex_init(&base->lock, NULL);
	return 0;
}

void mem_base_fini(struct mem_base *base)
{
	mem_image_fini(&base->image);
	pthread_mutex_destroy(&base->lock);
}

void mem_base_stat_locked(const struct mem_base *base, struct stat *st)
{
	*st = (struct stat){ 0 };
	st->st_dev = base->store.dev;
	st->st_ino = base->store.ino;
	st->st_mode = S_IFREG | 0600;
	st->st_nlink = 1;
	st->st_size = (off_t)base->image.size;
	st->st_blksize = base->store.min_folio_bytes;
	st->st_blocks = (blkcnt_t)((base->image.size + 511) / 512);
}

int mem_base_transfer_locked(struct mem_base *base, const struct bio *bio)
{
	uint64_t pos = bio->pos;

	for (unsigned i = 0; i < bio->nr_vecs; i++) {
		const struct iovec *v = &bio->vecs[i];
		int err = 0;

		if (bio->op == BIO_READ)
			mem_image_read(&base->image, v->iov_base, v->iov_len,
				       pos);
		else
			err = mem_image_write(&base->image, v->iov_base,
					      v->iov_len, pos);
		if (err)
			return err;
		pos += v->iov_len;
	}
	return 0;
}

/* The first member of both stores is the base. */
static struct mem_base *to_base(struct store *store)
{
	return container_of(store, struct mem_base, store);
}

int mem_base_seek(struct store *store, int whence, uint64_t pos, uint64_t *out)
{
	struct mem_base *base = to_base(store);
	int err;

	pthread_mutex_lock(&base->lock);
	err = mem_image_seek(&base->image, whence, pos, out);
	pthread_mutex_unlock(&base->lock);
	return err;
}

int mem_base_clone(struct store *store, uint64_t pos, struct store *from,
		   uint64_t from_pos, uint64_t len,
		   int (*write)(struct store *store, const void *buf,
				size_t len, uint64_t pos))
{
	uint64_t block = store->min_folio_bytes;
	char *buf;
	int err = 0;

	/* As FICLONERANGE: whole blocks, but for the end of both files. */
	if (store->ops != from->ops || pos % block || from_pos % block ||
	    from_pos + len > store_mem_size(from) ||
	    (len % block && (from_pos + len < store_mem_size(from) ||
			     pos + len < store_mem_size(store))))
		return -EINVAL;
	buf = malloc(MEM_CHUNK);
	if (!buf)
		return -ENOMEM;
	while (len && !err) {
		size_t n = in_chunk(0, len);

		store_mem_peek(from, buf, n, from_pos);
		err = write(store, buf, n, pos);
		from_pos += n;
		pos += n;
		len -= n;
	}
	free(buf);
	return err;
}

size_t store_mem_peek(struct store *store, void *buf, size_t len, uint64_t pos)
{
	struct mem_base *base = to_base(store);
	uint64_t size;

	pthread_mutex_lock(&base->lock);
	size = base->image.size;
	if (pos >= size)
		len = 0;
	else if (len > size - pos)
		len = (size_t)(size - pos);
	mem_image_read(&base->image, buf, len, pos);
	pthread_mutex_unlock(&base->lock);
	return len;
}

uint64_t store_mem_size(struct store *store)
{
	struct mem_base *base = to_base(store);
	uint64_t size;

	pthread_mutex_lock(&base->lock);
	size = base->image.size;
	pthread_mutex_unlock(&base->lock);
	return size;
}

uint64_t store_mem_bios(struct store *store, enum bio_op op)
{
	struct mem_base *base = to_base(store);
	uint64_t nr;

	pthread_mutex_lock(&base->lock);
	nr = base->nr_bios[op];
	pthread_mutex_unlock(&base->lock);
	return nr;
}

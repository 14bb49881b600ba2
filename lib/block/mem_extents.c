/* SPDX-License-Identifier: MIT */
/*
 * mem_extents: where an image has bytes: fallocate(2), and lseek(2) for holes,
 * as a file system does them. A chunk that is not there is a hole. What is
 * allocated and never written is one too, as on a file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "extents.h"
#include "mem_image.h"

/* ---- holes ------------------------------------------------------------ */

static void free_chunks(struct mem_image *img, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end && i < img->nr_chunks; i++) {
		free(img->chunks[i]);
		img->chunks[i] = NULL;
	}
}

static void punch(struct mem_image *img, uint64_t pos, uint64_t len)
{
	mem_image_zero(img, pos, len);
	free_chunks(img, (pos + MEM_CHUNK - 1) / MEM_CHUNK,
		    (pos + len) / MEM_CHUNK);
}

static bool is_data(const struct mem_image *img, uint64_t pos)
{
	return pos / MEM_CHUNK < img->nr_chunks && img->chunks[pos / MEM_CHUNK];
}

int mem_image_seek(const struct mem_image *img, int whence, uint64_t pos,
		   uint64_t *out)
{
	bool data = whence == SEEK_DATA;

	if (pos >= img->size)
		return -ENXIO;
	while (pos < img->size && is_data(img, pos) != data) {
		pos = (pos / MEM_CHUNK + 1) * MEM_CHUNK;
		if (data && pos / MEM_CHUNK >= img->nr_chunks)
			return -ENXIO;
	}
	if (pos >= img->size && data)
		return -ENXIO;
	*out = pos < img->size ? pos : img->size;
	return 0;
}

/* ---- bytes that move --------------------------------------------------- */

/* [@from, @from + @len) to @to, whichever way; holes stay holes where chunks
 * lie alike. Bytes that are left behind are not touched. */
static int move(struct mem_image *img, uint64_t to, uint64_t from, uint64_t len)
{
	char *buf = malloc(MEM_CHUNK);
	int err = 0;

	if (!buf)
		return -ENOMEM;
	for (uint64_t left = len; left && !err;) {
		uint64_t n = left < MEM_CHUNK ? left : MEM_CHUNK;
		/* Forward, or from the end on, as memmove() does. */
		uint64_t at = to < from ? len - left : left - n;

		mem_image_read(img, buf, n, from + at);
		err = mem_image_write(img, buf, n, to + at);
		left -= n;
	}
	free(buf);
	return err;
}

static int collapse(struct mem_image *img, uint64_t pos, uint64_t len)
{
	uint64_t end = pos + len;
	int err;

	if (end >= img->size)
		return -EINVAL;
	err = move(img, pos, end, img->size - end);
	if (!err)
		mem_image_truncate(img, img->size - len);
	return err;
}

static int insert(struct mem_image *img, uint64_t pos, uint64_t len)
{
	int err;

	if (pos >= img->size)
		return -EINVAL;
	if (len > INT64_MAX - img->size)
		return -EFBIG;
	err = move(img, pos + len, pos, img->size - pos);
	if (!err)
		punch(img, pos, len);
	return err;
}

int mem_image_fallocate(struct mem_image *img, int mode, uint64_t pos,
			uint64_t len, uint32_t block)
{
	const int shift = FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE;

	if ((mode & shift) && (pos % block || len % block))
		return -EINVAL;
	if (mode & FALLOC_FL_COLLAPSE_RANGE)
		return collapse(img, pos, len);
	if (mode & FALLOC_FL_INSERT_RANGE)
		return insert(img, pos, len);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		punch(img, pos, len);
	else if (mode & FALLOC_FL_WRITE_ZEROES)
		return -EOPNOTSUPP;
	if (!(mode & FALLOC_FL_KEEP_SIZE) && pos + len > img->size)
		mem_image_truncate(img, pos + len);
	return 0;
}

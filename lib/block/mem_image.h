/* SPDX-License-Identifier: MIT */
/*
 * mem_image: the bytes of a file that lives in memory, sparse, in chunks.
 * And the part that the mem and the fault store have in common. No I/O.
 */
#ifndef DBH_BLOCK_MEM_IMAGE_H
#define DBH_BLOCK_MEM_IMAGE_H

#include <pthread.h>

#include "block/block.h"

#define MEM_CHUNK 65536u

/**
 * struct mem_image - content and size; the owner locks
 *
 * What was never written, and all beyond @size, is zero.
 */
struct mem_image {
	char **chunks;
	size_t nr_chunks;
	uint64_t size;
};

void mem_image_fini(struct mem_image *img);
/** Zeros beyond the end. */
void mem_image_read(const struct mem_image *img, void *buf, size_t len,
		    uint64_t pos);
/** Grows the size when it writes beyond. Return: 0 or -ENOMEM. */
int mem_image_write(struct mem_image *img, const void *buf, size_t len,
		    uint64_t pos);
/** Neither grows the size nor allocates what holds nothing. */
void mem_image_zero(struct mem_image *img, uint64_t pos, uint64_t len);
void mem_image_truncate(struct mem_image *img, uint64_t size);
int mem_image_copy(struct mem_image *to, const struct mem_image *from);

/* ---- mem_extents.c --------------------------------------------------- */

/** fallocate(2), for whole blocks of @block bytes where a file system wants
 * that. Return: 0 or -errno */
int mem_image_fallocate(struct mem_image *img, int mode, uint64_t pos,
			uint64_t len, uint32_t block);
/** lseek(2) with SEEK_DATA or SEEK_HOLE. Return: 0 or -ENXIO */
int mem_image_seek(const struct mem_image *img, int whence, uint64_t pos,
		   uint64_t *out);

/**
 * struct mem_base - the head of the mem and the fault store
 * @lock: short; guards what follows
 */
struct mem_base {
	struct store store;
	pthread_mutex_t lock;
	struct mem_image image;
	uint64_t nr_bios[2];
};

int mem_base_init(struct mem_base *base, const struct store_ops *ops,
		  uint32_t min_folio_bytes, uint32_t align);
void mem_base_fini(struct mem_base *base);
void mem_base_stat_locked(const struct mem_base *base, struct stat *st);
/** See struct store_ops. */
int mem_base_seek(struct store *store, int whence, uint64_t pos,
		  uint64_t *out);
/** The same; what is shared is copied, by @write, which is as write_tail. */
int mem_base_clone(struct store *store, uint64_t pos, struct store *from,
		   uint64_t from_pos, uint64_t len,
		   int (*write)(struct store *store, const void *buf,
				size_t len, uint64_t pos));
/** All of @bio, from or to the image. Return: 0 or -errno. */
int mem_base_transfer_locked(struct mem_base *base, const struct bio *bio);

/** A mem store that takes @image over. */
int store_mem_from_image(const struct store *like, struct mem_image *image,
			 struct store **out);

#endif

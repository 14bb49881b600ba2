/* SPDX-License-Identifier: MIT */
/*
 * shared: writes that meet pages which other programs have in the kernel's
 * cache. Directly written they would take whole folios of that cache with
 * them, a MiB for the sake of a page. So they go through the cache where pages
 * are, and direct where none are.
 *
 * Here: the thread that collects such bios, since O_DIRECT must be off for
 * them, and taking a bio apart. How they are written is the store's.
 */
#ifndef DBH_BLOCK_SHARED_H
#define DBH_BLOCK_SHARED_H

#include "block/block.h"
#include "kcache.h"

/** Bios of one batch at most: others wait meanwhile. */
#define SHARED_BATCH 16u
/** Pages that a bio touches at most: its bytes, and where they are unaligned
 * one more. */
#define BIO_MAX_PAGES (BIO_MAX_BYTES / KCACHE_PAGE + 1)

struct shared;

/**
 * shared_create - start the thread
 * @write: called by the thread with bios that have come, at least one and at
 *	most SHARED_BATCH, with no lock held. It sees to their end.
 * @arg: of @write
 */
int shared_create(void (*write)(void *arg, struct list_head *bios), void *arg,
		  struct shared **out);
/** No bio is in flight. NULL is allowed. */
void shared_destroy(struct shared *shared);
/** Does not sleep. */
void shared_add(struct shared *shared, struct bio *bio);

/**
 * bio_split - make bios of the runs of pages that are cached or are not
 * @map: for each page that @whole touches: cached (1) or not (0)
 * @cached, @direct: the parts are added to these lists, in order of position
 *
 * A part is a bio of the store's own, of the same fd and ended(); a cached one
 * is to be kept (BIO_F_KEEP). When all have ended @whole does, with the first error.
 * Return: 0, -EINVAL if no boundary of pages suits its memory, or -ENOMEM
 */
int bio_split(struct bio *whole, const unsigned char *map,
	      struct list_head *cached, struct list_head *direct);

#endif

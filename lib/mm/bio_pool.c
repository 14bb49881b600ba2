// SPDX-License-Identifier: MIT
/*
 * bio_pool: free lists of requests, and batches of them.
 */
#include "mm/bio_pool.h"

#include <stdlib.h>
#include <string.h>

#define BOUNCE_BYTES 65536u /* the largest minimum folio */

struct counts {
	unsigned wb, read, fill;
};

/* A small budget must not go into requests. */
static struct counts counts(size_t memory_bytes, unsigned queue_depth)
{
	size_t units = memory_bytes >> 20;

	return (struct counts){
		.wb = (unsigned)MIN((size_t)queue_depth, 4 + units),
		.read = (unsigned)MIN((size_t)32, 4 + units),
		.fill = (unsigned)MIN((size_t)8, 1 + units / 4),
	};
}

size_t bio_pool_bytes(size_t memory_bytes, unsigned queue_depth)
{
	struct counts c = counts(memory_bytes, queue_depth);

	return c.wb * sizeof(struct wb_bio) +
	       c.read * sizeof(struct read_bio) +
	       c.fill * (sizeof(struct fill) + BOUNCE_BYTES);
}

int bio_pool_init(struct dbh_engine *e)
{
	struct counts c = counts(e->limit.memory_bytes, e->limit.queue_depth);
	char *at, *bounce;

	mutex_init(&e->bio_lock, RANK_BIO);
	list_init(&e->wb_bios);
	list_init(&e->read_bios);
	list_init(&e->fills);
	waitq_init(&e->bio_waitq);
	e->bio_memory = calloc(1, c.wb * sizeof(struct wb_bio) +
					  c.read * sizeof(struct read_bio) +
					  c.fill * sizeof(struct fill));
	e->bounce_memory = aligned_alloc(BOUNCE_BYTES,
					 (size_t)c.fill * BOUNCE_BYTES);
	if (!e->bio_memory || !e->bounce_memory) {
		bio_pool_fini(e);
		return -ENOMEM;
	}
	memset(e->bounce_memory, 0, (size_t)c.fill * BOUNCE_BYTES);
	at = e->bio_memory;
	bounce = e->bounce_memory;
	for (; c.wb; c.wb--, at += sizeof(struct wb_bio))
		list_add(&((struct wb_bio *)(void *)at)->bio.list, &e->wb_bios);
	for (; c.read; c.read--, at += sizeof(struct read_bio))
		list_add(&((struct read_bio *)(void *)at)->bio.list,
			 &e->read_bios);
	for (; c.fill; c.fill--, at += sizeof(struct fill)) {
		struct fill *fill = (struct fill *)(void *)at;

		fill->bounce = bounce;
		bounce += BOUNCE_BYTES;
		list_add(&fill->bio.list, &e->fills);
	}
	return 0;
}

void bio_pool_fini(struct dbh_engine *e)
{
	free(e->bio_memory);
	free(e->bounce_memory);
}

static struct bio *get(struct dbh_engine *e, struct list_head *list,
		       struct waiter *w)
{
	struct bio *bio = NULL;
	uint64_t ticket;

	mutex_lock(&e->bio_lock);
	if (!list_empty(list)) {
		bio = list_first_entry(list, struct bio, list);
		list_del(&bio->list);
	}
	mutex_unlock(&e->bio_lock);
	if (bio || !w)
		return bio;
	ticket = waitq_add(&e->bio_waitq, w, list);
	mutex_lock(&e->bio_lock);
	if (!list_empty(list) && waitq_cancel(&e->bio_waitq, w, ticket)) {
		bio = list_first_entry(list, struct bio, list);
		list_del(&bio->list);
	}
	mutex_unlock(&e->bio_lock);
	return bio;
}

static void put(struct dbh_engine *e, struct list_head *list, struct bio *bio)
{
	mutex_lock(&e->bio_lock);
	list_add(&bio->list, list);
	mutex_unlock(&e->bio_lock);
	if (waitq_active(&e->bio_waitq))
		waitq_wake(&e->bio_waitq, list, 1);
}

void bio_pool_pass_on(struct dbh_engine *e)
{
	bool fills, reads;

	if (!waitq_active(&e->bio_waitq))
		return;
	mutex_lock(&e->bio_lock);
	fills = !list_empty(&e->fills);
	reads = !list_empty(&e->read_bios);
	mutex_unlock(&e->bio_lock);
	if (fills)
		waitq_wake(&e->bio_waitq, &e->fills, 1);
	if (reads)
		waitq_wake(&e->bio_waitq, &e->read_bios, 1);
}

struct wb_bio *wb_bio_get(struct dbh_engine *e)
{
	struct thread_waiter tw;
	struct bio *bio;

	thread_waiter_init(&tw);
	while (!(bio = get(e, &e->wb_bios, &tw.w)))
		thread_waiter_sleep(&tw);
	return container_of(bio, struct wb_bio, bio);
}

void wb_bio_put(struct dbh_engine *e, struct wb_bio *b)
{
	put(e, &e->wb_bios, &b->bio);
}

struct read_bio *read_bio_get(struct dbh_engine *e, struct waiter *w)
{
	struct bio *bio = get(e, &e->read_bios, w);

	return bio ? container_of(bio, struct read_bio, bio) : NULL;
}

void read_bio_put(struct dbh_engine *e, struct read_bio *b)
{
	put(e, &e->read_bios, &b->bio);
}

struct fill *fill_get(struct dbh_engine *e, struct waiter *w)
{
	struct bio *bio = get(e, &e->fills, w);

	return bio ? container_of(bio, struct fill, bio) : NULL;
}

struct fill *fill_get_wait(struct dbh_engine *e)
{
	struct thread_waiter tw;
	struct fill *fill;

	thread_waiter_init(&tw);
	while (!(fill = fill_get(e, &tw.w)))
		thread_waiter_sleep(&tw);
	return fill;
}

void fill_put(struct dbh_engine *e, struct fill *f)
{
	put(e, &e->fills, &f->bio);
}

/* ---- batch ----------------------------------------------------------- */

void batch_init(struct batch *b)
{
	/* One for the waiter itself, so that it ends only when all are in. */
	atomic_init(&b->pending, 1);
	atomic_init(&b->err, 0);
}

void batch_get(struct batch *b)
{
	atomic_fetch_add_explicit(&b->pending, 1, memory_order_relaxed);
}

void batch_put(struct batch *b, int err)
{
	int none = 0;

	if (err)
		atomic_compare_exchange_strong(&b->err, &none, err);
	/* release: pairs with the acquire in batch_wait(). A wake of an address
	 * that is gone does no harm. */
	if (atomic_fetch_sub_explicit(&b->pending, 1, memory_order_acq_rel) ==
	    1)
		futex_wake(&b->pending, 1);
}

int batch_wait(struct batch *b)
{
	uint32_t left;

	batch_put(b, 0);
	while ((left = atomic_load_explicit(&b->pending,
					    memory_order_acquire)))
		futex_wait(&b->pending, left, UINT64_MAX);
	return atomic_load(&b->err);
}

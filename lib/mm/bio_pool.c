// SPDX-License-Identifier: MIT
/*
 * bio_pool: free lists of requests, and batches of them.
 */
#include "mm/bio_pool.h"

#include <stdlib.h>
#include <string.h>

#define BOUNCE_BYTES 65536u /* the largest minimum folio */
/* See bio_admit(). */
#define BIO_SHARE 7

/* A small budget must not go into requests. An eighth more than what one
 * device may hold, which bio_admit() leaves to the others. */
static void count(unsigned *nr, size_t memory_bytes, unsigned queue_depth)
{
	size_t units = memory_bytes >> 20;

	nr[BIO_KIND_WB] = (unsigned)MIN((size_t)queue_depth, 4 + units);
	nr[BIO_KIND_READ] = (unsigned)MIN((size_t)32, 4 + units);
	nr[BIO_KIND_FILL] = (unsigned)MIN((size_t)8, 1 + units / 4);
	for (unsigned i = 0; i < NR_BIO_KINDS; i++)
		nr[i] += nr[i] / BIO_SHARE;
}

static const size_t kind_bytes[NR_BIO_KINDS] = {
	[BIO_KIND_WB] = sizeof(struct wb_bio),
	[BIO_KIND_READ] = sizeof(struct read_bio),
	[BIO_KIND_FILL] = sizeof(struct fill),
};

size_t bio_pool_bytes(size_t memory_bytes, unsigned queue_depth)
{
	unsigned nr[NR_BIO_KINDS];
	size_t bytes;

	count(nr, memory_bytes, queue_depth);
	bytes = (size_t)nr[BIO_KIND_FILL] * BOUNCE_BYTES;
	for (unsigned i = 0; i < NR_BIO_KINDS; i++)
		bytes += nr[i] * kind_bytes[i];
	return bytes;
}

static void add_bios(struct bio_list *l, char *at, size_t bytes, unsigned nr)
{
	list_init(&l->free);
	/* All that differs between kinds lies behind the bio. */
	for (unsigned i = 0; i < nr; i++, at += bytes)
		list_add(&((struct bio *)(void *)at)->list, &l->free);
	atomic_init(&l->nr_free, nr);
}

int bio_pool_init(struct dbh_engine *e)
{
	unsigned nr[NR_BIO_KINDS];
	size_t bytes = 0;
	struct list_head *pos;
	char *at, *bounce;

	count(nr, e->limit.memory_bytes, e->limit.queue_depth);
	mutex_init(&e->bio_lock, RANK_BIO);
	waitq_init(&e->bio_waitq);
	for (unsigned i = 0; i < NR_BIO_KINDS; i++)
		bytes += nr[i] * kind_bytes[i];
	e->bio_memory = calloc(1, bytes);
	bytes = (size_t)nr[BIO_KIND_FILL] * BOUNCE_BYTES;
	e->bounce_memory = aligned_alloc(BOUNCE_BYTES, bytes);
	if (!e->bio_memory || !e->bounce_memory) {
		bio_pool_fini(e);
		return -ENOMEM;
	}
	memset(e->bounce_memory, 0, bytes);
	at = e->bio_memory;
	for (unsigned i = 0; i < NR_BIO_KINDS; i++) {
		add_bios(&e->bios[i], at, kind_bytes[i], nr[i]);
		at += nr[i] * kind_bytes[i];
	}
	bounce = e->bounce_memory;
	list_for_each(pos, &e->bios[BIO_KIND_FILL].free) {
		list_entry(pos, struct fill, bio.list)->bounce = bounce;
		bounce += BOUNCE_BYTES;
	}
	return 0;
}

void bio_pool_fini(struct dbh_engine *e)
{
	free(e->bio_memory);
	free(e->bounce_memory);
}

/*
 * May @wb have one more? It may hold BIO_SHARE times what is left free: alone
 * all but an eighth; of two that want all each gets half, but for what stays
 * free for a third. No device has to be known before it comes.
 */
static bool bio_admit(struct wb *wb, enum bio_kind kind)
{
	long left = atomic_load(&wb->engine->bios[kind].nr_free);

	return left > 0 && atomic_load(&wb->bios_held[kind]) < BIO_SHARE * left;
}

static struct bio *take_locked(struct wb *wb, enum bio_kind kind)
{
	struct bio_list *l = &wb->engine->bios[kind];
	struct bio *bio;

	assert_held(&wb->engine->bio_lock);
	if (!bio_admit(wb, kind))
		return NULL;
	bio = list_first_entry(&l->free, struct bio, list);
	list_del(&bio->list);
	atomic_fetch_sub(&l->nr_free, 1);
	atomic_fetch_add(&wb->bios_held[kind], 1);
	return bio;
}

static struct bio *get(struct wb *wb, enum bio_kind kind, struct waiter *w)
{
	struct dbh_engine *e = wb->engine;
	struct bio *bio;
	uint64_t ticket;

	mutex_lock(&e->bio_lock);
	bio = take_locked(wb, kind);
	mutex_unlock(&e->bio_lock);
	if (bio || !w)
		return bio;
	w->arg = (uintptr_t)wb;
	ticket = waitq_add(&e->bio_waitq, w, &e->bios[kind]);
	mutex_lock(&e->bio_lock);
	if (bio_admit(wb, kind) && waitq_cancel(&e->bio_waitq, w, ticket))
		bio = take_locked(wb, kind);
	mutex_unlock(&e->bio_lock);
	return bio;
}

/* The first who may have one. */
struct wake_one {
	const struct bio_list *list;
	enum bio_kind kind;
	bool done;
};

static bool may_take(const struct waiter *w, void *ctx)
{
	struct wake_one *wo = ctx;

	if (wo->done || w->key != wo->list ||
	    !bio_admit((struct wb *)(uintptr_t)w->arg, wo->kind))
		return false;
	wo->done = true;
	return true;
}

static void wake_one(struct dbh_engine *e, enum bio_kind kind)
{
	struct wake_one wo = { .list = &e->bios[kind], .kind = kind };

	if (waitq_active(&e->bio_waitq))
		waitq_wake_if(&e->bio_waitq, may_take, &wo);
}

static void put(struct wb *wb, enum bio_kind kind, struct bio *bio)
{
	struct dbh_engine *e = wb->engine;

	mutex_lock(&e->bio_lock);
	list_add(&bio->list, &e->bios[kind].free);
	atomic_fetch_add(&e->bios[kind].nr_free, 1);
	atomic_fetch_sub(&wb->bios_held[kind], 1);
	mutex_unlock(&e->bio_lock);
	wake_one(e, kind);
}

void bio_pool_pass_on(struct dbh_engine *e)
{
	if (!waitq_active(&e->bio_waitq))
		return;
	wake_one(e, BIO_KIND_FILL);
	wake_one(e, BIO_KIND_READ);
}

struct wb_bio *wb_bio_get(struct wb *wb)
{
	struct thread_waiter tw;
	struct bio *bio;

	thread_waiter_init(&tw);
	while (!(bio = get(wb, BIO_KIND_WB, &tw.w)))
		thread_waiter_sleep(&tw);
	return container_of(bio, struct wb_bio, bio);
}

void wb_bio_put(struct wb *wb, struct wb_bio *b)
{
	put(wb, BIO_KIND_WB, &b->bio);
}

struct read_bio *read_bio_get(struct wb *wb, struct waiter *w)
{
	struct bio *bio = get(wb, BIO_KIND_READ, w);

	return bio ? container_of(bio, struct read_bio, bio) : NULL;
}

void read_bio_put(struct wb *wb, struct read_bio *b)
{
	put(wb, BIO_KIND_READ, &b->bio);
}

struct fill *fill_get(struct wb *wb, struct waiter *w)
{
	struct bio *bio = get(wb, BIO_KIND_FILL, w);

	return bio ? container_of(bio, struct fill, bio) : NULL;
}

struct fill *fill_get_wait(struct wb *wb)
{
	struct thread_waiter tw;
	struct fill *fill;

	thread_waiter_init(&tw);
	while (!(fill = fill_get(wb, &tw.w)))
		thread_waiter_sleep(&tw);
	return fill;
}

void fill_put(struct wb *wb, struct fill *f)
{
	put(wb, BIO_KIND_FILL, &f->bio);
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

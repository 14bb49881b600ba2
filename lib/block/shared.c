/* SPDX-License-Identifier: MIT */
/*
 * shared: see shared.h.
 */
#include "shared.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "ioq.h"

/* ---- the thread ------------------------------------------------------ */

struct shared {
	void (*write)(void *arg, struct list_head *bios); /* before publish */
	void *arg; /* set before publish */
	pthread_t thread;
	pthread_mutex_t lock; /* short: queue, stop */
	pthread_cond_t work;
	struct list_head queue;
	bool stop;
};

/* Return: false to end. */
static bool take_batch(struct shared *s, struct list_head *batch)
{
	unsigned nr = 0;

	pthread_mutex_lock(&s->lock);
	while (list_empty(&s->queue) && !s->stop)
		pthread_cond_wait(&s->work, &s->lock);
	while (!list_empty(&s->queue) && nr++ < SHARED_BATCH) {
		struct list_head *node = s->queue.next;

		list_del(node);
		list_add_tail(node, batch);
	}
	pthread_mutex_unlock(&s->lock);
	return nr;
}

static void *shared_main(void *arg)
{
	struct shared *s = arg;
	struct list_head batch;

	list_init(&batch);
	while (take_batch(s, &batch)) {
		s->write(s->arg, &batch);
		assert(list_empty(&batch));
	}
	return NULL;
}

void shared_add(struct shared *s, struct bio *bio)
{
	pthread_mutex_lock(&s->lock);
	list_add_tail(&bio->list, &s->queue);
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
}

int shared_create(void (*write)(void *arg, struct list_head *bios), void *arg,
		  struct shared **out)
{
	struct shared *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->write = write;
	s->arg = arg;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	list_init(&s->queue);
	err = block_thread_create(&s->thread, "dbh-shared", shared_main, s);
	if (err) {
		pthread_cond_destroy(&s->work);
		pthread_mutex_destroy(&s->lock);
		free(s);
		return err;
	}
	*out = s;
	return 0;
}

void shared_destroy(struct shared *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- parts ----------------------------------------------------------- */

/* One allocation: parts, and behind them their vectors. */
struct split {
	struct bio *whole;
	/* Acquire-release, each other's partner: the last sees all statuses. */
	_Atomic unsigned pending;
	_Atomic int status; /* relaxed: ordered by pending */
	struct bio part[];
};

static void part_end(struct bio *part)
{
	struct split *split = part->private;
	struct bio *whole = split->whole;
	int none = 0;

	if (part->status)
		atomic_compare_exchange_strong_explicit(&split->status, &none,
							part->status,
							memory_order_relaxed,
							memory_order_relaxed);
	if (atomic_fetch_sub_explicit(&split->pending, 1,
				      memory_order_acq_rel) != 1)
		return;
	whole->status =
		atomic_load_explicit(&split->status, memory_order_relaxed);
	free(split);
	bio_end(whole);
}

/* Where the run that begins at @at ends. */
static uint64_t run_end(const struct bio *bio, const unsigned char *map,
			uint64_t at, uint64_t unit)
{
	uint64_t end = bio->pos + bio->len;
	uint64_t base = bio->pos / KCACHE_PAGE;
	uint64_t page = at / KCACHE_PAGE;
	bool cached = map[page - base];

	/* A folio is no smaller than a unit: its pages are alike. */
	do {
		at = (at / unit + 1) * unit;
	} while (at < end && map[at / KCACHE_PAGE - base] == cached);
	return at < end ? at : end;
}

/* @vecs: room for as many as @whole has. Return: how many it took. */
static unsigned make_part(struct split *split, struct bio *part, uint64_t start,
			  uint64_t end, struct iovec *vecs)
{
	struct bio *whole = split->whole;
	uint64_t left = end - start;

	*part = (struct bio){
		.store = whole->store,
		.op = whole->op,
		.pos = start,
		.len = (uint32_t)left,
		.vecs = vecs,
		.end_io = part_end,
		.private = split,
		.submit_ns = whole->submit_ns,
		.fd = whole->fd,
		.ended = whole->ended,
	};
	bio_vecs_left(whole, (uint32_t)(start - whole->pos), vecs,
		      whole->nr_vecs);
	while (left) {
		struct iovec *v = &vecs[part->nr_vecs++];

		if (v->iov_len > left)
			v->iov_len = left;
		left -= v->iov_len;
	}
	return part->nr_vecs;
}

static uint64_t split_unit(const struct bio *bio)
{
	uint64_t unit = KCACHE_PAGE;

	if (unit < bio->store->offset_align)
		unit = bio->store->offset_align;
	if (unit < bio->store->mem_align)
		unit = bio->store->mem_align;
	return unit;
}

int bio_split(struct bio *whole, const unsigned char *map,
	      struct list_head *cached, struct list_head *direct)
{
	uint64_t unit = split_unit(whole), base = whole->pos / KCACHE_PAGE;
	uint64_t end = whole->pos + whole->len, at, next;
	struct split *split;
	struct iovec *vecs;
	unsigned nr = 0;

	if (whole->pos % whole->store->mem_align)
		return -EINVAL;
	for (at = whole->pos; at < end; at = run_end(whole, map, at, unit))
		nr++;
	/*
	 * Each part but the first may share a vector with the one before; and
	 * make_part() fills in more than it takes.
	 */
	split = malloc(sizeof(*split) + nr * sizeof(struct bio) +
		       (whole->nr_vecs + nr + BIO_MAX_VECS) * sizeof(*vecs));
	if (!split)
		return -ENOMEM;
	split->whole = whole;
	atomic_init(&split->pending, nr);
	atomic_init(&split->status, 0);
	vecs = (struct iovec *)&split->part[nr];
	nr = 0;
	for (at = whole->pos; at < end; at = next) {
		struct bio *part = &split->part[nr++];

		next = run_end(whole, map, at, unit);
		vecs += make_part(split, part, at, next, vecs);
		if (map[at / KCACHE_PAGE - base]) {
			part->flags = BIO_F_KEEP;
			list_add_tail(&part->list, cached);
		} else {
			list_add_tail(&part->list, direct);
		}
	}
	return 0;
}

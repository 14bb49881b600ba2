/* SPDX-License-Identifier: MIT */
/*
 * behind: see behind.h. Every bio that has arrived is started before the
 * oldest one is waited for, so that the device always has the next.
 */
#include "behind.h"

#include <errno.h>
#include <stdlib.h>

#include "ioq.h"
#include "kcache.h"

struct behind {
	const struct kcache *kc; /* set before publish */
	void (*finish)(struct bio *bio, bool left); /* set before publish */
	pthread_t thread;
	pthread_mutex_t lock; /* short: fresh, stop */
	pthread_cond_t work;
	struct list_head fresh; /* bios not started */
	bool stop;
};

bool behind_write_out(const struct kcache *kc, struct bio *bio)
{
	bio->status = kcache_write_out(kc, bio->pos, bio->len);
	if (bio->flags & BIO_F_KEEP)
		return false;
	kcache_drop(kc, bio->pos, bio->len);
	return kcache_resident(kc, bio->pos, bio->len) != 0;
}

/* Moves what has arrived to @out. Return: false to end. */
static bool take_fresh(struct behind *b, struct list_head *out, bool wait)
{
	bool stop;

	pthread_mutex_lock(&b->lock);
	while (wait && list_empty(&b->fresh) && !b->stop)
		pthread_cond_wait(&b->work, &b->lock);
	list_splice_tail(&b->fresh, out);
	stop = b->stop;
	pthread_mutex_unlock(&b->lock);
	return !stop;
}

static void *behind_main(void *arg)
{
	struct behind *b = arg;
	struct list_head fresh, started, *node;
	struct bio *bio;

	list_init(&fresh);
	list_init(&started);
	while (take_fresh(b, &fresh, list_empty(&started))) {
		list_for_each(node, &fresh) {
			bio = list_entry(node, struct bio, list);
			kcache_write_out_start(b->kc, bio->pos, bio->len);
		}
		list_splice_tail(&fresh, &started);
		if (list_empty(&started))
			continue;
		bio = list_first_entry(&started, struct bio, list);
		list_del(&bio->list);
		b->finish(bio, behind_write_out(b->kc, bio));
	}
	return NULL;
}

void behind_add(struct behind *b, struct bio *bio)
{
	pthread_mutex_lock(&b->lock);
	list_add_tail(&bio->list, &b->fresh);
	pthread_cond_signal(&b->work);
	pthread_mutex_unlock(&b->lock);
}

int behind_create(const struct kcache *kc,
		  void (*finish)(struct bio *bio, bool left),
		  struct behind **out)
{
	struct behind *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	b->kc = kc;
	b->finish = finish;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->work, NULL);
	list_init(&b->fresh);
	err = block_thread_create(&b->thread, "dbh-behind", behind_main, b);
	if (err) {
		pthread_cond_destroy(&b->work);
		pthread_mutex_destroy(&b->lock);
		free(b);
		return err;
	}
	*out = b;
	return 0;
}

void behind_destroy(struct behind *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_signal(&b->work);
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	pthread_cond_destroy(&b->work);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* SPDX-License-Identifier: MIT */
/*
 * threads: the ioq for where io_uring is not allowed. A FIFO of bios and a few
 * threads that transfer them with preadv and pwritev.
 */
#include "ioq.h"

#include <errno.h>
#include <stdlib.h>

/* More threads than this only wait for each other on one device. */
#define MAX_THREADS 16u

struct threads {
	struct ioq ioq;
	pthread_mutex_t lock; /* short: queue, stop */
	pthread_cond_t work;
	struct list_head queue;
	bool stop;
	unsigned nr; /* set before publish */
	pthread_t thread[MAX_THREADS];
};

static struct bio *take_bio(struct threads *t)
{
	struct bio *bio = NULL;

	pthread_mutex_lock(&t->lock);
	while (list_empty(&t->queue) && !t->stop)
		pthread_cond_wait(&t->work, &t->lock);
	if (!list_empty(&t->queue)) {
		bio = list_first_entry(&t->queue, struct bio, list);
		list_del(&bio->list);
	}
	pthread_mutex_unlock(&t->lock);
	return bio;
}

static void *threads_main(void *arg)
{
	struct threads *t = arg;
	struct bio *bio;

	while ((bio = take_bio(t))) {
		bio_transfer_blocking(bio);
		bio->ended(bio);
	}
	return NULL;
}

static void threads_submit(struct ioq *ioq, struct bio *bio)
{
	struct threads *t = container_of(ioq, struct threads, ioq);

	pthread_mutex_lock(&t->lock);
	list_add_tail(&bio->list, &t->queue);
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
}

static void threads_destroy(struct ioq *ioq)
{
	struct threads *t = container_of(ioq, struct threads, ioq);

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->nr; i++)
		pthread_join(t->thread[i], NULL);
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static const struct ioq_ops threads_ops = {
	.submit = threads_submit,
	.destroy = threads_destroy,
};

int ioq_threads_create(unsigned depth, struct ioq **out)
{
	struct threads *t = calloc(1, sizeof(*t));
	unsigned want = depth < MAX_THREADS ? depth : MAX_THREADS;
	int err = 0;

	if (!t)
		return -ENOMEM;
	t->ioq.ops = &threads_ops;
	t->ioq.method = IOQ_THREADS;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	list_init(&t->queue);
	while (t->nr < want && !err) {
		err = block_thread_create(&t->thread[t->nr], "dbh-io",
					  threads_main, t);
		if (!err)
			t->nr++;
	}
	/* Fewer threads are slower, not wrong. */
	if (!t->nr) {
		threads_destroy(&t->ioq);
		return err;
	}
	*out = &t->ioq;
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * workers: asynchronous requests go on in these threads when what they waited
 * for has come.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rw/rw.h"

/* A few, since a worker that leads a sync sleeps for it. */
#define NR_WORKERS 4

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct list_head queue;
	bool stop;
	unsigned nr;
	pthread_t thread[NR_WORKERS];
};

/**
 * struct async - an asynchronous request
 * @refs: one until it is done, one for each thread in a step: a thread whose
 *	step has queued the waiter may look at it once more on its way out,
 *	while another one already goes on
 */
struct async {
	struct request req;
	_Atomic unsigned refs;
	struct waiter w;
	struct list_head link;
	dbh_cb *cb;
	void *arg;
	struct iovec iov[];
};

static void queue(struct async *a)
{
	struct workers *wk = a->req.file->m->engine->workers;

	pthread_mutex_lock(&wk->lock);
	list_add_tail(&a->link, &wk->queue);
	pthread_cond_signal(&wk->cond);
	pthread_mutex_unlock(&wk->lock);
}

static void wake_async(struct waiter *w)
{
	queue(container_of(w, struct async, w));
}

static void async_put(struct async *a)
{
	if (atomic_fetch_sub(&a->refs, 1) == 1)
		free(a);
}

/* In a callback: a request that it submits is not done in its frame, or one
 * that submits the next would nest without end. */
static __thread bool in_callback;

static void done(struct async *a)
{
	struct dbh_file *file = a->req.file;
	bool outer = in_callback;

	in_callback = true;
	a->cb(a->arg, a->req.result);
	in_callback = outer;
	/* release: pairs with file_close(). A wake of an address that is gone
	 * does no harm. */
	if (atomic_fetch_sub_explicit(&file->async, 1, memory_order_release) ==
	    1)
		futex_wake(&file->async, 1);
}

static void step(struct async *a, bool may_sleep)
{
	int res;

	atomic_fetch_add(&a->refs, 1);
	res = request_step(&a->req, may_sleep);
	if (res == -EINPROGRESS) {
		queue(a);
	} else if (!res) {
		done(a);
		async_put(a);
	}
	async_put(a);
}

static void *worker_main(void *arg)
{
	struct workers *wk = arg;

	pthread_mutex_lock(&wk->lock);
	while (!wk->stop) {
		struct async *a;

		if (list_empty(&wk->queue)) {
			pthread_cond_wait(&wk->cond, &wk->lock);
			continue;
		}
		a = list_first_entry(&wk->queue, struct async, link);
		list_del(&a->link);
		pthread_mutex_unlock(&wk->lock);
		step(a, true);
		pthread_mutex_lock(&wk->lock);
	}
	pthread_mutex_unlock(&wk->lock);
	return NULL;
}

int workers_create(struct dbh_engine *e)
{
	struct workers *wk = calloc(1, sizeof(*wk));
	int err = 0;

	if (!wk)
		return -ENOMEM;
	pthread_mutex_init(&wk->lock, NULL);
	pthread_cond_init(&wk->cond, NULL);
	list_init(&wk->queue);
	e->workers = wk;
	while (wk->nr < NR_WORKERS && !err) {
		err = engine_thread(&wk->thread[wk->nr], "dbh-work",
				    worker_main, wk);
		wk->nr += !err;
	}
	if (err)
		workers_destroy(e);
	return err;
}

void workers_destroy(struct dbh_engine *e)
{
	struct workers *wk = e->workers;

	pthread_mutex_lock(&wk->lock);
	wk->stop = true;
	pthread_cond_broadcast(&wk->cond);
	pthread_mutex_unlock(&wk->lock);
	for (unsigned i = 0; i < wk->nr; i++)
		pthread_join(wk->thread[i], NULL);
	pthread_cond_destroy(&wk->cond);
	pthread_mutex_destroy(&wk->lock);
	free(wk);
	e->workers = NULL;
}

int request_submit(struct dbh_file *file, bool write, const struct iovec *iov,
		   int cnt, off_t off, unsigned flags, dbh_cb *cb, void *arg)
{
	struct request req;
	struct async *a;
	int err;

	if (!cb)
		return -EINVAL;
	err = request_init(&req, file, write, iov, cnt, off, flags);
	if (err)
		return err;
	a = malloc(sizeof(*a) + (size_t)cnt * sizeof(struct iovec));
	if (!a)
		return -ENOMEM;
	a->req = req;
	/* Beside what else this costs, the clock is nothing. */
	a->req.start_ns = clock_ns();
	a->req.weight = 1;
	if (cnt)
		memcpy(a->iov, iov, (size_t)cnt * sizeof(struct iovec));
	a->req.iov = a->iov;
	list_init(&a->w.link);
	list_init(&a->link);
	a->w.since_ns = 0;
	a->w.wake = wake_async;
	a->req.waiter = &a->w;
	a->cb = cb;
	a->arg = arg;
	atomic_init(&a->refs, 1);
	atomic_fetch_add_explicit(&file->async, 1, memory_order_relaxed);
	if (in_callback)
		queue(a);
	else
		step(a, false);
	return 0;
}

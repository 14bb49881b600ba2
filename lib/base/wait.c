// SPDX-License-Identifier: MIT
/*
 * wait: queues of waiters, and the waiter that is a sleeping thread.
 */
#include "base/wait.h"

void waitq_init(struct waitq *q)
{
	mutex_init(&q->lock, RANK_WAITQ);
	atomic_init(&q->nr, 0);
	list_init(&q->list);
	q->tickets = 0;
}

uint64_t waitq_add(struct waitq *q, struct waiter *w, const void *key)
{
	uint64_t ticket;

	mutex_lock(&q->lock);
	ticket = w->ticket = ++q->tickets;
	w->key = key;
	list_add_tail(&w->link, &q->list);
	atomic_fetch_add(&q->nr, 1);
	mutex_unlock(&q->lock);
	return ticket;
}

bool waitq_cancel(struct waitq *q, struct waiter *w, uint64_t ticket)
{
	struct list_head *pos;
	bool queued = false;

	/* Looked for on the list, not in the waiter: once woken, that may wait
	 * in another queue by now. And if it is back in this one, another
	 * thread has queued it, which has gone on with the request since. */
	mutex_lock(&q->lock);
	list_for_each(pos, &q->list) {
		if (pos == &w->link) {
			queued = w->ticket == ticket;
			break;
		}
	}
	if (queued) {
		list_del(&w->link);
		atomic_fetch_sub(&q->nr, 1);
	}
	mutex_unlock(&q->lock);
	return queued;
}

/* Wake up to @max waiters, and no more than there are now: one who comes back
 * meanwhile is not woken again, or the waker would never end. One at a time:
 * once it is off the list, a waiter is the waker's alone until wake(), and
 * cancel sees that it came too late. */
static void wake_some(struct waitq *q,
		      bool (*test)(const struct waiter *w, void *ctx),
		      void *ctx, unsigned max)
{
	max = MIN(max, atomic_load(&q->nr));
	while (max--) {
		struct waiter *found = NULL;
		struct list_head *pos;

		mutex_lock(&q->lock);
		list_for_each(pos, &q->list) {
			struct waiter *w = list_entry(pos, struct waiter, link);

			if (test(w, ctx)) {
				found = w;
				break;
			}
		}
		if (found) {
			list_del(&found->link);
			atomic_fetch_sub(&q->nr, 1);
		}
		mutex_unlock(&q->lock);
		if (!found)
			return;
		found->wake(found);
	}
}

static bool key_is(const struct waiter *w, void *key)
{
	return !key || w->key == key;
}

void waitq_wake(struct waitq *q, const void *key, unsigned max)
{
	wake_some(q, key_is, (void *)(uintptr_t)key, max);
}

void waitq_wake_if(struct waitq *q,
		   bool (*test)(const struct waiter *w, void *ctx), void *ctx)
{
	wake_some(q, test, ctx, UINT32_MAX);
}

static void wake_thread(struct waiter *w)
{
	struct thread_waiter *tw = container_of(w, struct thread_waiter, w);

	/* The sleeper may return, and its frame be gone, right after the
	 * store: a wake of an address that nobody waits on does no harm. */
	atomic_store_explicit(&tw->woken, 1, memory_order_release);
	futex_wake(&tw->woken, 1);
}

void thread_waiter_init(struct thread_waiter *tw)
{
	list_init(&tw->w.link);
	tw->w.key = NULL;
	tw->w.arg = 0;
	tw->w.since_ns = 0;
	tw->w.wake = wake_thread;
	atomic_init(&tw->woken, 0);
}

void thread_waiter_sleep(struct thread_waiter *tw)
{
	/* acquire: pairs with the release in wake_thread() */
	while (!atomic_load_explicit(&tw->woken, memory_order_acquire))
		futex_wait(&tw->woken, 0, UINT64_MAX);
	atomic_store_explicit(&tw->woken, 0, memory_order_relaxed);
}

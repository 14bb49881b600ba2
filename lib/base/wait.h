/* SPDX-License-Identifier: MIT */
/*
 * wait: how a request waits, without a thread of its own if need be.
 *
 * Whoever cannot go on puts a waiter into a wait queue and returns; wake() is
 * called once when it may look again. A blocking caller sleeps until then; an
 * asynchronous request is queued to the engine's workers. A waiter may be
 * woken for nothing: it always looks again.
 */
#ifndef DBH_BASE_WAIT_H
#define DBH_BASE_WAIT_H

#include <errno.h>

#include "base/list.h"
#include "base/lock.h"

/** "A waiter was queued; do not touch it again": as in the kernel. */
#ifndef EIOCBQUEUED
#define EIOCBQUEUED 529
#endif

/**
 * struct waiter - somebody who waits
 * @link: the queue's, from waitq_add() until wake()
 * @key: what for, where a queue serves several things
 * @arg: whatever the waker of that queue wants to know; set before queuing
 * @since_ns: when it began to be throttled, 0 if it is not; set before queuing,
 *	and its owner's again after the wake
 * @ticket: of its last waitq_add(), under the queue's lock
 * @wake: called once, with no lock held; the waiter may be gone afterwards
 */
struct waiter {
	struct list_head link;
	const void *key;
	uint64_t arg;
	uint64_t since_ns;
	uint64_t ticket;
	void (*wake)(struct waiter *w);
};

/**
 * struct waitq - who waits for something
 * @lock: of the list
 * @nr: how many; changed under @lock, read without
 * @tickets: given out
 */
struct waitq {
	struct mutex lock;
	_Atomic uint32_t nr;
	struct list_head list;
	uint64_t tickets;
};

void waitq_init(struct waitq *q);
/** Queue @w for @key. The caller then looks once more whether it need wait,
 * and if not takes it back with waitq_cancel(). Return: a ticket for that. */
uint64_t waitq_add(struct waitq *q, struct waiter *w, const void *key);
/** Take @w back, as it was queued with @ticket. Return: false if it was woken or
 * is just being woken, also if it has come back to this queue since. */
bool waitq_cancel(struct waitq *q, struct waiter *w, uint64_t ticket);
/** Wake up to @max waiters for @key, the first ones first; NULL: for any. */
void waitq_wake(struct waitq *q, const void *key, unsigned max);

/** Wake every waiter for which @test says so; it is called under the queue's
 * lock. */
void waitq_wake_if(struct waitq *q, bool (*test)(const struct waiter *w,
						 void *ctx),
		   void *ctx);

static inline bool waitq_active(struct waitq *q)
{
	/* seq_cst: pairs with waitq_add(); a waker changes the condition and
	 * then looks here, a waiter is counted here and then looks at the
	 * condition. */
	return atomic_load(&q->nr) != 0;
}

/** struct thread_waiter - a waiter for which a thread sleeps */
struct thread_waiter {
	struct waiter w;
	_Atomic uint32_t woken;
};

void thread_waiter_init(struct thread_waiter *tw);
/** Sleep until woken; then it can be used again. */
void thread_waiter_sleep(struct thread_waiter *tw);

#endif

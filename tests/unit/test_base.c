// SPDX-License-Identifier: MIT
/*
 * The base room: errseq (R15), mutex, event, wait queues, the io_lock (R8,
 * R24).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>

#include "base/errseq.h"
#include "base/iolock.h"
#include "base/lock.h"
#include "base/wait.h"
#include "scale.h"
#include "support/check.h"
#include "support/rng.h"

#define THREADS 6u

static uint64_t seed;

static void run_threads(void *(*fn)(void *), void *arg, size_t size)
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		CHECK_OK(pthread_create(&threads[i], NULL, fn,
					(char *)arg + i * size));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* ---- errseq ---------------------------------------------------------- */

static void test_errseq(void **state)
{
	errseq_t e = 0, a, b, late;

	(void)state;
	atomic_store(&a, errseq_sample(&e));
	atomic_store(&b, errseq_sample(&e));
	CHECK_IS(errseq_check_and_advance(&e, &a), 0);
	errseq_set(&e, -EIO);
	atomic_store(&late, errseq_sample(&e));
	CHECK_IS(errseq_check_and_advance(&e, &a), -EIO);
	CHECK_IS(errseq_check_and_advance(&e, &a), 0);
	CHECK_IS(errseq_check_and_advance(&e, &late), 0);
	/* The same error again is news again; the last one is told. */
	errseq_set(&e, -EIO);
	errseq_set(&e, -ENOSPC);
	CHECK_IS(errseq_check_and_advance(&e, &a), -ENOSPC);
	CHECK_IS(errseq_check_and_advance(&e, &b), -ENOSPC);
	CHECK_IS(errseq_check_and_advance(&e, &late), -ENOSPC);
	CHECK_IS(errseq_check_and_advance(&e, &b), 0);
	for (int i = 0; i < 100000; i++)
		errseq_set(&e, -EIO);
	CHECK_IS(errseq_check_and_advance(&e, &b), -EIO);
}

static errseq_t shared_err, shared_since;
static _Atomic unsigned told;

static void *ask(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++)
		if (errseq_check_and_advance(&shared_err, &shared_since))
			atomic_fetch_add(&told, 1);
	return NULL;
}

/* Several threads ask through one handle: one of them is told. */
static void test_errseq_once(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 20; n++) {
		errseq_set(&shared_err, -EIO);
		run_threads(ask, NULL, 0);
		CHECK_IS(atomic_load(&told), n);
	}
}

/* ---- mutex and event ------------------------------------------------- */

static struct mutex mutex;
static unsigned long guarded;

static void *count_up(void *arg)
{
	unsigned long n = test_scale(50000);

	(void)arg;
	for (unsigned long i = 0; i < n; i++) {
		if (i % 7 == 0) {
			while (!mutex_trylock(&mutex))
				;
		} else {
			mutex_lock(&mutex);
		}
		guarded++;
		mutex_unlock(&mutex);
	}
	return NULL;
}

static void test_mutex(void **state)
{
	(void)state;
	mutex_init(&mutex, RANK_LEAF);
	run_threads(count_up, NULL, 0);
	CHECK_IS(guarded, THREADS * test_scale(50000));
}

static struct event event;
static _Atomic unsigned long posted, taken;

static void *post(void *arg)
{
	unsigned long n = test_scale(5000);

	(void)arg;
	for (unsigned long i = 0; i < n; i++) {
		atomic_fetch_add(&posted, 1);
		event_set(&event);
	}
	return NULL;
}

static void *take(void *arg)
{
	unsigned long all = THREADS * test_scale(5000);

	(void)arg;
	/* No timeout: a set that was lost would hang here. */
	while (atomic_load(&taken) < all) {
		event_wait(&event, UINT64_MAX);
		atomic_store(&taken, atomic_load(&posted));
	}
	return NULL;
}

static void test_event(void **state)
{
	pthread_t taker;

	(void)state;
	event_init(&event);
	event_set(&event);
	event_wait(&event, UINT64_MAX); /* a set before is not lost */
	event_wait(&event, 1000000); /* and is reset: this times out */
	event_wait(&event, 0);
	pthread_create(&taker, NULL, take, NULL);
	run_threads(post, NULL, 0);
	pthread_join(taker, NULL);
}

/* ---- wait queues ----------------------------------------------------- */

static struct waitq waitq;
static _Atomic long tokens;

static bool take_token(void)
{
	long n = atomic_load(&tokens);

	while (n > 0)
		if (atomic_compare_exchange_weak(&tokens, &n, n - 1))
			return true;
	return false;
}

/* As everyone uses them: look, queue, look again, cancel or sleep. */
static void *want_tokens(void *arg)
{
	unsigned long n = test_scale(5000);
	struct thread_waiter tw;

	(void)arg;
	thread_waiter_init(&tw);
	for (unsigned long i = 0; i < n; i++) {
		while (!take_token()) {
			uint64_t ticket = waitq_add(&waitq, &tw.w, &tokens);

			if (atomic_load(&tokens) > 0 &&
			    waitq_cancel(&waitq, &tw.w, ticket))
				continue;
			thread_waiter_sleep(&tw);
		}
	}
	return NULL;
}

static void *give_tokens(void *arg)
{
	unsigned long n = THREADS * test_scale(5000);

	(void)arg;
	for (unsigned long i = 0; i < n; i++) {
		atomic_fetch_add(&tokens, 1);
		if (waitq_active(&waitq))
			waitq_wake(&waitq, &tokens, UINT32_MAX);
	}
	return NULL;
}

static void test_waitq_loses_none(void **state)
{
	pthread_t giver;

	(void)state;
	waitq_init(&waitq);
	pthread_create(&giver, NULL, give_tokens, NULL);
	run_threads(want_tokens, NULL, 0);
	pthread_join(giver, NULL);
	CHECK_IS(atomic_load(&tokens), 0);
	CHECK_IS(atomic_load(&waitq.nr), 0);
}

static unsigned woken_order[8], nr_woken;

struct numbered {
	struct waiter w;
	unsigned nr;
};

static void note_woken(struct waiter *w)
{
	woken_order[nr_woken++] = container_of(w, struct numbered, w)->nr;
}

static void test_waitq_order_and_keys(void **state)
{
	struct numbered w[6];
	uint64_t ticket[6];
	char key[2];

	(void)state;
	waitq_init(&waitq);
	for (unsigned i = 0; i < 6; i++) {
		w[i].nr = i;
		w[i].w.wake = note_woken;
		ticket[i] = waitq_add(&waitq, &w[i].w, &key[i % 2]);
	}
	waitq_wake(&waitq, &key[1], 2);
	CHECK_IS(nr_woken, 2);
	CHECK_IS(woken_order[0], 1);
	CHECK_IS(woken_order[1], 3);
	CHECK(!waitq_cancel(&waitq, &w[1].w, ticket[1]), "it was woken");
	CHECK(!waitq_cancel(&waitq, &w[2].w, ticket[4]),
	      "queued by another who has gone on since");
	CHECK(waitq_cancel(&waitq, &w[2].w, ticket[2]), "it is queued");
	CHECK(!waitq_cancel(&waitq, &w[2].w, ticket[2]), "it was taken back");
	waitq_wake(&waitq, NULL, 100);
	CHECK_IS(nr_woken, 5);
	CHECK_IS(woken_order[2], 0);
	CHECK_IS(woken_order[3], 4);
	CHECK_IS(woken_order[4], 5);
	CHECK(!waitq_active(&waitq), "nobody is left");
}

/* ---- io_lock --------------------------------------------------------- */

static struct iolock iolock;
static _Atomic int inside_shared, inside_alone;

static void *use_iolock(void *arg)
{
	struct rng r = rng_fork(seed, *(unsigned *)arg);
	unsigned long n = test_scale(5000);
	struct thread_waiter tw;

	thread_waiter_init(&tw);
	for (unsigned long i = 0; i < n; i++) {
		if (rng_chance(&r, 10)) {
			if (rng_chance(&r, 50)) {
				iolock_exclusive(&iolock);
			} else {
				bool claimed = false;

				if (iolock_exclusive_try(&iolock, NULL,
							 &claimed))
					continue;
			}
			CHECK_IS(atomic_fetch_add(&inside_alone, 1), 0);
			CHECK_IS(atomic_load(&inside_shared), 0);
			atomic_fetch_sub(&inside_alone, 1);
			iolock_unexclusive(&iolock);
		} else {
			bool wait = rng_chance(&r, 80);
			int slot;

			while ((slot = iolock_shared(&iolock,
						     wait ? &tw.w : NULL)) ==
			       -EIOCBQUEUED)
				thread_waiter_sleep(&tw);
			if (slot == -EAGAIN)
				continue;
			CHECK(slot >= 0, "%d", slot);
			atomic_fetch_add(&inside_shared, 1);
			CHECK_IS(atomic_load(&inside_alone), 0);
			atomic_fetch_sub(&inside_shared, 1);
			iolock_unshared(&iolock, slot);
		}
	}
	return NULL;
}

static void test_iolock(void **state)
{
	unsigned ids[THREADS] = { 0, 1, 2, 3, 4, 5 };

	(void)state;
	iolock_init(&iolock);
	run_threads(use_iolock, ids, sizeof(ids[0]));
	/* And it is free at the end. */
	iolock_exclusive(&iolock);
	CHECK_IS(iolock_shared(&iolock, NULL), -EAGAIN);
	iolock_unexclusive(&iolock);
	iolock_unshared(&iolock, iolock_shared(&iolock, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errseq),
		cmocka_unit_test(test_errseq_once),
		cmocka_unit_test(test_mutex),
		cmocka_unit_test(test_event),
		cmocka_unit_test(test_waitq_loses_none),
		cmocka_unit_test(test_waitq_order_and_keys),
		cmocka_unit_test(test_iolock),
	};

	guard(120);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

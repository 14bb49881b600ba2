// SPDX-License-Identifier: MIT
/*
 * lock: the slow paths of the mutex and the event, on futexes.
 */
#include "base/lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A holder leaves within some hundred ns unless it was preempted; a sleep and
 * a wake cost several µs. */
#define SPINS 64

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

void futex_wait(_Atomic uint32_t *addr, uint32_t val, uint64_t timeout_ns)
{
	struct timespec ts, *tsp = NULL;

	if (timeout_ns != UINT64_MAX) {
		ts.tv_sec = (time_t)(timeout_ns / 1000000000u);
		ts.tv_nsec = (long)(timeout_ns % 1000000000u);
		tsp = &ts;
	}
	syscall(SYS_futex, addr, FUTEX_WAIT_PRIVATE, val, tsp, NULL, 0);
}

void futex_wake(_Atomic uint32_t *addr, int nr)
{
	syscall(SYS_futex, addr, FUTEX_WAKE_PRIVATE, nr, NULL, NULL, 0);
}

void futex_wait_bits(_Atomic uint32_t *addr, uint32_t val, uint32_t bits)
{
	syscall(SYS_futex, addr, FUTEX_WAIT_BITSET_PRIVATE, val, NULL, NULL,
		bits);
}

void futex_wake_bits(_Atomic uint32_t *addr, uint32_t bits)
{
	syscall(SYS_futex, addr, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL,
		bits);
}

void mutex_lock_slow(struct mutex *m)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t v = atomic_load_explicit(&m->v, memory_order_relaxed);

		if (v == 0 && atomic_compare_exchange_weak_explicit(
				      &m->v, &v, 1, memory_order_acquire,
				      memory_order_relaxed))
			return;
		if (v == 2)
			break;
		cpu_relax();
	}
	/* 2 tells the holder to wake; a sleeper cannot know whether it is the
	 * last one, so it takes the mutex as 2. */
	while (atomic_exchange_explicit(&m->v, 2, memory_order_acquire) != 0)
		futex_wait(&m->v, 2, UINT64_MAX);
}

void mutex_unlock_slow(struct mutex *m)
{
	futex_wake(&m->v, 1);
}

enum { EVENT_CLEAR, EVENT_SET, EVENT_ASLEEP };

void event_init(struct event *ev)
{
	atomic_init(&ev->v, EVENT_CLEAR);
}

void event_set(struct event *ev)
{
	/* seq_cst: what the caller stored before must be seen by an owner that
	 * resets the event and then looks. */
	if (atomic_exchange(&ev->v, EVENT_SET) == EVENT_ASLEEP)
		futex_wake(&ev->v, 1);
}

void event_wait(struct event *ev, uint64_t timeout_ns)
{
	uint32_t clear = EVENT_CLEAR;

	if (timeout_ns && atomic_compare_exchange_strong(&ev->v, &clear,
							 EVENT_ASLEEP))
		futex_wait(&ev->v, EVENT_ASLEEP, timeout_ns);
	atomic_exchange(&ev->v, EVENT_CLEAR);
}

#ifdef DBH_DEBUG
/* The mutexes that this thread holds, in the order in which it took them. */
#define WITNESS_MAX 16
static __thread const struct mutex *held[WITNESS_MAX];
static __thread unsigned nr_held;

void witness_take(const struct mutex *m, bool tried)
{
	/* A try cannot deadlock, whatever its order. */
	if (!tried && nr_held)
		assert(held[nr_held - 1]->rank < m->rank);
	assert(nr_held < WITNESS_MAX);
	held[nr_held++] = m;
}

void witness_drop(const struct mutex *m)
{
	for (unsigned i = nr_held; i-- > 0;) {
		if (held[i] != m)
			continue;
		for (; i + 1 < nr_held; i++)
			held[i] = held[i + 1];
		nr_held--;
		return;
	}
	assert(!"a mutex is dropped that is not held");
}

bool witness_held(const struct mutex *m)
{
	for (unsigned i = 0; i < nr_held; i++)
		if (held[i] == m)
			return true;
	return false;
}
#endif

// SPDX-License-Identifier: MIT
/*
 * iolock: shared and exclusive use of a file.
 *
 * A shared taker counts itself and then looks at excl; an exclusive taker sets
 * excl and then looks at the counts. All four are seq_cst, so at least one of
 * two that come together sees the other. Whoever backs off or leaves while
 * excl is set wakes the one that drains (its key is &excl), and only it: the
 * others wait until excl is dropped.
 */
#include "base/iolock.h"

#include <sched.h>

void iolock_init(struct iolock *l)
{
	for (int i = 0; i < IOLOCK_SLOTS; i++)
		atomic_init(&l->slot[i].nr, 0);
	atomic_init(&l->excl, 0);
	waitq_init(&l->waiters);
}

int iolock_shared(struct iolock *l, struct waiter *w)
{
	int slot = (int)((unsigned)sched_getcpu() % IOLOCK_SLOTS);
	uint64_t ticket;

	for (;;) {
		atomic_fetch_add(&l->slot[slot].nr, 1);
		if (likely(!atomic_load(&l->excl)))
			return slot;
		iolock_unshared(l, slot);
		if (!w)
			return -EAGAIN;
		ticket = waitq_add(&l->waiters, w, l);
		if (atomic_load(&l->excl) ||
		    !waitq_cancel(&l->waiters, w, ticket))
			return -EIOCBQUEUED;
	}
}

void iolock_unshared(struct iolock *l, int slot)
{
	atomic_fetch_sub(&l->slot[slot].nr, 1);
	if (unlikely(atomic_load(&l->excl)))
		waitq_wake(&l->waiters, &l->excl, 1);
}

static bool drained(struct iolock *l)
{
	for (int i = 0; i < IOLOCK_SLOTS; i++)
		if (atomic_load(&l->slot[i].nr))
			return false;
	return true;
}

int iolock_exclusive_try(struct iolock *l, struct waiter *w, bool *claimed)
{
	for (;;) {
		uint32_t free = 0;
		uint64_t ticket;
		bool ours;

		if (!*claimed)
			*claimed = atomic_compare_exchange_strong(&l->excl,
								  &free, 1);
		if (*claimed && drained(l))
			return 0;
		if (!w) {
			if (*claimed) {
				*claimed = false;
				iolock_unexclusive(l);
			}
			return -EAGAIN;
		}
		/* Not to be touched once the waiter is queued. */
		ours = *claimed;
		ticket = waitq_add(&l->waiters, w,
				   ours ? (const void *)&l->excl : l);
		if (ours ? !drained(l) : atomic_load(&l->excl) != 0)
			return -EIOCBQUEUED;
		if (!waitq_cancel(&l->waiters, w, ticket))
			return -EIOCBQUEUED;
	}
}

void iolock_exclusive(struct iolock *l)
{
	struct thread_waiter tw;
	bool claimed = false;

	thread_waiter_init(&tw);
	while (iolock_exclusive_try(l, &tw.w, &claimed) == -EIOCBQUEUED)
		thread_waiter_sleep(&tw);
}

void iolock_unexclusive(struct iolock *l)
{
	atomic_store(&l->excl, 0);
	if (waitq_active(&l->waiters))
		waitq_wake(&l->waiters, NULL, UINT32_MAX);
}

// SPDX-License-Identifier: MIT
/*
 * folio: its lock, and waiting for it.
 *
 * Waiters stand in a small table of queues, keyed by the folio; the key of
 * those that wait for a writeback is the address of its flags.
 */
#include "mm/folio.h"

#include "mm/engine.h"

static struct waitq *folio_waitq(struct dbh_engine *e, const struct folio *f)
{
	return &e->folio_waitq[((uintptr_t)f / sizeof(*f)) %
			       ENGINE_FOLIO_WAITQS];
}

bool folio_wait_unlock(struct dbh_engine *e, struct folio *f, struct waiter *w)
{
	struct waitq *q = folio_waitq(e, f);
	uint64_t ticket;
	uint32_t v;

	ticket = waitq_add(q, w, f);
	v = atomic_load(&f->lock);
	while (v == 1)
		if (atomic_compare_exchange_weak(&f->lock, &v, 2))
			v = 2;
	if (v == 2)
		return true;
	return !waitq_cancel(q, w, ticket);
}

void folio_lock(struct dbh_engine *e, struct folio *f)
{
	struct thread_waiter tw;

	if (likely(folio_trylock(f)))
		return;
	thread_waiter_init(&tw);
	do {
		if (folio_wait_unlock(e, f, &tw.w))
			thread_waiter_sleep(&tw);
	} while (!folio_trylock(f));
}

void folio_unlock_slow(struct dbh_engine *e, struct folio *f)
{
	waitq_wake(folio_waitq(e, f), f, UINT32_MAX);
}

void folio_wait_writeback(struct dbh_engine *e, struct folio *f,
			  struct waiter *w)
{
	assert(f->flags & FOLIO_WRITEBACK);
	f->flags |= FOLIO_WB_WAITERS;
	waitq_add(folio_waitq(e, f), w, &f->flags);
}

void folio_wake_writeback(struct dbh_engine *e, struct folio *f)
{
	if (likely(!(f->flags & FOLIO_WB_WAITERS)))
		return;
	f->flags &= ~FOLIO_WB_WAITERS;
	waitq_wake(folio_waitq(e, f), &f->flags, UINT32_MAX);
}

/* SPDX-License-Identifier: MIT */
/*
 * iolock: many readers and writers of a file share it, truncate and append
 * have it alone.
 *
 * Shared holders count themselves in one of several slots, so that threads on
 * different CPUs do not fight for a cache line. Whoever waits does so through
 * a waiter, and it is held by a request, not by a thread: another thread may
 * drop it. It comes before folio locks and every mutex.
 */
#ifndef DBH_BASE_IOLOCK_H
#define DBH_BASE_IOLOCK_H

#include "base/wait.h"

#define IOLOCK_SLOTS 4

struct iolock {
	struct {
		_Atomic uint32_t nr;
	} cacheline_aligned slot[IOLOCK_SLOTS];
	_Atomic uint32_t excl; /* somebody has it, or drains it, alone */
	struct waitq waiters;
};

void iolock_init(struct iolock *l);
/**
 * iolock_shared - take it shared
 * @w: queued if it cannot be had; NULL: do not wait
 * Return: the slot, to be given back; -EAGAIN; -EIOCBQUEUED: try again when
 * @w was woken.
 */
int iolock_shared(struct iolock *l, struct waiter *w);
void iolock_unshared(struct iolock *l, int slot);
/** Take it alone; sleeps until the shared holders have left. */
void iolock_exclusive(struct iolock *l);
/**
 * iolock_exclusive_try - take it alone, without a thread that sleeps
 * @claimed: false at first; kept between tries of one request
 * Return: 0, -EAGAIN (no @w; nothing is claimed), -EIOCBQUEUED
 */
int iolock_exclusive_try(struct iolock *l, struct waiter *w, bool *claimed);
void iolock_unexclusive(struct iolock *l);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * throttle: bounds of dirty memory per device, and how writers are slowed down
 * towards them (R12).
 */
#ifndef DBH_MM_THROTTLE_H
#define DBH_MM_THROTTLE_H

#include "base/wait.h"
#include "mm/folio.h"

struct mapping;
struct wb;

/**
 * struct dirty_throttle - the dirty limits of a device; part of its wb
 * @nr_dirty: pages DIRTY, WRITEBACK or reserved; atomic
 * @thresh: @nr_dirty at most
 * @freerun: while no more pages than this could be written, nobody is slowed
 *	down
 * @background: from here on cached dirty data is written
 * @bandwidth: pages that it writes in a second, smoothed
 * @credit: bytes that are let in; @earned: not yet, it was not worth a wake
 * @throttled: writers that are slowed down
 * @limited: writers that met @thresh
 * @busy_since_ns: since when it writes, or last counted
 * @busy_ns, @busy_pages: of the measurement under way
 *
 * The limits are written by dirty_limits_update() and read anywhere, relaxed;
 * the last three are under wb->list_lock.
 */
struct dirty_throttle {
	_Atomic long nr_dirty;
	_Atomic long thresh, freerun, background;
	_Atomic long bandwidth;
	_Atomic long credit, earned;
	struct waitq throttled, limited;
	uint64_t busy_since_ns, busy_ns;
	uint64_t busy_pages;
};

void throttle_init(struct wb *wb);

/** Reckon the limits of all devices anew. Any context; cheap. */
void dirty_limits_update(struct dbh_engine *e);

/** Limits in pages, as the kernel's function; see struct dirty_throttle. */
void wb_dirty_limits(struct wb *wb, long *background, long *thresh);
/** Pages a second. */
long wb_write_bandwidth(struct wb *wb);

/**
 * dirty_reserve - pay for pages that will become dirty
 * Return: false if a limit is reached; nothing is reserved
 */
bool dirty_reserve(struct mapping *m, long pages);
void dirty_unreserve(struct wb *wb, long pages);
/** The same for a locked folio, remembered by FOLIO_CHARGED until it becomes
 * dirty or dirty_uncharge() finds that it has not. */
bool dirty_charge(struct folio *f);
void dirty_uncharge(struct folio *f);

/**
 * balance_dirty_pages - before a piece of a write of @bytes: its turn?
 *
 * Admits at once while little waits to be written, then at the pace at which
 * the device writes. Who has been woken has been admitted: the call that
 * follows returns 0.
 * Context: no folio is held. @w: queued; NULL: do not wait
 * Return: 0; -EIOCBQUEUED; -EAGAIN
 */
int balance_dirty_pages(struct wb *wb, size_t bytes, struct waiter *w);
/** dirty_reserve() of @pages has failed: queue @w until it may succeed.
 * Return: 0: at once; -EIOCBQUEUED; -EAGAIN without a waiter; the error of a
 * device of which nearly all that may be dirty has failed */
int dirty_limit_wait(struct mapping *m, long pages, struct waiter *w);

/** A write bio begins; @pages of it were written, 0 if it failed, and its
 * folios are not WRITEBACK any more. No lock held. */
void wb_io_begin(struct wb *wb);
void wb_io_end(struct wb *wb, long pages);
/** Pages became clean, or were dropped, without a bio. */
void dirty_wake(struct wb *wb);
/** Somebody waits for the device to write. */
bool throttle_waiters(struct wb *wb);
/** The safety net: some of those who wait look again. */
void throttle_tick(struct wb *wb);

/** Who is about to queue @w, for memory or for neighbours, is throttled, until
 * throttle_end(), which its owner calls when it goes on. */
void throttle_begin(struct dbh_engine *e, struct waiter *w);
void throttle_end(struct dbh_engine *e, struct waiter *w);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * backing_dev: a backing device's writeback state and its counters (R10).
 */
#ifndef DBH_MM_BACKING_DEV_H
#define DBH_MM_BACKING_DEV_H

#include <pthread.h>

#include "mm/mapping.h"
#include "mm/throttle.h"

/** Counters in pages, named as the kernel's. */
enum wb_stat {
	WB_DIRTY,
	WB_WRITEBACK,
	WB_DONTCACHE_DIRTY, /* dirty and dropbehind */
	WB_DIRTIED, /* ever */
	WB_WRITTEN, /* ever */
	NR_WB_STATS,
};

/** Kinds of requests; none waits for another. */
enum bio_kind { BIO_KIND_WB, BIO_KIND_READ, BIO_KIND_FILL, NR_BIO_KINDS };

/**
 * struct wb - writeback of one device
 * @list_lock: of the lists
 * @ready: nodes of which all pages may be written
 * @partial: nodes of which some may, oldest first
 * @b_dirty: mappings with dirty pages, oldest first
 * @nr_ready, @nr_partial, @nr_b_dirty: how many are on these lists; atomic,
 *	changed under @list_lock
 * @nr_io: nodes that the flusher has taken and not yet written; atomic, its own
 * @ioq: how its files issue; a device of its own has requests of its own in
 *	flight. NULL until wb_ioq_locked().
 * @edges: unmarked edges of its files, oldest first; @nr_on_edges; lru.lock
 * @nr_edges: incomplete ones, in pages; atomic
 * @bios_held: requests that are its own for now; under bio_lock, read without
 * @in_flight: write bios; atomic
 * @nr_failed: pages of which the last writeback failed; @failed_err: -errno of
 *	the last failure; atomic
 * @space_next: when so many pages were dirtied, ask how much space is left
 * @dt: its dirty limits, and who waits because of them
 * @flusher, @kick: the thread, and what wakes it
 * @busy: it is in a round
 * @alarm_ms: how long it means to sleep; 0 while it is awake
 * @pressure: somebody waits for memory: write everything that may be
 */
struct wb {
	struct dbh_engine *engine;
	dev_t dev;
	_Atomic(struct wb *) next; /* in engine->wbs */
	_Atomic long stat[NR_WB_STATS] cacheline_aligned;
	struct mutex list_lock cacheline_aligned;
	struct list_head ready;
	struct list_head partial;
	struct list_head b_dirty;
	_Atomic unsigned nr_ready;
	_Atomic unsigned nr_partial;
	_Atomic unsigned nr_b_dirty;
	_Atomic unsigned nr_io;
	struct ioq *ioq;
	struct list_head edges;
	_Atomic long nr_on_edges;
	_Atomic long nr_edges cacheline_aligned;
	_Atomic long in_flight;
	_Atomic long nr_failed;
	_Atomic int failed_err;
	_Atomic long space_next;
	struct dirty_throttle dt;
	_Atomic long bios_held[NR_BIO_KINDS];
	pthread_t flusher;
	struct event kick;
	_Atomic bool busy;
	_Atomic uint32_t alarm_ms;
	_Atomic bool pressure;
	_Atomic bool stop;
};

/** The wb of @dev, made with its flusher if need be; it stays until the engine
 * goes. engine->lock is held. Return: 0 or -errno */
int wb_get_locked(struct dbh_engine *e, dev_t dev, struct wb **out);
/** Its ioq, made at the first call. engine->lock is held. Return: 0 or -errno */
int wb_ioq_locked(struct wb *wb, struct ioq **out);
/** End the flusher; nothing is dirty. */
void wb_stop(struct wb *wb);
/** All flushers have ended: they look at each other's devices. */
void wb_destroy(struct wb *wb);

/* All wbs of an engine, without a lock. */
struct wb *wb_first(struct dbh_engine *e);
static inline struct wb *wb_next(struct wb *wb)
{
	return atomic_load_explicit(&wb->next, memory_order_acquire);
}

static inline long wb_stat(struct wb *wb, enum wb_stat item)
{
	return atomic_load_explicit(&wb->stat[item], memory_order_relaxed);
}

/**
 * folio_change - the one setter of FOLIO_ACCOUNTED flags
 *
 * Keeps the node's tags, the wb's and engine's counters and the lists of the
 * flusher with them. The folio and its node are locked; a folio that was
 * charged for DIRTY loses the charge to it.
 */
void folio_change(struct node *n, struct folio *f, uint32_t set,
		  uint32_t clear);
/** folio_change() for one who does not hold the node. */
void folio_change_flags(struct folio *f, uint32_t set, uint32_t clear);
/** Put a locked node on the list where the flusher will find what may be written
 * of it; folio_change() does so itself. */
void node_wb_update(struct wb *wb, struct node *n);

#ifdef DBH_PARANOID
/* Whoever changes flags, tags and counters does so between enter and leave;
 * the recount keeps them all out. */
void paranoid_enter(void);
void paranoid_leave(void);
/** Recount everything; abort on a difference. */
void paranoid_recount(struct dbh_engine *e);
#else
static inline void paranoid_enter(void)
{
}
static inline void paranoid_leave(void)
{
}
static inline void paranoid_recount(struct dbh_engine *e)
{
	(void)e;
}
#endif

#endif

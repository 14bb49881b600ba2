/* SPDX-License-Identifier: MIT */
/*
 * reclaim: which folios go when memory is wanted, and waiting for it.
 */
#ifndef DBH_MM_RECLAIM_H
#define DBH_MM_RECLAIM_H

#include "mm/folio.h"

struct wb;

/**
 * struct lru - folios by age
 * @lock: of both, and of each wb's edges: unmarked ones, complete or not (R5)
 * @once: brought in by uncached reads (R17)
 * @cached: of cached accesses
 */
struct lru {
	struct mutex lock;
	struct list_head once, cached;
};

void lru_init(struct lru *lru);
/** Put a locked folio at the young end of the list that @on names (one of
 * FOLIO_ON_LIST, 0 for none), off any other. */
void lru_move(struct dbh_engine *e, struct folio *f, uint32_t on);

/**
 * mem_wait - there is no memory: queue @w until there may be
 * @seq: mem_seq() from before the attempt that failed
 * Return: -EIOCBQUEUED; 0: look again; -EAGAIN without a waiter
 */
int mem_wait(struct dbh_engine *e, uint32_t seq, struct waiter *w);
/** Pages or nodes were freed, or dirty pages cleaned. */
void mem_wake(struct dbh_engine *e);
void mem_wake_some(struct dbh_engine *e);
/** Give a folio that is in no mapping back to the pool, and say so. */
void folio_free(struct dbh_engine *e, struct folio *f);

/** Drop up to @want clean pages that nobody needs. Return: pages freed. */
size_t reclaim_clean(struct dbh_engine *e, size_t want);

/** Drop what uncached reads brought in and nobody has read on for @age_ms. */
void reclaim_once_expired(struct dbh_engine *e, uint32_t age_ms);
/** Does something come of age that the flusher of @wb has to look for? */
bool lru_needs_tick(struct wb *wb);

/**
 * folio_insert - mapping_insert(), dropping clean folios if there is no node
 * Return: 0: @f is locked; -EEXIST, -ENOMEM: it was given back to the pool
 */
int folio_insert(struct mapping *m, struct folio *f, pgoff_t index);

/** A folio for a mapping, unlocked: from the pool, or by reclaim of clean
 * ones, of @order or, if need be, down to @min_order. NULL: wait. */
struct folio *folio_alloc(struct dbh_engine *e, unsigned order,
			  unsigned min_order);

#endif

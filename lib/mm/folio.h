/* SPDX-License-Identifier: MIT */
/*
 * folio: a naturally aligned power-of-two run of pages, the unit of caching,
 * locking and I/O.
 *
 * A struct folio stands for each page of the pool, as struct page does in the
 * kernel; that of the first page speaks for the whole folio. Its memory is
 * type-stable: whoever looked up a folio locks it and then checks, with
 * folio_is(), that it is still the one; no reference count is needed.
 */
#ifndef DBH_MM_FOLIO_H
#define DBH_MM_FOLIO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/wait.h"
#include "mm/coverage.h"

#define PAGE_SHIFT 12
#define PAGE_BYTES 4096u
/** The largest folio: a node's span, 256 KiB. */
#define MAX_ORDER 6u

/** An index or a number of pages of PAGE_BYTES. */
typedef uint64_t pgoff_t;

struct dbh_engine;
struct mapping;

/*
 * State of a folio. All flags are changed under the folio lock; those of
 * FOLIO_ACCOUNTED only by folio_change(), which keeps tags and counters with
 * them. Free: mapping is NULL. In a mapping, what may be set together:
 *
 *   not UPTODATE  an edge whose missing bytes are unknown: EDGE and DIRTY;
 *		   or a place-holder, locked while it is read
 *   EDGE	   coverage counts; incomplete; never DROPBEHIND, COMPLETE
 *   COMPLETE	   covered whole by deferred writes, not marked
 *   DEFERRED	   and that by one write: dropped by the writeback that cleans it,
 *		   which a sync starts
 *   DROPBEHIND	   to be dropped by the writeback that cleans it
 *   WRITEBACK	   a bio reads its memory: no byte changes; never DIRTY
 *   CACHED	   a cached access has touched it (R3): never DROPBEHIND
 */
enum folio_flags {
	FOLIO_UPTODATE = 1u << 0, /* every byte is known */
	FOLIO_DIRTY = 1u << 1, /* newer than the store */
	FOLIO_WRITEBACK = 1u << 2,
	FOLIO_DROPBEHIND = 1u << 3,
	FOLIO_EDGE = 1u << 4,
	FOLIO_COMPLETE = 1u << 5,
	FOLIO_CACHED = 1u << 6,
	FOLIO_READ_ONCE = 1u << 7, /* brought in by an uncached read (R17) */
	FOLIO_FAILED = 1u << 8, /* its last writeback failed (R15); counted */
	FOLIO_REFERENCED = 1u << 9, /* touched again since it was brought in */
	FOLIO_WB_WAITERS = 1u << 10, /* somebody waits for the writeback */
	FOLIO_CHARGED = 1u << 11, /* a locked writer has paid for DIRTY */
	FOLIO_ON_EDGES = 1u << 12, /* linked in wb->edges */
	FOLIO_ON_LRU = 1u << 13, /* linked in lru.cached */
	FOLIO_ON_ONCE = 1u << 14, /* linked in lru.once */
	FOLIO_EVICTING = 1u << 15, /* edge on its way out; see edge_evict() */
	FOLIO_DEFERRED = 1u << 16, /* COMPLETE, of a single write */
	FOLIO_ERROR = 1u << 17, /* a read of it, or of its gaps, failed */
	FOLIO_ALONE = 1u << 18, /* ERROR of a read of several: try it alone */
};

#define FOLIO_ACCOUNTED \
	(FOLIO_DIRTY | FOLIO_WRITEBACK | FOLIO_DROPBEHIND | FOLIO_EDGE)
#define FOLIO_ON_LIST (FOLIO_ON_EDGES | FOLIO_ON_LRU | FOLIO_ON_ONCE)

/**
 * struct folio
 * @lock: 0 free, 1 held, 2 held and somebody may wait
 * @flags: enum folio_flags; under the lock
 * @mapping: NULL while free; under the lock
 * @index: in the mapping, in pages; under the lock
 * @lru: while free the pool's; else lru.lock's, on the list that
 *	FOLIO_ON_LIST names
 * @stamp: clock_coarse_ms() when it became an edge or was brought in
 * @order: log2 of its pages; under the lock, or the pool's
 * @cov: coverage, while EDGE; under the lock
 * @read_bytes: of a READ_ONCE folio, how much was read of it; shares the
 *	place of the coverage
 */
struct folio {
	_Atomic uint32_t lock;
	uint32_t flags;
	struct mapping *mapping;
	pgoff_t index;
	struct list_head lru;
	uint32_t stamp;
	uint8_t order;
	uint8_t pool_free; /* the pool's: head of a free block */
	union {
		struct coverage cov;
		uint32_t read_bytes;
	};
};

static inline pgoff_t folio_pages(const struct folio *f)
{
	return (pgoff_t)1 << f->order;
}

static inline size_t folio_bytes(const struct folio *f)
{
	return (size_t)PAGE_BYTES << f->order;
}

/** Byte offset of its start in the file. */
static inline uint64_t folio_pos(const struct folio *f)
{
	return f->index << PAGE_SHIFT;
}

/* ---- lock ------------------------------------------------------------ */

static inline bool folio_trylock(struct folio *f)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong_explicit(
		&f->lock, &free, 1, memory_order_acquire, memory_order_relaxed);
}

/** Sleep until it is ours. The holder may be reading it from the store. */
void folio_lock(struct dbh_engine *e, struct folio *f);

void folio_unlock_slow(struct dbh_engine *e, struct folio *f);

static inline void folio_unlock(struct dbh_engine *e, struct folio *f)
{
	if (unlikely(atomic_exchange_explicit(&f->lock, 0,
					      memory_order_release) == 2))
		folio_unlock_slow(e, f);
}

/** Queue @w until @f is unlocked. Return: false if it is not locked now. */
bool folio_wait_unlock(struct dbh_engine *e, struct folio *f, struct waiter *w);

/** Queue @w until the writeback of @f ends. @f is locked and WRITEBACK. */
void folio_wait_writeback(struct dbh_engine *e, struct folio *f,
			  struct waiter *w);
/** Called under the lock by whoever has cleared WRITEBACK. */
void folio_wake_writeback(struct dbh_engine *e, struct folio *f);

/** Under its lock: is this still the folio of @m that holds page @index? */
static inline bool folio_is(const struct folio *f, const struct mapping *m,
			    pgoff_t index)
{
	/* The mapping first: the rest is ours to read only if it matches. */
	return f->mapping == m && index - f->index < folio_pages(f);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * pool: the memory of all folios, within the engine's budget.
 *
 * One arena, mapped once. Free memory is kept by a buddy allocator and, for
 * single pages, by a cache per CPU; both hand out what was freed last, which
 * is still in the processor's cache, and a cache is refilled with neighbouring
 * pages, so that a stream's bios need few vectors.
 */
#ifndef DBH_MM_POOL_H
#define DBH_MM_POOL_H

#include "mm/folio.h"

/* Pages that one CPU's cache holds at most, in a large pool. */
#define PCP_HIGH 96u
#define PCP_BATCH_ORDER 5u

struct pcp {
	struct mutex lock;
	unsigned nr;
	uint32_t page[PCP_HIGH];
} cacheline_aligned;

/**
 * struct pool
 * @base: of the arena; page-aligned
 * @folios: one for each page
 * @nr_pages, @nr_cpus, @pcp_high: set before publish
 * @lock: of @free and the blocks in it
 * @free: per order, blocks by FOLIO.lru
 * @nr_free: pages free, those in the pcps included
 * @low_free: the smallest @nr_free ever
 * @bitmaps: slab of coverage bitmaps; see coverage_reserve()
 */
struct pool {
	char *base;
	struct folio *folios;
	size_t nr_pages;
	size_t arena_bytes;
	unsigned nr_cpus;
	unsigned pcp_high;
	struct pcp *pcp;
	struct mutex lock cacheline_aligned;
	struct list_head free[MAX_ORDER + 1];
	_Atomic size_t nr_free cacheline_aligned;
	_Atomic size_t low_free;
	struct mutex slab_lock;
	struct list_head slab_partial;
};

/** Return: 0 or -ENOMEM */
int pool_init(struct pool *pool, size_t nr_pages);
void pool_fini(struct pool *pool);
/** Bytes of metadata per page and per pool, for the budget. */
size_t pool_page_overhead(void);

/** A free folio of @order, unlocked, or NULL. Never sleeps. */
struct folio *pool_alloc(struct pool *pool, unsigned order);
/** Give back folios that are in no mapping. */
void pool_free(struct pool *pool, struct folio *f);
void pool_free_bulk(struct pool *pool, struct folio **f, unsigned nr);

static inline char *folio_data(const struct pool *pool, const struct folio *f)
{
	return pool->base + (size_t)(f - pool->folios) * PAGE_BYTES;
}

/** The struct folio of the page at @addr in the arena. */
static inline struct folio *folio_of(const struct pool *pool, const void *addr)
{
	return &pool->folios[(size_t)((const char *)addr - pool->base) /
			     PAGE_BYTES];
}

static inline size_t pool_nr_free(struct pool *pool)
{
	return atomic_load_explicit(&pool->nr_free, memory_order_relaxed);
}

/** A bitmap for the coverage of a folio of @size bytes, or NULL. */
uint64_t *pool_bitmap_alloc(struct pool *pool, unsigned size);
void pool_bitmap_free(struct pool *pool, uint64_t *map, unsigned size);

#endif

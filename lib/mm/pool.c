// SPDX-License-Identifier: MIT
/*
 * pool: a buddy allocator with a cache of single pages per CPU.
 *
 * Locks: pcp->lock, then pool->lock; pool->slab_lock alone, never with them.
 * A free block is on free[order] with pool_free set in its first folio; pages
 * in a pcp are on no list and have it clear.
 */
#include "mm/pool.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES (2ul << 20)

static uint32_t page_nr(const struct pool *pool, const struct folio *f)
{
	return (uint32_t)(f - pool->folios);
}

/* ---- buddy ----------------------------------------------------------- */

static void block_add(struct pool *pool, uint32_t page, unsigned order)
{
	struct folio *f = &pool->folios[page];

	f->order = (uint8_t)order;
	f->pool_free = 1;
	list_add(&f->lru, &pool->free[order]);
}

static void block_del(struct folio *f)
{
	f->pool_free = 0;
	list_del(&f->lru);
}

static void buddy_free_locked(struct pool *pool, uint32_t page, unsigned order)
{
	assert_held(&pool->lock);
	while (order < MAX_ORDER) {
		uint32_t buddy = page ^ (1u << order);
		struct folio *f = &pool->folios[buddy];

		if (buddy + (1u << order) > pool->nr_pages || !f->pool_free ||
		    f->order != order)
			break;
		block_del(f);
		page &= ~(1u << order);
		order++;
	}
	block_add(pool, page, order);
}

static struct folio *buddy_alloc_locked(struct pool *pool, unsigned order)
{
	struct folio *f;
	unsigned o = order;

	assert_held(&pool->lock);
	while (o <= MAX_ORDER && list_empty(&pool->free[o]))
		o++;
	if (o > MAX_ORDER)
		return NULL;
	f = list_first_entry(&pool->free[o], struct folio, lru);
	block_del(f);
	while (o > order) {
		o--;
		block_add(pool, page_nr(pool, f) + (1u << o), o);
	}
	f->order = (uint8_t)order;
	return f;
}

/* ---- pcp ------------------------------------------------------------- */

static struct pcp *pcp_here(struct pool *pool)
{
	return &pool->pcp[(unsigned)sched_getcpu() % pool->nr_cpus];
}

/* Fill an empty cache with one block, the largest that is at hand up to
 * PCP_BATCH_ORDER, so that its first page is handed out first. */
static void pcp_refill_locked(struct pool *pool, struct pcp *pcp)
{
	unsigned order = PCP_BATCH_ORDER;
	struct folio *f;

	assert_held(&pcp->lock);
	while (order && (1u << order) > pool->pcp_high)
		order--;
	mutex_lock(&pool->lock);
	while (!(f = buddy_alloc_locked(pool, order)) && order)
		order--;
	mutex_unlock(&pool->lock);
	if (!f)
		return;
	for (uint32_t i = 1u << order; i-- > 0;)
		pcp->page[pcp->nr++] = page_nr(pool, f) + i;
}

static void pcp_drain_locked(struct pool *pool, struct pcp *pcp, unsigned keep)
{
	assert_held(&pcp->lock);
	mutex_lock(&pool->lock);
	/* The oldest ones go: the youngest are warm. */
	for (unsigned i = 0; i + keep < pcp->nr; i++)
		buddy_free_locked(pool, pcp->page[i], 0);
	mutex_unlock(&pool->lock);
	if (keep < pcp->nr) {
		memmove(pcp->page, pcp->page + pcp->nr - keep,
			keep * sizeof(pcp->page[0]));
		pcp->nr = keep;
	}
}

static void drain_all(struct pool *pool)
{
	for (unsigned i = 0; i < pool->nr_cpus; i++) {
		mutex_lock(&pool->pcp[i].lock);
		pcp_drain_locked(pool, &pool->pcp[i], 0);
		mutex_unlock(&pool->pcp[i].lock);
	}
}

static struct folio *pcp_alloc(struct pool *pool)
{
	struct pcp *pcp = pcp_here(pool);
	struct folio *f = NULL;

	mutex_lock(&pcp->lock);
	if (!pcp->nr)
		pcp_refill_locked(pool, pcp);
	if (pcp->nr)
		f = &pool->folios[pcp->page[--pcp->nr]];
	mutex_unlock(&pcp->lock);
	if (f)
		f->order = 0;
	return f;
}

/* ---- both ------------------------------------------------------------ */

static void count_alloc(struct pool *pool, size_t pages)
{
	size_t left = atomic_fetch_sub_explicit(&pool->nr_free, pages,
						memory_order_relaxed) -
		      pages;
	size_t low = atomic_load_explicit(&pool->low_free,
					  memory_order_relaxed);

	while (left < low && !atomic_compare_exchange_weak_explicit(
				     &pool->low_free, &low, left,
				     memory_order_relaxed,
				     memory_order_relaxed))
		;
}

static struct folio *buddy_alloc(struct pool *pool, unsigned order)
{
	struct folio *f;

	mutex_lock(&pool->lock);
	f = buddy_alloc_locked(pool, order);
	mutex_unlock(&pool->lock);
	return f;
}

struct folio *pool_alloc(struct pool *pool, unsigned order)
{
	struct folio *f;

	if (order == 0 && pool->pcp_high)
		f = pcp_alloc(pool);
	else
		f = buddy_alloc(pool, order);
	if (unlikely(!f) && pool_nr_free(pool) >= (size_t)1 << order) {
		/* What is free lies in the caches of other CPUs. */
		drain_all(pool);
		f = buddy_alloc(pool, order);
	}
	if (!f)
		return NULL;
	count_alloc(pool, (size_t)1 << order);
	f->flags = 0;
	return f;
}

void pool_free(struct pool *pool, struct folio *f)
{
	pool_free_bulk(pool, &f, 1);
}

void pool_free_bulk(struct pool *pool, struct folio **f, unsigned nr)
{
	struct pcp *pcp = pool->pcp_high ? pcp_here(pool) : NULL;
	size_t pages = 0;
	unsigned i = 0;

	if (pcp) {
		mutex_lock(&pcp->lock);
		for (; i < nr && f[i]->order == 0 && pcp->nr < pool->pcp_high;
		     i++) {
			pcp->page[pcp->nr++] = page_nr(pool, f[i]);
			pages++;
		}
		mutex_unlock(&pcp->lock);
	}
	if (i < nr) {
		mutex_lock(&pool->lock);
		for (; i < nr; i++) {
			pages += (size_t)1 << f[i]->order;
			buddy_free_locked(pool, page_nr(pool, f[i]),
					  f[i]->order);
		}
		mutex_unlock(&pool->lock);
	}
	/* seq_cst: pairs with waitq_active() in mem_wake(). */
	atomic_fetch_add(&pool->nr_free, pages);
}

size_t pool_page_overhead(void)
{
	return sizeof(struct folio);
}

int pool_init(struct pool *pool, size_t nr_pages)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t bytes = ALIGN_UP(nr_pages * PAGE_BYTES, HUGE_BYTES);
	char *map;

	memset(pool, 0, sizeof(*pool));
	pool->nr_cpus = cpus > 0 ? (unsigned)cpus : 1;
	pool->nr_pages = nr_pages;
	pool->pcp = aligned_alloc(CACHELINE,
				  pool->nr_cpus * sizeof(struct pcp));
	pool->folios = calloc(nr_pages, sizeof(struct folio));
	pool->arena_bytes = bytes + HUGE_BYTES;
	map = mmap(NULL, pool->arena_bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!pool->pcp || !pool->folios || map == MAP_FAILED) {
		free(pool->pcp);
		free(pool->folios);
		if (map != MAP_FAILED)
			munmap(map, pool->arena_bytes);
		return -ENOMEM;
	}
	/* Huge pages: a bio of 1 MiB is pinned and copied in a third of the
	 * time. DONTFORK: a child must not see it (R25). */
	pool->base = (char *)ALIGN_UP((uintptr_t)map, HUGE_BYTES);
	if (pool->base > map)
		munmap(map, (size_t)(pool->base - map));
	munmap(pool->base + bytes,
	       (size_t)(map + pool->arena_bytes - (pool->base + bytes)));
	pool->arena_bytes = bytes;
	madvise(pool->base, bytes, MADV_DONTFORK);
	if (nr_pages * PAGE_BYTES >= 2 * HUGE_BYTES)
		madvise(pool->base,
			ALIGN_DOWN(nr_pages * PAGE_BYTES, HUGE_BYTES),
			MADV_HUGEPAGE);
	mutex_init(&pool->lock, RANK_BUDDY);
	mutex_init(&pool->slab_lock, RANK_BUDDY);
	list_init(&pool->slab_partial);
	for (unsigned o = 0; o <= MAX_ORDER; o++)
		list_init(&pool->free[o]);
	for (unsigned i = 0; i < pool->nr_cpus; i++) {
		mutex_init(&pool->pcp[i].lock, RANK_PCP);
		pool->pcp[i].nr = 0;
	}
	pool->pcp_high = (unsigned)MIN((size_t)PCP_HIGH,
				       nr_pages / 64 / pool->nr_cpus);
	mutex_lock(&pool->lock);
	for (size_t p = nr_pages; p-- > 0;) {
		list_init(&pool->folios[p].lru);
		buddy_free_locked(pool, (uint32_t)p, 0);
	}
	mutex_unlock(&pool->lock);
	atomic_init(&pool->nr_free, nr_pages);
	atomic_init(&pool->low_free, nr_pages);
	return 0;
}

void pool_fini(struct pool *pool)
{
	munmap(pool->base, pool->arena_bytes);
	free(pool->folios);
	free(pool->pcp);
}

/* ---- bitmaps --------------------------------------------------------- */

/*
 * A slab is a page of bitmaps of 512 bytes, or a whole folio where a bitmap
 * needs a page or more. In the folio of a slab, read_bytes has a bit for each
 * bitmap in use, and lru links it while some are free.
 */
#define SLAB_BITMAP 512u
#define SLAB_FULL ((1u << (PAGE_BYTES / SLAB_BITMAP)) - 1)

static unsigned bitmap_order(unsigned size)
{
	unsigned order = 0;

	while (((size_t)PAGE_BYTES << order) < size / 8)
		order++;
	return order;
}

uint64_t *pool_bitmap_alloc(struct pool *pool, unsigned size)
{
	struct folio *f = NULL;
	unsigned bit;

	if (size / 8 > SLAB_BITMAP) {
		f = pool_alloc(pool, bitmap_order(size));
		return f ? (uint64_t *)(void *)folio_data(pool, f) : NULL;
	}
	mutex_lock(&pool->slab_lock);
	if (list_empty(&pool->slab_partial)) {
		mutex_unlock(&pool->slab_lock);
		f = pool_alloc(pool, 0);
		if (!f)
			return NULL;
		f->read_bytes = 0;
		mutex_lock(&pool->slab_lock);
		list_add(&f->lru, &pool->slab_partial);
	}
	f = list_first_entry(&pool->slab_partial, struct folio, lru);
	bit = (unsigned)__builtin_ctz(~f->read_bytes);
	f->read_bytes |= 1u << bit;
	if (f->read_bytes == SLAB_FULL)
		list_del(&f->lru);
	mutex_unlock(&pool->slab_lock);
	return (uint64_t *)(void *)(folio_data(pool, f) + bit * SLAB_BITMAP);
}

void pool_bitmap_free(struct pool *pool, uint64_t *map, unsigned size)
{
	struct folio *f = folio_of(pool, map);
	bool empty;

	if (size / 8 > SLAB_BITMAP) {
		pool_free(pool, f);
		return;
	}
	mutex_lock(&pool->slab_lock);
	if (f->read_bytes == SLAB_FULL)
		list_add(&f->lru, &pool->slab_partial);
	f->read_bytes &= ~(1u << (((char *)map - folio_data(pool, f)) /
				  SLAB_BITMAP));
	empty = f->read_bytes == 0;
	if (empty)
		list_del(&f->lru);
	mutex_unlock(&pool->slab_lock);
	if (empty)
		pool_free(pool, f);
}

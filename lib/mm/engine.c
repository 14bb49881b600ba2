// SPDX-License-Identifier: MIT
/*
 * engine: made from its options, and taken apart.
 */
#include "mm/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mm/bio_pool.h"

/* Open nodes, of uncached writers: measured best at 24 to 32 MiB here. */
#define OPEN_BYTES_MAX (28ul << 20)

/* A few pages for each thread would do; block's callbacks need some more. */
#define THREAD_STACK (256u << 10)

int engine_thread(pthread_t *thread, const char *name, void *(*fn)(void *),
		  void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	/* Signals are for the host's threads (R25). */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!err)
		pthread_setname_np(*thread, name);
	return -err;
}

/* Pages and nodes for a budget: half as many nodes as pages, so that even
 * single pages far apart can fill half of the memory. */
static void set_limits(struct engine_limits *l,
		       const struct engine_options *opts, size_t *nr_pages)
{
	size_t per_page = PAGE_BYTES + pool_page_overhead() +
			  sizeof(struct node) / 2 + sizeof(uint32_t);
	size_t fixed = sizeof(struct dbh_engine) +
		       bio_pool_bytes(opts->memory_bytes, opts->queue_depth);
	size_t pages = (opts->memory_bytes - fixed) / per_page;

	*nr_pages = pages;
	l->memory_bytes = opts->memory_bytes;
	l->fixed_bytes = opts->memory_bytes - pages * PAGE_BYTES;
	l->queue_depth = opts->queue_depth;
	l->expire_ms = opts->expire_ms;
	l->kick_inline = opts->kick_inline;
	l->dirty_pages = (long)(opts->dirty_bytes / PAGE_BYTES);
	if (!opts->dirty_bytes)
		l->dirty_pages = (long)(pages / 4 * 3);
	l->dirty_pages = MIN(l->dirty_pages, (long)pages);
	/* Two of the largest minimum folios at least: a write may need both
	 * ends at a time. */
	l->dirty_pages = MAX(l->dirty_pages, 32l);
	l->background_pages = (long)(opts->background_bytes / PAGE_BYTES);
	if (!opts->background_bytes)
		l->background_pages = l->dirty_pages / 4;
	/* As in the kernel: not so near that writers would never run freely. */
	if (l->background_pages >= l->dirty_pages)
		l->background_pages = l->dirty_pages / 2;
	l->edge_pages = (long)(opts->edge_bytes / PAGE_BYTES);
	if (!opts->edge_bytes)
		l->edge_pages = l->dirty_pages / 4 * 3;
	l->edge_pages = MAX(MIN(l->edge_pages, l->dirty_pages), 1l);
	l->failing_pages = l->dirty_pages / 2;
	/* What a processor's cache holds is filled fastest; and if all of it
	 * were edges, that must not be too many. */
	l->open_nodes = MIN(l->edge_pages / 4 * 3,
			    (long)(OPEN_BYTES_MAX / PAGE_BYTES)) /
			(long)NODE_PAGES;
	l->open_nodes = MAX(l->open_nodes, 1l);
	l->kick_nodes = (unsigned)MIN(MAX(pages / NODE_PAGES / 16, 1ul), 16ul);
	l->max_order = 0;
	while (l->max_order < MAX_ORDER &&
	       (2ul << l->max_order) <= pages / 32)
		l->max_order++;
}

static int fork_mark_init(struct dbh_engine *e)
{
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -ENOMEM;
	/* The child reads zero, however it was forked. */
	madvise(page, PAGE_BYTES, MADV_WIPEONFORK);
	e->fork_mark = page;
	*e->fork_mark = 1;
	return 0;
}

int engine_create(const struct engine_options *opts, struct dbh_engine **out)
{
	struct dbh_engine *e = aligned_alloc(
		CACHELINE, ALIGN_UP(sizeof(*e), CACHELINE));
	size_t pages;
	int err;

	if (!e)
		return -ENOMEM;
	memset(e, 0, sizeof(*e));
	set_limits(&e->limit, opts, &pages);
	mutex_init(&e->lock, RANK_ENGINE);
	lru_init(&e->lru);
	waitq_init(&e->mem_waitq);
	waitq_init(&e->open_waitq);
	for (unsigned i = 0; i < ENGINE_FOLIO_WAITQS; i++)
		waitq_init(&e->folio_waitq[i]);
	for (unsigned i = 0; i < ENGINE_MAPPING_BUCKETS; i++)
		list_init(&e->mappings[i]);
	list_init(&e->free_mappings);
	atomic_init(&e->open_patient, true);
	err = pool_init(&e->pool, pages);
	if (err)
		goto out_free;
	err = node_table_init(&e->nodes, (uint32_t)(pages / 2),
			      (uint32_t)e->limit.open_nodes);
	if (err)
		goto out_pool;
	err = bio_pool_init(e);
	if (err)
		goto out_nodes;
	err = fork_mark_init(e);
	if (err)
		goto out_bios;
	e->limit.method = opts->method;
	err = ioq_create(opts->method, opts->queue_depth, &e->spare_ioq);
	if (err)
		goto out_mark;
	e->limit.method = ioq_method(e->spare_ioq);
	*out = e;
	return 0;

out_mark:
	munmap((void *)(uintptr_t)e->fork_mark, PAGE_BYTES);
out_bios:
	bio_pool_fini(e);
out_nodes:
	node_table_fini(&e->nodes);
out_pool:
	pool_fini(&e->pool);
out_free:
	free(e);
	return err;
}

void engine_free(struct dbh_engine *e)
{
	struct wb *wb, *next;

	for (wb = wb_first(e); wb; wb = wb_next(wb))
		wb_stop(wb);
	for (wb = wb_first(e); wb; wb = next) {
		next = wb_next(wb);
		wb_destroy(wb);
	}
	while (!list_empty(&e->free_mappings)) {
		struct mapping *m = list_first_entry(&e->free_mappings,
						     struct mapping, link);

		list_del(&m->link);
		free(m);
	}
	ioq_destroy(e->spare_ioq);
	munmap((void *)(uintptr_t)e->fork_mark, PAGE_BYTES);
	bio_pool_fini(e);
	node_table_fini(&e->nodes);
	pool_fini(&e->pool);
	trace_fini(&e->trace);
	free(e);
}

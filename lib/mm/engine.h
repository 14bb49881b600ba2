/* SPDX-License-Identifier: MIT */
/*
 * engine: what all mappings share: memory, requests, threads, limits.
 */
#ifndef DBH_MM_ENGINE_H
#define DBH_MM_ENGINE_H

#include "base/trace_ring.h"
#include "mm/backing_dev.h"
#include "mm/mapping.h"
#include "mm/pool.h"
#include "mm/reclaim.h"
#include "mm/stats.h"

#define ENGINE_FOLIO_WAITQS 128
#define ENGINE_MAPPING_BUCKETS 64

struct wb_bio;
struct read_bio;
struct workers;
struct control;
struct owners;

/**
 * struct bio_list - free requests of a kind; see bio_pool.c
 * @free: under bio_lock; @nr_free: changed under it, read without
 */
struct bio_list {
	struct list_head free;
	_Atomic long nr_free;
};

/**
 * struct engine_limits - what the options came to
 * @memory_bytes: the budget; @fixed_bytes: of it, everything but pages
 * @dirty_pages: DIRTY and WRITEBACK at most
 * @background_pages: from here on cached dirty data is written; see throttle.h
 * @edge_pages: incomplete edges at most
 * @open_nodes: from so many open nodes on, uncached writers that run ahead
 *	wait before they open further ones (R5)
 * @failing_pages: dirty pages of all failing mappings at most
 * @kick_nodes: ready nodes that are worth a round of the flusher
 * @method: of issuing requests, the one in use
 * @kick_inline: writers start writeback themselves (R11)
 * @max_order: of folios, so that a few of them do not take a small pool whole
 */
struct engine_limits {
	size_t memory_bytes, fixed_bytes;
	long dirty_pages, background_pages, edge_pages, failing_pages;
	long open_nodes;
	unsigned kick_nodes;
	unsigned max_order;
	unsigned queue_depth;
	uint32_t expire_ms;
	enum ioq_method method;
	bool kick_inline;
};

struct dbh_engine {
	struct engine_limits limit;
	struct pool pool;
	struct node_table nodes;
	struct lru lru;
	struct ioq *spare_ioq; /* the first device's, until there is one */
	struct workers *workers; /* the rw room's */
	struct owners *owners; /* the same; set under @lock at first need */
	struct control *control; /* the control room's, or NULL */

	_Atomic long nr_dirty cacheline_aligned; /* + charged; pages */
	_Atomic uint32_t limits_ms; /* of dirty_limits_update() */
	_Atomic long nr_edges; /* incomplete; pages */
	_Atomic long nr_failed; /* of all mappings; pages */
	_Atomic long nr_failing; /* mappings with such pages */
	_Atomic long nr_open_nodes; /* see struct node */
	_Atomic long node_closes; /* since the last wake of open_waitq */
	_Atomic bool open_patient; /* writers wait for those behind them */

	_Atomic uint32_t mem_seq cacheline_aligned; /* frees; see mem_wait() */
	struct waitq mem_waitq;
	struct waitq open_waitq;
	struct waitq folio_waitq[ENGINE_FOLIO_WAITQS];

	/* requests: free ones, and who waits for one */
	struct mutex bio_lock;
	struct bio_list bios[NR_BIO_KINDS];
	struct waitq bio_waitq; /* keyed by the list; arg: for which wb */
	void *bio_memory;
	char *bounce_memory;

	struct mutex lock; /* RANK_ENGINE: what follows */
	struct list_head mappings[ENGINE_MAPPING_BUCKETS];
	_Atomic(struct wb *) wbs; /* only ever grows, at the end */
	struct list_head free_mappings;
	unsigned nr_files; /* open handles */
	uint32_t next_id;

	/* 1 here, 0 in a forked child (MADV_WIPEONFORK): R25 */
	volatile uint32_t *fork_mark;
	struct engine_stats stats;
	struct trace_rings trace; /* who listens at the control socket */
};

/** Sizes and limits from the options; see struct dbh_options. */
struct engine_options {
	size_t memory_bytes, dirty_bytes, background_bytes, edge_bytes;
	unsigned queue_depth, expire_ms;
	enum ioq_method method;
	bool kick_inline;
};

int engine_create(const struct engine_options *opts, struct dbh_engine **out);
/** No mapping is left. */
void engine_free(struct dbh_engine *e);

/** See mem_wait(). */
static inline uint32_t mem_seq(struct dbh_engine *e)
{
	return atomic_load(&e->mem_seq);
}

static inline size_t engine_used_bytes(struct dbh_engine *e)
{
	return e->limit.fixed_bytes +
	       (e->pool.nr_pages - pool_nr_free(&e->pool)) * PAGE_BYTES;
}

/** A thread of the engine: all signals blocked (R25), a small stack. */
int engine_thread(pthread_t *thread, const char *name, void *(*fn)(void *),
		  void *arg);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * lock: a mutex of one word, whose order debug builds witness.
 *
 * The order of all locks is the order of enum lock_rank: a thread takes a
 * mutex only of a higher rank than those it holds. ARCHITECTURE.md says which
 * function makes which edge. Folio locks and the io_lock are held across
 * sleeps and have their own files (mm/folio.h, base/iolock.h); both come
 * before every rank here.
 */
#ifndef DBH_BASE_LOCK_H
#define DBH_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum lock_rank {
	RANK_NONE = 0,
	RANK_ENGINE, /* engine->lock: table of mappings and devices; sleeps */
	RANK_OWNER, /* owners->lock: the states of files towards others (R22) */
	RANK_SIZE, /* mapping->size_lock: the on-disk end; sleeps */
	RANK_SYNC, /* mapping->sync_lock: who waits for a sync */
	RANK_TREE, /* mapping->tree_lock: the nodes of a mapping */
	RANK_NODE, /* node->lock: 64 slots and their tags */
	RANK_HASH, /* a stripe of the node hash */
	RANK_WB, /* wb->list_lock: what a flusher has to do */
	RANK_LRU, /* engine->lru.lock: edges and clean folios by age */
	RANK_BIO, /* engine->bio_lock: free requests */
	RANK_WAITQ, /* a wait queue */
	RANK_PCP, /* a CPU's cache of free pages */
	RANK_BUDDY, /* the buddy allocator; the coverage slab */
	RANK_LEAF, /* takes nothing more */
};

/**
 * struct mutex - short lock: no I/O, no sleep, no callback under it, unless
 * its rank says "sleeps"
 * @v: 0 free, 1 held, 2 held and somebody may wait. Acquire on taking pairs
 *	with release on dropping.
 */
struct mutex {
	_Atomic uint32_t v;
#ifdef DBH_DEBUG
	uint32_t rank;
#endif
};

void mutex_lock_slow(struct mutex *m);
void mutex_unlock_slow(struct mutex *m);

#ifdef DBH_DEBUG
void witness_take(const struct mutex *m, bool tried);
void witness_drop(const struct mutex *m);
bool witness_held(const struct mutex *m);
#define assert_held(m) assert(witness_held(m))
#else
#define witness_take(m, tried) ((void)(m))
#define witness_drop(m) ((void)(m))
#define assert_held(m) ((void)(m))
#endif

static inline void mutex_init(struct mutex *m, enum lock_rank rank)
{
	atomic_init(&m->v, 0);
#ifdef DBH_DEBUG
	m->rank = rank;
#else
	(void)rank;
#endif
}

static inline bool mutex_trylock(struct mutex *m)
{
	uint32_t free = 0;

	if (!atomic_compare_exchange_strong_explicit(
		    &m->v, &free, 1, memory_order_acquire,
		    memory_order_relaxed))
		return false;
	witness_take(m, true);
	return true;
}

static inline void mutex_lock(struct mutex *m)
{
	uint32_t free = 0;

	if (unlikely(!atomic_compare_exchange_strong_explicit(
		    &m->v, &free, 1, memory_order_acquire,
		    memory_order_relaxed)))
		mutex_lock_slow(m);
	witness_take(m, false);
}

static inline void mutex_unlock(struct mutex *m)
{
	witness_drop(m);
	if (unlikely(atomic_exchange_explicit(&m->v, 0,
					      memory_order_release) == 2))
		mutex_unlock_slow(m);
}

/* ---- futex ----------------------------------------------------------- */

/** Sleep while *@addr == @val, at most @timeout_ns (UINT64_MAX: for ever).
 * May return early for no reason. */
void futex_wait(_Atomic uint32_t *addr, uint32_t val, uint64_t timeout_ns);
void futex_wake(_Atomic uint32_t *addr, int nr);
/** The same without a time limit: until a wake that has a bit of @bits. */
void futex_wait_bits(_Atomic uint32_t *addr, uint32_t val, uint32_t bits);
/** Wake all whose bits have one of @bits. */
void futex_wake_bits(_Atomic uint32_t *addr, uint32_t bits);

/* ---- event: one thread sleeps, any thread wakes it -------------------- */

/**
 * struct event - auto-reset; a set between two waits is not lost
 * @v: EVENT_CLEAR, EVENT_SET, or EVENT_ASLEEP while the owner may sleep
 */
struct event {
	_Atomic uint32_t v;
};

void event_init(struct event *ev);
void event_set(struct event *ev);
/** Return when set, or after @timeout_ns; resets it. Only its owner waits. */
void event_wait(struct event *ev, uint64_t timeout_ns);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * spy: a store before another one that looks on, for tests.
 *
 * It aborts when a rule of the block room is broken: two transfers of one
 * block at a time, memory that changes under a write, a truncate below a
 * transfer in flight, or (R16) a file that would end beyond its logical end.
 * It can hold bios back, and it survives the last close, so that the content
 * can be looked at and opened again.
 */
#ifndef DBH_TESTS_SPY_H
#define DBH_TESTS_SPY_H

#include <pthread.h>

#include "mm/mapping.h"

struct spy {
	struct store store;
	struct store *inner;
	pthread_mutex_t lock;
	struct list_head flights; /* under way, held back or not */
	/* R16 is checked against the logical size of this mapping... */
	_Atomic(struct mapping *) mapping;
	/* ...or against this, if it is larger: during a truncate. */
	_Atomic uint64_t size_limit;
	bool hold_writes, hold_reads;
	/* Called, if set (before the spy is used), before and after whatever
	 * changes what is below: with no lock held, by any thread. */
	void (*event)(void *arg);
	void *event_arg;
	_Atomic unsigned ending; /* threads in the end of a bio */
	/* A fallocate or clone says so, and does it all the same: set before
	 * the call; 0 again with it. */
	_Atomic int lie_err;
	_Atomic unsigned bios[2], flushes, tails, truncates, settles;
	_Atomic unsigned fallocates, clones;
	_Atomic uint64_t bytes[2];
	_Atomic uint64_t largest[2];
	/* of a store that others can open: what taking the lease says, who is
	 * to be told that it is broken, and is it? */
	_Atomic int lease_err;
	_Atomic int lease_tid;
	_Atomic bool lease_broken;
	_Atomic unsigned lease_drops;
};

/** Takes @inner over. */
struct spy *spy_create(struct store *inner);
/** A spy over a new mem store. */
struct spy *spy_create_mem(uint32_t min_folio_bytes, uint32_t align);
/** Frees both; no handle is open. */
void spy_destroy(struct spy *spy);

/** Hold writes or reads back from now on. */
void spy_hold(struct spy *spy, bool writes, bool reads);
/** Let go what was held, and hold nothing. */
void spy_release(struct spy *spy);
/** Writes (reads) that are held back now. */
unsigned spy_held(struct spy *spy, enum bio_op op);
/** Sleep until @nr are held. */
void spy_wait_held(struct spy *spy, enum bio_op op, unsigned nr);

/** Others can open it: to be called before it is opened. @inner is of memory. */
void spy_lease(struct spy *spy);
/** Another one opens it, and waits: see lease_drops. From now on it cannot be
 * had, until lease_err is 0 again. */
void spy_break(struct spy *spy);

/** Fill the content behind the engine's back, before it is opened. */
void spy_put(struct spy *spy, const void *buf, size_t len, uint64_t pos);

#endif

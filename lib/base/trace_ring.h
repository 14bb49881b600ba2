/* SPDX-License-Identifier: MIT */
/*
 * trace_ring: events on their way from any thread to one reader.
 *
 * Bounded and without locks: who finds a ring full counts what is lost and
 * goes on. There are a few rings, so that processors do not fight for one; the
 * reader takes the oldest head of all.
 */
#ifndef DBH_BASE_TRACE_RING_H
#define DBH_BASE_TRACE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define TRACE_RINGS 4u
#define TRACE_SLOTS 2048u /* of a ring; a power of two */
#define TRACE_ARGS 4u

/**
 * struct trace_event
 * @ns: monotonic time
 * @type: the user's, below 32
 * @err: 0 or a negative errno
 * @dev, @ino: the file it is about, or its device and 0
 * @arg: as the type has it
 */
struct trace_event {
	uint64_t ns;
	uint32_t type;
	int32_t err;
	uint64_t dev, ino;
	uint64_t arg[TRACE_ARGS];
};

struct trace_slot {
	/* whose turn it is: n: of the writer of position n; n + 1: of its
	 * reader; then n + TRACE_SLOTS. Release; pairs with acquire. */
	_Atomic uint32_t turn;
	struct trace_event event; /* theirs who has the turn */
};

/**
 * struct trace_ring
 * @head: the next position to write; atomic, any thread
 * @tail: the next to read; the reader's
 */
struct trace_ring {
	_Atomic uint32_t head cacheline_aligned;
	uint32_t tail cacheline_aligned;
	struct trace_slot slot[TRACE_SLOTS];
};

/**
 * struct trace_rings - all zero: nobody traces
 * @mask: types that somebody wants; 0: off. Relaxed: a few events around a
 *	change may be missing.
 * @lost: events that found a ring full
 * @rings: NULL until the first one traces, then kept: an event may be on its
 *	way at any time. Release; pairs with acquire in trace_emit().
 */
struct trace_rings {
	_Atomic uint32_t mask;
	_Atomic uint64_t lost;
	_Atomic(struct trace_ring *) rings;
};

static inline bool trace_wanted(struct trace_rings *t, uint32_t type)
{
	return unlikely(atomic_load_explicit(&t->mask, memory_order_relaxed) &
			1u << type);
}

/** Only the reader: take @mask from now on. Return: 0 or -ENOMEM */
int trace_start(struct trace_rings *t, uint32_t mask);
/** Nobody emits any more. */
void trace_fini(struct trace_rings *t);

/** Any thread, any lock held: pass @ev on, or count it as lost. */
void trace_emit(struct trace_rings *t, const struct trace_event *ev);
/** Only the reader. Return: false: there is none */
bool trace_next(struct trace_rings *t, struct trace_event *ev);

#endif

// SPDX-License-Identifier: MIT
/*
 * trace_ring: bounded queues whose slots say whose turn it is.
 */
#include "base/trace_ring.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static int rings_create(struct trace_rings *t)
{
	struct trace_ring *rings = aligned_alloc(
		CACHELINE, TRACE_RINGS * sizeof(struct trace_ring));

	if (!rings)
		return -ENOMEM;
	memset(rings, 0, TRACE_RINGS * sizeof(struct trace_ring));
	for (unsigned r = 0; r < TRACE_RINGS; r++)
		for (uint32_t i = 0; i < TRACE_SLOTS; i++)
			atomic_init(&rings[r].slot[i].turn, i);
	atomic_store_explicit(&t->rings, rings, memory_order_release);
	return 0;
}

int trace_start(struct trace_rings *t, uint32_t mask)
{
	int err = 0;

	if (mask && !atomic_load_explicit(&t->rings, memory_order_relaxed))
		err = rings_create(t);
	if (!err)
		atomic_store_explicit(&t->mask, mask, memory_order_release);
	return err;
}

void trace_fini(struct trace_rings *t)
{
	free(atomic_load_explicit(&t->rings, memory_order_relaxed));
}

static bool ring_put(struct trace_ring *r, const struct trace_event *ev)
{
	uint32_t pos = atomic_load_explicit(&r->head, memory_order_relaxed);

	for (;;) {
		struct trace_slot *s = &r->slot[pos % TRACE_SLOTS];
		uint32_t turn = atomic_load_explicit(&s->turn,
						     memory_order_acquire);

		if (turn == pos) {
			if (!atomic_compare_exchange_weak_explicit(
				    &r->head, &pos, pos + 1,
				    memory_order_relaxed,
				    memory_order_relaxed))
				continue;
			s->event = *ev;
			atomic_store_explicit(&s->turn, pos + 1,
					      memory_order_release);
			return true;
		}
		if ((int32_t)(turn - pos) < 0)
			return false; /* not read yet: full */
		pos = atomic_load_explicit(&r->head, memory_order_relaxed);
	}
}

void trace_emit(struct trace_rings *t, const struct trace_event *ev)
{
	struct trace_ring *rings = atomic_load_explicit(&t->rings,
							memory_order_acquire);

	/* The mask may be seen before the rings are. */
	if (!rings || !ring_put(&rings[(unsigned)sched_getcpu() % TRACE_RINGS],
				ev))
		atomic_fetch_add_explicit(&t->lost, 1, memory_order_relaxed);
}

/* The slot to be read next, or NULL if it is not written yet. */
static struct trace_slot *ring_peek(struct trace_ring *r)
{
	struct trace_slot *s = &r->slot[r->tail % TRACE_SLOTS];
	uint32_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);

	return turn == r->tail + 1 ? s : NULL;
}

bool trace_next(struct trace_rings *t, struct trace_event *ev)
{
	struct trace_ring *rings = atomic_load_explicit(&t->rings,
							memory_order_relaxed);
	struct trace_ring *from = NULL;
	struct trace_slot *oldest = NULL;

	if (!rings)
		return false;
	for (unsigned i = 0; i < TRACE_RINGS; i++) {
		struct trace_slot *s = ring_peek(&rings[i]);

		if (s && (!oldest || s->event.ns < oldest->event.ns)) {
			oldest = s;
			from = &rings[i];
		}
	}
	if (!oldest)
		return false;
	*ev = oldest->event;
	atomic_store_explicit(&oldest->turn, from->tail + TRACE_SLOTS,
			      memory_order_release);
	from->tail++;
	return true;
}

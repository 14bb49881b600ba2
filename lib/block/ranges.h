/* SPDX-License-Identifier: MIT */
/*
 * ranges: a few byte ranges of a file, of which it is known that their pages
 * in the kernel's cache are our doing. When there is no room for one more, the
 * two nearest become one: the set may then hold more than was added, never
 * less. No locking.
 */
#ifndef DBH_BLOCK_RANGES_H
#define DBH_BLOCK_RANGES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RANGES_MAX 16u

struct range {
	uint64_t start, end;
};

/* Sorted, disjoint, not touching each other. */
struct ranges {
	unsigned nr;
	struct range r[RANGES_MAX + 1];
};

static inline void ranges_remove_at(struct ranges *set, unsigned i)
{
	memmove(&set->r[i], &set->r[i + 1],
		(set->nr - i - 1) * sizeof(set->r[0]));
	set->nr--;
}

static inline void ranges_join_nearest(struct ranges *set)
{
	unsigned best = 0;

	for (unsigned i = 1; i + 1 < set->nr; i++)
		if (set->r[i + 1].start - set->r[i].end <
		    set->r[best + 1].start - set->r[best].end)
			best = i;
	set->r[best].end = set->r[best + 1].end;
	ranges_remove_at(set, best + 1);
}

static inline void ranges_add(struct ranges *set, uint64_t start, uint64_t end)
{
	unsigned i = 0;

	while (i < set->nr && set->r[i].end < start)
		i++;
	while (i < set->nr && set->r[i].start <= end) {
		start = start < set->r[i].start ? start : set->r[i].start;
		end = end > set->r[i].end ? end : set->r[i].end;
		ranges_remove_at(set, i);
	}
	memmove(&set->r[i + 1], &set->r[i], (set->nr - i) * sizeof(set->r[0]));
	set->r[i] = (struct range){ start, end };
	if (++set->nr > RANGES_MAX)
		ranges_join_nearest(set);
}

/*
 * Takes [@start, @end) out, except where that would make one range two and
 * there is no room for it.
 */
static inline void ranges_remove(struct ranges *set, uint64_t start,
				 uint64_t end)
{
	unsigned i = 0;

	while (i < set->nr) {
		struct range *r = &set->r[i];
		struct range after = { end, r->end };

		if (start >= end || r->end <= start || r->start >= end) {
			i++;
		} else if (r->start >= start && r->end <= end) {
			ranges_remove_at(set, i);
		} else if (r->start >= start) {
			r->start = end;
		} else if (r->end <= end) {
			r->end = start;
		} else if (set->nr < RANGES_MAX) {
			r->end = start;
			ranges_add(set, after.start, after.end);
		} else {
			return;
		}
	}
}

static inline bool ranges_meet(const struct ranges *set, uint64_t start,
			       uint64_t end)
{
	for (unsigned i = 0; i < set->nr; i++)
		if (set->r[i].start < end && set->r[i].end > start)
			return true;
	return false;
}

static inline void ranges_add_all(struct ranges *set, const struct ranges *from)
{
	for (unsigned i = 0; i < from->nr; i++)
		ranges_add(set, from->r[i].start, from->r[i].end);
}

#endif

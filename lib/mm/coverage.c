// SPDX-License-Identifier: MIT
/*
 * coverage: sets of bytes of an edge.
 */
#include "mm/coverage.h"

#include <string.h>

#include "base/compiler.h"
#include "mm/pool.h"

/* ---- bitmap ---------------------------------------------------------- */

/* Bits [lo, hi) of a word, hi in 1..64. */
static uint64_t word_mask(unsigned lo, unsigned hi)
{
	return (~0ull << lo) & (~0ull >> (64 - hi));
}

/* Set bits [start, end); return how many were clear. */
static unsigned bitmap_set(uint64_t *map, unsigned start, unsigned end)
{
	unsigned fresh = 0;

	while (start < end) {
		unsigned word = start / 64;
		unsigned stop = MIN(end, (word + 1) * 64);
		uint64_t mask = word_mask(start % 64, stop - word * 64);

		fresh += (unsigned)__builtin_popcountll(mask & ~map[word]);
		map[word] |= mask;
		start = stop;
	}
	return fresh;
}

static unsigned bitmap_clear(uint64_t *map, unsigned start, unsigned end)
{
	unsigned gone = 0;

	while (start < end) {
		unsigned word = start / 64;
		unsigned stop = MIN(end, (word + 1) * 64);
		uint64_t mask = word_mask(start % 64, stop - word * 64);

		gone += (unsigned)__builtin_popcountll(mask & map[word]);
		map[word] &= ~mask;
		start = stop;
	}
	return gone;
}

/* The first bit of @value at or after @from; @size if there is none. */
static unsigned bitmap_find(const uint64_t *map, unsigned size, unsigned from,
			    bool value)
{
	while (from < size) {
		uint64_t word = value ? map[from / 64] : ~map[from / 64];

		word &= ~0ull << (from % 64);
		if (word)
			return MIN(size, from / 64 * 64 +
						 (unsigned)__builtin_ctzll(word));
		from = (from / 64 + 1) * 64;
	}
	return size;
}

/* ---- ranges ---------------------------------------------------------- */

/* The ranges [*first, return) touch or overlap [start, end). */
static unsigned ranges_touched(const struct coverage *c, unsigned start,
			       unsigned end, unsigned *first)
{
	unsigned i = 0, j;

	while (i < c->nr &&
	       (unsigned)c->range[i].start + c->range[i].len < start)
		i++;
	for (j = i; j < c->nr && c->range[j].start <= end; j++)
		;
	*first = i;
	return j;
}

static void ranges_add(struct coverage *c, unsigned start, unsigned end)
{
	unsigned first, last, old = 0;

	last = ranges_touched(c, start, end, &first);
	if (first == last) {
		memmove(&c->range[first + 1], &c->range[first],
			(c->nr - first) * sizeof(c->range[0]));
		c->nr++;
	} else {
		unsigned tail = (unsigned)c->range[last - 1].start +
				c->range[last - 1].len;

		for (unsigned i = first; i < last; i++)
			old += c->range[i].len;
		start = MIN(start, (unsigned)c->range[first].start);
		end = MAX(end, tail);
		memmove(&c->range[first + 1], &c->range[last],
			(c->nr - last) * sizeof(c->range[0]));
		c->nr -= last - first - 1;
	}
	c->range[first].start = (uint16_t)start;
	/* A range of the whole folio, up to 65536, does not fit; then the
	 * coverage is complete and nobody looks at the range again. */
	c->range[first].len = (uint16_t)(end - start);
	c->bytes += end - start - old;
}

/* ---- both ------------------------------------------------------------ */

void coverage_reset(struct coverage *c, struct pool *pool, unsigned size)
{
	if (c->nr == COVERAGE_BITMAP)
		pool_bitmap_free(pool, c->bitmap, size);
	coverage_init(c);
}

bool coverage_reserve(struct coverage *c, struct pool *pool, unsigned size,
		      unsigned start, unsigned end)
{
	struct coverage old = *c;
	unsigned first;
	uint64_t *map;

	if (c->nr < COVERAGE_INLINE)
		return true; /* a new range fits, and so any prefix */
	if (c->nr == COVERAGE_BITMAP)
		return true;
	/* A range that touches one on its left grows that one, whatever
	 * prefix of it is written; one that does not may need its own. */
	if (ranges_touched(c, start, start, &first) != first)
		return true;
	(void)end;
	map = pool_bitmap_alloc(pool, size);
	if (!map)
		return false;
	memset(map, 0, size / 8);
	for (unsigned i = 0; i < old.nr; i++)
		bitmap_set(map, old.range[i].start,
			   (unsigned)old.range[i].start + old.range[i].len);
	c->nr = COVERAGE_BITMAP;
	c->bitmap = map;
	return true;
}

bool coverage_add(struct coverage *c, unsigned size, unsigned start,
		  unsigned end)
{
	if (c->nr == COVERAGE_BITMAP)
		c->bytes += bitmap_set(c->bitmap, start, end);
	else if (start < end)
		ranges_add(c, start, end);
	return c->bytes == size;
}

bool coverage_has(const struct coverage *c, unsigned start, unsigned end)
{
	if (c->nr == COVERAGE_BITMAP)
		return bitmap_find(c->bitmap, end, start, false) == end;
	for (unsigned i = 0; i < c->nr; i++)
		if (c->range[i].start <= start &&
		    end <= (unsigned)c->range[i].start + c->range[i].len)
			return true;
	return start >= end;
}

void coverage_clip(struct coverage *c, unsigned size, unsigned end)
{
	if (c->nr == COVERAGE_BITMAP) {
		c->bytes -= bitmap_clear(c->bitmap, end, size);
		return;
	}
	while (c->nr) {
		unsigned i = c->nr - 1u;
		unsigned start = c->range[i].start, len = c->range[i].len;

		if (start + len <= end)
			return;
		if (start < end) {
			c->range[i].len = (uint16_t)(end - start);
			c->bytes -= start + len - end;
			return;
		}
		c->bytes -= len;
		c->nr--;
	}
}

unsigned coverage_gap(const struct coverage *c, unsigned size, unsigned from,
		      unsigned *end)
{
	unsigned i;

	if (c->nr == COVERAGE_BITMAP) {
		from = bitmap_find(c->bitmap, size, from, false);
		*end = bitmap_find(c->bitmap, size, from, true);
		return from;
	}
	for (i = 0; i < c->nr && c->range[i].start <= from; i++)
		from = MAX(from,
			   (unsigned)c->range[i].start + c->range[i].len);
	*end = i < c->nr ? c->range[i].start : size;
	if (from >= size)
		*end = from = size;
	return from;
}

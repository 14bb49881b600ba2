/* SPDX-License-Identifier: MIT */
/*
 * coverage: the set of bytes of an edge written since it entered the cache.
 *
 * A few ranges inside the folio itself; when there are more, a bitmap with a
 * bit a byte. Room for a range is reserved before any byte is copied, so that
 * adding it cannot fail.
 */
#ifndef DBH_MM_COVERAGE_H
#define DBH_MM_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

#define COVERAGE_INLINE 3

/**
 * struct coverage - guarded by the folio lock
 * @nr: ranges in use, sorted, neither touching nor overlapping; or
 *	COVERAGE_BITMAP
 * @bytes: covered; the folio's size when complete
 * @range: bytes [@start, @start + @len). A minimum folio is at most 64 KiB,
 *	and one range of all of it is never stored: that is complete.
 * @bitmap: with COVERAGE_BITMAP
 */
struct coverage {
	union {
		struct {
			uint16_t start, len;
		} range[COVERAGE_INLINE];
		uint64_t *bitmap __attribute__((packed, aligned(4)));
	};
	uint32_t bytes : 24, nr : 8;
};
#define COVERAGE_BITMAP 0xffu

struct pool;

/** No byte covered. Frees a bitmap, if there was one. */
void coverage_reset(struct coverage *c, struct pool *pool, unsigned size);
/** To be called once on a folio that had none. */
static inline void coverage_init(struct coverage *c)
{
	c->bytes = 0;
	c->nr = 0;
}
/**
 * coverage_reserve - make sure that [@start, @end) and any prefix of it can be
 * added
 * @size: of the folio
 * Return: false if there is no memory for a bitmap now
 */
bool coverage_reserve(struct coverage *c, struct pool *pool, unsigned size,
		      unsigned start, unsigned end);
/** Add [@start, @end), for which room is reserved. Return: now complete. */
bool coverage_add(struct coverage *c, unsigned size, unsigned start,
		  unsigned end);
/** Is all of [@start, @end) covered? */
bool coverage_has(const struct coverage *c, unsigned start, unsigned end);
/** Forget what lies at @end and behind. */
void coverage_clip(struct coverage *c, unsigned size, unsigned end);
/**
 * coverage_gap - the first gap at or after @from
 * Return: its start (@size if there is none); *@end is its end
 */
unsigned coverage_gap(const struct coverage *c, unsigned size, unsigned from,
		      unsigned *end);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * history: records of a file that are written again and again, and what of
 * them may be found after a crash.
 *
 * Of each record the last generation that was synced is known, and the last
 * that was begun: any byte of it is of one of those or between, or was never
 * written. It can live in memory shared with another process.
 */
#ifndef DBH_TESTS_HISTORY_H
#define DBH_TESTS_HISTORY_H

#include "support/check.h"
#include "support/rig.h"

#define HISTORY_RECORDS 160u

struct record {
	_Atomic unsigned synced, written;
};

/**
 * struct history
 * @bytes: of a record; it begins at its number times that
 * @existing: generation 0 is content, not zeros
 * @end: no write up to behind it was begun
 */
struct history {
	size_t bytes;
	bool existing;
	_Atomic uint64_t end;
	struct record rec[HISTORY_RECORDS];
};

/** What is known to be synced at some time. */
struct synced {
	unsigned gen[HISTORY_RECORDS];
};

/** The next generation of record @i; to be called before it is written. */
static inline unsigned history_begin(struct history *h, unsigned i)
{
	uint64_t end = (i + 1) * (uint64_t)h->bytes;
	uint64_t old = atomic_load(&h->end);

	while (old < end && !atomic_compare_exchange_weak(&h->end, &old, end))
		;
	return atomic_fetch_add(&h->rec[i].written, 1) + 1;
}

static inline void history_synced(struct history *h, unsigned i, unsigned gen)
{
	unsigned old = atomic_load(&h->rec[i].synced);

	while (old < gen && !atomic_compare_exchange_weak(&h->rec[i].synced,
							  &old, gen))
		;
}

/** To be called before the crash. */
static inline struct synced history_snapshot(struct history *h)
{
	struct synced s;

	for (unsigned i = 0; i < HISTORY_RECORDS; i++)
		s.gen[i] = atomic_load(&h->rec[i].synced);
	return s;
}

static inline bool history_may_be(const struct history *h, char byte,
				  uint64_t pos, unsigned synced,
				  unsigned written)
{
	for (unsigned gen = written + 1; gen-- > synced;) {
		if (!gen && !h->existing && !byte)
			return true;
		if ((gen || h->existing) && byte == pattern_byte(pos, gen))
			return true;
	}
	return false;
}

/** After it: @len bytes were found at the place of record @i. */
static inline void history_check(struct history *h, const struct synced *s,
				 unsigned i, const char *buf, size_t len)
{
	uint64_t pos = i * (uint64_t)h->bytes;
	unsigned written = atomic_load(&h->rec[i].written);

	CHECK(len == h->bytes || !s->gen[i], "record %u was synced: %zu of %zu",
	      i, len, h->bytes);
	for (size_t b = 0; b < len; b++)
		CHECK(history_may_be(h, buf[b], pos + b, s->gen[i], written),
		      "byte %llu of record %u is %02x: synced %u, written %u",
		      (unsigned long long)(pos + b), i, (unsigned char)buf[b],
		      s->gen[i], written);
}

#endif

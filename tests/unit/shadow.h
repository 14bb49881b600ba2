/* SPDX-License-Identifier: MIT */
/*
 * shadow: a file on a spied store, and a plain array of bytes that says what must
 * be in it.
 */
#ifndef SHADOW_H
#define SHADOW_H

#include "support/rig.h"

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define SHADOW_BYTES (1u << 20)

struct shadow {
	struct rig rig;
	char bytes[SHADOW_BYTES];
	size_t size;
};

/** A new file on a store in memory; the store may be ahead of its size. */
void shadow_up(struct shadow *s, uint32_t min_folio);
/** The same on @store, which is taken over. */
void shadow_up_on(struct shadow *s, struct store *store);
/** Looks once more, closes it, and looks at the store. */
void shadow_down(struct shadow *s);

void shadow_write(struct shadow *s, size_t pos, size_t len, unsigned gen,
		  unsigned flags);
/** It succeeds. */
void shadow_fallocate(struct shadow *s, int mode, size_t pos, size_t len);
/** The array alone: as a punch, or FALLOC_FL_ZERO_RANGE, does. */
void shadow_zero(struct shadow *s, int mode, size_t pos, size_t len);

/** Every byte and the size, through the engine. */
void shadow_check(struct shadow *s);
/** In the store, after a sync. */
void shadow_check_store(struct shadow *s);
/** @size bytes were found somewhere. */
void shadow_compare(const struct shadow *s, const char *buf, size_t size,
		    const char *where);

#endif

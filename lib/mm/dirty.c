// SPDX-License-Identifier: MIT
/*
 * dirty: which pages hold bytes that the store does not have yet. By the tags of
 * the nodes; each node is looked at under its lock, all of them one after the
 * other.
 */
#include "mm/mapping.h"

/* Bits of the node's pages that are not all in the store; none without one. */
static uint64_t dirty_bits(struct mapping *m, pgoff_t index)
{
	struct node *n = node_lock_find(m, index);
	uint64_t bits;

	if (!n)
		return 0;
	bits = n->dirty | n->writeback;
	mutex_unlock(&n->lock);
	return bits;
}

pgoff_t mapping_next_dirty(struct mapping *m, pgoff_t index)
{
	while ((index = node_next(m, index)) != UINT64_MAX) {
		pgoff_t base = ALIGN_DOWN(index, NODE_PAGES);
		uint64_t bits = dirty_bits(m, index) &
				(~0ull << (index - base));

		if (bits)
			return base + (unsigned)__builtin_ctzll(bits);
		index = base + NODE_PAGES;
		if (!index)
			break;
	}
	return UINT64_MAX;
}

pgoff_t mapping_next_clean(struct mapping *m, pgoff_t index)
{
	for (;;) {
		pgoff_t base = ALIGN_DOWN(index, NODE_PAGES);
		uint64_t bits = ~dirty_bits(m, index) &
				(~0ull << (index - base));

		if (bits)
			return base + (unsigned)__builtin_ctzll(bits);
		index = base + NODE_PAGES;
	}
}

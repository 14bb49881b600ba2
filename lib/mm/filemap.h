/* SPDX-License-Identifier: MIT */
/*
 * filemap: folios for writing and reading, their edges, and dropping behind.
 */
#ifndef DBH_MM_FILEMAP_H
#define DBH_MM_FILEMAP_H

#include "mm/engine.h"

/* Internal flags of a write, beside the public ones. */
#define FILEMAP_LENT 0x10000u /* filled by the caller: it may end short */

#define FOLIO_BATCH_MAX 32u

/**
 * struct folio_batch - locked folios for one piece of a write
 * @pos, @len: the piece, in bytes
 */
struct folio_batch {
	uint64_t pos;
	size_t len;
	unsigned nr;
	struct folio *folio[FOLIO_BATCH_MAX];
};

/**
 * filemap_write_begin - lock, or make, the folios of a piece of a write
 * @pos, @len: what is to be written; @len > 0
 * @flags: DBH_DONTCACHE, DBH_DEFER, FILEMAP_LENT
 * @w: queued if there is something to wait for; NULL: do not wait
 *
 * On success at least one byte, from @pos on; on failure no folio is held.
 * Context: holds the io_lock shared, or exclusive.
 * Return: 0; -EIOCBQUEUED; -EAGAIN; the error of a device that writes nothing
 * and has failed data up to its limit
 */
int filemap_write_begin(struct mapping *m, struct folio_batch *b, uint64_t pos,
			size_t len, unsigned flags, struct waiter *w);
/** @written bytes from b->pos on are in place; unlocks everything. */
void filemap_write_end(struct mapping *m, struct folio_batch *b, size_t written,
		       unsigned flags);
/** The memory of the @i-th folio's part of the batch. */
struct iovec folio_batch_vec(struct mapping *m, const struct folio_batch *b,
			     unsigned i);

/** Take a locked, clean folio out of the cache and free it. */
void folio_drop(struct dbh_engine *e, struct folio *f);
/** The same, whatever its state but WRITEBACK: its data is given up. */
void folio_discard(struct dbh_engine *e, struct folio *f);

/** Every byte of a locked folio is known now: it is an edge no longer. */
void edge_finish(struct folio *f, uint32_t set, uint32_t clear);

/** R6; see dbh_edge_completes() and dbh_edge_complete(). */
bool filemap_edge_completes(struct mapping *m, uint64_t pos);
void filemap_edge_complete(struct mapping *m, uint64_t pos);

/** Nodes of @m may have been closed: somebody may open further ones. */
void open_wake(struct mapping *m);
void open_wake_all(struct dbh_engine *e);

/** R3: a cached access touches a locked folio. */
void folio_mark_accessed(struct folio *f);

#endif

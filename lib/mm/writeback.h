/* SPDX-License-Identifier: MIT */
/*
 * writeback: dirty folios to the store, in large bios.
 */
#ifndef DBH_MM_WRITEBACK_H
#define DBH_MM_WRITEBACK_H

#include "mm/bio_pool.h"
#include "mm/engine.h"

#define NO_TAIL UINT64_MAX

/** What of a range is to be written. */
enum writeback_mode {
	WRITEBACK_DROPBEHIND, /* whole and completed uncached folios */
	WRITEBACK_KNOWN, /* and cached ones; no edge that is incomplete */
	WRITEBACK_ALL, /* everything that is known, waiting for locks */
};

/**
 * writeback_range - start writing pages [@first, @last] of a mapping
 * @batch: counts the bios, or NULL
 *
 * What is not UPTODATE stays: see fill_range(). The block that holds the end
 * of the file is left to writeback_tail(), which all modes but WRITEBACK_ALL
 * call.
 * Context: may sleep for requests, for the on-disk end, and in
 * WRITEBACK_ALL for folio locks.
 * Return: where the block starts that was left, dirty, as that of the end; or
 * NO_TAIL
 */
uint64_t writeback_range(struct mapping *m, pgoff_t first, pgoff_t last,
			 enum writeback_mode mode, struct batch *batch);

/** Sleep until no folio of [@first, @last] is under writeback. */
void writeback_wait(struct mapping *m, pgoff_t first, pgoff_t last);

/**
 * writeback_tail - write the block that holds the end of the file, exactly
 *
 * @pos: out: where the block written starts; NO_TAIL: none is dirty and known
 * Return: 0, or -errno: it is dirty again
 */
int writeback_tail(struct mapping *m, uint64_t *pos);

/** Raise the on-disk end to at least @end, a multiple of the minimum folio and
 * not beyond the logical end (R16). Return: 0 or -errno. */
int disk_size_extend(struct mapping *m, uint64_t end);
/** The same for a holder of size_lock. */
int disk_size_extend_locked(struct mapping *m, uint64_t end);
/** Raise it to the logical end, where nothing dirty would: for what follows only
 * the store knows. size_lock is held. Return: 0 or -errno */
int disk_size_catch_up_locked(struct mapping *m);
/**
 * disk_end_look_locked - the store has moved the on-disk end, or failed to
 *
 * Some file systems extend the file as they allocate: what a failure leaves of
 * that is undone, for the file on disk never ends beyond its logical end (R16).
 * The io_lock is held alone, and size_lock.
 */
void disk_end_look_locked(struct mapping *m, bool failed);

/* ---- edges that must go to disk; fill.c ------------------------------ */

/**
 * edge_fill - fetch the missing bytes of a locked folio that is not UPTODATE
 * @fill: to do it with; given back by its end
 * @done: called once, maybe before the return; the folio is locked
 */
void edge_fill(struct fill *fill, struct folio *f,
	       void (*done)(struct fill *fill), void *arg);

/** Fill every dirty folio of [@first, @last] that is not UPTODATE; unlocked
 * when it is. */
void fill_range(struct mapping *m, pgoff_t first, pgoff_t last,
		struct batch *batch);

/**
 * edges_evict - write out edges of a device's files, oldest first (R5)
 * @max: how many at most
 * @min_age_ms: only those at least so old
 * Return: how many are on their way
 */
unsigned edges_evict(struct wb *wb, unsigned max, uint32_t min_age_ms);

/* ---- the flusher ----------------------------------------------------- */

void *flusher_main(void *wb);
/**
 * writeback_kick_range - start writing what a writer has just written (R11)
 *
 * What may be dropped of pages [@first, @last], unless somebody is at that for
 * this mapping already: it is left to the flusher then.
 * Context: may sleep for requests; no folio is held.
 */
void writeback_kick_range(struct mapping *m, pgoff_t first, pgoff_t last);
/** Ask the flusher to look now. Any context. */
void wb_kick(struct wb *wb);

/** Reading or writing what is dirty has failed (R15): tell it to every handle, and
 * let the flusher try again after a while, longer each time. */
void writeback_failed(struct mapping *m, int err);
/** The writeback of a locked folio has failed, or has gone well; or its data is
 * given up. Keeps the counts of what has failed. */
void folio_set_failed(struct folio *f);
void folio_clear_failed(struct folio *f);
/** Not failing, or to be tried again now. */
bool mapping_due(const struct mapping *m);

/** While something may go to disk, the flusher looks so often. */
#define UNCACHED_TICK_MS 12u
/** How often it looks for what comes of age. */
uint32_t expire_tick_ms(const struct dbh_engine *e);
/** Something was put on a list that must be looked at within @ms: kick the
 * flusher if it means to sleep for longer. */
void wb_alarm(struct wb *wb, uint32_t ms);

/** The end of a bio of folios: called from the completion thread. */
void writeback_end(struct bio *bio);

#endif

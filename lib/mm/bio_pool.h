/* SPDX-License-Identifier: MIT */
/*
 * bio_pool: the requests of an engine, made once.
 *
 * Writeback, reading and filling of edges have requests of their own, so that
 * none waits for the other: writeback must always be able to go on. And a slow
 * device must not keep a fast one from its work: a device may hold so many as
 * long as some are left (see bio_admit()).
 */
#ifndef DBH_MM_BIO_POOL_H
#define DBH_MM_BIO_POOL_H

#include "block/block.h"
#include "mm/engine.h"

/** struct batch - requests that somebody waits for together */
struct batch {
	_Atomic uint32_t pending;
	_Atomic int err;
};

void batch_init(struct batch *b);
void batch_get(struct batch *b);
/** One request of it has ended. The batch may be gone afterwards. */
void batch_put(struct batch *b, int err);
/** Sleep until none is pending. Return: 0 or the first error. */
int batch_wait(struct batch *b);

/**
 * struct wb_bio - a bio that writes folios back
 * @batch: who waits for it, or NULL
 */
struct wb_bio {
	struct bio bio;
	struct mapping *m;
	struct batch *batch;
	struct iovec vecs[BIO_MAX_VECS];
};

#define READ_BIO_VECS 64u

/**
 * struct read_bio - a bio that reads into new folios
 * @done: called when it has ended, from the completion thread; the folios are
 *	still locked
 */
struct read_bio {
	struct bio bio;
	struct mapping *m;
	void (*done)(struct read_bio *rb);
	void *arg;
	struct iovec vecs[READ_BIO_VECS];
};

/**
 * struct fill - fetches the missing bytes of an edge
 * @bounce: room for a minimum folio
 * @done: the folio is still locked, UPTODATE unless @bio.status
 */
struct fill {
	struct bio bio;
	struct iovec vec;
	char *bounce;
	struct folio *folio;
	struct mapping *m;
	void (*done)(struct fill *fill);
	void *arg;
};

/** Bytes of all requests for a budget; how many there will be. */
size_t bio_pool_bytes(size_t memory_bytes, unsigned queue_depth);
int bio_pool_init(struct dbh_engine *e);
void bio_pool_fini(struct dbh_engine *e);

/** One for device @wb; sleep until there is one. */
struct wb_bio *wb_bio_get(struct wb *wb);
void wb_bio_put(struct wb *wb, struct wb_bio *b);
/** @w is queued if there is none: NULL, try again when woken. Without @w:
 * NULL at once. */
struct read_bio *read_bio_get(struct wb *wb, struct waiter *w);
void read_bio_put(struct wb *wb, struct read_bio *b);
struct fill *fill_get(struct wb *wb, struct waiter *w);
/** Sleeps. Who waits for one holds no folio: the holder of another may wait for
 * that. */
struct fill *fill_get_wait(struct wb *wb);
void fill_put(struct wb *wb, struct fill *f);
/** A waiter was woken for a request, and may not have needed it any more: wake
 * the next one. */
void bio_pool_pass_on(struct dbh_engine *e);

#endif

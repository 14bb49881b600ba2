/* SPDX-License-Identifier: MIT */
/*
 * readahead: from the store into new folios.
 */
#ifndef DBH_MM_READAHEAD_H
#define DBH_MM_READAHEAD_H

#include "mm/engine.h"

/**
 * struct readahead - of one handle
 * @lock: of what follows; only tried: who does not get it reads on without
 * @next: where a sequential reader goes on, in bytes
 * @window: bytes to be read ahead of it; 0: not sequential
 * @end: up to where was asked for already
 */
struct readahead {
	struct mutex lock;
	uint64_t next;
	uint64_t window;
	uint64_t end;
};

void readahead_init(struct readahead *ra);
/** A reader is about to read [@pos, @pos + @len): start what will be wanted
 * after it, if it is sequential. Never waits. */
void readahead_start(struct mapping *m, struct readahead *ra, uint64_t pos,
	       size_t len, bool uncached);

/**
 * read_folios - start reading what is absent from @pos on
 * @len: how far, at most; rounded to minimum folios, cut at the end of the
 *	file, at the first folio that is there, and at one bio
 *
 * The new folios are locked until the data is there. One that could not be
 * read stays, FAILED and not UPTODATE, with the errno in read_bytes; whoever
 * finds it drops it.
 * Return: 0: something was started, or has come; -EIOCBQUEUED; -EAGAIN
 */
int read_folios(struct mapping *m, uint64_t pos, size_t len, bool uncached,
		struct waiter *w);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * writers: threads that do to a file whatever an application may, and put it
 * down in a history: writes cached, uncached, deferred, stable, lent,
 * asynchronous, in part, in a row and at the end, syncs of all and of a part,
 * truncates, punches, reads, reopens.
 */
#ifndef DBH_TESTS_WRITERS_H
#define DBH_TESTS_WRITERS_H

#include <pthread.h>

#include "dropbehind/dropbehind.h"
#include "support/history.h"
#include "support/rng.h"

#define WRITERS_MAX 4u

/** struct writers_ops - what their owner does; all required, of any thread */
struct writers_ops {
	bool (*over)(void *arg);
	/* Another handle of the file. */
	struct dbh_file *(*open)(void *arg);
	/* A call returned @res, the @times-th time in a row. It need not
	 * return; else it sees to it that this comes to an end. */
	void (*failed)(void *arg, struct rng *r, long long res, unsigned times);
	/* No errors from now on. */
	void (*mend)(void *arg);
	/* Until the next call the file may be as large as this, if it is
	 * larger than it says (a truncate is under way); 0: it may not. */
	void (*resize)(void *arg, uint64_t size);
	/* Between two calls; the handles stay. */
	void (*between)(void *arg, struct rng *r);
};

/**
 * struct writers
 * @h, @nr, @seed, @may_fail, @ops, @arg: set by the owner
 * @share: the same; one handle for all, which hears of an error once
 * @file: of each; opened by writers_open()
 * @life: held shared by every call, alone where all handles change
 * @room: held shared by writers, alone by truncates and appends
 */
struct writers {
	struct history *h;
	unsigned nr;
	uint64_t seed;
	bool may_fail, share;
	const struct writers_ops *ops;
	void *arg;
	struct dbh_file *file[WRITERS_MAX];
	pthread_rwlock_t life, room;
};

void writers_open(struct writers *ws);
/** Until all is over. */
void writers_run(struct writers *ws);
/** Mend, close, open, write all anew, sync: what a program does after a failed
 * flush (R15). Where nothing can fail a sync will do. */
void writers_heal(struct writers *ws);
/** Closes all. Return: the last error that a close said */
int writers_close(struct writers *ws);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * victim: a process that writes to a file until it is killed, and the look at
 * what it has left.
 */
#ifndef DBH_TESTS_VICTIM_H
#define DBH_TESTS_VICTIM_H

#include <sys/types.h>

#include "support/writers.h"

/**
 * struct victim
 * @h: in memory that is shared with it
 * @path: of the file, made if it is not there
 * @seed: of all that this one does
 * @io_method: enum dbh_io_method
 * @may_fail: its file system is shut down under it: it then stands still
 */
struct victim {
	struct history *h;
	const char *path;
	uint64_t seed;
	unsigned io_method;
	bool may_fail;
};

/** A history that both see, cut into records of @bytes. */
struct history *history_shared(size_t bytes);
void history_unshare(struct history *h);

/** Return: its process, once the file is open there. */
pid_t victim_start(const struct victim *v);
/** kill -9, and wait for its end. */
void victim_kill(pid_t pid);
/** What it left must be as its history says, with what was durable at some
 * time before its end; from here the file is that. */
void victim_check(const struct victim *v, const struct durable *durable);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * block_env: a file store on each method of issuing, in each directory that
 * there is; and threads that do everything to it at once.
 */
#ifndef BLOCK_ENV_H
#define BLOCK_ENV_H

#include "block/kcache.h"
#include "block_io.h"

#define DEPTH 8u
#define MIB (1u << 20)

/** struct env - a fresh file on one method in one directory
 * @fd: the store's own; valid while the store lives, as is @kc
 * @other: another program's, or -1
 * @in_memory: tmpfs
 * @skip: set by @before of for_each_env(): there is nothing to test here
 */
struct env {
	struct ioq *ioq;
	struct store *store;
	char path[512];
	int fd, other;
	struct kcache kc;
	bool in_memory, skip;
};

/** Where: ends with NULL. */
extern const char *env_dirs[5];

/** A new file; its descriptor. */
int env_open(struct env *e, const char *dir, int flags);
/** @before, or NULL: before the store takes the file. */
void env_up(struct env *e, enum ioq_method method, unsigned depth,
	    const char *dir, void (*before)(struct env *e));
void env_down(struct env *e);
void for_each_env(void (*before)(struct env *e), void (*test)(struct env *e));

/* ---- all at once ----------------------------------------------------- */

#define CREW 3u
#define CREW_BYTES (2u * MIB)

/** struct crew - one of the threads
 * @rounds: or until @stop, if that is set
 * @first: generation
 * @gen: of each 64 KiB of its own, 0: not written
 */
struct crew {
	struct env *e;
	unsigned who, rounds, first;
	_Atomic bool *stop;
	unsigned gen[CREW_BYTES / 65536];
	int err;
};

/** Each has 2 MiB of its own and rewrites it, several bios at a time. */
void *crew_writes(void *arg);
/** Meanwhile the end block moves, behind those of the @who there are, and the
 * store is synced and settled. */
void *crew_tails(void *arg);

#endif

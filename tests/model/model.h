/* SPDX-License-Identifier: MIT */
/*
 * model: a file, and the array of bytes that it must be.
 *
 * The bytes of the file belong to threads, in segments that begin and end at
 * odd places, so that threads share folios but no byte. A thread reads and
 * writes its own bytes and knows what they are; the lock is held shared. Who
 * holds it alone may do anything, and knows the size and every byte.
 */
#ifndef DBH_TESTS_MODEL_H
#define DBH_TESTS_MODEL_H

#include <pthread.h>

#include "dropbehind/dropbehind.h"
#include "support/check.h"
#include "support/rng.h"
#include "support/spy.h"

#define MAX_THREADS 8u
#define MAX_SEGMENTS 64u

/** struct config - one round, all of it from its seed */
struct config {
	uint64_t seed;
	const char *place; /* "mem", "ext4", "shm" */
	unsigned min_folio, align; /* of "mem" */
	unsigned io_method;
	unsigned threads;
	size_t span; /* the largest size of the file */
	size_t memory;
	unsigned delay_us; /* of "mem": a store that is slow */
	unsigned queue_depth;
	unsigned expire_ms;
	bool existing; /* the file has content at first */
	bool exclusive; /* with truncates and the like */
	bool faulty; /* of "mem": it errs, now and then */
	bool extents; /* with fallocates, copies and looks for holes */
	dev_t dev; /* of "mem" */
	struct dbh_engine *engine; /* shared with others, or NULL */
	unsigned long ops; /* of each thread */
};

struct segment {
	size_t start, end;
	unsigned owner;
};

struct model {
	struct config cfg;
	struct dbh_engine *engine;
	struct spy *spy; /* of "mem" */
	char path[600]; /* of the others */
	struct dbh_file *file[MAX_THREADS];
	pthread_rwlock_t lock;
	char *bytes; /* cfg.span of them */
	unsigned nr_segments;
	struct segment segment[MAX_SEGMENTS];
	size_t size; /* when last held alone; the file is no smaller */
	_Atomic size_t written_end[MAX_THREADS]; /* by each since */
};

/* ---- model.c: life, and what is known -------------------------------- */

struct model *model_create(const struct config *cfg);
/** Closes everything and looks once more. */
void model_destroy(struct model *m);
struct dbh_file *model_open(struct model *m);
/** The lock is held alone: settle the size. */
void model_settle(struct model *m);
/** The same: every byte through the engine. */
void model_check_read(struct model *m, struct dbh_file *file, unsigned flags);
/** The same, after a sync or close: every byte below the engine. */
void model_check_store(struct model *m);
/** The counters of an engine in use. */
void model_check_stats(struct model *m);
/** The first byte in which they differ, or @len. */
size_t first_difference(const char *a, const char *b, size_t len);

/* ---- errors.c: stores that err, and what is done about it ------------- */

/** @res, negative or less than wanted, may come of a store that errs. */
void model_failed(struct model *m, long long res);
/** The store errs no more, and what failed is tried again. */
void model_mend(struct model *m, struct dbh_file *file);
/** It errs from now on, or not, as @r will have it. */
void model_set_errors(struct model *m, struct rng *r);
/** Write @buf at @pos until it is written: what failed may be there in part. */
void model_repair(struct model *m, struct dbh_file *file, const char *buf,
		  size_t len, size_t pos);
/** The lock is held alone; read or truncate until it works. */
void model_read_all(struct model *m, struct dbh_file *file, char *buf,
		    unsigned flags);
void model_truncate(struct model *m, struct dbh_file *file, size_t size);
/** The lock is held alone: the store may end at @size, ahead of the file. 0: it
 * may not. */
void model_set_limit(struct model *m, size_t size);
/** fallocate until it works. Return: 0 or -EOPNOTSUPP */
int model_fallocate(struct model *m, struct dbh_file *file, int mode, size_t pos,
		    size_t len);

/* ---- ops.c ----------------------------------------------------------- */

/** struct actor - a thread of the test
 * @doing: what, or NULL; @nr_done: operations so far; for a watchdog
 */
struct actor {
	struct model *m;
	unsigned id;
	struct rng rng;
	char *buf; /* cfg.span bytes */
	char *async; /* the same, for what is under way */
	_Atomic(const char *) doing;
	_Atomic unsigned long nr_done;
};

/* A range of bytes. */
struct range {
	size_t start, len;
};

/** One that belongs to @a. */
struct range own_range(struct actor *a);
/** Flags for one call. */
unsigned write_flags(struct actor *a);
unsigned read_flags(struct actor *a);
/** As far as this thread knows, the file ends here or later. */
size_t known_size(struct actor *a);
void grew_to(struct actor *a, size_t end);

void actor_init(struct actor *a, struct model *m, unsigned id);
void actor_fini(struct actor *a);
/** One operation, whichever. */
void actor_step(struct actor *a);

/* ---- alone.c: operations of one who holds the lock alone -------------- */

void alone_truncate(struct actor *a);
void alone_append(struct actor *a);
void alone_read(struct actor *a);
void alone_sync(struct actor *a);
void alone_close(struct actor *a);

/* ---- extents.c: operations; alone_...: the lock is held alone --------- */

void op_punch(struct actor *a);
void op_copy(struct actor *a);
void op_seek(struct actor *a);
void alone_fallocate(struct actor *a);
void alone_move(struct actor *a);
void alone_copy(struct actor *a);
void alone_seek(struct actor *a);

#endif

// SPDX-License-Identifier: MIT
/*
 * writers: see writers.h.
 */
#include "support/writers.h"

#include <semaphore.h>

#include "support/check.h"
#include "support/pattern.h"

/* A sync that fails so often in a row: everything must be written anew. */
#define SYNC_TRIES 6u

struct writer {
	struct writers *ws;
	struct history *h;
	struct rng rng;
	unsigned id;
};

static struct dbh_file *file_of(struct writer *w)
{
	return w->ws->file[w->id];
}

static void failed(struct writer *w, long long res, unsigned times)
{
	CHECK(w->ws->may_fail, "%lld (%s), and nothing was to fail", res,
	      strerror((int)-res));
	w->ws->ops->failed(w->ws->arg, &w->rng, res, times);
}

/* ---- syncs ----------------------------------------------------------- */

static int sync_once(struct writer *w, const struct history_sync *s)
{
	unsigned i = (unsigned)rng_below(&w->rng, w->h->nr);
	uint64_t pos = i * (uint64_t)w->h->bytes;
	int err;

	switch (rng_below(&w->rng, 3)) {
	case 0:
		err = dbh_fsync(file_of(w));
		break;
	case 1:
		err = dbh_fdatasync(file_of(w));
		break;
	default:
		err = dbh_sync_range(file_of(w), (off_t)pos, (off_t)w->h->bytes,
				     rng_chance(&w->rng, 50));
		if (!err)
			history_synced_record(w->h, s, i);
		return err;
	}
	if (!err)
		history_synced(w->h, s);
	return err;
}

/* Life is held shared; false: the file must be healed. */
static bool sync_file(struct writer *w)
{
	struct history_sync s;
	int err;

	for (unsigned times = 1; times <= SYNC_TRIES; times++) {
		history_sync_begin(w->h, &s);
		err = sync_once(w, &s);
		if (!err)
			return true;
		failed(w, err, times);
	}
	return false;
}

/* ---- writes ---------------------------------------------------------- */

static unsigned choose_flags(struct writer *w)
{
	unsigned flags = rng_chance(&w->rng, 70) ? DBH_DONTCACHE : 0;

	if (flags && rng_chance(&w->rng, 30))
		flags |= DBH_DEFER;
	if (rng_chance(&w->rng, 20))
		flags |= rng_chance(&w->rng, 50) ? DBH_DSYNC : DBH_SYNC;
	return flags;
}

struct async {
	sem_t done;
	ssize_t res;
};

static void async_done(void *arg, ssize_t res)
{
	struct async *as = arg;

	as->res = res;
	sem_post(&as->done);
}

static ssize_t write_async(struct dbh_file *file, char *buf, size_t len,
			   uint64_t pos, unsigned flags)
{
	struct iovec iov = { buf, len };
	struct async as;

	sem_init(&as.done, 0, 0);
	CHECK_OK(dbh_submit_write(file, &iov, 1, (off_t)pos, flags, async_done,
				  &as));
	while (sem_wait(&as.done))
		;
	sem_destroy(&as.done);
	return as.res;
}

static ssize_t write_lent(struct dbh_file *file, const char *buf, size_t len,
			  uint64_t pos, unsigned flags)
{
	size_t done = 0;

	while (done < len) {
		struct dbh_write *write;
		struct iovec iov[8];
		int cnt = 8;
		ssize_t lent;

		lent = dbh_write_begin(file, (off_t)(pos + done), len - done,
				       flags, iov, &cnt, &write);
		if (lent < 0)
			return done ? (ssize_t)done : lent;
		for (int i = 0; i < cnt; i++) {
			memcpy(iov[i].iov_base, buf + done, iov[i].iov_len);
			done += iov[i].iov_len;
		}
		CHECK_IS(dbh_write_end(write, (size_t)lent), lent);
	}
	return (ssize_t)done;
}

static ssize_t write_once(struct writer *w, unsigned i, size_t from, size_t to,
			  unsigned gen, unsigned flags)
{
	uint64_t pos = i * (uint64_t)w->h->bytes + from;
	char *buf = malloc(to - from);
	ssize_t res;

	CHECK(buf, "no memory");
	pattern_fill(buf, to - from, pos, gen);
	if (rng_chance(&w->rng, 15))
		res = write_async(file_of(w), buf, to - from, pos, flags);
	else if (rng_chance(&w->rng, 15) &&
		 !(flags & ~(DBH_DONTCACHE | DBH_DEFER)))
		res = write_lent(file_of(w), buf, to - from, pos, flags);
	else
		res = dbh_pwrite(file_of(w), buf, to - from, (off_t)pos, flags);
	free(buf);
	return res;
}

/* All of record @i, until it is written: an inode that fails takes no more
 * until it was written back, which a sync tries at once (R15). */
static void write_whole(struct writer *w, unsigned i, unsigned flags)
{
	struct history *h = w->h;
	unsigned gen = history_write(h, i, 0, h->bytes), times = 1;
	ssize_t res;

	while ((res = write_once(w, i, 0, h->bytes, gen, flags)) !=
	       (ssize_t)h->bytes) {
		failed(w, res, times++);
		dbh_fdatasync(file_of(w));
	}
	history_written(h, i);
}

/* Write a part of record @i. What failed may be there in part: then all of
 * it. */
static void write_part(struct writer *w, unsigned i, size_t from, size_t to,
		       unsigned flags)
{
	struct history *h = w->h;
	unsigned gen = history_write(h, i, from, to);
	ssize_t res = write_once(w, i, from, to, gen, flags);

	if (res != (ssize_t)(to - from)) {
		failed(w, res, 1);
		write_whole(w, i, flags & DBH_DONTCACHE);
		return;
	}
	history_written(h, i);
	if (flags & (DBH_DSYNC | DBH_SYNC))
		history_synced_write(h, i);
}

static unsigned own_record(struct writer *w)
{
	unsigned n = w->h->nr, threads = w->ws->nr;
	unsigned each = n / threads;

	return (unsigned)rng_below(&w->rng, each) * threads + w->id;
}

/* R6: the ends are completed once the sync is done. */
static void complete_edges(struct writer *w, uint64_t start, uint64_t end)
{
	dbh_edge_complete(file_of(w), (off_t)start);
	dbh_edge_complete(file_of(w), (off_t)(end - 1));
}

static bool op_write(struct writer *w)
{
	struct history *h = w->h;
	unsigned i = own_record(w), flags = choose_flags(w);
	size_t from = 0, to = h->bytes;
	uint64_t pos = i * (uint64_t)h->bytes;
	bool fine = true;

	if (rng_chance(&w->rng, 25)) {
		from = rng_below(&w->rng, h->bytes);
		to = from + 1 + rng_below(&w->rng, h->bytes - from);
	}
	pthread_rwlock_rdlock(&w->ws->room);
	if (history_room(h, i))
		write_part(w, i, from, to, flags);
	pthread_rwlock_unlock(&w->ws->room);
	if (flags & DBH_DEFER) {
		if (!(flags & (DBH_DSYNC | DBH_SYNC)) &&
		    rng_chance(&w->rng, 30))
			fine = sync_file(w);
		complete_edges(w, pos + from, pos + to);
	}
	return fine;
}

/* Neighbours, one after the other, by one writer. */
static bool op_stream(struct writer *w)
{
	struct history *h = w->h;
	unsigned first = (unsigned)rng_below(&w->rng, h->nr);
	unsigned flags = DBH_DONTCACHE;

	pthread_rwlock_wrlock(&w->ws->room);
	for (unsigned i = first; i < first + 10 && i < h->nr; i++)
		if (history_room(h, i))
			write_part(w, i, 0, h->bytes, flags);
	pthread_rwlock_unlock(&w->ws->room);
	return true;
}

static bool op_append(struct writer *w)
{
	struct history *h = w->h;
	unsigned flags = choose_flags(w) | DBH_APPEND, i;
	size_t from, to;

	pthread_rwlock_wrlock(&w->ws->room);
	i = (unsigned)(atomic_load(&h->end) / h->bytes);
	from = atomic_load(&h->end) % h->bytes;
	to = from + 1 + rng_below(&w->rng, h->bytes - from);
	if (i < h->nr && history_room(h, i))
		write_part(w, i, from, to, flags);
	pthread_rwlock_unlock(&w->ws->room);
	return true;
}

static void truncate_to(struct writer *w, uint64_t size)
{
	const struct writers_ops *ops = w->ws->ops;
	uint64_t end = atomic_load(&w->h->end);
	unsigned times = 1;
	int err;

	ops->resize(w->ws->arg, size > end ? size : end);
	while ((err = dbh_ftruncate(file_of(w), (off_t)size)))
		failed(w, err, times++);
	ops->resize(w->ws->arg, 0);
}

static bool op_truncate(struct writer *w)
{
	struct history *h = w->h;
	uint64_t size = rng_below(&w->rng, h->nr * h->bytes + 1);
	uint64_t end = atomic_load(&h->end);

	/* Often near the end, and to borders of blocks. */
	if (rng_chance(&w->rng, 50) && end)
		size = end - rng_below(&w->rng, end < 9000 ? end : 9000);
	if (rng_chance(&w->rng, 30))
		size = size / 4096 * 4096;
	pthread_rwlock_wrlock(&w->ws->room);
	if (history_truncate(h, size)) {
		truncate_to(w, size);
		history_truncated(h, size);
	}
	pthread_rwlock_unlock(&w->ws->room);
	return true;
}

static bool op_punch(struct writer *w)
{
	struct history *h = w->h;
	unsigned i = own_record(w), times = 1;
	size_t from = rng_below(&w->rng, h->bytes);
	size_t len = 1 + rng_below(&w->rng, h->bytes - from);
	uint64_t pos = i * (uint64_t)h->bytes + from;
	int err;

	pthread_rwlock_rdlock(&w->ws->room);
	if (history_room(h, i)) {
		history_punch(h, i, from, from + len);
		while ((err = dbh_fallocate(file_of(w),
					    FALLOC_FL_PUNCH_HOLE |
						    FALLOC_FL_KEEP_SIZE,
					    (off_t)pos, (off_t)len)))
			failed(w, err, times++);
		history_punched(h, i);
	}
	pthread_rwlock_unlock(&w->ws->room);
	return true;
}

/* Reads fill edges; what they find is the model test's. */
static bool op_read(struct writer *w)
{
	struct history *h = w->h;
	char *buf = malloc(h->bytes);
	ssize_t res;

	CHECK(buf, "no memory");
	res = dbh_pread(file_of(w), buf, h->bytes,
			(off_t)rng_below(&w->rng, HISTORY_BYTES),
			rng_chance(&w->rng, 50) ? DBH_DONTCACHE : 0);
	if (res < 0)
		failed(w, res, 0);
	free(buf);
	return true;
}

/* Where there is another handle this is never the last close: that would
 * forgive a failed flush behind the backs of the others. */
static bool op_reopen(struct writer *w)
{
	struct writers *ws = w->ws;
	struct dbh_file *old = file_of(w);
	bool alone = ws->nr == 1;
	int err;

	if (ws->share && !alone)
		return true;
	if (!alone)
		ws->file[w->id] = ws->ops->open(ws->arg);
	err = dbh_close(old);
	if (err)
		failed(w, err, 0);
	if (alone)
		ws->file[w->id] = ws->ops->open(ws->arg);
	return !alone || !ws->may_fail;
}

/* ---- all of them ----------------------------------------------------- */

static void *write_until_over(void *arg)
{
	static const struct {
		bool (*op)(struct writer *w);
		unsigned weight;
	} ops[] = {
		{ op_write, 56 },   { op_stream, 6 }, { op_append, 8 },
		{ op_truncate, 7 }, { op_read, 4 },   { op_reopen, 2 },
		{ sync_file, 11 },  { op_punch, 6 },
	};
	struct writer *w = arg;
	struct writers *ws = w->ws;

	while (!ws->ops->over(ws->arg)) {
		unsigned at = (unsigned)rng_below(&w->rng, 100), i = 0;
		bool fine;

		while (at >= ops[i].weight)
			at -= ops[i++].weight;
		pthread_rwlock_rdlock(&ws->life);
		fine = ops[i].op(w);
		ws->ops->between(ws->arg, &w->rng);
		pthread_rwlock_unlock(&ws->life);
		if (!fine)
			writers_heal(ws);
	}
	return NULL;
}

void writers_run(struct writers *ws)
{
	struct writer writer[WRITERS_MAX];
	pthread_t thread[WRITERS_MAX];

	for (unsigned i = 0; i < ws->nr; i++) {
		writer[i] = (struct writer){
			.ws = ws,
			.h = ws->h,
			.rng = rng_fork(ws->seed, i + 1),
			.id = i,
		};
		CHECK_OK(-pthread_create(&thread[i], NULL, write_until_over,
					 &writer[i]));
	}
	for (unsigned i = 0; i < ws->nr; i++)
		pthread_join(thread[i], NULL);
}

/* ---- handles --------------------------------------------------------- */

static void open_all(struct writers *ws)
{
	for (unsigned i = 0; i < ws->nr; i++)
		ws->file[i] = i && ws->share ? ws->file[0] :
					       ws->ops->open(ws->arg);
}

static int close_all(struct writers *ws)
{
	int err = 0;

	for (unsigned i = 0; i < (ws->share ? 1 : ws->nr); i++) {
		int res = dbh_close(ws->file[i]);

		err = res ? res : err;
	}
	return err;
}

/* ---- healing --------------------------------------------------------- */

static bool room_for_all(const struct history *h)
{
	for (unsigned i = 0; i < h->nr; i++)
		if (!history_room(h, i))
			return false;
	return true;
}

/* Nothing fails here, unless the world has come to its end. */
static void must_be(struct writers *ws, long long res, long long want)
{
	struct rng r = rng_fork(ws->seed, 98);

	if (res != want && ws->may_fail)
		ws->ops->failed(ws->arg, &r, res, 1);
	CHECK_IS(res, want);
}

static void rewrite(struct writers *ws, unsigned i)
{
	struct history *h = ws->h;
	uint64_t pos = i * (uint64_t)h->bytes, end = atomic_load(&h->end);
	size_t len = end - pos < h->bytes ? end - pos : h->bytes;
	unsigned gen = history_write(h, i, 0, len);
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	pattern_fill(buf, len, pos, gen);
	must_be(ws,
		dbh_pwrite(ws->file[0], buf, len, (off_t)pos, DBH_DONTCACHE),
		(long long)len);
	history_written(h, i);
	free(buf);
}

static void rewrite_all(struct writers *ws)
{
	struct history *h = ws->h;

	/* The closes say what was not said yet. */
	close_all(ws);
	open_all(ws);
	for (unsigned i = 0; i < h->nr; i++)
		if (i * (uint64_t)h->bytes < atomic_load(&h->end))
			rewrite(ws, i);
}

void writers_heal(struct writers *ws)
{
	struct history_sync s;
	bool room;

	pthread_rwlock_wrlock(&ws->life);
	ws->ops->mend(ws->arg);
	room = room_for_all(ws->h);
	if (room && ws->may_fail)
		rewrite_all(ws);
	/* The flusher may have failed a moment ago. */
	if (ws->may_fail)
		dbh_fsync(ws->file[0]);
	history_sync_begin(ws->h, &s);
	if (room || !ws->may_fail) {
		must_be(ws, dbh_fsync(ws->file[0]), 0);
		history_synced(ws->h, &s);
	}
	pthread_rwlock_unlock(&ws->life);
}

/* ---- life ------------------------------------------------------------ */

/* Truncates must get a turn among writers that never rest. */
static void init_lock(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(
		&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(lock, &attr);
	pthread_rwlockattr_destroy(&attr);
}

void writers_open(struct writers *ws)
{
	init_lock(&ws->life);
	init_lock(&ws->room);
	open_all(ws);
}

int writers_close(struct writers *ws)
{
	int err = close_all(ws);

	pthread_rwlock_destroy(&ws->life);
	pthread_rwlock_destroy(&ws->room);
	return err;
}

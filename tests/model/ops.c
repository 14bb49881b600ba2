// SPDX-License-Identifier: MIT
/*
 * ops: what the threads of the model test do.
 */
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>

#include "model.h"

#define MAX_DEFERRED 2u
#define MAX_ASYNC 8u

struct range own_range(struct actor *a)
{
	struct model *m = a->m;
	const struct segment *s;
	struct range r;
	size_t max;

	do {
		s = &m->segment[rng_below(&a->rng, m->nr_segments)];
	} while (s->owner != a->id);
	max = s->end - s->start;
	if (rng_chance(&a->rng, 20)) {
		r.start = s->start;
		r.len = max;
	} else {
		r.len = rng_size(&a->rng, max);
		r.start = s->start + rng_below(&a->rng, max - r.len + 1);
	}
	/* Often to or from a border of blocks. */
	if (rng_chance(&a->rng, 25) && r.start + 4096 < s->end &&
	    r.start % 4096) {
		size_t start = (r.start + 4095) / 4096 * 4096;

		r.start = start;
		r.len = r.len > s->end - start ? s->end - start : r.len;
	}
	return r;
}

void grew_to(struct actor *a, size_t end)
{
	_Atomic size_t *at = &a->m->written_end[a->id];

	if (end > atomic_load(at))
		atomic_store(at, end);
}

size_t known_size(struct actor *a)
{
	size_t end = atomic_load(&a->m->written_end[a->id]);

	return end > a->m->size ? end : a->m->size;
}

/* ---- vectors --------------------------------------------------------- */

static int split_vectors(struct actor *a, char *buf, size_t len,
			 struct iovec *iov, int max)
{
	int cnt = 0;

	while (len && cnt < max - 1 && rng_chance(&a->rng, 80)) {
		size_t n = rng_below(&a->rng, 20) ? rng_size(&a->rng, len) : 0;

		iov[cnt++] = (struct iovec){ buf, n };
		buf += n;
		len -= n;
	}
	iov[cnt++] = (struct iovec){ buf, len };
	return cnt;
}

/* ---- writing --------------------------------------------------------- */

unsigned write_flags(struct actor *a)
{
	unsigned flags = rng_chance(&a->rng, 70) ? DBH_DONTCACHE : 0;

	if (flags && rng_chance(&a->rng, 25))
		flags |= DBH_DEFER;
	if (rng_chance(&a->rng, 2))
		flags |= DBH_DSYNC;
	if (rng_chance(&a->rng, 1))
		flags |= DBH_SYNC;
	if (rng_chance(&a->rng, 5))
		flags |= DBH_NOWAIT;
	return flags;
}

/* R14, R16: what was synced is in the store. @may_end: but for holes, behind
 * which nothing was synced. */
static void check_durable(struct actor *a, struct range r, bool may_end)
{
	struct model *m = a->m;
	char *buf = a->async;
	size_t same, n;

	if (!m->spy)
		return;
	n = store_mem_peek(m->spy->inner, buf, r.len, r.start);
	CHECK(n == r.len || may_end,
	      "synced %zu bytes at %zu, and %zu are there", r.len, r.start, n);
	memset(buf + n, 0, r.len - n);
	same = first_difference(buf, m->bytes + r.start, r.len);
	CHECK(same == r.len, "synced, and byte %zu differs in the store",
	      r.start + same);
}

static void complete_edges(struct actor *a, struct range r)
{
	struct dbh_file *file = a->m->file[a->id];

	dbh_edge_completes(file, (off_t)r.start);
	dbh_edge_complete(file, (off_t)r.start);
	if (r.len)
		dbh_edge_complete(file, (off_t)(r.start + r.len - 1));
}

static void note_written(struct actor *a, struct range *r, const char *buf,
			 ssize_t res, unsigned flags)
{
	if ((flags & DBH_NOWAIT) && res == -EAGAIN) {
		r->len = 0;
		return;
	}
	if (res < 0 || (res < (ssize_t)r->len && !(flags & DBH_NOWAIT))) {
		model_failed(a->m, res);
		model_repair(a->m, a->m->file[a->id], buf, r->len, r->start);
		res = (ssize_t)r->len;
	}
	CHECK(res > 0 && (size_t)res <= r->len, "a write of %zu at %zu: %zd",
	      r->len, r->start, res);
	r->len = (size_t)res;
	memcpy(a->m->bytes + r->start, buf, r->len);
	grew_to(a, r->start + r->len);
}

static void op_write(struct actor *a)
{
	struct dbh_file *file = a->m->file[a->id];
	struct range r = own_range(a);
	unsigned flags = write_flags(a);
	struct iovec iov[16];
	ssize_t res;

	rng_fill(&a->rng, a->buf, r.len);
	if (rng_chance(&a->rng, 70)) {
		res = dbh_pwrite(file, a->buf, r.len, (off_t)r.start, flags);
	} else {
		int cnt = split_vectors(a, a->buf, r.len, iov, 16);

		res = dbh_pwritev(file, iov, cnt, (off_t)r.start, flags);
	}
	note_written(a, &r, a->buf, res, flags);
	if (r.len && res > 0 && (flags & (DBH_DSYNC | DBH_SYNC)))
		check_durable(a, r, false);
	if (r.len && (flags & DBH_DEFER) && rng_chance(&a->rng, 80))
		complete_edges(a, r);
}

/* Small writes one after the other, as a log or a client writes. */
static void op_stream(struct actor *a)
{
	struct dbh_file *file = a->m->file[a->id];
	struct range r = own_range(a);
	unsigned flags = write_flags(a) & ~(DBH_DSYNC | DBH_SYNC);
	size_t step = rng_size(&a->rng, 9000), end = r.start + r.len;

	for (int i = 0; i < 20 && r.start < end; i++) {
		r.len = end - r.start < step ? end - r.start : step;
		rng_fill(&a->rng, a->buf, r.len);
		note_written(a, &r, a->buf,
			     dbh_pwrite(file, a->buf, r.len, (off_t)r.start,
					flags),
			     flags);
		r.start += r.len;
	}
}

static void op_lent(struct actor *a)
{
	struct dbh_file *file = a->m->file[a->id];
	struct range r = own_range(a);
	unsigned flags = write_flags(a) &
			 (DBH_DONTCACHE | DBH_DEFER | DBH_NOWAIT);
	struct iovec iov[16];
	struct dbh_write *wr;
	int cnt = (int)rng_between(&a->rng, 1, 16);
	size_t sum = 0;
	ssize_t lent;

	lent = dbh_write_begin(file, (off_t)r.start, r.len, flags, iov, &cnt,
			       &wr);
	if ((flags & DBH_NOWAIT) && lent == -EAGAIN)
		return;
	if (lent < 0) {
		model_failed(a->m, lent);
		return;
	}
	CHECK(lent > 0 && (size_t)lent <= r.len, "lent %zd of %zu", lent,
	      r.len);
	for (int i = 0; i < cnt; i++)
		sum += iov[i].iov_len;
	CHECK_IS(sum, lent);
	r.len = (size_t)lent;
	if (rng_chance(&a->rng, 30))
		r.len = rng_below(&a->rng, r.len + 1);
	rng_fill(&a->rng, a->buf, r.len);
	sum = 0;
	for (int i = 0; i < cnt && sum < r.len; i++) {
		size_t n = r.len - sum < iov[i].iov_len ? r.len - sum :
							  iov[i].iov_len;

		memcpy(iov[i].iov_base, a->buf + sum, n);
		sum += n;
	}
	CHECK_IS(dbh_write_end(wr, r.len), r.len);
	if (!r.len)
		return;
	memcpy(a->m->bytes + r.start, a->buf, r.len);
	grew_to(a, r.start + r.len);
	if (flags & DBH_DEFER)
		complete_edges(a, r);
}

/* ---- reading --------------------------------------------------------- */

static void check_read(struct actor *a, struct range r, const char *buf,
		       ssize_t res, size_t known, unsigned flags)
{
	size_t must = r.start >= known	      ? 0 :
		      r.start + r.len > known ? known - r.start :
						r.len;
	size_t same;

	if ((flags & DBH_NOWAIT) && res == -EAGAIN)
		return;
	if (res < 0 || ((size_t)res < must && !(flags & DBH_NOWAIT)))
		model_failed(a->m, res);
	if (res < 0)
		return;
	CHECK((size_t)res <= r.len, "a read of %zu at %zu: %zd", r.len, r.start,
	      res);
	same = first_difference(buf, a->m->bytes + r.start, (size_t)res);
	CHECK(same == (size_t)res,
	      "byte %zu (of [%zu, +%zd)) is %02x, not %02x", r.start + same,
	      r.start, res, (unsigned char)buf[same],
	      (unsigned char)a->m->bytes[r.start + same]);
}

unsigned read_flags(struct actor *a)
{
	unsigned flags = rng_chance(&a->rng, 60) ? DBH_DONTCACHE : 0;

	return flags | (rng_chance(&a->rng, 5) ? DBH_NOWAIT : 0);
}

static void op_read(struct actor *a)
{
	struct dbh_file *file = a->m->file[a->id];
	struct range r = own_range(a);
	unsigned flags = read_flags(a);
	size_t known = known_size(a);
	struct iovec iov[16];
	ssize_t res;

	if (rng_chance(&a->rng, 70)) {
		res = dbh_pread(file, a->buf, r.len, (off_t)r.start, flags);
	} else {
		int cnt = split_vectors(a, a->buf, r.len, iov, 16);

		res = dbh_preadv(file, iov, cnt, (off_t)r.start, flags);
	}
	check_read(a, r, a->buf, res, known, flags);
}

/* What others are writing: no byte can be checked, but it must end. */
static void op_read_all(struct actor *a)
{
	size_t len = rng_size(&a->rng, a->m->cfg.span);
	size_t at = rng_below(&a->rng, a->m->cfg.span - len + 1);

	ssize_t res = dbh_pread(a->m->file[a->id], a->buf, len, (off_t)at,
				read_flags(a) & ~DBH_NOWAIT);

	if (res < 0)
		model_failed(a->m, res);
}

/* ---- asynchronous ---------------------------------------------------- */

struct async {
	struct range r;
	unsigned flags;
	bool write;
	size_t known;
	ssize_t result;
	sem_t *done;
};

static void async_done(void *arg, ssize_t result)
{
	struct async *as = arg;

	as->result = result;
	sem_post(as->done);
}

/* Several at a time, of one segment cut into pieces. */
static void op_async(struct actor *a)
{
	struct dbh_file *file = a->m->file[a->id];
	struct range all = own_range(a);
	struct async as[MAX_ASYNC];
	sem_t done;
	unsigned nr = 0;
	size_t at = all.start, end = all.start + all.len;

	sem_init(&done, 0, 0);
	while (nr < MAX_ASYNC && at < end) {
		struct async *one = &as[nr++];
		struct iovec iov[16];
		char *buf = a->async + at;
		int cnt;

		one->r.start = at;
		one->r.len = nr == MAX_ASYNC ? end - at :
					       rng_size(&a->rng, end - at);
		at += one->r.len;
		one->done = &done;
		one->known = known_size(a);
		one->write = rng_chance(&a->rng, 60);
		one->flags = one->write ? write_flags(a) : read_flags(a);
		if (one->write)
			rng_fill(&a->rng, buf, one->r.len);
		cnt = split_vectors(a, buf, one->r.len, iov, 16);
		CHECK_OK((one->write ? dbh_submit_write : dbh_submit_read)(
			file, iov, cnt, (off_t)one->r.start, one->flags,
			async_done, one));
		memset(iov, 0xee, sizeof(iov));
	}
	for (unsigned i = 0; i < nr; i++)
		while (sem_wait(&done))
			;
	for (unsigned i = 0; i < nr; i++) {
		struct async *one = &as[i];

		if (one->write)
			note_written(a, &one->r, a->async + one->r.start,
				     one->result, one->flags);
		else
			check_read(a, one->r, a->async + one->r.start,
				   one->result, one->known, one->flags);
	}
	sem_destroy(&done);
}

/* ---- the rest -------------------------------------------------------- */

static void op_sync(struct actor *a)
{
	struct dbh_file *file = a->m->file[a->id];
	struct range r = own_range(a);
	bool range = false;
	int err;

	switch (rng_below(&a->rng, 3)) {
	case 0:
		err = dbh_fsync(file);
		break;
	case 1:
		err = dbh_fdatasync(file);
		break;
	default:
		range = true;
		err = dbh_sync_range(file, (off_t)r.start, (off_t)r.len,
				     rng_chance(&a->rng, 50));
	}
	if (err)
		model_failed(a->m, err);
	else if (r.start + r.len <= known_size(a))
		check_durable(a, r, range);
}

static void op_look(struct actor *a)
{
	struct dbh_file *file = a->m->file[a->id];
	struct dbh_residency res = { .struct_size = sizeof(res) };
	struct dbh_file_info info = { .struct_size = sizeof(info) };
	size_t known = known_size(a);
	struct stat st;

	model_check_stats(a->m);
	CHECK_OK(dbh_residency(file, &res));
	CHECK(res.cached <= a->m->cfg.memory / 4096, "%llu",
	      (unsigned long long)res.cached);
	CHECK(res.edges <= res.cached && res.dirty <= res.cached, "residency");
	CHECK_OK(dbh_file_info(file, &info));
	CHECK_OK(dbh_fstat(file, &st));
	CHECK((size_t)st.st_size >= known &&
		      (size_t)st.st_size <= a->m->cfg.span,
	      "the size is %lld", (long long)st.st_size);
	if (a->m->spy) {
		uint64_t below = store_mem_size(a->m->spy->inner);

		CHECK_OK(dbh_fstat(file, &st));
		CHECK(below <= (uint64_t)st.st_size, "R16");
	}
}

static void op_edge(struct actor *a)
{
	off_t pos = (off_t)rng_below(&a->rng, a->m->cfg.span);

	dbh_edge_completes(a->m->file[a->id], pos);
	dbh_edge_complete(a->m->file[a->id], pos);
}

static void op_reopen(struct actor *a)
{
	struct dbh_file **file = &a->m->file[a->id], *old = *file;
	int err;

	/* Never the last one: that is for who has it alone. */
	*file = model_open(a->m);
	err = dbh_close(old);
	if (err)
		model_failed(a->m, err);
}

static void op_zero(struct actor *a)
{
	CHECK_IS(dbh_pwrite(a->m->file[a->id], a->buf, 0, 1ll << 40,
			    write_flags(a)),
		 0);
	CHECK_IS(dbh_pread(a->m->file[a->id], a->buf, 0, 0, 0), 0);
}

static void op_errors(struct actor *a)
{
	model_set_errors(a->m, &a->rng);
}

struct op {
	const char *name;
	void (*op)(struct actor *a);
	unsigned weight;
};

static const struct op shared_ops[] = {
	{ "write", op_write, 36 },	{ "stream", op_stream, 8 },
	{ "lent", op_lent, 10 },	{ "read", op_read, 22 },
	{ "read all", op_read_all, 2 }, { "async", op_async, 8 },
	{ "sync", op_sync, 2 },		{ "look", op_look, 4 },
	{ "edge", op_edge, 4 },		{ "reopen", op_reopen, 2 },
	{ "zero", op_zero, 1 },		{ "errors", op_errors, 1 },
};

static const struct op shared_extent_ops[] = {
	{ "punch", op_punch, 40 },
	{ "copy", op_copy, 30 },
	{ "seek", op_seek, 30 },
};

static const struct op alone_ops[] = {
	{ "truncate", alone_truncate, 33 }, { "append", alone_append, 17 },
	{ "read alone", alone_read, 16 },   { "sync alone", alone_sync, 17 },
	{ "close", alone_close, 17 },
};

static const struct op alone_extent_ops[] = {
	{ "fallocate", alone_fallocate, 40 },
	{ "move", alone_move, 30 },
	{ "copy alone", alone_copy, 20 },
	{ "seek alone", alone_seek, 10 },
};

/* ---- one after the other ---------------------------------------------- */

void actor_init(struct actor *a, struct model *m, unsigned id)
{
	memset(a, 0, sizeof(*a));
	a->m = m;
	a->id = id;
	a->rng = rng_fork(m->cfg.seed, id + 1);
	a->buf = malloc(m->cfg.span);
	a->async = malloc(m->cfg.span);
	CHECK(a->buf && a->async, "no memory");
}

void actor_fini(struct actor *a)
{
	free(a->buf);
	free(a->async);
}

static void do_op(struct actor *a, const struct op *op)
{
	unsigned at = (unsigned)rng_below(&a->rng, 100);

	while (at >= op->weight)
		at -= op++->weight;
	atomic_store(&a->doing, op->name);
	op->op(a);
	atomic_store(&a->doing, NULL);
}

void actor_step(struct actor *a)
{
	struct model *m = a->m;
	bool alone = m->cfg.exclusive && !rng_below(&a->rng, 60);
	bool extents = m->cfg.extents && rng_chance(&a->rng, alone ? 40 : 8);

	if (alone) {
		pthread_rwlock_wrlock(&m->lock);
		model_settle(m);
		do_op(a, extents ? alone_extent_ops : alone_ops);
	} else {
		pthread_rwlock_rdlock(&m->lock);
		do_op(a, extents ? shared_extent_ops : shared_ops);
	}
	pthread_rwlock_unlock(&m->lock);
	atomic_fetch_add(&a->nr_done, 1);
}

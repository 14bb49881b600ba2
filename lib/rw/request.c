// SPDX-License-Identifier: MIT
/*
 * request: a read or a write, step by step.
 */
#include "rw/rw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "mm/space.h"
#include "mm/writeback.h"
#include "rw/owner.h"

#define READ_FLAGS (DBH_DONTCACHE | DBH_NOWAIT)
#define WRITE_FLAGS                                                       \
	(DBH_DONTCACHE | DBH_DSYNC | DBH_SYNC | DBH_APPEND | DBH_NOWAIT | \
	 DBH_DEFER)

/* ---- arguments ------------------------------------------------------- */

static int iov_length(const struct iovec *iov, int cnt, size_t *len)
{
	size_t total = 0;

	if (cnt < 0 || cnt > IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < cnt; i++) {
		if (iov[i].iov_len > (size_t)SSIZE_MAX - total)
			return -EINVAL;
		total += iov[i].iov_len;
	}
	*len = MIN(total, (size_t)RW_MAX_BYTES);
	return 0;
}

static int check_flags(const struct dbh_file *file, bool write, unsigned *flags)
{
	int access = file->flags & O_ACCMODE;

	if (*flags & ~(write ? WRITE_FLAGS : READ_FLAGS))
		return -EOPNOTSUPP;
	if ((*flags & DBH_DEFER) && !(*flags & DBH_DONTCACHE))
		return -EINVAL;
	if (access == (write ? O_RDONLY : O_WRONLY))
		return -EBADF;
	if (write && (file->flags & O_APPEND))
		*flags |= DBH_APPEND;
	if (write && (file->flags & O_DSYNC))
		*flags |= (file->flags & O_SYNC) == O_SYNC ? DBH_SYNC :
							     DBH_DSYNC;
	return 0;
}

/*
 * Two looks at the clock are a tenth of a small write. So of those that need not
 * wait one in SAMPLE is measured, and stands for as many. Who waits measures
 * from there on; what it copied before is not in it. Stable writes all are.
 */
#define SAMPLE 16u

static void request_measure(struct request *req)
{
	static __thread unsigned calls;

	if (req->flags & (DBH_DSYNC | DBH_SYNC))
		req->weight = 1;
	else if (!(calls++ % SAMPLE))
		req->weight = SAMPLE;
	if (req->weight)
		req->start_ns = clock_ns();
}

/* It is about to sleep, in its own thread. */
static void request_measure_wait(struct request *req)
{
	if (!req->start_ns)
		req->start_ns = clock_ns();
	req->weight = 1;
}

static void request_measured(struct request *req)
{
	struct engine_stats *stats = &req->file->m->engine->stats;
	enum latency which = req->write ? LATENCY_WRITE : LATENCY_READ;

	if (req->weight)
		hist_record_n(&stats->latency[which],
			      clock_ns() - req->start_ns, req->weight);
}

int request_init(struct request *req, struct dbh_file *file, bool write,
		 const struct iovec *iov, int cnt, off_t off, unsigned flags)
{
	size_t len;
	int err;

	err = check_flags(file, write, &flags);
	if (!err)
		err = iov_length(iov, cnt, &len);
	if (err)
		return err;
	if (flags & DBH_APPEND)
		off = 0;
	if (off < 0)
		return -EINVAL;
	/* As rw_verify_area() has it in the kernel. */
	if (len > (uint64_t)(INT64_MAX - off))
		return -EINVAL;
	memset(req, 0, sizeof(*req));
	req->file = file;
	req->write = write;
	req->flags = flags;
	req->phase = len ? REQUEST_LOCK : REQUEST_DONE;
	req->iov = iov;
	req->cnt = cnt;
	req->pos = req->start = (uint64_t)off;
	req->left = len;
	req->slot = -1;
	req->filling = UINT64_MAX;
	request_measure(req);
	return 0;
}

int write_check_limit(struct mapping *m, uint64_t pos, size_t *len)
{
	uint64_t max = m->store->max_bytes;
	struct rlimit rl;

	if (pos >= max)
		return -EFBIG;
	if (*len > max - pos)
		*len = max - pos;
	/* The limit is asked for when the file grows: a write inside it would
	 * meet a limit only if that was lowered below the file's size. */
	if (pos + *len <= i_size_read(m))
		return 0;
	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur == RLIM_INFINITY)
		return 0;
	if (pos >= rl.rlim_cur) {
		raise(SIGXFSZ);
		return -EFBIG;
	}
	if (*len > rl.rlim_cur - pos)
		*len = rl.rlim_cur - pos;
	return 0;
}

/* ---- the io_lock ----------------------------------------------------- */

static struct waiter *req_waiter(const struct request *req)
{
	return req->flags & DBH_NOWAIT ? NULL : req->waiter;
}

static int request_lock(struct request *req)
{
	struct iolock *l = &req->file->m->io_lock;
	int res;

	if (req->flags & DBH_APPEND) {
		res = iolock_exclusive_try(l, req_waiter(req), &req->claimed);
		if (res)
			return res;
		req->exclusive = true;
	} else {
		res = iolock_shared(l, req_waiter(req));
		if (res < 0)
			return res;
		req->slot = res;
	}
	/* Others may have changed it. */
	if (mapping_shared(req->file->m))
		owner_read_size(req->file->m);
	if (req->flags & DBH_APPEND)
		req->pos = req->start = i_size_read(req->file->m);
	return 0;
}

static void request_unlock(struct request *req)
{
	struct iolock *l = &req->file->m->io_lock;

	if (req->exclusive)
		iolock_unexclusive(l);
	else if (req->slot >= 0)
		iolock_unshared(l, req->slot);
	req->exclusive = false;
	req->claimed = false;
	req->slot = -1;
}

/* ---- copying --------------------------------------------------------- */

static void request_advance(struct request *req, size_t n)
{
	req->pos += n;
	req->left -= n;
	req->done += n;
}

static size_t vector_step(struct request *req, size_t n)
{
	size_t step = MIN(n, req->iov->iov_len - req->iov_off);

	req->iov_off += step;
	if (req->iov_off == req->iov->iov_len) {
		req->iov++;
		req->cnt--;
		req->iov_off = 0;
	}
	return step;
}

void request_skip(struct request *req, size_t n)
{
	request_advance(req, n);
	while (n)
		n -= vector_step(req, n);
}

/* Move @n bytes between @data and the vectors, whichever way it goes. */
static void request_copy(struct request *req, char *data, size_t n)
{
	while (n) {
		char *user = (char *)req->iov->iov_base + req->iov_off;
		size_t step = MIN(n, req->iov->iov_len - req->iov_off);

		if (req->write)
			memcpy(data, user, step);
		else
			memcpy(user, data, step);
		data += step;
		n -= vector_step(req, step);
	}
}

/* Return: 0; -EINPROGRESS: it must go on where it may sleep; or the error */
static int write_admitted(struct request *req, bool may_sleep)
{
	struct mapping *m = req->file->m;
	int err = 0;

	switch (write_admit(m, req->pos, req->written, &err)) {
	case ADMIT:
		break;
	case ADMIT_WHEN_WRITTEN:
		if (!req_waiter(req))
			return -EAGAIN;
		if (!may_sleep)
			return -EINPROGRESS;
		/* Whether that succeeds the next look tells. */
		mapping_write_known(m);
		req->written = true;
		return write_admitted(req, may_sleep);
	case ADMIT_NOT:
		return err;
	}
	/* The next piece is another one. */
	req->written = false;
	return 0;
}

static int write_piece(struct request *req, bool may_sleep)
{
	struct mapping *m = req->file->m;
	struct folio_batch b;
	int err;

	err = write_admitted(req, may_sleep);
	if (err)
		return err;
	err = filemap_write_begin(m, &b, req->pos, req->left, req->flags,
				  req_waiter(req));
	if (err)
		return err;
	for (unsigned i = 0; i < b.nr; i++) {
		struct iovec vec = folio_batch_vec(m, &b, i);

		request_copy(req, vec.iov_base, vec.iov_len);
	}
	filemap_write_end(m, &b, b.len, req->flags);
	request_advance(req, b.len);
	return 0;
}

/* A locked folio that holds the reader's next bytes, as far as they are
 * known. Return: bytes known from @off on, at most @n. */
static size_t folio_known(const struct folio *f, size_t off, size_t n)
{
	if (f->flags & FOLIO_UPTODATE)
		return n;
	if ((f->flags & FOLIO_EDGE) &&
	    coverage_has(&f->cov, (unsigned)off, (unsigned)(off + n)))
		return n;
	return 0;
}

/* R17: after an uncached read of [@off, @off + @n), which may end the file. */
static bool folio_read_out(struct folio *f, size_t off, size_t n, bool at_end)
{
	if (!(f->flags & FOLIO_READ_ONCE) ||
	    (f->flags & (FOLIO_DIRTY | FOLIO_WRITEBACK | FOLIO_EDGE)))
		return false;
	f->read_bytes += (uint32_t)n;
	return at_end || off + n == folio_bytes(f) ||
	       f->read_bytes >= folio_bytes(f);
}

static void read_fill_done(struct fill *fill)
{
	struct folio *f = fill->folio;

	if (fill->bio.status) {
		/* The reader's news: what is dirty may yet be made whole. */
		f->flags |= FOLIO_ERROR;
	}
	folio_unlock(fill->m->engine, f);
}

/* The bytes wanted of a locked edge are not known: fetch them; it is unlocked
 * when they are there, which is what the reader then waits for. */
static int read_fill(struct request *req, struct folio *f)
{
	struct dbh_engine *e = req->file->m->engine;
	struct waiter *w = req_waiter(req);
	struct fill *fill;

	if (req->filling == req->pos && (f->flags & FOLIO_ERROR)) {
		/* Just tried. The data stays; a later read tries again. */
		folio_unlock(e, f);
		return -EIO;
	}
	fill = w ? fill_get(req->file->m->wb, NULL) : NULL;
	if (!fill) {
		folio_unlock(e, f);
		if (!w)
			return -EAGAIN;
		fill = fill_get(req->file->m->wb, w);
		if (!fill)
			return -EIOCBQUEUED;
		fill_put(req->file->m->wb, fill);
		return 0;
	}
	req->filling = req->pos;
	f->flags &= ~FOLIO_ERROR;
	edge_fill(fill, f, read_fill_done, NULL);
	return 0;
}

/* A locked folio could not be read. */
static int read_failed(struct request *req, struct folio *f)
{
	struct mapping *m = req->file->m;
	int err = f->read_bytes ? -(int)f->read_bytes : -EIO;
	bool alone = !(f->flags & FOLIO_ALONE);

	folio_drop(m->engine, f);
	if (alone)
		return err;
	if (!req_waiter(req))
		return -EAGAIN;
	return read_folios(m, req->pos, 1, req->flags & DBH_DONTCACHE,
			   req_waiter(req));
}

/* Copy out of a locked folio; unlocks it. */
static int read_folio(struct request *req, struct folio *f, uint64_t size)
{
	struct dbh_engine *e = req->file->m->engine;
	size_t off = req->pos - folio_pos(f);
	size_t n = MIN(req->left, folio_bytes(f) - off);
	bool uncached = req->flags & DBH_DONTCACHE, out = false;

	n = MIN(n, size - req->pos);
	if (!folio_known(f, off, n)) {
		if (f->flags & FOLIO_EDGE)
			return read_fill(req, f);
		return read_failed(req, f);
	}
	request_copy(req, folio_data(&e->pool, f) + off, n);
	if (uncached)
		out = folio_read_out(f, off, n, req->pos + n == size);
	else
		folio_mark_accessed(f);
	request_advance(req, n);
	if (out)
		folio_drop(e, f);
	else
		folio_unlock(e, f);
	return 0;
}

int read_piece(struct request *req)
{
	struct mapping *m = req->file->m;
	struct dbh_engine *e = m->engine;
	uint64_t size = i_size_read(m);
	pgoff_t index = req->pos >> PAGE_SHIFT;
	struct folio *f;

	if (req->pos >= size) {
		req->left = 0;
		return 0;
	}
	f = mapping_lookup(m, index);
	if (!f)
		return req_waiter(req) ? read_folios(m, req->pos, req->left,
						     req->flags & DBH_DONTCACHE,
						     req_waiter(req)) :
					 -EAGAIN;
	if (!folio_trylock(f)) {
		if (!req_waiter(req))
			return -EAGAIN;
		return folio_wait_unlock(e, f, req_waiter(req)) ? -EIOCBQUEUED :
								  0;
	}
	if (!folio_is(f, m, index)) {
		folio_unlock(e, f);
		return 0;
	}
	return read_folio(req, f, size);
}

/* ---- steps ----------------------------------------------------------- */

static void request_finish(struct request *req, int err)
{
	request_unlock(req);
	req->phase = REQUEST_DONE;
	req->result = req->done ? (ssize_t)req->done : err;
	request_measured(req);
}

/* The io_lock is held now. */
static int request_begin(struct request *req)
{
	struct mapping *m = req->file->m;
	bool uncached = req->flags & DBH_DONTCACHE;

	if (!req->write) {
		if (uncached && !atomic_load_explicit(&req->file->read_once,
						      memory_order_relaxed))
			atomic_store(&req->file->read_once, true);
		if (req_waiter(req) && !mapping_shared(m))
			readahead_start(m, &req->file->ra, req->pos, req->left,
					uncached);
		return 0;
	}
	return write_check_limit(m, req->pos, &req->left);
}

static bool is_stable(const struct request *req)
{
	return req->flags & (DBH_DSYNC | DBH_SYNC);
}

static int request_sync(struct request *req, bool may_sleep)
{
	struct mapping *m = req->file->m;
	uint64_t last = req->start + req->done - 1;
	int err = 0;

	if (!may_sleep)
		return -EINPROGRESS;
	if (is_stable(req))
		err = file_sync(req->file, req->start, last,
				!(req->flags & DBH_SYNC));
	else
		/* An error is no news of this write: its data stays, and is
		 * tried again (R15). */
		mapping_write_bytes(m, req->start, last);
	if (err)
		req->done = 0;
	request_finish(req, err);
	return 0;
}

/* All has been moved that could be. Return: 0: done; it is to be synced */
static bool request_moved(struct request *req, int err)
{
	struct mapping *m = req->file->m;

	if (req->write && req->done)
		atomic_store_explicit(&m->mtime_pending, true,
				      memory_order_relaxed);
	if (req->write && req->done &&
	    (is_stable(req) || mapping_owner(m) == OWNER_BREAKING)) {
		request_unlock(req);
		req->phase = REQUEST_SYNC;
		return true;
	}
	request_finish(req, err);
	return false;
}

static int request_copy_all(struct request *req, bool may_sleep)
{
	int err = 0;

	while (!err && req->left)
		err = req->write ? write_piece(req, may_sleep) :
				   read_piece(req);
	/* It may have been woken for a request that it did not need after
	 * all. */
	if (!req->write)
		bio_pool_pass_on(req->file->m->engine);
	return err;
}

/* Take the io_lock and see which way it goes. */
static int request_start(struct request *req)
{
	int err = request_lock(req);

	if (err == -EIOCBQUEUED)
		return err;
	if (!err)
		err = request_begin(req);
	/* The kernel's cache may wait for the disk. */
	if (!err && mapping_shared(req->file->m) && !req_waiter(req))
		err = -EAGAIN;
	if (err)
		request_finish(req, err);
	else
		req->phase = mapping_shared(req->file->m) ? REQUEST_SHARED :
							    REQUEST_COPY;
	return 0;
}

int request_step(struct request *req, bool may_sleep)
{
	int err;

	throttle_end(req->file->m->engine, req->waiter);
	if (req->phase == REQUEST_LOCK) {
		err = request_start(req);
		if (err)
			return err;
	}
	if (req->phase == REQUEST_COPY || req->phase == REQUEST_SHARED) {
		if (req->phase == REQUEST_COPY)
			err = request_copy_all(req, may_sleep);
		else if (!may_sleep)
			return -EINPROGRESS;
		else if (req->write)
			err = request_write_shared(req);
		else
			err = request_read_shared(req);
		if (err == -EIOCBQUEUED || err == -EINPROGRESS)
			return err;
		if (!request_moved(req, err))
			return 0;
	}
	if (req->phase == REQUEST_SYNC)
		return request_sync(req, may_sleep);
	return 0;
}

/* R11: a writer that starts writeback itself. What is stable was written, and
 * what is deferred its writer sees to (R6). */
static void request_kick(struct request *req)
{
	struct mapping *m = req->file->m;
	uint64_t last = req->start + req->done - 1;

	if (!m->engine->limit.kick_inline || !req->write || !req->done ||
	    is_stable(req) ||
	    (req->flags & (DBH_DONTCACHE | DBH_DEFER)) != DBH_DONTCACHE)
		return;
	writeback_kick_range(m, req->start >> PAGE_SHIFT, last >> PAGE_SHIFT);
}

ssize_t request_run(struct request *req)
{
	struct thread_waiter tw;

	thread_waiter_init(&tw);
	req->waiter = &tw.w;
	while (request_step(req, true) == -EIOCBQUEUED) {
		request_measure_wait(req);
		thread_waiter_sleep(&tw);
	}
	request_kick(req);
	return req->result;
}

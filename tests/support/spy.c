// SPDX-License-Identifier: MIT
/*
 * spy: a store that looks on.
 */
#include "support/spy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/check.h"

/** struct flight - a bio under way */
struct flight {
	struct list_head link;
	struct spy *spy;
	struct bio *bio;
	void (*end_io)(struct bio *bio);
	uint64_t sum; /* of the memory of a write */
	bool held;
};

static struct spy *to_spy(struct store *store)
{
	return container_of(store, struct spy, store);
}

static void tell_event(struct spy *spy)
{
	if (spy->event)
		spy->event(spy->event_arg);
}

static uint64_t memory_sum(const struct bio *bio)
{
	uint64_t sum = 1469598103934665603u, x;

	for (unsigned i = 0; i < bio->nr_vecs; i++) {
		const char *at = bio->vecs[i].iov_base;

		for (size_t n = 0; n < bio->vecs[i].iov_len; n += sizeof(x)) {
			memcpy(&x, at + n, sizeof(x));
			sum = (sum ^ x) * 1099511628211u;
		}
	}
	return sum;
}

static struct flight *flight_find_locked(struct spy *spy, const struct bio *bio)
{
	struct list_head *pos;

	list_for_each(pos, &spy->flights) {
		struct flight *fl = list_entry(pos, struct flight, link);

		if (fl->bio == bio)
			return fl;
	}
	abort();
}

/* Does this write put down what the store holds anyway? The block of an
 * unaligned on-disk end is written again, padded, when the file goes on (R16);
 * a read of it at the same time finds the same either way. */
static bool rewrites_locked(struct spy *spy, const struct bio *bio)
{
	uint64_t pos = bio->pos;
	char *there = malloc(bio->len), *at = there;
	bool same = true;
	size_t n;

	CHECK(there, "no memory");
	n = store_mem_peek(spy->inner, there, bio->len, pos);
	memset(there + n, 0, bio->len - n);
	for (unsigned i = 0; i < bio->nr_vecs; i++) {
		same &= !memcmp(at, bio->vecs[i].iov_base,
				bio->vecs[i].iov_len);
		at += bio->vecs[i].iov_len;
	}
	free(there);
	return same;
}

/* Nothing else may be under way in [@pos, @end) but reads beside reads. */
static void check_alone_locked(struct spy *spy, uint64_t pos, uint64_t end,
			       const struct bio *new, const char *what)
{
	bool read = new && new->op == BIO_READ;
	struct list_head *at;

	list_for_each(at, &spy->flights) {
		const struct bio *bio =
			list_entry(at, struct flight, link)->bio;

		if (bio->pos >= end || bio->pos + bio->len <= pos ||
		    (read && bio->op == BIO_READ))
			continue;
		CHECK(new && read != (bio->op == BIO_READ) &&
			      rewrites_locked(spy, read ? bio : new),
		      "%s of [%llu, %llu) meets a %s of [%llu, %llu)", what,
		      (unsigned long long)pos, (unsigned long long)end,
		      bio->op == BIO_READ ? "read" : "write",
		      (unsigned long long)bio->pos,
		      (unsigned long long)bio->pos + bio->len);
	}
}

/* R16 */
static void check_size(struct spy *spy, uint64_t end, const char *what)
{
	struct mapping *m = atomic_load(&spy->mapping);
	uint64_t limit = atomic_load(&spy->size_limit), size;

	if (!m)
		return;
	size = i_size_read(m);
	CHECK(end <= MAX(size, limit),
	      "a %s up to %llu, but the file ends at %llu (R16)", what,
	      (unsigned long long)end, (unsigned long long)size);
}

static void spy_end(struct bio *bio)
{
	struct spy *spy = to_spy(bio->store);
	struct flight *fl;

	atomic_fetch_add(&spy->ending, 1);
	pthread_mutex_lock(&spy->lock);
	fl = flight_find_locked(spy, bio);
	list_del(&fl->link);
	pthread_mutex_unlock(&spy->lock);
	if (bio->op == BIO_WRITE)
		CHECK(memory_sum(bio) == fl->sum,
		      "memory changed under the write of [%llu, %llu)",
		      (unsigned long long)bio->pos,
		      (unsigned long long)bio->pos + bio->len);
	bio->end_io = fl->end_io;
	free(fl);
	tell_event(spy);
	bio->end_io(bio);
	atomic_fetch_sub(&spy->ending, 1);
}

static void count_bio(struct spy *spy, const struct bio *bio)
{
	uint64_t max = atomic_load(&spy->largest[bio->op]);

	atomic_fetch_add(&spy->bios[bio->op], 1);
	atomic_fetch_add(&spy->bytes[bio->op], bio->len);
	while (max < bio->len && !atomic_compare_exchange_weak(
					 &spy->largest[bio->op], &max,
					 bio->len))
		;
}

static void spy_submit(struct store *store, struct bio *bio)
{
	struct spy *spy = to_spy(store);
	bool read = bio->op == BIO_READ;
	struct flight *fl = calloc(1, sizeof(*fl));
	bool held;

	CHECK(fl, "no memory");
	fl->bio = bio;
	fl->end_io = bio->end_io;
	bio->end_io = spy_end;
	if (!read) {
		fl->sum = memory_sum(bio);
		check_size(spy, bio->pos + bio->len, "write");
	}
	count_bio(spy, bio);
	tell_event(spy);
	pthread_mutex_lock(&spy->lock);
	check_alone_locked(spy, bio->pos, bio->pos + bio->len, bio,
			   read ? "a read" : "a write");
	list_add_tail(&fl->link, &spy->flights);
	held = fl->held = read ? spy->hold_reads : spy->hold_writes;
	pthread_mutex_unlock(&spy->lock);
	if (!held)
		spy->inner->ops->submit(spy->inner, bio);
}

static int spy_flush(struct store *store, bool datasync)
{
	struct spy *spy = to_spy(store);
	int err;

	atomic_fetch_add(&spy->flushes, 1);
	tell_event(spy);
	err = spy->inner->ops->flush(spy->inner, datasync);
	tell_event(spy);
	return err;
}

static int spy_write_tail(struct store *store, const void *buf, size_t len,
			  uint64_t pos)
{
	struct spy *spy = to_spy(store);
	uint64_t block = spy->store.min_folio_bytes;
	int err;

	atomic_fetch_add(&spy->tails, 1);
	check_size(spy, pos + len, "tail");
	CHECK(pos / block == (pos + len - 1) / block,
	      "a tail of more than a block: %zu at %llu", len,
	      (unsigned long long)pos);
	pthread_mutex_lock(&spy->lock);
	check_alone_locked(spy, ALIGN_DOWN(pos, block),
			   ALIGN_UP(pos + len, block), NULL, "a tail");
	pthread_mutex_unlock(&spy->lock);
	tell_event(spy);
	err = spy->inner->ops->write_tail(spy->inner, buf, len, pos);
	tell_event(spy);
	return err;
}

static int spy_settle(struct store *store)
{
	struct spy *spy = to_spy(store);

	atomic_fetch_add(&spy->settles, 1);
	return spy->inner->ops->settle(spy->inner);
}

static int spy_truncate(struct store *store, uint64_t size)
{
	struct spy *spy = to_spy(store);
	struct list_head *pos;
	int err;

	atomic_fetch_add(&spy->truncates, 1);
	check_size(spy, size, "truncate");
	pthread_mutex_lock(&spy->lock);
	list_for_each(pos, &spy->flights) {
		const struct bio *bio =
			list_entry(pos, struct flight, link)->bio;

		CHECK(bio->op == BIO_READ || bio->pos + bio->len <= size,
		      "a truncate to %llu meets a write up to %llu",
		      (unsigned long long)size,
		      (unsigned long long)bio->pos + bio->len);
	}
	pthread_mutex_unlock(&spy->lock);
	tell_event(spy);
	err = spy->inner->ops->truncate(spy->inner, size);
	tell_event(spy);
	return err;
}

/* R24: what is about to change has no write under way. */
static void check_no_write(struct spy *spy, uint64_t pos, uint64_t end,
			   const char *what)
{
	struct list_head *at;

	pthread_mutex_lock(&spy->lock);
	list_for_each(at, &spy->flights) {
		const struct bio *bio =
			list_entry(at, struct flight, link)->bio;

		CHECK(bio->op == BIO_READ || bio->pos >= end ||
			      bio->pos + bio->len <= pos,
		      "%s of [%llu, %llu) meets a write of [%llu, %llu)", what,
		      (unsigned long long)pos, (unsigned long long)end,
		      (unsigned long long)bio->pos,
		      (unsigned long long)bio->pos + bio->len);
	}
	pthread_mutex_unlock(&spy->lock);
}

/* What the store has said, or what it is told to say. */
static int said(struct spy *spy, int err)
{
	int lie = atomic_exchange(&spy->lie_err, 0);

	tell_event(spy);
	return lie ? lie : err;
}

static int spy_fallocate(struct store *store, int mode, uint64_t pos,
			 uint64_t len)
{
	struct spy *spy = to_spy(store);
	bool moves = mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE);

	atomic_fetch_add(&spy->fallocates, 1);
	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_UNSHARE_RANGE))
		check_no_write(spy, pos, moves ? UINT64_MAX : pos + len,
			       "a fallocate");
	tell_event(spy);
	return said(spy, spy->inner->ops->fallocate(spy->inner, mode, pos,
						    len));
}

static int spy_seek(struct store *store, int whence, uint64_t pos,
		    uint64_t *out)
{
	struct spy *spy = to_spy(store);

	return spy->inner->ops->seek(spy->inner, whence, pos, out);
}

static int spy_clone(struct store *store, uint64_t pos, struct store *from,
		     uint64_t from_pos, uint64_t len)
{
	struct spy *spy = to_spy(store);

	atomic_fetch_add(&spy->clones, 1);
	check_no_write(spy, pos, pos + len, "a clone");
	tell_event(spy);
	return said(spy, spy->inner->ops->clone(spy->inner, pos,
						to_spy(from)->inner, from_pos,
						len));
}

static int spy_stat(struct store *store, struct stat *st)
{
	struct spy *spy = to_spy(store);

	return spy->inner->ops->stat(spy->inner, st);
}

/* The last close: the content stays. */
static void spy_closed(struct store *store)
{
	struct spy *spy = to_spy(store);

	/* As a store that ends its threads: the engine may go next. */
	while (atomic_load(&spy->ending))
		usleep(100);
	pthread_mutex_lock(&spy->lock);
	CHECK(list_empty(&spy->flights), "destroyed with bios under way");
	pthread_mutex_unlock(&spy->lock);
	atomic_store(&spy->mapping, NULL);
}

static const struct store_ops spy_ops = {
	.name = "spy",
	.submit = spy_submit,
	.flush = spy_flush,
	.write_tail = spy_write_tail,
	.settle = spy_settle,
	.truncate = spy_truncate,
	.stat = spy_stat,
	.fallocate = spy_fallocate,
	.seek = spy_seek,
	.clone = spy_clone,
	.destroy = spy_closed,
};

/* ---- others who open it ---------------------------------------------- */

static int spy_take(struct store *store, pid_t tid)
{
	struct spy *spy = to_spy(store);
	int err = atomic_load(&spy->lease_err);

	atomic_store(&spy->lease_tid, tid);
	if (!err)
		atomic_store(&spy->lease_broken, false);
	return err;
}

static void spy_drop(struct store *store)
{
	atomic_fetch_add(&to_spy(store)->lease_drops, 1);
}

static bool spy_broken(struct store *store)
{
	return atomic_load(&to_spy(store)->lease_broken);
}

static void spy_share(struct store *store, bool on)
{
	(void)store;
	(void)on;
}

static ssize_t spy_read_through(struct store *store,
				const struct iov_part *part, uint64_t pos)
{
	char *to = (char *)part->iov->iov_base + part->skip;

	CHECK(part->len <= part->iov->iov_len - part->skip,
	      "one vector is enough here");
	return (ssize_t)store_mem_peek(to_spy(store)->inner, to, part->len,
				       pos);
}

static ssize_t spy_write_through(struct store *store,
				 const struct iov_part *part, uint64_t pos)
{
	struct store *inner = to_spy(store)->inner;
	const char *from = (const char *)part->iov->iov_base + part->skip;
	int err;

	CHECK(part->len <= part->iov->iov_len - part->skip,
	      "one vector is enough here");
	err = inner->ops->write_tail(inner, from, part->len, pos);
	return err ? err : (ssize_t)part->len;
}

static ssize_t spy_append_through(struct store *store,
				  const struct iov_part *part)
{
	return spy_write_through(store, part,
				 store_mem_size(to_spy(store)->inner));
}

static const struct store_lease_ops spy_lease_ops = {
	.take = spy_take,
	.drop = spy_drop,
	.broken = spy_broken,
	.share = spy_share,
	.read = spy_read_through,
	.write = spy_write_through,
	.append = spy_append_through,
};

static const struct store_ops spy_leased_ops = {
	.name = "spy",
	.submit = spy_submit,
	.flush = spy_flush,
	.write_tail = spy_write_tail,
	.settle = spy_settle,
	.truncate = spy_truncate,
	.stat = spy_stat,
	.fallocate = spy_fallocate,
	.seek = spy_seek,
	.clone = spy_clone,
	.destroy = spy_closed,
	.lease = &spy_lease_ops,
};

void spy_lease(struct spy *spy)
{
	spy->store.ops = &spy_leased_ops;
}

void spy_break(struct spy *spy)
{
	atomic_store(&spy->lease_err, -EAGAIN);
	atomic_store(&spy->lease_broken, true);
	CHECK_OK(syscall(SYS_tgkill, getpid(), atomic_load(&spy->lease_tid),
			 STORE_LEASE_SIGNAL));
}

struct spy *spy_create(struct store *inner)
{
	struct spy *spy = calloc(1, sizeof(*spy));

	CHECK(spy, "no memory");
	spy->inner = inner;
	spy->store.ops = &spy_ops;
	spy->store.offset_align = inner->offset_align;
	spy->store.mem_align = inner->mem_align;
	spy->store.min_folio_bytes = inner->min_folio_bytes;
	spy->store.max_bytes = inner->max_bytes;
	atomic_store(&spy->store.direct, atomic_load(&inner->direct));
	spy->store.writable = inner->writable;
	spy->store.dev = inner->dev;
	spy->store.ino = inner->ino;
	pthread_mutex_init(&spy->lock, NULL);
	list_init(&spy->flights);
	return spy;
}

struct spy *spy_create_mem(uint32_t min_folio_bytes, uint32_t align)
{
	struct store *inner;

	CHECK_OK(store_mem_create(min_folio_bytes, align, &inner));
	return spy_create(inner);
}

void spy_destroy(struct spy *spy)
{
	if (!spy)
		return;
	store_destroy(spy->inner);
	pthread_mutex_destroy(&spy->lock);
	free(spy);
}

/* ---- holding --------------------------------------------------------- */

void spy_hold(struct spy *spy, bool writes, bool reads)
{
	pthread_mutex_lock(&spy->lock);
	spy->hold_writes = writes;
	spy->hold_reads = reads;
	pthread_mutex_unlock(&spy->lock);
}

static struct bio *take_held(struct spy *spy)
{
	struct list_head *pos;
	struct bio *bio = NULL;

	pthread_mutex_lock(&spy->lock);
	list_for_each(pos, &spy->flights) {
		struct flight *fl = list_entry(pos, struct flight, link);

		if (fl->held) {
			fl->held = false;
			bio = fl->bio;
			break;
		}
	}
	pthread_mutex_unlock(&spy->lock);
	return bio;
}

void spy_release(struct spy *spy)
{
	struct bio *bio;

	spy_hold(spy, false, false);
	while ((bio = take_held(spy)))
		spy->inner->ops->submit(spy->inner, bio);
}

unsigned spy_held(struct spy *spy, enum bio_op op)
{
	struct list_head *pos;
	unsigned nr = 0;

	pthread_mutex_lock(&spy->lock);
	list_for_each(pos, &spy->flights) {
		struct flight *fl = list_entry(pos, struct flight, link);

		nr += fl->held && fl->bio->op == op;
	}
	pthread_mutex_unlock(&spy->lock);
	return nr;
}

void spy_wait_held(struct spy *spy, enum bio_op op, unsigned nr)
{
	while (spy_held(spy, op) < nr)
		usleep(200);
}

void spy_put(struct spy *spy, const void *buf, size_t len, uint64_t pos)
{
	CHECK_OK(spy->inner->ops->write_tail(spy->inner, buf, len, pos));
}

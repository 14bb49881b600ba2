/* SPDX-License-Identifier: MIT */
/*
 * store_fault: a disk in memory that errs, reorders, tears and loses power.
 *
 * It keeps three things: the image, which is what reads see; the durable
 * image, which is what is safe; and the log, every write since the last good
 * flush, as whole 512-byte sectors. A flush moves the log into the durable
 * image. After a power cut each sector holds its durable version or any of
 * those in the log or in flight, chosen for each sector by itself.
 *
 * A bio that fails may have written some of its sectors. After a flush that
 * fails, part of the log is lost, and the next flush knows nothing of it.
 *
 * All state is under base.lock; end_io runs under none.
 */
#include "mem_image.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ioq.h"

#define SECTOR 512u

/* One write, as it left the sectors that it touched; or one new size. */
struct log_entry {
	struct list_head list;
	uint64_t seq;
	uint64_t sector, nr_sectors;
	uint64_t size; /* of the file, after it */
	char *data; /* NULL: zeros */
};

struct store_fault {
	struct mem_base base; /* its image is what reads see */
	struct mem_image durable;
	struct list_head log; /* by seq */
	uint64_t seq; /* of the last entry */
	struct store_fault_options opts;
	uint64_t random;
	uint64_t nr_bios, nr_flushes, nr_tails; /* since set */
	uint64_t nr_failed;

	pthread_t thread;
	pthread_cond_t work;
	struct list_head queue; /* bios by due time */
	bool stop;
};

static struct store_fault *to_fault(struct store *store)
{
	return container_of(store, struct store_fault, base.store);
}

/* ---- chance ---------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t next_random_locked(struct store_fault *f)
{
	return mix(f->random++);
}

/* One more of a kind: does it fail? */
static bool count_fails_locked(struct store_fault *f, uint64_t *count,
			       unsigned every, unsigned nth)
{
	++*count;
	if ((every && *count % every == 0) || (nth && *count == nth) ||
	    (nth && f->opts.onwards && *count > nth)) {
		f->nr_failed++;
		return true;
	}
	return false;
}

static int error_of(const struct store_fault *f)
{
	return -(f->opts.error ? f->opts.error : EIO);
}

/* ---- the log --------------------------------------------------------- */

static void log_free(struct log_entry *e)
{
	list_del(&e->list);
	free(e->data);
	free(e);
}

/*
 * The image has changed in [@pos, @pos + @len): remember what its sectors hold
 * now. Of a truncate @zeros: no need to store them.
 */
static int log_add_locked(struct store_fault *f, uint64_t pos, uint64_t len,
			  bool zeros)
{
	struct log_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->sector = pos / SECTOR;
	e->nr_sectors = len ? (pos + len + SECTOR - 1) / SECTOR - e->sector : 0;
	e->size = f->base.image.size;
	if (e->nr_sectors && !zeros) {
		e->data = malloc(e->nr_sectors * SECTOR);
		if (!e->data) {
			free(e);
			return -ENOMEM;
		}
		mem_image_read(&f->base.image, e->data, e->nr_sectors * SECTOR,
			       e->sector * SECTOR);
	}
	e->seq = ++f->seq;
	list_add_tail(&e->list, &f->log);
	return 0;
}

/* Leaves the size alone. @data: NULL for zeros. */
static int set_sectors(struct mem_image *img, uint64_t sector, uint64_t nr,
		       const char *data)
{
	uint64_t size = img->size;
	int err = 0;

	if (data)
		err = mem_image_write(img, data, nr * SECTOR, sector * SECTOR);
	else
		mem_image_zero(img, sector * SECTOR, nr * SECTOR);
	img->size = size;
	return err;
}

/*
 * Bytes beyond the size are zero, whatever sectors were set there; nothing may
 * come to light when the file grows again.
 */
static void set_size(struct mem_image *img, uint64_t size)
{
	img->size = UINT64_MAX;
	mem_image_truncate(img, size);
}

/* ---- bios ------------------------------------------------------------ */

/* A failed write: each sector may or may not have got there. */
static int write_some_locked(struct store_fault *f, const struct bio *bio)
{
	uint64_t pos = bio->pos;

	for (unsigned i = 0; i < bio->nr_vecs; i++) {
		const char *from = bio->vecs[i].iov_base;

		for (size_t at = 0; at < bio->vecs[i].iov_len; at += SECTOR) {
			int err = 0;

			if (next_random_locked(f) & 1)
				err = mem_image_write(&f->base.image, from + at,
						      SECTOR, pos + at);
			if (err)
				return err;
		}
		pos += bio->vecs[i].iov_len;
	}
	return log_add_locked(f, bio->pos, bio->len, false);
}

/* A bad place, as a disk has them: always the same. */
static bool is_bad(const struct store_fault *f, const struct bio *bio)
{
	return bio->pos < f->opts.bad_pos + f->opts.bad_len &&
	       bio->pos + bio->len > f->opts.bad_pos;
}

static int transfer_locked(struct store_fault *f, struct bio *bio)
{
	int err;

	if (count_fails_locked(f, &f->nr_bios, f->opts.error_every,
			       f->opts.nth_bio) ||
	    is_bad(f, bio)) {
		if (bio->op == BIO_WRITE)
			write_some_locked(f, bio);
		return error_of(f);
	}
	err = mem_base_transfer_locked(&f->base, bio);
	if (!err && bio->op == BIO_WRITE)
		err = log_add_locked(f, bio->pos, bio->len, false);
	return err;
}

/* The bio that is due, taken from the queue; NULL to end. */
static struct bio *wait_due_locked(struct store_fault *f)
{
	for (;;) {
		struct bio *bio;
		struct timespec ts;

		if (list_empty(&f->queue)) {
			if (f->stop)
				return NULL;
			pthread_cond_wait(&f->work, &f->base.lock);
			continue;
		}
		bio = list_first_entry(&f->queue, struct bio, list);
		if (block_now_ns() >= bio->due_ns) {
			list_del(&bio->list);
			return bio;
		}
		ts.tv_sec = (time_t)(bio->due_ns / 1000000000u);
		ts.tv_nsec = (long)(bio->due_ns % 1000000000u);
		pthread_cond_timedwait(&f->work, &f->base.lock, &ts);
	}
}

static void *fault_main(void *arg)
{
	struct store_fault *f = arg;
	struct bio *bio;

	pthread_mutex_lock(&f->base.lock);
	while ((bio = wait_due_locked(f))) {
		bio->status = transfer_locked(f, bio);
		pthread_mutex_unlock(&f->base.lock);
		bio_end(bio);
		pthread_mutex_lock(&f->base.lock);
	}
	pthread_mutex_unlock(&f->base.lock);
	return NULL;
}

static void queue_by_due_locked(struct store_fault *f, struct bio *bio)
{
	struct list_head *at = f->queue.prev;

	while (at != &f->queue &&
	       list_entry(at, struct bio, list)->due_ns > bio->due_ns)
		at = at->prev;
	list_add(&bio->list, at);
}

static void fault_submit(struct store *store, struct bio *bio)
{
	struct store_fault *f = to_fault(store);

	pthread_mutex_lock(&f->base.lock);
	f->base.nr_bios[bio->op]++;
	bio->due_ns = bio->submit_ns;
	if (f->opts.delay_us)
		bio->due_ns += next_random_locked(f) %
			       ((uint64_t)f->opts.delay_us * 1000);
	queue_by_due_locked(f, bio);
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&f->base.lock);
}

/* ---- flush ----------------------------------------------------------- */

static int make_durable_locked(struct store_fault *f, uint64_t upto)
{
	struct list_head *node, *next;

	list_for_each_safe(node, next, &f->log) {
		struct log_entry *e = list_entry(node, struct log_entry, list);
		int err;

		if (e->seq > upto)
			break;
		err = set_sectors(&f->durable, e->sector, e->nr_sectors,
				  e->data);
		if (err)
			return err;
		set_size(&f->durable, e->size);
		log_free(e);
	}
	return 0;
}

static void lose_some_locked(struct store_fault *f, uint64_t upto)
{
	struct list_head *node, *next;

	list_for_each_safe(node, next, &f->log) {
		struct log_entry *e = list_entry(node, struct log_entry, list);

		if (e->seq > upto)
			break;
		if (next_random_locked(f) & 1)
			log_free(e);
	}
}

static int fault_flush(struct store *store, bool datasync)
{
	struct store_fault *f = to_fault(store);
	unsigned delay_us = 0;
	uint64_t upto;
	int err;

	(void)datasync;
	pthread_mutex_lock(&f->base.lock);
	upto = f->seq;
	if (f->opts.delay_us)
		delay_us = (unsigned)(next_random_locked(f) % f->opts.delay_us);
	pthread_mutex_unlock(&f->base.lock);

	/* What ends meanwhile is not covered. */
	if (delay_us)
		block_sleep_us(delay_us);

	pthread_mutex_lock(&f->base.lock);
	if (count_fails_locked(f, &f->nr_flushes, f->opts.flush_error_every,
			       f->opts.nth_flush)) {
		lose_some_locked(f, upto);
		err = error_of(f);
	} else {
		err = make_durable_locked(f, upto);
	}
	pthread_mutex_unlock(&f->base.lock);
	return err;
}

/* ---- tail, truncate, the rest ---------------------------------------- */

static int fault_write_tail(struct store *store, const void *buf, size_t len,
			    uint64_t pos)
{
	struct store_fault *f = to_fault(store);
	int err;

	pthread_mutex_lock(&f->base.lock);
	if (count_fails_locked(f, &f->nr_tails, f->opts.tail_error_every,
			       f->opts.nth_tail)) {
		err = error_of(f);
	} else {
		err = mem_image_write(&f->base.image, buf, len, pos);
		if (!err)
			err = log_add_locked(f, pos, len, false);
	}
	pthread_mutex_unlock(&f->base.lock);
	return err;
}

static int truncate_locked(struct store_fault *f, uint64_t size)
{
	uint64_t old = f->base.image.size;
	uint64_t whole = (size + SECTOR - 1) / SECTOR * SECTOR;
	int err;

	mem_image_truncate(&f->base.image, size);
	if (size >= old)
		return log_add_locked(f, size, 0, true);
	/* The sector of the new end, and the zeros behind it. */
	err = log_add_locked(f, size, whole - size, false);
	if (!err && old > whole)
		err = log_add_locked(f, whole, old - whole, true);
	return err;
}

static int fault_truncate(struct store *store, uint64_t size)
{
	struct store_fault *f = to_fault(store);
	int err;

	pthread_mutex_lock(&f->base.lock);
	if (count_fails_locked(f, &f->nr_tails, f->opts.tail_error_every,
			       f->opts.nth_tail))
		err = error_of(f);
	else
		err = truncate_locked(f, size);
	pthread_mutex_unlock(&f->base.lock);
	return err;
}

/* A file system may move bytes in steps; so what moves may be torn as well. */
static int fallocate_locked(struct store_fault *f, int mode, uint64_t pos,
			    uint64_t len)
{
	const int shift = FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE;
	const int change = shift | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	uint64_t old = f->base.image.size, end;
	int err = mem_image_fallocate(&f->base.image, mode, pos, len,
				      f->base.store.min_folio_bytes);

	if (err)
		return err;
	end = f->base.image.size > old ? f->base.image.size : old;
	if (!(mode & change) || pos >= end)
		return log_add_locked(f, end, 0, true);
	if (!(mode & shift) && len < end - pos)
		end = pos + len;
	return log_add_locked(f, pos, end - pos, false);
}

static int fault_fallocate(struct store *store, int mode, uint64_t pos,
			   uint64_t len)
{
	struct store_fault *f = to_fault(store);
	int err;

	pthread_mutex_lock(&f->base.lock);
	if (count_fails_locked(f, &f->nr_tails, f->opts.tail_error_every,
			       f->opts.nth_tail))
		err = error_of(f);
	else
		err = fallocate_locked(f, mode, pos, len);
	pthread_mutex_unlock(&f->base.lock);
	return err;
}

static int fault_clone(struct store *store, uint64_t pos, struct store *from,
		       uint64_t from_pos, uint64_t len)
{
	return mem_base_clone(store, pos, from, from_pos, len,
			      fault_write_tail);
}

static int fault_settle(struct store *store)
{
	(void)store;
	return 0;
}

static int fault_stat(struct store *store, struct stat *st)
{
	struct store_fault *f = to_fault(store);

	pthread_mutex_lock(&f->base.lock);
	mem_base_stat_locked(&f->base, st);
	pthread_mutex_unlock(&f->base.lock);
	return 0;
}

/* ---- power cut ------------------------------------------------------- */

/* A choice among the versions of each sector, made as they come by. */
struct cut {
	struct mem_image image;
	uint64_t seed;
	uint32_t *versions; /* seen so far, by sector */
	uint64_t nr_sectors;
	uint64_t size;
	uint32_t sizes; /* seen so far */
};

/* The k-th candidate replaces what was chosen with probability 1/k. */
static bool choose(uint64_t seed, uint64_t what, uint32_t k)
{
	return mix(mix(seed ^ mix(what)) + k) % k == 0;
}

static int cut_sector(struct cut *c, uint64_t sector, const char *data)
{
	assert(sector < c->nr_sectors);
	if (!choose(c->seed, sector, ++c->versions[sector] + 1))
		return 0;
	return set_sectors(&c->image, sector, 1, data);
}

static void cut_size(struct cut *c, uint64_t size)
{
	if (size != c->size && choose(c->seed, UINT64_MAX, ++c->sizes + 1))
		c->size = size;
}

static int cut_log_locked(struct cut *c, struct store_fault *f)
{
	struct list_head *node;

	list_for_each(node, &f->log) {
		struct log_entry *e = list_entry(node, struct log_entry, list);
		int err = 0;

		for (uint64_t i = 0; i < e->nr_sectors && !err; i++)
			err = cut_sector(c, e->sector + i,
					 e->data ? e->data + i * SECTOR : NULL);
		if (err)
			return err;
		cut_size(c, e->size);
	}
	return 0;
}

static int cut_bio(struct cut *c, const struct bio *bio)
{
	uint64_t sector = bio->pos / SECTOR;

	for (unsigned i = 0; i < bio->nr_vecs; i++) {
		const char *from = bio->vecs[i].iov_base;

		for (size_t at = 0; at < bio->vecs[i].iov_len; at += SECTOR) {
			int err = cut_sector(c, sector++, from + at);

			if (err)
				return err;
		}
	}
	return 0;
}

static int cut_in_flight_locked(struct cut *c, struct store_fault *f)
{
	struct list_head *node;

	list_for_each(node, &f->queue) {
		struct bio *bio = list_entry(node, struct bio, list);
		int err = bio->op == BIO_WRITE ? cut_bio(c, bio) : 0;

		if (err)
			return err;
		if (bio->op == BIO_WRITE &&
		    bio->pos + bio->len > f->base.image.size)
			cut_size(c, bio->pos + bio->len);
	}
	return 0;
}

static uint64_t sectors_locked(struct store_fault *f)
{
	struct list_head *node;
	uint64_t nr = 0;

	list_for_each(node, &f->log) {
		struct log_entry *e = list_entry(node, struct log_entry, list);

		if (e->sector + e->nr_sectors > nr)
			nr = e->sector + e->nr_sectors;
	}
	list_for_each(node, &f->queue) {
		struct bio *bio = list_entry(node, struct bio, list);

		if ((bio->pos + bio->len) / SECTOR > nr)
			nr = (bio->pos + bio->len) / SECTOR;
	}
	return nr;
}

static int cut_locked(struct cut *c, struct store_fault *f)
{
	int err = mem_image_copy(&c->image, &f->durable);

	if (err)
		return err;
	c->size = f->durable.size;
	c->nr_sectors = sectors_locked(f);
	c->versions = calloc(c->nr_sectors + 1, sizeof(*c->versions));
	if (!c->versions)
		return -ENOMEM;
	err = cut_log_locked(c, f);
	if (!err)
		err = cut_in_flight_locked(c, f);
	if (!err)
		set_size(&c->image, c->size);
	return err;
}

int store_fault_power_cut(struct store *store, uint64_t seed,
			  struct store **out)
{
	struct store_fault *f = to_fault(store);
	struct cut cut = { .seed = seed };
	int err;

	pthread_mutex_lock(&f->base.lock);
	err = cut_locked(&cut, f);
	pthread_mutex_unlock(&f->base.lock);
	if (!err)
		err = store_mem_from_image(store, &cut.image, out);
	mem_image_fini(&cut.image);
	free(cut.versions);
	return err;
}

/* ---- life ------------------------------------------------------------ */

static void fault_destroy(struct store *store)
{
	struct store_fault *f = to_fault(store);

	pthread_mutex_lock(&f->base.lock);
	assert(list_empty(&f->queue));
	f->stop = true;
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&f->base.lock);
	pthread_join(f->thread, NULL);
	while (!list_empty(&f->log))
		log_free(list_first_entry(&f->log, struct log_entry, list));
	mem_image_fini(&f->durable);
	pthread_cond_destroy(&f->work);
	mem_base_fini(&f->base);
	free(f);
}

static const struct store_ops fault_ops = {
	.name = "fault",
	.submit = fault_submit,
	.flush = fault_flush,
	.write_tail = fault_write_tail,
	.settle = fault_settle,
	.truncate = fault_truncate,
	.stat = fault_stat,
	.fallocate = fault_fallocate,
	.seek = mem_base_seek,
	.clone = fault_clone,
	.destroy = fault_destroy,
};

static void init_cond_monotonic(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int store_fault_create(uint32_t min_folio_bytes, uint32_t align,
		       const struct store_fault_options *opts,
		       struct store **out)
{
	struct store_fault *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	err = mem_base_init(&f->base, &fault_ops, min_folio_bytes, align);
	if (err) {
		free(f);
		return err;
	}
	list_init(&f->log);
	list_init(&f->queue);
	if (opts)
		f->opts = *opts;
	f->random = mix(f->opts.seed);
	init_cond_monotonic(&f->work);
	err = block_thread_create(&f->thread, "dbh-fault", fault_main, f);
	if (err) {
		pthread_cond_destroy(&f->work);
		mem_base_fini(&f->base);
		free(f);
		return err;
	}
	*out = &f->base.store;
	return 0;
}

/* The seed of a store is set once: the sequence goes on. */
void store_fault_set(struct store *store,
		     const struct store_fault_options *opts)
{
	struct store_fault *f = to_fault(store);

	pthread_mutex_lock(&f->base.lock);
	f->opts = *opts;
	f->nr_bios = f->nr_flushes = f->nr_tails = 0;
	pthread_mutex_unlock(&f->base.lock);
}

uint64_t store_fault_count(struct store *store)
{
	struct store_fault *f = to_fault(store);
	uint64_t nr;

	pthread_mutex_lock(&f->base.lock);
	nr = f->nr_failed;
	pthread_mutex_unlock(&f->base.lock);
	return nr;
}

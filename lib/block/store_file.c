/* SPDX-License-Identifier: MIT */
/*
 * store_file: a regular file, through O_DIRECT where that means something.
 *
 * It owns the one descriptor (R22), and knows which pages in the kernel's
 * cache are there because of us. How bios are issued is the ioq's.
 *
 * The gate: write_tail() must have O_DIRECT off for one write, and the flag is
 * the open file's: requests in flight would see it change. So the gate closes,
 * bios that come are kept in a list, and once none is in flight the flag may
 * change. Submitting never waits for the gate. The same for bios that meet
 * pages of others (shared.h), by batches.
 *
 * Who closes the gate draws a number: that is a lock (long) in the order of
 * arrival, so neither end blocks nor batches keep the other out; and between
 * two of them the bios that waited are started, and drained again. The one
 * mutex is short: under it only fcntl(F_SETFL) and a first hint enter the
 * kernel, and neither waits.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "behind.h"
#include "extents.h"
#include "ioq.h"
#include "kcache.h"
#include "lease.h"
#include "ranges.h"
#include "shared.h"
#include "through.h"

/* Writes of which none could prove anything, before we stop asking. */
#define PROBES_MAX 64u

struct store_file {
	struct store store;
	struct ioq *ioq; /* set before publish */
	int fd; /* set before publish; the number never changes */
	struct kcache kc; /* set before publish: the same descriptor */
	bool in_memory; /* set before publish: nothing to write out or drop */
	bool mixes; /* set before publish: see struct kcache_fs */
	/*
	 * The kernel tells which pages it holds. Set before publish, and with
	 * the descriptor, before store.writable.
	 */
	_Atomic bool tells;

	pthread_mutex_t lock; /* short; guards what follows */
	pthread_cond_t turn; /* turn_now has changed */
	unsigned turn_next, turn_now; /* numbers of who closes the gate */
	pthread_cond_t idle; /* in_flight is 0, gate closed */
	unsigned in_flight; /* bios with the ioq, repeats included */
	bool gate_closed;
	struct list_head waiting; /* bios that came while the gate was closed */
	bool direct_on; /* O_DIRECT is wanted on the descriptor */
	/* Others have it open: O_DIRECT is off. Changed with the gate closed. */
	bool with_others;
	bool probing; /* a bio with BIO_F_PROBE is in flight */
	unsigned nr_probes;
	struct ranges ours; /* pages in the kernel's cache made by us */
	struct ranges unproven; /* written while UNPROVEN: ours if PRETENCE */
	struct ranges kept; /* end blocks written into pages of others */
	int lost_err; /* of a write-out that may have been another's; flush's */
	struct behind *behind; /* created at first need */
	struct shared *shared; /* the same */
};

static struct store_file *to_file(struct store *store)
{
	return container_of(store, struct store_file, store);
}

static unsigned direct_state(struct store_file *f)
{
	/* Relaxed: it says what to expect, nothing is published by it. */
	return atomic_load_explicit(&f->store.direct, memory_order_relaxed);
}

static void set_direct_state(struct store_file *f, enum store_direct state)
{
	atomic_store_explicit(&f->store.direct, state, memory_order_relaxed);
}

static int set_flag_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_DIRECT : flags & ~O_DIRECT;
	return fcntl(fd, F_SETFL, flags) ? -errno : 0;
}

/* Under the lock, or with the gate closed. */
static bool goes_direct(const struct store_file *f)
{
	return f->direct_on && !f->with_others;
}

/*
 * The kernel's cache is used from here on: nothing read ahead that nobody
 * asked for, since it would look like another program's.
 */
static void set_refused(struct store_file *f)
{
	f->direct_on = false;
	set_direct_state(f, STORE_REFUSED);
	posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
}

static void ours_add_pages_locked(struct store_file *f, uint64_t pos,
				  uint64_t len)
{
	/* The kernel's folios are no smaller than a block. */
	uint64_t unit = f->store.min_folio_bytes;
	uint64_t start = pos / unit * unit;
	uint64_t end = (pos + len + unit - 1) / unit * unit;

	if (!f->in_memory)
		ranges_add(&f->ours, start, end);
}

/* What is cached in the range of @bio from here on is not our doing. */
static void ours_remove_pages_locked(struct store_file *f,
				     const struct bio *bio)
{
	uint64_t unit = f->store.min_folio_bytes;

	ranges_remove(&f->ours, (bio->pos + unit - 1) / unit * unit,
		      (bio->pos + bio->len) / unit * unit);
}

/* ---- pages of others ------------------------------------------------- */

/* Ours while we do not know better: what the first writes left, if they did. */
static bool may_be_ours(struct store_file *f, uint64_t pos, uint64_t len)
{
	bool ours;

	pthread_mutex_lock(&f->lock);
	ours = ranges_meet(&f->ours, pos, pos + len) ||
	       ranges_meet(&f->unproven, pos, pos + len);
	pthread_mutex_unlock(&f->lock);
	return ours;
}

/* @map: for each page that @bio touches: cached, and not by us. Return: how
 * many are. */
static unsigned map_others(struct store_file *f, const struct bio *bio,
			   unsigned char *map)
{
	uint64_t at = bio->pos / KCACHE_PAGE * KCACHE_PAGE;
	int64_t n = kcache_map(&f->kc, bio->pos, bio->len, map);
	unsigned others = 0;

	if (n <= 0)
		return 0;
	for (unsigned i = 0; at < bio->pos + bio->len; i++) {
		if (map[i] && may_be_ours(f, at, KCACHE_PAGE))
			map[i] = 0;
		others += map[i];
		at += KCACHE_PAGE;
	}
	return others;
}

/* Would @bio, written directly, throw away pages that others have cached? */
static bool meets_others(struct store_file *f, const struct bio *bio)
{
	unsigned char map[BIO_MAX_PAGES];
	unsigned state = direct_state(f);

	if (bio->op != BIO_WRITE || (bio->flags & BIO_F_ASKED) ||
	    (state != STORE_UNPROVEN && state != STORE_PROVEN) ||
	    !atomic_load_explicit(&f->tells, memory_order_relaxed) ||
	    kcache_resident(&f->kc, bio->pos, bio->len) <= 0)
		return false;
	return !may_be_ours(f, bio->pos, bio->len) || map_others(f, bio, map);
}

/* ---- proof of direct I/O --------------------------------------------- */

/*
 * The first write was issued into a range of which nothing was cached. If the
 * kernel now holds pages of it, "direct" goes through the cache there.
 */
static void prove(struct store_file *f, struct bio *bio)
{
	int64_t after = bio->status ?
				-EIO :
				kcache_resident(&f->kc, bio->pos, bio->len);
	bool was_empty = !(bio->flags & BIO_F_DROP);

	pthread_mutex_lock(&f->lock);
	f->probing = false;
	if (direct_state(f) != STORE_UNPROVEN) {
		/* Refused meanwhile. */
	} else if (after == 0) {
		set_direct_state(f, STORE_PROVEN);
		f->unproven.nr = 0;
	} else if (after > 0 && was_empty) {
		set_direct_state(f, STORE_PRETENCE);
		ranges_add_all(&f->ours, &f->unproven);
		f->unproven.nr = 0;
	}
	pthread_mutex_unlock(&f->lock);
}

/* Direct I/O is refused, with an error at the first transfer. */
static void refuse_direct(struct store_file *f)
{
	pthread_mutex_lock(&f->lock);
	if (f->direct_on) {
		/* The caller's bio is in flight: nobody plays with the flag. */
		set_flag_direct(f->fd, false);
		set_refused(f);
		ranges_add_all(&f->ours, &f->unproven);
		f->unproven.nr = 0;
	}
	pthread_mutex_unlock(&f->lock);
}

static bool is_refusal(const struct bio *bio)
{
	return (bio->flags & BIO_F_DIRECT) &&
	       (bio->status == -EINVAL || bio->status == -EOPNOTSUPP);
}

/* ---- bios ------------------------------------------------------------ */

/*
 * Does what @bio wrote stay in the kernel's cache? Where direct I/O is proven
 * too: file systems fall back to buffered I/O for the odd request. To ask is
 * nothing beside the request.
 */
static bool leaves_pages(struct store_file *f, const struct bio *bio)
{
	unsigned state = direct_state(f);

	if (bio->op != BIO_WRITE || bio->status || f->in_memory)
		return false;
	if (state == STORE_REFUSED || state == STORE_PRETENCE)
		return true;
	return kcache_resident(&f->kc, bio->pos, bio->len) > 0;
}

/* Written out. After bio_end() the store may be gone. */
static void behind_finish(struct bio *bio, bool left)
{
	struct store_file *f = to_file(bio->store);

	pthread_mutex_lock(&f->lock);
	/* settle() drops a folio that spans two bios. */
	if (left)
		ours_add_pages_locked(f, bio->pos, bio->len);
	else if (!bio->status && !(bio->flags & BIO_F_KEEP))
		ours_remove_pages_locked(f, bio);
	/* The kernel tells each error once, and does not say of which page. */
	if (bio->status && !f->lost_err && (f->ours.nr || f->kept.nr))
		f->lost_err = bio->status;
	pthread_mutex_unlock(&f->lock);
	bio_end(bio);
}

static struct behind *get_behind(struct store_file *f)
{
	struct behind *b;

	pthread_mutex_lock(&f->lock);
	if (!f->behind && behind_create(&f->kc, behind_finish, &f->behind))
		f->behind = NULL;
	b = f->behind;
	pthread_mutex_unlock(&f->lock);
	return b;
}

/* Written out, and dropped unless it is to be kept, before it ends. */
static void end_behind(struct store_file *f, struct bio *bio)
{
	struct behind *behind = get_behind(f);

	if (behind)
		behind_add(behind, bio);
	else
		behind_finish(bio, behind_write_out(&f->kc, bio));
}

/* @bio: not in flight any more; NULL if it may have left pages. */
static void bio_leaves(struct store_file *f, const struct bio *bio)
{
	pthread_mutex_lock(&f->lock);
	/* A direct write takes the pages of its range with it, ours too. */
	if (bio && bio->op == BIO_WRITE && (bio->flags & BIO_F_DIRECT) &&
	    !bio->status)
		ours_remove_pages_locked(f, bio);
	if (!--f->in_flight && f->gate_closed)
		pthread_cond_signal(&f->idle);
	pthread_mutex_unlock(&f->lock);
}

/* The ioq is done with @bio. After bio_end() the store may be gone. */
static void file_bio_ended(struct bio *bio)
{
	struct store_file *f = to_file(bio->store);

	if (is_refusal(bio)) {
		refuse_direct(f);
		bio->flags &= ~BIO_F_DIRECT;
		bio_reset(bio);
		ioq_submit(f->ioq, bio);
		return;
	}
	if (bio->flags & BIO_F_PROBE)
		prove(f, bio);
	else if ((bio->flags & BIO_F_DROP) &&
		 kcache_resident(&f->kc, bio->pos, bio->len))
		kcache_drop(&f->kc, bio->pos, bio->len);
	if (!leaves_pages(f, bio)) {
		bio_leaves(f, bio);
		bio_end(bio);
		return;
	}
	bio_leaves(f, NULL);
	end_behind(f, bio);
}

/* Counted as in flight; the caller issues it after releasing the lock. */
static void start_locked(struct store_file *f, struct bio *bio)
{
	f->in_flight++;
	if (!goes_direct(f))
		return;
	bio->flags |= BIO_F_DIRECT;
	if (bio->op == BIO_WRITE && direct_state(f) == STORE_UNPROVEN) {
		ranges_add(&f->unproven, bio->pos, bio->pos + bio->len);
		if (!f->probing && f->nr_probes < PROBES_MAX) {
			f->probing = true;
			f->nr_probes++;
			bio->flags |= BIO_F_PROBE;
		}
	}
}

static void issue(struct store_file *f, struct bio *bio)
{
	bool ask = bio->flags & BIO_F_PROBE;

	if (bio->op == BIO_READ)
		ask = f->mixes || !(bio->flags & BIO_F_DIRECT);

	if (ask && !f->in_memory) {
		bool empty = kcache_resident(&f->kc, bio->pos, bio->len) == 0;

		if (empty == (bio->op == BIO_READ))
			bio->flags |= BIO_F_DROP;
	}
	ioq_submit(f->ioq, bio);
}

static struct shared *get_shared(struct store_file *f);

static void admit(struct store_file *f, struct bio *bio)
{
	bool wait;

	if (meets_others(f, bio)) {
		struct shared *shared = get_shared(f);

		if (shared) {
			shared_add(shared, bio);
			return;
		}
	}
	pthread_mutex_lock(&f->lock);
	wait = f->gate_closed;
	if (wait)
		list_add_tail(&bio->list, &f->waiting);
	else
		start_locked(f, bio);
	pthread_mutex_unlock(&f->lock);
	if (!wait)
		issue(f, bio);
}

static void file_submit(struct store *store, struct bio *bio)
{
	struct store_file *f = to_file(store);

	bio->fd = f->fd;
	bio->ended = file_bio_ended;
	admit(f, bio);
}

/* ---- the gate -------------------------------------------------------- */

static void close_gate(struct store_file *f)
{
	unsigned turn;

	pthread_mutex_lock(&f->lock);
	turn = f->turn_next++;
	while (f->turn_now != turn)
		pthread_cond_wait(&f->turn, &f->lock);
	f->gate_closed = true;
	while (f->in_flight)
		pthread_cond_wait(&f->idle, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static void open_gate(struct store_file *f)
{
	struct list_head go, *node, *next;

	list_init(&go);
	pthread_mutex_lock(&f->lock);
	f->gate_closed = false;
	list_splice_tail(&f->waiting, &go);
	pthread_mutex_unlock(&f->lock);
	/* Still our turn: nobody closes it before these have started. */
	list_for_each_safe(node, next, &go) {
		list_del(node);
		admit(f, list_entry(node, struct bio, list));
	}
	pthread_mutex_lock(&f->lock);
	f->turn_now++;
	pthread_cond_broadcast(&f->turn);
	pthread_mutex_unlock(&f->lock);
}

/*
 * For a transfer through the kernel's cache. Between close_gate() and
 * open_gate(): nothing is in flight and nothing starts, so direct_on does not
 * change.
 */
static int flag_off(struct store_file *f)
{
	return goes_direct(f) ? set_flag_direct(f->fd, false) : 0;
}

static void flag_on(struct store_file *f)
{
	/* UNTESTED: it was on before. Buffered works, anyway. */
	if (goes_direct(f) && set_flag_direct(f->fd, true))
		set_refused(f);
}

/* ---- beside pages of others ------------------------------------------ */

/*
 * Which way @bio goes, by what is cached now: whole or in parts to the lists
 * of what is written through the cache and what is written directly.
 */
static void plan(struct store_file *f, struct bio *bio,
		 struct list_head *cached, struct list_head *direct)
{
	unsigned char map[BIO_MAX_PAGES];
	uint64_t first = bio->pos / KCACHE_PAGE;
	uint64_t end = (bio->pos + bio->len + KCACHE_PAGE - 1) / KCACHE_PAGE;
	unsigned others = map_others(f, bio, map);

	if (!others) {
		list_add_tail(&bio->list, direct);
	} else if (others == end - first) {
		bio->flags |= BIO_F_KEEP;
		list_add_tail(&bio->list, cached);
	} else if (bio_split(bio, map, cached, direct)) {
		/*
		 * UNTESTED: no memory, or memory aligned more than the file.
		 * Dropped behind, since part of its pages is new.
		 */
		list_add_tail(&bio->list, cached);
	}
}

static struct bio *pop_bio(struct list_head *list)
{
	struct bio *bio = list_first_entry(list, struct bio, list);

	list_del(&bio->list);
	return bio;
}

static void write_cached(struct store_file *f, struct list_head *bios)
{
	close_gate(f);
	/* UNTESTED: if it stays on they go direct; nothing else is lost. */
	flag_off(f);
	while (!list_empty(bios)) {
		struct bio *bio = pop_bio(bios);

		bio_transfer_blocking(bio);
		if (bio->status)
			bio_end(bio);
		else
			end_behind(f, bio);
	}
	flag_on(f);
	open_gate(f);
}

/* In the thread of shared.c. */
static void write_shared(void *arg, struct list_head *bios)
{
	struct store_file *f = arg;
	struct list_head cached, direct;
	struct list_head *node, *next;

	list_init(&cached);
	list_init(&direct);
	while (!list_empty(bios))
		plan(f, pop_bio(bios), &cached, &direct);
	/* First: past an end of the file that lies in a cached page a direct
	 * write would read that block. */
	if (!list_empty(&cached))
		write_cached(f, &cached);
	list_for_each_safe(node, next, &direct) {
		struct bio *bio = list_entry(node, struct bio, list);

		list_del(node);
		bio->flags |= BIO_F_ASKED;
		admit(f, bio);
	}
}

static struct shared *get_shared(struct store_file *f)
{
	struct shared *s;

	pthread_mutex_lock(&f->lock);
	if (!f->shared && shared_create(write_shared, f, &f->shared))
		f->shared = NULL;
	s = f->shared;
	pthread_mutex_unlock(&f->lock);
	return s;
}

/* ---- the end block --------------------------------------------------- */

static int pwrite_all(int fd, const char *buf, size_t len, uint64_t pos)
{
	unsigned tries = 0;

	while (len) {
		ssize_t n = pwrite(fd, buf, len, (off_t)pos);

		if (n < 0 && !bio_is_transient(-errno))
			return -errno;
		if (n <= 0) {
			if (++tries > BIO_TRIES)
				return n ? -errno : -EIO;
			if (tries > 2)
				block_sleep_us(100);
			continue;
		}
		buf += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
		tries = 0;
	}
	return 0;
}

/* Its pages are ours, unless they were there before and were not. */
static void note_tail(struct store_file *f, uint64_t pos, uint64_t len)
{
	uint64_t unit = f->store.min_folio_bytes;
	uint64_t start = pos / unit * unit;
	uint64_t end = (pos + len + unit - 1) / unit * unit;
	bool others = atomic_load_explicit(&f->tells, memory_order_relaxed) &&
		      kcache_resident(&f->kc, pos, len) > 0 &&
		      !may_be_ours(f, start, end - start);

	pthread_mutex_lock(&f->lock);
	if (others && !f->in_memory)
		ranges_add(&f->kept, start, end);
	else
		ours_add_pages_locked(f, pos, len);
	pthread_mutex_unlock(&f->lock);
}

static int file_write_tail(struct store *store, const void *buf, size_t len,
			   uint64_t pos)
{
	struct store_file *f = to_file(store);
	int err;

	if (!len)
		return 0;
	close_gate(f);
	note_tail(f, pos, len);
	err = flag_off(f);
	if (!err) {
		err = pwrite_all(f->fd, buf, len, pos);
		flag_on(f);
	}
	open_gate(f);
	return err;
}

/* ---- the rest -------------------------------------------------------- */

static int file_flush(struct store *store, bool datasync)
{
	struct store_file *f = to_file(store);
	int err;

	do {
		err = (datasync ? fdatasync(f->fd) : fsync(f->fd)) ? -errno : 0;
	} while (err == -EINTR);
	pthread_mutex_lock(&f->lock);
	err = err ? err : f->lost_err;
	f->lost_err = 0;
	pthread_mutex_unlock(&f->lock);
	return err;
}

static int settle_range(struct store_file *f, const struct range *r)
{
	uint64_t len = r->end - r->start;
	int err = kcache_write_out(&f->kc, r->start, len);

	kcache_drop(&f->kc, r->start, len);
	/*
	 * A file system that compresses starts a second round of pages only
	 * after the first; what is left gets one more chance.
	 */
	if (!err && kcache_resident(&f->kc, r->start, len) > 0) {
		err = kcache_write_out(&f->kc, r->start, len);
		kcache_drop(&f->kc, r->start, len);
	}
	return err;
}

static int file_settle(struct store *store)
{
	struct store_file *f = to_file(store);
	struct ranges set, kept;
	int err = 0;

	pthread_mutex_lock(&f->lock);
	set = f->ours;
	kept = f->kept;
	if (direct_state(f) == STORE_UNPROVEN && !f->in_memory)
		ranges_add_all(&set, &f->unproven);
	f->ours.nr = 0;
	f->unproven.nr = 0;
	f->kept.nr = 0;
	pthread_mutex_unlock(&f->lock);

	for (unsigned i = 0; i < kept.nr; i++) {
		int e = kcache_write_out(&f->kc, kept.r[i].start,
					 kept.r[i].end - kept.r[i].start);

		err = err ? err : e;
	}
	for (unsigned i = 0; i < set.nr; i++) {
		int e = settle_range(f, &set.r[i]);

		if (!e)
			continue;
		err = err ? err : e;
		pthread_mutex_lock(&f->lock);
		ranges_add(&f->ours, set.r[i].start, set.r[i].end);
		pthread_mutex_unlock(&f->lock);
	}
	return err;
}

/*
 * The kernel zeroes the rest of a page behind an end, old or new, in its
 * cache. That page is ours unless it was there before.
 */
static void note_end_page(struct store_file *f, uint64_t size)
{
	if (size % KCACHE_PAGE == 0 || f->in_memory ||
	    kcache_resident(&f->kc, size, 1) > 0)
		return;
	pthread_mutex_lock(&f->lock);
	ours_add_pages_locked(f, size, 1);
	pthread_mutex_unlock(&f->lock);
}

static int file_truncate(struct store *store, uint64_t size)
{
	struct store_file *f = to_file(store);
	struct stat st;
	int err;

	if (fstat(f->fd, &st))
		return -errno;
	note_end_page(f, size);
	note_end_page(f, (uint64_t)st.st_size);
	do {
		err = ftruncate(f->fd, (off_t)size) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

/* ---- where it has blocks ---------------------------------------------- */

static struct extents extents(const struct store_file *f)
{
	return (struct extents){
		.kc = f->kc,
		.in_memory = f->in_memory,
		.block = f->store.min_folio_bytes,
	};
}

/* As in behind_finish(): the error may be that of an end block. */
static void note_lost(struct store_file *f, int err)
{
	pthread_mutex_lock(&f->lock);
	if (err && !f->lost_err && (f->ours.nr || f->kept.nr))
		f->lost_err = err;
	pthread_mutex_unlock(&f->lock);
}

static int file_fallocate(struct store *store, int mode, uint64_t pos,
			  uint64_t len)
{
	struct store_file *f = to_file(store);
	struct extents x = extents(f);
	int err = extents_fallocate(&x, mode, pos, len);

	note_lost(f, x.lost);
	return err;
}

static int file_clone(struct store *store, uint64_t pos, struct store *from,
		      uint64_t from_pos, uint64_t len)
{
	struct store_file *f = to_file(store);
	struct extents x = extents(f);
	int err;

	if (from->ops != store->ops)
		return -EXDEV;
	err = extents_clone(&x, pos, to_file(from)->fd, from_pos, len);
	note_lost(f, x.lost);
	return err;
}

static int file_seek(struct store *store, int whence, uint64_t pos,
		     uint64_t *out)
{
	return extents_seek(to_file(store)->fd, whence, pos, out);
}

static int file_stat(struct store *store, struct stat *st)
{
	return fstat(to_file(store)->fd, st) ? -errno : 0;
}

static void file_destroy(struct store *store)
{
	struct store_file *f = to_file(store);

	/* Its thread may be about to open the gate. */
	shared_destroy(f->shared);
	assert(!f->in_flight && list_empty(&f->waiting));
	behind_destroy(f->behind);
	/*
	 * A lock or lease of the open file goes with its last reference, and a
	 * ring may hold one for some microseconds after a request has
	 * completed, a forked child for ever. Who opens the file next must not
	 * meet them.
	 */
	lease_unmark(f->fd);
	lease_drop(f->fd);
	close(f->fd);
	pthread_cond_destroy(&f->idle);
	pthread_cond_destroy(&f->turn);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- others that have it open ---------------------------------------- */

int store_file_mark(int fd, bool writable)
{
	return lease_mark(fd, writable);
}

static int file_lease_take(struct store *store, pid_t tid)
{
	return lease_take(to_file(store)->fd, store->writable, tid);
}

static void file_lease_drop(struct store *store)
{
	lease_drop(to_file(store)->fd);
}

static bool file_lease_broken(struct store *store)
{
	return lease_is_broken(to_file(store)->fd, store->writable);
}

static void file_share(struct store *store, bool on)
{
	struct store_file *f = to_file(store);

	close_gate(f);
	if (on != f->with_others) {
		/* UNTESTED: it was on before, or can be taken off. */
		if (f->direct_on && set_flag_direct(f->fd, !on))
			set_refused(f);
		/* As in set_refused(): what is read ahead stays. */
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
		f->with_others = on;
	}
	open_gate(f);
}

static struct through through(struct store *store)
{
	struct store_file *f = to_file(store);

	return (struct through){ f->kc, f->in_memory };
}

static ssize_t file_read_through(struct store *store,
				 const struct iov_part *part, uint64_t pos)
{
	struct through t = through(store);

	return through_read(&t, part, pos);
}

static ssize_t file_write_through(struct store *store,
				  const struct iov_part *part, uint64_t pos)
{
	struct through t = through(store);

	return through_write(&t, part, pos);
}

static ssize_t file_append_through(struct store *store,
				   const struct iov_part *part)
{
	struct through t = through(store);

	return through_append(&t, part);
}

static const struct store_lease_ops file_lease_ops = {
	.take = file_lease_take,
	.drop = file_lease_drop,
	.broken = file_lease_broken,
	.share = file_share,
	.read = file_read_through,
	.write = file_write_through,
	.append = file_append_through,
};

static int file_space(struct store *store, uint64_t *bytes)
{
	struct statvfs vfs;

	if (fstatvfs(to_file(store)->fd, &vfs))
		return -errno;
	/* Root may use what is reserved. */
	*bytes = (uint64_t)(geteuid() ? vfs.f_bavail : vfs.f_bfree) *
		 vfs.f_frsize;
	return 0;
}

static const struct store_ops file_ops = {
	.name = "file",
	.submit = file_submit,
	.flush = file_flush,
	.write_tail = file_write_tail,
	.settle = file_settle,
	.truncate = file_truncate,
	.stat = file_stat,
	.fallocate = file_fallocate,
	.seek = file_seek,
	.clone = file_clone,
	.space = file_space,
	.destroy = file_destroy,
	.lease = &file_lease_ops,
};

/* ---- life ------------------------------------------------------------ */

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The largest file here: the last offset that lseek() takes. There is no other
 * way to ask, and a write beyond it must be refused at once. */
static uint64_t largest_file(int fd)
{
	uint64_t low = 0, high = INT64_MAX;

	while (low < high) {
		uint64_t mid = high - (high - low) / 2;

		if (lseek(fd, (off_t)mid, SEEK_SET) < 0)
			high = mid - 1;
		else
			low = mid;
	}
	lseek(fd, 0, SEEK_SET);
	return low ? low : INT64_MAX;
}

static void set_geometry(struct store_file *f, const struct kcache_fs *fs)
{
	f->in_memory = fs->in_memory;
	f->mixes = fs->mixes;
	f->kc = (struct kcache){ f->fd, fs->stacked };
	f->store.offset_align = fs->offset_align;
	f->store.mem_align = fs->mem_align;
	f->store.max_bytes = largest_file(f->fd);
	f->store.min_folio_bytes = max_u32(
		fs->block_bytes, max_u32(fs->offset_align, fs->mem_align));
}

static void learn_tells(struct store_file *f, const struct stat *st)
{
	bool tells = kcache_tells(&f->kc, (uint64_t)st->st_size);

	/* Relaxed: who may write has synchronised with who made it so. */
	atomic_store_explicit(&f->tells, tells, memory_order_relaxed);
}

static void start_direct(struct store_file *f, bool wanted)
{
	f->direct_on = wanted && !set_flag_direct(f->fd, true);
	if (f->in_memory) {
		/* It may well say yes; it is the page cache all the same. */
		set_direct_state(f, STORE_PRETENCE);
	} else if (f->direct_on) {
		set_direct_state(f, STORE_UNPROVEN);
	} else {
		set_refused(f);
	}
}

int store_file_create(struct ioq *ioq, int fd, struct store **out)
{
	struct store_file *f;
	struct kcache_fs fs;
	struct stat st;
	int err, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	err = kcache_ask_fs(fd, &fs);
	if (err)
		return err;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->store.ops = &file_ops;
	f->store.writable = (flags & O_ACCMODE) == O_RDWR;
	f->store.dev = st.st_dev;
	f->store.ino = st.st_ino;
	f->ioq = ioq;
	f->fd = fd;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->idle, NULL);
	pthread_cond_init(&f->turn, NULL);
	list_init(&f->waiting);
	set_geometry(f, &fs);
	learn_tells(f, &st);
	start_direct(f, fs.direct);
	*out = &f->store;
	return 0;
}

int store_file_make_writable(struct store *store, int fd)
{
	struct store_file *f = to_file(store);
	struct stat st;
	int err = lease_move_mark(f->fd, fd);

	if (err) {
		close(fd);
		return err;
	}
	/* The same gate: the flag and the descriptor change as one. */
	close_gate(f);
	if (goes_direct(f))
		err = set_flag_direct(fd, true);
	/* EBUSY: an open() of another thread is about to take the number. */
	while (!err && dup3(fd, f->fd, O_CLOEXEC) < 0)
		if (errno != EBUSY && errno != EINTR)
			err = -errno;
	close(fd);
	if (err)
		lease_mark(f->fd, false);
	else if (!fstat(f->fd, &st))
		learn_tells(f, &st);
	if (!err) {
		f->store.writable = true;
		if (direct_state(f) == STORE_REFUSED)
			posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
	}
	open_gate(f);
	return err;
}

/* SPDX-License-Identifier: MIT */
/*
 * uring: the ioq over io_uring. Any thread submits; one thread of ours waits
 * for completions and ends the bios.
 *
 * Locks: lock (short) for the count in flight and the FIFO of what is held
 * back; sq_lock for the submission queue, kept over io_uring_enter(). Neither
 * is taken under the other, and end_io runs under none. The completion queue
 * belongs to the completion thread alone.
 */
#include "ioq.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

/* Completions taken from the ring at a time. */
#define BATCH 32u

struct uring {
	struct ioq ioq;
	struct io_uring ring;
	unsigned depth; /* set before publish */
	pthread_t thread;

	pthread_mutex_t lock;
	struct list_head held; /* under lock: bios over the depth */
	unsigned in_flight; /* under lock: at most depth */

	pthread_mutex_t sq_lock; /* the ring's submission side */
	/*
	 * Requests handed to the kernel. Release by the submitter, acquire by
	 * the completion thread once it has seen a completion: the kernel
	 * orders the two anyway, this says so in the language.
	 */
	_Atomic uint64_t issued;
};

/* ---- submission ------------------------------------------------------ */

/*
 * The kernel takes a request or says that it has no memory for it now. It is
 * ours until it is taken, so repeat until then: nothing else would.
 */
static void enter_sq_locked(struct uring *u)
{
	unsigned wait_us = 20;

	atomic_fetch_add_explicit(&u->issued, 1, memory_order_release);
	for (;;) {
		/* What it returns (EAGAIN, EBUSY, EINTR) changes nothing. */
		io_uring_submit(&u->ring);
		if (!io_uring_sq_ready(&u->ring))
			return;
		block_sleep_us(wait_us);
		if (wait_us < 10000)
			wait_us *= 2;
	}
}

/* There is a slot: at most depth in flight, and every call submits all. */
static void prep_sq_locked(struct uring *u, struct bio *bio)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	const struct iovec *v = bio->rest ? bio->rest : bio->vecs;
	unsigned nr = bio->rest ? bio->nr_rest : bio->nr_vecs;
	uint64_t pos = bio->pos + bio->done;

	assert(sqe);
	if (nr == 1 && bio->op == BIO_READ)
		io_uring_prep_read(sqe, bio->fd, v->iov_base,
				   (unsigned)v->iov_len, pos);
	else if (nr == 1)
		io_uring_prep_write(sqe, bio->fd, v->iov_base,
				    (unsigned)v->iov_len, pos);
	else if (bio->op == BIO_READ)
		io_uring_prep_readv(sqe, bio->fd, v, nr, pos);
	else
		io_uring_prep_writev(sqe, bio->fd, v, nr, pos);
	io_uring_sqe_set_data(sqe, bio);
}

static void issue(struct uring *u, struct list_head *bios)
{
	struct bio *bio;
	bool held;

	if (list_empty(bios))
		return;
	pthread_mutex_lock(&u->sq_lock);
	do {
		bio = list_first_entry(bios, struct bio, list);
		list_del(&bio->list);
		held = !list_empty(bios);
		prep_sq_locked(u, bio);
		/*
		 * One at a time. A request's memory is pinned in this call, so
		 * the device starts on the first while we pin the second.
		 */
		enter_sq_locked(u);
	} while (held);
	pthread_mutex_unlock(&u->sq_lock);
}

static void uring_submit(struct ioq *ioq, struct bio *bio)
{
	struct uring *u = container_of(ioq, struct uring, ioq);
	struct list_head one;

	list_init(&one);
	pthread_mutex_lock(&u->lock);
	if (u->in_flight < u->depth && list_empty(&u->held)) {
		u->in_flight++;
		list_add_tail(&bio->list, &one);
	} else {
		list_add_tail(&bio->list, &u->held);
	}
	pthread_mutex_unlock(&u->lock);
	issue(u, &one);
}

/* ---- completion ------------------------------------------------------ */

/* @nr requests have ended: as many that were held back may start. */
static void refill(struct uring *u, unsigned nr)
{
	struct list_head next;

	list_init(&next);
	pthread_mutex_lock(&u->lock);
	u->in_flight -= nr;
	while (u->in_flight < u->depth && !list_empty(&u->held)) {
		struct list_head *node = u->held.next;

		list_del(node);
		list_add_tail(node, &next);
		u->in_flight++;
	}
	pthread_mutex_unlock(&u->lock);
	issue(u, &next);
}

/* Return: false when there is no memory to describe what is left. */
static bool prepare_rest(struct bio *bio)
{
	struct iovec *rest;

	if (!bio->done)
		return true;
	rest = bio->rest ? bio->rest : malloc(bio->nr_vecs * sizeof(*rest));
	if (!rest)
		return false;
	bio->nr_rest = bio_vecs_left(bio, bio->done, rest, bio->nr_vecs);
	bio->rest = rest;
	return true;
}

static void complete(struct uring *u, struct bio *bio, int res)
{
	if (!bio_transferred(bio, res)) {
		if (bio->tries > 4)
			block_sleep_us(20u << bio->tries);
		if (prepare_rest(bio)) {
			uring_submit(&u->ioq, bio);
			return;
		}
		/* UNTESTED: no memory for some vectors. */
		bio_transfer_blocking(bio);
	} else if (bio_is_transient(bio->status)) {
		/*
		 * The ring does not get it done; an ordinary call may.
		 * UNTESTED: no kernel here says EAGAIN that often.
		 */
		bio->tries = 0;
		bio_transfer_blocking(bio);
	}
	bio->ended(bio);
}

static void *uring_main(void *arg)
{
	struct uring *u = arg;
	struct io_uring_cqe *cqes[BATCH], *cqe;
	struct {
		struct bio *bio;
		int res;
	} ended[BATCH];

	for (;;) {
		unsigned nr;
		bool stop = false;

		if (io_uring_wait_cqe(&u->ring, &cqe))
			continue; /* EINTR, from a debugger: signals are off */
		nr = io_uring_peek_batch_cqe(&u->ring, cqes, BATCH);
		for (unsigned i = 0; i < nr; i++) {
			ended[i].bio = io_uring_cqe_get_data(cqes[i]);
			ended[i].res = cqes[i]->res;
		}
		io_uring_cq_advance(&u->ring, nr);
		atomic_load_explicit(&u->issued, memory_order_acquire);
		for (unsigned i = 0; i < nr; i++)
			stop |= !ended[i].bio;
		if (stop) {
			assert(nr == 1);
			return NULL;
		}
		/* First, so that the device does not idle while we end. */
		refill(u, nr);
		for (unsigned i = 0; i < nr; i++)
			complete(u, ended[i].bio, ended[i].res);
	}
}

/* ---- life ------------------------------------------------------------ */

static void submit_nop(struct uring *u)
{
	struct io_uring_sqe *sqe;

	pthread_mutex_lock(&u->sq_lock);
	sqe = io_uring_get_sqe(&u->ring);
	assert(sqe);
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL);
	enter_sq_locked(u);
	pthread_mutex_unlock(&u->sq_lock);
}

static void uring_free(struct uring *u)
{
	io_uring_queue_exit(&u->ring);
	pthread_mutex_destroy(&u->lock);
	pthread_mutex_destroy(&u->sq_lock);
	free(u);
}

static void uring_destroy(struct ioq *ioq)
{
	struct uring *u = container_of(ioq, struct uring, ioq);

	submit_nop(u);
	pthread_join(u->thread, NULL);
	uring_free(u);
}

static const struct ioq_ops uring_ops = {
	.submit = uring_submit,
	.destroy = uring_destroy,
};

/*
 * A filter may allow io_uring_setup() and refuse io_uring_enter(), and kernels
 * before 5.7 lack what we use: ask once, before a bio depends on it.
 */
static int try_ring(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int err;

	if (!(ring->features & IORING_FEAT_NODROP) ||
	    !(ring->features & IORING_FEAT_FAST_POLL))
		return -ENOSYS;
	io_uring_prep_nop(io_uring_get_sqe(ring));
	err = io_uring_submit(ring);
	if (err < 0)
		return err;
	err = io_uring_wait_cqe(ring, &cqe);
	if (err)
		return err;
	err = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return err < 0 ? err : 0;
}

/*
 * CLAMP: a depth beyond the kernel's limit is no reason to do without.
 * COOP_TASKRUN was measured and is slower: a completion would wait until the
 * submitter enters the kernel by itself. SINGLE_ISSUER does not fit: all
 * threads submit. With CLAMP alone 5.7 is as good as any later kernel.
 */
static int setup_ring(unsigned depth, struct io_uring *ring)
{
	struct io_uring_params p = { .flags = IORING_SETUP_CLAMP };
	int err = io_uring_queue_init_params(depth, ring, &p);

	if (err)
		return err;
	err = try_ring(ring);
	if (err)
		io_uring_queue_exit(ring);
	return err;
}

int ioq_uring_create(unsigned depth, struct ioq **out)
{
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	u->ioq.ops = &uring_ops;
	u->ioq.method = IOQ_URING;
	err = setup_ring(depth, &u->ring);
	if (err) {
		free(u);
		return err;
	}
	u->depth = depth < u->ring.sq.ring_entries ? depth :
						     u->ring.sq.ring_entries;
	pthread_mutex_init(&u->lock, NULL);
	pthread_mutex_init(&u->sq_lock, NULL);
	list_init(&u->held);
	err = block_thread_create(&u->thread, "dbh-complete", uring_main, u);
	if (err) {
		uring_free(u);
		return err;
	}
	*out = &u->ioq;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * ioq: what the files of this room share and nobody else sees: the methods of
 * issuing, and how the result of one transfer becomes the end of a bio.
 */
#ifndef DBH_BLOCK_IOQ_H
#define DBH_BLOCK_IOQ_H

#include <pthread.h>

#include "block/block.h"

/** Times that a transfer without progress is repeated before it is an error. */
#define BIO_TRIES 12u

/* Marks of a file store on its bios. */
enum bio_flags {
	/* Issued with O_DIRECT: an EINVAL may be the file system's refusal. */
	BIO_F_DIRECT = 1u << 0,
	/* This write proves whether direct I/O leaves pages behind. */
	BIO_F_PROBE = 1u << 1,
	/*
	 * A read, of a range of which nothing was cached: what is there
	 * afterwards is ours to drop. A probe, of one of which something was:
	 * it proves nothing.
	 */
	BIO_F_DROP = 1u << 2,
	/* Written through the kernel's cache into pages of others: they are
	 * written out and stay. */
	BIO_F_KEEP = 1u << 3,
	/* Known to meet no pages of others, or to go direct all the same. */
	BIO_F_ASKED = 1u << 4,
};

/**
 * struct ioq_ops - a method of issuing; all members required
 *
 * @submit: issues the transfer of what is left of a bio (bio->done) on
 *	bio->fd. Repeats it until the bio has ended, then calls bio->ended()
 *	from a thread of its own with no lock held. May sleep.
 * @destroy: ends the threads and closes every descriptor. No bio in flight.
 */
struct ioq_ops {
	void (*submit)(struct ioq *ioq, struct bio *bio);
	void (*destroy)(struct ioq *ioq);
};

struct ioq {
	const struct ioq_ops *ops;
	enum ioq_method method;
};

static inline void ioq_submit(struct ioq *ioq, struct bio *bio)
{
	ioq->ops->submit(ioq, bio);
}

int ioq_uring_create(unsigned depth, struct ioq **out);
int ioq_threads_create(unsigned depth, struct ioq **out);

/**
 * block_thread_create - a named thread that no signal is delivered to
 *
 * The host's handlers never run in a thread of ours.
 */
int block_thread_create(pthread_t *thread, const char *name,
			void *(*fn)(void *arg), void *arg);

/* ---- bio.c ----------------------------------------------------------- */

/** Ready to be issued from its start. */
void bio_reset(struct bio *bio);

/**
 * bio_vecs_left - the vectors of what is left from byte @skip on
 * @iov, @max: where to, and how many of them fit
 * Return: how many were filled in
 */
unsigned bio_vecs_left(const struct bio *bio, uint32_t skip, struct iovec *iov,
		       unsigned max);

/**
 * bio_transferred - account for the result of one transfer
 * @res: bytes, or a negative errno
 *
 * A read that met the end of the file gets zeros for the rest.
 * Context: may make a system call.
 * Return: true when the bio has ended and its status is set; false when the
 * transfer is to be repeated from bio->done.
 */
bool bio_transferred(struct bio *bio, ssize_t res);

/** An errno that says "not now", not "no". */
bool bio_is_transient(int err);

/** Transfers what is left in this thread, and sets the status. */
void bio_transfer_blocking(struct bio *bio);

/** Frees what hangs on the bio and calls end_io; the bio is gone after it. */
void bio_end(struct bio *bio);

uint64_t block_now_ns(void);

/** Used for back-off only. */
void block_sleep_us(unsigned us);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * bio: the life of one request, whatever issues it: what is asserted of it at
 * submission, and how short transfers, EINTR, EAGAIN and the end of the file
 * are settled. How a transfer is issued is the ioq's or the store's.
 */
#include "ioq.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Vectors per system call when transferring in this thread. */
#define BLOCKING_VECS 64

uint64_t block_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void block_sleep_us(unsigned us)
{
	struct timespec ts = { us / 1000000, (long)(us % 1000000) * 1000 };

	nanosleep(&ts, NULL);
}

#ifndef NDEBUG
static void check_bio(const struct bio *bio)
{
	const struct store *store = bio->store;
	uint64_t sum = 0;

	assert(bio->len && bio->len <= BIO_MAX_BYTES);
	assert(bio->pos % store->offset_align == 0);
	assert(bio->len % store->offset_align == 0);
	assert(bio->nr_vecs && bio->nr_vecs <= BIO_MAX_VECS);
	for (unsigned i = 0; i < bio->nr_vecs; i++) {
		const struct iovec *v = &bio->vecs[i];

		assert((uintptr_t)v->iov_base % store->mem_align == 0);
		assert(v->iov_len && v->iov_len % store->mem_align == 0);
		sum += v->iov_len;
	}
	assert(sum == bio->len);
	assert(bio->end_io);
}
#else
static void check_bio(const struct bio *bio)
{
	(void)bio;
}
#endif

void bio_reset(struct bio *bio)
{
	free(bio->rest);
	bio->rest = NULL;
	bio->nr_rest = 0;
	bio->done = 0;
	bio->tries = 0;
	bio->status = 0;
}

void bio_submit(struct bio *bio)
{
	check_bio(bio);
	bio->rest = NULL;
	bio->flags = 0;
	bio->fd = -1;
	bio->ended = NULL;
	bio_reset(bio);
	bio->submit_ns = block_now_ns();
	bio->store->ops->submit(bio->store, bio);
}

void bio_end(struct bio *bio)
{
	free(bio->rest);
	bio->rest = NULL;
	bio->nr_rest = 0;
	bio->end_io(bio);
}

unsigned bio_vecs_left(const struct bio *bio, uint32_t skip, struct iovec *iov,
		       unsigned max)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < bio->nr_vecs && nr < max; i++) {
		const struct iovec *v = &bio->vecs[i];

		if (skip >= v->iov_len) {
			skip -= (uint32_t)v->iov_len;
			continue;
		}
		iov[nr].iov_base = (char *)v->iov_base + skip;
		iov[nr].iov_len = v->iov_len - skip;
		skip = 0;
		nr++;
	}
	return nr;
}

static void zero_rest(struct bio *bio)
{
	uint32_t skip = bio->done;

	for (unsigned i = 0; i < bio->nr_vecs; i++) {
		const struct iovec *v = &bio->vecs[i];

		if (skip >= v->iov_len) {
			skip -= (uint32_t)v->iov_len;
			continue;
		}
		memset((char *)v->iov_base + skip, 0, v->iov_len - skip);
		skip = 0;
	}
	bio->done = bio->len;
}

/*
 * A short read is the end of the file only if the file ends there: a signal, a
 * server or an error half-way shorten reads too.
 */
static bool read_met_end(const struct bio *bio)
{
	struct stat st;

	if (bio->store->ops->stat(bio->store, &st))
		return false;
	return bio->pos + bio->done >= (uint64_t)st.st_size;
}

bool bio_is_transient(int err)
{
	/*
	 * ECANCELED: the thread that submitted the request to the ring has
	 * exited before the kernel began it.
	 */
	return err == -EINTR || err == -EAGAIN || err == -ECANCELED;
}

static bool out_of_tries(struct bio *bio)
{
	return ++bio->tries > BIO_TRIES;
}

bool bio_transferred(struct bio *bio, ssize_t res)
{
	uint32_t before = bio->done, align;

	if (res < 0) {
		if (bio_is_transient((int)res) && !out_of_tries(bio))
			return false;
		bio->status = (int)res;
		return true;
	}
	assert((size_t)res <= bio->len - bio->done);
	bio->done += (uint32_t)res;
	if (bio->done == bio->len)
		return true;
	if (bio->op == BIO_READ && read_met_end(bio)) {
		zero_rest(bio);
		return true;
	}
	/* Where direct I/O goes on it must be aligned: some bytes go twice. */
	align = bio->flags & BIO_F_DIRECT ? bio->store->offset_align : 1;
	bio->done -= bio->done % align;
	if (bio->done > before) {
		bio->tries = 0;
		return false;
	}
	if (out_of_tries(bio)) {
		bio->status = -EIO;
		return true;
	}
	return false;
}

static ssize_t transfer_once(struct bio *bio)
{
	struct iovec iov[BLOCKING_VECS];
	struct iovec *v = bio->vecs;
	unsigned nr = bio->nr_vecs;
	off_t pos = (off_t)(bio->pos + bio->done);
	ssize_t n;

	if (bio->done) {
		nr = bio_vecs_left(bio, bio->done, iov, BLOCKING_VECS);
		v = iov;
	}
	if (bio->op == BIO_READ)
		n = preadv(bio->fd, v, (int)nr, pos);
	else
		n = pwritev(bio->fd, v, (int)nr, pos);
	return n < 0 ? -errno : n;
}

void bio_transfer_blocking(struct bio *bio)
{
	bio->status = 0;
	while (!bio_transferred(bio, transfer_once(bio)))
		if (bio->tries > 2)
			block_sleep_us(50u
				       << (bio->tries < 9 ? bio->tries : 9));
}

/* SPDX-License-Identifier: MIT */
/*
 * block_io: what the tests of the block room share: bios with memory of their
 * own that can be waited for, and a content that tells where it belongs.
 */
#ifndef BLOCK_IO_H
#define BLOCK_IO_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "block/block.h"

struct io {
	struct bio bio;
	struct iovec vecs[BIO_MAX_VECS];
	char *mem; /* as many bytes as the bio, in vector order or reversed */
	pthread_t ended_in;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool ended;
};

static inline void io_end(struct bio *bio)
{
	struct io *io = bio->private;

	pthread_mutex_lock(&io->lock);
	io->ended = true;
	io->ended_in = pthread_self();
	pthread_cond_signal(&io->cond);
	pthread_mutex_unlock(&io->lock);
}

/*
 * @vec_bytes: of each vector. Vectors lie in memory in reverse order, so that
 * nobody can take them for one piece.
 */
static inline struct io *io_new(struct store *store, enum bio_op op,
				uint64_t pos, uint32_t len, uint32_t vec_bytes)
{
	struct io *io = calloc(1, sizeof(*io));
	unsigned nr = len / vec_bytes;

	if (!io || posix_memalign((void **)&io->mem, 4096, len))
		abort();
	memset(io->mem, 0xee, len);
	for (unsigned i = 0; i < nr; i++) {
		io->vecs[i].iov_base = io->mem + (nr - 1 - i) * vec_bytes;
		io->vecs[i].iov_len = vec_bytes;
	}
	io->bio.store = store;
	io->bio.op = op;
	io->bio.pos = pos;
	io->bio.len = len;
	io->bio.vecs = io->vecs;
	io->bio.nr_vecs = nr;
	io->bio.end_io = io_end;
	io->bio.private = io;
	pthread_mutex_init(&io->lock, NULL);
	pthread_cond_init(&io->cond, NULL);
	return io;
}

static inline void io_free(struct io *io)
{
	pthread_mutex_destroy(&io->lock);
	pthread_cond_destroy(&io->cond);
	free(io->mem);
	free(io);
}

static inline int io_wait(struct io *io)
{
	int status;

	pthread_mutex_lock(&io->lock);
	while (!io->ended)
		pthread_cond_wait(&io->cond, &io->lock);
	status = io->bio.status;
	io->ended = false;
	pthread_mutex_unlock(&io->lock);
	return status;
}

static inline int io_run(struct io *io)
{
	bio_submit(&io->bio);
	return io_wait(io);
}

/* One byte of the content of generation @gen at @pos; never zero. */
static inline char content_at(uint64_t pos, unsigned gen)
{
	uint64_t x = pos / 64 * 0x9e3779b97f4a7c15u +
		     (gen + 1) * 0xbf58476d1ce4e5b9u;

	return (char)((x >> 40) | 1);
}

static inline void content_fill(char *buf, size_t len, uint64_t pos,
				unsigned gen)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = content_at(pos + i, gen);
}

static inline bool content_is(const char *buf, size_t len, uint64_t pos,
			      unsigned gen)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != content_at(pos + i, gen))
			return false;
	return true;
}

static inline void io_fill(struct io *io, unsigned gen)
{
	uint64_t pos = io->bio.pos;

	for (unsigned i = 0; i < io->bio.nr_vecs; i++) {
		content_fill(io->vecs[i].iov_base, io->vecs[i].iov_len, pos,
			     gen);
		pos += io->vecs[i].iov_len;
	}
}

/* The first @len bytes are the content, the others are zero. */
static inline bool io_holds(const struct io *io, uint64_t len, unsigned gen)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < io->bio.nr_vecs; i++) {
		const char *p = io->vecs[i].iov_base;

		for (size_t k = 0; k < io->vecs[i].iov_len; k++, at++) {
			char want = at < len ?
					    content_at(io->bio.pos + at, gen) :
					    0;

			if (p[k] != want)
				return false;
		}
	}
	return true;
}

/* Write or read and check one piece; the store is expected to do well. */
static inline int put_content(struct store *store, uint64_t pos, uint32_t len,
			      uint32_t vec_bytes, unsigned gen)
{
	struct io *io = io_new(store, BIO_WRITE, pos, len, vec_bytes);
	int err;

	io_fill(io, gen);
	err = io_run(io);
	io_free(io);
	return err;
}

#endif

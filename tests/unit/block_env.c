// SPDX-License-Identifier: MIT
/*
 * block_env: see block_env.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "block_env.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

const char *env_dirs[5];

int env_open(struct env *e, const char *dir, int flags)
{
	int fd;

	snprintf(e->path, sizeof(e->path), "%s/dbh-block-%d", dir, getpid());
	unlink(e->path);
	fd = open(e->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	if (flags != O_RDWR) {
		close(fd);
		fd = open(e->path, flags | O_CLOEXEC);
		assert_true(fd >= 0);
	}
	return fd;
}

void env_up(struct env *e, enum ioq_method method, unsigned depth,
	    const char *dir, void (*before)(struct env *e))
{
	struct kcache_fs fs;

	*e = (struct env){ .other = -1 };
	assert_int_equal(ioq_create(method, depth, &e->ioq), 0);
	assert_int_equal(ioq_method(e->ioq), method);
	e->fd = env_open(e, dir, O_RDWR);
	assert_int_equal(kcache_ask_fs(e->fd, &fs), 0);
	e->kc = (struct kcache){ e->fd, fs.stacked };
	if (before)
		before(e);
	assert_int_equal(store_file_create(e->ioq, e->fd, &e->store), 0);
	e->in_memory = e->store->direct == STORE_PRETENCE;
}

void env_down(struct env *e)
{
	store_destroy(e->store);
	ioq_destroy(e->ioq);
	if (e->other >= 0)
		close(e->other);
	unlink(e->path);
}

void for_each_env(void (*before)(struct env *e), void (*test)(struct env *e))
{
	for (int m = IOQ_URING; m <= IOQ_THREADS; m++) {
		for (unsigned i = 0; env_dirs[i]; i++) {
			struct env e;

			env_up(&e, (enum ioq_method)m, DEPTH, env_dirs[i],
			       before);
			if (!e.skip)
				test(&e);
			env_down(&e);
		}
	}
}

/* ---- all at once ----------------------------------------------------- */

static bool crew_over(const struct crew *c, unsigned round)
{
	return c->err || (c->stop ? atomic_load(c->stop) : round == c->rounds);
}

void *crew_writes(void *arg)
{
	struct crew *c = arg;
	uint64_t base = (uint64_t)c->who * CREW_BYTES;
	struct io *io[4];

	for (unsigned r = 0; r < c->rounds && !c->err; r++) {
		for (unsigned i = 0; i < 4; i++) {
			unsigned at = (r * 5 + i * 8) % (CREW_BYTES / 65536);

			c->gen[at] = r * 4 + i + c->first;
			io[i] = io_new(c->e->store, BIO_WRITE,
				       base + at * 65536, 65536, 4096);
			io_fill(io[i], c->gen[at]);
			bio_submit(&io[i]->bio);
		}
		for (unsigned i = 0; i < 4; i++) {
			int err = io_wait(io[i]);

			c->err = c->err ? c->err : err;
			io_free(io[i]);
		}
	}
	return NULL;
}

static int move_tail(struct store *store, uint64_t end, unsigned r)
{
	unsigned n = 1 + r * 37 % 4000;
	char tail[4096];
	struct stat st;
	int err;

	content_fill(tail, n, end, r);
	err = store->ops->write_tail(store, tail, n, end);
	if (!err)
		err = store->ops->truncate(store, end + n);
	if (!err && r % 3 == 0)
		err = store->ops->flush(store, true);
	if (!err && r % 4 == 0)
		err = store->ops->settle(store);
	if (!err)
		err = store->ops->stat(store, &st);
	if (!err && (uint64_t)st.st_size != end + n)
		err = -ERANGE;
	return err;
}

void *crew_tails(void *arg)
{
	struct crew *c = arg;
	struct stat st;
	uint64_t end;

	c->err = c->e->store->ops->stat(c->e->store, &st);
	end = (uint64_t)st.st_size;
	for (unsigned r = 0; !crew_over(c, r); r++)
		c->err = move_tail(c->e->store, end, r);
	return NULL;
}

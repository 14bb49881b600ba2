/* SPDX-License-Identifier: MIT */
/*
 * The file store beside other programs that have the file in the kernel's
 * cache: what we do not overwrite stays there, what we do is right there and
 * on the disk, and nothing new stays. On each method of issuing, in
 * $DBH_TEST_DIR or /tmp, and as root on file systems made for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "block/ioq.h"
#include "block/shared.h"
#include "block_env.h"
#include "block_refuse.h"
#include "scale.h"
#include "support/scratch.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#define FILE_BYTES (8u * MIB)
#define FILE_PAGES (FILE_BYTES / 4096)
#define OLD 1u /* generations of content */
#define NEW 2u

/* ---- the other program ----------------------------------------------- */

static void write_old(struct env *e)
{
	char *buf = malloc(MIB);

	for (uint64_t at = 0; at < FILE_BYTES; at += MIB) {
		content_fill(buf, MIB, at, OLD);
		assert_int_equal(pwrite(e->other, buf, MIB, (off_t)at), MIB);
	}
	free(buf);
}

static void forget(struct env *e)
{
	assert_int_equal(fsync(e->other), 0);
	posix_fadvise(e->other, 0, 0, POSIX_FADV_DONTNEED);
	assert_int_equal(kcache_resident(&e->kc, 0, FILE_BYTES), 0);
}

/*
 * All or nearly all of @want pages are cached: under load the kernel takes the
 * odd page away from a file that nobody touches.
 */
static void check_kept(int64_t n, int64_t want)
{
	assert_in_range(n, want - want / 64, want);
}

/* Into large folios, as the kernel sees fit. */
static void cache_all(struct env *e)
{
	char *buf = malloc(MIB);

	posix_fadvise(e->other, 0, 0, POSIX_FADV_SEQUENTIAL);
	for (uint64_t at = 0; at < FILE_BYTES; at += MIB)
		assert_int_equal(pread(e->other, buf, MIB, (off_t)at), MIB);
	check_kept(kcache_resident(&e->kc, 0, FILE_BYTES), FILE_PAGES);
	free(buf);
}

/* These pages and, if the file system's blocks are no larger, no others. */
static void cache_some(struct env *e, uint64_t pos, uint64_t len)
{
	char buf[4096];

	posix_fadvise(e->other, 0, 0, POSIX_FADV_RANDOM);
	for (uint64_t at = pos; at < pos + len; at += sizeof(buf))
		assert_int_equal(pread(e->other, buf, sizeof(buf), (off_t)at),
				 sizeof(buf));
}

/* Of each MiB @bytes at @first are new. */
static void check_other(struct env *e, uint64_t first, uint64_t bytes)
{
	char *buf = malloc(MIB);

	for (uint64_t at = 0; at < FILE_BYTES; at += MIB) {
		assert_int_equal(pread(e->other, buf, MIB, (off_t)at), MIB);
		assert_true(content_is(buf, first, at, OLD));
		assert_true(content_is(buf + first, bytes, at + first, NEW));
		assert_true(content_is(buf + first + bytes, MIB - first - bytes,
				       at + first + bytes, OLD));
	}
	free(buf);
}

static void check_ours(struct env *e, uint64_t pos, uint32_t len, unsigned gen)
{
	struct io *io = io_new(e->store, BIO_READ, pos, len, 4096);

	assert_int_equal(io_run(io), 0);
	assert_true(io_holds(io, len, gen));
	io_free(io);
}

/* ---- set-up ---------------------------------------------------------- */

/* Is direct I/O what it says, for this file? Not on btrfs if it compresses. */
static bool is_direct(struct env *e)
{
	int fd = open(e->path, O_RDWR | O_CLOEXEC);
	struct store *store;
	bool proven;

	assert_int_equal(store_file_create(e->ioq, fd, &store), 0);
	assert_int_equal(put_content(store, 0, MIB, 4096, OLD), 0);
	proven = store->direct == STORE_PROVEN;
	assert_int_equal(store->ops->settle(store), 0);
	store_destroy(store);
	return proven;
}

/* The other program has written the file and forgotten it. */
static void put_old(struct env *e)
{
	struct kcache_fs fs;

	e->other = open(e->path, O_RDWR | O_CLOEXEC);
	assert_true(e->other >= 0);
	assert_int_equal(kcache_ask_fs(e->fd, &fs), 0);
	e->skip = fs.in_memory;
	if (e->skip)
		return;
	write_old(e);
	forget(e);
	e->skip = !is_direct(e);
}

static void for_each_direct(void (*test)(struct env *e))
{
	for_each_env(put_old, test);
}

/* @bytes at @first of each MiB, all at once, in bios of @each. */
static void write_new(struct env *e, uint64_t first, uint32_t bytes,
		      uint32_t each)
{
	unsigned nr = 0;
	struct io **io = calloc(FILE_PAGES, sizeof(*io));

	for (uint64_t at = first; at < FILE_BYTES; at += MIB) {
		for (uint64_t b = 0; b < bytes; b += each) {
			io[nr] =
				io_new(e->store, BIO_WRITE, at + b, each, 4096);
			io_fill(io[nr], NEW);
			bio_submit(&io[nr++]->bio);
		}
	}
	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(io_wait(io[i]), 0);
		assert_false(pthread_equal(io[i]->ended_in, pthread_self()));
		io_free(io[i]);
	}
	free(io);
}

/* ---- taking a bio apart ---------------------------------------------- */

static int fake_ends;

static void fake_end(struct bio *bio)
{
	(void)bio;
	fake_ends++;
}

static void pop_part(struct list_head *list, uint64_t pos, uint32_t len,
		     int status)
{
	struct bio *part = list_first_entry(list, struct bio, list);
	uint64_t sum = 0, at = pos;

	list_del(&part->list);
	assert_int_equal(part->pos, pos);
	assert_int_equal(part->len, len);
	for (unsigned i = 0; i < part->nr_vecs; i++) {
		const struct iovec *v = &part->vecs[i];

		assert_true(content_is(v->iov_base, v->iov_len, at, NEW));
		at += v->iov_len;
		sum += v->iov_len;
	}
	assert_int_equal(sum, len);
	part->status = status;
	bio_end(part);
}

static void splitting(void **state)
{
	static const unsigned char map[] = { 0, 1, 1, 0, 1 };
	struct store store = { .offset_align = 512, .mem_align = 512 };
	struct io *io = io_new(&store, BIO_WRITE, 40960 + 512, 16384, 8192);
	struct list_head cached, direct;

	(void)state;
	fake_ends = 0;
	io->bio.end_io = fake_end;
	io_fill(io, NEW);
	list_init(&cached);
	list_init(&direct);
	assert_int_equal(bio_split(&io->bio, map, &cached, &direct), 0);
	pop_part(&direct, 40960 + 512, 4096 - 512, 0);
	pop_part(&cached, 45056, 8192, -EIO);
	pop_part(&cached, 40960 + 16384, 512, 0);
	assert_true(list_empty(&cached));
	assert_int_equal(fake_ends, 0);
	pop_part(&direct, 40960 + 12288, 4096, -ENOSPC);
	assert_true(list_empty(&direct));
	assert_int_equal(fake_ends, 1);
	assert_int_equal(io->bio.status, -EIO);
	/* Memory that cannot be cut where pages are. */
	store.mem_align = 1024;
	assert_int_equal(bio_split(&io->bio, map, &cached, &direct), -EINVAL);
	io_free(io);

	/* Every other page of the largest there is. */
	unsigned char many[256];

	store.mem_align = 512;
	for (unsigned i = 0; i < 256; i++)
		many[i] = i & 1;
	io = io_new(&store, BIO_WRITE, MIB, MIB, 4096);
	io->bio.end_io = fake_end;
	io_fill(io, NEW);
	assert_int_equal(bio_split(&io->bio, many, &cached, &direct), 0);
	for (unsigned i = 0; i < 256; i++)
		pop_part(i & 1 ? &cached : &direct, MIB + i * 4096, 4096, 0);
	assert_int_equal(fake_ends, 2);
	assert_int_equal(io->bio.status, 0);
	io_free(io);
}

/* ---- what others have cached ----------------------------------------- */

static void all_cached_in(struct env *e)
{
	uint32_t step = 65536;

	cache_all(e);
	for (uint32_t bytes = step; bytes < MIB / 2; bytes *= 2) {
		write_new(e, MIB / 4, bytes, step);
		check_kept(kcache_resident(&e->kc, 0, FILE_BYTES), FILE_PAGES);
		check_other(e, MIB / 4, bytes);
	}
	assert_true(fcntl(e->fd, F_GETFL) & O_DIRECT);
	check_ours(e, MIB / 4, MIB / 4, NEW);
	check_ours(e, MIB, MIB / 4, OLD);
	/* Reading leaves them too, and settling. */
	assert_int_equal(e->store->ops->settle(e->store), 0);
	check_kept(kcache_resident(&e->kc, 0, FILE_BYTES), FILE_PAGES);
	assert_int_equal(e->store->ops->flush(e->store, true), 0);
	/* Flushed, so without a further fsync it can all be dropped. */
	posix_fadvise(e->other, 0, 0, POSIX_FADV_DONTNEED);
	assert_int_equal(kcache_resident(&e->kc, 0, FILE_BYTES), 0);
	check_other(e, MIB / 4, MIB / 4);
}

/* R3 below us: a block overwritten in the midst of a folio of others. */
static void all_cached(void **state)
{
	(void)state;
	for_each_direct(all_cached_in);
}

/* What was not @before is not there; what was is, or nearly all of it. */
static void check_map(struct env *e, const unsigned char *before)
{
	unsigned char *after = malloc(FILE_PAGES);
	int64_t want = 0, n = kcache_map(&e->kc, 0, FILE_BYTES, after);

	for (unsigned i = 0; i < FILE_PAGES; i++) {
		want += before[i];
		assert_true(before[i] || !after[i]);
	}
	check_kept(n, want);
	free(after);
}

static void some_cached_in(struct env *e)
{
	unsigned char *before = malloc(FILE_PAGES);

	/* A few stretches in each MiB; in the last, every other page. */
	for (uint64_t at = 0; at < FILE_BYTES - MIB; at += MIB) {
		cache_some(e, at, 4096);
		cache_some(e, at + 131072, 65536);
		cache_some(e, at + MIB - 8192, 8192);
	}
	for (uint64_t at = FILE_BYTES - MIB; at < FILE_BYTES; at += 8192)
		cache_some(e, at, 4096);
	assert_true(kcache_map(&e->kc, 0, FILE_BYTES, before) > 0);
	write_new(e, 0, MIB, MIB);
	check_map(e, before);
	check_ours(e, 0, MIB, NEW);
	assert_int_equal(e->store->ops->flush(e->store, true), 0);
	assert_int_equal(e->store->ops->settle(e->store), 0);
	check_map(e, before);
	check_other(e, 0, MIB);
	forget(e);
	check_other(e, 0, MIB);
	free(before);
}

/* Nothing goes that was there, nothing stays that was not. */
static void some_cached(void **state)
{
	(void)state;
	for_each_direct(some_cached_in);
}

static void tails_in(struct env *e)
{
	const struct store_ops *ops = e->store->ops;
	uint32_t unit = e->store->min_folio_bytes;
	char tail[4096]; /* mincore sees only pages that are whole */

	/* Until something has proved direct I/O, all that we wrote may be ours. */
	assert_int_equal(put_content(e->store, 4 * MIB, 65536, 4096, OLD), 0);
	/* Ours: gone with the block that is written whole, or settled. */
	content_fill(tail, sizeof(tail), 0, NEW);
	assert_int_equal(ops->write_tail(e->store, tail, 4096, 0), 0);
	assert_int_equal(kcache_resident(&e->kc, 0, MIB), unit / 4096);
	assert_int_equal(put_content(e->store, 0, 65536, 4096, NEW), 0);
	assert_int_equal(kcache_resident(&e->kc, 0, MIB), 0);
	/* Others read it since: no longer ours. */
	cache_some(e, 0, 65536);
	assert_int_equal(put_content(e->store, 0, 65536, 4096, OLD), 0);
	assert_int_equal(ops->settle(e->store), 0);
	assert_int_equal(kcache_resident(&e->kc, 0, MIB), 16);
	/* Theirs before us: stays theirs, and is written out. */
	content_fill(tail, sizeof(tail), 8192, NEW);
	assert_int_equal(ops->write_tail(e->store, tail, 4096, 8192), 0);
	assert_int_equal(ops->settle(e->store), 0);
	assert_int_equal(kcache_resident(&e->kc, 0, MIB), 16);
	posix_fadvise(e->other, 0, 0, POSIX_FADV_DONTNEED);
	assert_int_equal(kcache_resident(&e->kc, 0, MIB), 0);
	/* Ours among theirs: one bio meets both. */
	content_fill(tail, sizeof(tail), MIB, NEW);
	assert_int_equal(ops->write_tail(e->store, tail, 4096, MIB), 0);
	cache_some(e, MIB + 131072, 65536);
	assert_int_equal(put_content(e->store, MIB, MIB, 4096, NEW), 0);
	assert_int_equal(kcache_resident(&e->kc, MIB, MIB), 16);
	check_ours(e, MIB, MIB, NEW);
}

static void tails(void **state)
{
	(void)state;
	for_each_direct(tails_in);
}

/* In a child: kernels before 6.5. */
static void without_cachestat(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		const struct CMUnitTest tests[] = {
			cmocka_unit_test(some_cached),
			cmocka_unit_test(all_cached),
			cmocka_unit_test(tails),
		};

		if (!refuse_call(SYS_cachestat, ENOSYS))
			_exit(77);
		_exit(cmocka_run_group_tests(tests, NULL, NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void append_in(struct env *e)
{
	const uint64_t end = FILE_BYTES - MIB + 5000;
	struct stat st;

	/* The end block is cached by who follows the file. */
	assert_int_equal(e->store->ops->truncate(e->store, end), 0);
	assert_int_equal(e->store->ops->settle(e->store), 0);
	cache_some(e, end - 5000, 4096);
	assert_true(pread(e->other, &st, 1, (off_t)end - 1) == 1);
	assert_int_equal(put_content(e->store, end - 5000, MIB, 4096, NEW), 0);
	assert_int_equal(e->store->ops->stat(e->store, &st), 0);
	assert_int_equal(st.st_size, FILE_BYTES);
	check_ours(e, end - 5000, MIB, NEW);
	assert_in_range(kcache_resident(&e->kc, 0, FILE_BYTES), 2,
			2 * e->store->min_folio_bytes / 4096);
}

static void appends(void **state)
{
	(void)state;
	for_each_direct(append_in);
}

static void error_in(struct env *e)
{
	struct store *ro;
	int fd = open(e->path, O_RDONLY | O_CLOEXEC);

	cache_all(e);
	assert_int_equal(store_file_create(e->ioq, fd, &ro), 0);
	assert_int_equal(put_content(ro, 0, 65536, 4096, NEW), -EBADF);
	store_destroy(ro);
	check_ours(e, 0, 65536, OLD);
	/* Whole and in part. */
	posix_fadvise(e->other, 0, 4096, POSIX_FADV_DONTNEED);
	fd = open(e->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(store_file_create(e->ioq, fd, &ro), 0);
	posix_fadvise(fd, 0, 2 * MIB, POSIX_FADV_DONTNEED);
	cache_some(e, 65536, 65536);
	assert_int_equal(put_content(ro, 0, MIB, 4096, NEW), -EBADF);
	store_destroy(ro);
	check_ours(e, 0, 65536, OLD);
}

static void errors(void **state)
{
	(void)state;
	for_each_direct(error_in);
}

/* ---- all at once ----------------------------------------------------- */

/* Comes and goes in pieces of all sizes. */
static void *other_reads(void *arg)
{
	struct crew *c = arg;
	char *buf = malloc(MIB);
	unsigned r = 12345;

	while (!atomic_load(c->stop)) {
		uint64_t at, len;

		r = r * 1103515245 + 12345;
		at = (r >> 8) % (CREW * CREW_BYTES);
		len = 1 + (r >> 4) % MIB;
		if (r & 0x10000)
			posix_fadvise(c->e->other, (off_t)at, (off_t)len,
				      POSIX_FADV_DONTNEED);
		else if (pread(c->e->other, buf, len, (off_t)at) < 0)
			c->err = -errno;
	}
	free(buf);
	return NULL;
}

static void all_at_once_in(struct env *e)
{
	struct crew crew[CREW + 2] = { 0 };
	void *(*mains[])(void *) = { crew_tails, other_reads };
	pthread_t thread[CREW + 2];
	_Atomic bool stop = false;

	for (unsigned i = 0; i < CREW + 2; i++) {
		crew[i] = (struct crew){ .e = e,
					 .who = i,
					 .first = NEW,
					 .stop = &stop,
					 .rounds = (unsigned)test_scale(100) };
		assert_int_equal(pthread_create(&thread[i], NULL,
						i < CREW ? crew_writes :
							   mains[i - CREW],
						&crew[i]),
				 0);
	}
	for (unsigned i = 0; i < CREW + 2; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(crew[i].err, 0);
		if (i == CREW - 1)
			atomic_store(&stop, true);
	}
	assert_true(fcntl(e->fd, F_GETFL) & O_DIRECT);
	/* What we read, what others read, and what is on the disk. */
	for (unsigned pass = 0; pass < 2; pass++) {
		char *buf = malloc(65536);

		for (uint64_t at = 0; at < CREW * CREW_BYTES; at += 65536) {
			unsigned gen = crew[at / CREW_BYTES]
					       .gen[at % CREW_BYTES / 65536];

			gen = gen ? gen : OLD;
			check_ours(e, at, 65536, gen);
			assert_int_equal(pread(e->other, buf, 65536, (off_t)at),
					 65536);
			assert_true(content_is(buf, 65536, at, gen));
		}
		free(buf);
		assert_int_equal(e->store->ops->flush(e->store, true), 0);
		assert_int_equal(e->store->ops->settle(e->store), 0);
		posix_fadvise(e->other, 0, 0, POSIX_FADV_DONTNEED);
		assert_int_equal(kcache_resident(&e->kc, 0, FILE_BYTES + MIB),
				 0);
	}
}

static void all_at_once(void **state)
{
	(void)state;
	for_each_direct(all_at_once_in);
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splitting),
		cmocka_unit_test(all_cached),
		cmocka_unit_test(some_cached),
		cmocka_unit_test(tails),
		cmocka_unit_test(without_cachestat),
		cmocka_unit_test(appends),
		cmocka_unit_test(errors),
		cmocka_unit_test(all_at_once),
	};
	unsigned nr = 0;
	const char *dir;

	(void)argc;
	(void)argv;
	env_dirs[nr++] = scratch_dir();
	if ((dir = scratch_mount("xfs", 320, 0)))
		env_dirs[nr++] = dir;
	if ((dir = scratch_mount_with("xfs", "-b size=16k", 320, 0)))
		env_dirs[nr++] = dir;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

/* SPDX-License-Identifier: MIT */
/*
 * The ioq and the file store: every test runs on each method of issuing and in
 * each directory: $DBH_TEST_DIR or /tmp, and /dev/shm, which is a pretence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "block/ioq.h"
#include "block/ranges.h"
#include "block_env.h"
#include "block_refuse.h"
#include "scale.h"
#include "support/scratch.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned nr = 0;

	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

static void check_content(struct env *e, uint64_t pos, uint32_t len,
			  uint64_t holds, unsigned gen)
{
	struct io *io = io_new(e->store, BIO_READ, pos, len, 4096);

	assert_int_equal(io_run(io), 0);
	assert_true(io_holds(io, holds, gen));
	io_free(io);
}

/* ---- pieces ---------------------------------------------------------- */

static uint64_t fake_size;

static int fake_stat(struct store *store, struct stat *st)
{
	(void)store;
	*st = (struct stat){ .st_size = (off_t)fake_size };
	return 0;
}

static struct io *fake_io(struct store *store, enum bio_op op, uint64_t size)
{
	static const struct store_ops ops = { .stat = fake_stat };
	struct io *io;

	*store = (struct store){ .ops = &ops, .offset_align = 512 };
	fake_size = size;
	io = io_new(store, op, 0, 16384, 4096);
	io->bio.flags = BIO_F_DIRECT;
	return io;
}

static void vectors_left(void **state)
{
	struct store store;
	struct io *io = fake_io(&store, BIO_WRITE, 0);
	struct iovec iov[4];

	(void)state;
	assert_int_equal(bio_vecs_left(&io->bio, 0, iov, 4), 4);
	assert_memory_equal(iov, io->vecs, sizeof(iov));
	assert_int_equal(bio_vecs_left(&io->bio, 5000, iov, 4), 3);
	assert_ptr_equal(iov[0].iov_base, (char *)io->vecs[1].iov_base + 904);
	assert_int_equal(iov[0].iov_len, 4096 - 904);
	assert_memory_equal(&iov[1], &io->vecs[2], 2 * sizeof(iov[0]));
	assert_int_equal(bio_vecs_left(&io->bio, 8192, iov, 1), 1);
	assert_memory_equal(&iov[0], &io->vecs[2], sizeof(iov[0]));
	assert_int_equal(bio_vecs_left(&io->bio, 16384, iov, 4), 0);
	io_free(io);
}

static void short_transfers(void **state)
{
	struct store store;
	struct io *io = fake_io(&store, BIO_WRITE, 0);

	(void)state;
	/* A direct transfer goes on where it is aligned. */
	assert_false(bio_transferred(&io->bio, 5000));
	assert_int_equal(io->bio.done, 4608);
	assert_true(bio_transferred(&io->bio, 16384 - 4608));
	assert_int_equal(io->bio.status, 0);
	/* Buffered, every byte counts. */
	bio_reset(&io->bio);
	io->bio.flags = 0;
	assert_false(bio_transferred(&io->bio, 5000));
	assert_int_equal(io->bio.done, 5000);
	/* Without progress it ends some time. */
	for (unsigned i = 0; i < BIO_TRIES; i++)
		assert_false(bio_transferred(&io->bio, 0));
	assert_true(bio_transferred(&io->bio, 0));
	assert_int_equal(io->bio.status, -EIO);
	bio_reset(&io->bio);
	for (unsigned i = 0; i < BIO_TRIES; i++)
		assert_false(
			bio_transferred(&io->bio, i & 1 ? -EINTR : -EAGAIN));
	assert_true(bio_transferred(&io->bio, -EAGAIN));
	assert_int_equal(io->bio.status, -EAGAIN);
	bio_reset(&io->bio);
	assert_true(bio_transferred(&io->bio, -ENOSPC));
	assert_int_equal(io->bio.status, -ENOSPC);
	io_free(io);
}

static void short_reads(void **state)
{
	struct store store;
	struct io *io = fake_io(&store, BIO_READ, 6000);

	(void)state;
	/* Short, but not at the end: goes on. */
	assert_false(bio_transferred(&io->bio, 4096));
	/* At the end: zeros. */
	io_fill(io, 1);
	assert_true(bio_transferred(&io->bio, 6000 - 4096));
	assert_int_equal(io->bio.status, 0);
	assert_true(io_holds(io, 6000, 1));
	bio_reset(&io->bio);
	fake_size = 0;
	assert_true(bio_transferred(&io->bio, 0));
	assert_true(io_holds(io, 0, 1));
	io_free(io);
}

static void range_set(void **state)
{
	struct ranges set = { 0 };

	(void)state;
	ranges_add(&set, 100, 200);
	ranges_add(&set, 300, 400);
	ranges_add(&set, 0, 50);
	assert_int_equal(set.nr, 3);
	ranges_add(&set, 50, 100);
	assert_int_equal(set.nr, 2);
	assert_int_equal(set.r[0].start, 0);
	assert_int_equal(set.r[0].end, 200);
	ranges_add(&set, 150, 350);
	assert_int_equal(set.nr, 1);
	assert_int_equal(set.r[0].end, 400);
	for (uint64_t i = 1; i <= RANGES_MAX; i++)
		ranges_add(&set, i * 1000 + (i == 5 ? 900 : 0),
			   i * 1000 + (i == 5 ? 950 : 500));
	/* The full set joined the two nearest: 5900..5950 and 6000..6500. */
	assert_int_equal(set.nr, RANGES_MAX);
	for (unsigned i = 0; i < set.nr; i++)
		if (set.r[i].start <= 5900 && set.r[i].end >= 5950)
			assert_int_equal(set.r[i].end - set.r[i].start, 600);
}

static void range_removal(void **state)
{
	struct ranges set = { 0 };

	(void)state;
	ranges_add(&set, 100, 200);
	ranges_add(&set, 300, 400);
	ranges_remove(&set, 200, 300);
	ranges_remove(&set, 150, 150);
	ranges_remove(&set, 160, 140);
	assert_true(ranges_meet(&set, 199, 300));
	assert_false(ranges_meet(&set, 200, 300));
	/* Both ends, and the middle. */
	ranges_remove(&set, 180, 320);
	ranges_remove(&set, 120, 140);
	assert_int_equal(set.nr, 3);
	assert_false(ranges_meet(&set, 120, 140));
	assert_true(ranges_meet(&set, 119, 120));
	assert_true(ranges_meet(&set, 140, 180));
	assert_false(ranges_meet(&set, 180, 320));
	assert_true(ranges_meet(&set, 320, 400));
	ranges_remove(&set, 0, 1000);
	assert_int_equal(set.nr, 0);
	/* No room to make two of one: it stays. */
	for (uint64_t i = 0; i < RANGES_MAX; i++)
		ranges_add(&set, i * 1000, i * 1000 + 500);
	ranges_remove(&set, 100, 200);
	assert_true(ranges_meet(&set, 100, 200));
	assert_int_equal(set.nr, RANGES_MAX);
}

/* ---- the ioq --------------------------------------------------------- */

static void many(struct env *e)
{
	enum { NR = 64 };
	struct io *io[NR];

	for (unsigned i = 0; i < NR; i++) {
		/* One vector, some, and as many as there may be. */
		io[i] = io_new(e->store, BIO_WRITE, (uint64_t)i * MIB / 4,
			       MIB / 4, i % 3 ? 4096 : MIB / 4);
		io_fill(io[i], i);
		bio_submit(&io[i]->bio);
	}
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(io_wait(io[i]), 0);
		assert_false(pthread_equal(io[i]->ended_in, pthread_self()));
		memset(io[i]->mem, 0, MIB / 4);
		io[i]->bio.op = BIO_READ;
		bio_submit(&io[i]->bio);
	}
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(io_wait(io[i]), 0);
		assert_true(io_holds(io[i], MIB / 4, i));
		io_free(io[i]);
	}
	assert_int_equal(put_content(e->store, 0, MIB, 4096, 7), 0);
	check_content(e, 0, MIB, MIB, 7);
}

static void many_in_flight(void **state)
{
	(void)state;
	for_each_env(NULL, many);
}

struct chain {
	struct io *io;
	unsigned left;
};

static void chain_end(struct bio *bio)
{
	struct chain *c = bio->private;

	if (!bio->status && --c->left) {
		bio->pos += bio->len;
		bio_submit(bio);
		return;
	}
	bio->private = c->io;
	io_end(bio);
}

static void resubmit(struct env *e)
{
	struct io *io = io_new(e->store, BIO_WRITE, 0, 65536, 4096);
	struct chain c = { .io = io, .left = 50 };
	struct stat st;

	io->bio.end_io = chain_end;
	io->bio.private = &c;
	assert_int_equal(io_run(io), 0);
	assert_int_equal(e->store->ops->stat(e->store, &st), 0);
	assert_int_equal(st.st_size, 50 * 65536);
	io_free(io);
}

/* end_io may submit the bio again. */
static void submit_from_end(void **state)
{
	(void)state;
	for_each_env(NULL, resubmit);
}

static void *submit_and_exit(void *arg)
{
	struct io **io = arg;

	for (unsigned i = 0; i < 8; i++)
		bio_submit(&io[i]->bio);
	return NULL;
}

static void exiting(struct env *e)
{
	enum { NR = 64 };
	struct io *io[NR];
	pthread_t thread[NR / 8];

	for (unsigned i = 0; i < NR; i++) {
		io[i] = io_new(e->store, BIO_WRITE, i * 65536u, 65536, 4096);
		io_fill(io[i], i);
	}
	for (unsigned i = 0; i < NR / 8; i++)
		assert_int_equal(pthread_create(&thread[i], NULL,
						submit_and_exit, &io[i * 8]),
				 0);
	for (unsigned i = 0; i < NR / 8; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(io_wait(io[i]), 0);
		io_free(io[i]);
		check_content(e, i * 65536u, 65536, 65536, i);
	}
}

/* The kernel cancels what an exiting thread has submitted; we do not. */
static void submitter_exits(void **state)
{
	(void)state;
	for_each_env(NULL, exiting);
}

static void descriptors(void **state)
{
	unsigned before = count_fds();

	(void)state;
	for (int m = IOQ_AUTO; m <= IOQ_THREADS; m++) {
		struct ioq *ioq;

		assert_int_equal(ioq_create((enum ioq_method)m, 4, &ioq), 0);
		ioq_destroy(ioq);
		assert_int_equal(count_fds(), before);
	}
	ioq_destroy(NULL);
	store_destroy(NULL);
	for_each_env(NULL, many);
	assert_int_equal(count_fds(), before);
}

static void unlocked(struct env *e)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd;

	assert_int_equal(fcntl(e->fd, F_OFD_SETLK, &whole), 0);
	assert_int_equal(put_content(e->store, 0, MIB, 4096, 1), 0);
	store_destroy(e->store);
	e->store = NULL;
	fd = open(e->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
	close(fd);
}

/* K10: whoever comes next finds the file's lock free. */
static void lock_is_free(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		for_each_env(NULL, unlocked);
}

/* Signals of the host are not delivered to our threads. */
static void signals_blocked(void **state)
{
	unsigned seen = 0;
	struct dirent *d;
	struct ioq *ioq;
	char path[300], line[200];
	DIR *dir;

	(void)state;
	assert_int_equal(ioq_create(IOQ_THREADS, 4, &ioq), 0);
	dir = opendir("/proc/self/task");
	while ((d = readdir(dir))) {
		unsigned long long mask = 0;
		bool ours = false;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status",
			 d->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f)) {
			ours |= !strncmp(line, "Name:\tdbh-", 10);
			if (sscanf(line, "SigBlk: %llx", &mask) == 1 && ours) {
				assert_true(mask & (1ull << (SIGUSR1 - 1)));
				assert_true(mask & (1ull << (SIGTERM - 1)));
				seen++;
			}
		}
		if (f)
			fclose(f);
	}
	closedir(dir);
	assert_int_equal(seen, 4);
	ioq_destroy(ioq);
}

/* ---- io_uring refused ------------------------------------------------ */

/* In a child. Return: 0 if all went as it should. */
static int refused_child(long nr, int err)
{
	struct store *store;
	struct env e = { 0 };
	unsigned before = count_fds();

	if (!refuse_call(nr, err))
		return 77;
	if (ioq_create(IOQ_URING, 4, &e.ioq) != -err)
		return 1;
	if (ioq_create(IOQ_AUTO, 4, &e.ioq) || ioq_method(e.ioq) != IOQ_THREADS)
		return 2;
	if (store_file_create(e.ioq, env_open(&e, env_dirs[0], O_RDWR),
			      &store))
		return 3;
	if (put_content(store, 0, MIB, 4096, 1))
		return 4;
	store_destroy(store);
	ioq_destroy(e.ioq);
	unlink(e.path);
	return count_fds() == before ? 0 : 5;
}

/* U1: by a filter; at set-up, or only at the first call of the ring. */
static void uring_refused(void **state)
{
	static const struct {
		long nr;
		int err;
	} ways[] = {
		{ SYS_io_uring_setup, EPERM },	{ SYS_io_uring_setup, ENOSYS },
		{ SYS_io_uring_setup, ENOMEM }, { SYS_io_uring_setup, EACCES },
		{ SYS_io_uring_enter, EPERM },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(refused_child(ways[i].nr, ways[i].err));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77)
			skip();
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

/* ---- the file store -------------------------------------------------- */

static void past_end(struct env *e)
{
	char tail[5000];

	content_fill(tail, sizeof(tail), 0, 3);
	assert_int_equal(e->store->ops->write_tail(e->store, tail, 5000, 0), 0);
	check_content(e, 0, 65536, 5000, 3);
	check_content(e, MIB, 8192, 0, 0);
	assert_int_equal(e->store->ops->truncate(e->store, 0), 0);
	check_content(e, 0, 65536, 0, 0);
}

/* In a child. */
static int no_cachestat_child(void)
{
	char buf[65536] = { 1 };
	struct env e = { 0 };
	int fd = env_open(&e, env_dirs[0], O_RDWR);
	struct kcache kc = { .fd = fd };
	struct kcache_fs fs;

	if (kcache_ask_fs(fd, &fs) || fs.in_memory)
		return 77;
	kc.stacked = fs.stacked;
	if (!refuse_call(SYS_cachestat, ENOSYS))
		return 77;
	if (pwrite(fd, buf, sizeof(buf), 65536) != sizeof(buf) ||
	    kcache_resident(&kc, 0, 1 << 20) != 16 ||
	    kcache_resident(&kc, 70000, 10) != 1)
		return 1;
	kcache_write_out(&kc, 0, 1 << 20);
	kcache_drop(&kc, 0, 1 << 20);
	if (kcache_resident(&kc, 0, 1 << 20))
		return 2;
	unlink(e.path);
	return 0;
}

/* Kernels before 6.5: mincore() says the same. */
static void no_cachestat(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid)
		_exit(no_cachestat_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void read_past_end(void **state)
{
	(void)state;
	for_each_env(NULL, past_end);
}

static void geometry(struct env *e)
{
	struct store *s = e->store;
	struct stat st;

	assert_int_equal(s->ops->stat(s, &st), 0);
	assert_int_equal(s->dev, st.st_dev);
	assert_int_equal(s->ino, st.st_ino);
	assert_true(s->writable);
	assert_in_range(s->min_folio_bytes, 4096, 65536);
	assert_int_equal(s->min_folio_bytes % s->offset_align, 0);
	assert_int_equal(s->min_folio_bytes % s->mem_align, 0);
	assert_true(s->offset_align >= 512 && s->mem_align >= 512);
	/* D6: the size is what it is told, in every direction. */
	for (unsigned size = 0; size < 9000; size += 4097 / 3) {
		assert_int_equal(s->ops->truncate(s, size), 0);
		assert_int_equal(s->ops->stat(s, &st), 0);
		assert_int_equal(st.st_size, size);
	}
	assert_int_equal(s->ops->truncate(s, 1), 0);
	assert_int_equal(s->ops->flush(s, true), 0);
	assert_int_equal(s->ops->flush(s, false), 0);
	assert_int_equal(s->ops->settle(s), 0);
	if (!e->in_memory)
		assert_int_equal(kcache_resident(&e->kc, 0, 65536), 0);
}

static void store_geometry(void **state)
{
	(void)state;
	for_each_env(NULL, geometry);
}

static void proof(struct env *e)
{
	struct store *s = e->store;
	bool refused;

	if (e->in_memory) {
		assert_int_equal(put_content(s, 0, 8192, 4096, 1), 0);
		assert_int_equal(s->direct, STORE_PRETENCE);
		return;
	}
	/* Some file systems say at once that they have no direct I/O. */
	refused = s->direct == STORE_REFUSED;
	assert_true(refused || s->direct == STORE_UNPROVEN);
	check_content(e, 0, 4096, 0, 0);
	assert_true(refused || s->direct == STORE_UNPROVEN);
	assert_int_equal(put_content(s, 0, MIB, 4096, 1), 0);
	assert_true(refused || s->direct == STORE_PROVEN ||
		    s->direct == STORE_PRETENCE);
	assert_int_equal(put_content(s, MIB, MIB, 4096, 1), 0);
	assert_int_equal(s->ops->settle(s), 0);
	assert_int_equal(kcache_resident(&e->kc, 0, 4 * MIB), 0);
}

/* D26 and its like: pages that stay betray a pretence. */
static void direct_proof(void **state)
{
	(void)state;
	for_each_env(NULL, proof);
}

static void tail_beside(struct env *e)
{
	enum { NR = 48 };
	const uint64_t end = (uint64_t)NR * MIB / 4;
	struct store *s = e->store;
	bool direct = fcntl(e->fd, F_GETFL) & O_DIRECT;
	struct io *io[NR];
	char tail[3000];
	struct stat st;

	for (unsigned i = 0; i < NR; i++) {
		io[i] = io_new(s, BIO_WRITE, (uint64_t)i * MIB / 4, MIB / 4,
			       4096);
		io_fill(io[i], i);
	}
	for (unsigned i = 0; i < NR; i++) {
		bio_submit(&io[i]->bio);
		if (i % 8 == 7) {
			unsigned n = 500 + i * 50;

			content_fill(tail, n, end, 99);
			assert_int_equal(s->ops->write_tail(s, tail, n, end),
					 0);
			assert_int_equal(s->ops->stat(s, &st), 0);
			assert_int_equal(st.st_size, end + n);
		}
	}
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(io_wait(io[i]), 0);
	assert_int_equal(fcntl(e->fd, F_GETFL) & O_DIRECT ? 1 : 0, direct);
	if (!e->in_memory) {
		/* The one folio that holds the end. */
		assert_int_equal(kcache_resident(&e->kc, end, MIB),
				 s->min_folio_bytes / 4096);
		assert_int_equal(s->ops->settle(s), 0);
		assert_int_equal(kcache_resident(&e->kc, 0, end + MIB), 0);
	}
	check_content(e, end, 4096, 500 + 47 * 50, 99);
	for (unsigned i = 0; i < NR; i++) {
		check_content(e, (uint64_t)i * MIB / 4, MIB / 4, MIB / 4, i);
		io_free(io[i]);
	}
}

/* R16: the end block is exact, whatever is in flight, and its page stays. */
static void tail_while_in_flight(void **state)
{
	(void)state;
	for_each_env(NULL, tail_beside);
}

/* ---- all at once ----------------------------------------------------- */

static void all_at_once_in(struct env *e)
{
	struct crew crew[CREW + 1] = { 0 };
	pthread_t thread[CREW + 1];
	uint64_t end = (uint64_t)CREW * CREW_BYTES;

	assert_int_equal(e->store->ops->truncate(e->store, end), 0);
	for (unsigned i = 0; i <= CREW; i++) {
		crew[i] = (struct crew){ .e = e,
					 .who = i,
					 .first = 1,
					 .rounds = (unsigned)test_scale(30) };
		assert_int_equal(pthread_create(&thread[i], NULL,
						i < CREW ? crew_writes :
							   crew_tails,
						&crew[i]),
				 0);
	}
	for (unsigned i = 0; i <= CREW; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(crew[i].err, 0);
	}
	for (unsigned i = 0; i < CREW; i++)
		for (unsigned at = 0; at < CREW_BYTES / 65536; at++)
			if (crew[i].gen[at])
				check_content(e, i * CREW_BYTES + at * 65536,
					      65536, 65536, crew[i].gen[at]);
	assert_int_equal(e->store->ops->settle(e->store), 0);
	if (!e->in_memory)
		assert_int_equal(kcache_resident(&e->kc, 0, end + MIB), 0);
}

static void all_at_once(void **state)
{
	(void)state;
	for_each_env(NULL, all_at_once_in);
}

/* With room for one request all others are held back. */
static void depth_of_one(void **state)
{
	(void)state;
	for (int m = IOQ_URING; m <= IOQ_THREADS; m++) {
		struct env e;

		env_up(&e, (enum ioq_method)m, 1, env_dirs[0], NULL);
		many(&e);
		all_at_once_in(&e);
		env_down(&e);
	}
}

/* ---- what is not ours ------------------------------------------------ */

static void others_pages(struct env *e)
{
	char buf[65536], tail[100];
	int fd;

	if (e->in_memory)
		return;
	assert_int_equal(put_content(e->store, 0, MIB, 4096, 1), 0);
	fd = open(e->path, O_RDONLY | O_CLOEXEC);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	assert_int_equal(pread(fd, buf, sizeof(buf), 0), sizeof(buf));
	close(fd);
	content_fill(tail, sizeof(tail), MIB, 1);
	assert_int_equal(e->store->ops->write_tail(e->store, tail, 100, MIB),
			 0);
	assert_int_equal(e->store->ops->settle(e->store), 0);
	assert_int_equal(kcache_resident(&e->kc, MIB, 65536), 0);
	assert_int_equal(kcache_resident(&e->kc, 0, sizeof(buf)), 16);
}

/* R3 below us: what another program cached is not ours to drop. */
static void others_pages_stay(void **state)
{
	(void)state;
	for_each_env(NULL, others_pages);
}

/*
 * D25, open succeeds and the first transfer is EINVAL: provoked by alignments
 * that no direct I/O accepts.
 */
static void refused(struct env *e)
{
	uint32_t offset_align = e->store->offset_align;
	struct io *io[32];

	if (e->in_memory)
		return;
	e->store->offset_align = e->store->mem_align = 1;
	io[0] = io_new(e->store, BIO_WRITE, 100, 1000, 100);
	io_fill(io[0], 1);
	assert_int_equal(io_run(io[0]), 0);
	io_free(io[0]);
	e->store->offset_align = offset_align;
	if (e->store->direct != STORE_REFUSED)
		return; /* it writes through the cache by itself */
	assert_false(fcntl(e->fd, F_GETFL) & O_DIRECT);
	for (unsigned i = 0; i < 32; i++) {
		io[i] = io_new(e->store, BIO_WRITE, (uint64_t)i * 65536, 65536,
			       4096);
		io_fill(io[i], i);
		bio_submit(&io[i]->bio);
	}
	for (unsigned i = 0; i < 32; i++) {
		assert_int_equal(io_wait(io[i]), 0);
		io_free(io[i]);
	}
	assert_int_equal(e->store->ops->settle(e->store), 0);
	assert_int_equal(kcache_resident(&e->kc, 0, 4 * MIB), 0);
	for (unsigned i = 0; i < 32; i++)
		check_content(e, i * 65536u, 65536, 65536, i);
	/* Read through the cache, and dropped behind. */
	assert_int_equal(kcache_resident(&e->kc, 0, 4 * MIB), 0);
}

static void direct_refused(void **state)
{
	(void)state;
	for_each_env(NULL, refused);
}

static void bad_writes(struct env *e)
{
	struct store *ro;
	int fd;

	/* D22 and K7's relatives: the error is the kernel's own. */
	fd = open(e->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(store_file_create(e->ioq, fd, &ro), 0);
	assert_false(ro->writable);
	assert_int_equal(put_content(ro, 0, 4096, 4096, 1), -EBADF);
	assert_int_equal(ro->ops->write_tail(ro, "x", 1, 0), -EBADF);
	assert_int_not_equal(ro->ops->truncate(ro, 10), 0);
	assert_int_equal(
		store_file_make_writable(ro, open(e->path, O_RDWR | O_CLOEXEC)),
		0);
	assert_true(ro->writable);
	assert_int_equal(put_content(ro, 0, 4096, 4096, 5), 0);
	assert_int_equal(ro->ops->write_tail(ro, "x", 1, 4096), 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	store_destroy(ro);
	check_content(e, 0, 4096, 4096, 5);
}

static void read_only(void **state)
{
	int fd = open("/", O_RDONLY | O_CLOEXEC);
	struct store *store;

	(void)state;
	for_each_env(NULL, bad_writes);
	assert_int_equal(store_file_create(NULL, fd, &store), -EISDIR);
	close(fd);
}

/* In a child with mounts of its own. */
static int full_child(enum ioq_method method)
{
	char dir[] = "/tmp/dbh-full-XXXXXX";
	unsigned failed = 0;
	struct env e = { .other = -1 };
	bool mounted;

	if (!mkdtemp(dir))
		return 77;
	mounted = !unshare(CLONE_NEWNS) &&
		  !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		  !mount("none", dir, "tmpfs", 0, "size=1536k");
	if (!mounted) {
		rmdir(dir);
		return 77;
	}
	if (ioq_create(method, 4, &e.ioq) ||
	    store_file_create(e.ioq, env_open(&e, dir, O_RDWR), &e.store))
		return 1;
	for (unsigned i = 0; i < 3; i++) {
		int err = put_content(e.store, (uint64_t)i * MIB, MIB, 4096, 1);

		if (err && err != -ENOSPC)
			return 2;
		failed += err == -ENOSPC;
	}
	env_down(&e);
	umount(dir);
	rmdir(dir);
	return failed == 2 ? 0 : 3;
}

/* K3: the second bio is short and then fails; it does not end well. */
static void no_space(void **state)
{
	(void)state;
	for (int m = IOQ_URING; m <= IOQ_THREADS; m++) {
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(full_child((enum ioq_method)m));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77) {
			print_message("no mounts without root\n");
			skip();
		}
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_left),
		cmocka_unit_test(short_transfers),
		cmocka_unit_test(short_reads),
		cmocka_unit_test(range_set),
		cmocka_unit_test(range_removal),
		cmocka_unit_test(uring_refused),
		cmocka_unit_test(no_cachestat),
		cmocka_unit_test(no_space),
		cmocka_unit_test(many_in_flight),
		cmocka_unit_test(submit_from_end),
		cmocka_unit_test(submitter_exits),
		cmocka_unit_test(descriptors),
		cmocka_unit_test(lock_is_free),
		cmocka_unit_test(signals_blocked),
		cmocka_unit_test(read_past_end),
		cmocka_unit_test(store_geometry),
		cmocka_unit_test(direct_proof),
		cmocka_unit_test(tail_while_in_flight),
		cmocka_unit_test(all_at_once),
		cmocka_unit_test(depth_of_one),
		cmocka_unit_test(others_pages_stay),
		cmocka_unit_test(direct_refused),
		cmocka_unit_test(read_only),
	};

	(void)argc;
	(void)argv;
	env_dirs[0] = scratch_dir();
	env_dirs[1] = scratch_shm();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

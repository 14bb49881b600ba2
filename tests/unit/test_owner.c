// SPDX-License-Identifier: MIT
/*
 * R22 on real files: what other programs see, and what we see of them. On each
 * file system that can be had, by both I/O methods.
 *
 * To the kernel it makes no difference whether another program opens the file or
 * this one does, by itself; so most tests do that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "block/block.h"
#include "scale.h"
#include "support/rig.h"
#include "support/scratch.h"

#define MAX_DIRS 8u

static const char *dirs[MAX_DIRS + 1];
static uint64_t seed;

static struct dbh_engine *new_engine(unsigned method)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 16u << 20,
				    .io_method = method };
	struct dbh_engine *e;

	CHECK_OK(dbh_engine_create(&opts, &e));
	return e;
}

static void for_each_place(void (*test)(struct dbh_engine *e, const char *path))
{
	guard(240);
	for (unsigned i = 0; dirs[i]; i++) {
		for (unsigned m = DBH_IO_URING; m <= DBH_IO_THREADS; m++) {
			struct dbh_engine *e = new_engine(m);
			char path[600];

			snprintf(path, sizeof(path), "%s",
				 scratch_path(dirs[i]));
			test(e, path);
			CHECK_OK(dbh_engine_destroy(e));
			unlink(path);
		}
	}
}

static struct dbh_file *open_file(struct dbh_engine *e, const char *path,
				  int flags)
{
	struct dbh_file *f;

	CHECK_OK(dbh_open(e, path, flags, 0600, &f));
	return f;
}

static void write_at(struct dbh_file *f, size_t len, uint64_t pos, unsigned gen,
		     unsigned flags)
{
	struct rig rig = { .file = f };

	rig_write(&rig, len, pos, gen, flags);
}

static void read_at(struct dbh_file *f, size_t len, uint64_t pos, unsigned gen)
{
	struct rig rig = { .file = f };

	rig_read(&rig, len, pos, gen, 0);
}

static unsigned lease_of(struct dbh_file *f)
{
	struct dbh_file_info info = { .struct_size = sizeof(info) };

	CHECK_OK(dbh_file_info(f, &info));
	return info.lease;
}

/* The guard ends it. */
static void wait_lease(struct dbh_file *f, unsigned want)
{
	while (lease_of(f) != want)
		usleep(1000);
}

static uint64_t cached(struct dbh_file *f)
{
	struct rig rig = { .file = f };

	return rig_residency(&rig).cached;
}

static struct dbh_stats stats_of(struct dbh_engine *e)
{
	struct dbh_stats s = { .struct_size = sizeof(s) };

	CHECK_OK(dbh_stats(e, &s));
	return s;
}

static uint64_t size_of(struct dbh_file *f)
{
	struct stat st;

	CHECK_OK(dbh_fstat(f, &st));
	return (uint64_t)st.st_size;
}

/* All of it through @fd, and no more. */
static void check_fd(int fd, size_t len, unsigned gen)
{
	char *buf = malloc(len + 1);

	CHECK(fd >= 0 && buf, "open: %s", strerror(errno));
	CHECK_IS(pread(fd, buf, len + 1, 0), len);
	pattern_check(buf, len, 0, gen);
	free(buf);
}

#define CONTENT 105001u

/* Something of each kind: whole, edges, cached, and the end. */
static void make_content(struct dbh_file *f)
{
	for (unsigned i = 0; i < 20; i++)
		write_at(f, 5000, i * 5000, 1, DBH_DONTCACHE);
	write_at(f, CONTENT - 100000, 100000, 1, 0);
}

/* ---- breaks ---------------------------------------------------------- */

/* Another program, which is not ours. */
static void cat(struct dbh_engine *e, const char *path)
{
	struct dbh_file *f = open_file(e, path, O_RDWR | O_CREAT);
	uint64_t breaks = stats_of(e).lease_breaks;
	char command[700], *buf = malloc(CONTENT + 1);
	FILE *p;

	CHECK_IS(lease_of(f), DBH_LEASE_OWNED);
	make_content(f);
	snprintf(command, sizeof(command), "exec cat %s", path);
	p = popen(command, "re");
	CHECK(p && buf, "popen");
	CHECK_IS(fread(buf, 1, CONTENT + 1, p), CONTENT);
	pattern_check(buf, CONTENT, 0, 1);
	CHECK_IS(pclose(p), 0);
	CHECK_IS(stats_of(e).lease_breaks, breaks + 1);
	wait_lease(f, DBH_LEASE_OWNED);
	write_at(f, 10, 0, 2, 0);
	CHECK(cached(f), "nothing is cached");
	CHECK_OK(dbh_close(f));
	free(buf);
}

static void test_cat(void **state)
{
	(void)state;
	for_each_place(cat);
}

/* An open that does not wait is told so, and starts the break. */
static void nonblock(struct dbh_engine *e, const char *path)
{
	struct dbh_file *f = open_file(e, path, O_RDWR | O_CREAT);
	int fd;

	make_content(f);
	CHECK_IS(open(path, O_RDONLY | O_NONBLOCK), -1);
	CHECK_IS(errno, EWOULDBLOCK);
	while ((fd = open(path, O_RDONLY | O_NONBLOCK)) < 0) {
		CHECK_IS(errno, EWOULDBLOCK);
		usleep(1000);
	}
	check_fd(fd, CONTENT, 1);
	close(fd);
	CHECK_OK(dbh_close(f));
}

static void test_nonblock(void **state)
{
	(void)state;
	for_each_place(nonblock);
}

/* ---- both sides ------------------------------------------------------ */

#define SPAN 300000u

/**
 * struct sides - a file that we write, and somebody else does
 * @fd: theirs, or -1 while they have closed it
 */
struct sides {
	struct rng rng;
	struct dbh_engine *e;
	struct dbh_file *f, *append;
	const char *path;
	int fd;
	char model[SPAN + 70000];
	uint64_t size;
	char buf[70000];
};

static void model_put(struct sides *s, uint64_t pos, size_t len)
{
	if (pos > s->size)
		memset(s->model + s->size, 0, pos - s->size);
	memcpy(s->model + pos, s->buf, len);
	s->size = MAX(s->size, pos + len);
}

static void model_cut(struct sides *s, uint64_t size)
{
	if (size > s->size)
		memset(s->model + s->size, 0, size - s->size);
	s->size = size;
}

static size_t some_bytes(struct sides *s, uint64_t *pos)
{
	size_t len = rng_size(&s->rng, rng_chance(&s->rng, 20) ? 65536 : 9000);

	*pos = rng_below(&s->rng, MIN(s->size + 5000, (uint64_t)SPAN));
	rng_fill(&s->rng, s->buf, len);
	return len;
}

struct done {
	sem_t sem;
	ssize_t res;
};

static void is_done(void *arg, ssize_t res)
{
	struct done *d = arg;

	d->res = res;
	sem_post(&d->sem);
}

static void submit(struct sides *s, bool write, size_t len, uint64_t pos)
{
	struct iovec iov[2] = { { s->buf, len / 3 },
				{ s->buf + len / 3, len - len / 3 } };
	struct done d;

	sem_init(&d.sem, 0, 0);
	CHECK_OK((write ? dbh_submit_write : dbh_submit_read)(
		s->f, iov, 2, (off_t)pos, DBH_DONTCACHE, is_done, &d));
	sem_wait(&d.sem);
	CHECK_IS(d.res, write ? len : MIN(len, s->size > pos ? s->size - pos :
							       0));
	sem_destroy(&d.sem);
}

static void lend(struct sides *s, size_t len, uint64_t pos)
{
	struct iovec iov[4];
	struct dbh_write *wr;
	ssize_t n;
	int cnt = 4;
	size_t at = 0;

	n = dbh_write_begin(s->f, (off_t)pos, len, DBH_DONTCACHE, iov, &cnt,
			    &wr);
	CHECK(n > 0, "%zd", n);
	for (int i = 0; i < cnt; at += iov[i++].iov_len)
		memcpy(iov[i].iov_base, s->buf + at, iov[i].iov_len);
	CHECK_IS(dbh_write_end(wr, (size_t)n), n);
	model_put(s, pos, (size_t)n);
}

static void we_write(struct sides *s)
{
	static const unsigned flags[] = { 0, DBH_DONTCACHE, DBH_DSYNC,
					  DBH_DONTCACHE | DBH_SYNC };
	uint64_t pos;
	size_t len = some_bytes(s, &pos);

	switch (rng_below(&s->rng, 5)) {
	case 0:
		CHECK_IS(dbh_pwrite(s->append, s->buf, len, 0, 0), len);
		model_put(s, s->size, len);
		break;
	case 1:
		submit(s, true, len, pos);
		model_put(s, pos, len);
		break;
	case 2:
		lend(s, len, pos);
		break;
	default:
		CHECK_IS(dbh_pwrite(s->f, s->buf, len, (off_t)pos,
				    flags[rng_below(&s->rng, 4)]),
			 len);
		model_put(s, pos, len);
	}
}

static void we_read(struct sides *s)
{
	uint64_t pos;
	size_t len = some_bytes(s, &pos);
	size_t there = s->size > pos ? MIN(len, s->size - pos) : 0;

	if (rng_chance(&s->rng, 30))
		submit(s, false, len, pos);
	else
		CHECK_IS(dbh_pread(s->f, s->buf, len, (off_t)pos,
				   rng_chance(&s->rng, 50) ? DBH_DONTCACHE :
							     0),
			 there);
	CHECK(!memcmp(s->buf, s->model + pos, there), "%zu at %llu", there,
	      (unsigned long long)pos);
	CHECK_IS(size_of(s->f), s->size);
}

static void we_cut(struct sides *s)
{
	uint64_t size = rng_below(&s->rng, SPAN);

	CHECK_OK(dbh_ftruncate(s->f, (off_t)size));
	model_cut(s, size);
}

static void they_check(struct sides *s)
{
	char *all = malloc(SPAN + 70000);

	CHECK(all, "no memory");
	CHECK_IS(pread(s->fd, all, SPAN + 70000, 0), s->size);
	CHECK(!memcmp(all, s->model, s->size), "they see something else");
	free(all);
}

static void they_write(struct sides *s)
{
	uint64_t pos;
	size_t len = some_bytes(s, &pos);

	if (rng_chance(&s->rng, 30)) {
		uint64_t size = rng_below(&s->rng, SPAN);

		CHECK_OK(ftruncate(s->fd, (off_t)size));
		model_cut(s, size);
		return;
	}
	if (rng_chance(&s->rng, 30))
		pos = s->size;
	CHECK_IS(pwrite(s->fd, s->buf, len, (off_t)pos), len);
	model_put(s, pos, len);
}

static void they_come_or_go(struct sides *s)
{
	if (s->fd < 0) {
		s->fd = open(s->path, O_RDWR);
		CHECK(s->fd >= 0, "%s: %s", s->path, strerror(errno));
		they_check(s);
		return;
	}
	close(s->fd);
	s->fd = -1;
	if (rng_chance(&s->rng, 50))
		wait_lease(s->f, DBH_LEASE_OWNED);
}

static void step(struct sides *s)
{
	if (s->size > SPAN)
		we_cut(s);
	switch (rng_below(&s->rng, 12)) {
	case 0:
		they_come_or_go(s);
		break;
	case 1:
		we_cut(s);
		break;
	case 2:
		CHECK_OK(dbh_fsync(s->f));
		break;
	case 3 ... 5:
		we_read(s);
		break;
	case 6 ... 8:
		if (s->fd >= 0)
			they_write(s);
		break;
	default:
		we_write(s);
	}
	if (s->fd < 0)
		return;
	CHECK_IS(lease_of(s->f), DBH_LEASE_SHARED);
	CHECK_IS(cached(s->f), 0);
	if (rng_chance(&s->rng, 30))
		they_check(s);
}

static void both_sides(struct dbh_engine *e, const char *path)
{
	struct sides *s = calloc(1, sizeof(*s));

	CHECK(s, "no memory");
	s->rng = rng_fork(seed, 1);
	s->e = e;
	s->path = path;
	/* They were first. */
	s->fd = open(path, O_RDWR | O_CREAT, 0600);
	s->f = open_file(e, path, O_RDWR);
	s->append = open_file(e, path, O_WRONLY | O_APPEND);
	CHECK_IS(lease_of(s->f), DBH_LEASE_SHARED);
	CHECK_IS(stats_of(e).files_shared, 1);
	for (unsigned i = 0; i < test_scale(200); i++)
		step(s);
	if (s->fd < 0)
		they_come_or_go(s);
	they_check(s);
	close(s->fd);
	CHECK_OK(dbh_close(s->append));
	CHECK_OK(dbh_close(s->f));
	free(s);
}

static void test_both_sides(void **state)
{
	(void)state;
	for_each_place(both_sides);
}

/* ---- a storm --------------------------------------------------------- */

#define STORM_RECORD 6000u
#define STORM_THREADS 4u

struct storm {
	struct dbh_file *f;
	const char *path;
	unsigned records;
	_Atomic bool stop;
	unsigned opens;
};

struct storm_writer {
	struct storm *storm;
	unsigned id;
};

static void *storm_write(void *arg)
{
	struct storm_writer *w = arg;
	struct storm *s = w->storm;

	for (unsigned i = w->id; i < s->records; i += STORM_THREADS)
		write_at(s->f, STORM_RECORD, i * (uint64_t)STORM_RECORD, 1,
			 i % 5 ? DBH_DONTCACHE : 0);
	return NULL;
}

/* Each byte that it sees was written, or is not there yet. */
static void *storm_open(void *arg)
{
	struct storm *s = arg;
	static char buf[1 << 20];

	while (!atomic_load(&s->stop)) {
		int fd = open(s->path, O_RDONLY);
		uint64_t pos = 0;
		ssize_t n;

		CHECK(fd >= 0, "%s", strerror(errno));
		while ((n = pread(fd, buf, sizeof(buf), (off_t)pos)) > 0) {
			for (ssize_t i = 0; i < n; i++)
				CHECK(!buf[i] || buf[i] == pattern_byte(
							   pos + i, 1),
				      "byte %llu",
				      (unsigned long long)pos + i);
			pos += (uint64_t)n;
		}
		close(fd);
		s->opens++;
		usleep(15000);
	}
	return NULL;
}

static void storm(struct dbh_engine *e, const char *path)
{
	struct storm s = { .f = open_file(e, path, O_RDWR | O_CREAT),
			   .path = path,
			   .records = test_scale(1000) };
	struct storm_writer w[STORM_THREADS];
	pthread_t thread[STORM_THREADS], opener;
	int fd;

	pthread_create(&opener, NULL, storm_open, &s);
	for (unsigned i = 0; i < STORM_THREADS; i++) {
		w[i] = (struct storm_writer){ &s, i };
		pthread_create(&thread[i], NULL, storm_write, &w[i]);
	}
	for (unsigned i = 0; i < STORM_THREADS; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&s.stop, true);
	pthread_join(opener, NULL);
	fd = open(path, O_RDONLY);
	check_fd(fd, s.records * STORM_RECORD, 1);
	close(fd);
	CHECK_OK(dbh_close(s.f));
}

static void test_storm(void **state)
{
	(void)state;
	for_each_place(storm);
}

/* ---- closing --------------------------------------------------------- */

static void *open_and_check(void *arg)
{
	int fd = open(arg, O_RDONLY);

	check_fd(fd, CONTENT, 1);
	close(fd);
	return NULL;
}

/* The open comes at any moment of a close, and of the end of the engine. */
static void test_break_meets_close(void **state)
{
	(void)state;
	guard(120);
	for (unsigned i = 0; dirs[i]; i++) {
		for (unsigned n = 0; n < test_scale(20) + 1; n++) {
			struct dbh_engine *e = new_engine(n % 2 + 1);
			struct dbh_file *f;
			pthread_t opener;
			char path[600];

			snprintf(path, sizeof(path), "%s",
				 scratch_path(dirs[i]));
			f = open_file(e, path, O_RDWR | O_CREAT);
			make_content(f);
			pthread_create(&opener, NULL, open_and_check, path);
			usleep((useconds_t)rng_mix(seed + n) % 1000);
			CHECK_OK(dbh_close(f));
			CHECK_OK(dbh_engine_destroy(e));
			pthread_join(opener, NULL);
			CHECK_OK(unlink(path));
		}
	}
}

/* ---- descriptors ----------------------------------------------------- */

/* From read-only to read-write: the lease and the mark go along. */
static void test_upgrade(void **state)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_engine *other = new_engine(DBH_IO_AUTO);
	struct dbh_file *f, *g, *w;
	char path[600];
	int status;
	pid_t pid;

	(void)state;
	guard(60);
	snprintf(path, sizeof(path), "%s", scratch_path(scratch_dir()));
	f = open_file(e, path, O_RDWR | O_CREAT);
	make_content(f);
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK_OK(dbh_engine_destroy(other));
	if (geteuid()) {
		print_message("not root: cannot become another\n");
		skip();
	}
	/* Root opens everything for writing; its owner not what is 0400. */
	CHECK_OK(chmod(scratch_dir(), 0711));
	CHECK_OK(chown(path, 65534, 65534));
	CHECK_OK(chmod(path, 0400));
	pid = fork();
	if (!pid) {
		CHECK_OK(setgid(65534));
		CHECK_OK(setuid(65534));
		e = new_engine(DBH_IO_AUTO);
		other = new_engine(DBH_IO_AUTO);
		f = open_file(e, path, O_RDONLY);
		CHECK_IS(lease_of(f), DBH_LEASE_OWNED);
		read_at(f, CONTENT, 0, 1);
		/* Another program that reads is in nobody's way. */
		status = open(path, O_RDONLY);
		check_fd(status, CONTENT, 1);
		close(status);
		CHECK_IS(lease_of(f), DBH_LEASE_OWNED);
		CHECK(cached(f), "nothing is cached");
		/* L6: two that read, and none of them may write. */
		g = open_file(other, path, O_RDONLY);
		read_at(g, CONTENT, 0, 1);
		CHECK_OK(chmod(path, 0600));
		CHECK_IS(dbh_open(e, path, O_RDWR, 0, &w), -EBUSY);
		CHECK_IS(dbh_open(e, path, O_RDWR, 0, &w), -EBUSY);
		read_at(f, CONTENT, 0, 1);
		read_at(g, CONTENT, 0, 1);
		CHECK_OK(dbh_close(g));
		w = open_file(e, path, O_RDWR);
		CHECK_IS(dbh_open(other, path, O_RDONLY, 0, &g), -EBUSY);
		wait_lease(f, DBH_LEASE_OWNED);
		/* Now it is one that readers break. */
		write_at(w, 100, 50, 2, 0);
		write_at(w, 100, 50, 1, DBH_DONTCACHE);
		open_and_check(path);
		CHECK_OK(dbh_close(f));
		CHECK_OK(dbh_close(w));
		CHECK_OK(dbh_engine_destroy(e));
		CHECK_OK(dbh_engine_destroy(other));
		_exit(0);
	}
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
	CHECK_OK(unlink(path));
}

/* A writer that opens a file which we only read makes us drop what we have. */
static void test_reader_is_broken_by_writers(void **state)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_file *f;
	char path[600], buf[8];
	int status, ready[2], go[2];
	pid_t pid;

	(void)state;
	guard(60);
	if (geteuid()) {
		print_message("not root: cannot become another\n");
		CHECK_OK(dbh_engine_destroy(e));
		skip();
	}
	snprintf(path, sizeof(path), "%s", scratch_path(scratch_dir()));
	f = open_file(e, path, O_RDWR | O_CREAT);
	make_content(f);
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK_OK(chmod(scratch_dir(), 0711));
	CHECK_OK(chown(path, 65534, 65534));
	CHECK_OK(chmod(path, 0400));
	CHECK_OK(pipe(ready));
	CHECK_OK(pipe(go));
	pid = fork();
	if (!pid) {
		CHECK_OK(setgid(65534));
		CHECK_OK(setuid(65534));
		e = new_engine(DBH_IO_AUTO);
		f = open_file(e, path, O_RDONLY);
		read_at(f, CONTENT, 0, 1);
		CHECK_IS(write(ready[1], "r", 1), 1);
		CHECK_IS(read(go[0], buf, 1), 1);
		/* It has been written by now. */
		CHECK_IS(dbh_pread(f, buf, 6, 0, 0), 6);
		CHECK(!memcmp(buf, "others", 6), "%.6s", buf);
		CHECK_IS(size_of(f), 200000);
		CHECK_OK(dbh_close(f));
		CHECK_OK(dbh_engine_destroy(e));
		_exit(0);
	}
	CHECK_IS(read(ready[0], buf, 1), 1);
	status = open(path, O_WRONLY);
	CHECK(status >= 0, "%s", strerror(errno));
	CHECK_IS(pwrite(status, "others", 6, 0), 6);
	CHECK_OK(ftruncate(status, 200000));
	CHECK_IS(write(go[1], "g", 1), 1);
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
	CHECK_OK(unlink(path));
}

/* ---- no lease -------------------------------------------------------- */

/* Another's file, and no CAP_LEASE. */
static void unsupported(const char *path)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_file *f = open_file(e, path, O_RDWR);
	int fd;

	CHECK_IS(lease_of(f), DBH_LEASE_UNSUPPORTED);
	CHECK_IS(stats_of(e).files_unsupported, 1);
	make_content(f);
	fd = open(path, O_RDWR | O_APPEND);
	CHECK_IS(lease_of(f), DBH_LEASE_UNSUPPORTED);
	CHECK_OK(dbh_fsync(f));
	check_fd(fd, CONTENT, 1);
	/* Theirs is seen from the next sync on, and none of it is cut off. */
	CHECK_IS(write(fd, "others", 6), 6);
	CHECK_OK(dbh_fsync(f));
	CHECK_IS(size_of(f), CONTENT + 6);
	CHECK_OK(ftruncate(fd, 1000));
	CHECK_OK(dbh_fsync(f));
	CHECK_IS(size_of(f), 1000);
	read_at(f, 1000, 0, 1);
	write_at(f, 1000, 1000, 1, 0);
	CHECK_OK(dbh_close(f));
	check_fd(fd, 2000, 1);
	close(fd);
	CHECK_OK(dbh_engine_destroy(e));
}

static void test_unsupported(void **state)
{
	char path[600];
	int fd, status;
	pid_t pid;

	(void)state;
	if (geteuid()) {
		print_message("not root: cannot become another\n");
		skip();
	}
	guard(60);
	snprintf(path, sizeof(path), "%s", scratch_path(scratch_dir()));
	CHECK_OK(chmod(scratch_dir(), 0711));
	fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK_OK(fchmod(fd, 0666));
	close(fd);
	pid = fork();
	if (!pid) {
		CHECK_OK(setgid(65534));
		CHECK_OK(setuid(65534));
		unsupported(path);
		_exit(0);
	}
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
	CHECK_OK(unlink(path));
}

/* ---- processes ------------------------------------------------------- */

/* Who is killed keeps nobody waiting: the guard is shorter than what the kernel
 * would wait for a lease. */
static void test_kill(void **state)
{
	char path[600], c;
	int fds[2], status, fd;
	struct dbh_engine *e;
	struct dbh_file *f;
	pid_t pid;

	(void)state;
	guard(30);
	snprintf(path, sizeof(path), "%s", scratch_path(dirs[0]));
	CHECK_OK(pipe(fds));
	pid = fork();
	if (!pid) {
		e = new_engine(DBH_IO_AUTO);
		f = open_file(e, path, O_RDWR | O_CREAT);
		make_content(f);
		CHECK_IS(lease_of(f), DBH_LEASE_OWNED);
		CHECK_IS(write(fds[1], "r", 1), 1);
		for (;;)
			write_at(f, 5000, 0, 1, DBH_DONTCACHE);
	}
	CHECK_IS(read(fds[0], &c, 1), 1);
	CHECK_OK(kill(pid, SIGKILL));
	fd = open(path, O_RDWR);
	CHECK(fd >= 0, "%s", strerror(errno));
	close(fd);
	CHECK_IS(waitpid(pid, &status, 0), pid);
	e = new_engine(DBH_IO_AUTO);
	CHECK_OK(dbh_open(e, path, O_RDWR, 0, &f));
	wait_lease(f, DBH_LEASE_OWNED);
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK_OK(unlink(path));
}

/* A forked child has the descriptor too. That keeps nobody waiting; but a file
 * that was closed since is one which somebody has open. */
static void test_forked_child(void **state)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_file *f;
	char path[600];
	int status;
	pid_t pid;

	(void)state;
	guard(30);
	snprintf(path, sizeof(path), "%s", scratch_path(dirs[0]));
	f = open_file(e, path, O_RDWR | O_CREAT);
	make_content(f);
	pid = fork();
	if (!pid) {
		for (;;)
			pause();
	}
	open_and_check(path);
	wait_lease(f, DBH_LEASE_OWNED);
	write_at(f, 100, 0, 2, 0);
	write_at(f, 100, 0, 1, 0);
	CHECK_OK(dbh_close(f));
	open_and_check(path);
	f = open_file(e, path, O_RDWR);
	CHECK_IS(lease_of(f), DBH_LEASE_SHARED);
	CHECK_OK(kill(pid, SIGKILL));
	CHECK_IS(waitpid(pid, &status, 0), pid);
	wait_lease(f, DBH_LEASE_OWNED);
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK_OK(unlink(path));
}

/* ---- the signal ------------------------------------------------------ */

static volatile sig_atomic_t signals;

static void on_signal(int sig)
{
	(void)sig;
	signals++;
}

/* A host that uses the same signal gets its own ones, and none of ours. */
static void test_r25_signal_is_not_the_hosts(void **state)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_file *f;
	char path[600];

	(void)state;
	guard(30);
	signals = 0;
	signal(STORE_LEASE_SIGNAL, on_signal);
	snprintf(path, sizeof(path), "%s", scratch_path(dirs[0]));
	f = open_file(e, path, O_RDWR | O_CREAT);
	for (unsigned i = 0; i < 3; i++) {
		make_content(f);
		open_and_check(path);
		wait_lease(f, DBH_LEASE_OWNED);
	}
	CHECK_IS(signals, 0);
	CHECK_OK(raise(STORE_LEASE_SIGNAL));
	CHECK_IS(signals, 1);
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK_OK(unlink(path));
}

/* ---- main ------------------------------------------------------------ */

static void find_dirs(void)
{
	static const char *const fs[] = { "xfs", "ext4", "btrfs", "overlay" };
	static const unsigned megabytes[] = { 320, 64, 128, 0 };
	unsigned nr = 0;

	dirs[nr++] = scratch_dir();
	if (scratch_shm())
		dirs[nr++] = scratch_shm();
	for (unsigned i = 0; i < 4; i++) {
		dirs[nr] = scratch_mount(fs[i], megabytes[i],
					 i < 2 ? 4096 : 0);
		nr += dirs[nr] != NULL;
	}
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cat),
		cmocka_unit_test(test_nonblock),
		cmocka_unit_test(test_both_sides),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_break_meets_close),
		cmocka_unit_test(test_upgrade),
		cmocka_unit_test(test_reader_is_broken_by_writers),
		cmocka_unit_test(test_unsupported),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_forked_child),
		cmocka_unit_test(test_r25_signal_is_not_the_hosts),
	};

	(void)argc;
	(void)argv;
	seed = test_seed();
	find_dirs();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

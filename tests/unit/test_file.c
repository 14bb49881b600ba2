// SPDX-License-Identifier: MIT
/*
 * Real files: the on-disk end (R16), the kernel's cache, limits and forks
 * (R25), and the owner's mark (R22). On each file system that there is: the
 * one of $DBH_TEST_DIR or /tmp, /dev/shm, and XFS, ext4 and btrfs on loop
 * devices where the test may make them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "block/kcache.h"
#include "dropbehind/dropbehind.h"
#include "scale.h"
#include "support/check.h"
#include "support/rig.h"
#include "support/scratch.h"

#define MAX_DIRS 6u

static const char *dirs[MAX_DIRS + 1];
static bool in_memory[MAX_DIRS + 1];

static struct dbh_engine *new_engine(unsigned method)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 16u << 20,
				    .io_method = method };
	struct dbh_engine *e;

	CHECK_OK(dbh_engine_create(&opts, &e));
	return e;
}

static void for_each_place(void (*test)(struct dbh_engine *e, const char *dir,
					bool memory))
{
	guard(240);
	for (unsigned i = 0; dirs[i]; i++) {
		for (unsigned m = DBH_IO_URING; m <= DBH_IO_THREADS; m++) {
			struct dbh_engine *e = new_engine(m);

			test(e, dirs[i], in_memory[i]);
			CHECK_OK(dbh_engine_destroy(e));
		}
	}
}

static void write_at(struct dbh_file *f, size_t len, uint64_t pos, unsigned gen,
		     unsigned flags)
{
	struct rig rig = { .file = f };

	rig_write(&rig, len, pos, gen, flags);
}

/* Read back through the kernel. */
static void check_kernel(const char *path, size_t len, unsigned gen)
{
	int fd = open(path, O_RDONLY);
	char *buf = malloc(len + 1);

	CHECK(fd >= 0 && buf, "%s", path);
	CHECK_IS(pread(fd, buf, len + 1, 0), len);
	pattern_check(buf, len, 0, gen);
	free(buf);
	close(fd);
}

/* Without opening what the engine has open, which would be a break (R22). */
static int64_t kernel_pages(const char *path)
{
	int borrowed = scratch_borrow_fd(path);
	int fd = borrowed < 0 ? open(path, O_RDONLY) : borrowed;
	struct kcache_fs fs;
	struct stat st;
	int64_t nr = 0;

	CHECK(fd >= 0, "%s", path);
	CHECK_OK(fstat(fd, &st));
	CHECK_OK(kcache_ask_fs(fd, &fs));
	if (st.st_size)
		nr = kcache_resident(&(struct kcache){ fd, fs.stacked }, 0,
				     (uint64_t)st.st_size);
	close(fd);
	return nr;
}

/* ---- R16 ------------------------------------------------------------- */

struct sampler {
	const char *path;
	_Atomic uint64_t written; /* the file is being written up to here */
	_Atomic bool stop;
};

static void *sample_size(void *arg)
{
	struct sampler *s = arg;
	struct stat st;

	while (!atomic_load(&s->stop)) {
		/* The size first: the limit only grows. */
		CHECK_OK(stat(s->path, &st));
		CHECK((uint64_t)st.st_size <= atomic_load(&s->written),
		      "R16: %lld on disk, %llu written", (long long)st.st_size,
		      (unsigned long long)atomic_load(&s->written));
	}
	return NULL;
}

static void odd_records(struct dbh_engine *e, const char *dir, size_t record,
			unsigned flags)
{
	char path[600];
	struct sampler s = { .path = path };
	uint64_t total = test_scale(2u << 20), pos = 0;
	struct dbh_file *f;
	pthread_t thread;
	struct stat st;

	snprintf(path, sizeof(path), "%s", scratch_path(dir));
	CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f));
	pthread_create(&thread, NULL, sample_size, &s);
	for (unsigned i = 0; pos < total; i++, pos += record) {
		atomic_store(&s.written, pos + record);
		write_at(f, record, pos, 1,
			 flags | (i % 40 == 39 ? DBH_DSYNC : 0));
		if (i % 40 != 39)
			continue;
		CHECK_OK(stat(path, &st));
		CHECK_IS(st.st_size, pos + record);
	}
	CHECK_OK(dbh_fsync(f));
	CHECK_OK(stat(path, &st));
	CHECK_IS(st.st_size, pos);
	CHECK_OK(dbh_close(f));
	atomic_store(&s.stop, true);
	pthread_join(thread, NULL);
	CHECK_OK(stat(path, &st));
	CHECK_IS(st.st_size, pos);
	check_kernel(path, pos, 1);
	CHECK_OK(unlink(path));
}

static void r16(struct dbh_engine *e, const char *dir, bool memory)
{
	static const size_t records[] = { 47008, 6000, 1000, 333 };

	(void)memory;
	for (unsigned i = 0; i < 4; i++)
		odd_records(e, dir, records[i], i % 2 ? 0 : DBH_DONTCACHE);
	odd_records(e, dir, 6000, DBH_DONTCACHE);
}

static void test_r16_never_too_long(void **state)
{
	(void)state;
	for_each_place(r16);
}

/* At most one page of the kernel's while it is open, none after. */
static void residency(struct dbh_engine *e, const char *dir, bool memory)
{
	struct dbh_file_info info = { .struct_size = sizeof(info) };
	struct dbh_file *f;
	char path[600];

	if (memory)
		return;
	snprintf(path, sizeof(path), "%s", scratch_path(dir));
	CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f));
	if (kernel_pages(path) < 0) {
		CHECK_OK(dbh_close(f));
		return; /* a kernel that does not tell */
	}
	for (unsigned i = 0; i < 100; i++)
		write_at(f, 47008, i * 47008ull, 1,
			 DBH_DONTCACHE | (i % 10 == 9 ? DBH_DSYNC : 0));
	CHECK_OK(dbh_fsync(f));
	CHECK_OK(dbh_file_info(f, &info));
	CHECK_IS(info.lease, DBH_LEASE_OWNED);
	CHECK(kernel_pages(path) <= info.min_folio_bytes / 4096, "%lld pages",
	      (long long)kernel_pages(path));
	CHECK_OK(dbh_close(f));
	CHECK_IS(kernel_pages(path), 0);
	check_kernel(path, 4700800, 1);
	CHECK_OK(unlink(path));
}

static void test_kernel_keeps_nothing(void **state)
{
	(void)state;
	for_each_place(residency);
}

/* ---- reopening ------------------------------------------------------- */

/* D6, and the end of an older file: it is written on, over, and cut. */
static void old_ends(struct dbh_engine *e, const char *dir, bool memory)
{
	static const size_t sizes[] = { 0, 1, 511, 512, 4095, 4096, 4097,
					100001 };
	char path[600];

	(void)memory;
	snprintf(path, sizeof(path), "%s", scratch_path(dir));
	for (unsigned i = 0; i < 8; i++) {
		size_t size = sizes[i];
		struct dbh_file *f;
		struct stat st;

		CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT | O_TRUNC, 0600,
				  &f));
		CHECK_OK(dbh_fstat(f, &st));
		CHECK_IS(st.st_size, 0);
		if (size)
			write_at(f, size, 0, 1, i % 2);
		CHECK_OK(dbh_close(f));
		check_kernel(path, size, 1);
		CHECK_OK(dbh_open(e, path, O_WRONLY | O_APPEND, 0, &f));
		write_at(f, 5000, size, 1, DBH_DONTCACHE);
		CHECK_OK(dbh_close(f));
		check_kernel(path, size + 5000, 1);
	}
	CHECK_OK(unlink(path));
}

static void test_old_ends(void **state)
{
	(void)state;
	for_each_place(old_ends);
}

/* ---- R22 ------------------------------------------------------------- */

static void one_owner(struct dbh_engine *e, const char *dir, bool memory)
{
	struct dbh_engine *other = new_engine(DBH_IO_AUTO);
	struct dbh_file *f, *g;
	char path[600];

	(void)memory;
	snprintf(path, sizeof(path), "%s", scratch_path(dir));
	CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f));
	CHECK_IS(dbh_open(other, path, O_RDWR, 0, &g), -EBUSY);
	CHECK_IS(dbh_open(other, path, O_RDONLY, 0, &g), -EBUSY);
	write_at(f, 100, 0, 1, 0);
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_open(other, path, O_RDWR, 0, &g));
	CHECK_IS(dbh_open(e, path, O_RDWR, 0, &f), -EBUSY);
	CHECK_OK(dbh_close(g));
	CHECK_OK(dbh_engine_destroy(other));
	CHECK_OK(unlink(path));
}

static void test_r22_one_owner(void **state)
{
	(void)state;
	for_each_place(one_owner);
}

/* ---- R25 ------------------------------------------------------------- */

static void every_call_says_eperm(struct dbh_engine *e, struct dbh_file *f)
{
	struct dbh_stats s = { .struct_size = sizeof(s) };
	struct dbh_bdi_stats b = { .struct_size = sizeof(b) };
	struct dbh_residency r = { .struct_size = sizeof(r) };
	struct dbh_file_info info = { .struct_size = sizeof(info) };
	struct dbh_write *wr;
	struct dbh_file *g;
	char buf[16] = "";
	struct iovec iov = { buf, sizeof(buf) };
	struct stat st;
	int cnt = 1;

	CHECK_IS(dbh_pread(f, buf, 16, 0, 0), -EPERM);
	CHECK_IS(dbh_pwrite(f, buf, 16, 0, 0), -EPERM);
	CHECK_IS(dbh_preadv(f, &iov, 1, 0, 0), -EPERM);
	CHECK_IS(dbh_pwritev(f, &iov, 1, 0, DBH_DONTCACHE), -EPERM);
	CHECK_IS(dbh_submit_read(f, &iov, 1, 0, 0, NULL, NULL), -EPERM);
	CHECK_IS(dbh_submit_write(f, &iov, 1, 0, 0, NULL, NULL), -EPERM);
	CHECK_IS(dbh_write_begin(f, 0, 16, 0, &iov, &cnt, &wr), -EPERM);
	CHECK_IS(dbh_fsync(f), -EPERM);
	CHECK_IS(dbh_fdatasync(f), -EPERM);
	CHECK_IS(dbh_sync_range(f, 0, 0, true), -EPERM);
	CHECK_IS(dbh_fallocate(f, 0, 0, 16), -EPERM);
	CHECK_IS(dbh_lseek(f, 0, SEEK_DATA), -EPERM);
	CHECK_IS(dbh_copy_file_range(f, 0, f, 16, 16, 0), -EPERM);
	CHECK_IS(dbh_ftruncate(f, 0), -EPERM);
	CHECK_IS(dbh_fstat(f, &st), -EPERM);
	CHECK_IS(dbh_discard(f), -EPERM);
	CHECK(!dbh_edge_completes(f, 0), "what does it know?");
	dbh_edge_complete(f, 0);
	CHECK_IS(dbh_file_info(f, &info), -EPERM);
	CHECK_IS(dbh_residency(f, &r), -EPERM);
	CHECK_IS(dbh_stats(e, &s), -EPERM);
	CHECK_IS(dbh_bdi_stats(e, 0, &b), -EPERM);
	CHECK_IS(dbh_open(e, "/dev/null", O_RDONLY, 0, &g), -EPERM);
	CHECK_IS(dbh_openat(e, AT_FDCWD, "x", O_RDONLY, 0, &g), -EPERM);
	CHECK_IS(dbh_close(f), -EPERM);
	CHECK_IS(dbh_engine_destroy(e), -EPERM);
}

static void test_r25_forked_child(void **state)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_file *f;
	char path[600];
	int status;
	pid_t pid;

	(void)state;
	guard(60);
	snprintf(path, sizeof(path), "%s", scratch_path(dirs[0]));
	CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f));
	write_at(f, 10000, 0, 1, 0);
	pid = fork();
	if (!pid) {
		every_call_says_eperm(e, f);
		_exit(0);
	}
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
	/* P12: the parent's data is there, once. */
	write_at(f, 10000, 10000, 1, DBH_DONTCACHE);
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_engine_destroy(e));
	check_kernel(path, 20000, 1);
	CHECK_OK(unlink(path));
}

/* Signals are for the host's threads. */
static void test_r25_signals_blocked(void **state)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	char line[256];
	unsigned threads = 0;
	FILE *ls = popen("cat /proc/$PPID/task/*/status", "r");
	unsigned long long blocked = 0;
	bool ours = false;

	(void)state;
	CHECK(ls, "popen");
	while (fgets(line, sizeof(line), ls)) {
		if (!strncmp(line, "Name:", 5))
			ours = strstr(line, "dbh-") != NULL;
		if (ours && sscanf(line, "SigBlk: %llx", &blocked) == 1) {
			/* All but SIGKILL, SIGSTOP and what libc keeps. */
			CHECK((blocked & (1ull << (SIGTERM - 1))) &&
				      (blocked & (1ull << (SIGALRM - 1))) &&
				      (blocked & (1ull << (SIGCHLD - 1))),
			      "%llx", blocked);
			threads++;
		}
	}
	pclose(ls);
	CHECK(threads, "no thread of the engine was found");
	CHECK_OK(dbh_engine_destroy(e));
}

/* ---- K4 -------------------------------------------------------------- */

static volatile sig_atomic_t got_xfsz;

static void on_xfsz(int sig)
{
	(void)sig;
	got_xfsz = 1;
}

/* In a child, which has the limit to itself. */
static int limited(const char *path)
{
	struct rlimit rl = { 10240, 10240 };
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_file *f;
	struct stat st;
	char buf[20000];

	pattern_fill(buf, sizeof(buf), 0, 1);
	signal(SIGXFSZ, on_xfsz);
	CHECK_OK(setrlimit(RLIMIT_FSIZE, &rl));
	CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f));
	CHECK_IS(dbh_pwrite(f, buf, 10000, 0, DBH_DONTCACHE), 10000);
	CHECK_OK(dbh_fsync(f));
	CHECK_IS(got_xfsz, 0);
	/* Short up to the limit, then the signal and the error. */
	CHECK_IS(dbh_pwrite(f, buf, sizeof(buf), 0, DBH_DONTCACHE), 10240);
	CHECK_IS(got_xfsz, 0);
	CHECK_IS(dbh_pwrite(f, buf, 1, 10240, 0), -EFBIG);
	CHECK_IS(got_xfsz, 1);
	CHECK_IS(dbh_ftruncate(f, 10241), -EFBIG);
	CHECK_IS(dbh_ftruncate(f, 10240), 0);
	/* The end block lies across the limit: it must not trip it. */
	CHECK_OK(dbh_fsync(f));
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK_OK(stat(path, &st));
	CHECK_IS(st.st_size, 10240);
	check_kernel(path, 10240, 1);
	return 0;
}

static void test_k4_rlimit_fsize(void **state)
{
	(void)state;
	guard(60);
	for (unsigned i = 0; dirs[i]; i++) {
		char path[600];
		int status;
		pid_t pid;

		snprintf(path, sizeof(path), "%s", scratch_path(dirs[i]));
		pid = fork();
		if (!pid)
			_exit(limited(path));
		CHECK_IS(waitpid(pid, &status, 0), pid);
		CHECK_IS(status, 0);
		CHECK_OK(unlink(path));
	}
}

/* ---- ENOSPC ---------------------------------------------------------- */

/* Write until it is full. */
static void fill_up(struct dbh_file *f)
{
	int err = 0;

	for (unsigned i = 0; i < 10000 && !err; i++) {
		char buf[47008];
		ssize_t n;

		pattern_fill(buf, sizeof(buf), i * sizeof(buf), 1);
		n = dbh_pwrite(f, buf, sizeof(buf),
			       (off_t)(i * sizeof(buf)), DBH_DONTCACHE);
		err = n < 0 ? (int)n : 0;
		if (i % 100 == 99 && !err)
			err = dbh_fsync(f);
	}
	CHECK_IS(err, -ENOSPC);
}

/* K3: a full file system: somebody is told, nothing of others is lost. */
static void full(const char *dir)
{
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	char small[600], big[600];
	struct dbh_file *f, *g;
	int res;

	snprintf(small, sizeof(small), "%s", scratch_path(dir));
	snprintf(big, sizeof(big), "%s", scratch_path(dir));
	CHECK_OK(dbh_open(e, small, O_RDWR | O_CREAT, 0600, &g));
	write_at(g, 100000, 0, 1, DBH_DSYNC);
	CHECK_OK(dbh_open(e, big, O_RDWR | O_CREAT, 0600, &f));
	fill_up(f);
	CHECK_OK(dbh_fsync(g));
	/* What failed is given up; what was not tried yet may fail now. */
	while ((res = dbh_fsync(f))) {
		CHECK_IS(res, -ENOSPC);
		CHECK_OK(dbh_discard(f));
	}
	CHECK_OK(dbh_close(f));
	CHECK_OK(unlink(big));
	/* There is room again. What nobody can open any more and does not fit
	 * is in nobody's way. */
	CHECK_OK(dbh_open(e, big, O_RDWR | O_CREAT, 0600, &f));
	fill_up(f);
	CHECK_OK(unlink(big));
	dbh_close(f);
	write_at(g, 100000, 100000, 1, DBH_DONTCACHE);
	CHECK_OK(dbh_close(g));
	check_kernel(small, 200000, 1);
	CHECK_OK(dbh_engine_destroy(e));
}

static void test_k3_full_file_system(void **state)
{
	static const char *const kinds[] = { "tmpfs", "ext4", "xfs" };
	static const unsigned sizes[] = { 4, 16, 320 };
	unsigned done = 0;

	(void)state;
	guard(120);
	for (unsigned i = 0; i < 3; i++) {
		const char *dir = scratch_mount(kinds[i], sizes[i], 0);

		if (!dir)
			continue;
		full(dir);
		done++;
	}
	if (!done) {
		print_message("no file system can be mounted here\n");
		skip();
	}
}

/* ---- a fragmented file system ----------------------------------------- */

#define HOLE 8192
#define HOLES 4000u
/* XFS keeps so much back, in one piece, and gives it out when there are holes. */
#define RESERVE (18 << 20)

/* All of it is taken, but for holes of two blocks. */
static void fragment(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	off_t at = 0;

	CHECK(fd >= 0, "%s", path);
	for (off_t len = 64 << 20; len >= 4096; len /= 2)
		while (!fallocate(fd, 0, at, len))
			at += len;
	CHECK(at > 2 * HOLE * (off_t)HOLES, "%lld bytes", (long long)at);
	for (off_t i = 0; i < HOLES; i++)
		CHECK_OK(fallocate(fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   i * 2 * HOLE, HOLE));
	CHECK_OK(fallocate(fd, FALLOC_FL_KEEP_SIZE, at, RESERVE));
	CHECK_OK(fsync(fd));
	close(fd);
}

static unsigned extents(const char *path)
{
	struct fiemap map = { .fm_length = UINT64_MAX,
			      .fm_flags = FIEMAP_FLAG_SYNC };
	int fd = open(path, O_RDONLY);

	CHECK(fd >= 0, "%s", path);
	CHECK_OK(ioctl(fd, FS_IOC_FIEMAP, &map));
	close(fd);
	return map.fm_mapped_extents;
}

static void new_file_on_fragmented(const char *fs, unsigned megabytes)
{
	const char *dir = scratch_mount(fs, megabytes, 0);
	struct dbh_engine *e;
	struct dbh_stats st = { .struct_size = sizeof(st) };
	struct dbh_file *f;
	char path[600];
	uint64_t pos = 0;

	if (!dir)
		skip();
	guard(120);
	fragment(scratch_path(dir));
	snprintf(path, sizeof(path), "%s", scratch_path(dir));
	e = new_engine(DBH_IO_AUTO);
	CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f));
	for (unsigned i = 0; i < 170; i++, pos += 47008)
		write_at(f, 47008, pos, 1, DBH_DONTCACHE);
	CHECK_OK(dbh_fsync(f));
	CHECK_OK(dbh_close(f));
	CHECK_OK(dbh_stats(e, &st));
	CHECK_IS(st.read_bytes, 0);
	CHECK_IS(st.edges_filled_read, 0);
	CHECK_OK(dbh_engine_destroy(e));
	CHECK(extents(path) > 300, "in %u pieces", extents(path));
	check_kernel(path, pos, 1);
}

static void test_r23_fragmented_ext4(void **state)
{
	(void)state;
	new_file_on_fragmented("ext4", 128);
}

static void test_r23_fragmented_xfs(void **state)
{
	(void)state;
	new_file_on_fragmented("xfs", 320);
}

/* ---- permissions ------------------------------------------------------ */

static void open_as_user(const char *dir)
{
	static const struct {
		mode_t mode;
		int flags, err;
	} cases[] = {
		{ 0600, O_RDONLY, -EACCES },
		{ 0600, O_WRONLY, -EACCES },
		{ 0600, O_RDWR | O_CREAT, -EACCES },
		{ 0644, O_RDONLY, 0 },
		{ 0644, O_WRONLY, -EACCES },
		{ 0644, O_RDWR, -EACCES },
		{ 0644, O_RDONLY | O_TRUNC, -EACCES },
		{ 0666, O_RDWR, 0 },
	};
	struct dbh_engine *e = new_engine(DBH_IO_AUTO);
	struct dbh_file *f, *reader;
	char path[700], byte = 0;

	snprintf(path, sizeof(path), "%s/644", dir);
	CHECK_OK(dbh_open(e, path, O_RDONLY, 0, &reader));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(path, sizeof(path), "%s/%o", dir, cases[i].mode);
		CHECK_IS(dbh_open(e, path, cases[i].flags, 0600, &f),
			 cases[i].err);
		if (cases[i].err)
			continue;
		CHECK_IS(dbh_pread(f, &byte, 1, 0, 0), 1);
		CHECK_OK(dbh_close(f));
	}
	/* The other handle has seen nothing of all this. */
	CHECK_IS(dbh_pwrite(reader, &byte, 1, 0, 0), -EBADF);
	CHECK_IS(dbh_pread(reader, &byte, 1, 0, 0), 1);
	CHECK_IS(byte, 'x');
	CHECK_OK(dbh_close(reader));
	snprintf(path, sizeof(path), "%s/new", dir);
	CHECK_IS(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f), -EACCES);
	CHECK_OK(dbh_engine_destroy(e));
}

static void make_files(const char *dir)
{
	static const mode_t modes[] = { 0600, 0644, 0666 };
	char path[700];

	CHECK_OK(mkdir(dir, 0755));
	CHECK_OK(chmod(dir, 0755));
	for (unsigned i = 0; i < 3; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%o", dir, modes[i]);
		fd = open(path, O_WRONLY | O_CREAT, 0600);
		CHECK(fd >= 0, "%s", path);
		CHECK_IS(write(fd, "x", 1), 1);
		CHECK_OK(fchmod(fd, modes[i]));
		close(fd);
	}
}

static void test_eacces_as_user(void **state)
{
	char dir[600];
	int status;
	pid_t pid;

	(void)state;
	if (geteuid()) {
		print_message("not root: cannot become another\n");
		skip();
	}
	guard(60);
	snprintf(dir, sizeof(dir), "%s", scratch_path(scratch_dir()));
	CHECK_OK(chmod(scratch_dir(), 0711));
	make_files(dir);
	pid = fork();
	if (!pid) {
		CHECK_OK(setresgid(65534, 65534, 65534));
		CHECK_OK(setresuid(65534, 65534, 65534));
		open_as_user(dir);
		_exit(0);
	}
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
}

/* ---- main ------------------------------------------------------------ */

static void find_dirs(void)
{
	unsigned nr = 0;
	const char *dir;

	dirs[nr++] = scratch_dir();
	if (scratch_shm()) {
		in_memory[nr] = true;
		dirs[nr++] = scratch_shm();
	}
	if ((dir = scratch_mount("xfs", 320, 4096)))
		dirs[nr++] = dir;
	if ((dir = scratch_mount_with("xfs", "-b size=16384", 320, 0)))
		dirs[nr++] = dir;
	if ((dir = scratch_mount("ext4", 64, 4096)))
		dirs[nr++] = dir;
	if ((dir = scratch_mount("btrfs", 160, 0)))
		dirs[nr++] = dir;
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r16_never_too_long),
		cmocka_unit_test(test_kernel_keeps_nothing),
		cmocka_unit_test(test_old_ends),
		cmocka_unit_test(test_r22_one_owner),
		cmocka_unit_test(test_r25_forked_child),
		cmocka_unit_test(test_r25_signals_blocked),
		cmocka_unit_test(test_k4_rlimit_fsize),
		cmocka_unit_test(test_k3_full_file_system),
		cmocka_unit_test(test_r23_fragmented_ext4),
		cmocka_unit_test(test_r23_fragmented_xfs),
		cmocka_unit_test(test_eacces_as_user),
	};

	(void)argc;
	(void)argv;
	find_dirs();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

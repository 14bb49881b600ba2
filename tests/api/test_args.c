// SPDX-License-Identifier: MIT
/*
 * Bad input: each the errno that Linux gives. Where the system call can be
 * made beside it, the two are compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dropbehind/dropbehind.h"
#include "support/check.h"
#include "support/scratch.h"

static struct dbh_engine *engine;
static char dir[600];

/* ---- helpers --------------------------------------------------------- */

static const char *in_dir(const char *name)
{
	static char path[4][1000];
	static unsigned nr;
	char *to = path[nr++ % 4];

	snprintf(to, sizeof(path[0]), "%s/%s", dir, name);
	return to;
}

static void make_file(const char *path, const char *content)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0, "%s", path);
	CHECK_IS(write(fd, content, strlen(content)), strlen(content));
	close(fd);
}

/* A handle of ours and a descriptor of the kernel's on files alike. */
struct pair {
	struct dbh_file *file;
	int fd;
};

static struct pair open_pair(int flags)
{
	const char *ours = in_dir("ours"), *theirs = in_dir("theirs");
	struct pair p;

	make_file(ours, "0123456789");
	make_file(theirs, "0123456789");
	CHECK_OK(dbh_open(engine, ours, flags, 0600, &p.file));
	p.fd = open(theirs, flags, 0600);
	CHECK(p.fd >= 0, "%s", theirs);
	return p;
}

static void close_pair(struct pair *p)
{
	CHECK_OK(dbh_close(p->file));
	close(p->fd);
}

static long or_errno(long res)
{
	return res < 0 ? -errno : res;
}

/* ---- open ------------------------------------------------------------ */

/* Both ways of opening @path end alike. */
static void same_open(const char *path, int flags)
{
	struct dbh_file *file = NULL;
	int fd = open(path, flags, 0600), want = fd < 0 ? -errno : 0;
	int got;

	if (fd >= 0)
		close(fd);
	if (fd >= 0 && (flags & O_EXCL))
		CHECK_OK(unlink(path));
	got = dbh_open(engine, path, flags, 0600, &file);
	CHECK(got == want, "%s with %#x: %d, and the kernel says %d", path,
	      (unsigned)flags, got, want);
	CHECK(!got || !file, "the output of a failure was touched");
	CHECK_OK(dbh_close(file));
}

static void test_open_as_the_kernel(void **state)
{
	char long_name[NAME_MAX + 2];

	(void)state;
	make_file(in_dir("file"), "x");
	CHECK_OK(symlink("file", in_dir("link")));
	CHECK_OK(symlink("nowhere", in_dir("dangling")));
	CHECK_OK(symlink("loop", in_dir("loop")));
	same_open(in_dir("file"), O_RDONLY);
	same_open(in_dir("file"), O_RDWR);
	same_open(in_dir("file"), O_WRONLY | O_APPEND | O_CLOEXEC);
	same_open(in_dir("file"), O_RDWR | O_DSYNC | O_NOFOLLOW);
	same_open(in_dir("missing"), O_RDONLY);
	same_open(in_dir("missing"), O_RDWR);
	same_open(in_dir("no/such/dir"), O_RDWR | O_CREAT);
	same_open(in_dir("file/below"), O_RDWR | O_CREAT);
	same_open(in_dir("file"), O_RDWR | O_CREAT | O_EXCL);
	same_open(in_dir("fresh"), O_RDWR | O_CREAT | O_EXCL);
	same_open(in_dir("link"), O_RDONLY);
	same_open(in_dir("link"), O_RDONLY | O_NOFOLLOW);
	same_open(in_dir("link"), O_RDWR | O_CREAT | O_EXCL);
	same_open(in_dir("dangling"), O_RDONLY);
	same_open(in_dir("dangling"), O_RDWR | O_CREAT | O_EXCL);
	same_open(in_dir("dangling"), O_RDWR | O_CREAT | O_NOFOLLOW);
	same_open(in_dir("dangling"), O_RDWR | O_CREAT);
	same_open(in_dir("loop"), O_RDONLY);
	same_open(in_dir(""), O_RDWR);
	same_open("", O_RDONLY);
	same_open("/proc/self/no-such-entry", O_RDONLY);
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	same_open(in_dir(long_name), O_RDWR | O_CREAT);
}

static void refused(const char *path, int flags, int want)
{
	struct dbh_file *file = NULL;
	int got = dbh_open(engine, path, flags, 0600, &file);

	CHECK(got == want, "%s with %#x: %d, not %d", path, (unsigned)flags,
	      got, want);
	CHECK(!file, "the output was touched");
}

static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned nr = 0;

	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

/* What is no regular file, and flags that mean nothing here. */
static void test_open_refuses(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	unsigned fds = open_fds();
	int sock = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	refused(dir, O_RDONLY, -EISDIR);
	refused(dir, O_RDWR, -EISDIR);
	refused(dir, O_RDWR | O_CREAT, -EISDIR);
	/* It must not wait for the other end. */
	CHECK_OK(mkfifo(in_dir("fifo"), 0600));
	refused(in_dir("fifo"), O_RDONLY, -EINVAL);
	refused(in_dir("fifo"), O_RDWR, -EINVAL);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", in_dir("sock"));
	if (!bind(sock, (struct sockaddr *)&sun, sizeof(sun)))
		refused(in_dir("sock"), O_RDWR, -EINVAL);
	close(sock);
	refused("/dev/null", O_RDWR, -EINVAL);
	refused("/dev/zero", O_RDONLY, -EINVAL);
	make_file(in_dir("file"), "x");
	refused(in_dir("file"), O_ACCMODE, -EINVAL);
	refused(in_dir("file"), O_RDWR | O_DIRECTORY, -EINVAL);
	refused(in_dir("file"), O_RDWR | O_PATH, -EINVAL);
	refused(in_dir("file"), O_RDWR | O_ASYNC, -EINVAL);
	refused(in_dir("file"), (O_RDWR | O_TMPFILE), -EINVAL);
	CHECK_IS(open_fds(), fds);
}

static void test_openat(void **state)
{
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY);
	struct dbh_file *file;
	char buf[4];

	(void)state;
	make_file(in_dir("at"), "abc");
	CHECK_OK(dbh_openat(engine, dirfd, "at", O_RDONLY, 0, &file));
	CHECK_IS(dbh_pread(file, buf, 4, 0, 0), 3);
	CHECK_OK(dbh_close(file));
	CHECK_IS(dbh_openat(engine, -1, "at", O_RDONLY, 0, &file), -EBADF);
	CHECK_OK(dbh_openat(engine, -1, in_dir("at"), O_RDONLY, 0, &file));
	CHECK_OK(dbh_close(file));
	CHECK_IS(dbh_openat(engine, dirfd, "none", O_RDONLY, 0, &file),
		 -ENOENT);
	close(dirfd);
}

static void test_open_trunc_and_mode(void **state)
{
	struct dbh_file *file;
	struct stat st;
	mode_t old = umask(027);

	(void)state;
	CHECK_OK(dbh_open(engine, in_dir("mode"), O_RDWR | O_CREAT, 0666,
			  &file));
	CHECK_OK(dbh_fstat(file, &st));
	CHECK_IS(st.st_mode & 0777, 0640);
	CHECK_IS(dbh_pwrite(file, "12345", 5, 0, 0), 5);
	CHECK_OK(dbh_close(file));
	umask(old);
	CHECK_OK(dbh_open(engine, in_dir("mode"), O_RDWR | O_TRUNC, 0, &file));
	CHECK_OK(dbh_fstat(file, &st));
	CHECK_IS(st.st_size, 0);
	CHECK_OK(dbh_close(file));
}

/* ---- reads and writes ------------------------------------------------ */

static void never_called(void *arg, ssize_t result)
{
	(void)arg;
	CHECK(0, "a callback for a request that was refused: %zd", result);
}

static void test_flags(void **state)
{
	struct pair p = open_pair(O_RDWR);
	struct iovec iov = { (char[10]){ 0 }, 10 };
	struct dbh_write *wr;
	int cnt = 1;

	(void)state;
	for (unsigned bit = 0; bit < 32; bit++) {
		unsigned flag = 1u << bit;
		bool reads = flag & (DBH_DONTCACHE | DBH_NOWAIT);
		bool writes = flag & (DBH_DONTCACHE | DBH_DSYNC | DBH_SYNC |
				      DBH_APPEND | DBH_NOWAIT | DBH_DEFER);

		if (!reads) {
			CHECK_IS(dbh_preadv(p.file, &iov, 1, 0, flag),
				 -EOPNOTSUPP);
			CHECK_IS(dbh_submit_read(p.file, &iov, 1, 0, flag,
						 never_called, NULL),
				 -EOPNOTSUPP);
		}
		if (!writes) {
			CHECK_IS(dbh_pwritev(p.file, &iov, 1, 0, flag),
				 -EOPNOTSUPP);
			CHECK_IS(dbh_submit_write(p.file, &iov, 1, 0, flag,
						  never_called, NULL),
				 -EOPNOTSUPP);
			CHECK_IS(dbh_write_begin(p.file, 0, 10, flag, &iov,
						 &cnt, &wr),
				 -EOPNOTSUPP);
		}
	}
	/* The kernel says the same. */
	CHECK_IS(or_errno(preadv2(p.fd, &iov, 1, 0, (int)(1u << 30))),
		 -EOPNOTSUPP);
	CHECK_IS(dbh_pwrite(p.file, "x", 1, 0, DBH_DEFER), -EINVAL);
	CHECK_IS(dbh_submit_write(p.file, &iov, 1, -1, 0, never_called, NULL),
		 -EINVAL);
	close_pair(&p);
}

static void test_access_modes(void **state)
{
	struct pair p = open_pair(O_RDONLY);
	char buf[10] = "";

	(void)state;
	CHECK_IS(dbh_pwrite(p.file, buf, 1, 0, 0), or_errno(pwrite(p.fd, buf,
								   1, 0)));
	CHECK_IS(dbh_pwrite(p.file, buf, 1, 0, 0), -EBADF);
	CHECK_IS(dbh_pwrite(p.file, buf, 0, 0, 0),
		 or_errno(pwrite(p.fd, buf, 0, 0)));
	CHECK_IS(dbh_ftruncate(p.file, 5), or_errno(ftruncate(p.fd, 5)));
	CHECK_IS(dbh_discard(p.file), -EBADF);
	CHECK_OK(dbh_fsync(p.file));
	close_pair(&p);
	p = open_pair(O_WRONLY);
	CHECK_IS(dbh_pread(p.file, buf, 1, 0, 0),
		 or_errno(pread(p.fd, buf, 1, 0)));
	CHECK_IS(dbh_pread(p.file, buf, 1, 0, 0), -EBADF);
	CHECK_IS(dbh_pwrite(p.file, buf, 3, 8, 0), 3);
	close_pair(&p);
}

static void test_offsets(void **state)
{
	static const off_t offsets[] = { -1, -4096, INT64_MIN, INT64_MAX,
					 INT64_MAX - 1 };
	struct pair p = open_pair(O_RDWR);
	char buf[100] = "";

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		off_t off = offsets[i];

		CHECK_IS(dbh_pread(p.file, buf, 1, off, 0),
			 or_errno(pread(p.fd, buf, 1, off)));
		CHECK_IS(dbh_pwrite(p.file, buf, 1, off, 0),
			 or_errno(pwrite(p.fd, buf, 1, off)));
		CHECK_IS(dbh_ftruncate(p.file, off),
			 or_errno(ftruncate(p.fd, off)));
		CHECK_IS(dbh_sync_range(p.file, off, 1, true), -EINVAL);
		CHECK_IS(dbh_sync_range(p.file, 0, off, true), -EINVAL);
		CHECK(!dbh_edge_completes(p.file, off), "nothing is there");
		dbh_edge_complete(p.file, off);
	}
	/* Beyond any file. */
	for (unsigned i = 3; i < 5; i++) {
		off_t off = offsets[i];

		for (unsigned len = 0; len < 3; len++) {
			CHECK_IS(dbh_pread(p.file, buf, len, off, 0),
				 or_errno(pread(p.fd, buf, len, off)));
			CHECK_IS(dbh_pwrite(p.file, buf, len, off, 0),
				 or_errno(pwrite(p.fd, buf, len, off)));
		}
	}
	CHECK_OK(dbh_sync_range(p.file, 1ll << 50, 0, true));
	close_pair(&p);
}

/* The largest offset of the file system below: EFBIG as from the kernel. */
static void test_largest_file(void **state)
{
	static const off_t ends[] = { 1ll << 43, 1ll << 44, 1ll << 60,
				      (1ll << 62) + 5, INT64_MAX - 4096,
				      INT64_MAX - 1 };
	struct pair p = open_pair(O_RDWR);
	char buf[100] = "";

	(void)state;
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		long want = or_errno(pwrite(p.fd, buf, 1, ends[i]));
		long got = dbh_pwrite(p.file, buf, 1, ends[i], DBH_DONTCACHE);

		if (want == 1 && got == 1)
			want = got = dbh_fsync(p.file);
		else
			CHECK(got == want, "a byte at %lld: %ld, not %ld",
			      (long long)ends[i], got, want);
		CHECK_IS(got, want);
	}
	close_pair(&p);
}

static void test_vectors(void **state)
{
	struct pair p = open_pair(O_RDWR);
	static struct iovec iov[IOV_MAX + 1];
	char byte = 'x';

	(void)state;
	for (unsigned i = 0; i <= IOV_MAX; i++)
		iov[i] = (struct iovec){ &byte, 1 };
	CHECK_IS(dbh_pwritev(p.file, iov, IOV_MAX, 0, 0), IOV_MAX);
	CHECK_IS(or_errno(pwritev(p.fd, iov, IOV_MAX, 0)), IOV_MAX);
	CHECK_IS(dbh_pwritev(p.file, iov, IOV_MAX + 1, 0, 0),
		 or_errno(pwritev(p.fd, iov, IOV_MAX + 1, 0)));
	CHECK_IS(dbh_preadv(p.file, iov, IOV_MAX + 1, 0, 0),
		 or_errno(preadv(p.fd, iov, IOV_MAX + 1, 0)));
	CHECK_IS(dbh_pwritev(p.file, iov, -1, 0, 0),
		 -EINVAL);
	CHECK_IS(dbh_pwritev(p.file, iov, 0, 0, 0),
		 or_errno(pwritev(p.fd, iov, 0, 0)));
	CHECK_IS(dbh_preadv(p.file, iov, 0, 0, 0),
		 or_errno(preadv(p.fd, iov, 0, 0)));
	/* Lengths that overflow. */
	iov[0].iov_len = SSIZE_MAX;
	iov[1].iov_len = 1;
	CHECK_IS(dbh_pwritev(p.file, iov, 2, 0, 0), -EINVAL);
	/* (The kernel looks at the addresses first: EFAULT.) */
	iov[0].iov_len = (size_t)-1;
	CHECK_IS(dbh_preadv(p.file, iov, 1, 0, 0),
		 or_errno(preadv(p.fd, iov, 1, 0)));
	close_pair(&p);
}

/* D21: nothing happens. */
static void test_zero_length(void **state)
{
	struct pair p = open_pair(O_RDWR);
	struct stat before, after;
	struct dbh_write *wr;
	struct iovec iov = { 0 };
	int cnt = 1;

	(void)state;
	CHECK_OK(dbh_fstat(p.file, &before));
	usleep(10000);
	CHECK_IS(dbh_pwrite(p.file, "", 0, 0, 0), 0);
	CHECK_IS(dbh_pwrite(p.file, "", 0, 1000, DBH_DSYNC), 0);
	CHECK_IS(dbh_pwrite(p.file, "", 0, 0, DBH_APPEND), 0);
	CHECK_IS(dbh_pwritev(p.file, &iov, 1, 5000, DBH_DONTCACHE), 0);
	CHECK_IS(dbh_pread(p.file, NULL, 0, 1000, 0), 0);
	CHECK_IS(dbh_preadv(p.file, &iov, 1, 0, 0), 0);
	CHECK_IS(dbh_write_begin(p.file, 0, 0, 0, &iov, &cnt, &wr), -EINVAL);
	CHECK_OK(dbh_fstat(p.file, &after));
	CHECK_IS(after.st_size, before.st_size);
	CHECK(!memcmp(&after.st_mtim, &before.st_mtim, sizeof(after.st_mtim)),
	      "the time has changed");
	close_pair(&p);
}

/* 3 GiB in one call. The vectors name the same memory again and again. */
static void test_three_gib(void **state)
{
	static struct iovec iov[1024];
	const size_t each = 3u << 20;
	struct pair p = open_pair(O_RDWR);
	char *buf = malloc(each);

	(void)state;
	CHECK(buf, "no memory");
	for (unsigned i = 0; i < 1024; i++)
		iov[i] = (struct iovec){ buf, each };
	/* What there is: */
	CHECK_IS(dbh_preadv(p.file, iov, 1024, 4, 0), 6);
	CHECK(!memcmp(buf, "456789", 6), "content");
	CHECK_IS(dbh_preadv(p.file, iov, 1024, 10, DBH_DONTCACHE), 0);
	/* Of a hole as much as the kernel gives, 0x7ffff000. */
	CHECK_OK(dbh_ftruncate(p.file, 3ll << 30));
	CHECK_OK(ftruncate(p.fd, 3ll << 30));
	CHECK_IS(dbh_preadv(p.file, iov, 1024, 0, DBH_DONTCACHE), 0x7ffff000);
	CHECK_IS(dbh_preadv(p.file, iov, 1024, (3ll << 30) - 100, 0), 100);
	/* One length alone may be larger than all that fits. */
	CHECK_IS(dbh_pread(p.file, buf, SSIZE_MAX, (3ll << 30) - 100, 0), 100);
	free(buf);
	close_pair(&p);
}

/* ---- sizes ----------------------------------------------------------- */

static void test_struct_sizes(void **state)
{
	struct {
		struct dbh_options opts;
		char more[64];
	} newer = { .opts.struct_size = sizeof(newer),
		    .opts.memory_bytes = 1u << 20 };
	struct dbh_options opts = { .struct_size = sizeof(opts) };
	struct dbh_engine *e = NULL;
	struct {
		struct dbh_stats s;
		char more[64];
	} stats = { .s.struct_size = sizeof(stats) };
	struct dbh_stats small = { .struct_size = 2 * sizeof(size_t) };

	(void)state;
	/* A newer caller who asks for nothing new. */
	CHECK_OK(dbh_engine_create(&newer.opts, &e));
	CHECK_OK(dbh_engine_destroy(e));
	e = NULL;
	newer.more[63] = 1;
	CHECK_IS(dbh_engine_create(&newer.opts, &e), -EINVAL);
	opts.struct_size = 0;
	CHECK_IS(dbh_engine_create(&opts, &e), -EINVAL);
	opts.struct_size = sizeof(size_t);
	CHECK_OK(dbh_engine_create(&opts, &e));
	CHECK_OK(dbh_engine_destroy(e));
	e = NULL;
	opts = (struct dbh_options){ .struct_size = sizeof(opts),
				     .memory_bytes = (1u << 20) - 1 };
	CHECK_IS(dbh_engine_create(&opts, &e), -EINVAL);
	opts = (struct dbh_options){ .struct_size = sizeof(opts),
				     .queue_depth = 257 };
	CHECK_IS(dbh_engine_create(&opts, &e), -EINVAL);
	opts = (struct dbh_options){ .struct_size = sizeof(opts),
				     .io_method = 3 };
	CHECK_IS(dbh_engine_create(&opts, &e), -EINVAL);
	CHECK(!e, "the output was touched");
	/* Outputs: newer, older, and none. */
	memset(stats.more, 1, sizeof(stats.more));
	CHECK_OK(dbh_stats(engine, &stats.s));
	CHECK(stats.s.memory_limit_bytes && !stats.more[63], "what it knows");
	small.memory_used_bytes = 77;
	CHECK_OK(dbh_stats(engine, &small));
	CHECK(small.memory_limit_bytes && small.memory_used_bytes == 77,
	      "written behind the end");
	small.struct_size = 0;
	CHECK_IS(dbh_stats(engine, &small), -EINVAL);
}

static void test_nulls_and_busy(void **state)
{
	struct dbh_bdi_stats bdi = { .struct_size = sizeof(bdi) };
	struct pair p = open_pair(O_RDWR);

	(void)state;
	CHECK_OK(dbh_close(NULL));
	CHECK_OK(dbh_engine_destroy(NULL));
	CHECK_IS(dbh_engine_destroy(engine), -EBUSY);
	CHECK_OK(dbh_bdi_stats(engine, 0, &bdi));
	CHECK_IS(dbh_bdi_stats(engine, 1000, &bdi), -ENOENT);
	close_pair(&p);
}

/* More bytes written than were lent. */
static void test_write_end(void **state)
{
	struct pair p = open_pair(O_RDWR);
	struct dbh_write *wr;
	struct iovec iov[4];
	int cnt = 4;
	char buf[10];
	ssize_t lent;

	(void)state;
	lent = dbh_write_begin(p.file, 0, 10, 0, iov, &cnt, &wr);
	CHECK(lent >= 1 && lent <= 10, "%zd", lent);
	CHECK_IS(dbh_write_end(wr, (size_t)lent + 1), -EINVAL);
	CHECK_IS(dbh_pread(p.file, buf, 10, 0, 0), 10);
	CHECK(!memcmp(buf, "0123456789", 10), "something was written");
	cnt = 0;
	CHECK_IS(dbh_write_begin(p.file, 0, 10, 0, iov, &cnt, &wr), -EINVAL);
	cnt = 4;
	CHECK_IS(dbh_write_begin(p.file, -1, 10, 0, iov, &cnt, &wr), -EINVAL);
	close_pair(&p);
}

/* ---- main ------------------------------------------------------------ */

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_as_the_kernel),
		cmocka_unit_test(test_open_refuses),
		cmocka_unit_test(test_openat),
		cmocka_unit_test(test_open_trunc_and_mode),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_access_modes),
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_largest_file),
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_zero_length),
		cmocka_unit_test(test_three_gib),
		cmocka_unit_test(test_struct_sizes),
		cmocka_unit_test(test_nulls_and_busy),
		cmocka_unit_test(test_write_end),
	};
	int failed;

	(void)argc;
	(void)argv;
	guard(120);
	snprintf(dir, sizeof(dir), "%s", scratch_dir());
	CHECK_OK(dbh_engine_create(NULL, &engine));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	CHECK_OK(dbh_engine_destroy(engine));
	return failed;
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

// SPDX-License-Identifier: MIT
/*
 * Bad input to fallocate, lseek and copy_file_range: each the errno that Linux
 * gives, each call beside the system call on a file alike. And RLIMIT_FSIZE (K4),
 * with its signal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dropbehind/dropbehind.h"
#include "support/check.h"
#include "support/scratch.h"

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define BYTES 20000

static struct dbh_engine *engine;
static const char *dir;

/* A handle of ours and a descriptor of the kernel's on files alike; and both
 * for reading and writing. */
struct pair {
	char ours[600], theirs[600];
	struct dbh_file *file, *rw;
	int fd, rw_fd;
};

static void fill(const char *path)
{
	static char bytes[BYTES];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	memset(bytes, 'x', sizeof(bytes));
	CHECK(fd >= 0, "%s", path);
	CHECK_IS(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
}

static void open_pair(struct pair *p, int flags)
{
	snprintf(p->ours, sizeof(p->ours), "%s", scratch_path(dir));
	snprintf(p->theirs, sizeof(p->theirs), "%s", scratch_path(dir));
	fill(p->ours);
	fill(p->theirs);
	CHECK_OK(dbh_open(engine, p->ours, flags, 0600, &p->file));
	CHECK_OK(dbh_open(engine, p->ours, O_RDWR, 0600, &p->rw));
	p->fd = open(p->theirs, flags, 0600);
	p->rw_fd = open(p->theirs, O_RDWR, 0600);
	CHECK(p->fd >= 0 && p->rw_fd >= 0, "%s", p->theirs);
}

static void close_pair(struct pair *p)
{
	CHECK_OK(dbh_close(p->file));
	CHECK_OK(dbh_close(p->rw));
	close(p->fd);
	close(p->rw_fd);
	unlink(p->ours);
	unlink(p->theirs);
}

static long long or_errno(long long res)
{
	return res < 0 ? -errno : res;
}

static void same_size(struct pair *p)
{
	struct stat st, want;

	CHECK_OK(dbh_fstat(p->file, &st));
	CHECK_OK(fstat(p->fd, &want));
	CHECK_IS(st.st_size, want.st_size);
}

static const int access_modes[] = { O_RDONLY, O_WRONLY, O_RDWR,
				    O_RDWR | O_APPEND };

static const off_t offsets[] = {
	INT64_MIN, -4096,     -1,    0,	    1,	       4096,
	16384,	   BYTES - 1, BYTES, 32768, 1ll << 44, INT64_MAX - 4096,
	INT64_MAX,
};

#define NR(table) (sizeof(table) / sizeof((table)[0]))

/* ---- fallocate -------------------------------------------------------- */

static void same_fallocate(struct pair *p, int mode, off_t off, off_t len)
{
	long long want = or_errno(fallocate(p->fd, mode, off, len));
	int got = dbh_fallocate(p->file, mode, off, len);

	CHECK(got == want, "mode %#x %lld +%lld: %d, and the kernel says %lld",
	      (unsigned)mode, (long long)off, (long long)len, got, want);
	same_size(p);
}

static void test_fallocate(void **state)
{
	static const int modes[] = {
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE,
		PUNCH,
		FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | PUNCH,
		FALLOC_FL_COLLAPSE_RANGE,
		FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE,
		FALLOC_FL_INSERT_RANGE,
		FALLOC_FL_INSERT_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_UNSHARE_RANGE,
		FALLOC_FL_UNSHARE_RANGE | PUNCH,
		0x80,
		0x80 | FALLOC_FL_KEEP_SIZE,
		0x4,
		0x100,
		-1,
	};
	static const off_t lens[] = { INT64_MIN, -1,   0,     1,
				      100,	 4096, 32768, INT64_MAX };
	struct pair p;

	(void)state;
	for (unsigned a = 0; a < NR(access_modes); a++) {
		open_pair(&p, access_modes[a]);
		for (unsigned m = 0; m < NR(modes); m++)
			for (unsigned o = 0; o < NR(offsets); o++)
				for (unsigned l = 0; l < NR(lens); l++)
					same_fallocate(&p, modes[m], offsets[o],
						       lens[l]);
		close_pair(&p);
	}
}

/* D19: more than there is: the errno, and nothing has grown. (ext4 lets a file
 * grow as far as it gets, but for the last part.) */
static void huge(struct pair *p, int mode, off_t off)
{
	struct stat st;

	CHECK_IS(or_errno(fallocate(p->fd, mode, off, 1ll << 40)), -ENOSPC);
	CHECK_OK(ftruncate(p->fd, 0));
	CHECK_IS(dbh_fallocate(p->file, mode, off, 1ll << 40), -ENOSPC);
	CHECK_OK(dbh_fstat(p->file, &st));
	CHECK_IS(st.st_size, BYTES + 1);
	CHECK_OK(stat(p->ours, &st));
	CHECK(st.st_size <= BYTES + 1, "R16: it ends at %lld",
	      (long long)st.st_size);
}

static void test_d19_huge(void **state)
{
	char last = 0;
	struct pair p;

	(void)state;
	/* It takes all the space that there is. */
	if (dir == scratch_dir())
		skip();
	open_pair(&p, O_RDWR);
	CHECK_IS(dbh_pwrite(p.file, "y", 1, BYTES, DBH_DONTCACHE), 1);
	huge(&p, 0, 0);
	huge(&p, FALLOC_FL_KEEP_SIZE, 0);
	huge(&p, FALLOC_FL_ZERO_RANGE, BYTES + 1);
	/* What KEEP_SIZE has got of it goes. */
	CHECK_OK(dbh_ftruncate(p.file, BYTES + 1));
	CHECK_IS(dbh_pread(p.file, &last, 1, BYTES, 0), 1);
	CHECK_IS(last, 'y');
	close_pair(&p);
}

/* ---- lseek ------------------------------------------------------------- */

static void test_lseek(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p, O_RDONLY);
	for (unsigned o = 0; o < NR(offsets); o++) {
		CHECK_IS(dbh_lseek(p.file, offsets[o], SEEK_DATA),
			 or_errno(lseek(p.fd, offsets[o], SEEK_DATA)));
		CHECK_IS(dbh_lseek(p.file, offsets[o], SEEK_HOLE),
			 or_errno(lseek(p.fd, offsets[o], SEEK_HOLE)));
	}
	/* There is no offset to be moved. */
	CHECK_IS(dbh_lseek(p.file, 0, SEEK_SET), -EINVAL);
	CHECK_IS(dbh_lseek(p.file, 0, SEEK_CUR), -EINVAL);
	CHECK_IS(dbh_lseek(p.file, 0, 77), -EINVAL);
	close_pair(&p);
}

/* ---- copy_file_range --------------------------------------------------- */

static void same_copy(struct pair *in, off_t from, struct pair *out, off_t to,
		      size_t len, unsigned flags)
{
	off_t from2 = from, to2 = to;
	long long want = or_errno(
		copy_file_range(in->fd, &from2, out->fd, &to2, len, flags));
	long long got =
		dbh_copy_file_range(in->file, from, out->file, to, len, flags);

	/* It may stop at the last block that can be shared. */
	while (want > 0 && want < got) {
		ssize_t n = copy_file_range(in->fd, &from2, out->fd, &to2,
					    (size_t)(got - want), flags);

		CHECK(n > 0, "%lld +%zu to %lld: %zd (%s) after %lld of %lld",
		      (long long)from, len, (long long)to, n, strerror(errno),
		      want, got);
		want += n;
	}

	CHECK(got == want, "%lld +%zu to %lld: %lld, and the kernel says %lld",
	      (long long)from, len, (long long)to, got, want);
	same_size(out);
}

static void test_copy_access(void **state)
{
	struct pair in, out;

	(void)state;
	for (unsigned i = 0; i < NR(access_modes); i++) {
		for (unsigned o = 0; o < NR(access_modes); o++) {
			open_pair(&in, access_modes[i]);
			open_pair(&out, access_modes[o]);
			same_copy(&in, 5, &out, 100, 1000, 0);
			same_copy(&in, 5, &out, 100, 0, 0);
			same_copy(&in, 5, &out, 100, 10, 1);
			close_pair(&in);
			close_pair(&out);
		}
	}
}

static void test_copy_ranges(void **state)
{
	static const size_t lens[] = { 0, 1, 5000, SIZE_MAX / 2, SIZE_MAX };
	struct pair p, other;

	(void)state;
	open_pair(&p, O_RDWR);
	open_pair(&other, O_RDWR);
	for (unsigned f = 0; f < NR(offsets); f++) {
		for (unsigned t = 0; t < NR(offsets); t++) {
			for (unsigned l = 0; l < NR(lens); l++) {
				/* Nothing that would make a huge file. */
				if (offsets[t] > BYTES &&
				    offsets[t] < INT64_MAX && lens[l])
					continue;
				same_copy(&p, offsets[f], &other, offsets[t],
					  lens[l], 0);
				same_copy(&p, offsets[f], &p, offsets[t],
					  lens[l], 0);
			}
		}
	}
	close_pair(&p);
	close_pair(&other);
}

/* ---- RLIMIT_FSIZE ------------------------------------------------------ */

/* SIGXFSZ is blocked: was it sent? (TSan runs a handler when it likes.) */
static bool was_sent(void)
{
	struct timespec none = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	return sigtimedwait(&set, NULL, &none) == SIGXFSZ;
}

/* The same answer, and a signal or none. */
#define SAME_WITH_SIGNAL(ours, kernels)                                    \
	do {                                                               \
		long long want_ = or_errno(kernels), got_;                 \
		bool sent_ = was_sent();                                   \
		got_ = (ours);                                             \
		CHECK(got_ == want_, "%s: %lld, and the kernel says %lld", \
		      #ours, got_, want_);                                 \
		CHECK(was_sent() == sent_, "%s: a signal%s", #ours,        \
		      sent_ ? " was due" : "");                            \
	} while (0)

static void limited(struct pair *p, int mode, off_t off, off_t len)
{
	SAME_WITH_SIGNAL(dbh_fallocate(p->file, mode, off, len),
			 fallocate(p->fd, mode, off, len));
	same_size(p);
}

static void limited_copy(struct pair *p, off_t from, off_t to, size_t len)
{
	off_t from2 = from, to2 = to;

	SAME_WITH_SIGNAL(dbh_copy_file_range(p->file, from, p->file, to, len,
					     0),
			 copy_file_range(p->fd, &from2, p->fd, &to2, len, 0));
	same_size(p);
}

static void test_k4_limit(void **state)
{
	struct rlimit old, rl;
	struct pair p;
	sigset_t set;

	(void)state;
	CHECK_OK(getrlimit(RLIMIT_FSIZE, &old));
	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	open_pair(&p, O_RDWR);
	rl = (struct rlimit){ 30000, old.rlim_max };
	CHECK_OK(setrlimit(RLIMIT_FSIZE, &rl));
	limited(&p, 0, 0, 30001);
	limited(&p, FALLOC_FL_KEEP_SIZE, 0, 30001);
	limited(&p, FALLOC_FL_ZERO_RANGE, 25000, 5001);
	limited(&p, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 25000, 5001);
	limited(&p, PUNCH, 25000, 50000);
	limited_copy(&p, 0, 30000, 10);
	limited_copy(&p, 0, 40000, 10);
	limited_copy(&p, 0, 25000, 10000);
	limited(&p, 0, 29000, 1000);
	SAME_WITH_SIGNAL(dbh_ftruncate(p.file, 40000), ftruncate(p.fd, 40000));
	limited(&p, FALLOC_FL_INSERT_RANGE, 4096, 12288);
	CHECK_OK(setrlimit(RLIMIT_FSIZE, &old));
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	close_pair(&p);
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fallocate),
		cmocka_unit_test(test_d19_huge),
		cmocka_unit_test(test_lseek),
		cmocka_unit_test(test_copy_access),
		cmocka_unit_test(test_copy_ranges),
		cmocka_unit_test(test_k4_limit),
	};
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 8u << 20 };
	const char *dirs[] = { scratch_dir(), scratch_mount("xfs", 400, 0),
			       scratch_mount("ext4", 100, 0) };
	int failed = 0;

	(void)argc;
	(void)argv;
	guard(240);
	CHECK_OK(dbh_engine_create(&opts, &engine));
	for (unsigned i = 0; i < NR(dirs); i++) {
		dir = dirs[i];
		if (dir)
			failed += cmocka_run_group_tests(tests, NULL, NULL);
	}
	CHECK_OK(dbh_engine_destroy(engine));
	return failed;
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

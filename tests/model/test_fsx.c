// SPDX-License-Identifier: MIT
/*
 * fsx: one file through the engine and a plain one beside it, on the same file
 * system; the same calls go to both, and both answer alike and hold the same
 * bytes, at every moment. As fsx of xfstests does, with the kernel as the model.
 *
 * Proves R24 and the cases D18, D19 and D28 where it counts: on XFS, ext4, btrfs,
 * overlayfs and tmpfs, by both I/O methods, also while another program has the
 * file open (R22).
 *
 * test_fsx [SEED]: rounds from this seed; else from DBH_SEED or the clock.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dropbehind/dropbehind.h"
#include "scale.h"
#include "support/check.h"
#include "support/rng.h"
#include "support/scratch.h"

#define SPAN (1u << 20)

/**
 * struct fsx - a file of ours and a plain one
 * @other: a descriptor that another program could have; -1
 * @block: of the file system, or more
 * @log: the last calls, for who looks into a failure
 */
struct fsx {
	struct dbh_engine *engine;
	struct dbh_file *file;
	char ours[600], plain[600];
	int fd, other;
	size_t block;
	struct rng rng;
	char *buf, *buf2;
	char log[32][96];
	unsigned long step;
};

static const char *fs_of(const struct fsx *f)
{
	return f->ours;
}

static void print_log(const struct fsx *f)
{
	for (unsigned long i = f->step < 31 ? 0 : f->step - 31; i <= f->step;
	     i++)
		fprintf(stderr, "%6lu %s\n", i, f->log[i % 32]);
}

#define NOTE(f, ...) \
	snprintf((f)->log[(f)->step % 32], sizeof((f)->log[0]), __VA_ARGS__)

/* Both have answered alike. */
static bool same(struct fsx *f, long long ours, long long plain)
{
	if (ours != plain)
		print_log(f);
	CHECK(ours == plain, "%s: we say %lld, the kernel %lld", fs_of(f), ours,
	      plain);
	return ours >= 0;
}

static long long or_errno(long long res)
{
	return res < 0 ? -errno : res;
}

static size_t size_of(struct fsx *f)
{
	struct stat st;

	CHECK_OK(fstat(f->fd, &st));
	return (size_t)st.st_size;
}

/* ---- one call ---------------------------------------------------------- */

static unsigned flags_of(struct fsx *f)
{
	static const unsigned flags[] = { 0, DBH_DONTCACHE, DBH_DONTCACHE,
					  DBH_DONTCACHE | DBH_DEFER,
					  DBH_DONTCACHE | DBH_DSYNC };

	return flags[rng_below(&f->rng, 5)];
}

static size_t choose(struct fsx *f, size_t *len)
{
	size_t pos;

	*len = rng_size(&f->rng, rng_chance(&f->rng, 20) ? SPAN : 65536);
	pos = rng_below(&f->rng, SPAN - *len + 1);
	/* Often from or to a border of blocks. */
	if (rng_chance(&f->rng, 30))
		pos -= pos % f->block;
	if (rng_chance(&f->rng, 20) && *len > f->block)
		*len -= (pos + *len) % f->block;
	return pos;
}

static void do_write(struct fsx *f)
{
	unsigned flags = flags_of(f);
	size_t len, pos = choose(f, &len);

	NOTE(f, "write %#zx +%#zx flags %x", pos, len, flags);
	rng_fill(&f->rng, f->buf, len);
	same(f, dbh_pwrite(f->file, f->buf, len, (off_t)pos, flags),
	     or_errno(pwrite(f->fd, f->buf, len, (off_t)pos)));
}

static void do_append(struct fsx *f)
{
	size_t len = rng_size(&f->rng, 20000), size = size_of(f);

	if (size + len > SPAN)
		return;
	NOTE(f, "append +%#zx", len);
	rng_fill(&f->rng, f->buf, len);
	same(f, dbh_pwrite(f->file, f->buf, len, 0, flags_of(f) | DBH_APPEND),
	     or_errno(pwrite(f->fd, f->buf, len, (off_t)size)));
}

static void compare(struct fsx *f, size_t pos, size_t len, unsigned flags)
{
	ssize_t n = dbh_pread(f->file, f->buf, len, (off_t)pos, flags);

	same(f, n, or_errno(pread(f->fd, f->buf2, len, (off_t)pos)));
	for (ssize_t i = 0; i < n; i++) {
		if (f->buf[i] == f->buf2[i])
			continue;
		print_log(f);
		CHECK(f->buf[i] == f->buf2[i],
		      "%s: byte %#zx is %02x, not %02x", fs_of(f),
		      pos + (size_t)i, (unsigned char)f->buf[i],
		      (unsigned char)f->buf2[i]);
	}
}

static void do_read(struct fsx *f)
{
	size_t len, pos = choose(f, &len);

	NOTE(f, "read %#zx +%#zx", pos, len);
	compare(f, pos, len, rng_chance(&f->rng, 50) ? DBH_DONTCACHE : 0);
}

static void do_truncate(struct fsx *f)
{
	size_t size = rng_below(&f->rng, SPAN + 1);

	if (rng_chance(&f->rng, 30))
		size -= size % f->block;
	NOTE(f, "truncate %#zx", size);
	same(f, dbh_ftruncate(f->file, (off_t)size),
	     or_errno(ftruncate(f->fd, (off_t)size)));
}

static void both_fallocate(struct fsx *f, int mode, size_t pos, size_t len)
{
	NOTE(f, "fallocate %#x %#zx +%#zx", (unsigned)mode, pos, len);
	same(f, dbh_fallocate(f->file, mode, (off_t)pos, (off_t)len),
	     or_errno(fallocate(f->fd, mode, (off_t)pos, (off_t)len)));
}

static void do_fallocate(struct fsx *f)
{
	static const int modes[] = {
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_UNSHARE_RANGE,
	};
	size_t len, pos = choose(f, &len);

	both_fallocate(f, modes[rng_below(&f->rng, 7)], pos, len);
}

/* Now and then not on blocks, or too much of it. */
static void do_move(struct fsx *f)
{
	size_t block = rng_chance(&f->rng, 5) ? 100 : f->block;
	size_t size = size_of(f);
	size_t pos = rng_below(&f->rng, size / block + 1) * block;
	size_t len = rng_size(&f->rng, 16) * block;

	if (rng_chance(&f->rng, 50))
		both_fallocate(f, FALLOC_FL_COLLAPSE_RANGE, pos, len);
	else if (size + len <= SPAN)
		both_fallocate(f, FALLOC_FL_INSERT_RANGE, pos, len);
}

/* The kernel may share less than it was asked for, where blocks do not fit. */
static ssize_t plain_copy(struct fsx *f, off_t from, off_t to, size_t len)
{
	size_t size = size_of(f), done = 0;
	ssize_t n = 0;

	/* Not what it has just appended. */
	if ((size_t)from + len > size)
		len = (size_t)from < size ? size - (size_t)from : 0;
	while (done < len) {
		n = or_errno(copy_file_range(f->fd, &from, f->fd, &to,
					     len - done, 0));
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done ? (ssize_t)done : n;
}

static void do_copy(struct fsx *f)
{
	size_t len, from = choose(f, &len);
	size_t to = rng_below(&f->rng, SPAN - len + 1);
	size_t off = (to - from) & (f->block - 1);

	/* Alike on blocks, so that they can be shared. */
	if (rng_chance(&f->rng, 60) && off <= to)
		to -= off;
	NOTE(f, "copy %#zx +%#zx to %#zx", from, len, to);
	same(f,
	     dbh_copy_file_range(f->file, (off_t)from, f->file, (off_t)to, len,
				 0),
	     plain_copy(f, (off_t)from, (off_t)to, len));
}

/* Where the kernel has data that is not zero, we have data. */
static void do_seek(struct fsx *f)
{
	size_t size = size_of(f), pos = rng_below(&f->rng, size + 1), end;
	off_t hole, data;

	NOTE(f, "seek %#zx", pos);
	hole = dbh_lseek(f->file, (off_t)pos, SEEK_HOLE);
	if (pos >= size) {
		same(f, hole, -ENXIO);
		return;
	}
	data = dbh_lseek(f->file, hole, SEEK_DATA);
	end = data < 0 ? size : (size_t)data;
	if (hole < (off_t)pos || hole > (off_t)size)
		print_log(f);
	CHECK(hole >= (off_t)pos && hole <= (off_t)size,
	      "%s: a hole from %#zx on at %#llx", fs_of(f), pos,
	      (unsigned long long)hole);
	CHECK(data >= hole || data == -ENXIO, "%s: data at %lld", fs_of(f),
	      (long long)data);
	CHECK_IS(pread(f->fd, f->buf2, end - (size_t)hole, hole),
		 end - (size_t)hole);
	for (size_t i = 0; i < end - (size_t)hole; i++) {
		if (!f->buf2[i])
			continue;
		print_log(f);
		CHECK(!f->buf2[i],
		      "%s: byte %#zx lies in the hole [%#zx, %#zx)", fs_of(f),
		      (size_t)hole + i, (size_t)hole, end);
	}
}

static void do_sync(struct fsx *f)
{
	NOTE(f, "sync");
	CHECK_OK(rng_chance(&f->rng, 50) ? dbh_fsync(f->file) :
					   dbh_fdatasync(f->file));
}

/* The last close: what is in the file then is all there is. */
static void do_reopen(struct fsx *f)
{
	int flags = rng_chance(&f->rng, 20) ? O_RDWR | O_DSYNC : O_RDWR;

	NOTE(f, "reopen");
	CHECK_OK(dbh_close(f->file));
	CHECK_OK(dbh_open(f->engine, f->ours, flags, 0600, &f->file));
	compare(f, 0, SPAN + 1, DBH_DONTCACHE);
}

/* Another program opens it, or has closed it. */
static void do_share(struct fsx *f)
{
	NOTE(f, "%s",
	     f->other < 0 ? "another opens it" : "the other closes it");
	if (f->other >= 0) {
		close(f->other);
		f->other = -1;
		return;
	}
	f->other = open(f->ours, O_RDWR | O_CLOEXEC);
	CHECK(f->other >= 0, "%s: %s", f->ours, strerror(errno));
}

/* What another writes beside us is there for us at once, while it is shared. */
static void do_other(struct fsx *f)
{
	struct dbh_file_info info = { .struct_size = sizeof(info) };
	size_t len, pos = choose(f, &len);

	CHECK_OK(dbh_file_info(f->file, &info));
	if (f->other < 0 || info.lease != DBH_LEASE_SHARED)
		return;
	NOTE(f, "another writes %#zx +%#zx", pos, len);
	rng_fill(&f->rng, f->buf, len);
	same(f, or_errno(pwrite(f->other, f->buf, len, (off_t)pos)),
	     or_errno(pwrite(f->fd, f->buf, len, (off_t)pos)));
}

static const struct {
	void (*call)(struct fsx *f);
	unsigned weight;
} calls[] = {
	{ do_write, 300 },   { do_append, 40 },	    { do_read, 180 },
	{ do_truncate, 60 }, { do_fallocate, 170 }, { do_move, 60 },
	{ do_copy, 60 },     { do_seek, 60 },	    { do_sync, 30 },
	{ do_reopen, 20 },   { do_share, 10 },	    { do_other, 10 },
};

static void step(struct fsx *f)
{
	unsigned at = (unsigned)rng_below(&f->rng, 1000), i = 0;
	struct stat st;

	while (at >= calls[i].weight)
		at -= calls[i++].weight;
	f->log[f->step % 32][0] = '\0';
	calls[i].call(f);
	CHECK_OK(dbh_fstat(f->file, &st));
	same(f, st.st_size, (long long)size_of(f));
	f->step++;
}

/* ---- rounds ------------------------------------------------------------ */

static void fsx_up(struct fsx *f, const char *dir, uint64_t seed)
{
	struct dbh_options opts = { .struct_size = sizeof(opts) };

	memset(f, 0, sizeof(*f));
	f->rng = rng_fork(seed, 0);
	f->other = -1;
	f->buf = malloc(SPAN + 1);
	f->buf2 = malloc(SPAN + 1);
	CHECK(f->buf && f->buf2, "no memory");
	snprintf(f->ours, sizeof(f->ours), "%s", scratch_path(dir));
	snprintf(f->plain, sizeof(f->plain), "%s", scratch_path(dir));
	f->block = 4096u << rng_below(&f->rng, 2) * 2;
	opts.memory_bytes = (size_t)1 << rng_between(&f->rng, 20, 24);
	opts.expire_ms = rng_chance(&f->rng, 50) ? 20 : 30000;
	opts.io_method = rng_chance(&f->rng, 50) ? DBH_IO_URING :
						   DBH_IO_THREADS;
	printf("seed %llu: %s, %zu KiB, expire %u ms, method %u\n",
	       (unsigned long long)seed, dir, opts.memory_bytes >> 10,
	       opts.expire_ms, opts.io_method);
	CHECK_OK(dbh_engine_create(&opts, &f->engine));
	CHECK_OK(
		dbh_open(f->engine, f->ours, O_RDWR | O_CREAT, 0600, &f->file));
	f->fd = open(f->plain, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(f->fd >= 0, "%s", f->plain);
}

static void fsx_down(struct fsx *f)
{
	compare(f, 0, SPAN + 1, 0);
	if (f->other >= 0)
		close(f->other);
	CHECK_OK(dbh_close(f->file));
	CHECK_OK(dbh_engine_destroy(f->engine));
	close(f->fd);
	unlink(f->ours);
	unlink(f->plain);
	free(f->buf);
	free(f->buf2);
}

static void run_round(const char *dir, uint64_t seed, unsigned long steps)
{
	struct fsx f;

	guard(240);
	fsx_up(&f, dir, seed);
	while (f.step < steps)
		step(&f);
	fsx_down(&f);
}

static const struct {
	const char *fs, *options;
	unsigned megabytes, sector;
} mounts[] = {
	{ "xfs", "", 400, 4096 },      { "xfs", "-b size=16384", 400, 0 },
	{ "ext4", "-b 1024", 200, 0 }, { "btrfs", "", 400, 0 },
	{ "overlay", "", 0, 0 },
};

#define NR_MOUNTS (sizeof(mounts) / sizeof(mounts[0]))

static int run(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : test_seed();
	const char *dirs[NR_MOUNTS + 2];
	unsigned nr = 0;

	dirs[nr++] = scratch_dir();
	dirs[nr++] = scratch_shm();
	for (unsigned i = 0; i < NR_MOUNTS; i++)
		dirs[nr++] = scratch_mount_with(mounts[i].fs, mounts[i].options,
						mounts[i].megabytes,
						mounts[i].sector);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < nr; i++)
			if (dirs[i])
				run_round(dirs[i], seed + round * 100 + i,
					  test_scale(2500));
	return 0;
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

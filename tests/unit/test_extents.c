// SPDX-License-Identifier: MIT
/*
 * Fallocate, copies and holes on real file systems: what the kernel keeps of
 * them in its cache (nothing, R16), that sparse files stay sparse (D28), that
 * blocks are shared and unshared, and that it all is durable (R24, R14).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>

#include "block/kcache.h"
#include "support/fiemap.h"
#include "support/rig.h"
#include "support/scratch.h"

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define MIB (1u << 20)
#define MAX_DIRS 4u

/* With the same file system each time: what cannot be made is left out. */
static const char *dirs[MAX_DIRS], *names[MAX_DIRS];
static unsigned nr_dirs;

struct env {
	const char *fs;
	struct dbh_engine *engine;
	struct dbh_file *file;
	char path[600];
	int fd; /* the engine's own open file */
};

static void up(struct env *e, unsigned i)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 16u << 20 };

	e->fs = names[i];
	snprintf(e->path, sizeof(e->path), "%s", scratch_path(dirs[i]));
	CHECK_OK(dbh_engine_create(&opts, &e->engine));
	CHECK_OK(
		dbh_open(e->engine, e->path, O_RDWR | O_CREAT, 0600, &e->file));
	e->fd = scratch_borrow_fd(e->path);
	CHECK(e->fd >= 0, "%s", e->path);
}

static void down(struct env *e)
{
	close(e->fd);
	CHECK_OK(dbh_close(e->file));
	CHECK_OK(dbh_engine_destroy(e->engine));
	unlink(e->path);
}

static void for_each_fs(void (*test)(struct env *e))
{
	guard(120);
	if (!nr_dirs) {
		print_message("no file system to test on\n");
		skip();
	}
	for (unsigned i = 0; i < nr_dirs; i++) {
		struct env e;

		up(&e, i);
		test(&e);
		down(&e);
	}
}

static void put(struct env *e, size_t len, uint64_t pos, unsigned gen,
		unsigned flags)
{
	struct rig rig = { .file = e->file };

	rig_write(&rig, len, pos, gen, flags);
}

static void want(struct env *e, size_t len, uint64_t pos, unsigned gen)
{
	struct rig rig = { .file = e->file };

	rig_read(&rig, len, pos, gen, DBH_DONTCACHE);
}

/* The bytes that were at @from. */
static void want_copy(struct env *e, size_t len, uint64_t pos, uint64_t from)
{
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	CHECK_IS(dbh_pread(e->file, buf, len, (off_t)pos, DBH_DONTCACHE), len);
	pattern_check(buf, len, from, 1);
	free(buf);
}

static void want_zeros(struct env *e, size_t len, uint64_t pos)
{
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	CHECK_IS(dbh_pread(e->file, buf, len, (off_t)pos, DBH_DONTCACHE), len);
	for (size_t i = 0; i < len; i++)
		CHECK(!buf[i], "%s: byte %llu", e->fs,
		      (unsigned long long)pos + i);
	free(buf);
}

static uint64_t blocks_kib(struct env *e)
{
	struct stat st;

	CHECK_OK(dbh_fsync(e->file));
	CHECK_OK(dbh_fstat(e->file, &st));
	return (uint64_t)st.st_blocks / 2;
}

/* Pages of the file in the kernel's cache. */
static long in_kernel(struct env *e)
{
	struct kcache kc = { e->fd, false };

	return (long)kcache_resident(&kc, 0, 1ull << 40);
}

static int call(struct env *e, int mode, uint64_t pos, uint64_t len)
{
	return dbh_fallocate(e->file, mode, (off_t)pos, (off_t)len);
}

/* ---- what the kernel keeps --------------------------------------------- */

static void residency(struct env *e)
{
	static const int modes[] = {
		PUNCH,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE,
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_UNSHARE_RANGE,
	};

	for (unsigned i = 0; i < 6 * 20; i++) {
		uint64_t pos = i * 50000;
		int err;

		put(e, 50000, pos, 1, DBH_DONTCACHE);
		CHECK_OK(dbh_fsync(e->file));
		/* Parts of blocks, in the file and behind its end. */
		err = call(e, modes[i % 6], pos + 10001, 3001 + i % 2 * 50000);
		CHECK(!err || err == -EOPNOTSUPP, "%s: %d", e->fs, err);
		/* But the block of the end. */
		CHECK(in_kernel(e) <= 1, "%s: %ld pages after mode %#x", e->fs,
		      in_kernel(e), (unsigned)modes[i % 6]);
	}
}

static void test_r16_kernel_keeps_nothing(void **state)
{
	(void)state;
	for_each_fs(residency);
}

/* ---- sparse files ------------------------------------------------------- */

#define FAR (10ull << 30)

/* D28: three extents in 10 GiB. */
static void sparse(struct env *e)
{
	static const uint64_t at[] = { 4096 * 10, FAR / 2 + 4096, FAR - 5000 };

	CHECK_OK(dbh_ftruncate(e->file, FAR));
	for (unsigned i = 0; i < 3; i++)
		put(e, 5000, at[i], 1, i % 2 ? 0 : DBH_DONTCACHE);
	for (unsigned synced = 0; synced < 2; synced++) {
		uint64_t from = 0;

		for (unsigned i = 0; i < 3; i++) {
			off_t data = dbh_lseek(e->file, (off_t)from, SEEK_DATA);
			off_t hole = dbh_lseek(e->file, data, SEEK_HOLE);

			CHECK(data <= (off_t)at[i] &&
				      data > (off_t)at[i] - 65536,
			      "%s: data at %lld", e->fs, (long long)data);
			CHECK(hole >= (off_t)at[i] + 5000 &&
				      hole < (off_t)at[i] + 5000 + 65536,
			      "%s: a hole at %lld", e->fs, (long long)hole);
			from = (uint64_t)hole;
		}
		if (!synced)
			CHECK(blocks_kib(e) <= 3 * 12 + 16, "%s: %llu KiB",
			      e->fs, (unsigned long long)blocks_kib(e));
	}
	want_zeros(e, 100000, FAR / 2 - 100000);
	CHECK(blocks_kib(e) <= 3 * 12 + 16, "%s", e->fs);
}

static void test_d28_sparse(void **state)
{
	(void)state;
	for_each_fs(sparse);
}

/* A hole of parts of blocks, in what is dirty and in what is not: nothing is
 * allocated for zeros. */
static void punched(struct env *e)
{
	uint64_t before;

	put(e, MIB, 0, 1, 0);
	CHECK_OK(call(e, PUNCH, 4097, MIB - 4097));
	CHECK(blocks_kib(e) <= 8 + 16, "%s: %llu KiB", e->fs,
	      (unsigned long long)blocks_kib(e));
	put(e, MIB, MIB, 1, DBH_DONTCACHE);
	before = blocks_kib(e);
	/* In a hole there is nothing to punch. */
	CHECK_OK(call(e, PUNCH, MIB / 2 + 10, 3000));
	CHECK(blocks_kib(e) <= before, "%s", e->fs);
	CHECK_OK(call(e, PUNCH, MIB + 100, MIB / 2));
	CHECK(blocks_kib(e) <= before - 400, "%s", e->fs);
	want(e, 4097, 0, 1);
	want_zeros(e, MIB - 4097, 4097);
	want(e, 100, MIB, 1);
	want_zeros(e, MIB / 2, MIB + 100);
	want(e, MIB / 2 - 100, MIB + 100 + MIB / 2, 1);
}

static void test_d28_punched(void **state)
{
	(void)state;
	for_each_fs(punched);
}

/* KEEP_SIZE allocates behind the end; a truncate to the size it has frees it,
 * and no write before loses it. */
static void preallocated(struct env *e)
{
	struct stat st;

	put(e, 5000, 0, 1, DBH_DONTCACHE);
	CHECK_OK(call(e, FALLOC_FL_KEEP_SIZE, 0, 8 * MIB));
	put(e, 5000, 5000, 1, DBH_DONTCACHE);
	CHECK_OK(dbh_fstat(e->file, &st));
	CHECK_IS(st.st_size, 10000);
	CHECK(blocks_kib(e) >= 8 * 1024, "%s: %llu KiB", e->fs,
	      (unsigned long long)blocks_kib(e));
	CHECK_OK(dbh_ftruncate(e->file, 10000));
	CHECK(blocks_kib(e) <= 64, "%s: %llu KiB", e->fs,
	      (unsigned long long)blocks_kib(e));
	want(e, 10000, 0, 1);
}

static void test_preallocated(void **state)
{
	(void)state;
	for_each_fs(preallocated);
}

/* ---- shared blocks ------------------------------------------------------ */

/* Bytes of the file whose blocks others have too. */
static uint64_t shared_bytes(int fd)
{
	struct fiemap *map = fiemap_get(fd);
	uint64_t sum = 0;

	for (unsigned i = 0; i < map->fm_mapped_extents; i++)
		if (map->fm_extents[i].fe_flags & FIEMAP_EXTENT_SHARED)
			sum += map->fm_extents[i].fe_length;
	free(map);
	return sum;
}

static bool can_share(const struct env *e)
{
	return !strcmp(e->fs, "xfs") || !strcmp(e->fs, "btrfs");
}

/* A second file beside that of @e, in its place. */
static void open_other(struct env *e)
{
	strcat(e->path, ".copy");
	CHECK_OK(
		dbh_open(e->engine, e->path, O_RDWR | O_CREAT, 0600, &e->file));
}

/* Into another file, whole, with an end that is no whole block. */
static void copied(struct env *e)
{
	struct env to = *e;
	char byte;
	int fd;

	open_other(&to);
	put(e, 100000, 0, 1, DBH_DONTCACHE);
	put(e, 100001, 4 * MIB, 1, 0);
	put(&to, 50000, 0, 2, 0);
	CHECK_IS(dbh_copy_file_range(e->file, 0, to.file, 0, SIZE_MAX / 2, 0),
		 4 * MIB + 100001);
	want(&to, 100000, 0, 1);
	want_zeros(&to, 4 * MIB - 100000, 100000);
	want(&to, 100001, 4 * MIB, 1);
	CHECK_IS(dbh_pread(to.file, &byte, 1, 4 * MIB + 100001, 0), 0);
	/* Shared, or at least not written where there is nothing. */
	CHECK(blocks_kib(&to) <= 240, "%s: %llu KiB", e->fs,
	      (unsigned long long)blocks_kib(&to));
	fd = scratch_borrow_fd(to.path);
	if (can_share(e))
		CHECK(shared_bytes(fd) >= 200000, "%s: %llu bytes shared",
		      e->fs, (unsigned long long)shared_bytes(fd));
	CHECK(in_kernel(e) <= 1, "%s: %ld pages of the source", e->fs,
	      in_kernel(e));
	close(fd);
	/* One does not change with the other. */
	put(&to, 5000, 1000, 3, DBH_DONTCACHE);
	want(e, 100000, 0, 1);
	CHECK_OK(dbh_close(to.file));
	unlink(to.path);
}

static void test_copy_shares(void **state)
{
	(void)state;
	for_each_fs(copied);
}

/* Unshared, with what is dirty over it, and nothing is left of the copying. */
static void unshared(struct env *e)
{
	int err;

	if (!can_share(e))
		return;
	put(e, 3 * MIB, 0, 1, DBH_DONTCACHE);
	CHECK_IS(dbh_copy_file_range(e->file, 0, e->file, 4 * MIB, 3 * MIB, 0),
		 3 * MIB);
	CHECK(shared_bytes(e->fd) >= 6 * MIB, "%s: %llu", e->fs,
	      (unsigned long long)shared_bytes(e->fd));
	put(e, 5000, 70001, 2, 0);
	err = call(e, FALLOC_FL_UNSHARE_RANGE, 100, 3 * MIB - 200);
	if (err == -EOPNOTSUPP)
		return; /* btrfs */
	CHECK_OK(err);
	CHECK_IS(in_kernel(e), 0);
	CHECK_IS(shared_bytes(e->fd), 0);
	want(e, 70001, 0, 1);
	want(e, 5000, 70001, 2);
	want_copy(e, 3 * MIB, 4 * MIB, 0);
}

static void test_unshare(void **state)
{
	(void)state;
	for_each_fs(unshared);
}

/* Two threads that copy between two files, each the other way. */
static void *copy_there(void *arg)
{
	struct dbh_file **file = arg;

	for (unsigned i = 0; i < 200; i++)
		CHECK_IS(dbh_copy_file_range(file[0], 0, file[1], MIB, MIB, 0),
			 MIB);
	return NULL;
}

static void crossed(struct env *e)
{
	struct dbh_file *there[2], *back[2];
	struct env to = *e;
	pthread_t thread;

	open_other(&to);
	put(e, MIB, 0, 1, DBH_DONTCACHE);
	put(&to, MIB, 0, 2, DBH_DONTCACHE);
	there[0] = back[1] = e->file;
	there[1] = back[0] = to.file;
	CHECK_OK(-pthread_create(&thread, NULL, copy_there, there));
	copy_there(back);
	pthread_join(thread, NULL);
	CHECK_OK(dbh_close(to.file));
	unlink(to.path);
}

static void test_copy_both_ways(void **state)
{
	(void)state;
	for_each_fs(crossed);
}

/* ---- others have it open (R22) -------------------------------------------- */

static void wait_shared(struct env *e)
{
	struct dbh_file_info info = { .struct_size = sizeof(info) };

	do {
		usleep(1000);
		CHECK_OK(dbh_file_info(e->file, &info));
	} while (info.lease != DBH_LEASE_SHARED);
}

static void want_other(struct env *e, int fd, size_t len, uint64_t pos,
		       unsigned gen)
{
	char *buf = calloc(1, len), *zeros = calloc(1, len);

	CHECK(buf && zeros, "no memory");
	CHECK(pread(fd, buf, len, (off_t)pos) == (ssize_t)len, "%s", e->fs);
	if (gen)
		pattern_check(buf, len, pos, gen);
	else
		CHECK(!memcmp(buf, zeros, len), "%s: not zero", e->fs);
	free(buf);
	free(zeros);
}

/* What we change the other one sees at once, and we what it has written beside
 * it. */
static void shared(struct env *e)
{
	char *buf = malloc(MIB);
	struct stat st;
	int fd;

	CHECK(buf, "no memory");
	pattern_fill(buf, MIB, MIB, 2);
	put(e, MIB, 0, 1, 0);
	fd = open(e->path, O_RDWR);
	CHECK(fd >= 0, "%s", e->path);
	wait_shared(e);
	CHECK_IS(pwrite(fd, buf, MIB, MIB), MIB);
	CHECK_OK(call(e, PUNCH, 100000, MIB));
	want_other(e, fd, 100000, 0, 1);
	want_other(e, fd, MIB, 100000, 0);
	want(e, MIB - 100000, MIB + 100000, 2);
	/* The other one makes it longer, and we much longer. */
	CHECK_OK(ftruncate(fd, 3 * MIB));
	CHECK_OK(call(e, 0, 0, 4 * MIB + 5));
	CHECK_OK(dbh_fstat(e->file, &st));
	CHECK_IS(st.st_size, 4 * MIB + 5);
	CHECK_OK(fstat(fd, &st));
	CHECK_IS(st.st_size, 4 * MIB + 5);
	/* Data of the other one is data, and can be copied. */
	CHECK_IS(dbh_lseek(e->file, MIB + 200000, SEEK_DATA), MIB + 200000);
	CHECK_IS(dbh_copy_file_range(e->file, 0, e->file, 4 * MIB, 100000, 0),
		 100000);
	CHECK_IS(pread(fd, buf, 100000, 4 * MIB), 100000);
	pattern_check(buf, 100000, 0, 1);
	close(fd);
	free(buf);
}

static void test_r22_shared(void **state)
{
	(void)state;
	for_each_fs(shared);
}

static void add_dir(const char *name, const char *options)
{
	const char *dir = scratch_mount_with(name, options, 400, 0);

	if (!dir)
		return;
	names[nr_dirs] = name;
	dirs[nr_dirs++] = dir;
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r16_kernel_keeps_nothing),
		cmocka_unit_test(test_d28_sparse),
		cmocka_unit_test(test_d28_punched),
		cmocka_unit_test(test_preallocated),
		cmocka_unit_test(test_copy_shares),
		cmocka_unit_test(test_unshare),
		cmocka_unit_test(test_copy_both_ways),
		cmocka_unit_test(test_r22_shared),
	};

	(void)argc;
	(void)argv;
	guard(240);
	add_dir("xfs", "");
	add_dir("ext4", "");
	add_dir("btrfs", "");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

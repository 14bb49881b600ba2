// SPDX-License-Identifier: MIT
/*
 * Real devices that err, and real file systems that are full (R15; K1 and K3 of
 * others' bugs): nothing that was acknowledged is lost, nobody is told that it
 * is safe before it is, and each handle hears of it.
 *
 * A device errs here because it is a loop device over a sparse image in a tmpfs
 * that has no room. Later that grows, and all is well again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "support/fiemap.h"
#include "support/rig.h"
#include "support/scratch.h"

#define MIB (1u << 20)
#define RECORD 47008u
#define DATA_BYTES (8u * MIB)

static struct dbh_engine *engine_up(void)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 64 * MIB };
	struct dbh_engine *e;

	guard(120);
	CHECK_OK(dbh_engine_create(&opts, &e));
	return e;
}

static struct dbh_file *open_file(struct dbh_engine *e, const char *path)
{
	struct dbh_file *file;

	CHECK_OK(dbh_open(e, path, O_RDWR | O_CREAT, 0600, &file));
	return file;
}

static bool is_no_room(int err)
{
	return err == -EIO || err == -ENOSPC;
}

/* What the file holds for anybody else. */
static void check_file(const char *path, size_t len, unsigned gen)
{
	char *buf = malloc(len + 1);
	int fd = open(path, O_RDONLY);

	CHECK(buf && fd >= 0, "%s", path);
	CHECK_IS(read(fd, buf, len + 1), len);
	pattern_check(buf, len, 0, gen);
	close(fd);
	free(buf);
}

/* ---- a device that errs ---------------------------------------------- */

/**
 * struct thin - a file system on a device that has no room for the file's data
 * @tmpfs: where the image lies
 */
struct thin {
	const char *tmpfs, *fs;
	char path[600];
};

static bool thin_up(struct thin *t, const char *fs, const char *options,
		    unsigned megabytes)
{
	t->tmpfs = scratch_mount("tmpfs", 2 * megabytes, 0);
	t->fs = t->tmpfs ?
			scratch_mount_thin(t->tmpfs, fs, options, megabytes) :
			NULL;
	if (!t->fs)
		return false;
	snprintf(t->path, sizeof(t->path), "%s", scratch_path(t->fs));
	return true;
}

/* With some room left the loop driver would write a part of a request, and take
 * that for success: so there is none at all, or enough. */
static void set_room(const struct thin *t, size_t spare)
{
	struct statvfs vfs;
	char data[64];

	CHECK_OK(statvfs(t->tmpfs, &vfs));
	snprintf(data, sizeof(data), "size=%llu",
		 (vfs.f_blocks - vfs.f_bfree) *
				 (unsigned long long)vfs.f_bsize +
			 spare);
	CHECK_OK(mount(NULL, t->tmpfs, NULL, MS_REMOUNT, data));
}

/* Take the blocks of the file's data from under it: whatever is written there
 * needs room in the image again. Nothing else does: a log would be torn. */
static void punch_device(const struct thin *t)
{
	int fd = open(t->path, O_RDONLY), image;
	struct fiemap *map;
	uint64_t bytes = 0;
	char path[600];

	snprintf(path, sizeof(path), "%s/image", t->tmpfs);
	image = open(path, O_RDWR);
	CHECK(fd >= 0 && image >= 0, "%s", path);
	CHECK_OK(fallocate(image, 0, 0, lseek(image, 0, SEEK_END)));
	map = fiemap_get(fd);
	for (unsigned i = 0; i < map->fm_mapped_extents; i++) {
		const struct fiemap_extent *x = &map->fm_extents[i];

		CHECK(!(x->fe_flags &
			(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_UNWRITTEN)),
		      "extent %u: %x", i, x->fe_flags);
		CHECK_OK(fallocate(image,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (off_t)x->fe_physical, (off_t)x->fe_length));
		bytes += x->fe_length;
	}
	free(map);
	CHECK(bytes >= DATA_BYTES, "bytes without blocks");
	close(fd);
	close(image);
}

static void write_all(struct dbh_file *file, unsigned gen, unsigned flags)
{
	struct rig rig = { .file = file };

	for (uint64_t pos = 0; pos < DATA_BYTES; pos += RECORD)
		rig_write(&rig, MIN(RECORD, DATA_BYTES - pos), pos, gen, flags);
}

static void device_errs(const struct thin *t, unsigned flags)
{
	struct dbh_engine *e = engine_up();
	struct dbh_file *a = open_file(e, t->path), *b;
	struct rig rig = { .engine = e, .file = a };
	int err;

	write_all(a, 1, DBH_DONTCACHE);
	CHECK_OK(dbh_fsync(a));
	CHECK_OK(dbh_close(a));
	punch_device(t);
	set_room(t, 0);
	a = rig.file = open_file(e, t->path);
	b = open_file(e, t->path);
	write_all(a, 2, flags);
	for (unsigned i = 0; i < 3; i++) {
		err = dbh_fsync(a);
		CHECK(is_no_room(err), "sync %u of what cannot be written: %d",
		      i, err);
	}
	CHECK(rig_residency(&rig).dirty, "the data is gone");
	/* The last close does not lose it, nor does the engine's end. */
	CHECK_OK(dbh_close(a));
	err = dbh_close(b);
	CHECK(is_no_room(err), "the last close: %d", err);
	err = dbh_engine_destroy(e);
	CHECK(is_no_room(err), "the engine's end: %d", err);

	set_room(t, 2 * DATA_BYTES);
	a = open_file(e, t->path);
	b = open_file(e, t->path);
	while ((err = dbh_fsync(a)))
		CHECK(is_no_room(err), "%d", err);
	CHECK_OK(dbh_fsync(a));
	CHECK_OK(dbh_close(a));
	err = dbh_close(b);
	CHECK(!err || is_no_room(err), "%d", err);
	CHECK_OK(dbh_engine_destroy(e));
	CHECK(scratch_remount(t->fs), "%s", t->fs);
	check_file(t->path, DATA_BYTES, 2);
}

static void on_thin(const char *fs, const char *options, unsigned megabytes,
		    unsigned flags)
{
	struct thin t;

	if (!thin_up(&t, fs, options, megabytes))
		skip();
	device_errs(&t, flags);
}

/* All that mkfs would leave for later is written, so that only data has no
 * room. */
#define EXT4_WHOLE "-b 4096 -E lazy_itable_init=0,lazy_journal_init=0 -J size=4"

static void test_k1_ext4_uncached(void **state)
{
	(void)state;
	on_thin("ext4", EXT4_WHOLE, 64, DBH_DONTCACHE);
}

static void test_k1_ext4_cached(void **state)
{
	(void)state;
	on_thin("ext4", EXT4_WHOLE, 64, 0);
}

static void test_k1_xfs_uncached(void **state)
{
	(void)state;
	on_thin("xfs", "", 320, DBH_DONTCACHE);
}

/* ---- a file system that is full -------------------------------------- */

/* Leave @bytes to others. */
static void fill_up(const char *path, const char *dir, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	struct statvfs vfs;
	off_t len = 0;

	CHECK(fd >= 0, "%s", path);
	for (;;) {
		size_t left;

		CHECK_OK(statvfs(dir, &vfs));
		left = vfs.f_bfree * vfs.f_frsize;
		if (left <= bytes + MIB)
			break;
		if (fallocate(fd, 0, len, (off_t)(left - bytes) / 2))
			break;
		len += (off_t)(left - bytes) / 2;
	}
	CHECK(len, "nothing was filled");
	close(fd);
}

/* 7 MiB into 2 MiB: somebody is told, and nothing that was taken in is lost. */
static void full(const char *fs, unsigned megabytes, unsigned flags)
{
	const char *dir = scratch_mount(fs, megabytes, 0);
	char path[600], ballast[600], buf[RECORD];
	uint64_t taken = 0, end = 7u * MIB;
	struct dbh_engine *e;
	struct dbh_file *file;
	unsigned told = 0;
	int err;

	if (!dir)
		skip();
	snprintf(path, sizeof(path), "%s", scratch_path(dir));
	snprintf(ballast, sizeof(ballast), "%s", scratch_path(dir));
	fill_up(ballast, dir, 2u * MIB);
	e = engine_up();
	file = open_file(e, path);
	while (taken < end) {
		size_t len = MIN(RECORD, end - taken);
		ssize_t n;

		pattern_fill(buf, len, taken, 1);
		n = dbh_pwrite(file, buf, len, (off_t)taken, flags);
		if (n < 0) {
			CHECK_IS(n, -ENOSPC);
			told++;
			break;
		}
		taken += (size_t)n;
	}
	/* R15: where it is known, at the write. */
	CHECK(told, "7 MiB were taken in");
	err = dbh_fsync(file);
	CHECK(!err || err == -ENOSPC, "%d", err);
	CHECK_OK(unlink(ballast));
	while (taken < end) {
		size_t len = MIN(RECORD, end - taken);
		ssize_t n;

		pattern_fill(buf, len, taken, 1);
		n = dbh_pwrite(file, buf, len, (off_t)taken, flags);
		CHECK(n > 0 || n == -ENOSPC, "%zd", n);
		if (n < 0)
			dbh_fsync(file); /* XFS frees a little later */
		else
			taken += (size_t)n;
	}
	while ((err = dbh_fsync(file)))
		CHECK_IS(err, -ENOSPC);
	CHECK_OK(dbh_close(file));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK(scratch_remount(dir), "%s", dir);
	check_file(path, end, 1);
}

static void test_k3_full_xfs(void **state)
{
	(void)state;
	full("xfs", 320, DBH_DONTCACHE);
}

static void test_k3_full_ext4(void **state)
{
	(void)state;
	full("ext4", 64, DBH_DONTCACHE);
}

static void test_k3_full_ext4_cached(void **state)
{
	(void)state;
	full("ext4", 64, 0);
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_k1_ext4_uncached),
		cmocka_unit_test(test_k1_ext4_cached),
		cmocka_unit_test(test_k1_xfs_uncached),
		cmocka_unit_test(test_k3_full_xfs),
		cmocka_unit_test(test_k3_full_ext4),
		cmocka_unit_test(test_k3_full_ext4_cached),
	};

	(void)argc;
	(void)argv;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

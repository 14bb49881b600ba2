// SPDX-License-Identifier: MIT
/*
 * Power cuts of real file systems: XFS and ext4 are shut down at any moment,
 * without a last flush of their journals, and mounted again. What was synced
 * is there, nothing is there that nobody wrote, and the file is no longer than
 * it was (R14, R16).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "scale.h"
#include "support/check.h"
#include "support/scratch.h"
#include "victim.h"

/* XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN are the same. */
#define IOC_SHUTDOWN _IOR('X', 125, uint32_t)
#define SHUTDOWN_NOLOGFLUSH 2u

static uint64_t seed;

static void shut_down(const char *dir)
{
	uint32_t how = SHUTDOWN_NOLOGFLUSH;
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	CHECK(fd >= 0, "%s", dir);
	CHECK(!ioctl(fd, IOC_SHUTDOWN, &how), "%s: %s", dir, strerror(errno));
	close(fd);
}

/* The file itself must be there after the cut. */
static void make_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);

	CHECK(fd >= 0, "%s", path);
	CHECK_OK(fsync(fd));
	close(fd);
	sync();
}

static void cut_one(const struct victim *v, const char *dir, struct rng *r)
{
	pid_t pid = victim_start(v);
	struct durable durable;

	usleep((useconds_t)rng_below(r, 50000));
	/* Before: an fsync under way while the file system goes down has been
	 * seen to return 0. Without power nobody would hear it. */
	history_durable(v->h, &durable);
	shut_down(dir);
	victim_kill(pid);
	CHECK(scratch_remount(dir), "%s cannot be mounted again", dir);
	victim_check(v, &durable);
}

static void cut_on(const char *fs, const char *options, unsigned megabytes,
		   unsigned sector)
{
	static const size_t records[] = { 47008, 6000, 1000 };
	const char *dir = scratch_mount_with(fs, options, megabytes, sector);
	unsigned long cuts = test_scale(24);
	struct rng r = rng_fork(seed, sector);
	struct victim v = { .may_fail = true };
	char path[600];

	if (!dir)
		skip();
	for (unsigned long i = 0; i < cuts; i++) {
		if (i % 4 == 0) {
			if (v.h)
				history_unshare(v.h);
			snprintf(path, sizeof(path), "%s", scratch_path(dir));
			make_file(path);
			v.path = path;
			v.h = history_shared(records[i / 4 % 3]);
		}
		v.seed = rng_next(&r);
		v.io_method = i % 2 ? DBH_IO_URING : DBH_IO_THREADS;
		guard(120);
		cut_one(&v, dir, &r);
	}
	history_unshare(v.h);
}

static void test_power_cuts_of_xfs(void **state)
{
	(void)state;
	cut_on("xfs", "", 320, 4096);
}

static void test_power_cuts_of_xfs_16k(void **state)
{
	(void)state;
	cut_on("xfs", "-b size=16384", 320, 0);
}

static void test_power_cuts_of_ext4(void **state)
{
	(void)state;
	cut_on("ext4", "", 64, 0);
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_power_cuts_of_xfs),
		cmocka_unit_test(test_power_cuts_of_xfs_16k),
		cmocka_unit_test(test_power_cuts_of_ext4),
	};

	(void)argc;
	(void)argv;
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

// SPDX-License-Identifier: MIT
/*
 * kill -9 at any moment, on real files: what was synced is there, nothing is
 * there that nobody wrote, the file never ends beyond its logical end (R14,
 * R16, R21), and its owner's mark is gone with the process (K10, R22).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "scale.h"
#include "support/check.h"
#include "support/scratch.h"
#include "victim.h"

static uint64_t seed;

/* R16, as another process sees it, for a random time. */
static void watch_size(const struct victim *v, struct rng *r)
{
	unsigned long looks = rng_below(r, 600);
	struct stat st;

	for (unsigned long i = 0; i < looks; i++) {
		unsigned truncates = history_truncates(v->h);

		CHECK_OK(stat(v->path, &st));
		CHECK((uint64_t)st.st_size <= history_limit(v->h, truncates),
		      "R16: %lld bytes on disk, of %llu", (long long)st.st_size,
		      (unsigned long long)history_limit(v->h, truncates));
		usleep(5);
	}
}

static void kill_one(const struct victim *v, struct rng *r)
{
	pid_t pid = victim_start(v);
	struct durable durable;

	watch_size(v, r);
	victim_kill(pid);
	history_durable(v->h, &durable);
	victim_check(v, &durable);
}

/* Files that are killed again and again. */
static void kill_on(const char *dir, unsigned long kills)
{
	static const size_t records[] = { 47008, 6000, 49152, 1000 };
	struct rng r = rng_fork(seed, kills);
	struct victim v = { 0 };
	char path[600];

	for (unsigned long i = 0; i < test_scale(kills); i++) {
		if (i % 10 == 0) {
			if (v.h)
				history_unshare(v.h);
			snprintf(path, sizeof(path), "%s", scratch_path(dir));
			v.path = path;
			v.h = history_shared(records[i / 10 % 4]);
		}
		v.seed = rng_next(&r);
		v.io_method = i % 2 ? DBH_IO_URING : DBH_IO_THREADS;
		guard(60);
		kill_one(&v, &r);
	}
	history_unshare(v.h);
}

static void test_kill_on_disk(void **state)
{
	(void)state;
	kill_on(scratch_dir(), 20);
}

static void test_kill_in_memory(void **state)
{
	(void)state;
	if (!scratch_shm()) {
		print_message("no /dev/shm\n");
		skip();
	}
	kill_on(scratch_shm(), 10);
}

static void kill_on_mount(const char *fs, const char *options,
			  unsigned megabytes, unsigned sector,
			  unsigned long kills)
{
	const char *dir = scratch_mount_with(fs, options, megabytes, sector);

	if (!dir)
		skip();
	kill_on(dir, kills);
}

static void test_kill_on_xfs(void **state)
{
	(void)state;
	kill_on_mount("xfs", "", 320, 4096, 100);
}

static void test_kill_on_xfs_16k(void **state)
{
	(void)state;
	kill_on_mount("xfs", "-b size=16384", 320, 4096, 20);
}

static void test_kill_on_ext4(void **state)
{
	(void)state;
	kill_on_mount("ext4", "", 64, 0, 20);
}

static void test_kill_on_btrfs(void **state)
{
	(void)state;
	kill_on_mount("btrfs", "", 160, 0, 20);
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kill_on_disk),
		cmocka_unit_test(test_kill_in_memory),
		cmocka_unit_test(test_kill_on_xfs),
		cmocka_unit_test(test_kill_on_xfs_16k),
		cmocka_unit_test(test_kill_on_ext4),
		cmocka_unit_test(test_kill_on_btrfs),
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

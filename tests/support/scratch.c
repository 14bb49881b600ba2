// SPDX-License-Identifier: MIT
/*
 * scratch: directories and mounts that go with the test.
 */
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_BYTES 512

static char base_dir[PATH_BYTES], shm_dir[PATH_BYTES];
static volatile pid_t child;

/* ---- cleaning up ----------------------------------------------------- */

/* The deepest mount below base_dir; false: there is none. */
static bool find_mount(char *path)
{
	size_t len = strlen(base_dir);
	FILE *f = fopen("/proc/self/mounts", "re");
	char line[4096];
	bool found = false;

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		char *at = strchr(line, ' '), *end;

		if (!at || !(end = strchr(at + 1, ' ')))
			continue;
		*end = '\0';
		at++;
		if (strncmp(at, base_dir, len) || at[len] != '/')
			continue;
		snprintf(path, PATH_BYTES, "%s", at);
		found = true;
	}
	fclose(f);
	return found;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

static void clean_up(void)
{
	char path[PATH_BYTES];

	/* The loop devices go with their mounts (autoclear). */
	for (int i = 0; i < 64 && find_mount(path); i++)
		if (umount2(path, i < 32 ? 0 : MNT_DETACH))
			usleep(10000);
	if (base_dir[0])
		nftw(base_dir, remove_one, 16,
		     FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	if (shm_dir[0])
		nftw(shm_dir, remove_one, 16,
		     FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- running --------------------------------------------------------- */

static void pass_on(int sig)
{
	if (child > 0)
		kill(child, sig == SIGINT ? SIGTERM : sig);
}

static int wait_child(void)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr, "the test was killed by signal %d (%s)\n",
		WTERMSIG(status), strsignal(WTERMSIG(status)));
	return 128 + WTERMSIG(status);
}

static bool make_dirs(void)
{
	const char *dir = getenv("DBH_TEST_DIR");

	snprintf(base_dir, sizeof(base_dir), "%s/dbh-test-XXXXXX",
		 dir ? dir : "/tmp");
	if (!mkdtemp(base_dir)) {
		perror(base_dir);
		base_dir[0] = '\0';
		return false;
	}
	snprintf(shm_dir, sizeof(shm_dir), "/dev/shm/dbh-test-XXXXXX");
	if (!mkdtemp(shm_dir))
		shm_dir[0] = '\0';
	return true;
}

int scratch_run(int (*body)(int argc, char **argv), int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = pass_on };
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!make_dirs())
		return 1;
	if (getenv("DBH_TEST_NOFORK")) {
		status = body(argc, argv);
	} else {
		sigaction(SIGINT, &sa, NULL);
		sigaction(SIGTERM, &sa, NULL);
		sigaction(SIGHUP, &sa, NULL);
		child = fork();
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			signal(SIGINT, SIG_DFL);
			signal(SIGTERM, SIG_DFL);
			signal(SIGHUP, SIG_DFL);
			exit(body(argc, argv));
		}
		status = child < 0 ? 1 : wait_child();
	}
	clean_up();
	return status;
}

/* ---- what tests ask for ---------------------------------------------- */

const char *scratch_dir(void)
{
	return base_dir;
}

const char *scratch_shm(void)
{
	return shm_dir[0] ? shm_dir : NULL;
}

const char *scratch_path(const char *dir)
{
	static __thread char path[PATH_BYTES + 32];
	static _Atomic unsigned nr;

	snprintf(path, sizeof(path), "%s/f%u", dir, atomic_fetch_add(&nr, 1));
	return path;
}

static bool shell(const char *command)
{
	int status = system(command);

	return status != -1 && WIFEXITED(status) && !WEXITSTATUS(status);
}

/** struct mounted - a mount of ours; its image is @dir.img */
struct mounted {
	char dir[PATH_BYTES];
	const char *fs;
	unsigned sector;
};

static struct mounted mounts[16];
static unsigned nr_mounts;

/* @prepare: what to do with $dev before it is mounted. */
static bool mount_loop(const struct mounted *mnt, const char *prepare)
{
	char command[4 * PATH_BYTES], opt[32] = "";

	if (mnt->sector)
		snprintf(opt, sizeof(opt), "-b %u", mnt->sector);
	/* losetup -d of a mounted device: it goes when unmounted. */
	snprintf(command, sizeof(command),
		 "exec >/dev/null 2>&1; "
		 "dev=$(losetup %s -f --show %s.img) || exit 1; "
		 "%s && mount -t %s $dev %s || { losetup -d $dev; exit 1; }; "
		 "losetup -d $dev",
		 opt, mnt->dir, prepare, mnt->fs, mnt->dir);
	return shell(command);
}

static bool make_loop(const struct mounted *mnt, const char *options,
		      unsigned megabytes)
{
	char command[2 * PATH_BYTES], mkfs[PATH_BYTES];

	snprintf(command, sizeof(command), "truncate -s %uM %s.img", megabytes,
		 mnt->dir);
	snprintf(mkfs, sizeof(mkfs), "mkfs.%s -q %s $dev", mnt->fs, options);
	return shell(command) && mount_loop(mnt, mkfs);
}

static bool make_tmpfs(const struct mounted *mnt, unsigned megabytes)
{
	char data[32];

	snprintf(data, sizeof(data), "size=%um", megabytes);
	return !mount("dbh-test", mnt->dir, "tmpfs", 0, data);
}

/* Over directories of its own beside it. */
static bool make_overlay(const struct mounted *mnt)
{
	char data[4 * PATH_BYTES];

	snprintf(data, sizeof(data), "mkdir %s.low %s.up %s.work", mnt->dir,
		 mnt->dir, mnt->dir);
	if (!shell(data))
		return false;
	snprintf(data, sizeof(data), "lowerdir=%s.low,upperdir=%s.up,workdir=%s.work",
		 mnt->dir, mnt->dir, mnt->dir);
	return !mount("dbh-test", mnt->dir, "overlay", 0, data);
}

static bool make_mount(const struct mounted *mnt, const char *options,
		       unsigned megabytes)
{
	if (!strcmp(mnt->fs, "tmpfs"))
		return make_tmpfs(mnt, megabytes);
	if (!strcmp(mnt->fs, "overlay"))
		return make_overlay(mnt);
	return make_loop(mnt, options, megabytes);
}

const char *scratch_mount_with(const char *fs, const char *options,
			       unsigned megabytes, unsigned sector)
{
	struct mounted *mnt = &mounts[nr_mounts];
	bool done;

	if (geteuid()) {
		printf("no %s to test on: not root\n", fs);
		return NULL;
	}
	if (nr_mounts == sizeof(mounts) / sizeof(mounts[0]) ||
	    snprintf(mnt->dir, PATH_BYTES, "%s/mnt%u", base_dir, nr_mounts) >=
		    PATH_BYTES ||
	    mkdir(mnt->dir, 0700))
		return NULL;
	nr_mounts++;
	mnt->fs = fs;
	mnt->sector = sector;
	done = make_mount(mnt, options, megabytes);
	if (!done) {
		printf("no %s %s to test on: cannot make or mount it here\n",
		       fs, options);
		return NULL;
	}
	return mnt->dir;
}

const char *scratch_mount_thin(const char *dir, const char *fs,
			       const char *options, unsigned megabytes)
{
	char command[3 * PATH_BYTES];

	/* Where make_loop() will make the image. */
	snprintf(command, sizeof(command), "ln -s %s/image %s/mnt%u.img", dir,
		 base_dir, nr_mounts);
	return shell(command) ? scratch_mount_with(fs, options, megabytes, 0) :
				NULL;
}

const char *scratch_mount(const char *fs, unsigned megabytes, unsigned sector)
{
	return scratch_mount_with(fs, "", megabytes, sector);
}

bool scratch_remount(const char *dir)
{
	int tries = 0;

	for (unsigned i = 0; i < nr_mounts; i++) {
		if (strcmp(mounts[i].dir, dir))
			continue;
		/* A process that was killed keeps it until its ring is gone. */
		while (umount2(dir, 0)) {
			if (errno != EBUSY || ++tries == 1000)
				return false;
			usleep(10000);
		}
		return mount_loop(&mounts[i], "true");
	}
	return false;
}

/* ---- the engine's descriptor ----------------------------------------- */

int scratch_borrow_fd(const char *path)
{
	char link[64], at[PATH_BYTES];
	ssize_t n;

	for (int fd = 3; fd < 1024; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, at, sizeof(at) - 1);
		at[n > 0 ? n : 0] = '\0';
		if (!strcmp(at, path))
			return fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return -1;
}

/* SPDX-License-Identifier: MIT */
/*
 * scratch: an image in memory on a loop device, with a file system on it.
 *
 * The image is a memfd, which is a file on the kernel's own tmpfs: it has no
 * name to leave behind. It is filled once, because the first touch of memory
 * costs more than a write. The loop device detaches itself when the last one
 * closes it, and the mount is in a mount namespace of this process: whatever
 * kills the process, nothing stays but an empty directory, which the next run
 * removes.
 */
#include "bench/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/loop.h>

#include "bench/own_dir.h"
#include "bench/say.h"
#include "bench/stop.h"

#define CHUNK ((size_t)1 << 20)
/* Left to the rest of the machine, and to what the contenders cache. */
#define SPARE_BYTES ((uint64_t)256 << 20)

extern char **environ;

static uint64_t memory_available(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return (uint64_t)kib << 10;
}

static int check_memory(uint64_t size)
{
	uint64_t have = memory_available();

	if (have >= size + SPARE_BYTES)
		return 0;
	complain("--scratch needs %llu MiB of free memory and there are %llu: "
		 "lower --total, or use --dir DIR",
		 (unsigned long long)((size + SPARE_BYTES) >> 20),
		 (unsigned long long)(have >> 20));
	return -ENOMEM;
}

static int fill(int fd, uint64_t size)
{
	char *zeros = calloc(1, CHUNK);
	uint64_t off = 0;
	int ret = zeros ? 0 : -ENOMEM;
	ssize_t n;

	while (!ret && off < size) {
		if (stop_requested()) {
			ret = -EINTR;
			break;
		}
		n = pwrite(fd, zeros, CHUNK, (off_t)off);
		if (n > 0)
			off += (uint64_t)n;
		else if (errno != EINTR)
			ret = -errno;
	}
	free(zeros);
	return ret;
}

static int make_image(uint64_t size)
{
	char name[64];
	int fd, ret;

	ret = check_memory(size);
	if (ret)
		return ret;
	progress("filling %llu MiB of memory",
		 (unsigned long long)(size >> 20));
	/* What `losetup --list` shows. */
	snprintf(name, sizeof(name), "dropbehind-bench-%d", (int)getpid());
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
		complain("memfd_create: %s", strerror(-ret));
		return ret;
	}
	ret = fill(fd, size);
	if (!ret)
		return fd;
	if (ret != -EINTR)
		complain("cannot fill %llu MiB of memory: %s",
			 (unsigned long long)(size >> 20), strerror(-ret));
	close(fd);
	return ret;
}

/* A free device may be taken by someone else before we have it. */
static int configure_loop(struct scratch *s, int control, int image)
{
	struct loop_config config = {
		.fd = (uint32_t)image,
		.block_size = s->sector_bytes,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR,
			  .lo_file_name = "dropbehind-bench" },
	};
	int tries, nr, fd, err = EBUSY;

	for (tries = 0; tries < 16 && err == EBUSY; tries++) {
		nr = ioctl(control, LOOP_CTL_GET_FREE);
		if (nr < 0)
			return -errno;
		snprintf(s->loop, sizeof(s->loop), "/dev/loop%d", nr);
		fd = open(s->loop, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (!ioctl(fd, LOOP_CONFIGURE, &config))
			return fd;
		err = errno;
		close(fd);
	}
	return -err;
}

static int attach(struct scratch *s, int image)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int fd;

	fd = control < 0 ? -errno : configure_loop(s, control, image);
	if (control >= 0)
		close(control);
	if (fd < 0) {
		complain("--scratch: cannot attach a loop device%s%s: %s%s",
			 s->loop[0] ? " " : "", s->loop, strerror(-fd),
			 fd == -EINVAL || fd == -ENOTTY ?
				 " (LOOP_CONFIGURE needs Linux 5.8)" :
				 "");
		return fd;
	}
	/* Some kernels mount no device that is open for writing. */
	s->loop_fd = open(s->loop, O_RDONLY | O_CLOEXEC);
	close(fd);
	if (s->loop_fd < 0) {
		fd = -errno;
		complain("cannot open %s: %s", s->loop, strerror(-fd));
		return fd;
	}
	/* Asks udev not to probe it: that would count as reads. */
	flock(s->loop_fd, LOCK_EX | LOCK_NB);
	return 0;
}

static int private_mounts(void)
{
	int ret;

	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL)) {
		ret = -errno;
		complain("--scratch: no mount namespace of our own: %s",
			 strerror(-ret));
		return ret;
	}
	return 0;
}

static int make_mount_point(struct scratch *s)
{
	int ret;

	ret = own_dir_create("/tmp", s->dir, sizeof(s->dir), &s->dir_lock);
	if (ret) {
		complain("--scratch: cannot make a mount point in /tmp: %s",
			 strerror(-ret));
		return ret;
	}
	s->traces.dir = s->dir;
	stop_remember(&s->traces);
	return 0;
}

/* The tools that make file systems are not in every user's path. */
static void extend_path(void)
{
	const char *old = getenv("PATH");
	char path[4096];

	snprintf(path, sizeof(path), "%s:/usr/sbin:/sbin", old ? old : "");
	setenv("PATH", path, 1);
}

int scratch_open(struct scratch *s)
{
	int image, ret;

	s->loop_fd = -1;
	s->dir_lock = -1;
	/* A block smaller than a sector cannot be. */
	s->sector_bytes = s->block_bytes && s->block_bytes < 4096 ? 512 : 4096;
	extend_path();
	ret = private_mounts();
	if (!ret)
		ret = make_mount_point(s);
	if (ret)
		return ret;
	image = make_image(s->size_bytes);
	if (image < 0)
		return image;
	ret = attach(s, image);
	close(image);
	return ret;
}

#define MAX_ARGS 12

/* @args: room for MAX_ARGS; @block: the text of the block size goes here */
static void mkfs_args(const struct scratch *s, const char **args, char *block,
		      size_t block_size)
{
	bool xfs = !strcmp(s->fs, "xfs"), ext4 = !strcmp(s->fs, "ext4");
	unsigned n = 0;

	args[n++] = xfs ? "mkfs.xfs" : ext4 ? "mkfs.ext4" : "mkfs.btrfs";
	args[n++] = "-q";
	args[n++] = ext4 ? "-F" : "-f";
	if (ext4) {
		args[n++] = "-E";
		args[n++] = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
	} else {
		args[n++] = "-K";
	}
	if (s->block_bytes) {
		snprintf(block, block_size, "%s%llu", xfs ? "size=" : "",
			 (unsigned long long)s->block_bytes);
		args[n++] = "-b";
		args[n++] = block;
	}
	args[n++] = s->loop;
	args[n] = NULL;
}

/* Its output goes to @output_fd. Return: 0, or an error; complains not. */
static int run(const char **args, int output_fd)
{
	posix_spawn_file_actions_t actions;
	int ret, status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, output_fd, 1);
	posix_spawn_file_actions_adddup2(&actions, output_fd, 2);
	ret = -posix_spawnp(&pid, args[0], &actions, NULL, (char *const *)args,
			    environ);
	posix_spawn_file_actions_destroy(&actions);
	if (ret)
		return ret;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

static void complain_mkfs(const char *tool, int ret, int output_fd)
{
	char text[400];
	ssize_t n = pread(output_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (ret == -ENOENT)
		complain("--scratch: %s is not installed", tool);
	else
		complain("--scratch: %s failed: %s", tool,
			 text[0] ? text : strerror(-ret));
}

static int make_fs(struct scratch *s)
{
	const char *args[MAX_ARGS];
	char block[32];
	int output, ret;

	output = memfd_create("mkfs-output", MFD_CLOEXEC);
	if (output < 0)
		return -errno;
	mkfs_args(s, args, block, sizeof(block));
	ret = run(args, output);
	if (stop_requested())
		ret = -EINTR;
	if (ret && ret != -EINTR)
		complain_mkfs(args[0], ret, output);
	close(output);
	return ret;
}

static int unmount(struct scratch *s)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	int tries, ret;

	for (tries = 0; tries < 50; tries++) {
		if (!s->mounted || !umount2(s->dir, 0)) {
			s->mounted = false;
			return 0;
		}
		if (errno != EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	ret = -errno;
	complain("cannot unmount the scratch file system: %s", strerror(-ret));
	return ret;
}

int scratch_fresh(struct scratch *s)
{
	int ret;

	ret = unmount(s);
	if (!ret)
		ret = make_fs(s);
	if (ret)
		return ret;
	if (mount(s->loop, s->dir, s->fs, 0, NULL)) {
		ret = -errno;
		complain(
			"--scratch: cannot mount a new %s: %s%s", s->fs,
			strerror(-ret),
			s->block_bytes > 4096 ?
				" (blocks larger than a page need Linux 6.12)" :
				"");
		return ret;
	}
	s->mounted = true;
	return 0;
}

void scratch_close(struct scratch *s)
{
	if (s->mounted && unmount(s))
		umount2(s->dir, MNT_DETACH);
	if (s->loop_fd >= 0)
		close(s->loop_fd);
	s->loop_fd = -1;
	stop_remember(NULL);
	if (s->dir[0])
		rmdir(s->dir);
	if (s->dir_lock >= 0)
		close(s->dir_lock);
	s->dir_lock = -1;
}

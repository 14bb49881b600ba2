/* SPDX-License-Identifier: MIT */
/*
 * own_dir: what kill -9 leaves of a run is a directory; the next run finds it
 * by its name. Only an empty one goes, and only where nobody can be using it:
 * a process of that id may be one of another container that shares the
 * directory and not the ids, so that the lock must be free as well.
 */
#include "bench/own_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PREFIX "dropbehind-bench-"

/* -1 where it cannot be opened or locked, or somebody has it locked. */
static int lock_dir(int dirfd, const char *name)
{
	int fd = openat(dirfd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* PREFIX, the id, '-', six characters of mkdtemp(). */
static bool owner_is_gone(const char *name)
{
	int pid, end = 0;

	if (sscanf(name, PREFIX "%d-%n", &pid, &end) != 1 || pid <= 0 ||
	    strlen(name + end) != 6 || !end)
		return false;
	return kill(pid, 0) && errno == ESRCH;
}

static void remove_stale(const char *base)
{
	DIR *dir = opendir(base);
	struct dirent *de;
	int lock;

	while (dir && (de = readdir(dir))) {
		if (!owner_is_gone(de->d_name))
			continue;
		lock = lock_dir(dirfd(dir), de->d_name);
		if (lock < 0)
			continue;
		/* Refused where there is something in it. */
		unlinkat(dirfd(dir), de->d_name, AT_REMOVEDIR);
		close(lock);
	}
	if (dir)
		closedir(dir);
}

int own_dir_create(const char *base, char *path, size_t size, int *lock)
{
	int ret = 0;

	*lock = -1;
	remove_stale(base);
	if ((size_t)snprintf(path, size, "%s/" PREFIX "%d-XXXXXX", base,
			     (int)getpid()) >= size)
		ret = -ENAMETOOLONG;
	else if (!mkdtemp(path))
		ret = -errno;
	if (ret)
		path[0] = '\0';
	else
		*lock = lock_dir(AT_FDCWD, path);
	return ret;
}

// SPDX-License-Identifier: MIT
/*
 * listen: the socket in the file system.
 *
 * What lies at the path is looked at, and perhaps replaced, under a lock of its
 * directory, so that two engines do not take the place from each other.
 */
#include "room.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 16
#define LOCK_TRIES 100

static int set_path(struct sockaddr_un *addr, const char *path)
{
	struct stat st;
	int n;

	addr->sun_family = AF_UNIX;
	if (!*path)
		return -EINVAL;
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		n = snprintf(addr->sun_path, sizeof(addr->sun_path),
			     "%s/dropbehind-%d.sock", path, (int)getpid());
	else
		n = snprintf(addr->sun_path, sizeof(addr->sun_path), "%s",
			     path);
	return n < (int)sizeof(addr->sun_path) ? 0 : -ENAMETOOLONG;
}

/* The directory, locked; but not for longer than a moment. */
static int open_dir(struct listener *l, const struct sockaddr_un *addr)
{
	char buf[sizeof(addr->sun_path)];

	memcpy(buf, addr->sun_path, sizeof(buf));
	snprintf(l->name, sizeof(l->name), "%s", basename(buf));
	memcpy(buf, addr->sun_path, sizeof(buf));
	l->dir = open(dirname(buf), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->dir < 0)
		return -errno;
	for (int i = 0; flock(l->dir, LOCK_EX | LOCK_NB); i++) {
		int err = errno;

		if (err != EWOULDBLOCK || i == LOCK_TRIES) {
			close(l->dir);
			return err == EWOULDBLOCK ? -EBUSY : -err;
		}
		usleep(10000);
	}
	return 0;
}

/* Who made a socket may be gone, though a child of his holds it still. */
static bool listener_died(int fd)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	       cred.pid > 0 && kill(cred.pid, 0) && errno == ESRCH;
}

/* Does nobody answer at the socket? 1, or 0: somebody does, or -errno */
static int is_stale(const struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		ret = listener_died(fd);
	else if (errno == ECONNREFUSED || errno == ENOENT)
		ret = 1;
	else if (errno != EAGAIN) /* that one has many who ask */
		ret = -errno;
	close(fd);
	return ret;
}

/* Make room at the path, if what is there is a dead socket. */
static int clear_path(const struct listener *l, const struct sockaddr_un *addr)
{
	struct stat st;
	int ret;

	if (fstatat(l->dir, l->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	ret = is_stale(addr);
	if (ret < 0)
		return ret;
	if (!ret)
		return -EADDRINUSE;
	return unlinkat(l->dir, l->name, 0) && errno != ENOENT ? -errno : 0;
}

static int bind_path(struct listener *l, const struct sockaddr_un *addr)
{
	struct stat st;
	int err;

	/* The file gets the mode of the socket, so that there is no moment at
	 * which others might connect. */
	if (fchmod(l->fd, 0600) ||
	    bind(l->fd, (const struct sockaddr *)addr, sizeof(*addr)))
		return -errno;
	if (!listen(l->fd, BACKLOG) &&
	    !fstatat(l->dir, l->name, &st, AT_SYMLINK_NOFOLLOW)) {
		l->dev = st.st_dev;
		l->ino = st.st_ino;
		return 0;
	}
	err = -errno;
	unlinkat(l->dir, l->name, 0);
	return err;
}

int listener_open(struct listener *l, const char *path)
{
	struct sockaddr_un addr = { 0 };
	int err;

	err = set_path(&addr, path);
	if (err)
		return err;
	err = open_dir(l, &addr);
	if (err)
		return err;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0) {
		err = -errno;
		goto out_dir;
	}
	err = clear_path(l, &addr);
	if (!err)
		err = bind_path(l, &addr);
	if (err)
		goto out_fd;
	flock(l->dir, LOCK_UN);
	return 0;

out_fd:
	close(l->fd);
out_dir:
	close(l->dir);
	return err;
}

void listener_close(struct listener *l)
{
	struct stat st;

	if (!fstatat(l->dir, l->name, &st, AT_SYMLINK_NOFOLLOW) &&
	    st.st_dev == l->dev && st.st_ino == l->ino)
		unlinkat(l->dir, l->name, 0);
	/* A forked child may hold it too: nobody shall wait for him. */
	shutdown(l->fd, SHUT_RDWR);
	close(l->fd);
	close(l->dir);
}

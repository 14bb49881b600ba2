// SPDX-License-Identifier: MIT
/*
 * socket: which control socket, and talking to it.
 *
 * A number is a process. Its socket is, if that belongs to it,
 * $XDG_RUNTIME_DIR/dropbehind-PID.sock or /run/dropbehind/dropbehind-PID.sock;
 * else the first one at which it listens whose file's name begins with
 * "dropbehind". Anything else is the path of a socket.
 */
#include "frontends/cli/socket.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)16 << 20)

__attribute__((format(printf, 2, 3))) static void complain(const char *who,
							   const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "dropbehind %s: ", who);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

/* ---- connecting ------------------------------------------------------ */

/* Return: a descriptor, or a negative errno. */
static int connect_path(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd, err;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The same, if it is that process's. */
static int connect_process(const char *path, pid_t pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd = connect_path(path);

	if (fd < 0)
		return fd;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	    cred.pid == pid)
		return fd;
	close(fd);
	return -ENOENT;
}

static int connect_in(const char *dir, pid_t pid)
{
	char path[PATH_MAX];

	if (!dir || snprintf(path, sizeof(path), "%s/dropbehind-%d.sock", dir,
			     (int)pid) >= (int)sizeof(path))
		return -ENOENT;
	return connect_process(path, pid);
}

/* Does a descriptor of the process lead to socket @ino? */
static bool has_socket(DIR *fds, unsigned long ino)
{
	char want[64], link[64];
	struct dirent *de;

	snprintf(want, sizeof(want), "socket:[%lu]", ino);
	rewinddir(fds);
	while ((de = readdir(fds))) {
		ssize_t n = readlinkat(dirfd(fds), de->d_name, link,
				       sizeof(link) - 1);

		if (n < 0)
			continue;
		link[n] = '\0';
		if (!strcmp(link, want))
			return true;
	}
	return false;
}

/* A line of /proc/PID/net/unix: a listening stream socket with a path whose
 * last part begins with "dropbehind"? */
static bool parse_unix(const char *line, unsigned long *ino, char *path,
		       size_t size)
{
	unsigned flags, type;
	const char *name;
	int at = 0;

	if (sscanf(line, "%*[^:]: %*x %*x %x %x %*x %lu %n", &flags, &type, ino,
		   &at) != 3 ||
	    !at || type != SOCK_STREAM || !(flags & 0x10000) ||
	    line[at] != '/')
		return false;
	snprintf(path, size, "%.*s", (int)strcspn(line + at, "\n"), line + at);
	name = strrchr(path, '/') + 1;
	return !strncmp(name, "dropbehind", 10);
}

static int connect_listening(pid_t pid)
{
	char name[64], line[512], path[sizeof(line)];
	unsigned long ino;
	int fd = -ENOENT;
	DIR *fds;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
	fds = opendir(name);
	if (!fds)
		return -errno;
	snprintf(name, sizeof(name), "/proc/%d/net/unix", (int)pid);
	f = fopen(name, "re");
	while (f && fd < 0 && fgets(line, sizeof(line), f))
		if (parse_unix(line, &ino, path, sizeof(path)) &&
		    has_socket(fds, ino))
			fd = connect_process(path, pid);
	if (f)
		fclose(f);
	closedir(fds);
	return fd;
}

static int open_process(const char *who, pid_t pid)
{
	int fd = connect_in(getenv("XDG_RUNTIME_DIR"), pid);

	if (fd < 0)
		fd = connect_in("/run/dropbehind", pid);
	if (fd >= 0)
		return fd;
	fd = connect_listening(pid);
	if (fd >= 0)
		return fd;
	if (fd == -EACCES || fd == -EPERM)
		complain(who, "process %d: %s", (int)pid, strerror(-fd));
	else if (kill(pid, 0) && errno == ESRCH)
		complain(who, "there is no process %d", (int)pid);
	else if (fd == -ENOENT)
		complain(who,
			 "process %d has no control socket whose name begins "
			 "with 'dropbehind'; give its path",
			 (int)pid);
	else
		complain(who, "process %d: %s", (int)pid, strerror(-fd));
	return -1;
}

static int open_path(const char *who, const char *path)
{
	int fd = connect_path(path);

	if (fd >= 0)
		return fd;
	if (fd == -ECONNREFUSED)
		complain(who, "%s: nobody answers there (any more)", path);
	else
		complain(who, "%s: %s", path, strerror(-fd));
	return -1;
}

int socket_open(const char *who, const char *target)
{
	char *end;
	long pid;

	if (!isdigit((unsigned char)target[0]))
		return open_path(who, target);
	errno = 0;
	pid = strtol(target, &end, 10);
	/* A file may be called 1.sock. */
	if (*end)
		return open_path(who, target);
	if (errno || pid <= 0 || pid > INT_MAX) {
		complain(who, "%s: no process has this number", target);
		return -1;
	}
	return open_process(who, (pid_t)pid);
}

/* ---- talking --------------------------------------------------------- */

int socket_ask(struct socket_reader *r, const char *request)
{
	size_t len = strlen(request);
	ssize_t n = send(r->fd, request, len, MSG_NOSIGNAL);

	/* A line fits whatever is empty. Who is refused unasked has the reason to
	 * read. */
	if (n == (ssize_t)len || (n < 0 && errno == EPIPE))
		return 0;
	complain(r->who, "cannot ask: %s",
		 n < 0 ? strerror(errno) : "the socket is full");
	return -1;
}

/* Return: 1: there is something; 0: not in time, or a signal. */
static int wait_readable(struct socket_reader *r)
{
	struct pollfd pfd = { .fd = r->fd, .events = POLLIN };
	int n = poll(&pfd, 1, r->patience_ms);

	if (!n)
		complain(r->who, "no answer within %d ms", r->patience_ms);
	return n > 0;
}

static bool make_room(struct socket_reader *r)
{
	size_t size = r->size ? r->size * 2 : 4096;
	char *line;

	if (r->len < r->size)
		return true;
	line = size <= LINE_MAX_BYTES ? realloc(r->line, size) : NULL;
	if (!line) {
		complain(r->who, "the answer is too long");
		return false;
	}
	r->line = line;
	r->size = size;
	return true;
}

int socket_line(struct socket_reader *r)
{
	size_t seen = 0;

	if (r->next) {
		memmove(r->line, r->line + r->next, r->len - r->next);
		r->len -= r->next;
		r->next = 0;
	}
	for (;;) {
		char *end = r->len > seen ? memchr(r->line + seen, '\n',
						   r->len - seen) :
					    NULL;
		ssize_t n;

		if (end) {
			*end = '\0';
			r->next = (size_t)(end - r->line) + 1;
			return 1;
		}
		seen = r->len;
		if (!make_room(r) || !wait_readable(r))
			return -1;
		n = recv(r->fd, r->line + r->len, r->size - r->len, 0);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n < 0) {
			if (errno != EINTR)
				complain(r->who, "cannot read the answer: %s",
					 strerror(errno));
			return -1;
		}
		if (!n)
			return 0;
		r->len += (size_t)n;
	}
}

json_t *socket_json(struct socket_reader *r, bool *end)
{
	json_error_t error;
	const char *why;
	json_t *json;
	int ret = socket_line(r);

	*end = !ret;
	if (ret <= 0)
		return NULL;
	json = json_loads(r->line, 0, &error);
	if (!json_is_object(json)) {
		complain(r->who, "what answers is no control socket");
		json_decref(json);
		return NULL;
	}
	why = json_string_value(json_object_get(json, "error"));
	if (!why)
		return json;
	complain(r->who, "it answers: %s", why);
	json_decref(json);
	return NULL;
}

void socket_fini(struct socket_reader *r)
{
	close(r->fd);
	free(r->line);
}

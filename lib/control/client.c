// SPDX-License-Identifier: MIT
/*
 * client: one who asks. He sends a line and gets lines; nothing of him is
 * waited for.
 */
#include "room.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

void client_init(struct client *cl, int fd)
{
	memset(cl, 0, sizeof(*cl));
	cl->state = CLIENT_ASKING;
	cl->fd = fd;
	cl->since_ms = clock_coarse_ms();
}

void client_close(struct client *cl)
{
	if (cl->state == CLIENT_FREE)
		return;
	/* A forked child may hold it too: he shall see the end. */
	shutdown(cl->fd, SHUT_RDWR);
	close(cl->fd);
	free(cl->pending);
	cl->pending = NULL;
	cl->state = CLIENT_FREE;
}

/* What he sends without being asked is thrown away; his end is noticed. */
static void client_read_rest(struct client *cl)
{
	char buf[1024];
	ssize_t n = recv(cl->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	/* Who has asked and then only closed his own direction still gets the
	 * answer; who traces says so that he has enough. */
	if (n < 0 || cl->state != CLIENT_ANSWERED)
		client_close(cl);
	cl->ended = true;
}

bool client_read(struct client *cl)
{
	size_t room = sizeof(cl->line) - cl->line_len;
	char *start = cl->line + cl->line_len, *end;
	ssize_t n;

	if (cl->state != CLIENT_ASKING) {
		client_read_rest(cl);
		return false;
	}
	n = recv(cl->fd, start, room, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		client_close(cl);
		return false;
	}
	cl->line_len += (size_t)n;
	end = memchr(start, '\n', (size_t)n);
	if (!end) {
		if (cl->line_len == sizeof(cl->line))
			client_refuse(cl, "the request is too long");
		return false;
	}
	*end = '\0';
	return true;
}

static size_t pending(const struct client *cl)
{
	return cl->len - cl->off;
}

bool client_say(struct client *cl, const char *text, size_t len)
{
	if (pending(cl) + len > PENDING_MAX)
		return false;
	if (!cl->pending) {
		cl->pending = malloc(PENDING_MAX);
		if (!cl->pending)
			return false;
	}
	if (cl->len + len > PENDING_MAX) {
		memmove(cl->pending, cl->pending + cl->off, pending(cl));
		cl->len -= cl->off;
		cl->off = 0;
	}
	if (!pending(cl))
		cl->since_ms = clock_coarse_ms();
	memcpy(cl->pending + cl->len, text, len);
	cl->len += len;
	return true;
}

void client_answer(struct client *cl, char *text, size_t len)
{
	if (!text) {
		client_close(cl);
		return;
	}
	cl->state = CLIENT_ANSWERED;
	cl->pending = text;
	cl->len = len;
	cl->off = 0;
	cl->since_ms = clock_coarse_ms();
}

void client_refuse(struct client *cl, const char *why)
{
	char *text = NULL;
	int len = asprintf(&text, "{\"error\":\"%s\"}\n", why);

	client_answer(cl, len < 0 ? NULL : text, len < 0 ? 0 : (size_t)len);
}

void client_write(struct client *cl)
{
	if (cl->state != CLIENT_ANSWERED && cl->state != CLIENT_TRACING)
		return;
	while (pending(cl)) {
		ssize_t n = send(cl->fd, cl->pending + cl->off, pending(cl),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (errno != EAGAIN)
				client_close(cl);
			return;
		}
		cl->off += (size_t)n;
		cl->since_ms = clock_coarse_ms();
	}
	cl->len = cl->off = 0;
	if (cl->state != CLIENT_ANSWERED)
		return;
	/* What he may still send must be read, or he would get a reset before
	 * he has read the answer. */
	shutdown(cl->fd, SHUT_WR);
	cl->state = CLIENT_LEAVING;
}

bool client_overdue(const struct client *cl)
{
	return (cl->state != CLIENT_TRACING || pending(cl)) &&
	       clock_age_ms(cl->since_ms) >= PATIENCE_MS;
}

short client_poll_events(const struct client *cl)
{
	return (short)((cl->ended ? 0 : POLLIN) | (pending(cl) ? POLLOUT : 0));
}

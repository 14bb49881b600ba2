// SPDX-License-Identifier: MIT
/*
 * control: the thread that answers.
 *
 * It looks at counters and takes events out of rings; it takes no lock of the
 * engine, and no thread of the engine waits for it. It waits for none of its
 * clients either: who does not take what was asked for goes.
 */
#include "control.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mm/engine.h"
#include "room.h"

/* While somebody traces, the rings are emptied so often. */
#define TRACE_TICK_MS 10
/* So often it looks for clients that are too slow. */
#define CLIENT_TICK_MS 500
/* Out of descriptors or memory: try again after so long. */
#define ACCEPT_RETRY_MS 100
/* Events that are taken at a time, before clients are looked at again. */
#define PUMP_MAX 4096u

/**
 * struct control
 * @stop: an eventfd; readable: the thread ends
 * @lost: events that clients had no room for; the thread's
 */
struct control {
	struct dbh_engine *engine;
	struct listener listener;
	int stop;
	pthread_t thread;
	struct client clients[CLIENTS_MAX];
	uint64_t lost;
};

static unsigned count_clients(const struct control *c, bool tracing)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		nr += tracing ? c->clients[i].state == CLIENT_TRACING :
				c->clients[i].state != CLIENT_FREE;
	return nr;
}

static uint64_t ring_lost(struct control *c)
{
	return atomic_load_explicit(&c->engine->trace.lost,
				    memory_order_relaxed);
}

/* ---- requests -------------------------------------------------------- */

/* Take the events that somebody wants, and no others. */
static int update_mask(struct control *c)
{
	uint32_t mask = 0;

	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i].state == CLIENT_TRACING)
			mask |= c->clients[i].events;
	return trace_start(&c->engine->trace, mask);
}

static void start_trace(struct control *c, struct client *cl, const char *list)
{
	char text[EVENT_TEXT_MAX];
	struct trace_event ev;

	if (event_mask(list, &cl->events)) {
		client_refuse(cl, "no such event");
		return;
	}
	/* What is left of the last one who traced is not for this one. */
	if (!count_clients(c, true))
		while (trace_next(&c->engine->trace, &ev))
			;
	cl->state = CLIENT_TRACING;
	cl->told_lost = ring_lost(c);
	if (!client_say(cl, text,
			event_greeting(cl->events, text, sizeof(text))) ||
	    update_mask(c))
		client_close(cl);
}

static void answer_stat(struct control *c, struct client *cl)
{
	struct control_info info = {
		.tracing = count_clients(c, true),
		.lost = c->lost + ring_lost(c),
	};
	size_t len = 0;
	char *text = stat_answer(c->engine, &info, &len);

	client_answer(cl, text, len);
}

static void client_request(struct control *c, struct client *cl)
{
	char *line = cl->line;
	size_t len = strlen(line);

	if (len && line[len - 1] == '\r')
		line[len - 1] = '\0';
	if (!strcmp(line, "stat"))
		answer_stat(c, cl);
	else if (!strcmp(line, "trace"))
		start_trace(c, cl, "");
	else if (!strncmp(line, "trace ", 6))
		start_trace(c, cl, line + 6);
	else
		client_refuse(cl, "no such request");
}

/* ---- clients --------------------------------------------------------- */

static bool may_ask(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	       (cred.uid == geteuid() || !cred.uid);
}

static void refuse_fd(int fd, const char *why)
{
	struct client cl;

	client_init(&cl, fd);
	client_refuse(&cl, why);
	client_write(&cl);
	client_close(&cl);
}

/* Return: whether there may be more of them. */
static bool accept_one(struct control *c)
{
	int fd = accept4(c->listener.fd, NULL, NULL,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS)
			poll(NULL, 0, ACCEPT_RETRY_MS);
		return false;
	}
	if (!may_ask(fd)) {
		refuse_fd(fd, "not yours");
		return true;
	}
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		if (c->clients[i].state == CLIENT_FREE) {
			client_init(&c->clients[i], fd);
			return true;
		}
	}
	refuse_fd(fd, "too many clients");
	return true;
}

/* Say how many events are missing since it was last said. */
static bool say_lost(struct control *c, struct client *cl)
{
	uint64_t lost = cl->lost + ring_lost(c);
	char text[64];
	int len;

	if (lost == cl->told_lost)
		return true;
	len = snprintf(text, sizeof(text), "{\"lost\":%llu}\n",
		       (unsigned long long)(lost - cl->told_lost));
	if (!client_say(cl, text, (size_t)len))
		return false;
	cl->told_lost = lost;
	return true;
}

static void serve_client(struct control *c, struct client *cl, short revents)
{
	bool traced = cl->state == CLIENT_TRACING;

	if (revents && client_read(cl))
		client_request(c, cl);
	if (cl->state == CLIENT_TRACING)
		say_lost(c, cl);
	client_write(cl);
	if (cl->state != CLIENT_FREE && client_overdue(cl))
		client_close(cl);
	if (traced && cl->state == CLIENT_FREE)
		update_mask(c);
}

/* ---- events ---------------------------------------------------------- */

static void pump_event(struct control *c, const struct trace_event *ev)
{
	char text[EVENT_TEXT_MAX];
	size_t len = event_text(ev, text, sizeof(text));

	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		struct client *cl = &c->clients[i];

		if (cl->state != CLIENT_TRACING ||
		    !(cl->events & 1u << ev->type))
			continue;
		if (!say_lost(c, cl) || !client_say(cl, text, len)) {
			cl->lost++;
			c->lost++;
		}
	}
}

/* Return: there is more. */
static bool pump_events(struct control *c)
{
	struct trace_event ev;

	for (unsigned i = 0; i < PUMP_MAX; i++) {
		if (!trace_next(&c->engine->trace, &ev))
			return false;
		pump_event(c, &ev);
	}
	return true;
}

/* ---- the thread ------------------------------------------------------ */

static int wait_ms(const struct control *c, bool more)
{
	if (more)
		return 0;
	if (count_clients(c, true))
		return TRACE_TICK_MS;
	return count_clients(c, false) ? CLIENT_TICK_MS : -1;
}

/* Return: false: it is to end. */
static bool control_round(struct control *c, bool *more)
{
	struct pollfd fds[CLIENTS_MAX + 2];

	fds[0] = (struct pollfd){ .fd = c->stop, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = c->listener.fd, .events = POLLIN };
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		struct client *cl = &c->clients[i];
		bool free = cl->state == CLIENT_FREE;

		fds[i + 2] = (struct pollfd){
			.fd = free ? -1 : cl->fd,
			.events = free ? (short)0 : client_poll_events(cl),
		};
	}
	if (poll(fds, CLIENTS_MAX + 2, wait_ms(c, *more)) < 0)
		return true;
	if (fds[0].revents)
		return false;
	*more = pump_events(c);
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i].state != CLIENT_FREE)
			serve_client(c, &c->clients[i], fds[i + 2].revents);
	while (fds[1].revents && accept_one(c))
		;
	return true;
}

static void *control_main(void *arg)
{
	struct control *c = arg;
	bool more = false;

	while (control_round(c, &more))
		;
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		client_close(&c->clients[i]);
	return NULL;
}

int control_create(struct dbh_engine *e, const char *path,
		   struct control **out)
{
	struct control *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->engine = e;
	c->stop = eventfd(0, EFD_CLOEXEC);
	if (c->stop < 0) {
		err = -errno;
		goto out_free;
	}
	err = listener_open(&c->listener, path);
	if (err)
		goto out_stop;
	err = engine_thread(&c->thread, "dbh-control", control_main, c);
	if (err)
		goto out_listener;
	*out = c;
	return 0;

out_listener:
	listener_close(&c->listener);
out_stop:
	close(c->stop);
out_free:
	free(c);
	return err;
}

void control_destroy(struct control *c)
{
	const uint64_t one = 1;
	ssize_t n;

	if (!c)
		return;
	/* An eventfd takes its first number at once. */
	n = write(c->stop, &one, sizeof(one));
	assert(n == sizeof(one));
	(void)n;
	pthread_join(c->thread, NULL);
	listener_close(&c->listener);
	close(c->stop);
	free(c);
}

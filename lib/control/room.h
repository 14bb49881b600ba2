/* SPDX-License-Identifier: MIT */
/*
 * room: what the files of this room share.
 *
 * All of it belongs to the control thread, but for struct listener, which
 * control_create() makes and control_destroy() takes away.
 */
#ifndef DBH_CONTROL_ROOM_H
#define DBH_CONTROL_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/trace_ring.h"

struct dbh_engine;

/* ---- listen.c: where the socket is ----------------------------------- */

/**
 * struct listener - the socket
 * @fd: it listens, and does not block
 * @dir: the directory in which it lies, whatever becomes of the working one
 * @name: its name there
 * @dev, @ino: what lies under that name as long as it is ours
 */
struct listener {
	int fd;
	int dir;
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t dev;
	ino_t ino;
};

int listener_open(struct listener *l, const char *path);
void listener_close(struct listener *l);

/* ---- client.c -------------------------------------------------------- */

/** Who may ask at a time. */
#define CLIENTS_MAX 16u
/** Of a request, with its newline. */
#define LINE_BYTES 512u
/** What waits for a client that traces; further events are lost to it. */
#define PENDING_MAX (256u << 10)
/** Without a request, or without taking any of the answer, for so long: go. */
#define PATIENCE_MS 5000u

enum client_state {
	CLIENT_FREE, /* nobody */
	CLIENT_ASKING, /* the line is not complete */
	CLIENT_TRACING, /* gets events until it goes */
	CLIENT_ANSWERED, /* goes when it has taken the answer */
	CLIENT_LEAVING, /* has it all; may still be sending */
};

/**
 * struct client
 * @ended: it will send nothing more
 * @line, @line_len: of the request so far
 * @pending, @len, @off: text that it has not taken: from @off to @len
 * @since_ms: when it came, or last took something, or had something to take
 * @events: mask of trace types that it wants
 * @lost, @told_lost: events that did not fit here, and of those of the engine
 *	and these how many it has been told of
 */
struct client {
	enum client_state state;
	int fd;
	bool ended;
	char line[LINE_BYTES];
	size_t line_len;
	char *pending;
	size_t len, off;
	uint32_t since_ms;
	uint32_t events;
	uint64_t lost, told_lost;
};

/** A new connection, which it takes over. */
void client_init(struct client *cl, int fd);
void client_close(struct client *cl);
/** Take what it has sent. Return: true if @line is a whole request now, without
 * its end and with a NUL */
bool client_read(struct client *cl);
/** Queue text for it, up to PENDING_MAX. Return: false: no room or no memory */
bool client_say(struct client *cl, const char *text, size_t len);
/** The same for an answer, of any length, after which it goes. @text was
 * malloc'd and is taken over; NULL: there was no memory. */
void client_answer(struct client *cl, char *text, size_t len);
/** Answer that its request is bad. */
void client_refuse(struct client *cl, const char *why);
/** Send what it takes. */
void client_write(struct client *cl);
/** It has been too slow. */
bool client_overdue(const struct client *cl);
/** What to poll() for. */
short client_poll_events(const struct client *cl);

/* ---- answer.c, event.c: text ----------------------------------------- */

/** struct control_info - what an answer says of the socket itself */
struct control_info {
	unsigned tracing; /* clients */
	uint64_t lost; /* events, to anybody */
};

/** The answer to "stat": a line of JSON, malloc'd; NULL: no memory. */
char *stat_answer(struct dbh_engine *e, const struct control_info *info,
		  size_t *len);

#define EVENT_TEXT_MAX 512u
/** An event as a line of JSON. Return: its length */
size_t event_text(const struct trace_event *ev, char *buf, size_t size);
/** Names separated by commas, or "" for all, as a mask. Return: 0 or -EINVAL */
int event_mask(const char *list, uint32_t *mask);
/** The first line for who traces. Return: its length */
size_t event_greeting(uint32_t mask, char *buf, size_t size);

#endif

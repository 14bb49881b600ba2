/* SPDX-License-Identifier: MIT */
/*
 * socket: the control socket of a running engine, from outside.
 */
#ifndef CLI_SOCKET_H
#define CLI_SOCKET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * socket_open - find the socket, and connect
 * @who: who complains: "stat" or "trace"
 * @target: a process id, or the path of a socket
 *
 * Return: a descriptor; -1: it has been said what is wrong
 */
int socket_open(const char *who, const char *target);

/**
 * struct socket_reader - lines of an answer
 * @patience_ms: how long to wait for one; -1: for ever
 */
struct socket_reader {
	const char *who;
	int fd;
	int patience_ms;
	char *line; /* the last one read, without its end */
	size_t size, len, next;
};

/** Send a request, with its newline. Return: 0, or -1: complained */
int socket_ask(struct socket_reader *r, const char *request);
/** The next line. Return: 1; 0: the end; -1: complained, or a signal came */
int socket_line(struct socket_reader *r);
/** The same as JSON, to be decref'd; an answer that says "error" is complained
 * about. NULL: the end, or complained; *@end says which. */
json_t *socket_json(struct socket_reader *r, bool *end);
/** Close it, and free the line. */
void socket_fini(struct socket_reader *r);

#endif

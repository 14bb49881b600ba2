/* SPDX-License-Identifier: MIT */
/*
 * control: a socket at which a running engine tells what it does.
 */
#ifndef DBH_CONTROL_CONTROL_H
#define DBH_CONTROL_CONTROL_H

struct control;
struct dbh_engine;

/**
 * control_create - open the socket and start to answer
 * @path: of the socket, or of a directory, where it becomes
 *	dropbehind-PID.sock; see struct dbh_options
 *
 * Return: 0; -EADDRINUSE if somebody answers there; -ENOTSOCK if something
 * else lies there; -ENAMETOOLONG; what socket(2), bind(2) or thread creation
 * returned
 */
int control_create(struct dbh_engine *e, const char *path,
		   struct control **out);
/** Let go of all clients and take the socket away. NULL is allowed. */
void control_destroy(struct control *c);

#endif

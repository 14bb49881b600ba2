/* SPDX-License-Identifier: MIT */
/*
 * lease: who owns a file (R22), by two marks on its open file. System calls
 * only, no state.
 *
 * The owner's mark is a lock on one byte that nobody else uses: it keeps other
 * engines out. The lease makes every other program's open wait until we have
 * given it up; the kernel tells a thread of ours by a signal.
 */
#ifndef DBH_BLOCK_LEASE_H
#define DBH_BLOCK_LEASE_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * lease_mark - put the owner's mark on an open file
 * @writable: for one who writes; else beside others who only read
 *
 * Context: sleeps a little for an owner that may just be dying.
 * Return: 0, also where there are no locks; -EBUSY
 */
int lease_mark(int fd, bool writable);
void lease_unmark(int fd);
/**
 * lease_move_mark - a reader's mark becomes a writer's, on another open file
 *
 * At no moment is there none of ours; on failure all is as before.
 * Return: 0 or -EBUSY
 */
int lease_move_mark(int from, int to);

/** See struct store_lease_ops. */
int lease_take(int fd, bool writable, pid_t tid);
void lease_drop(int fd);
bool lease_is_broken(int fd, bool writable);

#endif

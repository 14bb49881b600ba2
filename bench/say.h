/* SPDX-License-Identifier: MIT */
/*
 * say: what the bench writes to standard error: complaints, and one line of
 * progress on a terminal.
 */
#ifndef BENCH_SAY_H
#define BENCH_SAY_H

/**
 * complain - one line on standard error, with the program's name before it
 *
 * A function of the bench that returns an error has complained about it, if
 * its comment does not say otherwise.
 */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** progress - rewrite the line of progress; nothing if no terminal. */
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** progress_clear - remove it, before anything else is written. */
void progress_clear(void);

#endif

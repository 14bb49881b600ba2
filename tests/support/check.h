/* SPDX-License-Identifier: MIT */
/*
 * check: assertions that may fail in any thread, and a guard against hangs.
 */
#ifndef DBH_TESTS_CHECK_H
#define DBH_TESTS_CHECK_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** Abort with a message (printf's) unless @cond. */
#define CHECK(cond, ...)                                             \
	do {                                                         \
		if (!(cond)) {                                       \
			fflush(stdout);                              \
			fprintf(stderr, "%s:%d: %s: ", __FILE__,     \
				__LINE__, #cond);                    \
			fprintf(stderr, __VA_ARGS__);                \
			fprintf(stderr, "\n");                       \
			abort();                                     \
		}                                                    \
	} while (0)

/** @expr is 0, or abort and name the errno. */
#define CHECK_OK(expr)                                               \
	do {                                                         \
		long long check_res_ = (expr);                       \
		CHECK(check_res_ == 0, "%s is %lld (%s)", #expr,     \
		      check_res_, strerror((int)-check_res_));       \
	} while (0)

#define CHECK_IS(expr, want)                                         \
	do {                                                         \
		long long check_res_ = (long long)(expr);            \
		long long check_want_ = (long long)(want);           \
		CHECK(check_res_ == check_want_, "%lld, not %lld",   \
		      check_res_, check_want_);                      \
	} while (0)

static inline void guard_fired(int sig)
{
	static const char text[] = "the test hangs: its guard has fired\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	abort();
}

/** Abort if this case is not over in @seconds; each call starts anew. */
static inline void guard(unsigned seconds)
{
	const char *factor = getenv("DBH_TEST_PATIENCE");

	signal(SIGALRM, guard_fired);
	alarm(seconds * (factor ? (unsigned)atoi(factor) : 1));
}

#endif

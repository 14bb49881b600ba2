/* SPDX-License-Identifier: MIT */
/*
 * say: complaints and progress. Used by the main thread only.
 */
#include "bench/say.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static bool line_shown;

void progress_clear(void)
{
	if (!line_shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	line_shown = false;
}

void complain(const char *fmt, ...)
{
	va_list ap;

	progress_clear();
	fputs("dropbehind bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void progress(const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	fputs("\r", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\033[K", stderr);
	fflush(stderr);
	line_shown = true;
}

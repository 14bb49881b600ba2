/* SPDX-License-Identifier: MIT */
/*
 * contender: the one that does not write at all.
 */
#include "bench/contender.h"

#include <errno.h>
#include <string.h>

static int idle_probe(const char *path, uint64_t budget_bytes, char *reason,
		      size_t reason_size)
{
	(void)path;
	(void)budget_bytes;
	(void)reason;
	(void)reason_size;
	return 0;
}

static int idle_open(const struct target *t, struct contender **out)
{
	(void)t;
	*out = NULL;
	return 0;
}

static int idle_write(struct contender *c, const void *buf, size_t len,
		      off_t off)
{
	(void)c;
	(void)buf;
	(void)len;
	(void)off;
	return -EBADF;
}

static int idle_sync(struct contender *c)
{
	(void)c;
	return 0;
}

static int idle_borrow_fd(struct contender *c)
{
	(void)c;
	return -EBADF;
}

static int idle_close(struct contender *c, struct contender_report *report)
{
	(void)c;
	memset(report, 0, sizeof(*report));
	report->hot_pages = -1;
	return 0;
}

const struct contender_ops contender_idle = {
	.name = "idle",
	.idle = true,
	.probe = idle_probe,
	.open = idle_open,
	.write = idle_write,
	.sync = idle_sync,
	.borrow_fd = idle_borrow_fd,
	.close = idle_close,
};

/* SPDX-License-Identifier: MIT */
/*
 * kernel: the contenders that are system calls: plain buffered writes, the
 * kernel's own uncached ones, and direct ones.
 */
#include "bench/contender.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_DSYNC
#define RWF_DSYNC 0x00000002
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080
#endif

struct contender {
	int fd;
	int rwf;
};

static int kernel_open(const struct target *t, int flags, int rwf,
		       struct contender **out)
{
	struct contender *c = malloc(sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->rwf = rwf | (t->dsync ? RWF_DSYNC : 0);
	c->fd = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	if (c->fd < 0) {
		err = errno;
		free(c);
		return -err;
	}
	*out = c;
	return 0;
}

static int none_open(const struct target *t, struct contender **out)
{
	return kernel_open(t, 0, 0, out);
}

static int dontcache_open(const struct target *t, struct contender **out)
{
	return kernel_open(t, 0, RWF_DONTCACHE, out);
}

static int direct_open(const struct target *t, struct contender **out)
{
	return kernel_open(t, O_DIRECT, 0, out);
}

static int kernel_write(struct contender *c, const void *buf, size_t len,
			off_t off)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	ssize_t n;

	while (iov.iov_len) {
		n = pwritev2(c->fd, &iov, 1, off, c->rwf);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		iov.iov_base = (char *)iov.iov_base + n;
		iov.iov_len -= (size_t)n;
		off += n;
	}
	return 0;
}

static int kernel_sync(struct contender *c)
{
	return fsync(c->fd) ? -errno : 0;
}

static int kernel_borrow_fd(struct contender *c)
{
	int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static int kernel_close(struct contender *c, struct contender_report *report)
{
	int ret = close(c->fd) ? -errno : 0;

	memset(report, 0, sizeof(*report));
	report->hot_pages = -1;
	free(c);
	return ret;
}

static int probe(const struct contender_ops *ops, const char *path,
		 const char *what, char *reason, size_t reason_size)
{
	struct target t = { .path = path };
	struct contender_report report;
	struct contender *c = NULL;
	void *block;
	int ret;

	if (posix_memalign(&block, 65536, 65536))
		return -ENOMEM;
	memset(block, 1, 65536);
	ret = ops->open(&t, &c);
	if (!ret) {
		ret = ops->write(c, block, 65536, 0);
		ops->close(c, &report);
	}
	free(block);
	if (ret)
		snprintf(reason, reason_size, "%s: %s", what, strerror(-ret));
	return ret;
}

static int none_probe(const char *path, uint64_t budget_bytes, char *reason,
		      size_t reason_size)
{
	(void)budget_bytes;
	return probe(&contender_kernel_none, path, "buffered writes fail here",
		     reason, reason_size);
}

static int dontcache_probe(const char *path, uint64_t budget_bytes,
			   char *reason, size_t reason_size)
{
	(void)budget_bytes;
	return probe(&contender_kernel_dontcache, path,
		     "this kernel or file system has no RWF_DONTCACHE", reason,
		     reason_size);
}

static int direct_probe(const char *path, uint64_t budget_bytes, char *reason,
			size_t reason_size)
{
	(void)budget_bytes;
	return probe(&contender_kernel_direct, path,
		     "this file system refuses O_DIRECT", reason, reason_size);
}

const struct contender_ops contender_kernel_none = {
	.name = "kernel:none",
	.probe = none_probe,
	.open = none_open,
	.write = kernel_write,
	.sync = kernel_sync,
	.borrow_fd = kernel_borrow_fd,
	.close = kernel_close,
};

const struct contender_ops contender_kernel_dontcache = {
	.name = "kernel:dontcache",
	.probe = dontcache_probe,
	.open = dontcache_open,
	.write = kernel_write,
	.sync = kernel_sync,
	.borrow_fd = kernel_borrow_fd,
	.close = kernel_close,
};

const struct contender_ops contender_kernel_direct = {
	.name = "kernel:direct",
	.whole_blocks_only = true,
	.probe = direct_probe,
	.open = direct_open,
	.write = kernel_write,
	.sync = kernel_sync,
	.borrow_fd = kernel_borrow_fd,
	.close = kernel_close,
};

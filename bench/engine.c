/* SPDX-License-Identifier: MIT */
/*
 * engine: the contender that is this project. Every run has an engine of its
 * own, so that its memory is that run's; making it is not in the time.
 */
#include "bench/contender.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES ((size_t)1 << 20)

struct contender {
	struct dbh_engine *engine;
	struct dbh_file *file;
	struct dbh_file *hot; /* NULL: the target has none */
	unsigned flags;
	dev_t dev; /* which file it is, to know its descriptors by */
	ino_t ino;
};

/* A cached read of everything, which leaves it in the engine's cache. */
static int read_all(struct dbh_file *file)
{
	char *buf = malloc(READ_BYTES);
	off_t off = 0;
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	do {
		n = dbh_pread(file, buf, READ_BYTES, off, 0);
		off += n > 0 ? n : 0;
	} while (n > 0);
	free(buf);
	return (int)n;
}

static int open_hot(struct contender *c, const char *path)
{
	int ret;

	ret = dbh_open(c->engine, path, O_RDONLY, 0, &c->hot);
	if (!ret)
		ret = read_all(c->hot);
	return ret;
}

static int engine_setup(struct contender *c, const struct target *t)
{
	struct stat st;
	int ret;

	ret = dbh_open(c->engine, t->path, O_RDWR | O_CREAT, 0600, &c->file);
	if (ret)
		return ret;
	ret = t->warm ? read_all(c->file) : 0;
	if (!ret && t->hot_path)
		ret = open_hot(c, t->hot_path);
	if (!ret)
		ret = dbh_fstat(c->file, &st);
	if (ret) {
		dbh_close(c->hot);
		dbh_close(c->file);
		return ret;
	}
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	c->flags = DBH_DONTCACHE | (t->dsync ? DBH_DSYNC : 0);
	return 0;
}

static int engine_open(const struct target *t, struct contender **out)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = t->budget_bytes,
				    .dirty_bytes = t->dirty_bytes,
				    .control_path = t->control_path,
				    .kick = t->kick };
	struct contender *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	ret = dbh_engine_create(&opts, &c->engine);
	if (ret)
		goto err_free;
	ret = engine_setup(c, t);
	if (ret)
		goto err_engine;
	*out = c;
	return 0;

err_engine:
	dbh_engine_destroy(c->engine);
err_free:
	free(c);
	return ret;
}

static int engine_write(struct contender *c, const void *buf, size_t len,
			off_t off)
{
	ssize_t n = dbh_pwrite(c->file, buf, len, off, c->flags);

	if (n == (ssize_t)len)
		return 0;
	return n < 0 ? (int)n : -EIO;
}

static int engine_sync(struct contender *c)
{
	return dbh_fsync(c->file);
}

static bool is_our_file(const struct contender *c, int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_PATH) && !fstat(fd, &st) &&
	       st.st_dev == c->dev && st.st_ino == c->ino;
}

/* The engine's descriptor is one of this process. */
static int engine_borrow_fd(struct contender *c)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *de;
	int fd = -ENOENT;

	if (!dir)
		return -errno;
	while (fd < 0 && (de = readdir(dir))) {
		int theirs = atoi(de->d_name);

		if (de->d_name[0] == '.' || !is_our_file(c, theirs))
			continue;
		fd = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0 && !is_our_file(c, fd)) {
			close(fd);
			fd = -ENOENT;
		}
	}
	closedir(dir);
	return fd;
}

static int engine_read_hot(struct contender *c, void *buf, size_t len,
			   off_t off)
{
	ssize_t n = dbh_pread(c->hot, buf, len, off, 0);

	if (n == (ssize_t)len)
		return 0;
	return n < 0 ? (int)n : -EIO;
}

/* What of it is still in the engine's cache. */
static int64_t close_hot(struct contender *c)
{
	struct dbh_residency res = { .struct_size = sizeof(res) };
	int64_t pages = -1;

	if (c->hot && !dbh_residency(c->hot, &res))
		pages = (int64_t)(res.cached * 4096 /
				  (uint64_t)sysconf(_SC_PAGESIZE));
	dbh_close(c->hot);
	return pages;
}

static int engine_close(struct contender *c, struct contender_report *report)
{
	int ret, ret2;

	memset(report, 0, sizeof(*report));
	report->stats.struct_size = sizeof(report->stats);
	report->info.struct_size = sizeof(report->info);
	dbh_file_info(c->file, &report->info);
	report->hot_pages = close_hot(c);
	ret = dbh_close(c->file);
	report->has_engine = !dbh_stats(c->engine, &report->stats);
	ret2 = dbh_engine_destroy(c->engine);
	free(c);
	return ret ? ret : ret2;
}

static int engine_probe(const char *path, uint64_t budget_bytes, char *reason,
			size_t reason_size)
{
	struct target t = { .path = path, .budget_bytes = budget_bytes };
	struct contender_report report;
	struct contender *c = NULL;
	char block[100] = { 0 };
	int ret;

	ret = engine_open(&t, &c);
	if (!ret) {
		int ret2;

		ret = engine_write(c, block, sizeof(block), 0);
		ret2 = engine_close(c, &report);
		ret = ret ? ret : ret2;
	}
	if (ret)
		snprintf(reason, reason_size, "the engine does not work: %s",
			 strerror(-ret));
	return ret;
}

const struct contender_ops contender_engine_dontcache = {
	.name = "engine:dontcache",
	.probe = engine_probe,
	.open = engine_open,
	.write = engine_write,
	.sync = engine_sync,
	.borrow_fd = engine_borrow_fd,
	.read_hot = engine_read_hot,
	.close = engine_close,
};

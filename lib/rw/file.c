// SPDX-License-Identifier: MIT
/*
 * file: handles, and which mapping an inode has.
 *
 * engine->lock keeps the table of mappings. It is held across the system calls
 * of an open, but not while a last close writes back: meanwhile the mapping
 * stays in the table, and an open of the same inode takes it over.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mm/writeback.h"
#include "rw/owner.h"
#include "rw/rw.h"

#define OPEN_FLAGS                                                          \
	(O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DSYNC |      \
	 O_SYNC | O_NOFOLLOW | O_NOATIME | O_DIRECT | O_CLOEXEC |           \
	 O_LARGEFILE | O_NONBLOCK | O_NOCTTY)

static struct list_head *bucket(struct dbh_engine *e, dev_t dev, ino_t ino)
{
	return &e->mappings[(ino ^ dev) % ENGINE_MAPPING_BUCKETS];
}

static struct mapping *find_mapping_locked(struct dbh_engine *e, dev_t dev,
					   ino_t ino)
{
	struct list_head *pos;

	assert_held(&e->lock);
	list_for_each(pos, bucket(e, dev, ino)) {
		struct mapping *m = list_entry(pos, struct mapping, link);

		if (m->store->dev == dev && m->store->ino == ino)
			return m;
	}
	return NULL;
}

/* ---- opening --------------------------------------------------------- */

/* Open what @path_fd (O_PATH) names, with the access of @flags or more. */
static int reopen(int path_fd, int flags, bool *writable)
{
	char path[32];
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	flags &= O_ACCMODE | O_NOATIME;
	/* For writing where allowed: it is the only descriptor (R22). */
	*writable = true;
	fd = open(path, O_RDWR | O_CLOEXEC | (flags & O_NOATIME));
	if (fd < 0 && (flags & O_ACCMODE) == O_RDONLY) {
		*writable = false;
		fd = open(path, O_RDONLY | O_CLOEXEC | (flags & O_NOATIME));
	}
	return fd < 0 ? -errno : fd;
}

static int new_mapping_locked(struct dbh_engine *e, struct store *store,
			      struct mapping **out)
{
	struct mapping *m;
	struct stat st;
	struct wb *wb;
	int err;

	err = store->ops->stat(store, &st);
	if (!err)
		err = wb_get_locked(e, store->dev, &wb);
	if (err)
		return err;
	m = mapping_create(e, store);
	if (!m)
		return -ENOMEM;
	m->wb = wb;
	atomic_store(&m->i_size, (uint64_t)st.st_size);
	atomic_store(&m->disk_size, (uint64_t)st.st_size);
	atomic_store(&m->disk_bound, (uint64_t)st.st_size);
	list_add(&m->link, bucket(e, store->dev, store->ino));
	owner_start_locked(m);
	*out = m;
	return 0;
}

static int device_ioq_locked(struct dbh_engine *e, int fd, struct ioq **out)
{
	struct stat st;
	struct wb *wb;
	int err;

	if (fstat(fd, &st))
		return -errno;
	err = wb_get_locked(e, st.st_dev, &wb);
	return err ? err : wb_ioq_locked(wb, out);
}

static int make_mapping_locked(struct dbh_engine *e, int path_fd, int flags,
			       bool created, struct mapping **out)
{
	struct store *store;
	struct ioq *ioq;
	bool writable = true;
	int fd, err;

	/* Who has just made the file may write it, whatever its mode. */
	if (created) {
		fd = fcntl(path_fd, F_DUPFD_CLOEXEC, 0);
		fd = fd < 0 ? -errno : fd;
	} else {
		fd = reopen(path_fd, flags, &writable);
	}
	if (fd < 0)
		return fd;
	err = store_file_mark(fd, writable);
	if (err) {
		close(fd);
		return err;
	}
	err = device_ioq_locked(e, fd, &ioq);
	if (!err)
		err = store_file_create(ioq, fd, &store);
	if (err) {
		close(fd);
		return err;
	}
	err = new_mapping_locked(e, store, out);
	if (err)
		store_destroy(store);
	return err;
}

/* The mapping was opened for reading only; now for more. */
static int make_writable_locked(struct mapping *m, int path_fd)
{
	bool writable;
	int fd, err;

	/* Our own lease would keep us from opening it. */
	owner_suspend_locked(m);
	fd = reopen(path_fd, O_RDWR, &writable);
	err = fd < 0 ? fd : store_file_make_writable(m->store, fd);
	owner_resume_locked(m);
	return err;
}

/* O_PATH, or for reading and writing if it was created. */
static int open_path(int dirfd, const char *path, int flags, mode_t mode,
		     bool *created)
{
	int nofollow = flags & O_NOFOLLOW, fd;

	*created = false;
	for (;;) {
		if (!(flags & O_CREAT) || !(flags & O_EXCL)) {
			fd = openat(dirfd, path, O_PATH | O_CLOEXEC | nofollow);
			if (fd >= 0)
				return fd;
			if (errno != ENOENT || !(flags & O_CREAT))
				return -errno;
		}
		/* EXCL: the inode is new, nobody has a mapping of it. A link
		 * to nowhere says EEXIST here and ENOENT above: follow it. */
		fd = openat(dirfd, path,
			    O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
		if (fd >= 0) {
			*created = true;
			return fd;
		}
		if (errno != EEXIST || (flags & O_EXCL))
			return -errno;
		fd = openat(dirfd, path,
			    O_CREAT | O_RDONLY | O_CLOEXEC | nofollow, mode);
		if (fd >= 0)
			return fd;
		if (errno != ENOENT)
			return -errno;
	}
}

static int check_kind(const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return 0;
	return S_ISDIR(st->st_mode) ? -EISDIR :
	       S_ISLNK(st->st_mode) ? -ELOOP :
				      -EINVAL;
}

/* May the caller open it so? The mapping's descriptor may have more. */
static int check_access(int path_fd, int flags)
{
	int access = flags & O_ACCMODE, want = 0;
	char path[32];

	if (access != O_WRONLY)
		want |= R_OK;
	if (access != O_RDONLY || (flags & O_TRUNC))
		want |= W_OK;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	return faccessat(AT_FDCWD, path, want, AT_EACCESS) ? -errno : 0;
}

static int get_mapping(struct dbh_engine *e, int path_fd, int flags,
		       bool created, struct mapping **out)
{
	struct mapping *m;
	struct stat st;
	int err;

	if (fstat(path_fd, &st))
		return -errno;
	err = check_kind(&st);
	if (!err && !created)
		err = check_access(path_fd, flags);
	if (err)
		return err;
	mutex_lock(&e->lock);
	m = find_mapping_locked(e, st.st_dev, st.st_ino);
	if (!m)
		err = make_mapping_locked(e, path_fd, flags, created, &m);
	else if (!m->store->writable && (flags & O_ACCMODE) != O_RDONLY)
		err = make_writable_locked(m, path_fd);
	if (!err) {
		m->refs++;
		e->nr_files++;
		*out = m;
	}
	mutex_unlock(&e->lock);
	return err;
}

static struct dbh_file *new_file(int flags)
{
	struct dbh_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->magic = FILE_MAGIC;
	file->flags = flags;
	readahead_init(&file->ra);
	return file;
}

static void file_publish(struct dbh_file *file, struct mapping *m)
{
	file->m = m;
	atomic_store(&file->err_since, errseq_sample(&m->wb_err));
}

int file_open(struct dbh_engine *e, int dirfd, const char *path, int flags,
	      mode_t mode, struct dbh_file **out)
{
	struct mapping *m = NULL;
	struct dbh_file *file;
	bool created;
	int path_fd, err;

	if ((flags & ~OPEN_FLAGS) || (flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	file = new_file(flags);
	if (!file)
		return -ENOMEM;
	path_fd = open_path(dirfd, path, flags, mode, &created);
	if (path_fd < 0) {
		free(file);
		return path_fd;
	}
	err = get_mapping(e, path_fd, flags, created, &m);
	close(path_fd);
	if (err) {
		free(file);
		return err;
	}
	file_publish(file, m);
	if ((flags & O_TRUNC) && !created && m->store->writable) {
		err = file_truncate(file, 0);
		if (err) {
			file_close(file);
			return err;
		}
	}
	*out = file;
	return 0;
}

int file_open_store(struct dbh_engine *e, struct store *store, int flags,
		    struct dbh_file **out)
{
	struct dbh_file *file = new_file(flags);
	struct mapping *m;
	int err;

	if (!file)
		return -ENOMEM;
	mutex_lock(&e->lock);
	m = find_mapping_locked(e, store->dev, store->ino);
	err = m ? 0 : new_mapping_locked(e, store, &m);
	if (!err) {
		m->refs++;
		e->nr_files++;
	}
	mutex_unlock(&e->lock);
	if (err) {
		free(file);
		return err;
	}
	file_publish(file, m);
	*out = file;
	return 0;
}

/* ---- closing --------------------------------------------------------- */

/* Nobody has it open: everything to the store, nothing kept. Meanwhile it may be
 * opened again, and written to: what is dirty then stays. */
static int write_out(struct mapping *m)
{
	struct stat st;
	int err, res;

	err = mapping_write_all(m);
	if (err && atomic_load(&m->nr_dirty)) {
		if (m->store->ops->stat(m->store, &st) || st.st_nlink)
			return err;
		/* It has no name any more: nobody could open it again, to
		 * try once more or to give the data up. */
		mapping_discard_all(m);
	}
	mapping_drop_clean(m);
	res = m->store->ops->settle(m->store);
	return err ? err : res;
}

/* Take the mapping off the table unless it was opened again. */
static void forget_locked(struct mapping *m)
{
	assert_held(&m->engine->lock);
	if (m->refs || m->closing || atomic_load(&m->nr_dirty) ||
	    node_next(m, 0) != UINT64_MAX)
		return;
	owner_stop_locked(m);
	list_del(&m->link);
	mapping_destroy(m);
}

int file_close(struct dbh_file *file)
{
	struct mapping *m = file->m;
	struct dbh_engine *e = m->engine;
	int err = 0, news;
	uint32_t left;
	bool last;

	while ((left = atomic_load_explicit(&file->async,
					    memory_order_acquire)))
		futex_wait(&file->async, left, UINT64_MAX);
	/* Whoever closes counts in closing: the mapping cannot go meanwhile.
	 * Of two that close together the second one is the last. */
	mutex_lock(&e->lock);
	last = !--m->refs;
	m->closing++;
	mutex_unlock(&e->lock);
	if (last)
		err = write_out(m);
	else if (atomic_load(&file->read_once))
		mapping_drop_once(m);
	owner_revalidate(m);
	news = file_check_error(file);
	mutex_lock(&e->lock);
	m->closing--;
	e->nr_files--;
	if (!m->refs && !m->closing) {
		atomic_store(&m->flush_failed, false);
		forget_locked(m);
	}
	mutex_unlock(&e->lock);
	paranoid_recount(e);
	file->magic = 0;
	free(file);
	return news ? news : err;
}

int files_finish(struct dbh_engine *e)
{
	int err = 0;

	for (unsigned i = 0; i < ENGINE_MAPPING_BUCKETS; i++) {
		struct list_head *pos, *tmp;

		list_for_each_safe(pos, tmp, &e->mappings[i]) {
			struct mapping *m = list_entry(pos, struct mapping,
						       link);
			int res = write_out(m);

			err = err ? err : res;
			mutex_lock(&e->lock);
			forget_locked(m);
			mutex_unlock(&e->lock);
		}
	}
	return err;
}

static bool later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec :
					a->tv_nsec > b->tv_nsec;
}

int file_stat(struct dbh_file *file, struct stat *st)
{
	struct mapping *m = file->m;
	struct stat below;
	uint64_t size;
	int err = m->store->ops->stat(m->store, &below);

	if (err)
		return err;
	size = i_size_read(m);
	/* Where others have it open, only the file knows; but for what could
	 * not be written. */
	if (mapping_shared(m))
		size = atomic_load(&m->nr_dirty) ?
			       MAX(size, (uint64_t)below.st_size) :
			       (uint64_t)below.st_size;
	below.st_size = (off_t)size;
	/* What is dirty will have blocks; and it was written until now, as far
	 * as anybody can tell who has not looked before. */
	if (atomic_load(&m->nr_dirty))
		below.st_blocks = MAX(below.st_blocks,
				      (blkcnt_t)(atomic_load(&m->nr_dirty) *
						 (PAGE_BYTES / 512)));
	mutex_lock(&m->mtime_lock);
	if (atomic_exchange(&m->mtime_pending, false))
		clock_gettime(CLOCK_REALTIME, &m->mtime);
	if (later(&m->mtime, &below.st_mtim))
		below.st_mtim = m->mtime;
	if (later(&m->mtime, &below.st_ctim))
		below.st_ctim = m->mtime;
	mutex_unlock(&m->mtime_lock);
	*st = below;
	return 0;
}

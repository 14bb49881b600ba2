// SPDX-License-Identifier: MIT
/*
 * api: the public functions. They check the handle and the arguments that no
 * room checks, and pass on.
 */
#include "dropbehind/dropbehind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control.h"
#include "mm/engine.h"
#include "rw/owner.h"
#include "rw/rw.h"

#define MEMORY_MIN (1ul << 20)
#define MEMORY_DEFAULT (256ul << 20)
#define QUEUE_DEPTH_DEFAULT 16u
#define QUEUE_DEPTH_MAX 256u
#define EXPIRE_MS_DEFAULT 30000u

#define STR2(x) #x
#define STR(x) STR2(x)

DBH_PUBLIC const char *dbh_version(void)
{
	return STR(DBH_VERSION_MAJOR) "." STR(DBH_VERSION_MINOR) "." STR(
		DBH_VERSION_PATCH);
}

/* R25: a child of the process that made the engine has nothing of it. */
static int check_engine(const struct dbh_engine *e)
{
	return likely(*e->fork_mark) ? 0 : -EPERM;
}

static int check_file(const struct dbh_file *file)
{
	assert(file->magic == FILE_MAGIC);
	return check_engine(file->m->engine);
}

/* ---- engine ---------------------------------------------------------- */

static size_t read_limit(const char *path)
{
	unsigned long long limit = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return SIZE_MAX;
	if (fscanf(f, "%llu", &limit) != 1)
		limit = SIZE_MAX; /* "max" */
	fclose(f);
	return limit ? (size_t)limit : SIZE_MAX;
}

/* The smallest memory limit of the cgroups of this process, of version 2 or 1,
 * as far as the usual mount points tell. */
static size_t cgroup_limit(void)
{
	char line[4096], path[4352];
	size_t limit = SIZE_MAX;
	FILE *f = fopen("/proc/self/cgroup", "re");

	if (!f)
		return limit;
	while (fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':'), *dir;
		const char *fmt = NULL;

		line[strcspn(line, "\n")] = '\0';
		dir = colon ? strchr(colon + 1, ':') : NULL;
		if (!dir)
			continue;
		if (colon[1] == ':')
			fmt = "/sys/fs/cgroup%s/memory.max";
		else if (!strncmp(colon + 1, "memory:", 7))
			fmt = "/sys/fs/cgroup/memory%s/memory.limit_in_bytes";
		if (!fmt)
			continue;
		snprintf(path, sizeof(path), fmt, dir + 1);
		limit = MIN(limit, read_limit(path));
	}
	fclose(f);
	return limit;
}

static size_t default_memory(void)
{
	size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) *
			(size_t)sysconf(_SC_PAGESIZE);

	memory = MIN(memory, cgroup_limit());
	return MAX(MIN(MEMORY_DEFAULT, memory / 8), MEMORY_MIN);
}

static int check_options(const struct dbh_options *o)
{
	if (o->memory_bytes && o->memory_bytes < MEMORY_MIN)
		return -EINVAL;
	if (o->queue_depth > QUEUE_DEPTH_MAX || o->io_method > DBH_IO_THREADS ||
	    o->kick > DBH_KICK_INLINE)
		return -EINVAL;
	return 0;
}

static int copy_options(struct dbh_options *to, const struct dbh_options *from)
{
	const unsigned char *tail = (const unsigned char *)from + sizeof(*to);

	memset(to, 0, sizeof(*to));
	if (!from)
		return 0;
	/* No structure will ever be larger than a page: that is garbage. */
	if (from->struct_size < sizeof(size_t) ||
	    from->struct_size > PAGE_BYTES)
		return -EINVAL;
	/* A newer caller may ask for what this library does not know. */
	for (size_t i = sizeof(*to); i < from->struct_size; i++)
		if (*tail++)
			return -EINVAL;
	memcpy(to, from, MIN(from->struct_size, sizeof(*to)));
	return check_options(to);
}

DBH_PUBLIC int dbh_engine_create(const struct dbh_options *opts,
				 struct dbh_engine **out)
{
	static const enum ioq_method methods[] = {
		[DBH_IO_AUTO] = IOQ_AUTO,
		[DBH_IO_URING] = IOQ_URING,
		[DBH_IO_THREADS] = IOQ_THREADS,
	};
	struct engine_options eo = { 0 };
	struct dbh_options o;
	struct dbh_engine *e;
	int err;

	err = copy_options(&o, opts);
	if (err)
		return err;
	eo.memory_bytes = o.memory_bytes ? o.memory_bytes : default_memory();
	eo.dirty_bytes = o.dirty_bytes;
	eo.background_bytes = o.background_bytes;
	eo.kick_inline = o.kick == DBH_KICK_INLINE;
	eo.edge_bytes = o.edge_bytes;
	eo.queue_depth = o.queue_depth ? o.queue_depth : QUEUE_DEPTH_DEFAULT;
	eo.expire_ms = o.expire_ms ? o.expire_ms : EXPIRE_MS_DEFAULT;
	eo.method = methods[o.io_method];
	err = engine_create(&eo, &e);
	if (err)
		return err;
	err = workers_create(e);
	if (err)
		goto out_engine;
	if (o.control_path)
		err = control_create(e, o.control_path, &e->control);
	if (err)
		goto out_workers;
	*out = e;
	return 0;

out_workers:
	workers_destroy(e);
out_engine:
	engine_free(e);
	return err;
}

DBH_PUBLIC int dbh_engine_destroy(struct dbh_engine *e)
{
	unsigned open;
	int err;

	if (!e)
		return 0;
	err = check_engine(e);
	if (err)
		return err;
	mutex_lock(&e->lock);
	open = e->nr_files;
	mutex_unlock(&e->lock);
	if (open)
		return -EBUSY;
	err = files_finish(e);
	if (err)
		return err;
	control_destroy(e->control);
	owners_destroy(e);
	workers_destroy(e);
	engine_free(e);
	return 0;
}

/* ---- files ----------------------------------------------------------- */

DBH_PUBLIC int dbh_open(struct dbh_engine *e, const char *path, int flags,
			mode_t mode, struct dbh_file **out)
{
	return dbh_openat(e, AT_FDCWD, path, flags, mode, out);
}

DBH_PUBLIC int dbh_openat(struct dbh_engine *e, int dirfd, const char *path,
			  int flags, mode_t mode, struct dbh_file **out)
{
	int err = check_engine(e);

	return err ? err : file_open(e, dirfd, path, flags, mode, out);
}

DBH_PUBLIC int dbh_close(struct dbh_file *file)
{
	int err;

	if (!file)
		return 0;
	err = check_file(file);
	return err ? err : file_close(file);
}

static ssize_t run(struct dbh_file *file, bool write, const struct iovec *iov,
		   int cnt, off_t off, unsigned flags)
{
	struct request req;
	int err = check_file(file);

	if (!err)
		err = request_init(&req, file, write, iov, cnt, off, flags);
	return err ? err : request_run(&req);
}

DBH_PUBLIC ssize_t dbh_pread(struct dbh_file *file, void *buf, size_t len,
			     off_t off, unsigned flags)
{
	struct iovec iov = { buf, len };

	return run(file, false, &iov, 1, off, flags);
}

DBH_PUBLIC ssize_t dbh_pwrite(struct dbh_file *file, const void *buf,
			      size_t len, off_t off, unsigned flags)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return run(file, true, &iov, 1, off, flags);
}

DBH_PUBLIC ssize_t dbh_preadv(struct dbh_file *file, const struct iovec *iov,
			      int cnt, off_t off, unsigned flags)
{
	return run(file, false, iov, cnt, off, flags);
}

DBH_PUBLIC ssize_t dbh_pwritev(struct dbh_file *file, const struct iovec *iov,
			       int cnt, off_t off, unsigned flags)
{
	return run(file, true, iov, cnt, off, flags);
}

DBH_PUBLIC int dbh_submit_read(struct dbh_file *file, const struct iovec *iov,
			       int cnt, off_t off, unsigned flags, dbh_cb *cb,
			       void *arg)
{
	int err = check_file(file);

	return err ? err :
		     request_submit(file, false, iov, cnt, off, flags, cb, arg);
}

DBH_PUBLIC int dbh_submit_write(struct dbh_file *file, const struct iovec *iov,
				int cnt, off_t off, unsigned flags, dbh_cb *cb,
				void *arg)
{
	int err = check_file(file);

	return err ? err :
		     request_submit(file, true, iov, cnt, off, flags, cb, arg);
}

DBH_PUBLIC ssize_t dbh_write_begin(struct dbh_file *file, off_t off, size_t len,
				   unsigned flags, struct iovec *iov, int *cnt,
				   struct dbh_write **out)
{
	int err = check_file(file);

	return err ? err : lent_begin(file, off, len, flags, iov, cnt, out);
}

DBH_PUBLIC ssize_t dbh_write_end(struct dbh_write *write, size_t written)
{
	return lent_end(write, written);
}

/* ---- sync and size --------------------------------------------------- */

DBH_PUBLIC int dbh_fsync(struct dbh_file *file)
{
	int err = check_file(file);

	return err ? err : file_sync(file, 0, INT64_MAX, false);
}

DBH_PUBLIC int dbh_fdatasync(struct dbh_file *file)
{
	int err = check_file(file);

	return err ? err : file_sync(file, 0, INT64_MAX, true);
}

DBH_PUBLIC int dbh_sync_range(struct dbh_file *file, off_t off, off_t len,
			      bool datasync)
{
	int err = check_file(file);

	if (err)
		return err;
	if (off < 0 || len < 0)
		return -EINVAL;
	if (!len || len > INT64_MAX - off)
		len = INT64_MAX - off;
	return file_sync(file, (uint64_t)off,
			 len ? (uint64_t)(off + len - 1) : (uint64_t)off,
			 datasync);
}

DBH_PUBLIC int dbh_ftruncate(struct dbh_file *file, off_t len)
{
	int err = check_file(file);

	if (err)
		return err;
	if (len < 0 || (file->flags & O_ACCMODE) == O_RDONLY)
		return -EINVAL;
	return file_truncate(file, (uint64_t)len);
}

DBH_PUBLIC int dbh_fallocate(struct dbh_file *file, int mode, off_t off,
			     off_t len)
{
	int err = check_file(file);

	return err ? err : file_fallocate(file, mode, off, len);
}

DBH_PUBLIC off_t dbh_lseek(struct dbh_file *file, off_t off, int whence)
{
	int err = check_file(file);

	return err ? err : file_seek(file, off, whence);
}

DBH_PUBLIC ssize_t dbh_copy_file_range(struct dbh_file *in, off_t off_in,
				       struct dbh_file *out, off_t off_out,
				       size_t len, unsigned flags)
{
	int err = check_file(in);

	if (!err)
		err = check_file(out);
	return err ? err :
		     file_copy_range(in, off_in, out, off_out, len, flags);
}

DBH_PUBLIC int dbh_fstat(struct dbh_file *file, struct stat *st)
{
	int err = check_file(file);

	return err ? err : file_stat(file, st);
}

DBH_PUBLIC int dbh_discard(struct dbh_file *file)
{
	int err = check_file(file);

	if (err)
		return err;
	if ((file->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	mapping_discard_failed(file->m);
	return 0;
}

DBH_PUBLIC bool dbh_edge_completes(struct dbh_file *file, off_t off)
{
	return !check_file(file) && off >= 0 &&
	       filemap_edge_completes(file->m, (uint64_t)off);
}

DBH_PUBLIC void dbh_edge_complete(struct dbh_file *file, off_t off)
{
	if (!check_file(file) && off >= 0)
		filemap_edge_complete(file->m, (uint64_t)off);
}

/* ---- looking inside -------------------------------------------------- */

/* Structures grow at their ends: fill what the caller knows. */
static int copy_out(void *to, size_t to_size, const void *from,
		    size_t from_size)
{
	if (to_size < sizeof(size_t))
		return -EINVAL;
	memcpy(to, from, MIN(to_size, from_size));
	if (to_size > from_size)
		memset((char *)to + from_size, 0, to_size - from_size);
	return 0;
}

DBH_PUBLIC int dbh_file_info(struct dbh_file *file, struct dbh_file_info *out)
{
	static const enum dbh_lease leases[] = {
		[OWNER_OWNED] = DBH_LEASE_OWNED,
		[OWNER_BREAKING] = DBH_LEASE_BREAKING,
		[OWNER_SHARED] = DBH_LEASE_SHARED,
		[OWNER_UNSUPPORTED] = DBH_LEASE_UNSUPPORTED,
	};
	struct dbh_file_info info = { .struct_size = out->struct_size };
	struct store *store;
	int err = check_file(file);

	if (err)
		return err;
	store = file->m->store;
	snprintf(info.store, sizeof(info.store), "%s", store->ops->name);
	info.io_method = file->m->engine->limit.method == IOQ_URING ?
				 DBH_IO_URING :
				 DBH_IO_THREADS;
	info.direct = atomic_load(&store->direct);
	info.min_folio_bytes = (unsigned)min_folio_bytes(file->m);
	info.offset_align = store->offset_align;
	info.mem_align = store->mem_align;
	info.lease = leases[mapping_owner(file->m)];
	return copy_out(out, out->struct_size, &info, sizeof(info));
}

DBH_PUBLIC int dbh_residency(struct dbh_file *file, struct dbh_residency *out)
{
	struct dbh_residency r = { .struct_size = out->struct_size };
	pgoff_t index = 0;
	int err = check_file(file);

	if (err)
		return err;
	while ((index = node_next(file->m, index)) != UINT64_MAX) {
		struct node *n = node_lock_find(file->m, index);

		index = ALIGN_DOWN(index, NODE_PAGES) + NODE_PAGES;
		if (n) {
			r.cached += (unsigned)__builtin_popcountll(n->present);
			r.dirty += (unsigned)__builtin_popcountll(n->dirty);
			r.writeback +=
				(unsigned)__builtin_popcountll(n->writeback);
			r.dropbehind +=
				(unsigned)__builtin_popcountll(n->dropbehind);
			r.edges += (unsigned)__builtin_popcountll(n->edge);
			mutex_unlock(&n->lock);
		}
		if (!index)
			break;
	}
	return copy_out(out, out->struct_size, &r, sizeof(r));
}

DBH_PUBLIC int dbh_stats(struct dbh_engine *e, struct dbh_stats *out)
{
	struct dbh_stats s = { .struct_size = out->struct_size };
	int err = check_engine(e);

	if (err)
		return err;
	engine_stats_read(e, &s);
	return copy_out(out, out->struct_size, &s, sizeof(s));
}

DBH_PUBLIC int dbh_bdi_stats(struct dbh_engine *e, unsigned index,
			     struct dbh_bdi_stats *out)
{
	struct dbh_bdi_stats s = { .struct_size = out->struct_size };
	struct wb *wb;
	int err = check_engine(e);

	if (err)
		return err;
	for (wb = wb_first(e); wb && index; wb = wb_next(wb))
		index--;
	if (!wb)
		return -ENOENT;
	wb_stats_read(wb, &s);
	return copy_out(out, out->struct_size, &s, sizeof(s));
}

/* SPDX-License-Identifier: MIT */
/*
 * dropbehind: uncached buffered I/O for any Linux.
 *
 * A page cache with drop-behind writeback, in user space, over O_DIRECT and
 * io_uring. Data written with DBH_DONTCACHE is copied into the cache, goes to
 * the disk in large requests, and is dropped once it is there. Two misaligned
 * writes that share a block never cause it to be read back.
 *
 * Conventions
 *   Functions return 0 or a count, or a negative errno. Outputs are untouched
 *   on failure. Sizes and offsets are in bytes. Every function may be called
 *   from any thread at any time, unless its comment says otherwise; none may
 *   be called from a signal handler. A handle must not be used after
 *   dbh_close(), nor an engine after a successful dbh_engine_destroy().
 *
 * What may be lost
 *   What the engine has accepted and not yet synced lives in this process. If
 *   the process dies, that data is lost, as a crash of the machine loses the
 *   kernel's dirty pages. Whole folios and completed edges of uncached writes
 *   start towards the disk within 100 ms, everything else within the expiry
 *   time (30 s by default). What was synced is on the device.
 *
 * Other programs
 *   One process caches a file at a time: a second engine, in this process or
 *   in another, gets -EBUSY from dbh_open(). Engines that only read a file may
 *   do so side by side; none of them can then open it for writing.
 *   Where the kernel grants a lease (to the owner of the file, or with
 *   CAP_LEASE), an open by another program waits until the engine has written
 *   everything back and dropped it; at most for the seconds that
 *   /proc/sys/fs/lease-break-time says. As long as others have the file open
 *   it is shared: a write is in the file when it returns (written back, not
 *   flushed), a read keeps nothing, DBH_NOWAIT gets -EAGAIN, and what this
 *   library says of reads avoided does not hold. When they have closed it,
 *   caching resumes, within a second or so. A program that has opened the file
 *   itself, beside the engine, is such another; so is a look at
 *   /proc/self/fd/N.
 *   Without a lease the engine caches all the same. What it has in its cache
 *   others see after a sync or close, and what they have appended or cut off
 *   the engine sees at its next sync or close.
 *   dbh_file_info() and dbh_stats() say which it is.
 *
 * After fork(), the child gets -EPERM from every call.
 */
#ifndef DROPBEHIND_DROPBEHIND_H
#define DROPBEHIND_DROPBEHIND_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DBH_VERSION_MAJOR 0
#define DBH_VERSION_MINOR 1
#define DBH_VERSION_PATCH 0

struct dbh_engine;
struct dbh_file;
struct dbh_write;

/** The library's version, "major.minor.patch". */
const char *dbh_version(void);

/* ---- engine ---------------------------------------------------------- */

/** How requests are issued to the kernel. */
enum dbh_io_method {
	DBH_IO_AUTO = 0, /* io_uring, or threads where it is refused */
	DBH_IO_URING = 1, /* io_uring, or dbh_engine_create() fails */
	DBH_IO_THREADS = 2, /* a pool of threads with preadv and pwritev */
};

/** Who starts the writeback of uncached data. Either way it is on its way within
 * 100 ms, and a mapping that is just being written is not waited for. */
enum dbh_kick {
	DBH_KICK_FLUSHER = 0, /* the writer wakes the flusher, which lets runs
			       * grow to large requests */
	DBH_KICK_INLINE = 1, /* the writer starts it itself, at the end of a
			      * blocking call, for what it has just written */
};

/**
 * struct dbh_options - how an engine is made; zero means the default
 * @struct_size: sizeof(struct dbh_options), so that it can grow
 * @memory_bytes: all memory of the engine: folios, their metadata, bounce and
 *	request buffers. At least 1 MiB. Default: the smaller of 256 MiB and an
 *	eighth of the machine's memory or of the cgroup's limit.
 * @dirty_bytes: dirty and written-back memory at most, of all devices together.
 *	Default: 3/4 of the memory for folios. A device alone may have 7/8 of
 *	it, so that a slow one never blocks the writers to another. Writers
 *	are slowed down, to the device's pace, from half way between the
 *	background limit and the device's own limit on.
 * @edge_bytes: incomplete edges at most. Default: 3/4 of @dirty_bytes.
 * @queue_depth: requests in flight at most, 1 to 256. Default: 16.
 * @expire_ms: age at which dirty data and edges are written. Default: 30000.
 * @io_method: enum dbh_io_method.
 * @control_path: where to open a control socket, at which dropbehind-stat(1) and
 *	dropbehind-trace(1) ask; NULL: none. In a directory it is called
 *	dropbehind-PID.sock. Its mode is 0600, and only this user and root are
 *	answered. It goes with the engine. Its buffers are not in @memory_bytes:
 *	up to 300 KiB for each of at most 16 who ask, and 700 KiB once
 *	somebody has traced.
 * @background_bytes: from so much dirty memory on cached data is written before
 *	it comes of age; a device's own limit is in proportion. Default: 1/4
 *	of @dirty_bytes; half of that where it is not less.
 * @kick: enum dbh_kick.
 */
struct dbh_options {
	size_t struct_size;
	size_t memory_bytes;
	size_t dirty_bytes;
	size_t edge_bytes;
	unsigned queue_depth;
	unsigned expire_ms;
	unsigned io_method;
	const char *control_path;
	size_t background_bytes;
	unsigned kick;
};

/**
 * dbh_engine_create - make an engine: its memory and its threads
 * @opts: NULL for the defaults
 * @out: the engine
 *
 * Return: 0; -EINVAL for an option out of its range or a structure larger than
 * this library knows with non-zero unknown fields; -ENOMEM; what io_uring or
 * thread creation returned. For the control socket: -EADDRINUSE if somebody
 * answers at that path (a dead socket is replaced), -ENOTSOCK if something else
 * lies there, -ENAMETOOLONG, and bind(2)'s errors.
 */
int dbh_engine_create(const struct dbh_options *opts, struct dbh_engine **out);

/**
 * dbh_engine_destroy - write everything back and free the engine
 *
 * Every file must have been closed. Where data of a closed file could not be
 * written, nothing is destroyed: open the file again, and dbh_fsync() it or
 * dbh_discard() it.
 *
 * Return: 0; -EBUSY while files are open; the error of the writeback.
 * NULL is allowed.
 */
int dbh_engine_destroy(struct dbh_engine *engine);

/* ---- files ----------------------------------------------------------- */

/**
 * dbh_open, dbh_openat - open a regular file through the engine
 * @flags: as for open(2): the access mode, O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
 *	O_DSYNC, O_SYNC, O_NOFOLLOW, O_NOATIME. O_DIRECT and O_CLOEXEC are
 *	accepted and change nothing.
 * @mode: permissions of a file that O_CREAT makes
 *
 * All handles of one inode share its cache.
 *
 * Return: 0; -EISDIR; -EINVAL for another file that is not regular or for an
 * unknown flag; -EBUSY if another engine caches the file; open(2)'s errors.
 */
int dbh_open(struct dbh_engine *engine, const char *path, int flags,
	     mode_t mode, struct dbh_file **out);
int dbh_openat(struct dbh_engine *engine, int dirfd, const char *path,
	       int flags, mode_t mode, struct dbh_file **out);

/**
 * dbh_close - close a handle
 *
 * Waits for the handle's asynchronous requests; so not from a callback of one.
 * The last close of a file returns after everything is written back (not
 * flushed) and nothing of it is left in the kernel's cache or the engine's.
 * The handle is gone whatever is returned.
 *
 * Return: 0, or an error of writeback that this handle has not heard of. Data
 * that could not be written stays in the engine, which tries again. NULL is
 * allowed.
 */
int dbh_close(struct dbh_file *file);

/* Flags of one call. An unknown flag gets -EOPNOTSUPP. */
#define DBH_DONTCACHE 0x0001u /* RWF_DONTCACHE: drop behind */
#define DBH_DSYNC 0x0002u /* RWF_DSYNC: data durable on return (writes) */
#define DBH_SYNC 0x0004u /* RWF_SYNC: and all metadata (writes) */
#define DBH_APPEND 0x0008u /* RWF_APPEND: at the end; the offset is ignored */
#define DBH_NOWAIT 0x0010u /* RWF_NOWAIT: -EAGAIN rather than wait */
#define DBH_DEFER 0x0020u /* with DBH_DONTCACHE: mark nothing; the writer
			   * completes its edges by dbh_edge_complete() */

/**
 * dbh_pread, dbh_preadv, dbh_pwrite, dbh_pwritev - read and write
 *
 * As pread(2), preadv2(2), pwrite(2) and pwritev2(2). A write is atomic to
 * readers per folio; writes to disjoint ranges run in parallel. A read sees
 * every byte written before its call began. At most 0x7ffff000 bytes are
 * transferred by one call, as in Linux.
 *
 * Return: bytes transferred, which may be fewer than asked for only at the end
 * of the file, at that limit, at RLIMIT_FSIZE, with DBH_NOWAIT or after an
 * error; -EBADF for the wrong access mode; -EINVAL for a negative offset, more
 * than IOV_MAX vectors or lengths that overflow; -EOPNOTSUPP for an unknown
 * flag; -EFBIG past the largest file or RLIMIT_FSIZE (with SIGXFSZ); -EAGAIN
 * with DBH_NOWAIT; -EIO and other errors of the store: of a read, of the sync of a
 * stable write (whose data is in the cache all the same, and is tried again), or
 * of writeback, where the file's data could not be written so far: -ENOSPC or
 * -EDQUOT for a write that needs room, any error when such data fills its share
 * of memory. Of what got an error at the write nothing was taken in.
 */
ssize_t dbh_pread(struct dbh_file *file, void *buf, size_t len, off_t off,
		  unsigned flags);
ssize_t dbh_pwrite(struct dbh_file *file, const void *buf, size_t len,
		   off_t off, unsigned flags);
ssize_t dbh_preadv(struct dbh_file *file, const struct iovec *iov, int cnt,
		   off_t off, unsigned flags);
ssize_t dbh_pwritev(struct dbh_file *file, const struct iovec *iov, int cnt,
		    off_t off, unsigned flags);

/**
 * dbh_cb - called once, when a request is done: from an engine thread, or from
 * the call that submitted it
 * @result: what the blocking call would have returned
 *
 * It may submit further requests; it must not block for long, and it must not
 * close the request's handle or destroy the engine.
 */
typedef void dbh_cb(void *arg, ssize_t result);

/**
 * dbh_submit_read, dbh_submit_write - the same, without waiting
 *
 * The vectors are copied; the memory they name must stay until @cb.
 * Where the request can be finished at once, @cb runs before the call returns,
 * unless that was made in a callback.
 *
 * Return: 0, and @cb will be called; else a negative errno and it will not.
 */
int dbh_submit_read(struct dbh_file *file, const struct iovec *iov, int cnt,
		    off_t off, unsigned flags, dbh_cb *cb, void *arg);
int dbh_submit_write(struct dbh_file *file, const struct iovec *iov, int cnt,
		     off_t off, unsigned flags, dbh_cb *cb, void *arg);

/**
 * dbh_write_begin - borrow folios to receive data straight into them
 * @off, @len: the range that will be written
 * @flags: DBH_DONTCACHE, DBH_DEFER, DBH_NOWAIT
 * @iov: filled with the memory to write into
 * @cnt: in: entries of @iov; out: entries used
 * @out: to be handed to dbh_write_end()
 *
 * The folios are locked until dbh_write_end(): readers, writers, syncs and
 * writeback of that range wait, and the device's writeback may wait with them;
 * so do not lend for long. A thread must make no other call of the engine
 * meanwhile. O_APPEND, O_SYNC and O_DSYNC of the handle do not apply.
 *
 * Return: bytes lent, from @off on: at least one, maybe fewer than @len; or
 * the errors of dbh_pwrite().
 */
ssize_t dbh_write_begin(struct dbh_file *file, off_t off, size_t len,
			unsigned flags, struct iovec *iov, int *cnt,
			struct dbh_write **out);

/**
 * dbh_write_end - give the folios back
 * @written: bytes stored from the start of the range; what lies behind them
 *	must not have been touched, for it may be cached data of the file
 *
 * Return: @written, or -EINVAL if that is more than was lent (the folios are
 * then given back with nothing written); -EPERM in a forked child.
 */
ssize_t dbh_write_end(struct dbh_write *write, size_t written);

/**
 * dbh_fsync, dbh_fdatasync - make what was written durable
 *
 * Return: 0, or an error of writeback that this handle has not heard of. After
 * a failed flush of the device, -EIO from every sync until the last close.
 */
int dbh_fsync(struct dbh_file *file);
int dbh_fdatasync(struct dbh_file *file);

/**
 * dbh_sync_range - dbh_fsync() or dbh_fdatasync() of a range
 * @len: 0 means to the end of the file
 */
int dbh_sync_range(struct dbh_file *file, off_t off, off_t len, bool datasync);

/** ftruncate(2): -EINVAL for a negative length or a read-only handle. */
int dbh_ftruncate(struct dbh_file *file, off_t len);

/**
 * dbh_fallocate - allocate, deallocate, zero or move bytes of a file
 * @mode: of fallocate(2): 0, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE,
 *	FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE,
 *	FALLOC_FL_UNSHARE_RANGE, FALLOC_FL_WRITE_ZEROES, with
 *	FALLOC_FL_KEEP_SIZE where that is allowed; as far as the file system
 *	has them
 *
 * No read or write of the file is under way meanwhile. What is dirty of a range
 * that is zeroed is not written; before bytes move, everything from @off on is
 * written back. After an error nothing that was written before is lost, but the
 * store may have done a part of it, as by the system call. With O_DSYNC or
 * O_SYNC it is durable on return.
 *
 * Return: 0; -EBADF for a read-only handle; -EFBIG past the largest file or
 * RLIMIT_FSIZE (with SIGXFSZ); -EINVAL for a negative offset, a length that is
 * not positive; fallocate(2)'s errors, -EOPNOTSUPP and -ENOSPC among them; where
 * bytes would move, the error of what could not be written before.
 */
int dbh_fallocate(struct dbh_file *file, int mode, off_t off, off_t len);

/**
 * dbh_lseek - find data or a hole
 * @whence: SEEK_DATA or SEEK_HOLE; a handle has no offset that could be moved
 *
 * What is dirty is data, whole blocks of it, before it is written. What was
 * written before the call began is never in a hole.
 *
 * Return: the offset; -ENXIO behind the end of the file, or where no data
 * follows; -EINVAL for another @whence.
 */
off_t dbh_lseek(struct dbh_file *file, off_t off, int whence);

/**
 * dbh_copy_file_range - copy bytes from one file to another, or within one
 * @flags: 0
 *
 * Shares blocks where the file system can, both files lie alike on its blocks,
 * and they are on the same one; else reads and writes, uncached, and leaves
 * holes where @in has some; for that it takes 256 KiB that are not in the
 * engine's memory_bytes. At most 0x7ffff000 bytes are copied by one call.
 *
 * Return: bytes copied: fewer than @len at the end of @in, at that limit, at
 * RLIMIT_FSIZE and after an error; 0 at or behind the end of @in; -EBADF for the
 * wrong access mode, or an O_APPEND handle as @out; -EINVAL for a negative
 * offset, for flags, or if both ranges are of one file and overlap; -EOVERFLOW
 * for a range that does not end within 2^64; -EFBIG (with SIGXFSZ); the errors
 * of dbh_pread(), dbh_pwrite() and FICLONERANGE.
 */
ssize_t dbh_copy_file_range(struct dbh_file *in, off_t off_in,
			    struct dbh_file *out, off_t off_out, size_t len,
			    unsigned flags);

/** fstat(2), with the size and times of what is still in the cache. */
int dbh_fstat(struct dbh_file *file, struct stat *st);

/**
 * dbh_discard - throw away data that could not be written
 *
 * The only way to lose it: dirty folios whose writeback has failed are dropped.
 *
 * Return: 0; -EBADF for a read-only handle.
 */
int dbh_discard(struct dbh_file *file);

/* ---- deferred edges -------------------------------------------------- */

/** Is every byte of the folio at @off covered by now? */
bool dbh_edge_completes(struct dbh_file *file, off_t off);

/**
 * dbh_edge_complete - a DBH_DEFER writer is done with the edge at @off
 *
 * Nothing happens while the edge is incomplete. Complete and clean, it is
 * dropped at once; complete and dirty, it is marked dropbehind.
 */
void dbh_edge_complete(struct dbh_file *file, off_t off);

/* ---- looking inside -------------------------------------------------- */

/** What became of direct I/O on a file. */
enum dbh_direct {
	DBH_DIRECT_UNPROVEN = 0, /* O_DIRECT is on, nothing was written yet */
	DBH_DIRECT_PROVEN = 1, /* and left nothing in the kernel's cache */
	DBH_DIRECT_PRETENCE = 2, /* it passes through the kernel's cache, which
				  * is written out and dropped behind */
	DBH_DIRECT_REFUSED = 3, /* refused: buffered, dropped behind */
};

/** How a file stands towards other programs that may open it. */
enum dbh_lease {
	DBH_LEASE_OWNED = 0, /* nobody else has it open; who opens it waits
			      * until everything is in the file */
	DBH_LEASE_BREAKING = 1, /* somebody waits for that */
	DBH_LEASE_SHARED = 2, /* others have it open: nothing is cached */
	DBH_LEASE_UNSUPPORTED = 3, /* cached; others come unseen */
};

/**
 * struct dbh_file_info - how a file is reached
 * @struct_size: set by the caller to sizeof(struct dbh_file_info)
 * @store: "file", or the name of a test store
 * @io_method: the enum dbh_io_method in use
 * @direct: enum dbh_direct
 * @min_folio_bytes: the minimum folio
 * @offset_align, @mem_align: of direct I/O, in bytes
 * @lease: enum dbh_lease
 */
struct dbh_file_info {
	size_t struct_size;
	char store[16];
	unsigned io_method;
	unsigned direct;
	unsigned min_folio_bytes;
	unsigned offset_align;
	unsigned mem_align;
	unsigned lease;
};
int dbh_file_info(struct dbh_file *file, struct dbh_file_info *info);

/**
 * struct dbh_residency - what of a file is in the engine's cache, in pages
 * of 4096 bytes
 */
struct dbh_residency {
	size_t struct_size; /* set by the caller */
	uint64_t cached;
	uint64_t dirty;
	uint64_t writeback;
	uint64_t dropbehind;
	uint64_t edges; /* incomplete edges */
};
int dbh_residency(struct dbh_file *file, struct dbh_residency *res);

/**
 * struct dbh_latency - how long something took, since the engine was made
 * @count: how many; of plain reads and writes that did not wait one in 16 is
 *	measured, and stands for 16
 * @sum_ns: of all
 * @p50_ns, @p99_ns, @p999_ns: percentiles, at most an eighth too large
 * @max_ns: the longest that was measured
 */
struct dbh_latency {
	uint64_t count, sum_ns;
	uint64_t p50_ns, p99_ns, p999_ns, max_ns;
};

/** Classes of requests by size: up to 4 KiB, 8 KiB, ... 1 MiB. */
#define DBH_BIO_SIZES 9
/** Classes of flushes by whom they served: 1, 2, up to 4, ... up to 64, more. */
#define DBH_SYNC_SIZES 8

/** struct dbh_stats - an engine's counters, since it was made */
struct dbh_stats {
	size_t struct_size; /* set by the caller */
	uint64_t memory_limit_bytes;
	uint64_t memory_used_bytes;
	uint64_t memory_peak_bytes;
	/* pages of 4096 bytes, now */
	uint64_t dirty;
	uint64_t writeback;
	uint64_t dontcache_dirty;
	uint64_t edges_live;
	/* pages, ever */
	uint64_t dirtied;
	uint64_t written;
	/* events, ever */
	uint64_t edges_completed;
	uint64_t edges_expired; /* written incomplete: age, pressure, close */
	uint64_t edges_filled_read;
	uint64_t edges_filled_zero;
	uint64_t kicks;
	uint64_t kick_skips;
	uint64_t flushes;
	uint64_t sync_waiters; /* that those flushes served */
	uint64_t read_bios, read_bytes;
	uint64_t write_bios, write_bytes;
	uint64_t throttled; /* waits of writers for memory or neighbours */
	uint64_t sync_waiters_max; /* of one flush */
	uint64_t sync_sizes[DBH_SYNC_SIZES]; /* flushes, by @sync_waiters */
	uint64_t read_bio_sizes[DBH_BIO_SIZES];
	uint64_t write_bio_sizes[DBH_BIO_SIZES];
	struct dbh_latency latency_write; /* dbh_pwrite() and its like */
	struct dbh_latency latency_read; /* dbh_pread() and its like */
	struct dbh_latency latency_sync; /* syncs, and those of stable writes */
	struct dbh_latency latency_flush; /* fsync of the store */
	struct dbh_latency latency_write_bio, latency_read_bio;
	struct dbh_latency latency_throttle; /* the waits of @throttled */
	uint64_t lease_breaks; /* opens by other programs that waited for us */
	uint64_t files_shared, files_unsupported; /* enum dbh_lease, now */
	uint64_t dirty_thresh, background_thresh; /* pages, of all devices */
};
int dbh_stats(struct dbh_engine *engine, struct dbh_stats *stats);

/* Bits of dbh_bdi_stats.state: the kernel's enum wb_state. */
#define DBH_WB_REGISTERED 0x1u /* always */
#define DBH_WB_WRITEBACK_RUNNING 0x2u /* the flusher is at work */
#define DBH_WB_HAS_DIRTY_IO 0x4u /* there are files with dirty pages */
#define DBH_WB_START_ALL 0x8u /* somebody wants all of it written, for memory */

/**
 * struct dbh_bdi_stats - the counters of one backing device
 *
 * The last ones are what the kernel shows in /sys/kernel/debug/bdi. Its lists
 * are of inodes; our flusher goes by nodes, of 64 pages of a file each.
 *
 * @b_dirty: files with pages that are dirty or under writeback
 * @b_io: nodes that the flusher has taken for its round and not yet written
 * @b_more_io: nodes of which something may be written, left for later
 * @b_dirty_time: always 0: there is no lazy time stamp; a file's times are set
 *	by the write itself
 * @state: DBH_WB_...
 * @dirty_thresh: pages dirty or under writeback at most, as the limits of all
 *	devices are reckoned now
 * @background_thresh: dirty pages from which on cached data is written
 * @write_bandwidth: bytes that it writes in a second while it has something to
 *	write, smoothed; before it has written, a guess of 100 MiB
 */
struct dbh_bdi_stats {
	size_t struct_size; /* set by the caller */
	uint64_t dev; /* st_dev of its files */
	uint64_t dirty, writeback, dontcache_dirty; /* pages, now */
	uint64_t dirtied, written; /* pages, ever */
	uint64_t b_dirty, b_io, b_more_io, b_dirty_time;
	uint64_t state;
	uint64_t dirty_thresh, background_thresh;
	uint64_t write_bandwidth;
};

/**
 * dbh_bdi_stats - the counters of the @index-th backing device
 * Return: 0, or -ENOENT past the last one.
 */
int dbh_bdi_stats(struct dbh_engine *engine, unsigned index,
		  struct dbh_bdi_stats *stats);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: MIT */
/*
 * rw: byte ranges onto folios.
 *
 * A read or a write is a request that goes on in steps: a step that must wait
 * queues the request's waiter and returns. A blocking call sleeps between the
 * steps; an asynchronous one is taken up again by one of the engine's workers.
 * A request holds the io_lock across its waits, and folio locks never.
 */
#ifndef DBH_RW_RW_H
#define DBH_RW_RW_H

#include <sys/types.h>

#include "dropbehind/dropbehind.h"
#include "mm/engine.h"
#include "mm/filemap.h"
#include "mm/readahead.h"

/** What Linux transfers in one call at most (MAX_RW_COUNT). */
#define RW_MAX_BYTES 0x7ffff000u

#define FILE_MAGIC 0xd20bf11eu

/**
 * struct dbh_file - an open handle
 * @magic: FILE_MAGIC while open
 * @flags: of open(2): access mode, O_APPEND, O_DSYNC, O_SYNC
 * @err_since: what of mapping->wb_err this handle has heard (R15)
 * @async: asynchronous requests that are not done; a close waits for them
 * @read_once: an uncached read went through it (R17)
 */
struct dbh_file {
	uint32_t magic;
	int flags;
	struct mapping *m;
	errseq_t err_since;
	struct readahead ra;
	_Atomic uint32_t async;
	_Atomic bool read_once;
};

/* ---- requests -------------------------------------------------------- */

enum request_phase {
	REQUEST_LOCK, /* to take the io_lock */
	REQUEST_COPY, /* bytes move */
	REQUEST_SHARED, /* instead, where others have the file open */
	REQUEST_SYNC, /* a write that must be durable, or in the file */
	REQUEST_DONE,
};

/**
 * struct request - a read or write under way
 * @waiter: queued when a step returns -EIOCBQUEUED
 * @iov, @cnt, @iov_off: vectors that are left, bytes done of the first
 * @pos, @left: where to go on, and how much
 * @filling: where a read has last tried to fill an edge
 * @start, @done: where it began, bytes transferred
 * @written: what was dirty of the file has just been written, for space
 * @result: once it is done
 * @start_ns, @weight: when it began, and how many it stands for, if it is
 *	measured (see request_measure()); 0: it is not
 * @slot: of the io_lock held shared, or -1; @exclusive, @claimed: or alone
 * @cb, @arg, @link: of an asynchronous one; the workers'
 */
struct request {
	struct waiter *waiter;
	struct dbh_file *file;
	bool write;
	unsigned flags;
	enum request_phase phase;
	const struct iovec *iov;
	int cnt;
	size_t iov_off;
	uint64_t pos, start, filling;
	size_t left, done;
	ssize_t result;
	uint64_t start_ns;
	unsigned weight;
	int slot;
	bool exclusive, claimed;
	bool written;
};

/** Check the arguments and set up; 0 or -errno. The vectors stay the
 * caller's. */
int request_init(struct request *req, struct dbh_file *file, bool write,
		 const struct iovec *iov, int cnt, off_t off, unsigned flags);
/** Go on. @may_sleep: it may lead a sync. Return: 0: done; -EIOCBQUEUED;
 * -EINPROGRESS: it must go on where it may sleep */
int request_step(struct request *req, bool may_sleep);
/** All of it, sleeping where it must. */
ssize_t request_run(struct request *req);

/* Asynchronous requests; workers.c. */
int workers_create(struct dbh_engine *e);
void workers_destroy(struct dbh_engine *e);
int request_submit(struct dbh_file *file, bool write, const struct iovec *iov,
		   int cnt, off_t off, unsigned flags, dbh_cb *cb, void *arg);

/* Lent folios; lent.c. */
ssize_t lent_begin(struct dbh_file *file, off_t off, size_t len, unsigned flags,
		   struct iovec *iov, int *cnt, struct dbh_write **out);
ssize_t lent_end(struct dbh_write *write, size_t written);

/* Parts of a write that both kinds share. */

/** May @len bytes be written at @pos? RLIMIT_FSIZE and the largest offset.
 * Return: 0, with *@len cut; -EFBIG, after SIGXFSZ where that is due */
int write_check_limit(struct mapping *m, uint64_t pos, size_t *len);
/** One piece of a read: step from req->pos; see request_step(). */
int read_piece(struct request *req);

/** @n bytes of the vectors are done. */
void request_skip(struct request *req, size_t n);

/* ---- shared.c: where others have the file open ----------------------- */

/** What is left of a request, through the kernel's cache; sleeps. The io_lock is
 * held. Return: 0; -errno; a read: -EIOCBQUEUED */
int request_read_shared(struct request *req);
int request_write_shared(struct request *req);
/** Get data that could not be written so far out of the way. */
int shared_write_out(struct mapping *m, uint64_t pos, size_t len);
/** Bytes into the file. Return: how many, or -errno */
ssize_t shared_write(struct mapping *m, const struct iov_part *part,
		     uint64_t pos, bool append);

/* ---- sync.c ---------------------------------------------------------- */

/** Make pages [@first, @last] durable; sleeps. Return: 0, or -errno that this
 * handle has not heard of. */
int file_sync(struct dbh_file *file, uint64_t first_byte, uint64_t last_byte,
	      bool datasync);
/** Write back, without a flush: everything, a range of bytes, pages, or all that
 * needs no filling; sleeps. Return: 0 or -errno */
int mapping_write_all(struct mapping *m);
int mapping_write_bytes(struct mapping *m, uint64_t first_byte,
			uint64_t last_byte);
int mapping_write_range(struct mapping *m, pgoff_t first, pgoff_t last);
int mapping_write_known(struct mapping *m);
/** The news of writeback for a handle. */
int file_check_error(struct dbh_file *file);

/* ---- lock.c ---------------------------------------------------------- */

/** Take the io_lock, with the size as it then is; sleeps. Return: the slot */
int mapping_lock_shared(struct mapping *m);
/** The same, alone. */
void mapping_lock_alone(struct mapping *m);

/* ---- truncate.c ------------------------------------------------------ */

int file_truncate(struct dbh_file *file, uint64_t size);
/** The same, if it is shorter. */
int file_grow(struct dbh_file *file, uint64_t size);
/** May the file become as long as @size? RLIMIT_FSIZE and the largest file.
 * Return: 0; -EFBIG, after SIGXFSZ where that is due */
int size_check_limit(struct mapping *m, uint64_t size);

/* ---- fallocate.c, copy.c, seek.c ------------------------------------- */

/** See dbh_fallocate(), dbh_copy_file_range(), dbh_lseek(). */
int file_fallocate(struct dbh_file *file, int mode, off_t off, off_t len);
ssize_t file_copy_range(struct dbh_file *in, off_t off_in, struct dbh_file *out,
			off_t off_out, size_t len, unsigned flags);
off_t file_seek(struct dbh_file *file, off_t off, int whence);

/* ---- hide.c: a range that is about to change in the store ------------ */

/** Nothing of [@start, @end) starts to the disk, nor the block of an end, and
 * nothing is under way. The io_lock is held alone; sleeps; size_lock is taken,
 * until hide_end(). */
void hide_begin(struct mapping *m, uint64_t start, uint64_t end);
void hide_end(struct mapping *m);
/** The store's bytes have changed: drop what is cached of them. Of a block of
 * which only a part has changed, that part is zero now. @size: where the file
 * has ended */
void hide_zero(struct mapping *m, uint64_t start, uint64_t end, uint64_t size);
/** The store has failed, with @err, and may have done a part: drop what is clean.
 */
void hide_failed(struct mapping *m, uint64_t start, uint64_t end, int err);

/* ---- drop.c ---------------------------------------------------------- */

/** Call @fn on every folio of pages [@first, @last], locked and not under
 * writeback; it unlocks or drops it. */
void mapping_for_each_folio(struct mapping *m, pgoff_t first, pgoff_t last,
			    void (*fn)(struct folio *f, void *arg), void *arg);
/** See dbh_discard(). */
void mapping_discard_failed(struct mapping *m);
/** Drop all folios that are not dirty. */
void mapping_drop_clean(struct mapping *m);
void mapping_drop_clean_range(struct mapping *m, pgoff_t first, pgoff_t last);
/** Drop all folios, dirty ones too. */
void mapping_discard_all(struct mapping *m);
/** Drop what uncached reads have left (R17). */
void mapping_drop_once(struct mapping *m);

/* ---- file.c ---------------------------------------------------------- */

int file_open(struct dbh_engine *e, int dirfd, const char *path, int flags,
	      mode_t mode, struct dbh_file **out);
/** For tests: a handle on any store, which it takes over. */
int file_open_store(struct dbh_engine *e, struct store *store, int flags,
		    struct dbh_file **out);
int file_close(struct dbh_file *file);
int file_stat(struct dbh_file *file, struct stat *st);
/** Write back and close what closed files have left. Return: 0 or -errno */
int files_finish(struct dbh_engine *e);

#endif

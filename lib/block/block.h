/* SPDX-License-Identifier: MIT */
/*
 * block: aligned requests to a store, and how they are issued.
 *
 * A bio is one request. A store is what lies below a mapping: a file, or for
 * tests memory and a store that fails. An ioq issues the bios of file stores:
 * io_uring, or threads. Short transfers, EINTR and EAGAIN are settled here and
 * nowhere else; what comes back from a bio is all or an error.
 */
#ifndef DBH_BLOCK_BLOCK_H
#define DBH_BLOCK_BLOCK_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/list.h"

struct store;
struct ioq;

/** Bytes of one bio at most; larger ones gain nothing (doc/design.md). */
#define BIO_MAX_BYTES (1u << 20)
/** Vectors of one bio at most: a MiB of 4 KiB folios. */
#define BIO_MAX_VECS 256u

enum bio_op { BIO_READ, BIO_WRITE };

/**
 * struct bio - one request to a store
 * @list: the owner's, until submit and from end_io on; block's in between
 * @store: where to
 * @op: read or write
 * @pos: byte offset; a multiple of store->offset_align
 * @len: bytes; a multiple of store->offset_align, at most BIO_MAX_BYTES.
 *	The sum of the vectors.
 * @vecs, @nr_vecs: memory, each vector aligned and sized to store->mem_align.
 *	The array is the owner's; block does not change it.
 * @status: 0, or a negative errno, set before end_io. 0 means that all @len
 *	bytes were transferred; what a read finds past the end of the file
 *	is zero.
 * @end_io: called once, from a thread of block's own (task context), with no
 *	lock held. It may submit other bios, and reuse or free this one. It
 *	must not wait for a bio, nor call a store_ops other than submit: the
 *	thread it runs in is the one that ends the others.
 * @private: the owner's
 * @submit_ns: monotonic time of submission, set by bio_submit()
 */
struct bio {
	struct list_head list;
	struct store *store;
	enum bio_op op;
	uint64_t pos;
	uint32_t len;
	uint32_t nr_vecs;
	struct iovec *vecs;
	int status;
	void (*end_io)(struct bio *bio);
	void *private;
	uint64_t submit_ns;
	/* block's own, while in flight */
	uint32_t done; /* bytes transferred so far */
	uint32_t tries; /* consecutive EAGAIN or EINTR */
	struct iovec *rest; /* vectors left after a short transfer; malloc'd */
	uint32_t nr_rest;
	int fd;
	uint32_t flags; /* enum bio_flags of ioq.h */
	uint64_t due_ns; /* of a store that delays */
	void (*ended)(struct bio *bio); /* the store's, before end_io */
};

/**
 * bio_submit - start a bio
 *
 * Context: may sleep; no short lock held. Returns after the request was
 * queued, or after it has ended (end_io then has run or is running in another
 * thread; never in the caller).
 */
void bio_submit(struct bio *bio);

/**
 * enum store_direct - how a store transfers: what dbh_file_info() reports
 * @STORE_UNPROVEN: with O_DIRECT; nothing has been written yet that would tell
 * @STORE_PROVEN: a direct write left no page in the kernel's cache. (btrfs
 *	with checksums is among these: it goes through the cache and drops the
 *	pages by itself.)
 * @STORE_PRETENCE: O_DIRECT is accepted and pages stay. Each write is written
 *	out and dropped before its bio ends; but on tmpfs, which is the page
 *	cache, nothing can be dropped.
 * @STORE_REFUSED: no direct I/O; otherwise as above, and what reads bring into
 *	the cache is dropped as well
 */
enum store_direct {
	STORE_UNPROVEN,
	STORE_PROVEN,
	STORE_PRETENCE,
	STORE_REFUSED,
};

struct store_lease_ops;

/**
 * struct store_ops - a kind of store; members are required unless they say
 * otherwise
 *
 * All may sleep and are called with no short lock held. They return 0 or a
 * negative errno. Calls on one store may come from several threads.
 */
struct store_ops {
	const char *name;
	/* Start a bio; see bio_submit(). */
	void (*submit)(struct store *store, struct bio *bio);
	/* fsync or fdatasync. What ended before the call began is durable. */
	int (*flush)(struct store *store, bool datasync);
	/*
	 * Write exactly @len bytes at @pos, unaligned, without changing a byte
	 * beside them; the file then ends at @pos + @len or where it ended if
	 * that was later. For the end block only (R16): a file store goes
	 * through the kernel's cache and keeps the one page. Safe beside bios
	 * in flight to other blocks.
	 */
	int (*write_tail)(struct store *store, const void *buf, size_t len,
			  uint64_t pos);
	/* Write out and drop whatever the kernel's cache holds of the file in
	 * consequence of our own I/O. Clean pages of others stay. */
	int (*settle)(struct store *store);
	/* ftruncate. The caller makes sure that no bio in flight is beyond. */
	int (*truncate)(struct store *store, uint64_t size);
	/* fstat of what lies below. */
	int (*stat)(struct store *store, struct stat *st);
	/*
	 * fallocate(2), of any mode that there is. The caller makes sure that
	 * no write to the range is in flight, nor, if bytes move, any to what
	 * is behind it. After an error a part of it may have been done.
	 */
	int (*fallocate)(struct store *store, int mode, uint64_t pos,
			 uint64_t len);
	/* lseek(2) with SEEK_DATA or SEEK_HOLE: *@out is where. Return:
	 * -ENXIO behind the end, or where no data is. */
	int (*seek)(struct store *store, int whence, uint64_t pos,
		    uint64_t *out);
	/*
	 * Optional: let [@pos, @pos + @len) share the blocks of @from, a store
	 * of the same kind or the same one, from @from_pos on. Of both as at
	 * fallocate. Not so: -EINVAL, -EXDEV or -ETXTBSY; not here, whatever
	 * is asked: -EOPNOTSUPP.
	 */
	int (*clone)(struct store *store, uint64_t pos, struct store *from,
		     uint64_t from_pos, uint64_t len);
	/* Optional: bytes that are free where it lies, for this user. */
	int (*space)(struct store *store, uint64_t *bytes);
	/* Free the store; no bio is in flight. */
	void (*destroy)(struct store *store);
	/* Optional; NULL: nobody but us can open it. */
	const struct store_lease_ops *lease;
};

/**
 * The signal by which the kernel says that a lease is broken. It is sent to one
 * thread of ours, which has it blocked and waits for it, so the host's
 * handlers never see it. A standard signal is pending or not: it cannot be lost
 * as one of a full queue of real-time signals can, and all leases are looked
 * at when it comes. This one, since nobody uses it: our thread takes what is
 * sent to the process too, where no other does.
 */
#ifdef SIGSTKFLT
#define STORE_LEASE_SIGNAL SIGSTKFLT
#else
#define STORE_LEASE_SIGNAL SIGIO
#endif

/** struct iov_part - @len bytes of vectors, from byte @skip of the first on */
struct iov_part {
	const struct iovec *iov;
	int cnt;
	size_t skip, len;
};

/**
 * struct store_lease_ops - of a store that other programs can open (R22)
 *
 * All members required. All but @broken may sleep; none with a short lock held.
 */
struct store_lease_ops {
	/*
	 * Take the lease; from now on thread @tid is sent STORE_LEASE_SIGNAL
	 * when another program opens the file. Return: 0; -EAGAIN: somebody
	 * has it open; -EOPNOTSUPP: there are no leases here, or not for us.
	 */
	int (*take)(struct store *store, pid_t tid);
	/* Give it up: whoever waits to open the file goes on. */
	void (*drop)(struct store *store);
	/* The lease that was taken is broken, or gone. A fcntl(). */
	bool (*broken)(struct store *store);
	/* Others have (not) got the file open: O_DIRECT off (on). */
	void (*share)(struct store *store, bool on);
	/* Exactly these bytes, through the kernel's cache, of a shared store.
	 * Return: how many; those written are in the file, not flushed. */
	ssize_t (*read)(struct store *store, const struct iov_part *part,
			uint64_t pos);
	ssize_t (*write)(struct store *store, const struct iov_part *part,
			 uint64_t pos);
	/* At the end, wherever that is by then. */
	ssize_t (*append)(struct store *store, const struct iov_part *part);
};

/**
 * struct store - what lies below a mapping
 * @offset_align, @mem_align: of bios; powers of two, 512 to 65536
 * @min_folio_bytes: the minimum folio: a power of two, 4096 to 65536; a
 *	multiple of both alignments
 * @max_bytes: the largest file that it takes
 * @direct: enum store_direct, atomic (proved by the first write)
 * @no_clone: clone has said -EOPNOTSUPP; atomic, the caller's
 * @writable: opened for writing
 * @dev, @ino: identity, set before publish
 */
struct store {
	const struct store_ops *ops;
	uint32_t offset_align;
	uint32_t mem_align;
	uint32_t min_folio_bytes;
	uint64_t max_bytes;
	_Atomic unsigned direct;
	_Atomic bool no_clone;
	bool writable;
	dev_t dev;
	ino_t ino;
};

static inline void store_destroy(struct store *store)
{
	if (store)
		store->ops->destroy(store);
}

/* ---- ioq: how file stores issue ------------------------------------- */

enum ioq_method { IOQ_AUTO, IOQ_URING, IOQ_THREADS };

/**
 * ioq_create - start issuing: a ring and its completion thread, or threads
 * @method: IOQ_AUTO tries io_uring and falls back to threads where it is
 *	refused (EPERM, ENOSYS, ENOMEM, io_uring_disabled)
 * @depth: requests in flight at most; more are held back, never refused
 * Return: 0 or -errno
 */
int ioq_create(enum ioq_method method, unsigned depth, struct ioq **out);
/** No bio is in flight. NULL is allowed. Returns after the threads have ended
 * and every descriptor is closed. */
void ioq_destroy(struct ioq *ioq);
/** IOQ_URING or IOQ_THREADS. */
enum ioq_method ioq_method(const struct ioq *ioq);

/* ---- stores ---------------------------------------------------------- */

/**
 * store_file_create - a regular file through O_DIRECT
 * @fd: opened O_RDONLY or O_RDWR, without O_DIRECT and O_APPEND; owned by the
 *	store on success. It stays the only descriptor (R22).
 * Return: 0 or -errno
 */
int store_file_create(struct ioq *ioq, int fd, struct store **out);

/** Put the owner's mark on a file's descriptor, or its writer's. Sleeps a
 * little where somebody has it. Return: 0 or -EBUSY */
int store_file_mark(int fd, bool writable);

/**
 * store_file_make_writable - replace a read-only descriptor by @fd (O_RDWR)
 *
 * In place, by dup3(); @fd is closed in any case. Waits for bios in flight.
 * The owner's mark goes along; the caller has given up the lease, which goes
 * with the old open file. store->writable changes in here: the caller sees to
 * who reads it.
 * Return: 0; -EBUSY: another engine reads the file; -errno
 */
int store_file_make_writable(struct store *store, int fd);

/**
 * store_mem_create - bytes in memory, for tests
 * @min_folio_bytes: 4096 to 65536; also the alignment that it asserts of bios
 *	is @align
 */
int store_mem_create(uint32_t min_folio_bytes, uint32_t align,
		     struct store **out);

/**
 * struct store_fault_options - what goes wrong, from a seed
 * @seed: of everything random; taken at create, store_fault_set() goes on
 * @error_every: every n-th bio fails with @error (0: never). A write that
 *	fails may have written any of its sectors.
 * @flush_error_every: every n-th flush fails, and some of what was written
 *	since the last good one will never become durable
 * @tail_error_every: every n-th write_tail, truncate, fallocate or piece of a
 *	clone fails
 * @error: the errno (positive) to fail with; 0 means EIO
 * @bad_pos, @bad_len: bios that touch these bytes fail with @error
 * @delay_us: each bio ends after a random time up to this
 * @nth_bio, @nth_flush, @nth_tail: the n-th from store_fault_set() on fails, as
 *	above (0: none); @onwards: and all after it
 */
struct store_fault_options {
	uint64_t seed;
	unsigned error_every;
	unsigned flush_error_every;
	unsigned tail_error_every;
	int error;
	uint64_t bad_pos, bad_len;
	unsigned delay_us;
	unsigned nth_bio, nth_flush, nth_tail;
	bool onwards;
};

/**
 * store_fault_create - a store in memory that fails, and that can lose power
 *
 * It keeps what is durable apart from what is written and not yet flushed.
 */
int store_fault_create(uint32_t min_folio_bytes, uint32_t align,
		       const struct store_fault_options *opts,
		       struct store **out);
/** How many have failed so far. */
uint64_t store_fault_count(struct store *store);
/** Change what goes wrong from now on. */
void store_fault_set(struct store *store,
		     const struct store_fault_options *opts);
/**
 * store_fault_power_cut - what a disk would hold if power failed now
 * @seed: which version of each 512-byte sector survives: the durable one, any
 *	written since the last good flush, or that of a write in flight; each
 *	sector by itself, and the size likewise
 * @out: a new mem store with that content; the faulty one goes on unharmed
 */
int store_fault_power_cut(struct store *store, uint64_t seed,
			  struct store **out);
/** Reads and writes of the content behind the store's back, for checks. The
 * store is a mem or fault store. Return: bytes, short at its end. */
size_t store_mem_peek(struct store *store, void *buf, size_t len, uint64_t pos);
uint64_t store_mem_size(struct store *store);
/** Number of bios so far, by op. */
uint64_t store_mem_bios(struct store *store, enum bio_op op);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * stats: what an engine counts and measures, and how it is told.
 */
#ifndef DBH_MM_STATS_H
#define DBH_MM_STATS_H

#include "base/histogram.h"
#include "block/block.h"
#include "dropbehind/dropbehind.h"
#include "mm/mapping.h"

struct wb;

/** What is measured, in ns. */
enum latency {
	LATENCY_WRITE, /* calls; see request_finish() */
	LATENCY_READ,
	LATENCY_SYNC, /* of each who waits for one */
	LATENCY_FLUSH,
	LATENCY_WRITE_BIO,
	LATENCY_READ_BIO,
	LATENCY_THROTTLE, /* see throttle_begin() */
	NR_LATENCIES,
};

/** Events since the engine was made; relaxed atomics. */
struct engine_stats {
	_Atomic uint64_t edges_completed, edges_expired;
	_Atomic uint64_t edges_filled_read, edges_filled_zero;
	_Atomic uint64_t kicks, kick_skips;
	_Atomic uint64_t flushes, sync_waiters, sync_waiters_max;
	_Atomic uint64_t read_bios, read_bytes, write_bios, write_bytes;
	_Atomic uint64_t throttled;
	_Atomic uint64_t lease_breaks;
	_Atomic long files[NR_OWNER_STATES]; /* that others can open; now */
	_Atomic uint64_t nodes_filled; /* became writable whole */
	_Atomic uint64_t sync_sizes[DBH_SYNC_SIZES];
	_Atomic uint64_t read_bio_sizes[DBH_BIO_SIZES];
	_Atomic uint64_t write_bio_sizes[DBH_BIO_SIZES];
	struct histogram latency[NR_LATENCIES];
};

#define stat_add(e, item, n)                                    \
	atomic_fetch_add_explicit(&(e)->stats.item, (uint64_t)(n), \
				  memory_order_relaxed)
#define stat_inc(e, item) stat_add(e, item, 1)

/** I/O of a mapping begins, and has ended; as the kernel's functions. @start_ns
 * is the monotonic time of its beginning. */
void io_start_acct(struct mapping *m, enum bio_op op, uint64_t pos,
		   uint32_t len);
void io_end_acct(struct mapping *m, enum bio_op op, uint64_t pos, uint32_t len,
		 int status, uint64_t start_ns);

/** The same for a bio: before bio_submit(), and in its end_io. */
static inline void bio_start_io_acct(struct mapping *m, const struct bio *bio)
{
	io_start_acct(m, bio->op, bio->pos, bio->len);
}

static inline void bio_end_io_acct(struct mapping *m, const struct bio *bio)
{
	io_end_acct(m, bio->op, bio->pos, bio->len, bio->status,
		    bio->submit_ns);
}

/** A flush served @waiters (R14). */
void flush_acct(struct mapping *m, unsigned waiters, int err, uint64_t ns);

/** Fill a structure but for its struct_size. Context: no lock; it waits for
 * none that is held for long. */
void engine_stats_read(struct dbh_engine *e, struct dbh_stats *s);
void wb_stats_read(struct wb *wb, struct dbh_bdi_stats *s);

#endif

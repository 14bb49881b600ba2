/* SPDX-License-Identifier: MIT */
/*
 * writers: the threads that write records interleaved in one file.
 */
#ifndef BENCH_WRITERS_H
#define BENCH_WRITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/histogram.h"

struct contender;
struct contender_ops;
struct pattern;

/**
 * struct work - what the threads shall do
 * @record: bytes
 * @count: records in the file; thread r has r, r + threads, ...
 * @odd_rows_only: leave the records of even rows alone; a row is a record of
 *	each thread
 * @gap_us: pause of a thread between two of its writes
 * @laps: when all records are written the file is synced and the threads
 *	begin again, until writers_stop()
 * @phase_number: the content of lap n has pattern_phase(@phase_number + n)
 */
struct work {
	const struct contender_ops *ops;
	struct contender *contender;
	const struct pattern *pattern;
	uint64_t record;
	uint64_t count;
	unsigned threads;
	bool odd_rows_only;
	unsigned gap_us;
	bool laps;
	unsigned phase_number;
};

/** struct work_done - what they did, and when, in ns of the clock */
struct work_done {
	uint64_t writes;
	uint64_t start_ns; /* before the first write */
	uint64_t end_ns; /* after the last one */
	struct latency latency; /* of each write call */
};

/** struct writers - opaque: the threads, ready to go */
struct writers;

/** writers_create - start the threads; they wait. Does not complain. */
int writers_create(const struct work *work, struct writers **out);

/**
 * writers_run - let them go, and wait until all are done
 * Return: 0; the error of the first write that failed; -EINTR when asked to
 * stop. Does not complain.
 */
int writers_run(struct writers *w, struct work_done *done);

/**
 * writers_start, writers_stop - the same in two parts, for laps
 *
 * What happens between them happens beside the writers.
 */
void writers_start(struct writers *w);
int writers_stop(struct writers *w, struct work_done *done);

/** writers_count - the writes of one thread, when all are done */
uint64_t writers_count(const struct writers *w, unsigned thread);

/** writers_destroy - also before they ran. NULL is allowed. */
void writers_destroy(struct writers *w);

#endif

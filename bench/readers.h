/* SPDX-License-Identifier: MIT */
/*
 * readers: threads that read at random in a file that is cached, beside
 * whoever writes another one.
 */
#ifndef BENCH_READERS_H
#define BENCH_READERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/histogram.h"

struct layout;

/**
 * struct reading - what the threads shall do
 * @read: read all of it; 0 or a negative errno; from any thread
 * @layout: what they must find
 * @size: bytes of a read
 * @rate: reads a second of each thread; 0: as many as it can
 */
struct reading {
	int (*read)(void *arg, void *buf, size_t len, off_t off);
	void *arg;
	const struct layout *layout;
	size_t size;
	unsigned threads;
	unsigned rate;
};

/** struct reading_done - what they did */
struct reading_done {
	uint64_t ns; /* from readers_start() to readers_stop() */
	uint64_t wrong; /* reads that did not find what they must */
	struct latency latency;
};

/** struct readers - opaque: the threads, at work */
struct readers;

/** readers_start - Does not complain. */
int readers_start(const struct reading *reading, struct readers **out);

/**
 * readers_stop - the threads are gone, whatever is returned
 * Return: 0, or the error of the first read that failed. Does not complain.
 */
int readers_stop(struct readers *r, struct reading_done *done);

#endif

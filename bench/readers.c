/* SPDX-License-Identifier: MIT */
/*
 * readers: the loop whose reads are timed.
 *
 * A reader that goes as fast as it can is timed from call to return. A paced
 * one is timed from the moment when the read was due: what it waits for a
 * processor is what its user waits too, and a read that is late because the
 * one before it was slow has not been fast.
 */
#include "bench/readers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench/clock.h"
#include "bench/pattern.h"
#include "bench/stop.h"

struct reader {
	struct readers *all;
	pthread_t thread;
	/* The thread's until it is joined. */
	uint64_t random; /* state of the generator; never zero */
	uint8_t *buf;
	uint64_t wrong;
	int error;
	struct histogram latency;
};

struct readers {
	struct reading reading;
	uint64_t start_ns;
	atomic_bool enough; /* relaxed: the end may come a read later */
	unsigned started; /* threads to join */
	struct reader readers[];
};

/* xorshift64: good enough to choose a block by, and cheap. */
static uint64_t next_random(struct reader *me)
{
	me->random ^= me->random << 13;
	me->random ^= me->random >> 7;
	me->random ^= me->random << 17;
	return me->random;
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u),
			       .tv_nsec = (long)(ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) ==
	       EINTR)
		;
}

/* @since: when the read was due; 0: now */
static int read_one(struct reader *me, uint64_t since)
{
	const struct reading *r = &me->all->reading;
	const struct layout *l = r->layout;
	uint64_t off = next_random(me) % (l->size / r->size) * r->size;
	int ret;

	if (!since)
		since = clock_ns();
	ret = r->read(r->arg, me->buf, r->size, (off_t)off);
	if (ret)
		return ret;
	histogram_add(&me->latency, clock_ns() - since);
	if (memcmp(me->buf, pattern_at(l->pattern, l->phases[0], off), r->size))
		me->wrong++;
	return 0;
}

static bool go_on(const struct reader *me)
{
	return !me->error && !stop_requested() &&
	       !atomic_load_explicit(&me->all->enough, memory_order_relaxed);
}

static void read_fast(struct reader *me)
{
	while (go_on(me))
		me->error = read_one(me, 0);
}

static void read_paced(struct reader *me)
{
	const unsigned rate = me->all->reading.rate;
	uint64_t start = me->all->start_ns, due, i;

	for (i = 1; go_on(me); i++) {
		due = start + i * 1000000000u / rate;
		sleep_until(due);
		me->error = read_one(me, due);
	}
}

static void *reader_main(void *arg)
{
	struct reader *me = arg;

	stop_block();
	prctl(PR_SET_NAME, "bench-reader"); /* for perf */
	if (me->all->reading.rate) {
		prctl(PR_SET_TIMERSLACK, 1ul);
		read_paced(me);
	} else {
		read_fast(me);
	}
	return NULL;
}

static int start_one(struct readers *r, unsigned index)
{
	struct reader *me = &r->readers[index];
	int ret;

	me->all = r;
	me->random = (index + 1) * 0x9e3779b97f4a7c15u;
	me->buf = malloc(r->reading.size);
	if (!me->buf)
		return -ENOMEM;
	ret = -pthread_create(&me->thread, NULL, reader_main, me);
	if (ret)
		free(me->buf);
	return ret;
}

int readers_start(const struct reading *reading, struct readers **out)
{
	struct reading_done done;
	struct readers *r;
	int ret = 0;

	r = calloc(1, sizeof(*r) + reading->threads * sizeof(r->readers[0]));
	if (!r)
		return -ENOMEM;
	r->reading = *reading;
	r->start_ns = clock_ns();
	while (r->started < reading->threads && !ret) {
		ret = start_one(r, r->started);
		r->started += !ret;
	}
	if (ret) {
		readers_stop(r, &done);
		return ret;
	}
	*out = r;
	return 0;
}

int readers_stop(struct readers *r, struct reading_done *done)
{
	struct histogram all = { 0 };
	unsigned i;
	int ret = 0;

	*done = (struct reading_done){ .ns = clock_ns() - r->start_ns };
	atomic_store(&r->enough, true);
	for (i = 0; i < r->started; i++) {
		struct reader *one = &r->readers[i];

		pthread_join(one->thread, NULL);
		histogram_merge(&all, &one->latency);
		done->wrong += one->wrong;
		if (!ret)
			ret = one->error;
		free(one->buf);
	}
	done->latency = histogram_latency(&all);
	free(r);
	return ret;
}

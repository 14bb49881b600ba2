/* SPDX-License-Identifier: MIT */
/*
 * writers: the loop that is measured. Between two writes there is no lock, no
 * allocation and no copy; the clock is read once, at the end of one write and
 * the start of the next.
 *
 * The gate: the threads come up one by one and wait; the clock starts when
 * all are there, just before they are let go.
 */
#include "bench/writers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench/clock.h"
#include "bench/contender.h"
#include "bench/pattern.h"
#include "bench/stop.h"

enum gate_state { GATE_SHUT, GATE_OPEN, GATE_CANCELLED };

struct writer {
	struct writers *all;
	unsigned index;
	pthread_t thread;
	/* The thread's until it is done. */
	uint64_t writes;
	uint64_t end_ns;
	struct histogram latency;
};

struct writers {
	struct work work;
	atomic_bool enough; /* relaxed; the end may come a write later */
	atomic_int error; /* relaxed; the first one, read when all are done */
	pthread_mutex_t lock;
	pthread_cond_t opened; /* the gate, laps_done, error or enough */
	pthread_cond_t arrived; /* ready or done has grown */
	enum gate_state gate; /* under lock */
	unsigned ready; /* under lock: threads at the gate */
	unsigned done; /* under lock: threads past their last write */
	unsigned arrivals; /* under lock: threads at the end of the lap */
	unsigned laps_done; /* under lock: and synced */
	unsigned started; /* threads to join */
	uint64_t start_ns; /* the main thread's: when the gate was opened */
	struct writer writers[];
};

static void pause_us(unsigned us)
{
	struct timespec ts = { .tv_sec = us / 1000000,
			       .tv_nsec = (long)(us % 1000000) * 1000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

static int write_record(const struct work *k, uint64_t phase, uint64_t nr)
{
	uint64_t off = nr * k->record;

	return k->ops->write(k->contender, pattern_at(k->pattern, phase, off),
			     k->record, (off_t)off);
}

static bool go_on(struct writers *w)
{
	return !stop_requested() &&
	       !atomic_load_explicit(&w->error, memory_order_relaxed) &&
	       !atomic_load_explicit(&w->enough, memory_order_relaxed);
}

/* All records of this thread, once. @before: the clock */
static int write_lap(struct writer *me, unsigned lap, uint64_t before)
{
	const struct work *k = &me->all->work;
	uint64_t step = k->threads * (k->odd_rows_only ? 2ull : 1ull);
	uint64_t nr = me->index + (k->odd_rows_only ? k->threads : 0);
	uint64_t phase = pattern_phase(k->phase_number + lap);
	int ret = 0;

	for (; nr < k->count && go_on(me->all); nr += step) {
		if (k->gap_us && me->writes) {
			pause_us(k->gap_us);
			before = clock_ns();
		}
		ret = write_record(k, phase, nr);
		if (ret)
			break;
		me->end_ns = clock_ns();
		histogram_add(&me->latency, me->end_ns - before);
		before = me->end_ns;
		me->writes++;
	}
	return ret;
}

/* The first error counts; whoever waits for this thread waits in vain. */
static void give_up(struct writers *w, int error)
{
	int none = 0;

	atomic_compare_exchange_strong(&w->error, &none, error);
	pthread_mutex_lock(&w->lock);
	pthread_cond_broadcast(&w->opened);
	pthread_mutex_unlock(&w->lock);
}

/*
 * The last one to come syncs the file and lets all go on. Return: 0 or an
 * error; that they shall not go on is for go_on() to say.
 */
static int end_lap(struct writers *w, unsigned lap)
{
	bool last;
	int ret;

	pthread_mutex_lock(&w->lock);
	last = ++w->arrivals == w->started;
	while (!last && w->laps_done == lap && go_on(w))
		pthread_cond_wait(&w->opened, &w->lock);
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return 0;
	ret = w->work.ops->sync(w->work.contender);
	pthread_mutex_lock(&w->lock);
	w->arrivals = 0;
	w->laps_done++;
	pthread_cond_broadcast(&w->opened);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

static void write_all(struct writer *me)
{
	struct writers *w = me->all;
	unsigned lap;
	int ret;

	ret = write_lap(me, 0, clock_ns());
	for (lap = 0; w->work.laps && !ret && go_on(w); lap++) {
		ret = end_lap(w, lap);
		if (!ret)
			ret = write_lap(me, lap + 1, clock_ns());
	}
	if (ret)
		give_up(w, ret);
}

static bool pass_gate(struct writers *w)
{
	bool open;

	pthread_mutex_lock(&w->lock);
	w->ready++;
	pthread_cond_signal(&w->arrived);
	while (w->gate == GATE_SHUT)
		pthread_cond_wait(&w->opened, &w->lock);
	open = w->gate == GATE_OPEN;
	pthread_mutex_unlock(&w->lock);
	return open;
}

static void *writer_main(void *arg)
{
	struct writer *me = arg;
	struct writers *w = me->all;

	stop_block();
	prctl(PR_SET_NAME, "bench-writer"); /* for perf */
	if (w->work.gap_us)
		prctl(PR_SET_TIMERSLACK, 1ul);
	if (!pass_gate(w))
		return NULL;
	write_all(me);
	pthread_mutex_lock(&w->lock);
	if (++w->done == w->started)
		pthread_cond_signal(&w->arrived);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int writers_create(const struct work *work, struct writers **out)
{
	struct writers *w;
	unsigned i;
	int ret = 0;

	w = calloc(1, sizeof(*w) + work->threads * sizeof(w->writers[0]));
	if (!w)
		return -ENOMEM;
	w->work = *work;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->opened, NULL);
	pthread_cond_init(&w->arrived, NULL);
	for (i = 0; i < work->threads && !ret; i++) {
		w->writers[i].all = w;
		w->writers[i].index = i;
		ret = -pthread_create(&w->writers[i].thread, NULL, writer_main,
				      &w->writers[i]);
		if (!ret)
			w->started++;
	}
	if (ret) {
		writers_destroy(w);
		return ret;
	}
	*out = w;
	return 0;
}

static void set_gate(struct writers *w, enum gate_state state)
{
	w->gate = state;
	pthread_cond_broadcast(&w->opened);
}

static void add_up(const struct writers *w, struct work_done *done)
{
	struct histogram all = { 0 };
	unsigned i;

	for (i = 0; i < w->started; i++) {
		const struct writer *one = &w->writers[i];

		done->writes += one->writes;
		if (done->end_ns < one->end_ns)
			done->end_ns = one->end_ns;
		histogram_merge(&all, &one->latency);
	}
	done->latency = histogram_latency(&all);
}

void writers_start(struct writers *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->ready < w->started)
		pthread_cond_wait(&w->arrived, &w->lock);
	w->start_ns = clock_ns();
	set_gate(w, GATE_OPEN);
	pthread_mutex_unlock(&w->lock);
}

static int wait_for_all(struct writers *w, struct work_done *done)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	while (w->done < w->started)
		pthread_cond_wait(&w->arrived, &w->lock);
	pthread_mutex_unlock(&w->lock);
	*done = (struct work_done){ .start_ns = w->start_ns,
				    .end_ns = w->start_ns };
	add_up(w, done);
	ret = atomic_load(&w->error);
	return !ret && stop_requested() ? -EINTR : ret;
}

int writers_run(struct writers *w, struct work_done *done)
{
	writers_start(w);
	return wait_for_all(w, done);
}

int writers_stop(struct writers *w, struct work_done *done)
{
	pthread_mutex_lock(&w->lock);
	atomic_store(&w->enough, true);
	pthread_cond_broadcast(&w->opened);
	pthread_mutex_unlock(&w->lock);
	return wait_for_all(w, done);
}

uint64_t writers_count(const struct writers *w, unsigned thread)
{
	return w->writers[thread].writes;
}

void writers_destroy(struct writers *w)
{
	unsigned i;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	if (w->gate == GATE_SHUT)
		set_gate(w, GATE_CANCELLED);
	pthread_mutex_unlock(&w->lock);
	for (i = 0; i < w->started; i++)
		pthread_join(w->writers[i].thread, NULL);
	pthread_cond_destroy(&w->arrived);
	pthread_cond_destroy(&w->opened);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

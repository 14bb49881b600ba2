/* SPDX-License-Identifier: MIT */
/*
 * sampler: a sample every 20 ms, or more rarely where counting takes long, so
 * that it stays within two percent of one core.
 */
#include "bench/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/clock.h"
#include "bench/contender.h"
#include "bench/residency.h"
#include "bench/stop.h"

#define PERIOD_NS 20000000u
#define COST_FACTOR 50

/* Return: what it cost, in ns. */
static uint64_t sample(struct sampler *s)
{
	uint64_t start = clock_ns();
	int64_t pages = -1;

	/* An engine may have nothing open before its first I/O. */
	if (s->fd < 0)
		s->fd = s->ops->borrow_fd(s->contender);
	if (s->fd >= 0)
		pages = residency_range(s->fd, 0, 0);
	if (pages >= 0) {
		if (s->first < 0)
			s->first = pages;
		if (s->peak < pages)
			s->peak = pages;
	}
	s->last = pages < 0 ? -1 : pages;
	return clock_ns() - start;
}

static void wait_ns(struct sampler *s, uint64_t ns)
{
	uint64_t until = clock_ns() + ns;
	struct timespec ts = { .tv_sec = (time_t)(until / 1000000000u),
			       .tv_nsec = (long)(until % 1000000000u) };

	while (!s->stop &&
	       pthread_cond_timedwait(&s->cond, &s->lock, &ts) != ETIMEDOUT)
		;
}

static void *sampler_main(void *arg)
{
	struct sampler *s = arg;
	uint64_t cost;

	stop_block();
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		pthread_mutex_unlock(&s->lock);
		cost = sample(s) * COST_FACTOR;
		pthread_mutex_lock(&s->lock);
		wait_ns(s, cost > PERIOD_NS ? cost : PERIOD_NS);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int sampler_start(struct sampler *s, const struct contender_ops *ops,
		  struct contender *c)
{
	pthread_condattr_t attr;
	int ret;

	*s = (struct sampler){ .ops = ops,
			       .contender = c,
			       .fd = -1,
			       .first = -1,
			       .last = -1,
			       .peak = -1 };
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->cond, &attr);
	pthread_condattr_destroy(&attr);
	sample(s);
	ret = -pthread_create(&s->thread, NULL, sampler_main, s);
	if (ret && s->fd >= 0)
		close(s->fd);
	return ret;
}

void sampler_stop(struct sampler *s, int64_t *peak_growth, int64_t *last)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	sample(s);
	if (s->fd >= 0)
		close(s->fd);
	*peak_growth = s->peak >= 0 ? s->peak - s->first : 0;
	*last = s->last;
	pthread_cond_destroy(&s->cond);
	pthread_mutex_destroy(&s->lock);
}

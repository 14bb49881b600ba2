// SPDX-License-Identifier: MIT
/*
 * Histograms against sorted samples, and the rings of trace events: order,
 * fullness, many writers.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/histogram.h"
#include "base/trace_ring.h"
#include "scale.h"
#include "support/check.h"
#include "support/rng.h"

/* ---- histogram ------------------------------------------------------- */

static int u64_cmp(const void *va, const void *vb)
{
	const uint64_t *a = va, *b = vb;

	return *a < *b ? -1 : *a > *b;
}

/* Told is not less than the truth, and an eighth more at most. */
static void check_near(uint64_t told, const uint64_t *sorted, size_t n,
		       unsigned permille)
{
	uint64_t truth = sorted[(n * permille + 999) / 1000 - 1];

	CHECK(told >= truth && told - truth <= truth / 8,
	      "p%u: %llu for %llu", permille, (unsigned long long)told,
	      (unsigned long long)truth);
}

static void check_samples(struct histogram *h, uint64_t *v, size_t n)
{
	struct hist_summary s;
	uint64_t sum = 0;

	memset(h, 0, sizeof(*h));
	for (size_t i = 0; i < n; i++) {
		hist_record(h, v[i]);
		sum += v[i];
	}
	qsort(v, n, sizeof(*v), u64_cmp);
	hist_summarize(h, &s);
	CHECK_IS(s.count, n);
	CHECK_IS(s.sum, sum);
	CHECK_IS(s.max, v[n - 1]);
	check_near(s.p50, v, n, 500);
	check_near(s.p99, v, n, 990);
	check_near(s.p999, v, n, 999);
}

static void test_hist_accuracy(void **state)
{
	static struct histogram h;
	struct rng rng = { test_seed() };
	uint64_t v[5000];

	(void)state;
	guard(60);
	for (unsigned round = 0; round < test_scale(200); round++) {
		size_t n = 1 + rng_below(&rng, 5000);

		/* Of every magnitude, up to what shares the last bucket. */
		for (size_t i = 0; i < n; i++)
			v[i] = rng_next(&rng) >>
			       (28 + rng_below(&rng, round % 2 ? 36 : 4));
		check_samples(&h, v, n);
	}
}

static void test_hist_edges(void **state)
{
	static struct histogram h;
	struct hist_summary s;

	(void)state;
	hist_summarize(&h, &s);
	CHECK(!s.count && !s.sum && !s.max && !s.p50 && !s.p999, "not empty");
	/* Small values are exact, and so is what lies alone at the far end. */
	for (uint64_t v = 0; v < 8; v++) {
		memset(&h, 0, sizeof(h));
		hist_record(&h, v);
		hist_summarize(&h, &s);
		CHECK(s.p50 == v && s.max == v, "%llu", (unsigned long long)v);
	}
	memset(&h, 0, sizeof(h));
	hist_record(&h, UINT64_MAX / 2);
	hist_record_n(&h, 3, 999);
	hist_summarize(&h, &s);
	CHECK_IS(s.count, 1000);
	CHECK_IS(s.p50, 3);
	CHECK_IS(s.p999, 3);
	CHECK_IS(s.max, UINT64_MAX / 2);
}

/* ---- threads --------------------------------------------------------- */

#define THREADS 4

struct job {
	struct histogram *hist;
	struct trace_rings *rings;
	unsigned nr, id;
	_Atomic unsigned *running;
};

static void *record_many(void *arg)
{
	struct job *job = arg;

	for (unsigned i = 0; i < job->nr; i++)
		hist_record_n(job->hist, i, 1 + job->id);
	return NULL;
}

static void run_threads(struct job *jobs, void *(*fn)(void *),
			pthread_t *thread)
{
	for (unsigned i = 0; i < THREADS; i++) {
		jobs[i].id = i;
		CHECK_OK(pthread_create(&thread[i], NULL, fn, &jobs[i]));
	}
}

static void test_hist_concurrent(void **state)
{
	static struct histogram h;
	unsigned nr = (unsigned)test_scale(200000);
	struct job jobs[THREADS];
	pthread_t thread[THREADS];
	struct hist_summary s;

	(void)state;
	guard(60);
	for (unsigned i = 0; i < THREADS; i++)
		jobs[i] = (struct job){ .hist = &h, .nr = nr };
	run_threads(jobs, record_many, thread);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	hist_summarize(&h, &s);
	CHECK_IS(s.count, (uint64_t)nr * (1 + 2 + 3 + 4));
	CHECK_IS(s.sum, (uint64_t)nr * (nr - 1) / 2 * 10);
	CHECK_IS(s.max, nr - 1);
}

/* ---- rings ----------------------------------------------------------- */

static void emit(struct trace_rings *t, uint64_t ns, uint64_t arg)
{
	struct trace_event ev = { .ns = ns, .type = 3, .arg = { arg } };

	trace_emit(t, &ev);
}

static void test_ring_off(void **state)
{
	struct trace_rings t = { 0 };
	struct trace_event ev;

	(void)state;
	CHECK(!trace_wanted(&t, 3) && !trace_next(&t, &ev), "nobody asked");
	/* One on its way when the mask changed: it is lost, and counted. */
	emit(&t, 1, 1);
	CHECK_IS(atomic_load(&t.lost), 1);
	CHECK_OK(trace_start(&t, 1u << 3));
	CHECK(trace_wanted(&t, 3) && !trace_wanted(&t, 2), "the mask");
	CHECK_OK(trace_start(&t, 0));
	CHECK(!trace_wanted(&t, 3), "the mask");
	trace_fini(&t);
}

static void test_ring_full(void **state)
{
	struct trace_rings t = { 0 };
	struct trace_event ev;
	uint64_t nr = TRACE_RINGS * TRACE_SLOTS + 7, got = 0, last = 0;

	(void)state;
	guard(60);
	CHECK_OK(trace_start(&t, 1u << 3));
	for (int lap = 0; lap < 3; lap++) {
		atomic_store(&t.lost, 0);
		got = 0;
		for (uint64_t i = 0; i < nr; i++)
			emit(&t, ++last, i);
		while (trace_next(&t, &ev))
			got++;
		CHECK(got >= TRACE_SLOTS, "only %llu", (unsigned long long)got);
		CHECK_IS(got + atomic_load(&t.lost), nr);
	}
	CHECK_OK(trace_start(&t, 0));
	trace_fini(&t);
}

static void *emit_many(void *arg)
{
	struct job *job = arg;

	for (unsigned i = 0; i < job->nr; i++)
		emit(job->rings, i, (uint64_t)job->id << 32 | i);
	atomic_fetch_sub(job->running, 1);
	return NULL;
}

/* Nothing comes twice, nothing is torn, nothing vanishes uncounted. */
static void test_ring_concurrent(void **state)
{
	struct trace_rings t = { 0 };
	unsigned nr = (unsigned)test_scale(100000);
	unsigned char *seen = calloc(THREADS, nr);
	_Atomic unsigned running = THREADS;
	struct job jobs[THREADS];
	pthread_t thread[THREADS];
	struct trace_event ev;
	uint64_t got = 0;
	bool more;

	(void)state;
	guard(60);
	CHECK(seen, "no memory");
	CHECK_OK(trace_start(&t, 1u << 3));
	for (unsigned i = 0; i < THREADS; i++)
		jobs[i] = (struct job){ .rings = &t, .nr = nr,
					.running = &running };
	run_threads(jobs, emit_many, thread);
	do {
		more = atomic_load(&running);
		while (trace_next(&t, &ev)) {
			unsigned id = (unsigned)(ev.arg[0] >> 32);
			unsigned i = (unsigned)ev.arg[0];

			CHECK(id < THREADS && i < nr && ev.ns == i &&
				      ev.type == 3,
			      "torn: %u %u", id, i);
			CHECK(!seen[id * nr + i]++, "twice: %u %u", id, i);
			got++;
		}
	} while (more);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHECK_IS(got + atomic_load(&t.lost), (uint64_t)THREADS * nr);
	trace_fini(&t);
	free(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hist_accuracy),
		cmocka_unit_test(test_hist_edges),
		cmocka_unit_test(test_hist_concurrent),
		cmocka_unit_test(test_ring_off),
		cmocka_unit_test(test_ring_full),
		cmocka_unit_test(test_ring_concurrent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

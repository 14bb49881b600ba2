// SPDX-License-Identifier: MIT
/*
 * Coverage of edges to the byte (R2), against a plain array of bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "mm/coverage.h"
#include "mm/pool.h"
#include "scale.h"
#include "support/check.h"
#include "support/rng.h"

#define POOL_PAGES 64u
#define MAX_SIZE 65536u

static uint64_t seed;
static struct pool pool;

struct naive {
	unsigned size;
	char byte[MAX_SIZE];
};

static unsigned naive_count(const struct naive *n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n->size; i++)
		count += n->byte[i] != 0;
	return count;
}

static unsigned naive_find(const struct naive *n, unsigned from, char value)
{
	while (from < n->size && n->byte[from] != value)
		from++;
	return from;
}

/* All that can be asked. */
static void check_same(const struct coverage *c, const struct naive *n,
		       struct rng *r)
{
	unsigned at = 0, end;

	CHECK_IS(c->bytes, naive_count(n));
	while (at < n->size) {
		unsigned want = naive_find(n, at, 0);
		unsigned got = coverage_gap(c, n->size, at, &end);

		CHECK_IS(got, want);
		CHECK_IS(end, want < n->size ? naive_find(n, want, 1) :
					       n->size);
		at = end;
	}
	for (int i = 0; i < 20; i++) {
		unsigned start = (unsigned)rng_below(r, n->size);
		unsigned stop = start + (unsigned)rng_size(r, n->size - start);

		CHECK_IS(coverage_has(c, start, stop),
			 naive_find(n, start, 0) >= stop);
		CHECK_IS(coverage_gap(c, n->size, start, &end),
			 naive_find(n, start, 0));
	}
}

/* One edge from empty to complete, in random steps. */
static void one_edge(unsigned size, struct rng *r)
{
	static struct naive n;
	unsigned max_step = (unsigned)rng_size(r, size);
	struct coverage c;
	bool complete = false;

	n.size = size;
	memset(n.byte, 0, size);
	coverage_init(&c);
	for (int step = 0; step < 400 && !complete; step++) {
		unsigned start = (unsigned)rng_below(r, size);
		unsigned len = (unsigned)rng_size(r, max_step);
		unsigned end;

		if (len > size - start)
			len = size - start;
		end = start + len;
		if (rng_chance(r, 3)) {
			coverage_clip(&c, size, start);
			memset(n.byte + start, 0, size - start);
		} else {
			CHECK(coverage_reserve(&c, &pool, size, start, end),
			      "no room");
			/* What was reserved may be used in part. */
			if (rng_chance(r, 20))
				end = start + (unsigned)rng_below(r, len + 1);
			memset(n.byte + start, 1, end - start);
			complete = coverage_add(&c, size, start, end);
			CHECK_IS(complete, naive_count(&n) == size);
		}
		if (!complete)
			check_same(&c, &n, r);
	}
	coverage_reset(&c, &pool, size);
	CHECK_IS(c.bytes, 0);
	CHECK_IS(c.nr, 0);
}

static void test_random(void **state)
{
	static const unsigned sizes[] = { 4096, 8192, 16384, 32768, 65536 };
	unsigned long rounds = test_scale(150);
	struct rng r = rng_fork(seed, 1);

	(void)state;
	CHECK_OK(pool_init(&pool, POOL_PAGES));
	for (unsigned long i = 0; i < rounds; i++) {
		one_edge(sizes[i % 5], &r);
		/* Every bitmap has been given back. */
		CHECK_IS(pool_nr_free(&pool), POOL_PAGES);
	}
	pool_fini(&pool);
}

/* Many writers of small records in any order (R2: "two, three or forty"). */
static void test_records_in_any_order(void **state)
{
	struct rng r = rng_fork(seed, 2);

	(void)state;
	CHECK_OK(pool_init(&pool, POOL_PAGES));
	for (unsigned record = 1; record < 4096; record = record * 3 / 2 + 1) {
		unsigned nr = (4096 + record - 1) / record, order[4096];
		struct coverage c;

		for (unsigned i = 0; i < nr; i++)
			order[i] = i;
		for (unsigned i = nr; i-- > 1;) {
			unsigned j = (unsigned)rng_below(&r, i + 1);
			unsigned swap = order[i];

			order[i] = order[j];
			order[j] = swap;
		}
		coverage_init(&c);
		for (unsigned i = 0; i < nr; i++) {
			unsigned start = order[i] * record;
			unsigned end = start + record;

			if (end > 4096)
				end = 4096;
			CHECK(coverage_reserve(&c, &pool, 4096, start, end),
			      "no room");
			CHECK_IS(coverage_add(&c, 4096, start, end),
				 i == nr - 1);
		}
		coverage_reset(&c, &pool, 4096);
	}
	CHECK_IS(pool_nr_free(&pool), POOL_PAGES);
	pool_fini(&pool);
}

/* Without memory for a bitmap the reservation fails and changes nothing. */
static void test_no_memory(void **state)
{
	struct folio *taken[POOL_PAGES + 1];
	struct coverage c;
	unsigned nr = 0, end;

	(void)state;
	CHECK_OK(pool_init(&pool, POOL_PAGES));
	while ((taken[nr] = pool_alloc(&pool, 0)))
		nr++;
	CHECK_IS(nr, POOL_PAGES);
	coverage_init(&c);
	for (unsigned i = 0; i < COVERAGE_INLINE; i++) {
		CHECK(coverage_reserve(&c, &pool, 4096, i * 100, i * 100 + 10),
		      "an inline range needs no memory");
		coverage_add(&c, 4096, i * 100, i * 100 + 10);
	}
	CHECK(!coverage_reserve(&c, &pool, 4096, 1000, 1010), "from where?");
	CHECK_IS(c.bytes, 10 * COVERAGE_INLINE);
	CHECK_IS(coverage_gap(&c, 4096, 0, &end), 10);
	CHECK_IS(end, 100);
	/* What touches a range on its left needs none. */
	CHECK(coverage_reserve(&c, &pool, 4096, 110, 200), "it touches");
	coverage_add(&c, 4096, 110, 200);
	CHECK_IS(c.bytes, 10 * COVERAGE_INLINE + 90);
	pool_free_bulk(&pool, taken, nr);
	CHECK(coverage_reserve(&c, &pool, 4096, 1000, 1010), "memory is there");
	coverage_add(&c, 4096, 1000, 1010);
	CHECK_IS(c.bytes, 10 * COVERAGE_INLINE + 100);
	coverage_reset(&c, &pool, 4096);
	CHECK_IS(pool_nr_free(&pool), POOL_PAGES);
	pool_fini(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_records_in_any_order),
		cmocka_unit_test(test_no_memory),
	};

	guard(120);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

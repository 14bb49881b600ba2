// SPDX-License-Identifier: MIT
/*
 * The pool of folios: orders, exhaustion, coalescing, several threads (R12).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>

#include "mm/pool.h"
#include "scale.h"
#include "support/check.h"
#include "support/rng.h"

static uint64_t seed;

static void fill_folio(struct pool *pool, struct folio *f, int byte)
{
	memset(folio_data(pool, f), byte, folio_bytes(f));
}

static void check_folio(struct pool *pool, struct folio *f, int byte)
{
	const char *data = folio_data(pool, f);

	for (size_t i = 0; i < folio_bytes(f); i++)
		CHECK(data[i] == (char)byte, "somebody else has written here");
}

/* All of the memory in folios of each order; aligned, none twice. */
static void test_orders(void **state)
{
	const size_t pages = 1000;
	struct folio *all[1001];
	struct pool pool;

	(void)state;
	CHECK_OK(pool_init(&pool, pages));
	for (unsigned order = 0; order <= MAX_ORDER; order++) {
		unsigned nr = 0;

		while ((all[nr] = pool_alloc(&pool, order))) {
			struct folio *f = all[nr++];

			CHECK_IS(f->order, order);
			CHECK_IS((uintptr_t)folio_data(&pool, f) %
					 folio_bytes(f),
				 0);
			CHECK(folio_of(&pool, folio_data(&pool, f)) == f,
			      "its memory is another's");
			fill_folio(&pool, f, (int)nr);
		}
		/* Coalesced whole after the last order. */
		CHECK_IS(nr, pages >> order);
		CHECK_IS(pool_nr_free(&pool), pages - (nr << order));
		for (unsigned i = 0; i < nr; i++)
			check_folio(&pool, all[i], (int)i + 1);
		for (unsigned i = 0; i < nr; i++)
			pool_free(&pool, all[i]);
		CHECK_IS(pool_nr_free(&pool), pages);
	}
	pool_fini(&pool);
}

/* Parts of a split folio are given back one by one, and join. */
static void test_coalesces(void **state)
{
	struct folio *f, *parts[1u << MAX_ORDER];
	struct pool pool;

	(void)state;
	CHECK_OK(pool_init(&pool, 1u << MAX_ORDER));
	for (int round = 0; round < 3; round++) {
		unsigned step = round == 0 ? 1 : round == 1 ? 7 : 63;

		f = pool_alloc(&pool, MAX_ORDER);
		CHECK(f, "it was whole");
		for (unsigned i = 0; i < 1u << MAX_ORDER; i++) {
			parts[i] = f + i;
			parts[i]->order = 0;
		}
		for (unsigned i = 0; i < 1u << MAX_ORDER; i++)
			pool_free(&pool, parts[i * step % (1u << MAX_ORDER)]);
	}
	f = pool_alloc(&pool, MAX_ORDER);
	CHECK(f, "it has not joined");
	CHECK(!pool_alloc(&pool, 0), "there is no more");
	pool_free(&pool, f);
	pool_fini(&pool);
}

/* ---- threads --------------------------------------------------------- */

#define THREADS 4u
#define HELD 64u

struct taker {
	struct pool *pool;
	struct rng rng;
	int id;
	unsigned long steps;
	unsigned long refused;
};

static void *take_and_give(void *arg)
{
	struct taker *t = arg;
	struct folio *held[HELD] = { NULL };

	for (unsigned long i = 0; i < t->steps; i++) {
		struct folio **at = &held[rng_below(&t->rng, HELD)];

		if (*at) {
			check_folio(t->pool, *at, t->id);
			pool_free(t->pool, *at);
			*at = NULL;
			continue;
		}
		*at = pool_alloc(t->pool,
				 rng_chance(&t->rng, 70) ?
					 0 :
					 (unsigned)rng_below(&t->rng,
							     MAX_ORDER + 1));
		if (*at)
			fill_folio(t->pool, *at, t->id);
		else
			t->refused++;
	}
	for (unsigned i = 0; i < HELD; i++)
		if (held[i])
			pool_free(t->pool, held[i]);
	return NULL;
}

static void test_threads(void **state)
{
	static const size_t sizes[] = { 64, 500, 40000 };
	struct taker takers[THREADS];
	pthread_t threads[THREADS];
	struct pool pool;

	(void)state;
	for (unsigned s = 0; s < 3; s++) {
		struct folio *f;
		size_t blocks = 0;

		CHECK_OK(pool_init(&pool, sizes[s]));
		for (unsigned i = 0; i < THREADS; i++) {
			takers[i] = (struct taker){
				.pool = &pool,
				.rng = rng_fork(seed, s * 100 + i),
				.id = (int)i + 1,
				.steps = test_scale(20000),
			};
			pthread_create(&threads[i], NULL, take_and_give,
				       &takers[i]);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		CHECK_IS(pool_nr_free(&pool), sizes[s]);
		/* Nothing lies about in small pieces. */
		while ((f = pool_alloc(&pool, MAX_ORDER)))
			blocks++;
		CHECK_IS(blocks, sizes[s] >> MAX_ORDER);
		pool_fini(&pool);
	}
}

/* Bitmaps share pages, and give them back. */
static void test_bitmaps(void **state)
{
	static const unsigned sizes[] = { 4096, 16384, 65536 };
	struct rng r = rng_fork(seed, 7);
	uint64_t *map[200];
	struct pool pool;

	(void)state;
	CHECK_OK(pool_init(&pool, 1000));
	for (unsigned s = 0; s < 3; s++) {
		unsigned bytes = sizes[s] / 8;

		for (unsigned i = 0; i < 200; i++) {
			map[i] = pool_bitmap_alloc(&pool, sizes[s]);
			CHECK(map[i], "there is memory");
			CHECK_IS((uintptr_t)map[i] % 8, 0);
			memset(map[i], (int)i, bytes);
		}
		for (unsigned i = 0; i < 200; i++)
			for (unsigned b = 0; b < bytes; b++)
				CHECK_IS(((unsigned char *)map[i])[b], i);
		for (unsigned left = 200; left; left--) {
			unsigned i = (unsigned)rng_below(&r, left);

			pool_bitmap_free(&pool, map[i], sizes[s]);
			map[i] = map[left - 1];
		}
		CHECK_IS(pool_nr_free(&pool), 1000);
	}
	pool_fini(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_coalesces),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_bitmaps),
	};

	guard(120);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

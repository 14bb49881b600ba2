// SPDX-License-Identifier: MIT
/*
 * The model test: random operations on a file by several threads, against a
 * plain array of bytes. Every store, both I/O methods, budgets from 1 MiB.
 *
 * Proves R2 to R8, R10, R12, R14, R16 to R18 and R24 as far as content, size
 * and counters go.
 *
 * test_model [SEED]: one round with this seed, again. Else rounds with seeds of
 * their own, from DBH_SEED or the clock, after those that once failed.
 */
#include "model.h"

#include "scale.h"
#include "support/scratch.h"

/* Rounds that failed once: syncs that left something out, sizes, hangs. */
static const uint64_t old_seeds[] = {
	3,  4,	8,  9,	10, 11, 15, 20,
	21, 22, 23, 27, 55, 112, 168245404587301, 260384387294721,
};

static bool is_old(uint64_t seed)
{
	for (size_t i = 0; i < sizeof(old_seeds) / sizeof(old_seeds[0]); i++)
		if (old_seeds[i] == seed)
			return true;
	return false;
}

static void choose_config(struct config *c, uint64_t seed)
{
	static const struct {
		unsigned min_folio, align;
	} folios[] = { { 4096, 512 },	 { 4096, 4096 },   { 16384, 4096 },
		       { 16384, 16384 }, { 65536, 4096 } };
	struct rng r = rng_fork(seed, 0);
	unsigned place = (unsigned)rng_below(&r, 10);
	unsigned folio = (unsigned)rng_below(&r, 5);

	memset(c, 0, sizeof(*c));
	c->seed = seed;
	c->place = place < 6 ? "mem" : place < 9 ? "ext4" : "shm";
	if (place == 9 && !scratch_shm())
		c->place = "ext4";
	c->min_folio = folios[folio].min_folio;
	c->align = folios[folio].align;
	c->io_method = rng_chance(&r, 50) ? DBH_IO_URING : DBH_IO_THREADS;
	c->threads = rng_chance(&r, 30) ?
			     1 :
			     (unsigned)rng_between(&r, 2, MAX_THREADS);
	c->span = (size_t)1 << rng_between(&r, 14, 23);
	c->span += rng_below(&r, c->span);
	c->memory = (size_t)1 << rng_between(&r, 20, 26);
	if (!strcmp(c->place, "mem") && rng_chance(&r, 30))
		c->delay_us = (unsigned)rng_between(&r, 50, 2000);
	c->queue_depth = (unsigned)rng_between(&r, 1, 32);
	c->expire_ms = rng_chance(&r, 50) ? 30000 :
					    (unsigned)rng_between(&r, 5, 500);
	c->existing = rng_chance(&r, 50);
	c->exclusive = rng_chance(&r, 80);
	c->faulty = !strcmp(c->place, "mem") && rng_chance(&r, 40);
	/* The old rounds go as they went. */
	c->extents = rng_chance(&r, 80) && !is_old(seed);
}

static void print_config(const struct config *c)
{
	printf("seed %llu: %s %u/%u, %s, %u threads, span %zu, memory %zu KiB, "
	       "delay %u us, depth %u, expire %u ms, %s%s%s, %lu ops each\n",
	       (unsigned long long)c->seed, c->place, c->min_folio, c->align,
	       c->io_method == DBH_IO_URING ? "uring" : "threads", c->threads,
	       c->span, c->memory >> 10, c->delay_us, c->queue_depth,
	       c->expire_ms, c->existing ? "existing" : "new",
	       c->faulty ? ", errors" : "", c->extents ? ", extents" : "",
	       c->ops);
}

static void *act(void *arg)
{
	struct actor *a = arg;

	for (unsigned long i = 0; i < a->m->cfg.ops; i++)
		actor_step(a);
	return NULL;
}

static void run_round(const struct config *c)
{
	struct model *m = model_create(c);
	struct actor actors[MAX_THREADS];
	pthread_t threads[MAX_THREADS];

	for (unsigned i = 0; i < c->threads; i++) {
		actor_init(&actors[i], m, i);
		CHECK_OK(-pthread_create(&threads[i], NULL, act, &actors[i]));
	}
	for (unsigned i = 0; i < c->threads; i++) {
		pthread_join(threads[i], NULL);
		actor_fini(&actors[i]);
	}
	model_destroy(m);
}

/* Return: operations done. */
static unsigned long round_of(uint64_t seed, unsigned long max_ops)
{
	struct config c;

	choose_config(&c, seed);
	/* Larger files: fewer operations, each of which moves more. */
	c.ops = 40000000ul / (c.span / 16 + 4096) / c.threads;
	c.ops = c.ops < 50 ? 50 : c.ops > 4000 ? 4000 : c.ops;
	if (c.ops > max_ops)
		c.ops = max_ops;
	print_config(&c);
	guard(300);
	run_round(&c);
	return c.ops * c.threads;
}

static int run(int argc, char **argv)
{
	unsigned long want = test_scale(500000), done = 0;
	uint64_t seed;

	if (argc > 1) {
		round_of(strtoull(argv[1], NULL, 0), 4000);
		return 0;
	}
	seed = test_seed();
	for (size_t i = 0; i < sizeof(old_seeds) / sizeof(old_seeds[0]); i++)
		done += round_of(old_seeds[i], want / 20 + 1);
	for (uint64_t i = 0; done < want; i++)
		done += round_of(rng_mix(seed + i) >> 16, want / 4 + 1);
	printf("%lu operations\n", done);
	return 0;
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

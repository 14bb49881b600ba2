// SPDX-License-Identifier: MIT
/*
 * The storm: several files on several devices under one engine, threads that
 * do everything to all of them, stores that are slow and stores that err. The
 * counters stay exact (R10; a paranoid build recounts them), memory within its
 * bounds (R12), nothing hangs, nothing is lost (R15), and in the end nothing
 * is left.
 *
 * test_storm [SEED]: one storm, again. A storm that stands still says where
 * each thread is.
 */
#include "model.h"

#include "scale.h"
#include "support/scratch.h"

#define FILES 6u

/* A minute on two processors where everything is recounted, twenty seconds
 * under the sanitizers, each at the scale that CI has for it. */
#if defined(DBH_PARANOID)
#define STORM_OPS 600000ul
#elif defined(__SANITIZE_THREAD__)
#define STORM_OPS 350000ul
#elif defined(__SANITIZE_ADDRESS__)
#define STORM_OPS 550000ul
#else
#define STORM_OPS 30000ul
#endif

/** struct storm
 * @engine: of all files
 * @model: a file each
 * @actor: of each thread for each file
 * @over: for the watchdog
 */
struct storm {
	uint64_t seed;
	unsigned threads;
	unsigned long ops; /* of each thread */
	struct dbh_engine *engine;
	struct model *model[FILES];
	struct actor actor[MAX_THREADS][FILES];
	_Atomic bool over;
};

struct sailor {
	struct storm *s;
	unsigned id;
};

/* ---- files ----------------------------------------------------------- */

static const struct place {
	const char *place;
	unsigned dev;
	bool slow, faulty;
} places[FILES] = {
	{ "mem", 1, false, false }, { "mem", 1, false, false },
	{ "mem", 2, true, true },   { "mem", 2, false, true },
	{ "mem", 3, true, false },  { "ext4", 0, false, false },
};

static void choose_file(const struct storm *s, unsigned i, size_t memory,
			struct config *c)
{
	static const unsigned folios[] = { 4096, 16384, 65536 };
	struct rng r = rng_fork(s->seed, 10 + i);

	*c = (struct config){
		.seed = rng_next(&r),
		.place = places[i].place,
		.dev = places[i].dev,
		.faulty = places[i].faulty,
		.min_folio = folios[rng_below(&r, 3)],
		.align = 512,
		.threads = s->threads,
		.span = ((size_t)1 << rng_between(&r, 15, 22)) +
			rng_below(&r, 100000),
		.memory = memory,
		.delay_us = places[i].slow ? 500 : 0,
		.existing = rng_chance(&r, 50),
		.exclusive = true,
		.extents = rng_chance(&r, 70),
		.engine = s->engine,
	};
}

static void raise_storm(struct storm *s)
{
	struct rng r = rng_fork(s->seed, 0);
	struct dbh_options opts = {
		.struct_size = sizeof(opts),
		.memory_bytes = (size_t)1 << rng_between(&r, 20, 25),
		.expire_ms = (unsigned)rng_between(&r, 5, 300),
		.io_method = rng_chance(&r, 50) ? DBH_IO_URING : DBH_IO_THREADS,
	};
	struct config c;

	s->threads = (unsigned)rng_between(&r, 2, MAX_THREADS);
	printf("seed %llu: %zu KiB, expire %u ms, %s, %u threads, %lu ops\n",
	       (unsigned long long)s->seed, opts.memory_bytes >> 10,
	       opts.expire_ms,
	       opts.io_method == DBH_IO_URING ? "uring" : "threads", s->threads,
	       s->ops);
	CHECK_OK(dbh_engine_create(&opts, &s->engine));
	for (unsigned i = 0; i < FILES; i++) {
		choose_file(s, i, opts.memory_bytes, &c);
		s->model[i] = model_create(&c);
		for (unsigned t = 0; t < s->threads; t++)
			actor_init(&s->actor[t][i], s->model[i], t);
	}
}

/* ---- and what is left ------------------------------------------------ */

static void check_nothing_left(struct storm *s)
{
	struct dbh_stats st = { .struct_size = sizeof(st) };
	struct dbh_bdi_stats bdi = { .struct_size = sizeof(bdi) };

	CHECK_OK(dbh_stats(s->engine, &st));
	CHECK(!st.dirty && !st.writeback && !st.dontcache_dirty &&
		      !st.edges_live,
	      "R10: dirty %llu writeback %llu dontcache_dirty %llu edges %llu",
	      (unsigned long long)st.dirty, (unsigned long long)st.writeback,
	      (unsigned long long)st.dontcache_dirty,
	      (unsigned long long)st.edges_live);
	for (unsigned i = 0; !dbh_bdi_stats(s->engine, i, &bdi); i++)
		CHECK(!bdi.dirty && !bdi.writeback && !bdi.dontcache_dirty,
		      "R10: of device %llu", (unsigned long long)bdi.dev);
}

static void lay_storm(struct storm *s)
{
	for (unsigned i = 0; i < FILES; i++) {
		model_destroy(s->model[i]);
		for (unsigned t = 0; t < s->threads; t++)
			actor_fini(&s->actor[t][i]);
	}
	check_nothing_left(s);
	CHECK_OK(dbh_engine_destroy(s->engine));
}

/* ---- the watchdog ---------------------------------------------------- */

static unsigned long progress(struct storm *s)
{
	unsigned long sum = 0;

	for (unsigned t = 0; t < s->threads; t++)
		for (unsigned i = 0; i < FILES; i++)
			sum += atomic_load(&s->actor[t][i].nr_done);
	return sum;
}

static void say_where(struct storm *s)
{
	struct dbh_stats st = { .struct_size = sizeof(st) };

	for (unsigned t = 0; t < s->threads; t++)
		for (unsigned i = 0; i < FILES; i++) {
			struct actor *a = &s->actor[t][i];
			const char *doing = atomic_load(&a->doing);

			if (doing)
				fprintf(stderr,
					"thread %u, file %u: %s, after %lu\n",
					t, i, doing, atomic_load(&a->nr_done));
		}
	dbh_stats(s->engine, &st);
	fprintf(stderr,
		"dirty %llu, writeback %llu, dontcache_dirty %llu, edges %llu, "
		"%llu of %llu bytes\n",
		(unsigned long long)st.dirty, (unsigned long long)st.writeback,
		(unsigned long long)st.dontcache_dirty,
		(unsigned long long)st.edges_live,
		(unsigned long long)st.memory_used_bytes,
		(unsigned long long)st.memory_limit_bytes);
}

static void *watch(void *arg)
{
	const char *factor = getenv("DBH_TEST_PATIENCE");
	unsigned patience = 60 * (factor ? (unsigned)atoi(factor) : 1);
	struct storm *s = arg;
	unsigned long last = 0;

	for (unsigned still = 0; !atomic_load(&s->over); usleep(100000)) {
		unsigned long now = progress(s);

		still = now == last ? still + 1 : 0;
		last = now;
		if (still < patience * 10)
			continue;
		say_where(s);
		CHECK(false, "seed %llu: the storm stands still",
		      (unsigned long long)s->seed);
	}
	return NULL;
}

/* ---- the storm ------------------------------------------------------- */

static void *sail(void *arg)
{
	struct sailor *sailor = arg;
	struct storm *s = sailor->s;
	struct rng r = rng_fork(s->seed, 100 + sailor->id);

	for (unsigned long i = 0; i < s->ops; i++)
		actor_step(&s->actor[sailor->id][rng_below(&r, FILES)]);
	return NULL;
}

static void let_it_rage(struct storm *s)
{
	struct sailor sailor[MAX_THREADS];
	pthread_t thread[MAX_THREADS], dog;

	CHECK_OK(-pthread_create(&dog, NULL, watch, s));
	for (unsigned t = 0; t < s->threads; t++) {
		sailor[t] = (struct sailor){ s, t };
		CHECK_OK(-pthread_create(&thread[t], NULL, sail, &sailor[t]));
	}
	for (unsigned t = 0; t < s->threads; t++)
		pthread_join(thread[t], NULL);
	atomic_store(&s->over, true);
	pthread_join(dog, NULL);
}

/* Return: operations done. */
static unsigned long storm_of(uint64_t seed, unsigned long ops)
{
	struct storm *s = calloc(1, sizeof(*s));
	unsigned long done;

	CHECK(s, "no memory");
	s->seed = seed;
	s->ops = ops;
	guard(600);
	raise_storm(s);
	let_it_rage(s);
	lay_storm(s);
	done = s->ops * s->threads;
	free(s);
	return done;
}

static int run(int argc, char **argv)
{
	unsigned long want = test_scale(STORM_OPS), done = 0;
	uint64_t seed;

	if (argc > 1) {
		storm_of(strtoull(argv[1], NULL, 0), 1000);
		return 0;
	}
	seed = test_seed();
	for (uint64_t i = 0; done < want; i++)
		done += storm_of(rng_mix(seed + i) >> 16, 1000);
	printf("%lu operations\n", done);
	return 0;
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}

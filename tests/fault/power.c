// SPDX-License-Identifier: MIT
/*
 * power: the disk, and cutting its power.
 */
#include "power.h"

#include <errno.h>

void power_choose(struct power *p, uint64_t seed)
{
	static const size_t records[] = { 47008, 49152, 6000, 4096, 1000, 333 };
	static const unsigned folios[] = { 4096, 16384, 65536 };
	struct rng r = rng_fork(seed, 0);

	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->min_folio = folios[rng_below(&r, 3)];
	p->memory = 1u << rng_between(&r, 20, 23);
	p->expire_ms = (unsigned)rng_between(&r, 1, 100);
	p->delay_us = rng_chance(&r, 60) ? (unsigned)rng_size(&r, 500) : 0;
	p->record = records[rng_below(&r, 6)];
	p->threads = rng_chance(&r, 30) ?
			     1 :
			     (unsigned)rng_between(&r, 2, WRITERS_MAX);
	p->existing = rng_chance(&r, 50) ? rng_size(&r, HISTORY_BYTES / 2) : 0;
	p->errors = rng_chance(&r, 40);
	/* Errors that the flusher meets while others sync. */
	if (p->errors && rng_chance(&r, 50)) {
		p->delay_us = (unsigned)rng_between(&r, 200, 1500);
		p->expire_ms = 1;
	}
	p->share = rng_chance(&r, 40);
	if (p->min_folio < 65536 && rng_chance(&r, 30))
		p->min_folio *= 2;
}

void power_print(const struct power *p)
{
	printf("seed %llu: folio %u, memory %u, expire %u ms, delay %u us, "
	       "records of %zu, %u threads%s, %llu bytes at first%s\n",
	       (unsigned long long)p->seed, p->min_folio, p->memory,
	       p->expire_ms, p->delay_us, p->record, p->threads,
	       p->share ? " with one handle" : "",
	       (unsigned long long)p->existing, p->errors ? ", errors" : "");
}

/* ---- cutting --------------------------------------------------------- */

static bool disk_over(void *arg)
{
	struct disk *d = arg;

	return atomic_load(&d->cuts) >= d->p.cuts || atomic_load(&d->verdict);
}

static void look_at_cut(struct disk *d, struct store *cut,
			const struct durable *durable)
{
	size_t n = store_mem_peek(cut, d->content, HISTORY_BYTES, 0);
	enum verdict v;

	CHECK_IS(n, store_mem_size(cut));
	v = history_check(d->h, durable, d->content, n, d->why, sizeof(d->why));
	atomic_store(&d->verdict, v);
}

static void disk_cut(struct disk *d, uint64_t seed)
{
	struct durable durable;
	struct store *cut;

	pthread_mutex_lock(&d->checking);
	if (!atomic_load(&d->verdict)) {
		history_durable(d->h, &durable);
		CHECK_OK(store_fault_power_cut(d->rig.spy->inner, seed, &cut));
		look_at_cut(d, cut, &durable);
		store_destroy(cut);
	}
	pthread_mutex_unlock(&d->checking);
	atomic_fetch_add(&d->cuts, 1);
}

/* R16, of a disk that keeps its power. */
static void look_at_size(struct disk *d)
{
	unsigned truncates = history_truncates(d->h);
	uint64_t size = store_mem_size(d->rig.spy->inner);
	uint64_t limit = history_limit(d->h, truncates);

	pthread_mutex_lock(&d->checking);
	if (size > limit && !atomic_load(&d->verdict)) {
		snprintf(d->why, sizeof(d->why),
			 "%llu bytes on disk, of %llu (R16)",
			 (unsigned long long)size, (unsigned long long)limit);
		atomic_store(&d->verdict, VERDICT_LONG);
	}
	pthread_mutex_unlock(&d->checking);
}

static void disk_event(void *arg)
{
	struct disk *d = arg;
	uint64_t nr = atomic_fetch_add(&d->events, 1);
	uint64_t chance = rng_mix(d->p.seed ^ rng_mix(nr));

	look_at_size(d);
	if (chance % 8 == 0 && !disk_over(d))
		disk_cut(d, chance);
}

/* ---- errors ---------------------------------------------------------- */

/* @r: NULL: no more of them. */
static void disk_set_errors(struct disk *d, struct rng *r)
{
	struct store_fault_options o = {
		.delay_us = d->p.delay_us,
	};

	if (r) {
		o.error_every = (unsigned)rng_below(r, 12);
		o.tail_error_every = (unsigned)rng_below(r, 8);
		o.flush_error_every = (unsigned)rng_below(r, 12);
		o.error = rng_chance(r, 50) ? EIO : ENOSPC;
	}
	store_fault_set(d->rig.spy->inner, &o);
}

/* ---- writers --------------------------------------------------------- */

/* After so many failures in a row the store is mended. */
#define PATIENCE 6u

static struct dbh_file *disk_open(void *arg)
{
	struct disk *d = arg;

	return rig_open(&d->rig, O_RDWR);
}

static void disk_mend(void *arg)
{
	disk_set_errors(arg, NULL);
}

static void disk_failed(void *arg, struct rng *r, long long res, unsigned times)
{
	(void)r;
	(void)res;
	if (times >= PATIENCE)
		disk_mend(arg);
}

/* The store grows before the file does, and shrinks after it. */
static void disk_resize(void *arg, uint64_t size)
{
	struct disk *d = arg;

	atomic_store(&d->rig.spy->size_limit, size);
}

static void disk_between(void *arg, struct rng *r)
{
	struct disk *d = arg;

	if (d->p.errors && rng_chance(r, 4))
		disk_set_errors(d, rng_chance(r, 60) ? r : NULL);
	disk_event(d);
}

static const struct writers_ops disk_ops = {
	.over = disk_over,
	.open = disk_open,
	.failed = disk_failed,
	.mend = disk_mend,
	.resize = disk_resize,
	.between = disk_between,
};

void disk_run(struct disk *d)
{
	writers_run(&d->ws);
}

/* ---- life ------------------------------------------------------------ */

static void put_existing(struct disk *d, struct store *store)
{
	size_t len = d->p.existing;

	pattern_fill(d->content, len, 0, 0);
	CHECK_OK(store->ops->write_tail(store, d->content, len, 0));
	CHECK_OK(store->ops->flush(store, true));
	history_rebase(d->h, d->content, len);
}

static struct spy *make_spy(struct disk *d)
{
	struct store_fault_options faults = {
		.seed = d->p.seed,
		.delay_us = d->p.delay_us,
	};
	struct store *store;
	struct spy *spy;

	CHECK_OK(store_fault_create(d->p.min_folio, 512, &faults, &store));
	if (d->p.existing)
		put_existing(d, store);
	spy = spy_create(store);
	spy->event = disk_event;
	spy->event_arg = d;
	return spy;
}

struct disk *disk_create(const struct power *p, void (*lie)(struct spy *spy))
{
	struct dbh_options opts = {
		.struct_size = sizeof(opts),
		.memory_bytes = p->memory,
		.expire_ms = p->expire_ms,
	};
	struct disk *d = calloc(1, sizeof(*d));
	struct spy *spy;

	CHECK(d, "no memory");
	d->p = *p;
	d->h = calloc(1, sizeof(*d->h));
	d->content = malloc(HISTORY_BYTES);
	CHECK(d->h && d->content, "no memory");
	history_init(d->h, p->record);
	pthread_mutex_init(&d->checking, NULL);
	spy = make_spy(d);
	if (lie)
		lie(spy);
	rig_up(&d->rig, spy, &opts);
	d->ws = (struct writers){
		.h = d->h,
		.nr = p->threads,
		.seed = p->seed,
		.may_fail = p->errors,
		.share = p->share,
		.ops = &disk_ops,
		.arg = d,
	};
	writers_open(&d->ws);
	/* The last close of each is theirs. */
	dbh_close(d->rig.file);
	d->rig.file = NULL;
	return d;
}

/* A new engine on what the power cut left finds what is there, and works. */
static void mount_cut(struct disk *d, uint64_t seed)
{
	struct rig rig = { 0 };
	struct store *cut;
	struct dbh_file *f;
	char *buf = malloc(HISTORY_BYTES);
	size_t n;

	CHECK(buf, "no memory");
	CHECK_OK(store_fault_power_cut(d->rig.spy->inner, seed, &cut));
	rig_up(&rig, spy_create(cut), NULL);
	f = rig.file;
	n = store_mem_peek(cut, buf, HISTORY_BYTES, 0);
	CHECK_IS(dbh_pread(f, d->content, HISTORY_BYTES, 0, 0), n);
	CHECK(!memcmp(buf, d->content, n), "it reads otherwise");
	rig_write(&rig, 5000, n + 3, 1, DBH_DONTCACHE | DBH_DSYNC);
	rig_close(&rig);
	rig_check_store(&rig, 5000, n + 3, 1);
	rig_down(&rig);
	free(buf);
}

void disk_destroy(struct disk *d)
{
	struct rng r = rng_fork(d->p.seed, 99);
	int err;

	/* And after a sync of everything all of it is there. */
	if (!atomic_load(&d->verdict)) {
		writers_heal(&d->ws);
		disk_cut(d, rng_next(&r));
		mount_cut(d, rng_next(&r));
	}
	disk_mend(d);
	err = writers_close(&d->ws);
	CHECK(!err || d->p.errors, "close: %d", err);
	rig_check_idle(&d->rig);
	CHECK_OK(dbh_engine_destroy(d->rig.engine));
	spy_destroy(d->rig.spy);
	pthread_mutex_destroy(&d->checking);
	free(d->content);
	free(d->h);
	free(d);
}

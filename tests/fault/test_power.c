// SPDX-License-Identifier: MIT
/*
 * Power cuts (R14, R16): at any moment, also in the middle of other writes,
 * every byte that was synced is there, no byte is one that nobody wrote, and
 * the file is no longer than it was, nor shorter than it was synced.
 *
 * test_power [SEED]: one disk, again; else disks with seeds of their own, from
 * DBH_SEED or the clock, after those that once failed. And stores that lie
 * about what they do must be found out.
 */
#include <errno.h>

#include "power.h"
#include "scale.h"

#define CUTS_OF_A_DISK 50ul

static const uint64_t old_seeds[] = { 1 };

static unsigned long one_disk(uint64_t seed, unsigned long cuts)
{
	struct power p;
	struct disk *d;

	power_choose(&p, seed);
	p.cuts = cuts;
	power_print(&p);
	guard(240);
	d = disk_create(&p, NULL);
	disk_run(d);
	CHECK(!atomic_load(&d->verdict), "seed %llu, cut %lu: %s",
	      (unsigned long long)seed, atomic_load(&d->cuts), d->why);
	disk_destroy(d);
	return cuts;
}

/* ---- stores that lie ------------------------------------------------- */

/* Between the engine and the spy, who would see the lie for itself. */
static struct store_ops lying;

static struct store *below(struct store *store)
{
	return container_of(store, struct spy, store)->inner;
}

static int flush_nothing(struct store *store, bool datasync)
{
	(void)store;
	(void)datasync;
	return 0;
}

static int pad_tail(struct store *store, const void *buf, size_t len,
		    uint64_t pos)
{
	char *padded = calloc(1, store->min_folio_bytes);
	int err;

	CHECK(padded, "no memory");
	memcpy(padded, buf, len);
	store = below(store);
	err = store->ops->write_tail(store, padded, store->min_folio_bytes,
				     pos);
	free(padded);
	return err;
}

/* A byte beside its place. */
static int misplace_tail(struct store *store, const void *buf, size_t len,
			 uint64_t pos)
{
	char *moved = calloc(1, len);
	int err;

	CHECK(moved, "no memory");
	memcpy(moved + 1, buf, len - 1);
	store = below(store);
	err = store->ops->write_tail(store, moved, len, pos);
	free(moved);
	return err;
}

static int shrink_never(struct store *store, uint64_t size)
{
	struct stat st;

	store = below(store);
	CHECK_OK(store->ops->stat(store, &st));
	return (uint64_t)st.st_size > size ? 0 :
					     store->ops->truncate(store, size);
}

static void lie(struct spy *spy)
{
	lying.name = spy->store.ops->name;
	lying.submit = spy->store.ops->submit;
	lying.settle = spy->store.ops->settle;
	lying.stat = spy->store.ops->stat;
	lying.fallocate = spy->store.ops->fallocate;
	lying.seek = spy->store.ops->seek;
	lying.destroy = spy->store.ops->destroy;
	if (!lying.flush)
		lying.flush = spy->store.ops->flush;
	if (!lying.write_tail)
		lying.write_tail = spy->store.ops->write_tail;
	if (!lying.truncate)
		lying.truncate = spy->store.ops->truncate;
	spy->store.ops = &lying;
}

static enum verdict look_at_liar(uint64_t seed, const char *what)
{
	enum verdict v;
	struct power p;
	struct disk *d;

	power_choose(&p, seed);
	p.errors = false;
	p.cuts = CUTS_OF_A_DISK;
	guard(240);
	d = disk_create(&p, lie);
	disk_run(d);
	v = atomic_load(&d->verdict);
	if (v != VERDICT_GOOD)
		printf("%s: seed %llu, cut %lu: %s\n", what,
		       (unsigned long long)seed, atomic_load(&d->cuts), d->why);
	disk_destroy(d);
	return v;
}

/* @verdicts: bits of what it may be found to do. */
static void find_liar(const char *what, struct store_ops lies,
		      unsigned verdicts)
{
	enum verdict v = VERDICT_GOOD;

	lying = lies;
	for (uint64_t seed = 1; v == VERDICT_GOOD; seed++) {
		CHECK(seed <= 40, "%s goes unnoticed", what);
		v = look_at_liar(seed, what);
	}
	CHECK(verdicts & 1u << v, "%s is found to be %u", what, v);
}

static void find_liars(void)
{
	find_liar("a flush of nothing",
		  (struct store_ops){ .flush = flush_nothing },
		  1u << VERDICT_LOST | 1u << VERDICT_SHORT |
			  1u << VERDICT_LONG);
	find_liar("a padded tail", (struct store_ops){ .write_tail = pad_tail },
		  1u << VERDICT_LONG);
	find_liar("a tail beside its place",
		  (struct store_ops){ .write_tail = misplace_tail },
		  1u << VERDICT_INVENTED | 1u << VERDICT_LOST);
	find_liar("a file that never shrinks",
		  (struct store_ops){ .truncate = shrink_never },
		  1u << VERDICT_LONG);
}

int main(int argc, char **argv)
{
	unsigned long want = test_scale(2000), done = 0;
	uint64_t seed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1) {
		one_disk(strtoull(argv[1], NULL, 0), CUTS_OF_A_DISK);
		return 0;
	}
	seed = test_seed();
	find_liars();
	for (size_t i = 0; i < sizeof(old_seeds) / sizeof(old_seeds[0]); i++)
		done += one_disk(old_seeds[i], CUTS_OF_A_DISK);
	for (uint64_t i = 0; done < want; i++)
		done += one_disk(rng_mix(seed + i) >> 16, CUTS_OF_A_DISK);
	printf("%lu power cuts\n", done);
	return 0;
}

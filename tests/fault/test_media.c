// SPDX-License-Identifier: MIT
/*
 * Bad blocks, and devices without space (R15): one bad block harms nothing but
 * itself, and who needs space that is not there is told at the write.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "scale.h"
#include "support/rig.h"

#define MIB (1u << 20)
#define BAD_POS 81920u
#define BLOCK 4096u

static uint64_t seed;

static void media_up(struct rig *rig, size_t memory)
{
	struct store_fault_options faults = { .seed = seed };
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = memory };
	struct store *store;

	guard(120);
	CHECK_OK(store_fault_create(BLOCK, 512, &faults, &store));
	rig_up(rig, spy_create(store), &opts);
}

static void set_bad(struct rig *rig, uint64_t pos, uint64_t len, int error)
{
	struct store_fault_options opts = { .seed = seed,
					    .error = error,
					    .bad_pos = pos,
					    .bad_len = len };

	store_fault_set(rig->spy->inner, &opts);
}

static void set_good(struct rig *rig)
{
	set_bad(rig, 0, 0, 0);
}

static void sync_until_clean(struct dbh_file *file)
{
	while (dbh_fsync(file))
		;
}

/* ---- bad blocks ------------------------------------------------------ */

/* All but the bad block can be read, however large the requests were. */
static void read_around(unsigned flags)
{
	static char buf[BLOCK];
	struct rig rig;

	media_up(&rig, 8 * MIB);
	rig_write(&rig, MIB, 0, 1, DBH_DONTCACHE);
	rig_close(&rig);
	rig.file = rig_open(&rig, O_RDWR);
	set_bad(&rig, BAD_POS, 512, EIO);
	for (uint64_t pos = 0; pos < MIB; pos += BLOCK) {
		if (pos == BAD_POS)
			CHECK_IS(dbh_pread(rig.file, buf, BLOCK, (off_t)pos,
					   flags),
				 -EIO);
		else
			rig_read(&rig, BLOCK, pos, 1, flags);
	}
	/* What could be read before the bad block is told; then the error. */
	CHECK_IS(dbh_pread(rig.file, buf, BLOCK, BAD_POS - 100, flags), 100);
	set_good(&rig);
	rig_read(&rig, MIB, 0, 1, flags);
	/* It is the readers' news alone. */
	CHECK_OK(dbh_fsync(rig.file));
	rig_down(&rig);
}

static void test_r15_read_around_uncached(void **state)
{
	(void)state;
	read_around(DBH_DONTCACHE);
}

static void test_r15_read_around_cached(void **state)
{
	(void)state;
	read_around(0);
}

/* All but the bad block reaches the disk, and it alone stays dirty. */
static void write_around(unsigned flags)
{
	struct rig rig;

	media_up(&rig, 8 * MIB);
	set_bad(&rig, BAD_POS, 512, EIO);
	rig_write(&rig, MIB, 0, 1, flags);
	CHECK_IS(dbh_fsync(rig.file), -EIO);
	while (dbh_fsync(rig.file) && rig_residency(&rig).dirty > 1)
		;
	CHECK_IS(rig_residency(&rig).dirty, 1);
	CHECK(mapping_failing(rig.file->m), "a bad block is forgotten");
	rig_check_store(&rig, BAD_POS, 0, 1);
	rig_check_store(&rig, MIB - BAD_POS - BLOCK, BAD_POS + BLOCK, 1);
	/* Good ones that follow do not change that. */
	rig_write(&rig, MIB, MIB, 1, flags);
	CHECK(dbh_fsync(rig.file), "the bad block was not tried");
	CHECK_IS(rig_residency(&rig).dirty, 1);
	CHECK(mapping_failing(rig.file->m), "a bad block is forgotten");
	set_good(&rig);
	sync_until_clean(rig.file);
	CHECK(!mapping_failing(rig.file->m), "still failing");
	rig_check_store(&rig, 2 * MIB, 0, 1);
	rig_down(&rig);
}

static void test_r15_write_around_uncached(void **state)
{
	(void)state;
	write_around(DBH_DONTCACHE);
}

static void test_r15_write_around_cached(void **state)
{
	(void)state;
	write_around(0);
}

/* ---- many that fail -------------------------------------------------- */

#define NR_BAD 6u

/* A file on the same device. */
static struct rig another(struct dbh_engine *e, struct store *store,
			  unsigned ino)
{
	struct rig rig = { .engine = e, .spy = spy_create(store) };

	rig.spy->store.dev = 1;
	rig.spy->store.ino = ino;
	rig.file = rig_open(&rig, O_RDWR);
	return rig;
}

static void *fill_until_error(void *arg)
{
	struct rig *rig = arg;
	static const char buf[20000];
	ssize_t n = 1;

	for (unsigned i = 0; i < 100000 && n > 0; i++)
		n = dbh_pwrite(rig->file, buf, sizeof(buf),
			       (off_t)(i * sizeof(buf)),
			       i % 2 ? DBH_DONTCACHE : 0);
	CHECK_IS(n, -EIO);
	return NULL;
}

/* However many fail: they get the error, and one that is good goes on. */
static void test_r15_many_fail(void **state)
{
	struct store_fault_options faults = { .seed = seed, .error_every = 1 };
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 32 * MIB };
	struct rig bad[NR_BAD], good;
	pthread_t threads[NR_BAD];
	struct dbh_engine *e;
	struct store *store;

	(void)state;
	guard(120);
	CHECK_OK(dbh_engine_create(&opts, &e));
	for (unsigned i = 0; i < NR_BAD; i++) {
		CHECK_OK(store_fault_create(BLOCK, 512, &faults, &store));
		bad[i] = another(e, store, i + 1);
		CHECK_OK(pthread_create(&threads[i], NULL, fill_until_error,
					&bad[i]));
	}
	for (unsigned i = 0; i < NR_BAD; i++)
		CHECK_OK(pthread_join(threads[i], NULL));
	CHECK_OK(store_mem_create(BLOCK, 512, &store));
	good = another(e, store, 99);
	for (unsigned i = 0; i < 500; i++)
		rig_write(&good, 20000, i * 20000ull, 1,
			  i % 3 ? DBH_DONTCACHE : 0);
	CHECK_OK(dbh_fsync(good.file));
	rig_check_store(&good, 500 * 20000, 0, 1);
	rig_stats(&good);
	faults.error_every = 0;
	for (unsigned i = 0; i < NR_BAD; i++) {
		store_fault_set(bad[i].spy->inner, &faults);
		sync_until_clean(bad[i].file);
		CHECK_OK(dbh_close(bad[i].file));
		spy_destroy(bad[i].spy);
	}
	CHECK_OK(dbh_close(good.file));
	spy_destroy(good.spy);
	CHECK_OK(dbh_engine_destroy(e));
}

/* ---- no space -------------------------------------------------------- */

/* Everything from 1 MiB on needs space that is not there. */
static void no_space(int error)
{
	static char buf[BLOCK];
	uint64_t end = MIB;
	struct rig rig;
	ssize_t n;

	media_up(&rig, 8 * MIB);
	rig_write(&rig, MIB, 0, 1, DBH_DSYNC);
	set_bad(&rig, MIB, UINT32_MAX, error);
	/* Accepted before anybody could know. */
	rig_write(&rig, 10 * BLOCK, end, 1, DBH_DONTCACHE);
	end += 10 * BLOCK;
	CHECK_IS(dbh_fsync(rig.file), -error);
	/* Known now: at the write, and with nothing taken. */
	pattern_fill(buf, BLOCK, end, 1);
	n = dbh_pwrite(rig.file, buf, BLOCK, (off_t)end, DBH_DONTCACHE);
	CHECK_IS(n, -error);
	CHECK_IS(dbh_pwrite(rig.file, buf, BLOCK, 0, DBH_APPEND), -error);
	/* What needs none goes on: there is space, or it is dirty already. */
	rig_write(&rig, BLOCK, 0, 2, DBH_DONTCACHE);
	rig_write(&rig, BLOCK, MIB, 2, 0);
	rig_read(&rig, 9 * BLOCK, MIB + BLOCK, 1, 0);
	/* Space was freed: the next write notices. */
	set_good(&rig);
	rig_write(&rig, BLOCK, end, 1, DBH_DONTCACHE);
	sync_until_clean(rig.file);
	CHECK_OK(dbh_fsync(rig.file));
	rig_check_store(&rig, BLOCK, 0, 2);
	rig_check_store(&rig, BLOCK, MIB, 2);
	rig_check_store(&rig, 10 * BLOCK, MIB + BLOCK, 1);
	rig_down(&rig);
}

static void test_r15_enospc(void **state)
{
	(void)state;
	no_space(ENOSPC);
}

static void test_r15_edquot(void **state)
{
	(void)state;
	no_space(EDQUOT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r15_read_around_uncached),
		cmocka_unit_test(test_r15_read_around_cached),
		cmocka_unit_test(test_r15_write_around_uncached),
		cmocka_unit_test(test_r15_write_around_cached),
		cmocka_unit_test(test_r15_many_fail),
		cmocka_unit_test(test_r15_enospc),
		cmocka_unit_test(test_r15_edquot),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

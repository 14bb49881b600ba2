/* SPDX-License-Identifier: MIT */
/*
 * The mem and the fault store: what they keep, when they fail, and what a
 * power cut may and may not leave.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>

#include "block_io.h"
#include "scale.h"

#define NR_SECTORS 64u
#define SECTOR 512u
#define FILE_BYTES (NR_SECTORS * SECTOR)

/* ---- both stores ----------------------------------------------------- */

static struct store *make_store(bool fault)
{
	struct store_fault_options opts = { .seed = 1, .delay_us = 200 };
	struct store *store;

	if (fault)
		assert_int_equal(store_fault_create(4096, 512, &opts, &store),
				 0);
	else
		assert_int_equal(store_mem_create(4096, 512, &store), 0);
	return store;
}

static void check_round_trip(struct store *store)
{
	const uint64_t far = 5ull << 30;
	struct io *io;
	char buf[8192];
	struct stat st;

	assert_int_equal(put_content(store, 0, 8192, 4096, 1), 0);
	assert_int_equal(put_content(store, far, 65536, 512, 2), 0);
	assert_int_equal(store_mem_size(store), far + 65536);
	assert_int_equal(store_mem_bios(store, BIO_WRITE), 2);

	io = io_new(store, BIO_READ, far + 61440, 8192, 512);
	assert_int_equal(io_run(io), 0);
	assert_true(io_holds(io, 4096, 2));
	assert_false(pthread_equal(io->ended_in, pthread_self()));
	io_free(io);
	io = io_new(store, BIO_READ, 1 << 20, 8192, 4096);
	assert_int_equal(io_run(io), 0);
	assert_true(io_holds(io, 0, 0));
	io_free(io);
	assert_int_equal(store_mem_bios(store, BIO_READ), 2);

	assert_int_equal(store->ops->truncate(store, 5000), 0);
	assert_int_equal(store->ops->truncate(store, 8192), 0);
	assert_int_equal(store_mem_peek(store, buf, sizeof(buf), 0), 8192);
	assert_true(content_is(buf, 5000, 0, 1));
	for (unsigned i = 5000; i < 8192; i++)
		assert_int_equal(buf[i], 0);
	assert_int_equal(store_mem_peek(store, buf, 100, 8190), 2);

	content_fill(buf, 10, 8192, 3);
	assert_int_equal(store->ops->write_tail(store, buf, 10, 8192), 0);
	assert_int_equal(store->ops->flush(store, true), 0);
	assert_int_equal(store->ops->settle(store), 0);
	assert_int_equal(store->ops->stat(store, &st), 0);
	assert_int_equal(st.st_size, 8202);
	assert_true(S_ISREG(st.st_mode));
}

static void round_trip(void **state)
{
	(void)state;
	for (int fault = 0; fault < 2; fault++) {
		struct store *store = make_store(fault);

		check_round_trip(store);
		store_destroy(store);
	}
}

static void many_in_flight(void **state)
{
	enum { NR = 200 };
	struct io *io[NR];

	(void)state;
	for (int fault = 0; fault < 2; fault++) {
		struct store *store = make_store(fault);

		for (unsigned i = 0; i < NR; i++) {
			io[i] = io_new(store, BIO_WRITE, i * 8192u, 8192, 4096);
			io_fill(io[i], i);
			bio_submit(&io[i]->bio);
		}
		for (unsigned i = 0; i < NR; i++) {
			assert_int_equal(io_wait(io[i]), 0);
			io[i]->bio.op = BIO_READ;
			memset(io[i]->mem, 0, 8192);
			assert_int_equal(io_run(io[i]), 0);
			assert_true(io_holds(io[i], 8192, i));
			io_free(io[i]);
		}
		store_destroy(store);
	}
}

static void bad_geometry(void **state)
{
	struct store *store;

	(void)state;
	assert_int_equal(store_mem_create(2048, 512, &store), -EINVAL);
	assert_int_equal(store_mem_create(4096, 8192, &store), -EINVAL);
	assert_int_equal(store_mem_create(131072, 512, &store), -EINVAL);
	assert_int_equal(store_fault_create(4096, 256, NULL, &store), -EINVAL);
}

/* ---- errors ---------------------------------------------------------- */

static void every_nth_fails(void **state)
{
	struct store_fault_options opts = {
		.error_every = 3,
		.flush_error_every = 2,
		.tail_error_every = 2,
		.error = ENOSPC,
	};
	struct store *store;

	(void)state;
	assert_int_equal(store_fault_create(4096, 512, &opts, &store), 0);
	for (int i = 1; i <= 9; i++)
		assert_int_equal(put_content(store, 0, 4096, 4096, 1),
				 i % 3 ? 0 : -ENOSPC);
	for (int i = 1; i <= 4; i++)
		assert_int_equal(store->ops->flush(store, false),
				 i % 2 ? 0 : -ENOSPC);
	assert_int_equal(store->ops->truncate(store, 100), 0);
	assert_int_equal(store->ops->write_tail(store, "x", 1, 100), -ENOSPC);
	assert_int_equal(store_mem_size(store), 100);
	opts.error = 0;
	opts.error_every = 1;
	store_fault_set(store, &opts);
	assert_int_equal(put_content(store, 0, 4096, 4096, 1), -EIO);
	opts.error_every = 0;
	store_fault_set(store, &opts);
	assert_int_equal(put_content(store, 0, 4096, 4096, 1), 0);
	store_destroy(store);
}

/* ---- power ----------------------------------------------------------- */

/* What the test knows of each sector: generations that it may hold. */
struct model {
	uint64_t may[NR_SECTORS]; /* bit per generation; bit 0: zeros */
	unsigned gen;
	uint64_t random;
};

static unsigned pick(struct model *m, unsigned below)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(m->random >> 33) % below;
}

static void random_write(struct model *m, struct store *store)
{
	unsigned nr = 1 + pick(m, 16), first = pick(m, NR_SECTORS - nr + 1);
	unsigned gen = ++m->gen;

	assert_true(gen < 64);
	assert_int_equal(put_content(store, first * SECTOR, nr * SECTOR, SECTOR,
				     gen),
			 0);
	for (unsigned i = first; i < first + nr; i++)
		m->may[i] |= 1ull << gen;
}

static uint64_t current(struct store *store, unsigned sector)
{
	char buf[SECTOR] = { 0 }, zeros[SECTOR] = { 0 };

	store_mem_peek(store, buf, SECTOR, sector * SECTOR);
	if (!memcmp(buf, zeros, SECTOR))
		return 1;
	for (unsigned gen = 1; gen < 64; gen++)
		if (content_is(buf, SECTOR, sector * SECTOR, gen))
			return 1ull << gen;
	return 0;
}

static void check_cut(struct model *m, struct store *store, uint64_t seed)
{
	struct store *cut, *again;

	assert_int_equal(store_fault_power_cut(store, seed, &cut), 0);
	assert_int_equal(store_fault_power_cut(store, seed, &again), 0);
	assert_int_equal(store_mem_size(cut), FILE_BYTES);
	for (unsigned i = 0; i < NR_SECTORS; i++) {
		uint64_t is = current(cut, i);

		if (!(is & m->may[i]))
			fail_msg(
				"cut %llu: sector %u holds %#llx, not of %#llx",
				(unsigned long long)seed, i,
				(unsigned long long)is,
				(unsigned long long)m->may[i]);
		assert_true(is == current(again, i));
	}
	store_destroy(cut);
	store_destroy(again);
}

static void one_power_cut(uint64_t seed)
{
	struct store_fault_options opts = { .seed = seed, .delay_us = 10 };
	struct model m = { .random = seed };
	struct store *store;

	assert_int_equal(store_fault_create(4096, 512, &opts, &store), 0);
	assert_int_equal(store->ops->truncate(store, FILE_BYTES), 0);
	assert_int_equal(store->ops->flush(store, true), 0);
	for (unsigned i = 0; i < NR_SECTORS; i++)
		m.may[i] = 1;
	for (unsigned step = 0; step < 40; step++) {
		if (pick(&m, 4)) {
			random_write(&m, store);
		} else {
			assert_int_equal(store->ops->flush(store, true), 0);
			for (unsigned i = 0; i < NR_SECTORS; i++)
				m.may[i] = current(store, i);
		}
		check_cut(&m, store, seed * 1000 + step);
	}
	store_destroy(store);
}

static void power_cut(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= test_scale(40); seed++)
		one_power_cut(seed);
}

/* Over many seeds, every version of a sector is met: old, middle and new. */
static void power_cut_meets_all(void **state)
{
	uint64_t met = 0, sizes = 0;
	struct store *store, *cut;
	struct io *io;

	(void)state;
	assert_int_equal(store_fault_create(4096, 512, NULL, &store), 0);
	put_content(store, 0, 4096, 4096, 1);
	assert_int_equal(store->ops->flush(store, true), 0);
	put_content(store, 0, 4096, 4096, 2);
	put_content(store, 0, 8192, 4096, 3);
	/* One in flight, for as long as the test takes. */
	store_fault_set(store,
			&(struct store_fault_options){ .delay_us = 2000000 });
	io = io_new(store, BIO_WRITE, 0, 4096, 4096);
	io_fill(io, 4);
	bio_submit(&io->bio);
	for (uint64_t seed = 0; seed < 64; seed++) {
		assert_int_equal(store_fault_power_cut(store, seed, &cut), 0);
		met |= current(cut, 0);
		sizes |= store_mem_size(cut) == 4096 ? 1 : 0;
		sizes |= store_mem_size(cut) == 8192 ? 2 : 0;
		store_destroy(cut);
	}
	assert_int_equal(met, 0x1e);
	assert_int_equal(sizes, 3);
	assert_int_equal(io_wait(io), 0);
	io_free(io);
	store_destroy(store);
}

/* After a flush that failed the next one says 0, and the data may be gone. */
static void failed_flush_loses(void **state)
{
	unsigned lost = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 32; seed++) {
		struct store_fault_options opts = { .seed = seed,
						    .flush_error_every = 1 };
		struct store *store, *cut;

		assert_int_equal(store_fault_create(4096, 512, &opts, &store),
				 0);
		put_content(store, 0, 4096, 4096, 1);
		assert_int_equal(store->ops->flush(store, true), -EIO);
		opts.flush_error_every = 0;
		store_fault_set(store, &opts);
		assert_int_equal(store->ops->flush(store, true), 0);
		assert_true(current(store, 0) == 2);
		assert_int_equal(store_fault_power_cut(store, 1, &cut), 0);
		lost += store_mem_size(cut) == 0;
		store_destroy(cut);
		store_destroy(store);
	}
	assert_in_range(lost, 4, 28);
}

/* Zeros that a truncate made are a version like any other. */
static void cut_after_truncate(void **state)
{
	uint64_t met = 0;
	struct store *store, *cut;

	(void)state;
	assert_int_equal(store_fault_create(4096, 512, NULL, &store), 0);
	put_content(store, 0, 8192, 4096, 1);
	assert_int_equal(store->ops->flush(store, true), 0);
	assert_int_equal(store->ops->truncate(store, 700), 0);
	assert_int_equal(store->ops->truncate(store, 8192), 0);
	for (uint64_t seed = 0; seed < 32; seed++) {
		assert_int_equal(store_fault_power_cut(store, seed, &cut), 0);
		assert_true(current(cut, 0) == 2);
		if (store_mem_size(cut) == 8192)
			met |= current(cut, 8);
		store_destroy(cut);
	}
	assert_int_equal(met, 3);
	assert_int_equal(store->ops->flush(store, true), 0);
	assert_int_equal(store_fault_power_cut(store, 1, &cut), 0);
	assert_true(current(cut, 8) == 1);
	store_destroy(cut);
	store_destroy(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(many_in_flight),
		cmocka_unit_test(bad_geometry),
		cmocka_unit_test(every_nth_fails),
		cmocka_unit_test(power_cut),
		cmocka_unit_test(power_cut_meets_all),
		cmocka_unit_test(failed_flush_loses),
		cmocka_unit_test(cut_after_truncate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

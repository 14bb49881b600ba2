// SPDX-License-Identifier: MIT
/*
 * Reading: what an uncached read keeps (R17), what is read ahead (R18), and
 * what a reader sees (R8).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <pthread.h>

#include "scale.h"
#include "support/rig.h"

#define FILE_BYTES (8u << 20)

static uint64_t seed;

/* R17: nothing is kept, and a block that two misaligned reads share is fetched
 * once. */
static void test_r17_uncached_reads_keep_nothing(void **state)
{
	static const size_t records[] = { 47008, 6000, 65536, 1000 };
	static const uint32_t folios[] = { 4096, 16384, 65536 };

	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		size_t record = records[i % 4], len = 2u << 20;
		struct rig rig;

		rig_up(&rig, spy_with_content(folios[i / 4], len, 1), NULL);
		for (uint64_t pos = 0; pos < len; pos += record)
			rig_read(&rig, MIN(record, len - pos), pos, 1,
				 DBH_DONTCACHE);
		CHECK_IS(rig_residency(&rig).cached, 0);
		CHECK_IS(atomic_load(&rig.spy->bytes[BIO_READ]), len);
		rig_down(&rig);
	}
}

/* What was begun and not read to its end goes with its reader. */
static void test_r17_reader_closes(void **state)
{
	struct dbh_file *reader, *writer;
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(4096, FILE_BYTES, 1), NULL);
	writer = rig.file;
	reader = rig_open(&rig, O_RDONLY);
	rig.file = reader;
	rig_read(&rig, 100, 1000, 1, DBH_DONTCACHE);
	CHECK(rig_residency(&rig).cached >= 1, "somebody may read on");
	CHECK_OK(dbh_close(reader));
	rig.file = writer;
	CHECK_IS(rig_residency(&rig).cached, 0);
	rig_down(&rig);
}

static void test_r17_expires(void **state)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 8u << 20,
				    .expire_ms = 20 };
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(4096, FILE_BYTES, 1), &opts);
	rig_read(&rig, 100, 1000, 1, DBH_DONTCACHE);
	rig_wait_cached(&rig, 0);
	rig_down(&rig);
}

/* A cached read keeps what it read; a second one reads nothing. */
static void test_r17_cached_reads_keep(void **state)
{
	struct rig rig;
	unsigned reads;

	(void)state;
	rig_up(&rig, spy_with_content(4096, 1u << 20, 1), NULL);
	rig_read(&rig, 1u << 20, 0, 1, 0);
	CHECK_IS(rig_residency(&rig).cached, 256);
	reads = rig_reads(&rig);
	rig_read(&rig, 1u << 20, 0, 1, 0);
	/* Nor does an uncached one, and it drops nothing of it. */
	rig_read(&rig, 1u << 20, 0, 1, DBH_DONTCACHE);
	CHECK_IS(rig_reads(&rig), reads);
	CHECK_IS(rig_residency(&rig).cached, 256);
	rig_down(&rig);
}

/* R18: small sequential reads become large requests. */
static void test_r18_sequential(void **state)
{
	for (unsigned flags = 0; flags <= DBH_DONTCACHE; flags++) {
		struct rig rig;

		(void)state;
		rig_up(&rig, spy_with_content(4096, FILE_BYTES, 1), NULL);
		for (uint64_t pos = 0; pos < FILE_BYTES; pos += 3000)
			rig_read(&rig, MIN(3000u, FILE_BYTES - pos), pos, 1,
				 flags);
		CHECK_IS(atomic_load(&rig.spy->bytes[BIO_READ]), FILE_BYTES);
		CHECK(rig_reads(&rig) < FILE_BYTES / 65536,
		      "%u reads for %u bytes", rig_reads(&rig), FILE_BYTES);
		rig_down(&rig);
	}
}

/* Random reads do not read what nobody asked for. */
static void test_r18_random(void **state)
{
	struct rng r = rng_fork(seed, 1);
	struct rig rig;

	(void)state;
	rig_up(&rig, spy_with_content(4096, FILE_BYTES, 1), NULL);
	for (unsigned i = 0; i < 200; i++)
		rig_read(&rig, 4096,
			 rng_below(&r, FILE_BYTES / 8192) * 8192, 1,
			 DBH_DONTCACHE);
	CHECK(atomic_load(&rig.spy->bytes[BIO_READ]) < 400u * 4096,
	      "%llu bytes for 200 pages",
	      (unsigned long long)atomic_load(&rig.spy->bytes[BIO_READ]));
	rig_down(&rig);
}

/* The end of the file: D22. */
static void test_end_of_file(void **state)
{
	struct rig rig;
	char buf[10000];

	(void)state;
	rig_up(&rig, spy_with_content(4096, 5001, 1), NULL);
	for (unsigned flags = 0; flags <= DBH_DONTCACHE; flags++) {
		CHECK_IS(dbh_pread(rig.file, buf, sizeof(buf), 0, flags), 5001);
		pattern_check(buf, 5001, 0, 1);
		CHECK_IS(dbh_pread(rig.file, buf, 100, 5000, flags), 1);
		CHECK_IS(dbh_pread(rig.file, buf, 100, 5001, flags), 0);
		CHECK_IS(dbh_pread(rig.file, buf, 100, 1ll << 50, flags), 0);
		/* As rw_verify_area() in the kernel. */
		CHECK_IS(dbh_pread(rig.file, buf, 100, INT64_MAX, flags),
			 -EINVAL);
	}
	/* A hole behind it reads as zeros, without the store. */
	rig_write(&rig, 10, 20000, 1, DBH_DONTCACHE);
	CHECK_IS(dbh_pread(rig.file, buf, sizeof(buf), 5001, 0), sizeof(buf));
	for (unsigned i = 0; i < sizeof(buf); i++)
		CHECK(!buf[i], "byte %u of a hole", i);
	rig_down(&rig);
}

/* ---- atomic per folio ------------------------------------------------ */

struct torn {
	struct rig *rig;
	_Atomic bool stop;
};

static void *write_over(void *arg)
{
	struct torn *t = arg;
	char buf[4096];

	for (unsigned i = 1; !atomic_load(&t->stop); i++) {
		memset(buf, (int)(i & 0x7f), sizeof(buf));
		CHECK_IS(dbh_pwrite(t->rig->file, buf, sizeof(buf), 8192,
				    i % 3 ? DBH_DONTCACHE : 0),
			 sizeof(buf));
	}
	return NULL;
}

static void test_r8_atomic_per_folio(void **state)
{
	unsigned long n = test_scale(20000);
	struct torn t = { 0 };
	pthread_t writer;
	struct rig rig;
	char buf[4096];

	(void)state;
	rig_up(&rig, spy_with_content(4096, 1u << 16, 1), NULL);
	memset(buf, 1, sizeof(buf));
	CHECK_IS(dbh_pwrite(rig.file, buf, sizeof(buf), 8192, 0), 4096);
	t.rig = &rig;
	pthread_create(&writer, NULL, write_over, &t);
	for (unsigned long i = 0; i < n; i++) {
		CHECK_IS(dbh_pread(rig.file, buf, sizeof(buf), 8192,
				   i % 2 ? DBH_DONTCACHE : 0),
			 sizeof(buf));
		for (unsigned b = 1; b < sizeof(buf); b++)
			CHECK(buf[b] == buf[0], "torn at %u", b);
	}
	atomic_store(&t.stop, true);
	pthread_join(writer, NULL);
	rig_down(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r17_uncached_reads_keep_nothing),
		cmocka_unit_test(test_r17_reader_closes),
		cmocka_unit_test(test_r17_expires),
		cmocka_unit_test(test_r17_cached_reads_keep),
		cmocka_unit_test(test_r18_sequential),
		cmocka_unit_test(test_r18_random),
		cmocka_unit_test(test_end_of_file),
		cmocka_unit_test(test_r8_atomic_per_folio),
	};

	guard(240);
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

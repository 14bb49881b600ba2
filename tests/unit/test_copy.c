// SPDX-License-Identifier: MIT
/*
 * Data and holes, and copying: the case D28, on stores in memory; what real file
 * systems make of it is in test_extents.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>

#include "shadow.h"

static const unsigned write_flags[] = { 0, DBH_DONTCACHE,
					DBH_DONTCACHE | DBH_DEFER };

/* ---- data and holes ------------------------------------------------------ */

static off_t seek(struct shadow *s, off_t off, int whence)
{
	return dbh_lseek(s->rig.file, off, whence);
}

/* D28: holes between what is dirty are holes, and what is dirty is data, before
 * and after it is written. */
static void test_d28_seek(void **state)
{
	static struct shadow s;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		shadow_up(&s, 4096);
		CHECK_OK(dbh_ftruncate(s.rig.file, 1000000));
		s.size = 1000000;
		CHECK_IS(seek(&s, 0, SEEK_DATA), -ENXIO);
		CHECK_IS(seek(&s, 5, SEEK_HOLE), 5);
		shadow_write(&s, 131072 + 5, 70000, 1, write_flags[i]);
		shadow_write(&s, 524288 - 1, 2, 1, write_flags[i]);
		for (unsigned synced = 0; synced < 2; synced++) {
			CHECK_IS(seek(&s, 0, SEEK_DATA), 131072);
			CHECK_IS(seek(&s, 131080, SEEK_DATA), 131080);
			CHECK_IS(seek(&s, 131080, SEEK_HOLE),
				 synced ? 262144 : 204800);
			CHECK_IS(seek(&s, 262144, SEEK_DATA),
				 synced ? 458752 : 520192);
			CHECK_IS(seek(&s, 524288, SEEK_HOLE),
				 synced ? 589824 : 528384);
			CHECK_IS(seek(&s, 700000, SEEK_DATA), -ENXIO);
			CHECK_IS(seek(&s, 999999, SEEK_HOLE), 999999);
			CHECK_OK(dbh_fsync(s.rig.file));
		}
		shadow_down(&s);
	}
}

/* The end of the file is a hole; the rest of a block behind its on-disk end is
 * none. */
static void test_seek_ends(void **state)
{
	static struct shadow s;

	(void)state;
	shadow_up(&s, 4096);
	shadow_write(&s, 0, 100, 1, 0);
	CHECK_OK(dbh_fsync(s.rig.file));
	CHECK_IS(seek(&s, 0, SEEK_HOLE), 100);
	shadow_write(&s, 4096, 100, 1, 0);
	CHECK_IS(seek(&s, 0, SEEK_HOLE), 4196);
	CHECK_IS(seek(&s, 4195, SEEK_DATA), 4195);
	CHECK_IS(seek(&s, 4196, SEEK_DATA), -ENXIO);
	shadow_down(&s);
}

/* ---- copying -------------------------------------------------------------- */

static ssize_t copy(struct shadow *s, size_t from, size_t to, size_t len)
{
	size_t n = from < s->size ? MIN(len, s->size - from) : 0;
	ssize_t res = dbh_copy_file_range(s->rig.file, (off_t)from, s->rig.file,
					  (off_t)to, len, 0);

	if (res < 0)
		return res;
	CHECK_IS(res, n);
	memcpy(s->bytes + to, s->bytes + from, n);
	s->size = MAX(s->size, n ? to + n : 0);
	return res;
}

static void test_copy_within(void **state)
{
	static struct shadow s;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		shadow_up(&s, 4096);
		shadow_write(&s, 0, 300001, 1, write_flags[i]);
		/* Alike: shared, but for what is no whole block. */
		copy(&s, 100, 409600 + 100, 50000);
		CHECK_IS(atomic_load(&s.rig.spy->clones), 1);
		shadow_check(&s);
		copy(&s, 4096, 450560, 100);
		copy(&s, 4096, 450561, 20000);
		CHECK_IS(atomic_load(&s.rig.spy->clones), 1);
		shadow_check(&s);
		/* Both to their ends. */
		copy(&s, s.size / 8192 * 4096, s.size / 4096 * 4096 + 4096,
		     s.size);
		CHECK_IS(copy(&s, s.size, 0, 5), 0);
		CHECK_IS(copy(&s, 5, 10, 6), -EINVAL);
		CHECK_IS(copy(&s, 10, 5, 6), -EINVAL);
		CHECK_IS(copy(&s, 5, 11, 6), 6);
		CHECK_IS(copy(&s, (size_t)-10, 11, 6), -EINVAL);
		CHECK_IS(copy(&s, (size_t)-1, 11, 6), -EOVERFLOW);
		CHECK_IS(copy(&s, INT64_MAX, 11, 6), 0);
		shadow_down(&s);
	}
}

/* Where blocks cannot be shared bytes are copied: this time, or from now on. */
static void test_copy_refused(void **state)
{
	static struct shadow s;
	unsigned clones = 0;

	(void)state;
	shadow_up(&s, 4096);
	shadow_write(&s, 0, 100000, 1, DBH_DONTCACHE);
	for (unsigned i = 0; i < 4; i++) {
		atomic_store(&s.rig.spy->lie_err,
			     i < 2 ? -EINVAL : -EOPNOTSUPP);
		copy(&s, 4096, (i + 1) * 131072, 50000);
		clones += i < 3;
		CHECK_IS(atomic_load(&s.rig.spy->clones), clones);
		shadow_check(&s);
	}
	shadow_down(&s);
}

/* Holes are kept, at the end too. */
static void test_copy_holes(void **state)
{
	static struct shadow s;

	(void)state;
	shadow_up(&s, 4096);
	shadow_write(&s, 0, 65536, 1, 0);
	shadow_write(&s, 65536 * 3, 100, 1, 0);
	CHECK_OK(dbh_ftruncate(s.rig.file, 65536 * 4));
	s.size = 65536 * 4;
	shadow_write(&s, 65536 * 6, 65536, 1, 0);
	copy(&s, 1, 65536 * 5, 65536 * 4 - 1);
	shadow_check(&s);
	CHECK_OK(dbh_fsync(s.rig.file));
	CHECK_IS(seek(&s, 65536 * 6, SEEK_HOLE), 65536 * 6);
	CHECK_IS(seek(&s, 65536 * 6, SEEK_DATA), 65536 * 7);
	shadow_down(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_d28_seek),
		cmocka_unit_test(test_seek_ends),
		cmocka_unit_test(test_copy_within),
		cmocka_unit_test(test_copy_refused),
		cmocka_unit_test(test_copy_holes),
	};

	guard(240);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/*
 * R22 state by state, on a store whose lease the test has in its hands: what is
 * written and dropped before the lease goes, data that cannot be written,
 * folios that are lent out meanwhile, and the way back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "support/rig.h"

static unsigned lease_of(struct dbh_file *f)
{
	struct dbh_file_info info = { .struct_size = sizeof(info) };

	CHECK_OK(dbh_file_info(f, &info));
	return info.lease;
}

/* The guard ends it. */
static void wait_lease(struct rig *rig, unsigned want)
{
	while (lease_of(rig->file) != want)
		usleep(500);
}

static void wait_drops(struct rig *rig, unsigned nr)
{
	while (atomic_load(&rig->spy->lease_drops) < nr)
		usleep(500);
}

static void leased_up(struct rig *rig)
{
	struct spy *spy = spy_create_mem(4096, 512);

	guard(60);
	spy_lease(spy);
	rig_up(rig, spy, NULL);
	CHECK_IS(lease_of(rig->file), DBH_LEASE_OWNED);
}

/* Something of each kind: whole, an edge, cached, read, and the end. */
static void make_content(struct rig *rig)
{
	rig_write(rig, 100001, 0, 1, DBH_DONTCACHE);
	rig_write(rig, 5000, 100001, 1, 0);
	rig_read(rig, 8192, 0, 1, 0);
}

static void test_break_writes_and_drops_all(void **state)
{
	struct rig rig;

	(void)state;
	leased_up(&rig);
	make_content(&rig);
	spy_break(rig.spy);
	wait_drops(&rig, 1);
	/* All of it was there before the lease went. */
	CHECK_IS(store_mem_size(rig.spy->inner), 105001);
	rig_check_store(&rig, 105001, 0, 1);
	wait_lease(&rig, DBH_LEASE_SHARED);
	CHECK_IS(rig_residency(&rig).cached, 0);
	CHECK_IS(rig_stats(&rig).lease_breaks, 1);
	CHECK_IS(rig_stats(&rig).files_shared, 1);
	rig_down(&rig);
}

static void test_shared_keeps_nothing(void **state)
{
	static const unsigned flags[] = { 0, DBH_DONTCACHE, DBH_DSYNC,
					  DBH_DONTCACHE | DBH_DEFER };
	struct rig rig;
	struct stat st;

	(void)state;
	leased_up(&rig);
	make_content(&rig);
	spy_break(rig.spy);
	wait_lease(&rig, DBH_LEASE_SHARED);
	for (unsigned i = 0; i < 4; i++) {
		rig_write(&rig, 3333, i * 3333, 2, flags[i]);
		rig_check_store(&rig, 3333, i * 3333, 2);
		rig_read(&rig, 3333, i * 3333, 2, flags[i] & DBH_DONTCACHE);
		CHECK_IS(rig_residency(&rig).cached, 0);
	}
	/* Another one writes on. */
	spy_put(rig.spy, "others", 6, 200000);
	CHECK_OK(dbh_fstat(rig.file, &st));
	CHECK_IS(st.st_size, 200006);
	rig_write(&rig, 10, 0, 3, DBH_APPEND);
	CHECK_IS(store_mem_size(rig.spy->inner), 200016);
	/* And cuts it off. */
	CHECK_OK(rig.spy->inner->ops->truncate(rig.spy->inner, 5000));
	CHECK_IS(dbh_pread(rig.file, &st, 10, 5000, 0), 0);
	CHECK_IS(dbh_pread(rig.file, &st, 10, 4995, 0), 5);
	CHECK_IS(dbh_pread(rig.file, &st, 10, 0, DBH_NOWAIT), -EAGAIN);
	CHECK_OK(dbh_ftruncate(rig.file, 4000));
	CHECK_IS(store_mem_size(rig.spy->inner), 4000);
	atomic_store(&rig.spy->size_limit, 6000);
	CHECK_OK(dbh_ftruncate(rig.file, 6000));
	CHECK_IS(store_mem_size(rig.spy->inner), 6000);
	rig_down(&rig);
}

static void test_caching_resumes(void **state)
{
	struct rig rig;
	struct stat st;

	(void)state;
	leased_up(&rig);
	make_content(&rig);
	spy_break(rig.spy);
	wait_lease(&rig, DBH_LEASE_SHARED);
	CHECK_OK(rig.spy->inner->ops->truncate(rig.spy->inner, 3000));
	atomic_store(&rig.spy->lease_err, 0);
	wait_lease(&rig, DBH_LEASE_OWNED);
	/* The size is that which others have left, and writes are cached. */
	CHECK_OK(dbh_fstat(rig.file, &st));
	CHECK_IS(st.st_size, 3000);
	rig_write(&rig, 2000, 3000, 1, 0);
	CHECK_IS(store_mem_size(rig.spy->inner), 3000);
	rig_read(&rig, 5000, 0, 1, 0);
	CHECK(rig_residency(&rig).cached, "nothing is cached");
	/* And again. */
	spy_break(rig.spy);
	wait_drops(&rig, 2);
	rig_check_store(&rig, 5000, 0, 1);
	rig_down(&rig);
}

/* The lease is not for us any more: cached as ever, but we are not told. */
static void test_resume_finds_no_leases(void **state)
{
	struct rig rig;
	struct stat st;

	(void)state;
	leased_up(&rig);
	make_content(&rig);
	spy_break(rig.spy);
	wait_lease(&rig, DBH_LEASE_SHARED);
	atomic_store(&rig.spy->lease_err, -EOPNOTSUPP);
	wait_lease(&rig, DBH_LEASE_UNSUPPORTED);
	CHECK_IS(rig_stats(&rig).files_unsupported, 1);
	CHECK_IS(rig_stats(&rig).files_shared, 0);
	rig_read(&rig, 4096, 0, 1, 0);
	CHECK_IS(rig_residency(&rig).cached, 1);
	/* While something is dirty the size is ours. */
	rig_write(&rig, 10, 0, 2, 0);
	spy_put(rig.spy, "others", 6, 300000);
	CHECK_OK(dbh_fstat(rig.file, &st));
	CHECK_IS(st.st_size, 105001);
	CHECK_OK(dbh_fsync(rig.file));
	CHECK_OK(dbh_fstat(rig.file, &st));
	CHECK_IS(st.st_size, 300006);
	rig_down(&rig);
}

/* ---- errors ---------------------------------------------------------- */

static void set_faults(struct rig *rig, bool on)
{
	struct store_fault_options opts = { .seed = 1,
					    .error_every = on,
					    .tail_error_every = on };

	store_fault_set(rig->spy->inner, &opts);
}

static void failing_up(struct rig *rig)
{
	struct store_fault_options opts = { .seed = 1 };
	struct store *inner;
	struct spy *spy;

	guard(60);
	CHECK_OK(store_fault_create(4096, 512, &opts, &inner));
	spy = spy_create(inner);
	spy_lease(spy);
	rig_up(rig, spy, NULL);
	make_content(rig);
	set_faults(rig, true);
	spy_break(spy);
	/* Given up all the same, and without waiting for the kernel's time. */
	wait_lease(rig, DBH_LEASE_SHARED);
	CHECK_IS(atomic_load(&spy->lease_drops), 1);
	CHECK(rig_residency(rig).dirty, "R15: the data is gone");
}

static void test_r15_break_that_cannot_write(void **state)
{
	struct rig rig;
	char c = 'x';

	(void)state;
	failing_up(&rig);
	/* We still see it; and nobody writes over it. */
	rig_read(&rig, 105001, 0, 1, 0);
	CHECK_IS(dbh_pwrite(rig.file, &c, 1, 100, 0), -EIO);
	CHECK_IS(dbh_fsync(rig.file), -EIO);
	rig_read(&rig, 105001, 0, 1, DBH_DONTCACHE);
	set_faults(&rig, false);
	/* Out of the way of the first write, and that behind it. */
	while (dbh_fsync(rig.file))
		usleep(1000);
	rig_write(&rig, 3000, 100, 2, 0);
	rig_check_store(&rig, 3000, 100, 2);
	rig_check_store(&rig, 100, 0, 1);
	rig_check_store(&rig, 105001 - 3100, 3100, 1);
	rig_read(&rig, 3000, 100, 2, 0);
	CHECK_IS(rig_residency(&rig).cached, 0);
	rig_down(&rig);
}

static void test_r15_resume_with_failed_data(void **state)
{
	struct rig rig;
	struct stat st;

	(void)state;
	failing_up(&rig);
	atomic_store(&rig.spy->lease_err, 0);
	wait_lease(&rig, DBH_LEASE_OWNED);
	/* What could not be written keeps the end where it was. */
	CHECK_OK(dbh_fstat(rig.file, &st));
	CHECK_IS(st.st_size, 105001);
	rig_read(&rig, 105001, 0, 1, 0);
	rig_write(&rig, 10, 100, 2, 0);
	set_faults(&rig, false);
	while (dbh_fsync(rig.file))
		usleep(1000);
	rig_check_store(&rig, 10, 100, 2);
	rig_check_store(&rig, 105001 - 110, 110, 1);
	rig_down(&rig);
}

/* Others have written the file on: the end of what comes late must not cut it. */
static void test_r15_late_data_cuts_nothing(void **state)
{
	struct rig rig;
	char buf[7] = "";

	(void)state;
	failing_up(&rig);
	set_faults(&rig, false);
	spy_put(rig.spy, "others", 6, 1000000);
	while (dbh_fsync(rig.file))
		usleep(1000);
	CHECK_IS(store_mem_size(rig.spy->inner), 1000006);
	CHECK_IS(store_mem_peek(rig.spy->inner, buf, 6, 1000000), 6);
	CHECK(!strcmp(buf, "others"), "%s", buf);
	rig_check_store(&rig, 105001, 0, 1);
	rig_down(&rig);
}

/* ---- lent folios ----------------------------------------------------- */

static struct dbh_write *lend(struct rig *rig, struct iovec *iov, size_t len,
			      uint64_t pos)
{
	struct dbh_write *wr;
	int cnt = 1;

	CHECK_IS(dbh_write_begin(rig->file, (off_t)pos, len, DBH_DONTCACHE,
				 iov, &cnt, &wr),
		 len);
	CHECK_IS(iov->iov_len, len);
	pattern_fill(iov->iov_base, len, pos, 2);
	return wr;
}

/* The break waits for them; what they bring is in the file when they are given
 * back, for the kernel may have let the other one go on by then. */
static void test_break_while_lent(void **state)
{
	struct dbh_write *wr;
	struct iovec iov;
	struct rig rig;

	(void)state;
	leased_up(&rig);
	make_content(&rig);
	wr = lend(&rig, &iov, 1000, 300);
	spy_break(rig.spy);
	wait_lease(&rig, DBH_LEASE_BREAKING);
	CHECK_IS(atomic_load(&rig.spy->lease_drops), 0);
	CHECK_IS(dbh_write_end(wr, 1000), 1000);
	rig_check_store(&rig, 1000, 300, 2);
	wait_drops(&rig, 1);
	rig_check_store(&rig, 300, 0, 1);
	rig_check_store(&rig, 105001 - 1300, 1300, 1);
	rig_down(&rig);
}

static void test_lent_while_shared(void **state)
{
	struct dbh_write *wr;
	struct iovec iov;
	struct rig rig;

	(void)state;
	leased_up(&rig);
	make_content(&rig);
	spy_break(rig.spy);
	wait_lease(&rig, DBH_LEASE_SHARED);
	wr = lend(&rig, &iov, 1000, 300);
	CHECK_IS(dbh_write_end(wr, 700), 700);
	rig_check_store(&rig, 300, 0, 1);
	rig_check_store(&rig, 700, 300, 2);
	rig_check_store(&rig, 105001 - 1000, 1000, 1);
	CHECK_IS(rig_residency(&rig).cached, 0);
	rig_down(&rig);
}

/* ---- closing --------------------------------------------------------- */

static void test_close_while_breaking(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		struct rig rig;

		leased_up(&rig);
		make_content(&rig);
		spy_break(rig.spy);
		rig_close(&rig);
		rig_check_store(&rig, 105001, 0, 1);
		rig_down(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_break_writes_and_drops_all),
		cmocka_unit_test(test_shared_keeps_nothing),
		cmocka_unit_test(test_caching_resumes),
		cmocka_unit_test(test_resume_finds_no_leases),
		cmocka_unit_test(test_r15_break_that_cannot_write),
		cmocka_unit_test(test_r15_resume_with_failed_data),
		cmocka_unit_test(test_r15_late_data_cuts_nothing),
		cmocka_unit_test(test_break_while_lent),
		cmocka_unit_test(test_lent_while_shared),
		cmocka_unit_test(test_close_while_breaking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/*
 * Kicks (R11), and stable writes that cause none (R6).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/clock.h"
#include "scale.h"
#include "support/rig.h"

#define RECORD 47008u

static void rig_up_kick(struct rig *rig, unsigned kick)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 64u << 20,
				    .kick = kick };

	rig_up(rig, spy_create_mem(4096, 512), &opts);
}

/* A record as a server takes it: some segments, then one sync, then its edges
 * are completed. */
static void stable_write(struct rig *rig, uint64_t pos)
{
	const unsigned flags = DBH_DONTCACHE | DBH_DEFER;
	uint64_t end = pos + RECORD;
	uint64_t head = (pos + 4095) & ~4095ull, tail = end & ~4095ull;

	if (head > pos)
		rig_write(rig, head - pos, pos, 1, flags);
	rig_write(rig, tail - head, head, 1, flags);
	if (end > tail)
		rig_write(rig, end - tail, tail, 1, flags);
	CHECK_OK(dbh_sync_range(rig->file, (off_t)pos, RECORD, true));
	dbh_edge_complete(rig->file, (off_t)pos);
	dbh_edge_complete(rig->file, (off_t)end);
}

static void test_r6_stable_writes_never_kick(void **state)
{
	unsigned records = (unsigned)test_scale(200);
	struct dbh_residency r;
	struct rig rig;

	(void)state;
	guard(60);
	rig_up_kick(&rig, DBH_KICK_FLUSHER);
	for (unsigned i = 0; i < records; i++)
		stable_write(&rig, (uint64_t)i * RECORD);
	CHECK_IS(rig_stats(&rig).kicks, 0);
	/* Nothing stays of it but the edge that its neighbour has yet to
	 * complete, whole folios least of all. */
	r = rig_residency(&rig);
	CHECK(r.cached <= 1, "%llu pages are left", (unsigned long long)r.cached);
	rig_check_store(&rig, (size_t)records * RECORD, 0, 1);
	rig_down(&rig);
}

/* The bound of the issue: a round writes much, and rounds are not endless. */
static void test_r11_kick_rounds(void **state)
{
	uint64_t bytes = (uint64_t)test_scale(64u << 20), start, rounds;
	struct rig rig;

	(void)state;
	guard(120);
	rig_up_kick(&rig, DBH_KICK_FLUSHER);
	start = clock_ns();
	for (uint64_t pos = 0; pos < bytes; pos += RECORD)
		rig_write(&rig, RECORD, pos, 1, DBH_DONTCACHE);
	CHECK_OK(dbh_fsync(rig.file));
	rounds = rig_stats(&rig).kicks;
	CHECK(rounds * NSEC_PER_SEC <=
		      (bytes >> 20) * NSEC_PER_SEC +
			      (clock_ns() - start) * 20 + NSEC_PER_SEC,
	      "%llu rounds", (unsigned long long)rounds);
	rig_down(&rig);
}

/* R11: started by the writer, before its call returns. */
static void test_r11_inline(void **state)
{
	struct rig rig;

	(void)state;
	guard(60);
	rig_up_kick(&rig, DBH_KICK_INLINE);
	rig_write(&rig, RECORD, 0, 1, DBH_DONTCACHE);
	CHECK_IS(rig_stats(&rig).kicks, 1);
	CHECK(atomic_load(&rig.spy->bios[BIO_WRITE]), "nothing was started");
	/* No more than it wrote, and of that only what is whole. */
	CHECK_IS(atomic_load(&rig.spy->bytes[BIO_WRITE]), RECORD / 4096 * 4096);
	/* Not for what has to be asked for... */
	rig_write(&rig, RECORD, 1 << 20, 1, 0);
	rig_write(&rig, RECORD, 2 << 20, 1, DBH_DONTCACHE | DBH_DEFER);
	CHECK_IS(rig_stats(&rig).kicks, 1);
	rig_down(&rig);
}

/* ...nor behind another: the flusher then sees to it. */
static void test_r11_inline_skips(void **state)
{
	struct rig rig;

	(void)state;
	guard(60);
	rig_up_kick(&rig, DBH_KICK_INLINE);
	atomic_store(&rig.file->m->kicking, true);
	rig_write(&rig, 1 << 20, 0, 1, DBH_DONTCACHE);
	CHECK(rig_stats(&rig).kick_skips >= 1, "not skipped");
	rig_wait_cached(&rig, 0);
	atomic_store(&rig.file->m->kicking, false);
	rig_check_store(&rig, 1 << 20, 0, 1);
	rig_down(&rig);
}

/* R9: one bio takes what is to be dropped and what is to stay. */
static void test_r9_mixed_bio(void **state)
{
	struct rig rig;

	(void)state;
	guard(60);
	rig_up_kick(&rig, DBH_KICK_FLUSHER);
	rig_write(&rig, 65536, 0, 1, DBH_DONTCACHE | DBH_DEFER);
	rig_write(&rig, 65536, 65536, 1, 0);
	rig_write(&rig, 65536, 131072, 1, DBH_DONTCACHE | DBH_DEFER);
	CHECK_OK(dbh_fdatasync(rig.file));
	CHECK_IS(atomic_load(&rig.spy->bios[BIO_WRITE]), 1);
	CHECK_IS(rig_residency(&rig).cached, 16);
	rig_read(&rig, 65536, 65536, 1, 0);
	CHECK_IS(rig_reads(&rig), 0);
	rig_down(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_r6_stable_writes_never_kick),
		cmocka_unit_test(test_r11_kick_rounds),
		cmocka_unit_test(test_r11_inline),
		cmocka_unit_test(test_r11_inline_skips),
		cmocka_unit_test(test_r9_mixed_bio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

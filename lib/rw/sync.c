// SPDX-License-Identifier: MIT
/*
 * sync: data to the store, and one flush for all who wait (R14).
 *
 * Whoever syncs joins the group of its mapping. If nobody leads, it leads: it
 * takes all who wait, writes their ranges together, in large bios, flushes
 * once, and tells them. Who comes meanwhile waits for the next round, since
 * its data may not have been complete when the flush began. A leader leads one
 * round; then the first of those who wait by then leads.
 *
 * Writers that sync in a loop would fall into two halves, each writing while
 * the other's round is under way. So a leader waits a part of a round's time
 * for those of the last round to come back: one round then serves all, and
 * their blocks go to disk whole. For the same reason those who are a little
 * ahead of the others wait for them: a range that the round leaves out has not
 * been written yet, so that its waiter is none that the flush could serve.
 *
 * models/group_commit.pml checks the group, hide.pml what it may not see.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "mm/writeback.h"
#include "rw/owner.h"
#include "rw/rw.h"

/* Waiting for the others: so many times what a round takes, and at most so
 * long. Who comes too late is a record behind from then on, and the blocks
 * between are written twice: it pays to wait. */
#define GATHER_NS_MAX (2000 * 1000ull)
#define GATHER_ROUNDS 4
/* After waiting in vain, so many rounds more go without, doubled each time. */
#define GATHER_SKIP_MAX 64u

/* Who is ahead of the first by up to so many times what is synced together waits
 * for it, in so many rounds one after the other; then not for so many. */
#define HOLD_NEAR 4u
#define HOLD_ROUNDS 16u
#define HOLD_SKIP 256u

/**
 * struct sync_waiter - one who syncs; on its stack
 * @first, @last: pages; @pos, @bytes: what its caller asked for
 * @lead: it was woken to lead; set before that wake
 */
struct sync_waiter {
	struct list_head link;
	pgoff_t first, last;
	uint64_t pos, bytes;
	bool datasync;
	bool lead;
	int err;
	struct thread_waiter tw;
};

int file_check_error(struct dbh_file *file)
{
	return errseq_check_and_advance(&file->m->wb_err, &file->err_since);
}

/* ---- data ------------------------------------------------------------ */

/* What is known goes to the store. The block that holds the end of the file is
 * left out and written last; if the file has grown past it meanwhile, it is an
 * ordinary one, and missing: then once more. */
static int write_known(struct mapping *m, pgoff_t first, pgoff_t last)
{
	uint32_t fails = atomic_load(&m->wb_fails);
	struct batch batch;
	uint64_t left, wrote;
	int err;

	do {
		batch_init(&batch);
		left = writeback_range(m, first, last, WRITEBACK_ALL, &batch);
		err = batch_wait(&batch);
		writeback_wait(m, first, last);
		/* What the flusher had in flight is not in the batch. Not
		 * wb_err: that is set before the folio is dirty again, and who
		 * comes between finds neither. */
		if (!err && atomic_load(&m->wb_fails) != fails)
			err = -(int)(errseq_sample(&m->wb_err) & ERRSEQ_ERRNO);
		wrote = left;
		if (left != NO_TAIL && !err)
			err = writeback_tail(m, &wrote);
	} while (wrote != left && !err);
	return err;
}

static int write_range(struct mapping *m, pgoff_t first, pgoff_t last)
{
	struct batch batch;
	int err, res;

	batch_init(&batch);
	fill_range(m, first, last, &batch);
	err = batch_wait(&batch);
	res = write_known(m, first, last);
	return err ? err : res;
}

/* The ranges of a round, in ascending order, joined where they touch. */
static int write_round(struct mapping *m, struct list_head *round)
{
	struct list_head *pos;
	int err = 0;

	for (pos = round->next; pos != round;) {
		struct sync_waiter *sw =
			list_entry(pos, struct sync_waiter, link);
		pgoff_t first = sw->first, last = sw->last;
		int res;

		for (pos = pos->next; pos != round; pos = pos->next) {
			sw = list_entry(pos, struct sync_waiter, link);
			if (sw->first > last + 1 && last != UINT64_MAX)
				break;
			last = MAX(last, sw->last);
		}
		res = write_range(m, first, last);
		err = err ? err : res;
	}
	return err;
}

/*
 * A truncate or fallocate hides from us what it is about to change, until the
 * store knows. If it succeeds, the flush must come after it: else neither the
 * data nor the change would be durable. And what was left out because it was
 * hidden is written now, with nothing of the kind beside it.
 */
static int write_all_of_round(struct mapping *m, struct list_head *round)
{
	uint32_t seq = atomic_load(&m->hide_seq);
	int slot, err = write_round(m, round);

	if (likely(!(seq & 1) && seq == atomic_load(&m->hide_seq)))
		return err;
	slot = mapping_lock_shared(m);
	if (!err)
		err = write_round(m, round);
	iolock_unshared(&m->io_lock, slot);
	return err;
}

/* ---- the group ------------------------------------------------------- */

static int flush(struct mapping *m, bool datasync, unsigned waiters)
{
	uint64_t start = clock_ns();
	int err = m->store->ops->flush(m->store, datasync);

	flush_acct(m, waiters, err, clock_ns() - start);
	if (err) {
		/* What was written since the last good flush may be gone, and
		 * the kernel would not say so again (R15). */
		atomic_store(&m->flush_failed, true);
		errseq_set(&m->wb_err, err);
	}
	return atomic_load(&m->flush_failed) ? -EIO : 0;
}

/* Wait for those who are likely to come at once; g->lock is held. */
static void gather_locked(struct sync_group *g)
{
	uint64_t ns = MIN(g->round_ns * GATHER_ROUNDS, GATHER_NS_MAX);
	uint64_t end;

	assert_held(&g->lock);
	if (g->nr >= g->expected)
		return;
	if (g->skip) {
		g->skip--;
		return;
	}
	g->gathering = true;
	for (end = clock_ns() + ns; g->nr < g->expected;) {
		uint64_t now = clock_ns();

		if (now >= end)
			break;
		mutex_unlock(&g->lock);
		event_wait(&g->gathered, end - now);
		mutex_lock(&g->lock);
	}
	g->gathering = false;
	/* A few may come late; if most do not come, they have other work. */
	if (g->nr < g->expected / 2 + 1) {
		g->in_vain = MIN(g->in_vain * 2 + 1, GATHER_SKIP_MAX);
		g->skip = g->in_vain;
	} else {
		g->in_vain = 0;
	}
}

/* Into ascending order: they come nearly so. */
static void sort_round(struct list_head *round)
{
	struct list_head *pos, sorted, *tmp;

	list_init(&sorted);
	list_for_each_safe(pos, tmp, round) {
		struct sync_waiter *sw =
			list_entry(pos, struct sync_waiter, link);
		struct list_head *at = sorted.prev;

		list_del(pos);
		while (at != &sorted &&
		       list_entry(at, struct sync_waiter, link)->pos > sw->pos)
			at = at->prev;
		list_add(pos, at);
	}
	list_splice_tail(&sorted, round);
}

/* What a round would be in one piece, in bytes; 0 if it is not of that kind:
 * fewer than half of its ranges go on where another ends. */
static uint64_t round_bytes(struct list_head *round)
{
	struct list_head *pos;
	uint64_t bytes = 0, end = UINT64_MAX;
	unsigned nr = 0, touching = 0;

	list_for_each(pos, round) {
		struct sync_waiter *sw =
			list_entry(pos, struct sync_waiter, link);

		touching += sw->pos <= end && end != UINT64_MAX;
		end = sw->pos + sw->bytes;
		bytes += sw->bytes;
		nr++;
	}
	return touching >= nr / 2 ? bytes : 0;
}

/*
 * Whoever is a round or a few ahead of the others waits for them, once or a few
 * times: from then on the ranges of a round lie side by side, and make few
 * bios with whole blocks. Writers who write far from each other are left
 * alone; and if it goes on round after round it is in vain. The one who leads
 * stays.
 */
static void hold_ahead(struct sync_group *g, struct list_head *round,
		       const struct sync_waiter *leader)
{
	uint64_t start = list_first_entry(round, struct sync_waiter, link)->pos;
	uint64_t bytes = round_bytes(round);
	struct list_head *pos, *tmp, held;
	unsigned nr = 0;

	list_init(&held);
	if (g->hold_skip) {
		g->hold_skip--;
		return;
	}
	list_for_each_safe(pos, tmp, round) {
		struct sync_waiter *sw =
			list_entry(pos, struct sync_waiter, link);

		if (sw->pos - start < bytes ||
		    sw->pos - start >= bytes * HOLD_NEAR || sw == leader)
			continue;
		list_del(pos);
		list_add_tail(pos, &held);
		nr++;
	}
	g->holding = nr ? g->holding + 1 : 0;
	if (g->holding > HOLD_ROUNDS) {
		g->holding = 0;
		g->hold_skip = HOLD_SKIP;
	}
	mutex_lock(&g->lock);
	/* Before those who have come meanwhile. */
	list_splice_tail(&g->waiting, &held);
	list_splice_tail(&held, &g->waiting);
	g->nr += nr;
	mutex_unlock(&g->lock);
}

/* Take all who wait, but those who are told to wait for the others. Return: how
 * many. */
static unsigned take_round(struct mapping *m, struct list_head *round,
			   const struct sync_waiter *leader, bool *datasync)
{
	struct sync_group *g = &m->sync;
	struct list_head *pos;
	unsigned nr = 0;

	list_init(round);
	mutex_lock(&g->lock);
	gather_locked(g);
	list_splice_tail(&g->waiting, round);
	g->nr = 0;
	mutex_unlock(&g->lock);
	sort_round(round);
	hold_ahead(g, round, leader);
	list_for_each(pos, round)
		nr++;
	*datasync = true;
	list_for_each(pos, round)
		*datasync &=
			list_entry(pos, struct sync_waiter, link)->datasync;
	return nr;
}

static void tell(struct sync_waiter *sw)
{
	sw->tw.w.wake(&sw->tw.w);
}

static void lead_round(struct mapping *m, const struct sync_waiter *leader)
{
	struct sync_group *g = &m->sync;
	struct list_head round, *pos, *tmp;
	struct sync_waiter *next = NULL;
	uint64_t start;
	unsigned nr;
	bool datasync;
	int err, res;

	nr = take_round(m, &round, leader, &datasync);
	start = clock_ns();
	err = write_all_of_round(m, &round);
	res = flush(m, datasync, nr);
	err = err ? err : res;

	mutex_lock(&g->lock);
	g->round_ns = clock_ns() - start;
	g->expected = nr + g->nr;
	if (list_empty(&g->waiting)) {
		g->leader = false;
	} else {
		next = list_first_entry(&g->waiting, struct sync_waiter, link);
		next->lead = true;
	}
	mutex_unlock(&g->lock);
	list_for_each_safe(pos, tmp, &round) {
		struct sync_waiter *sw =
			list_entry(pos, struct sync_waiter, link);

		list_del(pos);
		sw->err = err;
		tell(sw);
	}
	if (next)
		tell(next);
}

static int sync_group(struct mapping *m, uint64_t first_byte,
		      uint64_t last_byte, bool datasync)
{
	struct sync_group *g = &m->sync;
	struct sync_waiter sw = {
		.first = first_page(m, first_byte),
		.last = last_page(m, last_byte),
		.pos = first_byte,
		/* Of a whole file more than anybody writes at a time. */
		.bytes = MIN(last_byte - first_byte, (uint64_t)INT32_MAX) + 1,
		.datasync = datasync,
	};
	bool lead;

	thread_waiter_init(&sw.tw);
	mutex_lock(&g->lock);
	list_add_tail(&sw.link, &g->waiting);
	g->nr++;
	lead = !g->leader;
	g->leader = true;
	if (g->gathering && g->nr >= g->expected)
		event_set(&g->gathered);
	mutex_unlock(&g->lock);
	if (!lead) {
		thread_waiter_sleep(&sw.tw);
		if (!sw.lead)
			return sw.err;
	}
	lead_round(m, &sw);
	/* The round that it led had itself in it. */
	thread_waiter_sleep(&sw.tw);
	return sw.err;
}

int file_sync(struct dbh_file *file, uint64_t first_byte, uint64_t last_byte,
	      bool datasync)
{
	struct mapping *m = file->m;
	uint64_t start;
	int err, news;

	if (!m->store->writable) {
		owner_revalidate(m);
		return file_check_error(file);
	}
	start = clock_ns();
	err = sync_group(m, first_byte, last_byte, datasync);
	hist_record(&m->engine->stats.latency[LATENCY_SYNC],
		    clock_ns() - start);
	owner_revalidate(m);
	news = file_check_error(file);
	paranoid_recount(m->engine);
	return err ? err : news;
}

int mapping_write_all(struct mapping *m)
{
	return mapping_write_bytes(m, 0, UINT64_MAX);
}

int mapping_write_known(struct mapping *m)
{
	return write_known(m, 0, UINT64_MAX >> PAGE_SHIFT);
}

int mapping_write_bytes(struct mapping *m, uint64_t first_byte,
			uint64_t last_byte)
{
	if (!m->store->writable)
		return 0;
	return write_range(m, first_page(m, first_byte),
			   last_page(m, last_byte));
}

// SPDX-License-Identifier: MIT
/*
 * group_commit: one flush for all who wait (R14).
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
 * their blocks go to disk whole. Who comes last leads then, for it is awake,
 * and whoever waited becomes one of the others. For the same reason those who
 * are a little ahead of the others wait for them: a range that the round
 * leaves out has not been written yet, so that its waiter is none that the
 * flush could serve.
 *
 * All sleep on one word, group->turns, which changes with every turn; by the
 * bits of a futex a single wake reaches those of the round that has ended, and
 * the next leader. Nobody touches a waiter once its turn is DONE: it is on the
 * stack of a thread that may run on.
 *
 * models/group_commit.pml checks the group, turns.pml the futex, and hide.pml what
 * a round may not see.
 */
#include "rw/group_commit.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "mm/writeback.h"
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

enum turn {
	TURN_WAIT,
	TURN_LEAD,
	TURN_DONE,
};

/**
 * struct sync_waiter - one who syncs; on its stack
 * @first, @last: pages; @pos, @bytes: what its caller asked for
 * @turn: enum turn; atomic. From WAIT by the leader; @err is set before.
 * @bits: of its futex: of the round that it expects to be in, and its own
 * @held: it was held back, so that it is in a later one; the leaders'
 */
struct sync_waiter {
	struct list_head link;
	pgoff_t first, last;
	uint64_t pos, bytes;
	bool datasync;
	_Atomic uint32_t turn;
	uint32_t bits;
	bool held;
	int err;
};

/* ---- turns ----------------------------------------------------------- */

/* Rounds follow each other: two bits tell them apart. The others are dealt out
 * to waiters, for the one that is to lead. */
#define TURN_ROUND_BITS 2u
#define TURN_OWN_BITS (32u - TURN_ROUND_BITS)
#define TURN_ANY UINT32_MAX

static uint32_t round_bit(uint32_t round)
{
	return 1u << (round % TURN_ROUND_BITS);
}

static void turn_deal_locked(struct sync_group *g, struct sync_waiter *sw)
{
	assert_held(&g->lock);
	sw->bits = round_bit(g->round) |
		   1u << (TURN_ROUND_BITS + g->dealt++ % TURN_OWN_BITS);
}

static enum turn turn_wait(struct sync_group *g, struct sync_waiter *sw)
{
	for (;;) {
		uint32_t seen = atomic_load(&g->turns), turn;

		turn = atomic_load(&sw->turn);
		if (turn != TURN_WAIT)
			return turn;
		futex_wait_bits(&g->turns, seen, sw->bits);
	}
}

/* Turns were set. */
static void turn_wake(struct sync_group *g, uint32_t bits)
{
	atomic_fetch_add(&g->turns, 1);
	futex_wake_bits(&g->turns, bits);
}

/* ---- data ------------------------------------------------------------ */

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
		res = mapping_write_range(m, first, last);
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

/* Wait for those who are likely to come at once. Return: false: one of them
 * leads instead. */
static bool gather_locked(struct sync_group *g, struct sync_waiter *sw)
{
	uint64_t ns = MIN(g->round_ns * GATHER_ROUNDS, GATHER_NS_MAX);
	uint64_t end;

	assert_held(&g->lock);
	if (g->nr >= g->expected)
		return true;
	if (g->skip) {
		g->skip--;
		return true;
	}
	g->gatherer = sw;
	for (end = clock_ns() + ns; g->nr < g->expected;) {
		uint32_t seen = atomic_load(&g->turns);
		uint64_t now = clock_ns();

		if (now >= end)
			break;
		mutex_unlock(&g->lock);
		futex_wait(&g->turns, seen, end - now);
		mutex_lock(&g->lock);
		if (g->gatherer != sw)
			return false;
	}
	g->gatherer = NULL;
	/* A few may come late; if most do not come, they have other work. */
	if (g->nr < g->expected / 2 + 1) {
		g->in_vain = MIN(g->in_vain * 2 + 1, GATHER_SKIP_MAX);
		g->skip = g->in_vain;
	} else {
		g->in_vain = 0;
	}
	return true;
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
		sw->held = true;
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
 * many; 0: another one leads. */
static unsigned take_round(struct mapping *m, struct list_head *round,
			   struct sync_waiter *leader, bool *datasync)
{
	struct sync_group *g = &m->sync;
	struct list_head *pos;
	unsigned nr = 0;

	list_init(round);
	mutex_lock(&g->lock);
	if (!gather_locked(g, leader)) {
		mutex_unlock(&g->lock);
		return 0;
	}
	list_splice_tail(&g->waiting, round);
	g->nr = 0;
	g->round++;
	mutex_unlock(&g->lock);
	sort_round(round);
	hold_ahead(g, round, leader);
	*datasync = true;
	list_for_each(pos, round) {
		*datasync &=
			list_entry(pos, struct sync_waiter, link)->datasync;
		nr++;
	}
	return nr;
}

/* The round is over: who leads next? Return: its bits, or 0. */
static uint32_t hand_over(struct sync_group *g, unsigned nr, uint64_t round_ns)
{
	struct sync_waiter *next;
	uint32_t bits = 0;

	mutex_lock(&g->lock);
	g->round_ns = round_ns;
	g->expected = nr + g->nr;
	if (list_empty(&g->waiting)) {
		g->leader = false;
	} else {
		next = list_first_entry(&g->waiting, struct sync_waiter, link);
		bits = next->bits;
		atomic_store(&next->turn, TURN_LEAD);
	}
	mutex_unlock(&g->lock);
	return bits;
}

/* Return: whom to wake, as bits. */
static uint32_t tell_round(struct list_head *round, uint32_t number, int err)
{
	uint32_t bits = round_bit(number);
	struct list_head *pos, *tmp;

	list_for_each_safe(pos, tmp, round) {
		struct sync_waiter *sw =
			list_entry(pos, struct sync_waiter, link);

		list_del(pos);
		/* It sleeps for another round, if it does. */
		if (sw->held)
			bits = TURN_ANY;
		sw->err = err;
		atomic_store(&sw->turn, TURN_DONE);
	}
	return bits;
}

static void lead_round(struct mapping *m, struct sync_waiter *leader)
{
	struct sync_group *g = &m->sync;
	uint32_t number, bits, next;
	struct list_head round;
	uint64_t start;
	unsigned nr;
	bool datasync;
	int err, res;

	nr = take_round(m, &round, leader, &datasync);
	if (!nr)
		return;
	number = g->round - 1; /* the leader's to change */
	start = clock_ns();
	err = write_all_of_round(m, &round);
	res = flush(m, datasync, nr);
	next = hand_over(g, nr, clock_ns() - start);
	bits = tell_round(&round, number, err ? err : res);
	if (nr > 1 || next)
		turn_wake(g, bits | next);
}

int group_commit(struct mapping *m, uint64_t first_byte, uint64_t last_byte,
		 bool datasync)
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

	atomic_init(&sw.turn, TURN_WAIT);
	mutex_lock(&g->lock);
	list_add_tail(&sw.link, &g->waiting);
	g->nr++;
	turn_deal_locked(g, &sw);
	lead = !g->leader;
	g->leader = true;
	if (g->gatherer && g->nr >= g->expected) {
		/* It is awake; the other one becomes one of those who wait. */
		g->gatherer = NULL;
		g->in_vain = 0;
		lead = true;
	}
	mutex_unlock(&g->lock);
	while (lead || turn_wait(g, &sw) == TURN_LEAD) {
		atomic_store(&sw.turn, TURN_WAIT);
		/* With itself in the round; or somebody else leads. */
		lead_round(m, &sw);
		lead = false;
	}
	return sw.err;
}

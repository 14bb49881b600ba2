/* SPDX-License-Identifier: MIT */
/*
 * accounting: the counters of dirty and dontcache-dirty pages, against
 * writers, marking, clearing of marks, writeback, its errors, and truncate.
 * R10, R12.
 *
 * What is shown of every interleaving, at every moment at which nobody is
 * inside folio_change() (as paranoid_recount() sees it):
 *  - DONTCACHE_DIRTY is the number of folios that are dirty and dropbehind;
 *    DIRTY and WRITEBACK likewise;
 *  - the tags of the nodes say what the flags say;
 *  - nr_dirty is the number of folios that are dirty, under writeback, or paid
 *    for by a writer (CHARGED), and is never over the limit;
 *  - the mapping is on b_dirty exactly while it has dirty pages.
 *
 * Two folios of one mapping, in one node or in two; threads that each do, over
 * and over, any of the things that are done to a folio. All of them lock it
 * first. There is one who comes without its lock, and holds the node's: the
 * collector; it only tries, and goes on if it fails. A dirtier that changes
 * flags without the folio's lock is refused (BROKEN_FREE_DIRTIER), though it
 * holds the node's: a writer's change of CHARGED, under the folio's lock
 * alone, would undo its own.
 *
 * The check must refuse these:
 *   BROKEN_V7 (assertion violated): the counter of the kernel series' v7: who
 *	marks looks whether the folio is dirty, who dirties or cleans it looks
 *	whether it is marked, and nothing keeps them apart: counted twice, or
 *	never again subtracted
 *   BROKEN_FREE_DIRTIER (assertion violated): see above
 *   BROKEN_NODE_LOCK (assertion violated): folio_change() without node->lock
 *   BROKEN_PLAIN_COUNTER (assertion violated): the counters are no atomics
 *   BROKEN_CHARGE (assertion violated): a folio that was paid for is paid for
 *	again when it becomes dirty
 *   BROKEN_LIMIT (assertion violated): the limit is looked at first, and then
 *	added to
 *   BROKEN_B_DIRTY (assertion violated): mapping_dirty_mod() does not look again
 *	under list_lock
 */
#if SCALE == 0
#define NR_THREADS 2
#else
#define NR_THREADS 3
#endif
#define NR_FOLIOS 2

/* enum folio_flags */
#define DIRTY 1
#define WRITEBACK 2
#define DROPBEHIND 4
#define CHARGED 8
#define ACCOUNTED (DIRTY | WRITEBACK | DROPBEHIND)

byte flags[NR_FOLIOS];
bit folio_locked[NR_FOLIOS];
bit present[NR_FOLIOS];

/* struct node: its tags are words, a bit of them for each folio. */
typedef NODE {
	bit lock;
	byte dirty, writeback, dropbehind;
}

NODE nodes[2];
bit node_of[NR_FOLIOS]; /* one of them for both, or each its own */
#define node(f) nodes[node_of[f]]

/* Counters: atomics */
short stat_dirty, stat_writeback, stat_dontcache; /* wb->stat */
short nr_dirty; /* engine->nr_dirty */
short mapping_nr_dirty;
byte limit; /* of nr_dirty: 1, so that one of two writers waits, or 2 */
bit on_b_dirty; /* under wb->list_lock: its holds are steps */

byte inside; /* ghost: threads that are changing something */

#define has(f, flag) ((flags[f] & (flag)) != 0)
#define tagged(tag, f) ((node(f).tag >> (f)) & 1)
#define sum(what) (what(0) + what(1))
#define is_dirty(f) (has(f, DIRTY) -> 1 : 0)
#define is_writeback(f) (has(f, WRITEBACK) -> 1 : 0)
#define is_dontcache(f) ((flags[f] & (DIRTY | DROPBEHIND)) == \
			 (DIRTY | DROPBEHIND) -> 1 : 0)
#define is_busy(f) (has(f, DIRTY | WRITEBACK) -> 1 : 0)
#define is_paid(f) (has(f, DIRTY | WRITEBACK | CHARGED) -> 1 : 0)
#define tags_agree(f) (tagged(dirty, f) == is_dirty(f) && \
		       tagged(writeback, f) == is_writeback(f) && \
		       tagged(dropbehind, f) == \
			       (has(f, DROPBEHIND) -> 1 : 0))

/* paranoid_recount() */
inline recount()
{
	if
	:: inside == 0 ->
		assert(stat_dontcache == sum(is_dontcache));
#ifndef BROKEN_V7 /* which has no more than this counter */
		assert(stat_dirty == sum(is_dirty));
		assert(stat_writeback == sum(is_writeback));
		assert(tags_agree(0) && tags_agree(1));
		assert(nr_dirty == sum(is_paid) && nr_dirty <= limit);
		assert(mapping_nr_dirty == sum(is_busy));
		assert(on_b_dirty == (mapping_nr_dirty > 0));
#endif
	:: else
	fi
}

inline enter()
{
	inside++;
}

inline leave()
{
	atomic { inside--; recount(); }
}

/* ---- locks ------------------------------------------------------------- */

inline folio_lock(f)
{
	atomic { !folio_locked[f] -> folio_locked[f] = 1; }
}

inline folio_unlock(f)
{
	folio_locked[f] = 0;
}

#if defined(BROKEN_NODE_LOCK) || defined(BROKEN_V7)
#define node_lock(f) skip
#define node_unlock(f) skip
#else
inline node_lock(f)
{
	atomic { !node(f).lock -> node(f).lock = 1; }
}

inline node_unlock(f)
{
	node(f).lock = 0;
}
#endif

/* ---- backing_dev.c ----------------------------------------------------- */

/* tag_mod(): a word that other folios share */
inline tag_mod(tag, f, set)
{
	word = tag;
	d_step {
		tag = (set -> word | (1 << f) : word & ~(1 << f));
		word = 0;
	}
}

/* wb_stat_mod() */
inline stat_mod(counter, diff)
{
#ifdef BROKEN_PLAIN_COUNTER
	was = counter;
	counter = was + diff;
	was = 0;
#else
	counter = counter + diff;
#endif
}

/* mapping_dirty_mod() */
inline mapping_dirty_mod(diff)
{
	d_step {
		was = mapping_nr_dirty; /* atomic_fetch_add() */
		mapping_nr_dirty = mapping_nr_dirty + diff;
	}
	if
	:: was && was + diff
	:: else ->
		d_step {
			/* under list_lock; list_del() does no harm to what is
			 * on no list */
#ifdef BROKEN_B_DIRTY
			on_b_dirty = (was == 0 -> 1 : 0);
#else
			on_b_dirty = (mapping_nr_dirty -> 1 : 0);
#endif
		}
	fi;
	was = 0;
}

/* busy_mod() */
inline busy_mod(f, busy)
{
	if
#ifdef BROKEN_CHARGE
	:: busy -> flags[f] = flags[f] & ~CHARGED; nr_dirty++;
#else
	:: busy && has(f, CHARGED) -> flags[f] = flags[f] & ~CHARGED;
	:: busy && !has(f, CHARGED) -> nr_dirty++;
#endif
	:: !busy -> nr_dirty--;
	fi;
	if
	:: busy -> mapping_dirty_mod(1);
	:: else -> mapping_dirty_mod(-1);
	fi
}

/* The kernel's bits are atomics of their own; the counter follows. */
inline v7_change(f, set, clear)
{
	enter();
	if
	:: (set) & ~flags[f] & DROPBEHIND ->
		/* folio_mark_dropbehind() */
		flags[f] = flags[f] | DROPBEHIND;
		if
		:: has(f, DIRTY) -> stat_dontcache++;
		:: else
		fi;
	:: else
	fi;
	if
	:: (set) & ~flags[f] & DIRTY ->
		/* folio_account_dirtied() */
		flags[f] = flags[f] | DIRTY;
		if
		:: has(f, DROPBEHIND) -> stat_dontcache++;
		:: else
		fi;
	:: else
	fi;
	if
	:: (clear) & flags[f] & DIRTY ->
		/* folio_clear_dirty_for_io() */
		flags[f] = flags[f] & ~DIRTY;
		if
		:: has(f, DROPBEHIND) -> stat_dontcache--;
		:: else
		fi;
	:: else
	fi;
	if
	:: (clear) & flags[f] & DROPBEHIND ->
		flags[f] = flags[f] & ~DROPBEHIND;
		if
		:: has(f, DIRTY) -> stat_dontcache--;
		:: else
		fi;
	:: else
	fi;
	flags[f] = (flags[f] | ((set) & WRITEBACK)) & ~((clear) & WRITEBACK);
	leave();
}

#define dropping(x) (((x) & (DIRTY | DROPBEHIND)) == (DIRTY | DROPBEHIND))
#define busy_in(x) (((x) & (DIRTY | WRITEBACK)) != 0)

/* folio_change(); the node is locked, and the folio. */
inline folio_change(f, set, clear)
{
#ifdef BROKEN_V7
	v7_change(f, set, clear);
#else
	atomic { enter(); old = flags[f]; }
	d_step {
		new = (old | (set)) & ~(clear);
		assert((new & (DIRTY | WRITEBACK)) != (DIRTY | WRITEBACK));
		flags[f] = new;
	}
	if
	:: (old ^ new) & DIRTY ->
		tag_mod(node(f).dirty, f, new & DIRTY);
		stat_mod(stat_dirty, ((new & DIRTY) -> 1 : -1));
	:: else
	fi;
	if
	:: (old ^ new) & WRITEBACK ->
		tag_mod(node(f).writeback, f, new & WRITEBACK);
		stat_mod(stat_writeback, ((new & WRITEBACK) -> 1 : -1));
	:: else
	fi;
	if
	:: (old ^ new) & DROPBEHIND ->
		tag_mod(node(f).dropbehind, f, new & DROPBEHIND);
	:: else
	fi;
	if
	:: !dropping(old) && dropping(new) -> stat_mod(stat_dontcache, 1);
	:: dropping(old) && !dropping(new) -> stat_mod(stat_dontcache, -1);
	:: else
	fi;
	if
	:: busy_in(old) != busy_in(new) -> busy_mod(f, busy_in(new));
	:: else
	fi;
	leave(); 
	old = 0;
	new = 0;
#endif
}

/* folio_change_flags() */
inline folio_change_flags(f, set, clear)
{
	node_lock(f);
	folio_change(f, set, clear);
	node_unlock(f);
}

/* f->flags |= CHARGED: a change under the folio's lock alone */
inline set_charged(f)
{
	old = flags[f];
	flags[f] = old | CHARGED;
	old = 0;
}

inline clear_charged(f)
{
	old = flags[f];
	flags[f] = old & ~CHARGED;
	old = 0;
}

/* dirty_charge() of a folio that is neither dirty nor charged */
inline dirty_charge(f, ok)
{
#ifdef BROKEN_V7
	skip; /* it counts nothing else */
#else
	enter();
#ifdef BROKEN_LIMIT
	ok = (nr_dirty < limit);
	if
	:: ok -> nr_dirty++;
	:: else
	fi;
#else
	d_step {
		nr_dirty++; /* atomic_fetch_add() */
		ok = (nr_dirty <= limit);
	}
	if
	:: !ok -> nr_dirty--;
	:: else
	fi;
#endif
	if
	:: ok -> set_charged(f);
	:: else
	fi;
	leave();
#endif
}

/* dirty_uncharge() */
inline dirty_uncharge(f)
{
	if
	:: has(f, CHARGED) ->
		enter();
		clear_charged(f);
		nr_dirty--;
		leave();
	:: else
	fi
}

/* ---- what is done to a folio ------------------------------------------- */

/* folio_remove(): its flags are clear */
inline folio_remove(f)
{
#ifndef BROKEN_V7
	assert(!has(f, ACCOUNTED | CHARGED));
#endif
	present[f] = 0;
}

/* filemap_write_begin(), filemap_write_end() */
inline write(f)
{
	folio_lock(f);
	ok = true;
	if
	:: !present[f] -> present[f] = 1; /* folio_create() */
	:: else
	fi;
	if
	:: has(f, WRITEBACK) -> ok = false; /* wait, and look again */
	:: !has(f, WRITEBACK) && !has(f, DIRTY | CHARGED) ->
		dirty_charge(f, ok);
	:: else
	fi;
	if
	:: ok -> /* whole or completed by an uncached write */
		folio_change_flags(f, DIRTY | DROPBEHIND, 0);
	:: ok -> /* cached, or in part */
		folio_change_flags(f, DIRTY, DROPBEHIND);
	:: ok -> /* nothing was copied */
		dirty_uncharge(f);
	:: !ok
	fi;
	ok = false;
	folio_unlock(f);
}

/* filemap_edge_complete() */
inline mark(f)
{
	folio_lock(f);
	if
	:: present[f] && has(f, DIRTY | WRITEBACK) ->
		folio_change_flags(f, DROPBEHIND, 0);
	:: else
	fi;
	folio_unlock(f);
}

/* folio_mark_accessed() */
inline clear_mark(f)
{
	folio_lock(f);
	if
	:: present[f] && has(f, DROPBEHIND) ->
		folio_change_flags(f, 0, DROPBEHIND);
	:: else
	fi;
	folio_unlock(f);
}

/* collect_folio(): the node is locked, the folio tried. */
inline collect(f)
{
	node_lock(f);
	if
	:: atomic { !folio_locked[f] -> folio_locked[f] = 1; }
		if
		:: present[f] && has(f, DIRTY) ->
			folio_change(f, WRITEBACK, DIRTY);
		:: else
		fi;
		folio_unlock(f);
	:: folio_locked[f]
	fi;
	node_unlock(f);
}

/* folio_end_writeback(): only a folio under writeback has an end to come, and
 * one of it. */
inline end_writeback(f)
{
	folio_lock(f);
	if
	:: has(f, WRITEBACK) ->
		node_lock(f);
		if
		:: true -> /* it has failed */
			folio_change(f, DIRTY, WRITEBACK);
		:: has(f, DROPBEHIND) ->
			folio_change(f, 0, WRITEBACK | DROPBEHIND);
			folio_remove(f);
		:: !has(f, DROPBEHIND) ->
			folio_change(f, 0, WRITEBACK);
		fi;
		node_unlock(f);
	:: else
	fi;
	folio_unlock(f);
}

/* truncate_folio(): folio_discard() */
inline discard(f)
{
	folio_lock(f);
	if
	:: present[f] && !has(f, WRITEBACK) ->
		dirty_uncharge(f);
		folio_change_flags(f, 0, ACCOUNTED);
		folio_remove(f);
	:: else
	fi;
	folio_unlock(f);
}

/* A dirtier without the folio's lock */
inline dirty_free(f)
{
	node_lock(f);
	if
	:: present[f] && !has(f, WRITEBACK) && limit > 1 ->
		folio_change(f, DIRTY, 0);
	:: else
	fi;
	node_unlock(f);
}

proctype thread()
{
	byte f, old, new, word;
	short was;
	bool ok;

end:	do
	:: f = (f -> 0 : 1);
	:: write(f);
	:: mark(f);
	:: clear_mark(f);
	:: collect(f);
	:: end_writeback(f);
	:: discard(f);
#if defined(BROKEN_FREE_DIRTIER) || defined(BROKEN_V7)
	:: dirty_free(f);
#endif
	od
}

init {
	if
	:: node_of[1] = 1;
	:: true
	fi;
	select(limit: 1 .. NR_FOLIOS);
	atomic {
		run thread();
		run thread();
#if NR_THREADS > 2
		run thread();
#endif
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * edge: one minimum folio that three uncached writers share, each a third of
 * it, deferred or not; against the flusher, the end of its bios, eviction of
 * edges, a cached reader and reclaim. R1 to R6, R8, R13.
 *
 * What is shown of every interleaving:
 *  - the writer that makes the folio whole marks it, and nobody before (R2);
 *  - it is never dropped while it is incomplete or dirty, and no byte is lost:
 *    what was written last is in the folio, or on disk;
 *  - nothing changes under writeback;
 *  - a cached access keeps it (R3);
 *  - a sync returns when the writer's bytes are on disk;
 *  - once all writers have ended, the deferred ones with edge_complete (R6),
 *    and the flusher has nothing to do, the folio is gone. Only where an
 *    incomplete edge was evicted, or a cached access came, may it be there;
 *  - nobody waits for ever.
 *
 * A step stands for what lib/mm does under one hold of the folio's lock, which
 * others can only see by its lock, its place in the node, and its tags; the
 * comments name the functions. Where a thread sleeps in a wait queue and then
 * looks again, the model waits for what it looks for.
 *
 * Of a reader and eviction, and of writes that fail, only one comes in a run:
 * see `world`.
 *
 * There are two struct folios, since their memory is type-stable: who looked
 * one up and then gets its lock may find that it is not in the mapping any
 * more, or is there again.
 *
 * The check must refuse these:
 *   BROKEN_SECOND_WRITER (assertion violated): the second writer completes, as
 *	in the kernel series: wrong where three share a folio
 *   BROKEN_TOGETHER (assertion violated): a deferred writer finds out whether
 *	it completes the edge when it looks it up: of two that come together
 *	neither does
 *   BROKEN_NO_RECHECK (assertion violated): folio_is() is not asked
 *   BROKEN_UNDER_WRITEBACK (assertion violated): a writer does not wait for it
 *   BROKEN_DROP_DIRTY (assertion violated): edge_complete drops what is dirty
 *   BROKEN_KEEP_MARK (assertion violated): a cached read leaves the mark
 *   BROKEN_FAILS_EARLY (assertion violated): a failed write is counted before
 *	its folio is dirty again: a sync that begins between sees neither
 *   BROKEN_SYNC_SKIPS_LOCKED (assertion violated): a sync does not wait for a
 *	folio that somebody has locked
 */
#define NR_WRITERS 3
#define ALL 7 /* the coverage of a whole folio */
#define NR_FOLIOS 2

/* With a reader, so many writers are deferred at most. */
#if SCALE == 0
#define READER_DEFERRED 0
#elif SCALE == 1
#define READER_DEFERRED 1
#else
#define READER_DEFERRED NR_WRITERS
#endif

#define BIT(i) (1 << (i))

/* enum folio_flags, and what else of struct folio matters here */
typedef FOLIO {
	bit lock;
	bit in; /* folio->mapping */
	bit uptodate;
	bit dirty;
	bit writeback;
	bit dropbehind;
	bit edge;
	bit complete;
	bit cached;
	bit on_edges;
	bit on_lru;
	byte cov; /* coverage: a bit for each third */
	byte data; /* its memory: the thirds that hold what was written */
	byte came; /* ghost: thirds written since it entered the cache */
}

FOLIO F[NR_FOLIOS + 1]; /* 0 is no folio */
bit free[NR_FOLIOS + 1]; /* the pool's */
byte slot; /* node->slot: the folio, 0 if absent */
byte bio; /* the folio of the bio in flight, or 0 */
byte disk; /* as FOLIO.data */

/* Who comes between: one of them, or the states would be too many. Only the
 * largest search has a reader and eviction together. */
mtype = { EVICTION, FAILURE, READER };
mtype world;
byte begun[2]; /* writers that have begun, plain and deferred */

byte written; /* ghost: thirds that were written */
byte writers_done; /* ghost */
bit reader_done; /* ghost */
bit evicted; /* ghost: an incomplete edge was evicted */
bit touched; /* ghost: a cached access came */
bit failed; /* a write has failed; one does at most */
bit wb_fails; /* the same, counted with the folio that is dirty again */

/* ---- what must hold ---------------------------------------------------- */

/* The thirds that are known of a folio: folio_known() */
#define known(f) (F[f].uptodate -> ALL : F[f].cov)

/* Whenever a folio of the mapping is unlocked */
inline check_folio(f)
{
	/* no byte is lost: neither the ones in memory, nor those that a fill
	 * would fetch */
	assert((F[f].data & known(f)) == (written & known(f)));
	assert((disk & ~known(f)) == (written & ~known(f)));
	/* what the store does not have is dirty */
	assert(F[f].dirty || F[f].writeback || F[f].data == disk);
	/* folio.h: what may be set together; folio_change() */
	assert(!(F[f].dirty && F[f].writeback));
	assert(!(F[f].dropbehind && (F[f].edge || F[f].cached)));
	assert(!(F[f].complete && (F[f].edge || F[f].dropbehind ||
				   F[f].cached)));
	assert(F[f].uptodate || (F[f].edge && F[f].dirty));
	/* what nobody has marked is on a list, where it grows old */
	assert(F[f].dropbehind || F[f].on_edges || F[f].on_lru);
	/* exactness */
	assert(!F[f].dropbehind || F[f].came == ALL || evicted);
	assert(F[f].came != ALL || F[f].dropbehind || F[f].complete ||
	       evicted || touched);
}

/* ---- folio.c, pool.c --------------------------------------------------- */

inline folio_lock(f)
{
	atomic { !F[f].lock -> F[f].lock = 1; }
}

/* In a step: the caller has changed what it had to. */
inline folio_unlock(f)
{
	if
	:: F[f].in -> check_folio(f);
	:: else
	fi;
	F[f].lock = 0;
}

/* folio_remove_locked(), and unlocked; pool_free() follows, as a step. */
inline folio_remove(f)
{
	assert(F[f].in && slot == f);
	assert(disk == written);
	assert(!F[f].dirty && !F[f].writeback);
	slot = 0;
	F[f].in = 0;
	F[f].uptodate = 0;
	F[f].dropbehind = 0;
	F[f].edge = 0;
	F[f].complete = 0;
	F[f].cached = 0;
	F[f].on_edges = 0;
	F[f].on_lru = 0;
	F[f].cov = 0;
	F[f].data = 0;
	F[f].came = 0;
	F[f].lock = 0;
}

inline lru_move(f, edges, lru)
{
	F[f].on_edges = edges;
	F[f].on_lru = lru;
}

/* pool_free(), of none too */
inline pool_free(f)
{
	d_step {
		free[f] = (f -> 1 : 0);
		f = 0;
	}
}

/* pool_alloc() and mapping_insert(): f comes back locked, or 0 where one is
 * there. A holder of an old look-up may have it locked. */
#define insertable ((free[1] && !F[1].lock) || (free[2] && !F[2].lock))
inline insert_new(f)
{
	if
	:: slot -> f = 0;
	:: !slot && insertable ->
		f = (free[1] && !F[1].lock -> 1 : 2);
		free[f] = 0;
		slot = f;
		F[f].in = 1;
		F[f].lock = 1;
	fi
}

/* mapping_lookup(), lock, folio_is(): f is locked, or 0: look again. */
inline lock_found(f)
{
	folio_lock(f);
#ifndef BROKEN_NO_RECHECK
	if
	:: !F[f].in -> F[f].lock = 0; f = 0;
	:: else
	fi
#endif
}

/* ---- fill.c ------------------------------------------------------------ */

/* edge_fill() of a locked folio: the read, then merge_gaps(). The folio stays
 * locked all the while, and the block does not change: it is dirty. */
inline edge_fill(f)
{
	assert(F[f].edge && !F[f].uptodate && bio == 0);
	F[f].data = (F[f].data & F[f].cov) | (disk & ~F[f].cov);
	F[f].uptodate = 1;
}

/* ---- writeback.c ------------------------------------------------------- */

/* collect_folio(), of an unlocked folio: its trylock is the guard. All of it
 * is under node->lock. */
#define collectable(f) (F[f].dirty && F[f].uptodate)
inline collect_folio(f)
{
	assert(!bio);
	F[f].dirty = 0;
	F[f].writeback = 1;
	bio = f;
	check_folio(f);
}

/* ---- filemap.c --------------------------------------------------------- */

/* write_done(): third i of a locked folio; its end is folio_unlock(). */
inline write_done(f, i, deferred)
{
	bool completes = false;
	bool had_mark = F[f].dropbehind;

	if
	:: F[f].edge ->
		F[f].cov = F[f].cov | BIT(i);
#ifdef BROKEN_SECOND_WRITER
		completes = true;
#else
		completes = (F[f].cov == ALL);
#endif
		if
		:: completes -> F[f].cov = 0; F[f].edge = 0;
		:: else
		fi;
	:: !F[f].edge && (!F[f].uptodate || !F[f].cached) ->
		F[f].cov = BIT(i);
		F[f].edge = 1;
		F[f].dropbehind = 0;
		F[f].complete = 0;
	:: else
	fi;
	if
	:: completes -> F[f].uptodate = 1;
	:: else
	fi;
	if
	:: completes && !F[f].cached ->
		if
		:: deferred && !had_mark -> F[f].complete = 1;
		:: else -> F[f].complete = 0; F[f].dropbehind = 1;
		fi;
	:: else
	fi;
	F[f].dirty = 1;
	if
	:: F[f].edge || F[f].complete -> lru_move(f, 1, 0);
	:: !F[f].edge && !F[f].complete && F[f].cached -> lru_move(f, 0, 1);
	:: else -> lru_move(f, 0, 0);
	fi;
	completes = false;
	had_mark = false;
}

/* Third i is copied into the folio: request_copy(). */
inline copy(f, i)
{
	F[f].data = F[f].data | BIT(i);
	F[f].came = F[f].came | BIT(i);
	written = written | BIT(i)
}

/* get_folio(): the folio to write into, locked and not under writeback; and
 * the copy into it */
inline write_begin(f, i)
{
	do
	:: f = slot; /* mapping_lookup() */
		atomic {
			if
			:: f == 0 -> insert_new(f); /* folio_create() */
			:: else -> lock_found(f);
			fi;
			if
			:: f == 0
#ifndef BROKEN_UNDER_WRITEBACK
			:: f && F[f].writeback ->
				/* folio_prepare(): it is wanted again */
				if
				:: F[f].dropbehind ->
					F[f].dropbehind = 0;
					lru_move(f, 1, 0);
				:: else
				fi;
				folio_unlock(f);
			:: f && !F[f].writeback -> copy(f, i); break;
#else
			:: f -> copy(f, i); break;
#endif
			fi;
		}
		!F[f].writeback; /* folio_wait_writeback() */
	od
}

/* filemap_edge_complete() */
inline edge_complete(f)
{
	f = slot;
	if
	:: f ->
		atomic {
			folio_lock(f);
			if
			:: !F[f].in || !F[f].complete ->
				folio_unlock(f);
				f = 0;
#ifdef BROKEN_DROP_DIRTY
			:: F[f].in && F[f].complete && !F[f].writeback ->
				folio_remove(f);
#else
			:: F[f].in && F[f].complete && !F[f].dirty &&
			   !F[f].writeback ->
				folio_remove(f);
#endif
			:: else ->
				F[f].complete = 0;
				lru_move(f, 0, 0);
				F[f].dropbehind = 1;
				folio_unlock(f);
				f = 0;
			fi;
		}
		pool_free(f);
	:: else
	fi
}

/* folio_mark_accessed() */
inline mark_accessed(f)
{
	if
	:: F[f].cached
	:: else ->
#ifndef BROKEN_KEEP_MARK
		F[f].dropbehind = 0;
#endif
		F[f].complete = 0;
		F[f].cached = 1;
		touched = 1;
		if
		:: !F[f].edge -> lru_move(f, 0, 1);
		:: else
		fi;
	fi
}

/* ---- sync.c ------------------------------------------------------------ */

/* fill_range(), then write_known() and its waiting */
inline write_range()
{
	atomic {
		/* fill_index() */
		!slot || !F[slot].lock ->
		if
		:: slot && F[slot].dirty && !F[slot].uptodate ->
			edge_fill(slot);
			check_folio(slot);
		:: else
		fi;
	}
	/* writeback_range(WRITEBACK_ALL): what is locked is waited for */
	do
	:: atomic { slot && !F[slot].lock && collectable(slot) ->
		collect_folio(slot); } break;
#ifdef BROKEN_SYNC_SKIPS_LOCKED
	:: slot && F[slot].lock -> break;
#endif
	:: slot && !F[slot].lock && !collectable(slot) -> break;
	:: !slot -> break;
	od;
	/* batch_wait(), writeback_wait() */
	!slot || !F[slot].writeback;
}

/* ---- threads ----------------------------------------------------------- */

/* Writer of third i. Those of a kind begin in the order of their ranks: their
 * thirds are alike, so that one order stands for all. */
proctype writer(byte i; bool deferred; byte rank)
{
	byte f;
	bit mine = 1; /* of the broken variant */
	bit err;

	atomic {
		begun[deferred] == rank -> begun[deferred]++;
#ifdef BROKEN_TOGETHER
		mine = (slot && (F[slot].cov | BIT(i)) == ALL);
#endif
	}
	write_begin(f, i);
	atomic {
		/* filemap_write_end() */
		write_done(f, i, deferred);
		folio_unlock(f);
		f = 0;
	}
	if
	:: deferred ->
#ifdef BROKEN_FAILS_EARLY
		err = failed;
		write_range();
		assert((disk & BIT(i)) || err != failed);
#else
		err = wb_fails;
		write_range();
		assert((disk & BIT(i)) || err != wb_fails);
#endif
		if
		:: mine -> edge_complete(f);
		:: else
		fi;
	:: else
	fi;
	writers_done++;
}

/* A cached read of the whole folio: read_piece() */
proctype reader()
{
	byte f;

	do
	:: slot == 0 ->
		/* read_folios() */
		atomic { insert_new(f); }
		if
		:: f ->
			d_step {
				/* read_done() */
				F[f].data = disk;
				F[f].uptodate = 1;
				F[f].cached = 1;
				touched = 1;
				lru_move(f, 0, 1);
				folio_unlock(f);
				f = 0;
			}
		:: else
		fi;
	:: atomic {
		slot && !F[slot].lock ->
		if
		:: !F[slot].uptodate ->
			/* read_fill() */
			edge_fill(slot);
			check_folio(slot);
		:: else ->
			/* read_folio() */
			assert(F[slot].data == written);
			mark_accessed(slot);
			check_folio(slot);
			break;
		fi;
	   }
	od;
	reader_done = 1;
}

/* flush_uncached(), and flush_dirty() when it likes */
active proctype flusher()
{
end:	do
	:: atomic { slot && !F[slot].lock && collectable(slot) &&
		F[slot].dropbehind -> collect_folio(slot); }
	:: atomic { slot && !F[slot].lock && collectable(slot) &&
		!F[slot].edge -> collect_folio(slot); }
	od
}

/* writeback_end(), in the completion thread. The device has done with the
 * block, or failed, before. */
active proctype completion()
{
	byte f;
	bit err;

end:	do
	:: bio ->
		f = bio;
		if
		:: disk = F[f].data;
		:: world == FAILURE && !failed -> failed = 1; err = 1;
		fi;
		atomic {
			/* folio_end_writeback() */
			folio_lock(f);
			bio = 0;
			F[f].writeback = 0;
			if
			:: err ->
				wb_fails = 1;
				F[f].dirty = 1;
				folio_unlock(f);
				err = 0;
				f = 0;
			:: !err && F[f].dropbehind ->
				assert(!F[f].cached);
				folio_remove(f);
			:: else ->
				folio_unlock(f);
				f = 0;
			fi;
		}
		pool_free(f);
	od
}

/* edges_evict(): for age, pressure, a last close; whenever it likes */
proctype evictor()
{
	byte f;

end:	do
	:: atomic {
		/* edge_take(), evictable() */
		slot && !F[slot].lock && F[slot].on_edges &&
		!F[slot].writeback ->
		f = slot;
		F[f].lock = 1;
		evicted = evicted || F[f].edge;
		/* edge_evict() */
		if
		:: !F[f].dirty && F[f].cached ->
			assert(F[f].uptodate);
			F[f].cov = 0;
			F[f].edge = 0;
			lru_move(f, 0, 1);
			folio_unlock(f);
			f = 0;
		:: !F[f].dirty && !F[f].cached ->
			folio_remove(f);
		:: else ->
			if
			:: !F[f].uptodate -> edge_fill(f);
			:: else
			fi;
			/* evict_filled() */
			F[f].complete = 0;
			F[f].cov = 0;
			F[f].edge = 0;
			lru_move(f, 0, F[f].cached);
			F[f].dropbehind = !F[f].cached;
			folio_unlock(f);
			f = 0;
		fi;
	   }
		pool_free(f);
	od
}

/* reclaim_clean(), of the list of cached folios */
proctype reclaim()
{
	byte f;

end:	do
	:: atomic {
		/* lru_take(), reclaimable() */
		slot && !F[slot].lock && F[slot].on_lru && !F[slot].dirty &&
		!F[slot].writeback && F[slot].uptodate ->
		f = slot;
		folio_remove(f);
	   }
		pool_free(f);
	od
}

/* All is quiet. */
active proctype quiet()
{
	d_step {
		writers_done == NR_WRITERS && reader_done && !bio &&
		!F[1].lock && !F[2].lock &&
		!(slot && F[slot].dirty && F[slot].dropbehind) ->
		assert(slot == 0 || evicted || touched);
		assert(slot || disk == ALL);
	}
}

init {
	byte nr_deferred;

	free[1] = 1;
	free[2] = 1;
	select(nr_deferred: 0 .. NR_WRITERS);
	if
	:: world = EVICTION;
	:: world = FAILURE;
	:: nr_deferred <= READER_DEFERRED -> world = READER;
	fi;
	atomic {
		run writer(0, nr_deferred > 0, 0);
		run writer(1, nr_deferred > 1,
			   (nr_deferred > 1 -> 1 : 1 - nr_deferred));
		run writer(2, nr_deferred > 2,
			   (nr_deferred > 2 -> 2 : 2 - nr_deferred));
		if
		:: world == READER ->
			run reader();
			run reclaim();
#if SCALE > 1
			if
			:: nr_deferred == 1 -> run evictor();
			:: else
			fi;
#endif
		:: world == EVICTION -> run evictor(); reader_done = 1;
		:: else -> reader_done = 1;
		fi;
		nr_deferred = 0;
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * hide: a range of a file is punched while dirty data is over it (R24), as in
 * lib/rw/hide.c and fallocate.c; against the flusher, the writer of the end
 * block, a sync, and a writer that comes beside it.
 *
 * What is shown of every interleaving:
 *  - if the store has done it, the punched bytes are zero on disk and stay so,
 *    in the folio too, while nobody writes there again;
 *  - if it has failed, no byte is lost, in the folio or on disk;
 *  - the bytes beside the range, in the block that it ends in, are never lost;
 *  - when a sync returns, what was written before it is durable, or punched;
 *  - a folio that is clean is what the disk has;
 *  - nobody waits for ever.
 *
 * Two folios: EDGE, of which one half is in the range and one beside it; INNER,
 * all in the range. EDGE holds the end of the file as well, or may do: it is
 * written by the flusher, or as a tail, under size_lock. Writeback takes a copy
 * of the folio when it starts and puts it on disk later; nothing changes it in
 * between, which edge.pml shows.
 *
 * What is under node->lock is one step. The syscall is one, since the file
 * system does it under the lock of its inode; a write is another.
 *
 * The check must refuse these:
 *   BROKEN_NO_HIDE (assertion violated): the range is not hidden
 *   BROKEN_INNER_ONLY (assertion violated): only whole blocks are hidden: that
 *	of which a part changes goes on to the disk
 *   BROKEN_NO_WAIT (assertion violated): what is under writeback is not waited
 *	for
 *   BROKEN_NO_SIZE_LOCK (assertion violated): the block of the end is written
 *	meanwhile
 *   BROKEN_SHOW_FIRST (assertion violated): it is no longer hidden, and then
 *	zeroed
 *   BROKEN_SYNC_LEAVES_OUT (assertion violated): a sync does not come back for
 *	what was hidden
 *   BROKEN_SEQ_LATE (assertion violated): the range is hidden, and then the
 *	count becomes odd
 *   BROKEN_DROPS_FIRST (assertion violated): the folios are dropped before the
 *	store was asked
 */
#define EDGE 0
#define INNER 1

/* What a half holds. INNER has only IN. */
#define OLD 1
#define NEW 2
#define ZERO 3
#define OUT 0
#define IN 1

typedef HALVES {
	byte half[2];
}

HALVES mem[2]; /* the folios' */
HALVES copy[2]; /* in a bio */
HALVES disk[2];
HALVES durable[2];
bit present[2] = 1;
bit dirty[2] = 1;
bit writeback[2];

bit hides[2]; /* mapping_hides() */
byte hide_seq;
bit size_lock;
byte shared; /* io_lock */
bit excl;

bit punched; /* the store has done it */
bit failed; /* or not */

inline mutex_lock(m)
{
	atomic { !m -> m = 1; }
}

#define PUT(to, from, f)                                 \
	to[f].half[OUT] = from[f].half[OUT];              \
	to[f].half[IN] = from[f].half[IN]

/* collect_folio(): one that is dirty and not hidden. */
inline collect(f)
{
	atomic {
		if
		:: present[f] && dirty[f] && !hides[f] ->
			dirty[f] = 0;
			writeback[f] = 1;
			PUT(copy, mem, f);
		:: else
		fi;
	}
}

/* The device, and writeback_end(). Whoever collected does it, or the one that is
 * next: who does is not of interest. */
proctype device(byte f)
{
end:	do
	:: atomic {
		writeback[f] ->
		d_step {
			PUT(disk, copy, f);
			assert(!punched || disk[f].half[IN] == ZERO);
		}
	   }
	   writeback[f] = 0;
	od
}

proctype flusher()
{
	byte n = 0;

end:	do
	:: n < 2 -> n++; collect(EDGE);
	:: n < 2 -> n++; collect(INNER);
	od
}

/* writeback_tail_locked(): it does not ask what is hidden. */
proctype tail_writer()
{
	mutex_lock(size_lock);
	atomic {
		if
		:: present[EDGE] && dirty[EDGE] ->
			dirty[EDGE] = 0;
			writeback[EDGE] = 1;
			PUT(copy, mem, EDGE);
		:: else
		fi;
	}
	!writeback[EDGE];
	size_lock = 0;
}

inline write_round()
{
	collect(EDGE);
	collect(INNER);
	/* writeback_wait() */
	!writeback[EDGE];
	!writeback[INNER];
}

/* write_all_of_round(), flush() */
proctype syncer()
{
	byte seq = hide_seq;

	write_round();
#ifndef BROKEN_SYNC_LEAVES_OUT
	if
	:: !(seq & 1) && seq == hide_seq
	:: else ->
		atomic { !excl -> shared++; }
		write_round();
		shared--;
	fi;
#endif
	d_step {
		PUT(durable, disk, EDGE);
		PUT(durable, disk, INNER);
		assert(durable[EDGE].half[OUT] == NEW);
		assert(durable[EDGE].half[IN] == (punched -> ZERO : NEW));
		assert(durable[INNER].half[IN] == (punched -> ZERO : NEW));
	}
}

/* hide_zero() */
inline zero()
{
	atomic {
		if
		:: present[EDGE] ->
			assert(!writeback[EDGE]);
			mem[EDGE].half[IN] = ZERO;
		:: else
		fi;
	}
	atomic {
		/* folio_discard() */
		assert(!writeback[INNER]);
		dirty[INNER] = 0;
		present[INNER] = 0;
	}
}

inline hide_end()
{
	size_lock = 0;
	hides[EDGE] = 0;
	hides[INNER] = 0;
	hide_seq++;
}

proctype puncher()
{
	/* mapping_lock_alone() */
	atomic { !excl -> excl = 1; }
	shared == 0;
	/* hide_begin() */
#ifndef BROKEN_SEQ_LATE
	hide_seq++;
#endif
#ifndef BROKEN_NO_HIDE
#ifndef BROKEN_INNER_ONLY
	hides[EDGE] = 1;
#endif
	hides[INNER] = 1;
#endif
#ifdef BROKEN_SEQ_LATE
	/* A sync may have come and gone. */
	hide_seq++;
#endif
#ifndef BROKEN_NO_WAIT
	!writeback[EDGE];
	!writeback[INNER];
#endif
#ifndef BROKEN_NO_SIZE_LOCK
	mutex_lock(size_lock);
#endif
#ifdef BROKEN_DROPS_FIRST
	zero();
#endif
	/* store->ops->fallocate() */
	if
	:: d_step {
		punched = 1;
		disk[EDGE].half[IN] = ZERO;
		disk[INNER].half[IN] = ZERO;
	   }
	:: failed = 1;
	fi;
#ifdef BROKEN_SHOW_FIRST
	hide_end();
#endif
#ifndef BROKEN_DROPS_FIRST
	if
	:: punched -> zero();
	:: else
	fi;
#endif
#ifndef BROKEN_SHOW_FIRST
	hide_end();
#endif
	excl = 0;
}

/* It writes the half beside the range once more. */
proctype writer()
{
	atomic { !excl -> shared++; }
	atomic {
		/* filemap_write_begin() waits for writeback. */
		!writeback[EDGE] ->
		present[EDGE] = 1;
		mem[EDGE].half[OUT] = NEW;
		dirty[EDGE] = 1;
	}
	shared--;
}

init {
	byte f;

	atomic {
		for (f : EDGE .. INNER) {
			mem[f].half[OUT] = NEW;
			mem[f].half[IN] = NEW;
			disk[f].half[OUT] = OLD;
			disk[f].half[IN] = OLD;
		}
		f = 0;
		run device(EDGE);
		run device(INNER);
		run flusher();
		run tail_writer();
		run syncer();
		run puncher();
		run writer();
	}
	/* All have ended but those that serve for ever. */
	_nr_pr == 4 && !writeback[EDGE] && !writeback[INNER];
	d_step {
		assert(punched || failed);
		assert(!shared && !excl && !size_lock && !(hide_seq & 1));
		assert(mem[EDGE].half[OUT] == NEW);
		assert(mem[EDGE].half[IN] == (punched -> ZERO : NEW));
		assert(!failed || (present[INNER] && mem[INNER].half[IN] == NEW));
		assert(!punched || !present[INNER]);
		for (f : EDGE .. INNER) {
			if
			:: present[f] && !dirty[f] ->
				assert(disk[f].half[IN] == mem[f].half[IN]);
				assert(f == INNER ||
				       disk[f].half[OUT] == mem[f].half[OUT]);
			:: else
			fi;
		}
		assert(!punched || disk[EDGE].half[IN] == ZERO);
		assert(!punched || disk[INNER].half[IN] == ZERO);
	}
}

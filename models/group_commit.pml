/* SPDX-License-Identifier: MIT */
/*
 * group_commit: one flush for all who sync a mapping (R14), as in
 * lib/rw/group_commit.c: a leader, rounds, gathering with a time-out, in which
 * who comes last takes the lead, the hand-over to the next leader; beside the
 * flusher, which writes what it likes.
 *
 * What is shown of every interleaving:
 *  - no sync returns before its data is durable: its write had ended before the
 *    flush began, and that flush has succeeded; or it returns an error;
 *  - a waiter, which lives on its sleeper's stack, is not touched after that has
 *    returned;
 *  - there is one leader at most, and none while nobody syncs;
 *  - nobody sleeps for ever: no state without a way on (invalid end state); and
 *    each that waits returns in the end, under weak fairness and without luck
 *    of time-outs (the formula `served`);
 *  - nobody gathers on when all have come.
 *
 * What is under g->lock is one step. The lists are arrays of bits: what order they are
 * in does not matter for what is shown, but for the next leader, who is the
 * first: the model takes any.
 *
 * The futex on which all sleep is in turns.pml: here a waiter sees its turn once
 * that is set.
 *
 * The check must refuse these:
 *   BROKEN_LATE_COMERS (assertion violated): the leader also tells those who
 *	came while its flush was under way
 *   BROKEN_TAKE_LATE (assertion violated): the round is taken after its data
 *	was written
 *   BROKEN_FLUSH_FIRST (assertion violated): the flush begins before the
 *	flusher's writes of the range have ended
 *   BROKEN_NO_SUCCESSOR (invalid end state): a leader looks for waiters, and
 *	gives up the lead in a second hold of the lock
 *   BROKEN_LEAD_LATE (invalid end state): the next leader is woken first, and
 *	then told that it leads
 *   BROKEN_TELL_FIRST (assertion violated): a waiter is told before it is off
 *	the list
 *   BROKEN_HOLD_LEADER (assertion violated): the leader itself is held back for
 *	the next round
 *   BROKEN_GATHERED (assertion violated): who comes last leaves the lead to
 *	who gathers
 *   BROKEN_BOTH_LEAD (assertion violated): who comes last leads, and so does
 *	who gathered
 *   BROKEN_LEADS_ON (acceptance cycle): a leader goes on to lead while anybody
 *	waits, and never returns
 *   BROKEN_FORGETS_FAILURE (assertion violated): a failed flush is remembered
 *	by nobody, and the next one succeeds
 */
#if SCALE == 0
#define NR 2
#else
#define NR 3
#endif
#define NOBODY NR

/* The data of each: a page of its own */
mtype = {
	DIRTY,
	WRITEBACK,
	WRITTEN, /* in the device's cache */
	LOST, /* it was there when a flush failed */
	DURABLE
};
mtype data[NR] = DURABLE;

/* struct sync_group */
bit waiting[NR]; /* on g->waiting */
byte nr; /* g->nr */
byte expected;
bit leader;
byte holding; /* g->holding */
#define HOLDS 1 /* HOLD_ROUNDS */
byte gatherer = NOBODY;

/* struct sync_waiter */
bit alive[NR]; /* ghost: its frame is there */
mtype = { WAIT, LEAD, DONE };
mtype turn[NR] = WAIT;
bit err[NR];
#ifdef BROKEN_LEAD_LATE
bit woken[NR];
#endif

bit flush_failed; /* mapping->flush_failed */
bit patient; /* gathering goes on while anything else may happen */
bit failed; /* a flush has failed; one does at most */

byte leading; /* ghost: in lead_round() */
bit syncing[NR]; /* ghost: in sync_group() */

/* Set before the wake: the last time that the leader touches it. */
inline tell(i, what)
{
	assert(alive[i]);
	turn[i] = what;
}

/* gather_locked(): the lock is held, but for the sleep. What decides against
 * gathering (skip, in_vain) is left to chance. */
inline gather(me)
{
	if
	:: true -> /* g->skip, or no time at all */
	:: nr < expected ->
		gatherer = me;
		do
		:: nr < expected && gatherer == me ->
			/* The lock is dropped around the sleep. Its time is up
			 * at any moment; or, if all are patient, when nothing
			 * else can go on. */
			if
			:: gatherer != me -> break;
			:: !patient -> break;
			:: patient && timeout ->
				assert(nr < expected);
				break;
			fi;
		:: else -> break;
		od;
#ifndef BROKEN_BOTH_LEAD
		lost = (gatherer != me);
#endif
		if
		:: gatherer == me -> gatherer = NOBODY;
		:: else
		fi;
	fi
}

/* take_round(): its end */
inline take()
{
	d_step {
		for (j : 0 .. NR - 1) {
			round[j] = round[j] || waiting[j];
			waiting[j] = 0;
		}
		nr = 0;
		j = 0;
	}
}

/* hold_ahead(): some of the round wait for the next one; not for ever. */
inline hold(me)
{
	if
	:: holding < HOLDS ->
		atomic {
			holding++;
			for (j : 0 .. NR - 1) {
				if
#ifndef BROKEN_HOLD_LEADER
				:: round[j] && j != me ->
#else
				:: round[j] ->
#endif
					round[j] = 0;
					waiting[j] = 1;
					nr++;
				:: true
				fi;
			}
			j = 0;
		}
	:: true -> holding = 0;
	fi
}

/* write_round(): those of the round are written, in one batch, and waited for,
 * whoever has begun to write them. */
#define in_flight(k) (round[k] && data[k] == WRITEBACK)
#if NR > 2
#define any_in_flight (in_flight(0) || in_flight(1) || in_flight(2))
#else
#define any_in_flight (in_flight(0) || in_flight(1))
#endif
inline write_round()
{
	d_step {
		/* writeback_range() */
		for (j : 0 .. NR - 1) {
			if
			:: round[j] && data[j] == DIRTY -> data[j] = WRITEBACK;
			:: else
			fi;
		}
		j = 0;
	}
#ifndef BROKEN_FLUSH_FIRST
	!any_in_flight; /* batch_wait(), writeback_wait() */
#endif
}

/* flush(): what is in the device's cache when it begins is durable when it has
 * ended, unless it failed. */
inline flush()
{
	d_step {
		for (j : 0 .. NR - 1) {
			snap[j] = (data[j] == WRITTEN);
		}
		j = 0;
	}
	if
	:: d_step {
		true ->
		for (j : 0 .. NR - 1) {
			if
			:: snap[j] && data[j] == WRITTEN -> data[j] = DURABLE;
			:: else
			fi;
			snap[j] = 0;
		}
		j = 0;
	   }
	   res = flush_failed;
	:: atomic { !failed -> failed = 1; }
	   d_step {
		/* The device has lost what it had, and will not say so again:
		 * the next flush of it succeeds. */
#ifndef BROKEN_FORGETS_FAILURE
		flush_failed = 1;
#endif
		for (j : 0 .. NR - 1) {
			if
			:: snap[j] && data[j] == WRITTEN -> data[j] = LOST;
			:: else
			fi;
			snap[j] = 0;
		}
		j = 0;
		res = 1;
	   }
	fi
}

/* lead_round(), from the round on that was taken */
inline lead_taken(me)
{
	hold(me);
#ifndef BROKEN_LEADS_ON
	assert(round[me]); /* take_round(): 0 means another thing */
#endif
#ifndef BROKEN_TAKE_LATE
	write_round();
#endif
	flush();
#ifdef BROKEN_LATE_COMERS
	take();
#endif
	atomic {
		/* g->lock */
		leading--;
		next = NOBODY;
		if
		:: nr == 0 ->
#ifndef BROKEN_NO_SUCCESSOR
			leader = 0;
#endif
		:: else ->
			if
			:: waiting[0] -> next = 0;
			:: waiting[1] -> next = 1;
#if NR > 2
			:: waiting[2] -> next = 2;
#endif
			fi;
#if !defined(BROKEN_LEAD_LATE) && !defined(BROKEN_LEADS_ON)
			turn[next] = LEAD;
#endif
		fi;
		d_step {
			expected = nr;
			for (j : 0 .. NR - 1) {
				expected = expected + round[j];
			}
			j = 0;
		}
	}
#ifdef BROKEN_NO_SUCCESSOR
	if
	:: next == NOBODY -> leader = 0;
	:: else
	fi;
#endif
	do
	:: j < NR && !round[j] -> j++;
	:: j < NR && round[j] ->
#ifdef BROKEN_TELL_FIRST
		tell(j, DONE);
#endif
		d_step {
			assert(alive[j]);
			round[j] = 0; /* list_del() */
			err[j] = res;
#ifndef BROKEN_TELL_FIRST
			tell(j, DONE);
#endif
		}
		j++;
	:: j == NR -> j = 0; break;
	od;
	res = 0;
}

inline lead_round(me)
{
#ifdef BROKEN_TAKE_LATE
	write_round();
#endif
	atomic {
		gather(me);
		if
		:: !lost ->
			leading++;
			assert(leading == 1 && leader);
			take();
		:: else
		fi;
	}
	if
	:: lost -> lost = 0;
	:: else -> lead_taken(me);
	fi
}

inline sync_group(i)
{
	atomic {
		/* g->lock */
		alive[i] = 1;
		waiting[i] = 1;
		nr++;
		syncing[i] = 1;
		mine = !leader;
		leader = 1;
#ifndef BROKEN_GATHERED
		if
		:: gatherer != NOBODY && nr >= expected ->
#ifndef BROKEN_BOTH_LEAD
			gatherer = NOBODY;
#endif
			mine = 1;
		:: else
		fi;
#endif
	}
	do
	:: mine ->
		mine = 0;
		turn[i] = WAIT;
#ifdef BROKEN_LEADS_ON
		do
		:: next = NOBODY;
			lead_round(i);
			if
			:: next == NOBODY -> break;
			:: else
			fi;
		od;
#else
		lead_round(i);
#ifdef BROKEN_LEAD_LATE
		if
		:: next != NOBODY ->
			woken[next] = 1;
			turn[next] = LEAD;
		:: else
		fi;
#endif
#endif
		next = NOBODY;
	:: !mine ->
		/* turn_wait() */
		atomic {
#ifndef BROKEN_LEAD_LATE
			turn[i] != WAIT ->
#else
			(turn[i] == DONE || woken[i]) ->
			woken[i] = 0;
#endif
			mine = (turn[i] == LEAD);
			if
			:: turn[i] == DONE -> break;
			:: else
			fi;
		}
	od;
	/* It returns. A break must not lead into a d_step. */
	skip;
	d_step {
		assert(data[i] == DURABLE || err[i]);
		assert(!waiting[i] && turn[i] == DONE);
		alive[i] = 0;
		turn[i] = WAIT;
		err[i] = 0;
		syncing[i] = 0;
		mine = 0;
	}
}

proctype writer(byte i)
{
	byte j, next = NOBODY;
	bit round[NR]; /* those of the round it leads */
	bit snap[NR];
	bit mine, res, lost;

	do
	:: atomic { data[i] != WRITEBACK -> data[i] = DIRTY; }
		sync_group(i);
	:: break
	od
}

/* The ends of writes; and the flusher, which begins some of them. */
active proctype device()
{
end:	do
	:: atomic { data[0] == WRITEBACK -> data[0] = WRITTEN; }
	:: atomic { data[1] == WRITEBACK -> data[1] = WRITTEN; }
#if NR > 2
	:: atomic { data[2] == WRITEBACK -> data[2] = WRITTEN; }
#endif
	:: atomic { data[0] == DIRTY -> data[0] = WRITEBACK; }
	od
}

init {
#ifdef LIVENESS
	/* What may go wrong on the way, safety has shown. */
	failed = 1;
	patient = 1;
#else
	if
	:: patient = 1;
	:: true
	fi;
#endif
	atomic {
		run writer(0);
		run writer(1);
#if NR > 2
		run writer(2);
#endif
	}
}

ltl served { [] (syncing[0] -> <> !syncing[0]) }

/* SPDX-License-Identifier: MIT */
/*
 * turns: the futex on which all sleep who sync a mapping, as in
 * lib/rw/group_commit.c. A wake reaches those of one round, by one of two bits,
 * and the next leader, by a bit of its own; who was held back sleeps with the
 * bits of a round that is over.
 *
 * What is shown of every interleaving: nobody sleeps for ever (no invalid end
 * state), and a waiter, which lives on its sleeper's stack, is not touched
 * after that has returned.
 *
 * What a round does, and who gathers, is in group_commit.pml. That the futex's
 * word has changed since a waiter looked is a bit of that waiter.
 *
 * The check must refuse these:
 *   BROKEN_HELD_BITS (invalid end state): who was held back is woken as the
 *	others of the round that it is in at last
 *   BROKEN_LOOK_FIRST (invalid end state): a waiter looks for its turn, and then
 *	at the word on which it sleeps
 *   BROKEN_WAKE_FIRST (invalid end state): the wake comes before the turns
 *   BROKEN_ONE_BIT_OF_ITS_OWN (invalid end state): the next leader is woken by
 *	the bit of the round that is over
 */
#define NR 3
#define NOBODY NR
/* Syncs of each at most: with two of them there are up to six rounds, and the bits
 * of a round are used again. */
#define SYNCS (1 + SCALE)

/* struct sync_group */
bit waiting[NR];
byte nr;
bit leader;
bit parity; /* g->round */
byte holding;
#define HOLDS 1

/* struct sync_waiter */
mtype = { WAIT, LEAD, DONE };
mtype turn[NR] = WAIT;
bit alive[NR]; /* ghost: its frame is there */
bit joined[NR]; /* @bits: the round that it expects; its own bit is its number */
bit held[NR];

/* The futex of g->turns */
bit changed[NR]; /* since it looked */
bit asleep[NR];

inline tell(i, what)
{
	assert(alive[i]);
	turn[i] = what;
}

/* turn_wake() */
inline wake(all, round_of, one)
{
	d_step {
		for (j : 0 .. NR - 1) {
			changed[j] = alive[j];
			if
			:: all || joined[j] == round_of -> asleep[j] = 0;
#ifndef BROKEN_ONE_BIT_OF_ITS_OWN
			:: j == one -> asleep[j] = 0;
#endif
			:: else
			fi;
		}
		j = 0;
	}
}

inline wait_turn(i)
{
	do
	:: true ->
#ifndef BROKEN_LOOK_FIRST
		changed[i] = 0;
#endif
		if
		:: turn[i] != WAIT -> break;
		:: else
		fi;
#ifdef BROKEN_LOOK_FIRST
		changed[i] = 0;
#endif
		atomic {
			if
			:: !changed[i] -> asleep[i] = 1;
			:: else
			fi;
		}
		!asleep[i];
	od
}

/* take_round() and hold_ahead(): some of the round wait for the next one; not
 * for ever, and not the leader. */
inline take(me)
{
	d_step {
		for (j : 0 .. NR - 1) {
			round[j] = waiting[j];
			waiting[j] = 0;
		}
		nr = 0;
		number = parity;
		parity = !parity;
		j = 0;
	}
	if
	:: atomic { holding < HOLDS ->
		holding++;
		for (j : 0 .. NR - 1) {
			if
			:: round[j] && j != me ->
				round[j] = 0;
				held[j] = 1;
				waiting[j] = 1;
				nr++;
			:: true
			fi;
		}
		j = 0; }
	:: holding = 0;
	fi
}

inline hand_over()
{
	atomic {
		next = NOBODY;
		if
		:: nr == 0 -> leader = 0;
		:: waiting[0] -> next = 0;
		:: waiting[1] -> next = 1;
		:: waiting[2] -> next = 2;
		fi;
		if
		:: next != NOBODY -> tell(next, LEAD);
		:: else
		fi;
	}
}

inline tell_round()
{
#ifndef BROKEN_HELD_BITS
	d_step {
		for (j : 0 .. NR - 1) {
			all = all || (round[j] && held[j]);
		}
		j = 0;
	}
#endif
#ifdef BROKEN_WAKE_FIRST
	wake(all, number, next);
#endif
	do
	:: j < NR && !round[j] -> j++;
	:: j < NR && round[j] ->
		d_step { round[j] = 0; tell(j, DONE); }
		j++;
	:: j == NR -> j = 0; break;
	od
}

inline lead_round(me)
{
	take(me);
	hand_over();
	tell_round();
#ifndef BROKEN_WAKE_FIRST
	wake(all, number, next);
#endif
	all = 0;
	number = 0;
	next = NOBODY;
}

inline sync_group(i)
{
	atomic {
		alive[i] = 1;
		waiting[i] = 1;
		nr++;
		joined[i] = parity;
		mine = !leader;
		leader = 1;
	}
	do
	:: mine ->
		mine = 0;
		turn[i] = WAIT;
		lead_round(i);
	:: else ->
		wait_turn(i);
		mine = (turn[i] == LEAD);
		if
		:: !mine -> break;
		:: else
		fi;
	od;
	/* It returns. A break must not lead into a d_step. */
	skip;
	d_step {
		assert(turn[i] == DONE && !waiting[i]);
		alive[i] = 0;
		turn[i] = WAIT;
		held[i] = 0;
		joined[i] = 0;
		changed[i] = 0;
	}
}

proctype writer(byte i)
{
	byte j, syncs, next = NOBODY;
	bit round[NR]; /* those of the round it leads */
	bit mine, all, number;

	do
	:: syncs < SYNCS ->
		syncs++;
		sync_group(i);
	:: break
	od
}

init {
	atomic {
		run writer(0);
		run writer(1);
		run writer(2);
	}
}

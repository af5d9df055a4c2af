/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To one rank, or to all (shim/rooted.c): in each call, whose root is another one each time, all others write into the next of a few
 * places in turns, each into its own, and the root reads them all; or all write, and all read, or each what those before it have
 * written. All say with each second call how far they are; who would take the place of an earlier call waits until who reads in
 * that one has said that of it, and remembers what it has said. The claims: what somebody waits for stays there until he has read
 * it, and nobody waits for ever. How who waits sleeps is in flat.pml. With -DNO_WAIT a rank takes the place at once, with
 * -DTOO_SOON it waits for one call less, with -DANOTHER for who is the root of this call, with -DNOT_THE_LAST not for all who
 * read, with -DSAYS=3 it is said too seldom: then the model must fail.
 */
#define N      3
#define CALLS  4
#define PLACES 2
#ifndef SAYS
#define SAYS 2
#endif
#ifdef TOO_SOON
#define LESS 1
#else
#define LESS 0
#endif
#ifdef ANOTHER
#define BEFORE root[c]
#else
#define BEFORE root[c - PLACES]
#endif

byte root[CALLS + 1];
byte place[N * PLACES];
byte said[N];

#define ALL    N
#define BEFORE_ME (N + 1)
#define PLACE_OF(r) place[(r) * PLACES + c % PLACES]

inline read(r)
{
	if
	:: r != i ->
		PLACE_OF(r) >= c;
		assert(PLACE_OF(r) == c); /* it is read */
		assert(PLACE_OF(r) == c)  /* and it is still there */
	:: else
	fi
}

inline await_done(r)
{
	if
	:: r != i && taken[r] + PLACES < c ->
		said[r] + PLACES + LESS >= c;
		taken[r] = said[r]
	:: else
	fi
}

inline write()
{
#ifndef NO_WAIT
	if
	:: c > PLACES && BEFORE >= ALL ->
		await_done(0);
		await_done(1)
#ifndef NOT_THE_LAST
		; await_done(2)
#endif
	:: c > PLACES && BEFORE < ALL ->
		before = BEFORE;
		await_done(before);
		before = 0
	:: else
	fi;
#endif
	PLACE_OF(i) = c
}

proctype rank(byte i)
{
	byte c = 0, before;
	byte taken[N];
	do
	:: c == CALLS -> break
	:: c < CALLS ->
		c = c + 1;
		if
		:: root[c] == i -> skip
		:: else -> write()
		fi;
		if
		:: root[c] == BEFORE_ME ->
			if
			:: i > 0 -> read(0)
			:: else
			fi;
			if
			:: i > 1 -> read(1)
			:: else
			fi
		:: root[c] == i || root[c] == ALL ->
			read(0);
			read(1);
			read(2)
		:: else
		fi;
		if
		:: c % SAYS == 0 -> said[i] = c
		:: else
		fi
	od
}

init
{
	byte k = 1;
	do
	:: k > CALLS -> break
	:: k <= CALLS ->
		if
		:: root[k] = 0
		:: root[k] = 1
		:: root[k] = 2
		:: root[k] = ALL
		:: root[k] = BEFORE_ME
		fi;
		k++
	od;
	atomic {
		run rank(0);
		run rank(1);
		run rank(2)
	}
}

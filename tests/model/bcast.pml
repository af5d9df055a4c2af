/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flat broadcasts (shim/bcast.c): a root, which is another one in each call, writes into the next of a few places in turns, and the others read it. Who has read
 * says so with each second call only; a root that would take the place of an earlier call waits until all have said that of it, and remembers
 * how far all are. The claims: what a reader waits for stays there until he has read it, and nobody waits for ever. How who waits sleeps is in flat.pml.
 * With -DNO_WAIT a root takes the place at once, with -DTOO_SOON it waits for one call less, with -DSAYS=3 it is said too seldom: then the model must fail.
 */
#define N      3
#define CALLS  7
#define PLACES 2
#ifndef SAYS
#define SAYS 2
#endif
#ifdef TOO_SOON
#define LESS 1
#else
#define LESS 0
#endif

byte root[CALLS + 1];
byte place[PLACES];
byte said[N];

inline look(r)
{
	if
	:: r != i ->
		said[r] + PLACES + LESS >= c;
		d_step {
			if
			:: said[r] < least -> least = said[r]
			:: else
			fi
		}
	:: else
	fi
}

proctype rank(byte i)
{
	byte c = 0, known = 0, least;
	do
	:: c == CALLS -> break
	:: c < CALLS ->
		c = c + 1;
		if
		:: root[c] == i ->
#ifndef NO_WAIT
			if
			:: c > known + PLACES ->
				least = 255;
				look(0);
				look(1);
				look(2);
				known = least
			:: else
			fi;
#endif
			place[c % PLACES] = c
		:: else ->
			place[c % PLACES] >= c;
			assert(place[c % PLACES] == c); /* it is read */
			assert(place[c % PLACES] == c)	/* and it is still there */
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
		fi;
		k++
	od;
	atomic {
		run rank(0);
		run rank(1);
		run rank(2)
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long sums (shim/long.c): two words of each rank, here and done, count pieces. A rank lends its operand, for this call, or brings it along piece by
 * piece, to places that are used again. Two ranks (TWO) make the sum each for itself, more of them a share each. The claims: who reads a piece,
 * however late, finds that piece, and of a lent operand what the program had there in this call; so with the shares of a sum; and all come to the end.
 * Each call is a sum for all, or for one of them (root): of two he alone reads, and nobody reads what is his, of more he alone reads the sum. Who leaves
 * knows that of what he has brought along nothing but the last piece is still to be read, on which calls of another kind count (blocks.h).
 * PIECES: of a call, fewer where it is short. With -DPLACES=1 each piece takes the place of the one before, with -DNO_WAIT who has lent does not wait until it has been read, with -DONE_AT
 * where an operand lies is said in one place, with -DNO_LAST who has brought along to a root does not wait until the last piece but one has been
 * read: then the model must fail.
 */
#ifdef TWO
#define N     2
#define CALLS 4
#else
#define N     3
#define CALLS 2
#endif
#ifndef PIECES
#define PIECES 2
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifdef ONE_AT
#define AT(r) at[r]
#else
#define AT(r) at[(c % 2) * N + r]
#endif
#define PLACE(r) ((r) * PLACES + k % PLACES)

byte here[N], done[N];
byte place[N * PLACES]; /* the piece that was put there, and 1 */
byte sum[N * PLACES];	/* likewise */
bool at[2 * N];		/* lent */
byte root[CALLS + 1];	/* N: all get the sum */
byte program[N];	/* its memory: of which call */
byte got[N];		/* pieces of the others' that it has read */

inline await_here(many)
{
	r = 0;
	do
	:: r == N -> break
	:: r < N && (r == i || here[r] >= many) -> r++
	od
}

inline await_done(many)
{
	r = 0;
	do
	:: r == N -> break
	:: r < N && (r == i || done[r] >= many) -> r++
	od
}

inline bring()
{
	place[PLACE(i)] = k + 1;
	here[i] = k + 1
}

proctype rank(byte i)
{
	byte c = 0, p, k, r;
	bool lends, gets, lent[N];
	do
	:: c == CALLS -> break
	:: c < CALLS ->
		c++;
		program[i] = c;
		gets = root[c] == N || root[c] == i;
		if
		:: lends = true
		:: lends = false
		fi;
#ifdef TWO
		AT(i) = lends && root[c] != i;
		lent[1 - i] = false;
#else
		AT(i) = lends;
#endif
		if
		:: lends -> here[i] = c * PIECES
		:: else
		fi;
		p = 0;
		do
		:: p == PIECES -> break
		:: p < PIECES ->
			k = (c - 1) * PIECES + p;
			if
#ifdef TWO
			:: !lends ->
				if
				:: k > 1 -> await_done(k - 1)
				:: else
				fi;
				bring()
#else
			:: !lends && p == 0 -> bring()
#endif
			:: else
			fi;
			await_here(k + 1);
			r = 0;
			do
			:: r == N -> break
#ifdef TWO
			:: r < N && !gets -> r++
			:: r < N && gets ->
#else
			:: r < N ->
#endif
				if
				:: p == 0 -> lent[r] = AT(r)
				:: else
				fi;
				if
				:: r == i
				:: r != i && lent[r] -> assert(program[r] == c)
				:: r != i && !lent[r] -> assert(place[PLACE(r)] == k + 1)
				fi;
				r++
			od;
			got[i] = k + 1;
#ifdef TWO
			done[i] = k + 1;
#else
			sum[PLACE(i)] = k + 1;
			if
			:: !lends && p + 1 < PIECES ->
				k++;
				bring();
				k--
			:: else
			fi;
			done[i] = k + 1;
			await_done(k + 1);
			r = 0;
			do
			:: r == N -> break
			:: r < N ->
				assert(!gets || sum[PLACE(r)] == k + 1);
				r++
			od;
#endif
			p++
		od;
#if defined(TWO) && !defined(NO_WAIT)
		if
		:: lends && root[c] != i -> await_done(c * PIECES)
#ifndef NO_LAST
		:: !lends && (root[c] != N || lent[1 - i]) -> await_done(c * PIECES - 1)
#endif
		:: else
		fi;
		assert(root[c] == i || got[1 - i] >= c * PIECES - 1)
#endif
	od
}

init
{
	atomic {
		byte n = 1;
		do
		:: n > CALLS -> break
		:: n <= CALLS ->
			if
#ifdef TWO
			:: root[n] = 0
			:: root[n] = 1
#else
			:: root[n] = n
#endif
			:: root[n] = N
			fi;
			n++
		od;
		n = 0;
		do
		:: n == N -> break
		:: n < N ->
			run rank(n);
			n++
		od
	}
}

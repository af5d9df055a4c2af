/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long sums (shim/long.c): two words of each rank, here and done, count pieces. A rank lends its operand, for this call, or brings it along piece by
 * piece, to places that are used again. Two ranks (TWO) make the sum each for itself, more of them a share each. The claims: who reads a piece,
 * however late, finds that piece, and of a lent operand what the program had there in this call; so with the shares of a sum; and all come to the end.
 * With -DPLACES=1 each piece takes the place of the one before, with -DNO_WAIT who has lent does not wait until it has been read, with -DONE_AT
 * where an operand lies is said in one place: then the model must fail.
 */
#ifdef TWO
#define N     2
#define CALLS 4
#else
#define N     3
#define CALLS 2
#endif
#define PIECES 2
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
byte program[N];	/* its memory: of which call */

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
	bool lends, lent[N];
	do
	:: c == CALLS -> break
	:: c < CALLS ->
		c++;
		program[i] = c;
		if
		:: lends = true
		:: lends = false
		fi;
		AT(i) = lends;
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
			:: r < N ->
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
				assert(sum[PLACE(r)] == k + 1);
				r++
			od;
#endif
			p++
		od;
#if defined(TWO) && !defined(NO_WAIT)
		if
		:: lends -> await_done(c * PIECES)
		:: else
		fi
#endif
	od
}

init
{
	atomic {
		byte n = 0;
		do
		:: n == N -> break
		:: n < N ->
			run rank(n);
			n++
		od
	}
}

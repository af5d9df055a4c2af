/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flat collectives (shim/flat.c): each rank writes its line, with a store that may linger in its core's store buffer, drains that (a fence), and
 * looks whether somebody sleeps. Who waits for a line says that he sleeps, looks once more, and sleeps on the bell word. Lines are of two
 * generations in turns. The claims: nobody is left asleep, though here no sleep ends by itself; and what was written in a call
 * stays until all have read it. Who comes wakes those who wait for him. The bell's word only grows, so of it
 * each knows no more than whether it has changed since he read it.
 * With -DNO_FENCE the writer does not drain, with -DNO_LOOK the sleeper does not look once more, with -DGENS=1 there is one generation: then the
 * model must fail.
 */
#define N     3
#define CALLS 3
#ifndef GENS
#define GENS 2
#endif

byte line[6];
byte buffer[N]; /* stored, not yet visible; 0: nothing */
byte sleepers;
byte noted[N];	/* the bell's word by this one, who is about to sleep: 1; and it has changed since: 2 */
byte asleep[N]; /* until the line of this one less 1 is written; 0: awake */

inline drain(i)
{
	if
	:: buffer[i] > 0 ->
		line[(buffer[i] % GENS) * N + i] = buffer[i];
		buffer[i] = 0
	:: else
	fi
}

proctype store_buffer(byte i)
{
end:
	do
	:: atomic { buffer[i] > 0 -> drain(i) }
	od
}

inline wake()
{
	atomic {
		drain(i);
		if :: noted[0] == 1 -> noted[0] = 2 :: else fi;
		if :: noted[1] == 1 -> noted[1] = 2 :: else fi;
		if :: noted[2] == 1 -> noted[2] = 2 :: else fi;
		if :: asleep[0] == i + 1 -> asleep[0] = 0 :: else fi;
		if :: asleep[1] == i + 1 -> asleep[1] = 0 :: else fi;
		if :: asleep[2] == i + 1 -> asleep[2] = 0 :: else fi
	}
}

inline await(r)
{
	do
	:: line[(c % GENS) * N + r] == c -> break
	:: else ->
		atomic { drain(i); sleepers = sleepers + 1 };
		noted[i] = 1;
		if
#ifndef NO_LOOK
		:: line[(c % GENS) * N + r] == c
		:: else ->
#else
		:: true ->
#endif
			atomic {
				if
				:: noted[i] == 1 -> asleep[i] = r + 1
				:: else
				fi;
				noted[i] = 0
			};
			asleep[i] == 0
		fi;
		atomic { drain(i); sleepers = sleepers - 1; noted[i] = 0 }
	od
}

proctype rank(byte i)
{
	byte c = 0, r;
	do
	:: c == CALLS -> break
	:: c < CALLS ->
		c = c + 1;
		buffer[i] == 0;
		buffer[i] = c;
#ifndef NO_FENCE
		atomic { drain(i) };
#endif
		if
		:: sleepers > 0 -> wake()
		:: else
		fi;
		r = 0;
		do
		:: r == N -> break
		:: r == i -> r++
		:: r < N && r != i ->
			await(r);
			r++
		od;
		r = 0;
		do
		:: r == N -> break
		:: r == i -> r++
		:: r < N && r != i ->
			assert(line[(c % GENS) * N + r] == c);
			r++
		od
	od
}

init
{
	atomic {
		byte k = 0;
		do
		:: k == N -> break
		:: k < N ->
			run rank(k);
			run store_buffer(k);
			k++
		od
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of one process that wake each other on its bell (sn_bell_wake_self() and sn_bell_wait() of src/progress/bell.c).
 *
 * Each ringer leaves a message for its own waiter, counts the bell's word up in any case, and takes the flag down; who finds it up counts
 * once more and wakes all. A waiter takes a snapshot of the word, puts the flag up, looks once more, and sleeps for as long as the word is the
 * snapshot. All of it is sequentially consistent. The claim: no waiter is left asleep beside its message.
 * With -DONCE the word is not counted once more, and the model must fail: the flag that was taken down may be that of a waiter whose
 * snapshot is younger than the first count and who has not slept yet; he sleeps then with the flag down, and nobody wakes him for the next one.
 * With -DNEVER it is counted only by who finds the flag up, after waking: likewise.
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define PAIRS 2

byte box[PAIRS];
byte seq, waiters;
bool sleeping, asleep[PAIRS], locked;

inline lock()
{
	atomic { !locked -> locked = true }
}

inline wake_all()
{
	atomic { asleep[0] = false; asleep[1] = false }
}

proctype ringer(byte i)
{
	byte n = 0;
	bool taken;
	do
	:: n == ROUNDS -> break
	:: n < ROUNDS ->
		box[i] = box[i] + 1;
#ifndef NEVER
		seq = seq + 1;
#endif
		atomic { taken = sleeping; sleeping = false };
		if
		:: taken ->
#ifdef NEVER
			wake_all();
			seq = seq + 1
#else
#ifndef ONCE
			seq = seq + 1;
#endif
			wake_all()
#endif
		:: else
		fi;
		n++
	od
}

proctype waiter(byte i)
{
	byte got = 0, s;
	do
	:: got == ROUNDS -> break
	:: else ->
		if
		:: box[i] > 0 -> atomic { box[i] = box[i] - 1; got++ }
		:: else ->
			lock();
			waiters++;
			s = seq;
			sleeping = true;
			locked = false;
			if
			:: box[i] > 0 -> skip
			:: else ->
				atomic { /* futex_wait(seq, s) */
					if
					:: seq == s -> asleep[i] = true
					:: else
					fi
				};
				!asleep[i]
			fi;
			lock();
			waiters--;
			sleeping = waiters > 0;
			locked = false
		fi
	od
}

init
{
	atomic {
		run ringer(0);
		run ringer(1);
		run waiter(0);
		run waiter(1)
	}
}

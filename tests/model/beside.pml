/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Telling who waits where the MPI's lock is free (ofi/beside.c). With the lock a thread looks whether its message has been
 * noted, and then remembers how many news there were. Without it, it says that it is apart, and sleeps: on the bell,
 * after a look whether there are others by now, or on the word of the news itself, if there are not. Who notes a
 * message, with the lock, tells later, without it: he counts the news, and then looks who is apart, and who sleeps on
 * the word. All of it is sequentially consistent. The claim: nobody sleeps on whose message has been told of. (In the
 * code the sleep ends after a millisecond, too; here it does not.)
 * With -DNO_NEWS nothing is compared before the bell's sleep, with -DLATE_AFTER the news are remembered without the
 * lock, with -DEARLY_APART he who tells looks who is apart before he counts: each must fail.
 */
#define WAITING 2

bool lock;
bool noted[WAITING];
byte news, apart, told;
bool asleep[WAITING]; /* on either */
bool on_bell[WAITING];
byte seq; /* the bell's word */

inline take() { atomic { !lock -> lock = true } }
inline give() { lock = false }

proctype waits(byte me)
{
	byte after, s;
	do
	:: true ->
		take();
		if
		:: noted[me] -> give(); break
		:: else
		fi;
#ifndef LATE_AFTER
		after = news;
#endif
		give();
#ifdef LATE_AFTER
		after = news;
#endif
		apart++;
		if
		:: true -> /* the bell: its flag is up before the look */
			s = seq;
#ifndef NO_NEWS
			if
			:: news == after ->
#endif
				atomic { if :: seq == s -> asleep[me] = true; on_bell[me] = true :: else fi };
				!asleep[me];
				on_bell[me] = false
#ifndef NO_NEWS
			:: else
			fi
#endif
		:: true -> /* the word */
			told++;
			atomic { if :: news == after -> asleep[me] = true :: else fi };
			!asleep[me];
			told--
		fi;
		apart--
	od
}

inline wake(bell)
{
	atomic {
		i = 0;
		do
		:: i < WAITING ->
			if
			:: asleep[i] && on_bell[i] == bell -> asleep[i] = false
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

proctype finds()
{
	byte who = 0, i;
	bool somebody;
	do
	:: who < WAITING ->
		take();
		noted[who] = true;
		give();
#ifdef EARLY_APART
		somebody = apart > 0;
		news++;
#else
		news++;
		somebody = apart > 0;
#endif
		if
		:: somebody ->
			seq++;
			wake(true);
			if
			:: told > 0 -> wake(false)
			:: else
			fi
		:: else
		fi;
		who++
	:: else -> break
	od
}

init
{
	atomic {
		run waits(0);
		run waits(1);
		run finds()
	}
}

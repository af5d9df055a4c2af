/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that is copied out of the ring while it is copied in (src/local/part.c), twice through the same cells, so that
 * the second one finds what the first has left there, its count of bytes included. The claims checked, over every
 * interleaving, with the receive posted at any moment or never before the message is whole:
 *   - no byte is taken before it is written, and each once;
 *   - a message without a receive is taken only when it is whole;
 *   - the receiver does not wait for ever, and after the sender's death takes no more than was written.
 * The planted errors: -DCOUNT_EARLY counts bytes before they are written; -DMARK_EARLY publishes the record while its
 * count is still the last message's.
 */
#define STEPS 3
#define LAPS  2

byte body[STEPS]; /* the lap that wrote it */
byte filled;
byte mark; /* the lap whose record lies here, 0: none */
byte lap_read;
bool dead;

inline perhaps_die()
{
	if
	:: dead = true; goto killed
	:: true
	fi
}

proctype sender()
{
	byte lap = 1, i;
	do
	:: lap > LAPS -> break
	:: lap <= LAPS ->
		(lap_read == lap - 1); /* room */
#ifdef MARK_EARLY
		mark = lap;
#endif
		i = 0;
		do
		:: i == STEPS -> break
		:: i < STEPS ->
#ifdef COUNT_EARLY
			filled = i + 1;
			perhaps_die();
			body[i] = lap;
#else
			body[i] = lap;
			perhaps_die();
			filled = i + 1;
#endif
			perhaps_die();
			if
			:: i == 0 -> mark = lap
			:: else
			fi;
			perhaps_die();
			i++
		od;
		lap++
	od;
killed:
	skip
}

proctype receiver()
{
	byte lap = 1, done, have;
	bool matched;
	do
	:: lap > LAPS -> break
	:: lap <= LAPS ->
		done = 0;
		matched = false;
		(mark == lap || dead);
		if
		:: mark != lap -> break
		:: else
		fi;
		if
		:: matched = true
		:: true /* nobody has posted for it */
		fi;
		do
		:: have = filled;
		   if
		   :: matched || have == STEPS ->
			do
			:: done < have -> assert(body[done] == lap); done++
			:: else -> break
			od
		   :: else
		   fi;
		   if
		   :: done == STEPS -> break
		   :: else ->
			(filled != have || dead);
			if
			:: filled == have -> goto gone
			:: else
			fi
		   fi
		od;
		mark = 0;
		lap_read = lap;
		lap++
	od;
gone:
	assert(dead || lap > LAPS)
}

init
{
	atomic {
		run sender();
		run receiver()
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking (src/progress/bell.c): the sender pays a plain store and a plain load, the sleeper pays for both.
 *
 * Each sender publishes a message with a store that may linger in its core's store buffer, then loads `sleeping`. The
 * sleeper announces itself, makes every other core drain its buffer (membarrier), looks once more, and sleeps on the bell
 * word. A sender that finds it asleep takes the flag down before it rings, so that the others need not. The claim: the
 * receiver gets every message; no interleaving leaves it asleep beside a full ring.
 * With -DNO_BARRIER the barrier is left out, and the model must fail: that shows the check can see the bug.
 */
#define SENDERS 2
#define ROUNDS	2

byte ring[SENDERS];    /* messages visible to the receiver */
byte buffer[SENDERS];  /* stored, not yet visible */
byte seq;
bool sleeping, asleep;

inline drain(i)
{
	ring[i] = ring[i] + buffer[i];
	buffer[i] = 0
}

proctype store_buffer(byte i) /* the hardware empties the buffer whenever it likes */
{
end:
	do
	:: atomic { buffer[i] > 0 -> drain(i) }
	od
}

proctype sender(byte i)
{
	byte n = 0;
	bool taken;
	do
	:: n == ROUNDS -> break
	:: n < ROUNDS ->
		buffer[i] = buffer[i] + 1; /* publish */
		if
		:: sleeping ->
			/* a locked exchange, which drains the buffer: who takes the flag down rings for all */
			atomic { drain(i); taken = sleeping; sleeping = false };
			if
			:: taken -> seq = seq + 1; asleep = false
			:: else
			fi
		:: else
		fi;
		n++
	od
}

proctype receiver()
{
	byte got = 0, s;
	do
	:: got == SENDERS * ROUNDS -> break
	:: else ->
		if
		:: ring[0] > 0 -> atomic { ring[0] = ring[0] - 1; got++ }
		:: ring[1] > 0 -> atomic { ring[1] = ring[1] - 1; got++ }
		:: else ->
			s = seq;
			sleeping = true;
#ifndef NO_BARRIER
			atomic { drain(0); drain(1) };
#endif
			if
			:: ring[0] > 0 || ring[1] > 0 -> skip
			:: else ->
				atomic { /* futex_wait(seq, s) */
					if
					:: seq == s -> asleep = true
					:: else
					fi
				};
				!asleep
			fi;
			sleeping = false
		fi
	od
}

init
{
	atomic {
		run store_buffer(0);
		run store_buffer(1);
		run sender(0);
		run sender(1);
		run receiver()
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring between one sender and one receiver (src/local/ring.h). A record takes at most a quarter of the real ring, here
 * three of eight cells, so that a record with its padding and a clear cell always fits into an empty ring.
 *
 * A record is one or more contiguous cells. Only its first cell has a mark; the other cells hold payload, which may look
 * like anything, a mark included: GARBAGE here. The claims checked, over every interleaving, every sequence of
 * record lengths and every lap of the ring:
 *   - the receiver never takes payload for a mark, and never reads a cell that is being written;
 *   - records come out complete, once, in order;
 *   - nobody waits for ever, although the receiver publishes its head only when it likes or runs dry;
 *   - a sender killed between any two stores leaves the receiver with whole records and an empty mark (-DKILL).
 * With -DLAP the sender may go back to the beginning of a ring that was read to its end.
 * With -DNO_CLEAR the sender does not clear the mark behind its record, and the model must fail.
 * Stores become visible in program order (release stores; total store order on x86).
 */
#ifndef SIZE
#define SIZE 8
#endif
#ifndef RECORDS
#define RECORDS 7
#endif
#ifndef AHEAD
#define AHEAD 2
#endif
#define EMPTY	0
#define PAD	100
#define GARBAGE 101

byte mark[SIZE];     /* 0, PAD, GARBAGE or record number * 4 + length */
byte owner[SIZE];    /* ghost: the record whose payload lies in the cell */
byte head;	      /* cells consumed, as published */
byte tail;	      /* cells produced: the sender's own */
byte seen;	      /* head as the sender last saw it */
byte clean = SIZE;    /* the marks from tail up to here are clear */
byte taken;	      /* ghost: cells the receiver has really consumed */
bool dead;

inline store(at, value)
{
	mark[at] = value;
	if
	:: value == EMPTY -> owner[at] = 0 /* ghost: whoever overwrites a cell that is still to be read is found out */
	:: else
	fi
}

inline perhaps_die()
{
#ifdef KILL
	if
	:: dead = true; goto killed
	:: true
	fi
#else
	skip
#endif
}

/*
 * Make the record of `cells` cells at `pos` visible, after clearing the mark behind it if that is not known to be clear;
 * then clear up to AHEAD cells further, as far as the receiver is known to have read. (The ring clears more of them while it
 * finds nothing to do: cells at which the receiver does not look before the sender's next record, so sooner or later is the
 * same to it.)
 */
inline publish(pos, cells, value)
{
	tail = tail + cells;
#ifndef NO_CLEAR
	if
	:: clean <= tail -> store(tail % SIZE, EMPTY); clean = tail + 1
	:: else
	fi;
#endif
	perhaps_die();
	store(pos, value);
	perhaps_die();
	do
	:: clean < tail + 1 + AHEAD && clean < seen + SIZE ->
		store(clean % SIZE, EMPTY);
		clean++;
		perhaps_die()
	:: else -> break
	od
}

proctype sender()
{
	byte n = 1, cells, pos, pad, i;
	do
	:: n > RECORDS -> break
	:: n <= RECORDS ->
		if
		:: cells = 1
		:: cells = 2
		:: cells = 3
		fi;
		pos = tail % SIZE;
		pad = (pos + cells > SIZE -> SIZE - pos : 0);
#ifdef LAP
		/* all but a little was read: the sender may go back to the beginning, the way there is padding */
		if
		:: pad == 0 && tail - head <= 1 && cells < pos -> seen = head; pad = SIZE - pos
		:: true
		fi;
#endif
		/* the record, its padding, and the cell that stays clear behind it */
		if
		:: SIZE - (tail - seen) < pad + cells + 1 ->
			(SIZE - (tail - head) >= pad + cells + 1);
			seen = head
		:: else
		fi;
		if
		:: pad > 0 -> publish(pos, pad, PAD); pos = 0
		:: else
		fi;
		i = cells - 1;
		do
		:: i == 0 -> break
		:: i > 0 -> store(pos + i, GARBAGE); owner[pos + i] = n; i--
		od;
		owner[pos] = n;
		publish(pos, cells, n * 4 + cells);
		n++
	od;
killed:
	skip
}

proctype receiver()
{
	byte expect = 1, pos, m, cells, i;
	do
	:: expect > RECORDS -> break
	:: dead && mark[pos] == EMPTY -> break
	:: expect <= RECORDS ->
		m = mark[pos];
		if
		:: m == EMPTY ->
			head = taken; /* dry: let the sender have everything */
			(mark[pos] != EMPTY || dead)
		:: m == PAD ->
			taken = taken + (SIZE - pos);
			pos = 0;
			if
			:: head = taken
			:: true
			fi
		:: else ->
			assert(m != GARBAGE);
			cells = m % 4;
			assert(m / 4 == expect && pos + cells <= SIZE);
			i = 0;
			do
			:: i == cells -> break
			:: i < cells ->
				assert(owner[pos + i] == expect);
				assert(i == 0 || mark[pos + i] == GARBAGE);
				i++
			od;
			expect++;
			taken = taken + cells;
			pos = (pos + cells) % SIZE;
			if
			:: head = taken
			:: true
			fi
		fi
	od
}

init
{
	atomic {
		run sender();
		run receiver()
	}
}

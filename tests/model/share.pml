/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two sides share the copy of a message (src/local/job.h): claims from both ends of one word, completion by count, failure,
 * and the job used again. MSGS messages of BLOCKS blocks go through one job, one after the other. Each side may fail at any
 * block, and may come as late as it likes.
 *
 * Checked: no block is copied twice; a message that counts as whole is; nobody touches a message's buffers after its
 * opener has seen the end; and both sides always reach the end (no invalid end state).
 *
 * Planted errors: NO_INSIDE (the helper does not say that it is inside), NO_CLOSE (a failure does not close the job),
 * EARLY_REUSE (the opener uses a job again before it has itself seen how it ended), DONE_EARLY (a block counts before
 * it is copied).
 */
#ifndef BLOCKS
#define BLOCKS 3
#endif
#ifndef MSGS
#define MSGS 2
#endif
#define COMING	0
#define INSIDE	1
#define OUTSIDE 2
#define LEFT	3
#define NONE	255

byte low, high, done; /* the job */
bool failed;
byte helper = LEFT;

chan ring = [MSGS] of {byte};
byte copied[6]; /* BLOCKS * MSGS: how often */
bool valid[2];	/* the buffers of a message may be touched */
bool whole[2];

/* One claim: how many is each side's own business, at least one. */
inline claim(head)
{
	atomic {
		if
		:: low + high >= BLOCKS -> n = 0
		:: else ->
			if
			:: n = 1
			:: low + high + 2 <= BLOCKS -> n = 2
			fi;
			if
			:: head -> first = low; low = low + n
			:: else -> first = BLOCKS - high - n; high = high + n
			fi
		fi
	}
}

inline close()
{
	failed = true;
#ifndef NO_CLOSE
	atomic { low = BLOCKS; high = 0 }
#endif
}

/* Copy n blocks from `first` of message m, or fail. */
inline copy(m)
{
#ifdef DONE_EARLY
	done = done + n;
#endif
	if
	:: assert(valid[m]);
	   atomic {
		assert(valid[m]);
		copied[m * BLOCKS + first]++;
		assert(copied[m * BLOCKS + first] == 1);
		if
		:: n == 2 ->
			copied[m * BLOCKS + first + 1]++;
			assert(copied[m * BLOCKS + first + 1] == 1)
		:: else
		fi
	   }
#ifndef DONE_EARLY
	   done = done + n
#endif
	:: close(); n = 0
	fi
}

inline open(m)
{
	valid[m] = true;
	low = 0;
	high = 0;
	done = 0;
	failed = false;
	helper = COMING;
	ring ! m
}

inline bout(m, head)
{
	do
	:: claim(head);
	   if
	   :: n == 0 -> break
	   :: else ->
		copy(m);
		if
		:: n == 0 -> break
		:: else
		fi
	   fi
	od
}

/* Wait until message m has ended. */
inline finish(m)
{
	do
	:: atomic {
		done == BLOCKS ->
		assert(copied[m * BLOCKS] == 1 && copied[m * BLOCKS + 1] == 1 && copied[m * BLOCKS + 2] == 1);
		whole[m] = true;
		valid[m] = false
	   }
	   break
	:: done != BLOCKS && failed ->
		close();
		(helper != INSIDE);
		valid[m] = false; /* it goes another way, and ends whenever that does */
		break
	od
}

proctype opener()
{
	byte n, first;
	open(0);
	bout(0, false);
#ifdef EARLY_REUSE
	(helper == LEFT);
	open(1);
	bout(1, false);
	finish(0);
	finish(1)
#else
	finish(0);
	(helper == LEFT);
	open(1);
	bout(1, false);
	finish(1)
#endif
}

proctype help()
{
	byte m, n, first, seen;
	do
	:: seen == MSGS -> break
	:: ring ? m ->
		do
		:: failed || done == BLOCKS ->
			atomic {
				if
				:: done == BLOCKS -> assert(copied[m * BLOCKS] && copied[m * BLOCKS + 1] && copied[m * BLOCKS + 2])
				:: else
				fi;
				helper = LEFT
			}
			break
		:: else ->
#ifndef NO_INSIDE
			helper = INSIDE;
#endif
			bout(m, true);
			helper = OUTSIDE
		od;
		seen++
	od
}

init
{
	atomic { run opener(); run help() }
}

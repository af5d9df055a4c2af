/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread goes the quick way (shim/holder.h), how it hands that on, and who is at the receives that are pending (shim/visit.c).
 *
 * THREADS threads make as many calls as they like, in up to TENURES tenures, and each may stop for good between two calls. A call looks at the
 * pass, as entry.S does. Without it, it goes through sn_holder_enter(), step by step; whether enough calls have gone by in a row is left open.
 * Then it does what it likes of this, as often as it likes; with -DSTART, -DLIST, -DSLEEP or -DFORGET only what is named:
 *  - LIST: it is at the list of receives that are pending (sn_own_enter()): it posts one, if it goes the quick way, or ends all, or only looks. The
 *    1 that says so may linger in a store buffer; membarrier empties those of all. (A 0 that lingers only keeps who visits waiting.) The library's own
 *    thread visits as often as it likes.
 *  - SLEEP: it sleeps in the MPI (shared_nap_begin() in ofi/progress.c), for as long as it likes. How the bell wakes is in self.pml.
 *  - FORGET: it makes all forget what they have seen.
 *  - START: the first call of each thread is another. Without it all have called before.
 * Of the number of entries each thread knows only whether it has changed. Left out: what is before the first receive of ours was given
 * (sn_own_shared), a thread's end, processors that load in another order than the program's.
 *
 * The claims:
 *  - Nobody is at the list beside another; nobody is there in the tenure of another, but who visits; nothing is pending when a tenure ends.
 *  - No call that begins with the pass begins in a tenure of another thread.
 *  - No call that is counted goes on in a tenure of another thread that had begun before, or with a call that was counted before.
 *  - Two threads never have the same tenure.
 *  - No call begins with the pass while another sleeps; and who was counted while one slept has woken him when he goes on.
 *  - No call that begins with the pass knows what was to be forgotten before.
 *  - Nobody waits for ever: all may stop between two calls, wherever the others are.
 *
 * Planted errors: NO_TENURE_CHECK (who enters the list does not look whether he holds), NO_VISITED_CHECK (nor whether somebody visits), NO_MEMBARRIER,
 * NO_SECOND_NOBODY (who ends a tenure takes the pass away only before that), NO_TAKE_CHECK (who has taken the pass does not look whether he still
 * holds), NO_SLEEPER_CHECK (nor whether somebody sleeps), NO_STALE_CHECK (nor whether he is to forget once more), ONE_STALE (one mark says to all
 * threads that they are to forget: who is late with the pass of a tenure that has ended takes it down, and the holder never sees it), NO_ENTRIES_CHECK
 * (who begins a tenure does not look whether another was counted), NO_WAKE (who ends a tenure wakes nobody, but the only thread sleeps without a word),
 * EX_HOLDER (who held before he was counted does not look again).
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef TENURES
#define TENURES 2
#endif
#if !defined(START) && !defined(LIST) && !defined(SLEEP) && !defined(FORGET)
#define START
#define LIST
#define SLEEP
#define FORGET
#endif
#define ALL	 ((1 << THREADS) - 1)
#define ME	 (1 << me)
#define OTHERS	 (ALL & ~ME)
#define NOBODY	 255
#define EVEN	 (tenure % 2 == 0)
#define HOLDS	 (tenure == own[me])
#define ANOTHERS (!EVEN && !HOLDS)
#ifdef ONE_STALE
#define STALE	  stale
#define NOT_STALE stale = 0
#else
#define STALE	  (stale & ME)
#define NOT_STALE stale = stale & ~ME
#endif

byte tenure = 2, pass = NOBODY, own[THREADS]; /* which number each thread has */
byte sleepers, holder;
byte stale; /* who is to forget */
#ifdef START
byte threads;
bool several;
#else
#define threads THREADS
#define several true
#endif
bool visited, locked;
bool inside[THREADS], buffer[THREADS]; /* a 1 that has not got there */
byte news, changed; /* for whom: somebody was counted since he was; and since he looked before a sleep */

/* What is only claimed about: */
bool pending, at_list;
byte beside;	      /* who is not to go on in the tenure that is under way */
byte sleep, unwoken;  /* who has looked at the pass, and may sleep; and does */
byte sees[THREADS];   /* who slept when he was counted, and has not been woken */
byte dated, outdated; /* who knows what is to be forgotten; and was to be before the calls that begin now */

inline drain(i)
{
	if
	:: buffer[i] -> inside[i] = true; buffer[i] = false
	:: else
	fi
}

inline drain_all()
{
	drain(0);
	drain(1);
#if THREADS > 2
	drain(2)
#endif
}

inline awake(who) /* they sleep no more, or will not for long */
{
	sees[0] = sees[0] & ~(who);
	sees[1] = sees[1] & ~(who);
#if THREADS > 2
	sees[2] = sees[2] & ~(who);
#endif
	unwoken = unwoken & ~(who)
}

inline lock()
{
	atomic { !locked -> locked = true }
}

inline unlock()
{
	locked = false
}

inline end_tenure()
{
	d_step { assert(!pending); tenure++; beside = 0 }
}

inline settle() /* with the lock */
{
	visited = true;
#ifndef NO_MEMBARRIER
	d_step { drain_all() };
#endif
	!inside[holder];
	d_step { assert(!at_list); at_list = true };
	d_step { at_list = false; pending = false }
}

#ifdef LIST
proctype memory() /* the buffers are emptied at any time */
{
end:
	do
	:: d_step { buffer[0] -> drain(0) }
	:: d_step { buffer[1] -> drain(1) }
#if THREADS > 2
	:: d_step { buffer[2] -> drain(2) }
#endif
	od
}

proctype visitor()
{
	do
	:: break
	:: lock();
	   if
	   :: EVEN
	   :: else ->
		settle();
		visited = false
	   fi;
	   unlock()
	od
}
#endif

proctype thread(byte me)
{
	bool quickly, holds;
#ifdef START
	bool known, first;
#else
#define first false
#endif
#ifdef SLEEP
	byte seen;
#endif

	do
	:: break
	:: atomic { /* entry.S */
		quickly = (pass == own[me]);
		if
		:: quickly ->
			assert(!ANOTHERS);
			assert(!(sleep & OTHERS));
			assert(!(outdated & ME));
			goto goes_on
		:: else
		fi
	   };

	   /* sn_holder_enter() */
#ifdef START
	   if
	   :: !known ->
		d_step { known = true; first = (threads == 0); threads++ };
		if
		:: first -> goto begins
		:: else -> several = true
		fi
	   :: else
	   fi;
#endif
	   holds = HOLDS;
#ifdef START
	   if
	   :: holds && !several -> goto takes
	   :: else
	   fi;
#endif
	   d_step {
		news = OTHERS | (news & ~ME);
#ifdef SLEEP
		changed = ALL;
		sees[me] = unwoken;
#endif
		if
		:: ANOTHERS -> beside = beside | ME
		:: else
		fi
	   };
#ifdef SLEEP
	   if
	   :: d_step { sleepers > 0 -> awake(ALL) }
	   :: sleepers == 0
	   fi;
#endif
#ifndef EX_HOLDER
	   holds = HOLDS;
#endif
	   if
	   :: holds || EVEN
	   :: !holds && !EVEN ->
		lock();
		if
		:: ANOTHERS ->
			pass = NOBODY;
#if defined(START) && !defined(NO_WAKE)
			d_step { awake(ALL) };
#endif
#ifdef LIST
			settle();
#endif
			end_tenure();
#ifndef NO_SECOND_NOBODY
			pass = NOBODY;
#endif
#ifdef LIST
			visited = false
#endif
		:: else
		fi;
		unlock()
	   fi;
	   if /* have enough calls gone by? */
	   :: holds -> goto takes
	   :: holds && STALE -> goto takes
	   :: holds && !STALE -> goto goes_on
	   :: !holds -> goto goes_on
	   :: !holds && tenure <= 2 * TENURES -> goto begins
	   fi;

begins:
	   lock();
	   if
	   :: EVEN && sleepers == 0 && tenure <= 2 * TENURES
	   :: else ->
		unlock();
		goto goes_on
	   fi;
	   tenure++;
	   atomic {
		if
#ifndef NO_ENTRIES_CHECK
		:: !first && (news & ME) -> goto undoes
#else
		:: !first && (news & ME) -> beside = beside | OTHERS
#endif
		:: else
		fi;
		holder = me;
		own[me] = tenure;
		assert(own[0] != own[1] || own[0] == 0);
#if THREADS > 2
		assert((own[0] != own[2] && own[1] != own[2]) || own[2] == 0);
#endif
	   };
	   d_step { locked = false; dated = dated & ~ME; outdated = outdated & ~ME };
	   goto takes;
undoes:
	   end_tenure();
	   unlock();
	   goto goes_on;

takes:
#ifdef FORGET
	   atomic {
		if
		:: STALE -> NOT_STALE; dated = dated & ~ME; outdated = outdated & ~ME
		:: else
		fi
	   };
#endif
	   pass = own[me];
#if defined(FORGET) && !defined(NO_STALE_CHECK)
	   if
	   :: STALE -> goto takes
	   :: else
	   fi;
#endif
#if defined(SLEEP) && !defined(NO_SLEEPER_CHECK)
	   if
	   :: sleepers > 0 -> goto gives_back
	   :: else
	   fi;
#endif
#ifndef NO_TAKE_CHECK
	   if
	   :: !HOLDS -> goto gives_back
	   :: else
	   fi;
#endif
	   quickly = true;
	   goto goes_on;
gives_back:
	   atomic {
		if
		:: pass == own[me] -> pass = NOBODY
		:: else
		fi
	   };

goes_on:
	   atomic {
		assert(!(beside & ME));
		assert(!sees[me])
	   };

	   do
	   :: d_step {
		news = news & ~ME;
		holds = false;
		quickly = false;
#ifdef START
		first = false;
#endif
	      };
	      break
#ifdef LIST
	   :: HOLDS -> /* sn_own_enter() */
		do
		:: atomic { !buffer[me] -> buffer[me] = true };
		   if
#ifndef NO_VISITED_CHECK
		   :: visited -> goto refused
#endif
		   :: else
		   fi;
		   if
#ifndef NO_TENURE_CHECK
		   :: !HOLDS -> goto refused
#endif
		   :: else
		   fi;
		   d_step { assert(!at_list && HOLDS); at_list = true };
		   atomic {
			at_list = false;
			if
			:: quickly -> pending = true
			:: pending = false
			:: skip
			fi
		   };
		   d_step { buffer[me] = false; inside[me] = false };
		   break;
refused:
		   atomic { buffer[me] = false; inside[me] = false };
		   if
		   :: break
		   :: lock();
		      unlock()
		   fi;
		   if
		   :: HOLDS
		   :: else -> break
		   fi
		od
#endif
#ifdef SLEEP /* shared_nap_begin() */
#ifdef START
	   :: d_step { threads == 1 -> unwoken = unwoken | ME }; /* and says nothing */
	      d_step { awake(ME) }
#endif
	   :: d_step { threads > 1 -> sleepers++ };
	      atomic {
		seen = pass;
		if
		:: seen == NOBODY || seen == own[me] -> seen = NOBODY; sleep = sleep | ME
		:: else
		fi
	      };
	      if
	      :: seen == NOBODY
	      :: else ->
		d_step {
			if
			:: pass == seen -> pass = NOBODY
			:: else
			fi;
			seen = 0;
			sleep = sleep | ME
		}
	      fi;
	      d_step {
		seen = 0;
		if
		:: changed & ME
		:: else -> unwoken = unwoken | ME
		fi;
		changed = changed & ~ME
	      };
	      d_step { awake(ME); sleepers--; sleep = sleep & ~ME }
#endif
#ifdef FORGET /* sn_holder_forget() */
	   :: d_step { stale = ALL; dated = ALL };
	      d_step { pass = NOBODY; outdated = outdated | dated }
#endif
	   od
	od
}

init
{
	atomic {
#ifdef LIST
		run memory();
		run visitor();
#endif
		run thread(0);
		run thread(1);
#if THREADS > 2
		run thread(2)
#endif
	}
}

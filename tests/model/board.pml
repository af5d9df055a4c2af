/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The board (src/local/board.h): posted receives that senders on the node may claim and write into while the
 * receiver computes. Claims checked over all interleavings of two senders, each with a few messages of two tags, small
 * (through its ring) or large (claim, else announce in the ring), and a receiver that posts receives with any mixture of
 * tag, any tag, source, any source:
 *   - a message never takes a receive that an earlier, still unmatched message of the same sender could take;
 *   - a message never takes a receive while an earlier, still open receive could take the message;
 *   - a receive is taken once, a message is taken once, and all messages are taken in the end.
 * Rules of the sender: claim only with nothing of its own unconsumed in the ring; note the board's post count first, ignore
 * younger entries, take the oldest that matches; claim by compare-and-swap on a word that holds the serial number.
 * Rules of the receiver: expose a receive only if no earlier open receive that is not on the board overlaps with it; match a
 * message from the ring with an exposed receive only after taking it off the board by compare-and-swap; publish the
 * ring's head only after the message has been matched or queued as unexpected.
 * With -DKILL a sender may be killed before its claim, between the two stores of it, and before it reports it: the receive
 * is then given back (with an error), nobody waits for it for ever, and a claim of the other sender is left alone.
 * Planted errors, each of which must be found: -DNO_COUNT, -DNO_EMPTY, -DEARLY_HEAD, -DNO_OVERLAP; with -DKILL: -DSTALE (the
 * claimant of the slot's last use is left there), -DNO_TAG (the claimant alone tells whose claim it is).
 */
#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef MSGS
#define MSGS 2 /* of each sender */
#endif
#ifndef CHOSEN
#define CHOSEN 1 /* receives with any pattern; then enough that take everything */
#endif
#define RECVS	(CHOSEN + SENDERS * MSGS)
#define SLOTS	2
#define ANY	2 /* tag or source */
#define NONE	255

/* messages: index s * MSGS + k */
byte mtag[4], taken;
bool sent[4], msg_taken[4];

/* the ring of sender s holds message numbers; tail - head unconsumed */
byte tail[2], head[2], eaten[2];

/* receives, index = serial */
byte rtag[RECVS], rsrc[RECVS], rslot[RECVS];
bool open[RECVS];
byte posts; /* serials given out = receives posted so far */
byte shown; /* the count on the board: serials below it are on the board or never will be */

/* the board: 0 free, 2 * serial + 2 posted, 2 * serial + 3 claimed */
byte word[SLOTS];
byte holder[SLOTS];   /* the tag inside the word: swapped with it */
byte claimant[SLOTS]; /* 0 none, else sender + 1: a store behind the swap */
bool reported[SLOTS]; /* the record of a finished claim stands in the ring */
byte claimed;	      /* ghost: entries claimed and not yet finished */
bool dead[2], swept[2];
byte broken[2]; /* ghost: claims that their sender did not live to report */

byte unexpected[4];
byte waiting;

#define FITS(m, s, r) ((rtag[r] == ANY || rtag[r] == mtag[m]) && (rsrc[r] == ANY || rsrc[r] == s))
#define MEET(r, q) ((rtag[r] == ANY || rtag[q] == ANY || rtag[r] == rtag[q]) && \
		    (rsrc[r] == ANY || rsrc[q] == ANY || rsrc[r] == rsrc[q]))

inline perhaps_die(held)
{
#ifdef KILL
	if
	:: atomic { dead[s] = true; broken[s] = held; goto killed }
	:: true
	fi
#else
	skip
#endif
}

/* ghost: message m of sender s takes receive r now; called inside atomic */
inline match(m, s, r)
{
	assert(!msg_taken[m] && open[r]);
	g = s * MSGS;
	do
	:: g >= m -> break
	:: else -> assert(!sent[g] || msg_taken[g] || !FITS(g, s, r)); g++
	od;
	g = 0;
	do
	:: g >= r -> break
	:: else -> assert(!(open[g] && FITS(m, s, g))); g++
	od;
	g = 0;
	msg_taken[m] = true;
	taken++;
	open[r] = false;
	mtag[m] = 0; /* never read again: states that differ in nothing else are one */
	if
	:: rslot[r] == NONE -> rtag[r] = 0; rsrc[r] = 0
	:: else
	fi
}

proctype sender(byte s)
{
	byte k = 0, m, i, best, count, w, seen, g;
	bool large;
	do
	:: k == MSGS -> break
	:: else ->
		m = s * MSGS + k;
		atomic {
			if
			:: mtag[m] = 0
			:: mtag[m] = 1
			fi;
			if
			:: large = true
			:: large = false
			fi;
			sent[m] = true
		}
		best = NONE;
		if
#ifdef NO_EMPTY
		:: large ->
#else
		:: large && head[s] == tail[s] ->
#endif
			count = shown;
#ifdef NO_COUNT
			count = RECVS;
#endif
			i = 0;
			do
			:: i == SLOTS -> break
			:: else ->
				atomic {
					w = word[i];
					if
					:: w >= 2 && w % 2 == 0 && (w - 2) / 2 < count &&
					   FITS(m, s, (w - 2) / 2) && (best == NONE || (w - 2) / 2 < best) ->
						best = (w - 2) / 2;
						seen = i
					:: else
					fi;
					i++
				}
			od
		:: else
		fi;
		if
		:: best != NONE ->
			perhaps_die(0);
			atomic { /* compare-and-swap */
				if
				:: word[seen] == 2 * best + 2 ->
					word[seen] = 2 * best + 3;
					holder[seen] = s;
					claimed++;
					match(m, s, best)
				:: else -> best = NONE
				fi
			}
			if
			:: best != NONE ->
				perhaps_die(1);
				claimant[seen] = s + 1;
				perhaps_die(1)
			:: else
			fi
		:: else
		fi;
		if
		:: best == NONE -> tail[s] = tail[s] + 1 /* message number s * MSGS + k goes into the ring */
		:: else -> atomic { /* it never went through the ring: keep numbers and cells together */
				(head[s] == tail[s]);
				tail[s] = tail[s] + 1;
				head[s] = head[s] + 1;
				eaten[s] = eaten[s] + 1;
				reported[seen] = true
			}
		fi;
		k++
	od;
killed:
	skip
}

/* Take message m from the ring of sender s: match it or queue it. */
inline consume(m, s)
{
	r = 0;
	hit = NONE;
	do
	:: r >= posts || hit != NONE -> break
	:: else ->
		if
		:: open[r] && FITS(m, s, r) && rslot[r] == NONE -> atomic { match(m, s, r); hit = r }
		:: rslot[r] != NONE && FITS(m, s, r) ->
			atomic { /* compare-and-swap: off the board, unless a sender was faster */
				if
				:: word[rslot[r]] == 2 * r + 2 ->
					word[rslot[r]] = 0;
					rslot[r] = NONE;
					match(m, s, r);
					hit = r
				:: word[rslot[r]] == 2 * r + 3 -> skip
				fi
			}
		:: else
		fi;
		r++
	od;
	if
	:: hit == NONE -> unexpected[waiting] = m; waiting++
	:: else
	fi
}

inline post()
{
	atomic {
		r = posts;
		if
		:: posts >= CHOSEN -> rtag[r] = ANY; rsrc[r] = ANY
		:: posts < CHOSEN ->
			if
			:: rtag[r] = 0
			:: rtag[r] = ANY
			fi;
			if
			:: rsrc[r] = 0
			:: rsrc[r] = ANY
			fi
		fi;
		rslot[r] = NONE;
		/* the receiver is one thread: searching its own queue needs no care */
		i = 0;
		hit = NONE;
		do
		:: i >= waiting -> break
		:: i < waiting && hit == NONE && FITS(unexpected[i], unexpected[i] / MSGS, r) ->
			hit = unexpected[i];
			waiting--;
			do
			:: i >= waiting -> break
			:: else -> unexpected[i] = unexpected[i + 1]; i++
			od;
			unexpected[waiting] = 0;
			break
		:: else -> i++
		od;
		open[r] = true;
		posts++;
		if
		:: hit != NONE -> match(hit, hit / MSGS, r)
		:: else
		fi;
		i = 0
	}
	if
	:: hit == NONE ->
		/* may it go on the board? */
		i = 0;
		ok = true;
#ifndef NO_OVERLAP
		do
		:: i >= r -> break
		:: else ->
			if
			:: rslot[i] == NONE && open[i] && MEET(i, r) -> ok = false
			:: else
			fi;
			i++
		od;
#endif
		i = 0;
		do
		:: i == SLOTS || !ok -> break
		:: i < SLOTS && ok && word[i] == 0 ->
			rslot[r] = i;
#ifndef STALE
			claimant[i] = 0;
#endif
			word[i] = 2 * r + 2;
			ok = false
		:: i < SLOTS && ok && word[i] != 0 -> i++
		od
	:: else
	fi;
	shown = posts
}

/* The entry is free again; its receive has ended. */
inline clear(slot)
{
	rtag[(word[slot] - 3) / 2] = 0;
	rsrc[(word[slot] - 3) / 2] = 0;
	rslot[(word[slot] - 3) / 2] = NONE;
	word[slot] = 0;
	holder[slot] = 0;
	reported[slot] = false;
	claimed--
}

#ifdef NO_TAG
#define HELD_BY(s) (claimant[i] == s + 1 || claimant[i] == 0)
#else
#define HELD_BY(s) (holder[i] == s && (claimant[i] == s + 1 || claimant[i] == 0))
#endif

/* The sender is known to be dead, and everything that it has put into the ring is consumed. */
inline sweep(s)
{
	i = 0;
	do
	:: i == SLOTS -> break
	:: else ->
		atomic {
			if
			:: word[i] % 2 == 1 && HELD_BY(s) -> assert(holder[i] == s); clear(i)
			:: else
			fi;
			i++
		}
	od;
	i = 0;
	swept[s] = true
}

#define EXPECTED(s) (swept[s] -> tail[s] + broken[s] : MSGS)

proctype receiver()
{
	byte r, i, hit, g, s;
	bool ok;
	do
	:: posts < RECVS -> post()
	:: eaten[0] < tail[0] || eaten[1] < tail[1] ->
		if
		:: eaten[0] < tail[0] -> s = 0
		:: eaten[1] < tail[1] -> s = 1
		fi;
#ifdef EARLY_HEAD
		head[s] = eaten[s] + 1;
#endif
		consume(s * MSGS + eaten[s], s);
		atomic { eaten[s] = eaten[s] + 1; head[s] = eaten[s] }
	:: atomic { reported[0] -> clear(0) }
	:: atomic { reported[1] -> clear(1) }
	:: dead[0] && !swept[0] && eaten[0] == tail[0] && !reported[0] && !reported[1] -> sweep(0)
#if SENDERS == 2
	:: dead[1] && !swept[1] && eaten[1] == tail[1] && !reported[0] && !reported[1] -> sweep(1)
	:: posts == RECVS && !claimed && taken == EXPECTED(0) + EXPECTED(1) -> break
#else
	:: posts == RECVS && !claimed && taken == EXPECTED(0) -> break
#endif
	od
}

init
{
	atomic {
		run sender(0);
#if SENDERS == 2
		run sender(1);
#endif
		run receiver()
	}
}

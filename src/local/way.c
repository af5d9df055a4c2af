/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The method follows the pair. What each way cost is learned for each peer (copy/learn.h), by whoever decides: the sender
 * that has claimed a receive, the receiver that pulls a message. It starts from what was measured on this machine
 * (copy/tune.h), and everything is asked anew when one of the two processes is seen on another processor.
 *
 * A stream needs both sides inside the library, while the other ways do not; so it is taken only if the peer is seen to
 * poll, which costs the look of a moment and only where a stream would be the choice.
 */
#include "base/conf.h"
#include "base/log.h"
#include "copy/tune.h"
#include "local/local.h"
#include "progress/relax.h"
#include <sched.h>

#define LOOK_NS	    400	  /* a process that waits polls several times in this */
#define LAP_NS	    20000 /* and 2 ns a byte: slower loops do something else than exchanging messages */
#define MESH_PAUSE  4	  /* times that: to look at what came from all others, and to make what goes there */
#define MESH_MOST   1000000 /* ns: to copy more than some MiB is no pause, but who computes so long is away */
#define FAR_WHOLE   8191    /* bytes; see sn_way_set_whole() */
#define CROWD_EAGER 16384
#define LOG_64K	    16
#define MOVED_AGAIN 64 /* messages: unbound processes that wander are not followed at each step */
#define SHOWN_EACH  16
#define SLOW	    0.1f /* ns */
#define TUNE_MIB    10	 /* index of 1 MiB in the curves */

/* What is not counted of a group shall turn a second-level cache over: half a MiB. */
static uint8_t shift_of(unsigned log)
{
	return (uint8_t)(log <= LOG_64K ? 0 : SN_MIN_OF(log - LOG_64K, 2u));
}

void sn_way_init(struct sn_link *link)
{
	uint32_t mbytes_s[SN_WAYS] = {10000, 18000, 8000, 20000, 12000},
		 start_ns[SN_WAYS] = {1500, 2500, 1500, 2500, 2000};
	const struct sn_tune *t = sn_tune_of(SN_TUNE_FAR);
	if (!t->measured)
		t = sn_tune_of(SN_TUNE_NEAR);
	if (t->measured && t->ns[SN_TUNE_KERNEL][TUNE_MIB] > 0 && t->ns[SN_TUNE_STREAM][TUNE_MIB] > 0) {
		mbytes_s[SN_WAY_SINGLE] = (uint32_t)((1000 << 20) / t->ns[SN_TUNE_KERNEL][TUNE_MIB]);
		mbytes_s[SN_WAY_SHARED] = mbytes_s[SN_WAY_SINGLE] * 9 / 5;
		mbytes_s[SN_WAY_STREAM] = (uint32_t)((1000 << 20) / t->ns[SN_TUNE_STREAM][TUNE_MIB]);
	}
	bool first = link->rail->ids.id > link->ids.id;
	for (unsigned i = 0; i < SN_WAY_LAPS; i++) {
		link->past_ring[i].seldom = true;
		link->laps[i].first = link->fetched[i].first = link->past_ring[i].first = first;
		link->aside[i].first = first;
		link->aside[i].shift = link->laps[i].shift = link->fetched[i].shift =
			link->past_ring[i].shift = shift_of(i + SN_WAY_LAP_FIRST);
	}
	for (unsigned i = 0; i < SN_LEARN_CLASSES; i++) {
		link->past[i].first = first;
		link->past[i].shift = shift_of(i + SN_LEARN_FIRST);
	}
	/* Where it is, somebody put it there: it comes first until its messages say otherwise. */
	mbytes_s[SN_WAY_MODULE] = mbytes_s[SN_WAY_SHARED] / 10 * 11;
	for (int order = 0; order < SN_ORDERS; order++) {
		sn_learn_init(&link->learn[order], mbytes_s, start_ns);
		/* The module's first copy from a buffer pins the memory: one sample would not do it justice. */
		for (unsigned i = 0; i < SN_LEARN_CLASSES && (link->rail->kmod || link->rail->dsa); i++)
			link->learn[order].at[i].fresh = SN_LEARN_FRESH * SN_WAYS;
	}
}

/*
 * A large message uses these buffers. Those in the shareable heap are left as they are: collapsing pages that another
 * process maps too made messages of 8 MiB and more about twice as slow (docs/tuning.md).
 */
void sn_way_huge(struct sn_rail *rail, uint64_t len, const struct iovec *iov, uint32_t count)
{
	if (len >= SN_HUGE_BYTES && !sn_heap_holds(&rail->heap, iov, count))
		sn_huge_seen(&rail->huge, iov, count);
}

/* Does the peer look for messages at this moment? */
static bool peer_polls(const struct sn_link *link)
{
	if (!link->board)
		return false;
	uint64_t seen = atomic_load_explicit(&link->board->polls, memory_order_relaxed),
		 end = sn_now_ns() + LOOK_NS;
	do {
		if (atomic_load_explicit(&link->board->polls, memory_order_relaxed) != seen)
			return true;
		sn_cpu_relax();
	} while (sn_now_ns() < end);
	return false;
}

/* On another processor everything may cost something else. sched_getcpu() costs 3 ns: it asks the vDSO, or reads
 * the thread's rseq area where it has one. */
static void look_for_moves(struct sn_link *link)
{
	uint32_t own = (uint32_t)(sched_getcpu() + 1), theirs = 0;
	if (link->board)
		theirs = atomic_load_explicit(&link->board->cpu, memory_order_relaxed);
	if (atomic_load_explicit(&link->rail->board->cpu, memory_order_relaxed) != own)
		atomic_store_explicit(&link->rail->board->cpu, own, memory_order_relaxed);
	link->since_move++;
	if (own == link->cpus[0] && theirs == link->cpus[1])
		return;
	bool known = link->cpus[0] && link->cpus[1] && link->since_move >= MOVED_AGAIN;
	link->cpus[0] = own;
	link->cpus[1] = theirs;
	link->since_move = 0;
	if (!known)
		return;
	link->rail->count.moves++;
	sn_debug("%s (pid %u): one of us runs on another processor; the ways are asked anew",
		 sn_core_peer_name(link->peer).text, link->pid);
	for (int order = 0; order < SN_ORDERS; order++)
		for (unsigned i = 0; i < SN_LEARN_CLASSES; i++)
			sn_learn_restart(&link->learn[order].at[i]);
}

static inline uint64_t lap_bound(uint64_t len)
{
	return LAP_NS + 2 * len;
}

/*
 * What is tried with messages of one size, as sn_lap_shows() tells it: `but` one lap. A lap that is not asked at
 * present may have stopped in a trial. How a copy is made, or who makes it, changes how long ring or straight seem to
 * take, and the other way round: so of all laps of a size one tries at a time, and the others do not count what they
 * see meanwhile.
 */
static uint8_t tries_of(const struct sn_link *link, unsigned log, const struct sn_lap *but)
{
	unsigned class = log - SN_WAY_LAP_FIRST, tries = 0;
	bool now = false, choice = class < SN_WAY_LAPS, straight = !choice || link->laps[class].way;
	const struct sn_lap *past = log < SN_LEARN_FIRST ? NULL : &link->past[log - SN_LEARN_FIRST];
	const struct {
		const struct sn_lap *lap;
		bool asked;
	} of[] = {
		{choice ? &link->laps[class] : NULL, true},
		{choice ? &link->fetched[class] : NULL, straight},
		{choice ? &link->past_ring[class] : NULL, !straight && !sn_relax_crowded()},
		{past, past && straight && !(past->seldom && sn_relax_crowded())},
	};
	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		if (!of[i].lap || of[i].lap == but)
			continue;
		tries += of[i].lap->tries;
		now |= of[i].asked && of[i].lap->trial;
	}
	return (uint8_t)(tries << 1 | now);
}

/* What the peer shows of its trials, and what this side does (wire.h): a line that changes twice a trial. */
static uint8_t seen_of(const struct sn_link *link, unsigned log, const struct sn_lap *l)
{
	unsigned own = tries_of(link, log, l), theirs = 0;
	if (link->rx.chan)
		theirs = atomic_load_explicit(&link->rx.chan->tries[log - SN_WAY_LAP_FIRST],
					      memory_order_relaxed);
	return (uint8_t)(((own >> 1) + (theirs >> 1)) << 1 | ((own | theirs) & 1));
}

static void show_tries(struct sn_link *link, unsigned log)
{
	_Atomic uint8_t *at = link->tx.chan ? &link->tx.chan->tries[log - SN_WAY_LAP_FIRST] : NULL;
	uint8_t shown = tries_of(link, log, NULL);
	if (at && atomic_load_explicit(at, memory_order_relaxed) != shown)
		atomic_store_explicit(at, shown, memory_order_relaxed);
}

/* While ring or straight is tried the other laps rest, and what is tried is made as they say: so they begin right at once. */
static void laps_anew(struct sn_link *link)
{
	for (unsigned i = 0; i < SN_WAY_LAPS; i++) {
		sn_lap_anew(&link->laps[i], 0);
		sn_lap_anew(&link->aside[i], 0);
		sn_lap_anew(&link->fetched[i], 0);
		sn_lap_anew(&link->past_ring[i], link->far.far);
	}
	for (unsigned i = 0; i < SN_LEARN_CLASSES; i++)
		if (sn_way_gives_back(1u << (i + SN_LEARN_FIRST)))
			sn_lap_anew(&link->past[i], link->far.far);
	for (unsigned log = SN_WAY_LAP_FIRST; log < SN_LEARN_FIRST + SN_LEARN_CLASSES; log++)
		show_tries(link, log);
}

/*
 * Between cores that are far apart the two copies of two pages, one after the other, take longer than what is saved
 * by going at once, so they are asked about like what is longer. A page and a half gains half as much by it, a page
 * nothing.
 */
void sn_way_set_whole(struct sn_link *link)
{
	link->whole = SN_MIN_OF(link->eager, link->far.far ? FAR_WHOLE : SN_PART_FROM - 1);
	if (link->tx.chan)
		atomic_store_explicit(&link->tx.chan->whole, link->whole, memory_order_relaxed);
}

/* In a crowd the lines are in no cache, or in this core's. */
void sn_way_set_apart(struct sn_link *link)
{
	bool asks = sn_copy_asks_ahead(), apart = asks && sn_far_apart(&link->far) && !sn_relax_crowded();
	uint32_t usual = link->far.far && !asks ? SN_RING_AHEAD_FAR : SN_RING_AHEAD_MAX;
	link->tx.ahead = apart ? SN_RING_AHEAD_APART : usual;
}

/*
 * Where the peer's core is found elsewhere than before nothing that was learned holds. The laps would see that, too,
 * one after the other. now: 0 if the clock has not been read, while nothing is known.
 */
static void look_how_far(struct sn_link *link, uint64_t now)
{
	if (!link->board || !sn_far_asks(&link->far, now))
		return;
	uint64_t start = sn_now_ns(), polls = atomic_load_explicit(&link->board->polls, memory_order_relaxed);
	bool before = link->far.far;
	bool turned = sn_far_look(&link->far, start, polls, sn_now_ns() - start);
	sn_way_set_apart(link);
	if (!turned)
		return;
	if (link->far.far != before) {
		laps_anew(link);
		sn_way_set_whole(link);
	}
	sn_show_far(link);
}

/*
 * The way for the next message, of len bytes, 1 << log. now: 0 if the clock has not been read; that, and what else is
 * tried, is read when it is due. *turned: a trial has begun, or ended.
 */
static bool lap_next(struct sn_link *link, struct sn_lap *l, unsigned log, uint64_t len, uint64_t now,
		     unsigned preferred, bool *turned)
{
	bool due = sn_lap_asks(l);
	if (due && !now)
		now = sn_now_ns();
	if (due || sn_unlikely(!link->far.known)) {
		look_how_far(link, now);
		due = sn_lap_asks(l);
	}
	bool trial = l->trial;
	if (l->seldom && sn_lap_fresh(l)) /* between cores that are far apart it is not seldom */
		preferred = link->far.far;
	bool way = sn_lap_next(l, now, lap_bound(len), preferred, due ? seen_of(link, log, l) : 0);
	*turned = trial != (l->trial != 0);
	if (sn_unlikely(*turned))
		show_tries(link, log);
	return way;
}

/*
 * What cannot be mapped is not fetched for less. In a crowd whoever comes first copies: the other one does not have
 * the core.
 */
bool sn_way_meshed(const struct sn_link *link)
{
	return sn_unlikely(sn_mesh_is(&link->rail->mesh)) && link->heap.map && !sn_relax_crowded();
}

bool sn_way_mesh(struct sn_link *link, uint64_t len)
{
	uint64_t pause = SN_MIN_OF(MESH_PAUSE * lap_bound(len), (uint64_t)MESH_MOST);
	bool mesh = sn_mesh_see(&link->rail->mesh, link, pause) && sn_way_meshed(link);
	link->rail->count.meshed += mesh;
	return mesh;
}

/*
 * Buffers in the shareable heap are copied without the kernel, for a fraction of what others cost, so what was
 * learned of one kind says nothing about the other. The trials go on being counted, or the peer would see some where
 * there are none.
 */
static void turn_to(struct sn_link *link, unsigned class, bool heap)
{
	struct sn_lap *l = &link->laps[class], other = link->aside[class];
	if ((link->heap_laps >> class & 1) == heap)
		return;
	link->heap_laps ^= 1u << class;
	link->aside[class] = *l;
	other.tries = l->tries;
	*l = other;
	show_tries(link, class + SN_WAY_LAP_FIRST);
}

/*
 * A message that lies in memory which the peer maps is fetched for less than its second copy would cost, so longer
 * ones do not go uninvited, unless the user has said that they shall. In a crowd to wait for the peer may cost a
 * turn, so more do. Open MPI and MPICH invite from 4 and 8 KiB on, and what programs wrongly rely on is what these
 * allow. See docs/tuning.md.
 */
bool sn_way_invited(const struct sn_link *link, uint64_t len, bool heap)
{
	return heap && link->heap.map && len > link->whole && len > link->eager_asked &&
	       !link->rail->closing && sn_conf_num(SN_CONF_COPY) == SN_COPY_AUTO &&
	       (len > CROWD_EAGER || !sn_relax_crowded());
}

/*
 * More processes than cores: the receiver is seldom there while a message is written, so a ring makes two copies of
 * it, one after the other, of which the second one often fetches what has left the cache until then; and the turns of
 * the others cost more than laps can tell apart. So what need not go uninvited goes straight, or is fetched, and
 * nothing is tried.
 */
bool sn_way_crowd(const struct sn_link *link, uint64_t len, bool heap)
{
	return sn_unlikely(sn_relax_crowded()) && sn_way_invited(link, len, heap);
}

bool sn_way_straight(struct sn_link *link, uint64_t len, bool eager, bool heap)
{
	unsigned log = 63u - (unsigned)__builtin_clzll(len | 1), class = log - SN_WAY_LAP_FIRST;
	if (log < SN_WAY_LAP_FIRST || class >= SN_WAY_LAPS || sn_conf_num(SN_CONF_COPY) != SN_COPY_AUTO)
		return !eager;
	if (sn_way_crowd(link, len, heap)) {
		sn_way_set_apart(link);
		return true;
	}
	turn_to(link, class, heap);
	struct sn_lap *l = &link->laps[class];
	bool turned, straight = lap_next(link, l, log, len, 0, !eager, &turned);
	if (sn_unlikely(turned))
		sn_show_lap(link, class);
	return straight;
}

/* Has the loop that sends such messages done something else since the last one? Then the peer may be away, too. */
static bool pauses(struct sn_link *link, uint64_t len, uint64_t now)
{
	bool paused = now > link->straight_at + lap_bound(len);
	link->straight_at = now;
	return paused;
}

/*
 * In a loop in which both sides send at once, now the receive is posted first, now the message, so that a buffer is written
 * now by one core and now by the other, and its lines change caches each time. Left to the receiver they stay. Learned only
 * while it is settled that such messages go straight. After a pause the receiver may be away computing, and only a claim
 * needs nothing of it; so the clock is read for each message, 25 ns of 2 us and more.
 */
bool sn_way_claims(struct sn_link *link, uint64_t len)
{
	unsigned log = 63u - (unsigned)__builtin_clzll(len | 1), class = log - SN_WAY_LAP_FIRST;
	if (class >= SN_WAY_LAPS || sn_conf_num(SN_CONF_COPY) != SN_COPY_AUTO)
		return true;
	struct sn_lap *l = &link->fetched[class];
	uint64_t now = sn_now_ns();
	bool paused = pauses(link, len, now);
	if (paused || link->laps[class].trial) {
		l->count = 0;
		return paused || !l->way;
	}
	bool turned, fetched = lap_next(link, l, log, len, now, 0, &turned);
	if (sn_unlikely(turned))
		sn_show_fetched(link, class);
	return !fetched;
}

/*
 * Longer ones are not learned: where a receive of half as many bytes or more is shown to the peer alone, and nothing has
 * come for it, both sides send at once, and each fetches what it is sent (rdv.c) while the other does. After a pause, as
 * above, the peer may be away, and in a crowd it has not the core.
 */
bool sn_way_exchanges(struct sn_link *link, uint64_t len)
{
	if (len >> (SN_WAY_LAP_FIRST + SN_WAY_LAPS) == 0 || sn_conf_num(SN_CONF_COPY) != SN_COPY_AUTO ||
	    sn_relax_crowded())
		return false;
	const struct sn_rail *rail = link->rail;
	bool paused = pauses(link, len, sn_now_ns());
	for (uint64_t left = paused ? 0 : rail->shown; left; left &= left - 1) {
		int slot = __builtin_ctzll(left);
		if (rail->show[slot].source == link && rail->show[slot].room >= len / 2)
			return true;
	}
	return false;
}

/*
 * Lines that a receiver on a far core is to read are better in memory than in this core's cache, where they are near
 * as well as far slower to fetch. Learned only while it is settled that such messages go through the ring. Not in a
 * crowd: half of the receivers are on this very core, and the turns of the others make one group of messages longer
 * than the next, so that trials were lost time, and what they said was chance.
 */
bool sn_way_learns_ring(struct sn_link *link, uint64_t len)
{
	unsigned log = 63u - (unsigned)__builtin_clzll(len), class = log - SN_WAY_LAP_FIRST;
	if (sn_relax_crowded()) {
		sn_way_set_apart(link); /* nothing else looks then */
		return false;
	}
	if (class >= SN_WAY_LAPS)
		return false;
	const struct sn_lap *straight = &link->laps[class];
	struct sn_lap *l = &link->past_ring[class];
	if (straight->trial || straight->way) {
		l->count = 0;
		return l->way;
	}
	bool turned, past = lap_next(link, l, log, len, 0, 0, &turned);
	if (sn_unlikely(turned))
		sn_show_past_ring(link, class);
	return past;
}

bool sn_way_gives_back(uint64_t len)
{
	return len < (uint64_t)sn_conf_num(SN_CONF_NONTEMPORAL);
}

/*
 * Bypassing the cache is 1.3 to 1.5 times as fast where the buffers are not in it, or do not fit; a receiver that looks
 * at the bytes then fetches them from memory, and is slower by a tenth to a third. See docs/tuning.md. Not learned while ring
 * or straight is tried.
 *
 * Of shorter messages it pays between cores that are so far apart that a line which the other core has seen takes
 * long to write, though then many times: who writes does so past the cache, and who reads gives the lines back. So it
 * is tried where a message takes SLOW ns a byte and more; no two cores that share a cache need so long for the copy,
 * though what the program does besides is counted, too. A message that is shorter than the first class takes that for
 * itself, wherever the cores are: so none is tried. Nor in a crowd, where what trials say is chance.
 */
bool sn_way_bypass(struct sn_link *link, uint64_t len)
{
	unsigned class = sn_learn_class_of(len);
	bool shorter = sn_way_gives_back(len);
	if (shorter && (len < 1u << SN_LEARN_FIRST || !link->rail->gives_back || sn_relax_crowded()))
		return false;
	struct sn_lap *l = &link->past[class];
	if (shorter && sn_way_meshed(link)) {
		l->count = 0;
		return false;
	}
	unsigned log = class + SN_LEARN_FIRST, choice = log - SN_WAY_LAP_FIRST;
	bool turned = false, past = l->way;
	l->seldom = shorter;
	l->worth = shorter ? SLOW * (float)len : 0;
	if (choice < SN_WAY_LAPS && link->laps[choice].trial)
		l->count = 0;
	else
		past = lap_next(link, l, log, len, 0, 0, &turned);
	if (sn_unlikely(turned))
		sn_show_past(link, class);
	link->rail->count.bypassed += past;
	return past;
}

void sn_way_copy_in(const struct sn_link *link, void *to, const struct iovec *iov, uint32_t count,
		    uint64_t offset, uint64_t n, bool past)
{
	const char *from = (const char *)iov->iov_base + offset;
	if (sn_unlikely(count != 1))
		sn_iov_read(to, iov, count, offset, n);
	else if (sn_unlikely(past))
		sn_copy_bypass(to, from, n);
	else if (sn_way_apart(link))
		sn_copy_away(to, from, n);
	else
		sn_copy_between(to, from, n);
}

enum sn_way sn_way_pick(struct sn_link *link, enum sn_order order, uint64_t len, unsigned allowed)
{
	struct sn_learn_class *c = &link->learn[order].at[sn_learn_class_of(len)];
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	if (copy == SN_COPY_SHARED && allowed & 1u << SN_WAY_SHARED)
		return SN_WAY_SHARED;
	if (copy == SN_COPY_KMOD && allowed & 1u << SN_WAY_MODULE)
		return SN_WAY_MODULE;
	if (copy != SN_COPY_AUTO)
		return SN_WAY_SINGLE;
	look_for_moves(link);
	enum sn_way way = sn_learn_pick(c, allowed);
	if (way == SN_WAY_STREAM && !peer_polls(link))
		way = sn_learn_best(c, allowed & ~(1u << SN_WAY_STREAM));
	return way;
}

void sn_way_note(struct sn_link *link, enum sn_order order, enum sn_way way, uint64_t len, uint64_t ns)
{
	unsigned class = sn_learn_class_of(len);
	struct sn_learn_class *c = &link->learn[order].at[class];
	uint32_t relearned = c->relearned;
	bool changed = sn_learn_note(c, way, len, ns);
	if (c->relearned != relearned)
		sn_info("%s (pid %u): messages of %llu bytes %s %s cost something else now; asked anew",
			sn_core_peer_name(link->peer).text, link->pid, (unsigned long long)len,
			order == SN_ORDER_CLAIM || order == SN_ORDER_CLAIM_MAPPED ? "sent" : "received",
			sn_way_name(way));
	if (changed || c->turn % SHOWN_EACH == 1)
		sn_show_way(link, order, class);
}

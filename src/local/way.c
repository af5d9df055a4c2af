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
#include <sched.h>

#define LOOK_NS	    400	       /* a process that waits polls several times in this */
#define LAP_NS	    20000      /* and 2 ns a byte: slower loops do something else than exchanging messages */
#define LONG	    (1u << 20) /* from here on groups of laps are shorter */
#define LONGER	    (4u << 20)
#define MOVED_AGAIN 64 /* messages: unbound processes that wander are not followed at each step */
#define SHOWN_EACH  16
#define TUNE_MIB    10 /* index of 1 MiB in the curves */

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
	}
	for (unsigned i = 0; i < SN_LEARN_CLASSES; i++)
		link->past[i].first = first;
	/* Where it is, somebody put it there: it comes first until its messages say otherwise. */
	mbytes_s[SN_WAY_MODULE] = mbytes_s[SN_WAY_SHARED] / 10 * 11;
	for (int order = 0; order < SN_ORDERS; order++) {
		sn_learn_init(&link->learn[order], mbytes_s, start_ns);
		/* The module's first copy from a buffer pins the memory: one sample would not do it justice. */
		for (unsigned i = 0; i < SN_LEARN_CLASSES && (link->rail->kmod || link->rail->dsa); i++)
			link->learn[order].at[i].fresh = SN_LEARN_FRESH * SN_WAYS;
	}
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

/* On another processor everything may cost something else. sched_getcpu() costs 3 ns: glibc 2.35 and later read the
 * thread's rseq area, earlier ones ask the vDSO. */
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
	sn_debug("peer %u (pid %u): one of us runs on another processor; the ways are asked anew",
		 sn_core_peer_number(link->peer), link->pid);
	for (int order = 0; order < SN_ORDERS; order++)
		for (unsigned i = 0; i < SN_LEARN_CLASSES; i++)
			sn_learn_restart(&link->learn[order].at[i]);
}

static inline uint64_t lap_bound(uint64_t len)
{
	return LAP_NS + 2 * len;
}

/* What the peer shows of its trials, and what this side does (wire.h): a line that changes twice a trial. */
static uint8_t peer_tries(const struct sn_link *link, unsigned index)
{
	return link->rx.chan ? atomic_load_explicit(&link->rx.chan->tries[index], memory_order_relaxed) : 0;
}

static void show_tries(struct sn_link *link, unsigned index, uint8_t shown)
{
	_Atomic uint8_t *at = link->tx.chan ? &link->tx.chan->tries[index] : NULL;
	if (at && atomic_load_explicit(at, memory_order_relaxed) != shown)
		atomic_store_explicit(at, shown, memory_order_relaxed);
}

/* Ring or straight, and how then: one is learned at a time, so they share what they show. */
static void show_class(struct sn_link *link, unsigned class)
{
	const struct sn_lap *l = &link->laps[class], *f = &link->fetched[class], *r = &link->past_ring[class];
	bool now = l->trial || (l->way ? f->trial : r->trial);
	show_tries(link, class, (uint8_t)((l->tries + f->tries + r->tries) << 1 | now));
}

/*
 * The way for the next message of so many bytes. now: 0 if the clock has not been read; that, and what the peer shows at `shown`, is
 * read when it is due. *turned: a trial has begun, or ended.
 */
static bool lap_next(const struct sn_link *link, struct sn_lap *l, unsigned shown, uint64_t len, uint64_t now,
		     unsigned preferred, bool *turned)
{
	bool due = sn_lap_asks(l), trial = l->trial;
	if (due && !now)
		now = sn_now_ns();
	bool way = sn_lap_next(l, now, lap_bound(len), preferred, due ? peer_tries(link, shown) : 0);
	*turned = trial != (l->trial != 0);
	return way;
}

bool sn_way_straight(struct sn_link *link, uint64_t len, bool eager)
{
	unsigned log = 63u - (unsigned)__builtin_clzll(len | 1), class = log - SN_WAY_LAP_FIRST;
	if (log < SN_WAY_LAP_FIRST || class >= SN_WAY_LAPS || sn_conf_num(SN_CONF_COPY) != SN_COPY_AUTO)
		return !eager;
	struct sn_lap *l = &link->laps[class];
	bool turned, straight = lap_next(link, l, class, len, 0, !eager, &turned);
	if (sn_unlikely(turned)) {
		show_class(link, class);
		sn_show_lap(link, class);
	}
	return straight;
}

/*
 * In a loop in which both sides send at once, now the receive is posted first, now the message, so that a buffer is written
 * now by one core and now by the other, and its lines change caches each time. Left to the receiver they stay. Learned only
 * while it is settled that such messages go straight. After a pause the receiver may be away computing, and only a claim
 * needs nothing of it; so the clock is read for each message, 25 ns of 2 us and more.
 */
bool sn_way_claims(struct sn_link *link, uint64_t len)
{
	unsigned class = 63u - (unsigned)__builtin_clzll(len | 1) - SN_WAY_LAP_FIRST;
	if (class >= SN_WAY_LAPS || sn_conf_num(SN_CONF_COPY) != SN_COPY_AUTO)
		return true;
	struct sn_lap *l = &link->fetched[class];
	uint64_t now = sn_now_ns();
	bool paused = now > link->straight_at + lap_bound(len);
	link->straight_at = now;
	if (paused || link->laps[class].trial) {
		l->count = 0;
		return paused || !l->way;
	}
	bool turned, fetched = lap_next(link, l, class, len, now, 0, &turned);
	if (sn_unlikely(turned)) {
		show_class(link, class);
		sn_show_fetched(link, class);
	}
	return !fetched;
}

/*
 * Lines that a receiver on a far core is to read are better in memory than in this core's cache, where they are near as well
 * as far slower to fetch. Learned only while it is settled that such messages go through the ring.
 */
bool sn_way_learns_ring(struct sn_link *link, uint64_t len)
{
	unsigned class = 63u - (unsigned)__builtin_clzll(len) - SN_WAY_LAP_FIRST;
	if (class >= SN_WAY_LAPS)
		return false;
	const struct sn_lap *straight = &link->laps[class];
	struct sn_lap *l = &link->past_ring[class];
	if (straight->trial || straight->way) {
		l->count = 0;
		return l->way;
	}
	bool turned, past = lap_next(link, l, class, len, 0, 0, &turned);
	if (sn_unlikely(turned)) {
		show_class(link, class);
		sn_show_past_ring(link, class);
	}
	return past;
}

/*
 * Bypassing the cache is 1.3 to 1.5 times as fast where the buffers are not in it, or do not fit; a receiver that looks
 * at the bytes then fetches them from memory, and is slower by a tenth to a third. See docs/tuning.md.
 */
bool sn_way_bypass(struct sn_link *link, uint64_t len)
{
	unsigned class = sn_learn_class_of(len);
	if (len < (uint64_t)sn_conf_num(SN_CONF_NONTEMPORAL))
		return false;
	struct sn_lap *l = &link->past[class];
	l->shift = len < LONG ? 0 : len < LONGER ? 1 : 2;
	unsigned shown = SN_WAY_LAPS + class;
	bool turned, past = lap_next(link, l, shown, len, 0, 0, &turned);
	if (sn_unlikely(turned)) {
		show_tries(link, shown, sn_lap_shows(l));
		sn_show_past(link, class);
	}
	link->rail->count.bypassed += past;
	return past;
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
		sn_info("peer %u (pid %u): messages of %llu bytes %s %s cost something else now; asked anew",
			sn_core_peer_number(link->peer), link->pid, (unsigned long long)len,
			order == SN_ORDER_CLAIM || order == SN_ORDER_CLAIM_MAPPED ? "sent" : "received",
			sn_way_name(way));
	if (changed || c->turn % SHOWN_EACH == 1)
		sn_show_way(link, order, class);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy for somebody who certainly waits: what he does depends on how long nothing has come.
 *  - spin: an answer usually takes less than the 50 us that a sleep and a wake-up cost. Skipped when there are more
 *    local processes than cores: then the one that would answer probably waits for this very core. Who has slept and
 *    was woken within LONGER_NS of the beginning of the wait is awake so long the next times, giving the core away
 *    between two looks from the 50 us on: until one of his waits takes longer than that. For one sleep brings others:
 *    in a ring of ranks (each sends to the next one) he who has to be woken, 15 us and more, holds up all others in
 *    turn, each of whom sleeps meanwhile, so that the delay goes round and round. With 16 ranks on 16 cores (Xeon,
 *    virtual) a step took 4 to 12 us, and 0.7 if nobody slept; with 8, where it is round in less than 50 us, 0.5
 *    always. Not where somebody else, of whom nothing is known here, wants this core: to him a yield gives a time
 *    slice (4 ms), while who sleeps and is woken has the core back at once. Three slices in a row, and for a second
 *    everybody sleeps after the 50 us.
 *  - yield, only when there are more processes than cores, for YIELD_NS: a wait is then a time slice and not a
 *    wake-up, and a yield (1 us with a switch) is dearer than nothing but cheaper than sleeping and being woken.
 *    Skipped where yields hand nothing on (progress/turns.h), or only to one who computes (progress/beside.h). And,
 *    from FAR_NS of the wait on, where some answers come from other hosts: on their way, too, may be somebody who
 *    waits for this very core, of whom nothing is known here: ranks in other containers, a network in user space, the
 *    kernel's own threads. Where nobody is, a yield is 0.2 us of a long wait. Who finds again and again what he waits
 *    for after such a yield, and only then, yields from the beginning: sooner it cannot come.
 *  - nap on the bell. A ring ends any nap. Where answers come from other hosts not before FAR_AWAKE_NS: sooner
 *    nothing would ring (net/rail.c), and a nap that nobody ends takes its 50 us, and as much again for the kernel's
 *    timer. A step takes a quarter of the time waited so far (awake at most 50 us, a nap at least 50 us): so a caller
 *    who has to look at other things too looks often at first, and an idle one costs next to nothing. Within the step
 *    he looks again and again, which is cheaper than to go back to his caller each time. In a crowd it takes the 50
 *    us from the beginning: others have had the core since, so each turn begins with cold caches, and what costs most
 *    of it is the way through the caller.
 */
#include "progress/relax.h"
#include "base/base.h"
#include "base/conf.h"
#include "progress/bell.h"
#include "progress/beside.h"
#include "progress/bringer.h"
#include "progress/engine.h"
#include "progress/lost.h"
#include "progress/slice.h"
#include "progress/spread.h"
#include "progress/turns.h"
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

#define YIELD_NS	 1000000u
#define NAP_MIN_NS	 50000u
#define FAR_NS		 8000u
#define FAR_AWAKE_NS	 (SN_RELAX_FAR_ARM + 10000u)
#define JUDGE_NS	 50000000u
#define LONGER_NS	 1000000u
#define LOST_WITHIN_NS	 100000000u
#define LOST_FOR_NS	 1000000000u
#define LOOKS		 8  /* between two readings of the clock (25 ns each) */
#define FIRST_LOOKS	 64 /* of a wait, before the clock is read at all: about 2 us */
#define CLOCKED		 16 /* of so many waits in a crowd one reads the clock at its first turn */
#define POLLED_YIELD	 10 /* times the spinning of one who may do other things */
#define POLLED_YIELD_MIN 100000u

static _Atomic unsigned crowd, full, far_rails;
static _Atomic unsigned threads_cores; /* 0: there is no such thread */
static _Atomic unsigned rivals;	       /* as sn_relax_crowd() was told */
static _Atomic uint64_t judge_at;      /* when to ask for the cores again */
static _Atomic uint64_t count_naps, count_yields, count_awake;
static _Atomic uint32_t longer;	      /* ns that waits with sleeps in them took lately; 0: too long */
static _Atomic uint64_t wanted_until; /* somebody else wants the core: nobody stays awake for longer */
static _Thread_local uint32_t
	napped_for; /* ns until the end of the last sleep of the wait that is on, or was */

static bool bound(void)
{
	return sn_topo_cpus_allowed() < sn_topo()->cpus;
}

/*
 * Of the ranks of this node, too, that this process has not spoken to: in pairs each knows one other. Not if it is
 * bound: they may be elsewhere.
 */
static unsigned processes(unsigned peers)
{
	return peers && !bound() ? SN_MAX_OF(peers + 1, (unsigned)sn_topo()->launched) : peers + 1;
}

static void judge(unsigned peers)
{
	unsigned here = processes(peers), launched = (unsigned)sn_topo()->launched;
	bool crowded = here > (unsigned)sn_topo_cpus_allowed();
	unsigned cores = atomic_load_explicit(&threads_cores, memory_order_relaxed);
	atomic_store_explicit(&crowd, crowded, memory_order_relaxed);
	atomic_store_explicit(&full, !crowded && cores && SN_MAX_OF(here, launched) >= cores,
			      memory_order_relaxed);
}

void sn_relax_crowd(unsigned peers)
{
	atomic_store_explicit(&rivals, peers, memory_order_relaxed);
	judge(peers);
}

/*
 * Somebody may bind the process while it runs, or take a core away from the machine, or give it back. To ask for that
 * is too dear at each step, so who waits on after the first looks does so now and then: ranks that have one core left
 * would keep it from each other, spinning, and be woken for each message (8 bytes in 56 us instead of 1.5). Who is
 * not bound has those for rivals, too, who have not told where they are.
 */
static void judge_again(uint64_t now)
{
	if (sn_likely(now < atomic_load_explicit(&judge_at, memory_order_relaxed)))
		return;
	atomic_store_explicit(&judge_at, now + JUDGE_NS, memory_order_relaxed);
	int told = sn_spread_rivals();
	unsigned met = bound() ? 0 : atomic_load_explicit(&rivals, memory_order_relaxed);
	if (told >= 0)
		judge(SN_MAX_OF((unsigned)told, met));
}

void sn_relax_describe(unsigned peers, char *out, size_t room)
{
	int cores = sn_topo_cpus_allowed();
	unsigned count = processes(peers);
	int n = snprintf(out, room, "%u process%s for %d core%s: ", count, count > 1 ? "es" : "", cores,
			 cores == 1 ? "" : "s");
	if (n < 0 || (size_t)n >= room)
		return;
	if (count > (unsigned)cores)
		snprintf(out + n, room - (size_t)n, "who waits yields for %u us, then sleeps",
			 YIELD_NS / 1000);
	else
		snprintf(out + n, room - (size_t)n, "who waits spins for %lld us, then sleeps",
			 (long long)sn_conf_num(SN_CONF_SPIN));
}

void sn_relax_counters(void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	fn(arg, "progress.naps", atomic_load_explicit(&count_naps, memory_order_relaxed));
	fn(arg, "progress.yields", atomic_load_explicit(&count_yields, memory_order_relaxed));
	fn(arg, "progress.awake", atomic_load_explicit(&count_awake, memory_order_relaxed));
	fn(arg, "progress.spreads", sn_spread_moves());
	fn(arg, "progress.short_slices", sn_slice_count());
}

bool sn_relax_crowded(void)
{
	return atomic_load_explicit(&crowd, memory_order_relaxed);
}

void sn_relax_threads(unsigned cores)
{
	atomic_store_explicit(&threads_cores, cores, memory_order_relaxed);
	judge(atomic_load_explicit(&rivals, memory_order_relaxed));
}

bool sn_relax_full(void)
{
	return atomic_load_explicit(&full, memory_order_relaxed);
}

void sn_relax_far(bool far)
{
	atomic_fetch_add_explicit(&far_rails, far ? 1u : -1u, memory_order_relaxed);
}

static bool far_answers(void)
{
	return atomic_load_explicit(&far_rails, memory_order_relaxed) > 0;
}

/*
 * Without the functions of the C library, and of libsennit-mpi.so before it: in a crowd what they are made of has to be
 * fetched anew at each turn.
 */
static inline void give_core(void)
{
#ifdef __x86_64__
	long rc;
	__asm__ volatile("syscall" : "=a"(rc) : "0"((long)SYS_sched_yield) : "rcx", "r11", "cc", "memory");
#else
	sched_yield();
#endif
}

/* Counted roughly where several threads yield. */
static void yield(void)
{
	atomic_store_explicit(&count_yields, atomic_load_explicit(&count_yields, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	give_core();
}

bool sn_relax_far_turns(void)
{
	return sn_bringer_sure() && far_answers();
}

static int nap(uint64_t waited, unsigned max_nap_us, int (*poll)(void *arg), void *arg)
{
	uint64_t us = SN_MAX_OF(waited / 4, NAP_MIN_NS) / 1000;
	atomic_fetch_add_explicit(&count_naps, 1, memory_order_relaxed);
	return sn_bell_wait(poll, arg, (unsigned)SN_MIN_OF(us, max_nap_us));
}

/*
 * The wait before this one had sleeps in it: is it worth while to be awake so long? A quarter more, for the next will
 * not be shorter.
 */
static void learn_longer(uint64_t now)
{
	uint32_t ns = napped_for + napped_for / 4;
	bool wanted = now < atomic_load_explicit(&wanted_until, memory_order_relaxed);
	napped_for = 0;
	atomic_store_explicit(&longer, ns <= LONGER_NS && !wanted ? ns : 0, memory_order_relaxed);
}

void sn_relax_interrupted(void)
{
	napped_for = 0;
}

/* Yields have taken a time slice. */
static void core_lost(uint64_t now)
{
	static _Thread_local struct sn_lost lost;
	if (!sn_lost_often(&lost, now, LOST_WITHIN_NS))
		return;
	atomic_store_explicit(&wanted_until, now + LOST_FOR_NS, memory_order_relaxed);
	atomic_store_explicit(&longer, 0, memory_order_relaxed);
}

/*
 * On Intel's processors a message is found no later with a pause before each look than without, since nothing has been
 * begun ahead that must be given up then. AMD's (Genoa, cores near) find it earlier without: a ping-pong of 8 B takes .93
 * of the time over Open MPI 4 and .91 over Intel MPI.
 */
static bool pause_helps(void)
{
#ifdef __x86_64__
	return !__builtin_cpu_is("amd");
#else
	return true;
#endif
}

/* The answer to a small message comes within a microsecond, and to read the clock meanwhile is to be late for it. */
static int first_looks(int (*poll)(void *arg), void *arg)
{
	bool pause = pause_helps();
	int found = 0;
	for (int i = 0; i < FIRST_LOOKS && !found; i++) {
		if (pause)
			sn_cpu_relax();
		found = poll(arg);
	}
	return found;
}

static uint64_t spin_ns(void)
{
	return (uint64_t)sn_conf_num(SN_CONF_SPIN) * 1000;
}

/* How long somebody waits before he sleeps. */
static uint64_t awake_ns(bool many, uint64_t now)
{
	uint64_t spin = spin_ns();

	if (many)
		return sn_turns_in_vain(now) || sn_beside(now) ? 0 : YIELD_NS;
	if (spin)
		spin = SN_MAX_OF(spin, (uint64_t)atomic_load_explicit(&longer, memory_order_relaxed));
	return spin && far_answers() ? SN_MAX_OF(spin, (uint64_t)FAR_AWAKE_NS) : spin;
}

/* Does somebody who has waited so long give the core to others between two looks? */
static bool gives_way(uint64_t waited)
{
	return waited >= spin_ns();
}

static bool far_gives_way(uint64_t waited)
{
	return far_answers() && (waited >= FAR_NS || sn_relax_far_turns());
}

static int look_until(uint64_t end, int (*poll)(void *arg), void *arg)
{
	int found = 0;
	do {
		for (int i = 0; i < LOOKS && !found; i++) {
			sn_cpu_relax();
			found = poll(arg);
		}
	} while (!found && sn_now_ns() < end);
	return found;
}

/* The same of one who has waited for so long already that the core is for others meanwhile. */
static int look_on_until(uint64_t end, uint64_t now, int (*poll)(void *arg), void *arg)
{
	int found;
	do {
		yield();
		uint64_t back = sn_now_ns();
		if (sn_unlikely(back - now > SN_LOST_NS))
			core_lost(back);
		found = poll(arg);
		now = sn_now_ns();
	} while (!found && now < end);
	return found;
}

static int yield_until(uint64_t end, uint64_t now, int (*poll)(void *arg), void *arg)
{
	int found;
	do {
		uint64_t before = now;
		yield();
		uint64_t back = sn_now_ns(); /* what a look takes is no loss: it may copy something long */
		sn_slice_yielded(before, back);
		sn_beside_yielded(before, back);
		found = poll(arg);
		now = sn_now_ns();
		sn_turns_yielded(before, now);
	} while (!found && now < end);
	return found;
}

static int far_until(uint64_t end, uint64_t now, int (*poll)(void *arg), void *arg)
{
	int found;
	do {
		yield();
		uint64_t back = sn_now_ns();
		found = poll(arg);
		sn_bringer_seen(back - now, found);
		now = sn_now_ns();
	} while (!found && now < end);
	return found;
}

bool sn_relax_far_step(int (*poll)(void *arg), void *arg)
{
	uint64_t now = sn_now_ns();

	return far_until(now + NAP_MIN_NS, now, poll, arg) != 0;
}

/*
 * In a crowd most of what somebody waits for is there when he gets the core back. So the clock, and what it is read
 * for, comes after that; now and then before it, or ranks that never wait for longer would not spread (spread.h).
 */
static bool first_turn(int (*poll)(void *arg), void *arg)
{
	static _Thread_local unsigned waits;
	if (++waits % CLOCKED == 0 || sn_turns_doubted() || sn_slice_short())
		return false;
	sn_engine_stay();
	yield();
	return poll(arg) != 0;
}

/* Beside ranks that compute: an answer comes while both sides have their cores, or not for long. */
static bool look_beside(int (*poll)(void *arg), void *arg)
{
	if (!spin_ns() || !sn_beside_looks())
		return false;
	bool found = first_looks(poll, arg) != 0;
	if (!found) {
		uint64_t now = sn_now_ns();
		sn_spread_look(now);
		if (!sn_beside(now))
			return false;
		sn_engine_stay();
		found = look_until(now + spin_ns(), poll, arg) != 0;
	}
	sn_beside_looked(found);
	return found;
}

/*
 * How long a step may be awake. Not to nap means that others wait for the caller: then those who want the core are no
 * reason to stay.
 */
static uint64_t stay_ns(uint64_t waited, bool wanted, unsigned max_nap_us)
{
	return wanted && max_nap_us ? NAP_MIN_NS : SN_MIN_OF(waited / 4, (uint64_t)NAP_MIN_NS);
}

bool sn_relax_step(uint64_t *idle, unsigned max_nap_us, int (*poll)(void *arg), void *arg)
{
	bool many = sn_relax_crowded();
	if (!*idle && many && (sn_beside_lately() ? look_beside(poll, arg) : first_turn(poll, arg)))
		return true;
	if (!*idle && !many && spin_ns() && !sn_relax_far_turns() && first_looks(poll, arg))
		return true;
	uint64_t now = sn_now_ns();
	judge_again(now);
	if (!*idle) {
		*idle = now;
		if (sn_unlikely(napped_for))
			learn_longer(now);
		sn_engine_stay();
	}
	uint64_t waited = now - *idle, end = now + stay_ns(waited, many || sn_relax_far_turns(), max_nap_us);
	if (many)
		sn_spread_look(now);
	else
		sn_slice_usual();
	int found = 0;
	if (waited >= awake_ns(many, now) && max_nap_us) {
		if (many)
			sn_slice_lost(now);
		found = nap(waited, max_nap_us, poll, arg);
		napped_for = (uint32_t)SN_MIN_OF(sn_now_ns() - *idle, (uint64_t)UINT32_MAX / 2);
	} else if (many)
		found = yield_until(end, now, poll, arg);
	else if (far_gives_way(waited))
		found = far_until(end, now, poll, arg);
	else if (gives_way(waited))
		found = look_on_until(end, now, poll, arg);
	else
		found = look_until(end, poll, arg);
	if (found)
		*idle = 0;
	return found;
}

/*
 * Who may not nap is back at each of his turns: with a short slice, which he has from a time when he might, he would
 * take the core from those who compute as often, for as long as he waits (NWChem, which has windows, 4 ranks on two
 * cores: 1.4 times the time).
 */
void sn_relax_turn(bool yielded)
{
	static _Thread_local unsigned turns;
	sn_slice_usual();
	if (++turns % CLOCKED == 0) {
		uint64_t now = sn_now_ns();
		judge_again(now);
		sn_spread_look(now);
	}
	if (!yielded)
		yield();
}

bool sn_relax_awake(int (*poll)(void *arg), void *arg)
{
	uint64_t idle = 0;

	atomic_store_explicit(&count_awake, atomic_load_explicit(&count_awake, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	while (!sn_relax_step(&idle, 0, poll, arg)) {
		uint64_t now = sn_now_ns();
		if (now - idle < awake_ns(sn_relax_crowded(), now))
			continue;
		/* he sleeps elsewhere, which nobody sees here */
		atomic_store_explicit(&longer, 0, memory_order_relaxed);
		return false;
	}
	return true;
}

/*
 * Somebody who polls may have better things to do than to wait, which only the rhythm of his calls tells:
 *  - who stays away for longer than GAP between two calls computes, and each call of his is the first of a wait;
 *  - who does a little work between two calls (HPCC's RandomAccess makes 2,048 calls that find nothing for each message
 *    that it sends) would do it a thousand times slower if each of them napped. So naps begin after NAP_AFTER calls,
 *    which is 1 to 2 ms of polling.
 * Kept in one word: the end of the last step in us (28 bits, wraps), calls (14 bits) and the time waited in us (22 bits),
 * both of which stop at their largest value.
 */
#define GAP_US	      20
#define YIELD_EACH_US 16
#define NAP_AFTER     4096
#define CALLS_MAX     0x3fffu
#define WAITED_MAX    0x3fffffu
#define LAST_MASK     0xfffffffu
#define CALLS_SHIFT   22
#define LAST_SHIFT    36

/* One look has found nothing and is repeated by the caller. True if a nap found something. away: others had the core. */
static bool polled(uint64_t waited, bool may_nap, bool turn, unsigned max_nap_us, int (*poll)(void *arg),
		   void *arg, bool *away)
{
	uint64_t spin = sn_relax_crowded() ? 0 : spin_ns();
	uint64_t awake = spin + SN_MAX_OF(spin * POLLED_YIELD, POLLED_YIELD_MIN);
	*away = true;
	if (waited >= awake && may_nap && max_nap_us)
		return nap(waited, max_nap_us, poll, arg);
	*away = waited >= spin && turn;
	if (*away)
		yield();
	else
		sn_cpu_relax();
	return false;
}

void sn_relax_polled(uint64_t *idle, unsigned max_nap_us, int (*poll)(void *arg), void *arg)
{
	uint64_t now = sn_now_ns() / 1000, last = *idle >> LAST_SHIFT;
	uint64_t gap = (now - last) & LAST_MASK, calls = 0, waited = 0;
	if (*idle && gap <= GAP_US) {
		calls = SN_MIN_OF((*idle >> CALLS_SHIFT & CALLS_MAX) + 1, (uint64_t)CALLS_MAX);
		waited = (*idle & WAITED_MAX) + gap;
	}
	/* to yield takes as long as the looks between two of these steps, and nobody waits for that core as a rule */
	bool turn = sn_relax_crowded() || (now & LAST_MASK) / YIELD_EACH_US != last / YIELD_EACH_US;
	bool away;
	if (polled(waited * 1000, calls >= NAP_AFTER, turn, max_nap_us, poll, arg, &away)) {
		*idle = 0;
		return;
	}
	uint64_t after = away ? sn_now_ns() / 1000 : now; /* to read the clock takes longer than to relax */
	waited = SN_MIN_OF(waited + after - now, (uint64_t)WAITED_MAX);
	*idle = (after & LAST_MASK) << LAST_SHIFT | calls << CALLS_SHIFT | waited;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress happens when a queue or a counter is read: every endpoint bound to it is moved forward once.
 *
 * MPI libraries poll without end and never block, so the decision to give the core away is taken here: a read that
 * found nothing hands the time since the last event to the engine, which spins, yields or naps. It naps only where
 * libsennit-mpi.so knows that the thread is in a call that waits (shim/shim.h): by itself nobody can tell here whether
 * the program waits, or tests between two pieces of work. What counts as an event is anything in the process, or reading
 * one quiet queue would slow down a busy one beside it.
 *
 * Threads that read one queue move its endpoints at the same time; the engine's locks keep them apart. Who binds or closes
 * an endpoint, which happens rarely, waits until no thread uses the list: at most a nap.
 */
#include "base/conf.h"
#include "base/log.h"
#include "beside.h"
#include "ofi.h"
#include "progress/caller.h"
#include "progress/relax.h"
#include "shim.h"

#include <sched.h>
#include <stdlib.h>

/* Events of a look that are a flood, and reads after it that need not look (sn_ofi_set_lay_there). */
#define FLOOD	 32
#define UNLOOKED 16

#define UNYIELDED                                                                                            \
	8 /* reads that find nothing, after which a library that has yielded by itself no longer counts as one that does */

/*
 * Counts progress on any endpoint of the process, so that no queue naps beside a busy one. Not of the domain: a thread that
 * waits may read the queues of two in turn (Open MPI 5 does, once a window has been made), and would take what one
 * of them counted for news of the other, at every look.
 */
static _Atomic uint64_t stamps;

void sn_ofi_set_init(struct sn_ofi_set *set, struct sn_ofi_domain *domain)
{
	memset(set, 0, sizeof(*set));
	set->shared = !domain->serial;
	set->nap = (unsigned)sn_conf_num(SN_CONF_NAP);
	sn_ofi_beside_open();
}

/* ---- changing the list ---- */

static void change_begin(struct sn_ofi_set *set)
{
	while (set->shared && atomic_exchange(&set->changing, true))
		sched_yield();
	while (atomic_load(&set->users))
		sched_yield();
}

static void change_end(struct sn_ofi_set *set)
{
	atomic_store(&set->changing, false);
}

int sn_ofi_set_add(struct sn_ofi_set *set, sn_ep *ep)
{
	int rc = 0;

	change_begin(set);
	for (unsigned i = 0; i < set->count; i++)
		if (set->eps[i] == ep)
			goto out; /* bound for both directions */
	if (set->count == set->room) {
		unsigned room = set->room ? 2 * set->room : 4;
		sn_ep **eps = realloc(set->eps, room * sizeof(*eps));
		if (!eps) {
			rc = -FI_ENOMEM;
			goto out;
		}
		set->eps = eps;
		set->room = room;
	}
	set->eps[set->count++] = ep;
out:
	change_end(set);
	return rc;
}

void sn_ofi_set_remove(struct sn_ofi_set *set, sn_ep *ep)
{
	change_begin(set);
	for (unsigned i = 0; i < set->count; i++)
		if (set->eps[i] == ep)
			set->eps[i--] = set->eps[--set->count];
	if (!set->count) {
		free(set->eps);
		set->eps = NULL;
		set->room = 0;
	}
	change_end(set);
}

/* ---- using it ---- */

bool sn_ofi_set_use(struct sn_ofi_set *set)
{
	if (!set->shared)
		return true;
	atomic_fetch_add(&set->users, 1);
	if (sn_likely(!atomic_load(&set->changing)))
		return true;
	atomic_fetch_sub(&set->users, 1);
	sched_yield();
	return false;
}

void sn_ofi_set_used(struct sn_ofi_set *set)
{
	if (set->shared)
		atomic_fetch_sub(&set->users, 1);
}

/* What libsennit-mpi.so knows of this thread, if it is in an MPI call. */
struct sn_shim_thread *sn_ofi_calling_thread(const struct sn_shim *shim)
{
	struct sn_shim_thread *t = shim ? shim->thread() : NULL;

	return t && t->kind != SN_SHIM_UNKNOWN ? t : NULL;
}

/* Is this thread in an MPI call that waits, and for nothing that rings no bell? */
struct sn_shim_thread *sn_ofi_waiting_thread(const struct sn_shim *shim)
{
	struct sn_shim_thread *t = sn_ofi_calling_thread(shim);

	return t && t->kind == SN_SHIM_WAITS &&
			       !atomic_load_explicit(&shim->elsewhere, memory_order_relaxed) &&
			       !atomic_load_explicit(&shim->given, memory_order_relaxed)
		       ? t
		       : NULL;
}

/*
 * The library need not yield after this look (shim.c). Beside other threads it may where nothing was found: somebody
 * waits for its lock, or for this core. Not where something was: MPICH yields then, too, and each window of messages
 * that several looks bring would be handed on as often.
 */
static void looked(const struct sn_shim *shim, struct sn_shim_thread *t, bool found)
{
	t->fresh |= found;
	if (found)
		t->owed = NULL;
	t->looked = found || sn_ofi_one_thread(shim);
}

void sn_ofi_looked(void)
{
	const struct sn_shim *shim = sn_caller_shim();
	struct sn_shim_thread *t = sn_ofi_waiting_thread(shim);

	if (t)
		looked(shim, t, true);
}

uint64_t sn_ofi_events(void)
{
	return atomic_load_explicit(&stamps, memory_order_acquire);
}

/*
 * Two threads may count as one: only the change matters. Not so for the thread sanitizer: what an MPI tells a thread
 * of events that another one has found goes by means that it does not see, and for it each count is an order of its
 * own (shim/quick.h).
 */
static uint64_t count(uint64_t seen)
{
#ifdef __SANITIZE_THREAD__
	(void)seen;
	return atomic_fetch_add_explicit(&stamps, 1, memory_order_acq_rel) + 1;
#else
	atomic_store_explicit(&stamps, seen + 1, memory_order_release);
	return seen + 1;
#endif
}

void sn_ofi_handed(void)
{
#ifdef __SANITIZE_THREAD__
	atomic_fetch_add_explicit(&stamps, 0, memory_order_acq_rel);
#endif
}

void sn_ofi_found(int events)
{
	count(sn_ofi_events());
	sn_ofi_beside_found(events);
}

void sn_ofi_look(void *ep)
{
	int events = sn_progress(ep);

	if (events > 0)
		sn_ofi_found(events);
}

int sn_ofi_set_look(const struct sn_ofi_set *set)
{
	int events = 0;

	for (unsigned i = 0; i < set->count; i++) {
		int n = sn_progress(set->eps[i]);
		events += n > 0 ? n : 0;
	}
	return events;
}

bool sn_ofi_set_progress(struct sn_ofi_set *set)
{
	uint64_t stamp;
	int events;

	if (!sn_ofi_set_use(set))
		return true;
	events = sn_ofi_set_look(set);
	sn_ofi_set_used(set);
	if (!set->shared) {
		set->unlooked = 0;
		set->flood = events >= FLOOD;
	}
	stamp = sn_ofi_events();
	if (events) {
		stamp = count(stamp);
		if (set->shared)
			sn_ofi_beside_found(events);
	}
	if (stamp == atomic_load_explicit(&set->stamp, memory_order_relaxed))
		return false;
	atomic_store_explicit(&set->stamp, stamp, memory_order_relaxed);
	atomic_store_explicit(&set->idle, 0, memory_order_relaxed);
	sn_ofi_looked();
	return true;
}

/* ---- a read after one that found everything ---- */

/*
 * Open MPI reads a queue until it hears that it is empty, so every message costs two reads. A look by the second would take
 * the line of the next record away from the sender, who is about to write it: it says "empty" without one. That may delay
 * nobody: only a read in the same MPI call may say so, as libsennit-mpi.so numbers them, and only one read; who still waits
 * then looks. MPIs that end a call as soon as what it waits for has come read again only where there may be more: they are
 * known by a call that ended with a read that found something, and always look.
 */
void sn_ofi_set_emptied(struct sn_ofi_set *set)
{
	const struct sn_shim_thread *t =
		set->not_until_empty ? NULL : sn_ofi_calling_thread(sn_caller_shim());

	set->emptied = t != NULL;
	if (t)
		set->emptied_in = t->calls;
}

/*
 * Likewise where the entries lay in the queue, in a flood: most often short messages that had come before their receives. A
 * program that takes them one a call would look at the network for each, and every look of a flood takes long (256 frames
 * and more), so they would wait for all that came later. But sends that end at once lie there, too, and who does nothing but
 * send must hear of what comes: so many such reads at most between two looks.
 */
void sn_ofi_set_lay_there(struct sn_ofi_set *set)
{
	if (set->flood && set->unlooked++ < UNLOOKED)
		sn_ofi_set_emptied(set);
}

bool sn_ofi_set_is_empty(struct sn_ofi_set *set)
{
	if (sn_likely(!set->emptied))
		return false;
	const struct sn_shim_thread *t = sn_ofi_calling_thread(sn_caller_shim());
	set->emptied = false;
	set->not_until_empty = !t || t->calls != set->emptied_in;
	return !set->not_until_empty;
}

/* ---- a read that found nothing ---- */

/* Who stays away for longer than this between two looks is not in the call that was noted last: there are calls that
 * libsennit-mpi.so does not know. */
#define AWAY_NS 200000u
#define LONG_NS UINT64_C(10000000000)

/* A queue's mark is another than at its last read that found nothing. Two threads may both note theirs: then one wait too
 * many begins anew. */
static bool mark_moved(struct sn_ofi_set *set, uint64_t mark)
{
	bool moved = atomic_load_explicit(&set->mark, memory_order_relaxed) != mark;

	if (moved)
		atomic_store_explicit(&set->mark, mark, memory_order_relaxed);
	return moved;
}

/*
 * t->idle holds since when t waits: a new call, or an event since its last look, begins a new wait. True: it has just
 * begun, or this is the first or second read of this queue since an event that found nothing. For between the two the
 * library may have ended a step of a collective that does not block, and look whether all has ended after this one only:
 * the looks of a wait (2 us) would be for nothing.
 */
static bool wait_anew(struct sn_ofi_set *set, struct sn_shim_thread *t, uint64_t mark)
{
	uint64_t stamp = atomic_load_explicit(&stamps, memory_order_relaxed);
	bool moved = mark_moved(set, mark);
	bool anew = moved || t->call_seen != t->calls || t->stamp_seen != stamp;
	bool first = moved || atomic_load_explicit(&set->seen, memory_order_relaxed) != stamp;
	bool second = atomic_load_explicit(&set->first, memory_order_relaxed);

	atomic_store_explicit(&set->seen, stamp, memory_order_relaxed);
	atomic_store_explicit(&set->first, first, memory_order_relaxed);
	t->call_seen = t->calls;
	t->stamp_seen = stamp;
	if (anew || sn_now_ns() - t->left > AWAY_NS)
		t->idle = 0;
	return anew || ((first || second) && !sn_relax_crowded());
}

/*
 * Beside other threads. MPI libraries hold a lock around a read, so while this thread naps another one may wait for that
 * lock. Its call has been counted then, and wakes whoever naps; after that nobody naps for a look, so that the lock can
 * change hands.
 */
static unsigned shared_nap_begin(struct sn_shim_thread *t, unsigned nap)
{
	struct sn_shim *shim = sn_caller_shim();

	sn_ofi_sleep_begin(shim, t, &shim->sleepers);
	uint32_t entries = atomic_load(&shim->entries);
	bool alone = entries == t->entries_seen;

	t->entries_seen = entries;
	if (!alone) {
		t->idle = 0;
		sn_relax_interrupted();
	}
	return alone ? SN_MIN_OF(nap, SN_OFI_SHARED_NAP) : 0;
}

/*
 * Who waits in one call for so long may wait for a rank that has called MPI_Finalize: a fault of the program's that the MPI says nothing
 * of. But a receive from there may as well be one that the program is going to cancel.
 */
static void waits_long(struct sn_ofi_set *set)
{
	static atomic_bool said;
	const struct sn_shim *shim = sn_caller_shim();

	if (shim->waits_long) /* tests have none */
		shim->waits_long();
	for (unsigned i = 0; i < set->count && !atomic_load_explicit(&said, memory_order_relaxed); i++)
		if (sn_ep_in_vain(set->eps[i]) && !atomic_exchange(&said, true))
			sn_warn("nothing has come for %u s: %s", (unsigned)(LONG_NS / 1000000000u),
				sn_last_error());
}

/* Without naps where it waits elsewhere for longer. */
static bool relax_in_call(struct sn_ofi_set *set, struct sn_shim_thread *t, bool naps)
{
	struct sn_shim *shim = sn_caller_shim();
	bool found = false;
	bool many = naps && !sn_ofi_one_thread(shim);
	unsigned nap = !naps ? 0 : many ? shared_nap_begin(t, set->nap) : set->nap;

	if (sn_ofi_set_use(set)) {
		if (set->count)
			found = sn_relax_wait(set->eps, set->count, &t->idle, nap) > 0;
		if (!found && nap && t->idle && sn_now_ns() - t->idle > LONG_NS)
			waits_long(set);
		sn_ofi_set_used(set);
	}
	if (many)
		atomic_fetch_sub(&shim->sleepers, 1);
	if (!found)
		t->left = sn_now_ns();
	if (found)
		sn_ofi_found(1);
	return found;
}

static unsigned nap_until(uint64_t until_ns)
{
	unsigned nap = SN_OFI_SHARED_NAP;

	if (until_ns != UINT64_MAX) {
		uint64_t now = sn_now_ns();
		uint64_t left = until_ns > now ? (until_ns - now) / 1000 : 0;
		nap = (unsigned)SN_MIN_OF(nap, left);
	}
	return nap;
}

bool sn_ofi_set_wait(struct sn_ofi_set *set, uint64_t mark)
{
	const struct sn_shim *shim = sn_caller_shim();
	struct sn_shim_thread *t = sn_ofi_waiting_thread(shim);
	enum sn_ofi_place place = SN_OFI_HERE;

	if (!t)
		return false;
	if (set->shared && sn_ofi_beside(shim)) {
		sn_ofi_beside_begins(shim, t);
		place = sn_ofi_beside_place(set, t);
	} else {
		wait_anew(set, t, mark);
	}
	return place != SN_OFI_LATER && relax_in_call(set, t, place == SN_OFI_HERE);
}

/*
 * A read that found nothing, of one that may do other things: the policy for it reads the clock twice, which costs as much
 * as two looks. So one thread with a core of its own asks it at each eighth only.
 */
static bool look_again(struct sn_ofi_set *set)
{
	return !set->shared && ++set->looks % 8 && !sn_relax_crowded();
}

/* ---- in a crowd ---- */

/* What libsennit-mpi.so knows of the only thread, in a crowd. */
static struct sn_shim_thread *crowded_thread(const struct sn_shim *shim)
{
	struct sn_shim_thread *t = sn_relax_crowded() ? sn_ofi_calling_thread(shim) : NULL;

	return t && sn_ofi_one_thread(shim) ? t : NULL;
}

/* Yields of take_turn(). */
static _Atomic uint64_t turns;

/*
 * Has the library, too, found nothing since the last read here that found nothing? One that yields by itself does so
 * only then (Open MPI; MPICH does always). Else it goes on with what does not wait for messages, such as the next
 * step of a collective that does not block, and to give the core away now would be to keep others waiting. But one
 * that does not yield for so many reads does not do so where it waits now, and it may have been the program that did.
 */
static bool nothing_else(struct sn_ofi_set *set, const struct sn_shim_thread *t)
{
	uint32_t yields = t->yields;
	uint32_t reads = atomic_load_explicit(&set->waits, memory_order_relaxed);

	if (yields != atomic_load_explicit(&set->given, memory_order_relaxed)) {
		atomic_store_explicit(&set->given, yields, memory_order_relaxed);
		atomic_store_explicit(&set->waits, 0, memory_order_relaxed);
		return true;
	}
	if (!yields || reads >= UNYIELDED)
		return true;
	atomic_store_explicit(&set->waits, reads + 1, memory_order_relaxed);
	return false;
}

/*
 * In a crowd, of who may not nap, as the call may return at once, or the library waits for other things, too: it
 * looks for them between two reads, of this queue and of others. So one yield must do for all that it looks at, and
 * none is due before it has looked at everything again after something came. A library that has yielded since the
 * last read here does so by itself, and only if it has found nothing anywhere: that is the better place. So does one that
 * has lately, and then has found something: MPI_Iprobe finds a message, reads once more what is empty, and does not yield;
 * the next one finds nothing, and yields (nothing_else).
 */
static bool take_turn(struct sn_ofi_set *set, const struct sn_shim *shim, struct sn_shim_thread *t,
		      uint64_t mark)
{
	uint32_t theirs = t->yields;
	uint64_t ours = atomic_load_explicit(&turns, memory_order_relaxed), events = sn_ofi_events();
	uint64_t turn = (ours + events) << 32 | theirs;
	uint64_t last = atomic_exchange_explicit(&set->turn, turn, memory_order_relaxed);
	bool called = t->kind == SN_SHIM_WAITS && t->call_seen != t->calls;
	bool nothing = nothing_else(set, t);

	t->call_seen = t->calls;
	t->looked = 0;
	if (mark_moved(set, mark) || called || turn != last || !nothing) {
		sn_relax_turn(true);
		return false;
	}
	sn_relax_turn(false);
	atomic_store_explicit(&turns, ours + 1, memory_order_relaxed);
	atomic_store_explicit(&set->turn, (ours + 1 + events) << 32 | theirs, memory_order_relaxed);
	bool found = sn_ofi_set_progress(set);
	if (t->kind == SN_SHIM_WAITS)
		looked(shim, t, found);
	return found;
}

/*
 * Requests that end when somebody looks at what others have written (shim.h, given) have no bell. Who waits for such ones,
 * or beside them, looks as often as one that polls, and then for a moment at a time, as where collectives are waited for:
 * it may be long, and others want the core.
 */
#define VAIN_LOOKS 4096
#define VAIN_NAP   1000u
static bool is_in_vain(struct sn_ofi_set *set, const struct sn_shim *shim)
{
	const struct sn_shim_thread *t = sn_ofi_any_given() ? sn_ofi_calling_thread(shim) : NULL;

	if (!t || t->kind != SN_SHIM_WAITS || !sn_ofi_one_thread(shim) ||
	    atomic_load_explicit(&shim->elsewhere, memory_order_relaxed))
		return false;
	if (set->vain_in != t->calls || set->vain_stamp != sn_ofi_events()) {
		set->vain_in = t->calls;
		set->vain_stamp = sn_ofi_events();
		set->vain_idle = set->vain = 0;
	}
	return ++set->vain > VAIN_LOOKS && set->count;
}

/*
 * MPI libraries read a queue until it is empty, and only then look whether what they wait for is done. So the first read
 * that finds nothing after one that found something says nothing: waiting there would delay the answer to a message that
 * has just come, and with more ranks than cores give the core away for a round of the others (0.8 us each).
 */
bool sn_ofi_set_relax(struct sn_ofi_set *set, uint64_t until_ns, uint64_t mark)
{
	const struct sn_shim *shim = sn_caller_shim();
	struct sn_shim_thread *t = until_ns ? NULL : sn_ofi_waiting_thread(shim);
	bool found = false;

	if (t) {
		bool crowded = sn_relax_crowded();
		bool busy = crowded && sn_ofi_one_thread(shim) && !nothing_else(set, t);
		bool beside = set->shared && sn_ofi_beside(shim);
		bool wait = !(beside ? sn_ofi_beside_begins(shim, t) : wait_anew(set, t, mark)) && !busy;
		enum sn_ofi_place place = wait && beside ? sn_ofi_beside_place(set, t) : SN_OFI_HERE;
		t->looked = 0; /* what is called here yields by itself */
		if (place == SN_OFI_LATER)
			return false;
		found = wait && relax_in_call(set, t, place == SN_OFI_HERE);
		/* not in a crowd: a library that yields now does what the next look would do */
		if (wait || !crowded)
			looked(shim, t, found);
		return found;
	}
	if (!until_ns && sn_unlikely(is_in_vain(set, shim)) && sn_ofi_set_use(set)) {
		found = sn_relax_wait(set->eps, set->count, &set->vain_idle, SN_MIN_OF(set->nap, VAIN_NAP)) >
			0;
		sn_ofi_set_used(set);
		if (found)
			sn_ofi_found(1);
		return found;
	}
	if (!until_ns && (t = crowded_thread(shim)))
		return take_turn(set, shim, t, mark);
	if (!until_ns && (mark_moved(set, mark) || look_again(set)))
		return false;
	uint64_t idle = atomic_load_explicit(&set->idle, memory_order_relaxed);
	if (!sn_ofi_set_use(set))
		return false;
	if (set->count && until_ns)
		found = sn_relax_wait(set->eps, set->count, &idle, nap_until(until_ns)) > 0;
	else if (set->count)
		sn_relax(set->eps, set->count, &idle, 0);
	sn_ofi_set_used(set);
	atomic_store_explicit(&set->idle, idle, memory_order_relaxed);
	return found;
}

uint64_t sn_ofi_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : sn_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

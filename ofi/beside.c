/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPICH and Intel MPI hold one lock in all calls, around each read of a queue too, and let it go for a moment after a
 * read that found nothing. Who waits in the read (progress.c) keeps it from the others; and with Intel MPI, which
 * takes it again at once, from those as well who are woken when it lets go: they come too late, and sleep on. So
 * there a thread waits in that moment, without the lock: libsennit-mpi.so calls back (shim/unlocks.c).
 *
 * Who has found something keeps the lock, for KEEP_NS after the last time and TURN_NS in all, and waits for more in
 * the read, but without a nap: an answer takes a microsecond, and to hand the lock on takes two switches of threads.
 *
 * What a thread finds may be for another one, whose call only sees that when it has the lock and looks again. A
 * thread that waits for one message, finds one and returns with it, has nothing to tell. If it looks on in the same
 * call, or had found more than one, it tells all that wait. Who waits without the lock looks for himself as long as a
 * wait usually is; from then on, where others find something all the time, he sleeps until he is told, for to be woken
 * by the bell would be to be woken by each message of theirs. tests/model/beside.pml checks that nobody sleeps on.
 */
#include "beside.h"
#include "progress/caller.h"
#include "progress/relax.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEEP_NS	 30000u
#define TURN_NS	 1000000u
#define LOOK_NS	 50000u /* as long as others who wait do without a nap (progress/relax.c) */
#define OFTEN_NS 250000u
#define UNPAID	 4 /* reads and probes that leave a wait to be done, and the MPI does not let its lock go */

static _Atomic uint32_t news; /* grows whenever somebody is told */
static _Atomic uint32_t told; /* threads that sleep on it */

/* ---- what one thread finds for others ---- */

/* Both of each pair are sequentially consistent: who does not see the other is seen by him. */
static void tell(const struct sn_shim *shim)
{
	atomic_fetch_add(&news, 1);
	if (!atomic_load(&shim->apart))
		return;
	sn_relax_wake();
	if (atomic_load(&told))
		syscall(SYS_futex, &news, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void sn_ofi_beside_found(int events)
{
	const struct sn_shim *shim = sn_caller_shim();

	if (!shim || !sn_ofi_beside(shim))
		return;
	struct sn_shim_thread *t = sn_ofi_waiting_thread(shim);
	bool looks_on = t && t->untold && t->untold_in == t->calls;
	if (!t || events > 1 || looks_on)
		tell(shim);
	if (!t)
		return;
	t->untold = events == 1;
	t->untold_in = t->calls;
}

/*
 * It has taken what lay in the queue, whoever had found it: a probe, which looks by itself, one that goes the quick way,
 * or a thread of the engine's. In a call that waits that is told if it looks on.
 */
void sn_ofi_beside_took(void)
{
	const struct sn_shim *shim = sn_caller_shim();

	if (!shim || !sn_ofi_beside(shim))
		return;
	struct sn_shim_thread *t = sn_ofi_waiting_thread(shim);
	if (!t) {
		tell(shim);
		return;
	}
	t->untold = 1;
	t->untold_in = t->calls;
}

/*
 * What others find meanwhile does not begin a wait anew, nor is it an absence to have waited for the lock (progress.c,
 * wait_anew).
 */
bool sn_ofi_beside_begins(const struct sn_shim *shim, struct sn_shim_thread *t)
{
	bool called = t->call_seen != t->calls, anew = called || t->fresh;

	if (called)
		t->idle = 0;
	else if (t->untold && t->untold_in == t->calls)
		tell(shim);
	if (t->fresh)
		t->found_at = sn_now_ns();
	t->untold = 0;
	t->call_seen = t->calls;
	t->fresh = 0;
	return anew;
}

/* ---- waiting where the MPI's lock is free ---- */

static bool keeps_lock(const struct sn_shim_thread *t, uint64_t now)
{
	return now - t->found_at < KEEP_NS && now - t->turn < TURN_NS;
}

enum sn_ofi_place sn_ofi_beside_place(struct sn_ofi_set *set, struct sn_shim_thread *t)
{
	bool left = t->owed && t->owed_in == t->calls;

	if (left && ++t->unpaid >= UNPAID) {
		t->owed = NULL;
		t->kept_in = t->calls;
	}
	if (t->kept_in == t->calls)
		return SN_OFI_HERE;
	if (!left && keeps_lock(t, sn_now_ns()))
		return SN_OFI_BRIEF;
	if (!left)
		t->unpaid = 0;
	t->owed = set;
	t->owed_in = t->calls;
	t->owed_after = atomic_load(&news);
	return SN_OFI_LATER;
}

struct waiting {
	struct sn_ofi_set *set;
	uint32_t after; /* news */
};

/* What a thread of the engine's, or one that goes the quick way, has found lies in the queue. */
static int look(void *arg)
{
	const struct waiting *w = arg;
	int events = sn_ofi_set_look(w->set);

	if (events)
		sn_ofi_found(events);
	return events || atomic_load(&news) != w->after || (w->set->filled && w->set->filled(w->set));
}

static void sleep_until_told(uint32_t after, uint64_t us)
{
	struct timespec t = {.tv_nsec = 1000 * (long)us};

	atomic_fetch_add(&told, 1);
	syscall(SYS_futex, &news, FUTEX_WAIT_PRIVATE, after, &t, NULL, 0);
	atomic_fetch_sub(&told, 1);
}

/* One step. True: there is a reason to look with the lock, or he has slept. */
static bool step(struct sn_shim_thread *t, struct waiting *w, bool others, uint64_t now)
{
	uint64_t waited = t->idle ? now - t->idle : 0;
	unsigned nap = SN_MIN_OF(w->set->nap, SN_OFI_SHARED_NAP);
	bool over;

	if (others && nap && waited > LOOK_NS) {
		sleep_until_told(w->after, SN_MIN_OF(SN_MAX_OF(waited / 4, (uint64_t)LOOK_NS) / 1000, nap));
		return true;
	}
	if (!sn_ofi_set_use(w->set))
		return true;
	over = sn_relax_step(&t->idle, nap, look, w);
	sn_ofi_set_used(w->set);
	return over;
}

/*
 * Is something found, by whomever, so often that somebody looks all the time, and tells? OFTEN_NS is longer than an
 * answer takes if each message wakes all who wait here: else these would keep others from finding that much.
 */
static bool others_look(struct sn_shim_thread *t, uint64_t now)
{
	uint64_t events = sn_ofi_events();
	bool often = (events - t->events_seen) * OFTEN_NS > now - t->events_at;

	t->events_seen = events;
	t->events_at = now;
	return often;
}

/* Until he has slept, at the most: who has rung may have meant another queue. */
static void wait_owed(void)
{
	struct sn_shim *shim = sn_caller_shim();
	struct sn_shim_thread *t = shim->thread();
	struct waiting w = {.set = t->owed, .after = t->owed_after};
	uint64_t begin = sn_now_ns(), now = begin;
	bool over = t->owed_in != t->calls;

	t->owed = NULL;
	if (over)
		return;
	sn_ofi_sleep_begin(shim, t, &shim->apart);
	bool others = others_look(t, now);
	while (!over && now - begin < LOOK_NS) {
		over = step(t, &w, others, now);
		now = sn_now_ns();
	}
	atomic_fetch_sub(&shim->apart, 1);
	t->turn = t->left = now;
	t->found_at = 0;
}

/* ---- opening, closing, sleeping ---- */

void sn_ofi_beside_open(void)
{
	struct sn_shim *shim;

	sn_caller_find();
	shim = sn_caller_shim();
	if (shim)
		atomic_store(&shim->wait, wait_owed);
}

/* Another thread's would still be in the MPI's call, when nothing may be closed. */
void sn_ofi_set_closed(struct sn_ofi_set *set)
{
	struct sn_shim_thread *t = sn_ofi_calling_thread(sn_caller_shim());

	if (t && t->owed == set)
		t->owed = NULL;
}

void sn_ofi_sleep_begin(struct sn_shim *shim, const struct sn_shim_thread *t, _Atomic uint32_t *sleepers)
{
	uint32_t pass;

	atomic_fetch_add(sleepers, 1);
	pass = atomic_load(&shim->pass);
	if (pass != SN_SHIM_NOBODY && pass != t->tenure) /* nor would it count itself */
		atomic_compare_exchange_strong(&shim->pass, &pass, SN_SHIM_NOBODY);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "holder.h"
#include "crowd.h"
#include "own.h"
#include <stdlib.h>
#include <string.h>

_Atomic uint32_t sn_mpi_tenure = 2;
_Atomic uint32_t sn_mpi_many; /* several threads have called */

/*
 * How often all that was seen was to be forgotten. Each thread has its own mark of that: one who is late must not
 * take down that of the holder.
 */
static _Atomic uint32_t forgets;
static _Atomic uint32_t enough = SN_CALLS_FEW;
/* With sn_own_lock(): */
static struct sn_mine *unused;
static struct sn_mine *holder; /* in the last tenure */
static uint64_t since;	       /* when it began */

static _Thread_local struct {
	bool counted;
	uint32_t entries, row; /* when this thread was here last; and calls since another was */
} me __attribute__((tls_model("initial-exec")));

static bool somebody_sleeps(void)
{
	return atomic_load(&sn_mpi_shim.sleepers) || atomic_load(&sn_mpi_shim.apart);
}

/* ---- what was seen ---- */

/*
 * Not rather one that is not known: then several new kinds of one set would take the same place from each other in
 * every round, and none would be known ever.
 */
struct entry *sn_seen_place(struct entry *table, const struct call *c)
{
	struct entry *free = NULL;
	for (unsigned at = sn_seen_set(c), i = 0; i < SN_WAYS; i++) {
		struct entry *e = &table[at ^ i];
		if (e->seen && same(&e->call, c))
			return e;
		if (!free && !e->seen)
			free = e;
	}
	return free ? free : &table[sn_seen_set(c) ^ sn_mpi_thread.mine->victim++ % SN_WAYS];
}

/* ---- the pass ---- */

static void forget_mine(void)
{
	struct sn_mine *m = sn_mpi_thread.mine;
	memset(m->sends, 0, sizeof(m->sends));
	memset(m->recvs, 0, sizeof(m->recvs));
	memset(m->probes, 0, sizeof(m->probes));
	memset(m->kin_sends, 0, sizeof(m->kin_sends));
	memset(m->kin_recvs, 0, sizeof(m->kin_recvs));
	memset(m->sources, 0, sizeof(m->sources));
	memset(m->regions, 0, sizeof(m->regions));
	m->pending = 0;
}

static bool is_stale(void)
{
	return sn_mpi_thread.mine->forgets != atomic_load(&forgets);
}

/* By the holder, if it still is that. Whoever takes it away says why before. */
static bool take_pass(void)
{
	uint32_t mine = sn_mpi_thread.tenure;
	do {
		uint32_t now = atomic_load(&forgets);
		if (sn_mpi_thread.mine->forgets != now)
			forget_mine();
		sn_mpi_thread.mine->forgets = now;
		atomic_store(&sn_mpi_shim.pass, mine);
	} while (is_stale());
	if (!somebody_sleeps() && !atomic_load(&sn_forgotten_receives) && atomic_load(&sn_mpi_tenure) == mine)
		return true;
	atomic_compare_exchange_strong(&sn_mpi_shim.pass, &mine, SN_SHIM_NOBODY);
	return false;
}

void sn_holder_forget(void)
{
	if (sn_mpi_thread.mine) { /* a call that is watched just now teaches nothing */
		sn_mpi_thread.mine->lesson.sends = sn_mpi_thread.mine->lesson.recvs = 2;
		sn_seen_forget();
	}
	atomic_fetch_add(&forgets, 1);
	atomic_store(&sn_mpi_shim.pass, SN_SHIM_NOBODY);
}

/* ---- tenures ---- */

const struct sn_mine *sn_holder_last(void)
{
	return holder;
}

/* Memory is never given back: who is late may still look into it. */
static bool have_mine(void)
{
	if (sn_mpi_thread.mine)
		return true;
	sn_own_lock();
	struct sn_mine *m = unused;
	if (m)
		unused = m->next;
	sn_own_unlock();
	sn_mpi_thread.mine = m ? m : calloc(1, sizeof(*m));
	return sn_mpi_thread.mine != NULL;
}

/* By the first thread; or by one whose call was the last that was counted. */
static bool begin(const uint32_t *counted)
{
	if (!have_mine())
		return false;
	sn_own_lock();
	uint32_t n = atomic_load(&sn_mpi_tenure) + 1;
	bool began = n & 1 && !somebody_sleeps();
	if (began) {
		atomic_store(&sn_mpi_tenure, n);
		began = !counted || atomic_load(&sn_mpi_shim.entries) == *counted;
		if (!began)
			atomic_store(&sn_mpi_tenure, n + 1);
	}
	if (began) {
		holder = sn_mpi_thread.mine;
		sn_mpi_thread.tenure = n;
		since = sn_quick_now_ns();
		sn_own_begin();
	}
	sn_own_unlock();
	if (!began)
		return false;
	forget_mine();
	return take_pass();
}

/* That of another thread. The next one must be worth it. */
static void end_others(void)
{
	sn_own_lock();
	uint32_t n = atomic_load(&sn_mpi_tenure), few = atomic_load_explicit(&enough, memory_order_relaxed);
	if (n & 1 && n != sn_mpi_thread.tenure) {
		atomic_store(&sn_mpi_shim.pass, SN_SHIM_NOBODY);
		/* it may sleep with a lock of the MPI, and has not said so as long as it was the only thread */
		void (*wake)(void) = atomic_load(&sn_mpi_shim.wake);
		if (wake)
			wake();
		sn_own_settle();
		atomic_store(&sn_mpi_tenure, n + 1);
		atomic_store(&sn_mpi_shim.pass,
			     SN_SHIM_NOBODY); /* the holder may have taken it in the meantime */
		sn_own_settled();
		if (sn_quick_now_ns() - since >= SN_LONG_NS)
			few = SN_CALLS_FEW;
		else if (few < SN_CALLS_MANY)
			few *= 2;
		atomic_store_explicit(&enough, few, memory_order_relaxed);
	}
	sn_own_unlock();
}

void sn_holder_exit(void)
{
	struct sn_mine *m = sn_mpi_thread.mine;
	sn_mpi_thread.tenure = 0; /* what ends after this may call */
	if (sn_mpi_thread.freeing)
		sn_elsewhere_freed();
	if (!m)
		return;
	if (sn_mpi_thread.lesson) /* an error handler has left its call by a jump */
		atomic_load(&sn_mpi_shim.quick)->learn(NULL);
	m->watching = false;
	sn_mpi_thread.mine = NULL;
	atomic_store_explicit(&m->inside, 0, memory_order_release);
	sn_own_lock();
	if (m == holder) /* that it did not last says nothing */
		since = 0;
	m->next = unused;
	unused = m;
	sn_own_unlock();
}

/* ---- entering ---- */

/* The first call of a thread. True: of all. */
static bool is_first(void)
{
	me.counted = true;
	sn_crowd_join();
	if (!atomic_fetch_add(&sn_mpi_shim.threads, 1))
		return true;
	atomic_store(&sn_mpi_many, 1);
	return false;
}

bool sn_holder_enter(void)
{
	if (!me.counted && is_first())
		return begin(NULL);
	if (sn_holder_is_me() && !atomic_load_explicit(&sn_mpi_many, memory_order_relaxed))
		return take_pass();
	sn_crowd_look();
	uint32_t before = atomic_fetch_add(&sn_mpi_shim.entries, 1), now = before + 1;
	void (*wake)(void) = atomic_load(&sn_mpi_shim.wake);
	if (atomic_load(&sn_mpi_shim.sleepers) && wake)
		wake();
	uint32_t n = atomic_load(&sn_mpi_tenure); /* only now: it may have ended before */
	bool mine = n == sn_mpi_thread.tenure;
	if (!mine && n & 1)
		end_others();
	me.row = before == me.entries ? me.row + 1 : 0;
	me.entries = now;
	bool again = me.row >= atomic_load_explicit(&enough, memory_order_relaxed);
	if (mine)
		return (again || is_stale()) && take_pass();
	return again && begin(&now);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "matched.h"
#include "collective.h"
#include "holder.h"
#include "types.h"
#include "watch.h"
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST	64	    /* messages at once */
#define NUMBERS 0x2c5f0000u /* MPICH: of no kind, so no message */

enum { MPROBE, MRECV, IMRECV, MRECV_C, IMRECV_C, C2F, TOINT, CALLS };

union function {
	void *symbol;
	int (*mprobe)(int from, int tag, handle comm, void *message, void *status);
	int (*mrecv)(void *buf, int count, handle type, void *message,
		     void *end); /* a status, or a request */
	int (*mrecv_c)(void *buf, int64_t count, handle type, void *message, void *end);
	int (*number)(handle message);
};
static union function next[2][CALLS]; /* without a P, and with it */

enum { FREE, TAKEN, FULL, HELD }; /* HELD: a thread is at it, and not for long */

struct slot {
	_Atomic int state;
	struct sn_shim_message message;
	struct call call;
	int tag;
	handle real; /* the MPI's, which it has become; 0: it has not */
};
static struct slot slots[MOST];
static char names[MOST]; /* messages that are addresses */
static handle null_message;
static union function mpis_mprobe;
static atomic_bool off; /* never any more: Fortran wants numbers */

static void find(void)
{
	mpis_mprobe.symbol = sn_mpi_find("PMPI_Mprobe");
	null_message = sn_mpi_handle(SN_MESSAGE_NULL);
	if (!mpis_mprobe.symbol || !null_message || !sn_proof_find())
		atomic_store(&off, true);
}

static void find_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
}

/* ---- slots ---- */

static handle first_name(void)
{
	return sn_mpi_wide() ? (handle)names : NUMBERS;
}

static struct slot *slot_of(handle h)
{
	handle i = sn_mpi_plain(h) - first_name();
	return i < MOST ? &slots[i] : NULL;
}

/* From one state to another. Where one thread calls at a time, without a locked instruction, which waits for what was written before. */
static inline bool turn(struct slot *s, int *was, int is)
{
	if (!sn_quick_serial())
		return atomic_compare_exchange_strong_explicit(&s->state, was, is, memory_order_acquire,
							       memory_order_relaxed);
	int found = atomic_load_explicit(&s->state, memory_order_relaxed);
	if (found == *was)
		atomic_store_explicit(&s->state, is, memory_order_relaxed);
	bool turned = found == *was;
	*was = found;
	return turned;
}

/* NULL: none is free. */
static struct slot *take(void)
{
	for (unsigned i = 0; i < MOST; i++) {
		int was = FREE;
		if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) == FREE &&
		    turn(&slots[i], &was, TAKEN))
			return &slots[i];
	}
	return NULL;
}

static void set(struct slot *s, int state)
{
	atomic_store_explicit(&s->state, state, memory_order_release);
}

static void free_slot(struct slot *s)
{
	s->real = 0;
	set(s, FREE);
}

/* Another may be at it, which frees its communicator. False: there is no message in it. */
static bool hold(struct slot *s)
{
	int was = FULL;
	while (!turn(s, &was, HELD)) {
		if (was == FREE || was == TAKEN)
			return false;
		if (was == HELD)
			sched_yield();
		was = FULL;
	}
	return true;
}

/* Of a message of ours, which is held then; else NULL. */
static struct slot *held(const void *message)
{
	struct slot *s = message ? slot_of(sn_mpi_nth(message, 0)) : NULL;
	return s && hold(s) ? s : NULL;
}

/* The MPI asks for it once more, and gets what was taken. It is held. */
static handle real_of(struct slot *s)
{
	uint64_t status[8];
	if (s->real)
		return s->real;
	sn_mpi_thread.message = &s->message;
	int rc = mpis_mprobe.mprobe(s->call.peer, s->call.tag, s->call.comm, &s->real, status);
	if (rc || sn_mpi_thread.message) {
		fprintf(stderr, "sennit: a message cannot become the MPI's: %s\n",
			rc ? "it refuses to look for it" : "it looks for it in another way than before");
		abort();
	}
	return s->real = sn_mpi_nth(&s->real, 0);
}

void sn_matched_ends(handle comm)
{
	for (struct slot *s = slots; s < slots + MOST; s++)
		if (atomic_load_explicit(&s->state, memory_order_relaxed) >= FULL && hold(s)) {
			if (sn_mpi_plain(s->call.comm) == sn_mpi_plain(comm))
				real_of(s);
			set(s, FULL);
		}
}

/* ---- MPI_Mprobe ---- */

static int do_slowly(const struct call *c, void *message, void *status, const union function *slowly)
{
	sn_requests_before();
	return SN_FUNCTION(slowly).mprobe(c->peer, c->tag, c->comm, message, status);
}

static __attribute__((noinline)) int do_watched(const struct call *c, void *message, void *status,
						const union function *slowly)
{
	struct entry *e = sn_watch_probe(c);
	uint64_t unused[8];
	if (!e)
		return do_slowly(c, message, status, slowly);
	void *seen = wanted(status) ? status : unused;
	int rc = do_slowly(c, message, seen, slowly);
	sn_quick_watched();
	if (!rc)
		sn_learn_probe(e, seen);
	return rc;
}

/* A message has been taken that is for the MPI to see. */
static int hand_over(struct slot *s, const struct call *c, void *message, void *status,
		     const union function *slowly)
{
	sn_mpi_thread.message = &s->message;
	int rc = do_slowly(c, message, status, slowly);
	if (sn_mpi_thread.message) {
		fprintf(stderr, "sennit: MPI_Mprobe looks in another way than before\n");
		abort();
	}
	free_slot(s);
	return rc;
}

static int mprobe(int p, int from, int tag, handle comm, void *message, void *status)
{
	const struct call c = {.comm = comm, .peer = from, .tag = tag, .freed = sn_freed(comm)};
	const union function *slowly = &next[p][MPROBE];
	const struct sn_shim_quick *q = sn_elsewhere_windows() ? NULL : quick();
	if (!q || from < 0 || (tag < 0 && tag != sn_mpi_any_tag()) || !message ||
	    atomic_load_explicit(&off, memory_order_relaxed))
		return do_slowly(&c, message, status, slowly);
	struct entry *e = sn_seen_known(sn_mpi_thread.mine->probes, &c);
	if (!e)
		return do_watched(&c, message, status, slowly);
	struct slot *s = sn_seen_in_turn(e) ? take() : NULL;
	if (!s)
		return do_slowly(&c, message, status, slowly);
	int found = q->probe(&e->way, &s->message);
	if (found < 0) {
		free_slot(s);
		return do_slowly(&c, message, status, slowly);
	}
	if (!found)
		return hand_over(s, &c, message, status, slowly);
	s->call = c;
	s->tag = e->tag;
	set(s, FULL);
	sn_mpi_put(message, 0, first_name() + (handle)(s - slots));
	if (wanted(status))
		status_fill(status, c.peer, e->tag, (int64_t)s->message.len);
	return 0;
}

/* ---- its receives ---- */

/* Of a type of the MPI's own, into a host's memory, where it has room. */
static bool fits(const struct slot *s, const void *buf, int64_t count, handle type)
{
	struct sn_meet_type t = sn_type_find(type, sn_collective_generation());
	return !s->real && t.plain && count >= 0 && sn_type_bytes(&t, count) >= s->message.len &&
	       (buf || !s->message.len) && !sn_mpi_in_place(buf) &&
	       sn_kin_in_host((uintptr_t)buf >> SN_QUICK_REGION);
}

/* It is the MPI's from here on, and held no longer; its name is its own until the call is over. */
static void become(struct slot *s, void *message)
{
	sn_mpi_put(message, 0, real_of(s));
	set(s, FULL);
}

/* Negative: it has become the MPI's. */
static int64_t receive(struct slot *s, void *buf, int64_t count, handle type, void *message, void *status)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	int64_t len = q && fits(s, buf, count, type) ? q->bring(&s->message, buf) : -1;
	if (len < 0) {
		become(s, message);
		return len;
	}
	if (wanted(status))
		status_fill(status, s->call.peer, s->tag, len);
	sn_mpi_put(message, 0, null_message);
	free_slot(s);
	return len;
}

/* What the MPI leaves of one that it could not receive is its affair. */
static int used(struct slot *s, int rc)
{
	if (s)
		free_slot(s);
	return rc;
}

static int mrecv(int p, void *buf, int count, handle type, void *message, void *status)
{
	struct slot *s = held(message);
	if (s && receive(s, buf, count, type, message, status) >= 0)
		return 0;
	sn_requests_before();
	return sn_requests_after(
		used(s, SN_FUNCTION(&next[p][MRECV]).mrecv(buf, count, type, message, status)));
}

static int imrecv(int p, void *buf, int count, handle type, void *message, void *request)
{
	struct slot *s = held(message);
	if (s)
		become(s, message);
	return used(s, SN_FUNCTION(&next[p][IMRECV]).mrecv(buf, count, type, message, request));
}

/* Of this library: entry.S. */
extern int PMPI_Mrecv(void *buf, int count, handle type, void *message, void *status);
extern int PMPI_Imrecv(void *buf, int count, handle type, void *message, void *request);
extern int PMPI_Message_c2f(handle message);

static int int_of(int64_t count)
{
	return count == (int)count ? (int)count : -1;
}

/* Where the MPI has none, what no int has room for is wrong. */
static int mrecv_c(int p, void *buf, int64_t count, handle type, void *message, void *status)
{
	union function mpi = SN_FUNCTION(&next[p][MRECV_C]);
	if (!mpi.symbol || (count >= 0 && count <= INT_MAX))
		return PMPI_Mrecv(buf, int_of(count), type, message, status);
	struct slot *s = held(message);
	if (s)
		become(s, message);
	sn_requests_before();
	return sn_requests_after(used(s, mpi.mrecv_c(buf, count, type, message, status)));
}

static int imrecv_c(int p, void *buf, int64_t count, handle type, void *message, void *request)
{
	union function mpi = SN_FUNCTION(&next[p][IMRECV_C]);
	if (!mpi.symbol || (count >= 0 && count <= INT_MAX))
		return PMPI_Imrecv(buf, int_of(count), type, message, request);
	struct slot *s = held(message);
	if (s)
		become(s, message);
	return used(s, mpi.mrecv_c(buf, count, type, message, request));
}

/*
 * A program in Fortran: its messages are the MPI's from here on. What C calls this one leads to the MPI, too, so the
 * slot stays, and is no other's: whoever receives it may do so by either.
 */
static int number(int call, int p, handle message)
{
	struct slot *s = slot_of(message);
	if (!SN_FUNCTION(&next[p][call])
		     .symbol) /* programs ask for it by a weak symbol, and then this is there */
		return PMPI_Message_c2f(message);
	if (!s || !hold(s))
		return SN_FUNCTION(&next[p][call]).number(message);
	atomic_store(&off, true);
	message = real_of(s);
	set(s, FULL);
	return SN_FUNCTION(&next[p][call]).number(message);
}

/* ---- standing in ---- */

#define STAND_INS(p)                                                                                         \
	static int mprobe_##p(int from, int tag, handle comm, void *message, void *status)                   \
	{                                                                                                    \
		return mprobe(p, from, tag, comm, message, status);                                          \
	}                                                                                                    \
	static int mrecv_##p(void *buf, int count, handle type, void *message, void *status)                 \
	{                                                                                                    \
		return mrecv(p, buf, count, type, message, status);                                          \
	}                                                                                                    \
	static int imrecv_##p(void *buf, int count, handle type, void *message, void *request)               \
	{                                                                                                    \
		return imrecv(p, buf, count, type, message, request);                                        \
	}                                                                                                    \
	static int mrecv_c_##p(void *buf, int64_t count, handle type, void *message, void *status)           \
	{                                                                                                    \
		return mrecv_c(p, buf, count, type, message, status);                                        \
	}                                                                                                    \
	static int imrecv_c_##p(void *buf, int64_t count, handle type, void *message, void *request)         \
	{                                                                                                    \
		return imrecv_c(p, buf, count, type, message, request);                                      \
	}                                                                                                    \
	static int c2f_##p(handle message)                                                                   \
	{                                                                                                    \
		return number(C2F, p, message);                                                              \
	}                                                                                                    \
	static int toint_##p(handle message)                                                                 \
	{                                                                                                    \
		return number(TOINT, p, message);                                                            \
	}

STAND_INS(0)
STAND_INS(1)

static const struct {
	const char *name;
	union function stand_in[2];
} calls[CALLS] = {
	[MPROBE] = {"MPI_Mprobe", {{.mprobe = mprobe_0}, {.mprobe = mprobe_1}}},
	[MRECV] = {"MPI_Mrecv", {{.mrecv = mrecv_0}, {.mrecv = mrecv_1}}},
	[IMRECV] = {"MPI_Imrecv", {{.mrecv = imrecv_0}, {.mrecv = imrecv_1}}},
	[MRECV_C] = {"MPI_Mrecv_c", {{.mrecv_c = mrecv_c_0}, {.mrecv_c = mrecv_c_1}}},
	[IMRECV_C] = {"MPI_Imrecv_c", {{.mrecv_c = imrecv_c_0}, {.mrecv_c = imrecv_c_1}}},
	[C2F] = {"MPI_Message_c2f", {{.number = c2f_0}, {.number = c2f_1}}},
	[TOINT] = {"MPI_Message_toint", {{.number = toint_0}, {.number = toint_1}}},
};

static int call_named(const char *name)
{
	return sn_quick_named(calls, sizeof(*calls), CALLS, name);
}

bool sn_matched_is(const char *name)
{
	return call_named(name) < CALLS;
}

void *sn_matched_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', call = call_named(name);
	if (!definition && call != MRECV_C && call != IMRECV_C && call != TOINT)
		return NULL;
	find_once();
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of our requests (requests.h), for requests.c (giving them, MPI_Wait and MPI_Waitall), tested.c (MPI_Test,
 * MPI_Waitany and their like), asked.c (all other functions) and visit.c (whose they are).
 */
#ifndef SN_SHIM_OWN_H
#define SN_SHIM_OWN_H

#include "begun.h"
#include "holder.h"
#include "packed.h"
#include "requests.h"

#define SLOTS 1024

union function {
	void *symbol;
	int (*irecv)(void *buf, int count, handle type, int from, int tag, handle comm, void *request);
	int (*wait)(void *request, void *status);
	int (*all)(int n, void *requests, void *statuses);
	int (*any)(int n, void *requests, int *index, void *status);
	int (*some)(int n, void *requests, int *count, int *indices, void *statuses);
	int (*test)(void *request, int *flag, void *status);
	int (*testall)(int n, void *requests, int *flag, void *statuses);
	int (*testany)(int n, void *requests, int *index, int *flag, void *status);
	int (*one)(void *request);
	int (*value)(handle request, int *flag, void *status);
	int (*number)(handle request);
	int (*is_complete)(handle request);
};

enum {
	WAIT,
	WAITALL,
	WAITANY,
	WAITSOME,
	TEST,
	TESTALL,
	TESTANY,
	TESTSOME,
	REQUEST_FREE,
	CANCEL,
	GET_STATUS,
	GET_ALL,
	GET_ANY,
	GET_SOME,
	C2F,
	TOINT,
	IS_COMPLETE,
	IRECV,
	GREQUEST_START,
	GREQUEST_COMPLETE,
	CALLS
};

/*
 * A receive of ours, or a collective that does not block (begun.h). It is complete, or posted, or by now the MPI's, and then its name stays ours: the program may
 * have copies of it.
 */
struct slot {
	struct sn_shim_ahead ahead; /* posted NULL: it has come, or is the MPI's */
	int64_t len; /* that have come; negative: not yet. While it is posted the provider writes it */
	handle real; /* the MPI's */
	struct sn_begun
		*begun; /* it is no receive, but such a collective that is not over; NULL afterwards */
	struct sn_packed
		packed; /* of what is the MPI's from the first on, and has such bytes; at NULL: it has not */
	struct entry *entry;
	struct call call;
	struct slot *before, *after; /* among those that are posted */
	struct slot *told;	     /* packed.c: the next one that another language knows */
	struct slot *next;	     /* free, or of the same MPI_Waitall; NULL: the last */
	int at;			     /* its place there */
	int tag;		     /* of its message */
	int asked;		     /* for it, in vain (tested.c) */
	uint64_t since;		     /* ns: some of these times */
};

extern union function sn_own_mpi[CALLS];
extern handle sn_own_null; /* MPI_REQUEST_NULL */
extern struct slot sn_own_slots[SLOTS];
extern _Atomic uintptr_t sn_own_names; /* the first of SLOTS + 1; 0: none was ever given */

/* It had not come, and is the MPI's from now on, unless it has come now. */
void sn_own_too_late(struct slot *s);
/* Of one that is no receive: 0: it is over; SN_SHIM_NOT_YET; SN_SHIM_NEVER: it has failed, and is the MPI's. */
int64_t sn_own_look_begun(struct slot *s);
/* The MPI's for this one, whatever has become of it; NULL: for a send that is complete. */
handle sn_own_real(struct slot *s);
/* No more are given. */
void sn_own_off(void);
/* All that are pending become the MPI's, by whoever has them to himself. */
void sn_own_give_all(void);

/* ---- visit.c: to have them to oneself ---- */
extern _Atomic uint32_t sn_own_visited;
extern atomic_bool sn_own_shared; /* others may call at once; as long as none was given it is not known yet */
/* Can they be given, now that it is known how? By the holder, with sn_own_lock(). */
bool sn_own_may(void);
static inline void sn_own_leave(void)
{
	if (atomic_load_explicit(&sn_own_shared, memory_order_relaxed))
		atomic_store_explicit(&sn_mpi_thread.mine->inside, 0, memory_order_release);
}
static inline bool sn_own_visitors(void)
{
	return atomic_load_explicit(&sn_own_visited, memory_order_acquire);
}
/* At once, where it is shared, by who has held. False: somebody visits, or holds. */
static inline bool sn_own_enter_now(void)
{
	atomic_store_explicit(&sn_mpi_thread.mine->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (likely(!sn_own_visitors() && sn_holder_is_me()))
		return true;
	atomic_store_explicit(&sn_mpi_thread.mine->inside, 0, memory_order_release);
	return false;
}
bool sn_own_enter_later(void);
/* By a thread that calls, and is not in the MPI. False: nothing of its own is pending; and there is nothing to leave. */
static inline bool sn_own_enter(void)
{
	/*
	 * not known to be shared: then one thread calls at a time; or nothing is pending yet, and the holder may
	 * change that
	 */
	if (likely(!atomic_load_explicit(&sn_own_shared, memory_order_relaxed)))
		return likely(threads() == ONE) || sn_holder_is_me();
	return sn_holder_is_me() &&
	       (likely(!sn_own_visitors() && sn_own_enter_now()) || sn_own_enter_later());
}
/*
 * With sn_own_lock(), by who ends the tenure of another thread: all that is pending becomes the MPI's, and no more is
 * posted until sn_own_settled().
 */
void sn_own_settle(void);
void sn_own_settled(void);
/* A tenure begins, with sn_own_lock(). None are given in it, if there were too many visits before. */
void sn_own_begin(void);
extern atomic_bool sn_own_paused;
/* Whose tenure it is, or was last. With sn_own_lock(). */
const struct sn_mine *sn_holder_last(void);
/* Somebody will see to it that all become the MPI's. */
void sn_own_ask(void);
/* For what only several threads at once could do to one that is not pending. */
void sn_own_lock(void);
void sn_own_unlock(void);

static inline handle at(const void *requests, int i)
{
	return sn_mpi_nth(requests, i);
}

static inline void *from(void *requests, int i)
{
	return sn_mpi_from(requests, i);
}

static inline void put(void *requests, int i, handle h)
{
	sn_mpi_put(requests, i, h);
}

static inline void *status_at(void *statuses, int i)
{
	return wanted(statuses) ? (char *)statuses + (size_t)i * status_size() : statuses;
}

/* packed.c: so many of ours have the MPI's name, by which another language knows them; and which one has this name. */
extern _Atomic unsigned sn_own_told;
uintptr_t sn_own_told_of(handle h);

/* Above SLOTS: not ours. SLOTS: complete. */
static inline uintptr_t own(handle h)
{
	uintptr_t first = atomic_load_explicit(&sn_own_names, memory_order_relaxed);
	uintptr_t i = first ? h - first : UINTPTR_MAX;
	return likely(i <= SLOTS || !atomic_load_explicit(&sn_own_told, memory_order_relaxed))
		       ? i
		       : sn_own_told_of(h);
}

static inline struct slot *slot_of(uintptr_t i)
{
	return i < SLOTS ? &sn_own_slots[i] : NULL;
}

static inline handle name_of(const struct slot *s)
{
	return !likely(!s->packed.told) ? s->real
					: atomic_load_explicit(&sn_own_names, memory_order_relaxed) +
						  (uintptr_t)(s - sn_own_slots);
}

/*
 * Slots that are free: those that who has entered takes from and gives back to; and those that were given back by
 * others, since all of these were taken.
 */
extern struct slot *sn_own_free;
extern struct slot *_Atomic sn_own_returned;
/* One of them, that is neither posted nor complete, by who has not entered. NULL: there is none now. */
struct slot *sn_own_new(void);
static inline void put_back(struct slot *s, bool entered)
{
	if (!likely(!s->packed.at))
		sn_packed_end(&s->packed, s->len);
	if (likely(entered)) {
		s->next = sn_own_free;
		sn_own_free = s;
		return;
	}
	s->next = atomic_load_explicit(&sn_own_returned, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&sn_own_returned, &s->next, s, memory_order_release,
						      memory_order_relaxed))
		;
}

static inline void no_longer_posted(struct slot *s)
{
	s->before->after = s->after;
	s->after->before = s->before;
	s->before = s->after = s;
}

static inline void come(struct slot *s)
{
	uint32_t stay = atomic_load_explicit(&sn_mpi_shim.stays, memory_order_relaxed);
	atomic_store_explicit(&sn_mpi_shim.stays, stay - 1, memory_order_relaxed);
	s->ahead.posted = NULL;
	no_longer_posted(s);
	if (likely(!sn_own_visitors()))
		sn_seen_came(s->entry, &s->call);
}

/*
 * By who has entered. The bytes that have come; SN_SHIM_NOT_YET; SN_SHIM_NEVER: it is the MPI's. One that is complete
 * has no slot.
 */
static inline __attribute__((always_inline)) int64_t look(struct slot *s, uint32_t looks)
{
	if (!s)
		return 0;
	int64_t len = __atomic_load_n(&s->len, __ATOMIC_ACQUIRE);
	if (!likely(s->ahead.posted))
		return len >= 0 ? len : s->begun ? sn_own_look_begun(s) : SN_SHIM_NEVER;
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	if (!likely(len >= 0))
		len = q->test(s->ahead.posted, s->ahead.way.exactly, looks, &s->len);
	if (likely(len >= 0))
		come(s);
	else if (len == SN_SHIM_NEVER)
		sn_own_too_late(s);
	return len;
}

static inline void fill(void *status, const struct slot *s)
{
	if (wanted(status))
		status_fill(status, s ? s->call.peer : 0, s ? s->tag : 0, s ? s->len : 0);
}

/* The program has it no more. */
static inline void end(void *requests, int i, struct slot *s, void *status, bool entered)
{
	fill(status, s);
	put(requests, i, sn_own_null);
	if (s)
		put_back(s, entered);
}

/* MPIs say of each of several that it has ended well. */
static inline void fill_one_of(void *statuses, int i, const struct slot *s)
{
	if (!wanted(statuses))
		return;
	fill(status_at(statuses, i), s);
	status_head(status_at(statuses, i))->error = 0;
}

/* ---- requests.c: learning ---- */
/*
 * The place among these of the receive that is watched, until sn_quick_watched() or sn_seen_ends(); negative: it is not
 * there. Looks at ours, too, may bring its message.
 */
int sn_own_learn_among(int n, const void *requests);
/*
 * What is left of a request that has ended, and how a status is written, are as they were taken to be: ours may be
 * given.
 */
void sn_own_switch_on(handle left);

/* ---- packed.c: what is asked of a request that has such bytes ---- */
/* Are its bytes where the program wants them, now that the MPI has said that it has ended? It keeps its name. */
void sn_own_packed_placed(struct slot *s);
/* So many have come, but nobody hears of it any more: the MPI's request for it says so from now on. */
void sn_own_packed_came(struct slot *s, int64_t len);
/* Another language is told of it: from now on it has the MPI's name, too. */
void sn_own_packed_told(struct slot *s);
/* The program wants to hear no more of it: 0, or an error of the MPI's. */
int sn_own_packed_free(struct slot *s);

/* ---- tested.c ---- */
int sn_own_testall(int n, void *requests, int *flag, void *statuses);
int sn_own_waitany(int n, void *requests, int *index, void *status);
int sn_own_testany(int n, void *requests, int *index, int *flag, void *status);
int sn_own_waitsome(int n, void *requests, int *count, int *indices, void *statuses);
int sn_own_testsome(int n, void *requests, int *count, int *indices, void *statuses);
int sn_own_test(void *request, int *flag, void *status);
/* ---- asked.c ---- */
int sn_own_request_free(void *request);
int sn_own_cancel(void *request);
int sn_own_get_status(handle request, int *flag, void *status);
int sn_own_get_all(int n, void *requests, int *flag, void *statuses);
int sn_own_get_any(int n, void *requests, int *index, int *flag, void *status);
int sn_own_get_some(int n, void *requests, int *count, int *indices, void *statuses);
int sn_own_is_complete(handle request);
int sn_own_c2f(handle request);
int sn_own_toint(handle request);

#endif

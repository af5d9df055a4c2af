/* SPDX-License-Identifier: BSD-3-Clause */
#include "packed.h"
#include "collective.h"
#include "forgotten.h"
#include "own.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *name, const char *value)
{
	const char *v = getenv(name);
	return v && !strcmp(v, value);
}

/*
 * MPICH, and Intel MPI, move what goes by memory of their own in pieces: to oneself, and, unless told not to, on a node. A
 * piece of bytes that ends within an element is an error for who receives it as one of a type.
 */
static bool goes_whole(const struct call *c)
{
	static _Atomic int outside; /* 0: not asked yet; negative: no */
	int rank;
	if (sn_mpi_family != MPICH)
		return true;
	if (!likely(outside))
		outside = is("MPIR_CVAR_NOLOCAL", "1") || is("I_MPI_FABRICS", "ofi") ? 1 : -1;
	return outside > 0 && !sn_proof_mpi.comm_rank(c->comm, &rank) && rank != c->peer;
}

static __attribute__((noinline)) const struct sn_layout *ask(const struct call *c, unsigned now)
{
	if (sn_mpi_builtin(c->type) || sn_layout_is_too_new(c->type, sn_type_generation(c->type, now)) ||
	    !sn_proof_find())
		return NULL;
	struct sn_meet_type t = sn_type_find(c->type, now);
	return t.size > 0 ? sn_layout_of(&t) : NULL;
}

/* What may be packed here: else NULL. */
static const struct sn_layout *layout_of(bool in, const void *buf, const struct call *c, size_t *len)
{
	if (!buf || c->count <= 0 || (!in && c->peer < 0) || c->peer == sn_mpi_nobody() ||
	    sn_mpi_in_place(buf))
		return NULL;
	unsigned now = sn_collective_generation();
	const struct sn_layout *l = sn_layout_known(c->type, sn_type_generation(c->type, now));
	if (!likely(l))
		l = ask(c, now);
	*len = l ? l->size * (size_t)c->count : 0;
	return l && *len <= SN_PACKED_MOST && sn_kin_in_host(c->region) && (in || goes_whole(c)) ? l : NULL;
}

/*
 * Does the MPI have the provider receive it, all of it, where it is to be? Open MPI's pml cm does, to which anything else is the provider's
 * affair; but it may have been told to go other ways. MPICH and Intel MPI bring along by themselves what comes from this rank, and may
 * fetch what is long in several steps (MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD, I_MPI_OFI_MAX_MSG_SIZE), of which the provider knows the first.
 */
static bool may_receive(void)
{
	return sn_mpi_family == OPEN_MPI;
}

/* 1: of those that have ended the provider has received one; -1, from then on: not one of them. */
static atomic_int receives;

/*
 * Whoever copies out of a message's memory, or into it, maps it if it is the heap's (heap.h), which blocks of so many bytes are. Worth
 * it for messages of more than BY_OTHERS: shorter ones go through a ring as fast.
 */
#define MAPPED	  (256u << 10)
#define BY_OTHERS (32u << 10)
static bool gets_mapped_memory(size_t len)
{
	return len > BY_OTHERS && len < MAPPED;
}

/* ---- calls that block ---- */

/* NULL: it is in use, or there is none. */
static char *take(bool in, size_t len)
{
	struct sn_packing *m = &sn_mpi_thread.mine->packing[in];
	if (m->busy)
		return NULL;
	if (m->bytes < len) {
		free(m->at);
		if (gets_mapped_memory(len))
			len = MAPPED;
		m->at = malloc(len);
		m->bytes = m->at ? len : 0;
	}
	m->busy = m->at != NULL;
	return m->at;
}

static void give_back(bool in)
{
	struct sn_packing *m = &sn_mpi_thread.mine->packing[in];
	m->busy = false;
	if (m->bytes <= SN_PACKED_KEPT)
		return;
	free(m->at);
	m->at = NULL;
	m->bytes = 0;
}

static bool begin(struct sn_packed *p, bool in, const void *buf, const struct call *c)
{
	size_t len;
	intptr_t at;
	const struct sn_layout *l = layout_of(in, buf, c, &len);
	if (!l)
		return false;
	*p = (struct sn_packed){.layout = l, .buf = (void *)(uintptr_t)buf, .len = (int)len, .in = in};
	if (sn_layout_is_whole(l, c->count, &at)) {
		p->layout = NULL;
		p->at = (char *)((uintptr_t)buf + (uintptr_t)at);
		return at || l->extent != (intptr_t)l->size; /* else it goes the quick way as it is */
	}
	p->at = take(in, len);
	return p->at != NULL;
}

bool sn_packed_out(struct sn_packed *p, const void *buf, const struct call *c)
{
	if (!begin(p, false, buf, c))
		return false;
	if (p->layout)
		sn_layout_pack(p->layout, p->at, buf, (size_t)p->len);
	return true;
}

bool sn_packed_in(struct sn_packed *p, void *buf, const struct call *c)
{
	return begin(p, true, buf, c);
}

void sn_packed_sent(struct sn_packed *p)
{
	if (p->layout)
		give_back(false);
}

/* How an MPI writes that is known when it has been seen (abi.h), and until then it is asked. */
static size_t bytes_in(const void *status)
{
	static int (*_Atomic get_count)(const void *status, handle type, int *count);
	int n = 0;
	if (likely(status_seen()))
		return status_len(status);
	if (!get_count) {
		void *found = sn_mpi_find("PMPI_Get_count");
		memcpy(&get_count, &found, sizeof(found));
	}
	return get_count && !get_count(status, sn_mpi_handle(SN_BYTE), &n) && n > 0 ? (size_t)n : 0;
}

void sn_packed_came(struct sn_packed *p, int rc, const void *status)
{
	if (!p->layout)
		return;
	if (!rc)
		sn_layout_unpack(p->layout, p->buf, p->at, bytes_in(status));
	give_back(true);
}

/* ---- calls that do not ---- */

/*
 * Memory that was given back, by the power of two that its length is. What others copy is a piece of a slab that they
 * map, as long as there are not too many of those, and stays.
 */
#define KINDS 21
#define EACH  8
#define SLABS 16
struct block {
	struct block *next;
};
static struct {
	struct block *first;
	unsigned n;
} blocks[KINDS];
static char *slab[SLABS];
static unsigned slabs;
_Static_assert(1u << (KINDS - 1) == SN_PACKED_KEPT, "the longest that are kept");
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned kind_of(size_t len)
{
	return len <= sizeof(struct block) ? 3 : 64 - (unsigned)__builtin_clzl(len - 1);
}

static bool is_of_slab(const char *at)
{
	bool found = false;
	for (unsigned i = 0; i < slabs && !found; i++)
		found = (uintptr_t)at - (uintptr_t)slab[i] < MAPPED;
	return found;
}

static void put_block(unsigned kind, char *at)
{
	struct block *b = (struct block *)(void *)at;
	b->next = blocks[kind].first;
	blocks[kind].first = b;
	blocks[kind].n++;
}

static char *take_block(unsigned kind)
{
	struct block *b = blocks[kind].first;
	if (b) {
		blocks[kind].first = b->next;
		blocks[kind].n--;
	}
	return (char *)b;
}

static __attribute__((noinline)) void cut_slab(unsigned kind)
{
	char *all = slabs < SLABS ? malloc(MAPPED) : NULL;
	if (!all)
		return;
	slab[slabs++] = all;
	for (size_t at = 0; at < MAPPED; at += (size_t)1 << kind)
		put_block(kind, all + at);
}

static char *memory(size_t len)
{
	unsigned kind = kind_of(len);
	if (kind >= KINDS)
		return malloc(len);
	bool several = sn_quick_guard(&lock);
	if (!likely(blocks[kind].first) && gets_mapped_memory(len))
		cut_slab(kind);
	char *at = take_block(kind);
	sn_quick_unguard(&lock, several);
	return at ? at : malloc((size_t)1 << kind);
}

static void memory_back(const struct sn_packed *p)
{
	unsigned kind = kind_of((size_t)p->len);
	bool kept = false;
	if (kind < KINDS) {
		bool several = sn_quick_guard(&lock);
		kept = blocks[kind].n < EACH || is_of_slab(p->at);
		if (kept)
			put_block(kind, p->at);
		sn_quick_unguard(&lock, several);
	}
	if (!kept)
		free(p->at);
}

static void count_notes(uint32_t by)
{
	if (sn_quick_serial())
		atomic_store_explicit(&sn_mpi_shim.noted,
				      atomic_load_explicit(&sn_mpi_shim.noted, memory_order_relaxed) + by,
				      memory_order_relaxed);
	else
		atomic_fetch_add(&sn_mpi_shim.noted, by);
}

/* Before it is posted. Where somebody else's note is in its place it has none. */
static void note(struct sn_packed *p)
{
	unsigned at = sn_shim_note_of((uintptr_t)p->at);
	struct sn_shim_note *n = &sn_mpi_shim.notes[at];
	uintptr_t nobody = atomic_load_explicit(&n->buf, memory_order_relaxed);
	if (nobody || (!sn_quick_serial() && !atomic_compare_exchange_strong(&n->buf, &nobody, UINTPTR_MAX)))
		return;
	atomic_store_explicit(&n->came, -1, memory_order_relaxed);
	atomic_store_explicit(&n->buf, (uintptr_t)p->at, memory_order_release);
	count_notes(1);
	p->note = (int)at + 1;
}

static void unnote(struct sn_packed *p)
{
	if (!p->note)
		return;
	atomic_store_explicit(&sn_mpi_shim.notes[p->note - 1].buf, 0, memory_order_release);
	count_notes(UINT32_MAX);
	p->note = 0;
}

/* What goes out of use here may be somebody else's at once. */
static void done_with(struct sn_packed *p)
{
	unnote(p);
	memory_back(p);
}

void sn_own_packed_came(struct slot *s, int64_t len)
{
	if (s->packed.note)
		atomic_store_explicit(&sn_mpi_shim.notes[s->packed.note - 1].came, len, memory_order_release);
}

/*
 * The provider knows nothing of one of which it is to know all: nothing has come, or the MPI has gone another way than
 * with those before.
 */
static size_t nothing(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	if (!atomic_flag_test_and_set(&said))
		fprintf(stderr, "sennit: a receive of a type with holes has ended of which nothing has come "
				"by sennit. "
				"If its message is missing, SENNIT_SHIM=no leaves such types to the MPI\n");
	return 0;
}

/* So many bytes are to be unpacked. told: by whoever has received them, but for the provider; negative: nobody has. */
static size_t came(const struct sn_packed *p, int64_t told)
{
	int unknown = 0;
	if (told >= 0 || !p->note)
		return told >= 0 ? (size_t)told : (size_t)p->len;
	int64_t noted = atomic_load_explicit(&sn_mpi_shim.notes[p->note - 1].came, memory_order_acquire);
	if (noted < 0)
		atomic_store(&receives, -1);
	else if (!atomic_load_explicit(&receives, memory_order_relaxed))
		atomic_compare_exchange_strong(&receives, &unknown, 1);
	return noted >= 0 ? (size_t)noted : p->filled ? (size_t)p->len : nothing();
}

/* ---- those that another language knows by the MPI's name ---- */

#define HEADS 256
static struct slot *heads[HEADS]; /* with the lock, as the blocks */
_Atomic unsigned sn_own_told;

static struct slot **head_of(handle real)
{
	return &heads[(real ^ real >> 4 ^ real >> 12) % HEADS];
}

/* It is the MPI's by now. */
void sn_own_packed_told(struct slot *s)
{
	if (s->packed.told)
		return;
	bool several = sn_quick_guard(&lock);
	struct slot **head = head_of(s->real);
	s->told = *head;
	*head = s;
	s->packed.told = true;
	atomic_fetch_add(&sn_own_told, 1);
	sn_quick_unguard(&lock, several);
}

uintptr_t sn_own_told_of(handle h)
{
	bool several = sn_quick_guard(&lock);
	struct slot *s = *head_of(h);
	while (s && s->real != h)
		s = s->told;
	sn_quick_unguard(&lock, several);
	return s ? (uintptr_t)(s - sn_own_slots) : UINTPTR_MAX;
}

/* Nobody knows it any more. */
static void untold(struct sn_packed *p)
{
	bool several = sn_quick_guard(&lock);
	struct slot **at = head_of(p->slot->real);
	while (*at && *at != p->slot)
		at = &(*at)->told;
	if (*at)
		*at = p->slot->told;
	p->told = false;
	atomic_fetch_sub(&sn_own_told, 1);
	sn_quick_unguard(&lock, several);
}

void sn_packed_end(struct sn_packed *p, int64_t told)
{
	if (p->in)
		sn_layout_unpack(p->layout, p->buf, p->at, came(p, told));
	if (!likely(!p->told))
		untold(p);
	done_with(p);
	p->at = NULL;
}

bool sn_packed_later(struct sn_packed *p, bool in, const void *buf, const struct call *c)
{
	size_t len;
	intptr_t at;
	const struct sn_layout *l = layout_of(in, buf, c, &len);
	if (!l || sn_layout_is_whole(l, c->count, &at))
		return false;
	sn_forgotten_sends();
	*p = (struct sn_packed){.layout = l, .buf = (void *)(uintptr_t)buf, .len = (int)len, .in = in};
	p->at = memory(len);
	if (p->at && in && may_receive())
		note(p);
	p->filled = !p->note || atomic_load_explicit(&receives, memory_order_relaxed) <= 0;
	if (p->at && p->filled)
		sn_layout_pack(l, p->at, buf, len);
	return p->at != NULL;
}

void sn_packed_quick(struct sn_packed *p, void *request)
{
	struct slot *s = slot_of(own(at(request, 0)));
	if (s) {
		s->packed = *p;
		s->packed.slot = s;
	} else {
		done_with(p);
	}
}

bool sn_packed_slowly(struct sn_packed *p)
{
	p->slot = sn_own_new();
	if (!p->slot)
		done_with(p);
	return p->slot != NULL;
}

void sn_packed_begun(struct sn_packed *p, int rc, handle real, void *request)
{
	if (rc) {
		done_with(p);
		put_back(p->slot, false);
		return;
	}
	p->slot->real = real;
	p->slot->packed = *p;
	put(request, 0, name_of(p->slot));
}

/* ---- other questions about its request (asked.c) ---- */

void sn_own_packed_placed(struct slot *s)
{
	struct sn_packed *p = &s->packed;
	if (p->in)
		sn_layout_unpack(p->layout, p->buf, p->at, came(p, -1));
	p->in = false; /* they may be written by the program before the request ends */
}

int sn_own_packed_free(struct slot *s)
{
	struct sn_forgotten *f = malloc(sizeof(*f));
	if (!f)
		return sn_mpi_err_other();
	handle real = sn_own_real(s);
	if (s->packed.told)
		untold(&s->packed);
	*f = (struct sn_forgotten){.packed = s->packed, .real = real};
	s->packed = (struct sn_packed){0};
	put_back(s, false);
	sn_forgotten_add(f);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree.h"
#include "types.h"
#include <stdio.h>

#define AFTER_NS 1000000000 /* of waiting */
#define AGAIN_NS 500000000  /* and then it is no moment between two lines */

#define ANY	  (UINT64_MAX >> 8) /* bytes that are not known, or not the same on all ranks */
#define NUMBER(n) ((n)&0xffffffff)

_Thread_local struct sn_meet *sn_agree_in __attribute__((tls_model("initial-exec")));

static struct sn_agree_call *note_of(const struct sn_meet *m, unsigned rank, uint64_t number)
{
	return sn_meet_notes(m, rank) + number % SN_AGREE_CALLS;
}

/* ---- what is noted ---- */

static bool varies(int kind)
{
	return kind == SN_REDUCE_SCATTER || kind == SN_ALLGATHERV || kind >= SN_GATHERV;
}

static __attribute__((noinline)) uint64_t look_up(struct sn_meet *m, handle type, unsigned generation)
{
	struct sn_meet_type t = sn_type_find(type, generation);
	m->noted_type = type;
	m->noted_bytes = t.stays && t.size > 0 ? (uint64_t)t.size : ANY;
	return m->noted_bytes;
}

static inline uint64_t bytes_of(struct sn_meet *m, const struct sn_collective *c)
{
	bool in = sn_says_by_in(c->kind, c->root >= 0 && (unsigned)c->root == m->rank);
	int count = in ? c->in_count : c->count;
	handle type = in ? c->in_type : c->type;
	uint64_t each = ANY;
	if (c->kind == SN_BARRIER)
		return 0;
	if (varies(c->kind))
		return ANY;
	if (likely(type == m->noted_type))
		each = m->noted_bytes;
	else if (sn_mpi_builtin(type))
		each = look_up(m, type, c->generation);
	return each == ANY ? ANY : each * (unsigned)count & ANY;
}

/* What others may still compare with: none of it may have the right number. */
static void doubt(struct sn_meet *m)
{
	m->doubts = true;
	for (unsigned i = 0; m->mem && i < SN_AGREE_CALLS; i++)
		atomic_store_explicit(&note_of(m, m->rank, i)->what, 0, memory_order_release);
}

/* Who reads it sees whether both belong together. */
void sn_agree_write(struct sn_meet *m, const struct sn_collective *c, bool begun)
{
	uint64_t number = ++m->noted, root = sn_has_root(c->kind) ? (uint16_t)c->root : 0;
	struct sn_agree_call *n = note_of(m, m->rank, number);
	atomic_store_explicit(&n->bytes, bytes_of(m, c) << 8 | (number & 255), memory_order_relaxed);
	atomic_store_explicit(&n->what, number << 32 | root << 16 | (uint64_t)begun << 8 | (unsigned)c->kind,
			      memory_order_release);
}

void sn_agree_doubt(handle comm)
{
	struct sn_meet *m = sn_meet_of(comm);
	if (m)
		doubt(m);
}

void sn_agree_left(void)
{
	if (sn_agree_in->mem)
		doubt(sn_agree_in);
	sn_agree_in = NULL;
}

/* ---- who waits ---- */

struct note {
	uint64_t number, bytes; /* number 0: that rank has not come to it, or is beyond it */
	uint32_t what;
};

static struct note read_note(const struct sn_meet *m, unsigned rank, uint64_t number)
{
	struct sn_agree_call *from = note_of(m, rank, number);
	uint64_t what = atomic_load_explicit(&from->what, memory_order_acquire),
		 bytes = atomic_load_explicit(&from->bytes, memory_order_relaxed);
	bool is = what && what >> 32 == NUMBER(number) && (bytes & 255) == (number & 255);
	return (struct note){is ? number : 0, bytes >> 8, (uint32_t)what};
}

static bool alike(const struct note *a, const struct note *b)
{
	return a->what == b->what && (a->bytes == b->bytes || a->bytes == ANY || b->bytes == ANY);
}

/* A rank that is, or was, in another call of this number. The rank, or how many there are: none. */
static unsigned find(const struct sn_meet *m, uint64_t number, struct note *mine, struct note *theirs)
{
	*mine = read_note(m, m->rank, number);
	for (unsigned r = 0; r < m->ranks && mine->number; r++) {
		*theirs = read_note(m, r, number);
		if (theirs->number && !alike(mine, theirs))
			return r;
	}
	return m->ranks;
}

struct sn_agree_name sn_agree_name(int kind, bool begun)
{
	static const char *const names[SN_KINDS] = {[SN_BARRIER] = "Barrier",
						    [SN_BCAST] = "Bcast",
						    [SN_ALLREDUCE] = "Allreduce",
						    [SN_ALLTOALL] = "Alltoall",
						    [SN_ALLGATHER] = "Allgather",
						    [SN_REDUCE] = "Reduce",
						    [SN_SCAN] = "Scan",
						    [SN_EXSCAN] = "Exscan",
						    [SN_REDUCE_SCATTER] = "Reduce_scatter",
						    [SN_REDUCE_SCATTER_BLOCK] = "Reduce_scatter_block",
						    [SN_GATHER] = "Gather",
						    [SN_SCATTER] = "Scatter",
						    [SN_ALLGATHERV] = "Allgatherv",
						    [SN_GATHERV] = "Gatherv",
						    [SN_SCATTERV] = "Scatterv",
						    [SN_ALLTOALLV] = "Alltoallv",
						    [SN_ALLTOALLW] = "Alltoallw"};
	struct sn_agree_name name = {"another call"};
	if (kind < 0 || kind >= SN_KINDS)
		return name;
	snprintf(name.text, sizeof(name.text), "MPI_%s%c%s", begun ? "I" : "",
		 begun ? names[kind][0] | 0x20 : names[kind][0], names[kind] + 1);
	return name;
}

static void put(char *to, size_t room, const struct note *n)
{
	int kind = (int)(n->what & 255);
	char root[24] = "", bytes[40] = "";
	if (sn_has_root(kind))
		snprintf(root, sizeof(root), ", root %d", (int)(n->what >> 16));
	if (kind != SN_BARRIER && n->bytes != ANY)
		snprintf(bytes, sizeof(bytes), " of %llu bytes", (unsigned long long)n->bytes);
	snprintf(to, room, "%s%s%s", sn_agree_name(kind, n->what >> 8 & 1).text, bytes, root);
}

static void say(const struct sn_meet *m, unsigned rank, const struct note *mine, const struct note *theirs)
{
	char here[96], there[96];
	put(here, sizeof(here), mine);
	put(there, sizeof(there), theirs);
	fprintf(stderr,
		"sennit: rank %u of a communicator of %u called %s, where rank %u called %s: "
		"all of its ranks must make the same collectives, of the same length and with the same "
		"root\n",
		m->rank, m->ranks, here, rank, there);
}

bool sn_agree_differ(const struct sn_meet *m, struct sn_agree_wait *w)
{
	struct note mine, theirs;
	uint64_t now = sn_quick_now_ns();
	if (!w->since)
		w->since = now;
	if (now - w->since < AFTER_NS || m->doubts || (w->differs && now - w->differs < AGAIN_NS))
		return false;
	unsigned rank = find(m, w->number ? w->number : m->noted, &mine, &theirs);
	if (rank == m->ranks)
		return false;
	if (!w->differs) {
		w->differs = now;
		return false;
	}
	if (!atomic_exchange(&m->mem->failed, 1))
		say(m, rank, &mine, &theirs);
	return true;
}

void sn_agree_waits_long(void)
{
	static atomic_bool said;
	const struct sn_meet *m = sn_agree_in;
	struct note mine, theirs;
	if (!m || !m->mem || m->doubts || atomic_load_explicit(&said, memory_order_relaxed))
		return;
	unsigned rank = find(m, m->noted, &mine, &theirs);
	if (rank < m->ranks && !atomic_exchange(&said, true))
		say(m, rank, &mine, &theirs);
}

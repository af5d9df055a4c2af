/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of which none is made twice, but that differ only in tag, count or buffer, which libsennit-mpi.so takes over
 * after a few (shim/kin.h): every byte, every status and the order are as the MPI would have them. Also of types with
 * gaps, with messages shorter than their receives, of tags beyond those that each MPI has, with others between them that
 * are sent or received in other ways, and where memory may be a GPU's from some call on.
 *
 *     alike [-m]     -m: with MPI_THREAD_MULTIPLE, of which one thread calls
 */
#include "load_beside.h"
#include "own_request.h"
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS	 400
#define MANY	 12
#define MOST	 3000 /* items of a message */
#define ITEM	 16   /* bytes that one takes at most */
#define BUF	 (MOST * ITEM + 2 * BEFORE + 64)
#define REGION	 ((size_t)2 << 20)
#define TYPES	 5
#define NO_GAPS	 3
#define BEFORE	 64 /* bytes of a buffer before the first item */
#define LAST_TAG 32767

static int rank, peer, faults;
static MPI_Datatype types[TYPES];
/* data of an item, where it begins, and what an item takes */
static const struct {
	size_t len, at, extent;
} items[TYPES] = {{1, 0, 1}, {8, 0, 8}, {12, 0, 12}, {4, 0, 16}, {4, 4, 8}};
static MPI_Comm comms[2];
static char *places[MANY + 1];

static void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf("alike: rank %d: %s, round %ld\n", rank, what, i);
}

static void make_types(void)
{
	MPI_Datatype four;
	types[0] = MPI_CHAR;
	types[1] = MPI_DOUBLE;
	MPI_Type_contiguous(3, MPI_INT, &types[2]);
	MPI_Type_create_resized(MPI_INT, 0, 16,
				&types[3]); /* a gap behind each: one is in one piece, two are not */
	int len = 4;
	MPI_Aint at = 4;
	MPI_Type_create_hindexed(1, &len, &at, MPI_BYTE, &four);
	MPI_Type_create_resized(four, 0, 8, &types[4]);
	MPI_Type_free(&four);
	for (int i = 2; i < TYPES; i++)
		MPI_Type_commit(&types[i]);
}

/* In as many places: the heap, the stack's, and memory that lies elsewhere. */
static void make_places(char *stack)
{
	for (int k = 0; k < MANY; k++) {
		char *far =
			mmap(NULL, 2 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(far != MAP_FAILED, "no memory");
		places[k] = k == 0 ? stack : k % 2 ? far : need(BUF);
	}
}

/* ---- one message ---- */

struct message {
	int tag, count, room, type, comm, way;
	uint64_t key;
	char *buf;
};

static void plan(struct message *m, struct rng *r, bool gaps)
{
	bool long_one = chance(r, 5);
	m->type = (int)below(r, gaps ? TYPES : NO_GAPS);
	m->count = (int)below(r, long_one ? MOST : 40);
	m->room = m->count + (chance(r, 30) ? (int)below(r, (uint64_t)(MOST - m->count)) : 0);
	m->tag = chance(r, 10) ? LAST_TAG + (int)below(r, 3) : (int)below(r, 5000);
	m->comm = (int)below(r, 2);
	m->way = (int)below(r, 8);
	m->key = rnd(r);
	m->buf = NULL;
}

static size_t data_at(const struct message *m, size_t i)
{
	size_t len = items[m->type].len;
	return BEFORE + i / len * items[m->type].extent + items[m->type].at + i % len;
}

/* Of what lies in a buffer of so many bytes, all but the message is the guard. */
static size_t span(const struct message *m)
{
	return BEFORE + (size_t)m->room * items[m->type].extent + BEFORE;
}

static void fill(const struct message *m, char *buf, bool send)
{
	size_t len = send ? (size_t)m->count * items[m->type].len : 0;
	memset(buf, GUARD, span(m));
	for (size_t i = 0; i < len; i++)
		buf[data_at(m, i)] = (char)mix(m->key, i);
}

static void check(const struct message *m, const char *buf, long i)
{
	static char want[BUF];
	fill(m, want, true);
	expect(!memcmp(want, buf, span(m)), "a byte", i);
}

static void check_status(const struct message *m, const MPI_Status *s, long i)
{
	int count = -1;
	MPI_Get_count(s, types[m->type], &count);
	expect(s->MPI_SOURCE == peer && s->MPI_TAG == m->tag && count == m->count, "a status", i);
}

/* ---- windows ---- */

static char *place(struct rng *r, int k)
{
	return places[k] + 16 * below(r, 4);
}

/* Both sides send each other a window; the receives come before, or in other ways after. */
static void window(struct rng *both, struct rng *own, int i, bool gaps, bool odd)
{
	struct message out[MANY], in[MANY], turn[2][MANY];
	MPI_Request r[2 * MANY];
	MPI_Status s[2 * MANY];
	static char sent[MANY][BUF];
	for (int side = 0; side < 2; side++)
		for (int k = 0; k < MANY; k++)
			plan(&turn[side][k], both, gaps);
	memcpy(out, turn[rank], sizeof(out));
	memcpy(in, turn[!rank], sizeof(in));
	for (int k = 0; k < MANY; k++) {
		in[k].buf = place(own, k);
		fill(&in[k], in[k].buf, false);
		bool any = odd && in[k].way == 6;
		/* nothing else of this communicator may be taken for it */
		for (int j = 0; any && j < MANY; j++)
			any = j == k || in[j].comm != in[k].comm;
		MPI_Irecv(in[k].buf + BEFORE, in[k].room, types[in[k].type],
			  odd && in[k].way == 7 ? MPI_ANY_SOURCE : peer, any ? MPI_ANY_TAG : in[k].tag,
			  comms[in[k].comm], &r[k]);
	}
	if (i % 3 == 2)
		usleep(rank ? 100 : 0);
	for (int k = 0; k < MANY; k++) {
		fill(&out[k], sent[k], true);
		(odd && out[k].way == 5 ? MPI_Issend : MPI_Isend)(sent[k] + BEFORE, out[k].count,
								  types[out[k].type], peer, out[k].tag,
								  comms[out[k].comm], &r[MANY + k]);
	}
	MPI_Waitall(2 * MANY, r, s);
	for (int k = 0; k < MANY; k++) {
		check(&in[k], in[k].buf, i);
		check_status(&in[k], &s[k], i);
	}
}

/* One after the other, by blocking calls, there and back; or both ways at once. */
static void turns(struct rng *both, struct rng *own, int i)
{
	struct message out, in, turn[2];
	static char sent[BUF];
	MPI_Status s;
	for (int side = 0; side < 2; side++)
		plan(&turn[side], both, i % 4 == 3);
	out = turn[rank];
	in = turn[!rank];
	in.comm = out.comm = turn[0].comm;
	in.buf = place(own, i % MANY);
	fill(&in, in.buf, false);
	fill(&out, sent, true);
	bool any = in.way == 7;
	if (i % 3 == 2) {
		MPI_Sendrecv(sent + BEFORE, out.count, types[out.type], peer, out.tag, in.buf + BEFORE,
			     in.room, types[in.type], peer, any ? MPI_ANY_TAG : in.tag, comms[in.comm], &s);
	} else {
		for (int side = 0; side < 2; side++)
			if (side == rank)
				(out.way == 6 ? MPI_Ssend : MPI_Send)(sent + BEFORE, out.count,
								      types[out.type], peer, out.tag,
								      comms[out.comm]);
			else
				MPI_Recv(in.buf + BEFORE, in.room, types[in.type], peer,
					 any ? MPI_ANY_TAG : in.tag, comms[in.comm], &s);
	}
	check(&in, in.buf, i);
	check_status(&in, &s, i);
}

/* Messages of one tag, of other lengths each, are received in the order in which they were sent. */
static void order(struct rng *both, int i)
{
	static int v[MANY][64], w[MANY][64];
	MPI_Request r[2 * MANY];
	MPI_Status s[2 * MANY];
	int n[2][MANY], tag = 6000 + i;
	for (int side = 0; side < 2; side++)
		for (int k = 0; k < MANY; k++)
			n[side][k] = (int)below(both, 64);
	for (int k = 0; k < MANY; k++) {
		for (int j = 0; j < 64; j++)
			w[k][j] = i * 1000 + k;
		memset(v[k], 0xff, sizeof(v[k]));
		MPI_Isend(w[k], n[rank][k], MPI_INT, peer, tag, MPI_COMM_WORLD, &r[MANY + k]);
		MPI_Irecv(v[k], i % 2 ? 64 : n[!rank][k], MPI_INT, peer, tag, MPI_COMM_WORLD, &r[k]);
	}
	MPI_Waitall(2 * MANY, r, s);
	for (int k = 0; k < MANY; k++) {
		int count = -1;
		MPI_Get_count(&s[k], MPI_INT, &count);
		expect(count == n[!rank][k], "a message out of its turn", i);
		for (int j = 0; j < 64; j++)
			expect(v[k][j] == (j < count ? i * 1000 + k : -1), "a byte of a message in its order",
			       i);
	}
}

/* ---- how many of them went without the MPI ---- */

/* Of receives of which none is like another. Where: in memory that no call had before. */
static int own_ones(int first, char *where)
{
	static int w[64];
	MPI_Request r[8];
	int own = 0;
	for (int i = 0; i < 64; i++) {
		for (int k = 0; k < 8; k++) {
			int tag = first + 8 * i + k;
			char *to = where ? where + (size_t)k * 256 : places[1 + k] + 16 * i;
			MPI_Irecv(to, 1 + tag % 60, MPI_INT, peer, tag, MPI_COMM_WORLD, &r[k]);
			own += is_own(r[k]);
		}
		for (int k = 0; k < 8; k++)
			MPI_Send(w, 1 + (first + 8 * i + k) % 60, MPI_INT, peer, first + 8 * i + k,
				 MPI_COMM_WORLD);
		MPI_Waitall(8, r, MPI_STATUSES_IGNORE);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return own;
}

static void go_without(void)
{
	int own = own_ones(10000, NULL), all = 64 * 8;
	expect(own > all / 4, "hardly any receive goes without the MPI", own);
}

/* From here on what no call had before may be a GPU's. */
static void beside_a_gpu(void)
{
	must(load_beside("libcuda.so.1"), "no library beside this program");
	char *new = mmap(NULL, 64 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(new != MAP_FAILED, "no memory");
	expect(own_ones(20000, new + 32 * REGION) == 0,
	       "memory that may be a GPU's is written without the MPI", 0);
}

int main(int argc, char **argv)
{
	char stack[BUF];
	bool many = argc > 1 && !strcmp(argv[1], "-m");
	int provided, size, *ub, found;
	MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(size == 2, "two ranks are needed");
	peer = !rank;
	comms[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &found);
	must(found && *ub >= LAST_TAG + 2, "no tags beyond 32767 here");
	watch_start(100);
	make_types();
	make_places(stack);
	struct rng both = {4711}, own = {(uint64_t)rank + 1};
	for (int i = 0; i < ROUNDS; i++) {
		watch_feed();
		st.round = i;
		window(&both, &own, i, i >= ROUNDS / 2, i % 8 == 7);
		turns(&both, &own, i);
		order(&both, i);
	}
	go_without();
	for (int i = 0; i < ROUNDS / 4; i++)
		window(&both, &own, i, true, true);
	beside_a_gpu();
	for (int i = 0; i < ROUNDS / 4; i++)
		window(&both, &own, i, true, true);
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!faults && !rank)
		printf("every byte right\n");
	MPI_Finalize();
	return faults != 0;
}

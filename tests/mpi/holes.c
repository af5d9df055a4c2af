/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of types with holes, again and again, so that they are packed without the MPI (shim/packed.h), against bytes and
 * against types of another kind: in each kind of call, whole and in part, of types that are freed and made anew. Every byte
 * that has come is checked, and every other one that it is as it was.
 *
 * Other questions of such requests, of which the first (-a: which) is the last that is asked of one of sennit's.
 *
 *   holes [-m] [-f] [-a 0 to 3] [-t 0 to 5]      -m: MPI_THREAD_MULTIPLE; -f: requests as Fortran has them; -t: only a question
 *                                                of one whose message is there already; 5: none, as it is freed at once
 */
#include "holes_types.h"
#include "own_request.h"
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TYPES  28
#define ASKS   8 /* the last of them, of whose requests other questions are asked: then no more are sennit's */
#define ROUNDS 20 /* of each: its layout is asked for with its 32nd use */
#define ROOM   (512u << 10)
#define TAG    7
#define RING   10

static int rank, ranks;
static char *out, *in, *want, *bytes;
static bool as_fortran;
static int ours; /* requests of sennit's for these */
static bool must_be_ours;

/* At most so many that fit, and of columns as many as the next one is still another. */
static int most_of(const struct kind *k)
{
	long most = k->extent < k->high - k->low ? 3 : 150000 / k->extent;
	return most > 2000 ? 2000 : most < 1 ? 1 : (int)most;
}

/* ---- what is sent, and what is to come ---- */

static long begin_of(const struct kind *k)
{
	return k->low < 0 ? -k->low + 64 : 64;
}

/* The message's first len bytes, of whatever elements, at their places. */
static void place(const struct kind *k, char *buf, const char *packed, long len)
{
	for (long e = 0, left = len; left > 0; e++)
		for (int b = 0; b < k->blocks && left > 0; b++) {
			long n = k->len[b] < left ? k->len[b] : left;
			memcpy(buf + begin_of(k) + e * k->extent + k->at[b], packed, (size_t)n);
			packed += n;
			left -= n;
		}
}

static void check(const struct kind *k, long len, const char *what, int n)
{
	memset(want, GUARD, ROOM);
	place(k, want, bytes, len);
	if (!memcmp(in, want, ROOM))
		return;
	for (size_t i = 0; i < ROOM; i++)
		must(in[i] == want[i], "%s %d: byte %zu is %d, not %d", what, n, i, in[i], want[i]);
}

static void check_status(const MPI_Status *s, const struct kind *k, long len, int from, int tag,
			 const char *what)
{
	int got, count;
	MPI_Get_count(s, MPI_BYTE, &got);
	MPI_Get_count(s, k->type, &count);
	must(s->MPI_SOURCE == from && s->MPI_TAG == tag, "%s: from %d with tag %d", what, s->MPI_SOURCE,
	     s->MPI_TAG);
	must(got == len && (len % k->size ? count == MPI_UNDEFINED : count == len / k->size),
	     "%s: %d bytes, %d elements", what, got, count);
}

/* As Open MPI's Fortran calls, to which a request is a number. */
static void begin_receive(void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Request *r)
{
	(as_fortran ? PMPI_Irecv : MPI_Irecv)(buf, count, type, from, tag, MPI_COMM_WORLD, r);
	int size;
	MPI_Type_size(type, &size);
	ours += is_own(*r) && count * size > 5000; /* longer than one of the quick ones */
	if (as_fortran)
		*r = PMPI_Request_f2c(PMPI_Request_c2f(*r));
}

static void begin_send(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Request *r)
{
	(as_fortran ? PMPI_Isend : MPI_Isend)(buf, count, type, to, tag, MPI_COMM_WORLD, r);
	if (as_fortran)
		*r = PMPI_Request_f2c(PMPI_Request_c2f(*r));
}

enum { SEND, SSEND, ISEND, ISEND_FREED, SENDS };
enum { RECV, RECV_ANY, IRECV, IRECV_TEST, IRECV_ALL, IRECV_SOME, IRECV_ANY, IRECV_STATUS, RECVS };
static const char *const names[RECVS] = {"MPI_Recv",
					 "MPI_Recv from any",
					 "MPI_Irecv, MPI_Wait",
					 "MPI_Irecv, MPI_Test",
					 "MPI_Irecv, MPI_Waitall",
					 "MPI_Waitsome",
					 "MPI_Waitany",
					 "MPI_Request_get_status"};

static void send(int how, const void *buf, int count, MPI_Datatype type, int to, MPI_Request *r)
{
	*r = MPI_REQUEST_NULL;
	switch (how) {
	case SEND: MPI_Send(buf, count, type, to, TAG, MPI_COMM_WORLD); break;
	case SSEND: MPI_Ssend(buf, count, type, to, TAG, MPI_COMM_WORLD); break;
	default: begin_send(buf, count, type, to, TAG, r);
	}
	if (how == ISEND_FREED)
		MPI_Request_free(r);
}

static MPI_Status receive(int how, void *buf, int count, MPI_Datatype type, int from)
{
	MPI_Status s[2] = {{0}};
	MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	int flag = 0, n = 0, at[2];
	if (how <= RECV_ANY) {
		MPI_Recv(buf, count, type, how ? MPI_ANY_SOURCE : from, TAG, MPI_COMM_WORLD, s);
		return s[0];
	}
	begin_receive(buf, count, type, from, TAG, &r[1]);
	switch (how) {
	case IRECV: MPI_Wait(&r[1], &s[1]); break;
	case IRECV_ALL: MPI_Waitall(2, r, s); break;
	case IRECV_ANY: MPI_Waitany(2, r, &n, &s[1]); break;
	case IRECV_SOME:
		MPI_Waitsome(2, r, &n, at, s);
		must(n == 1 && at[0] == 1, "MPI_Waitsome says %d", n);
		s[1] = s[0];
		break;
	case IRECV_STATUS:
		while (!flag)
			MPI_Request_get_status(r[1], &flag, &s[1]);
		break;
	default:
		while (!flag)
			MPI_Test(&r[1], &flag, &s[1]);
	}
	if (how != IRECV_STATUS)
		must(r[1] == MPI_REQUEST_NULL, "%s leaves a request", names[how]);
	return s[1];
}

static void ended(MPI_Request *r)
{
	MPI_Wait(r, MPI_STATUS_IGNORE);
}

static void take_one_way(const struct kind *k, int as, long len, long part, int room, bool to_bytes, int n)
{
	MPI_Status s;
	st.doing = names[as];
	memset(in, GUARD, ROOM);
	if (to_bytes) {
		memset(want, 0, (size_t)len);
		s = receive(as, want, (int)len, MPI_BYTE, 0);
		must(!memcmp(want, bytes, (size_t)len), "%s: bytes of a type", names[as]);
		check_status(&s, k, len, 0, TAG, names[as]);
		return;
	}
	s = receive(as, in + begin_of(k), room, k->type, 0);
	check(k, part, names[as], n);
	check_status(&s, k, part, 0, TAG, names[as]);
}

/* Of n elements some, and of the next one some blocks: MPICH wants no part of an int. */
static long part_of(const struct kind *k, struct rng *r, int n)
{
	long len = (long)below(r, (uint64_t)n) * k->size;
	int more = 1 + (int)below(r, (uint64_t)k->blocks);
	for (int b = 0; b < more; b++)
		len += k->len[b];
	return len;
}

/* From rank 0 to each other one: the type here, bytes there, or the other way round, or both. */
static void one_way(const struct kind *k, struct rng *r, int round, bool asks)
{
	int most = most_of(k), n = 1 + (int)below(r, (uint64_t)most), room = n + (int)below(r, 2);
	int how = (int)below(r, SENDS - !asks), as = (int)below(r, RECVS - !asks);
	long len = n * k->size, part = chance(r, 30) ? part_of(k, r, n) : len;
	bool as_bytes = chance(r, 30) || part < len, to_bytes = !as_bytes && chance(r, 30);
	MPI_Request request;
	pattern_fill(bytes, (uint64_t)round * 1000 + (uint64_t)n, 0, (size_t)len);
	if (!rank) {
		memset(out, 0x11, ROOM);
		place(k, out, bytes, len);
		for (int to = 1; to < ranks; to++) {
			st.doing = "sends";
			if (as_bytes)
				send(how, bytes, (int)part, MPI_BYTE, to, &request);
			else
				send(how, out + begin_of(k), n, k->type, to, &request);
			ended(&request);
		}
	} else {
		take_one_way(k, as, len, part, room > most ? most : room, to_bytes, n);
	}
	if (how == ISEND_FREED) /* nobody else says when its memory may be written again */
		MPI_Barrier(MPI_COMM_WORLD);
}

/* In a ring. */
static void around(const struct kind *k, const struct kind *other, int round, bool blocks)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, most = most_of(k),
	    n = 1 + round % most;
	bool packed = other->size == k->size;
	MPI_Status s[2];
	MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	pattern_fill(bytes, (uint64_t)round + 5, 0, (size_t)(n * k->size));
	memset(out, 0x22, ROOM);
	memset(in, GUARD, ROOM);
	place(packed ? other : k, out, bytes, n * k->size);
	const struct kind *of = packed ? other : k;
	const void *from = out + begin_of(of);
	void *to = in + begin_of(k);
	st.doing = blocks ? "MPI_Sendrecv" : "MPI_Isend, MPI_Irecv, MPI_Waitall";
	if (blocks) {
		MPI_Sendrecv(from, n, of->type, next, RING, to, n, k->type, before, RING, MPI_COMM_WORLD, s);
	} else {
		begin_receive(to, n, k->type, before, RING, r);
		begin_send(from, n, of->type, next, RING, r + 1);
		if (round & 1)
			MPI_Waitall(2, r, s);
		else
			MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	}
	check(k, n * k->size, st.doing, n);
	if (blocks || round & 1)
		check_status(s, k, n * k->size, before, RING, st.doing);
}

/* A collective that is not over when it returns, of two types by turns, whose copies have one handle (shim/underway.c). */
static void by_turns(const struct kind kinds[2])
{
	MPI_Request r = MPI_REQUEST_NULL;
	st.doing = "MPI_Ibcast";
	for (int i = 0; i < 60; i++) {
		const struct kind *k = &kinds[i / 10 % 2];
		pattern_fill(bytes, (uint64_t)i + 9, 0, (size_t)(2 * k->size));
		memset(in, GUARD, ROOM);
		if (!rank) {
			usleep(1000);
			place(k, in, bytes, 2 * k->size);
		}
		MPI_Ibcast(in + begin_of(k), 2, k->type, 0, MPI_COMM_WORLD, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		check(k, 2 * k->size, st.doing, i);
	}
}

/* Bytes that belong to a type and that an MPI need not send: those behind a long double's 10. */
static void long_doubles(void)
{
	enum { N = 40 };
	static long double from[2 * N], to[2 * N];
	MPI_Datatype type;
	MPI_Request r = MPI_REQUEST_NULL;
	st.doing = "long doubles";
	MPI_Type_vector(N, 1, 2, MPI_LONG_DOUBLE, &type);
	MPI_Type_commit(&type);
	for (int i = 0; i < 2 * N; i++)
		from[i] = i + 0.5L;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 2 * N; i++)
			to[i] = -1;
		MPI_Irecv(to, 1, type, (rank + ranks - 1) % ranks, TAG, MPI_COMM_WORLD, &r);
		MPI_Send(from, 1, type, (rank + 1) % ranks, TAG, MPI_COMM_WORLD);
		ended(&r);
		for (int i = 0; i < 2 * N; i++)
			must(to[i] == (i & 1 ? -1 : from[i]), "long double %d is wrong", i);
	}
	MPI_Type_free(&type);
}

/* A message that is too long ends a call of which another receive is still pending: that is ended by the next one. */
static void after_an_error(const struct kind *k)
{
	MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	MPI_Status s[2];
	st.doing = "after an error";
	pattern_fill(bytes, 8, 0, (size_t)(2 * k->size));
	memset(in, GUARD, ROOM);
	memset(out, 0x55, ROOM);
	place(k, out, bytes, 2 * k->size);
	if (!rank) {
		MPI_Send(out + begin_of(k), 2, k->type, 1, TAG, MPI_COMM_WORLD);
		usleep(20000);
		MPI_Send(out + begin_of(k), 1, k->type, 1, TAG + 3, MPI_COMM_WORLD);
	} else if (rank == 1) {
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		MPI_Irecv(want + begin_of(k), 1, k->type, 0, TAG, MPI_COMM_WORLD, &r[0]);
		MPI_Irecv(in + begin_of(k), 1, k->type, 0, TAG + 3, MPI_COMM_WORLD, &r[1]);
		must(MPI_Waitall(2, r, s) != MPI_SUCCESS, "a message that is too long is none");
		ended(&r[1]);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		check(k, k->size, st.doing, 1);
	}
}

/* Nothing comes from nobody, however often; as at the ends of a row of ranks. */
static void from_nobody(const struct kind *k)
{
	MPI_Request r = MPI_REQUEST_NULL;
	st.doing = "from nobody";
	memset(in, GUARD, ROOM);
	MPI_Irecv(in + begin_of(k), most_of(k), k->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &r);
	ended(&r);
	check(k, 0, st.doing, 0);
}

#include "holes_more.h"

/* Such a request of which something else is asked: the first time it is to be one of sennit's. */
static void asked_of(MPI_Request r)
{
	must(!must_be_ours || is_own(r), "%s: the request is not sennit's", st.doing);
	must_be_ours = false;
}

/* One that never came, and that nobody waits for any more. */
static void cancelled(const struct kind *k)
{
	MPI_Status s;
	MPI_Request r = MPI_REQUEST_NULL;
	int flag;
	st.doing = "cancelled";
	pattern_fill(bytes, 3, 0, (size_t)k->size);
	memset(in, GUARD, ROOM);
	MPI_Irecv(in + begin_of(k), 1, k->type, rank, TAG + 1, MPI_COMM_WORLD, &r);
	asked_of(r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	MPI_Test_cancelled(&s, &flag);
	must(flag, "not cancelled");
	check(k, 0, "cancelled", 1);
}

/* To oneself, to nobody, and by addresses alone. */
static void odd_ones(const struct kind *k)
{
	MPI_Status s;
	int count;
	MPI_Aint at;
	MPI_Datatype absolute;
	st.doing = "odd ones";
	pattern_fill(bytes, 3, 0, (size_t)k->size);
	memset(out, 0x33, ROOM);
	memset(in, GUARD, ROOM);
	place(k, out, bytes, k->size);
	MPI_Sendrecv(out + begin_of(k), 1, k->type, rank, TAG, in + begin_of(k), 1, k->type, rank, TAG,
		     MPI_COMM_WORLD, &s);
	check(k, k->size, "to oneself", 1);
	memset(in, GUARD, ROOM);
	MPI_Recv(in + begin_of(k), 1, k->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &s);
	MPI_Send(out + begin_of(k), 1, k->type, MPI_PROC_NULL, TAG, MPI_COMM_WORLD);
	MPI_Get_count(&s, k->type, &count);
	must(!count && s.MPI_SOURCE == MPI_PROC_NULL, "from nobody: %d", count);
	MPI_Get_address(in + begin_of(k), &at);
	int one = 1;
	MPI_Type_create_hindexed(1, &one, &at, k->type, &absolute);
	MPI_Type_commit(&absolute);
	for (int i = 0; i < 4; i++) {
		memset(in, GUARD, ROOM);
		MPI_Sendrecv(out + begin_of(k), 1, k->type, rank, TAG, MPI_BOTTOM, 1, absolute, rank, TAG,
			     MPI_COMM_WORLD, &s);
		check(k, k->size, "by its address", 1);
	}
	MPI_Type_free(&absolute);
}

/* A receive that is given up while its message is still to come: it comes all the same. */
static void forgotten(const struct kind *k)
{
	MPI_Request r = MPI_REQUEST_NULL;
	MPI_Status s;
	int n = most_of(k);
	st.doing = "a receive that is given up";
	pattern_fill(bytes, 4, 0, (size_t)(n * k->size));
	memset(in, GUARD, ROOM);
	memset(out, 0, ROOM);
	place(k, out, bytes, n * k->size);
	if (rank == 1) {
		MPI_Irecv(in + begin_of(k), n, k->type, 0, TAG, MPI_COMM_WORLD, &r);
		asked_of(r);
		MPI_Request_free(&r);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		MPI_Send(out + begin_of(k), n, k->type, 1, TAG, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1) {
		for (int i = 0; i < 100; i++)
			MPI_Iprobe(0, TAG + 2, MPI_COMM_WORLD, &(int){0}, &s);
		for (int i = 0; i < 4; i++) /* what looks after it */
			MPI_Sendrecv(out + begin_of(k), n, k->type, 1, TAG, want, (int)(n * k->size),
				     MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &s);
		check(k, n * k->size, "given up", n);
	}
}

/* By a number of another language, to which it goes before the message is sent; it has both names by then. */
static void translated(const struct kind *k)
{
	int n = most_of(k), next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, flag;
	MPI_Request r = MPI_REQUEST_NULL;
	MPI_Status s;
	st.doing = "MPI_Request_c2f";
	pattern_fill(bytes, 6, 0, (size_t)(n * k->size));
	memset(in, GUARD, ROOM);
	MPI_Irecv(in + begin_of(k), n, k->type, before, TAG, MPI_COMM_WORLD, &r);
	asked_of(r);
	MPI_Request again = MPI_Request_f2c(MPI_Request_c2f(r)), was = again;
	MPI_Request_get_status(r, &flag, MPI_STATUS_IGNORE);
	must(!flag, "translated: it has come before it is sent");
	MPI_Test(&again, &flag, MPI_STATUS_IGNORE);
	must(!flag && again == was, "translated: the other language would not know it any more");
	MPI_Barrier(MPI_COMM_WORLD);
	memset(out, 0x44, ROOM);
	place(k, out, bytes, n * k->size);
	MPI_Send(out + begin_of(k), n, k->type, next, TAG, MPI_COMM_WORLD);
	MPI_Wait(k->blocks & 2 ? &r : &again, &s);
	check(k, n * k->size, "translated", n);
	check_status(&s, k, n * k->size, before, TAG, st.doing);
}

/* Of a matrix of 24 MB, a column, and what lies around one of its elements: it is looked at when it has been used often. */
static void far_apart(void)
{
	enum { ROWS = 700, COLUMNS = 4300, TIMES = 600 };
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, at[3] = {0, 1, 2 * COLUMNS},
	    len[3] = {1, 2, 1};
	size_t bytes_of = sizeof(double) * ROWS * COLUMNS;
	double *from = need(bytes_of), *to = need(bytes_of);
	MPI_Datatype types[2];
	st.doing = "far apart";
	MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &types[0]);
	MPI_Type_indexed(3, len, at, MPI_DOUBLE, &types[1]);
	for (int t = 0; t < 2; t++)
		MPI_Type_commit(&types[t]);
	for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
		from[i] = (double)i + 0.5;
	memset(to, 0, bytes_of);
	for (int i = 0; i < TIMES; i++) {
		int t = i % 4 == 3, column = i % (COLUMNS - 2);
		MPI_Sendrecv(from + column, 1, types[t], next, TAG, to + column, 1, types[t], before, TAG,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int k = 0; k < ROWS; k++) {
			size_t place = (size_t)k * COLUMNS + (size_t)column;
			bool there = !t || !k || k == 2;
			must(to[place] == (there ? from[place] : 0), "far apart: row %d of %d is %g", k,
			     column, to[place]);
			to[place] = 0;
		}
		if (t) {
			must(to[column + 1] == from[column + 1] && to[column + 2] == from[column + 2],
			     "far apart: beside it");
			to[column + 1] = to[column + 2] = 0;
		}
	}
	for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
		must(to[i] == 0, "far apart: %zu is %g", i, to[i]);
	for (int t = 0; t < 2; t++)
		MPI_Type_free(&types[t]);
	free(from);
	free(to);
}

int main(int argc, char **argv)
{
	bool threads = argc > 1 && !strcmp(argv[1], "-m");
	as_fortran = argc > 1 && !strcmp(argv[1], "-f");
	int provided, first = argc > 2 && !strcmp(argv[argc - 2], "-a") ? atoi(argv[argc - 1]) : 0;
	static void (*const questions[])(const struct kind *) = {NULL, forgotten, cancelled, translated};
	struct rng r = {20261130};
	const char *preload = getenv("LD_PRELOAD");
	bool is_loaded = !threads && preload && strstr(preload, "libsennit-mpi");
	MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	st.rank = rank;
	out = need(ROOM);
	in = need(ROOM);
	want = need(ROOM);
	bytes = need(ROOM);
	watch_start(60);
	if (argc > 2 && !strcmp(argv[1], "-t")) {
		if (atoi(argv[2]) < 5)
			there_already(atoi(argv[2]));
		else
			freed(0);
		if (!rank)
			printf("holes: %s, every byte right\n", st.doing);
		MPI_Finalize();
		return 0;
	}
	struct kind turns[2] = {make(&r, 2), make(&r, 3)}, other = turns[0];
	by_turns(turns);
	many();
	freed(60);
	far_apart();
	for (int t = 0; t < TYPES; t++) {
		struct kind k = make(&r, t);
		bool asks = t >= TYPES - ASKS;
		if (t == 8)
			long_doubles();
		if (t == TYPES - ASKS && first) {
			for (int i = 0; i < ROUNDS; i++)
				around(&k, &k, i, i & 1);
			must_be_ours = is_loaded && (first != 1 || rank == 1);
			questions[first](&k);
		}
		for (int i = 0; i < ROUNDS; i++) {
			one_way(&k, &r, i, asks);
			around(&k, &other, i, i & 1);
			around(&k, &k, i + 20, !(i & 1));
		}
		odd_ones(&k);
		from_nobody(&k);
		if (t % 8 == 0)
			after_an_error(&k);
		if (asks) {
			cancelled(&k);
			forgotten(&k);
			translated(&k);
		}
		MPI_Type_free(&k.type);
		free(k.at);
		free(k.len);
		watch_feed();
	}
	MPI_Type_free(&turns[0].type);
	MPI_Type_free(&turns[1].type);
	MPI_Barrier(MPI_COMM_WORLD);
	if (is_loaded)
		must(ours > 30, "only %d requests were sennit's", ours);
	if (!rank)
		printf("holes: %d types on %d ranks, every byte right\n", TYPES, ranks);
	MPI_Finalize();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPIs get wrong over libfabric with every provider, and not over ways of their own, so that a program would lose
 * by being put over it: shim/mended.h, shim/intel.h, ofi/answer.c. Two ranks; every byte is compared, also of what is
 * to stay as it was.
 *
 *  - persistent sends of types that do not begin where the buffer does, and MPI_Alltoallv and MPI_Alltoallw of such types;
 *  - persistent buffered sends that are started more than once, each time of something else;
 *  - matched receives into types with holes, or in another order; of less than fits, and into more elements than come;
 *  - synchronous sends to matched receives, also between two groups; whose code it is that reads of them is found out once,
 *    for it takes as long as ten such messages;
 *  - MPI_Comm_disconnect after those.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM  (3 << 20)
#define GUARD 0x5a
#define LATER 30 /* s: nothing here takes as long */

static char out[ROOM], in[ROOM], expected[ROOM];
static int rank;

static void fault(const char *what, int i, long at)
{
	printf("FAILED: rank %d: %s, %d, at %ld\n", rank, what, i, at);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void same(const char *what, int i)
{
	for (long at = 0; at < ROOM; at++)
		if (in[at] != expected[at])
			fault(what, i, at);
}

static void clear(void)
{
	memset(in, GUARD, sizeof(in));
	memset(expected, GUARD, sizeof(expected));
}

static void said(const MPI_Status *s, int source, int tag, int bytes, const char *what, int i)
{
	int got;
	MPI_Get_count(s, MPI_BYTE, &got);
	if (s->MPI_SOURCE != source || s->MPI_TAG != tag || got != bytes)
		fault(what, i, got);
}

/* ---- persistent sends ---- */

enum { HINDEXED, STRUCT, TWO, PLANE, BOTTOM, TYPES };

/* `len` bytes, `off` bytes behind the beginning of the buffer, or of memory. */
static MPI_Datatype type_of(int kind, int len, int off)
{
	MPI_Datatype t, bytes[2] = {MPI_BYTE, MPI_BYTE};
	MPI_Aint at[2] = {off, off + len / 2};
	int lens[2] = {len, len - len / 2};
	if (kind == BOTTOM)
		MPI_Get_address(out + off, &at[0]);
	if (kind == TWO) {
		lens[0] = len / 2;
		MPI_Type_create_struct(2, lens, at, bytes, &t);
	} else if (kind == STRUCT) {
		MPI_Type_create_struct(1, lens, at, bytes, &t);
	} else if (kind == PLANE) {
		int all[2] = {off / 8 + 2, 8}, some[2] = {len / 8, 8}, first[2] = {off / 8, 0};
		all[0] += len / 8;
		MPI_Type_create_subarray(2, all, some, first, MPI_ORDER_C, MPI_BYTE, &t);
	} else {
		MPI_Type_create_hindexed(1, lens, at, MPI_BYTE, &t);
	}
	MPI_Type_commit(&t);
	return t;
}

static void init(int how, const void *buf, MPI_Datatype t, MPI_Request *r)
{
	switch (how) {
	case 0: MPI_Send_init(buf, 1, t, 1, how, MPI_COMM_WORLD, r); break;
	case 1: MPI_Ssend_init(buf, 1, t, 1, how, MPI_COMM_WORLD, r); break;
	case 2: MPI_Rsend_init(buf, 1, t, 1, how, MPI_COMM_WORLD, r); break;
	default: MPI_Bsend_init(buf, 1, t, 1, how, MPI_COMM_WORLD, r);
	}
}

static void persistent(void)
{
	static char room[ROOM];
	MPI_Buffer_attach(room, sizeof(room));
	for (int kind = 0; kind < TYPES; kind++) {
		for (int how = 0; how < 4; how++) {
			for (int len = 8; len < ROOM / 4; len *= 23) {
				MPI_Datatype t = type_of(kind, len, 40);
				MPI_Request r;
				clear();
				memcpy(expected, out + 40, (size_t)len);
				if (rank)
					MPI_Recv_init(in, len, MPI_BYTE, 0, how, MPI_COMM_WORLD, &r);
				else
					init(how, kind == BOTTOM ? MPI_BOTTOM : out, t, &r);
				MPI_Type_free(&t);
				for (int again = 0; again < 2; again++) {
					if (rank)
						MPI_Start(&r);
					MPI_Barrier(MPI_COMM_WORLD); /* a ready send needs the receive */
					if (!rank)
						MPI_Start(&r);
					MPI_Wait(&r, MPI_STATUS_IGNORE);
				}
				MPI_Request_free(&r);
				if (rank)
					same("a persistent send", 10 * kind + how);
			}
		}
	}
	int size;
	void *back;
	MPI_Buffer_detach(&back, &size);
}

/* What is for rank r comes from r places behind `from`, or from somewhere in memory, and goes to as many behind `in`. */
static void exchanged(void)
{
	enum { SLOT = ROOM / 4 };
	MPI_Datatype t[2], parts[2] = {MPI_BYTE, MPI_BYTE};
	int some[2], at[2], none[2] = {0}, to[2] = {0, SLOT};
	for (int kind = 0; kind < TYPES; kind++) {
		for (int call = 0; call < 3; call++) {
			for (int len = 8; len < SLOT / 2; len *= 23) {
				const void *from = kind == BOTTOM ? MPI_BOTTOM : out;
				clear();
				for (int r = 0; r < 2; r++) {
					/* by MPI_Alltoallw of one type each; by MPI_Alltoallv all of one, which is long */
					t[r] = type_of(kind, len, call ? 40 + 8 * r : 40);
					at[r] = call && kind != BOTTOM ? r * SLOT : 0;
					some[r] = 1;
				}
				/* what comes: bytes, as they lie at the other rank, which has the same in `out` */
				int lens[2] = {len, len};
				for (int r = 0; r < 2; r++)
					memcpy(expected + to[r],
					       out + 40 +
						       (call ? 8 * rank + (kind == BOTTOM ? 0 : rank * SLOT)
							     : 0),
					       (size_t)len);
				if (call == 0)
					MPI_Alltoallv(from, some, none, t[0], in, lens, to, MPI_BYTE,
						      MPI_COMM_WORLD);
				else if (call == 1)
					MPI_Alltoallw(from, some, at, t, in, lens, to, parts, MPI_COMM_WORLD);
				else
					PMPI_Alltoallw(from, some, at, t, in, lens, to, parts,
						       MPI_COMM_WORLD);
				same("an exchange", 10 * kind + call);
				for (int r = 0; r < 2; r++)
					MPI_Type_free(&t[r]);
			}
		}
	}
}

/* The communicator and the type are freed before the request is started: of none, and of some. Frees the type. */
static void freed_before(MPI_Datatype pair)
{
	MPI_Comm comm;
	MPI_Request r[2];
	int to[4] = {0};
	static int from[4] = {7, 8, 9, 10};
	MPI_Status s;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < 2; i++) {
		if (rank)
			MPI_Recv_init(to, 4, MPI_INT, 0, i, comm, &r[i]);
		else
			MPI_Bsend_init(from, 2 * i, pair, 1, i, comm, &r[i]);
	}
	MPI_Comm_free(&comm);
	MPI_Type_free(&pair);
	for (int i = 0; i < 2; i++) {
		MPI_Start(&r[i]);
		MPI_Wait(&r[i], &s);
		if (rank)
			said(&s, 0, i, 16 * i, "a buffered send of what is freed", i);
		MPI_Request_free(&r[i]);
	}
	if (rank && memcmp(to, from, sizeof(to)) != 0)
		fault("a buffered send of what is freed", 1, 0);
}

/* Started one by one, or all at once; waited for by a copy of the request, and by those calls that pass over inactive ones. */
static void buffered(void)
{
	enum { STARTS = 6, MOST = 5000 };
	static char room[ROOM];
	static int from[MOST], to[MOST];
	MPI_Datatype pair;
	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	MPI_Buffer_attach(room, sizeof(room));
	for (int n = 2; n <= MOST; n *= 50) {
		MPI_Request r[2], copy;
		if (!rank) {
			MPI_Bsend_init(from, n / 2, pair, 1, 8, MPI_COMM_WORLD, &r[0]);
			MPI_Bsend_init(from, n, MPI_INT, 1, 9, MPI_COMM_WORLD, &r[1]);
			copy = r[1];
		}
		for (int i = 0; i < STARTS; i++) {
			int index = 7, done = 0;
			for (int k = 0; k < n; k++)
				from[k] = 1000 * i + k;
			for (int tag = 8; rank && tag < 10; tag++) {
				MPI_Status s;
				MPI_Recv(to, MOST, MPI_INT, 0, tag, MPI_COMM_WORLD, &s);
				said(&s, 0, tag, 4 * n, "a buffered send", i);
				for (int k = 0; k < n; k++)
					if (to[k] != 1000 * i + k)
						fault("a buffered send that was started again", i, k);
			}
			if (rank)
				continue;
			if (i % 2) {
				MPI_Startall(2, r);
			} else {
				MPI_Start(&r[0]);
				MPI_Start(&copy);
			}
			memset(from, 0, sizeof(from)); /* it has been copied */
			if (i % 3)
				MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
			for (int w = 0; i % 3 == 0 && w < 2; w++) {
				MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE);
				if (index != w)
					fault("a buffered send is not waited for", i, index);
			}
			MPI_Testany(2, r, &index, &done, MPI_STATUS_IGNORE);
			if (!done || index != MPI_UNDEFINED)
				fault("a buffered send is still active", i, index);
			if (i % 4 == 3)
				MPI_Barrier(MPI_COMM_SELF);
		}
		if (!rank) {
			MPI_Request_free(&r[0]);
			MPI_Request_free(&r[1]);
			if (r[0] != MPI_REQUEST_NULL)
				fault("a buffered send is not freed", n, 0);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	freed_before(pair);
	int size;
	void *back;
	MPI_Buffer_detach(&back, &size);
}

/* ---- matched receives ---- */

enum { VECTOR, BACKWARDS, BELOW, WHOLE, SHAPES };

/* Of 12 bytes each. Where byte i of the message goes. */
static MPI_Datatype shape_of(int shape)
{
	MPI_Datatype t;
	int lens[] = {5, 7};
	MPI_Aint backwards[] = {40, 3}, below[] = {-9, 4};
	if (shape == VECTOR)
		MPI_Type_vector(3, 4, 9, MPI_BYTE, &t);
	else if (shape == WHOLE)
		MPI_Type_contiguous(12, MPI_BYTE, &t);
	else
		MPI_Type_create_hindexed(2, lens, shape == BELOW ? below : backwards, MPI_BYTE, &t);
	MPI_Type_commit(&t);
	return t;
}

static long place(int shape, long i)
{
	static const long extent[] = {22, 42, 20, 12};
	long e = i / 12 * extent[shape], k = i % 12;
	switch (shape) {
	case VECTOR: return e + k / 4 * 9 + k % 4;
	case BACKWARDS: return e + (k < 5 ? 40 + k : 3 + k - 5);
	case BELOW: return e + (k < 5 ? -9 + k : 4 + k - 5);
	default: return e + k;
	}
}

static void matched(int how, int from, int tag, void *buf, int count, MPI_Datatype t, MPI_Comm c,
		    MPI_Status *s)
{
	MPI_Message m;
	MPI_Request r;
	int flag = 0;
	if (how & 1)
		while (!flag)
			MPI_Improbe(MPI_ANY_SOURCE, tag, c, &flag, &m, s);
	else
		MPI_Mprobe(from, tag, c, &m, s);
	memset(s, 0, sizeof(*s));
	if (how & 2) {
		MPI_Imrecv(buf, count, t, &m, &r);
		MPI_Wait(&r, s);
	} else {
		MPI_Mrecv(buf, count, t, &m, s);
	}
	if (m != MPI_MESSAGE_NULL)
		fault("a message that is left", how, 0);
}

static void into_shapes(void)
{
	static const int lens[] = {12,	 24,	       17,    5,
				   1200, 12 * 999 + 7, 600000}; /* some do not end with an element */
	for (int shape = 0; shape < SHAPES; shape++) {
		MPI_Datatype t = shape_of(shape);
		for (int how = 0; how < 4; how++) {
			for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
				int len = lens[i], tag = (int)i + 1;
				MPI_Status s;
				if (!rank) {
					MPI_Send(out, len, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
					continue;
				}
				clear();
				for (long k = 0; k < len; k++)
					expected[100 + place(shape, k)] = out[k];
				matched(how, 0, tag, in + 100, len / 12 + 1 + (int)i % 2, t, MPI_COMM_WORLD,
					&s);
				said(&s, 0, tag, len, "the status of a matched receive", 10 * shape + how);
				same("a matched receive", 10 * shape + how);
			}
		}
		MPI_Type_free(&t);
	}
}

/*
 * Too long: as much as there is room for, and an error, whatever came before: some MPIs leave that message's length.
 */
static void one_too_long(int before, bool later)
{
	MPI_Datatype t = shape_of(VECTOR);
	MPI_Status s;
	MPI_Message m;
	MPI_Request r;
	if (!rank) {
		MPI_Send(out, before, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
		MPI_Ssend(out, 100, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
	} else {
		int rc, class = 0;
		matched(0, 0, 8, in, 2, t, MPI_COMM_WORLD, &s);
		clear();
		for (long k = 0; k < 24; k++)
			expected[place(VECTOR, k)] = out[k];
		MPI_Mprobe(0, 9, MPI_COMM_WORLD, &m, &s);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
		rc = later ? MPI_Imrecv(in, 2, t, &m, &r) : MPI_Mrecv(in, 2, t, &m, &s);
		if (later && rc)
			fault("a matched receive that is too short fails where it begins", before, 0);
		MPI_Error_class(later ? MPI_Wait(&r, &s) : rc, &class);
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		if (class != MPI_ERR_TRUNCATE)
			fault("a matched receive that is too short", class, later);
		same("a matched receive that is too short", before);
	}
	MPI_Type_free(&t);
}

static void too_long(void)
{
	static const int before[] = {0, 12, 7, 24};
	for (size_t i = 0; i < 2 * sizeof(before) / sizeof(before[0]); i++)
		one_too_long(before[i / 2], i % 2);
}

/* ---- synchronous sends ---- */

static void ends(MPI_Request *r, int i)
{
	int flag = 0;
	for (double start = MPI_Wtime(); !flag && MPI_Wtime() < start + LATER;)
		MPI_Test(r, &flag, MPI_STATUS_IGNORE);
	if (!flag)
		fault("a synchronous send that was received does not end", i, 0);
}

static void synchronous(MPI_Comm c, int other)
{
	static const int lens[] = {0, 8, 3000, 100000, 2000000};
	MPI_Datatype t = shape_of(VECTOR);
	for (int i = 0; i < 20; i++) {
		int len = lens[i % 5], how = i / 5;
		MPI_Status s;
		MPI_Request r;
		if (!rank) {
			MPI_Issend(out, len, MPI_BYTE, other, i, c, &r);
			ends(&r, i);
			MPI_Issend(out, 12, MPI_BYTE, other, i, c, &r);
			ends(&r, i);
			continue;
		}
		clear();
		memcpy(expected, out, (size_t)len);
		matched(how, other, i, in, ROOM, MPI_BYTE, c, &s);
		said(&s, other, i, len, "the status of a synchronous message", i);
		same("a synchronous message", i);
		matched(how, other, i, in, 1, t, c, &s);
		said(&s, other, i, 12, "the status of a synchronous message with holes", i);
	}
	MPI_Type_free(&t);
}

static _Atomic int looked_up;

/* Before the C library's. */
int dladdr(const void *code, Dl_info *info)
{
	int (*next)(const void *, Dl_info *);
	*(void **)&next = dlsym(RTLD_NEXT, "dladdr");
	atomic_fetch_add(&looked_up, 1);
	return next(code, info);
}

static void synchronous_again(MPI_Comm c, int other)
{
	int before = atomic_load(&looked_up);
	synchronous(c, other);
	if (atomic_load(&looked_up) > before)
		fault("code that is known is looked up again", atomic_load(&looked_up) - before, 0);
}

int main(int argc, char **argv)
{
	MPI_Comm own, between, copy;
	setenv("OMPI_MCA_coll_tuned_alltoallv_algorithm", "1", 0); /* by which more than two ranks make it */
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (long i = 0; i < ROOM; i++)
		out[i] = (char)(i * 7 + i / 251 + 3);
	persistent();
	exchanged();
	buffered();
	into_shapes();
	too_long();
	synchronous(MPI_COMM_WORLD, !rank);
	synchronous_again(MPI_COMM_WORLD, !rank);
	MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &own);
	MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, !rank, 1, &between);
	synchronous(between, 0);
	MPI_Comm_disconnect(&between);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	synchronous(copy, !rank);
	MPI_Comm_disconnect(&copy);
	MPI_Comm_disconnect(&own);
	if (between != MPI_COMM_NULL || copy != MPI_COMM_NULL || own != MPI_COMM_NULL)
		fault("a communicator that is left", 0, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("mended: every byte right, and nobody waits for ever\n");
	MPI_Finalize();
	return 0;
}

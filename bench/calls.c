/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One figure for each way to say something in MPI, as an ordinary program that knows nothing of sennit: calls [MS [NAME[:SIZE]...]].
 *
 * Every line is "NAME:SIZE us before after": a call of all ranks, or for messages what each rank sends to the next one
 * and gets from the one before, and the cache-line probes around it (ns one way; 0 with more than two ranks). Given may
 * be the beginnings of several. What follows a program around are its seldom calls, so each is here that programs make
 * again and again; calls.py asks which of them are slower than without sennit.
 */
#include "probe.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW    4
#define ROOM   ((size_t)64 << 20)
#define COLUMN 100 /* doubles in a row of the matrix */

static int rank, ranks, right, left;
static char *mine, *theirs, *window;
static int *counts, *displs, *bytes;
static MPI_Datatype *kinds;
static MPI_Comm all, ring;
static MPI_Win win;
static MPI_Group around;
static MPI_Request kept[2 * FEW];
static MPI_Datatype column, particle;
static long turn;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "calls: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

#include "probe_mpi.h"
#include "work.h"

/* ---- messages ------------------------------------------------------------------------------------------------ */

/* In turns, as in a ping-pong: half of a round trip is not what counts here, so both ways are. */
#define TO_AND_FRO(send, receive)                                                                            \
	do {                                                                                                 \
		if (rank % 2 == 0) {                                                                         \
			send;                                                                                \
			receive;                                                                             \
		} else {                                                                                     \
			receive;                                                                             \
			send;                                                                                \
		}                                                                                            \
	} while (0)

#define RECV MPI_Recv(theirs, n, MPI_BYTE, left, 1, all, MPI_STATUS_IGNORE)

static void send_recv(int n)
{
	TO_AND_FRO(MPI_Send(mine, n, MPI_BYTE, right, 1, all), RECV);
}

static void ssend(int n)
{
	TO_AND_FRO(MPI_Ssend(mine, n, MPI_BYTE, right, 1, all), RECV);
}

static void any_source(int n)
{
	TO_AND_FRO(MPI_Send(mine, n, MPI_BYTE, right, 1, all),
		   MPI_Recv(theirs, n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, all, MPI_STATUS_IGNORE));
}

static void sendrecv(int n)
{
	MPI_Sendrecv(mine, n, MPI_BYTE, right, 1, theirs, n, MPI_BYTE, left, 1, all, MPI_STATUS_IGNORE);
}

static void sendrecv_replace(int n)
{
	MPI_Sendrecv_replace(mine, n, MPI_BYTE, right, 1, left, 1, all, MPI_STATUS_IGNORE);
}

static void self(int n)
{
	MPI_Sendrecv(mine, n, MPI_BYTE, rank, 1, theirs, n, MPI_BYTE, rank, 1, all, MPI_STATUS_IGNORE);
}

static void post(int n, MPI_Request *req)
{
	for (int k = 0; k < FEW; k++)
		MPI_Irecv(theirs + (size_t)k * (size_t)n, n, MPI_BYTE, left, k, all, &req[k]);
	for (int k = 0; k < FEW; k++)
		MPI_Isend(mine + (size_t)k * (size_t)n, n, MPI_BYTE, right, k, all, &req[FEW + k]);
}

static void one_wait(int n)
{
	MPI_Request req;
	MPI_Irecv(theirs, n, MPI_BYTE, left, 1, all, &req);
	MPI_Send(mine, n, MPI_BYTE, right, 1, all);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
}

static void waitall(int n)
{
	MPI_Request req[2 * FEW];
	post(n, req);
	MPI_Waitall(2 * FEW, req, MPI_STATUSES_IGNORE);
}

static void waitall_statuses(int n)
{
	MPI_Request req[2 * FEW];
	MPI_Status status[2 * FEW];
	post(n, req);
	MPI_Waitall(2 * FEW, req, status);
}

/* As a program that computes while its neighbours' messages come. */
#define WORK_S 100e-6
static long steps; /* of so long */

static void work_begin(int n)
{
	(void)n;
	steps = work_steps(WORK_S);
}

static void while_computing(int n)
{
	MPI_Request req[4];
	for (int k = 0; k < 2; k++)
		MPI_Irecv(theirs + (size_t)k * (size_t)n, n, MPI_BYTE, k ? left : right, k, all, &req[k]);
	for (int k = 0; k < 2; k++)
		MPI_Isend(mine + (size_t)k * (size_t)n, n, MPI_BYTE, k ? right : left, k, all, &req[2 + k]);
	work(steps);
	MPI_Waitall(4, req, MPI_STATUSES_IGNORE);
}

static void waitany(int n)
{
	MPI_Request req[2 * FEW];
	int index;
	post(n, req);
	for (int k = 0; k < 2 * FEW; k++)
		MPI_Waitany(2 * FEW, req, &index, MPI_STATUS_IGNORE);
}

static void waitsome(int n)
{
	MPI_Request req[2 * FEW];
	int index[2 * FEW], some;
	post(n, req);
	for (int k = 0; k < 2 * FEW; k += some)
		MPI_Waitsome(2 * FEW, req, &some, index, MPI_STATUSES_IGNORE);
}

static void testall(int n)
{
	MPI_Request req[2 * FEW];
	int over = 0;
	post(n, req);
	while (!over)
		MPI_Testall(2 * FEW, req, &over, MPI_STATUSES_IGNORE);
}

static void test(int n)
{
	MPI_Request req[2 * FEW];
	post(n, req);
	for (int k = 0, over = 0; k < 2 * FEW; k += over)
		MPI_Test(&req[k], &over, MPI_STATUS_IGNORE);
}

static void persistent_begin(int n)
{
	for (int k = 0; k < FEW; k++) {
		MPI_Recv_init(theirs + (size_t)k * (size_t)n, n, MPI_BYTE, left, k, all, &kept[k]);
		MPI_Send_init(mine + (size_t)k * (size_t)n, n, MPI_BYTE, right, k, all, &kept[FEW + k]);
	}
}

static void persistent(int n)
{
	(void)n;
	MPI_Startall(2 * FEW, kept);
	MPI_Waitall(2 * FEW, kept, MPI_STATUSES_IGNORE);
}

static void persistent_end(int n)
{
	(void)n;
	for (int k = 0; k < 2 * FEW; k++)
		MPI_Request_free(&kept[k]);
}

static void probe_recv(int n)
{
	MPI_Status status;
	MPI_Send(mine, n, MPI_BYTE, right, 1, all);
	MPI_Probe(left, 1, all, &status);
	MPI_Recv(theirs, n, MPI_BYTE, left, 1, all, MPI_STATUS_IGNORE);
}

static void iprobe_recv(int n)
{
	MPI_Status status;
	int there = 0;
	MPI_Send(mine, n, MPI_BYTE, right, 1, all);
	while (!there)
		MPI_Iprobe(MPI_ANY_SOURCE, 1, all, &there, &status);
	MPI_Recv(theirs, n, MPI_BYTE, status.MPI_SOURCE, 1, all, MPI_STATUS_IGNORE);
}

static void mprobe_mrecv(int n)
{
	MPI_Message message;
	MPI_Send(mine, n, MPI_BYTE, right, 1, all);
	MPI_Mprobe(left, 1, all, &message, MPI_STATUS_IGNORE);
	MPI_Mrecv(theirs, n, MPI_BYTE, &message, MPI_STATUS_IGNORE);
}

static void columns(int n)
{
	MPI_Sendrecv(mine, n / 8, column, right, 1, theirs, n / 8, column, left, 1, all, MPI_STATUS_IGNORE);
}

static void particles(int n)
{
	MPI_Request req[2 * FEW];
	for (int k = 0; k < FEW; k++) {
		size_t at = (size_t)k * (size_t)n * 2;
		MPI_Irecv(theirs + at, n / 16, particle, left, k, all, &req[k]);
		MPI_Isend(mine + at, n / 16, particle, right, k, all, &req[FEW + k]);
	}
	MPI_Waitall(2 * FEW, req, MPI_STATUSES_IGNORE);
}

/* ---- collectives --------------------------------------------------------------------------------------------- */

#define EACH mine, n, MPI_BYTE, theirs, n, MPI_BYTE
#define SUM  mine, theirs, n / 8, MPI_DOUBLE, MPI_SUM

static int root(void)
{
	return (int)(turn % ranks);
}

static void lay_out(int n)
{
	for (int r = 0; r < ranks; r++) {
		counts[r] = n;
		displs[r] = bytes[r] = r * n;
		kinds[r] = MPI_BYTE;
	}
}

/* NAME(n) is the call, NAME_i(n) the one that does not block, and MPI_Wait. */
#define COLLECTIVE(name, Name, ...)                                                                          \
	static void name(int n)                                                                              \
	{                                                                                                    \
		(void)n;                                                                                     \
		MPI_##Name(__VA_ARGS__);                                                                     \
	}                                                                                                    \
	static void name##_i(int n)                                                                          \
	{                                                                                                    \
		(void)n;                                                                                     \
		MPI_Request req;                                                                             \
		MPI_I##name(__VA_ARGS__, &req);                                                              \
		MPI_Wait(&req, MPI_STATUS_IGNORE);                                                           \
	}

COLLECTIVE(barrier, Barrier, all)
COLLECTIVE(bcast, Bcast, mine, n, MPI_BYTE, root(), all)
COLLECTIVE(reduce, Reduce, SUM, root(), all)
COLLECTIVE(allreduce, Allreduce, SUM, all)
COLLECTIVE(scan, Scan, SUM, all)
COLLECTIVE(exscan, Exscan, SUM, all)
COLLECTIVE(reduce_scatter_block, Reduce_scatter_block, SUM, all)
COLLECTIVE(gather, Gather, EACH, root(), all)
COLLECTIVE(scatter, Scatter, EACH, root(), all)
COLLECTIVE(allgather, Allgather, EACH, all)
COLLECTIVE(alltoall, Alltoall, EACH, all)
COLLECTIVE(gatherv, Gatherv, mine, n, MPI_BYTE, theirs, counts, displs, MPI_BYTE, root(), all)
COLLECTIVE(scatterv, Scatterv, mine, counts, displs, MPI_BYTE, theirs, n, MPI_BYTE, root(), all)
COLLECTIVE(allgatherv, Allgatherv, mine, n, MPI_BYTE, theirs, counts, displs, MPI_BYTE, all)
COLLECTIVE(alltoallv, Alltoallv, mine, counts, displs, MPI_BYTE, theirs, counts, displs, MPI_BYTE, all)
COLLECTIVE(alltoallw, Alltoallw, mine, counts, bytes, kinds, theirs, counts, bytes, kinds, all)
COLLECTIVE(neighbor_allgather, Neighbor_allgather, EACH, ring)
COLLECTIVE(neighbor_alltoall, Neighbor_alltoall, EACH, ring)

static void allreduce_max(int n)
{
	MPI_Allreduce(mine, theirs, n / 4, MPI_INT, MPI_MAX, all);
}

static void allreduce_in_place(int n)
{
	MPI_Allreduce(MPI_IN_PLACE, theirs, n / 8, MPI_DOUBLE, MPI_SUM, all);
}

static void allreduce_minloc(int n)
{
	MPI_Allreduce(mine, theirs, n / 8, MPI_2INT, MPI_MINLOC, all);
}

#if MPI_VERSION >= 4
#define KEPT(name, Name, ...)                                                                                \
	static void name##_begin(int n)                                                                      \
	{                                                                                                    \
		MPI_##Name##_init(__VA_ARGS__, all, MPI_INFO_NULL, &kept[0]);                                \
	}
KEPT(allreduce, Allreduce, SUM)
KEPT(bcast, Bcast, mine, n, MPI_BYTE, 0)
KEPT(alltoall, Alltoall, EACH)

static void start_wait(int n)
{
	(void)n;
	MPI_Start(&kept[0]);
	MPI_Wait(&kept[0], MPI_STATUS_IGNORE);
}

static void kept_end(int n)
{
	(void)n;
	MPI_Request_free(&kept[0]);
}
#endif

#include "calls_onesided.h"

/* ---- what is made and thrown away ---------------------------------------------------------------------------- */

static void comm_dup(int n)
{
	(void)n;
	MPI_Comm comm;
	MPI_Comm_dup(all, &comm);
	MPI_Comm_free(&comm);
}

static void comm_split(int n)
{
	(void)n;
	MPI_Comm comm;
	MPI_Comm_split(all, 0, -rank, &comm);
	MPI_Comm_free(&comm);
}

static void win_allocate(int n)
{
	allocated_begin(n);
	window_end(n);
}

static void type_vector_sendrecv(int n)
{
	MPI_Datatype type;
	MPI_Type_vector(n / 8, 1, 2, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	MPI_Sendrecv(mine, 1, type, right, 1, theirs, 1, type, left, 1, all, MPI_STATUS_IGNORE);
	MPI_Type_free(&type);
}

static void pack_send(int n)
{
	int at = 0, from = 0;
	MPI_Pack(mine, n / 8, MPI_DOUBLE, theirs, n, &at, all);
	MPI_Sendrecv(theirs, at, MPI_PACKED, right, 1, window, n, MPI_PACKED, left, 1, all,
		     MPI_STATUS_IGNORE);
	MPI_Unpack(window, n, &from, mine, n / 8, MPI_DOUBLE, all);
}

static void alloc_begin(int n)
{
	MPI_Alloc_mem(n, MPI_INFO_NULL, &window);
}

static void alloc_end(int n)
{
	(void)n;
	MPI_Free_mem(window);
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

enum sizes {
	NONE,
	SHORT,
	ALL
}; /* SHORT: whoever sends before it receives may wait for ever if that is longer */

#define BOTH(name)                                                                                           \
	{#name, name, NULL, NULL, ALL},                                                                      \
	{                                                                                                    \
		"i" #name, name##_i, NULL, NULL, ALL                                                         \
	}

static const struct {
	const char *name;
	void (*call)(int);
	void (*begin)(int);
	void (*end)(int);
	enum sizes sizes;
} table[] = {
	{"send", send_recv, NULL, NULL, ALL},
	{"ssend", ssend, NULL, NULL, ALL},
	{"any_source", any_source, NULL, NULL, ALL},
	{"sendrecv", sendrecv, NULL, NULL, ALL},
	{"sendrecv_replace", sendrecv_replace, NULL, NULL, ALL},
	{"self", self, NULL, NULL, ALL},
	{"wait", one_wait, NULL, NULL, ALL},
	{"waitall", waitall, NULL, NULL, ALL},
	{"waitall_statuses", waitall_statuses, NULL, NULL, ALL},
	{"while_computing", while_computing, work_begin, NULL, ALL},
	{"waitany", waitany, NULL, NULL, ALL},
	{"waitsome", waitsome, NULL, NULL, ALL},
	{"testall", testall, NULL, NULL, ALL},
	{"test", test, NULL, NULL, ALL},
	{"persistent", persistent, persistent_begin, persistent_end, ALL},
	{"probe", probe_recv, NULL, NULL, SHORT},
	{"iprobe", iprobe_recv, NULL, NULL, SHORT},
	{"mprobe", mprobe_mrecv, NULL, NULL, SHORT},
	{"columns", columns, NULL, NULL, ALL},
	{"particles", particles, NULL, NULL, ALL},
	{"barrier", barrier, NULL, NULL, NONE},
	{"ibarrier", barrier_i, NULL, NULL, NONE},
	BOTH(bcast),
	BOTH(reduce),
	BOTH(allreduce),
	BOTH(scan),
	BOTH(exscan),
	BOTH(reduce_scatter_block),
	BOTH(gather),
	BOTH(scatter),
	BOTH(allgather),
	BOTH(alltoall),
	BOTH(gatherv),
	BOTH(scatterv),
	BOTH(allgatherv),
	BOTH(alltoallv),
	BOTH(alltoallw),
	BOTH(neighbor_allgather),
	BOTH(neighbor_alltoall),
	{"allreduce_max", allreduce_max, NULL, NULL, ALL},
	{"allreduce_in_place", allreduce_in_place, NULL, NULL, ALL},
	{"allreduce_minloc", allreduce_minloc, NULL, NULL, ALL},
#if MPI_VERSION >= 4
	{"allreduce_init", start_wait, allreduce_begin, kept_end, ALL},
	{"bcast_init", start_wait, bcast_begin, kept_end, ALL},
	{"alltoall_init", start_wait, alltoall_begin, kept_end, ALL},
#endif
	{"put_flush", put_flush, locked_begin, locked_end, ALL},
	{"get_flush", get_flush, locked_begin, locked_end, ALL},
	{"accumulate_flush", accumulate_flush, locked_begin, locked_end, ALL},
	{"fetch_and_op", fetch_and_op, locked_begin, locked_end, NONE},
	{"put_fence", put_fence, allocated_begin, window_end, ALL},
	{"get_fence", get_fence, allocated_begin, window_end, ALL},
	{"put_start_post", put_start_post, allocated_begin, window_end, ALL},
	{"lock_put", lock_put, allocated_begin, window_end, ALL},
	{"created_put_fence", put_fence, created_begin, window_end, ALL},
	{"created_lock_put", lock_put, created_begin, window_end, ALL},
	{"comm_dup", comm_dup, NULL, NULL, NONE},
	{"comm_split", comm_split, NULL, NULL, NONE},
	{"win_allocate", win_allocate, NULL, NULL, NONE},
	{"type_vector", type_vector_sendrecv, NULL, NULL, ALL},
	{"pack", pack_send, alloc_begin, alloc_end, SHORT},
};

static const int lengths[] = {8, 1 << 10, 16 << 10, 256 << 10};

static double timed(void (*call)(int), int n, long rounds)
{
	MPI_Barrier(all);
	double start = bench_now();
	for (long i = 0; i < rounds; i++, turn++)
		call(n);
	MPI_Barrier(all);
	return bench_now() - start;
}

/*
 * As many as take about so long, the same on all ranks, after half as many: the first ones find out how the next ones
 * go, or open a connection.
 */
static double each(void (*call)(int), int n, double seconds)
{
	long rounds = 1, enough = 0;
	timed(call, n, 1);
	while (!enough) {
		double took = timed(call, n, rounds);
		enough = took > seconds / 2 || rounds > 1000000;
		rounds = enough ? (long)((double)rounds * seconds / took) + 1 : 2 * rounds;
		MPI_Bcast(&enough, 1, MPI_LONG, 0, all);
		MPI_Bcast(&rounds, 1, MPI_LONG, 0, all);
	}
	return timed(call, n, rounds) / (double)rounds;
}

static void make_types(void)
{
	MPI_Aint at[2] = {0, 24};
	int one[2] = {3, 1}, period = 1;
	MPI_Datatype of[2] = {MPI_DOUBLE, MPI_INT}, plain;
	MPI_Type_create_resized(MPI_DOUBLE, 0, COLUMN * 8, &column);
	MPI_Type_commit(&column);
	MPI_Type_create_struct(2, one, at, of, &plain);
	MPI_Type_create_resized(plain, 0, 32, &particle);
	MPI_Type_commit(&particle);
	MPI_Type_free(&plain);
	MPI_Cart_create(all, 1, &ranks, &period, 0, &ring);
	MPI_Group world;
	MPI_Comm_group(all, &world);
	int both[2] = {left, right};
	MPI_Group_incl(world, left == right ? 1 : 2, both, &around);
	MPI_Group_free(&world);
}

static bool wanted(const char *name, int n, int argc, char **argv)
{
	char full[64];
	snprintf(full, sizeof(full), "%s:%d", name, n);
	for (int i = 2; i < argc; i++)
		if (!strncmp(full, argv[i], strlen(argv[i])))
			return true;
	return argc < 3;
}

static void row(size_t which, int n, double seconds)
{
	if (table[which].begin)
		table[which].begin(n);
	double before = probe(), took = each(table[which].call, n, seconds), after = probe();
	if (table[which].end)
		table[which].end(n);
	if (rank == 0) {
		printf("%s:%d %.4g %.1f %.1f\n", table[which].name, n, took * 1e6, before, after);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	all = MPI_COMM_WORLD;
	MPI_Comm_rank(all, &rank);
	MPI_Comm_size(all, &ranks);
	right = (rank + 1) % ranks;
	left = (rank + ranks - 1) % ranks;
	mine = calloc(1, ROOM);
	theirs = calloc(1, ROOM);
	counts = calloc((size_t)ranks, sizeof(int));
	displs = calloc((size_t)ranks, sizeof(int));
	bytes = calloc((size_t)ranks, sizeof(int));
	kinds = calloc((size_t)ranks, sizeof(*kinds));
	if (!mine || !theirs || !counts || !displs || !bytes || !kinds || ranks % 2)
		fail("needs an even number of ranks, and memory");
	probe_open();
	make_types();
	double seconds = (argc > 1 ? atof(argv[1]) : 10) / 1000;
	for (size_t which = 0; which < sizeof(table) / sizeof(table[0]); which++) {
		int last = table[which].sizes == NONE ? 1 : table[which].sizes == SHORT ? 2 : 4;
		for (int i = 0; i < last; i++) {
			if (!wanted(table[which].name, lengths[i], argc, argv))
				continue;
			lay_out(lengths[i]);
			row(which, lengths[i], seconds);
		}
	}
	MPI_Group_free(&around);
	MPI_Comm_free(&ring);
	MPI_Type_free(&column);
	MPI_Type_free(&particle);
	MPI_Finalize();
	return 0;
}

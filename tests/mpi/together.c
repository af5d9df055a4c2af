/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that are made again and again with the same arguments, which libsennit-mpi.so takes over
 * (shim/collective.h): every byte is as the MPI would have it, to the bit where an operation's operands could be
 * taken in another order; also where something changes between two of them, where some ranks go through their MPI and
 * others do not, where one is late, and beside other messages and collectives that are under way.
 *
 *     together [-b] [-w] [-m | -d FILE | -k KIND | -f] -b: on two cores, so that more ranks make their collectives
 *     flat; -w: rank 1 runs without libsennit-mpi.so, so that nobody does. -m: with MPI_THREAD_MULTIPLE, where each
 *     call is the MPI's; -d: a rank dies, and the others hear of it, and make FILE; -k: calls of one kind alone; -f:
 *     what matters where they are flat
 *
 * Linked with a tool of the profiling interface (tool.c), it checks that the tool has seen each call.
 */
#include "together.h"
#include "load_beside.h"
#include "own_op.h"
#include "two_cores.h"
#include "without.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONG 3000
#define MANY 3000 /* calls of a kind */
#define MOST 32	  /* ranks */

extern long tool_calls(void) __attribute__((weak));

int rank, ranks;
static int faults;
long calls; /* that a tool should have seen */

void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf("together: rank %d: %s, round %ld\n", rank, what, i);
}

/* Now and then one of them is late: by less than others look for a message, or by more. */
static void straggle(int i)
{
	if (i % 41 == 40 && rank == i / 41 % ranks)
		usleep(i % 2 ? 20 : 3000);
}

void barrier(MPI_Comm comm)
{
	MPI_Barrier(comm);
	calls++;
}

static void bcast(void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
	MPI_Bcast(buf, n, type, root, comm);
	calls++;
}

void allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	MPI_Allreduce(from, to, n, type, op, comm);
	calls++;
}

static void alltoall(const void *out, int n, MPI_Datatype type, void *in, MPI_Comm comm)
{
	MPI_Alltoall(out, n, type, in, n, type, comm);
	calls++;
}

static void allgather(const void *out, int n, MPI_Datatype type, void *in, MPI_Comm comm)
{
	MPI_Allgather(out, n, type, in, n, type, comm);
	calls++;
}

void one_bcast(int *v, int n, int root, MPI_Comm comm, int i)
{
	int me, bad = 0;
	MPI_Comm_rank(comm, &me);
	for (int k = 0; k <= n; k++)
		v[k] = me == root && k < n ? i * 1000 + k : -1;
	bcast(v, n, MPI_INT, root, comm);
	for (int k = 0; k < n; k++)
		bad += v[k] != i * 1000 + k;
	expect(!bad && v[n] == -1, "a broadcast", i);
}

/*
 * Each number says who has sent it to whom, and when. Every other time they are all the same, which tells nothing of
 * where they went.
 */
static void one_alltoall(int n, MPI_Comm comm, int i)
{
	static int out[MOST * ROOM], in[MOST * ROOM + 1];
	int me, all, bad = 0, tells = i % 2;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &all);
	for (int k = 0; k < n * all; k++) {
		out[k] = i + tells * (k % n * 10000 + me * 1000 + k / n * 100000);
		in[k] = -1;
	}
	in[n * all] = -1;
	alltoall(out, n, MPI_INT, in, comm);
	for (int k = 0; k < n * all; k++)
		bad += in[k] != i + tells * (k % n * 10000 + k / n * 1000 + me * 100000);
	expect(!bad && in[n * all] == -1, "an exchange of all with all", i);
}

static void one_allgather(int n, MPI_Comm comm, bool in_place, int i)
{
	static int in[MOST * ROOM + 1];
	int me, all, out[ROOM], bad = 0, tells = i % 3 > 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &all);
	for (int k = 0; k <= n * all; k++)
		in[k] = -1;
	for (int k = 0; k < n; k++)
		out[k] = i + tells * (k * 10000 + me * 1000);
	if (in_place)
		memcpy(in + me * n, out, sizeof(int) * (size_t)n);
	allgather(in_place ? MPI_IN_PLACE : out, n, MPI_INT, in, comm);
	for (int k = 0; k < n * all; k++)
		bad += in[k] != i + tells * (k % n * 10000 + k / n * 1000);
	expect(!bad && in[n * all] == -1, "what all have brought along", i);
}

/* Of numbers that say which ranks they came from, and how often. */
void one_sum(int n, MPI_Comm comm, bool in_place, int i)
{
	int v[ROOM], sum[ROOM + 1], me, all, bad = 0;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &all);
	for (int k = 0; k < n; k++)
		v[k] = sum[k] = ((i + k) << 8) + (1 << 4 * me);
	sum[n] = -1;
	allreduce(in_place ? MPI_IN_PLACE : v, sum, n, MPI_INT, MPI_SUM, comm);
	for (int k = 0; k < n; k++)
		bad += sum[k] != ((i + k) * all << 8) + (int)(0x11111111 & ((1ULL << 4 * all) - 1));
	expect(!bad && sum[n] == -1, "a sum", i);
}

static void lengths(void)
{
	static int v[2][LONG + 1];
	for (int i = 0; i < 3 * ROUNDS; i++) {
		int n = i < ROUNDS ? 2 : i < 2 * ROUNDS ? i / 5 % ROOM : i % 50 ? ROOM : LONG;
		straggle(i);
		one_bcast(v[i % 2], n, i / 3 % ranks, MPI_COMM_WORLD, i);
		one_sum(n < ROOM ? n : ROOM, MPI_COMM_WORLD, i % 100 > 50, i);
		one_alltoall(n < ROOM ? n : ROOM, MPI_COMM_WORLD, i);
		one_allgather(n < ROOM ? n : ROOM, MPI_COMM_WORLD, i % 100 > 50, i);
	}
}

/*
 * Every other time the same, and the first of these is the MPI's. Zeros of both signs, and what is no number, tell
 * the order of the operands; what comes in between does not, so that it is not what the first calls are judged by.
 */
static void bits(int n)
{
	MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
	static double v[2][PAGE], was[2][PAGE], first[PAGE], sum[PAGE];
	for (int o = 0; o < 8; o++) {
		for (int k = 0; k < n; k++) {
			v[0][k] = k % 3 ? 1.0 / (3 * k + rank) : (k + rank) % 2 ? 0.0 : -0.0;
			v[1][k] = k + rank;
		}
		unsigned long nan = 0x7ff8000000000000 + (unsigned)rank;
		memcpy(&v[0][n - 1], &nan, sizeof(nan));
		memcpy(was, v, sizeof(was));
		for (int i = 0; i < ROUNDS; i++) {
			bool plain = i && (i < 20 || i % 2), in_place = o < 4;
			straggle(i);
			memcpy(i ? sum : first, v[plain], sizeof(sum));
			allreduce(in_place ? MPI_IN_PLACE : v[plain], i ? sum : first, n, MPI_DOUBLE,
				  ops[o % 4], MPI_COMM_WORLD);
			expect(plain || !i || !memcmp((char *)first, (char *)sum, sizeof(double) * (size_t)n),
			       "the bits of a reduction", i);
		}
		expect(!memcmp((char *)v, (char *)was, sizeof(was)), "what was brought along to a reduction",
		       o);
	}
}

/* An operation of the program's own, whose operands may not be exchanged; and types with a hole, and in another order. */
static void own(void)
{
	MPI_Datatype type, turned;
	MPI_Op op;
	int v[2], w[2], u[3], t[2], pairs[3 * MOST], each[] = {1, 1}, at[] = {1, 0};
	MPI_Op_create(shift, 0, &op);
	MPI_Type_vector(2, 1, 2, MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Type_indexed(2, each, at, MPI_INT, &turned);
	MPI_Type_commit(&turned);
	for (int i = 0; i < ROUNDS; i++) {
		bool mine = rank == i % ranks;
		v[0] = v[1] = (rank + i) % 7;
		allreduce(v, w, 2, MPI_INT, op, MPI_COMM_WORLD);
		expect(w[0] % 10 == (ranks - 1 + i) % 7 && w[0] == w[1], "an operation of the program's own",
		       i);
		u[0] = u[1] = u[2] = mine ? i : -1;
		bcast(u, 1, type, i % ranks, MPI_COMM_WORLD);
		expect(u[0] == i && u[2] == i && (u[1] == -1 || mine), "a type with a hole", i);
		t[0] = i;
		t[1] = mine ? -i : i;
		bcast(t, mine ? 1 : 2, mine ? turned : MPI_INT, i % ranks, MPI_COMM_WORLD);
		expect(t[mine] == -i && t[!mine] == i, "a type in another order", i);
		for (int k = 0; k < 3 * ranks; k++)
			pairs[k] = -1;
		MPI_Allgather(v, 2, MPI_INT, pairs, 1, i % 60 < 30 ? turned : type, MPI_COMM_WORLD);
		calls++;
		one_allgather(2, MPI_COMM_WORLD, false, i);
	}
	MPI_Op_free(&op);
	MPI_Type_free(&type);
	MPI_Type_free(&turned);
}

/* Everybody has come before anybody goes: each counts where all can look. */
void barriers(MPI_Comm comm)
{
	char path[64] = "";
	int fd = -1, late = 0, me, all;
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &all);
	if (me == 0) {
		fd = memfd_create("together", 0);
		expect(fd >= 0 && !ftruncate(fd, 4096), "memory", 0);
		snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), fd);
	}
	MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, comm);
	calls++;
	if (me > 0)
		fd = open(path, O_RDWR);
	_Atomic int *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (int i = 1; at != MAP_FAILED && i < 3 * ROUNDS; i++) {
		straggle(i);
		atomic_store(&at[me], i);
		barrier(comm);
		for (int r = 0; r < all; r++)
			late += atomic_load(&at[r]) < i;
	}
	expect(at != MAP_FAILED && !late, "a barrier that somebody had not come to", late);
	barrier(comm);
	close(fd);
}

/* The same rank of a communicator is another process each time, and its handle may be the same. */
static void communicators(void)
{
	int v[ROOM + 1];
	for (int i = 0; i < 12; i++) {
		MPI_Comm comm;
		MPI_Comm_split(MPI_COMM_WORLD, (rank >> i % 2) % 2, i % 3 ? rank : -rank, &comm);
		int all;
		MPI_Comm_size(comm, &all);
		for (int k = 0; k < 80; k++) {
			one_bcast(v, ROOM, k % all, comm, i * 100 + k);
			one_sum(2, comm, false, k);
			one_alltoall(3, comm, k);
			one_allgather(3, comm, i % 2, k);
			barrier(comm);
		}
		MPI_Comm_free(&comm);
	}
}

/* Some ranks are made to forget before each call, so that theirs are the MPI's; which ones changes. */
static void halves(void)
{
	int v[ROOM + 1];
	for (int i = 0; i < 4 * ROUNDS; i++) {
		if ((rank ^ i / ROUNDS) & 1) {
			MPI_Datatype type;
			MPI_Type_contiguous(2, MPI_INT, &type);
			MPI_Type_free(&type);
		}
		straggle(i);
		one_bcast(v, ROOM, i % ranks, MPI_COMM_WORLD, i);
		one_sum(ROOM, MPI_COMM_WORLD, i % 2, i);
		one_alltoall(ROOM, MPI_COMM_WORLD, i);
		one_allgather(ROOM, MPI_COMM_WORLD, i / 40 % 2, i);
		barrier(MPI_COMM_WORLD);
	}
}

/* A receive of anything, messages in between, and a collective that does not block. */
static void beside(void)
{
	int v[ROOM + 1], in, sum, out, right = (rank + 1) % ranks;
	MPI_Request r[3];
	for (int i = 0; i < ROUNDS; i++) {
		out = i + rank;
		MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[0]);
		MPI_Iallreduce(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[1]);
		straggle(i);
		one_bcast(v, ROOM, i % ranks, MPI_COMM_WORLD, i);
		MPI_Isend(&out, 1, MPI_INT, right, i % 100, MPI_COMM_WORLD, &r[2]);
		calls++;
		one_sum(2, MPI_COMM_WORLD, false, i);
		one_alltoall(2, MPI_COMM_WORLD, i);
		one_allgather(2, MPI_COMM_WORLD, false, i);
		barrier(MPI_COMM_WORLD);
		MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
		expect(in == i + (rank + ranks - 1) % ranks, "a message beside collectives", i);
		expect(sum == ranks * i + ranks * (ranks - 1) / 2, "a collective beside others", i);
	}
}

#if MPI_VERSION >= 4
#pragma weak MPI_Barrier_init
#endif

/*
 * What is as empty as a barrier's messages, and may leave within one: the word that a synchronous send has been
 * received, and another barrier's. A send that nobody has received is not over; who sends such words again ends it.
 */
static void empty(void)
{
	int in = 0, out = 5, over = 0, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Request r[2];
	for (int i = 0; i < 2 * ROUNDS; i++) {
		MPI_Irecv(&in, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &r[0]);
		MPI_Issend(&out, 1, MPI_INT, right, 7, MPI_COMM_WORLD, &r[1]);
		usleep(i % 3 ? 0 : 200);
		barrier(MPI_COMM_WORLD);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	}
	for (int i = 0; i < 2 * ROUNDS; i++) {
		MPI_Irecv(&in, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &r[0]);
		MPI_Issend(&out, 1, MPI_INT, right, 7, MPI_COMM_WORLD, &r[1]);
		one_allgather(2, MPI_COMM_WORLD, true, 1);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	}
	MPI_Issend(&out, 1, MPI_INT, right, 8, MPI_COMM_WORLD, &r[0]);
	for (int i = 0; i < 10; i++)
		one_allgather(2, MPI_COMM_WORLD, true, 1);
	for (int i = 0; i < 3000 && !over; i++)
		MPI_Test(&r[0], &over, MPI_STATUS_IGNORE);
	expect(!over, "a synchronous send that nobody has received is over", 0);
	barrier(MPI_COMM_WORLD);
	MPI_Recv(&in, 1, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	calls++;
	if (!over)
		MPI_Wait(&r[0], MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4
	MPI_Request again;
	if (!MPI_Barrier_init)
		return;
	MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &again);
	for (int i = 0; i < 4 * ROUNDS; i++) {
		MPI_Start(&again);
		usleep(rank == i % 4 && i % 3 == 0 ? 300 : 30);
		barrier(MPI_COMM_WORLD);
		MPI_Wait(&again, MPI_STATUS_IGNORE);
	}
	MPI_Request_free(&again);
#endif
}

/* Of two groups: what one of them brings the other gets. */
static void groups(void)
{
	MPI_Comm half, inter;
	int mine, all, v, sum;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Comm_rank(half, &mine);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(rank % 2), 1, &inter);
	MPI_Comm_remote_size(inter, &all);
	for (int i = 0; i < ROUNDS / 3; i++) {
		v = 100 * i + rank % 2;
		bcast(&v, 1, MPI_INT, rank % 2 ? 0 : mine ? MPI_PROC_NULL : MPI_ROOT, inter);
		expect(v == 100 * i, "a broadcast to another group", i);
		v = 1 + i * (rank % 2);
		allreduce(&v, &sum, 1, MPI_INT, MPI_SUM, inter);
		expect(sum == all * (1 + i * !(rank % 2)), "a sum of another group", i);
		barrier(inter);
	}
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

/* Of which one group is smaller: so are the other's buffers, here at the end of what may be read. */
static void unequal_groups(void)
{
	enum { N = 1024 };
	int last = rank == ranks - 1, blocks = last ? ranks - 1 : 1, bad = 0;
	size_t len = N * sizeof(int) * (size_t)blocks;
	MPI_Comm part, inter;
	if (ranks < 3)
		return;
	char *map = mmap(NULL, 2 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int *out = (int *)(void *)map, in[MOST * N];
	expect(map != MAP_FAILED && !mprotect(map + len, len, PROT_NONE), "memory", 0);
	MPI_Comm_split(MPI_COMM_WORLD, last, rank, &part);
	MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, last ? 0 : ranks - 1, 2, &inter);
	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < N * blocks; k++)
			out[k] = i + rank;
		alltoall(out, N, MPI_INT, in, inter);
		for (int k = 0; k < N * blocks; k++)
			bad += in[k] != i + (last ? k / N : ranks - 1);
	}
	expect(!bad, "an exchange of a group with a smaller one", 0);
	munmap(map, 2 * len);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&part);
}

/* The other hears of it in the call that it is in, or in the next, and leaves a file. */
static void death(const char *word)
{
	int v = 1, sum, rc = 0, i = 0;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	while (!rc && i < 1000000) {
		if (rank == 1 && i == 5000)
			raise(SIGKILL);
		rc = MPI_Allreduce(&v, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		i++;
	}
	FILE *f = rc ? fopen(word, "w") : NULL;
	if (f)
		fclose(f);
	_exit(f ? 0 : 1);
}

/* As long as any that goes without the MPI. */
static void one_page(int i)
{
	static double v[PAGE], sum[PAGE + 1];
	int bad = 0;
	for (int k = 0; k < PAGE; k++)
		v[k] = i + 1000.0 * k + rank;
	sum[PAGE] = -1;
	allreduce(v, sum, PAGE, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int k = 0; k < PAGE; k++)
		bad += sum[k] != ranks * (i + 1000.0 * k + 0.5 * (ranks - 1));
	expect(!bad && sum[PAGE] == -1, "a sum of 4 KiB", i);
}

static void one_of(const char *kind, int i)
{
	static int v[ROOM + 1];
	if (!strcmp(kind, "barrier"))
		barrier(MPI_COMM_WORLD);
	else if (!strcmp(kind, "bcast"))
		one_bcast(v, ROOM, i % ranks, MPI_COMM_WORLD, i);
	else if (!strcmp(kind, "allreduce"))
		one_sum(2, MPI_COMM_WORLD, false, i);
	else if (!strcmp(kind, "page"))
		one_page(i);
	else if (!strcmp(kind, "alltoall"))
		one_alltoall(ROOM, MPI_COMM_WORLD, i);
	else if (!strcmp(kind, "allgather"))
		one_allgather(ROOM, MPI_COMM_WORLD, false, i);
	else
		expect(false, "no such kind", 0);
}

static void one_kind(const char *kind)
{
	for (int i = 0; i < MANY; i++)
		one_of(kind, i);
}

static void all_kinds(void)
{
	lengths();
	bits(ROOM);
	bits(PAGE);
	own();
	barriers(MPI_COMM_WORLD);
	communicators();
	halves();
	beside();
	empty();
	groups();
	unequal_groups();
}

static char what(int argc, char **argv, char **word)
{
	char chosen = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-b"))
			bind_to_two();
		else if (!strcmp(argv[i], "-w"))
			without(argv);
		else if (argv[i][0] == '-')
			chosen = argv[i][1];
		else
			*word = argv[i];
	}
	return chosen;
}

/*
 * As a part of an MPI may be linked with a GPU's library where none is: nothing is left to the MPI for that (told by
 * run.py's counters).
 */
static void no_gpu(void)
{
	expect(load_beside("libze_loader.so.1"), "a library beside this program", 0);
	if (access("/dev/kfd", F_OK) && access("/dev/dxg", F_OK))
		expect(load_beside("libamdhip64.so.5"), "a library beside this program", 1);
}

int main(int argc, char **argv)
{
	char *word = NULL, chosen = what(argc, argv, &word);
	int provided;
	no_gpu();
	MPI_Init_thread(&argc, &argv, chosen == 'm' ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	alarm(100);
	if (chosen == 'd' && word)
		death(word);
	if (chosen == 'k' && word)
		one_kind(word);
	else if (chosen == 'f')
		flat_ones();
	else
		all_kinds();
	if (tool_calls)
		expect(tool_calls() == calls, "calls that the tool has not seen", calls - tool_calls());
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !faults)
		printf("together: every byte right, and every rank was there\n");
	MPI_Finalize();
	return faults != 0;
}

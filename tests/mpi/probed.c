/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Iprobe, of which libsennit-mpi.so answers most without the MPI (shim/probed.h): what it says of each message, and that
 * it says nothing of others: of another tag, source or communicator, of one that a pending receive has taken; a message
 * to itself, a long one, a synchronous one; beside a barrier that does not block, and beside receives that are pending.
 *
 *     probed [-m]
 *         -m: with MPI_THREAD_MULTIPLE, and another thread that has messages of its own
 */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 200000
#define TAG  7

static int rank, ranks, faults;
static long calls;
static unsigned char out[MOST], in[MOST];

static void expect(bool right, const char *what, long i)
{
	if (!right && faults++ < 6)
		printf("probed: rank %d: %s, %ld\n", rank, what, i);
}

static bool asked(int from, int tag, MPI_Comm comm, MPI_Status *s)
{
	int flag = -1;
	calls++;
	MPI_Iprobe(from, tag, comm, &flag, s);
	expect(flag == 0 || flag == 1, "the flag", flag);
	return flag == 1;
}

static void await(int from, int tag, MPI_Comm comm, MPI_Status *s)
{
	while (!asked(from, tag, comm, s))
		;
}

static void right_status(const MPI_Status *s, int from, int tag, int len, long i)
{
	int count = -1, cancelled = -1;
	MPI_Get_count(s, MPI_BYTE, &count);
	MPI_Test_cancelled(s, &cancelled);
	expect(s->MPI_SOURCE == from && s->MPI_TAG == tag && count == len && !cancelled, "its status", i);
}

static void receive(int from, int tag, int len, long i, MPI_Comm comm)
{
	memset(in, 0, (size_t)len);
	MPI_Recv(in, MOST, MPI_BYTE, from, tag, comm, MPI_STATUS_IGNORE);
	for (int k = 0; k < len; k++)
		if (in[k] != (unsigned char)(i + k)) {
			expect(false, "bytes", i);
			return;
		}
}

static void send(int to, int tag, int len, long i, MPI_Comm comm, bool synchronous)
{
	for (int k = 0; k < len; k++)
		out[k] = (unsigned char)(i + k);
	(synchronous ? MPI_Ssend : MPI_Send)(out, len, MPI_BYTE, to, tag, comm);
}

/* ---- one that comes, asked for in each way ---- */

static void comes(MPI_Comm comm, int rounds)
{
	static const int lengths[] = {0, 8, 40, 100, 1000, 4096, 16384, 100000};
	for (int i = 0; i < rounds; i++) {
		int tag = i % 5 ? TAG : TAG + 1 + i % 3, len = i % 7 ? 8 * (i % 4) : lengths[i / 7 % 8];
		int way = i / 50 % 4;
		MPI_Status s;
		if (rank == 0) {
			if (i % 40 == 0)
				usleep(i % 200 ? 300 : 3000);
			send(1, tag, len, i, comm, i % 9 == 4);
			MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG, comm, MPI_STATUS_IGNORE);
		} else if (rank == 1) {
			await(way % 2 ? MPI_ANY_SOURCE : 0, way / 2 ? MPI_ANY_TAG : tag, comm,
			      i % 11 ? &s : MPI_STATUS_IGNORE);
			if (i % 11)
				right_status(&s, 0, tag, len, i);
			expect(!asked(0, TAG + 10, comm, &s) && !asked(MPI_ANY_SOURCE, TAG + 10, comm, &s) &&
				       !asked(1, MPI_ANY_TAG, comm, &s),
			       "one that there is not", i);
			expect(asked(0, tag, comm, &s), "it is still there", i);
			right_status(&s, 0, tag, len, i);
			receive(0, tag, len, i, comm);
			expect(!asked(0, tag, comm, &s) && !asked(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &s),
			       "it was received", i);
			MPI_Send(NULL, 0, MPI_BYTE, 0, TAG, comm);
		}
	}
}

/* Of several the first one of its kind is told of, and those for other receives stay theirs. */
static void order(MPI_Comm comm)
{
	enum { FEW = 6 };
	for (int i = 0; i < 200 && rank < 2; i++) {
		MPI_Request r;
		MPI_Status s;
		int first = -1;
		if (rank == 1)
			MPI_Irecv(&first, 1, MPI_INT, 0, TAG, comm, &r);
		MPI_Sendrecv(NULL, 0, MPI_BYTE, !rank, 1, NULL, 0, MPI_BYTE, !rank, 1, comm,
			     MPI_STATUS_IGNORE);
		if (rank == 0) {
			MPI_Send(&i, 1, MPI_INT, 1, TAG, comm);
			for (int k = 1; k <= FEW; k++)
				send(1, TAG, 8 * k, k, comm, false);
			continue;
		}
		for (int k = 1; k <= FEW; k++) {
			await(i % 2 ? MPI_ANY_SOURCE : 0, TAG, comm, &s);
			right_status(&s, 0, TAG, 8 * k, i);
			receive(0, TAG, 8 * k, k, comm);
		}
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		expect(first == i, "what was posted before", i);
	}
}

static void to_itself(MPI_Comm comm, int me)
{
	for (int i = 0; i < 200; i++) {
		MPI_Request r;
		MPI_Status s;
		expect(!asked(MPI_ANY_SOURCE, TAG + 3, comm, &s) && !asked(me, TAG + 3, comm, &s),
		       "from itself", i);
		for (int k = 0; k < 24; k++)
			out[k] = (unsigned char)(i + k);
		MPI_Isend(out, 24, MPI_BYTE, me, TAG + 3, comm, &r);
		await(i % 2 ? me : MPI_ANY_SOURCE, TAG + 3, comm, &s);
		right_status(&s, me, TAG + 3, 24, i);
		receive(me, TAG + 3, 24, i, comm);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
}

/* Nothing of one communicator in another, nor in one that has its handle after it. */
static void communicators(void)
{
	for (int i = 0; i < 15; i++) {
		MPI_Comm one, other;
		MPI_Status s;
		MPI_Comm_dup(MPI_COMM_WORLD, &one);
		MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other); /* ranks the other way round */
		comes(one, 30);
		for (int k = 0; k < 20; k++) {
			if (rank == 0)
				send(ranks - 2, TAG, 16, k, other, false);
			if (rank == 1) {
				await(ranks - 1, TAG, other, &s);
				right_status(&s, ranks - 1, TAG, 16, k);
				expect(!asked(MPI_ANY_SOURCE, MPI_ANY_TAG, one, &s) &&
					       !asked(0, TAG, one, &s),
				       "of another communicator", i);
				receive(ranks - 1, TAG, 16, k, other);
			}
		}
		MPI_Comm_free(&one);
		MPI_Comm_free(&other);
	}
}

/* Messages to some, of which these know nothing: all have been sent when a barrier is over that does not block. */
static void sparse(MPI_Comm comm)
{
	for (int i = 0; i < 150; i++) {
		MPI_Request sent[2], barrier = MPI_REQUEST_NULL;
		int to[2] = {(rank + 1 + i) % ranks, (rank * 3 + i) % ranks},
		    values[2] = {rank * 1000 + i, rank * 1000 + i};
		int got = 0, over = 0, there = 0, begun = 0, all = 0, expected = 0, value;
		MPI_Status s;
		for (int k = 0; k < 2; k++)
			MPI_Issend(&values[k], 1, MPI_INT, to[k], TAG + 4 + i % 2, comm, &sent[k]);
		while (!over) {
			if (asked(MPI_ANY_SOURCE, TAG + 4 + i % 2, comm, &s)) {
				MPI_Recv(&value, 1, MPI_INT, s.MPI_SOURCE, s.MPI_TAG, comm,
					 MPI_STATUS_IGNORE);
				expect(value == s.MPI_SOURCE * 1000 + i, "a value", i);
				got++;
			}
			if (begun)
				MPI_Test(&barrier, &over, MPI_STATUS_IGNORE);
			else
				MPI_Testall(2, sent, &there, MPI_STATUSES_IGNORE);
			if (there && !begun) {
				MPI_Ibarrier(comm, &barrier);
				begun = 1;
			}
		}
		expected = 2 * ranks;
		MPI_Allreduce(&got, &all, 1, MPI_INT, MPI_SUM, comm);
		expect(all == expected, "messages", all);
	}
}

/* With receives pending, which the program asks for after that. */
static void pending(MPI_Comm comm)
{
	enum { FEW = 8 };
	for (int i = 0; i < 300 && rank < 2; i++) {
		MPI_Request r[FEW];
		MPI_Status s;
		int got[FEW];
		if (rank == 0) {
			MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, comm, MPI_STATUS_IGNORE);
			send(1, TAG + 20, 8, i, comm, false);
			for (int k = 0; k < FEW; k++)
				MPI_Send(&(int){i * FEW + k}, 1, MPI_INT, 1, TAG + k, comm);
			continue;
		}
		for (int k = 0; k < FEW; k++)
			MPI_Irecv(&got[k], 1, MPI_INT, 0, TAG + k, comm, &r[k]);
		for (int k = 0; k < 5; k++)
			expect(!asked(0, TAG + 20, comm, &s), "too early", i);
		MPI_Send(NULL, 0, MPI_BYTE, 0, 1, comm);
		await(0, TAG + 20, comm, &s);
		receive(0, TAG + 20, 8, i, comm);
		MPI_Waitall(FEW, r, MPI_STATUSES_IGNORE);
		for (int k = 0; k < FEW; k++)
			expect(got[k] == i * FEW + k, "a receive that was pending", i);
	}
}

/* A message that is found was not cancelled, whatever lay in the status before. */
static void others(MPI_Comm comm)
{
	for (int i = 0; i < 400 && rank < 2; i++) {
		MPI_Message m;
		MPI_Status s;
		int found = i % 4 != 1 && i % 4 != 3;
		if (rank == 0) {
			send(1, TAG, 16, i, comm, false);
			continue;
		}
		memset(&s, 0xff, sizeof(s));
		if (i % 4 == 0)
			MPI_Probe(0, TAG, comm, &s);
		while (i % 4 == 1 && !found)
			MPI_Iprobe(0, TAG, comm, &found, &s);
		if (i % 4 == 2)
			MPI_Mprobe(0, TAG, comm, &m, &s);
		while (i % 4 == 3 && !found)
			MPI_Improbe(0, TAG, comm, &found, &m, &s);
		right_status(&s, 0, TAG, 16, i);
		if (i % 4 < 2)
			receive(0, TAG, 16, i, comm);
		else
			MPI_Mrecv(in, 16, MPI_BYTE, &m, MPI_STATUS_IGNORE);
	}
}

/* What is found is taken with it, and nothing else: not what was sent after it, nor of another tag. */
static void taken(MPI_Comm comm, int rounds)
{
	static const int lengths[] = {0, 8, 40, 1000, 16384, 100000};
	for (int i = 0; i < rounds && rank < 2; i++) {
		int len = lengths[i % 6], way = i / 30 % 4;
		MPI_Message m[2], none;
		MPI_Status s;
		if (rank == 0) {
			if (i % 20 == 0)
				usleep(i % 100 ? 200 : 2000);
			for (int k = 0; k < 2; k++)
				send(1, TAG, len, i + k, comm, false);
			MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG, comm, MPI_STATUS_IGNORE);
			continue;
		}
		for (int k = 0; k < 2; k++) {
			int flag = 0;
			for (; !flag; calls++)
				MPI_Improbe(way % 2 ? MPI_ANY_SOURCE : 0, way / 2 ? MPI_ANY_TAG : TAG, comm,
					    &flag, &m[k], &s);
			right_status(&s, 0, TAG, len, i);
		}
		for (int k = 0; k < 4; k++) {
			int flag = -1;
			MPI_Improbe(k % 2 ? 0 : MPI_ANY_SOURCE, k / 2 ? TAG : TAG + 10, comm, &flag, &none,
				    &s);
			expect(!flag, "one that was taken, or that there is not", i);
		}
		for (int k = 2; k--;) { /* in any order */
			memset(in, 0, (size_t)len);
			MPI_Mrecv(in, len, MPI_BYTE, &m[k], &s);
			for (int b = 0; b < len; b++)
				expect(in[b] == (unsigned char)(i + k + b), "bytes of a taken one", i);
		}
		MPI_Send(NULL, 0, MPI_BYTE, 0, TAG, comm);
	}
}

/* Asked for from itself, which some MPIs do without the provider, beside a sum whose steps ask it for messages of others. */
static void beside_steps(void)
{
	enum { MANY = 100000 };
	double *from = calloc(MANY, sizeof(double)), *to = calloc(MANY, sizeof(double));
	for (int i = 0; i < 40 && from && to; i++) {
		MPI_Request r;
		MPI_Status s;
		int over = 0;
		MPI_Iallreduce(from, to, MANY, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
		while (!over) {
			for (int k = 0; k < 100; k++)
				expect(!asked(rank, TAG + 5, MPI_COMM_WORLD, &s), "from itself beside a sum",
				       i);
			MPI_Test(&r, &over, MPI_STATUS_IGNORE);
		}
	}
	free(from);
	free(to);
}

/* More than 32 bits say how long it is; it is received into less room, so nobody touches its memory. After that Intel MPI hangs, with ways of its own, too. */
static void beyond(MPI_Comm comm)
{
	const size_t mib = 4099, most = mib << 20;
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	int length;
	MPI_Datatype type;
	MPI_Count bytes = 0;
	MPI_Status s;
	char *p = rank ? NULL
		       : mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			      -1, 0);
	int may = p != MAP_FAILED;
	MPI_Bcast(&may, 1, MPI_INT, 0, comm);
	MPI_Get_library_version(version, &length);
	if (!may || rank > 1 || strstr(version, "Intel"))
		return;
	MPI_Type_contiguous(1 << 20, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	for (int i = 0; i < 20; i++) { /* ones of a MiB, which are learned from */
		if (rank == 0) {
			MPI_Send(p, i < 19 ? 1 : (int)mib, type, 1, TAG, comm);
			continue;
		}
		for (int k = 0; k < 3; k++)
			await(0, TAG, comm, &s);
		MPI_Get_elements_x(&s, MPI_BYTE, &bytes);
		expect(bytes == (MPI_Count)(i < 19 ? 1 << 20 : most), "the bytes of a long one, MiB",
		       (long)(bytes >> 20));
		MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
		MPI_Recv(in, 1000, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE);
		MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
	}
	MPI_Type_free(&type);
	if (rank == 0)
		munmap(p, most);
}

/*
 * Of who asks once a millisecond, and does nothing else, what is under way goes on with nearly each call: not with one in
 * so many. In most rounds; nobody says when the MPI looks. And it is over at all: over Open MPI 5 such a rank did not bring what
 * had been put off until a look of its own.
 */
static void now_and_then(MPI_Comm comm)
{
	enum { ROUNDS = 7, MOST_CALLS = 200, RIGHT = 40 };
	int few = 0;
	for (int i = 0; i < ROUNDS; i++) {
		MPI_Comm made;
		MPI_Request r;
		MPI_Status s;
		int n = 0;
		for (int k = 0; k < 300; k++) /* often, before that */
			asked(!rank, TAG + 6, comm, &s);
		MPI_Comm_idup(comm, &made, &r);
		if (rank == 0)
			while (n < MOST_CALLS && !asked(1, TAG + 7, comm, &s)) {
				usleep(1000);
				n++;
			}
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (rank == 0)
			MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG + 7, comm, MPI_STATUS_IGNORE);
		else
			MPI_Send(NULL, 0, MPI_BYTE, 0, TAG + 7, comm);
		few += n < RIGHT;
		MPI_Comm_free(&made);
	}
	expect(rank || few > ROUNDS / 2, "rounds in which a communicator was made soon", few);
}

/* ---- another thread ---- */

static void *in_thread(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	for (long i = 0; i < 3000 && rank < 2; i++) {
		long got = -1;
		MPI_Sendrecv(&i, 1, MPI_LONG, rank ^ 1, 3, &got, 1, MPI_LONG, rank ^ 1, 3, comm,
			     MPI_STATUS_IGNORE);
		expect(got == i, "the other thread's message", i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	bool many = argc > 1 && !strcmp(argv[1], "-m");
	int provided, all_faults = 0;
	setenv("MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM", "sched_naive",
	       0); /* a receive of its own in one step */
	long all_calls = 0;
	pthread_t thread;
	MPI_Comm comm, threads;
	MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	alarm(100);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_dup(MPI_COMM_WORLD, &threads);
	if (many)
		pthread_create(&thread, NULL, in_thread, &threads);
	for (int k = 0; k < 2; k++) {
		comes(k ? comm : MPI_COMM_WORLD, 1500);
		order(comm);
		to_itself(comm, rank);
		to_itself(MPI_COMM_SELF, 0);
		pending(comm);
		others(comm);
		taken(comm, 900);
		sparse(comm);
	}
	if (!many) {
		communicators();
		beside_steps();
		beyond(comm);
		if (ranks == 2) /* all ranks make that one */
			now_and_then(comm);
	}
	if (many)
		pthread_join(thread, NULL);
	MPI_Comm_free(&comm);
	MPI_Comm_free(&threads);
	MPI_Reduce(&faults, &all_faults, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&calls, &all_calls, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank && !all_faults)
		printf("probed: %ld calls, every byte right\n", all_calls);
	MPI_Finalize();
	return all_faults != 0;
}

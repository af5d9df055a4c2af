/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Mprobe and MPI_Mrecv, of which libsennit-mpi.so takes most without the MPI (shim/matched.h): every byte, length, tag
 * and source, whatever becomes of a message in between: it is received into other types, or too small a buffer, by
 * MPI_Imrecv, by another thread, as Fortran would, in another order, after its communicator is freed.
 *
 *     matched [-m]
 *         -m: with MPI_THREAD_MULTIPLE
 */
#include "large.h"
#include "told.h"
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 200000
#define TAG  7

int WEAK MPI_Message_toint(MPI_Message message);
int WEAK MPI_Mrecv_c(void *buf, MPI_Count count, MPI_Datatype type, MPI_Message *message, MPI_Status *status);

#if MPI_VERSION < 5 || defined(MPI_Fint)
#define NUMBER_OF MPI_Message_c2f
#define NUMBERED  MPI_Message_f2c
#else /* the ABI of MPI 5 */
#define NUMBER_OF MPI_Message_toint
#define NUMBERED  MPI_Message_fromint
#endif

static int rank, faults, calls;
static unsigned char out[MOST], in[MOST + 64];

static void expect(bool right, const char *what, long i)
{
	if (!right && faults++ < 6)
		printf("matched: rank %d: %s, %ld\n", rank, what, i);
}

static unsigned char byte_of(int turn, int i)
{
	return (unsigned char)(turn * 31 + i + (i >> 8) * 5);
}

static void fill(int len, int turn)
{
	for (int i = 0; i < len; i++)
		out[i] = byte_of(turn, i);
	memset(in, 0x5a, (size_t)len + 64);
}

static int wrong(int len, int turn)
{
	int bad = 0;
	for (int i = 0; i < len; i++)
		bad += in[i] != byte_of(turn, i);
	for (int i = len; i < len + 64; i++)
		bad += in[i] != 0x5a;
	return bad;
}

static void right_status(const MPI_Status *s, int len, const char *what, int turn)
{
	int count = -1;
	MPI_Get_count(s, MPI_BYTE, &count);
	expect(count == len && s->MPI_SOURCE == 0 && s->MPI_TAG == TAG, what, turn);
}

/* ---- what becomes of a message ---- */

enum { BYTES, IGNORED, INTS, HOLES, IMRECV, SHORT, FORTRAN, COUNTED, WAYS };

static void receive(int way, MPI_Message *m, int len, int turn)
{
	MPI_Status s = {0};
	MPI_Request r;
	MPI_Datatype vector;
	int rc = 0;
	switch (way) {
	case IGNORED: rc = MPI_Mrecv(in, MOST, MPI_BYTE, m, MPI_STATUS_IGNORE); break;
	case INTS: rc = MPI_Mrecv(in, len / 4 + 1, MPI_INT, m, &s); break;
	case HOLES: { /* each second four bytes */
		static unsigned char apart[2 * MOST];
		MPI_Type_vector(len / 4, 4, 8, MPI_BYTE, &vector);
		MPI_Type_commit(&vector);
		rc = MPI_Mrecv(apart, 1, vector, m, &s);
		MPI_Type_free(&vector);
		for (int i = 0; i < len; i++)
			in[i] = apart[i / 4 * 8 + i % 4];
		break;
	}
	case IMRECV:
		rc = MPI_Imrecv(in, len, MPI_BYTE, m, &r);
		if (!rc)
			rc = MPI_Wait(&r, &s);
		break;
	case SHORT:
		told = 0;
		rc = MPI_Mrecv(in, len - 1, MPI_BYTE, m, MPI_STATUS_IGNORE);
		expect(rc || told, "a message that is too long", turn);
		return;
	case FORTRAN: {
		int number = NUMBER_OF(*m);
		expect(!MPI_Message_toint || MPI_Message_toint(*m) == number, "its number", turn);
		expect(NUMBER_OF(*m) == number, "another number", turn);
		if (turn % 2) /* else C receives it by its own name */
			*m = NUMBERED(number);
		rc = MPI_Mrecv(in, len, MPI_BYTE, m, &s);
		break;
	}
	case COUNTED:
		rc = MPI_Mrecv_c ? MPI_Mrecv_c(in, len, MPI_BYTE, m, &s)
				 : MPI_Mrecv(in, len, MPI_BYTE, m, &s);
		break;
	default: rc = MPI_Mrecv(in, len, MPI_BYTE, m, &s);
	}
	expect(!rc && *m == MPI_MESSAGE_NULL, "MPI_Mrecv", turn);
	if (way != IGNORED)
		right_status(&s, len, "its status", turn);
	expect(!wrong(len, turn), "bytes", len * 1000L + way);
}

static void one(int way, int len, int turn, bool synchronous, MPI_Comm comm)
{
	MPI_Message m;
	MPI_Status s;
	fill(len, turn);
	if (!rank) {
		(synchronous ? MPI_Ssend : MPI_Send)(out, len, MPI_BYTE, 1, TAG, comm);
		return;
	}
	calls++;
	MPI_Mprobe(0, turn % 50 ? TAG : MPI_ANY_TAG, comm, &m, &s);
	right_status(&s, len, "MPI_Mprobe's status", turn);
	receive(way, &m, len, turn);
}

static const int lengths[] = {0, 4, 8, 40, 100, 1000, 4096, 8192, 16384, 65536, 100000};
#define LENGTHS (sizeof(lengths) / sizeof(*lengths))

static void short_ones(MPI_Comm comm)
{
	for (int i = 0; i < 3000; i++) {
		if (rank == i / 100 % 2 && i % 100 == 0)
			usleep(i % 3 ? 50 : 3000);
		one(i % 2 ? IGNORED : BYTES, 40 + 4 * (i % 7), i, false, comm);
		if (i % 20 == 0)
			MPI_Barrier(comm);
	}
}

static void all_ways(MPI_Comm comm, int ways)
{
	for (size_t k = 0; k < LENGTHS; k++)
		for (int i = 0; i < 12 * ways; i++) {
			int way = i % ways, len = lengths[k];
			one(way == SHORT && !len ? BYTES : way, len, i, i % 5 == 1, comm);
		}
}

/* More at once than there are slots, received in another order; some as the MPI's. */
static void many_at_once(MPI_Comm comm)
{
	enum { MANY = 100 };
	static MPI_Message m[MANY];
	for (int again = 0; again < 5; again++) {
		for (int i = 0; i < MANY; i++) {
			fill(40 + i, i);
			if (!rank)
				MPI_Send(out, 40 + i, MPI_BYTE, 1, TAG, comm);
			else
				MPI_Mprobe(0, TAG, comm, &m[i], MPI_STATUS_IGNORE);
		}
		for (int i = 0; rank && i < MANY; i++) {
			int k = i * 37 % MANY;
			fill(40 + k, k);
			receive(again % 2 && i % 9 == 0 ? IMRECV : BYTES, &m[k], 40 + k, k);
		}
		MPI_Barrier(comm);
	}
}

/* It outlives its communicator, whatever becomes of it then; and one of that handle does not get it. */
static void communicators(void)
{
	static const int ways[] = {BYTES, HOLES, IMRECV};
	for (int i = 0; i < 12; i++) {
		MPI_Comm comm;
		MPI_Message m = MPI_MESSAGE_NULL;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int k = 0; k < 20; k++)
			one(BYTES, 48, k, false, comm);
		fill(40, i);
		if (!rank)
			MPI_Send(out, 40, MPI_BYTE, 1, TAG, comm);
		else
			MPI_Mprobe(0, TAG, comm, &m, MPI_STATUS_IGNORE);
		MPI_Comm_free(&comm);
		if (rank)
			receive(ways[i % 3], &m, 40, i);
	}
}

static void *in_thread(void *arg)
{
	receive(BYTES, arg, 40, 5);
	return NULL;
}

static void by_another(MPI_Comm comm)
{
	for (int i = 0; i < 100; i++) {
		pthread_t t;
		MPI_Message m;
		fill(40, 5);
		if (!rank) {
			MPI_Send(out, 40, MPI_BYTE, 1, TAG, comm);
			continue;
		}
		MPI_Mprobe(0, TAG, comm, &m, MPI_STATUS_IGNORE);
		pthread_create(&t, NULL, in_thread, &m);
		pthread_join(t, NULL);
	}
	MPI_Barrier(comm);
}

/* From nobody, and from whoever comes; a receive that was posted before has the first message. */
static void beside(MPI_Comm comm)
{
	MPI_Message m;
	MPI_Status s;
	MPI_Mprobe(MPI_PROC_NULL, TAG, comm, &m, &s);
	expect(m == MPI_MESSAGE_NO_PROC && s.MPI_SOURCE == MPI_PROC_NULL, "from nobody", 0);
	MPI_Mrecv(in, 8, MPI_BYTE, &m, &s);
	for (int i = 0; i < 200; i++) {
		MPI_Request r;
		int first = -1, second = -1;
		if (rank)
			MPI_Irecv(&first, 1, MPI_INT, 0, TAG, comm, &r);
		MPI_Barrier(comm);
		for (int k = 0; k < 2 && !rank; k++)
			MPI_Send(&(int){2 * i + k}, 1, MPI_INT, 1, TAG, comm);
		if (!rank)
			continue;
		MPI_Mprobe(i % 3 ? 0 : MPI_ANY_SOURCE, TAG, comm, &m, &s);
		MPI_Mrecv(&second, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		expect(first == 2 * i && second == 2 * i + 1, "behind a receive", i);
	}
}

int main(int argc, char **argv)
{
	bool many = argc > 1 && !strcmp(argv[1], "-m");
	int provided, all_faults = 0, all_calls = 0;
	MPI_Errhandler handler;
	MPI_Comm comm;
	MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	alarm(100);
	short_ones(MPI_COMM_WORLD);
	many_at_once(MPI_COMM_WORLD);
	communicators();
	beside(MPI_COMM_WORLD);
	if (many)
		by_another(MPI_COMM_WORLD);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_create_errhandler(tell, &handler);
	MPI_Comm_set_errhandler(comm, handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
	all_ways(comm, FORTRAN);
	all_ways(comm, WAYS);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Errhandler_free(&handler);
	MPI_Comm_free(&comm);
	MPI_Reduce(&faults, &all_faults, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&calls, &all_calls, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank && !all_faults)
		printf("matched: %d calls, every byte right\n", all_calls);
	MPI_Finalize();
	return all_faults != 0;
}

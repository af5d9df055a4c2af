/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that are made again and again with the same arguments, which libsennit-mpi.so takes over (shim/quick.h): every byte,
 * every status and the order are as the MPI would have them, also where something changes between two of them: other
 * ways to send, lengths, wildcards, messages that are too long, communicators and types that are freed and whose
 * handles come again.
 *
 *     again [-m | -f]     -m: with MPI_THREAD_MULTIPLE, of which one thread calls
 *                         -f: only that what is freed are others' types and communicators (libraries make some for each message)
 *
 * Linked with a tool of the profiling interface (tool.c), it checks that the tool has seen each call.
 */
#include "large.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 300
#define ROOM   16 /* ints */
#define LONGS  250

extern long tool_calls(void) __attribute__((weak));

static int rank, faults;
static long calls; /* that a tool should have seen */

static void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf("again: rank %d: %s, round %ld\n", rank, what, i);
}

static void fill(int *v, int n, int i)
{
	for (int k = 0; k < n; k++)
		v[k] = i * 1000 + k;
}

static void check(const int *v, int n, int i, const char *what)
{
	int want[ROOM];
	fill(want, n, i);
	expect(!memcmp(v, want, (size_t)n * sizeof(int)), what, i);
}

static void check_status(MPI_Status *s, int source, int tag, int n, int i)
{
	int count = -1, cancelled = 1;
	MPI_Get_count(s, MPI_INT, &count);
	MPI_Test_cancelled(s, &cancelled);
	expect(s->MPI_SOURCE == source && s->MPI_TAG == tag && count == n && !cancelled, "status", i);
}

/* By one name and by the other, which a tool does not see. */
static void send(const int *v, int n, int to, int tag, MPI_Comm comm)
{
	static int turn;
	if (++turn % 8 == 0 && MPI_Send_c) {
		MPI_Send_c(v, n, MPI_INT, to, tag, comm);
	} else {
		MPI_Send(v, n, MPI_INT, to, tag, comm);
		calls++;
	}
}

static void recv(int *v, int from, int tag, MPI_Comm comm, MPI_Status *s)
{
	static int turn;
	if (++turn % 8 == 0 && MPI_Recv_c) {
		MPI_Recv_c(v, ROOM, MPI_INT, from, tag, comm, s);
	} else {
		MPI_Recv(v, ROOM, MPI_INT, from, tag, comm, s);
		calls++;
	}
}

/* There and back, with lengths that change; every other round the status is ignored. */
static void lengths(void)
{
	int out[ROOM], in[ROOM + 1];
	MPI_Status s;
	for (int i = 0; rank < 2 && i < ROUNDS; i++) {
		int n = i < ROUNDS / 2 ? ROOM : i % (ROOM + 1);
		fill(out, n, i);
		memset(in, 0xff, sizeof(in));
		if (rank == 0)
			send(out, n, 1, 1, MPI_COMM_WORLD);
		recv(in, !rank, 1, MPI_COMM_WORLD, i % 2 ? &s : MPI_STATUS_IGNORE);
		if (rank == 1)
			send(out, n, 0, 1, MPI_COMM_WORLD);
		check(in, n, i, "a message of another length");
		expect(in[n] == -1, "bytes beyond a message", i);
		if (i % 2)
			check_status(&s, !rank, 1, n, i);
	}
}

/*
 * There and back, of lengths that go through the ring in one piece or in parts, or are written straight into the
 * receive: which of it the loop is faster with is found out meanwhile. One of them is late, and one another message.
 */
static void longer(void)
{
	static const int sizes[] = {2048, 5000, 16384, 40000};
	static int v[40000];
	MPI_Status s;
	for (int i = 0; rank < 2 && i < 4 * LONGS; i++) {
		int n = sizes[i / LONGS], other = i % 50 == 49;
		for (int turn = 0; turn < 2; turn++) {
			if (i % 100 == 99 && turn == rank)
				usleep(500);
			for (int k = 0; k < n; k++)
				v[k] = turn == rank ? i + k + turn : -1;
			if (turn == rank) {
				if (other)
					MPI_Ssend(v, n - 1, MPI_INT, !rank, 11, MPI_COMM_WORLD);
				else
					MPI_Send(v, n, MPI_INT, !rank, 11, MPI_COMM_WORLD);
				calls += !other;
				continue;
			}
			MPI_Recv(v, n, MPI_INT, !rank, 11, MPI_COMM_WORLD, &s);
			calls++;
			check_status(&s, !rank, 11, n - other, i);
			for (int k = 0; k < n; k++)
				expect(v[k] == (k < n - other ? i + k + turn : -1), "a longer message", i);
		}
	}
}

/* One way, of every kind, and received in other ways: no message overtakes another. */
static void send_somehow(int *v, int i)
{
	MPI_Request r;
	int kind = i < ROUNDS ? 0 : i % 5;
	if (kind == 1)
		MPI_Ssend(v, ROOM, MPI_INT, 1, 2, MPI_COMM_WORLD);
	else if (kind == 2)
		MPI_Isend(v, ROOM, MPI_INT, 1, 2, MPI_COMM_WORLD, &r);
	else if (kind == 3)
		MPI_Issend(v, ROOM, MPI_INT, 1, 2, MPI_COMM_WORLD, &r);
	else
		send(v, ROOM, 1, 2, MPI_COMM_WORLD);
	calls += kind == 2;
	if (kind == 2 || kind == 3)
		MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* Open MPI 4 answers no synchronous send that MPI_Mrecv takes, over any provider. */
static void receive_somehow(int *v, int i)
{
	MPI_Request r;
	MPI_Message m;
	MPI_Status s;
	int kind = i < ROUNDS ? 0 : i % 7;
	if (kind == 1) {
		recv(v, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &s);
	} else if (kind == 2) {
		recv(v, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
	} else if (kind == 3) {
		MPI_Irecv(v, ROOM, MPI_INT, 0, 2, MPI_COMM_WORLD, &r);
		MPI_Wait(&r, &s);
	} else if (kind == 4 && i % 5 % 2 == 0) {
		MPI_Mprobe(0, 2, MPI_COMM_WORLD, &m, &s);
		MPI_Mrecv(v, ROOM, MPI_INT, &m, &s);
	} else {
		recv(v, 0, 2, MPI_COMM_WORLD, &s);
	}
	check_status(&s, 0, 2, ROOM, i);
}

static void order(void)
{
	int v[ROOM];
	for (int i = 0; i < 3 * ROUNDS; i++) {
		if (rank == 0) {
			fill(v, ROOM, i);
			send_somehow(v, i);
		} else if (rank == 1) {
			if (i % 100 == 99) /* now and then they have come before */
				usleep(2000);
			receive_somehow(v, i);
			check(v, ROOM, i, "a message out of its turn");
		}
	}
}

/* A receive that was posted before takes the first message. */
static void posted_before(void)
{
	int v[ROOM], w[ROOM];
	MPI_Request r;
	for (int i = 0; i < ROUNDS; i++) {
		if (rank == 0) {
			for (int k = 0; k < 2; k++) {
				fill(v, ROOM, 2 * i + k);
				send(v, ROOM, 1, 3, MPI_COMM_WORLD);
			}
			recv(v, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (rank == 1) {
			MPI_Irecv(v, ROOM, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &r);
			recv(w, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check(w, ROOM, 2 * i + 1, "the second receive");
			MPI_Wait(&r, MPI_STATUS_IGNORE);
			check(v, ROOM, 2 * i, "the first receive");
			send(v, ROOM, 0, 3, MPI_COMM_WORLD);
		}
	}
}

static void truncated(void)
{
	int v[2 * ROOM], class;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < ROUNDS; i++) {
		bool longer = i % 50 == 49;
		fill(v, ROOM, i);
		if (rank == 0) {
			send(v, longer ? 2 * ROOM : ROOM, 1, 4, MPI_COMM_WORLD);
			recv(v, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (rank == 1) {
			int rc = MPI_Recv(v, ROOM, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			calls++;
			MPI_Error_class(rc, &class);
			expect(class == (longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
			       "a message that is too long", i);
			if (!longer)
				check(v, ROOM, i, "a message after one that was too long");
			send(v, ROOM, 0, 4, MPI_COMM_WORLD);
		}
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The same rank of a communicator is another process each time, and its handle may be the same. */
static void communicators(void)
{
	for (int i = 0; i < 12; i++) {
		MPI_Comm comm;
		int v[ROOM], partner = i % 2 ? 2 : 1;
		MPI_Comm_split(MPI_COMM_WORLD, 0, rank == 0 ? 0 : rank == partner ? 1 : 2, &comm);
		for (int k = 0; k < 80; k++) {
			fill(v, ROOM, 100 * i + k);
			if (rank == 0) {
				send(v, ROOM, 1, 5, comm);
				recv(v, 1, 5, comm, MPI_STATUS_IGNORE);
				check(v, ROOM, -100 * i - k, "an answer in a communicator");
			} else if (rank == partner) {
				memset(v, 0, sizeof(v));
				recv(v, 0, 5, comm, MPI_STATUS_IGNORE);
				check(v, ROOM, 100 * i + k, "a message in a communicator");
				fill(v, ROOM, -100 * i - k);
				send(v, ROOM, 0, 5, comm);
			}
		}
		MPI_Comm_free(&comm);
	}
}

/* Likewise of a type. */
static void types(void)
{
	for (int i = 0; i < 12; i++) {
		MPI_Datatype type;
		MPI_Status s;
		int v[ROOM], n = i % 2 ? 3 : 5, got;
		if (i % 3 == 2) /* with a hole, which the MPI packs */
			MPI_Type_vector(n, 1, 2, MPI_INT, &type);
		else
			MPI_Type_contiguous(n, MPI_INT, &type);
		MPI_Type_commit(&type);
		for (int k = 0; k < 80; k++) {
			if (rank == 0) {
				fill(v, ROOM, k);
				MPI_Send(v, 1, type, 1, 6, MPI_COMM_WORLD);
				recv(v, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				calls++;
			} else if (rank == 1) {
				memset(v, 0xff, sizeof(v));
				MPI_Recv(v, 1, type, 0, 6, MPI_COMM_WORLD, &s);
				calls++;
				MPI_Get_count(&s, MPI_INT, &got);
				int last = i % 3 == 2 ? 2 * (n - 1) : n - 1;
				expect(got == n && v[last] == k * 1000 + last && v[last + 1] == -1, "a type",
				       i);
				send(v, ROOM, 0, 6, MPI_COMM_WORLD);
			}
		}
		MPI_Type_free(&type);
	}
}

static void others_freed(void)
{
	int v[ROOM];
	for (int i = 0; i < 3000; i++) {
		MPI_Datatype type;
		MPI_Comm comm;
		MPI_Type_contiguous(1 + i % 3, MPI_INT, &type);
		MPI_Type_commit(&type);
		if (i % 4 == 0)
			MPI_Comm_dup(MPI_COMM_SELF, &comm);
		if (rank == 0)
			fill(v, ROOM, i);
		if (rank == 0)
			MPI_Send(v, ROOM, MPI_INT, 1, 12, MPI_COMM_WORLD);
		MPI_Type_free(&type);
		if (rank < 2)
			MPI_Recv(v, ROOM, MPI_INT, !rank, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(v, ROOM, MPI_INT, 0, 12, MPI_COMM_WORLD);
		if (rank == 0)
			check(v, ROOM, i, "a message beside what is freed");
		if (i % 4 == 0)
			MPI_Comm_free(&comm);
	}
}

static void exchanges(void)
{
	int out[ROOM], in[ROOM];
	MPI_Status s;
	for (int i = 0; rank < 2 && i < ROUNDS; i++) {
		int n = i % ROOM, m = (i + rank) % 40 == 39 ? n : ROOM;
		fill(out, ROOM, i + rank);
		if (i % 90 == 89) /* one of them is late */
			usleep(rank ? 1000 : 0);
		MPI_Sendrecv(out, m, MPI_INT, !rank, 7, in, ROOM, MPI_INT, !rank, 7, MPI_COMM_WORLD,
			     i % 4 ? &s : MPI_STATUS_IGNORE);
		calls++;
		int came = (i + !rank) % 40 == 39 ? n : ROOM;
		check(in, came, i + !rank, "an exchange");
		if (i % 4)
			check_status(&s, !rank, 7, came, i);
	}
}

/*
 * A shift at its end: nothing is sent to nobody, also where the MPI answers, in that very call, a message whose
 * sender waits to hear that it is received. What was said too often would end a later one too early.
 */
static void to_nobody(void)
{
	int v[ROOM], w[ROOM], early = 0, done = 0;
	MPI_Request r;
	MPI_Status s;
	for (int i = 0; i < 30; i++) {
		fill(v, ROOM, i);
		if (rank == 0) {
			MPI_Sendrecv(w, 0, MPI_INT, MPI_PROC_NULL, 10, v, ROOM, MPI_INT, 1, 10,
				     MPI_COMM_WORLD, &s);
			calls++;
			check(v, ROOM, i, "a message of a shift's end");
			send(w, 0, MPI_PROC_NULL, 10, MPI_COMM_WORLD);
		} else if (rank == 1) {
			usleep(500); /* it is waited for */
			MPI_Ssend(v, ROOM, MPI_INT, 0, 10, MPI_COMM_WORLD);
		}
	}
	if (rank == 0) {
		recv(w, 1, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		recv(v, 1, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		check(v, ROOM, 30, "a message after shifts");
	} else if (rank == 1) {
		fill(v, ROOM, 30);
		MPI_Issend(v, ROOM, MPI_INT, 0, 10, MPI_COMM_WORLD, &r);
		for (int i = 0; i < 100 && !early; i++)
			MPI_Test(&r, &early, MPI_STATUS_IGNORE);
		expect(!early, "a synchronous message ended before it was received", 0);
		send(v, ROOM, 0, 11, MPI_COMM_WORLD); /* only now it will be */
		for (done = early; !done;)
			MPI_Test(&r, &done, MPI_STATUS_IGNORE);
	}
}

/* What MPI_Isend gives is a request like any other: each is found complete once, by whatever call. */
static void end_requests(MPI_Request *r, int n, int i)
{
	int done = 0, index, flag = 0, which[ROOM];
	MPI_Status s;
	for (int k = 0; i % 5 == 1 && k < n; k++, done |= 1 << index) {
		MPI_Waitany(n, r, &index, &s);
		MPI_Test_cancelled(&s, &flag);
		expect(!flag && index >= 0 && !(done & 1 << index), "MPI_Waitany", i);
	}
	while (i % 5 == 2 && done != (1 << n) - 1) {
		MPI_Waitsome(n, r, &flag, which, MPI_STATUSES_IGNORE);
		expect(flag > 0, "MPI_Waitsome", i);
		for (int k = 0; k < flag; k++)
			done |= 1 << which[k];
	}
	while (i % 5 == 3 && !flag)
		MPI_Testall(n, r, &flag, MPI_STATUSES_IGNORE);
	for (int k = 0; i % 5 == 4 && k < n; k++)
		MPI_Request_free(&r[k]);
	MPI_Waitall(i % 5 ? 0 : n, r, MPI_STATUSES_IGNORE);
	for (int k = 0; k < n; k++)
		expect(r[k] == MPI_REQUEST_NULL, "a request that has ended", i);
}

static void requests(void)
{
	static int v[ROOM][ROOM];
	MPI_Request r[ROOM], back;
	int w[ROOM];
	for (int i = 0; rank < 2 && i < ROUNDS; i++) {
		MPI_Irecv(w, ROOM, MPI_INT, !rank, 10, MPI_COMM_WORLD, &back);
		for (int k = 0; k < ROOM; k++) {
			fill(v[k], ROOM, i + k);
			MPI_Isend(v[k], ROOM, MPI_INT, !rank, k ? 9 : 10, MPI_COMM_WORLD, &r[k]);
			calls++;
		}
		MPI_Wait(&back, MPI_STATUS_IGNORE);
		check(w, ROOM, i, "a message to a receive that was posted");
		for (int k = 1; k < ROOM; k++) {
			recv(w, !rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check(w, ROOM, i + k, "a message of a window");
		}
		end_requests(r, ROOM, i);
	}
}

/* Many one way, more than a ring holds; the other side does something else meanwhile. */
static void floods(void)
{
	int v[ROOM];
	for (int i = 0; i < 40000; i++) {
		if (rank == 0) {
			fill(v, ROOM, i);
			send(v, ROOM, 1, 8, MPI_COMM_WORLD);
		} else if (rank == 1) {
			if (i % 10000 == 0)
				usleep(20000);
			recv(v, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check(v, ROOM, i, "a message of a flood");
		}
	}
}

/*
 * Any tag, which is the same for a while, and then another, or each time another; and behind one that is asked for by
 * its own.
 */
static void any_tags(void)
{
	int v[ROOM], w[ROOM];
	MPI_Status s;
	for (int i = 0; rank < 2 && i < 4 * ROUNDS; i++) {
		int tag = 20 + (i < 2 * ROUNDS ? i / 100 : i < 3 * ROUNDS ? i % 2 : i), n = 1 + i % ROOM;
		bool wants = i % 3 > 0;
		fill(v, n, i);
		if (rank == 0) {
			if (i % 50 == 49)
				usleep(300);
			send(v, n, 1, tag, MPI_COMM_WORLD);
			if (i % 7 == 6)
				send(v, n, 1, 19, MPI_COMM_WORLD);
			recv(w, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
			check_status(&s, 1, tag + 1, n, i);
		} else {
			if (i % 7 == 6) {
				recv(w, 0, 19, MPI_COMM_WORLD, &s);
				check_status(&s, 0, 19, n, i);
			}
			recv(w, 0, MPI_ANY_TAG, MPI_COMM_WORLD, wants ? &s : MPI_STATUS_IGNORE);
			if (wants)
				check_status(&s, 0, tag, n, i);
			check(w, n, i, "a message of any tag");
			send(v, n, 0, tag + 1, MPI_COMM_WORLD);
		}
		MPI_Sendrecv(v, n, MPI_INT, !rank, tag, w, ROOM, MPI_INT, !rank, MPI_ANY_TAG, MPI_COMM_WORLD,
			     &s);
		calls++;
		check(w, n, i, "one of an exchange, of any tag");
		check_status(&s, !rank, tag, n, i);
	}
}

/*
 * To oneself, of a length that is copied at once or announced. What was posted before gets it: then what the receive gets
 * is another message, which was sent before.
 */
static void oneself(void)
{
	static const int sizes[] = {2, 256, 4096, 70000};
	static int out[70000], in[70001], others[70000];
	MPI_Comm comm[2];
	for (int i = 0; i < 2; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	for (int i = 0; i < 4 * ROUNDS; i++) {
		int n = sizes[i % 4], tag = 30;
		bool any = i % 3 == 0, wants = i % 2, any_tag = i % 7 == 3, posted = any_tag && i % 5 == 2;
		MPI_Comm on = comm[i % 5 == 4];
		MPI_Request r[2];
		MPI_Status s;
		for (int k = 0; k < n; k++)
			out[k] = i + 3 * k;
		memset(in, 0xff, ((size_t)n + 1) * sizeof(int));
		memset(others, 0xff, (size_t)n * sizeof(int));
		if (posted) {
			tag = 32;
			MPI_Irecv(others, n, MPI_INT, any ? MPI_ANY_SOURCE : rank, 30, on, &r[0]);
			MPI_Isend(out, n - 1, MPI_INT, rank, tag, on, &r[1]);
			calls++;
		}
		MPI_Sendrecv(out, n, MPI_INT, rank, 30, in, n, MPI_INT, any ? MPI_ANY_SOURCE : rank,
			     any_tag ? MPI_ANY_TAG : 30, on, wants ? &s : MPI_STATUS_IGNORE);
		calls++;
		if (wants)
			check_status(&s, rank, tag, n - posted, i);
		for (int k = 0; k < n; k++)
			expect(in[k] == (k < n - posted ? i + 3 * k : -1), "a message to oneself", i);
		expect(in[n] == -1, "bytes beyond a message to oneself", i);
		if (posted) {
			MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
			expect(!memcmp(others, out, (size_t)n * sizeof(int)),
			       "one to oneself that was awaited", i);
		}
		/* and as two calls */
		memset(in, 0xff, (size_t)n * sizeof(int));
		MPI_Irecv(in, n, MPI_INT, rank, 31, on, &r[0]);
		MPI_Send(out, n, MPI_INT, rank, 31, on);
		calls++;
		MPI_Wait(&r[0], wants ? &s : MPI_STATUS_IGNORE);
		if (wants)
			check_status(&s, rank, 31, n, i);
		expect(!memcmp(in, out, (size_t)n * sizeof(int)), "one to oneself by two calls", i);
	}
	for (int i = 0; i < 2; i++)
		MPI_Comm_free(&comm[i]);
}

int main(int argc, char **argv)
{
	bool many = argc > 1 && !strcmp(argv[1], "-m"), freed = argc > 1 && !strcmp(argv[1], "-f");
	int provided, ranks;
	MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks < 3) {
		printf("again: needs three ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	alarm(100);
	if (freed)
		others_freed();
	for (int i = 0; i < 2 && !freed; i++) {
		lengths();
		longer();
		order();
		posted_before();
		truncated();
		communicators();
		types();
		exchanges();
		any_tags();
		to_nobody();
		oneself();
		requests();
		floods();
	}
	if (tool_calls)
		expect(tool_calls() == calls, "calls that the tool has not seen", calls - tool_calls());
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !faults)
		printf("again: every byte right, every status, and in order\n");
	MPI_Finalize();
	return faults != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Irecv and MPI_Isend that are made again and again with the same arguments, which libsennit-mpi.so may answer
 * with requests of its own (shim/requests.h): whatever function ends them, beside requests of the MPI, and whatever
 * happens before they have come, every byte, every status and the order are as the MPI would have them.
 *
 *     requests [-m]     -m: with MPI_THREAD_MULTIPLE, of which one thread calls
 *     requests -o HOW   a program that never waits, but ends its requests in this one of the ways of end_all()
 */
#include "abi5.h"
#include "large.h"
#include "own_request.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 300
#define ROOM   4    /* ints */
#define WIDE   3000 /* requests at once: more than there are of the library's own */
#define LONG   50000
#define FEW    8

/* The tool's, where the program is linked with one (tool_any.c). */
extern long tool_calls(void) __attribute__((weak));

static int rank, peer, faults;
static bool many;
static MPI_Comm aside;

static void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf("requests: rank %d: %s, round %ld\n", rank, what, i);
}

static void check(const int *v, int n, int i, const char *what)
{
	bool right = true;
	for (int k = 0; k < n; k++)
		right &= v[k] == i * 10 + k;
	expect(right, what, i);
}

static void fill(int *v, int n, int i)
{
	for (int k = 0; k < n; k++)
		v[k] = i * 10 + k;
}

static void check_status(MPI_Status *s, int source, int tag, int n, int i)
{
	int count = -1, cancelled = 1;
	MPI_Get_count(s, MPI_INT, &count);
	MPI_Test_cancelled(s, &cancelled);
	expect(s->MPI_SOURCE == source && s->MPI_TAG == tag && count == n && !cancelled, "status", i);
}

static void send(int n, int i, int tag)
{
	int v[ROOM];
	fill(v, n, i);
	MPI_Send(v, n, MPI_INT, peer, tag, MPI_COMM_WORLD);
}

static void together(void)
{
	MPI_Sendrecv(NULL, 0, MPI_INT, peer, 99, NULL, 0, MPI_INT, peer, 99, aside, MPI_STATUS_IGNORE);
}

/* Windows of all widths, both ways at once. */
static void windows(void)
{
	static int in[WIDE][ROOM], out[WIDE][ROOM];
	static MPI_Request r[2 * WIDE];
	static MPI_Status s[2 * WIDE];
	for (int i = 0; i < 60; i++) {
		int n = i % 20 == 19 ? WIDE : 1 + i * 7 % 100;
		for (int k = 0; k < n; k++)
			MPI_Irecv(in[k], ROOM, MPI_INT, peer, 1, MPI_COMM_WORLD, &r[k]);
		if (i % 10 == 9)
			usleep(rank ? 3000 : 0);
		for (int k = 0; k < n; k++) {
			fill(out[k], ROOM, i + k);
			MPI_Isend(out[k], k % (ROOM + 1), MPI_INT, peer, 1, MPI_COMM_WORLD, &r[n + k]);
		}
		MPI_Waitall(2 * n, r, i % 3 ? s : MPI_STATUSES_IGNORE);
		for (int k = 0; k < n; k++) {
			check(in[k], k % (ROOM + 1), i + k, "a message of a window");
			if (i % 3)
				check_status(&s[k], peer, 1, k % (ROOM + 1), i);
			expect(r[k] == MPI_REQUEST_NULL && r[n + k] == MPI_REQUEST_NULL, "what is left", i);
		}
	}
}

/* Each is found complete once, whatever function is asked. */
static void end_all(MPI_Request *r, MPI_Status *s, int n, int how, int i)
{
	MPI_Status some[2 * FEW];
	int count = 0, index, flag = 0, which[2 * FEW] = {0};
	for (int k = 0; how == 0 && k < n; k++)
		MPI_Wait(&r[k], &s[k]);
	while (how == 1 && !flag)
		MPI_Testall(n, r, &flag, s);
	for (; how == 2 && count < n; count++) {
		MPI_Waitany(n, r, &index, &some[0]);
		expect(index >= 0 && index < n, "MPI_Waitany", i);
		s[index] = some[0];
	}
	while (how == 3 && count < n) {
		MPI_Testany(n, r, &index, &flag, &some[0]);
		expect(!flag || (index >= 0 && index < n), "MPI_Testany", i);
		if (flag)
			s[index] = some[0];
		count += flag;
	}
	while ((how == 4 || how == 5) && count < n) {
		(how == 4 ? MPI_Waitsome : MPI_Testsome)(n, r, &flag, which, some);
		expect(how == 5 ? flag >= 0 : flag > 0, "MPI_Waitsome", i);
		for (int k = 0; k < flag; k++)
			s[which[k]] = some[k];
		count += flag;
	}
	for (int k = 0; how == 6 && k < n; k++)
		for (flag = 0; !flag;)
			MPI_Test(&r[k], &flag, &s[k]);
	for (int k = 0; how == 7 && k < n; k++) {
		for (flag = 0; !flag;)
			MPI_Request_get_status(r[k], &flag, &s[k]);
		MPI_Wait(&r[k], MPI_STATUS_IGNORE);
	}
	if (how == 8)
		MPI_Waitall(n, r, s);
	for (int k = 0; k < n; k++)
		expect(r[k] == MPI_REQUEST_NULL, "a request that has ended", i);
	if (how == 2) {
		MPI_Waitany(n, r, &index, MPI_STATUS_IGNORE);
		expect(index == MPI_UNDEFINED, "MPI_Waitany of nothing", i);
	}
}

/* Ends of which the seventh asks what ours cannot answer: after it none are given. */
static int ending(int i, bool all)
{
	return all || i % 8 < 7 ? i % (all ? 9 : 8) : 8;
}

/* Some of them are the MPI's: from anybody, long, or to be sent. */
static void endings(bool all)
{
	static int in[FEW][LONG], out[LONG];
	MPI_Request r[2 * FEW];
	MPI_Status s[2 * FEW];
	int own = 0;
	for (int i = 0; i < 9 * 40; i++) {
		bool mixed = i / 9 % 2, late = i / 9 % 5 == 4;
		for (int k = 0; k < FEW; k++) {
			MPI_Irecv(in[k], mixed && k == 3 ? LONG : ROOM, MPI_INT,
				  mixed && k == 5 ? MPI_ANY_SOURCE : peer, 10 + k, MPI_COMM_WORLD, &r[k]);
			own += is_own(r[k]);
		}
		fill(out, LONG, i);
		if (late)
			usleep(rank ? 500 : 0);
		for (int k = 0; k < FEW; k++)
			MPI_Isend(out, mixed && k == 3 ? LONG : k % (ROOM + 1), MPI_INT, peer, 10 + k,
				  MPI_COMM_WORLD, &r[FEW + k]);
		end_all(r, s, 2 * FEW, ending(i, all), i);
		for (int k = 0; k < FEW; k++) {
			int n = mixed && k == 3 ? LONG : k % (ROOM + 1);
			check(in[k], n, i, "a message among others");
			check_status(&s[k], peer, 10 + k, n, i);
		}
	}
	expect(all || tool_calls || own > FEW * 9, "hardly any receive is the library's", own);
}

/* What was ended by MPI_Testall together with a message that was too long for its receive has ended, too. */
static void beside_an_error(void)
{
	static int out[ROOM + 1];
	int own = 0;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < 100; i++) {
		int in[2][ROOM], flag = 0, rc = 0, class[2] = {0};
		MPI_Request r[2];
		MPI_Status s[2];
		fill(out, ROOM + 1, i);
		MPI_Send(out, ROOM, MPI_INT, peer, 70, MPI_COMM_WORLD);
		MPI_Send(out, ROOM + 1, MPI_INT, peer, 71, MPI_COMM_WORLD);
		together();
		MPI_Irecv(in[0], ROOM, MPI_INT, peer, 70, MPI_COMM_WORLD, &r[0]);
		MPI_Irecv(in[1], ROOM, MPI_INT, peer, 71, MPI_COMM_WORLD, &r[1]);
		own += is_own(r[0]);
		while (!flag && !rc)
			rc = MPI_Testall(2, r, &flag, s);
		MPI_Error_class(rc, &class[0]);
		MPI_Error_class(s[1].MPI_ERROR, &class[1]);
		expect(flag && class[0] == MPI_ERR_IN_STATUS && class[1] == MPI_ERR_TRUNCATE, "an error", i);
		expect(s[0].MPI_ERROR == MPI_SUCCESS && r[0] == MPI_REQUEST_NULL, "a receive beside it", i);
		check(in[0], ROOM, i, "a message beside it");
		check_status(&s[0], peer, 70, ROOM, i);
		if (r[0] != MPI_REQUEST_NULL)
			MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	expect(tool_calls || own > 0, "none of those is the library's", own);
}

/* A program that never waits, but asks again and again. */
static void only_tests(int how)
{
	int in[FEW][LONG / 100], out[LONG / 100], own = 0;
	MPI_Request r[2 * FEW];
	MPI_Status s[2 * FEW];
	for (int i = 0; i < 2000; i++) {
		for (int k = 0; k < FEW; k++) {
			MPI_Irecv(in[k], ROOM, MPI_INT, peer, 80 + k, MPI_COMM_WORLD, &r[k]);
			own += is_own(r[k]);
		}
		fill(out, ROOM, i);
		if (i % 10 == 9)
			usleep(rank ? 200 : 0);
		for (int k = 0; k < FEW; k++)
			MPI_Isend(out, ROOM, MPI_INT, peer, 80 + k, MPI_COMM_WORLD, &r[FEW + k]);
		end_all(r, s, 2 * FEW, how, i);
		for (int k = 0; k < FEW; k++) {
			check(in[k], ROOM, i, "a message that was asked for");
			check_status(&s[k], peer, 80 + k, ROOM, i);
		}
	}
	expect(own > 0, "no receive of who only asks is the library's", own);
}

/* Receives of one tag, some of which are the MPI's, and messages that are sent in other ways. */
static void order(void)
{
	MPI_Request r[FEW];
	MPI_Status s;
	int v[FEW][ROOM], w[ROOM];
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; rank && k < FEW; k++)
			MPI_Irecv(v[k], ROOM, MPI_INT, i % 3 == 2 && k % 3 == 1 ? MPI_ANY_SOURCE : 0,
				  i % 5 == 4 && k % 4 == 2 ? MPI_ANY_TAG : 3, MPI_COMM_WORLD, &r[k]);
		if (i % 2)
			together();
		for (int k = 0; !rank && k < FEW; k++) {
			fill(w, ROOM, 10 * i + k);
			if (i % 7 == 6 && k % 2)
				MPI_Ssend(w, ROOM, MPI_INT, 1, 3, MPI_COMM_WORLD);
			else
				MPI_Send(w, ROOM, MPI_INT, 1, 3, MPI_COMM_WORLD);
		}
		for (int k = 0; rank && k < FEW; k++) {
			int j = i % 4 == 3 ? FEW - 1 - k : k; /* backwards */
			MPI_Wait(&r[j], &s);
			check(v[j], ROOM, 10 * i + j, "a message out of its turn");
			check_status(&s, 0, 3, ROOM, i);
		}
		if (i % 50 == 49)
			together();
	}
}

/* Rank 1 then finds the other's message there, and waits for nothing: what it has posted stays the library's. */
/* Any tag: that of the last ones, or another. */
static void any_tags(void)
{
	int in[8][ROOM], out[8][ROOM];
	MPI_Request r[16];
	MPI_Status s[16];
	for (int i = 0; i < 200; i++) {
		for (int k = 0; k < 8; k++) {
			if (k % 4 == 3)
				MPI_Irecv_c(in[k], ROOM, MPI_INT, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &r[k]);
			else
				MPI_Irecv(in[k], ROOM, MPI_INT, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &r[k]);
		}
		for (int k = 0; k < 8; k++) {
			fill(out[k], ROOM, i + k);
			int tag = i % 40 < 30 ? 70 + i / 40 : 70 + k;
			if (k % 4 == 3)
				MPI_Isend_c(out[k], ROOM, MPI_INT, peer, tag, MPI_COMM_WORLD, &r[8 + k]);
			else
				MPI_Isend(out[k], ROOM, MPI_INT, peer, tag, MPI_COMM_WORLD, &r[8 + k]);
		}
		if (i % 2)
			MPI_Waitall(16, r, s);
		for (int k = 0; i % 2 == 0 && k < 16; k++)
			MPI_Wait(&r[k], &s[k]);
		for (int k = 0; k < 8; k++) {
			check(in[k], ROOM, i + k, "a message of any tag");
			check_status(&s[k], peer, i % 40 < 30 ? 70 + i / 40 : 70 + k, ROOM, i);
		}
	}
	together();
}

static void together_surely(bool surely)
{
	if (rank && surely)
		usleep(300);
	together();
}

/* A sender waits for what the MPI answers when his message has met its receive, while something else is waited for there. */
static void synchronous(void)
{
	MPI_Request r[2];
	int v[2][ROOM], w[ROOM];
	for (int i = 0; i < ROUNDS; i++) {
		bool backwards = i % 3 == 2, sync = i % 6 == 5;
		for (int k = 0; rank && k < 2; k++)
			MPI_Irecv(v[k], ROOM, MPI_INT, 0, 30 + k, MPI_COMM_WORLD, &r[k]);
		together_surely(sync);
		fill(w, ROOM, i);
		if (!rank && sync)
			usleep(3000);
		if (!rank)
			(sync ? MPI_Ssend : MPI_Send)(w, ROOM, MPI_INT, 1, 30, MPI_COMM_WORLD);
		if (i % 60 == 59)
			MPI_Barrier(aside);
		if (!rank)
			send(ROOM, i, 31);
		for (int k = 0; rank && k < 2; k++) {
			int j = backwards ? 1 - k : k;
			MPI_Wait(&r[j], MPI_STATUS_IGNORE);
			check(v[j], ROOM, i, "a message beside a synchronous one");
		}
	}
}

/* Likewise, and what is waited for is a collective that was made before. */
static void collectives(void)
{
	MPI_Request r;
	int v[ROOM], w[ROOM], sum = 0;
	for (int i = 0; i < 3 * ROUNDS; i++) {
		bool before = i % 3 == 2, sync = i % 6 == 5;
		if (rank)
			MPI_Irecv(v, ROOM, MPI_INT, 0, 32, MPI_COMM_WORLD, &r);
		together_surely(sync);
		fill(w, ROOM, i);
		if (!rank && before)
			(sync ? MPI_Ssend : MPI_Send)(w, ROOM, MPI_INT, 1, 32, MPI_COMM_WORLD);
		if (i < ROUNDS)
			MPI_Barrier(aside);
		else if (i < 2 * ROUNDS)
			MPI_Bcast(w, ROOM, MPI_INT, 0, aside);
		else
			MPI_Allreduce(w, &sum, 1, MPI_INT, MPI_SUM, aside);
		expect(i < 2 * ROUNDS || sum == 20 * i, "a sum beside a synchronous message", i);
		if (!rank && !before)
			MPI_Send(w, ROOM, MPI_INT, 1, 32, MPI_COMM_WORLD);
		if (rank)
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (rank)
			check(v, ROOM, i, "a message beside a collective");
	}
}

/*
 * Synchronous messages that are there when their receive is posted, from the first one on: the MPI has still to
 * answer them. What follows is received in each of the ways in which calls are taken over.
 */
static void sparse(int tag)
{
	int v[ROOM], w[ROOM], flag;
	MPI_Request r;
	for (int i = 0; i < 40; i++) {
		fill(w, ROOM, i);
		if (!rank && i % 2)
			MPI_Ssend(w, ROOM, MPI_INT, 1, tag, MPI_COMM_WORLD);
		else if (!rank)
			MPI_Issend(w, ROOM, MPI_INT, 1, tag, MPI_COMM_WORLD, &r);
		if (!rank && !(i % 2))
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (!rank)
			continue;
		if (i < 4)
			MPI_Probe(0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (flag = i < 4; !flag;)
			MPI_Iprobe(0, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		if (i % 4 == 3) {
			MPI_Recv(v, ROOM, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Irecv(v, ROOM, MPI_INT, 0, tag, MPI_COMM_WORLD, &r);
			if (i % 3 == 2) /* which answers it, already */
				MPI_Iprobe(0, 97, aside, &flag, MPI_STATUS_IGNORE);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		}
		check(v, ROOM, i, "a synchronous message that was there");
	}
}

/* One that was posted early becomes the MPI's while later ones wait: it keeps its place. */
static void places(void)
{
	MPI_Request r[3];
	int v[3][ROOM], flag;
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; rank && k < 3; k++) {
			MPI_Irecv(v[k], ROOM, MPI_INT, 0, 4, MPI_COMM_WORLD, &r[k]);
			if (k == i % 3)
				MPI_Iprobe(0, 97, aside, &flag, MPI_STATUS_IGNORE);
		}
		together();
		for (int k = 0; !rank && k < 3; k++)
			send(ROOM, 10 * i + k, 4);
		if (rank)
			MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
		for (int k = 0; rank && k < 3; k++)
			check(v[k], ROOM, 10 * i + k, "a message in another's place");
	}
}

/*
 * Some messages are longer than their receives. Of several threads, Open MPI 4 can hang in MPI_Waitall then, where
 * each call is its own.
 */
static void truncated(void)
{
	MPI_Request r[2];
	MPI_Status s[2];
	int v[2][ROOM], class, out[2 * ROOM] = {0};
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < ROUNDS; i++) {
		bool longer = i % 50 == 49;
		if (rank == 0) {
			together();
			MPI_Send(out, longer ? 2 * ROOM : ROOM, MPI_INT, 1, 5, MPI_COMM_WORLD);
			send(ROOM, i, 6);
			continue;
		}
		int a = !many && i % 4 > 1, b = !a; /* places of the long one and of the other */
		MPI_Irecv(v[0], ROOM, MPI_INT, 0, 5, MPI_COMM_WORLD, &r[a]);
		MPI_Irecv(v[1], ROOM, MPI_INT, 0, 6, MPI_COMM_WORLD, &r[b]);
		s[0].MPI_ERROR = s[1].MPI_ERROR = MPI_ERR_OTHER;
		together();
		if (many || i % 100 < 50) {
			MPI_Error_class(MPI_Wait(&r[a], MPI_STATUS_IGNORE), &class);
			expect(class == (longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "too long for MPI_Wait",
			       i);
			MPI_Wait(&r[b], MPI_STATUS_IGNORE);
		} else {
			MPI_Error_class(MPI_Waitall(2, r, s), &class);
			expect(class == (longer ? MPI_ERR_IN_STATUS : MPI_SUCCESS),
			       "too long for MPI_Waitall", i);
			MPI_Error_class(s[a].MPI_ERROR, &class);
			expect(class == (longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
			       "status of what is too long", i);
			if (longer && s[b].MPI_ERROR == MPI_ERR_PENDING)
				MPI_Wait(&r[b], MPI_STATUS_IGNORE);
			else
				expect(s[b].MPI_ERROR == MPI_SUCCESS, "status beside it", i);
		}
		check(v[1], ROOM, i, "a message beside one that is too long");
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Cancelled, one leaves its message to the next; freed, it still takes one. */
static void given_up(void)
{
	MPI_Request r[2];
	MPI_Status s;
	int v[2][ROOM], cancelled;
	for (int i = 0; i < ROUNDS; i++) {
		memset(v, 0, sizeof(v));
		for (int k = 0; rank && k < 2; k++)
			MPI_Irecv(v[k], ROOM, MPI_INT, 0, 7, MPI_COMM_WORLD, &r[k]);
		if (rank && i % 2) {
			MPI_Cancel(&r[0]);
			MPI_Wait(&r[0], &s);
			MPI_Test_cancelled(&s, &cancelled);
			expect(cancelled, "MPI_Cancel", i);
		} else if (rank) {
			MPI_Request_free(&r[0]);
			expect(r[0] == MPI_REQUEST_NULL, "MPI_Request_free", i);
		}
		together();
		for (int k = i % 2; !rank && k < 2; k++)
			send(ROOM, i + k, 7);
		if (rank)
			MPI_Wait(&r[1], MPI_STATUS_IGNORE);
		if (rank && !(i % 2))
			check(v[0], ROOM, i, "a receive that was freed");
		if (rank)
			check(v[1], ROOM, i + 1, "the receive after one that was given up");
	}
}

/* A setting of a communicator ends what was seen of all calls: what comes next is learned anew, whatever was late before. */
static void forgotten(void)
{
	MPI_Info info;
	MPI_Info_create(&info);
	MPI_Comm_set_info(aside, info);
	MPI_Info_free(&info);
}

/* A communicator may be freed while receives are under way in it. */
static void communicators(void)
{
	for (int i = 0; i < 20; i++) {
		MPI_Comm comm;
		MPI_Request r[FEW];
		int v[FEW][ROOM], w[ROOM];
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int j = 0; j < 10; j++) {
			for (int k = 0; k < FEW; k++)
				MPI_Irecv(v[k], ROOM, MPI_INT, peer, 8, comm, &r[k]);
			together();
			for (int k = 0; j < 9 && k < FEW; k++) {
				fill(w, ROOM, i + j + k);
				MPI_Send(w, ROOM, MPI_INT, peer, 8, comm);
			}
			for (int k = 0; j < 9 && k < FEW; k++) {
				MPI_Wait(&r[k], MPI_STATUS_IGNORE);
				check(v[k], ROOM, i + j + k, "a message in a communicator");
			}
		}
		for (int k = 0; k < FEW; k++) {
			fill(w, ROOM, i + k);
			MPI_Send(w, ROOM, MPI_INT, peer, 8, comm);
		}
		MPI_Comm_free(&comm);
		MPI_Waitall(FEW, r, MPI_STATUSES_IGNORE);
		for (int k = 0; k < FEW; k++)
			check(v[k], ROOM, i + k, "a message in a communicator that was freed");
	}
}

/* As a number for another language, and back. */
static void numbers(void)
{
	MPI_Request r, s;
	MPI_Status status;
	int v[ROOM], w[ROOM];
	for (int i = 0; i < 40; i++) {
		for (int j = 0; j < 20; j++) {
			fill(w, ROOM, i + j);
			MPI_Irecv(v, ROOM, MPI_INT, peer, 9, MPI_COMM_WORLD, &r);
			MPI_Isend(w, ROOM, MPI_INT, peer, 9, MPI_COMM_WORLD, &s);
			if (j == 19) {
				r = MPI_Request_f2c(MPI_Request_c2f(r));
				s = MPI_Request_f2c(MPI_Request_c2f(s));
			}
			MPI_Wait(&r, &status);
			check(v, ROOM, i + j, "a message for a number");
			check_status(&status, peer, 9, ROOM, i);
			MPI_Wait(&s, MPI_STATUS_IGNORE);
		}
	}
}

/* Likewise a type: what comes later goes where it said. */
static void freed_types(void)
{
	MPI_Datatype type = MPI_DATATYPE_NULL;
	MPI_Request r;
	int v[ROOM], w[ROOM];
	for (int i = 0; i < 60; i++) {
		if (i % 10 == 0 && !MPI_Type_contiguous(ROOM, MPI_INT, &type))
			MPI_Type_commit(&type);
		MPI_Irecv(v, 1, type, peer, 18, MPI_COMM_WORLD, &r);
		if (i % 10 == 9 && !MPI_Type_free(&type) && rank)
			usleep(20000);
		fill(w, ROOM, i);
		MPI_Send(w, ROOM, MPI_INT, peer, 18, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		check(v, ROOM, i, "a message of a type that was freed");
	}
}

int main(int argc, char **argv)
{
	many = argc > 1 && !strcmp(argv[1], "-m");
	int provided;
	MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	peer = !rank;
	MPI_Comm_dup(MPI_COMM_WORLD, &aside);
	alarm(100);
	bool tests = argc > 2 && !strcmp(argv[1], "-o");
	if (tests)
		only_tests(atoi(argv[2]));
	else
		sparse(41);
	for (int i = tests ? 4 : 0; i < 4; i++) {
		windows();
		sparse(42 + i);
		order();
		any_tags();
		synchronous();
		collectives();
		places();
		truncated();
		communicators();
		freed_types();
		forgotten();
		endings(i >= 2); /* from then on, no more are the library's */
		if (i < 2) {
			beside_an_error();
			continue;
		}
		given_up();
	}
	expect(!tool_calls || tool_calls() > 1000, "a call that the tool has not seen", 0);
	if (!tests)
		numbers();
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !faults)
		printf("requests: every byte right, every status, and in order\n");
	MPI_Finalize();
	return faults != 0;
}

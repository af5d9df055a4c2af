/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that has only waited so far, and so has requests of libsennit-mpi.so's own (shim/requests.h), asks
 * another question of them, for the first time: of receives that have come, that have not, and whose sender waits for
 * an answer, beside messages that have left, and of the first or the second copy of a request. All is as the MPI
 * would have it, and but for those that the library answers itself, from then on all requests are the MPI's.
 *
 *     asked HOW [-c]    HOW: which function, by its place below; -c: MPI_Request_c2f is called before it
 */
#include "abi5.h"
#include "own_request.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM  4 /* ints */
#define IN    4
#define ALL   (IN + 2)
#define TRIES 3000
#define AFTER 100 /* rounds */

static int rank, faults;

static void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf("asked: rank %d: %s, %ld\n", rank, what, i);
	fflush(stdout);
}

/* ---- the questions; each ends some of the requests, and leaves the rest to MPI_Wait ---- */

/* Found by name, since not every MPI has all of them; the one with the P where the place is odd. */
static union {
	void *symbol;
	int (*test)(MPI_Request *, int *, MPI_Status *);
	int (*testall)(int, MPI_Request *, int *, MPI_Status *);
	int (*waitany)(int, MPI_Request *, int *, MPI_Status *);
	int (*testany)(int, MPI_Request *, int *, int *, MPI_Status *);
	int (*some)(int, MPI_Request *, int *, int *, MPI_Status *);
	int (*get)(MPI_Request, int *, MPI_Status *);
	int (*one)(MPI_Request *);
	int (*number)(MPI_Request);
} f;

static MPI_Status seen[ALL];
static int cancelled[ALL]; /* before it had come */
static bool freed[ALL];

static void with_test(MPI_Request *r)
{
	for (int k = 0, flag; k < ALL; k++)
		for (flag = 0; !flag;)
			f.test(&r[k], &flag, &seen[k]);
}

static void with_all(MPI_Request *r)
{
	for (int flag = 0; !flag;)
		f.testall(ALL, r, &flag, seen);
}

/* Only two, so that the others go by their second copies. */
static void with_waitany(MPI_Request *r)
{
	MPI_Status s;
	for (int k = 0, index; k < 2; k++) {
		f.waitany(ALL, r, &index, &s);
		expect(index >= 0 && index < ALL, "an index", index);
		seen[index] = s;
	}
}

static void with_testany(MPI_Request *r)
{
	MPI_Status s;
	for (int k = 0, index, flag; k < 2; k += flag) {
		f.testany(ALL, r, &index, &flag, &s);
		if (flag)
			seen[index] = s;
	}
}

static void with_some(MPI_Request *r)
{
	MPI_Status s[ALL];
	int which[ALL], n;
	f.some(ALL, r, &n, which, s);
	for (int k = 0; k < n; k++)
		seen[which[k]] = s[k];
}

static void with_get(MPI_Request *r)
{
	for (int k = 0, flag; k < ALL; k++)
		for (flag = 0; !flag;)
			f.get(r[k], &flag, &seen[k]);
}

static void with_get_all(MPI_Request *r)
{
	with_all(r);
}

static void with_get_any(MPI_Request *r)
{
	int index = -1, flag = 0;
	while (!flag)
		f.testany(ALL, r, &index, &flag, &seen[0]);
	expect(index >= 0 && index < ALL, "an index", index);
}

static void with_get_some(MPI_Request *r)
{
	MPI_Status s[ALL];
	int which[ALL], n;
	f.some(ALL, r, &n, which, s);
	expect(n >= 0 && n <= ALL, "a number of requests", n);
}

/* The third, whose message is late. */
static void with_cancel(MPI_Request *r)
{
	f.one(&r[2]);
	cancelled[2] = 1;
}

static void with_free(MPI_Request *r)
{
	for (int k = 0; k < ALL; k += 2) {
		f.one(&r[k]);
		expect(r[k] == MPI_REQUEST_NULL, "a request that was freed", k);
		freed[k] = true;
	}
}

static void with_number(MPI_Request *r)
{
	for (int k = 0; k < ALL; k++)
		r[k] = MPI_Request_f2c(f.number(r[k]));
}

static void with_complete(MPI_Request *r)
{
	for (int k = 0; k < ALL; k++)
		while (!f.number(r[k])) /* which moves nothing, itself */
			MPI_Iprobe(0, 300, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
}

static const struct {
	const char *name;
	void (*ask)(MPI_Request *r);
	bool leaves; /* the requests */
	bool answered;
} questions[] = {
	{"MPI_Test", with_test, false, true},
	{"MPI_Testall", with_all, false, true},
	{"MPI_Testany", with_testany, false, true},
	{"MPI_Testsome", with_some, false, true},
	{"MPI_Waitany", with_waitany, false, true},
	{"MPI_Waitsome", with_some, false, true},
	{"MPI_Request_get_status", with_get, true, false},
	{"MPI_Cancel", with_cancel, true, false},
	{"MPI_Request_free", with_free, false, false},
	{"MPI_Request_c2f", with_number, true, false},
	{"MPI_Request_toint", with_number, true, false},
	{"MPIX_Request_is_complete", with_complete, true, false},
	{"MPI_Request_get_status_all", with_get_all, true, false},
	{"MPI_Request_get_status_any", with_get_any, true, false},
	{"MPI_Request_get_status_some", with_get_some, true, false},
};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* ---- */

/* In one place, and one communicator, so that calls with different tags are kept in different entries (shim/quick.c). */
static struct {
	int in[IN][ROOM], out[2][ROOM], word[ROOM];
} b __attribute__((aligned(4096)));

/*
 * IN receives of rank 1, of which nothing has come, and two messages that leave. True: the former are all the
 * library's own.
 */
static bool post(MPI_Request *r, int i)
{
	int own = 0;
	memset(b.in, 0, sizeof(b.in));
	for (int k = 0; k < IN; k++) {
		MPI_Irecv(b.in[k], ROOM, MPI_INT, 0, 200 + k, MPI_COMM_WORLD, &r[k]);
		own += is_own(r[k]);
	}
	for (int k = 0; k < 2; k++) {
		b.out[k][0] = 10 * i + k;
		MPI_Isend(b.out[k], ROOM, MPI_INT, 0, 200 + k, MPI_COMM_WORLD, &r[IN + k]);
	}
	b.word[0] = own == IN;
	MPI_Send(b.word, ROOM, MPI_INT, 0, 204, MPI_COMM_WORLD);
	return own == IN;
}

/* Rank 0: the other's word, and its messages. */
static bool hear(int i)
{
	MPI_Recv(b.word, ROOM, MPI_INT, 1, 204, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int k = 0; k < 2; k++) {
		MPI_Recv(b.out[k], ROOM, MPI_INT, 1, 200 + k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		expect(b.out[k][0] == 10 * i + k, "a message that left", k);
	}
	return b.word[0];
}

/* Where others are asked, the second half is late, and the sender of the last one waits for an answer. */
static void send_all(int i, bool asked)
{
	for (int k = 0; k < IN; k++) {
		b.out[0][0] = 10 * i + k;
		if (asked && k == IN / 2)
			usleep(2000);
		(asked && k == IN - 1 ? MPI_Ssend : MPI_Send)(b.out[0], ROOM, MPI_INT, 1, 200 + k,
							      MPI_COMM_WORLD);
	}
}

static void check(int i)
{
	for (int k = 0; k < IN; k++) {
		int n = -1;
		expect(b.in[k][0] == 10 * i + k || cancelled[k], "a message", k);
		if (cancelled[k] || freed[k])
			continue;
		MPI_Get_count(&seen[k], MPI_INT, &n);
		expect(seen[k].MPI_SOURCE == 0 && seen[k].MPI_TAG == 200 + k && n == ROOM, "a status", k);
	}
}

/* All that has not ended by the question, by copies that were made before. */
static void end(MPI_Request *left, MPI_Request *copies, bool leaves)
{
	for (int k = 0; k < ALL; k++)
		if (leaves || left[k] != MPI_REQUEST_NULL)
			MPI_Wait(&copies[k], &seen[k]);
	for (int k = 0; k < IN; k++)
		if (cancelled[k])
			MPI_Test_cancelled(&seen[k], &cancelled[k]);
}

/* A freed or cancelled receive has its message, or has left it to this one, when a later one of its kind has come. */
static void flush(void)
{
	int v[ROOM];
	for (int k = 0; k < IN; k++)
		if (rank == 0)
			MPI_Send(b.out[0], ROOM, MPI_INT, 1, 200 + k, MPI_COMM_WORLD);
		else
			MPI_Recv(v, ROOM, MPI_INT, 0, 200 + k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int k = 0; rank && k < IN; k++)
		if (cancelled[k])
			MPI_Recv(v, ROOM, MPI_INT, 0, 200 + k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ask(size_t how, bool c2f, MPI_Request *r, int i)
{
	MPI_Request copies[ALL];
	bool numbers = questions[how].ask == with_number;
	memcpy(copies, r, sizeof(copies));
	usleep(500); /* the first half has come */
	if (c2f)
		expect(MPI_Request_f2c(MPI_Request_c2f(r[2])) != MPI_REQUEST_NULL, "a number", i);
	questions[how].ask(r);
	end(r, numbers ? r : copies, questions[how].leaves);
	flush();
	check(i);
}

int main(int argc, char **argv)
{
	MPI_Request r[ALL];
	size_t how = argc > 1 ? (size_t)atoi(argv[1]) : 0;
	bool c2f = argc > 2 && !strcmp(argv[2], "-c"), all = false;
	char name[64];
	int i = 0;
	/* MPICH has a macro for MPI_Request_c2f */
	bool off = !questions[how / 2 % QUESTIONS].answered || (c2f && sizeof(MPI_Request) > sizeof(int));
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	alarm(60);
	snprintf(name, sizeof(name), "%s%s", how % 2 ? "P" : "", questions[how / 2 % QUESTIONS].name);
	how = how / 2 % QUESTIONS;
	for (; i < TRIES && !(all = rank ? post(r, i) : hear(i)); i++) {
		if (rank == 0) {
			send_all(i, false);
			continue;
		}
		usleep(i < 300 ? 100
			       : 5000); /* so that they are not late, where a wake takes longer either */
		MPI_Waitall(ALL, r, seen);
		check(i);
	}
	expect(all, "requests of the library's own", i);
	f.symbol = dlsym(RTLD_DEFAULT, name);
	for (int last = i + AFTER; i < last; i++) {
		memset(cancelled, 0, sizeof(cancelled));
		memset(freed, 0, sizeof(freed));
		if (rank == 0) {
			send_all(i, true);
			flush();
			hear(i + 1);
			continue;
		}
		if (f.symbol) /* not every MPI has all of them */
			ask(how, c2f, r, i);
		else
			MPI_Waitall(ALL, r, seen);
		if (!f.symbol)
			flush();
		post(r, i + 1);
		for (int k = 0; f.symbol && off && k < IN; k++)
			expect(!is_own(r[k]), "a request of the library's own after others were asked", k);
	}
	if (rank == 0)
		send_all(i, false);
	else
		MPI_Waitall(ALL, r, seen);
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !faults)
		printf("asked: every byte right, after %s\n", name);
	MPI_Finalize();
	return faults != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lay in memory before is taken for nothing, as by Open MPI's own ways (shim/stale.h, mended.h). Two ranks of Open MPI; -m: of
 * a program with several threads.
 *
 *  - sends that are pending while another request of one call fails: they stay as they are;
 *  - so do those that are persistent and were never started;
 *  - sends that are to be cancelled, each kind: none is, and all come;
 *  - the status of a message that is looked for: it was not cancelled.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (1 << 18)

static char out[ROOM], in[ROOM];
static int rank;

static void fault(const char *what, int i, long at)
{
	printf("FAILED: rank %d: %s, %d, at %ld\n", rank, what, i, at);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* What memory the library gets now has been used before, and is not zero; what lies behind it keeps it from being given back. */
static void used_memory(int word)
{
	enum { MOST = 40 };
	static void *behind;
	int *at[MOST];
	for (int i = 0; i < MOST; i++) {
		size_t words = (size_t)750 << i / 5;
		at[i] = malloc(words * sizeof(int));
		for (size_t k = 0; at[i] && k < words; k++)
			at[i][k] = word;
	}
	free(behind);
	behind = malloc(1000);
	for (int i = 0; i < MOST; i++)
		free(at[i]);
}

/*
 * One of them fails while sends are pending: they stay as they are, and where they lie is read later. Other MPIs end
 * such calls when all have ended.
 */
static void beside_one_that_fails(int how, int word)
{
	enum { SENDS = 200, LEN = 20000 };
	static char from[SENDS][LEN], to[LEN];
	MPI_Request r[SENDS + 1];
	MPI_Status s[SENDS + 1];
	int index, count, indices[SENDS + 1];
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank) {
		used_memory(word);
		MPI_Irecv(to, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r[SENDS]);
		for (int i = 0; i < SENDS; i++) {
			memset(from[i], i, LEN);
			MPI_Issend(from[i], LEN, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &r[i]);
		}
		MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
		int failed = how == 0	? MPI_Waitall(SENDS + 1, r, s)
			     : how == 1 ? MPI_Waitany(SENDS + 1, r, &index, s)
					: MPI_Waitsome(SENDS + 1, r, &count, indices, s);
		if (!failed)
			fault("a receive that is too short does not fail", how, 0);
		for (int i = 0; i < SENDS; i++)
			if (r[i] == MPI_REQUEST_NULL)
				fault("a send that is pending is dropped", how, i);
		MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
		MPI_Waitall(SENDS, r, MPI_STATUSES_IGNORE);
	} else {
		MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(to, 2, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
		MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < SENDS; i++) {
			MPI_Recv(to, LEN, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			for (int k = 0; k < LEN; k++)
				if (to[k] != (char)i)
					fault("what was sent beside one that fails", i, k);
		}
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* What is persistent, and was never started, has not failed. They are freed at the end: the next ones are new as well. */
static MPI_Request unstarted[200 + 1];

static void beside_one_not_started(int word)
{
	enum { SENDS = 200 };
	int index, kind;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank) {
		MPI_Send(out, 2, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
		return;
	}
	used_memory(word);
	for (int i = 0; i < SENDS; i++)
		MPI_Send_init(out, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &unstarted[i]);
	MPI_Irecv(in, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &unstarted[SENDS]);
	MPI_Error_class(MPI_Waitany(SENDS + 1, unstarted, &index, MPI_STATUS_IGNORE), &kind);
	if (kind != MPI_ERR_TRUNCATE)
		fault("another error than that of who fails", kind, index);
}

static void cancelled(void)
{
	enum { KINDS = 4, LEN = ROOM };
	for (int i = 0; i < 2 * KINDS; i++) {
		int kind = i % KINDS, len = i < KINDS ? 8 : LEN, flag;
		MPI_Request r;
		MPI_Status s;
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank) {
			MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &s);
			MPI_Recv(in, len, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &s);
			if (memcmp(in, out, (size_t)len))
				fault("a send that is to be cancelled", i, 0);
			continue;
		}
		int (*begin[KINDS])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
				    MPI_Request *) = {MPI_Isend, MPI_Issend, MPI_Send_init, MPI_Irsend};
		begin[kind](out, len, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &r);
		if (kind == 2)
			MPI_Start(&r);
		MPI_Cancel(&r);
		MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
		MPI_Wait(&r, &s);
		MPI_Test_cancelled(&s, &flag);
		if (flag)
			fault("a send that is cancelled", i, 0);
		if (r != MPI_REQUEST_NULL)
			MPI_Request_free(&r);
	}
}

static void on_stack(int byte)
{
	volatile char used[8192];
	for (size_t i = 0; i < sizeof(used); i++)
		used[i] = (char)byte;
}

static void is_not_cancelled(MPI_Status *s, int which)
{
	int flag, count;
	MPI_Test_cancelled(s, &flag);
	MPI_Get_count(s, MPI_BYTE, &count);
	if (flag || count != 8 || s->MPI_SOURCE || s->MPI_TAG != which)
		fault("the status of a message that is looked for", which, flag);
}

static void looked_for(void)
{
	MPI_Message m;
	MPI_Status s;
	for (int i = 0, found = 0; i < 4; i++, found = 0) {
		if (!rank) {
			MPI_Send(out, 8, MPI_BYTE, 1, i, MPI_COMM_WORLD);
			continue;
		}
		memset(&s, 0x55, sizeof(s));
		while (!found) {
			on_stack(0x55);
			found = i == 0 || i == 2;
			if (i == 0)
				MPI_Probe(0, i, MPI_COMM_WORLD, &s);
			else if (i == 1)
				MPI_Iprobe(0, i, MPI_COMM_WORLD, &found, &s);
			else if (i == 2)
				MPI_Mprobe(0, i, MPI_COMM_WORLD, &m, &s);
			else
				MPI_Improbe(0, i, MPI_COMM_WORLD, &found, &m, &s);
		}
		is_not_cancelled(&s, i);
		if (i < 2)
			MPI_Recv(in, 8, MPI_BYTE, 0, i, MPI_COMM_WORLD, &s);
		else
			MPI_Mrecv(in, 8, MPI_BYTE, &m, &s);
		is_not_cancelled(&s, i);
	}
}

int main(int argc, char **argv)
{
	bool threads = argc > 1 && !strcmp(argv[1], "-m");
	int provided, word = threads ? MPI_ERR_OTHER : 0x55555555; /* an error, or none */
	MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < ROOM; i++)
		out[i] = (char)(i * 7 + i / 251 + 3);
	beside_one_not_started(word);
	for (int i = 0; i < 3; i++)
		beside_one_that_fails(i, word);
	cancelled();
	looked_for();
	for (int i = 0; !rank && i < 200; i++)
		MPI_Request_free(&unstarted[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("stale: every byte right, and nothing taken for what it is not\n");
	MPI_Finalize();
	return 0;
}

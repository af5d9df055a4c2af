/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that libsennit-mpi.so has answered with requests of its own (shim/requests.h) and that are pending while
 * their rank is in another call, or while another rank dies. Each case makes sure that there is such a request, and
 * is repeated until there were enough of them.
 *
 *     pending          all cases but the following
 *     pending -m       likewise where threads may call at once, and one does
 *     pending -f       beside a file that is written
 *     pending -d WORD HOW [-m]   rank 0 dies while rank 1 waits; the latter writes what it hears into the file WORD
 */
#include "own_request.h"
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENOUGH 3    /* pending requests of the library's own, of each case */
#define TRIES  3000 /* in which there must have been so many */
#define ROOM   16   /* ints */
#define WIDE   200  /* receives that are waited for at once */
#define SOON   20   /* rounds until another tag is tried: two kinds of calls may share one place */
#define KINDS  9    /* of waits */

static int rank, faults;
static MPI_Comm aside;
static char path[] = "./pending-XXXXXX";

static void expect(bool right, const char *what, long i)
{
	if (right || faults++ > 5)
		return;
	printf("pending: rank %d: %s, %ld\n", rank, what, i);
	fflush(stdout);
}

/* ---- when there are any ---- */

/*
 * Rank 1 is always late: every message is there when its receive is posted. Until one of these is the library's, in
 * at most so many rounds. reads: the MPI reads its queue before it is asked for them, and answers what it has to;
 * else the first few are taken by MPI_Recv, which teaches as well.
 */
static bool own_though_late(int tag, int rounds, bool reads)
{
	static int v[WIDE][ROOM];
	static MPI_Request r[WIDE];
	int own = 0, flag, w[ROOM];
	/* one that is like none that was learned before */
	MPI_Datatype type = reads ? MPI_UNSIGNED : MPI_INT;
	for (int i = 0; i < rounds && !own; i++) {
		tag += i % SOON == SOON - 1;
		for (int k = 0; k < ROOM; k++)
			w[k] = i + k;
		for (int k = 0; rank == 0 && k < WIDE; k++)
			MPI_Send(w, ROOM, type, 1, tag, MPI_COMM_WORLD);
		if (rank == 0) {
			MPI_Send(NULL, 0, MPI_INT, 1, 62, aside);
			MPI_Recv(&own, 1, MPI_INT, 1, 63, aside, MPI_STATUS_IGNORE);
			continue;
		}
		MPI_Recv(NULL, 0, MPI_INT, 0, 62, aside, MPI_STATUS_IGNORE);
		for (int k = 0; k < WIDE; k++) {
			r[k] = MPI_REQUEST_NULL;
			if (!reads && i % SOON < 4)
				MPI_Recv(v[k], ROOM, type, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			else
				MPI_Irecv(v[k], ROOM, type, 0, tag, MPI_COMM_WORLD, &r[k]);
			own |= is_own(r[k]);
			if (reads)
				MPI_Iprobe(0, 97, aside, &flag, MPI_STATUS_IGNORE);
		}
		MPI_Waitall(WIDE, r, MPI_STATUSES_IGNORE);
		for (int k = 0; k < WIDE * ROOM; k++)
			expect(v[k / ROOM][k % ROOM] == i + k % ROOM, "a message that was there", i);
		MPI_Send(&own, 1, MPI_INT, 0, 63, aside);
	}
	return own;
}

/*
 * Likewise, of two kinds by turns. As many of each are posted at once as go by until one is the MPI's, so that this
 * is always the very last one as soon as the second kind is known.
 */
static void both_own_though_late(void)
{
	enum { N = 64 };
	static int v[2 * N][ROOM];
	MPI_Request r[2 * N];
	int own = 0, w[ROOM] = {0};
	for (int i = 0; i < TRIES && own != 3; i++) {
		int tag = 4000 + i / (5 * SOON) * 2;
		own = 0;
		for (int k = 0; rank == 0 && k < 2 * N; k++)
			MPI_Send(w, ROOM, MPI_INT, 1, tag + k % 2, MPI_COMM_WORLD);
		if (rank == 0) {
			MPI_Send(NULL, 0, MPI_INT, 1, 62, aside);
			MPI_Recv(&own, 1, MPI_INT, 1, 63, aside, MPI_STATUS_IGNORE);
			continue;
		}
		MPI_Recv(NULL, 0, MPI_INT, 0, 62, aside, MPI_STATUS_IGNORE);
		for (int k = 0; k < 2 * N; k++) {
			MPI_Irecv(v[k], ROOM, MPI_INT, 0, tag + k % 2, MPI_COMM_WORLD, &r[k]);
			own |= is_own(r[k]) << k % 2;
		}
		MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE);
		MPI_Send(&own, 1, MPI_INT, 0, 63, aside);
	}
	expect(own == 3, "only receives of one kind are the library's", own);
}

/*
 * An MPI_Waitall that may be watched, of a receive whose message is sent when a file is written, which in MPICH only
 * MPI_Waitall goes on with.
 */
static void beside_file(void)
{
	MPI_Info info;
	MPI_File f;
	MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	static int v[ROOM], w[ROOM], words[ROOM * 64];
	MPI_Info_create(&info);
	MPI_Info_set(info, "romio_cb_write", "enable");
	MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f);
	for (int i = 0; i < 3; i++) {
		if (rank == 0)
			MPI_Irecv(v, ROOM, MPI_INT, 1, 53, MPI_COMM_WORLD, &r[0]);
		if (i)
			MPI_File_iwrite_at_all(f, rank * (int)sizeof(words), words, ROOM * 64, MPI_INT,
					       &r[1]);
		if (rank)
			MPI_Wait(&r[1], MPI_STATUS_IGNORE);
		w[0] = i + 7;
		if (rank)
			MPI_Send(w, ROOM, MPI_INT, 0, 53, MPI_COMM_WORLD);
		else
			MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		expect(rank || v[0] == i + 7, "a message beside a file", i);
	}
	MPI_File_close(&f);
	MPI_Info_free(&info);
}

static void late(void)
{
	expect(own_though_late(2000, TRIES, false), "no receive is the library's", 0);
	both_own_though_late();
	expect(!own_though_late(3000, 30, true), "learned from what the MPI had read", 0);
}

/* ---- one is pending, and its sender waits for what the MPI answers ---- */

static void in_barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static void in_file_open(void)
{
	MPI_File f;
	MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
	MPI_File_close(&f);
}

static MPI_File file;

static void in_file_write(void)
{
	int v[ROOM] = {0};
	MPI_File_write_at_all(file, rank * (int)sizeof(v), v, ROOM, MPI_INT, MPI_STATUS_IGNORE);
}

/* A call of the library's, and one of the MPI's that is in no table: both wait for the file. */
static void in_wait_for_file(void)
{
	int v[ROOM] = {0};
	MPI_Request r;
	MPI_File_iwrite_at_all(file, rank * (int)sizeof(v), v, ROOM, MPI_INT, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void in_dup(void)
{
	MPI_Comm comm;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_free(&comm);
}

static void in_window(void)
{
	MPI_Win w;
	int *base;
	MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &w);
	MPI_Win_free(&w);
}

static void in_probes(void)
{
	int v = 0, flag = 0;
	if (rank == 0)
		MPI_Send(&v, 1, MPI_INT, 1, 70, MPI_COMM_WORLD);
	while (rank && !flag)
		MPI_Iprobe(0, 70, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
	if (rank)
		MPI_Recv(&v, 1, MPI_INT, 0, 70, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* It may be one of the library's own, too. */
static void in_wait(void)
{
	int v = 0;
	MPI_Request r;
	if (rank == 0)
		MPI_Send(&v, 1, MPI_INT, 1, 71, MPI_COMM_WORLD);
	if (rank)
		MPI_Irecv(&v, 1, MPI_INT, 0, 71, MPI_COMM_WORLD, &r);
	if (rank)
		MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void in_recv(void)
{
	int v[1024] = {0};
	if (rank)
		MPI_Recv(v, 1024, MPI_INT, 0, 72, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(v, 1024, MPI_INT, 1, 72, MPI_COMM_WORLD);
}

static void in_long_send(void)
{
	static char v[4 << 20];
	if (rank)
		MPI_Send(v, sizeof(v), MPI_BYTE, 0, 73, MPI_COMM_WORLD);
	else
		MPI_Recv(v, sizeof(v), MPI_BYTE, 1, 73, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Found by address, past whatever stands before the name. */
static void in_hidden(void)
{
	static int (*barrier)(MPI_Comm);
	Dl_info info;
	if (!barrier && dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_version"), &info)) {
		void *lib = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD),
		     *found = dlsym(lib, "MPI_Barrier");
		memcpy(&barrier, &found, sizeof(found));
		dlclose(lib); /* one of two references */
	}
	barrier(MPI_COMM_WORLD);
}

/* Of MPI 4, and an extension: before them stands nothing. */
#if MPI_VERSION >= 4
static void in_large_count(void)
{
	int v[2] = {0, 1}, mine;
	MPI_Scatter_c(v, 1, MPI_INT, &mine, 1, MPI_INT, 0, MPI_COMM_WORLD);
}
#endif

/* Not MPICH's, which ends in an assertion. */
#ifdef OPEN_MPI
extern int MPIX_Comm_agree(MPI_Comm comm, int *flag) __attribute__((weak));

static void in_extension(void)
{
	int flag = 1;
	if (MPIX_Comm_agree)
		MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
}
#endif

/*
 * Rank 1 posts a receive and says whether it is the library's. Then rank 0 sends in such a way that it goes on only
 * when rank 1's MPI has answered, and rank 1 goes into the call, in which it waits for rank 0.
 */
static void meet(const char *name, void (*call)(void), int tag)
{
	int v[ROOM], w[ROOM], own = 0, met = 0;
	for (int i = 0; i < TRIES && met < ENOUGH; i++) {
		MPI_Request r;
		for (int k = 0; k < ROOM; k++)
			w[k] = i + k;
		if (rank) {
			MPI_Irecv(v, ROOM, MPI_INT, 0, tag, MPI_COMM_WORLD, &r);
			own = is_own(r);
			MPI_Send(&own, 1, MPI_INT, 0, 60, aside);
		} else {
			MPI_Recv(&own, 1, MPI_INT, 1, 60, aside, MPI_STATUS_IGNORE);
			if (own)
				usleep(2000);
			(own ? MPI_Ssend : MPI_Send)(w, ROOM, MPI_INT, 1, tag, MPI_COMM_WORLD);
		}
		if (own)
			call();
		else if (rank) /* so that it is not late, where a wake takes longer either */
			usleep(i < 300 ? 50 : 5000);
		met += own;
		if (rank)
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		for (int k = 0; rank && k < ROOM; k++)
			expect(v[k] == w[k], name, i);
	}
	expect(met >= ENOUGH, name, -met);
}

static void meetings(void)
{
	static const struct {
		const char *name;
		void (*call)(void);
	} cases[] = {
		{"MPI_Barrier", in_barrier},
		{"MPI_File_open", in_file_open},
		{"MPI_File_write_at_all", in_file_write},
		{"MPI_Wait for a file", in_wait_for_file},
		{"MPI_Comm_dup", in_dup},
		{"MPI_Iprobe", in_probes},
		{"MPI_Wait", in_wait},
		{"MPI_Recv", in_recv},
		{"MPI_Send", in_long_send},
		{"MPI_Barrier by its address", in_hidden},
#if MPI_VERSION >= 4
		{"MPI_Scatter_c", in_large_count},
#endif
#ifdef OPEN_MPI
		{"MPIX_Comm_agree", in_extension},
#endif
		{"MPI_Win_allocate", in_window},
	};
	MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		meet(cases[i].name, cases[i].call, 100 + (int)i);
	MPI_File_close(&file);
}

/* ---- requests as programs use them ---- */

/* Receives of the library's own, of so many with tags from this one on. False: some are not, and all have ended. */
static bool own_ones(MPI_Request *r, int (*v)[ROOM], int n, int tag, int i)
{
	int own = 0, all, w[ROOM];
	for (int k = 0; rank && k < n; k++) {
		MPI_Irecv(v[k], ROOM, MPI_INT, 0, tag + k, MPI_COMM_WORLD, &r[k]);
		own += is_own(r[k]);
	}
	all = own == n;
	if (rank)
		MPI_Send(&all, 1, MPI_INT, 0, 60, aside);
	else
		MPI_Recv(&all, 1, MPI_INT, 1, 60, aside, MPI_STATUS_IGNORE);
	for (int k = 0; !all && k < n; k++) {
		w[0] = i;
		if (rank == 0)
			MPI_Send(w, ROOM, MPI_INT, 1, tag + k, MPI_COMM_WORLD);
	}
	if (rank && !all) {
		usleep(i < 300 ? 50 : 5000); /* so that they are not late, where a wake takes longer either */
		MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	}
	return all;
}

/* A generalized request whose query function calls the MPI for another one. */
static MPI_Request inner;
static int inner_tag;

static int query(void *state, MPI_Status *status)
{
	MPI_Status s = {.MPI_TAG = -5};
	(void)state;
	if (inner != MPI_REQUEST_NULL)
		MPI_Waitall(1, &inner, &s);
	if (s.MPI_TAG != -5)
		inner_tag = s.MPI_TAG;
	MPI_Status_set_elements(status, MPI_INT, 0);
	MPI_Status_set_cancelled(status, 0);
	return MPI_SUCCESS;
}

static int drop(void *state)
{
	(void)state;
	return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return MPI_SUCCESS;
}

static void nested(void)
{
	int v[3][ROOM], met = 0, n;
	MPI_Status s[3];
	for (int i = 0; i < TRIES && met < 20 * ENOUGH; i++) {
		MPI_Request r[3], g;
		if (!own_ones(r, v, 3, 210, i))
			continue;
		met++;
		for (int k = 0; rank == 0 && k < 3; k++) {
			int w[ROOM] = {i + k};
			MPI_Send(w, ROOM, MPI_INT, 1, 210 + k, MPI_COMM_WORLD);
		}
		if (rank == 0)
			continue;
		usleep(500);
		inner_tag = -1;
		inner = r[2];
		r[2] = MPI_REQUEST_NULL;
		MPI_Grequest_start(query, drop, cancel, NULL, &g);
		MPI_Grequest_complete(g);
		MPI_Request all[3] = {r[0], g, r[1]};
		memset(s, 255, sizeof(s));
		MPI_Waitall(3, all, s);
		MPI_Get_count(&s[2], MPI_INT, &n);
		expect(s[0].MPI_TAG == 210 && s[2].MPI_TAG == 211 && n == ROOM,
		       "a status beside a nested call", i);
		expect(inner == MPI_REQUEST_NULL && inner_tag == 212, "a nested call", i);
		MPI_Wait(&inner, MPI_STATUS_IGNORE);
		expect(v[0][0] == i && v[1][0] == i + 1 && v[2][0] == i + 2, "a message beside a nested call",
		       i);
	}
	expect(met >= 20 * ENOUGH, "nested calls", met);
}

/*
 * Calls that are alike but for the communicator, or for the type: what one leads to is not taken for the other's. The
 * first is watched and still pending when the second takes its place among the calls that were seen.
 */
static void alike(MPI_Comm c, MPI_Datatype type, void *to, const void *from, int n, int tag)
{
	MPI_Request r[3];
	int v[2][ROOM], words[ROOM] = {7};
	for (int round = 0; round < 2; round++) {
		if (rank == 0) {
			MPI_Recv(v, 1, MPI_INT, 1, 61, aside, MPI_STATUS_IGNORE);
			usleep(300);
			for (int k = 0; k < 2 && (round == 0 || c != MPI_COMM_WORLD); k++)
				MPI_Send(words, n, MPI_INT, 1, tag, MPI_COMM_WORLD);
			MPI_Send(from, n, type, 1, tag, c);
			continue;
		}
		if (round)
			MPI_Irecv(to, n, type, 0, tag, c, &r[2]);
		for (int k = 0; k < 2; k++)
			if (round == 0 || c != MPI_COMM_WORLD)
				MPI_Irecv(v[k], n, MPI_INT, 0, tag, MPI_COMM_WORLD, &r[k]);
			else
				r[k] = MPI_REQUEST_NULL;
		if (!round)
			MPI_Irecv(to, n, type, 0, tag, c, &r[2]);
		MPI_Send(v, 1, MPI_INT, 0, 61, aside);
		if (round) {
			usleep(1000);
			MPI_Waitall(1, &r[2], MPI_STATUSES_IGNORE);
		}
		MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
	}
}

static void likenesses(void)
{
	enum { COMMS = 8 };
	MPI_Comm comm[COMMS];
	double in[ROOM], out[ROOM];
	for (int k = 0; k < COMMS; k++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[k]);
	for (int i = 0; i < ROOM; i++)
		out[i] = i + .5;
	for (int tag = 300; tag < 360; tag++) {
		int v = 0, w = 1000 + tag;
		alike(comm[tag % COMMS], MPI_INT, &v, &w, 1, tag);
		expect(!rank || v == w, "a message of another communicator", tag);
	}
	for (int tag = 400; tag < 440; tag++) {
		memset(in, 0, sizeof(in));
		alike(MPI_COMM_WORLD, MPI_DOUBLE, in, out, ROOM, tag);
		expect(!rank || !memcmp(in, out, sizeof(in)), "a message of another type", tag);
	}
	for (int k = 0; k < COMMS; k++)
		MPI_Comm_free(&comm[k]);
}

/* ---- one whose sender dies ---- */

static void hear(int how, const char *word)
{
	int v[2][ROOM], rc = MPI_SUCCESS, index = 0, flag = 0, which[2], own, i = 0;
	MPI_Request r[2];
	MPI_Status s[2];
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	while (i < TRIES && !own_ones(r, v, 2, 200, i))
		i++;
	if (rank == 0) {
		usleep(300000);
		kill(getpid(), SIGKILL);
	}
	own = is_own(r[0]);
	if (how >= KINDS) /* it is the library's still when the other dies */
		usleep(600000);
	how %= KINDS;
	if (how == 0)
		rc = MPI_Wait(&r[0], s);
	else if (how == 1)
		rc = MPI_Waitall(2, r, s);
	else if (how == 2)
		rc = MPI_Waitany(2, r, &index, s);
	else if (how == 3)
		rc = MPI_Waitsome(2, r, &index, which, s);
	else if (how == 8)
		rc = MPI_Barrier(MPI_COMM_WORLD);
	while (how == 4 && !rc && !flag)
		rc = MPI_Test(&r[0], &flag, s);
	while (how == 5 && !rc && !flag)
		rc = MPI_Testall(2, r, &flag, s);
	while (how == 6 && !rc && !flag)
		rc = MPI_Testany(2, r, &index, &flag, s);
	while (how == 7 && !rc && !index)
		rc = MPI_Testsome(2, r, &index, which, s);
	FILE *f = rc && own ? fopen(word, "w") : NULL;
	if (f)
		fclose(f);
	_exit(f ? 0 : 1);
}

static void cases(void)
{
	late(); /* before anything else has taught the library how requests end */
	nested();
	likenesses();
	meetings();
}

int main(int argc, char **argv)
{
	int provided;
	bool many = argc > 1 && !strcmp(argv[argc - 1], "-m");
	MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_dup(MPI_COMM_WORLD, &aside);
	alarm(90);
	if (argc > 3)
		hear(atoi(argv[3]), argv[2]);
	if (rank == 0)
		close(mkstemp(path));
	MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
	if (argc > 1 && !many) /* by itself: MPICH's part for files asks in ways that end all this */
		beside_file();
	else
		cases();
	if (rank == 0)
		unlink(path);
	MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !faults)
		printf("pending: every byte right, and nobody waits for ever\n");
	MPI_Finalize();
	return faults != 0;
}

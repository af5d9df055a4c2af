/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the MPI says of ranks that share a node is what it says without sennit, also where it is told that each has a node of
 * its own (shim/node.h): MPI_Comm_split_type(MPI_COMM_TYPE_SHARED) and MPI_Win_allocate_shared. All ranks on one node.
 * And MPI_Win_allocate, whose memory they share, too: what is put there goes where and when it shall, and no target has to
 * call the MPI for it.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ROUNDS	    40
#define DESCRIPTORS 1024
#define FILE_MOST   (1 << 20)
#define SPARE	    12 /* descriptors that an MPI may keep for itself */

static int rank, ranks;

static void fault(const char *what, long is)
{
	printf("FAILED: rank %d: %s: %ld\n", rank, what, is);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void is(const char *what, long is, long shall_be)
{
	if (is != shall_be)
		fault(what, is);
}

static long place_in(MPI_Comm comm)
{
	int size, at;
	MPI_Comm_size(comm, &size);
	MPI_Comm_rank(comm, &at);
	return size * 1000L + at;
}

/* The last one takes no part, the others are in the order of their keys. */
static void splits(void)
{
	MPI_Comm all, some, again;
	MPI_Info info;
	MPI_Info_create(&info);
	MPI_Info_set(info, "nothing", "known");
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &all);
	MPI_Info_free(&info);
	is("in a communicator of the node", place_in(all), ranks * 1000L + rank);
	int last = rank == ranks - 1;
	MPI_Comm_split_type(all, last ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &some);
	is("in none", some == MPI_COMM_NULL, last);
	if (!last) {
		is("in the order of keys", place_in(some), (ranks - 1) * 1000L + ranks - 2 - rank);
		MPI_Comm_split_type(some, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &again);
		is("of a part", place_in(again), place_in(some));
		MPI_Comm_free(&again);
		MPI_Comm_free(&some);
	}
	MPI_Comm_split_type(all, MPI_UNDEFINED, 0, MPI_INFO_NULL, &some);
	is("none for anybody", some == MPI_COMM_NULL, 1);
	MPI_Comm_split_type(MPI_COMM_SELF, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &some);
	is("alone", place_in(some), 1000);
	MPI_Comm_free(&some);
	MPI_Comm_free(&all);
}

/* ---- windows ---- */

/* The second rank has no part. */
static long count_of(int of, int round)
{
	return of == 1 ? 0 : 5L + of + round % 3 * 3000;
}

static long value_of(int of, long at, int round)
{
	return of * 1000003L + at * 17 + round;
}

static void describes(MPI_Win win, int n, int me, long *mine, int round, long **part)
{
	int unit, *flavor, flag;
	long before = 0;
	MPI_Aint bytes;
	for (int r = 0; r < n; r++) {
		MPI_Win_shared_query(win, r, &bytes, &unit, (void *)&part[r]);
		is("length of a part", (long)bytes, count_of(r, round) * (long)sizeof(long));
		is("unit of a part", unit, (long)sizeof(long));
		if (count_of(r, round))
			is("where a part begins", part[r] - part[0], before);
		before += count_of(r, round);
	}
	if (count_of(me, round))
		is("the own part", part[me] == mine, 1);
	long *first;
	MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, (void *)&first);
	is("the first part", first == part[0], 1);
	MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, (void *)&flavor, &flag);
	is("a window of shared memory", flag ? *flavor : -1, MPI_WIN_FLAVOR_SHARED);
}

/* By stores, and by messages: what the one leaves there the other finds. */
static void works(MPI_Win win, int n, int me, long *const *part, int round)
{
	for (long i = 0; i < count_of(me, round); i++)
		part[me][i] = value_of(me, i, round);
	MPI_Win_fence(0, win);
	for (int r = 0; r < n; r++)
		for (long i = 0; i < count_of(r, round); i++)
			if (part[r][i] != value_of(r, i, round))
				fault("what another rank wrote", part[r][i]);
	long got = -1, one = 1, put = me;
	MPI_Get(&got, 1, MPI_LONG, 0, 3, 1, MPI_LONG, win);
	MPI_Win_fence(0, win);
	is("what MPI_Get brings", got, value_of(0, 3, round));
	MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
	int to = (me + 1) % n == 1
			 ? 0
			 : (me + 1) % n; /* not to the one that has no part; nobody else writes there */
	if (me != n - 1)
		MPI_Put(&put, 1, MPI_LONG, to, 2 + (me == 0), 1, MPI_LONG, win);
	MPI_Win_fence(0, win);
	is("the sum", part[0][0], value_of(0, 0, round) + n);
	if (me != n - 1)
		is("what MPI_Put brings", part[to][2 + (me == 0)], me);
	MPI_Win_fence(0, win);
}

static void window(MPI_Comm comm, int round)
{
	int n, me;
	long *mine, *part[64];
	MPI_Win win;
	MPI_Comm_size(comm, &n);
	MPI_Comm_rank(comm, &me);
#if MPI_VERSION >= 4
	if (round % 2) {
		MPI_Win_allocate_shared_c(count_of(me, round) * (long)sizeof(long), sizeof(long),
					  MPI_INFO_NULL, comm, (void *)&mine, &win);
		MPI_Aint bytes, unit;
		void *at;
		MPI_Win_shared_query_c(win, 0, &bytes, &unit, (void *)&at);
		is("likewise, with wide numbers", (long)unit, (long)sizeof(long));
	} else
#endif
		MPI_Win_allocate_shared(count_of(me, round) * (long)sizeof(long), sizeof(long), MPI_INFO_NULL,
					comm, (void *)&mine, &win);
	describes(win, n, me, mine, round, part);
	works(win, n, me, part, round);
	MPI_Win_free(&win);
	is("no window any more", win == MPI_WIN_NULL, 1);
}

/* Of a few bytes each, but apart: whatever type a rank keeps there, its part has room and place for it. */
static void apart(MPI_Comm comm)
{
	int n, me, unit;
	char *mine, *part;
	MPI_Aint bytes;
	MPI_Info info;
	MPI_Win win;
	MPI_Comm_size(comm, &n);
	MPI_Comm_rank(comm, &me);
	MPI_Info_create(&info);
	MPI_Info_set(info, "alloc_shared_noncontig", "true");
	MPI_Win_allocate_shared(3 + me, 1, info, comm, (void *)&mine, &win);
	MPI_Info_free(&info);
	is("a place for any type", (long)((unsigned long)mine % 8), 0);
	memset(mine, me, 3 + (size_t)me);
	MPI_Win_fence(0, win);
	for (int r = 0; r < n; r++) {
		MPI_Win_shared_query(win, r, &bytes, &unit, (void *)&part);
		is("length of a part that is apart", bytes >= 3 + r, 1); /* Open MPI says whole pages */
		is("what is there", part[0] == r && part[2 + r] == r, 1);
	}
	MPI_Win_fence(0, win);
	MPI_Win_free(&win);
}

/* ---- MPI_Win_allocate ---- */

static MPI_Win allocated(MPI_Comm comm, int n, long **mine)
{
	MPI_Win win;
	void *base;
	int there, *flavor, *unit;
	MPI_Aint *size;
	MPI_Win_allocate(n * (MPI_Aint)sizeof(long), sizeof(long), MPI_INFO_NULL, comm, mine, &win);
	MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &there);
	is("a window's flavor", there ? *flavor : -1, MPI_WIN_FLAVOR_ALLOCATE);
	MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &there);
	is("a window's base", there && (base == *mine || !n), 1);
	MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &there);
	is("a window's size", there ? (long)*size : -1, n * (long)sizeof(long));
	MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &there);
	is("a window's unit", there ? *unit : -1, sizeof(long));
	return win;
}

/* Each puts into the next one's, which is ready late, and gets from the one before; every other element, too. */
static void fences(MPI_Win win, long *mine, int n, int round)
{
	long out[64], in[64];
	MPI_Datatype other;
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	MPI_Type_vector(n / 2, 1, 2, MPI_LONG, &other);
	MPI_Type_commit(&other);
	for (int i = 0; i < n; i++)
		out[i] = value_of(rank, i, round);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == round % ranks)
		usleep(300);
	for (int i = 0; i < n; i++)
		mine[i] = -1;
	MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
	if (round % 3 == 0)
		MPI_Put(out, 1, other, next, 0, 1, other, win);
	else if (round % 3 == 1)
		MPI_Put(out, n, MPI_LONG, next, 0, n * (int)sizeof(long), MPI_BYTE, win);
	else
		MPI_Put(out + 3, 2, MPI_LONG, next, 3, 2, MPI_LONG, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < n; i++) {
		int put = round % 3 == 0 ? i % 2 == 0 : round % 3 == 1 || i == 3 || i == 4;
		is("what was put", mine[i], put ? value_of(last, i, round) : -1);
	}
	MPI_Get(in, n, MPI_LONG, last, 0, n, MPI_LONG, win);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
	for (int i = 0; i < n; i++) {
		int put = round % 3 == 0 ? i % 2 == 0 : round % 3 == 1 || i == 3 || i == 4;
		is("what was got", in[i], put ? value_of((last + ranks - 1) % ranks, i, round) : -1);
	}
	MPI_Type_free(&other);
}

/* One after the other, each adds one. */
static void locks(MPI_Win win, long *mine)
{
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	*mine = 0;
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 200; i++) {
		long v = -1;
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Get(&v, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
		MPI_Win_flush(0, win);
		v++;
		MPI_Put(&v, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
		MPI_Win_unlock(0, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
	is("a counter", *mine, rank ? 0 : 200L * ranks);
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Nothing is put before it may be. */
static void posts(MPI_Win win, long *mine, int round)
{
	MPI_Group all, other;
	int one = 1, none = 0;
	long v = 7 + round;
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, rank ? &none : &one, &other);
	*mine = -3;
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Win_start(other, 0, win);
		MPI_Put(&v, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
		MPI_Win_complete(win);
	} else if (rank == 1) {
		usleep(1000);
		is("what was put too early", *mine, -3);
		MPI_Win_post(other, 0, win);
		MPI_Win_wait(win);
		is("what was put when it might be", *mine, v);
	}
	MPI_Group_free(&other);
	MPI_Group_free(&all);
}

/*
 * Epochs of other groups one behind the other: who has ended the first posts for the second while another still looks for
 * the posts of the first. Of more ranks MPICH waits for ever by itself, too (MPIR_CVAR_NOLOCAL=1).
 */
static void posts_early(MPI_Win win, const long *mine)
{
	MPI_Group all, half[2];
	int of[2][64], n[2] = {0, 0}, me = rank % 2;
	long v = rank;
	for (int r = 0; r < ranks; r++)
		of[r % 2][n[r % 2]++] = r;
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	for (int i = 0; i < 2; i++)
		MPI_Group_incl(all, n[i], of[i], &half[i]);
	MPI_Barrier(MPI_COMM_WORLD); /* whose posts MPICH does not ask */
	for (int i = 0; i < 2; i++) {
		int to = i ? me : !me;
		if (!me && !i)
			MPI_Win_start(half[to], 0, win);
		MPI_Win_post(half[to], 0, win);
		if (me || i)
			MPI_Win_start(half[to], 0, win);
		for (int k = 0; k < n[to]; k++)
			MPI_Put(&v, 1, MPI_LONG, of[to][k], rank, 1, MPI_LONG, win);
		MPI_Win_complete(win);
		MPI_Win_wait(win);
	}
	for (int r = 0; r < ranks; r++)
		is("what was put in an early epoch", mine[r], r);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Group_free(&half[0]);
	MPI_Group_free(&half[1]);
	MPI_Group_free(&all);
}

/* The target looks at its memory, and calls nothing. */
static void unasked(MPI_Win win, long *mine)
{
	volatile long *here = mine;
	*here = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		long v = 5;
		MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Put(&v, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
		MPI_Win_flush(1, win);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_unlock(1, win);
	} else {
		MPI_Barrier(MPI_COMM_WORLD);
		while (rank == 1 && *here != 5)
			;
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Nor is anything put outside an epoch: the MPI says so. */
static void out_of_epoch(MPI_Win win, long *mine)
{
#ifdef MPICH
	long v = 9;
	*mine = 4;
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	MPI_Barrier(MPI_COMM_WORLD);
	is("outside an epoch", MPI_Put(&v, 1, MPI_LONG, !rank, 0, 1, MPI_LONG, win) != MPI_SUCCESS, 1);
	MPI_Barrier(MPI_COMM_WORLD);
	is("what was put outside an epoch", *mine, 4);
	MPI_Win_set_errhandler(win, MPI_ERRORS_ARE_FATAL);
#else
	(void)win;
	(void)mine;
#endif
}

/*
 * Where the first may write no file that is long enough for all parts, each has its own. Intel MPI would be ended by a
 * file of its own.
 */
static void short_of_room(void)
{
#ifdef MPICH
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	int len;
	MPI_Get_library_version(version, &len);
	if (strstr(version, "Intel"))
		return;
	struct rlimit was, less;
	long *mine, v = 11 + rank;
	MPI_Win win;
	getrlimit(RLIMIT_FSIZE, &was);
	less = was;
	less.rlim_cur = FILE_MOST;
	if (rank == 0)
		setrlimit(RLIMIT_FSIZE, &less);
	MPI_Win_allocate(FILE_MOST, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
	setrlimit(RLIMIT_FSIZE, &was);
	MPI_Win_fence(0, win);
	MPI_Put(&v, 1, MPI_LONG, (rank + 1) % ranks, 2, 1, MPI_LONG, win);
	MPI_Win_fence(0, win);
	is("what was put where a rank is short of room", mine[2], 11 + (rank + ranks - 1) % ranks);
	MPI_Win_free(&win);
#endif
}

static void one_sided(void)
{
	long *mine;
	for (int round = 0; round < 12; round++) {
		int n = 10 + 2 * round;
		MPI_Win win = allocated(MPI_COMM_WORLD, n, &mine);
		fences(win, mine, n, round);
		if (ranks > 1 && round % 4 == 0) {
			locks(win, mine);
			posts(win, mine, round);
			if (ranks <= 4)
				posts_early(win, mine);
			unasked(win, mine);
			out_of_epoch(win, mine);
		}
		MPI_Win_free(&win);
	}
	MPI_Win win = allocated(MPI_COMM_WORLD, rank % 2 ? 0 : 5, &mine); /* some have none */
	MPI_Win_free(&win);
	short_of_room();
}

static long files(void)
{
	long n = 0;
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	splits();
	MPI_Comm node, pair;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &node);
	MPI_Comm_split(node, rank / 2, 0, &pair);
	window(MPI_COMM_WORLD, 0);
	window(MPI_COMM_WORLD, 1);
	apart(MPI_COMM_WORLD);
	long before = files();
	for (int round = 0; round < ROUNDS; round++) {
		window(MPI_COMM_WORLD, round);
		window(node, round);
		window(pair, round);
		window(MPI_COMM_SELF, round);
	}
	one_sided();
	if (files() > before + SPARE)
		fault("files that stay open", files() - before);
	MPI_Comm_free(&pair);
	MPI_Comm_free(&node);
	if (!rank)
		printf("the ranks of a node share it\n");
	MPI_Finalize();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that do not block, whose short ones libsennit-mpi.so makes without messages (shim/begun.h): every byte of each,
 * and none beside; at each length where something begins, of types that lie otherwise on each rank and are freed meanwhile, in
 * place, many at once and ended in whatever order and by whatever function, beside messages and collectives that block, by
 * ranks that are ahead or late; and with one that computes, and calls nothing, until the others have ended it.
 *
 *     begun [-w | -v | -s | -m]
 *         as blocks.c
 *     begun -d WORD HOW
 *         rank 1 is killed; who hears of it, in MPI_Wait, or with -t in MPI_Test, writes WORD
 */
#define NAME "begun"
#include "abi5.h"
#include "begun_calls.h"
#include "blocks_run.h"
#include "told.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* ---- one after the other ---- */

static const int lengths[] = {8,    24,	  40,	48,   56,   96,	   1000,  1024,	 4080,
			      5000, 5464, 8184, 8192, 8208, 16368, 16384, 16392, 16408};
#define LENGTHS ((int)(sizeof(lengths) / sizeof(*lengths)))

static void one(struct op *op, int kind, int root, bool in_place, int o, int l, int len, MPI_Comm comm,
		int turn)
{
	begin_op(op, kind, root, in_place, &layouts[o], &layouts[l], len, comm, turn);
	end_ops(op, 1, turn);
	check(op);
}

/* Until the next ones are ours. No sums, of which those whose bits might change would stay the MPI's. */
static void warm_up(struct op *ops, MPI_Comm comm)
{
	for (int i = 0; i < 15; i++)
		one(&ops[0], i % 2 ? ALLTOALL : GATHER, i % ranks, false, BYTES, BYTES, 8, comm, i);
	MPI_Barrier(comm);
}

static void all_lengths(struct op *ops, MPI_Comm comm)
{
	int size;
	MPI_Comm_size(comm, &size);
	for (int k = 0; k < LENGTHS; k++)
		for (int kind = 0; kind < KINDS; kind++)
			for (int i = 0; i < 4; i++) {
				int len = lengths[k], plain = len % 24 ? BYTES : i % 2 ? APART : DOUBLES;
				one(&ops[0], kind, (i + k) % size, i == 3, plain, plain, len, comm, i + k);
			}
}

/* What a block is made of is each rank's own affair. */
static void all_types(struct op *ops, MPI_Comm comm)
{
	static const int times[] = {1, 2, 5, 42, 171, 341, 682, 683};
	for (size_t k = 0; k < sizeof(times) / sizeof(*times); k++)
		for (int i = 0; i < LAYOUTS * LAYOUTS; i++)
			for (int kind = 0; kind < KINDS; kind++)
				one(&ops[0], kind, i % ranks, !(i % 5), (i + rank) % LAYOUTS,
				    (i / LAYOUTS + 2 * rank) % LAYOUTS, 24 * times[k], comm, i);
}

static int copies;

static int copy(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
	(void)type;
	(void)key;
	(void)extra;
	*(void **)out = in;
	*flag = 1;
	copies++;
	return MPI_SUCCESS;
}

/* What the program says of its types is its own: nobody copies it. */
static void attributes(struct op *ops)
{
	int key;
	MPI_Type_create_keyval(copy, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
	MPI_Type_set_attr(layouts[APART].type, key, &key);
	for (int i = 0; i < 20; i++) {
		if (rank == 0)
			usleep(500);
		one(&ops[0], BCAST, 0, false, APART, APART, 48, MPI_COMM_WORLD, i);
	}
	expect(!copies, "a type's attributes copied", copies);
	MPI_Type_delete_attr(layouts[APART].type, key);
	MPI_Type_free_keyval(&key);
}

/* A type is freed before what it is for is over, and so is a communicator. */
static void freed(struct op *ops)
{
	for (int i = 0; i < 30; i++) {
		MPI_Comm comm;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		warm_up(ops, comm);
		if (rank == i % ranks)
			usleep(500);
		for (int k = 0; k < KINDS; k++)
			begin_op(&ops[k], (k + i) % KINDS, i % ranks, false, &layouts[APART],
				 &layouts[i % 2 ? WIDE : BACKWARDS], i % 3 ? 24 : 480, comm, k + i);
		free_types();
		if (i % 2)
			MPI_Comm_free(&comm);
		make_types();
		end_ops(ops, KINDS, i);
		for (int k = 0; k < KINDS; k++)
			check(&ops[k]);
		if (i % 2 == 0)
			MPI_Comm_free(&comm);
	}
}

/* ---- many at once ---- */

static unsigned dice = 7;

static int die(int sides)
{
	dice = dice * 1103515245 + 12345;
	return (int)(dice >> 16) % sides;
}

/* With receives and sends of the program's among them, and others that block in between. */
static void windows(struct op *ops, MPI_Comm comm)
{
	static char out[4][40000], in[4][40000];
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	for (int i = 0; i < 500; i++) {
		int n = 1 + die(MANY - 9), late = die(8), who = die(ranks), how = die(WAYS), between = die(4),
		    bytes = 1 << die(16), bad = 0;
		for (int k = 0; k < n; k++) {
			int len = lengths[die(LENGTHS)], plain = len % 24 ? BYTES : die(LAYOUTS);
			len = die(4) ? len % 1000 / 24 * 24 + 24 : len;
			plain = len % 24 ? BYTES : plain;
			begin_op(&ops[k], die(KINDS), die(ranks), !die(5), &layouts[plain], &layouts[plain],
				 len, comm, i + k);
		}
		int m = between ? 0 : 4;
		for (int k = 0; k < m; k++) {
			memset(out[k], i + k + rank, (size_t)bytes);
			ops[n + 2 * k].kind = ops[n + 2 * k + 1].kind = MESSAGE;
			MPI_Irecv(in[k], bytes, MPI_BYTE, left, k, comm, &ops[n + 2 * k].request);
			MPI_Isend(out[k], bytes, MPI_BYTE, right, k, comm, &ops[n + 2 * k + 1].request);
		}
		if (late == 0 && rank == who)
			usleep(i % 2 ? 3000 : 100);
		if (between == 1)
			MPI_Barrier(comm);
		if (between == 2) {
			int sum = 0;
			MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comm);
			expect(sum == i * ranks, "MPI_Allreduce in between", sum);
		}
		end_ops(ops, n + 2 * m, how);
		for (int k = 0; k < n; k++)
			check(&ops[k]);
		for (int k = 0; k < m; k++)
			for (int b = 0; b < bytes; b++)
				bad += in[k][b] != (char)(i + k + left);
		expect(!bad, "a message beside them", bytes);
	}
}

/*
 * One is ahead of the others by more than there is room for, and its own are ended last. In half of the turns they begin
 * none before they have a message, which it sends when it has begun all.
 */
static void ahead(MPI_Comm comm)
{
	enum { ALL = 700, LEN = 20 };
	static int in[ALL], out[ALL][LEN], sums[ALL];
	static MPI_Request r[2 * ALL];
	for (int turn = 0; turn < 8; turn++) {
		int root = turn % ranks, bad = 0, word = turn;
		bool tells = turn / 2 % 2;
		if (rank != root && tells)
			MPI_Recv(&word, 1, MPI_INT, root, 3, comm, MPI_STATUS_IGNORE);
		else if (rank != root)
			usleep(5000);
		for (int i = 0; i < ALL; i++) {
			for (int k = 0; k < LEN; k++)
				out[i][k] = rank == root ? i + k + turn : -1;
			in[i] = i + rank;
			MPI_Ibcast(out[i], i % 2 ? LEN : 1, MPI_INT, root, comm, &r[i]);
			if (turn % 2)
				MPI_Iallreduce(&in[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, &r[ALL + i]);
			else
				MPI_Ireduce(&in[i], &sums[i], 1, MPI_INT, MPI_SUM, root, comm, &r[ALL + i]);
		}
		for (int k = 0; k < ranks && tells && rank == root; k++)
			if (k != rank)
				MPI_Send(&word, 1, MPI_INT, k, 3, comm);
		for (int i = ALL; i-- > ALL / 2;) {
			int flag = 0;
			while (!flag && turn >= 6)
				MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
			MPI_Wait(&r[i], MPI_STATUS_IGNORE);
			MPI_Wait(&r[ALL + i], MPI_STATUS_IGNORE);
		}
		MPI_Waitall(ALL / 2, r, MPI_STATUSES_IGNORE);
		MPI_Waitall(ALL / 2, r + ALL, MPI_STATUSES_IGNORE);
		for (int i = 0; i < ALL; i++) {
			for (int k = 0; k < (i % 2 ? LEN : 1); k++)
				bad += out[i][k] != i + k + turn;
			bad += (turn % 2 || rank == root) && sums[i] != i * ranks + ranks * (ranks - 1) / 2;
		}
		expect(!bad, "one that is ahead", bad);
		calls += 2 * ALL;
	}
}

/*
 * Who waits for a message reads meanwhile what others wait for, though there are few, if one of them is old: the first one,
 * after which all but the last ones are over as soon as they are begun.
 */
static void an_old_one(MPI_Comm comm)
{
	enum { THERE = 260, ALL = 320 };
	static int v[ALL];
	static MPI_Request r[ALL];
	for (int turn = 0; turn < 3; turn++) {
		int bad = 0;
		MPI_Barrier(comm);
		if (rank == 0)
			usleep(2000);
		for (int i = 0; i < ALL; i++) {
			v[i] = rank ? -1 : i + turn;
			MPI_Ibcast(&v[i], 1, MPI_INT, 0, comm, &r[i]);
			for (int k = 1; k < ranks && rank == 0 && i == THERE; k++)
				MPI_Send(&turn, 1, MPI_INT, k, 3, comm);
			if (rank && i == 0)
				MPI_Recv(&bad, 1, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
		}
		if (rank == 0)
			MPI_Waitall(ALL, r, MPI_STATUSES_IGNORE);
		for (int k = 1; k < ranks && rank == 0; k++)
			MPI_Send(&turn, 1, MPI_INT, k, 3, comm);
		if (rank)
			MPI_Recv(&bad, 1, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
		if (rank)
			MPI_Waitall(ALL, r, MPI_STATUSES_IGNORE);
		bad = 0;
		for (int i = 0; i < ALL; i++)
			bad += v[i] != i + turn;
		expect(!bad, "an old one", bad);
		calls += ALL;
	}
}

/* ---- what belongs to no test of bytes ---- */

/* Two calls with the same operands have the same result, to the bit, whatever each was made of. */
static void same_bits(MPI_Comm comm)
{
	double v[3], first[3] = {0}, sum[3] = {0};
	static const double parts[3][3] = {{1e16, 1, -1e16}, {1, 1e16, -1e16}, {1e16, -1e16, 1}};
	for (int k = 0; k < 3; k++) /* of which each order makes another sum */
		v[k] = parts[k][rank % 3];
	for (int i = 0; i < 60; i++) {
		MPI_Request r;
		MPI_Iallreduce(v, i ? sum : first, 3, MPI_DOUBLE, MPI_SUM, comm, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (i == 30)
			MPI_Barrier(comm);
		expect(!i || !memcmp(sum, first, sizeof(sum)), "other bits", i);
	}
	calls += 60;
}

/*
 * Who has begun is not needed any more: he waits for a word of the others that is no message, and that they give when
 * theirs have ended.
 */
static void computing(struct op *ops, MPI_Comm comm)
{
	char name[64] = "";
	snprintf(name, sizeof(name), "/dev/shm/begun-test-%d", (int)getpid());
	MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, comm);
	int fd = open(name, O_RDWR | O_CREAT, 0600);
	expect(fd >= 0 && !ftruncate(fd, 4096), "a file", fd);
	_Atomic int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MPI_Barrier(comm);
	unlink(name);
	for (int i = 0; i < 40; i++) {
		int away = i % ranks, kind = i / 5 % KINDS;
		begin_op(&ops[0], kind, (i + 1) % ranks, false, &layouts[BYTES], &layouts[BYTES],
			 i % 2 ? 8 : 1000, comm, i);
		if (rank == away) {
			while (*word < (i + 1) * (ranks - 1))
				;
		} else {
			end_ops(&ops[0], 1, i);
			++*word;
		}
		if (rank == away)
			end_ops(&ops[0], 1, i);
		check(&ops[0]);
	}
	munmap((void *)word, 4096);
	close(fd);
}

/* A request that nobody else but the MPI sees to, over some. */
static void asked(MPI_Comm comm)
{
	for (int i = 0; i < 60; i++) {
		int v = i + rank, sum = -1, flag = 0, never = 0;
		MPI_Status status;
		MPI_Request r[2];
		if (rank == i % ranks)
			usleep(200);
		MPI_Iallreduce(&v, &sum, 1, MPI_INT, MPI_SUM, comm, &r[0]);
		if (i % 3 == 0)
			while (!flag)
				MPI_Request_get_status(r[0], &flag, &status);
		if (i % 3 == 1)
			r[0] = MPI_Request_f2c(MPI_Request_c2f(r[0]));
		MPI_Irecv(&never, 1, MPI_INT, 0, 77, MPI_COMM_SELF, &r[1]);
		if (i % 2) {
			int which;
			MPI_Waitany(2, r, &which, &status);
			expect(which == 0, "MPI_Waitany", which);
		} else {
			MPI_Wait(&r[0], &status);
		}
		expect(sum == i * ranks + ranks * (ranks - 1) / 2 && r[0] == MPI_REQUEST_NULL,
		       "one that was asked about", sum);
		MPI_Cancel(&r[1]);
		MPI_Wait(&r[1], MPI_STATUS_IGNORE);
	}
}

static double seconds(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
	       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Who waits for long leaves his core to others, whatever he waits by. */
static void sleeps(MPI_Comm comm)
{
	enum { ALL = 200 };
	static int in[ALL];
	static MPI_Request r[ALL];
	for (int turn = 0; turn < 3; turn++) {
		int one = 1, which, some, n = turn == 2 ? ALL : 1;
		MPI_Barrier(comm);
		if (rank == 0)
			usleep(400000);
		double used = seconds();
		for (int i = 0; i < n; i++)
			MPI_Iallreduce(&one, &in[i], 1, MPI_INT, MPI_SUM, comm, &r[i]);
		for (int k = 1; k < ranks && rank == 0 && turn == 2; k++)
			MPI_Send(&one, 1, MPI_INT, k, 3, comm);
		if (turn == 0)
			MPI_Waitany(1, r, &which, MPI_STATUS_IGNORE);
		else if (turn == 1)
			MPI_Waitsome(1, r, &some, &which, MPI_STATUSES_IGNORE);
		else if (rank)
			MPI_Recv(&one, 1, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
		used = seconds() - used;
		MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
		expect(rank == 0 || used < 0.2, "ms of a core, of 400 that it waits", (int)(used * 1000));
	}
}

/* In a crowd who waits gives his core to those who are waited for, whatever he waits by: the best of several times. */
static double best_of(int way, MPI_Comm comm)
{
	double best = 1e9;
	for (int turn = 0; turn < 12; turn++) {
		double since = MPI_Wtime();
		for (int i = 0; i < 30; i++) {
			int one = 1, sum, which, some;
			MPI_Request r;
			MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &r);
			if (way == 0)
				MPI_Wait(&r, MPI_STATUS_IGNORE);
			else if (way == 1)
				MPI_Waitany(1, &r, &which, MPI_STATUS_IGNORE);
			else
				MPI_Waitsome(1, &r, &some, &which, MPI_STATUSES_IGNORE);
		}
		double took = MPI_Wtime() - since;
		best = took < best ? took : best;
	}
	calls += 360;
	return best;
}

static void crowd(MPI_Comm comm)
{
	double wait = best_of(0, comm), any = best_of(1, comm), some = best_of(2, comm);
	expect(any < 6 * wait + 3e-3, "us of some MPI_Waitany in a crowd", (int)(any * 1e6));
	expect(some < 6 * wait + 3e-3, "us of some MPI_Waitsome in a crowd", (int)(some * 1e6));
}

/* The handler is called, of who is wrong and of who would need what he brings; what follows is right again. */
static void wrongs(struct op *ops)
{
	MPI_Comm comm;
	MPI_Errhandler handler;
	char buf[RANKS * 64];
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	warm_up(ops, comm);
	MPI_Comm_create_errhandler(tell, &handler);
	MPI_Comm_set_errhandler(comm, handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	for (int i = 0; i < 4 * ranks; i++) {
		MPI_Request r = MPI_REQUEST_NULL;
		int who = i % ranks, rc;
		told = 0;
		if (i / ranks == 0)
			rc = MPI_Iallgather(rank == who ? NULL : buf, 8, MPI_BYTE, buf + 64, 8, MPI_BYTE,
					    comm, &r);
		else if (i / ranks == 1)
			rc = MPI_Ibcast(rank == who ? NULL : buf, 8, MPI_BYTE, who, comm, &r);
		else if (i / ranks == 2)
			rc = MPI_Iallgather(buf, rank == who ? 16 : 8, MPI_BYTE, buf + 64, 8, MPI_BYTE, comm,
					    &r);
		else
			rc = MPI_Iallgather(buf, 8, MPI_BYTE, rank == who ? NULL : buf + 64, 8, MPI_BYTE,
					    comm, &r);
		if (rank == who)
			expect(told == 1 && rc != MPI_SUCCESS, "who is wrong", i);
		else
			expect((rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE)) != MPI_SUCCESS, "who hears of it",
			       i);
		MPI_Barrier(MPI_COMM_WORLD);
		for (int k = 0; k < 20; k++)
			one(&ops[0], k % KINDS, k % ranks, false, BYTES, BYTES, 8, comm, k);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Errhandler_free(&handler);
	MPI_Comm_free(&comm);
}

/* Of two groups: what comes is the other's. */
static void between_groups(void)
{
	MPI_Comm half, inter;
	int others, side = rank % 2, bad = 0;
	MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 5, &inter);
	MPI_Comm_remote_size(inter, &others);
	for (int i = 0; i < 40; i++) {
		int v = i + side, sum = 0;
		MPI_Request r;
		MPI_Iallreduce(&v, &sum, 1, MPI_INT, MPI_SUM, inter, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		bad += sum != others * (i + !side);
		MPI_Barrier(inter);
	}
	expect(!bad, "between two groups", bad);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void communicators(struct op *ops)
{
	MPI_Comm part, all[20];
	for (int i = 0; i < 20; i++) {
		MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? 0 : rank % 2, -rank, &part);
		for (int k = 0; k < 60; k++) {
			one(&ops[0], k % KINDS, 0, k % 7 == 0, BYTES, BYTES, 8 << k % 5, part, k);
			if (k == 20)
				MPI_Barrier(part);
		}
		MPI_Comm_free(&part);
	}
	for (int i = 0; i < 20; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
		for (int k = 0; k < 30; k++)
			one(&ops[0], k % KINDS, k % ranks, false, BYTES, BYTES, 8, all[i], k);
		MPI_Barrier(all[i]);
	}
	for (int i = 0; i < 200; i++) /* by turns, and ended the other way round */
		for (int k = 0; k < 10; k++)
			begin_op(&ops[k], (i + k) % KINDS, i % ranks, false, &layouts[BYTES], &layouts[BYTES],
				 40, all[(3 * i + k) % 20], i),
				k == 9 ? end_ops(ops, 10, i), check_all(ops, 10) : (void)0;
	for (int i = 0; i < 20; i++)
		MPI_Comm_free(&all[i]);
	for (int kind = 0; kind < KINDS; kind++)
		one(&ops[0], kind, 0, false, BYTES, BYTES, 8, MPI_COMM_SELF, kind);
}

static struct op *with_messages;

static void any(const struct memory *m, int i, MPI_Comm comm)
{
	(void)m;
	one(&with_messages[0], i % KINDS, i % ranks, false, BYTES, BYTES, i % 2 ? 1000 : 8, comm, i);
}

static void *in_thread(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	struct op *ops = new_ops();
	for (int i = 0; i < 600; i++) {
		for (int k = 0; k < 4; k++)
			begin_op(&ops[k], (i + k) % KINDS, i % ranks, false, &layouts[BYTES], &layouts[BYTES],
				 8 << (i + k) % 8, comm, i + k);
		if (i % 20 == 0)
			MPI_Barrier(comm);
		end_ops(ops, 4, i);
		check_all(ops, 4);
	}
	free_ops(ops);
	return NULL;
}

/* Who waits hears of it; who asks again and again does. */
static void death(const char *word, bool asks)
{
	int rc = 0, one = 1, all, flag;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	for (int i = 0; !rc && i < 1000000; i++) {
		MPI_Request r;
		if (rank == 1 && i == 500)
			raise(SIGKILL);
		if (i == 20)
			MPI_Barrier(MPI_COMM_WORLD);
		rc = MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
		for (flag = !asks; !rc && !flag;)
			rc = MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
		if (!rc && !asks)
			rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
	FILE *f = rc ? fopen(word, "w") : NULL;
	if (f)
		fclose(f);
	_exit(f ? 0 : 1);
}

int main(int argc, char **argv)
{
	MPI_Comm comm;
	begin(argc, argv);
	if (!strcmp(run_how, "-d") && argc > 3)
		death(argv[2], !strcmp(argv[3], "-t"));
	make_types();
	struct op *ops = new_ops();
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	same_bits(comm);
	MPI_Comm_free(&comm);
	for (int i = 0; i < 15;
	     i++) /* of these ranks the first ones are ours, and so no sums have gone to the MPI */
		one(&ops[0], i % KINDS, i % ranks, false, BYTES, BYTES, 8, MPI_COMM_WORLD, i);
	all_lengths(ops, MPI_COMM_WORLD);
	all_types(ops, MPI_COMM_WORLD);
#ifdef MPICH
	run_ours &= !run_many; /* with threads it is left alone */
#endif
	if (run_ours && !run_many) {
		computing(ops, MPI_COMM_WORLD);
		sleeps(MPI_COMM_WORLD);
		if (ranks > 4)
			crowd(MPI_COMM_WORLD);
	}
	if (run_ours) /* which Open MPI does not survive by itself */
		freed(ops);
	attributes(ops);
	windows(ops, MPI_COMM_WORLD);
	with_messages = ops;
	beside_messages(NULL, MPI_COMM_WORLD, any);
	ahead(MPI_COMM_WORLD);
	if (ranks > 1)
		an_old_one(MPI_COMM_WORLD);
	communicators(ops);
	if (ranks > 1)
		between_groups();
	if (run_ours)
		wrongs(ops);
	if (run_many)
		threads(in_thread);
	asked(MPI_COMM_WORLD);
	all_lengths(ops, MPI_COMM_WORLD);
	free_ops(ops);
	free_types();
	return end();
}

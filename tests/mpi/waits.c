/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whoever waits sleeps, and whoever only asks does not: rank 0 stays away until all others sleep, and for a while
 * longer; they wait for it in one kind of call after the other, and must have used next to nothing of a core
 * meanwhile. Then they ask with MPI_Test and the like, again and again, and must not have slept once (the kernel
 * counts sleeps, and yields apart from them). And where they are more than there are cores all are in one scheduling group,
 * or a yield would hand the core to none of them; and who waits yields where the provider thinks right, and not once more for each look because the MPI
 * does.
 *
 *     waits [-p MS]     how much longer rank 0 stays away (250)
 */
#include "../unit/yields.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define BYTES  3000
#define ASKED  20000
#define SHARE  0.10 /* of a core; it is 0.002 on an idle machine */
#define STRAYS 20   /* sleeps that are not ours: a page, a lock of the C library */
#define ROUNDS 2000 /* in each of which an MPI that yields does so */
#define BEYOND 2000 /* messages that the next phase may not overtake */
#define MOST   64   /* ranks */

static int rank, ranks, faults;
static char data[BYTES];

struct usage {
	double cpu, wall;
	long sleeps;
};

static struct usage usage(void)
{
	struct rusage r, t;
	getrusage(RUSAGE_SELF, &r);
	getrusage(RUSAGE_THREAD, &t); /* service threads sleep as they like: the longer, the more often */
	double cpu = (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
		     1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
	return (struct usage){cpu, MPI_Wtime(), t.ru_nvcsw};
}

static void fault(const char *what, const char *how, double value)
{
	printf("waits: rank %d, %s: %s %g\n", rank, what, how, value);
	faults++;
}

static void check_data(const char *what, int tag)
{
	for (int i = 0; i < BYTES; i++) {
		if (data[i] == (char)(i * 7 + tag))
			continue;
		fault(what, "wrong byte at", i);
		return;
	}
}

/* ---- waiting ---- */

/* What rank 0 knows of the others without a message, which would wake them. */
static struct {
	atomic_int begun; /* waits */
	atomic_int thread;
} * others;

static bool share_memory(void)
{
	char path[64] = "";
	int fd = -1;
	if (!rank) {
		fd = memfd_create("waits", 0);
		if (fd < 0 || ftruncate(fd, MOST * sizeof(*others)))
			return false;
		snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), fd);
	}
	MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank)
		fd = open(path, O_RDWR);
	others = mmap(NULL, MOST * sizeof(*others), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (others == MAP_FAILED || ranks > MOST)
		return false;
	atomic_store(&others[rank].thread, gettid());
	MPI_Barrier(MPI_COMM_WORLD);
	close(fd);
	return true;
}

static bool sleeps(int thread)
{
	char path[64], line[256] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", thread);
	FILE *f = fopen(path, "r");
	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	const char *state = strrchr(line, ')');
	return state && state[1] && state[2] == 'S';
}

/* Somebody may be kept from his core before he waits; who does not sleep in 30 s is to say so himself. */
static void stay_away(int turn, unsigned pause_ms)
{
	static int patience_ms = 30000;
	for (int r = 1; r < ranks; r++)
		while ((atomic_load(&others[r].begun) < turn || !sleeps(atomic_load(&others[r].thread))) &&
		       patience_ms-- > 0)
			usleep(1000);
	usleep(pause_ms * 1000);
}

enum { RECV, WAIT, WAITANY, PROBE, MPROBE, BARRIER, BCAST, WAYS };
static const char *const names[WAYS] = {"MPI_Recv",   "MPI_Wait",    "MPI_Waitany", "MPI_Probe",
					"MPI_Mprobe", "MPI_Barrier", "MPI_Bcast"};

static void wait_for_message(int way)
{
	static MPI_Request request;
	MPI_Message message;
	int index;
	switch (way) {
	case WAIT:
	case WAITANY:
		MPI_Irecv(data, BYTES, MPI_CHAR, 0, way, MPI_COMM_WORLD, &request);
		if (way == WAIT)
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		else
			MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
		break;
	case MPROBE:
		MPI_Mprobe(0, way, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
		MPI_Mrecv(data, BYTES, MPI_CHAR, &message, MPI_STATUS_IGNORE);
		break;
	case PROBE: MPI_Probe(0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* fallthrough */
	default: MPI_Recv(data, BYTES, MPI_CHAR, 0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void take_part(int way)
{
	if (way == BARRIER) {
		MPI_Barrier(MPI_COMM_WORLD);
	} else if (way == BCAST) {
		MPI_Bcast(data, BYTES, MPI_CHAR, 0, MPI_COMM_WORLD);
	} else if (rank) {
		wait_for_message(way);
	} else {
		for (int to = 1; to < ranks; to++)
			MPI_Send(data, BYTES, MPI_CHAR, to, way, MPI_COMM_WORLD);
	}
}

static bool waited(int way, unsigned pause_ms, bool last)
{
	static int turn;
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < BYTES; i++)
		data[i] = (char)(rank ? 0 : i * 7 + way);
	struct usage before = usage();
	atomic_store(&others[rank].begun, ++turn);
	if (!rank)
		stay_away(turn, pause_ms);
	take_part(way);
	struct usage after = usage();
	if (way != BARRIER)
		check_data(names[way], way);
	double share = (after.cpu - before.cpu) / (after.wall - before.wall);
	int kept = rank && share > SHARE;
	if (last && kept)
		fault(names[way], "share of a core", share);
	if (rank && after.sleeps == before.sleeps)
		fault(names[way], "sleeps", 0);
	if (rank == 1)
		printf("  %-12s %.4f of a core\n", names[way], share);
	MPI_Allreduce(MPI_IN_PLACE, &kept, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return !kept;
}

/* What a host takes from this machine may count as used: who keeps the core does so each time. */
static void waits(int way, unsigned pause_ms)
{
	if (!waited(way, pause_ms, false))
		waited(way, pause_ms, true);
}

static void awake(const char *name, unsigned pause_ms)
{
	MPI_Barrier(MPI_COMM_WORLD);
	struct usage before = usage();
	if (!rank)
		usleep(pause_ms * 1000);
	MPI_Bcast(data, BYTES, MPI_CHAR, 0, MPI_COMM_WORLD);
	struct usage after = usage();
	if (rank && after.sleeps - before.sleeps > STRAYS)
		fault(name, "sleeps", (double)(after.sleeps - before.sleeps));
}

/*
 * One-sided traffic goes by ways of the MPI's own: nobody sleeps while there is a window, and everybody does after, though
 * Open MPI 5 has opened a second completion queue for it, and goes on reading both in turn.
 */
static void window(unsigned pause_ms)
{
	MPI_Win win;
	MPI_Win_create(data, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	awake("a window", pause_ms);
	MPI_Win_free(&win);
	waits(BARRIER, pause_ms);
}

/*
 * Likewise while one of two calls for files is not over, in MPICH and Intel MPI, where it goes on by one step for
 * each look; when both are, everybody sleeps, though the files are open.
 */
static void files(unsigned pause_ms)
{
#ifndef OPEN_MPI
	static char path[2][32] = {"/tmp/sennit-waits-XXXXXX", "/tmp/sennit-waits-XXXXXX"}, page[64];
	MPI_File f[2];
	MPI_Request r[2];
	for (int i = 0; i < 2; i++) {
		if (!rank)
			close(mkstemp(path[i]));
		MPI_Bcast(path[i], sizeof(path[i]), MPI_CHAR, 0, MPI_COMM_WORLD);
		MPI_File_open(MPI_COMM_WORLD, path[i], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f[i]);
		if (!rank)
			unlink(path[i]);
	}
	MPI_File_iwrite_at_all(f[0], rank * (int)sizeof(page), page, sizeof(page), MPI_CHAR, &r[0]);
	MPI_File_iread_all_c(f[1], page, sizeof(page), MPI_CHAR, &r[1]);
	for (int i = 0; i < 2; i++) {
		awake("a file", pause_ms);
		MPI_Wait(&r[i], MPI_STATUS_IGNORE);
	}
#ifndef MPI_H_ABI /* there what is open counts */
	waits(BARRIER, pause_ms);
#endif
	for (int i = 0; i < 2; i++)
		MPI_File_close(&f[i]);
	waits(BARRIER, pause_ms);
#else
	(void)pause_ms;
#endif
}

/* ---- asking ---- */

enum { TEST, TESTANY, IPROBE, STATUS, ASKS };
static const char *const asked[ASKS] = {"MPI_Test", "MPI_Testany", "MPI_Iprobe", "MPI_Request_get_status"};

static void ask(int way, MPI_Request *request, int *flag)
{
	int index;
	switch (way) {
	case TEST: MPI_Test(request, flag, MPI_STATUS_IGNORE); break;
	case TESTANY: MPI_Testany(1, request, &index, flag, MPI_STATUS_IGNORE); break;
	case IPROBE: MPI_Iprobe(0, BEYOND, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE); break;
	default: MPI_Request_get_status(*request, flag, MPI_STATUS_IGNORE);
	}
}

static void asks(int way)
{
	MPI_Request request;
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank) {
		MPI_Irecv(data, BYTES, MPI_CHAR, 0, BEYOND + 1, MPI_COMM_WORLD, &request);
		struct usage before = usage();
		int flag = 0;
		for (int i = 0; i < ASKED && !flag; i++)
			ask(way, &request, &flag);
		struct usage after = usage();
		if (flag)
			fault(asked[way], "found what was not sent", 1);
		if (after.sleeps - before.sleeps > STRAYS)
			fault(asked[way], "sleeps", (double)(after.sleeps - before.sleeps));
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		for (int to = 1; to < ranks; to++)
			MPI_Send(data, BYTES, MPI_CHAR, to, BEYOND + 1, MPI_COMM_WORLD);
	else
		MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---- yielding ---- */

/* CAP_SYS_NICE is the 23rd. */
static bool may_be_nicer(void)
{
	char line[256];
	unsigned long long caps = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			caps = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return caps >> 23 & 1;
}

/*
 * Linux says in which group a session is; where it makes none, all say nothing. Ranks that MPICH's launcher has given a core
 * each have a group each, too.
 */
static void scheduling_groups(void)
{
	char mine[64] = "", first[64];
	cpu_set_t cpus;
	bool hydra = getenv("MPI_LOCALNRANKS") != NULL;
	FILE *f = fopen("/proc/self/autogroup", "r");
	if (f && !fgets(mine, sizeof(mine), f))
		mine[0] = 0;
	if (f)
		fclose(f);
	memcpy(first, mine, sizeof(first));
	MPI_Bcast(first, sizeof(first), MPI_CHAR, 0, MPI_COMM_WORLD);
	bool apart = hydra && mine[0] && !sched_getaffinity(getppid(), sizeof(cpus), &cpus) &&
		     ranks <= CPU_COUNT(&cpus);
	if (apart && rank && strcmp(mine, first) == 0)
		fault("sharing cores", "the scheduling group of rank 0, number", atof(mine + 11));
	if (!apart && strcmp(mine, first) != 0)
		fault("yielding", "another scheduling group than that of rank 0, number", atof(mine + 11));
	const char *nice = strstr(mine, "nice ");
	if (hydra && !apart && nice && may_be_nicer() && atoi(nice + 5) >= 0)
		fault("sharing cores", "one group of all ranks weighs as little as a stranger's, nice",
		      atof(nice + 5));
}

static struct {
	int (*next)(void);
	unsigned done; /* not the provider's, and a system call was made */
} library;

/* Stands before every other: this program is linked so that libraries find it. */
int sched_yield(void)
{
	Dl_info from;
	if (!library.next)
		*(void **)&library.next = dlsym(RTLD_NEXT, "sched_yield");
	unsigned before = yields_counted;
	int rc = library.next();
	if (yields_counted != before && dladdr(__builtin_return_address(0), &from) && from.dli_fname)
		library.done += !strstr(from.dli_fname, "libsennit-fi");
	return rc;
}

/* Not counted in a crowd: there the library may yield once before the provider does. */
static void yields(void)
{
	double one = 1, sum = 0;
	cpu_set_t cpus;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) || !yields_count())
		return;
	MPI_Barrier(MPI_COMM_WORLD);
	library.done = 0;
	for (int i = 0; i < ROUNDS; i++)
		MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (library.done > ROUNDS / 10 && ranks <= CPU_COUNT(&cpus))
		fault("MPI_Allreduce", "yields of the MPI itself", library.done);
	unsigned before = yields_counted;
	for (int i = 0; i < ROUNDS; i++)
		sched_yield();
	if (yields_counted - before < ROUNDS - 1)
		fault("the program", "yields", yields_counted - before);
}

int main(int argc, char **argv)
{
	unsigned pause_ms = 250;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "-p"))
			pause_ms = (unsigned)atoi(argv[i + 1]);
	if (!share_memory()) {
		printf("waits: no memory that all see\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	scheduling_groups();
	yields();
	for (int way = 0; way < WAYS; way++)
		waits(way, pause_ms);
	window(pause_ms);
	files(pause_ms);
	for (int way = 0; way < ASKS; way++)
		asks(way);
	int all = 0;
	MPI_Reduce(&faults, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank && !all)
		printf("waits: whoever waited slept, and every byte right\n");
	MPI_Finalize();
	return faults != 0;
}

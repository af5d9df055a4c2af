/* SPDX-License-Identifier: BSD-3-Clause */
#include "here.h"
#include "base/launched.h"
#include "gpu.h"
#include "meet.h"
#include "proof.h"
#include "topology.h"
#include "unlocks.h"
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define VERSION 4 /* of what all do alike: long.h, blocks.h, bcast.h, meet.h, agree.h */

bool sn_here_all;

static union function {
	void *symbol;
	int (*init)(void *a, void *b);
	int (*init_thread)(void *a, void *b, int required, int *provided);
} next[2][2];

/* ---- the job's name ---- */

/* Process ID of the launcher's at the other end; 0: it cannot be told. */
static int launcher(void)
{
	const char *text = getenv("PMI_FD");
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);
	if (!text || getsockopt((int)sn_decimal(text), SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return 0;
	return cred.pid;
}

static uint64_t mixed(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t job_name(void)
{
	const char *space = getenv("PMIX_NAMESPACE"), *server = getenv("PMIX_SERVER_URI2");
	uint64_t start = UINT64_C(0xcbf29ce484222325);
	char number[16], numbers[64] = "";
	int pid = space && server ? 0 : launcher();
	if (space && server)
		return mixed(mixed(start, space), server);
	snprintf(number, sizeof(number), "%d", pid);
	/* containers may share the names of sockets, and have process numbers of their own */
	ssize_t len = readlink("/proc/self/ns/pid", numbers, sizeof(numbers) - 1);
	return pid && len > 0 ? mixed(mixed(start, numbers), number) : 0;
}

static socklen_t name_of(uint64_t job, int rank, struct sockaddr_un *to)
{
	*to = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(to->sun_path + 1, sizeof(to->sun_path) - 1, "sennit-here-%d-%016llx-%d", VERSION,
			 (unsigned long long)job, rank);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int socket_new(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* ---- who is here ---- */

static struct sn_launched job;
static uint64_t name;

/* The socket stays open, and its name goes with the process. */
static void say(void)
{
	struct sockaddr_un me;
	job = sn_launched();
	name = job.all > 1 && job.here == job.all && job.all <= SN_HERE_MOST ? job_name() : 0;
	int fd = name ? socket_new() : -1;
	if (fd >= 0 &&
	    (bind(fd, (struct sockaddr *)&me, name_of(name, job.rank, &me)) || listen(fd, SN_HERE_MOST)))
		close(fd);
}

static bool is_here(int rank)
{
	struct sockaddr_un it;
	struct ucred cred;
	socklen_t len = sizeof(cred), at = name_of(name, rank, &it);
	int fd = socket_new();
	bool yes = fd >= 0 && !connect(fd, (struct sockaddr *)&it, at) &&
		   !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.uid == geteuid();
	if (fd >= 0)
		close(fd);
	return yes;
}

#define BY_MPI "by the MPI, with messages: "

/* Whatever this rank lacks, it takes part, if all are here. Returns what is shown of it, where no GPU's library is loaded. */
static const char *agree(void)
{
	static const char unknown[] = BY_MPI "its calls are not known well enough";
	bool here = name != 0;
	int can, all_can = 0;
	for (int r = 0; r < job.all && here; r++)
		here = is_here(r);
	if (!here)
		return BY_MPI "not all ranks are known to be on this node under sennit run";
	if (!sn_proof_find())
		return unknown;
	bool possible = sn_quick_possible();
	can = possible && !sn_gpu_is_here() && atomic_load(&sn_mpi_shim.quick);
	handle world = sn_mpi_handle(SN_COMM_WORLD), type = sn_mpi_handle(SN_INT),
	       min = sn_mpi_handle(SN_MIN);
	if (type && min && world && !sn_proof_mpi.allreduce(&can, &all_can, 1, type, min, world))
		sn_here_all = all_can;
	if (all_can)
		return "in shared memory, without messages, after a few alike; others by the MPI";
	return possible ? BY_MPI "not all ranks can do without" : unknown;
}

static void look(void)
{
	const char *words = agree();
	/*
	 * Most programs' collectives are this one's, and from the first one on they go one way. That it has these ranks is known: to
	 * ask quietly would set its error handler, which those that are made of it have from it then, and else not (MPICH).
	 */
	if (sn_here_all)
		sn_meet_set_up(sn_mpi_handle(SN_COMM_WORLD), true);
	if (job.all > 1 && !sn_gpu_tell())
		sn_quick_tell(words);
}

bool sn_here_comm(handle comm)
{
	handle group = 0;
	int inter = 1, size = 0;
	if (sn_proof_mpi.comm_test_inter(comm, &inter) || inter || sn_proof_mpi.comm_size(comm, &size) ||
	    size < 2 || size > SN_HERE_MOST || sn_proof_mpi.comm_group(comm, &group))
		return false;
	bool yes = sn_proof_of_world(group, size);
	sn_proof_mpi.group_free(&group);
	return yes;
}

/* ---- standing in ---- */

/* One of them may call the other, or itself by its other name. */
static unsigned inside;

/*
 * What the kernel does at once for a process of one thread. With several, as Open MPI's start within MPI_Init, it waits
 * until every core has been through its scheduler (RCU), 4 to 25 ms for each: to have room for more than 64 descriptors
 * (the shareable heap's has a high number, heap.c), and to register for membarrier (src/progress/bell.c).
 */
static void before_threads(void)
{
	int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 1000);
	if (high >= 0)
		close(high);
	if (low >= 0)
		close(low);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

static int begins(int p, bool threads, void *a, void *b, int required, int *provided)
{
	static bool begun;
	const union function *mpi = &next[p][threads];
	/* after sessions it may return before all have come to it */
	if (!begun && !atomic_load(&sn_mpi_shim.quick))
		say();
	if (!begun) {
		before_threads();
		sn_topology_lighten();
	}
	begun = true;
	if (threads && required >= sn_mpi_multiple() && !atomic_load(&sn_mpi_shim.quick)) {
		atomic_store(&sn_mpi_shim.at_once, 1);
		sn_unlocks_see();
	}
	inside++;
	int rc = threads ? mpi->init_thread(a, b, required, provided) : mpi->init(a, b);
	if (!--inside && !rc)
		look();
	return rc;
}

static int init_0(void *a, void *b)
{
	return begins(0, false, a, b, 0, NULL);
}

static int init_1(void *a, void *b)
{
	return begins(1, false, a, b, 0, NULL);
}

static int init_thread_0(void *a, void *b, int required, int *provided)
{
	return begins(0, true, a, b, required, provided);
}

static int init_thread_1(void *a, void *b, int required, int *provided)
{
	return begins(1, true, a, b, required, provided);
}

void *sn_here_stand_in(const char *of, void *definition)
{
	static const union function stand_ins[2][2] = {{{.init = init_0}, {.init_thread = init_thread_0}},
						       {{.init = init_1}, {.init_thread = init_thread_1}}};
	int p = *of == 'P', threads = !strcmp(of + p, "MPI_Init_thread");
	if (!definition || (!threads && strcmp(of + p, "MPI_Init") != 0))
		return NULL;
	next[p][threads].symbol = definition;
	return stand_ins[p][threads].symbol;
}

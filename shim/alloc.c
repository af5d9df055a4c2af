/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Alloc_mem of Intel MPI gives memory of a file that its own way within a node copies from, and peers of ours may not map.
 * Where there is the heap (heap.c), what is long enough comes from it. Open MPI and MPICH ask malloc. IMB's PingPong,
 * whose buffers are such, two ranks near, us: 128 KiB 7.2 to 14 -> 4.0 to 5.0 (Intel MPI by itself 5.7), 256 KiB 12 to 17 -> 7.2 to
 * 8.0 (11.9).
 */
#include "abi.h"
#include "heap.h"
#include "lend.h"
#include "quick.h"
#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT	  __attribute__((visibility("default")))
#define LEAST	  65536	      /* bytes worth the room of a block of the heap */
#define INFO_NULL 0x1c000000u /* of MPICH's ABI */
#define OTHER	  15	      /* MPI_ERR_OTHER there */

union function {
	void *symbol;
	int (*alloc)(intptr_t size, handle info, void *base);
	int (*free)(void *base);
};

EXPORT int MPI_Alloc_mem(intptr_t size, handle info, void *base);
EXPORT int MPI_Free_mem(void *base);
EXPORT int PMPI_Alloc_mem(intptr_t size, handle info, void *base);
EXPORT int PMPI_Free_mem(void *base);

static union function alloc_mem, free_mem;
static union function alloc_seen, free_seen; /* a tool's, which calls by the other name */
static bool ours;
static void *given; /* a tree of what came from here and is not freed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *tools(const char *name)
{
	void *is = sn_mpi_find(name);
	return is && sn_quick_is_tools(name, is) ? is : NULL;
}

static void find(void)
{
	sn_mpi_find_family();
	alloc_seen.symbol = tools("MPI_Alloc_mem");
	free_seen.symbol = tools("MPI_Free_mem");
	alloc_mem.symbol = sn_mpi_find("PMPI_Alloc_mem");
	free_mem.symbol = sn_mpi_find("PMPI_Free_mem");
	ours = sn_mpi_family == MPICH && sn_mpi_is_intels() && sn_lend_own().span.bytes;
}

static void find_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
}

static int by_address(const void *a, const void *b)
{
	return a < b ? -1 : a > b;
}

/* NULL: the MPI has to. */
static void *give(intptr_t size)
{
	size_t bytes = (size_t)size < SN_HEAP_MIN ? SN_HEAP_MIN : (size_t)size;
	void *at;

	if (size < LEAST || posix_memalign(&at, SN_HEAP_UNIT, bytes))
		return NULL;
	pthread_mutex_lock(&lock);
	void *node = tsearch(at, &given, by_address);
	pthread_mutex_unlock(&lock);
	if (node)
		return at;
	free(at);
	return NULL;
}

/* With a hint of the program's it is the MPI's. */
int PMPI_Alloc_mem(intptr_t size, handle info, void *base)
{
	find_once();
	void *at = ours && (uint32_t)info == INFO_NULL ? give(size) : NULL;
	if (!at)
		return alloc_mem.symbol ? alloc_mem.alloc(size, info, base) : OTHER;
	*(void **)base = at;
	return 0;
}

int PMPI_Free_mem(void *base)
{
	find_once();
	pthread_mutex_lock(&lock);
	bool mine = given && tdelete(base, &given, by_address);
	pthread_mutex_unlock(&lock);
	if (!mine)
		return free_mem.symbol ? free_mem.free(base) : OTHER;
	free(base);
	return 0;
}

int MPI_Alloc_mem(intptr_t size, handle info, void *base)
{
	find_once();
	return alloc_seen.symbol ? alloc_seen.alloc(size, info, base) : PMPI_Alloc_mem(size, info, base);
}

int MPI_Free_mem(void *base)
{
	find_once();
	return free_seen.symbol ? free_seen.free(base) : PMPI_Free_mem(base);
}

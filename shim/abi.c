/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi.h"
#include "library.h"
#include <pthread.h>
#include <string.h>

enum sn_mpi_family sn_mpi_family;
enum sn_mpi_abi sn_mpi_abi;

/* ---- which it is ---- */

/* The ABI of MPI 5 has one name for the library, whoever made it. */
#define STANDARDS "libmpi_abi.so"

/*
 * UNKNOWN, too, are those with 64-bit integers: their status, and their numbers for ranks, are others. And Intel's
 * face for MPI 5 (2021.18, 2021.19): it calls its own handler for errors whatever MPI_Comm_set_errhandler was told, so
 * to ask it whether it knows of something (proof.c, types.c) may end the job.
 */
static void find_family_once(void)
{
	const void *definition = sn_mpi_find("PMPI_Send");
	const char *file = sn_file_with(definition);
	bool standard = sn_begins(file, STANDARDS);
	if (sn_mpi_is_open_mpi(definition))
		sn_mpi_family = OPEN_MPI;
	else if (standard ? !sn_mpi_is_intels()
			  : sn_begins(file, "libmpi.so") || sn_begins(file, "libmpich.so"))
		sn_mpi_family = MPICH;
	sn_mpi_abi = standard ? STANDARD : sn_mpi_family == OPEN_MPI ? OPEN_MPIS : MPICHS;
}

/* By the first call of all, and where the MPI begins with sessions several threads may be at theirs. */
void sn_mpi_find_family(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Atomic bool found;
	if (atomic_load_explicit(&found, memory_order_acquire) || !sn_mpi_find("PMPI_Send"))
		return;
	pthread_once(&once, find_family_once);
	atomic_store_explicit(&found, true, memory_order_release);
}

/* ---- names ---- */

int sn_quick_named(const void *table, size_t each, int n, const char *name)
{
	int i = 0;
	for (; i < n; i++) {
		const char *at = *(const char *const *)((const char *)table + (size_t)i * each);
		if (at && !strcmp(at, name + (*name == 'P')))
			break;
	}
	return i;
}

/* ---- handles ---- */

/* Open MPI's are addresses, and the program may have a copy in place of the library's. The others' are constants. */
handle sn_mpi_handle(enum sn_mpi_named which)
{
	static const struct {
		const char *open_mpis;
		uint32_t mpichs, standard;
	} table[] = {
		[SN_COMM_NULL] = {"ompi_mpi_comm_null", 0x04000000, 0x100},
		[SN_COMM_WORLD] = {"ompi_mpi_comm_world", 0x44000000, 0x101},
		[SN_COMM_SELF] = {"ompi_mpi_comm_self", 0x44000001, 0x102},
		[SN_REQUEST_NULL] = {"ompi_request_null", 0x2c000000, 0x180},
		[SN_INFO_NULL] = {"ompi_mpi_info_null", 0x1c000000, 0x130},
		[SN_MESSAGE_NULL] = {"ompi_message_null", 0x2c000000, 0x128},
		[SN_ERRORS_ARE_FATAL] = {"ompi_mpi_errors_are_fatal", 0x54000000, 0x141},
		[SN_ERRORS_RETURN] = {"ompi_mpi_errors_return", 0x54000001, 0x143},
		[SN_TYPE_NULL] = {"ompi_mpi_datatype_null", 0x0c000000, 0x200},
		[SN_BYTE] = {"ompi_mpi_byte", 0x4c00010d, 0x247},
		[SN_INT] = {"ompi_mpi_int", 0x4c000405, 0x209},
		[SN_UNSIGNED] = {"ompi_mpi_unsigned", 0x4c000406, 0x20d},
		[SN_LONG] = {"ompi_mpi_long", 0x4c000807, 0x20a},
		[SN_UNSIGNED_LONG] = {"ompi_mpi_unsigned_long", 0x4c000808, 0x20e},
		[SN_LONG_LONG] = {"ompi_mpi_long_long_int", 0x4c000809, 0x20b},
		[SN_UNSIGNED_LONG_LONG] = {"ompi_mpi_unsigned_long_long", 0x4c000819, 0x20f},
		[SN_INTEGER] = {"ompi_mpi_integer", 0x4c00041b, 0x219},
		[SN_INT32_T] = {"ompi_mpi_int32_t", 0x4c000439, 0x250},
		[SN_INT64_T] = {"ompi_mpi_int64_t", 0x4c00083a, 0x258},
		[SN_UINT32_T] = {"ompi_mpi_uint32_t", 0x4c00043d, 0x251},
		[SN_UINT64_T] = {"ompi_mpi_uint64_t", 0x4c00083e, 0x259},
		[SN_INTEGER4] = {"ompi_mpi_integer4", 0x4c000430, 0x2d1},
		[SN_INTEGER8] = {"ompi_mpi_integer8", 0x4c000831, 0x2d9},
		[SN_FLOAT] = {"ompi_mpi_float", 0x4c00040a, 0x210},
		[SN_DOUBLE] = {"ompi_mpi_double", 0x4c00080b, 0x214},
		[SN_MAX] = {"ompi_mpi_op_max", 0x58000001, 0x23},
		[SN_MIN] = {"ompi_mpi_op_min", 0x58000002, 0x22},
		[SN_SUM] = {"ompi_mpi_op_sum", 0x58000003, 0x21},
		[SN_PROD] = {"ompi_mpi_op_prod", 0x58000004, 0x24},
		[SN_BOR] = {"ompi_mpi_op_bor", 0x58000008, 0x29},
		[SN_MINLOC] = {"ompi_mpi_op_minloc", 0x5800000b, 0x38},
		[SN_MAXLOC] = {"ompi_mpi_op_maxloc", 0x5800000c, 0x39},
	};
	if (sn_mpi_abi == MPICHS)
		return table[which].mpichs;
	if (sn_mpi_abi == STANDARD)
		return table[which].standard;
	static _Atomic handle known[sizeof(table) / sizeof(table[0])];
	handle h = atomic_load_explicit(&known[which], memory_order_relaxed);
	if (!likely(h)) { /* to look for a name takes as long as a message */
		void *global = dlsym(RTLD_DEFAULT, table[which].open_mpis);
		h = (handle)(global ? global : sn_mpi_find(table[which].open_mpis));
		atomic_store_explicit(&known[which], h, memory_order_relaxed);
	}
	return h;
}

/* Where Open MPI's own lie: in its library, or where a program that is not position-independent has copies of them. */
static struct sn_library libraries[2];

static void find_open_mpis(void)
{
	sn_library_with(&libraries[0], (uintptr_t)sn_mpi_find("ompi_mpi_comm_world"));
	sn_library_named(&libraries[1], ""); /* the program comes first */
}

static bool is_open_mpis(uintptr_t h)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_open_mpis);
	return sn_object_holds(&libraries[0].info, h) || sn_object_holds(&libraries[1].info, h);
}

/*
 * What is made later lies on the heap; the others' numbers say it. Not by dladdr(), which looks through a library's
 * symbols for the nearest: 3 to 7 us, in each MPI_Mrecv of a program in Python.
 */
bool sn_mpi_builtin(handle h)
{
	if (sn_mpi_abi == MPICHS)
		return (uint32_t)h >> 30 == 1;
	return sn_mpi_abi == STANDARD ? h < 1024 : is_open_mpis(h);
}

bool sn_mpi_is_pair(handle type)
{
	return sn_mpi_abi == MPICHS &&
	       (uint32_t)type - 0x8c000000u < 5; /* MPI_FLOAT_INT to MPI_LONG_DOUBLE_INT */
}

/* ---- status ---- */

bool status_is(const void *status, int source, int tag, uint64_t len)
{
	const struct status_of_open_mpi *open_mpis = status;
	bool whole = sn_mpi_abi == OPEN_MPIS ? !open_mpis->cancelled && open_mpis->len == len
					     : !status_count(status)->high_and_cancelled &&
						       (uint64_t)status_count(status)->len == len;
	return whole && status_head(status)->source == source && status_head(status)->tag == tag;
}

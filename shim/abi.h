/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which MPI it is, and how a program and this MPI speak: how wide handles are, what the constants are called by, how a
 * status is written. Nothing here is a header of an MPI's: one library serves all of them.
 *
 * Two questions. What an MPI makes of a call (in which order it sums, what its collectives are made of) goes with its
 * family. How it is called goes with the ABI: Open MPI's own, that of MPICH and Intel MPI, which share one, or that of
 * MPI 5 (chapter 20 of the standard, libmpi_abi.so), which is another face of either family's library.
 */
#ifndef SN_SHIM_ABI_H
#define SN_SHIM_ABI_H

#include "quick.h"
#include <stddef.h>

extern enum sn_mpi_family { UNKNOWN, OPEN_MPI, MPICH } sn_mpi_family;
extern enum sn_mpi_abi { OPEN_MPIS, MPICHS, STANDARD, ABIS } sn_mpi_abi;
/* As soon as that can be told. */
void sn_mpi_find_family(void);

/* Handles are addresses, or as wide; MPICH's are numbers, half as wide. */
static inline bool sn_mpi_wide(void)
{
	return sn_mpi_abi != MPICHS;
}

/* What is passed itself: MPICH's are numbers, with whatever lies above them. */
static inline handle sn_mpi_plain(handle h)
{
	return sn_mpi_wide() ? h : (uint32_t)h;
}

/* Of several, as the program or the MPI has them in memory. */
static inline handle sn_mpi_nth(const void *handles, int i)
{
	return sn_mpi_wide() ? ((const handle *)handles)[i] : ((const uint32_t *)handles)[i];
}
static inline void sn_mpi_put(void *handles, int i, handle h)
{
	if (sn_mpi_wide())
		((handle *)handles)[i] = h;
	else
		((uint32_t *)handles)[i] = (uint32_t)h;
}
static inline void *sn_mpi_from(void *handles, int i)
{
	return (char *)handles + (size_t)i * (sn_mpi_wide() ? sizeof(handle) : sizeof(uint32_t));
}

/* ---- constants ---- */

#define UNDEFINED	 (-32766) /* MPI_UNDEFINED of every ABI */
#define MPI_ERR_TYPE	 3	  /* likewise */
#define MPI_ERR_TRUNCATE 15	  /* but MPICH's */

static inline int sn_mpi_any_tag(void) /* MPI_ANY_TAG */
{
	return sn_mpi_abi == STANDARD ? -2 : -1;
}
static inline int sn_mpi_any_source(void) /* MPI_ANY_SOURCE */
{
	return sn_mpi_abi == MPICHS ? -2 : -1;
}
static inline int sn_mpi_nobody(void) /* MPI_PROC_NULL */
{
	static const int nobody[ABIS] = {-2, -1, -3};
	return nobody[sn_mpi_abi];
}
static inline void *sn_mpi_no_status(void) /* MPI_STATUS_IGNORE */
{
	return (void *)(uintptr_t)(sn_mpi_abi == MPICHS);
}
static inline int sn_mpi_multiple(void) /* MPI_THREAD_MULTIPLE */
{
	return sn_mpi_abi == STANDARD ? 4096 : 3;
}
static inline int sn_mpi_err_other(void) /* MPI_ERR_OTHER */
{
	return sn_mpi_abi == MPICHS ? 15 : 16;
}
static inline const void *sn_mpi_same_place(void) /* MPI_IN_PLACE */
{
	return (const void *)(sn_mpi_abi == MPICHS ? UINTPTR_MAX : 1);
}
static inline bool sn_mpi_in_place(const void *buf)
{
	return buf == sn_mpi_same_place();
}

/* The handles that are needed here; abi.c has the table. */
enum sn_mpi_named {
	SN_COMM_NULL,
	SN_COMM_WORLD,
	SN_COMM_SELF,
	SN_REQUEST_NULL,
	SN_MESSAGE_NULL,
	SN_INFO_NULL,
	SN_ERRORS_ARE_FATAL,
	SN_ERRORS_RETURN,
	SN_TYPE_NULL,
	SN_BYTE,
	SN_INT,
	SN_UNSIGNED,
	SN_LONG,
	SN_UNSIGNED_LONG,
	SN_LONG_LONG,
	SN_UNSIGNED_LONG_LONG,
	SN_INTEGER,
	SN_INT32_T,
	SN_INT64_T,
	SN_UINT32_T,
	SN_UINT64_T,
	SN_INTEGER4,
	SN_INTEGER8,
	SN_FLOAT,
	SN_DOUBLE,
	SN_MAX,
	SN_MIN,
	SN_SUM,
	SN_PROD,
	SN_BOR,
	SN_MINLOC,
	SN_MAXLOC,
};
handle sn_mpi_handle(enum sn_mpi_named which);
/* Does the MPI bring it along? Of types and operations. */
bool sn_mpi_builtin(handle h);
/* And is it one of those for MPI_MINLOC and MPI_MAXLOC that MPICH numbers as it does types of the program's? */
bool sn_mpi_is_pair(handle type);

/* ---- status ---- */

struct status_head {
	int source, tag, error;
};

struct status_of_open_mpi {
	struct status_head head;
	int cancelled;
	size_t len;
};

/* Of MPICH and Intel MPI, in either ABI. */
struct status_count {
	int len, high_and_cancelled;
};

struct status_of_mpich {
	struct status_count count;
	struct status_head head;
};

/* What is behind the head is the library's own; so MPICH and Intel MPI write it, and it is looked whether they did. */
struct status_of_mpi5 {
	struct status_head head;
	struct status_count count;
	int unused[3];
};

static inline struct status_head *status_head(const void *status)
{
	size_t at = sn_mpi_abi == MPICHS ? offsetof(struct status_of_mpich, head) : 0;
	return (struct status_head *)((uintptr_t)status + at);
}

/* Not of Open MPI's. */
static inline struct status_count *status_count(const void *status)
{
	size_t at = sn_mpi_abi == MPICHS ? 0 : offsetof(struct status_of_mpi5, count);
	return (struct status_count *)((uintptr_t)status + at);
}

static inline size_t status_size(void)
{
	static const size_t sizes[ABIS] = {sizeof(struct status_of_open_mpi), sizeof(struct status_of_mpich),
					   sizeof(struct status_of_mpi5)};
	return sizes[sn_mpi_abi];
}

/* MPI_STATUS_IGNORE is 0 or 1. */
static inline bool wanted(const void *status)
{
	return (uintptr_t)status > 1;
}

/* Of a status that the MPI has written. */
static inline uint64_t status_len(const void *status)
{
	if (sn_mpi_abi == OPEN_MPIS)
		return ((const struct status_of_open_mpi *)status)->len;
	const struct status_count *c = status_count(status);
	return (uint32_t)c->len | (uint64_t)(c->high_and_cancelled >> 1) << 32;
}

/* Not the error: calls with one status leave it alone. */
static inline void status_fill(void *status, int source, int tag, int64_t len)
{
	struct status_head *head = status_head(status);
	head->source = source;
	head->tag = tag;
	if (sn_mpi_abi == OPEN_MPIS) {
		struct status_of_open_mpi *s = status;
		s->cancelled = 0;
		s->len = (size_t)len;
	} else {
		*status_count(status) =
			(struct status_count){.len = (int)len, .high_and_cancelled = (int)(len >> 32 << 1)};
	}
}

static inline void status_not_cancelled(void *status)
{
	if (sn_mpi_abi == OPEN_MPIS)
		((struct status_of_open_mpi *)status)->cancelled = 0;
	else
		status_count(status)->high_and_cancelled &= ~1;
}

/* Did the MPI write it as it is written here? */
bool status_is(const void *status, int source, int tag, uint64_t len);

#endif

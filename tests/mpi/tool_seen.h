/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that tool_seen.c stands before, and seen.c makes: those that libsennit-mpi.so may answer or make others of. */
#ifndef SN_TESTS_TOOL_SEEN_H
#define SN_TESTS_TOOL_SEEN_H

#include <mpi.h>

#define SEEN(CALL)                                                                                           \
	CALL(Alloc_mem, (MPI_Aint a, MPI_Info b, void *c), (a, b, c))                                        \
	CALL(Free_mem, (void *a), (a))                                                                       \
	CALL(Comm_disconnect, (MPI_Comm * a), (a))                                                           \
	CALL(Comm_free, (MPI_Comm * a), (a))                                                                 \
	CALL(Comm_split_type, (MPI_Comm a, int b, int c, MPI_Info d, MPI_Comm *e), (a, b, c, d, e))          \
	CALL(Win_allocate_shared, (MPI_Aint a, int b, MPI_Info c, MPI_Comm d, void *e, MPI_Win *f),          \
	     (a, b, c, d, e, f))                                                                             \
	CALL(Win_shared_query, (MPI_Win a, int b, MPI_Aint *c, int *d, void *e), (a, b, c, d, e))            \
	CALL(Win_get_attr, (MPI_Win a, int b, void *c, int *d), (a, b, c, d))                                \
	CALL(Win_free, (MPI_Win * a), (a))                                                                   \
	CALL(Mprobe, (int a, int b, MPI_Comm c, MPI_Message *d, MPI_Status *e), (a, b, c, d, e))             \
	CALL(Mrecv, (void *a, int b, MPI_Datatype c, MPI_Message *d, MPI_Status *e), (a, b, c, d, e))        \
	CALL(Bsend_init, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g),   \
	     (a, b, c, d, e, f, g))                                                                          \
	CALL(Start, (MPI_Request * a), (a))                                                                  \
	CALL(Request_free, (MPI_Request * a), (a))                                                           \
	CALL(Wait, (MPI_Request * a, MPI_Status * b), (a, b))                                                \
	CALL(Reduce, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, int f, MPI_Comm g),           \
	     (a, b, c, d, e, f, g))                                                                          \
	CALL(Scan, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f),                    \
	     (a, b, c, d, e, f))                                                                             \
	CALL(Gather,                                                                                         \
	     (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, int g, MPI_Comm h),      \
	     (a, b, c, d, e, f, g, h))                                                                       \
	CALL(Alltoallv,                                                                                      \
	     (const void *a, const int *b, const int *c, MPI_Datatype d, void *e, const int *f,              \
	      const int *g, MPI_Datatype h, MPI_Comm i),                                                     \
	     (a, b, c, d, e, f, g, h, i))

#define NUMBER(name, parameters, arguments) NUMBER_##name,
enum { SEEN(NUMBER) NUMBERS };

long tool_seen(int number);

#endif

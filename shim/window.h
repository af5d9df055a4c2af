/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows whose memory is ours, and all of whose ranks share it: made in node.c, used in onesided.c. */
#ifndef SN_SHIM_WINDOW_H
#define SN_SHIM_WINDOW_H

#include "abi.h"
#include <stdatomic.h>

struct said { /* by each rank of a communicator */
	uint64_t host;
	int64_t a, b; /* MPI_Comm_split_type: the type; windows: how long this rank's part is, and its unit */
	int64_t room; /* windows: from where it begins to the next one; nothing else lies there */
	int64_t plain; /* windows: no accelerator's memory may be among its buffers */
};

struct told {
	int ranks, rank;
	struct said *all; /* NULL: nobody has been asked, or it has failed */
};

struct sn_window_lock {
	_Atomic uint32_t pid; /* who changes that rank's part by an MPI_Accumulate or its like; 0: nobody */
	char rest[60];
};

struct window {
	struct window *next;
	handle win;
	char *mem;
	size_t bytes;
	uint32_t pid;		      /* this process */
	struct sn_window_lock *locks; /* of each rank's part, behind the last one */
	struct told parts;
	bool shared; /* by MPI_Win_allocate_shared, else by MPI_Win_allocate */
	bool plain;  /* said.plain of all */
	atomic_bool started;
	atomic_bool messages; /* some that the MPI moves may be under way */
	_Atomic int held;     /* MPI_Win_lock, MPI_Win_lock_all */
};

/* NULL: it is another one. The last one is remembered. */
struct window *sn_window_known(handle win);
char *sn_window_part(const struct window *w, int rank);

/* ---- onesided.c ---- */
/* Is it one of those that move something, or wait for that, or say who may? */
bool sn_onesided_is(const char *name);
/* What stands before this definition of a name; NULL: nothing does. definition NULL: the MPI has none. */
void *sn_onesided_stand_in(const char *name, void *definition);

#endif

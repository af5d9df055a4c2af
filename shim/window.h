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

struct sn_window_part {	      /* of each rank's part */
	_Atomic uint32_t pid; /* who changes it by an MPI_Accumulate or its like; 0: nobody (accumulate.c) */
	/* epochs.c */
	_Atomic uint32_t epochs;    /* so many share it, or SN_EPOCH_ALONE */
	_Atomic uint32_t waiting;   /* so many want it for themselves */
	_Atomic uint32_t completed; /* MPI_Win_complete, so far */
	char rest[48];
};
#define SN_EPOCH_ALONE UINT32_MAX

struct sn_window_fence {
	_Atomic uint32_t come;	   /* to the one that is under way */
	_Atomic uint32_t over;	   /* so many */
	_Atomic uint32_t sleepers; /* who wait, for whatever there is in this window */
	char rest[52];
};

enum sn_epoch { SN_EPOCH_NONE, SN_EPOCH_SHARED, SN_EPOCH_EXCLUSIVE, SN_EPOCH_STARTED };

struct sn_window_mine { /* of each rank's part, what this one has */
	char *at;
	/* epochs.c */
	enum sn_epoch epoch;
	uint32_t posts; /* of its MPI_Win_post for this rank, that have been started */
};

struct window {
	struct window *next;
	handle win;
	char *mem;
	size_t bytes;
	uint32_t pid;		      /* this process */
	struct sn_window_part *parts; /* behind the memory */
	struct sn_window_fence *fence;
	_Atomic uint32_t *posted; /* [ranks][ranks]: MPI_Win_post of that rank for this one, so far */
	struct told of;
	bool shared; /* by MPI_Win_allocate_shared, else by MPI_Win_allocate */
	bool plain;  /* said.plain of all: what is moved is ours, and so are epochs; else all is the MPI's */
	/* epochs.c: this rank's */
	bool fenced, all, started; /* MPI_Win_fence, MPI_Win_lock_all, MPI_Win_start */
	bool posts;
	uint32_t wanted;  /* of its completed, when MPI_Win_wait is over */
	_Atomic int held; /* MPI_Win_lock, or MPI_Win_lock_all */
	struct sn_window_mine mine[];
};

/* Is there any epoch in which something may be moved? */
static inline bool sn_window_has_epoch(const struct window *w)
{
	return w->fenced || w->started || atomic_load_explicit(&w->held, memory_order_relaxed);
}

/* NULL: it is another one. The last one is remembered. */
struct window *sn_window_known(handle win);

/* May such calls of this rank's be ours? All must say so. */
bool sn_window_may(void);

/* ---- epochs.c ---- */
/*
 * What begins and ends epochs on windows that are plain: the MPI hears nothing of them, and so is called for nothing in them.
 * As for sn_onesided_stand_in().
 */
bool sn_epochs_are(const char *name);
void *sn_epochs_stand_in(const char *name, void *definition);
/* True: no lock is held. Else the error that this is has been told. */
bool sn_epochs_are_over(const struct window *w, int *rc);

/* ---- onesided.c ---- */
/* Is it one of those that move something, or wait for that, or say who may? */
bool sn_onesided_is(const char *name);
/* What stands before this definition of a name; NULL: nothing does. definition NULL: the MPI has none. */
void *sn_onesided_stand_in(const char *name, void *definition);

#endif

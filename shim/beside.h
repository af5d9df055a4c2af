/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator of our own beside one of the program's, with the same ranks: for long blocks of a collective whose short
 * ones go without messages (rooted.h). What goes there meets no message of the program's, and is the MPI's to move, of
 * whatever type, from whatever memory.
 *
 * It is made by MPI_Comm_split, which copies no attribute and calls nothing of the program's, by all ranks in the same
 * call, and freed with the program's own. Its errors are returned, and told to the program's own communicator.
 */
#ifndef SN_SHIM_BESIDE_H
#define SN_SHIM_BESIDE_H

#include "meet.h"

/* All ranks call it at once, at first. False: not all have it, and it stays so. */
bool sn_beside_made(struct sn_meet *m, handle comm);
/* With the program's, which is about to be freed by all its ranks. */
void sn_beside_free(struct sn_meet *m);
/* One block. 0, or an error of the MPI's, whose handler has been called. */
int sn_beside_send(const struct sn_meet *m, handle comm, const void *buf, int64_t count, handle type, int to);
/* To itself. */
int sn_beside_own(const struct sn_meet *m, handle comm, const void *from, int64_t count, handle type,
		  void *to, int64_t in_count, handle in_type);
/* As they are written, so many of them at most as there are ranks. */
struct sn_beside {
	struct sn_meet *m;
	unsigned n;
	void *requests; /* NULL: none */
};
int sn_beside_receive(struct sn_beside *b, handle comm, void *buf, int64_t count, handle type, int from);
/* Until all have come. Nothing is left of b. rc: what has been told of the call already, or 0, likewise returned. */
int sn_beside_wait(struct sn_beside *b, handle comm, int rc);
/* Those that have not come do not come any more. Likewise. */
void sn_beside_cancel(struct sn_beside *b);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message of a type with holes is one of its bytes: MPI says that they match, so nobody needs to know how the other side
 * puts it. They are packed and unpacked here (layout.h), several times as fast as by an MPI, and go by whatever way
 * bytes go, most often the quick one (quick.h).
 *
 * MPI_Send, MPI_Recv and MPI_Sendrecv have memory for them that stays, one for what goes and one for what comes, of who
 * has the pass (holder.h). MPI_Isend and MPI_Irecv have some of their own: a short message may leave at once; else the
 * request is one of ours (requests.h) that stands for the MPI's, of the bytes, and when that has ended they are unpacked,
 * as many as have come. Few programs ask for a status, so the MPI does not tell how many: over Open MPI the provider does,
 * which has received them (shim.h, notes). Elsewhere, and before it has once been seen to, what was in the program's memory
 * is packed before, and all of it unpacked: less than all leaves the rest as it is.
 *
 * Another language may know it by the number of the MPI's, as Open MPI's Fortran does of each: then it has two names until
 * it has ended.
 *
 * As before go what MPICH and Intel MPI do not give to the provider, what the MPI calls back out of such a call, what is
 * longer than SN_PACKED_MOST, and memory that may be a GPU's.
 */
#ifndef SN_SHIM_PACKED_H
#define SN_SHIM_PACKED_H

#include "layout.h"
#include "seen.h"

#define SN_PACKED_MOST (16u << 20) /* bytes of a message */
#define SN_PACKED_SOON (8u << 10)  /* likewise, that may leave at once */
#define SN_PACKED_KEPT (1u << 20)  /* of memory that stays */

struct slot;

/* The bytes of so many elements at buf. */
struct sn_packed {
	const struct sn_layout *layout; /* NULL: at is in buf itself, where they lie together */
	char *at;
	void *buf;
	struct slot *slot; /* of who does not block: for the request (own.h) */
	int len;
	int note; /* of how much has come, its place from 1 on; 0: nobody says so */
	bool in;
	bool told;   /* another language has the MPI's name of its request */
	bool filled; /* with what was in buf */
};

/* They are packed. False: they are not, and nothing is to be ended. */
bool sn_packed_out(struct sn_packed *p, const void *buf, const struct call *c);
/* Memory for those that come. Likewise. */
bool sn_packed_in(struct sn_packed *p, void *buf, const struct call *c);
/* They have left; and those of which the status tells have come, or an error has been returned. */
void sn_packed_sent(struct sn_packed *p);
void sn_packed_came(struct sn_packed *p, int rc, const void *status);

/* Either, for a call that does not block. */
bool sn_packed_later(struct sn_packed *p, bool in, const void *buf, const struct call *c);
/* It went the quick way, and this is the request, of what leaves at once or of what is to come. */
void sn_packed_quick(struct sn_packed *p, void *request);
/* It will not: is there a request of ours for it? Else nothing is to be ended. */
bool sn_packed_slowly(struct sn_packed *p);
/* The program's is that, which stands for this one of the MPI's; or the call has ended with this error. */
void sn_packed_begun(struct sn_packed *p, int rc, handle real, void *request);
/* It has ended, and so many bytes have come; negative: nobody knows. */
void sn_packed_end(struct sn_packed *p, int64_t told);

#endif

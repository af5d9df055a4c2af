/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a program's memory goes to where all ranks can read it, and back: types without holes are copied, others packed,
 * by the MPI until it is known how their bytes lie (layout.h). For blocks.h, bcast.h and rooted.h.
 */
#ifndef SN_SHIM_TYPES_H
#define SN_SHIM_TYPES_H

#include "meet.h"

/* Remembered for some more. Size 0: it is none that may be sent. */
struct sn_meet_type sn_type_find(handle type, unsigned generation);

/*
 * What is in last, asked anew where that is of another type, or generation (collective.c): a handle may be another
 * type's when that is freed.
 */
static inline const struct sn_meet_type *sn_type_of(struct sn_meet_type *last, handle type,
						    unsigned generation)
{
	if (!likely(last->type == type && last->generation == sn_type_generation(type, generation)))
		*last = sn_type_find(type, generation);
	return last;
}

static inline size_t sn_type_bytes(const struct sn_meet_type *t, int64_t count)
{
	return (size_t)t->size * (size_t)(count > 0 ? count : 0);
}

/* Not where MPI allows a buffer to be; memory at 0 is where types say. */
static inline bool sn_type_nowhere(const struct sn_meet_type *t, const void *buf)
{
	return (!buf && t->plain) || sn_mpi_in_place(buf);
}

/* So many of them, of len bytes in all; in: whole elements. 0, or an error of the MPI's. */
int sn_type_out(struct sn_meet *m, const struct sn_collective *c, const struct sn_meet_type *t,
		const char *from, int count, char *to, size_t len);
int sn_type_in(struct sn_meet *m, const struct sn_collective *c, const struct sn_meet_type *t, char *to,
	       const char *from, size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What is moved to and from windows that all ranks share (onesided.c), and changed there (accumulate.c). */
#ifndef SN_SHIM_ONESIDED_H
#define SN_SHIM_ONESIDED_H

#include "types.h"
#include "window.h"

/* A part of a window. */
struct access {
	struct window *w;
	int rank;
	char *at;     /* NULL: the MPI does it, or says what is wrong */
	int64_t room; /* bytes from there to the end of that rank's part */
};
struct access sn_access_of(handle win, int rank, intptr_t at);
/* Where there is an epoch that is all there is to it. */
static inline bool sn_access_is_nobodys(const struct access *a)
{
	return a->rank == sn_mpi_nobody() && a->w && a->w->plain && sn_window_has_epoch(a->w);
}

/* So many of a type, in the program's memory or in the window. */
struct side {
	const void *buf;
	int64_t count;
	struct sn_meet_type t;
};
struct side sn_side_of(const void *buf, int64_t count, handle type);
static inline size_t sn_side_bytes(const struct side *s)
{
	return sn_type_bytes(&s->t, s->count);
}

/*
 * From how the program has them to how they lie in the window, or back, by the MPI where layout.h does not know them. 0, or an error of its. Not for more bytes, or
 * elements, than an int counts.
 */
int sn_side_repack(const void *from, int64_t n, handle type, void *to, int64_t to_n, handle to_type,
		   size_t bytes);
/* Words are whole to those who look at them meanwhile. */
void sn_side_copy(void *to, const void *from, size_t n);

/* ---- accumulate.c ---- */
/* Can it? Asked once, before all else. */
bool sn_change_find(void);

/* An MPI_Accumulate or its like. */
struct change {
	struct access a; /* at NULL: the MPI does it */
	struct side mine, there, result;
	handle op, element;
	int64_t elements; /* one behind the other, but there may be holes in each */
	size_t extent;
	char *room; /* for those of either side; NULL: they lie like that */
	bool gets, ours;
	bool packs; /* the program's buffers may be a GPU's, and are the MPI's to copy */
};
/* Who gets nothing begins it next. */
struct change sn_change_of(const void *from, int64_t n, handle type, int rank, intptr_t at, int64_t at_n,
			   handle at_type, handle op, handle win);
struct change sn_change_and_get(struct change c, void *to, int64_t to_n, handle to_type);
void sn_change_begin(struct change *c);
/* Of one that is ours: 0, or an error of the MPI's. */
int sn_change_do(const struct change *c);
/* MPI_Compare_and_swap. False: the MPI has to. */
bool sn_change_may_swap(const struct access *a, const struct sn_meet_type *t);
int sn_change_swap(const struct access *a, const struct sn_meet_type *t, const void *from, const void *with,
		   void *to);

#endif

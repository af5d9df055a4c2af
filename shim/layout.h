/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the bytes of a type of the program's lie in memory, and how they go to where they lie together, and back. An MPI
 * packs by an engine that can do everything, and takes 10 to 40 ns for a block of a few bytes. Where the blocks are known
 * it is one copy each, which a compiler makes of it.
 *
 * Nothing is asked of how the type was made: the MPI packs one element out of memory each byte of which says where it
 * is, and what comes out says which ones they are, and in which order. That takes some us for a small type, and tens of ms for a
 * column of a matrix of hundreds of MB, so it is done for one that is used again and again, the longer the extent the later.
 *
 * What was learned stays for ever, and types that lie alike share it. One that is freed and made again is looked at again.
 */
#ifndef SN_SHIM_LAYOUT_H
#define SN_SHIM_LAYOUT_H

#include "types.h"

/* n blocks of len bytes each, the first at `at`, each `step` bytes behind the one before. */
struct sn_run {
	intptr_t at, step;
	size_t len, n;
};

struct sn_layout {
	size_t size;	 /* of an element's bytes */
	intptr_t extent; /* from one to the next */
	bool chain;	 /* one run, which each element's goes on with */
	bool few;	 /* a few runs, each of one block */
	size_t runs;
	struct sn_run run[];
};

/* NULL: it is not known, or not yet; or this may be a GPU's memory. Any thread. */
const struct sn_layout *sn_layout_of(const struct sn_meet_type *t);
/*
 * This is one of the first uses of it, of which none asks for a layout: so nothing needs to be asked about the type. Programs there are that
 * make one for each message.
 */
bool sn_layout_is_too_new(handle type, unsigned generation);
/* One that is known by now, of this type in this generation (meet.h), wherever the memory is; NULL: it is not. */
const struct sn_layout *sn_layout_known(handle type, unsigned generation);
/* Do so many elements lie in one piece? Then it begins so many bytes behind the buffer. */
bool sn_layout_is_whole(const struct sn_layout *l, int count, intptr_t *at);
/* So many bytes of elements one after the other; the last of them may be a part of one. */
void sn_layout_pack(const struct sn_layout *l, void *to, const void *from, size_t len);
void sn_layout_unpack(const struct sn_layout *l, void *to, const void *from, size_t len);

#endif

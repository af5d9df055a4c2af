/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the bytes of a type of the program's lie in memory, and how they go to where they lie together, and back. An MPI
 * packs by an engine that can do everything, and takes 10 to 40 ns for a block of a few bytes. Where the blocks are known
 * it is one copy each, which a compiler makes of it.
 *
 * Nothing is asked of how the type was made: the MPI packs one element out of memory each byte of which says where it
 * is, and what comes out says which ones they are, and in which order. That takes about as long as the type's extent is
 * read and written three times, so it is done for one that is used again and again, the longer the extent the later.
 *
 * What was learned stays for ever: types that are freed and made again, as some programs do for each message, have the
 * same one.
 */
#ifndef SN_SHIM_LAYOUT_H
#define SN_SHIM_LAYOUT_H

#include "types.h"

struct sn_layout;
/* NULL: it is not known, or not yet; or this may be a GPU's memory. Any thread. */
const struct sn_layout *sn_layout_of(const struct sn_meet_type *t);
/* Do so many elements lie in one piece? Then it begins so many bytes behind the buffer. */
bool sn_layout_is_whole(const struct sn_layout *l, int count, intptr_t *at);
/* So many bytes of elements one after the other; the last of them may be a part of one. */
void sn_layout_pack(const struct sn_layout *l, void *to, const void *from, size_t len);
void sn_layout_unpack(const struct sn_layout *l, void *to, const void *from, size_t len);

#endif

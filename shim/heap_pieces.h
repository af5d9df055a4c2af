/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which pieces of an arena (heap.c) ask for huge pages, where other memory does not get them by itself: those that lie inside
 * one block of at least a piece, and those that two such blocks share. Elsewhere a page of 2 MiB would make memory of
 * many short blocks, of which a program has touched little, or which it has given up: Open MPI's collective writes to
 * files left 19 MB for each call, without this heap 3.
 *
 * Each place where they begin or end makes one mapping more of the process, of which it has 65,530: so not everywhere.
 */
#ifndef SN_SHIM_HEAP_PIECES_H
#define SN_SHIM_HEAP_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SN_PIECE ((size_t)2 << 20)

struct sn_pieces {
	char *base;
	uint64_t *asks; /* a bit for each piece; NULL: none are told apart */
	size_t count;
	size_t left;   /* so many more may ask */
	size_t places; /* where some begin that did not join others */
	size_t end;    /* bytes: the end of the last such block */
};

/* most: bytes that may ask; all of them: all do. False: no memory. */
bool sn_pieces_begin(struct sn_pieces *p, char *base, size_t bytes, size_t most);
void sn_pieces_end(struct sn_pieces *p);
/* A block is there, or longer than before. */
void sn_pieces_block(struct sn_pieces *p, size_t at, size_t bytes);

#endif

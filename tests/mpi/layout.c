/* SPDX-License-Identifier: BSD-3-Clause */
/* Random layouts of a message in a buffer: one piece, a vector, pieces in any order, a struct of both. */
#include "stress.h"
#include <stdlib.h>
#include <string.h>

#define MAX_PIECES 64
#define MAX_BLOCKS 4096

static void add(struct layout *l, size_t off, size_t len)
{
	if (len)
		l->seg[l->segs++] = (struct seg){off, len};
}

static void commit(struct layout *l, MPI_Datatype t)
{
	MPI_Type_commit(&t);
	l->type = t;
	l->items = 1;
	l->derived = true;
}

/* Blocks at a stride, and what is left over behind them: a struct of a vector and bytes. */
static void make_vector(struct rng *r, struct layout *l)
{
	size_t block = 1 + rnd_len(r, l->len - 1), blocks, rest, stride;
	MPI_Datatype vec, all;

	if (block < l->len / MAX_BLOCKS + 1)
		block = l->len / MAX_BLOCKS + 1;
	blocks = l->len / block;
	rest = l->len % block;
	stride = block + (block < 65536 ? below(r, block) : below(r, 4096));
	l->seg = need((blocks + 1) * sizeof(struct seg));
	for (size_t i = 0; i < blocks; i++)
		add(l, i * stride, block);
	add(l, blocks * stride, rest);
	l->span = blocks * stride + rest;
	MPI_Type_create_hvector((int)blocks, (int)block, (MPI_Aint)stride, MPI_BYTE, &vec);
	if (rest) {
		int lens[2] = {1, (int)rest};
		MPI_Aint at[2] = {0, (MPI_Aint)(blocks * stride)};
		MPI_Datatype types[2] = {vec, MPI_BYTE};

		MPI_Type_create_struct(2, lens, at, types, &all);
		MPI_Type_free(&vec);
		vec = all;
	}
	commit(l, vec);
}

/* Up to 64 pieces of any length, whose order in memory is not their order in the message. */
static void make_pieces(struct rng *r, struct layout *l, bool as_struct)
{
	int n = 1 + (int)below(r, l->len < MAX_PIECES ? l->len : MAX_PIECES), order[MAX_PIECES];
	int lens[MAX_PIECES];
	MPI_Aint at[MAX_PIECES];
	MPI_Datatype types[MAX_PIECES], t;
	size_t left = l->len, off = 0;

	l->seg = need((size_t)n * sizeof(struct seg));
	for (int i = 0; i < n; i++) {
		size_t most = left - (size_t)(n - 1 - i); /* each of the others gets a byte at least */
		size_t take = i == n - 1 ? left : 1 + below(r, 2 * left / (size_t)(n - i));

		lens[i] = (int)(take > most ? most : take);
		left -= (size_t)lens[i];
		order[i] = i;
		types[i] = MPI_BYTE;
	}
	shuffle(r, order, n);
	for (int i = 0; i < n; i++) {
		off += below(r, 100);
		at[order[i]] = (MPI_Aint)off;
		off += (size_t)lens[order[i]];
	}
	l->span = off;
	for (int i = 0; i < n; i++)
		add(l, (size_t)at[i], (size_t)lens[i]);
	if (as_struct)
		MPI_Type_create_struct(n, lens, at, types, &t);
	else
		MPI_Type_create_hindexed(n, lens, at, MPI_BYTE, &t);
	commit(l, t);
}

void layout_make(struct rng *r, size_t len, struct layout *l)
{
	int kind = !len ? 0 : (int)below(r, 6);

	*l = (struct layout){.len = len, .span = len, .type = MPI_BYTE, .items = (int)len};
	switch (kind) {
	case 1: make_vector(r, l); break;
	case 2: make_pieces(r, l, false); break;
	case 3: make_pieces(r, l, true); break;
	default: l->seg = need(sizeof(struct seg)); add(l, 0, len);
	}
}

void layout_free(struct layout *l)
{
	if (l->derived)
		MPI_Type_free(&l->type);
	free(l->seg);
	l->seg = NULL;
}

void layout_fill(const struct layout *l, void *buf, uint64_t key)
{
	size_t at = 0;

	if (l->segs != 1 || l->span != l->len)
		memset(buf, GUARD, l->span);
	for (int i = 0; i < l->segs; i++) {
		pattern_fill((char *)buf + l->seg[i].off, key, at, l->seg[i].len);
		at += l->seg[i].len;
	}
}

void layout_check(const struct layout *l, void *buf, uint64_t key, size_t got, const char *what)
{
	size_t at = 0;

	for (int i = 0; i < l->segs && at < got; i++) {
		char *p = (char *)buf + l->seg[i].off;
		size_t n = l->seg[i].len < got - at ? l->seg[i].len : got - at;

		pattern_check(p, key, at, n, what);
		memset(p, GUARD, n);
		at += n;
	}
	guard_check(buf, l->span, what);
}

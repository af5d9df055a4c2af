/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way large messages go, learned from the messages themselves: for each pair, each direction, each order of
 * arrival, and each power of two of length, what a byte cost lately on each way, the wait included. Pure arithmetic: knows
 * ways as numbers, and nothing of what they do.
 *
 * The cheapest way carries the messages; one in SN_LEARN_EXPLORE tries another, so that at most 3 % of the bytes go a
 * way that may be worse, and a way that was n times dearer is asked only at every n-th turn of its own, up to the
 * 8th, so that trying costs at most 3 % of the time as well. A single sample moves the average little, and one that
 * is far off not at all (somebody lost his core); but when SN_LEARN_ODD in a row are far off, then the cores have
 * moved, or the buffers are of another kind: everything that was known is asked anew, each way SN_LEARN_FRESH times
 * in turn. So a move is noticed and answered within SN_LEARN_ODD + SN_LEARN_FRESH * ways messages, which is 13 for
 * three ways that are allowed. The caller asks for the same (sn_learn_restart) when it sees that one of the two
 * processes runs on another processor. A way that became better while the best stayed as it was shows when it is
 * tried.
 *
 * The first message of all counts only if it is cheaper than the guess: it is the one for which pages are mapped, on
 * both sides, and by what it cost its way would not be asked again for SN_LEARN_EXPLORE messages.
 *
 * Budget: a pick and a note are some ten instructions, no clock is read here.
 */
#ifndef SN_COPY_LEARN_H
#define SN_COPY_LEARN_H

#include <stdbool.h>
#include <stdint.h>

enum sn_way { SN_WAY_SINGLE, SN_WAY_SHARED, SN_WAY_STREAM, SN_WAY_MODULE, SN_WAY_ENGINE, SN_WAYS };

#define SN_LEARN_EXPLORE 32u
#define SN_LEARN_ODD	 4u
#define SN_LEARN_FRESH	 3u
#define SN_LEARN_FIRST	 15 /* log2 of the smallest class */
#define SN_LEARN_CLASSES 14 /* up to 256 MiB and more */

struct sn_learn_class {
	float cost[SN_WAYS];	   /* ps a byte; 0: nothing is known, not even a guess */
	uint16_t samples[SN_WAYS]; /* 0: the cost is a guess, which the first sample replaces */
	uint32_t turn;
	uint8_t best, probe, odd, fresh;
	uint8_t skipped[SN_WAYS]; /* turns at which it was too dear to be tried */
	uint32_t relearned;	  /* how often everything was asked anew */
};

struct sn_learn {
	struct sn_learn_class at[SN_LEARN_CLASSES];
};

/* Start from guesses: bytes a second (10^6) of each way when it runs, and what it costs before the first byte, in ns. */
void sn_learn_init(struct sn_learn *l, const uint32_t mbytes_s[SN_WAYS], const uint32_t start_ns[SN_WAYS]);
unsigned sn_learn_class_of(uint64_t len);
/* The way for the next message of this class; allowed is a set of 1 << way, not empty. */
enum sn_way sn_learn_pick(struct sn_learn_class *c, unsigned allowed);
/* The cheapest of these, so far as is known. */
enum sn_way sn_learn_best(const struct sn_learn_class *c, unsigned allowed);
/* A message of len bytes went this way and took so long. True: another way is the best now. */
bool sn_learn_note(struct sn_learn_class *c, enum sn_way way, uint64_t len, uint64_t ns);
/* What is known may not hold any more: ask each way anew. */
void sn_learn_restart(struct sn_learn_class *c);
const char *sn_way_name(enum sn_way way);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the ranks of a communicator meet: memory that all of them share, and how they wait for each other there. For
 * flat.h, blocks.h and long.h.
 *
 * The first rank makes the memory, tells the others where it is by MPI_Bcast, and MPI_Allreduce says whether all have
 * it; if not, the communicator stays as it is. It has no name, so nothing is left behind. A page of it is there once
 * it is written. A second MPI_Allreduce says whether each rank can read what lies in the others' shareable heaps
 * (lend.h).
 *
 * Who waits looks, and gives the core to others, as any other (relax.h), with looks of the MPI in between, on whose
 * progress others may depend; then he sleeps, until somebody has written, who sees that there are sleepers (both
 * write before they look, in one order of all), or for a moment. A process that has ended is found then, and the
 * error handler is called.
 *
 * Where several threads call, those of one communicator do so one after the other, and each communicator has all that
 * it needs. What there are of them is a list that only grows.
 */
#ifndef SN_SHIM_MEET_H
#define SN_SHIM_MEET_H

#include "copy/far.h"
#include "freed.h"
#include "lend.h"
#include "proof.h"

#define SN_MEET_RANKS 64
#define SN_MEET_ROOM  1024 /* flat.h: bytes of an operand */
#define SN_MEET_SHORT 48   /* likewise: of one that its line has room for */
#define SN_MEET_FORMS 16   /* likewise: of a communicator */
#define SN_MEET_SUMS  4096 /* long.h: bytes that are summed at a time: in the nearest cache */
#define SN_MEET_PIECE                                                                                        \
	(64u << 10) /* long.h: bytes of an operand that are under way at a time; also other than 2^k ones */
#define SN_MEET_RING   (2048u << 10) /* likewise: of two ranks. For each, and one more for sums */
#define SN_MEET_BLOCKS (256u << 10)  /* blocks.h: bytes that a rank brings along, at most */
#define SN_MEET_PLACES 16	     /* bcast.h, rooted.h: calls that who writes may be ahead of who reads */
#define SN_MEET_PLACE  (64u << 10)   /* likewise: bytes of a call */
#define SN_MEET_BLOCK                                                                                        \
	((size_t)16                                                                                          \
	 << 10) /* blocks.h, bcast.h, rooted.h: bytes of a block. Longer ones go as fast by messages, of which each is copied once */
#define SN_MEET_BEGUN                                                                                        \
	16 /* begun.h: calls of a rank that all but the slowest have read by the next time round */
#define SN_MEET_MORE   256   /* likewise: that it may be ahead of those */
#define SN_MEET_BRINGS 16384 /* likewise: bytes that a rank brings along */
#define SN_MEET_CALLS  16    /* blocks.h, bcast.h: to make the memory takes as long as some of them */
#define SN_MEET_PERIOD 64 /* calls, or pieces, of which one looks for the MPI, that its own affairs go on */

struct sn_meet_line {	       /* flat.h: one rank's */
	_Atomic uint64_t call; /*  0 that it has come to */
	uint64_t said;	       /*  8 blocks.h: of what is brought along */
	char data
		[SN_MEET_SHORT]; /* 16 what it brings along, if that fits; so that the longest types are aligned */
};
_Static_assert(sizeof(struct sn_meet_line) == 64, "a cache line");

struct sn_meet_words {	       /* long.h: one rank's */
	_Atomic uint64_t here; /*   0 so many pieces of its operands are where others read them */
	_Atomic uint64_t done; /*   8 so many of the others' it has read, and its share of the sum is there */
	uint64_t at
		[2]; /*  16 in its process: where the operand lies that it lends in this call, or the next; 0: it brings it along */
	uint32_t in_place[2]; /*  32 likewise: the sum is to be there as well */
	char pad[88];
	_Atomic uint64_t calls; /* 128 that it has come to: no line that anybody waits for */
	char rest[56];
};
_Static_assert(sizeof(struct sn_meet_words) == 192,
	       "lines of the cache, and no neighbour's, which is fetched with one");

struct sn_meet_begun {		 /* begun.h: one rank's */
	_Atomic uint64_t posted; /*  0 so many of its calls it has brought along what there is */
	_Atomic uint64_t done;	 /*  8 and so many it has read what others have */
};

/*
 * Then words[ranks], line[2][ranks], read[ranks], taken[ranks], places[PLACES], up[PLACES][ranks], cell[2][ranks][ranks], what does not fit into lines
 * [2][ranks][ROOM], and into places [PLACES][PLACE], rings[ranks + 1], and what does not fit into up [ranks][PLACES][PLACE]; and of each rank begun,
 * line[BEGUN + MORE], and what does not fit into these. And notes[ranks][SN_AGREE_CALLS] (agree.h).
 */
struct sn_meet_memory {
	uint64_t key;		   /*    0 not another's */
	_Atomic uint32_t sleepers; /*    8 */
	_Atomic uint32_t bell;	   /*   12 grows when somebody has written who has seen sleepers */
	_Atomic uint32_t failed;   /*   16 one has ended, so no call that not all have come to will be over */
	int32_t pid[SN_MEET_RANKS];	    /*   20 */
	uint64_t began[SN_MEET_RANKS];	    /*  280 */
	struct sn_lent heap[SN_MEET_RANKS]; /*  792 */
	char pad[40];
	struct sn_meet_words words[]; /* 3904 */
};
_Static_assert(sizeof(struct sn_meet_memory) == 3904, "lines of the cache");

struct sn_meet_form {
	int kind, count, size;
	handle op;
};

/* The number of this generation (collective.c) for this type, which may be freed in it. */
static inline unsigned sn_type_generation(handle type, unsigned generation)
{
	return generation + sn_freed(type);
}

struct sn_layout;
struct sn_meet_type { /* blocks.h: as it was in this generation (collective.c) */
	handle type;
	unsigned generation;
	int size;			/* 0: it is none */
	bool plain;			/* the MPI's own, without holes: to be copied, else packed */
	bool stays;			/* the MPI's own, which nobody frees */
	const struct sn_layout *layout; /* known for ever (layout.h); NULL: that is to be asked */
	bool solid; /* its bytes are the first ones of its extent, without holes; but behind them there may be one */
	intptr_t extent;
};

/* Of calls that a meeting may find to be the MPI's after all; all ranks hear the same of each. */
struct sn_meet_turns {
	unsigned char fails, rest; /* found so in a row; and so many more are not even asked */
};

/* long.h: what sums of a type and an operation are made of. */
struct sn_long_form {
	size_t element; /* bytes from one element to the next; 0: of such the MPI makes the sum */
	size_t data;	/* of which the first so many are the element */
	bool own;	/* the operation is one of the program's */
	bool any_order; /* the result is the same in whatever order operands come, to the bit; not of all of which that is true */
};

struct sn_meet {
	_Atomic handle comm;   /* 0: nobody's */
	struct sn_meet *older; /* the next one in the list of all */
	/* from here on, but for ep, one thread's at a time, as its collectives are */
	void *_Atomic ep;	    /* of the MPI, by which its messages go; NULL: it is no more */
	struct sn_meet_memory *mem; /* NULL: not all ranks have it, and it stays so */
	_Atomic unsigned
		counted; /* below SN_MEET_CALLS: so many calls would have had the memory, and nobody has been asked yet */
	unsigned ranks, rank;
	handle type; /* of the last call, and its size, in that generation */
	int size;
	unsigned generation;
	char *sums; /* room for some; of long.h and rooted.h: one, and behind it one operand */
	_Atomic uintptr_t from,
		to; /* its regions, and whether they may be a GPU's; and of what ends beside it */
	atomic_bool gpu;
	/* flat.h */
	uint64_t call;
	unsigned forms;
	struct sn_meet_form form[SN_MEET_FORMS];
	/* blocks.h, and bcast.h */
	struct sn_meet_type types[2];  /* of the last call: what came, and what went */
	uint64_t bcasts, read;	       /* so far, and of so many all have said that they have read them */
	struct sn_meet_turns scatters; /* MPI_Scatterv */
	/* vary.h */
	struct sn_meet_turns varied;
	/* rooted.h */
	uint64_t rooted,
		taken[SN_MEET_RANKS]; /* so far, and of so many that rank has said that it is done with them */
	unsigned char roots[SN_MEET_PLACES]; /* of the last ones */
	handle beside;			     /* beside.h */
	bool beside_asked;
	/* begun.h */
	bool begins;			  /* all of its ranks can */
	bool sums_went;			  /* some whose bits depend on the order were the MPI's */
	bool waits;			  /* some have been counted */
	uint64_t begun, begun_read;	  /* so far, and of so many all have said that they have read them */
	bool behind;			  /* others may wait for what this rank does (underway.c) */
	struct sn_begun *oldest, *newest; /* of this rank's, that are not over */
	struct sn_begun_held *held, *held_last; /* what it brings along, and there is no room for yet */
	struct sn_meet_type begun_types[2];
	/* long.h */
	bool here;		   /* its ranks are all of this job, and all have this library */
	uint64_t calls, pieces;	   /* so far */
	size_t ring, lap;	   /* how long it is; how much of it sums take in turns */
	size_t next, last;	   /* where the next piece goes, and where the last one is */
	size_t at[2];		   /* this one, and the one before */
	handle long_type, long_op; /* of the last call; UINTPTR_MAX: that is not remembered */
	struct sn_long_form sum;
	bool lends;
	struct sn_lent heap;
	const char *heaps[SN_MEET_RANKS]; /* here */
	uint64_t reach[SN_MEET_RANKS];	  /* so much of their blocks can be read, or more */
	struct sn_far far;
	/* agree.h */
	uint64_t noted;	   /* calls so far */
	handle noted_type; /* of the last one of an MPI's own type, and its bytes */
	uint64_t noted_bytes;
	atomic_bool doubts; /* some may not have been counted */
};

/* NULL: its ranks have not been asked. */
struct sn_meet *sn_meet_of(handle comm);
/*
 * For calls that go without the MPI by what all ranks know of each other; first_of() says what a call is worth on a
 * communicator whose ranks have not been asked. NULL: not this one.
 */
struct sn_meet *sn_meet_first(const struct sn_collective *c,
			      struct sn_meet *(*first_of)(const struct sn_collective *c));
static inline struct sn_meet *sn_meet_known(const struct sn_collective *c,
					    struct sn_meet *(*first_of)(const struct sn_collective *c))
{
	struct sn_meet *m = sn_meet_of(c->comm);
	if (!likely(m))
		m = sn_meet_first(c, first_of);
	return m && m->here ? m : NULL;
}

/*
 * How many it has. 0: it is of two groups, or the call's root is none of its ranks: whoever takes no part in such a call
 * has arguments that say nothing.
 */
unsigned sn_meet_ranks(const struct sn_collective *c);
/* This rank has no buffer for the call of that name that MPI allows, and the program is told: an error of the MPI's. */
int sn_meet_no_buffer(handle comm, unsigned rank, const char *name);
/* May one more have memory, as far as it is this rank's affair? */
bool sn_meet_room(void);
/*
 * All ranks call it at once. here: sn_meet.here, if there is memory. NULL: there is none to remember it, and the
 * program is told.
 */
struct sn_meet *sn_meet_set_up(handle comm, bool here);
/* If its ranks are all of this job (here.h): likewise; else it shall have none. */
struct sn_meet *sn_meet_here(handle comm);
/* Likewise, with the SN_MEET_CALLSth of such calls; NULL before that. */
struct sn_meet *sn_meet_after(handle comm);
/*
 * Likewise of a call that does not block: all ranks cannot be asked in it, but in the next one that does, of whatever
 * kind.
 */
void sn_meet_counts(handle comm, bool sums);
/* Would that change nothing any more? */
bool sn_meet_counted(handle comm, bool sums);
extern _Atomic unsigned sn_meet_waiting; /* communicators with such calls, whose ranks have not been asked */
void sn_meet_in_time(handle comm);
/* It shall have none. */
struct sn_meet *sn_meet_never(handle comm);
/* Do all of its ranks say so? They call it at once. */
bool sn_meet_all(bool mine, handle comm);
/* Of its type. */
int sn_meet_size(struct sn_meet *m, const struct sn_collective *c);

/* places.c: of so many ranks the memory, each ring, and how much of that sums take in turns. */
size_t sn_meet_bytes(unsigned ranks);
size_t sn_meet_ring_of(unsigned ranks);
size_t sn_meet_lap_of(unsigned ranks);

/*
 * flat.h, blocks.h: in this generation; bcast.h: in the third one, which says what this rank has read; rooted.h: in the
 * fourth, how far it is.
 */
struct sn_meet_line *sn_meet_line(const struct sn_meet *m, unsigned generation, unsigned rank);
/* For what does not fit into that line. */
char *sn_meet_rest(const struct sn_meet *m, const struct sn_meet_line *line);
/* bcast.h: of this call. */
struct sn_meet_line *sn_meet_place_line(const struct sn_meet *m, uint64_t call);
char *sn_meet_place_room(const struct sn_meet *m, uint64_t call, size_t len);
/* rooted.h: that rank's, of this call. */
struct sn_meet_line *sn_meet_up_line(const struct sn_meet *m, uint64_t call, unsigned rank);
char *sn_meet_up_room(const struct sn_meet *m, uint64_t call, unsigned rank, size_t len);
/* vary.h: of what this rank has for that one, in this generation. */
struct sn_meet_line *sn_meet_cell(const struct sn_meet *m, unsigned generation, unsigned from, unsigned to);
char *sn_meet_ring(const struct sn_meet *m, unsigned rank);
/* begun.h: that rank's; and the line of its call is one of these two. */
struct sn_meet_begun *sn_meet_begun(const struct sn_meet *m, unsigned rank);
struct sn_meet_line *sn_meet_begun_line(const struct sn_meet *m, unsigned rank, uint64_t call);
struct sn_meet_line *sn_meet_more_line(const struct sn_meet *m, unsigned rank, uint64_t call);
char *sn_meet_begun_room(const struct sn_meet *m, unsigned rank, struct sn_meet_line *line, size_t len);
/* agree.h: what that rank has noted. */
struct sn_agree_call *sn_meet_notes(const struct sn_meet *m, unsigned rank);

/*
 * Where the next piece goes in each rank's ring: behind the last one, or at its beginning, after `lap` bytes if that
 * leaves the last one alone.
 */
static inline size_t sn_meet_next(struct sn_meet *m, size_t len, size_t lap)
{
	bool back = m->next + len > m->ring || (m->next + len > lap && m->last >= len);
	m->last = back ? 0 : m->next;
	m->next = m->last + (len + 63) / 64 * 64;
	return m->last;
}

/* A word of this rank's, to all. */
void sn_meet_say(struct sn_meet *m, _Atomic uint64_t *word, uint64_t number);
/* What was written before is seen by those who sleep, too. */
void sn_meet_said(struct sn_meet *m);
/* Until this rank's word is so much, or more: 0, or an error of the MPI's, whose handler has been called. */
int sn_meet_await(struct sn_meet *m, handle comm, unsigned rank, const _Atomic uint64_t *word,
		  uint64_t number);
/* For a moment, unless it is so much; not where others depend on this one's looks. */
void sn_meet_nap(struct sn_meet *m, unsigned rank, const _Atomic uint64_t *word, uint64_t number);
/* In place of what a call ends with: it is the MPI's after all. All ranks hear the same. */
#define SN_MEET_MPIS (-1)
#define SN_MEET_REST                                                                                         \
	32 /* calls that were the MPI's, of which half as many then are its unasked: the most that count */
static inline bool sn_meet_asks(struct sn_meet_turns *t)
{
	if (likely(!t->rest))
		return true;
	t->rest--;
	return false;
}
static inline void sn_meet_heard(struct sn_meet_turns *t, bool mpis)
{
	t->fails = (unsigned char)(!mpis ? 0 : t->fails ? 2 * t->fails : 1);
	t->fails = t->fails > SN_MEET_REST ? SN_MEET_REST : t->fails;
	t->rest = (unsigned char)(t->fails / 2);
}

/* Has that process ended? And if that is before it has come: the user is told, and whoever waits. */
bool sn_meet_has_ended(const struct sn_meet *m, unsigned rank);
void sn_meet_fails(struct sn_meet *m, unsigned rank);
/* The MPI's own affairs; and after so many calls without them. */
void sn_meet_look(const struct sn_meet *m);
static inline void sn_meet_called(const struct sn_meet *m, uint64_t calls)
{
	if (!likely(calls % SN_MEET_PERIOD) || sn_elsewhere_is_due())
		sn_meet_look(m);
}
/* May this call's buffers be a GPU's? Asked where they are not the last one's. */
bool sn_meet_gpu(struct sn_meet *m, const struct sn_collective *c);
/* A copy out of the program's memory, or into it. */
void sn_meet_copy(struct sn_meet *m, const struct sn_collective *c, void *to, const void *from, size_t len);

/* Whatever there is, with memory or without. */
void sn_meet_each(void (*what)(struct sn_meet *m));
/* The endpoint is closed. */
void sn_meet_gone(const void *ep);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long MPI_Allreduce on one node, without messages: each rank reads what the others bring along in memory that they
 * share, and two ranks make the whole sum each for itself; of more each makes a share of it, and reads the others'
 * shares. And MPI_Reduce of more than rooted.h has, likewise: of two ranks the root alone reads, and makes the sum, and of more
 * it alone reads the others' shares.
 *
 * Nothing is watched for it. What MPI demands to be the same on all ranks (the count, the type, the operation) and
 * what all know of each other (here.h) says which calls these are: the operation and the type are the MPI's own,
 * elements lie without holes, SN_LONG_LEAST bytes at least, of two ranks SN_LONG_LEAST_OF_TWO (over MPICH as many elements as ranks), a communicator of
 * one group, of ranks of this job alone. And, however short, what is never seen to go without the MPI in another way
 * (collective.h): elements that have a hole behind them, as those of MPI_DOUBLE_INT for MPI_MINLOC, and operations of the program's
 * own that may take operands in any order (ops.h), of whatever types without holes within. The first such call on it makes the memory (meet.h); where that fails, all
 * of its calls stay the MPI's. So all calls of a form go one way, from the first on, and with the same operands each
 * result is the same, to the bit, and on all ranks. The operands' order is that of the ranks, the last one's first,
 * with which MPI_Reduce_local makes them.
 *
 * An operand goes in pieces. Whose lies in the shareable heap (lend.h) says where, and is done; else he copies a
 * piece into the memory and says that it is here, while the others are at the one before: two words of each rank,
 * here and done, count pieces since the communicator was set up. A piece is put where there were others, all of which
 * are done with it: who writes piece k has seen that all are done with k - 2. Two ranks: done says that it has read
 * that piece of the other's. Who has lent leaves when the other has read all, and who has brought along to one who
 * lends, when he has read all but the last one. More: done says that it has read its share of that piece of all, and
 * that the share's sum is there; who has seen that of all reads the sum. Who leaves a call has seen in it a word of
 * each other that it has come to it, so none is more than a call ahead: where an operand lies is said in two places
 * in turns, and so it is with the sums.
 *
 * Two ranks whose operands both lie where the sums are to be, in the heap, in more than a piece: each makes the sum of
 * half of them, and copies the other half's from the other.
 *
 * A piece does not take the place of the one before the last, but the next in a ring as long as the cache of a core:
 * to write a line that another core has just read takes 7 ns, one that has left its cache meanwhile 3. Where the
 * cores do not share a cache a line that the other has to fetch out of this one's takes 30, and past the cache 9. So
 * it is written past it there, which is seen in a line of the other's that he writes in each call (far.h).
 *
 * A GPU's library that is loaded later: meet.h, sn_meet_copy(). Then operands are brought along, and nothing but that
 * reads or writes the program's memory.
 *
 * Budget: no system call but to wait; nothing is allocated. Two ranks that lend: two waits, no copy. Others: a wait
 * for each piece, and of more than two ranks one more; a copy in for who does not lend, and of more than two ranks
 * one out.
 */
#ifndef SN_SHIM_LONG_H
#define SN_SHIM_LONG_H

#include "meet.h"

#define SN_LONG_LEAST 2048 /* bytes; and not what flat.h has */
#define SN_LONG_LEAST_OF_TWO                                                                                 \
	768 /* likewise, of two ranks, which have nothing flat: shorter ones are as fast by messages */

/* Of this type and operation, in that generation of types (collective.c). */
struct sn_long_form sn_long_form(handle type, handle op, unsigned generation);
/* Of this call; in m->form from here on, which the next one may have too, unless somebody may free what it is of. */
void sn_long_learn(struct sn_meet *m, const struct sn_collective *c);
static inline size_t sn_long_element_of(struct sn_meet *m, const struct sn_collective *c)
{
	if (!likely(m->long_type == c->type && m->long_op == c->op))
		sn_long_learn(m, c);
	return m->sum.element;
}
/*
 * Is it of those that nobody else makes here: with an operation of the program's own, or with holes behind each element? Of these
 * the result is written element by element, and not where it shall be before it is whole.
 */
static inline bool sn_long_is_odd(const struct sn_long_form *f)
{
	return f->own || f->element != f->data;
}
static inline bool sn_long_has_holes(const struct sn_meet *m)
{
	return !likely(m->sum.element == m->sum.data);
}
/* Of so many bytes of whole elements: without the hole behind the last one, where a program's memory may end. */
static inline size_t sn_long_filled(const struct sn_meet *m, size_t len)
{
	return len ? len - (m->sum.element - m->sum.data) : 0;
}
/*
 * To a sum an operand of SN_MEET_SUMS bytes at most. A program's function may use what it is given as room of its own, as MPIs give
 * it copies; and here that is what others read, or cannot be written. So it gets a copy.
 */
int sn_long_add(struct sn_meet *m, const struct sn_collective *c, const char *in, char *sum, size_t len);
/* A result, to where it shall be, and to nothing between its elements. */
void sn_long_out(struct sn_meet *m, const struct sn_collective *c, char *to, const char *sum, size_t len);

/*
 * Is this call one of these? Of the first one on a communicator all ranks ask at once. One that MPI does not allow is not, unless it is the root
 * alone that knows it.
 */
struct sn_meet *sn_long_of(const struct sn_collective *c, const void *from, const void *to);
/* Then this is it: 0, or an error of the MPI's. */
int sn_long_do(struct sn_meet *m, const struct sn_collective *c, const void *from, void *to);

#endif

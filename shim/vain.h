/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions asked in vain: MPI_Test and its like of what is the MPI's, and MPI_Iprobe where the MPI has to look. Over a provider it
 * looks for three times as long as in memory of its own. A program that asks between two pieces of work shorter than that is as
 * slow as its questions: HPCC's RandomAccess, which asks before each of its updates, took twice as long. So who asks the
 * same again, and has made no other call, hears the same for a 16th of the time for which he has been asking, and for 2 us at
 * most. Not who does nothing between two questions, so that none is late for him; nor in a crowd, where the MPI's look
 * gives the core away, nor while the MPI has something to move by such looks.
 *
 * MPI promises no more than that an answer comes some time after the message; any other call by the thread, which may have
 * moved something, makes the next question the MPI's.
 */
#ifndef SN_SHIM_VAIN_H
#define SN_SHIM_VAIN_H

#include "holder.h"

#define SN_VAIN_PART  16
#define SN_VAIN_TICKS 6000
#define SN_VAIN_TIGHT                                                                                        \
	90 /* ticks from question to question, of which one takes 50 to 80: less is nothing but asking */

/*
 * What stands for a question is summed up by this, argument by argument. No two of a program's may stand for the same: the second
 * would be answered by what was heard of the first, each time anew.
 */
static inline uint64_t sn_vain_sum(uint64_t sum, uint64_t argument)
{
	sum = (sum ^ argument) * 0xd6e8feb86659fd93u;
	sum = (sum ^ sum >> 32) * 0xd6e8feb86659fd93u;
	return sum ^ sum >> 32;
}

/* Was the call before this one such a question? Else it need not be said what this one asks. */
static inline bool sn_vain_may(void)
{
	const struct sn_mine *mine = sn_mpi_thread.mine;
	return !likely(!mine || !mine->vain.what || sn_mpi_thread.calls != mine->vain.calls + 1);
}

/* It may; what: stands for the call and its arguments; 0: it is never answered here. */
static inline bool sn_vain_is(uintptr_t what)
{
	struct sn_vain *v = &sn_mpi_thread.mine->vain;
	if (v->what != what)
		return false;
	uint64_t most = (v->last - v->first) / SN_VAIN_PART, since = sn_quick_ticks() - v->last;
	if (v->works && since < (most < SN_VAIN_TICKS ? most : SN_VAIN_TICKS)) {
		v->calls++;
		v->unasked++;
		return true;
	}
	v->works = since >= SN_VAIN_TIGHT * (v->unasked + 1);
	return false;
}

/* The MPI has answered, in vain or not; calls: sn_mpi_thread.calls before that. */
void sn_vain_was(uintptr_t what, bool vain, uint32_t calls);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate: while frames are under way requests gather, of all tags, communicators and kinds, and leave together in as few
 * frames as hold them. A lone message on idle rails leaves at once: up to SN_SCHED_GATHER frames are let go one by one,
 * which costs nobody any time as the wire takes them as fast as one process can post them. After bursts only the first
 * one is, for each call costs as much as posting tens of messages.
 *
 * The end of a burst waits for no acknowledgement: when the application looks, and so posts nothing more, the frame
 * leaves as it is, with the train. One such frame a round trip, or a program that looks after each post would never
 * gather.
 */
#include "sched/sched.h"

static uint32_t alone(const struct sn_window *w)
{
	return w->bursts ? 1 : SN_SCHED_GATHER;
}

static bool ready(const struct sn_window *w)
{
	return w->flight < alone(w) || w->bytes >= w->frame || (w->waits && !w->tail);
}

static bool join(const struct sn_window *w, uint32_t inside)
{
	return true;
}

/*
 * While enough others are under way, full frames make a train: one system call, and one look by each layer below.
 * Filled for four times what a call takes it leaves: so calls cost a fifth at most, and the receiver works while the
 * sender fills the next.
 */
static bool depart(const struct sn_window *w, uint32_t frames)
{
	return frames >= SN_SCHED_TRAIN || w->flight < alone(w) + frames ||
	       w->since >= SN_SCHED_PART * w->call;
}

const struct sn_strategy sn_strategy_aggregate = {
	.name = "aggregate",
	.help = "requests that wait share frames",
	.ready = ready,
	.join = join,
	.depart = depart,
};

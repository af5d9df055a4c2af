/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate: while frames are under way requests gather, of all tags, communicators and kinds, and leave together in as few
 * frames as hold them. A lone message on idle rails leaves at once: up to SN_SCHED_GATHER frames are let go one by one,
 * which costs nobody any time as the wire takes them as fast as one process can post them.
 */
#include "sched/sched.h"

static bool ready(const struct sn_window *w)
{
	return w->flight < SN_SCHED_GATHER || w->bytes >= w->frame;
}

static bool join(const struct sn_window *w, uint32_t inside)
{
	return true;
}

/* While enough others are under way, full frames make a train: one system call, and one look by each layer below. */
static bool depart(const struct sn_window *w, uint32_t frames)
{
	return frames >= SN_SCHED_TRAIN || w->flight < SN_SCHED_GATHER + frames;
}

const struct sn_strategy sn_strategy_aggregate = {
	.name = "aggregate",
	.help = "requests that wait share frames",
	.ready = ready,
	.join = join,
	.depart = depart,
};

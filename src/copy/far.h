/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the peer's core shares a cache with this one, seen from here while messages go.
 *
 * A line that the peer writes whenever he looks for messages is read now and then, and the clock before and after.
 * Read from a core that shares a cache it took 30 to 60 ns with both readings of the clock, from one that does not
 * 120 to 160 (an AMD; its two virtual cores move to and fro within seconds). Of a line that he has not written
 * meanwhile, or that took so long because somebody else had the core, nothing follows: the first kind is left out,
 * and a change is believed when SN_FAR_DOUBTS looks in a row say it.
 *
 * Pure arithmetic. Budget: one look in SN_FAR_LOOK_NS, which is one line, and two readings of the clock.
 */
#ifndef SN_COPY_FAR_H
#define SN_COPY_FAR_H

#include <stdbool.h>
#include <stdint.h>

#define SN_FAR_LOOK_NS	50000
#define SN_FAR_DOUBTS	3
#define SN_NEAR_NS	90  /* less: it shares a cache */
#define SN_FAR_APART_NS 62  /* more: it may, but each has a part of it, and lines go between them */
#define SN_FAR_NS	110 /* more: it does not; what lies between changes nothing */

struct sn_far {
	uint64_t looked_at; /* 0: never */
	uint64_t written;   /* what the line held then */
	uint32_t ns;	    /* what it took */
	bool known, far;
	uint8_t doubts; /* so many looks in a row have said otherwise */
};

/* Do the peer's lines take so long that it pays to ask for them early? By the last look alone: it is only a hint. */
static inline bool sn_far_apart(const struct sn_far *f)
{
	return f->known && f->ns >= SN_FAR_APART_NS;
}

static inline bool sn_far_asks(const struct sn_far *f, uint64_t now)
{
	return now - f->looked_at >= SN_FAR_LOOK_NS || !f->known;
}

/* One look. True: it is known where the peer's core is, and it was not before, or elsewhere. */
static inline bool sn_far_look(struct sn_far *f, uint64_t now, uint64_t written, uint64_t ns)
{
	if (written == f->written)
		return false;
	bool touched = f->looked_at, first = touched && !f->known,
	     far = ns > SN_FAR_NS || (f->far && ns >= SN_NEAR_NS);
	f->looked_at = now;
	f->written = written;
	if (!touched) /* it may have met a page that this process has not seen before */
		return false;
	f->ns = (uint32_t)(ns < UINT32_MAX ? ns : UINT32_MAX);
	f->known = true;
	f->doubts = far == f->far ? 0 : (uint8_t)(f->doubts + 1);
	if (!first && f->doubts < SN_FAR_DOUBTS)
		return false;
	f->doubts = 0;
	f->far = far;
	return true;
}

#endif

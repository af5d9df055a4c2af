/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/beside.h"
#include "base/base.h"
#include "progress/lost.h"
#include "progress/spread.h"

#define LOST_NS 90000u /* less than a short slice (slice.h), more than a usual round of those who wait */
#define WITHIN	100000000u
#define FIRST	20000000u  /* ns for which it is taken to be so; */
#define LONGEST 160000000u /* twice as long each time that it still was */
#define WITHOUT 7u	   /* waits at most, after looks in vain */

static _Thread_local struct {
	uint64_t until; /* 0: it is not so, or to be seen anew */
	uint64_t lasts; /* 0: it was not so the last time */
	struct sn_lost lost;
	unsigned without, left; /* waits that go without looks after the next look in vain, and from now on */
} mine;

void sn_beside_yielded(uint64_t before, uint64_t after)
{
	if (sn_likely(after - before <= LOST_NS)) {
		mine.lasts = 0;
		return;
	}
	if (!sn_spread_alone() || (!mine.lasts && !sn_lost_often(&mine.lost, after, WITHIN)))
		return;
	mine.lasts = SN_MIN_OF(SN_MAX_OF(2 * mine.lasts, (uint64_t)FIRST), (uint64_t)LONGEST);
	mine.until = after + mine.lasts;
}

bool sn_beside_lately(void)
{
	return mine.until != 0;
}

bool sn_beside(uint64_t now)
{
	if (sn_likely(!mine.until))
		return false;
	if (now >= mine.until)
		mine.until = 0;
	return mine.until && sn_spread_alone();
}

bool sn_beside_looks(void)
{
	if (!mine.left)
		return true;
	mine.left--;
	return false;
}

void sn_beside_looked(bool found)
{
	mine.without = found ? 0 : SN_MIN_OF(2 * mine.without + 1, WITHOUT);
	mine.left = mine.without;
}

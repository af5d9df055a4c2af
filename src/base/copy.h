/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between processes: by which instructions. */
#ifndef SN_BASE_COPY_H
#define SN_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Between processes, of any length; see copy.c. */
#define SN_COPY_LONG   4096u
#define SN_COPY_MEDIUM 2048u /* so many and more the C library may copy by rep movsb */
void sn_copy_strings(void *to, const void *from, size_t n);
static inline void sn_copy_between(void *to, const void *from, size_t n)
{
	if (n < SN_COPY_MEDIUM)
		memcpy(to, from, n);
	else
		sn_copy_strings(to, from, n);
}
/* Likewise, to lines that a core has from which they take long, or none; they must not overlap. */
void sn_copy_away(void *to, const void *from, size_t n);
/*
 * Likewise, out of what another core has written; they must not overlap. again: to where the copy before went, as far
 * as is known, so those lines are probably in this core's cache.
 */
void sn_copy_home(void *to, const void *from, size_t n, bool again);
/* Is it worth asking for lines ahead here, where the processor does not do it by itself? On an Intel one it is. */
bool sn_copy_asks_ahead(void);

/* How far does it write behind what it reads, within a page? */
#define SN_COPY_PAGE 4096u
static inline unsigned sn_copy_behind(const void *to, const void *from)
{
	return ((uintptr_t)to - (uintptr_t)from) % SN_COPY_PAGE;
}
/* May rep movsb stumble there? On some processors up to SN_COPY_TRIPS, on others half as far. */
#define SN_COPY_TRIPS 32u
static inline bool sn_copy_trips(const void *to, const void *from)
{
	unsigned behind = sn_copy_behind(to, from);
	return behind && behind < SN_COPY_TRIPS;
}
/* By rep movsb, if that may be taken here; false: nothing was done. */
bool sn_copy_by_strings(void *to, const void *from, size_t n);
/*
 * How many times slower it is so many bytes behind (1 to SN_COPY_TRIPS - 1) than elsewhere on this processor, measured
 * at the first call; 1: it is not, or is not used.
 */
unsigned sn_copy_stumbles(unsigned behind);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy whose stores bypass the cache: the destination's lines are not read first, and what is in the cache stays there.
 * The destination then lies in memory and no cache. When that pays is a question for who copies (local/mapped.c).
 */
#ifndef SN_COPY_BYPASS_H
#define SN_COPY_BYPASS_H

#include <stdbool.h>
#include <stddef.h>

/* Any addresses. What was stored is seen by others as after memcpy, when this returns. */
void sn_copy_bypass(void *to, const void *from, size_t len);

/*
 * Lines that this core has read and another one will write again leave all caches. Else the writer waits for each
 * until it is gone from here: on an AMD EPYC (Zen 4, a virtual machine) 27 ns a line between cores far apart, one
 * after the other, whatever is asked for ahead, and 7 between cores that share a cache; with this 2.7, and 1.4 to 2.4
 * here (bench/lines.c). False: this processor cannot, and nothing is done.
 */
bool sn_copy_gives_back(void);
void sn_copy_give_back(const void *at, size_t len);

#endif

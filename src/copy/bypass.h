/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy whose stores bypass the cache: the destination's lines are not read first, and what is in the cache stays there.
 * The destination then lies in memory and no cache. When that pays is a question for who copies (local/mapped.c).
 */
#ifndef SN_COPY_BYPASS_H
#define SN_COPY_BYPASS_H

#include <stddef.h>

/* Any addresses. What was stored is seen by others as after memcpy, when this returns. */
void sn_copy_bypass(void *to, const void *from, size_t len);

#endif

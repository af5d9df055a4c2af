/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls nothing of sennit's but base/small_file.h and base/launched.h, and allocates nothing. */
#ifndef SN_BASE_MEMORY_H
#define SN_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that the machine has. */
uint64_t sn_memory_of_machine(void);
/* Bytes that this process may use: those, or what a control group allows it and others, if that is less. */
uint64_t sn_memory_allowed(void);

#endif

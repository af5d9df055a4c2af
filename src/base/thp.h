/* SPDX-License-Identifier: BSD-3-Clause */
/* What this system gives huge pages to (transparent huge pages). Calls nothing of sennit's, and allocates nothing. */
#ifndef SN_BASE_THP_H
#define SN_BASE_THP_H

#include <stdbool.h>

#define SN_THP_TEXT 128
/* A file of the kernel's with choices, of which the one that is taken stands in brackets. false: this kernel has none. */
bool sn_thp_read(const char *name, char text[SN_THP_TEXT]);
/* Does memory that processes share get them, where it asks? */
bool sn_thp_shared(void);

#endif

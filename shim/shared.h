/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that ranks of one node share: a file of the one that makes it, without a name, so that nothing is left behind,
 * which the others open by the number of its process. For meet.h and node.h.
 */
#ifndef SN_SHIM_SHARED_H
#define SN_SHIM_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose it is, and the descriptor there, which is open until all others have it. fd negative: there is none. */
struct sn_shared_place {
	int32_t pid, fd;
};

/* Are /proc's numbers of processes those of this one's namespace? */
bool sn_shared_may(void);
#define SN_SHARED_NOBODY UINT64_MAX /* no host's number: its rank shares with none */
/* This host's: ranks with the same number can open each other's files by /proc. */
uint64_t sn_shared_host(void);
/* name: of this kind of memory. NULL: it cannot be had; then no descriptor is open. To be unmapped. */
void *sn_shared_make(const char *name, size_t bytes, struct sn_shared_place *at);
/* NULL: it cannot be had, or what is there is of another kind or length. Likewise. */
void *sn_shared_attach(const char *name, size_t bytes, const struct sn_shared_place *at);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between this process's memory and a peer's, by process_vm_readv and process_vm_writev (cross memory attach).
 * Knows peers as a pid and a cookie and segments as iovecs; nothing of requests or rings.
 *
 * Which process is it? A pid may be another process by now (the peer died and the number was used again, or it called
 * exec, or pids of another namespace were compared). Every process keeps a random cookie at an address that it tells
 * its peers. A read fetches the cookie as the last segment of the same system call, after the data, so data of a wrong
 * process is never reported as copied; a write reads the cookie just before. Looking there costs as much as copying a few
 * KiB, so what was seen holds for SN_CMA_KNOWN_NS: no number is used again so soon, since the system hands out all others
 * first, and a program that calls exec takes longer until it runs.
 *
 * Budget: one system call per slice (a write: two, once in a while), no allocation; where the processor makes the
 * kernel's copy stumble (cma.c), one for each 64 KiB (a write: two) and one allocation.
 */
#ifndef SN_CMA_H
#define SN_CMA_H

#include "base/base.h"
#include <sys/types.h>

#define SN_CMA_SLICE (4u << 20) /* most bytes per call: a refusal, or a death, is noticed between slices */

#define SN_CMA_KNOWN_NS UINT64_C(1000000)

struct sn_cma_peer {
	pid_t pid;	    /* as seen from here; 0: not visible */
	uint64_t cookie_at; /* where it keeps its cookie */
	uint64_t cookie;
	uint64_t known; /* when the cookie was seen there last, sn_now_ns(); 0: not yet */
};

enum sn_cma_outcome {
	SN_CMA_OK,
	SN_CMA_REFUSED, /* this process may not, or the peer is not (any more) what it was: will not work next time either */
	SN_CMA_FAULT,  /* a page on one of the two sides cannot be read or written this way */
	SN_CMA_SCARCE, /* no memory in the kernel: for this message only */
};

/*
 * Copy up to SN_CMA_SLICE bytes at `offset` of the remote segments to the same offset of the local ones (read), or the
 * other way (write). *done: bytes copied for certain, also when the outcome is bad. *error: the errno of a bad outcome.
 * *calls grows by the system calls made.
 */
enum sn_cma_outcome sn_cma_read(struct sn_cma_peer *peer, const struct iovec *local, uint32_t local_count,
				const struct iovec *remote, uint32_t remote_count, uint64_t offset,
				uint64_t len, uint64_t *done, int *error, uint64_t *calls);
enum sn_cma_outcome sn_cma_write(struct sn_cma_peer *peer, const struct iovec *local, uint32_t local_count,
				 const struct iovec *remote, uint32_t remote_count, uint64_t offset,
				 uint64_t len, uint64_t *done, int *error, uint64_t *calls);

/* ---- probe.c ---- */

/* What this process tells peers: where its cookie is, and the cookie. */
void sn_probe_own(uint64_t *cookie_at, uint64_t *cookie);
void sn_probe_in_child(void); /* after fork: a cookie of its own */
/* May this process read the peer's memory, and write it? 0 or the errno that says no. */
void sn_probe_peer(const struct sn_cma_peer *peer, int *read_error, int *write_error);

/* ---- guard.c ---- */

enum sn_guard_outcome { SN_GUARD_OK, SN_GUARD_SOURCE, SN_GUARD_DESTINATION, SN_GUARD_FAILED };
/*
 * Copy within this process through a memfd, so that an unreadable source or an unwritable destination is reported
 * instead of ending the process. Two copies and a few system calls: for messages that have met a fault already.
 */
enum sn_guard_outcome sn_copy_guarded(void *to, const void *from, size_t len);

/* ---- fault.c ---- */

/*
 * Fault injection, always compiled in. The setting "fault" is a list of op:what[@n][+], e.g.
 * "read:eperm@3,write:short": op read, write, probe, module (the kernel module's copies); what eperm, esrch, efault,
 * enomem, enosys or short (copies at most a page and a byte at a time). @n: only the n-th call of this op; @n+: from
 * the n-th on; neither: every call. Returns the errno to fail with, or 0; *limit may be lowered.
 */
enum sn_fault_op { SN_FAULT_READ, SN_FAULT_WRITE, SN_FAULT_PROBE, SN_FAULT_MODULE, SN_FAULT_OPS };
int sn_fault_inject(enum sn_fault_op op, uint64_t *limit);
/* Replace the list (tests; NULL or "": none). Not thread-safe. False: it does not parse, and nothing is injected. */
bool sn_fault_set(const char *list);

#endif

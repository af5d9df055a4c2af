/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies by Intel's Data Streaming Accelerator through its user-space queues (/dev/dsa/wq*, set up with accel-config): the
 * engine walks this process's page tables, so nothing is pinned or registered. It reaches this
 * process's memory only: what a peer maps for us (copy/heap.h) it can copy, what the peer keeps to itself it cannot.
 *
 * A copy is cut into parts; some are under way while the caller does other things and polls. Shared queues (ENQCMD)
 * say when they are full; dedicated ones (MOVDIR64B) do not, so no more is given them than they hold. Engines with an
 * erratum (INTEL-SA-01084) the kernel maps for nobody without CAP_SYS_RAWIO: there each part is a write() to the
 * queue. What the engine leaves (a page that is not there, an error, a full queue) the CPU copies. A queue that is
 * silent for two seconds, in which somebody looked, is closed, by which the kernel stops it, and not used again.
 *
 * Budget of a part: one store of 64 bytes (or one write()), one line written by the engine; no allocation, no other
 * system call.
 *
 * Thread safety: a copy belongs to one thread at a time; queues are shared by all.
 */
#ifndef SN_COPY_DSA_H
#define SN_COPY_DSA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define SN_DSA_MIN   (64u << 10) /* shorter copies are over before an engine has begun */
#define SN_DSA_PART  (256u << 10)
#define SN_DSA_PARTS 8 /* of one copy under way */

/* What a queue is given, and what it answers: "Intel Data Streaming Accelerator Architecture Specification", 5.1 and 5.2. */
#define SN_DSA_MEMMOVE	   3
#define SN_DSA_FLAG_BOF	   0x2u	  /* wait for pages that are not there */
#define SN_DSA_FLAG_CRAV   0x4u	  /* the completion record has an address */
#define SN_DSA_FLAG_RCR	   0x8u	  /* always write it */
#define SN_DSA_FLAG_CC	   0x100u /* into the cache: the receiver reads it soon */
#define SN_DSA_SUCCESS	   1
#define SN_DSA_PAGE_FAULT  3 /* the first `bytes` were copied */
#define SN_DSA_STATUS_MASK 0x7fu

struct sn_dsa_desc {
	uint32_t pasid;	       /*  0: filled in by ENQCMD; 0 */
	uint32_t flags_opcode; /*  4: opcode in the top 8 bits */
	uint64_t completion;   /*  8 */
	uint64_t src;	       /* 16 */
	uint64_t dst;	       /* 24 */
	uint32_t bytes;	       /* 32 */
	uint8_t reserved[28];  /* 36 */
} __attribute__((aligned(64)));

struct sn_dsa_record {
	volatile uint8_t status; /*  0: 0 until it is over */
	uint8_t result;		 /*  1 */
	uint16_t reserved;	 /*  2 */
	uint32_t bytes;		 /*  4 */
	uint64_t fault;		 /*  8 */
	uint8_t more[16];	 /* 16 */
} __attribute__((aligned(32)));

/*
 * A queue that is a plain file of one page is a double, for tests: descriptors are put here, `full` says that one is there.
 */
struct sn_dsa_double {
	struct sn_dsa_desc desc;  /*   0 */
	_Atomic uint32_t claimed; /*  64: by who submits */
	_Atomic uint32_t full;	  /*  68 */
};

struct sn_dsa;
struct sn_dsa_copy;

/* Opens the usable queues of a directory. SN_OK, or SN_ERR_UNSUPPORTED with the reason in sn_last_error(). */
int sn_dsa_open(const char *dir, struct sn_dsa **out);
void sn_dsa_close(struct sn_dsa *d);
unsigned sn_dsa_queues(const struct sn_dsa *d); /* usable now */
/* "wq0.0 (shared, 16 entries)": of queue i. */
const char *sn_dsa_describe(const struct sn_dsa *d, unsigned i);

/* The process's, from the directory that the setting "dsa" names; NULL: there is none. */
struct sn_dsa *sn_dsa_acquire(void);
void sn_dsa_release(struct sn_dsa *d);
void sn_dsa_in_child(void);

/* Starts a copy of len bytes; the vectors stay valid until sn_dsa_copy_end(). NULL: no queue, or no memory. */
struct sn_dsa_copy *sn_dsa_copy_start(struct sn_dsa *d, const struct iovec *to, uint32_t to_count,
				      const struct iovec *from, uint32_t from_count, uint64_t len);
/* Goes on, for a few microseconds at most. True: every byte is there. *engine: bytes that the engine copied so far. */
bool sn_dsa_copy_poll(struct sn_dsa_copy *c, uint64_t *engine);
/* Waits for what is under way; nothing is written any more. */
void sn_dsa_copy_end(struct sn_dsa_copy *c);

#endif

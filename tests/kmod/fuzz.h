/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of test_fuzz have in common: a thread's state, and values that are half right. */
#ifndef SN_TESTS_FUZZ_H
#define SN_TESTS_FUZZ_H

#include "kt.h"

#define ARENA  96 /* pages */
#define SHARED 64

/* What processes tell each other: handles of all kinds, in memory that all share. */
extern volatile uint64_t *fuzz_handles;
extern volatile uint64_t *fuzz_several; /* fetches by several rails */

struct fuzz {
	uint64_t seed;
	int *fds; /* the process's, three */
	char *arena;
	uint64_t requests[8];
	uint32_t ids[8];
	int event;
	unsigned cable; /* the interface's number */
};

static inline uint32_t pick(struct fuzz *f, uint32_t n)
{
	return kt_random(&f->seed) % n;
}

static inline uint64_t any_number(struct fuzz *f)
{
	static const uint64_t odd[] = {0,
				       1,
				       4095,
				       4096,
				       4097,
				       0x7fffffff,
				       0xffffffff,
				       0x100000000,
				       1ull << 44,
				       0x7ffffffffffff000,
				       ~0ull,
				       ~0ull - 1,
				       0xffff888000000000};

	return pick(f, 3) ? pick(f, 100000) : odd[pick(f, sizeof(odd) / sizeof(odd[0]))];
}

static inline uint64_t any_address(struct fuzz *f)
{
	return pick(f, 12) ? (uintptr_t)f->arena + pick(f, ARENA * KT_PAGE) : any_number(f);
}

static inline uint64_t any_handle(struct fuzz *f)
{
	return pick(f, 12) ? fuzz_handles[pick(f, SHARED)] : any_number(f);
}

static inline void publish(struct fuzz *f, uint64_t handle)
{
	fuzz_handles[pick(f, SHARED)] = handle;
}

/* fuzz_net.c */
void fuzz_net(struct fuzz *f, int fd); /* a call of the network's, half right */
void fuzz_net_right(struct fuzz *f, int fd, uint32_t region, uint64_t len); /* each as it is meant */
void fuzz_net_answer(uint64_t seed); /* the other end of the cable; does not return */

#endif

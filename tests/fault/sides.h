/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The harness of the fault tests over the C API: a few processes ("sides"), each with an endpoint, that know each other
 * and exchange checked messages while something bad happens to one of them. The parent starts them, harms them, and
 * judges how they end; nothing lives longer than LIFE seconds.
 */
#ifndef SIDES_H
#define SIDES_H

#include "sennit/sennit.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SIDES_MAX 512
#define LIFE	  170 /* seconds that any process here may live */
#define ANY_BITS  UINT64_MAX

/* ---- refuse.c ---- */
enum {
	REFUSE_READ = 1,
	REFUSE_WRITE = 2,
	REFUSE_MEMFD = 4,
	REFUSE_ACCEPT4 = 8,
	REFUSE_ACCEPT = 16,
	REFUSE_SENDMSG = 32
};
/* From now on process_vm_readv and/or process_vm_writev (and so on) of this process, in all its threads, fail with this error. */
bool refuse_copies(unsigned ops, int error);

/* ---- sides.c ---- */

/* What all sides and the parent share (anonymous shared memory). */
struct board {
	int sides;
	atomic_uint_fast64_t before, after; /* memory of all sides */
	atomic_int started, measured;
	atomic_int opened, done;       /* sides that have published their address; that have finished */
	atomic_uint_fast64_t copied;   /* bytes of large messages, by the sides that copied them */
	atomic_int step;	       /* a counter for what a case wants to order */
	atomic_int rounds;	       /* that take place, after the first one */
	atomic_uint_fast64_t awake_us; /* a clock that the parent runs */
	atomic_uint_fast64_t progress[SIDES_MAX]; /* messages checked by each side */
	size_t addr_len[SIDES_MAX];
	unsigned char addr[SIDES_MAX][SN_ADDR_MAX];
	pid_t pid[SIDES_MAX]; /* as the parent sees them */
};

struct side {
	struct board *b;
	int me;
	sn_ep *ep;
	sn_peer *peer; /* by side; one's own too */
};

typedef void (*side_fn)(struct side *s);

#define FAIL(...)                                                                                            \
	do {                                                                                                 \
		side_fail(__FILE__, __LINE__, __VA_ARGS__);                                                  \
	} while (0)
#define CHECK(cond, ...)                                                                                     \
	do {                                                                                                 \
		if (!(cond))                                                                                 \
			FAIL(__VA_ARGS__);                                                                   \
	} while (0)
void side_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
void skip(const char *why) __attribute__((noreturn));

struct board *board_new(int sides);
/* Start side i: a process that opens an endpoint, learns of all others and runs fn. before: NULL, or run first. */
void side_start(struct board *b, int i, void (*before)(void), side_fn fn);
/* As side_start, in namespaces of its own (CLONE_NEW* flags). False if the system does not allow that. */
bool side_start_in(struct board *b, int i, int namespaces, side_fn fn);
/* Wait for side i to end; its wait status. */
int side_wait(struct board *b, int i);
/* All sides except those in `dead` (a bit mask) must end well. */
void sides_join(struct board *b, uint64_t dead);
/* Wait until *value >= at_least; the parent's and the sides' way of ordering. */
void await(atomic_int *value, int at_least);
double seconds(void);

void fill(void *buf, uint64_t key, size_t len);
void check(const void *buf, uint64_t key, size_t len, const char *what);

sn_req *post_send(struct side *s, int to, const void *buf, size_t len, uint64_t bits, uint32_t flags);
sn_req *post_recv(struct side *s, int from, void *buf, size_t len, uint64_t bits);
/* Wait for a request (at most 40 s); its completion. */
sn_completion finish(struct side *s, sn_req *req);
/* Messages of many sizes between two sides, both ways, expected and unexpected; both call it. */
void exchange(struct side *s, int with, int rounds, size_t longest);
uint64_t counter(struct side *s, const char *name);

#endif

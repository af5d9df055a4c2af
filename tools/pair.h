/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes that talk over sennit, for perf and doctor. They find each other through one stream file descriptor: a
 * socket pair to a forked process here. Nothing else is assumed of it, so a TCP connection to another node will do.
 */
#ifndef SN_PAIR_H
#define SN_PAIR_H

#include "sennit/sennit.h"
#include <stdbool.h>

struct sn_pair {
	sn_ep *ep;
	sn_peer peer;
	int fd;	     /* the stream to the other side; owned by the caller */
	bool second; /* which of the two sides this is */
};

/* Open an endpoint and exchange addresses over fd. 0, or a negative sn_error with a message printed. */
int sn_pair_open(struct sn_pair *p, int fd, bool second);
void sn_pair_close(struct sn_pair *p);
/* Send and receive a whole message and wait for it; 0 or a negative sn_error, which sn_pair_error words. */
int sn_pair_send(struct sn_pair *p, const void *buf, size_t len);
int sn_pair_recv(struct sn_pair *p, void *buf, size_t len);
/* Wait until the other side has come here too. false: it is gone. */
bool sn_pair_meet(struct sn_pair *p);
/* All of len bytes over the stream. */
bool sn_pair_write(int fd, const void *buf, size_t len);
bool sn_pair_read(int fd, void *buf, size_t len);

/* Bytes that depend on the seed and on where they stand; check returns the first wrong offset, or len. */
void sn_pattern_fill(unsigned char *buf, size_t len, uint64_t seed);
size_t sn_pattern_check(const unsigned char *buf, size_t len, uint64_t seed);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other host of test_net.c: a plain program in another network namespace that speaks the protocol with the engine's own
 * codec (src/net/auth.c, check.c, wire.h) over a packet socket. It answers PULL frames with DATA, as badly as it is told to.
 */
#ifndef NETHOST_H
#define NETHOST_H

#include "kt.h"
#include "net/auth.h"
#include "net/check.h"

#define ETHERTYPE 0x88B6
#define MTU	  8000u
#define BODY	  body_bytes
#define RDV	  77u

extern unsigned body_bytes; /* a quarter of it where a checking kernel makes all slow */

extern const uint8_t key_a[12], key_b[12]; /* endpoint keys */
#define SESSION_A 0x1111222233334444u
#define SESSION_B 0x5555666677778888u

struct nethost { /* what both processes see */
	_Atomic int ready, quit;
	_Atomic unsigned lose, damage, twice, forge,
		mute;		/* per thousand of the DATA frames; mute: all of them */
	_Atomic unsigned until; /* bytes of the body that it has; 0: all */
	_Atomic unsigned bad;	/* PULL frames that make no sense */
	_Atomic uint64_t asked;
	uint8_t mac[2][6];
	unsigned seed;
};
extern struct nethost *sh;

_Noreturn void other_host(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the processes of hosts.py share: one endpoint each, addresses exchanged over the standard streams, bytes from
 * a key.
 */
#ifndef SN_TEST_NET_PEER_H
#define SN_TEST_NET_PEER_H

#include <poll.h>
#include <sennit/sennit.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static sn_ep *ep;
static unsigned rank;

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline void die(const char *what, int status)
{
	printf("FAILED rank %u: %s: %s (%s)\n", rank, what, sn_strerror(status), sn_last_error());
	fflush(stdout);
	exit(1);
}

static inline void fill(uint8_t *buf, size_t len, uint64_t key)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)((key >> (8 * (i & 7))) + (i >> 3) * 7);
}

static inline bool check(const uint8_t *buf, size_t len, uint64_t key)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (uint8_t)((key >> (8 * (i & 7))) + (i >> 3) * 7))
			return false;
	return true;
}

static inline void say_address(void)
{
	uint8_t addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);

	sn_ep_address(ep, addr, &len);
	printf("ADDR ");
	for (size_t i = 0; i < len; i++)
		printf("%02x", addr[i]);
	printf("\n");
	fflush(stdout);
}

/* The peer whose address is the next line of standard input. */
static inline sn_peer read_peer(void)
{
	uint8_t addr[SN_ADDR_MAX];
	char line[4 * SN_ADDR_MAX];
	size_t len;
	sn_peer peer;

	if (!fgets(line, sizeof(line), stdin))
		exit(1);
	for (len = 0; len < SN_ADDR_MAX && sscanf(line + 2 * len, "%2hhx", &addr[len]) == 1; len++)
		;
	int rc = sn_peer_add(ep, addr, len, &peer);
	if (rc)
		die("sn_peer_add", rc);
	return peer;
}

static inline void open_endpoint(void)
{
	setvbuf(stdin, NULL, _IONBF, 0);
	int rc = sn_ep_open(NULL, &ep);
	if (rc)
		die("sn_ep_open", rc);
}

/* The others may need us yet: to the end, when a line comes. */
static inline void close_when_told(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char line[64];

	fflush(stdout);
	while (poll(&in, 1, 1) == 0)
		sn_progress(ep);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
	sn_ep_close(ep);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes of which one meets its fate (killed, stopped, cut off) while the other has requests with it, driven by
 * hosts.py:
 *   fates 0|1 STATE
 * Rank 1 is the doomed one. Rank 0 prints "INFO ready" once it is in the state, and "OK" once everything it has with the other
 * has ended with SN_ERR_PEER_GONE. States: handshake (the other never answers), unmet (a receive from a peer that was never
 * spoken to), eager (short messages that nobody acknowledges), announced (a long message that nobody fetches), serving
 * (fetched from us), fetching (from the other), idle (a receive is posted).
 *   fates 0|1 again      the other comes back as a new process; "INFO gone", the new address on standard input, and traffic
 *   fates 1 anew         that new process
 */
#include "peer.h"
#include <poll.h>
#include <string.h>

#define BIG    (8u << 20)
#define SMALLS 200

static sn_peer other;
static uint8_t *big, *in;

static sn_req *post(void *buf, size_t len, uint64_t tag, bool send, uint32_t flags)
{
	struct iovec v = {buf, len};
	sn_msg m = {
		.peer = other, .flags = flags, .iov = &v, .iov_count = 1, .bits = tag, .mask = UINT64_MAX};
	sn_req *req;
	int rc = send ? sn_post_send(ep, &m, &req) : sn_irecv(ep, other, buf, len, tag, UINT64_MAX, &req);

	if (rc)
		die("post", rc);
	return req;
}

static int ended(sn_req *req)
{
	sn_completion c = {0};
	int rc = sn_wait(ep, req, &c, -1);

	return rc ? rc : c.status;
}

static void greet(void)
{
	uint8_t out[8] = {0}, back[8];
	sn_req *r = post(back, 8, 1, false, 0), *s = post(out, 8, 1, true, 0);
	int rc = ended(s);

	if (rc || (rc = ended(r)))
		die("greeting", rc);
}

static void say(const char *word)
{
	printf("INFO %s\n", word);
	fflush(stdout);
}

static void progress_for(double seconds)
{
	for (double end = now() + seconds; now() < end;)
		sn_progress(ep);
}

/* ---- the doomed ---- */

static void doomed(const char *state)
{
	if (strcmp(state, "handshake") == 0 || strcmp(state, "unmet") == 0)
		for (;;)
			poll(NULL, 0, 1000);
	greet();
	if (strcmp(state, "serving") == 0)
		while (ended(post(in, BIG, 2, false, 0)) == 0)
			;
	if (strcmp(state, "fetching") == 0)
		while (ended(post(big, BIG, 2, true, 0)) == 0)
			;
	for (;;)
		progress_for(1);
}

/* ---- the survivor ---- */

static void must_be_gone(int rc, const char *what)
{
	if (rc != SN_ERR_PEER_GONE)
		die(what, rc);
}

/* Up to 64 of the short ones may have left, which completes them; those behind must not, nor the one to be delivered. */
static void eager(void)
{
	static uint8_t small[SMALLS][8];
	sn_req *req[SMALLS], *delivered;
	char line[16];
	unsigned gone = 0;

	if (!fgets(line, sizeof(line), stdin))
		exit(1);
	delivered = post(big, 100, 3, true, SN_DELIVERED);
	for (unsigned i = 0; i < SMALLS; i++)
		req[i] = post(small[i], 8, 3, true, 0);
	must_be_gone(ended(delivered), "a delivered send");
	for (unsigned i = 0; i < SMALLS; i++) {
		int rc = ended(req[i]);
		gone += rc == SN_ERR_PEER_GONE;
		if (rc && rc != SN_ERR_PEER_GONE)
			die("a short send", rc);
	}
	printf("INFO %u of %d short ones failed\n", gone, SMALLS);
}

static void stream(bool send)
{
	int rc;

	say("ready");
	while ((rc = ended(post(send ? big : in, BIG, 2, send, 0))) == 0)
		;
	must_be_gone(rc, "a long message");
}

static void survivor(const char *state)
{
	bool met = strcmp(state, "handshake") != 0 && strcmp(state, "unmet") != 0;
	sn_req *send = NULL, *receive = NULL;

	if (met)
		greet();
	if (strcmp(state, "serving") == 0 || strcmp(state, "fetching") == 0) {
		stream(state[0] == 's');
	} else {
		if (strcmp(state, "handshake") == 0)
			send = post(big, 8, 1, true, SN_DELIVERED);
		if (strcmp(state, "announced") == 0)
			send = post(big, BIG, 2, true, 0);
		if (strcmp(state, "eager") != 0)
			receive = post(in, 8, 9, false, 0);
		progress_for(0.1);
		say("ready");
		if (strcmp(state, "eager") == 0)
			eager();
		if (send)
			must_be_gone(ended(send), "a send");
		if (receive)
			must_be_gone(ended(receive), "a receive");
	}
	sn_req *late;
	int rc = sn_isend(ep, other, big, 8, 1, &late);
	must_be_gone(rc ? rc : ended(late), "a send after all that");
	printf("OK %s\n", state);
}

/* ---- a peer that comes back ---- */

/* Messages both ways at once, every byte checked; at most `count`. Returns how the last one ended. */
static int both_ways(unsigned life, unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		size_t len = i % 3 ? mix(i) % 5000 : mix(i) % 300000;
		uint64_t key = mix(life * 1000003 + i);
		fill(big, len, key + rank);
		memset(in, 0xee, len + 1);
		sn_req *r = post(in, len, 5, false, 0), *s = post(big, len, 5, true, 0);
		int sent = ended(s), got = ended(r);
		if (sent || got)
			return sent ? sent : got;
		if (!check(in, len, key + 1 - rank) || in[len] != 0xee)
			die("wrong bytes", 0);
		if (i == 5)
			say("met");
	}
	return 0;
}

static void again(void)
{
	must_be_gone(both_ways(1, 1000000), "traffic with the first");
	say("gone");
	other = read_peer();
	int rc = both_ways(2, 400);
	if (rc)
		die("traffic with the second", rc);
	printf("OK\n");
}

static void anew(void)
{
	int rc = both_ways(2, 400);

	if (rc)
		die("traffic", rc);
	printf("OK\n");
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	rank = (unsigned)atoi(argv[1]);
	big = calloc(1, BIG);
	in = calloc(1, BIG);
	open_endpoint();
	say_address();
	other = read_peer();
	if (strcmp(argv[2], "again") == 0)
		again();
	else if (strcmp(argv[2], "anew") == 0)
		anew();
	else if (rank == 0)
		survivor(argv[2]);
	else
		doomed(argv[2]);
	close_when_told();
	free(big);
	free(in);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process of a network test, driven over its standard streams by hosts.py: peer RANK COUNT MODE SEED MESSAGES It
 * prints "ADDR hex", reads COUNT lines of addresses, does what MODE says, prints a line that starts with OK or
 * FAILED, and then goes on making progress until "QUIT" comes. MODE "endless" is traffic until "GO" comes, so that it
 * is not over before what is to happen in its midst; meanwhile the name of a counter, or "received" for the messages
 * that came, is answered with "SAYS n".
 */
#include "peer.h"
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define WINDOW 8
#define PEERS  16

static sn_peer peers[PEERS];
static unsigned ranks;
static uint64_t seed;
static unsigned long messages;

static uint64_t key_of(unsigned from, unsigned to, unsigned long i)
{
	return mix(mix(mix(seed + from) + to) + i);
}

static size_t length_of(uint64_t key)
{
	switch (key % 8) {
	case 0: return 0;
	case 1: return mix(key) % 16384;
	case 2: return mix(key) % 70000;
	case 3: return mix(key) % 16 == 0 ? mix(key + 1) % 2000000 : mix(key + 1) % 1400;
	default: return mix(key) % 512;
	}
}

static void exchange(void)
{
	say_address();
	for (unsigned r = 0; r < ranks; r++)
		peers[r] = read_peer();
}

/* ---- traffic: everybody to everybody, every byte checked ---- */

struct flow { /* with one peer: WINDOW messages each way at a time */
	unsigned long sent, received, send_done;
	sn_req *send[WINDOW], *recv[WINDOW];
	uint8_t *out[WINDOW], *in[WINDOW];
	unsigned long recv_posted;
	unsigned long coming; /* messages of the peer's, as far as it has said how many they are */
	sn_req *last[2];      /* endless: that word there and here */
};

#define AFTER                                                                                                \
	100 /* endless: messages to each peer behind the word how many there are; more than a window, so it comes in time */

static bool endless;
static struct flow flows[PEERS];
static unsigned long leaving; /* messages to each peer */

static void flow_post(struct flow *f, unsigned p)
{
	while (f->recv_posted < f->coming && f->recv_posted < f->received + WINDOW) {
		unsigned w = f->recv_posted % WINDOW;
		size_t len = length_of(key_of(p, rank, f->recv_posted));
		f->in[w] = malloc(len + 1);
		memset(f->in[w], 0xee, len + 1);
		int rc = sn_irecv(ep, peers[p], f->in[w], len, 7, UINT64_MAX, &f->recv[w]);
		if (rc)
			die("sn_irecv", rc);
		f->recv_posted++;
	}
	while (f->sent < leaving && f->sent < f->send_done + WINDOW) {
		unsigned w = f->sent % WINDOW;
		uint64_t key = key_of(rank, p, f->sent);
		size_t len = length_of(key);
		f->out[w] = malloc(len + 1);
		fill(f->out[w], len, key);
		int rc = sn_isend(ep, peers[p], f->out[w], len, 7, &f->send[w]);
		if (rc)
			die("sn_isend", rc);
		f->sent++;
	}
}

static bool flow_test(struct flow *f, unsigned p)
{
	sn_completion c = {0};
	bool moved = false;

	if (f->received < f->recv_posted && sn_test(ep, f->recv[f->received % WINDOW], &c) == SN_OK) {
		unsigned w = f->received % WINDOW;
		uint64_t key = key_of(p, rank, f->received);
		if (c.status)
			die("a receive", c.status);
		if (c.len != length_of(key) || !check(f->in[w], c.len, key) || f->in[w][c.len] != 0xee)
			die("wrong bytes or length", 0);
		free(f->in[w]);
		f->received++;
		moved = true;
	}
	if (f->send_done < f->sent && sn_test(ep, f->send[f->send_done % WINDOW], &c) == SN_OK) {
		if (c.status)
			die("a send", c.status);
		free(f->out[f->send_done % WINDOW]);
		f->send_done++;
		moved = true;
	}
	return moved;
}

static bool over(const struct flow *f)
{
	return f->received == f->coming && f->send_done == leaving && !f->last[0] && !f->last[1];
}

/* Everything, in and out; endless until the peers have said how much it is. */
static void flows_start(void)
{
	leaving = endless ? ULONG_MAX : messages;
	for (unsigned p = 0; p < ranks; p++) {
		struct flow *f = &flows[p];
		f->coming = leaving;
		if (endless && p != rank &&
		    sn_irecv(ep, peers[p], &f->coming, sizeof(f->coming), 8, UINT64_MAX, &f->last[1]))
			die("sn_irecv", 0);
	}
}

static void say_how_many(void)
{
	unsigned long most = 0;

	for (unsigned p = 0; p < ranks; p++)
		most = flows[p].sent > most ? flows[p].sent : most;
	leaving = most + AFTER;
	for (unsigned p = 0; p < ranks; p++)
		if (p != rank && sn_isend(ep, peers[p], &leaving, sizeof(leaving), 8, &flows[p].last[0]))
			die("sn_isend", 0);
	endless = false;
}

static void last_words(struct flow *f)
{
	sn_completion c = {0};

	for (int i = 0; i < 2; i++)
		if (f->last[i] && sn_test(ep, f->last[i], &c) == SN_OK) {
			if (c.status)
				die("the last word", c.status);
			f->last[i] = NULL;
		}
}

struct asked {
	const char *name;
	uint64_t value;
};

static void add_asked(void *arg, const char *name, uint64_t value)
{
	struct asked *a = arg;

	if (strcmp(name, a->name) == 0)
		a->value += value;
}

/* One line of input, if there is one. */
static void hear(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char line[64];
	struct asked a = {.name = line};

	if (poll(&in, 1, 0) <= 0)
		return;
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
	line[strcspn(line, "\n")] = 0;
	if (strcmp(line, "GO") == 0) {
		say_how_many();
		return;
	}
	for (unsigned p = 0; p < ranks; p++)
		add_asked(&a, "received", flows[p].received);
	sn_counters(ep, add_asked, &a);
	printf("SAYS %llu\n", (unsigned long long)a.value);
	fflush(stdout);
}

static void traffic(void)
{
	bool all = false;
	uint64_t idle = 0;

	flows_start();
	for (unsigned turn = 0; !all; turn++) {
		bool moved = false;
		all = true;
		for (unsigned p = 0; p < ranks; p++) {
			if (p == rank)
				continue;
			last_words(&flows[p]);
			flow_post(&flows[p], p);
			moved |= flow_test(&flows[p], p);
			all &= over(&flows[p]);
		}
		if (moved)
			idle = 0;
		else if (!all)
			sn_relax(&ep, 1, &idle, 1000);
		if (endless && (!moved || turn % 64 == 0))
			hear();
	}
	printf("OK %lu messages to each of %u\n", leaving, ranks - 1);
}

static void until_told(void)
{
	endless = true;
	traffic();
}

/* ---- speed between ranks 0 and 1 ---- */

static void one(bool send, void *buf, size_t len)
{
	sn_req *req;
	sn_completion c = {0};
	int rc = send ? sn_isend(ep, peers[1 - rank], buf, len, 1, &req)
		      : sn_irecv(ep, peers[1 - rank], buf, len, 1, UINT64_MAX, &req);

	if (rc)
		die("post", rc);
	while ((rc = sn_test(ep, req, &c)) == SN_ERR_AGAIN)
		;
	if (rc || c.status)
		die("completion", rc ? rc : c.status);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void pingpong(void)
{
	size_t sizes[] = {8, 512, 4096, 16384, 65536, 262144, 1048576, 4194304};
	size_t count = messages ? 1 : sizeof(sizes) / sizeof(sizes[0]);
	uint8_t *buf = malloc(4194304);
	static double t[20000];

	memset(buf, 1, 4194304);
	if (messages && messages <= sizes[7])
		sizes[0] = messages;
	for (size_t s = 0; s < count; s++) {
		unsigned rounds = messages ? 20000 : sizes[s] < 65536 ? 1000 : 60;
		for (unsigned i = 0; i < rounds; i++) {
			double start = now();
			one(rank == 0, buf, sizes[s]);
			one(rank == 1, buf, sizes[s]);
			t[i] = now() - start;
		}
		qsort(t, rounds, sizeof(t[0]), by_value);
		if (rank == 0)
			printf("INFO %zu bytes: %.2f us one way (least %.2f), %.0f MB/s\n", sizes[s],
			       t[rounds / 2] / 2 * 1e6, t[0] / 2 * 1e6,
			       (double)sizes[s] / (t[rounds / 2] / 2) / 1e6);
	}
	free(buf);
	printf("OK\n");
}

/* Computes for long without calling: its peers must not lose patience, and their long messages must come through. */
static void compute(void)
{
	size_t len = 8 << 20;
	uint8_t *buf = malloc(len);
	sn_req *r;
	sn_completion c = {0};
	unsigned other = 1 - rank;

	if (rank == 0) {
		fill(buf, len, seed);
		one(true, buf, 8);
		double start = now();
		one(true, buf, len);
		printf("OK sent in %.1f s\n", now() - start);
	} else {
		uint8_t first[8];
		one(false, first, 8);
		if (sn_irecv(ep, peers[other], buf, len, 1, UINT64_MAX, &r))
			die("post", 0);
		double end = now() + 0.2;
		while (now() < end)
			sn_progress(ep); /* until the message has been announced */
		end = now() + (double)messages / 1000;
		while (now() < end)
			;
		int rc = sn_wait(ep, r, &c, -1);
		if (rc || c.status || !check(buf, len, seed))
			die("the message", c.status);
		printf("OK received\n");
	}
	free(buf);
}

/*
 * A delivered send completes when its message has arrived, not before: a short one without a receive, one that is announced
 * once it is received. Rank 1 reads its input, and so takes in nothing, until it is told to go on.
 */
static void deliver(void)
{
	static uint8_t buf[40000];
	struct iovec v = {buf, messages};
	sn_msg m = {.peer = peers[1 - rank], .flags = SN_DELIVERED, .iov = &v, .iov_count = 1, .bits = 2};
	sn_completion c = {0};
	sn_req *req;
	char line[16];

	one(rank == 0, buf, 8); /* connected, and after the answer rank 1 makes no call */
	one(rank == 1, buf, 8);
	if (rank == 1) {
		if (!fgets(line, sizeof(line), stdin))
			die("go", 0);
		while (sn_probe(ep, 0, peers[0], 2, UINT64_MAX, &c) == SN_ERR_AGAIN)
			;
		if (c.full_len > 4096 && (sn_recv(ep, peers[0], buf, messages, 2, UINT64_MAX, NULL, &c) ||
					  !check(buf, messages, seed)))
			die("the message", c.status);
		printf("OK arrived\n");
		return;
	}
	fill(buf, messages, seed);
	int rc = sn_post_send(ep, &m, &req);
	if (rc)
		die("post", rc);
	for (double end = now() + 0.1; now() < end;)
		if ((rc = sn_test(ep, req, &c)) != SN_ERR_AGAIN)
			die("completed before it arrived", rc);
	printf("INFO waiting\n");
	fflush(stdout);
	rc = sn_wait(ep, req, &c, -1);
	if (rc || c.status)
		die("completion", rc ? rc : c.status);
	printf("OK delivered\n");
}

/*
 * Rank 0 takes from everybody: `messages` long ones, each followed by ten short ones that were sent after it. All must
 * come, whole and in each sender's order. Says how long the short ones took, from the sender's clock to the receiver's
 * (one machine): shown, not judged.
 */
#define LONG_LEN (1 << 20)
#define SHORTS	 10

static void incast_receive(void)
{
	unsigned long count = messages * (ranks - 1) * SHORTS, got = 0;
	sn_req *big[PEERS] = {0}, *small;
	uint8_t *bufs[PEERS] = {0};
	unsigned long next[PEERS] = {0};
	double stamp = 0, *t = calloc(count, sizeof(*t));
	sn_completion c = {0};
	bool all = false;

	for (unsigned p = 1; p < PEERS; p++)
		bufs[p] = p < ranks ? malloc(LONG_LEN) : NULL;
	if (sn_irecv(ep, SN_ANY_PEER, &stamp, sizeof(stamp), 2, UINT64_MAX, &small))
		die("post", 0);
	while (!all || got < count) {
		all = true;
		for (unsigned p = 1; p < ranks; p++) {
			if (big[p] && sn_test(ep, big[p], &c) == SN_OK) {
				big[p] = NULL;
				if (c.status || c.len != LONG_LEN ||
				    !check(bufs[p], LONG_LEN, key_of(p, 0, next[p] - 1)))
					die("a long message", c.status);
			}
			if (!big[p] && next[p] < messages) {
				next[p]++;
				if (sn_irecv(ep, peers[p], bufs[p], LONG_LEN, 1, UINT64_MAX, &big[p]))
					die("post", 0);
			}
			all &= !big[p];
		}
		if (got < count && sn_test(ep, small, &c) == SN_OK) {
			if (c.status)
				die("a short message", c.status);
			t[got++] = now() - stamp;
			if (got < count &&
			    sn_irecv(ep, SN_ANY_PEER, &stamp, sizeof(stamp), 2, UINT64_MAX, &small))
				die("post", 0);
		}
	}
	qsort(t, count, sizeof(*t), by_value);
	printf("INFO short ones: median %.0f us, 99th percentile %.0f us\n", t[count / 2] * 1e6,
	       t[count * 99 / 100] * 1e6);
	for (unsigned p = 1; p < PEERS; p++)
		free(bufs[p]);
	free(t);
}

static void incast_send(void)
{
	uint8_t *buf = malloc(LONG_LEN);
	sn_completion c = {0};
	sn_req *big, *small;

	for (unsigned long i = 0; i < messages; i++) {
		fill(buf, LONG_LEN, key_of(rank, 0, i));
		if (sn_isend(ep, peers[0], buf, LONG_LEN, 1, &big))
			die("post", 0);
		for (int k = 0; k < SHORTS; k++) {
			double stamp = now();
			if (sn_isend(ep, peers[0], &stamp, sizeof(stamp), 2, &small) ||
			    sn_wait(ep, small, &c, -1) || c.status)
				die("a short message", c.status);
		}
		if (sn_wait(ep, big, &c, -1) || c.status)
			die("a long message", c.status);
	}
	free(buf);
}

static void incast(void)
{
	if (rank == 0)
		incast_receive();
	else
		incast_send();
	printf("OK\n");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"traffic", traffic}, {"endless", until_told}, {"pingpong", pingpong},
		     {"compute", compute}, {"deliver", deliver},    {"incast", incast}};

	if (argc < 6)
		return 2;
	rank = (unsigned)atoi(argv[1]);
	ranks = (unsigned)atoi(argv[2]);
	seed = strtoull(argv[4], NULL, 0);
	messages = strtoul(argv[5], NULL, 0);
	if (strcmp(argv[3], "deliver") == 0) /* its receiver is to look when it is told to, not its thread */
		setenv("SENNIT_PROGRESS", "0", 1);
	open_endpoint();
	exchange();
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, argv[3]) == 0)
			modes[i].run();
	close_when_told();
	printf("CLOSED\n");
	return 0;
}

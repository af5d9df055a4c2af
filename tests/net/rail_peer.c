/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One of two processes of a test or measurement with several rails, driven by rails.py:
 *   rail_peer RANK MODE BYTES COUNT SECONDS
 * It prints "ADDR hex" and reads the other's such line. Rank 0 sends, rank 1 receives.
 *   stream  messages of BYTES, two under way at a time, every byte checked, at least COUNT of them and until SECONDS have
 *           passed; rank 1 prints "AT seconds MB/s" every 100 ms, and "RATE MB/s" over all
 *   steps   a message of BYTES, every byte checked, for each line "GO" on both standard inputs; then "STEP"; "END" ends it
 *   burst   COUNT bursts of 256 messages of BYTES each; rank 0 prints "RATE messages/s"
 *   lone    COUNT messages of BYTES back and forth, one at a time; rank 0 prints "LATENCY us" one way, the median
 *   vector  COUNT messages from segments of BYTES into segments of twice that, every byte checked, also those between; rank 1
 *           prints "RATE MB/s"
 *   mixed   short messages numbered, among long ones: order and bytes are checked
 */
#include "peer.h"
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define BURST 256
#define PAD   24 /* bytes between segments */

static sn_peer other;
static size_t bytes;
static unsigned long count;
static double seconds;

static uint64_t word(unsigned long message, size_t i)
{
	return (message + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
}

/* By words: these stand between the posts that are timed. */
static void stamp(void *buf, size_t len, unsigned long message)
{
	uint64_t *w = buf;

	for (size_t i = 0; i < len / 8; i++)
		w[i] = word(message, i);
}

static bool stamped(const void *buf, size_t len, unsigned long message)
{
	const uint64_t *w = buf;

	for (size_t i = 0; i < len / 8; i++)
		if (w[i] != word(message, i))
			return false;
	return true;
}

static sn_req *post(void *buf, size_t len, uint64_t tag, bool send)
{
	sn_req *req = NULL;
	int rc = send ? sn_isend(ep, other, buf, len, tag, &req)
		      : sn_irecv(ep, other, buf, len, tag, UINT64_MAX, &req);

	if (rc)
		die("post", rc);
	return req;
}

static size_t end(sn_req *req)
{
	sn_completion c = {0};
	int rc;

	while ((rc = sn_test(ep, req, &c)) == SN_ERR_AGAIN)
		;
	if (rc || c.status)
		die("completion", rc ? rc : c.status);
	return c.len;
}

/* The first word of each message is checked, and all of every eighth: checking costs as much as carrying. */
static void taken(const uint8_t *buf, unsigned long i)
{
	if (!stamped(buf, i % 8 ? 8 : bytes, i))
		die("wrong bytes", 0);
}

static void stream_send(void)
{
	uint8_t *buf[2] = {malloc(bytes), malloc(bytes)};
	sn_req *req[2] = {NULL, NULL};
	double until = now() + seconds;
	unsigned long i = 0;
	uint64_t last;

	for (; i < count || now() < until; i++) {
		if (req[i % 2])
			end(req[i % 2]);
		if (i < 2)
			memset(buf[i % 2], 0, bytes);
		stamp(buf[i % 2], i % 8 ? 8 : bytes, i);
		req[i % 2] = post(buf[i % 2], bytes, 1, true);
	}
	for (int k = 0; k < 2; k++)
		if (req[k])
			end(req[k]);
	last = i;
	end(post(&last, sizeof(last), 1, true));
}

static void stream_receive(void)
{
	uint8_t *buf[2] = {malloc(bytes), malloc(bytes)};
	sn_req *req[2];
	double start = now(), mark = start;
	unsigned long i = 0, at_mark = 0;

	memset(buf[0], 0, bytes);
	memset(buf[1], 0, bytes);
	req[0] = post(buf[0], bytes, 1, false);
	req[1] = post(buf[1], bytes, 1, false);
	for (;; i++) {
		size_t len = end(req[i % 2]);
		double t = now();
		if (i == 0)
			start = mark = t;
		if (len == 8)
			break;
		taken(buf[i % 2], i);
		if (t - mark >= 0.1) {
			printf("AT %.3f %.1f\n", t - start,
			       (double)(i - at_mark) * (double)bytes / (t - mark) / 1e6);
			fflush(stdout);
			mark = t;
			at_mark = i;
		}
		req[i % 2] = post(buf[i % 2], bytes, 1, false);
	}
	uint64_t last;
	memcpy(&last, buf[i % 2], 8);
	if (last != i)
		die("messages are missing", 0);
	if (i > 1)
		printf("RATE %.1f MB/s\n", (double)(i - 1) * (double)bytes / (now() - start) / 1e6);
	sn_cancel(ep, req[(i + 1) % 2]);
	printf("OK %lu messages\n", i);
}

/* While nobody says GO the library is called, as a program between two messages would. */
static bool told_to_go(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char line[64];

	while (poll(&in, 1, 1) == 0)
		sn_progress(ep);
	return fgets(line, sizeof(line), stdin) && strncmp(line, "GO", 2) == 0;
}

static void steps(void)
{
	uint8_t *buf = calloc(1, bytes);
	unsigned long i = 0;

	for (; told_to_go(); i++) {
		if (rank == 0)
			stamp(buf, bytes, i);
		end(post(buf, bytes, 1, rank == 0));
		if (rank == 1 && !stamped(buf, bytes, i))
			die("wrong bytes", 0);
		printf("STEP %lu\n", i);
		fflush(stdout);
	}
	printf("OK %lu messages\n", i);
}

static void burst(void)
{
	uint8_t *buf = malloc(BURST * (bytes + 8)), ready[8] = {0};
	sn_req *req[BURST];
	double start = 0;

	for (unsigned long n = 0; n < count; n++) {
		if (n == count / 10) /* connected, warm */
			start = now();
		if (rank == 0) {
			end(post(ready, 8, 2, false));
			for (unsigned i = 0; i < BURST; i++) {
				stamp(buf + i * bytes, bytes, n + i);
				req[i] = post(buf + i * bytes, bytes, 3 + i % 4, true);
			}
		} else {
			for (unsigned i = 0; i < BURST; i++)
				req[i] = post(buf + i * bytes, bytes, 3 + i % 4, false);
			end(post(ready, 8, 2, true));
		}
		for (unsigned i = 0; i < BURST; i++)
			end(req[i]);
		for (unsigned i = 0; i < BURST && rank == 1; i++)
			if (!stamped(buf + i * bytes, bytes, n + i))
				die("wrong bytes", 0);
	}
	if (rank == 0)
		end(post(ready, 8, 9, false));
	else
		end(post(ready, 8, 9, true));
	double t = now() - start;
	if (rank == 0)
		printf("RATE %.0f messages/s\n", (double)(count - count / 10) * BURST / t);
	printf("OK\n");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void lone(void)
{
	uint8_t *buf = calloc(1, bytes);
	double *t = calloc(count, sizeof(*t));

	for (unsigned long n = 0; n < count; n++) {
		double start = now();
		end(post(buf, bytes, 1, rank == 0));
		end(post(buf, bytes, 1, rank == 1));
		t[n] = now() - start;
	}
	qsort(t, count, sizeof(*t), by_value);
	if (rank == 0)
		printf("LATENCY %.3f us\n", t[count / 2] / 2 * 1e6);
	printf("OK\n");
}

/* All with one tag, so all must match in the order in which they were sent, whichever rail carried them. */
static void mixed(void)
{
	static const size_t sizes[] = {8, 64, 3000, 8, 40000, 512, 8, 700000, 16, 9000};
	uint8_t *buf[16];
	sn_req *req[16] = {NULL};

	for (int i = 0; i < 16; i++)
		buf[i] = calloc(1, 700000);
	for (unsigned long n = 0; n < count + 16; n++) {
		unsigned k = n % 16;
		if (req[k]) {
			size_t len = end(req[k]), want = sizes[(n - 16) % 10];
			if (rank == 1 && (len != want || !stamped(buf[k], len, n - 16)))
				die("not the message whose turn it is", 0);
		}
		req[k] = NULL;
		if (n >= count)
			continue;
		if (rank == 0)
			stamp(buf[k], sizes[n % 10], n);
		req[k] = post(buf[k], rank == 0 ? sizes[n % 10] : 700000, 1, rank == 0);
	}
	printf("OK %lu messages in order\n", count);
}

/* Segments of `size` bytes in buf with gaps between; returns what was written for all. */
static size_t layout(struct iovec *v, unsigned segments, uint8_t *buf, size_t size)
{
	for (unsigned i = 0; i < segments; i++)
		v[i] = (struct iovec){buf + i * (size + PAD), size};
	return segments * (size + PAD);
}

static void vector(void)
{
	unsigned segments = rank == 0 ? SN_IOV_MAX : SN_IOV_MAX / 2;
	size_t size = rank == 0 ? bytes : 2 * bytes, total = SN_IOV_MAX * bytes;
	struct iovec v[SN_IOV_MAX];
	uint8_t *buf = malloc(segments * (size + PAD)), *flat = malloc(total);
	size_t room = layout(v, segments, buf, size);
	sn_msg m = {.peer = other, .iov = v, .iov_count = segments, .bits = 5, .mask = UINT64_MAX};
	double start = 0;

	for (unsigned long n = 0; n < count; n++) {
		sn_req *req = NULL;
		if (n == count / 10)
			start = now();
		if (n < 3 ||
		    n + 3 > count) { /* the first and the last ones are looked at, the others timed */
			fill(flat, total, n);
			memset(buf, 0xee, room);
			for (unsigned i = 0; i < segments && rank == 0; i++)
				memcpy(v[i].iov_base, flat + i * size, size);
		}
		int rc = rank == 0 ? sn_post_send(ep, &m, &req) : sn_post_recv(ep, &m, &req);
		if (rc || (end(req) != total && rank == 1))
			die("a vector", rc);
		for (unsigned i = 0; i < segments && rank == 1 && (n < 3 || n + 3 > count); i++) {
			uint8_t *at = v[i].iov_base;
			if (memcmp(at, flat + i * size, size) || at[size] != 0xee ||
			    at[size + PAD - 1] != 0xee)
				die("wrong bytes in a vector", 0);
		}
	}
	if (rank == 1)
		printf("RATE %.1f MB/s\n", (double)((count - count / 10) * total) / (now() - start) / 1e6);
	printf("OK\n");
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	rank = (unsigned)atoi(argv[1]);
	bytes = strtoul(argv[3], NULL, 0);
	count = strtoul(argv[4], NULL, 0);
	seconds = atof(argv[5]);
	open_endpoint();
	say_address();
	other = read_peer();
	if (strcmp(argv[2], "stream") == 0) {
		if (rank == 0) {
			stream_send();
			printf("OK\n");
		} else {
			stream_receive();
		}
	} else if (strcmp(argv[2], "steps") == 0) {
		steps();
	} else if (strcmp(argv[2], "burst") == 0) {
		burst();
	} else if (strcmp(argv[2], "vector") == 0) {
		vector();
	} else if (strcmp(argv[2], "lone") == 0) {
		lone();
	} else {
		mixed();
	}
	close_when_told();
	printf("CLOSED\n");
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages whose bytes lie in several places, with gaps between them, on either side or on both: every byte comes
 * where it belongs and the gaps stay as they were, whatever way they go. One process for each way, as settings are
 * read once.
 */
#include "sides.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGEST 900000u
#define GAP	100u
#define PIECES	3u
#define ROOM	(LARGEST + (PIECES + 1) * GAP)

static const size_t lengths[] = {3000, 8192, 9000, 16384, 40000, 65536, 200000, 400000, LARGEST};
static uint8_t body[LARGEST], from[ROOM], to[ROOM];

/* How the segments of a message of len bytes lie in memory, which begins with a gap. */
static uint32_t lay(struct iovec *iov, uint8_t *at, size_t len, bool apart)
{
	size_t cut[PIECES] = {len / 3, len / 4, len - len / 3 - len / 4};
	if (!apart) {
		iov[0] = (struct iovec){at + GAP, len};
		return 1;
	}
	for (unsigned i = 0; i < PIECES; i++) {
		iov[i] = (struct iovec){at + GAP, cut[i]};
		at += GAP + cut[i];
	}
	return PIECES;
}

static void fill(const struct iovec *iov, uint32_t count)
{
	size_t at = 0;
	memset(from, 0x55, sizeof(from));
	memset(to, 0xee, sizeof(to));
	for (uint32_t i = 0; i < count; at += iov[i++].iov_len)
		memcpy(iov[i].iov_base, body + at, iov[i].iov_len);
}

static bool untouched(const uint8_t *gap, const uint8_t *end)
{
	size_t len = (size_t)(end - gap);
	return len == 0 || (*gap == 0xee && memcmp(gap, gap + 1, len - 1) == 0);
}

static bool all_right(const struct iovec *iov, uint32_t count)
{
	const uint8_t *gap = to;
	size_t at = 0;
	for (uint32_t i = 0; i < count; at += iov[i++].iov_len) {
		if (!untouched(gap, iov[i].iov_base) ||
		    memcmp(iov[i].iov_base, body + at, iov[i].iov_len) != 0)
			return false;
		gap = (const uint8_t *)iov[i].iov_base + iov[i].iov_len;
	}
	return untouched(gap, to + sizeof(to));
}

static void wait_both(sn_req *sent, sn_req *received)
{
	sn_completion c;
	while (sn_test(side[1].ep, received, &c) == SN_ERR_AGAIN)
		sn_progress(side[0].ep);
	assert_int_equal(c.status, 0);
	while (sn_test(side[0].ep, sent, &c) == SN_ERR_AGAIN)
		sn_progress(side[1].ep);
	assert_int_equal(c.status, 0);
}

static void exchange(size_t len, bool out_apart, bool in_apart, bool late)
{
	struct iovec out[PIECES], in[PIECES];
	uint32_t outs = lay(out, from, len, out_apart), ins = lay(in, to, len, in_apart);
	sn_req *sent, *received;
	sn_msg recv = {.peer = side[1].peer, .iov = in, .iov_count = ins, .bits = 5, .mask = UINT64_MAX},
	       send = {.peer = side[0].peer, .iov = out, .iov_count = outs, .bits = 5};
	fill(out, outs);
	if (!late)
		assert_int_equal(sn_post_recv(side[1].ep, &recv, &received), 0);
	assert_true(sn_post_send(side[0].ep, &send, &sent) >= 0);
	if (late) {
		sn_progress(side[1].ep);
		assert_true(sn_post_recv(side[1].ep, &recv, &received) >= 0);
	}
	wait_both(sent, received);
	assert_true(all_right(in, ins));
}

static void exchange_all(const char *copy)
{
	setenv("SENNIT_COPY", copy, 1);
	sides_open(NULL);
	for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); k++)
		for (unsigned shape = 0; shape < 8; shape++)
			exchange(lengths[k], shape & 1, shape & 2, shape & 4);
	sides_close(NULL);
}

static void by(const char *copy)
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		exchange_all(copy);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void as_learned(void **state)
{
	by("auto");
}

static void in_pieces_through_the_ring(void **state)
{
	by("stream");
}

static void fetched(void **state)
{
	by("read");
}

static void written(void **state)
{
	by("write");
}

static int prepare(void **state)
{
	uint64_t rng = unit_seed();
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)unit_random(&rng);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_learned),
		cmocka_unit_test(in_pieces_through_the_ring),
		cmocka_unit_test(fetched),
		cmocka_unit_test(written),
	};
	return cmocka_run_group_tests(tests, prepare, NULL);
}

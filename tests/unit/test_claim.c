/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whoever arrives later copies: a sender that finds the receive posted writes straight into it, although the receiver
 * makes no call; and never into a receive that MPI's order gives to another message. The receiver looks at its buffer
 * before it calls sennit again, so what it finds there was put there by the sender alone. A receiver that comes second has
 * it all while the sender makes no call. No progress thread helps either.
 */
#include "copy/cma.h"
#include "two.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define N 300000

struct shared {
	struct meeting meeting;
	_Atomic int step;
};

static struct shared *sh;
static uint8_t *buf;

static void open_both(void)
{
	meet_other(&sh->meeting, 150);
	buf = calloc(1, N);
}

static void fill(uint8_t *b, size_t n, int seed)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(i * 7 + (i >> 9) + (size_t)seed);
}

static bool filled(const uint8_t *b, size_t n, int seed)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != (uint8_t)(i * 7 + (i >> 9) + (size_t)seed))
			return false;
	return true;
}

static void wait_status(sn_req *req, int status, sn_completion *c)
{
	sn_completion mine = {0};
	c = c ? c : &mine;
	CHECK(sn_wait(ep, req, c, 60000000) == 0);
	CHECK(c->status == status);
}

static void step(int n)
{
	sh->step = n;
}

static void until(int n) /* without a call of sennit */
{
	while (sh->step < n)
		usleep(20);
}

/* Both sides have each other's handshake, and all earlier messages are consumed. */
static void shake(void)
{
	char x = 0;
	for (int i = 0; i < 3; i++) {
		sn_req *s, *r;
		CHECK(sn_irecv(ep, peer, &x, 1, 99, UINT64_MAX, &r) == 0);
		CHECK(sn_isend(ep, peer, &x, 1, 99, &s) == 0);
		wait_status(r, 0, NULL);
		wait_status(s, 0, NULL);
		for (int k = 0; k < 200; k++) {
			sn_progress(ep);
			usleep(50);
		}
	}
}

/* ---- the scenes: process 0 receives, process 1 sends ---- */

static void receiver_computes(void)
{
	open_both();
	shake();
	for (int kind = 0; kind < 4; kind++) { /* exact; any source; any tag; synchronous */
		sn_req *r, *s;
		sn_completion c;
		int seed = 10 + kind;
		if (me == 0) {
			memset(buf, 0, N);
			CHECK(sn_irecv(ep, kind == 1 ? SN_ANY_PEER : peer, buf, N, kind == 2 ? 0 : 5,
				       kind == 2 ? 0 : UINT64_MAX, &r) == 0);
			step(10 * kind + 1);
			until(10 * kind + 2);
			CHECK(filled(buf, N - 5, seed)); /* before any further call */
			CHECK(buf[N - 1] == 0);
			wait_status(r, 0, &c);
			CHECK(c.len == N - 5 && c.full_len == N - 5 && c.bits == 5 && c.peer == peer);
			step(10 * kind + 3);
		} else {
			fill(buf, N, seed);
			until(10 * kind + 1);
			int posted = kind == 3 ? sn_issend(ep, peer, buf, N - 5, 5, &s)
					       : sn_isend(ep, peer, buf, N - 5, 5, &s);
			CHECK(posted == 0);
			CHECK(sn_test(ep, s, NULL) == 0); /* complete at once: the receiver has not moved */
			memset(buf, 0xff, N);
			step(10 * kind + 2);
			until(10 * kind + 3);
		}
	}
	CHECK(counter(me ? "local.claims" : "core.claimed") == 4);
}

/* The other way round: the receiver takes it all from a sender that makes no call. */
static void sender_computes(void)
{
	static const size_t sizes[] = {20000, 70000, N};
	open_both();
	shake();
	for (int i = 0; i < 3; i++) {
		sn_req *r, *s;
		sn_completion c;
		if (me == 0) {
			memset(buf, 0, N);
			until(10 * i + 1);
			CHECK(sn_irecv(ep, peer, buf, sizes[i], 5, UINT64_MAX, &r) == 0);
			wait_status(r, 0, &c);
			CHECK(c.len == sizes[i] && filled(buf, sizes[i], 20 + i));
			step(10 * i + 2);
		} else {
			fill(buf, N, 20 + i);
			CHECK(sn_isend(ep, peer, buf, sizes[i], 5, &s) == 0);
			step(10 * i + 1);
			until(10 * i + 2); /* only then it says anything again */
			wait_status(s, 0, NULL);
		}
	}
}

static void a_long_message_is_cut(void)
{
	sn_req *r, *s;
	sn_completion c;
	open_both();
	shake();
	if (me == 0) {
		CHECK(sn_irecv(ep, peer, buf, 20000, 5, UINT64_MAX, &r) == 0);
		step(1);
		until(2);
		wait_status(r, SN_ERR_TRUNCATED, &c);
		CHECK(c.len == 20000 && c.full_len == N && filled(buf, 20000, 1) && buf[20000] == 0);
	} else {
		fill(buf, N, 1);
		until(1);
		CHECK(sn_isend(ep, peer, buf, N, 5, &s) == 0);
		wait_status(s, 0, NULL);
		step(2);
	}
}

/* An earlier, small receive with the same tag is not on the board: the large one behind it must not be taken first. */
static void an_earlier_receive_goes_first(void)
{
	sn_req *r[2], *s[2];
	sn_completion c;
	static uint8_t small[100];
	open_both();
	shake();
	if (me == 0) {
		CHECK(sn_irecv(ep, peer, small, sizeof(small), 5, UINT64_MAX, &r[0]) == 0);
		CHECK(sn_irecv(ep, SN_ANY_PEER, buf, N, 5, UINT64_MAX, &r[1]) == 0);
		step(1);
		until(2);
		wait_status(r[0], SN_ERR_TRUNCATED, &c);
		CHECK(c.full_len == N);
		wait_status(r[1], 0, &c);
		CHECK(c.len == 7 && filled(buf, 7, 2));
		CHECK(counter("core.claimed") == 0);
	} else {
		fill(buf, N, 2);
		until(1);
		CHECK(sn_isend(ep, peer, buf, N, 5, &s[0]) == 0);
		CHECK(sn_isend(ep, peer, buf, 7, 5, &s[1]) == 0);
		step(2);
		wait_status(s[0], 0, NULL);
		wait_status(s[1], 0, NULL);
	}
}

/* An earlier message of the sender, still in the ring, could take the receive: the later one must not. */
static void an_earlier_message_goes_first(void)
{
	sn_req *r[2], *s[2];
	sn_completion c;
	open_both();
	shake();
	if (me == 0) {
		CHECK(sn_irecv(ep, peer, buf, N, 5, UINT64_MAX, &r[0]) == 0);
		step(1);
		until(2);
		wait_status(r[0], 0, &c);
		CHECK(c.len == 7);
		CHECK(sn_irecv(ep, peer, buf, N, 5, UINT64_MAX, &r[1]) == 0);
		wait_status(r[1], 0, &c);
		CHECK(c.len == N && filled(buf, N, 3));
	} else {
		fill(buf, N, 3);
		until(1);
		CHECK(sn_isend(ep, peer, buf, 7, 5, &s[0]) == 0);
		CHECK(sn_isend(ep, peer, buf, N, 5, &s[1]) == 0);
		step(2);
		wait_status(s[0], 0, NULL);
		wait_status(s[1], 0, NULL);
	}
}

static void a_claimed_receive_cannot_be_cancelled_a_free_one_can(void)
{
	sn_req *r[2], *s;
	open_both();
	shake();
	if (me == 0) {
		CHECK(sn_irecv(ep, peer, buf, N, 5, UINT64_MAX, &r[0]) == 0);
		CHECK(sn_irecv(ep, peer, buf, N, 6, UINT64_MAX, &r[1]) == 0);
		step(1);
		until(2);
		CHECK(sn_cancel(ep, r[0]) == SN_ERR_AGAIN);
		wait_status(r[0], 0, NULL);
		CHECK(filled(buf, N, 4));
		CHECK(sn_cancel(ep, r[1]) == 0);
		wait_status(r[1], SN_ERR_CANCELED, NULL);
		memset(buf, 0, N);
		step(3);
		until(4);
		CHECK(buf[0] == 0 && buf[N / 2] == 0);
	} else {
		fill(buf, N, 4);
		until(1);
		CHECK(sn_isend(ep, peer, buf, N, 5, &s) == 0);
		wait_status(s, 0, NULL);
		step(2);
		until(3);
		CHECK(sn_isend(ep, peer, buf, N, 6, &s) == 0); /* cancelled: must wait for another */
		CHECK(sn_test(ep, s, NULL) == SN_ERR_AGAIN);
		step(4);
	}
}

/* The kernel refuses in the middle, or a page faults: the message still goes to the receive that it has claimed. */
static void a_claim_that_cannot_be_written_is_announced(void)
{
	static const char *const faults[] = {"write:eperm@2", "write:efault", "write:short,write:enosys@3"};
	open_both();
	shake();
	for (int i = 0; i < 3; i++) {
		sn_req *r, *s;
		if (me == 0) {
			memset(buf, 0, N);
			CHECK(sn_irecv(ep, peer, buf, N, 5, UINT64_MAX, &r) == 0);
			step(10 * i + 1);
			until(10 * i + 2);
			wait_status(r, 0, NULL);
			CHECK(filled(buf, N, i));
			step(10 * i + 3);
		} else {
			fill(buf, N, i);
			CHECK(sn_fault_set(faults[i]));
			until(10 * i + 1);
			CHECK(sn_isend(ep, peer, buf, N, 5, &s) == 0);
			step(10 * i + 2);
			wait_status(s, 0, NULL);
			until(10 * i + 3);
		}
	}
}

/* A receiver that closes its endpoint: nobody writes into its memory any more. */
static void closing_takes_the_board_down(void)
{
	sn_req *r, *s;
	sn_completion c;
	open_both();
	shake();
	if (me == 0) {
		CHECK(sn_irecv(ep, peer, buf, N, 5, UINT64_MAX, &r) == 0);
		sn_ep_close(ep);
		ep = NULL;
		step(1);
		until(2);
		CHECK(buf[0] == 0 && buf[N / 2] == 0);
	} else {
		memset(buf, 0xff, N);
		until(1);
		if (sn_isend(ep, peer, buf, N, 5, &s) == 0)
			CHECK(sn_wait(ep, s, &c, 60000000) == 0 && c.status == SN_ERR_PEER_GONE);
		step(2);
	}
}

/* Its two lines and its locked instruction are for messages that look there. */
static void what_comes_in_one_piece_anyway_is_not_shown(void)
{
	static const struct {
		size_t room;
		bool any;
		unsigned shown;
	} posts[] = {{8192, false, 0}, {8193, false, 1}, {8192, true, 1}};
	open_both();
	shake();
	for (unsigned i = 0; i < sizeof(posts) / sizeof(*posts); i++) {
		sn_req *r;
		uint64_t before = counter("core.shown");
		CHECK(sn_irecv(ep, posts[i].any ? SN_ANY_PEER : peer, buf, posts[i].room, 5, UINT64_MAX,
			       &r) == 0);
		CHECK(counter("core.shown") - before == posts[i].shown);
		CHECK(sn_cancel(ep, r) == 0);
		wait_status(r, SN_ERR_CANCELED, NULL);
	}
	shake();
}

static void run(void (*scene)(void))
{
	sh = shared_new(sizeof(*sh));
	run_both(scene);
	munmap(sh, sizeof(*sh));
}

#define SCENE(name)                                                                                          \
	static void test_##name(void **state)                                                                \
	{                                                                                                    \
		run(name);                                                                                   \
	}
SCENE(receiver_computes)
SCENE(sender_computes)
SCENE(a_long_message_is_cut)
SCENE(an_earlier_receive_goes_first)
SCENE(an_earlier_message_goes_first)
SCENE(a_claimed_receive_cannot_be_cancelled_a_free_one_can)
SCENE(a_claim_that_cannot_be_written_is_announced)
SCENE(what_comes_in_one_piece_anyway_is_not_shown)
SCENE(closing_takes_the_board_down)

int main(void)
{
	setenv("SENNIT_PROGRESS", "0", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_receiver_computes),
		cmocka_unit_test(test_sender_computes),
		cmocka_unit_test(test_a_long_message_is_cut),
		cmocka_unit_test(test_an_earlier_receive_goes_first),
		cmocka_unit_test(test_an_earlier_message_goes_first),
		cmocka_unit_test(test_a_claimed_receive_cannot_be_cancelled_a_free_one_can),
		cmocka_unit_test(test_a_claim_that_cannot_be_written_is_announced),
		cmocka_unit_test(test_what_comes_in_one_piece_anyway_is_not_shown),
		cmocka_unit_test(test_closing_takes_the_board_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

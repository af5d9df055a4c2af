/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is only tried leaves no trace when it fails: sn_try_send and sn_try_recv do at once what was asked, or
 * nothing, and take no message from those that were posted before or out of its turn. Nor does a receive that
 * sn_try_post has posted, and it becomes another's where it stands.
 */
#include "core/core.h"
#include "progress/relax.h"
#include "sides.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#define LOOKS 64
#define EXACT UINT64_MAX
#define MARK  (UINT64_C(1) << 40) /* a bit that receives do not look at */
#define LONG  (256u << 10)
#define EAGER (36u << 10) /* goes through the ring in parts */

static void move(void)
{
	for (int i = 0; i < 100; i++)
		sn_progress(side[i % 2].ep);
}

/* The next receive by the usual way, which must end as said. One that does not end meets the alarm. */
static void receive(uint64_t bits, uint64_t mask, size_t room, int status, uint64_t got_bits, size_t len)
{
	static char in[LONG];
	told.count = 0;
	assert_int_equal(sn_trecv(side[1].ep, side[1].peer, in, room, bits & mask, mask, in), 0);
	while (!told.count)
		move();
	assert_int_equal(told.count, 1);
	assert_int_equal(told.last.status, status);
	assert_int_equal(told.last.bits, got_bits);
	assert_int_equal(told.last.len, len);
	told.count = 0;
}

static int send_try(uint64_t value, uint64_t bits)
{
	return sn_try_send(side[0].ep, side[0].peer, &value, sizeof(value), bits, 0, 0);
}

static int recv_try(uint64_t *value, uint64_t bits, uint64_t mask, uint64_t exactly, unsigned looks)
{
	uint64_t len = 0;
	int rc = sn_try_recv(side[1].ep, side[1].peer, value, sizeof(*value), bits & mask, mask, exactly,
			     looks, &len);
	if (!rc)
		assert_int_equal(len, sizeof(*value));
	return rc;
}

static int setup(void **state)
{
	sn_ep_attr attr = {.on_complete = tell};
	char byte = 1;
	setenv("SENNIT_PROGRESS", "0", 1);  /* nor may a thread send what is queued */
	setenv("SENNIT_EAGER", "40960", 1); /* on every machine */
	sides_open(&attr);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sn_ep_quiet(side[i].ep, 1), 0);
	assert_int_equal(send_try(1, 1), SN_ERR_AGAIN); /* there is no connection yet */
	assert_int_equal(sn_inject(side[0].ep, side[0].peer, &byte, 1, 1, 0, 0), 0);
	receive(1, EXACT, 8, SN_OK, 1, 1);
	return 0;
}

static cpu_set_t all_cores;

/* Two processes, as far as is known, on one core. */
static int setup_crowd(void **state)
{
	cpu_set_t one;
	int cpu = sched_getcpu();
	CPU_ZERO(&one);
	CPU_SET((unsigned)cpu, &one);
	assert_int_equal(sched_getaffinity(0, sizeof(all_cores), &all_cores), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	return setup(state);
}

static int teardown_crowd(void **state)
{
	sides_close(state);
	return sched_setaffinity(0, sizeof(all_cores), &all_cores);
}

static void what_is_there_is_taken_and_nobody_is_told(void **state)
{
	uint64_t got = 0;
	for (uint64_t k = 1; k <= 300; k++) {
		assert_int_equal(send_try(k, 5), SN_OK);
		if (k % 3 == 0) /* it has come before anybody asks, and needs no look */
			move();
		assert_int_equal(recv_try(&got, 5, EXACT, 5, k % 3 ? LOOKS : 0), SN_OK);
		assert_int_equal(got, k);
	}
	uint64_t len;
	assert_int_equal(send_try(7, 5), SN_OK);
	assert_int_equal(sn_try_recv(side[1].ep, SN_ANY_PEER, &got, sizeof(got), 0, 0, 5, LOOKS, &len),
			 SN_OK);
	assert_int_equal(got, 7);
	assert_int_equal(told.count, 0);
}

static int sees_nothing(void *rail)
{
	return 0;
}

/* Where looks between whole ones are cheap ones, and these find nothing. */
static void also_a_single_look_is_a_whole_one(void **state)
{
	struct sn_peer_state *peer = side[1].ep->peers[side[1].peer];
	struct sn_rail_ops ops = *peer->ops;
	ops.peek = sees_nothing;
	peer->ops = &ops;
	for (uint64_t k = 1; k <= 20; k++) {
		uint64_t got = 0;
		assert_int_equal(send_try(k, 5), SN_OK);
		assert_int_equal(recv_try(&got, 5, EXACT, 5, (unsigned)k), SN_OK);
		assert_int_equal(got, k);
	}
	peer->ops = &sn_rail_local;
}

static void a_receive_in_vain_was_never_posted(void **state)
{
	uint64_t got = 0;
	for (int k = 0; k < 100; k++)
		assert_int_equal(recv_try(&got, 5, EXACT, 5, LOOKS), SN_ERR_AGAIN);
	assert_int_equal(send_try(3, 5), SN_OK);
	move();
	assert_int_equal(got, 0);
	receive(5, EXACT, 8, SN_OK, 5, 8);
}

static void an_earlier_receive_comes_first(void **state)
{
	uint64_t first = 0, got = 0;
	told.count = 0;
	assert_int_equal(sn_trecv(side[1].ep, SN_ANY_PEER, &first, sizeof(first), 0, 0, NULL), 0);
	assert_int_equal(send_try(1, 5), SN_OK);
	assert_int_equal(recv_try(&got, 5, EXACT, 5, LOOKS), SN_ERR_AGAIN);
	assert_int_equal(first, 1);
	assert_int_equal(told.count, 1);
	assert_int_equal(send_try(2, 5), SN_OK);
	assert_int_equal(recv_try(&got, 5, EXACT, 5, LOOKS), SN_OK);
	assert_int_equal(got, 2);
	told.count = 0;
}

/* A message that the receive matches but is not like the others, and one behind it that is. */
static void another_message_keeps_its_turn(void **state)
{
	for (int here = 0; here < 2; here++) {
		uint64_t got = 0;
		assert_int_equal(send_try(1, 5 | MARK), SN_OK);
		assert_int_equal(send_try(2, 5), SN_OK);
		if (here)
			move();
		for (int k = 0; k < 3; k++)
			assert_int_equal(recv_try(&got, 5, ~MARK, 5, LOOKS), SN_ERR_AGAIN);
		assert_int_equal(got, 0);
		receive(5, ~MARK, 8, SN_OK, 5 | MARK, 8);
		assert_int_equal(recv_try(&got, 5, ~MARK, 5, LOOKS), SN_OK);
		assert_int_equal(got, 2);
	}
}

static void what_does_not_fit_is_left(void **state)
{
	static char out[LONG];
	static const size_t sizes[] = {9, 41, 4096, 8192, LONG};
	for (size_t k = 0; k < 2 * sizeof(sizes) / sizeof(sizes[0]); k++) {
		uint64_t got[2] = {0};
		size_t n = sizes[k / 2];
		bool here = k % 2;
		memset(out, 1, n);
		assert_in_range(sn_tsend(side[0].ep, side[0].peer, out, n, 5, 0, SN_FORGET, NULL), 0, 1);
		assert_in_range(sn_tsend(side[0].ep, side[0].peer, out, 8, 5, 0, SN_FORGET, NULL), 0, 1);
		if (here)
			move();
		for (int i = 0; i < 10; i++)
			assert_int_equal(recv_try(got, 5, EXACT, 5, LOOKS), SN_ERR_AGAIN);
		assert_int_equal(got[0] | got[1], 0);
		receive(5, EXACT, 8, SN_ERR_TRUNCATED, 5, 8);
		receive(5, EXACT, 8, SN_OK, 5, 8);
	}
}

static void a_send_waits_for_nobody_and_overtakes_none(void **state)
{
	uint64_t sent = 0, got, next = 0;
	while (send_try(sent, 5) == SN_OK)
		sent++;
	assert_in_range(sent, 100, 1 << 20);
	for (int k = 0; k < 2; k++, sent++) /* queued */
		assert_in_range(sn_inject(side[0].ep, side[0].peer, &sent, sizeof(sent), 5, 0, 0), 0, 0);
	while (next < 100 + sent / 2) { /* there is room again, but these are not in the ring yet */
		assert_int_equal(recv_try(&got, 5, EXACT, 5, LOOKS), SN_OK);
		assert_int_equal(got, next);
		next++;
	}
	assert_int_equal(send_try(0, 5), SN_ERR_AGAIN);
	move();
	assert_int_equal(send_try(sent++, 5), SN_OK);
	for (; next < sent; next++) {
		assert_int_equal(recv_try(&got, 5, EXACT, 5, LOOKS), SN_OK);
		assert_int_equal(got, next);
	}
}

static uint32_t long_out[EAGER / 4], long_in[EAGER / 4];

static int send_long(uint32_t k, bool tried)
{
	for (size_t i = 0; i < EAGER / 4; i++)
		long_out[i] = k + (uint32_t)i;
	return tried ? sn_try_send(side[0].ep, side[0].peer, long_out, EAGER, 5, 0, 0)
		     : sn_tsend(side[0].ep, side[0].peer, long_out, EAGER, 5, 0, SN_FORGET, NULL);
}

static int recv_long(uint32_t k, unsigned looks)
{
	uint64_t len = 0;
	memset(long_in, 0, sizeof(long_in));
	int rc = sn_try_recv(side[1].ep, side[1].peer, long_in, EAGER, 5, EXACT, 5, looks, &len);
	assert_int_equal(len, rc ? 0 : EAGER);
	for (size_t i = 0; i < EAGER / 4; i++)
		assert_int_equal(long_in[i], rc ? 0 : k + (uint32_t)i);
	return rc;
}

/*
 * So many may follow before the sender has timed its loop, and tries another way. Once by then it reads its clock,
 * for which the message is posted.
 */
#define UNTIMED 20

/* What lies in the ring can be tried when both know all of each other, one was posted there, and one has come. */
static void get_going(void)
{
	assert_int_equal(send_long(1, true), SN_ERR_AGAIN);
	assert_in_range(send_long(1, false), 0, 1);
	assert_int_equal(recv_long(1, LOOKS), SN_ERR_AGAIN);
	receive(5, EXACT, LONG, SN_OK, 5, EAGER);
	while (send_long(2, true)) {
		assert_in_range(send_long(1, false), 0, 1);
		receive(5, EXACT, LONG, SN_OK, 5, EAGER);
	}
	assert_int_equal(recv_long(2, LOOKS), SN_OK);
}

static void what_comes_in_parts_is_taken_once_one_has(void **state)
{
	unsigned tried = 0;
	get_going();
	for (uint32_t k = 0; k < UNTIMED; k++) {
		bool sent = send_long(k, true) == SN_OK;
		tried += sent;
		assert_in_range(sent ? 1 : send_long(k, false), 0, 1);
		assert_int_equal(recv_long(k, LOOKS), SN_OK);
	}
	assert_in_range(tried, UNTIMED - 3, UNTIMED - 1); /* likewise once the cores are seen elsewhere */
}

/* What comes while somebody waits in sn_recv: a message at the third look, or the other's end. */
static unsigned asked;
static size_t comes;

static void send_at_third(void)
{
	static char out[LONG];
	memset(out, 7, sizeof(out));
	if (++asked == 3)
		assert_in_range(sn_tsend(side[0].ep, side[0].peer, out, comes, 5, 0, SN_FORGET, NULL), 0, 1);
	move();
}

static void end_at_third(void)
{
	if (++asked == 3) {
		sn_ep_close(side[0].ep);
		side[0].ep = NULL;
	}
}

static void what_is_waited_for_comes_whatever_it_is(void **state)
{
	static char in[LONG];
	static const size_t sizes[] = {0, 8, 4096, 8192, LONG};
	sn_completion c;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		comes = sizes[k];
		for (int less = 0; less < 1 + (comes > 0); less++) {
			asked = 0;
			memset(in, 0, sizeof(in));
			assert_int_equal(sn_recv(side[1].ep, side[1].peer, in, comes - (size_t)less, 5, EXACT,
						 send_at_third, &c),
					 SN_OK);
			assert_int_equal(c.status, less ? SN_ERR_TRUNCATED : SN_OK);
			assert_int_equal(c.full_len, comes);
			assert_int_equal(c.bits, 5);
			assert_true(comes < 9 || in[comes - 2] == 7);
			assert_in_range(asked, 3, 1000000);
		}
	}
	asked = 0;
	assert_int_equal(sn_recv(side[1].ep, side[1].peer, in, 8, 5, EXACT, end_at_third, &c), SN_OK);
	assert_int_equal(c.status, SN_ERR_PEER_GONE);
	assert_true(!told.count || told.last.op != SN_OP_RECV);
}

/* Its memory is no longer mapped: nothing of what it showed there is asked for. */
static void who_has_gone_is_not_looked_for(void **state)
{
	static char in[LONG];
	static const size_t sizes[] = {0, 8, 4096, 8192, EAGER, LONG};
	sn_completion c;
	uint64_t len;
	get_going();
	asked = 2;
	end_at_third();
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		assert_int_equal(sn_recv(side[1].ep, side[1].peer, in, sizes[k], 5, EXACT, end_at_third, &c),
				 SN_OK);
		assert_int_equal(c.status, SN_ERR_PEER_GONE);
		assert_int_equal(
			sn_try_recv(side[1].ep, side[1].peer, in, sizes[k], 5, EXACT, 5, LOOKS, &len),
			SN_ERR_AGAIN);
	}
}

#define TURNS 500

static _Atomic uint64_t wanted;

static void *sends_long(void *unused)
{
	for (uint32_t k = 1; k < UNTIMED; k++) {
		while (atomic_load(&wanted) < k)
			sched_yield();
		if (send_long(k, true))
			send_long(k, false);
	}
	return NULL;
}

/* With a single look, which often finds a message that has only begun. */
static void what_has_begun_to_come_is_waited_for(void **state)
{
	for (int round = 0; round < 20; round++) {
		pthread_t other;
		get_going();
		atomic_store(&wanted, 0);
		assert_int_equal(pthread_create(&other, NULL, sends_long, NULL), 0);
		for (uint32_t k = 1; k < UNTIMED; k++) {
			atomic_store(&wanted, k);
			while (recv_long(k, 1))
				;
		}
		pthread_join(other, NULL);
		sides_close(state);
		setup(state);
	}
}

#define TURNS 500

/* Somebody else on the core, who sends when he gets it. */
static void *sends_in_turn(void *unused)
{
	for (uint64_t k = 1; k <= TURNS; k++) {
		while (atomic_load(&wanted) < k)
			sched_yield();
		while (send_try(k, 5))
			;
	}
	return NULL;
}

static void in_a_crowd_the_sender_gets_the_core(void **state)
{
	pthread_t other;
	unsigned in_vain = 0;
	atomic_store(&wanted, 0);
	assert_int_equal(pthread_create(&other, NULL, sends_in_turn, NULL), 0);
	for (uint64_t k = 1; k <= TURNS; k++) {
		uint64_t got = 0;
		bool waits = false; /* however often he asks while somebody else has the sender's core */
		atomic_store(&wanted, k);
		for (; recv_try(&got, 5, EXACT, 5, LOOKS); waits = true)
			sched_yield();
		in_vain += waits;
		assert_int_equal(got, k);
	}
	pthread_join(other, NULL);
	assert_in_range(in_vain, 0, TURNS / 4);
	assert_int_equal(told.count, 0);
}

/* ---- posted ahead ---- */

static sn_req *post_ahead(uint64_t *value, uint64_t mask)
{
	sn_req *req = sn_try_post(side[1].ep, side[1].peer, value, sizeof(*value), 5, mask);
	assert_non_null(req);
	return req;
}

static void one_that_stays_is_told_to_who_asks(void **state)
{
	enum { MANY = 300 };
	uint64_t got[MANY], len;
	sn_req *req[MANY];
	for (uint64_t k = 0; k < MANY; k++)
		req[k] = post_ahead(&got[k], EXACT);
	assert_int_equal(sn_try_test(req[0], 5, LOOKS, &len), SN_ERR_AGAIN);
	for (uint64_t k = 0; k < MANY; k++)
		assert_int_equal(send_try(k, 5), SN_OK);
	for (uint64_t k = MANY; k-- > 0;) {
		assert_int_equal(sn_try_test(req[k], 5, LOOKS, &len), SN_OK);
		assert_int_equal(len, sizeof(got[k]));
		assert_int_equal(got[k], k);
	}
	assert_int_equal(told.count, 0);
}

/* Before its message has come, or after that, and whatever message it is: the others keep their places. */
static void one_that_is_handed_over_keeps_its_place(void **state)
{
	for (int here = 0; here < 2; here++) {
		for (int other = 0; other < 3; other++) {
			uint64_t got[3] = {0}, out[2] = {11, 0}, len;
			sn_req *req[3];
			int context;
			size_t n = other == 1 ? sizeof(out) : 8;
			told.count = 0;
			for (int k = 0; k < 3; k++)
				req[k] = post_ahead(&got[k], ~MARK);
			if (!here)
				sn_try_hand_over(req[1], &context);
			assert_int_equal(send_try(10, 5), SN_OK);
			assert_in_range(sn_tsend(side[0].ep, side[0].peer, out, n, other == 2 ? 5 | MARK : 5,
						 0, SN_FORGET, NULL),
					0, 1);
			assert_int_equal(send_try(12, 5), SN_OK);
			move();
			assert_int_equal(told.count, !here);
			if (here && other)
				assert_int_not_equal(sn_try_test(req[1], 5, LOOKS, &len), SN_ERR_AGAIN);
			if (here)
				sn_try_hand_over(req[1], &context);
			assert_int_equal(told.count, 1);
			assert_ptr_equal(told.last.context, &context);
			assert_int_equal(told.last.status, other == 1 ? SN_ERR_TRUNCATED : SN_OK);
			assert_int_equal(told.last.bits, other == 2 ? 5 | MARK : 5);
			for (int k = 0; k < 3; k += 2)
				assert_int_equal(sn_try_test(req[k], 5, LOOKS, &len), SN_OK);
			for (uint64_t k = 0; k < 3; k++)
				assert_int_equal(got[k], 10 + k);
		}
	}
	told.count = 0;
}

static void one_that_is_dropped_was_never_posted(void **state)
{
	uint64_t got = 0;
	assert_int_equal(sn_try_drop(post_ahead(&got, EXACT)), SN_OK);
	assert_int_equal(send_try(3, 5), SN_OK);
	move();
	assert_int_equal(got, 0);
	receive(5, EXACT, 8, SN_OK, 5, 8);
	sn_req *late = post_ahead(&got, EXACT);
	assert_int_equal(send_try(4, 5), SN_OK);
	move();
	assert_int_equal(sn_try_drop(late), SN_ERR_INVALID);
}

/*
 * Whether it is there before its receive or not, is long or short, and whoever waits for it: a mark is of this
 * message and no other.
 */
static void a_mark_comes_with_its_message(void **state)
{
	static char out[SN_INJECT_MAX], in[SN_INJECT_MAX];
	const size_t lengths[] = {0, 8, 300, SN_INJECT_MAX};
	for (unsigned i = 0; i < 64; i++) {
		size_t len = lengths[i % 4];
		bool marked = i / 4 % 2, early = i / 8 % 2, surely = i / 16 % 2, injected = i / 32;
		uint32_t flags = (marked ? SN_MARK : 0) | (i % 3 ? SN_DATA : 0);
		uint64_t got = 0;
		int rc = (injected ? sn_inject : sn_try_send)(side[0].ep, side[0].peer, out, len, 5, 77,
							      flags);
		assert_int_equal(rc, SN_OK);
		if (early)
			move();
		if (surely) {
			sn_completion c;
			assert_int_equal(sn_recv(side[1].ep, side[1].peer, in, len, 5, EXACT, move, &c),
					 SN_OK);
			assert_int_equal(c.status, SN_OK);
			assert_int_equal(c.flags, (marked ? SN_COMP_MARK : 0u) | (i % 3 ? SN_COMP_DATA : 0u));
			got = c.len;
		} else {
			assert_int_equal(
				sn_try_recv(side[1].ep, side[1].peer, in, len, 5, EXACT, 5, LOOKS, &got),
				SN_OK);
		}
		assert_int_equal(got, len);
		assert_int_equal(sn_try_marked(side[1].ep), marked);
		assert_int_equal(sn_try_marked(side[0].ep), 0);
	}
	assert_int_equal(sn_try_marked(NULL), 0);
	told.count = 0;
}

/*
 * A child of fork asks in vain, but lives: what its peers share is not mapped there. With so many that one ring is
 * looked at by itself.
 */
static void a_child_of_fork_asks_in_vain(void **state)
{
	enum { MORE = 4 };
	sn_ep *more[MORE];
	uint64_t got = 0, len;
	for (int i = 0; i < MORE; i++) {
		uint8_t addr[SN_ADDR_MAX];
		size_t n = sizeof(addr);
		sn_peer unused;
		assert_int_equal(sn_ep_open(NULL, &more[i]), 0);
		assert_int_equal(sn_ep_address(more[i], addr, &n), 0);
		assert_int_equal(sn_peer_add(side[1].ep, addr, n, &unused), 0);
	}
	sn_req *req = post_ahead(&got, EXACT);
	sn_relax_crowd(0); /* as where each has a core */
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(sn_try_test(req, 5, LOOKS, &len) == SN_ERR_AGAIN ? 0 : 1);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(send_try(7, 5), SN_OK);
	assert_int_equal(sn_try_test(req, 5, LOOKS, &len), SN_OK);
	assert_int_equal(got, 7);
	for (int i = 0; i < MORE; i++)
		sn_ep_close(more[i]);
}

static void nonsense_is_not_tried(void **state)
{
	uint64_t got = 0, len;
	sn_completion c;
	sn_peer none = side[1].peer + 100;
	assert_int_equal(sn_recv(NULL, 0, &got, 8, 5, EXACT, move, &c), SN_ERR_INVALID);
	assert_int_equal(sn_recv(side[1].ep, none, &got, 8, 5, EXACT, move, &c), SN_ERR_INVALID);
	assert_int_equal(sn_recv(side[1].ep, side[1].peer, NULL, 8, 5, EXACT, move, &c), SN_ERR_INVALID);
	assert_int_equal(sn_recv(side[1].ep, side[1].peer, &got, 8, 5, 1, move, &c), SN_ERR_INVALID);
	assert_int_equal(sn_try_send(NULL, 0, &got, 8, 5, 0, 0), SN_ERR_AGAIN);
	assert_int_equal(sn_try_send(side[0].ep, none, &got, 8, 5, 0, 0), SN_ERR_AGAIN);
	assert_int_equal(sn_try_send(side[0].ep, side[0].peer, NULL, 8, 5, 0, 0), SN_ERR_AGAIN);
	assert_int_equal(sn_try_send(side[0].ep, side[0].peer, &got, 8, 5, 0, SN_SYNC), SN_ERR_AGAIN);
	assert_int_equal(sn_try_recv(NULL, 0, &got, 8, 5, EXACT, 5, LOOKS, &len), SN_ERR_AGAIN);
	assert_int_equal(sn_try_recv(side[1].ep, none, &got, 8, 5, EXACT, 5, LOOKS, &len), SN_ERR_AGAIN);
	assert_int_equal(sn_try_recv(side[1].ep, side[1].peer, NULL, 8, 5, EXACT, 5, LOOKS, &len),
			 SN_ERR_AGAIN);
	assert_int_equal(sn_try_recv(side[1].ep, side[1].peer, &got, 8, 5, 1, 5, LOOKS, &len), SN_ERR_AGAIN);
	assert_int_equal(sn_try_recv(side[1].ep, side[1].peer, &got, 8, 5, EXACT, 5, LOOKS, NULL),
			 SN_ERR_AGAIN);
	assert_null(sn_try_post(NULL, 0, &got, 8, 5, EXACT));
	assert_null(sn_try_post(side[1].ep, none, &got, 8, 5, EXACT));
	assert_null(sn_try_post(side[1].ep, side[1].peer, NULL, 8, 5, EXACT));
	assert_null(sn_try_post(side[1].ep, side[1].peer, &got, 8, 5, 1));
	move();
	assert_int_equal(told.count, 0);
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_there_is_taken_and_nobody_is_told, setup,
						sides_close),
		cmocka_unit_test_setup_teardown(also_a_single_look_is_a_whole_one, setup, sides_close),
		cmocka_unit_test_setup_teardown(a_receive_in_vain_was_never_posted, setup, sides_close),
		cmocka_unit_test_setup_teardown(an_earlier_receive_comes_first, setup, sides_close),
		cmocka_unit_test_setup_teardown(another_message_keeps_its_turn, setup, sides_close),
		cmocka_unit_test_setup_teardown(what_does_not_fit_is_left, setup, sides_close),
		cmocka_unit_test_setup_teardown(a_send_waits_for_nobody_and_overtakes_none, setup,
						sides_close),
		cmocka_unit_test_setup_teardown(what_comes_in_parts_is_taken_once_one_has, setup,
						sides_close),
		cmocka_unit_test_setup_teardown(what_has_begun_to_come_is_waited_for, setup, sides_close),
		cmocka_unit_test_setup_teardown(what_is_waited_for_comes_whatever_it_is, setup, sides_close),
		cmocka_unit_test_setup_teardown(who_has_gone_is_not_looked_for, setup, sides_close),
		cmocka_unit_test_setup_teardown(one_that_stays_is_told_to_who_asks, setup, sides_close),
		cmocka_unit_test_setup_teardown(one_that_is_handed_over_keeps_its_place, setup, sides_close),
		cmocka_unit_test_setup_teardown(one_that_is_dropped_was_never_posted, setup, sides_close),
		cmocka_unit_test_setup_teardown(a_mark_comes_with_its_message, setup, sides_close),
		cmocka_unit_test_setup_teardown(a_child_of_fork_asks_in_vain, setup, sides_close),
		cmocka_unit_test_setup_teardown(nonsense_is_not_tried, setup, sides_close),
		cmocka_unit_test_setup_teardown(in_a_crowd_the_sender_gets_the_core, setup_crowd,
						teardown_crowd),
		cmocka_unit_test_setup_teardown(a_receive_in_vain_was_never_posted, setup_crowd,
						teardown_crowd),
		cmocka_unit_test_setup_teardown(an_earlier_receive_comes_first, setup_crowd, teardown_crowd),
		cmocka_unit_test_setup_teardown(another_message_keeps_its_turn, setup_crowd, teardown_crowd),
		cmocka_unit_test_setup_teardown(what_does_not_fit_is_left, setup_crowd, teardown_crowd),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

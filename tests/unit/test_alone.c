/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who waits for one peer (sn_try_recv, sn_mprobe) looks at what comes from that one alone, without a look at all the
 * others; but now and then he does, so that nobody's messages are left lying.
 */
#include "core/core.h"
#include "progress/relax.h"
#include "sides.h"

#define MORE  4 /* peers, besides the one that is waited for */
#define LOOKS 64
#define EXACT UINT64_MAX

static struct {
	sn_ep *ep;
	sn_peer to, from; /* side[1], as it knows that; and the other way round */
} more[MORE];

static void move(void)
{
	for (int i = 0; i < 200; i++) {
		sn_progress(side[i % 2].ep);
		sn_progress(more[i % MORE].ep);
	}
}

static void arrives(sn_peer from, uint64_t bits)
{
	static char in[8];
	unsigned before = told.count;
	assert_int_equal(sn_trecv(side[1].ep, from, in, sizeof(in), bits, EXACT, in), 0);
	while (told.count == before) /* other threads make the connection, and may have no core for long */
		move();
	assert_int_equal(told.count, before + 1);
}

static int setup(void **state)
{
	sn_ep_attr attr = {.on_complete = tell};
	char byte = 1;
	setenv("SENNIT_PROGRESS", "0", 1);
	sides_open(&attr);
	uint8_t here[SN_ADDR_MAX], there[SN_ADDR_MAX];
	size_t here_len = sizeof(here), len;
	assert_int_equal(sn_ep_address(side[1].ep, here, &here_len), 0);
	for (int i = 0; i < MORE; i++) {
		len = sizeof(there);
		assert_int_equal(sn_ep_open(&attr, &more[i].ep), 0);
		assert_int_equal(sn_ep_address(more[i].ep, there, &len), 0);
		assert_int_equal(sn_peer_add(more[i].ep, here, here_len, &more[i].to), 0);
		assert_int_equal(sn_peer_add(side[1].ep, there, len, &more[i].from), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(sn_ep_quiet(side[i].ep, 1), 0);
	for (int i = 0; i < MORE; i++)
		assert_int_equal(sn_ep_quiet(more[i].ep, 1), 0);
	assert_int_equal(sn_inject(side[0].ep, side[0].peer, &byte, 1, 1, 0, 0), 0);
	arrives(side[1].peer, 1);
	for (int i = 0; i < MORE; i++) {
		assert_int_equal(sn_inject(more[i].ep, more[i].to, &byte, 1, 2, 0, 0), 0);
		arrives(more[i].from, 2);
	}
	sn_relax_crowd(0); /* all of them are this process */
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < MORE; i++)
		sn_ep_close(more[i].ep);
	return sides_close(state);
}

/* One message, from side[0]. Returns the whole looks made for it. */
static uint32_t take_one(uint64_t k)
{
	uint64_t got = 0, len = 0;
	assert_int_equal(sn_try_send(side[0].ep, side[0].peer, &k, sizeof(k), 5, 0, 0), 0);
	uint32_t before = atomic_load(&side[1].ep->client.calls);
	assert_int_equal(sn_try_recv(side[1].ep, side[1].peer, &got, sizeof(got), 5, EXACT, 5, LOOKS, &len),
			 0);
	assert_int_equal(got, k);
	assert_int_equal(len, sizeof(got));
	return atomic_load(&side[1].ep->client.calls) - before;
}

static void one_of_many_is_looked_at_alone(void **state)
{
	uint32_t whole = 0;
	for (uint64_t k = 0; k < 800; k++)
		whole += take_one(k);
	assert_in_range(whole, 1, 200);
}

static void send(uint64_t k)
{
	assert_int_equal(sn_try_send(side[0].ep, side[0].peer, &k, sizeof(k), 5, 0, 0), 0);
}

/* So many that all are there with the first look. Each begins a receive, but only one of them looks. */
static void take_several(unsigned n)
{
	uint64_t got, len;
	for (unsigned k = 0; k < n; k++)
		send(k);
	for (unsigned k = 0; k < n; k++) {
		assert_int_equal(
			sn_try_recv(side[1].ep, side[1].peer, &got, sizeof(got), 5, EXACT, 5, LOOKS, &len),
			0);
		assert_int_equal(got, k);
	}
}

static void take_probed(unsigned n)
{
	sn_completion c;
	sn_claim *claim;
	send(n);
	while (sn_mprobe(side[1].ep, 0, side[1].peer, 5, EXACT, &c, &claim) == SN_ERR_AGAIN)
		;
	assert_int_equal(sn_discard(side[1].ep, claim), 0);
}

/* One of the others has sent a message, and side[0] keeps sending its own, which are taken in this way. */
static void somebody_waits(unsigned i, unsigned turn, void (*take)(unsigned n), unsigned n, unsigned most)
{
	static char in[8];
	char byte = (char)turn;
	unsigned before = told.count, turns = 0;
	assert_int_equal(sn_trecv(side[1].ep, more[i].from, in, sizeof(in), 7, EXACT, in), 0);
	assert_int_equal(sn_inject(more[i].ep, more[i].to, &byte, 1, 7, 0, 0), 0);
	for (; told.count == before && turns < most; turns++)
		take(n);
	assert_int_equal(told.count, before + 1);
	assert_int_equal(in[0], byte);
}

static void others_are_not_left_lying(void **state)
{
	for (unsigned k = 0; k < 160; k++) {
		side[1].ep->looked_alone = k % 8; /* whichever turn it is */
		somebody_waits(k % MORE, k, take_several, 1 + k / 8, 64);
		somebody_waits(k % MORE, k, take_probed, 0, 64);
	}
}

/* Who has the core for a turn takes all that is there in it: others wait for the next one. */
static void in_a_crowd_nobody_is_looked_at_alone(void **state)
{
	sn_relax_crowd(1000000);
	for (unsigned k = 0; k < 32; k++) {
		somebody_waits(k % MORE, k, take_several, 1, 1);
		somebody_waits(k % MORE, k, take_probed, 0, 1);
	}
	sn_relax_crowd(0);
}

static void who_has_gone_is_not_looked_at(void **state)
{
	uint64_t got = 0, len = 0;
	take_one(1);
	sn_ep_close(side[0].ep);
	assert_int_equal(sn_ep_open(NULL, &side[0].ep), 0); /* for the teardown */
	for (int i = 0; i < 20; i++)
		assert_int_not_equal(
			sn_try_recv(side[1].ep, side[1].peer, &got, sizeof(got), 5, EXACT, 5, LOOKS, &len),
			0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_of_many_is_looked_at_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(others_are_not_left_lying, setup, teardown),
		cmocka_unit_test_setup_teardown(in_a_crowd_nobody_is_looked_at_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(who_has_gone_is_not_looked_at, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

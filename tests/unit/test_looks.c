/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has more peers than are looked at first takes what all of them have sent in one look, where ranks outnumber
 * cores: between two looks the core is somebody else's. And where each has a core, those that send all the time hold
 * up nobody.
 */
#include "progress/relax.h"
#include "sennit/sennit.h"
#include "unit.h"

#define SENDERS 20
#define QUIET	3   /* of them, where the others send all the time */
#define FULL	100 /* messages in a ring at the same time */
#define SOON	64  /* looks */
#define SECONDS 60

static sn_ep *ep[SENDERS + 1]; /* the last one receives */
static sn_peer receiver[SENDERS];
static unsigned came[SENDERS];

static void on_complete(void *arg, const sn_completion *c)
{
	if (c->op == SN_OP_RECV)
		came[c->bits]++;
}

static void send_one(unsigned i)
{
	assert_int_equal(sn_isend(ep[i], receiver[i], &i, sizeof(i), i, NULL), 0);
	sn_progress(ep[i]);
}

static void expect_some(unsigned n)
{
	static unsigned in;
	while (n--)
		assert_int_equal(sn_irecv(ep[SENDERS], SN_ANY_PEER, &in, sizeof(in), 0, 0, NULL), 0);
}

static unsigned all_came(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < SENDERS; i++)
		n += came[i];
	return n;
}

/* Until each has a link and a ring to it. */
static int setup(void **state)
{
	uint8_t addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	memset(came, 0, sizeof(came));
	setenv("SENNIT_NET", "off", 1);
	setenv("SENNIT_PROGRESS", "0", 1); /* nobody but this thread looks */
	for (unsigned i = 0; i <= SENDERS; i++) {
		sn_ep_attr attr = {.on_complete = on_complete};
		assert_int_equal(sn_ep_open(&attr, &ep[i]), 0);
	}
	assert_int_equal(sn_ep_address(ep[SENDERS], addr, &len), 0);
	expect_some(SENDERS);
	for (unsigned i = 0; i < SENDERS; i++) {
		assert_int_equal(sn_peer_add(ep[i], addr, len, &receiver[i]), 0);
		send_one(i);
	}
	while (all_came() < SENDERS)
		for (unsigned i = 0; i <= SENDERS; i++)
			sn_progress(ep[i]);
	memset(came, 0, sizeof(came));
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i <= SENDERS; i++)
		sn_ep_close(ep[i]);
	return 0;
}

static void what_all_have_sent_takes_one_look_in_a_crowd(void **state)
{
	sn_relax_crowd(1000);
	for (unsigned round = 1; round <= 50; round++) {
		expect_some(SENDERS);
		for (unsigned i = 0; i < SENDERS; i++)
			send_one(i);
		sn_progress(ep[SENDERS]);
		assert_int_equal(all_came(), SENDERS * round);
	}
}

/* Nobody's turn is waited for: they have filled their rings before, and the quiet ones send once. */
static void who_sends_all_the_time_holds_up_nobody(void **state)
{
	sn_relax_crowd(0);
	for (unsigned k = 0; k < SOON; k++) { /* so they are not among those that are looked at first */
		expect_some(SENDERS - QUIET);
		for (unsigned i = 0; i < SENDERS - QUIET; i++)
			send_one(i);
		for (unsigned done = all_came() + SENDERS - QUIET; all_came() < done;)
			sn_progress(ep[SENDERS]);
	}
	memset(came, 0, sizeof(came));
	expect_some((SENDERS - QUIET) * FULL + QUIET);
	for (unsigned k = 0; k < FULL; k++)
		for (unsigned i = 0; i < SENDERS - QUIET; i++)
			send_one(i);
	for (unsigned i = SENDERS - QUIET; i < SENDERS; i++)
		send_one(i);
	unsigned looks = 0, quiet = 0;
	for (; quiet < QUIET && looks < SOON; looks++) {
		for (unsigned i = 0; i < 8; i++) /* whoever has come first has something again */
			if (came[i]) {
				expect_some(1);
				send_one(i);
			}
		sn_progress(ep[SENDERS]);
		quiet = 0;
		for (unsigned i = SENDERS - QUIET; i < SENDERS; i++)
			quiet += came[i];
	}
	print_message("after %u looks, of %u messages\n", looks, all_came());
	assert_int_equal(quiet, QUIET);
	assert_true(looks > 1); /* or it tells nothing */
}

int main(void)
{
	alarm(SECONDS);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_all_have_sent_takes_one_look_in_a_crowd, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_sends_all_the_time_holds_up_nobody, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

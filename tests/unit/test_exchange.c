/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes that send each other a long message at once, each with its receive posted: neither writes into the other's,
 * each fetches its own, where each has a core. Of one message alone the sender does write. Every byte is looked at.
 */
#include "core/core.h"
#include "local/local.h"
#include "progress/relax.h"
#include "two.h"
#include <sys/mman.h>

#define LEN   (((size_t)2 << 20) + 100)
#define TIMES 20

struct shared {
	struct meeting meeting;
	_Atomic int step[2];
};
static struct shared *sh;
static uint8_t *out, *in;
static struct sn_link *link_of_peer;

/* Both come here, and nothing is looked for meanwhile. */
static void both(void)
{
	int step = ++sh->step[me];
	while (sh->step[!me] < step)
		usleep(10);
}

static void end(sn_req *req)
{
	sn_completion c;
	CHECK(sn_wait(ep, req, &c, 60000000) == 0 && c.status == 0 && c.len == LEN);
}

static void one(int i, bool sends, bool receives)
{
	sn_req *to = NULL, *from = NULL;
	memset(out, 3 * i + me, LEN);
	memset(in, 255, LEN);
	if (receives)
		CHECK(sn_irecv(ep, peer, in, LEN, (uint64_t)i, UINT64_MAX, &from) == 0);
	both();
	link_of_peer->straight_at =
		sn_now_ns() + UINT64_C(1000000000); /* no pause, however long others had the core */
	if (sends)
		CHECK(sn_isend(ep, peer, out, LEN, (uint64_t)i, &to) == 0);
	both();
	if (sends)
		end(to);
	if (receives)
		end(from);
	for (size_t at = 0; receives && at < LEN; at++)
		CHECK(in[at] == (uint8_t)(3 * i + !me));
}

static void part(void)
{
	setenv("SENNIT_PROGRESS", "0", 1);
	meet_other(&sh->meeting, 100);
	out = malloc(LEN);
	in = malloc(LEN);
	CHECK(out && in);
	link_of_peer = ep->peers[peer]->link;
	for (int i = 0; i < 4; i++) /* they know each other then */
		one(i, true, true);
	uint64_t before = counter("local.rx_rdv");
	for (int i = 0; i < TIMES; i++)
		one(i, true, true);
	CHECK(counter("local.rx_rdv") - before == TIMES || sn_relax_crowded());
	before = counter("local.rx_rdv");
	for (int i = 0; i < TIMES; i++)
		one(i, me == i % 2, me != i % 2);
	bool may_write = link_of_peer->copy.pid && !link_of_peer->write_error;
	CHECK(!may_write || counter("local.rx_rdv") == before);
	free(out);
	free(in);
}

static void who_sends_at_once_fetches(void **state)
{
	sh = shared_new(sizeof(*sh));
	run_both(part);
	munmap(sh, sizeof(*sh));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_sends_at_once_fetches)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

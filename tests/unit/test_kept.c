/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages go through the ring where the program's loop says so, whether anybody has posted for them or not.
 * What their receiver keeps of a flood that nobody posts for is bounded; all come, in order; and then the ring takes
 * such messages again.
 */
#include "core/core.h"
#include "local/local.h"
#include "two.h"
#include <sys/mman.h>

#define LEN	((size_t)256 << 10)
#define N	64
#define BOUND	((uint64_t)7 << 20) /* 4 MiB, and what the ring held when they were exceeded */
#define PATIENT 60000000

struct shared {
	struct meeting meeting;
	_Atomic int sent, received;
};
static struct shared *sh;
static uint8_t *buf;
static struct sn_link *link_of_peer;

static void move(bool send, int i, sn_req **req)
{
	struct sn_lap *l = &link_of_peer->laps[18 - SN_WAY_LAP_FIRST];
	if (!send) {
		CHECK(sn_irecv(ep, peer, buf, LEN, (uint64_t)i, UINT64_MAX, req) == 0);
		return;
	}
	memset(buf + (size_t)i * LEN, i, LEN);
	*l = (struct sn_lap){.ns = {1000, 2000}}; /* learned: through the ring */
	CHECK(sn_isend(ep, peer, buf + (size_t)i * LEN, LEN, (uint64_t)i, req) == 0);
}

static void end(sn_req *req)
{
	sn_completion c;
	CHECK(sn_wait(ep, req, &c, PATIENT) == 0 && c.status == 0 && c.len == LEN);
}

static void send_all(void)
{
	sn_req *req[N];
	move(true, 0, &req[0]); /* the peer is known after this */
	end(req[0]);
	while (!sh->received)
		sn_progress(ep);
	uint64_t before = counter("local.tx_eager");
	for (int i = 0; i < N; i++) {
		move(true, i, &req[i]);
		while (atomic_load(&link_of_peer->tx.chan->head) != link_of_peer->tx.tail)
			sn_progress(ep);
	}
	CHECK(counter("local.tx_eager") - before >= 8 && counter("local.tx_eager") - before < N / 2);
	sh->sent = 1;
	for (int i = 0; i < N; i++)
		end(req[i]);
	while (sh->received < 2)
		sn_progress(ep);
	move(true, 0, &req[0]); /* announced: its receiver has room */
	end(req[0]);
	before = counter("local.tx_eager");
	move(true, 1, &req[0]);
	end(req[0]);
	CHECK(counter("local.tx_eager") == before + 1);
}

static void receive(int i)
{
	sn_req *req;
	move(false, i, &req);
	end(req);
	for (size_t at = 0; at < LEN; at++)
		CHECK(buf[at] == i);
}

static void receive_all(void)
{
	const struct sn_peer_state *p = ep->peers[peer];
	receive(0);
	sh->received = 1;
	while (!sh->sent)
		sn_progress(ep);
	sn_progress(ep); /* for the thread sanitizer: the progress thread may have taken the last ones */
	CHECK(p->kept > BOUND / 4 && p->kept < BOUND);
	for (int i = 0; i < N; i++)
		receive(i);
	CHECK(p->kept == 0);
	sh->received = 2;
	receive(0);
	receive(1);
}

static void part(void)
{
	meet_other(&sh->meeting, 150);
	link_of_peer = ep->peers[peer]->link;
	buf = malloc(N * LEN);
	CHECK(buf);
	if (me)
		receive_all();
	else
		send_all();
	free(buf);
}

static void a_flood_of_long_messages_is_not_kept(void **state)
{
	sh = shared_new(sizeof(*sh));
	run_both(part);
	munmap(sh, sizeof(*sh));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_flood_of_long_messages_is_not_kept)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

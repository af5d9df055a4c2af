/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was only announced is fetched by one who goes on waiting for something else, if nobody posts for it, so that
 * its sender goes on: every byte, in order, however it is received then, also when the sender has gone; but not
 * without bound, and neither longer messages nor those whose sender waits for the receive.
 */
#include "core/core.h"
#include "local/local.h"
#include "two.h"
#include <sys/mman.h>

#define LEN	((size_t)64 << 10)
#define MOST	((size_t)128 << 10)
#define N	96 /* of MOST */
#define BOUND	(SN_KEPT_MAX / MOST)
#define RING	(3u << 20) /* no more than this is on its way through the ring */
#define PATIENT 60000000

enum {
	CLAIMED = 1,
	RECEIVED,
	SHORT,
	DISCARDED,
	FOREIGN,
	LONG,
	SYNC,
	WAITED,
	DROPPED,
	ASLEEP,
	LAST,
	MANY = 100
};

struct shared {
	struct meeting meeting;
	_Atomic int step;
};
static struct shared *sh;
static uint8_t *buf;

static void reach(int step)
{
	while (sh->step < step)
		sn_progress(ep);
}

static void fill(uint8_t *at, size_t len, uint64_t bits)
{
	for (size_t k = 0; k < len; k++)
		at[k] = (uint8_t)(bits * 5 + k * 3 + (k >> 8));
}

static void check(const uint8_t *at, size_t len, uint64_t bits)
{
	for (size_t k = 0; k < len; k++)
		CHECK(at[k] == (uint8_t)(bits * 5 + k * 3 + (k >> 8)));
}

static sn_req *send(uint64_t bits, size_t len, uint8_t *from)
{
	sn_req *req;
	fill(from, len, bits);
	CHECK((bits == SYNC ? sn_issend : sn_isend)(ep, peer, from, len, bits, &req) == 0);
	return req;
}

static void end(sn_req *req, size_t len, int status)
{
	sn_completion c;
	CHECK(sn_wait(ep, req, &c, PATIENT) == 0 && c.status == status && c.len == len);
}

static void receive(uint64_t bits, size_t room, size_t len, int status)
{
	sn_req *req;
	memset(buf, 0xee, MOST);
	CHECK(sn_irecv(ep, peer, buf, room, bits, UINT64_MAX, &req) == 0);
	end(req, len, status);
	check(buf, len, bits);
	for (size_t k = len; k < MOST; k++)
		CHECK(buf[k] == 0xee);
}

/* Nobody posts for what it sends before it is through with that. */
static void send_all(void)
{
	sn_completion c;
	for (uint64_t bits = CLAIMED; bits <= FOREIGN; bits++) {
		sn_req *req = send(bits, LEN, buf);
		end(req, LEN, 0);
		memset(buf, 0, LEN); /* it is this side's again */
	}
	sn_req *late[2] = {send(LONG, MOST + 1, buf), send(SYNC, LEN, buf + MOST + 1)};
	uint64_t until = sn_now_ns() + 50000000;
	while (sn_now_ns() < until)
		sn_progress(ep);
	for (int i = 0; i < 2; i++)
		CHECK(sn_test(ep, late[i], &c) == SN_ERR_AGAIN);
	sh->step = 1;
	for (int i = 0; i < 2; i++)
		CHECK(sn_wait(ep, late[i], &c, PATIENT) == 0 && c.status == 0);
	reach(2);

	/* one after the other: some go through the ring, and may overtake announced ones */
	sn_req *many[N] = {NULL};
	unsigned pending = 0;
	for (unsigned i = 0; i < N; i++) {
		many[i] = send(MANY + i, MOST, buf + i * MOST);
		if (i < BOUND - 1) {
			end(many[i], MOST, 0);
			many[i] = NULL;
		}
	}
	until = sn_now_ns() + 20000000;
	while (sn_now_ns() < until)
		sn_progress(ep);
	for (unsigned i = BOUND; i < N; i++) {
		if (sn_test(ep, many[i], &c) == SN_ERR_AGAIN)
			pending++;
		else
			many[i] = NULL;
	}
	CHECK(pending >= N - (SN_KEPT_MAX + RING) / MOST - 1);
	sh->step = 3;
	for (unsigned i = 0; i < N; i++)
		if (many[i])
			end(many[i], MOST, 0);
	reach(4);
	end(send(WAITED, MOST, buf), MOST, 0);
	end(send(DROPPED, MOST, buf), MOST, 0);
	end(send(ASLEEP, LEN, buf), LEN, 0); /* while the other one waits for what follows */
	end(send(LAST, 8, buf), 8, 0);
}

/* It is being fetched; or was, if that takes no time. */
static void come_upon(uint64_t bits)
{
	sn_completion c;
	while (sn_probe(ep, 0, peer, bits, UINT64_MAX, &c) || !sn_list_empty(&ep->early))
		sn_progress(ep);
}

static void receive_all(void)
{
	const struct sn_peer_state *p = ep->peers[peer];
	sn_completion c;
	sn_claim *claim;
	sn_req *req;
	struct iovec v = {buf, LEN};
	sn_msg m = {.peer = peer, .iov = &v, .iov_count = 1};
	reach(1);
	CHECK(counter("core.fetched_early") == FOREIGN && p->kept == FOREIGN * LEN);
	for (uint64_t bits = CLAIMED; bits <= FOREIGN; bits++)
		CHECK(sn_probe(ep, 0, peer, bits, UINT64_MAX, &c) == 0 && c.full_len == LEN);
	CHECK(sn_mprobe(ep, 0, peer, CLAIMED, UINT64_MAX, &c, &claim) == 0);
	const void *there = sn_claim_data(ep, claim);
	CHECK(there);
	check(there, LEN, CLAIMED);
	CHECK(sn_mrecv(ep, claim, &m, &req) == 0);
	end(req, LEN, 0);
	check(buf, LEN, CLAIMED);
	receive(RECEIVED, MOST, LEN, 0);
	receive(SHORT, LEN - 7, LEN - 7, SN_ERR_TRUNCATED);
	CHECK(sn_mprobe(ep, 0, peer, DISCARDED, UINT64_MAX, &c, &claim) == 0 && sn_discard(ep, claim) == 0);
	CHECK(sn_irecv(ep, SN_ANY_PEER, buf, MOST, FOREIGN, UINT64_MAX, &req) == 0);
	end(req, LEN, 0);
	check(buf, LEN, FOREIGN);
	CHECK(p->kept == 0);
	v = (struct iovec){buf, MOST + 1};
	m.bits = LONG;
	m.mask = UINT64_MAX;
	CHECK(sn_post_recv(ep, &m, &req) == 0);
	end(req, MOST + 1, 0);
	check(buf, MOST + 1, LONG);
	receive(SYNC, MOST, LEN, 0);
	sh->step = 2;
	reach(3);
	CHECK(p->kept > SN_KEPT_MAX - MOST && p->kept <= SN_KEPT_MAX + RING + MOST);
	CHECK(counter("core.fetched_early") > FOREIGN && counter("core.fetched_early") <= FOREIGN + BOUND);
	for (unsigned i = 0; i < N; i++)
		receive(MANY + i, MOST, MOST, 0);
	CHECK(p->kept == 0);
	sh->step = 4;
	come_upon(WAITED);
	receive(WAITED, MOST, MOST, 0);
	come_upon(DROPPED);
	CHECK(sn_mprobe(ep, 0, peer, DROPPED, UINT64_MAX, &c, &claim) == 0);
	if ((there = sn_claim_data(ep, claim)) != NULL) /* NULL: it is still on its way */
		check(there, MOST, DROPPED);
	CHECK(sn_discard(ep, claim) == 0);
	receive(LAST, MOST, 8, 0);
	while (!p->gone)
		sn_progress(ep);
	receive(ASLEEP, MOST, LEN, 0);
}

static void part(void)
{
	meet_other(&sh->meeting, 150);
	buf = malloc((N + 1) * MOST);
	CHECK(buf);
	if (me)
		receive_all();
	else
		send_all();
	free(buf);
}

static void run(void)
{
	setenv("SENNIT_EAGER", "8192", 1);
	setenv("SENNIT_NET", "off", 1);
	sh = shared_new(sizeof(*sh));
	run_both(part);
	munmap(sh, sizeof(*sh));
}

static void what_nobody_posts_for_is_taken_off_its_senders_hands(void **state)
{
	run();
}

/* Then the sender has a part in it, and some wait for what has begun to come. */
static void also_where_the_kernel_refuses_to_copy(void **state)
{
	setenv("SENNIT_FAULT", "read:eperm,write:eperm", 1);
	run();
	unsetenv("SENNIT_FAULT");
}

static void to_oneself(void)
{
	uint8_t addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	alarm(60);
	CHECK(sn_ep_open(NULL, &ep) == 0 && sn_ep_address(ep, addr, &len) == 0);
	CHECK(sn_peer_add(ep, addr, len, &peer) == 0);
	buf = malloc(2 * MOST);
	CHECK(buf);
	end(send(LAST, MOST, buf + MOST), MOST, 0);
	receive(LAST, MOST, MOST, 0);
	free(buf);
}

static void also_to_oneself(void **state)
{
	if (fork() == 0) {
		to_oneself();
		sn_ep_close(ep);
		_exit(0);
	}
	int status;
	wait(&status);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_posts_for_is_taken_off_its_senders_hands),
		cmocka_unit_test(also_where_the_kernel_refuses_to_copy), cmocka_unit_test(also_to_oneself)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

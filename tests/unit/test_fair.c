/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flood from one peer does not hold up the others: with the rings of both full, a receiver that takes from any source
 * gets all that the quiet one sent among the first few that come, whichever of the two connected first.
 */
#include "check.h"
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define QUIET	40
#define FLOOD	20000
#define SHARE	4 /* of the flood's messages, at most, for each of the quiet one's */
#define PATIENT 60000000

struct shared {
	uint8_t addr[SN_ADDR_MAX];
	size_t len;
	_Atomic int open, connected, full;
};
static struct shared *sh;

/* Sends 1 message to be known, waits for its turn to be so, then `count` more; over when all have left. */
static void sender(int turn, int count)
{
	sn_ep *ep;
	sn_peer to;
	sn_req *last = NULL;
	char x[100] = {0};
	while (!atomic_load(&sh->open) || atomic_load(&sh->connected) < turn)
		sched_yield();
	CHECK(sn_ep_open(NULL, &ep) == 0 && sn_peer_add(ep, sh->addr, sh->len, &to) == 0);
	CHECK(sn_isend(ep, to, x, 1, 0, &last) == 0 && sn_wait(ep, last, NULL, PATIENT) == 0);
	while (atomic_load(&sh->connected) < 2) {
		sn_progress(ep);
		sched_yield();
	}
	for (int i = 0; i < count; i++)
		CHECK(sn_isend(ep, to, x, sizeof(x), count == QUIET, i < count - 1 ? NULL : &last) == 0);
	for (int i = 0; i < 50; i++) /* the ring is full, or all are in it */
		sn_progress(ep);
	atomic_fetch_add(&sh->full, 1);
	CHECK(sn_wait(ep, last, NULL, PATIENT) == 0);
	sn_ep_close(ep);
}

static int take(sn_ep *ep, size_t len)
{
	char x[100];
	sn_req *req;
	sn_completion c;
	CHECK(sn_irecv(ep, SN_ANY_PEER, x, len, 0, 0, &req) == 0);
	CHECK(sn_wait(ep, req, &c, PATIENT) == 0 && c.status == 0);
	return (int)c.bits;
}

static void receiver(void)
{
	sn_ep *ep;
	int quiet = 0, flood = 0;
	/* No thread that takes the flood while this one waits for the quiet one to have sent. */
	setenv("SENNIT_PROGRESS", "0", 1);
	CHECK(sn_ep_open(NULL, &ep) == 0);
	sh->len = SN_ADDR_MAX;
	CHECK(sn_ep_address(ep, sh->addr, &sh->len) == 0);
	atomic_store(&sh->open, 1);
	for (int i = 1; i <= 2; i++) {
		take(ep, 1);
		atomic_store(&sh->connected, i);
	}
	while (atomic_load(&sh->full) < 2) /* without a look */
		sched_yield();
	while (quiet < QUIET) {
		if (take(ep, 100))
			quiet++;
		else
			flood++;
	}
	CHECK(flood <= SHARE * QUIET);
	for (; flood < FLOOD; flood++)
		take(ep, 100);
	sn_ep_close(ep);
}

static void flood(int quiet_turn)
{
	pid_t pid[3];
	memset(sh, 0, sizeof(*sh));
	fflush(NULL);
	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		alarm(150);
		if (i == 0)
			receiver();
		else
			sender(i - 1, i - 1 == quiet_turn ? QUIET : FLOOD);
		_exit(0);
	}
	for (int i = 0; i < 3; i++) {
		int status;
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
}

static void a_flood_leaves_room_for_one_who_came_first(void **state)
{
	flood(0);
}

static void a_flood_leaves_room_for_one_who_came_later(void **state)
{
	flood(1);
}

int main(void)
{
	alarm(170);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_leaves_room_for_one_who_came_first),
		cmocka_unit_test(a_flood_leaves_room_for_one_who_came_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

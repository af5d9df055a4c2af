/* SPDX-License-Identifier: BSD-3-Clause */
/* Many processes at once, all-to-all, and pairs that connect at the same moment. */
#include "local_exchange.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PROCESSES 64
#define ROUNDS	  3

static struct {
	struct address at[PROCESSES];
	_Atomic uint32_t ready, done;
} * board;

static void wait_for(_Atomic uint32_t *count, uint32_t n, struct sn_ep *ep)
{
	uint64_t idle = 0;
	while (atomic_load(count) < n)
		side_step(ep, &idle);
}

static void one_of_many(uint32_t me)
{
	struct sn_ep *ep = side_open();
	board->at[me] = side_address(ep);
	atomic_fetch_add(&board->ready, 1);
	wait_for(&board->ready, PROCESSES, ep);
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (uint32_t i = 1; i < PROCESSES; i++) {
			struct sn_peer_state *peer = peer_add(ep, &board->at[(me + i) % PROCESSES]);
			CHECK(side_send(peer, round == 1 ? 20000 : 100, false, 1) >= 0);
			side_progress(ep);
		}
	uint64_t finished, idle = 0;
	do {
		side_step(ep, &idle);
		finished = 0;
		for (uint32_t i = 0; i < ep->peer_count; i++)
			finished += ep->peers[i]->finished;
	} while (finished < (uint64_t)ROUNDS * (PROCESSES - 1) || ep->sends_open);
	CHECK(ep->peer_count == PROCESSES - 1 && !ep->sends_failed && !ep->pulls_failed);
	atomic_fetch_add(&board->done, 1);
	wait_for(&board->done, PROCESSES, ep);
	side_close(ep);
}

static void sixty_four_processes_all_to_all(void **state)
{
	static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS};
	pid_t pids[PROCESSES];
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(board != MAP_FAILED);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i])
			continue;
		for (unsigned s = 0; s < sizeof(fatal) / sizeof(*fatal); s++)
			signal(fatal[s], SIG_DFL);
		alarm(150);
		one_of_many(i);
		_exit(0);
	}
	for (uint32_t i = 0; i < PROCESSES; i++)
		reap(pids[i]);
	munmap(board, sizeof(*board));
}

static void meets(int sock)
{
	settings();
	for (uint64_t round = 0; round < plan.messages; round++) {
		struct sn_ep *ep = side_open();
		struct address a = swap_address(sock, ep);
		struct sn_peer_state *peer = peer_add(ep, &a);
		uint64_t end_at = sn_now_ns() + next_random(&plan.seed) % 100000;
		while (sn_now_ns() < end_at)
			;
		exchange(ep, peer, 1 + round % 20, plan.seed);
		CHECK(side_count(ep, "local.peers") == 1 && side_count(ep, "local.bad_records") == 0);
		tell(sock, 'd');
		CHECK(hear_progress(sock, ep) == 'd');
		side_close(ep);
	}
}

static void both_connect_at_the_same_moment(void **state)
{
	int sock;
	plan = (struct plan){.messages = 300, .seed = 5};
	pid_t pid = spawn(meets, &sock);
	plan.seed = 77;
	int before = fds_open();
	meets(sock);
	assert_int_equal(fds_open(), before + 1); /* the bell stays */
	close(sock);
	reap(pid);
}

int main(void)
{
	alarm(TEST_SECONDS);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_connect_at_the_same_moment),
		cmocka_unit_test(sixty_four_processes_all_to_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that die, close, stop or fork at bad moments. Nothing hangs (the alarm ends a test that does), what was sent
 * completely before arrives, and everything that waited for the dead ends with SN_ERR_PEER_GONE.
 */
#include "local_exchange.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include <cmocka.h>

static void endless(int sock)
{
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	exchange(ep, peer_add(ep, &a), UINT64_MAX, plan.seed);
}

static void killed_at_any_moment(void **state)
{
	static const char *const copies[] = {"read", "write", "stream"};
	uint32_t seed = 99;
	for (uint32_t i = 0; i < 45; i++) {
		int sock, status;
		plan = (struct plan){.copy = copies[i % 3], .seed = i, .ring = i % 2 ? "32768" : "262144"};
		pid_t pid = spawn(endless, &sock);
		settings();
		struct sn_ep *ep = side_open();
		struct address a = swap_address(sock, ep);
		struct sn_peer_state *peer = peer_add(ep, &a);
		uint64_t idle = 0, end_at = sn_now_ns() + next_random(&seed) % 30000 * UINT64_C(1000);
		bool killed = false;
		while (!peer->gone) {
			if (!killed && sn_now_ns() >= end_at) {
				kill(pid, SIGKILL);
				killed = true;
			}
			if (ep->sends_open < 16)
				side_send(peer, sizes[next_random(&seed) % SIZES], false,
					  1 + next_random(&seed) % 5);
			side_step(ep, &idle);
		}
		assert_true(killed);
		assert_int_equal(peer->gone_status, SN_ERR_PEER_GONE);
		assert_int_equal(ep->sends_open, 0);
		assert_int_equal(ep->pulls_open, 0);
		assert_int_equal(side_send(peer, 10, false, 1), SN_ERR_PEER_GONE);
		assert_int_equal(side_count(ep, "local.bad_records"), 0);
		assert_int_equal(side_count(ep, "local.peers"), 0);
		side_close(ep);
		close(sock);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
}

/* Sends and dies, or closes, without ever looking for an answer. */
static void last_words(int sock)
{
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	for (int i = 0; i < 20; i++)
		CHECK(side_send(peer, 1000, false, 1) == 1);
	if (plan.percent) /* an announced message, too: nobody can fetch it any more */
		CHECK(side_send(peer, 100000, false, 1) == 0);
	if (plan.refuse)
		side_close(ep);
	tell(sock, 's');
	if (plan.refuse)
		hear(sock);
	raise(SIGKILL);
}

static void hear_last_words(struct plan p)
{
	int sock, status;
	plan = p;
	pid_t pid = spawn(last_words, &sock);
	settings();
	struct sn_ep *ep = side_open();
	swap_address(sock, ep);
	assert_int_equal(hear(sock), 's');
	if (!p.refuse)
		assert_int_equal(waitpid(pid, &status, 0), pid);
	STEP_UNTIL(ep, ep->peer_count && ep->peers[0]->gone);
	struct sn_peer_state *peer = ep->peers[0];
	assert_int_equal(peer->arrived, 20 + (p.percent && !p.refuse));
	assert_int_equal(peer->finished, peer->arrived);
	assert_int_equal(ep->pulls_failed, p.percent && !p.refuse);
	assert_int_equal(peer->gone_status, p.refuse ? 0 : SN_ERR_PEER_GONE); /* it closed in good order */
	side_close(ep);
	close(sock);
	if (p.refuse)
		assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void what_the_dead_sent_still_arrives(void **state)
{
	hear_last_words((struct plan){.seed = 0});
	hear_last_words((struct plan){.percent = 1});
}

static void what_was_sent_before_a_close_still_arrives(void **state)
{
	hear_last_words((struct plan){.refuse = true});
}

static void a_post_to_the_closed_does_not_lose_what_they_sent(void **state)
{
	int sock, status;
	plan = (struct plan){.refuse = true};
	pid_t pid = spawn(last_words, &sock);
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	assert_int_equal(hear(sock), 's');
	struct sn_peer_state *peer = peer_add(ep, &a);
	assert_int_equal(side_send(peer, 10, false, 1), SN_ERR_PEER_GONE);
	assert_int_equal(side_send(peer, 10, false, 1), SN_ERR_PEER_GONE);
	STEP_UNTIL(ep, peer->gone);
	assert_int_equal(peer->arrived, 20);
	side_close(ep);
	close(sock);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void the_never_born_are_gone(void **state)
{
	struct sn_ep *ep = side_open(), *other = side_open();
	struct address a = side_address(other);
	side_close(other);
	struct sn_peer_state *peer = peer_add(ep, &a);
	assert_int_equal(side_send(peer, 10, false, 1), SN_ERR_PEER_GONE);
	STEP_UNTIL(ep, peer->gone);
	side_close(ep);
}

/* ---- children that keep the socket of the dead ------------------------------------------------------------------ */

static void parent_of_a_survivor(int sock)
{
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	CHECK(side_send(peer, 10, false, 1) == 1);
	STEP_UNTIL(ep, peer->finished == 1);
	/* fork: our handler closes the child's copies; clone: nobody does, as with a program that calls it itself */
	pid_t pid = plan.percent ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (!pid) {
		close(sock);
		alarm(100);
		for (;;)
			pause();
	}
	CHECK(send(sock, &pid, sizeof(pid), 0) == (ssize_t)sizeof(pid));
	hear(sock);
	raise(SIGKILL);
}

static void a_surviving_child_does_not_hide_its_parents_death(void **state)
{
	for (uint32_t cloned = 0; cloned < 2; cloned++) {
		int sock, status;
		pid_t child;
		plan = (struct plan){.percent = cloned};
		pid_t pid = spawn(parent_of_a_survivor, &sock);
		settings();
		struct sn_ep *ep = side_open();
		struct address a = swap_address(sock, ep);
		struct sn_peer_state *peer = peer_add(ep, &a);
		assert_int_equal(side_send(peer, 10, false, 1), 1);
		STEP_UNTIL(ep, peer->finished == 1);
		assert_int_equal(recv(sock, &child, sizeof(child), 0), sizeof(child));
		tell(sock, 'g');
		STEP_UNTIL(ep, peer->gone);
		side_close(ep);
		close(sock);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
}

/* ---- fork ---------------------------------------------------------------------------------------------------- */

static void a_forked_child_cannot_use_it_but_may_open_its_own(void **state)
{
	plan = (struct plan){.seed = 0};
	settings();
	struct sn_ep *ep = side_open(), *mine = side_open();
	struct address a = side_address(ep);
	struct sn_peer_state *peer = peer_add(mine, &a);
	assert_int_equal(side_send(peer, 10, false, 1), 1);
	STEP_UNTIL(ep, ep->peer_count && ep->peers[0]->finished == 1);
	pid_t pid = fork();
	if (!pid) {
		alarm(100);
		CHECK(side_send(peer, 10, false, 1) == SN_ERR_FORKED);
		CHECK(side_progress(mine) == 0);
		side_close(mine); /* frees nothing of the parent's */
		struct sn_ep *own = side_open();
		struct sn_peer_state *to = peer_add(own, &a);
		for (int i = 0; i < 10; i++)
			CHECK(side_send(to, i % 2 ? 50000 : 50, false, 2) >= 0);
		STEP_UNTIL(own, !own->sends_open);
		CHECK(own->sends_failed == 0);
		side_close(own);
		_exit(0);
	}
	STEP_UNTIL(ep, ep->peer_count == 2 && ep->peers[1]->finished == 10);
	assert_int_equal(side_send(peer, 10, false, 1), 1); /* the parent's goes on */
	STEP_UNTIL(ep, ep->peers[0]->finished == 2);
	STEP_UNTIL(ep, ep->peers[1]->gone);
	reap(pid);
	side_close(mine);
	side_close(ep);
}

/* ---- stopped peers ------------------------------------------------------------------------------------------- */

static void gets_stopped(int sock)
{
	settings();
	struct sn_ep *ep = side_open();
	swap_address(sock, ep);
	raise(SIGSTOP);
	STEP_UNTIL(ep, ep->peer_count && ep->peers[0]->finished == 2000);
	tell(sock, 'd');
	hear(sock);
	side_close(ep);
}

static void a_stopped_peer_blocks_nobody(void **state)
{
	int sock, status;
	plan = (struct plan){.ring = "32768"};
	pid_t pid = spawn(gets_stopped, &sock);
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	for (int i = 0; i < 2000; i++) {
		assert_true(side_send(peer, i % 100 ? 200 : 30000, false, 1) >= 0);
		side_progress(ep);
	}
	assert_true(side_count(ep, "local.tx_queued") > 0);
	kill(pid, SIGCONT);
	STEP_UNTIL(ep, !ep->sends_open);
	assert_int_equal(ep->sends_failed, 0);
	CHECK(hear_progress(sock, ep) == 'd');
	tell(sock, 'd');
	end(ep, sock, pid);
}

int main(void)
{
	alarm(TEST_SECONDS);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_at_any_moment),
		cmocka_unit_test(what_the_dead_sent_still_arrives),
		cmocka_unit_test(what_was_sent_before_a_close_still_arrives),
		cmocka_unit_test(a_post_to_the_closed_does_not_lose_what_they_sent),
		cmocka_unit_test(the_never_born_are_gone),
		cmocka_unit_test(a_surviving_child_does_not_hide_its_parents_death),
		cmocka_unit_test(a_forked_child_cannot_use_it_but_may_open_its_own),
		cmocka_unit_test(a_stopped_peer_blocks_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

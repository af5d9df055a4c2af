/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another user of the machine: who knows the address and the key of an endpoint, and says everything right, still is not
 * let in; an endpoint gives nothing to a socket that another user owns; and what endpoints share has no name that another
 * user could open. The one attacked goes on. Needs root, to become somebody else.
 */
#include "local_dial.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include <cmocka.h>

#define STRANGER 65534

static void become_the_stranger(void)
{
	CHECK(setresgid(STRANGER, STRANGER, STRANGER) == 0);
	CHECK(setresuid(STRANGER, STRANGER, STRANGER) == 0);
	prctl(PR_SET_DUMPABLE, 1); /* as a program is that this user has started */
}

/* Say all that the endpoint's own user would have to say. Whether it answered. */
static bool let_in(const struct sn_ep *ep)
{
	const int fds[] = {memory(SN_BELL_BYTES, true), memory(SN_BOARD_BYTES, true),
			   memory(SN_RING_OFFSET + RING, true)};
	struct sn_local_hello hello = honest(ep), answer;
	int fd = dial(ep);
	say(fd, &hello, sizeof(hello), fds, 3);
	ssize_t got = recv(fd, &answer, sizeof(answer), 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(fd);
	return got == sizeof(answer) && answer.welcome;
}

/* Of the victim's shared memory, how much can this process open by way of /proc? */
static int opened_of(pid_t victim)
{
	int opened = 0;
	for (int fd = 0; fd < 256; fd++) {
		char name[64];
		snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)victim, fd);
		int mine = open(name, O_RDONLY | O_CLOEXEC);
		if (mine >= 0) {
			opened++;
			close(mine);
		}
	}
	return opened;
}

/* In a child that knows all that this process knows. Its exit status: what it has reached, in bits. */
static int reached_by_child(struct sn_ep *ep, bool stranger)
{
	pid_t victim = getpid(), pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		signal(SIGPIPE, SIG_IGN);
		if (stranger)
			become_the_stranger();
		int reached = opened_of(victim) ? 1 : 0;
		_exit(reached | (let_in(ep) ? 2 : 0));
	}
	int status;
	STEP_UNTIL(ep, waitpid(pid, &status, WNOHANG) == pid); /* who asks is answered in here */
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_stolen_key_does_not_open(void **state)
{
	plan = (struct plan){.messages = 50, .seed = 3};
	settings();
	int sock;
	pid_t pid = spawn(other_side, &sock);
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *friend = peer_add(ep, &a);
	uint64_t before = side_count(ep, "local.bad_handshakes");
	assert_int_equal(reached_by_child(ep, true), 0);
	assert_int_equal(side_count(ep, "local.bad_handshakes"), before + 1);
	side_progress(ep);
	assert_int_equal(ep->peer_count, 1);
	/* it was who asked, and not what was asked: the same words of the same user are answered */
	assert_int_equal(reached_by_child(ep, false), 3);
	assert_int_equal(side_count(ep, "local.bad_handshakes"), before + 1);
	exchange(ep, friend, plan.messages, plan.seed);
	CHECK(hear_progress(sock, ep) == 'd');
	tell(sock, 'd');
	end(ep, sock, pid);
}

/* An endpoint of another user, with an honest address. */
static void strangers_side(int sock)
{
	become_the_stranger();
	settings();
	struct sn_ep *ep = side_open();
	swap_address(sock, ep);
	CHECK(hear_progress(sock, ep) == 'd');
	CHECK(ep->peer_count == 0);
	side_close(ep);
}

static void nothing_is_given_to_a_stranger(void **state)
{
	plan = (struct plan){.seed = 5};
	int sock;
	pid_t pid = spawn(strangers_side, &sock);
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	int rc = side_send(peer, 100, false, 1);
	if (rc >= 0)
		STEP_UNTIL(ep, peer->gone);
	assert_int_equal(rc < 0 ? rc : peer->gone_status, SN_ERR_PERM);
	assert_int_equal(ep->pulls_open, 0);
	tell(sock, 'd');
	end(ep, sock, pid);
}

int main(void)
{
	alarm(TEST_SECONDS);
	setenv("SENNIT_LOG", "none", 1); /* refusals are what this is about */
	int status;
	pid_t pid = fork();
	if (!pid)
		_exit(setresuid(STRANGER, STRANGER, STRANGER) ? 1 : 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		printf("skipped: only root can become another user, and only where there is one\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stolen_key_does_not_open),
		cmocka_unit_test(nothing_is_given_to_a_stranger),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

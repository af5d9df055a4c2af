/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel may refuse at any moment, injected (SENNIT_FAULT) or real (bad buffers): every byte still arrives, or
 * both sides hear of the error; nobody crashes.
 */
#include "local_exchange.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint64_t counted(struct plan p, const char *a, const char *b)
{
	int sock;
	pid_t pid;
	p.messages = 70;
	struct sn_ep *ep = run(p, &sock, &pid);
	uint64_t n = side_count(ep, a);
	if (b)
		assert_true(side_count(ep, b) > 0);
	end(ep, sock, pid);
	return n;
}

static void reading_refused_in_the_middle_goes_on_by_writing(void **state)
{
	struct plan p = {.fault = "read:short,read:eperm@3+", .seed = 11};
	assert_int_equal(counted(p, "local.refused_read", "local.copy_write_bytes"), 1);
}

static void both_refused_goes_on_by_streaming(void **state)
{
	struct plan p = {.fault = "read:enosys@5+,write:short,write:eperm@4+", .seed = 12};
	assert_int_equal(counted(p, "local.refused_write", "local.copy_stream_bytes"), 1);
}

static void a_refused_probe_means_streaming_from_the_start(void **state)
{
	struct plan p = {.fault = "probe:eperm", .seed = 13};
	assert_int_equal(counted(p, "local.copy_read_bytes", "local.copy_stream_bytes"), 0);
}

static void short_copies_are_continued(void **state)
{
	struct plan p = {.copy = "read", .fault = "read:short", .seed = 14};
	assert_int_equal(counted(p, "local.copy_stream_bytes", "local.copy_read_bytes"), 0);
}

static void a_fault_is_no_refusal(void **state)
{
	struct plan p = {.fault = "read:short,read:efault@2,read:efault@7", .seed = 15};
	assert_int_equal(counted(p, "local.refused_read", "local.copy_read_bytes"), 0);
}

static void a_fault_while_writing_is_streamed_with_care(void **state)
{
	struct plan p = {.copy = "write", .fault = "write:short,write:efault@2,write:efault@9", .seed = 16};
	assert_int_equal(counted(p, "local.faults", "local.copy_write_bytes"), 2);
}

static void scarce_memory_concerns_one_message(void **state)
{
	struct plan p = {.copy = "read", .fault = "read:enomem@2,read:enomem@5", .seed = 17};
	assert_int_equal(counted(p, "local.refused_read", "local.copy_stream_bytes"), 0);
}

static void fault_lists_are_parsed(void **state)
{
	assert_true(sn_fault_set(""));
	assert_true(sn_fault_set("read:eperm@3,write:short,probe:enosys@2+"));
	assert_false(sn_fault_set("read"));
	assert_false(sn_fault_set("read:sometimes"));
	assert_false(sn_fault_set("read:eperm@3;write:short"));
	assert_true(sn_fault_set(NULL));
}

/* ---- walls of the kernel's own ------------------------------------------------------------------------------- */

/* The other side in namespaces of its own, whose process 1 it is. 77: this system does not let us. */
static void behind_a_wall(int sock)
{
	if (unshare((int)plan.walls))
		_exit(77);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(getpid() == 1);
		alarm(150);
		other_side(sock);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void across(uint32_t walls, const char *what)
{
	int sock, status = 0;
	plan = (struct plan){.walls = walls, .messages = 60, .seed = 21};
	pid_t pid = spawn(behind_a_wall, &sock);
	settings();
	struct sn_ep *ep = side_open();
	struct address mine = side_address(ep), theirs;
	/* Under the thread sanitizer too a process has a second thread, and then no user namespace of its own. */
	if (send(sock, &mine, sizeof(mine), MSG_NOSIGNAL) < 0 ||
	    recv(sock, &theirs, sizeof(theirs), 0) != (ssize_t)sizeof(theirs)) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		side_close(ep);
		close(sock);
		assert_int_equal(WEXITSTATUS(status), 77);
		print_message("%s: not allowed here\n", what);
		skip();
	}
	exchange(ep, peer_add(ep, &theirs), plan.messages, plan.seed);
	CHECK(hear_progress(sock, ep) == 'd');
	tell(sock, 'd');
	/* From there our pid cannot be seen: it streams, or has us do the copying. */
	assert_true(side_count(ep, "local.copy_stream_bytes") + side_count(ep, "local.copy_write_bytes") > 0);
	end(ep, sock, pid);
}

static void a_pid_namespace_between_them(void **state)
{
	across(CLONE_NEWPID, "a process namespace");
}

static void a_user_namespace_between_them(void **state)
{
	across(CLONE_NEWUSER | CLONE_NEWPID, "a user namespace");
}

/* ---- buffers that are none ----------------------------------------------------------------------------------- */

#define PAGES 64
static long page;

/* Memory with a hole in the middle. */
static uint8_t *holed(void)
{
	page = sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, (size_t)(PAGES * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	CHECK(at != MAP_FAILED);
	memset(at, 0x7f, (size_t)(PAGES * page));
	/* Not where a piece begins; and not unmapped, or the next thing that is mapped may fill it. */
	CHECK(mprotect(at + (PAGES / 2 + 1) * page, (size_t)page, PROT_NONE) == 0);
	return at;
}

static void post_holed(struct sn_ep *ep, struct sn_peer_state *peer, uint8_t *at)
{
	struct sn_req *req = calloc(1, sizeof(*req));
	CHECK(req);
	req->next = (struct sn_req *)(void *)ep;
	/* many segments, so that some of the piece with the hole lies in the ring already when it is found */
	size_t all = (size_t)(PAGES * page);
	for (size_t i = 0; i < 256; i++)
		req->iov[i] = (struct iovec){at + i * (all / 256), all / 256};
	struct sn_out out = {.head = {.kind = SN_K_TAGGED, .len = all}, .iov = req->iov, .iov_count = 256};
	ep->sends_open++;
	CHECK(sn_rail_local.post(peer->link, &out, req) == 0);
	peer->sent++;
}

static void bad_source_sender(int sock)
{
	settings();
	uint8_t *at = holed();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	post_holed(ep, peer, at);
	STEP_UNTIL(ep, !ep->sends_open);
	CHECK(ep->sends_failed == 1 && ep->last_status == SN_ERR_FAULT);
	/* and life goes on */
	CHECK(side_send(peer, 100000, false, 3) >= 0);
	STEP_UNTIL(ep, !ep->sends_open);
	CHECK(ep->sends_failed == 1);
	tell(sock, 'd');
	CHECK(hear_progress(sock, ep) == 'd');
	side_close(ep);
}

static void an_unreadable_source_is_an_error_on_both_sides(void **state)
{
	static const char *const copies[] = {"read", "write"};
	for (int i = 0; i < 2; i++) {
		int sock;
		plan = (struct plan){.copy = copies[i]};
		pid_t pid = spawn(bad_source_sender, &sock);
		settings();
		struct sn_ep *ep = side_open();
		ep->unchecked = true;
		static uint8_t sink[PAGES * 65536];
		ep->pull_into = sink;
		ep->pull_any = true;
		swap_address(sock, ep);
		STEP_UNTIL(ep, ep->peer_count && (ep->peers[0]->finished == 2 || ep->peers[0]->gone));
		assert_int_equal(ep->pulls_failed, 1);
		assert_int_equal(ep->last_status, SN_ERR_FAULT);
		assert_false(ep->peers[0]->gone);
		CHECK(hear_progress(sock, ep) == 'd');
		tell(sock, 'd');
		end(ep, sock, pid);
	}
}

static void bad_destination_receiver(int sock)
{
	settings();
	uint8_t *at = holed();
	struct sn_ep *ep = side_open();
	ep->unchecked = true;
	ep->pull_into = at;
	ep->pull_any = true;
	swap_address(sock, ep);
	STEP_UNTIL(ep, ep->peer_count && ep->peers[0]->finished == 1);
	CHECK(ep->pulls_failed == 1 && ep->last_status == SN_ERR_FAULT);
	tell(sock, 'd');
	CHECK(hear_progress(sock, ep) == 'd');
	side_close(ep);
}

static void an_unwritable_destination_is_the_receivers_error_alone(void **state)
{
	static const char *const copies[] = {"read", "write"};
	for (int i = 0; i < 2; i++) {
		int sock;
		plan = (struct plan){.copy = copies[i]};
		pid_t pid = spawn(bad_destination_receiver, &sock);
		settings();
		struct sn_ep *ep = side_open();
		struct address a = swap_address(sock, ep);
		struct sn_peer_state *peer = peer_add(ep, &a);
		page = sysconf(_SC_PAGESIZE);
		assert_true(side_send(peer, (uint64_t)(PAGES * page), false, 1) >= 0);
		STEP_UNTIL(ep, !ep->sends_open);
		assert_int_equal(ep->sends_failed, 0);
		CHECK(hear_progress(sock, ep) == 'd');
		assert_false(peer->gone);
		tell(sock, 'd');
		end(ep, sock, pid);
	}
}

/* ---- parts, refusals, taking back ---------------------------------------------------------------------------- */

static void choosy_receiver(int sock)
{
	settings();
	struct sn_ep *ep = side_open();
	ep->part_percent = plan.percent;
	ep->refuse = plan.refuse;
	swap_address(sock, ep);
	STEP_UNTIL(ep, ep->peer_count && ep->peers[0]->finished == 6);
	CHECK(ep->pulls_failed == 0);
	tell(sock, 'd');
	CHECK(hear_progress(sock, ep) == 'd');
	side_close(ep);
}

static void send_six(struct plan p, uint64_t expect_failed)
{
	int sock;
	plan = p;
	pid_t pid = spawn(choosy_receiver, &sock);
	settings();
	struct sn_ep *ep = side_open();
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	for (int i = 0; i < 6; i++)
		assert_true(side_send(peer, 50000 + (uint64_t)i * 70000, false, 1 + (uint32_t)i * 40) >= 0);
	STEP_UNTIL(ep, !ep->sends_open);
	assert_int_equal(ep->sends_failed, expect_failed);
	if (expect_failed)
		assert_int_equal(ep->last_status, SN_ERR_TRUNCATED);
	CHECK(hear_progress(sock, ep) == 'd');
	tell(sock, 'd');
	end(ep, sock, pid);
}

static void a_receiver_may_take_a_part(void **state)
{
	send_six((struct plan){.copy = "read", .percent = 40}, 0);
	send_six((struct plan){.copy = "write", .percent = 40}, 0);
	send_six((struct plan){.copy = "stream", .percent = 40}, 0);
}

static void a_refusal_reaches_the_sender(void **state)
{
	send_six((struct plan){.refuse = true}, 6);
}

static void a_queued_message_can_be_taken_back(void **state)
{
	plan = (struct plan){.ring = "32768"};
	settings();
	struct sn_ep *ep = side_open(), *other = side_open();
	struct address a = side_address(other);
	struct sn_peer_state *peer = peer_add(ep, &a);
	int rc;
	uint64_t before = 0;
	while ((rc = side_send(peer, 4000, false, 1)) == 1)
		before++;
	assert_int_equal(rc, 0); /* the ring is full */
	struct sn_req *req = calloc(1, sizeof(*req));
	uint8_t byte = 0;
	assert_non_null(req);
	req->iov[0] = (struct iovec){&byte, 1};
	struct sn_out out = {.head = {.kind = SN_K_TAGGED, .len = 1}, .iov = req->iov, .iov_count = 1};
	assert_int_equal(sn_rail_local.post(peer->link, &out, req), 0);
	assert_true(sn_rail_local.busy(ep->rail));
	assert_true(sn_rail_local.unpost(peer->link, req));
	assert_false(sn_rail_local.unpost(peer->link, req));
	free(req);
	while (ep->sends_open || !other->peer_count || other->peers[0]->finished < before + 1) {
		side_progress(ep);
		side_progress(other);
	}
	assert_int_equal(other->peers[0]->arrived, before + 1);
	side_close(ep);
	side_close(other);
}

int main(void)
{
	alarm(TEST_SECONDS);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_lists_are_parsed),
		cmocka_unit_test(reading_refused_in_the_middle_goes_on_by_writing),
		cmocka_unit_test(both_refused_goes_on_by_streaming),
		cmocka_unit_test(a_refused_probe_means_streaming_from_the_start),
		cmocka_unit_test(short_copies_are_continued),
		cmocka_unit_test(a_fault_is_no_refusal),
		cmocka_unit_test(a_fault_while_writing_is_streamed_with_care),
		cmocka_unit_test(scarce_memory_concerns_one_message),
		cmocka_unit_test(a_pid_namespace_between_them),
		cmocka_unit_test(a_user_namespace_between_them),
		cmocka_unit_test(an_unreadable_source_is_an_error_on_both_sides),
		cmocka_unit_test(an_unwritable_destination_is_the_receivers_error_alone),
		cmocka_unit_test(a_receiver_may_take_a_part),
		cmocka_unit_test(a_refusal_reaches_the_sender),
		cmocka_unit_test(a_queued_message_can_be_taken_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sn_send and sn_recv: messages of every kind of length between two processes, one way and back, each over when the call
 * returns; too long a message, whoever has died, and nonsense.
 */
#include "two.h"
#include <signal.h>
#include <sys/mman.h>

#define LONGEST ((size_t)3 << 20)
#define EXACT	UINT64_MAX

struct shared {
	struct meeting meeting;
};
static struct shared *sh;
static uint8_t *buf;

static uint8_t byte_of(size_t at, size_t len, int round)
{
	return (uint8_t)(at * 7 + len + (size_t)round);
}

static void send_one(size_t len, int round)
{
	for (size_t at = 0; at < len; at++)
		buf[at] = byte_of(at, len, round);
	CHECK(sn_send(ep, peer, buf, len, len) == SN_OK);
	memset(buf, 0xee, len); /* it is ours again */
}

static void receive_one(size_t len, int round)
{
	sn_completion c;
	memset(buf, 0xdd, len);
	CHECK(sn_recv(ep, peer, buf, LONGEST, len, EXACT, NULL, &c) == SN_OK);
	CHECK(c.status == SN_OK && c.len == len && c.full_len == len && c.bits == len && c.peer == peer);
	for (size_t at = 0; at < len; at++)
		CHECK(buf[at] == byte_of(at, len, round));
}

static void there_and_back(void)
{
	static const size_t lengths[] = {0, 1, 8, 40, 41, 64, 4096, 4097, 65536, 300000, LONGEST};
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		for (int round = 0; round < 5; round++) {
			if (me)
				send_one(lengths[k], round);
			receive_one(lengths[k], round);
			if (!me)
				send_one(lengths[k], round);
		}
	}
	sn_completion c;
	if (me) {
		CHECK(sn_send(ep, peer, buf, 100, 1) == SN_OK);
	} else {
		CHECK(sn_recv(ep, SN_ANY_PEER, buf, 60, 1, EXACT, NULL, &c) == SN_OK);
		CHECK(c.status == SN_ERR_TRUNCATED && c.full_len == 100);
	}
}

static void part(void)
{
	meet_other(&sh->meeting, 100);
	CHECK(buf = malloc(LONGEST));
	there_and_back();
	free(buf);
}

static void what_is_sent_is_there_and_over(void **state)
{
	sh = shared_new(sizeof(*sh));
	run_both(part);
	munmap(sh, sizeof(*sh));
}

/* The other one is killed while this one waits: that receive, and then each kind of send, tells. */
static void who_has_died_is_told_of(void **state)
{
	static const size_t lengths[] = {8, 4096, 65536, LONGEST};
	sn_completion c;
	sh = shared_new(sizeof(*sh));
	fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0);
	me = pid == 0;
	meet_other(&sh->meeting, 90);
	CHECK(buf = calloc(1, LONGEST));
	if (me) {
		CHECK(sn_send(ep, peer, buf, 8, 1) == SN_OK);
		usleep(50000);
		raise(SIGKILL);
	}
	CHECK(sn_recv(ep, peer, buf, 8, 1, EXACT, NULL, &c) == SN_OK && c.status == SN_OK);
	CHECK(sn_recv(ep, peer, buf, 8, 1, EXACT, NULL, &c) == SN_OK && c.status == SN_ERR_PEER_GONE);
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
		CHECK(sn_send(ep, peer, buf, lengths[k], 1) == SN_ERR_PEER_GONE);
	CHECK(waitpid(pid, NULL, 0) == pid);
	alarm(0);
	sn_ep_close(ep);
	free(buf);
	munmap(sh, sizeof(*sh));
}

static void unheard(void *arg, const sn_completion *c)
{
}

static void nonsense_is_refused(void **state)
{
	sn_ep *plain, *tells;
	sn_peer self;
	sn_completion c;
	uint8_t addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	sn_ep_attr attr = {.on_complete = unheard};
	assert_int_equal(sn_ep_open(NULL, &plain), SN_OK);
	assert_int_equal(sn_ep_open(&attr, &tells), SN_OK);
	assert_int_equal(sn_ep_address(plain, addr, &len), SN_OK);
	assert_int_equal(sn_peer_add(plain, addr, len, &self), SN_OK);
	assert_int_equal(sn_send(NULL, self, addr, 8, 1), SN_ERR_INVALID);
	assert_int_equal(sn_send(plain, self + 1, addr, 8, 1), SN_ERR_INVALID);
	assert_int_equal(sn_send(plain, self, NULL, 8, 1), SN_ERR_INVALID);
	assert_int_equal(sn_recv(plain, self, addr, 8, 1, EXACT, NULL, NULL), SN_ERR_INVALID);
	assert_int_equal(sn_peer_add(tells, addr, len, &self), SN_OK);
	assert_int_equal(sn_send(tells, self, addr, 8, 1), SN_ERR_INVALID);
	assert_non_null(strstr(sn_last_error(), "callback"));
	/* to oneself: kept until it is received */
	assert_int_equal(sn_send(plain, self, "himself", 8, 1), SN_OK);
	assert_int_equal(sn_recv(plain, self, addr, 8, 1, EXACT, NULL, &c), SN_OK);
	assert_memory_equal(addr, "himself", 8);
	sn_ep_close(tells);
	sn_ep_close(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent_is_there_and_over),
		cmocka_unit_test(who_has_died_is_told_of),
		cmocka_unit_test(nonsense_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

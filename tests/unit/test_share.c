/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides copy: a message in which both take part arrives whole, whatever fails on whichever side and wherever, and
 * whoever dies. The sender is process 1, the receiver process 0.
 */
#include "copy/cma.h"
#include "local/job.h"
#include "two.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define N ((size_t)3 << 20)

struct shared {
	struct meeting meeting;
	_Atomic int step[2];
	_Atomic uint64_t helped, dead;
};

static struct shared *sh;
static uint8_t *buf;

static void open_both(void)
{
	meet_other(&sh->meeting, 150);
	buf = calloc(1, N + 64);
	CHECK(buf);
}

static void fill(uint8_t *b, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(i * 7 + (i >> 9) + seed);
}

static bool filled(const uint8_t *b, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != (uint8_t)(i * 7 + (i >> 9) + seed)) {
			fprintf(stderr, "byte %zu of %zu: %u\n", i, n, b[i]);
			return false;
		}
	return true;
}

static void wait_for(sn_req *req, int status, sn_completion *c)
{
	sn_completion own = {0};
	c = c ? c : &own;
	CHECK(sn_wait(ep, req, c, 40000000) == 0);
	CHECK(c->status == status);
}

static void meet(void) /* both come here, moving what they have */
{
	static int n;
	sh->step[me] = ++n;
	while (sh->step[!me] < n && !sh->dead)
		sn_progress(ep);
}

/* One message of len bytes into a receive of room: posted before the send, or after it. */
static void one(size_t len, size_t room, bool receive_first, uint64_t seed)
{
	sn_req *req;
	sn_completion c;
	size_t take = len < room ? len : room;
	if (me == 0) {
		memset(buf, 0xee, room + 64);
		if (!receive_first)
			meet();
		CHECK(sn_irecv(ep, peer, buf, room, 5, UINT64_MAX, &req) == 0);
		if (receive_first)
			meet();
		wait_for(req, len > room ? SN_ERR_TRUNCATED : 0, &c);
		CHECK(c.len == take && c.full_len == len && c.bits == 5 && c.peer == peer);
		CHECK(filled(buf, take, seed));
		for (size_t i = take; i < room + 64; i++)
			CHECK(buf[i] == 0xee);
	} else {
		fill(buf, len, seed);
		if (receive_first)
			meet();
		CHECK(sn_isend(ep, peer, buf, len, 5, &req) == 0);
		if (!receive_first)
			meet();
		wait_for(req, 0, NULL);
		memset(buf, 0xdd, len); /* it is ours again */
	}
	meet();
}

static void every_length_and_order(void)
{
	static const size_t lengths[] = {65536, 65537, 131071, 200000, 262144, 1048576 + 4095, N};
	open_both();
	for (uint64_t i = 0; i < 7; i++)
		for (int first = 0; first < 2; first++) {
			one(lengths[i], lengths[i], first, i);
			one(lengths[i], N, first, i + 50);
			one(lengths[i], lengths[i] - 4097 * i / 2 - 1, first, i + 100);
		}
	CHECK(counter("local.shared") > 0);
}

/* Nobody can be made to come in time on a busy machine; but sooner or later both are inside at once. */
static void both_take_part(void)
{
	open_both();
	for (uint64_t i = 0; sh->helped < 4; i++) {
		one(N, N, i & 1, i);
		uint64_t before = sh->helped;
		if (counter("local.helped") > 1)
			atomic_compare_exchange_strong(&sh->helped, &before, before | (me ? 1 : 4));
		meet();
	}
}

/* One kind of fault, at one of the first calls, on one side, in one order; then once more, as it goes without. */
static void a_fault(void)
{
	static const char *const faults[] = {"read:eperm", "write:eperm", "read:efault", "write:esrch",
					     "read:enomem"};
	char text[40];
	uint64_t i = sh->helped;
	open_both();
	snprintf(text, sizeof(text), "%s@%d", faults[i % 5], (int)(i / 5 % 4) + 1);
	CHECK(sn_fault_set((i / 20 & 1) == (uint64_t)me ? text : ""));
	one(300000, 300000, i / 40 & 1, i);
	one(300000, 300000, i / 40 & 1, i + 1);
}

static void short_copies(void)
{
	open_both();
	CHECK(sn_fault_set("read:short,write:short"));
	one(500000, 500000, true, 1);
	one(500000, 500000, false, 2);
	one(500000, 123457, true, 3);
}

/* More at once than there are jobs, in both directions. */
static void many_at_once(void)
{
	enum { MANY = 40, LEN = 100000 };
	open_both();
	sn_req *s[MANY], *r[MANY];
	uint8_t *out = malloc((size_t)MANY * LEN), *in = malloc((size_t)MANY * LEN);
	CHECK(out && in);
	for (uint64_t round = 0; round < 6; round++) {
		fill(out, (size_t)MANY * LEN, round + (uint64_t)me);
		for (int i = 0; i < MANY; i++)
			if (round & 1)
				CHECK(sn_irecv(ep, peer, in + i * LEN, LEN, (uint64_t)i, UINT64_MAX, &r[i]) ==
				      0);
		meet();
		for (int i = 0; i < MANY; i++)
			CHECK(sn_isend(ep, peer, out + i * LEN, LEN, (uint64_t)i, &s[i]) == 0);
		for (int i = 0; i < MANY; i++)
			if (!(round & 1))
				CHECK(sn_irecv(ep, peer, in + i * LEN, LEN, (uint64_t)i, UINT64_MAX, &r[i]) ==
				      0);
		for (int i = 0; i < MANY; i++) {
			wait_for(r[i], 0, NULL);
			wait_for(s[i], 0, NULL);
		}
		CHECK(filled(in, (size_t)MANY * LEN, round + (uint64_t)!me));
		meet();
	}
	free(out);
	free(in);
}

/* The other dies while the message is on its way: an error, or the whole message; not a hang. */
static void the_other_dies(void)
{
	sn_req *req;
	sn_completion c;
	const size_t len = (size_t)96 << 20;
	open_both();
	one(100000, 100000, true, 1);
	uint8_t *big = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(big != MAP_FAILED);
	int victim = sh->helped & 1, first = sh->helped >> 1 & 1;
	memset(big, me, len);
	if (me != first)
		meet();
	if (me == 0)
		CHECK(sn_irecv(ep, peer, big, len, 5, UINT64_MAX, &req) == 0);
	if (me == victim && fork() == 0) { /* ends its parent in the middle */
		usleep(3000);
		sh->dead = 1; /* it may not have come to meet() by now */
		kill(getppid(), SIGKILL);
		_exit(0);
	}
	if (me == 1)
		CHECK(sn_isend(ep, peer, big, len, 5, &req) == 0);
	if (me == first)
		meet();
	CHECK(sn_wait(ep, req, &c, 40000000) == 0);
	CHECK(me == victim || c.status == SN_ERR_PEER_GONE || c.status == 0);
	if (me == 0 && c.status == 0)
		CHECK(big[0] == 1 && big[len / 2] == 1 && big[len - 1] == 1);
	if (me == victim)
		pause();
}

static void run(void (*scene)(void), int victim, uint64_t how)
{
	pid_t pid[2];
	sh = shared_new(sizeof(*sh));
	sh->helped = how;
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			me = i;
			scene();
			sn_ep_close(ep);
			free(buf);
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++) {
		int status;
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		if (i != victim)
			assert_int_equal(status, 0);
	}
	munmap(sh, sizeof(*sh));
}

static void test_lengths(void **state)
{
	run(every_length_and_order, -1, 0);
}

static void test_both(void **state)
{
	run(both_take_part, -1, 0);
}

static void test_faults(void **state)
{
	for (uint64_t i = 0; i < 80; i++)
		run(a_fault, -1, i);
}

static void test_short(void **state)
{
	run(short_copies, -1, 0);
}

static void test_many(void **state)
{
	run(many_at_once, -1, 0);
}

static void test_death(void **state)
{
	for (uint64_t how = 0; how < 4; how++)
		run(the_other_dies, how & 1, how);
}

/* Whatever a hostile peer writes into a job, claims stay within the message. */
static void test_claims_stay_inside(void **state)
{
	uint64_t seed = unit_seed();
	struct sn_job job;
	for (int i = 0; i < 200000; i++) {
		uint32_t total = 1 + (uint32_t)unit_random(&seed) % 5000, first = 0;
		uint64_t word = unit_random(&seed);
		if (i % 3)
			word = (word % 6000) | (word >> 32) % 6000 << 32;
		atomic_store(&job.claim, word);
		bool head = i & 1;
		uint32_t n = sn_job_claim(&job, total, head, &first);
		assert_true(n <= SN_JOB_MOST && (uint64_t)first + n <= total);
	}
	/* two that come at once take half each, so that the kernel is called once by each */
	for (uint32_t total = 2 * SN_JOB_LEAST; total <= 2 * SN_JOB_MOST; total += 29) {
		uint32_t tail, head, first = 0;
		sn_job_open(&job, false);
		tail = sn_job_claim(&job, total, false, &first);
		assert_true(sn_job_left(&job, total) && first + tail == total);
		head = sn_job_claim(&job, total, true, &first);
		assert_true(!sn_job_left(&job, total) && first == 0 && head + tail == total);
		assert_true(head <= tail && tail - head <= 1);
	}
	/* and alone, one side takes each block once */
	for (uint32_t total = 1; total < 3000; total += 37) {
		uint32_t at = 0, first, n;
		sn_job_open(&job, false);
		while ((n = sn_job_claim(&job, total, true, &first))) {
			assert_int_equal(first, at);
			at += n;
		}
		assert_int_equal(at, total);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_claims_stay_inside),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_both),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_death),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No ring is lost. Every sleep here may last 200 s and the alarm comes before: a test that passes was woken each time.
 */
#include "base/base.h"
#include "base/conf.h"
#include "progress/bell.h"
#include "progress/relax.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US	  200000000u
#define LAPS	  3000
#define ENOUGH_NS 6000000000ull /* a machine where a turn of a core is rare makes fewer laps */
#define LAST	  UINT32_MAX	/* instead of the lap: no more of them */
#define MANY	  8

struct lane { /* one line each: a message is a plain store */
	sn_aligned _Atomic uint32_t sent;
};
static struct lane *lanes;

static int send_fd(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec v = {&byte, 1};
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &m, 0) == 1 ? 0 : -1;
}

static int recv_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec v = {&byte, 1};
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd = -1;
	if (recvmsg(sock, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

struct expect {
	struct lane *lane;
	uint32_t value;
};

static int arrived(void *arg)
{
	const struct expect *e = arg;
	return atomic_load_explicit(&e->lane->sent, memory_order_acquire) >= e->value;
}

static void wait_for(struct lane *lane, uint32_t value)
{
	struct expect e = {lane, value};
	while (!arrived(&e))
		sn_bell_wait(arrived, &e, LONG_US);
}

static void put(struct lane *lane, uint32_t value, struct sn_bell *bell, bool fence)
{
	atomic_store_explicit(&lane->sent, value, memory_order_release);
	sn_bell_ring(bell, fence);
}

static void player(int sock, struct lane *mine, struct lane *theirs, bool first)
{
	if (sn_bell_open() || send_fd(sock, sn_bell_fd()))
		_exit(3);
	int fd = recv_fd(sock);
	struct sn_bell *bell = sn_bell_map(fd);
	if (!bell)
		_exit(4);
	bool fence = sn_bell_must_fence(bell);
	uint64_t enough = sn_now_ns() + ENOUGH_NS;
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		if (!first) {
			wait_for(theirs, lap);
			if (atomic_load(&theirs->sent) == LAST)
				break;
		}
		bool last = first && sn_now_ns() > enough; /* the other goes as well */
		put(mine, last ? LAST : lap, bell, fence);
		if (last)
			break;
		if (first)
			wait_for(theirs, lap);
	}
}

static int setup(void **state)
{
	lanes = mmap(NULL, sizeof(*lanes) * (MANY + 2), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	return lanes == MAP_FAILED;
}

static int teardown(void **state)
{
	return munmap(lanes, sizeof(*lanes) * (MANY + 2));
}

static void two_processes_wake_each_other(void **state)
{
	int pair[2], status;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	pid_t a = fork();
	if (!a) {
		alarm(150);
		player(pair[0], &lanes[0], &lanes[1], true);
		_exit(0);
	}
	pid_t b = fork();
	if (!b) {
		alarm(150);
		player(pair[1], &lanes[1], &lanes[0], false);
		_exit(0);
	}
	assert_int_equal(waitpid(a, &status, 0), a);
	assert_int_equal(status, 0);
	assert_int_equal(waitpid(b, &status, 0), b);
	assert_int_equal(status, 0);
	close(pair[0]);
	close(pair[1]);
}

static int all_arrived(void *arg)
{
	uint32_t sum = 0;
	for (int i = 0; i < MANY; i++)
		sum += atomic_load_explicit(&lanes[i].sent, memory_order_acquire);
	uint32_t *seen = arg, before = *seen;
	*seen = sum;
	return sum != before;
}

/* Many senders, one sleeper: who rings takes the flag down for the others, and none of their messages is forgotten. */
static void many_senders_wake_one(void **state)
{
	pid_t pids[MANY];
	int pair[2], status;
	assert_int_equal(sn_bell_open(), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(send_fd(pair[0], sn_bell_fd()), 0);
		pids[i] = fork();
		if (pids[i])
			continue;
		alarm(150);
		int fd = recv_fd(pair[1]);
		sn_bell_before_fork(); /* as if the service were there, which brings its own handlers */
		sn_bell_after_fork(true);
		struct sn_bell *bell = sn_bell_map(fd);
		if (!bell || sn_bell_open())
			_exit(4);
		for (uint32_t n = 1; n <= LAPS; n++) {
			put(&lanes[i], n, bell, sn_bell_must_fence(bell));
			if (n % 16 == 0)
				sched_yield();
		}
		_exit(0);
	}
	uint32_t seen = 0;
	while (seen < MANY * LAPS)
		sn_bell_wait(all_arrived, &seen, LONG_US);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	close(pair[0]);
	close(pair[1]);
}

static void *sleeper(void *arg)
{
	struct lane *lane = arg;
	for (uint32_t n = 1; n <= LAPS; n++) {
		wait_for(&lane[0], n);
		if (atomic_load(&lane[0].sent) == LAST)
			break;
		atomic_store_explicit(&lane[1].sent, n, memory_order_release);
	}
	return NULL;
}

static void a_thread_wakes_a_thread(void **state)
{
	pthread_t thread;
	assert_int_equal(sn_bell_open(), 0);
	for (int i = 0; i < 2; i++) /* what the test before has left: with it nobody would wait */
		atomic_store(&lanes[i].sent, 0);
	assert_int_equal(pthread_create(&thread, NULL, sleeper, lanes), 0);
	uint64_t enough = sn_now_ns() + ENOUGH_NS;
	for (uint32_t n = 1, sent = 0; n <= LAPS && sent != LAST; n++) {
		sent = sn_now_ns() > enough ? LAST : n;
		atomic_store_explicit(&lanes[0].sent, sent, memory_order_release);
		sn_bell_ring_self();
		while (sent != LAST && atomic_load_explicit(&lanes[1].sent, memory_order_acquire) < n)
			sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Two ranks that a launcher has bound to a core each must spin, not yield: their cores are their own. */
static void bound_to_other_cores_is_no_rival(void **state)
{
	cpu_set_t all, one;
	struct sn_bell peer = {0};
	unsigned cpu = 0;
	assert_int_equal(sn_bell_open(), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	assert_int_equal(sn_bell_rival(NULL), CPU_COUNT(&all) >= sn_topo()->cpus);
	for (unsigned i = 0; i < SN_BELL_CPUS / 64; i++)
		peer.cpus[i] = UINT64_MAX;
	assert_true(sn_bell_rival(&peer)); /* it runs anywhere */
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_true(sn_bell_rival(&peer));
	peer.cpus[cpu / 64] &= ~(UINT64_C(1) << cpu % 64);
	assert_false(sn_bell_rival(&peer));
	memset(&peer, 0, sizeof(peer));
	peer.cpus[cpu / 64] = UINT64_C(1) << cpu % 64;
	assert_true(sn_bell_rival(&peer)); /* bound to the same */
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* ---- the guard ---- */

static struct sn_bell *own_bell;
static _Atomic int lingers, asked, answered;
static _Atomic bool guarding;

static int none(void *arg)
{
	return 0;
}

static bool linger(void *arg, _Atomic uint32_t *word, uint32_t seq)
{
	return atomic_load(&lingers) > 0;
}

static bool linger_a_little(void *arg, _Atomic uint32_t *word, uint32_t seq)
{
	return ++*(unsigned *)arg % 7;
}

static void *guard_once(void *arg)
{
	return (void *)(uintptr_t)sn_bell_guard(true, none, linger, NULL, LONG_US);
}

static int work_left(void *arg)
{
	return atomic_load(&asked) != atomic_load(&answered);
}

/* One that comes back without being rung was woken by whom the kernel kept from his core between counting up and that. */
static void *guard_on(void *arg)
{
	unsigned looks = 0;
	while (atomic_load(&guarding)) {
		sn_bell_guard(true, work_left, linger_a_little, &looks, LONG_US);
		atomic_store(&answered, atomic_load(&asked));
	}
	return NULL;
}

static void wait_for_guard(enum sn_guard guard)
{
	while (atomic_load(&own_bell->guard) != (uint32_t)guard)
		sched_yield();
}

/* Who leaves work for a process whose progress thread polls makes no system call, and one if it sleeps: one for all. */
static void who_polls_is_rung_without_a_system_call(void **state)
{
	pthread_t thread;
	void *how;
	assert_int_equal(sn_bell_open(), 0);
	own_bell = sn_bell_map(sn_bell_fd());
	assert_non_null(own_bell);
	atomic_store(&lingers, 1);
	assert_int_equal(pthread_create(&thread, NULL, guard_once, NULL), 0);
	wait_for_guard(SN_GUARD_POLLS);
	assert_int_equal(sn_bell_ring_work(own_bell, true), 0);
	assert_int_equal(pthread_join(thread, &how), 0);
	assert_int_equal((uintptr_t)how, SN_RUNG_AWAKE);
	assert_int_equal(pthread_create(&thread, NULL, guard_once, NULL), 0);
	wait_for_guard(SN_GUARD_POLLS);
	atomic_store(&lingers, 0);
	wait_for_guard(SN_GUARD_SLEEPS);
	assert_int_equal(sn_bell_ring_work(own_bell, true), 1);
	assert_int_equal(sn_bell_ring_work(own_bell, true), 0);
	assert_int_equal(pthread_join(thread, &how), 0);
	assert_int_equal((uintptr_t)how, SN_RUNG_ASLEEP);
}

/* Rung at any moment of polling, of falling asleep and of sleep: each time what it is rung for is found. */
static void no_ring_at_the_guard_is_lost(void **state)
{
	pthread_t thread;
	atomic_store(&guarding, true);
	assert_int_equal(pthread_create(&thread, NULL, guard_on, NULL), 0);
	uint64_t enough = sn_now_ns() + ENOUGH_NS;
	for (int lap = 0; lap < LAPS && sn_now_ns() < enough; lap++) {
		if (lap % 2)
			wait_for_guard(SN_GUARD_SLEEPS);
		while (atomic_load(&own_bell->guard) == SN_GUARD_DOWN)
			sched_yield();
		for (volatile int i = 0; i < lap % 64 * 8; i++)
			;
		atomic_fetch_add(&asked, 1);
		sn_bell_ring_work(own_bell, true);
		while (work_left(NULL))
			sched_yield();
	}
	atomic_store(&guarding, false);
	atomic_fetch_add(&asked, 1);
	sn_bell_ring_work(own_bell, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	sn_bell_unmap(own_bell);
}

static int polls;

static int nothing(void *arg)
{
	polls++;
	return 0;
}

static uint64_t naps, yields;

static void note_counter(void *arg, const char *name, uint64_t value)
{
	if (strcmp(name, "progress.naps") == 0)
		naps = value;
	else if (strcmp(name, "progress.yields") == 0)
		yields = value;
}

/* Since the last call. */
static uint64_t napped(void)
{
	uint64_t before = naps;
	sn_relax_counters(note_counter, NULL);
	return naps - before;
}

static void waiting_spins_then_naps(void **state)
{
	uint64_t idle = 0;
	sn_relax_crowd(0);
	napped();
	uint64_t yielded = yields;
	polls = 0;
	assert_false(sn_relax_step(&idle, 100, nothing, NULL));
	assert_true(idle != 0 && polls > 0);
	assert_int_equal(napped(), 0); /* not at once */
	while (!napped())	       /* but soon */
		sn_relax_step(&idle, 100, nothing, NULL);
	assert_int_equal(yields, yielded);
	uint64_t long_ago = 1;
	sn_relax_step(&long_ago, 0, nothing, NULL); /* 0: never naps */
	assert_int_equal(napped(), 0);
	assert_true(yields > yielded); /* then the core is for others */
}

/* Judged where the step was not interrupted for so long that a nap was right. */
static void nobody_naps_before_the_network_would_ring(void **state)
{
	int judged = 0;
	sn_relax_crowd(0);
	sn_relax_far(true);
	uint64_t enough = sn_now_ns() + ENOUGH_NS;
	/* where each yield costs a turn of somebody else, none may be judged */
	while (judged < 10 && sn_now_ns() < enough) {
		uint64_t idle = sn_now_ns() - 60000, from = idle;
		napped();
		sn_relax_step(&idle, 100, nothing, NULL);
		if (sn_now_ns() - from < 150000) {
			assert_int_equal(napped(), 0);
			judged++;
		}
	}
	uint64_t long_ago = 1;
	napped();
	sn_relax_step(&long_ago, 100, nothing, NULL);
	assert_int_equal(napped(), 1);
	sn_relax_far(false);
	uint64_t idle = sn_now_ns() - 60000;
	sn_relax_step(&idle, 100, nothing, NULL);
	assert_int_equal(napped(), 1);
	if (judged)
		return;
	print_message("a busy machine: each step was interrupted for longer than the time after which a nap "
		      "is right\n");
	skip();
}

static void in_a_crowd_waiting_yields_at_once(void **state)
{
	uint64_t idle = 0;
	sn_relax_crowd(1000000);
	napped();
	uint64_t yielded = yields;
	sn_relax_step(&idle, 100, nothing, NULL);
	assert_int_equal(napped(), 0);
	assert_true(yields > yielded);
	while (!napped())
		sn_relax_step(&idle, 100, nothing, NULL);
	sn_relax_crowd(0);
}

static int second_look(void *arg)
{
	return ++polls > 1;
}

/*
 * To go back to an MPI library after each yield costs more than the yield. One of several waits: a turn may take longer than
 * anybody stays.
 */
static void in_a_crowd_nobody_goes_back_after_the_first_yield(void **state)
{
	int stayed = 0;
	sn_relax_crowd(1000000);
	for (int i = 0; i < 64 && !stayed; i++) {
		uint64_t idle = 0;
		polls = 0;
		stayed = sn_relax_step(&idle, 100, second_look, NULL);
		assert_true(!stayed || idle == 0);
	}
	assert_true(stayed);
	/* Who may not nap is waited for by others, and goes back: a yield each, where staying takes tens. */
	napped();
	uint64_t yielded = yields;
	for (int i = 0; i < 64; i++) {
		uint64_t idle = sn_now_ns();
		sn_relax_step(&idle, 0, nothing, NULL);
	}
	napped();
	assert_true(yields - yielded < 4 * 64);
	sn_relax_crowd(0);
}

/* An answer from another host may have to pass somebody who waits for this very core. */
static void waiting_for_other_hosts_yields_while_it_spins(void **state)
{
	setenv("SENNIT_SPIN", "1000000", 1);
	sn_conf_reload();
	napped();
	for (int far = 0; far < 2; far++) {
		uint64_t idle = sn_now_ns() - 20000, yielded = yields;
		if (far)
			sn_relax_far(true);
		sn_relax_step(&idle, 100, nothing, NULL);
		assert_int_equal(napped(), 0);
		assert_int_equal(yields > yielded, far);
	}
	sn_relax_far(false);
	unsetenv("SENNIT_SPIN");
	sn_conf_reload();
}

static int something(void *arg)
{
	return 1;
}

static void a_last_look_that_finds_something_starts_over(void **state)
{
	uint64_t idle = 1; /* waited since the machine started */
	assert_true(sn_relax_step(&idle, 1000000, something, NULL));
	assert_int_equal(idle, 0);
}

static void who_polls_naps_only_after_many_calls(void **state)
{
	uint64_t idle = 0;
	int calls = 0;
	polls = 0;
	/* where each yield costs a turn of somebody else, this takes seconds; what never naps meets the alarm */
	for (; !polls; calls++)
		sn_relax_polled(&idle, 100, nothing, NULL);
	assert_true(calls > 2048); /* HPCC's RandomAccess looks that often between two messages */
	do /* who has lost the core since begins anew; a find at the nap's last look is what ends it */
		sn_relax_polled(&idle, 1000000, something, NULL);
	while (idle);
}

/* However long the machine has been up. To yield each time would be a hundred times as often. */
static void who_polls_yields_now_and_then(void **state)
{
	uint64_t idle = 0, began = sn_now_ns();
	sn_relax_crowd(0);
	napped();
	uint64_t yielded = yields;
	while (sn_now_ns() - began < 20000000)
		sn_relax_polled(&idle, 0, nothing, NULL);
	uint64_t us = (sn_now_ns() - began) / 1000;
	napped();
	assert_true(yields > yielded);
	assert_true(yields - yielded <= us / 16 + 1);
}

static void who_works_between_polls_never_naps(void **state)
{
	uint64_t idle = 0;
	polls = 0;
	for (int i = 0; i < 5000; i++) {
		sn_relax_polled(&idle, 100, nothing, NULL);
		for (uint64_t end = sn_now_ns() + 25000; sn_now_ns() < end;)
			;
	}
	assert_int_equal(polls, 0);
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_processes_wake_each_other, setup, teardown),
		cmocka_unit_test_setup_teardown(many_senders_wake_one, setup, teardown),
		cmocka_unit_test_setup_teardown(a_thread_wakes_a_thread, setup, teardown),
		cmocka_unit_test(who_polls_is_rung_without_a_system_call),
		cmocka_unit_test(no_ring_at_the_guard_is_lost),
		cmocka_unit_test(bound_to_other_cores_is_no_rival),
		cmocka_unit_test(waiting_spins_then_naps),
		cmocka_unit_test(nobody_naps_before_the_network_would_ring),
		cmocka_unit_test(in_a_crowd_waiting_yields_at_once),
		cmocka_unit_test(in_a_crowd_nobody_goes_back_after_the_first_yield),
		cmocka_unit_test(waiting_for_other_hosts_yields_while_it_spins),
		cmocka_unit_test(a_last_look_that_finds_something_starts_over),
		cmocka_unit_test(who_polls_naps_only_after_many_calls),
		cmocka_unit_test(who_polls_yields_now_and_then),
		cmocka_unit_test(who_works_between_polls_never_naps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages move while a process computes: it posts, then makes no call until the other side says that everything has
 * arrived. Where nothing moves without its calls the other side waits until its time limit, and the test fails. Then
 * what makes that possible: a lock with an owner, a visitor and guests; and that callbacks come in the application's
 * calls only.
 */
#include "base/base.h"
#include "base/conf.h"
#include "core/core.h"
#include "progress/engine.h"
#define CHECK_FAILED() atomic_store(&sh->failed, 1)
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#define BYTES	(3u << 20)
#define PATIENT 60000000 /* us */

struct shared {
	uint8_t addr[2][SN_ADDR_MAX];
	size_t len[2];
	_Atomic int ready, posted, over, failed;
};

static struct shared *sh;
static uint8_t *data;

/* The application computes: no call of ours until the flag is set. */
static void compute_until(int me, _Atomic int *flag)
{
	uint64_t end = sn_now_ns() + UINT64_C(1000) * PATIENT;
	while (!atomic_load(flag)) {
		CHECK(sn_now_ns() < end && !atomic_load(&sh->failed));
		for (volatile int i = 0; i < 1000; i++)
			;
		sched_yield(); /* the test machine may have one core */
	}
}

static void meet(int me, const sn_ep_attr *attr, sn_ep **ep, sn_peer *peer)
{
	CHECK(sn_ep_open(attr, ep) == 0);
	sh->len[me] = SN_ADDR_MAX;
	CHECK(sn_ep_address(*ep, sh->addr[me], &sh->len[me]) == 0);
	atomic_fetch_add(&sh->ready, 1);
	while (atomic_load(&sh->ready) < 2)
		sched_yield();
	CHECK(sn_peer_add(*ep, sh->addr[!me], sh->len[!me], peer) == 0);
	/* once over and back, so that the two know each other */
	char x = 0;
	sn_req *r, *s;
	CHECK(sn_irecv(*ep, *peer, &x, 1, 9, UINT64_MAX, &r) == 0);
	CHECK(sn_isend(*ep, *peer, &x, 1, 9, &s) == 0);
	CHECK(sn_wait(*ep, s, NULL, PATIENT) == 0 && sn_wait(*ep, r, NULL, PATIENT) == 0);
	memset(data, me ? 0 : 0x5a, BYTES);
}

static void check_data(int me)
{
	for (size_t i = 0; i < BYTES; i++)
		CHECK(data[i] == 0x5a);
}

static void both_posted(void)
{
	atomic_fetch_add(&sh->posted, 1);
	while (atomic_load(&sh->posted) < 2)
		sched_yield();
}

/* Process 0 sends, process 1 receives; `computes` makes no call until the other one has finished. */
static void transfer(int me, int computes)
{
	sn_ep *ep;
	sn_peer peer;
	sn_req *req;
	sn_completion c;
	meet(me, NULL, &ep, &peer);
	if (me)
		CHECK(sn_irecv(ep, SN_ANY_PEER, data, BYTES, 1, UINT64_MAX, &req) == 0);
	else
		CHECK(sn_isend(ep, peer, data, BYTES, 1, &req) == 0);
	both_posted();
	if (me == computes)
		compute_until(me, &sh->over);
	CHECK(sn_wait(ep, req, &c, PATIENT) == 0 && c.status == 0 && c.len == BYTES);
	atomic_store(&sh->over, 1);
	if (me)
		check_data(me);
	sn_ep_close(ep);
}

static void receiver_computes(int me)
{
	transfer(me, 1);
}

static void sender_computes(int me)
{
	transfer(me, 0);
}

/* Neither calls: the receiver sees the last byte appear in its memory. */
static void both_compute(int me)
{
	sn_ep *ep;
	sn_peer peer;
	sn_req *req;
	meet(me, NULL, &ep, &peer);
	if (me)
		CHECK(sn_irecv(ep, peer, data, BYTES, 1, UINT64_MAX, &req) == 0);
	else
		CHECK(sn_isend(ep, peer, data, BYTES, 1, &req) == 0);
	both_posted();
	if (me) {
		uint64_t end = sn_now_ns() + UINT64_C(1000) * PATIENT;
		while (((volatile uint8_t *)data)[BYTES - 1] != 0x5a) {
			CHECK(sn_now_ns() < end);
			sched_yield();
		}
		atomic_store(&sh->over, 1);
	} else {
		compute_until(me, &sh->over);
	}
	CHECK(sn_wait(ep, req, NULL, PATIENT) == 0);
	if (me)
		check_data(me);
	sn_ep_close(ep);
}

/* One-sided access to the memory of a process that computes. */
static void target_computes(int me)
{
	sn_ep *ep;
	sn_peer peer;
	sn_req *req;
	sn_region *region = NULL;
	uint8_t got[100] = {0};
	meet(me, NULL, &ep, &peer);
	if (me)
		CHECK(sn_region_add(ep, data, BYTES, 7, SN_REMOTE_READ | SN_REMOTE_WRITE, &region) == 0);
	both_posted();
	if (me) {
		compute_until(me, &sh->over);
		check_data(me);
	} else {
		struct iovec v = {data, BYTES}, w = {got, sizeof(got)};
		sn_msg put = {.peer = peer, .iov = &v, .iov_count = 1};
		sn_msg get = {.peer = peer, .iov = &w, .iov_count = 1};
		sn_remote at = {7, 0};
		CHECK(sn_put(ep, &put, &at, &req) == 0);
		CHECK(sn_wait(ep, req, NULL, PATIENT) == 0);
		CHECK(sn_get(ep, &get, &at, &req) == 0);
		CHECK(sn_wait(ep, req, NULL, PATIENT) == 0 && got[99] == 0x5a);
		atomic_store(&sh->over, 1);
	}
	sn_ep_close(ep);
}

static _Atomic int signals;

static void on_signal(int sig)
{
	atomic_fetch_add(&signals, 1);
}

/* To one core and back, of those that this process may use. */
static void move_about(int me, int lap)
{
	static cpu_set_t all;
	cpu_set_t one;
	if (!CPU_COUNT(&all))
		CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	CPU_ZERO(&one);
	for (int cpu = 0, n = lap % CPU_COUNT(&all); cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && n-- == 0)
			CPU_SET(cpu, &one);
	CHECK(sched_setaffinity(0, sizeof(one), lap & 1 ? &one : &all) == 0);
}

/* Ping-pong while signals interrupt every call, the process forks, and is moved from core to core. */
static void disturbed(int me)
{
	struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART */
	struct itimerval timer = {{0, 700}, {0, 700}};
	sn_ep *ep;
	sn_peer peer;
	meet(me, NULL, &ep, &peer);
	CHECK(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &timer, NULL) == 0);
	for (int lap = 0; lap < 200; lap++) {
		size_t len = lap % 3 ? 200 : 300000;
		sn_req *req;
		sn_completion c;
		if (lap % 10 == me)
			move_about(me, lap / 10);
		if (lap % 20 == 5) {
			pid_t child = fork();
			if (child == 0)
				_exit(0);
			CHECK(child > 0 && (waitpid(child, NULL, 0) == child || errno == EINTR));
		}
		if ((lap & 1) == me) {
			CHECK(sn_isend(ep, peer, data, len, (uint64_t)lap, &req) == 0);
		} else {
			usleep((unsigned)lap % 7 * 100);
			CHECK(sn_irecv(ep, peer, data, len, (uint64_t)lap, UINT64_MAX, &req) == 0);
		}
		CHECK(sn_wait(ep, req, &c, PATIENT) == 0 && c.status == 0 && c.len == len);
	}
	memset(&timer, 0, sizeof(timer));
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0 && atomic_load(&signals) > 0);
	sn_ep_close(ep);
}

static pthread_t caller;
static _Atomic int called, strangers;
static bool in_call;

static void on_complete(void *arg, const sn_completion *c)
{
	atomic_fetch_add(&called, 1);
	if (!pthread_equal(pthread_self(), caller) || !in_call)
		atomic_fetch_add(&strangers, 1);
}

/* The receiver's callback waits for its next call, although the message has long arrived. */
static void callbacks_wait_for_a_call(int me)
{
	sn_ep *ep;
	sn_peer peer;
	sn_ep_attr attr = {.on_complete = on_complete};
	sn_req *req;
	meet(me, NULL, &ep, &peer); /* without callbacks, to know when it is there */
	sn_ep_close(ep);
	atomic_fetch_sub(&sh->ready, 1);
	while (atomic_load(&sh->ready) > 0)
		sched_yield();
	caller = pthread_self();
	CHECK(sn_ep_open(me ? &attr : NULL, &ep) == 0);
	sh->len[me] = SN_ADDR_MAX;
	CHECK(sn_ep_address(ep, sh->addr[me], &sh->len[me]) == 0);
	both_posted();
	CHECK(sn_peer_add(ep, sh->addr[!me], sh->len[!me], &peer) == 0);
	if (me) {
		struct iovec v = {data, BYTES};
		sn_msg m = {.peer = SN_ANY_PEER, .iov = &v, .iov_count = 1, .bits = 1, .mask = UINT64_MAX};
		in_call = true;
		CHECK(sn_post_recv(ep, &m, NULL) == 0);
		in_call = false;
		compute_until(me, &sh->over);
		for (in_call = true; !atomic_load(&called);)
			CHECK(sn_progress(ep) >= 0);
		CHECK(called == 1 && strangers == 0);
		check_data(me);
	} else {
		CHECK(sn_isend(ep, peer, data, BYTES, 1, &req) == 0);
		CHECK(sn_wait(ep, req, NULL, PATIENT) == 0);
		atomic_store(&sh->over, 1);
	}
	sn_ep_close(ep);
}

static void in_two_processes(void (*side)(int me), const char *copy)
{
	memset(sh, 0, sizeof(*sh));
	setenv("SENNIT_COPY", copy, 1);
	pid_t pid[2];
#ifdef __SANITIZE_THREAD__
	print_message("the thread sanitizer cannot follow threads of forked processes\n");
	skip();
#endif
	fflush(NULL);
	for (int me = 0; me < 2; me++) {
		pid[me] = fork();
		if (pid[me] == 0) {
			alarm(150);
			side(me);
			_exit(0);
		}
	}
	for (int me = 0; me < 2; me++) {
		int status;
		assert_int_equal(waitpid(pid[me], &status, 0), pid[me]);
		assert_int_equal(status, 0);
	}
	unsetenv("SENNIT_COPY");
}

static void data_moves_while_the_receiver_computes(void **state)
{
	in_two_processes(receiver_computes, "auto");
	in_two_processes(receiver_computes, "read");
	in_two_processes(receiver_computes, "write");
	in_two_processes(receiver_computes, "stream");
}

static void data_moves_while_the_sender_computes(void **state)
{
	in_two_processes(sender_computes, "auto");
	in_two_processes(sender_computes, "write");
	in_two_processes(sender_computes, "stream");
}

static void data_moves_while_both_compute(void **state)
{
	in_two_processes(both_compute, "auto");
	in_two_processes(both_compute, "stream");
}

static void memory_is_accessed_while_its_owner_computes(void **state)
{
	in_two_processes(target_computes, "auto");
}

static void a_callback_comes_in_a_call(void **state)
{
	in_two_processes(callbacks_wait_for_a_call, "stream");
}

static void signals_forks_and_moves_do_no_harm(void **state)
{
	in_two_processes(disturbed, "auto");
	in_two_processes(disturbed, "stream");
}

/* ---- the lock ---- */

static struct sn_lock lock;
static uint64_t guarded, visits;
static _Atomic bool stop;

static void *visitor(void *arg)
{
	while (!atomic_load(&stop)) {
		if (!sn_lock_visit(&lock)) {
			sched_yield();
			continue;
		}
		visits++;
		guarded++;
		if (visits % 16 == 0) /* lose the core with the lock, so that the owner has to sleep */
			usleep(100);
		sn_unlock_visit(&lock);
	}
	return NULL;
}

#define GUESTS 2

static void *guest(void *arg)
{
	uint64_t *calls = arg;
	for (; !atomic_load(&stop); usleep(20)) { /* or the owner gets no core */
		sn_lock_guest(&lock);
		++*calls;
		guarded++;
		sn_unlock_visit(&lock);
	}
	return NULL;
}

static void an_owner_a_visitor_and_guests_exclude_each_other(void **state)
{
	pthread_t thread, guests[GUESTS];
	uint64_t calls[GUESTS] = {0};
	uint64_t laps = 0, end = sn_now_ns() + 500000000u;
	lock = (struct sn_lock){0};
	sn_lock_share(&lock);
	assert_true(lock.biased != lock.enabled);
	assert_int_equal(pthread_create(&thread, NULL, visitor, NULL), 0);
	for (int i = 0; i < GUESTS; i++)
		assert_int_equal(pthread_create(&guests[i], NULL, guest, &calls[i]), 0);
	for (bool visited = false; sn_now_ns() < end || laps < 1000 || !visited; laps++) {
		sn_lock(&lock);
		guarded++;
		visited = visits > 0; /* a thread that gets no core all that time begins later */
		sn_unlock(&lock);
		if (laps % 64 == 0)
			sched_yield();
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (int i = 0; i < GUESTS; i++) {
		assert_int_equal(pthread_join(guests[i], NULL), 0);
		laps += calls[i];
	}
	assert_int_equal(guarded, laps + visits);
}

/* ---- regions ---- */

#define EACH 40 /* regions of a thread, at most at once */

static sn_ep *shared_ep;
static _Atomic int to_come, at_it;

/* They grow the table, and leave none. */
static void *regions_come_and_go(void *arg)
{
	static char memory[64];
	sn_region *region[EACH];
	uint64_t keys = (uintptr_t)arg * 1000;
	int wrong = 0;
	atomic_fetch_sub(&to_come, 1);
	while (atomic_load(&to_come)) /* not one after the other */
		;
	for (int round = 0; round < 1500; round++) {
		for (uint64_t i = 0; i < EACH; i++)
			wrong |= sn_region_add(shared_ep, memory, sizeof(memory), keys + i, SN_REMOTE_READ,
					       &region[i]);
		for (uint64_t i = 0; i < EACH; i++)
			wrong |= sn_region_free(shared_ep, region[i]);
	}
	atomic_fetch_sub(&at_it, 1);
	return wrong ? arg : NULL;
}

/* As MPICH's windows do, of an endpoint that is one thread's. */
static void regions_come_and_go_in_any_thread(void **state)
{
	pthread_t thread[2];
	const char *const progress[] = {"1", "0"};
	for (int k = 0; k < 2; k++) {
		setenv("SENNIT_PROGRESS", progress[k], 1);
		sn_conf_reload();
		assert_int_equal(sn_ep_open(NULL, &shared_ep), 0);
		atomic_store(&to_come, 2);
		atomic_store(&at_it, 2);
		for (uintptr_t i = 0; i < 2; i++)
			assert_int_equal(
				pthread_create(&thread[i], NULL, regions_come_and_go, (void *)(i + 1)), 0);
		while (atomic_load(&at_it))
			assert_true(sn_progress(shared_ep) >= 0);
		for (int i = 0; i < 2; i++) {
			void *wrong;
			assert_int_equal(pthread_join(thread[i], &wrong), 0);
			assert_null(wrong);
		}
		assert_int_equal(shared_ep->region_count, 0); /* it would miss some if two had met */
		sn_ep_close(shared_ep);
	}
	unsetenv("SENNIT_PROGRESS");
	sn_conf_reload();
}

int main(void)
{
	alarm(170);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	data = malloc(BYTES);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_owner_a_visitor_and_guests_exclude_each_other),
		cmocka_unit_test(regions_come_and_go_in_any_thread),
		cmocka_unit_test(data_moves_while_the_receiver_computes),
		cmocka_unit_test(data_moves_while_the_sender_computes),
		cmocka_unit_test(data_moves_while_both_compute),
		cmocka_unit_test(memory_is_accessed_while_its_owner_computes),
		cmocka_unit_test(a_callback_comes_in_a_call),
		cmocka_unit_test(signals_forks_and_moves_do_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

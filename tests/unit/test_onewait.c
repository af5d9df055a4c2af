/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who sleeps waits for shared memory and sockets in one wait: whichever of the two brings something ends it, every time (each
 * sleep may last 200 s, and the alarm comes before). A peer's ring costs one system call if somebody sleeps and none if
 * nobody does; what a socket brings costs one run of its handler in the service thread, and that rings.
 */
#include "base/base.h"
#include "progress/bell.h"
#include "progress/service.h"
#include "unit.h"
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#define LONG_US 200000000u
#define LAPS	1000

static int sock[2];
static struct sn_bell *bell; /* as a peer sees it */
static _Atomic uint32_t sent, answered, next, handled, faults;
static _Atomic bool slept; /* the waiter, for this lap: its last look before the sleep had found nothing */
static struct sn_watch watch = {.fd = -1};
static struct sn_fork_hook hook;

static void in_child(struct sn_fork_hook *h)
{
}

static void readable(struct sn_watch *w, uint32_t events)
{
	uint32_t lap;
	if (recv(w->fd, &lap, sizeof(lap), MSG_DONTWAIT) != sizeof(lap))
		return; /* the alarm comes */
	atomic_store_explicit(&sent, lap, memory_order_release);
	sn_bell_ring_self();
	atomic_fetch_add(&handled, 1);
}

static void fault_if(bool wrong)
{
	atomic_fetch_add(&faults, wrong);
}

/* Odd laps by shared memory, even ones by the socket. */
static void *peer(void *arg)
{
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		int calls = 1;
		while (!atomic_load(&bell->sleeping))
			sched_yield();
		if (lap % 2) {
			atomic_store_explicit(&sent, lap, memory_order_release);
			calls = sn_bell_ring(bell, true);
		} else {
			fault_if(send(sock[1], &lap, sizeof(lap), 0) != sizeof(lap));
		}
		while (atomic_load(&answered) != lap || atomic_load(&handled) != lap / 2)
			sched_yield();
		fault_if(calls != 1 && (calls || atomic_load(&slept)));
		fault_if(sn_bell_ring(bell, true) != 0);
		atomic_store(&next, lap);
	}
	return NULL;
}

static int arrived(void *arg)
{
	return atomic_load_explicit(&sent, memory_order_acquire) >= *(const uint32_t *)arg;
}

static void one_wait_for_memory_and_sockets(void **state)
{
	pthread_t thread;
	hook.in_child = in_child;
	watch.ready = readable;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	assert_int_equal(sn_service_open(&hook), 0);
	sn_service_lock();
	assert_int_equal(sn_service_watch(&watch, sock[0], 1 /* EPOLLIN */), 0);
	sn_service_unlock();
	bell = sn_bell_map(sn_bell_fd());
	assert_non_null(bell);
	assert_int_equal(pthread_create(&thread, NULL, peer, NULL), 0);
	for (uint32_t lap = 1; lap <= LAPS; lap++) {
		atomic_store(&slept, false);
		while (!arrived(&lap))
			atomic_store(&slept, !sn_bell_wait(arrived, &lap, LONG_US));
		atomic_store(&answered, lap);
		while (atomic_load(&next) != lap)
			sched_yield();
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&faults), 0);
	assert_int_equal(atomic_load(&handled), LAPS / 2);
	sn_service_lock();
	sn_service_unwatch(&watch);
	sn_service_unlock();
	sn_bell_unmap(bell);
	sn_service_close(&hook);
	close(sock[1]);
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_wait_for_memory_and_sockets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

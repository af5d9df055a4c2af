/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a message from another host costs a process that sleeps, in system calls: one process of apart.py, wakes RANK
 * COUNT MOST. Rank 1 receives. First it waits, and sleeps: the service thread hears of the message and rings, and the
 * waiter takes it; so, too, when it has slept for so long that the progress thread is on guard. Then it computes: the
 * progress thread takes the message in its place. The sender is told to send once the other sleeps, or has posted.
 * Counted are a thread's calls from the end of one sleep to the message, or to its next sleep; judged is the lower
 * quartile, since on a busy machine a sleep may just be over by itself when something comes, of half the laps too.
 * MOST is the progress thread's limit: over UDP each look that finds nothing reads two sockets, over Ethernet one,
 * beside a ring that costs no call. At last rank 0, which has been away, asks and waits: it looks by itself, and
 * nothing is to wake a thread for it. And between the two it waits for a second in which nothing comes: the service
 * thread, which has nothing to do, sleeps on.
 */
#include "base/base.h"
#include "counted.h"
#include "peer.h"
#include "progress/caller.h"
#include "progress/relax.h"
#include "shim.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAPS	  41
#define SERVED	  32 /* events that the service thread asks for; who asks for fewer only looks */
#define LEN	  8192
#define LONG	  200 /* ms, after which the progress thread takes one that waits asleep for one that computes */
#define LONG_LAPS 10
#define FEW	  8    /* laps, with fewer of which nothing is judged */
#define AWAY	  5000 /* us */
#define IDLE	  1    /* s */
#define ROUSED                                                                                               \
	40 /* times that the service thread may wake up in it: a timer that goes on would do so 125 times */

static _Thread_local unsigned calls; /* since the thread slept */
static _Thread_local unsigned armed; /* descriptors that it has had watched */
static _Thread_local bool application, asks;
static _Atomic bool announce;	/* the application's next sleep is to be told */
static _Atomic unsigned roused; /* the service thread's sleeps that ended */
static _Atomic unsigned served,
	moved; /* calls of the service thread, and of the progress thread, for their last wake-up */

COUNTED_DRIVER_CALLS(calls, calls)
COUNTED(calls, ssize_t, write, (int fd, const void *at, size_t len), fd, at, len)
COUNTED(calls, int, getrusage, (__rusage_who_t who, struct rusage *u), who, u)
COUNTED(calls, int, sched_yield, (void), )

int __real_epoll_ctl(int fd, int op, int of, struct epoll_event *e);
int __wrap_epoll_ctl(int fd, int op, int of, struct epoll_event *e);
int __wrap_epoll_ctl(int fd, int op, int of, struct epoll_event *e)
{
	calls++;
	armed += op == EPOLL_CTL_ADD;
	return __real_epoll_ctl(fd, op, of, e);
}

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	calls += clock != CLOCK_MONOTONIC; /* that one needs no call */
	return __real_clock_gettime(clock, t);
}

int __real_epoll_wait(int fd, struct epoll_event *e, int most, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *e, int most, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *e, int most, int timeout)
{
	calls++;
	if (most < SERVED)
		return __real_epoll_wait(fd, e, most, timeout);
	if (calls > 1)
		atomic_store(&served, calls);
	int n = __real_epoll_wait(fd, e, most, timeout);
	atomic_fetch_add(&roused, 1);
	calls = 0;
	return n;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	calls++;
	bool sleeps = number == SYS_futex && (int)a[1] == FUTEX_WAIT;
	if (sleeps && application && atomic_exchange(&announce, false) &&
	    __real_write(1, "INFO ready\n", 11) < 0)
		abort();
	if (sleeps && !application && calls > 1)
		atomic_store(&moved, calls);
	long rc = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (sleeps)
		calls = 0;
	return rc;
}

static int by_size(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
	return x < y ? -1 : x > y;
}

static void at_most(const char *what, unsigned *of_lap, unsigned most)
{
	qsort(of_lap, LAPS, sizeof(*of_lap), by_size);
	printf("INFO %s: %u calls (%u to %u), at most %u\n", what, of_lap[LAPS / 4], of_lap[0],
	       of_lap[LAPS - 1], most);
	if (of_lap[LAPS / 4] > most)
		die(what, 0);
}

static void ended(sn_req *req)
{
	sn_completion c = {0};
	int rc = sn_wait(ep, req, &c, 60000000);
	if (rc || c.status)
		die("completion", rc ? rc : c.status);
}

static uint8_t data[LEN];
static unsigned waiter[LAPS], ringer[LAPS], service[LAPS], progress[LAPS], asker[LAPS + 1];

static sn_req *receive(sn_peer from, size_t len)
{
	sn_req *req;
	if (sn_irecv(ep, from, data, len, 1, UINT64_MAX, &req))
		die("a receive", 0);
	return req;
}

static void send_laps(sn_peer to, size_t len, int laps, unsigned after_ms)
{
	char line[16];
	sn_req *req;
	for (int lap = 0; lap < laps; lap++) {
		if (!fgets(line, sizeof(line), stdin))
			exit(1);
		usleep(after_ms * 1000);
		data[len - 1] = (uint8_t)(lap + 1);
		if (sn_isend(ep, to, data, len, 1, &req))
			die("a send", 0);
		ended(req);
	}
}

static void by_name(void *arg, const char *name, uint64_t value)
{
	if (!strcmp(name, "progress.wakes"))
		*(uint64_t *)arg = value;
}

static uint64_t thread_wakes(void)
{
	uint64_t wakes = 0;
	sn_counters(ep, by_name, &wakes);
	return wakes;
}

/* How often the progress thread was woken meanwhile. */
static unsigned wait_laps(sn_peer from, int laps)
{
	uint64_t before = thread_wakes();
	for (int lap = 0; lap < laps; lap++) {
		sn_req *req = receive(from, 8);
		atomic_store(&announce, true);
		ended(req);
		waiter[lap] = calls;
		ringer[lap] = atomic_load(&served);
	}
	return (unsigned)(thread_wakes() - before);
}

static void idle(sn_peer from)
{
	sn_req *req = receive(from, 8);
	printf("INFO ready\n");
	fflush(stdout);
	unsigned before = atomic_load(&roused);
	ended(req);
	unsigned times = atomic_load(&roused) - before;
	printf("INFO the service thread woke up %u times in %d s, at most %d\n", times, IDLE, ROUSED);
	if (times > ROUSED)
		die("the service thread, with nothing to do", 0);
}

/* What libsennit-mpi.so would say of the application, whose calls wait. */
static struct sn_shim_thread *calling(void)
{
	static struct sn_shim_thread waits = {.kind = SN_SHIM_WAITS}, none;
	return asks ? &waits : &none;
}

__attribute__((visibility("default"))) struct sn_shim *sennit_mpi_shim(void)
{
	static struct sn_shim shim = {.version = SN_SHIM_VERSION, .thread = calling};
	return &shim;
}

/* Where the answer comes late the descriptors are rightly watched: judged are the laps in which it came soon. */
static void ask_laps(sn_peer of)
{
	unsigned soon = 0;
	asks = true;
	if (!sn_caller_waits())
		die("it is not known that the application waits", 0);
	for (int lap = 0; lap < LAPS; lap++) {
		sn_req *req, *answer = receive(of, 8);
		usleep(AWAY);
		unsigned before = armed;
		uint64_t start = sn_now_ns();
		if (sn_isend(ep, of, data + 8, 8, 1, &req))
			die("a question", 0);
		ended(req);
		ended(answer);
		if (sn_now_ns() - start < SN_RELAX_FAR_ARM)
			asker[soon++] = armed - before;
	}
	qsort(asker, soon, sizeof(*asker), by_size);
	printf("INFO the asker was answered soon %u times, and had %u descriptors watched then, at most 0\n",
	       soon, asker[soon / 2]);
	if (soon >= FEW && asker[soon / 2] > 0)
		die("descriptors are watched for one who has just begun to wait", 0);
}

static void answer_laps(sn_peer to)
{
	for (int lap = 0; lap < LAPS; lap++) {
		sn_completion c;
		sn_req *req = receive(to, 8);
		int rc;
		while ((rc = sn_test(ep, req, &c)) == SN_ERR_AGAIN)
			;
		if (rc || sn_isend(ep, to, data + 8, 8, 1, &req))
			die("an answer", rc);
		ended(req);
	}
}

static void compute_laps(sn_peer from)
{
	for (int lap = 0; lap < LAPS; lap++) {
		sn_req *req = receive(from, LEN);
		printf("INFO ready\n");
		fflush(stdout);
		while (*(volatile uint8_t *)&data[LEN - 1] != lap + 1)
			;
		uint64_t until = sn_now_ns() + 2000000; /* it goes to sleep again */
		while (sn_now_ns() < until)
			;
		service[lap] = atomic_load(&served);
		progress[lap] = atomic_load(&moved);
		ended(req);
	}
}

int main(int argc, char **argv)
{
	sn_peer peers[2];
	if (argc < 4)
		return 2;
	rank = (unsigned)atoi(argv[1]);
	application = true;
	open_endpoint();
	say_address();
	for (int i = 0; i < 2; i++)
		peers[i] = read_peer();
	if (rank == 0) {
		send_laps(peers[1], 8, LONG_LAPS, LONG);
		send_laps(peers[1], 8, LAPS, 0);
		send_laps(peers[1], 8, 1, 1000 * IDLE);
		send_laps(peers[1], LEN, LAPS, 0);
		ask_laps(peers[1]);
	} else {
		unsigned wakes = wait_laps(peers[0], LONG_LAPS);
		wait_laps(peers[0], LAPS);
		idle(peers[0]);
		compute_laps(peers[0]);
		answer_laps(peers[0]);
		printf("INFO the progress thread was woken %u times beside one that sleeps, at most %d\n",
		       wakes, LONG_LAPS / 2);
		if (wakes > LONG_LAPS / 2)
			die("the progress thread, beside one that sleeps", 0);
		at_most("the waiter, woken", waiter, 3);
		at_most("the service thread, for one that sleeps", ringer, 6);
		at_most("the service thread, for one that computes", service, 6);
		at_most("the progress thread", progress, (unsigned)atoi(argv[3]));
	}
	printf("OK\n");
	close_when_told();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread stays awake for a while after it has been of use, gives way to others, and keeps within its budget:
 * seen in its counters, in a process that stays away from the library while another one reads its memory.
 */
#include "base/base.h"
#include "progress/live.h"
#include "two.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define BYTES	   64
#define MANY_BYTES ((size_t)4 << 20)
#define PATIENT	   60000000 /* us */

struct shared {
	struct meeting meeting;
	_Atomic int added, enough, over;
	_Atomic pid_t waiter; /* who is about to wait */
};
static struct shared *sh;
static uint8_t data[MANY_BYTES], got[MANY_BYTES];
static size_t bytes; /* of each read */

static void read_until_enough(void)
{
	struct iovec v = {got, bytes};
	sn_msg m = {.peer = peer, .iov = &v, .iov_count = 1};
	sn_remote at = {7, 0};
	while (!atomic_load(&sh->added))
		usleep(100);
	while (!atomic_load(&sh->enough)) {
		sn_req *req;
		memset(got, 0, bytes);
		CHECK(sn_get(ep, &m, &at, &req) == 0 && sn_wait(ep, req, NULL, PATIENT) == 0);
		CHECK(got[0] == 0x5a && got[bytes - 1] == 0x5a);
	}
	atomic_store(&sh->over, 1);
}

static void stay_away(bool (*enough)(void))
{
	sn_region *region = NULL;
	memset(data, 0x5a, sizeof(data));
	CHECK(sn_region_add(ep, data, sizeof(data), 7, SN_REMOTE_READ, &region) == 0);
	atomic_store(&sh->added, 1);
	do {
		usleep(1000);
	} while (!enough()); /* not enough: the alarm ends the test */
	atomic_store(&sh->enough, 1);
	while (!atomic_load(&sh->over))
		usleep(1000);
}

/*
 * Who waits sleeps: in the half second after the first 50 us naps grow by a quarter each time, which makes about 40,
 * and the threads behind wake a few dozen times. Each is a sleep, and two system calls (futex, membarrier). The half
 * second begins when he has slept for the first time: he may be without a core for longer, and then there would be
 * nothing to wait for.
 */
#define AWAY_MS	   500
#define SLEEPS_MAX 200

static long sleeps(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_nvcsw;
}

/* How often the first thread of a process has slept. */
static unsigned long sleeps_of(pid_t pid)
{
	char path[64], line[128];
	unsigned long n = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "re");
	CHECK(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "voluntary_ctxt_switches: %lu", &n) != 1)
		;
	fclose(f);
	return n;
}

static void until_he_sleeps(void)
{
	while (!atomic_load(&sh->waiter))
		usleep(1000);
	for (unsigned long before = sleeps_of(sh->waiter); sleeps_of(sh->waiter) == before;)
		usleep(1000);
}

static void wait_for_one_who_is_away(void)
{
	sn_req *req;
	sn_completion c;
	char x = 0;
	if (me) {
		until_he_sleeps();
		usleep(AWAY_MS * 1000);
		CHECK(sn_isend(ep, peer, &x, 1, 1, &req) == 0 && sn_wait(ep, req, &c, PATIENT) == 0);
		while (!atomic_load(&sh->over))
			usleep(1000);
		return;
	}
	CHECK(sn_irecv(ep, SN_ANY_PEER, &x, 1, 1, UINT64_MAX, &req) == 0);
	long before = sleeps();
	uint64_t start = sn_now_ns();
	atomic_store(&sh->waiter, getpid());
	CHECK(sn_wait(ep, req, &c, PATIENT) == 0 && c.status == 0);
	uint64_t halves =
		1 + (sn_now_ns() - start) / (AWAY_MS * 1000000u); /* a busy machine makes it longer */
	CHECK(sleeps() > before && sleeps() - before < SLEEPS_MAX * (long)halves);
	atomic_store(&sh->over, 1);
}

static void two_processes(bool (*enough)(void))
{
	pid_t pid[2];
	memset(sh, 0, sizeof(*sh));
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		me = i;
		meet_other(&sh->meeting, 100);
		if (!enough)
			wait_for_one_who_is_away();
		else if (me)
			stay_away(enough);
		else
			read_until_enough();
		sn_ep_close(ep);
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		int status;
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
}

static bool gave(void)
{
	return counter("progress.gave_way") > 0;
}

/* With an idle core somebody rings it while it polls; without one it finds that its core is wanted. */
static bool polled(void)
{
	return counter("progress.wakes_spared") > 0 || gave();
}

static void it_polls_after_it_was_of_use(void **state)
{
	bytes = BYTES;
	setenv("SENNIT_POLL", "2000", 1);
	two_processes(polled);
}

static bool only_woken(void)
{
	CHECK(!polled());
	return counter("progress.wakes") >= 20;
}

static void with_poll_0_it_sleeps_at_once(void **state)
{
	setenv("SENNIT_POLL", "0", 1);
	two_processes(only_woken);
}

/* Does the line that others see of this process's progress thread say so? (`sennit top`, `sennit info --peer`) */
static bool is_shown(const char *words)
{
	const struct sn_live_table *t = sn_live_map(getpid());
	struct sn_live_row row;
	bool found = false;
	CHECK(t);
	for (uint32_t i = 0; i < SN_LIVE_ROWS && !found; i++)
		found = sn_live_read(t, i, &row) && !strcmp(row.name, "progress thread") &&
			strstr(row.text, words);
	sn_live_unmap(t);
	return found;
}

static bool held(void)
{
	return counter("progress.held_back") > 0 && is_shown(" % of a core lately (of 1 %)");
}

/*
 * And says what it uses, and of how much. Each read is a copy that takes the thread about as long as it may use in a
 * tenth of a second, however busy the cores are.
 */
static void it_keeps_within_its_budget(void **state)
{
	bytes = MANY_BYTES;
	setenv("SENNIT_POLL", "100000", 1);
	setenv("SENNIT_PROGRESS", "1", 1);
	setenv("SENNIT_COPY", "stream", 1);
	two_processes(held);
	unsetenv("SENNIT_COPY");
	unsetenv("SENNIT_PROGRESS");
	bytes = BYTES;
}

/*
 * Every core has somebody who computes: processes, as a process with threads must not fork (the sanitizers'
 * allocators hang).
 */
static void it_gives_way(void **state)
{
	pid_t hog[64], parent = getpid();
	int cores = sn_topo()->cpus, count = 2 * cores > 64 ? 64 : 2 * cores;
	if (cores > 32) {
		print_message("more than 32 cores: too many processes to keep all of them busy\n");
		skip();
	}
	setenv("SENNIT_POLL", "100000", 1);
	fflush(NULL);
	for (int i = 0; i < count; i++) {
		hog[i] = fork();
		if (hog[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			;
		_exit(0);
	}
	two_processes(gave);
	for (int i = 0; i < count; i++) {
		kill(hog[i], SIGKILL);
		assert_int_equal(waitpid(hog[i], NULL, 0), hog[i]);
	}
}

static void who_waits_sleeps_seldom_and_long(void **state)
{
	two_processes(NULL);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	fprintf(stderr, "the thread sanitizer cannot follow threads of forked processes\n");
	return 77;
#endif
	alarm(170);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_polls_after_it_was_of_use),
		cmocka_unit_test(with_poll_0_it_sleeps_at_once),
		cmocka_unit_test(it_keeps_within_its_budget),
		cmocka_unit_test(it_gives_way),
		cmocka_unit_test(who_waits_sleeps_seldom_and_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

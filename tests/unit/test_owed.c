/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Something long is announced to one who computes. Where every core has a process his thread is not woken before the sender
 * has nothing else to do; where there are more of them, or cores to spare, it is at once.
 */
#include "base/base.h"
#include "pattern.h"
#include "progress/bell.h"
#include "sennit/sennit.h"
#include "unit.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "two.h"

#define BYTES (1u << 20)

static struct shared {
	struct meeting meeting;
	_Atomic int posted, guarded, announced, over;
} * sh;
static bool later;
static uint8_t data[2][BYTES], never_comes[BYTES];

static void exchange(void)
{
	sn_req *r, *s;
	char x = 0;
	CHECK(sn_irecv(ep, peer, &x, 1, 9, UINT64_MAX, &r) == 0);
	CHECK(sn_isend(ep, peer, &x, 1, 9, &s) == 0);
	CHECK(sn_wait(ep, s, NULL, 10000000) == 0 && sn_wait(ep, r, NULL, 10000000) == 0);
}

/* Has posted one receive that never matches, and computes. */
static void away(void)
{
	sn_req *never, *r;
	sn_region *region = NULL;
	CHECK(sn_region_add(ep, data[0], BYTES, 7, SN_REMOTE_WRITE, &region) == 0);
	exchange();
	CHECK(sn_irecv(ep, peer, never_comes, BYTES, 1, UINT64_MAX, &never) == 0);
	atomic_store(&sh->posted, 1);
	while (!atomic_load(&sh->announced)) {
		usleep(1000);
		if (sn_bell_guarded())
			atomic_store(&sh->guarded, 1);
	}
	CHECK(sn_irecv(ep, peer, data[1], BYTES, 2, UINT64_MAX, &r) == 0);
	CHECK(sn_wait(ep, r, NULL, 10000000) == 0);
	CHECK(pattern_holds(data[1], BYTES, 2));
	atomic_store(&sh->over, 1);
	CHECK(sn_cancel(ep, never) == 0);
	sn_wait(ep, never, NULL, 10000000);
}

/* Until his thread sleeps, and is to be woken. */
static void until_guarded(void)
{
	atomic_store(&sh->guarded, 0);
	while (!atomic_load(&sh->guarded))
		usleep(1000);
	usleep(20000);
}

/* What nobody else does there wakes his thread at once. */
static void puts_into(void)
{
	struct iovec v = {data[0], BYTES};
	sn_msg put = {.peer = peer, .iov = &v, .iov_count = 1};
	sn_remote to = {7, 0};
	sn_req *p;
	uint64_t before = counter("local.rings");
	CHECK(sn_put(ep, &put, &to, &p) == 0);
	CHECK(counter("local.rings") - before == 1);
	CHECK(sn_wait(ep, p, NULL, 10000000) == 0);
}

static void announces(void)
{
	sn_req *s;
	pattern_fill(data[1], BYTES, 2);
	exchange();
	while (!atomic_load(&sh->posted))
		usleep(1000);
	until_guarded();
	puts_into();
	until_guarded();
	uint64_t before = counter("local.rings");
	CHECK(sn_isend(ep, peer, data[1], BYTES, 2, &s) == 0);
	usleep(20000); /* this one computes, too */
	CHECK(counter("local.rings") - before == !later);
	CHECK(sn_wait(ep, s, NULL, 200000) == SN_ERR_TIMEOUT);
	CHECK(counter("local.rings") - before == 1);
	atomic_store(&sh->announced, 1);
	CHECK(sn_wait(ep, s, NULL, 10000000) == 0);
	while (!atomic_load(&sh->over))
		sn_progress(ep);
}

static void both(void)
{
	meet_other(&sh->meeting, 40);
	if (me)
		away();
	else
		announces();
}

/* As if the launcher had started so many more than there are cores. */
static void with_more(int more)
{
	char size[16];
	cpu_set_t set;
	memset(&set, 0xff, sizeof(set)); /* as the thread's */
	sched_setaffinity(0, sizeof(set), &set);
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	if (CPU_COUNT(&set) + more < 2) {
		print_message("one core: two processes are more than that\n");
		skip();
	}
	snprintf(size, sizeof(size), "%d", CPU_COUNT(&set) + more);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", size, 1);
	later = !more;
	sh = shared_new(sizeof(*sh));
	run_both(both);
}

static void where_every_core_has_a_process_who_computes_is_woken_later(void **state)
{
	with_more(0);
}

static void where_there_are_more_he_is_woken_at_once(void **state)
{
	with_more(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_every_core_has_a_process_who_computes_is_woken_later),
		cmocka_unit_test(where_there_are_more_he_is_woken_at_once),
	};
	setenv("SENNIT_NET", "off", 1);
	setenv("SENNIT_POLL", "0", 1); /* to tell who polls takes no system call, which is what is counted */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

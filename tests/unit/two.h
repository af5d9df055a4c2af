/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two forked processes of one test, 0 and 1, each with an endpoint that knows the other's. What they share is the test's
 * own memory, with a struct meeting in it.
 */
#ifndef SN_TESTS_TWO_H
#define SN_TESTS_TWO_H

#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>

struct meeting {
	uint8_t addr[2][SN_ADDR_MAX];
	size_t len[2];
	_Atomic int ready;
};

static int me;
static sn_ep *ep;
static sn_peer peer;

/* Zeroed memory that children share. */
static inline void *shared_new(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	return at;
}

/* Both call this; the process has so many seconds to live from here on. */
static void meet_other(struct meeting *m, unsigned seconds)
{
	alarm(seconds);
	CHECK(sn_ep_open(NULL, &ep) == 0);
	m->len[me] = SN_ADDR_MAX;
	CHECK(sn_ep_address(ep, m->addr[me], &m->len[me]) == 0);
	m->ready++;
	while (m->ready < 2)
		usleep(100);
	CHECK(sn_peer_add(ep, m->addr[!me], m->len[!me], &peer) == 0);
}

/* The test itself: both play their part, close their endpoint, and must have found nothing. */
static inline void run_both(void (*part)(void))
{
	fflush(NULL);
	for (int i = 0; i < 2; i++)
		if (fork() == 0) {
			me = i;
			part();
			sn_ep_close(ep);
			_exit(0);
		}
	for (int i = 0; i < 2; i++) {
		int status;
		wait(&status);
		assert_int_equal(status, 0);
	}
}

struct counter_wanted {
	const char *name;
	uint64_t value;
};

static inline void counter_take(void *arg, const char *name, uint64_t value)
{
	struct counter_wanted *w = arg;
	if (!strcmp(name, w->name))
		w->value = value;
}

/* A counter of this process; 0 if there is none of this name. */
static inline uint64_t counter(const char *name)
{
	struct counter_wanted w = {.name = name};
	CHECK(sn_counters(ep, counter_take, &w) == 0);
	return w.value;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The budget of large messages on one node, by the rail's own counts over both processes: how often each byte is copied,
 * and how many system calls a message takes, for each way, and in both orders of arrival. Those that wake a peer that sleeps
 * are not counted, for whether it does is the machine's to say; but the progress thread is not to be woken where nothing is
 * under way. The program runs itself again with the shareable heap in
 * front of it, where there is one.
 */
#include "base/conf.h"
#include "copy/cma.h"
#include "local/job.h"
#include "own_heap.h"
#include "progress/bell.h"
#include "progress/engine.h"
#include "two.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define LARGEST	    ((size_t)5 << 20)
#define MESSAGES    3
#define GUARD_TRIES 50

struct sums {
	uint64_t copied, mapped, calls;
};

struct shared {
	struct meeting meeting;
	_Atomic int step[2];
	_Atomic bool refused;
	unsigned known; /* tries that told something */
	struct sums sums[2];
};

static struct shared *sh;
static uint8_t *buf;
static const size_t lengths[] = {300000, 1 << 20, LARGEST};

struct way {
	const char *setting;
	bool heap;
	uint64_t copies;	       /* of each byte */
	uint64_t (*calls)(size_t len); /* at most, for one message */
};
static const struct way *way;

/* One for each 4 MiB, and as many that ask whether the peer is still who it was: what is known of that holds 1 ms. */
static uint64_t by_one(size_t len)
{
	return 2 * ((len + SN_CMA_SLICE - 1) / SN_CMA_SLICE);
}

/* Claims halve what is left, whoever makes them. */
static uint64_t by_both(size_t len)
{
	uint32_t left = sn_job_total(len), claims = 0, take;
	for (; left; left -= take, claims++)
		take = SN_MIN_OF(left, SN_MIN_OF(SN_MAX_OF(left / 2, SN_JOB_LEAST), SN_JOB_MOST));
	return 2 * claims;
}

static uint64_t by_none(size_t len)
{
	return 0;
}

static void add(void *arg, const char *name, uint64_t value)
{
	struct sums *s = arg;
	if (!strncmp(name, "local.copy_", 11))
		s->copied += value;
	if (!strcmp(name, "local.copy_mapped_bytes"))
		s->mapped += value;
	if (!strcmp(name, "local.system_calls"))
		s->calls += value;
	if (!strcmp(name, "local.rings"))
		s->calls -= value;
	if (!strncmp(name, "local.refused_", 14) && value)
		sh->refused = true;
}

static void sum(void)
{
	sh->sums[me] = (struct sums){0};
	CHECK(sn_counters(ep, add, &sh->sums[me]) == 0);
}

static void meet(void)
{
	static int n;
	sh->step[me] = ++n;
	while (sh->step[!me] < n)
		sn_progress(ep);
}

/* From process 1 to process 0. */
static void message(size_t len, bool receive_first)
{
	sn_req *req;
	sn_completion c;
	if (receive_first != (me == 0))
		meet();
	CHECK((me ? sn_isend(ep, peer, buf, len, 5, &req)
		  : sn_irecv(ep, peer, buf, len, 5, UINT64_MAX, &req)) == 0);
	if (receive_first == (me == 0))
		meet();
	CHECK(sn_wait(ep, req, &c, 40000000) == 0 && c.status == 0);
	meet();
}

static struct sums both(void)
{
	sum();
	meet();
	struct sums a = sh->sums[0], b = sh->sums[1];
	meet();
	return (struct sums){a.copied + b.copied, a.mapped + b.mapped, a.calls + b.calls};
}

static void messages(size_t len, bool receive_first)
{
	struct sums before = both();
	for (int i = 0; i < MESSAGES; i++)
		message(len, receive_first);
	struct sums after = both();
	uint64_t copied = after.copied - before.copied, calls = after.calls - before.calls;
	if (sh->refused) { /* nothing to hold: the kernel does not copy here */
		CHECK(!way->heap);
		return;
	}
	if (copied != MESSAGES * len * way->copies || calls > MESSAGES * way->calls(len)) {
		fprintf(stderr, "%s%s, %zu bytes: %llu bytes copied, %llu system calls of at most %llu\n",
			way->setting, way->heap ? ", heap" : "", len, (unsigned long long)copied,
			(unsigned long long)calls, (unsigned long long)(MESSAGES * way->calls(len)));
		_exit(1);
	}
	CHECK(after.mapped - before.mapped == (way->heap ? copied : 0));
}

static void side(void)
{
	setenv("SENNIT_COPY", way->setting, 1);
	sn_conf_reload();
	meet_other(&sh->meeting, 150);
	buf = way->heap ? malloc(LARGEST)
			: mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(buf && buf != MAP_FAILED);
	memset(buf, me, LARGEST);
	message(1, true); /* they know each other then */
	message(100000, true);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (int first = 0; first < 2; first++)
			messages(lengths[i], first);
}

static void hold(const struct way *w)
{
	way = w;
	sh = shared_new(sizeof(*sh));
	run_both(side);
	bool refused = sh->refused;
	munmap(sh, sizeof(*sh));
	if (!refused)
		return;
	print_message("the kernel refuses single copy here: its budget was not held against anything\n");
	skip();
}

/*
 * Process 1 sends to a receive that stands on the board, so that the message is gone when the call returns. Did the call
 * leave the guard up? The progress thread takes it up as well, once it finds that nobody has called for a while, and
 * then only it lowers it: such a try tells nothing, nor does one in which the message was announced, since the one before
 * was not taken from the ring yet. Returns false for these.
 */
static bool tells(size_t len, bool *up)
{
	sn_req *req;
	sn_completion c;
	bool known = true;
	if (!me) {
		CHECK(sn_irecv(ep, peer, buf, len, 5, UINT64_MAX, &req) == 0);
		meet();
	} else {
		meet();
		sn_engine_stay();
		bool before = sn_bell_guarded();
		uint64_t claims = counter("local.claims");
		CHECK(sn_isend(ep, peer, buf, len, 5, &req) == 0);
		*up = sn_bell_guarded();
		sn_engine_stay();
		known = !before && !sn_bell_guarded() && counter("local.claims") > claims;
	}
	CHECK(sn_wait(ep, req, &c, 40000000) == 0 && c.status == 0);
	return known;
}

static void send_and_look(void)
{
	unsigned left_up = 0;
	setenv("SENNIT_COPY", "write", 1);
	sn_conf_reload();
	meet_other(&sh->meeting, 150);
	CHECK((buf = malloc(LARGEST)));
	memset(buf, me, LARGEST);
	message(1, true);
	for (int i = 0; i < GUARD_TRIES; i++) {
		bool up = false;
		if (tells(100000, &up)) {
			left_up += up;
			if (me)
				sh->known++;
		}
		meet();
	}
	if (!me || !left_up)
		return;
	fprintf(stderr, "the guard was up after %u of %u messages that had gone\n", left_up, sh->known);
	_exit(1);
}

/* Else each announcement to this process would wake its progress thread, until somebody waits: 12 us for 7 of copying. */
static void what_has_gone_needs_no_guard(void **state)
{
	sh = shared_new(sizeof(*sh));
	run_both(send_and_look);
	unsigned known = sh->known;
	munmap(sh, sizeof(*sh));
	if (known)
		return;
	print_message(
		"the progress thread was in the way in all %d tries, or the receives stood on no board\n",
		GUARD_TRIES);
	skip();
}

static void the_kernel_copies_each_byte_once(void **state)
{
	static const struct way ways[] = {
		{"read", false, 1, by_one}, {"write", false, 1, by_one}, {"shared", false, 1, by_both}};
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		hold(&ways[i]);
}

static void a_stream_copies_twice_and_calls_nobody(void **state)
{
	static const struct way stream = {"stream", false, 2, by_none};
	hold(&stream);
}

static void through_the_heap_once_and_without_the_kernel(void **state)
{
	static const struct way ways[] = {{"auto", true, 1, by_none}, {"shared", true, 1, by_none}};
	void *block = malloc(LARGEST);
	bool serves = ours(block, LARGEST);
	free(block);
	if (!serves) {
		print_message("the heap leaves itself or long blocks out here, or this build has none\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		hold(&ways[i]);
}

int main(int argc, char **argv)
{
	unit_preloaded("SENNIT_HEAP_LIB", argv); /* without it one case skips itself */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_copies_each_byte_once),
		cmocka_unit_test(what_has_gone_needs_no_guard),
		cmocka_unit_test(a_stream_copies_twice_and_calls_nobody),
		cmocka_unit_test(through_the_heap_once_and_without_the_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

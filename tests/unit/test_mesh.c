/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large messages to and from several peers without a pause are fetched by who receives them: not those of one peer,
 * nor where the program does something else in between, nor in a crowd. Three processes, of which the first has a
 * core of its own and the others share one. The program runs itself again with the shareable heap in front of it.
 */
#include "check.h"
#include "copy/heap.h"
#include "local/mesh.h"
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LEN	20000u	   /* longer than what goes in one piece */
#define CLAIMED 300000u	   /* never through the ring */
#define LONG	(8u << 20) /* its copies take as long as what others compute */
#define ROUNDS	200
#define TRIES	100
#define SECOND	1000000000u

static struct {
	uint8_t addr[3][SN_ADDR_MAX];
	size_t len[3];
	_Atomic unsigned ready;
	_Atomic bool meshed;
	_Atomic int step;
} * sh;
static unsigned me, len = LEN;
static sn_ep *ep;
static sn_peer peer[3];
static uint8_t *out[3], *in[3];

static void a_mesh_has_several_peers(void **state)
{
	static const char a, b;
	struct sn_mesh m = {0};
	for (unsigned i = 0; i < SN_MESH_BURST; i++)
		assert_false(sn_mesh_see(&m, i & 1 ? &a : &b, SECOND));
	for (unsigned i = 0; i < 300; i++)
		assert_true(sn_mesh_see(&m, i & 1 ? &a : &b, SECOND));
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(sn_mesh_see(&m, &a, SECOND), i + 1 < SN_MESH_SAME);
	assert_true(sn_mesh_see(&m, &b, SECOND)); /* and they go on */
}

static void a_pause_ends_it(void **state)
{
	static const char a, b;
	struct sn_mesh m = {0};
	for (unsigned i = 0; i <= SN_MESH_BURST; i++)
		sn_mesh_see(&m, i & 1 ? &a : &b, SECOND);
	assert_true(sn_mesh_is(&m));
	usleep(100);
	assert_false(sn_mesh_see(&m, &a, 1000));
	for (unsigned i = 0; i + 1 < SN_MESH_BURST; i++)
		assert_false(sn_mesh_see(&m, i & 1 ? &a : &b, SECOND));
	assert_true(sn_mesh_see(&m, &a, SECOND));
}

static void take(void *arg, const char *name, uint64_t value)
{
	if (!strcmp(name, "local.meshed"))
		*(uint64_t *)arg = value;
}

static uint64_t meshed(void)
{
	uint64_t n = 0;
	CHECK(sn_counters(ep, take, &n) == 0);
	return n;
}

static void fill(uint8_t *at, unsigned seed)
{
	for (unsigned i = 0; i < len; i++)
		at[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
}

static bool holds(const uint8_t *at, unsigned seed)
{
	for (unsigned i = 0; i < len; i++)
		if (at[i] != (uint8_t)(i * 7 + (i >> 8) + seed))
			return false;
	return true;
}

/* One message each way between the first process and each of these (bits). */
static void round_with(unsigned others, unsigned round)
{
	sn_req *req[4];
	sn_completion c;
	unsigned n = 0;
	for (unsigned i = 0; i < 3; i++)
		if ((others >> i & 1) && (me == 0 || i == me))
			CHECK(sn_irecv(ep, peer[me ? 0 : i], in[i], len, round, UINT64_MAX, &req[n++]) == 0);
	for (unsigned i = 0; i < 3; i++)
		if ((others >> i & 1) && (me == 0 || i == me)) {
			fill(out[i], round + me * 3 + i);
			CHECK(sn_isend(ep, peer[me ? 0 : i], out[i], len, round, &req[n++]) == 0);
		}
	for (unsigned i = 0; i < n; i++)
		CHECK(sn_wait(ep, req[i], &c, 40000000) == 0 && c.status == 0);
	for (unsigned i = 0; i < 3; i++)
		if ((others >> i & 1) && (me == 0 || i == me))
			CHECK(holds(in[i], round + (me ? 0 : i) * 3 + i));
}

/* How many messages of these rounds were some of a mesh. */
static uint64_t rounds(unsigned others, unsigned pause_us, unsigned many)
{
	static unsigned number;
	uint64_t before = meshed();
	for (unsigned i = 0; i < many; i++) {
		round_with(others, number++);
		if (pause_us)
			usleep(pause_us);
	}
	return meshed() - before;
}

/*
 * The first process has posted its receive, and then computes: it is there without a call of its own, however much
 * went to and fro just before.
 */
static void then_who_computes_is_written_to(void)
{
	const unsigned bits = 2000000;
	sn_req *req;
	sn_completion c;
	if (me == 0) {
		memset(in[1], 0, len);
		CHECK(sn_irecv(ep, peer[1], in[1], len, bits, UINT64_MAX, &req) == 0);
		sh->step = 1;
		while (sh->step < 2)
			usleep(20);
		CHECK(holds(in[1], 3)); /* before any further call */
	} else if (me == 1) {
		fill(out[0], 3);
		while (sh->step < 1)
			usleep(20);
		usleep(3000);
		CHECK(sn_isend(ep, peer[0], out[0], len, bits, &req) == 0);
		CHECK(sn_wait(ep, req, &c, 5000000) == 0 && c.status == 0);
		sh->step = 2;
	}
	if (me == 0)
		CHECK(sn_wait(ep, req, &c, 40000000) == 0 && c.status == 0);
	round_with(6, bits + 1);
}

static void bind_to(unsigned nth)
{
	cpu_set_t all, one;
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	for (unsigned i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && !nth--) {
			CPU_ZERO(&one);
			CPU_SET(i, &one);
			CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
			return;
		}
}

static void one_of_three(void)
{
	alarm(150);
	bind_to(me != 0);
	CHECK(sn_ep_open(NULL, &ep) == 0);
	sh->len[me] = SN_ADDR_MAX;
	CHECK(sn_ep_address(ep, sh->addr[me], &sh->len[me]) == 0);
	sh->ready++;
	while (sh->ready < 3)
		usleep(100);
	for (unsigned i = 0; i < 3; i++) {
		CHECK((out[i] = malloc(LONG)) && (in[i] = malloc(LONG)));
		if (i != me)
			CHECK(sn_peer_add(ep, sh->addr[i], sh->len[i], &peer[i]) == 0);
	}
	round_with(6, 1000000);
	/* A core that others take is a pause, so not each time it is seen. */
	for (unsigned i = 0; i < TRIES && !sh->meshed; i++) {
		uint64_t seen = rounds(6, 0, ROUNDS);
		CHECK(seen <= (me ? 0 : 4 * ROUNDS)); /* each once */
		if (seen)
			sh->meshed = true;
		round_with(6, 1000001 + i); /* all have looked whether it was, or none has */
	}
	CHECK(sh->meshed);
	len = CLAIMED;
	then_who_computes_is_written_to();
	len = LONG;
	CHECK(rounds(6, 2000, 12) == 0);
	len = LEN;
	CHECK(rounds(6, 2000, 30) <= SN_MESH_BURST);
	if (me < 2)
		CHECK(rounds(2, 0, ROUNDS) <= 2 * SN_MESH_SAME);
}

static void who_receives_fetches_it(void **state)
{
	struct sn_heap_info own;
	cpu_set_t all;
	if (!sn_heap_own(&own) || sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2) {
		print_message("no shareable heap here, or not two cores\n");
		skip();
	}
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(sh != MAP_FAILED);
	setenv("SENNIT_PROGRESS", "0", 1); /* nobody fetches for who computes */
	fflush(NULL);
	for (me = 0; me < 3; me++)
		if (fork() == 0) {
			one_of_three();
			sn_ep_close(ep);
			_exit(0);
		}
	for (unsigned i = 0; i < 3; i++) {
		int status;
		wait(&status);
		assert_int_equal(status, 0);
	}
	munmap(sh, sizeof(*sh));
}

int main(int argc, char **argv)
{
	unit_preloaded("SENNIT_HEAP_LIB", argv); /* without it one case skips itself */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mesh_has_several_peers),
		cmocka_unit_test(a_pause_ends_it),
		cmocka_unit_test(who_receives_fetches_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

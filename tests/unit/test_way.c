/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The method follows the pair: a process that runs on another processor asks every way anew, and the live view tells. The
 * simulated move, by costs, is in test_learn.c.
 */
#include "local/local.h"
#include "progress/live.h"
#include "progress/relax.h"
#include "two.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define N	 ((size_t)2 << 20)
#define MESSAGES 200
#define MOVES	 20
#define FETCHED	 4 /* class of the longest messages for which that is learned */

struct shared {
	struct meeting meeting;
	_Atomic bool noticed[2];
	_Atomic unsigned asked;
};

static struct shared *sh;
static uint8_t *buf;

static void run_on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void turn(bool send)
{
	sn_req *req;
	sn_completion c;
	if (send)
		CHECK(sn_isend(ep, peer, buf, N, 1, &req) == 0);
	else
		CHECK(sn_irecv(ep, peer, buf, N, 1, UINT64_MAX, &req) == 0);
	CHECK(sn_wait(ep, req, &c, 40000000) == 0 && c.status == 0);
}

static void pingpong(void)
{
	for (int i = 0; i < MESSAGES; i++) {
		turn(me == 0);
		turn(me == 1);
	}
}

/* How often this process has asked anew about messages of 2 MiB, over both orders; -1: the view does not show them. */
static int relearned(void)
{
	const struct sn_live_table *t = sn_live_map(getpid());
	struct sn_live_row row;
	int sum = -1;
	CHECK(t != NULL);
	for (uint32_t i = 0; i < atomic_load(&t->rows); i++) {
		if (!sn_live_read(t, i, &row) || !strstr(row.name, ", 2 MiB"))
			continue;
		const char *at = strstr(row.text, "learned anew ");
		CHECK(at && strstr(row.text, "MB/s"));
		sum = (sum < 0 ? 0 : sum) + atoi(at + strlen("learned anew "));
	}
	sn_live_unmap(t);
	return sum;
}

/* Both have; or one has not, and both go on. */
static bool both_noticed(unsigned moves)
{
	sh->noticed[me] = counter("local.moves") > 0 && relearned() > 0;
	sh->asked++;
	while (sh->asked < 2 * moves)
		usleep(100);
	return sh->noticed[0] && sh->noticed[1];
}

/*
 * Who arrives later chooses the way, and only who chooses looks: it may be the same process nearly every time, so one move
 * may pass without the other's noticing.
 */
static void side(const int cpus[2])
{
	run_on(cpus[me]);
	meet_other(&sh->meeting, 150);
	buf = calloc(1, N);
	CHECK(buf);
	pingpong();
	unsigned moves = 0;
	do {
		CHECK(++moves <= MOVES);
		if (me == 0)
			run_on(cpus[moves & 1]);
		pingpong();
	} while (!both_noticed(moves));
	sh->meeting.ready++; /* a peer that has gone is not shown any more */
	while (sh->meeting.ready < 4)
		usleep(100);
	sn_ep_close(ep);
	free(buf);
	_exit(0);
}

static void a_move_to_another_processor_is_noticed(void **state)
{
	cpu_set_t set;
	int cpus[2], n = 0;
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &set))
			cpus[n++] = i;
	if (n < 2) {
		print_message("one processor only: nothing can move\n");
		skip();
	}
	sh = shared_new(sizeof(*sh));
	fflush(NULL);
	for (me = 0; me < 2; me++)
		if (fork() == 0)
			side(cpus);
	for (int i = 0; i < 2; i++) {
		int status;
		wait(&status);
		assert_int_equal(status, 0);
	}
	munmap(sh, sizeof(*sh));
}

static bool claims(struct sn_link *link, uint64_t len, bool paused)
{
	link->straight_at = paused ? 0 : INT64_MAX;
	return sn_way_claims(link, len);
}

/*
 * Whether the receiver fetches is learned only while ring or straight is settled, and asked only for what competes. After
 * a pause the sender writes, whatever was learned: the receiver may be away.
 */
static void a_fetch_is_for_those_who_are_there(void **state)
{
	const uint64_t len = UINT64_C(1) << (SN_WAY_LAP_FIRST + FETCHED);
	struct sn_link *link = calloc(1, sizeof(*link));
	assert_non_null(link);
	assert_true(claims(link, len, false));
	struct sn_lap *ring = &link->laps[FETCHED], *fetched = &link->fetched[FETCHED];
	ring->way = 1;
	*fetched = (struct sn_lap){.way = 1, .count = SN_LAP_SKIP, .ns = {2000, 1000}};
	ring->trial = 1;
	for (unsigned i = 0; i < 4 * SN_LAP_GROUP; i++) {
		assert_false(claims(link, len, false));
		assert_int_equal(fetched->count, 0);
	}
	ring->trial = 0;
	assert_false(claims(link, len, false));
	assert_int_equal(fetched->count, 1);
	assert_true(claims(link, len, true));
	assert_int_equal(fetched->count, 0);
	assert_false(claims(link, len, false));
	assert_true(claims(link, 2 * len, false) && claims(link, 100, false));
	free(link);
}

/* Likewise how the ring is written, while it is settled that the ring is it; never for what is short. */
static void past_the_ring_is_for_what_goes_through_it(void **state)
{
	const uint64_t len = UINT64_C(1) << SN_WAY_LAP_FIRST;
	struct sn_link *link = calloc(1, sizeof(*link));
	assert_non_null(link);
	struct sn_lap *straight = &link->laps[0], *past = &link->past_ring[0];
	*past = (struct sn_lap){.way = 1, .count = SN_LAP_SKIP, .ns = {2000, 1000}};
	assert_true(sn_way_past_ring(link, len));
	assert_int_equal(past->count, SN_LAP_SKIP + 1);
	straight->trial = 1;
	assert_true(sn_way_past_ring(link, len));
	assert_int_equal(past->count, 0);
	straight->trial = 0;
	assert_true(sn_way_past_ring(link, len));
	assert_int_equal(past->count, 1);
	straight->way = 1;
	assert_true(sn_way_past_ring(link, len));
	assert_int_equal(past->count, 0);
	assert_false(sn_way_past_ring(link, len - 1));
	straight->way = 0;
	sn_relax_crowd(1000000); /* nor in a crowd, from the next group on at the latest */
	bool goes = true;
	for (unsigned i = 0; goes && i <= SN_LAP_GROUP; i++)
		goes = sn_way_past_ring(link, len);
	assert_false(goes || sn_way_past_ring(link, len));
	sn_relax_crowd(0);
	free(link);
}

/* What is shorter than that is not, nor does it count among those: a message as short takes as long a byte near as far. */
static void mapped_copies_are_past_the_cache_from_32_kib_on(void **state)
{
	const uint64_t len = UINT64_C(1) << SN_LEARN_FIRST;
	struct sn_rail *rail = calloc(1, sizeof(*rail));
	struct sn_link *link = calloc(1, sizeof(*link));
	assert_true(rail && link);
	link->rail = rail;
	struct sn_lap *past = &link->past[0];
	*past = (struct sn_lap){.way = 1, .count = SN_LAP_SKIP + 1, .ns = {20000, 10000}};
	assert_false(sn_way_bypass(link, len)); /* nobody gives lines back here */
	rail->gives_back = true;
	assert_true(sn_way_bypass(link, len));
	assert_int_equal(past->count, SN_LAP_SKIP + 2);
	assert_false(sn_way_bypass(link, len - 1) || sn_way_bypass(link, 4096));
	assert_int_equal(past->count, SN_LAP_SKIP + 2);
	free(link);
	free(rail);
}

/* A buffer of the other kind begins anew, and what was learned of this kind is there again with the next one. */
static void each_kind_of_buffer_has_its_own_laps(void **state)
{
	const uint64_t len = UINT64_C(1) << (SN_WAY_LAP_FIRST + FETCHED);
	struct sn_link *link = calloc(1, sizeof(*link));
	assert_non_null(link);
	struct sn_lap *l = &link->laps[FETCHED];
	*l = (struct sn_lap){.count = SN_LAP_SKIP + 1, .tries = 6, .ns = {1000, 2000}};
	assert_false(sn_way_straight(link, len, false, false));
	assert_true(sn_way_straight(link, len, false, true));
	assert_true(!(l->ns[0] > 0) && l->tries == 6);
	l->tries = 8;
	for (unsigned i = 0; i < 3; i++)
		assert_true(sn_way_straight(link, len, false, true));
	assert_false(sn_way_straight(link, len, false, false));
	assert_int_equal(l->count, SN_LAP_SKIP + 3);
	assert_int_equal(l->tries, 8);
	assert_false(sn_way_straight(link, 2 * len, true, true)); /* each size for itself */
	assert_false(sn_way_straight(link, len, false, false));
	free(link);
}

/* Where the cores are known to be far apart what nothing is known of begins past the cache, and there only. */
static void far_apart_it_begins_past_the_cache(void **state)
{
	for (int far = 0; far <= 1; far++) {
		struct sn_rail *rail = calloc(1, sizeof(*rail));
		struct sn_link *link = calloc(1, sizeof(*link));
		assert_true(rail && link);
		link->rail = rail;
		rail->gives_back = true;
		sn_way_init(link);
		link->far = (struct sn_far){.looked_at = 1, .known = true, .far = far};
		for (uint64_t len = 1u << SN_WAY_LAP_FIRST; len < 1u << 20; len *= 2)
			assert_int_equal(sn_way_past_ring(link, len), far);
		for (uint64_t len = 1u << SN_LEARN_FIRST; len < 1u << 24; len *= 2)
			assert_int_equal(sn_way_bypass(link, len), far && sn_way_gives_back(len));
		assert_false(sn_way_straight(link, 8192, true, false));
		assert_true(sn_way_straight(link, 65536, false, false));
		free(link);
		free(rail);
	}
}

/*
 * What lies in mapped memory and is not short is invited, but not against what the user has said, and in a crowd goes
 * straight.
 */
static void what_is_mapped_is_invited(void **state)
{
	struct sn_rail *rail = calloc(1, sizeof(*rail));
	struct sn_link *link = calloc(1, sizeof(*link));
	assert_true(rail && link);
	link->rail = rail;
	link->eager = 65536;
	sn_way_set_whole(link);
	assert_false(sn_way_invited(link, 65536, true)); /* the peer has none, so perhaps it maps none */
	link->heap.map = (void *)rail;
	assert_true(sn_way_invited(link, 65536, true) && sn_way_invited(link, 8193, true));
	assert_false(sn_way_invited(link, 65536, false) || sn_way_invited(link, 8192, true));
	sn_relax_crowd(1000000);
	assert_true(sn_way_invited(link, 16385, true));
	assert_false(sn_way_invited(link, 16384, true));
	sn_relax_crowd(0);
	link->eager_asked = 65536;
	assert_true(sn_way_invited(link, 65537, true));
	assert_false(sn_way_invited(link, 65536, true));
	link->laps[SN_LEARN_FIRST - SN_WAY_LAP_FIRST] = link->aside[SN_LEARN_FIRST - SN_WAY_LAP_FIRST] =
		(struct sn_lap){.count = 1, .ns = {1000, 2000}};
	sn_relax_crowd(1000000);
	assert_false(sn_way_straight(link, 32768, true, true)); /* so the ring is faster */
	link->eager_asked = 0;
	assert_true(sn_way_straight(link, 32768, true, true));
	assert_false(sn_way_straight(link, 32768, true, false));
	sn_relax_crowd(0);
	assert_false(sn_way_straight(link, 32768, true, true));
	rail->closing = true; /* nobody would fetch it any more */
	assert_false(sn_way_invited(link, 65536, true));
	free(link);
	free(rail);
}

/*
 * When the cores are seen elsewhere what rests while ring or straight is tried goes there, too, as a fresh lap
 * begins: whatever is found, since the time of a look is this machine's.
 */
static void what_rests_follows_the_cores(void **state)
{
	const uint64_t len = UINT64_C(1) << SN_LEARN_FIRST;
	const unsigned class = SN_LEARN_FIRST - SN_WAY_LAP_FIRST;
	struct sn_rail *rail = calloc(1, sizeof(*rail));
	struct sn_board *board = calloc(1, sizeof(*board));
	struct sn_chan *chan = calloc(1, sizeof(*chan));
	assert_true(rail && board && chan);
	rail->gives_back = true;
	for (unsigned far = 0; far < 2; far++) {
		struct sn_link *link = calloc(1, sizeof(*link));
		assert_non_null(link);
		link->rail = rail;
		link->board = board;
		link->tx.chan = chan;
		link->eager = 4 * SN_PART_FROM;
		sn_way_init(link);
		struct sn_lap known = {.way = (uint8_t)far, .seldom = true, .ns = {20000, 10000}};
		link->past_ring[class] = link->past[0] = known;
		link->fetched[class].way = 1;
		link->laps[class].count = SN_LAP_SKIP;
		link->far = (struct sn_far){
			.looked_at = 1, .known = true, .far = far, .doubts = SN_FAR_DOUBTS - 1};
		sn_board_tick(board);
		sn_way_straight(link, len, true, false);
		link->laps[class].trial = 1;
		assert_int_equal(sn_way_past_ring(link, len), link->far.far);
		assert_int_equal(sn_way_bypass(link, len), link->far.far);
		assert_int_equal(claims(link, len, false), link->far.far != far);
		/* two pages go in one piece between near cores, and the receiver is told */
		assert_int_equal(link->whole, link->far.far == far ? 0 : SN_PART_FROM - 1 - link->far.far);
		assert_int_equal(chan->whole, link->far.far == far ? 0 : link->whole);
		/* and lines of longer ones are got ready for where they take long */
		assert_int_equal(sn_way_apart(link), sn_copy_asks_ahead() && sn_far_apart(&link->far));
		uint32_t usual =
			link->far.far && !sn_copy_asks_ahead() ? SN_RING_AHEAD_FAR : SN_RING_AHEAD_MAX;
		assert_int_equal(link->tx.ahead, sn_way_apart(link) ? SN_RING_AHEAD_APART : usual);
		chan->whole = 0;
		free(link);
	}
	free(chan);
	free(board);
	free(rail);
}

/* Lines are asked for ahead where they take long, on processors that gain by it, and never in a crowd. */
static void lines_that_take_long_are_asked_for(void **state)
{
	struct sn_link *link = calloc(1, sizeof(*link));
	assert_non_null(link);
	for (unsigned k = 0; k < 2; k++) {
		link->far = (struct sn_far){.known = true, .ns = SN_FAR_APART_NS - 1 + k};
		sn_way_set_apart(link);
		assert_int_equal(sn_way_apart(link), k && sn_copy_asks_ahead());
		uint32_t usual =
			link->far.far && !sn_copy_asks_ahead() ? SN_RING_AHEAD_FAR : SN_RING_AHEAD_MAX;
		assert_int_equal(link->tx.ahead, sn_way_apart(link) ? SN_RING_AHEAD_APART : usual);
	}
	link->tx.ahead = SN_RING_AHEAD_APART;
	sn_relax_crowd(1000);
	assert_true(sn_relax_crowded());
	assert_false(sn_way_past_ring(link, 16384));
	assert_false(sn_way_apart(link));
	assert_int_equal(link->tx.ahead, SN_RING_AHEAD_MAX);
	sn_relax_crowd(0);
	free(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_that_take_long_are_asked_for),
		cmocka_unit_test(far_apart_it_begins_past_the_cache),
		cmocka_unit_test(what_is_mapped_is_invited),
		cmocka_unit_test(a_fetch_is_for_those_who_are_there),
		cmocka_unit_test(past_the_ring_is_for_what_goes_through_it),
		cmocka_unit_test(mapped_copies_are_past_the_cache_from_32_kib_on),
		cmocka_unit_test(each_kind_of_buffer_has_its_own_laps),
		cmocka_unit_test(what_rests_follows_the_cores),
		cmocka_unit_test(a_move_to_another_processor_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

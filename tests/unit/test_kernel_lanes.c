/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel module deals a body out to the peer's rails as the strategies of src/sched do: its choices (kmod/sennit_lanes.h,
 * in whole numbers) against theirs, on random states: where the two differ, it is by a tie of less than the rounding. And
 * its model of a rail against theirs, on paces that change.
 */
#include "sched/sched.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;
typedef uint32_t u32;
#define div64_u64(a, b) ((u64)(a) / (u64)(b))
#include "sennit_lanes.h"

#include <cmocka.h>

#define ROUNDS 200000

static u64 seed = 7;

static u64 rnd(u64 below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* Rails as they are met: rates from 1 MB/s to 25 GB/s and unknown ones, short and long queues, some out. */
static unsigned draw(struct sn_sched_rail *user, struct sn_lane_seen *kernel)
{
	unsigned count = 1 + (unsigned)rnd(SN_SCHED_RAILS);

	for (unsigned i = 0; i < count; i++) {
		user[i] = (struct sn_sched_rail){.usable = rnd(8) > 0,
						 .room = rnd(4) > 0,
						 .latency = rnd(2) ? rnd(50000) : rnd(3000000),
						 .rate = rnd(6) ? 1000000 + rnd(1ull << (20 + rnd(15))) : 0,
						 .queued = rnd(3) ? rnd(2000000) : 0,
						 .given = rnd(64) * 65000};
		kernel[i] = (struct sn_lane_seen){.usable = user[i].usable,
						  .room = user[i].room,
						  .latency = user[i].latency,
						  .rate = user[i].rate,
						  .queued = user[i].queued,
						  .given = user[i].given};
	}
	return count;
}

static bool near(u64 a, u64 b)
{
	return (a > b ? a - b : b - a) <= 4; /* ns: two roundings each */
}

static bool is_tie(const struct sn_lane_seen *r, unsigned count, int a, int b, u64 left, u64 bytes)
{
	int known = a >= 0 ? a : b;

	if (a >= 0 && b >= 0)
		return near(sn_lane_time(&r[a], bytes), sn_lane_time(&r[b], bytes));
	return near(sn_lane_time(&r[known], bytes), sn_lane_without(r, count, (unsigned)known, left, bytes));
}

static void choices_are_the_strategies(void **state)
{
	unsigned ties = 0, waits = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct sn_sched_rail user[SN_SCHED_RAILS];
		struct sn_lane_seen kernel[SN_SCHED_RAILS];
		unsigned count = draw(user, kernel);
		u64 bytes = 1 + rnd(65000), left = bytes + (rnd(2) ? rnd(1u << 20) : rnd(1ull << 32));
		int split = sn_strategy_split.block(user, count, left, bytes);
		int own = sn_lane_split(kernel, count, left, bytes);

		waits += own < 0;
		if (split != own) {
			ties++;
			assert_true(is_tie(kernel, count, split, own, left, bytes));
		}
		assert_int_equal(sn_strategy_equal.block(user, count, left, bytes),
				 sn_lane_equal(kernel, count));
		assert_int_equal(sn_strategy_fifo.block(user, count, left, bytes),
				 sn_lane_fastest(kernel, count));
	}
	assert_true(ties < ROUNDS / 1000);
	assert_true(waits > ROUNDS / 100 && waits < ROUNDS / 2); /* it was about something */
}

/* Whatever a program says, nothing is divided by nought and nothing wraps. */
static void absurd_figures_are_borne(void **state)
{
	struct sn_lane_seen r[2] = {
		{.usable = true,
		 .room = true,
		 .latency = SN_LANE_LATENCY_MOST,
		 .rate = 1,
		 .queued = 1u << 30},
		{.usable = true, .room = true, .latency = 1, .rate = SN_LANE_RATE_MOST, .queued = 1u << 30}};

	assert_int_equal(sn_lane_split(r, 2, 1ull << 44, 65000), 1);
	assert_true(sn_lane_time(&r[0], 1ull << 44) > sn_lane_time(&r[1], 1ull << 44));
	struct sn_lane_model m = {0};
	sn_lane_rate(&m, 0, 0);
	assert_int_equal(m.rate, 1);
}

/* Paces that change, transfers that end: both believe the same, but for what their ways of counting differ in. */
static void the_model_follows_the_schedulers(void **state)
{
	struct sn_model user = {0};
	struct sn_lane_model kernel = {0};
	u64 now = 1000;

	for (int epoch = 0; epoch < 400; epoch++) {
		u64 pace = 50 + rnd(20000); /* ns a KiB */
		u64 truth = 1024 * SN_LANE_SECOND / pace;

		for (int i = 0; i < 2000; i++) {
			u64 bytes = 1000 + rnd(8000);
			now += pace * bytes / 1024;
			if (rnd(500) == 0) {
				sn_model_idle(&user, 1 << 20, now);
				sn_lane_idle(&kernel, now);
			} else {
				sn_model_arrived(&user, 1 << 20, bytes, now);
				sn_lane_arrived(&kernel, bytes, now);
			}
		}
		u64 a = sn_model_rate_of(&user, 1 << 20, now), b = sn_lane_rate_of(&kernel, now);
		assert_true((a > b ? a - b : b - a) <= a / 8);
		assert_true((truth > b ? truth - b : b - truth) <= truth / 4);
		sn_model_latency(&user, pace);
		sn_lane_latency(&kernel, pace);
		assert_true(kernel.latency <= 2 * user.latency && user.latency <= 2 * kernel.latency);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choices_are_the_strategies),
		cmocka_unit_test(absurd_figures_are_borne),
		cmocka_unit_test(the_model_follows_the_schedulers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

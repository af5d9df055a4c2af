/* SPDX-License-Identifier: BSD-3-Clause */
/* What is free of an arena, against a map of its units: runs by their place, none that touch, and what may have memory. */
#include "unit.h"

#include "heap_runs.h"

#define UNITS 500
#define STEPS 20000

static struct sn_run room[SN_HEAP_RUNS];
static bool is_free[UNITS], is_used[UNITS]; /* used: of those that are free */

static void check(const struct sn_runs *r)
{
	size_t at = 0, kept = 0;
	for (size_t i = 0; i < r->count; i++) {
		const struct sn_run *run = &r->run[i];
		assert_true(run->count > 0 && run->kept <= run->count);
		for (; at < run->at; at++)
			assert_false(is_free[at]);
		for (; at < run->at + run->count; at++)
			assert_true(is_free[at] && (run->used || !is_used[at]));
		assert_true(at == UNITS || !is_free[at]);
		kept += run->kept;
	}
	for (; at < UNITS; at++)
		assert_false(is_free[at]);
	assert_int_equal(kept, r->kept);
}

static void some_taken(struct sn_runs *r, uint64_t *seed)
{
	size_t i = unit_random(seed) % r->count;
	struct sn_run run = r->run[i];
	size_t at = run.at + unit_random(seed) % run.count;
	size_t count = 1 + unit_random(seed) % (run.at + run.count - at), kept = r->kept;
	sn_runs_take(r, i, at, count);
	memset(&is_free[at], false, count);
	memset(&is_used[at], false, count);
	assert_int_equal(r->kept, kept - (run.kept < count ? run.kept : count));
}

static void some_added(struct sn_runs *r, uint64_t *seed)
{
	size_t at = unit_random(seed) % UNITS, count = 0, most = 1 + unit_random(seed) % 20;
	while (count < most && at + count < UNITS && !is_free[at + count])
		is_free[at + count++] = true;
	if (!count)
		return;
	size_t kept = unit_random(seed) % (count + 1);
	memset(&is_used[at], kept > 0, count);
	const struct sn_run *run = sn_runs_add(r, at, count, kept);
	assert_true(run && run->at <= at && run->at + run->count >= at + count);
}

static void some_emptied(struct sn_runs *r, struct sn_run *run)
{
	memset(&is_used[run->at], false, run->count);
	sn_runs_emptied(r, run);
}

static void runs_are_what_is_free(void **state)
{
	uint64_t seed = unit_seed();
	struct sn_runs r = {.run = room};
	for (int i = 0; i < STEPS; i++) {
		uint64_t what = unit_random(&seed) % 16;
		if (what < 8)
			some_added(&r, &seed);
		else if (what < 15 && r.count)
			some_taken(&r, &seed);
		else if (r.count)
			some_emptied(&r, &r.run[unit_random(&seed) % r.count]);
		check(&r);
	}
}

static void there_is_an_end(void **state)
{
	struct sn_runs r = {.run = room};
	for (size_t i = 0; i < SN_HEAP_RUNS; i++)
		assert_non_null(sn_runs_add(&r, 2 * i, 1, 1));
	assert_null(sn_runs_add(&r, 2 * SN_HEAP_RUNS, 1, 1));
	assert_int_equal(r.kept, SN_HEAP_RUNS);
	assert_non_null(sn_runs_add(&r, 1, 1, 1)); /* which joins two */
	assert_non_null(sn_runs_add(&r, 2 * SN_HEAP_RUNS, 1, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(runs_are_what_is_free),
					   cmocka_unit_test(there_is_an_end)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

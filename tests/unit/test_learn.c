/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a way follows what messages cost: a move of the cores, simulated by other costs, is answered within a few
 * dozen messages; noise is not; and trying others stays cheap.
 */
#include "unit.h"

#include "copy/learn.h"
#include <stdbool.h>

#define LEN    (1u << 20)
#define ALL    (1u << SN_WAY_SINGLE | 1u << SN_WAY_SHARED | 1u << SN_WAY_STREAM)
#define MODULE (ALL | 1u << SN_WAY_MODULE)

static const uint32_t guess_mb[SN_WAYS] = {10000, 20000, 8000, 22000},
		      guess_ns[SN_WAYS] = {1500, 2500, 1500, 2500};
/* ns for a message of LEN: the cores share a cache, or do not */
static const uint64_t near_ns[SN_WAYS] = {90000, 50000, 35000, 45000},
		      far_ns[SN_WAYS] = {90000, 50000, 480000, 40000};

static struct sn_learn learn;
static struct sn_learn_class *c;

static int start(void **state)
{
	sn_learn_init(&learn, guess_mb, guess_ns);
	c = &learn.at[sn_learn_class_of(LEN)];
	return 0;
}

/* Send n messages; how many of them went this way. */
static unsigned send(unsigned n, const uint64_t *ns, unsigned allowed, enum sn_way way, uint64_t *seed)
{
	unsigned count = 0;
	for (unsigned i = 0; i < n; i++) {
		enum sn_way w = sn_learn_pick(c, allowed);
		assert_true(allowed >> w & 1);
		count += w == way;
		uint64_t took = ns[w];
		if (seed)
			took = took * (90 + unit_random(seed) % 21) / 100;
		if (seed && unit_random(seed) % 20 == 0)
			took *= 30; /* a lost core */
		sn_learn_note(c, w, LEN, took);
	}
	return count;
}

static void the_guess_decides_at_first(void **state)
{
	assert_int_equal(sn_learn_pick(c, ALL), SN_WAY_SHARED);
}

/* It maps the pages, and costs ten times as much. */
static void the_first_message_says_nothing(void **state)
{
	unsigned ways = 1u << SN_WAY_SINGLE | 1u << SN_WAY_SHARED;
	sn_learn_note(c, sn_learn_pick(c, ways), LEN, 10 * near_ns[SN_WAY_SHARED]);
	assert_int_equal(send(SN_LEARN_EXPLORE - 2, near_ns, ways, SN_WAY_SHARED, NULL),
			 SN_LEARN_EXPLORE - 2);
}

/* The module comes first where it is, and stays where it wins; where it does not, it is hardly asked. */
static void the_module_has_to_win(void **state)
{
	assert_int_equal(sn_learn_pick(c, MODULE), SN_WAY_MODULE);
	send(200, far_ns, MODULE, SN_WAY_MODULE, NULL);
	assert_true(send(320, far_ns, MODULE, SN_WAY_MODULE, NULL) >= 300);
	sn_learn_restart(c);
	send(64, near_ns, MODULE, SN_WAY_MODULE, NULL);
	assert_true(send(320, near_ns, MODULE, SN_WAY_MODULE, NULL) <= 20);
}

static void a_move_is_answered_within_a_few_dozen_messages(void **state)
{
	send(400, near_ns, ALL, SN_WAY_STREAM, NULL);
	assert_true(send(32, near_ns, ALL, SN_WAY_STREAM, NULL) >= 30);
	send(36, far_ns, ALL, SN_WAY_SHARED, NULL); /* the cores move */
	assert_true(send(32, far_ns, ALL, SN_WAY_SHARED, NULL) >= 30);
	assert_int_equal(c->relearned, 1);
}

/* One of the processes runs on another processor: the caller knows, though no cost that is known has changed. */
static void a_known_move_is_answered_at_once(void **state)
{
	send(400, far_ns, ALL, SN_WAY_SHARED, NULL);
	sn_learn_restart(c);
	send(SN_LEARN_FRESH * SN_WAYS, near_ns, ALL, SN_WAY_STREAM, NULL);
	assert_true(send(32, near_ns, ALL, SN_WAY_STREAM, NULL) >= 31);
}

/* Nobody knows, and nothing got worse: only trying others shows it. */
static void a_silent_move_is_found(void **state)
{
	send(400, far_ns, ALL, SN_WAY_SHARED, NULL);
	send(800, near_ns, ALL, SN_WAY_STREAM, NULL);
	assert_true(send(32, near_ns, ALL, SN_WAY_STREAM, NULL) >= 30);
}

static void noise_does_not_confuse_it(void **state)
{
	for (uint64_t run = 1; run <= 20; run++) { /* the same luck each time */
		uint64_t seed = run;
		start(state);
		send(400, far_ns, ALL, SN_WAY_SHARED, &seed);
		/* very bad luck may cost twice SELDOM turns of two ways, a thousand messages; it must not cost all of them */
		assert_true(send(4000, far_ns, ALL, SN_WAY_SHARED, &seed) > 2900);
	}
}

/*
 * Losing the core so often in a row that everything is asked anew, the best way looks dear, and is still found again; even
 * when the others are dear, too, whose turns alternate with its own.
 */
static void it_comes_back_from_bad_luck(void **state)
{
	uint64_t lost[SN_WAYS];
	for (unsigned w = 0; w < SN_WAYS; w++)
		lost[w] = far_ns[w] * 30;
	for (unsigned good = 100; good < 100 + 2 * SN_LEARN_EXPLORE; good++) {
		for (unsigned bad = SN_LEARN_ODD; bad < SN_LEARN_ODD + 6; bad++) {
			start(NULL);
			send(good, far_ns, ALL, SN_WAY_SHARED, NULL);
			send(bad, lost, ALL, SN_WAY_SHARED, NULL);
			send(SN_LEARN_EXPLORE * 2 * 8, far_ns, ALL, SN_WAY_SHARED, NULL);
			assert_true(send(64, far_ns, ALL, SN_WAY_SHARED, NULL) >= 60);
		}
	}
}

static void trying_others_stays_cheap(void **state)
{
	send(200, far_ns, ALL, SN_WAY_SHARED, NULL);
	assert_true(send(3200, far_ns, ALL, SN_WAY_SHARED, NULL) >= 3100);
	/* the way that is ten times dearer is hardly asked at all */
	assert_true(send(3200, far_ns, ALL, SN_WAY_STREAM, NULL) <= 20);
}

/* However dear the others are. */
static void trying_others_costs_little_time(void **state)
{
	static const uint64_t dear[] = {2, 3, 5, 8};
	for (size_t i = 0; i < sizeof(dear) / sizeof(*dear); i++) {
		uint64_t ns[SN_WAYS] = {dear[i] * 50000, 50000, dear[i] * 50000}, took = 0;
		start(state);
		send(200, ns, ALL, SN_WAY_SHARED, NULL);
		for (unsigned n = 0; n < 6400; n++) {
			enum sn_way w = sn_learn_pick(c, ALL);
			sn_learn_note(c, w, LEN, ns[w]);
			took += ns[w];
		}
		assert_true(took < UINT64_C(6400) * 50000 * 1035 / 1000);
	}
}

static void only_what_is_allowed_is_picked(void **state)
{
	for (unsigned allowed = 1; allowed <= ALL; allowed++)
		send(200, near_ns, allowed, SN_WAY_SINGLE, NULL);
	assert_int_equal(sn_learn_pick(c, 0), SN_WAY_SINGLE);
	send(100, near_ns, ALL, SN_WAY_STREAM, NULL);
	assert_int_equal(send(64, near_ns, 1u << SN_WAY_SINGLE, SN_WAY_SINGLE, NULL), 64);
}

static void classes_are_powers_of_two(void **state)
{
	assert_int_equal(sn_learn_class_of(0), 0);
	assert_int_equal(sn_learn_class_of(32768), 0);
	assert_int_equal(sn_learn_class_of(65535), 0);
	assert_int_equal(sn_learn_class_of(65536), 1);
	assert_int_equal(sn_learn_class_of(UINT64_MAX), SN_LEARN_CLASSES - 1);
	assert_false(sn_learn_note(c, SN_WAY_SINGLE, 0, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_guess_decides_at_first, start),
		cmocka_unit_test_setup(the_first_message_says_nothing, start),
		cmocka_unit_test_setup(the_module_has_to_win, start),
		cmocka_unit_test_setup(a_move_is_answered_within_a_few_dozen_messages, start),
		cmocka_unit_test_setup(a_known_move_is_answered_at_once, start),
		cmocka_unit_test_setup(a_silent_move_is_found, start),
		cmocka_unit_test_setup(noise_does_not_confuse_it, start),
		cmocka_unit_test_setup(it_comes_back_from_bad_luck, start),
		cmocka_unit_test_setup(trying_others_stays_cheap, start),
		cmocka_unit_test_setup(trying_others_costs_little_time, start),
		cmocka_unit_test_setup(only_what_is_allowed_is_picked, start),
		cmocka_unit_test_setup(classes_are_powers_of_two, start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Strategies and the model of a rail, by themselves. */
#include "sched/sched.h"
#include "unit.h"

#define MB 1000000ULL

static struct sn_strategy chosen(const char *list)
{
	struct sn_strategy s;
	char bad[16] = "";

	assert_true(sn_sched_choose(list, &s, bad, sizeof(bad)));
	return s;
}

static void a_list_is_laid_over_fifo(void **state)
{
	struct sn_strategy s = chosen("");
	char bad[16];

	assert_true(s.ready == sn_strategy_fifo.ready && s.block == sn_strategy_fifo.block);
	s = chosen("aggregate,split");
	assert_true(s.ready == sn_strategy_aggregate.ready && s.join == sn_strategy_aggregate.join);
	assert_true(s.small == sn_strategy_split.small && s.block == sn_strategy_split.block);
	s = chosen("split,equal");
	assert_true(s.small == sn_strategy_split.small && s.block == sn_strategy_equal.block);
	assert_true(s.ready == sn_strategy_fifo.ready);
	assert_false(sn_sched_choose("aggregate,fast", &s, bad, sizeof(bad)));
	assert_string_equal(bad, "fast");
	assert_false(sn_sched_choose("split.", &s, bad, sizeof(bad)));
	for (unsigned i = 0; sn_sched_known(i); i++) {
		assert_non_null(sn_sched_known(i)->help);
		s = chosen(sn_sched_known(i)->name);
		assert_true(s.ready && s.join && s.small && s.block);
	}
}

static void a_lone_request_leaves_at_once(void **state)
{
	struct sn_strategy s = chosen("aggregate,split");
	struct sn_window w = {.count = 1, .bytes = 32, .frame = 1472, .flight = 0};

	assert_true(s.ready(&w));
	w.flight = SN_SCHED_GATHER - 1;
	assert_true(s.ready(&w));
	w.flight = SN_SCHED_GATHER; /* the rails work: company is worth waiting for, ... */
	assert_false(s.ready(&w));
	w.bytes = 1472; /* ... until a frame is full */
	assert_true(s.ready(&w));
	assert_true(s.join(&w, 1000));
	assert_false(sn_strategy_fifo.join(&w, 1));
}

static void full_frames_wait_for_a_train(void **state)
{
	struct sn_strategy s = chosen("aggregate,split");
	struct sn_window w = {.frame = 1472, .flight = SN_SCHED_GATHER, .call = 1000};

	assert_true(s.depart(&w, 1)); /* too few besides are under way: the rails would run dry */
	w.flight = SN_SCHED_GATHER + 1;
	assert_false(s.depart(&w, 1));
	w.flight = SN_SCHED_GATHER + SN_SCHED_TRAIN;
	assert_false(s.depart(&w, SN_SCHED_TRAIN - 1));
	assert_true(s.depart(&w, SN_SCHED_TRAIN));
	assert_true(sn_strategy_fifo.depart(&w, 1));
	w.since = SN_SCHED_PART * w.call -
		  1; /* the receiver is not left idle for longer than a few calls take */
	assert_false(s.depart(&w, SN_SCHED_TRAIN - 1));
	w.since++;
	assert_true(s.depart(&w, SN_SCHED_TRAIN - 1));
}

static void the_end_of_a_burst_waits_for_no_answer(void **state)
{
	struct sn_strategy s = chosen("aggregate,split");
	struct sn_window w = {.count = 1, .bytes = 32, .frame = 1472, .flight = SN_SCHED_GATHER};

	assert_false(s.ready(&w));
	w.waits = true; /* nothing is posted any more, ... */
	assert_true(s.ready(&w));
	w.tail =
		true; /* ... but one such frame a round trip, or messages posted between looks would never gather */
	assert_false(s.ready(&w));
}

static void after_bursts_one_message_leaves_alone(void **state)
{
	struct sn_strategy s = chosen("aggregate,split");
	struct sn_window w = {.count = 1, .bytes = 32, .frame = 1472, .bursts = true};

	assert_true(s.ready(&w));
	w.flight = 1;
	assert_false(s.ready(&w));
	assert_true(sn_strategy_fifo.ready(&w));
}

static void short_ones_take_the_rail_that_is_through_first(void **state)
{
	struct sn_sched_rail r[3] = {
		{.usable = true, .room = true, .latency = 5000, .rate = 1000 * MB},
		{.usable = true, .room = true, .latency = 20000, .rate = 100 * MB},
		{.usable = false, .room = true, .latency = 1, .rate = 9000 * MB},
	};
	const struct sn_strategy *s = &sn_strategy_split;

	assert_int_equal(s->small(r, 3, 100), 0);
	r[0].queued = 1 * MB; /* a millisecond of bulk */
	assert_int_equal(s->small(r, 3, 100), 1);
	assert_int_equal(sn_strategy_fifo.small(r, 3, 100), 0);
	r[1].room = false;
	assert_int_equal(s->small(r, 3, 100), 0);
	r[0].room = false;
	assert_int_equal(s->small(r, 3, 100), -1);
	assert_int_equal(s->small(r, 0, 100), -1);
}

/* Give out `total` bytes in blocks as the rails get room; all that is queued flows away at the rails' rates. */
static double finish_time(const struct sn_strategy *s, struct sn_sched_rail *r, unsigned n, uint64_t total,
			  uint64_t block, uint64_t room)
{
	double t = 0, last = 0;

	while (total > 0) {
		for (unsigned i = 0; i < n; i++)
			r[i].room = r[i].queued + block <= room;
		uint64_t part = SN_MIN_OF(total, block);
		int k = s->block(r, n, total, part);
		if (k >= 0) {
			assert_true(r[k].usable && r[k].room);
			r[k].queued += part;
			r[k].given += part;
			total -= part;
			continue;
		}
		uint64_t queued = 0;
		for (unsigned i = 0; i < n; i++)
			queued += r[i].queued;
		assert_true(queued > 0); /* it waits for something */
		t += 1e-5;
		for (unsigned i = 0; i < n; i++) {
			uint64_t flown = SN_MIN_OF(r[i].queued, (uint64_t)((double)r[i].rate * 1e-5));
			r[i].queued -= flown;
		}
	}
	for (unsigned i = 0; i < n; i++)
		if (r[i].usable)
			last = SN_MAX_OF(last, (double)r[i].queued / (double)r[i].rate);
	return t + last;
}

static void rails_finish_together(void **state)
{
	static const uint64_t rates[][3] = {{100 * MB, 100 * MB, 100 * MB},
					    {400 * MB, 100 * MB, 50 * MB},
					    {1000 * MB, 10 * MB, 100 * MB}};

	for (int c = 0; c < 3; c++) {
		struct sn_sched_rail r[3] = {{0}};
		uint64_t sum = 0;
		for (int i = 0; i < 3; i++) {
			r[i] = (struct sn_sched_rail){.usable = true, .latency = 10000, .rate = rates[c][i]};
			sum += rates[c][i];
		}
		double t = finish_time(&sn_strategy_split, r, 3, 32 * MB, 60000, 240000);
		double ideal = 32e6 / (double)sum;
		assert_true(t < 1.08 * ideal);
		for (int i = 0; i < 3; i++) { /* in proportion */
			double want = 32e6 * (double)rates[c][i] / (double)sum;
			assert_true((double)r[i].given > 0.6 * want &&
				    (double)r[i].given < 1.2 * want + 120000);
		}
	}
}

static void equal_is_equal_and_one_is_one(void **state)
{
	struct sn_sched_rail r[2] = {{.usable = true, .rate = 400 * MB}, {.usable = true, .rate = 100 * MB}};

	finish_time(&sn_strategy_equal, r, 2, 12 * MB, 60000, 240000);
	assert_int_equal(r[0].given, r[1].given);
	r[0].given = r[1].given = r[0].queued = r[1].queued = 0;
	finish_time(&sn_strategy_fifo, r, 2, 12 * MB, 60000, 240000);
	assert_int_equal(r[0].given, 12 * MB);
	assert_int_equal(r[1].given, 0);
}

static void the_last_block_goes_where_it_is_sooner_through(void **state)
{
	struct sn_sched_rail r[2] = {
		{.usable = true, .room = false, .latency = 10000, .rate = 1000 * MB, .queued = 120000},
		{.usable = true, .room = true, .latency = 10000, .rate = 10 * MB},
	};

	assert_int_equal(sn_strategy_split.block(r, 2, 60000, 60000), -1);  /* the slow one would take 6 ms */
	assert_int_equal(sn_strategy_split.block(r, 2, 60 * MB, 60000), 1); /* but there is plenty left */
	r[0].usable = false;
	assert_int_equal(sn_strategy_split.block(r, 2, 60000, 60000), 1);
}

#define BIG  (1 << 20)
#define MSEC 1000000ULL

/* `count` arrivals of `bytes`, `ns` apart. */
static uint64_t feed(struct sn_model *m, uint64_t now, unsigned count, uint64_t bytes, uint64_t ns)
{
	while (count-- > 0)
		sn_model_arrived(m, BIG, bytes, now += ns);
	return now;
}

static void about(uint64_t rate, uint64_t want)
{
	if (rate < want - want / 20 || rate > want + want / 20)
		fail_msg("%llu bytes a second, not about %llu", (unsigned long long)rate,
			 (unsigned long long)want);
}

static void the_model_follows(void **state)
{
	struct sn_model m = {0};
	uint64_t now = 1000;

	assert_int_equal(sn_model_rate_of(&m, BIG, now), 0);
	now = feed(&m, now, 200, 10000, 100000); /* 10,000 bytes in 100 us: 100 MB a second */
	about(sn_model_rate_of(&m, BIG, now), 100 * MB);
	now = feed(&m, now, 24, 10000, MSEC); /* a tenth of that: known within two samples */
	assert_true(sn_model_rate_of(&m, BIG, now) < 20 * MB);
	now = feed(&m, now, 300, 10000, 100000);
	about(sn_model_rate_of(&m, BIG, now), 100 * MB);
	/* a run that stands still is news before it ends */
	uint64_t before = sn_model_rate_of(&m, BIG, now);
	assert_true(sn_model_rate_of(&m, BIG, now + 50 * MSEC) < before / 10);
	sn_model_idle(&m, BIG, now);
	assert_true(sn_model_rate_of(&m, BIG, now + 50 * MSEC) > 80 * MB);
}

static void the_least_latency_counts_but_is_not_for_ever(void **state)
{
	struct sn_model m = {0};

	sn_model_latency(&m, 9000);
	sn_model_latency(&m, 5000);
	assert_int_equal(m.latency, 5000);
	sn_model_latency(&m, 100 * MSEC); /* one long wait: at most a sixteenth more */
	assert_true(m.latency > 5000 && m.latency <= 5000 + 5000 / 16 + 1);
	for (int i = 0; i < 400; i++) /* the way is longer now */
		sn_model_latency(&m, 40000);
	assert_true(m.latency > 35000 && m.latency <= 40000);
	for (int i = 0; i < 100; i++) /* even by a little */
		sn_model_latency(&m, 40005);
	assert_true(m.latency >= 40000);
	sn_model_latency(&m, 0);
	assert_int_equal(m.latency, 1); /* 0 would say: not measured */
}

/* Frames that were read together came before: only the time between two looks is known. */
static void what_is_read_at_once_is_not_fast(void **state)
{
	struct sn_model m = {0};
	uint64_t now = MSEC;

	for (int look = 0; look < 40; look++, now += MSEC)
		for (int i = 0; i < 60; i++)
			sn_model_arrived(&m, BIG, 1000, now);
	about(sn_model_rate_of(&m, BIG, now - MSEC), 60 * MB);
	assert_true(m.samples > 10);
	m = (struct sn_model){0};
	feed(&m, now, 1000, 1500, 0); /* all in one look */
	sn_model_idle(&m, BIG, now);
	assert_int_equal(m.samples, 0);
}

/* A heap that waited somewhere comes fast, once. */
static void good_news_is_believed_when_it_comes_twice(void **state)
{
	struct sn_model m = {0};

	for (int i = 0; i < 10; i++)
		sn_model_rate(&m, BIG, MB, 10 * MSEC); /* 100 MB a second */
	sn_model_rate(&m, BIG, MB, MSEC / 10);	       /* 10 GB a second */
	about(sn_model_rate_of(&m, BIG, 0), 100 * MB);
	sn_model_rate(&m, BIG, MB, 10 * MSEC);
	about(sn_model_rate_of(&m, BIG, 0), 100 * MB);
	for (int i = 0; i < 12; i++)
		sn_model_rate(&m, BIG, MB, 2 * MSEC);
	assert_true(sn_model_rate_of(&m, BIG, 0) > 450 * MB);
	sn_model_rate(&m, BIG, MB, 50 * MSEC); /* bad news at once */
	assert_true(sn_model_rate_of(&m, BIG, 0) < 150 * MB);
}

static void short_transfers_add_up(void **state)
{
	struct sn_model m = {0};
	uint64_t now = MSEC;

	for (int i = 0; i < 20; i++) { /* 4 frames, of which 3 count: too few for a sample of their own */
		for (int k = 0; k < 4; k++)
			sn_model_arrived(&m, 12000, 1500, now += 15000);
		sn_model_idle(&m, 12000, now);
		now += MSEC; /* this pause is no part of it */
	}
	assert_true(m.samples >= 4);
	about(sn_model_rate_of(&m, 12000, now), 100 * MB);
	uint64_t samples = m.samples;
	for (int i = 0; i < 20; i++) { /* of the last minute, not of the last hour */
		feed(&m, now, 4, 1500, 15000);
		sn_model_idle(&m, 12000, now + 60000);
		now += 1000 * MSEC;
	}
	assert_int_equal(m.samples, samples);
}

static void sizes_have_rates_of_their_own(void **state)
{
	struct sn_model m = {0};

	sn_model_rate(&m, 4096, 48000, MSEC);
	about(sn_model_rate_of(&m, BIG, 0), 48 * MB); /* nothing else is known */
	sn_model_rate(&m, BIG, MB, 10 * MSEC);
	about(sn_model_rate_of(&m, BIG, 0), 100 * MB);
	about(sn_model_rate_of(&m, 65536, 0), 100 * MB); /* the next one that is known */
	about(sn_model_rate_of(&m, 100, 0), 48 * MB);
}

/* What a trial took, the way there included, is a bound: it raises a figure, and lowers none. */
static void a_trial_raises_a_figure_at_once(void **state)
{
	struct sn_model m = {0};

	sn_model_rate(&m, BIG, MB, 1000 * MSEC);
	sn_model_least(&m, BIG, MB, 20 * MSEC);
	about(sn_model_rate_of(&m, BIG, 0), 50 * MB);
	sn_model_least(&m, BIG, MB, 500 * MSEC);
	about(sn_model_rate_of(&m, BIG, 0), 50 * MB);
	sn_model_least(&m, BIG, MB, 0); /* no time: not a division by it */
	assert_true(sn_model_rate_of(&m, BIG, 0) > 50 * MB);
}

/* A rail that is not used because it was slow would never show that it has recovered. */
static void a_rail_that_is_not_used_is_given_another_chance(void **state)
{
	struct sn_model m = {0};
	uint64_t now = feed(&m, MSEC, 100, 10000, 100000); /* 100 MB a second */

	for (int i = 0; i < 100; i++)
		now = feed(&m, now, 1, 10000, 100 * MSEC); /* a thousandth of it */
	sn_model_idle(&m, BIG, now);
	uint64_t slow = sn_model_rate_of(&m, BIG, now);
	assert_true(slow < MB);
	assert_int_equal(sn_model_rate_of(&m, BIG, now + 400 * MSEC), slow);
	assert_true(sn_model_rate_of(&m, BIG, now + 2000 * MSEC) >= 8 * slow);
	uint64_t again = sn_model_rate_of(&m, BIG, now + 60000 * MSEC);
	assert_true(again > 60 * MB && again < 110 * MB); /* no more than it has shown */
	assert_true(sn_model_rate_of(&m, BIG, now + 100000000 * MSEC) == again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_laid_over_fifo),
		cmocka_unit_test(a_lone_request_leaves_at_once),
		cmocka_unit_test(full_frames_wait_for_a_train),
		cmocka_unit_test(the_end_of_a_burst_waits_for_no_answer),
		cmocka_unit_test(after_bursts_one_message_leaves_alone),
		cmocka_unit_test(short_ones_take_the_rail_that_is_through_first),
		cmocka_unit_test(rails_finish_together),
		cmocka_unit_test(equal_is_equal_and_one_is_one),
		cmocka_unit_test(the_last_block_goes_where_it_is_sooner_through),
		cmocka_unit_test(the_model_follows),
		cmocka_unit_test(the_least_latency_counts_but_is_not_for_ever),
		cmocka_unit_test(what_is_read_at_once_is_not_fast),
		cmocka_unit_test(good_news_is_believed_when_it_comes_twice),
		cmocka_unit_test(short_transfers_add_up),
		cmocka_unit_test(sizes_have_rates_of_their_own),
		cmocka_unit_test(a_trial_raises_a_figure_at_once),
		cmocka_unit_test(a_rail_that_is_not_used_is_given_another_chance),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

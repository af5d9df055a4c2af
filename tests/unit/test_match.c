/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: MPI's order under every mix of masks and sources, at a cost that does not grow with the queues. */
#include "match/again.h"
#include "unit.h"
#include <malloc.h>

#define EXACT UINT64_MAX
#define MANY  10000

static uint64_t probes(const struct sn_match *m)
{
	struct sn_match_stats s;
	sn_match_stats(m, &s);
	return s.probes;
}

static struct sn_match *new_match(void)
{
	struct sn_match *m = sn_match_new();
	assert_non_null(m);
	return m;
}

static void post(struct sn_match *m, struct sn_match_posted *p, uint64_t bits, uint64_t mask, uint32_t source)
{
	*p = (struct sn_match_posted){.bits = bits, .mask = mask, .source = source};
	assert_int_equal(sn_match_post(m, p), 0);
	assert_true(p->queued);
}

static void wait_unexpected(struct sn_match *m, struct sn_match_unexpected *u, uint64_t bits, uint32_t source)
{
	u->bits = bits;
	u->source = source;
	assert_int_equal(sn_match_unexpected(m, u), 0);
	assert_true(u->queued);
}

static void assert_empty(const struct sn_match *m)
{
	struct sn_match_stats s;
	sn_match_stats(m, &s);
	assert_int_equal(s.posted, 0);
	assert_int_equal(s.unexpected, 0);
	assert_true(s.groups <= s.classes * SN_MATCH_RECENT); /* those used lately */
}

/* ---- order ---- */

static void equal_receives_are_satisfied_in_posting_order(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_posted p[3];
	for (int i = 0; i < 3; i++)
		post(m, &p[i], 7, EXACT, 1);
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(sn_match_arrive(m, 7, 1), &p[i]);
	assert_null(sn_match_arrive(m, 7, 1));
	assert_empty(m);
	sn_match_free(m);
}

static void an_earlier_wildcard_wins_over_a_later_exact_receive(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_posted any_tag, any_source, exact, all;
	post(m, &any_tag, 0x10, 0xf0, 3);
	post(m, &exact, 0x17, EXACT, 3);
	post(m, &any_source, 0x17, EXACT, SN_MATCH_ANY);
	post(m, &all, 0, 0, SN_MATCH_ANY);
	assert_ptr_equal(sn_match_arrive(m, 0x17, 3), &any_tag);
	assert_ptr_equal(sn_match_arrive(m, 0x17, 4), &any_source);
	assert_ptr_equal(sn_match_arrive(m, 0x17, 3), &exact);
	assert_ptr_equal(sn_match_arrive(m, 0x99, 9), &all);
	assert_empty(m);
	sn_match_free(m);
}

static void the_earliest_waiting_message_is_found_first(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_unexpected u[4];
	wait_unexpected(m, &u[0], 0x21, 5);
	wait_unexpected(m, &u[1], 0x22, 6);
	wait_unexpected(m, &u[2], 0x21, 6);
	assert_ptr_equal(sn_match_find(m, 0x21, EXACT, 6), &u[2]);
	wait_unexpected(m, &u[3], 0x21, 6); /* indexed under the class that the line above made */
	assert_ptr_equal(sn_match_find(m, 0x21, EXACT, SN_MATCH_ANY), &u[0]);
	assert_ptr_equal(sn_match_find(m, 0x20, 0xf0, 6), &u[1]);
	sn_match_remove_unexpected(m, &u[1]);
	assert_ptr_equal(sn_match_find(m, 0x20, 0xf0, 6), &u[2]);
	sn_match_remove_unexpected(m, &u[2]);
	assert_ptr_equal(sn_match_find(m, 0x21, EXACT, 6), &u[3]);
	assert_null(sn_match_find(m, 0x22, EXACT, SN_MATCH_ANY));
	sn_match_remove_unexpected(m, &u[0]);
	sn_match_remove_unexpected(m, &u[3]);
	assert_empty(m);
	sn_match_free(m);
}

static void a_receive_that_stays_takes_message_after_message(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_posted multi = {.source = SN_MATCH_ANY, .stays = true}, later;
	assert_int_equal(sn_match_post(m, &multi), 0);
	post(m, &later, 0, 0, 2);
	for (uint32_t i = 0; i < 5; i++)
		assert_ptr_equal(sn_match_arrive(m, i, i), &multi);
	sn_match_remove_posted(m, &multi);
	assert_false(multi.queued);
	assert_null(sn_match_arrive(m, 0, 1));
	assert_ptr_equal(sn_match_arrive(m, 0, 2), &later);
	assert_empty(m);
	sn_match_free(m);
}

/* A multi-receive is posted before the waiting messages are handed to it, so both may stand under one key. */
static void a_posted_receive_and_a_waiting_message_share_a_key(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_posted multi = {.source = SN_MATCH_ANY, .stays = true};
	struct sn_match_unexpected u;
	wait_unexpected(m, &u, 4, 1);
	assert_int_equal(sn_match_post(m, &multi), 0);
	assert_ptr_equal(sn_match_find(m, 0, 0, SN_MATCH_ANY), &u);
	sn_match_remove_unexpected(m, &u);
	assert_ptr_equal(sn_match_arrive(m, 4, 1), &multi);
	sn_match_remove_posted(m, &multi);
	assert_empty(m);
	sn_match_free(m);
}

static void remove_posted_from(struct sn_match *m, uint32_t source)
{
	struct sn_match_posted *p;
	while ((p = sn_match_posted_from(m, source)))
		sn_match_remove_posted(m, p);
}

static void receives_from_a_dead_peer_are_found(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_posted p[40], any;
	post(m, &any, 0, 0, SN_MATCH_ANY);
	for (uint32_t i = 0; i < 40; i++) /* 20 masks: some stand in the linear list */
		post(m, &p[i], 0, (uint64_t)1 << (i % 20), i % 4);
	unsigned ended = 0;
	struct sn_match_posted *q;
	while ((q = sn_match_posted_from(m, 2))) {
		assert_int_equal(q->source, 2);
		sn_match_remove_posted(m, q);
		ended++;
	}
	assert_int_equal(ended, 10);
	for (uint32_t i = 0; i < 4; i++)
		remove_posted_from(m, i);
	remove_posted_from(m, SN_MATCH_ANY);
	assert_empty(m);
	sn_match_free(m);
}

/* ---- cost ---- */

/* Reversed is the worst order for a list from the head; forward, for chains that grow at their heads. */
static uint32_t nth(uint32_t i, uint32_t count, bool reversed)
{
	return reversed ? count - 1 - i : i;
}

static uint64_t probes_of_posted(uint32_t count, bool reversed)
{
	struct sn_match *m = new_match();
	struct sn_match_posted *p = calloc(count, sizeof *p);
	for (uint32_t i = 0; i < count; i++)
		post(m, &p[i], i, EXACT, 1);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t k = nth(i, count, reversed);
		assert_ptr_equal(sn_match_arrive(m, k, 1), &p[k]);
	}
	uint64_t cost = probes(m);
	assert_empty(m);
	sn_match_free(m);
	free(p);
	return cost;
}

static uint64_t probes_of_unexpected(uint32_t count, bool reversed)
{
	struct sn_match *m = new_match();
	struct sn_match_unexpected *u = calloc(count, sizeof *u), first;
	wait_unexpected(m, &first, count, 1);
	assert_ptr_equal(sn_match_find(m, count, EXACT, 1), &first); /* makes the class, once */
	sn_match_remove_unexpected(m, &first);
	uint64_t before = probes(m);
	for (uint32_t i = 0; i < count; i++)
		wait_unexpected(m, &u[i], i, 1);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t k = nth(i, count, reversed);
		assert_ptr_equal(sn_match_find(m, k, EXACT, 1), &u[k]);
		sn_match_remove_unexpected(m, &u[k]);
	}
	uint64_t cost = probes(m) - before;
	assert_empty(m);
	sn_match_free(m);
	free(u);
	return cost;
}

/*
 * The promise is O(1): the table is at most half full, so queueing compares half a key and finding 1.25 on average, 2 is
 * more than twenty standard deviations away. A list would need 5,000.
 */
static void ten_thousand_receives_cost_what_one_costs(void **state)
{
	assert_int_equal(probes_of_posted(1, false), 1);
	assert_in_range(probes_of_posted(MANY, false), MANY, 2 * MANY);
	assert_in_range(probes_of_posted(MANY, true), MANY, 2 * MANY);
}

static void ten_thousand_messages_cost_what_one_costs(void **state)
{
	assert_in_range(probes_of_unexpected(1, false), 1,
			2); /* one more if the first key shares its bucket */
	assert_in_range(probes_of_unexpected(MANY, false), MANY, 2 * MANY);
	assert_in_range(probes_of_unexpected(MANY, true), MANY, 2 * MANY);
}

/* One of each kind, with keys that never come again, as sequence numbers in tags do. */
static void turn_over(struct sn_match *m, uint64_t key)
{
	struct sn_match_posted p;
	struct sn_match_unexpected u;
	post(m, &p, key, EXACT, 1);
	assert_ptr_equal(sn_match_arrive(m, key, 1), &p);
	wait_unexpected(m, &u, key, 1);
	assert_ptr_equal(sn_match_find(m, key & 0xff, 0xff, SN_MATCH_ANY), &u);
	sn_match_remove_unexpected(m, &u);
}

static size_t heap_in_use(void)
{
	struct mallinfo2 i = mallinfo2();
	return i.uordblks + i.hblkhd;
}

static void the_steady_state_allocates_nothing(void **state)
{
	struct sn_match *m = new_match();
	for (uint64_t i = 0; i < 10000; i++) /* until each place for a group used lately has one */
		turn_over(m, i);
	size_t before = heap_in_use(); /* always 0 under the address sanitizer, whose heap is its own */
	for (uint64_t i = 10000; i < 100000; i++)
		turn_over(m, i);
	assert_int_equal(heap_in_use(), before);
	assert_empty(m);
	sn_match_free(m);
}

/*
 * One rank of 16 posts by turns for all others, and what comes is in another order. What waits from one is nothing to
 * the others.
 */
static void turns_of_fifteen_peers_are_as_cheap_as_one_peer(void **state)
{
	enum { PEERS = 15, TURNS = 3, AHEAD = 9 };
	struct sn_match *m = new_match();
	struct sn_match_posted p[TURNS][PEERS] = {0};
	struct sn_match_unexpected ahead;
	for (uint32_t i = 0; i < PEERS; i++) {
		post(m, &p[0][i], 5, EXACT, i);
		assert_ptr_equal(sn_match_arrive(m, 5, i), &p[0][i]);
	}
	wait_unexpected(m, &ahead, 5, AHEAD);
	for (int t = 0; t < TURNS; t++) {
		for (uint32_t i = 0; i < PEERS; i++) {
			p[t][i] = (struct sn_match_posted){.bits = 5, .mask = EXACT, .source = i};
			assert_int_equal(sn_match_post_again(m, &p[t][i]), i != AHEAD);
		}
	}
	for (uint32_t i = PEERS; i-- > 0;)
		for (int t = 0; i != AHEAD && t < TURNS; t++)
			assert_ptr_equal(sn_match_arrive_again(m, 5, i), &p[t][i]);
	assert_null(sn_match_arrive_again(m, 5, 0));
	sn_match_remove_unexpected(m, &ahead);
	assert_true(sn_match_post_again(m, &p[0][AHEAD]));
	assert_ptr_equal(sn_match_arrive_again(m, 5, AHEAD), &p[0][AHEAD]);
	assert_empty(m);
	sn_match_free(m);
}

static void ten_thousand_equal_keys_cost_one_comparison_each(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_posted *p = calloc(MANY, sizeof *p);
	for (int i = 0; i < MANY; i++)
		post(m, &p[i], 3, EXACT, 1);
	uint64_t before = probes(m);
	for (int i = 0; i < MANY; i++)
		assert_ptr_equal(sn_match_arrive(m, 3, 1), &p[i]);
	assert_int_equal(probes(m) - before, MANY);
	assert_empty(m);
	sn_match_free(m);
	free(p);
}

static void masks_beyond_the_classes_share_a_list_and_keep_the_order(void **state)
{
	struct sn_match *m = new_match();
	struct sn_match_posted p[64];
	struct sn_match_unexpected u;
	struct sn_match_stats s;
	for (int i = 0; i < 64; i++)
		post(m, &p[i], 0, (uint64_t)1 << i, 0);
	sn_match_stats(m, &s);
	assert_int_equal(s.classes, SN_MATCH_CLASSES);
	assert_int_equal(s.overflow, 64 - SN_MATCH_CLASSES);
	wait_unexpected(m, &u, EXACT, 0);
	assert_null(sn_match_find(m, 0, (uint64_t)1 << 63, 0));
	assert_ptr_equal(sn_match_find(m, (uint64_t)1 << 63, (uint64_t)1 << 63, 0), &u);
	sn_match_remove_unexpected(m, &u);
	sn_match_remove_posted(m, &p[63]);
	assert_null(sn_match_arrive(m, ((uint64_t)1 << 63) - 1, 0));
	for (int i = 0; i < 63; i++)
		assert_ptr_equal(sn_match_arrive(m, 0, 0), &p[i]);
	assert_empty(m);
	sn_match_free(m);
}

/* ---- against a list that is plainly right ---- */

#define MODEL_SLOTS 400

struct model {
	struct sn_match *m;
	uint64_t rng;
	unsigned masks, keys, sources, slots;
	uint64_t clock;
	struct sn_match_posted posted[MODEL_SLOTS];
	uint64_t posted_at[MODEL_SLOTS]; /* 0: the slot is free */
	struct sn_match_unexpected waiting[MODEL_SLOTS];
	uint64_t waiting_at[MODEL_SLOTS];
	uint64_t matched, removed, again, anew;
	bool alike; /* no receives from any source */
};

static uint64_t model_mask(struct model *t)
{
	static const uint64_t common[] = {UINT64_MAX, 0, 0xffff0000, 0xffff};
	uint64_t i = unit_random(&t->rng) % t->masks;
	return i < 4 ? common[i] : UINT64_MAX ^ ((uint64_t)0x11111 << (i % 40));
}

static uint64_t model_bits(struct model *t)
{
	return unit_random(&t->rng) % t->keys * 0x10001;
}

static int model_first(const uint64_t *at, bool (*hit)(const struct model *, int, const void *),
		       const struct model *t, const void *arg)
{
	int best = -1;
	for (int i = 0; i < MODEL_SLOTS; i++)
		if (at[i] && (best < 0 || at[i] < at[best]) && hit(t, i, arg))
			best = i;
	return best;
}

static bool model_free_slot(const uint64_t *at, struct model *t, int *slot)
{
	for (int tries = 0; tries < 20; tries++) {
		*slot = (int)(unit_random(&t->rng) % t->slots);
		if (!at[*slot])
			return true;
	}
	return false;
}

static bool posted_hit(const struct model *t, int i, const void *arg)
{
	const struct sn_match_unexpected *msg = arg;
	const struct sn_match_posted *p = &t->posted[i];
	return (msg->bits & p->mask) == p->bits && (p->source == SN_MATCH_ANY || p->source == msg->source);
}

static bool waiting_hit(const struct model *t, int i, const void *arg)
{
	const struct sn_match_posted *want = arg;
	const struct sn_match_unexpected *u = &t->waiting[i];
	return (u->bits & want->mask) == want->bits &&
	       (want->source == SN_MATCH_ANY || want->source == u->source);
}

static void model_arrive(struct model *t)
{
	struct sn_match_unexpected msg = {.bits = model_bits(t),
					  .source = (uint32_t)(unit_random(&t->rng) % t->sources)};
	int slot, expect = model_first(t->posted_at, posted_hit, t, &msg);
	/* in line, where that is for it, or not */
	struct sn_match_posted *got =
		unit_random(&t->rng) % 2 ? sn_match_arrive_again(t->m, msg.bits, msg.source) : NULL;
	t->again += got != NULL;
	if (!got)
		got = sn_match_arrive(t->m, msg.bits, msg.source);
	assert_ptr_equal(got, expect < 0 ? NULL : &t->posted[expect]);
	if (got) {
		t->matched++;
		assert_int_equal(got->queued, got->stays);
		if (!got->stays)
			t->posted_at[expect] = 0;
	} else if (model_free_slot(t->waiting_at, t, &slot)) {
		wait_unexpected(t->m, &t->waiting[slot], msg.bits, msg.source);
		t->waiting_at[slot] = ++t->clock;
	}
}

/* Has the place of this key a group of just that? */
static bool model_is_ready(const struct model *t, const struct sn_match_posted *p)
{
	const struct sn_match_group *g =
		t->m->classes[t->m->last_class].recent[sn_match_recent(p->bits, p->source)];
	return g && g->key == p->bits && g->source == p->source;
}

static void model_receive(struct model *t)
{
	uint64_t mask = model_mask(t);
	bool any = !t->alike && unit_random(&t->rng) % 3 == 0;
	struct sn_match_posted want = {
		.bits = model_bits(t) & mask,
		.mask = mask,
		.source = any ? SN_MATCH_ANY : (uint32_t)(unit_random(&t->rng) % t->sources),
		.stays = unit_random(&t->rng) % 16 == 0,
	};
	int slot, expect = model_first(t->waiting_at, waiting_hit, t, &want);
	struct sn_match_unexpected *got = sn_match_find(t->m, want.bits, want.mask, want.source);
	assert_ptr_equal(got, expect < 0 ? NULL : &t->waiting[expect]);
	if (got) {
		struct sn_match_posted p = want;
		assert_false(sn_match_post_again(t->m, &p));
		t->matched++;
		if (unit_random(&t->rng) % 4) { /* else it was only a probe */
			sn_match_remove_unexpected(t->m, got);
			t->waiting_at[expect] = 0;
		}
	} else if (model_free_slot(t->posted_at, t, &slot)) {
		t->posted[slot] = want;
		bool ready = model_is_ready(t, &want);
		bool again = !want.stays && unit_random(&t->rng) % 2 &&
			     sn_match_post_again(t->m, &t->posted[slot]);
		t->again += again;
		t->anew += again && !ready;
		if (!again)
			assert_int_equal(sn_match_post(t->m, &t->posted[slot]), 0);
		t->posted_at[slot] = ++t->clock;
	}
}

static void model_remove(struct model *t)
{
	int slot = (int)(unit_random(&t->rng) % t->slots);
	if (t->posted_at[slot]) {
		sn_match_remove_posted(t->m, &t->posted[slot]);
		t->posted_at[slot] = 0;
		t->removed++;
	}
	if (t->waiting_at[slot]) {
		sn_match_remove_unexpected(t->m, &t->waiting[slot]);
		t->waiting_at[slot] = 0;
		t->removed++;
	}
}

static void model_check_counts(const struct model *t)
{
	struct sn_match_stats s;
	uint64_t posted = 0, waiting = 0;
	for (int i = 0; i < MODEL_SLOTS; i++) {
		posted += t->posted_at[i] != 0;
		waiting += t->waiting_at[i] != 0;
	}
	sn_match_stats(t->m, &s);
	assert_int_equal(s.posted, posted);
	assert_int_equal(s.unexpected, waiting);
}

/* Slots are reused without clearing, as requests are. */
static struct model *model_new(uint64_t seed, unsigned masks, unsigned keys, unsigned sources, unsigned slots,
			       bool alike)
{
	struct model *t = calloc(1, sizeof *t);
	t->m = new_match();
	t->rng = seed;
	t->masks = masks;
	t->keys = keys;
	t->sources = sources;
	t->slots = slots;
	t->alike = alike;
	return t;
}

static void model_end(struct model *t)
{
	struct sn_match_unexpected *u;
	for (uint32_t i = 0; i < t->sources; i++)
		remove_posted_from(t->m, i);
	remove_posted_from(t->m, SN_MATCH_ANY);
	while ((u = sn_match_unexpected_any(t->m)))
		sn_match_remove_unexpected(t->m, u);
	assert_empty(t->m);
	sn_match_free(t->m);
	free(t);
}

static void model_steps(struct model *t)
{
	for (unsigned step = 0; step < 20000; step++) {
		/* The balance tilts to and fro, so that both queues grow long and drain. */
		unsigned tilt = step / 1000 % 2 ? 35 : 55, dice = (unsigned)(unit_random(&t->rng) % 100);
		if (dice < tilt)
			model_arrive(t);
		else if (dice < 90)
			model_receive(t);
		else
			model_remove(t);
		if (step % 500 == 0)
			model_check_counts(t);
	}
}

static void model_run(uint64_t seed, unsigned masks, unsigned keys, unsigned sources, bool alike)
{
	struct model *t = model_new(seed, masks, keys, sources, MODEL_SLOTS, alike);
	model_steps(t);
	assert_in_range(t->matched, 500, UINT64_MAX);
	assert_in_range(t->removed, 100, UINT64_MAX);
	assert_in_range(t->again, alike ? 300 : 0, UINT64_MAX);
	model_end(t);
}

/* So few wait at a time that most places for groups used lately have an empty one, which a new key takes as it is. */
static void model_run_few(uint64_t seed, unsigned masks, unsigned keys, unsigned sources, unsigned slots,
			  bool alike)
{
	struct model *t = model_new(seed, masks, keys, sources, slots, alike);
	model_steps(t);
	assert_in_range(t->matched, 20, UINT64_MAX);
	assert_in_range(t->anew, 20, UINT64_MAX);
	model_end(t);
}

static void every_answer_equals_that_of_a_plain_list(void **state)
{
	uint64_t seed = unit_seed();
	model_run(seed, 1, 200, 4, false);	/* exact tags only */
	model_run(seed + 5, 1, 3, 15, true);	/* several peers by turns */
	model_run(seed + 6, 1, 1, 64, true);	/* of whom some share a place */
	model_run(seed + 1, 4, 50, 3, false);	/* what MPI libraries do */
	model_run(seed + 2, 4, 2000, 2, false); /* many keys: tables grow */
	model_run(seed + 3, 40, 100, 3, false); /* more masks than classes */
	model_run(seed + 4, 40, 3, 1, false);	/* everything collides */
}

static void keys_that_are_new_each_time_get_the_same_answers(void **state)
{
	uint64_t seed = unit_seed();
	for (uint64_t i = 0; i < 8; i++) {
		model_run_few(seed + i, 1, 40, 1, 4, true);
		model_run_few(seed + i, 1, 10, 4, 5, false);
		model_run_few(seed + i, 1, 70, 1, 3, true);
		model_run_few(seed + i, 2, 20, 3, 4, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_receives_are_satisfied_in_posting_order),
		cmocka_unit_test(an_earlier_wildcard_wins_over_a_later_exact_receive),
		cmocka_unit_test(the_earliest_waiting_message_is_found_first),
		cmocka_unit_test(a_receive_that_stays_takes_message_after_message),
		cmocka_unit_test(a_posted_receive_and_a_waiting_message_share_a_key),
		cmocka_unit_test(receives_from_a_dead_peer_are_found),
		cmocka_unit_test(ten_thousand_receives_cost_what_one_costs),
		cmocka_unit_test(ten_thousand_messages_cost_what_one_costs),
		cmocka_unit_test(the_steady_state_allocates_nothing),
		cmocka_unit_test(turns_of_fifteen_peers_are_as_cheap_as_one_peer),
		cmocka_unit_test(ten_thousand_equal_keys_cost_one_comparison_each),
		cmocka_unit_test(masks_beyond_the_classes_share_a_list_and_keep_the_order),
		cmocka_unit_test(every_answer_equals_that_of_a_plain_list),
		cmocka_unit_test(keys_that_are_new_each_time_get_the_same_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

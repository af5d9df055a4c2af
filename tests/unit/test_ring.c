/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring by itself: records of every length against a model, over many laps, with payload that looks like marks. */
#include "local/local.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void *segment(uint32_t ring_bytes)
{
	void *at = aligned_alloc(4096, SN_RING_OFFSET + ring_bytes);
	assert_non_null(at);
	memset(at, 0, SN_RING_OFFSET + ring_bytes);
	return at;
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

struct seen {
	uint64_t full, laps;
	unsigned back; /* to the beginning, long before the ring's end */
};

/* Of up to `most` cells. */
static struct seen come_out_as_they_went_in(uint32_t bytes, uint32_t most)
{
	const uint32_t cells = bytes / SN_CELL;
	struct seen seen = {0};
	void *map = segment(bytes);
	struct sn_tx tx;
	struct sn_rx rx;
	uint32_t seed = 1, in_flight = 0;
	uint64_t written = 0, read = 0, full = 0;
	sn_tx_init(&tx, map, bytes);
	sn_rx_init(&rx, map, bytes);
	for (int step = 0; step < 400000; step++) {
		bool send = next_random(&seed) % 100 < (step / 1000 % 2 ? 70u : 30u);
		if (send) {
			uint32_t n = next_random(&seed) % 3 ? 1 : 1 + next_random(&seed) % most;
			struct sn_cell *cell = sn_tx_room(&tx, n);
			assert_false(tx.bad);
			if (!cell) {
				full++;
				continue;
			}
			/* as nasty as payload can be, up to the last byte */
			memset(sn_cell_payload(cell), 0xff, n * SN_CELL - SN_REC_HEAD);
			cell->len = n;
			cell->bits = written++;
			sn_tx_publish(&tx, SN_REC_MSG, 0, n);
			in_flight++;
			continue;
		}
		uint32_t mark = sn_rx_mark(&rx);
		if (!mark) {
			assert_int_equal(in_flight, 0); /* what was published is seen */
			sn_rx_publish(&rx);
			continue;
		}
		uint32_t n = mark >> 16;
		uint32_t at = (uint32_t)rx.head & (cells - 1);
		assert_true(n && at + n <= cells);
		if ((mark & 0xff) == SN_REC_MSG) {
			assert_int_equal(rx.cells[at].bits, read);
			assert_int_equal(rx.cells[at].len, n);
			for (uint32_t i = 0; i < n * SN_CELL - SN_REC_HEAD; i++)
				assert_int_equal(sn_cell_payload(&rx.cells[at])[i], 0xff);
			memset(sn_cell_payload(&rx.cells[at]), 0xaa, n * SN_CELL - SN_REC_HEAD);
			read++;
			in_flight--;
		} else {
			assert_int_equal(mark & 0xff, SN_REC_PAD);
			seen.back += n > most;
		}
		rx.head += n;
		if (next_random(&seed) % 4 == 0)
			sn_rx_publish(&rx);
	}
	assert_true(written > 10000);
	seen.full = full;
	seen.laps = tx.tail / cells;
	free(map);
	return seen;
}

static void records_come_out_as_they_went_in(void **state)
{
	struct seen seen = come_out_as_they_went_in(SN_RING_BYTES_MIN, SN_RING_BYTES_MIN / SN_CELL / 4);
	assert_true(seen.full > 100 && seen.laps > 100);
	/* and where short ones go back with some still to be read */
	seen = come_out_as_they_went_in(4 * SN_RING_NARROW * SN_CELL, 3);
	assert_true(seen.back > 3);
}

static void an_empty_ring_takes_the_longest_record_anywhere(void **state)
{
	const uint32_t bytes = SN_RING_BYTES_MIN, cells = bytes / SN_CELL;
	void *map = segment(bytes);
	struct sn_tx tx;
	struct sn_rx rx;
	sn_tx_init(&tx, map, bytes);
	sn_rx_init(&rx, map, bytes);
	for (uint32_t start = 0; start < 3 * cells; start++) {
		tx.lap = UINT64_MAX; /* from everywhere, not from the beginning again and again */
		struct sn_cell *cell = sn_tx_room(&tx, cells / 4);
		assert_non_null(cell);
		sn_tx_publish(&tx, SN_REC_MSG, 0, cells / 4);
		cell = sn_tx_room(&tx, 1);
		assert_non_null(cell);
		sn_tx_publish(&tx, SN_REC_MSG, 0, 1);
		uint32_t mark;
		while ((mark = sn_rx_mark(&rx)) != 0)
			rx.head += mark >> 16;
		assert_int_equal(rx.head, tx.tail);
		sn_rx_publish(&rx);
	}
	free(map);
}

/* Write a record of n cells; the cell it began in, -1: no room. */
static int put(struct sn_tx *tx, uint32_t n)
{
	struct sn_cell *cell = sn_tx_room(tx, n);
	if (!cell)
		return -1;
	sn_tx_publish(tx, SN_REC_MSG, 0, n);
	return (int)(cell - tx->cells);
}

static void read_all(struct sn_rx *rx)
{
	uint32_t mark;
	while ((mark = sn_rx_mark(rx)) != 0)
		rx->head += mark >> 16;
	sn_rx_publish(rx);
}

static void in_a_crowd_who_keeps_up_needs_two_pages_of_the_ring(void **state)
{
	void *map = segment(SN_RING_BYTES_MIN);
	const int cells = SN_RING_BYTES_MIN / SN_CELL, lap = SN_RING_LAP;
	struct sn_tx tx;
	struct sn_rx rx;
	int farthest = 0, at;
	sn_tx_init(&tx, map, SN_RING_BYTES_MIN);
	sn_rx_init(&rx, map, SN_RING_BYTES_MIN);
	sn_relax_crowd(1000000);
	for (uint32_t i = 0; i < 10000; i++) {
		at = put(&tx, 1 + i % 3);
		farthest = SN_MAX_OF(farthest, at);
		read_all(&rx);
	}
	assert_in_range(farthest, lap - 3, lap + 2);
	while ((at = put(&tx, 1)) >= 0) /* who lags behind has all of it */
		farthest = SN_MAX_OF(farthest, at);
	assert_int_equal(farthest, cells - 1);
	read_all(&rx);
	sn_relax_crowd(0);
	farthest = 0;
	for (int i = 0; i < cells; i++) {
		at = put(&tx, 1);
		farthest = SN_MAX_OF(farthest, at);
		read_all(&rx);
	}
	assert_int_equal(farthest, cells - 1);
	free(map);
}

/* The way back is padding, which takes the room of records until the receiver has passed it. */
static void in_a_crowd_the_way_back_costs_a_burst_its_room_a_few_times_only(void **state)
{
	static const struct {
		uint32_t records, cells;
	} bursts[] = {{128, 1}, {4, 512}, {64, 20}};
	const uint32_t bytes = 8 * SN_RING_NARROW * SN_CELL;
	for (unsigned b = 0; b < sizeof(bursts) / sizeof(bursts[0]); b++) {
		void *map = segment(bytes);
		struct sn_tx tx;
		struct sn_rx rx;
		int full = 0, farthest = 0, all = (int)(bursts[b].records * bursts[b].cells);
		sn_tx_init(&tx, map, bytes);
		sn_rx_init(&rx, map, bytes);
		sn_relax_crowd(1000000);
		for (int turn = 0; turn < 1000; turn++) {
			for (uint32_t i = 0; i < bursts[b].records; i++) {
				while (put(&tx, bursts[b].cells) < 0) {
					full += 1;
					assert_true(turn < 100);
					assert_int_equal(put(&tx, bursts[b].cells),
							 -1); /* asks again, as senders do */
					read_all(&rx);
				}
				if (turn >= 500) /* where it ends */
					farthest = SN_MAX_OF(farthest, (int)(tx.tail % tx.count));
			}
			read_all(&rx);
		}
		assert_in_range(full, 1, 6);
		assert_in_range(farthest, all, 4 * all); /* and it still goes back */
		sn_relax_crowd(0);
		free(map);
	}
}

/* How far records of a cell go in a large ring if so many of them are always still to be read. */
static int farthest_behind(uint32_t behind)
{
	const uint32_t bytes = 8 * SN_RING_NARROW * SN_CELL;
	void *map = segment(bytes);
	struct sn_tx tx;
	struct sn_rx rx;
	int farthest = 0;
	sn_tx_init(&tx, map, bytes);
	sn_rx_init(&rx, map, bytes);
	for (uint32_t i = 0; i < 3 * tx.count; i++) {
		uint32_t mark;
		farthest = SN_MAX_OF(farthest, put(&tx, 1));
		while (tx.tail - rx.head > behind && (mark = sn_rx_mark(&rx)) != 0)
			rx.head += mark >> 16;
		sn_rx_publish(&rx);
	}
	free(map);
	return farthest;
}

static void who_nearly_keeps_up_needs_no_more(void **state)
{
	int narrow = SN_RING_NARROW, lap = SN_RING_LAP;
	for (uint32_t behind = 0; behind <= SN_RING_LAP; behind += SN_RING_LAP / 2)
		assert_in_range(farthest_behind(behind), narrow - 1, narrow + lap);
	assert_int_equal(farthest_behind(SN_RING_LAP + 1), 8 * narrow - 1);
}

static void who_keeps_up_with_short_records_needs_a_part_of_a_large_ring(void **state)
{
	const uint32_t bytes = 8 * SN_RING_NARROW * SN_CELL;
	const int narrow = SN_RING_NARROW, cells = (int)(bytes / SN_CELL), n = SN_RING_LAP + 1;
	void *map = segment(bytes);
	struct sn_tx tx;
	struct sn_rx rx;
	sn_tx_init(&tx, map, bytes);
	sn_rx_init(&rx, map, bytes);
	for (int turn = 0; turn < 2; turn++) {
		int farthest = 0;
		for (int i = 0; i < 2 * cells; i++) {
			int at = put(&tx, 1);
			farthest = SN_MAX_OF(farthest, at);
			read_all(&rx);
		}
		assert_in_range(farthest, narrow - 1, narrow + SN_RING_LAP);
		for (int i = 0; i < cells / n; i++) { /* long ones use it all, with short ones between them */
			int at = put(&tx, i % 4 ? (uint32_t)n : 1);
			farthest = SN_MAX_OF(farthest, at);
			read_all(&rx);
		}
		assert_in_range(farthest, cells / 2, cells - 1);
		for (int i = 0; i < cells; i++) {
			put(&tx, 1);
			read_all(&rx);
		}
	}
	free(map);
}

/*
 * As many lines as a record of up to `ahead` cells has are fetched for the next; of a longer one's, none but that
 * behind it.
 */
static void lines_are_got_ready_for_records_up_to(uint32_t ahead)
{
	void *map = segment(SN_RING_BYTES_MIN);
	struct sn_tx tx;
	struct sn_rx rx;
	sn_tx_init(&tx, map, SN_RING_BYTES_MIN);
	sn_rx_init(&rx, map, SN_RING_BYTES_MIN);
	assert_int_equal(tx.ahead, SN_RING_AHEAD_MAX);
	tx.ahead = ahead;
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t n = i % 3 ? ahead : ahead + 1;
		bool old = tx.tail > tx.count + n; /* not a line of the first lap, which is clean */
		assert_non_null(sn_tx_room(&tx, n));
		sn_tx_publish(&tx, SN_REC_MSG, 0, n);
		if (old)
			assert_int_equal(tx.clean - tx.tail, i % 3 ? 1 + SN_RING_AHEAD : 1);
		bool more = sn_tx_prepare(&tx);
		if (old)
			assert_int_equal(more, i % 3 != 0);
		read_all(&rx);
		sn_tx_refresh(&tx);
		for (unsigned looks = 0; i % 3 && looks <= ahead / SN_RING_AT_A_LOOK; looks++)
			sn_tx_prepare(&tx);
		if (old && i % 3)
			assert_int_equal(tx.clean - tx.tail, 1 + ahead);
	}
	free(map);
}

/* Of a longer one that is made in parts no more than `ahead`. */
static void no_more_lines_are_wanted_than_allowed(void **state)
{
	void *map = segment(SN_RING_BYTES_MIN);
	struct sn_tx tx;
	sn_tx_init(&tx, map, SN_RING_BYTES_MIN);
	tx.ahead = 20;
	sn_tx_want(&tx, 19);
	assert_int_equal(tx.want, tx.tail + 1 + 19);
	sn_tx_want(&tx, 21);
	assert_int_equal(tx.want, tx.tail + 1 + 20);
	free(map);
}

static void lines_are_got_ready_for_short_records_only(void **state)
{
	lines_are_got_ready_for_records_up_to(SN_RING_AHEAD_MAX);
	lines_are_got_ready_for_records_up_to(200);
}

static void a_head_that_makes_no_sense_is_noticed(void **state)
{
	static const int64_t heads[] = {-1, 600, INT64_MIN, INT64_MAX};
	for (unsigned i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		void *map = segment(SN_RING_BYTES_MIN);
		struct sn_tx tx;
		sn_tx_init(&tx, map, SN_RING_BYTES_MIN);
		atomic_store(&tx.chan->head, (uint64_t)heads[i]);
		for (int n = 0; n < 1000 && sn_tx_room(&tx, 1); n++)
			sn_tx_publish(&tx, SN_REC_MSG, 0, 1);
		assert_true(tx.bad);
		assert_true(tx.tail <= tx.count);
		free(map);
	}
}

static void a_head_that_goes_back_is_noticed(void **state)
{
	void *map = segment(SN_RING_BYTES_MIN);
	struct sn_tx tx;
	sn_tx_init(&tx, map, SN_RING_BYTES_MIN);
	uint64_t heads[] = {100, 50};
	for (unsigned i = 0; i < 2; i++) {
		while (tx.tail - tx.head + 2 <= tx.count)
			sn_tx_publish(&tx, SN_REC_MSG, 0, 1);
		atomic_store(&tx.chan->head, heads[i]);
		assert_int_equal(sn_tx_room(&tx, 1) != NULL, i == 0);
	}
	assert_true(tx.bad);
	free(map);
}

static unsigned pages_there(void *map, size_t bytes)
{
	unsigned char there[1024];
	unsigned n = 0;
	assert_in_range(bytes / 4096, 1, sizeof(there));
	assert_int_equal(mincore(map, bytes, there), 0);
	for (size_t i = 0; i < bytes / 4096; i++)
		n += there[i] & 1;
	return n;
}

/* The pages of the first lap come several at a time, and no more than as many again as were used. */
static void the_first_lap_has_its_pages_made(void **state)
{
	const uint32_t bytes = 512 << 10;
	const size_t all = SN_RING_OFFSET + bytes;
	void *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sn_tx tx;
	unsigned steps = 0, before = 0;
	if (sn_relax_crowded()) /* on one core each ring is two pages */
		skip();
	assert_true(map != MAP_FAILED);
	if (madvise(map, 4096, 23)) /* MADV_POPULATE_WRITE, since Linux 5.14 */
		skip();
	sn_tx_init(&tx, map, bytes);
	for (uint32_t i = 0; i < SN_RING_NARROW; i++) {
		assert_non_null(sn_tx_room(&tx, 1));
		sn_tx_publish(&tx, SN_REC_MSG, 0, 1);
		unsigned now = pages_there(map, all), used = 1 + i / SN_RING_LAP;
		steps += now > before;
		before = now;
		assert_in_range(now, used, 2 * used + 3); /* the channel's own, and lines made ready ahead */
	}
	assert_in_range(steps, 2, 10);
	munmap(map, all);
}

/*
 * Each hand-over costs, so there are few; the first soon, the others at the end of a page, and together they are the
 * message.
 */
static void a_long_message_is_handed_over_in_few_steps(void **state)
{
	static const struct {
		uint32_t len;
		unsigned steps;
	} most[] = {{SN_PART_FROM, 2}, {16384, 2}, {32768, 3}, {65536, 4}, {262144, 9}, {524287, 17}};
	uint8_t *page = segment(0);
	for (uint32_t off = 0; off < 4096; off += SN_CELL) {
		const uint8_t *body = page + off;
		for (unsigned i = 0; i < sizeof(most) / sizeof(*most); i++) {
			unsigned steps = 0;
			for (uint32_t at = 0, n; at < most[i].len; at += n, steps++) {
				n = sn_part_step(body, at, most[i].len);
				assert_true(n && n <= most[i].len - at);
				if (!at)
					assert_true(n <= SN_PART_FIRST + SN_PART_LEAST);
				assert_true(n <= SN_MAX_OF(most[i].len / 4, SN_PART_FIRST) + SN_PART_PAGE);
				if (at + n < most[i].len)
					assert_int_equal((off + at + n) % 4096, 0);
			}
			assert_in_range(steps, 2, most[i].steps + 1);
		}
	}
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_out_as_they_went_in),
		cmocka_unit_test(an_empty_ring_takes_the_longest_record_anywhere),
		cmocka_unit_test(in_a_crowd_who_keeps_up_needs_two_pages_of_the_ring),
		cmocka_unit_test(in_a_crowd_the_way_back_costs_a_burst_its_room_a_few_times_only),
		cmocka_unit_test(who_keeps_up_with_short_records_needs_a_part_of_a_large_ring),
		cmocka_unit_test(who_nearly_keeps_up_needs_no_more),
		cmocka_unit_test(a_long_message_is_handed_over_in_few_steps),
		cmocka_unit_test(the_first_lap_has_its_pages_made),
		cmocka_unit_test(lines_are_got_ready_for_short_records_only),
		cmocka_unit_test(no_more_lines_are_wanted_than_allowed),
		cmocka_unit_test(a_head_that_makes_no_sense_is_noticed),
		cmocka_unit_test(a_head_that_goes_back_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

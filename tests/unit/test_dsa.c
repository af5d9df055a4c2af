/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies by a copy engine's queue, which is a double here: every byte is there whatever the engine does, nothing is written
 * after the end, and a silent engine is given up. Messages by it are in test_heap.c.
 */
#include "dsa_double.h"
#include "sennit/sennit.h"
#include "unit.h"

#define N ((size_t)3 << 20)

static struct dsa_double *engine;
static struct sn_dsa *d;
static uint8_t *from, *to;

/* What both sides must mean by the same names: the kernel's header has what the engine wants. */
#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #theirs)
#define SAME_PLACE(ours, at, theirs, there)                                                                  \
	SAME(offsetof(struct ours, at), offsetof(struct theirs, there));                                     \
	SAME(sizeof(((struct ours *)0)->at), sizeof(((struct theirs *)0)->there))
SAME(sizeof(struct sn_dsa_desc), sizeof(struct dsa_hw_desc));
SAME(sizeof(struct sn_dsa_record), sizeof(struct dsa_completion_record));
SAME_PLACE(sn_dsa_desc, completion, dsa_hw_desc, completion_addr);
SAME_PLACE(sn_dsa_desc, src, dsa_hw_desc, src_addr);
SAME_PLACE(sn_dsa_desc, dst, dsa_hw_desc, dst_addr);
SAME_PLACE(sn_dsa_desc, bytes, dsa_hw_desc, xfer_size);
SAME_PLACE(sn_dsa_record, status, dsa_completion_record, status);
SAME_PLACE(sn_dsa_record, bytes, dsa_completion_record, bytes_completed);
SAME_PLACE(sn_dsa_record, fault, dsa_completion_record, fault_addr);
SAME(SN_DSA_MEMMOVE, DSA_OPCODE_MEMMOVE);
SAME(SN_DSA_FLAG_BOF, IDXD_OP_FLAG_BOF);
SAME(SN_DSA_FLAG_CRAV, IDXD_OP_FLAG_CRAV);
SAME(SN_DSA_FLAG_RCR, IDXD_OP_FLAG_RCR);
SAME(SN_DSA_FLAG_CC, IDXD_OP_FLAG_CC);
SAME((int)SN_DSA_SUCCESS, (int)DSA_COMP_SUCCESS);
SAME((int)SN_DSA_PAGE_FAULT, (int)DSA_COMP_PAGE_FAULT_NOBOF);
SAME((int)SN_DSA_STATUS_MASK, (int)DSA_COMP_STATUS_MASK);

static int start_as(bool pipe)
{
	engine = dsa_double_start_as(pipe);
	from = malloc(N + 64);
	to = malloc(N + 64);
	for (size_t i = 0; i < N + 64; i++)
		from[i] = (uint8_t)(i * 7 + (i >> 9));
	return sn_dsa_open(engine->dir, &d);
}

static int start(void **state)
{
	return start_as(false);
}

static int start_pipe(void **state)
{
	return start_as(true);
}

static int tear_down(void **state)
{
	sn_dsa_close(d);
	dsa_double_stop(engine);
	free(from);
	free(to);
	return 0;
}

/* Both sides in pieces of other lengths; returns what the engine copied. */
static uint64_t copy(size_t len)
{
	struct iovec a[7], b[3];
	size_t at = 0;
	uint64_t by_engine = 0;
	for (unsigned i = 0; i < 7; i++, at += len / 7)
		a[i] = (struct iovec){from + 1 + at, i == 6 ? len - at : len / 7};
	at = 0;
	for (unsigned i = 0; i < 3; i++, at += len / 3)
		b[i] = (struct iovec){to + 3 + at, i == 2 ? len - at : len / 3};
	memset(to, 0x55, N + 64);
	struct sn_dsa_copy *c = sn_dsa_copy_start(d, b, 3, a, 7, len);
	assert_non_null(c);
	while (!sn_dsa_copy_poll(c, &by_engine))
		;
	sn_dsa_copy_end(c);
	assert_memory_equal(to + 3, from + 1, len);
	assert_true(to[2] == 0x55 && to[3 + len] == 0x55);
	assert_int_equal(engine->odd, 0);
	return by_engine;
}

static void every_byte_is_there(void **state)
{
	static const size_t sizes[] = {SN_DSA_MIN, SN_DSA_MIN + 1, SN_DSA_PART, 1000003, N - 5};
	uint64_t all = 0, by_engine = 0;
	for (unsigned i = 0; i < 5; i++) {
		all += sizes[i];
		by_engine += copy(sizes[i]);
	}
	assert_true(by_engine > all / 4 &&
		    by_engine <= all); /* the double's queue holds one: the CPU does the rest */
	engine->how = DSA_LATE;
	assert_true(copy(1000003) > 0);
}

static void what_the_engine_leaves_the_processor_copies(void **state)
{
	engine->how = DSA_PARTLY;
	assert_true(copy(N) < N);
	engine->how = DSA_BADLY;
	assert_int_equal(copy(N), 0);
	if (engine->page) {
		atomic_store(&engine->page->claimed, 1); /* full, and it stays so */
		assert_int_equal(copy(N), 0);
		atomic_store(&engine->page->claimed, 0);
	}
	engine->how = DSA_WELL;
	assert_true(copy(N) > 0);
}

/* Given up in mid-copy: what is under way is waited for, and nothing comes later. */
static void an_end_is_an_end(void **state)
{
	struct iovec a = {from, N}, b = {to, N};
	engine->how = DSA_LATE;
	struct sn_dsa_copy *c = sn_dsa_copy_start(d, &b, 1, &a, 1, N);
	assert_non_null(c);
	sn_dsa_copy_end(c);
	memset(to, 0x11, N);
	usleep(20000);
	for (size_t i = 0; i < N; i += 61)
		assert_int_equal(to[i], 0x11);
}

static void a_silent_engine_is_given_up(void **state)
{
	engine->how = DSA_NEVER;
	assert_int_equal(sn_dsa_queues(d), 1);
	assert_int_equal(copy(N), 0);
	assert_int_equal(sn_dsa_queues(d), 0);
	struct iovec a = {from, N}, b = {to, N};
	assert_null(sn_dsa_copy_start(d, &b, 1, &a, 1, N));
}

/* As when the whole machine was stopped: nobody could have heard it. */
static void a_silence_that_nobody_heard_is_none(void **state)
{
	struct iovec a = {from, N}, b = {to, N};
	uint64_t by_engine = 0;
	engine->how = DSA_HELD;
	struct sn_dsa_copy *c = sn_dsa_copy_start(d, &b, 1, &a, 1, N);
	assert_non_null(c);
	sleep(3);
	assert_false(sn_dsa_copy_poll(c, &by_engine));
	assert_int_equal(sn_dsa_queues(d), 1);
	engine->how = DSA_WELL;
	while (!sn_dsa_copy_poll(c, &by_engine))
		;
	sn_dsa_copy_end(c);
	assert_true(by_engine > 0);
	assert_memory_equal(to, from, N);
}

/* A queue that the kernel maps for nobody, and one that takes no descriptors either. */
static void a_queue_that_may_not_be_mapped_is_written_to(void **state)
{
	struct sn_dsa *other;
	char path[100];
	assert_string_equal(sn_dsa_describe(d, 0), "wq0.0 (shared, 16 entries, by system calls)");
	assert_int_equal(copy(N), N); /* a pipe is never full */
	snprintf(path, sizeof(path), "%s/wq0.0", engine->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/proc/self/stat", path), 0);
	assert_int_equal(sn_dsa_open(engine->dir, &other), SN_ERR_UNSUPPORTED);
}

/* Threads give it parts while one finds it silent: nobody touches what is closed. */
static void *keep_copying(void *end)
{
	static uint8_t a[SN_DSA_MIN];
	struct iovec f = {a, sizeof(a)}, t = {malloc(sizeof(a)), sizeof(a)};
	uint64_t by_engine;
	while (!atomic_load((_Atomic bool *)end)) {
		struct sn_dsa_copy *c = sn_dsa_copy_start(d, &t, 1, &f, 1, sizeof(a));
		while (c && !sn_dsa_copy_poll(c, &by_engine))
			;
		if (c)
			sn_dsa_copy_end(c);
	}
	free(t.iov_base);
	return NULL;
}

static void closing_waits_for_who_submits(void **state)
{
	_Atomic bool end = false;
	pthread_t t[3];
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, keep_copying, &end), 0);
	usleep(5000);
	engine->how = DSA_NEVER;
	while (sn_dsa_queues(d))
		usleep(1000);
	atomic_store(&end, true);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static void queues_are_described(void **state)
{
	struct sn_dsa *other;
	dsa_double_says(engine, "mode", "shared");
	dsa_double_says(engine, "size", "32");
	dsa_double_says(engine, "block_on_fault", "1");
	assert_int_equal(sn_dsa_open(engine->dir, &other), 0);
	assert_string_equal(sn_dsa_describe(other, 0), "wq0.0 (double, 32 entries)");
	assert_string_equal(sn_dsa_describe(other, 1), "");
	sn_dsa_close(other);
	atomic_store(&engine->page->claimed, 0);
	assert_int_equal(sn_dsa_open("/nowhere", &other), SN_ERR_UNSUPPORTED);
	assert_int_equal(sn_dsa_open("off", &other), SN_ERR_UNSUPPORTED);
	assert_int_equal(sn_dsa_open("/proc", &other), SN_ERR_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_byte_is_there, start, tear_down),
		cmocka_unit_test_setup_teardown(what_the_engine_leaves_the_processor_copies, start,
						tear_down),
		cmocka_unit_test_setup_teardown(an_end_is_an_end, start, tear_down),
		cmocka_unit_test_setup_teardown(a_silent_engine_is_given_up, start, tear_down),
		cmocka_unit_test_setup_teardown(a_silence_that_nobody_heard_is_none, start, tear_down),
		cmocka_unit_test_setup_teardown(every_byte_is_there, start_pipe, tear_down),
		cmocka_unit_test_setup_teardown(what_the_engine_leaves_the_processor_copies, start_pipe,
						tear_down),
		cmocka_unit_test_setup_teardown(an_end_is_an_end, start_pipe, tear_down),
		cmocka_unit_test_setup_teardown(a_silent_engine_is_given_up, start_pipe, tear_down),
		cmocka_unit_test_setup_teardown(a_queue_that_may_not_be_mapped_is_written_to, start_pipe,
						tear_down),
		cmocka_unit_test_setup_teardown(closing_waits_for_who_submits, start, tear_down),
		cmocka_unit_test_setup_teardown(closing_waits_for_who_submits, start_pipe, tear_down),
		cmocka_unit_test_setup_teardown(queues_are_described, start, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

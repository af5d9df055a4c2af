/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many cache lines go from one core to the other for a message? Both endpoints live in this process, each with its own
 * mapping of what they share. These mappings are protected, so that every access traps: it is noted, let through for one
 * instruction, and the protection comes back. Two caches without limits are played from that: a line moves when one side
 * touches it that the other has had to itself. So the figures are exact, on any machine and under any load.
 */
#include "core/core.h"
#include "local/local.h"
#include "sides.h"
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRACED 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef TRACED
#endif
#endif

#ifdef TRACED

#define PAGE	     4096u
#define REGIONS	     10
#define OBJECT_LINES 8192u /* 512 KiB */
#define OBJECTS	     5
#define MESSAGES     300 /* more than a lap of the smallest ring; a trap takes up to 0.1 ms */

static struct sn_link *link_of[2];

static void finish(int who, sn_req *req)
{
	sn_completion c;
	while (sn_test(side[who].ep, req, &c) == SN_ERR_AGAIN)
		sn_progress(side[!who].ep);
	assert_int_equal(c.status, SN_OK);
}

/* One message from this side; polled: the receiver has looked for it in vain before. */
static void message(int from, size_t len, bool polled, void (*at)(int who))
{
	static char out[256], in[256];
	sn_req *sent, *got;
	at(!from);
	assert_int_equal(sn_irecv(side[!from].ep, side[!from].peer, in, sizeof(in), 5, UINT64_MAX, &got), 0);
	if (polled)
		sn_progress(side[!from].ep);
	at(from);
	memset(out, (int)len, len);
	assert_int_equal(sn_isend(side[from].ep, side[from].peer, out, len, 5, &sent), 0);
	assert_int_equal(sn_test(side[from].ep, sent, NULL), SN_OK);
	at(!from);
	sn_completion c;
	assert_int_equal(sn_test(side[!from].ep, got, &c), SN_OK);
	at(-1);
	assert_int_equal(c.len, len);
	assert_memory_equal(in, out, len);
}

/* Both send before either has looked; who was first has looked in vain when the other comes. */
static void exchange(int first, size_t len, void (*at)(int who))
{
	static char out[256], in[2][256];
	sn_req *sent, *got[2];
	for (int k = 0; k < 2; k++) {
		int who = k ? !first : first;
		at(who);
		assert_int_equal(sn_irecv(side[who].ep, side[who].peer, in[who], sizeof(in[who]), 5,
					  UINT64_MAX, &got[who]),
				 0);
		assert_int_equal(sn_isend(side[who].ep, side[who].peer, out, len, 5, &sent), 0);
		assert_int_equal(sn_test(side[who].ep, sent, NULL), SN_OK);
		if (!k)
			sn_progress(side[who].ep);
	}
	for (int k = 0; k < 2; k++) {
		int who = k ? first : !first;
		at(who);
		assert_int_equal(sn_test(side[who].ep, got[who], NULL), SN_OK);
	}
	at(-1);
}

static struct region {
	char *base;
	size_t len;
	unsigned object;
} regions[REGIONS];
static unsigned region_count;
static uint8_t holders[OBJECTS][OBJECT_LINES]; /* a bit for each side that has the line */
static int running = -1;
static char *opened[4];
static unsigned opened_count;
static struct {
	unsigned moved, taken; /* lines that came over; lines that the other lost, without data coming over */
} now, most, sum;

static void watch(void *base, size_t len, unsigned object)
{
	assert_true(region_count < REGIONS && len <= (size_t)OBJECT_LINES * SN_LINE);
	regions[region_count++] = (struct region){base, len, object};
}

static void protect(int how)
{
	for (unsigned i = 0; i < region_count; i++)
		assert_int_equal(mprotect(regions[i].base, regions[i].len, how), 0);
}

/* What the two caches do. */
static void touch(unsigned object, size_t line, bool write)
{
	uint8_t *h = &holders[object][line], mine = (uint8_t)(1u << running), other = mine ^ 3;
	if (!(*h & mine) && *h & other)
		now.moved++;
	else if (write && *h & other)
		now.taken++;
	*h = write ? mine : (uint8_t)(*h | mine);
}

static void on_access(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	char *at = info->si_addr;
	for (unsigned i = 0; i < region_count; i++) {
		struct region *r = &regions[i];
		if (at < r->base || at >= r->base + r->len)
			continue;
		if (running < 0 || opened_count == sizeof(opened) / sizeof(*opened))
			break;
		touch(r->object, (size_t)(at - r->base) / SN_LINE, u->uc_mcontext.gregs[REG_ERR] & 2);
		char *page = r->base + (size_t)(at - r->base) / PAGE * PAGE;
		mprotect(page, PAGE, PROT_READ | PROT_WRITE);
		opened[opened_count++] = page;
		u->uc_mcontext.gregs[REG_EFL] |= 0x100; /* a trap after the instruction */
		return;
	}
	signal(SIGSEGV, SIG_DFL);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	while (opened_count)
		mprotect(opened[--opened_count], PAGE, PROT_NONE);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

static void run_as(int who)
{
	running = who;
}

static void count(void)
{
	sum.moved += now.moved;
	sum.taken += now.taken;
	most.moved = SN_MAX_OF(most.moved, now.moved);
	most.taken = SN_MAX_OF(most.taken, now.taken);
	now.moved = now.taken = 0;
}

static void traced_message(int from, size_t len, bool polled)
{
	message(from, len, polled, run_as);
	count();
}

static void traced_exchange(int first, size_t len)
{
	exchange(first, len, run_as);
	count();
}

static void trace_begin(void)
{
	struct sigaction segv = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO},
			 trap = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &segv, NULL);
	sigaction(SIGTRAP, &trap, NULL);
	memset(&now, 0, sizeof(now));
	memset(&most, 0, sizeof(most));
	memset(&sum, 0, sizeof(sum));
	memset(holders, 0, sizeof(holders));
	protect(PROT_NONE);
}

static void trace_end(const char *what)
{
	protect(PROT_READ | PROT_WRITE);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGTRAP, SIG_DFL);
	print_message("%s: %.3f lines moved a message (at most %u), %.3f taken (at most %u)\n", what,
		      (double)sum.moved / MESSAGES, most.moved, (double)sum.taken / MESSAGES, most.taken);
}

static void ends(const char *what, unsigned lines, unsigned lines_most)
{
	trace_end(what);
	assert_true(sum.moved >= MESSAGES); /* else nothing was seen */
	/*
	 * Once in a lap the receiver's head, there and back, and the padding at the ring's end (ring.h; with one core laps
	 * are short), and once in a trace what the first messages find in other hands: the bell, the line of the next.
	 */
	bool crowded = sn_relax_crowded();
	assert_true(sum.moved <= lines + MESSAGES / (crowded ? 8 : 30));
	assert_true(most.moved <= lines_most + 3);
}

/* Who waits has looked at the line before it is written: it comes over clean, and then with the message. */
static void there_and_back_two_lines_move_for_a_short_message(void **state)
{
	static const size_t sizes[] = {0, 8, 40};
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		trace_begin();
		for (int i = 0; i < MESSAGES; i++)
			traced_message(i % 2, sizes[k], true);
		ends("there and back", 2 * MESSAGES, 2);
	}
}

/* Each is there at the first look, and alone: only each eighth time the line of the next has been looked at before. */
static void who_has_not_waited_leaves_the_next_line_alone(void **state)
{
	trace_begin();
	for (int i = 0; i < MESSAGES; i++)
		traced_message(0, 8, false);
	ends("one way", MESSAGES + MESSAGES / 8, 2);
}

/* Of two messages that cross: three lines, as of the one that was waited for. Only each eighth time one more is looked at. */
static void in_an_exchange_nobody_looks_beyond(void **state)
{
	trace_begin();
	for (int i = 0; i < MESSAGES; i++)
		traced_exchange(i % 2, 8);
	ends("an exchange", 3 * MESSAGES + MESSAGES / 4, 5);
}

static void longer_ones_move_what_they_fill(void **state)
{
	trace_begin();
	for (int i = 0; i < MESSAGES; i++)
		traced_message(i % 2, 100, true);
	ends("100 B, there and back", 3 * MESSAGES, 3);
}

static void nobody(int who)
{
}

/* Where messages of two lines go to and fro: not after a shorter one, in a stream, or where nobody has waited. */
static void who_waits_asks_for_both_lines_at_once(void **state)
{
	const struct sn_rx *rx = &link_of[1]->rx;
	for (int i = 0; i < 5; i++)
		message(i % 2, 64, true, nobody);
	assert_true(rx->pair);
	message(0, 64, true, nobody);
	assert_false(rx->pair);
	message(1, 64, true, nobody);
	message(0, 64, false, nobody);
	assert_false(rx->pair);
	message(1, 64, true, nobody);
	message(0, 8, true, nobody);
	assert_false(rx->pair);
}

static int setup(void **state)
{
	setenv("SENNIT_PROGRESS", "0", 1); /* a thread that looks, too, would be a third cache */
	setenv("SENNIT_RING", "16384", 1);
	sn_req *first;
	sides_open(NULL);
	for (int i = 0; i < 2; i++) {
		sn_req *got;
		char byte;
		assert_int_equal(sn_irecv(side[!i].ep, side[!i].peer, &byte, 1, 5, UINT64_MAX, &got), 0);
		assert_int_equal(sn_isend(side[i].ep, side[i].peer, "", 1, 5, &first), 0);
		finish(i, first);
		finish(!i, got);
	}
	for (int i = 0; i < 2; i++)
		link_of[i] = side[i].ep->peers[side[i].peer]->link;
	while (!link_of[0]->greeted || !link_of[1]->greeted)
		for (int i = 0; i < 2; i++)
			sn_progress(side[i].ep);
	for (int i = 0; i < 100; i++)
		message(i % 2, 8, false, nobody);
	for (unsigned i = 0; i < 2; i++) {
		struct sn_link *link = link_of[i];
		watch(link->tx.chan, link->tx_bytes, i);
		watch(link->rx.chan, link->rx_bytes, !i);
		watch(link->board, SN_BOARD_BYTES, 2 + !i);
		watch(link->rail->board, SN_BOARD_BYTES, 2 + i);
		watch(link->bell, SN_BELL_BYTES, 4); /* of both: it is the process's */
	}
	return 0;
}

int main(void)
{
	alarm(150);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back_two_lines_move_for_a_short_message),
		cmocka_unit_test(who_has_not_waited_leaves_the_next_line_alone),
		cmocka_unit_test(in_an_exchange_nobody_looks_beyond),
		cmocka_unit_test(longer_ones_move_what_they_fill),
		cmocka_unit_test(who_waits_asks_for_both_lines_at_once),
	};
	return cmocka_run_group_tests(tests, setup, sides_close);
}

#else

int main(void)
{
	puts("no trace of accesses: not x86-64, or a sanitizer has the memory");
	return 77;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that is copied out while it is copied in: its receiver looks at the line of its head all the time, so the sender
 * writes there only when what is said to be there is there. Both endpoints live in this process; the page with that line is
 * protected, and the first access shows what has been written by then.
 */
#include "core/core.h"
#include "local/local.h"
#include "sides.h"
#include <signal.h>
#include <sys/mman.h>

#define PAGE 4096u
#define LEN  16384u

static struct {
	char *page;
	const uint8_t *body;
	unsigned times;
	bool there;
} head;
static uint8_t out[LEN], in[LEN];

static void on_head(int sig, siginfo_t *info, void *context)
{
	const char *at = info->si_addr;
	if (at < head.page || at >= head.page + PAGE || head.times++) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	head.there = !memcmp(head.body, out, SN_PART_LEAST);
	mprotect(head.page, PAGE, PROT_READ | PROT_WRITE);
}

static void message(size_t len)
{
	sn_req *sent, *got;
	sn_completion c;
	assert_int_equal(sn_irecv(side[1].ep, side[1].peer, in, LEN, 5, UINT64_MAX, &got), 0);
	assert_int_equal(sn_isend(side[0].ep, side[0].peer, out, len, 5, &sent), 0);
	while (sn_test(side[0].ep, sent, &c) == SN_ERR_AGAIN)
		sn_progress(side[1].ep);
	assert_int_equal(c.status, SN_OK);
	while (sn_test(side[1].ep, got, &c) == SN_ERR_AGAIN)
		sn_progress(side[0].ep);
	assert_int_equal(c.status, SN_OK);
	assert_memory_equal(in, out, len);
}

static void nothing_goes_to_the_line_that_is_looked_at_before_the_first_step_is_there(void **state)
{
	struct sigaction segv = {.sa_sigaction = on_head, .sa_flags = SA_SIGINFO};
	for (uint32_t i = 0; i < LEN; i++)
		out[i] = (uint8_t)(i * 7 + i / 251 + 1);
	message(8);
	struct sn_link *link = side[0].ep->peers[side[0].peer]->link;
	while (!link->greeted)
		for (int i = 0; i < 2; i++)
			sn_progress(side[i].ep);
	message(LEN); /* the first one touches all of the ring */
	/* The head is the last line of a page, so that what else this message writes lies on others. */
	while (link->tx.tail % (PAGE / SN_CELL) != PAGE / SN_CELL - 1)
		message(8);
	struct sn_cell *cell = &link->tx.cells[link->tx.tail & (link->tx.count - 1)];
	head.page = (char *)(cell + 1) - PAGE;
	head.body = (const uint8_t *)(cell + 1);
	uint64_t eager = link->rail->count.tx_eager;
	sigaction(SIGSEGV, &segv, NULL);
	assert_int_equal(mprotect(head.page, PAGE, PROT_NONE), 0);
	sn_req *sent;
	assert_int_equal(sn_isend(side[0].ep, side[0].peer, out, LEN, 5, &sent), 0);
	signal(SIGSEGV, SIG_DFL);
	assert_int_equal(link->rail->count.tx_eager, eager + 1);
	assert_int_equal(head.times, 1);
	assert_true(head.there);
	sn_req *got;
	sn_completion c;
	memset(in, 0, LEN);
	assert_int_equal(sn_irecv(side[1].ep, side[1].peer, in, LEN, 5, UINT64_MAX, &got), 0);
	while (sn_test(side[1].ep, got, &c) == SN_ERR_AGAIN)
		sn_progress(side[0].ep);
	assert_int_equal(c.status, SN_OK);
	assert_memory_equal(in, out, LEN);
	assert_int_equal(sn_test(side[0].ep, sent, &c), SN_OK);
}

static int setup(void **state)
{
	setenv("SENNIT_PROGRESS", "0", 1); /* a thread that looks would meet the protected page */
	setenv("SENNIT_EAGER", "16384", 1);
	sides_open(NULL);
	return 0;
}

int main(void)
{
	if (sysconf(_SC_PAGESIZE) != PAGE) {
		puts("pages of another size: the line of the head cannot be protected alone");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_goes_to_the_line_that_is_looked_at_before_the_first_step_is_there),
	};
	return cmocka_run_group_tests(tests, setup, sides_close);
}

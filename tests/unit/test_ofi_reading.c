/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a queue of a domain with one thread: entries go straight into the reader's array, and order holds wherever that
 * cannot be: the array is full, an entry is an error, something lies in the queue already.
 */
#if __has_include(<rdma/fabric.h>)
#include "ofi_pair.h"

#define MESSAGES 40
#define LONG	 17 /* this one is longer than its receive */

static uint64_t in[MESSAGES];
static struct fi_context contexts[MESSAGES];

/* Take what there is into an array of `room`; the messages must come in the order of their receives. */
static int take(struct side *s, size_t room, int next)
{
	struct fi_cq_tagged_entry e[MESSAGES];
	ssize_t n = fi_cq_read(s->cq, e, room);
	if (n == -FI_EAGAIN)
		return next;
	if (n == -FI_EAVAIL) {
		struct fi_cq_err_entry err = {0};
		CHECK(next == LONG);
		CHECK(fi_cq_readerr(s->cq, &err, 0) == 1);
		CHECK(err.err == FI_ETRUNC && err.op_context == &contexts[LONG]);
		return next + 1;
	}
	CHECK(n > 0 && (size_t)n <= room);
	for (ssize_t i = 0; i < n; i++, next++) {
		CHECK(next != LONG);
		CHECK(e[i].op_context == &contexts[next] && e[i].tag == 5 && e[i].len == 8);
		CHECK(e[i].flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
		CHECK(e[i].data == (uint64_t)next && e[i].buf == &in[next] &&
		      in[next] == 1000u + (unsigned)next);
	}
	return next;
}

static void exchange(struct side *s)
{
	static const size_t rooms[] = {1, 3, 8, MESSAGES};
	for (size_t lap = 0; lap < 2 * sizeof(rooms) / sizeof(rooms[0]); lap++) {
		size_t room = rooms[lap / 2];
		for (int i = 0; i < MESSAGES && s->me; i++)
			CHECK_OK(fi_trecv(s->ep, &in[i], 8, NULL, s->peer, 5, 0, &contexts[i]));
		together(s);
		for (uint64_t i = 0; i < MESSAGES && !s->me; i++) {
			uint64_t out[2] = {1000 + i, 0};
			CHECK_OK(fi_tinjectdata(s->ep, out, i == LONG ? 16 : 8, i, s->peer, 5));
		}
		if (lap % 2) /* all lie in the ring, or here already, before the first read with room */
			together(s);
		for (int next = 0; next < MESSAGES && s->me;)
			next = take(s, room, next);
		together(s);
	}
}

static void entries_keep_their_order_however_they_are_read(void **state)
{
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_DOMAIN},
		 exchange);
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_SAFE},
		 exchange);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_keep_their_order_however_they_are_read),
	};
	int rc = ofi_load();
	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "ofi_missing.h"
#endif

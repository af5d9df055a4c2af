/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes on one core: how often a read that finds nothing gives the core away. Where the library looks at
 * other things between two reads, not more than once for all that it looks at, and not at all if it yields by itself
 * when nothing came; and one that yields by itself, and has not, has found something else to do. Counted are the
 * system calls.
 */
#if __has_include(<rdma/fabric.h>)
#include "base/base.h"
#include "ofi_pair.h"
#include "shim.h"
#include "yields.h"

#define READS	   48
#define WAKEFUL_NS 900000 /* of a wait: after a millisecond one sleeps */

/* What libsennit-mpi.so would say of this program's calls. The provider finds it by its name. */
static struct sn_shim_thread calls;

static struct sn_shim_thread *this_thread(void)
{
	return &calls;
}

static void forget(const void *ep)
{
}

static void give(void)
{
}

static struct sn_shim shim = {
	.version = SN_SHIM_VERSION, .thread = this_thread, .forget = forget, .give = give, .threads = 1};

__attribute__((visibility("default"))) struct sn_shim *sennit_mpi_shim(void)
{
	return &shim;
}

static void call(enum sn_shim_kind kind)
{
	calls.kind = kind;
	calls.calls++;
}

/* They know each other, and so that there are more of them than cores, once each has heard of the other. */
static void meet(struct side *s)
{
	static uint64_t out, in;
	struct fi_cq_tagged_entry e;
	ssize_t n = -FI_EAGAIN;
	CHECK_OK(fi_trecv(s->ep, &in, 8, NULL, s->peer, 4, 0, &in));
	while ((n = fi_tinject(s->ep, &out, 8, s->peer, 4)) == -FI_EAGAIN)
		(void)fi_cq_read(s->cq, NULL, 0);
	CHECK_OK(n);
	for (n = -FI_EAGAIN; n == -FI_EAGAIN;)
		n = fi_cq_read(s->cq, &e, 1);
	CHECK(n == 1);
	together(s);
}

/* Of so many reads of each of these queues in turn; the library yields after each round, and is told that it need not. */
static unsigned yields_of(struct fid_cq *const *cqs, unsigned count, unsigned reads, bool library)
{
	struct fi_cq_tagged_entry e;
	unsigned before = yields_counted;
	for (unsigned i = 0; i < reads; i++) {
		for (unsigned k = 0; k < count; k++)
			CHECK(fi_cq_read(cqs[k], &e, 1) == -FI_EAGAIN);
		if (library)
			calls.yields++;
	}
	return yields_counted - before;
}

/*
 * Of a new call of this kind, once the first reads have said that it has begun. Who has waited for longer, as one
 * does who has lost the core, sleeps; so on a busy machine it may take some calls.
 */
static unsigned yields_in(enum sn_shim_kind kind, struct fid_cq *const *cqs, unsigned count, bool library)
{
	unsigned yields;
	uint64_t start;
	do {
		start = sn_now_ns();
		call(kind);
		yields_of(cqs, count, 2, library);
		yields = yields_of(cqs, count, READS, library);
	} while (sn_now_ns() - start > WAKEFUL_NS);
	return yields;
}

static void one_queue_and_two(struct side *s, enum sn_shim_kind kind)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_cq *cqs[2] = {s->cq};
	CHECK_OK(fi_cq_open(s->domain, &attr, &cqs[1], NULL));
	CHECK(yields_in(kind, cqs, 1, false) == READS);
	CHECK(yields_in(kind, cqs, 2, false) == READS);
	CHECK(yields_in(kind, cqs, 1, true) == 0);
	CHECK(yields_in(kind, cqs, 2, true) == 0);
	calls.yields = 0;
	CHECK(yields_in(kind, &cqs[1], 1, false) == READS); /* the other is read no more */
	CHECK_OK(fi_close(&cqs[1]->fid));
}

static void beside_a_window(struct side *s)
{
	meet(s);
	if (s->me)
		return;
	CHECK(yields_count());
	atomic_store(&shim.elsewhere, 1);
	one_queue_and_two(s, SN_SHIM_WAITS);
	one_queue_and_two(s, SN_SHIM_POLLS);
	atomic_store(&shim.elsewhere, 0);
	one_queue_and_two(s, SN_SHIM_POLLS);
	call(SN_SHIM_WAITS);
}

/*
 * MPI_Iprobe in turn finds something, and reads in vain what is empty then, and finds nothing: a library that yields by
 * itself does so after the second only. When it has not for long, others' turn is the provider's to give.
 */
static void now_and_then(struct side *s)
{
	meet(s);
	if (s->me)
		return;
	CHECK(yields_count());
	call(SN_SHIM_POLLS);
	yields_of(&s->cq, 1, 2, true);
	unsigned yields = 0;
	for (unsigned i = 0; i < READS; i++)
		yields += yields_of(&s->cq, 1, 1, false) + yields_of(&s->cq, 1, 1, true);
	CHECK(yields == 0);
	yields_of(&s->cq, 1, 10, false);
	CHECK(yields_of(&s->cq, 1, READS, false) == READS);
}

/* What comes ends the wait: the reads right after it say nothing, whichever queue they are of. */
static void after_a_message(struct side *s)
{
	struct fi_cq_tagged_entry e;
	static uint64_t in;
	meet(s);
	if (!s->me) {
		together(s);
		CHECK_OK(fi_tinject(s->ep, &in, 8, s->peer, 5));
		return;
	}
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_cq *cqs[2] = {s->cq};
	CHECK(yields_count());
	CHECK_OK(fi_cq_open(s->domain, &attr, &cqs[1], NULL));
	CHECK_OK(fi_trecv(s->ep, &in, 8, NULL, s->peer, 5, 0, &in));
	atomic_store(&shim.elsewhere, 1);
	CHECK(yields_in(SN_SHIM_WAITS, cqs, 2, false) == READS);
	call(SN_SHIM_WAITS);
	together(s);
	ssize_t n = -FI_EAGAIN;
	while (n == -FI_EAGAIN)
		n = fi_cq_read(s->cq, &e, 1);
	CHECK(n == 1 && e.op_context == &in);
	CHECK(yields_of(cqs, 2, 1, false) == 0);
	uint64_t start = sn_now_ns();
	unsigned yields = yields_of(cqs, 2, READS, false);
	CHECK(yields == READS || sn_now_ns() - start > WAKEFUL_NS);
	atomic_store(&shim.elsewhere, 0);
	CHECK_OK(fi_close(&cqs[1]->fid));
}

static void in_a_call_that_only_waits(struct side *s)
{
	meet(s);
	if (s->me)
		return;
	CHECK(yields_count());
	unsigned y[6]; /* likewise */
	uint64_t took;
	do {
		uint64_t start = sn_now_ns();
		calls.yields = 0;
		call(SN_SHIM_WAITS);
		y[0] = yields_of(&s->cq, 1, 1, false);
		y[1] = yields_of(&s->cq, 1, 2, false);
		calls.yields++;
		y[2] = yields_of(&s->cq, 1, 1, false);
		y[3] = yields_of(&s->cq, 1, 8, false);
		y[4] = yields_of(&s->cq, 1, 1, false);
		y[5] = yields_of(&s->cq, 1, 8, false);
		took = sn_now_ns() - start;
	} while (took > WAKEFUL_NS);
	CHECK(y[0] == 0);
	CHECK(y[1] >= 2); /* this library does not yield: each read does */
	CHECK(y[2] >= 1); /* it has, so it has found nothing */
	CHECK(y[3] == 0); /* it has not: it does other things; but not for ever */
	CHECK(y[4] >= 1 && y[5] >= 8);
}

static const struct setup one_thread = {.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_DOMAIN};
static const struct setup many_threads = {.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_SAFE};

static void who_looks_at_other_things_too_gives_the_core_away_once_for_all(void **state)
{
	run_pair(&one_thread, beside_a_window);
	run_pair(&many_threads, beside_a_window);
}

static void who_yields_by_himself_where_nothing_is_found_does_so_alone(void **state)
{
	run_pair(&one_thread, now_and_then);
	run_pair(&many_threads, now_and_then);
}

static void a_message_is_a_reason_to_look_at_all_once_more(void **state)
{
	run_pair(&one_thread, after_a_message);
	run_pair(&many_threads, after_a_message);
}

static void who_yields_by_himself_and_has_not_is_let_go_on(void **state)
{
	run_pair(&one_thread, in_a_call_that_only_waits);
	run_pair(&many_threads, in_a_call_that_only_waits);
}

/* To the first core that this process may run on. */
static void bind_to_one(void)
{
	cpu_set_t set, one;
	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &set))
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_looks_at_other_things_too_gives_the_core_away_once_for_all),
		cmocka_unit_test(who_yields_by_himself_where_nothing_is_found_does_so_alone),
		cmocka_unit_test(a_message_is_a_reason_to_look_at_all_once_more),
		cmocka_unit_test(who_yields_by_himself_and_has_not_is_let_go_on),
	};
	bind_to_one();
	setenv("SENNIT_PROGRESS", "0", 1); /* nobody else looks */
	int rc = ofi_load();
	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "ofi_missing.h"
#endif

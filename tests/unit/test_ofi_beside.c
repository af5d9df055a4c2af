/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread beside others, in an MPI that has one lock: where it waits. After a read that found nothing it leaves the wait
 * to be done where the lock is free; if the MPI does not come to that, it waits in the read after all; and what it
 * has left counts in that call alone, and as long as the queue is there. What another thread finds, or has found
 * before, ends a wait.
 */
#if __has_include(<rdma/fabric.h>)
#include "base/base.h"
#include "ofi_pair.h"
#include "shim.h"

#include <pthread.h>

#define LATE_NS	 20000000L /* so late comes what is waited for; a nap takes a millisecond at the most */
#define FEW	 2000	   /* reads meanwhile of one who waits: who does not makes 50,000 */
#define MESSAGES 50

/* What libsennit-mpi.so would say of this program's calls. The provider finds it by its name. */
static _Thread_local struct sn_shim_thread calls;

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

static struct sn_shim shim = {.version = SN_SHIM_VERSION,
			      .thread = this_thread,
			      .forget = forget,
			      .give = give,
			      .threads = 2,
			      .lets_go = 1,
			      .pass = SN_SHIM_NOBODY};

__attribute__((visibility("default"))) struct sn_shim *sennit_mpi_shim(void)
{
	return &shim;
}

static void call(enum sn_shim_kind kind)
{
	calls.kind = kind;
	calls.calls++;
	atomic_fetch_add(&shim.entries, 1);
}

static ssize_t read_one(struct fid_cq *cq, void **context)
{
	struct fi_cq_tagged_entry e = {0};
	ssize_t n = fi_cq_read(cq, &e, 1);
	*context = e.op_context;
	return n;
}

/* Reads, until a wait is left to be done. */
static void read_until_owed(struct fid_cq *cq)
{
	void *context;
	unsigned reads = 0;
	while (!calls.owed) {
		CHECK(read_one(cq, &context) == -FI_EAGAIN);
		CHECK(++reads < FEW);
	}
}

/* Reads until something has come; the lock is let go after each read, or never. How many found nothing. */
static unsigned reads_until(struct fid_cq *cq, void *what, bool lets_go)
{
	void *context;
	unsigned reads = 0;
	ssize_t n;
	while ((n = read_one(cq, &context)) == -FI_EAGAIN) {
		reads++;
		if (lets_go && calls.owed)
			atomic_load (&shim.wait)();
	}
	CHECK(n == 1 && context == what);
	return reads;
}

static void waits_for_what_is_late(struct side *s, bool lets_go)
{
	static uint64_t in, out;
	together(s);
	if (!s->me) {
		nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
		CHECK_OK(fi_tinject(s->ep, &out, 8, s->peer, 5));
		return;
	}
	CHECK_OK(fi_trecv(s->ep, &in, 8, NULL, s->peer, 5, 0, &in));
	call(SN_SHIM_WAITS);
	CHECK(reads_until(s->cq, &in, lets_go) < FEW);
	call(SN_SHIM_POLLS);
	CHECK(!atomic_load(&shim.apart) && !atomic_load(&shim.sleepers));
}

static void lets_go(struct side *s)
{
	waits_for_what_is_late(s, true);
}

static void keeps_it(struct side *s)
{
	waits_for_what_is_late(s, false);
}

static void of_another_call(struct side *s)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_cq *other;
	CHECK_OK(fi_cq_open(s->domain, &attr, &other, NULL));
	call(SN_SHIM_WAITS);
	read_until_owed(other);
	CHECK_OK(fi_close(&other->fid));
	CHECK(!calls.owed);
	read_until_owed(s->cq);
	call(SN_SHIM_WAITS);
	calls.idle = 0;
	atomic_load (&shim.wait)(); /* would begin a wait */
	CHECK(!calls.owed && !calls.idle);
	call(SN_SHIM_POLLS);
	for (int i = 0; i < 8; i++) {
		void *context;
		CHECK(read_one(s->cq, &context) == -FI_EAGAIN && !calls.owed);
	}
}

/* ---- one thread finds what another one waits for ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the MPI's */
static _Atomic uint64_t came[2];			 /* as the MPI would have it: per request */

/* With the lock. What has come is noted, whosever it is. */
static void look(struct fid_cq *cq)
{
	void *context;
	if (read_one(cq, &context) == 1)
		atomic_fetch_add((_Atomic uint64_t *)context, 1);
}

static void wait_for(struct side *s, int who, uint64_t n)
{
	call(SN_SHIM_WAITS);
	pthread_mutex_lock(&lock);
	while (atomic_load(&came[who]) < n) {
		look(s->cq);
		pthread_mutex_unlock(&lock);
		if (calls.owed)
			atomic_load (&shim.wait)();
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
}

static void answers(struct side *s, int who)
{
	static uint64_t in[2], out;
	for (uint64_t i = 1; i <= MESSAGES; i++) {
		CHECK_OK(fi_trecv(s->ep, &in[who], 8, NULL, s->peer, (uint64_t)who, 0, &came[who]));
		if (!s->me)
			CHECK_OK(fi_tinject(s->ep, &out, 8, s->peer, (uint64_t)who));
		wait_for(s, who, i);
		if (s->me)
			CHECK_OK(fi_tinject(s->ep, &out, 8, s->peer, (uint64_t)who));
	}
}

static void *second(void *side)
{
	answers(side, 1);
	return NULL;
}

static void two_threads(struct side *s)
{
	pthread_t thread;
	together(s);
	CHECK(!pthread_create(&thread, NULL, second, s));
	answers(s, 0);
	CHECK(!pthread_join(thread, NULL));
	call(SN_SHIM_POLLS);
	CHECK(!atomic_load(&shim.apart) && !atomic_load(&shim.sleepers));
}

static const struct setup many_threads = {.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_SAFE};

static void one_waits_where_the_lock_is_free(void **state)
{
	run_pair(&many_threads, lets_go);
}

static void one_waits_in_the_read_if_the_lock_is_kept(void **state)
{
	run_pair(&many_threads, keeps_it);
}

static void what_was_left_counts_in_that_call_alone(void **state)
{
	run_pair(&many_threads, of_another_call);
}

static void two_find_what_each_other_waits_for(void **state)
{
	run_pair(&many_threads, two_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_waits_where_the_lock_is_free),
		cmocka_unit_test(one_waits_in_the_read_if_the_lock_is_kept),
		cmocka_unit_test(what_was_left_counts_in_that_call_alone),
		cmocka_unit_test(two_find_what_each_other_waits_for),
	};
	setenv("SENNIT_PROGRESS", "0", 1); /* nobody else looks */
	int rc = ofi_load();
	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "ofi_missing.h"
#endif

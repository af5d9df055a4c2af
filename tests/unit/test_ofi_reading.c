/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a queue of a domain with one thread: entries go straight into the reader's array, and order holds wherever that
 * cannot be: the array is full, an entry is an error, something lies in the queue already. And which reads look for
 * messages: all but the one right after a read that took all there was, in the same call of an MPI that reads until it
 * hears of no more; what lay in the queue already counts so only in a flood, and not for ever. And after which the MPI
 * need not give the core away, and which wait. And who waits for one message does not let others lie.
 */
#if __has_include(<rdma/fabric.h>)
#include "base/base.h"
#include "ofi_pair.h"
#include "shim.h"

#define MESSAGES 40
#define LAPS	 8
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

/* ---- which reads look ---- */

/* What libsennit-mpi.so would say of this program's calls. The provider finds it by its name. */
static struct sn_shim_thread calls;

static struct sn_shim_thread *this_thread(void)
{
	return &calls;
}

static void forget(const void *ep)
{
}

static void give(void);

static struct sn_shim shim = {
	.version = SN_SHIM_VERSION, .thread = this_thread, .forget = forget, .give = give};

__attribute__((visibility("default"))) struct sn_shim *sennit_mpi_shim(void)
{
	return &shim;
}

/* Until the other has come as far; the receiver reads nothing meanwhile. */
static void await(struct side *s, uint64_t step)
{
	while (atomic_load((_Atomic uint64_t *)&s->shared->word[!s->me]) < step) {
		if (s->me == 0)
			(void)fi_cq_read(s->cq, NULL, 0);
		nap();
	}
}

static void arrive(struct side *s, uint64_t step)
{
	atomic_store((_Atomic uint64_t *)&s->shared->word[s->me], step);
}

static void send_two(struct side *s, uint64_t lap)
{
	for (int i = 0; i < 2; i++) {
		await(s, 2 * lap + 1 + i);
		CHECK_OK(fi_tinject(s->ep, &lap, 8, s->peer, 5));
		arrive(s, 2 * lap + 1 + i);
	}
}

static unsigned reads_of(struct side *s, const void *context)
{
	struct fi_cq_tagged_entry e[2];
	unsigned reads = 1;

	while (fi_cq_read(s->cq, e, 2) == -FI_EAGAIN)
		reads++;
	CHECK(e[0].op_context == context);
	return reads;
}

/*
 * How many reads the second of two messages takes, which lies in the ring as soon as the first was read; the second in
 * another call of the MPI, if so wanted.
 */
static unsigned reads_of_second(struct side *s, uint64_t lap, bool other_call)
{
	calls.calls++;
	for (int i = 0; i < 2; i++)
		CHECK_OK(fi_trecv(s->ep, &in[i], 8, NULL, s->peer, 5, 0, &contexts[i]));
	arrive(s, 2 * lap + 1);
	reads_of(s, &contexts[0]);
	arrive(s, 2 * lap + 2);
	await(s, 2 * lap + 2);
	calls.calls += other_call;
	unsigned reads = reads_of(s, &contexts[1]);
	struct fi_cq_tagged_entry e;
	CHECK(fi_cq_read(s->cq, &e, 1) == -FI_EAGAIN); /* this MPI reads on */
	return reads;
}

static void look(struct side *s)
{
	static const enum sn_shim_kind kinds[] = {SN_SHIM_WAITS, SN_SHIM_POLLS, SN_SHIM_UNKNOWN};
	unsigned same = s->info->domain_attr->threading == FI_THREAD_DOMAIN ? 2 : 1;
	uint64_t lap = 0;

	if (s->me == 0) {
		for (; lap < 8; lap++)
			send_two(s, lap);
		return;
	}
	for (int i = 0; i < 3; i++) {
		calls.kind = kinds[i];
		CHECK(reads_of_second(s, lap++, false) == (kinds[i] ? same : 1));
		CHECK(reads_of_second(s, lap++, false) == (kinds[i] ? same : 1));
	}
	/* a call that ends with what it found: this MPI does not read until it hears of no more */
	calls.kind = SN_SHIM_WAITS;
	CHECK(reads_of_second(s, lap++, true) == 1);
	CHECK(reads_of_second(s, lap++, false) == 1);
}

/*
 * `early` messages come before their receives, in one look, and then one more. How many of the early ones are received, one a
 * call, before the one more is found.
 */
#define FLOOD 35
static int received_before_a_look(struct side *s, uint64_t step, int early)
{
	struct fi_cq_tagged_entry e[2];
	int n = 0;

	if (s->me == 0) {
		await(s, step);
		for (int i = 0; i <= early; i++) {
			if (i == early) {
				arrive(s, step);
				await(s, step + 1);
			}
			CHECK_OK(fi_tinject(s->ep, &step, 8, s->peer, i < early ? 6 : 5));
		}
		arrive(s, step + 1);
		return 0;
	}
	calls.calls++;
	arrive(s, step);
	await(s, step);
	CHECK(fi_cq_read(s->cq, e, 2) == -FI_EAGAIN);
	CHECK_OK(fi_trecv(s->ep, &in[0], 8, NULL, s->peer, 5, 0, &contexts[0]));
	arrive(s, step + 1);
	await(s, step + 1);
	for (ssize_t got = -FI_EAGAIN; got == -FI_EAGAIN; n++) {
		CHECK(n < early);
		calls.calls++;
		CHECK_OK(fi_trecv(s->ep, &in[1], 8, NULL, s->peer, 6, 0, &contexts[1]));
		CHECK(fi_cq_read(s->cq, e, 2) == 1 && e[0].op_context == &contexts[1]);
		got = fi_cq_read(s->cq, e, 2);
		CHECK(got == -FI_EAGAIN || e[0].op_context == &contexts[0]);
	}
	for (int i = n; i < early; i++) {
		CHECK_OK(fi_trecv(s->ep, &in[1], 8, NULL, s->peer, 6, 0, &contexts[1]));
		CHECK(fi_cq_read(s->cq, e, 2) == 1);
	}
	return n;
}

static void flood(struct side *s)
{
	bool serial = s->info->domain_attr->threading == FI_THREAD_DOMAIN;

	calls.kind = SN_SHIM_UNKNOWN;
	if (s->me == 0)
		send_two(s, 0); /* they know each other from here on */
	else
		reads_of_second(s, 0, false);
	calls.kind = SN_SHIM_POLLS;
	int flooded = received_before_a_look(s, 3, FLOOD), calm = received_before_a_look(s, 5, 3);
	CHECK(s->me == 0 || (flooded == (serial ? 17 : 1) && calm == 1));
}

static void what_lay_there_in_a_flood_needs_no_look_sixteen_times(void **state)
{
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_DOMAIN}, flood);
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_SAFE}, flood);
}

static void a_read_after_one_that_took_all_looks_in_the_next_call_or_at_the_second_time(void **state)
{
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_DOMAIN}, look);
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_SAFE}, look);
}

/* ---- who yields after a read ---- */

/*
 * An MPI that yields after each read does so beside other threads only where nothing was found. The threads are of
 * the kind that waits: what the read before said is overwritten by each.
 */
static void yield(struct side *s)
{
	struct fi_cq_tagged_entry e;
	ssize_t n = -FI_EAGAIN;
	calls.kind = SN_SHIM_WAITS;
	calls.calls++;
	atomic_store(&shim.threads, 2);
	if (s->me == 0) {
		together(s);
		CHECK_OK(fi_tinject(s->ep, &calls, 8, s->peer, 5));
		together(s);
		return;
	}
	CHECK_OK(fi_trecv(s->ep, &in[0], 8, NULL, s->peer, 5, 0, &contexts[0]));
	for (int i = 0; i < 3; i++) {
		calls.looked = 1;
		CHECK(fi_cq_read(s->cq, &e, 1) == -FI_EAGAIN && !calls.looked);
	}
	together(s);
	while (n == -FI_EAGAIN)
		n = fi_cq_read(s->cq, &e, 1);
	CHECK(n == 1 && e.op_context == &contexts[0] && calls.looked);
	atomic_store(&shim.threads, 1);
	calls.calls++;
	for (int i = 0; i < 2;
	     i++) /* the first empty one after something was found says nothing in a crowd */
		CHECK(fi_cq_read(s->cq, &e, 1) == -FI_EAGAIN);
	CHECK(calls.looked);
	together(s);
}

static void an_mpi_need_not_yield_after_a_read_that_found_something(void **state)
{
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_SAFE}, yield);
}

/* ---- which read waits ---- */

/* The how manyth of those that find nothing does? */
static unsigned first_to_wait(struct side *s)
{
	struct fi_cq_tagged_entry e;
	unsigned reads = 0;
	for (calls.left = 0; !calls.left; reads++)
		CHECK(reads < 10 && fi_cq_read(s->cq, &e, 1) == -FI_EAGAIN);
	return reads;
}

/*
 * The message lies there when it is read: a read that waited for it would be followed by one more that does not wait. Now and
 * then something else comes, too, which is a reason to read on as well: so of several laps.
 */
static void begin_to_wait(struct side *s)
{
	struct fi_cq_tagged_entry e;
	unsigned least = 10;
	calls.kind = SN_SHIM_WAITS;
	for (uint64_t lap = 1; lap < 2 * LAPS; lap += 2) {
		if (s->me == 0) {
			await(s, lap);
			CHECK_OK(fi_tinject(s->ep, &lap, 8, s->peer, 5));
			arrive(s, lap);
			await(s, lap + 1);
			continue;
		}
		CHECK_OK(fi_trecv(s->ep, &in[0], 8, NULL, s->peer, 5, 0, &contexts[0]));
		arrive(s, lap);
		await(s, lap);
		while (fi_cq_read(s->cq, &e, 1) == -FI_EAGAIN)
			;
		CHECK(e.op_context == &contexts[0]);
		unsigned reads = first_to_wait(s);
		least = SN_MIN_OF(least, reads);
		arrive(s, lap + 1);
	}
	if (s->me == 0)
		return;
	CHECK(least == 3);
	CHECK(first_to_wait(s) == 1);
	calls.calls++;
	CHECK(first_to_wait(s) == 2);
}

static void the_mpi_reads_on_twice_after_a_message_before_it_waits(void **state)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) < 2) {
		print_message("one core: it yields then\n");
		skip();
	}
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_DOMAIN},
		 begin_to_wait);
}

/* ---- who waits for another message ---- */

/* Nothing is there. True: what was asked for before has come meanwhile. */
static bool came_beside(struct side *s)
{
	struct fi_msg_tagged m = {.addr = s->peer, .tag = 6, .context = &contexts[1]};
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	calls.calls++;
	calls.left = 0;
	CHECK_OK(fi_trecvmsg(s->ep, &m, FI_PEEK));
	uint64_t in_vain = calls.left;
	ssize_t n = fi_cq_read(s->cq, &e, 1);
	CHECK(n == -FI_EAVAIL || (n == 1 && e.op_context == &contexts[0]));
	CHECK(n != 1 || !in_vain);
	CHECK(fi_cq_readerr(s->cq, &err, 0) == 1 && err.err == FI_ENOMSG);
	return n == 1;
}

/* As MPI_Probe does. What it must answer meanwhile is not to lie in the queue while it waits on. */
static void probe(struct side *s)
{
	int beside = 0;
	calls.kind = SN_SHIM_WAITS;
	for (uint64_t lap = 0; lap < 200; lap++) {
		if (s->me == 0) {
			await(s, lap + 1);
			CHECK_OK(fi_tinject(s->ep, &lap, 8, s->peer, 5));
			continue;
		}
		ssize_t n = -FI_EAGAIN;
		struct fi_cq_tagged_entry e;
		CHECK_OK(fi_trecv(s->ep, &in[0], 8, NULL, s->peer, 5, 0, &contexts[0]));
		arrive(s, lap + 1);
		while (n == -FI_EAGAIN)
			n = came_beside(s) ? 0 : fi_cq_read(s->cq, &e, 1);
		beside += n == 0;
	}
	CHECK(s->me == 0 || beside);
	together(s);
}

static void who_waits_for_another_hears_of_what_he_has_asked_for(void **state)
{
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_DOMAIN}, probe);
}

/* ---- receives of others ---- */

static struct sn_shim_ahead ahead;
static struct side *reader;
static int64_t came;
static unsigned given;

/* As libsennit-mpi.so does: what the MPI asks for then takes their place, if it is the same. */
static void give(void)
{
	const struct sn_shim_quick *quick = atomic_load(&shim.quick);
	void *posted = ahead.posted;

	given++;
	CHECK(quick->hold(posted, &came));
	CHECK(!quick->take(&ahead));
	CHECK_OK(fi_trecv(reader->ep, &in[0], 8, NULL, reader->peer, 6, 0, &contexts[0]));
	CHECK(ahead.posted == posted);
	CHECK_OK(fi_trecv(reader->ep, &in[1], 8, NULL, reader->peer, 5, 0, &contexts[1]));
	CHECK(!ahead.posted);
	CHECK(quick->take(NULL) == &ahead);
}

/* One that waits for its message, and then one that has it already. */
static void read_after_others(struct side *s)
{
	const struct sn_shim_quick *quick = atomic_load(&shim.quick);
	struct sn_shim_lesson lesson = {0};

	reader = s;
	quick->learn(&lesson);
	CHECK_OK(fi_trecv(s->ep, &in[1], 8, NULL, s->peer, 5, 0, &contexts[1]));
	quick->learn(NULL);
	CHECK(lesson.recvs == 1 && !given);
	arrive(s, 1);
	reads_of(s, &contexts[1]);
	for (unsigned lap = 1; lap < 3; lap++) {
		came = -1;
		ahead = (struct sn_shim_ahead){.posted = quick->post(&lesson.recv, &in[1], &came),
					       .buf = &in[1],
					       .way = lesson.recv};
		CHECK(ahead.posted);
		if (lap == 1)
			CHECK(fi_cq_read(s->cq, NULL, 0) == -FI_EAGAIN && given == lap);
		arrive(s, lap + 1);
		await(s, lap + 1);
		reads_of(s, &contexts[1]);
		CHECK(in[1] == lap && given == lap && came == -1);
	}
	CHECK(fi_cq_read(s->cq, NULL, 0) == -FI_EAGAIN && given == 2);
	arrive(s, 4);
}

static void others(struct side *s)
{
	if (s->me) {
		read_after_others(s);
		return;
	}
	for (uint64_t lap = 0; lap < 3; lap++) {
		await(s, lap + 1);
		CHECK_OK(fi_tinject(s->ep, &lap, 8, s->peer, 5));
		arrive(s, lap + 1);
	}
	await(s, 4);
}

static void whoever_reads_has_taken_what_others_have_posted(void **state)
{
	run_pair(&(struct setup){.caps = FI_TAGGED | FI_DIRECTED_RECV, .threading = FI_THREAD_DOMAIN},
		 others);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_keep_their_order_however_they_are_read),
		cmocka_unit_test(what_lay_there_in_a_flood_needs_no_look_sixteen_times),
		cmocka_unit_test(a_read_after_one_that_took_all_looks_in_the_next_call_or_at_the_second_time),
		cmocka_unit_test(an_mpi_need_not_yield_after_a_read_that_found_something),
		cmocka_unit_test(the_mpi_reads_on_twice_after_a_message_before_it_waits),
		cmocka_unit_test(who_waits_for_another_hears_of_what_he_has_asked_for),
		cmocka_unit_test(whoever_reads_has_taken_what_others_have_posted),
	};
	setenv("SENNIT_PROGRESS", "0", 1); /* nobody else looks */
	int rc = ofi_load();
	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "ofi_missing.h"
#endif

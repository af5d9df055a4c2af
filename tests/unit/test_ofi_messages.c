/* SPDX-License-Identifier: BSD-3-Clause */
/* Tagged and plain messages through libfabric between two processes, every byte checked. */
#if __has_include(<rdma/fabric.h>)
#include "ofi_pair.h"

static const struct setup ordinary = {.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE,
				      .threading = FI_THREAD_DOMAIN};
static const struct setup safe = {.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE,
				  .threading = FI_THREAD_SAFE};
static const struct setup selective = {
	.caps = FI_MSG | FI_TAGGED, .threading = FI_THREAD_DOMAIN, .cq_flags = FI_SELECTIVE_COMPLETION};

static const size_t sizes[] = {0, 1, 8, 40, 41, 1000, 4096, 4097, 8192, 8193, 65536, 300001, 3000000};
#define SIZES	(sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST 3000000
#define IGNORED 0xff00000000000000u

/* ---- tagged ---- */

static void send_all(struct side *s, uint8_t *buf)
{
	for (size_t i = 0; i < SIZES; i++) {
		pattern_fill(buf, sizes[i], i);
		CHECK_OK(fi_tsend(s->ep, buf, sizes[i], NULL, s->peer, i | (i << 56), &s->info));
		struct fi_cq_tagged_entry e = expect(s, &s->info);
		CHECK((e.flags & (FI_TAGGED | FI_SEND)) == (FI_TAGGED | FI_SEND));
	}
}

static void receive_all(struct side *s, uint8_t *buf)
{
	for (size_t i = 0; i < SIZES; i++) {
		memset(buf, 0xee, sizes[i] + 1);
		CHECK_OK(fi_trecv(s->ep, buf, LARGEST, NULL, s->peer, i, IGNORED, &buf));
		struct fi_cq_tagged_entry e = expect(s, &buf);
		CHECK((e.flags & (FI_TAGGED | FI_RECV)) == (FI_TAGGED | FI_RECV));
		CHECK(!(e.flags & FI_REMOTE_CQ_DATA));
		CHECK(e.len == sizes[i] && e.tag == (i | (i << 56)));
		CHECK(pattern_holds(buf, sizes[i], i));
		CHECK(buf[sizes[i]] == 0xee);
	}
}

static void tagged_sizes(struct side *s)
{
	uint8_t *buf = malloc(LARGEST + 1);

	for (int turn = 0; turn < 2; turn++) {
		if (turn == s->me)
			send_all(s, buf);
		else
			receive_all(s, buf);
	}
	free(buf);
}

static void tagged_messages_of_every_size_arrive_whole(void **state)
{
	run_pair(&ordinary, tagged_sizes);
	run_pair(&safe, tagged_sizes);
}

/* Equal tags arrive in the order sent, short and long ones mixed, whether posted before or after. */
static void tagged_order(struct side *s)
{
	enum { COUNT = 40 };
	static uint8_t bufs[COUNT][70000];
	int ids[COUNT];

	for (int i = 0; i < COUNT; i++) {
		size_t len = i % 3 == 0 ? 70000 : (size_t)i * 7;
		if (s->me == 0) {
			pattern_fill(bufs[i], len, (uint64_t)i);
			CHECK_OK(fi_tsend(s->ep, bufs[i], len, NULL, s->peer, 5, &ids[i]));
		} else {
			if (i == COUNT / 2)
				together(s);
			CHECK_OK(fi_trecv(s->ep, bufs[i], sizeof(bufs[i]), NULL, s->peer, 5, 0, &ids[i]));
		}
	}
	if (s->me == 0)
		together(s);
	bool seen[COUNT] = {false};
	for (int i = 0; i < COUNT; i++) {
		struct fi_cq_err_entry err;
		struct fi_cq_tagged_entry e = next_completion(s, &err);
		CHECK(!err.err);
		long which = (int *)e.op_context - ids;
		CHECK(which >= 0 && which < COUNT && !seen[which]);
		seen[which] = true;
		size_t len = which % 3 == 0 ? 70000 : (size_t)which * 7;
		if (s->me == 1)
			CHECK(e.len == len && pattern_holds(bufs[which], len, (uint64_t)which));
	}
}

static void equal_tags_keep_their_order(void **state)
{
	run_pair(&ordinary, tagged_order);
}

/* Data, inject, segments, and who sent it. */
static void tagged_forms(struct side *s)
{
	uint8_t in[9000], out[9000];
	struct iovec parts[3] = {{out, 100}, {out + 100, 4000}, {out + 4100, 4900}};
	struct iovec back[2] = {{in, 5000}, {in + 5000, 4000}};
	struct fi_cq_tagged_entry e;
	fi_addr_t from = 77;

	pattern_fill(out, sizeof(out), 1);
	if (s->me == 0) {
		CHECK_OK(fi_tsenddata(s->ep, out, 9000, NULL, 0xfeedfacecafebeef, s->peer, 1, in));
		expect(s, in);
		CHECK_OK(fi_tinject(s->ep, out, 4096, s->peer, 2));
		CHECK_OK(fi_tinjectdata(s->ep, out, 10, 42, s->peer, 3));
		memset(out, 0, 4096); /* injected: ours again */
		pattern_fill(out, sizeof(out), 1);
		CHECK_OK(fi_tsendv(s->ep, parts, NULL, 3, s->peer, 4, in));
		expect(s, in);
		CHECK(fi_tinject(s->ep, out, 9000, s->peer, 5) < 0);
		CHECK_OK(fi_tsend(s->ep, out, 9000, NULL, s->self, 6, out)); /* to itself */
		CHECK_OK(fi_trecv(s->ep, in, 9000, NULL, s->self, 6, 0, out));
		expect(s, out);
		expect(s, out);
		CHECK(pattern_holds(in, 9000, 1));
		return;
	}
	CHECK_OK(fi_trecv(s->ep, in, 9000, NULL, FI_ADDR_UNSPEC, 1, 0, in));
	while (fi_cq_readfrom(s->cq, &e, 1, &from) == -FI_EAGAIN)
		;
	CHECK(from == s->peer);
	CHECK(e.flags & FI_REMOTE_CQ_DATA && e.data == 0xfeedfacecafebeef && pattern_holds(in, 9000, 1));
	CHECK_OK(fi_trecv(s->ep, in, 9000, NULL, s->peer, 2, 0, in));
	e = expect(s, in);
	CHECK(e.len == 4096 && pattern_holds(in, 4096, 1));
	CHECK_OK(fi_trecv(s->ep, in, 9000, NULL, s->peer, 3, 0, in));
	e = expect(s, in);
	CHECK(e.flags & FI_REMOTE_CQ_DATA && e.data == 42 && e.len == 10);
	CHECK_OK(fi_trecvv(s->ep, back, NULL, 2, s->peer, 4, 0, in));
	e = expect(s, in);
	CHECK(e.len == 9000 && pattern_holds(in, 9000, 1));
}

static void every_form_of_a_tagged_call_works(void **state)
{
	run_pair(&ordinary, tagged_forms);
	run_pair(&safe, tagged_forms);
}

/* A directed receive does not take what somebody else sent. */
static void directed(struct side *s)
{
	uint64_t mine = 1, theirs = 2, got = 0;

	if (s->me == 0) {
		CHECK_OK(fi_trecv(s->ep, &got, 8, NULL, s->peer, 1, 0, &theirs));
		CHECK_OK(fi_tinject(s->ep, &mine, 8, s->self, 1));
		together(s);
		expect(s, &theirs);
		CHECK(got == 2);
		CHECK_OK(fi_trecv(s->ep, &got, 8, NULL, s->self, 1, 0, &mine));
		expect(s, &mine);
		CHECK(got == 1);
	} else {
		together(s);
		CHECK_OK(fi_tinject(s->ep, &theirs, 8, s->peer, 1));
	}
}

static void a_directed_receive_takes_only_from_its_source(void **state)
{
	run_pair(&ordinary, directed);
}

/* ---- peek, claim, discard ---- */

static ssize_t look(struct side *s, uint64_t tag, uint64_t flags, struct fi_context *context, void *buf,
		    size_t len)
{
	struct iovec v = {buf, len};
	struct fi_msg_tagged m = {.msg_iov = &v,
				  .iov_count = buf != NULL,
				  .addr = FI_ADDR_UNSPEC,
				  .tag = tag,
				  .context = context};

	return fi_trecvmsg(s->ep, &m, flags);
}

/* Peek until it is there: a miss is an error in the queue. */
static struct fi_cq_tagged_entry find(struct side *s, uint64_t tag, uint64_t flags,
				      struct fi_context *context)
{
	for (;;) {
		struct fi_cq_err_entry err;
		CHECK_OK(look(s, tag, FI_PEEK | flags, context, NULL, 0));
		struct fi_cq_tagged_entry e = next_completion(s, &err);
		CHECK((err.err ? err.op_context : e.op_context) == context);
		if (!err.err)
			return e;
		CHECK(err.err == FI_ENOMSG);
	}
}

static void peeking(struct side *s)
{
	static uint8_t out[50000], in[50000];
	struct fi_context context, other;

	if (s->me == 0) {
		pattern_fill(out, sizeof(out), 3);
		CHECK_OK(fi_tsenddata(s->ep, out, 50000, NULL, 9, s->peer, 1, out));
		CHECK_OK(fi_tsend(s->ep, out, 500, NULL, s->peer, 2, out));
		CHECK_OK(fi_tsend(s->ep, out, 50000, NULL, s->peer, 3, out));
		CHECK_OK(fi_tsend(s->ep, out, 60, NULL, s->peer, 4, out));
		for (int i = 0; i < 4; i++) /* the discarded one completes too */
			expect(s, out);
		return;
	}
	CHECK_OK(look(s, 99, FI_PEEK, &context, NULL, 0));
	expect_error(s, &context, FI_ENOMSG);
	struct fi_cq_tagged_entry e = find(s, 1, 0, &context);
	CHECK(e.len == 50000 && e.tag == 1 && e.flags & FI_REMOTE_CQ_DATA && e.data == 9);
	e = find(s, 1, FI_CLAIM, &context);
	CHECK(e.len == 50000);
	CHECK_OK(look(s, 1, FI_PEEK, &other, NULL, 0)); /* claimed: nobody else sees it */
	expect_error(s, &other, FI_ENOMSG);
	CHECK_OK(look(s, 1, FI_CLAIM, &context, in, sizeof(in)));
	e = expect(s, &context);
	CHECK(e.len == 50000 && e.data == 9 && pattern_holds(in, 50000, 3));
	CHECK(find(s, 2, FI_CLAIM, &context).len == 500);
	CHECK_OK(look(s, 2, FI_CLAIM | FI_DISCARD, &context, NULL, 0));
	expect(s, &context);
	CHECK(find(s, 3, FI_DISCARD, &context).len == 50000);
	CHECK_OK(look(s, 3, FI_PEEK, &context, NULL, 0));
	expect_error(s, &context, FI_ENOMSG);
	CHECK_OK(fi_trecv(s->ep, in, sizeof(in), NULL, s->peer, 4, 0, in));
	CHECK(expect(s, in).len == 60);
}

static void peek_claim_and_discard(void **state)
{
	run_pair(&ordinary, peeking);
}

/* ---- cancel, truncation ---- */

static void cancelling(struct side *s)
{
	uint64_t a, b, c = 8;

	if (s->me == 0) {
		CHECK_OK(fi_trecv(s->ep, &a, 8, NULL, s->peer, 1, 0, &a));
		CHECK_OK(fi_trecv(s->ep, &b, 8, NULL, s->peer, 1, 0, &b));
		CHECK_OK(fi_cancel(&s->ep->fid, &a));
		expect_error(s, &a, FI_ECANCELED);
		CHECK(fi_cancel(&s->ep->fid, &a) == -FI_ENOENT);
		together(s);
		expect(s, &b); /* the message goes to the receive that is left */
		CHECK(b == 8);
		CHECK(fi_cancel(&s->ep->fid, &b) == -FI_ENOENT);
	} else {
		together(s);
		CHECK_OK(fi_tinject(s->ep, &c, 8, s->peer, 1));
	}
}

static void a_cancelled_receive_says_so_and_takes_nothing(void **state)
{
	run_pair(&ordinary, cancelling);
}

/*
 * MPICH reads the queue once after a cancel, and believes that the receive is cancelled unless that read tells otherwise:
 * so it must, although a dozen other entries are waiting, the message is still to be copied, and by the sender.
 */
static void cancelling_late(struct side *s)
{
	enum { SMALL = 12, BIG = 8 << 20 };
	uint64_t small[SMALL] = {0}, extra;
	uint8_t *big = malloc(BIG);

	CHECK_OK(fi_trecv(s->ep, &extra, 8, NULL, s->peer, 1, 0, &extra));
	CHECK_OK(fi_tinject(s->ep, small, 8, s->peer, 1));
	expect(s, &extra); /* connected: what is sent before together() is there after it */
	for (int i = 0; i < SMALL && s->me == 0; i++)
		CHECK_OK(fi_trecv(s->ep, &small[i], 8, NULL, s->peer, 100, 0, &small[i]));
	for (int room = BIG; room >= BIG / 2; room -= BIG / 2) {
		together(s);
		if (s->me == 1) {
			for (int i = 0; i < SMALL / 2; i++)
				CHECK_OK(fi_tinject(s->ep, &small[i], 8, s->peer, 100));
			pattern_fill(big, BIG, BIG);
			CHECK_OK(fi_tsend(s->ep, big, BIG, NULL, s->peer, 5, big));
			together(s);
			expect(s, big);
			continue;
		}
		together(s);
		(void)fi_cq_read(s->cq, NULL, 0); /* takes in what has been sent */
		CHECK_OK(fi_trecv(s->ep, big, (size_t)room, NULL, FI_ADDR_UNSPEC, 5, 0, big));
		CHECK(fi_cancel(&s->ep->fid, big) == -FI_ENOENT);
		struct fi_cq_tagged_entry e[2 * SMALL];
		ssize_t n = fi_cq_read(s->cq, e, 2 * SMALL);
		if (room < BIG) {
			struct fi_cq_err_entry err = {0};
			CHECK(n == -FI_EAVAIL && fi_cq_readerr(s->cq, &err, 0) == 1);
			CHECK(err.op_context == big && err.err == FI_ETRUNC);
		} else {
			CHECK(n == 1 && e[0].op_context == big && e[0].len == BIG);
		}
		CHECK(pattern_holds(big, (size_t)room, BIG));
	}
	if (s->me ==
	    0) { /* a successful one is told at once as well, and the others are still there, in order */
		CHECK_OK(fi_trecv(s->ep, &extra, 8, NULL, FI_ADDR_UNSPEC, 6, 0, &extra));
		CHECK_OK(fi_cancel(&s->ep->fid, &extra));
		expect_error(s, &extra, FI_ECANCELED);
		for (int i = 0; i < SMALL; i++)
			expect(s, &small[i]);
	}
	free(big);
}

static void what_became_of_a_cancelled_receive_is_read_first(void **state)
{
	static const char *const copies[] = {"read", "write", "stream", "auto"};

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		setenv("SENNIT_COPY", copies[i], 1);
		run_pair(&ordinary, cancelling_late);
		run_pair(&safe, cancelling_late);
	}
	unsetenv("SENNIT_COPY");
}

static void truncating(struct side *s)
{
	static uint8_t out[100000], in[100000];
	static const size_t sent[] = {100, 5000, 100000};

	pattern_fill(out, sizeof(out), 4);
	for (int i = 0; i < 3; i++) {
		if (s->me == 0) {
			CHECK_OK(fi_tsend(s->ep, out, sent[i], NULL, s->peer, 1, out));
			expect(s, out);
			continue;
		}
		memset(in, 0xee, sizeof(in));
		CHECK_OK(fi_trecv(s->ep, in, 64, NULL, s->peer, 1, 0, in));
		struct fi_cq_err_entry err = expect_error(s, in, FI_ETRUNC);
		CHECK(err.len == 64 && err.olen == sent[i] - 64 && err.tag == 1);
		CHECK(pattern_holds(in, 64, 4) && in[64] == 0xee);
	}
}

static void a_truncation_is_an_error_with_the_missing_length(void **state)
{
	run_pair(&ordinary, truncating);
}

/* ---- plain messages ---- */

static void plain(struct side *s)
{
	uint8_t in[20000], out[20000];

	pattern_fill(out, sizeof(out), 5);
	if (s->me == 0) {
		CHECK_OK(fi_tinject(s->ep, out, 10, s->peer,
				    0)); /* plain receives never see tagged messages */
		CHECK_OK(fi_send(s->ep, out, 20000, NULL, s->peer, out));
		expect(s, out);
		CHECK_OK(fi_injectdata(s->ep, out, 100, 7, s->peer));
		return;
	}
	CHECK_OK(fi_recv(s->ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in));
	struct fi_cq_tagged_entry e = expect(s, in);
	CHECK((e.flags & (FI_MSG | FI_RECV)) == (FI_MSG | FI_RECV));
	CHECK(e.len == 20000 && pattern_holds(in, 20000, 5));
	CHECK_OK(fi_recv(s->ep, in, sizeof(in), NULL, s->peer, in));
	e = expect(s, in);
	CHECK(e.len == 100 && e.flags & FI_REMOTE_CQ_DATA && e.data == 7);
	CHECK_OK(fi_trecv(s->ep, in, sizeof(in), NULL, s->peer, 0, 0, in));
	CHECK(expect(s, in).len == 10);
}

static void plain_messages_match_by_source_only(void **state)
{
	run_pair(&ordinary, plain);
}

enum { POOL = 65536, STREAM = 300 };

static size_t stream_len(int i)
{
	return (size_t)(i * 37 % 1500);
}

static void post_pool(struct side *s, uint8_t *pool, void *context)
{
	struct iovec v = {pool, POOL};
	struct fi_msg m = {.msg_iov = &v, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = context};

	CHECK_OK(fi_recvmsg(s->ep, &m, FI_MULTI_RECV));
}

static void multi(struct side *s)
{
	static uint8_t pools[2][POOL];
	size_t room = 4096, len = sizeof(room);
	uint8_t out[1500];

	if (s->me == 0) {
		together(s);
		for (int i = 0; i < STREAM; i++) {
			pattern_fill(out, stream_len(i), (uint64_t)i);
			CHECK_OK(fi_inject(s->ep, out, stream_len(i), s->peer));
		}
		together(s);
		return;
	}
	CHECK_OK(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &room, len));
	CHECK_OK(fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &room, &len));
	CHECK(room == 4096);
	for (int i = 0; i < 2; i++)
		post_pool(s, pools[i], pools[i]);
	together(s);
	int released = 0;
	for (int i = 0; i < STREAM; i++) {
		struct fi_cq_err_entry err;
		struct fi_cq_tagged_entry e = next_completion(s, &err);
		uint8_t *pool = e.op_context;
		CHECK(!err.err && (pool == pools[0] || pool == pools[1]));
		CHECK(e.len == stream_len(i));
		CHECK((uint8_t *)e.buf >= pool && (uint8_t *)e.buf + e.len <= pool + POOL);
		CHECK(pattern_holds(e.buf, e.len, (uint64_t)i));
		if (e.flags & FI_MULTI_RECV) {
			released++;
			post_pool(s, pool, pool);
		}
	}
	CHECK(released >= STREAM * 700 / POOL - 1);
	for (int i = 0; i < 2; i++) { /* as MPICH does at the end */
		CHECK_OK(fi_cancel(&s->ep->fid, pools[i]));
		CHECK(expect_error(s, pools[i], FI_ECANCELED).flags & FI_MULTI_RECV);
	}
	together(s);
}

static void a_multi_receive_buffer_takes_many_messages_and_comes_back(void **state)
{
	run_pair(&ordinary, multi);
}

/* ---- completions on demand, waiting ---- */

static void quiet(struct side *s)
{
	uint64_t word = 1, got;
	struct iovec v = {&word, 8};
	struct fi_msg_tagged m = {.msg_iov = &v, .iov_count = 1, .addr = s->peer, .tag = 2, .context = &v};

	if (s->me == 0) {
		CHECK_OK(fi_tsend(s->ep, &word, 8, NULL, s->peer, 1, &word)); /* silent */
		CHECK_OK(fi_tsendmsg(s->ep, &m, FI_COMPLETION));
		expect(s, &v);
		return;
	}
	CHECK_OK(fi_trecv(s->ep, &got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &got)); /* silent */
	m.addr = FI_ADDR_UNSPEC;
	CHECK_OK(fi_trecvmsg(s->ep, &m, FI_COMPLETION));
	expect(s, &v);
	CHECK(got == 1 && word == 1);
}

static void selective_completion_reports_only_what_is_asked(void **state)
{
	run_pair(&selective, quiet);
}

static void sleeping(struct side *s)
{
	struct fi_cq_tagged_entry e;
	uint64_t word = 3;
	void *ready[2];
	struct fid_poll *set;
	struct fi_poll_attr attr = {0};

	if (s->me == 0) {
		CHECK(fi_cq_sread(s->cq, &e, 1, NULL, 20) == -FI_EAGAIN);
		CHECK_OK(fi_cq_signal(s->cq));
		CHECK(fi_cq_sread(s->cq, &e, 1, NULL, -1) == -FI_ECANCELED);
		CHECK_OK(fi_trecv(s->ep, &word, 8, NULL, s->peer, 1, 0, &word));
		together(s);
		CHECK(fi_cq_sread(s->cq, &e, 1, NULL, -1) == 1);
		CHECK(e.op_context == &word && word == 4);
		CHECK_OK(fi_trecv(s->ep, &word, 8, NULL, s->peer, 2, 0, &word));
		CHECK_OK(fi_poll_open(s->domain, &attr, &set));
		CHECK_OK(fi_poll_add(set, &s->cq->fid, 0));
		CHECK(fi_poll(set, ready, 2) == 0);
		together(s);
		while (fi_poll(set, ready, 2) == 0)
			;
		CHECK(fi_cq_read(s->cq, &e, 1) == 1);
		CHECK_OK(fi_poll_del(set, &s->cq->fid, 0));
		CHECK_OK(fi_close(&set->fid));
		return;
	}
	together(s);
	usleep(30000);
	word = 4;
	CHECK_OK(fi_tinject(s->ep, &word, 8, s->peer, 1));
	together(s);
	CHECK_OK(fi_tinject(s->ep, &word, 8, s->peer, 2));
}

static void a_waiting_read_ends_by_completion_time_or_signal(void **state)
{
	run_pair(&ordinary, sleeping);
	run_pair(&safe, sleeping);
}

/* A queue asked for a handful of entries holds all that come. */
static void flood(struct side *s)
{
	enum { COUNT = 5000 };
	uint64_t word = 0;

	if (s->me == 0) {
		for (int i = 0; i < COUNT; i++, word++)
			CHECK_OK(fi_tinject(s->ep, &word, 8, s->peer, 1));
		together(s);
		return;
	}
	static uint64_t got[COUNT];
	for (int i = 0; i < COUNT; i++)
		CHECK_OK(fi_trecv(s->ep, &got[i], 8, NULL, s->peer, 1, 0, &got[i]));
	together(s);
	for (int i = 0; i < COUNT; i++) {
		expect(s, &got[i]);
		CHECK(got[i] == (uint64_t)i);
	}
}

static void a_queue_never_loses_an_entry(void **state)
{
	run_pair(&ordinary, flood);
}

/* A process that ends without a word is reported to who waits for it. */
static void leaving(struct side *s)
{
	uint64_t word;

	if (s->me == 0) {
		CHECK_OK(fi_tinject(s->ep, &s->me, 4, s->peer, 1));
		CHECK_OK(fi_trecv(s->ep, &word, 8, NULL, s->peer, 2, 0, &word));
		expect(s, &word);
		CHECK_OK(fi_trecv(s->ep, &word, 8, NULL, s->peer, 3, 0, &word));
		expect_error(s, &word, FI_ECONNRESET);
	} else {
		CHECK_OK(fi_trecv(s->ep, &word, 8, NULL, s->peer, 1, 0, &word));
		expect(s, &word);
		CHECK_OK(fi_tsend(s->ep, &word, 8, NULL, s->peer, 2, &word));
		expect(s, &word);
	}
	_exit(0);
}

static void a_receive_from_a_dead_process_ends_with_an_error(void **state)
{
	run_pair(&ordinary, leaving);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tagged_messages_of_every_size_arrive_whole),
		cmocka_unit_test(equal_tags_keep_their_order),
		cmocka_unit_test(every_form_of_a_tagged_call_works),
		cmocka_unit_test(a_directed_receive_takes_only_from_its_source),
		cmocka_unit_test(peek_claim_and_discard),
		cmocka_unit_test(a_cancelled_receive_says_so_and_takes_nothing),
		cmocka_unit_test(what_became_of_a_cancelled_receive_is_read_first),
		cmocka_unit_test(a_truncation_is_an_error_with_the_missing_length),
		cmocka_unit_test(plain_messages_match_by_source_only),
		cmocka_unit_test(a_multi_receive_buffer_takes_many_messages_and_comes_back),
		cmocka_unit_test(selective_completion_reports_only_what_is_asked),
		cmocka_unit_test(a_waiting_read_ends_by_completion_time_or_signal),
		cmocka_unit_test(a_queue_never_loses_an_entry),
		cmocka_unit_test(a_receive_from_a_dead_process_ends_with_an_error),
	};
	int rc = ofi_load();

	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "ofi_missing.h"
#endif

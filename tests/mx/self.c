/* SPDX-License-Identifier: BSD-3-Clause */
/* One process, one endpoint that speaks to itself: every kind of message, and every way to ask after it. */
#include "mx_test.h"

#define MAX (1 << 20)

static mx_endpoint_t ep;
static mx_endpoint_addr_t self;
static unsigned char *out, *in;

static void begin(void)
{
	OK(mx_init());
	ep = open_any();
	self = own_addr(ep);
	out = malloc(MAX);
	in = malloc(MAX);
	CHECK(out && in);
}

static void end(void)
{
	free(out);
	free(in);
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
}

static const uint32_t lengths[] = {0, 1, 8, 32, 33, 128, 129, 4096, 4097, 32768, 32769, 65536, 100000, MAX};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void loopback(void)
{
	begin();
	for (unsigned i = 0; i < 4 * LENGTHS; i++) {
		uint32_t len = lengths[i / 4];
		int posted = i & 1, sync = i & 2;
		mx_request_t r = posted ? irecv(ep, in, MAX, i, MX_MATCH_MASK_NONE) : NULL;
		pattern(out, len, i);
		memset(in, 0, len);
		mx_request_t s = sync ? issend(ep, self, out, len, i) : isend(ep, self, out, len, i);
		if (!posted)
			r = irecv(ep, in, MAX, i, MX_MATCH_MASK_NONE);
		mx_status_t st = finish_well(ep, r);
		CHECK(st.msg_length == len && st.xfer_length == len && st.match_info == i);
		CHECK(memcmp(&st.source, &self, sizeof(self)) == 0);
		CHECK(is_pattern(in, len, i));
		st = finish_well(ep, s);
		CHECK(st.msg_length == len && st.match_info == i);
	}
	end();
}

static uint32_t cut(mx_segment_t *segs, unsigned char *buf, uint32_t len, uint32_t count)
{
	for (uint32_t i = 0, at = 0; i < count; i++) {
		uint32_t part = i + 1 == count ? len - at : len / count * (i % 3) / 2;
		segs[i] = (mx_segment_t){part ? buf + at : NULL, part};
		at += part;
	}
	return count;
}

static void vectorial(void)
{
	static const uint32_t counts[] = {0, 1, 2, 3, 7, 100, MX_MAX_SEGMENTS};
	mx_segment_t so[MX_MAX_SEGMENTS], si[MX_MAX_SEGMENTS];
	begin();
	for (unsigned c = 0; c < 49; c++) {
		for (unsigned l = 0; l < LENGTHS; l++) {
			uint32_t no = counts[c % 7], ni = counts[c / 7], len = no && ni ? lengths[l] : 0;
			mx_request_t r, s;
			pattern(out, len, l);
			memset(in, 0, len);
			cut(so, out, len, no);
			cut(si, in, len, ni);
			OK(mx_isend(ep, no ? so : NULL, no, self, l, NULL, &s));
			OK(mx_irecv(ep, ni ? si : NULL, ni, l, MX_MATCH_MASK_NONE, NULL, &r));
			CHECK(finish_well(ep, r).xfer_length == len);
			finish_well(ep, s);
			CHECK(is_pattern(in, len, l));
		}
	}
	end();
}

/* Messages wait, and are taken in another order than sent. */
static void unexpected(void)
{
	enum { N = 40 };
	static unsigned char data[N][5000];
	mx_request_t s[N];
	mx_status_t st;
	uint32_t result;
	begin();
	for (unsigned i = 0; i < N; i++)
		s[i] = isend(ep, self, pattern(data[i], 5000, i), i * 125, i);
	OK(mx_probe(ep, MX_INFINITE, 7, MX_MATCH_MASK_NONE, &st, &result));
	CHECK(result && st.msg_length == 7 * 125 && st.match_info == 7);
	OK(mx_iprobe(ep, N, MX_MATCH_MASK_NONE, &st, &result));
	CHECK(!result);
	for (unsigned i = N; i-- > 0;) {
		CHECK(finish_well(ep, irecv(ep, in, MAX, i, MX_MATCH_MASK_NONE)).msg_length == i * 125);
		CHECK(is_pattern(in, (size_t)i * 125, i));
	}
	for (unsigned i = 0; i < N; i++)
		finish_well(ep, s[i]);
	/* of several that fit, the first */
	for (unsigned i = 0; i < N; i++)
		s[i] = isend(ep, self, data[i], i, 0x100 | i);
	for (unsigned i = 0; i < N; i++)
		CHECK(finish_well(ep, irecv(ep, in, MAX, 0x100, ~UINT64_C(0xff))).match_info == (0x100 | i));
	for (unsigned i = 0; i < N; i++)
		finish_well(ep, s[i]);
	end();
}

static void context_ids(void)
{
	mx_param_t p = {.key = MX_PARAM_CONTEXT_ID, .val.context_id = {.bits = 16, .shift = 20}};
	const uint64_t one = UINT64_C(1) << 20, mask = UINT64_C(0xffff) << 20;
	mx_request_t r;
	mx_status_t st;
	uint32_t result;
	begin();
	OK(mx_close_endpoint(ep));
	OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, &p, 1, &ep));
	self = own_addr(ep);
	mx_set_error_handler(MX_ERRORS_RETURN);
	CHECK(mx_irecv(ep, NULL, 0, 0, mask << 1, NULL, &r) == MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK);
	for (unsigned i = 0; i < 3; i++)
		r = isend(ep, self, out, i, i * one | 5);    /* asked after below, by its bits */
	OK(mx_probe(ep, MX_INFINITE, 5, 0xf, &st, &result)); /* over all context ids */
	CHECK(result && st.match_info == 5);
	OK(mx_probe(ep, MX_INFINITE, 2 * one, mask, &st, &result));
	CHECK(result && st.msg_length == 2);
	for (unsigned i = 3; i-- > 0;)
		CHECK(finish_well(ep, irecv(ep, in, MAX, i * one, mask)).msg_length == i);
	for (unsigned i = 0; i < 3; i++) {
		OK(mx_wait_any(ep, MX_INFINITE, i * one, mask, &st, &result));
		CHECK(result && st.match_info == (i * one | 5) && st.msg_length == i);
	}
	end();
}

static void truncated(void)
{
	begin();
	for (unsigned i = 0; i < LENGTHS; i++) {
		for (uint32_t room = 0; room < 3; room++) {
			uint32_t len = lengths[i], take = len / 2 * room;
			pattern(out, len, i);
			memset(in, 0xee, MAX);
			mx_request_t s = isend(ep, self, out, len, 3);
			mx_status_t st = finish(ep, irecv(ep, in, take, 3, MX_MATCH_MASK_NONE));
			CHECK(st.msg_length == len && st.xfer_length == (take < len ? take : len));
			CHECK(st.code == (take < len ? MX_STATUS_TRUNCATED : MX_STATUS_SUCCESS));
			CHECK(is_pattern(in, st.xfer_length, i) && (take == MAX || in[take] == 0xee));
			finish(ep, s);
		}
	}
	end();
}

static void any(void)
{
	enum { N = 64 };
	mx_request_t s[N], r[N], first;
	mx_status_t st;
	uint32_t result, sends = 0, receives = 0;
	void *context;
	begin();
	OK(mx_test_any(ep, 0, 0, &st, &result));
	CHECK(!result);
	OK(mx_wait_any(ep, 1, 0, 0, &st, &result));
	CHECK(!result);
	OK(mx_peek(ep, 1, &first, &result));
	CHECK(!result);
	for (unsigned i = 0; i < N; i++) {
		mx_segment_t seg = {in + (size_t)i * 4096, 4096};
		OK(mx_irecv(ep, &seg, 1, i, MX_MATCH_MASK_NONE, in + i, &r[i]));
		seg.segment_ptr = out;
		OK(mx_isend(ep, &seg, 1, self, i, out + i, &s[i]));
	}
	OK(mx_wait_any(ep, MX_INFINITE, 9, MX_MATCH_MASK_NONE, &st, &result));
	CHECK(result && st.match_info == 9 && (st.context == in + 9 || st.context == out + 9));
	receives += st.context == in + 9;
	sends += st.context == out + 9;
	for (unsigned i = 1; i < 2 * N; i++) {
		OK(mx_peek(ep, MX_INFINITE, &first, &result));
		CHECK(result);
		OK(mx_context(&first, &context));
		st = finish_well(ep, first);
		CHECK(st.context == context);
		receives += context == in + st.match_info;
		sends += context == out + st.match_info;
	}
	CHECK(sends == N && receives == N);
	OK(mx_ipeek(ep, &first, &result));
	CHECK(!result);
	end();
}

static void cancel(void)
{
	mx_request_t r, second;
	uint32_t result;
	begin();
	r = irecv(ep, in, MAX, 1, MX_MATCH_MASK_NONE);
	second = irecv(ep, in, MAX, 1, MX_MATCH_MASK_NONE);
	OK(mx_cancel(ep, &r, &result));
	CHECK(result && !r);
	mx_request_t s = isend(ep, self, out, 10, 1);
	finish_well(ep, s);
	OK(mx_cancel(ep, &second, &result));
	CHECK(!result && second);
	CHECK(finish_well(ep, second).msg_length == 10);
	OK(mx_ipeek(ep, &r, &result)); /* of the cancelled one nothing is heard */
	CHECK(!result);
	mx_set_error_handler(MX_ERRORS_RETURN);
	s = isend(ep, self, out, 10, 1);
	CHECK(mx_cancel(ep, &s, &result) == MX_CANCEL_NOT_SUPPORTED);
	finish_well(ep, irecv(ep, in, MAX, 1, MX_MATCH_MASK_NONE));
	finish_well(ep, s);
	end();
}

static void forget(void)
{
	mx_request_t r;
	uint32_t result;
	begin();
	for (unsigned i = 0; i < 1000; i++) {
		mx_segment_t seg = {out, 8};
		OK(mx_isend(ep, &seg, 1, self, 1, NULL, i & 1 ? &r : NULL));
		if (i & 1)
			OK(mx_forget(ep, &r));
		r = irecv(ep, in, 8, 1, MX_MATCH_MASK_NONE);
		if (i % 10)
			OK(mx_forget(ep, &r));
		else
			finish_well(ep, r);
	}
	OK(mx_ipeek(ep, &r, &result));
	CHECK(!result);
	end();
}

static void buffered(void)
{
	uint32_t result;
	begin();
	mx_set_error_handler(MX_ERRORS_RETURN);
	mx_request_t s = issend(ep, self, out, 100, 1);
	OK(mx_ibuffered(ep, &s, &result));
	CHECK(!result);
	OK(mx_test(ep, &s, NULL, &result));
	CHECK(!result && s);
	mx_request_t r = irecv(ep, in, MAX, 1, MX_MATCH_MASK_NONE);
	OK(mx_buffered(ep, &s, MX_INFINITE, &result));
	CHECK(result);
	CHECK(mx_ibuffered(ep, &r, &result) == MX_BAD_REQUEST);
	finish_well(ep, r);
	finish_well(ep, s);
	end();
}

static void progression(void)
{
	mx_status_t st;
	uint32_t result;
	begin();
	OK(mx_disable_progression(ep));
	OK(mx_wait_any(ep, 1, 0, 0, &st, &result));
	CHECK(!result);
	OK(mx_reenable_progression(ep));
	mx_request_t s = isend(ep, self, out, 100, 1);
	finish_well(ep, irecv(ep, in, MAX, 1, MX_MATCH_MASK_NONE));
	OK(mx_progress(ep));
	finish_well(ep, s);
	end();
}

/* ---- the handler ---- */

static struct {
	unsigned calls, seed;
	uint32_t length;
	int finished, posts, has_data;
	mx_request_t recv;
} h;

static mx_unexp_handler_action_t on_message(void *context, mx_endpoint_addr_t source, uint64_t match,
					    uint32_t length, void *data)
{
	CHECK(context == &h && memcmp(&source, &self, sizeof(self)) == 0);
	h.calls++;
	h.length = length;
	h.has_data = data != NULL;
	mx_set_error_handler(MX_ERRORS_RETURN);
	CHECK(mx_close_endpoint(ep) == MX_CLOSE_IN_HANDLER);
	if (h.posts)
		h.recv = irecv(ep, in, MAX, match, MX_MATCH_MASK_NONE);
	if (data)
		CHECK(is_pattern(data, length, h.seed));
	return h.finished ? MX_RECV_FINISHED : MX_RECV_CONTINUE;
}

static void handler(void)
{
	mx_status_t st;
	uint32_t result;
	begin();
	OK(mx_register_unexp_handler(ep, on_message, &h));
	for (unsigned i = 0; i < 6 * LENGTHS; i++) {
		uint32_t len = lengths[i / 6];
		h.posts = i % 3 == 1;
		h.finished = i % 3 == 2;
		h.calls = 0;
		h.seed = i;
		memset(in, 0, len);
		mx_request_t s = i / 3 % 2 ? issend(ep, self, pattern(out, len, i), len, i)
					   : isend(ep, self, pattern(out, len, i), len, i);
		while (!h.calls)
			OK(mx_progress(ep));
		CHECK(h.length == len && (h.has_data || !len || len > 1024));
		if (i % 3 == 0) { /* it waits, and may be looked at */
			OK(mx_probe(ep, MX_INFINITE, 0, 0, &st, &result));
			CHECK(result && st.match_info == i && st.msg_length == len);
			h.recv = irecv(ep, in, MAX, i, MX_MATCH_MASK_NONE);
		}
		if (!h.finished) {
			CHECK(finish_well(ep, h.recv).xfer_length == len);
			CHECK(is_pattern(in, len, i));
		}
		finish_well(ep, s);
		OK(mx_iprobe(ep, 0, 0, &st, &result));
		CHECK(!result && h.calls == 1);
	}
	end();
}

/* What has been shown comes before what has not, and a receive that waits is not asked about. */
static void handler_order(void)
{
	enum { N = 20 };
	mx_request_t s[N];
	begin();
	OK(mx_register_unexp_handler(ep, on_message, &h));
	mx_request_t r = irecv(ep, in, MAX, 0, MX_MATCH_MASK_NONE);
	h.seed = 1;
	for (unsigned i = 0; i < N; i++) {
		s[i] = isend(ep, self, pattern(out, 3, 1), 3, i);
		if (i == N / 2)
			OK(mx_progress(ep));
	}
	finish_well(ep, r);
	for (unsigned i = 1; i < N; i++)
		CHECK(finish_well(ep, irecv(ep, in, MAX, 0, 0)).match_info == i);
	for (unsigned i = 0; i < N; i++)
		finish_well(ep, s[i]);
	OK(mx_register_unexp_handler(ep, NULL, NULL));
	h.calls = 0;
	s[0] = isend(ep, self, out, 3, 7);
	OK(mx_progress(ep));
	finish_well(ep, irecv(ep, in, MAX, 7, MX_MATCH_MASK_NONE));
	CHECK(!h.calls);
	finish_well(ep, s[0]);
	s[0] = isend(ep, self, out, 3, 7); /* left there */
	finish_well(ep, s[0]);
	end();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{"loopback", loopback},
		{"vectorial", vectorial},
		{"unexpected", unexpected},
		{"context_ids", context_ids},
		{"truncated", truncated},
		{"any", any},
		{"cancel", cancel},
		{"forget", forget},
		{"buffered", buffered},
		{"progression", progression},
		{"handler", handler},
		{"handler_order", handler_order},
		{NULL, NULL},
	};
	return run_tests(tests, argc, argv);
}

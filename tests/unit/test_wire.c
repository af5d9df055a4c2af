/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire codec and the authentication of frames. */
#include "unit.h"

#include "net/auth.h"
#include "net/check.h"
#include "net/wire.h"

/* A copy of exactly this length, so that reading one byte further is an error that the address sanitizer sees. */
static uint8_t *exact(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, bytes, len);
	return copy;
}

static void siphash_matches_its_paper(void **state)
{
	/* Appendix A of the SipHash paper hashes 15 bytes; the reference vectors with 8 and 16 bytes are whole words. */
	struct sn_sip_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
	const uint64_t words[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

	assert_true(sn_sip(&key, words, 0) == 0x726fdb47dd0e0e31u);
	assert_true(sn_sip(&key, words, 1) == 0x93f5f5799a932462u);
	assert_true(sn_sip(&key, words, 2) == 0x3f2acc7f57c29bdbu);
}

static void check_is_crc32c_of_four_lanes(void **state)
{
	/* "123456789" has the CRC-32C 0xe3069283. One word of payload leaves three lanes at ~0. */
	const uint8_t nothing[1] = {0};
	uint32_t empty = sn_check_of(nothing, 0);

	/* four lanes of ~0, CRC-32C without the final inversion: the check of 16 bytes of 0xff from ~0 */
	uint32_t crc = UINT32_MAX;
	for (int i = 0; i < 16; i++) {
		crc ^= 0xff;
		for (int b = 0; b < 8; b++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	assert_int_equal(empty, crc);
}

static void check_is_the_same_by_each_way_and_in_pieces(void **state)
{
	uint64_t seed = unit_seed();
	uint8_t bytes[2200]; /* past all the loops of the fastest way */

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)unit_random(&seed);
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		uint32_t want = sn_check_of(bytes, len);
		struct sn_check c;
		size_t cut = unit_random(&seed) % (len + 1) & ~(size_t)7;
		size_t cut2 = cut + (unit_random(&seed) % (len - cut + 1) & ~(size_t)7);
		for (unsigned way = 0; way < 8; way++)
			if (sn_check_way(way))
				assert_int_equal(want, sn_check_by(way, bytes, len));
		struct iovec v[40];
		uint32_t pieces = 0;
		for (size_t at = 0; at < len; pieces++) { /* of any lengths, odd and none */
			size_t some = unit_random(&seed) % 60, n = len - at;
			n = pieces == 39 ? n : SN_MIN_OF(some, n);
			v[pieces] = (struct iovec){bytes + at, n};
			at += n;
		}
		sn_check_start(&c);
		sn_check_pieces(&c, v, pieces);
		assert_int_equal(want, sn_check_end(&c));
		sn_check_start(&c);
		sn_check_add(&c, bytes, cut);
		sn_check_add(&c, bytes + cut, cut2 - cut);
		sn_check_add(&c, bytes + cut2, len - cut2);
		assert_int_equal(want, sn_check_end(&c));
	}
}

/* Behind a head of the lanes that come first in a frame, from and to any address; nothing beside the copy is written. */
static void check_that_copies_is_the_same_and_copies(void **state)
{
	uint64_t seed = unit_seed();
	uint8_t bytes[2200], to[2200 + 128], head[SN_CHECK_HEAD];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)unit_random(&seed);
	memcpy(head, bytes, sizeof(head));
	for (size_t len = 0; len <= sizeof(bytes) - 64; len++) {
		const uint8_t *from = bytes + unit_random(&seed) % 64;
		size_t at = 1 + unit_random(&seed) % 64;
		struct sn_check plain;
		sn_check_start(&plain);
		sn_check_add(&plain, head, SN_CHECK_HEAD);
		sn_check_add(&plain, from, len);
		uint32_t want = sn_check_end(&plain);
		assert_int_equal(want, sn_check_piece(head, from, len, NULL));
		for (unsigned way = 0; way < 8; way++) {
			if (!sn_check_way(way))
				continue;
			memset(to, 0xa5, sizeof(to));
			assert_int_equal(want, sn_check_piece_by(way, head, from, len, NULL));
			assert_int_equal(want, sn_check_piece_by(way, head, from, len, to + at));
			assert_memory_equal(to + at, from, len);
			for (size_t i = 0; i < sizeof(to); i++)
				assert_true(to[i] == 0xa5 || (i >= at && i < at + len));
		}
	}
}

static void check_sees_every_single_bit(void **state)
{
	uint8_t bytes[100];

	memset(bytes, 0x5a, sizeof(bytes));
	uint32_t want = sn_check_of(bytes, sizeof(bytes));
	for (size_t i = 0; i < 8 * sizeof(bytes); i++) {
		bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
		assert_int_not_equal(want, sn_check_of(bytes, sizeof(bytes)));
		bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
	}
}

static void keys_differ_by_receiver_direction_and_session(void **state)
{
	const uint8_t a[12] = {1}, b[12] = {2};
	struct sn_sip_key k[6];

	sn_auth_link_key(&k[0], a, 5, 6);
	sn_auth_link_key(&k[1], b, 5, 6);
	sn_auth_link_key(&k[2], a, 6, 5);
	sn_auth_link_key(&k[3], a, 5, 7);
	sn_auth_hello_key(&k[4], a);
	sn_auth_hello_key(&k[5], b);
	for (int i = 0; i < 6; i++)
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(&k[i], &k[j], sizeof(k[i]));
}

static void mac_covers_every_byte_of_the_header(void **state)
{
	struct sn_sip_key key = {{1, 2}};
	struct sn_wire_head h;
	uint8_t *raw = (uint8_t *)&h;

	sn_wire_start(&h, SN_WIRE_MSG, 40, 77);
	uint64_t want = sn_auth_mac(&key, &h);
	for (size_t i = 0; i < sizeof(h); i++) {
		raw[i] ^= 1;
		bool in_mac =
			i >= offsetof(struct sn_wire_head, mac) && i < offsetof(struct sn_wire_head, seq);
		assert_true((sn_auth_mac(&key, &h) == want) == in_mac);
		raw[i] ^= 1;
	}
}

static void macs_of_a_train_are_those_of_its_frames(void **state)
{
	uint64_t seed = unit_seed();
	struct sn_wire_head h[SN_AUTH_MACS];
	struct sn_sip_key key[SN_AUTH_MACS];

	for (unsigned i = 0; i < sizeof(h); i++)
		((uint8_t *)h)[i] = (uint8_t)unit_random(&seed);
	for (unsigned i = 0; i < SN_AUTH_MACS; i++)
		key[i] = (struct sn_sip_key){{unit_random(&seed), unit_random(&seed)}};
	for (unsigned count = 0; count <= SN_AUTH_MACS; count++) {
		struct sn_auth_of of[SN_AUTH_MACS];
		uint64_t mac[SN_AUTH_MACS];
		for (unsigned i = 0; i < count; i++)
			of[i] = (struct sn_auth_of){&key[i], &h[i]};
		sn_auth_macs(mac, of, count);
		for (unsigned i = 0; i < count; i++)
			assert_true(mac[i] == sn_auth_mac(&key[i], &h[i]));
	}
}

static void hello_mask_hides_and_comes_off(void **state)
{
	struct sn_sip_key key = {{3, 4}};
	struct sn_wire_hello h = {.session = htole64(9)}, masked;

	h.h.type = SN_WIRE_HELLO;
	memset(&h.secret, 0x11, sizeof(h.secret));
	masked = h;
	sn_auth_mask(&key, &masked);
	for (size_t i = 0; i + 4 <= sizeof(h.secret); i++)
		assert_memory_not_equal((uint8_t *)&masked.secret + i, (uint8_t *)&h.secret + i, 4);
	assert_memory_equal(&masked, &h, offsetof(struct sn_wire_hello, secret));
	sn_auth_mask(&key, &masked);
	assert_memory_equal(&masked, &h, sizeof(h));
}

static void frames_too_short_for_their_type_are_refused(void **state)
{
	uint8_t frame[256];
	enum sn_drop why;

	for (uint8_t type = 0; type < 40; type++) {
		uint32_t least = sn_wire_min(type);
		assert_true((least != 0) == (type >= 1 && type < SN_WIRE_TYPES));
		for (uint32_t len = 0; len <= 200; len++) {
			memset(frame, 0, sizeof(frame));
			sn_wire_start((void *)frame, type, len, 0);
			uint8_t *copy = exact(frame, len);
			uint32_t got = len;
			int rc = sn_wire_check(copy, &got, 1500, &why);
			assert_int_equal(rc, least && len >= least ? 0 : -1);
			if (rc)
				assert_int_equal(why, len < 40 || least ? SN_DROP_SHORT : SN_DROP_TYPE);
			free(copy);
		}
	}
}

static void padding_is_cut_off_and_lies_about_length_are_refused(void **state)
{
	uint8_t frame[2000] = {0};
	struct sn_wire_head *h = (void *)frame;
	enum sn_drop why;
	uint32_t len = 60;

	sn_wire_start(h, SN_WIRE_ACK, 40, 1);
	assert_int_equal(sn_wire_check(frame, &len, 1500, &why), 0);
	assert_int_equal(len, 40);
	h->len = htole16(61);
	len = 60;
	assert_int_equal(sn_wire_check(frame, &len, 1500, &why), -1);
	assert_int_equal(why, SN_DROP_SHORT);
	h->len = htole16(1501);
	len = 2000;
	assert_int_equal(sn_wire_check(frame, &len, 1500, &why), -1);
	assert_int_equal(why, SN_DROP_LONG);
	h->version++;
	assert_int_equal(sn_wire_check(frame, &len, 1500, &why), -1);
	assert_int_equal(why, SN_DROP_VERSION);
}

static struct sn_rec some_record(uint8_t what, const uint8_t *imm, uint64_t *seed)
{
	struct sn_rec r = {.what = what, .body_len = (uint32_t)(unit_random(seed) % 100)};

	r.head = (struct sn_head){.kind = (uint8_t)(1 + unit_random(seed) % SN_K_MAX),
				  .flags = (uint8_t)(unit_random(seed) & SN_H_MASK),
				  .imm_len = (uint8_t)(unit_random(seed) % (SN_IMM_MAX + 1)),
				  .bits = unit_random(seed),
				  .data = unit_random(seed),
				  .imm = imm};
	r.head.len = r.body_len;
	if (what == SN_REC_FIRST)
		r.head.len = r.body_len + 1 + unit_random(seed) % 1000;
	if (what == SN_REC_MORE)
		r.body_len++;
	if (what == SN_REC_MORE || what == SN_REC_DONE)
		r.head = (struct sn_head){0};
	if (what == SN_REC_RDV || what == SN_REC_DONE) {
		r.body_len = 0;
		r.rdv = (uint32_t)unit_random(seed);
	}
	if (what == SN_REC_RDV) {
		r.head.len = unit_random(seed) | 1;
		r.frag = SN_WIRE_FRAG_MIN + (uint32_t)(unit_random(seed) % 60000);
	}
	if (what == SN_REC_DONE)
		r.status = -(int64_t)(unit_random(seed) % 20);
	return r;
}

static void records_read_back_as_written(void **state)
{
	uint64_t seed = unit_seed();
	uint8_t frame[8192], imm[SN_IMM_MAX], body[128];
	struct sn_rec in[20], out;

	for (int round = 0; round < 500; round++) {
		uint32_t at = 0;
		unsigned count = 1 + (unsigned)(unit_random(&seed) % 20);
		for (size_t i = 0; i < sizeof(imm); i++)
			imm[i] = (uint8_t)unit_random(&seed);
		for (unsigned i = 0; i < count; i++) {
			in[i] = some_record((uint8_t)(1 + unit_random(&seed) % 5), imm, &seed);
			at += sn_wire_rec_put(frame + at, &in[i]);
			memset(body, (int)i, sizeof(body));
			memcpy(frame + at, body, in[i].body_len);
			at += in[i].body_len;
		}
		uint8_t *copy = exact(frame, at);
		const uint8_t *next = copy;
		for (unsigned i = 0; i < count; i++) {
			assert_int_equal(sn_wire_rec_next(&next, copy + at, &out), 1);
			assert_int_equal(out.what, in[i].what);
			assert_int_equal(out.body_len, in[i].body_len);
			assert_int_equal(out.rdv, in[i].rdv);
			assert_int_equal(out.frag, in[i].frag);
			assert_int_equal(out.status, in[i].status);
			assert_int_equal(out.head.kind, in[i].head.kind);
			assert_int_equal(out.head.flags, in[i].head.flags);
			assert_int_equal(out.head.bits, in[i].head.bits);
			assert_int_equal(out.head.data, in[i].head.data);
			assert_int_equal(out.head.imm_len, in[i].head.imm_len);
			if (in[i].what != SN_REC_MORE)
				assert_int_equal(out.head.len, in[i].head.len);
			if (out.head.imm_len)
				assert_memory_equal(out.head.imm, imm, out.head.imm_len);
			for (uint32_t b = 0; b < out.body_len; b++)
				assert_int_equal(out.body[b], i);
		}
		assert_int_equal(sn_wire_rec_next(&next, copy + at, &out), 0);
		free(copy);
	}
}

static void records_cut_anywhere_are_refused(void **state)
{
	uint64_t seed = unit_seed();
	uint8_t frame[512], imm[SN_IMM_MAX] = {0};
	struct sn_rec out;

	for (uint8_t what = 1; what <= 5; what++) {
		struct sn_rec r = some_record(what, imm, &seed);
		uint32_t len = sn_wire_rec_put(frame, &r);
		memset(frame + len, 0, r.body_len);
		len += r.body_len;
		for (uint32_t cut = 1; cut < len; cut++) {
			uint8_t *copy = exact(frame, cut);
			const uint8_t *next = copy;
			assert_int_equal(sn_wire_rec_next(&next, copy + cut, &out), -1);
			free(copy);
		}
	}
}

static void records_with_impossible_fields_are_refused(void **state)
{
	struct sn_rec out;
	struct {
		const char *what;
		struct sn_wire_rec w;
	} bad[] = {
		{"no such record", {.what = 6}},
		{"record 0", {.what = 0}},
		{"kind 0", {.what = SN_REC_EAGER, .kind = 0}},
		{"kind above the last", {.what = SN_REC_EAGER, .kind = SN_K_MAX + 1}},
		{"65 bytes of immediate data", {.what = SN_REC_EAGER, .kind = 1, .imm_len = 65}},
		{"body beyond the frame", {.what = SN_REC_EAGER, .kind = 1, .bytes = UINT32_MAX}},
		{"FIRST of a body above the limit",
		 {.what = SN_REC_FIRST, .kind = 1, .len = SN_WIRE_EAGER_MAX + 1}},
		{"FIRST that is all", {.what = SN_REC_FIRST, .kind = 1, .bytes = 10, .len = 10}},
		{"MORE of nothing", {.what = SN_REC_MORE}},
		{"rendezvous of nothing", {.what = SN_REC_RDV, .kind = 1, .frag = 1000}},
		{"rendezvous in crumbs",
		 {.what = SN_REC_RDV, .kind = 1, .len = 10, .frag = SN_WIRE_FRAG_MIN - 1}},
		{"rendezvous in boulders", {.what = SN_REC_RDV, .kind = 1, .len = 10, .frag = 70000}},
		{"DONE with a positive status", {.what = SN_REC_DONE, .bits = 1}},
		{"DONE with a huge status", {.what = SN_REC_DONE, .bits = (uint64_t)-5000}},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t frame[256] = {0};
		const uint8_t *next = frame;
		memcpy(frame, &bad[i].w,
		       sizeof(bad[i].w)); /* little endian hosts only: as the test is written */
		if (sn_wire_rec_next(&next, frame + sizeof(frame), &out) != -1)
			fail_msg("accepted: %s", bad[i].what);
	}
}

static void hello_with_impossible_content_is_refused(void **state)
{
	struct sn_wire_hello h = {
		.session = 1, .mtu = htole32(1500), .part_len = htole16(30), .addr_len = 64};

	assert_true(sn_wire_hello_ok(&h));
	h.part_len = htole16(31);
	assert_false(sn_wire_hello_ok(&h));
	h.part_len = htole16(6);
	h.addr_len = 65;
	assert_false(sn_wire_hello_ok(&h));
	h.addr_len = 0;
	h.mtu = htole32(SN_WIRE_BASE_MTU - 1);
	assert_false(sn_wire_hello_ok(&h));
	h.mtu = htole32(65536);
	assert_false(sn_wire_hello_ok(&h));
	h.mtu = htole32(1500);
	h.session = 0;
	assert_false(sn_wire_hello_ok(&h));
}

static void every_drop_reason_has_a_name(void **state)
{
	for (int i = 0; i < SN_DROP_COUNT; i++) {
		assert_non_null(sn_drop_name(i));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(sn_drop_name(i), sn_drop_name(j));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_matches_its_paper),
		cmocka_unit_test(check_is_crc32c_of_four_lanes),
		cmocka_unit_test(check_is_the_same_by_each_way_and_in_pieces),
		cmocka_unit_test(check_that_copies_is_the_same_and_copies),
		cmocka_unit_test(check_sees_every_single_bit),
		cmocka_unit_test(keys_differ_by_receiver_direction_and_session),
		cmocka_unit_test(mac_covers_every_byte_of_the_header),
		cmocka_unit_test(macs_of_a_train_are_those_of_its_frames),
		cmocka_unit_test(hello_mask_hides_and_comes_off),
		cmocka_unit_test(frames_too_short_for_their_type_are_refused),
		cmocka_unit_test(padding_is_cut_off_and_lies_about_length_are_refused),
		cmocka_unit_test(records_read_back_as_written),
		cmocka_unit_test(records_cut_anywhere_are_refused),
		cmocka_unit_test(records_with_impossible_fields_are_refused),
		cmocka_unit_test(hello_with_impossible_content_is_refused),
		cmocka_unit_test(every_drop_reason_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

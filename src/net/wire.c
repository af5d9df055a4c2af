/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/wire.h"

static const char *const drop_names[SN_DROP_COUNT] = {
	[SN_DROP_SHORT] = "net.drop_short",	[SN_DROP_LONG] = "net.drop_long",
	[SN_DROP_VERSION] = "net.drop_version", [SN_DROP_TYPE] = "net.drop_type",
	[SN_DROP_LINK] = "net.drop_link",	[SN_DROP_STATE] = "net.drop_state",
	[SN_DROP_MAC] = "net.drop_mac",		[SN_DROP_CHECK] = "net.drop_check",
	[SN_DROP_HELLO] = "net.drop_hello",	[SN_DROP_STALE] = "net.drop_stale",
	[SN_DROP_REFUSED] = "net.drop_refused", [SN_DROP_AGAIN] = "net.drop_again",
	[SN_DROP_WINDOW] = "net.drop_window",	[SN_DROP_RECORD] = "net.drop_record",
	[SN_DROP_PULL] = "net.drop_pull",	[SN_DROP_RANGE] = "net.drop_range",
	[SN_DROP_RDV] = "net.drop_rdv",		[SN_DROP_BUSY] = "net.drop_busy",
	[SN_DROP_MEMORY] = "net.drop_memory",	[SN_DROP_PUSH] = "net.drop_push",
};

const char *sn_drop_name(enum sn_drop d)
{
	return drop_names[d];
}

uint32_t sn_wire_min(uint8_t type)
{
	static const uint8_t least[SN_WIRE_TYPES] = {
		[SN_WIRE_HELLO] = sizeof(struct sn_wire_hello),
		[SN_WIRE_WELCOME] = sizeof(struct sn_wire_hello),
		[SN_WIRE_BYE] = sizeof(struct sn_wire_bye),
		[SN_WIRE_ACK] = sizeof(struct sn_wire_head),
		[SN_WIRE_MSG] = sizeof(struct sn_wire_head),
		[SN_WIRE_PULL] = sizeof(struct sn_wire_pull),
		[SN_WIRE_DATA] = sizeof(struct sn_wire_data),
		[SN_WIRE_PROBE] = sizeof(struct sn_wire_probe),
		[SN_WIRE_PROBED] = sizeof(struct sn_wire_probe),
		[SN_WIRE_SLICE_OF] = sizeof(struct sn_wire_slice),
		[SN_WIRE_PUSH] = sizeof(struct sn_wire_push),
	};
	return type < SN_WIRE_TYPES ? least[type] : 0;
}

int sn_wire_check(const uint8_t *frame, uint32_t *len, uint32_t longest, enum sn_drop *why)
{
	const struct sn_wire_head *h = (const void *)frame;

	*why = SN_DROP_SHORT;
	if (*len < sizeof(*h))
		return -1;
	if (h->version != SN_WIRE_VERSION) {
		*why = SN_DROP_VERSION;
		return -1;
	}
	uint32_t own = le16toh(h->len), least = sn_wire_min(h->type);
	if (least == 0) {
		*why = SN_DROP_TYPE;
		return -1;
	}
	if (own < least || own > *len)
		return -1;
	if (own > longest) {
		*why = SN_DROP_LONG;
		return -1;
	}
	*len = own;
	return 0;
}

void sn_wire_start(struct sn_wire_head *h, uint8_t type, uint32_t len, uint32_t link)
{
	memset(h, 0, sizeof(*h));
	h->version = SN_WIRE_VERSION;
	h->type = type;
	h->len = htole16((uint16_t)len);
	h->link = htole32(link);
}

bool sn_wire_hello_ok(const struct sn_wire_hello *h)
{
	return h->session != 0 && le16toh(h->part_len) <= sizeof(h->secret.part) &&
	       h->addr_len <= sizeof(h->secret.addr) && le32toh(h->mtu) >= SN_WIRE_BASE_MTU &&
	       le32toh(h->mtu) <= SN_WIRE_LEN_MAX;
}

uint32_t sn_wire_rec_head(uint8_t what)
{
	static const uint8_t bytes[] = {0, 24, 32, 8, 40, 16, 8};
	return what < sizeof(bytes) ? bytes[what] : 0;
}

uint32_t sn_wire_rec_put(uint8_t *dst, const struct sn_rec *rec)
{
	if (rec->what == SN_REC_EAGER && rec->head.imm_len == 0)
		return sn_wire_eager_put(dst, &rec->head, rec->body_len);
	struct sn_wire_rec w = {
		.what = rec->what,
		.bytes = htole32(rec->body_len),
		.len = htole64(rec->head.len),
		.frag = htole32(rec->frag),
		.push_frag = htole16(rec->push_frag),
		.push = htole16(rec->push),
	};
	uint32_t n = sn_wire_rec_head(rec->what);

	if (rec->what == SN_REC_RDV || rec->what == SN_REC_DONE)
		w.bytes = htole32(rec->rdv);
	if (rec->what == SN_REC_DONE) {
		w.kind = rec->word;
		w.bits = htole64((uint64_t)rec->status);
	} else if (rec->what != SN_REC_MORE && rec->what != SN_REC_PORTS) {
		w.kind = rec->head.kind;
		w.flags = rec->head.flags | (rec->lazy ? SN_WIRE_LAZY : 0);
		w.imm_len = rec->head.imm_len;
		w.bits = htole64(rec->head.bits);
		w.data = htole64(rec->head.data);
	}
	memcpy(dst, &w, n);
	if (w.imm_len)
		memcpy(dst + n, rec->head.imm, w.imm_len);
	return n + w.imm_len;
}

/* The parts of a record that only its kind decides; false if they make no sense. */
static bool rec_fields(struct sn_rec *rec, const struct sn_wire_rec *w)
{
	uint64_t len = le64toh(w->len);

	rec->head.len = 0;
	switch (rec->what) {
	case SN_REC_EAGER: rec->head.len = rec->body_len; break;
	case SN_REC_FIRST:
		rec->head.len = len;
		if (len > SN_WIRE_EAGER_MAX || rec->body_len >= len)
			return false;
		break;
	case SN_REC_PORTS:
	case SN_REC_MORE: return rec->body_len > 0;
	case SN_REC_RDV:
		rec->head.len = len;
		rec->frag = le32toh(w->frag);
		rec->push_frag = le16toh(w->push_frag);
		rec->push = le16toh(w->push);
		rec->lazy = w->flags & SN_WIRE_LAZY;
		if (len == 0 || rec->frag < SN_WIRE_FRAG_MIN || rec->frag > SN_WIRE_LEN_MAX ||
		    rec->push > SN_WIRE_PUSHES || (rec->push && rec->push_frag < SN_WIRE_FRAG_MIN))
			return false;
		break;
	default: /* DONE */
		rec->status = (int64_t)le64toh(w->bits);
		rec->word = w->kind;
		if (rec->word > SN_WIRE_WORD_MAX)
			return false;
		return rec->status <= 0 && rec->status > -1000;
	}
	rec->head.kind = w->kind;
	rec->head.flags = w->flags & SN_H_MASK;
	rec->head.bits = le64toh(w->bits);
	rec->head.data = le64toh(w->data);
	return w->kind > SN_K_NONE && w->kind <= SN_K_MAX;
}

int sn_wire_rec_next(const uint8_t **at, const uint8_t *end, struct sn_rec *rec)
{
	struct sn_wire_rec w = {0};
	size_t room = (size_t)(end - *at);

	if (room == 0)
		return 0;
	uint32_t n = sn_wire_rec_head(**at);
	if (n == 0 || room < n)
		return -1;
	memcpy(&w, *at, n);
	memset(rec, 0, sizeof(*rec));
	rec->what = w.what;
	if (w.what == SN_REC_RDV || w.what == SN_REC_DONE)
		rec->rdv = le32toh(w.bytes);
	else
		rec->body_len = le32toh(w.bytes);
	bool has_imm = w.what != SN_REC_MORE && w.what != SN_REC_DONE && w.what != SN_REC_PORTS;
	rec->head.imm_len = has_imm ? w.imm_len : 0;
	if (rec->head.imm_len > SN_IMM_MAX || room - n < rec->head.imm_len ||
	    room - n - rec->head.imm_len < rec->body_len)
		return -1;
	rec->head.imm = rec->head.imm_len ? *at + n : NULL;
	rec->body = rec->body_len ? *at + n + rec->head.imm_len : NULL;
	if (!rec_fields(rec, &w))
		return -1;
	*at += n + rec->head.imm_len + rec->body_len;
	return 1;
}

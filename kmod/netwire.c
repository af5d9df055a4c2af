// SPDX-License-Identifier: GPL-2.0
/* Frames: their authentication (SipHash-2-4 of the header) and the four-lane CRC-32C of their payload; docs/protocol.md. */
#include "sennit_net.h"
#include <linux/crc32.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#include <linux/crc32c.h>
#define sn_crc32c crc32c
#else
#define sn_crc32c __crc32c_le
#endif
#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#endif

u64 sn_wire_mac(const siphash_key_t *key, const struct sn_wire_head *h)
{
	const __le64 *w = (const void *)h;

	return siphash_4u64(get_unaligned_le64(w), get_unaligned_le64(w + 2), get_unaligned_le64(w + 3),
			    get_unaligned_le64(w + 4), key);
}

struct sn_check {
	u32 lane[4];
	unsigned int next;    /* lane of the next word */
	unsigned int pending; /* bytes of a word that began in an earlier piece */
	u8 word[8];
};

static u32 sn_check_word(u32 crc, const u8 *at)
{
#ifdef CONFIG_X86_64
	/* A general register's instruction: no state of the FPU is touched. */
	if (cpu_feature_enabled(X86_FEATURE_XMM4_2)) {
		u64 c = crc;

		asm("crc32q %1, %0" : "+r"(c) : "rm"(get_unaligned((const u64 *)at)));
		return c;
	}
#endif
	return sn_crc32c(crc, at, 8);
}

static void sn_check_add(struct sn_check *c, const u8 *at, unsigned int len)
{
	while (len) {
		unsigned int n = min(len, 8 - c->pending);

		if (n == 8) {
			c->lane[c->next] = sn_check_word(c->lane[c->next], at);
			c->next = (c->next + 1) & 3;
		} else {
			memcpy(c->word + c->pending, at, n);
			c->pending += n;
			if (c->pending == 8) {
				c->lane[c->next] = sn_check_word(c->lane[c->next], c->word);
				c->next = (c->next + 1) & 3;
				c->pending = 0;
			}
		}
		at += n;
		len -= n;
	}
}

static u32 sn_check_end(struct sn_check *c)
{
	__le32 lanes[4];
	u32 crc;
	int i;

	if (c->pending) {
		memset(c->word + c->pending, 0, 8 - c->pending);
		c->lane[c->next] = sn_check_word(c->lane[c->next], c->word);
	}
	for (i = 0; i < 4; i++)
		lanes[i] = cpu_to_le32(c->lane[i]);
	crc = sn_check_word(~0u, (const u8 *)lanes);
	return sn_check_word(crc, (const u8 *)(lanes + 2));
}

/* Of a frame's bytes [from, to), wherever they lie. */
u32 sn_wire_check(struct sk_buff *skb, unsigned int from, unsigned int to)
{
	struct sn_check c = {.lane = {~0u, ~0u, ~0u, ~0u}};
	struct skb_seq_state state;
	unsigned int at = 0, n;
	const u8 *piece;

	skb_prepare_seq_read(skb, from, to, &state);
	while ((n = skb_seq_read(at, &piece, &state))) {
		sn_check_add(&c, piece, n);
		at += n;
	}
	return sn_check_end(&c);
}

u32 sn_wire_check_of(const void *bytes, unsigned int len)
{
	struct sn_check c = {.lane = {~0u, ~0u, ~0u, ~0u}};

	sn_check_add(&c, bytes, len);
	return sn_check_end(&c);
}

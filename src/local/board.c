/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/board.h"

static uint64_t word_of(uint64_t serial, uint64_t tag, uint64_t state)
{
	return serial << SN_BOARD_SERIAL_SHIFT | tag | state;
}

static uint64_t tag_of(uint64_t id)
{
	return sn_mix64(id) & SN_BOARD_TAG_MASK;
}

int sn_board_post(struct sn_board *b, uint64_t serial, uint64_t source, uint64_t bits, uint64_t mask,
		  const struct iovec *iov, uint32_t count, uint64_t room, uint32_t heap, uint64_t region)
{
	uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
	int slot = -1;
	if (~used && count <= SN_BOARD_SEGS) {
		slot = __builtin_ctzll(~used);
		struct sn_board_slot *s = &b->slot[slot];
		s->source = source;
		s->bits = bits;
		s->mask = mask;
		s->room = room;
		s->region = region;
		s->seg_count = count;
		s->heap = heap;
		for (uint32_t i = 0; i < count; i++) {
			s->seg[i].at = (uint64_t)(uintptr_t)iov[i].iov_base;
			s->seg[i].len = iov[i].iov_len;
		}
		atomic_store_explicit(&s->claimant, 0, memory_order_relaxed);
		atomic_store_explicit(&s->word, word_of(serial, 0, SN_BOARD_POSTED), memory_order_release);
		atomic_store_explicit(&b->used, used | UINT64_C(1) << slot, memory_order_relaxed);
	}
	atomic_store_explicit(&b->shown, serial + 1, memory_order_release);
	return slot;
}

static void slot_free(struct sn_board *b, int slot)
{
	uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
	atomic_store_explicit(&b->used, used & ~(UINT64_C(1) << slot), memory_order_relaxed);
}

bool sn_board_take(struct sn_board *b, int slot, uint64_t serial)
{
	uint64_t expect = word_of(serial, 0, SN_BOARD_POSTED);
	if (!atomic_compare_exchange_strong_explicit(&b->slot[slot].word, &expect, 0, memory_order_acq_rel,
						     memory_order_acquire))
		return false;
	slot_free(b, slot);
	return true;
}

bool sn_board_claimed_by(const struct sn_board *b, int slot, uint64_t serial, uint64_t id)
{
	const struct sn_board_slot *s = &b->slot[slot];
	if (atomic_load_explicit(&s->word, memory_order_acquire) !=
	    word_of(serial, tag_of(id), SN_BOARD_CLAIMED))
		return false;
	/* killed between the two stores of a claim: the tag alone must do */
	uint64_t claimant = atomic_load_explicit(&s->claimant, memory_order_relaxed);
	return claimant == id || claimant == 0;
}

void sn_board_clear(struct sn_board *b, int slot)
{
	atomic_store_explicit(&b->slot[slot].word, 0, memory_order_release);
	slot_free(b, slot);
}

/*
 * How many serials after this one the board has shown. The word holds 40 bits of it: at ten million a second, a day's
 * worth.
 */
static uint64_t age_of(uint64_t serial, uint64_t shown)
{
	return (shown - 1 - serial) & SN_BOARD_AGES;
}

/* Read one slot: does it fit, and is it older than the best so far? */
static bool slot_fits(const struct sn_board_slot *s, uint64_t id, uint64_t bits, uint64_t shown,
		      const struct sn_board_claim *best, struct sn_board_claim *c)
{
	uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);
	uint64_t serial = word >> SN_BOARD_SERIAL_SHIFT, age = age_of(serial, shown);
	if (word != word_of(serial, 0, SN_BOARD_POSTED) || age > SN_BOARD_AGES / 2)
		return false; /* the latter: newer than what was read of the board, or posted half a turn ago */
	if (best->slot >= 0 && age < age_of(best->serial, shown))
		return false;
	if ((s->source && s->source != id) || (bits & s->mask) != s->bits || s->seg_count > SN_BOARD_SEGS)
		return false;
	c->serial = serial;
	c->room = s->room;
	c->region = s->region;
	c->seg_count = s->seg_count;
	c->heap = s->heap;
	for (uint32_t i = 0; i < c->seg_count && i < SN_BOARD_SEGS; i++)
		c->seg[i] = (struct iovec){(void *)(uintptr_t)s->seg[i].at, s->seg[i].len};
	return true;
}

bool sn_board_claim(struct sn_board *b, uint64_t id, uint64_t bits, struct sn_board_claim *claim)
{
	uint64_t shown = atomic_load_explicit(&b->shown, memory_order_acquire);
	uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
	struct sn_board_claim c;
	claim->slot = -1;
	if (used) { /* most likely the only one: its first line as one to write, the second with it */
		const struct sn_board_slot *likely = &b->slot[__builtin_ctzll(used)];
		sn_line_own(likely);
		__builtin_prefetch((const char *)likely + 64);
	}
	while (used) {
		int slot = __builtin_ctzll(used);
		used &= used - 1;
		if (slot_fits(&b->slot[slot], id, bits, shown, claim, &c)) {
			*claim = c;
			claim->slot = slot;
		}
	}
	if (claim->slot < 0)
		return false;
	struct sn_board_slot *s = &b->slot[claim->slot];
	uint64_t expect = word_of(claim->serial, 0, SN_BOARD_POSTED);
	if (!atomic_compare_exchange_strong_explicit(&s->word, &expect,
						     word_of(claim->serial, tag_of(id), SN_BOARD_CLAIMED),
						     memory_order_acq_rel, memory_order_acquire))
		return false;
	atomic_store_explicit(&s->claimant, id, memory_order_relaxed);
	return true;
}

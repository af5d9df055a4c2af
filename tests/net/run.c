/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of a train that are alike but for what a forger, or the way, has put into one of them (run.h): it is dropped
 * under its reason, comes again, and the body is as it was sent. Two engines in a simulated network.
 */
#include "net/wire.h"
#include "sim.h"
#include <string.h>

#define BODY 40000

static struct node *a, *b;

/* On its way to b: this one of the pieces that were pushed, of which there are others before it and behind it. */
static struct sim_packet *piece(unsigned number)
{
	struct sim_packet *found = NULL;
	unsigned count = 0;

	for (unsigned i = 0; i < sim.heap_count; i++) {
		struct sim_packet *p = &sim.heap[i];
		const struct sn_wire_push *w = (const void *)p->bytes;
		if (p->to != b->slot || w->h.type != SN_WIRE_PUSH)
			continue;
		count++;
		if (le64toh(w->offset) / le16toh(w->frag) == number)
			found = p;
	}
	if (count < 20 || !found)
		sim_fail("of %u pieces under way none is number %u", count, number);
	return found;
}

/* Somebody on the way writes into the body, and knows the check; but not the key. */
static void forged(struct sim_packet *p)
{
	struct sn_wire_head *h = (void *)p->bytes;

	p->bytes[1000] ^= 0x20;
	h->check = htole32(sn_check_of(p->bytes + sizeof(*h), p->len - sizeof(*h)));
}

static void damaged(struct sim_packet *p)
{
	p->bytes[1000] ^= 0x20;
}

/* As if it were the piece after it, which comes, too. */
static void moved(struct sim_packet *p)
{
	struct sn_wire_push *w = (void *)p->bytes;

	w->offset = htole64(le64toh(w->offset) + le16toh(w->frag));
}

/* And it comes again in place of the next one. */
static void twice(struct sim_packet *p)
{
	struct sim_packet *next = piece(10);

	if (next && next->len == p->len)
		memcpy(next->bytes, p->bytes, p->len);
}

static void with(void (*change)(struct sim_packet *p), enum sn_drop why)
{
	model_meet(5, 0, &a, &b);
	node_post(a, b, BODY);
	struct sim_packet *p = piece(9);
	uint64_t before = b->net->drops[why], all = 0, had = 0;
	for (unsigned i = 0; i < SN_DROP_COUNT; i++)
		had += b->net->drops[i];
	if (p)
		change(p);
	model_come();
	for (unsigned i = 0; i < SN_DROP_COUNT; i++)
		all += b->net->drops[i];
	if (b->net->drops[why] != before + 1 || all != had + 1)
		sim_fail("%llu frames are dropped, %llu of them as %s: not one",
			 (unsigned long long)(all - had), (unsigned long long)(b->net->drops[why] - before),
			 sn_drop_name(why));
	model_part(a, b);
}

int main(void)
{
	bool failed = false;
	const struct {
		void (*change)(struct sim_packet *p);
		enum sn_drop why;
	} cases[] = {{forged, SN_DROP_MAC},
		     {damaged, SN_DROP_CHECK},
		     {moved, SN_DROP_CHECK},
		     {twice, SN_DROP_PUSH}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		with(cases[i].change, cases[i].why);
		failed |= sim.failed;
	}
	return failed;
}

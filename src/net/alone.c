/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/alone.h"

#define HEAD ((uint32_t)sizeof(struct sn_wire_head))

/* Whether messages come in bursts (gather.c): not if nothing has followed the one before. */
static inline void learn(struct sn_net_link *l)
{
	if (!l->followed)
		l->bursts -= l->bursts > 0;
	l->followed = false;
}

bool sn_net_alone(struct sn_net_link *l, const struct sn_rec *rec, const void *body)
{
	struct sn_net *n = l->net;
	struct sn_net_slot *s = &l->tx[l->tx_next % SN_WIRE_WINDOW];
	uint8_t *frame = sn_net_frame_get(n);

	if (frame == NULL)
		return false;
	struct sn_wire_head *h = (void *)frame;
	uint32_t at = HEAD + sn_wire_eager_put(frame + HEAD, &rec->head, rec->body_len);
	sn_copy_small(frame + at, body, rec->body_len);
	*s = (struct sn_net_slot){.frame = frame, .len = at + rec->body_len};
	sn_wire_start(h, SN_WIRE_MSG, s->len, (uint32_t)l->peer_session);
	h->seq = htole32(l->tx_next++);
	h->check = htole32(sn_check_of(frame + HEAD, s->len - HEAD));
	sn_net_out_alone(&l->way[0], s);
	learn(l);
	n->counts[SN_NC_RECORDS]++;
	n->counts[SN_NC_EAGER]++;
	return true;
}

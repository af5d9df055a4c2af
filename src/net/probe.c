/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path's frame size (packetization layer path MTU discovery, RFC 8899, in the small): frames of the sizes worth trying
 * are sent padded and answered; the longest that is answered is used. Until then, and after a black hole, frames have
 * the size that every path carries.
 *
 * And whether frames that are joined come through (sn_net_driver.joins). Each end may know that it can join them and
 * take them apart; what lies between shows only by trying: a bridge to a card, a program that forwards frames. So two
 * frames are sent joined, of which the second is marked, and answered so, once so much has been sent that they are
 * little. Nothing is joined until then, nor after doubts. One more is sent alone: where not even that is answered,
 * though the peer is heard on this way, what bodies travel as does not come through, and they go as all other frames
 * do.
 */
#include "net/net.h"

static const uint8_t zeros[SN_WIRE_LEN_MAX];
static const uint32_t ladder[] = {0 /* the ceiling */, 8900, 4000, 1400};
#define STEPS	    (sizeof(ladder) / sizeof(ladder[0]))
#define TRIES	    3
#define TRAIN_FRAME 4000 /* long enough to fill a wire, short enough to greet many peers */
#define JOIN_AFTER  64	 /* frames sent on a way, of which two more are little */
#define AGAIN                                                                                                \
	(5000 * SN_NET_MS) /* a path that carried less is tried again: a loss may have been the reason */

static uint32_t step_size(const struct sn_net_way *w)
{
	return w->probe_step == 0 ? w->ceiling : ladder[w->probe_step];
}

uint32_t sn_net_probe_hope(const struct sn_net_link *l)
{
	uint32_t most = SN_WIRE_BASE_MTU;

	for (unsigned i = 0; i < l->net->cfg.ports; i++) {
		const struct sn_net_way *w = &l->way[i];
		bool young = w->probe_at != SN_NET_NEVER && w->probe_step == 0 && w->probe_tries < TRIES;
		if (w->state == SN_WAY_UP)
			most = SN_MAX_OF(most, young ? SN_MAX_OF(w->ceiling, w->mtu) : w->mtu);
	}
	return most;
}

struct sn_wire_probe *sn_net_probe_frame(struct sn_net_way *w, uint32_t size, enum sn_net_how how)
{
	struct sn_net_link *l = w->link;
	struct sn_wire_probe *p = sn_net_out_ctrl(w, SN_WIRE_PROBE, sizeof(*p));
	struct sn_net_out *out = &w->port->out[w->port->out_count - 1];

	p->h.len = htole16((uint16_t)size);
	p->size = htole32(size);
	out->how = how;
	if (size > sizeof(*p)) {
		out->iov[1] = (struct iovec){(void *)zeros, size - sizeof(*p)};
		out->iov_count = 2;
		out->len = size;
	}
	l->net->counts[SN_NC_PROBES]++;
	return p;
}

static void probe_seal(const struct sn_net_way *w)
{
	sn_net_out_seal(w->port, &w->link->tx_key);
}

static void probe_out(struct sn_net_way *w)
{
	struct sn_net *n = w->link->net;

	sn_net_probe_frame(w, step_size(w), SN_OUT_PLAIN);
	probe_seal(w);
	w->probe_tries++;
	w->probe_at = n->now + sn_net_rto(&w->rtt, 0);
	sn_net_arm(n, w->probe_at);
}

void sn_net_probe_start(struct sn_net_way *w)
{
	w->probe_step = 0;
	w->probe_tries = 0;
	w->probe_at = SN_NET_NEVER;
	if (w->ceiling > w->mtu)
		probe_out(w);
}

void sn_net_probe_try(struct sn_net_way *w)
{
	w->tried_at = w->link->net->now;
	sn_net_probe_frame(w, sizeof(struct sn_wire_probe), SN_OUT_PLAIN);
	probe_seal(w);
}

/* Frames back to back, so that the peer sees how fast they come: its first figure for this rail. */
void sn_net_probe_train(struct sn_net_way *w)
{
	if (w->link->net->cfg.ports < 2)
		return;
	for (unsigned i = 0; i < SN_NET_TRAIN; i++) {
		sn_net_probe_frame(w, SN_MIN_OF(w->mtu, (uint32_t)TRAIN_FRAME), SN_OUT_PLAIN)->train =
			(uint8_t)(i + 1);
		probe_seal(w);
	}
}

/* ---- joined frames ---- */

static void join_out(struct sn_net_way *w)
{
	const uint32_t size = w->mtu / 2 + 64; /* two are longer than a frame: nobody passes them on as one */
	struct sn_net *n = w->link->net;

	if (w->join_tries++ == 0) {
		w->join_from = n->now;
		w->body_passed = false;
	}
	sn_net_probe_try(w);	    /* is the peer there? */
	sn_net_flush_port(w->port); /* the others are of one batch */
	sn_net_probe_frame(w, size, SN_OUT_BODY)->joined = SN_WIRE_PROBE_BODY;
	probe_seal(w);
	for (unsigned i = 0; i < 2; i++) {
		sn_net_probe_frame(w, size, SN_OUT_JOINED)->joined = i == 1 ? SN_WIRE_PROBE_JOINED : 0;
		probe_seal(w);
	}
	w->join_at = n->now + sn_net_rto(&w->rtt, 0);
	sn_net_arm(n, w->join_at);
}

static void join_start(struct sn_net_way *w)
{
	w->joins = false;
	w->join_tries = 0;
	join_out(w);
}

void sn_net_probe_join(struct sn_net_way *w)
{
	if (w->port->driver->joins && w->state == SN_WAY_UP && w->mtu > SN_WIRE_BASE_MTU &&
	    w->bytes > (uint64_t)JOIN_AFTER * w->mtu)
		join_start(w);
}

static uint64_t join_timer(struct sn_net_way *w)
{
	uint64_t now = w->link->net->now;

	if (now < w->join_at)
		return w->join_at;
	if (w->join_tries == TRIES) {
		if (!w->body_passed && w->heard_at > w->join_from)
			w->plain = true;
		w->join_tries = 0;
		w->join_at = now + AGAIN;
	} else {
		join_out(w);
	}
	return w->join_at;
}

void sn_net_probe_doubt(struct sn_net_way *w)
{
	bool tried = !w->joins && w->join_tries;

	if (tried || !w->port->driver->joins || w->state != SN_WAY_UP)
		return;
	w->link->net->counts[SN_NC_JOIN_DOUBTS]++;
	join_start(w);
}

static uint64_t size_timer(struct sn_net_way *w)
{
	if (w->link->net->now < w->probe_at)
		return w->probe_at;
	if (w->probe_step == STEPS) {
		sn_net_probe_start(w);
		return w->probe_at;
	}
	if (w->probe_tries >= TRIES) {
		w->probe_tries = 0;
		do
			w->probe_step++;
		while (w->probe_step < STEPS &&
		       (ladder[w->probe_step] >= w->ceiling || ladder[w->probe_step] <= w->mtu));
	}
	if (w->probe_step < STEPS)
		probe_out(w);
	else
		w->probe_at = w->link->net->now + AGAIN;
	return w->probe_at;
}

uint64_t sn_net_probe_timer(struct sn_net_way *w)
{
	if (w->state != SN_WAY_UP)
		return SN_NET_NEVER;
	uint64_t size = size_timer(w), join = join_timer(w), quick = sn_net_quick_timer(w);
	return SN_MIN_OF(size, SN_MIN_OF(join, quick));
}

/*
 * A frame of a train. Counted is all that came on the port meanwhile, whoever sent it: when a job starts, the trains
 * of all peers come at once, and what is looked for is what the rail can do, not one train's share of it. What was
 * read together with the first frame may have stood there for long, and tells nothing. Bulk of this peer would stand
 * between the frames.
 */
static void train_in(struct sn_net_link *l, struct sn_net_lane *lane, unsigned place)
{
	const struct sn_net_port *port = &l->net->port[lane->port];
	uint64_t now = l->net->now;

	if (place == 1) {
		lane->train_from = now;
		lane->train_counts = false;
	} else if (lane->train_from && now > lane->train_from && !lane->train_counts) {
		lane->train_counts = true;
		lane->train_from = port->before_at;
		lane->train_base = port->before;
	}
	if (place != SN_NET_TRAIN || !lane->train_counts)
		return;
	if (sn_list_empty(&lane->asked) && now > lane->train_from)
		sn_model_rate(&lane->model, 4096, port->heard - lane->train_base, now - lane->train_from);
	lane->train_from = 0;
	lane->train_counts = false;
}

/* Answered by the port on which it came; only the last of a train is. */
void sn_net_probe_in(struct sn_net_link *l, const struct sn_wire_probe *probe, uint32_t len)
{
	struct sn_net_way *back = &l->way[l->net->in_port];
	struct sn_net_way *w = back->state != SN_WAY_NONE ? back : sn_net_way_reply(l);

	if (probe->train)
		train_in(l, &l->lane[probe->h.rail], probe->train);
	if (probe->train && probe->train != SN_NET_TRAIN)
		return;
	struct sn_wire_probe *p = sn_net_out_ctrl(w, SN_WIRE_PROBED, sizeof(*p));
	p->size = htole32(len);
	p->rail = probe->h.rail;
	p->joined = probe->joined;
	sn_net_out_seal(w->port, &l->tx_key);
}

static void size_found(struct sn_net_way *w, uint32_t size)
{
	if (size <= w->mtu || size > w->ceiling) /* late, or nonsense */
		return;
	w->mtu = size;
	w->probe_step = STEPS;
	w->probe_at = size == w->ceiling ? SN_NET_NEVER : w->link->net->now + AGAIN;
	sn_net_arm(w->link->net, w->probe_at);
	sn_net_probe_train(w);
	sn_net_quick_begin(w);
}

void sn_net_probed_in(struct sn_net_link *l, const struct sn_wire_probe *p)
{
	uint32_t size = le32toh(p->size);

	if (p->rail >= l->net->cfg.ports) {
		l->net->drops[SN_DROP_RANGE]++;
		return;
	}
	struct sn_net_way *w = &l->way[p->rail];
	if (p->joined == SN_WIRE_PROBE_QUICK) {
		sn_net_quick_shown(w, size);
		return;
	}
	if (size <= sizeof(*p) && w->tried_at)
		sn_net_rtt_add(&w->rtt, l->net->now - w->tried_at);
	if (size <= sizeof(*p))
		w->tried_at = 0;
	sn_net_way_answered(w);
	if (p->joined) {
		w->body_passed = true;
		w->plain = false;
	}
	if (p->joined == SN_WIRE_PROBE_JOINED && w->join_at != SN_NET_NEVER) {
		w->joins = true;
		w->join_at = SN_NET_NEVER;
	}
	size_found(w, size);
}

void sn_net_probe_hole(struct sn_net_way *w)
{
	if (w->mtu <= SN_WIRE_BASE_MTU)
		return;
	w->link->net->counts[SN_NC_REPROBES]++;
	w->mtu = SN_WIRE_BASE_MTU;
	sn_net_quick_doubt(w);
	w->probe_step = STEPS;
	w->probe_tries = 0;
	w->probe_at = w->link->net->now + AGAIN / 10;
	w->joins = w->plain = false;
	w->join_tries = 0;
	w->join_at = SN_NET_NEVER;
	sn_net_arm(w->link->net, w->probe_at);
}

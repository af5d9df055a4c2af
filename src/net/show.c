/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `sennit info --peer` shows of a peer on another host: its window, and each rail's state, model and share.
 *
 * Budget: nothing while nothing moves; else a few lines of text for each peer that had traffic, ten times a second.
 */
#include "net/show.h"
#include "progress/live.h"
#include <stdio.h>
#include <stdlib.h>

#define HEAD  ((uint32_t)sizeof(struct sn_wire_head))
#define EVERY (100 * SN_NET_MS)

struct shown {
	char scope[40];
	struct sn_live_row *window, *out[SN_NET_RAILS], *in[SN_NET_RAILS], *model[SN_NET_RAILS];
	uint64_t sum; /* of what was shown last: has anything moved? */
};

static const char *state_name(const struct sn_net_way *w)
{
	static const char *const names[] = {"none", "trying", "up", "down"};

	return names[w->state];
}

static uint64_t activity(const struct sn_net_link *l)
{
	uint64_t sum = (uint64_t)l->state + l->tx_next + l->rx_next;

	for (unsigned i = 0; i < SN_NET_RAILS; i++)
		sum += l->way[i].frames + l->way[i].state + l->way[i].path.quick_most + l->lane[i].bytes +
		       l->lane[i].down;
	return sum;
}

static struct shown *begin(struct sn_net_link *l)
{
	uint64_t ep = l->net->cfg.ids.id;
	struct shown *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	int at = snprintf(s->scope, sizeof(s->scope), "peer %u", sn_core_peer_number(l->peer));
	int rank = sn_core_peer_rank(l->peer);
	if (rank >= 0)
		snprintf(s->scope + at, sizeof(s->scope) - (size_t)at, " (rank %d)", rank);
	sn_live_text(sn_live_add(ep, s->scope, "rail", ""), "network: %u port%s here, strategy %s",
		     l->net->cfg.ports, l->net->cfg.ports == 1 ? "" : "s",
		     l->net->cfg.strategy ? l->net->cfg.strategy : "default");
	s->window = sn_live_add(ep, s->scope, "window", "");
	return s;
}

static void show_ways(struct sn_net_link *l, struct shown *s)
{
	char name[24];

	for (unsigned i = 0; i < l->net->cfg.ports; i++) {
		const struct sn_net_way *w = &l->way[i];
		if (w->state == SN_WAY_NONE)
			continue;
		snprintf(name, sizeof(name), "rail %u out", i);
		if (s->out[i] == NULL)
			s->out[i] = sn_live_add(l->net->cfg.ids.id, s->scope, name, "");
		sn_live_text(s->out[i],
			     "%s, %s, frames of %u%s%s, %.0f us round trip, %u of %u under way, %.1f MB sent",
			     w->port->driver->name, state_name(w), w->mtu, w->joins ? ", many a packet" : "",
			     w->path.quick_most ? ", short ones by Ethernet" : "", (double)w->rtt.srtt / 1e3,
			     w->flight, w->cwnd, (double)w->bytes / 1e6);
	}
}

static void show_model(struct sn_live_row *row, const struct sn_model *m, uint64_t now)
{
	double mb[SN_MODEL_CLASSES];
	int digits[SN_MODEL_CLASSES]; /* behind the point: a slow rail is not one of no speed */

	for (unsigned c = 0; c < SN_MODEL_CLASSES; c++) {
		mb[c] = (double)sn_model_rate_of(m, 4096ull << (2 * c), now) / 1e6;
		digits[c] = mb[c] < 1 ? 2 : mb[c] < 10 ? 1 : 0;
	}
	sn_live_text(row,
		     "%.*f, %.*f, %.*f MB/s up to 4, 16, 64 KiB, then %.*f; latency %.0f us; %llu samples",
		     digits[0], mb[0], digits[1], mb[1], digits[2], mb[2], digits[3], mb[3],
		     (double)m->latency / 1e3, (unsigned long long)m->samples);
}

static struct sn_live_row *lane_row(const struct sn_net_link *l, const struct shown *s, unsigned k,
				    const char *what)
{
	char name[24];

	snprintf(name, sizeof(name), "rail %u %s", k, what);
	return sn_live_add(l->net->cfg.ids.id, s->scope, name, "");
}

static void show_lanes(struct sn_net_link *l, struct shown *s)
{
	uint64_t total = 1;

	for (unsigned k = 0; k < SN_NET_RAILS; k++)
		total += l->lane[k].bytes;
	for (unsigned k = 0; k < SN_NET_RAILS; k++) {
		const struct sn_net_lane *lane = &l->lane[k];
		if (!lane->known)
			continue;
		if (s->in[k] == NULL) {
			s->in[k] = lane_row(l, s, k, "in");
			s->model[k] = lane_row(l, s, k, "model");
		}
		sn_live_text(s->in[k], "%s, %.1f MB came, %.0f %% of the bytes, %llu asked for",
			     lane->down ? "down" : "up", (double)lane->bytes / 1e6,
			     100.0 * (double)lane->bytes / (double)total,
			     (unsigned long long)lane->asked_bytes);
		show_model(s->model[k], &lane->model, l->net->now);
	}
}

static void show_link(struct sn_net_link *l)
{
	struct shown *s = l->shown;
	uint64_t sum = activity(l);

	if (s == NULL)
		s = l->shown = begin(l);
	if (s == NULL || s->sum == sum)
		return;
	s->sum = sum;
	sn_live_text(s->window, "%u requests, %u bytes wait; %u frames under way", l->waiting + l->open.count,
		     l->gathered + SN_MAX_OF(l->open.at, HEAD) - HEAD, l->tx_next - l->tx_una);
	show_ways(l, s);
	show_lanes(l, s);
}

void sn_net_show(struct sn_net *n)
{
	if (sn_likely(n->now < n->show_at))
		return;
	n->show_at = n->now + EVERY;
	sn_list_for_each (at, &n->links) {
		struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		if (l->state == SN_LINK_OPEN && !l->dead)
			show_link(l);
	}
}

void sn_net_unshow(struct sn_net_link *l)
{
	struct shown *s = l->shown;

	if (s == NULL)
		return;
	sn_live_remove_scope(l->net->cfg.ids.id, s->scope);
	free(s);
	l->shown = NULL;
}

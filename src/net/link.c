/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: connecting, sessions, restart, silence, the end.
 *
 * A link's states: IDLE (attached, nothing posted yet) -> CONNECTING (HELLO repeated) -> OPEN -> GONE. Our session number
 * towards a peer is a keyed hash of its id and of how many sessions with it have ended, so WELCOME can offer it
 * without any state, an attach made meanwhile arrives at the same number, and a late HELLO that names an ended session
 * names a number that we no longer offer. See docs/protocol.md, "Connecting" and "Restart".
 */
#include "base/log.h"
#include "net/net.h"
#include "progress/relax.h"
#include <stdlib.h>

static uint32_t slot_of(const struct sn_net *n, uint64_t key)
{
	return (uint32_t)sn_mix64(key) & (n->hash_size - 1);
}

static uint64_t generation(const struct sn_net *n, uint64_t id)
{
	for (uint32_t i = 0; i < n->past_count; i++)
		if (n->past[i].id == id)
			return n->past[i].generation;
	return 0;
}

/* A session with this id has ended. Without memory the generation stays, and the peer cannot come back: safe. */
static void generation_next(struct sn_net *n, uint64_t id)
{
	for (uint32_t i = 0; i < n->past_count; i++)
		if (n->past[i].id == id) {
			n->past[i].generation++;
			return;
		}
	if (n->past_count == n->past_room) {
		uint32_t room = n->past_room ? n->past_room * 2 : 16;
		struct sn_net_past *p = realloc(n->past, room * sizeof(*p));
		if (p == NULL)
			return;
		n->past = p;
		n->past_room = room;
	}
	n->past[n->past_count++] = (struct sn_net_past){id, 1};
}

static uint64_t session_towards(const struct sn_net *n, uint64_t id, uint64_t gen)
{
	uint64_t s = sn_sip(&n->session_key, (uint64_t[]){id, gen}, 2);
	return s ? s : 1;
}

/* ---- tables ---- */

static void unhash(struct sn_net *n, struct sn_net_link *l)
{
	struct sn_net_link **at = &n->by_session[slot_of(n, (uint32_t)l->session)];

	while (*at && *at != l)
		at = &(*at)->by_session;
	if (*at)
		*at = l->by_session;
	for (at = &n->by_id[slot_of(n, l->id)]; *at && *at != l;)
		at = &(*at)->by_id;
	if (*at)
		*at = l->by_id;
}

static void hash(struct sn_net *n, struct sn_net_link *l)
{
	uint32_t s = slot_of(n, (uint32_t)l->session), i = slot_of(n, l->id);

	l->by_session = n->by_session[s];
	n->by_session[s] = l;
	l->by_id = n->by_id[i];
	n->by_id[i] = l;
}

/* Twice the table when links outnumber it; if there is no memory for that the chains get longer. */
static void hash_grow(struct sn_net *n)
{
	if (n->link_count <= n->hash_size)
		return;
	struct sn_net_link **s = calloc((size_t)n->hash_size * 2, sizeof(struct sn_net_link *));
	struct sn_net_link **i = calloc((size_t)n->hash_size * 2, sizeof(struct sn_net_link *));
	if (s == NULL || i == NULL) {
		free(s);
		free(i);
		return;
	}
	free(n->by_session);
	free(n->by_id);
	n->by_session = s;
	n->by_id = i;
	n->hash_size *= 2;
	sn_list_for_each (at, &n->links)
		hash(n, sn_container(at, struct sn_net_link, node));
}

struct sn_net_link *sn_net_link_next(struct sn_net *n, struct sn_net_link *after, uint32_t number)
{
	struct sn_net_link *l = after ? after->by_session : n->by_session[slot_of(n, number)];

	while (l && (uint32_t)l->session != number)
		l = l->by_session;
	return l;
}

/* The link with this id that lives, or else one that is gone. */
static struct sn_net_link *find_id(struct sn_net *n, uint64_t id)
{
	struct sn_net_link *gone = NULL;

	for (struct sn_net_link *l = n->by_id[slot_of(n, id)]; l; l = l->by_id) {
		if (l->id != id || l->dead)
			continue;
		if (l->state != SN_LINK_GONE)
			return l;
		gone = l;
	}
	return gone;
}

void sn_net_work(struct sn_net_link *l)
{
	if (sn_list_empty(&l->work_node))
		sn_list_add_tail(&l->net->work, &l->work_node);
}

/* ---- round trips (Jacobson and Karels; RFC 6298) ---- */

void sn_net_rtt_add(struct sn_net_rtt *r, uint64_t sample)
{
	if (r->srtt == 0) {
		r->srtt = sample ? sample : 1;
		r->var = sample / 2;
		return;
	}
	uint64_t off = sample > r->srtt ? sample - r->srtt : r->srtt - sample;
	r->var += off / 4 - r->var / 4;
	r->srtt += sample / 8 - r->srtt / 8;
	if (r->srtt == 0)
		r->srtt = 1;
}

uint64_t sn_net_rto_from(const struct sn_net_rtt *r, unsigned backoff, uint64_t least)
{
	uint64_t t = r->srtt ? r->srtt + 4 * r->var + SN_NET_ACK_DELAY : SN_NET_RTO_FIRST;

	t = SN_MAX_OF(t, least) << SN_MIN_OF(backoff, SN_NET_BACKOFF);
	return SN_MIN_OF(t, SN_NET_RTO_MAX);
}

uint64_t sn_net_rto(const struct sn_net_rtt *r, unsigned backoff)
{
	return sn_net_rto_from(r, backoff, SN_NET_RTO_MIN);
}

/* ---- attach, detach ---- */

int sn_net_attach(struct sn_net *n, struct sn_peer_state *peer, const struct sn_ep_ids *ids,
		  const struct sn_addr_part *part, struct sn_net_link **link)
{
	struct sn_net_link *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for a peer");
	l->net = n;
	l->peer = peer;
	if (!sn_net_ways_first(l, part)) {
		free(l);
		return sn_fail(SN_ERR_UNSUPPORTED, "no network rail leads to this address");
	}
	l->id = ids->id;
	memcpy(l->peer_key, ids->key, sizeof(l->peer_key));
	sn_auth_hello_key(&l->hello_key, ids->key);
	l->session = session_towards(n, l->id, generation(n, l->id));
	struct sn_list *lists[] = {&l->queue, &l->dones,     &l->rdvs,	 &l->pulls,
				   &l->sends, &l->work_node, &l->stashes};
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		sn_list_init(lists[i]);
	l->ack_at = SN_NET_NEVER;
	l->push_own = SN_NET_PUSH_ALL; /* many may begin at once */
	l->done_at = SN_NET_NEVER;
	sn_list_add_tail(&n->links, &l->node);
	if (n->link_count++ == 0)
		sn_relax_far(true);
	hash(n, l);
	hash_grow(n);
	*link = l;
	return 0;
}

/* Everything a link holds goes, reported (status) or not (0). */
static void drop_content(struct sn_net_link *l, int status)
{
	sn_net_flush(l->net);
	sn_net_stream_end(l, status);
	sn_net_pull_end(l, status);
	sn_net_serve_end(l, status);
	sn_net_stash_end(l);
}

void sn_net_detach(struct sn_net_link *l)
{
	struct sn_net *n = l->net;

	if (l->state == SN_LINK_OPEN) {
		sn_net_bye_out(l, 0, false);
		generation_next(n, l->id);
	}
	drop_content(l, 0);
	sn_net_inbox_end(l);
	l->state = SN_LINK_GONE;
	l->dead = true;
	n->dead++;
	if (n->inside == 0) {
		sn_net_link_free(l);
		n->dead--;
	}
}

void sn_net_link_free(struct sn_net_link *l)
{
	struct sn_net *n = l->net;

	for (unsigned i = 0; i < n->cfg.ports; i++)
		n->port[i].out_count = 0;
	if (n->hot == l)
		n->hot = NULL;
	if (l->shown)
		n->cfg.unshow(l);
	sn_net_stream_end(l, 0);
	sn_net_pull_end(l, 0);
	sn_net_serve_end(l, 0);
	sn_net_inbox_end(l);
	sn_net_stash_end(l);
	sn_list_for_each_safe (at, &l->rdvs)
		free(sn_container(at, struct sn_rdv, node));
	sn_list_del(&l->work_node);
	sn_list_del(&l->node);
	unhash(n, l);
	if (--n->link_count == 0)
		sn_relax_far(false);
	free(l);
}

/* ---- the end of a peer ---- */

/*
 * The session is over. Upward nothing is said in quiet mode (the caller sees to that); otherwise the core hears of every
 * request first and then, from sn_net_report_gone, of the peer itself, once all that came in order has been delivered.
 */
void sn_net_gone(struct sn_net_link *l, int status)
{
	struct sn_net *n = l->net;

	if (l->state == SN_LINK_GONE)
		return;
	if (l->state == SN_LINK_OPEN)
		generation_next(n, l->id);
	sn_net_flush(n);
	sn_net_say_gone(l, status);
	l->state = SN_LINK_GONE;
	l->bye_status = status;
	n->counts[l->bye_came && status == 0 ? SN_NC_LEFT : SN_NC_GONE]++;
	sn_net_work(l);
	if (!l->delivering && !n->quiet)
		sn_net_deliver(l);
}

void sn_net_report_gone(struct sn_net_link *l)
{
	if (l->told || l->dead)
		return;
	l->told = true;
	drop_content(l, SN_ERR_PEER_GONE);
	sn_net_inbox_end(l);
	if (!l->dead)
		sn_core_peer_gone(l->peer, l->bye_status || l->bye_came ? l->bye_status : SN_ERR_PEER_GONE);
}

void sn_net_bye_out(struct sn_net_link *l, int status, bool answer)
{
	struct sn_net_way *w = answer ? sn_net_way_reply(l) : sn_net_way_main(l);
	struct sn_wire_bye *b = sn_net_out_ctrl(w, SN_WIRE_BYE, sizeof(*b));

	b->status = (int32_t)htole32((uint32_t)status);
	b->answer = htole32(answer);
	sn_net_out_seal(w->port, &l->tx_key);
	sn_net_flush(l->net);
}

/* Why the peer ends the session: 0, or an error, which here can only mean that it has given us up. */
static int bye_status_of(const struct sn_wire_bye *b)
{
	return le32toh((uint32_t)b->status) ? SN_ERR_PEER_GONE : 0;
}

/* BYE is the peer's last word: what is missing before it will not come. Delivered is what came in order. */
void sn_net_bye_in(struct sn_net_link *l, const struct sn_wire_bye *b)
{
	if (!le32toh(b->answer))
		sn_net_bye_out(l, 0, true);
	l->bye_came = true;
	l->bye_status = bye_status_of(b);
	l->bye_answered = true;
	sn_net_work(l);
	if (!l->delivering && !l->net->quiet)
		sn_net_deliver(l);
}

/* Closing: take leave of everybody who has not answered yet. True when all have. */
bool sn_net_goodbye(struct sn_net *n)
{
	bool all = true;

	sn_list_for_each (at, &n->links) {
		struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		if (l->state != SN_LINK_OPEN || l->dead || l->bye_answered)
			continue;
		sn_net_bye_out(l, 0, false);
		all = false;
	}
	return all;
}

/* ---- connecting ---- */

static void hello_out(struct sn_net *n, struct sn_net_link *l, uint8_t type)
{
	struct sn_net_way *w = sn_net_way_main(l);
	const struct sn_addr_part *part = &w->port->part;
	struct sn_wire_hello *h = sn_net_out_ctrl(w, type, sizeof(*h));

	h->session = htole64(l->session);
	h->peer_session = htole64(l->peer_session);
	h->id = htole64(n->cfg.ids.id);
	h->mtu = htole32(n->mtu);
	h->part_type = part->type;
	h->part_len = htole16(part->len);
	h->secret.push = sn_net_push_word(n);
	memcpy(h->secret.key, n->cfg.ids.key, sizeof(h->secret.key));
	memcpy(h->secret.part, part->bytes, part->len);
	h->addr_len = (uint8_t)n->addr_len;
	memcpy(h->secret.addr, n->addr, n->addr_len);
	sn_auth_mask(&l->hello_key, h);
	sn_net_out_seal(w->port, &l->hello_key);
}

/*
 * HELLO, and when to repeat it: soon at first, 32 times in a peer time-out at last, so that no loss that a network can
 * live with makes a peer look dead.
 */
static void hello_again(struct sn_net_link *l)
{
	uint64_t pause = (SN_NET_RTO_FIRST / 2) << SN_MIN_OF(l->hellos, 6u);

	hello_out(l->net, l, SN_WIRE_HELLO);
	l->hello_at = l->net->now + SN_MIN_OF(pause, l->net->cfg.peer_timeout / 32);
	if (++l->hellos % (2 * l->net->cfg.ports) == 0 && l->state == SN_LINK_CONNECTING)
		sn_net_ways_rotate(l);
	sn_net_arm(l->net, l->hello_at);
}

void sn_net_connect(struct sn_net_link *l)
{
	if (l->state != SN_LINK_IDLE)
		return;
	l->state = SN_LINK_CONNECTING;
	sn_net_heard(l);
	hello_again(l);
}

static void open_link(struct sn_net_link *l, const struct sn_wire_hello *h)
{
	struct sn_net *n = l->net;

	l->state = SN_LINK_OPEN;
	l->peer_session = le64toh(h->session);
	sn_net_push_heard(l, h->secret.push);
	sn_auth_link_key(&l->tx_key, l->peer_key, l->session, l->peer_session);
	sn_auth_link_key(&l->rx_key, n->cfg.ids.key, l->peer_session, l->session);
	l->heard_at = n->now;
	l->hello_at = n->now;
	l->hellos = 0;
	sn_net_ways_open(l, le32toh(h->mtu));
	n->counts[SN_NC_CONNECTS]++;
	sn_net_arm(n, n->now + n->cfg.peer_timeout / 4);
	sn_net_work(l);
}

/* An answer without state: a link that lives only for this call. */
static void welcome_out(struct sn_net *n, const struct sn_wire_hello *h, uint64_t session)
{
	struct sn_net_link back = {.net = n, .session = session, .peer_session = le64toh(h->session)};
	struct sn_addr_part part = {.type = h->part_type, .len = (uint8_t)le16toh(h->part_len)};

	memcpy(part.bytes, h->secret.part, part.len);
	if (!sn_net_ways_first(&back, &part)) {
		n->drops[SN_DROP_HELLO]++;
		return;
	}
	sn_auth_hello_key(&back.hello_key, h->secret.key);
	hello_out(n, &back, SN_WIRE_WELCOME);
	sn_net_flush(n); /* before `back` goes */
}

/*
 * The application does not look, and the link needs the core. So it is made at its next look. The newest HELLO of
 * each peer is kept; and whoever finds no room asks again, but that takes him 10 ms.
 */
static void keep_hello(struct sn_net *n, const struct sn_wire_hello *h)
{
	unsigned i = 0;

	while (i < n->kept_count && n->kept[i].hello.id != h->id)
		i++;
	if (i == SN_NET_HELLOS)
		return;
	n->kept[i].hello = *h;
	n->kept[i].port = n->in_port;
	n->kept_count = SN_MAX_OF(n->kept_count, i + 1);
}

void sn_net_hellos_kept(struct sn_net *n)
{
	unsigned count = n->kept_count;

	n->kept_count = 0; /* none is kept while they are handled: it is not quiet */
	for (unsigned i = 0; i < count; i++) {
		n->in_port = n->kept[i].port;
		sn_net_hello_in(n, &n->kept[i].hello);
	}
}

/* A HELLO that knows our session: the peer is alive and means this session. Make or take the link. */
static void accept(struct sn_net *n, struct sn_net_link *l, const struct sn_wire_hello *h, uint64_t session)
{
	void *link = l;

	if (n->quiet && (l == NULL || l->state == SN_LINK_OPEN || l->state == SN_LINK_GONE)) {
		keep_hello(n, h);
		welcome_out(n, h, session); /* so the peer knows that we live */
		return;
	}
	if (l && l->state == SN_LINK_OPEN) { /* another session of the same endpoint: the old one is over */
		n->counts[SN_NC_RESTARTS]++;
		sn_net_gone(l, SN_ERR_PEER_GONE);
	}
	if (l == NULL || l->state == SN_LINK_GONE) {
		link = NULL;
		if (n->closing ||
		    sn_core_peer_from(n->cfg.ep, n->cfg.owner, h->secret.addr, h->addr_len, &link) == NULL)
			link = NULL;
	}
	l = link;
	if (l == NULL || l->dead || l->state == SN_LINK_GONE || l->state == SN_LINK_OPEN ||
	    l->session != session || l->id != le64toh(h->id)) {
		n->drops[SN_DROP_REFUSED]++;
		return;
	}
	sn_net_way_back(l, h);
	open_link(l, h);
	l->confirmed = true;
	sn_net_probe_start(sn_net_way_main(l));
	sn_net_ports_out(l);
	/* It leaves when what came with this HELLO has been read: what it does not name is not here. */
	sn_net_ack_want(l, true);
}

static void on_hello(struct sn_net *n, struct sn_net_link *l, const struct sn_wire_hello *h)
{
	uint64_t theirs = le64toh(h->session), ours = le64toh(h->peer_session), id = le64toh(h->id);

	if (l && l->state == SN_LINK_OPEN && l->peer_session == theirs) {
		if (ours == l->session) {
			l->confirmed = true;
			sn_net_heard(l);
		}
		welcome_out(n, h, l->session);
		return;
	}
	/* Where an open link is in the way, the offer is for the session after it. */
	uint64_t offer = session_towards(n, id, generation(n, id) + (l && l->state == SN_LINK_OPEN));
	if (l && (l->state == SN_LINK_IDLE || l->state == SN_LINK_CONNECTING))
		offer = l->session;
	if (ours == offer) {
		accept(n, l, h, offer);
		return;
	}
	if (ours != 0)
		n->drops[SN_DROP_STALE]++;
	if (n->closing)
		n->drops[SN_DROP_REFUSED]++;
	else
		welcome_out(n, h, offer);
}

/* HELLO or WELCOME, authentic and unmasked. */
void sn_net_hello_in(struct sn_net *n, struct sn_wire_hello *h)
{
	uint64_t id = le64toh(h->id);
	struct sn_net_link *l = find_id(n, id);

	if (!sn_wire_hello_ok(h) || id == n->cfg.ids.id) {
		n->drops[SN_DROP_HELLO]++;
		return;
	}
	if (h->h.type == SN_WIRE_HELLO) {
		on_hello(n, l, h);
		return;
	}
	if (l == NULL || l->session != le64toh(h->peer_session) ||
	    (l->state == SN_LINK_OPEN && l->peer_session != le64toh(h->session)) ||
	    l->state == SN_LINK_IDLE || l->state == SN_LINK_GONE) {
		n->drops[SN_DROP_STALE]++;
		return;
	}
	sn_net_heard(l);
	if (l->state == SN_LINK_CONNECTING) {
		sn_net_way_back(l, h);
		open_link(l, h);
		hello_again(l); /* now with both sessions; the messages that wait follow in the same batch */
		sn_net_probe_start(sn_net_way_main(l));
		sn_net_ports_out(l);
		sn_net_stream_push(l);
	}
}

/* ---- silence ---- */

void sn_net_heard(struct sn_net_link *l)
{
	l->heard_at = l->net->now;
	l->asked = false;
	l->in_vain = 0;
	l->silent = false;
}

/*
 * Ask after a quarter of the time-out without a sign of life, then 24 times; give up after the whole, when eight
 * questions were in vain. A question after which we were late proves little, for the peer and the wire may be as
 * starved as we are; but if it proved nothing, a peer that died on a busy machine would never be given up. And when
 * we have looked again and again for four time-outs by the clock, somebody who lives has had his turn too: each
 * question counts in full, and engine time, which hardly moves for who is always late, is no longer waited for.
 */
static uint64_t silence_timer(struct sn_net_link *l)
{
	struct sn_net *n = l->net;
	uint64_t timeout = n->cfg.peer_timeout, pause = timeout / 32, silent = n->now - l->heard_at;
	uint64_t ask_at = SN_MAX_OF(l->heard_at + timeout / 4, l->asked ? l->ping_at + pause : 0);
	bool late_now = n->late_at == n->now && n->now > (l->asked ? l->ping_at : l->heard_at);

	if (n->now < ask_at && !late_now)
		return ask_at;
	if (!l->asked)
		l->starved = n->starved;
	bool enough = silent + (n->starved - l->starved) >= SN_NET_ASK_LONG * timeout;
	if (l->asked)
		l->in_vain += n->late_at >= l->ping_at && !enough ? 1 : SN_NET_ASK_FULL;
	if ((silent >= timeout || enough) && l->in_vain >= SN_NET_ASK * SN_NET_ASK_FULL) {
		if (!n->quiet) {
			sn_net_gone(l, SN_ERR_PEER_GONE);
			return SN_NET_NEVER;
		}
		/*
		 * To be reported by the application's next progress, unless a sign of life comes first: we go on
		 * asking for one.
		 */
		l->silent = true;
		sn_net_work(l);
	}
	if (l->state == SN_LINK_OPEN) {
		if (l->asked) /* the rail by which the last frame came may be what is silent, and not the peer */
			sn_net_way_turn(l);
		sn_net_out_ack(l, SN_WIRE_F_ANSWER);
	}
	l->asked = true;
	l->ping_at = n->now;
	return n->now + pause;
}

uint64_t sn_net_link_timer(struct sn_net_link *l)
{
	struct sn_net *n = l->net;
	uint64_t next;

	if (l->state != SN_LINK_CONNECTING && l->state != SN_LINK_OPEN)
		return SN_NET_NEVER;
	next = silence_timer(l);
	if (l->state == SN_LINK_GONE)
		return SN_NET_NEVER;
	if (l->state == SN_LINK_CONNECTING || !l->confirmed) {
		if (n->now >= l->hello_at)
			hello_again(l);
		next = SN_MIN_OF(next, l->hello_at);
	}
	if (l->state == SN_LINK_CONNECTING)
		return next;
	next = SN_MIN_OF(next, sn_net_stream_timer(l));
	next = SN_MIN_OF(next, sn_net_pull_timer(l));
	for (unsigned i = 0; i < n->cfg.ports; i++) {
		next = SN_MIN_OF(next, sn_net_probe_timer(&l->way[i]));
		next = SN_MIN_OF(next, sn_net_way_timer(&l->way[i]));
	}
	return next;
}

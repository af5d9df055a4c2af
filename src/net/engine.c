/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/alone.h"
#include <stdlib.h>

#define CALL  4000 /* ns that a train takes to leave, before it is measured */
#define TIMED 8	   /* peeks that take something, of which one reads the clock at once */

static const char *const count_names[SN_NC_COUNT] = {
	"net.tx_frames",      "net.rx_frames",	  "net.tx_msg",	    "net.rx_msg",	 "net.tx_ack",
	"net.resend_fast",    "net.resend_timer", "net.tx_data",    "net.rx_data",	 "net.rx_placed",
	"net.rx_moved",	      "net.tx_pull",	  "net.tx_push",    "net.rx_push",	 "net.rx_stashed",
	"net.again_evidence", "net.again_timer",  "net.tx_eager",   "net.tx_rendezvous", "net.connects",
	"net.restarts",	      "net.peers_gone",	  "net.peers_left", "net.driver_full",	 "net.tx_slices",
	"net.tx_probes",      "net.path_shrunk",  "net.rail_down",  "net.rail_up",	 "net.stolen",
	"net.tx_records",     "net.tx_gathered",  "net.tx_packed",  "net.kernel_pulls",	 "net.join_doubts",
	"net.quick_up",	      "net.quick_doubts",
};

/* ---- frame buffers: a chain of free ones, last used first ---- */

uint8_t *sn_net_frame_get(struct sn_net *n)
{
	uint8_t *f = n->spare;

	if (f == NULL)
		return malloc(n->mtu);
	memcpy(&n->spare, f, sizeof(n->spare));
	return f;
}

void sn_net_frame_put(struct sn_net *n, uint8_t *frame)
{
	if (frame == NULL)
		return;
	memcpy(frame, &n->spare, sizeof(n->spare));
	n->spare = frame;
}

/* ---- numbers: index + 1 in the low 20 bits, a reuse count above ---- */

#define INDEX_BITS 20
#define INDEX_MASK ((1u << INDEX_BITS) - 1)

uint32_t sn_net_table_add(struct sn_net_table *t, void *object)
{
	if (t->free == 0) {
		uint32_t room = t->room ? t->room * 2 : 16;
		struct sn_net_entry *e = room <= INDEX_MASK ? realloc(t->entry, room * sizeof(*e)) : NULL;
		if (e == NULL)
			return 0;
		for (uint32_t i = t->room; i < room; i++)
			e[i] = (struct sn_net_entry){.number = i + 1, .next_free = i + 1 < room ? i + 2 : 0};
		t->free = t->room + 1;
		t->entry = e;
		t->room = room;
	}
	struct sn_net_entry *e = &t->entry[t->free - 1];
	t->free = e->next_free;
	e->object = object;
	t->count++;
	return e->number;
}

void *sn_net_table_get(const struct sn_net_table *t, uint32_t number)
{
	uint32_t index = number & INDEX_MASK;

	if (index == 0 || index > t->room || t->entry[index - 1].number != number)
		return NULL;
	return t->entry[index - 1].object;
}

void sn_net_table_del(struct sn_net_table *t, uint32_t number)
{
	uint32_t index = number & INDEX_MASK;
	struct sn_net_entry *e = &t->entry[index - 1];

	e->object = NULL;
	e->number = (e->number + (1u << INDEX_BITS)) & INT32_MAX; /* the top bit marks the kernel's fetches */
	e->next_free = t->free;
	t->free = index;
	t->count--;
}

/* ---- time ---- */

/*
 * Engine time is the clock less the time in which somebody should have looked and did not. A look may come by look_by, which
 * sn_net_deadline promised, and a little later: time up to there counts. What is beyond is lateness: the process was
 * stopped, frozen or starved, and so perhaps were its peers and all that lies between; it proves nothing about them. And
 * where that happens again and again, with no moment between for a question and its answer, a question after which we were
 * late (late_at, see silence_timer) counts a quarter. `starved` remembers the lateness of a process that runs now and then,
 * which is late by less than a time-out: one that is later was frozen, and learns nothing from that.
 */
void sn_net_look(struct sn_net *n)
{
	uint64_t clock = n->cfg.clock(n->cfg.clock_arg), by = SN_MAX_OF(n->clock_seen, n->look_by);
	uint64_t late = clock > by ? clock - by : 0;
	uint64_t most = SN_MAX_OF(SN_NET_LATENESS, n->cfg.peer_timeout / 64);

	if (late > most)
		n->skew += late - most;
	if (late > most && late < n->cfg.peer_timeout)
		n->starved += late - most;
	n->clock_seen = SN_MAX_OF(n->clock_seen, clock);
	n->look_by = 0;
	n->now = n->clock_seen - n->skew;
	if (late > SN_MAX_OF(100 * SN_NET_MS, n->cfg.peer_timeout / 32))
		n->late_at = n->now;
}

/* ---- life ---- */

static bool ports_new(struct sn_net *n)
{
	n->port = calloc(n->cfg.ports, sizeof(*n->port));
	if (n->port == NULL)
		return false;
	for (unsigned i = 0; i < n->cfg.ports; i++) {
		struct sn_net_port *p = &n->port[i];
		p->net = n;
		p->index = i;
		p->driver = n->cfg.port[i].driver;
		p->drv = n->cfg.port[i].drv;
		p->part = n->cfg.port[i].part;
		if (p->driver->together)
			p->stage = aligned_alloc(SN_COPY_PAGE,
						 (size_t)SN_NET_BATCH * p->driver->together + SN_COPY_PAGE);
		p->staged = SN_NET_STAGE_AT;
		p->mtu = SN_MIN_OF(p->driver->mtu(p->drv), (uint32_t)SN_WIRE_LEN_MAX);
		p->prefix = p->driver->prefix ? p->driver->prefix(p->drv) : 128;
		p->credit = SN_NET_CREDIT;
		sn_list_init(&p->jobs);
		sn_list_init(&p->served);
		n->mtu = SN_MAX_OF(n->mtu, p->mtu);
	}
	n->kernel = sn_kpull_gather(n);
	return true;
}

struct sn_net *sn_net_new(const struct sn_net_cfg *cfg)
{
	struct sn_net *n = calloc(1, sizeof(*n));
	char bad[32];

	if (n == NULL)
		return NULL;
	n->cfg = *cfg;
	n->hash_size = 64;
	n->by_session = calloc(n->hash_size, sizeof(struct sn_net_link *));
	n->by_id = calloc(n->hash_size, sizeof(struct sn_net_link *));
	if (n->by_session == NULL || n->by_id == NULL || !ports_new(n) ||
	    !sn_sched_choose(cfg->strategy ? cfg->strategy : "aggregate,split", &n->strategy, bad,
			     sizeof(bad))) {
		sn_net_free(n);
		return NULL;
	}
	struct sn_list *lists[] = {&n->links,	    &n->work,	     &n->pulls,	      &n->ended_msgs,
				   &n->ended_sends, &n->ended_pulls, &n->stash_spare, &n->keep.left};
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		sn_list_init(lists[i]);
	sn_auth_hello_key(&n->hello_key, cfg->ids.key);
	n->session_key = (struct sn_sip_key){{cfg->secret[0], cfg->secret[1]}};
	n->timer_at = SN_NET_NEVER;
	n->call = CALL;
	n->clock_seen = cfg->clock(cfg->clock_arg);
	sn_net_look(n);
	return n;
}

static void free_list(struct sn_list *list)
{
	sn_list_for_each_safe (at, list)
		free(at); /* node is the first member of everything kept on these lists */
}
_Static_assert(offsetof(struct sn_net_msg, node) == 0 && offsetof(struct sn_net_send, node) == 0 &&
		       offsetof(struct sn_net_pull, node) == 0 && offsetof(struct sn_net_stash, node) == 0,
	       "free_list");

void sn_net_free(struct sn_net *n)
{
	if (n->links.next)
		sn_list_for_each_safe (at, &n->links)
			sn_net_link_free(sn_container(at, struct sn_net_link, node));
	if (n->ended_msgs.next) {
		free_list(&n->ended_msgs);
		free_list(&n->ended_sends);
		free_list(&n->ended_pulls);
		free_list(&n->stash_spare);
		sn_net_keeps_free(n);
	}
	for (uint8_t *f = n->spare, *next; f != NULL; f = next) {
		memcpy(&next, f, sizeof(next));
		free(f);
	}
	for (unsigned i = 0; n->port && i < n->cfg.ports; i++)
		free(n->port[i].stage);
	free(n->port);
	free(n->sends.entry);
	free(n->pull_table.entry);
	free(n->past);
	free(n->by_session);
	free(n->by_id);
	free(n);
}

/* ---- progress ---- */

/* What ended in quiet mode is reported now. */
static int report_ended(struct sn_net *n)
{
	int events = 0;

	while (!sn_list_empty(&n->ended_msgs)) {
		struct sn_net_msg *m = sn_container(sn_net_pop(&n->ended_msgs), struct sn_net_msg, node);
		struct sn_req *req = m->req;
		free(m);
		sn_core_sent(req, 0);
		events++;
	}
	while (!sn_list_empty(&n->ended_sends)) {
		sn_net_send_told(sn_container(sn_net_pop(&n->ended_sends), struct sn_net_send, node));
		events++;
	}
	while (!sn_list_empty(&n->ended_pulls)) {
		struct sn_net_pull *p = sn_container(sn_net_pop(&n->ended_pulls), struct sn_net_pull, node);
		struct sn_req *req = p->req;
		int status = p->status;
		free(p);
		sn_core_pulled(req, status);
		events++;
	}
	return events;
}

static void run_timers(struct sn_net *n)
{
	uint64_t next = SN_NET_NEVER;

	if (n->now < n->timer_at)
		return;
	n->timer_at = SN_NET_NEVER;
	sn_list_for_each_safe (at, &n->links) {
		struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		if (!l->dead)
			next = SN_MIN_OF(next, sn_net_link_timer(l));
	}
	sn_net_arm(n, next);
}

/* Links with something to send or to deliver. One that waits (for room, or for an acknowledgement's company) stays. */
static int run_work(struct sn_net *n)
{
	int events = 0;

	sn_list_for_each_safe (at, &n->work) {
		struct sn_net_link *l = sn_container(at, struct sn_net_link, work_node);
		if (l->silent && !n->quiet && !l->dead) {
			sn_net_gone(l, SN_ERR_PEER_GONE);
			events++;
		}
		if (l->dead || (l->state != SN_LINK_OPEN && l->state != SN_LINK_GONE && !l->silent)) {
			sn_list_del(&l->work_node);
			continue;
		}
		bool came = l->rx_deliver != l->rx_next;
		if (n->quiet ? n->closing && came
			     : came || l->bye_came || (l->state == SN_LINK_GONE && !l->told)) {
			sn_net_deliver(l);
			events++;
		}
		if (l->state == SN_LINK_OPEN) {
			n->looks = !n->hold;
			sn_net_stream_push(l);
			n->looks = false;
			if (l->ack_at <=
			    (n->quiet ? SN_NET_NEVER - 1 : n->now)) /* quiet: no frame will take it along */
				sn_net_out_ack(l, 0);
		}
		bool wait = l->state == SN_LINK_OPEN &&
			    (l->ack_at != SN_NET_NEVER || l->tx_again || l->open.frame ||
			     !sn_list_empty(&l->queue) || !sn_list_empty(&l->dones));
		wait |= n->quiet && (l->rx_deliver != l->rx_next || l->bye_came || l->silent);
		if (!wait && !l->dead)
			sn_list_del(&l->work_node);
	}
	return events;
}

static void free_dead(struct sn_net *n)
{
	if (n->dead == 0 || n->inside > 0)
		return;
	sn_list_for_each_safe (at, &n->links) {
		struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		if (l->dead)
			sn_net_link_free(l);
	}
	n->dead = 0;
}

void sn_net_enter(struct sn_net *n)
{
	if (n->inside++ > 0) {
		sn_net_fresh(n);
		return;
	}
	uint64_t before = n->now;
	sn_net_look(n);
	n->late = n->now > before + SN_NET_LATE;
	for (unsigned i = 0; i < n->cfg.ports; i++)
		n->port[i].full = false;
	if (n->addr_len == 0 && !n->quiet)
		n->addr_len = sn_core_address(n->cfg.ep, n->addr);
}

void sn_net_leave(struct sn_net *n)
{
	if (n->inside == 1)
		sn_net_flush(n);
	n->inside--;
	free_dead(n);
}

int sn_net_progress(struct sn_net *n)
{
	int events = 0;

	sn_net_enter(n);
	if (n->quiet)
		n->hold = false;
	else
		events += report_ended(n);
	if (sn_unlikely(n->kept_count) && !n->quiet)
		sn_net_hellos_kept(n);
	int frames = sn_net_input(n);
	if (n->late)
		sn_net_late_look(n, frames);
	events += frames;
	if (n->kernel)
		events += sn_kpull_poll(n->kernel, n);
	events += run_work(n);
	sn_net_serve(n, n->hold);
	n->hold = false;
	sn_net_pull_schedule(n);
	run_timers(n);
	events += sn_net_keep_look(n, events);
	sn_net_leave(n);
	return events;
}

/*
 * What has come on the only port, if nothing else is to be done: no timers, no work, nothing is asked for. What its
 * arrival brings about is done by the next sn_net_progress. Of what is taken so the clock is read for one in TIMED,
 * as an answer leaves sooner without: else engine time is that of the look before (sn_net_fresh), and no measure of a
 * round trip.
 */
int sn_net_peek(struct sn_net *n)
{
	const struct sn_net_port *p = &n->port[0];

	if (n->cfg.ports > 1 || p->asked || n->quiet || n->kept_count || p->driver->glance == NULL ||
	    !sn_list_empty(&n->work) || !sn_list_empty(&p->jobs))
		return -1;
	if (!p->driver->glance(p->drv))
		return 0;
	n->stale = n->peeks++ % TIMED != 0;
	if (n->stale)
		n->inside++;
	else
		sn_net_enter(n);
	n->late &= !n->stale;
	int frames = sn_net_input(n);
	if (sn_unlikely(n->late))
		sn_net_late_look(n, frames);
	n->stale = false;
	sn_net_leave(n);
	return frames;
}

bool sn_net_holds(const struct sn_net *n)
{
	for (unsigned i = 0; i < n->cfg.ports; i++)
		if (!sn_list_empty(&n->port[i].jobs))
			return true;
	return false;
}

bool sn_net_busy(const struct sn_net *n)
{
	return !sn_list_empty(&n->work) || sn_net_holds(n) || n->kept_count ||
	       !sn_list_empty(&n->ended_msgs) || !sn_list_empty(&n->ended_sends) ||
	       !sn_list_empty(&n->ended_pulls);
}

bool sn_net_expects(const struct sn_net *n)
{
	uint64_t asked = 0;

	for (unsigned i = 0; i < n->cfg.ports; i++)
		asked += n->port[i].asked;
	return asked > 0 || n->sends.count > 0;
}

bool sn_net_idle(const struct sn_net *n)
{
	sn_list_for_each (at, &n->links) {
		const struct sn_net_link *l = sn_container(at, struct sn_net_link, node);
		if (l->state == SN_LINK_GONE || l->dead || l->bye_came) /* nothing will be acknowledged */
			continue;
		if (l->tx_una != l->tx_next || l->open.frame || !sn_list_empty(&l->queue) ||
		    !sn_list_empty(&l->dones) || sn_net_keeps(l))
			return false;
	}
	return true;
}

uint64_t sn_net_deadline(struct sn_net *n)
{
	uint64_t at = n->timer_at;

	sn_net_look(n);
	if (sn_net_holds(n))
		return 0;
	sn_list_for_each (w, &n->work) {
		const struct sn_net_link *l = sn_container(w, struct sn_net_link, work_node);
		at = SN_MIN_OF(at, SN_MIN_OF(l->ack_at, l->done_at));
	}
	if (at == SN_NET_NEVER)
		return at;
	uint64_t wait = at > n->now ? at - n->now : 0;
	n->look_by = n->clock_seen + wait;
	return wait;
}

void sn_net_counters(struct sn_net *n, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	for (int i = 0; i < SN_NC_COUNT; i++)
		fn(arg, count_names[i], n->counts[i]);
	for (int i = 0; i < SN_DROP_COUNT; i++)
		fn(arg, sn_drop_name(i), n->drops[i]);
	for (unsigned i = 0; i < n->cfg.ports; i++) {
		fn(arg, "net.credit", n->port[i].credit);
		n->port[i].driver->counters(n->port[i].drv, fn, arg);
	}
}

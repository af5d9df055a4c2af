/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network rail as the core sees it: which driver, one thread at a time into the engine, and who looks at the network
 * while nobody calls.
 *
 * Looking. While a fetch is under way in either direction, and for 20 us after a frame, every progress() polls the driver;
 * otherwise the pause between two looks is a sixteenth of the silence so far, 200 us at most, so that a frame waits hardly longer
 * than it was waited for, and one who talks to local peers meanwhile pays next to nothing. After 150 us of silence the descriptor is *armed*: the
 * process's service thread is told once when it becomes readable, rings the bell (which ends naps; the earliest nap comes
 * later than that) and sets `rang`. Not sooner: the thread that wakes takes its core from a rank that polls; who comes back and waits begins anew.
 * With no peer connected the looks stop: an endpoint whose peers are all local makes no system call for the network.
 * Who posts something long may go away, and arms at once (stay.h); who then is seen to wait disarms.
 *
 * The application computing. If the progress thread is on guard, what becomes readable wakes it, and it looks in the application's place.
 * Else, or if it does not come to it, a timer of the service thread sees that no call came for 2 to 8 ms (the longer the application has been
 * calling all the time, the rarer it looks). Where the descriptors are armed and nothing is left to send it waits for the engine's own next
 * timer, seconds away, so a rank that is blocked costs the service thread nothing. Once no call has come the service thread does the engine's
 * progress in quiet mode (net.h): it acknowledges, resends, answers PULL, places DATA and lets the peer know that we live.
 *
 * Locks. The rail's lock guards the engine; the application's threads take it around every call (inside, the core calls
 * back into the rail: `depth`, theirs alone, counts), the service thread only tries. The service lock is taken inside
 * the rail's lock here, and handlers, which run with it held, never wait for the rail's. So there is no cycle.
 */
#include "base/conf.h"
#include "base/log.h"
#include "net/net.h"
#include "net/ports.h"
#include "net/show.h"
#include "net/stay.h"
#include "progress/bell.h"
#include "progress/caller.h"
#include "progress/engine.h"
#include "progress/relax.h"
#include "progress/service.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define HOT_MOST   (8 * SN_NET_MS)
#define EXPECT_FOR (2 * SN_NET_MS) /* ns without a frame that a fetch under way is looked for all the time */
#define EAGER	   16384
#define GOODBYES   4 /* times a leave-taking is said, 5 ms apart */

struct net_rail {
	struct sn_net *net;
	unsigned ports;
	struct sn_net_cfg_port port[SN_NET_RAILS];
	struct sn_lock lock;
	unsigned depth;
	int inner; /* an epoll descriptor with the drivers' in it, one-shot; the service watches this one */
	struct sn_watch watch;
	struct sn_timer timer;
	struct sn_fork_hook fork;
	_Atomic bool rang, armed, asleep; /* asleep: nothing to do until it rings */
	_Atomic uint32_t calls;
	struct sn_net_here here; /* the service thread's */
	_Atomic bool hot;	 /* the timer fires soon */
	uint64_t fires;		 /* the clock at which it does, if it is not hot; under the rail's lock */
	uint64_t period;	 /* of the timer while the application calls; the service thread's */
	uint64_t last;		 /* clock at the last frame */
	uint64_t looked;	 /* clock at the last look */
	bool expects;		 /* a fetch was under way then */
	struct sn_net_stay stay;
	bool back; /* who was away waits now, and nothing has come since */
	uint64_t services;
};

static int watch(const struct net_rail *r, int how)
{
	return sn_net_ports_watch(r->port, r->ports, r->inner, how);
}

static void arm(struct net_rail *r)
{
	/* Added now and deleted when it has fired: a socket in an epoll set, even one whose shot is spent, costs whoever
	 * sends to it 0.4 us a frame. */
	if (atomic_exchange_explicit(&r->armed, true, memory_order_relaxed))
		return;
	watch(r, EPOLL_CTL_ADD);
}

/* The service thread may be doing the same: then it rings, and somebody arms anew. */
static void disarm(struct net_rail *r)
{
	if (atomic_exchange_explicit(&r->armed, false, memory_order_relaxed))
		watch(r, EPOLL_CTL_DEL);
}

static void enter(struct net_rail *r)
{
	if (r->depth++ > 0)
		return;
	sn_lock(&r->lock);
	atomic_store_explicit(&r->asleep, false, memory_order_relaxed);
}

/* In how many ns somebody has to look, if the application does not: nobody rings for what comes unless the descriptors are armed. */
static uint64_t needed_in(struct net_rail *r)
{
	struct sn_net *n = r->net;

	if (n->timer_at == SN_NET_NEVER && !sn_net_busy(n))
		return SN_NET_NEVER;
	if (!atomic_load_explicit(&r->armed, memory_order_relaxed) || sn_net_busy(n) ||
	    n->timer_at < n->now + SN_NET_HERE)
		return SN_NET_HERE;
	return n->timer_at - n->now;
}

/* With both locks held. */
static void set_timer(struct net_rail *r, uint64_t wait)
{
	atomic_store_explicit(&r->hot, wait <= HOT_MOST, memory_order_relaxed);
	r->fires = SN_NET_NEVER;
	if (wait == SN_NET_NEVER)
		return;
	r->fires = r->net->look_by = r->net->clock_seen + wait;
	sn_service_arm(&r->timer, SN_MAX_OF(wait, SN_NET_MS));
}

static void leave(struct net_rail *r)
{
	if (r->depth == 1 && !atomic_load_explicit(&r->hot, memory_order_relaxed)) {
		uint64_t wait = needed_in(r);
		r->net->look_by = r->fires == SN_NET_NEVER ? 0 : r->fires;
		if (wait != SN_NET_NEVER && r->net->clock_seen + wait < r->fires) {
			sn_service_lock();
			set_timer(r, wait);
			sn_service_unlock();
		}
	}
	if (r->depth == 1 && r->stay.left)
		r->stay.done = sn_now_ns();
	if (--r->depth == 0)
		sn_unlock(&r->lock);
}

/* ---- the service thread's part; the service lock is held ---- */

/* Without the rail's lock. */
static void look_again(struct net_rail *r, uint64_t wait)
{
	atomic_store_explicit(&r->hot, true, memory_order_relaxed);
	sn_service_arm(&r->timer, wait);
}

static void serve_quietly(struct net_rail *r)
{
	struct sn_net *n = r->net;

	if (!sn_lock_try(&r->lock)) { /* somebody is inside: then nobody is missing */
		look_again(r, SN_NET_HERE);
		return;
	}
	n->quiet = true;
	sn_net_progress(n);
	n->quiet = n->closing;
	sn_net_show(n);
	r->services++;
	arm(r);
	set_timer(r, sn_net_deadline(n));
	r->period = SN_NET_HERE;
	bool news = sn_net_busy(n);
	sn_unlock(&r->lock);
	atomic_store_explicit(&r->rang, true, memory_order_release);
	if (news) /* in case the application sleeps and waits for just this */
		sn_bell_ring_self();
}

/* It calls: see later whether it still does, and not before it is needed. */
static void application_is_here(struct net_rail *r)
{
	r->period = SN_MIN_OF(r->period * 2, HOT_MOST);
	if (!sn_lock_try(&r->lock)) {
		look_again(r, r->period);
		return;
	}
	sn_net_deadline(r->net); /* reads the clock */
	uint64_t wait = needed_in(r);
	set_timer(r, wait == SN_NET_HERE ? r->period : wait);
	sn_unlock(&r->lock);
}

static void on_timer(struct sn_timer *t)
{
	struct net_rail *r = sn_container(t, struct net_rail, timer);

	if (sn_net_calls(&r->here, atomic_load_explicit(&r->calls, memory_order_relaxed), sn_now_ns()))
		application_is_here(r);
	else
		serve_quietly(r);
}

static void on_readable(struct sn_watch *w, uint32_t events)
{
	struct net_rail *r = sn_container(w, struct net_rail, watch);
	sn_net_ports_rang(r->inner);
	watch(r, EPOLL_CTL_DEL);
	atomic_store_explicit(&r->armed, false, memory_order_relaxed);
	atomic_store_explicit(&r->rang, true, memory_order_release);
	/* It looks by itself, not beside the progress thread on its core; or that does. See later whether they did. */
	uint64_t now = sn_now_ns();
	bool calls = sn_net_called(&r->here, atomic_load_explicit(&r->calls, memory_order_relaxed), now);
	bool woken = sn_bell_wake_self();
	if (woken || calls || sn_net_just_posted(&r->stay, now) || sn_bell_guarded())
		look_again(r, SN_NET_HERE);
	else
		serve_quietly(r);
	if (!woken)
		sn_bell_ring_self();
	if (!woken || !sn_engine_alone()) /* who was woken looks at his own endpoint */
		sn_engine_kick(false);
}

static void in_child(struct sn_fork_hook *hook)
{
	const struct net_rail *r = sn_container(hook, struct net_rail, fork);

	sn_net_ports_in_child(r->port, r->ports);
}

/* ---- open ---- */

static uint64_t clock_ns(void *arg)
{
	return sn_now_ns();
}

static int open_engine(struct net_rail *r, struct sn_ep *ep, const struct sn_ep_ids *ids)
{
	struct sn_strategy any;
	char bad[32];
	struct sn_net_cfg cfg = {
		.ports = r->ports,
		.ep = ep,
		.owner = r,
		.ids = *ids,
		.strategy = sn_conf_str(SN_CONF_STRATEGY),
		.unshow = sn_net_unshow,
		.clock = clock_ns,
		.peer_timeout = (uint64_t)sn_conf_num(SN_CONF_PEER_TIMEOUT) * SN_NET_MS,
		.eager = EAGER,
	};

	if (!*cfg.strategy)
		return sn_fail(SN_ERR_INVALID,
			       "SENNIT_STRATEGY is empty: use a list of fifo, aggregate, split and equal");
	if (!sn_sched_choose(cfg.strategy, &any, bad, sizeof(bad)))
		return sn_fail(SN_ERR_INVALID,
			       "SENNIT_STRATEGY is \"%s\": there is no strategy \"%s\"; use a list of fifo, "
			       "aggregate, split and equal",
			       cfg.strategy, bad);
	memcpy(cfg.port, r->port, sizeof(cfg.port));
	sn_random(cfg.secret, sizeof(cfg.secret));
	r->net = sn_net_new(&cfg);
	return r->net ? 0 : sn_fail(SN_ERR_NOMEM, "no memory for the network rail");
}

static int open_watch(struct net_rail *r)
{
	r->inner = epoll_create1(EPOLL_CLOEXEC);
	if (r->inner < 0 || watch(r, EPOLL_CTL_ADD) < 0)
		return sn_fail(SN_ERR_NOMEM, "epoll for the network: %s", strerror(errno));
	atomic_store(&r->armed, true);
	atomic_store(&r->asleep, true);
	int rc = sn_service_open(&r->fork);
	if (rc)
		return rc;
	sn_service_lock();
	rc = sn_service_watch(&r->watch, r->inner, EPOLLIN);
	sn_service_unlock();
	if (rc)
		sn_service_close(&r->fork);
	return rc;
}

static void free_rail(struct net_rail *r)
{
	if (r->net)
		sn_net_free(r->net);
	for (unsigned i = 0; i < r->ports; i++)
		r->port[i].driver->close(r->port[i].drv);
	free(r);
}

static int net_open(struct sn_ep *ep, const struct sn_ep_ids *ids, void **rail, struct sn_addr_part *part)
{
	struct net_rail *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return sn_fail(SN_ERR_NOMEM, "no memory for the network rail");
	r->lock.enabled = true;
	r->inner = r->watch.fd = -1;
	r->watch.ready = on_readable;
	r->timer.fire = on_timer;
	r->fork.in_child = in_child;
	r->period = SN_NET_HERE;
	r->fires = SN_NET_NEVER;
	int rc = sn_net_ports_open(r->port, &r->ports);
	if (!rc)
		rc = open_engine(r, ep, ids);
	if (!rc)
		rc = open_watch(r);
	if (rc) {
		if (r->inner >= 0)
			close(r->inner);
		free_rail(r);
		return rc;
	}
	*part = r->port[0].part;
	*rail = r;
	return 0;
}

/* ---- close ---- */

/* One look at the network, and a nap until something comes or at most 5 ms have passed. */
static void close_step(struct net_rail *r)
{
	struct pollfd p[SN_NET_PORTS_FDS];
	int fd[SN_NET_PORTS_FDS];
	unsigned n = sn_net_ports_fds(r->port, r->ports, fd);
	uint64_t wait;

	for (unsigned i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
	sn_net_progress(r->net);
	wait = sn_net_deadline(r->net) / SN_NET_MS;
	poll(p, n, (int)SN_MIN_OF(wait, 5u));
	for (unsigned i = 0; i < n; i++)
		if (p[i].revents & POLLERR)
			sn_net_error_taken(fd[i]);
	sn_net_progress(r->net);
}

static void net_close(void *rail)
{
	struct net_rail *r = rail;
	uint64_t linger = (uint64_t)sn_conf_num(SN_CONF_LINGER) * SN_NET_MS, end = sn_now_ns() + linger;

	sn_service_lock();
	sn_service_unwatch(&r->watch); /* closes r->inner */
	sn_service_disarm(&r->timer);
	sn_service_unlock();
	sn_service_close(&r->fork);
	r->net->closing = r->net->quiet = true;
	while (!sn_net_idle(r->net) && (sn_now_ns() < end || (linger && sn_net_owes(r->net))))
		close_step(r);
	end = linger ? SN_MAX_OF(end, sn_now_ns() + GOODBYES * 5 * SN_NET_MS) : end;
	for (int i = 0; i < GOODBYES && sn_now_ns() < end && !sn_net_goodbye(r->net); i++)
		close_step(r);
	free_rail(r);
}

/* ---- the rest: one thread at a time ---- */

static bool net_reaches(void *rail, const struct sn_addr_part *part)
{
	struct net_rail *r = rail;
	struct sn_net_path path;

	for (unsigned i = 0; i < r->ports; i++)
		if (r->port[i].driver->resolve(r->port[i].drv, part, &path))
			return true;
	return false;
}

static int net_attach(void *rail, struct sn_peer_state *peer, const struct sn_ep_ids *ids,
		      const struct sn_addr_part *part, void **link)
{
	struct net_rail *r = rail;
	struct sn_net_link *l = NULL;

	enter(r);
	int rc = sn_net_attach(r->net, peer, ids, part, &l);
	leave(r);
	*link = l;
	return rc;
}

/* The addresses of the other ports: a peer that cannot reach the first begins with one of them. */
static unsigned net_more(void *rail, struct sn_addr_part *parts, unsigned max)
{
	struct net_rail *r = rail;
	unsigned n = 0;

	for (; n < max && n + 1 < r->ports; n++)
		parts[n] = r->port[n + 1].part;
	return n;
}

static struct net_rail *rail_of(const struct sn_net_link *l)
{
	return l->net->cfg.owner;
}

static void net_also(void *link, const struct sn_addr_part *part)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	sn_net_ways_also(link, part);
	leave(r);
}

static void net_detach(void *link)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	sn_net_detach(link);
	leave(r);
}

/* HELLO, and all that follows when nobody answers it. */
static void net_meet(void *link)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	sn_net_enter(r->net);
	sn_net_connect(link);
	sn_net_leave(r->net);
	leave(r);
}

/* What waits for the next look makes that due. */
static void holds(struct net_rail *r)
{
	if (sn_net_holds(r->net))
		atomic_store_explicit(&r->rang, true, memory_order_relaxed);
}

static int net_post(void *link, const struct sn_out *out, struct sn_req *req)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	int rc = sn_net_post(link, out, req);
	holds(r);
	leave(r);
	return rc;
}

static int net_post_now(void *link, uint32_t what, uint64_t bits, uint64_t data, const void *body,
			uint64_t len)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	int rc = sn_net_post_now(link, what, bits, data, (struct iovec){(void *)(uintptr_t)body, len});
	leave(r);
	return rc;
}

static bool net_unpost(void *link, struct sn_req *req)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	bool taken = sn_net_unpost(link, req);
	leave(r);
	return taken;
}

static void net_pull(void *link, struct sn_rdv *rdv, const struct iovec *iov, uint32_t iov_count,
		     uint64_t len, struct sn_req *req)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	sn_net_pull(link, rdv, iov, iov_count, len, req);
	leave(r);
}

static void net_refuse(void *link, struct sn_rdv *rdv, int status)
{
	struct net_rail *r = rail_of(link);

	enter(r);
	sn_net_refuse(link, rdv, status);
	leave(r);
}

static bool net_brings(const void *link, uint64_t room)
{
	const struct sn_net_link *l = link;
	uint64_t head = sizeof(struct sn_wire_head) + SN_WIRE_EAGER_HEAD;

	return room <= SN_NET_SEVERAL || room <= SN_MIN_OF(l->net->cfg.eager, l->way[0].mtu - head);
}

/* Is it time to look? See the top of this file. */
static bool due(struct net_rail *r)
{
	if (sn_unlikely(atomic_load_explicit(&r->rang, memory_order_acquire))) {
		atomic_store_explicit(&r->rang, false, memory_order_relaxed);
		return true;
	}
	if (atomic_load_explicit(&r->asleep, memory_order_relaxed))
		return false;
	if (r->expects && r->looked < r->last + EXPECT_FOR)
		return true;
	uint64_t pause = sn_net_pause(r->looked - r->last);
	return pause == 0 || sn_now_ns() >= r->looked + pause;
}

static int net_progress(void *rail)
{
	struct net_rail *r = rail;

	/* One writer at a time: the endpoint's lock. */
	atomic_store_explicit(&r->calls, atomic_load_explicit(&r->calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (!due(r))
		return 0;
	enter(r);
	uint64_t before = r->looked, pause = sn_net_pause(before - r->last);
	int events = sn_net_progress(r->net);
	sn_net_show(r->net);
	r->looked = r->net->clock_seen;
	if (sn_net_looks(&r->stay, r->looked, pause, sn_relax_full()))
		disarm(r);
	bool back = !r->back && sn_net_away(r->looked - before, pause) && sn_caller_waits();
	if (events || back) {
		r->last = r->looked;
		r->back = back; /* once: then each nap, too, is an absence, and what comes has to ring */
	} else if (r->looked > r->last + SN_RELAX_FAR_ARM)
		arm(r);
	r->expects = sn_net_expects(r->net);
	holds(r);
	bool asleep = !events && atomic_load_explicit(&r->armed, memory_order_relaxed) &&
		      r->net->timer_at == SN_NET_NEVER && !sn_net_busy(r->net);
	leave(r);
	atomic_store_explicit(&r->asleep, asleep, memory_order_relaxed);
	return events;
}

static int net_peek(void *rail)
{
	struct net_rail *r = rail;

	if (r->depth || atomic_load_explicit(&r->armed, memory_order_relaxed))
		return -1;
	enter(r);
	int events = sn_net_peek(r->net);
	if (events > 0)
		r->last = r->looked = r->net->clock_seen;
	leave(r);
	return events;
}

/* What comes from now on rings, if nobody looks before and that is not sure. */
static void net_leave(void *rail)
{
	struct net_rail *r = rail;

	if (sn_net_may_go(&r->stay, sn_now_ns()))
		arm(r);
}

static bool net_stays(const void *rail)
{
	const struct net_rail *r = rail;

	return atomic_load_explicit(&r->net->roomy, memory_order_relaxed) &&
	       sn_net_stays(&r->stay, sn_now_ns());
}

static bool net_busy(void *rail)
{
	struct net_rail *r = rail;

	enter(r);
	bool busy = sn_net_busy(r->net);
	leave(r);
	return busy;
}

static void net_counters(void *rail, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct net_rail *r = rail;

	enter(r);
	sn_net_counters(r->net, fn, arg);
	fn(arg, "net.serviced", r->services);
	leave(r);
}

const struct sn_rail_ops sn_rail_net = {
	.name = "net",
	.far = true,
	.open = net_open,
	.close = net_close,
	.more = net_more,
	.reaches = net_reaches,
	.attach = net_attach,
	.also = net_also,
	.detach = net_detach,
	.meet = net_meet,
	.post = net_post,
	.post_now = net_post_now,
	.unpost = net_unpost,
	.pull = net_pull,
	.refuse = net_refuse,
	.brings = net_brings,
	.progress = net_progress,
	.peek = net_peek,
	.leave = net_leave,
	.stays = net_stays,
	.busy = net_busy,
	.counters = net_counters,
};

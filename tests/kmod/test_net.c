// SPDX-License-Identifier: BSD-3-Clause
/*
 * Fetches by the kernel. The other host is a plain program in another network namespace that speaks the protocol with
 * the engine's own codec (src/net/auth.c, check.c, wire.h) over a packet socket: it answers PULL frames with DATA, as badly as it
 * is told to.
 */
#include "kt.h"
#include "nethost.h"
#include "veth.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int dev, event = -1;
static uint32_t net, link_id;
static struct sennit_net_ring *ring;

/* ---- this one ---- */

static void set_up(void)
{
	struct sennit_net_open o = {.mtu = MTU, .port = {'A', 'A'}};
	struct sennit_net_link l = {.to = {[6] = 'B', [7] = 'B'}};
	struct sn_sip_key key;

	dev = kt_open();
	event = eventfd(0, EFD_NONBLOCK);
	o.event = event;
	o.ifindex = kt_link_index("ka", sh->mac[0]);
	KT_CHECK(ioctl(dev, SENNIT_IOC_NET_OPEN, &o) == 0);
	net = o.id;
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, dev, (off_t)net << 16);
	KT_CHECK(ring != MAP_FAILED);
	l.net = net;
	memcpy(l.to, sh->mac[1], 6);
	sn_auth_link_key(&key, key_a, SESSION_B, SESSION_A);
	memcpy(l.rx_key, key.k, 16);
	sn_auth_link_key(&key, key_b, SESSION_A, SESSION_B);
	memcpy(l.tx_key, key.k, 16);
	l.rx_link = (uint32_t)SESSION_A;
	l.tx_link = (uint32_t)SESSION_B;
	KT_CHECK(ioctl(dev, SENNIT_IOC_NET_LINK, &l) == 0 && l.rx_key[0] == 0);
	link_id = l.id;
}

static void tear_down_but_pins(void)
{
	munmap(ring, sizeof(*ring));
	close(dev);
	close(event);
}

static void tear_down(void)
{
	tear_down_but_pins();
	kt_wait_unpinned(0);
}

static uint32_t start(uint32_t region, uint64_t from, uint64_t to, uint64_t cookie)
{
	struct sennit_net_pull p = {.net = net,
				    .link = link_id,
				    .region = region,
				    .rdv = RDV,
				    .start = from,
				    .end = to,
				    .cookie = cookie,
				    .seq = 5,
				    .ack = 9,
				    .frag = MTU - 56,
				    .rail = 2,
				    .lane = 3};

	KT_CHECK(ioctl(dev, SENNIT_IOC_NET_PULL, &p) == 0);
	KT_CHECK(p.number & SENNIT_PULL_NUMBER);
	return p.number;
}

/* Waits for completion number i (from 0). */
static struct sennit_net_done await_done(uint32_t i)
{
	struct pollfd p = {event, POLLIN, 0};
	uint64_t n;

	while ((int32_t)(__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) - i) <= 0) {
		KT_CHECK(poll(&p, 1, 60000) == 1);
		KT_CHECK(read(event, &n, 8) == 8);
	}
	return ring->done[i % SENNIT_NET_RING];
}

static void fetch_all(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		size_t from = i * 12345, to = BODY - i * 777;
		char *at = kt_map(BODY + 5000) + 77 * i, *body = malloc(BODY);
		struct kt_region r = kt_declare(dev, at, to, SENNIT_WRITE);
		uint32_t number = start(r.id, from, to, 1000 + i);
		struct sennit_net_done d = await_done(i);

		KT_CHECK(d.number == number && d.cookie == 1000 + i && d.status == 0 && d.done == to);
		KT_CHECK(d.ack == 9);
		kt_fill(body, BODY, 3);
		KT_CHECK(memcmp(at + from, body + from, to - from) == 0);
		for (size_t b = 0; b < from; b++)
			KT_CHECK(at[b] == 0);
		KT_CHECK(kt_undeclare(dev, r.id) == 0);
		free(body);
		munmap((char *)((uintptr_t)at & ~(KT_PAGE - 1)), BODY);
	}
}

/* The data lies in the region with no call between the start and the end; pinning and fetching overlap. */
static void a_body_is_fetched_with_nobody_running(void)
{
	uint64_t frames = kt_counter(SENNIT_C_NET_FRAMES), bytes = kt_counter(SENNIT_C_NET_BYTES);

	set_up();
	fetch_all(1);
	KT_CHECK(kt_counter(SENNIT_C_NET_BYTES) - bytes == BODY);
	KT_CHECK(ring->frames == kt_counter(SENNIT_C_NET_FRAMES) - frames);
	printf("  overlap misses: %llu of %u frames\n", (unsigned long long)kt_counter(SENNIT_C_NET_MISSES),
	       ring->frames);
	tear_down();
}

static void loss_is_made_good(void)
{
	uint64_t again = kt_counter(SENNIT_C_NET_AGAIN), drops = kt_counter(SENNIT_C_NET_DROPS);

	sh->lose = 20;
	sh->damage = 10;
	sh->twice = 20;
	sh->forge = 10;
	set_up();
	fetch_all(3);
	tear_down();
	sh->lose = sh->damage = sh->twice = sh->forge = 0;
	KT_CHECK(kt_counter(SENNIT_C_NET_AGAIN) > again && kt_counter(SENNIT_C_NET_DROPS) > drops);
}

/* Many at once; they all end, each with its own. */
static void many_fetches_share_the_way(void)
{
	enum { N = 40 };
	struct kt_region r[N];
	char *at[N];
	bool seen[N] = {false};

	set_up();
	for (unsigned i = 0; i < N; i++) {
		at[i] = kt_map(BODY / 8);
		r[i] = kt_declare(dev, at[i], BODY / 8, SENNIT_WRITE);
		start(r[i].id, 0, BODY / 8, i);
	}
	for (unsigned i = 0; i < N; i++) {
		struct sennit_net_done d = await_done(i);

		KT_CHECK(d.cookie < N && !seen[d.cookie] && d.status == 0);
		seen[d.cookie] = true;
		KT_CHECK(kt_same(at[d.cookie], BODY / 8, 3));
	}
	tear_down();
	for (unsigned i = 0; i < N; i++)
		munmap(at[i], BODY / 8);
}

/* Memory that is unmapped, forked, moved under a fetch: an error or the right bytes, and nobody else's page is touched. */
static void memory_may_change_under_a_fetch(void)
{
	set_up();
	for (uint32_t i = 0; i < 8; i++) {
		char *at = kt_map(BODY), *guard;
		struct kt_region r = kt_declare(dev, at, BODY, SENNIT_WRITE);
		struct sennit_net_done d;
		pid_t child = 0;

		start(r.id, 0, BODY, i);
		usleep(2000 * i);
		if (i % 2) {
			munmap(at + BODY / 2, BODY / 2);
			guard = mmap(at + BODY / 2, BODY / 2, PROT_READ,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			KT_CHECK(guard == at + BODY / 2);
		} else {
			child = kt_fork();
			if (!child)
				_exit(0);
		}
		d = await_done(i);
		if (i % 2) {
			KT_CHECK(d.status == 0 || d.status == -EFAULT);
			KT_CHECK(kt_same(at, SN_MIN_OF(d.done, (uint64_t)BODY / 2), 3));
			for (size_t b = 0; b < BODY / 2; b += 512)
				KT_CHECK(guard[b] == 0);
		} else {
			kt_join(child);
			KT_CHECK(d.status == 0 && kt_same(at, BODY, 3));
		}
		KT_CHECK(kt_undeclare(dev, r.id) == 0);
		munmap(at, BODY);
	}
	tear_down();
}

/* What cannot be fetched this way is left to the program: what is there, and from where on to go. */
static void a_fetch_can_be_left(void)
{
	struct sennit_net_cancel c;
	struct sennit_net_unlink u;
	char *at = kt_map(BODY);
	struct kt_region r;

	set_up();
	r = kt_declare(dev, at, BODY, SENNIT_WRITE);
	c = (struct sennit_net_cancel){.net = net, .number = start(r.id, 0, BODY, 1)};
	while (!ring->frames)
		usleep(100);
	KT_CHECK(ioctl(dev, SENNIT_IOC_NET_CANCEL, &c) == 0 || errno == ENOENT);
	KT_CHECK(c.done <= BODY && kt_same(at, c.done, 3));
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_CANCEL, &c), ENOENT);
	uint32_t frames = ring->frames;
	usleep(20000);
	KT_CHECK(ring->frames == frames);
	/* A peer that does not answer, and a region that goes. */
	sh->mute = 1;
	start(r.id, 0, BODY, 2);
	KT_CHECK(kt_undeclare(dev, r.id) == 0);
	sh->mute = 0;
	munmap(at, BODY);
	u = (struct sennit_net_unlink){.net = net, .link = link_id};
	KT_CHECK(ioctl(dev, SENNIT_IOC_NET_UNLINK, &u) == 0);
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_UNLINK, &u), ENOENT);
	tear_down();
}

#define REFUSED(field, value, code)                                                                          \
	p = good;                                                                                            \
	p.field = value;                                                                                     \
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_PULL, &p), code)

static void lanes_are_checked(struct sennit_net_pull good)
{
	struct sennit_net_pull p;

	good.frag = 0;
	good.n_lanes = 2;
	good.lanes[0] = (struct sennit_net_lane){.lane = 1, .frag = 1000};
	good.lanes[1] = (struct sennit_net_lane){.lane = 2, .frag = 1000};
	REFUSED(n_lanes, SENNIT_NET_PORTS + 1, EINVAL);
	REFUSED(n_lanes, 3, EINVAL);
	REFUSED(deal, SENNIT_DEAL_FASTEST + 1, EINVAL);
	REFUSED(frag, 1000, EINVAL);
	REFUSED(rail, 1, EINVAL);
	REFUSED(lanes[1].lane, 1, EINVAL);
	REFUSED(lanes[1].lane, SENNIT_NET_PORTS, EINVAL);
	REFUSED(lanes[1].port, 1, EINVAL);
	REFUSED(lanes[1].frag, 255, EINVAL);
	REFUSED(lanes[1].frag, MTU, EINVAL);
	REFUSED(lanes[1].zero[4], 1, EINVAL);
	REFUSED(lanes[1].reserved, 1, EINVAL);
}

static void ports_are_checked(void)
{
	struct sennit_net_port good = {.net = net, .ifindex = kt_link_index("ka", sh->mac[0]), .mtu = MTU}, a;

	for (unsigned i = 1; i < SENNIT_NET_PORTS; i++) { /* it was opened with one */
		a = good;
		KT_CHECK(ioctl(dev, SENNIT_IOC_NET_PORT, &a) == 0 && a.index == i);
	}
	a = good;
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_PORT, &a), ENOSPC);
	a.net = 99;
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_PORT, &a), ENOENT);
	a.zero[1] = 1;
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_PORT, &a), EINVAL);
}

static void nonsense_is_refused(void)
{
	struct sennit_net_open o = {.mtu = MTU, .event = -1, .ifindex = 12345};
	char *at = kt_map(BODY);

	set_up();
	struct kt_region w = kt_declare(dev, at, BODY, SENNIT_WRITE),
			 ro = kt_declare(dev, at, BODY, SENNIT_READ);
	struct sennit_net_pull good = {.net = net,
				       .link = link_id,
				       .region = w.id,
				       .end = BODY,
				       .frag = 1000},
			       p;

	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_OPEN, &o), ENODEV);
	o.ifindex = kt_link_index("ka", sh->mac[0]);
	o.mtu = 65000;
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_OPEN, &o), EINVAL);
	o.mtu = MTU;
	o.event = dev;
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_OPEN, &o), EINVAL);
	REFUSED(net, 99, ENOENT);
	REFUSED(link, 99, ENOENT);
	REFUSED(region, 9999, ENOENT);
	REFUSED(region, ro.id, EACCES);
	REFUSED(end, BODY + 1, EINVAL);
	REFUSED(end, 0, EINVAL);
	REFUSED(start, BODY, EINVAL);
	REFUSED(frag, 255, EINVAL);
	REFUSED(frag, MTU, EINVAL);
	REFUSED(zero, 1, EINVAL);
	REFUSED(reserved, 1, EINVAL);
	REFUSED(deal, SENNIT_DEAL_EQUAL, EINVAL);
	lanes_are_checked(good);
	ports_are_checked();
	for (int i = 0; i < (int)SENNIT_NETS - 1; i++) {
		o.event = -1;
		KT_CHECK(ioctl(dev, SENNIT_IOC_NET_OPEN, &o) == 0);
	}
	KT_FAILS(ioctl(dev, SENNIT_IOC_NET_OPEN, &o), ENOSPC);
	pid_t child = kt_fork();
	if (!child) {
		kt_become_user(1000);
		dev = kt_open();
		KT_FAILS(ioctl(dev, SENNIT_IOC_NET_OPEN, &o), EPERM);
		_exit(0);
	}
	kt_join(child);
	munmap(at, BODY);
	tear_down();
}

/* ---- with DMA channels ---- */

static void set(const char *module, const char *name, unsigned long value)
{
	char path[120];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, name);
	f = fopen(path, "w");
	KT_CHECK(f && fprintf(f, "%lu\n", value) > 0 && fclose(f) == 0);
}

/* What came by the engine while `rounds` bodies were fetched, every byte of them right. */
static uint64_t fetch_by_engine(unsigned rounds)
{
	uint64_t bytes = kt_counter(SENNIT_C_NET_DMA_BYTES);

	set_up();
	fetch_all(rounds);
	tear_down();
	bytes = kt_counter(SENNIT_C_NET_DMA_BYTES) - bytes;
	printf("  %lu KiB of %lu by the engine\n", (unsigned long)bytes >> 10,
	       (unsigned long)rounds * BODY >> 10);
	return bytes;
}

/* All but the head, which the CPU puts into the cache; and no body that is too short. */
static void the_engine_copies_what_comes(void)
{
	uint64_t at_most = BODY - 65536 + 8000;
	uint64_t bytes = fetch_by_engine(1);

	KT_CHECK(bytes > 0 && bytes <= at_most); /* how much of it is the machine's load */
	set("sennit", "dma_threshold", 64ul << 20);
	KT_CHECK(fetch_by_engine(1) == 0);
	set("sennit", "dma_threshold", 65536);
	set("sennit", "dma_pending", 2); /* what finds no room is the CPU's */
	bytes = fetch_by_engine(1);
	KT_CHECK(bytes > 0 && bytes <= at_most);
	set("sennit", "dma_pending", 64);
}

static void what_the_engine_fails_the_cpu_copies(void)
{
	uint64_t errors = kt_counter(SENNIT_C_DMA_ERRORS);
	int held = kt_open(); /* and so the channels are: the failures are not for their calibration */

	set("dmadouble", "fail_every", 5);
	fetch_by_engine(1);
	set("dmadouble", "fail_every", 0);
	KT_CHECK(kt_counter(SENNIT_C_DMA_ERRORS) > errors);
	set("dmadouble", "starve_every", 3);
	fetch_by_engine(1);
	set("dmadouble", "starve_every", 0);
	set("dmadouble", "delay_us", 300); /* late completions */
	sh->lose = 20;
	KT_CHECK(fetch_by_engine(1) > 0);
	sh->lose = 0;
	set("dmadouble", "delay_us", 0);
	close(held);
}

/* As from IDXD, whose driver sleeps for descriptors. The channels are taken before: it holds for what comes then. */
static void a_worker_submits_where_drivers_sleep(void)
{
	int held = kt_open();

	set("sennit", "dma_sleeps", 1);
	set("dmadouble", "sleepy", 1);
	KT_CHECK(fetch_by_engine(1) > 0);
	set("dmadouble", "sleepy", 0);
	set("sennit", "dma_sleeps", 0);
	close(held);
}

/* When a fetch has been taken back, what the engine had of it is there: nothing is written later. */
static void cancelling_waits_for_the_engine(void)
{
	char *at = kt_map(BODY), *before = malloc(BODY);

	set("dmadouble", "delay_us", 2000);
	sh->until = BODY / 2; /* so that it is not through before it is taken back */
	for (unsigned i = 0; i < 4; i++) {
		set_up();
		struct kt_region r = kt_declare(dev, at, BODY, SENNIT_WRITE);
		struct sennit_net_cancel c = {.net = net, .number = start(r.id, 0, BODY, 1)};
		struct sennit_net_unlink u = {.net = net, .link = link_id};

		while (ring->frames < 20)
			usleep(100);
		KT_CHECK((i % 2 ? ioctl(dev, SENNIT_IOC_NET_UNLINK, &u)
				: ioctl(dev, SENNIT_IOC_NET_CANCEL, &c)) == 0);
		memset(at, 0x77, BODY);
		memcpy(before, at, BODY);
		usleep(20000);
		KT_CHECK(memcmp(at, before, BODY) == 0);
		KT_CHECK(ring->head == 0);
		tear_down();
	}
	set("dmadouble", "delay_us", 0);
	sh->until = 0;
	free(before);
	munmap(at, BODY);
}

/* Channels fall silent under fetches: given up, and every byte is right; killed processes leave nothing. */
static void silent_channels_end_no_fetch(void)
{
	uint64_t given_up = kt_counter(SENNIT_C_DMA_TIMEOUTS);
	int held = kt_open();

	set("sennit", "dma_timeout_ms", 200);
	set("dmadouble", "lose_every", 60);
	fetch_by_engine(2);
	KT_CHECK(kt_counter(SENNIT_C_DMA_TIMEOUTS) > given_up);
	close(held);
	for (unsigned i = 0; i < 4; i++) {
		pid_t child = kt_fork();

		if (!child) {
			char *at = kt_map(BODY);

			set_up();
			start(kt_declare(dev, at, BODY, SENNIT_WRITE).id, 0, BODY, 1);
			while (ring->frames < 20 * (i + 1))
				usleep(100);
			_exit(0);
		}
		kt_join(child);
	}
	kt_wait_unpinned(0);
	set("dmadouble", "lose_every", 0);
	set("sennit", "dma_timeout_ms", 2000);
}

/* In mid-fetch: the module does not unload, a process that was handed the file has no use of it, and it may outlive it. */
static void files_hold_the_module(void)
{
	char *at = kt_map(BODY);
	struct sennit_net_cancel c;
	pid_t child;

	set_up();
	c = (struct sennit_net_cancel){
		.net = net, .number = start(kt_declare(dev, at, BODY, SENNIT_WRITE).id, 0, BODY, 1)};
	KT_CHECK(syscall(SYS_delete_module, "sennit", O_NONBLOCK) < 0 &&
		 (errno == EWOULDBLOCK || errno == EBUSY));
	child = kt_fork();
	if (!child) { /* the descriptor, handed over */
		KT_FAILS(ioctl(dev, SENNIT_IOC_NET_CANCEL, &c), EPERM);
		const void *mapped = mmap(NULL, sizeof(*ring), PROT_READ, MAP_SHARED, dev, (off_t)net << 16);
		KT_CHECK(mapped == MAP_FAILED);
		usleep(100000);
		_exit(0);
	}
	tear_down_but_pins(); /* the child has the file yet */
	kt_join(child);
	kt_wait_unpinned(0);
	munmap(at, BODY);
}

/* The process dies, or the interface goes (into another namespace, or for good), with a fetch under way. Last: the wire is
 * gone then. */
static void ends_in_mid_fetch(void)
{
	char *at = kt_map(BODY);

	for (int i = 0; i < 5; i++) {
		pid_t child = kt_fork();

		if (!child) {
			set_up();
			start(kt_declare(dev, at, BODY, SENNIT_WRITE).id, 0, BODY, 1);
			usleep(1000 * (unsigned)i);
			_exit(0);
		}
		kt_join(child);
	}
	kt_wait_unpinned(0);
	/* A child that lives on has not the ring, so the file goes with its owner, and what was pinned for it. */
	set_up();
	start(kt_declare(dev, at, BODY, SENNIT_WRITE).id, 0, BODY, 1);
	pid_t child = kt_fork();
	if (!child) {
		close(dev);
		pause();
	}
	while (!ring->frames)
		usleep(100);
	usleep(20000);
	close(dev);
	munmap(ring, sizeof(*ring));
	kt_wait_unpinned(0);
	kill(child, SIGKILL);
	KT_CHECK(waitpid(child, NULL, 0) == child);
	close(event);
	sh->mute = 1;
	set_up();
	child = kt_fork();
	if (!child) {
		KT_CHECK(unshare(CLONE_NEWNET) == 0);
		sh->ready = 4;
		while (sh->ready < 5)
			usleep(1000);
		kt_link_delete("ka");
		_exit(0);
	}
	while (sh->ready < 4)
		usleep(1000);
	start(kt_declare(dev, at, BODY, SENNIT_WRITE).id, 0, BODY, 5); /* unanswered it lasts for seconds */
	kt_link_move("ka", child);
	struct sennit_net_done d = await_done(0);
	KT_CHECK(d.status == -ENODEV && d.cookie == 5 && d.done == 0);
	sh->ready = 5; /* and there it is deleted, which would wait for ever if the endpoint still held it */
	kt_join(child);
	tear_down();
}

/*
 * test_net [dma | real | plain [NAME]]: with the engine's double, with one that cannot be told to fail; only what has
 * NAME.
 */
int main(int argc, char **argv)
{
	bool real = argc > 1 && !strcmp(argv[1], "real"), doubled = argc > 1 && !strcmp(argv[1], "dma");
	const char *only = argc > 2 ? argv[2] : "";
	pid_t host;

	if (access("/sys/kernel/debug/kmemleak", F_OK) == 0)
		body_bytes /= 4;
	kt_limit(body_bytes < 6u << 20 ? 500 : 300, NULL);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	KT_CHECK(sh != MAP_FAILED);
	host = kt_fork();
	if (!host)
		other_host();
	while (sh->ready < 1)
		usleep(1000);
	kt_veth_make("ka", "kb", host, MTU + 2);
	sh->ready = 2;
	while (sh->ready < 3)
		usleep(1000);
#define RUN(test)                                                                                            \
	do {                                                                                                 \
		if (strstr(#test, only))                                                                     \
			KT_RUN(test);                                                                        \
	} while (0)
	RUN(a_body_is_fetched_with_nobody_running);
	RUN(loss_is_made_good);
	RUN(many_fetches_share_the_way);
	RUN(memory_may_change_under_a_fetch);
	RUN(a_fetch_can_be_left);
	RUN(nonsense_is_refused);
	if (doubled || real)
		RUN(the_engine_copies_what_comes);
	if (doubled) {
		RUN(what_the_engine_fails_the_cpu_copies);
		RUN(a_worker_submits_where_drivers_sleep);
		RUN(cancelling_waits_for_the_engine);
		RUN(silent_channels_end_no_fetch);
	}
	RUN(files_hold_the_module);
	RUN(ends_in_mid_fetch);
	KT_CHECK(sh->bad == 0 && (*only || sh->asked > 0));
	sh->quit = 1;
	kt_join(host);
	return 0;
}

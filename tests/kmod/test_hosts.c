// SPDX-License-Identifier: BSD-3-Clause
/*
 * The engine over Ethernet between two network namespaces, one side with the module, the other without (and both with
 * it): every byte arrives, and long messages are fetched by the kernel where it is used. With the argument "rails":
 * the same over two pairs of interfaces, by which the kernel fetches side by side; and one of them is cut, or goes,
 * in mid-fetch. With "guest 0" and "guest 1" on two emulated machines that a cable joins: the first has the module,
 * the second has not.
 */
#include "base/base.h"
#include "kt.h"
#include "sennit/sennit.h"
#include "veth.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#define LEAST 300000 /* bytes that come by each of two rails, of 6.7 MB or more */

static struct {
	uint8_t addr[2][SN_ADDR_MAX];
	size_t len[2];
	_Atomic int step[2], ready, up[2];
	uint64_t pulls[2], came[2][2]; /* bytes, by each side's rails */
} * sh;

enum cut { UNCUT, SWITCHED_OFF, DELETED };

struct plan {
	const char *name, *copy[2], *strategy;
	unsigned rails;
	enum cut cut;
};

static const char *ends[2][2] = {{"ka", "kc"}, {"kb", "kd"}}; /* of the two wires, here and there */

static int me;
static int cable =
	-1; /* between machines, which share no memory: what they tell each other goes by this socket */
static sn_ep *ep;
static sn_peer peer;

/*
 * What one machine tells the other. Any of it may be lost: a queue is full, an interface is not up yet. So whoever
 * waits tells, no matter for what, and goes on telling at the end until the other one has heard that too.
 */
struct news {
	uint8_t head[14];
	uint8_t side;
	int32_t step, heard; /* the teller's, and the other's as the teller knows it */
	uint32_t up, len;
	uint8_t addr[SN_ADDR_MAX];
};

#define NEWS_TYPE 0x88B5 /* for experiments, as the next one is */

static void lay_cable(const char *name)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(NEWS_TYPE)};
	unsigned char mac[6];

	kt_link_up(name);
	ll.sll_ifindex = (int)kt_link_index(name, mac);
	cable = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(NEWS_TYPE));
	KT_CHECK(cable >= 0 && bind(cable, (void *)&ll, sizeof(ll)) == 0);
}

static int heard; /* my step, as the other one knows it */

/* True: the other one had something to tell, too. */
static bool tell(void)
{
	bool news = false;
	struct news n = {.head = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = NEWS_TYPE >> 8, NEWS_TYPE & 255},
			 .side = (uint8_t)me,
			 .step = sh->step[me],
			 .heard = sh->step[!me],
			 .up = (uint32_t)sh->up[me],
			 .len = (uint32_t)sh->len[me]};

	memcpy(n.addr, sh->addr[me], sizeof(n.addr));
	(void)!write(cable, &n, sizeof(n));
	while (read(cable, &n, sizeof(n)) == sizeof(n)) {
		if (n.side != !me)
			continue;
		memcpy(sh->addr[!me], n.addr, sizeof(n.addr));
		sh->len[!me] = n.len;
		sh->up[!me] = (int)n.up;
		heard = n.heard;
		news = true;
		sh->step[!me] = n.step;
	}
	return news;
}

/* How long one step may take, in seconds: a checking kernel is slow. */
static unsigned patience(void)
{
	return 200u * 8 / (unsigned)kt_times(8);
}

static void state(void)
{
	printf("side %d: step %d (heard: %d), the other's %d; rails up: %d, %d\n", me, sh->step[me], heard,
	       sh->step[!me], sh->up[me], sh->up[!me]);
	if (ep)
		sn_counters(ep, kt_say_counter, NULL);
}

static void meet(void)
{
	int step = ++sh->step[me];

	kt_limit(patience(), state);
	while (sh->step[!me] < step) {
		sn_progress(ep);
		usleep(cable < 0 ? 50 : 1000);
		if (cable >= 0)
			tell();
	}
}

static int await(sn_req *req, sn_completion *c)
{
	int rc;

	if (cable < 0)
		return sn_wait(ep, req, c, patience() * 1000000ull);
	while ((rc = sn_wait(ep, req, c, 2000)) == SN_ERR_TIMEOUT) /* kt_limit() ends it */
		tell();
	return rc;
}

static void count(void *arg, const char *name, uint64_t value)
{
	if (!strcmp(name, "net.kernel_pulls"))
		sh->pulls[me] = value;
	else if (!strcmp(name, "net.rail_up") && value)
		sh->up[me] = 1;
}

static void transfer(int from, size_t n, unsigned seed)
{
	char *buf = (char *)kt_map(n + KT_PAGE) + 100;
	sn_completion c;
	sn_req *req;

	if (me == from) {
		kt_fill(buf, n, seed);
		KT_CHECK(sn_isend(ep, peer, buf, n, seed, &req) == SN_OK);
	} else {
		KT_CHECK(sn_irecv(ep, peer, buf, n, seed, UINT64_MAX, &req) == SN_OK);
	}
	int rc = await(req, &c);
	if (rc != SN_OK || c.status != SN_OK)
		printf("process %d: %d, %d\n", me, rc, c.status);
	KT_CHECK(rc == SN_OK && c.status == SN_OK && c.len == n);
	if (me != from)
		KT_CHECK(kt_same(buf, n, seed));
	munmap(buf - 100, n + KT_PAGE);
	meet();
}

/* A forked child has nothing of the network, and nothing of the module, before it ever calls exec. */
static void a_child_keeps_nothing_open(void)
{
	pid_t child = kt_fork();

	if (!child) {
		char path[64], to[256], line[512];

		for (int fd = 3; fd < 1024; fd++) {
			int domain = 0;
			socklen_t len = sizeof(domain);

			KT_CHECK(fd == cable || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
				 domain != AF_PACKET);
			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			ssize_t n = readlink(path, to, sizeof(to) - 1);
			to[n < 0 ? 0 : n] = '\0';
			KT_CHECK(strcmp(to, SENNIT_DEVICE) != 0);
		}
		FILE *maps = fopen("/proc/self/maps", "r");
		KT_CHECK(maps != NULL);
		while (fgets(line, sizeof(line), maps))
			KT_CHECK(!strstr(line, SENNIT_DEVICE) && !strstr(line, "socket:["));
		_exit(0);
	}
	kt_join(child);
}

/* Bytes that have come by an interface of this namespace. */
static uint64_t received(const char *name)
{
	FILE *f = fopen("/proc/net/dev", "r");
	char line[512];
	uint64_t bytes = 0;

	KT_CHECK(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, name);

		if (at && at[strlen(name)] == ':')
			bytes = strtoull(at + strlen(name) + 1, NULL, 10);
	}
	fclose(f);
	return bytes;
}

static void wait_for_all_rails(void)
{
	transfer(0, 1000, 50);
	while (!sh->up[0] || !sh->up[1]) {
		sn_progress(ep);
		sn_counters(ep, count, NULL);
		usleep(100);
	}
}

/*
 * Where they share by the model, one that stood still for a moment gets little of the next message. Both sides say
 * the same: each has looked before either goes on.
 */
static bool all_rails_carry(const struct plan *plan)
{
	bool all = true;

	for (unsigned i = 0; i < plan->rails; i++)
		sh->came[me][i] = received(ends[me][i]);
	meet();
	for (unsigned i = 0; i < 2 * plan->rails; i++)
		all &= plan->rails == 1 || sh->came[i % 2][i / 2] > LEAST;
	meet();
	return all;
}

/* Side 0 loses a rail while it fetches: the kernel goes on with the other, and gives nothing back. */
static void lose_a_rail(enum cut cut)
{
	uint64_t bytes = kt_counter(SENNIT_C_NET_BYTES), given_up = kt_counter(SENNIT_C_NET_GIVEN_UP);
	size_t n = 8u << 20;
	char *buf = kt_map(n);
	sn_completion c;
	sn_req *req;

	if (me) {
		kt_fill(buf, n, 9);
		KT_CHECK(sn_isend(ep, peer, buf, n, 9, &req) == SN_OK);
	} else {
		KT_CHECK(sn_irecv(ep, peer, buf, n, 9, UINT64_MAX, &req) == SN_OK);
		while (kt_counter(SENNIT_C_NET_BYTES) - bytes < 1u << 20)
			sn_progress(ep);
		if (cut == DELETED)
			kt_link_delete("kc");
		else
			kt_link_down("kc");
	}
	KT_CHECK(await(req, &c) == SN_OK && c.status == SN_OK && c.len == n);
	if (!me) {
		KT_CHECK(kt_same(buf, n, 9));
		KT_CHECK(kt_counter(SENNIT_C_NET_GIVEN_UP) == given_up);
	}
	munmap(buf, n);
	meet();
}

static void host(const struct plan *plan)
{
	static const size_t sizes[] = {1000, 20000, 65536, 300001, 1u << 20, 5000001};
	char net[64];

	kt_limit(patience(), state);
	snprintf(net, sizeof(net), "ether:%s%s%s", ends[me][0], plan->rails > 1 ? ",ether:" : "",
		 plan->rails > 1 ? ends[me][1] : "");
	setenv("SENNIT_NET", net, 1);
	setenv("SENNIT_COPY", plan->copy[me], 1);
	if (plan->strategy)
		setenv("SENNIT_STRATEGY", plan->strategy, 1);
	KT_CHECK(sn_ep_open(NULL, &ep) == SN_OK);
	sh->len[me] = SN_ADDR_MAX;
	KT_CHECK(sn_ep_address(ep, sh->addr[me], &sh->len[me]) == SN_OK);
	meet();
	KT_CHECK(sn_peer_add(ep, sh->addr[!me], sh->len[!me], &peer) == SN_OK);
	if (plan->rails > 1)
		wait_for_all_rails();
	for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++)
		transfer((int)i % 2, sizes[i / 2], i);
	a_child_keeps_nothing_open();
	transfer(0, 300001, 100);
	transfer(1, 300001, 101);
	for (unsigned i = 0; !all_rails_carry(plan) && i < 40; i++)
		for (int from = 0; from < 2; from++)
			transfer(from, 1u << 20, 102 + 2 * i + (unsigned)from);
	sn_counters(ep, count, NULL);
	if (plan->cut)
		lose_a_rail(plan->cut);
	sn_ep_close(ep);
	if (cable < 0)
		_exit(0);
}

static void other_host(const struct plan *plan)
{
	me = 1;
	KT_CHECK(unshare(CLONE_NEWNET) == 0);
	sh->ready = 1;
	while (sh->ready < 2)
		usleep(1000);
	for (unsigned i = 0; i < plan->rails; i++)
		kt_link_up(ends[1][i]);
	sh->ready = 3;
	host(plan);
}

static void between(const struct plan *plan)
{
	pid_t child[2];

	printf("%s\n", plan->name);
	memset(sh, 0, sizeof(*sh));
	child[1] = kt_fork();
	if (!child[1])
		other_host(plan);
	while (sh->ready < 1)
		usleep(1000);
	for (unsigned i = 0; i < plan->rails; i++)
		kt_veth_make(ends[0][i], ends[1][i], child[1], i ? 4000 : 9000);
	sh->ready = 2;
	while (sh->ready < 3)
		usleep(1000);
	child[0] = kt_fork();
	if (!child[0])
		host(plan);
	kt_join(child[0]);
	kt_join(child[1]);
	for (int side = 0; side < 2; side++) {
		printf("  side %d: %llu fetched by the kernel; came:", side,
		       (unsigned long long)sh->pulls[side]);
		for (unsigned i = 0; i < plan->rails; i++) {
			printf(" %llu", (unsigned long long)sh->came[side][i]);
			KT_CHECK(sh->came[side][i] > LEAST);
		}
		printf("\n");
		KT_CHECK((sh->pulls[side] > 0) == !strcmp(plan->copy[side], "auto"));
	}
	kt_wait_unpinned(0);
	for (int i = 0; i < 3000 && (if_nametoindex("ka") || if_nametoindex("kc")); i++)
		usleep(10000); /* they go with the other's namespace */
}

/* One of two machines: with the module (0), or without. */
static void guest(int side)
{
	static const struct plan plan = {"two machines", {"auto", "auto"}, NULL, 1, UNCUT};

	me = side;
	ends[me][0] = "eth0";
	lay_cable(ends[me][0]);
	host(&plan);
	printf("side %d: %llu fetched by the kernel, %llu bytes came\n", me,
	       (unsigned long long)sh->pulls[me], (unsigned long long)sh->came[me][0]);
	KT_CHECK(access(SENNIT_DEVICE, F_OK) == (me ? -1 : 0));
	KT_CHECK(me ? sh->pulls[me] == 0 : sh->pulls[me] >= 5 && kt_counter(SENNIT_C_NET_ENDED) >= 5);
	KT_CHECK(sh->came[me][0] > 6u << 20);
	if (!me)
		kt_wait_unpinned(0);
	for (int silent = 0; heard < sh->step[me] && silent < 3000;
	     silent++) { /* or it is gone, and has heard it all */
		if (tell())
			silent = 0;
		usleep(10000);
	}
	for (int i = 0; i < 3; i++) /* so that it need not wait for that, either */
		tell();
}

int main(int argc, char **argv)
{
	static const struct plan one[] = {
		{"one_side_has_the_module", {"auto", "stream"}, NULL, 1, UNCUT},
		{"the_other_side_has_it", {"stream", "auto"}, NULL, 1, UNCUT},
		{"both_sides_have_it", {"auto", "auto"}, NULL, 1, UNCUT},
	};
	static const struct plan two[] = {
		{"one_side_has_the_module, equal shares, a rail is cut",
		 {"auto", "stream"},
		 "aggregate,equal",
		 2,
		 SWITCHED_OFF},
		{"both_sides_have_it, shares by the model, a rail goes", {"auto", "auto"}, NULL, 2, DELETED},
	};
	bool rails = argc > 1 && !strcmp(argv[1], "rails");

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	KT_CHECK(sh != MAP_FAILED);
	if (argc > 2 && !strcmp(argv[1], "guest")) {
		guest(atoi(argv[2]));
		return 0;
	}
	for (unsigned i = argc > 2; i < (rails ? 2 : 3); i++)
		between(rails ? &two[i] : &one[i]);
	return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
/*
 * The engine over Ethernet between two network namespaces, one side with the module, the other without (and both with it):
 * every byte arrives, and long messages are fetched by the kernel where it is used.
 */
#include "base/base.h"
#include "kt.h"
#include "sennit/sennit.h"
#include "veth.h"
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

static struct {
	uint8_t addr[2][SN_ADDR_MAX];
	size_t len[2];
	_Atomic int step[2], ready;
	uint64_t pulls[2];
} * sh;

static int me;
static sn_ep *ep;
static sn_peer peer;

static void meet(void)
{
	int step = ++sh->step[me];

	while (sh->step[!me] < step) {
		sn_progress(ep);
		usleep(50);
	}
}

static void count(void *arg, const char *name, uint64_t value)
{
	if (!strcmp(name, "net.kernel_pulls"))
		sh->pulls[me] = value;
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
	int rc = sn_wait(ep, req, &c, 60000000);
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

			KT_CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
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

static void host(const char *net, const char *copy)
{
	static const size_t sizes[] = {1000, 20000, 65536, 300001, 1u << 20, 5000001};

	alarm(100);
	setenv("SENNIT_NET", net, 1);
	setenv("SENNIT_COPY", copy, 1);
	KT_CHECK(sn_ep_open(NULL, &ep) == SN_OK);
	sh->len[me] = SN_ADDR_MAX;
	KT_CHECK(sn_ep_address(ep, sh->addr[me], &sh->len[me]) == SN_OK);
	meet();
	KT_CHECK(sn_peer_add(ep, sh->addr[!me], sh->len[!me], &peer) == SN_OK);
	for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++)
		transfer((int)i % 2, sizes[i / 2], i);
	a_child_keeps_nothing_open();
	transfer(0, 300001, 100);
	transfer(1, 300001, 101);
	sn_counters(ep, count, NULL);
	meet();
	sn_ep_close(ep);
	_exit(0);
}

static void other_host(const char *copy)
{
	me = 1;
	KT_CHECK(unshare(CLONE_NEWNET) == 0);
	sh->ready = 1;
	while (sh->ready < 2)
		usleep(1000);
	kt_link_up("kb");
	sh->ready = 3;
	host("ether:kb", copy);
}

static void between(const char *name, const char *copy0, const char *copy1)
{
	pid_t child[2];

	printf("%s\n", name);
	memset(sh, 0, sizeof(*sh));
	child[1] = kt_fork();
	if (!child[1])
		other_host(copy1);
	while (sh->ready < 1)
		usleep(1000);
	kt_veth_make("ka", "kb", child[1], 9000);
	sh->ready = 2;
	while (sh->ready < 3)
		usleep(1000);
	child[0] = kt_fork();
	if (!child[0])
		host("ether:ka", copy0);
	kt_join(child[0]);
	kt_join(child[1]);
	printf("  fetched by the kernel: %llu, %llu\n", (unsigned long long)sh->pulls[0],
	       (unsigned long long)sh->pulls[1]);
	KT_CHECK((sh->pulls[0] > 0) == !strcmp(copy0, "auto"));
	KT_CHECK((sh->pulls[1] > 0) == !strcmp(copy1, "auto"));
	kt_wait_unpinned(0);
	for (int i = 0; i < 300 && if_nametoindex("ka"); i++) /* it goes with the other's namespace */
		usleep(10000);
}

int main(void)
{
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	KT_CHECK(sh != MAP_FAILED);
	between("one_side_has_the_module", "auto", "stream");
	between("the_other_side_has_it", "stream", "auto");
	between("both_sides_have_it", "auto", "auto");
	return 0;
}

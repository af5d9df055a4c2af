// SPDX-License-Identifier: BSD-3-Clause
/*
 * The engine over the module: two processes, every byte checked, and the counters say that it was the module that copied.
 * Each test runs in two fresh processes, with its own settings; with copy=auto the module is one way of several.
 */
#include "base/base.h"
#include "kt.h"
#include "sennit/sennit.h"
#include <pthread.h>
#include <sys/uio.h>

static struct {
	uint8_t addr[3][SN_ADDR_MAX];
	size_t len[3];
	_Atomic int step[2];
	uint64_t kmod[2], other[2], fallbacks[2], calls[2], faults[2];
} * sh;

static int me;
static bool some; /* not all need go by the module: others are tried too, or RLIMIT_MEMLOCK is small */
static sn_ep *ep;
static sn_peer peer;

static void await(_Atomic int *word, int value)
{
	while (*word < value)
		usleep(100);
}

/* Both get here. */
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
	if (!strcmp(name, "local.copy_kmod_bytes"))
		sh->kmod[me] = value;
	else if (!strcmp(name, "local.kmod_fallbacks"))
		sh->fallbacks[me] = value;
	else if (!strcmp(name, "local.system_calls"))
		sh->calls[me] = value;
	else if (!strcmp(name, "local.faults"))
		sh->faults[me] = value;
	else if (!strcmp(name, "local.copy_read_bytes") || !strcmp(name, "local.copy_write_bytes") ||
		 !strcmp(name, "local.copy_stream_bytes"))
		sh->other[me] += value;
}

static void open_pair(void)
{
	KT_CHECK(sn_ep_open(NULL, &ep) == SN_OK);
	sh->len[me] = SN_ADDR_MAX;
	KT_CHECK(sn_ep_address(ep, sh->addr[me], &sh->len[me]) == SN_OK);
	sh->step[me] = 1;
	await(&sh->step[!me], 1);
	KT_CHECK(sn_peer_add(ep, sh->addr[!me], sh->len[!me], &peer) == SN_OK);
}

static void look(void)
{
	sh->other[me] = 0;
	sn_counters(ep, count, NULL);
	meet();
}

static void state(void)
{
	printf("side %d: step %d, the other's %d\n", me, sh->step[me], sh->step[!me]);
	if (ep)
		sn_counters(ep, kt_say_counter, NULL);
}

/* Runs the test in two processes with these settings (NULL or "NAME=VALUE"), as this user. */
static void in_two(void (*test)(void), const char *one, const char *two, unsigned uid)
{
	pid_t child[2];

	memset(sh, 0, sizeof(*sh));
	for (int i = 0; i < 2; i++) {
		child[i] = kt_fork();
		if (child[i])
			continue;
		me = i;
		kt_limit(300, state);
		putenv("SENNIT_NET=off");
		if (one)
			putenv((char *)(uintptr_t)one);
		if (two)
			putenv((char *)(uintptr_t)two);
		if (uid)
			kt_become_user(uid);
		open_pair();
		test();
		meet();
		sn_ep_close(ep);
		_exit(0);
	}
	kt_join(child[0]);
	kt_join(child[1]);
	kt_wait_unpinned(0);
}

static int transfer(void *buf, size_t len, uint64_t tag)
{
	sn_completion c;
	sn_req *req;
	int rc = me == 0 ? sn_isend(ep, peer, buf, len, tag, &req)
			 : sn_irecv(ep, peer, buf, len, tag, UINT64_MAX, &req);

	KT_CHECK(rc == SN_OK);
	rc = sn_wait(ep, req, &c, 60000000);
	if (rc != SN_OK)
		printf("process %d: %s (%s)\n", me, sn_strerror(rc), sn_last_error());
	KT_CHECK(rc == SN_OK);
	return c.status;
}

/* Sizes that are odd, whole pages, shared by both; the receive first and the send first; buffers off page starts. */
static void every_byte_arrives(void)
{
	static const size_t sizes[] = {20000, 65536, 65537, 300001, 1u << 20, 3000001};
	uint64_t total = 0;

	for (unsigned round = 0; round < 2 * sizeof(sizes) / sizeof(*sizes); round++) {
		size_t n = sizes[round / 2];
		char *buf = (char *)kt_map(n + 8192) + 77 + 13 * me;

		if (me == 0)
			kt_fill(buf, n, round);
		if (round % 2 == (unsigned)me) { /* the other one is late */
			meet();
			usleep(20000);
		} else {
			sh->step[me]++;
		}
		KT_CHECK(transfer(buf, n, round) == SN_OK);
		if (me == 1)
			KT_CHECK(kt_same(buf, n, round));
		total += n;
		meet();
	}
	look();
	if (some) {
		KT_CHECK(sh->kmod[0] + sh->kmod[1] > 0);
		return;
	}
	KT_CHECK(sh->kmod[0] + sh->kmod[1] == total);
	KT_CHECK(sh->other[0] + sh->other[1] == 0 && sh->fallbacks[0] + sh->fallbacks[1] == 0);
}

/* The module is tried, the other ways are tried, and every byte is right; what wins is the machine's affair. */
static void the_way_is_learned(void)
{
	size_t n = 300000;
	char *buf = kt_map(n);

	for (unsigned i = 0; i < 150; i++) {
		if (me == 0)
			kt_fill(buf, n, i);
		meet();
		KT_CHECK(transfer(buf, n, i) == SN_OK);
		if (me == 1)
			KT_CHECK(kt_same(buf, n, i));
	}
	look();
	if (me == 0)
		printf("  %lu of %lu KiB by the module\n", (unsigned long)(sh->kmod[0] + sh->kmod[1]) >> 10,
		       (unsigned long)(150 * n) >> 10);
	KT_CHECK(sh->kmod[0] + sh->kmod[1] >= n);
	/* A kernel may be built without the other way. */
	KT_CHECK(sh->kmod[0] + sh->kmod[1] < 150 * n ||
		 (process_vm_readv(getpid(), NULL, 0, NULL, 0, 0) < 0 && errno == ENOSYS));
}

static void vectors_arrive(void)
{
	char *buf = kt_map(1 << 20);
	struct iovec iov[7];
	sn_completion c;
	sn_req *req;
	sn_msg m = {.peer = peer, .iov = iov, .bits = 1};
	size_t total = 700 * 1000;

	m.iov_count = me == 0 ? 7 : 4;
	for (unsigned i = 0; i < m.iov_count; i++)
		iov[i] = (struct iovec){buf + i * (total / m.iov_count + 11), total / m.iov_count};
	if (me == 0)
		for (unsigned i = 0; i < 7; i++)
			kt_fill(iov[i].iov_base, 100000, i);
	else
		m.mask = UINT64_MAX;
	KT_CHECK((me == 0 ? sn_post_send(ep, &m, &req) : sn_post_recv(ep, &m, &req)) == SN_OK);
	KT_CHECK(sn_wait(ep, req, &c, 60000000) == SN_OK && c.status == SN_OK);
	if (me == 1) {
		char *flat = malloc(total);

		for (unsigned i = 0; i < 4; i++)
			memcpy(flat + i * (total / 4), iov[i].iov_base, total / 4);
		for (unsigned i = 0; i < 7; i++)
			KT_CHECK(kt_same(flat + i * 100000, 100000, i));
	}
	look();
	KT_CHECK(sh->kmod[0] + sh->kmod[1] == total && sh->other[0] + sh->other[1] == 0);
}

/* Both take pieces of one message. Who gets how many is chance: send until both have. */
static void both_sides_copy(void)
{
	size_t n = 8u << 20;
	char *buf = kt_map(n);
	uint64_t sent = 0;

	for (int i = 0; i < 200; i++) {
		if (me == 0)
			kt_fill(buf, n, (unsigned)i);
		meet();
		KT_CHECK(transfer(buf, n, 5) == SN_OK);
		if (me == 1)
			KT_CHECK(kt_same(buf, n, (unsigned)i));
		sent += n;
		look();
		KT_CHECK(sh->kmod[0] + sh->kmod[1] == sent);
		bool both = sh->kmod[0] && sh->kmod[1];
		meet();
		if (both)
			return;
	}
	KT_CHECK(!"both sides had a part");
}

/* A buffer used again is named once: one system call for each 4 MiB, and what shared copies need. */
static void a_known_buffer_costs_one_call(void)
{
	char *buf = kt_map(1 << 20);
	uint64_t before = 0;

	for (int i = 0; i < 20; i++) {
		if (i == 10) {
			look();
			before = sh->calls[1];
		}
		if (me == 1) /* the send stands in the ring when the receive is posted */
			await(&sh->step[0], sh->step[1] + 1), usleep(2000);
		else
			sh->step[0]++;
		KT_CHECK(transfer(buf, 300000, 1) == SN_OK);
		if (me == 1)
			sh->step[1]++;
		meet();
	}
	look();
	if (me == 1) /* and a ring of the bell now and then */
		KT_CHECK(sh->calls[1] - before <= 10 * 3);
	KT_CHECK(sh->kmod[0] + sh->kmod[1] == 20 * 300000);
}

/* The module's calls fail in mid-message: the rest goes another way, silently, and every byte is right. */
static void a_refusal_is_survived(void)
{
	static const size_t sizes[] = {400000, 12u << 20, 700000, 20000, 6u << 20};
	uint64_t total = 0;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char *buf = kt_map(sizes[i]);

		if (me == 0)
			kt_fill(buf, sizes[i], i);
		KT_CHECK(transfer(buf, sizes[i], i) == SN_OK);
		if (me == 1)
			KT_CHECK(kt_same(buf, sizes[i], i));
		total += sizes[i];
		munmap(buf, sizes[i]);
		meet();
	}
	look();
	KT_CHECK(sh->fallbacks[0] + sh->fallbacks[1] > 0);
	KT_CHECK(sh->kmod[0] + sh->kmod[1] + sh->other[0] + sh->other[1] >= total / 2);
}

#define GOES (12u << 20)

static void *unmap(void *buf)
{
	usleep(3000);
	munmap((char *)buf + GOES / 2, GOES / 2);
	return NULL;
}

/* The sender's memory goes while it is copied: that message fails or not, nothing else does. */
static void memory_that_goes_spoils_its_message_only(void)
{
	for (unsigned i = 0; i < 6; i++) {
		size_t n = GOES;
		char *buf = kt_map(n);
		pthread_t thread = 0;

		memset(buf, (int)i + 1, n);
		meet();
		if (me == 0)
			KT_CHECK(pthread_create(&thread, NULL, unmap, buf) == 0);
		int status = transfer(buf, n, 9);
		if (me == 0)
			pthread_join(thread, NULL);
		KT_CHECK(status == SN_OK || status == SN_ERR_FAULT);
		munmap(buf, me == 0 ? n / 2 : n); /* something else may lie in the hole by now */
		meet();
		buf = kt_map(n);
		if (me == 0)
			kt_fill(buf, 2000000, i);
		KT_CHECK(transfer(buf, 2000000, 10) == SN_OK);
		if (me == 1)
			KT_CHECK(kt_same(buf, 2000000, i));
		munmap(buf, n);
		meet();
	}
}

/* A forked child opens an endpoint of its own and uses the module; the parent's names go on being good. */
static void a_child_has_its_own(void)
{
	char *buf = kt_map(1 << 20);

	kt_fill(buf, 1 << 20, 4);
	KT_CHECK(transfer(buf, 1 << 20, 1) == SN_OK);
	if (me == 0) {
		pid_t child = kt_fork();

		if (!child) {
			sn_ep *own;
			sn_peer to;
			sn_completion c;
			sn_req *req;

			KT_CHECK(sn_ep_open(NULL, &own) == SN_OK);
			KT_CHECK(sn_peer_add(own, sh->addr[1], sh->len[1], &to) == SN_OK);
			KT_CHECK(sn_isend(own, to, buf, 1 << 20, 2, &req) == SN_OK);
			KT_CHECK(sn_wait(own, req, &c, 60000000) == SN_OK && c.status == SN_OK);
			sn_ep_close(own);
			_exit(0);
		}
		KT_CHECK(transfer(buf, 1 << 20, 3) == SN_OK);
		kt_join(child);
	} else {
		sn_completion c;
		sn_req *req;

		for (uint64_t tag = 2; tag < 4; tag++) {
			memset(buf, 0, 1 << 20);
			KT_CHECK(sn_irecv(ep, SN_ANY_PEER, buf, 1 << 20, tag, UINT64_MAX, &req) == SN_OK);
			KT_CHECK(sn_wait(ep, req, &c, 60000000) == SN_OK && c.status == SN_OK);
			KT_CHECK(kt_same(buf, 1 << 20, 4));
		}
	}
	look();
	KT_CHECK(sh->kmod[0] + sh->kmod[1] >= 2u << 20);
}

/* The peer is killed while both copy: an error in time, and nothing of it stays. */
static void death_is_reported(void)
{
	size_t n = 32u << 20;
	char *buf = kt_map(n);
	sn_completion c = {0};
	sn_req *req;

	memset(buf, 1, n);
	meet();
	for (int i = 0;; i++) {
		if (me == 0 && i == 3) {
			KT_CHECK(sn_isend(ep, peer, buf, n, 1, &req) == SN_OK);
			sn_progress(ep);
			_exit(0);
		}
		int rc = me == 0 ? sn_isend(ep, peer, buf, n, 1, &req)
				 : sn_irecv(ep, peer, buf, n, 1, UINT64_MAX, &req);
		if (rc == SN_OK)
			KT_CHECK(sn_wait(ep, req, &c, 60000000) == SN_OK);
		if (rc == SN_ERR_PEER_GONE || c.status == SN_ERR_PEER_GONE)
			break;
		KT_CHECK(c.status == SN_OK);
	}
	sn_ep_close(ep);
	_exit(0);
}

/* An argument: only tests with it in their names. */
int main(int argc, char **argv)
{
	struct rlimit little = {64 * KT_PAGE, 64 * KT_PAGE};

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	KT_CHECK(sh != MAP_FAILED);
#define PAIR(test, ...)                                                                                      \
	do {                                                                                                 \
		if (argc > 1 && !strstr(#test, argv[1]))                                                     \
			break;                                                                               \
		printf("%s\n", #test);                                                                       \
		fflush(stdout);                                                                              \
		in_two(test, __VA_ARGS__);                                                                   \
	} while (0)
	some = true;
	PAIR(every_byte_arrives, NULL, NULL, 0);
	PAIR(the_way_is_learned, NULL, NULL, 0);
	some = false;
	PAIR(every_byte_arrives, "SENNIT_COPY=kmod", NULL, 1000);
	/* Where the kernel refuses to let processes copy from each other, the module may all the same. */
	PAIR(every_byte_arrives, "SENNIT_FAULT=read:eperm,write:eperm,probe:eperm", NULL, 1000);
	PAIR(vectors_arrive, "SENNIT_COPY=kmod", NULL, 1000);
	PAIR(both_sides_copy, "SENNIT_COPY=kmod", NULL, 1000);
	PAIR(a_known_buffer_costs_one_call, "SENNIT_COPY=kmod", NULL, 1000);
	PAIR(a_refusal_is_survived, "SENNIT_FAULT=module:enomem@2+", "SENNIT_COPY=kmod", 1000);
	PAIR(a_refusal_is_survived, "SENNIT_FAULT=module:efault@2", "SENNIT_COPY=kmod", 1000);
	PAIR(a_refusal_is_survived, "SENNIT_FAULT=module:eperm@3,read:eperm@2+", NULL, 1000);
	PAIR(memory_that_goes_spoils_its_message_only, "SENNIT_COPY=kmod", NULL, 1000);
	PAIR(a_child_has_its_own, "SENNIT_COPY=kmod", NULL, 1000);
	PAIR(death_is_reported, "SENNIT_COPY=kmod", NULL, 1000);
	KT_CHECK(setrlimit(RLIMIT_MEMLOCK, &little) == 0);
	some = true; /* a copy that gets not one page to pin goes another way */
	PAIR(every_byte_arrives, NULL, NULL, 1000);
	return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
/*
 * test_fuzz SEED SECONDS: processes with two threads each call the device with arguments that are half right, on memory
 * that they change all the time, fork, exit and are killed; some of them as 32-bit programs. What the kernel asks for over the
 * network is answered by frames that are half right. The kernel must not mind (boot.sh reads its log), nothing may
 * stay pinned, and the module must unload; each call must have been accepted, and frames placed. One seed gives one
 * sequence of calls for each thread; how they interleave is the scheduler's.
 */
#include "kt.h"
#include "net/auth.h"
#include "veth.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define WORKERS 4
#define ARENA	96 /* pages */
#define SHARED	64
#define CALLS	22  /* that the device knows */
#define MORE	100 /* seconds for a slow machine to reach them all */

/* What processes tell each other: handles of all kinds, in memory that all share. */
static volatile uint64_t *shared;
static volatile uint64_t *calls;
static volatile uint64_t *several; /* fetches by several rails */

struct fuzz {
	uint64_t seed;
	int *fds; /* the process's, three */
	char *arena;
	uint64_t requests[8];
	uint32_t ids[8];
	int event;
	unsigned cable; /* the interface's number */
};

static uint32_t pick(struct fuzz *f, uint32_t n)
{
	return kt_random(&f->seed) % n;
}

static uint64_t any_number(struct fuzz *f)
{
	static const uint64_t odd[] = {0,
				       1,
				       4095,
				       4096,
				       4097,
				       0x7fffffff,
				       0xffffffff,
				       0x100000000,
				       1ull << 44,
				       0x7ffffffffffff000,
				       ~0ull,
				       ~0ull - 1,
				       0xffff888000000000};

	return pick(f, 3) ? pick(f, 100000) : odd[pick(f, sizeof(odd) / sizeof(odd[0]))];
}

static uint64_t any_address(struct fuzz *f)
{
	return pick(f, 12) ? (uintptr_t)f->arena + pick(f, ARENA * KT_PAGE) : any_number(f);
}

static uint64_t any_handle(struct fuzz *f)
{
	return pick(f, 12) ? shared[pick(f, SHARED)] : any_number(f);
}

static void publish(struct fuzz *f, uint64_t handle)
{
	shared[pick(f, SHARED)] = handle;
}

static uint32_t any_vector(struct fuzz *f, struct sennit_seg *segs, uint32_t max)
{
	uint32_t n = pick(f, 8) ? 1 + pick(f, 3) : pick(f, max);

	for (uint32_t i = 0; i < n; i++)
		segs[i] = (struct sennit_seg){any_address(f), pick(f, 10) ? pick(f, 90000) : any_number(f)};
	return n;
}

static struct sennit_end any_end(struct fuzz *f, struct sennit_seg *segs)
{
	struct sennit_end e = {.kind = pick(f, 20) ? 1 + pick(f, 3) : any_number(f)};

	e.ref = e.kind == SENNIT_END_REGION ? f->ids[pick(f, 8)] : any_handle(f);
	if (e.kind == SENNIT_END_MEMORY) {
		e.nsegs = any_vector(f, segs, 40);
		e.ref = pick(f, 20) ? (uintptr_t)segs : any_address(f);
	}
	e.offset = pick(f, 3) ? 0 : any_number(f);
	return e;
}

static void fuzz_questions(struct fuzz *f, int fd)
{
	struct sennit_counters c = {.values = any_address(f), .n = pick(f, 60), .reserved = !pick(f, 9)};
	struct sennit_info i;

	ioctl(fd, pick(f, 2) ? SENNIT_IOC_INFO : SENNIT_IOC_COUNTERS, pick(f, 2) ? (void *)&i : (void *)&c);
}

static void fuzz_regions(struct fuzz *f, int fd)
{
	struct sennit_seg segs[40];
	struct sennit_declare d = {.segs = (uintptr_t)segs,
				   .access = pick(f, 10) ? 1 + pick(f, 3) : any_number(f)};
	struct sennit_undeclare u = {.id = f->ids[pick(f, 8)]};
	struct sennit_prepare p = {.id = f->ids[pick(f, 8)], .offset = pick(f, 2) ? 0 : any_number(f)};

	switch (pick(f, 3)) {
	case 0:
		d.nsegs = any_vector(f, segs, 40);
		if (ioctl(fd, SENNIT_IOC_DECLARE, &d) == 0) {
			f->ids[pick(f, 8)] = d.id;
			publish(f, d.handle);
		}
		break;
	case 1: ioctl(fd, SENNIT_IOC_UNDECLARE, &u); break;
	case 2:
		fuzz_questions(f, fd);
		p.len = any_number(f);
		ioctl(fd, SENNIT_IOC_PREPARE, &p);
		break;
	}
}

static void fuzz_copies(struct fuzz *f, int fd)
{
	struct sennit_seg a[40], b[40];
	struct sennit_copy c = {.dst = any_end(f, a), .src = any_end(f, b), .len = any_number(f)};
	struct sennit_share_open o = {.dst = any_end(f, a), .src = any_end(f, b), .len = any_number(f)};
	struct sennit_share_run r = {.handle = any_handle(f),
				     .flags = pick(f, 20) ? pick(f, 4) : any_number(f)};
	struct sennit_share_close s = {.handle = any_handle(f)};

	switch (pick(f, 6)) {
	case 0:
	case 1:
	case 2: ioctl(fd, SENNIT_IOC_COPY, &c); break;
	case 3:
		if (ioctl(fd, SENNIT_IOC_SHARE_OPEN, &o) == 0)
			publish(f, o.handle);
		break;
	case 4: ioctl(fd, SENNIT_IOC_SHARE_RUN, &r); break;
	case 5: ioctl(fd, SENNIT_IOC_SHARE_CLOSE, &s); break;
	}
}

static void fuzz_messages(struct fuzz *f, int fd)
{
	struct sennit_seg segs[40];
	struct sennit_join j = {.job = pick(f, 4) ? any_handle(f) : 0, .rank = pick(f, 6)};
	struct sennit_post p = {
		.peer = (int)pick(f, 7) - 1, .tag = (int)pick(f, 4) - 1, .context = pick(f, 2)};
	struct sennit_wait w = {.request = pick(f, 8) ? f->requests[pick(f, 8)] : any_number(f),
				.timeout_us = pick(f, 200) ? pick(f, 3000) : SENNIT_FOREVER};
	struct sennit_probe q = {.peer = p.peer, .tag = p.tag, .context = p.context};
	struct sennit_cancel c = {.request = f->requests[pick(f, 8)]};

	switch (pick(f, 8)) {
	case 0:
		if (ioctl(fd, SENNIT_IOC_JOIN, &j) == 0)
			publish(f, j.job);
		break;
	case 1:
	case 2:
	case 3:
	case 4:
		p.segs = (uintptr_t)segs;
		p.nsegs = any_vector(f, segs, 40);
		if (ioctl(fd, pick(f, 2) ? SENNIT_IOC_SEND : SENNIT_IOC_RECV, &p) == 0)
			f->requests[pick(f, 8)] = p.request;
		break;
	case 5: ioctl(fd, SENNIT_IOC_WAIT, &w); break;
	case 6: ioctl(fd, SENNIT_IOC_PROBE, &q); break;
	case 7: ioctl(fd, SENNIT_IOC_CANCEL, &c); break;
	}
}

/* Has the fetch come by several of the peer's rails, and by the endpoint's ports, if it has so many. */
static void any_lanes(struct fuzz *f, struct sennit_net_pull *p)
{
	uint32_t first = pick(f, SENNIT_NET_PORTS);

	p->n_lanes = (uint8_t)(pick(f, 20) ? 1 + pick(f, 4) : pick(f, 256));
	p->deal = (uint8_t)(pick(f, 20) ? pick(f, 3) : pick(f, 256));
	p->frag = pick(f, 20) ? 0 : p->frag;
	for (uint32_t i = 0; i < SENNIT_NET_PORTS; i++)
		p->lanes[i] = (struct sennit_net_lane){
			.to = {[6] = 'F', [7] = (uint8_t)('F' + i % 2)},
			.lane = (uint8_t)(pick(f, 20) ? (first + i) % SENNIT_NET_PORTS : pick(f, 256)),
			.rail = (uint8_t)pick(f, 256),
			.port = (uint8_t)(pick(f, 20) ? pick(f, 2) : pick(f, 256)),
			.frag = pick(f, 20) ? 256 + pick(f, 1089) : (uint32_t)any_number(f),
			.reserved = !pick(f, 90),
			.rate = pick(f, 2) ? 0 : any_number(f),
			.latency = pick(f, 2) ? 0 : any_number(f)};
}

/* Interfaces 2 and 3 are two ends of a cable, made by main(); the others are none that would do. */
static void fuzz_net(struct fuzz *f, int fd)
{
	struct sennit_net_open o = {.ifindex = 1 + pick(f, 3),
				    .mtu = pick(f, 9) ? 1400 : pick(f, 70000),
				    .port = {'F', 'F'},
				    .event = pick(f, 2) ? f->event : (int)pick(f, 12) - 1};
	struct sennit_net_close c = {.id = pick(f, 4)};
	struct sennit_net_link l = {.net = pick(f, 4), .rx_link = 1, .tx_link = 2};
	struct sennit_net_unlink u = {.net = pick(f, 4), .link = pick(f, 5)};
	struct sennit_net_pull p = {.net = pick(f, 4),
				    .link = pick(f, 5),
				    .region = f->ids[pick(f, 8)],
				    .start = pick(f, 3) ? 0 : any_number(f),
				    .end = pick(f, 12) ? pick(f, 100000) : any_number(f),
				    .frag = 256 + pick(f, 1200),
				    .rdv = pick(f, 4),
				    .sack = any_number(f)};
	struct sennit_net_cancel n = {.net = pick(f, 4), .number = (uint32_t)f->requests[7]};
	struct sennit_net_port a = {.net = pick(f, 4),
				    .ifindex = o.ifindex,
				    .mtu = o.mtu,
				    .port = {'F', (uint8_t)('F' + pick(f, 3))},
				    .reserved = !pick(f, 20)};

	if (pick(f, 2))
		any_lanes(f, &p);
	switch (pick(f, 9)) {
	case 0: ioctl(fd, SENNIT_IOC_NET_OPEN, &o); break;
	case 8: ioctl(fd, SENNIT_IOC_NET_PORT, &a); break;
	case 1: ioctl(fd, SENNIT_IOC_NET_CLOSE, &c); break;
	case 2: ioctl(fd, SENNIT_IOC_NET_LINK, &l); break;
	case 3: ioctl(fd, SENNIT_IOC_NET_UNLINK, &u); break;
	case 4: ioctl(fd, SENNIT_IOC_NET_CANCEL, &n); break;
	case 5:
		/* cppcheck-suppress leakReturnValNotUsed */
		mmap(f->arena, KT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		     (off_t)pick(f, 5) << 16);
		break;
	default:
		if (ioctl(fd, SENNIT_IOC_NET_PULL, &p) == 0)
			f->requests[7] = p.number;
	}
}

/* ---- frames ---- */

/* One DATA frame for a PULL of the kernel's: right, or wrong in one way or some. The links' keys are all zero. */
static void answer(struct fuzz *f, int s, const struct sockaddr_ll *to, const uint8_t *mac,
		   const uint8_t *pull)
{
	static const struct sn_sip_key key;
	uint8_t frame[16 + 1600] = "";
	struct sn_wire_data *d = (void *)(frame + 16);
	struct sn_wire_pull w;
	uint32_t n, sent;

	memcpy(&w, pull + 16, sizeof(w));
	for (int piece = (int)pick(f, 3); piece < 64; piece += 1 + (int)pick(f, 2)) {
		uint64_t offset = le64toh(w.offset) + (uint64_t)piece * le32toh(w.frag), end = le64toh(w.end);

		if (offset >= end || !(le64toh(w.want) >> piece & 1))
			continue;
		n = end - offset < le32toh(w.frag) ? (uint32_t)(end - offset) : le32toh(w.frag);
		if (!pick(f, 12))
			n = pick(f, 1500);
		sn_wire_start(&d->h, pick(f, 30) ? SN_WIRE_DATA : (uint8_t)pick(f, 256),
			      (uint32_t)(sizeof(*d) + n), pick(f, 30) ? 1 : pick(f, 9));
		memcpy(frame, mac, 6);
		frame[12] = 0x88;
		frame[13] = 0xB6;
		frame[14] = 'F';
		frame[15] = (uint8_t)('F' + (pick(f, 12) ? w.rail % 2 : pick(f, 3)));
		d->h.rail = pick(f, 12) ? w.rail : (uint8_t)pick(f, 256);
		d->h.ack = pick(f, 5);
		d->h.sack = any_number(f);
		d->pull = pick(f, 12) ? w.pull : (uint32_t)any_number(f);
		d->round = pick(f, 12) ? w.round : (uint32_t)any_number(f);
		d->offset = pick(f, 12) ? htole64(offset) : any_number(f);
		d->h.check = htole32(sn_check_of(&d->h + 1, sizeof(*d) - sizeof(d->h) + n));
		if (!pick(f, 12))
			d->h.len = (uint16_t)any_number(f);
		d->h.mac = htole64(sn_auth_mac(&key, &d->h));
		sent = (uint32_t)(16 + sizeof(*d)) + n;
		if (!pick(f, 12))
			frame[pick(f, sent)] ^= (uint8_t)(1u << pick(f, 8));
		if (!pick(f, 12))
			sent = 14 + pick(f, sent - 13);
		sendto(s, frame, sent, 0, (const void *)to, sizeof(*to));
	}
}

/* The other end of the cable. */
static void answer_all(uint64_t seed)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(0x88B6)};
	struct fuzz f = {.seed = seed, .arena = kt_map(ARENA * KT_PAGE)};
	uint8_t mac[2][6], frame[4096];
	int s = socket(AF_PACKET, SOCK_RAW, htons(0x88B6));

	kt_link_index("fa", mac[0]);
	ll.sll_ifindex = (int)kt_link_index("fb", mac[1]);
	KT_CHECK(s >= 0 && bind(s, (void *)&ll, sizeof(ll)) == 0);
	for (;;) {
		ssize_t n = recv(s, frame, sizeof(frame), 0);

		if (n >= 16 + (ssize_t)sizeof(struct sn_wire_pull) && frame[17] == SN_WIRE_PULL)
			answer(&f, s, &ll, mac[0], frame);
	}
}

/* ---- what is right ---- */

static void right_network(struct fuzz *f, int fd, uint32_t region, uint64_t len)
{
	struct sennit_net_open o = {.ifindex = f->cable, .mtu = 1400, .port = {'F', 'F'}, .event = f->event};
	struct sennit_net_link l = {.rx_link = 1, .tx_link = 2};
	struct sennit_net_port a = {.ifindex = f->cable, .mtu = 1400, .port = {'F', 'G'}};

	if (ioctl(fd, SENNIT_IOC_NET_OPEN, &o))
		return;
	l.net = a.net = o.id;
	ioctl(fd, SENNIT_IOC_NET_PORT, &a);
	if (ioctl(fd, SENNIT_IOC_NET_LINK, &l) == 0) {
		struct sennit_net_pull p = {
			.net = o.id, .link = l.id, .region = region, .end = len, .frag = 256 + pick(f, 1000)};
		struct sennit_net_cancel c = {.net = o.id};
		struct sennit_net_unlink u = {.net = o.id, .link = l.id};
		struct sennit_net_close e = {.id = o.id};

		ioctl(fd, SENNIT_IOC_NET_PULL, &p);
		usleep(pick(f, 3000));
		/* And one that has hardly begun, by two rails. */
		p.frag = 0;
		p.n_lanes = 2;
		p.deal = (uint8_t)pick(f, 3);
		for (uint8_t i = 0; i < 2; i++)
			p.lanes[i] = (struct sennit_net_lane){.to = {[6] = 'F', [7] = (uint8_t)('F' + i)},
							      .lane = i,
							      .port = i,
							      .frag = 256 + pick(f, 1000)};
		if (ioctl(fd, SENNIT_IOC_NET_PULL, &p) == 0)
			__atomic_fetch_add(several, 1, __ATOMIC_RELAXED);
		usleep(pick(f, 3000));
		c.number = p.number;
		ioctl(fd, SENNIT_IOC_NET_CANCEL, &c);
		ioctl(fd, SENNIT_IOC_NET_UNLINK, &u);
		ioctl(fd, SENNIT_IOC_NET_CLOSE, &e);
	}
}

static void right_messages(struct fuzz *f, int fd, struct sennit_seg *segs)
{
	struct sennit_join j = {.rank = 0};
	struct sennit_post p = {.tag = (int)pick(f, 3), .nsegs = 1, .segs = (uintptr_t)&segs[0]}, q = p;
	struct sennit_probe b = {.peer = SENNIT_ANY, .tag = SENNIT_ANY};
	struct sennit_wait w = {.timeout_us = 1000};
	struct sennit_cancel c = {0};

	ioctl(fd, SENNIT_IOC_JOIN, &j);
	ioctl(fd, SENNIT_IOC_SEND, &p);
	ioctl(fd, SENNIT_IOC_PROBE, &b);
	q.segs = (uintptr_t)&segs[1];
	ioctl(fd, SENNIT_IOC_RECV, &q);
	w.request = q.request;
	ioctl(fd, SENNIT_IOC_WAIT, &w);
	ioctl(fd, SENNIT_IOC_RECV, &q);
	c.request = q.request;
	ioctl(fd, SENNIT_IOC_CANCEL, &c);
}

/* Each call once as it is meant, on a file of its own, while others do what they do: it must not only be refused. */
static void fuzz_right(struct fuzz *f)
{
	uint64_t len = KT_PAGE * (1 + pick(f, 16)), values[SENNIT_C_COUNT];
	char *at =
		mmap(NULL, 2 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct sennit_seg segs[2] = {{(uintptr_t)at, len}, {(uintptr_t)at + len, len}};
	struct sennit_declare d[2] = {{.segs = (uintptr_t)&segs[0], .nsegs = 1, .access = SENNIT_READ},
				      {.segs = (uintptr_t)&segs[1], .nsegs = 1, .access = SENNIT_WRITE}};
	struct sennit_counters n = {.values = (uintptr_t)values, .n = SENNIT_C_COUNT};
	struct sennit_info i;
	int fd = open(SENNIT_DEVICE, O_RDWR);

	if (fd < 0 || at == MAP_FAILED)
		return;
	ioctl(fd, SENNIT_IOC_INFO, &i);
	ioctl(fd, SENNIT_IOC_COUNTERS, &n);
	if (ioctl(fd, SENNIT_IOC_DECLARE, &d[0]) == 0 && ioctl(fd, SENNIT_IOC_DECLARE, &d[1]) == 0) {
		struct sennit_prepare p = {.id = d[0].id, .len = len};
		struct sennit_copy c = {
			.dst = kt_id(d[1].id, 0), .src = kt_handle(d[0].handle, 0), .len = len};
		struct sennit_share_open o = {.dst = c.dst, .src = c.src, .len = len};
		struct sennit_undeclare u = {.id = d[0].id};

		ioctl(fd, SENNIT_IOC_PREPARE, &p);
		ioctl(fd, SENNIT_IOC_COPY, &c);
		if (ioctl(fd, SENNIT_IOC_SHARE_OPEN, &o) == 0) {
			struct sennit_share_run r = {.handle = o.handle, .flags = pick(f, 4)};
			struct sennit_share_close e = {o.handle};

			publish(f, o.handle);
			ioctl(fd, SENNIT_IOC_SHARE_RUN, &r);
			ioctl(fd, SENNIT_IOC_SHARE_CLOSE, &e);
		}
		/* An endpoint's end waits for all processors: not too often, but until it was reached. */
		if (f->cable && (kt_accepted[_IOC_NR(SENNIT_IOC_NET_CANCEL)] < 20 || !pick(f, 16)))
			right_network(f, fd, d[1].id, len);
		ioctl(fd, SENNIT_IOC_UNDECLARE, &u);
	}
	right_messages(f, fd, segs);
	close(fd);
	munmap(at, 2 * len);
}

static void fuzz_raw(struct fuzz *f, int fd)
{
	unsigned char any[256];

	for (size_t i = 0; i < sizeof(any); i++)
		any[i] = pick(f, 3) ? 0 : pick(f, 256);
	ioctl(fd, pick(f, 4) ? _IOC(pick(f, 4), 0xE5, pick(f, 23), pick(f, 120)) : any_number(f), any);
	ioctl(fd, SENNIT_IOC_COPY, any_address(f));
}

/* Changes the arena under everybody's feet; it stays mapped somewhere, whatever its pages are. */
static void fuzz_memory(struct fuzz *f)
{
	size_t page = pick(f, ARENA), n = 1 + pick(f, 20);
	char *at = f->arena + page * KT_PAGE;
	pid_t child;

	if (page + n > ARENA)
		n = ARENA - page;
	switch (pick(f, 8)) {
	case 0: munmap(at, n * KT_PAGE); break;
	case 1:
	case 2: /* of memory, or of the file that all workers share */
		/* cppcheck-suppress leakReturnValNotUsed; the arena stays where it is */
		mmap(at, n * KT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 3: mprotect(at, n * KT_PAGE, pick(f, 4)); break;
	case 4: madvise(at, n * KT_PAGE, pick(f, 2) ? MADV_DONTNEED : MADV_FREE); break;
	case 5:
		mremap(at, n * KT_PAGE, n * KT_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		       f->arena + pick(f, ARENA) * KT_PAGE);
		break;
	case 6:
		child = fork();
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
		break;
	case 7:
		/* cppcheck-suppress leakReturnValNotUsed */
		mmap(at, n * KT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	}
}

static void *fuzz_thread(void *arg)
{
	struct fuzz *f = arg;

	for (;;) {
		int *fd = &f->fds[pick(f, 3)];

		switch (pick(f, 40)) {
		case 0: fuzz_raw(f, *fd); break;
		case 6: fuzz_right(f); break;
		case 1:
			close(*fd);
			*fd = open(SENNIT_DEVICE, O_RDWR);
			break;
		case 2:
		case 3:
		case 4:
		case 5: fuzz_memory(f); break;
		default:
			switch (pick(f, 4)) {
			case 0: fuzz_regions(f, *fd); break;
			case 1: fuzz_copies(f, *fd); break;
			case 2: fuzz_messages(f, *fd); break;
			case 3: fuzz_net(f, *fd); break;
			}
		}
		__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* A thread with its stack where 32-bit calls can name it. */
static pthread_t start(struct fuzz *f)
{
	const size_t size = 256 * 1024;
	pthread_attr_t attr;
	pthread_t t;
	char *stack =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	KT_CHECK(stack != MAP_FAILED && pthread_attr_init(&attr) == 0);
	KT_CHECK(pthread_attr_setstack(&attr, stack, size) == 0);
	KT_CHECK(pthread_create(&t, &attr, fuzz_thread, f) == 0);
	return t;
}

static void work(uint64_t seed)
{
	int fds[3] = {open(SENNIT_DEVICE, O_RDWR), open(SENNIT_DEVICE, O_RDWR), open(SENNIT_DEVICE, O_RDWR)};
	char *arena = mmap(NULL, ARENA * KT_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct fuzz a = {.seed = seed * 2,
			 .fds = fds,
			 .arena = arena,
			 .event = eventfd(0, EFD_NONBLOCK),
			 .cable = if_nametoindex("fa")};
	struct fuzz b = a;
	struct rlimit lim = {64 * KT_PAGE, 64 * KT_PAGE};
	pthread_t t;

	KT_CHECK(arena != MAP_FAILED);
	b.seed++;
	if (seed % 4 == 0) { /* now and then one that may pin little */
		KT_CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
		kt_become_user(1000);
	} else if (seed % 4 == 1) {
		kt_compat();
	}
	t = start(&a);
	start(&b);
	pthread_join(t, NULL);
}

static const char *const names[CALLS] = {"info",       "declare",   "undeclare",   "prepare",	 "copy",
					 "share_open", "share_run", "share_close", "join",	 "send",
					 "recv",       "wait",	    "probe",	   "cancel",	 "counters",
					 "net_open",   "net_close", "net_link",	   "net_unlink", "net_pull",
					 "net_cancel", "net_port"};

/* Every call was accepted, not only refused, and frames were placed. */
static bool all_was_reached(void)
{
	for (int i = 0; i < CALLS; i++) {
		if (!__atomic_load_n(&kt_accepted[i], __ATOMIC_RELAXED))
			return false;
	}
	return *several && kt_counter(SENNIT_C_NET_FRAMES) > 0;
}

static void say_what_was_reached(void)
{
	for (int i = 0; i < CALLS; i++)
		printf("%s %lu%s", names[i], (unsigned long)kt_accepted[i], i + 1 < CALLS ? ", " : "\n");
	printf("fetches by several rails %lu, frames placed %lu, dropped %lu, strays %lu\n",
	       (unsigned long)*several, (unsigned long)kt_counter(SENNIT_C_NET_FRAMES),
	       (unsigned long)kt_counter(SENNIT_C_NET_DROPS), (unsigned long)kt_counter(SENNIT_C_NET_STRAYS));
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, next = seed * 1000;
	int seconds = argc > 2 ? atoi(argv[2]) : 10;
	pid_t workers[WORKERS] = {0};
	time_t end = time(NULL) + seconds;
	int killed = 0;

	printf("seed %lu\n", (unsigned long)seed);
	kt_veth_make("fa", "fb", getpid(), 9000);
	kt_link_up("fb");
	shared =
		mmap(NULL, (SHARED + 2 + 256) * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	KT_CHECK(shared != MAP_FAILED);
	calls = shared + SHARED;
	several = calls + 1;
	kt_accepted = (uint64_t *)(uintptr_t)(calls + 2);
	pid_t other = kt_fork();
	if (!other)
		answer_all(seed);
	while (time(NULL) < end || (time(NULL) < end + MORE && !all_was_reached())) {
		int i = kt_random(&seed) % WORKERS;

		if (workers[i]) {
			kill(workers[i], SIGKILL);
			KT_CHECK(waitpid(workers[i], NULL, 0) == workers[i]);
			killed++;
		}
		next++;
		workers[i] = kt_fork();
		if (!workers[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work(next);
		}
		usleep(kt_random(&seed) % 400000);
	}
	for (int i = 0; i < WORKERS; i++) {
		if (workers[i]) {
			kill(workers[i], SIGKILL);
			KT_CHECK(waitpid(workers[i], NULL, 0) == workers[i]);
		}
	}
	printf("%lu calls, %d workers killed, %lu bytes copied, %lu messages\n", (unsigned long)*calls,
	       killed, (unsigned long)kt_counter(SENNIT_C_COPY_BYTES),
	       (unsigned long)kt_counter(SENNIT_C_MESSAGES_SENT));
	KT_CHECK(*calls > 100 && kt_counter(SENNIT_C_COPY_BYTES) > 0 &&
		 kt_counter(SENNIT_C_MESSAGES_SENT) > 0);
	kill(other, SIGKILL);
	KT_CHECK(waitpid(other, NULL, 0) == other);
	say_what_was_reached();
	KT_CHECK(all_was_reached());
	kt_wait_unpinned(0);
	return 0;
}

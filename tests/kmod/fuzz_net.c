// SPDX-License-Identifier: BSD-3-Clause
/* The network's part of test_fuzz: calls, and frames that answer what the kernel asks for. */
#include "fuzz.h"
#include "net/auth.h"
#include "net/check.h"
#include "veth.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

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
void fuzz_net(struct fuzz *f, int fd)
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

/* The calls once each as they are meant. */
void fuzz_net_right(struct fuzz *f, int fd, uint32_t region, uint64_t len)
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
			__atomic_fetch_add(fuzz_several, 1, __ATOMIC_RELAXED);
		usleep(pick(f, 3000));
		c.number = p.number;
		ioctl(fd, SENNIT_IOC_NET_CANCEL, &c);
		ioctl(fd, SENNIT_IOC_NET_UNLINK, &u);
		ioctl(fd, SENNIT_IOC_NET_CLOSE, &e);
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
		uint64_t offset = le64toh(w.offset) + (uint64_t)piece * le16toh(w.frag), end = le64toh(w.end);

		if (offset >= end || !(le64toh(w.want) >> piece & 1))
			continue;
		n = end - offset < le16toh(w.frag) ? (uint32_t)(end - offset) : le16toh(w.frag);
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
void fuzz_net_answer(uint64_t seed)
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

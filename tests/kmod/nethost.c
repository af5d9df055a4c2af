// SPDX-License-Identifier: BSD-3-Clause
/* See nethost.h. */
#include "nethost.h"
#include "veth.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

struct nethost *sh;
unsigned body_bytes = 6u << 20;
const uint8_t key_a[12] = {'r', 'e', 'c', 'e', 'i', 'v', 'e', 'r'},
	      key_b[12] = {'s', 'e', 'n', 'd', 'e', 'r'};

static void answer(int fd, const struct sockaddr_ll *to, const uint8_t *body, const struct sn_wire_pull *w,
		   const struct sn_sip_key *key, uint64_t *random)
{
	uint8_t frame[16 + MTU];
	struct sn_wire_data *d = (void *)(frame + 16);
	uint32_t frag = le16toh(w->frag);

	memcpy(frame, sh->mac[0], 6);
	memcpy(frame + 6, sh->mac[1], 6);
	frame[12] = ETHERTYPE >> 8;
	frame[13] = ETHERTYPE & 255;
	frame[14] = frame[15] = 'A';
	for (uint64_t want = le64toh(w->want); want; want &= want - 1) {
		uint64_t offset = le64toh(w->offset) + (uint64_t)__builtin_ctzll(want) * frag;
		uint32_t n = (uint32_t)SN_MIN_OF((uint64_t)frag, le64toh(w->end) - offset);

		sn_wire_start(&d->h, SN_WIRE_DATA, (uint32_t)sizeof(*d) + n, (uint32_t)SESSION_A);
		d->h.ack = htole32(9);
		d->pull = w->pull;
		d->round = w->round;
		d->offset = htole64(offset);
		memcpy(d + 1, body + offset, n);
		d->h.check = htole32(sn_check_of(&d->h + 1, sizeof(*d) - sizeof(d->h) + n));
		d->h.mac = htole64(sn_auth_mac(key, &d->h));
		if (kt_random(random) % 1000 < sh->lose || sh->mute || (sh->until && offset >= sh->until))
			continue;
		if (kt_random(random) % 1000 < sh->damage)
			((uint8_t *)(d + 1))[kt_random(random) % n] ^= 4;
		if (kt_random(random) % 1000 < sh->forge)
			d->h.mac ^= 1;
		for (int i = kt_random(random) % 1000 < sh->twice ? 2 : 1; i > 0; i--)
			sendto(fd, frame, 16 + sizeof(*d) + n, 0, (const void *)to, sizeof(*to));
	}
}

static bool is_sound(const struct sn_wire_pull *w, ssize_t len, const struct sn_sip_key *key)
{
	return len >= (ssize_t)sizeof(*w) && w->h.version == 1 && w->h.type == SN_WIRE_PULL &&
	       le16toh(w->h.len) == sizeof(*w) && le32toh(w->h.link) == (uint32_t)SESSION_B &&
	       le64toh(w->h.mac) == sn_auth_mac(key, &w->h) && le32toh(w->h.seq) == 5 &&
	       le32toh(w->h.check) == sn_check_of(&w->h + 1, sizeof(*w) - sizeof(w->h)) &&
	       le32toh(w->rdv) == RDV && w->h.rail == 2 && w->rail == 3 && le64toh(w->end) <= BODY &&
	       le64toh(w->offset) < le64toh(w->end) && w->want && (le32toh(w->pull) & SENNIT_PULL_NUMBER);
}

void other_host(void)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE)};
	struct sn_sip_key in, out;
	uint8_t *body = malloc(BODY), frame[2048];
	uint64_t random = 1;
	int fd, big = 8 << 20;

	KT_CHECK(unshare(CLONE_NEWNET) == 0);
	sh->ready = 1;
	while (sh->ready < 2)
		usleep(1000);
	kt_link_up("kb");
	ll.sll_ifindex = (int)kt_link_index("kb", sh->mac[1]);
	fd = socket(AF_PACKET, SOCK_RAW, htons(ETHERTYPE));
	KT_CHECK(fd >= 0 && bind(fd, (void *)&ll, sizeof(ll)) == 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof(big));
	kt_fill(body, BODY, 3);
	sn_auth_link_key(&in, key_b, SESSION_A, SESSION_B);
	sn_auth_link_key(&out, key_a, SESSION_B, SESSION_A);
	sh->ready = 3;
	while (!sh->quit) {
		struct pollfd p = {fd, POLLIN, 0};

		if (poll(&p, 1, 50) <= 0)
			continue;
		ssize_t n = recv(fd, frame, sizeof(frame), 0);
		struct sn_wire_pull w;

		if (n < 16 || memcmp(frame + 14, "BB", 2))
			continue;
		memcpy(&w, frame + 16, sizeof(w));
		if (!is_sound(&w, n - 16, &in)) {
			sh->bad++;
			continue;
		}
		sh->asked++;
		answer(fd, &ll, body, &w, &out, &random);
	}
	_exit(0);
}

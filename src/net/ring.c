/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/ring.h"
#include "base/base.h"
#include "base/log.h"
#include "net/bulk.h"
#include <errno.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

static struct tpacket2_hdr *slot(const struct sn_ring *r, uint32_t i)
{
	return (void *)(r->base + (size_t)(i / r->per_block) * r->block +
			(size_t)(i % r->per_block) * r->frame);
}

static uint32_t status(const struct tpacket2_hdr *h)
{
	return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
}

static void set_status(struct tpacket2_hdr *h, uint32_t to)
{
	__atomic_store_n(&h->tp_status, to, __ATOMIC_RELEASE);
}

/* Slots as small as the frames allow, in blocks of 64 KiB (or one slot, if that is more). */
static void shape(struct sn_ring *r, uint32_t mtu, uint32_t bytes, struct tpacket_req *req)
{
	uint32_t need = TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + SN_ETHER_HEAD + mtu + 32;

	r->frame = TPACKET_ALIGN(need);
	r->block = 65536;
	while (r->block < r->frame)
		r->block *= 2;
	r->per_block = r->block / r->frame;
	uint32_t blocks = SN_MAX_OF(bytes / r->block, 2u);
	r->count = blocks * r->per_block;
	*req = (struct tpacket_req){.tp_block_size = r->block,
				    .tp_block_nr = blocks,
				    .tp_frame_size = r->frame,
				    .tp_frame_nr = r->count};
}

int sn_ring_open(struct sn_ring *r, int fd, uint32_t mtu, uint32_t bytes)
{
	struct tpacket_req rx;
	int version = TPACKET_V2;

	shape(r, mtu, bytes, &rx);
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &rx, sizeof(rx)) < 0)
		return sn_fail(SN_ERR_NOMEM, "a packet ring: %s", strerror(errno));
	r->len = (size_t)rx.tp_block_size * rx.tp_block_nr;
	void *at = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return sn_fail(SN_ERR_NOMEM, "mapping a packet ring: %s", strerror(errno));
	madvise(at, r->len, MADV_DONTFORK); /* a child must not keep the socket alive */
	r->base = at;
	return 0;
}

void sn_ring_close(struct sn_ring *r)
{
	if (r->base)
		munmap(r->base, r->len);
}

bool sn_ring_glance(const struct sn_ring *r)
{
	return status(slot(r, (r->at + r->held) % r->count)) & TP_STATUS_USER;
}

unsigned sn_ring_receive(struct sn_ring *r, struct sn_net_in *frames, unsigned max)
{
	unsigned n = 0;

	for (; r->held > 0; r->held--) {
		set_status(slot(r, r->at), TP_STATUS_KERNEL);
		r->at = r->at + 1 == r->count ? 0 : r->at + 1;
	}
	uint32_t at = r->at;
	while (n < max && r->held < r->count) {
		struct tpacket2_hdr *h = slot(r, at);
		if (!(status(h) & TP_STATUS_USER))
			break;
		r->held++;
		at = at + 1 == r->count ? 0 : at + 1;
		if (h->tp_snaplen <= SN_ETHER_HEAD || h->tp_snaplen < h->tp_len) {
			r->odd++;
			continue;
		}
		frames[n++] = (struct sn_net_in){.data = (uint8_t *)h + h->tp_mac + SN_ETHER_HEAD,
						 .len = h->tp_snaplen - SN_ETHER_HEAD};
	}
	return n;
}

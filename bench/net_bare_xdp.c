/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The AF_XDP way of net_bare: four rings shared with the kernel, frames in chunks of memory that both sides know. A
 * frame longer than a chunk stands in several, which kernels before 6.6 cannot. A look costs no call, sending costs
 * one for up to BATCH frames.
 */
#include "net_bare.h"
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define RX_CHUNKS 2048
#define TX_CHUNKS 256
#define SLOTS	  2048 /* of a ring */
#define BATCH	  32   /* what the kernel takes in one call */
#define HEADROOM  256  /* that the kernel keeps before a frame that came */

#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

struct ring {
	uint32_t *producer, *consumer;
	void *slots;
	uint32_t at; /* our end's */
};

static struct ring rx, tx, fill, done;
static uint8_t *memory;
static uint32_t chunk;
static uint64_t spare[TX_CHUNKS];
static unsigned spares;
static const struct xdp_desc *held; /* being read */

static int bpf(int what, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, what, attr, sizeof(*attr));
}

/* Frames of our ethertype go to the socket in the map, at their queue's number; the others on their way. */
static int program(int map, bool fragments)
{
#define OP(c, d, s, o, i)                                                                                    \
	{                                                                                                    \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)                          \
	}
	struct bpf_insn code[] = {
		OP(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 0, 0), /* data */
		OP(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 4, 0), /* its end */
		OP(BPF_ALU64 | BPF_MOV | BPF_X, 4, 2, 0, 0),
		OP(BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, 14),
		OP(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 8, 0),
		OP(BPF_LDX | BPF_MEM | BPF_H, 5, 2, 12, 0),
		OP(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 6, (ETHERTYPE & 0xff) << 8 | ETHERTYPE >> 8),
		OP(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 16, 0), /* queue */
		OP(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map),
		OP(0, 0, 0, 0, 0),
		OP(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS),
		OP(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map),
		OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		OP(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_PASS),
		OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
#undef OP
	static const char license[] = "Dual BSD/GPL";
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_XDP,
			    .insns = (uint64_t)code,
			    .insn_cnt = sizeof(code) / sizeof(code[0]),
			    .license = (uint64_t)license,
			    .prog_flags = fragments ? BPF_F_XDP_HAS_FRAGS : 0};
	return bpf(BPF_PROG_LOAD, &a);
}

/* The link that holds the program ends with this process. */
static void attach(unsigned index, bool fragments)
{
	const uint32_t queue = 0;
	union bpf_attr m = {
		.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
	int map = bpf(BPF_MAP_CREATE, &m);
	union bpf_attr put = {.map_fd = (uint32_t)map, .key = (uint64_t)&queue, .value = (uint64_t)&bare_fd};
	int prog = map < 0 ? -1 : program(map, fragments);

	if (prog < 0 || bpf(BPF_MAP_UPDATE_ELEM, &put) < 0)
		bare_die("bpf");
	union bpf_attr link = {.link_create = {.prog_fd = (uint32_t)prog,
					       .target_ifindex = index,
					       .attach_type = BPF_XDP,
					       .flags = XDP_FLAGS_DRV_MODE}};
	if (bpf(BPF_LINK_CREATE, &link) < 0)
		bare_die("XDP program on eth0");
}

static void ring_map(struct ring *r, int option, const struct xdp_ring_offset *o, size_t slot, uint64_t at)
{
	int slots = SLOTS;

	if (setsockopt(bare_fd, SOL_XDP, option, &slots, sizeof(slots)) < 0)
		bare_die("XDP ring");
	uint8_t *map = mmap(NULL, o->desc + SLOTS * slot, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    bare_fd, (off_t)at);
	if (map == MAP_FAILED)
		bare_die("mmap");
	r->producer = (void *)(map + o->producer);
	r->consumer = (void *)(map + o->consumer);
	r->slots = map + o->desc;
	/* cppcheck-suppress memleak ; kept until the end, as all of a ring is */
}

static void give(struct ring *r, uint64_t address)
{
	((uint64_t *)r->slots)[r->at++ % SLOTS] = address;
	__atomic_store_n(r->producer, r->at, __ATOMIC_RELEASE);
}

void xdp_open(void)
{
	size_t bytes = (size_t)(RX_CHUNKS + TX_CHUNKS) * 4096;
	struct sockaddr_xdp a = {.sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex("eth0")};
	struct xdp_mmap_offsets o = {0};
	socklen_t len = sizeof(o);

	bare_front_fill();
	chunk = bare_mtu + HEADROOM + 32 <= 2048 ? 2048 : 4096;
	bool fragments = bare_mtu + HEADROOM + 32 > chunk;
	bare_fd = socket(AF_XDP, SOCK_RAW, 0);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct xdp_umem_reg reg = {.addr = (uint64_t)memory,
				   .len = (uint64_t)(RX_CHUNKS + TX_CHUNKS) * chunk,
				   .chunk_size = chunk};
	if (bare_fd < 0 || memory == MAP_FAILED ||
	    setsockopt(bare_fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) < 0 ||
	    getsockopt(bare_fd, SOL_XDP, XDP_MMAP_OFFSETS, &o, &len) < 0)
		bare_die("AF_XDP socket");
	ring_map(&rx, XDP_RX_RING, &o.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
	ring_map(&tx, XDP_TX_RING, &o.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
	ring_map(&fill, XDP_UMEM_FILL_RING, &o.fr, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING);
	ring_map(&done, XDP_UMEM_COMPLETION_RING, &o.cr, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
	for (uint64_t i = 0; i < RX_CHUNKS; i++)
		give(&fill, i * chunk);
	for (; spares < TX_CHUNKS; spares++)
		spare[spares] = (uint64_t)(RX_CHUNKS + spares) * chunk;
	a.sxdp_flags = (uint16_t)(XDP_COPY | (fragments ? XDP_USE_SG : 0));
	for (int i = 0; bind(bare_fd, (struct sockaddr *)&a, sizeof(a)) < 0; i++) {
		if (errno != EBUSY || i == 200) /* the last one's end may not be through */
			bare_die("bind");
		usleep(10000);
	}
	attach(a.sxdp_ifindex, fragments);
}

static void kick(void)
{
	/* cppcheck-suppress nullPointer ; its table does not know that there may be neither bytes nor an address */
	while (sendto(bare_fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 &&
	       (errno == EAGAIN || errno == EBUSY || errno == ENOBUFS))
		;
	uint32_t end = __atomic_load_n(done.producer, __ATOMIC_ACQUIRE);
	while (done.at != end)
		spare[spares++] = ((uint64_t *)done.slots)[done.at++ % SLOTS];
	__atomic_store_n(done.consumer, done.at, __ATOMIC_RELEASE);
}

/* The frame's parts one after the other, into as many chunks as they take. */
static void put(const struct iovec *part, unsigned parts)
{
	uint8_t *at = NULL;
	struct xdp_desc *d = NULL;

	for (unsigned i = 0; i < parts; i++) {
		const uint8_t *from = part[i].iov_base;
		for (size_t left = part[i].iov_len; left > 0;) {
			if (d == NULL || d->len == chunk) {
				if (d)
					d->options = XDP_PKT_CONTD;
				d = (struct xdp_desc *)tx.slots + tx.at++ % SLOTS;
				*d = (struct xdp_desc){.addr = spare[--spares]};
				at = memory + d->addr;
			}
			size_t n = left < chunk - d->len ? left : chunk - d->len;
			memcpy(at + d->len, from, n);
			d->len += (uint32_t)n;
			from += n;
			left -= n;
		}
	}
	__atomic_store_n(tx.producer, tx.at, __ATOMIC_RELEASE);
}

void xdp_send(size_t at, size_t size)
{
	unsigned waiting = 0, most = (FRONT + HEAD + bare_frag) / chunk + 1;

	for (size_t end = at + size; at < end;) {
		if (spares < most) {
			kick();
			continue;
		}
		size_t len = end - at < bare_frag ? end - at : bare_frag;
		const struct iovec part[] = {{bare_front, FRONT}, {bare_heads, HEAD}, {bare_buf + at, len}};
		put(part, 3);
		at += len;
		if (++waiting == BATCH || at == end) {
			kick();
			waiting = 0;
		}
	}
}

/* The chunk read last goes back to the kernel. */
static void give_back(void)
{
	if (!held)
		return;
	give(&fill, held->addr / chunk * chunk);
	__atomic_store_n(rx.consumer, rx.at, __ATOMIC_RELEASE);
	held = NULL;
}

/* The next one that came, or NULL. */
static const struct xdp_desc *next(void)
{
	give_back();
	if (__atomic_load_n(rx.producer, __ATOMIC_ACQUIRE) == rx.at)
		return NULL;
	held = (struct xdp_desc *)rx.slots + rx.at++ % SLOTS;
	return held;
}

void xdp_receive(size_t at, size_t size)
{
	for (size_t end = at + size; at < end;) {
		const struct xdp_desc *d = next();
		if (d == NULL)
			continue;
		size_t left = end - at < bare_frag ? end - at : bare_frag, skip = FRONT + HEAD;
		memcpy(bare_heads, memory + d->addr + FRONT, HEAD);
		for (;;) {
			size_t n = d->len - skip < left ? d->len - skip : left;
			memcpy(bare_buf + at, memory + d->addr + skip, n);
			at += n;
			left -= n;
			skip = 0;
			if (!(d->options & XDP_PKT_CONTD))
				break;
			while ((d = next()) == NULL)
				;
		}
	}
	give_back();
}

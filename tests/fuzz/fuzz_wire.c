/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile frames into a working endpoint (libFuzzer). The input is a sequence of frames, each with a 2-byte length
 * before it. Byte 0 of a frame decides how it is dressed: left as it is (what a stranger can send), or sealed with
 * the right keys (what a peer gone mad can send), so that the code behind the authentication is reached too. The
 * endpoint is connected to one peer, has a rendezvous announced each way and a fetch under way. Nothing may crash,
 * leak or hang: an input has INPUT_SECONDS of this process's own time, whatever else the machine does.
 *
 * Run with --seeds DIR it writes a corpus made by the codec: every frame type.
 */
#include "../arrive_tagged.h"
#include "net/net.h"
#include "progress/relax.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#define PEER_ID	      77
#define INPUT_SECONDS 5

struct sn_peer_state {
	int unused;
};
struct sn_req {
	int unused;
};

static uint64_t now_ns = 1000 * SN_NET_MS;
static struct sn_peer_state peer_state;
static struct sn_req requests[2];
static struct sn_net_link *link_;
static uint8_t body[200000];
static struct iovec body_iov = {body, sizeof(body)};
static uint8_t inbox[64][2048];
static uint32_t inbox_len[64];
static unsigned inbox_count;
static const struct sn_ep_ids own = {.id = 5, .key = {1, 2, 3}}, other = {.id = PEER_ID, .key = {4, 5, 6}};
static bool gone;
volatile uint8_t touched; /* what was read, so that the reads happen */

/* ---- the core above ---- */

int sn_core_arrive(struct sn_peer_state *peer, const struct sn_in *in)
{
	if (in->body) { /* every byte that is claimed must be there */
		for (uint64_t i = 0; i < in->head.len; i++)
			touched ^= ((const uint8_t *)in->body)[i];
	}
	if (in->rdv && in->head.len <= sizeof(body))
		sn_net_pull(link_, in->rdv, &body_iov, 1, in->head.len, &requests[1]);
	else if (in->rdv)
		sn_net_refuse(link_, in->rdv, SN_ERR_NOMEM);
	return 0;
}

void sn_core_sent(struct sn_req *req, int status)
{
}

void sn_core_arrived(struct sn_req *req)
{
}

void sn_core_pulled(struct sn_req *req, int status)
{
}

void sn_core_peer_gone(struct sn_peer_state *peer, int status)
{
	gone = true;
}

struct sn_peer_state *sn_core_peer_from(struct sn_ep *ep, const void *rail, const void *addr, size_t len,
					void **link)
{
	return NULL;
}

void sn_relax_far(bool far)
{
}

size_t sn_core_address(const struct sn_ep *ep, uint8_t out[SN_ADDR_MAX])
{
	memset(out, 0, SN_ADDR_MAX);
	return 40;
}

int sn_core_peer_rank(const struct sn_peer_state *peer)
{
	return -1;
}

/* ---- the driver below ---- */

static bool resolve(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	return part->type == SN_ADDR_UDP4;
}

static bool quick_part(void *drv, struct sn_addr_part *part)
{
	*part = (struct sn_addr_part){.type = SN_ADDR_QUICK, .len = 8};
	return true;
}

static bool quick_path(void *drv, const struct sn_addr_part *part, struct sn_net_path *path)
{
	memcpy(path->quick, part->bytes, sizeof(path->quick));
	return part->type == SN_ADDR_QUICK;
}

static uint32_t mtu(void *drv)
{
	return 1472;
}

static uint64_t room(void *drv)
{
	return 1 << 20;
}

static unsigned send_frames(void *drv, const struct sn_net_out *frames, unsigned count)
{
	/* every byte that is sent must be there */
	for (unsigned i = 0; i < count; i++)
		for (uint32_t v = 0; v < frames[i].iov_count; v++)
			for (size_t b = 0; b < frames[i].iov[v].iov_len; b++)
				touched ^= ((const uint8_t *)frames[i].iov[v].iov_base)[b];
	return count;
}

static unsigned receive(void *drv, struct sn_net_in *frames, unsigned max, const struct sn_net_place *place)
{
	unsigned n = SN_MIN_OF(max, inbox_count);

	for (unsigned i = 0; i < n; i++) {
		/* in a block of its own length, so that the sanitizer sees a read beyond it */
		static uint8_t *exact[64];
		free(exact[i]);
		exact[i] = malloc(inbox_len[i] ? inbox_len[i] : 1);
		memcpy(exact[i], inbox[i], inbox_len[i]);
		frames[i] = (struct sn_net_in){.data = exact[i], .len = inbox_len[i]};
		static struct sn_net_spot spots[64][SN_NET_BATCH];
		uint32_t size;
		if (place && inbox_len[i] > SN_NET_HEAD &&
		    place->expect(place->arg, spots[i], SN_NET_BATCH, &size) > 0 &&
		    inbox_len[i] <= spots[i][0].len + SN_NET_HEAD) {
			frames[i].spot = spots[i];
			memcpy(spots[i][0].at, exact[i] + SN_NET_HEAD, inbox_len[i] - SN_NET_HEAD);
		}
	}
	inbox_count = 0;
	return n;
}

static const struct sn_net_driver driver = {.name = "fuzz",
					    .resolve = resolve,
					    .mtu = mtu,
					    .quick_part = quick_part,
					    .quick_path = quick_path,
					    .room = room,
					    .send = send_frames,
					    .receive = receive};

static uint64_t clock_now(void *arg)
{
	return now_ns;
}

/* ---- frames ---- */

static void seal(uint8_t *frame, uint32_t len, const struct sn_sip_key *key)
{
	struct sn_wire_head *h = (void *)frame;

	h->check = htole32(sn_check_of(h + 1, len - sizeof(*h)));
	h->mac = htole64(sn_auth_mac(key, h));
}

/* Make a frame as a peer with the right keys would: version, length, link, check and mac are right, the rest is as it is. */
static void dress(struct sn_net *n, uint8_t *frame, uint32_t len)
{
	struct sn_wire_head *h = (void *)frame;
	struct sn_sip_key key;

	if (len < sizeof(*h))
		return;
	h->version = SN_WIRE_VERSION;
	h->len = htole16((uint16_t)len);
	if (h->type == SN_WIRE_HELLO || h->type == SN_WIRE_WELCOME) {
		sn_auth_hello_key(&key, own.key);
		if (len >= sizeof(struct sn_wire_hello)) {
			struct sn_wire_hello *hello = (void *)frame;
			seal(frame, len, &key);
			sn_auth_mask(&key, hello);
		}
	} else {
		h->link = htole32((uint32_t)link_->session);
		key = link_->rx_key;
	}
	seal(frame, len, &key);
}

/* Frames of each type, and records of each kind, that came past authentication, so that a run shows that it reached all. */
static uint64_t inputs, types_in[SN_WIRE_TYPES], records_in[SN_REC_PORTS + 1];

static uint64_t refused(const struct sn_net *n)
{
	uint64_t sum = 0;

	for (int d = SN_DROP_SHORT; d <= SN_DROP_CHECK; d++)
		sum += n->drops[d];
	return sum;
}

static void note(const uint8_t *frame, uint32_t len)
{
	const struct sn_wire_head *h = (const void *)frame;

	types_in[h->type]++;
	if (h->type == SN_WIRE_MSG && len > sizeof(*h) && frame[sizeof(*h)] <= SN_REC_PORTS)
		records_in[frame[sizeof(*h)]]++;
}

static void all_reached(void)
{
	bool all = true;

	for (unsigned t = 1; t < SN_WIRE_TYPES; t++)
		all &= types_in[t] > 0;
	for (unsigned r = SN_REC_EAGER; r <= SN_REC_PORTS; r++)
		all &= records_in[r] > 0;
	fprintf(stderr, "%llu inputs; every frame type and record %s\n", (unsigned long long)inputs,
		all ? "reached" : "NOT reached");
	if (!all && inputs > 1000)
		_exit(1);
}

static void feed(struct sn_net *n, const uint8_t *frame, uint32_t len, bool dressed)
{
	memcpy(inbox[0], frame, len);
	inbox_len[0] = len;
	inbox_count = 1;
	if (dressed)
		dress(n, inbox[0], len);
	uint64_t before = refused(n);
	sn_net_progress(n);
	if (dressed && len >= sizeof(struct sn_wire_head) && refused(n) == before)
		note(inbox[0], len);
}

static struct sn_net *connected(void)
{
	struct sn_net_cfg cfg = {.ports = 1,
				 .port = {{.driver = &driver, .part = {.type = SN_ADDR_UDP4, .len = 6}}},
				 .ids = own,
				 .clock = clock_now,
				 .secret = {8, 9},
				 .peer_timeout = 3000 * SN_NET_MS,
				 .eager = 4096};
	struct sn_addr_part part = {.type = SN_ADDR_UDP4, .len = 6};
	struct sn_net *n = sn_net_new(&cfg);
	struct sn_wire_hello w = {
		.session = htole64(42), .id = htole64(PEER_ID), .mtu = htole32(1472), .secret.push = 18};
	struct sn_out out = {
		.head = {.kind = SN_K_TAGGED, .len = sizeof(body)}, .iov = &body_iov, .iov_count = 1};

	gone = false;
	sn_net_attach(n, &peer_state, &other, &part, &link_);
	sn_net_post(link_, &out, &requests[0]); /* connects, and will announce a rendezvous */
	w.h.type = SN_WIRE_WELCOME;
	w.peer_session = htole64(link_->session);
	feed(n, (void *)&w, sizeof(w), true);
	uint8_t frame[256] = {0};
	struct sn_wire_head *h = (void *)frame;
	struct sn_rec rec = {.what = SN_REC_RDV,
			     .rdv = 1,
			     .frag = 1400,
			     .push_frag = 1400,
			     .push = 46,
			     .head = {.kind = 1, .len = 100000}};
	h->type = SN_WIRE_MSG;
	uint32_t len = (uint32_t)sizeof(*h) + sn_wire_rec_put(frame + sizeof(*h), &rec);
	feed(n, frame, len, true);
	if (link_->state != SN_LINK_OPEN || sn_list_empty(&link_->pulls)) {
		fprintf(stderr, "the endpoint did not connect: the fuzzer would fuzz nothing\n");
		abort();
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct itimerval limit = {.it_value.tv_sec = INPUT_SECONDS}, none = {0};

	setitimer(ITIMER_PROF, &limit, NULL);
	struct sn_net *n = connected();

	if (inputs++ == 0) {
		memset(types_in, 0, sizeof(types_in)); /* what connecting took */
		memset(records_in, 0, sizeof(records_in));
		atexit(all_reached);
	}
	while (size >= 3 && !gone) {
		uint32_t len = (uint32_t)(data[0] | data[1] << 8) % 2048;
		bool dressed = data[2] & 1;
		data += 3;
		size -= 3;
		len = (uint32_t)SN_MIN_OF((size_t)len, size);
		feed(n, data, len, dressed);
		data += len;
		size -= len;
		now_ns += 3 * SN_NET_MS;
	}
	n->quiet = true; /* no requests are checked here */
	sn_net_free(n);
	setitimer(ITIMER_PROF, &none, NULL);
	return 0;
}

/* ---- seeds ---- */

static void seed(const char *dir, const char *name, const void *frame, uint32_t len)
{
	char path[512];
	uint8_t head[3] = {(uint8_t)len, (uint8_t)(len >> 8), 1};

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "wb");
	if (f == NULL || fwrite(head, 1, 3, f) != 3 || fwrite(frame, 1, len, f) != len || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void seed_records(const char *dir)
{
	static const char *const names[] = {"", "eager", "first", "more", "rdv", "done", "ports"};

	for (uint8_t what = SN_REC_EAGER; what <= SN_REC_PORTS; what++) {
		uint8_t frame[256] = {0};
		struct sn_wire_head *h = (void *)frame;
		struct sn_rec rec = {
			.what = what, .rdv = 2, .frag = 1400, .push_frag = 1400, .push = 1, .body_len = 20};
		rec.head = (struct sn_head){.kind = 1, .imm_len = 4, .imm = "abcd", .len = 30};
		sn_wire_start(h, SN_WIRE_MSG, 0, 0);
		h->seq = htole32(1);
		uint32_t len = (uint32_t)sizeof(*h) + sn_wire_rec_put(frame + sizeof(*h), &rec);
		if (what == SN_REC_PORTS) {
			frame[len] = SN_ADDR_UDP4;
			frame[len + 1] = 6;
			frame[len + 8] = SN_ADDR_ETHER; /* and a second one, of 10 bytes */
			frame[len + 9] = 10;
		}
		seed(dir, names[what], frame, len + (what <= SN_REC_MORE || what == SN_REC_PORTS ? 20 : 0));
		if (what == SN_REC_PORTS) {
			frame[len + 8] = SN_ADDR_QUICK; /* not a second one, but another way in */
			seed(dir, "ports_quick", frame, len + 20);
		}
	}
}

static void too_long(int sig)
{
	static const char text[] = "an input takes too long\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		abort(); /* libFuzzer keeps the input, and says where it was */
	_exit(1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	signal(SIGPROF, too_long);
	if (*argc != 3 || strcmp((*argv)[1], "--seeds") != 0)
		return 0;
	const char *dir = (*argv)[2];
	static const char *const names[] = {"",	    "hello", "welcome", "bye",	  "ack",   "msg",
					    "pull", "data",  "probe",	"probed", "slice", "push"};
	struct sn_net *n = connected();
	for (uint8_t type = 1; type < SN_WIRE_TYPES; type++) {
		uint8_t frame[1500] = {0};
		uint32_t len = sn_wire_min(type);
		sn_wire_start((void *)frame, type, len, 0);
		struct sn_wire_hello *hello = (void *)frame;
		struct sn_wire_pull *pull = (void *)frame;
		struct sn_wire_data *d = (void *)frame;
		struct sn_wire_slice *s = (void *)frame;
		if (type <= SN_WIRE_WELCOME) {
			*hello = (struct sn_wire_hello){.h = hello->h,
							.session = htole64(43),
							.id = htole64(PEER_ID),
							.mtu = htole32(1472),
							.part_len = htole16(6),
							.part_type = SN_ADDR_UDP4};
		} else if (type == SN_WIRE_PULL) {
			pull->rdv =
				htole32(sn_container(link_->sends.next, struct sn_net_send, node)->number);
			pull->end = htole64(sizeof(body));
			pull->want = htole64(0xff);
			pull->frag = htole16(1400);
		} else if (type == SN_WIRE_DATA) {
			d->pull = htole32(sn_container(link_->pulls.next, struct sn_net_pull, node)->number);
			d->round = htole32(1);
			len += 1400;
		} else if (type == SN_WIRE_PUSH) {
			struct sn_wire_push *push = (void *)frame;
			push->rdv = htole32(1);
			push->h.seq = htole32(1);
			push->frag = htole16(1400);
			push->count = htole16(46);
			len += 1400;
		} else if (type == SN_WIRE_SLICE_OF) {
			s->h.seq = htole32(1);
			s->total = htole32(1100);
			len += 1024;
		}
		seed(dir, names[type], frame, len);
	}
	seed_records(dir);
	sn_net_free(n);
	exit(0);
}

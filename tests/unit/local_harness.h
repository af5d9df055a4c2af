/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for the core, for tests of the local rail: it implements the upcalls of core/rail.h, numbers messages, and
 * checks every byte of every message against a pattern made from its number. One endpoint ("side") for each process.
 */
#ifndef LOCAL_HARNESS_H
#define LOCAL_HARNESS_H

#include "../arrive_tagged.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/log.h"
#include "copy/cma.h"
#include "core/rail.h"
#include "pattern.h"
#include "progress/relax.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* No process of a test outlives this. Instrumented code is several times slower (CMakeLists.txt allows for it likewise). */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TEST_SECONDS 290
#else
#define TEST_SECONDS 170
#endif

#define CHECK(x)                                                                                             \
	do {                                                                                                 \
		if (!(x)) {                                                                                  \
			fprintf(stderr, "%s:%d: pid %d: \"%s\" does not hold\n", __FILE__, __LINE__,         \
				(int)getpid(), #x);                                                          \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

#define PEERS_MAX 600

struct sn_req {
	struct sn_req *next;
	struct sn_list open; /* ep->open: closing drops what is in flight */
	bool done, is_pull, allocated;
	int status;
	uint64_t number; /* of the message */
	uint64_t len;
	uint8_t *buf;
	size_t buf_len;
	struct iovec iov[SN_IOV_MAX];
	uint32_t iov_count;
};

struct sn_peer_state {
	struct sn_ep *ep;
	struct sn_ep_ids ids;
	struct sn_addr_part part;
	void *link;
	uint32_t num;
	bool gone;
	int gone_status;
	uint64_t sent, arrived; /* message numbers in each direction */
	uint64_t finished;	/* arrived and checked */
};

struct sn_ep {
	struct sn_ep_ids ids;
	struct sn_addr_part part;
	void *rail;
	struct sn_peer_state *peers[PEERS_MAX];
	uint32_t peer_count;
	struct sn_list open;
	uint64_t sends_open, pulls_open, sends_failed, pulls_failed;
	int last_status; /* of a failed send or pull */
	bool unchecked;	 /* contents do not follow the pattern (hostile peers) */
	bool refuse;	 /* refuse every announced message with SN_ERR_TRUNCATED */
	bool hold;	 /* keep announced messages in held[] */
	struct sn_rdv *held[64];
	uint64_t held_len[64];
	uint32_t held_count;
	uint32_t part_percent; /* 0: pull whole messages; else so much of each */
	bool pull_any;	       /* unchecked: pull whatever its length */
	uint8_t *pull_into;    /* NULL: into fresh memory */
};

static inline uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Cut a buffer into up to 256 uneven segments. */
static inline uint32_t cut(struct iovec *iov, uint8_t *buf, uint64_t len, uint32_t most, uint32_t *seed)
{
	uint32_t n = 0;
	uint64_t at = 0;
	if (most > SN_IOV_MAX)
		most = SN_IOV_MAX;
	while (n + 1 < most && at < len) {
		uint64_t part = next_random(seed) % (2 * len / most + 2);
		part = SN_MIN_OF(part, len - at);
		iov[n++] = (struct iovec){buf + at, part};
		at += part;
	}
	if (at < len || n == 0)
		iov[n++] = (struct iovec){buf + at, len - at};
	return n;
}

/* ---- upcalls ------------------------------------------------------------------------------------------------- */

static inline void req_free(struct sn_req *req)
{
	if (req->open.next)
		sn_list_del(&req->open);
	free(req->buf);
	free(req);
}

void sn_core_arrived(struct sn_req *req)
{
	CHECK(false); /* only of what crosses a network */
}

void sn_core_sent(struct sn_req *req, int status)
{
	CHECK(!req->done && !req->is_pull);
	req->done = true;
	req->status = status;
	struct sn_ep *ep = (struct sn_ep *)(void *)req->next;
	ep->sends_open--;
	if (status) {
		ep->sends_failed++;
		ep->last_status = status;
	}
	req_free(req);
}

static inline struct sn_peer_state *pulling_peer(struct sn_req *req)
{
	return (struct sn_peer_state *)(void *)req->next;
}

void sn_core_pulled(struct sn_req *req, int status)
{
	struct sn_peer_state *peer = pulling_peer(req);
	CHECK(req->is_pull && !req->done);
	peer->ep->pulls_open--;
	peer->finished++;
	if (status) {
		peer->ep->pulls_failed++;
		peer->ep->last_status = status;
	} else if (!peer->ep->unchecked) {
		CHECK(pattern_holds(req->buf, req->len, req->number));
		for (size_t i = req->len; i < req->buf_len; i++)
			CHECK(req->buf[i] == 0xee); /* nothing beyond */
	}
	if (!req->allocated)
		req->buf = NULL;
	req_free(req);
}

static inline void pull(struct sn_peer_state *peer, struct sn_rdv *rdv, uint64_t number, uint64_t len)
{
	struct sn_ep *ep = peer->ep;
	struct sn_req *req = calloc(1, sizeof(*req));
	uint32_t seed = (uint32_t)number;
	CHECK(req);
	if (ep->part_percent)
		len = len * ep->part_percent / 100;
	req->is_pull = true;
	sn_list_add_tail(&ep->open, &req->open);
	req->next = (struct sn_req *)(void *)peer;
	req->number = number;
	req->len = len;
	req->buf_len = len + 32;
	req->allocated = !ep->pull_into;
	req->buf = ep->pull_into ? ep->pull_into : malloc(req->buf_len);
	CHECK(req->buf);
	if (req->allocated)
		memset(req->buf, 0xee, req->buf_len);
	req->iov_count =
		cut(req->iov, req->buf, len, number % 5 == 0 ? 256 : 1 + (uint32_t)number % 7, &seed);
	ep->pulls_open++;
	sn_rail_local.pull(peer->link, rdv, req->iov, req->iov_count, len, req);
}

int sn_core_arrive(struct sn_peer_state *peer, const struct sn_in *in)
{
	struct sn_ep *ep = peer->ep;
	if (in->only_posted && (ep->unchecked || ep->refuse || ep->hold || peer->arrived % 3 == 0))
		return SN_ERR_AGAIN;
	uint64_t number = peer->arrived++;
	CHECK(!peer->gone);
	if (ep->unchecked) {
		if (in->rdv && ep->pull_into && (ep->pull_any || in->head.len <= 4096))
			pull(peer, in->rdv, number, in->head.len);
		else if (in->rdv)
			sn_rail_local.refuse(peer->link, in->rdv, SN_ERR_TRUNCATED);
		else /* touch every byte: reading out of bounds would show */
			for (uint64_t i = 0; i < in->head.len; i++)
				(void)((const volatile uint8_t *)in->body)[i];
		return 0;
	}
	CHECK(in->head.bits == number); /* in order, each once */
	CHECK(in->head.data == (number ^ 0x5a5a));
	CHECK(in->head.kind == SN_K_TAGGED + number % SN_K_MAX);
	CHECK(in->head.flags == (number & SN_H_MASK));
	CHECK(in->head.imm_len == number % (SN_IMM_MAX + 1));
	CHECK(pattern_holds(in->head.imm, in->head.imm_len, number + 7));
	if (!in->rdv) {
		CHECK(pattern_holds(in->body, in->head.len, number));
		peer->finished++;
		return 0;
	}
	CHECK(!in->body && in->head.len);
	if (ep->refuse) {
		peer->finished++;
		sn_rail_local.refuse(peer->link, in->rdv, SN_ERR_TRUNCATED);
	} else if (ep->hold) {
		ep->held_len[ep->held_count] = in->head.len;
		ep->held[ep->held_count++] = in->rdv;
	} else {
		pull(peer, in->rdv, number, in->head.len);
	}
	return 0;
}

/* Nothing is shown on the board here, so nothing can be claimed: test_claim.c has that, with the real core. */
void sn_core_claimed(struct sn_req *req, struct sn_peer_state *peer, const struct sn_head *head, int status)
{
	CHECK(!"claimed");
}

int sn_core_claimed_rdv(struct sn_req *req, struct sn_peer_state *peer, const struct sn_in *in)
{
	CHECK(!"claimed");
	return 0;
}

void sn_core_peer_gone(struct sn_peer_state *peer, int status)
{
	CHECK(!peer->gone);
	peer->gone = true;
	peer->gone_status = status;
}

uint32_t sn_core_peer_number(const struct sn_peer_state *peer)
{
	return peer->num;
}

int sn_core_peer_rank(const struct sn_peer_state *peer)
{
	return -1;
}

struct sn_peer_name sn_core_peer_name(const struct sn_peer_state *peer)
{
	struct sn_peer_name name;

	snprintf(name.text, sizeof(name.text), "peer %u", peer->num);
	return name;
}

uint64_t sn_core_peer_kept(const struct sn_peer_state *peer)
{
	return 0;
}

/* ---- sides --------------------------------------------------------------------------------------------------- */

struct address {
	struct sn_ep_ids ids;
	struct sn_addr_part part;
	uint8_t pad[8];
};
_Static_assert(sizeof(struct address) <= SN_ADDR_MAX, "fits");

static inline struct address side_address(const struct sn_ep *ep)
{
	struct address a;
	memset(&a, 0, sizeof(a));
	a.ids = ep->ids;
	a.part = ep->part;
	return a;
}

size_t sn_core_address(const struct sn_ep *ep, uint8_t out[SN_ADDR_MAX])
{
	struct address a = side_address(ep);
	memset(out, 0, SN_ADDR_MAX);
	memcpy(out, &a, sizeof(a));
	return sizeof(a);
}

static inline struct sn_peer_state *peer_add(struct sn_ep *ep, const struct address *a)
{
	for (uint32_t i = 0; i < ep->peer_count; i++)
		if (ep->peers[i]->ids.id == a->ids.id)
			return ep->peers[i];
	struct sn_peer_state *peer = calloc(1, sizeof(*peer));
	CHECK(peer && ep->peer_count < PEERS_MAX);
	CHECK(sn_rail_local.reaches(ep->rail, &a->part));
	peer->ep = ep;
	peer->ids = a->ids;
	peer->part = a->part;
	peer->num = ep->peer_count;
	CHECK(sn_rail_local.attach(ep->rail, peer, &peer->ids, &peer->part, &peer->link) == 0);
	ep->peers[ep->peer_count++] = peer;
	return peer;
}

struct sn_peer_state *sn_core_peer_from(struct sn_ep *ep, const void *rail, const void *addr, size_t len,
					void **link)
{
	struct address a;
	if (len != sizeof(a) || ep->peer_count == PEERS_MAX)
		return NULL;
	memcpy(&a, addr, sizeof(a));
	struct sn_peer_state *peer = peer_add(ep, &a);
	*link = peer->link;
	return peer;
}

static inline struct sn_ep *side_open(void)
{
	struct sn_ep *ep = calloc(1, sizeof(*ep));
	CHECK(ep);
	sn_list_init(&ep->open);
	sn_random(&ep->ids, sizeof(ep->ids));
	int rc = sn_rail_local.open(ep, &ep->ids, &ep->rail, &ep->part);
	if (rc)
		fprintf(stderr, "open: %s\n", sn_last_error());
	CHECK(rc == 0);
	return ep;
}

static inline void side_close(struct sn_ep *ep)
{
	sn_rail_local.close(ep->rail);
	sn_list_for_each_safe (at, &ep->open) {
		struct sn_req *req = sn_container(at, struct sn_req, open);
		if (req->is_pull && !req->allocated)
			req->buf = NULL;
		req_free(req);
	}
	for (uint32_t i = 0; i < ep->peer_count; i++)
		free(ep->peers[i]);
	free(ep);
}

static inline int side_progress(void *ep)
{
	return sn_rail_local.progress(((struct sn_ep *)ep)->rail);
}

/* Make progress once; wait a little if there is nothing. */
static inline void side_step(struct sn_ep *ep, uint64_t *idle)
{
	if (side_progress(ep))
		*idle = 0;
	else
		sn_relax_step(idle, 100000, side_progress, ep);
}

/* Make progress until the condition holds. */
#define STEP_UNTIL(ep, cond)                                                                                 \
	for (uint64_t idle_ = 0; !(cond);)                                                                   \
	side_step(ep, &idle_)

/* The head of message `number`; the immediate bytes that go with it are written to imm. */
static inline struct sn_head side_head(uint64_t number, uint64_t len, uint8_t imm[SN_IMM_MAX])
{
	pattern_fill(imm, SN_IMM_MAX, number + 7);
	return (struct sn_head){.kind = (uint8_t)(SN_K_TAGGED + number % SN_K_MAX),
				.flags = number & SN_H_MASK,
				.imm_len = (uint8_t)(number % (SN_IMM_MAX + 1)),
				.bits = number,
				.data = number ^ 0x5a5a,
				.len = len,
				.imm = imm};
}

/* Send message number peer->sent of this length. */
static inline int side_send(struct sn_peer_state *peer, uint64_t len, bool inject, uint32_t segments)
{
	uint64_t number = peer->sent;
	uint8_t imm[SN_IMM_MAX];
	struct sn_req *req = calloc(1, sizeof(*req));
	uint32_t seed = (uint32_t)number + 1;
	CHECK(req);
	req->next = (struct sn_req *)(void *)peer->ep;
	req->number = number;
	req->len = len;
	req->buf = malloc(len + 1);
	CHECK(req->buf);
	pattern_fill(req->buf, len, number);
	req->iov_count = cut(req->iov, req->buf, len, segments, &seed);
	struct sn_out out = {.head = side_head(number, len, imm),
			     .iov = req->iov,
			     .iov_count = len ? req->iov_count : 0,
			     .must_copy = inject};
	peer->ep->sends_open++;
	sn_list_add_tail(&peer->ep->open, &req->open);
	int rc = sn_rail_local.post(peer->link, &out, inject && number % 2 ? NULL : req);
	if (rc >= 0)
		peer->sent++;
	if (rc != 0 || (inject && number % 2)) {
		peer->ep->sends_open--;
		memset(req->buf, 0xdd, len); /* it is ours again: nobody may look */
		req_free(req);
	}
	return rc;
}

struct count_arg {
	const char *name;
	uint64_t value;
	bool found;
};

static inline void count_one(void *arg, const char *name, uint64_t value)
{
	struct count_arg *c = arg;
	if (!strcmp(name, c->name)) {
		c->value = value;
		c->found = true;
	}
}

static inline uint64_t side_count(struct sn_ep *ep, const char *name)
{
	struct count_arg c = {.name = name};
	sn_rail_local.counters(ep->rail, count_one, &c);
	CHECK(c.found);
	return c.value;
}

/* ---- processes ----------------------------------------------------------------------------------------------- */

/* Run fn in a child with one end of a socket pair. Returns the child's pid, *sock is the other end. */
static inline pid_t spawn(void (*fn)(int sock), int *sock)
{
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(pair[0]);
		/* cmocka's handlers would go on with its tests here */
		static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
		for (unsigned i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
			signal(fatal[i], SIG_DFL);
		alarm(150);
		fn(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	*sock = pair[0];
	return pid;
}

/* The child must have ended by itself, well. */
static inline void reap(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		fprintf(stderr, "child %d: status %#x\n", (int)pid, status);
	CHECK(status == 0);
}

/* Descriptors that this process has open. */
static inline int fds_open(void)
{
	int n = 0;
	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static inline struct address swap_address(int sock, const struct sn_ep *ep)
{
	struct address mine = side_address(ep), theirs;
	CHECK(send(sock, &mine, sizeof(mine), MSG_NOSIGNAL) == (ssize_t)sizeof(mine));
	CHECK(recv(sock, &theirs, sizeof(theirs), 0) == (ssize_t)sizeof(theirs));
	return theirs;
}

static inline void tell(int sock, char what)
{
	CHECK(send(sock, &what, 1, MSG_NOSIGNAL) == 1);
}

static inline char hear(int sock)
{
	char what = 0;
	return recv(sock, &what, 1, 0) == 1 ? what : 0;
}

/* Has the other side said something? Keeps making progress until then. */
static inline char hear_progress(int sock, struct sn_ep *ep)
{
	char what = 0;
	for (;;) {
		ssize_t n = recv(sock, &what, 1, MSG_DONTWAIT);
		if (n == 1)
			return what;
		if (n == 0 || errno != EAGAIN)
			return 0;
		side_progress(ep);
		sched_yield();
	}
}

#endif

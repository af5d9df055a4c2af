/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"
#include "base/base.h"
#include "tool.h"
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_US 500000
#define PAIR_BITS   1 /* every message of a pair has these match bits: order alone tells them apart */

bool sn_pair_write(int fd, const void *buf, size_t len)
{
	const char *p = buf;
	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

bool sn_pair_read(int fd, void *buf, size_t len)
{
	char *p = buf;
	while (len > 0) {
		ssize_t n = read(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

int sn_pair_open(struct sn_pair *p, int fd, bool second)
{
	unsigned char mine[1 + SN_ADDR_MAX] = {0}, theirs[1 + SN_ADDR_MAX];
	size_t len = SN_ADDR_MAX;
	*p = (struct sn_pair){.fd = fd, .second = second};
	int error = sn_ep_open(NULL, &p->ep);
	if (!error)
		error = sn_ep_address(p->ep, mine + 1, &len);
	if (error) {
		sn_tool_complain("cannot open an endpoint: %s", sn_last_error());
		sn_pair_close(p);
		return error;
	}
	mine[0] = (unsigned char)len;
	if (!sn_pair_write(fd, mine, sizeof(mine)) || !sn_pair_read(fd, theirs, sizeof(theirs)) ||
	    theirs[0] > SN_ADDR_MAX) {
		sn_tool_complain("the other process is gone before it sent its address");
		sn_pair_close(p);
		return SN_ERR_PEER_GONE;
	}
	error = sn_peer_add(p->ep, theirs + 1, theirs[0], &p->peer);
	if (error) {
		sn_tool_complain("cannot reach the other process: %s", sn_last_error());
		sn_pair_close(p);
	}
	return error;
}

void sn_pair_close(struct sn_pair *p)
{
	sn_ep_close(p->ep);
	p->ep = NULL;
}

/* The other process has ended, or given up. The engine knows of that only where there is a connection to lose. */
static bool other_left(const struct sn_pair *p)
{
	struct pollfd f = {.fd = p->fd, .events = POLLRDHUP};
	return poll(&f, 1, 0) > 0 && f.revents & (POLLRDHUP | POLLHUP);
}

static int finish(struct sn_pair *p, int error, sn_req *req)
{
	sn_completion c;
	bool left = false;
	if (!error)
		error = sn_wait(p->ep, req, &c, PATIENCE_US);
	while (error == SN_ERR_TIMEOUT && !left) {
		left = other_left(p);
		error = sn_wait(p->ep, req, &c, PATIENCE_US); /* once more: what it sent last may be here */
	}
	if (error == SN_ERR_TIMEOUT)
		return SN_ERR_PEER_GONE;
	return error ? error : c.status;
}

int sn_pair_send(struct sn_pair *p, const void *buf, size_t len)
{
	sn_req *req;
	int error = sn_isend(p->ep, p->peer, buf, len, PAIR_BITS, &req);
	return finish(p, error, req);
}

int sn_pair_recv(struct sn_pair *p, void *buf, size_t len)
{
	sn_req *req;
	int error = sn_irecv(p->ep, p->peer, buf, len, PAIR_BITS, UINT64_MAX, &req);
	return finish(p, error, req);
}

bool sn_pair_meet(struct sn_pair *p)
{
	char c = 0;
	return sn_pair_write(p->fd, &c, 1) && sn_pair_read(p->fd, &c, 1);
}

void sn_pattern_fill(unsigned char *buf, size_t len, uint64_t seed)
{
	size_t i = 0;
	for (; i + 8 <= len; i += 8) {
		uint64_t word = sn_mix64(seed + i);
		memcpy(buf + i, &word, 8);
	}
	uint64_t word = sn_mix64(seed + i);
	memcpy(buf + i, &word, len - i);
}

size_t sn_pattern_check(const unsigned char *buf, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = sn_mix64(seed + i);
		size_t n = SN_MIN_OF(len - i, (size_t)8);
		if (memcmp(buf + i, &word, n) == 0)
			continue;
		const unsigned char *want = (const unsigned char *)&word;
		for (size_t b = 0; b < n; b++)
			if (buf[i + b] != want[b])
				return i + b;
	}
	return len;
}

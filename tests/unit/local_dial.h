/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake of the local rail, spoken by hand: for tests of those who should not be let in. */
#ifndef LOCAL_DIAL_H
#define LOCAL_DIAL_H

#include "local/local.h"
#include "local_exchange.h"
#include "progress/memfd.h"
#include <sys/un.h>

static inline int dial(const struct sn_ep *ep)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "sennit-%016llx",
			 (unsigned long long)ep->ids.id);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK(connect(fd, (struct sockaddr *)&sa,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0);
	return fd;
}

static inline void say(int fd, const void *what, size_t len, const int *fds, uint32_t fd_count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control;
	memset(&control, 0, sizeof(control));
	struct iovec v = {(void *)(uintptr_t)what, len};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1};
	if (fd_count) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
	}
	ssize_t said = sendmsg(fd, &msg, MSG_NOSIGNAL);
	CHECK(said == (ssize_t)len || errno == EPIPE); /* thrown out before it could speak */
}

static inline int memory(size_t bytes, bool sealed)
{
	void *at;
	if (sealed) {
		int fd = sn_memfd_new("test", bytes, &at);
		CHECK(fd >= 0);
		munmap(at, bytes);
		return fd;
	}
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

#define RING 65536u

static inline struct sn_local_hello honest(const struct sn_ep *ep)
{
	struct sn_local_hello hello = {.magic = SN_LOCAL_MAGIC, .version = SN_LOCAL_VERSION, .pid = 1};
	struct sn_ep fake = {.ids.id = 5, .part = ep->part};
	struct address a = side_address(&fake);
	memcpy(hello.key, ep->ids.key, sizeof(hello.key));
	hello.ring_bytes = RING;
	hello.addr_len = sizeof(a);
	memcpy(hello.addr, &a, sizeof(a));
	return hello;
}

#endif

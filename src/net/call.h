/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that carry a lone short frame, past the C library: there they are cancellation points, which costs two
 * locked instructions in a process of several threads. And a function that has made a system call returns to where
 * the processor no longer expects it to, as the kernel empties its memory of callers (9 ns on an AMD EPYC): in line
 * there is nothing to return from.
 */
#ifndef SN_NET_CALL_H
#define SN_NET_CALL_H

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>

/*
 * socket.c, as sockets are opened: they are the kernel's own. A library that was loaded before may have others, which
 * only it can read.
 */
extern bool sn_net_bare_calls;

/* Tests that count calls have them made by name. */
#if defined(__x86_64__) && !defined(SN_NET_CALLS_COUNTED)
/* Six arguments, of which the last two are none. */
static inline ssize_t sn_net_call(long number, int fd, const void *at, size_t len, int flags)
{
	register long r10 __asm__("r10") = flags;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = 0;
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "0"(number), "D"((long)fd), "S"(at), "d"(len), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "cc", "memory");
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

static inline ssize_t sn_net_call_recv(int fd, void *at, size_t len)
{
	if (__builtin_expect(!sn_net_bare_calls, 0))
		return recv(fd, at, len, MSG_DONTWAIT);
	return sn_net_call(SYS_recvfrom, fd, at, len, MSG_DONTWAIT);
}

static inline ssize_t sn_net_call_send(int fd, const void *at, size_t len)
{
	if (__builtin_expect(!sn_net_bare_calls, 0))
		return send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sn_net_call(SYS_sendto, fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}
#else
static inline ssize_t sn_net_call_recv(int fd, void *at, size_t len)
{
	return recv(fd, at, len, MSG_DONTWAIT);
}

static inline ssize_t sn_net_call_send(int fd, const void *at, size_t len)
{
	return send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}
#endif

#endif

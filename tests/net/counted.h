/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that a driver may send and receive with, counted: the linker puts __wrap_NAME in NAME's place. */
#ifndef SN_TEST_COUNTED_H
#define SN_TEST_COUNTED_H

#include <sys/socket.h>

#define COUNTED(count, type, name, parameters, ...)                                                          \
	type __real_##name parameters;                                                                       \
	type __wrap_##name parameters;                                                                       \
	type __wrap_##name parameters                                                                        \
	{                                                                                                    \
		count++;                                                                                     \
		return __real_##name(__VA_ARGS__);                                                           \
	}

#define COUNTED_DRIVER_CALLS(sends, receives)                                                                \
	COUNTED(sends, ssize_t, send, (int fd, const void *at, size_t len, int flags), fd, at, len, flags)   \
	COUNTED(sends, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), fd, m, flags)          \
	COUNTED(sends, int, sendmmsg, (int fd, struct mmsghdr *m, unsigned n, int flags), fd, m, n, flags)   \
	COUNTED(receives, ssize_t, recv, (int fd, void *at, size_t len, int flags), fd, at, len, flags)      \
	COUNTED(receives, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), fd, m, flags)             \
	COUNTED(receives, int, recvmmsg,                                                                     \
		(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t), fd, m, n, flags, t)

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/call.h"
#include "net/driver.h"
#include <dlfcn.h>
#include <string.h>

bool sn_net_bare_calls;

/* Does the C library itself have this function, as far as the program is concerned? */
static bool is_libcs(const char *name)
{
	void *at = dlsym(RTLD_DEFAULT, name);
	Dl_info of, libc;

	return at && dladdr(at, &of) && dladdr(dlsym(RTLD_DEFAULT, "strtod"), &libc) &&
	       of.dli_fbase == libc.dli_fbase;
}

/* As much as it may be by privilege, else as the system's limits let it. */
static void set_size(int fd, int forced, int asked, int bytes)
{
	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, asked, &bytes, sizeof(bytes));
}

uint64_t sn_net_buffers(int fd, int in, int out)
{
	int size = 0;
	socklen_t len = sizeof(size);

	sn_net_bare_calls = is_libcs("socket") && is_libcs("recv") && is_libcs("send");
	set_size(fd, SO_RCVBUFFORCE, SO_RCVBUF, in);
	set_size(fd, SO_SNDBUFFORCE, SO_SNDBUF, out);
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len);
	/* The kernel counts its own overhead, up to as much again as the data, and has already doubled for that. */
	return (uint64_t)size / 4;
}

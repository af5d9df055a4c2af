/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * May these two processes copy from each other's memory? The kernel decides by credentials, ptrace_scope, user
 * namespaces, dumpability and seccomp filters, differently for the two directions of one pair; so each side tries, for
 * each peer, on the peer's cookie. The write goes to a word beside it that nobody reads, and only once the cookie has
 * shown that this is the right process.
 */
#include "copy/cma.h"
#include <errno.h>
#include <pthread.h>

/* In the library's own memory: nothing that is allocated and freed may be written by peers. */
static struct {
	uint64_t cookie;
	uint64_t scratch; /* written by peers */
} probe;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void draw(void)
{
	sn_random(&probe.cookie, sizeof(probe.cookie));
}

void sn_probe_own(uint64_t *cookie_at, uint64_t *cookie)
{
	pthread_once(&once, draw);
	*cookie_at = (uint64_t)(uintptr_t)&probe;
	*cookie = probe.cookie;
}

void sn_probe_in_child(void)
{
	draw();
}

void sn_probe_peer(const struct sn_cma_peer *peer, int *read_error, int *write_error)
{
	uint64_t got[2] = {0}, unused = 0;
	struct iovec local = {got, sizeof(got)};
	struct iovec remote = {(void *)(uintptr_t)peer->cookie_at, sizeof(got)};
	*read_error = sn_fault_inject(SN_FAULT_PROBE, &unused);
	if (!*read_error && !peer->pid)
		*read_error = ESRCH;
	if (!*read_error) {
		ssize_t n = process_vm_readv(peer->pid, &local, 1, &remote, 1, 0);
		if (n < 0)
			*read_error = errno;
		else if (n != sizeof(got) || got[0] != peer->cookie)
			*read_error = ESRCH; /* another process carries this pid here */
	}
	*write_error = *read_error;
	if (*read_error)
		return;
	local.iov_len = remote.iov_len = sizeof(got[1]);
	remote.iov_base = (void *)(uintptr_t)(peer->cookie_at + sizeof(got[0]));
	if (process_vm_writev(peer->pid, &local, 1, &remote, 1, 0) != sizeof(got[1]))
		*write_error = errno;
}

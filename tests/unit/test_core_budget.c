/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Budgets that do not depend on the machine's mood: an eager message between two processes that know each other costs no
 * system call and no allocation, on either side. The thread that sends and receives runs under a seccomp filter that kills
 * it for any system call but the one that ends it, and the one that waits for the progress thread: who loses its core for
 * milliseconds is visited by that, and meets it if it loses its core in turn. Allocations are counted by standing in front of
 * malloc.
 */
#include "core/core.h"
#include "sennit/sennit.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
static _Atomic int counting, allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTED 1
void *malloc(size_t size)
{
	allocations += counting;
	return __libc_malloc(size);
}

void *calloc(size_t nmemb, size_t size)
{
	allocations += counting;
	return __libc_calloc(nmemb, size);
}

void *realloc(void *ptr, size_t size)
{
	allocations += counting;
	return __libc_realloc(ptr, size);
}
#endif

struct shared {
	uint8_t addr[2][SN_ADDR_MAX];
	size_t len[2];
	_Atomic int ready, done;
};

static void forbid_system_calls(const sn_ep *ep)
{
	const struct sn_lock *l = &ep->lock;
	uint64_t lock = (uintptr_t)(l->biased ? &l->visitor : &l->word);
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)lock, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(lock >> 32), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog prog = {sizeof(filter) / sizeof(filter[0]), filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(77);
}

static void complete(sn_ep *ep, sn_req *req)
{
	sn_completion c;
	int rc;
	while ((rc = sn_test(ep, req, &c)) == SN_ERR_AGAIN)
		;
	if (rc || c.status)
		_exit(2);
}

/* Once over and back for each size; posted first and unexpected first alternate. */
static void ping_pong(sn_ep *ep, sn_peer peer, int me, int laps)
{
	static uint8_t out[4096], in[4096];
	for (int i = 0; i < laps; i++) {
		size_t n = (size_t)(i * 97) % sizeof(out);
		sn_req *s, *r;
		if (sn_irecv(ep, peer, in, sizeof(in), 1, UINT64_MAX, &r))
			_exit(3);
		if (me == 1)
			complete(ep, r);
		if (sn_isend(ep, peer, out, n, 1, &s))
			_exit(4);
		complete(ep, s);
		if (me == 0)
			complete(ep, r);
	}
}

static int run_process(struct shared *sh, int me)
{
	sn_ep *ep;
	sn_peer peer;
	alarm(150);
	sh->len[me] = SN_ADDR_MAX;
	if (sn_ep_open(NULL, &ep) || sn_ep_address(ep, sh->addr[me], &sh->len[me]))
		return 5;
	sh->ready++;
	while (sh->ready < 2)
		usleep(100);
	if (sn_peer_add(ep, sh->addr[!me], sh->len[!me], &peer))
		return 6;
	ping_pong(ep, peer, me, 300); /* connects, grows the pools */
	usleep(50000);		      /* both sides have each other's whole handshake */
	ping_pong(ep, peer, me, 300);
	forbid_system_calls(ep);
	counting = 1;
	ping_pong(ep, peer, me, 2000);
	counting = 0;
	sh->done++;
	while (sh->done < 2)
		; /* even this wait may not call the system */
	syscall(SYS_exit_group, allocations ? 8 : 0);
	return 0;
}

static void an_eager_message_costs_no_system_call_and_no_allocation(void **state)
{
#ifndef COUNTED
	print_message("built with a sanitizer, which makes system calls of its own\n");
	skip();
#endif
	struct shared *sh =
		mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(sh != MAP_FAILED);
	fflush(NULL);
	for (int i = 0; i < 2; i++)
		if (fork() == 0)
			_exit(run_process(sh, i));
	for (int i = 0; i < 2; i++) {
		int st;
		wait(&st);
		assert_int_equal(st, 0);
	}
	munmap(sh, sizeof(*sh));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_eager_message_costs_no_system_call_and_no_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

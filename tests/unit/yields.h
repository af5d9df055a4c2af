/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system call sched_yield, counted: a seccomp filter makes a signal of it, whose handler counts it and then makes it.
 * Wants _GNU_SOURCE.
 */
#ifndef SN_TESTS_YIELDS_H
#define SN_TESTS_YIELDS_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define YIELDS_PASS                                                                                          \
	0x5e441700u /* the first argument, which this call has not, of one that the filter lets through */

static _Thread_local volatile unsigned yields_counted; /* of this thread */

static inline void yields_note(int number, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	(void)number;
	(void)info;
	yields_counted = yields_counted + 1;
	long rc = syscall(SYS_sched_yield, YIELDS_PASS);
#ifdef __x86_64__
	u->uc_mcontext.gregs[REG_RAX] = rc;
#else
	u->uc_mcontext.regs[0] = (unsigned long long)rc;
#endif
}

/* From now on, in this thread and those that it starts. False: this kernel cannot. */
static inline bool yields_count(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, YIELDS_PASS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	struct sigaction act = {.sa_sigaction = yields_note, .sa_flags = SA_SIGINFO | SA_RESTART};
	return !sigaction(SIGSYS, &act, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#endif

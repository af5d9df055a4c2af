/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals of threads of our own. */
#ifndef SN_BASE_SIGNALS_H
#define SN_BASE_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/*
 * All but those that a thread causes by itself. The program's handler of these may be one that serves faults (a collector's write
 * barrier, a pager), and is to be called for ours as well; blocked, they are the end of the process. Others are the
 * program's threads' affair.
 */
static inline void sn_signals_of_others(sigset_t *set)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigfillset(set);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(set, own[i]);
}

#endif

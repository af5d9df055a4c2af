/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of sennit's own. */
#ifndef SN_THREAD_H
#define SN_THREAD_H

#include <pthread.h>

/*
 * Start one that hears no signals, which are for the application's threads, with a small stack. Returns what
 * pthread_create() does.
 */
int sn_thread_start(pthread_t *thread, void *(*run)(void *arg));

#endif

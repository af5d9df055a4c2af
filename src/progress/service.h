/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service thread: one for each process that has a local endpoint. It sleeps in epoll on listeners and on the sockets
 * and pidfds of peers, so it costs nothing until somebody connects or dies, and it never touches an endpoint: what it
 * learns goes to the rail's mailbox.
 *
 * One lock, the service lock, guards everything that hangs on a watch or a timer: connections, mailboxes, the lists of
 * both. Handlers run with it held; endpoint threads take it to start, answer or end a connection. It is held for a few
 * system calls at most, none of which blocks. An event that was read just before its watch was removed finds another
 * generation in the table and is dropped, so a watch may be freed as soon as it is removed.
 *
 * fork: the lock is held across it, so the child finds these structures whole. There the thread does not exist and
 * every descriptor is closed (a socket kept open by a child would hide its parent's death); the child may open
 * endpoints of its own.
 */
#ifndef SN_SERVICE_H
#define SN_SERVICE_H

#include "base/base.h"

struct sn_watch {
	int fd; /* closed by sn_service_unwatch; -1: none */
	uint32_t index;
	void (*ready)(struct sn_watch *w, uint32_t events);
};

struct sn_timer {
	struct sn_list link;
	uint64_t when; /* ns, monotonic; 0: not armed */
	void (*fire)(struct sn_timer *t);
};

struct sn_fork_hook {
	struct sn_list link;
	void (*in_child)(struct sn_fork_hook *hook); /* async-signal-safe */
};

/* Take, and give back, a reference to the thread (and the bell). The last one ends it. Not with the lock held. */
int sn_service_open(struct sn_fork_hook *hook);
void sn_service_close(struct sn_fork_hook *hook);
void sn_service_lock(void);
void sn_service_unlock(void);

/* All with the lock held. */
int sn_service_watch(struct sn_watch *w, int fd, uint32_t events);
void sn_service_unwatch(struct sn_watch *w);
void sn_service_arm(struct sn_timer *t, uint64_t delay_ns);
void sn_service_disarm(struct sn_timer *t);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_NET_PORTS_H
#define SN_NET_PORTS_H

#include "net/net.h"

/* Opens at most SN_NET_RAILS of them. Negative: what is asked for is not to be had; *ports are open all the same. */
int sn_net_ports_open(struct sn_net_cfg_port *port, unsigned *ports);

#define SN_NET_PORTS_FDS (SN_NET_RAILS * SN_NET_FDS)
/* What is to be watched of all of them; returns how many. */
unsigned sn_net_ports_fds(const struct sn_net_cfg_port *ports, unsigned count, int fd[SN_NET_PORTS_FDS]);
/* Have them watched by this epoll descriptor, once, or no more (EPOLL_CTL_ADD, _DEL). Negative: it cannot be. */
int sn_net_ports_watch(const struct sn_net_cfg_port *ports, unsigned count, int epoll, int how);
/* After fork: closes what a child must not keep open for its parent. Async-signal-safe. */
void sn_net_ports_in_child(const struct sn_net_cfg_port *ports, unsigned count);
/* Take the shots out of it, so that it is quiet again. */
void sn_net_ports_rang(int epoll);
/*
 * A socket whose device goes down has an error pending, and is ready to be read for as long as no call takes it: one
 * that is read through its ring, and by which nothing is sent, for good. What the error was, sending tells
 * (sn_net_driver.trouble).
 */
void sn_net_error_taken(int fd);

#endif

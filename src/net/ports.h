/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_NET_PORTS_H
#define SN_NET_PORTS_H

#include "net/net.h"

/* Opens at most SN_NET_RAILS of them. Negative: what is asked for is not to be had; *ports are open all the same. */
int sn_net_ports_open(struct sn_net_cfg_port *port, unsigned *ports);

#define SN_NET_PORTS_FDS (SN_NET_RAILS * SN_NET_FDS)
/* What is to be watched of all of them; returns how many. */
unsigned sn_net_ports_fds(const struct sn_net_cfg_port *ports, unsigned count, int fd[SN_NET_PORTS_FDS]);

#endif

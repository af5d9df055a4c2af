/* SPDX-License-Identifier: BSD-3-Clause */
/* The network rail's rows of the live view. */
#ifndef SN_NET_SHOW_H
#define SN_NET_SHOW_H

#include "net/net.h"

void sn_net_show(struct sn_net *n);	   /* bring the rows up to date, now and then */
void sn_net_unshow(struct sn_net_link *l); /* sn_net_cfg.unshow */

#endif

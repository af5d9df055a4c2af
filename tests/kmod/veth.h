/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts in one machine: a pair of veth interfaces, one end here, one in another process's network namespace. */
#ifndef KT_VETH_H
#define KT_VETH_H

#include <sys/types.h>

/* Makes NAME here and PEER in the namespace of this process, both with this MTU, and brings NAME up. */
void kt_veth_make(const char *name, const char *peer, pid_t where, unsigned mtu);
void kt_link_up(const char *name);
void kt_link_down(const char *name);
void kt_link_move(const char *name, pid_t where); /* into that process's network namespace */
void kt_link_delete(const char *name);
/* Index and MAC address of an interface. */
unsigned kt_link_index(const char *name, unsigned char mac[6]);

#endif

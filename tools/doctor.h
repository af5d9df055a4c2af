/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SN_DOCTOR_H
#define SN_DOCTOR_H

#include <stdbool.h>

enum sn_health {
	SN_HEALTH_OK,
	SN_HEALTH_LIMITED, /* sennit works, but slower or only for some */
	SN_HEALTH_MISSING, /* a path, or all of sennit, does not work */
};

/* Print one finding. fix: what the user may change, or NULL. */
void sn_doctor_report(enum sn_health health, const char *what, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

void sn_doctor_kernel(void); /* doctor_kernel.c: what the kernel allows between this user's processes */
void sn_doctor_limits(void); /* doctor_limits.c: descriptors, memory, processors, namespaces */
void sn_doctor_engine(void); /* doctor_engine.c: a message through sennit itself, and how it was copied */
void sn_doctor_net(void);    /* netinfo.c: interfaces, rights, buffers, offloads */
void sn_doctor_mpi(void);    /* doctor_mpi.c: libfabric, the provider, and the MPIs at hand */

/* Another host, asked over rsh (a command like ssh): does sennit answer there, and do frames come through? doctor_host.c */
void sn_doctor_host(const char *rsh, const char *host);
int sn_doctor_answer(void); /* the other half, over there: an exit status */

struct sn_iface;
int sn_tool_first_iface(struct sn_iface *out,
			bool *ether); /* netinfo.c: the one that the setting names first */

#endif

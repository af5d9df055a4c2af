/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job that never begins. MPICH's and Intel's launcher (hydra) does not end a job of which a rank ends before it has
 * joined, as it does on a host that has no sennit, and whatever such a rank says carries no host's name. The ranks of
 * all other hosts then wait in MPI_Init for its address, for ever. So where an endpoint is ready and no other's
 * address has come for as long as a peer may be silent, the first rank of each host says so, with the host's name:
 * the one that is missing there is the one to look at. The job is not ended: perhaps somebody is still typing a
 * password.
 */
#include "base/conf.h"
#include "base/launched.h"
#include "base/log.h"
#include "ofi.h"
#include "progress/service.h"

#include <string.h>
#include <unistd.h>

static struct sn_timer timer;
static struct sn_fork_hook hook;
static uint8_t own[SN_ADDR_MAX];
static _Atomic int stage; /* 0: nothing is waited for yet, 1: it is, 2: no more */

static void late(struct sn_timer *t)
{
	char host[65] = "this host";

	gethostname(host, sizeof(host) - 1);
	sn_warn("%s: ready for %lld ms, and no rank of another host has come. A host of this job that does "
		"not say the same "
		"has no sennit, or its ranks ended before they joined: `sennit doctor HOST`",
		host, (long long)sn_conf_num(SN_CONF_PEER_TIMEOUT));
}

static void in_child(struct sn_fork_hook *h)
{
	(void)h;
	atomic_store(&stage, 2);
}

void sn_ofi_start_waits(sn_ep *ep)
{
	size_t len = sizeof(own);
	int before = 0;
	struct sn_launched job = sn_launched();
	bool first = job.hydra && job.rank == 0 && job.here > 0 && job.all > job.here;

	if (!first || !atomic_compare_exchange_strong(&stage, &before, 1))
		return;
	sn_ep_address(ep, own, &len);
	timer.fire = late;
	hook.in_child = in_child;
	if (sn_service_open(&hook)) {
		atomic_store(&stage, 2);
		return;
	}
	sn_service_lock();
	sn_service_arm(&timer, (uint64_t)sn_conf_num(SN_CONF_PEER_TIMEOUT) * 1000000u);
	sn_service_unlock();
}

void sn_ofi_start_over(const uint8_t *addr)
{
	int before = 1;

	if (atomic_load(&stage) != 1 || (addr && memcmp(addr, own, sizeof(own)) == 0))
		return;
	if (!atomic_compare_exchange_strong(&stage, &before, 2))
		return;
	sn_service_lock();
	sn_service_disarm(&timer);
	sn_service_unlock();
	sn_service_close(&hook);
}

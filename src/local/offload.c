/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from a peer's shareable heap, which is mapped here, by the copy engine's queues (copy/dsa.h): the receiver hands
 * the parts over and looks after them when it is polled, so the processor is free meanwhile. One of the learned ways: it
 * carries messages where it is the cheapest. The engine reaches mappings only, so what lies elsewhere goes other ways.
 */
#include "copy/dsa.h"
#include "local/local.h"

void sn_offload_open(struct sn_rail *rail)
{
	rail->dsa = sn_dsa_acquire();
}

void sn_offload_close(struct sn_rail *rail)
{
	if (rail->dsa)
		sn_dsa_release(rail->dsa);
	rail->dsa = NULL;
}

bool sn_offload_may(const struct sn_rail *rail, uint64_t len)
{
	return rail->dsa && len >= SN_DSA_MIN && sn_dsa_queues(rail->dsa);
}

void sn_offload_begin(struct sn_link *link, struct sn_rdv *rdv)
{
	rdv->engine = sn_dsa_copy_start(link->rail->dsa, rdv->iov, rdv->iov_count, rdv->segs.at,
					rdv->segs.count, rdv->want);
	if (!rdv->engine)
		rdv->way = SN_WAY_SINGLE;
}

bool sn_offload_slice(struct sn_link *link, struct sn_rdv *rdv)
{
	uint64_t by_engine;
	if (!sn_dsa_copy_poll(rdv->engine, &by_engine))
		return true;
	link->rail->count.copy_engine_bytes += by_engine;
	link->rail->count.copy_mapped_bytes += rdv->want - by_engine;
	rdv->done = rdv->want;
	sn_offload_leave(rdv);
	return true;
}

void sn_offload_leave(struct sn_rdv *rdv)
{
	if (rdv->engine)
		sn_dsa_copy_end(rdv->engine);
	rdv->engine = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large messages by the kernel module (copy/kmod.h), where both processes have it: its copy needs no right to trace the
 * peer, walks no page tables for memory that was named before, and both sides may work at one copy.
 *
 * A sender announces its memory together with the module's name for it. The receiver copies from there, slice by slice;
 * from SHARE_FROM on it opens a copy that both may run (KSHARE), and the sender, if it is inside the library, takes pieces
 * too. Receives on the board carry a name as well, so a sender that claims one copies into it.
 *
 * Whether a message goes this way is learned as for the other ways (way.c): the module is tried first, and stays where it is
 * the cheapest.
 *
 * Any refusal, even in mid-message, ends the use of the module for this message: the rest goes the next way from the byte
 * reached (a shared copy, whose bytes come in no order, from the start, when no piece of it is on its way any more). It
 * is counted in kmod_fallbacks and never an error; what is wrong with the memory itself the next way finds out.
 *
 * Budget: a buffer that was used before is named without a system call; one call for each 4 MiB copied; three more, and
 * one record, for a message that is shared.
 */
#include "base/conf.h"
#include "base/log.h"
#include "copy/kmod.h"
#include "local/local.h"

#define SHARE_FROM (512u << 10)

static bool wanted(void)
{
	int64_t copy = sn_conf_num(SN_CONF_COPY);
	return copy == SN_COPY_AUTO || copy == SN_COPY_KMOD;
}

void sn_kcopy_open(struct sn_rail *rail)
{
	if (!wanted())
		return;
	rail->kmod = sn_kmod_acquire();
	if (rail->kmod) {
		atomic_store_explicit(&rail->board->module, 1, memory_order_release);
		return;
	}
	if (sn_conf_num(SN_CONF_COPY) == SN_COPY_KMOD)
		sn_warn("the kernel module is not used: %s; large messages are streamed", sn_last_error());
	else
		sn_debug("the kernel module is not used: %s", sn_last_error());
	sn_fail_forget();
}

void sn_kcopy_close(struct sn_rail *rail)
{
	if (rail->kmod)
		sn_kmod_release(rail->kmod);
	rail->kmod = NULL;
}

struct sn_kmod_region *sn_kcopy_name(struct sn_rail *rail, const struct iovec *iov, uint32_t count,
				     bool write)
{
	struct sn_kmod_region *r;
	if (!rail->kmod)
		return NULL;
	if (sn_kmod_region_get(rail->kmod, iov, count, write ? SN_KMOD_WRITE : SN_KMOD_READ, &r) != SN_OK) {
		rail->count.kmod_fallbacks++;
		return NULL;
	}
	if (sn_kmod_region_prepare(rail->kmod, r))
		rail->count.system_calls += 2; /* it was declared just now */
	return r;
}

void sn_kcopy_unname(struct sn_rail *rail, struct sn_kmod_region **r)
{
	if (*r && rail->kmod)
		sn_kmod_region_put(rail->kmod, *r);
	*r = NULL;
}

uint64_t sn_kcopy_handle(const struct sn_kmod_region *r)
{
	return r ? r->handle : 0;
}

/* ---- the receiver -------------------------------------------------------------------------------------------- */

/* Nothing of the message uses the module any more. */
void sn_kcopy_leave(struct sn_link *link, struct sn_rdv *rdv)
{
	if (rdv->kshare) {
		sn_kmod_share_close(link->rail->kmod, rdv->kshare);
		link->rail->count.system_calls++;
	}
	rdv->kshare = rdv->region = 0;
	sn_kcopy_unname(link->rail, &rdv->named);
}

void sn_kcopy_begin(struct sn_link *link, struct sn_rdv *rdv)
{
	struct sn_rail *rail = link->rail;
	struct iovec parts[SN_IOV_MAX];
	uint64_t covered;
	if (rdv->want < SHARE_FROM)
		return;
	uint32_t count = sn_iov_slice(rdv->iov, rdv->iov_count, 0, rdv->want, parts, SN_IOV_MAX, &covered);
	rdv->named = sn_kcopy_name(rail, parts, count, true);
	if (!rdv->named)
		return; /* this process copies alone */
	rail->count.system_calls++;
	if (sn_kmod_share_open(rail->kmod, rdv->named, rdv->region, rdv->want, &rdv->kshare) != SN_OK) {
		rdv->kshare = 0;
		sn_kcopy_unname(rail, &rdv->named);
		return;
	}
	sn_send_control(link, SN_REC_KSHARE, 0, rdv->sender, rdv->kshare, NULL, 0);
}

bool sn_kcopy_slice(struct sn_link *link, struct sn_rdv *rdv)
{
	struct sn_rail *rail = link->rail;
	uint64_t mine = 0, done = 0;
	int rc;
	rail->count.system_calls++;
	if (rdv->kshare) {
		rc = sn_kmod_share_run(rail->kmod, rdv->kshare, &mine, &done);
		if (rc == SN_OK)
			rdv->done = done; /* not yet whole, and none of it mine: the sender has the rest */
	} else {
		uint64_t n = SN_MIN_OF(rdv->want - rdv->done, (uint64_t)SN_CMA_SLICE);
		rc = sn_kmod_read(rail->kmod, rdv->region, rdv->done, rdv->iov, rdv->iov_count, rdv->done, n,
				  &mine);
		rdv->done += mine;
	}
	rail->count.copy_kmod_bytes += mine;
	if (sn_likely(rc == SN_OK))
		return true;
	sn_debug("%s: %s; the rest goes another way", sn_core_peer_name(link->peer).text, sn_last_error());
	sn_fail_forget();
	rail->count.kmod_fallbacks++;
	if (rc == SN_ERR_FAULT) { /* should it come to streaming, then with care */
		rdv->guard = true;
		rail->count.faults++;
	}
	if (rdv->kshare)
		rdv->done = 0;
	sn_kcopy_leave(link, rdv);
	return false;
}

/* ---- the sender ---------------------------------------------------------------------------------------------- */

int sn_kcopy_share(struct sn_link *link, uint64_t id, uint64_t share)
{
	struct sn_send *s = sn_slot_find(&link->send_slots, id);
	if (!s || s->state != SN_SEND_ANNOUNCED || !share)
		return sn_fail(SN_ERR_PROTO, "a shared copy of a message that was not announced");
	if (!link->rail->kmod || !s->region)
		return 0; /* the receiver copies alone */
	s->kshare = share;
	s->state = SN_SEND_KCOPY;
	sn_list_del(&s->slot.list);
	sn_list_add_tail(&link->sends, &s->slot.list);
	sn_link_busy(link);
	return 0;
}

/* A few pieces. When none is left, or the receiver has given the copy up, it says the rest. */
void sn_kcopy_help(struct sn_link *link, struct sn_send *s)
{
	uint64_t mine, done;
	link->rail->count.system_calls++;
	int rc = sn_kmod_share_run(link->rail->kmod, s->kshare, &mine, &done);
	link->rail->count.copy_kmod_bytes += mine;
	if (rc == SN_OK && mine)
		return;
	s->state = SN_SEND_ANNOUNCED;
	sn_list_del(&s->slot.list);
}

bool sn_kcopy_may_claim(const struct sn_link *link)
{
	return link->rail->kmod && link->board &&
	       atomic_load_explicit(&link->board->module, memory_order_acquire);
}

/* Copies into a claimed receive. False: not all of it; *at says how far. */
bool sn_kcopy_write(struct sn_link *link, uint64_t region, const struct iovec *iov, uint32_t iov_count,
		    uint64_t len, uint64_t *at)
{
	struct sn_local_counters *count = &link->rail->count;
	uint64_t done;
	for (*at = 0; *at < len; *at += done) {
		uint64_t n = SN_MIN_OF(len - *at, (uint64_t)SN_CMA_SLICE);
		count->system_calls++;
		int rc = sn_kmod_write(link->rail->kmod, region, *at, iov, iov_count, *at, n, &done);
		count->copy_claim_bytes += done;
		count->copy_kmod_bytes += done;
		if (rc == SN_OK)
			continue;
		*at += done;
		count->kmod_fallbacks++;
		return false;
	}
	return true;
}

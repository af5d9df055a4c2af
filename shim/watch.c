/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"
#include "holder.h"

atomic_bool sn_mpi_status_seen;

struct entry *sn_watch_seen(struct entry *table, struct sn_kin *kin, const struct call *c)
{
	struct entry *e = sn_seen_place(table, c);
	bool alike = sn_kin_again(kin, c), again = e->seen && same(&e->call, c);
	if (!again)
		*e = (struct entry){.call = *c, .seen = true};
	e->known = false;
	return again || alike ? e : NULL;
}

bool sn_watch_begin(struct entry *e)
{
	if (e->turn < 0) {
		e->turn++;
		return false;
	}
	struct sn_mine *m = sn_mpi_thread.mine;
	const struct sn_shim_quick *q = m->watching ? NULL : quick();
	if (!q)
		return false;
	in_vain(e);
	m->watching = true;
	sn_seen_forget();
	m->lesson = (struct sn_shim_lesson){0};
	q->learn(&m->lesson);
	return true;
}

struct entry *sn_watch_probe(const struct call *c)
{
	struct entry *e = sn_seen_place(sn_mpi_thread.mine->probes, c);
	if (!e->seen || !same(&e->call, c)) {
		*e = (struct entry){.call = *c, .seen = true};
		return NULL;
	}
	e->known = false;
	return sn_watch_begin(e) ? e : NULL;
}

void sn_quick_watched(void)
{
	sn_mpi_thread.mine->watching = false;
	const struct sn_shim_quick *q = atomic_load(&sn_mpi_shim.quick);
	q->learn(NULL);
}

bool sn_quick_watch(struct sn_shim_lesson *other)
{
	const struct sn_shim_quick *q = quick();
	if (!q || sn_mpi_thread.mine->watching)
		return false;
	sn_mpi_thread.mine->watching = true;
	q->learn(other);
	return true;
}

static void learn(struct entry *e, const struct sn_shim_way *way)
{
	e->known = true;
	e->turn = SN_QUICK_PERIOD - 1;
	e->fails = 0;
	e->way = *way;
}

void sn_learn_send(struct entry *e, const void *buf)
{
	const struct sn_shim_lesson *l = &sn_mpi_thread.mine->lesson;
	if (l->sent != buf && (l->send.len || e->call.count))
		return;
	learn(e, &l->send);
	e->way.exactly = e->way.bits; /* as if it were a receive's: for its kin */
	sn_kin_learn(sn_mpi_thread.mine->kin_sends, e);
}

void sn_learn_recv(struct entry *e, const void *buf, const void *status)
{
	const struct call *c = &e->call;
	const struct sn_shim_lesson *l = &sn_mpi_thread.mine->lesson;
	if (l->over && l->recv.len <= SN_SHIM_LONGEST && (l->received == buf || (!l->recv.len && !c->count)))
		learn(e, &l->recv);
	e->tag = c->tag == sn_mpi_any_tag() && wanted(status) ? status_head(status)->tag : c->tag;
	e->known &= e->tag >= 0;
	if (e->known && wanted(status))
		sn_mpi_status_seen = e->known = status_is(status, c->peer, e->tag, l->got);
	if (e->known)
		sn_kin_learn(sn_mpi_thread.mine->kin_recvs, e);
}

/*
 * A message that has a bit which was not asked for is one that the MPI has to answer, when it is received. Of any tag:
 * that stands in the bits as it is (kin.h).
 */
void sn_learn_probe(struct entry *e, const void *status)
{
	const struct sn_shim_lesson *l = &sn_mpi_thread.mine->lesson;
	if (!l->over || !sn_watch_asked_once(l))
		return;
	learn(e, &l->recv);
	bool any = e->call.tag == sn_mpi_any_tag();
	e->tag = any ? status_head(status)->tag : e->call.tag;
	e->known = e->tag >= 0 && status_is(status, e->call.peer, e->tag, l->got) &&
		   l->recv.exactly == l->recv.bits + (any ? (uint64_t)e->tag : 0);
	if (e->known)
		sn_mpi_status_seen = true;
}

void sn_learn_asked(struct entry *e)
{
	const struct sn_shim_lesson *l = &sn_mpi_thread.mine->lesson;
	if (sn_watch_asked_once(l))
		learn(e, &l->recv);
}

__attribute__((noinline)) bool sn_seen_in_turn_again(struct entry *e)
{
	if (sn_elsewhere_is_due())
		return false;
	if (e->turn > 0) {
		e->turn--;
		return true;
	}
	if (++e->turn <= 0)
		return false;
	uint64_t now = sn_quick_now_ns();
	bool again = now - e->since < SN_QUICK_NS;
	if (!again)
		e->since = now;
	e->turn = SN_QUICK_PERIOD - 1;
	return again;
}

bool sn_seen_goes_on(void)
{
	const struct sn_shim_quick *q = quick();
	struct sn_mine *m = sn_mpi_thread.mine;
	sn_seen_forget();
	if (!q || m->watching)
		return false;
	m->watching = true;
	q->learn(&m->lesson);
	return true;
}

/* Another call may have taken the place of the receive in the meantime: nothing is learned then. */
void sn_seen_ends(bool well, const void *status)
{
	struct sn_mine *m = sn_mpi_thread.mine;
	struct entry *e = sn_seen_place(m->recvs, &m->awaited);
	sn_quick_watched();
	if (well && e->seen && same(&e->call, &m->awaited) && m->lesson.recvs == 1 && !m->lesson.sends)
		sn_learn_recv(e, m->awaited_in, status);
}

/* ---- late ---- */

/* Of many calls this is the one that was late. If each is, the next ones are the MPI's. */
static void late_of_kin(struct entry *kin, const struct call *c, const struct sn_shim_way *way, int tag)
{
	struct entry *e = sn_seen_place(sn_mpi_thread.mine->recvs, c);
	*e = (struct entry){.call = *c, .seen = true, .known = true, .tag = tag, .way = *way};
	in_vain(e);
	if (kin->fails < SN_KIN_LATE)
		kin->fails++;
	else
		kin->turn = -SN_KIN_PAUSE;
}

void sn_seen_late(struct entry *e, const struct call *c, const struct sn_shim_way *way, int tag)
{
	if (e->kin && sn_mpi_thread.mine)
		late_of_kin(e, c, way, tag);
	else if (!e->kin && same(&e->call, c))
		in_vain(e);
}

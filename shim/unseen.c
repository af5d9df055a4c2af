/* SPDX-License-Identifier: BSD-3-Clause */
#include "unseen.h"
#include "holder.h"
#include "requests.h"
#include "watch.h"

#define SPARED 64

static int do_by_mpi(const struct operation *o)
{
	const struct call *out = &o->out, *in = &o->in;
	union function mpi = SN_FUNCTION(o->slowly);
	switch (o->call) {
	case SEND: return mpi.send(o->from, out->count, out->type, out->peer, out->tag, out->comm);
	case ISEND:
		return mpi.isend(o->from, out->count, out->type, out->peer, out->tag, out->comm, o->request);
	case RECV: return mpi.recv(o->to, in->count, in->type, in->peer, in->tag, in->comm, o->status);
	case IRECV: return mpi.irecv(o->to, in->count, in->type, in->peer, in->tag, in->comm, o->request);
	default:
		return mpi.both(o->from, out->count, out->type, out->peer, out->tag, o->to, in->count,
				in->type, in->peer, in->tag, in->comm, o->status);
	}
}

int sn_unseen_slowly(const struct operation *o)
{
	if (o->request) /* it only begins */
		return do_by_mpi(o);
	sn_requests_before();
	return sn_requests_after(do_by_mpi(o));
}

void sn_unseen_given(const void *request)
{
	struct sn_mine *m = sn_mpi_thread.mine;
	if (m && m->pending && m->pending == sn_mpi_nth(request, 0))
		m->pending = 0;
}

int sn_unseen_by_mpi(const struct operation *o)
{
	int rc = sn_unseen_slowly(o);
	if (o->request)
		sn_unseen_given(o->request);
	return rc;
}

static __attribute__((noinline)) int do_watched(const struct operation *o)
{
	bool sends = o->call != RECV && o->call != IRECV, recvs = o->call >= RECV;
	struct sn_mine *m = sn_mpi_thread.mine;
	struct entry *out = sends ? sn_watch_seen(m->sends, m->kin_sends, &o->out) : NULL;
	struct entry *in = recvs ? sn_watch_seen(m->recvs, m->kin_recvs, &o->in) : NULL;
	/*
	 * The first of several is that which a program asks for first, most often, before it asks for others and what
	 * has come is read.
	 */
	if (o->call == IRECV && m->pending && ++m->spared % SPARED)
		return sn_unseen_by_mpi(o);
	if (!(out || !sends) || !(in || !recvs) || !sn_watch_begin(recvs ? in : out))
		return sn_unseen_by_mpi(o);
	if (sends)
		sn_kin_watched(m->kin_sends, &o->out);
	if (recvs)
		sn_kin_watched(m->kin_recvs, &o->in);
	/*
	 * How a status is written is seen where the program wants none, too: a rank that only sends asks for none.
	 * And a tag is read in it.
	 */
	uint64_t unused[8];
	struct operation watched_with = *o;
	if (recvs && o->call != IRECV && !wanted(o->status) &&
	    (!status_seen() || o->in.tag == sn_mpi_any_tag()))
		watched_with.status = unused;
	int rc = sn_unseen_slowly(&watched_with);
	if (o->request)
		sn_unseen_given(o->request);
	sn_quick_watched();
	const struct sn_shim_lesson *l = &m->lesson;
	if (!rc && l->sends == sends && l->recvs == recvs) {
		if (out)
			sn_learn_send(out, o->from);
		/*
		 * An MPI_Irecv that is over when it returns has brought what its MPI has not read yet, and may have
		 * to answer, in whatever call. It teaches if the message has no bit that was not asked for, which is
		 * where MPIs mark those, and if nothing is read before the call that ends it (which the provider
		 * sees).
		 */
		if (o->call == IRECV) {
			m->awaited = o->in;
			m->awaited_in = o->to;
			m->pending =
				l->over && l->recv.exactly != l->recv.bits ? 0 : sn_mpi_nth(o->request, 0);
		} else if (in) {
			sn_learn_recv(in, o->to, watched_with.status);
		}
	}
	return rc;
}

/*
 * To nobody nothing is sent: what leaves meanwhile is the MPI's answer to somebody. And from somebody: else its status
 * cannot be known before.
 */
static bool may_be_known(const struct operation *o)
{
	bool sends = o->call != RECV && o->call != IRECV, recvs = o->call >= RECV;
	return (!sends || o->out.peer >= 0) &&
	       (!recvs || (o->in.peer >= 0 && (o->in.tag >= 0 || o->in.tag == sn_mpi_any_tag())));
}

int sn_unseen_do(const struct operation *o)
{
	return quick() && may_be_known(o) ? do_watched(o) : sn_unseen_by_mpi(o);
}

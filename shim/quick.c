/* SPDX-License-Identifier: BSD-3-Clause */
#include "beginning.h"
#include "collective.h"
#include "flat.h"
#include "forgotten.h"
#include "here.h"
#include "holder.h"
#include "matched.h"
#include "mended.h"
#include "ops.h"
#include "packed.h"
#include "probed.h"
#include "requests.h"
#include "unseen.h"
#include "varying.h"
#include "watch.h"
#include <pthread.h>
#include <string.h>

#define LATE   3 /* receives in vain, one after the other */
#define ALWAYS inline __attribute__((always_inline))

/* The MPI's, or a tool's: without a P, and with it. */
static union function next[2][CALLS];

static __attribute__((noinline)) struct entry *find_on(struct entry *table, unsigned at, struct sn_kin *kin,
						       const struct call *c)
{
	struct entry *e = sn_seen_beside(table, at, c);
	return e ? e : sn_kin_find(kin, c);
}

/* NULL: it is not known. */
static ALWAYS struct entry *find(struct entry *table, struct sn_kin *kin, const struct call *c)
{
	unsigned at = sn_seen_set(c);
	return likely(sn_seen_is(&table[at], c)) ? &table[at] : find_on(table, at, kin, c);
}

static ALWAYS struct entry *find_send(const struct call *c)
{
	return find(sn_mpi_thread.mine->sends, sn_mpi_thread.mine->kin_sends, c);
}

static ALWAYS struct entry *find_recv(const struct call *c)
{
	return find(sn_mpi_thread.mine->recvs, sn_mpi_thread.mine->kin_recvs, c);
}

static inline struct call call_of(const void *buf, int count, handle type, int peer, int tag, handle comm)
{
	return (struct call){type, comm, (uintptr_t)buf >> SN_QUICK_REGION, count,
			     peer, tag,	 sn_freed(type) + sn_freed(comm)};
}

bool sn_quick_serial(void)
{
	return threads() == ONE;
}

bool sn_quick_possible(void)
{
	return threads() != NOTHING;
}

const struct sn_shim_quick *sn_quick(void)
{
	const struct sn_shim_quick *q = quick();
	return q && sn_elsewhere_is_due() ? NULL : q;
}

/* ---- types with holes (packed.h) ---- */

static int send_bytes(struct call c, const void *bytes, const union function *slowly);
static int recv_bytes(struct call c, void *bytes, void *status, const union function *slowly);

static inline struct call bytes_of(const struct sn_packed *p, const struct call *c)
{
	return call_of(p->at, p->len, sn_mpi_handle(SN_BYTE), c->peer, c->tag, c->comm);
}

/* MPI_Isend, of what leaves at once; MPI_Irecv, of what is short. */
static bool later_quick(bool in, const struct call *c, struct sn_packed *p, void *request)
{
	const struct sn_shim_quick *q = quick();
	struct entry *e = !q ? NULL : in ? find_recv(c) : find_send(c);
	if (!e || !sn_seen_in_turn(e))
		return false;
	if (in)
		return sn_requests_post(q, e, p->at, request);
	bool left = p->len <= (int)SN_PACKED_SOON && q->send(&e->way, p->at);
	if (left)
		sn_requests_complete(request);
	return left;
}

static int as_it_is(const struct operation *o)
{
	int rc = sn_unseen_do(o);
	if (!rc && o->call == IRECV)
		sn_forgotten_begun(o->in.type, o->request);
	return rc;
}

static int later(const struct operation *o)
{
	bool in = o->call == IRECV;
	struct sn_packed p;
	if (!quick() || !sn_requests_about() ||
	    !sn_packed_later(&p, in, in ? o->to : o->from, in ? &o->in : &o->out))
		return as_it_is(o);
	struct call c = bytes_of(&p, in ? &o->in : &o->out);
	if (sn_requests_are_ready() && later_quick(in, &c, &p, o->request)) {
		sn_packed_quick(&p, o->request);
		return 0;
	}
	if (!sn_packed_slowly(&p))
		return as_it_is(o);
	handle real = 0;
	struct operation bytes = {o->call,	    .out = c,		.in = c, .from = p.at, .to = p.at,
				  .request = &real, .slowly = o->slowly};
	int rc = p.len > (int)SN_PACKED_SOON ? sn_unseen_by_mpi(&bytes) : sn_unseen_do(&bytes);
	sn_packed_begun(&p, rc, sn_mpi_nth(&real, 0), o->request);
	return rc;
}

static __attribute__((noinline)) int seldom_out(int call, const void *buf, int count, handle type, int to,
						int tag, handle comm, void *request,
						const union function *slowly)
{
	struct operation o = {call, .out = call_of(buf, count, type, to, tag, comm), .from = buf,
			      .request = request, .slowly = slowly};
	struct sn_packed p;
	if (call == ISEND)
		return later(&o);
	if (!quick() || !sn_packed_out(&p, buf, &o.out))
		return sn_unseen_do(&o);
	int rc = send_bytes(bytes_of(&p, &o.out), p.at, slowly);
	sn_packed_sent(&p);
	return rc;
}

static __attribute__((noinline)) int seldom_in(int call, void *buf, int count, handle type, int from, int tag,
					       handle comm, void *end, const union function *slowly)
{
	uint64_t unused[8];
	struct operation o = {call, .in = call_of(buf, count, type, from, tag, comm), .to = buf,
			      .slowly = slowly};
	struct sn_packed p;
	*(call == RECV ? &o.status : &o.request) = end;
	if (call == IRECV)
		return later(&o);
	if (!quick() || !sn_packed_in(&p, buf, &o.in))
		return sn_unseen_do(&o);
	void *status = wanted(end) ? end : unused;
	int rc = recv_bytes(bytes_of(&p, &o.in), p.at, status, slowly);
	sn_packed_came(&p, rc, status);
	return rc;
}

/* ---- MPI_Send ---- */

static ALWAYS int send_known(const struct sn_shim_quick *q, struct entry *e, struct call c, const void *buf,
			     const union function *slowly)
{
	if (likely(sn_seen_in_turn(e) && q->send(&e->way, buf)))
		return 0;
	sn_requests_before();
	return SN_FUNCTION(slowly).send(buf, c.count, c.type, c.peer, c.tag, c.comm);
}

static ALWAYS int send(struct call c, const void *buf, const union function *slowly)
{
	const struct sn_shim_quick *q = quick_with_pass();
	struct entry *e = likely(q) ? find_send(&c) : NULL;
	return likely(e) ? send_known(q, e, c, buf, slowly)
			 : seldom_out(SEND, buf, c.count, c.type, c.peer, c.tag, c.comm, NULL, slowly);
}

static __attribute__((noinline)) int send_bytes(struct call c, const void *bytes,
						const union function *slowly)
{
	const struct sn_shim_quick *q = quick();
	struct entry *e = q ? find_send(&c) : NULL;
	return e ? send_known(q, e, c, bytes, slowly)
		 : sn_unseen_do(&(struct operation){SEND, .out = c, .from = bytes, .slowly = slowly});
}

/* ---- MPI_Isend ---- */

/*
 * A request that is complete is what the MPI gives for a message to nobody. What the status of a send says is not
 * defined, but that it was not cancelled.
 */
static ALWAYS int isend(struct call c, const void *buf, void *request, const union function *slowly)
{
	const struct sn_shim_quick *q = quick_with_pass();
	struct entry *e = likely(q) ? find_send(&c) : NULL;
	if (!likely(e))
		return seldom_out(ISEND, buf, c.count, c.type, c.peer, c.tag, c.comm, request, slowly);
	int to = c.peer;
	if (likely(sn_seen_in_turn(e) && q->send(&e->way, buf))) {
		if (likely(sn_requests_are_ready())) {
			sn_requests_complete(request);
			return 0;
		}
		to = sn_mpi_nobody();
	}
	return SN_FUNCTION(slowly).isend(buf, c.count, c.type, to, c.tag, c.comm, request);
}

/* ---- MPI_Recv ---- */

/*
 * A message that is late once is late again: then the looks for it are in vain. But what comes for any tag may have
 * another one by now.
 */
static __attribute__((noinline)) void too_late(struct entry *e)
{
	sn_seen_late(e, &e->call, &e->way, e->tag);
	e->known &= e->call.tag != sn_mpi_any_tag() || e->fails < LATE;
}

/* The bytes that came, or negative. */
static inline int64_t recv_now(const struct sn_shim_quick *q, struct entry *e, void *buf)
{
	int64_t len = q->recv(&e->way, buf);
	if (likely(len >= 0))
		e->fails = 0;
	else
		too_late(e);
	return len;
}

static ALWAYS int recv_known(const struct sn_shim_quick *q, struct entry *e, struct call c, void *buf,
			     void *status, const union function *slowly)
{
	int64_t len = likely(sn_seen_in_turn(e)) ? recv_now(q, e, buf) : -1;
	if (!likely(len >= 0)) {
		sn_requests_before();
		return SN_FUNCTION(slowly).recv(buf, c.count, c.type, c.peer, c.tag, c.comm, status);
	}
	if (wanted(status))
		status_fill(status, c.peer, e->tag, len);
	return 0;
}

static ALWAYS int recv(struct call c, void *buf, void *status, const union function *slowly)
{
	const struct sn_shim_quick *q = quick_with_pass();
	struct entry *e = likely(q) ? find_recv(&c) : NULL;
	return likely(e && (status_seen() || !wanted(status)))
		       ? recv_known(q, e, c, buf, status, slowly)
		       : seldom_in(RECV, buf, c.count, c.type, c.peer, c.tag, c.comm, status, slowly);
}

static __attribute__((noinline)) int recv_bytes(struct call c, void *bytes, void *status,
						const union function *slowly)
{
	const struct sn_shim_quick *q = quick();
	struct entry *e = q && status_seen() ? find_recv(&c) : NULL;
	return e ? recv_known(q, e, c, bytes, status, slowly)
		 : sn_unseen_do(&(struct operation){RECV, .in = c, .to = bytes, .status = status,
						    .slowly = slowly});
}

/* ---- MPI_Irecv ---- */

/* One that stays is the MPI's as soon as that looks for what has come. */
static ALWAYS int irecv(struct call c, void *buf, void *request, const union function *slowly)
{
	const struct sn_shim_quick *q = quick_with_pass();
	struct entry *e = likely(q) ? find_recv(&c) : NULL;
	bool ready = sn_requests_are_ready();
	/* it may be known from MPI_Recv */
	if (!likely(e && (ready || !sn_requests_undecided())))
		return seldom_in(IRECV, buf, c.count, c.type, c.peer, c.tag, c.comm, request, slowly);
	if (likely(sn_seen_in_turn(e) && ready && sn_requests_post(q, e, buf, request)))
		return 0;
	int rc = SN_FUNCTION(slowly).irecv(buf, c.count, c.type, c.peer, c.tag, c.comm, request);
	sn_unseen_given(request);
	return rc;
}

/* ---- MPI_Sendrecv ---- */

/*
 * Once the message has left, only its answer is still to come, and nobody can tell from what kind of call. To oneself (along
 * a dimension of a grid that is one process wide, say) both are one copy, if nothing else comes before.
 */
static inline int both_known(const struct sn_shim_quick *q, struct entry *out, struct entry *in,
			     const struct operation *o)
{
	const struct call *c = &o->in;
	int64_t len = -1;
	if (!likely(sn_seen_in_turn(in)))
		return sn_unseen_slowly(o);
	if (!likely(!(out->way.flags & SN_SHIM_SELF)))
		len = q->self(&out->way, o->from, &in->way, o->to);
	if (len < 0 && !likely(q->send(&out->way, o->from)))
		return sn_unseen_slowly(o);
	if (likely(len < 0))
		len = recv_now(q, in, o->to);
	if (!likely(len >= 0)) {
		sn_requests_before();
		return SN_FUNCTION(&next[1][RECV])
			.recv(o->to, c->count, c->type, c->peer, c->tag, c->comm, o->status);
	}
	if (wanted(o->status))
		status_fill(o->status, c->peer, in->tag, len);
	return 0;
}

/* False: not both are known. */
static inline bool both_if_known(const struct sn_shim_quick *q, const struct operation *o, int *rc)
{
	struct entry *out = likely(q) ? find_send(&o->out) : NULL;
	struct entry *in = likely(out) ? find_recv(&o->in) : NULL;
	bool known = likely(in && (status_seen() || !wanted(o->status)));
	if (known)
		*rc = both_known(q, out, in, o);
	return known;
}

/* Of either, or of both. */
static __attribute__((noinline)) int both_packed(const struct operation *o)
{
	uint64_t unused[8];
	struct operation b = *o;
	struct sn_packed out, in;
	if (!quick())
		return sn_unseen_do(o);
	bool outs = sn_packed_out(&out, o->from, &o->out), ins = sn_packed_in(&in, o->to, &o->in);
	if (!outs && !ins)
		return sn_unseen_do(o);
	if (outs) {
		b.out = bytes_of(&out, &o->out);
		b.from = out.at;
	}
	if (ins) {
		b.in = bytes_of(&in, &o->in);
		b.to = in.at;
		b.status = wanted(o->status) ? o->status : unused;
	}
	int rc;
	if (!both_if_known(quick(), &b, &rc))
		rc = sn_unseen_do(&b);
	if (outs)
		sn_packed_sent(&out);
	if (ins)
		sn_packed_came(&in, rc, b.status);
	return rc;
}

static inline int both(const struct operation *o)
{
	int rc;
	return likely(both_if_known(quick_with_pass(), o, &rc)) ? rc : both_packed(o);
}

/* ---- what brings messages beside the quick way (forgotten.h) ---- */

static union function beside[2][3]; /* the MPI's, without a P and with it */

#define LOOKS(p)                                                                                             \
	static int recv_looks_##p(void *buf, int count, handle type, int from, int tag, handle comm,         \
				  void *status)                                                              \
	{                                                                                                    \
		return sn_requests_after(                                                                    \
			SN_FUNCTION(&beside[p][0]).recv(buf, count, type, from, tag, comm, status));         \
	}                                                                                                    \
	static int both_looks_##p(const void *out, int out_count, handle out_type, int to, int out_tag,      \
				  void *in, int in_count, handle in_type, int from, int in_tag, handle comm, \
				  void *status)                                                              \
	{                                                                                                    \
		return sn_requests_after(SN_FUNCTION(&beside[p][1])                                          \
						 .both(out, out_count, out_type, to, out_tag, in, in_count,  \
						       in_type, from, in_tag, comm, status));                \
	}                                                                                                    \
	static int replace_looks_##p(void *buf, int count, handle type, int to, int out_tag, int from,       \
				     int in_tag, handle comm, void *status)                                  \
	{                                                                                                    \
		return sn_requests_after(                                                                    \
			SN_FUNCTION(&beside[p][2])                                                           \
				.replace(buf, count, type, to, out_tag, from, in_tag, comm, status));        \
	}

LOOKS(0)
LOOKS(1)

void *sn_quick_looks(const char *name, void *real)
{
	static const struct {
		const char *name;
		union function looks[2];
	} of[] = {{"MPI_Recv", {{.recv = recv_looks_0}, {.recv = recv_looks_1}}},
		  {"MPI_Sendrecv", {{.both = both_looks_0}, {.both = both_looks_1}}},
		  {"MPI_Sendrecv_replace", {{.replace = replace_looks_0}, {.replace = replace_looks_1}}}};
	int p = *name == 'P', i = sn_quick_named(of, sizeof(*of), 3, name);
	if (i == 3 || !real)
		return NULL;
	SN_FUNCTION_IS(&beside[p][i], real);
	return of[i].looks[p].symbol;
}

/* ---- calls after which a handle may mean something else ---- */

static int ends(int call, int p, void *a, void *b)
{
	static const enum sn_freed_by by[CALLS] = {[COMM_FREE] = SN_FREED_COMM,
						   [COMM_DISCONNECT] = SN_FREED_DISCONNECTED,
						   [TYPE_FREE] = SN_FREED_TYPE};
	return sn_freed_call(by[call], p, SN_FUNCTION(&next[p][call]).ends, a, b);
}

void sn_quick_forget(void)
{
	sn_collective_forget();
	sn_holder_forget();
}

/* ---- standing in ---- */

#define ENDS(name, call, p)                                                                                  \
	static int name##_##p(void *a, void *b)                                                              \
	{                                                                                                    \
		return ends(call, p, a, b);                                                                  \
	}

#define STAND_INS(p)                                                                                         \
	static int send_##p(const void *buf, int count, handle type, int to, int tag, handle comm)           \
	{                                                                                                    \
		struct call c = call_of(buf, count, type, to, tag, comm);                                    \
		return send(c, buf, &next[p][SEND]);                                                         \
	}                                                                                                    \
	static int isend_##p(const void *buf, int count, handle type, int to, int tag, handle comm,          \
			     void *request)                                                                  \
	{                                                                                                    \
		struct call c = call_of(buf, count, type, to, tag, comm);                                    \
		return isend(c, buf, request, &next[p][ISEND]);                                              \
	}                                                                                                    \
	static int recv_##p(void *buf, int count, handle type, int from, int tag, handle comm, void *status) \
	{                                                                                                    \
		struct call c = call_of(buf, count, type, from, tag, comm);                                  \
		return recv(c, buf, status, &next[p][RECV]);                                                 \
	}                                                                                                    \
	static int irecv_##p(void *buf, int count, handle type, int from, int tag, handle comm,              \
			     void *request)                                                                  \
	{                                                                                                    \
		struct call c = call_of(buf, count, type, from, tag, comm);                                  \
		return irecv(c, buf, request, &next[p][IRECV]);                                              \
	}                                                                                                    \
	static int both_##p(const void *out, int out_count, handle out_type, int to, int out_tag, void *in,  \
			    int in_count, handle in_type, int from, int in_tag, handle comm, void *status)   \
	{                                                                                                    \
		struct operation o = {BOTH,                                                                  \
				      call_of(out, out_count, out_type, to, out_tag, comm),                  \
				      call_of(in, in_count, in_type, from, in_tag, comm),                    \
				      out,                                                                   \
				      in,                                                                    \
				      .status = status,                                                      \
				      .slowly = &next[p][BOTH]};                                             \
		return both(&o);                                                                             \
	}                                                                                                    \
	ENDS(comm_free, COMM_FREE, p)                                                                        \
	ENDS(comm_disconnect, COMM_DISCONNECT, p)                                                            \
	ENDS(comm_set_info, COMM_SET_INFO, p)                                                                \
	ENDS(cvar_write, CVAR_WRITE, p)                                                                      \
	ENDS(type_free, TYPE_FREE, p)                                                                        \
	ENDS(finalize, FINALIZE, p)

STAND_INS(0)
STAND_INS(1)

static const struct {
	const char *name;
	union function stand_in[2];
} calls[CALLS] = {
	[SEND] = {"MPI_Send", {{.send = send_0}, {.send = send_1}}},
	[ISEND] = {"MPI_Isend", {{.isend = isend_0}, {.isend = isend_1}}},
	[RECV] = {"MPI_Recv", {{.recv = recv_0}, {.recv = recv_1}}},
	[IRECV] = {"MPI_Irecv", {{.irecv = irecv_0}, {.irecv = irecv_1}}},
	[BOTH] = {"MPI_Sendrecv", {{.both = both_0}, {.both = both_1}}},
	[COMM_FREE] = {"MPI_Comm_free", {{.ends = comm_free_0}, {.ends = comm_free_1}}},
	[COMM_DISCONNECT] = {"MPI_Comm_disconnect",
			     {{.ends = comm_disconnect_0}, {.ends = comm_disconnect_1}}},
	[COMM_SET_INFO] = {"MPI_Comm_set_info", {{.ends = comm_set_info_0}, {.ends = comm_set_info_1}}},
	[CVAR_WRITE] = {"MPI_T_cvar_write", {{.ends = cvar_write_0}, {.ends = cvar_write_1}}},
	[TYPE_FREE] = {"MPI_Type_free", {{.ends = type_free_0}, {.ends = type_free_1}}},
	[FINALIZE] = {"MPI_Finalize", {{.ends = finalize_0}, {.ends = finalize_1}}},
};

bool sn_quick_is_tools(const char *name, const void *definition)
{
	char profiled[40] = "P";
	strncat(profiled, name, sizeof(profiled) - 2);
	return !sn_mpi_same_object(definition, sn_mpi_find(profiled));
}

static int call_named(const char *name)
{
	return sn_quick_named(calls, sizeof(*calls), CALLS, name);
}

unsigned char sn_quick_idle(const char *name)
{
	if (call_named(name) <= BOTH)
		return SN_QUICK_IDLE;
	return sn_requests_take(name) && !sn_mended_takes(name) ? SN_QUICK_IDLE_SO_FAR : SN_QUICK_BUSY;
}

void *sn_quick_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', call = call_named(name);
	bool varying = sn_varying_is(name), beginning = sn_beginning_is(name);
	bool collective = varying || beginning || sn_collective_is(name), probed = sn_probed_is(name);
	bool matched = probed || sn_matched_is(name);
	sn_mpi_find_family();
	if (call == CALLS && !collective && !matched) {
		void *stand_in = sn_mpi_family == UNKNOWN ? NULL : sn_here_stand_in(name, definition);
		if (!stand_in)
			stand_in = sn_ops_stand_in(name, definition);
		if (!stand_in)
			stand_in = sn_mended_stand_in(name, definition);
		if (stand_in)
			return stand_in;
		stand_in = sn_requests_stand_in(name, definition);
		return stand_in && (!definition || sn_quick_possible()) ? stand_in : definition;
	}
	if (!definition && sn_mpi_family == UNKNOWN)
		return NULL;
	if (!definition)
		return varying	   ? sn_varying_stand_in(name, NULL)
		       : beginning ? sn_beginning_stand_in(name, NULL)
		       : probed	   ? NULL
		       : matched   ? sn_matched_stand_in(name, NULL)
				   : NULL;
	bool off = (call <= BOTH || collective || matched) &&
		   (sn_mpi_family == UNKNOWN || !sn_quick_possible() ||
		    (!p && sn_quick_is_tools(name, definition)));
	if (collective || matched) {
		void *mended = sn_mended_stand_in(name, definition);
		definition = mended ? mended : definition;
	}
	if (off)
		return definition;
	if (matched)
		return (probed ? sn_probed_stand_in : sn_matched_stand_in)(name, definition);
	if (collective)
		return varying	   ? sn_varying_stand_in(name, definition)
		       : beginning ? sn_beginning_stand_in(name, definition)
				   : sn_collective_stand_in(name, definition);
	/* several threads may be at their first call of it */
	SN_FUNCTION_IS(&next[p][call], definition);
	if (call == BOTH && !SN_FUNCTION(&next[1][RECV]).symbol)
		SN_FUNCTION_IS(&next[1][RECV], sn_mpi_find("PMPI_Recv"));
	return calls[call].stand_in[p].symbol;
}

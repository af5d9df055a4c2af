/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric provider's objects. Each wraps one libfabric object over <sennit/sennit.h>; there is no protocol here.
 *
 * Only libfabric's headers are used, never a function of the library: the module must load into whatever libfabric the
 * host brings, and a symbol of a newer one would make it unloadable (a test reads the module's symbol table).
 *
 * Threads. A domain opened with FI_THREAD_DOMAIN has serial engine endpoints and every lock below switched off but its own. Where calls
 * go without the MPI while others are in it (shim.h, at_once), and at any other level, the endpoints lock themselves, and the order of locks is
 *     engine endpoint  ->  completion queue, registrations with counters
 * The engine calls back with its endpoint's lock held, so nothing here may call the engine while it holds a queue's lock;
 * domain and address vector locks are outermost and are only taken on set-up paths.
 */
#ifndef SN_OFI_H
#define SN_OFI_H

#include "base/base.h"
#include "sennit/sennit.h"
#include "shim.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/*
 * What a provider's entry point returns, as rdma/providers/fi_prov.h has it, which not every libfabric-dev brings
 * along (Ubuntu 22.04).
 */
struct fi_provider {
	uint32_t version, fi_version;
	struct fi_context context; /* libfabric's */
	const char *name;
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	void (*cleanup)(void);
};

#define SN_OFI_NAME	   "sennit"
#define SN_OFI_ADDR_FORMAT (0x80000000u | 0x534eu) /* provider-specific bit, "SN" */
#define SN_OFI_IOV	   4			   /* segments in one call */
#define SN_OFI_QUEUE	   1024			   /* advertised queue depth; nothing here is bounded by it */
#define SN_OFI_MULTI_ROOM  4096			   /* FI_OPT_MIN_MULTI_RECV until it is set */
#define SN_OFI_MSG_MAX	   ((size_t)1 << 62)
/* FI_MR_BASIC and FI_MR_SCALABLE, which programs written for libfabric before 1.5 may ask for; their names are deprecated
 * where the headers are those of 2.0 */
#define SN_OFI_MR_BASIC	   1
#define SN_OFI_MR_SCALABLE 2
/* FI_INT128 and FI_UINT128, which the headers of libfabric 1.11 do not have */
#define SN_OFI_INT128  (FI_LONG_DOUBLE_COMPLEX + 1)
#define SN_OFI_UINT128 (FI_LONG_DOUBLE_COMPLEX + 2)

/* Endpoints that a queue or counter moves forward when it is read, and how long reads have found nothing. */
struct sn_ofi_set {
	sn_ep **eps;
	unsigned count, room;
	bool (*filled)(struct sn_ofi_set *set); /* is there anything in the queue? NULL: it is a counter's */
	bool shared;				/* between threads: users and changing count */
	_Atomic int users;			/* threads that use eps */
	_Atomic bool changing;			/* somebody wants to change eps: no new users */
	unsigned nap;				/* longest in a call that waits, in microseconds */
	unsigned looks;				/* reads that found nothing; of one thread */
	_Atomic uint64_t mark;			/* of the last read that found nothing */
	_Atomic bool first;			/* it was the first since an event */
	_Atomic uint64_t seen;			/* and the process's stamp then */
	bool emptied;		/* the last read took all there was; of one thread, like the next two */
	uint32_t emptied_in;	/* in this call of the MPI */
	bool not_until_empty;	/* a call ended with such a read */
	bool flood;		/* the last look has brought much */
	unsigned unlooked;	/* reads since the last look that found entries which lay there */
	_Atomic uint64_t idle;	/* sn_relax's memory */
	_Atomic uint64_t stamp; /* the process's stamp when last looked at */
	_Atomic uint64_t turn;	/* at the last read that found nothing in a crowd, of who may not nap */
	_Atomic uint32_t given; /* the thread's yields at the last one of who may nap */
	_Atomic uint32_t waits; /* such ones since those were others, up to a few */
	uint64_t
		vain_stamp; /* at the last one beside what rings no bell; of one thread, like the next three */
	uint32_t vain_in;   /* in this call of the MPI */
	unsigned vain;	    /* such ones in it since something came */
	uint64_t vain_idle; /* sn_relax's memory after many */
};

struct sn_ofi_fabric {
	struct fid_fabric fid;
	_Atomic int refs; /* of its children, and one until it is closed */
};

struct sn_ofi_domain {
	struct fid_domain fid;
	struct sn_ofi_fabric *fabric;
	struct sn_ofi_eq *mr_eq; /* registrations are reported there, if bound */
	struct sn_lock lock;	 /* eps, mrs, cntrs, next_key */
	struct sn_list eps, mrs, cntrs;
	struct sn_lock counted_lock; /* taken last, also inside the engine's callbacks */
	struct sn_list counted;	     /* registrations with counters of their own */
	uint64_t next_key;
	_Atomic int refs; /* of its children, and one until it is closed */
	bool serial;
	bool virt_addr; /* remote addresses are virtual addresses, not offsets */
	bool prov_key;	/* we choose keys */
};

struct sn_ofi_slot {
	uint8_t addr[SN_ADDR_MAX];
	bool used;
};

struct sn_ofi_av {
	struct fid_av fid;
	struct sn_ofi_domain *domain;
	struct sn_ofi_eq *eq; /* with FI_EVENT */
	struct sn_lock lock;  /* everything below */
	struct sn_list eps;
	struct sn_ofi_slot *slots;
	size_t count, room; /* slots ever used, allocated */
	size_t free_hint;   /* no free slot below */
	uint64_t changes;   /* insertions so far */
	bool events;
};

/* fi_addr -> sn_peer, published whole: readers never lock. Replaced tables live until the endpoint closes, because
 * another thread may still be reading one; doubling keeps their sum below the newest. */
struct sn_ofi_peers {
	struct sn_ofi_peers *older;
	size_t count;
	_Atomic sn_peer peer[]; /* SN_ANY_PEER: not resolved yet */
};

enum sn_ofi_cntr_kind {
	SN_OFI_SEND,
	SN_OFI_RECV,
	SN_OFI_READ,
	SN_OFI_WRITE,
	SN_OFI_REMOTE_READ,
	SN_OFI_REMOTE_WRITE,
	SN_OFI_CNTR_KINDS
};

struct sn_ofi_ep {
	struct fid_ep fid;
	sn_ep *sn;
	struct sn_ofi_peers *_Atomic peers;
	uint32_t tx_flags;	 /* SN_ flags of a send without flags of its own */
	uint32_t rx_flags;	 /* likewise for a tagged receive */
	uint32_t rx_plain_flags; /* likewise for a plain receive */
	bool directed;		 /* receives honour their source address */
	bool tx_selective, rx_selective;
	bool enabled;
	uint64_t min_multi_recv;
	struct sn_ofi_cq *tx_cq, *rx_cq;
	struct sn_ofi_cq
		*gives; /* rx_cq, if all that a tagged receive needs is an entry of the widest format there */
	struct sn_ofi_cntr *cntr[SN_OFI_CNTR_KINDS];
	struct sn_ofi_domain *domain;
	struct sn_ofi_av *av;
	uint64_t caps, tx_op_flags, rx_op_flags;
	uint64_t not_meant; /* of tx_op_flags */
	struct sn_list in_domain, in_av, regions;
	fi_addr_t *sources; /* by sn_peer: its number in the address vector; under av->lock */
	size_t source_room;
	uint64_t sources_known; /* av->changes up to which sources have numbers */
};

struct sn_ofi_mr {
	struct fid_mr fid;
	struct sn_ofi_domain *domain;
	void *base;
	size_t len;
	unsigned rights;
	struct sn_ofi_cntr *on_read, *on_write; /* with FI_RMA_EVENT */
	struct sn_list in_domain, regions, in_counted;
};

/* A registration as one endpoint of the domain knows it. */
struct sn_ofi_region {
	struct sn_list of_mr, of_ep;
	struct sn_ofi_ep *ep;
	sn_region *sn;
};

/* Every completion format of libfabric is a prefix of the tagged one. */
struct sn_ofi_event {
	struct fi_cq_tagged_entry e;
	struct sn_ofi_ep *ep; /* NULL once it is closed */
	sn_peer peer;
	uint16_t err;  /* FI_ error code, 0 for a success */
	uint16_t prov; /* what fi_cq_strerror explains: a negated sn_error */
	uint64_t olen; /* bytes that did not fit */
};

struct sn_ofi_cq {
	struct fid_cq fid;
	struct sn_ofi_domain *domain;
	struct sn_ofi_set set;
	struct sn_lock lock; /* the ring */
	struct sn_ofi_event *ring;
	size_t head, tail, mask; /* head and tail run freely */
	size_t entry_size;
	/*
	 * a read is under way, in the only thread there is, and the ring is empty: entries go straight into the
	 * reader's array
	 */
	char *direct;
	size_t direct_left;
	size_t given; /* entries that went there so far */
	size_t misses; /* entries so far that say that a probe found nothing: for who waits, nothing happened */
	bool overrun; /* the ring could not grow: a completion is lost */
	bool alone;   /* the next read gets one entry */
	/* a call of the MPI that was watched has posted a receive whose end is told here (quick.c) */
	atomic_bool taught;
	bool threshold; /* the condition of a waiting read is a number of entries */
	_Atomic bool signaled;
	_Atomic int refs;
};

struct sn_ofi_cntr {
	struct fid_cntr fid;
	struct sn_ofi_domain *domain;
	struct sn_ofi_set set;
	_Atomic uint64_t value, errors;
	_Atomic int refs;
	struct sn_list in_domain;
};

/* ---- helpers shared by the objects (prov.c) ---- */
int sn_ofi_error(int sn_status); /* sn_error -> FI_ error code, positive; 0 for success */
static inline ssize_t sn_ofi_result(int rc)
{
	return sn_likely(rc >= 0) ? 0 : -sn_ofi_error(rc);
}
int sn_ofi_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int sn_ofi_no_control(struct fid *fid, int command, void *arg);
int sn_ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
/* "sennit://" and two hex digits a byte; *len as fi_av_straddr wants it. Returns buf. */
const char *sn_ofi_addr_print(const uint8_t *addr, char *buf, size_t *len);
bool sn_ofi_addr_parse(const char *text, uint8_t addr[SN_ADDR_MAX]);

/* ---- info.c, fabric.c, domain.c, mr.c ---- */
int sn_ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info);
uint64_t sn_ofi_caps(void);
int sn_ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
void sn_ofi_fabric_put(struct sn_ofi_fabric *fabric);
int sn_ofi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context);
void sn_ofi_domain_put(struct sn_ofi_domain *domain);
extern struct fi_ops_mr sn_ofi_mr_ops;
/* Give an endpoint that opens every region of its domain. */
int sn_ofi_mr_add_all(struct sn_ofi_ep *ep);
void sn_ofi_mr_drop_all(struct sn_ofi_ep *ep);
/* A peer has accessed the registration with this key: tell its own counter, if it has one. */
void sn_ofi_mr_accessed(struct sn_ofi_domain *domain, uint64_t key, bool written);
int sn_ofi_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
			struct fi_atomic_attr *attr, uint64_t flags);

/* ---- progress.c ---- */
void sn_ofi_set_init(struct sn_ofi_set *set, struct sn_ofi_domain *domain);
int sn_ofi_set_add(struct sn_ofi_set *set, sn_ep *ep);
void sn_ofi_set_remove(struct sn_ofi_set *set, sn_ep *ep);
void sn_ofi_set_closed(struct sn_ofi_set *set);
/* Changes with each look at any of them that finds something. */
uint64_t sn_ofi_events(void);
/* Such a look at one of them. */
void sn_ofi_look(void *ep);
/* Events of other threads are handed to the MPI: for the thread sanitizer this orders them before what it tells of them. */
void sn_ofi_handed(void);
/* Move every endpoint forward; true if something happened in the domain since the last call. */
bool sn_ofi_set_progress(struct sn_ofi_set *set);
/* A read has found something: the library need not yield after it (shim/shim.c). */
void sn_ofi_looked(void);
/* After a read that found nothing: spin, yield or nap. until_ns: how long the caller may block; 0: not at all. mark
 * changes when a read finds something: then the wait begins anew. True: something happened, read again. */
bool sn_ofi_set_relax(struct sn_ofi_set *set, uint64_t until_ns, uint64_t mark);
/* A read has taken all there was. */
void sn_ofi_set_emptied(struct sn_ofi_set *set);
/* A read has taken all there was, and need not look for it. */
void sn_ofi_set_lay_there(struct sn_ofi_set *set);
/* A read that follows: may it say at once that there is nothing? Only once after each that emptied. */
bool sn_ofi_set_is_empty(struct sn_ofi_set *set);
/* Likewise after something else that found nothing, but only in an MPI call that is known to wait. */
bool sn_ofi_set_wait(struct sn_ofi_set *set, uint64_t mark);
/* When a wait of timeout_ms (negative: for ever) that starts now is over. */
uint64_t sn_ofi_deadline(int timeout_ms);

/* ---- av.c ---- */
int sn_ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
void sn_ofi_av_attach(struct sn_ofi_av *av, struct sn_ofi_ep *ep);
void sn_ofi_av_detach(struct sn_ofi_ep *ep);
/* Resolve an address for the first time (slow path of sn_ofi_peer). 0 or a negative FI_ error. */
int sn_ofi_av_resolve(struct sn_ofi_ep *ep, fi_addr_t addr, sn_peer *peer);
/* The address vector's number of a peer, FI_ADDR_NOTAVAIL if it has none. */
fi_addr_t sn_ofi_av_source(struct sn_ofi_ep *ep, sn_peer peer);
void sn_ofi_peers_free(struct sn_ofi_ep *ep);

/* Budget when the peer is known: two loads and a compare. */
static inline int sn_ofi_peer(struct sn_ofi_ep *ep, fi_addr_t addr, sn_peer *peer)
{
	struct sn_ofi_peers *t = atomic_load_explicit(&ep->peers, memory_order_acquire);

	if (sn_likely(addr < t->count)) {
		*peer = atomic_load_explicit(&t->peer[addr], memory_order_relaxed);
		if (sn_likely(*peer != SN_ANY_PEER))
			return 0;
	}
	return sn_ofi_av_resolve(ep, addr, peer);
}

/* Likewise for the source of a receive. */
static inline int sn_ofi_source(struct sn_ofi_ep *ep, fi_addr_t addr, sn_peer *peer)
{
	*peer = SN_ANY_PEER;
	if (!ep->directed || addr == FI_ADDR_UNSPEC)
		return 0;
	return sn_ofi_peer(ep, addr, peer);
}

/* ---- quick.c: what a call of the MPI leads to (shim/quick.h) ---- */
struct sn_shim_lesson;
extern _Atomic uint32_t sn_ofi_lessons; /* under way; 0: nobody wants to know */
static inline bool sn_ofi_taught(void)
{
	return atomic_load_explicit(&sn_ofi_lessons, memory_order_relaxed) != 0;
}
void sn_ofi_lesson_send(const struct sn_ofi_ep *ep, sn_peer to, const void *buf, size_t len, uint64_t bits,
			uint64_t data, uint32_t flags);
void sn_ofi_lesson_recv(const struct sn_ofi_ep *ep, sn_peer from, const void *buf, size_t room, uint64_t bits,
			uint64_t mask, const void *context);
/* A matched probe has found this; another probe this, or nothing (NULL). */
void sn_ofi_lesson_probe(const struct sn_ofi_ep *ep, sn_peer from, uint64_t bits, uint64_t mask,
			 const sn_completion *c);
/* A probe, or a matched one (claim): waits a moment, as far as whoever calls may. */
int sn_ofi_find(struct sn_ofi_ep *ep, sn_peer from, uint64_t bits, uint64_t mask, sn_completion *c,
		sn_claim **claim);
/* Has libsennit-mpi.so taken one that is for this matched probe? Then this is it. */
bool sn_ofi_takes_message(const struct sn_ofi_ep *ep, sn_completion *c, sn_claim **claim);
void sn_ofi_lesson_over(const sn_completion *c, bool reading);
void sn_ofi_lesson_read(void);	/* the MPI hears of all that has ended */
void sn_ofi_lesson_spoil(void); /* this cannot be done again */
/* Does what is counted there, in libsennit-mpi.so if that is here, exist? */
static inline bool sn_ofi_any(_Atomic uint32_t *_Atomic *counter)
{
	return atomic_load_explicit(atomic_load_explicit(counter, memory_order_relaxed),
				    memory_order_relaxed) != 0;
}
/* Buffers of receives of which libsennit-mpi.so is to be told how much has come: so many there are. */
extern _Atomic uint32_t *_Atomic sn_ofi_noted;
static inline bool sn_ofi_notes(void)
{
	return sn_ofi_any(&sn_ofi_noted);
}
void sn_ofi_note(const sn_completion *c);
/*
 * Receives that libsennit-mpi.so has posted and that stay. Whoever sent to one may wait for what only the MPI
 * answers, and the MPI can answer nothing but what it reads here: so all of them become the MPI's when it reads.
 */
extern _Atomic uint32_t *_Atomic sn_ofi_stays; /* how many there are (shim.h) */
extern _Atomic uint32_t *_Atomic sn_ofi_given; /* and what else it sees to then, whoever reads */
static inline bool sn_ofi_any_given(void)
{
	return sn_ofi_any(&sn_ofi_given);
}
static inline bool sn_ofi_any_stays(void)
{
	return sn_ofi_any(&sn_ofi_stays);
}
void sn_ofi_give(void);
struct sn_shim_ahead;
extern struct sn_shim_ahead *_Atomic sn_ofi_ahead; /* the one that becomes the MPI's just now; NULL: none */
/* True: it is this receive from now on. */
bool sn_ofi_takes(const struct sn_ofi_ep *ep, sn_peer from, const void *buf, size_t room, uint64_t bits,
		  uint64_t mask, void *context);
void sn_ofi_quick_open(const struct sn_ofi_ep *ep);  /* an endpoint is ready */
void sn_ofi_quick_close(const struct sn_ofi_ep *ep); /* and one is about to go */

/* ---- ep.c, and the operations ---- */
/* start.c: an endpoint is ready; an address has come, or (NULL) none will */
void sn_ofi_start_waits(sn_ep *ep);
void sn_ofi_start_over(const uint8_t *addr);

int sn_ofi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/* Engine flags of a transmit call that brings flags of its own; false: a flag that is not offered. */
bool sn_ofi_tx_flags(const struct sn_ofi_ep *ep, uint64_t flags, uint32_t *sn_flags);
bool sn_ofi_rx_flags(const struct sn_ofi_ep *ep, uint64_t flags, uint32_t *sn_flags);
extern struct fi_ops_msg sn_ofi_msg_ops;
extern struct fi_ops_tagged sn_ofi_tagged_ops;
extern struct fi_ops_rma sn_ofi_rma_ops;
extern struct fi_ops_atomic sn_ofi_atomic_ops;

/* ---- cq.c, cntr.c, eq.c, poll.c ---- */
int sn_ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
void sn_ofi_cq_push(struct sn_ofi_cq *cq, const struct sn_ofi_event *event);
/* The next read gives the entry of the tagged receive with this context, if it has one, and nothing else. */
void sn_ofi_cq_first(struct sn_ofi_cq *cq, const void *context);
/*
 * whose.c: the library, or the program, that `code` lies in, to be closed by dlclose (NULL: none); and, does that define this
 * symbol itself?
 */
void *sn_ofi_library_of(const void *code);
bool sn_ofi_code_of(const void *code, const char *symbol);
/*
 * answer.c: whoever called for it, with code at `reader`, has read this error; and asks for a message that it has
 * claimed, with this tag and with data beside it, and that fits. And, does whoever has code there call what stands in an
 * error's context without a look whether there is one (Open MPI 4; 5 ends the program then, and says why)?
 */
void sn_ofi_answer_short(const struct sn_ofi_event *error, const void *reader);
void sn_ofi_answer_claimed(struct sn_ofi_ep *ep, sn_peer peer, uint64_t tag, const void *reader);
bool sn_ofi_calls_contexts(const void *reader);
void sn_ofi_cq_forget_ep(struct sn_ofi_cq *cq, struct sn_ofi_ep *ep);
/* How many entries that mean something were read; the caller reads this queue. */
static inline uint64_t sn_ofi_cq_mark(struct sn_ofi_cq *cq)
{
	if (sn_likely(cq->domain->serial))
		return cq->head + cq->given - cq->misses;
	sn_lock(&cq->lock);
	uint64_t mark = cq->head - cq->misses;
	sn_unlock(&cq->lock);
	return mark;
}
/* Whoever called is about to hear of this error, and may end the job by it. */
void sn_ofi_after_the_launcher(int err);
bool sn_ofi_cq_ready(struct sn_ofi_cq *cq); /* makes progress; true if a read would return something */
/* A tagged send has left at once, and the engine has told nobody (sn_tsend). flags: SN_FORGET. */
void sn_ofi_sent(struct sn_ofi_ep *ep, uint32_t flags, sn_peer to, uint64_t tag, uint64_t len, void *context);
/* The engine's callbacks. */
void sn_ofi_on_complete(void *arg, const sn_completion *c);
void sn_ofi_on_target(void *arg, const sn_completion *c);

int sn_ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		     void *context);
static inline void sn_ofi_cntr_count(struct sn_ofi_cntr *cntr, bool ok)
{
	_Atomic uint64_t *n = ok ? &cntr->value : &cntr->errors;

	if (cntr->domain->serial) /* no locked instruction where one thread is promised */
		atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
				      memory_order_relaxed);
	else
		atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

struct sn_ofi_eq;
int sn_ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
/* Report an event of ours; err 0 or a positive FI_ error. */
int sn_ofi_eq_report(struct sn_ofi_eq *eq, uint32_t event, struct fid *fid, void *context, uint64_t data,
		     int err);
void sn_ofi_eq_hold(struct sn_ofi_eq *eq, int by);
int sn_ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

int sn_ofi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll);

#endif

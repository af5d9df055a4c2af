// SPDX-License-Identifier: GPL-2.0
/*
 * LiMIC's interface: send, receive, wait and probe, matched here by source, tag and context, as MPI orders it: queues
 * are searched from their oldest entry, and a request is queued or matched under one lock of the job.
 *
 * Whoever comes second copies, inside its own call, between the first one's region and its own memory. So only the
 * first one's memory is ever pinned, by that copy, and neither needs to call again for the data to move.
 *
 * A request is counted by its owner's table, and by the call that works on it. While it is queued only the holder of
 * the job's lock may take it; from then on that call completes it. A process that leaves takes its queued requests
 * along, and ends those of others that nobody else can satisfy: nothing waits for a rank that has gone.
 */
#include "sennit_kmod.h"
#include <linux/jiffies.h>
#include <linux/slab.h>

#define SN_BUCKETS	64    /* queues of a job, by the receiver's rank */
#define SN_REQUESTS_MAX 8192  /* per context */
#define SN_QUEUED_MAX	65536 /* per job: a queue is searched with the lock held */

enum { SN_RANK_HERE = 1, SN_RANK_GONE = 2 };

struct sn_bucket {
	struct list_head sends, recvs;
};

struct sn_job {
	struct sn_handle handle;
	const struct cred *cred;
	spinlock_t lock;
	unsigned int members; /* under lock; none: the job is over */
	unsigned int queued;  /* under lock: requests in all queues */
	struct xarray ranks;  /* rank -> SN_RANK_HERE or SN_RANK_GONE */
	struct sn_bucket buckets[SN_BUCKETS];
};

struct sn_member {
	struct sn_job *job;
	s32 rank;
};

struct sn_request {
	struct kref ref;
	struct list_head queue;
	struct sn_ctx *ctx;
	struct sn_region *region; /* set before it is queued; NULL: no bytes, or never queued */
	u64 len;
	s32 rank, peer, tag;
	u32 context;
	bool send;
	bool queued; /* under the job's lock */
	/* what wait reports, written before done */
	s32 source, got_tag;
	u64 moved;
	int error;
	bool done;
};

static void sn_request_free(struct kref *ref)
{
	struct sn_request *q = container_of(ref, struct sn_request, ref);

	if (q->region)
		sn_region_put(q->region);
	sn_ctx_put(q->ctx);
	kfree(q);
}

static void sn_request_put(struct sn_request *q)
{
	kref_put(&q->ref, sn_request_free);
}

/* Before its owner may hear of it, the memory is nobody's business any more. */
static void sn_request_complete(struct sn_request *q, const struct sn_request *send, u64 moved, int error)
{
	if (q->region)
		sn_region_kill(q->region);
	q->source = send->rank;
	q->got_tag = send->tag;
	q->moved = moved;
	q->error = error;
	smp_store_release(&q->done, true);
	wake_up_all(&q->ctx->wait);
}

static void sn_job_free(struct kref *ref)
{
	struct sn_job *job = container_of(ref, struct sn_job, handle.ref);

	xa_destroy(&job->ranks);
	put_cred(job->cred);
	kfree(job);
}

static void sn_job_put(struct sn_job *job)
{
	kref_put(&job->handle.ref, sn_job_free);
}

static struct sn_job *sn_job_new(void)
{
	struct sn_job *job = kzalloc(sizeof(*job), GFP_KERNEL_ACCOUNT);
	int i;

	if (!job)
		return NULL;
	job->cred = get_current_cred();
	sn_handle_init(&job->handle, SN_HANDLE_JOB, job->cred);
	spin_lock_init(&job->lock);
	xa_init_flags(&job->ranks, XA_FLAGS_ACCOUNT);
	for (i = 0; i < SN_BUCKETS; i++) {
		INIT_LIST_HEAD(&job->buckets[i].sends);
		INIT_LIST_HEAD(&job->buckets[i].recvs);
	}
	return job;
}

static int sn_job_enter(struct sn_job *job, u32 rank, bool founder)
{
	int err = xa_insert(&job->ranks, rank, xa_mk_value(SN_RANK_HERE), GFP_KERNEL_ACCOUNT);

	if (err)
		return err == -EBUSY ? -EADDRINUSE : err;
	spin_lock(&job->lock);
	if (job->members || founder)
		job->members++;
	else
		err = -ENOENT; /* found just before its last member left */
	spin_unlock(&job->lock);
	return err;
}

int sn_match_join(struct sn_ctx *ctx, void *arg)
{
	struct sennit_join *j = arg;
	struct sn_member *member;
	struct sn_handle *h;
	struct sn_job *job;
	int err;

	if (j->reserved || j->rank > S32_MAX)
		return -EINVAL;
	if (j->job) {
		h = sn_handle_find(j->job, SN_HANDLE_JOB);
		job = h ? container_of(h, struct sn_job, handle) : NULL;
		err = -ENOENT;
	} else {
		job = sn_job_new();
		err = -ENOMEM;
	}
	if (!job)
		return err;
	member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);
	if (!member) {
		sn_job_put(job);
		return -ENOMEM;
	}
	mutex_lock(&ctx->join_lock);
	err = ctx->member ? -EISCONN : sn_job_enter(job, j->rank, !j->job);
	if (!err) {
		member->job = job;
		member->rank = j->rank;
		if (!j->job)
			j->job = sn_handle_publish(&job->handle);
		smp_store_release(&ctx->member, member);
	}
	mutex_unlock(&ctx->join_lock);
	if (err) {
		kfree(member);
		sn_job_put(job);
	}
	return err;
}

static bool sn_match_fits(const struct sn_request *send, const struct sn_request *recv)
{
	return send->peer == recv->rank && send->context == recv->context &&
	       (recv->peer == SENNIT_ANY || recv->peer == send->rank) &&
	       (recv->tag == SENNIT_ANY || recv->tag == send->tag);
}

static struct sn_bucket *sn_match_bucket(struct sn_job *job, const struct sn_request *q)
{
	return &job->buckets[(q->send ? q->peer : q->rank) % SN_BUCKETS];
}

/* Takes a request out of its queue. job->lock is held. */
static void sn_match_unqueue(struct sn_job *job, struct sn_request *q)
{
	list_del_init(&q->queue);
	q->queued = false;
	job->queued--;
}

/* The oldest request that goes with q, taken out of its queue with a reference. job->lock is held. */
static struct sn_request *sn_match_take(struct sn_job *job, const struct sn_request *q)
{
	struct sn_bucket *b = sn_match_bucket(job, q);
	struct sn_request *other;

	list_for_each_entry(other, q->send ? &b->recvs : &b->sends, queue)
	{
		if (q->send ? sn_match_fits(q, other) : sn_match_fits(other, q)) {
			sn_match_unqueue(job, other);
			kref_get(&other->ref);
			return other;
		}
	}
	return NULL;
}

/* Moves the message between two requests that match; the caller's is q, whose memory is vec. */
static void sn_match_move(struct sn_request *q, struct sn_vec *vec, struct sn_request *other)
{
	struct sn_request *send = q->send ? q : other, *recv = q->send ? other : q;
	struct sn_end mine = {.vec = vec}, theirs = {.region = other->region};
	u64 n = min(send->len, recv->len), moved = 0;
	int err = 0;

	sn_count(q->send ? SENNIT_C_MESSAGES_EXPECTED : SENNIT_C_MESSAGES_UNEXPECTED, 1);
	if (n)
		err = sn_copy(q->ctx, q->send ? &theirs : &mine, q->send ? &mine : &theirs, n, &moved);
	/* The other one's region was killed, its process is gone, or the copier is being killed. */
	if (err == -ENOENT || err == -ESRCH || err == -EINTR)
		err = -EPIPE;
	sn_request_complete(recv, send, moved, err ? err : send->len > recv->len ? -EMSGSIZE : 0);
	sn_request_complete(send, send, moved, err);
}

/* Queues q, unless its partner is there (returned) or can never come, or there is no room (*err). */
static struct sn_request *sn_match_queue(struct sn_job *job, struct sn_request *q, int *err)
{
	struct sn_bucket *b = sn_match_bucket(job, q);
	struct sn_request *other;
	void *peer;

	spin_lock(&job->lock);
	other = sn_match_take(job, q);
	if (!other) {
		peer = q->peer == SENNIT_ANY ? NULL : xa_load(&job->ranks, q->peer);
		if (peer && xa_to_value(peer) == SN_RANK_GONE) {
			*err = -EPIPE;
		} else if (job->queued == SN_QUEUED_MAX) {
			*err = -EAGAIN;
		} else {
			job->queued++;
			q->queued = true;
			list_add_tail(&q->queue, q->send ? &b->sends : &b->recvs);
		}
	}
	spin_unlock(&job->lock);
	return other;
}

static int sn_match_start(struct sn_ctx *ctx, struct sn_request *q, struct sn_vec *vec)
{
	struct sn_job *job = ctx->member->job;
	struct sn_request *other;
	int err = 0;

	spin_lock(&job->lock);
	other = sn_match_take(job, q);
	spin_unlock(&job->lock);
	if (!other) {
		/* Making a region sleeps, so the queue is searched once more when that is done. */
		if (vec->n) {
			q->region = sn_region_new(ctx, vec, q->send ? SENNIT_READ : SENNIT_WRITE);
			if (IS_ERR(q->region)) {
				err = PTR_ERR(q->region);
				q->region = NULL;
				return err;
			}
		}
		other = sn_match_queue(job, q, &err);
	}
	if (err == -EAGAIN) {
		if (q->region)
			sn_region_kill(q->region);
		return err;
	}
	if (err) {
		sn_request_complete(q, q, 0, err);
	} else if (other) {
		sn_match_move(q, vec, other);
		sn_request_put(other);
	}
	return 0;
}

static struct sn_request *sn_request_new(struct sn_ctx *ctx, const struct sennit_post *p, u64 len, bool send,
					 u32 *id)
{
	struct sn_request *q;
	int err;

	if (atomic_inc_return(&ctx->n_requests) > SN_REQUESTS_MAX) {
		atomic_dec(&ctx->n_requests);
		return ERR_PTR(-EAGAIN);
	}
	q = kzalloc(sizeof(*q), GFP_KERNEL_ACCOUNT);
	if (!q) {
		atomic_dec(&ctx->n_requests);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&q->ref);
	INIT_LIST_HEAD(&q->queue);
	q->ctx = ctx;
	kref_get(&ctx->ref);
	q->len = len;
	q->rank = ctx->member->rank;
	q->peer = p->peer;
	q->tag = p->tag;
	q->context = p->context;
	q->send = send;
	kref_get(&q->ref); /* the table's */
	err = xa_alloc(&ctx->requests, id, q, xa_limit_31b, GFP_KERNEL_ACCOUNT);
	if (err) {
		atomic_dec(&ctx->n_requests);
		sn_request_put(q);
		sn_request_put(q);
		return ERR_PTR(err);
	}
	return q;
}

/* Takes a request out of its owner's table; true for the one caller that did. */
static bool sn_request_forget(struct sn_ctx *ctx, u32 id, struct sn_request *q)
{
	if (xa_cmpxchg(&ctx->requests, id, q, NULL, GFP_KERNEL) != q)
		return false;
	atomic_dec(&ctx->n_requests);
	sn_request_put(q);
	return true;
}

static int sn_match_post(struct sn_ctx *ctx, struct sennit_post *p, bool send)
{
	s32 least = send ? 0 : SENNIT_ANY;
	struct sn_request *q;
	struct sn_vec *vec;
	u32 id;
	int err;

	p->request = 0;
	if (!smp_load_acquire(&ctx->member))
		return -ENOTCONN;
	if (p->peer < least || p->tag < least)
		return -EINVAL;
	vec = sn_vec_get(p->segs, p->nsegs);
	if (IS_ERR(vec))
		return PTR_ERR(vec);
	q = sn_request_new(ctx, p, vec->length, send, &id);
	if (IS_ERR(q)) {
		kvfree(vec);
		return PTR_ERR(q);
	}
	err = sn_match_start(ctx, q, vec);
	if (err)
		sn_request_forget(ctx, id, q);
	else
		p->request = id;
	if (send && !err)
		sn_count(SENNIT_C_MESSAGES_SENT, 1);
	sn_request_put(q);
	kvfree(vec);
	return err;
}

int sn_match_send(struct sn_ctx *ctx, void *arg)
{
	return sn_match_post(ctx, arg, true);
}

int sn_match_recv(struct sn_ctx *ctx, void *arg)
{
	return sn_match_post(ctx, arg, false);
}

static struct sn_request *sn_request_find(struct sn_ctx *ctx, u64 id)
{
	struct sn_request *q = NULL;

	if (id != (u32)id)
		return NULL;
	xa_lock(&ctx->requests);
	q = xa_load(&ctx->requests, id);
	if (q)
		kref_get(&q->ref);
	xa_unlock(&ctx->requests);
	return q;
}

static int sn_match_sleep(struct sn_ctx *ctx, struct sn_request *q, u64 timeout_us)
{
	long left = 1;

	if (smp_load_acquire(&q->done))
		return 0;
	if (!timeout_us)
		return -EAGAIN;
	if (timeout_us == SENNIT_FOREVER)
		left = wait_event_interruptible(ctx->wait, smp_load_acquire(&q->done)) ? -EINTR : 1;
	else
		left = wait_event_interruptible_timeout(
			ctx->wait, smp_load_acquire(&q->done),
			min_t(u64, timeout_us / (USEC_PER_SEC / HZ) + 1, MAX_SCHEDULE_TIMEOUT - 1));
	return left > 0 ? 0 : left < 0 ? -EINTR : -EAGAIN;
}

int sn_match_wait(struct sn_ctx *ctx, void *arg)
{
	struct sennit_wait *w = arg;
	struct sn_request *q;
	int err;

	if (w->reserved)
		return -EINVAL;
	q = sn_request_find(ctx, w->request);
	if (!q)
		return -ENOENT;
	err = sn_match_sleep(ctx, q, w->timeout_us);
	if (!err && !sn_request_forget(ctx, w->request, q))
		err = -ENOENT; /* another thread waited too, and has it */
	if (!err) {
		w->source = q->source;
		w->tag = q->got_tag;
		w->len = q->moved;
		w->error = q->error;
	}
	sn_request_put(q);
	return err;
}

int sn_match_probe(struct sn_ctx *ctx, void *arg)
{
	struct sennit_probe *p = arg;
	struct sn_member *member = smp_load_acquire(&ctx->member);
	struct sn_request look = {}, *send;
	struct sn_job *job;

	p->found = 0;
	p->len = 0;
	if (!member)
		return -ENOTCONN;
	if (p->peer < SENNIT_ANY || p->tag < SENNIT_ANY)
		return -EINVAL;
	job = member->job;
	look.rank = member->rank;
	look.peer = p->peer;
	look.tag = p->tag;
	look.context = p->context;
	spin_lock(&job->lock);
	list_for_each_entry(send, &sn_match_bucket(job, &look)->sends, queue)
	{
		if (sn_match_fits(send, &look)) {
			p->found = 1;
			p->peer = send->rank;
			p->tag = send->tag;
			p->len = send->len;
			break;
		}
	}
	spin_unlock(&job->lock);
	return 0;
}

int sn_match_cancel(struct sn_ctx *ctx, void *arg)
{
	struct sennit_cancel *c = arg;
	struct sn_request *q = sn_request_find(ctx, c->request);
	struct sn_member *member;
	bool mine;

	if (!q)
		return -ENOENT;
	sn_linger(2);
	/* Not before: another thread may have joined, and posted this, since the call began. */
	member = smp_load_acquire(&ctx->member);
	spin_lock(&member->job->lock);
	mine = q->queued;
	if (mine)
		sn_match_unqueue(member->job, q);
	spin_unlock(&member->job->lock);
	if (mine)
		sn_request_complete(q, q, 0, -ECANCELED);
	sn_request_put(q);
	return mine ? 0 : -EBUSY;
}

/* Takes out of a queue what the leaving process owns or what only it could satisfy. job->lock is held. */
static void sn_match_sweep(struct sn_job *job, struct list_head *queue, const struct sn_ctx *ctx, s32 rank,
			   struct list_head *out)
{
	struct sn_request *q, *next;

	list_for_each_entry_safe(q, next, queue, queue)
	{
		if (q->ctx != ctx && q->peer != rank)
			continue;
		sn_match_unqueue(job, q);
		kref_get(&q->ref);
		list_add_tail(&q->queue, out);
	}
}

/* The file is being closed: no call of this context is running. */
void sn_match_leave(struct sn_ctx *ctx)
{
	struct sn_member *member = ctx->member;
	struct sn_request *q, *next;
	struct sn_job *job;
	LIST_HEAD(ended);
	unsigned long id;
	bool last;
	int i;

	if (!member)
		return;
	job = member->job;
	spin_lock(&job->lock);
	xa_store(&job->ranks, member->rank, xa_mk_value(SN_RANK_GONE),
		 GFP_ATOMIC); /* replaces: no allocation */
	for (i = 0; i < SN_BUCKETS; i++) {
		sn_match_sweep(job, &job->buckets[i].sends, ctx, member->rank, &ended);
		sn_match_sweep(job, &job->buckets[i].recvs, ctx, member->rank, &ended);
	}
	last = --job->members == 0;
	spin_unlock(&job->lock);
	if (last)
		sn_handle_withdraw(&job->handle);

	list_for_each_entry_safe(q, next, &ended, queue)
	{
		list_del_init(&q->queue);
		sn_request_complete(q, q, 0, -EPIPE);
		sn_request_put(q);
	}
	/* What a peer is copying right now comes to its end: the region is dead. */
	xa_for_each(&ctx->requests, id, q)
	{
		if (q->region)
			sn_region_kill(q->region);
		sn_request_forget(ctx, id, q);
	}
	kfree(member);
	ctx->member = NULL;
	sn_job_put(job);
}

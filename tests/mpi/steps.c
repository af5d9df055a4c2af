/* SPDX-License-Identifier: BSD-3-Clause */
/* The orderly rounds: blocking calls, truncation, cancelling and collectives, every byte checked. */
#include "stress.h"
#include <stdlib.h>
#include <string.h>

int comm_rank_of(const struct world *w, int comm, int world_rank)
{
	return comm == 2 ? w->size - 1 - world_rank : comm == 3 ? world_rank / 2 : world_rank;
}

int comm_world_of(const struct world *w, int comm, int comm_rank)
{
	return comm == 2 ? w->size - 1 - comm_rank : comm == 3 ? comm_rank * 2 + w->rank % 2 : comm_rank;
}

bool comm_joins(int comm, int a, int b)
{
	return comm != 3 || a % 2 == b % 2;
}

static void counted(size_t bytes)
{
	st.messages++;
	st.bytes += (double)bytes;
}

static size_t share(const struct world *w, const struct limits *lim)
{
	size_t n = lim->round_bytes / (size_t)(2 * w->size);

	return n < lim->max_len ? n : lim->max_len;
}

/* Everybody passes a message around the ring in place, until everybody has its own back. */
void step_ring(const struct world *w, const struct limits *lim, struct rng *r)
{
	size_t len = rnd_len(r, share(w, lim));
	int comm = (int)below(r, 3), me = comm_rank_of(w, comm, w->rank), n = w->size;
	int hop = 1 + (int)below(r, (uint64_t)n), tag = (int)below(r, 100);
	uint64_t key = rnd(r);
	char *buf = need(len);
	MPI_Status status;

	st.doing = "ring";
	pattern_fill(buf, key + (uint64_t)me, 0, len);
	for (int i = 1; i <= n; i++) {
		int from = (me + n - hop % n) % n, got;

		MPI_Sendrecv_replace(buf, (int)len, MPI_BYTE, (me + hop) % n, tag, from, tag, w->comm[comm],
				     &status);
		MPI_Get_count(&status, MPI_BYTE, &got);
		must(status.MPI_SOURCE == from && (size_t)got == len, "ring: %d bytes from %d", got,
		     status.MPI_SOURCE);
		pattern_check(buf, key + (uint64_t)((me + n * hop - i * hop) % n), 0, len, "ring");
		counted(len);
	}
	free(buf);
}

/* A random permutation: each sends to one and receives from one, in different layouts. */
void step_sendrecv(const struct world *w, const struct limits *lim, struct rng *r)
{
	int n = w->size, *to = need((size_t)n * sizeof(int)), from = 0, tag = (int)below(r, 32768), got;
	uint64_t key = rnd(r);
	size_t top = share(w, lim), len_out, len_in;
	struct rng own = {mix(key, (uint64_t)w->rank)};
	struct layout out, in;
	char *a, *b;
	MPI_Status status;

	st.doing = "sendrecv";
	for (int i = 0; i < n; i++)
		to[i] = i;
	shuffle(r, to, n);
	while (to[from] != w->rank)
		from++;
	len_out = rnd_len(&(struct rng){mix(key, (uint64_t)(w->rank + 1000))}, top);
	len_in = rnd_len(&(struct rng){mix(key, (uint64_t)(from + 1000))}, top);
	layout_make(&own, len_out, &out);
	layout_make(&own, len_in + below(&own, 9), &in);
	a = need(out.span);
	b = need(in.span);
	layout_fill(&out, a, key + (uint64_t)w->rank);
	memset(b, GUARD, in.span);
	MPI_Sendrecv(a, out.items, out.type, to[w->rank], tag, b, in.items, in.type,
		     chance(&own, 50) ? from : MPI_ANY_SOURCE, chance(&own, 50) ? tag : MPI_ANY_TAG,
		     w->comm[1], &status);
	MPI_Get_elements(&status, in.type, &got);
	must(status.MPI_SOURCE == from && status.MPI_TAG == tag && (size_t)got == len_in,
	     "sendrecv: %d bytes, tag %d from %d instead of %zu, %d, %d", got, status.MPI_TAG,
	     status.MPI_SOURCE, len_in, tag, from);
	layout_check(&in, b, key + (uint64_t)from, len_in, "sendrecv");
	counted(len_in);
	layout_free(&in);
	layout_free(&out);
	free(a);
	free(b);
	free(to);
}

/* With more than two ranks another source may be ahead of its turn, so only the tag is left open. */
static void blocking_recv(struct rng *own, bool two, char *buf, size_t len, int from, int tag, MPI_Comm c)
{
	int way = (int)below(own, 3), got;
	int src = two && chance(own, 50) ? MPI_ANY_SOURCE : from, want = chance(own, 50) ? tag : MPI_ANY_TAG;
	MPI_Message message;
	MPI_Status status;

	if (way == 0) {
		MPI_Recv(buf, (int)len, MPI_BYTE, src, want, c, &status);
	} else if (way == 1) {
		MPI_Probe(src, want, c, &status);
		MPI_Get_count(&status, MPI_BYTE, &got);
		must((size_t)got == len, "probe: %d bytes instead of %zu", got, len);
		MPI_Recv(buf, got, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, c, &status);
	} else {
		MPI_Mprobe(src, want, c, &message, &status);
		MPI_Get_count(&status, MPI_BYTE, &got);
		must((size_t)got == len, "mprobe: %d bytes instead of %zu", got, len);
		MPI_Mrecv(buf, got, MPI_BYTE, &message, &status);
	}
	MPI_Get_count(&status, MPI_BYTE, &got);
	must(status.MPI_SOURCE == from && status.MPI_TAG == tag && (size_t)got == len,
	     "blocking receive: %d bytes, tag %d from %d instead of %zu, %d, %d", got, status.MPI_TAG,
	     status.MPI_SOURCE, len, tag, from);
}

/* Pairs, one after the other in an order all know, so that blocking calls cannot wait for each other. */
void step_blocking(const struct world *w, const struct limits *lim, struct rng *r)
{
	struct rng own = {mix(rnd(r), (uint64_t)w->rank)};
	int count = 4 * w->size;

	st.doing = "blocking calls";
	for (int i = 0; i < count; i++) {
		int a = (int)below(r, (uint64_t)w->size), b = (int)below(r, (uint64_t)w->size - 1);
		int tag = (int)below(r, 32768);
		size_t len = rnd_len(r, lim->round_bytes / (size_t)count);
		uint64_t key = rnd(r);
		char *buf;

		b += b >= a;
		if (w->rank != a && w->rank != b)
			continue;
		buf = need(len);
		if (w->rank == a) {
			pattern_fill(buf, key, 0, len);
			if (chance(&own, 30))
				MPI_Ssend(buf, (int)len, MPI_BYTE, b, tag, w->comm[0]);
			else
				MPI_Send(buf, (int)len, MPI_BYTE, b, tag, w->comm[0]);
		} else {
			blocking_recv(&own, w->size == 2, buf, len, a, tag, w->comm[0]);
			pattern_check(buf, key, 0, len, "blocking receive");
			counted(len);
		}
		free(buf);
	}
}

/* On the world and oneself too: MPICH no longer knows the communicator of a request that has completed. */
static void errors_are(const struct world *w, MPI_Errhandler handler)
{
	MPI_Comm_set_errhandler(w->comm[1], handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
}

/* A message that is longer than the receive: an error at the receiver only, and nothing written past its buffer. */
void step_truncate(const struct world *w, const struct limits *lim, struct rng *r)
{
	int n = w->size, to = (w->rank + 1) % n, from = (w->rank + n - 1) % n, err, class, tag = 7;
	size_t len = 1 + rnd_len(r, share(w, lim)), room = below(r, len), after = 64;
	bool late = chance(r, 50);
	char *out = need(len), *in = need(room + after);
	MPI_Request req[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	MPI_Status status;
	uint64_t key = rnd(r);

	st.doing = "truncation";
	pattern_fill(out, key, 0, len);
	memset(in, GUARD, room + after);
	errors_are(w, MPI_ERRORS_RETURN);
	if (!late)
		MPI_Irecv(in, (int)room, MPI_BYTE, from, tag, w->comm[1], &req[0]);
	MPI_Barrier(w->comm[0]);
	MPI_Isend(out, (int)len, MPI_BYTE, to, tag, w->comm[1], &req[1]);
	if (late) {
		MPI_Barrier(w->comm[0]);
		err = MPI_Recv(in, (int)room, MPI_BYTE, from, tag, w->comm[1], &status);
	} else {
		err = MPI_Wait(&req[0], &status);
	}
	MPI_Error_class(err, &class);
	must(class == MPI_ERR_TRUNCATE, "truncation: %zu bytes into %zu gave error class %d", len, room,
	     class);
	guard_check(in + room, after, "truncation");
	err = MPI_Wait(&req[1], &status);
	must(err == MPI_SUCCESS, "truncation: the sender got error %d", err);
	errors_are(w, MPI_ERRORS_ARE_FATAL);
	MPI_Sendrecv(out, (int)(len > 64 ? 64 : len), MPI_BYTE, to, tag, in, (int)(room + after), MPI_BYTE,
		     from, tag, w->comm[1], &status); /* and it goes on */
	free(out);
	free(in);
}

/*
 * A receive from any source that is taken back when its message is already there, long or short: it has the message, or
 * it is cancelled and the message is left for the next receive. Never both, never neither.
 */
static void cancel_found(const struct world *w, size_t len, int tag, uint64_t key)
{
	int n = w->size, found = 0, cancelled, got;
	char *in = need(len), *out = need(len);
	MPI_Request req[2];
	MPI_Status status;

	pattern_fill(out, key + (uint64_t)w->rank, 0, len);
	MPI_Isend(out, (int)len, MPI_BYTE, (w->rank + 1) % n, tag, w->comm[1], &req[0]);
	while (!found)
		MPI_Iprobe(MPI_ANY_SOURCE, tag, w->comm[1], &found, &status);
	memset(in, GUARD, len);
	MPI_Irecv(in, (int)len, MPI_BYTE, MPI_ANY_SOURCE, tag, w->comm[1], &req[1]);
	MPI_Cancel(&req[1]);
	MPI_Wait(&req[1], &status);
	MPI_Test_cancelled(&status, &cancelled);
	if (cancelled) {
		guard_check(in, len, "a cancelled receive of a message that was there");
		MPI_Recv(in, (int)len, MPI_BYTE, MPI_ANY_SOURCE, tag, w->comm[1], &status);
	}
	MPI_Get_count(&status, MPI_BYTE, &got);
	must((size_t)got == len && status.MPI_SOURCE == (w->rank + n - 1) % n,
	     "cancel: %d of %zu bytes from %d", got, len, status.MPI_SOURCE);
	pattern_check(in, key + (uint64_t)status.MPI_SOURCE, 0, len, "cancelled too late");
	counted(len);
	MPI_Wait(&req[0], MPI_STATUS_IGNORE);
	free(in);
	free(out);
}

/* Receives that nobody answers, taken back; one among them that is answered. */
void step_cancel(const struct world *w, const struct limits *lim, struct rng *r)
{
	int n = w->size, count = 1 + (int)below(r, 64), hit = (int)below(r, (uint64_t)count), flag;
	MPI_Request *req = need((size_t)count * sizeof(*req)), ready;
	uint32_t got[64] = {0}, sent = (uint32_t)rnd(r);
	MPI_Status status;

	st.doing = "cancel";
	for (int i = 0; i < count; i++)
		MPI_Irecv(&got[i], 4, MPI_BYTE, i % 3 ? (w->rank + 1) % n : MPI_ANY_SOURCE, 1000 + i,
			  w->comm[1], &req[i]);
	MPI_Recv_init(&flag, 4, MPI_BYTE, 0, 999, w->comm[1], &ready);
	MPI_Start(&ready);
	MPI_Send(&sent, 4, MPI_BYTE, (w->rank + n - 1) % n, 1000 + hit, w->comm[1]);
	MPI_Wait(&req[hit], &status);
	must(got[hit] == sent && status.MPI_SOURCE == (w->rank + 1) % n, "cancel: the wrong message");
	for (int i = 0; i < count; i++) {
		if (i == hit)
			continue;
		MPI_Cancel(&req[i]);
		MPI_Wait(&req[i], &status);
		MPI_Test_cancelled(&status, &flag);
		must(flag, "cancel: receive %d was not cancelled", i);
	}
	MPI_Cancel(&ready);
	MPI_Wait(&ready, &status);
	MPI_Test_cancelled(&status, &flag);
	must(flag, "cancel: the persistent receive was not cancelled");
	MPI_Request_free(&ready);
	free(req);
	for (int i = 0; i < 4; i++) {
		st.doing = "cancelling what is there";
		cancel_found(w, rnd_len(r, share(w, lim)), 2000 + i, rnd(r));
	}
}

static void coll_alltoallv(const struct world *w, size_t top, uint64_t key)
{
	int n = w->size, *num = need(4 * (size_t)n * sizeof(int)), *outn = num, *outat = num + n;
	int *inn = num + 2 * n, *inat = num + 3 * n;
	size_t out_sum = 0, in_sum = 0;
	char *out, *in;

	for (int i = 0; i < n; i++) {
		outn[i] = (int)rnd_len(&(struct rng){mix(key, (uint64_t)(w->rank * n + i))}, top / (size_t)n);
		inn[i] = (int)rnd_len(&(struct rng){mix(key, (uint64_t)(i * n + w->rank))}, top / (size_t)n);
		outat[i] = (int)out_sum;
		inat[i] = (int)in_sum;
		out_sum += (size_t)outn[i];
		in_sum += (size_t)inn[i];
	}
	out = need(out_sum);
	in = need(in_sum);
	for (int i = 0; i < n; i++)
		pattern_fill(out + outat[i], key + (uint64_t)(w->rank * n + i), 0, (size_t)outn[i]);
	MPI_Alltoallv(out, outn, outat, MPI_BYTE, in, inn, inat, MPI_BYTE, w->comm[0]);
	for (int i = 0; i < n; i++)
		pattern_check(in + inat[i], key + (uint64_t)(i * n + w->rank), 0, (size_t)inn[i],
			      "alltoallv");
	counted(in_sum);
	free(in);
	free(out);
	free(num);
}

static void coll_bcast(const struct world *w, int comm, size_t len, uint64_t key)
{
	int root = (int)(key % (uint64_t)w->size);
	char *buf = need(len);

	if (w->rank == root)
		pattern_fill(buf, key, 0, len);
	MPI_Bcast(buf, (int)len, MPI_BYTE, comm_rank_of(w, comm, root), w->comm[comm]);
	pattern_check(buf, key, 0, len, "bcast");
	counted(len);
	free(buf);
}

static void coll_gather(const struct world *w, size_t len, uint64_t key, bool all)
{
	int n = w->size, root = (int)(key % (uint64_t)n);
	char *mine = need(len), *got = need(len * (size_t)n);

	pattern_fill(mine, key + (uint64_t)w->rank, 0, len);
	if (all)
		MPI_Allgather(mine, (int)len, MPI_BYTE, got, (int)len, MPI_BYTE, w->comm[0]);
	else
		MPI_Gather(mine, (int)len, MPI_BYTE, got, (int)len, MPI_BYTE, root, w->comm[0]);
	for (int i = 0; i < n && (all || w->rank == root); i++)
		pattern_check(got + (size_t)i * len, key + (uint64_t)i, 0, len, "gather");
	if (!all)
		MPI_Scatter(got, (int)len, MPI_BYTE, mine, (int)len, MPI_BYTE, root, w->comm[0]);
	pattern_check(mine, key + (uint64_t)w->rank, 0, len, "scatter");
	counted(len * (size_t)n);
	free(mine);
	free(got);
}

static void coll_reduce(const struct world *w, size_t count, uint64_t key)
{
	int n = w->size;
	uint64_t *in = need(count * 8), *out = need(count * 8), *scan = need(count * 8);

	for (size_t i = 0; i < count; i++)
		in[i] = (key ^ i) + (uint64_t)w->rank;
	MPI_Allreduce(in, out, (int)count, MPI_UINT64_T, MPI_SUM, w->comm[2]);
	MPI_Scan(in, scan, (int)count, MPI_UINT64_T, MPI_SUM, w->comm[0]);
	for (size_t i = 0; i < count; i++) {
		uint64_t r = (uint64_t)w->rank, ranks = (uint64_t)(n * (n - 1) / 2);

		must(out[i] == (key ^ i) * (uint64_t)n + ranks, "allreduce: element %zu of %zu is wrong", i,
		     count);
		must(scan[i] == (key ^ i) * (r + 1) + r * (r + 1) / 2, "scan: element %zu of %zu is wrong", i,
		     count);
	}
	counted(count * 16);
	free(in);
	free(out);
	free(scan);
}

void step_collectives(const struct world *w, const struct limits *lim, struct rng *r)
{
	size_t top = share(w, lim) / (size_t)w->size;

	st.doing = "collectives";
	for (int i = 0; i < 8; i++) {
		uint64_t key = rnd(r) >> 8;
		size_t len = rnd_len(r, top);

		switch (below(r, 6)) {
		case 0: coll_alltoallv(w, len * (size_t)w->size, key); break;
		case 1: coll_bcast(w, (int)below(r, 3), len, key); break;
		case 2: coll_gather(w, len, key, false); break;
		case 3: coll_gather(w, len, key, true); break;
		case 4: coll_reduce(w, len / 8, key); break;
		default: MPI_Barrier(w->comm[2]);
		}
	}
}

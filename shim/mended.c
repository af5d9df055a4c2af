/* SPDX-License-Identifier: BSD-3-Clause */
#include "mended.h"
#include "proof.h"
#include "requests.h"
#include "told.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BATCH (1 << 30) /* bytes that are unpacked at once: an int has to count them */

enum {
	MRECV,
	IMRECV,
	SEND_INIT,
	BSEND_INIT,
	RSEND_INIT,
	SSEND_INIT,
	START,
	STARTALL,
	REQUEST_FREE,
	ALLTOALL,
	ALLTOALLV,
	ALLTOALLW,
	ALLGATHER,
	PROBE,
	IPROBE,
	MPROBE,
	IMPROBE,
	CALLS
};

union function {
	void *symbol;
	int (*mrecv)(void *buf, int count, handle type, void *message, void *status);
	int (*imrecv)(void *buf, int count, handle type, void *message, void *request);
	int (*init)(const void *buf, int count, handle type, int to, int tag, handle comm, void *request);
	int (*bsend)(const void *buf, int count, handle type, int to, int tag, handle comm);
	int (*all)(int n, void *requests);
	int (*one)(void *request);
	int (*true_extent)(handle type, intptr_t *low, intptr_t *extent);
	int (*contiguous)(int count, handle type, handle *made);
	int (*hindexed)(int count, const int *lengths, const intptr_t *at, handle type, handle *made);
	int (*on)(handle *type);
	int (*size)(handle comm, int *size);
	int (*blocks)(const void *out, int count, handle type, void *in, int in_count, handle in_type,
		      handle comm);
	int (*sendrecv)(const void *out, int count, handle type, int to, int tag, void *in, int in_count,
			handle in_type, int from, int in_tag, handle comm, void *status);
	int (*vary)(const void *out, const int *counts, const int *at, handle type, void *in,
		    const int *in_counts, const int *in_at, handle in_type, handle comm);
	int (*vary_types)(const void *out, const int *counts, const int *at, const handle *types, void *in,
			  const int *in_counts, const int *in_at, const handle *in_types, handle comm);
	int (*probe)(int from, int tag, handle comm, void *status);
	int (*iprobe)(int from, int tag, handle comm, int *flag, void *status);
	int (*mprobe)(int from, int tag, handle comm, void *message, void *status);
	int (*improbe)(int from, int tag, handle comm, int *flag, void *message, void *status);
};
static union function next[2][CALLS]; /* without a P, and with it */
static union function true_extent, contiguous, hindexed, commit, drop, real, bsend, send_init, request_free,
	remote_size, sendrecv;
static bool known;

static void find(void)
{
	static const struct {
		const char *name;
		union function *to;
	} functions[] = {
		{"PMPI_Type_get_true_extent", &true_extent},
		{"PMPI_Type_contiguous", &contiguous},
		{"PMPI_Type_create_hindexed", &hindexed},
		{"PMPI_Type_commit", &commit},
		{"PMPI_Type_free", &drop},
		{"PMPI_Mrecv", &real},
		{"PMPI_Bsend", &bsend},
		{"PMPI_Send_init", &send_init},
		{"PMPI_Request_free", &request_free},
		{"PMPI_Comm_remote_size", &remote_size},
		{"PMPI_Sendrecv", &sendrecv},
	};
	known = sn_proof_find();
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		known &= (functions[i].to->symbol = sn_mpi_find(functions[i].name)) != NULL;
}

static bool is_known(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	return known;
}

/* A type of the program's own; of another the MPI says what is wrong. */
static bool is_own(int count, handle type)
{
	return is_known() && count > 0 && !sn_mpi_builtin(type) && type != sn_mpi_handle(SN_TYPE_NULL);
}

/* ---- MPI_Mrecv, MPI_Imrecv ---- */

static inline size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Elements as they lie in a message, and in a buffer. */
struct elements {
	handle type;
	int size;
	intptr_t extent;
};

static bool scattered(int count, handle type, struct elements *e)
{
	intptr_t low;
	e->type = type;
	return is_own(count, type) && !sn_proof_mpi.type_size(type, &e->size) && e->size > 0 &&
	       !sn_proof_mpi.type_get_extent(type, &low, &e->extent);
}

static int unpack(const struct elements *e, const char *from, size_t count, char *to)
{
	size_t most = least(count, (size_t)(BATCH / e->size ? BATCH / e->size : 1));
	int rc = 0;
	for (size_t i = 0, n; i < count && !rc; i += n) {
		int at = 0;
		n = least(most, count - i);
		rc = sn_proof_mpi.unpack(from + i * (size_t)e->size, (int)n * e->size, &at,
					 to + (intptr_t)i * e->extent, (int)n, e->type,
					 sn_mpi_handle(SN_COMM_SELF));
	}
	return rc;
}

/* The beginning of one: what else there is of it in the buffer stays. */
static int unpack_part(const struct elements *e, const char *from, size_t len, char *to)
{
	int at = 0;
	char *whole = malloc((size_t)e->size);
	if (!whole)
		return sn_proof_failed(sn_mpi_handle(SN_COMM_SELF));
	int rc = sn_proof_mpi.pack(to, 1, e->type, whole, e->size, &at, sn_mpi_handle(SN_COMM_SELF));
	if (!rc) {
		memcpy(whole, from, len);
		rc = unpack(e, whole, 1, to);
	}
	free(whole);
	return rc;
}

/* In elements of as many bytes without holes, since an int may not count the bytes. */
static int receive(const struct elements *e, char *buf, int count, void *message, void *status)
{
	char *bytes = malloc((size_t)count * (size_t)e->size);
	handle flat = 0;
	if (!bytes || contiguous.contiguous(e->size, sn_mpi_handle(SN_BYTE), &flat) || commit.on(&flat)) {
		free(bytes);
		return sn_proof_failed(sn_mpi_handle(SN_COMM_SELF));
	}
	int rc = real.mrecv(bytes, count, flat, message, status);
	size_t room = (size_t)count * (size_t)e->size, len = least(status_len(status), room);
	const struct status_head *head = status_head(status);
	if (rc) { /* the status has the length of some other message then */
		len = rc == MPI_ERR_TRUNCATE ? room : 0;
		status_fill(status, head->source, head->tag, (int64_t)len);
	}
	size_t whole = len / (size_t)e->size, rest = len % (size_t)e->size;
	int failed = unpack(e, bytes, whole, buf);
	if (rest && !failed)
		failed = unpack_part(e, bytes + len - rest, rest, buf + (intptr_t)whole * e->extent);
	drop.on(&flat);
	free(bytes);
	return rc ? rc : failed;
}

static int mrecv(int p, void *buf, int count, handle type, void *message, void *status)
{
	struct elements e;
	uint64_t unused[8];
	if (!scattered(count, type, &e))
		return SN_FUNCTION(&next[p][MRECV]).mrecv(buf, count, type, message, status);
	return receive(&e, buf, count, message, wanted(status) ? status : unused);
}

static int imrecv(int p, void *buf, int count, handle type, void *message, void *request)
{
	struct elements e;
	uint64_t status[8] = {0};
	if (!scattered(count, type, &e))
		return SN_FUNCTION(&next[p][IMRECV]).imrecv(buf, count, type, message, request);
	int rc = receive(&e, buf, count, message, status);
	const struct status_head *head = status_head(status);
	bool came = !rc || rc == MPI_ERR_TRUNCATE; /* which who waits for it hears, not who begins */
	*(handle *)request = came ? sn_told_request(head->source, head->tag, (int64_t)status_len(status), rc)
				  : sn_mpi_handle(SN_REQUEST_NULL);
	return came ? 0 : rc;
}

/* ---- MPI_Send_init and its kin ---- */

/* How far behind the buffer's beginning an element begins; 0 as well where that does not matter. */
static intptr_t begins(int count, handle type)
{
	intptr_t low = 0, extent;
	return is_own(count, type) && !true_extent.true_extent(type, &low, &extent) ? low : 0;
}

/* One that is like it, and begins so much earlier. */
static bool move(handle type, intptr_t low, handle *moved)
{
	intptr_t back = -low;
	return !hindexed.hindexed(1, &(int){1}, &back, type, moved) && !commit.on(moved);
}

static inline const void *behind(const void *buf, intptr_t bytes)
{
	return (const void *)((uintptr_t)buf + (uintptr_t)bytes);
}

/* What is sent, so that it begins where the buffer does. */
struct sent {
	const void *buf;
	handle type;
	bool made;
};

static bool sent_begin(struct sent *b, const void *buf, int count, handle type)
{
	intptr_t low = sn_mpi_in_place(buf) ? 0 : begins(count, type);
	*b = (struct sent){behind(buf, low), type, low != 0};
	return !low || move(type, low, &b->type);
}

static int sent_end(struct sent *b, int rc)
{
	if (b->made)
		drop.on(&b->type); /* a request has it */
	return rc;
}

static int init(int p, int call, const void *buf, int count, handle type, int to, int tag, handle comm,
		void *request)
{
	struct sent b;
	if (!sent_begin(&b, buf, count, type))
		return sn_proof_failed(comm);
	return sent_end(&b, SN_FUNCTION(&next[p][call]).init(b.buf, count, b.type, to, tag, comm, request));
}

/* ---- MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw ---- */

static int alltoall(int p, const void *out, int count, handle type, void *in, int in_count, handle in_type,
		    handle comm)
{
	struct sent b;
	if (!sent_begin(&b, out, count, type))
		return sn_proof_failed(comm);
	return sent_end(
		&b,
		SN_FUNCTION(&next[p][ALLTOALL]).blocks(b.buf, count, b.type, in, in_count, in_type, comm));
}

static int alltoallv(int p, const void *out, const int *counts, const int *at, handle type, void *in,
		     const int *in_counts, const int *in_at, handle in_type, handle comm)
{
	struct sent b;
	if (!sent_begin(&b, out, 1, type))
		return sn_proof_failed(comm);
	return sent_end(&b, SN_FUNCTION(&next[p][ALLTOALLV])
				    .vary(b.buf, counts, at, b.type, in, in_counts, in_at, in_type, comm));
}

/* Ranks that this one sends to; 0: not known. */
static int peers(handle comm)
{
	int inter = 0, n = 0;
	if (comm == sn_mpi_handle(SN_COMM_NULL) || !is_known() ||
	    sn_proof_mpi.comm_test_inter(comm, &inter) ||
	    (inter ? remote_size.size(comm, &n) : sn_proof_mpi.comm_size(comm, &n)))
		return 0;
	return n;
}

/* Counted from elsewhere, and with other types: of types that count from the beginning of memory (MPI_BOTTOM) what lies before
 * their first byte is more than an int. */
struct apart {
	intptr_t from;
	int moved; /* types, of the first ranks */
	int *at;
	handle *types;
};

static bool move_all(struct apart *a, int n, const int *counts, const int *at, const handle *types)
{
	for (; a->moved < n; a->moved++) {
		int i = a->moved;
		intptr_t low = begins(counts[i], types[i]), place = at[i] + low - a->from;
		a->at[i] = (int)place;
		a->types[i] = types[i];
		if (counts[i] && (place != (int)place || (low && !move(types[i], low, &a->types[i]))))
			return false;
	}
	return true;
}

/* False: nothing is to be moved, or it cannot be. */
static bool come_apart(struct apart *a, int n, const int *counts, const int *at, const handle *types)
{
	int i = 0;
	while (i < n && !begins(counts[i], types[i]))
		i++;
	if (i == n || !(a->types = malloc((size_t)n * (sizeof(handle) + sizeof(int)))))
		return false;
	a->from = begins(counts[i], types[i]);
	a->at = (int *)(a->types + n);
	return move_all(a, n, counts, at, types);
}

static int alltoallw(int p, const void *out, const int *counts, const int *at, const handle *types, void *in,
		     const int *in_counts, const int *in_at, const handle *in_types, handle comm)
{
	struct apart a = {0};
	int n = !sn_mpi_in_place(out) && counts && at && types ? peers(comm) : 0;
	bool moved = come_apart(&a, n, counts, at, types);
	int rc = SN_FUNCTION(&next[p][ALLTOALLW])
			 .vary_types(moved ? behind(out, a.from) : out, counts, moved ? a.at : at,
				     moved ? a.types : types, in, in_counts, in_at, in_types, comm);
	for (int i = 0; i < a.moved; i++)
		if (a.types[i] != types[i])
			drop.on(&a.types[i]);
	free(a.types);
	return rc;
}

/* ---- MPI_Allgather ---- */

/* This rank's own block, where the MPI would put it. NULL: the call is right as it is, or wrong in another way. */
static void *own_block(int count, handle type, void *in, int in_count, handle in_type, handle comm)
{
	int size, in_size, rank, inter = 0;
	intptr_t low, extent;
	if ((count == in_count && type == in_type) || count <= 0 || in_count <= 0 || !is_known() ||
	    type == sn_mpi_handle(SN_TYPE_NULL) || in_type == sn_mpi_handle(SN_TYPE_NULL) ||
	    comm == sn_mpi_handle(SN_COMM_NULL) || sn_proof_mpi.comm_test_inter(comm, &inter) || inter ||
	    sn_proof_mpi.comm_rank(comm, &rank) || sn_proof_mpi.type_size(type, &size) ||
	    sn_proof_mpi.type_size(in_type, &in_size) ||
	    (int64_t)size * count != (int64_t)in_size * in_count ||
	    sn_proof_mpi.type_get_extent(in_type, &low, &extent))
		return NULL;
	return (void *)((uintptr_t)in + (uintptr_t)(rank * extent * in_count));
}

static int allgather(int p, const void *out, int count, handle type, void *in, int in_count, handle in_type,
		     handle comm)
{
	uint64_t status[8];
	void *own = sn_mpi_in_place(out) ? NULL : own_block(count, type, in, in_count, in_type, comm);
	if (own && !sendrecv.sendrecv(out, count, type, 0, 0, own, in_count, in_type, 0, 0,
				      sn_mpi_handle(SN_COMM_SELF), status))
		out = sn_mpi_same_place();
	return SN_FUNCTION(&next[p][ALLGATHER]).blocks(out, count, type, in, in_count, in_type, comm);
}

/* ---- MPI_Bsend_init ---- */

/* Those that there are. */
static struct buffered {
	struct buffered *_Atomic next;
	handle request; /* sends nothing to nobody */
	handle real; /* the MPI's own, never started: it keeps the communicator, which the program may free */
	const void *buf;
	int count, to, tag;
	handle type, comm;
	bool own; /* the type */
} * _Atomic buffered;
static pthread_mutex_t buffered_lock = PTHREAD_MUTEX_INITIALIZER;

/* The program may free its own. */
static bool keep_type(struct buffered *b, int count, handle type)
{
	b->type = type;
	b->own = !sn_mpi_builtin(type);
	return !b->own || (!contiguous.contiguous(1, type, &b->type) && !commit.on(&b->type));
}

/* The MPI's own request is made first, for what it says of the arguments. */
static int bsend_init(int p, const void *buf, int count, handle type, int to, int tag, handle comm,
		      void *request)
{
	int rc = init(p, BSEND_INIT, buf, count, type, to, tag, comm, request);
	if (rc || to == sn_mpi_nobody() || !is_known())
		return rc;
	struct buffered *b = malloc(sizeof(*b));
	bool kept = b && keep_type(b, count, type);
	if (!kept ||
	    send_init.init(NULL, 0, sn_mpi_handle(SN_BYTE), sn_mpi_nobody(), tag, comm, &b->request)) {
		if (kept && b->own)
			drop.on(&b->type);
		free(b);
		request_free.one(request);
		return sn_proof_failed(comm);
	}
	b->buf = buf;
	b->count = count;
	b->to = to;
	b->tag = tag;
	b->comm = comm;
	b->real = *(handle *)request;
	*(handle *)request = b->request;
	pthread_mutex_lock(&buffered_lock);
	atomic_store(&b->next, atomic_load(&buffered));
	atomic_store(&buffered, b);
	pthread_mutex_unlock(&buffered_lock);
	return 0;
}

/* Of that request; NULL: it is none of these. take: it is none any more. What nobody starts and frees at once does not
 * change meanwhile. */
static struct buffered *buffered_of(handle request, bool take)
{
	struct buffered *_Atomic *at = &buffered, *b;
	pthread_mutex_lock(&buffered_lock);
	while ((b = atomic_load(at)) && b->request != request)
		at = &b->next;
	if (b && take)
		atomic_store(at, atomic_load(&b->next));
	pthread_mutex_unlock(&buffered_lock);
	return b;
}

static int send_buffered(handle request)
{
	const struct buffered *b = buffered_of(request, false);
	return b ? bsend.bsend(b->buf, b->count, b->type, b->to, b->tag, b->comm) : 0;
}

static int start(int p, void *request)
{
	int rc = atomic_load(&buffered) && request ? send_buffered(*(const handle *)request) : 0;
	return rc ? rc : SN_FUNCTION(&next[p][START]).one(request);
}

static int startall(int p, int n, void *requests)
{
	int rc = 0;
	for (int i = 0; atomic_load(&buffered) && requests && i < n && !rc; i++)
		rc = send_buffered(((const handle *)requests)[i]);
	return rc ? rc : SN_FUNCTION(&next[p][STARTALL]).all(n, requests);
}

static void forget_buffered(handle request)
{
	struct buffered *gone = buffered_of(request, true);
	if (!gone)
		return;
	if (gone->own)
		drop.on(&gone->type);
	request_free.one(&gone->real);
	free(gone);
}

static int free_request(int p, void *request)
{
	if (atomic_load(&buffered) && request)
		forget_buffered(*(const handle *)request);
	return SN_FUNCTION(&next[p][REQUEST_FREE]).one(request);
}

/* ---- MPI_Probe and its kin ---- */

/* flag: NULL: it has been found. */
static int found(int rc, const int *flag, void *status)
{
	if (!rc && (!flag || *flag) && wanted(status))
		status_not_cancelled(status);
	return rc;
}

/* ---- standing in ---- */

#define NEXT(P, call) SN_FUNCTION(&next[P][call])

#define STAND_INS(P)                                                                                         \
	static int mrecv_##P(void *buf, int count, handle type, void *message, void *status)                 \
	{                                                                                                    \
		return mrecv(P, buf, count, type, message, status);                                          \
	}                                                                                                    \
	static int imrecv_##P(void *buf, int count, handle type, void *message, void *request)               \
	{                                                                                                    \
		return imrecv(P, buf, count, type, message, request);                                        \
	}                                                                                                    \
	INIT(send_init, SEND_INIT, P)                                                                        \
	static int bsend_init_##P(const void *buf, int count, handle type, int to, int tag, handle comm,     \
				  void *request)                                                             \
	{                                                                                                    \
		return bsend_init(P, buf, count, type, to, tag, comm, request);                              \
	}                                                                                                    \
	static int start_##P(void *request)                                                                  \
	{                                                                                                    \
		return start(P, request);                                                                    \
	}                                                                                                    \
	static int startall_##P(int n, void *requests)                                                       \
	{                                                                                                    \
		return startall(P, n, requests);                                                             \
	}                                                                                                    \
	static int free_request_##P(void *request)                                                           \
	{                                                                                                    \
		return free_request(P, request);                                                             \
	}                                                                                                    \
	static int alltoall_##P(const void *out, int count, handle type, void *in, int in_count,             \
				handle in_type, handle comm)                                                 \
	{                                                                                                    \
		return alltoall(P, out, count, type, in, in_count, in_type, comm);                           \
	}                                                                                                    \
	static int allgather_##P(const void *out, int count, handle type, void *in, int in_count,            \
				 handle in_type, handle comm)                                                \
	{                                                                                                    \
		return allgather(P, out, count, type, in, in_count, in_type, comm);                          \
	}                                                                                                    \
	static int alltoallv_##P(const void *out, const int *counts, const int *at, handle type, void *in,   \
				 const int *in_counts, const int *in_at, handle in_type, handle comm)        \
	{                                                                                                    \
		return alltoallv(P, out, counts, at, type, in, in_counts, in_at, in_type, comm);             \
	}                                                                                                    \
	static int alltoallw_##P(const void *out, const int *counts, const int *at, const handle *types,     \
				 void *in, const int *in_counts, const int *in_at, const handle *in_types,   \
				 handle comm)                                                                \
	{                                                                                                    \
		return alltoallw(P, out, counts, at, types, in, in_counts, in_at, in_types, comm);           \
	}                                                                                                    \
	static int probe_##P(int from, int tag, handle comm, void *status)                                   \
	{                                                                                                    \
		return found(NEXT(P, PROBE).probe(from, tag, comm, status), NULL, status);                   \
	}                                                                                                    \
	static int iprobe_##P(int from, int tag, handle comm, int *flag, void *status)                       \
	{                                                                                                    \
		return found(NEXT(P, IPROBE).iprobe(from, tag, comm, flag, status), flag, status);           \
	}                                                                                                    \
	static int mprobe_##P(int from, int tag, handle comm, void *message, void *status)                   \
	{                                                                                                    \
		return found(NEXT(P, MPROBE).mprobe(from, tag, comm, message, status), NULL, status);        \
	}                                                                                                    \
	static int improbe_##P(int from, int tag, handle comm, int *flag, void *message, void *status)       \
	{                                                                                                    \
		return found(NEXT(P, IMPROBE).improbe(from, tag, comm, flag, message, status), flag,         \
			     status);                                                                        \
	}                                                                                                    \
	INIT(rsend_init, RSEND_INIT, P)                                                                      \
	INIT(ssend_init, SSEND_INIT, P)
#define INIT(name, call, P)                                                                                  \
	static int name##_##P(const void *buf, int count, handle type, int to, int tag, handle comm,         \
			      void *request)                                                                 \
	{                                                                                                    \
		return init(P, call, buf, count, type, to, tag, comm, request);                              \
	}
STAND_INS(0)
STAND_INS(1)

static const struct {
	const char *name;
	union function stand_in[2];
} calls[CALLS] = {
	[MRECV] = {"MPI_Mrecv", {{.mrecv = mrecv_0}, {.mrecv = mrecv_1}}},
	[IMRECV] = {"MPI_Imrecv", {{.imrecv = imrecv_0}, {.imrecv = imrecv_1}}},
	[SEND_INIT] = {"MPI_Send_init", {{.init = send_init_0}, {.init = send_init_1}}},
	[BSEND_INIT] = {"MPI_Bsend_init", {{.init = bsend_init_0}, {.init = bsend_init_1}}},
	[RSEND_INIT] = {"MPI_Rsend_init", {{.init = rsend_init_0}, {.init = rsend_init_1}}},
	[SSEND_INIT] = {"MPI_Ssend_init", {{.init = ssend_init_0}, {.init = ssend_init_1}}},
	[START] = {"MPI_Start", {{.one = start_0}, {.one = start_1}}},
	[STARTALL] = {"MPI_Startall", {{.all = startall_0}, {.all = startall_1}}},
	[REQUEST_FREE] = {"MPI_Request_free", {{.one = free_request_0}, {.one = free_request_1}}},
	[ALLTOALL] = {"MPI_Alltoall", {{.blocks = alltoall_0}, {.blocks = alltoall_1}}},
	[ALLGATHER] = {"MPI_Allgather", {{.blocks = allgather_0}, {.blocks = allgather_1}}},
	[ALLTOALLV] = {"MPI_Alltoallv", {{.vary = alltoallv_0}, {.vary = alltoallv_1}}},
	[ALLTOALLW] = {"MPI_Alltoallw", {{.vary_types = alltoallw_0}, {.vary_types = alltoallw_1}}},
	[PROBE] = {"MPI_Probe", {{.probe = probe_0}, {.probe = probe_1}}},
	[IPROBE] = {"MPI_Iprobe", {{.iprobe = iprobe_0}, {.iprobe = iprobe_1}}},
	[MPROBE] = {"MPI_Mprobe", {{.mprobe = mprobe_0}, {.mprobe = mprobe_1}}},
	[IMPROBE] = {"MPI_Improbe", {{.improbe = improbe_0}, {.improbe = improbe_1}}},
};

static int call_named(const char *name)
{
	int call = sn_quick_named(calls, sizeof(*calls), CALLS, name);
	bool probe = call >= PROBE && call <= IMPROBE, gather = call == ALLGATHER;
	bool of_open = sn_mpi_family == OPEN_MPI && sn_mpi_abi == OPEN_MPIS && !gather;
	bool of_mpich = sn_mpi_family == MPICH && (probe || (gather && sn_mpi_is_intels()));
	return of_open || of_mpich ? call : CALLS;
}

bool sn_mended_takes(const char *name)
{
	return call_named(name) < CALLS;
}

void *sn_mended_stand_in(const char *name, void *definition)
{
	int p = *name == 'P', call = call_named(name);
	if (call == CALLS || !definition)
		return NULL;
	if (!p && sn_quick_is_tools(name, definition)) /* what that calls by the other name is mended */
		return NULL;
	if (call == REQUEST_FREE) { /* ours (requests.h) are freed behind it */
		void *ours = sn_quick_possible() ? sn_requests_stand_in(name, definition) : NULL;
		definition = ours ? ours : definition;
	}
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}

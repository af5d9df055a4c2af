/* SPDX-License-Identifier: BSD-3-Clause */
#include "mended.h"
#include "proof.h"
#include "told.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BATCH (1 << 30) /* bytes that are unpacked at once: an int has to count them */

enum { MRECV, IMRECV, SEND_INIT, BSEND_INIT, RSEND_INIT, SSEND_INIT, CALLS };

union function {
	void *symbol;
	int (*mrecv)(void *buf, int count, handle type, void *message, void *status);
	int (*imrecv)(void *buf, int count, handle type, void *message, void *request);
	int (*init)(const void *buf, int count, handle type, int to, int tag, handle comm, void *request);
	int (*true_extent)(handle type, intptr_t *low, intptr_t *extent);
	int (*contiguous)(int count, handle type, handle *made);
	int (*hindexed)(int count, const int *lengths, const intptr_t *at, handle type, handle *made);
	int (*on)(handle *type);
};
static union function next[2][CALLS]; /* without a P, and with it */
static union function true_extent, contiguous, hindexed, commit, drop, real;
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
	};
	known = sn_proof_find();
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		known &= (functions[i].to->symbol = sn_mpi_find(functions[i].name)) != NULL;
}

/* A type of the program's own; of another the MPI says what is wrong. */
static bool is_own(int count, handle type)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	return known && count > 0 && !sn_mpi_builtin(type) && type != sn_mpi_handle(SN_TYPE_NULL);
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

static int init(int p, int call, const void *buf, int count, handle type, int to, int tag, handle comm,
		void *request)
{
	intptr_t low = 0, extent, back;
	handle moved = 0;
	if (is_own(count, type) && !true_extent.true_extent(type, &low, &extent) && low) {
		back = -low;
		if (hindexed.hindexed(1, &(int){1}, &back, type, &moved) || commit.on(&moved))
			return sn_proof_failed(comm);
		buf = (const void *)((uintptr_t)buf + (uintptr_t)low);
	}
	int rc = SN_FUNCTION(&next[p][call]).init(buf, count, moved ? moved : type, to, tag, comm, request);
	if (moved)
		drop.on(&moved); /* the request has it */
	return rc;
}

/* ---- standing in ---- */

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
	INIT(bsend_init, BSEND_INIT, P)                                                                      \
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

void *sn_mended_stand_in(const char *name, void *definition)
{
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
	};
	int p = *name == 'P', call = 0;
	while (call < CALLS && strcmp(calls[call].name, name + p) != 0)
		call++;
	if (call == CALLS || !definition || sn_mpi_family != OPEN_MPI || sn_mpi_abi != OPEN_MPIS)
		return NULL;
	if (!p && sn_quick_is_tools(name, definition)) /* what that calls by the other name is mended */
		return NULL;
	SN_FUNCTION_IS(&next[p][call], definition);
	return calls[call].stand_in[p].symbol;
}

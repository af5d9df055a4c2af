/* SPDX-License-Identifier: BSD-3-Clause */
#include "beside.h"
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define TAG 1

static struct functions {
	int (*comm_split)(handle comm, int color, int key, void *made);
	int (*comm_free)(void *comm);
	int (*send)(const void *buf, int count, handle type, int to, int tag, handle comm);
	int (*sendrecv)(const void *out, int out_count, handle out_type, int to, int out_tag, void *in,
			int in_count, handle in_type, int from, int in_tag, handle comm, void *status);
	int (*irecv)(void *buf, int count, handle type, int from, int tag, handle comm, void *request);
	int (*wait)(void *request, void *status);
	int (*cancel)(void *request);
} mpi;
static struct { /* NULL: there is none */
	int (*send)(const void *buf, int64_t count, handle type, int to, int tag, handle comm);
	int (*irecv)(void *buf, int64_t count, handle type, int from, int tag, handle comm, void *request);
	int (*sendrecv)(const void *out, int64_t out_count, handle out_type, int to, int out_tag, void *in,
			int64_t in_count, handle in_type, int from, int in_tag, handle comm, void *status);
} wide;
static bool known;

static void find(void)
{
	static const struct {
		const char *name;
		size_t at;
	} functions[] = {
		{"PMPI_Comm_split", offsetof(struct functions, comm_split)},
		{"PMPI_Comm_free", offsetof(struct functions, comm_free)},
		{"PMPI_Send", offsetof(struct functions, send)},
		{"PMPI_Sendrecv", offsetof(struct functions, sendrecv)},
		{"PMPI_Irecv", offsetof(struct functions, irecv)},
		{"PMPI_Wait", offsetof(struct functions, wait)},
		{"PMPI_Cancel", offsetof(struct functions, cancel)},
	};
	known = true;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *found = sn_mpi_find(functions[i].name);
		memcpy((char *)&mpi + functions[i].at, &found, sizeof(found));
		known &= found != NULL;
	}
	void *found[] = {sn_mpi_find("PMPI_Send_c"), sn_mpi_find("PMPI_Irecv_c"),
			 sn_mpi_find("PMPI_Sendrecv_c")};
	memcpy(&wide, found, sizeof(found));
}

/*
 * An MPI has only so many communicators: then it is no error of the program's that there is no other one. With MPICH the
 * first one's handler is called for those that nobody has set, and set it would be no more; where several threads call, that is left alone.
 */
static bool split(handle comm, int rank, handle *made)
{
	handle handler = 0, handlers[2];
	handle unset = sn_mpi_family == OPEN_MPI ? 0 : sn_mpi_handle(SN_ERRORS_ARE_FATAL);
	bool got = !sn_proof_mpi.comm_get_errhandler(comm, &handler), set = got && handler != unset;
	bool firsts = got && !set && sn_quick_serial();
	if (set)
		sn_proof_mpi.comm_set_errhandler(comm, sn_mpi_handle(SN_ERRORS_RETURN));
	else if (firsts)
		sn_proof_quiet(handlers);
	bool well = !mpi.comm_split(comm, 0, rank, made);
	if (set && !sn_proof_mpi.comm_set_errhandler(comm, handler))
		sn_proof_mpi.errhandler_free(&handler);
	else if (firsts)
		sn_proof_loud(handlers);
	return well;
}

bool sn_beside_made(struct sn_meet *m, handle comm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	handle made = 0;
	if (likely(m->beside_asked))
		return m->beside != 0;
	pthread_once(&once, find);
	m->beside_asked = true;
	sn_requests_before();
	bool mine = known && split(comm, (int)m->rank, &made);
	made = mine ? sn_mpi_plain(made) : 0;
	if (mine)
		sn_proof_mpi.comm_set_errhandler(made, sn_mpi_handle(SN_ERRORS_RETURN));
	if (sn_meet_all(mine, comm))
		m->beside = made;
	else if (mine)
		mpi.comm_free(&made);
	sn_quick_told();
	return m->beside != 0;
}

void sn_beside_free(struct sn_meet *m)
{
	handle comm = m->beside;
	if (comm)
		mpi.comm_free(&comm);
	m->beside = 0;
}

/* That communicator's errors are returned. */
static int told(handle comm, int rc)
{
	if (!likely(!rc))
		sn_proof_mpi.call_errhandler(comm, rc);
	return rc;
}

/* Of a count beyond an int's, where the MPI takes none, it says that it is wrong. */
static int int_of(int64_t count)
{
	return count == (int)count ? (int)count : -1;
}

int sn_beside_send(const struct sn_meet *m, handle comm, const void *buf, int64_t count, handle type, int to)
{
	sn_requests_before();
	int rc = wide.send && count > INT_MAX ? wide.send(buf, count, type, to, TAG, m->beside)
					      : mpi.send(buf, int_of(count), type, to, TAG, m->beside);
	sn_quick_told();
	return told(comm, rc);
}

int sn_beside_own(const struct sn_meet *m, handle comm, const void *from, int64_t count, handle type,
		  void *to, int64_t in_count, handle in_type)
{
	int me = (int)m->rank;
	void *status = sn_mpi_no_status();
	sn_requests_before();
	int rc = wide.sendrecv && (count > INT_MAX || in_count > INT_MAX)
			 ? wide.sendrecv(from, count, type, me, TAG, to, in_count, in_type, me, TAG,
					 m->beside, status)
			 : mpi.sendrecv(from, int_of(count), type, me, TAG, to, int_of(in_count), in_type, me,
					TAG, m->beside, status);
	sn_quick_told();
	return told(comm, rc);
}

static void *request(const struct sn_beside *b, unsigned i)
{
	return sn_mpi_from(b->requests, (int)i);
}

int sn_beside_receive(struct sn_beside *b, handle comm, void *buf, int64_t count, handle type, int from)
{
	if (!b->requests && !(b->requests = malloc(b->m->ranks * sizeof(handle))))
		return sn_proof_failed(comm);
	sn_requests_before();
	void *one = request(b, b->n);
	int rc = wide.irecv && count > INT_MAX
			 ? wide.irecv(buf, count, type, from, TAG, b->m->beside, one)
			 : mpi.irecv(buf, int_of(count), type, from, TAG, b->m->beside, one);
	b->n += !rc;
	return told(comm, rc);
}

int sn_beside_wait(struct sn_beside *b, handle comm, int rc)
{
	for (unsigned i = 0; i < b->n; i++) { /* so that an error is known by its own code */
		sn_requests_before();
		int one = mpi.wait(request(b, i), sn_mpi_no_status());
		rc = rc ? rc : told(comm, one);
	}
	if (b->n)
		sn_quick_told();
	free(b->requests);
	return rc;
}

void sn_beside_cancel(struct sn_beside *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		sn_requests_before();
		mpi.cancel(request(b, i));
		mpi.wait(request(b, i), sn_mpi_no_status());
	}
	if (b->n)
		sn_quick_told();
	free(b->requests);
}

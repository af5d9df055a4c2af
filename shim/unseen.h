/* SPDX-License-Identifier: BSD-3-Clause */
/* A message's call that is not known yet, for quick.c: the MPI does it, and what it leads to may be watched (watch.h). */
#ifndef SN_SHIM_UNSEEN_H
#define SN_SHIM_UNSEEN_H

#include "freed.h"
#include "seen.h"

typedef int (*send_fn)(const void *buf, int count, handle type, int to, int tag, handle comm);
typedef int (*isend_fn)(const void *buf, int count, handle type, int to, int tag, handle comm, void *request);
typedef int (*irecv_fn)(void *buf, int count, handle type, int from, int tag, handle comm, void *request);
typedef int (*recv_fn)(void *buf, int count, handle type, int from, int tag, handle comm, void *status);
typedef int (*both_fn)(const void *out, int out_count, handle out_type, int to, int out_tag, void *in,
		       int in_count, handle in_type, int from, int in_tag, handle comm, void *status);

union function {
	void *symbol;
	send_fn send;
	isend_fn isend;
	recv_fn recv;
	irecv_fn irecv;
	both_fn both;
	int (*replace)(void *buf, int count, handle type, int to, int out_tag, int from, int in_tag,
		       handle comm, void *status);
	sn_freed_fn ends;
};

enum {
	SEND,
	ISEND,
	RECV,
	IRECV,
	BOTH,
	COMM_FREE,
	COMM_DISCONNECT,
	COMM_SET_INFO,
	CVAR_WRITE,
	TYPE_FREE,
	FINALIZE,
	CALLS
};

/* Whatever it is: a message out, one in, or both. */
struct operation {
	int call; /* SEND to BOTH */
	struct call out, in;
	const void *from;
	void *to, *status, *request;
	const union function *slowly;
};

/* By the MPI, and nothing else. */
int sn_unseen_slowly(const struct operation *o);
/* While nothing goes any other way: another thread holds. */
int sn_unseen_by_mpi(const struct operation *o);
/* Watched, if it is the time for that. Where all of a call lies in memory: what comes before is quicker in registers. */
int sn_unseen_do(const struct operation *o);
/* The MPI has given this request. If it is that of the receive that was watched, that has ended, in a way of which nothing is known here. */
void sn_unseen_given(const void *request);

#endif

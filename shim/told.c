/* SPDX-License-Identifier: BSD-3-Clause */
#include "told.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct told {
	int source, tag, error;
	int64_t len;
};

static union {
	void *symbol;
	int (*start)(int (*query)(void *, void *), int (*drop)(void *), int (*cancel)(void *, int),
		     void *state, void *request);
	int (*complete)(handle request);
} start, complete;

static void find(void)
{
	start.symbol = sn_mpi_find("PMPI_Grequest_start");
	complete.symbol = sn_mpi_find("PMPI_Grequest_complete");
}

static int query(void *state, void *status)
{
	const struct told *t = state;
	status_fill(status, t->source, t->tag, t->len);
	status_head(status)->error = t->error; /* which is what Open MPI takes for what comes back */
	return t->error;
}

static int drop(void *state)
{
	free(state);
	return 0;
}

static int cancel(void *state, int is_complete)
{
	(void)state;
	(void)is_complete;
	return 0;
}

/* With its state, and not complete yet. */
static handle begin(struct told **state)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find);
	struct told *t = *state = malloc(sizeof(*t));
	handle request = 0; /* half as wide ones are written into the lower half */
	if (!t || !start.symbol || !complete.symbol || start.start(query, drop, cancel, t, &request)) {
		fprintf(stderr, "sennit: what has been received cannot become a request of the MPI's: %s\n",
			t ? "no generalized request" : "no memory");
		abort();
	}
	/* cppcheck-suppress memleak ; the request has it, until drop() */
	return request;
}

handle sn_told_request(int source, int tag, int64_t len, int error)
{
	struct told *t;
	handle request = begin(&t);
	*t = (struct told){source, tag, error, len};
	complete.complete(request);
	return request;
}

handle sn_told_later(void **state)
{
	struct told *t;
	handle request = begin(&t);
	*state = t;
	return request;
}

void sn_told_now(handle request, void *state, int source, int tag, int error)
{
	struct told *t = state;
	*t = (struct told){source, tag, error, 0};
	complete.complete(request);
}

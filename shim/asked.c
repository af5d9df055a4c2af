/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is asked of requests but by MPI_Wait and MPI_Waitall.
 *
 * Requests of ours are for programs that only wait. None are given where something else is asked before they are
 * known to be possible, and no more from the first other question about one of ours on. Those of which it is asked
 * become the MPI's: in a list their places take what the MPI calls them, and copies that the program has keep our
 * name, by which the MPI's is found. So nothing is translated back, and a handler of errors may leave the call as it
 * likes. A slot is not used again then, but nor are more needed.
 */
#include "forgotten.h"
#include "own.h"
#include "stale.h"

static bool ours_among(int n, const void *requests)
{
	int i = 0;
	while (requests && i < n && own(at(requests, i)) > SLOTS)
		i++;
	return requests && i < n;
}

/* Libraries that the program calls, and in MPICH its own for files, ask of theirs. */
static void others_ask(bool ours)
{
	sn_requests_before();
	if (ours || !sn_requests_about())
		sn_own_off();
	sn_seen_forget(); /* its handle may come again, for another one */
}

static void all_real(int n, void *requests)
{
	bool ours = ours_among(n, requests);
	others_ask(ours);
	for (int i = 0; ours && i < n; i++) {
		uintptr_t k = own(at(requests, i));
		if (k <= SLOTS)
			put(requests, i, sn_own_real(slot_of(k)));
	}
}

/* One of bytes that are to be unpacked (packed.h): it stays ours, whatever is asked. */
static struct slot *packed_of(handle request)
{
	struct slot *s = slot_of(own(sn_mpi_plain(request)));
	if (!s || !s->packed.at)
		return NULL;
	others_ask(true);
	return s;
}

int sn_own_request_free(void *request)
{
	struct slot *s = request ? packed_of(at(request, 0)) : NULL;
	if (s) {
		put(request, 0, sn_own_null);
		return sn_own_packed_free(s);
	}
	all_real(1, request);
	return request && sn_forgotten_takes(request) ? 0 : sn_own_mpi[REQUEST_FREE].one(request);
}

int sn_own_cancel(void *request)
{
	struct slot *s = request ? packed_of(at(request, 0)) : NULL;
	if (s) {
		handle real = sn_own_real(s);
		return sn_stale_is_a_send(real) ? 0 : sn_own_mpi[CANCEL].one(&real);
	}
	all_real(1, request);
	if (request && sn_stale_is_a_send(at(request, 0)))
		return 0;
	return sn_own_mpi[CANCEL].one(request);
}

/* ---- those that leave the list, or the request, to the program ---- */

/* NULL of the MPI's: it is complete, and that is all there is to say. */
static handle real_of(handle request)
{
	uintptr_t i = own(sn_mpi_plain(request));
	others_ask(i <= SLOTS);
	return i > SLOTS ? request : i == SLOTS ? sn_own_null : sn_own_real(slot_of(i));
}

int sn_own_get_status(handle request, int *flag, void *status)
{
	struct slot *packed = packed_of(request);
	int rc = sn_own_mpi[GET_STATUS].value(real_of(request), flag, status);
	if (packed && !rc && *flag)
		sn_own_packed_placed(packed);
	return sn_requests_after(rc);
}

int sn_own_get_all(int n, void *requests, int *flag, void *statuses)
{
	int rc = 0, all = 1;
	bool ours = ours_among(n, requests);
	others_ask(ours);
	if (sn_own_mpi[GET_ALL].symbol && !ours)
		return sn_requests_after(sn_own_mpi[GET_ALL].testall(n, requests, flag, statuses));
	for (int i = 0; i < n && !rc; i++) {
		rc = sn_own_get_status(at(requests, i), flag, status_at(statuses, i));
		all &= *flag;
	}
	*flag = all;
	return rc;
}

int sn_own_get_any(int n, void *requests, int *index, int *flag, void *status)
{
	int rc = 0, some = 0;
	bool ours = ours_among(n, requests);
	others_ask(ours);
	if (sn_own_mpi[GET_ANY].symbol && !ours)
		return sn_requests_after(sn_own_mpi[GET_ANY].testany(n, requests, index, flag, status));
	for (*index = 0; *index < n; ++*index) {
		handle h = at(requests, *index);
		some |= h != sn_own_null;
		if (h != sn_own_null && ((rc = sn_own_get_status(h, flag, status)) || *flag))
			return rc;
	}
	if (!some) { /* this ends nothing, and says of it what there is to say, but for the error */
		if (wanted(status))
			status_head(status)->error = 0;
		return sn_own_mpi[TESTANY].testany(n, requests, index, flag, status);
	}
	*index = UNDEFINED;
	*flag = 0;
	return 0;
}

int sn_own_get_some(int n, void *requests, int *count, int *indices, void *statuses)
{
	int rc = 0, some = 0, flag;
	bool ours = ours_among(n, requests);
	others_ask(ours);
	if (sn_own_mpi[GET_SOME].symbol && !ours)
		return sn_requests_after(sn_own_mpi[GET_SOME].some(n, requests, count, indices, statuses));
	*count = 0;
	for (int i = 0; i < n && !rc; i++) {
		handle h = at(requests, i);
		if (h == sn_own_null)
			continue;
		some = 1;
		rc = sn_own_get_status(h, &flag, status_at(statuses, *count));
		if (!rc && flag)
			indices[(*count)++] = i;
	}
	if (!some)
		*count = UNDEFINED;
	return rc;
}

/* MPICH's own, so it may be missing. */
int sn_own_is_complete(handle request)
{
	static uint64_t unused[8];
	int flag = 0;
	if (packed_of(request))
		return !sn_own_get_status(request, &flag, unused) && flag;
	handle real = real_of(request);
	if (sn_own_mpi[IS_COMPLETE].symbol)
		return real == sn_own_null || sn_own_mpi[IS_COMPLETE].is_complete(real);
	return sn_own_mpi[GET_STATUS].value(real, &flag, unused) ? 0 : flag;
}

/* ---- MPI_Request_c2f ---- */

/* Somebody means to call in another language, where a request is a number of the MPI's. */
static handle for_others(handle request)
{
	uintptr_t i = own(sn_mpi_plain(request));
	struct slot *s = slot_of(i);
	others_ask(true);
	handle real = i > SLOTS ? request : sn_own_real(s);
	if (s && s->packed.at)
		sn_own_packed_told(s);
	return real;
}

/* MPICH has a macro, for the two are the same there. The ABI of MPI 5 has the other name alone. */
int sn_own_c2f(handle request)
{
	handle real = for_others(request);
	union function mpi = sn_own_mpi[sn_own_mpi[C2F].symbol ? C2F : TOINT];
	return mpi.symbol ? mpi.number(real) : (int)real;
}

int sn_own_toint(handle request)
{
	return sn_own_mpi[TOINT].symbol ? sn_own_mpi[TOINT].number(for_others(request)) : sn_own_c2f(request);
}

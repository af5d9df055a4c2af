/* SPDX-License-Identifier: BSD-3-Clause */
#include "intel.h"
#include "matched.h"
#include "requests.h"
#include <string.h>

_Atomic uint32_t sn_freed_counts[SN_FREED];

/* A type, or a communicator; else whatever was seen means something else. */
static void forget(enum sn_freed_by by, handle freed)
{
	if (freed && by != SN_FREED_DISCONNECTED)
		sn_freed_is(freed);
	else
		sn_quick_forget();
}

/*
 * After it, too: what it calls back may send. Of what takes fewer arguments the others are whatever was there.
 */
int sn_freed_call(enum sn_freed_by by, int p, sn_freed_fn mpi, void *a, void *b)
{
	bool comm = by == SN_FREED_COMM || by == SN_FREED_DISCONNECTED, one = comm || by == SN_FREED_TYPE;
	if (threads() == NOTHING)
		return mpi(a, b);
	handle freed = !one || !a ? 0 : sn_mpi_nth(a, 0), was = comm ? freed : 0;
	struct sn_meet_ending ending;
	if (freed && threads() == ONE)
		sn_requests_give_of(sn_mpi_plain(freed));
	else
		sn_requests_give();
	forget(by, freed);
	if (was) {
		sn_matched_ends(was);
		sn_meet_ends(&ending, was);
	}
	int rc;
	void *symbol;
	memcpy(&symbol, &mpi, sizeof(symbol));
	bool mended = by == SN_FREED_DISCONNECTED && was &&
		      (p || !sn_quick_is_tools("MPI_Comm_disconnect", symbol));
	if (!mended || !sn_intel_disconnects(a, was, &rc))
		rc = mpi(a, b);
	if (was)
		sn_meet_ended(&ending, !rc);
	forget(by, freed);
	return rc;
}

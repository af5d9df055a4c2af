/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An answer that Open MPI owes and forgets. Its MPI_Ssend marks the message with a bit of the tag, and has ended when
 * an empty message has come back in which the next bit stands instead. It sends that where it hears of a receive's
 * success; where it hears that the receive was too short it does not (ompi_mtl_ofi_recv_error_callback of mtl/ofi,
 * the same from 4.1 to 5.0 and later), and the sender waits for ever, over every provider. To say success with the
 * whole length would be answered, and then ends the program. So the answer is sent here when Open MPI reads of the
 * error.
 *
 * Only where the source's rank travels beside the tag, which Open MPI chooses for itself with this provider: with the
 * other two layouts of tags the bits mean something else.
 */
#include "ofi.h"

#include <dlfcn.h>

#define ASKED	 (UINT64_C(1) << 32)
#define ANSWERED (UINT64_C(1) << 33)

/*
 * By what is loaded with the code that called. A program may link Open MPI and use libfabric itself, too: then the
 * tag has to speak for it.
 */
static bool is_open_mpi(const void *code)
{
	Dl_info info;
	void *lib = dladdr(code, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	bool yes = lib && dlsym(lib, "ompi_mpi_comm_world");

	if (lib)
		dlclose(lib);
	return yes;
}

void sn_ofi_answer_short(const struct sn_ofi_event *e, const void *reader)
{
	const uint64_t sort = FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA;
	uint64_t tag = e->e.tag;

	if (e->err != FI_ETRUNC || !e->ep || (e->e.flags & sort) != sort ||
	    (tag & (ASKED | ANSWERED)) != ASKED || !is_open_mpi(reader))
		return;
	sn_inject(e->ep->sn, e->peer, NULL, 0, tag ^ (ASKED | ANSWERED), 0, 0);
}

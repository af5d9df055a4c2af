/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers that Open MPI owes and forgets. Its MPI_Ssend marks the message with a bit of the tag, and has ended when an
 * empty message has come back in which the next bit stands instead. It sends that where it hears of a receive's
 * success, but
 *  - not where it hears that the receive was too short (ompi_mtl_ofi_recv_error_callback of mtl/ofi, the same from 4.1
 *    to 5.0 and later). To say success with the whole length would be answered, and then ends the program. So the
 *    answer is sent here when Open MPI reads of the error;
 *  - before version 5 not for MPI_Mrecv and MPI_Imrecv (ompi_mtl_ofi_mrecv_callback), either. It is sent here when it
 *    asks for the message that it has claimed, if that fits; else as above.
 * Its sender waits for ever, over every other provider.
 *
 * Only where the source's rank travels beside the tag, which Open MPI chooses for itself with this provider: with the
 * other two layouts of tags the bits mean something else.
 */
#include "ofi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ASKED	 (UINT64_C(1) << 32)
#define ANSWERED (UINT64_C(1) << 33)

/* The first number of "Open MPI v4.1.4, package: ..."; none: very large. */
static int version_of(void *lib)
{
	union {
		void *symbol;
		int (*ask)(char *text, int *length);
	} f = {dlsym(lib, "PMPI_Get_library_version")};
	/* MPI_MAX_LIBRARY_VERSION_STRING of whichever MPI; the caller's stack may be short */
	char *text = calloc(1, 8192);
	int version, length;
	bool known = text && f.symbol && !f.ask(text, &length) && sscanf(text, "Open MPI v%d", &version) == 1;

	free(text);
	return known ? version : INT_MAX;
}

/*
 * By what is loaded with the code that called. A program may link Open MPI and use libfabric itself, too: then the tag
 * has to speak for it.
 */
static bool is_open_mpi(const void *code, int before_version)
{
	void *lib = sn_ofi_library_of(code);
	bool yes = lib && dlsym(lib, "ompi_mpi_comm_world");

	if (yes && before_version != INT_MAX)
		yes = version_of(lib) < before_version;
	if (lib)
		dlclose(lib);
	return yes;
}

/* The code that was last found to be another's, and to be Open MPI's: to find out takes as long as ten short messages. */
struct found {
	const void *_Atomic code[2];
};

static bool is_known(struct found *f, const void *code, int before_version)
{
	if (code == atomic_load_explicit(&f->code[1], memory_order_relaxed))
		return true;
	if (code == atomic_load_explicit(&f->code[0], memory_order_relaxed))
		return false;
	bool yes = is_open_mpi(code, before_version);
	atomic_store_explicit(&f->code[yes], code, memory_order_relaxed);
	return yes;
}

static void answer(struct sn_ofi_ep *ep, sn_peer peer, uint64_t tag)
{
	sn_inject(ep->sn, peer, NULL, 0, tag ^ (ASKED | ANSWERED), 0, 0);
}

static bool asks(uint64_t tag)
{
	return (tag & (ASKED | ANSWERED)) == ASKED;
}

void sn_ofi_answer_short(const struct sn_ofi_event *e, const void *reader)
{
	static struct found found;
	const uint64_t sort = FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA;

	if (e->err == FI_ETRUNC && e->ep && (e->e.flags & sort) == sort && asks(e->e.tag) &&
	    is_known(&found, reader, INT_MAX))
		answer(e->ep, e->peer, e->e.tag);
}

void sn_ofi_answer_claimed(struct sn_ofi_ep *ep, sn_peer peer, uint64_t tag, const void *reader)
{
	static struct found found;

	if (asks(tag) && is_known(&found, reader, 5))
		answer(ep, peer, tag);
}

bool sn_ofi_calls_contexts(const void *reader)
{
	static struct found found;

	return is_known(&found, reader, 5);
}

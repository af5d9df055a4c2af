/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that Open MPI's libfabric code (pml/cm, mtl/ofi) gets wrong, over every provider, without an error:
 *
 *  - MPI_Mrecv and MPI_Imrecv, all versions so far: what is of a type with holes, or in another order, is received into
 *    a memory of its own, and dropped (ompi_mtl_ofi_mrecv_callback): the program's buffer stays as it was. Here the
 *    bytes are received as such, and unpacked. MPI_Imrecv does so before it returns: its message has been matched, and
 *    what is left of it comes without a call of its sender's, unless there is no progress thread (setting `progress`)
 *    and no copy that the receiver makes alone. The request that the program gets is complete. Left to the MPI are
 *    types of which one element has more than 2 GiB.
 *  - MPI_Send_init and its kin, 4.0 and 4.1 at least to 4.1.4: of a type without holes that does not begin where the
 *    buffer does, such as a plane of a larger array, what lies at the beginning of the buffer is sent
 *    (ompi_mtl_datatype_pack). Here the type is given an offset that makes it begin there, and the buffer the rest.
 *  - MPI_Alltoallv and MPI_Alltoallw, the same versions: they are made of such requests, as long as there are not just
 *    two ranks (MPI_Alltoallv), so programs that send parts of arrays by them (FFTs) got others' parts. Likewise.
 *  - MPI_Alltoall, the same versions, of more than two ranks and long blocks, for the same reason. Likewise.
 *  - MPI_Bsend_init, all versions so far: from the second start on what the first one sent is sent again, or several
 *    times as many bytes from there on (mca_pml_cm_start goes on with what it made of the buffer). Here the program
 *    gets a request that sends nothing to nobody, and each start sends as MPI_Bsend does, which is over as it returns.
 *  - MPI_Probe, MPI_Iprobe, MPI_Mprobe, MPI_Improbe, all versions so far: their status does not say whether the message was
 *    cancelled (ompi_mtl_ofi_iprobe_generic), and MPI_Test_cancelled tells what lay in that memory before. It was not. Likewise MPICH's
 *    and Intel MPI's (MPIDI_OFI_probe_event).
 *
 * And one that Intel MPI gets wrong (at least to 2021.19): MPI_Allgather whose two sides have other types or counts for the same bytes, where it
 * chooses its algorithm 5 (I_MPI_ADJUST_ALLGATHER), which it does for other lengths over libfabric than by itself: others' bytes, or a
 * crash. Here the rank's own block is put where it belongs, and the MPI gathers in place.
 */
#ifndef SN_SHIM_MENDED_H
#define SN_SHIM_MENDED_H

#include <stdbool.h>

/* What stands before this definition of a name; NULL: nothing does. */
void *sn_mended_stand_in(const char *name, void *definition);
/* Has it to see each such call, whichever thread makes it? */
bool sn_mended_takes(const char *name);

#endif

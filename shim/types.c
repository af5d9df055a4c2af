/* SPDX-License-Identifier: BSD-3-Clause */
#include "types.h"

/* What belongs to no communicator: no handler of the program's is called, if it is none. */
struct sn_meet_type sn_type_ask(handle type, unsigned generation)
{
	struct sn_meet_type t = {.type = type, .generation = generation};
	handle handlers[2];
	intptr_t low = 0;
	bool serial = sn_quick_serial();
	if (sn_meet_plain(type) == sn_proof_handle("ompi_mpi_datatype_null", 0x0c000000))
		return t;
	if (serial)
		sn_proof_quiet(handlers);
	bool known = !sn_proof_mpi.type_size(type, &t.size) &&
		     !sn_proof_mpi.type_get_extent(type, &low, &t.extent);
	if (serial)
		sn_proof_loud(handlers);
	t.size = known ? t.size : 0;
	t.plain = known && sn_proof_builtin(type) && !low && t.extent == t.size;
	return t;
}

int sn_type_out(struct sn_meet *m, const struct sn_collective *c, const struct sn_meet_type *t,
		const char *from, int count, char *to, size_t len)
{
	int at = 0;
	if (!likely(t->plain))
		return sn_proof_mpi.pack(from, count, t->type, to, (int)len, &at, c->comm);
	sn_meet_copy(m, c, to, from, len);
	return 0;
}

int sn_type_in(struct sn_meet *m, const struct sn_collective *c, const struct sn_meet_type *t, char *to,
	       int count, const char *from, size_t len)
{
	int at = 0;
	if (!likely(t->plain))
		return sn_proof_mpi.unpack(from, (int)len, &at, to, count, t->type, c->comm);
	sn_meet_copy(m, c, to, from, len);
	return 0;
}

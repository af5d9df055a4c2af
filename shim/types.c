/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"
#include <pthread.h>

#define KNOWN 64

/* Is it whole, and committed? Of a type of the program's own only an MPI knows. */
static bool may_be_sent(handle type)
{
	char nothing[16];
	int at = 0;
	return !sn_proof_mpi.pack(nothing, 0, type, nothing, sizeof(nothing), &at,
				  sn_mpi_handle(SN_COMM_SELF));
}

/* What belongs to no communicator: no handler of the program's is called, if it is none. */
static struct sn_meet_type ask(handle type, unsigned generation)
{
	struct sn_meet_type t = {.type = type, .generation = generation};
	handle handlers[2];
	intptr_t low = 0, true_low = 0, covers = 0;
	bool serial = sn_quick_serial(), own = !sn_mpi_builtin(type);
	if (sn_mpi_plain(type) == sn_mpi_handle(SN_TYPE_NULL))
		return (struct sn_meet_type){.type = type};
	if (serial)
		sn_proof_quiet(handlers);
	bool known = !sn_proof_mpi.type_size(type, &t.size) &&
		     !sn_proof_mpi.type_get_extent(type, &low, &t.extent) &&
		     !sn_proof_mpi.type_get_true_extent(type, &true_low, &covers) &&
		     (!own || !serial || may_be_sent(type));
	if (serial)
		sn_proof_loud(handlers);
	if (!known ||
	    t.size <= 0) /* not remembered: it may be committed, or another type, by the next call */
		return (struct sn_meet_type){.type = type};
	t.plain = !own && !low && t.extent == t.size;
	t.stays = !own;
	t.solid = !low && !true_low && covers == t.size && t.extent >= t.size;
	return t;
}

struct sn_meet_type sn_type_find(handle type, unsigned of_all)
{
	static struct sn_meet_type known[KNOWN];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	unsigned generation = sn_type_generation(type, of_all);
	struct sn_meet_type *at = &known[(type ^ type >> 6 ^ type >> 12) % KNOWN];
	bool several = sn_quick_guard(&lock);
	struct sn_meet_type t = *at;
	sn_quick_unguard(&lock, several);
	if (t.type == type && (t.stays || t.generation == generation)) {
		t.generation = generation;
		return t;
	}
	t = ask(type, generation);
	pthread_mutex_lock(&lock);
	if (t.size)
		*at = t;
	pthread_mutex_unlock(&lock);
	return t;
}

/* MPICH returns no error of which a handler of the program's has been told; then nothing is packed. */
static int done(int rc, int at, size_t len)
{
	return rc ? rc : at == (int)len ? 0 : MPI_ERR_TYPE;
}

static __attribute__((noinline)) int pack(const struct sn_collective *c, const struct sn_meet_type *t,
					  const void *from, int count, void *to, size_t len)
{
	const struct sn_layout *l = from ? sn_layout_of(t) : NULL;
	if (likely(l)) {
		sn_layout_pack(l, to, from, len);
		return 0;
	}
	int at = 0, rc = sn_proof_mpi.pack(from, count, t->type, to, (int)len, &at, c->comm);
	return done(rc, at, len);
}

static __attribute__((noinline)) int unpack(const struct sn_collective *c, const struct sn_meet_type *t,
					    void *to, int count, const void *from, size_t len)
{
	const struct sn_layout *l = to ? sn_layout_of(t) : NULL;
	if (likely(l)) {
		sn_layout_unpack(l, to, from, len);
		return 0;
	}
	int at = 0, rc = sn_proof_mpi.unpack(from, (int)len, &at, to, count, t->type, c->comm);
	return done(rc, at, len);
}

int sn_type_out(struct sn_meet *m, const struct sn_collective *c, const struct sn_meet_type *t,
		const char *from, int count, char *to, size_t len)
{
	if (!likely(t->plain))
		return pack(c, t, from, count, to, len);
	sn_meet_copy(m, c, to, from, len);
	return 0;
}

int sn_type_in(struct sn_meet *m, const struct sn_collective *c, const struct sn_meet_type *t, char *to,
	       const char *from, size_t len)
{
	if (!likely(t->plain))
		return unpack(c, t, to, (int)(len / (size_t)t->size), from, len);
	if (likely(to != from))
		sn_meet_copy(m, c, to, from, len);
	return 0;
}

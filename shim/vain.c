/* SPDX-License-Identifier: BSD-3-Clause */
#include "vain.h"

static bool crowded(void)
{
	const struct sn_shim_quick *q = atomic_load_explicit(&sn_mpi_shim.quick, memory_order_relaxed);
	return !q || q->crowded();
}

void sn_vain_was(uintptr_t what, bool vain, uint32_t calls)
{
	struct sn_mine *mine = sn_mpi_thread.mine;
	if (!mine)
		return;
	struct sn_vain *v = &mine->vain;
	bool again = v->what == what && calls == v->calls + 1;
	bool moves = atomic_load_explicit(&sn_mpi_shim.elsewhere, memory_order_relaxed);
	v->what = vain && !moves && !crowded() ? what : 0;
	if (!v->what)
		return;
	v->last = sn_quick_ticks();
	v->first = again ? v->first : v->last;
	v->calls = sn_mpi_thread.calls;
	v->unasked = 0;
}

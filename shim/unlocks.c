/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where an MPI lets its lock go, for those that wait in it beside other threads (ofi/beside.c). MPICH yields between
 * unlock and lock (shim.c has the yield). Intel MPI does nothing there: 4 ranks of three threads on two cores took 36
 * s for what takes 3.3 now, and Intel MPI by itself 5 to 7 (tests/mpi/later.c). It finds pthread_mutex_lock() by a
 * table of addresses of its own, of which one entry is changed: nobody else's calls are concerned. Not that of
 * pthread_mutex_unlock(), which also ends a call whose message another thread has brought meanwhile.
 */
#include "unlocks.h"
#include "abi.h"
#include "object.h"
#include "quick.h"
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static int lock(pthread_mutex_t *mutex)
{
	if (!likely(!sn_mpi_thread.owed)) {
		int was = errno;
		atomic_load (&sn_mpi_shim.wait)();
		errno = was;
	}
	return pthread_mutex_lock(mutex);
}

static struct object {
	uintptr_t address; /* of a function in it */
	struct dl_phdr_info info;
	const ElfW(Dyn) * dynamic;
	uintptr_t fixed, fixed_end; /* what is not to be written any more, once its references are bound */
} mpi;

bool sn_unlocks_is_mpis(const void *code)
{
	return sn_object_holds(&mpi.info, (uintptr_t)code);
}

static int is_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object *o = arg;
	(void)size;
	if (!sn_object_holds(info, o->address))
		return 0;
	o->info = *info;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_DYNAMIC)
			o->dynamic = (const ElfW(Dyn) *)at;
		if (p->p_type == PT_GNU_RELRO) {
			o->fixed = at;
			o->fixed_end = at + p->p_memsz;
		}
	}
	return 1;
}

/* The loader has made addresses of them, but for the sizes. */
static ElfW(Xword) entry_of(const struct object *o, ElfW(Sxword) tag)
{
	for (const ElfW(Dyn) *d = o->dynamic; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == tag)
			return d->d_un.d_val;
	return 0;
}

/* Where the object keeps the function's address; NULL: it does not. */
static void **place_of(const struct object *o, const char *name)
{
	const ElfW(Rela) *rela = (const ElfW(Rela) *)entry_of(o, DT_JMPREL);
	const ElfW(Sym) *symbols = (const ElfW(Sym) *)entry_of(o, DT_SYMTAB);
	const char *names = (const char *)entry_of(o, DT_STRTAB);
	if (!rela || !symbols || !names || entry_of(o, DT_PLTREL) != DT_RELA)
		return NULL;
	for (size_t i = 0; i < entry_of(o, DT_PLTRELSZ) / sizeof(*rela); i++)
		if (!strcmp(names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name, name))
			return (void **)(o->info.dlpi_addr + rela[i].r_offset);
	return NULL;
}

void sn_unlocks_see(void)
{
	struct object o = {.address = (uintptr_t)sn_mpi_find("PMPI_Init_thread")};
	if (sn_mpi_family != MPICH || !dl_iterate_phdr(is_object, &o))
		return;
	mpi = o;
	if (!sn_mpi_is_intels()) {
		atomic_store(&sn_mpi_shim.lets_go, 1);
		return;
	}
	void **place = place_of(&o, "pthread_mutex_lock");
	if (!place)
		return;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)place;
	bool fixed = at >= o.fixed && at < (o.fixed_end & ~(page - 1)); /* in whole pages */
	void *start = (void *)(at & ~(page - 1));
	if (fixed && mprotect(start, page, PROT_READ | PROT_WRITE))
		return;
	union {
		int (*function)(pthread_mutex_t *mutex);
		void *address;
	} own = {lock};
	__atomic_store_n(place, own.address, __ATOMIC_RELAXED);
	atomic_store(&sn_mpi_shim.lets_go, 1);
	if (fixed)
		mprotect(start, page, PROT_READ);
}

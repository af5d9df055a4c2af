/* SPDX-License-Identifier: BSD-3-Clause */
#include "library.h"
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

struct wanted {
	struct sn_library *out;
	uintptr_t address;
	const char *begins; /* NULL: it is the address that tells */
};

static int is_wanted(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct wanted *w = arg;
	(void)size;
	if (w->begins ? !sn_begins(sn_file_of(info->dlpi_name), w->begins)
		      : !sn_object_holds(info, w->address))
		return 0;
	*w->out = (struct sn_library){.info = *info};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_DYNAMIC)
			w->out->dynamic = (const ElfW(Dyn) *)at;
		if (p->p_type == PT_GNU_RELRO) {
			w->out->fixed = at;
			w->out->fixed_end = at + p->p_memsz;
		}
	}
	return 1;
}

bool sn_library_with(struct sn_library *out, uintptr_t address)
{
	struct wanted w = {.out = out, .address = address};
	return dl_iterate_phdr(is_wanted, &w);
}

bool sn_library_named(struct sn_library *out, const char *begins)
{
	struct wanted w = {.out = out, .begins = begins};
	return dl_iterate_phdr(is_wanted, &w);
}

/* The loader has made addresses of them, but for the sizes. */
static ElfW(Xword) entry_of(const struct sn_library *l, ElfW(Sxword) tag)
{
	for (const ElfW(Dyn) *d = l->dynamic; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == tag)
			return d->d_un.d_val;
	return 0;
}

/* Where it keeps the function's address; NULL: it does not. */
static void **place_of(const struct sn_library *l, const char *name)
{
	const ElfW(Rela) *rela = (const ElfW(Rela) *)entry_of(l, DT_JMPREL);
	const ElfW(Sym) *symbols = (const ElfW(Sym) *)entry_of(l, DT_SYMTAB);
	const char *names = (const char *)entry_of(l, DT_STRTAB);
	if (!rela || !symbols || !names || entry_of(l, DT_PLTREL) != DT_RELA)
		return NULL;
	for (size_t i = 0; i < entry_of(l, DT_PLTRELSZ) / sizeof(*rela); i++)
		if (!strcmp(names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name, name))
			return (void **)(l->info.dlpi_addr + rela[i].r_offset);
	return NULL;
}

bool sn_library_redirect(const struct sn_library *l, const char *name, void (*function)(void))
{
	union {
		void (*function)(void);
		void *address;
	} to = {function};
	void **place = place_of(l, name);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)place;
	void *start = (void *)(at & ~(page - 1));
	bool fixed = at >= l->fixed && at < (l->fixed_end & ~(page - 1)); /* in whole pages */
	if (!place || (fixed && mprotect(start, page, PROT_READ | PROT_WRITE)))
		return false;
	__atomic_store_n(place, to.address, __ATOMIC_RELAXED);
	if (fixed)
		mprotect(start, page, PROT_READ);
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Enough of an ELF reader to answer two questions before anything is started: can this machine code load that library,
 * and which MPI library does this program ask for. Any file may be given, so every offset is checked against the size.
 */
#include "tool.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct image {
	const unsigned char *base;
	size_t size;
};

/* A copy of `len` bytes at `offset`; false beyond the end. */
static bool take(const struct image *im, uint64_t offset, void *to, size_t len)
{
	if (offset > im->size || len > im->size - offset)
		return false;
	memcpy(to, im->base + offset, len);
	return true;
}

/* Where in the file an address of the loaded image lies. */
static bool file_offset(const struct image *im, const Elf64_Ehdr *eh, uint64_t addr, uint64_t *offset)
{
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		Elf64_Phdr ph;
		if (!take(im, eh->e_phoff + (uint64_t)i * sizeof(ph), &ph, sizeof(ph)))
			return false;
		if (ph.p_type == PT_LOAD && addr >= ph.p_vaddr && addr - ph.p_vaddr < ph.p_filesz) {
			*offset = addr - ph.p_vaddr + ph.p_offset;
			return true;
		}
	}
	return false;
}

static void add_needed(const struct image *im, uint64_t name, struct sn_elf *elf)
{
	const unsigned max = sizeof(elf->needed) / sizeof(elf->needed[0]);
	if (name >= im->size || elf->needed_count == max)
		return;
	const char *s = (const char *)im->base + name;
	size_t len = strnlen(s, im->size - name);
	if (len >= sizeof(elf->needed[0]) || len == im->size - name)
		return;
	memcpy(elf->needed[elf->needed_count++], s, len + 1);
}

/* A list that is too long is none. */
static void set_search(const struct image *im, uint64_t list, bool first, struct sn_elf *elf)
{
	if (list >= im->size || (first && *elf->search)) /* with DT_RUNPATH, DT_RPATH does not count */
		return;
	const char *s = (const char *)im->base + list;
	size_t len = strnlen(s, im->size - list);
	if (len >= sizeof(elf->search) || len == im->size - list)
		return;
	memcpy(elf->search, s, len + 1);
	elf->search_first = first;
}

static void read_dynamic(const struct image *im, const Elf64_Ehdr *eh, const Elf64_Phdr *dyn,
			 struct sn_elf *elf)
{
	Elf64_Dyn d;
	uint64_t strings = 0;
	for (uint64_t at = 0; at + sizeof(d) <= dyn->p_filesz && take(im, dyn->p_offset + at, &d, sizeof(d));
	     at += sizeof(d)) {
		if (d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_STRTAB && !file_offset(im, eh, d.d_un.d_ptr, &strings))
			return;
	}
	if (!strings)
		return;
	for (uint64_t at = 0; at + sizeof(d) <= dyn->p_filesz && take(im, dyn->p_offset + at, &d, sizeof(d));
	     at += sizeof(d)) {
		if (d.d_tag == DT_NULL)
			break;
		if (d.d_un.d_val >= im->size)
			continue;
		if (d.d_tag == DT_NEEDED)
			add_needed(im, strings + d.d_un.d_val, elf);
		else if (d.d_tag == DT_SONAME)
			elf->named = true;
		else if (d.d_tag == DT_RUNPATH || d.d_tag == DT_RPATH)
			set_search(im, strings + d.d_un.d_val, d.d_tag == DT_RPATH, elf);
	}
}

static bool read_image(const struct image *im, struct sn_elf *elf)
{
	Elf64_Ehdr eh;
	unsigned char ident[20];
	if (!take(im, 0, ident, sizeof(ident)) || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return false;
	elf->bits = ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	/* e_machine has the same place in both classes, and this machine is little-endian like its files */
	memcpy(&elf->machine, ident + 18, sizeof(elf->machine));
	if (elf->bits != 64 || !take(im, 0, &eh, sizeof(eh)))
		return true;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;
		if (!take(im, eh.e_phoff + (uint64_t)i * sizeof(ph), &ph, sizeof(ph)))
			break;
		if (ph.p_type == PT_DYNAMIC)
			read_dynamic(im, &eh, &ph, elf);
	}
	return true;
}

bool sn_elf_read(const char *path, struct sn_elf *elf)
{
	memset(elf, 0, sizeof(*elf));
	size_t size;
	void *map = sn_tool_map_file(path, &size);
	if (!map)
		return false;
	struct image im = {.base = map, .size = size};
	bool ok = read_image(&im, elf);
	munmap(map, size);
	return ok;
}

bool sn_elf_needs(const struct sn_elf *elf, const char *library)
{
	for (unsigned i = 0; i < elf->needed_count; i++)
		if (strcmp(elf->needed[i], library) == 0)
			return true;
	return false;
}

const char *sn_elf_machine(const struct sn_elf *elf)
{
	switch (elf->machine) {
	case EM_X86_64: return elf->bits == 64 ? "x86-64" : "x32";
	case EM_386: return "i386";
	case EM_AARCH64: return "aarch64";
	case EM_ARM: return "arm";
	case EM_PPC64: return "ppc64";
	case EM_RISCV: return "riscv";
	case EM_S390: return "s390";
	default: return "another architecture";
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "statics.h"
#include "heap.h"
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAST ((size_t)64 << 10)
#define PAGE  ((uintptr_t)SN_HEAP_UNIT)
#define THERE (UINT64_C(3) << 62) /* in a word of /proc/self/pagemap: in memory, or swapped out */

struct range {
	uintptr_t from, to;
};

/* Of the program, which comes first: what its file holds nothing for. */
static int of_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct range *r = arg;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || p->p_memsz <= p->p_filesz)
			continue;
		r->from = (at + p->p_filesz + PAGE - 1) & ~(PAGE - 1);
		r->to = (at + p->p_memsz) & ~(PAGE - 1);
	}
	return 1;
}

/* As the loader made it: private, of no file, to be read and written. What is found so far ends at `from`. */
static bool is_plain(const struct sn_mapping *m, void *arg)
{
	struct range *left = arg;
	if (m->to <= left->from)
		return true;
	if (m->from > left->from || m->shared || m->inode || m->access != (PROT_READ | PROT_WRITE))
		return false;
	left->from = m->to;
	return left->from < left->to;
}

static bool all_plain(const struct range *r)
{
	struct range left = *r;
	return sn_heap_mappings(is_plain, &left) && left.from >= left.to;
}

/* Behind the last page that is there. False: nobody says which are. */
static bool skip_used(struct range *r)
{
	uint64_t words[1024], most = sizeof(words) / sizeof(*words);
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool known = fd >= 0;
	for (uintptr_t at = r->from; known && at < r->to; at += most * PAGE) {
		uint64_t pages = (r->to - at) / PAGE, n = pages < most ? pages : most;
		known = pread(fd, words, n * sizeof(*words), (off_t)(at / PAGE * sizeof(*words))) ==
			(ssize_t)(n * sizeof(*words));
		for (uint64_t i = 0; known && i < n; i++)
			if (words[i] & THERE)
				r->from = at + (i + 1) * PAGE;
	}
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(before, NULL);
	return known;
}

struct sn_statics sn_statics_find(size_t most)
{
	struct range r = {0};
	dl_iterate_phdr(of_program, &r);
	if (r.to <= r.from || r.to - r.from < LEAST || !skip_used(&r) || r.to - r.from < LEAST ||
	    r.to - r.from > most || !all_plain(&r))
		return (struct sn_statics){0};
	return (struct sn_statics){(char *)r.from, r.to - r.from}; /* NOLINT(performance-no-int-to-ptr) */
}

/* A process that is made without fork's handlers does not have them, as it does not have large blocks. */
bool sn_statics_move(const struct sn_statics *s, int fd, uint64_t offset)
{
	if (!s->bytes ||
	    sn_heap_mmap(s->at, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
			 (off_t)offset) == MAP_FAILED)
		return false;
	sn_heap_advise(s->at, s->bytes, MADV_DONTFORK);
	return true;
}

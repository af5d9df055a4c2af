/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"
#include "object.h"
#include "quick.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Libraries by whose leave a program has memory that only a GPU may read, whatever their versions, and where it is
 * known, the device without which there is none: distributions link an MPI's parts with them where no GPU is (Ubuntu
 * 24.04 its UCX with AMD's; Debian 13 a plugin of hwloc's, which each Open MPI loads, with Level Zero's loader, which
 * is therefore not among them, but its drivers are).
 */
static int is_gpus(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const struct {
		const char *file, *device, *on_windows;
	} of[] = {{"libcuda.so", NULL, NULL},
		  {"libamdhip64.so", "/dev/kfd", "/dev/dxg"},
		  {"libze_intel", NULL, NULL}};
	const char *file = sn_file_of(info->dlpi_name);
	const char **found = arg;
	(void)size;
	for (size_t i = 0; !*found && i < sizeof(of) / sizeof(of[0]); i++)
		if (sn_begins(file, of[i].file) &&
		    (!of[i].device || !access(of[i].device, F_OK) || !access(of[i].on_windows, F_OK)))
			*found = of[i].file;
	return *found != NULL;
}

static const char *_Atomic found_last; /* NULL: none */

bool sn_gpu_tell(void)
{
	char words[96];
	const char *found = atomic_load(&found_last);
	if (found) {
		snprintf(words, sizeof(words),
			 "left to the MPI, or copied by it: buffers may be a GPU's, whose %s is loaded",
			 found);
		sn_quick_tell(words);
	}
	return found != NULL;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

/*
 * Asked at each call that is watched, and what is loaded is walked through only when something has been: to ask for a
 * library that is not there by dlopen() is to look for it in every folder, 50 us each time.
 */
bool sn_gpu_is_here(void)
{
	static _Atomic unsigned long long asked_at;
	unsigned long long loads = 0;
	dl_iterate_phdr(count_loads, &loads);
	if (loads && loads == atomic_load(&asked_at))
		return atomic_load(&found_last) != NULL;
	const char *found = NULL;
	dl_iterate_phdr(is_gpus, &found);
	atomic_store(&found_last, found);
	sn_gpu_tell();
	atomic_store(&asked_at, loads);
	return found != NULL;
}

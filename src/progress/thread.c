/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/thread.h"
#include "base/signals.h"
#include <link.h>

#define STACK_BYTES ((size_t)256 * 1024)

static int add_tls(struct dl_phdr_info *object, size_t size, void *sum)
{
	(void)size;
	for (unsigned i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
	return 0;
}

int sn_thread_start(pthread_t *thread, void *(*run)(void *arg))
{
	sigset_t others, before;
	pthread_attr_t attr;
	/*
	 * The C library takes a thread's own variables, the program's too, out of its stack: a Fortran program has
	 * megabytes of them.
	 */
	size_t stack = STACK_BYTES;
	dl_iterate_phdr(add_tls, &stack);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (stack + 4095) & ~(size_t)4095);
	sn_signals_of_others(&others);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	int rc = pthread_create(thread, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

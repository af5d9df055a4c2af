/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a program in which the kernel refuses to copy between processes, as container runtimes and hardened systems do:
 *
 *   noptrace [-e eperm|enosys] [-o read|write] [--] PROGRAM [ARGUMENTS]
 *
 * A seccomp filter answers process_vm_readv and process_vm_writev (with -o only one of them) with that error. It is
 * inherited by whatever PROGRAM starts.
 */
#include "sides.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int error = EPERM, c;
	unsigned ops = REFUSE_READ | REFUSE_WRITE;

	while ((c = getopt(argc, argv, "+e:o:")) != -1) {
		if (c == 'e' && strcmp(optarg, "eperm") == 0)
			error = EPERM;
		else if (c == 'e' && strcmp(optarg, "enosys") == 0)
			error = ENOSYS;
		else if (c == 'o' && strcmp(optarg, "read") == 0)
			ops = REFUSE_READ;
		else if (c == 'o' && strcmp(optarg, "write") == 0)
			ops = REFUSE_WRITE;
		else
			return 2;
	}
	if (optind >= argc)
		return 2;
	if (!refuse_copies(ops, error)) {
		fprintf(stderr, "noptrace: this kernel has no seccomp filters: %s\n", strerror(errno));
		return 77;
	}
	execvp(argv[optind], argv + optind);
	fprintf(stderr, "noptrace: %s: %s\n", argv[optind], strerror(errno));
	return 127;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the module's tests share. Each test is one static program that runs as the emulated machine's first one; a failed
 * check says where, and ends the process with status 1, a child's through kt_join in its parent too.
 */
#ifndef KT_H
#define KT_H

#include "sennit_ioctl.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KT_PAGE 4096ul

#define KT_CHECK(cond)                                                                                       \
	do {                                                                                                 \
		if (!(cond)) {                                                                               \
			printf("%s:%d: failed: %s (errno %d, %s)\n", __FILE__, __LINE__, #cond, errno,       \
			       strerror(errno));                                                             \
			fflush(stdout);                                                                      \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

/* The call fails, with this errno. */
#define KT_FAILS(call, code)                                                                                 \
	do {                                                                                                 \
		errno = 0;                                                                                   \
		KT_CHECK((call) < 0);                                                                        \
		KT_CHECK(errno == (code));                                                                   \
	} while (0)

#define KT_RUN(test)                                                                                         \
	do {                                                                                                 \
		printf("%s\n", #test);                                                                       \
		fflush(stdout);                                                                              \
		test();                                                                                      \
	} while (0)

struct kt_region {
	uint32_t id;
	uint64_t handle;
};

/* Argument `compat`: all calls of the device are made as a 32-bit program makes them; skips where the kernel has none. */
void kt_options(int argc, char **argv);
bool kt_compat(void);	      /* the same at once; false: the kernel has none */
extern uint64_t *kt_accepted; /* unless NULL: calls of the device that returned 0, by their number */

int kt_open(void);
char *kt_map(size_t len);
void kt_fill(void *at, size_t len, unsigned seed);
bool kt_same(const void *at, size_t len, unsigned seed);
struct kt_region kt_declare(int fd, void *at, size_t len, uint32_t access);
int kt_undeclare(int fd, uint32_t id);
struct sennit_end kt_mine(struct sennit_seg *segs, uint32_t n);
struct sennit_end kt_id(uint32_t id, uint64_t offset);
struct sennit_end kt_handle(uint64_t handle, uint64_t offset);
int kt_copy(int fd, struct sennit_end dst, struct sennit_end src, uint64_t len, uint64_t *copied);
int kt_read(int fd, uint64_t handle, uint64_t offset, void *to, size_t len);
int kt_write(int fd, uint64_t handle, uint64_t offset, void *from, size_t len);
uint64_t kt_counter(enum sennit_counter which);
uint64_t kt_pinned(void);
void kt_wait_unpinned(uint64_t at_most);
void kt_wait_pinned(uint64_t pages);
uint64_t kt_held(void);
uint64_t kt_vm_pin_kb(void);
pid_t kt_fork(void);
void kt_join(pid_t child);
void kt_become_user(unsigned uid);
/*
 * Ends the process unless called again within so many seconds; first it says where it stands, and where state is not
 * NULL, that.
 */
void kt_limit(unsigned seconds, void (*state)(void));
void kt_say_counter(void *arg, const char *name, uint64_t value); /* unless 0; for sn_counters() */
int kt_times(int n); /* so often, or an eighth of it where a checking kernel makes all slow */
void kt_say(int pipe, const void *what, size_t len);
void kt_hear(int pipe, void *what, size_t len);
uint32_t kt_random(uint64_t *state);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that serve their own page faults, in a handler of SIGSEGV: a message is no way around it, whoever moves it. And
 * those that call from short stacks, as coroutines do.
 *  - collector: pages of a posted receive may not be written until the handler says so; the message comes while its
 *    receiver computes.
 *  - saver: it hears of every page that was written since it was saved, as a checkpoint that saves what has changed; of malloc's
 *    memory, too, which peers may map.
 *  - pager: what is sent may not be read until the handler says so.
 *
 *   served       on two ranks
 */
#include "stress.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE	4096
#define LONGEST 3000000
#define PAGES	((LONGEST + PAGE - 1) / PAGE)
#define ROUNDS	6
#define TAG	5
#define STACK	((size_t)16 << 10)
#define MANY	4 /* coroutines */

static int rank, round_of;
static char *first; /* of the pages whose faults are served */
static size_t pages;
static unsigned char written[PAGES];

static void serve(int number, siginfo_t *fault, void *context)
{
	size_t page = (size_t)((char *)fault->si_addr - first) / PAGE;
	(void)context;
	if ((char *)fault->si_addr < first || page >= pages) {
		signal(number, SIG_DFL);
		return;
	}
	written[page] = 1;
	mprotect(first + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void compute(double seconds)
{
	for (double until = MPI_Wtime() + seconds; MPI_Wtime() < until;)
		;
}

/* From rank 0 to rank 1: in which memory, without which access. */
static void message(char *at, size_t len, int access, bool from_there, bool posted)
{
	static char other[LONGEST];
	MPI_Request r;
	first = at;
	pages = (len + PAGE - 1) / PAGE;
	memset(written, 0, sizeof(written));
	bool mine = (rank == 0) == from_there;
	char *buf = mine ? at : other;
	if (rank == 0)
		pattern_fill(buf, (uint64_t)round_of, 0, len);
	else
		memset(buf, GUARD, len);
	if (mine)
		must(!mprotect(at, pages * PAGE, access), "no mprotect");
	if (rank == 1 && posted)
		MPI_Irecv(buf, (int)len, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &r);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		compute(posted ? 0.001 : 0);
		MPI_Send(buf, (int)len, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
	} else if (posted) {
		compute(0.01);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(buf, (int)len, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	if (rank == 1)
		pattern_check(buf, (uint64_t)round_of, 0, len, "served");
	for (size_t p = 0; p < pages && mine; p++)
		must(written[p], "%zu bytes: page %zu of %zu was passed by", len, p, pages);
	mprotect(at, pages * PAGE, PROT_READ | PROT_WRITE);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void messages(void)
{
	static const size_t lengths[] = {100, 4000, 65536, 300000, LONGEST};
	char *mapped = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mapped != MAP_FAILED, "no memory");
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
		for (round_of = 0; round_of < ROUNDS; round_of++) {
			void *own;
			size_t room = lengths[k] < 1 << 20 ? 1 << 20 : PAGES * PAGE; /* peers may map it */
			must(!posix_memalign(&own, PAGE, room), "no memory");
			message(mapped, lengths[k], PROT_READ, false, round_of % 2);
			message(own, lengths[k], PROT_READ, false, round_of % 2);
			message(mapped, lengths[k], PROT_NONE, true, round_of % 2);
			free(own);
		}
	munmap(mapped, PAGES * PAGE);
}

/* ---- short stacks ---- */

static ucontext_t back, contexts[MANY];
static bool over[MANY];

static void exchange(int which)
{
	static const size_t lengths[] = {8, 100, 4096, 20000, 65536, 300000, 1 << 20};
	for (size_t k = 0; k < 4 * sizeof(lengths) / sizeof(lengths[0]); k++) {
		size_t len = lengths[k % (sizeof(lengths) / sizeof(lengths[0]))];
		char *out = malloc(len), *in = malloc(len);
		MPI_Request r[2];
		pattern_fill(out, (uint64_t)(which + 10 * rank), 0, len);
		MPI_Irecv(in, (int)len, MPI_BYTE, 1 - rank, which, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(out, (int)len, MPI_BYTE, 1 - rank, which, MPI_COMM_WORLD, &r[1]);
		for (int done = 0; !done;) {
			MPI_Testall(2, r, &done, MPI_STATUSES_IGNORE);
			if (!done)
				/* cppcheck-suppress swapcontextCalled ; these are what is tested */
				swapcontext(&contexts[which], &back);
		}
		pattern_check(in, (uint64_t)(which + 10 * (1 - rank)), 0, len, "a coroutine");
		free(out);
		free(in);
	}
	over[which] = true;
}

static void coroutines(void)
{
	static int left = MANY; /* getcontext() may return more than once */
	for (int i = 0; i < MANY; i++) {
		char *stack =
			mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(stack != MAP_FAILED && !mprotect(stack, PAGE, PROT_NONE), "no stack");
		/* cppcheck-suppress getcontextCalled */
		getcontext(&contexts[i]);
		contexts[i].uc_stack = (stack_t){.ss_sp = stack + PAGE, .ss_size = STACK};
		contexts[i].uc_link = &back;
		/* cppcheck-suppress makecontextCalled */
		makecontext(&contexts[i], (void (*)(void))exchange, 1, i);
	}
	while (left) {
		left = 0;
		for (int i = 0; i < MANY; i++) {
			left += !over[i];
			if (!over[i])
				/* cppcheck-suppress swapcontextCalled */
				swapcontext(&back, &contexts[i]);
		}
	}
}

int main(int argc, char **argv)
{
	int level;
	struct sigaction on_fault = {.sa_sigaction = serve, .sa_flags = SA_SIGINFO};
	MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	coroutines();
	sigaction(SIGSEGV, &on_fault, NULL);
	messages();
	if (rank == 0)
		printf("served: every page was seen, every byte right\n");
	MPI_Finalize();
	return 0;
}

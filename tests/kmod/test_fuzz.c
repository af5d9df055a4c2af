// SPDX-License-Identifier: BSD-3-Clause
/*
 * test_fuzz SEED SECONDS: processes with two threads each call the device with arguments that are half right, on
 * memory that they change all the time, fork, exit and are killed; some of them as 32-bit programs. What the kernel
 * asks for over the network is answered by frames that are half right. The kernel must not mind (boot.sh reads its
 * log), nothing may stay pinned, and the module must unload; each call must have been accepted, and frames placed.
 * One seed gives one sequence of calls for each thread; how they interleave is the scheduler's.
 */
#include "fuzz.h"
#include "veth.h"
#include <net/if.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#define WORKERS 4
#define CALLS	22  /* that the device knows */
#define MORE	100 /* seconds for a slow machine to reach them all */

volatile uint64_t *fuzz_handles;
volatile uint64_t *fuzz_several;
static volatile uint64_t *calls;

static uint32_t any_vector(struct fuzz *f, struct sennit_seg *segs, uint32_t max)
{
	uint32_t n = pick(f, 8) ? 1 + pick(f, 3) : pick(f, max);

	for (uint32_t i = 0; i < n; i++)
		segs[i] = (struct sennit_seg){any_address(f), pick(f, 10) ? pick(f, 90000) : any_number(f)};
	return n;
}

static struct sennit_end any_end(struct fuzz *f, struct sennit_seg *segs)
{
	struct sennit_end e = {.kind = pick(f, 20) ? 1 + pick(f, 3) : any_number(f)};

	e.ref = e.kind == SENNIT_END_REGION ? f->ids[pick(f, 8)] : any_handle(f);
	if (e.kind == SENNIT_END_MEMORY) {
		e.nsegs = any_vector(f, segs, 40);
		e.ref = pick(f, 20) ? (uintptr_t)segs : any_address(f);
	}
	e.offset = pick(f, 3) ? 0 : any_number(f);
	return e;
}

static void fuzz_questions(struct fuzz *f, int fd)
{
	struct sennit_counters c = {.values = any_address(f), .n = pick(f, 60), .reserved = !pick(f, 9)};
	struct sennit_info i;

	ioctl(fd, pick(f, 2) ? SENNIT_IOC_INFO : SENNIT_IOC_COUNTERS, pick(f, 2) ? (void *)&i : (void *)&c);
}

static void fuzz_regions(struct fuzz *f, int fd)
{
	struct sennit_seg segs[40];
	struct sennit_declare d = {.segs = (uintptr_t)segs,
				   .access = pick(f, 10) ? 1 + pick(f, 3) : any_number(f)};
	struct sennit_undeclare u = {.id = f->ids[pick(f, 8)]};
	struct sennit_prepare p = {.id = f->ids[pick(f, 8)], .offset = pick(f, 2) ? 0 : any_number(f)};

	switch (pick(f, 3)) {
	case 0:
		d.nsegs = any_vector(f, segs, 40);
		if (ioctl(fd, SENNIT_IOC_DECLARE, &d) == 0) {
			f->ids[pick(f, 8)] = d.id;
			publish(f, d.handle);
		}
		break;
	case 1: ioctl(fd, SENNIT_IOC_UNDECLARE, &u); break;
	case 2:
		fuzz_questions(f, fd);
		p.len = any_number(f);
		ioctl(fd, SENNIT_IOC_PREPARE, &p);
		break;
	}
}

static void fuzz_copies(struct fuzz *f, int fd)
{
	struct sennit_seg a[40], b[40];
	struct sennit_copy c = {.dst = any_end(f, a), .src = any_end(f, b), .len = any_number(f)};
	struct sennit_share_open o = {.dst = any_end(f, a), .src = any_end(f, b), .len = any_number(f)};
	struct sennit_share_run r = {.handle = any_handle(f),
				     .flags = pick(f, 20) ? pick(f, 4) : any_number(f)};
	struct sennit_share_close s = {.handle = any_handle(f)};

	switch (pick(f, 6)) {
	case 0:
	case 1:
	case 2: ioctl(fd, SENNIT_IOC_COPY, &c); break;
	case 3:
		if (ioctl(fd, SENNIT_IOC_SHARE_OPEN, &o) == 0)
			publish(f, o.handle);
		break;
	case 4: ioctl(fd, SENNIT_IOC_SHARE_RUN, &r); break;
	case 5: ioctl(fd, SENNIT_IOC_SHARE_CLOSE, &s); break;
	}
}

static void fuzz_messages(struct fuzz *f, int fd)
{
	struct sennit_seg segs[40];
	struct sennit_join j = {.job = pick(f, 4) ? any_handle(f) : 0, .rank = pick(f, 6)};
	struct sennit_post p = {
		.peer = (int)pick(f, 7) - 1, .tag = (int)pick(f, 4) - 1, .context = pick(f, 2)};
	struct sennit_wait w = {.request = pick(f, 8) ? f->requests[pick(f, 8)] : any_number(f),
				.timeout_us = pick(f, 200) ? pick(f, 3000) : SENNIT_FOREVER};
	struct sennit_probe q = {.peer = p.peer, .tag = p.tag, .context = p.context};
	struct sennit_cancel c = {.request = f->requests[pick(f, 8)]};

	switch (pick(f, 8)) {
	case 0:
		if (ioctl(fd, SENNIT_IOC_JOIN, &j) == 0)
			publish(f, j.job);
		break;
	case 1:
	case 2:
	case 3:
	case 4:
		p.segs = (uintptr_t)segs;
		p.nsegs = any_vector(f, segs, 40);
		if (ioctl(fd, pick(f, 2) ? SENNIT_IOC_SEND : SENNIT_IOC_RECV, &p) == 0)
			f->requests[pick(f, 8)] = p.request;
		break;
	case 5: ioctl(fd, SENNIT_IOC_WAIT, &w); break;
	case 6: ioctl(fd, SENNIT_IOC_PROBE, &q); break;
	case 7: ioctl(fd, SENNIT_IOC_CANCEL, &c); break;
	}
}

/* ---- what is right ---- */

static void right_messages(struct fuzz *f, int fd, struct sennit_seg *segs)
{
	struct sennit_join j = {.rank = 0};
	struct sennit_post p = {.tag = (int)pick(f, 3), .nsegs = 1, .segs = (uintptr_t)&segs[0]}, q = p;
	struct sennit_probe b = {.peer = SENNIT_ANY, .tag = SENNIT_ANY};
	struct sennit_wait w = {.timeout_us = 1000};
	struct sennit_cancel c = {0};

	ioctl(fd, SENNIT_IOC_JOIN, &j);
	ioctl(fd, SENNIT_IOC_SEND, &p);
	ioctl(fd, SENNIT_IOC_PROBE, &b);
	q.segs = (uintptr_t)&segs[1];
	ioctl(fd, SENNIT_IOC_RECV, &q);
	w.request = q.request;
	ioctl(fd, SENNIT_IOC_WAIT, &w);
	ioctl(fd, SENNIT_IOC_RECV, &q);
	c.request = q.request;
	ioctl(fd, SENNIT_IOC_CANCEL, &c);
}

/* Each call once as it is meant, on a file of its own, while others do what they do: it must not only be refused. */
static void fuzz_right(struct fuzz *f)
{
	uint64_t len = KT_PAGE * (1 + pick(f, 16)), values[SENNIT_C_COUNT];
	char *at =
		mmap(NULL, 2 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct sennit_seg segs[2] = {{(uintptr_t)at, len}, {(uintptr_t)at + len, len}};
	struct sennit_declare d[2] = {{.segs = (uintptr_t)&segs[0], .nsegs = 1, .access = SENNIT_READ},
				      {.segs = (uintptr_t)&segs[1], .nsegs = 1, .access = SENNIT_WRITE}};
	struct sennit_counters n = {.values = (uintptr_t)values, .n = SENNIT_C_COUNT};
	struct sennit_info i;
	int fd = open(SENNIT_DEVICE, O_RDWR);

	if (fd < 0 || at == MAP_FAILED)
		return;
	ioctl(fd, SENNIT_IOC_INFO, &i);
	ioctl(fd, SENNIT_IOC_COUNTERS, &n);
	if (ioctl(fd, SENNIT_IOC_DECLARE, &d[0]) == 0 && ioctl(fd, SENNIT_IOC_DECLARE, &d[1]) == 0) {
		struct sennit_prepare p = {.id = d[0].id, .len = len};
		struct sennit_copy c = {
			.dst = kt_id(d[1].id, 0), .src = kt_handle(d[0].handle, 0), .len = len};
		struct sennit_share_open o = {.dst = c.dst, .src = c.src, .len = len};
		struct sennit_undeclare u = {.id = d[0].id};

		ioctl(fd, SENNIT_IOC_PREPARE, &p);
		ioctl(fd, SENNIT_IOC_COPY, &c);
		if (ioctl(fd, SENNIT_IOC_SHARE_OPEN, &o) == 0) {
			struct sennit_share_run r = {.handle = o.handle, .flags = pick(f, 4)};
			struct sennit_share_close e = {o.handle};

			publish(f, o.handle);
			ioctl(fd, SENNIT_IOC_SHARE_RUN, &r);
			ioctl(fd, SENNIT_IOC_SHARE_CLOSE, &e);
		}
		/* An endpoint's end waits for all processors: not too often, but until it was reached. */
		if (f->cable && (kt_accepted[_IOC_NR(SENNIT_IOC_NET_CANCEL)] < 20 || !pick(f, 16)))
			fuzz_net_right(f, fd, d[1].id, len);
		ioctl(fd, SENNIT_IOC_UNDECLARE, &u);
	}
	right_messages(f, fd, segs);
	close(fd);
	munmap(at, 2 * len);
}

static void fuzz_raw(struct fuzz *f, int fd)
{
	unsigned char any[256];

	for (size_t i = 0; i < sizeof(any); i++)
		any[i] = pick(f, 3) ? 0 : pick(f, 256);
	ioctl(fd, pick(f, 4) ? _IOC(pick(f, 4), 0xE5, pick(f, 23), pick(f, 120)) : any_number(f), any);
	ioctl(fd, SENNIT_IOC_COPY, any_address(f));
}

/* Changes the arena under everybody's feet; it stays mapped somewhere, whatever its pages are. */
static void fuzz_memory(struct fuzz *f)
{
	size_t page = pick(f, ARENA), n = 1 + pick(f, 20);
	char *at = f->arena + page * KT_PAGE;
	pid_t child;

	if (page + n > ARENA)
		n = ARENA - page;
	switch (pick(f, 8)) {
	case 0: munmap(at, n * KT_PAGE); break;
	case 1:
	case 2: /* of memory, or of the file that all workers share */
		/* cppcheck-suppress leakReturnValNotUsed; the arena stays where it is */
		mmap(at, n * KT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 3: mprotect(at, n * KT_PAGE, pick(f, 4)); break;
	case 4: madvise(at, n * KT_PAGE, pick(f, 2) ? MADV_DONTNEED : MADV_FREE); break;
	case 5:
		mremap(at, n * KT_PAGE, n * KT_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		       f->arena + pick(f, ARENA) * KT_PAGE);
		break;
	case 6:
		child = fork();
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
		break;
	case 7:
		/* cppcheck-suppress leakReturnValNotUsed */
		mmap(at, n * KT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	}
}

static void *fuzz_thread(void *arg)
{
	struct fuzz *f = arg;

	for (;;) {
		int *fd = &f->fds[pick(f, 3)];

		switch (pick(f, 40)) {
		case 0: fuzz_raw(f, *fd); break;
		case 6: fuzz_right(f); break;
		case 1:
			close(*fd);
			*fd = open(SENNIT_DEVICE, O_RDWR);
			break;
		case 2:
		case 3:
		case 4:
		case 5: fuzz_memory(f); break;
		default:
			switch (pick(f, 4)) {
			case 0: fuzz_regions(f, *fd); break;
			case 1: fuzz_copies(f, *fd); break;
			case 2: fuzz_messages(f, *fd); break;
			case 3: fuzz_net(f, *fd); break;
			}
		}
		__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* A thread with its stack where 32-bit calls can name it. */
static pthread_t start(struct fuzz *f)
{
	const size_t size = 256 * 1024;
	pthread_attr_t attr;
	pthread_t t;
	char *stack =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	KT_CHECK(stack != MAP_FAILED && pthread_attr_init(&attr) == 0);
	KT_CHECK(pthread_attr_setstack(&attr, stack, size) == 0);
	KT_CHECK(pthread_create(&t, &attr, fuzz_thread, f) == 0);
	return t;
}

static void work(uint64_t seed)
{
	int fds[3] = {open(SENNIT_DEVICE, O_RDWR), open(SENNIT_DEVICE, O_RDWR), open(SENNIT_DEVICE, O_RDWR)};
	char *arena = mmap(NULL, ARENA * KT_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct fuzz a = {.seed = seed * 2,
			 .fds = fds,
			 .arena = arena,
			 .event = eventfd(0, EFD_NONBLOCK),
			 .cable = if_nametoindex("fa")};
	struct fuzz b = a;
	struct rlimit lim = {64 * KT_PAGE, 64 * KT_PAGE};
	pthread_t t;

	KT_CHECK(arena != MAP_FAILED);
	b.seed++;
	if (seed % 4 == 0) { /* now and then one that may pin little */
		KT_CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
		kt_become_user(1000);
	} else if (seed % 4 == 1) {
		kt_compat();
	}
	t = start(&a);
	start(&b);
	pthread_join(t, NULL);
}

static const char *const names[CALLS] = {"info",       "declare",   "undeclare",   "prepare",	 "copy",
					 "share_open", "share_run", "share_close", "join",	 "send",
					 "recv",       "wait",	    "probe",	   "cancel",	 "counters",
					 "net_open",   "net_close", "net_link",	   "net_unlink", "net_pull",
					 "net_cancel", "net_port"};

/* Every call was accepted, not only refused, and frames were placed. */
static bool all_was_reached(void)
{
	for (int i = 0; i < CALLS; i++) {
		if (!__atomic_load_n(&kt_accepted[i], __ATOMIC_RELAXED))
			return false;
	}
	return *fuzz_several && kt_counter(SENNIT_C_NET_FRAMES) > 0;
}

static void say_what_was_reached(void)
{
	for (int i = 0; i < CALLS; i++)
		printf("%s %lu%s", names[i], (unsigned long)kt_accepted[i], i + 1 < CALLS ? ", " : "\n");
	printf("fetches by several rails %lu, frames placed %lu, dropped %lu, strays %lu\n",
	       (unsigned long)*fuzz_several, (unsigned long)kt_counter(SENNIT_C_NET_FRAMES),
	       (unsigned long)kt_counter(SENNIT_C_NET_DROPS), (unsigned long)kt_counter(SENNIT_C_NET_STRAYS));
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, next = seed * 1000;
	int seconds = argc > 2 ? atoi(argv[2]) : 10;
	pid_t workers[WORKERS] = {0};
	time_t end = time(NULL) + seconds;
	int killed = 0;

	printf("seed %lu\n", (unsigned long)seed);
	kt_veth_make("fa", "fb", getpid(), 9000);
	kt_link_up("fb");
	fuzz_handles =
		mmap(NULL, (SHARED + 2 + 256) * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	KT_CHECK(fuzz_handles != MAP_FAILED);
	calls = fuzz_handles + SHARED;
	fuzz_several = calls + 1;
	kt_accepted = (uint64_t *)(uintptr_t)(calls + 2);
	pid_t other = kt_fork();
	if (!other)
		fuzz_net_answer(seed);
	while (time(NULL) < end || (time(NULL) < end + MORE && !all_was_reached())) {
		int i = kt_random(&seed) % WORKERS;

		if (workers[i]) {
			kill(workers[i], SIGKILL);
			KT_CHECK(waitpid(workers[i], NULL, 0) == workers[i]);
			killed++;
		}
		next++;
		workers[i] = kt_fork();
		if (!workers[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work(next);
		}
		usleep(kt_random(&seed) % 400000);
	}
	for (int i = 0; i < WORKERS; i++) {
		if (workers[i]) {
			kill(workers[i], SIGKILL);
			KT_CHECK(waitpid(workers[i], NULL, 0) == workers[i]);
		}
	}
	printf("%lu calls, %d workers killed, %lu bytes copied, %lu messages\n", (unsigned long)*calls,
	       killed, (unsigned long)kt_counter(SENNIT_C_COPY_BYTES),
	       (unsigned long)kt_counter(SENNIT_C_MESSAGES_SENT));
	KT_CHECK(*calls > 100 && kt_counter(SENNIT_C_COPY_BYTES) > 0 &&
		 kt_counter(SENNIT_C_MESSAGES_SENT) > 0);
	kill(other, SIGKILL);
	KT_CHECK(waitpid(other, NULL, 0) == other);
	say_what_was_reached();
	KT_CHECK(all_was_reached());
	kt_wait_unpinned(0);
	return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
/*
 * Two threads at the same thing: pages that are being pinned for a reader, requests of a file that is joining,
 * interfaces that go while calls send by them, regions that are undeclared under a copy. Some of it is decided within
 * a few instructions: lab/wide.sh runs it with a module that takes its time there.
 */
#include "kt.h"
#include "veth.h"
#include <net/if.h>
#include <pthread.h>
#include <sched.h>

static int fd;
static int stop;
static bool wide; /* the module takes its time: less is enough, and it takes long */

static int rounds_of(int n)
{
	return kt_times(wide ? n / 20 : n);
}

#define READ_ONLY (128 * KT_PAGE)
static uint64_t named;
static char *only_read;

static void *keep_reading(void *unused)
{
	int own = kt_open();
	char *buf = kt_map(READ_ONLY);

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		KT_CHECK(madvise(only_read, READ_ONLY, MADV_DONTNEED) ==
			 0); /* pinned anew each time, in long chunks */
		KT_CHECK(kt_read(own, named, 0, buf, READ_ONLY) == 0);
	}
	munmap(buf, READ_ONLY);
	close(own);
	return unused;
}

/* Who reads pins for reading; who would write, and comes while that is being pinned, does not get those pages. */
static void what_was_pinned_for_reading_is_never_written(void)
{
	int file = memfd_create("only read", 0);
	char *at, zeros[64] = "";
	struct kt_region r;
	pthread_t t;

	KT_CHECK(file >= 0 && ftruncate(file, READ_ONLY) == 0);
	at = mmap(NULL, READ_ONLY, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	only_read = mmap(NULL, READ_ONLY, PROT_READ, MAP_SHARED, file, 0);
	KT_CHECK(at != MAP_FAILED && only_read != MAP_FAILED);
	kt_fill(at, READ_ONLY, 6);
	r = kt_declare(fd, only_read, READ_ONLY, SENNIT_READ | SENNIT_WRITE);
	named = r.handle;
	stop = 0;
	KT_CHECK(pthread_create(&t, NULL, keep_reading, NULL) == 0);
	for (uint64_t i = 0, n = (uint64_t)rounds_of(6000); i < n; i++)
		KT_FAILS(kt_write(fd, r.handle, i * 37 % 128 * KT_PAGE, zeros, sizeof(zeros)), EFAULT);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	KT_CHECK(kt_same(at, READ_ONLY, 6));
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	munmap(at, READ_ONLY);
	munmap(only_read, READ_ONLY);
	close(file);
}

static _Atomic int turn; /* 1: the process is about to fork; 2: a reader is on its way; 0: not yet */

static void *read_once_in_a_fork(void *unused)
{
	int own = kt_open();
	char buf[64];

	while (turn != 1)
		;
	usleep(200);
	turn = 2;
	KT_CHECK(kt_read(own, named, 0, buf, sizeof(buf)) == 0);
	close(own);
	return unused;
}

static void *write_once_in_a_fork(void *unused)
{
	int own = kt_open();
	char zeros[64] = "";

	while (turn != 2)
		;
	usleep(200);
	KT_FAILS(kt_write(own, named, 0, zeros, sizeof(zeros)), EFAULT);
	close(own);
	return unused;
}

/*
 * The same with the reader held up, while its pin set stands in the tree and has no pages yet: it wants the map of a process
 * that is being forked, and has much to copy. The writer comes meanwhile, and waits for that set.
 */
static void a_writer_that_waits_for_a_readers_page_does_not_get_it(void)
{
	const size_t much = 128u << 20;
	uint64_t waited = kt_counter(SENNIT_C_OVERLAP_MISSES);
	char *ballast = kt_map(much);
	int file = memfd_create("only read", 0);
	struct kt_region r;
	int rounds = 0;

	KT_CHECK(madvise(ballast, much, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
	memset(ballast, 1, much);
	KT_CHECK(file >= 0 && ftruncate(file, KT_PAGE) == 0);
	char *at = mmap(NULL, KT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	char *page = mmap(NULL, KT_PAGE, PROT_READ, MAP_SHARED, file, 0);
	KT_CHECK(at != MAP_FAILED && page != MAP_FAILED);
	kt_fill(at, KT_PAGE, 7);
	r = kt_declare(fd, page, KT_PAGE, SENNIT_READ | SENNIT_WRITE);
	named = r.handle;
	/* Until it was as meant some times: how it falls out is the scheduler's. */
	while (kt_counter(SENNIT_C_OVERLAP_MISSES) - waited < 5 && rounds++ < 200) {
		pthread_t reader, writer;
		pid_t child;

		turn = 0;
		KT_CHECK(madvise(page, KT_PAGE, MADV_DONTNEED) == 0); /* nothing is pinned */
		KT_CHECK(pthread_create(&reader, NULL, read_once_in_a_fork, NULL) == 0);
		KT_CHECK(pthread_create(&writer, NULL, write_once_in_a_fork, NULL) == 0);
		turn = 1;
		child = kt_fork();
		if (!child)
			_exit(0);
		pthread_join(reader, NULL);
		pthread_join(writer, NULL);
		kt_join(child);
		KT_CHECK(kt_same(at, KT_PAGE, 7));
	}
	printf("  %d rounds, %lu waited\n", rounds,
	       (unsigned long)(kt_counter(SENNIT_C_OVERLAP_MISSES) - waited));
	KT_CHECK(kt_counter(SENNIT_C_OVERLAP_MISSES) - waited >= 5);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	munmap(at, KT_PAGE);
	munmap(page, KT_PAGE);
	munmap(ballast, much);
	close(file);
}

static int joining;

static void *keep_cancelling(void *unused)
{
	struct sennit_cancel c = {1};

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		ioctl(__atomic_load_n(&joining, __ATOMIC_RELAXED), SENNIT_IOC_CANCEL, &c);
	return unused;
}

/* The first request of a file that is only just joining a job has a name that can be guessed. */
static void cancelling_while_joining_is_safe(void)
{
	struct sennit_seg seg = {(uintptr_t)&seg, sizeof(seg)};
	struct sennit_post p = {.peer = SENNIT_ANY, .tag = 1, .nsegs = 1, .segs = (uintptr_t)&seg};
	pthread_t t;

	stop = 0;
	joining = kt_open();
	KT_CHECK(pthread_create(&t, NULL, keep_cancelling, NULL) == 0);
	for (int i = 0, n = rounds_of(1000); i < n; i++) {
		int own = kt_open(), was = joining;
		struct sennit_join j = {.rank = 0};

		__atomic_store_n(&joining, own, __ATOMIC_RELAXED);
		if (wide)
			usleep(5000); /* then a call is on its way */
		KT_CHECK(ioctl(own, SENNIT_IOC_JOIN, &j) == 0 && ioctl(own, SENNIT_IOC_RECV, &p) == 0);
		close(was);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	close(joining);
}

static struct sennit_net_pull fetch;

static void *keep_fetching(void *unused)
{
	struct sennit_net_cancel c = {.net = fetch.net};

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct sennit_net_pull p = fetch;

		if (ioctl(fd, SENNIT_IOC_NET_PULL, &p)) {
			KT_CHECK(errno == ENODEV || errno == ENOSPC);
			continue;
		}
		c.number = p.number;
		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_CANCEL, &c) == 0 || errno == ENOENT);
	}
	return unused;
}

/* Interfaces are deleted while calls are sending by them; and one with no room for a frame is refused. */
static void interfaces_go_under_calls(void)
{
	char *at = kt_map(16 * KT_PAGE);
	struct kt_region r = kt_declare(fd, at, 16 * KT_PAGE, SENNIT_WRITE);

	for (int i = 0; i < kt_times(8); i++) {
		struct sennit_net_open o = {.mtu = 1000, .event = -1};
		struct sennit_net_close c = {0};
		pthread_t t;

		kt_veth_make("ta", "tb", getpid(), 1500);
		kt_link_up("tb");
		o.ifindex = if_nametoindex("ta");
		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_OPEN, &o) == 0);
		struct sennit_net_link l = {.net = o.id};
		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_LINK, &l) == 0);
		fetch = (struct sennit_net_pull){
			.net = o.id, .link = l.id, .region = r.id, .end = 16 * KT_PAGE, .frag = 900};
		stop = 0;
		KT_CHECK(pthread_create(&t, NULL, keep_fetching, NULL) == 0);
		usleep(20000);
		kt_link_delete("ta");
		usleep(wide ? 300000 : 5000); /* who is about to send may take that long */
		__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
		pthread_join(t, NULL);
		c.id = o.id;
		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_CLOSE, &c) == 0);
	}
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, 16 * KT_PAGE);
}

/* Sixteen endpoints with eight ports each: all hear that their interface goes, and none holds it. */
static void all_ports_hear_that_their_interface_goes(void)
{
	struct sennit_net_open o = {.mtu = 1000, .event = -1};
	uint32_t ids[SENNIT_NETS];

	kt_veth_make("ta", "tb", getpid(), 1500);
	kt_link_up("tb");
	for (unsigned i = 0; i < SENNIT_NETS; i++) {
		o.ifindex = if_nametoindex(i % 4 == 3 ? "tb" : "ta"); /* some by the cable's other end */
		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_OPEN, &o) == 0);
		ids[i] = o.id;
		for (unsigned k = 1; k < SENNIT_NET_PORTS; k++) {
			struct sennit_net_port a = {.net = o.id, .ifindex = o.ifindex, .mtu = 1000};

			if (i % 4 == 2) /* or by both, and lo, which is no Ethernet */
				a.ifindex = if_nametoindex(k % 2 ? "lo" : "tb");
			if (i % 4 == 2 && k % 2)
				KT_FAILS(ioctl(fd, SENNIT_IOC_NET_PORT, &a), EINVAL);
			else
				KT_CHECK(ioctl(fd, SENNIT_IOC_NET_PORT, &a) == 0);
		}
	}
	for (unsigned i = 0; i < SENNIT_NETS; i++) {
		struct sennit_net_link l = {.net = ids[i]};

		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_LINK, &l) == 0);
	}
	kt_link_delete("ta"); /* and "tb" with it; the kernel waits for who holds them: nobody */
	for (unsigned i = 0; i < SENNIT_NETS; i++) {
		struct sennit_net_link l = {.net = ids[i]};
		struct sennit_net_close c = {.id = ids[i]};

		KT_FAILS(ioctl(fd, SENNIT_IOC_NET_LINK, &l), ENODEV);
		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_CLOSE, &c) == 0);
	}
}

static struct kt_region current;
static char *racing;

static void *declare_and_undeclare(void *unused)
{
	for (int i = 0, n = rounds_of(3000); i < n; i++) {
		struct kt_region r = kt_declare(fd, racing, 16 * KT_PAGE, SENNIT_READ);

		__atomic_store(&current.id, &r.id, __ATOMIC_RELAXED);
		__atomic_store(&current.handle, &r.handle, __ATOMIC_RELAXED);
		sched_yield();
		KT_CHECK(kt_undeclare(fd, r.id) == 0);
	}
	return unused;
}

/* Copies by names that come and go are right or fail, and hold what they use. */
static void undeclaring_under_a_copy_is_safe(void)
{
	char *to = kt_map(16 * KT_PAGE);
	int good = 0, other = kt_open();
	pthread_t t;

	racing = kt_map(16 * KT_PAGE);
	kt_fill(racing, 16 * KT_PAGE, 5);
	KT_CHECK(pthread_create(&t, NULL, declare_and_undeclare, NULL) == 0);
	while (pthread_tryjoin_np(t, NULL)) {
		int rc = kt_read(other, __atomic_load_n(&current.handle, __ATOMIC_RELAXED), 0, to,
				 16 * KT_PAGE);

		KT_CHECK(rc == 0 || errno == ENOENT);
		KT_CHECK(rc || kt_same(to, 16 * KT_PAGE, 5));
		good += !rc;
	}
	printf("  %d copies came through\n", good);
	close(other);
	kt_wait_unpinned(0);
	munmap(to, 16 * KT_PAGE);
	munmap(racing, 16 * KT_PAGE);
}

int main(int argc, char **argv)
{
	wide = argc > 1 && !strcmp(argv[1], "wide");
	kt_options(argc, argv);
	kt_limit(kt_times(8) < 8 ? 500 : 300, NULL);
	fd = kt_open();
	KT_RUN(what_was_pinned_for_reading_is_never_written);
	KT_RUN(a_writer_that_waits_for_a_readers_page_does_not_get_it);
	KT_RUN(cancelling_while_joining_is_safe);
	KT_RUN(interfaces_go_under_calls);
	KT_RUN(all_ports_hear_that_their_interface_goes);
	KT_RUN(undeclaring_under_a_copy_is_safe);
	kt_wait_unpinned(0);
	return 0;
}

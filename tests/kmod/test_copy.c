// SPDX-License-Identifier: BSD-3-Clause
/* Single copy: vectors on both sides, across processes both ways, shared by callers, and while the memory changes. */
#include "kt.h"
#include <pthread.h>

static int fd;

#define BIG (3 * 1024 * 1024 + 777)

/* Cuts [at, at + len) into pieces of odd lengths, some empty. */
static uint32_t cut(struct sennit_seg *segs, uint32_t max, char *at, size_t len, uint64_t seed)
{
	uint32_t n = 0;

	while (len && n < max) {
		size_t piece = n + 1 == max ? len : kt_random(&seed) % 9000;

		if (piece > len)
			piece = len;
		segs[n++] = (struct sennit_seg){(uintptr_t)at, piece};
		at += piece;
		len -= piece;
	}
	return n;
}

static struct kt_region declare_vector(struct sennit_seg *segs, uint32_t n, uint32_t access)
{
	struct sennit_declare d = {.segs = (uintptr_t)segs, .nsegs = n, .access = access};

	KT_CHECK(ioctl(fd, SENNIT_IOC_DECLARE, &d) == 0);
	return (struct kt_region){d.id, d.handle};
}

static void vectors_on_both_sides(void)
{
	static struct sennit_seg a[700], b[700];
	char *from = kt_map(BIG), *to = kt_map(BIG);
	struct kt_region src, dst;
	uint32_t na = cut(a, 700, from, BIG, 1), nb = cut(b, 700, to, BIG, 2);
	uint64_t seed = 3;

	kt_fill(from, BIG, 1);
	src = declare_vector(a, na, SENNIT_READ);
	dst = declare_vector(b, nb, SENNIT_WRITE);
	KT_CHECK(kt_copy(fd, kt_id(dst.id, 0), kt_id(src.id, 0), BIG, NULL) == 0);
	KT_CHECK(kt_same(to, BIG, 1));
	memset(to, 0, BIG);
	KT_CHECK(kt_copy(fd, kt_mine(b, nb), kt_handle(src.handle, 0), BIG, NULL) == 0);
	KT_CHECK(kt_same(to, BIG, 1));
	memset(to, 0, BIG);
	KT_CHECK(kt_copy(fd, kt_handle(dst.handle, 0), kt_mine(a, na), BIG, NULL) == 0);
	KT_CHECK(kt_same(to, BIG, 1));
	for (int i = 0; i < 200; i++) { /* parts, at any offsets: everything else stays */
		uint64_t len = kt_random(&seed) % 50000, x = kt_random(&seed) % (BIG - len);
		uint64_t y = kt_random(&seed) % (BIG - len);

		memset(to, 0x77, BIG);
		KT_CHECK(kt_copy(fd, kt_id(dst.id, y), kt_id(src.id, x), len, NULL) == 0);
		KT_CHECK(memcmp(to + y, from + x, len) == 0);
		KT_CHECK(!y || to[y - 1] == 0x77);
		KT_CHECK(y + len == BIG || to[y + len] == 0x77);
	}
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	munmap(from, BIG);
	munmap(to, BIG);
}

/* Where rep movsb would stumble, other instructions copy (kmod/copy.c). */
static void a_little_behind_the_source(void)
{
	size_t len = 3 * KT_PAGE + 777;
	char *from = kt_map(2 * len), *to = kt_map(2 * len);
	struct kt_region src = kt_declare(fd, from, 2 * len, SENNIT_READ),
			 dst = kt_declare(fd, to, 2 * len, SENNIT_WRITE);

	kt_fill(from, 2 * len, 1);
	for (unsigned behind = 0; behind < 40; behind++) {
		unsigned at = behind % 7 * 600; /* also across the end of a page */

		memset(to, 0x77, 2 * len);
		KT_CHECK(kt_copy(fd, kt_id(dst.id, at + behind), kt_id(src.id, at), len + behind, NULL) == 0);
		KT_CHECK(memcmp(to + at + behind, from + at, len + behind) == 0);
		KT_CHECK(at + behind == 0 || to[at + behind - 1] == 0x77);
		KT_CHECK(to[at + len + 2 * behind] == 0x77);
	}
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	munmap(from, 2 * len);
	munmap(to, 2 * len);
}

static void ends_are_checked(void)
{
	char *at = kt_map(KT_PAGE), other[100];
	struct kt_region ro = kt_declare(fd, at, KT_PAGE, SENNIT_READ),
			 wo = kt_declare(fd, at, KT_PAGE, SENNIT_WRITE);
	struct sennit_seg seg = {(uintptr_t)other, sizeof(other)};
	struct sennit_end mine = kt_mine(&seg, 1), bad;

	KT_FAILS(kt_copy(fd, kt_id(ro.id, 0), mine, 10, NULL), EACCES);
	KT_FAILS(kt_copy(fd, mine, kt_id(wo.id, 0), 10, NULL), EACCES);
	KT_FAILS(kt_copy(fd, mine, mine, 10, NULL), EINVAL);
	KT_FAILS(kt_copy(fd, mine, kt_id(ro.id, 0), 101, NULL), EINVAL);
	KT_FAILS(kt_copy(fd, mine, kt_id(ro.id, KT_PAGE - 9), 10, NULL), EINVAL);
	KT_FAILS(kt_copy(fd, mine, kt_id(ro.id, ~0ull - 4), 10, NULL), EINVAL);
	KT_FAILS(kt_copy(fd, mine, kt_id(ro.id + 1000, 0), 10, NULL), ENOENT);
	KT_FAILS(kt_copy(fd, mine, kt_handle(ro.handle + 1, 0), 10, NULL), ENOENT);
	KT_FAILS(kt_copy(fd, mine, kt_handle(0, 0), 10, NULL), ENOENT);
	bad = kt_id(ro.id, 0);
	bad.nsegs = 1;
	KT_FAILS(kt_copy(fd, mine, bad, 10, NULL), EINVAL);
	bad = kt_id(ro.id, 0);
	bad.kind = 77;
	KT_FAILS(kt_copy(fd, mine, bad, 10, NULL), EINVAL);
	KT_CHECK(kt_copy(fd, mine, kt_id(ro.id, KT_PAGE), 0, NULL) == 0); /* nothing, at the very end */
	seg.addr = 1;
	KT_FAILS(kt_copy(fd, mine, kt_id(ro.id, 0), 10, NULL), EFAULT);
	KT_CHECK(kt_undeclare(fd, ro.id) == 0 && kt_undeclare(fd, wo.id) == 0);
	munmap(at, KT_PAGE);
}

struct peer {
	pid_t pid;
	int to, from; /* pipes */
	struct kt_region r;
};

/* A process with a region of BIG bytes, filled by seed 20; it then does as `obey` says and ends when told. */
static struct peer start_peer(void (*obey)(struct peer *me, char *at))
{
	int down[2], up[2];
	struct peer p;

	KT_CHECK(pipe(down) == 0 && pipe(up) == 0);
	p.pid = kt_fork();
	if (!p.pid) {
		char *at = kt_map(BIG);

		p.to = up[1];
		p.from = down[0];
		kt_fill(at, BIG, 20);
		p.r = kt_declare(kt_open(), at, BIG, SENNIT_READ | SENNIT_WRITE);
		kt_say(p.to, &p.r, sizeof(p.r));
		obey(&p, at);
		_exit(0);
	}
	p.to = down[1];
	p.from = up[0];
	kt_hear(p.from, &p.r, sizeof(p.r));
	return p;
}

static void tell(struct peer *p)
{
	char c = 0;

	kt_say(p->to, &c, 1);
}

static void await(struct peer *p)
{
	char c;

	kt_hear(p->from, &c, 1);
}

static void check_what_was_written(struct peer *me, char *at)
{
	await(me);
	KT_CHECK(kt_same(at, BIG, 21));
}

static void across_processes_both_ways(void)
{
	char *buf = kt_map(BIG);
	struct peer p = start_peer(check_what_was_written);
	uint64_t bytes = kt_counter(SENNIT_C_COPY_BYTES);

	KT_CHECK(kt_read(fd, p.r.handle, 0, buf, BIG) == 0 && kt_same(buf, BIG, 20));
	kt_fill(buf, BIG, 21);
	KT_CHECK(kt_write(fd, p.r.handle, 0, buf, BIG) == 0);
	KT_CHECK(kt_counter(SENNIT_C_COPY_BYTES) - bytes == 2 * BIG); /* each byte once */
	tell(&p);
	kt_join(p.pid);
	KT_FAILS(kt_read(fd, p.r.handle, 0, buf, BIG), ENOENT); /* it took its region along */
	kt_wait_unpinned(0);
	munmap(buf, BIG);
}

static void *unmap_later(void *arg)
{
	usleep(20000);
	munmap(arg, BIG);
	return NULL;
}

static void unmap_while_copied(struct peer *me, char *at)
{
	pthread_t t;

	tell(me);
	KT_CHECK(pthread_create(&t, NULL, unmap_later, at) == 0);
	pthread_join(t, NULL);
	await(me);
}

/* What is unmapped in the middle of copies ends them with EFAULT: never a wrong byte, never a success afterwards. */
static void unmapping_in_mid_copy_is_an_error(void)
{
	char *buf = kt_map(BIG);
	struct peer p = start_peer(unmap_while_copied);
	int whole = 0, rc = 0;

	await(&p);
	for (int i = 0; i < 100000 && !rc; i++) {
		rc = kt_read(fd, p.r.handle, 0, buf, BIG);
		whole += !rc;
		KT_CHECK(rc || kt_same(buf, 65536, 20));
	}
	KT_CHECK(rc < 0 && errno == EFAULT);
	printf("  after %d copies\n", whole);
	KT_FAILS(kt_read(fd, p.r.handle, 0, buf, BIG), EFAULT);
	tell(&p);
	kt_join(p.pid);
	munmap(buf, BIG);
}

static void wait_to_be_killed(struct peer *me, char *at)
{
	tell(me);
	for (;;)
		at[0]++;
}

static void death_in_mid_copy_is_an_error(void)
{
	char *buf = kt_map(BIG);

	for (int round = 0; round < 5; round++) {
		struct peer p = start_peer(wait_to_be_killed);
		pid_t killer;
		int rc = 0, status;

		await(&p);
		killer = kt_fork();
		if (!killer) {
			usleep(5000 * round);
			kill(p.pid, SIGKILL);
			_exit(0);
		}
		for (int i = 0; i < 1000000 && !rc; i++)
			rc = kt_read(fd, p.r.handle, 1, buf, BIG - 1);
		KT_CHECK(rc < 0 && (errno == EFAULT || errno == ESRCH || errno == ENOENT));
		kt_join(killer);
		KT_CHECK(waitpid(p.pid, &status, 0) == p.pid);
		close(p.to);
		close(p.from);
	}
	kt_wait_unpinned(0);
	munmap(buf, BIG);
}

static int stop_churning;

static void *churn(void *arg)
{
	uint64_t seed = 5;

	while (!__atomic_load_n(&stop_churning, __ATOMIC_RELAXED)) {
		size_t page = kt_random(&seed) % 200, n = 1 + kt_random(&seed) % 20;
		pid_t child;

		/* Protection and forks change pinned memory and leave its content. */
		mprotect((char *)arg + page * KT_PAGE, n * KT_PAGE, PROT_READ);
		mprotect((char *)arg + page * KT_PAGE, n * KT_PAGE, PROT_READ | PROT_WRITE);
		if (kt_random(&seed) % 16 == 0) {
			child = fork();
			if (!child)
				_exit(0);
			waitpid(child, NULL, 0);
		}
	}
	return NULL;
}

/* Copies out of memory whose protection changes and whose process forks all the time are right, or EFAULT never. */
static void changing_memory_is_copied_right(void)
{
	const size_t len = 256 * KT_PAGE;
	char *at = kt_map(len), *to = kt_map(len);
	struct kt_region r = kt_declare(fd, at, len, SENNIT_READ);
	pthread_t t;

	kt_fill(at, len, 30);
	stop_churning = 0;
	KT_CHECK(pthread_create(&t, NULL, churn, at) == 0);
	for (int i = 0; i < 30; i++) {
		memset(to, 0, len);
		KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0);
		KT_CHECK(kt_same(to, len, 30));
	}
	__atomic_store_n(&stop_churning, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	munmap(at, len);
	munmap(to, len);
}

static struct sennit_share_run run_share(int on, uint64_t handle, uint32_t flags)
{
	struct sennit_share_run run = {.handle = handle, .flags = flags};

	KT_CHECK(ioctl(on, SENNIT_IOC_SHARE_RUN, &run) == 0);
	return run;
}

static uint64_t open_share(struct sennit_end dst, struct sennit_end src, uint64_t len)
{
	struct sennit_share_open o = {.dst = dst, .src = src, .len = len};

	KT_CHECK(ioctl(fd, SENNIT_IOC_SHARE_OPEN, &o) == 0);
	return o.handle;
}

static int close_share(uint64_t handle)
{
	struct sennit_share_close c = {handle};

	return ioctl(fd, SENNIT_IOC_SHARE_CLOSE, &c);
}

/* Three processes run one transfer; what each says it moved adds up to the whole. */
static void callers_share_a_transfer(void)
{
	const size_t len = 16 << 20;
	char *from = kt_map(len), *to = kt_map(len);
	struct kt_region src = kt_declare(fd, from, len, SENNIT_READ),
			 dst = kt_declare(fd, to, len, SENNIT_WRITE);
	uint64_t h = open_share(kt_id(dst.id, 0), kt_handle(src.handle, 0), len), sum = 0;
	struct sennit_share_run run;
	int up[2];

	kt_fill(from, len, 40);
	KT_CHECK(pipe(up) == 0);
	for (int i = 0; i < 2; i++) {
		if (kt_fork() == 0) {
			run = run_share(kt_open(), h, SENNIT_SHARE_WAIT);
			KT_CHECK(run.error == 0 && run.done == len);
			kt_say(up[1], &run.mine, sizeof(run.mine));
			_exit(0);
		}
	}
	run = run_share(fd, h, SENNIT_SHARE_WAIT);
	KT_CHECK(run.error == 0 && run.done == len);
	sum = run.mine;
	printf("  shares: %lu", (unsigned long)run.mine >> 10);
	for (int i = 0; i < 2; i++) {
		kt_hear(up[0], &run.mine, sizeof(run.mine));
		printf(" %lu", (unsigned long)run.mine >> 10);
		sum += run.mine;
	}
	printf(" KiB\n");
	KT_CHECK(sum == len && kt_same(to, len, 40));
	run = run_share(fd, h, 0); /* all done: nothing to do, and it says so */
	KT_CHECK(run.mine == 0 && run.done == len && run.error == 0);
	KT_CHECK(close_share(h) == 0);
	KT_FAILS(close_share(h), ENOENT);
	while (waitpid(-1, NULL, 0) > 0)
		;
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	munmap(from, len);
	munmap(to, len);
}

/* A helper that is killed in the middle gives its piece back, and the other finishes alone. */
static void a_killed_runner_is_replaced(void)
{
	const size_t len = 8 << 20;
	char *from = kt_map(len), *to = kt_map(len);
	struct kt_region src = kt_declare(fd, from, len, SENNIT_READ),
			 dst = kt_declare(fd, to, len, SENNIT_WRITE);

	kt_fill(from, len, 41);
	for (int i = 0; i < 5; i++) {
		uint64_t h = open_share(kt_id(dst.id, 0), kt_id(src.id, 0), len);
		struct sennit_share_run run;
		pid_t child = kt_fork();

		if (!child) {
			run_share(kt_open(), h, SENNIT_SHARE_WAIT);
			_exit(0);
		}
		usleep(2000 + 3000 * i);
		kill(child, SIGKILL);
		run = run_share(fd, h, SENNIT_SHARE_WAIT);
		if (run.error || run.done != len)
			printf("  error %d, %lu done\n", run.error, (unsigned long)run.done);
		KT_CHECK(run.error == 0 && run.done == len && kt_same(to, len, 41));
		KT_CHECK(waitpid(child, NULL, 0) == child);
		KT_CHECK(close_share(h) == 0);
		memset(to, 0, len);
	}
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	munmap(from, len);
	munmap(to, len);
}

/* A transfer whose memory goes ends with an error for everybody; one that is closed, with EPIPE for who waits. */
static void a_broken_transfer_says_so(void)
{
	const size_t len = 4 << 20;
	char *from = kt_map(len), *to = kt_map(len);
	struct kt_region src = kt_declare(fd, from, len, SENNIT_READ),
			 dst = kt_declare(fd, to, len, SENNIT_WRITE);
	uint64_t h = open_share(kt_id(dst.id, 0), kt_id(src.id, 0), len);
	struct sennit_share_run run;

	munmap(from + len / 2, KT_PAGE);
	run = run_share(fd, h, SENNIT_SHARE_WAIT);
	KT_CHECK(run.error == -EFAULT && run.done < len);
	KT_CHECK(run_share(fd, h, SENNIT_SHARE_WAIT).error == -EFAULT);
	KT_CHECK(close_share(h) == 0);
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	munmap(from, len);
	munmap(to, len);
}

int main(int argc, char **argv)
{
	kt_options(argc, argv);
	fd = kt_open();
	KT_RUN(vectors_on_both_sides);
	KT_RUN(a_little_behind_the_source);
	KT_RUN(ends_are_checked);
	KT_RUN(across_processes_both_ways);
	KT_RUN(unmapping_in_mid_copy_is_an_error);
	KT_RUN(death_in_mid_copy_is_an_error);
	KT_RUN(changing_memory_is_copied_right);
	KT_RUN(callers_share_a_transfer);
	KT_RUN(a_killed_runner_is_replaced);
	KT_RUN(a_broken_transfer_says_so);
	kt_wait_unpinned(0);
	return 0;
}

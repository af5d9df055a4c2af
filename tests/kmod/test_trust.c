// SPDX-License-Identifier: BSD-3-Clause
/* The device trusts nobody: other users, inherited and passed files, forged arguments, memory that is not one's own. */
#include "kt.h"
#include <pthread.h>
#include <sys/socket.h>

static int fd;

/* In a child that is user uid and group gid: can it read the handle? */
static void as_user(unsigned uid, unsigned gid, uint64_t handle, int expect)
{
	pid_t child = kt_fork();
	char buf[64];
	int own, rc;

	if (child) {
		kt_join(child);
		return;
	}
	KT_CHECK(setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0);
	own = kt_open();
	rc = kt_read(own, handle, 0, buf, sizeof(buf));
	KT_CHECK(expect ? rc < 0 && errno == expect : rc == 0 && kt_same(buf, sizeof(buf), 1));
	_exit(0);
}

static void another_user_gets_nothing(void)
{
	uint64_t denied = kt_counter(SENNIT_C_DENIED), handle;
	int up[2], down[2];
	pid_t owner;
	char c = 0;

	KT_CHECK(pipe(up) == 0 && pipe(down) == 0);
	owner = kt_fork();
	if (!owner) {
		char *at = kt_map(KT_PAGE);

		kt_become_user(1000);
		kt_fill(at, KT_PAGE, 1);
		handle = kt_declare(kt_open(), at, KT_PAGE, SENNIT_READ).handle;
		kt_say(up[1], &handle, sizeof(handle));
		kt_hear(down[0], &c, 1);
		_exit(0);
	}
	kt_hear(up[0], &handle, sizeof(handle));
	as_user(1000, 1000, handle, 0);
	as_user(1001, 1000, handle, ENOENT);
	as_user(1000, 1001, handle, ENOENT);
	KT_CHECK(kt_counter(SENNIT_C_DENIED) - denied == 2);
	as_user(0, 0, handle, 0); /* may trace anybody */
	kt_say(down[1], &c, 1);
	kt_join(owner);
}

static int pass_and_receive(int what)
{
	int pair[2], got;
	char c = 0, control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov = {&c, 1};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	KT_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &what, sizeof(int));
	KT_CHECK(sendmsg(pair[0], &m, 0) == 1);
	KT_CHECK(recvmsg(pair[1], &m, 0) == 1);
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	close(pair[0]);
	close(pair[1]);
	return got;
}

static void a_file_belongs_to_its_opener(void)
{
	struct sennit_info info;
	int passed = pass_and_receive(fd);
	pid_t child;

	KT_CHECK(ioctl(passed, SENNIT_IOC_INFO, &info) ==
		 0); /* a duplicate in the same process is the same file */
	child = kt_fork();
	if (!child) {
		KT_FAILS(ioctl(fd, SENNIT_IOC_INFO, &info), EPERM);
		KT_FAILS(ioctl(passed, SENNIT_IOC_INFO, &info), EPERM);
		_exit(0);
	}
	kt_join(child);
	close(passed);
}

/* The owner is dead, its file lives on in another process: its memory is not to be had any more. */
static void memory_of_a_dead_owner_is_gone(void)
{
	int up[2], down[2];
	uint64_t handle;
	char buf[64], c = 0;
	pid_t owner;

	KT_CHECK(pipe(up) == 0 && pipe(down) == 0);
	owner = fork();
	if (!owner) {
		char *at = kt_map(KT_PAGE);

		handle = kt_declare(kt_open(), at, KT_PAGE, SENNIT_READ).handle;
		if (!fork()) { /* holds the file */
			kt_hear(down[0], &c, 1);
			kt_say(up[1], &c, 1);
			_exit(0);
		}
		kt_say(up[1], &handle, sizeof(handle));
		_exit(0);
	}
	kt_hear(up[0], &handle, sizeof(handle));
	kt_join(owner);
	KT_FAILS(kt_read(fd, handle, 0, buf, sizeof(buf)), ESRCH);
	kt_say(down[1], &c, 1);
	kt_hear(up[0], &c, 1);
	for (int i = 0; i < 100 && errno != ENOENT; i++) {
		usleep(10000);
		KT_CHECK(kt_read(fd, handle, 0, buf, sizeof(buf)) < 0);
	}
	KT_CHECK(errno == ENOENT);
}

static int declare(uint64_t segs, uint32_t n, uint32_t access, uint32_t reserved)
{
	struct sennit_declare d = {.segs = segs, .nsegs = n, .access = access, .reserved = reserved};

	return ioctl(fd, SENNIT_IOC_DECLARE, &d);
}

static int declare_seg(uint64_t addr, uint64_t len)
{
	struct sennit_seg seg = {addr, len};

	return declare((uintptr_t)&seg, 1, SENNIT_READ, 0);
}

static void forged_arguments_are_refused(void)
{
	static struct sennit_seg many[SENNIT_MAX_SEGS + 1];
	struct sennit_seg ok = {0x10000, 100};
	char *page = kt_map(KT_PAGE);
	struct sennit_counters counters = {.values = 8, .n = 5};

	KT_FAILS(declare((uintptr_t)&ok, 0, SENNIT_READ, 0), EINVAL);
	KT_FAILS(declare((uintptr_t)&ok, 1, 0, 0), EINVAL);
	KT_FAILS(declare((uintptr_t)&ok, 1, 4, 0), EINVAL);
	KT_FAILS(declare((uintptr_t)&ok, 1, SENNIT_READ, 1), EINVAL);
	KT_FAILS(declare((uintptr_t)many, SENNIT_MAX_SEGS + 1, SENNIT_READ, 0), EINVAL);
	KT_FAILS(declare((uintptr_t)many, 0x80000001, SENNIT_READ, 0), EINVAL);
	KT_FAILS(declare((uintptr_t)many, 3, SENNIT_READ, 0), EINVAL); /* all empty */
	KT_FAILS(declare(8, 1, SENNIT_READ, 0), EFAULT);
	KT_FAILS(declare(0xffff888000000000ull, 1, SENNIT_READ, 0), EFAULT);
	KT_FAILS(declare((uintptr_t)page + KT_PAGE - 8, 1024, SENNIT_READ, 0), EFAULT);
	KT_FAILS(declare_seg(0xffff888000000000ull, 4096), EINVAL);
	KT_FAILS(declare_seg(0xffffffffffffffffull, 1), EINVAL);
	KT_FAILS(declare_seg(0x00fffffffffff000ull, 0x2000), EINVAL);
	KT_FAILS(declare_seg(0x1000, ~0ull), EINVAL);
	KT_FAILS(declare_seg(~0ull - 10, 100), EINVAL);
	many[0] = many[1] = (struct sennit_seg){0x10000, SENNIT_MAX_LENGTH - 1};
	KT_FAILS(declare((uintptr_t)many, 2, SENNIT_READ, 0), EINVAL);

	KT_FAILS(ioctl(fd, SENNIT_IOC_DECLARE, NULL), EFAULT);
	KT_FAILS(ioctl(fd, SENNIT_IOC_INFO, 0xffff888000000000ull), EFAULT);
	KT_FAILS(ioctl(fd, SENNIT_IOC_COUNTERS, &counters), EFAULT);
	KT_FAILS(ioctl(fd, _IOWR(0xE5, 0x01, struct sennit_seg), page), ENOTTY);
	KT_FAILS(ioctl(fd, _IO(0xE5, 0x7f), 0), ENOTTY);
	KT_FAILS(ioctl(fd, 0, 0), ENOTTY);
	KT_CHECK(lseek(fd, 5, SEEK_SET) < 0 && errno == ESPIPE);
	munmap(page, KT_PAGE);
}

/* Neither a file that is open for reading only nor the kernel's own pages can be written by way of a region. */
static void what_the_owner_may_not_write_stays(void)
{
	char buf[64], line[300];
	unsigned long from, to;
	struct kt_region r;
	FILE *f;
	char *at;
	int file = open("/test", O_RDONLY);

	at = mmap(NULL, KT_PAGE, PROT_READ, MAP_SHARED, file, 0);
	KT_CHECK(file >= 0 && at != MAP_FAILED);
	r = kt_declare(fd, at, KT_PAGE, SENNIT_READ | SENNIT_WRITE);
	memset(buf, 0, sizeof(buf));
	KT_FAILS(kt_write(fd, r.handle, 0, buf, sizeof(buf)), EFAULT);
	KT_CHECK(memcmp(at, "\177ELF", 4) == 0);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	munmap(at, KT_PAGE);
	close(file);

	f = fopen("/proc/self/maps", "r");
	KT_CHECK(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		if ((strstr(line, "[vvar]") || strstr(line, "[vdso]")) &&
		    sscanf(line, "%lx-%lx", &from, &to) == 2) {
			r = kt_declare(fd, (void *)from, to - from, SENNIT_READ | SENNIT_WRITE);
			KT_FAILS(kt_write(fd, r.handle, 0, buf, sizeof(buf)), EFAULT);
			KT_CHECK(kt_undeclare(fd, r.id) == 0);
		}
	}
	fclose(f);
}

static struct sennit_seg flipping[64];
static int stop;

static void *flip(void *unused)
{
	for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		__atomic_store_n(&flipping[i % 64].len, i % 3 ? 4096 : ~0ull, __ATOMIC_RELAXED);
		__atomic_store_n(&flipping[i % 64].addr, i % 5 ? 0x100000 : ~0ull - 5, __ATOMIC_RELAXED);
	}
	return unused;
}

/* A vector that changes while it is read is either refused or a sound one. */
static void arguments_are_read_once(void)
{
	pthread_t t;
	int good = 0, bad = 0;

	for (int i = 0; i < 64; i++)
		flipping[i] = (struct sennit_seg){0x100000, 4096};
	KT_CHECK(pthread_create(&t, NULL, flip, NULL) == 0);
	for (int i = 0; i < 5000; i++) {
		struct sennit_declare d = {.segs = (uintptr_t)flipping, .nsegs = 64, .access = SENNIT_READ};

		if (ioctl(fd, SENNIT_IOC_DECLARE, &d) == 0) {
			KT_CHECK(d.length == 64 * 4096);
			KT_CHECK(kt_undeclare(fd, d.id) == 0);
			good++;
		} else {
			KT_CHECK(errno == EINVAL);
			bad++;
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	printf("  %d sound, %d refused\n", good, bad);
	KT_CHECK(bad > 0);
}

static struct kt_region current;
static char *racing;

static void *declare_and_undeclare(void *unused)
{
	for (int i = 0; i < 3000; i++) {
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

static void tables_have_an_end(void)
{
	struct sennit_info info;
	int own = kt_open();
	char byte;
	struct sennit_seg seg = {(uintptr_t)&byte, 1};
	struct sennit_declare d = {.segs = (uintptr_t)&seg, .nsegs = 1, .access = SENNIT_READ};
	struct sennit_join j = {.rank = 0};
	struct sennit_post p = {.peer = 0, .segs = (uintptr_t)&seg, .nsegs = 1};
	int n = 0;

	KT_CHECK(ioctl(own, SENNIT_IOC_INFO, &info) == 0);
	while (ioctl(own, SENNIT_IOC_DECLARE, &d) == 0)
		n++;
	KT_CHECK(errno == ENOSPC && n == (int)info.max_regions);
	KT_CHECK(kt_undeclare(own, d.id ? d.id : 1) == 0 || errno == ENOENT);
	KT_CHECK(ioctl(own, SENNIT_IOC_JOIN, &j) == 0);
	n = 0;
	while (ioctl(own, SENNIT_IOC_SEND, &p) == 0)
		n++;
	KT_CHECK(errno == EAGAIN && n > 1000);
	close(own); /* and all of it goes */
}

int main(void)
{
	fd = kt_open();
	KT_RUN(another_user_gets_nothing);
	KT_RUN(a_file_belongs_to_its_opener);
	KT_RUN(memory_of_a_dead_owner_is_gone);
	KT_RUN(forged_arguments_are_refused);
	KT_RUN(what_the_owner_may_not_write_stays);
	KT_RUN(arguments_are_read_once);
	KT_RUN(undeclaring_under_a_copy_is_safe);
	KT_RUN(tables_have_an_end);
	kt_wait_unpinned(0);
	return 0;
}

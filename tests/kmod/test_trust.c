// SPDX-License-Identifier: BSD-3-Clause
/* The device trusts nobody: other users, inherited and passed files, forged arguments, memory that is not one's own. */
#include "kt.h"
#include "veth.h"
#include <pthread.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

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

static char *owned;

/* May a process with these ids read the owner's page: by its handle, and as the kernel's own call is allowed to? */
static void may_read(pid_t owner, uint64_t handle, unsigned real, unsigned effective, int by_handle,
		     int by_trace)
{
	pid_t child = kt_fork();
	char buf[64];
	struct iovec here = {buf, sizeof(buf)}, there = {owned, sizeof(buf)};
	ssize_t rc;

	if (child) {
		kt_join(child);
		return;
	}
	KT_CHECK(setresgid(real, effective, effective) == 0 && setresuid(real, effective, effective) == 0);
	rc = kt_read(kt_open(), handle, 0, buf, sizeof(buf));
	KT_CHECK(by_handle ? rc < 0 && errno == by_handle : rc == 0 && kt_same(buf, sizeof(buf), 1));
	rc = process_vm_readv(owner, &here, 1, &there, 1, 0);
	if (rc >= 0 || errno != ENOSYS)
		KT_CHECK(by_trace ? rc < 0 && errno == by_trace : rc == sizeof(buf));
	_exit(0);
}

static void set_yama(int scope)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "w");

	if (!f)
		printf("  no yama in this kernel: not checked with it\n");
	else
		KT_CHECK(fprintf(f, "%d\n", scope) > 0 && fclose(f) == 0);
}

/*
 * The handle is its owner's word for what was declared, and nothing else: it works for the same user where a security module
 * lets nobody trace, or the owner cannot be traced; it works for no other user, and for no lesser one of a program that
 * has another user's rights.
 */
static void a_handle_is_the_owners_word(void)
{
	int up[2], down[2][2], yama = access("/proc/sys/kernel/yama/ptrace_scope", W_OK) == 0;
	uint64_t handle[2];
	pid_t owner[2];
	char c = 0;

	KT_CHECK(pipe(up) == 0 && pipe(down[0]) == 0 && pipe(down[1]) == 0);
	owned = kt_map(KT_PAGE);
	for (int i = 0; i < 2; i++) {
		owner[i] = kt_fork();
		if (!owner[i]) {
			kt_fill(owned, KT_PAGE, 1);
			/* The second one as a program that runs as another user than who started it. */
			KT_CHECK(setresgid(1000, i ? 1002 : 1000, i ? 1002 : 1000) == 0 &&
				 setresuid(1000, i ? 1002 : 1000, i ? 1002 : 1000) == 0);
			KT_CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
			handle[i] = kt_declare(kt_open(), owned, KT_PAGE, SENNIT_READ).handle;
			kt_say(up[1], &handle[i], 8);
			kt_hear(down[i][0], &c, 1);
			KT_CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
			kt_say(up[1], &c, 1);
			kt_hear(down[i][0], &c, 1);
			_exit(0);
		}
		kt_hear(up[0], &handle[i], 8);
	}
	set_yama(0);
	may_read(owner[0], handle[0], 1000, 1000, 0, 0);
	may_read(owner[0], handle[0], 1001, 1001, ENOENT, EPERM);
	may_read(owner[1], handle[1], 1000, 1000, ENOENT, EPERM);
	may_read(owner[1], handle[1], 1002, 1002, ENOENT, EPERM);
	set_yama(2);
	may_read(owner[0], handle[0], 1000, 1000, 0, yama ? EPERM : 0);
	set_yama(0);
	for (int i = 0; i < 2; i++)
		kt_say(down[i][1], &c, 1);
	for (int i = 0; i < 2; i++)
		kt_hear(up[0], &c, 1);
	may_read(owner[0], handle[0], 1000, 1000, 0, EPERM); /* cannot be traced now */
	may_read(owner[0], handle[0], 1001, 1001, ENOENT, EPERM);
	for (int i = 0; i < 2; i++)
		kt_say(down[i][1], &c, 1);
	kt_join(owner[0]);
	kt_join(owner[1]);
	munmap(owned, KT_PAGE);
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
	KT_CHECK(recvmsg(pair[1], &m, 0) == 1 && CMSG_FIRSTHDR(&m));
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
	for (int i = 0; i < 3000 && errno != ENOENT; i++) {
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
	char *page = kt_map(2 * KT_PAGE);
	struct sennit_counters counters = {.values = 8, .n = 5};

	munmap(page + KT_PAGE, KT_PAGE); /* so that nothing is behind it */
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

/* A vector that changes while it is read is either refused or a sound one. It is sound until the other thread has begun. */
static void arguments_are_read_once(void)
{
	pthread_t t;
	int good = 0, bad = 0;

	for (int i = 0; i < 64; i++)
		flipping[i] = (struct sennit_seg){0x100000, 4096};
	stop = 0;
	KT_CHECK(pthread_create(&t, NULL, flip, NULL) == 0);
	for (int i = 0, n = kt_times(5000); i < n || !bad; i++) {
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

/* What waits in one job to be matched, of all its ranks together, is bounded: its queues are searched under a lock. */
static void a_jobs_queues_have_an_end(void)
{
	struct sennit_post p = {.peer = 1000}; /* nobody */
	struct sennit_join j = {.rank = 0};
	int file[9], n = 0;

	if (kt_times(8) < 8) {
		printf("  a checking kernel takes minutes for so many calls: not checked\n");
		return;
	}
	for (unsigned i = 0; i < 9; i++) {
		file[i] = kt_open();
		j.rank = i;
		KT_CHECK(ioctl(file[i], SENNIT_IOC_JOIN, &j) == 0);
		while (ioctl(file[i], SENNIT_IOC_SEND, &p) == 0)
			n++;
		KT_CHECK(errno == EAGAIN);
	}
	KT_CHECK(n == 65536);
	close(file[0]); /* its own go with it */
	KT_CHECK(ioctl(file[8], SENNIT_IOC_SEND, &p) == 0);
	for (unsigned i = 1; i < 9; i++)
		close(file[i]);
}

/* Bytes of the kernel's that are charged to the memory cgroup of who asks; 0: there is none. */
static uint64_t charged(void)
{
	FILE *f = fopen("/tmp/cgroup/t/memory.stat", "r");
	unsigned long bytes = 0;
	char line[100];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "kernel %lu", &bytes) == 1)
			break;
	if (f)
		fclose(f);
	return bytes;
}

static void put(const char *path, const char *what)
{
	int file = open(path, O_WRONLY);

	KT_CHECK(file >= 0 && write(file, what, strlen(what)) == (ssize_t)strlen(what));
	close(file);
}

/* Rings of completions are memory of the kernel's that a user may have very much of. */
static void rings_are_charged(void)
{
	struct sennit_net_open o = {.mtu = 1000, .event = -1};
	unsigned char mac[6];
	uint64_t before, now;
	pid_t child = kt_fork();

	if (child) {
		kt_join(child);
		return;
	}
	KT_CHECK(mkdir("/tmp/cgroup", 0755) == 0);
	if (mount("none", "/tmp/cgroup", "cgroup2", 0, "") < 0 ||
	    access("/tmp/cgroup/memory.stat", R_OK) < 0) {
		printf("  this kernel has no memory cgroups: not checked\n");
		_exit(0);
	}
	put("/tmp/cgroup/cgroup.subtree_control", "+memory");
	KT_CHECK(mkdir("/tmp/cgroup/t", 0755) == 0);
	put("/tmp/cgroup/t/cgroup.procs", "0");
	kt_veth_make("ta", "tb", getpid(), 1500);
	o.ifindex = kt_link_index("ta", mac);
	fd = kt_open();
	before = charged();
	for (unsigned i = 0; i < SENNIT_NETS; i++)
		KT_CHECK(ioctl(fd, SENNIT_IOC_NET_OPEN, &o) == 0);
	/*
	 * The kernel writes down what is charged when it is much, else every two seconds; and some of it goes back
	 * between two looks.
	 */
	now = charged();
	for (int i = 0; i < 3000 && now < before + SENNIT_NETS * sizeof(struct sennit_net_ring); i++) {
		usleep(10000);
		now = charged();
	}
	printf("  %ld KiB charged for %d rings\n", (long)(now - before) / 1024, SENNIT_NETS);
	KT_CHECK(now >= before + SENNIT_NETS * sizeof(struct sennit_net_ring));
	close(fd);
	kt_link_delete("ta");
	_exit(0);
}

int main(int argc, char **argv)
{
	kt_options(argc, argv);
	fd = kt_open();
	KT_RUN(another_user_gets_nothing);
	KT_RUN(a_handle_is_the_owners_word);
	KT_RUN(a_file_belongs_to_its_opener);
	KT_RUN(memory_of_a_dead_owner_is_gone);
	KT_RUN(forged_arguments_are_refused);
	KT_RUN(what_the_owner_may_not_write_stays);
	KT_RUN(arguments_are_read_once);
	KT_RUN(tables_have_an_end);
	KT_RUN(a_jobs_queues_have_an_end);
	KT_RUN(rings_are_charged);
	kt_wait_unpinned(0);
	return 0;
}

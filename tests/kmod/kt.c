// SPDX-License-Identifier: BSD-3-Clause
/* See kt.h. */
#include "kt.h"
#include <glob.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>

/* ---- 32-bit calls ---- */

static bool compat;
static sigjmp_buf no_compat;

static void on_fault(int sig)
{
	siglongjmp(no_compat, sig);
}

#ifndef MAP_32BIT
#define MAP_32BIT 0
#endif
#ifdef __x86_64__
/* The interrupt by which 32-bit programs call the kernel; it takes the lower halves of registers. */
static int call32(int number, int fd, unsigned long what, void *arg)
{
	long rc;

	__asm__ volatile("int $0x80"
			 : "=a"(rc)
			 : "a"(number), "b"(fd), "c"(what), "d"(arg)
			 : "memory", "cc", "r8", "r9", "r10", "r11");
	if ((int)rc >= 0)
		return (int)rc;
	errno = -(int)rc;
	return -1;
}
#else
static int call32(int number, int fd, unsigned long what, void *arg)
{
	errno = ENOSYS;
	return number && fd && what && arg ? -1 : -2;
}
#endif

bool kt_compat(void)
{
	struct sigaction act = {.sa_handler = on_fault}, old;

	sigaction(SIGSEGV, &act, &old);
	compat = !sigsetjmp(no_compat, 1) && call32(20 /* getpid */, 0, 0, NULL) == getpid();
	sigaction(SIGSEGV, &old, NULL);
	return compat;
}

void kt_options(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[argc - 1], "compat"))
		return;
	if (!kt_compat()) {
		printf("SKIP: this kernel has no calls of 32-bit programs\n");
		exit(77);
	}
	printf("as a 32-bit program\n");
}

uint64_t *kt_accepted;

int __real_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);

/*
 * What a 32-bit call names must lie in the lower 4 GiB: what does not is brought there, and back. Each thread keeps its page
 * for that: to map one a call takes milliseconds under KASAN, and a test that fills a table makes 65,536 calls.
 */
static int ioctl32(int fd, unsigned long what, void *arg)
{
	bool sound =
		(uintptr_t)arg >= 1ul << 32 && (uintptr_t)arg < 1ul << 47; /* else a bad pointer stays one */
	static _Thread_local void *low;
	int rc, err;

	if (sound && !low) {
		low = mmap(NULL, KT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1,
			   0);
		KT_CHECK(low != MAP_FAILED);
	}
	if (sound)
		memcpy(low, arg, _IOC_SIZE(what));
	rc = call32(54 /* ioctl */, fd, what, sound ? low : arg);
	err = errno;
	if (sound)
		memcpy(arg, low, _IOC_SIZE(what));
	errno = err;
	return rc;
}

/* Every ioctl() of a test comes by here (the linker's --wrap). */
int __wrap_ioctl(int fd, unsigned long what, ...)
{
	va_list list;
	void *arg;
	int rc;

	va_start(list, what);
	arg = va_arg(list, void *);
	va_end(list);
	if (_IOC_TYPE(what) != 0xE5 || _IOC_SIZE(what) > KT_PAGE)
		return __real_ioctl(fd, what, arg);
	rc = compat ? ioctl32(fd, what, arg) : __real_ioctl(fd, what, arg);
	if (kt_accepted && rc == 0)
		__atomic_fetch_add(&kt_accepted[_IOC_NR(what)], 1, __ATOMIC_RELAXED);
	return rc;
}

int kt_open(void)
{
	int fd = open(SENNIT_DEVICE, O_RDWR | O_CLOEXEC);

	KT_CHECK(fd >= 0);
	return fd;
}

char *kt_map(size_t len)
{
	char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	KT_CHECK(at != MAP_FAILED);
	return at;
}

static unsigned char kt_byte(size_t i, unsigned seed)
{
	return (unsigned char)((i ^ (i >> 8) ^ (i >> 16)) * 31 + seed);
}

void kt_fill(void *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *)at)[i] = kt_byte(i, seed);
}

bool kt_same(const void *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		if (((const unsigned char *)at)[i] != kt_byte(i, seed)) {
			printf("byte %zu of %zu differs\n", i, len);
			return false;
		}
	}
	return true;
}

struct kt_region kt_declare(int fd, void *at, size_t len, uint32_t access)
{
	struct sennit_seg seg = {(uintptr_t)at, len};
	struct sennit_declare d = {.segs = (uintptr_t)&seg, .nsegs = 1, .access = access};

	KT_CHECK(ioctl(fd, SENNIT_IOC_DECLARE, &d) == 0);
	KT_CHECK(d.length == len && d.handle);
	return (struct kt_region){d.id, d.handle};
}

int kt_undeclare(int fd, uint32_t id)
{
	struct sennit_undeclare u = {.id = id};

	return ioctl(fd, SENNIT_IOC_UNDECLARE, &u);
}

struct sennit_end kt_mine(struct sennit_seg *segs, uint32_t n)
{
	return (struct sennit_end){.kind = SENNIT_END_MEMORY, .nsegs = n, .ref = (uintptr_t)segs};
}

struct sennit_end kt_id(uint32_t id, uint64_t offset)
{
	return (struct sennit_end){.kind = SENNIT_END_REGION, .ref = id, .offset = offset};
}

struct sennit_end kt_handle(uint64_t handle, uint64_t offset)
{
	return (struct sennit_end){.kind = SENNIT_END_HANDLE, .ref = handle, .offset = offset};
}

int kt_copy(int fd, struct sennit_end dst, struct sennit_end src, uint64_t len, uint64_t *copied)
{
	struct sennit_copy c = {.dst = dst, .src = src, .len = len};
	int rc = ioctl(fd, SENNIT_IOC_COPY, &c);

	if (copied)
		*copied = c.copied;
	KT_CHECK(rc < 0 || c.copied == len);
	return rc;
}

int kt_read(int fd, uint64_t handle, uint64_t offset, void *to, size_t len)
{
	struct sennit_seg seg = {(uintptr_t)to, len};

	return kt_copy(fd, kt_mine(&seg, 1), kt_handle(handle, offset), len, NULL);
}

int kt_write(int fd, uint64_t handle, uint64_t offset, void *from, size_t len)
{
	struct sennit_seg seg = {(uintptr_t)from, len};

	return kt_copy(fd, kt_handle(handle, offset), kt_mine(&seg, 1), len, NULL);
}

static void counters(uint64_t *values)
{
	struct sennit_counters c = {.values = (uintptr_t)values, .n = SENNIT_C_COUNT};
	int fd = kt_open();

	KT_CHECK(ioctl(fd, SENNIT_IOC_COUNTERS, &c) == 0);
	close(fd);
}

uint64_t kt_counter(enum sennit_counter which)
{
	uint64_t values[SENNIT_C_COUNT];

	counters(values);
	return values[which];
}

/* Pages that are pinned, by the counters: without what is only set aside for pinning. */
uint64_t kt_held(void)
{
	uint64_t values[SENNIT_C_COUNT];

	counters(values);
	return values[SENNIT_C_PAGES_PINNED] - values[SENNIT_C_PAGES_UNPINNED];
}

uint64_t kt_pinned(void)
{
	struct sennit_info info;
	int fd = kt_open();

	KT_CHECK(ioctl(fd, SENNIT_IOC_INFO, &info) == 0);
	close(fd);
	return info.pinned_pages;
}

/*
 * Pages are let go by a worker, so a little later than the call that dropped them. One good look is enough: another
 * process of the test may pin some between two.
 */
void kt_wait_unpinned(uint64_t at_most)
{
	uint64_t now = kt_pinned();

	for (int i = 0; i < 3000 && now > at_most; i++) {
		usleep(10000);
		now = kt_pinned();
	}
	KT_CHECK(now <= at_most);
}

/* Just so many, when the workers are through that set some aside to pin ahead and give back what was pinned already. */
void kt_wait_pinned(uint64_t pages)
{
	uint64_t now = kt_pinned();

	for (int i = 0; i < 3000 && now != pages; i++) {
		usleep(10000);
		now = kt_pinned();
	}
	KT_CHECK(now == pages);
}

uint64_t kt_vm_pin_kb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long kb = 0;
	char line[200];

	KT_CHECK(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmPin: %lu", &kb) == 1)
			break;
	}
	fclose(f);
	return kb;
}

pid_t kt_fork(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	KT_CHECK(child >= 0);
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

void kt_join(pid_t child)
{
	int status;

	KT_CHECK(waitpid(child, &status, 0) == child);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		printf("child: status %#x\n", status);
	KT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- limits ---- */

static void (*limit_state)(void);

/* A file of /proc or of the module's, to standard output. */
static void show(const char *path)
{
	char text[8192];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	printf("%s:\n%s%s", path, text, text[n - 1] == '\n' ? "" : "\n");
}

/* NOLINTBEGIN(bugprone-signal-handler): said in there */
static void on_limit(int sig)
{
	glob_t threads;

	/* What holds a lock of the C library may have been interrupted: then this ends in silence, but it ends. */
	signal(SIGALRM, SIG_DFL);
	alarm(5);
	printf("process %d: not finished in time\n", getpid());
	if (limit_state)
		limit_state();
	if (glob("/proc/self/task/[0-9]*/stack", 0, NULL, &threads) == 0)
		for (size_t i = 0; i < threads.gl_pathc; i++)
			show(threads.gl_pathv[i]);
	show("/sys/kernel/debug/sennit/counters");
	fflush(stdout);
	_exit(128 + sig);
}
/* NOLINTEND(bugprone-signal-handler) */

void kt_say_counter(void *arg, const char *name, uint64_t value)
{
	(void)arg;
	if (value)
		printf("  %s %llu\n", name, (unsigned long long)value);
}

void kt_limit(unsigned seconds, void (*state)(void))
{
	limit_state = state;
	signal(SIGALRM, on_limit);
	alarm(seconds);
}

int kt_times(int n)
{
	return access("/sys/kernel/debug/kmemleak", F_OK) == 0 ? n / 8 : n;
}

void kt_become_user(unsigned uid)
{
	KT_CHECK(setgroups(0, NULL) == 0);
	KT_CHECK(setresgid(uid, uid, uid) == 0);
	KT_CHECK(setresuid(uid, uid, uid) == 0);
}

void kt_say(int pipe, const void *what, size_t len)
{
	KT_CHECK(write(pipe, what, len) == (ssize_t)len);
}

void kt_hear(int pipe, void *what, size_t len)
{
	KT_CHECK(read(pipe, what, len) == (ssize_t)len);
}

uint32_t kt_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33);
}

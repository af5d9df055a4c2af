// SPDX-License-Identifier: BSD-3-Clause
/* Regions: declared without pinning, pinned on demand in growing chunks, dropped when the memory changes, within limits. */
#include "kt.h"
#include <sys/prctl.h>
#include <sys/syscall.h>

static int fd;

static void declaring_pins_nothing(void)
{
	char *at = kt_map(64 * KT_PAGE);
	uint64_t before = kt_pinned();
	struct kt_region r = kt_declare(fd, at, 64 * KT_PAGE, SENNIT_READ);

	KT_CHECK(kt_pinned() == before && kt_vm_pin_kb() == 0);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	KT_FAILS(kt_undeclare(fd, r.id), ENOENT);
	munmap(at, 64 * KT_PAGE);
}

/* 1 + 2 + 4 + ... + 1,024 and again 1,024: 2,500 pages come in 11 chunks and a rest, if no worker pins beside. */
static void chunks_grow(void)
{
	const size_t pages = 2500;
	char *at = kt_map(pages * KT_PAGE), *to = kt_map(pages * KT_PAGE);
	uint64_t chunks = kt_counter(SENNIT_C_PIN_CHUNKS), pinned = kt_counter(SENNIT_C_PAGES_PINNED);
	struct kt_region r;

	kt_fill(at, pages * KT_PAGE, 1);
	r = kt_declare(fd, at, pages * KT_PAGE, SENNIT_READ);
	KT_CHECK(kt_read(fd, r.handle, 0, to, pages * KT_PAGE) == 0);
	KT_CHECK(kt_same(to, pages * KT_PAGE, 1));
	chunks = kt_counter(SENNIT_C_PIN_CHUNKS) - chunks;
	pinned = kt_counter(SENNIT_C_PAGES_PINNED) - pinned;
	printf("  %lu chunks for %lu pages\n", chunks, pinned);
	KT_CHECK(pinned == pages);
	KT_CHECK(chunks >= 12 && chunks <= 14);
	kt_wait_pinned(pages);
	KT_CHECK(kt_vm_pin_kb() == pages * KT_PAGE / 1024);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	KT_CHECK(kt_vm_pin_kb() == 0);
	munmap(at, pages * KT_PAGE);
	munmap(to, pages * KT_PAGE);
}

static void a_part_pins_only_its_pages(void)
{
	char *at = kt_map(256 * KT_PAGE), to[100];
	struct kt_region r = kt_declare(fd, at, 256 * KT_PAGE, SENNIT_READ);

	KT_CHECK(kt_read(fd, r.handle, 200 * KT_PAGE - 50, to, sizeof(to)) == 0);
	KT_CHECK(kt_held() >= 2 && kt_held() <= 3); /* one page, then one or two */
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, 256 * KT_PAGE);
}

/* Very many sets, of a page each: they go a part at a time, and all of them do. */
static void scattered_pins_all_go(void)
{
	const size_t pages = 500;
	char *at = kt_map(pages * KT_PAGE), byte;
	uint64_t chunks = kt_counter(SENNIT_C_PIN_CHUNKS), gone = kt_counter(SENNIT_C_INVALIDATIONS);
	struct kt_region r = kt_declare(fd, at, pages * KT_PAGE, SENNIT_READ);

	for (size_t i = pages; i-- > 0;) /* from the end on: each is as long as there is room, a page */
		KT_CHECK(kt_read(fd, r.handle, i * KT_PAGE, &byte, 1) == 0);
	KT_CHECK(kt_counter(SENNIT_C_PIN_CHUNKS) - chunks == pages && kt_held() == pages);
	munmap(at + KT_PAGE, (pages - 2) * KT_PAGE);
	KT_CHECK(kt_counter(SENNIT_C_INVALIDATIONS) - gone == pages - 2);
	kt_wait_unpinned(2);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, pages * KT_PAGE);
}

/*
 * An address may have a tag in its top byte where the processor looks past it. It names the same memory, whose
 * changes must be heard of.
 */
static void tagged_addresses_are_the_same_memory(void)
{
	char *at = kt_map(KT_PAGE), *anew, *tagged, to[64];
	struct kt_region r;

	if (prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0) < 0) {
		printf("  addresses have no tags here: not checked\n");
		munmap(at, KT_PAGE);
		return;
	}
	tagged = (char *)((uintptr_t)at | (uint64_t)0x5a << 56);
	kt_fill(at, KT_PAGE, 13);
	r = kt_declare(fd, tagged, KT_PAGE, SENNIT_READ);
	KT_CHECK(kt_read(fd, r.handle, 0, to, sizeof(to)) == 0 && kt_same(to, sizeof(to), 13));
	anew = mmap(at, KT_PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KT_CHECK(anew == at);
	kt_fill(at, KT_PAGE, 14);
	KT_CHECK(kt_read(fd, r.handle, 0, to, sizeof(to)) == 0 && kt_same(to, sizeof(to), 14));
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, KT_PAGE);
}

static void preparing_pins_ahead(void)
{
	const size_t len = 4096 * KT_PAGE;
	char *at = kt_map(len), *to = kt_map(len);
	struct kt_region r = kt_declare(fd, at, len, SENNIT_READ);
	struct sennit_prepare p = {.id = r.id, .offset = 0, .len = len};
	uint64_t hits;

	kt_fill(at, len, 2);
	KT_CHECK(ioctl(fd, SENNIT_IOC_PREPARE, &p) == 0);
	kt_wait_pinned(4096);
	hits = kt_counter(SENNIT_C_PIN_HITS);
	KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0 && kt_same(to, len, 2));
	KT_CHECK(kt_counter(SENNIT_C_PIN_HITS) - hits >= len / 65536);
	p.offset = 1;
	KT_FAILS(ioctl(fd, SENNIT_IOC_PREPARE, &p), EINVAL);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, len);
	munmap(to, len);
}

/* Runs `change` on pinned memory and checks what a copy then finds. */
static void changed(void (*change)(char *at, size_t len), int read_error, int write_error, bool drops)
{
	const size_t len = 40 * KT_PAGE;
	char *at = kt_map(len), *buf = kt_map(len);
	struct kt_region r = kt_declare(fd, at, len, SENNIT_READ | SENNIT_WRITE);
	uint64_t drop = kt_counter(SENNIT_C_INVALIDATIONS);

	kt_fill(buf, len, 3);
	KT_CHECK(kt_write(fd, r.handle, 0, buf, len) == 0);
	KT_CHECK(kt_same(at, len, 3));
	KT_CHECK(kt_held() == 40);
	change(at, len);
	if (drops) {
		KT_CHECK(kt_counter(SENNIT_C_INVALIDATIONS) > drop);
		kt_wait_unpinned(39);
	}
	if (read_error)
		KT_FAILS(kt_read(fd, r.handle, 0, buf, len), read_error);
	else
		KT_CHECK(kt_read(fd, r.handle, 0, buf, len) == 0);
	kt_fill(buf, len, 4);
	if (write_error) {
		KT_FAILS(kt_write(fd, r.handle, 0, buf, len), write_error);
	} else {
		KT_CHECK(kt_write(fd, r.handle, 0, buf, len) == 0);
		KT_CHECK(kt_same(at, len, 4));
	}
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, len);
	munmap(buf, len);
}

static void do_unmap(char *at, size_t len)
{
	KT_CHECK(munmap(at, len) == 0);
}

static void do_map_anew(char *at, size_t len)
{
	char *again = mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	KT_CHECK(again == at);
	kt_fill(at, len, 9);
}

static void do_protect(char *at, size_t len)
{
	KT_CHECK(mprotect(at, len, PROT_READ) == 0);
}

static void do_discard(char *at, size_t len)
{
	KT_CHECK(madvise(at, len, MADV_DONTNEED) == 0);
}

static void do_move(char *at, size_t len)
{
	char *to = kt_map(len);

	KT_CHECK(mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	munmap(to, len);
}

static void do_fork(char *at, size_t len)
{
	pid_t child = kt_fork();

	if (!child)
		_exit(kt_same(at, len, 3) ? 0 : 1);
	kt_join(child);
}

static void unmapped_memory_is_an_error(void)
{
	changed(do_unmap, EFAULT, EFAULT, true);
}

static void memory_mapped_anew_is_used(void)
{
	changed(do_map_anew, 0, 0, true);
}

static void read_only_memory_is_not_written(void)
{
	changed(do_protect, 0, EFAULT, true);
}

static void discarded_memory_is_pinned_again(void)
{
	changed(do_discard, 0, 0, true);
}

static void moved_memory_is_an_error(void)
{
	changed(do_move, EFAULT, EFAULT, true);
}

static void fork_drops_and_pins_again(void)
{
	changed(do_fork, 0, 0, true);
}

/* After a fork, what a peer writes is the parent's, not the child's; what either writes itself stays its own. */
static void fork_keeps_memories_apart(void)
{
	const size_t len = 8 * KT_PAGE;
	char *at = kt_map(len), *buf = kt_map(len);
	struct kt_region r = kt_declare(fd, at, len, SENNIT_READ | SENNIT_WRITE);
	int go[2];
	pid_t child;
	char c = 0;

	KT_CHECK(pipe(go) == 0);
	kt_fill(buf, len, 5);
	KT_CHECK(kt_write(fd, r.handle, 0, buf, len) == 0);
	child = kt_fork();
	if (!child) {
		kt_hear(go[0], &c, 1);
		KT_CHECK(kt_same(at, len, 5));
		_exit(0);
	}
	kt_fill(buf, len, 6);
	KT_CHECK(kt_write(fd, r.handle, 0, buf, len) == 0);
	KT_CHECK(kt_same(at, len, 6));
	kt_say(go[1], &c, 1);
	kt_join(child);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, len);
	munmap(buf, len);
}

static void truncated_file_is_an_error(void)
{
	const size_t len = 16 * KT_PAGE;
	int file = memfd_create("t", 0);
	char *at, *buf = kt_map(len);
	struct kt_region r;

	KT_CHECK(file >= 0 && ftruncate(file, len) == 0);
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	KT_CHECK(at != MAP_FAILED);
	r = kt_declare(fd, at, len, SENNIT_READ | SENNIT_WRITE);
	kt_fill(buf, len, 7);
	KT_CHECK(kt_write(fd, r.handle, 0, buf, len) == 0);
	KT_CHECK(kt_same(at, len, 7));
	KT_CHECK(ftruncate(file, 4 * KT_PAGE) == 0);
	KT_FAILS(kt_read(fd, r.handle, 0, buf, len), EFAULT);
	KT_CHECK(kt_read(fd, r.handle, 0, buf, 4 * KT_PAGE) == 0);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	close(file);
	munmap(at, len);
	munmap(buf, len);
}

static void invalid_memory_shows_at_use(void)
{
	char *at = kt_map(2 * KT_PAGE), buf[64];
	struct kt_region r;

	munmap(at, 2 * KT_PAGE);
	r = kt_declare(fd, at, 2 * KT_PAGE, SENNIT_READ);
	KT_FAILS(kt_read(fd, r.handle, 0, buf, sizeof(buf)), EFAULT);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
}

/* A user may pin what RLIMIT_MEMLOCK says and no more; older chunks go for newer ones, and the data is right. */
static void memlock_limit_is_kept(void)
{
	const size_t pages = 600;
	struct rlimit lim = {100 * KT_PAGE, 100 * KT_PAGE}, none = {0, 0};
	pid_t child = kt_fork();
	char *at, *to;
	struct kt_region r;
	int own;

	if (child) {
		kt_join(child);
		kt_wait_unpinned(0);
		return;
	}
	KT_CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
	kt_become_user(1000);
	own = kt_open();
	at = kt_map(pages * KT_PAGE);
	to = kt_map(pages * KT_PAGE);
	kt_fill(at, pages * KT_PAGE, 8);
	r = kt_declare(own, at, pages * KT_PAGE, SENNIT_READ | SENNIT_WRITE);
	KT_CHECK(kt_read(own, r.handle, 0, to, pages * KT_PAGE) == 0);
	KT_CHECK(kt_same(to, pages * KT_PAGE, 8));
	KT_CHECK(kt_held() > 0 && kt_held() <= 100);
	KT_CHECK(kt_counter(SENNIT_C_EVICTIONS) > 0);
	KT_CHECK(madvise(at, pages * KT_PAGE, MADV_DONTNEED) == 0); /* nothing is pinned now */
	kt_wait_unpinned(0);
	KT_CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
	KT_FAILS(kt_read(own, r.handle, 0, to, KT_PAGE), ENOMEM);
	_exit(0);
}

static void set_parameter(const char *name, unsigned long value)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/sennit/parameters/%s", name);
	f = fopen(path, "w");
	KT_CHECK(f && fprintf(f, "%lu\n", value) > 0 && fclose(f) == 0);
}

static void system_limit_is_kept(void)
{
	const size_t pages = 600;
	char *at = kt_map(pages * KT_PAGE), *to = kt_map(pages * KT_PAGE);
	struct kt_region r = kt_declare(fd, at, pages * KT_PAGE, SENNIT_READ);

	set_parameter("pin_limit_pages", 64);
	kt_fill(at, pages * KT_PAGE, 8);
	for (int i = 0; i < 3; i++) {
		KT_CHECK(kt_read(fd, r.handle, 0, to, pages * KT_PAGE) == 0);
		KT_CHECK(kt_same(to, pages * KT_PAGE, 8));
		KT_CHECK(kt_held() <= 64);
	}
	set_parameter("pin_limit_pages", 0);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0); /* what is left would count against the next test's limit */
	munmap(at, pages * KT_PAGE);
	munmap(to, pages * KT_PAGE);
}

static uint64_t pins_of_reading(const struct kt_region *r)
{
	uint64_t before = kt_counter(SENNIT_C_PAGES_PINNED);
	char buf[64];

	KT_CHECK(kt_read(fd, r->handle, 0, buf, sizeof(buf)) == 0);
	return kt_counter(SENNIT_C_PAGES_PINNED) - before;
}

/* At the system's limit what was used least recently goes, and what was used since the last look stays. */
static void least_recently_used_goes_first(void)
{
	enum { N = 8 };
	struct kt_region r[N + 2];
	uint64_t evictions = kt_counter(SENNIT_C_EVICTIONS);
	char *at = kt_map((N + 2) * 2 * KT_PAGE);

	set_parameter("pin_limit_pages", N);
	kt_fill(at, (N + 2) * 2 * KT_PAGE, 8);
	for (size_t i = 0; i < N + 2; i++)
		r[i] = kt_declare(fd, at + i * 2 * KT_PAGE, KT_PAGE, SENNIT_READ);
	for (int i = 0; i < N; i++)
		KT_CHECK(pins_of_reading(&r[i]) == 1);
	KT_CHECK(kt_counter(SENNIT_C_EVICTIONS) == evictions);
	KT_CHECK(pins_of_reading(&r[N]) ==
		 1); /* all were used: each has its second chance, then the oldest goes */
	KT_CHECK(kt_counter(SENNIT_C_EVICTIONS) == evictions + 1);
	KT_CHECK(pins_of_reading(&r[1]) == 0); /* it is used again */
	KT_CHECK(pins_of_reading(&r[N + 1]) == 1);
	KT_CHECK(kt_counter(SENNIT_C_EVICTIONS) == evictions + 2);
	KT_CHECK(pins_of_reading(&r[1]) == 0); /* and so it stayed, */
	KT_CHECK(pins_of_reading(&r[3]) == 0);
	KT_CHECK(pins_of_reading(&r[2]) == 1); /* the next one went */
	set_parameter("pin_limit_pages", 0);
	for (int i = 0; i < N + 2; i++)
		KT_CHECK(kt_undeclare(fd, r[i].id) == 0);
	kt_wait_unpinned(0);
	munmap(at, (N + 2) * 2 * KT_PAGE);
}

/* One more of the user's processes does what pins: preparing, sharing, messages. Never more than the limit is pinned. */
static void memlock_holds_on_every_path(void)
{
	const size_t pages = 64;
	struct rlimit lim = {16 * KT_PAGE, 16 * KT_PAGE};
	pid_t child = kt_fork();
	char *at, *to;

	if (child) {
		kt_join(child);
		kt_wait_unpinned(0);
		return;
	}
	KT_CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
	kt_become_user(1000);
	int own = kt_open();
	at = kt_map(pages * KT_PAGE);
	to = kt_map(pages * KT_PAGE);
	kt_fill(at, pages * KT_PAGE, 8);
	struct kt_region src = kt_declare(own, at, pages * KT_PAGE, SENNIT_READ),
			 dst = kt_declare(own, to, pages * KT_PAGE, SENNIT_WRITE);
	struct sennit_prepare p = {.id = src.id, .len = pages * KT_PAGE};
	KT_CHECK(ioctl(own, SENNIT_IOC_PREPARE, &p) == 0);
	for (int i = 0; i < 20; i++) {
		KT_CHECK(kt_held() <= 16);
		usleep(1000);
	}
	struct sennit_share_open o = {
		.dst = kt_id(dst.id, 0), .src = kt_id(src.id, 0), .len = pages * KT_PAGE};
	KT_CHECK(ioctl(own, SENNIT_IOC_SHARE_OPEN, &o) == 0);
	struct sennit_share_run run = {.handle = o.handle, .flags = SENNIT_SHARE_WAIT};
	KT_CHECK(ioctl(own, SENNIT_IOC_SHARE_RUN, &run) == 0);
	if (run.error)
		printf("  error %d, %lu done\n", run.error, (unsigned long)run.done);
	KT_CHECK(run.error == 0);
	KT_CHECK(kt_same(to, pages * KT_PAGE, 8) && kt_held() <= 16 && kt_vm_pin_kb() <= 64);
	struct sennit_seg from = {(uintptr_t)at, pages * KT_PAGE}, into = {(uintptr_t)to, pages * KT_PAGE};
	struct sennit_join j = {.rank = 0};
	struct sennit_post s = {.segs = (uintptr_t)&from, .nsegs = 1},
			   r = {.segs = (uintptr_t)&into, .nsegs = 1};
	KT_CHECK(ioctl(own, SENNIT_IOC_JOIN, &j) == 0);
	memset(to, 0, pages * KT_PAGE);
	KT_CHECK(ioctl(own, SENNIT_IOC_SEND, &s) == 0 && ioctl(own, SENNIT_IOC_RECV, &r) == 0);
	struct sennit_wait w = {.request = r.request};
	KT_CHECK(ioctl(own, SENNIT_IOC_WAIT, &w) == 0 && w.error == 0 && kt_same(to, pages * KT_PAGE, 8));
	KT_CHECK(kt_held() <= 16);
	/* Another file of the same process has no limit of its own. */
	int second = kt_open();
	dst = kt_declare(second, to, pages * KT_PAGE, SENNIT_READ);
	KT_CHECK(kt_read(second, dst.handle, 0, at, pages * KT_PAGE) == 0 && kt_held() <= 16);
	_exit(0);
}

/* The machine runs out of memory: what is pinned and not in use goes before a process does, and its regions stay valid. */
static void want_of_memory_unpins(void)
{
	const size_t len = 2000 * KT_PAGE;
	char *at = kt_map(len), *to = kt_map(len);
	struct kt_region r = kt_declare(fd, at, len, SENNIT_READ);
	uint64_t before = kt_counter(SENNIT_C_SHRINKS);
	int go[2], begin[2], status;
	pid_t eater;
	char c = 0;

	KT_CHECK(pipe(go) == 0 && pipe(begin) == 0);
	eater = kt_fork(); /* first, for a fork unpins */
	if (!eater) {
		FILE *f = fopen("/proc/self/oom_score_adj", "w");

		KT_CHECK(f && fprintf(f, "1000\n") > 0 && fclose(f) == 0);
		close(go[0]);
		kt_hear(begin[0], &c, 1);
		for (;;) {
			memset(kt_map(4 << 20), 1, 4 << 20);
			if (write(go[1], "", 1) != 1)
				_exit(0);
		}
	}
	close(go[1]);
	kt_fill(at, len, 10);
	KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0 && kt_held() == 2000);
	kt_say(begin[1], &c, 1);
	while (kt_counter(SENNIT_C_SHRINKS) == before && read(go[0], &c, 1) == 1)
		;
	kill(eater, SIGKILL);
	KT_CHECK(waitpid(eater, &status, 0) == eater);
	close(go[0]);
	close(begin[0]);
	close(begin[1]);
	printf("  %lu chunks let go\n", (unsigned long)(kt_counter(SENNIT_C_SHRINKS) - before));
	/* Compaction and balancing between nodes invalidate too, and may have left the shrinker nothing. */
	KT_CHECK(kt_counter(SENNIT_C_SHRINKS) > before || kt_held() == 0);
	KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0 && kt_same(to, len, 10));
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, len);
	munmap(to, len);
}

/* drop_caches asks every shrinker; the region stays valid. */
static void memory_pressure_unpins(void)
{
	const size_t len = 300 * KT_PAGE;
	char *at = kt_map(len), *to = kt_map(len);
	struct kt_region r = kt_declare(fd, at, len, SENNIT_READ);
	uint64_t before = kt_counter(SENNIT_C_SHRINKS);

	kt_fill(at, len, 10);
	KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0);
	/* What is busy at that moment is passed over, and the unpinning is a worker's. */
	for (int i = 0; i < 200 && kt_pinned(); i++) {
		FILE *f = fopen("/proc/sys/vm/drop_caches", "w");

		KT_CHECK(f && fprintf(f, "2\n") > 0 && fclose(f) == 0);
		usleep(10000);
	}
	KT_CHECK(kt_counter(SENNIT_C_SHRINKS) > before);
	kt_wait_unpinned(0);
	KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0 && kt_same(to, len, 10));
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	munmap(at, len);
	munmap(to, len);
}

/* Moves the pages to the other memory node (the machine is booted with two) while they are pinned, and copies again. */
static void migrated_memory_is_found_again(void)
{
	const size_t len = 64 * KT_PAGE;
	char *at = kt_map(len), *to = kt_map(len);
	struct kt_region r = kt_declare(fd, at, len, SENNIT_READ | SENNIT_WRITE);
	unsigned long node = 2; /* mask: node 1 */
	unsigned long both = 3;
	long left = -1;

	kt_fill(at, len, 11);
	KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0);
	for (int i = 0; i < 50 && left != 0; i++) {
		left = syscall(SYS_migrate_pages, 0, 8 * sizeof(both), &both, &node);
		if (left < 0 && (errno == ENOSYS || errno == EINVAL || errno == ENODEV)) {
			printf("  one memory node only: not checked\n");
			break;
		}
		usleep(10000); /* the unpinning is a worker's */
	}
	KT_CHECK(kt_read(fd, r.handle, 0, to, len) == 0 && kt_same(to, len, 11));
	kt_fill(to, len, 12);
	KT_CHECK(kt_write(fd, r.handle, 0, to, len) == 0 && kt_same(at, len, 12));
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	munmap(at, len);
	munmap(to, len);
}

int main(void)
{
	fd = kt_open();
	KT_RUN(declaring_pins_nothing);
	KT_RUN(chunks_grow);
	KT_RUN(a_part_pins_only_its_pages);
	KT_RUN(scattered_pins_all_go);
	KT_RUN(tagged_addresses_are_the_same_memory);
	KT_RUN(preparing_pins_ahead);
	KT_RUN(unmapped_memory_is_an_error);
	KT_RUN(memory_mapped_anew_is_used);
	KT_RUN(read_only_memory_is_not_written);
	KT_RUN(discarded_memory_is_pinned_again);
	KT_RUN(moved_memory_is_an_error);
	KT_RUN(fork_drops_and_pins_again);
	KT_RUN(fork_keeps_memories_apart);
	KT_RUN(truncated_file_is_an_error);
	KT_RUN(invalid_memory_shows_at_use);
	KT_RUN(memlock_limit_is_kept);
	KT_RUN(memlock_holds_on_every_path);
	KT_RUN(system_limit_is_kept);
	KT_RUN(least_recently_used_goes_first);
	KT_RUN(memory_pressure_unpins);
	KT_RUN(want_of_memory_unpins);
	KT_RUN(migrated_memory_is_found_again);
	return 0;
}

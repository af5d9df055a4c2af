// SPDX-License-Identifier: BSD-3-Clause
/*
 * DMA offload with the tests' engine: large copies go there, every byte right at odd offsets, several messages over
 * several channels, and an engine that fails, starves or falls silent costs time and nothing else.
 */
#include "kt.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

#define BIG ((size_t)(5 << 20) + 333)

static int fd;
static bool apart;	    /* the CPUs have no cache in common */
static bool unknown;	    /* nobody says which caches they have */
static bool doubled = true; /* the engine is the tests' own, else a real driver's */

static void set(const char *module, const char *name, unsigned long value)
{
	char path[120];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, name);
	f = fopen(path, "w");
	KT_CHECK(f && fprintf(f, "%lu\n", value) > 0 && fclose(f) == 0);
}

static unsigned long get(const char *module, const char *name)
{
	char path[120];
	unsigned long value;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, name);
	f = fopen(path, "r");
	KT_CHECK(f && fscanf(f, "%lu", &value) == 1 && fclose(f) == 0);
	return value;
}

/* The greatest threshold that was measured, by the module's own list; how many channels there are in it. */
static unsigned measured(unsigned long *threshold)
{
	FILE *f = fopen("/sys/kernel/debug/sennit/dma", "r");
	unsigned long one;
	unsigned n = 0;

	KT_CHECK(f != NULL);
	*threshold = 0;
	while (fscanf(f, "%*s %*s threshold %lu ns_per_block %*u", &one) == 1) {
		n++;
		*threshold = one > *threshold ? one : *threshold;
	}
	fclose(f);
	return n;
}

/* Measured when the module was loaded, before anybody had the device open, and not again by who opens it. */
static void channels_are_found_and_calibrated(void)
{
	struct sennit_info info;
	unsigned long threshold, bytes = 0;
	unsigned n = 0;

	for (int i = 0; i < 1000 && !n; i++) {
		usleep(10000);
		n = measured(&threshold);
	}
	if (doubled)
		bytes = get("dmadouble", "bytes");
	fd = kt_open();
	KT_CHECK(ioctl(fd, SENNIT_IOC_INFO, &info) == 0);
	KT_CHECK(n == info.dma_channels && info.dma_threshold == threshold);
	KT_CHECK(!doubled || (bytes > 0 && get("dmadouble", "bytes") == bytes));
	printf("  %u channels, threshold %lu\n", info.dma_channels, (unsigned long)info.dma_threshold);
	KT_CHECK(doubled ? info.dma_channels == 2 : info.dma_channels > 0);
	KT_CHECK(info.dma_threshold >= 262144 && info.dma_threshold < 1ull << 32);
	set("sennit", "dma_threshold", 65536);
	KT_CHECK(ioctl(fd, SENNIT_IOC_INFO, &info) == 0 && info.dma_threshold == 65536);
}

static void large_copies_are_offloaded(void)
{
	char *from = kt_map(BIG), *to = kt_map(BIG);
	struct kt_region src = kt_declare(fd, from, BIG, SENNIT_READ),
			 dst = kt_declare(fd, to, BIG, SENNIT_WRITE);
	uint64_t bytes = kt_counter(SENNIT_C_DMA_BYTES), copies = kt_counter(SENNIT_C_DMA_COPIES), head;
	unsigned long engine = doubled ? get("dmadouble", "bytes") : 0;

	kt_fill(from, BIG, 1);
	KT_CHECK(kt_copy(fd, kt_id(dst.id, 0), kt_id(src.id, 0), BIG, NULL) == 0);
	KT_CHECK(kt_same(to, BIG, 1));
	KT_CHECK(kt_counter(SENNIT_C_DMA_COPIES) - copies == 1);
	bytes = kt_counter(SENNIT_C_DMA_BYTES) - bytes;
	engine = doubled ? get("dmadouble", "bytes") - engine : bytes;
	head = get("sennit",
		   "dma_head"); /* both ends are here: they share a cache, so the CPU copies the head */
	printf("  %lu of %lu bytes by the engine\n", (unsigned long)bytes, (unsigned long)BIG);
	/* A block here and there may be the CPU's: no descriptor was free, or its memory was just being moved. */
	KT_CHECK(bytes <= BIG - head && bytes > BIG / 2 && engine >= bytes);
	KT_CHECK(kt_counter(SENNIT_C_DMA_ERRORS) == 0);

	/* The caller's own memory, both ways, and a small one that stays with the CPU. */
	memset(to, 0, BIG);
	KT_CHECK(kt_read(fd, src.handle, 0, to, BIG) == 0 && kt_same(to, BIG, 1));
	kt_fill(from, BIG, 2);
	KT_CHECK(kt_write(fd, dst.handle, 0, from, BIG) == 0 && kt_same(to, BIG, 2));
	KT_CHECK(kt_counter(SENNIT_C_DMA_COPIES) - copies == 3);
	KT_CHECK(kt_read(fd, src.handle, 0, to, 65535) == 0);
	KT_CHECK(kt_counter(SENNIT_C_DMA_COPIES) - copies == 3);
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	kt_wait_unpinned(0);
	munmap(from, BIG);
	munmap(to, BIG);
}

static int package_of(int cpu)
{
	char path[100];
	int package;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
	FILE *f = fopen(path, "r");
	KT_CHECK(f && fscanf(f, "%d", &package) == 1 && fclose(f) == 0);
	return package;
}

/* Does the last cache of CPU 0 serve CPU 1, too? Where nobody knows, are they in one package? */
static bool caches_are_shared(void)
{
	char path[100], list[64] = "";
	bool shared = false;

	if (unknown) {
		KT_CHECK(access("/sys/devices/system/cpu/cpu0/cache/index0", F_OK) != 0);
		return package_of(0) == package_of(1);
	}
	for (int i = 0;; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list", i);
		FILE *f = fopen(path, "r");
		if (!f) {
			KT_CHECK(i > 0);
			return shared;
		}
		KT_CHECK(fscanf(f, "%63s", list) == 1 && fclose(f) == 0);
		shared = !strcmp(list, "0-1"); /* of the last one, in the end: they go by level */
	}
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	KT_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* The CPU copies a message's head where the receiver will find it in its cache, and only there. */
static void the_head_is_the_cpus_where_a_cache_is_shared(void)
{
	unsigned long head = get("sennit", "dma_head");
	size_t len = 1 << 20;
	char *from = kt_map(len);
	struct kt_region src = kt_declare(fd, from, len, SENNIT_READ);
	bool shared = caches_are_shared();
	cpu_set_t before;

	printf("  the CPUs %s a cache\n", shared ? "share" : "do not share");
	KT_CHECK(shared != apart);
	KT_CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
	for (int far = 0; far < 2; far++) {
		int up[2], down[2];
		uint64_t handle, bytes, blocks;
		char c = 0;

		KT_CHECK(pipe(up) == 0 && pipe(down) == 0);
		pid_t child = kt_fork();
		if (!child) { /* whose memory it is, and whose cache is to be warm */
			int own = kt_open();

			run_on(0);
			handle = kt_declare(own, kt_map(len), len, SENNIT_WRITE).handle;
			kt_say(up[1], &handle, sizeof(handle));
			kt_hear(down[0], &c, 1);
			_exit(0);
		}
		kt_hear(up[0], &handle, sizeof(handle));
		run_on(far);
		bytes = kt_counter(SENNIT_C_DMA_BYTES);
		blocks = kt_counter(SENNIT_C_DMA_BLOCKS);
		KT_CHECK(kt_copy(fd, kt_handle(handle, 0), kt_id(src.id, 0), len, NULL) == 0);
		bytes = kt_counter(SENNIT_C_DMA_BYTES) - bytes;
		blocks = kt_counter(SENNIT_C_DMA_BLOCKS) - blocks;
		printf("  %s: %lu of %zu bytes by the engine\n",
		       far ? "from the other CPU" : "from the same CPU", (unsigned long)bytes, len);
		/* Blocks that the engine had no descriptor for are the CPU's, whole. */
		KT_CHECK(!far || shared ? bytes <= len - head : bytes > len - head || blocks < 4);
		kt_say(down[1], &c, 1);
		kt_join(child);
		close(up[0]);
		close(up[1]);
		close(down[0]);
		close(down[1]);
	}
	KT_CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
	KT_CHECK(kt_undeclare(fd, src.id) == 0);
	kt_wait_unpinned(0);
	munmap(from, len);
}

/* Random parts at unaligned offsets; all around them stays as it was. */
static void random_parts(int rounds)
{
	char *from = kt_map(BIG), *to = kt_map(BIG);
	struct kt_region src = kt_declare(fd, from, BIG, SENNIT_READ),
			 dst = kt_declare(fd, to, BIG, SENNIT_WRITE);
	uint64_t seed = 9;

	kt_fill(from, BIG, 3);
	for (int i = 0; i < rounds; i++) {
		uint64_t len = 65536 + kt_random(&seed) % 1000000, x = kt_random(&seed) % (BIG - len);
		uint64_t y = kt_random(&seed) % (BIG - len);

		memset(to, 0x55, BIG);
		KT_CHECK(kt_copy(fd, kt_id(dst.id, y), kt_handle(src.handle, x), len, NULL) == 0);
		KT_CHECK(memcmp(to + y, from + x, len) == 0);
		for (uint64_t j = 0; j < y; j++)
			KT_CHECK(to[j] == 0x55);
		for (uint64_t j = y + len; j < BIG; j++)
			KT_CHECK(to[j] == 0x55);
	}
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	kt_wait_unpinned(0);
	munmap(from, BIG);
	munmap(to, BIG);
}

static void odd_offsets_are_right(void)
{
	random_parts(12);
}

static double now(void)
{
	struct timespec t;

	KT_CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void delay(unsigned long us)
{
	if (doubled)
		set("dmadouble", "delay_us", us);
}

/*
 * Who waits sleeps for as long as the channel has shown that a block takes: about one sleep a block, once that is learned.
 * Naps of no particular length would be hundreds, for a block takes some 20 ms here. A machine that gets no time in between
 * may wake before its engine does, so of many copies one is enough.
 */
static void waits_are_as_long_as_blocks_take(void)
{
	size_t len = 2 << 20;
	char *from = kt_map(len), *to = kt_map(len);
	struct kt_region src = kt_declare(fd, from, len, SENNIT_READ),
			 dst = kt_declare(fd, to, len, SENNIT_WRITE);
	uint64_t sleeps, blocks;
	int copies = 0;
	bool good;

	delay(200);
	do {
		uint64_t before = kt_counter(SENNIT_C_DMA_SLEEPS), begun = kt_counter(SENNIT_C_DMA_BLOCKS);

		KT_CHECK(kt_copy(fd, kt_id(dst.id, 0), kt_id(src.id, 0), len, NULL) == 0);
		sleeps = kt_counter(SENNIT_C_DMA_SLEEPS) - before;
		blocks = kt_counter(SENNIT_C_DMA_BLOCKS) - begun;
		good = blocks >= 4 && sleeps >= blocks / 2 && sleeps <= 4 * blocks;
	} while (!good && ++copies < 40);
	delay(0);
	printf("  %lu blocks, %lu sleeps, after %d other copies\n", (unsigned long)blocks,
	       (unsigned long)sleeps, copies);
	KT_CHECK(good);
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	kt_wait_unpinned(0);
	munmap(from, len);
	munmap(to, len);
}

static void messages_spread_over_channels(void)
{
	pid_t children[3];

	delay(100);
	for (int i = 0; i < 3; i++) {
		children[i] = kt_fork();
		if (!children[i]) {
			fd = kt_open();
			random_parts(3);
			_exit(0);
		}
	}
	for (int i = 0; i < 3; i++)
		kt_join(children[i]);
	delay(0);
	KT_CHECK(!doubled || get("dmadouble", "busy_channels") == 3);
	KT_CHECK(!doubled || kt_counter(SENNIT_C_DMA_SLEEPS) > 0); /* emulated engines are done at once */
}

static void failing_parts_are_copied_by_the_cpu(void)
{
	uint64_t errors = kt_counter(SENNIT_C_DMA_ERRORS);

	set("dmadouble", "fail_every", 64); /* about every block's last part comes round */
	random_parts(6);
	set("dmadouble", "fail_every", 1);
	random_parts(1);
	set("dmadouble", "fail_every", 0);
	KT_CHECK(kt_counter(SENNIT_C_DMA_ERRORS) > errors);
}

static void missing_descriptors_are_waited_for(void)
{
	set("dmadouble", "starve_every", 3);
	random_parts(3);
	set("dmadouble", "starve_every", 1); /* never any: the CPU does it */
	random_parts(1);
	set("dmadouble", "starve_every", 0);
}

static void *unmap_soon(void *at)
{
	usleep(3000);
	munmap(at, BIG);
	return NULL;
}

/* The engine goes on into pages that are still held; the copy says EFAULT. */
static void unmapping_under_the_engine_is_an_error(void)
{
	char *to = kt_map(BIG);
	int left = 3;

	delay(200);
	/*
	 * The double takes a quarter of a second, in which who unmaps may get no processor; a real engine, emulated,
	 * is done before.
	 */
	for (int i = 0; left && i < 40; i++) {
		char *from = kt_map(BIG);
		struct kt_region src = kt_declare(fd, from, BIG, SENNIT_READ);
		pthread_t t;
		int rc;

		kt_fill(from, BIG, 4);
		KT_CHECK(pthread_create(&t, NULL, unmap_soon, from) == 0);
		rc = kt_read(fd, src.handle, 0, to, BIG);
		KT_CHECK(rc == 0 || errno == EFAULT);
		left -= rc < 0 || !doubled;
		pthread_join(t, NULL);
		KT_CHECK(kt_undeclare(fd, src.id) == 0);
	}
	KT_CHECK(left == 0);
	delay(0);
	kt_wait_unpinned(0);
	munmap(to, BIG);
}

/* kill -9 in the middle: the call ends soon, and nothing stays pinned. */
static void a_killed_copier_leaves_nothing(void)
{
	delay(500);
	for (int i = 0; i < 3; i++) {
		pid_t child = kt_fork();

		if (!child) {
			fd = kt_open();
			random_parts(100);
			_exit(0);
		}
		usleep(100000 + 50000 * i);
		kill(child, SIGKILL);
		KT_CHECK(waitpid(child, NULL, 0) == child);
	}
	delay(0);
	kt_wait_unpinned(0);
}

/* Two copiers at work when their channels fall silent: both channels are given up, both copies are right. */
static void silent_channels_are_given_up(void)
{
	pid_t child;

	set("sennit", "dma_timeout_ms", 300);
	set("dmadouble", "lose_every", 100);
	child = kt_fork();
	if (!child) {
		fd = kt_open();
		random_parts(3);
		_exit(0);
	}
	random_parts(3);
	kt_join(child);
	set("dmadouble", "lose_every", 0);
	KT_CHECK(kt_counter(SENNIT_C_DMA_TIMEOUTS) == 2);
	random_parts(1); /* without any channel */
	close(fd);
	fd = kt_open(); /* taken anew */
	random_parts(1);
	set("sennit", "dma_timeout_ms", 2000);
}

static void it_can_be_switched_off(void)
{
	uint64_t copies = kt_counter(SENNIT_C_DMA_COPIES);

	set("sennit", "dma", 0);
	random_parts(1);
	KT_CHECK(kt_counter(SENNIT_C_DMA_COPIES) == copies);
	set("sennit", "dma", 1);
}

/*
 * boot.sh stops the whole machine, in the middle of a copy, for longer than a channel may be silent. Nobody could
 * hear it then, so it is not given up, whoever looks first.
 */
static void a_machine_that_stands_still_gives_up_no_channel(void)
{
	char *from = kt_map(BIG), *to = kt_map(BIG);
	struct kt_region src = kt_declare(fd, from, BIG, SENNIT_READ),
			 dst = kt_declare(fd, to, BIG, SENNIT_WRITE);
	uint64_t bytes = kt_counter(SENNIT_C_DMA_BYTES);

	delay(200);
	kt_fill(from, BIG, 8);
	for (int i = 0; i < 6; i++) {
		double took = 0, before = now(); /* to the next look: the stop falls into one of them */

		printf("==== stop\n");
		fflush(stdout);
		while (took < 2) {
			KT_CHECK(kt_copy(fd, kt_id(dst.id, 0), kt_id(src.id, 0), BIG, NULL) == 0);
			double after = now();

			took = after - before;
			before = after;
		}
		KT_CHECK(kt_same(to, BIG, 8));
		printf("  a copy took %.1f s, %lu channels were given up\n", took,
		       (unsigned long)kt_counter(SENNIT_C_DMA_TIMEOUTS));
	}
	delay(0);
	KT_CHECK(kt_counter(SENNIT_C_DMA_TIMEOUTS) == 0);
	KT_CHECK(kt_counter(SENNIT_C_DMA_BYTES) > bytes);
	KT_CHECK(kt_undeclare(fd, src.id) == 0 && kt_undeclare(fd, dst.id) == 0);
	kt_wait_unpinned(0);
	munmap(from, BIG);
	munmap(to, BIG);
}

/* test_dma [real | apart | unknown | unknown-apart | stopped]: with a real driver nothing can be ordered to fail. */
int main(int argc, char **argv)
{
	doubled = argc < 2 || strcmp(argv[1], "real") != 0;
	apart = argc > 1 && strstr(argv[1], "apart");
	unknown = argc > 1 && strstr(argv[1], "unknown");
	KT_RUN(channels_are_found_and_calibrated);
	KT_RUN(large_copies_are_offloaded);
	if (argc > 1 && !strcmp(argv[1], "stopped")) {
		KT_RUN(a_machine_that_stands_still_gives_up_no_channel);
		return 0;
	}
	if (doubled && sysconf(_SC_NPROCESSORS_ONLN) > 1) /* on a PC, whose caches are known */
		KT_RUN(the_head_is_the_cpus_where_a_cache_is_shared);
	KT_RUN(odd_offsets_are_right);
	KT_RUN(messages_spread_over_channels);
	if (doubled) {
		KT_RUN(waits_are_as_long_as_blocks_take);
		KT_RUN(failing_parts_are_copied_by_the_cpu);
		KT_RUN(missing_descriptors_are_waited_for);
	}
	KT_RUN(unmapping_under_the_engine_is_an_error);
	KT_RUN(a_killed_copier_leaves_nothing);
	if (doubled)
		KT_RUN(silent_channels_are_given_up);
	KT_RUN(it_can_be_switched_off);
	kt_wait_unpinned(0);
	return 0;
}

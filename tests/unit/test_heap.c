/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shareable heap: allocations are whole and their own, also across fork, threads, realloc and alignment; peers copy
 * through it; and a fork in the middle of a message spoils nothing. The program runs itself again with the library in
 * front; SENNIT_HEAP_LIB says where that is.
 */
#include "base/conf.h"
#include "base/thp.h"
#include "copy/heap_file.h"
#include "dsa_double.h"
#include "own_heap.h"
#include "two.h"
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define N ((size_t)2 << 20)

struct shared {
	struct meeting meeting;
	_Atomic int step[2];
};

static struct shared *sh;

/* Bytes of heaps, this process's and those of its peers, that can be accessed here; in *all those that are mapped. */
static size_t accessible(size_t *all)
{
	char line[512], access[8];
	unsigned long from, to;
	size_t sum = 0;
	FILE *f = fopen("/proc/self/maps", "re");
	for (*all = 0; f && fgets(line, sizeof(line), f);) {
		if (!strstr(line, SN_HEAP_NAME) || sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3)
			continue;
		*all += to - from;
		sum += access[0] == 'r' ? to - from : 0;
	}
	if (f)
		fclose(f);
	return sum;
}

/* What may be touched without asking is not the machine's whole memory (mlockall(), core files, who looks for leaks). */
static void what_no_block_reaches_has_no_access(void **state)
{
	size_t all, before = accessible(&all), long_one = (size_t)100 << 20;
	uint8_t *p = malloc(long_one);
	assert_true(ours(p, long_one));
	p[0] = p[long_one - 1] = 1;
	size_t with = accessible(&all);
	assert_in_range(with, before + long_one - SN_HEAP_STEP, before + long_one + SN_HEAP_STEP);
	assert_true(all > with);
	uint8_t *longer = realloc(p, 2 * long_one);
	assert_non_null(longer);
	longer[2 * long_one - 1] = 1;
	assert_in_range(accessible(&all), with + long_one - SN_HEAP_STEP, with + long_one + SN_HEAP_STEP);
	free(longer);
}

/* Of many ranks none has an arena as long as the machine's memory, for each of them maps all. */
#define MANY_RANKS "64"

static int as_one_of_many(void *arg)
{
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", MANY_RANKS, 1);
	execl("/proc/self/exe", "test_heap", "one of many", NULL);
	return 1;
}

/* What it has freed may be what others need: it keeps no more than an eighth of its share. */
static bool keeps_little(const struct sn_heap_info *own, size_t share)
{
	enum { BLOCKS = 14 };
	struct stat st;
	void *p[BLOCKS];
	for (int i = 0; i < BLOCKS; i++)
		if ((p[i] = malloc(4 * N)))
			memset(p[i], 1, 4 * N);
	for (int i = 0; i < BLOCKS; i++)
		free(p[i]);
	return !fstat(own->fd, &st) && (size_t)st.st_blocks * 512 <= share / 8 + 4 * N;
}

static int one_of_many(const struct sn_heap_info *own)
{
	size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * 4096, beyond = own->span.bytes + N;
	void *within = malloc(N), *longer = malloc(beyond);
	return own->span.bytes <= memory / 8 && own->span.bytes >= memory / 8 - N && ours(within, N) &&
			       longer && !ours(longer, beyond) && keeps_little(own, memory / 64)
		       ? 0
		       : 1;
}

static void of_many_each_has_its_share(void **state)
{
	assert_int_equal(child(as_one_of_many, NULL), 0);
}

static void large_ones_are_shareable_and_small_ones_not(void **state)
{
	void *small = malloc(1000), *large = malloc(N), *zero = calloc(3, N), *aligned = NULL;
	assert_false(ours(small, 1000));
	assert_true(ours(large, N) && ours(zero, 3 * N));
	for (size_t i = 0; i < 3 * N; i += 511)
		assert_int_equal(((uint8_t *)zero)[i], 0);
	assert_int_equal(posix_memalign(&aligned, 1 << 21, N), 0);
	assert_true(ours(aligned, N) && (uintptr_t)aligned % (1 << 21) == 0);
	assert_true(malloc_usable_size(large) >= N);
	/* copies to and from what begins with a page do not stumble (base/copy.c); and all that is usable is the block's */
	assert_int_equal((uintptr_t)large % 4096, 128);
	assert_int_equal(((uintptr_t)large + malloc_usable_size(large)) % 4096, 0);
	uint8_t *next = malloc(N);
	memset(next, 1, N);
	memset(large, 2, malloc_usable_size(large));
	assert_int_equal(next[0] + next[N - 1], 2);
	free(next);
	for (size_t align = 16; align <= 65536; align *= 2) {
		free(aligned);
		aligned = memalign(align, N);
		assert_int_equal((uintptr_t)aligned % align, 0);
	}
	free(small);
	free(large);
	free(zero);
	free(aligned);
	assert_null(malloc(PTRDIFF_MAX));
	free(NULL);
}

static void realloc_keeps_what_was_there(void **state)
{
	uint64_t seed = unit_seed();
	uint8_t *p = NULL;
	size_t old = 0;
	for (int i = 0; i < 400; i++) {
		size_t n = 1 + unit_random(&seed) % (i % 3 ? 4 * N : 5000);
		uint8_t *moved = realloc(p, n);
		assert_non_null(moved);
		p = moved;
		for (size_t k = 0; k < (old < n ? old : n); k += 97)
			assert_int_equal(p[k], (uint8_t)(k * 3));
		for (size_t k = 0; k < n; k += 1)
			p[k] = (uint8_t)(k * 3);
		old = n;
	}
	free(p);
}

/* Two arrays that grow in turns, each of which stands in the other's way. */
static void what_grows_seldom_moves(void **state)
{
	enum { STEPS = 64 };
	uint8_t *p[2] = {NULL, NULL};
	int moves = 0;
	for (int i = 0; i < STEPS; i++)
		for (int k = 0; k < 2; k++) {
			uint8_t *before = p[k];
			assert_non_null(p[k] = realloc(p[k], (size_t)(i + 1) * N));
			moves += p[k] != before;
			memset(p[k] + (size_t)i * N, i + k, N);
		}
	for (int i = 0; i < STEPS; i++)
		assert_true(p[0][(size_t)i * N] == i && p[1][(size_t)i * N + N - 1] == i + 1);
	assert_true(moves <= 32);
	p[0] = realloc(p[0], N); /* and what has shrunk has made room */
	assert_true(malloc_usable_size(p[0]) <= 2 * N);
	free(p[0]);
	free(p[1]);
}

static int forgets(void *arg)
{
	uint8_t *p = arg;
	if (madvise(p + 4096, N, MADV_DONTNEED) || madvise(p + N + 4096, N - 4096, MADV_FREE))
		return 1;
	for (size_t i = 0; i < 3 * N; i++)
		if (p[i] != (i < 4096 || i >= 2 * N ? 9 : i < N + 4096 ? 0 : p[i]) || (p[i] && p[i] != 9))
			return 2;
	return 0;
}

/* As in memory of malloc's, which is nobody's else: in what was shared, and in what a fork made private. */
static void what_is_not_needed_is_zero(void **state)
{
	uint8_t *p = aligned_alloc(4096, 3 * N);
	assert_non_null(p);
	memset(p, 9, 3 * N);
	assert_int_equal(forgets(p), 0);
	memset(p, 9, 3 * N);
	assert_int_equal(child(forgets, p), 0);
	assert_int_equal(p[5000], 9);
	assert_int_equal(forgets(p), 0);
	free(p);
}

static int lives_within_its_limit(void *arg)
{
	struct rlimit limit = {(rlim_t)2 << 30, (rlim_t)2 << 30};
	void *large = malloc(N);
	if (!large || setrlimit(RLIMIT_AS, &limit))
		return 1;
	for (int i = 0; i < 1000; i++) {
		void *p = malloc(100000);
		if (!p)
			return 2;
		memset(p, 1, 100000);
	}
	free(large);
	return malloc(N) ? 0 : 3;
}

/* What the arena has taken of the address space is not what the program has. */
static void a_program_limits_itself(void **state)
{
	assert_int_equal(child(lives_within_its_limit, NULL), 0);
}

/* Bytes of memory that the arena has. */
static size_t memory(void)
{
	struct sn_heap_info own;
	struct stat st;
	assert_true(sn_heap_own(&own) && !fstat(own.fd, &st));
	return (size_t)st.st_blocks * 512;
}

/* Memory is made where it is touched, but for ranks, whose number is known, in parts of 2 MiB. */
static void who_is_no_rank_has_small_pages(void **state)
{
	enum { PARTS = 32 };
	size_t before = memory();
	uint8_t *p = malloc(PARTS * N);
	assert_non_null(p);
	for (int i = 0; i < PARTS; i++)
		p[(size_t)i * N] = 1;
	size_t more = memory() - before;
	free(p);
	bool small = !getenv("OMPI_COMM_WORLD_SIZE") && !sn_thp_shared();
	assert_true(more <= PARTS * (small ? 2 * (size_t)4096 : N));
}

/* Of much that is in use a part is kept for what comes next; of nothing, no more than 128 MiB. */
static void what_is_freed_goes_back(void **state)
{
	enum { BLOCKS = 40 };
	size_t block = 8 * N, before = memory();
	uint8_t *p[BLOCKS];
	for (int i = 0; i < BLOCKS; i++) {
		assert_non_null(p[i] = malloc(block));
		memset(p[i], i, block);
	}
	assert_true(memory() >= before + BLOCKS * block - ((size_t)128 << 20)); /* some had it from before */
	for (int i = 0; i < BLOCKS; i += 8) {
		free(p[i]);
		assert_non_null(p[i] = malloc(block));
		memset(p[i], i, block);
	}
	for (int i = 0; i < BLOCKS; i++) {
		assert_int_equal(p[i][block - 1], i);
		free(p[i]);
	}
	assert_true(memory() <= before + ((size_t)130 << 20));
}

/* What was freed and comes back from calloc is zero. */
static void calloc_is_zero_the_second_time(void **state)
{
	for (int i = 0; i < 50; i++) {
		uint8_t *p = calloc(1, N + (size_t)i * 70000);
		for (size_t k = 0; k < N; k += 4096)
			assert_int_equal(p[k], 0);
		memset(p, 0xff, N);
		free(p);
	}
}

static void *churn(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg;
	uint8_t *at[16] = {0};
	size_t len[16] = {0};
	for (int i = 0; i < 3000; i++) {
		unsigned k = (unsigned)unit_random(&seed) % 16;
		if (at[k] && (at[k][0] != (uint8_t)k || at[k][len[k] - 1] != (uint8_t)k))
			return arg;
		free(at[k]);
		len[k] = 200000 + unit_random(&seed) % 800000;
		at[k] = malloc(len[k]);
		at[k][0] = at[k][len[k] - 1] = (uint8_t)k;
	}
	for (int k = 0; k < 16; k++)
		free(at[k]);
	return NULL;
}

static void threads_do_not_meet(void **state)
{
	pthread_t t[4];
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++) {
		void *bad;
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
}

static int change(void *arg)
{
	uint8_t *p = arg;
	for (size_t i = 0; i < N; i++)
		if (p[i] != 1)
			return 1;
	memset(p, 2, N / 2);
	usleep(20000); /* the parent writes meanwhile */
	for (size_t i = 0; i < N; i++)
		if (p[i] != (i < N / 2 ? 2 : 1))
			return 2;
	uint8_t *fresh = malloc(N / 2); /* a rank's child may have no longer ones (heap.c, file_make) */
	if (!ours(fresh, N / 2))
		return 3;
	memset(fresh, 5, N / 2);
	p = realloc(p, 2 * N);
	if (p[0] != 2 || p[N - 1] != 1)
		return 4;
	free(p);
	free(fresh);
	return 0;
}

/* Neither sees what the other writes after the fork; what was before is there in both. */
static void a_fork_copies(void **state)
{
	for (int round = 0; round < 12; round++) { /* more often than there are generations */
		uint8_t *p = malloc(N), *other = malloc(N);
		int status;
		memset(p, 1, N);
		memset(other, 7, N);
		fflush(NULL);
		pid_t pid = fork();
		if (!pid)
			_exit(change(p));
		memset(p + N / 2, 9, N / 2);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		for (size_t i = 0; i < N; i += 63)
			assert_int_equal(p[i], i < N / 2 ? 1 : 9);
		assert_int_equal(other[N - 1], 7);
		assert_false(ours(p, N)); /* peers would see what was before */
		free(p);
		free(other);
	}
}

static int grandchild(void *arg)
{
	uint8_t *p = arg;
	return p[5] == 3 ? 0 : 1;
}

static int and_again(void *arg)
{
	uint8_t *p = arg;
	p[5] = 3;
	return child(grandchild, p) || p[5] != 3;
}

static void a_fork_of_a_fork(void **state)
{
	uint8_t *p = calloc(1, N);
	assert_int_equal(child(and_again, p), 0);
	assert_int_equal(p[5], 0);
	free(p);
}

/* Behind what it has inherited lies what is its own: the C library's blocks, and what it maps. */
static int maps_and_frees(void *arg)
{
	enum { BLOCKS = 40, LEN = 200000 };
	char *mapped[BLOCKS], *blocks[BLOCKS];
	for (int i = 0; i < BLOCKS; i++) {
		mapped[i] = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		blocks[i] = malloc(LEN);
		if (mapped[i] == MAP_FAILED || !blocks[i])
			return 1;
		memset(mapped[i], 1, LEN);
		memset(blocks[i], 2, LEN);
	}
	free(arg); /* the last of its generation */
	for (int i = 0; i < BLOCKS; i++) {
		memset(mapped[i], 3, LEN);
		free(blocks[i]);
	}
	return 0;
}

static void a_child_keeps_what_is_its_own(void **state)
{
	void *p = malloc(N);
	memset(p, 1, N);
	assert_int_equal(child(maps_and_frees, p), 0);
	free(p);
}

static void a_program_is_started(void **state)
{
	uint8_t *p = malloc(N);
	char *argv[] = {"true", NULL};
	pid_t pid;
	int status;
	memset(p, 1, N);
	assert_int_equal(posix_spawnp(&pid, "true", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(system("true"), 0); /* NOLINT(cert-env33-c) */
	free(p);
}

/* ---- messages ------------------------------------------------------------------------------------------------- */

static void meet(void)
{
	static int n;
	sh->step[me] = ++n;
	while (sh->step[!me] < n)
		sn_progress(ep);
}

static int ends(void *arg)
{
	return 0;
}

/* Process 1 sends to process 0, the receive first or not; `forks`: 0 nobody, 1 the receiver, 2 the sender, while it waits. */
static void one(size_t n, bool receive_first, int forks, uint8_t seed)
{
	uint8_t *buf = malloc(n > 300000 ? n : 300000); /* a smaller one would not be shareable */
	sn_req *req;
	sn_completion c;
	memset(buf, me ? seed : 0, n);
	if (me == 1)
		for (size_t i = 0; i < n; i += 4096)
			buf[i] = (uint8_t)(i >> 12);
	if (receive_first != (me == 0))
		meet();
	CHECK((me ? sn_isend(ep, peer, buf, n, 5, &req) : sn_irecv(ep, peer, buf, n, 5, UINT64_MAX, &req)) ==
	      0);
	if (forks == me + 1) {
		int status;
		pid_t pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, &status, 0);
		if (me == 0)
			buf[1] = seed; /* a page of its own now, as any program may have it */
	}
	if (receive_first == (me == 0))
		meet();
	CHECK(sn_wait(ep, req, &c, 40000000) == 0 && c.status == 0 && c.len == n);
	for (size_t i = 0; i < n && me == 0; i++)
		CHECK(buf[i] == (i % 4096 ? seed : (uint8_t)(i >> 12)));
	meet();
	free(buf);
}

/* Every third one is written by its sender alone. */
static size_t size_of(int i)
{
	return i % 3 ? 300000 + (size_t)i * 77777 : 20000 + (size_t)i * 1200;
}

static void through_the_heap(void)
{
	meet_other(&sh->meeting, 150);
	for (int i = 0; i < 40; i++)
		one(size_of(i), i & 1, 0, (uint8_t)(i + 1));
	CHECK(counter("local.copy_mapped_bytes") > 0 || counter("local.copy_shared_bytes") == 0);
	sh->meeting.ready += counter("local.copy_mapped_bytes") > 0;
	meet();
	CHECK(sh->meeting.ready > 2);
	size_t all;
	CHECK(accessible(&all) < (size_t)200 << 20 &&
	      all > (size_t)400 << 20); /* a peer's arena is reached likewise */
}

/* Each process has an engine of its own, which reaches its memory: the heap that the other shares is a part of that. */
static void by_the_engine(void)
{
	struct dsa_double *d = dsa_double_start();
	setenv("SENNIT_DSA", d->dir, 1);
	sn_conf_reload();
	meet_other(&sh->meeting, 150);
	for (int i = 0; i < 60; i++) {
		d->how = i % 20 < 15 ? DSA_WELL : DSA_PARTLY;
		one(400000 + (size_t)i * 7777, false, 0,
		    (uint8_t)(i + 1)); /* the sender first: the receiver copies */
	}
	CHECK(me || counter("local.copy_engine_bytes") > 1000000);
	meet();
	dsa_double_stop(d);
}

static void forks_meanwhile(void)
{
	meet_other(&sh->meeting, 150);
	for (int i = 0; i < 24; i++)
		one(size_of(i), i & 1, i >> 1 & 3, (uint8_t)(i + 1));
	CHECK(child(ends, NULL) == 0);
}

/* The receiver forks; its sender, who does not know, writes the whole message by way of the heap of before. */
static void a_fork_before_a_short_one(void)
{
	meet_other(&sh->meeting, 150);
	one(20000, true, 0, 3);
	one(23600, true, 1, 7);
	CHECK(me == 0 || counter("local.copy_mapped_bytes") >= 23600);
}

static void run(void (*scene)(void))
{
	sh = shared_new(sizeof(*sh));
	run_both(scene);
	munmap(sh, sizeof(*sh));
}

static void messages_go_through_the_heap(void **state)
{
	run(through_the_heap);
}

static void messages_go_by_the_engine_too(void **state)
{
	run(by_the_engine);
}

static void a_fork_in_the_middle_spoils_nothing(void **state)
{
	run(forks_meanwhile);
	run(a_fork_before_a_short_one);
}

/* Where all other memory gets huge pages and the arena none. */
static void only_blocks_that_no_huge_page_fits_are_shareable(void **state)
{
	uint8_t *p = malloc(N / 2);
	assert_true(ours(p, N / 2));
	for (size_t i = 0; i < N / 2; i++)
		p[i] = (uint8_t)(i * 7);
	for (size_t n = N / 2; n <= 8 * N; n *= 2) { /* out of the arena, and on by malloc */
		uint8_t *moved = realloc(p, n);
		assert_non_null(moved);
		p = moved;
		assert_int_equal(ours(p, n), n < N);
		for (size_t i = 0; i < N / 2; i++)
			assert_int_equal(p[i], (uint8_t)(i * 7));
	}
	free(p);
}

int main(int argc, char **argv)
{
	struct sn_heap_info own;
	if (!unit_preloaded("SENNIT_HEAP_LIB", argv)) /* a sanitizer has its own malloc */
		return 77;
	if (!sn_heap_own(&own)) {
		fprintf(stderr, "the heap leaves itself out here: huge pages always, limited address space, "
				"or no overcommit\n");
		return 77;
	}
	if (argc > 1)
		return one_of_many(&own);
	void *two_mib = malloc(N);
	bool limited = !ours(two_mib, N);
	free(two_mib);
	const struct CMUnitTest few[] = {
		cmocka_unit_test(only_blocks_that_no_huge_page_fits_are_shareable),
		cmocka_unit_test(calloc_is_zero_the_second_time),
		cmocka_unit_test(threads_do_not_meet),
		cmocka_unit_test(a_fork_of_a_fork),
		cmocka_unit_test(a_program_is_started),
	};
	if (limited)
		return cmocka_run_group_tests(few, NULL, NULL);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_many_each_has_its_share),
		cmocka_unit_test(large_ones_are_shareable_and_small_ones_not),
		cmocka_unit_test(realloc_keeps_what_was_there),
		cmocka_unit_test(what_grows_seldom_moves),
		cmocka_unit_test(what_is_not_needed_is_zero),
		cmocka_unit_test(a_program_limits_itself),
		cmocka_unit_test(who_is_no_rank_has_small_pages),
		cmocka_unit_test(what_is_freed_goes_back),
		cmocka_unit_test(calloc_is_zero_the_second_time),
		cmocka_unit_test(threads_do_not_meet),
		cmocka_unit_test(messages_go_through_the_heap),
		cmocka_unit_test(messages_go_by_the_engine_too),
		cmocka_unit_test(a_fork_in_the_middle_spoils_nothing),
		cmocka_unit_test(a_program_is_started),
		cmocka_unit_test(a_fork_of_a_fork),
		cmocka_unit_test(a_child_keeps_what_is_its_own),
		cmocka_unit_test(what_no_block_reaches_has_no_access),
		cmocka_unit_test(a_fork_copies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

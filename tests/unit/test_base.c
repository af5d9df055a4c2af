/* SPDX-License-Identifier: BSD-3-Clause */
/* The small things: segment copies against a flat buffer, the lock under threads, log, errors, topology. */
#include "base/base.h"
#include "base/launched.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include "unit.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

/* ---- segments ---- */

#define FLAT 4096
#define SEGS 12

struct scattered {
	char store[FLAT + SEGS * 16];
	struct iovec iov[SEGS];
	uint64_t len;
};

/* Segments of random lengths (some empty) with guard bytes between them. */
static void scatter(struct scattered *s, uint64_t *rng)
{
	size_t at = 8;
	memset(s->store, 0x5a, sizeof s->store);
	s->len = 0;
	for (int i = 0; i < SEGS; i++) {
		size_t n = unit_random(rng) % 4 ? unit_random(rng) % (FLAT / SEGS) : 0;
		s->iov[i] = (struct iovec){s->store + at, n};
		at += n + 8;
		s->len += n;
	}
}

static void assert_guards(const struct scattered *s)
{
	for (int i = 0; i < SEGS; i++) {
		const char *end = (const char *)s->iov[i].iov_base + s->iov[i].iov_len;
		for (int g = 0; g < 8; g++)
			assert_int_equal(end[g], 0x5a);
	}
}

static void segments_read_and_write_like_one_flat_buffer(void **state)
{
	uint64_t rng = unit_seed();
	for (int round = 0; round < 3000; round++) {
		struct scattered s;
		char flat[FLAT], got[FLAT], part[FLAT];
		scatter(&s, &rng);
		for (size_t i = 0; i < sizeof flat; i++)
			flat[i] = (char)(unit_random(&rng) | 0x80); /* never the guard */
		assert_int_equal(sn_iov_len(s.iov, SEGS), s.len);
		sn_iov_write(s.iov, SEGS, 0, flat, s.len);
		uint64_t offset = unit_random(&rng) % (s.len + 1),
			 len = unit_random(&rng) % (s.len - offset + 1);
		memset(part, 0x01, sizeof part);
		sn_iov_write(s.iov, SEGS, offset, part, len);
		memset(flat + offset, 0x01, len);
		sn_iov_read(got, s.iov, SEGS, 0, s.len);
		assert_memory_equal(got, flat, s.len);
		sn_iov_read(got, s.iov, SEGS, offset / 2, len);
		assert_memory_equal(got, flat + offset / 2, len);
		assert_guards(&s);
	}
}

static void slices_cover_the_range_in_order_and_stop_at_the_limit(void **state)
{
	uint64_t rng = unit_seed();
	for (int round = 0; round < 3000; round++) {
		struct scattered s;
		struct iovec out[SEGS];
		char flat[FLAT], got[FLAT];
		scatter(&s, &rng);
		for (size_t i = 0; i < s.len; i++)
			flat[i] = (char)unit_random(&rng);
		sn_iov_write(s.iov, SEGS, 0, flat, s.len);
		uint64_t offset = unit_random(&rng) % (s.len + 1),
			 len = unit_random(&rng) % (s.len - offset + 1);
		uint32_t max = 1 + (uint32_t)(unit_random(&rng) % SEGS);
		uint64_t done = 0, covered;
		while (done < len) {
			uint32_t n = sn_iov_slice(s.iov, SEGS, offset + done, len - done, out, max, &covered);
			assert_in_range(n, 1, max);
			assert_int_equal(sn_iov_len(out, n), covered);
			sn_iov_read(got, out, n, 0, covered);
			assert_memory_equal(got, flat + offset + done, covered);
			if (n < max)
				assert_int_equal(covered, len - done);
			done += covered;
		}
		assert_int_equal(done, len);
	}
}

static void a_slice_of_nothing_is_empty(void **state)
{
	struct iovec one = {(void *)"abc", 3}, out[2];
	uint64_t covered = 99;
	assert_int_equal(sn_iov_slice(&one, 1, 3, 0, out, 2, &covered), 0);
	assert_int_equal(covered, 0);
	assert_int_equal(sn_iov_slice(NULL, 0, 0, 0, out, 2, &covered), 0);
	assert_int_equal(sn_iov_slice(&one, 1, 0, 3, out, 0, &covered), 0);
}

static void a_sum_of_lengths_that_overflows_is_reported(void **state)
{
	struct iovec iov[3] = {{NULL, SIZE_MAX - 5}, {NULL, 5}, {NULL, 1}};
	assert_true(sn_iov_len(iov, 2) == UINT64_MAX); /* the largest sum is refused with the overflows */
	assert_true(sn_iov_len(iov, 3) == UINT64_MAX);
	assert_int_equal(sn_iov_len(iov, 0), 0);
}

static void copy_as(unsigned how, void *to, const void *from, size_t n)
{
	switch (how) {
	case 0: sn_copy_between(to, from, n); break;
	case 1: sn_copy_away(to, from, n); break;
	default: sn_copy_home(to, from, n, how == 3); break;
	}
}

/* Of some lengths by other instructions; some places go back to the C library's. */
static void a_copy_is_exact_wherever_it_lies(void **state)
{
	static const size_t lengths[] = {SN_COPY_LONG / 2 + 33, SN_COPY_LONG - 1, SN_COPY_LONG,
					 SN_COPY_LONG + 1,	2 * SN_COPY_LONG, 2 * SN_COPY_LONG + 1,
					 3 * SN_COPY_LONG + 17};
	static char from[4 * SN_COPY_LONG] __attribute__((aligned(4096)));
	static char to[5 * SN_COPY_LONG] __attribute__((aligned(4096))), zero[SN_COPY_LONG];
	bool trips = false;
	uint64_t rng = unit_seed();
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (char)unit_random(&rng);
	for (unsigned k = 0; k < sizeof lengths / sizeof *lengths; k++) {
		for (size_t at = 0; at < 140; at++) {
			size_t n = lengths[k], in = at % 3 * 31;
			trips |= sn_copy_trips(to + at, from + in);
			for (unsigned how = 0; how < 4; how++) {
				memset(to, 0, sizeof to);
				copy_as(how, to + at, from + in, n);
				assert_memory_equal(to, zero, at);
				assert_memory_equal(to + at, from + in, n);
				assert_memory_equal(to + at + n, zero, 256);
			}
		}
	}
	assert_true(trips);
	assert_false(sn_copy_trips(to + 40, from + 40) || sn_copy_trips(to + 72, from + 40) ||
		     sn_copy_trips(to + 39, from + 40));
	assert_true(sn_copy_trips(to + 41, from + 40) && sn_copy_trips(to + 7, from + 4096 * 2 - 8));
	assert_true(sn_copy_trips(to + 71, from + 40));
	assert_in_range(sn_copy_stumbles(1), 1, 1000);
	assert_in_range(sn_copy_stumbles(16), 1, 1000);
}

/* ---- what launchers say ---- */

static void ranks_of_srun_on_one_node_are_all_here(void **state)
{
	static const char *const said[] = {"SLURM_STEP_NUM_NODES",
					   "1",
					   "SLURM_STEP_NUM_TASKS",
					   "5",
					   "SLURM_NTASKS",
					   "8",
					   "SLURM_LOCALID",
					   "3",
					   "OMPI_COMM_WORLD_SIZE",
					   NULL,
					   "PMI_SIZE",
					   NULL,
					   "OMPI_COMM_WORLD_LOCAL_RANK",
					   NULL,
					   "MPI_LOCALRANKID",
					   NULL,
					   "OMPI_COMM_WORLD_LOCAL_SIZE",
					   NULL,
					   "MPI_LOCALNRANKS",
					   NULL};
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i += 2)
		assert_int_equal(said[i + 1] ? setenv(said[i], said[i + 1], 1) : unsetenv(said[i]), 0);
	struct sn_launched job = sn_launched();
	assert_true(job.rank == 3 && job.here == 5 && job.all == 5 && !job.hydra);
	setenv("SLURM_STEP_NUM_NODES", "2", 1);
	job = sn_launched();
	assert_true(job.rank == 3 && job.here == 0 && job.all == 8);
	setenv("SLURM_STEP_NUM_NODES", "1", 1);
	setenv("SLURM_STEP_NUM_TASKS", "1", 1); /* a shell of srun's */
	job = sn_launched();
	assert_true(job.here == 0 && job.all == 8);
	/* a launcher of an MPI, whose helpers on other nodes are srun's step */
	setenv("SLURM_STEP_NUM_NODES", "1", 1);
	setenv("MPI_LOCALRANKID", "1", 1);
	setenv("MPI_LOCALNRANKS", "2", 1);
	setenv("PMI_SIZE", "4", 1);
	job = sn_launched();
	assert_true(job.rank == 1 && job.here == 2 && job.all == 4 && job.hydra);
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i += 2)
		unsetenv(said[i]);
}

static void a_rank_is_known_by_its_launcher(void **state)
{
	static const char *const said[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

	for (int i = 0; i < 3; i++)
		unsetenv(said[i]);
	setenv("SLURM_PROCID", "4", 1); /* of a shell, too */
	assert_int_equal(sn_launched_rank(), -1);
	unsetenv("SLURM_PROCID");
	setenv("PMI_RANK", "none", 1);
	assert_int_equal(sn_launched_rank(), -1);
	for (int i = 2; i >= 0; i--) {
		char text[12];
		snprintf(text, sizeof(text), "%d", 10 * i);
		setenv(said[i], text, 1);
		assert_int_equal(sn_launched_rank(), 10 * i);
	}
	for (int i = 0; i < 3; i++)
		unsetenv(said[i]);
}

/* ---- lists ---- */

static void a_list_survives_removal_while_walking(void **state)
{
	struct sn_list head, n[5];
	sn_list_init(&head);
	assert_true(sn_list_empty(&head));
	for (int i = 0; i < 5; i++)
		sn_list_add_tail(&head, &n[i]);
	int seen = 0;
	sn_list_for_each_safe (at, &head) {
		assert_ptr_equal(at, &n[seen]);
		seen++;
		if (seen % 2)
			sn_list_del(at);
	}
	assert_int_equal(seen, 5);
	assert_ptr_equal(head.next, &n[1]);
	assert_ptr_equal(head.prev, &n[3]);
}

/* ---- the lock ---- */

#define LOCK_THREADS 6
#define LOCK_ROUNDS  20000

static struct sn_lock lock;
static uint64_t
	guarded[2]; /* plain memory: a lost exclusion loses counts, and the thread sanitizer sees it */

static void *count_under_lock(void *arg)
{
	for (int i = 0; i < LOCK_ROUNDS; i++) {
		sn_lock(&lock);
		guarded[0]++;
		if (i % 512 == 0)
			sched_yield(); /* hold it long enough that others go to sleep */
		guarded[1]++;
		sn_unlock(&lock);
	}
	return NULL;
}

static void the_lock_excludes_and_wakes_everybody(void **state)
{
	pthread_t threads[LOCK_THREADS];
	lock = (struct sn_lock){.enabled = true};
	for (int i = 0; i < LOCK_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_under_lock, NULL), 0);
	for (int i = 0; i < LOCK_THREADS; i++)
		pthread_join(threads[i], NULL); /* a lost wake-up would hang here, and ctest would end it */
	assert_int_equal(guarded[0], LOCK_THREADS * LOCK_ROUNDS);
	assert_int_equal(guarded[1], LOCK_THREADS * LOCK_ROUNDS);
	assert_int_equal(atomic_load(&lock.word), 0);
}

static void a_lock_that_is_not_enabled_does_nothing(void **state)
{
	struct sn_lock off = {.enabled = false};
	sn_lock(&off);
	sn_lock(&off);
	assert_int_equal(atomic_load(&off.word), 0);
	sn_unlock(&off);
}

/* ---- time, random ---- */

static void time_does_not_go_back(void **state)
{
	uint64_t last = sn_now_ns();
	for (int i = 0; i < 10000; i++) {
		uint64_t now = sn_now_ns();
		assert_true(now >= last);
		last = now;
	}
}

static void random_bytes_fill_the_whole_buffer(void **state)
{
	unsigned char buf[1026] = {0}, seen[1024] = {0};
	for (int round = 0; round < 8; round++) {
		sn_random(buf + 1, 1024);
		for (int i = 0; i < 1024; i++)
			seen[i] |= buf[1 + i];
	}
	assert_int_equal(buf[0], 0);
	assert_int_equal(buf[1025], 0);
	for (int i = 0; i < 1024; i++) /* a byte that stays 0 eight times: 1 in 2^64 */
		assert_int_not_equal(seen[i], 0);
}

/* ---- log and errors ---- */

static FILE *capture;
static int saved_stderr;

static void capture_stderr(void)
{
	capture = tmpfile();
	assert_non_null(capture);
	saved_stderr = dup(STDERR_FILENO);
	dup2(fileno(capture), STDERR_FILENO);
}

static size_t captured(char *text, size_t room)
{
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	rewind(capture);
	size_t n = fread(text, 1, room - 1, capture);
	text[n] = '\0';
	fclose(capture);
	return n;
}

static void a_place_that_logs_too_much_is_held_back(void **state)
{
	static char text[65536];
	uint64_t start = sn_now_ns();
	unsigned lines = 0;
	sn_log_level = SN_LOG_WARN;
	capture_stderr();
	for (int i = 0; i < 5000; i++)
		sn_warn("line %d", i);
	sn_warn("another place still speaks");
	sn_info("not at this level");
	captured(text, sizeof text);
	uint64_t seconds =
		(sn_now_ns() - start) / 1000000000u + 2; /* how many seconds the loop can have touched */
	for (char *at = text; (at = strstr(at, "line ")); at++)
		lines++;
	assert_in_range(lines, 20, 20 * seconds);
	assert_non_null(strstr(text, "warn: line 0\n"));
	assert_non_null(strstr(text, "another place still speaks\n"));
	assert_null(strstr(text, "not at this level"));
}

static void a_line_that_is_too_long_is_cut_but_ends(void **state)
{
	static char text[8192], longer[4000];
	memset(longer, 'y', sizeof longer - 1);
	capture_stderr();
	sn_warn("%s", longer);
	size_t n = captured(text, sizeof text);
	assert_in_range(n, 500, 1024);
	assert_int_equal(text[n - 1], '\n');
}

static void *fail_in_a_thread(void *arg)
{
	assert_string_equal(sn_last_error(), "");
	sn_fail(SN_ERR_NOMEM, "the thread's own");
	return NULL;
}

static void the_last_error_is_kept_per_thread(void **state)
{
	pthread_t t;
	assert_int_equal(sn_fail(SN_ERR_PERM, "memfd_create: %s", "no"), SN_ERR_PERM);
	assert_int_equal(pthread_create(&t, NULL, fail_in_a_thread, NULL), 0);
	pthread_join(t, NULL);
	assert_string_equal(sn_last_error(), "memfd_create: no");
}

static void every_error_code_has_a_sentence_of_its_own(void **state)
{
	for (int a = SN_OK; a >= SN_ERR_FORKED; a--) {
		assert_string_not_equal(sn_strerror(a), "unknown error");
		for (int b = SN_OK; b > a; b--)
			assert_string_not_equal(sn_strerror(a), sn_strerror(b));
	}
	assert_string_equal(sn_strerror(1), "unknown error");
	assert_string_equal(sn_strerror(SN_ERR_FORKED - 1), "unknown error");
}

static void the_version_is_that_of_the_header(void **state)
{
	char text[32];
	snprintf(text, sizeof text, "%d.%d.%d", SN_VERSION_MAJOR, SN_VERSION_MINOR, SN_VERSION_PATCH);
	assert_string_equal(sn_version(), text);
}

/* ---- topology ---- */

static void the_topology_is_plausible(void **state)
{
	const struct sn_topo *t = sn_topo();
	assert_in_range(t->cpus, 1, 65536);
	assert_in_range(t->allowed, 1, t->cpus);
	assert_true(t->host_id != 0);
	assert_true(t->cpu_model[0] != '\0');
	assert_true(!t->l2_size || t->l2_size >= 65536);
	assert_true(!t->llc_size || t->llc_size >= t->l2_size);
	assert_ptr_equal(sn_topo(), t);
}

static void allowed_processors_follow_the_affinity(void **state)
{
	cpu_set_t before, one;
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(sn_topo_cpus_allowed(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
	assert_in_range(sn_topo_cpus_allowed(), 1, CPU_COUNT(&before));
}

/* In a child of its own, after `enter`: the host id it sees. */
static uint64_t host_id_of_child(int (*enter)(void))
{
	int pipes[2];
	uint64_t id = 0;
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (enter && enter())
			_exit(77);
		id = sn_topo()->host_id;
		_exit(write(pipes[1], &id, sizeof id) == sizeof id ? 0 : 1);
	}
	int status;
	close(pipes[1]);
	if (read(pipes[0], &id, sizeof id) != sizeof id)
		id = 0;
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return id;
}

static int enter_new_network(void)
{
	return unshare(CLONE_NEWUSER | CLONE_NEWNET);
}

/* Runs first, before this process has read its own topology, so that each child reads afresh. */
static void processes_share_a_host_id_within_one_network_namespace(void **state)
{
	uint64_t mine = host_id_of_child(NULL);
	assert_true(mine != 0);
	assert_true(host_id_of_child(NULL) == mine);
	uint64_t other = host_id_of_child(enter_new_network);
	assert_true(sn_topo()->host_id == mine);
	if (!other) {
		print_message("a new network namespace is not permitted here\n");
		skip();
	}
	assert_true(other != mine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_share_a_host_id_within_one_network_namespace),
		cmocka_unit_test(segments_read_and_write_like_one_flat_buffer),
		cmocka_unit_test(slices_cover_the_range_in_order_and_stop_at_the_limit),
		cmocka_unit_test(a_slice_of_nothing_is_empty),
		cmocka_unit_test(a_copy_is_exact_wherever_it_lies),
		cmocka_unit_test(a_sum_of_lengths_that_overflows_is_reported),
		cmocka_unit_test(a_list_survives_removal_while_walking),
		cmocka_unit_test(the_lock_excludes_and_wakes_everybody),
		cmocka_unit_test(a_lock_that_is_not_enabled_does_nothing),
		cmocka_unit_test(time_does_not_go_back),
		cmocka_unit_test(random_bytes_fill_the_whole_buffer),
		cmocka_unit_test(a_place_that_logs_too_much_is_held_back),
		cmocka_unit_test(a_line_that_is_too_long_is_cut_but_ends),
		cmocka_unit_test(the_last_error_is_kept_per_thread),
		cmocka_unit_test(every_error_code_has_a_sentence_of_its_own),
		cmocka_unit_test(ranks_of_srun_on_one_node_are_all_here),
		cmocka_unit_test(a_rank_is_known_by_its_launcher),
		cmocka_unit_test(the_version_is_that_of_the_header),
		cmocka_unit_test(the_topology_is_plausible),
		cmocka_unit_test(allowed_processors_follow_the_affinity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

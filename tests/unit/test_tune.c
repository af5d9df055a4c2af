/* SPDX-License-Identifier: BSD-3-Clause */
/* Measured thresholds: kept by class, found again, weaker than what a person set, and never nonsense. */
#include "base/conf.h"
#include "copy/tune.h"
#include "sennit/sennit.h"
#include "unit.h"
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char home[] = "/tmp/sennit-test-tune-XXXXXX";

static void path_of(enum sn_tune_class class, char *path, size_t room)
{
	assert_true(sn_tune_path(class, path, room));
	assert_memory_equal(path, home, strlen(home));
}

static int start(void **state)
{
	unsetenv("SENNIT_TUNE");
	unsetenv("SENNIT_EAGER");
	unsetenv("SENNIT_CHUNK");
	return mkdtemp(home) && !setenv("XDG_CACHE_HOME", home, 1) && !setenv("XDG_CONFIG_HOME", home, 1)
		       ? 0
		       : -1;
}

static int clean(void **state)
{
	char path[512];
	for (int class = 0; class < SN_TUNE_CLASSES; class ++)
		if (sn_tune_path((enum sn_tune_class) class, path, sizeof(path)))
			unlink(path);
	snprintf(path, sizeof(path), "%s/sennit", home);
	rmdir(path);
	return 0;
}

static int finish(void **state)
{
	return rmdir(home);
}

/* What is read is read once in a process, so each look is a child's. The child says what went wrong by its status. */
static int in_child(int (*look)(void))
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		sn_conf_reload();
		_exit(look());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct sn_tune example = {
	.line_ns = 123,
	.eager = 8192,
	.chunk = 4096,
	.single_copy = SN_TUNE_NEVER,
	.nontemporal = 1 << 20,
	.ns = {[SN_TUNE_KERNEL] = {[3] = 777}, [SN_TUNE_RING] = {[0] = 5}},
	.chunk_ns = {[4] = 99},
};

static int nothing_is_known(void)
{
	sn_tune_apply();
	const struct sn_tune *far = sn_tune_of(SN_TUNE_FAR);
	return sn_tune_known()					? 1
	       : far->measured					? 2
	       : sn_conf_origin(SN_CONF_EAGER, NULL)		? 3
	       : far->eager != sn_conf_desc(SN_CONF_EAGER)->def ? 4
								: 0;
}

static int all_of_it_came_back(void)
{
	const struct sn_tune *far = sn_tune_of(SN_TUNE_FAR), *near = sn_tune_of(SN_TUNE_NEAR);
	sn_tune_apply();
	if (!sn_tune_far())
		return 4;
	if (!far->measured || near->measured || far->line_ns != 123 || far->eager != 8192 ||
	    far->chunk != 4096 || far->single_copy != SN_TUNE_NEVER || far->nontemporal != 1 << 20)
		return 1;
	if (memcmp(far->ns, example.ns, sizeof(far->ns)) ||
	    memcmp(far->chunk_ns, example.chunk_ns, sizeof(far->chunk_ns)))
		return 2;
	if (sn_conf_num(SN_CONF_CHUNK) != 4096 || sn_conf_num(SN_CONF_SINGLE_COPY) != SN_TUNE_NEVER ||
	    sn_conf_num(SN_CONF_NONTEMPORAL) != 1 << 20 ||
	    sn_conf_origin(SN_CONF_SINGLE_COPY, NULL) != SN_ORIGIN_MEASURED ||
	    sn_conf_origin(SN_CONF_NONTEMPORAL, NULL) != SN_ORIGIN_MEASURED)
		return 3;
	return 0;
}

static int a_person_has_the_last_word(void)
{
	sn_tune_apply();
	return sn_conf_num(SN_CONF_EAGER) != 1000 || sn_conf_origin(SN_CONF_EAGER, NULL) != SN_ORIGIN_ENV ||
	       sn_conf_num(SN_CONF_CHUNK) != 4096;
}

static void figures_come_back_and_become_settings(void **state)
{
	assert_int_equal(in_child(nothing_is_known), 0);
	assert_int_equal(sn_tune_save(SN_TUNE_FAR, &example), 0);
	assert_int_equal(in_child(all_of_it_came_back), 0);
}

static void a_setting_is_stronger(void **state)
{
	assert_int_equal(sn_tune_save(SN_TUNE_NEAR, &example), 0);
	setenv("SENNIT_EAGER", "1000", 1);
	assert_int_equal(in_child(a_person_has_the_last_word), 0);
	unsetenv("SENNIT_EAGER");
}

static int switched_off(void)
{
	sn_tune_apply();
	return sn_conf_origin(SN_CONF_CHUNK, NULL) != SN_ORIGIN_DEFAULT || sn_tune_far();
}

static void it_can_be_switched_off(void **state)
{
	assert_int_equal(sn_tune_save(SN_TUNE_NEAR, &example), 0);
	setenv("SENNIT_TUNE", "no", 1);
	assert_int_equal(in_child(switched_off), 0);
	unsetenv("SENNIT_TUNE");
}

/* 77: this user may not give names. */
static int known_under_another_name(void)
{
	if (unshare(CLONE_NEWUTS) && unshare(CLONE_NEWUSER | CLONE_NEWUTS))
		return 77;
	if (sethostname("f39ba9d8fdd7", 12))
		return 77;
	return !sn_tune_known();
}

/* Each container has a name of its own, and would leave a file in a home that it is given. */
static void a_container_knows_what_its_host_does(void **state)
{
	assert_int_equal(sn_tune_save(SN_TUNE_NEAR, &example), 0);
	int status = in_child(known_under_another_name);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static void a_damaged_file_counts_as_none(void **state)
{
	static const char *const damaged[] = {
		"",
		"line_ns = 50\neager = 1\nchunk = 4096\nsingle_copy = 4096\nnontemporal = 4096\n",
		"line_ns = 50\nsingle_copy = 4096\neager = 99999999999999999999\n",
		"line_ns = -3\neager = 4096\nchunk = 4096\nsingle_copy = 4096\nnontemporal = 4096\n",
		"ring.99 = 1\nkernel.-1 = 2\n.5 = 3\nchunks.4000000000 = 4\n",
	};
	char path[512];
	assert_int_equal(sn_tune_save(SN_TUNE_FAR, &example), 0);
	path_of(SN_TUNE_FAR, path, sizeof(path));
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		FILE *f = fopen(path, "w");
		assert_non_null(f);
		fputs(damaged[i], f);
		assert_int_equal(fclose(f), 0);
		assert_int_equal(in_child(nothing_is_known), 0);
	}
}

static void the_file_is_private_and_alone(void **state)
{
	char path[512];
	struct stat st;
	assert_int_equal(sn_tune_save(SN_TUNE_FAR, &example), 0);
	path_of(SN_TUNE_FAR, path, sizeof(path));
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

/* What the measurement says follows from its own curves, however busy the machine is. */
static void thresholds_follow_from_the_curves(void **state)
{
	struct sn_tune t;
	enum sn_tune_class class = SN_TUNE_CLASSES;
	int rc = sn_tune_measure(&t, &class);
	if (rc == SN_ERR_UNSUPPORTED) {
		print_message("not measured: %s\n", sn_last_error());
		skip();
	}
	assert_true(rc == 0 || rc == SN_ERR_AGAIN);
	assert_true(class < SN_TUNE_CLASSES);
	assert_true(t.chunk >= 4096 && t.chunk <= 65536 && t.eager >= SN_TUNE_SMALLEST && t.eager <= 65536);
	for (int i = 0; i < SN_TUNE_CHUNKS; i++)
		assert_true(t.chunk_ns[i] >= t.chunk_ns[__builtin_ctzll((unsigned long long)t.chunk) - 12]);
	for (int i = 0; i < SN_TUNE_SIZES; i++) {
		int64_t size = (int64_t)SN_TUNE_SMALLEST << i;
		assert_true(t.ns[SN_TUNE_MAPPED][i] > 0 && t.ns[SN_TUNE_BYPASS][i] > 0);
		assert_true((t.ns[SN_TUNE_STREAM][i] > 0) == (i < SN_TUNE_COMMON));
		if (size >= t.nontemporal)
			assert_true(t.ns[SN_TUNE_BYPASS][i] < t.ns[SN_TUNE_MAPPED][i]);
		if (size >= t.single_copy && i < SN_TUNE_COMMON)
			assert_true(t.ns[SN_TUNE_KERNEL][i] < t.ns[SN_TUNE_STREAM][i]);
	}
}

/* Taken from an AMD EPYC (Zen 3), near: the ring, a stream, the kernel. */
static const struct sn_tune curves = {
	.line_ns = 73,
	.ns = {[SN_TUNE_RING] = {221, 361, 501, 722, 1322, 2415, 4619},
	       [SN_TUNE_STREAM] = {251, 341, 481, 751, 1222, 2425, 5991},
	       [SN_TUNE_KERNEL] = {2435, 2465, 2515, 3176, 4228, 5891, 9378}},
};

static void one_odd_measurement_decides_nothing(void **state)
{
	assert_int_equal(sn_tune_eager(&curves), 65536);
	for (int i = 1; i < 6; i++) {
		struct sn_tune odd = curves;
		odd.ns[SN_TUNE_RING][i] = 2 * odd.ns[SN_TUNE_RING][i];
		assert_int_equal(sn_tune_eager(&odd), 65536);
		odd = curves;
		odd.ns[SN_TUNE_KERNEL][i] = odd.ns[SN_TUNE_RING][i] * 2 / 3;
		assert_int_equal(sn_tune_eager(&odd), 65536);
	}
}

/* Copied whole that takes longer than a stream; but the ring takes it in parts. */
static void long_ones_go_in_parts(void **state)
{
	struct sn_tune t = curves;
	for (int i = 4; i < 7; i++)
		t.ns[SN_TUNE_RING][i] = 2 * t.ns[SN_TUNE_STREAM][i];
	assert_int_equal(sn_tune_eager(&t), 65536);
}

static void where_the_kernel_is_faster_messages_are_announced(void **state)
{
	for (int from = 3; from < 7; from++) {
		struct sn_tune t = curves;
		for (int i = from; i < 7; i++)
			t.ns[SN_TUNE_KERNEL][i] = t.ns[SN_TUNE_RING][i] / 2 - 4 * t.line_ns;
		assert_int_equal(sn_tune_eager(&t), SN_TUNE_SMALLEST << (from - 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_odd_measurement_decides_nothing),
		cmocka_unit_test(long_ones_go_in_parts),
		cmocka_unit_test(where_the_kernel_is_faster_messages_are_announced),
		cmocka_unit_test_teardown(figures_come_back_and_become_settings, clean),
		cmocka_unit_test_teardown(a_setting_is_stronger, clean),
		cmocka_unit_test_teardown(it_can_be_switched_off, clean),
		cmocka_unit_test_teardown(a_container_knows_what_its_host_does, clean),
		cmocka_unit_test_teardown(a_damaged_file_counts_as_none, clean),
		cmocka_unit_test_teardown(the_file_is_private_and_alone, clean),
		cmocka_unit_test(thresholds_follow_from_the_curves),
	};
	return cmocka_run_group_tests(tests, start, finish);
}

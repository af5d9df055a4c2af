/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: the order of their sources, and that a wrong value is named, refused and leaves the earlier one. */
#include "base/conf.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include "unit.h"
#include <ctype.h>
#include <pthread.h>
#include <sys/stat.h>

static char home[] = "/tmp/sennit-test-conf-XXXXXX";

static void clear_environment(void)
{
	for (int id = 0; id < SN_CONF_COUNT; id++) {
		char name[64];
		int len = snprintf(name, sizeof name, "SENNIT_%s", sn_conf_desc((enum sn_conf_id)id)->name);
		for (int i = 0; i < len; i++)
			name[i] = (char)toupper(name[i]);
		unsetenv(name);
	}
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", home, 1);
}

static void config_path(char *out, size_t room, const char *leaf)
{
	snprintf(out, room, "%s/.config%s", home, leaf);
}

static void write_user_file(const char *text)
{
	char path[128];
	config_path(path, sizeof path, "");
	mkdir(path, 0700);
	config_path(path, sizeof path, "/sennit.conf");
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void remove_user_file(void)
{
	char path[128];
	config_path(path, sizeof path, "/sennit.conf");
	unlink(path);
	config_path(path, sizeof path, "");
	rmdir(path);
}

static int fresh(void **state)
{
	clear_environment();
	remove_user_file();
	sn_conf_reload();
	return 0;
}

static int make_home(void **state)
{
	return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
	remove_user_file();
	return rmdir(home);
}

/* What this writes to standard error. */
static const char *read_stderr_of(void (*call)(void))
{
	static char text[8192];
	FILE *f = tmpfile();
	assert_non_null(f);
	int saved = dup(STDERR_FILENO);
	assert_true(saved >= 0);
	dup2(fileno(f), STDERR_FILENO);
	call();
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(f);
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	return text;
}

static const char *reload_and_read_stderr(void)
{
	return read_stderr_of(sn_conf_reload);
}

/* Loads, and what a setting is not found wrong before. */
static void open_endpoint(void)
{
	sn_ep *ep;
	sn_conf_reload();
	assert_int_equal(sn_ep_open(NULL, &ep), 0);
	sn_ep_close(ep);
}

static void every_setting_is_described_and_its_default_is_in_range(void **state)
{
	for (int i = 0; i < SN_CONF_COUNT; i++) {
		const struct sn_conf_desc *d = sn_conf_desc((enum sn_conf_id)i);
		assert_non_null(d->name);
		assert_non_null(d->unit);
		assert_non_null(d->help);
		assert_true(strlen(d->help) > 80);
		assert_true(d->help[strlen(d->help) - 1] == '.');
		if (d->type != SN_TYPE_STR) {
			assert_true(d->def >= d->min && d->def <= d->max);
			assert_int_equal(sn_conf_num((enum sn_conf_id)i), d->def);
		}
		if (d->type == SN_TYPE_ENUM) {
			unsigned bars = 0;
			for (const char *c = d->choices; *c; c++)
				bars += *c == '|';
			assert_int_equal(d->max, bars);
		}
		assert_int_equal(sn_conf_origin((enum sn_conf_id)i, NULL), SN_ORIGIN_DEFAULT);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(d->name, sn_conf_desc((enum sn_conf_id)j)->name);
	}
}

static void the_environment_wins_over_the_user_file(void **state)
{
	const char *where;
	write_user_file("# mine\neager = 4k   # small\n\n  COPY=read\n");
	setenv("SENNIT_EAGER", "8K", 1);
	assert_string_equal(reload_and_read_stderr(), "");
	assert_int_equal(sn_conf_num(SN_CONF_EAGER), 8192);
	assert_int_equal(sn_conf_origin(SN_CONF_EAGER, &where), SN_ORIGIN_ENV);
	assert_string_equal(where, "SENNIT_EAGER");
	assert_int_equal(sn_conf_num(SN_CONF_COPY), 1);
	assert_string_equal(sn_conf_str(SN_CONF_COPY), "read");
	assert_int_equal(sn_conf_origin(SN_CONF_COPY, &where), SN_ORIGIN_USER);
	assert_non_null(strstr(where, "sennit.conf:4"));
}

static void a_measured_value_yields_to_the_user_and_beats_the_default(void **state)
{
	const char *where;
	setenv("SENNIT_SPIN", "7", 1);
	sn_conf_reload();
	sn_conf_set(SN_CONF_SPIN, 20, SN_ORIGIN_MEASURED, "calibration");
	assert_int_equal(sn_conf_num(SN_CONF_SPIN), 7);
	sn_conf_set(SN_CONF_EAGER, 32768, SN_ORIGIN_MEASURED, "calibration");
	assert_int_equal(sn_conf_num(SN_CONF_EAGER), 32768);
	assert_string_equal(sn_conf_str(SN_CONF_EAGER), "32768");
	assert_int_equal(sn_conf_origin(SN_CONF_EAGER, &where), SN_ORIGIN_MEASURED);
	assert_string_equal(where, "calibration");
	sn_conf_set(SN_CONF_EAGER, 4096, SN_ORIGIN_SYSTEM, "/etc/sennit.conf:1");
	assert_int_equal(sn_conf_num(SN_CONF_EAGER), 4096);
	sn_conf_set(SN_CONF_EAGER, 2048, SN_ORIGIN_MEASURED, "calibration");
	assert_int_equal(sn_conf_num(SN_CONF_EAGER), 4096);
}

/* sn_conf_set is refused, not clamped: a calibration that measures nonsense must show. */
static void a_value_out_of_range_cannot_be_set(void **state)
{
	sn_conf_set(SN_CONF_EAGER, -5, SN_ORIGIN_ENV, "test");
	sn_conf_set(SN_CONF_COPY, 99, SN_ORIGIN_ENV, "test");
	assert_int_equal(sn_conf_num(SN_CONF_EAGER), sn_conf_desc(SN_CONF_EAGER)->def);
	assert_int_equal(sn_conf_num(SN_CONF_COPY), 0);
}

static void numbers_in_bytes_take_suffixes(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} good[] = {{"16384", 16384}, {"64k", 65536}, {"1M", 1048576}, {"16m", 16777216}};
	for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
		setenv("SENNIT_RING", good[i].text, 1);
		assert_string_equal(reload_and_read_stderr(), "");
		assert_int_equal(sn_conf_num(SN_CONF_RING), good[i].value);
	}
}

static void switches_take_yes_and_no_in_many_words(void **state)
{
	static const char *const yes[] = {"1", "yes", "ON", "True"}, *const no[] = {"0", "No", "off",
										    "false"};
	for (int i = 0; i < 4; i++) {
		setenv("SENNIT_STATS", yes[i], 1);
		assert_string_equal(reload_and_read_stderr(), "");
		assert_int_equal(sn_conf_num(SN_CONF_STATS), 1);
		assert_string_equal(sn_conf_str(SN_CONF_STATS), "yes");
		setenv("SENNIT_STATS", no[i], 1);
		assert_string_equal(reload_and_read_stderr(), "");
		assert_int_equal(sn_conf_num(SN_CONF_STATS), 0);
	}
	setenv("SENNIT_STATS", "2", 1);
	assert_non_null(
		strstr(reload_and_read_stderr(), "SENNIT_STATS: \"2\" is not yes or no; it is ignored"));
}

static void a_wrong_value_is_reported_with_the_range_and_changes_nothing(void **state)
{
	static const char *const bad[] = {"",
					  " ",
					  "k",
					  "64x",
					  "1kk",
					  "16385b",
					  "-1k",
					  "1g",
					  "9999999999999999999",
					  "8589934592g",
					  "0x4000",
					  "1e6",
					  "64 k",
					  "1023"};
	write_user_file("ring = 32k\n");
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		setenv("SENNIT_RING", bad[i], 1);
		const char *said = reload_and_read_stderr();
		assert_int_equal(sn_conf_num(SN_CONF_RING), 32768);
		assert_int_equal(sn_conf_origin(SN_CONF_RING, NULL), SN_ORIGIN_USER);
		assert_non_null(strstr(said, "SENNIT_RING"));
		assert_non_null(strstr(said, "from 16384 to 16777216"));
		assert_non_null(strstr(said, "stays 32768"));
		assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
	}
	unsetenv("SENNIT_RING");
	setenv("SENNIT_COPY", "fast", 1);
	assert_non_null(strstr(reload_and_read_stderr(), "one of auto|read|write|stream|shared"));
	setenv("SENNIT_COPY", "rea", 1);
	assert_non_null(strstr(reload_and_read_stderr(), "\"rea\" is not one of"));
	setenv("SENNIT_SPIN", "1k", 1); /* not bytes */
	assert_non_null(strstr(reload_and_read_stderr(), "SENNIT_SPIN"));
	assert_int_equal(sn_conf_num(SN_CONF_SPIN), sn_conf_desc(SN_CONF_SPIN)->def);
}

/* All ranks of a machine read the same. */
static void of_several_ranks_the_first_one_complains(void **state)
{
	static const char *const launchers[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
						"SLURM_LOCALID"};
	setenv("SENNIT_RING", "much", 1);
	setenv("SENNIT_NET", "tcp", 1);
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		setenv(launchers[i], "1", 1);
		assert_string_equal(read_stderr_of(open_endpoint), "");
		setenv(launchers[i], "0", 1);
		const char *said = read_stderr_of(open_endpoint);
		assert_non_null(strstr(said, "SENNIT_RING"));
		assert_non_null(strstr(said, "SENNIT_NET is \"tcp\""));
		unsetenv(launchers[i]);
	}
}

static void faults_in_a_file_are_named_by_line(void **state)
{
	write_user_file("eagre = 4k\nspin\nnap = 5\n= 3\n");
	const char *said = reload_and_read_stderr();
	assert_non_null(strstr(said, "sennit.conf:1: there is no setting \"eagre\""));
	assert_non_null(strstr(said, "sennit.conf:2: \"spin\" is not of the form"));
	assert_non_null(strstr(said, "sennit.conf:4: there is no setting \"\""));
	assert_int_equal(sn_conf_num(SN_CONF_NAP), 5);

	char big[3000];
	memset(big, 'x', sizeof big);
	big[sizeof big - 1] = '\0';
	write_user_file(big);
	assert_non_null(strstr(reload_and_read_stderr(), "sennit.conf:1: longer than"));

	char many[2000] = "";
	for (int i = 0; i < 50; i++)
		strcat(many, "nothing = 1\n");
	write_user_file(many);
	said = reload_and_read_stderr();
	assert_non_null(strstr(said, "and 42 more faults in the settings"));
}

/* HOME often stays another user's behind su, setpriv or a container's --user. */
static void a_home_that_is_out_of_reach_is_no_complaint(void **state)
{
	char path[128];
	bool root = geteuid() == 0;
	write_user_file("eager = 4k\n");
	config_path(path, sizeof path, "/sennit.conf");
	chmod(path, 0);
	config_path(path, sizeof path, "");
	chmod(path, 0711);
	for (int reach = 1; reach >= 0; reach--) {
		chmod(home, reach ? 0711 : root ? 0700 : 0);
		assert_int_equal(root ? seteuid(65534) : 0, 0);
		const char *said = reload_and_read_stderr();
		assert_int_equal(root ? seteuid(0) : 0, 0);
		chmod(home, 0700);
		if (reach)
			assert_non_null(strstr(said, "cannot be read (Permission denied)"));
		else
			assert_string_equal(said, "");
	}
	assert_int_equal(sn_conf_num(SN_CONF_EAGER), sn_conf_desc(SN_CONF_EAGER)->def);
}

static void the_log_level_silences_complaints_wherever_it_is_set(void **state)
{
	write_user_file("eager = nonsense\n");
	assert_non_null(strstr(reload_and_read_stderr(), "nonsense"));
	setenv("SENNIT_LOG", "error", 1);
	assert_string_equal(reload_and_read_stderr(), "");
	assert_int_equal(sn_log_level, SN_LOG_ERROR);
}

static void count_unknown(void *arg, const char *name)
{
	unsigned *count = arg;
	if (!strcmp(name, "SENNIT_EAGRE") || !strcmp(name, "SENNIT_eager"))
		(*count)++;
	assert_string_not_equal(name, "SENNIT_EAGER");
}

static void misspelt_variables_are_listed(void **state)
{
	unsigned count = 0;
	setenv("SENNIT_EAGER", "4k", 1);
	setenv("SENNIT_EAGRE", "4k", 1);
	setenv("SENNIT_eager", "4k", 1);
	sn_conf_unknown(count_unknown, &count);
	assert_int_equal(count, 2);
	unsetenv("SENNIT_EAGRE");
	unsetenv("SENNIT_eager");
}

static void *read_settings(void *arg)
{
	int64_t *sum = arg;
	for (int i = 0; i < SN_CONF_COUNT; i++)
		*sum += sn_conf_num((enum sn_conf_id)i);
	return NULL;
}

/* Run first, so that the settings are not loaded yet. */
static void threads_may_be_the_first_to_read(void **state)
{
	pthread_t threads[8];
	int64_t sums[8] = {0};
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_settings, &sums[i]), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 8; i++)
		assert_true(sums[i] > 0 && sums[i] == sums[0]);
}

static void origins_have_names(void **state)
{
	assert_string_equal(sn_conf_origin_name(SN_ORIGIN_DEFAULT), "default");
	assert_string_equal(sn_conf_origin_name(SN_ORIGIN_ENV), "environment");
	assert_string_equal(sn_conf_origin_name((enum sn_conf_origin)99), "unknown");
}

/* memcheck takes what a peer writes into a buffer for never written; who wants that says so. */
static void under_valgrind_the_receiver_copies(void **state)
{
	const char *preload = getenv("LD_PRELOAD"), *where;
	char *before = preload ? strdup(preload) : NULL;
	setenv("LD_PRELOAD", "/usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so", 1);
	sn_conf_reload();
	assert_string_equal(sn_conf_str(SN_CONF_COPY), "read");
	assert_int_equal(sn_conf_origin(SN_CONF_COPY, &where), SN_ORIGIN_MEASURED);
	assert_non_null(strstr(where, "valgrind"));
	setenv("SENNIT_COPY", "auto", 1);
	sn_conf_reload();
	assert_string_equal(sn_conf_str(SN_CONF_COPY), "auto");
	unsetenv("SENNIT_COPY");
	if (before)
		setenv("LD_PRELOAD", before, 1);
	else
		unsetenv("LD_PRELOAD");
	free(before);
	sn_conf_reload();
	assert_string_equal(sn_conf_str(SN_CONF_COPY), "auto");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_may_be_the_first_to_read),
		cmocka_unit_test_setup(every_setting_is_described_and_its_default_is_in_range, fresh),
		cmocka_unit_test_setup(the_environment_wins_over_the_user_file, fresh),
		cmocka_unit_test_setup(a_measured_value_yields_to_the_user_and_beats_the_default, fresh),
		cmocka_unit_test_setup(under_valgrind_the_receiver_copies, fresh),
		cmocka_unit_test_setup(a_value_out_of_range_cannot_be_set, fresh),
		cmocka_unit_test_setup(numbers_in_bytes_take_suffixes, fresh),
		cmocka_unit_test_setup(switches_take_yes_and_no_in_many_words, fresh),
		cmocka_unit_test_setup(a_wrong_value_is_reported_with_the_range_and_changes_nothing, fresh),
		cmocka_unit_test_setup(of_several_ranks_the_first_one_complains, fresh),
		cmocka_unit_test_setup(faults_in_a_file_are_named_by_line, fresh),
		cmocka_unit_test_setup(a_home_that_is_out_of_reach_is_no_complaint, fresh),
		cmocka_unit_test_setup(the_log_level_silences_complaints_wherever_it_is_set, fresh),
		cmocka_unit_test_setup(misspelt_variables_are_listed, fresh),
		cmocka_unit_test(origins_have_names),
	};
	return cmocka_run_group_tests(tests, make_home, remove_home);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libfabric would read of the kernel in vain is not there for it where no provider but ours is used; it is there
 * for all others, and all other files for everybody. The program runs itself again with the library in front;
 * SENNIT_MPI_LIB says where that is.
 */
#include "opening_fabric.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>

#define SYMBOLS "/proc/kallsyms"

typedef FILE *opener(const char *name, const char *mode);

static opener *const all[] = {fopen, fopen64, opening_fabric_opens, opening_fabric_opens_64};
#define ALL (sizeof(all) / sizeof(all[0]))

static char path[] = "/tmp/sennit-test-opening-XXXXXX";

static int setup(void **state)
{
	return setenv("FI_PROVIDER", "sennit", 1);
}

/* As the kernel gives it, which may be not at all. Closes the file. */
static bool is_true(FILE *f)
{
	char line[256] = "", should[256];
	int fd = open(SYMBOLS, O_RDONLY);
	bool same = !f == (fd < 0);
	if (f && fd >= 0) {
		size_t n = fgets(line, sizeof(line), f) ? strlen(line) : 0;
		same = n > 0 && read(fd, should, n) == (ssize_t)n && !memcmp(line, should, n);
	}
	if (fd >= 0)
		close(fd);
	if (f)
		fclose(f);
	return same;
}

static bool is_missing(FILE *f)
{
	bool missing = !f && errno == ENOENT;
	if (f)
		fclose(f);
	return missing;
}

static void libfabric_finds_none_where_ours_is_alone(void **state)
{
	errno = 0;
	assert_true(is_missing(opening_fabric_opens(SYMBOLS, "r")));
	errno = 0;
	assert_true(is_missing(opening_fabric_opens_64(SYMBOLS, "re")));
}

static void the_program_reads_the_true_ones(void **state)
{
	assert_true(is_true(fopen(SYMBOLS, "r")));
	assert_true(is_true(fopen64(SYMBOLS, "re")));
}

static void where_there_are_other_providers_so_does_libfabric(void **state)
{
	static const char *const others[] = {"tcp", "sennit;tcp", "sennit,tcp", "^sennit", "sennit ", "sen",
					     ""};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		setenv("FI_PROVIDER", others[i], 1);
		assert_true(is_true(opening_fabric_opens(SYMBOLS, "r")));
	}
	unsetenv("FI_PROVIDER");
	assert_true(is_true(opening_fabric_opens(SYMBOLS, "r")));
	assert_true(is_true(opening_fabric_opens_64(SYMBOLS, "r")));
}

static bool holds(opener *opens, const char *text)
{
	char line[32] = "";
	FILE *f = opens(path, "r");
	if (!f)
		return false;
	bool same = fgets(line, sizeof(line), f) && !strcmp(line, text) && fgetc(f) == EOF;
	return !fclose(f) && same;
}

static bool writes(opener *opens, const char *mode, const char *text)
{
	FILE *f = opens(path, mode);
	if (!f)
		return false;
	bool written = fputs(text, f) >= 0;
	return !fclose(f) && written;
}

static void other_files_are_written_and_read(void **state)
{
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	for (size_t i = 0; i < ALL; i++) {
		assert_true(writes(all[i], "w", "a line"));
		assert_true(holds(all[i], "a line"));
		assert_true(writes(all[i], "a+", "'s end"));
		assert_true(holds(all[i], "a line's end"));
	}
	close(fd);
	unlink(path);
}

static void what_cannot_be_opened_says_why(void **state)
{
	/* The compiler is not to know it, nor the analyzers. */
	const char *volatile none = NULL;
	static const struct {
		const char *name, *mode;
		int error;
	} cases[] = {
		{"/proc/kallsyms/", "r", ENOTDIR},
		{"/proc/kallsyms-of-nobody", "r", ENOENT},
		{SYMBOLS, "x", EINVAL},
		{"", "r", ENOENT},
		{"/", "w", EISDIR},
	};
	for (size_t i = 0; i < ALL; i++) {
		for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
			errno = 0;
			assert_null(all[i](cases[k].name, cases[k].mode));
			assert_int_equal(errno, cases[k].error);
		}
		errno = 0;
		assert_null(all[i](none, "r"));
		assert_int_equal(errno, EFAULT);
	}
}

static void before_it_is_set_up_files_are_opened(void **state)
{
	assert_true(opening_fabric_early());
}

int main(int argc, char **argv)
{
	if (!unit_preloaded("SENNIT_MPI_LIB", argv))
		return 77;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(libfabric_finds_none_where_ours_is_alone, setup),
		cmocka_unit_test_setup(the_program_reads_the_true_ones, setup),
		cmocka_unit_test_setup(where_there_are_other_providers_so_does_libfabric, setup),
		cmocka_unit_test_setup(other_files_are_written_and_read, setup),
		cmocka_unit_test_setup(what_cannot_be_opened_says_why, setup),
		cmocka_unit_test_setup(before_it_is_set_up_files_are_opened, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

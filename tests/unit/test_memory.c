/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory a process may use: what its control group allows it, or one of those above. */
#include "unit.h"

#include "base/memory.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LIMIT (UINT64_C(300) << 20)

static char group[300], limit_file[340], inner[320], member_file[360];

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return done;
}

/* A group with a limit, within this process's, and one in that without. */
static bool groups_made(const char *mount, const char *own, const char *limit)
{
	char text[32];
	snprintf(group, sizeof(group), "%s%s/sennit-test-%d", mount, own, getpid());
	snprintf(inner, sizeof(inner), "%s/inner", group);
	snprintf(limit_file, sizeof(limit_file), "%s/%s", group, limit);
	snprintf(member_file, sizeof(member_file), "%s/cgroup.procs", inner);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)LIMIT);
	return !mkdir(group, 0755) && !mkdir(inner, 0755) && put(limit_file, text);
}

static bool any_groups_made(void)
{
	char line[256], own[200] = "";
	FILE *f = fopen("/proc/self/cgroup", "re");
	bool made = false;
	while (f && !made && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d:memory:%199s", own) == 1)
			made = groups_made("/sys/fs/cgroup/memory", strcmp(own, "/") ? own : "",
					   "memory.limit_in_bytes");
		else if (sscanf(line, "0::%199s", own) == 1)
			made = groups_made("/sys/fs/cgroup", strcmp(own, "/") ? own : "", "memory.max");
	if (f)
		fclose(f);
	return made;
}

static void a_groups_limit_counts(void **state)
{
	int status = 0;
	bool made = any_groups_made();
	pid_t child = made ? fork() : 0;
	if (made && !child)
		_exit(put(member_file, "0") ? sn_memory_allowed() != LIMIT : 2);
	if (made)
		assert_int_equal(waitpid(child, &status, 0), child);
	rmdir(inner);
	rmdir(group);
	if (!made || WEXITSTATUS(status) == 2) {
		print_message("this process may not make a control group for memory\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void nobody_may_use_more_than_there_is(void **state)
{
	uint64_t all = sn_memory_of_machine(), some = sn_memory_allowed();
	assert_true(some > 0 && some <= all);
	assert_true(all >= (uint64_t)1 << 28);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_may_use_more_than_there_is),
					   cmocka_unit_test(a_groups_limit_counts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

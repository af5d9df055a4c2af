/* SPDX-License-Identifier: BSD-3-Clause */
/* The live view: what a process registers is what a reader of the same user finds. */
#include "unit.h"

#include "progress/live.h"
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const struct sn_live_table *mine(void)
{
	const struct sn_live_table *t = sn_live_map(getpid());
	assert_non_null(t);
	assert_int_equal(t->pid, getpid());
	return t;
}

/* The row of this name, or false. */
static bool find(const struct sn_live_table *t, const char *name, struct sn_live_row *row)
{
	for (uint32_t i = 0; i < atomic_load(&t->rows); i++)
		if (sn_live_read(t, i, row) && !strcmp(row->name, name))
			return true;
	return false;
}

static void what_is_registered_is_found(void **state)
{
	struct sn_live_row row;
	struct sn_live_row *number = sn_live_add(7, "peer 1 (pid 2)", "bytes", "B");
	struct sn_live_row *text = sn_live_add(7, "peer 1 (pid 2)", "method", "");
	sn_live_set(number, 42);
	sn_live_text(text, "%s since %d", "stream", 3);
	const struct sn_live_table *t = mine();
	assert_true(find(t, "bytes", &row));
	assert_int_equal(atomic_load(&row.number), 42);
	assert_string_equal(row.unit, "B");
	assert_string_equal(row.scope, "peer 1 (pid 2)");
	assert_int_equal(row.ep, 7);
	assert_true(find(t, "method", &row));
	assert_string_equal(row.text, "stream since 3");
	sn_live_remove(text);
	assert_false(find(t, "method", &row));
	sn_live_add(7, "peer 2 (pid 3)", "other", "");
	sn_live_remove_scope(7, "peer 1 (pid 2)");
	assert_false(find(t, "bytes", &row));
	assert_true(find(t, "other", &row));
	sn_live_remove_scope(7, NULL);
	assert_false(find(t, "other", &row));
	sn_live_unmap(t);
}

static void what_is_too_long_is_cut(void **state)
{
	struct sn_live_row row;
	char text[400];
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	struct sn_live_row *long_row = sn_live_add(1, text, "long", text);
	sn_live_text(long_row, "%s", text);
	const struct sn_live_table *t = mine();
	assert_true(find(t, "long", &row));
	assert_int_equal(strlen(row.text), sizeof(row.text) - 1);
	assert_int_equal(strlen(row.scope), sizeof(row.scope) - 1);
	sn_live_remove_scope(1, text);
	assert_false(find(t, "long", &row));
	sn_live_unmap(t);
}

static void a_full_table_counts_and_goes_on(void **state)
{
	struct sn_live_row *last = NULL;
	for (uint32_t i = 0; i < SN_LIVE_ROWS; i++)
		last = sn_live_add(9, "many", "row", "");
	assert_non_null(last);
	assert_null(sn_live_add(9, "many", "row", ""));
	sn_live_set(NULL, 1);
	sn_live_text(NULL, "nothing");
	sn_live_remove(NULL);
	const struct sn_live_table *t = mine();
	assert_int_equal(atomic_load(&t->overflowed), 1);
	sn_live_unmap(t);
	sn_live_remove_scope(9, NULL);
	assert_null(sn_live_map(getpid())); /* nothing stays open behind the last row */
	assert_non_null(sn_live_add(9, "many", "again", ""));
	sn_live_remove_scope(9, NULL);
}

static void a_reader_cannot_write(void **state)
{
	sn_live_add(3, "x", "x", "");
	const struct sn_live_table *t = mine();
	pid_t pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with its tests here */
		*(volatile uint64_t *)(uintptr_t)&t->magic = 0;
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	sn_live_remove_scope(3, NULL);
	sn_live_unmap(t);
}

/* A child has no rows of its parent's, and its own do not appear there. */
static void a_forked_child_has_its_own_table(void **state)
{
	struct sn_live_row row;
	struct sn_live_row *parents = sn_live_add(5, "x", "parent", "");
	pid_t pid = fork();
	if (!pid) {
		if (sn_live_map(getpid()) || errno != ENOENT)
			_exit(1);
		sn_live_remove(parents);
		sn_live_add(5, "x", "child", "");
		const struct sn_live_table *t = sn_live_map(getpid());
		if (!t || !find(t, "child", &row) || find(t, "parent", &row) || t->pid != (uint32_t)getpid())
			_exit(2);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	const struct sn_live_table *t = mine();
	assert_true(find(t, "parent", &row));
	assert_false(find(t, "child", &row));
	sn_live_remove_scope(5, NULL);
	sn_live_unmap(t);
}

static void a_process_without_a_table_is_told_apart(void **state)
{
	int pair[2];
	char c = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid_t pid = fork();
	if (!pid) { /* has closed what was its parent's, and lives until that has looked */
		close(pair[1]);
		_exit(write(pair[0], &c, 1) == 1 && read(pair[0], &c, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(pair[1], &c, 1), 1);
	assert_null(sn_live_map(pid));
	assert_int_equal(errno, ENOENT);
	close(pair[1]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pair[0]);
	assert_null(sn_live_map(pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_registered_is_found),
		cmocka_unit_test(what_is_too_long_is_cut),
		cmocka_unit_test(a_full_table_counts_and_goes_on),
		cmocka_unit_test(a_reader_cannot_write),
		cmocka_unit_test(a_forked_child_has_its_own_table),
		cmocka_unit_test(a_process_without_a_table_is_told_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

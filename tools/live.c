/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit info --peer: the live view (src/progress/live.h) of processes that are running. */
#include "progress/live.h"
#include "tool.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rows {
	struct sn_live_row *at;
	size_t count;
	size_t *first; /* of each row: the first row of its endpoint and scope, to keep scopes in order of appearance */
};

static const struct rows *sorting;

static bool same_scope(const struct sn_live_row *a, const struct sn_live_row *b)
{
	return a->ep == b->ep && strcmp(a->scope, b->scope) == 0;
}

static int compare(const void *a, const void *b)
{
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	const struct sn_live_row *x = &sorting->at[i], *y = &sorting->at[k];
	if (x->ep != y->ep)
		return x->ep < y->ep ? -1 : 1;
	if (sorting->first[i] != sorting->first[k])
		return sorting->first[i] < sorting->first[k] ? -1 : 1;
	return i < k ? -1 : 1;
}

static bool collect(const struct sn_live_table *t, struct rows *rows)
{
	uint32_t count = atomic_load(&t->rows);
	count = count < SN_LIVE_ROWS ? count : (uint32_t)SN_LIVE_ROWS;
	rows->count = 0;
	rows->at = calloc(count + 1, sizeof(*rows->at));
	rows->first = calloc(count + 1, sizeof(*rows->first));
	if (!rows->at || !rows->first)
		return false;
	for (uint32_t i = 0; i < count; i++)
		rows->count += sn_live_read(t, i, &rows->at[rows->count]);
	for (size_t i = 0; i < rows->count; i++)
		while (!same_scope(&rows->at[rows->first[i]], &rows->at[i]))
			rows->first[i]++;
	return true;
}

/* What another process wrote goes to a terminal: no control characters. */
static const char *plain(char *s)
{
	for (char *c = s; *c; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
	return s;
}

static void print_row(struct sn_live_row *r)
{
	printf("    %-24s", plain(r->name));
	if (r->text[0])
		printf(" %s\n", plain(r->text));
	else
		printf(" %" PRIu64 "%s%s\n", atomic_load(&r->number), r->unit[0] ? " " : "", plain(r->unit));
}

static bool print_table(pid_t pid, const struct sn_live_table *t)
{
	struct rows rows;
	char path[64], name[64] = "";
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	sn_tool_read_line(path, name, sizeof(name));
	bool good = collect(t, &rows);
	size_t *order = calloc(rows.count + 1, sizeof(*order));
	good = good && order;
	printf("process %d (%s)\n", (int)pid, plain(name));
	if (good) {
		for (size_t i = 0; i < rows.count; i++)
			order[i] = i;
		sorting = &rows;
		qsort(order, rows.count, sizeof(*order), compare);
		sorting = NULL;
	}
	const struct sn_live_row *last = NULL;
	for (size_t i = 0; good && i < rows.count; i++) {
		struct sn_live_row *r = &rows.at[order[i]];
		plain(r->scope);
		if (r->ep && (!last || last->ep != r->ep))
			printf("  endpoint %016" PRIx64 "\n", r->ep);
		if (!last || !same_scope(last, r))
			printf("  %s\n", r->scope);
		print_row(r);
		last = r;
	}
	if (good && !rows.count)
		puts("  no open endpoint");
	if (atomic_load(&t->overflowed))
		printf("  and %u more that found no place in the table\n", atomic_load(&t->overflowed));
	free(order);
	free(rows.at);
	free(rows.first);
	if (!good)
		sn_tool_complain("out of memory");
	return good;
}

static int show(pid_t pid)
{
	const struct sn_live_table *t = sn_live_map(pid);
	if (!t)
		return -1;
	int rc = print_table(pid, t) ? 0 : 1;
	sn_live_unmap(t);
	return rc;
}

static int show_all(void)
{
	int found = 0;
	DIR *dir = opendir("/proc");
	if (!dir) {
		sn_tool_complain("/proc cannot be read: %s", strerror(errno));
		return 1;
	}
	/* cppcheck-suppress readdirCalled ; this directory is read by this thread alone */
	for (const struct dirent *e; (e = readdir(dir));) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);
		if (pid > 0 && !*end && show((pid_t)pid) == 0)
			found++;
	}
	closedir(dir);
	if (!found)
		puts("no process that this user may look into uses sennit now");
	return 0;
}

int sn_tool_live(const char *text)
{
	char *end;
	if (!text)
		return show_all();
	long pid = strtol(text, &end, 10);
	if (pid <= 0 || *end || pid != (pid_t)pid) {
		sn_tool_complain("'%s' is no process number", text);
		return SN_EXIT_USAGE;
	}
	int rc = show((pid_t)pid);
	if (rc < 0)
		sn_tool_complain(errno == ENOENT
					 ? "process %ld does not exist, or has no open endpoint of sennit"
					 : "process %ld cannot be looked into: it belongs to another user",
				 pid);
	return rc ? 1 : 0;
}

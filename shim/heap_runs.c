/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap_runs.h"
#include <string.h>

static void remove_run(struct sn_runs *r, size_t i)
{
	memmove(&r->run[i], &r->run[i + 1], (r->count - i - 1) * sizeof(*r->run));
	r->count--;
}

size_t sn_runs_after(const struct sn_runs *r, size_t at)
{
	size_t low = 0, high = r->count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (r->run[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct sn_run *add(struct sn_runs *r, size_t at, size_t count, size_t kept, bool used)
{
	size_t i = sn_runs_after(r, at);
	struct sn_run *run = &r->run[i], *before = run - 1;
	if (i && before->at + before->count == at) {
		run = before;
		run->count += count;
		run->kept += kept;
		run->used |= used;
	} else if (r->count < SN_HEAP_RUNS) {
		memmove(run + 1, run, (r->count - i) * sizeof(*run));
		*run = (struct sn_run){at, count, kept, used};
		r->count++;
	} else {
		return NULL;
	}
	r->kept += kept;
	const struct sn_run *next = run + 1;
	if (next < r->run + r->count && run->at + run->count == next->at) {
		run->count += next->count;
		run->kept += next->kept;
		run->used |= next->used;
		remove_run(r, (size_t)(next - r->run));
	}
	return run;
}

struct sn_run *sn_runs_add(struct sn_runs *r, size_t at, size_t count, size_t kept)
{
	return add(r, at, count, kept, kept > 0);
}

void sn_runs_emptied(struct sn_runs *r, struct sn_run *run)
{
	r->kept -= run->kept;
	run->kept = 0;
	run->used = false;
}

static size_t less(size_t a, size_t b)
{
	return a < b ? a : b;
}

void sn_runs_take(struct sn_runs *r, size_t i, size_t at, size_t count)
{
	struct sn_run old = r->run[i];
	size_t before = at - old.at, after = old.count - before - count;
	size_t rest = old.kept - less(old.kept, count), first = less(rest, before);
	sn_runs_emptied(r, &r->run[i]);
	remove_run(r, i);
	if (before)
		add(r, old.at, before, first, old.used);
	if (after)
		add(r, at + count, after, rest - first, old.used);
}

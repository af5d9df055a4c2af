// SPDX-License-Identifier: GPL-2.0
/*
 * Counters, one set a CPU, added up when they are read: /sys/kernel/debug/sennit/counters for people, an ioctl for
 * programs. They are of the whole machine and say nothing about any one process.
 */
#include "sennit_kmod.h"
#include <linux/debugfs.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

struct sn_counts {
	u64 n[SENNIT_C_COUNT];
};

static DEFINE_PER_CPU(struct sn_counts, sn_counts);
static struct dentry *sn_debugfs;

static const char *const sn_count_names[SENNIT_C_COUNT] = SENNIT_COUNTER_NAMES;

void sn_count(enum sennit_counter c, u64 n)
{
	this_cpu_add(sn_counts.n[c], n);
}

static u64 sn_counter(enum sennit_counter c)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) sum += READ_ONCE(per_cpu(sn_counts, cpu).n[c]);
	return sum;
}

int sn_counters_call(struct sn_ctx *ctx, void *arg)
{
	struct sennit_counters *c = arg;
	u64 values[SENNIT_C_COUNT];
	u32 i, n = min_t(u32, c->n, SENNIT_C_COUNT);

	if (c->reserved)
		return -EINVAL;
	for (i = 0; i < n; i++)
		values[i] = sn_counter(i);
	return copy_to_user(u64_to_user_ptr(c->values), values, n * sizeof(*values)) ? -EFAULT : 0;
}

static int sn_counters_show(struct seq_file *m, void *unused)
{
	int i;

	for (i = 0; i < SENNIT_C_COUNT; i++)
		seq_printf(m, "%s %llu\n", sn_count_names[i], sn_counter(i));
	seq_printf(m, "pinned_now %llu\n", sn_pin_total());
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sn_counters);

/* The folder, for what others have to show. */
struct dentry *sn_counters_init(void)
{
	sn_debugfs = debugfs_create_dir("sennit", NULL);
	debugfs_create_file("counters", 0444, sn_debugfs, NULL, &sn_counters_fops);
	return sn_debugfs;
}

void sn_counters_exit(void)
{
	debugfs_remove_recursive(sn_debugfs);
}

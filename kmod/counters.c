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

static const char *const sn_count_names[SENNIT_C_COUNT] = {
	[SENNIT_C_REGIONS_DECLARED] = "regions_declared",
	[SENNIT_C_PAGES_PINNED] = "pages_pinned",
	[SENNIT_C_PAGES_UNPINNED] = "pages_unpinned",
	[SENNIT_C_PIN_CHUNKS] = "pin_chunks",
	[SENNIT_C_PIN_HITS] = "pin_hits",
	[SENNIT_C_PIN_RETRIES] = "pin_retries",
	[SENNIT_C_PIN_FAILURES] = "pin_failures",
	[SENNIT_C_OVERLAP_MISSES] = "overlap_misses",
	[SENNIT_C_INVALIDATIONS] = "invalidations",
	[SENNIT_C_EVICTIONS] = "evictions",
	[SENNIT_C_SHRINKS] = "shrinks",
	[SENNIT_C_COPIES] = "copies",
	[SENNIT_C_COPY_BYTES] = "copy_bytes",
	[SENNIT_C_COPY_REDONE] = "copy_redone",
	[SENNIT_C_COPY_ERRORS] = "copy_errors",
	[SENNIT_C_SHARED_PIECES] = "shared_pieces",
	[SENNIT_C_MESSAGES_SENT] = "messages_sent",
	[SENNIT_C_MESSAGES_EXPECTED] = "messages_expected",
	[SENNIT_C_MESSAGES_UNEXPECTED] = "messages_unexpected",
	[SENNIT_C_DMA_COPIES] = "dma_copies",
	[SENNIT_C_DMA_BYTES] = "dma_bytes",
	[SENNIT_C_DMA_BLOCKS] = "dma_blocks",
	[SENNIT_C_DMA_SLEEPS] = "dma_sleeps",
	[SENNIT_C_DMA_ERRORS] = "dma_errors",
	[SENNIT_C_DMA_TIMEOUTS] = "dma_timeouts",
	[SENNIT_C_DENIED] = "denied",
	[SENNIT_C_NET_PULLS] = "net_pulls",
	[SENNIT_C_NET_ENDED] = "net_ended",
	[SENNIT_C_NET_GIVEN_UP] = "net_given_up",
	[SENNIT_C_NET_FRAMES] = "net_frames",
	[SENNIT_C_NET_BYTES] = "net_bytes",
	[SENNIT_C_NET_MISSES] = "net_misses",
	[SENNIT_C_NET_DROPS] = "net_drops",
	[SENNIT_C_NET_STRAYS] = "net_strays",
	[SENNIT_C_NET_ASKED] = "net_asked",
	[SENNIT_C_NET_AGAIN] = "net_again",
	[SENNIT_C_NET_DMA_BYTES] = "net_dma_bytes",
};

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

void sn_counters_init(void)
{
	sn_debugfs = debugfs_create_dir("sennit", NULL);
	debugfs_create_file("counters", 0444, sn_debugfs, NULL, &sn_counters_fops);
}

void sn_counters_exit(void)
{
	debugfs_remove_recursive(sn_debugfs);
}

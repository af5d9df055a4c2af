// SPDX-License-Identifier: GPL-2.0
/*
 * Which CPUs share their last cache, and how large that is: as the processor or the firmware has told the kernel. The kernel
 * keeps it to itself but for the files in /sys/devices/system/cpu/cpuN/cache, so it is read by way of the devices behind
 * them. A CPU of which nothing is known shares with those of its package.
 */
#include "sennit_dma.h"
#include <linux/cacheinfo.h>
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/percpu.h>
#include <linux/topology.h>
#ifdef CONFIG_X86
#include <asm/processor.h>
#endif

struct sn_cache {
	u64 bytes;	    /* 0: not known */
	unsigned int level; /* of what holds data */
	unsigned int first; /* the first CPU that shares it */
};

static DEFINE_PER_CPU(struct sn_cache, sn_last_cache);

static int sn_cache_add(struct device *dev, void *arg)
{
	const struct cacheinfo *info = dev_get_drvdata(dev);
	struct sn_cache *last = arg;

	if (info && info->type & (CACHE_TYPE_DATA | CACHE_TYPE_UNIFIED) && info->level > last->level &&
	    !cpumask_empty(&info->shared_cpu_map))
		*last = (struct sn_cache){info->size, info->level, cpumask_first(&info->shared_cpu_map)};
	return 0;
}

/* Nobody asks meanwhile: channels.c calls it before it has any channel. */
void sn_caches_look(void)
{
	int cpu;

	for_each_possible_cpu(cpu) per_cpu(sn_last_cache, cpu) = (struct sn_cache){0};
	cpus_read_lock(); /* a CPU that goes takes its devices along */
	for_each_online_cpu(cpu)
	{
		struct device *dev = get_cpu_device(cpu);
		struct device *caches = dev ? device_find_child_by_name(dev, "cache") : NULL;

		if (!caches)
			continue;
		device_for_each_child(caches, per_cpu_ptr(&sn_last_cache, cpu), sn_cache_add);
		put_device(caches);
	}
	cpus_read_unlock();
}

bool sn_caches_shared(int a, int b)
{
	const struct sn_cache *x = per_cpu_ptr(&sn_last_cache, a), *y = per_cpu_ptr(&sn_last_cache, b);

	if (a == b)
		return true;
	if (x->bytes && y->bytes)
		return x->level == y->level && x->first == y->first;
	return topology_physical_package_id(a) == topology_physical_package_id(b);
}

u64 sn_cache_bytes(int cpu)
{
	u64 bytes = per_cpu(sn_last_cache, cpu).bytes;

	if (bytes)
		return bytes;
#ifdef CONFIG_X86
	return (u64)boot_cpu_data.x86_cache_size << 10;
#else
	return 2 << 20;
#endif
}

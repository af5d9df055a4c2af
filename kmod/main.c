// SPDX-License-Identifier: GPL-2.0
/*
 * The device: contexts and the table of calls. An argument is copied in once, as a whole, before anything looks at it,
 * and copied out once; no handler reads a caller's struct a second time.
 */
#include "sennit_kmod.h"
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/resource.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

union sn_arg {
	struct sennit_info info;
	struct sennit_declare declare;
	struct sennit_undeclare undeclare;
	struct sennit_prepare prepare;
	struct sennit_copy copy;
	struct sennit_share_open share_open;
	struct sennit_share_run share_run;
	struct sennit_share_close share_close;
	struct sennit_join join;
	struct sennit_post post;
	struct sennit_wait wait;
	struct sennit_probe probe;
	struct sennit_cancel cancel;
	struct sennit_counters counters;
	struct sennit_net_open net_open;
	struct sennit_net_close net_close;
	struct sennit_net_link net_link;
	struct sennit_net_unlink net_unlink;
	struct sennit_net_pull net_pull;
	struct sennit_net_cancel net_cancel;
	struct sennit_net_port net_port;
};

static int sn_info(struct sn_ctx *ctx, void *arg)
{
	struct sennit_info *info = arg;

	memset(info, 0, sizeof(*info));
	info->abi = SENNIT_ABI;
	info->max_segs = SENNIT_MAX_SEGS;
	info->max_regions = SN_REGIONS_MAX;
	info->pinned_pages = sn_pin_total();
	info->pin_limit = sn_pin_limit();
	info->n_counters = SENNIT_C_COUNT;
	sn_dma_info(info);
	return 0;
}

static const struct sn_call {
	unsigned int cmd;
	int (*handler)(struct sn_ctx *ctx, void *arg);
} sn_calls[] = {
	{SENNIT_IOC_INFO, sn_info},
	{SENNIT_IOC_DECLARE, sn_region_declare},
	{SENNIT_IOC_UNDECLARE, sn_region_undeclare},
	{SENNIT_IOC_PREPARE, sn_region_prepare},
	{SENNIT_IOC_COPY, sn_copy_call},
	{SENNIT_IOC_SHARE_OPEN, sn_share_open},
	{SENNIT_IOC_SHARE_RUN, sn_share_run},
	{SENNIT_IOC_SHARE_CLOSE, sn_share_close},
	{SENNIT_IOC_JOIN, sn_match_join},
	{SENNIT_IOC_SEND, sn_match_send},
	{SENNIT_IOC_RECV, sn_match_recv},
	{SENNIT_IOC_WAIT, sn_match_wait},
	{SENNIT_IOC_PROBE, sn_match_probe},
	{SENNIT_IOC_CANCEL, sn_match_cancel},
	{SENNIT_IOC_COUNTERS, sn_counters_call},
	{SENNIT_IOC_NET_OPEN, sn_net_open},
	{SENNIT_IOC_NET_CLOSE, sn_net_close},
	{SENNIT_IOC_NET_LINK, sn_net_link},
	{SENNIT_IOC_NET_UNLINK, sn_net_unlink},
	{SENNIT_IOC_NET_PULL, sn_net_pull},
	{SENNIT_IOC_NET_CANCEL, sn_net_cancel},
	{SENNIT_IOC_NET_PORT, sn_net_port},
};

static long sn_ioctl(struct file *file, unsigned int cmd, unsigned long user)
{
	struct sn_ctx *ctx = file->private_data;
	const struct sn_call *call;
	union sn_arg arg;
	int err;

	if (_IOC_NR(cmd) >= ARRAY_SIZE(sn_calls))
		return -ENOTTY;
	call = &sn_calls[array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(sn_calls))];
	if (call->cmd != cmd)
		return -ENOTTY;
	/* Handles, limits and memory are those of the opener: nobody else may spend them. */
	if (current->mm != ctx->mm)
		return -EPERM;
	WRITE_ONCE(ctx->memlock, ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK)
					 ? U64_MAX
					 : rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT);
	WRITE_ONCE(ctx->cpu, raw_smp_processor_id());

	memset(&arg, 0, sizeof(arg));
	if ((_IOC_DIR(cmd) & _IOC_WRITE) && copy_from_user(&arg, (void __user *)user, _IOC_SIZE(cmd)))
		return -EFAULT;
	err = call->handler(ctx, &arg);
	if ((_IOC_DIR(cmd) & _IOC_READ) && copy_to_user((void __user *)user, &arg, _IOC_SIZE(cmd)))
		return -EFAULT;
	return err;
}

static int sn_open(struct inode *inode, struct file *file)
{
	struct sn_ctx *ctx;

	if (!current->mm)
		return -EINVAL;
	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx)
		return -ENOMEM;
	kref_init(&ctx->ref);
	ctx->mm = current->mm;
	mmgrab(ctx->mm);
	ctx->cred = get_current_cred();
	xa_init_flags(&ctx->regions, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&ctx->shares, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&ctx->nets, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&ctx->requests, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	mutex_init(&ctx->join_lock);
	init_waitqueue_head(&ctx->wait);
	init_waitqueue_head(&ctx->pin_wait);
	sn_dma_open();
	file->private_data = ctx;
	return nonseekable_open(inode, file);
}

void sn_ctx_free(struct kref *ref)
{
	struct sn_ctx *ctx = container_of(ref, struct sn_ctx, ref);

	xa_destroy(&ctx->regions);
	xa_destroy(&ctx->shares);
	xa_destroy(&ctx->requests);
	xa_destroy(&ctx->nets);
	put_cred(ctx->cred);
	mmdrop(ctx->mm);
	kfree(ctx);
}

/* Messages first (they own regions nobody else knows), then transfers, then regions: each drops what it holds. */
static int sn_release(struct inode *inode, struct file *file)
{
	struct sn_ctx *ctx = file->private_data;

	sn_net_close_all(ctx);
	sn_match_leave(ctx);
	sn_share_close_all(ctx);
	sn_region_close_all(ctx);
	sn_dma_close();
	sn_ctx_put(ctx);
	return 0;
}

static int sn_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct sn_ctx *ctx = file->private_data;

	return current->mm == ctx->mm ? sn_net_map(ctx, vma) : -EPERM;
}

static const struct file_operations sn_fops = {
	.owner = THIS_MODULE,
	.open = sn_open,
	.release = sn_release,
	.unlocked_ioctl = sn_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = sn_mmap,
};

static struct miscdevice sn_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sennit",
	.fops = &sn_fops,
	.mode = 0666, /* memory is limited by RLIMIT_MEMLOCK and memcg, access by credentials */
};

static int __init sn_module_init(void)
{
	int err = sn_pin_init();

	if (err)
		return err;
	err = sn_net_init();
	if (err)
		goto no_net;
	sn_dma_init(sn_counters_init());
	err = misc_register(&sn_device);
	if (!err)
		return 0;
	sn_counters_exit();
	sn_dma_exit();
	sn_net_exit();
no_net:
	sn_pin_exit();
	return err;
}

static void __exit sn_module_exit(void)
{
	misc_deregister(&sn_device);
	sn_counters_exit();
	sn_dma_exit();
	sn_net_exit();
	sn_pin_exit();
}

module_init(sn_module_init);
module_exit(sn_module_exit);
MODULE_DESCRIPTION("sennit: regions pinned on demand, single copy, DMA offload, network fetches, messages "
		   "matched in the kernel");
MODULE_AUTHOR("the sennit authors");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");

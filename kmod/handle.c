// SPDX-License-Identifier: GPL-2.0
/*
 * Handles: how one process names an object of another. 64 random bits, looked up together with the kind of object, and
 * good only in the hands of the same user. What does not exist and what is refused look the same.
 */
#include "sennit_kmod.h"
#include <linux/capability.h>
#include <linux/hashtable.h>
#include <linux/random.h>

static DEFINE_HASHTABLE(sn_handles, 10);
static DEFINE_SPINLOCK(sn_handles_lock);

/*
 * As ptrace asks: the same user in all three user and group ids, or the right to trace him. The ids compared are the
 * kernel's, so ranks in user namespaces of one user's own may exchange handles, where ptrace would refuse.
 */
static bool sn_cred_allowed(const struct cred *owner)
{
	const struct cred *me = current_cred();

	if (uid_eq(me->euid, owner->euid) && uid_eq(me->uid, owner->uid) && uid_eq(me->suid, owner->suid) &&
	    gid_eq(me->egid, owner->egid) && gid_eq(me->gid, owner->gid) && gid_eq(me->sgid, owner->sgid))
		return true;
	if (ns_capable_noaudit(owner->user_ns, CAP_SYS_PTRACE))
		return true;
	sn_count(SENNIT_C_DENIED, 1);
	return false;
}

static struct sn_handle *sn_handle_look(u64 value)
{
	struct sn_handle *h;

	hash_for_each_possible(sn_handles, h, node, value)
	{
		if (h->value == value)
			return h;
	}
	return NULL;
}

/* cred must live as long as the object. */
void sn_handle_init(struct sn_handle *h, enum sn_handle_kind kind, const struct cred *cred)
{
	INIT_HLIST_NODE(&h->node);
	kref_init(&h->ref);
	h->kind = kind;
	h->cred = cred;
	h->value = 0;
}

u64 sn_handle_publish(struct sn_handle *h)
{
	u64 value;

	do {
		value = get_random_u64();
		spin_lock(&sn_handles_lock);
		if (value && !sn_handle_look(value)) {
			h->value = value;
			hash_add(sn_handles, &h->node, value);
		}
		spin_unlock(&sn_handles_lock);
	} while (!h->value);
	return value;
}

/* Must come before the last reference is dropped. An object that was never published may be withdrawn too. */
void sn_handle_withdraw(struct sn_handle *h)
{
	spin_lock(&sn_handles_lock);
	hash_del(&h->node);
	spin_unlock(&sn_handles_lock);
}

/* The object, with a reference for the caller, or NULL. The lock keeps the object, and so its cred, alive meanwhile. */
struct sn_handle *sn_handle_find(u64 value, enum sn_handle_kind kind)
{
	struct sn_handle *h;

	spin_lock(&sn_handles_lock);
	h = sn_handle_look(value);
	if (h && h->kind == kind && sn_cred_allowed(h->cred))
		kref_get(&h->ref);
	else
		h = NULL;
	spin_unlock(&sn_handles_lock);
	return h;
}

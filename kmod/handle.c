// SPDX-License-Identifier: GPL-2.0
/*
 * Handles: how one process names an object of another. 64 random bits, looked up together with the kind of object, and
 * good only in the hands of the same user. What does not exist and what is refused look the same.
 */
#include "sennit_kmod.h"
#include <linux/capability.h>
#include <linux/random.h>

/* A tree: whoever makes very many of them makes nobody else's look-ups, which are under the lock, much longer. */
static struct rb_root sn_handles = RB_ROOT;
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

/* The handle, or NULL and where it would be. */
static struct sn_handle *sn_handle_look(u64 value, struct rb_node **parent, struct rb_node ***at)
{
	*parent = NULL;
	*at = &sn_handles.rb_node;
	while (**at) {
		struct sn_handle *h = rb_entry(**at, struct sn_handle, node);

		if (value == h->value)
			return h;
		*parent = **at;
		*at = value < h->value ? &(*parent)->rb_left : &(*parent)->rb_right;
	}
	return NULL;
}

/* cred must live as long as the object. */
void sn_handle_init(struct sn_handle *h, enum sn_handle_kind kind, const struct cred *cred)
{
	RB_CLEAR_NODE(&h->node);
	kref_init(&h->ref);
	h->kind = kind;
	h->cred = cred;
	h->value = 0;
}

u64 sn_handle_publish(struct sn_handle *h)
{
	struct rb_node *parent, **at;
	u64 value;

	do {
		value = get_random_u64();
		spin_lock(&sn_handles_lock);
		if (value && !sn_handle_look(value, &parent, &at)) {
			h->value = value;
			rb_link_node(&h->node, parent, at);
			rb_insert_color(&h->node, &sn_handles);
		}
		spin_unlock(&sn_handles_lock);
	} while (!h->value);
	return value;
}

/* Must come before the last reference is dropped. An object that was never published may be withdrawn too. */
void sn_handle_withdraw(struct sn_handle *h)
{
	spin_lock(&sn_handles_lock);
	if (!RB_EMPTY_NODE(&h->node)) {
		rb_erase(&h->node, &sn_handles);
		RB_CLEAR_NODE(&h->node);
	}
	spin_unlock(&sn_handles_lock);
}

/* The object, with a reference for the caller, or NULL. The lock keeps the object, and so its cred, alive meanwhile. */
struct sn_handle *sn_handle_find(u64 value, enum sn_handle_kind kind)
{
	struct rb_node *parent, **at;
	struct sn_handle *h;

	spin_lock(&sn_handles_lock);
	h = sn_handle_look(value, &parent, &at);
	if (h && h->kind == kind && sn_cred_allowed(h->cred))
		kref_get(&h->ref);
	else
		h = NULL;
	spin_unlock(&sn_handles_lock);
	return h;
}

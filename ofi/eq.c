/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event queues: address vector and registration events, if somebody binds one, and what the application writes itself.
 * Every event is made inside this process, so an eventfd that counts them is an honest thing to wait for.
 */
#include "ofi.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct event {
	struct event *next;
	uint32_t type;
	int err; /* 0, or a positive FI_ error: read by fi_eq_readerr */
	size_t len;
	uint8_t data[];
};

struct sn_ofi_eq {
	struct fid_eq fid;
	struct sn_ofi_fabric *fabric;
	pthread_mutex_t lock;
	struct event *first, **last;
	int fd;	       /* semaphore: counts the events */
	bool wait_fd;  /* the application may wait for it */
	bool writable; /* opened with FI_WRITE */
	_Atomic int refs;
};

static struct sn_ofi_eq *eq_of(struct fid_eq *fid)
{
	return sn_container(fid, struct sn_ofi_eq, fid);
}

static int append(struct sn_ofi_eq *eq, uint32_t type, int err, const void *data, size_t len)
{
	struct event *e = malloc(sizeof(*e) + len);
	uint64_t one = 1;

	if (!e)
		return -FI_ENOMEM;
	*e = (struct event){.type = type, .err = err, .len = len};
	memcpy(e->data, data, len);
	pthread_mutex_lock(&eq->lock);
	*eq->last = e;
	eq->last = &e->next;
	/* With the lock held, so that the count never lags behind the list. It cannot overflow or block. */
	if (write(eq->fd, &one, sizeof(one)) != sizeof(one))
		abort();
	pthread_mutex_unlock(&eq->lock);
	return 0;
}

/* With the lock held. */
static void drop_first(struct sn_ofi_eq *eq)
{
	struct event *e = eq->first;
	uint64_t one;

	eq->first = e->next;
	if (!eq->first)
		eq->last = &eq->first;
	free(e);
	if (read(eq->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

int sn_ofi_eq_report(struct sn_ofi_eq *eq, uint32_t event, struct fid *fid, void *context, uint64_t data,
		     int err)
{
	struct fi_eq_entry entry = {.fid = fid, .context = context, .data = data};

	return append(eq, event, err, &entry, sizeof(entry));
}

void sn_ofi_eq_hold(struct sn_ofi_eq *eq, int by)
{
	atomic_fetch_add(&eq->refs, by);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct sn_ofi_eq *eq = eq_of(fid);
	ssize_t rc = -FI_EAGAIN;

	pthread_mutex_lock(&eq->lock);
	struct event *e = eq->first;
	if (e && e->err) {
		rc = -FI_EAVAIL;
	} else if (e && len < e->len) {
		rc = -FI_ETOOSMALL;
	} else if (e) {
		*event = e->type;
		memcpy(buf, e->data, e->len);
		rc = (ssize_t)e->len;
		if (!(flags & FI_PEEK))
			drop_first(eq);
	}
	pthread_mutex_unlock(&eq->lock);
	return rc;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct sn_ofi_eq *eq = eq_of(fid);
	ssize_t rc = -FI_EAGAIN;

	pthread_mutex_lock(&eq->lock);
	struct event *e = eq->first;
	if (e && e->err) {
		struct fi_eq_entry entry;
		memcpy(&entry, e->data, sizeof(entry)); /* errors are only made by sn_ofi_eq_report */
		buf->fid = entry.fid;
		buf->context = entry.context;
		buf->data = entry.data;
		buf->err = e->err;
		buf->prov_errno = 0;
		buf->err_data_size = 0;
		rc = sizeof(*buf);
		if (!(flags & FI_PEEK))
			drop_first(eq);
	}
	pthread_mutex_unlock(&eq->lock);
	return rc;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	struct sn_ofi_eq *eq = eq_of(fid);
	int rc;

	if (!eq->writable)
		return -FI_EINVAL;
	rc = append(eq, event, 0, buf, len);
	return rc ? rc : (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	struct sn_ofi_eq *eq = eq_of(fid);
	uint64_t end = sn_ofi_deadline(timeout);

	for (;;) {
		struct pollfd p = {.fd = eq->fd, .events = POLLIN};
		uint64_t now = end == UINT64_MAX ? 0 : sn_now_ns();
		int left = end == UINT64_MAX ? -1 : now >= end ? 0 : (int)((end - now + 999999) / 1000000);
		ssize_t rc = eq_read(fid, event, buf, len, flags);
		if (rc != -FI_EAGAIN || !left)
			return rc;
		if (poll(&p, 1, left) < 0 && errno != EINTR)
			return -errno;
	}
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	static const char text[] = "sennit: no further detail";

	if (buf && len) {
		snprintf(buf, len, "%s", text);
		return buf;
	}
	return text;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct sn_ofi_eq *eq = sn_container(fid, struct sn_ofi_eq, fid.fid);

	if (command != FI_GETWAIT || !eq->wait_fd)
		return -FI_ENOSYS;
	*(int *)arg = eq->fd;
	return 0;
}

static int eq_close(struct fid *fid)
{
	struct sn_ofi_eq *eq = sn_container(fid, struct sn_ofi_eq, fid.fid);

	if (atomic_load(&eq->refs))
		return -FI_EBUSY;
	while (eq->first)
		drop_first(eq);
	close(eq->fd);
	pthread_mutex_destroy(&eq->lock);
	sn_ofi_fabric_put(eq->fabric);
	free(eq);
	return 0;
}

/* Queues and counters have nothing to block on; an event queue may be waited for while it is empty. */
int sn_ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	for (int i = 0; i < count; i++) {
		if (fids[i]->fclass != FI_CLASS_EQ)
			return -FI_ENOSYS;
		struct sn_ofi_eq *eq = sn_container(fids[i], struct sn_ofi_eq, fid.fid);
		pthread_mutex_lock(&eq->lock);
		bool empty = !eq->first;
		pthread_mutex_unlock(&eq->lock);
		if (!empty)
			return -FI_EAGAIN;
	}
	return 0;
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = sn_ofi_no_bind,
	.control = eq_control,
	.ops_open = sn_ofi_no_ops_open,
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int sn_ofi_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	struct sn_ofi_eq *eq;

	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
	    attr->wait_obj != FI_WAIT_FD && attr->wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	eq->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (eq->fd < 0) {
		int rc = -errno;
		free(eq);
		return rc;
	}
	eq->fid.fid = (struct fid){.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_fid_ops};
	eq->fid.ops = &eq_ops;
	eq->fabric = sn_container(fid, struct sn_ofi_fabric, fid);
	eq->wait_fd = attr->wait_obj == FI_WAIT_FD || attr->wait_obj == FI_WAIT_UNSPEC;
	eq->writable = attr->flags & FI_WRITE;
	eq->last = &eq->first;
	pthread_mutex_init(&eq->lock, NULL);
	atomic_fetch_add(&eq->fabric->refs, 1);
	*out = &eq->fid;
	return 0;
}

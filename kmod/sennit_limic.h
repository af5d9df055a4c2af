/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * LiMIC's calls over /dev/sennit, for programs and MPI libraries that want messages between processes of one machine
 * matched, and copied once, by the kernel. Each function is one system call; nothing needs to be linked.
 *
 *   rank 0: sn_limic_open(&l, 0, 0), hands l.job to the others (it works for processes of the same user only);
 *   others: sn_limic_open(&l, job, rank).
 *   sn_limic_isend(&l, dest, tag, context, buf, len, &request) ... sn_limic_wait(&l, request, SENNIT_FOREVER, &status)
 *
 * Everything returns 0 or a negative errno. Errors of starting a message: EINVAL, EAGAIN (too many requests are open),
 * ENOMEM. What went wrong with a message is in its status. A buffer is the kernel's until its request is complete.
 * Any thread may call; who waits for one request from two threads gets it once.
 */
#ifndef SENNIT_LIMIC_H
#define SENNIT_LIMIC_H

#include "sennit_ioctl.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct sn_limic {
	int fd;
	int rank;
	uint64_t job;
};

struct sn_limic_status {
	int source;
	int tag;
	int error; /* 0, -EMSGSIZE (longer than the buffer), -EPIPE (the peer has gone), -ECANCELED, -EFAULT, -ENOMEM */
	uint64_t len; /* bytes moved */
};

static inline int sn_limic_call(const struct sn_limic *l, unsigned long what, void *arg)
{
	return ioctl(l->fd, what, arg) < 0 ? -errno : 0;
}

/* ENOENT: no such job, or another user's. EADDRINUSE: the rank is taken, or was. */
static inline int sn_limic_open(struct sn_limic *l, uint64_t job, unsigned rank)
{
	struct sennit_join j = {.job = job, .rank = rank};
	int err;

	l->fd = open(SENNIT_DEVICE, O_RDWR | O_CLOEXEC);
	if (l->fd < 0)
		return -errno;
	err = sn_limic_call(l, SENNIT_IOC_JOIN, &j);
	if (err)
		close(l->fd);
	l->rank = (int)rank;
	l->job = j.job;
	return err;
}

/* Open requests end; those that others have with this rank complete with EPIPE. */
static inline void sn_limic_close(struct sn_limic *l)
{
	close(l->fd);
}

/* Vectors of up to SENNIT_MAX_SEGS segments; n 0 is an empty message. */
static inline int sn_limic_isendv(const struct sn_limic *l, int dest, int tag, unsigned context,
				  const struct sennit_seg *segs, unsigned n, uint64_t *request)
{
	struct sennit_post p = {
		.peer = dest, .tag = tag, .context = context, .nsegs = n, .segs = (uintptr_t)segs};
	int err = sn_limic_call(l, SENNIT_IOC_SEND, &p);

	*request = p.request;
	return err;
}

/* source and tag may be SENNIT_ANY. */
static inline int sn_limic_irecvv(const struct sn_limic *l, int source, int tag, unsigned context,
				  const struct sennit_seg *segs, unsigned n, uint64_t *request)
{
	struct sennit_post p = {
		.peer = source, .tag = tag, .context = context, .nsegs = n, .segs = (uintptr_t)segs};
	int err = sn_limic_call(l, SENNIT_IOC_RECV, &p);

	*request = p.request;
	return err;
}

static inline int sn_limic_isend(const struct sn_limic *l, int dest, int tag, unsigned context,
				 const void *buf, size_t len, uint64_t *request)
{
	struct sennit_seg seg = {(uintptr_t)buf, len};

	return sn_limic_isendv(l, dest, tag, context, &seg, len ? 1 : 0, request);
}

static inline int sn_limic_irecv(const struct sn_limic *l, int source, int tag, unsigned context, void *buf,
				 size_t len, uint64_t *request)
{
	struct sennit_seg seg = {(uintptr_t)buf, len};

	return sn_limic_irecvv(l, source, tag, context, &seg, len ? 1 : 0, request);
}

/* EAGAIN: not complete within timeout_us (0: only ask). EINTR: a signal came. The request stays open in both cases. */
static inline int sn_limic_wait(const struct sn_limic *l, uint64_t request, uint64_t timeout_us,
				struct sn_limic_status *status)
{
	struct sennit_wait w = {.request = request, .timeout_us = timeout_us};
	int err = sn_limic_call(l, SENNIT_IOC_WAIT, &w);

	if (!err && status)
		*status = (struct sn_limic_status){
			.source = w.source, .tag = w.tag, .error = w.error, .len = w.len};
	return err;
}

/* 1: a message waits that such a receive would take, and *status tells which; 0: none. */
static inline int sn_limic_probe(const struct sn_limic *l, int source, int tag, unsigned context,
				 struct sn_limic_status *status)
{
	struct sennit_probe p = {.peer = source, .tag = tag, .context = context};
	int err = sn_limic_call(l, SENNIT_IOC_PROBE, &p);

	if (!err && p.found && status)
		*status = (struct sn_limic_status){.source = p.peer, .tag = p.tag, .len = p.len};
	return err ? err : (int)p.found;
}

/* 0: it completes with ECANCELED. EBUSY: it was matched already, and completes as if nothing had been asked. */
static inline int sn_limic_cancel(const struct sn_limic *l, uint64_t request)
{
	struct sennit_cancel c = {request};

	return sn_limic_call(l, SENNIT_IOC_CANCEL, &c);
}

#endif

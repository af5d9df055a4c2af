/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making and watching connections. See wire.h for what is said and progress/service.h for the lock.
 *
 * Every endpoint listens on an abstract SOCK_SEQPACKET socket named after its id: no file exists, and the name goes with
 * the process. Who may join: a process of the same user (SO_PEERCRED, checked by both sides before anything is read)
 * that knows the endpoint's key. The socket stays open afterwards; its end is the news of the peer's death. Because a
 * forked child may keep a copy of the socket open, the peer's pidfd is watched too, where its pid is visible.
 *
 * Nothing blocks: a full backlog, which happens when hundreds connect at once or the peer is stopped, is tried again by
 * timer.
 *
 * Order at the end: when a connection ends, connections that wait in the backlog are taken first, because the peer may
 * have sent its channel on one of them, with messages in it, and then closed everything.
 */
#include "base/log.h"
#include "local/local.h"
#include "progress/memfd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define BACKLOG	       4096
#define RETRY_FIRST_NS 1000000u
#define RETRY_MOST_NS  50000000u
#define FD_MARGIN      32 /* descriptors kept free for those that arrive in messages */

static socklen_t name_of(uint64_t id, struct sockaddr_un *sa)
{
	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "sennit-%016llx",
			 (unsigned long long)id);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int socket_new(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 && errno == EMFILE && sn_fd_limit_raise())
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd;
}

/* Who is at the other end? False: another user, or it cannot be told. */
static bool same_user(int fd, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) || len != sizeof(cred))
		return false;
	*pid = cred.pid;
	return cred.uid == geteuid();
}

/* ---- mail ---------------------------------------------------------------------------------------------------- */

static void mail_send(struct sn_mail *mail)
{
	struct sn_rail *rail = mail->conn->rail;
	if (!sn_list_empty(&mail->link))
		return;
	sn_list_add_tail(&rail->mails, &mail->link);
	atomic_store_explicit(&rail->has_mail, true, memory_order_release);
	sn_bell_ring_self();
}

struct sn_mail *sn_conn_mail(struct sn_rail *rail)
{
	struct sn_mail *mail = NULL;
	sn_service_lock();
	if (sn_list_empty(&rail->mails)) {
		atomic_store_explicit(&rail->has_mail, false, memory_order_relaxed);
	} else {
		mail = sn_container(rail->mails.next, struct sn_mail, link);
		sn_list_del(&mail->link);
	}
	sn_service_unlock();
	return mail;
}

/* ---- life and death of a connection -------------------------------------------------------------------------- */

static void sock_ready(struct sn_watch *w, uint32_t events);
static void life_ready(struct sn_watch *w, uint32_t events);
static void retry_fire(struct sn_timer *t);

static struct sn_conn *conn_new(struct sn_rail *rail, enum sn_conn_state state)
{
	struct sn_conn *conn = calloc(1, sizeof(*conn));
	if (!conn) {
		sn_fail(SN_ERR_NOMEM, "no memory for a connection");
		return NULL;
	}
	conn->rail = rail;
	conn->state = state;
	conn->sock = (struct sn_watch){.fd = -1, .ready = sock_ready};
	conn->life = (struct sn_watch){.fd = -1, .ready = life_ready};
	conn->retry.fire = retry_fire;
	conn->chan_fd = -1;
	conn->greeting.conn = conn->farewell.conn = conn;
	conn->farewell.gone = true;
	sn_list_init(&conn->greeting.link);
	sn_list_init(&conn->farewell.link);
	sn_list_init(&conn->owner_link);
	sn_list_add_tail(&rail->conns, &conn->link);
	return conn;
}

static void conn_close(struct sn_conn *conn)
{
	sn_service_unwatch(&conn->sock);
	sn_service_unwatch(&conn->life);
	sn_service_disarm(&conn->retry);
	if (conn->chan_fd >= 0)
		close(conn->chan_fd);
	conn->chan_fd = -1;
	conn->welcome_due = false;
	conn->state = SN_CONN_DEAD;
}

static void conn_free(struct sn_conn *conn)
{
	conn_close(conn);
	sn_list_del(&conn->link);
	sn_list_del(&conn->greeting.link);
	sn_list_del(&conn->farewell.link);
	if (conn->chan)
		munmap(conn->chan, SN_RING_OFFSET + conn->theirs.ring_bytes);
	sn_bell_unmap(conn->bell);
	if (conn->board)
		munmap(conn->board, SN_BOARD_BYTES);
	sn_heap_unmap(&conn->heap);
	free(conn);
}

void sn_conn_free(struct sn_conn *conn)
{
	sn_list_del(&conn->owner_link);
	sn_service_lock();
	conn_free(conn);
	sn_service_unlock();
}

static void conn_farewell(struct sn_conn *conn, int status)
{
	conn->status = status;
	conn_close(conn);
	mail_send(&conn->farewell);
}

/* It is over. The endpoint hears of it if it knows the connection, or is about to. */
static void conn_gone(struct sn_conn *conn, int status)
{
	if (conn->state == SN_CONN_ACCEPTED) /* one that said nothing was never reported */
		conn_free(conn);
	else if (conn->state != SN_CONN_DEAD)
		conn_farewell(conn, status);
}

/* Descriptors that arrive in a message are lost if there is no room for them: make room in time. False: there is no more. */
static bool has_margin(int newest)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)newest + FD_MARGIN <= limit.rlim_cur)
		return true;
	return sn_fd_limit_raise();
}

/* Watch the process at the other end. Without a pidfd (old kernel, invisible pid, few descriptors) the socket has to do. */
static void watch_life(struct sn_conn *conn)
{
	int fd = -1;
	socklen_t len = sizeof(fd);
	if (!has_margin(conn->sock.fd))
		return;
	if (getsockopt(conn->sock.fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		fd = conn->copy.pid ? (int)syscall(SYS_pidfd_open, conn->copy.pid, 0) : -1;
	if (fd >= 0 && sn_service_watch(&conn->life, fd, EPOLLIN))
		close(fd);
}

/* ---- messages on the socket ---------------------------------------------------------------------------------- */

/* 0, or a negative errno. The channel's descriptor is closed once it has left. */
static int hello_send(struct sn_conn *conn, bool welcome)
{
	struct sn_rail *rail = conn->rail;
	struct sn_local_hello hello = {.magic = SN_LOCAL_MAGIC,
				       .version = SN_LOCAL_VERSION,
				       .welcome = welcome,
				       .no_channel = conn->chan_fd < 0,
				       .pid = (uint32_t)getpid(),
				       .ring_bytes = conn->ring_bytes};
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int)) + 1];
		struct cmsghdr align;
	} control;
	memset(&control, 0, sizeof(control));
	hello.addr_len = (uint32_t)sn_core_address(rail->ep, hello.addr);
	memcpy(hello.key, conn->to.key, sizeof(hello.key));
	sn_probe_own(&hello.cookie_at, &hello.cookie);
	int fds[4] = {sn_bell_fd(), rail->board_fd, conn->chan_fd}, n = hello.no_channel ? 2 : 3;
	if (sn_heap_current(&rail->heap)) {
		hello.heap = rail->heap.span;
		hello.heap_generation = rail->heap.generation;
		fds[n++] = rail->heap.fd;
	}
	size_t fd_bytes = sizeof(int) * (size_t)n;
	struct iovec v = {&hello, sizeof(hello)};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes};
	msg.msg_controllen = CMSG_SPACE(fd_bytes);
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(fd_bytes);
	memcpy(CMSG_DATA(c), fds, fd_bytes);
	if (sendmsg(conn->sock.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(hello))
		return -errno;
	if (conn->chan_fd >= 0)
		close(conn->chan_fd);
	conn->chan_fd = -1;
	return 0;
}

/* Receive one message with its descriptors. Returns bytes, 0 at the end, or a negative errno; fds are -1 if missing. */
static ssize_t hello_recv(int sock, struct sn_local_hello *hello, int fds[4])
{
	union {
		char bytes[CMSG_SPACE(5 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec v = {hello, sizeof(*hello)};
	struct msghdr msg = {.msg_iov = &v,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	uint32_t count = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (count < 4)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	if (msg.msg_flags & MSG_CTRUNC && count < 4)
		return -EMFILE;
	return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EBADMSG : n;
}

/* Check what a peer said, and map what it sent. 0 or an error with its sentence. */
static int hello_check(struct sn_conn *conn, const struct sn_local_hello *h, ssize_t n, const int fds[4])
{
	bool welcome = conn->state == SN_CONN_ASKED;
	if (n != (ssize_t)sizeof(*h) || h->magic != SN_LOCAL_MAGIC)
		return sn_fail(SN_ERR_PROTO, "this is not a sennit handshake");
	if (h->version != SN_LOCAL_VERSION)
		return sn_fail(SN_ERR_PROTO,
			       "pid %u speaks version %u of the local protocol, this library %d: use one "
			       "version of sennit in the whole job",
			       h->pid, h->version, SN_LOCAL_VERSION);
	if (memcmp(h->key, conn->rail->ids.key, sizeof(h->key)) != 0)
		return sn_fail(SN_ERR_PROTO, "pid %u does not know the endpoint's key", h->pid);
	uint32_t ring = h->ring_bytes;
	bool with_channel = !h->no_channel;
	if (h->welcome != welcome || h->addr_len > SN_ADDR_MAX || (!welcome && !with_channel) || fds[0] < 0 ||
	    fds[1] < 0 ||
	    (with_channel &&
	     (fds[2] < 0 || ring < SN_RING_BYTES_MIN || ring > SN_RING_BYTES_MAX || (ring & (ring - 1)))))
		return sn_fail(SN_ERR_PROTO, "pid %u sent a malformed handshake", h->pid);
	if (!(conn->bell = sn_bell_map(fds[0])))
		return SN_ERR_PROTO;
	if (!(conn->board = sn_memfd_map(fds[1], SN_BOARD_BYTES)))
		return SN_ERR_PROTO;
	if (with_channel && !(conn->chan = sn_memfd_map(fds[2], SN_RING_OFFSET + (size_t)ring)))
		return SN_ERR_PROTO;
	if (h->heap.bytes) /* One that cannot be mapped is no error: the kernel copies. */
		conn->heap = sn_heap_map(fds[2 + with_channel], &h->heap);
	return 0;
}

/* 0, or why the connection is at its end. */
static int hello_take(struct sn_conn *conn, const struct sn_local_hello *h, ssize_t n, const int fds[4])
{
	conn->theirs = *h;
	int rc = hello_check(conn, &conn->theirs, n, fds);
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (rc) {
		conn->rail->count.bad_handshakes++;
		sn_warn("a local connection is refused: %s", sn_last_error());
		return SN_ERR_PROTO;
	}
	conn->state = SN_CONN_GREETED;
	conn->copy.cookie_at = conn->theirs.cookie_at;
	conn->copy.cookie = conn->theirs.cookie;
	sn_probe_peer(&conn->copy, &conn->read_error, &conn->write_error);
	mail_send(&conn->greeting);
	/* What the endpoint has written before it could know this bell. */
	sn_bell_ring(conn->bell, true);
	return 0;
}

/* Read one message if there is one. 0, or why the connection is at its end. */
static int sock_read(struct sn_conn *conn)
{
	struct sn_local_hello hello;
	int fds[4] = {-1, -1, -1, -1};
	memset(&hello, 0, sizeof(hello));
	bool expected = conn->state == SN_CONN_ASKED || conn->state == SN_CONN_ACCEPTED;
	ssize_t n = hello_recv(conn->sock.fd, &hello, fds);
	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n > 0 && expected)
		return hello_take(conn, &hello, n, fds);
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (n == -EMFILE)
		sn_warn("a local connection fails: too many open files for the descriptors of a peer");
	return n > 0 || n == -EBADMSG ? SN_ERR_PROTO : SN_ERR_PEER_GONE;
}

/* ---- accepting ----------------------------------------------------------------------------------------------- */

static void accepted(struct sn_rail *rail, int fd)
{
	pid_t pid = 0;
	has_margin(fd);
	if (!same_user(fd, &pid)) {
		rail->count.bad_handshakes++;
		sn_warn("a local connection by another user (pid %d) is refused", (int)pid);
		close(fd);
		return;
	}
	struct sn_conn *conn = conn_new(rail, SN_CONN_ACCEPTED);
	if (!conn || sn_service_watch(&conn->sock, fd, EPOLLIN | EPOLLRDHUP)) {
		close(fd);
		if (conn)
			conn_free(conn);
		return;
	}
	conn->copy.pid = pid;
	watch_life(conn);
	int status = sock_read(conn); /* the HELLO usually lies there already */
	if (status)
		conn_gone(conn, status);
}

/* By a filter of system calls: it stays so. */
static bool is_refused(int error)
{
	return error == EPERM || error == ENOSYS || error == EACCES;
}

/* The next one of the backlog. Some filters know accept() alone. */
static int backlog_next(int listener)
{
	/* cppcheck-suppress nullPointer ; its table does not know that no address may be wanted */
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0 || !is_refused(errno))
		return fd;
	/* cppcheck-suppress nullPointer ; likewise */
	fd = accept(listener, NULL, NULL);
	if (fd < 0 || (!fcntl(fd, F_SETFD, FD_CLOEXEC) && !fcntl(fd, F_SETFL, O_NONBLOCK)))
		return fd;
	close(fd);
	return -1;
}

static void backlog_take(struct sn_rail *rail)
{
	while (rail->listener.fd >= 0) {
		int fd = backlog_next(rail->listener.fd);
		if (fd >= 0) {
			accepted(rail, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED || (errno == EMFILE && sn_fd_limit_raise()))
			continue;
		int error = errno;
		if (error == EAGAIN)
			return;
		sn_warn("accepting a local connection: %s", strerror(error));
		if (is_refused(error)) /* from now on: who waits for an answer learns so */
			sn_service_unwatch(&rail->listener);
		else /* out of descriptors: the listener stays ready; do not spin on it */
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		return;
	}
}

static void listener_ready(struct sn_watch *w, uint32_t events)
{
	backlog_take(sn_container(w, struct sn_rail, listener));
}

static void sock_ready(struct sn_watch *w, uint32_t events)
{
	struct sn_conn *conn = sn_container(w, struct sn_conn, sock);
	int status = sock_read(conn);
	if (status) {
		backlog_take(conn->rail);
		conn_gone(conn, status);
	}
}

static void life_ready(struct sn_watch *w, uint32_t events)
{
	struct sn_conn *conn = sn_container(w, struct sn_conn, life);
	int status = sock_read(conn); /* what it said before it died may still lie in the socket */
	backlog_take(conn->rail);
	conn_gone(conn, status ? status : SN_ERR_PEER_GONE);
}

/* ---- connecting ---------------------------------------------------------------------------------------------- */

/* A full backlog, or too many descriptors of this user in flight: these pass. */
static bool try_later(struct sn_conn *conn, int error)
{
	if (error != EAGAIN && error != EINTR && error != ETOOMANYREFS && error != ENOBUFS)
		return false;
	conn->delay = conn->delay ? SN_MIN_OF(conn->delay * 2, RETRY_MOST_NS) : RETRY_FIRST_NS;
	sn_service_arm(&conn->retry, conn->delay);
	return true;
}

/* 0: HELLO is on its way, or will be. */
static int conn_try(struct sn_conn *conn)
{
	struct sockaddr_un sa;
	socklen_t len = name_of(conn->to.id, &sa);
	int fd = socket_new();
	if (fd < 0)
		return sn_fail(SN_ERR_NOMEM, "socket: %s", strerror(errno));
	int rc = connect(fd, (struct sockaddr *)&sa, len) ? errno : 0;
	if (!rc && !same_user(fd, &conn->copy.pid)) {
		close(fd);
		return sn_fail(SN_ERR_PERM, "the peer's socket belongs to another user");
	}
	if (!rc && sn_service_watch(&conn->sock, fd, EPOLLIN | EPOLLRDHUP)) {
		close(fd);
		return SN_ERR_NOMEM;
	}
	if (!rc) {
		rc = -hello_send(conn, false);
		if (!rc) {
			conn->state = SN_CONN_ASKED;
			watch_life(conn);
			return 0;
		}
		sn_service_unwatch(&conn->sock);
	} else {
		close(fd);
	}
	if (try_later(conn, rc))
		return 0;
	if (rc == ECONNREFUSED || rc == EPIPE || rc == ECONNRESET)
		return sn_fail(SN_ERR_PEER_GONE, "the peer's endpoint is closed, or its process is gone");
	return sn_fail(rc == EPERM || rc == EACCES ? SN_ERR_PERM : SN_ERR_NOMEM,
		       "connecting to a local peer: %s", strerror(rc));
}

/* An end that is found here has its farewell in the mail, after what the peer left behind: no error. */
static int welcome_try(struct sn_conn *conn)
{
	int rc = conn->state == SN_CONN_DEAD ? 0 : -hello_send(conn, true);
	conn->welcome_due = rc && try_later(conn, rc);
	if (conn->welcome_due || rc == EPIPE || rc == ECONNRESET)
		rc = 0;
	return rc ? sn_fail(SN_ERR_NOMEM, "answering a local peer: %s", strerror(rc)) : 0;
}

static void retry_fire(struct sn_timer *t)
{
	struct sn_conn *conn = sn_container(t, struct sn_conn, retry);
	int rc = conn->welcome_due ? welcome_try(conn) : conn_try(conn);
	if (rc) {
		backlog_take(conn->rail);
		conn_gone(conn, rc);
	}
}

struct sn_conn *sn_conn_start(struct sn_rail *rail, const struct sn_ep_ids *to, int chan_fd,
			      uint32_t ring_bytes, int *rc)
{
	sn_service_lock();
	struct sn_conn *conn = conn_new(rail, SN_CONN_CONNECTING);
	*rc = SN_ERR_NOMEM;
	if (conn) {
		conn->to = *to;
		conn->chan_fd = chan_fd;
		conn->ring_bytes = ring_bytes;
		*rc = conn_try(conn);
		if (*rc == SN_ERR_PEER_GONE) {
			backlog_take(rail);
			conn_farewell(conn, *rc);
		} else if (*rc) {
			conn_free(conn);
			conn = NULL;
		}
	} else {
		close(chan_fd);
	}
	sn_service_unlock();
	return conn;
}

int sn_conn_welcome(struct sn_conn *conn, const struct sn_ep_ids *to, int chan_fd, uint32_t ring_bytes)
{
	sn_service_lock();
	conn->to = *to;
	conn->chan_fd = chan_fd;
	conn->ring_bytes = ring_bytes;
	int rc = welcome_try(conn);
	sn_service_unlock();
	return rc;
}

int sn_conn_recall(struct sn_conn *conn)
{
	sn_service_lock();
	int fd = -1;
	if (conn->state == SN_CONN_CONNECTING) {
		fd = conn->chan_fd;
		conn->chan_fd = -1;
		conn_close(conn);
	}
	sn_service_unlock();
	return fd;
}

bool sn_conn_pending(struct sn_conn *conn)
{
	sn_service_lock();
	bool pending = conn->state == SN_CONN_CONNECTING || conn->welcome_due;
	sn_service_unlock();
	return pending;
}

int sn_conn_ring(struct sn_conn *conn)
{
	sn_service_lock();
	int calls = conn->bell ? sn_bell_ring(conn->bell, true) : 0;
	sn_service_unlock();
	return calls;
}

/* Shared memory that was still to be handed over is the parent's business. The service closes the sockets. */
void sn_conn_forked(struct sn_rail *rail)
{
	sn_list_for_each (at, &rail->conns) {
		const struct sn_conn *conn = sn_container(at, struct sn_conn, link);
		if (conn->chan_fd >= 0)
			close(conn->chan_fd);
	}
}

/* ---- the listener --------------------------------------------------------------------------------------------- */

int sn_conn_listen(struct sn_rail *rail)
{
	struct sockaddr_un sa;
	socklen_t len = name_of(rail->ids.id, &sa);
	int fd = socket_new();
	if (fd < 0)
		return sn_fail(SN_ERR_NOMEM, "socket: %s", strerror(errno));
	rail->listener.ready = listener_ready;
	/* where nobody can be accepted, peers would wait for an answer for ever */
	if (bind(fd, (struct sockaddr *)&sa, len) || listen(fd, BACKLOG) ||
	    (backlog_next(fd) < 0 && is_refused(errno))) {
		int rc = sn_fail(SN_ERR_PERM, "listening on an abstract socket: %s", strerror(errno));
		close(fd);
		return rc;
	}
	sn_service_lock();
	int rc = sn_service_watch(&rail->listener, fd, EPOLLIN);
	sn_service_unlock();
	if (rc)
		close(fd);
	return rc;
}

/* Also frees the connections that no link knows. */
void sn_conn_unlisten(struct sn_rail *rail)
{
	sn_service_lock();
	sn_service_unwatch(&rail->listener);
	sn_list_for_each_safe (at, &rail->conns) {
		struct sn_conn *conn = sn_container(at, struct sn_conn, link);
		if (!conn->owner)
			conn_free(conn);
	}
	sn_service_unlock();
}

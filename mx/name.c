/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has opened an endpoint by which number, on this host and others.
 *
 * While an endpoint is open its process listens, for the network namespace that stands for the host in all this, on
 * the abstract socket "sennit-mx-NUMBER", for processes of the same user; it also makes the number unique, and is
 * gone with the process, however that ends; the TCP port PORT + NUMBER, for other hosts, unless the network is
 * switched off (SENNIT_NET). From this host nobody is answered there. Who wants to connect says on a stream of one of
 * these who he is and which key he knows, and is told who the other is: each side then has the other's sennit
 * address, which holds the endpoint's key, and MX's names for it. All that follows is sennit's.
 *
 * One thread for each process does both sides, so that a connection is made although the program on the other side
 * computes. It never blocks, and holds the lock whenever it touches anything; epoll names a slot and its generation,
 * so a slot may be closed by anybody.
 */
#include "base/conf.h"
#include "base/log.h"
#include "mx.h"
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PORT	   29952
#define VERSION	   1
#define SERVED_MAX 64	       /* who speaks with us at once */
#define SERVE_NS   5000000000u /* for this long */
#define RETRY_NS   1000000u    /* after the other's backlog was full */
#define EVENTS	   16

struct hello {
	char magic[4];		   /* 0 "SNMX" */
	uint8_t version, code;	   /* 4; an answer's mx_status_code_t */
	uint8_t addr_len;	   /* 6 */
	uint8_t zero;		   /* 7 */
	uint32_t key;		   /* 8 of a question */
	uint32_t id, session;	   /* 12 of who speaks */
	uint32_t asked;		   /* 20 the number he thinks he speaks to */
	uint64_t nic;		   /* 24 */
	uint8_t addr[SN_ADDR_MAX]; /* 32 */
};
_Static_assert(sizeof(struct hello) == 32 + SN_ADDR_MAX && offsetof(struct hello, nic) == 24, "on the wire");

enum kind { FREE, WAKE, LISTEN, SERVE, ASK };

struct slot {
	int fd; /* -1: a question that waits to be put again */
	uint32_t generation;
	uint8_t kind;
	bool near, told;
	struct mx_endpoint *ep;
	uint64_t end, again; /* ns; 0: none */
	size_t got;
	struct hello in;
	/* ASK */
	struct mx_request *req;
	uint64_t nic;
	uint32_t id, key;
};

static struct {
	pthread_mutex_t lock;
	bool runs;
	int epoll, wake;
	struct slot **slots;
	unsigned count, served;
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- slots ---- */

static struct slot *slot_new(enum kind kind, struct mx_endpoint *ep)
{
	unsigned i = 0;
	while (i < names.count && names.slots[i]->kind != FREE)
		i++;
	if (i == names.count) {
		struct slot **more = realloc(names.slots, (i + 1) * sizeof(*more));
		if (!more)
			return NULL;
		names.slots = more;
		if (!(more[i] = calloc(1, sizeof(**more))))
			return NULL;
		names.count++;
	}
	struct slot *s = names.slots[i];
	*s = (struct slot){.fd = -1, .generation = s->generation + 1, .kind = (uint8_t)kind, .ep = ep};
	names.served += kind == SERVE;
	return s;
}

static void slot_free(struct slot *s)
{
	if (s->fd >= 0)
		close(s->fd);
	names.served -= s->kind == SERVE;
	s->kind = FREE;
	s->fd = -1;
}

static int slot_watch(struct slot *s, int fd, uint32_t events)
{
	unsigned i = 0;
	while (names.slots[i] != s)
		i++;
	struct epoll_event e = {.events = events, .data.u64 = (uint64_t)s->generation << 32 | i};
	bool known = s->fd == fd;
	s->fd = fd;
	return epoll_ctl(names.epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
}

/* ---- what both sides say ---- */

static bool say(const struct slot *s, uint8_t code, uint32_t key, uint32_t asked)
{
	struct hello h = {.magic = {'S', 'N', 'M', 'X'}, .version = VERSION, .code = code};
	size_t len = sizeof(h.addr);
	if (code == MX_STATUS_SUCCESS) { /* others learn nothing */
		h.key = key;
		h.id = s->ep->id;
		h.session = s->ep->session;
		h.asked = asked;
		h.nic = mx_host_nic();
		sn_ep_address(s->ep->sn, h.addr, &len);
		h.addr_len = (uint8_t)len;
	}
	return send(s->fd, &h, sizeof(h), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(h);
}

/* 1: all of it is here; 0: not yet; -1: the other has gone, or speaks another language. */
static int hear(struct slot *s)
{
	ssize_t n = recv(s->fd, (char *)&s->in + s->got, sizeof(s->in) - s->got, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	s->got += (size_t)n;
	if (s->got < sizeof(s->in))
		return 0;
	return memcmp(s->in.magic, "SNMX", 4) || s->in.version != VERSION || s->in.addr_len > SN_ADDR_MAX ? -1
													  : 1;
}

static bool same_user(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.uid == geteuid();
}

static mx_status_code_t meet(struct slot *s, mx_endpoint_addr_t *addr)
{
	int rc = mx_partner_add(s->ep, s->in.addr, s->in.addr_len, s->in.nic, s->in.id, s->in.session, addr);
	if (rc)
		sn_warn("MX endpoint %u cannot speak with endpoint %u of %#llx: %s", s->ep->id, s->in.id,
			(unsigned long long)s->in.nic, sn_last_error());
	return !rc		    ? MX_STATUS_SUCCESS
	       : rc == SN_ERR_NOMEM ? MX_STATUS_NO_RESOURCES
				    : MX_STATUS_ENDPOINT_UNREACHABLE;
}

/* ---- who is asked ---- */

static void serve(struct slot *s)
{
	mx_endpoint_addr_t addr;
	mx_status_code_t code = MX_STATUS_BAD_KEY;
	int heard = hear(s);
	if (!heard)
		return;
	if (heard > 0 && s->in.asked != s->ep->id)
		code = MX_STATUS_BAD_ENDPOINT;
	else if (heard > 0 && s->in.key == s->ep->key)
		code = meet(
			s,
			&addr); /* before the answer: what the other sends then is known to come from him */
	if (heard > 0)
		say(s, (uint8_t)code, 0, 0);
	slot_free(s);
}

/* Who has had the most time to speak makes room for others. */
static void make_room(void)
{
	struct slot *oldest = NULL;
	for (unsigned i = 0; i < names.count; i++) {
		struct slot *s = names.slots[i];
		if (s->kind == SERVE && (!oldest || s->end < oldest->end))
			oldest = s;
	}
	if (oldest && names.served >= SERVED_MAX)
		slot_free(oldest);
}

/* Somebody on this host who comes by TCP would not be asked which user he is. */
static bool welcome(int fd, bool near)
{
	struct sockaddr_in from = {0};
	socklen_t len = sizeof(from);
	if (near)
		return same_user(fd);
	return !getpeername(fd, (struct sockaddr *)(void *)&from, &len) && from.sin_family == AF_INET &&
	       !mx_host_is_here(from.sin_addr);
}

static void welcome_all(const struct slot *listener)
{
	int fd;
	/* cppcheck-suppress nullPointer ; its table does not know that no address may be wanted */
	while ((fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		make_room();
		struct slot *s = welcome(fd, listener->near) ? slot_new(SERVE, listener->ep) : NULL;
		if (!s) {
			close(fd);
			continue;
		}
		s->end = sn_now_ns() + SERVE_NS;
		if (slot_watch(s, fd, EPOLLIN))
			slot_free(s);
	}
}

/* ---- who asks ---- */

static void answer(struct slot *s, mx_status_code_t code)
{
	struct mx_request *r = s->req;
	slot_free(s);
	mx_request_end(r, code);
}

static socklen_t name_of(uint32_t id, struct sockaddr_un *sa)
{
	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "sennit-mx-%u", id);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static struct sockaddr_in port_of(struct in_addr ip, uint32_t id)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + id)), .sin_addr = ip};
}

static int call(const struct slot *s)
{
	struct sockaddr_un un;
	struct in_addr ip;
	mx_host_of_nic(s->nic, &ip);
	int fd = socket(s->near ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	struct sockaddr_in in = port_of(ip, s->id);
	socklen_t len = name_of(s->id, &un);
	int rc = s->near ? connect(fd, (struct sockaddr *)(void *)&un, len)
			 : connect(fd, (struct sockaddr *)(void *)&in, sizeof(in));
	if (rc && errno != EINPROGRESS) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

static mx_status_code_t why(int error)
{
	switch (error) {
	case ECONNREFUSED:
	case ENOENT: return MX_STATUS_ENDPOINT_CLOSED;
	case EMFILE:
	case ENFILE:
	case ENOMEM: return MX_STATUS_NO_RESOURCES;
	default: return MX_STATUS_ENDPOINT_UNREACHABLE;
	}
}

static void ask(struct slot *s)
{
	s->again = 0;
	int fd = call(s);
	if (fd < 0 && errno == EAGAIN)
		s->again = sn_now_ns() + RETRY_NS;
	else if (fd < 0)
		answer(s, why(errno));
	else if (slot_watch(s, fd, EPOLLOUT))
		answer(s, MX_STATUS_NO_RESOURCES);
}

static void asked(struct slot *s)
{
	int error = 0, heard;
	socklen_t len = sizeof(error);
	if (!s->told) {
		if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)
			answer(s, why(error));
		else if (s->near && !same_user(s->fd))
			answer(s, MX_STATUS_REJECTED);
		else if (!(s->told = say(s, MX_STATUS_SUCCESS, s->key, s->id)) ||
			 slot_watch(s, s->fd, EPOLLIN))
			answer(s, MX_STATUS_ENDPOINT_CLOSED);
		return;
	}
	if (!(heard = hear(s)))
		return;
	if (heard < 0)
		answer(s, MX_STATUS_ENDPOINT_CLOSED);
	else
		answer(s, s->in.code ? (mx_status_code_t)s->in.code : meet(s, &s->req->status.source));
}

/* ---- the thread ---- */

static void ready(struct slot *s)
{
	uint64_t unused;
	switch (s->kind) {
	case WAKE: (void)!read(s->fd, &unused, sizeof(unused)); break;
	case LISTEN: welcome_all(s); break;
	case SERVE: serve(s); break;
	case ASK: asked(s); break;
	default: break;
	}
}

/* What is due, and ms until the next; -1: nothing is. */
static int look_at_clock(void)
{
	uint64_t now = sn_now_ns(), next = UINT64_MAX;
	for (unsigned i = 0; i < names.count; i++) {
		struct slot *s = names.slots[i];
		if (s->kind == ASK && s->again && s->again <= now)
			ask(s);
		if (s->kind != FREE && s->end && s->end <= now) {
			if (s->kind == ASK)
				answer(s, MX_STATUS_TIMEOUT);
			else
				slot_free(s);
		}
		if (s->kind != FREE && s->end)
			next = SN_MIN_OF(next, s->end);
		if (s->kind != FREE && s->again)
			next = SN_MIN_OF(next, s->again);
	}
	return next == UINT64_MAX ? -1 : (int)((next - SN_MIN_OF(next, now)) / 1000000u + 1);
}

static void *serve_names(void *arg)
{
	struct epoll_event events[EVENTS];
	pthread_mutex_lock(&names.lock);
	for (;;) {
		int ms = look_at_clock();
		pthread_mutex_unlock(&names.lock);
		int n = epoll_wait(names.epoll, events, EVENTS, ms);
		pthread_mutex_lock(&names.lock);
		for (int i = 0; i < n; i++) {
			struct slot *s = names.slots[(uint32_t)events[i].data.u64];
			if (s->generation == events[i].data.u64 >> 32)
				ready(s);
		}
	}
	return NULL;
}

static void wake(void)
{
	const uint64_t one = 1;
	(void)!write(names.wake, &one, sizeof(one));
}

static void before_fork(void)
{
	pthread_mutex_lock(&names.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&names.lock);
}

/* The names are the parent's, and must not outlive it here. */
static void in_child(void)
{
	for (unsigned i = 0; i < names.count; i++)
		if (names.slots[i]->kind != FREE)
			slot_free(names.slots[i]);
	if (names.runs)
		close(names.epoll);
	names.runs = false;
	pthread_mutex_unlock(&names.lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* With the lock held. The thread stays until the process ends. */
static bool start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_t thread;
	sigset_t all, before;
	if (names.runs)
		return true;
	pthread_once(&once, watch_forks);
	struct slot *s = slot_new(WAKE, NULL);
	names.epoll = epoll_create1(EPOLL_CLOEXEC);
	names.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	bool ok = s && names.epoll >= 0 && names.wake >= 0 && !slot_watch(s, names.wake, EPOLLIN);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ok = ok && !pthread_create(&thread, NULL, serve_names, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ok)
		pthread_detach(thread);
	else if (s)
		slot_free(s);
	if (!ok && names.epoll >= 0)
		close(names.epoll);
	return names.runs = ok;
}

/* ---- for the others ---- */

static int listen_on(struct mx_endpoint *ep, bool near, const struct sockaddr *sa, socklen_t len)
{
	const int one = 1;
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct slot *s = fd < 0 ? NULL : slot_new(LISTEN, ep);
	if (!s) {
		if (fd >= 0)
			close(fd);
		return ENOMEM;
	}
	s->near = near;
	/* what is left of the connections of one who had this number before need not end first */
	if (!near)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, sa, len) || listen(fd, SOMAXCONN)) {
		int error = errno;
		close(fd);
		slot_free(s);
		return error;
	}
	if (!slot_watch(s, fd, EPOLLIN))
		return 0;
	slot_free(s);
	return ENOMEM;
}

static void names_of(const struct mx_endpoint *ep, void (*fn)(struct slot *s))
{
	for (unsigned i = 0; i < names.count; i++)
		if (names.slots[i]->kind != FREE && names.slots[i]->ep == ep)
			fn(names.slots[i]);
}

static bool far_wanted(void)
{
	const char *net = sn_conf_str(SN_CONF_NET);
	return strcmp(net, "off") != 0;
}

static int take_number(struct mx_endpoint *ep, uint32_t id)
{
	struct sockaddr_un un;
	socklen_t len = name_of(id, &un);
	struct sockaddr_in in = port_of((struct in_addr){INADDR_ANY}, id);
	int error = listen_on(ep, true, (const struct sockaddr *)(const void *)&un, len);
	if (!error && far_wanted() &&
	    (error = listen_on(ep, false, (const struct sockaddr *)(const void *)&in, sizeof(in))))
		names_of(ep, slot_free);
	if (!error)
		ep->id = id;
	return error;
}

mx_return_t mx_name_open(struct mx_endpoint *ep, uint32_t id)
{
	uint32_t first = id == MX_ANY_ENDPOINT ? 0 : id, last = id == MX_ANY_ENDPOINT ? MX_ENDPOINTS - 1 : id;
	int error = ENOMEM;
	pthread_mutex_lock(&names.lock);
	if (start())
		for (id = first, error = EADDRINUSE; id <= last && error == EADDRINUSE; id++)
			error = take_number(ep, id);
	pthread_mutex_unlock(&names.lock);
	return !error ? MX_SUCCESS : error == EADDRINUSE ? MX_BUSY : MX_NO_RESOURCES;
}

void mx_name_close(const struct mx_endpoint *ep)
{
	pthread_mutex_lock(&names.lock);
	names_of(ep, slot_free);
	pthread_mutex_unlock(&names.lock);
}

static uint64_t end_after(uint32_t ms)
{
	return ms == MX_INFINITE ? 0 : sn_now_ns() + ms * UINT64_C(1000000);
}

int mx_name_ask(struct mx_request *r, uint64_t nic, uint32_t id, uint32_t key, uint32_t ms)
{
	struct in_addr ip;
	bool near = nic == mx_host_nic() || (mx_host_of_nic(nic, &ip) && mx_host_is_here(ip));
	pthread_mutex_lock(&names.lock);
	struct slot *s = slot_new(ASK, r->ep);
	if (s) {
		s->req = r;
		s->nic = nic;
		s->id = id;
		s->key = key;
		s->near = near;
		s->end = end_after(ms);
		s->again = 1; /* at once, by the thread: not in the caller's time, and in one place */
		wake();
	}
	pthread_mutex_unlock(&names.lock);
	return s ? 0 : sn_fail(SN_ERR_NOMEM, "no memory to connect");
}

static struct slot *slot_of(const struct mx_request *r)
{
	for (unsigned i = 0; i < names.count; i++)
		if (names.slots[i]->kind == ASK && names.slots[i]->req == r)
			return names.slots[i];
	return NULL;
}

bool mx_name_forget(const struct mx_request *r)
{
	pthread_mutex_lock(&names.lock);
	struct slot *s = slot_of(r);
	if (s)
		slot_free(s);
	pthread_mutex_unlock(&names.lock);
	return s != NULL;
}

void mx_name_limit(const struct mx_request *r, uint32_t ms)
{
	pthread_mutex_lock(&names.lock);
	struct slot *s = slot_of(r);
	if (s)
		s->end = end_after(ms);
	wake();
	pthread_mutex_unlock(&names.lock);
}

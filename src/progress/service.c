/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/service.h"
#include "base/log.h"
#include "progress/bell.h"
#include "progress/memfd.h"
#include "progress/thread.h"
#include "sennit/sennit.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct entry {
	struct sn_watch *watch;
	uint32_t generation;
};

static struct {
	pthread_mutex_t lock;
	pthread_mutex_t opening; /* open and close, one at a time; taken before lock */
	unsigned users;
	bool stop;
	int epoll, kick; /* kick: an eventfd, to make the thread look at timers and stop */
	pthread_t thread;
	struct entry *table;
	uint32_t room;
	struct sn_list timers, hooks;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER,
	     .opening = PTHREAD_MUTEX_INITIALIZER,
	     .epoll = -1,
	     .kick = -1,
	     .timers = {&service.timers, &service.timers},
	     .hooks = {&service.hooks, &service.hooks}};

#define KICK_DATA UINT64_MAX

void sn_service_lock(void)
{
	pthread_mutex_lock(&service.lock);
}

void sn_service_unlock(void)
{
	pthread_mutex_unlock(&service.lock);
}

static void kick(void)
{
	uint64_t one = 1;
	ssize_t n = write(service.kick, &one, sizeof(one));
	(void)n; /* full: it is awake anyway */
}

/* Fire what is due; returns how long to sleep, in ms, -1 for ever. */
static int timers_run(void)
{
	uint64_t now = sn_now_ns(), next = UINT64_MAX;
	for (bool again = true; again;) {
		again = false;
		next = UINT64_MAX;
		sn_list_for_each (at, &service.timers) {
			struct sn_timer *t = sn_container(at, struct sn_timer, link);
			if (t->when <= now) { /* may change the list: start over */
				sn_service_disarm(t);
				t->fire(t);
				again = true;
				break;
			}
			next = SN_MIN_OF(next, t->when);
		}
	}
	if (next == UINT64_MAX)
		return -1;
	return (int)SN_MIN_OF((next - now + 999999) / 1000000, 1000u);
}

static void dispatch(const struct epoll_event *e)
{
	if (e->data.u64 == KICK_DATA) {
		uint64_t n;
		ssize_t got = read(service.kick, &n, sizeof(n));
		(void)got;
		return;
	}
	uint32_t index = (uint32_t)e->data.u64;
	if (index < service.room && service.table[index].watch &&
	    service.table[index].generation == (uint32_t)(e->data.u64 >> 32))
		service.table[index].watch->ready(service.table[index].watch, e->events);
}

static void *service_main(void *arg)
{
	struct epoll_event e[32];
	sn_service_lock();
	while (!service.stop) {
		int timeout = timers_run();
		int epoll = service.epoll;
		sn_service_unlock();
		int n = epoll_wait(epoll, e, 32, timeout);
		sn_service_lock();
		for (int i = 0; i < n && !service.stop; i++)
			dispatch(&e[i]);
	}
	sn_service_unlock();
	return NULL;
}

static void before_fork(void)
{
	pthread_mutex_lock(&service.opening);
	pthread_mutex_lock(&service.lock);
	sn_bell_before_fork();
}

static void in_parent(void)
{
	sn_bell_after_fork(false);
	pthread_mutex_unlock(&service.lock);
	pthread_mutex_unlock(&service.opening);
}

static void in_child(void)
{
	sn_list_for_each_safe (at, &service.hooks) {
		struct sn_fork_hook *hook = sn_container(at, struct sn_fork_hook, link);
		sn_list_del(at);
		hook->in_child(hook);
	}
	for (uint32_t i = 0; i < service.room; i++)
		if (service.table[i].watch)
			close(service.table[i].watch->fd);
	if (service.users) {
		close(service.epoll);
		close(service.kick);
	}
	sn_bell_after_fork(true);
	service.epoll = service.kick = -1;
	service.users = 0;
	service.table = NULL; /* left to the exit of the child: free() is not safe here */
	service.room = 0;
	sn_list_init(&service.timers);
	/* taken by this very thread in before_fork(); making them anew would look like a lock held for ever to analyzers */
	pthread_mutex_unlock(&service.lock);
	pthread_mutex_unlock(&service.opening);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

static int start(void)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = KICK_DATA};
	service.stop = false;
	service.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (service.epoll < 0 && errno == EMFILE && sn_fd_limit_raise())
		service.epoll = epoll_create1(EPOLL_CLOEXEC);
	service.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc = service.epoll < 0 || service.kick < 0 ||
				 epoll_ctl(service.epoll, EPOLL_CTL_ADD, service.kick, &e)
			 ? errno
			 : sn_thread_start(&service.thread, service_main);
	if (!rc) {
		pthread_setname_np(service.thread, "sennit");
		return 0;
	}
	if (service.epoll >= 0)
		close(service.epoll);
	if (service.kick >= 0)
		close(service.kick);
	service.epoll = service.kick = -1;
	return sn_fail(SN_ERR_NOMEM, "starting the service thread: %s", strerror(rc));
}

int sn_service_open(struct sn_fork_hook *hook)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch_forks);
	int rc = sn_bell_open();
	if (rc)
		return rc;
	pthread_mutex_lock(&service.opening);
	rc = service.users ? 0 : start();
	if (!rc) {
		sn_service_lock();
		service.users++;
		sn_list_add_tail(&service.hooks, &hook->link);
		sn_service_unlock();
	}
	pthread_mutex_unlock(&service.opening);
	return rc;
}

void sn_service_close(struct sn_fork_hook *hook)
{
	pthread_mutex_lock(&service.opening);
	sn_service_lock();
	sn_list_del(&hook->link);
	bool last = --service.users == 0;
	service.stop = last;
	sn_service_unlock();
	if (last) {
		kick();
		pthread_join(service.thread, NULL);
		close(service.epoll);
		close(service.kick);
		service.epoll = service.kick = -1;
		free(service.table);
		service.table = NULL;
		service.room = 0;
	}
	pthread_mutex_unlock(&service.opening);
}

static int slot_find(uint32_t *index)
{
	uint32_t i = 0;
	while (i < service.room && service.table[i].watch)
		i++;
	if (i == service.room) {
		uint32_t room = service.room ? service.room * 2 : 32;
		struct entry *table = realloc(service.table, room * sizeof(*table));
		if (!table)
			return sn_fail(SN_ERR_NOMEM, "no memory to watch another peer");
		memset(table + service.room, 0, (room - service.room) * sizeof(*table));
		service.table = table;
		service.room = room;
	}
	*index = i;
	return 0;
}

int sn_service_watch(struct sn_watch *w, int fd, uint32_t events)
{
	uint32_t i = 0;
	int rc = slot_find(&i);
	if (rc)
		return rc;
	struct entry *slot = &service.table[i];
	struct epoll_event e = {.events = events, .data.u64 = (uint64_t)++slot->generation << 32 | i};
	if (epoll_ctl(service.epoll, EPOLL_CTL_ADD, fd, &e))
		return sn_fail(SN_ERR_NOMEM, "epoll_ctl: %s", strerror(errno));
	slot->watch = w;
	w->fd = fd;
	w->index = i;
	return 0;
}

void sn_service_unwatch(struct sn_watch *w)
{
	if (w->fd < 0)
		return;
	epoll_ctl(service.epoll, EPOLL_CTL_DEL, w->fd, NULL);
	close(w->fd);
	w->fd = -1;
	service.table[w->index].watch = NULL;
}

void sn_service_arm(struct sn_timer *t, uint64_t delay_ns)
{
	sn_service_disarm(t);
	t->when = sn_now_ns() + delay_ns;
	sn_list_add_tail(&service.timers, &t->link);
	if (!pthread_equal(pthread_self(), service.thread))
		kick();
}

void sn_service_disarm(struct sn_timer *t)
{
	if (t->when)
		sn_list_del(&t->link);
	t->when = 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetches that the kernel module has ended: none is left in the ring of which nobody is told, and who sleeps on the
 * event is not woken for what has been taken. A double plays the module, and does what it does at the worst moment.
 */
#include "unit.h"

#include "copy/kmod.h"
#include "net/kpull.h"
#include "net/net.h"
#include "sennit_ioctl.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static struct sn_kmod module = {.fd = 1 << 20};
static struct sennit_net_ring ring;
static int event;
static unsigned reads, taken;
static bool quick; /* another fetch ends before the next reading of the event */

struct sn_kmod *__wrap_sn_kmod_acquire(void);
void __wrap_sn_kmod_release(struct sn_kmod *m);
int __wrap_ioctl(int fd, unsigned long what, void *arg);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t from);
int __wrap_munmap(void *at, size_t len);
ssize_t __wrap_read(int fd, void *to, size_t len);
void *__wrap_sn_net_table_get(const struct sn_net_table *t, uint32_t number);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t from);
int __real_munmap(void *at, size_t len);
ssize_t __real_read(int fd, void *to, size_t len);

struct sn_kmod *__wrap_sn_kmod_acquire(void)
{
	return &module;
}

void __wrap_sn_kmod_release(struct sn_kmod *m)
{
	assert_ptr_equal(m, &module);
}

int __wrap_ioctl(int fd, unsigned long what, void *arg)
{
	assert_int_equal(fd, module.fd);
	if (what != SENNIT_IOC_NET_OPEN)
		return 0;
	struct sennit_net_open *o = arg;
	event = o->event;
	o->id = 1;
	return 0;
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t from)
{
	return fd == module.fd ? &ring : __real_mmap(at, len, prot, flags, fd, from);
}

int __wrap_munmap(void *at, size_t len)
{
	return at == &ring ? 0 : __real_munmap(at, len);
}

/* Nobody knows any more of these fetches: they have been cancelled. */
void *__wrap_sn_net_table_get(const struct sn_net_table *t, uint32_t number)
{
	taken++;
	return NULL;
}

static void ends(void)
{
	ring.head++;
}

static void signals(void)
{
	uint64_t one = 1;
	assert_int_equal(write(event, &one, sizeof(one)), sizeof(one));
}

ssize_t __wrap_read(int fd, void *to, size_t len)
{
	reads++;
	if (quick) {
		quick = false;
		ends();
		signals();
	}
	return __real_read(fd, to, len);
}

static bool readable(void)
{
	struct pollfd p = {.fd = event, .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

static struct sn_net net;
static struct sn_kpull *kernel;

/* How many reads a look takes. */
static unsigned look(void)
{
	unsigned before = reads;
	assert_int_equal(sn_kpull_poll(kernel, &net), 0);
	return reads - before;
}

static int set_up(void **state)
{
	memset(&ring, 0, sizeof(ring));
	taken = 0;
	kernel = sn_kpull_open(1, (const uint8_t[]){1, 2}, 1500);
	assert_non_null(kernel);
	return 0;
}

static int tear_down(void **state)
{
	sn_kpull_close(kernel);
	return 0;
}

static void a_look_at_nothing_costs_no_call(void **state)
{
	assert_int_equal(look(), 0);
	ends();
	signals();
	assert_int_equal(look(), 1);
	assert_int_equal(look(), 0);
}

static void none_is_left_of_which_nobody_is_told(void **state)
{
	ends();
	signals();
	quick = true;
	look();
	assert_false(quick);
	assert_true(taken == 2 || readable());
	look();
	assert_int_equal(taken, 2);
	assert_false(readable());
}

static void what_was_cancelled_is_no_news(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		ends();
		signals();
	}
	look();
	assert_false(readable());
}

static void a_signal_later_than_its_end_is_no_news(void **state)
{
	ends();
	signals();
	ends();
	look(); /* takes both; of one the signal is still to come */
	assert_int_equal(look(), 1);
	signals();
	assert_true(readable());
	assert_int_equal(look(), 1);
	assert_false(readable());
	assert_int_equal(look(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_look_at_nothing_costs_no_call, set_up, tear_down),
		cmocka_unit_test_setup_teardown(none_is_left_of_which_nobody_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_was_cancelled_is_no_news, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_signal_later_than_its_end_is_no_news, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

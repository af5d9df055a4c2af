/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the system refuses a joined datagram: only what says that datagrams are not cut up there ends joining, and
 * that for a second. A firewall that is being reloaded, or a device that goes down, costs the frames that it meets.
 */
#include "unit.h"

#include "net/driver.h"
#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#define FRAMES 4
#define LEN    1000

static int refusal;	   /* the errno with which joined datagrams are refused; 0: they are taken */
static unsigned joined;	   /* such datagrams that were offered */
static time_t seconds = 1; /* the time, which passes only when it is told to */
static void *drv;
static struct sn_net_path to;

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);

static bool refused(const struct msghdr *m)
{
	joined += m->msg_controllen > 0;
	if (m->msg_controllen == 0 || refusal == 0)
		return false;
	errno = refusal;
	return true;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return refused(m) ? -1 : __real_sendmsg(fd, m, flags);
}

int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags)
{
	return refused(&m->msg_hdr) ? -1 : __real_sendmmsg(fd, m, count, flags);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	*t = (struct timespec){.tv_sec = seconds};
	return 0;
}

static uint64_t errors;

static void count(void *arg, const char *name, uint64_t value)
{
	if (strcmp(name, "net.udp_send_errors") == 0)
		errors = value;
}

/* All are gone, one way or another. How many datagrams were offered joined? */
static unsigned send_some(int with_refusal)
{
	static uint8_t bytes[FRAMES][LEN];
	struct sn_net_out out[FRAMES];
	unsigned before = joined;

	for (unsigned i = 0; i < FRAMES; i++)
		out[i] = (struct sn_net_out){.iov = {{bytes[i], LEN}}, .iov_count = 1, .len = LEN, .to = &to};
	refusal = with_refusal;
	assert_int_equal(sn_net_udp.send(drv, out, FRAMES), FRAMES);
	sn_net_udp.counters(drv, count, NULL);
	return joined - before;
}

static int set_up(void **state)
{
	struct sn_addr_part part;

	assert_int_equal(sn_net_udp.open("127.0.0.1", &drv, &part), 0);
	assert_true(sn_net_udp.resolve(drv, &part, &to));
	assert_int_equal(send_some(0), 1);
	assert_int_equal(errors, 0);
	return 0;
}

static int tear_down(void **state)
{
	sn_net_udp.close(drv);
	return 0;
}

static void what_passes_costs_the_frames_that_it_meets(void **state)
{
	const int passing[] = {EPERM, ENETDOWN, ENODEV, ENOMEM, EMSGSIZE, EHOSTUNREACH};

	for (unsigned i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
		assert_int_equal(send_some(passing[i]), 1);
		assert_int_equal(errors, i + 1);
		assert_int_equal(sn_net_udp.trouble(drv), passing[i]);
		assert_int_equal(send_some(0), 1);
	}
}

static void a_refusal_costs_nothing_and_is_tried_again(void **state)
{
	const int lasting[] = {EIO, EINVAL, EOPNOTSUPP};

	for (unsigned i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++) {
		assert_int_equal(send_some(lasting[i]), 1);
		assert_int_equal(send_some(0), 0);
		seconds += 2;
		assert_int_equal(send_some(0), 1);
	}
	assert_int_equal(errors, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_passes_costs_the_frames_that_it_meets, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_refusal_costs_nothing_and_is_tried_again, set_up,
						tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

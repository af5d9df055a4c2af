/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies over Ethernet, joined and one by one, on the loopback device of a network namespace: every byte arrives, at
 * its place where the guess was right, and at none where it was wrong or cannot be handed out at once. And when the
 * system refuses a joined packet: only what says that it takes none ends joining, and that for a second.
 */
#include "unit.h"

#include "base/base.h"
#include "net/bulk.h"
#include "net/wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define MOST 64
#define LEN  4096

static int refusal;	   /* the errno with which joined packets are refused; 0: they are taken */
static unsigned joined;	   /* such packets that were offered */
static unsigned looks;	   /* calls that receive */
static time_t seconds = 1; /* the time, which passes only when it is told to */
static struct sn_bulk *from, *to;
static struct sn_net_path path;
static uint8_t bytes[MOST][LEN], places[MOST][LEN];
static bool can_join;

int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags);
int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned count, int flags, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags);
int __real_recvmmsg(int fd, struct mmsghdr *m, unsigned count, int flags, struct timespec *t);

int __wrap_sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags)
{
	bool is_joined = m->msg_hdr.msg_namelen > 0;

	joined += is_joined;
	if (is_joined && refusal) {
		errno = refusal;
		return -1;
	}
	return __real_sendmmsg(fd, m, count, flags);
}

int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned count, int flags, struct timespec *t)
{
	looks++;
	return __real_recvmmsg(fd, m, count, flags, t);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	*t = (struct timespec){.tv_sec = seconds};
	return 0;
}

static uint64_t value_of;

static void find(void *arg, const char *name, uint64_t value)
{
	if (strcmp(name, arg) == 0)
		value_of = value;
}

static uint64_t counter(struct sn_bulk *b, const char *name)
{
	sn_bulk_counters(b, find, (void *)name);
	return value_of;
}

/* ---- frames ---- */

static uint8_t byte_at(unsigned frame, uint32_t i)
{
	return (uint8_t)(frame * 7 + i * 3 + i / 251);
}

/* Frames as long as `len`, of which the last is `last`; returns the system's error, 0: none. */
static int send_frames(unsigned count, uint32_t len, uint32_t last, enum sn_net_how how)
{
	static struct sn_net_out out[MOST];
	int error = 0;

	for (unsigned i = 0; i < count; i++) {
		uint32_t n = i + 1 < count ? len : last;
		for (uint32_t k = 0; k < n; k++)
			bytes[i][k] = byte_at(i, k);
		out[i] = (struct sn_net_out){
			.iov = {{bytes[i], n}}, .iov_count = 1, .len = n, .how = how, .to = &path};
	}
	assert_int_equal(sn_bulk_send(from, out, count, &error), count);
	return error;
}

static unsigned expected;     /* frames of which the places are known */
static uint32_t expected_len; /* of each */

static unsigned expect(void *arg, struct sn_net_spot *spot, unsigned max, uint32_t *size)
{
	unsigned n = SN_MIN_OF(max, expected);

	*size = expected_len;
	for (unsigned i = 0; i < n; i++)
		spot[i] = (struct sn_net_spot){.at = places[i], .len = expected_len - SN_NET_HEAD};
	return n;
}

/*
 * The next frames, as many as one look brings; they must be those from number *next on. Returns how many ended at
 * their places.
 */
static unsigned take(unsigned *next, unsigned max, uint32_t len, uint32_t last, unsigned count)
{
	const struct sn_net_place place = {.expect = expect};
	struct sn_net_in in[MOST];
	unsigned placed = 0, n = sn_bulk_receive(to, in, max, &place);

	assert_true(n <= max);
	for (unsigned i = 0; i < n; i++) {
		unsigned frame = *next + i;
		uint32_t body = 0, have = in[i].len;
		assert_true(frame < count);
		assert_int_equal(have, frame + 1 < count ? len : last);
		if (in[i].spot) {
			body = SN_MIN_OF(in[i].spot->len, have - SN_NET_HEAD);
			placed++;
		}
		for (uint32_t k = 0; k < have; k++) {
			bool away = k >= SN_NET_HEAD && k < SN_NET_HEAD + body;
			uint8_t is = away ? in[i].spot->at[k - SN_NET_HEAD] : in[i].data[k];
			assert_int_equal(is, byte_at(frame, k));
		}
	}
	*next += n;
	return placed;
}

static void wait_for_some(void)
{
	struct pollfd p = {.fd = sn_bulk_fd(to), .events = POLLIN};

	assert_int_equal(poll(&p, 1, 60000), 1);
}

/* All of them; returns how many ended at their places. */
static unsigned take_all(unsigned count, uint32_t len, uint32_t last)
{
	unsigned next = 0, placed = 0;

	while (next < count) {
		wait_for_some();
		placed += take(&next, MOST, len, last, count);
	}
	return placed;
}

/* ---- life ---- */

static void up(const char *name)
{
	struct ifreq r = {.ifr_flags = IFF_UP};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(r.ifr_name, name);
	assert_true(s >= 0 && ioctl(s, SIOCSIFFLAGS, &r) == 0);
	close(s);
}

static int set_up(void **state)
{
	struct sn_iface iface = {.name = "lo", .index = if_nametoindex("lo"), .mtu = 9000};
	const uint8_t port[2][2] = {{1, 2}, {3, 4}};
	const uint16_t type = htons(SN_ETHERTYPE);

	assert_int_equal(sn_bulk_open(&iface, port[0], &from), 0);
	assert_int_equal(sn_bulk_open(&iface, port[1], &to), 0);
	memset(&path, 0, sizeof(path));
	memcpy(path.bytes + 12, &type, 2);
	memcpy(path.bytes + 14, port[1], 2);
	expected = 0;
	expected_len = 0;
	return 0;
}

static int tear_down(void **state)
{
	sn_bulk_close(from);
	sn_bulk_close(to);
	return 0;
}

static void needs_joining(void)
{
	if (can_join)
		return;
	print_message("this kernel cuts up nothing for a packet socket: Linux 6.2 does\n");
	skip();
}

/* ---- what arrives ---- */

static void joined_frames_arrive_in_one_look(void **state)
{
	needs_joining();
	for (unsigned i = 0; i < 3; i++) {
		unsigned before = looks;
		assert_int_equal(send_frames(15, LEN, 100 + i, SN_OUT_JOINED), 0);
		assert_int_equal(take_all(15, LEN, 100 + i), 0);
		assert_int_equal(looks - before, 1);
		assert_int_equal(counter(to, "net.ether_joined_receives"), i + 1);
	}
	assert_int_equal(counter(from, "net.ether_joined_sends"), 3);
	assert_int_equal(counter(from, "net.ether_send_calls"), 3);
}

static void bodies_end_where_they_belong(void **state)
{
	needs_joining();
	expected = 15;
	expected_len = LEN;
	assert_int_equal(send_frames(15, LEN, LEN, SN_OUT_JOINED), 0);
	assert_int_equal(take_all(15, LEN, LEN), 15);
	expected = 4; /* of more that come */
	assert_int_equal(send_frames(15, LEN, 3000, SN_OUT_JOINED), 0);
	assert_int_equal(take_all(15, LEN, 3000), 4);
	expected = 15; /* of fewer */
	assert_int_equal(send_frames(2, LEN, 57, SN_OUT_JOINED), 0);
	assert_int_equal(take_all(2, LEN, 57), 2);
}

static void a_wrong_guess_costs_a_copy_and_no_byte(void **state)
{
	const uint32_t others[] = {LEN - 1, LEN - 500, 1000, 57};

	needs_joining();
	expected = 15;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		expected_len = others[i];
		assert_int_equal(send_frames(15, LEN, 2000, SN_OUT_JOINED), 0);
		assert_int_equal(take_all(15, LEN, 2000), 0);
		expected_len = LEN;
		assert_int_equal(send_frames(15, others[i], 50, SN_OUT_JOINED), 0);
		assert_int_equal(take_all(15, others[i], 50), 0);
	}
}

/* Whoever asked for them may be gone by the next look, and the memory with him. */
static void what_waits_for_the_next_look_has_no_place(void **state)
{
	unsigned next = 0;

	needs_joining();
	expected = 15;
	expected_len = LEN;
	assert_int_equal(send_frames(15, LEN, 900, SN_OUT_JOINED), 0);
	wait_for_some();
	assert_int_equal(take(&next, 6, LEN, 900, 15), 6);
	assert_int_equal(next, 6);
	assert_int_equal(take(&next, 6, LEN, 900, 15), 0);
	assert_int_equal(take(&next, 6, LEN, 900, 15), 0);
	assert_int_equal(next, 15);
}

/* As they come from a card, whose driver joins nothing. */
static void frames_that_come_one_by_one_are_read_several_at_a_time(void **state)
{
	expected = 16;
	expected_len = LEN;
	send_frames(8, LEN, LEN, SN_OUT_BODY);
	assert_int_equal(take_all(8, LEN, LEN), 8);
	unsigned before = looks;
	send_frames(16, LEN, LEN - 300, SN_OUT_BODY);
	assert_int_equal(take_all(16, LEN, LEN - 300), 16);
	assert_true(looks - before <= 8); /* one, unless they come late */
}

static void joined_ones_among_them_arrive_too(void **state)
{
	needs_joining();
	expected = 16;
	expected_len = LEN;
	send_frames(10, LEN, LEN, SN_OUT_BODY);
	assert_int_equal(take_all(10, LEN, LEN), 10);
	send_frames(15, LEN, 200, SN_OUT_JOINED);
	assert_int_equal(take_all(15, LEN, 200), 0); /* read where one frame was expected */
	send_frames(15, LEN, 200, SN_OUT_JOINED);
	assert_int_equal(take_all(15, LEN, 200), 15);
}

/* ---- what the system refuses ---- */

static void what_passes_costs_the_frames_that_it_meets(void **state)
{
	const int passing[] = {EPERM, ENETDOWN, ENODEV, ENOMEM};

	needs_joining();
	for (unsigned i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
		refusal = passing[i];
		assert_int_equal(send_frames(4, LEN, LEN, SN_OUT_JOINED), passing[i]);
		assert_int_equal(counter(from, "net.ether_send_errors"), i + 1);
		refusal = 0;
		assert_int_equal(send_frames(4, LEN, LEN, SN_OUT_JOINED), 0);
		assert_int_equal(take_all(4, LEN, LEN), 0);
		assert_int_equal(counter(to, "net.ether_joined_receives"), i + 1);
	}
}

static void a_refusal_costs_nothing_and_is_tried_again(void **state)
{
	const int lasting[] = {EIO, EINVAL, EOPNOTSUPP, EMSGSIZE};

	for (unsigned i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++) {
		unsigned before = joined;
		refusal = lasting[i];
		assert_int_equal(send_frames(4, LEN, LEN, SN_OUT_JOINED), 0);
		assert_int_equal(take_all(4, LEN, LEN), 0);
		assert_int_equal(joined - before, 1);
		assert_int_equal(send_frames(4, LEN, LEN, SN_OUT_JOINED), 0);
		assert_int_equal(take_all(4, LEN, LEN), 0);
		assert_int_equal(joined - before, 1);
		seconds += 2;
		assert_int_equal(send_frames(4, LEN, LEN, SN_OUT_JOINED), 0);
		assert_int_equal(take_all(4, LEN, LEN), 0);
		assert_int_equal(joined - before, 2);
		seconds += 2;
	}
	refusal = 0;
	assert_int_equal(counter(from, "net.ether_send_errors"), 0);
}

static bool kernel_joins(void)
{
	struct utsname u;
	char *rest = NULL;

	uname(&u);
	long major = strtol(u.release, &rest, 10);
	return major > 6 || (major == 6 && strtol(rest + 1, NULL, 10) >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(joined_frames_arrive_in_one_look, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bodies_end_where_they_belong, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_wrong_guess_costs_a_copy_and_no_byte, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_waits_for_the_next_look_has_no_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(frames_that_come_one_by_one_are_read_several_at_a_time,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(joined_ones_among_them_arrive_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_passes_costs_the_frames_that_it_meets, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_refusal_costs_nothing_and_is_tried_again, set_up,
						tear_down),
	};

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		printf("skipped: a new network namespace is not permitted here\n");
		return 77;
	}
	up("lo");
	can_join = kernel_joins();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

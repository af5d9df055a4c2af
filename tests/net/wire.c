/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bad wire in user space: a TAP device in each of two network namespaces, and this program between them, which
 * drops, duplicates, delays, reorders and corrupts frames from a seed. wire NETNS_A NETNS_B MTU SEED LOSS% DUPLICATE%
 * REORDER% CORRUPT% The devices are called eth0. It prints "READY" and, at SIGTERM or when its standard input ends,
 * what it did. "cut", "heal" and "oneway" lines on standard input cut both ways, none, or only the way from A to B;
 * "firewall" lets all through but UDP, "halfwall" but UDP from A; "version" makes A's frames look like those of
 * another version of the protocol, "key" like those for another key; "bodies" loses what has the ethertype of bodies,
 * "ether" what has the other. The last of several lines counts, also when they are read at once: a wire that has to
 * wait for its core must not stay cut.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FRAME_MAX 66000

static uint64_t state;
static double loss, duplicate, reorder, corrupt;
static unsigned long passed, lost, doubled, swapped, damaged;
static bool cut_ab, cut_ba, firewall_ab, firewall_ba, no_bodies, no_ether;
static int altered = -1; /* the byte of the protocol's frames that is changed on the way from A to B */

static double chance(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0 * 100;
}

static int tap_in(const char *netns, int mtu)
{
	char path[128];
	struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), ns, fd, s;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET) < 0) {
		perror(path);
		exit(1);
	}
	fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	snprintf(r.ifr_name, sizeof(r.ifr_name), "eth0");
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0) {
		perror("/dev/net/tun");
		exit(77);
	}
	r.ifr_mtu = mtu;
	if (ioctl(s, SIOCSIFMTU, &r) < 0)
		perror("mtu");
	close(s);
	if (setns(home, CLONE_NEWNET) < 0)
		exit(1);
	close(home);
	close(ns);
	return fd;
}

/* A frame of the protocol: over Ethernet, or over UDP, where no checksum is right, too. */
static void alter(uint8_t *frame, ssize_t len, int at)
{
	if (len > 60 && frame[12] == 0x88 && (frame[13] == 0xb6 || frame[13] == 0xb5))
		frame[(frame[13] == 0xb6 ? 16 : 42) + at]++;
	if (len > 60 && frame[12] == 8 && frame[13] == 0 && frame[14] == 0x45 && frame[23] == 17) {
		frame[40] = frame[41] = 0;
		frame[42 + at]++;
	}
}

static void put(int fd, const uint8_t *frame, size_t len)
{
	if (write(fd, frame, len) == (ssize_t)len)
		passed++;
}

static void forward(int from, int to, bool cut, bool firewall, int alter_at, uint8_t *held, size_t *held_len)
{
	static uint8_t frame[FRAME_MAX];

	for (int burst = 0; burst < 64; burst++) {
		ssize_t len = read(from, frame, sizeof(frame));
		if (len <= 0)
			break;
		bool udp = len > 23 && frame[12] == 8 && frame[13] == 0 && frame[23] == 17;
		bool ours = len > 14 && frame[12] == 0x88;
		bool typed = ours && ((no_bodies && frame[13] == 0xb5) || (no_ether && frame[13] == 0xb6));
		if (cut || typed || (firewall && udp) || chance() < loss) {
			lost++;
			continue;
		}
		if (alter_at >= 0)
			alter(frame, len, alter_at);
		if (len > 14 && chance() < corrupt) {
			frame[14 + (size_t)(chance() / 100 * (double)(len - 14))] ^= 0x10;
			damaged++;
		}
		if (*held_len == 0 && chance() < reorder) {
			memcpy(held, frame, (size_t)len);
			*held_len = (size_t)len;
			swapped++;
			continue;
		}
		put(to, frame, (size_t)len);
		if (chance() < duplicate) {
			put(to, frame, (size_t)len);
			doubled++;
		}
	}
	if (*held_len && chance() < 50) { /* what was held back follows later frames */
		put(to, held, *held_len);
		*held_len = 0;
	}
}

static void obey(const char *word)
{
	cut_ba = strcmp(word, "cut") == 0;
	cut_ab = cut_ba || strcmp(word, "oneway") == 0;
	firewall_ba = strcmp(word, "firewall") == 0;
	firewall_ab = firewall_ba || strcmp(word, "halfwall") == 0;
	no_bodies = strcmp(word, "bodies") == 0;
	no_ether = strcmp(word, "ether") == 0;
	altered = strcmp(word, "version") == 0 ? 0
		  : strcmp(word, "key") == 0   ? 8
					       : -1; /* 8: what the key has made */
}

static bool command(void)
{
	static char line[64];
	static size_t at;
	char c[256];
	ssize_t len = read(0, c, sizeof(c));

	for (ssize_t i = 0; i < len; i++) {
		line[at] = c[i] == '\n' ? 0 : c[i];
		if (c[i] == '\n')
			obey(line);
		at = c[i] == '\n' || at + 2 > sizeof(line) ? 0 : at + 1;
	}
	return len > 0;
}

int main(int argc, char **argv)
{
	static uint8_t held[2][FRAME_MAX];
	size_t held_len[2] = {0, 0};

	if (argc != 9)
		return 2;
	state = strtoull(argv[4], NULL, 0);
	loss = atof(argv[5]);
	duplicate = atof(argv[6]);
	reorder = atof(argv[7]);
	corrupt = atof(argv[8]);
	int a = tap_in(argv[1], atoi(argv[3])), b = tap_in(argv[2], atoi(argv[3]));
	printf("READY\n");
	fflush(stdout);
	for (;;) {
		struct pollfd p[3] = {{a, POLLIN, 0}, {b, POLLIN, 0}, {0, POLLIN, 0}};
		poll(p, 3, held_len[0] || held_len[1] ? 1 : 1000);
		if (p[2].revents && !command())
			break;
		forward(a, b, cut_ab, firewall_ab, altered, held[0], &held_len[0]);
		forward(b, a, cut_ba, firewall_ba, -1, held[1], &held_len[1]);
	}
	printf("passed %lu lost %lu doubled %lu reordered %lu damaged %lu\n", passed, lost, doubled, swapped,
	       damaged);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process of apart.py, driven over its standard streams: apart RANK COUNT overlap | disturbed, apart RANK COUNT
 * fair FLOODER (0: both others)
 */
#include "peer.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_LEN  (3u << 20)
#define SHORT_LEN 1000
#define QUIET	  4 /* leave without waiting for an acknowledgement: all are there when the receiver begins */
#define FLOOD	  50000
/*
 * The network is looked at every 200 us at the latest (src/net/rail.c), in which a node carries some thousand
 * messages: so many of the flood may come before, and some more where the receiver loses its core in the meantime.
 */
#define BEFORE (FLOOD / 4)
/*
 * Of two floods, when both have filled what they can: of the messages taken first, the least from each. Up to 1,024 of the
 * one that began first may have been taken in before (src/core/visit.c), with or without the other's; then a look takes
 * 64 from the ring (src/local/recv.c), and a window of the other host's stands in the socket: 16 frames at first
 * (src/net/way.c), up to 64 by and by, with 1 message each, if each left alone, to 11. Who is starved has none.
 */
#define FIRST	   2400
#define PART_HERE  64
#define PART_THERE 16

static sn_peer peers[4];
static unsigned ranks;

static void say(const char *word)
{
	printf("INFO %s\n", word);
	fflush(stdout);
}

/* Computes, without a call of ours, until a line comes. */
static void stay_away(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char line[16];

	while (poll(&in, 1, 0) == 0)
		for (volatile int i = 0; i < 100000; i++)
			;
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static sn_req *post(bool send, unsigned to, void *buf, size_t len, uint64_t bits)
{
	sn_req *req = NULL;
	int rc = send ? sn_isend(ep, peers[to], buf, len, bits, &req)
		      : sn_irecv(ep, peers[to], buf, len, bits, UINT64_MAX, &req);

	if (rc)
		die("post", rc);
	return req;
}

static void end(sn_req *req)
{
	sn_completion c = {0};
	int rc = sn_wait(ep, req, &c, 60000000);

	if (rc || c.status)
		die("completion", rc ? rc : c.status);
}

/*
 * Rank 0 sends, rank 1 receives. First the receiver stays away: what was sent is all in its buffers before it calls again,
 * for which the sender's word is that the long one has left it. Then the sender.
 */
static void overlap(void)
{
	static uint8_t small[SHORT_LEN], big[LONG_LEN];
	sn_req *s, *l;

	end(post(rank == 0, !rank, small, 8, 1)); /* connected */
	end(post(rank == 1, !rank, small, 8, 1));
	if (rank == 0) {
		fill(small, SHORT_LEN, 1);
		fill(big, LONG_LEN, 2);
		stay_away(); /* until the other has posted */
		end(post(true, 1, small, SHORT_LEN, 2));
		end(post(true, 1, big, LONG_LEN, 3));
		say("moved");
		s = post(true, 1, small, SHORT_LEN, 4);
		l = post(true, 1, big, LONG_LEN, 5);
		say("posted");
		stay_away();
		end(s);
		end(l);
	} else {
		s = post(false, 0, small, SHORT_LEN, 2);
		l = post(false, 0, big, LONG_LEN, 3);
		say("posted");
		stay_away();
		if (!check(small, SHORT_LEN, 1) || !check(big, LONG_LEN, 2))
			die("not all has come while the receiver computed", 0);
		end(s);
		end(l);
		memset(big, 0, LONG_LEN);
		end(post(false, 0, small, SHORT_LEN, 4));
		end(post(false, 0, big, LONG_LEN, 5));
		if (!check(big, LONG_LEN, 2))
			die("wrong bytes", 0);
		say("moved");
	}
	printf("OK\n");
}

static volatile sig_atomic_t signals;

static void on_signal(int sig)
{
	signals++;
}

static void ended(pid_t child)
{
	int status, rc;

	while ((rc = waitpid(child, &status, 0)) < 0 && errno == EINTR)
		;
	if (rc != child || status)
		die("a child", status);
}

static void have_children(void)
{
	static char *const words[] = {"true", NULL};
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	ended(child);
	if (posix_spawnp(&child, words[0], NULL, NULL, words, environ))
		die("cannot run a program", 0);
	ended(child);
}

/* To one core and back, of those that this process may use. */
static void move_about(unsigned turn)
{
	static cpu_set_t all;
	cpu_set_t one;
	unsigned n;

	if (!CPU_COUNT(&all))
		sched_getaffinity(0, sizeof(all), &all);
	n = turn % (unsigned)CPU_COUNT(&all);
	CPU_ZERO(&one);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && n-- == 0)
			CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), turn & 1 ? &all : &one))
		die("cannot move", 0);
}

/* Messages to and fro while signals interrupt every call, the processes have children, and go from core to core. */
static void disturbed(void)
{
	static uint8_t data[300000];
	struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART */
	struct itimerval timer = {{0, 700}, {0, 700}}, none = {{0, 0}, {0, 0}};

	if (sigaction(SIGALRM, &act, NULL) || setitimer(ITIMER_REAL, &timer, NULL))
		die("no timer", 0);
	for (unsigned lap = 0; lap < 200; lap++) {
		size_t len = lap % 3 ? 200 : sizeof(data);
		bool sends = (lap & 1) == rank;

		if (lap % 20 == 5)
			have_children();
		if (lap % 10 == rank)
			move_about(lap / 10);
		if (sends)
			fill(data, len, lap);
		end(post(sends, !rank, data, len, lap));
		if (!sends && !check(data, len, lap))
			die("wrong bytes", 0);
	}
	if (setitimer(ITIMER_REAL, &none, NULL) || !signals)
		die("no signal came", 0);
	printf("OK\n");
}

static unsigned take(size_t len)
{
	uint8_t x[100];
	sn_req *req;
	sn_completion c = {0};
	int rc = sn_irecv(ep, SN_ANY_PEER, x, len, 0, 0, &req);

	if (!rc)
		rc = sn_wait(ep, req, &c, 60000000);
	if (rc || c.status)
		die("a receive from any source", rc ? rc : c.status);
	return (unsigned)c.bits;
}

static void fair_send(uint64_t floods)
{
	uint8_t x[100] = {0};
	int count = floods ? FLOOD : QUIET;
	sn_req *last = NULL;

	end(post(true, 0, x, 1, 9));
	stay_away();
	for (int i = 0; i < count; i++)
		if (sn_isend(ep, peers[0], x, sizeof(x), floods, i < count - 1 ? NULL : &last))
			die("a send", 0);
	for (int i = 0; i < 200; i++)
		sn_progress(ep);
	say("full");
	end(last);
	printf("OK\n");
}

/*
 * Both flood, and both have had all the time to fill what lies between. So each has its part in what is taken first, however
 * the cores are shared out from then on; and what they are worth to each other shows when the first of the two is done.
 */
static void fair_among_floods(void)
{
	unsigned got[2] = {0, 0}, first[2] = {0, 0}, then;

	for (unsigned n = 0; got[0] < FLOOD && got[1] < FLOOD; n++) {
		got[take(100) - 1]++;
		if (n == FIRST - 1)
			memcpy(first, got, sizeof(got));
	}
	then = got[got[0] == FLOOD];
	while (got[0] + got[1] < 2 * FLOOD)
		got[take(100) - 1]++;
	if (first[0] < PART_HERE || first[1] < PART_THERE) {
		fprintf(stderr,
			"rank 0: of the first %d messages %u came from this node and %u from the other\n",
			FIRST, first[0], first[1]);
		exit(1);
	}
	printf("OK %u and %u of the first %d; %u beside the first flood of %d\n", first[0], first[1], FIRST,
	       then, FLOOD);
}

/* Takes from any source; the two who send are on this node and on another. */
static void fair_receive(bool both)
{
	unsigned quiet = 0, flood = 0;

	take(1);
	take(1);
	say("met");
	stay_away();
	if (both) {
		fair_among_floods();
		return;
	}
	while (quiet < QUIET) {
		if (take(100))
			flood++;
		else
			quiet++;
	}
	unsigned before = flood;
	while (flood < FLOOD)
		flood += take(100);
	if (before > BEFORE) {
		fprintf(stderr, "rank 0: %u of the flood's %d messages came before the other's %d\n", before,
			FLOOD, QUIET);
		exit(1);
	}
	printf("OK %u messages of the flood before the last of the other's %d\n", before, QUIET);
}

int main(int argc, char **argv)
{
	if (argc < 4 || (strcmp(argv[3], "fair") == 0 && argc < 5))
		return 2;
	rank = (unsigned)atoi(argv[1]);
	ranks = (unsigned)atoi(argv[2]);
	open_endpoint();
	say_address();
	for (unsigned r = 0; r < ranks && r < 4; r++)
		peers[r] = read_peer();
	if (strcmp(argv[3], "overlap") == 0)
		overlap();
	else if (strcmp(argv[3], "disturbed") == 0)
		disturbed();
	else if (rank == 0)
		fair_receive(atoi(argv[4]) == 0);
	else
		fair_send(atoi(argv[4]) == 0 ? rank : rank == (unsigned)atoi(argv[4]));
	close_when_told();
	return 0;
}

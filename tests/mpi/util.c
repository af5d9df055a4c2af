/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers, patterns and the watchdog of the MPI test programs. */
#include "stress.h"
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct state st;

uint64_t rnd(struct rng *r) /* splitmix64 */
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t mix(uint64_t a, uint64_t b)
{
	struct rng r = {a ^ (b * 0xd6e8feb86659fd93u)};

	return rnd(&r);
}

uint64_t below(struct rng *r, uint64_t n)
{
	return n ? rnd(r) % n : 0;
}

bool chance(struct rng *r, unsigned percent)
{
	return below(r, 100) < percent;
}

size_t rnd_len(struct rng *r, size_t max)
{
	double top = log2((double)max + 1);
	size_t n = (size_t)exp2(top * (double)below(r, 1 << 20) / (1 << 20)) - 1;

	if (chance(r, 15)) /* where protocols change */
		n = ((size_t)1 << below(r, (uint64_t)top + 1)) + below(r, 5) - 2;
	return n > max ? max : n;
}

void shuffle(struct rng *r, int *v, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)below(r, (uint64_t)i + 1), t = v[i];

		v[i] = v[j];
		v[j] = t;
	}
}

static uint64_t word(uint64_t key, uint64_t i)
{
	uint64_t x = (key + i) * 0x9e3779b97f4a7c15u;

	return x ^ (x >> 29);
}

/* Byte o of a message is byte o % 8 of word o / 8, wherever the message is cut. */
void pattern_fill(void *dst, uint64_t key, size_t offset, size_t len)
{
	unsigned char *p = dst;

	while (len) {
		uint64_t w = word(key, offset / 8);
		size_t in = offset % 8, n = 8 - in < len ? 8 - in : len;

		if (n == 8)
			memcpy(p, &w, 8);
		else
			memcpy(p, (char *)&w + in, n);
		p += n;
		offset += n;
		len -= n;
	}
}

void pattern_check(const void *buf, uint64_t key, size_t offset, size_t len, const char *what)
{
	const unsigned char *p = buf;

	while (len) {
		uint64_t w = word(key, offset / 8), got = 0;
		size_t in = offset % 8, n = 8 - in < len ? 8 - in : len;

		if (n == 8)
			memcpy(&got, p, 8);
		else
			memcpy((char *)&got + in, p, n);
		if (n < 8 ? memcmp((char *)&got + in, (char *)&w + in, n) != 0 : got != w)
			die("%s: wrong bytes at offset %zu: %016llx instead of %016llx", what, offset,
			    (unsigned long long)got, (unsigned long long)w);
		p += n;
		offset += n;
		len -= n;
	}
}

void guard_check(const void *buf, size_t len, const char *what)
{
	const unsigned char *p = buf;

	if (len && (p[0] != GUARD || (len > 1 && memcmp(p, p + 1, len - 1) != 0)))
		for (size_t i = 0; i < len; i++)
			must(p[i] == GUARD, "%s: byte %zu outside the message was written (%02x)", what, i,
			     p[i]);
}

static int describe(char *out, size_t room)
{
	return snprintf(out, room,
			"rank %d of %d, seed %llu, round %d, %s: sends %d posted %d done of %d, "
			"receives %d posted %d done of %d, %d by probe\n",
			st.rank, st.size, (unsigned long long)st.seed, st.round, st.doing, st.sends_posted,
			st.sends_done, st.sends, st.recvs_posted, st.recvs_done, st.recvs, st.probing);
}

void die(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, "FAILED: %s\n", line);
	describe(line, sizeof(line));
	fprintf(stderr, "FAILED: at %s", line);
	fflush(NULL);
	MPI_Abort(MPI_COMM_WORLD, 3);
	_exit(3);
}

void *need(size_t n)
{
	void *p = malloc(n ? n : 1);

	must(p, "no memory for %zu bytes", n);
	return p;
}

static unsigned watch_seconds;

/* Said first, so that the stuck ranks all get to say it; the job ends three seconds later. (snprintf in a signal
 * handler: nothing is left to protect.) */
static void on_alarm(int sig)
{
	static volatile int said;
	char line[512];
	int n;

	(void)sig;
	if (said)
		_exit(4);
	said = 1;
	n = snprintf(line, sizeof(line), "STUCK for %u s: ", watch_seconds);
	n += describe(line + n, sizeof(line) - (size_t)n);
	if (write(2, line, (size_t)n) < 0)
		_exit(4);
	alarm(3);
}

void time_and_seed(int argc, char **argv, time_t *end, uint64_t *seed)
{
	for (int c; (c = getopt(argc, argv, "t:s:")) != -1;) {
		if (c == 't')
			*end = time(NULL) + atoi(optarg);
		else if (c == 's')
			*seed = strtoull(optarg, NULL, 0);
		else
			exit(2);
	}
}

void watch_start(unsigned seconds)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	watch_seconds = seconds;
	sigaction(SIGALRM, &sa, NULL);
	alarm(seconds);
}

void watch_feed(void)
{
	alarm(watch_seconds);
}

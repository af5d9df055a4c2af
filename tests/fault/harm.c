/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process is killed or stopped in the middle of a message.
 *
 * Killed: the requests of the others with it end in an error within 2 seconds, those among the others go on, and nothing
 * is left of it. Stopped: everybody waits, and goes on when it does.
 *
 * The 2 seconds count from the end of the death, which itself needs a core, and leave out what the processes that are
 * timed stood ready without a core: that is the load's doing, and the kernel counts it for each. Nor does the clock run on
 * while the whole machine is stopped, as a guest's host may do it for seconds.
 *
 *   harm CASE
 */
#include "sides.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define VICTIM	  0
#define BIG	  (64u << 20)
#define PROMISE	  2.0  /* seconds from the death to the error, see above */
#define CLOSED	  40   /* times */
#define TICK_MOST 0.02 /* seconds: what the parent, which sleeps for 1 ms, takes longer it was stopped */

/* Seconds that this process's first thread has stood ready without a core; 0 where the kernel does not count. */
static double without_core(pid_t pid)
{
	char path[64];
	unsigned long long ran, waited = 0;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	fclose(f);
	return (double)waited * 1e-9;
}

/* Until it has ended; sides_join still finds it. Meanwhile the board's clock runs, by TICK_MOST at a time. */
static void await_end(struct board *b, int side)
{
	siginfo_t info = {0};
	double last = seconds();

	while (!info.si_pid) {
		int rc = waitid(P_PID, (id_t)b->pid[side], &info, WEXITED | WNOWAIT | WNOHANG);
		CHECK(rc == 0 || errno == EINTR, "side %d: %s", side, strerror(errno));
		usleep(1000);
		double now = seconds();
		atomic_fetch_add(&b->awake_us,
				 (uint64_t)(1e6 * (now - last < TICK_MOST ? now - last : TICK_MOST)));
		last = now;
	}
}

/* The clock, without what that process has been kept waiting. */
static double awake_seconds(struct board *b, pid_t pid)
{
	return 1e-6 * (double)atomic_load(&b->awake_us) - without_core(pid);
}

static char *buffer(uint64_t key, size_t len)
{
	char *p = malloc(len);

	CHECK(p, "no memory");
	fill(p, key, len);
	return p;
}

/* What is said on standard error from now on is kept, until it is read. */
static int kept_stderr, own_stderr;

static void stderr_keep(void)
{
	own_stderr = dup(STDERR_FILENO);
	kept_stderr = memfd_create("said", MFD_CLOEXEC);
	CHECK(kept_stderr >= 0 && own_stderr >= 0, "%s", strerror(errno));
	dup2(kept_stderr, STDERR_FILENO);
}

static void stderr_read(char *out, size_t room)
{
	dup2(own_stderr, STDERR_FILENO);
	ssize_t n = pread(kept_stderr, out, room - 1, 0);
	out[n > 0 ? n : 0] = 0;
	close(own_stderr);
	close(kept_stderr);
}

/* All that a survivor may have under way with the victim: sends that nobody receives, a synchronous one, receives. */
static void survivor(struct side *s)
{
	char *big = buffer(1, BIG), *in = malloc(BIG), small[8];
	sn_req *req[6];
	int other = 3 - s->me, n = 0, rc[6];
	char said[1000];
	sn_completion c, ends[6];

	exchange(s, VICTIM, 1, 100000);
	req[n++] = post_recv(s, VICTIM, in, BIG, 7001); /* the victim is in the middle of sending this */
	req[n++] = post_send(s, VICTIM, big, BIG, 7002, 0);
	req[n++] = post_send(s, VICTIM, big, 100, 7003, SN_SYNC);
	req[n++] = post_recv(s, VICTIM, small, sizeof(small), 7004);
	req[n++] = post_send(s, VICTIM, big, 100, 7005, 0); /* may have arrived: no error is due */
	stderr_keep(); /* from before the death: the progress thread may say it at once */
	atomic_fetch_add(&s->b->step, 1);
	await(&s->b->step, 3); /* the parent: it is dead */
	double start = awake_seconds(s->b, getpid());
	for (int i = 0; i < n; i++)
		rc[i] = sn_wait(s->ep, req[i], &ends[i], 60000000);
	double took = awake_seconds(s->b, getpid()) - start;
	stderr_read(said, sizeof(said));
	for (int i = 0; i < n; i++) {
		CHECK(rc[i] == 0, "request %d with a dead peer does not end: %s", i, sn_strerror(rc[i]));
		CHECK(ends[i].status == SN_ERR_PEER_GONE || (i == 4 && ends[i].status == 0) ||
			      (i == 0 && ends[i].status == 0),
		      "request %d with a dead peer ended with %s", i, sn_strerror(ends[i].status));
	}
	printf("side %d: told after %.3f s\n", s->me, took);
	CHECK(took < PROMISE, "told of the death after %.1f s", took);
	int told = 0;
	for (const char *at = said; (at = strstr(at, "has ended without closing its endpoint")); at++)
		told++;
	CHECK(told == 1, "the death was said to the user %d times: %s", told, said);
	c = finish(s, post_send(s, VICTIM, big, 8, 1, 0));
	CHECK(c.status == SN_ERR_PEER_GONE, "a later send to it ended with %s", sn_strerror(c.status));
	c = finish(s, post_recv(s, VICTIM, small, 8, 1));
	CHECK(c.status == SN_ERR_PEER_GONE, "a later receive from it ended with %s", sn_strerror(c.status));
	exchange(s, other, 2, 1u << 20); /* and the living go on */
	free(big);
	free(in);
}

/* Sends to both, then keeps on working at it until it is killed. */
static void victim(struct side *s)
{
	char *big = buffer(2, BIG);

	exchange(s, 1, 1, 100000);
	exchange(s, 2, 1, 100000);
	post_send(s, 1, big, BIG, 7001, 0);
	post_send(s, 2, big, BIG, 7001, 0);
	for (;;)
		sn_progress(s->ep);
}

/* Does not even call the library when it dies. */
static void silent_victim(struct side *s)
{
	exchange(s, 1, 1, 100000);
	exchange(s, 2, 1, 100000);
	for (;;)
		pause();
}

static int killed(side_fn who)
{
	struct board *b = board_new(3);

	for (int i = 0; i < 3; i++)
		side_start(b, i, NULL, i == VICTIM ? who : survivor);
	await(&b->step, 2); /* both survivors have posted all they have */
	kill(b->pid[VICTIM], SIGKILL);
	await_end(b, VICTIM);
	atomic_fetch_add(&b->step, 1);
	await_end(b, 1);
	await_end(b, 2);
	sides_join(b, 1u << VICTIM);
	return 0;
}

/* Again and again at any moment: while a stream of large messages runs, which way ever they are copied. */
static void endless(struct side *s)
{
	char *out = buffer(3, 8u << 20), *in = malloc(8u << 20);
	int other = 1 - s->me;

	for (;;) {
		sn_req *r = post_recv(s, other, in, 8u << 20, 5),
		       *t = post_send(s, other, out, 8u << 20, 5, 0);
		sn_completion c = finish(s, r), d = finish(s, t);

		atomic_fetch_add(&s->b->progress[s->me], 1);
		if (c.status == 0)
			check(in, 3, 8u << 20, "endless");
		CHECK(c.status == 0 || c.status == SN_ERR_PEER_GONE, "receive: %s", sn_strerror(c.status));
		CHECK(d.status == 0 || d.status == SN_ERR_PEER_GONE, "send: %s", sn_strerror(d.status));
		if (c.status || d.status)
			break;
	}
	free(out);
	free(in);
}

static int killed_often(const char *copy)
{
	setenv("SENNIT_COPY", copy, 1);
	for (int i = 0; i < 12; i++) {
		struct board *b = board_new(2);

		side_start(b, 0, NULL, endless);
		side_start(b, 1, NULL, endless);
		while (atomic_load(&b->progress[0]) < 3 && atomic_load(&b->progress[1]) < 3)
			usleep(500);
		usleep((useconds_t)(i * 700));
		kill(b->pid[VICTIM], SIGKILL);
		await_end(b, VICTIM);
		double start = awake_seconds(b, b->pid[1]);
		await_end(b, 1);
		double took = awake_seconds(b, b->pid[1]) - start;
		sides_join(b, 1u << VICTIM);
		CHECK(took < PROMISE, "the survivor ended %.1f s after the death", took);
	}
	return 0;
}

/* Until the parent has done its harm. Side 0 says in each round whether there is another, so that both make as many. */
static void patient(struct side *s)
{
	for (int i = 0; i <= atomic_load(&s->b->rounds); i++) {
		if (s->me == 0 && !atomic_load(&s->b->step))
			atomic_store(&s->b->rounds, i + 1);
		exchange(s, 1 - s->me, 1, 24u << 20);
	}
}

/* Longer than any patience that a library may have with a silent peer on the same node. Each time both go on. */
static int stopped(const char *copy)
{
	struct board *b = board_new(2);

	setenv("SENNIT_COPY", copy, 1);
	side_start(b, 0, NULL, patient);
	side_start(b, 1, NULL, patient);
	for (int i = 0; i < 8; i++) {
		uint64_t before[2];

		usleep(60000);
		kill(b->pid[i % 2], SIGSTOP);
		if (i < 2)
			sleep(3);
		else
			usleep(150000);
		for (int k = 0; k < 2; k++)
			before[k] = atomic_load(&b->progress[k]);
		kill(b->pid[i % 2], SIGCONT);
		for (int k = 0; k < 2; k++)
			while (atomic_load(&b->progress[k]) == before[k])
				usleep(200);
	}
	atomic_store(&b->step, 1);
	sides_join(b, 0);
	return 0;
}

/* One side closes its endpoint in good order while the other still wants something of it: an error there, but no death. */
static void leaver(struct side *s)
{
	exchange(s, 1, 1, 100000);
	await(&s->b->step, 1);
}

static void left_behind(struct side *s)
{
	char in[8];
	sn_req *r, *t;
	sn_completion c;
	char *big = buffer(4, 1u << 20), said[1000];

	exchange(s, 0, 1, 100000);
	stderr_keep();
	r = post_recv(s, 0, in, sizeof(in), 99);
	t = post_send(s, 0, big, 1u << 20, 99, 0);
	atomic_fetch_add(&s->b->step, 1);
	c = finish(s, r);
	CHECK(c.status == SN_ERR_PEER_GONE, "a receive from a closed endpoint ended with %s",
	      sn_strerror(c.status));
	c = finish(s, t);
	CHECK(c.status == SN_ERR_PEER_GONE, "a send to a closed endpoint ended with %s",
	      sn_strerror(c.status));
	stderr_read(said, sizeof(said));
	CHECK(!strstr(said, "has ended"), "one that closed its endpoint was said to have died: %s", said);
	free(big);
}

/* Often, since what is said of it depends on the moment at which the other side looks. */
static int closed(void)
{
	for (int i = 0; i < CLOSED; i++) {
		struct board *b = board_new(2);

		side_start(b, 0, NULL, leaver);
		side_start(b, 1, NULL, left_behind);
		sides_join(b, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "";

	if (strcmp(name, "killed") == 0)
		return killed(victim);
	if (strcmp(name, "killed-silent") == 0)
		return killed(silent_victim);
	if (strncmp(name, "killed-", 7) == 0)
		return killed_often(name + 7);
	if (strncmp(name, "stopped-", 8) == 0)
		return stopped(name + 8);
	if (strcmp(name, "closed") == 0)
		return closed();
	fprintf(stderr, "harm: no case '%s'\n", name);
	return 2;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A message each way between two sibling processes through sennit itself, every byte checked, and how it was copied. */
#include "doctor.h"
#include "pair.h"
#include "tool.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE	  ((size_t)4 << 20)
#define TIMEOUT_S 20

/*
 * Ways a byte may go and what counts it. A streamed byte is counted by both sides, one that the module writes into a
 * receive posted first as claimed too.
 */
enum { READ, WRITTEN, CLAIMED, BOTH, MAPPED, MODULE, ENGINE, STREAMED, WAYS };

static const struct {
	const char *counter, *words;
} ways[WAYS] = {
	[READ] = {"local.copy_read_bytes", "once, by the receiver"},
	[WRITTEN] = {"local.copy_write_bytes", "once, by the sender"},
	[CLAIMED] = {"local.copy_claim_bytes", "once, by the sender"},
	[BOTH] = {"local.copy_shared_bytes", "once, by both sides"},
	[MAPPED] = {"local.copy_mapped_bytes", "once, through a shared heap"},
	[MODULE] = {"local.copy_kmod_bytes", "once, by the kernel module"},
	[ENGINE] = {"local.copy_engine_bytes", "once, by a copy engine"},
	[STREAMED] = {"local.copy_stream_bytes", "twice, through shared memory"},
};

struct seen { /* what one side found out, handed to the parent */
	int error;
	uint64_t bytes[WAYS];
	uint64_t wrong; /* wrong bytes + 1, or 0 */
	char why[160];
};

static void count(void *arg, const char *name, uint64_t value)
{
	struct seen *s = arg;
	for (int i = 0; i < WAYS; i++)
		if (strcmp(name, ways[i].counter) == 0)
			s->bytes[i] = value;
}

static void exchange(struct sn_pair *p, struct seen *s)
{
	unsigned char *buf = malloc(MESSAGE);
	if (!buf)
		return;
	for (int turn = 0; turn < 2 && !s->error; turn++) {
		if (p->second == (turn == 0)) {
			memset(buf, 0, MESSAGE);
			s->error = sn_pair_recv(p, buf, MESSAGE);
			size_t good = sn_pattern_check(buf, MESSAGE, 17);
			s->wrong = !s->error && good < MESSAGE ? good + 1 : 0;
		} else {
			sn_pattern_fill(buf, MESSAGE, 17);
			s->error = sn_pair_send(p, buf, MESSAGE);
		}
	}
	sn_counters(p->ep, count, s);
	if (s->error) { /* so that the other one does not wait for this one */
		snprintf(s->why, sizeof(s->why), "%s",
			 s->error == SN_ERR_NOMEM ? sn_last_error() : sn_strerror(s->error));
		shutdown(p->fd, SHUT_RDWR);
	} else {
		sn_pair_meet(p);
	}
	free(buf);
}

/* One of the two siblings: talks to the other over `stream` and reports on `report`. */
static void sibling(int stream, int report, bool second)
{
	struct sn_pair p;
	struct seen s = {0};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(TIMEOUT_S);
	s.error = sn_pair_open(&p, stream, second);
	if (s.error)
		snprintf(s.why, sizeof(s.why), "%s", sn_last_error());
	else
		exchange(&p, &s);
	sn_pair_close(&p);
	sn_pair_write(report, &s, sizeof(s));
	_exit(0);
}

static pid_t start(int stream[2], int report[2], bool second)
{
	pid_t pid = fork();
	if (pid == 0) {
		close(stream[!second]);
		sibling(stream[second], report[1], second);
	}
	return pid;
}

/* "once, by both sides"; where it went several ways, each with its part of the bytes. */
static void describe(const struct seen *a, const struct seen *b, char *text, size_t size)
{
	uint64_t bytes[WAYS], all = 0;
	for (int i = 0; i < WAYS; i++)
		bytes[i] = a->bytes[i] + b->bytes[i];
	bytes[STREAMED] /= 2;
	bytes[CLAIMED] -= bytes[CLAIMED] < bytes[MODULE] ? bytes[CLAIMED] : bytes[MODULE];
	bytes[WRITTEN] += bytes[CLAIMED];
	bytes[CLAIMED] = 0;
	for (int i = 0; i < WAYS; i++)
		all += bytes[i];
	snprintf(text, size, "in a way that nothing counts");
	for (int i = 0, n = 0; i < WAYS && n < (int)size; i++) {
		if (!bytes[i])
			continue;
		n += snprintf(text + n, size - (size_t)n, "%s%s", n ? "; " : "", ways[i].words);
		if (bytes[i] < all && n < (int)size)
			n += snprintf(text + n, size - (size_t)n, " (%.0f %%)",
				      100. * (double)bytes[i] / (double)all);
	}
}

static void report(const struct seen *a, const struct seen *b)
{
	char how[256];
	/* Of two the one that failed first: the other one only sees that it is gone. */
	const struct seen *bad = a->error && (a->error != SN_ERR_PEER_GONE || !b->error) ? a : b;
	describe(a, b, how, sizeof(how));
	if (bad->error)
		sn_doctor_report(SN_HEALTH_MISSING, "sennit itself",
				 "the lines above; SENNIT_LOG=debug tells more",
				 "a message between two processes fails: %s", bad->why);
	else if (a->wrong || b->wrong)
		sn_doctor_report(SN_HEALTH_MISSING, "sennit itself",
				 "please report this, with the output of sennit info",
				 "a message arrives damaged at byte %" PRIu64,
				 (a->wrong ? a->wrong : b->wrong) - 1);
	else
		sn_doctor_report(SN_HEALTH_OK, "sennit itself", NULL,
				 "4 MiB each way between two processes, every byte right; copied %s", how);
}

void sn_doctor_engine(void)
{
	int stream[2], results[2][2];
	struct seen seen[2] = {{0}};
	pid_t pid[2] = {-1, -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) != 0)
		return;
	for (int i = 0; i < 2; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, results[i]) != 0)
			exit(1);
		pid[i] = start(stream, results[i], i);
		close(results[i][1]);
	}
	close(stream[0]);
	close(stream[1]);
	for (int i = 0; i < 2; i++) {
		if (pid[i] < 0 || !sn_pair_read(results[i][0], &seen[i], sizeof(seen[i]))) {
			seen[i].error = SN_ERR_TIMEOUT;
			snprintf(seen[i].why, sizeof(seen[i].why), "a process did not finish within %d s",
				 TIMEOUT_S);
		}
		close(results[i][0]);
		if (pid[i] > 0)
			waitpid(pid[i], NULL, 0);
	}
	report(&seen[0], &seen[1]);
}

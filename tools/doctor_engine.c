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

struct seen {					  /* what one side found out, handed to the parent */
	uint64_t read, written, streamed, module; /* bytes by way of copying */
	uint64_t wrong;				  /* wrong bytes + 1, or 0 */
	int error;
	char why[160];
};

static void count(void *arg, const char *name, uint64_t value)
{
	struct seen *s = arg;
	if (strcmp(name, "local.copy_read_bytes") == 0)
		s->read = value;
	else if (strcmp(name, "local.copy_write_bytes") == 0)
		s->written = value;
	else if (strcmp(name, "local.copy_kmod_bytes") == 0)
		s->module = value;
	else if (strcmp(name, "local.copy_stream_bytes") == 0)
		s->streamed = value;
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

static void report(const struct seen *a, const struct seen *b)
{
	uint64_t once = a->read + a->written + b->read + b->written, twice = a->streamed + b->streamed,
		 module = a->module + b->module;
	/* Of two the one that failed first: the other one only sees that it is gone. */
	const struct seen *bad = a->error && (a->error != SN_ERR_PEER_GONE || !b->error) ? a : b;
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
				 "4 MiB each way between two processes, every byte right; copied %s",
				 twice && once ? "partly once, partly twice"
				 : twice       ? "twice, through shared memory"
				 : module      ? "once, by the kernel module"
				 : once	       ? "once"
					       : "as its settings say");
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

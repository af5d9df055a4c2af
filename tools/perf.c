/* SPDX-License-Identifier: BSD-3-Clause */
/* sennit perf: latency and bandwidth between two processes of this machine over the C API. */
#include "perf.h"
#include "base/base.h"
#include "tool.h"
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	struct sn_perf_plan plan;
	uint64_t min, max;
	bool json, bind, only_latency, only_bandwidth;
	int cpus[2]; /* -1: not bound */
};

static const struct argp_option option_table[] = {
	{"min", 'm', "BYTES", 0, "Smallest message (default 0)", 0},
	{"max", 'M', "BYTES", 0, "Largest message, suffixes k, m, g (default 64m)", 0},
	{"size", 's', "BYTES", 0, "Only this message size", 0},
	{"iterations", 'i', "N", 0,
	 "Timed messages for each size (default: 10000 for small, 100 for large ones)", 0},
	{"warmup", 'w', "N", 0, "Untimed messages before (default: a tenth of the timed ones)", 0},
	{"window", 'W', "N", 0, "Most messages in flight for bandwidth (default 64)", 0},
	{"latency", 'l', NULL, 0, "Only latency", 0},
	{"bandwidth", 'b', NULL, 0, "Only bandwidth", 0},
	{"no-bind", 'n', NULL, 0, "Do not bind the two processes to two different cpus", 0},
	{"json", 'j', NULL, 0, "Print JSON", 0},
	{0},
};

static uint64_t number(struct argp_state *state, const char *arg, uint64_t min, uint64_t max)
{
	char *end;
	errno = 0;
	unsigned long long v = strtoull(arg, &end, 10);
	unsigned shift = *end == 'k' || *end == 'K'   ? 10
			 : *end == 'm' || *end == 'M' ? 20
			 : *end == 'g' || *end == 'G' ? 30
						      : 0;
	if (end == arg || *arg == '-' || errno || end[shift ? 1 : 0] || v > (UINT64_MAX >> shift) ||
	    v << shift < min || v << shift > max)
		argp_error(state, "'%s' is not a number from %" PRIu64 " to %" PRIu64, arg, min, max);
	return v << shift;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	const uint64_t size_max = (uint64_t)4 << 30;
	switch (key) {
	case 'm': o->min = number(state, arg, 0, size_max); return 0;
	case 'M': o->max = number(state, arg, 0, size_max); return 0;
	case 's': o->min = o->max = number(state, arg, 0, size_max); return 0;
	case 'i': o->plan.iterations = (unsigned)number(state, arg, 1, 100000000); return 0;
	case 'w': o->plan.warmup = (unsigned)number(state, arg, 1, 100000000); return 0;
	case 'W': o->plan.window = (unsigned)number(state, arg, 1, 65536); return 0;
	case 'l': o->only_latency = true; return 0;
	case 'b': o->only_bandwidth = true; return 0;
	case 'n': o->bind = false; return 0;
	case 'j': o->json = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s': no arguments are expected", arg); return EINVAL;
	case ARGP_KEY_END:
		if (o->min > o->max)
			argp_error(state, "--min is above --max");
		if (o->only_latency && o->only_bandwidth)
			argp_error(state, "--latency and --bandwidth exclude each other (both are measured "
					  "without them)");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = parse_option,
	.doc = "Measure latency (half a round trip) and bandwidth between two processes of this machine."
	       "\vEach round trip and each window of messages is timed by itself; shown are the values that "
	       "50, 90 and 99 % of "
	       "them reached. MB are 10^6 bytes. Exit status 1 if a message failed or a byte was wrong.",
};

/* 0, 1, 2, 4 ... between the limits, which are included. */
static void choose_sizes(struct options *o)
{
	struct sn_perf_plan *p = &o->plan;
	p->sizes[p->size_count++] = o->min;
	for (uint64_t s = 1; s < o->max && p->size_count < SN_PERF_SIZES - 1; s *= 2)
		if (s > o->min)
			p->sizes[p->size_count++] = s;
	if (o->max > o->min)
		p->sizes[p->size_count++] = o->max;
}

/* Two of the cpus that this process may use; none if there is only one. */
static void choose_cpus(struct options *o)
{
	cpu_set_t allowed;
	int found = 0;
	o->cpus[0] = o->cpus[1] = -1;
	if (!o->bind || sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			o->cpus[found++] = cpu;
}

static void bind_to(int cpu)
{
	cpu_set_t set;
	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* a refusal costs precision, not correctness */
}

/* Both sides run this; the second prints nothing but its own errors. Returns the exit status. */
static int run_side(const struct options *o, int fd, bool second)
{
	struct sn_pair p;
	bind_to(o->cpus[second]);
	if (sn_pair_open(&p, fd, second) != 0)
		return 1;
	int error = 0;
	uint64_t wrong = 0;
	for (unsigned i = 0; i < o->plan.size_count && !error && !wrong; i++) {
		struct sn_perf_result r;
		error = sn_perf_run(&p, &o->plan, o->plan.sizes[i], &r);
		wrong = r.wrong;
		if (!error && !second)
			sn_perf_print(&o->plan, &r, o->json, i == 0);
		if (wrong)
			sn_tool_complain("%zu bytes: byte %" PRIu64 " is wrong", r.size, wrong - 1);
	}
	if (error)
		sn_tool_complain("%s process: %s%s%s", second ? "second" : "first", sn_strerror(error),
				 error == SN_ERR_NOMEM ? ": " : "",
				 error == SN_ERR_NOMEM ? sn_last_error() : "");
	if (!error)
		sn_pair_meet(&p); /* nobody closes while the other still waits for something */
	sn_pair_close(&p);
	return error || wrong ? 1 : 0;
}

int sn_tool_perf(int argc, char **argv)
{
	struct options o = {.max = (uint64_t)64 << 20, .bind = true, .plan = {.window = 64}};
	int fds[2], status = 1;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return SN_EXIT_USAGE;
	o.plan.latency = !o.only_bandwidth;
	o.plan.bandwidth = !o.only_latency;
	choose_sizes(&o);
	choose_cpus(&o);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
		sn_tool_complain("socketpair: %s", strerror(errno));
		return 1;
	}
	sn_perf_print_head(&o.plan, o.json, o.cpus);
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0) {
		sn_tool_complain("fork: %s", strerror(errno));
		return 1;
	}
	close(fds[pid == 0 ? 0 : 1]);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(run_side(&o, fds[1], true));
	}
	int mine = run_side(&o, fds[0], false);
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		mine = 1;
	sn_perf_print_foot(o.json);
	return mine;
}

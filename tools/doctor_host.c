/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another host. The same program is started there over ssh, says which version it is and what its endpoint's address is, and
 * echoes messages: so what is tested is what a job needs, a log-in without a password, the same version at the same path,
 * and frames of the kind that the setting names, both ways and of every length.
 */
#include "base/base.h"
#include "base/conf.h"
#include "doctor.h"
#include "net/iface.h"
#include "net/wire.h"
#include "sennit/sennit.h"
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS	   20
#define LONG_BYTES (2u << 20)
#define PATIENCE   20 /* s for the log-in */
#define LIFE	   60 /* s of the other half */
#define LINE	   512

struct other { /* the process that was started to reach the host */
	pid_t pid;
	FILE *in, *out;
};

/* "sennit VERSION WIRE MTU ADDRESS" */
static bool own_line(sn_ep *ep, char *line, size_t size)
{
	unsigned char addr[SN_ADDR_MAX];
	size_t len = sizeof(addr);
	struct sn_iface i;
	bool ether;
	uint32_t mtu = sn_tool_first_iface(&i, &ether) == SN_OK ? i.mtu : 0;

	if (sn_ep_address(ep, addr, &len) != SN_OK)
		return false;
	int at = snprintf(line, size, "sennit %s %d %" PRIu32 " ", sn_version(), SN_WIRE_VERSION, mtu);
	for (size_t b = 0; b < len && (size_t)at + 3 < size; b++)
		at += snprintf(line + at, size - (size_t)at, "%02x", addr[b]);
	return true;
}

struct line {
	char version[32], address[2 * SN_ADDR_MAX + 1];
	unsigned wire, mtu;
};

static bool parse_line(const char *text, struct line *l)
{
	return sscanf(text, "sennit %31s %u %u %128s", l->version, &l->wire, &l->mtu, l->address) == 4;
}

static int add_peer(sn_ep *ep, const char *hex, sn_peer *peer)
{
	unsigned char addr[SN_ADDR_MAX];
	size_t len = 0;

	while (len < sizeof(addr) && sscanf(hex + 2 * len, "%2hhx", &addr[len]) == 1)
		len++;
	return sn_peer_add(ep, addr, len, peer);
}

/* One message each way; the first to speak is `first`. 0 or a negative sn_error. */
static int round_trip(sn_ep *ep, sn_peer peer, unsigned char *buf, size_t len, bool first)
{
	sn_completion c = {0};
	sn_req *r;
	int rc;

	for (int step = 0; step < 2; step++) {
		bool send = (step == 0) == first;
		rc = send ? sn_isend(ep, peer, buf, len, 1, &r)
			  : sn_irecv(ep, peer, buf, len, 1, UINT64_MAX, &r);
		if (rc || (rc = sn_wait(ep, r, &c, -1)) || (rc = c.status))
			return rc;
	}
	return 0;
}

static int exchange(sn_ep *ep, sn_peer peer, bool first, double *us)
{
	unsigned char *big = malloc(LONG_BYTES);
	unsigned char small[8] = {0};
	int rc = big ? 0 : SN_ERR_NOMEM;

	for (int i = 0; i < ROUNDS && !rc; i++) {
		uint64_t start = sn_now_ns();
		rc = round_trip(ep, peer, small, sizeof(small), first);
		double took = (double)(sn_now_ns() - start) / 2000;
		*us = i == 0 || took < *us ? took : *us;
	}
	for (size_t i = 0; i < LONG_BYTES && !rc; i++)
		big[i] = first ? (unsigned char)(i * 7 + i / 251) : 0;
	if (!rc)
		rc = round_trip(ep, peer, big, LONG_BYTES, first);
	for (size_t i = 0; i < LONG_BYTES && !rc && first; i++)
		if (big[i] != (unsigned char)(i * 7 + i / 251))
			rc = SN_ERR_PROTO;
	free(big);
	return rc;
}

int sn_doctor_answer(void)
{
	char line[LINE];
	struct line theirs;
	sn_ep *ep = NULL;
	sn_peer peer;
	double us;

	alarm(LIFE); /* whatever becomes of who asked */
	if (sn_ep_open(NULL, &ep) != SN_OK || !own_line(ep, line, sizeof(line))) {
		printf("error %s\n", sn_last_error());
		return 1;
	}
	puts(line);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) && parse_line(line, &theirs)) {
		if (add_peer(ep, theirs.address, &peer) != SN_OK)
			printf("error %s\n", sn_last_error());
		else
			exchange(ep, peer, false, &us);
	}
	fflush(stdout);
	sn_ep_close(ep);
	return 0;
}

/* ---- the half that asks ---- */

/* The command for the other host: this program, with the setting that decides about the network. By env, since the log-in's
 * shell may be csh, which knows no assignments before a command. */
static char *remote_command(void)
{
	const char *net = getenv("SENNIT_NET");

	if (net && strspn(net, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:,_-@") !=
			   strlen(net))
		net = NULL;
	return sn_tool_printf("env SENNIT_PEER_TIMEOUT=%" PRId64 "%s%s '%s' doctor --answer",
			      sn_conf_num(SN_CONF_PEER_TIMEOUT), net ? " SENNIT_NET=" : "", net ? net : "",
			      sn_tool_self());
}

static void become(const char *rsh, const char *host)
{
	char *words = sn_tool_strdup(rsh), *save = NULL, *argv[32];
	unsigned n = 0;

	for (char *w = strtok_r(words, " ", &save); w && n < 29; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	argv[n++] = (char *)(uintptr_t)host;
	argv[n++] = remote_command();
	argv[n] = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(255);
}

static bool start(struct other *o, const char *rsh, const char *host)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) < 0)
		return false;
	if (pipe2(from, O_CLOEXEC) < 0) {
		close(to[0]);
		close(to[1]);
		return false;
	}
	fflush(stdout);
	o->pid = fork();
	if (o->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		become(rsh, host);
	}
	close(to[0]);
	close(from[1]);
	o->out = fdopen(to[1], "w");
	o->in = fdopen(from[0], "r");
	if (o->in) /* so that poll() sees every line that was not read */
		setvbuf(o->in, NULL, _IONBF, 0);
	return o->pid > 0 && o->in && o->out;
}

/* The exit status of what was started; it is ended if it does not end. */
static int finish(struct other *o)
{
	int status = 0;

	pid_t pid = o->pid;

	if (o->out)
		fclose(o->out);
	if (o->in)
		fclose(o->in);
	*o = (struct other){0};
	if (pid <= 0)
		return 255;
	for (int i = 0; i < 100; i++, usleep(20000))
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return 255;
}

/* What the other half says first; greetings of the log-in are passed over. False: nothing came. */
static bool hear(struct other *o, struct line *l, char *error, size_t size)
{
	struct pollfd p = {.fd = fileno(o->in), .events = POLLIN};
	char text[LINE];

	*error = 0;
	while (poll(&p, 1, PATIENCE * 1000) > 0 && fgets(text, sizeof(text), o->in)) {
		if (parse_line(text, l))
			return true;
		if (strncmp(text, "error ", 6) == 0)
			snprintf(error, size, "%.*s", (int)strcspn(text + 6, "\n"), text + 6);
	}
	return false;
}

static void no_answer(const char *host, const char *rsh, int status, const char *error)
{
	if (*error)
		sn_doctor_report(SN_HEALTH_MISSING, host, "see `sennit doctor` there",
				 "sennit opens no endpoint there: %s", error);
	else if (status == 126 || status == 127)
		sn_doctor_report(SN_HEALTH_MISSING, host,
				 "install the same sennit at the same path on every host",
				 "this program is not there (exit status %d)", status);
	else if (status == SN_EXIT_USAGE)
		sn_doctor_report(SN_HEALTH_MISSING, host, "install the same sennit on every host",
				 "another sennit is there, which cannot answer");
	else
		sn_doctor_report(
			SN_HEALTH_MISSING, host,
			"make `ssh HOST true` work without a password; or name another command with --rsh",
			"no command can be run there by `%s` (exit status %d)", rsh, status);
}

/* Messages, and what they tell. */
static void talk(sn_ep *ep, struct other *o, const char *host, const struct line *l)
{
	char line[LINE];
	struct sn_iface i;
	sn_peer peer;
	bool ether = false;
	double us = 0;
	uint32_t mtu = sn_tool_first_iface(&i, &ether) == SN_OK ? i.mtu : 0;
	int rc = add_peer(ep, l->address, &peer);

	if (rc) {
		sn_doctor_report(SN_HEALTH_MISSING, host,
				 "set SENNIT_NET so that all hosts use the same kind of network", "%s",
				 sn_last_error());
		return;
	}
	own_line(ep, line, sizeof(line));
	fprintf(o->out, "%s\n", line);
	fflush(o->out);
	rc = exchange(ep, peer, true, &us);
	if (rc == SN_ERR_PEER_GONE)
		sn_doctor_report(
			SN_HEALTH_MISSING, host,
			ether ? "both hosts on one Ethernet segment (a switch, no router); let ethertypes "
				"88B5 and 88B6 pass"
			      : "allow UDP between these hosts in the firewalls of both, ports of "
				"net.ipv4.ip_local_port_range; or name the interface: SENNIT_NET=udp:eth1",
			"it answers over `ssh`, but %s does not get through on %s",
			ether ? "an Ethernet frame of type 88B6" : "UDP", i.name);
	else if (rc)
		sn_doctor_report(SN_HEALTH_MISSING, host, NULL, "messages fail: %s", sn_strerror(rc));
	else if (l->mtu != mtu)
		sn_doctor_report(SN_HEALTH_LIMITED, host,
				 "the same MTU on both interfaces and the switch between (ip link set mtu)",
				 "reached in %.1f us; frames of %u bytes there and %" PRIu32
				 " here: the shorter are used",
				 us, l->mtu, mtu);
	else
		sn_doctor_report(SN_HEALTH_OK, host, NULL, "version %s, reached in %.1f us, MTU %" PRIu32,
				 l->version, us, mtu);
}

void sn_doctor_host(const char *rsh, const char *host)
{
	struct other o = {0};
	struct line l;
	char error[LINE] = "";
	sn_ep *ep = NULL;

	if (sn_ep_open(NULL, &ep) != SN_OK) {
		sn_doctor_report(SN_HEALTH_MISSING, host, NULL, "no endpoint opens here: %s",
				 sn_last_error());
		return;
	}
	signal(SIGPIPE, SIG_IGN);
	if (!start(&o, rsh, host) || !hear(&o, &l, error, sizeof(error)))
		no_answer(host, rsh, finish(&o), error);
	else if (strcmp(l.version, sn_version()) != 0 || l.wire != SN_WIRE_VERSION)
		sn_doctor_report(SN_HEALTH_MISSING, host, "install the same sennit on every host",
				 "sennit %s (protocol %u) is there, %s (protocol %d) here", l.version, l.wire,
				 sn_version(), SN_WIRE_VERSION);
	else
		talk(ep, &o, host, &l);
	finish(&o);
	sn_ep_close(ep);
}

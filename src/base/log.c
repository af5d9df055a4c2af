/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines, the sentence about the last failure, and the names of the error codes. */
#include "base/log.h"
#include "base/base.h"
#include "sennit/sennit.h"
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LOG_LINE_MAX   1024
#define LOG_PER_SECOND 20
#define FAIL_TEXT_MAX  512

int sn_log_level = SN_LOG_WARN;

static _Thread_local char fail_text[FAIL_TEXT_MAX];

/*
 * May this site write now? *dropped is how many lines it swallowed in the second that just ended. Two threads that meet
 * at a change of second may let a line too many through; nothing worse.
 */
static bool site_admits(struct sn_log_site *site, int *dropped)
{
	long now = (long)(sn_now_ns() / 1000000000u) + 1; /* never 0, the fresh site's value */
	*dropped = 0;
	if (__atomic_exchange_n(&site->second, now, __ATOMIC_RELAXED) != now) {
		int before = __atomic_exchange_n(&site->count, 0, __ATOMIC_RELAXED);
		*dropped = SN_MAX_OF(before - LOG_PER_SECOND, 0);
	}
	return __atomic_fetch_add(&site->count, 1, __ATOMIC_RELAXED) < LOG_PER_SECOND;
}

/* Budget: one system call a line, so that lines of several processes on one terminal do not mix. */
void sn_log_write(struct sn_log_site *site, enum sn_level level, const char *fmt, ...)
{
	static const char *const names[] = {"none", "error", "warn", "info", "debug"};
	char line[LOG_LINE_MAX];
	int dropped;
	if (!site_admits(site, &dropped))
		return;
	int len = snprintf(line, sizeof line, "sennit[%d] %s: ", (int)getpid(), names[level]);
	va_list ap;
	va_start(ap, fmt);
	int text = vsnprintf(line + len, sizeof line - (size_t)len, fmt, ap);
	va_end(ap);
	len = SN_MIN_OF(len + SN_MAX_OF(text, 0), LOG_LINE_MAX - 64); /* room for what follows */
	if (dropped)
		len += snprintf(line + len, 60, " (%d more like it were not shown)", dropped);
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* standard error is closed: there is nowhere to say so */
}

int sn_fail_note(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(fail_text, sizeof fail_text, fmt, ap);
	va_end(ap);
	sn_debug("failed: %s", fail_text);
	return 0;
}

void sn_fail_forget(void)
{
	fail_text[0] = 0;
}

const char *sn_last_error(void)
{
	return fail_text;
}

const char *sn_strerror(int error)
{
	switch (error) {
	case SN_OK: return "success";
	case SN_ERR_INVALID: return "invalid argument";
	case SN_ERR_NOMEM: return "out of memory or another resource";
	case SN_ERR_AGAIN: return "nothing there yet";
	case SN_ERR_TIMEOUT: return "timed out";
	case SN_ERR_TRUNCATED: return "message longer than the receive buffer";
	case SN_ERR_CANCELED: return "canceled";
	case SN_ERR_PEER_GONE: return "the peer is gone";
	case SN_ERR_FAULT: return "a buffer cannot be read or written";
	case SN_ERR_ACCESS: return "remote access denied";
	case SN_ERR_PROTO: return "the peer broke the protocol";
	case SN_ERR_PERM: return "refused by the system";
	case SN_ERR_UNSUPPORTED: return "not supported here";
	case SN_ERR_FORKED: return "the endpoint belongs to the parent process";
	default: return "unknown error";
	}
}

#define TEXT_OF(x)	 #x
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
const char *sn_version(void)
{
	return VERSION(SN_VERSION_MAJOR, SN_VERSION_MINOR, SN_VERSION_PATCH);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines go to standard error as "sennit[pid] level: text", at most 20 a second for each place in the code.
 * sn_fail() records the sentence that sn_last_error() returns (thread-local) and passes the code through, so that an
 * error is worded once, where it is decided:   return sn_fail(SN_ERR_PERM, "memfd_create: %s", strerror(errno));
 */
#ifndef SN_LOG_H
#define SN_LOG_H

enum sn_level { SN_LOG_NONE, SN_LOG_ERROR, SN_LOG_WARN, SN_LOG_INFO, SN_LOG_DEBUG };

extern int sn_log_level; /* set when the settings load */

struct sn_log_site {
	long second;
	int count;
};
void sn_log_write(struct sn_log_site *site, enum sn_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define sn_log(level, ...)                                                                                   \
	do {                                                                                                 \
		static struct sn_log_site sn_site_;                                                          \
		if ((int)(level) <= __atomic_load_n(&sn_log_level, __ATOMIC_RELAXED))                        \
			sn_log_write(&sn_site_, level, __VA_ARGS__);                                         \
	} while (0)
#define sn_warn(...)  sn_log(SN_LOG_WARN, __VA_ARGS__)
#define sn_info(...)  sn_log(SN_LOG_INFO, __VA_ARGS__)
#define sn_debug(...) sn_log(SN_LOG_DEBUG, __VA_ARGS__)

/* A macro, so that compilers and analyzers see which code comes back, and that it is not 0. */
#define sn_fail(code, ...) sn_failed(code, sn_fail_note(__VA_ARGS__))
int sn_fail_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What failed was not needed, and has been dealt with: its reason must not pass for that of a later failure. */
void sn_fail_forget(void);
static inline int sn_failed(int code, int noted)
{
	(void)noted;
	return code;
}

#endif

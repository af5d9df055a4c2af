/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings. Every setting stands once, in the table in conf.c, with its name, default, unit, range and help; the
 * parser, `sennit info`, the manual page and the error messages all read that table.
 *
 * Sources, later ones win: default, measured (a first-run calibration), /etc/sennit.conf, ~/.config/sennit.conf
 * ("name = value" lines, # comments), the environment (SENNIT_NAME). A value that does not parse or is out of range is
 * reported once with the allowed range, and the earlier value stays.
 *
 * Loaded once per process on first use (thread-safe); values are constant afterwards and read without a lock.
 */
#ifndef SN_CONF_H
#define SN_CONF_H

#include <stdbool.h>
#include <stdint.h>

enum sn_conf_id {
	SN_CONF_LOG,   /* enum: none error warn info debug */
	SN_CONF_EAGER, /* bytes: largest message sent eagerly on the node */
	SN_CONF_RING,  /* bytes: ring of a local pair, per direction, for the first 16 peers (fewer beyond) */
	SN_CONF_COPY,  /* enum: auto read write stream shared: force how large local messages are copied */
	SN_CONF_CHUNK, /* bytes: piece of a message that is streamed through the ring */
	SN_CONF_SINGLE_COPY,  /* bytes: from here one kernel copy is taken to be faster than a stream */
	SN_CONF_NONTEMPORAL,  /* bytes: copies of at least this much may bypass the cache */
	SN_CONF_TUNE,	      /* bool: use what was measured on this machine, src/copy/tune.h */
	SN_CONF_SPIN,	      /* us: how long a waiter polls before it yields */
	SN_CONF_NAP,	      /* us: longest nap of somebody who waits inside an MPI call */
	SN_CONF_HUGE,	      /* bool: collapse large buffers into huge pages, src/copy/huge.h */
	SN_CONF_HEAP,	      /* bool: `sennit run` loads libsennit-heap.so, src/copy/heap.h */
	SN_CONF_SHIM,	      /* bool: `sennit run` puts libsennit-mpi.so in front of the program */
	SN_CONF_PROGRESS,     /* percent: share of a core for the progress thread; 0: there is none */
	SN_CONF_POLL,	      /* us: how long that thread goes on looking, on a core nobody else wants */
	SN_CONF_LINGER,	      /* ms: how long sn_ep_close waits for accepted data to leave */
	SN_CONF_STATS,	      /* bool: print the counters of an endpoint to standard error when it closes */
	SN_CONF_PEER_TIMEOUT, /* ms: how long a peer may be silent (network) before it counts as gone */
	SN_CONF_NET,	      /* string: which network carries messages to other hosts */
	SN_CONF_STRATEGY,     /* string: how requests to other hosts are put into frames and over rails */
	SN_CONF_DSA,	      /* string: where queues of a copy engine are, src/copy/dsa.h */
	SN_CONF_FAULT,	      /* string: faults to inject, see src/copy/cma.h */
	SN_CONF_COUNT
};

enum sn_conf_origin {
	SN_ORIGIN_DEFAULT,
	SN_ORIGIN_MEASURED,
	SN_ORIGIN_SYSTEM,
	SN_ORIGIN_USER,
	SN_ORIGIN_ENV
};

enum sn_conf_type { SN_TYPE_NUM, SN_TYPE_BOOL, SN_TYPE_ENUM, SN_TYPE_STR };

struct sn_conf_desc {
	const char *name; /* "eager": variable SENNIT_EAGER, file key "eager" */
	enum sn_conf_type type;
	const char *unit;      /* "bytes", "us", "ms", "" */
	int64_t def, min, max; /* numbers take suffixes k, m, g (1024) when the unit is bytes */
	const char *choices;   /* enum: "auto|read|write|stream"; the value is the index */
	const char *def_str;   /* string settings */
	const char *help;      /* one paragraph, plain text; says why the default is what it is */
};

const struct sn_conf_desc *sn_conf_desc(enum sn_conf_id id);
int64_t sn_conf_num(enum sn_conf_id id);     /* also bool and enum */
const char *sn_conf_str(enum sn_conf_id id); /* the value in words, of any type: "16384", "auto", "yes" */
/* *where (if where is not NULL): the file and line, the variable, or why measured; "" for a default. */
enum sn_conf_origin sn_conf_origin(enum sn_conf_id id, const char **where);
const char *sn_conf_origin_name(enum sn_conf_origin o);
/* For calibration and tests: set a value as if from `o`; weaker than what is already there: ignored. */
void sn_conf_set(enum sn_conf_id id, int64_t value, enum sn_conf_origin o, const char *where);
/* Variables SENNIT_* in the environment that no setting knows (a misspelling): calls fn for each. */
void sn_conf_unknown(void (*fn)(void *arg, const char *name), void *arg);
/* Forget everything and load again (tests only; not thread-safe). */
void sn_conf_reload(void);

#endif

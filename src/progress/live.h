/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live view: what `sennit info --peer` shows of a running process. A table of named rows, each a number or a line of
 * text, that any layer adds to: for each rail, each peer, or the process.
 *
 * The table is a sealed memfd that the process keeps open. A reader finds it in /proc/PID/fd, which the kernel lets only
 * the same user (or root) look into, and maps it read-only; so there is no socket, no file, nothing to clean up, and a
 * reader can neither delay nor disturb the process.
 *
 * Budget: a number is one plain store (sn_live_set), no lock, no system call. Text costs a format: write it when a
 * decision changes, not with each message. A row that could not be had (the table is full) is NULL, and everything
 * takes NULL. Pages that no row uses cost nothing.
 *
 * Threads: rows may be added and removed from any thread; one thread at a time writes one row (the endpoint's lock).
 * The table exists while there are rows: what is added must be removed, and a row that was removed is not touched again.
 * In a forked child the parent's rows are gone; endpoints that it opens have their own table.
 */
#ifndef SN_LIVE_H
#define SN_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SN_LIVE_MAGIC 0x31766c6574696e73u /* "snitelv1" */
#define SN_LIVE_BYTES (1u << 20)
#define SN_LIVE_ROWS  ((SN_LIVE_BYTES - sizeof(struct sn_live_row)) / sizeof(struct sn_live_row))

struct sn_live_row {
	_Atomic uint32_t seq; /*   0 0: free; odd: is being written; else: grows with each text */
	uint32_t zero;	      /*   4 */
	uint64_t ep;	      /*   8 the endpoint's id, 0: of the process */
	char scope
		[40]; /*  16 "rail local", "peer 3 (rank 5, pid 4711)": rows of one scope are shown together */
	char name[24];		 /*  56 */
	_Atomic uint64_t number; /*  80 */
	char unit[8];		 /*  88 of the number, or "" */
	char text[96];		 /*  96 "": the number is the value */
};
_Static_assert(sizeof(struct sn_live_row) == 192, "layout, also for a reader of another build");

struct sn_live_table {
	union {
		struct {
			uint64_t magic;
			uint32_t pid;		     /* as the process sees itself */
			_Atomic uint32_t rows;	     /* rows beyond this were never used */
			_Atomic uint32_t overflowed; /* rows that found no place */
		};
		uint8_t pad[sizeof(struct sn_live_row)];
	};
	struct sn_live_row row[];
};

/* Add a row; NULL if there is no place. Strings are copied (cut to what fits). */
struct sn_live_row *sn_live_add(uint64_t ep, const char *scope, const char *name, const char *unit);
void sn_live_remove(struct sn_live_row *row);
/* Remove every row of this endpoint and scope (a peer that is gone); scope NULL: of the endpoint. */
void sn_live_remove_scope(uint64_t ep, const char *scope);

static inline void sn_live_set(struct sn_live_row *row, uint64_t number)
{
	if (row)
		atomic_store_explicit(&row->number, number, memory_order_relaxed);
}
void sn_live_text(struct sn_live_row *row, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- readers ---- */

/* Map the table of a process, read-only. NULL with errno: ENOENT it has none, EACCES and others as the kernel says. */
const struct sn_live_table *sn_live_map(pid_t pid);
void sn_live_unmap(const struct sn_live_table *t);
/* Copy a whole row; strings end within their fields. False: it is free, or was never quiet. */
bool sn_live_read(const struct sn_live_table *t, uint32_t index, struct sn_live_row *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this machine's copies cost, measured once and kept.
 *
 * The best way to move a message depends on the machine and, most of all, on whether the two cores share a cache ("near")
 * or not ("far"); on virtual machines that changes while a program runs. So the figures are measured for the class that
 * holds at the time, kept for each class in $XDG_CACHE_HOME/sennit (else ~/.cache/sennit) under the name of the machine,
 * processor and kernel, and used as first guesses: what a pair of processes learns from its own transfers comes after.
 *
 * Who measures: `sennit run`, before it starts the first job on a machine (less than a second, nothing else of the job
 * runs then), and `sennit tune`. A library inside a program only reads. A measurement that other programs disturbed, or
 * during which the cores moved, is not kept.
 */
#ifndef SN_TUNE_H
#define SN_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sn_tune_class { SN_TUNE_NEAR, SN_TUNE_FAR, SN_TUNE_CLASSES };

/* A line that goes over in less, one way, went through a shared cache: 25 to 75 were seen so, and from 120 on not. */
#define SN_TUNE_NEAR_NS	 90
#define SN_TUNE_NEVER	 (INT64_C(1) << 30)
#define SN_TUNE_SIZES	 15
#define SN_TUNE_SMALLEST 1024  /* sizes[i] = SMALLEST << i: up to 16 MiB */
#define SN_TUNE_PARTS	 16384 /* of these so long ones go through the ring in parts (SN_PART_FROM) */
#define SN_TUNE_COMMON	 13    /* of these sizes all ways are measured, of larger ones the mapped ones */
#define SN_TUNE_CHUNKS	 5     /* 4 KiB << i */

enum sn_tune_way {
	SN_TUNE_RING,	/* in and out of a ring, the second copy after the first: how an eager message goes */
	SN_TUNE_STREAM, /* in and out of a ring, both copies at once, by chunks */
	SN_TUNE_KERNEL, /* process_vm_readv */
	SN_TUNE_MAPPED, /* the receiver copies out of shared memory */
	SN_TUNE_BYPASS, /* likewise, with stores that bypass the cache */
	SN_TUNE_WAYS
};

struct sn_tune {
	bool measured; /* else these are the built-in figures */
	int64_t line_ns;
	/* thresholds, in bytes */
	int64_t eager;	     /* up to here two copies through a ring are faster than one by the kernel */
	int64_t chunk;	     /* piece of a stream */
	int64_t single_copy; /* from here one copy by the kernel is faster than a stream; SN_TUNE_NEVER */
	int64_t nontemporal; /* from here stores that bypass the cache are faster; SN_TUNE_NEVER */
	/* the curves: nanoseconds from the sender's call until the receiver has it, data fresh in the sender's cache; 0: not
	 * measured */
	int64_t ns[SN_TUNE_WAYS][SN_TUNE_SIZES];
	int64_t chunk_ns[SN_TUNE_CHUNKS]; /* a stream of 1 MiB by chunk size */
};

/* The figures of a class; the file is read at the first call. Thread-safe, never NULL. */
const struct sn_tune *sn_tune_of(enum sn_tune_class class);
/* Make the thresholds of the class measured last the values of the settings eager, chunk, single_copy, nontemporal
 * (with origin "measured"; what a person set stays). Once a process; every endpoint that opens calls it. */
void sn_tune_apply(void);
/* Has any class of this machine been measured? */
bool sn_tune_known(void);
/* Did the cores share no cache when this machine was measured last? False if it was not. */
bool sn_tune_far(void);
/* Where a class is kept; false: nowhere (no home). */
bool sn_tune_path(enum sn_tune_class class, char *out, size_t room);
/* Make the directory of those files. 0, or an error with its sentence: none can be kept. */
int sn_tune_place(void);
/* Keep it. 0 or an error with its sentence. */
int sn_tune_save(enum sn_tune_class class, const struct sn_tune *t);

const char *sn_tune_class_name(enum sn_tune_class class);
const char *sn_tune_way_name(enum sn_tune_way way);

/* measure.c: two threads on two cores, well under a second. 0, or an error with its sentence: SN_ERR_UNSUPPORTED (fewer
 * than two cores), SN_ERR_AGAIN (disturbed). */
int sn_tune_measure(struct sn_tune *t, enum sn_tune_class *class);
/* The threshold that follows from the curves. */
int64_t sn_tune_eager(const struct sn_tune *t);

#endif

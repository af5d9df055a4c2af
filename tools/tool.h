/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the `sennit` command share: the subcommands, and small helpers about files and processes. */
#ifndef SN_TOOL_H
#define SN_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Subcommands: argv[0] is "sennit NAME"; the value is the exit status. Each stands in the file of its name. */
int sn_tool_run(int argc, char **argv);
int sn_tool_info(int argc, char **argv);
int sn_tool_doctor(int argc, char **argv);
int sn_tool_perf(int argc, char **argv);
int sn_tool_top(int argc, char **argv);
/* sennit info --peer: one process, or (NULL) all that may be looked into. live.c */
int sn_tool_live(const char *pid);
int sn_tool_tune(int argc, char **argv);
/* The interfaces and what each is used for. netinfo.c */
void sn_tool_print_network(void);
/* If this machine has not been measured: do so, and keep it. tune.c */
void sn_tool_tune_first(void);

enum { /* exit statuses beyond 0 and 1, as shells and env(1) use them */
       SN_EXIT_USAGE = 2,
       SN_EXIT_CANNOT_EXEC = 126,
       SN_EXIT_NOT_FOUND = 127,
};

/* ---- util.c ---- */
/* printf to a new string; ends the program when memory is short (so does sn_tool_strdup). */
char *sn_tool_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *sn_tool_strdup(const char *s);
/* "sennit: text" on standard error. */
void sn_tool_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Find a command as execvp(3) would. NULL: not there (errno ENOENT) or not executable (EACCES). Caller frees. */
char *sn_tool_which(const char *command);
/* Run argv with no input for at most timeout_ms; standard output and error together, cut at size - 1 bytes, come back in
 * out. Returns the exit status, or -1 if it could not be started or had to be killed. */
int sn_tool_capture(char *const argv[], char *out, size_t size, int timeout_ms);
/* The directory part of a path, as a new string. */
char *sn_tool_dirname(const char *path);
/* Map a whole regular file that is not empty, to read. NULL: not possible. The caller unmaps *size bytes. */
void *sn_tool_map_file(const char *path, size_t *size);
/* Does this file contain these bytes? */
bool sn_tool_file_contains(const char *path, const void *bytes, size_t len);
/* One line of a small text file (/proc, /sys), without its newline. false: not readable. */
bool sn_tool_read_line(const char *path, char *line, size_t size);
/* The path of this program; empty where it cannot be told. */
const char *sn_tool_self(void);
/* Where libsennit-fi.so lies: in `given` if not NULL, else relative to this program, in the build tree or installed.
 * NULL if nowhere; *tried (may be NULL) then lists the places, one a line. Caller frees both. */
char *sn_tool_provider(const char *given, char **tried);
/* Print `s` so that a shell reads it back as one word. */
void sn_tool_print_quoted(const char *s);
/* Complain about each SENNIT_ variable that is no setting, as a misspelt one; returns how many there are. */
unsigned sn_tool_unknown_settings(void);

/* ---- elf.c ---- */
struct sn_elf {
	uint16_t machine; /* EM_X86_64 ... */
	int bits;	  /* 32 or 64 */
	/* names of the libraries it asks for; only for files of this program's own class */
	char needed[192][64];
	unsigned needed_count;
	bool named;	   /* a library, which says its own name (DT_SONAME) */
	char search[1024]; /* where it wants them looked for: DT_RUNPATH or DT_RPATH, or "" */
	bool search_first; /* DT_RPATH: before LD_LIBRARY_PATH */
};
/* false: not an ELF file, or not readable. */
bool sn_elf_read(const char *path, struct sn_elf *elf);
bool sn_elf_needs(const struct sn_elf *elf, const char *library);
/* "x86-64", "aarch64" ... */
const char *sn_elf_machine(const struct sn_elf *elf);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the `sennit` command about strings, files and child processes. */
#include "base/conf.h"
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char *sn_tool_printf(const char *fmt, ...)
{
	char *s;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0) {
		sn_tool_complain("out of memory");
		exit(1);
	}
	return s;
}

char *sn_tool_strdup(const char *s)
{
	return sn_tool_printf("%s", s);
}

void sn_tool_complain(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fflush(stdout); /* keeps the order when both go to one terminal or file */
	fputs("sennit: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

/* 0: an executable file; else the errno that execve would give. */
static int executable(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return errno;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

char *sn_tool_which(const char *command)
{
	if (strchr(command, '/') || !*command) {
		int error = *command ? executable(command) : ENOENT;
		errno = error;
		return error ? NULL : sn_tool_strdup(command);
	}
	const char *path = getenv("PATH");
	int error = ENOENT;
	for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; p;) {
		const char *end = strchrnul(p, ':');
		char *file = end == p ? sn_tool_printf("./%s", command)
				      : sn_tool_printf("%.*s/%s", (int)(end - p), p, command);
		int e = executable(file);
		if (!e)
			return file;
		if (e == EACCES)
			error = e;
		free(file);
		p = *end ? end + 1 : NULL;
	}
	errno = error;
	return NULL;
}

static pid_t start(char *const argv[], int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		dup2(null, 0);
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		setpgid(0, 0); /* so that a time-out also ends what a launcher script has started */
		execv(argv[0], argv);
		_exit(SN_EXIT_NOT_FOUND);
	}
	close(fds[1]);
	if (pid < 0)
		close(fds[0]);
	return pid;
}

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int sn_tool_capture(char *const argv[], char *out, size_t size, int timeout_ms)
{
	int fds[2];
	out[0] = 0;
	pid_t pid = start(argv, fds);
	if (pid < 0)
		return -1;
	int64_t end = now_ms() + timeout_ms;
	size_t got = 0;
	bool late = false;
	for (;;) {
		struct pollfd p = {.fd = fds[0], .events = POLLIN};
		int64_t left = end - now_ms();
		late = left <= 0 || poll(&p, 1, (int)left) == 0;
		if (late)
			break;
		char spare[4096]; /* what does not fit is read all the same, lest the child block */
		bool fits = got + 1 < size;
		ssize_t n = read(fds[0], fits ? out + got : spare, fits ? size - 1 - got : sizeof(spare));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += fits ? (size_t)n : 0;
	}
	out[got] = 0;
	close(fds[0]);
	if (late)
		kill(-pid, SIGKILL);
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return !late && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

char *sn_tool_dirname(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return sn_tool_strdup(".");
	return slash == path ? sn_tool_strdup("/") : sn_tool_printf("%.*s", (int)(slash - path), path);
}

void *sn_tool_map_file(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map = MAP_FAILED;
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		*size = (size_t)st.st_size;
		map = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

bool sn_tool_file_contains(const char *path, const void *bytes, size_t len)
{
	size_t size;
	void *map = sn_tool_map_file(path, &size);
	if (!map)
		return false;
	bool found = memmem(map, size, bytes, len) != NULL;
	munmap(map, size);
	return found;
}

bool sn_tool_read_line(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	bool ok = fgets(line, (int)size, f) != NULL;
	fclose(f);
	if (ok)
		line[strcspn(line, "\n")] = 0;
	return ok;
}

const char *sn_tool_self(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (n < 0) { /* a root of its own may have no /proc: as it was called, then */
		const char *called = (const char *)getauxval(AT_EXECFN);
		n = called && realpath(called, path) ? (ssize_t)strlen(path) : 0;
	}
	path[n] = 0;
	return path;
}

char *sn_tool_provider(const char *given, char **tried)
{
	/* The build tree and a prefix whose libraries lie in lib first, then the installed layout of this build. */
	static const char *const places[] = {"../lib", "../" SN_LIBDIR "/sennit", "../" SN_LIBDIR,
					     "../lib/sennit", "../" SN_LIBDIR "/libfabric"};
	char *here = sn_tool_dirname(sn_tool_self());
	char *list = sn_tool_strdup("");
	char *found = NULL;
	unsigned count = given ? 1 : sizeof(places) / sizeof(places[0]);
	for (unsigned i = 0; i < count && !found; i++) {
		char *file = given ? sn_tool_printf("%s/libsennit-fi.so", given)
				   : sn_tool_printf("%s/%s/libsennit-fi.so", here, places[i]);
		found = realpath(file, NULL);
		bool again = strstr(list, file) != NULL; /* SN_LIBDIR may be lib */
		char *longer = again ? sn_tool_strdup(list)
				     : sn_tool_printf("%s%s  %s", list, *list ? "\n" : "", file);
		free(list);
		list = longer;
		free(file);
	}
	free(here);
	if (tried)
		*tried = list;
	else
		free(list);
	return found;
}

void sn_tool_print_quoted(const char *s)
{
	if (*s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,=@%^") ==
			  strlen(s)) {
		fputs(s, stdout);
		return;
	}
	putchar('\'');
	for (; *s; s++) {
		if (*s == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*s);
	}
	putchar('\'');
}

static void unknown_variable(void *arg, const char *name)
{
	unsigned *count = arg;
	if (strcmp(name, "SENNIT_FAULT") == 0) { /* src/copy/cma.h: for tests, no setting */
		sn_tool_complain("SENNIT_FAULT is set: copies fail on purpose");
		return;
	}
	(*count)++;
	sn_tool_complain("%s is set, but there is no such setting (sennit info --settings lists them)", name);
}

unsigned sn_tool_unknown_settings(void)
{
	unsigned count = 0;
	sn_conf_unknown(unknown_variable, &count);
	return count;
}

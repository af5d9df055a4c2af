/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel refuses to copy between two processes: from the start, later, in the middle of a message, for one of them
 * only; by a filter, by their being undumpable, by namespaces. Or to accept connections. Nothing fails and every byte is right; the counters show
 * which way the bytes went.
 *
 *   refused CASE      exit status 77: this machine does not let the test set it up
 */
#include "sides.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LONGEST	 (3u << 20)
#define ROUNDS	 3
#define LEARNING 12 /* rounds within which every way has been tried for every size: copy/learn.h */

static uint64_t streamed(struct side *s)
{
	return counter(s, "local.copy_stream_bytes");
}

static uint64_t kernel_copied(struct side *s)
{
	return counter(s, "local.copy_read_bytes") + counter(s, "local.copy_write_bytes");
}

static void refuse_eperm(void)
{
	if (!refuse_copies(REFUSE_READ | REFUSE_WRITE, EPERM))
		skip("this kernel has no seccomp filters");
}

static void refuse_enosys(void)
{
	if (!refuse_copies(REFUSE_READ | REFUSE_WRITE, ENOSYS))
		skip("this kernel has no seccomp filters");
}

static void refuse_memfds(void)
{
	if (!refuse_copies(REFUSE_MEMFD, EPERM))
		skip("this kernel has no seccomp filters");
}

static void refuse_accept4(void)
{
	if (!refuse_copies(REFUSE_ACCEPT4, EPERM))
		skip("this kernel has no seccomp filters");
}

static void refuse_accepting(void)
{
	if (!refuse_copies(REFUSE_ACCEPT4 | REFUSE_ACCEPT, ENOSYS))
		skip("this kernel has no seccomp filters");
}

static void refuse_greeting(void)
{
	if (!refuse_copies(REFUSE_SENDMSG, EPERM))
		skip("this kernel has no seccomp filters");
}

static void refuse_reading(void)
{
	if (!refuse_copies(REFUSE_READ, EPERM))
		skip("this kernel has no seccomp filters");
}

/*
 * Of both sides: one that is always ahead copies nothing, as the other writes into the receives that it finds posted,
 * and reads what is announced to it.
 */
static uint64_t by_both(struct side *s, uint64_t own)
{
	atomic_fetch_add(&s->b->copied, own);
	atomic_fetch_add(&s->b->step, 1);
	await(&s->b->step, 2);
	return atomic_load(&s->b->copied);
}

/* Where nothing is refused the kernel copies. Everything below is measured against this. */
static void free_to_copy(struct side *s)
{
	exchange(s, 1 - s->me, LEARNING, LONGEST);
	CHECK(by_both(s, kernel_copied(s)) > 0, "no message went by kernel copy although nothing forbids it");
}

static void only_stream(struct side *s)
{
	exchange(s, 1 - s->me, ROUNDS, LONGEST);
	CHECK(kernel_copied(s) == 0, "the kernel copied although it refuses to");
	CHECK(streamed(s) > 0, "no large message went through shared memory");
}

/* Either way will do, and either side. */
static void either(struct side *s)
{
	exchange(s, 1 - s->me, ROUNDS, LONGEST);
	CHECK(by_both(s, kernel_copied(s) + streamed(s)) > 0, "no large message was copied in a known way");
}

/* It works, then it is refused: by now both sides know that it works. */
static void refused_later(struct side *s)
{
	exchange(s, 1 - s->me, LEARNING, LONGEST);
	CHECK(by_both(s, kernel_copied(s)) > 0,
	      "no message went by kernel copy although nothing forbids it yet");
	refuse_eperm();
	uint64_t before = streamed(s);
	exchange(s, 1 - s->me, ROUNDS, LONGEST);
	CHECK(streamed(s) > before, "no large message went through shared memory after the refusal");
}

static void refused_later_to_one(struct side *s)
{
	exchange(s, 1 - s->me, LEARNING, LONGEST);
	if (s->me == 0)
		refuse_eperm();
	exchange(s, 1 - s->me, ROUNDS, LONGEST);
}

/* SENNIT_FAULT makes a chosen copy of a chosen call fail: with slices of a few MiB, that is in the middle. */
static void middle(struct side *s)
{
	exchange(s, 1 - s->me, 2, 40u << 20);
	CHECK(streamed(s) > 0, "no part of a message went through shared memory");
	CHECK(kernel_copied(s) > 0, "no part of a message was copied by the kernel before the refusal");
}

/* The receiver may not read any more, so the sender writes the rest. */
static void middle_turned(struct side *s)
{
	exchange(s, 1 - s->me, LEARNING, 40u << 20);
	/* a message that finds its receive on the board is written from the start: then there are fewer reads, or none */
	uint64_t claimed = counter(s, "local.copy_claim_bytes");
	bool read = counter(s, "local.copy_read_bytes") + claimed > 0;
	bool written = counter(s, "local.copy_write_bytes") + claimed > 0;
	uint64_t sides = by_both(s, (uint64_t)read << 32 | written);
	CHECK(sides >> 32, "no part of a message was read before the refusal");
	CHECK((uint32_t)sides, "no part of a message was written after it");
}

static void short_copies(struct side *s)
{
	exchange(s, 1 - s->me, LEARNING, LONGEST);
	CHECK(by_both(s, kernel_copied(s)) > 0, "no message went by kernel copy");
}

/* Nobody can be accepted: what goes between processes of one node goes as between hosts. */
static void only_net(struct side *s)
{
	exchange(s, 1 - s->me, ROUNDS, LONGEST);
	CHECK(counter(s, "local.peers") == 0, "a local peer although none can be accepted");
}

/* The filter comes after the endpoint, before anybody has connected: who sends is told, and does not wait for ever. */
static void accepting_refused_later(struct side *s)
{
	char byte = 0;

	if (s->me == 1)
		refuse_accepting();
	atomic_fetch_add(&s->b->step, 1);
	await(&s->b->step, 2);
	if (s->me == 0)
		CHECK(finish(s, post_send(s, 1, &byte, 1, 1, SN_SYNC)).status < 0,
		      "a message reached a process that nobody can connect to");
	atomic_fetch_add(&s->b->step, 1);
	await(&s->b->step, 4);
}

/*
 * No connection can be made, as where each process is in a Landlock domain of its own. Who has injected a message, and
 * does not look what became of it, is not left waiting for the answer.
 */
static void greeting_refused_later(struct side *s)
{
	char byte = 0;
	int peer = 1 - s->me;

	refuse_greeting();
	atomic_fetch_add(&s->b->step, 1);
	await(&s->b->step, 2);
	sn_inject(s->ep, s->peer[peer], &byte, 1, 1, 0, 0);
	CHECK(finish(s, post_recv(s, peer, &byte, 1, 1)).status < 0, "a message came without a connection");
	CHECK(sn_inject(s->ep, s->peer[peer], &byte, 1, 1, 0, 0) < 0,
	      "a second message left without a connection");
	atomic_fetch_add(&s->b->step, 1);
	await(&s->b->step, 4);
}

/* Another user than root, or capabilities would help; then nothing in /proc/PID may be read by others either. */
static void undumpable(void)
{
	if (geteuid() == 0)
		CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0,
		      "cannot become nobody: %s", strerror(errno));
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0, "prctl: %s", strerror(errno));
	/* it also clears the signal that comes when the parent dies */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void ordinary_user(void)
{
	undumpable();
	prctl(PR_SET_DUMPABLE, 1);
}

static int pair(void (*before0)(void), void (*before1)(void), side_fn fn)
{
	struct board *b = board_new(2);

	side_start(b, 0, before0, fn);
	side_start(b, 1, before1, fn);
	sides_join(b, 0);
	return 0;
}

static int injected(const char *fault, side_fn fn)
{
	setenv("SENNIT_FAULT", fault, 1);
	return pair(NULL, NULL, fn);
}

/* Side 1, or both, in namespaces of their own, as two containers that share their network would be. */
static int namespaces(int flags, bool both, side_fn fn)
{
	struct board *b = board_new(2);

	if (both) {
		if (!side_start_in(b, 0, flags, fn))
			skip("this machine does not let the test make the namespaces");
	} else {
		side_start(b, 0, NULL, fn);
	}
	if (!side_start_in(b, 1, flags, fn)) {
		kill(b->pid[0], SIGKILL);
		skip("this machine does not let the test make the namespaces");
	}
	sides_join(b, 0);
	return 0;
}

/* Yama's switch belongs to the whole machine: set, tried and put back, only where root may. */
static int scope(char level, side_fn fn)
{
	const char *path = "/proc/sys/kernel/yama/ptrace_scope";
	char before;
	int fd = open(path, O_RDWR), rc;

	if (fd < 0)
		skip(errno == ENOENT ? "this kernel has no Yama (the filters stand for it)"
				     : "ptrace_scope may not be written here");
	CHECK(pread(fd, &before, 1, 0) == 1, "cannot read %s", path);
	if (before == '3' && level != '3')
		skip("ptrace_scope is 3, which cannot be taken back");
	if (level == '3' && before != '3')
		skip("ptrace_scope 3 could not be taken back");
	CHECK(pwrite(fd, &level, 1, 0) == 1, "cannot write %s: %s", path, strerror(errno));
	rc = pair(ordinary_user, ordinary_user, fn);
	if (pwrite(fd, &before, 1, 0) != 1)
		fprintf(stderr, "refused: ptrace_scope is left at %c\n", level);
	return rc;
}

static int run(const char *name)
{
	if (strcmp(name, "nothing") == 0)
		return pair(NULL, NULL, free_to_copy);
	if (strcmp(name, "eperm") == 0)
		return pair(refuse_eperm, refuse_eperm, only_stream);
	if (strcmp(name, "enosys") == 0)
		return pair(refuse_enosys, refuse_enosys, only_stream);
	if (strcmp(name, "memfd") == 0)
		return pair(refuse_memfds, refuse_memfds, either);
	if (strcmp(name, "memfd-one") == 0)
		return pair(refuse_memfds, NULL, either);
	if (strcmp(name, "accept4") == 0)
		return pair(refuse_accept4, refuse_accept4, either);
	if (strcmp(name, "accept") == 0)
		return pair(refuse_accepting, refuse_accepting, only_net);
	if (strcmp(name, "accept-later") == 0)
		return pair(NULL, NULL, accepting_refused_later);
	if (strcmp(name, "greeting-later") == 0)
		return pair(NULL, NULL, greeting_refused_later);
	if (strcmp(name, "one-side") == 0)
		return pair(refuse_eperm, NULL, either);
	if (strcmp(name, "read") == 0)
		return pair(refuse_reading, refuse_reading, either);
	if (strcmp(name, "later") == 0)
		return pair(NULL, NULL, refused_later);
	if (strcmp(name, "later-one") == 0)
		return pair(NULL, NULL, refused_later_to_one);
	if (strcmp(name, "middle") == 0) {
		setenv("SENNIT_COPY", "read", 1); /* auto may learn to stream before a copy is refused */
		return injected("read:eperm@15+,write:eperm", middle);
	}
	if (strcmp(name, "middle-turned") == 0)
		return injected("read:eperm@15+", middle_turned);
	if (strcmp(name, "short") == 0)
		return injected("read:short,write:short", short_copies);
	if (strcmp(name, "undumpable") == 0)
		return pair(undumpable, undumpable, only_stream);
	if (strcmp(name, "undumpable-one") == 0)
		return pair(undumpable, ordinary_user, either);
	if (strcmp(name, "pid-namespace") == 0)
		return namespaces(CLONE_NEWPID, false, either);
	if (strcmp(name, "pid-namespaces") == 0)
		return namespaces(CLONE_NEWPID, true, either);
	if (strcmp(name, "user-namespace") == 0)
		return namespaces(CLONE_NEWUSER, false, either);
	if (strcmp(name, "containers") == 0)
		return namespaces(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS,
				  true, either);
	if (strncmp(name, "ptrace_scope=", 13) == 0)
		return scope(name[13], either);
	fprintf(stderr, "refused: no case %s\n", name);
	return 2;
}

int main(int argc, char **argv)
{
	return argc == 2 ? run(argv[1]) : 2;
}

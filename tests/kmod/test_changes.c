// SPDX-License-Identifier: BSD-3-Clause
/*
 * Memory that changes in the middle of a copy, one cause at a time. The copy is stopped at a page of the copier's own
 * memory that userfaultfd holds back, with the owner's pages pinned; the owner changes its memory; the copy goes on. So what
 * comes of it does not depend on who is faster: what was copied before is old, what comes after is what is there now, or
 * the copy ends with EFAULT.
 */
#include "kt.h"
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/syscall.h>

#define PAGES 128
#define LEN   (PAGES * KT_PAGE)
#define STOP  (70 * KT_PAGE) /* where the copy stops */
#define FROM  (54 * KT_PAGE) /* from where on the memory changes: a step of the copy is 16 pages at most */
#define AFTER (STOP + 16 * KT_PAGE) /* what a copy that fails did not come to */

enum { NOTHING, OLD, WRITTEN, CHANGED }; /* seeds of contents; NOTHING: zeros */

static int fd, down[2], up[2], last[2]; /* to the copier, from it, to a forked child */

struct result {
	int rc, err;
	uint64_t copied;
};

static bool holds(const char *at, size_t from, size_t to, unsigned seed)
{
	char *ref = kt_map(LEN);
	bool same;

	if (seed)
		kt_fill(ref, LEN, seed);
	same = memcmp(at + from, ref + from, to - from) == 0;
	munmap(ref, LEN);
	return same;
}

/* ---- the copier ---- */

static char *mine;

/* The copy has come to the page that is held back: tells the owner, waits for it, and lets the copy go on. */
static void *hold_back(void *arg)
{
	int uffd = *(int *)arg;
	char *page = aligned_alloc(KT_PAGE, LEN), c = 0;
	struct uffdio_copy copy = {.dst = (uintptr_t)mine + STOP, .len = KT_PAGE};
	struct uffd_msg msg;

	kt_fill(page, LEN, WRITTEN);
	copy.src = (uintptr_t)page + STOP;
	KT_CHECK(read(uffd, &msg, sizeof(msg)) == sizeof(msg) && msg.event == UFFD_EVENT_PAGEFAULT);
	kt_say(up[1], &c, 1);
	kt_hear(down[0], &c, 1);
	KT_CHECK(ioctl(uffd, UFFDIO_COPY, &copy) == 0);
	free(page);
	return NULL;
}

static void copier(uint64_t handle, bool writes, unsigned then)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int own = kt_open(), uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct sennit_seg seg;
	struct result r;
	pthread_t t;

	close(fd); /* the owner's: it would live on here */
	mine = kt_map(LEN);
	if (writes)
		kt_fill(mine, LEN, WRITTEN);
	else
		memset(mine, 0, LEN);
	KT_CHECK(uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) == 0);
	KT_CHECK(madvise(mine + STOP, KT_PAGE, MADV_DONTNEED) == 0);
	reg.range = (struct uffdio_range){(uintptr_t)mine + STOP, KT_PAGE};
	KT_CHECK(ioctl(uffd, UFFDIO_REGISTER, &reg) == 0);
	KT_CHECK(pthread_create(&t, NULL, hold_back, &uffd) == 0);
	seg = (struct sennit_seg){(uintptr_t)mine, LEN};
	r.rc = kt_copy(own, writes ? kt_handle(handle, 0) : kt_mine(&seg, 1),
		       writes ? kt_mine(&seg, 1) : kt_handle(handle, 0), LEN, &r.copied);
	r.err = r.rc ? errno : 0;
	pthread_join(t, NULL);
	if (!writes) {
		KT_CHECK(holds(mine, 0, r.copied < FROM ? r.copied : FROM, OLD));
		if (r.rc)
			KT_CHECK(holds(mine, AFTER, LEN, NOTHING));
		else
			KT_CHECK(holds(mine, STOP, LEN, then));
	}
	kt_say(up[1], &r, sizeof(r));
	_exit(0);
}

/* ---- the owner ---- */

static int file;
static pid_t forked;

/*
 * Copies out of (or, with `writes`, into) memory that `change` changes from FROM on while the copy stands at STOP. It then
 * ends with this error, or, with 0, finds content `then` from there on.
 */
static void in_mid_copy(const char *what, void (*change)(char *at), bool writes, int error, unsigned then)
{
	char *at = kt_map(LEN), c = 0;
	struct kt_region r;
	struct result got;
	pid_t child;

	printf("%s in mid-%s\n", what, writes ? "write" : "read");
	if (file) {
		munmap(at, LEN);
		KT_CHECK(ftruncate(file, (off_t)LEN) == 0);
		at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		KT_CHECK(at != MAP_FAILED);
	}
	kt_fill(at, LEN, OLD);
	r = kt_declare(fd, at, LEN, SENNIT_READ | SENNIT_WRITE);
	child = kt_fork();
	if (!child)
		copier(r.handle, writes, then);
	kt_hear(up[0], &c, 1);
	KT_CHECK(kt_held() > 0);
	change(at);
	kt_say(down[1], &c, 1);
	kt_hear(up[0], &got, sizeof(got));
	kt_join(child);
	if (got.rc ? got.err != error : error)
		printf("  %d, %s, %lu bytes\n", got.rc, strerror(got.err), (unsigned long)got.copied);
	KT_CHECK(got.rc ? got.err == error && got.copied <= STOP : !error && got.copied == LEN);
	if (writes && !error)
		KT_CHECK(holds(at, 0, FROM, WRITTEN) && holds(at, STOP, LEN, WRITTEN));
	if (forked) { /* its memory is as it was when it was forked: what was written later is not in it */
		kt_say(last[1], &c, 1);
		kt_join(forked);
		forked = 0;
	}
	KT_CHECK(kt_undeclare(fd, r.id) == 0 || errno == ENOENT);
	kt_wait_unpinned(0);
	munmap(at, LEN);
}

static void nothing(char *at)
{
	KT_CHECK(at[FROM] == at[FROM]);
}

static void unmap(char *at)
{
	KT_CHECK(munmap(at + FROM, LEN - FROM) == 0);
}

static void map_anew(char *at)
{
	char *ref = kt_map(LEN), *again = mmap(at + FROM, LEN - FROM, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	KT_CHECK(again == at + FROM);
	kt_fill(ref, LEN, CHANGED);
	memcpy(again, ref + FROM, LEN - FROM);
	munmap(ref, LEN);
}

static void move(char *at)
{
	char *to = kt_map(LEN);

	KT_CHECK(mremap(at + FROM, LEN - FROM, LEN - FROM, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	KT_CHECK(to[LEN - FROM - 1] == to[LEN - FROM - 1]);
	munmap(to, LEN);
}

static void discard(char *at)
{
	KT_CHECK(madvise(at + FROM, LEN - FROM, MADV_DONTNEED) == 0);
}

static void forbid(char *at)
{
	KT_CHECK(mprotect(at + FROM, LEN - FROM, PROT_NONE) == 0);
}

static void forbid_writing(char *at)
{
	KT_CHECK(mprotect(at + FROM, LEN - FROM, PROT_READ) == 0);
}

static void truncate_it(char *at)
{
	KT_CHECK(at && ftruncate(file, FROM) == 0);
}

/* The child waits until the copy is through and then looks at its memory. */
static void fork_it(char *at)
{
	char c = 0;

	forked = kt_fork();
	if (forked)
		return;
	kt_hear(last[0], &c, 1);
	KT_CHECK(holds(at, STOP, LEN, OLD));
	_exit(0);
}

/* Copy-on-write gives the owner new pages; the old ones are the child's. */
static void fork_and_write(char *at)
{
	char *ref = kt_map(LEN);
	pid_t child = kt_fork();

	if (!child)
		pause();
	kt_fill(ref, LEN, CHANGED);
	memcpy(at + FROM, ref + FROM, LEN - FROM);
	munmap(ref, LEN);
	kill(child, SIGKILL);
	KT_CHECK(waitpid(child, NULL, 0) == child);
}

/* To the other memory node. What the copy stands in is held and stays; the rest moves, and is looked up again. */
static void migrate(char *at)
{
	void *pages[PAGES];
	int nodes[PAGES], status[PAGES], moved = 0;
	uint64_t dropped = kt_counter(SENNIT_C_INVALIDATIONS);

	for (int i = 0; i < PAGES; i++) {
		pages[i] = at + (size_t)i * KT_PAGE;
		nodes[i] = 1;
	}
	for (int round = 0; round < 1000 && !moved; round++) {
		if (syscall(SYS_move_pages, 0, PAGES, pages, nodes, status, 2 /* MPOL_MF_MOVE */) < 0) {
			printf("  no other memory node (%s): not checked\n", strerror(errno));
			return;
		}
		for (int i = 0; i < PAGES; i++)
			moved += status[i] == 1;
		usleep(10000); /* what was dropped is let go by a worker */
	}
	printf("  %d pages moved\n", moved);
	KT_CHECK(moved > 0 && kt_counter(SENNIT_C_INVALIDATIONS) > dropped);
}

static void close_file(char *at)
{
	KT_CHECK(at != NULL);
	close(fd);
	fd = kt_open();
}

int main(void)
{
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (uffd < 0) {
		printf("no userfaultfd in this kernel (%s): nothing is checked\n", strerror(errno));
		return 0;
	}
	close(uffd);
	kt_limit(300, NULL);
	fd = kt_open();
	KT_CHECK(pipe(down) == 0 && pipe(up) == 0 && pipe(last) == 0);
	for (int writes = 0; writes < 2; writes++) {
		in_mid_copy("nothing", nothing, writes, 0, OLD);
		in_mid_copy("munmap", unmap, writes, EFAULT, 0);
		in_mid_copy("mmap over it", map_anew, writes, 0, CHANGED);
		in_mid_copy("mremap", move, writes, EFAULT, 0);
		in_mid_copy("MADV_DONTNEED", discard, writes, 0, NOTHING);
		in_mid_copy("mprotect (nothing)", forbid, writes, EFAULT, 0);
		in_mid_copy("mprotect (reading)", forbid_writing, writes, writes ? EFAULT : 0, OLD);
		in_mid_copy("fork", fork_it, writes, 0, OLD);
		in_mid_copy("fork and write", fork_and_write, writes, 0, CHANGED);
		in_mid_copy("migration", migrate, writes, 0, OLD);
		in_mid_copy("close", close_file, writes, ENOENT, 0);
		file = memfd_create("t", MFD_CLOEXEC);
		KT_CHECK(file > 0);
		in_mid_copy("truncation", truncate_it, writes, EFAULT, 0);
		close(file);
		file = 0;
	}
	close(fd);
	return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
/*
 * A file system that does not answer holds up nobody but who uses it. Its file is mapped by a process whose region another
 * one writes to; it has the kernel write a page of that back, whose lock is held for so long, and says nothing. The page,
 * which was pinned, is let go meanwhile. A third process, which has nothing to do with all that, comes to its limit and
 * waits for what is to be unpinned: it must get through. Then the file system answers, and every byte is in the file.
 */
#include "kt.h"
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { NOTHING, FIRST, SECOND }; /* seeds of contents */

static int fd, fuse;
static int held[2], answer[2], drop[2], stopped[2], go_on[2], start[2], through[2]; /* pipes */

/* ---- the file system: one file of a page ---- */

static char content[KT_PAGE];
static bool silent; /* the first page that is written back is answered when somebody says so */

static void reply(uint64_t unique, int error, const void *what, size_t len)
{
	struct fuse_out_header h = {.len = (uint32_t)(sizeof(h) + len), .error = error, .unique = unique};
	struct iovec iov[2] = {{&h, sizeof(h)}, {(void *)what, len}};

	KT_CHECK(writev(fuse, iov, 2) == (ssize_t)h.len);
}

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){.ino = node,
				  .size = node == 1 ? 0 : KT_PAGE,
				  .mode = node == 1 ? S_IFDIR | 0777 : S_IFREG | 0666,
				  .nlink = 1};
}

/* The page is to be forgotten: the kernel writes it back first, with its lock held. */
static void *invalidate(void *unused)
{
	struct {
		struct fuse_out_header h;
		struct fuse_notify_inval_inode_out o;
	} n = {{.len = sizeof(n), .error = FUSE_NOTIFY_INVAL_INODE}, {.ino = 2}};
	char c;

	kt_hear(drop[0], &c, 1);
	KT_CHECK(write(fuse, &n, sizeof(n)) == sizeof(n));
	return unused;
}

static void *answer_later(void *unique)
{
	struct fuse_write_out w = {.size = KT_PAGE};
	char c = 0;

	kt_say(held[1], &c, 1);
	kt_hear(answer[0], &c, 1);
	reply((uintptr_t)unique, 0, &w, sizeof(w));
	return NULL;
}

static void serve(const struct fuse_in_header *h, const void *body)
{
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = KT_PAGE};
	struct fuse_entry_out entry = {
		.nodeid = 2, .entry_valid = 1000, .attr_valid = 1000, .attr = attributes(2)};
	struct fuse_attr_out attr = {.attr_valid = 1000, .attr = attributes(h->nodeid)};
	struct fuse_open_out opened = {.fh = 1};
	const struct fuse_write_in *w = body;
	struct fuse_write_out wrote = {.size = w->size};
	pthread_t t;

	switch (h->opcode) {
	case FUSE_INIT: reply(h->unique, 0, &init, sizeof(init)); break;
	case FUSE_LOOKUP: reply(h->unique, 0, &entry, sizeof(entry)); break;
	case FUSE_GETATTR: reply(h->unique, 0, &attr, sizeof(attr)); break;
	case FUSE_OPEN: reply(h->unique, 0, &opened, sizeof(opened)); break;
	case FUSE_READ:
		reply(h->unique, 0, content, ((const struct fuse_read_in *)body)->offset ? 0 : KT_PAGE);
		break;
	case FUSE_WRITE:
		KT_CHECK(w->offset == 0 && w->size == KT_PAGE);
		memcpy(content, w + 1, KT_PAGE);
		if (silent)
			KT_CHECK(pthread_create(&t, NULL, answer_later, (void *)(uintptr_t)h->unique) == 0);
		else
			reply(h->unique, 0, &wrote, sizeof(wrote));
		silent = false;
		break;
	case FUSE_FLUSH:
	case FUSE_FSYNC:
	case FUSE_RELEASE: reply(h->unique, 0, NULL, 0); break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT: break;
	default: reply(h->unique, -ENOSYS, NULL, 0);
	}
}

static void file_system(void)
{
	static char request[FUSE_MIN_READ_BUFFER + 2 * KT_PAGE];
	pthread_t t;

	silent = true;
	KT_CHECK(pthread_create(&t, NULL, invalidate, NULL) == 0);
	while (read(fuse, request, sizeof(request)) > 0)
		serve((void *)request, request + sizeof(struct fuse_in_header));
	_exit(0);
}

/* ---- who writes into the file's page, and stops in mid-copy ---- */

static char *mine;

static void *hold_back(void *arg)
{
	static char page[KT_PAGE];
	struct uffdio_copy copy = {.dst = (uintptr_t)mine, .src = (uintptr_t)page, .len = KT_PAGE};
	struct uffd_msg msg;
	char c = 1;

	kt_fill(page, KT_PAGE, SECOND);
	KT_CHECK(read(*(int *)arg, &msg, sizeof(msg)) == sizeof(msg));
	kt_say(stopped[1], &c, 1);
	kt_hear(go_on[0], &c, 1);
	KT_CHECK(ioctl(*(int *)arg, UFFDIO_COPY, &copy) == 0);
	return NULL;
}

static void writer(uint64_t handle)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int own = kt_open(), uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	pthread_t t;
	char c = 0;

	close(fd); /* the owner's */
	mine = kt_map(KT_PAGE);
	KT_CHECK(uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) == 0);
	reg.range = (struct uffdio_range){(uintptr_t)mine, KT_PAGE};
	KT_CHECK(ioctl(uffd, UFFDIO_REGISTER, &reg) == 0);
	KT_CHECK(pthread_create(&t, NULL, hold_back, &uffd) == 0);
	if (kt_write(own, handle, 0, mine, KT_PAGE)) {
		KT_CHECK(errno == EFAULT);
		kt_say(stopped[1], &c, 1); /* not even the first byte */
	}
	_exit(0);
}

/* ---- who has nothing to do with it ---- */

static void third(void)
{
	const size_t len = 64 * KT_PAGE;
	struct rlimit lim = {8 * KT_PAGE, 8 * KT_PAGE};
	char *at = kt_map(len), *to = kt_map(len), c = 0;

	close(fd);
	kt_hear(start[0], &c, 1);
	KT_CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
	kt_become_user(1000);
	fd = kt_open();
	kt_fill(at, len, FIRST);
	KT_CHECK(kt_read(fd, kt_declare(fd, at, len, SENNIT_READ).handle, 0, to, len) == 0);
	KT_CHECK(kt_same(to, len, FIRST));
	kt_say(through[1], &c, 1);
	_exit(0);
}

static pid_t mount_it(void)
{
	char options[100];
	pid_t server;

	fuse = open("/dev/fuse", O_RDWR);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
	KT_CHECK(mkdir("/tmp/fuse", 0755) == 0);
	if (fuse < 0 || mount("none", "/tmp/fuse", "fuse", 0, options) < 0) {
		printf("  this kernel has no file systems in user space\n");
		exit(77);
	}
	server = kt_fork();
	if (!server)
		file_system();
	close(fuse); /* a connection without its server fails what waits for it */
	return server;
}

int main(void)
{
	uint64_t redone;
	int *const pipes[] = {held, answer, drop, stopped, go_on, start, through};
	pid_t server, copier, other;
	struct kt_region r;
	char *at, c = 0;
	int file;

	for (unsigned i = 0; i < sizeof(pipes) / sizeof(pipes[0]); i++)
		KT_CHECK(pipe(pipes[i]) == 0);
	kt_limit(300, NULL);
	server = mount_it();
	other = kt_fork();
	if (!other)
		third();
	fd = kt_open();
	file = open("/tmp/fuse/file", O_RDWR);
	KT_CHECK(file >= 0);
	at = mmap(NULL, KT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	KT_CHECK(at != MAP_FAILED);
	kt_fill(at, KT_PAGE, FIRST);
	r = kt_declare(fd, at, KT_PAGE, SENNIT_READ | SENNIT_WRITE);
	redone = kt_counter(SENNIT_C_COPY_REDONE);
	copier = kt_fork();
	if (!copier)
		writer(r.handle);
	kt_hear(stopped[0], &c, 1);
	if (!c) { /* since 6.5: such files are not pinned for writing */
		printf("  this kernel does not pin the file: not checked\n");
		kill(server, SIGKILL);
		kill(other, SIGKILL);
		return 0;
	}
	KT_CHECK(kt_held() == 1);
	kt_say(drop[1], &c, 1);
	kt_hear(held[0], &c, 1);
	kt_say(go_on[1], &c, 1);
	while (kt_counter(SENNIT_C_COPY_REDONE) == redone) /* the page is the worker's now */
		usleep(1000);
	kt_say(start[1], &c, 1);
	kt_hear(through[0], &c, 1);
	kt_say(answer[1], &c, 1);
	kt_join(copier);
	kt_join(other);
	KT_CHECK(kt_same(at, KT_PAGE, SECOND));
	KT_CHECK(msync(at, KT_PAGE, MS_SYNC) == 0);
	KT_CHECK(kt_undeclare(fd, r.id) == 0);
	kt_wait_unpinned(0);
	KT_CHECK(munmap(at, KT_PAGE) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
	at = kt_map(KT_PAGE);
	KT_CHECK(pread(file, at, KT_PAGE, 0) == (ssize_t)KT_PAGE && kt_same(at, KT_PAGE, SECOND));
	close(file);
	KT_CHECK(umount("/tmp/fuse") == 0);
	kill(server, SIGKILL);
	return 0;
}

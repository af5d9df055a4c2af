/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of the provider: libfabric as the machine has it, found with dlopen (nothing of it is linked), made to load
 * this build's provider; and two processes with an endpoint each that have each other in their address vectors.
 */
#ifndef SN_TESTS_OFI_PAIR_H
#define SN_TESTS_OFI_PAIR_H

#include "pattern.h"
#include "unit.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define ADDR_LEN 64

/* A check in a process that is not cmocka's: says where, and ends the process. */
#define CHECK(what)                                                                                          \
	do {                                                                                                 \
		if (!(what)) {                                                                               \
			fprintf(stderr, "process %d: %s:%d: not so: %s\n", getpid(), __FILE__, __LINE__,     \
				#what);                                                                      \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)
#define CHECK_OK(call)                                                                                       \
	do {                                                                                                 \
		long rc_ = (long)(call);                                                                     \
		if (rc_) {                                                                                   \
			fprintf(stderr, "process %d: %s:%d: %s returned %ld\n", getpid(), __FILE__,          \
				__LINE__, #call, rc_);                                                       \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

static struct {
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
} lf;

/* Returns 0, or 77 when this machine has no libfabric or the provider was not built. */
static int ofi_load(void)
{
	char path[PATH_MAX] = "", lib[PATH_MAX + 32], module[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		return 1;
	snprintf(lib, sizeof(lib), "%s/../lib", dirname(path));
	snprintf(module, sizeof(module), "%s/libsennit-fi.so", lib);
	if (access(module, R_OK)) {
		printf("skipped: %s was not built (libfabric's headers were missing)\n", module);
		return 77;
	}
	setenv("FI_PROVIDER_PATH", lib, 1);
	setenv("FI_PROVIDER", "sennit", 1);
	void *so = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!so) {
		printf("skipped: %s\n", dlerror());
		return 77;
	}
	uint32_t (*version)(void);
	*(void **)&version = dlsym(so, "fi_version");
	if (!version || FI_VERSION_LT(version(), FI_VERSION(1, 17))) {
		printf("skipped: libfabric 1.17 is asked for here, which this machine's is not yet\n");
		return 77;
	}
	*(void **)&lf.getinfo = dlsym(so, "fi_getinfo");
	*(void **)&lf.freeinfo = dlsym(so, "fi_freeinfo");
	*(void **)&lf.dupinfo = dlsym(so, "fi_dupinfo");
	*(void **)&lf.fabric = dlsym(so, "fi_fabric");
	return lf.getinfo && lf.freeinfo && lf.dupinfo && lf.fabric ? 0 : 1;
}

/* ---- two processes ---- */

struct ofi_shared {
	uint8_t addr[2][ADDR_LEN];
	_Atomic int arrived, generation;
	uint64_t word[8]; /* for a test's own use, between barriers */
};

struct side {
	int me;
	struct ofi_shared *shared;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr[4]; /* send, receive, read|write, remote write */
	struct fid_ep *ep;
	fi_addr_t self, peer;
};

struct setup {
	uint64_t caps;
	int mr_mode;
	enum fi_threading threading;
	uint64_t cq_flags; /* FI_SELECTIVE_COMPLETION or 0 */
	bool counters;
};

static inline void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Both processes are here; each keeps its endpoint moving while it waits for the other. */
static inline void together(struct side *s)
{
	int generation = s->shared->generation;

	/* Likewise the other way: what this one has written its progress thread may read for the other from here on. */
	if (s->cq)
		(void)fi_cq_read(s->cq, NULL, 0);
	if (++s->shared->arrived == 2) {
		s->shared->arrived = 0;
		s->shared->generation++;
	}
	while (s->shared->generation == generation) {
		if (s->cq)
			(void)fi_cq_read(s->cq, NULL, 0);
		nap();
	}
	/* What the other has written is there, but the thread sanitizer does not see the way by which this is known. */
	if (s->cq)
		(void)fi_cq_read(s->cq, NULL, 0);
}

static inline struct fi_info *hints_for(const struct setup *setup)
{
	struct fi_info *h = lf.dupinfo(NULL);

	h->caps = setup->caps;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = setup->mr_mode;
	h->domain_attr->threading = setup->threading;
	return h;
}

static inline void side_open(struct side *s, const struct setup *setup)
{
	static const uint64_t counted[4] = {FI_SEND, FI_RECV, FI_READ | FI_WRITE, FI_REMOTE_WRITE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_info *hints = hints_for(setup);
	size_t len = ADDR_LEN;

	CHECK_OK(lf.getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &s->info));
	lf.freeinfo(hints);
	CHECK_OK(lf.fabric(s->info->fabric_attr, &s->fabric, NULL));
	CHECK_OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	CHECK_OK(fi_av_open(s->domain, &av_attr, &s->av, NULL));
	CHECK_OK(fi_cq_open(s->domain, &cq_attr, &s->cq, NULL));
	CHECK_OK(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	CHECK_OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	CHECK_OK(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV | setup->cq_flags));
	for (int i = 0; setup->counters && i < 4; i++) {
		CHECK_OK(fi_cntr_open(s->domain, NULL, &s->cntr[i], NULL));
		CHECK_OK(fi_ep_bind(s->ep, &s->cntr[i]->fid, counted[i]));
	}
	CHECK_OK(fi_enable(s->ep));
	CHECK_OK(fi_getname(&s->ep->fid, s->shared->addr[s->me], &len));
	CHECK(len == ADDR_LEN);
	together(s);
	CHECK(fi_av_insert(s->av, s->shared->addr[s->me], 1, &s->self, 0, NULL) == 1);
	CHECK(fi_av_insert(s->av, s->shared->addr[!s->me], 1, &s->peer, 0, NULL) == 1);
}

static inline void side_close(struct side *s)
{
	together(s);
	CHECK_OK(fi_close(&s->ep->fid));
	CHECK_OK(fi_close(&s->cq->fid));
	for (int i = 0; i < 4; i++)
		if (s->cntr[i])
			CHECK_OK(fi_close(&s->cntr[i]->fid));
	CHECK_OK(fi_close(&s->av->fid));
	CHECK_OK(fi_close(&s->domain->fid));
	CHECK_OK(fi_close(&s->fabric->fid));
	lf.freeinfo(s->info);
}

/* Run a test in two new processes; a hang ends with the alarm, which counts as a failure. */
static inline void run_pair(const struct setup *setup, void (*test)(struct side *))
{
	struct ofi_shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[2];

	assert_ptr_not_equal(shared, MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		fflush(stdout); /* or the child would print it again */
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i])
			continue;
		struct side s = {.me = i, .shared = shared};
		alarm(100);
		side_open(&s, setup);
		test(&s);
		side_close(&s);
		exit(0);
	}
	bool ok = true;
	for (int i = 0; i < 2; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			print_error("process %d ended with status %#x\n", i, status);
			kill(pids[!i], SIGKILL);
			ok = false;
		}
	}
	munmap(shared, sizeof(*shared));
	assert_true(ok);
}

/* ---- completions ---- */

/* The next completion; an error entry is returned in *err (its err is 0 otherwise). */
static inline struct fi_cq_tagged_entry next_completion(struct side *s, struct fi_cq_err_entry *err)
{
	struct fi_cq_tagged_entry e = {0};
	ssize_t n;

	memset(err, 0, sizeof(*err));
	while ((n = fi_cq_read(s->cq, &e, 1)) == -FI_EAGAIN)
		;
	if (n == -FI_EAVAIL)
		CHECK(fi_cq_readerr(s->cq, err, 0) == 1);
	else
		CHECK(n == 1);
	return e;
}

/* The next completion, which must be a success of this context. */
static inline struct fi_cq_tagged_entry expect(struct side *s, void *context)
{
	struct fi_cq_err_entry err;
	struct fi_cq_tagged_entry e = next_completion(s, &err);

	if (err.err)
		fprintf(stderr, "completion with error %d\n", err.err);
	CHECK(!err.err);
	CHECK(e.op_context == context);
	return e;
}

/* The next completion, which must be this error of this context. */
static inline struct fi_cq_err_entry expect_error(struct side *s, void *context, int code)
{
	struct fi_cq_err_entry err;

	next_completion(s, &err);
	if (err.err != code)
		fprintf(stderr, "error %d instead of %d\n", err.err, code);
	CHECK(err.err == code);
	CHECK(err.op_context == context);
	return err;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided access, atomics, counters, registration and threads through libfabric between two processes. */
#if __has_include(<rdma/fabric.h>)
#include "ofi_pair.h"

#include <pthread.h>

#define CAPS  (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV)
#define BASIC (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

static const struct setup offsets = {.caps = CAPS, .threading = FI_THREAD_DOMAIN};
static const struct setup addresses = {.caps = CAPS, .threading = FI_THREAD_SAFE, .mr_mode = BASIC};
static const struct setup counted = {.caps = CAPS, .threading = FI_THREAD_DOMAIN, .counters = true};
static const struct setup safe = {.caps = CAPS, .threading = FI_THREAD_SAFE};

#define REMOTE	 (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define USER_KEY 0x8000000000000abcu /* applications choose keys with the highest bit set */
#define LENGTH	 2000000

static uint8_t window[LENGTH], local[LENGTH];

/* Side 1 exposes `window`; both learn the key and what to call its first byte. */
static struct fid_mr *expose(struct side *s, uint64_t *key, uint64_t *start)
{
	struct fid_mr *mr = NULL;

	if (s->me == 1) {
		CHECK_OK(fi_mr_reg(s->domain, window, LENGTH, REMOTE, 0, USER_KEY, 0, &mr, NULL));
		s->shared->word[0] = fi_mr_key(mr);
		s->shared->word[1] = s->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)window : 0;
	}
	together(s);
	*key = s->shared->word[0];
	*start = s->shared->word[1];
	if (!s->info->domain_attr->mr_mode)
		CHECK(*key == USER_KEY);
	return mr;
}

static void access_window(struct side *s)
{
	static const size_t sizes[] = {0, 1, 64, 4096, 4097, 100000, LENGTH};
	uint64_t key, start;
	struct fid_mr *mr = expose(s, &key, &start);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t at = (LENGTH - sizes[i]) / 2;
		if (s->me == 0) {
			pattern_fill(local, sizes[i], i);
			CHECK_OK(fi_write(s->ep, local, sizes[i], NULL, s->peer, start + at, key, local));
			struct fi_cq_tagged_entry e = expect(s, local);
			CHECK((e.flags & (FI_RMA | FI_WRITE)) == (FI_RMA | FI_WRITE));
			together(s);
			together(s); /* the target has looked, and turned every byte round */
			CHECK_OK(fi_read(s->ep, local, sizes[i], NULL, s->peer, start + at, key, local));
			e = expect(s, local);
			CHECK((e.flags & (FI_RMA | FI_READ)) == (FI_RMA | FI_READ));
			for (size_t b = 0; b < sizes[i]; b++)
				CHECK((local[b] ^ pattern(i, b)) == 0xff);
		} else {
			together(s);
			CHECK(pattern_holds(window + at, sizes[i], i));
			for (size_t b = 0; b < sizes[i]; b++)
				window[at + b] ^= 0xff;
			together(s);
		}
		together(s);
	}
	if (mr)
		CHECK_OK(fi_close(&mr->fid));
}

static void windows_are_written_and_read_at_every_size(void **state)
{
	run_pair(&offsets, access_window);
	run_pair(&addresses, access_window);
}

/* Segments, injected writes, and data for the target's queue. */
static void write_forms(struct side *s)
{
	uint64_t key, start;
	struct fid_mr *mr = expose(s, &key, &start);
	struct fi_cq_tagged_entry e;

	if (s->me == 0) {
		struct iovec v[2] = {{local, 3000}, {local + 3000, 7000}};
		struct fi_rma_iov r = {.addr = start, .len = 10000, .key = key};
		struct fi_msg_rma m = {.msg_iov = v,
				       .iov_count = 2,
				       .addr = s->peer,
				       .rma_iov = &r,
				       .rma_iov_count = 1,
				       .context = v,
				       .data = 11};
		pattern_fill(local, 10000, 1);
		CHECK_OK(fi_writemsg(s->ep, &m, FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_DELIVERY_COMPLETE));
		expect(s, v);
		CHECK_OK(fi_writedata(s->ep, local, 500, NULL, 12, s->peer, start + 20000, key, local));
		expect(s, local);
		CHECK_OK(fi_inject_write(s->ep, local, 100, s->peer, start + 30000, key));
		CHECK_OK(fi_inject_writedata(s->ep, local, 100, 13, s->peer, start + 40000, key));
		memset(local, 0, 10000);
		CHECK_OK(fi_readmsg(s->ep, &m, 0));
		expect(s, v);
		CHECK(pattern_holds(local, 10000, 1));
		r.len = 9999; /* the sides differ */
		CHECK(fi_writemsg(s->ep, &m, 0) == -FI_EINVAL);
	} else {
		for (uint64_t data = 11; data <= 13; data++) {
			e = expect(s, NULL);
			CHECK((e.flags & (FI_REMOTE_WRITE | FI_RMA)) == (FI_REMOTE_WRITE | FI_RMA));
			CHECK(e.flags & FI_REMOTE_CQ_DATA && e.data == data);
		}
		CHECK(pattern_holds(window, 10000, 1) && pattern_holds(window + 20000, 500, 1));
		CHECK(pattern_holds(window + 30000, 100, 1) && pattern_holds(window + 40000, 100, 1));
	}
	together(s);
	if (mr)
		CHECK_OK(fi_close(&mr->fid));
}

static void every_form_of_a_write_works(void **state)
{
	run_pair(&offsets, write_forms);
	run_pair(&addresses, write_forms);
}

/* Bounds, rights and keys are the target's to check. */
static void trespass(struct side *s)
{
	uint64_t key, start;
	struct fid_mr *mr = expose(s, &key, &start), *read_only = NULL;

	if (s->me == 1) {
		CHECK_OK(fi_mr_reg(s->domain, window, 100, FI_REMOTE_READ, 0, 7, 0, &read_only, NULL));
		s->shared->word[2] = fi_mr_key(read_only);
	}
	together(s);
	if (s->me == 0) {
		CHECK_OK(fi_write(s->ep, local, 100, NULL, s->peer, start + LENGTH - 50, key, local));
		expect_error(s, local, FI_EACCES);
		CHECK_OK(fi_read(s->ep, local, 50000, NULL, s->peer, start ? start - 1 : LENGTH, key, local));
		expect_error(s, local, FI_EACCES);
		CHECK_OK(fi_write(s->ep, local, 10, NULL, s->peer, start, key + 999, local));
		expect_error(s, local, FI_EACCES);
		CHECK_OK(fi_write(s->ep, local, 10, NULL, s->peer, start, s->shared->word[2], local));
		expect_error(s, local, FI_EACCES);
		CHECK_OK(fi_read(s->ep, local, 10, NULL, s->peer, start, s->shared->word[2], local));
		expect(s, local);
	}
	together(s);
	if (mr)
		CHECK_OK(fi_close(&mr->fid));
	together(s);
	if (s->me == 0) { /* a closed registration is closed */
		CHECK_OK(fi_write(s->ep, local, 10, NULL, s->peer, start, key, local));
		expect_error(s, local, FI_EACCES);
	}
	together(s);
	if (read_only)
		CHECK_OK(fi_close(&read_only->fid));
}

static void access_outside_a_registration_is_refused(void **state)
{
	run_pair(&offsets, trespass);
	run_pair(&addresses, trespass);
}

/* mr_reg(NULL, SIZE_MAX), as Open MPI asks; keys are unique; later endpoints see earlier registrations. */
static void registrations(struct side *s)
{
	struct fid_mr *all, *again, *mine;
	struct fid_ep *second;

	CHECK_OK(fi_mr_reg(s->domain, NULL, SIZE_MAX, REMOTE, 0, 1, 0, &all, NULL));
	CHECK(fi_mr_reg(s->domain, window, 10, REMOTE, 0, 1, 0, &again, NULL) == -FI_ENOKEY);
	CHECK_OK(fi_mr_reg(s->domain, window, 10, FI_SEND | FI_RECV, 0, 1, 0, &mine,
			   NULL)); /* no remote use */
	CHECK_OK(fi_endpoint(s->domain, s->info, &second, NULL));
	CHECK_OK(fi_close(&second->fid));
	s->shared->word[s->me] = (uintptr_t)window;
	together(s);
	pattern_fill(local, 1000, (uint64_t)s->me);
	CHECK_OK(fi_write(s->ep, local, 1000, NULL, s->peer, s->shared->word[!s->me] + 5, 1, local));
	expect(s, local);
	together(s);
	CHECK(pattern_holds(window + 5, 1000, (uint64_t)!s->me));
	CHECK_OK(fi_close(&mine->fid));
	CHECK_OK(fi_close(&all->fid));
}

static void the_whole_address_space_can_be_registered(void **state)
{
	run_pair(&offsets, registrations);
}

/* As MPICH and Intel MPI do where a program has not freed a window. */
static void closed_in_any_order(struct side *s)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_ep *ep;
	struct fid_mr *mr;

	CHECK_OK(lf.fabric(s->info->fabric_attr, &fabric, NULL));
	CHECK_OK(fi_domain(fabric, s->info, &domain, NULL));
	CHECK_OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	CHECK_OK(fi_domain_bind(domain, &eq->fid, 1ull << 59)); /* FI_REG_MR */
	CHECK_OK(fi_mr_reg(domain, window, 10, REMOTE, 0, 1, 0, &mr, NULL));
	CHECK_OK(fi_endpoint(domain, s->info, &ep, NULL));
	CHECK_OK(fi_close(&fabric->fid));
	CHECK_OK(fi_close(&domain->fid));
	CHECK_OK(fi_close(&eq->fid));
	CHECK_OK(fi_close(&ep->fid));
	CHECK_OK(fi_close(&mr->fid));
}

static void a_domain_may_be_closed_before_what_it_made(void **state)
{
	run_pair(&offsets, closed_in_any_order);
}

/* ---- atomics ---- */

static void atomics(struct side *s)
{
	static _Alignas(16) int64_t cells[64];
	struct fid_mr *mr;
	int64_t one = 1, old[2], pair[2] = {5, 7}, compare[2] = {0, 99}, result[2];
	double d = 0.5, dold;
	size_t count;
	enum { TIMES = 200 };

	CHECK_OK(fi_atomicvalid(s->ep, FI_INT64, FI_SUM, &count));
	CHECK(count >= 64);
	CHECK_OK(fi_fetch_atomicvalid(s->ep, FI_DOUBLE, FI_ATOMIC_READ, &count));
	CHECK_OK(fi_compare_atomicvalid(s->ep, FI_UINT32, FI_MSWAP, &count));
	CHECK(fi_atomicvalid(s->ep, FI_DOUBLE, FI_BAND, &count) == -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(s->ep, FI_INT64, FI_CSWAP, &count) == -FI_EOPNOTSUPP);
	CHECK(fi_atomicvalid(s->ep, FI_INT64, FI_ATOMIC_READ, &count) == -FI_EOPNOTSUPP);
	CHECK_OK(fi_mr_reg(s->domain, cells, sizeof(cells), REMOTE, 0, 3, 0, &mr, NULL));
	together(s);
	fi_addr_t at = s->me ? s->self : s->peer; /* both work on side 1's cells */
	for (int i = 0; i < TIMES; i++) {
		CHECK_OK(fi_atomic(s->ep, &one, 1, NULL, at, 0, 3, FI_INT64, FI_SUM, &one));
		expect(s, &one);
		CHECK_OK(fi_inject_atomic(s->ep, &one, 1, at, 8, 3, FI_INT64, FI_SUM));
	}
	/* The injected ones complete in silence; what follows them in order tells that they are done. */
	CHECK_OK(fi_fetch_atomic(s->ep, NULL, 2, NULL, old, NULL, at, 0, 3, FI_INT64, FI_ATOMIC_READ, old));
	expect(s, old);
	CHECK(old[0] >= TIMES && old[1] >= TIMES);
	together(s);
	CHECK_OK(fi_fetch_atomic(s->ep, NULL, 2, NULL, old, NULL, at, 0, 3, FI_INT64, FI_ATOMIC_READ, old));
	expect(s, old);
	CHECK(old[0] == 2 * TIMES && old[1] == 2 * TIMES);
	together(s);
	if (s->me == 0) {
		CHECK_OK(fi_compare_atomic(s->ep, pair, 2, NULL, compare, NULL, result, NULL, at, 64, 3,
					   FI_INT64, FI_CSWAP, pair));
		expect(s, pair);
		CHECK(result[0] == 0 && result[1] == 0); /* the first cell swapped, the second did not */
		CHECK_OK(fi_fetch_atomic(s->ep, &d, 1, NULL, &dold, NULL, at, 128, 3, FI_DOUBLE, FI_SUM, &d));
		expect(s, &d);
		CHECK(dold == 0.0);
		CHECK_OK(fi_atomic(s->ep, &one, 1, NULL, at, sizeof(cells), 3, FI_INT64, FI_SUM, &one));
		expect_error(s, &one, FI_EACCES);
	}
	together(s);
	if (s->me == 1)
		CHECK(cells[8] == 5 && cells[9] == 0 && *(double *)&cells[16] == 0.5);
	CHECK_OK(fi_close(&mr->fid));
}

static void atomics_add_up(void **state)
{
	run_pair(&offsets, atomics);
	run_pair(&safe, atomics);
}

/* ---- counters ---- */

static void counting(struct side *s)
{
	uint64_t key, start, word = 9, got;
	struct fid_mr *mr = expose(s, &key, &start);

	if (s->me == 0) {
		for (int i = 0; i < 10; i++) {
			CHECK_OK(fi_tinject(s->ep, &word, 8, s->peer, 1)); /* injected operations count too */
			CHECK_OK(fi_inject_write(s->ep, &word, 8, s->peer, start + 8 * (uint64_t)i, key));
		}
		CHECK_OK(fi_cntr_wait(s->cntr[0], 10, -1));
		CHECK_OK(fi_cntr_wait(s->cntr[2], 10, -1));
		CHECK(fi_cntr_wait(s->cntr[1], 1, 20) == -FI_ETIMEDOUT);
		CHECK_OK(fi_write(s->ep, &word, 8, NULL, s->peer, start, key + 1, &word));
		CHECK(fi_cntr_wait(s->cntr[2], 11, -1) == -FI_EAVAIL);
		CHECK(fi_cntr_readerr(s->cntr[2]) == 1 && fi_cntr_read(s->cntr[2]) == 10);
		expect_error(s, &word, FI_EACCES);
		CHECK_OK(fi_cntr_set(s->cntr[0], 5));
		CHECK_OK(fi_cntr_add(s->cntr[0], 2));
		CHECK(fi_cntr_read(s->cntr[0]) == 7);
	} else {
		CHECK_OK(fi_cntr_wait(s->cntr[3], 10, -1));
		for (int i = 0; i < 10; i++) {
			memcpy(&got, window + 8 * i, 8);
			CHECK(got == 9);
			CHECK_OK(fi_trecv(s->ep, &got, 8, NULL, s->peer, 1, 0, &got));
		}
		CHECK_OK(fi_cntr_wait(s->cntr[1], 10, -1));
		for (int i = 0; i < 10; i++)
			expect(s, &got);
	}
	together(s);
	if (mr)
		CHECK_OK(fi_close(&mr->fid));
}

/* A registration's own counters count what is done to it and to nothing else. */
static void counting_regions(struct side *s)
{
	struct fid_cntr *reads, *writes;
	struct fid_mr *watched, *other;
	uint64_t word = 1;

	CHECK_OK(fi_cntr_open(s->domain, NULL, &reads, NULL));
	CHECK_OK(fi_cntr_open(s->domain, NULL, &writes, NULL));
	CHECK_OK(fi_mr_reg(s->domain, window, 100000, REMOTE, 0, 1, 0, &watched, NULL));
	CHECK_OK(fi_mr_reg(s->domain, window, 100000, REMOTE, 0, 2, 0, &other, NULL));
	CHECK_OK(fi_mr_bind(watched, &reads->fid, FI_REMOTE_READ));
	CHECK_OK(fi_mr_bind(watched, &writes->fid, FI_REMOTE_WRITE));
	CHECK_OK(fi_mr_enable(watched));
	CHECK(fi_close(&writes->fid) == -FI_EBUSY);
	together(s);
	if (s->me == 0) {
		CHECK_OK(fi_inject_write(s->ep, &word, 8, s->peer, 0, 2));
		CHECK_OK(fi_write(s->ep, local, 100000, NULL, s->peer, 0, 1, local));
		expect(s, local);
		CHECK_OK(fi_inject_write(s->ep, &word, 8, s->peer, 0, 1));
		CHECK_OK(fi_inject_atomic(s->ep, &word, 1, s->peer, 0, 1, FI_UINT64, FI_SUM));
		CHECK_OK(fi_read(s->ep, &word, 8, NULL, s->peer, 0, 1, &word));
		expect(s, &word);
		CHECK(word == 2);
	} else {
		CHECK_OK(fi_cntr_wait(writes, 3, -1));
		CHECK_OK(fi_cntr_wait(reads, 1, -1));
	}
	together(s);
	if (s->me == 1)
		CHECK(fi_cntr_read(writes) == 3 && fi_cntr_read(reads) == 1);
	CHECK_OK(fi_close(&watched->fid));
	CHECK_OK(fi_close(&other->fid));
	CHECK_OK(fi_close(&reads->fid));
	CHECK_OK(fi_close(&writes->fid));
}

static void a_registration_has_counters_of_its_own(void **state)
{
	run_pair(&offsets, counting_regions);
	run_pair(&safe, counting_regions);
}

static void counters_count_both_ends(void **state)
{
	run_pair(&counted, counting);
}

/* ---- threads: several post and all read one queue ---- */

enum { THREADS = 3, EACH = 300 };

struct worker {
	struct side *s;
	int number;
	_Atomic int *left;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct side *s = w->s;
	static uint64_t in[THREADS][EACH];
	uint64_t out[EACH];

	for (int i = 0; i < EACH; i++) {
		uint64_t tag = (uint64_t)(w->number * EACH + i);
		CHECK_OK(
			fi_trecv(s->ep, &in[w->number][i], 8, NULL, s->peer, tag, 0, (void *)(uintptr_t)tag));
	}
	for (int i = 0; i < EACH; i++) {
		uint64_t tag = (uint64_t)(w->number * EACH + i);
		out[i] = ~tag;
		CHECK_OK(fi_tinject(s->ep, &out[i], 8, s->peer, tag));
	}
	while (*w->left > 0) {
		struct fi_cq_tagged_entry e[4];
		ssize_t n = fi_cq_read(s->cq, e, 4);
		CHECK(n > 0 || n == -FI_EAGAIN);
		for (ssize_t i = 0; i < n; i++) {
			uint64_t tag = (uintptr_t)e[i].op_context;
			CHECK(e[i].tag == tag && in[tag / EACH][tag % EACH] == ~tag);
			--*w->left;
		}
	}
	return NULL;
}

static void threads(struct side *s)
{
	_Atomic int left = THREADS * EACH;
	struct worker workers[THREADS];
	pthread_t ids[THREADS];

	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){s, i, &left};
		CHECK_OK(pthread_create(&ids[i], NULL, work, &workers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_OK(pthread_join(ids[i], NULL));
}

static void threads_share_an_endpoint_and_a_queue(void **state)
{
	run_pair(&safe, threads);
}

/* ---- address vectors and event queues ---- */

static void vectors(struct side *s)
{
	struct fi_av_attr attr = {.type = FI_AV_MAP, .flags = FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	uint8_t two[2 * ADDR_LEN], back[ADDR_LEN];
	struct fi_eq_entry entry;
	struct fi_eq_err_entry err;
	size_t len = ADDR_LEN, text_len;
	fi_addr_t at[2], third;
	char text[200];
	struct fid_av *av;
	struct fid_eq *eq;
	uint32_t event;
	int errors[2];

	memcpy(two, s->shared->addr, sizeof(two));
	CHECK(fi_av_insert(s->av, two, 2, at, 0, NULL) == 2 && at[0] != at[1]);
	CHECK_OK(fi_av_lookup(s->av, at[1], back, &len));
	CHECK(len == ADDR_LEN && !memcmp(back, two + ADDR_LEN, ADDR_LEN));
	CHECK_OK(fi_av_remove(s->av, &at[0], 1, 0));
	CHECK(fi_av_lookup(s->av, at[0], back, &len) == -FI_EINVAL);
	CHECK(fi_tinject(s->ep, back, 1, at[0], 0) == -FI_EINVAL);
	CHECK(fi_tinject(s->ep, back, 1, 123456, 0) == -FI_EINVAL);
	text_len = sizeof(text);
	CHECK(!strncmp(fi_av_straddr(s->av, two, text, &text_len), "sennit://534e", 13));
	CHECK(fi_av_insertsvc(s->av, text, NULL, &third, 0, NULL) == 1 &&
	      third == at[0]);	  /* the slot is free again */
	memset(two, 0, ADDR_LEN); /* not an address */
	CHECK(fi_av_insert(s->av, two, 2, at, FI_SYNC_ERR, errors) == 1);
	CHECK(at[0] == FI_ADDR_NOTAVAIL && errors[0] == FI_EINVAL && errors[1] == 0);

	CHECK_OK(fi_eq_open(s->fabric, &eq_attr, &eq, NULL));
	CHECK_OK(fi_av_open(s->domain, &attr, &av, NULL));
	CHECK(fi_av_insert(av, two, 2, at, 0, &two) == -FI_ENOEQ);
	CHECK_OK(fi_av_bind(av, &eq->fid, 0));
	CHECK_OK(fi_av_insert(av, two, 2, at, 0, &two));
	CHECK(fi_eq_sread(eq, &event, &entry, sizeof(entry), 1000, 0) == -FI_EAVAIL);
	CHECK(fi_eq_readerr(eq, &err, 0) == sizeof(err) && err.err == FI_EINVAL && err.data == 0);
	CHECK(fi_eq_sread(eq, &event, &entry, sizeof(entry), 1000, 0) == sizeof(entry));
	CHECK(event == FI_AV_COMPLETE && entry.data == 1 && entry.context == &two && entry.fid == &av->fid);
	CHECK(fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0) == -FI_EAGAIN);
	CHECK(fi_close(&eq->fid) == -FI_EBUSY);
	CHECK_OK(fi_close(&av->fid));
	CHECK_OK(fi_close(&eq->fid));
}

static void address_vectors_insert_look_up_and_remove(void **state)
{
	run_pair(&offsets, vectors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_written_and_read_at_every_size),
		cmocka_unit_test(every_form_of_a_write_works),
		cmocka_unit_test(access_outside_a_registration_is_refused),
		cmocka_unit_test(the_whole_address_space_can_be_registered),
		cmocka_unit_test(a_domain_may_be_closed_before_what_it_made),
		cmocka_unit_test(atomics_add_up),
		cmocka_unit_test(counters_count_both_ends),
		cmocka_unit_test(a_registration_has_counters_of_its_own),
		cmocka_unit_test(threads_share_an_endpoint_and_a_queue),
		cmocka_unit_test(address_vectors_insert_look_up_and_remove),
	};
	int rc = ofi_load();

	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "ofi_missing.h"
#endif

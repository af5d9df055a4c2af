/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Randomized traffic between 2 to 4 processes over the C API: every size class, tags, masks, any source, segments,
 * synchronous sends, plain messages, puts and gets, all outstanding at once; every byte that arrives is checked, and so
 * is the order of messages with equal tags. The seed is printed; give it as the first argument to repeat a run, and a
 * number of rounds as the second to make it longer.
 */
#define CHECK_FAILED() (sh->failed = 1)
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define MAX_PROCS 4
#define BATCH	  24
#define TAGS	  3
#define REGION	  (1 << 20)

static uint64_t seed;
static int rounds = 30;

struct shared { /* between the processes of one run */
	uint8_t addr[MAX_PROCS][SN_ADDR_MAX];
	size_t len[MAX_PROCS];
	_Atomic int ready, round[MAX_PROCS];
	_Atomic int failed;
};

static uint64_t next_random(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return *s >> 33;
}

static size_t random_size(uint64_t *s)
{
	static const size_t edges[] = {0, 1, 39, 40, 41, 64, 4095, 4096, 4097, 16384, 16385, 65536, 65537};
	uint64_t kind = next_random(s) % 20;
	if (kind < 6)
		return edges[next_random(s) % (sizeof(edges) / sizeof(edges[0]))];
	if (kind < 17)
		return next_random(s) % (UINT64_C(1) << (next_random(s) % 16));
	return next_random(s) % (kind == 19 ? 4000000 : 300000);
}

static uint8_t byte_of(uint64_t id, size_t at)
{
	uint64_t x = id * 0x9e3779b97f4a7c15u + at;
	return (uint8_t)(x ^ (x >> 7) ^ (x >> 29));
}

static void fill(uint8_t *b, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		b[i] = byte_of(id, i);
}

static int check(const uint8_t *b, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != byte_of(id, i)) {
			fprintf(stderr, "byte %zu of %zu is %02x instead of %02x (message %llx)\n", i, n,
				b[i], byte_of(id, i), (unsigned long long)id);
			return -1;
		}
	return 0;
}

/* What `from` sends to `to` in a round follows from the seed alone, so that the receiver can compute it as well. */
struct plan {
	size_t size;
	uint64_t tag, id;
	int sync, pieces, plain;
};

static void plan_round(struct plan *p, int from, int to, int round)
{
	uint64_t s = seed ^ (uint64_t)(round * 1000 + from * 10 + to) * 0x9e3779b97f4a7c15u;
	for (int i = 0; i < BATCH; i++) {
		p[i].size = random_size(&s);
		p[i].tag = next_random(&s) % TAGS;
		p[i].sync = next_random(&s) % 8 == 0;
		p[i].plain = next_random(&s) % 8 == 0;
		p[i].pieces = 1 + (int)(next_random(&s) % 5);
		p[i].id =
			((uint64_t)round << 20) | (uint64_t)(from << 16) | (uint64_t)(to << 12) | (uint64_t)i;
	}
}

static int cut(struct iovec *v, uint8_t *b, size_t n, int pieces)
{
	size_t at = 0;
	for (int i = 0; i < pieces; i++) {
		size_t k = i == pieces - 1 ? n - at : (n - at) / 3;
		v[i] = (struct iovec){b + at, k};
		at += k;
	}
	return pieces;
}

struct box {
	uint8_t *buf;
	sn_req *req;
	struct plan p;
};

static void one_round(sn_ep *ep, struct shared *sh, const sn_peer *peers, int me, int procs, int round)
{
	static struct box in[MAX_PROCS][BATCH], out[MAX_PROCS][BATCH];
	struct plan plan[BATCH];
	uint64_t s = seed ^ (uint64_t)(round * 77 + me);
	int receive_first = (int)(next_random(&s) % 2);
	for (int phase = 0; phase < 2; phase++) {
		for (int q = 0; q < procs; q++) {
			if (phase == receive_first) {
				plan_round(plan, me, q, round);
				for (int i = 0; i < BATCH; i++) {
					struct box *x = &out[q][i];
					x->p = plan[i];
					x->buf = malloc(plan[i].size + 1);
					fill(x->buf, plan[i].size, plan[i].id);
					struct iovec v[8];
					sn_msg m = {
						.peer = peers[q], .iov = v, .bits = plan[i].tag | 0xabc00};
					m.iov_count = (uint32_t)cut(v, x->buf, plan[i].size, plan[i].pieces);
					m.flags = (plan[i].sync ? SN_SYNC : 0) | SN_DATA;
					m.data = plan[i].id;
					CHECK((plan[i].plain ? sn_post_msend : sn_post_send)(ep, &m,
											     &x->req) == 0);
				}
			} else {
				plan_round(plan, q, me, round);
				for (int i = 0; i < BATCH; i++) {
					struct box *x = &in[q][i];
					x->p = plan[i];
					x->buf = malloc(plan[i].size + 9);
					memset(x->buf, 0x77, plan[i].size + 9);
					struct iovec v[8];
					sn_msg m = {
						.peer = peers[q], .iov = v, .bits = plan[i].tag | 0xabc00};
					m.mask = UINT64_MAX;
					m.iov_count = (uint32_t)cut(v, x->buf, plan[i].size + 8,
								    6 - plan[i].pieces);
					CHECK((plan[i].plain ? sn_post_mrecv : sn_post_recv)(ep, &m,
											     &x->req) == 0);
				}
			}
			sn_progress(ep);
		}
	}
	for (int q = 0; q < procs; q++) {
		for (int i = 0; i < BATCH; i++) {
			struct box *x = &in[q][i];
			sn_completion c;
			int rc = sn_wait(ep, x->req, &c, 30000000);
			if (rc)
				fprintf(stderr, "process %d round %d: receive %d from %d (%zu bytes): %s\n",
					me, round, i, q, x->p.size, sn_strerror(rc));
			CHECK(rc == 0);
			CHECK(c.status == 0 && c.len == x->p.size && c.full_len == x->p.size);
			CHECK((c.flags & SN_COMP_DATA) && c.data == x->p.id);
			CHECK(c.peer == peers[q]);
			CHECK(check(x->buf, x->p.size, x->p.id) == 0);
			for (int k = 0; k < 8; k++)
				CHECK(x->buf[x->p.size + (size_t)k] == 0x77);
			free(x->buf);
		}
	}
	for (int q = 0; q < procs; q++) {
		for (int i = 0; i < BATCH; i++) {
			sn_completion c;
			CHECK(sn_wait(ep, out[q][i].req, &c, 30000000) == 0 && c.status == 0);
			free(out[q][i].buf);
		}
	}
}

/* Every process puts into its own slice of its right neighbour's region, reads it back, and adds to a counter. */
static void one_sided_round(sn_ep *ep, struct shared *sh, const sn_peer *peers, int me, int procs, int round)
{
	uint64_t s = seed ^ (uint64_t)(round * 91 + me);
	int q = (me + 1) % procs;
	size_t n = random_size(&s) % 200000;
	uint8_t *a = malloc(n + 1), *b = malloc(n + 1);
	fill(a, n, (uint64_t)round);
	struct iovec v = {a, n}, w = {b, n};
	sn_msg m = {.peer = peers[q], .iov = &v, .iov_count = 1};
	sn_remote at = {1, 8 + next_random(&s) % 1000 + (uint64_t)me * 250000};
	sn_req *put, *get, *add;
	CHECK(sn_put(ep, &m, &at, &put) == 0);
	m.iov = &w;
	CHECK(sn_get(ep, &m, &at, &get) == 0); /* posted at once: must see the put */
	int64_t one = 1;
	struct iovec ov = {&one, 8};
	sn_msg am = {.peer = peers[0], .iov = &ov, .iov_count = 1};
	sn_remote counter = {1, 0};
	sn_atomic sum = {.type = SN_INT64, .op = SN_SUM};
	CHECK(sn_atomic_post(ep, &am, &counter, &sum, &add) == 0);
	sn_completion c;
	CHECK(sn_wait(ep, add, &c, 30000000) == 0 && c.status == 0);
	CHECK(sn_wait(ep, get, &c, 30000000) == 0 && c.status == 0);
	CHECK(sn_wait(ep, put, &c, 30000000) == 0 && c.status == 0);
	CHECK(check(b, n, (uint64_t)round) == 0);
	free(a);
	free(b);
}

static void barrier(sn_ep *ep, struct shared *sh, int me, int procs, int round)
{
	sh->round[me] = round;
	for (int q = 0; q < procs; q++)
		while (sh->round[q] < round && !sh->failed) {
			sn_progress(ep);
			usleep(50);
		}
}

static void run_process(struct shared *sh, int me, int procs)
{
	sn_ep *ep;
	sn_peer peers[MAX_PROCS];
	alarm(150);
	CHECK(sn_ep_open(NULL, &ep) == 0);
	sh->len[me] = SN_ADDR_MAX;
	CHECK(sn_ep_address(ep, sh->addr[me], &sh->len[me]) == 0);
	sh->ready++;
	while (sh->ready < procs && !sh->failed)
		usleep(100);
	for (int q = 0; q < procs; q++)
		CHECK(sn_peer_add(ep, sh->addr[q], sh->len[q], &peers[q]) == 0);
	uint8_t *mem = calloc(1, REGION);
	sn_region *region;
	CHECK(sn_region_add(ep, mem, REGION, 1, SN_REMOTE_READ | SN_REMOTE_WRITE, &region) == 0);
	for (int r = 0; r < rounds; r++) {
		one_round(ep, sh, peers, me, procs, r);
		one_sided_round(ep, sh, peers, me, procs, r);
	}
	barrier(ep, sh, me, procs, rounds + 1);
	int64_t sum;
	memcpy(&sum, mem, sizeof(sum));
	CHECK(me != 0 || sum == (int64_t)rounds * procs);
	barrier(ep, sh, me, procs, rounds + 2);
	sn_ep_close(ep);
	free(mem);
	_exit(sh->failed);
}

static void run(int procs)
{
	struct shared *sh =
		mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(sh != MAP_FAILED);
	fflush(NULL);
	for (int i = 0; i < procs; i++)
		if (fork() == 0)
			run_process(sh, i, procs);
	for (int i = 0; i < procs; i++) {
		int st;
		wait(&st);
		assert_int_equal(st, 0);
	}
	munmap(sh, sizeof(*sh));
}

static void two_processes_exchange_every_byte(void **state)
{
	run(2);
}

static void four_processes_exchange_every_byte(void **state)
{
	run(4);
}

int main(int argc, char **argv)
{
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	if (argc > 2)
		rounds = (int)strtol(argv[2], NULL, 0);
	printf("seed %llu\n", (unsigned long long)seed);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_processes_exchange_every_byte),
		cmocka_unit_test(four_processes_exchange_every_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: BSD-3-Clause
/* The engine's side of the module: the cache of regions, and what its errors say. */
#include "copy/kmod.h"
#include "kt.h"
#include "sennit/sennit.h"
#include <sys/stat.h>

static struct sn_kmod *k;

static void a_buffer_is_declared_once(void)
{
	char *at = kt_map(8 * KT_PAGE), *to = kt_map(8 * KT_PAGE);
	struct iovec iov[2] = {{at, 5000}, {at + 10000, 3000}}, mine = {to, 8 * KT_PAGE};
	uint64_t declared = kt_counter(SENNIT_C_REGIONS_DECLARED), handle = 0, done;
	struct sn_kmod_region *r;

	kt_fill(at, 8 * KT_PAGE, 1);
	for (int i = 0; i < 10; i++) {
		KT_CHECK(sn_kmod_region_get(k, iov, 2, SN_KMOD_READ, &r) == SN_OK);
		KT_CHECK(!handle || r->handle == handle);
		handle = r->handle;
		sn_kmod_region_prepare(k, r);
		KT_CHECK(sn_kmod_read(k, handle, 4000, &mine, 1, 7, 4000, &done) == SN_OK && done == 4000);
		KT_CHECK(memcmp(to + 7, at + 4000, 1000) == 0 && memcmp(to + 1007, at + 10000, 3000) == 0);
		sn_kmod_region_put(k, r);
	}
	KT_CHECK(kt_counter(SENNIT_C_REGIONS_DECLARED) - declared == 1);
	/* The memory goes and comes back: the same name, the new content, and nobody told the cache. */
	munmap(at, 8 * KT_PAGE);
	char *again =
		mmap(at, 8 * KT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	KT_CHECK(again == at);
	kt_fill(at, 8 * KT_PAGE, 2);
	KT_CHECK(sn_kmod_region_get(k, iov, 2, SN_KMOD_READ, &r) == SN_OK && r->handle == handle);
	KT_CHECK(sn_kmod_read(k, handle, 0, &mine, 1, 0, 5000, &done) == SN_OK && kt_same(to, 5000, 2));
	KT_CHECK(sn_kmod_write(k, handle, 0, &mine, 1, 0, 1, &done) == SN_ERR_ACCESS && done == 0);
	KT_CHECK(sn_kmod_read(k, handle, 7999, &mine, 1, 0, 2, &done) == SN_ERR_INVALID);
	munmap(at, 8 * KT_PAGE);
	KT_CHECK(sn_kmod_read(k, handle, 0, &mine, 1, 0, 5000, &done) == SN_ERR_FAULT);
	sn_kmod_region_put(k, r);
	/* Other access is another region. */
	KT_CHECK(sn_kmod_region_get(k, iov, 2, SN_KMOD_WRITE, &r) == SN_OK && r->handle != handle);
	sn_kmod_region_put(k, r);
	munmap(to, 8 * KT_PAGE);
}

/* The oldest that nobody uses go; those in use stay, however many they are. */
static void the_cache_has_an_end(void)
{
	const uint32_t n = SN_KMOD_REGIONS + 50;
	char *at = kt_map(n * 64), buf[64];
	struct iovec mine = {buf, sizeof(buf)};
	struct sn_kmod_region *used[SN_KMOD_REGIONS + 50], *r;
	uint64_t first, last, done;

	for (uint32_t i = 0; i < n; i++) {
		struct iovec iov = {at + i * 64, 64};

		KT_CHECK(sn_kmod_region_get(k, &iov, 1, SN_KMOD_READ | SN_KMOD_WRITE, &used[i]) == SN_OK);
	}
	first = used[0]->handle;
	last = used[n - 1]->handle;
	KT_CHECK(sn_kmod_write(k, first, 0, &mine, 1, 0, 64, &done) == SN_OK);
	for (uint32_t i = 0; i < n; i++)
		sn_kmod_region_put(k, used[i]);
	KT_CHECK(k->idle_count == SN_KMOD_REGIONS);
	KT_CHECK(sn_kmod_read(k, first, 0, &mine, 1, 0, 64, &done) == SN_ERR_PEER_GONE);
	KT_CHECK(sn_kmod_read(k, last, 0, &mine, 1, 0, 64, &done) == SN_OK);
	mine.iov_len = 0;
	KT_CHECK(sn_kmod_region_get(k, &mine, 1, SN_KMOD_READ, &r) == SN_ERR_INVALID && r == NULL);
	munmap(at, n * 64);
}

/* More segments than fit on the stack. */
static void long_vectors_work(void)
{
	struct iovec out[500], in[400];
	char *from = kt_map(500 * 100), *to = kt_map(400 * 125);
	struct sn_kmod_region *r;
	uint64_t done;

	for (int i = 0; i < 500; i++)
		out[i] = (struct iovec){from + 100 * i, 100};
	for (int i = 0; i < 400; i++)
		in[i] = (struct iovec){to + 125 * i, 125};
	kt_fill(from, 50000, 3);
	KT_CHECK(sn_kmod_region_get(k, out, 500, SN_KMOD_READ, &r) == SN_OK && r->length == 50000);
	KT_CHECK(sn_kmod_read(k, r->handle, 0, in, 400, 0, 50000, &done) == SN_OK && kt_same(to, 50000, 3));
	sn_kmod_region_put(k, r);
	munmap(from, 500 * 100);
	munmap(to, 400 * 125);
}

static void a_forked_child_is_told(void)
{
	pid_t child = kt_fork();
	struct sn_kmod_region *r;
	struct iovec iov = {&child, sizeof(child)};

	if (!child) {
		KT_CHECK(sn_kmod_region_get(k, &iov, 1, SN_KMOD_READ, &r) == SN_ERR_FORKED);
		_exit(0);
	}
	kt_join(child);
}

int main(void)
{
	KT_CHECK(sn_kmod_open(&k) == SN_OK);
	KT_RUN(a_buffer_is_declared_once);
	KT_RUN(the_cache_has_an_end);
	KT_RUN(long_vectors_work);
	KT_RUN(a_forked_child_is_told);
	sn_kmod_close(k);
	kt_wait_unpinned(0);
	KT_CHECK(chmod(SENNIT_DEVICE, 0600) == 0);
	kt_become_user(1000);
	KT_CHECK(sn_kmod_open(&k) == SN_ERR_PERM);
	return 0;
}

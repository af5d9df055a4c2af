/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of libmyriexpress.so share. They are programs as its users write them: its headers, its library,
 * nothing else.
 */
#ifndef MX_TEST_H
#define MX_TEST_H

#include <mx_extensions.h>
#include <myriexpress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY 0x5e11117u

#define CHECK(what)                                                                                          \
	do {                                                                                                 \
		if (!(what)) {                                                                               \
			fprintf(stderr, "%s:%d: [%d] not so: %s\n", __FILE__, __LINE__, (int)getpid(),       \
				#what);                                                                      \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

#define OK(call)                                                                                             \
	do {                                                                                                 \
		mx_return_t rc_ = (call);                                                                    \
		if (rc_) {                                                                                   \
			fprintf(stderr, "%s:%d: [%d] %s: %s\n", __FILE__, __LINE__, (int)getpid(), #call,    \
				mx_strerror(rc_));                                                           \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

static inline mx_endpoint_t open_any(void)
{
	mx_endpoint_t ep;
	OK(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, KEY, NULL, 0, &ep));
	return ep;
}

/* By a number that has become free: another test, which opens any, may be faster, and leaves soon. */
static inline mx_endpoint_t open_again(uint32_t id)
{
	mx_endpoint_t ep;
	mx_return_t rc;
	mx_set_error_handler(MX_ERRORS_RETURN);
	while ((rc = mx_open_endpoint(0, id, KEY, NULL, 0, &ep)) == MX_BUSY)
		usleep(1000);
	OK(rc);
	return ep;
}

static inline mx_endpoint_addr_t own_addr(mx_endpoint_t ep)
{
	mx_endpoint_addr_t addr;
	OK(mx_get_endpoint_addr(ep, &addr));
	return addr;
}

static inline unsigned char *pattern(unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(seed + i * 7 + (i >> 8));
	return buf;
}

static inline int is_pattern(const unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (unsigned char)(seed + i * 7 + (i >> 8)))
			return 0;
	return 1;
}

static inline mx_request_t isend(mx_endpoint_t ep, mx_endpoint_addr_t to, void *buf, size_t len,
				 uint64_t match)
{
	mx_segment_t seg = {buf, (uint32_t)len};
	mx_request_t r;
	OK(mx_isend(ep, &seg, 1, to, match, NULL, &r));
	return r;
}

static inline mx_request_t issend(mx_endpoint_t ep, mx_endpoint_addr_t to, void *buf, size_t len,
				  uint64_t match)
{
	mx_segment_t seg = {buf, (uint32_t)len};
	mx_request_t r;
	OK(mx_issend(ep, &seg, 1, to, match, NULL, &r));
	return r;
}

static inline mx_request_t irecv(mx_endpoint_t ep, void *buf, size_t len, uint64_t match, uint64_t mask)
{
	mx_segment_t seg = {buf, (uint32_t)len};
	mx_request_t r;
	OK(mx_irecv(ep, &seg, 1, match, mask, NULL, &r));
	return r;
}

static inline mx_status_t finish(mx_endpoint_t ep, mx_request_t r)
{
	mx_status_t s;
	uint32_t result;
	OK(mx_wait(ep, &r, MX_INFINITE, &s, &result));
	CHECK(result == 1);
	CHECK(r == NULL);
	return s;
}

/* Likewise, and it must have gone well. */
static inline mx_status_t finish_well(mx_endpoint_t ep, mx_request_t r)
{
	mx_status_t s = finish(ep, r);
	if (s.code)
		fprintf(stderr, "status: %s\n", mx_strstatus(s.code));
	CHECK(s.code == MX_STATUS_SUCCESS);
	return s;
}

struct test {
	const char *name;
	void (*run)(void);
};

/* argv[1]: one of them. Without: their names. */
static inline int run_tests(const struct test *tests, int argc, char **argv)
{
	for (; tests->name; tests++) {
		if (argc < 2) {
			puts(tests->name);
		} else if (strcmp(tests->name, argv[1]) == 0) {
			tests->run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's own life. */
#include "mx.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool open;
static unsigned endpoints;

mx_return_t mx__init_api(int api)
{
	if (api >> 8 != MX_API >> 8)
		return mx_fail(NULL, MX_BAD_LIB_VERSION, "mx_init: compiled for %#x, this is %#x",
			       (unsigned)api, MX_API);
	pthread_mutex_lock(&lock);
	bool before = open;
	if (!before)
		mx_host_init();
	open = true;
	pthread_mutex_unlock(&lock);
	return before ? mx_fail(NULL, MX_ALREADY_INITIALIZED, "mx_init") : MX_SUCCESS;
}

bool mx_is_open(void)
{
	pthread_mutex_lock(&lock);
	bool is = open;
	pthread_mutex_unlock(&lock);
	return is;
}

bool mx_count_endpoint(int change)
{
	pthread_mutex_lock(&lock);
	bool counts = open;
	if (counts)
		endpoints += (unsigned)change;
	pthread_mutex_unlock(&lock);
	return counts;
}

mx_return_t mx_finalize(void)
{
	pthread_mutex_lock(&lock);
	mx_return_t rc = !open ? MX_NOT_INITIALIZED : endpoints ? MX_BUSY : MX_SUCCESS;
	if (!rc)
		open = false;
	pthread_mutex_unlock(&lock);
	return rc ? mx_fail(NULL, rc, "mx_finalize: %u endpoints open", endpoints) : MX_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The module's entry point, error codes, and the answers shared by all objects. */
#include "ofi.h"

#include <stdio.h>

int sn_ofi_error(int sn_status)
{
	static const int map[] = {
		[-SN_OK] = 0,
		[-SN_ERR_INVALID] = FI_EINVAL,
		[-SN_ERR_NOMEM] = FI_ENOMEM,
		[-SN_ERR_AGAIN] = FI_EAGAIN,
		[-SN_ERR_TIMEOUT] = FI_ETIMEDOUT,
		[-SN_ERR_TRUNCATED] = FI_ETRUNC,
		[-SN_ERR_CANCELED] = FI_ECANCELED,
		[-SN_ERR_PEER_GONE] = FI_ECONNRESET,
		[-SN_ERR_FAULT] = FI_EFAULT,
		[-SN_ERR_ACCESS] = FI_EACCES,
		[-SN_ERR_PROTO] = FI_EIO,
		[-SN_ERR_PERM] = FI_EPERM,
		[-SN_ERR_UNSUPPORTED] = FI_EOPNOTSUPP,
		[-SN_ERR_FORKED] = FI_EOPBADSTATE,
	};

	if (sn_status >= 0)
		return 0;
	if (-sn_status < (int)(sizeof(map) / sizeof(map[0])))
		return map[-sn_status];
	return FI_EOTHER;
}

int sn_ofi_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	return -FI_ENOSYS;
}

int sn_ofi_no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

int sn_ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return -FI_ENOSYS;
}

#define SCHEME "sennit://"

const char *sn_ofi_addr_print(const uint8_t *addr, char *buf, size_t *len)
{
	char text[sizeof(SCHEME) + 2 * SN_ADDR_MAX];
	size_t at = sizeof(SCHEME) - 1;

	memcpy(text, SCHEME, at);
	for (unsigned i = 0; i < SN_ADDR_MAX; i++, at += 2)
		snprintf(text + at, 3, "%02x", addr[i]);
	snprintf(buf, *len, "%s", text);
	*len = at + 1;
	return buf;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool sn_ofi_addr_parse(const char *text, uint8_t addr[SN_ADDR_MAX])
{
	size_t scheme = sizeof(SCHEME) - 1;

	if (strncmp(text, SCHEME, scheme) || strlen(text) != scheme + 2 * SN_ADDR_MAX)
		return false;
	text += scheme;
	for (unsigned i = 0; i < SN_ADDR_MAX; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		addr[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static void prov_cleanup(void)
{
}

/*
 * libfabric passes over, in silence, a provider whose fi_version is below the API version that the application asks
 * for. What this module needs of the API has not changed since 1.5, and info.c looks at the caller's version where it
 * matters, so it claims the highest of the 2.x series.
 */
static struct fi_provider provider = {
	.version = FI_VERSION(SN_VERSION_MAJOR, SN_VERSION_MINOR),
	.fi_version = FI_VERSION(2, 99),
	.name = SN_OFI_NAME,
	.getinfo = sn_ofi_getinfo,
	.fabric = sn_ofi_fabric_open,
	.cleanup = prov_cleanup,
};

struct fi_provider *fi_prov_ini(void);
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	return &provider;
}

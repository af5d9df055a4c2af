/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of errors and of the release. */
#include "sennit/sennit.h"

#define TEXT(x)	 #x
#define TEXT2(x) TEXT(x)

const char *sn_version(void)
{
	return TEXT2(SN_VERSION_MAJOR) "." TEXT2(SN_VERSION_MINOR) "." TEXT2(SN_VERSION_PATCH);
}

const char *sn_strerror(int error)
{
	switch (error) {
	case SN_OK: return "success";
	case SN_ERR_INVALID: return "invalid argument";
	case SN_ERR_NOMEM: return "out of memory or another resource";
	case SN_ERR_AGAIN: return "nothing there yet";
	case SN_ERR_TIMEOUT: return "timed out";
	case SN_ERR_TRUNCATED: return "message longer than the receive buffer";
	case SN_ERR_CANCELED: return "cancelled";
	case SN_ERR_PEER_GONE: return "the peer is gone";
	case SN_ERR_FAULT: return "a buffer cannot be read or written";
	case SN_ERR_ACCESS: return "remote access not allowed";
	case SN_ERR_PROTO: return "the peer broke the protocol";
	case SN_ERR_PERM: return "refused by the system";
	case SN_ERR_UNSUPPORTED: return "not supported here";
	case SN_ERR_FORKED: return "the endpoint belongs to the parent process";
	default: return "unknown error";
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors: the handlers, the texts, and what sennit's codes are in MX. */
#include "mx.h"
#include <stdio.h>
#include <stdlib.h>

static mx_return_t fatal(char *reason, mx_return_t code)
{
	fprintf(stderr, "MX: %s: %s\n", reason, mx_strerror(code));
	exit(1);
}

static mx_return_t return_it(char *reason, mx_return_t code)
{
	return code;
}

const mx_error_handler_t MX_ERRORS_ARE_FATAL = fatal;
const mx_error_handler_t MX_ERRORS_RETURN = return_it;

static _Atomic(mx_error_handler_t) process_handler = fatal;

mx_error_handler_t mx_set_error_handler(mx_error_handler_t handler)
{
	return atomic_exchange(&process_handler, handler ? handler : fatal);
}

mx_return_t mx_tell(const struct mx_endpoint *ep, mx_return_t code, int noted)
{
	char reason[256];
	snprintf(reason, sizeof(reason), "%s", sn_last_error());
	return ep && ep->on_error ? ep->on_error(reason, code) : atomic_load(&process_handler)(reason, code);
}

mx_return_t mx_of_error(int error)
{
	switch (error) {
	case SN_ERR_NOMEM: return MX_NO_RESOURCES;
	case SN_ERR_INVALID: return MX_BAD_SEG_MEM; /* nothing else is wrong in what gets there */
	case SN_ERR_FORKED: return MX_BAD_ENDPOINT;
	case SN_ERR_PERM: return MX_NO_PERM;
	default: return MX_FAILURE;
	}
}

mx_status_code_t mx_of_status(int sn_status, bool far)
{
	switch (sn_status) {
	case SN_OK: return MX_STATUS_SUCCESS;
	case SN_ERR_TRUNCATED: return MX_STATUS_TRUNCATED;
	case SN_ERR_CANCELED: return MX_STATUS_CANCELLED;
	case SN_ERR_PEER_GONE: return far ? MX_STATUS_ENDPOINT_UNREACHABLE : MX_STATUS_ENDPOINT_CLOSED;
	case SN_ERR_NOMEM: return MX_STATUS_NO_RESOURCES;
	case SN_ERR_FAULT: return MX_STATUS_REJECTED;
	default: return MX_STATUS_ABORTED;
	}
}

const char *mx_strerror(mx_return_t code)
{
	static const char *const texts[] = {
		[MX_SUCCESS] = "success",
		[MX_BAD_BAD_BAD] = "internal error",
		[MX_FAILURE] = "failure",
		[MX_ALREADY_INITIALIZED] = "the library is already initialized",
		[MX_NOT_INITIALIZED] = "the library is not initialized",
		[MX_NO_DEV] = "no device",
		[MX_NO_DRIVER] = "no driver",
		[MX_NO_PERM] = "permission denied",
		[MX_BOARD_UNKNOWN] = "no such board",
		[MX_BAD_ENDPOINT] = "not an open endpoint",
		[MX_BAD_SEG_LIST] = "bad list of segments",
		[MX_BAD_SEG_MEM] = "bad memory in a segment",
		[MX_BAD_SEG_CNT] = "too many segments",
		[MX_BAD_REQUEST] = "bad request",
		[MX_BAD_MATCH_MASK] = "match bits outside the mask",
		[MX_NO_RESOURCES] = "out of resources",
		[MX_BAD_ADDR_LIST] = "bad list of addresses",
		[MX_BAD_ADDR_COUNT] = "bad count of addresses",
		[MX_BAD_ROOT] = "bad root of a broadcast",
		[MX_NOT_COMPLETED] = "operations have not completed yet",
		[MX_BUSY] = "busy",
		[MX_BAD_INFO_KEY] = "no such information",
		[MX_BAD_INFO_VAL] = "bad place for the information",
		[MX_BAD_NIC] = "not the number of a NIC",
		[MX_BAD_PARAM_LIST] = "bad list of parameters",
		[MX_BAD_PARAM_NAME] = "no such parameter",
		[MX_BAD_PARAM_VAL] = "bad value of a parameter",
		[MX_BAD_HOSTNAME_ARGS] = "bad host name",
		[MX_HOST_NOT_FOUND] = "host not found",
		[MX_REQUEST_PENDING] = "the request is pending",
		[MX_TIMEOUT] = "timed out",
		[MX_NO_MATCH] = "no match",
		[MX_BAD_ENDPOINT_ID] = "no such endpoint number",
		[MX_CONNECTION_FAILED] = "connection failed: nobody has this endpoint open",
		[MX_BAD_CONNECTION_KEY] = "connection refused: another key",
		[MX_BAD_INFO_LENGTH] = "too little room for the information",
		[MX_NIC_NOT_FOUND] = "NIC not found",
		[MX_BAD_KERNEL_VERSION] = "another version of the kernel's side",
		[MX_BAD_LIB_VERSION] = "the program was compiled for another version of the interface",
		[MX_NIC_DEAD] = "the NIC has died",
		[MX_CANCEL_NOT_SUPPORTED] = "this kind of request cannot be cancelled",
		[MX_CLOSE_IN_HANDLER] = "an endpoint cannot be closed in its handler",
		[MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK] = "the mask leaves the context id open",
		[MX_NOT_SUPPORTED_WITH_CONTEXT_ID] = "not with context ids",
	};
	return (unsigned)code < sizeof(texts) / sizeof(texts[0]) ? texts[code] : "not a code of MX";
}

const char *mx_strstatus(mx_status_code_t code)
{
	static const char *const texts[] = {
		[MX_STATUS_SUCCESS] = "success",
		[MX_STATUS_PENDING] = "pending",
		[MX_STATUS_BUFFERED] = "buffered",
		[MX_STATUS_REJECTED] = "failed: memory that cannot be read or written",
		[MX_STATUS_TIMEOUT] = "timed out",
		[MX_STATUS_TRUNCATED] = "truncated: the message is longer than the receive",
		[MX_STATUS_CANCELLED] = "cancelled",
		[MX_STATUS_ENDPOINT_UNKNOWN] = "the other side's NIC is unknown",
		[MX_STATUS_ENDPOINT_CLOSED] = "the other side's endpoint is closed",
		[MX_STATUS_ENDPOINT_UNREACHABLE] = "the other side cannot be reached",
		[MX_STATUS_BAD_SESSION] = "not connected",
		[MX_STATUS_BAD_KEY] = "the connection was refused: another key",
		[MX_STATUS_BAD_ENDPOINT] = "no such endpoint number",
		[MX_STATUS_BAD_RDMAWIN] = "bad window",
		[MX_STATUS_ABORTED] = "aborted by the other side",
		[MX_STATUS_EVENTQ_FULL] = "event queue full",
		[MX_STATUS_NO_RESOURCES] = "out of resources",
	};
	return (unsigned)code < sizeof(texts) / sizeof(texts[0]) ? texts[code] : "not a status of MX";
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_get_info(): what programs ask of the machine, and the counters of an endpoint. */
#include "base/conf.h"
#include "mx.h"
#include <stdio.h>
#include <string.h>

struct counters {
	uint32_t count;
	char *labels;	  /* MX_MAX_STR_LEN bytes each, or NULL */
	uint32_t *values; /* or NULL */
};

static void take_counter(void *arg, const char *name, uint64_t value)
{
	struct counters *c = arg;
	if (c->labels)
		snprintf(c->labels + (size_t)c->count * MX_MAX_STR_LEN, MX_MAX_STR_LEN, "%s", name);
	if (c->values)
		c->values[c->count] = (uint32_t)value;
	c->count++;
}

static uint32_t count_counters(struct mx_endpoint *ep)
{
	struct counters c = {0};
	if (ep)
		sn_counters(ep->sn, take_counter, &c);
	return c.count;
}

static uint32_t number_of(struct mx_endpoint *ep, mx_get_info_key_t key)
{
	switch (key) {
	case MX_NIC_COUNT:
	case MX_PORT_COUNT: return 1;
	case MX_MAX_NATIVE_ENDPOINTS: return MX_ENDPOINTS;
	case MX_NATIVE_REQUESTS: return UINT32_MAX;
	case MX_COUNTERS_COUNT: return count_counters(ep);
	case MX_PIO_SEND_MAX: return SN_INJECT_MAX;
	case MX_COPY_SEND_MAX: return (uint32_t)sn_conf_num(SN_CONF_EAGER);
	case MX_NUMA_NODE: return 0;
	case MX_NET_TYPE: return MX_NET_ETHER;
	case MX_LINE_SPEED: return MX_SPEED_10G;
	default: return 0;
	}
}

/* What there is to say takes this many bytes; 0: no such key. */
static size_t room_for(struct mx_endpoint *ep, mx_get_info_key_t key)
{
	switch (key) {
	case MX_NIC_IDS: return 2 * sizeof(uint64_t);
	case MX_COUNTERS_LABELS: return (size_t)count_counters(ep) * MX_MAX_STR_LEN;
	case MX_COUNTERS_VALUES: return count_counters(ep) * sizeof(uint32_t);
	case MX_PRODUCT_CODE:
	case MX_PART_NUMBER:
	case MX_SERIAL_NUMBER: return sizeof("sennit");
	default: return sizeof(uint32_t);
	}
}

mx_return_t mx_get_info(mx_endpoint_t ep, mx_get_info_key_t key, void *in, uint32_t in_len, void *out,
			uint32_t out_len)
{
	const uint64_t nics[2] = {mx_host_nic(), 0};
	struct counters c = {0};
	uint32_t number;
	if (!ep && !mx_is_open())
		return mx_fail(NULL, MX_NOT_INITIALIZED, "mx_get_info");
	if (key < MX_NIC_COUNT || key > MX_LINE_SPEED)
		return mx_fail(ep, MX_BAD_INFO_KEY, "mx_get_info: %d", (int)key);
	if (!out)
		return mx_fail(ep, MX_BAD_INFO_VAL, "mx_get_info: no place for it");
	if (out_len < room_for(ep, key))
		return mx_fail(ep, MX_BAD_INFO_LENGTH, "mx_get_info: %u bytes of %zu", out_len,
			       room_for(ep, key));
	switch (key) {
	case MX_NIC_IDS: memcpy(out, nics, sizeof(nics)); break;
	case MX_COUNTERS_LABELS:
	case MX_COUNTERS_VALUES:
		c.labels = key == MX_COUNTERS_LABELS ? out : NULL;
		c.values = key == MX_COUNTERS_VALUES ? out : NULL;
		if (ep)
			sn_counters(ep->sn, take_counter, &c);
		break;
	case MX_PRODUCT_CODE:
	case MX_PART_NUMBER:
	case MX_SERIAL_NUMBER: memcpy(out, "sennit", sizeof("sennit")); break;
	default: number = number_of(ep, key); memcpy(out, &number, sizeof(number));
	}
	return MX_SUCCESS;
}

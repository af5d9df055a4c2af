/* SPDX-License-Identifier: BSD-3-Clause */
/* What fi_getinfo promises and refuses, asked through the machine's own libfabric. */
#if __has_include(<rdma/fabric.h>)
#include "ofi_pair.h"

/* FI_MR_BASIC and FI_MR_SCALABLE, as programs from before libfabric 1.5 have them compiled in */
enum { OLD_BASIC = 1, OLD_SCALABLE = 2 };

#define V(minor) FI_VERSION(1, minor)

static int ask(uint32_t version, const char *node, uint64_t flags, const struct fi_info *h,
	       struct fi_info **out)
{
	*out = NULL;
	return lf.getinfo(version, node, NULL, flags, h, out);
}

/* Does this change to otherwise empty hints make the provider refuse? */
#define REFUSED(version, change)                                                                             \
	do {                                                                                                 \
		struct fi_info *h = lf.dupinfo(NULL), *out;                                                  \
		change;                                                                                      \
		assert_int_equal(ask(version, NULL, 0, h, &out), -FI_ENODATA);                               \
		lf.freeinfo(h);                                                                              \
	} while (0)

static void an_answer_without_hints_offers_everything(void **state)
{
	const uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ |
			      FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_DIRECTED_RECV |
			      FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM;
	struct fi_info *i;

	assert_int_equal(ask(V(17), NULL, 0, NULL, &i), 0);
	assert_string_equal(i->fabric_attr->prov_name, "sennit");
	assert_true((i->caps & caps) == caps);
	assert_false(i->caps & (FI_HMEM | FI_COLLECTIVE | FI_TRIGGER));
	assert_int_equal(i->mode, 0);
	assert_int_equal(i->ep_attr->type, FI_EP_RDM);
	assert_true(i->ep_attr->mem_tag_format == UINT64_MAX);
	assert_true(i->ep_attr->max_msg_size >= (size_t)1 << 62);
	assert_int_equal(i->domain_attr->mr_mode, 0);
	assert_int_equal(i->domain_attr->cq_data_size, 8);
	assert_int_equal(i->domain_attr->mr_key_size, 8);
	assert_true(i->tx_attr->inject_size >= 4096);
	assert_true(i->tx_attr->iov_limit >= 4);
	assert_true(i->tx_attr->msg_order & FI_ORDER_SAS);
	assert_int_equal(i->src_addrlen, ADDR_LEN);
	struct fi_info *copy = lf.dupinfo(i); /* copies the host's idea of the structures' lengths */
	assert_non_null(copy);
	lf.freeinfo(copy);
	lf.freeinfo(i);
}

static void free_choices_are_echoed(void **state)
{
	struct fi_info *h = lf.dupinfo(NULL), *i;

	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->av_type = FI_AV_MAP;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->ep_attr->mem_tag_format = 0x5555;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
	assert_int_equal(ask(V(5), NULL, 0, h, &i), 0);
	assert_int_equal(i->domain_attr->threading, FI_THREAD_DOMAIN);
	assert_int_equal(i->domain_attr->av_type, FI_AV_MAP);
	assert_int_equal(i->domain_attr->control_progress, FI_PROGRESS_MANUAL);
	assert_int_equal(i->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	assert_int_equal(i->ep_attr->mem_tag_format, 0x5555);
	assert_true(i->tx_attr->op_flags == (FI_DELIVERY_COMPLETE | FI_COMPLETION));
	lf.freeinfo(i);
	lf.freeinfo(h);
}

static void only_the_capabilities_asked_for_are_given(void **state)
{
	struct fi_info *h = lf.dupinfo(NULL), *i;

	h->caps = FI_TAGGED;
	assert_int_equal(ask(V(17), NULL, 0, h, &i), 0);
	assert_true((i->caps & (FI_TAGGED | FI_SEND | FI_RECV)) == (FI_TAGGED | FI_SEND | FI_RECV));
	assert_false(i->caps & (FI_MSG | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV));
	assert_false(i->tx_attr->caps & ~i->caps);
	assert_false(i->rx_attr->caps & ~i->caps);
	lf.freeinfo(i);
	h->caps = FI_RMA | FI_WRITE;
	assert_int_equal(ask(V(17), NULL, 0, h, &i), 0);
	assert_true(i->caps & FI_WRITE);
	assert_false(i->caps & (FI_READ | FI_REMOTE_READ));
	lf.freeinfo(i);
	lf.freeinfo(h);
}

static void what_is_not_offered_is_refused(void **state)
{
	REFUSED(V(17), h->ep_attr->type = FI_EP_MSG); /* or rxm would be layered on top */
	REFUSED(V(17), h->ep_attr->type = FI_EP_DGRAM);
	REFUSED(V(17), h->caps = FI_MSG | FI_HMEM);
	REFUSED(V(17), h->caps = FI_COLLECTIVE);
	REFUSED(V(17), h->addr_format = FI_SOCKADDR_IN);
	REFUSED(V(17), h->domain_attr->data_progress = FI_PROGRESS_AUTO);
	REFUSED(V(17), h->domain_attr->cq_data_size = 16);
	REFUSED(V(17), h->domain_attr->name = strdup("eth0"));
	REFUSED(V(17), h->tx_attr->inject_size = 1 << 20);
	REFUSED(V(17), h->tx_attr->iov_limit = 64);
	REFUSED(V(17), h->tx_attr->op_flags = FI_COMMIT_COMPLETE);
	REFUSED(V(17), h->tx_attr->msg_order = FI_ORDER_SAW);
	REFUSED(V(17), h->ep_attr->tx_ctx_cnt = 2);
	REFUSED(V(17), h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT);
	REFUSED(V(17), h->ep_attr->msg_prefix_size = 16);
	REFUSED(V(17), h->domain_attr->mr_mode = OLD_BASIC | FI_MR_VIRT_ADDR);
	REFUSED(V(4), h->domain_attr->mr_mode = FI_MR_VIRT_ADDR); /* these bits came with 1.5 */
}

static int mr_mode_of(uint32_t version, int asked)
{
	struct fi_info *h = lf.dupinfo(NULL), *i;
	int mode;

	h->domain_attr->mr_mode = asked;
	assert_int_equal(ask(version, NULL, 0, h, &i), 0);
	mode = i->domain_attr->mr_mode;
	lf.freeinfo(i);
	lf.freeinfo(h);
	return mode;
}

static void registration_modes_follow_the_hints_and_the_version(void **state)
{
	const int basic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

	assert_int_equal(mr_mode_of(V(17), 0), 0);
	assert_int_equal(mr_mode_of(V(5), basic), basic);
	assert_int_equal(mr_mode_of(V(17), basic | FI_MR_ENDPOINT | FI_MR_LOCAL | FI_MR_HMEM), basic);
	assert_int_equal(mr_mode_of(V(17), OLD_BASIC), OLD_BASIC);
	assert_int_equal(mr_mode_of(V(4), 0), OLD_SCALABLE);
	assert_int_equal(mr_mode_of(V(4), OLD_BASIC), OLD_BASIC);
}

static void a_node_is_an_address_a_host_or_nothing(void **state)
{
	char text[10 + 2 * ADDR_LEN] = "sennit://";
	struct fi_info *i;

	for (int at = 0; at < ADDR_LEN; at++)
		sprintf(text + 9 + 2 * at, "%02x", at == 0 ? 'S' : at == 1 ? 'N' : at);
	assert_int_equal(ask(V(17), text, 0, NULL, &i), 0);
	assert_int_equal(i->dest_addrlen, ADDR_LEN);
	assert_int_equal(((uint8_t *)i->dest_addr)[63], 63);
	lf.freeinfo(i);
	text[20] = 'x';
	assert_int_equal(ask(V(17), text, FI_NUMERICHOST, NULL, &i), -FI_ENODATA);
	assert_int_equal(ask(V(17), "127.0.0.1", FI_NUMERICHOST, NULL, &i), 0);
	lf.freeinfo(i);
	assert_int_equal(ask(V(17), "not a host", FI_NUMERICHOST, NULL, &i), -FI_ENODATA);
	assert_int_equal(ask(V(17), "127.0.0.1", FI_SOURCE, NULL, &i), 0);
	assert_null(i->dest_addr);
	lf.freeinfo(i);
}

static void an_answer_works_as_hints(void **state)
{
	struct fi_info *i, *again;

	assert_int_equal(ask(V(17), NULL, 0, NULL, &i), 0);
	assert_int_equal(ask(V(17), NULL, 0, i, &again), 0);
	assert_true(again->caps == i->caps);
	lf.freeinfo(again);
	((uint8_t *)i->src_addr)[5] = 1; /* nobody can ask for an address */
	assert_int_equal(ask(V(17), NULL, 0, i, &again), -FI_ENODATA);
	lf.freeinfo(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_without_hints_offers_everything),
		cmocka_unit_test(free_choices_are_echoed),
		cmocka_unit_test(only_the_capabilities_asked_for_are_given),
		cmocka_unit_test(what_is_not_offered_is_refused),
		cmocka_unit_test(registration_modes_follow_the_hints_and_the_version),
		cmocka_unit_test(a_node_is_an_address_a_host_or_nothing),
		cmocka_unit_test(an_answer_works_as_hints),
	};
	int rc = ofi_load();

	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "ofi_missing.h"
#endif

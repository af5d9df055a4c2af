/* SPDX-License-Identifier: BSD-3-Clause */
/* Life cycle, names, addresses, and what a program may do wrong. */
#include "mx_test.h"
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static mx_return_t told;

static mx_return_t tell(char *reason, mx_return_t code)
{
	CHECK(reason && *reason);
	told = code;
	return code;
}

/* The call must return this, and the handler must have heard of it first. */
#define WRONG(call, code)                                                                                    \
	do {                                                                                                 \
		told = MX_SUCCESS;                                                                           \
		CHECK((call) == code);                                                                       \
		CHECK(told == code);                                                                         \
	} while (0)

static void life(void)
{
	mx_endpoint_t ep;
	uint64_t nic;
	CHECK(mx_set_error_handler(tell) == MX_ERRORS_ARE_FATAL);
	WRONG(mx_open_endpoint(0, 0, KEY, NULL, 0, &ep), MX_NOT_INITIALIZED);
	WRONG(mx_board_number_to_nic_id(0, &nic), MX_NOT_INITIALIZED);
	WRONG(mx_finalize(), MX_NOT_INITIALIZED);
	WRONG(mx__init_api(0x201), MX_BAD_LIB_VERSION);
	OK(mx_init());
	WRONG(mx_init(), MX_ALREADY_INITIALIZED);
	ep = open_any();
	WRONG(mx_finalize(), MX_BUSY);
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
	OK(mx_init());
	OK(mx_finalize());
	CHECK(mx_set_error_handler(MX_ERRORS_RETURN) == tell);
}

static void open_wrongly(void)
{
	mx_endpoint_t ep, second;
	mx_param_t p = {.key = MX_PARAM_CONTEXT_ID, .val.context_id = {.bits = 17}};
	mx_param_t own[2] = {{.key = MX_PARAM_ERROR_HANDLER, .val.error_handler = tell},
			     {.key = MX_PARAM_UNEXP_QUEUE_MAX, .val.unexp_queue_max = 1 << 20}};
	uint64_t nic;
	uint32_t id;
	OK(mx_init());
	mx_set_error_handler(tell);
	WRONG(mx_open_endpoint(1, MX_ANY_ENDPOINT, KEY, NULL, 0, &ep), MX_BOARD_UNKNOWN);
	WRONG(mx_open_endpoint(0, 1 << 20, KEY, NULL, 0, &ep), MX_BAD_ENDPOINT_ID);
	WRONG(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 1, &ep), MX_BAD_PARAM_LIST);
	WRONG(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, &p, 1, &ep), MX_BAD_PARAM_VAL);
	p.val.context_id.bits = 10;
	p.val.context_id.shift = 60;
	WRONG(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, &p, 1, &ep), MX_BAD_PARAM_VAL);
	p.key = (mx_param_key_t)77;
	WRONG(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, &p, 1, &ep), MX_BAD_PARAM_NAME);
	WRONG(mx_close_endpoint(NULL), MX_BAD_ENDPOINT);
	mx_set_error_handler(MX_ERRORS_ARE_FATAL);
	OK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, own, 2, &ep)); /* with a handler of its own */
	OK(mx_decompose_endpoint_addr(own_addr(ep), &nic, &id));
	WRONG(mx_irecv(ep, NULL, 1, 0, 0, NULL, NULL), MX_BAD_SEG_LIST);
	mx_set_error_handler(tell);
	WRONG(mx_open_endpoint(0, id, KEY, NULL, 0, &second), MX_BUSY);
	OK(mx_close_endpoint(ep));
	second = open_again(id);
	OK(mx_close_endpoint(second));
	OK(mx_finalize());
}

static void post_wrongly(void)
{
	static mx_segment_t segs[MX_MAX_SEGMENTS + 1];
	mx_request_t r = NULL;
	mx_status_t st;
	uint32_t result = 7;
	OK(mx_init());
	mx_endpoint_t ep = open_any();
	mx_endpoint_addr_t self = own_addr(ep), nobody = {{0, 0}};
	mx_set_error_handler(tell);
	WRONG(mx_isend(NULL, segs, 1, self, 0, NULL, &r), MX_BAD_ENDPOINT);
	WRONG(mx_isend(ep, NULL, 1, self, 0, NULL, &r), MX_BAD_SEG_LIST);
	WRONG(mx_isend(ep, segs, MX_MAX_SEGMENTS + 1, self, 0, NULL, &r), MX_BAD_SEG_CNT);
	segs[0].segment_length = 5;
	WRONG(mx_issend(ep, segs, 1, self, 0, NULL, &r), MX_BAD_SEG_MEM);
	WRONG(mx_irecv(ep, segs, 1, 0, 0, NULL, &r), MX_BAD_SEG_MEM);
	WRONG(mx_irecv(ep, segs + 1, 1, 5, 1, NULL, &r), MX_BAD_MATCH_MASK);
	WRONG(mx_iprobe(ep, 5, 1, &st, &result), MX_BAD_MATCH_MASK);
	CHECK(!result);
	WRONG(mx_wait_any(ep, 1, 5, 1, &st, &result), MX_BAD_MATCH_MASK);
	WRONG(mx_test(ep, &r, &st, &result), MX_BAD_REQUEST);
	WRONG(mx_cancel(ep, NULL, &result), MX_BAD_REQUEST);
	WRONG(mx_forget(ep, &r), MX_BAD_REQUEST);
	OK(mx_isend(ep, segs + 1, 1, nobody, 3, NULL, &r));
	CHECK(finish(ep, r).code == MX_STATUS_BAD_SESSION);
	mx_endpoint_t second = open_any();
	r = isend(ep, self, NULL, 0, 3);
	WRONG(mx_test(second, &r, &st, &result), MX_BAD_REQUEST); /* another endpoint's */
	finish_well(ep, r);
	OK(mx_isend(second, segs + 1, 1, self, 3, NULL, &r)); /* an address that it has not connected */
	CHECK(finish(second, r).code == MX_STATUS_BAD_SESSION);
	OK(mx_close_endpoint(second));
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
}

/* A handler may make nothing of an error: then the call has done nothing all the same. */
static mx_return_t make_nothing(char *reason, mx_return_t code)
{
	return MX_SUCCESS;
}

static void lenient(void)
{
	mx_endpoint_t ep = NULL;
	mx_endpoint_addr_t addr;
	mx_status_t st;
	uint64_t nic;
	uint32_t id, result = 7;
	OK(mx_init());
	mx_set_error_handler(make_nothing);
	CHECK(mx_open_endpoint(7, 0, KEY, NULL, 0, &ep) == MX_SUCCESS && !ep);
	CHECK(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 1, &ep) == MX_SUCCESS && !ep);
	ep = open_any();
	CHECK(mx_wait_any(ep, MX_INFINITE, 2, 1, &st, &result) == MX_SUCCESS && !result);
	OK(mx_decompose_endpoint_addr(own_addr(ep), &nic, &id));
	CHECK(mx_connect(ep, 1, id, KEY, MX_INFINITE, &addr) == MX_SUCCESS);
	CHECK(mx_connect(ep, nic, id, KEY + 1, MX_INFINITE, &addr) == MX_SUCCESS);
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
}

/* In a forked child the endpoint is the parent's: nothing comes there, and nobody waits for it. */
static void forked(void)
{
	mx_status_t st;
	uint32_t result = 7;
	int status;
	OK(mx_init());
	mx_endpoint_t ep = open_any();
	mx_request_t r = irecv(ep, NULL, 0, 1, MX_MATCH_MASK_NONE);
	pid_t pid = fork();
	if (pid == 0) {
		OK(mx_wait(ep, &r, MX_INFINITE, &st, &result));
		_exit(result ? 1 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	mx_request_t s = isend(ep, own_addr(ep), NULL, 0, 1);
	finish_well(ep, r);
	finish_well(ep, s);
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
}

/* By default a program that does something wrong ends, and says why. */
static void fatal(void)
{
	char text[200] = "";
	int ends[2], status;
	CHECK(pipe(ends) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], 2);
		mx_finalize();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
	CHECK(read(ends[0], text, sizeof(text) - 1) > 0 && strstr(text, "mx_finalize"));
}

static void naming(void)
{
	char host[MX_MAX_HOSTNAME_LEN], text[3 * MX_MAX_HOSTNAME_LEN];
	uint64_t nic, other, ids[2];
	uint32_t board = 9, id, session, number;
	OK(mx_init());
	mx_set_error_handler(tell);
	OK(mx_board_number_to_nic_id(0, &nic));
	OK(mx_nic_id_to_board_number(nic, &board));
	CHECK(nic && nic >> 48 == 0 && board == 0);
	WRONG(mx_board_number_to_nic_id(1, &other), MX_BOARD_UNKNOWN);
	WRONG(mx_nic_id_to_board_number(nic + 1, &board), MX_BOARD_UNKNOWN);
	OK(mx_nic_id_to_hostname(nic, host));
	OK(mx_hostname_to_nic_id(host, &other));
	CHECK(other == nic);
	snprintf(text, sizeof(text), "%s:0", host);
	OK(mx_hostname_to_nic_id(text, &other));
	CHECK(other == nic);
	OK(mx_hostname_to_nic_id("localhost", &other));
	CHECK(other == nic);
	OK(mx_hostname_to_nic_id("192.0.2.7", &other));
	CHECK(other != nic);
	OK(mx_nic_id_to_hostname(other, host));
	WRONG(mx_hostname_to_nic_id("192.0.2.7:3", &other), MX_HOST_NOT_FOUND);
	WRONG(mx_hostname_to_nic_id("", &other), MX_BAD_HOSTNAME_ARGS);
	WRONG(mx_nic_id_to_hostname(1, host), MX_NIC_NOT_FOUND);
	OK(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &number, sizeof(number)));
	OK(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, sizeof(ids)));
	CHECK(number == 1 && ids[0] == nic && ids[1] == 0);
	WRONG(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, 8), MX_BAD_INFO_LENGTH);
	WRONG(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, NULL, 8), MX_BAD_INFO_VAL);
	WRONG(mx_get_info(NULL, (mx_get_info_key_t)99, NULL, 0, ids, 8), MX_BAD_INFO_KEY);
	mx_endpoint_t ep = open_any();
	OK(mx_decompose_endpoint_addr2(own_addr(ep), &other, &id, &session));
	OK(mx_get_info(ep, MX_MAX_NATIVE_ENDPOINTS, NULL, 0, &number, sizeof(number)));
	CHECK(other == nic && id < number);
	OK(mx_get_info(ep, MX_COUNTERS_COUNT, NULL, 0, &number, sizeof(number)));
	char *labels = malloc((size_t)number * MX_MAX_STR_LEN);
	OK(mx_get_info(ep, MX_COUNTERS_LABELS, NULL, 0, labels, number * MX_MAX_STR_LEN));
	CHECK(number > 10 && strcmp(labels, "core.sends") == 0);
	free(labels);
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
}

static void address_context(void)
{
	mx_endpoint_addr_t a, b, anew;
	uint64_t nic = 0, nic_of_two;
	uint32_t id, before, after;
	void *context = &a;
	OK(mx_init());
	mx_endpoint_t one = open_any(), two = open_any();
	OK(mx_decompose_endpoint_addr2(own_addr(two), &nic_of_two, &id, &before));
	OK(mx_connect(one, nic_of_two, id, KEY, MX_INFINITE, &a));
	OK(mx_connect(one, nic_of_two, id, KEY, MX_INFINITE, &b));
	CHECK(memcmp(&a, &b, sizeof(a)) == 0); /* the same */
	OK(mx_get_endpoint_addr_context(a, &context));
	CHECK(context == NULL);
	OK(mx_set_endpoint_addr_context(a, &nic));
	/* of a message, too; and two's own address is another one's */
	mx_request_t s = isend(one, a, &nic, 8, 1);
	b = finish_well(two, irecv(two, &nic, 8, 1, 1)).source;
	finish_well(one, s);
	OK(mx_set_endpoint_addr_context(b, &id));
	s = isend(two, b, &nic, 8, 2);
	b = finish_well(one, irecv(one, &nic, 8, 2, 2)).source;
	finish_well(two, s);
	OK(mx_get_endpoint_addr_context(b, &context));
	CHECK(context == &nic && memcmp(&a, &b, sizeof(a)) == 0);
	/* disconnected, and connected again */
	OK(mx_disconnect(one, a));
	CHECK(finish(one, isend(one, a, &nic, 8, 1)).code == MX_STATUS_BAD_SESSION);
	OK(mx_connect(one, nic_of_two, id, KEY, MX_INFINITE, &b));
	finish_well(one, isend(one, a, &nic, 8, 3));
	finish_well(two, irecv(two, &nic, 8, 3, 3));
	/* opened anew by the same number: another session, and the old address stays the old one's */
	OK(mx_close_endpoint(two));
	two = open_again(id);
	OK(mx_connect(one, nic_of_two, id, KEY, MX_INFINITE, &anew));
	OK(mx_decompose_endpoint_addr2(anew, &nic, &id, &after));
	CHECK(before != after && memcmp(&anew, &a, sizeof(a)) != 0);
	CHECK(finish(one, issend(one, a, &nic, 8, 1)).code == MX_STATUS_ENDPOINT_CLOSED);
	OK(mx_close_endpoint(one));
	OK(mx_close_endpoint(two));
	OK(mx_finalize());
}

/* Whoever says nonsense to the sockets of an endpoint, or comes by TCP from this host, is not answered. */
static void intrude(int fd, const void *where, socklen_t len, size_t bytes)
{
	char junk[200];
	memset(junk, 'S', sizeof(junk));
	CHECK(fd >= 0 && connect(fd, where, len) == 0);
	(void)!send(fd, junk, bytes, MSG_NOSIGNAL);
	if (bytes < 96)
		shutdown(fd, SHUT_WR);
	CHECK(recv(fd, junk, sizeof(junk), 0) <= 0);
	close(fd);
}

static void strangers(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	mx_endpoint_addr_t addr;
	uint64_t nic;
	uint32_t id;
	OK(mx_init());
	mx_endpoint_t ep = open_any();
	OK(mx_decompose_endpoint_addr(own_addr(ep), &nic, &id));
	int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "sennit-mx-%u", id);
	in.sin_port = htons((uint16_t)(29952 + id));
	for (size_t bytes = 0; bytes <= 200; bytes += 50) {
		intrude(socket(AF_UNIX, SOCK_STREAM, 0), &un,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n), bytes);
		intrude(socket(AF_INET, SOCK_STREAM, 0), &in, sizeof(in), bytes);
	}
	OK(mx_connect(ep, nic, id, KEY, MX_INFINITE, &addr));
	OK(mx_close_endpoint(ep));
	OK(mx_finalize());
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{"life", life},
		{"open_wrongly", open_wrongly},
		{"post_wrongly", post_wrongly},
		{"lenient", lenient},
		{"forked", forked},
		{"fatal", fatal},
		{"naming", naming},
		{"address_context", address_context},
		{"strangers", strangers},
		{NULL, NULL},
	};
	return run_tests(tests, argc, argv);
}

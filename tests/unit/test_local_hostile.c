/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that lie: random bytes and almost valid records in the ring, nonsense in the head, nonsense in the handshake. The
 * victim disconnects them, counts it, and goes on with others. Run with -fsanitize=address,undefined this is the test
 * that nothing of theirs is used before it is checked.
 */
#include "local/local.h"
#include "local_dial.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- the ring ------------------------------------------------------------------------------------------------ */

static uint64_t random64(uint32_t *seed)
{
	return (uint64_t)next_random(seed) << 40 ^ (uint64_t)next_random(seed) << 20 ^ next_random(seed);
}

/* A record that is wrong in few places, or in none. */
static void write_odd(struct sn_link *link, uint32_t *seed)
{
	static const uint8_t types[] = {SN_REC_MSG,  SN_REC_RTS, SN_REC_FIN,   SN_REC_CTS, SN_REC_DATA,
					SN_REC_DONE, SN_REC_PAD, SN_REC_CLAIM, 0x90};
	uint32_t cells = 1 + next_random(seed) % 8;
	struct sn_cell *cell = sn_tx_room(&link->tx, cells);
	if (!cell)
		return;
	uint8_t *payload = sn_cell_payload(cell);
	uint32_t room = cells * SN_CELL - SN_REC_HEAD;
	for (uint32_t i = 0; i < room; i++)
		payload[i] = next_random(seed) % 3 ? 0 : (uint8_t)next_random(seed);
	uint32_t len = room - next_random(seed) % SN_CELL;
	uint32_t type = types[next_random(seed) % sizeof(types)];
	uint32_t imm = next_random(seed) % 4 ? 0 : next_random(seed) % 80;
	if (type == SN_REC_RTS && next_random(seed) % 2) {
		struct sn_rec_rts rts = {.len = random64(seed) % 100000, .id = next_random(seed) % 4};
		rts.seg_count = next_random(seed) % 8;
		len = (uint32_t)(sizeof(rts) + ((imm + 7u) & ~7u) +
				 rts.seg_count * sizeof(struct sn_rec_seg));
		len = SN_MIN_OF(len, room);
		memcpy(payload, &rts, sizeof(rts));
	}
	if (type == SN_REC_CTS && next_random(seed) % 2) {
		struct sn_rec_cts cts = {.len = 1 + next_random(seed) % 1000,
					 .seg_count = next_random(seed) % 300};
		memcpy(payload, &cts, SN_MIN_OF(sizeof(cts), (size_t)room));
	}
	if (type == SN_REC_MSG || type == SN_REC_RTS)
		type |= 1 + next_random(seed) % 8;
	if (type == SN_REC_MSG + 1u)
		len -= SN_MIN_OF(imm, len);
	cell->len = (len & SN_REC_BODY_MAX) | imm << 24;
	cell->bits = next_random(seed) % 2 ? (uint64_t)1 << 32 | next_random(seed) % 4 : random64(seed);
	cell->data = next_random(seed) % 2 ? next_random(seed) % 4096 : random64(seed);
	sn_tx_publish(&link->tx, type, next_random(seed) & 0xff,
		      next_random(seed) % 8 ? cells : next_random(seed));
}

static void write_noise(struct sn_link *link, uint32_t *seed)
{
	uint8_t *at = (uint8_t *)&link->tx.cells[link->tx.tail & (link->tx.count - 1)];
	uint8_t *limit = (uint8_t *)(link->tx.cells + link->tx.count);
	for (uint32_t i = 0; i < 4096 && at < limit; i++)
		*at++ = (uint8_t)next_random(seed);
}

static void liar(int sock)
{
	settings();
	uint32_t seed = plan.seed;
	struct sn_ep *ep = side_open();
	ep->unchecked = true;
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	CHECK(side_send(peer, 100, false, 1) == 1);
	/* announced messages of the victim that the lies may hit */
	while (!peer->gone && peer->arrived < 3)
		side_progress(ep);
	struct sn_link *link = peer->link;
	if (plan.percent == 2) {
		atomic_store(&link->rx.chan->head, random64(&seed)); /* before anybody counts on it */
		send(sock, "l", 1, MSG_NOSIGNAL); /* the victim may have had enough and be gone */
		while (recv(sock, &(char){0}, 1, MSG_DONTWAIT) < 0) /* until the victim is through */
			atomic_store(&link->rx.chan->head, random64(&seed));
		_exit(0);
	}
	for (int i = 0; i < 200 && !peer->gone; i++) {
		if (plan.percent == 0)
			write_odd(link, &seed);
		else
			write_noise(link, &seed);
		side_progress(ep);
	}
	if (!peer->gone)
		atomic_store(&link->rx.chan->want_room, 77);
	send(sock, "l", 1, MSG_NOSIGNAL); /* the victim may have had enough and be gone */
	while (!peer->gone)
		side_progress(ep);
	_exit(0); /* without closing: what it holds is beyond repair */
}

static void face_a_liar(uint32_t how, uint32_t seed)
{
	int sock;
	plan = (struct plan){.seed = seed, .percent = how, .ring = "32768", .copy = "read"};
	pid_t pid = spawn(liar, &sock);
	settings();
	struct sn_ep *ep = side_open();
	static uint8_t sink[8192];
	ep->unchecked = true;
	ep->pull_into = sink;
	struct address a = swap_address(sock, ep);
	struct sn_peer_state *peer = peer_add(ep, &a);
	for (int i = 0; i < 3; i++)
		assert_true(side_send(peer, 100000, false, 2) >= 0);
	bool lied = false;
	while (!peer->gone && !lied) {
		side_progress(ep);
		lied = recv(sock, &(char){0}, 1, MSG_DONTWAIT) >= 0;
	}
	for (int i = 0; i < 1000 && !peer->gone; i++) {
		if (how == 2) /* a false head shows when the ring fills */
			side_send(peer, 4000, true, 1);
		side_progress(ep);
	}
	if (how == 2)
		assert_true(peer->gone);
	if (peer->gone && peer->gone_status == SN_ERR_PROTO && how != 2)
		assert_true(side_count(ep, "local.bad_records") > 0);
	side_close(ep);
	close(sock);
	reap(pid);
}

static void almost_valid_records(void **state)
{
	for (uint32_t seed = 1; seed <= 60; seed++)
		face_a_liar(0, seed * 7919);
}

static void noise_in_the_ring(void **state)
{
	for (uint32_t seed = 1; seed <= 20; seed++)
		face_a_liar(1, seed * 104729);
}

static void a_head_from_nowhere(void **state)
{
	for (uint32_t seed = 1; seed <= 10; seed++)
		face_a_liar(2, seed * 1299709);
}

/* ---- the handshake ------------------------------------------------------------------------------------------- */

/* Say this, and be thrown out for it. */
static void be_refused(struct sn_ep *ep, const void *what, size_t len, const int *fds, uint32_t fd_count)
{
	uint64_t before = side_count(ep, "local.bad_handshakes");
	int fd = dial(ep);
	say(fd, what, len, fds, fd_count);
	char byte;
	assert_int_equal(recv(fd, &byte, 1, 0), 0); /* the end, and no answer */
	close(fd);
	assert_int_equal(side_count(ep, "local.bad_handshakes"), before + 1);
	side_progress(ep);
	assert_int_equal(ep->peer_count, 0);
}

enum { GOOD, UNSEALED, SMALL, WRONG, BAD_BELL, BAD_BOARD, SETS };
static int sets[SETS][3]; /* descriptors: the bell, the board, the channel */

static void sets_make(void)
{
	int bell = memory(SN_BELL_BYTES, true), board = memory(SN_BOARD_BYTES, true);
	int channel = memory(SN_RING_OFFSET + RING, true);
	for (int i = 0; i < SETS; i++) {
		sets[i][0] = bell;
		sets[i][1] = board;
		sets[i][2] = channel;
	}
	sets[UNSEALED][2] = memory(SN_RING_OFFSET + RING, false);
	sets[SMALL][2] = memory(8192, true);
	sets[WRONG][2] = STDERR_FILENO;
	sets[BAD_BELL][0] = memory(8192, true);
	sets[BAD_BOARD][1] = bell;
}

static void sets_close(void)
{
	for (int i = 0; i < 3; i++)
		close(sets[GOOD][i]);
	close(sets[UNSEALED][2]);
	close(sets[SMALL][2]);
	close(sets[BAD_BELL][0]);
}

#define LIE(change, set, count)                                                                              \
	do {                                                                                                 \
		struct sn_local_hello h = honest(ep);                                                        \
		change;                                                                                      \
		be_refused(ep, &h, sizeof(h), sets[set], count);                                             \
	} while (0)

static void all_lies(struct sn_ep *ep)
{
	be_refused(ep, "hello", 5, NULL, 0);
	LIE(h.magic++, GOOD, 3);
	LIE(h.version++, GOOD, 3);
	LIE(h.welcome = 1, GOOD, 3);
	LIE(h.no_channel = 1, GOOD, 2);
	LIE(h.key[3] ^= 1, GOOD, 3);
	LIE(h.addr_len = 65, GOOD, 3);
	LIE(h.ring_bytes = 0, GOOD, 3);
	LIE(h.ring_bytes = RING + 64, GOOD, 3);
	LIE(h.ring_bytes = 1u << 31, GOOD, 3);
	LIE(h.ring_bytes = RING * 2, GOOD, 3);
	for (uint32_t count = 0; count < 3; count++)
		LIE(h.pid = 2, GOOD, count);
	for (int set = UNSEALED; set < SETS; set++)
		LIE(h.pid = 2, set, 3);
}

static void handshakes_of_liars(void **state)
{
	plan = (struct plan){.seed = 0};
	settings();
	int open_before = fds_open();
	struct sn_ep *ep = side_open();
	sets_make();
	all_lies(ep);
	char big[2000];
	memset(big, 'x', sizeof(big));
	int fd = dial(ep); /* longer than any message: cut off, refused */
	say(fd, big, sizeof(big), NULL, 0);
	assert_int_equal(recv(fd, big, 1, 0), 0);
	close(fd);
	fd = dial(ep); /* says nothing at all: ends with the socket */
	close(fd);
	/* An honest one, with a descriptor more than it should have, and then one word too many. */
	struct sn_local_hello hello = honest(ep), answer;
	int many[4] = {sets[GOOD][0], sets[GOOD][1], sets[GOOD][2], sets[GOOD][0]};
	fd = dial(ep);
	say(fd, &hello, sizeof(hello), many, 4);
	STEP_UNTIL(ep, ep->peer_count == 1);
	assert_int_equal(recv(fd, &answer, sizeof(answer), 0), sizeof(answer));
	assert_int_equal(answer.welcome, 1);
	say(fd, "more", 4, NULL, 0);
	STEP_UNTIL(ep, ep->peers[0]->gone);
	assert_int_equal(ep->peers[0]->gone_status, SN_ERR_PROTO);
	close(fd);
	side_close(ep);
	sets_close();
	assert_int_equal(fds_open(), open_before); /* nothing of theirs stays open, nothing of ours is lost */
}

int main(void)
{
	alarm(TEST_SECONDS);
	setenv("SENNIT_LOG", "none", 1); /* disconnections are what this is about */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(almost_valid_records),
		cmocka_unit_test(noise_in_the_ring),
		cmocka_unit_test(a_head_from_nowhere),
		cmocka_unit_test(handshakes_of_liars),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

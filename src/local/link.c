/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: the endpoint's side of a connection to one peer, from attach to burial.
 *
 * A link opens at the first post, or when the peer connects first. Opening makes the channel of this direction; from
 * then on messages go into the ring, whether the peer has answered yet or not.
 *
 * The end. "Gone" may come as mail (the socket or the process is gone), or be found by the endpoint (a record that makes
 * no sense). Either way the link is doomed, and buried at the end of progress(), where no arrival is half done: what
 * the peer had sent completely is delivered first (unless it is not trusted any more), then sends and pulls end with an
 * error, then the core hears of it.
 */
#include "base/conf.h"
#include "base/log.h"
#include "copy/tune.h"
#include "local/local.h"
#include "progress/memfd.h"
#include "progress/relax.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EAGER_ROOM                                                                                           \
	(64u << 10) /* of a ring, however large: longer messages may be announced where nobody has posted */
#define CROWD_RING (128u << 10) /* bytes */

/* The largest number of rivals of any endpoint of this process decides whether waiting should spin. */
static void rival_set(struct sn_link *link, bool rival)
{
	struct sn_rail *rail = link->rail;
	unsigned most = 0;
	if (link->rival == rival)
		return;
	link->rival = rival;
	sn_service_lock();
	rail->rivals += rival ? 1u : UINT32_MAX;
	sn_list_for_each (at, &sn_rails) {
		const struct sn_rail *other = sn_container(at, struct sn_rail, siblings);
		most = SN_MAX_OF(most, other->rivals);
	}
	sn_service_unlock();
	sn_relax_crowd(most);
	sn_show_waiting(rail);
}

int sn_link_attach(void *r, struct sn_peer_state *peer, const struct sn_ep_ids *ids,
		   const struct sn_addr_part *part, void **out)
{
	struct sn_rail *rail = r;
	struct sn_link *link = calloc(1, sizeof(*link));
	if (!link)
		return sn_fail(SN_ERR_NOMEM, "no memory for another peer");
	link->rail = rail;
	link->peer = peer;
	link->ids = *ids;
	sn_list_init(&link->busy);
	sn_list_init(&link->doomed);
	sn_list_init(&link->conns);
	sn_list_init(&link->messages);
	sn_list_init(&link->controls);
	sn_list_init(&link->sends);
	sn_list_init(&link->reads);
	sn_slots_init(&link->send_slots, sizeof(struct sn_send));
	sn_slots_init(&link->rdv_slots, sizeof(struct sn_rdv));
	sn_list_add_tail(&rail->links, &link->link);
	rival_set(link, sn_bell_rival(NULL));
	*out = link;
	return 0;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

static uint32_t power_of_two(uint64_t n)
{
	uint32_t p = SN_RING_BYTES_MIN;
	while (p < n && p < SN_RING_BYTES_MAX)
		p *= 2;
	return p;
}

static bool asked(enum sn_conf_id id)
{
	return sn_conf_origin(id, NULL) > SN_ORIGIN_MEASURED;
}

/*
 * The more peers, the smaller the rings: the memory of an endpoint stays bounded, and together they are larger than
 * the caches anyway. In a crowd those of several processes share a cache, and who has the core for a moment pays for
 * each page that is new to him: 8 ranks on two cores exchange a fifth more messages of 8 bytes with rings of 128 KiB
 * than with ones of 2 MiB (64 to 256 KiB are level), and longer messages as many.
 */
static uint32_t ring_size(const struct sn_rail *rail)
{
	uint64_t bytes = (uint64_t)sn_conf_num(SN_CONF_RING);
	uint32_t n = rail->channels;
	bytes = n < 4 ? bytes : n < 16 ? bytes / 8 : n < 64 ? bytes / 16 : bytes / 32;
	if (sn_relax_crowded() && !asked(SN_CONF_RING))
		bytes = SN_MIN_OF(bytes, (uint64_t)CROWD_RING);
	return power_of_two(bytes);
}

/* Make our channel. Returns its descriptor or an error. */
static int channel_make(struct sn_link *link, uint32_t *ring_bytes)
{
	void *map;
	*ring_bytes = ring_size(link->rail);
	int fd = sn_memfd_new("sennit-ring", SN_RING_OFFSET + *ring_bytes, &map);
	if (fd < 0)
		return fd;
	sn_tx_init(&link->tx, map, *ring_bytes);
	link->tx_bytes = SN_RING_OFFSET + *ring_bytes;
	uint64_t most = SN_MIN_OF(*ring_bytes / 4, EAGER_ROOM) - SN_REC_HEAD - SN_IMM_MAX -
			sizeof(struct sn_rec_part);
	link->eager = (uint32_t)SN_MIN_OF((uint64_t)sn_conf_num(SN_CONF_EAGER), most);
	link->parts = (uint32_t)SN_MIN_OF((uint64_t)*ring_bytes / 2 - SN_CELL - SN_REC_HEAD - SN_IMM_MAX,
					  (UINT64_C(1) << (SN_WAY_LAP_FIRST + SN_WAY_LAPS)) - 1);
	link->eager_asked = asked(SN_CONF_EAGER) ? link->eager : 0;
	sn_way_set_whole(link);
	/* Between cores that share a nearer cache it would take the lines away from where the receiver looks first. */
	link->demote = sn_tune_far();
	link->rail->channels++;
	return fd;
}

/*
 * A peer that lives on must not touch our buffers any more. Said before its connections end, which it would take for
 * our death otherwise.
 */
static void channel_close(struct sn_link *link)
{
	if (link->tx_bytes)
		atomic_store(&link->tx.chan->closed, 1);
}

static void channel_drop(struct sn_link *link)
{
	if (link->rail->wrote == link)
		link->rail->wrote = NULL;
	if (link->tx_bytes) {
		munmap(link->tx.chan, link->tx_bytes);
		link->rail->channels--;
	}
	if (link->rx_bytes)
		munmap(link->rx.chan, link->rx_bytes);
	link->tx_bytes = link->rx_bytes = 0;
	link->rx.cells = NULL;
	link->rx.chan = NULL; /* whoever asks what the peer shows there asks for this */
}

static void opened(struct sn_link *link)
{
	link->state = SN_LINK_OPEN;
	link->fast = !link->lost;
	link->rail->count.peers++;
}

static void adopt(struct sn_link *link, struct sn_conn *conn)
{
	conn->owner = link;
	sn_list_add_tail(&link->conns, &conn->owner_link);
}

/*
 * It stays closed: descriptors or memory lack, or something that confines this process (Landlock, AppArmor) refuses. Who
 * posted may not listen, as an MPI to what becomes of an injected message, and would wait for the peer's answer for ever.
 */
static int stays_closed(struct sn_link *link, int rc)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		sn_warn("%s (on this node) cannot be reached: %s", sn_core_peer_name(link->peer).text,
			sn_last_error());
	sn_link_doom(link, rc, false);
	return rc;
}

int sn_link_open(struct sn_link *link)
{
	uint32_t ring_bytes;
	int rc, fd = channel_make(link, &ring_bytes);
	if (fd < 0)
		return stays_closed(link, fd);
	struct sn_conn *conn = sn_conn_start(link->rail, &link->ids, fd, ring_bytes, &rc);
	if (conn)
		adopt(link, conn);
	if (rc) {
		channel_close(link);
		channel_drop(link);
		link->lost = conn != NULL;
		return conn ? rc : stays_closed(link, rc);
	}
	link->out = conn;
	opened(link);
	return 0;
}

/* The peer connected first, or at the same time: answer on its connection. */
static int answer(struct sn_link *link, struct sn_conn *conn)
{
	uint32_t ring_bytes = (uint32_t)(link->tx_bytes - SN_RING_OFFSET);
	int fd = -1;
	if (link->state == SN_LINK_NEW) {
		fd = channel_make(link, &ring_bytes);
		if (fd < 0)
			return fd;
		opened(link);
	} else if (link->out) {
		fd = sn_conn_recall(
			link->out); /* our own HELLO waits for the peer's backlog: this way is open */
		if (fd >= 0) {
			sn_conn_free(link->out);
			link->out = NULL;
		}
	}
	return sn_conn_welcome(conn, &link->ids, fd, ring_bytes);
}

/* ---- mail ---------------------------------------------------------------------------------------------------- */

static int poll_add(struct sn_link *link)
{
	struct sn_rail *rail = link->rail;
	if (rail->poll_count == rail->poll_room) {
		uint32_t room = rail->poll_room ? rail->poll_room * 2 : 16;
		struct sn_link **poll = realloc(rail->poll, room * sizeof(struct sn_link *));
		if (!poll)
			return sn_fail(SN_ERR_NOMEM, "no memory for another peer");
		rail->poll = poll;
		rail->poll_room = room;
	}
	link->poll_index = rail->poll_count;
	rail->poll[rail->poll_count++] = link;
	return 0;
}

static void poll_remove(struct sn_link *link)
{
	struct sn_rail *rail = link->rail;
	if (!link->rx.cells || link->poll_index >= rail->poll_count || rail->poll[link->poll_index] != link)
		return;
	struct sn_link *last = rail->poll[--rail->poll_count];
	rail->poll[link->poll_index] = last;
	last->poll_index = link->poll_index;
}

/* Take what the peer's greeting brought. */
static int take_greeting(struct sn_link *link, struct sn_conn *conn)
{
	if (conn->chan) {
		if (link->rx.cells)
			return sn_fail(SN_ERR_PROTO, "a second channel from one peer");
		sn_rx_init(&link->rx, conn->chan, conn->theirs.ring_bytes);
		link->rx_bytes = SN_RING_OFFSET + conn->theirs.ring_bytes;
		conn->chan = NULL;
		int rc = poll_add(link);
		if (rc)
			return rc;
	}
	if (link->greeted)
		return 0;
	link->greeted = true;
	sn_way_init(link);
	link->bell = conn->bell;
	conn->bell = NULL;
	link->board = conn->board;
	conn->board = NULL;
	link->heap = conn->heap;
	conn->heap.map = NULL;
	link->heap_generation = link->heap.map ? conn->theirs.heap_generation : 0;
	link->fence = sn_bell_must_fence(link->bell);
	rival_set(link, sn_bell_rival(link->bell));
	link->copy = conn->copy;
	link->read_error = conn->read_error;
	link->write_error = conn->write_error;
	link->pid = conn->theirs.pid;
	link->rail->count.refused_read += link->read_error != 0;
	link->rail->count.refused_write += link->write_error != 0;
	sn_debug("%s is pid %u; read its memory: %s, write: %s", sn_core_peer_name(link->peer).text,
		 link->pid, link->read_error ? strerror(link->read_error) : "yes",
		 link->write_error ? strerror(link->write_error) : "yes");
	if (link->read_error)
		sn_info("%s (pid %u): its memory cannot be read (%s); large messages are written or "
			"streamed",
			sn_core_peer_name(link->peer).text, link->pid, strerror(link->read_error));
	sn_show_peer(link);
	sn_link_ring(link, true); /* what was sent before the bell was known */
	return 0;
}

static void greeting(struct sn_rail *rail, struct sn_conn *conn)
{
	struct sn_link *link = conn->owner;
	bool asked = link != NULL;
	if (!link) {
		void *found;
		if (!sn_core_peer_from(rail->ep, rail, conn->theirs.addr, conn->theirs.addr_len, &found)) {
			sn_debug("a connection from pid %u is refused: %s", conn->theirs.pid,
				 sn_last_error());
			rail->count.bad_handshakes += !rail->closing;
			sn_conn_free(conn);
			return;
		}
		link = found;
		/* one that we started, one that the peer started: more are of no use */
		bool enough = link->conns.next->next != &link->conns && !sn_list_empty(&link->conns);
		if (link->state == SN_LINK_GONE || link->doom || enough) {
			sn_conn_free(conn);
			return;
		}
		adopt(link, conn);
	}
	int rc = asked ? 0 : answer(link, conn);
	if (!rc)
		rc = take_greeting(link, conn);
	if (rc) {
		sn_warn("%s (pid %u): %s", sn_core_peer_name(link->peer).text, conn->theirs.pid,
			sn_last_error());
		sn_link_doom(link, rc, rc == SN_ERR_PEER_GONE);
	}
}

int sn_link_mail(struct sn_rail *rail)
{
	int n = 0;
	for (struct sn_mail *mail; (mail = sn_conn_mail(rail)); n++) {
		struct sn_conn *conn = mail->conn;
		if (!mail->gone) {
			greeting(rail, conn);
		} else if (conn->owner) {
			struct sn_link *link = conn->owner;
			sn_debug("%s (pid %u) is gone", sn_core_peer_name(link->peer).text, link->pid);
			sn_link_doom(link, conn->status, conn->status == SN_ERR_PEER_GONE);
		} else {
			sn_conn_free(conn);
		}
	}
	return n;
}

/* ---- the end ------------------------------------------------------------------------------------------------- */

void sn_link_doom(struct sn_link *link, int status, bool drain)
{
	if (link->doom || link->state == SN_LINK_GONE)
		return;
	link->doom = status;
	link->drain = drain;
	link->fast = false;
	sn_list_add_tail(&link->rail->doomed, &link->doomed);
}

static void board_drop(struct sn_link *link)
{
	if (link->board)
		munmap(link->board, SN_BOARD_BYTES);
	link->board = NULL;
}

/*
 * A death is said to the user, as an MPI says no more than that something failed: the first one that this process
 * sees, since a launcher kills the rest. A peer that closed its endpoint in good order is no news.
 */
static void say_ended(const struct sn_link *link)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	bool in_order = !link->rx.cells || sn_link_closed(link) || link->rail->closing;

	sn_fail_note("%s (pid %u, on this node) has ended%s", sn_core_peer_name(link->peer).text, link->pid,
		     in_order ? ""
			      : " without closing its endpoint: it was killed, crashed, called MPI_Abort, or "
				"left before MPI_Finalize");
	if (!in_order && !atomic_flag_test_and_set(&said))
		sn_warn("%s", sn_last_error());
}

static void bury(struct sn_link *link)
{
	struct sn_rail *rail = link->rail;
	int status = link->doom;
	bool closed = sn_link_closed(link);
	if (status == SN_ERR_PEER_GONE)
		say_ended(link);
	/* Nobody writes there any more, so this ends; the bound is for a process that closed its socket and goes on. */
	link->leaving = true;
	uint32_t mark = link->drain && link->rx.cells ? sn_rx_mark(&link->rx) : 0;
	if (mark)
		sn_recv_all(link, mark);
	sn_list_del(&link->busy);
	poll_remove(link);
	bool was_open = link->state == SN_LINK_OPEN;
	link->state = SN_LINK_GONE;
	link->fast = false;
	channel_close(link);
	while (!sn_list_empty(&link->conns)) {
		struct sn_conn *conn = sn_container(link->conns.next, struct sn_conn, owner_link);
		sn_conn_free(conn);
	}
	link->out = NULL;
	channel_drop(link);
	sn_bell_unmap(link->bell);
	link->bell = NULL;
	board_drop(link);
	sn_show_gone(link);
	if (was_open) {
		rail->count.peers--;
		rail->count.peers_gone++;
	}
	rival_set(link, false);
	sn_claim_end(link, status);
	sn_rdv_end(link, status);
	sn_send_drop(link, true, status);
	sn_heap_unmap(&link->heap); /* what a copy engine had left undone was still read there */
	sn_core_peer_gone(link->peer, closed && status == SN_ERR_PEER_GONE ? 0 : status);
}

int sn_link_bury(struct sn_rail *rail)
{
	int n = 0;
	for (; !sn_list_empty(&rail->doomed); n++) {
		struct sn_link *link = sn_container(rail->doomed.next, struct sn_link, doomed);
		sn_list_del(&link->doomed);
		bury(link);
	}
	return n;
}

void sn_link_free(struct sn_link *link)
{
	poll_remove(link);
	sn_list_del(&link->busy);
	sn_list_del(&link->doomed);
	sn_list_del(&link->link);
	channel_close(link);
	while (!sn_list_empty(&link->conns))
		sn_conn_free(sn_container(link->conns.next, struct sn_conn, owner_link));
	channel_drop(link);
	sn_bell_unmap(link->bell);
	board_drop(link);
	sn_show_gone(link);
	sn_send_drop(link, true, SN_OK);
	for (uint32_t i = 0; i < link->send_slots.count; i++) {
		struct sn_send *s = (struct sn_send *)(void *)link->send_slots.at[i];
		if (!s->slot.used)
			continue;
		sn_kcopy_unname(link->rail, &s->region);
		if (s->segs.at != s->segs.few)
			free(s->segs.at);
	}
	for (uint32_t i = 0; i < link->rdv_slots.count; i++) {
		struct sn_rdv *rdv = (struct sn_rdv *)(void *)link->rdv_slots.at[i];
		if (!rdv->slot.used)
			continue;
		sn_offload_leave(rdv);
		sn_kcopy_leave(link, rdv);
		if (rdv->segs.at != rdv->segs.few)
			free(rdv->segs.at);
	}
	sn_heap_unmap(&link->heap);
	sn_slots_destroy(&link->send_slots);
	sn_slots_destroy(&link->rdv_slots);
	rival_set(link, false);
	free(link);
}

void sn_link_detach(void *link)
{
	sn_link_free(link);
}

/* In a forked child: the mappings are not here. */
void sn_link_forked(struct sn_link *link)
{
	link->fast = false;
	link->rx.cells = NULL; /* who asks whether something has come asks for this */
}

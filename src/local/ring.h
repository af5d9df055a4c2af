/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of one direction: one sender, one receiver, no lock, no read-modify-write. A sender that is killed in the
 * middle of a record leaves its mark at 0, so the receiver just sees nothing.
 *
 * Presence. The receiver polls the mark of the next cell; the sender fills a record and stores its mark last
 * (release). A cell may hold stale payload of an earlier lap, which must never look like a mark, so the mark of the
 * cell *after* a record is zeroed before the record becomes visible. To keep the cache miss of that zeroing off the
 * way of the record, the sender zeroes some cells ahead after each record (SN_RING_AHEAD; tx->clean is how far). The
 * next short record then finds its neighbour zero, and its own lines already in the sender's cache: the receiver
 * looks at none of them before. After a longer record the next one is likely to be as long, so as many lines are
 * worth having (tx->want); but to fetch them all at once holds up the lines of a message that comes the other way at
 * the same time (an exchange of 4 KiB took 1.3 times as long). So they are fetched a few at a time, by looks that
 * find nothing. Beyond SN_RING_AHEAD_MAX none is where the other core is close: so many lines come as fast when they
 * are written, and to touch them before is work. Between cores of an Intel processor that share no second-level cache
 * they do not, so there lines of up to 64 KiB are: 8 KiB took 0.66 of the time by it (on an AMD, far, as long or
 * longer). Cells that are still to be read are never touched, so one cell always stays free.
 *
 * Room. The receiver publishes how far it has read (head) at the end of each batch, or each quarter of the ring; the
 * sender looks there only when its own copy says that the ring is full. So a message of up to 40 bytes moves one line
 * between the cores, and a head line now and then.
 *
 * Footprint. A ring is large so that a sender may run ahead, and for long records: to write a line that lies in the
 * receiver's cache, because it has just been read, takes several times as long as to fetch an old one that both
 * caches have given up. So where records of more than a page come, the whole ring is used, which is larger than a
 * second-level cache. A receiver that keeps up with short ones needs little: after SN_RING_SHORTS cells without a
 * long record the sender looks, every SN_RING_LAP cells from SN_RING_NARROW on, whether all but as many have been read
 * (in exchanges of several messages some never are just then), and then goes on at the beginning (the way there is
 * padding). With more processes than cores it does so from the first page on, whatever the records, if everything has
 * been read: two processes that take turns stay within two pages. With eight ranks the rings of a
 * process would else be 3 MiB, each line used once and then not before it has left the cache (alltoall of 8 B: 30 us
 * without, 18 with). But until the receiver has passed the padding only as many cells are free as lie behind the
 * beginning, up to where it turned back. A sender to whom that is not enough (several records in a row, or long ones)
 * goes back from twice as far the next time.
 *
 * Trust. head is checked to lie between the last head and the tail. The sender never reads cells. Records are checked by
 * the receiver (recv.c).
 */
#ifndef SN_LOCAL_RING_H
#define SN_LOCAL_RING_H

#include "base/base.h"
#include "local/wire.h"
#include "progress/memfd.h"
#include "progress/relax.h"

#define SN_RING_AHEAD	    8u	  /* half a KiB */
#define SN_RING_OWN	    8u	  /* further ahead, lines are asked for */
#define SN_RING_LAP	    64u	  /* a page */
#define SN_RING_NARROW	    4096u /* 256 KiB */
#define SN_RING_SHORTS	    256u /* cells of short records: more in a row, and the time of long ones is over */
#define SN_RING_AHEAD_MAX   72u	 /* an injected message of SN_INJECT_MAX */
#define SN_RING_AHEAD_FAR   40u	 /* 2.5 KiB: between far cores more lines come sooner by themselves */
#define SN_RING_AHEAD_APART 1040u /* likewise, of 64 KiB, where lines take long from the peer's core */
#define SN_RING_AT_A_LOOK   4u	  /* zeroed by a look that finds nothing */

/* Push a line that was just written out to the cache that all cores share; only a hint, and nothing on older processors. */
static inline void sn_line_demote(void *line)
{
#ifdef __x86_64__
	__asm__ volatile(".byte 0x0f, 0x1c, 0x00" : : "a"(line) : "memory"); /* cldemote (%rax) */
#else
	(void)line;
#endif
}

struct sn_tx {
	struct sn_cell *cells;
	uint64_t tail;	  /* cells written */
	uint64_t head;	  /* cells known to be consumed */
	uint64_t clean;	  /* the marks of the cells from the tail up to here are zero */
	uint64_t want;	  /* while there is nothing else to do, they may be zeroed up to here */
	uint64_t lap;	  /* from this tail on, look whether to go back to the beginning */
	uint64_t wide;	  /* up to this tail, do so only in a crowd */
	uint64_t touched; /* the pages up to this tail are there; of those of the first lap */
	uint32_t count;
	bool bad;  /* the receiver's head made no sense */
	bool full; /* it keeps much that nobody has posted for, as far as is known */
	struct sn_chan *chan;
	uint32_t
		ahead; /* after a record in one piece of more cells none is made ready for the next; of any, no more than these */
	uint64_t back;	    /* the tail behind the last padding on the way back; 0: it has cost room since */
	uint32_t crowd_lap; /* in a crowd, go back from so many cells on */
};

struct sn_rx {
	struct sn_cell *cells;
	uint64_t head;	    /* cells consumed */
	uint64_t published; /* and told to the sender */
	uint32_t count;
	uint8_t lone; /* looks that found one record each, without one that found more; rail.c */
	uint8_t turn;
	bool waited;	  /* the last look found nothing */
	bool pair;	  /* the next record is likely to be waited for, and to have several lines; recv.c */
	uint32_t answers; /* the sender's tail of the other direction when the last record was found */
	struct sn_chan *chan;
};

static inline void sn_tx_init(struct sn_tx *tx, void *map, uint32_t ring_bytes)
{
	*tx = (struct sn_tx){.cells = (void *)((char *)map + SN_RING_OFFSET),
			     .count = ring_bytes / SN_CELL,
			     .clean = ring_bytes / SN_CELL,
			     .lap = SN_RING_LAP,
			     .crowd_lap = SN_RING_LAP,
			     .ahead = SN_RING_AHEAD_MAX,
			     .chan = map}; /* a new channel is all zero */
}

static inline void sn_rx_init(struct sn_rx *rx, void *map, uint32_t ring_bytes)
{
	*rx = (struct sn_rx){
		.cells = (void *)((char *)map + SN_RING_OFFSET), .count = ring_bytes / SN_CELL, .chan = map};
}

static inline uint32_t sn_rec_cells(uint64_t payload)
{
	return (uint32_t)((SN_REC_HEAD + payload + SN_CELL - 1) / SN_CELL);
}

static inline bool sn_tx_refresh(struct sn_tx *tx)
{
	uint64_t head = atomic_load_explicit(&tx->chan->head, memory_order_acquire);
	if (sn_unlikely(head - tx->head > tx->tail - tx->head)) {
		tx->bad = true;
		return false;
	}
	tx->head = head;
	tx->full = atomic_load_explicit(&tx->chan->full, memory_order_relaxed);
	return true;
}

/* Make the record of n cells at the tail visible, and clean nothing ahead: of a long one whose lines come after it. */
static inline void sn_tx_publish_bare(struct sn_tx *tx, uint32_t type, uint32_t flags, uint32_t n)
{
	uint32_t mask = tx->count - 1;
	struct sn_cell *cell = &tx->cells[tx->tail & mask];
	tx->tail += n;
	if (sn_unlikely(tx->clean <= tx->tail)) {
		atomic_store_explicit(&tx->cells[tx->tail & mask].mark, 0, memory_order_relaxed);
		tx->clean = tx->tail + 1;
	}
	atomic_store_explicit(&cell->mark, sn_rec_mark(type, flags, n), memory_order_release);
}

/* Zero marks up to `end`, but none that is still to be read. */
static inline void sn_tx_zero(struct sn_tx *tx, uint64_t end)
{
	uint64_t limit = SN_MIN_OF(end, tx->head + tx->count);
	for (; tx->clean < limit; tx->clean++)
		atomic_store_explicit(&tx->cells[tx->clean & (tx->count - 1)].mark, 0, memory_order_relaxed);
}

/* A record of n cells is there, and one like it may follow. */
static inline void sn_tx_want(struct sn_tx *tx, uint32_t n)
{
	tx->want = tx->tail + 1 + SN_MIN_OF(n, tx->ahead);
}

/* Make the record of n cells at the tail visible. */
static inline void sn_tx_publish(struct sn_tx *tx, uint32_t type, uint32_t flags, uint32_t n)
{
	sn_tx_publish_bare(tx, type, flags, n);
	if (sn_unlikely(n > tx->ahead))
		return;
	sn_tx_zero(tx, tx->tail + 1 + SN_RING_AHEAD);
	sn_tx_want(tx, n);
}

/* Nothing has come: get ready for the next record. True: there is more to do. */
static inline bool sn_tx_prepare(struct sn_tx *tx)
{
	uint64_t before = tx->clean;
	if (before >= tx->want)
		return false;
	sn_tx_zero(tx, SN_MIN_OF(tx->want, before + SN_RING_AT_A_LOOK));
	return tx->clean != before;
}

/*
 * The first lap, page by page: as many pages as were used are made at a time, as the receiver, too, then finds several by
 * one fault. A fault on both sides for each cost the first 2,000 exchanges of 8 bytes 1 ms.
 */
static inline void sn_tx_touch(struct sn_tx *tx)
{
	uint64_t to = SN_MIN_OF(2 * tx->tail, SN_MIN_OF((uint64_t)tx->count, (uint64_t)SN_RING_NARROW));
	if (tx->tail < tx->touched || tx->tail >= to)
		return;
	uintptr_t from = (uintptr_t)&tx->cells[tx->tail] & ~(uintptr_t)(SN_RING_OFFSET - 1);
	sn_memfd_touch((void *)from, (uintptr_t)&tx->cells[to] - from);
	tx->touched = to;
}

/* A lap of cells was written: how many to skip from `at` on, so that a record of n cells begins the ring anew. */
static inline uint32_t sn_tx_lap(struct sn_tx *tx, uint32_t at, uint32_t n)
{
	if (sn_unlikely(tx->tail < SN_RING_NARROW) && !sn_relax_crowded())
		sn_tx_touch(tx);
	uint32_t skip = tx->count - at;
	bool crowd = sn_relax_crowded();
	uint32_t from = crowd ? tx->crowd_lap : tx->tail < tx->wide ? tx->count : SN_RING_NARROW;
	bool go = at >= from && n < at && skip <= SN_REC_CELLS_MAX && sn_tx_refresh(tx) &&
		  tx->tail - tx->head <= (crowd ? 0 : SN_RING_LAP);
	tx->lap = tx->tail + (go ? skip : 0) + SN_RING_LAP;
	if (go && crowd)
		tx->back = tx->tail + skip;
	return go ? skip : 0;
}

/* No room: because of the padding? Then the next laps are longer. */
static inline struct sn_cell *sn_tx_no_room(struct sn_tx *tx)
{
	if (tx->head < tx->back) {
		tx->crowd_lap *= 2; /* at the ring's length it ends: nothing goes back then */
		tx->back = 0;
	}
	return NULL;
}

/* Where a record of n cells goes (n at most a quarter of the ring), or NULL: no room now, or tx->bad. */
static inline struct sn_cell *sn_tx_room(struct sn_tx *tx, uint32_t n)
{
	uint32_t at = (uint32_t)tx->tail & (tx->count - 1);
	uint32_t pad = sn_unlikely(at + n > tx->count) ? tx->count - at : 0;
	if (n > SN_RING_LAP)
		tx->wide = tx->tail + n + SN_RING_SHORTS;
	if (sn_unlikely(tx->tail >= tx->lap && !pad)) {
		pad = sn_tx_lap(tx, at, n);
		if (sn_unlikely(tx->bad))
			return NULL;
	}
	if (sn_unlikely(tx->tail - tx->head + pad + n + 1 > tx->count)) {
		if (!sn_tx_refresh(tx) || tx->tail - tx->head + pad + n + 1 > tx->count)
			return sn_tx_no_room(tx);
	}
	if (sn_unlikely(pad)) {
		sn_tx_publish_bare(tx, SN_REC_PAD, 0, pad);
		at = 0;
	}
	return &tx->cells[at];
}

/*
 * The commonest record: one cell, with room for it, its neighbour clean, and not at the end of a lap. One cell is
 * used, and one cleaned ahead, unless the room that is known ends there. False: sn_tx_room() knows more.
 */
static inline bool sn_tx_put(struct sn_tx *tx, uint32_t mark, uint64_t bits, uint64_t data, const void *body,
			     uint64_t len)
{
	struct sn_cell *cells =
		tx->cells; /* copies: a cell might be any memory, as far as the compiler knows */
	uint64_t tail = tx->tail, clean = tx->clean, end = tx->head + tx->count, mask = tx->count - 1;
	struct sn_cell *cell = &cells[tail & mask];
	uint64_t own = clean + SN_RING_OWN;
	if (sn_unlikely(tail >= tx->lap || tail + 2 > end || clean < tail + 2 || len > sizeof(cell->payload)))
		return false;
	cell->len = (uint32_t)len;
	cell->bits = bits;
	cell->data = data;
	if (sn_likely(len != 0))
		sn_copy_48(sn_cell_payload(cell), body, len);
	atomic_store_explicit(&cell->mark, mark, memory_order_release);
	tx->tail = tail + 1;
	if (sn_likely(clean <= tail + 1 + SN_RING_AHEAD && own < end)) {
		atomic_store_explicit(&cells[clean & mask].mark, 0, memory_order_relaxed);
		tx->clean = clean + 1;
		sn_line_own(&cells[own & mask]);
	}
	return true;
}

/* The receiver has probably looked at the next cells, one or two, and has their lines: ask for them before there is something
 * to write. */
static inline void sn_tx_own(const struct sn_tx *tx, bool both)
{
	uint64_t mask = tx->count - 1;
	if (sn_unlikely(!tx->cells))
		return;
	sn_line_own(&tx->cells[tx->tail & mask]);
	if (sn_unlikely(both))
		sn_line_own(&tx->cells[(tx->tail + 1) & mask]);
}

/* A long record of n cells is about to be written: its publication zeroes the mark behind it, which would hold it up. */
static inline void sn_tx_own_next(const struct sn_tx *tx, uint32_t n)
{
	if (tx->clean <= tx->tail + n)
		sn_line_own(&tx->cells[(tx->tail + n) & (tx->count - 1)]);
}

/* A record was begun, but will not be published: its payload may lie where marks were clean. */
static inline void sn_tx_abandon(struct sn_tx *tx)
{
	tx->clean = SN_MIN_OF(tx->clean, tx->tail + 1);
}

/* The mark of the next record, 0: none. */
static inline uint32_t sn_rx_mark(const struct sn_rx *rx)
{
	return atomic_load_explicit(&rx->cells[rx->head & (rx->count - 1)].mark, memory_order_acquire);
}

static inline void sn_rx_publish(struct sn_rx *rx)
{
	rx->published = rx->head;
	atomic_store_explicit(&rx->chan->head, rx->head, memory_order_release);
}

#endif

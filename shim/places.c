/* SPDX-License-Identifier: BSD-3-Clause */
/* What lies where in the memory in which ranks meet. */
#include "agree.h"

#define PAGE ((size_t)4096)
/* Of a place, and some lines more, as places a power of two apart would share few lines of a cache. */
#define ROOM ((size_t)SN_MEET_PLACE + 17 * 64)

static size_t lines_at(unsigned ranks)
{
	return sizeof(struct sn_meet_memory) + ranks * sizeof(struct sn_meet_words);
}

static size_t places_at(unsigned ranks)
{
	return lines_at(ranks) + 4 * (size_t)ranks * sizeof(struct sn_meet_line);
}

static size_t ups_at(unsigned ranks)
{
	return places_at(ranks) + SN_MEET_PLACES * sizeof(struct sn_meet_line);
}

static size_t cells_at(unsigned ranks)
{
	return ups_at(ranks) + SN_MEET_PLACES * (size_t)ranks * sizeof(struct sn_meet_line);
}

static size_t rest_at(unsigned ranks)
{
	return cells_at(ranks) + 2 * (size_t)ranks * ranks * sizeof(struct sn_meet_line);
}

static size_t rooms_at(unsigned ranks)
{
	return (rest_at(ranks) + 2 * (size_t)ranks * SN_MEET_ROOM + PAGE - 1) / PAGE * PAGE;
}

static size_t rings_at(unsigned ranks)
{
	return (rooms_at(ranks) + SN_MEET_PLACES * ROOM + PAGE - 1) / PAGE * PAGE;
}

/*
 * For sums as much in all for more ranks as for two: the cores between them write as much, until a place is written again. Three pieces at least: in two of
 * them somebody reads, and the next one must fit behind these, or in front of them.
 */
size_t sn_meet_lap_of(unsigned ranks)
{
	size_t lap = SN_MEET_RING / ((ranks + 1) / 2) / PAGE * PAGE;
	return lap < 3 * SN_MEET_PIECE ? 3 * SN_MEET_PIECE : lap;
}

/* Likewise of what is brought along at once. */
size_t sn_meet_ring_of(unsigned ranks)
{
	size_t lap = sn_meet_lap_of(ranks);
	return lap < 3 * SN_MEET_BLOCKS ? 3 * SN_MEET_BLOCKS : lap;
}

static size_t up_rooms_at(unsigned ranks)
{
	return rings_at(ranks) + ((size_t)ranks + 1) * sn_meet_ring_of(ranks);
}

static size_t begun_at(unsigned ranks)
{
	return (up_rooms_at(ranks) + (size_t)ranks * SN_MEET_PLACES * ROOM + PAGE - 1) / PAGE * PAGE;
}

/* Of one rank: its words, its lines, and what does not fit into these. */
#define BEGUN_LINES (SN_MEET_BEGUN + SN_MEET_MORE)
#define BEGUN_ROOM  ((size_t)SN_MEET_BRINGS + 64)
#define BEGUN_WORDS (2 * 64 + BEGUN_LINES * sizeof(struct sn_meet_line))
#define BEGUN	    ((BEGUN_WORDS + BEGUN_LINES * BEGUN_ROOM + PAGE - 1) / PAGE * PAGE)

static size_t notes_at(unsigned ranks)
{
	return begun_at(ranks) + ranks * BEGUN;
}

#define NOTES (SN_AGREE_CALLS * sizeof(struct sn_agree_call))

size_t sn_meet_bytes(unsigned ranks)
{
	return (notes_at(ranks) + ranks * NOTES + PAGE - 1) / PAGE * PAGE;
}

struct sn_agree_call *sn_meet_notes(const struct sn_meet *m, unsigned rank)
{
	char *notes = (char *)m->mem + notes_at(m->ranks) + rank * NOTES;
	return (struct sn_agree_call *)(void *)notes;
}

struct sn_meet_line *sn_meet_line(const struct sn_meet *m, unsigned generation, unsigned rank)
{
	char *lines = (char *)m->mem + lines_at(m->ranks);
	return (struct sn_meet_line *)(void *)lines + generation * m->ranks + rank;
}

char *sn_meet_rest(const struct sn_meet *m, const struct sn_meet_line *line)
{
	return (char *)m->mem + rest_at(m->ranks) + (size_t)(line - sn_meet_line(m, 0, 0)) * SN_MEET_ROOM;
}

struct sn_meet_line *sn_meet_place_line(const struct sn_meet *m, uint64_t call)
{
	char *places = (char *)m->mem + places_at(m->ranks);
	return (struct sn_meet_line *)(void *)places + call % SN_MEET_PLACES;
}

char *sn_meet_place_room(const struct sn_meet *m, uint64_t call, size_t len)
{
	return len <= SN_MEET_SHORT ? sn_meet_place_line(m, call)->data
				    : (char *)m->mem + rooms_at(m->ranks) + call % SN_MEET_PLACES * ROOM;
}

struct sn_meet_line *sn_meet_up_line(const struct sn_meet *m, uint64_t call, unsigned rank)
{
	char *lines = (char *)m->mem + ups_at(m->ranks);
	return (struct sn_meet_line *)(void *)lines + call % SN_MEET_PLACES * m->ranks + rank;
}

char *sn_meet_up_room(const struct sn_meet *m, uint64_t call, unsigned rank, size_t len)
{
	return len <= SN_MEET_SHORT ? sn_meet_up_line(m, call, rank)->data
				    : (char *)m->mem + up_rooms_at(m->ranks) +
					      (rank * SN_MEET_PLACES + call % SN_MEET_PLACES) * ROOM;
}

struct sn_meet_line *sn_meet_cell(const struct sn_meet *m, unsigned generation, unsigned from, unsigned to)
{
	char *cells = (char *)m->mem + cells_at(m->ranks);
	return (struct sn_meet_line *)(void *)cells + ((size_t)generation * m->ranks + from) * m->ranks + to;
}

char *sn_meet_ring(const struct sn_meet *m, unsigned rank)
{
	return (char *)m->mem + rings_at(m->ranks) + rank * m->ring;
}

struct sn_meet_begun *sn_meet_begun(const struct sn_meet *m, unsigned rank)
{
	char *words = (char *)m->mem + begun_at(m->ranks) + rank * BEGUN;
	return (struct sn_meet_begun *)(void *)words;
}

static struct sn_meet_line *begun_lines(const struct sn_meet *m, unsigned rank)
{
	return (struct sn_meet_line *)(void *)((char *)sn_meet_begun(m, rank) + 2 * (size_t)64);
}

struct sn_meet_line *sn_meet_begun_line(const struct sn_meet *m, unsigned rank, uint64_t call)
{
	return begun_lines(m, rank) + call % SN_MEET_BEGUN;
}

struct sn_meet_line *sn_meet_more_line(const struct sn_meet *m, unsigned rank, uint64_t call)
{
	return begun_lines(m, rank) + SN_MEET_BEGUN + call % SN_MEET_MORE;
}

char *sn_meet_begun_room(const struct sn_meet *m, unsigned rank, struct sn_meet_line *line, size_t len)
{
	size_t n = (size_t)(line - begun_lines(m, rank));
	return len <= SN_MEET_SHORT ? line->data
				    : (char *)sn_meet_begun(m, rank) + BEGUN_WORDS + n * BEGUN_ROOM;
}

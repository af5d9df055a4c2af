/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"
#include "gpu.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KNOWN	256	  /* types */
#define LAYOUTS 128	  /* that differ */
#define RUNS	4096	  /* of one */
#define SIZE	(4 << 20) /* bytes of an element, at most */
#define BITS	21
#define PIECE	((size_t)1 << BITS)
#define PIECES	2048	    /* that it lies in, at most */
#define USES	32	    /* at least, before it is looked at: that takes as long as 10 to 25 of them */
#define A_USE	(32u << 10) /* and one more for so many bytes of its extent, */
#define MORE	1000	    /* but no more than that */
#define PAGES	16384 /* that it may touch, about, to be looked at: each costs up to 1 us, some ten times */
#define CHUNK	(16u << 10) /* bytes that are packed in one go */
#define FEW	16	    /* blocks of an element */
#define NEVER	UINT_MAX    /* uses: it is none of those that are looked at, or has been in vain */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sn_layout *layouts[LAYOUTS];
static unsigned count;

/* ---- looking ---- */

static void add(struct sn_run *runs, size_t *n, intptr_t at, size_t len)
{
	struct sn_run *r = *n ? &runs[*n - 1] : NULL;
	if (r && r->len == len && r->n == 1 && at != r->at) {
		r->step = at - r->at;
		r->n = 2;
	} else if (r && r->len == len && r->n > 1 && at == r->at + (intptr_t)r->n * r->step) {
		r->n++;
	} else {
		if (*n < RUNS)
			runs[*n] = (struct sn_run){.at = at, .len = len, .n = 1};
		++*n;
	}
}

/* Out of the places of its bytes. More than RUNS: too many, or one that the MPI has not written. */
static size_t runs_of(struct sn_run *runs, const intptr_t *places, size_t size, intptr_t low, intptr_t covers)
{
	size_t n = 0, len = 0;
	intptr_t begin = 0;
	for (size_t i = 0; i < size && n <= RUNS; i++) {
		if (places[i] >= covers)
			return RUNS + 1;
		if (len && places[i] == begin + (intptr_t)len) {
			len++;
			continue;
		}
		if (len)
			add(runs, &n, low + begin, len);
		begin = places[i];
		len = 1;
	}
	if (n <= RUNS)
		add(runs, &n, low + begin, len);
	return n;
}

/*
 * Memory that the MPI packs an element out of. A type may reach over all of a program's matrix: then it is one piece of a file,
 * mapped again and again, each byte of which says where in the piece it is; and of the pieces' numbers one bit after the
 * other, by a second piece, of zeros.
 */
struct memory {
	unsigned char *at, *piece;
	size_t bytes, pieces;
	int fd;
};

static bool map(const struct memory *m, size_t nth, bool zeros)
{
	void *at = mmap(m->at + nth * PIECE, PIECE, PROT_READ, MAP_SHARED | MAP_FIXED, m->fd,
			zeros ? (off_t)PIECE : 0);
	/* cppcheck-suppress memleak ; it lies in m->at */
	return at != MAP_FAILED;
}

static bool have_memory(struct memory *m, size_t covers)
{
	*m = (struct memory){.bytes = covers, .pieces = (covers + PIECE - 1) / PIECE, .fd = -1};
	if (m->pieces == 1)
		return (m->at = m->piece = malloc(covers)) != NULL;
	m->fd = memfd_create("sennit-layout", MFD_CLOEXEC);
	m->bytes = PIECE;
	void *piece = m->fd < 0 || ftruncate(m->fd, 2 * PIECE)
			      ? MAP_FAILED
			      : mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	void *at =
		mmap(NULL, m->pieces * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	m->piece = piece == MAP_FAILED ? NULL : piece;
	m->at = at == MAP_FAILED ? NULL : at;
	bool mapped = m->piece && m->at;
	for (size_t i = 0; i < m->pieces && mapped; i++)
		mapped = map(m, i, false);
	return mapped;
}

static void give_back(const struct memory *m)
{
	if (m->pieces == 1) {
		free(m->at);
		return;
	}
	if (m->at)
		munmap(m->at, m->pieces * PIECE);
	if (m->piece)
		munmap(m->piece, PIECE);
	if (m->fd >= 0)
		close(m->fd);
}

/* Of a place the eight bits from this one on are shown, within a piece, or this one of the piece's number. */
static int after(int shift)
{
	return shift >= BITS ? shift + 1 : shift + 8 < BITS ? shift + 8 : BITS;
}

/* False: they cannot be. */
static bool show(const struct memory *m, int shift)
{
	bool in_piece = shift < BITS, shown = true;
	for (size_t i = 0; i < m->bytes; i++)
		m->piece[i] = in_piece ? (unsigned char)(i >> shift) : 1;
	for (size_t i = 0; i < m->pieces && shown && !in_piece; i++)
		shown = map(m, i, !(i * PIECE >> shift & 1));
	return shown;
}

/* Where each byte of an element lies, in the order in which the MPI packs them, from the lowest one on. */
static bool find_places(intptr_t *places, const struct sn_meet_type *t, intptr_t low, size_t covers)
{
	struct memory m;
	unsigned char *packed = malloc((size_t)t->size);
	bool known = have_memory(&m, covers) && packed;
	/* no place is this: some do not write what a long double of 10 bytes has behind these */
	for (int shift = 0; known && covers >> shift; shift = after(shift)) {
		int at = 0;
		memset(packed, 0xff, (size_t)t->size);
		known = show(&m, shift) &&
			!sn_proof_mpi.pack((const void *)((uintptr_t)m.at - (uintptr_t)low), 1, t->type,
					   packed, t->size, &at, sn_mpi_handle(SN_COMM_SELF)) &&
			at == t->size;
		for (int i = 0; i < t->size && known; i++)
			places[i] += (intptr_t)packed[i] << shift;
	}
	give_back(&m);
	free(packed);
	return known;
}

/* One that is known already, or from now on; with the lock. */
static const struct sn_layout *keep(const struct sn_layout *l)
{
	size_t bytes = sizeof(*l) + l->runs * sizeof(*l->run);
	for (unsigned i = 0; i < count; i++)
		if (layouts[i]->runs == l->runs && !memcmp(layouts[i], l, bytes))
			return layouts[i];
	struct sn_layout *kept = count < LAYOUTS ? malloc(bytes) : NULL;
	if (kept)
		layouts[count++] = memcpy(kept, l, bytes);
	return kept;
}

static const struct sn_layout *look(const struct sn_meet_type *t, intptr_t low, size_t covers)
{
	size_t size = (size_t)t->size;
	struct sn_layout *l = calloc(1, sizeof(*l) + RUNS * sizeof(*l->run));
	intptr_t *places = calloc(size, sizeof(*places));
	const struct sn_layout *kept = NULL;
	if (l && places && find_places(places, t, low, covers)) {
		l->size = size;
		l->extent = t->extent;
		l->runs = runs_of(l->run, places, size, low, (intptr_t)covers);
		if (l->runs == 1 && l->run->n == 1)
			l->run->step = t->extent;
		l->chain = l->runs == 1 && l->run->step * (intptr_t)l->run->n == t->extent;
		l->few = l->runs <= FEW;
		for (size_t i = 0; i < l->runs && l->few; i++)
			l->few = l->run[i].n == 1;
		if (l->runs <= RUNS)
			kept = keep(l);
	}
	free(l);
	free(places);
	return kept;
}

/* Not where a byte is in it twice, which nothing may be received into. */
static bool may_be_looked_at(int size, intptr_t covers)
{
	return size <= SIZE && covers >= size && covers <= (intptr_t)(PIECES * PIECE) &&
	       (covers / 4096 <= PAGES || size / 8 <= PAGES);
}

/* With the lock. It has been sent, or received, so it is committed. */
static const struct sn_layout *ask(const struct sn_meet_type *t, unsigned *uses)
{
	handle handlers[2];
	intptr_t low, covers = 0;
	const struct sn_layout *l = NULL;
	bool serial = sn_quick_serial();
	if (*uses == NEVER || ++*uses < USES || count == LAYOUTS)
		return NULL;
	if (serial)
		sn_proof_quiet(handlers);
	bool may = !sn_proof_mpi.type_get_true_extent(t->type, &low, &covers) &&
		   may_be_looked_at(t->size, covers);
	bool now = may && *uses >= USES + (covers / A_USE < MORE ? (unsigned)(covers / A_USE) : MORE);
	if (now)
		l = look(t, low, (size_t)covers);
	if (!may || (now && !l))
		*uses = NEVER;
	if (serial)
		sn_proof_loud(handlers);
	return l;
}

static struct known {
	handle type;
	unsigned generation, uses;
	const struct sn_layout *layout;
} known[KNOWN];

static struct known *place_of(handle type)
{
	return &known[(type ^ type >> 6 ^ type >> 12) % KNOWN];
}

const struct sn_layout *sn_layout_known(handle type, unsigned generation)
{
	bool several = sn_quick_guard(&lock);
	const struct known *k = place_of(type);
	const struct sn_layout *l = likely(k->type == type && k->generation == generation) ? k->layout : NULL;
	sn_quick_unguard(&lock, several);
	return l;
}

static struct known *own_place_of(handle type, unsigned generation)
{
	struct known *k = place_of(type);
	if (!likely(k->type == type && k->generation == generation))
		*k = (struct known){.type = type, .generation = generation};
	return k;
}

bool sn_layout_is_too_new(handle type, unsigned generation)
{
	bool several = sn_quick_guard(&lock);
	struct known *k = own_place_of(type, generation);
	bool new = k->uses < USES - 1;
	k->uses += new;
	sn_quick_unguard(&lock, several);
	return new;
}

const struct sn_layout *sn_layout_of(const struct sn_meet_type *t)
{
	if (t->layout || t->stays || t->size <= 0 || sn_gpu_is_here())
		return t->layout;
	bool several = sn_quick_guard(&lock);
	struct known *k = own_place_of(t->type, t->generation);
	if (!likely(k->layout))
		k->layout = ask(t, &k->uses);
	const struct sn_layout *l = k->layout;
	sn_quick_unguard(&lock, several);
	return l;
}

bool sn_layout_is_whole(const struct sn_layout *l, int n, intptr_t *at)
{
	*at = l->run->at;
	return l->runs == 1 && l->run->n == 1 && (n <= 1 || l->extent == (intptr_t)l->size);
}

/* ---- packing ---- */

#define EACH(to, to_step, from, from_step, n, bytes)                                                         \
	for (size_t i = 0; i < (n); i++)                                                                     \
	memcpy((char *)(to) + (intptr_t)i * (to_step), (const char *)(from) + (intptr_t)i * (from_step),     \
	       bytes)

/* Of other lengths its first bytes, and its last ones, which may be some of the first. */
#define EACH_BY_ENDS(to, to_step, from, from_step, n, len, some)                                             \
	for (size_t i = 0; i < (n); i++) {                                                                   \
		char *t = (to) + (intptr_t)i * (to_step);                                                    \
		const char *f = (from) + (intptr_t)i * (from_step);                                          \
		memcpy(t, f, some);                                                                          \
		memcpy(t + (len) - (some), f + (len) - (some), some);                                        \
	}

/* n blocks of len bytes. Those of a length that is known here are a load and a store each. */
static void blocks(uintptr_t at_to, intptr_t to_step, uintptr_t at_from, intptr_t from_step, size_t n,
		   size_t len)
{
	char *to = (char *)at_to;
	const char *from = (const char *)at_from;
	switch (len) {
	case 0: break;
	case 1: EACH(to, to_step, from, from_step, n, 1); break;
	case 2: EACH(to, to_step, from, from_step, n, 2); break;
	case 4: EACH(to, to_step, from, from_step, n, 4); break;
	case 8: EACH(to, to_step, from, from_step, n, 8); break;
	case 16: EACH(to, to_step, from, from_step, n, 16); break;
	case 32: EACH(to, to_step, from, from_step, n, 32); break;
	default:
		if (len < 4)
			EACH_BY_ENDS(to, to_step, from, from_step, n, len, 2)
		else if (len < 8)
			EACH_BY_ENDS(to, to_step, from, from_step, n, len, 4)
		else if (len < 16)
			EACH_BY_ENDS(to, to_step, from, from_step, n, len, 8)
		else if (len < 32)
			EACH_BY_ENDS(to, to_step, from, from_step, n, len, 16)
		else if (len < 64)
			EACH_BY_ENDS(to, to_step, from, from_step, n, len, 32)
		else
			EACH(to, to_step, from, from_step, n, len);
	}
}

/* Between memory where they lie as the type says, at `apart`, and where they lie together. */
static inline void move(bool out, uintptr_t apart, intptr_t step, uintptr_t packed, intptr_t packed_step,
			size_t n, size_t len)
{
	if (out)
		blocks(packed, packed_step, apart, step, n, len);
	else
		blocks(apart, step, packed, packed_step, n, len);
}

/* So many elements, one after the other. */
static void elements(const struct sn_layout *l, bool out, uintptr_t apart, uintptr_t packed, size_t n)
{
	for (size_t e = 0; e < n; e++) {
		for (size_t i = 0; i < l->runs; i++) {
			const struct sn_run *r = &l->run[i];
			move(out, apart + (uintptr_t)r->at, r->step, packed, (intptr_t)r->len, r->n, r->len);
			packed += r->len * r->n;
		}
		apart += (uintptr_t)l->extent;
	}
}

/* Likewise, of each the first block, then of each the next one: a loop of one kind at a time. */
static void by_blocks(const struct sn_layout *l, bool out, uintptr_t apart, uintptr_t packed, size_t n)
{
	for (size_t i = 0; i < l->runs; i++) {
		const struct sn_run *r = &l->run[i];
		move(out, apart + (uintptr_t)r->at, l->extent, packed, (intptr_t)l->size, n, r->len);
		packed += r->len;
	}
}

/* The first bytes of an element. */
static void part(const struct sn_layout *l, bool out, uintptr_t apart, uintptr_t packed, size_t len)
{
	for (size_t i = 0; i < l->runs && len; i++) {
		const struct sn_run *r = &l->run[i];
		size_t whole = len / r->len < r->n ? len / r->len : r->n;
		move(out, apart + (uintptr_t)r->at, r->step, packed, (intptr_t)r->len, whole, r->len);
		packed += whole * r->len;
		len -= whole * r->len;
		if (whole == r->n || !len)
			continue;
		move(out, apart + (uintptr_t)(r->at + (intptr_t)whole * r->step), 0, packed, 0, 1, len);
		return;
	}
}

static void all(const struct sn_layout *l, bool out, uintptr_t apart, uintptr_t packed, size_t len)
{
	size_t n = len / l->size, chunk = CHUNK / l->size;
	const struct sn_run *r = l->run;
	if (l->chain && r->step == (intptr_t)r->len) {
		move(out, apart + (uintptr_t)r->at, 0, packed, 0, 1, n * l->size);
	} else if (l->chain) {
		move(out, apart + (uintptr_t)r->at, r->step, packed, (intptr_t)r->len, n * r->n, r->len);
	} else if (l->few && chunk > FEW && n > FEW) {
		/* what is read and written in a chunk stays in the nearest cache for its next block */
		for (size_t e = 0; e < n; e += chunk)
			by_blocks(l, out, apart + e * (uintptr_t)l->extent, packed + e * l->size,
				  n - e < chunk ? n - e : chunk);
	} else {
		elements(l, out, apart, packed, n);
	}
	part(l, out, apart + n * (uintptr_t)l->extent, packed + n * l->size, len - n * l->size);
}

void sn_layout_pack(const struct sn_layout *l, void *to, const void *from, size_t len)
{
	all(l, true, (uintptr_t)from, (uintptr_t)to, len);
}

void sn_layout_unpack(const struct sn_layout *l, void *to, const void *from, size_t len)
{
	all(l, false, (uintptr_t)to, (uintptr_t)from, len);
}

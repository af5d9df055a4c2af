/* SPDX-License-Identifier: BSD-3-Clause */
#include "forgotten.h"
#include "own.h"
#include <pthread.h>
#include <stdlib.h>

#define BEGUN 256

enum { SENDS, RECEIVES };
static struct sn_forgotten *lists[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t sends;
_Atomic uint32_t sn_forgotten_receives; /* also those that somebody looks at just now */
static _Atomic handle begun[BEGUN];

/* Not by MPI_Test, which would tell an error handler of what the program has given up. */
static bool is_over(handle real)
{
	uint64_t unused[8];
	int flag = 0;
	return sn_own_mpi[GET_STATUS].value(real, &flag, unused) || flag;
}

static void put_on(int list, struct sn_forgotten *f)
{
	f->next = lists[list];
	lists[list] = f;
}

static void look_at(int list)
{
	struct sn_forgotten *f = lists[list], *next;
	lists[list] = NULL;
	for (; f; f = next) {
		next = f->next;
		if (!is_over(f->real)) {
			put_on(list, f);
			continue;
		}
		if (f->packed.at)
			sn_packed_end(&f->packed, -1);
		sn_own_mpi[REQUEST_FREE].one(&f->real);
		free(f);
		atomic_fetch_sub(list == RECEIVES ? &sn_forgotten_receives : &sends, 1);
	}
}

/* Who is at it may have looked before the message came for which the caller asks. */
void sn_forgotten_see_to(bool brought)
{
	bool several = !sn_quick_serial();
	if (several && brought)
		pthread_mutex_lock(&lock);
	else if (several && pthread_mutex_trylock(&lock))
		return;
	look_at(RECEIVES);
	if (several)
		pthread_mutex_unlock(&lock);
}

void sn_forgotten_sends(void)
{
	if (likely(!atomic_load_explicit(&sends, memory_order_relaxed)))
		return;
	bool several = sn_quick_guard(&lock);
	look_at(SENDS);
	sn_quick_unguard(&lock, several);
}

void sn_forgotten_add(struct sn_forgotten *f)
{
	int list = !f->packed.at || f->packed.in ? RECEIVES : SENDS;
	atomic_fetch_add(list == RECEIVES ? &sn_forgotten_receives : &sends, 1);
	bool several = sn_quick_guard(&lock);
	put_on(list, f);
	look_at(list);
	sn_quick_unguard(&lock, several);
	if (sn_forgotten_any())
		atomic_store(&sn_mpi_shim.pass, SN_SHIM_NOBODY);
}

/* ---- the MPI's own ---- */

static _Atomic handle *place_of(handle request)
{
	return &begun[(request ^ request >> 6 ^ request >> 14) % BEGUN];
}

void sn_forgotten_begun(handle type, const void *request)
{
	if (likely(sn_mpi_builtin(type)) || !request)
		return;
	handle real = sn_mpi_nth(request, 0);
	atomic_store_explicit(place_of(real), real, memory_order_relaxed);
}

bool sn_forgotten_takes(void *request)
{
	handle real = sn_mpi_nth(request, 0);
	handle noted = real;
	if (!atomic_compare_exchange_strong(place_of(real), &noted, 0) || is_over(real))
		return false;
	struct sn_forgotten *f = malloc(sizeof(*f));
	if (!f)
		return false;
	*f = (struct sn_forgotten){.real = real};
	put(request, 0, sn_own_null);
	sn_forgotten_add(f);
	return true;
}

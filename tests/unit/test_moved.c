/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cores that are taken away from a process while it runs, and given back: who waits stops spinning, and spins again,
 * unless the other has a core of his own. The process plays one of two; the other is a page, so no time is measured,
 * and yields are counted.
 */
#include "base/base.h"
#include "progress/bell.h"
#include "progress/memfd.h"
#include "progress/relax.h"
#include "unit.h"
#include <sched.h>
#include <time.h>

static int nothing(void *arg)
{
	return 0;
}

static void counter(void *arg, const char *name, uint64_t value)
{
	if (!strcmp(name, "progress.yields"))
		*(uint64_t *)arg = value;
}

static uint64_t yields(void)
{
	uint64_t n = 0;
	sn_relax_counters(counter, &n);
	return n;
}

/* Waits of one step each, until the process thinks so of its cores; within the time that any machine takes. */
static bool waits_until(bool crowded, time_t seconds)
{
	for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
		uint64_t idle = 0;
		sn_relax_step(&idle, 0, nothing, NULL);
		if (sn_relax_crowded() == crowded)
			return true;
	}
	return false;
}

/* Of a wait that has just begun. */
static bool yields_at_once(void)
{
	uint64_t idle = 0, before = yields();
	sn_relax_step(&idle, 0, nothing, NULL);
	return yields() > before;
}

static void bind_to(const cpu_set_t *cores)
{
	assert_int_equal(sched_setaffinity(0, sizeof(*cores), cores), 0);
}

static cpu_set_t all, first, second;

/* This process's own page, so that the other is always bound as it is. */
static void who_waits_yields_as_soon_as_there_is_one_core_for_two(void **state)
{
	struct sn_bell *other = sn_bell_map(sn_bell_fd());
	assert_non_null(other);
	sn_relax_crowd(1);
	assert_false(sn_relax_crowded());
	assert_false(yields_at_once());
	for (int lap = 0; lap < 3; lap++) {
		bind_to(lap & 1 ? &second : &first);
		assert_true(waits_until(true, 20));
		assert_true(yields_at_once());
		bind_to(&all);
		assert_true(waits_until(false, 20));
		assert_false(yields_at_once());
	}
	sn_bell_unmap(other);
}

static void who_has_a_core_for_himself_spins_on_it(void **state)
{
	void *page;
	int fd = sn_memfd_new("sennit-bell", SN_BELL_BYTES, &page);
	assert_true(fd >= 0);
	struct sn_bell *other = sn_bell_map(fd), *its = page;
	assert_non_null(other);
	for (int cpu = 0; cpu < SN_BELL_CPUS; cpu++)
		if (CPU_ISSET(cpu, &second))
			atomic_store(&its->cpus[cpu / 64], UINT64_C(1) << cpu % 64);
	bind_to(&first);
	assert_false(waits_until(true, 2));
	bind_to(&second);
	assert_true(waits_until(true, 20));
	bind_to(&all);
	assert_true(waits_until(false, 20));
	sn_bell_unmap(other);
}

static void take_two_cores(void)
{
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; !CPU_COUNT(&second); cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, CPU_COUNT(&first) ? &second : &first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_yields_as_soon_as_there_is_one_core_for_two),
		cmocka_unit_test(who_has_a_core_for_himself_spins_on_it),
	};
	if (sn_topo_cpus_allowed() < 2) {
		print_message("skipped: two cores are needed\n");
		return 77;
	}
	take_two_cores();
	return sn_bell_open() ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}

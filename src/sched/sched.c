/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of strategies. */
#include "sched/sched.h"
#include <stdio.h>

static const struct sn_strategy *const known[] = {&sn_strategy_fifo, &sn_strategy_aggregate,
						  &sn_strategy_split, &sn_strategy_equal};

const struct sn_strategy *sn_sched_known(unsigned i)
{
	return i < sizeof(known) / sizeof(known[0]) ? known[i] : NULL;
}

static void lay_over(struct sn_strategy *out, const struct sn_strategy *s)
{
	out->ready = s->ready ? s->ready : out->ready;
	out->join = s->join ? s->join : out->join;
	out->depart = s->depart ? s->depart : out->depart;
	out->small = s->small ? s->small : out->small;
	out->block = s->block ? s->block : out->block;
}

bool sn_sched_choose(const char *list, struct sn_strategy *out, char *bad, size_t bad_size)
{
	*out = sn_strategy_fifo;
	out->name = "chosen";
	while (*list) {
		size_t len = strcspn(list, ",+ ");
		const struct sn_strategy *s = NULL;
		for (unsigned i = 0; sn_sched_known(i) && len; i++)
			if (strlen(known[i]->name) == len && strncmp(known[i]->name, list, len) == 0)
				s = known[i];
		if (len && s == NULL) {
			snprintf(bad, bad_size, "%.*s", (int)len, list);
			return false;
		}
		if (s)
			lay_over(out, s);
		list += len + (list[len] != 0);
	}
	return true;
}

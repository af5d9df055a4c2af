/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/local.h"
#include <stdlib.h>

void sn_slots_init(struct sn_slots *s, size_t size)
{
	*s = (struct sn_slots){.size = size};
	sn_list_init(&s->free);
}

void *sn_slot_new(struct sn_slots *s)
{
	struct sn_slot *slot;
	if (!sn_list_empty(&s->free)) {
		slot = sn_container(s->free.next, struct sn_slot, list);
		sn_list_del(&slot->list);
		slot->used = true;
		return slot;
	}
	if (s->count == s->room) {
		uint32_t room = s->room ? s->room * 2 : 8;
		struct sn_slot **at = realloc(s->at, room * sizeof(struct sn_slot *));
		if (!at)
			return NULL;
		s->at = at;
		s->room = room;
	}
	slot = calloc(1, s->size);
	if (!slot)
		return NULL;
	sn_list_init(&slot->list);
	slot->index = s->count;
	slot->generation = 1;
	slot->used = true;
	s->at[s->count++] = slot;
	return slot;
}

void sn_slot_free(struct sn_slots *s, struct sn_slot *slot)
{
	sn_list_del(&slot->list);
	slot->used = false;
	slot->generation++;
	sn_list_add_tail(&s->free, &slot->list);
}

void sn_slots_destroy(struct sn_slots *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		free(s->at[i]);
	free(s->at);
}

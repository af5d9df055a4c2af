/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/local.h"
#include "progress/relax.h"
#include <stdio.h>

static void show_right(struct sn_live_row *row, int error)
{
	if (error)
		sn_live_text(row, "refused: %s", strerror(error));
	else
		sn_live_text(row, "allowed");
}

void sn_show_rights(struct sn_link *link)
{
	show_right(link->live.reading, link->read_error);
	show_right(link->live.writing, link->write_error);
}

void sn_show_peer(struct sn_link *link)
{
	uint64_t ep = link->rail->ids.id;
	uint32_t number = sn_core_peer_number(link->peer);
	int rank = sn_core_peer_rank(link->peer);
	if (rank >= 0)
		snprintf(link->scope, sizeof(link->scope), "peer %u (rank %d, pid %u)", number, rank,
			 link->pid);
	else
		snprintf(link->scope, sizeof(link->scope), "peer %u (pid %u)", number, link->pid);
	sn_live_text(sn_live_add(ep, link->scope, "rail", ""), "local: shared memory on this node");
	const char *mapped = link->heap.span.static_bytes
				     ? "mapped, as its static memory is: copied without the kernel"
				     : "mapped: copied without the kernel";
	sn_live_text(sn_live_add(ep, link->scope, "its large allocations", ""), "%s",
		     link->heap.map ? mapped : "not shareable");
	link->live.reading = sn_live_add(ep, link->scope, "reading its memory", "");
	link->live.writing = sn_live_add(ep, link->scope, "writing its memory", "");
	sn_show_rights(link);
}

void sn_show_far(struct sn_link *link)
{
	if (!link->scope[0])
		return;
	if (!link->live.cores)
		link->live.cores = sn_live_add(link->rail->ids.id, link->scope, "its core", "");
	sn_live_text(link->live.cores, "%s: a line in %u ns, as seen from here",
		     link->far.far ? "shares no cache with this one" : "shares a cache with this one",
		     link->far.ns);
}

void sn_show_waiting(struct sn_rail *rail)
{
	char text[96];
	if (!rail->waiting)
		rail->waiting = sn_live_add(rail->ids.id, "rail local", "cores", "");
	sn_relax_describe(rail->rivals, text, sizeof(text));
	sn_live_text(rail->waiting, "%s", text);
}

static void size_text(char out[32], unsigned log)
{
	uint64_t bytes = UINT64_C(1) << log;
	if (bytes >= 1u << 20)
		snprintf(out, 32, "%llu MiB", (unsigned long long)bytes >> 20);
	else
		snprintf(out, 32, "%llu KiB", (unsigned long long)bytes >> 10);
}

/* "shared 21500 MB/s; single 11200, stream 9000; learned anew 2 times" */
void sn_show_way(struct sn_link *link, enum sn_order order, unsigned class)
{
	const struct sn_learn_class *c = &link->learn[order].at[class];
	struct sn_live_row **row = &link->live.way[order][class];
	static const char *const kinds[SN_ORDERS] = {"sent,", "received,", "sent, mapped,",
						     "received, mapped,"};
	char size[32], name[48], others[48] = "", *at = others;
	if (!link->scope[0])
		return;
	if (!*row) {
		size_text(size, class + SN_LEARN_FIRST);
		snprintf(name, sizeof(name), "%s %s", kinds[order], size);
		*row = sn_live_add(link->rail->ids.id, link->scope, name, "");
	}
	for (unsigned w = 0; w < SN_WAYS; w++)
		if (w != c->best && c->samples[w])
			at += snprintf(at, (size_t)(others + sizeof(others) - at), "%s %s %.0f",
				       at == others ? ";" : ",", sn_way_name((enum sn_way)w),
				       1e6 / (double)c->cost[w]);
	sn_live_text(*row, "%s %.0f MB/s%s; learned anew %u times", sn_way_name((enum sn_way)c->best),
		     1e6 / (double)c->cost[c->best], others, c->relearned);
}

/* "straight 1.21 us a message; through the ring 1.52": of the program's own loop, what it did in between included */
static void show_lap(struct sn_link *link, struct sn_live_row **row, const struct sn_lap *l, const char *kind,
		     unsigned log, const char *const names[2])
{
	char size[32], name[48];
	if (!link->scope[0])
		return;
	if (!*row) {
		size_text(size, log);
		snprintf(name, sizeof(name), "%s, %s", kind, size);
		*row = sn_live_add(link->rail->ids.id, link->scope, name, "");
	}
	sn_live_text(*row, "%s %.2f us a message; %s %.2f", names[l->way], (double)l->ns[l->way] / 1e3,
		     names[!l->way], (double)l->ns[!l->way] / 1e3);
}

void sn_show_lap(struct sn_link *link, unsigned class)
{
	static const char *const names[] = {"through the ring", "straight"};
	show_lap(link, &link->live.lap[class], &link->laps[class], "sent at once", class + SN_WAY_LAP_FIRST,
		 names);
}

void sn_show_fetched(struct sn_link *link, unsigned class)
{
	static const char *const names[] = {"written by the sender", "fetched by the receiver"};
	show_lap(link, &link->live.fetched[class], &link->fetched[class], "sent straight",
		 class + SN_WAY_LAP_FIRST, names);
}

static const char *const past_names[] = {"through the cache", "past it"};

void sn_show_past_ring(struct sn_link *link, unsigned class)
{
	show_lap(link, &link->live.past_ring[class], &link->past_ring[class], "into the ring",
		 class + SN_WAY_LAP_FIRST, past_names);
}

void sn_show_past(struct sn_link *link, unsigned class)
{
	show_lap(link, &link->live.past[class], &link->past[class], "mapped", class + SN_LEARN_FIRST,
		 past_names);
}

void sn_show_gone(struct sn_link *link)
{
	if (link->scope[0])
		sn_live_remove_scope(link->rail->ids.id, link->scope);
	link->scope[0] = '\0';
	memset(&link->live, 0, sizeof(link->live));
}

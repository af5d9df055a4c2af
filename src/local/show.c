/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/local.h"
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
	snprintf(link->scope, sizeof(link->scope), "peer %u (pid %u)", sn_core_peer_number(link->peer),
		 link->pid);
	sn_live_text(sn_live_add(ep, link->scope, "rail", ""), "local: shared memory on this node");
	link->live.reading = sn_live_add(ep, link->scope, "reading its memory", "");
	link->live.writing = sn_live_add(ep, link->scope, "writing its memory", "");
	sn_show_rights(link);
}

void sn_show_gone(struct sn_link *link)
{
	if (link->scope[0])
		sn_live_remove_scope(link->rail->ids.id, link->scope);
	link->scope[0] = '\0';
	memset(&link->live, 0, sizeof(link->live));
}

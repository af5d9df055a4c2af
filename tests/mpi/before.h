/* SPDX-License-Identifier: BSD-3-Clause */
/* For sums.c and blocks.c: what one rank may do before MPI_Init, and others need not. */
#ifndef BEFORE_H
#define BEFORE_H

#include "without.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What it was before, which changes nothing. */
static bool write_variable(int i)
{
	char name[256];
	int len = sizeof(name), verbosity, bind, scope, count, was[16];
	MPI_Datatype type;
	MPI_T_cvar_handle it;
	if (MPI_T_cvar_get_info(i, name, &len, &verbosity, &type, NULL, NULL, NULL, &bind, &scope) ||
	    type != MPI_INT || bind != MPI_T_BIND_NO_OBJECT || MPI_T_cvar_handle_alloc(i, NULL, &it, &count))
		return false;
	bool written = count <= 16 && !MPI_T_cvar_read(it, was) && !MPI_T_cvar_write(it, was);
	MPI_T_cvar_handle_free(&it);
	return written;
}

static void variable(void)
{
	int provided, count = 0, i = 0;
	if (!is_rank_1())
		return;
	MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
	MPI_T_cvar_get_num(&count);
	while (i < count && !write_variable(i))
		i++;
	if (i == count)
		printf("no variable of %d can be written\n", count);
}

#if MPI_VERSION >= 4
static MPI_Session session;

static void session_begins(void)
{
	MPI_Group group;
	MPI_Comm self;
	MPI_Request request;
	int in = 0, out = 3;
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
	MPI_Group_from_session_pset(session, "mpi://SELF", &group);
	MPI_Comm_create_from_group(group, "sums", MPI_INFO_NULL, MPI_ERRORS_RETURN, &self);
	if (is_rank_1()) {
		MPI_Irecv(&in, 1, MPI_INT, 0, 0, self, &request);
		MPI_Send(&out, 1, MPI_INT, 0, 0, self);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		if (in != out)
			printf("a message in a session brought %d\n", in);
	}
	MPI_Comm_free(&self);
	MPI_Group_free(&group);
}

static void session_ends(void)
{
	MPI_Session_finalize(&session);
}
#else
static void session_begins(void)
{
}

static void session_ends(void)
{
}
#endif

#endif

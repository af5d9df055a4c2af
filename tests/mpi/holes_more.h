/* SPDX-License-Identifier: BSD-3-Clause */
/* For holes.c, with its buffers: receives of which nobody but who has received them knows how much has come. */
#ifndef SN_TESTS_HOLES_MORE_H
#define SN_TESTS_HOLES_MORE_H

/*
 * A short message that has come by the time of the first other question of its request, of which nobody knows how long it is but
 * who has received it. Of rank 0, to 1.
 */
static void there_already(int question)
{
	enum { BLOCKS = 64, TIMES = 200, SHORT = 40, LEN = BLOCKS * 8 };
	MPI_Request r[2];
	MPI_Datatype type;
	MPI_Type_vector(BLOCKS, 8, 16, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	st.doing = "there already";
	for (int i = 0; i < TIMES; i++) {
		int len = i < TIMES - 1 ? LEN : SHORT, flag = 0;
		if (rank == 0) {
			memset(out, i, LEN);
			for (int k = 0; k < 2; k++)
				MPI_Send(out, len, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
		} else if (rank == 1) {
			memset(in, GUARD, 4 * LEN);
			for (int k = 0; k < 2; k++)
				MPI_Irecv(in + 2 * k * LEN, 1, type, 0, TAG, MPI_COMM_WORLD, &r[k]);
			usleep(len == LEN ? 0 : 20000);
			MPI_Wait(&r[0], MPI_STATUS_IGNORE);
			while (question == 1 && len < LEN && !flag)
				MPI_Request_get_status(r[1], &flag, MPI_STATUS_IGNORE);
			if (question == 2 && len < LEN)
				MPI_Cancel(&r[1]);
			if (question == 3 && len < LEN)
				must(MPI_Request_c2f(r[1]) != MPI_Request_c2f(MPI_REQUEST_NULL),
				     "MPI_Request_c2f");
			if (question == 4 && len < LEN)
				MPI_Request_free(&r[1]);
			if (r[1] != MPI_REQUEST_NULL)
				MPI_Wait(&r[1], MPI_STATUS_IGNORE);
			for (int k = 0; k < 4 * LEN; k++) {
				int at = k % (2 * LEN);
				bool there = at % 16 < 8 && at / 16 * 8 + at % 16 < len;
				must(in[k] == (there ? (char)i : (char)GUARD),
				     "there already, %d: byte %d is %d", i, k, in[k]);
			}
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Type_free(&type);
}

/* In one call, or by each way to end it, or to see that it has ended: then this is what is left of it. */
static MPI_Request take_later(int way, char *sum, int from)
{
	MPI_Message message;
	MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	int flag = 0, index, indices[2];
	switch (way) {
	case 0: MPI_Recv(sum, 1, MPI_BYTE, from, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); return r[0];
	case 1:
		MPI_Mprobe(from, TAG + 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
		MPI_Mrecv(sum, 1, MPI_BYTE, &message, MPI_STATUS_IGNORE);
		return r[0];
	case 10:
		MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, sum, 1, MPI_BYTE, from, TAG + 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		return r[0];
	case 11:
		MPI_Sendrecv_replace(sum, 1, MPI_BYTE, MPI_PROC_NULL, 0, from, TAG + 1, MPI_COMM_WORLD,
				     MPI_STATUS_IGNORE);
		return r[0];
	default: MPI_Irecv(sum, 1, MPI_BYTE, from, TAG + 1, MPI_COMM_WORLD, &r[0]);
	}
	switch (way) {
	case 2: MPI_Wait(&r[0], MPI_STATUS_IGNORE); return r[0];
	case 3: MPI_Waitall(2, r, MPI_STATUSES_IGNORE); return r[0];
	case 4: MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE); return r[0];
	case 5: MPI_Waitsome(2, r, &index, indices, MPI_STATUSES_IGNORE); return r[0];
	default: break;
	}
	while (!flag) {
		if (way == 6)
			MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
		else if (way == 7)
			MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);
		else if (way == 8)
			MPI_Testany(2, r, &index, &flag, MPI_STATUS_IGNORE);
		else if (way == 9)
			MPI_Testsome(2, r, &flag, indices, MPI_STATUSES_IGNORE);
		else
			MPI_Request_get_status(r[0], &flag, MPI_STATUS_IGNORE);
	}
	return r[0];
}

/*
 * Nobody asks any more after a receive that was freed. It is there when a message is that was sent later, by these
 * calls, and also where that was awaited before. So many are not freed: by then the type is known.
 */
static void freed(int first)
{
	enum { BLOCKS = 100, WAYS = 13, LEN = BLOCKS * 8 };
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	MPI_Datatype type;
	MPI_Type_vector(BLOCKS, 8, 16, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	st.doing = "freed";
	for (int i = 0; i < first + 6 * WAYS; i++) {
		char sum = (char)i, got = 0, before = 0;
		bool frees = i >= first, waits = i % 4 == 1;
		MPI_Request r, other, left = MPI_REQUEST_NULL;
		memset(out, i, LEN);
		memset(in, GUARD, 2 * LEN);
		MPI_Irecv(&before, 1, MPI_BYTE, from, TAG + 2, MPI_COMM_WORLD, &other);
		MPI_Irecv(in, 1, type, from, TAG, MPI_COMM_WORLD, &r);
		if (frees)
			MPI_Request_free(&r);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Send(out, LEN, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
		if (i % 2)
			MPI_Send(&sum, 1, MPI_BYTE, to, TAG + 2, MPI_COMM_WORLD);
		MPI_Send(&sum, 1, MPI_BYTE, to, TAG + 1, MPI_COMM_WORLD);
		if (i % 2 == 0)
			MPI_Send(&sum, 1, MPI_BYTE, to, TAG + 2, MPI_COMM_WORLD);
		if (!frees)
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (waits)
			MPI_Wait(&other, MPI_STATUS_IGNORE);
		else
			left = take_later(i / 6 % WAYS, &got, from);
		for (int k = 0; k < 2 * LEN; k++)
			must(in[k] == (k % 16 < 8 ? (char)i : (char)GUARD), "freed, %d: byte %d is %d", i, k,
			     in[k]);
		if (waits)
			left = take_later(i / 6 % WAYS, &got, from);
		else
			MPI_Wait(&other, MPI_STATUS_IGNORE);
		MPI_Wait(&left, MPI_STATUS_IGNORE);
		must(got == sum && before == sum, "freed, %d: what was sent later is %d and %d", i, got,
		     before);
	}
	MPI_Type_free(&type);
}

/* Many at once, each of another length, and of most less than there is room for. */
static void many(void)
{
	enum { MANY = 24, BLOCKS = 1024, LEN = BLOCKS * 8, TIMES = 60 };
	MPI_Request r[2 * MANY];
	MPI_Datatype type;
	MPI_Type_vector(BLOCKS, 8, 16, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	st.doing = "many";
	for (int i = 0; i < TIMES; i++) {
		memset(in, GUARD, ROOM);
		for (int k = 0; k < MANY; k++)
			MPI_Irecv(in + (size_t)k * 2 * LEN, 1, type, (rank + ranks - 1) % ranks, TAG + k,
				  MPI_COMM_WORLD, &r[k]);
		for (int k = 0; k < MANY; k++) {
			memset(out + (size_t)k * LEN, i + k, LEN);
			MPI_Isend(out + (size_t)k * LEN, (i * 977 + k * 3571) % (LEN + 1), MPI_BYTE,
				  (rank + 1) % ranks, TAG + k, MPI_COMM_WORLD, &r[MANY + k]);
		}
		MPI_Waitall(2 * MANY, r, MPI_STATUSES_IGNORE);
		for (int k = 0; k < MANY; k++)
			for (int b = 0; b < 2 * LEN; b++) {
				bool there =
					b % 16 < 8 && b / 16 * 8 + b % 16 < (i * 977 + k * 3571) % (LEN + 1);
				must(in[k * 2 * LEN + b] == (there ? (char)(i + k) : (char)GUARD),
				     "many, %d: byte %d of %d is %d", i, b, k, in[k * 2 * LEN + b]);
			}
	}
	MPI_Type_free(&type);
}

#endif

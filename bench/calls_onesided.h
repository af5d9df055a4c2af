/* SPDX-License-Identifier: BSD-3-Clause */
/* For calls.c: one-sided calls, in windows of the MPI's memory and of the program's, with its buffers. */
#ifndef SN_BENCH_CALLS_ONESIDED_H
#define SN_BENCH_CALLS_ONESIDED_H

static void allocated_begin(int n)
{
	MPI_Win_allocate((MPI_Aint)n * 2, 1, MPI_INFO_NULL, all, &window, &win);
	memset(window, 0, (size_t)n * 2);
	MPI_Win_fence(0, win);
}

static void created_begin(int n)
{
	MPI_Win_create(theirs, (MPI_Aint)n * 2, 1, MPI_INFO_NULL, all, &win);
	MPI_Win_fence(0, win);
}

static void locked_begin(int n)
{
	allocated_begin(n);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
	MPI_Win_lock_all(0, win);
}

static void window_end(int n)
{
	(void)n;
	MPI_Win_free(&win);
}

static void locked_end(int n)
{
	MPI_Win_unlock_all(win);
	window_end(n);
}

static void put_flush(int n)
{
	MPI_Put(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
	MPI_Win_flush(right, win);
}

static void get_flush(int n)
{
	MPI_Get(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
	MPI_Win_flush(right, win);
}

static void accumulate_flush(int n)
{
	MPI_Accumulate(mine, n / 8, MPI_LONG, right, 0, n / 8, MPI_LONG, MPI_SUM, win);
	MPI_Win_flush(right, win);
}

static void fetch_and_op(int n)
{
	(void)n;
	MPI_Fetch_and_op(mine, theirs, MPI_LONG, right, 0, MPI_SUM, win);
	MPI_Win_flush(right, win);
}

static void put_fence(int n)
{
	MPI_Put(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
	MPI_Win_fence(0, win);
}

static void get_fence(int n)
{
	MPI_Get(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
	MPI_Win_fence(0, win);
}

static void put_start_post(int n)
{
	MPI_Win_post(around, 0, win);
	MPI_Win_start(around, 0, win);
	MPI_Put(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
	MPI_Win_complete(win);
	MPI_Win_wait(win);
}

static void lock_put(int n)
{
	MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
	MPI_Put(mine, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
	MPI_Win_unlock(right, win);
}

#endif

# SPDX-License-Identifier: BSD-3-Clause
"""An mpi4py program of the ordinary kind, for mpi4py 3 and 4, that checks what it gets."""

import array
import sys

from mpi4py import MPI


def pattern(rank, length):
    return bytes((rank * 31 + i * 7) & 255 for i in range(257)) * (length // 257 + 1)


def objects(comm, rank, size):
    thing = {"rank": rank, "list": list(range(rank * 100)), "text": "x" * (1000 * rank)}
    got = comm.sendrecv(thing, dest=(rank + 1) % size, source=(rank - 1) % size)
    left = (rank - 1) % size
    assert got == {"rank": left, "list": list(range(left * 100)), "text": "x" * (1000 * left)}
    everybody = comm.allgather((rank, rank**2))
    assert everybody == [(r, r**2) for r in range(size)]
    swapped = comm.alltoall([(rank, to) for to in range(size)])
    assert swapped == [(frm, rank) for frm in range(size)]
    shared = comm.bcast({"seed": 42} if rank == 0 else None, root=0)
    assert shared == {"seed": 42}


def buffers(comm, rank, size):
    for length in (0, 1, 100, 5000, 100_000, 3_000_000, 20_000_000):
        right, left = (rank + 1) % size, (rank - 1) % size
        incoming = bytearray(length)
        requests = [comm.Irecv([incoming, MPI.BYTE], source=left, tag=length % 1000),
                    comm.Isend([pattern(rank, length)[:length], MPI.BYTE], dest=right, tag=length % 1000)]
        MPI.Request.Waitall(requests)
        assert incoming == pattern(left, length)[:length], f"{length} bytes from {left} are wrong"


def reductions(comm, rank, size):
    for count in (1, 1000, 200_000):
        mine = array.array("d", (rank + i for i in range(count)))
        total = array.array("d", bytes(8 * count))
        comm.Allreduce([mine, MPI.DOUBLE], [total, MPI.DOUBLE], op=MPI.SUM)
        ranks = size * (size - 1) // 2
        assert all(total[i] == ranks + size * i for i in range(count))


def strided(comm, rank, size):
    """Columns of a matrix, sent to every other rank and received by whoever comes."""
    rows, columns = 300, 50
    column = MPI.DOUBLE.Create_vector(rows, 1, columns).Commit()
    matrix = array.array("d", (rank * 1e6 + i for i in range(rows * columns)))
    requests = [comm.Isend([matrix, 1, column], dest=to, tag=5) for to in range(size)]
    seen = set()
    for _ in range(size):
        got = array.array("d", bytes(8 * rows))
        status = MPI.Status()
        message = comm.Mprobe(MPI.ANY_SOURCE, 5, status)
        message.Recv([got, MPI.DOUBLE], status)
        source = status.Get_source()
        seen.add(source)
        assert list(got) == [source * 1e6 + i * columns for i in range(rows)]
    MPI.Request.Waitall(requests)
    assert seen == set(range(size))
    column.Free()


def main():
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    for part in (objects, buffers, reductions, strided):
        part(comm, rank, size)
    comm.Barrier()
    if rank == 0:
        print(f"program.py: all right on {size} ranks of {MPI.Get_library_version().split(',')[0]}")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)

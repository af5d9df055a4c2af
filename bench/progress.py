#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Progress: how much of a transfer hides behind computing, what a waiting rank uses, what more ranks than cores cost, and
what the progress thread costs a ping-pong. Sennit with and without its thread, and each MPI of this machine by itself, with
its own asynchronous progress where it has one.

    progress.py [--build BUILD] [--rounds N] [--only WORDS] [--ranks 2,4,8,16] [--sizes 4k,64k,...] [--minutes M]

Each round runs every candidate once; shown are medians, and the range over the rounds. Overlap is the share of the shorter of
transfer and computation that was hidden, 1: all of it. Nothing is written to disk.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import bench  # pylint: disable=wrong-import-position

SIZES = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


def candidates():
    ob1 = ["--mca", "pml", "ob1", "--mca", "btl"]
    shm = {"I_MPI_FABRICS": "shm"}
    off = {"SENNIT_PROGRESS": "0"}
    all_of = [
        bench.Candidate("Open MPI 4", "o4", options=[*ob1, "self,vader"]),
        bench.Candidate("Open MPI 5", "o5", options=[*ob1, "self,sm"]),
        bench.Candidate("MPICH 5", "m5"),
        bench.Candidate("MPICH 5, async", "m5", env={"MPIR_CVAR_ASYNC_PROGRESS": "1"}),
        bench.Candidate("Intel MPI", "im", env=shm),
        bench.Candidate("Intel MPI, async", "im", env={"I_MPI_ASYNC_PROGRESS": "1"}),
        bench.Candidate("sennit, Open MPI 4", "o4", ours=True),
        bench.Candidate("sennit, Open MPI 4, no thread", "o4", ours=True, env=off),
        bench.Candidate("sennit, Open MPI 5", "o5", ours=True),
        bench.Candidate("sennit, MPICH 5", "m5", ours=True),
        bench.Candidate("sennit, Intel MPI", "im", ours=True),
    ]
    return [c for c in all_of if os.path.exists(bench.launcher(c.mpi)) and os.path.exists(bench.compiler(c.mpi))]


def size_of(text):
    shift = {"k": 10, "m": 20}.get(text[-1].lower(), 0)
    return int(text[:-1] if shift else text) << shift


def rows_of(ranks, sizes):
    if ranks > (os.cpu_count() or 1):
        return ["allreduce:8:100", "exchange:8:100", "alltoall:4096:100"]
    return ["lat:8:100", "lat:4096:100", "idle:0", *(f"{side}:{n}" for n in sizes for side in ("hidesend", "hiderecv"))]


def compile_for(build, chosen):
    programs = os.path.join(build, "bench-programs")
    os.makedirs(programs, exist_ok=True)
    for mpi in sorted({c.mpi for c in chosen}):
        subprocess.run([bench.compiler(mpi), "-O2", "-Wno-stringop-overflow", "-std=c17", "-D_GNU_SOURCE", "-o",
                        os.path.join(programs, "rows." + mpi), os.path.join(HERE, "rows.c")], check=True)
    return programs


def run(candidate, ranks, rows, build, programs, limit):
    """{row: value}, as far as it got."""
    command = candidate.command([os.path.join(programs, "rows." + candidate.mpi), *rows], ranks, build)
    with subprocess.Popen(command, env=candidate.environment(ranks), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, cwd=programs, start_new_session=True) as job:
        try:
            text = job.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, 9)
            text = job.communicate()[0]
    found = [line.split() for line in text.splitlines()]
    return {w[0]: float(w[1]) for w in found if len(w) >= 4 and w[0].split(":")[0] in {r.split(":")[0] for r in rows}}


def table(samples, chosen):
    for row in samples:
        print(f"\n{row}")
        for c in chosen:
            v = samples[row].get(c.name)
            if v:
                print(f"  {c.name:30} {statistics.median(v):10.3f}   {min(v):.3f} to {max(v):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="candidates whose names contain one of these, separated by ;")
    parser.add_argument("--ranks", default="2,4,8,16")
    parser.add_argument("--sizes", default=",".join(f"{n >> 10}k" for n in SIZES))
    parser.add_argument("--minutes", type=float, default=15)
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    chosen = [c for c in candidates() if not args.only or any(w.lower() in c.name.lower() for w in args.only.split(";"))]
    if not chosen:
        sys.exit("progress.py: no MPI of this machine is meant")
    programs = compile_for(build, chosen)
    sizes = [size_of(s) for s in args.sizes.split(",")]
    samples, end = {}, time.monotonic() + args.minutes * 60
    for turn in range(args.rounds):
        for ranks in (int(n) for n in args.ranks.split(",")):
            for i in range(len(chosen)):
                c = chosen[(i + turn) % len(chosen)]
                left = end - time.monotonic()
                if left < 5:
                    break
                got = run(c, ranks, rows_of(ranks, sizes), build, programs, min(60, left))
                for row, value in got.items():
                    samples.setdefault(f"{bench.title(row)}, {ranks} ranks", {}).setdefault(c.name, []).append(value)
    table(samples, chosen)


if __name__ == "__main__":
    main()

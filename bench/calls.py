#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make calls: is any call of MPI slower over sennit than over the same MPI by itself?

    calls.py [--build BUILD] [--mpi o4,o5,m5,im] [--ranks N] [--rounds N] [--ms MS] [--all] [NAME...]

Runs bench/calls.c, a figure for each kind of call and length, in turns over each MPI by itself (its shared memory, not UCX)
and over sennit, and prints the medians of both where sennit takes more than a tenth longer (with --all each), the worst first.
Cores that share a cache while a figure is taken and those that do not are told apart, as in bench.py. NAME: only calls whose
names begin so.
"""
import argparse
import os
import statistics
import subprocess
import sys

import bench
import launch

WORSE = 1.1
LIMIT = 240  # s a run may take


def take(text, samples, ours, ranks):
    """Adds what a run has printed; how many lines said nothing, as the cores moved."""
    lost = 0
    for line in text.splitlines():
        name, us, before, after = line.split()
        low, high = sorted((float(before), float(after)))
        where = bench.ANY if ranks > 2 else bench.place(low, high)
        if where is None or low and high > low * bench.AGREE:
            lost += 1
            continue
        samples.setdefault((name, where), ([], []))[ours].append(float(us))
    return lost


def report(mpi, samples, everything):
    rows = [(statistics.median(ours) / statistics.median(stock), name, where, stock, ours)
            for (name, where), (stock, ours) in samples.items() if stock and ours]
    slower = [r for r in rows if r[0] > WORSE]
    for ratio, name, where, stock, ours in sorted(rows if everything else slower, reverse=True):
        print(f"{mpi:3} {name:26} {where:5} {statistics.median(stock):10.3f} -> {statistics.median(ours):10.3f} us"
              f"   {ratio:5.2f}   ({len(stock)}, {len(ours)} samples)")
    print(f"{mpi}: {len(rows)} figures; over sennit {len(slower)} are more than a tenth slower, "
          f"{sum(r[0] < 1 / WORSE for r in rows)} more than a tenth faster", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--mpi", help="of o4, o5, m5, im, m4 (default: all that are here)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ms", type=float, default=10, help="for each figure")
    parser.add_argument("--all", action="store_true", help="print every figure")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    if args.ranks < 2 or args.ranks % 2:
        parser.error("the ranks have to be an even number: they send in pairs")
    launch.heed()
    build = os.path.abspath(args.build)
    here = [c for c in bench.candidates() if "UCX" not in c.name]
    mpis = [m for m in dict.fromkeys(c.mpi for c in here if c.ours) if not args.mpi or m in args.mpi.split(",")]
    if not mpis:
        sys.exit(f"calls: none of {args.mpi or 'the MPIs'} is here (sh tests/peers.sh installs those that come from PyPI)")
    failed = False
    for mpi in mpis:
        program, samples, lost = bench.compiled("calls", mpi, os.path.join(build, "bench-programs")), {}, 0
        for _ in range(args.rounds):
            for c in (c for c in here if c.mpi == mpi):
                ended = launch.run(c.command([program, str(args.ms), *args.names], args.ranks, build), c.environment(args.ranks),
                                   limit=LIMIT, errors=subprocess.PIPE)
                lost += take(ended.text, samples, c.ours, args.ranks)
                if ended.status or ended.late:
                    failed = True
                    print(f"{c.name}: {'did not end' if ended.late else ended.errors.strip()[-300:]}", file=sys.stderr)
        if not samples and not failed:
            sys.exit(f"calls: no call's name begins with {' or '.join(args.names)} (bench/calls.c has the table)")
        report(mpi, samples, args.all)
        if lost:
            print(f"{lost} figures of {mpi} were dropped: the cores moved meanwhile")
    sys.exit(failed)


if __name__ == "__main__":
    main()

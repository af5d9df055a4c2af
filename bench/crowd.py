#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""More ranks than cores: sennit beside every stock MPI, in one short run, alternating.

    crowd.py [--build BUILD] [--ranks 4,8] [--rows ROWS] [--only NAMES] [--with NAME=VALUE[,NAME=VALUE]]... [--against BUILD]
             [--rounds N] [--seconds S]

ROWS are those of rows.c (KIND:SIZE[:MS]), comma-separated. --with adds a candidate for each of sennit's own: the same with
these settings; --against likewise, from another build. Prints each candidate's median, and the best peer's over it (above 1:
ahead of every peer, also where less is better). Then how often a core was handed on for each call (for pairs, half a round
trip), and how much of the time the bare hops of hops.c would take: the floor, as far as the switches are needed.
"""
import argparse
import collections
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # pylint: disable=wrong-import-position
import launch  # pylint: disable=wrong-import-position

ROWS = ",".join(f"{kind}:{size}:20" for size in (8, 65536) for kind in ("alltoall", "allreduce", "bcast", "exchange")) + ",rates:8:40"


def run(candidate, build, program, ranks, rows, limit):
    command = candidate.command([program, *rows], ranks, build)
    return launch.run(command, candidate.environment(ranks), limit=limit).text


def variants(args):
    """[(candidate, build)]: every peer, sennit, and sennit otherwise."""
    here = {c.name: c for c in bench.candidates()}
    names = [w.strip() for w in args.only.split(";")] if args.only else list(here)
    unknown = [n for n in names if n not in here]
    if unknown:
        sys.exit(f"crowd: no candidate is called '{unknown[0]}'; there are: {'; '.join(here)}")
    chosen = [here[n] for n in here if n in names]
    out = [(c, args.build) for c in chosen]
    for c in [c for c in chosen if c.ours]:
        for settings in args.extra:
            env = {**c.env, **dict(s.split("=", 1) for s in settings.split(","))}
            out.append((bench.Candidate(f"{c.name} {settings.replace('SENNIT_', '')}", c.mpi, True, c.options, env), args.build))
        for build in args.against:
            out.append((bench.Candidate(f"{c.name} [{build}]", c.mpi, True,
                                        c.options, c.env), build))
    return out


def hops(build):
    """(by yielding, by sleeping and waking), us."""
    program = os.path.join(build, "bin", "bench_hops")
    return [float(w) for w in subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()[1:]]


def floors(samples, switches, rows, names, hop):
    """Of a core: switches a call, and which part of the time their bare hops take."""
    width, cores = max(len(n) for n in names), len(os.sched_getaffinity(0))
    print(f"switches of a core a call, and bare hops ({hop:.2f} us each) over the time")
    for n in names:
        line = f"{n:{width}}"
        for r in rows:
            halves = 2 if r.split(":")[0] in ("pairs", "beside") else 1
            if (n, r) not in samples or r.split(":")[0] not in bench.LESS_IS_BETTER:
                line += f"{'-':>17}"
                continue
            each = statistics.median(switches[n, r]) / cores / halves
            line += f"{each:>10.3g} ({each * hop / statistics.median(samples[n, r]):4.2f})"
        print(line)


def table(samples, rows, names, ranks):
    print(f"\n{ranks} ranks")
    width = max(len(n) for n in names)
    print(" " * width + "".join(f"{r:>17}" for r in rows))
    middle = {key: statistics.median(v) for key, v in samples.items()}
    for n in names:
        line = f"{n:{width}}"
        for r in rows:
            mine = middle.get((n, r))
            peers = [middle[(p, r)] for p in names if not p.startswith("sennit") and (p, r) in middle]
            if mine is None:
                line += f"{'-':>17}"
            elif not n.startswith("sennit") or not peers:
                line += f"{mine:>10.4g}       "
            elif r.split(":")[0] in bench.LESS_IS_BETTER:
                line += f"{mine:>10.4g} ({min(peers) / mine:4.2f})"
            else:
                line += f"{mine:>10.4g} ({mine / max(peers):4.2f})"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--against", action="append", default=[])
    parser.add_argument("--with", dest="extra", action="append", default=[])
    parser.add_argument("--ranks", default="4,8")
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--only", help="candidates by their whole names, separated by semicolons")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=600, help="begin nothing after this time")
    args = parser.parse_args()
    launch.heed()
    begin = time.monotonic()
    programs = bench.Bench(argparse.Namespace(build=args.build, append=False, minutes=1))
    all_of = variants(args)
    programs.compile([c for c, _ in all_of])
    rows = args.rows.split(",")
    hop, sleeping = hops(args.build)
    print(f"a bare hop from one process to another on its core: {hop:.2f} us by sched_yield, {sleeping:.2f} us by a futex")
    for ranks in [int(n) for n in args.ranks.split(",")]:
        samples, switches = {}, collections.defaultdict(list)
        for turn in range(args.rounds):
            for i in range(len(all_of)):
                if time.monotonic() - begin > args.seconds:
                    break
                c, build = all_of[(i + turn) % len(all_of)]
                text = run(c, os.path.abspath(build), os.path.join(programs.programs, "rows." + c.mpi), ranks, rows, 30)
                for line in text.splitlines():
                    words = line.split()
                    if len(words) == 6 and ":" in words[0]:
                        samples.setdefault((c.name, words[0]), []).append(float(words[1]))
                        switches[c.name, words[0]].append(float(words[5]))
        named = [":".join(r.split(":")[:2]) for r in rows], [c.name for c, _ in all_of]
        table(samples, *named, ranks)
        floors(samples, switches, *named, hop)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make bench: sennit side by side with every MPI of this machine, in one run.

    bench.py [--build BUILD] [--quick] [--rounds N] [--minutes M] [--only NAMES] [--rows KINDS] [--append] [--doc FILE [--section TITLE]]

Every round runs each candidate once, in an order that changes, so that a disturbance hits all of them. Each figure is taken
between two probes of the cores (a cache line going back and forth): those that share a cache at that moment count as near,
those that do not as far (what is near ends at the widest gap between all probes of the run), and a figure during which they moved is dropped. Shown are medians, ranges, and the ratio of
sennit's best to the best of the others (above 1: sennit is ahead, also where less is better).

Writes out/bench.json, out/bench.txt and, with matplotlib, plots.
"""
import argparse
import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import time

import launch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = os.path.join(ROOT, ".peers")
NEAR, FAR = "near", "far"  # where the two cores lay while a figure was taken; told apart by boundary() and place() alone
REGIMES = (NEAR, FAR)
ANY = "any"       # not told apart
MEANING = f"`{NEAR}`: the two cores shared a cache while the figure was taken, `{FAR}`: they did not"
NEAR_NS = 90      # a line that goes over in less went through a shared cache, where the probes of a run leave no gap
BETWEEN = (50, 160)  # ns, one way: there it is looked for. Seen were 25 to 75 near, 120 to 260 far
ONE_CORE = (30, 50)  # and there, whether the two were now and then one core's two threads: 26 where 60 is near
GAP = 1.3         # at least this factor
LOST = 50         # thousandths of its time that a rank may have waited for its core: more, and the figure was disturbed
AGREE = 1.6       # both probes of a figure must lie within this factor
LESS_IS_BETTER = ("lat", "pairs", "beside", "served", "alltoall", "allreduce", "bcast", "exchange", "reduce", "gather", "scatter", "allgatherv", "alltoallv", "gatherv", "scatterv", "iallreduce", "ibcast", "ialltoall", "probed", "asked", "fresh", "neighbours", "column", "particles", "winput", "winget", "winsum", "winlock", "winfence", "idle", "wake", "total", "away", "suite", "capilat",
                  "capipost", "capiratio")
UNITS = {"lat": "us", "capilat": "us", "capipost": "us", "rate": "M/s", "rates": "M/s", "capirate": "M/s", "bw": "MB/s", "cold": "MB/s",
         "used": "MB/s", "behind": "MB/s", "hidesend": "", "hiderecv": "", "idle": "%", "wake": "us", "served": "us", "total": "x", "away": "us", "threads": "M/s",
         "suite": "s", "capiratio": "x", "capibw": "MB/s", "capibwpart": "x", "capimap": "MB/s", "capimappart": "x"}
TITLES = {"lat": "latency", "rate": "rate, one pair", "rates": "rate, all pairs", "bw": "bandwidth, cached",
          "cold": "bandwidth, rotated out of cache", "used": "bandwidth, written and read by both",
          "behind": "bandwidth, written and read, received 8 bytes further in its page",
          "neighbours": "exchange with six neighbours", "column": "column of a matrix each way (derived type), MPI_Sendrecv",
          "particles": "four messages each way of structs with a hole (derived type), MPI_Waitall", "probed": "exchange found by MPI_Mprobe", "asked": "four messages each way, MPI_Testall",
          "winput": "MPI_Put, MPI_Win_flush", "winget": "MPI_Get, MPI_Win_flush", "winsum": "MPI_Fetch_and_op, MPI_Win_flush",
          "winlock": "MPI_Win_lock, MPI_Put, MPI_Win_unlock", "winfence": "MPI_Put, MPI_Win_fence",
          "fresh": "four messages each way of other tags, lengths and buffers each time", "pairs": "ping-pong in pairs", "beside": "ping-pong beside ranks that compute",
          "served": "answer of rank 0 to ranks that compute for 2 ms before they ask",
          "hidesend": "hidden share, sender computes", "hiderecv": "hidden share, receiver computes",
          "idle": "core used while waiting", "wake": "round trip to a rank that has waited for 5 ms",
          "away": "read from a rank outside the library", "total": "work and an exchange, over the work alone", "capilat": "C API latency",
          "capipost": "C API latency, posted and waited for", "capirate": "C API rate",
          "capiratio": "C API latency over a bare line pair", "capibw": "C API bandwidth, ordinary memory",
          "capibwpart": "C API bandwidth over both sides' bare kernel copies", "capimap": "C API bandwidth, shareable heap",
          "capimappart": "C API bandwidth over both sides' bare mapped copies"}
THREADS = "mt-"  # likewise, of a program that asks for MPI_THREAD_MULTIPLE and has one thread that calls
for kind in ("lat", "rate", "alltoall", "allreduce", "bcast", "exchange"):
    TITLES[THREADS + kind] = TITLES.get(kind, kind) + " (threads allowed)"
    if kind in UNITS:
        UNITS[THREADS + kind] = UNITS[kind]
    if kind in LESS_IS_BETTER:
        LESS_IS_BETTER += (THREADS + kind,)


class Candidate:
    """One way to run an MPI program: an MPI by itself, or over sennit."""

    def __init__(self, name, mpi, ours=False, options=(), env=None):
        self.name, self.mpi, self.ours, self.options, self.env = name, mpi, ours, list(options), dict(env or {})

    def command(self, program, ranks, build):
        crowd = ranks > (os.cpu_count() or 1)
        bind = {"o4": ["--oversubscribe", "--bind-to", "none"] if crowd else ["--bind-to", "core"],
                "o5": ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"] if crowd else ["--bind-to", "core"],
                "im": []}.get(self.mpi, [] if crowd else ["-bind-to", "core"])
        words = [launcher(self.mpi), *self.options, *bind, "-n", str(ranks), *program]
        return [os.path.join(build, "bin", "sennit"), "run", "--", *words] if self.ours else words

    def environment(self, ranks):
        drop = ("SENNIT_", "FI_", "OMPI_", "PMIX_", "PRTE_", "MPIR_", "I_MPI_", "UCX_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
        for who in ("OMPI", "PRTE"):
            for how in ("", "_CONFIRM"):
                env[f"{who}_ALLOW_RUN_AS_ROOT{how}"] = "1"
        if self.mpi == "im":
            env["I_MPI_HYDRA_BOOTSTRAP"] = "fork"
            env["LD_LIBRARY_PATH"] = os.path.join(PEERS, "im", "lib")
            env.update({"I_MPI_PIN": "0"} if ranks > (os.cpu_count() or 1) else {"I_MPI_PIN_DOMAIN": "core"})
        env.update(self.env)
        env.update({k: v for k, v in os.environ.items() if self.ours and k.startswith("SENNIT_")})
        return env


def launcher(mpi):
    return {"o4": "/usr/bin/mpirun.openmpi", "m4": "/usr/bin/mpirun.mpich",
            "im": os.path.join(PEERS, "im", "bin", "mpiexec.hydra")}.get(mpi, os.path.join(PEERS, mpi, "bin", "mpirun"))


def compiler(mpi):
    """Intel's wheel has no headers; MPICH 5 has the same ABI."""
    return {"o4": "/usr/bin/mpicc.openmpi", "m4": "/usr/bin/mpicc.mpich"}.get(
        mpi, os.path.join(PEERS, "m5" if mpi == "im" else mpi, "bin", "mpicc"))


def compiled(name, mpi, folder):
    """The program for that MPI, in that folder, not older than what it is made of."""
    source, target = os.path.join(HERE, name + ".c"), os.path.join(folder, f"{name}.{mpi}")
    newest = max(os.path.getmtime(f) for f in (source, *glob.glob(os.path.join(HERE, "*.h"))))
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(target) or os.path.getmtime(target) < newest:
        subprocess.run([compiler(mpi), "-O2", "-Wno-stringop-overflow", "-std=c17", "-D_GNU_SOURCE", "-o", target, source], check=True)
    return target


def candidates():
    ob1 = ["--mca", "pml", "ob1", "--mca", "btl"]
    ucx = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"]
    tls = {"UCX_TLS": "self,posix,cma"}
    all_of = [
        Candidate("Open MPI 4", "o4", options=[*ob1, "self,vader"]),
        Candidate("Open MPI 4 UCX", "o4", options=ucx, env=tls),
        Candidate("Open MPI 5", "o5", options=[*ob1, "self,sm"]),
        Candidate("Open MPI 5 UCX", "o5", options=ucx, env=tls),
        Candidate("MPICH 4", "m4"),
        Candidate("MPICH 5", "m5"),
        Candidate("Intel MPI", "im", env={"I_MPI_FABRICS": "shm"}),
        Candidate("sennit, Open MPI 4", "o4", ours=True),
        Candidate("sennit, Open MPI 5", "o5", ours=True),
        Candidate("sennit, MPICH 5", "m5", ours=True),
        Candidate("sennit, Intel MPI", "im", ours=True),
    ]
    return [c for c in all_of if os.path.exists(launcher(c.mpi)) and os.path.exists(compiler(c.mpi))]


# ---- which rows ----

def jobs(quick):
    """[(ranks, rounds that run it, rows)]"""
    ms, short = (25, 20) if quick else (40, 40)
    sizes = [8 << 10, 64 << 10, 1 << 20, 16 << 20] if quick else [8192 << i for i in range(14)]
    rows = [f"lat:{n}:{short}" for n in (0, 8, 64, 512, 1024, 4096)] + [f"rate:8:{2 * short}", f"rates:8:{2 * short}"]
    rows += [f"{kind}:{n}:{ms}" for n in sizes for kind in ("bw", "cold", "used")]
    rows += [f"behind:{n}:{ms}" for n in sizes[::3]]
    rows += [f"{kind}:{n}" for kind in ("hidesend", "hiderecv") for n in ([4 << 20] if quick else [1 << 20, 16 << 20])]
    spread = (8, 65536) if quick else (8, 4096, 65536, 1 << 20)
    rows += [f"{kind}:{n}:{short}" for kind in ("alltoall", "allreduce", "bcast", "exchange") for n in spread]
    rows += [f"{kind}:{n}:{short}" for kind in ("reduce", "gather", "scatter", "allgatherv") for n in spread[:3]]
    rows += [f"{kind}:{n}:{short}" for kind in ("alltoallv", "gatherv", "scatterv") for n in spread[:2]] + [f"probed:8:{short}"]
    rows += [f"{kind}:{n}:{short}" for kind in ("iallreduce", "ibcast", "ialltoall") for n in spread[:2]]
    rows += [f"{kind}:{n}:{short}" for kind in ("asked", "fresh") for n in (8, 1024)]
    rows += [f"{kind}:{n}:{short}" for kind in ("column", "particles") for n in (256, 4096, 65536)]
    rows += [f"{kind}:{n}:{short}" for kind in ("winput", "winget") for n in spread[::2]] + [f"{kind}:8:{short}" for kind in ("winsum", "winlock", "winfence")]
    rows += ["idle:0"]
    crowd = [f"{kind}:{n}:100" for kind in ("alltoall", "allreduce", "bcast", "exchange", "reduce") for n in (8, 65536)] + ["neighbours:65536:100", "rates:8:100"]
    allowed = [f"{THREADS}{kind}:{n}:{short}" for kind in ("lat", "allreduce") for n in (8, 4096, 65536)]
    allowed += [f"{THREADS}{kind}:8:{short}" for kind in ("rate", "alltoall", "bcast", "exchange")]
    return [(2, 1, rows), (2, 1, allowed), *((n, 2, crowd) for n in many())]


def many():
    """More ranks than two: on a large machine up to one a core, too."""
    return [n for n in (4, 8, 16, 32, 64) if n <= max(8, os.cpu_count() or 1)]


def kind_of(row):
    return row.split("@")[0].split(":")[0]


def human(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and not size & ((1 << shift) - 1):
            return f"{size >> shift} {unit}"
    return f"{size} B"


def title(row):
    what, _, ranks = row.partition("@")
    kind, size = what.split(":")
    return TITLES.get(kind, kind) + ("" if kind == "idle" else f", {human(int(size))}") + (f", {ranks} ranks" if ranks else "")


# ---- running ----

def widest_gap(probes, least, most):
    """Its factor, and its middle."""
    known = sorted(probes)
    gaps = [(b / a, (a * b) ** 0.5) for a, b in zip(known, known[1:]) if a > 0]
    return max((g for g in gaps if least <= g[1] <= most), default=(0, 0))


def boundary(probes):
    """Where near ends and far begins: in the middle of the widest gap."""
    wide, middle = widest_gap(probes, *BETWEEN)
    return middle if wide >= GAP else NEAR_NS


def beginning(probes):
    """Where near begins: what is below was one core, if a fifth of all lies between that and far."""
    wide, middle = widest_gap(probes, *ONE_CORE)
    end = boundary(probes)
    return middle if wide >= GAP and 5 * sum(middle < p < end for p in probes) >= len(probes) else 0


def regimes(samples):
    """Each [value, probe] becomes [value, near or far]; what an earlier run has named stays. Returns how many were left out, taken on
    a single core."""
    lists = [of_one for row in samples.values() for of_one in row.values()]
    probes = [s[1] for of_one in lists for s in of_one if not isinstance(s[1], str)]
    begin, end = beginning(probes), boundary(probes)
    left_out = 0
    for of_one in lists:
        kept = [s if isinstance(s[1], str) else [s[0], NEAR if s[1] < end else FAR] for s in of_one
                if isinstance(s[1], str) or s[1] >= begin]
        left_out += len(of_one) - len(kept)
        of_one[:] = kept
    for row in samples.values():
        for who in [who for who, of_one in row.items() if not of_one]:
            del row[who]
    return left_out


def place(before, after):
    """Where the cores lay, by the probes around a figure; None: not known, or they moved."""
    if min(before, after) <= 0 or (before < NEAR_NS) != (after < NEAR_NS):
        return None
    return NEAR if before < NEAR_NS else FAR


class Bench:
    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.out = os.path.join(ROOT, "out")
        self.programs = os.path.join(self.build, "bench-programs")
        os.makedirs(self.out, exist_ok=True)
        os.makedirs(self.programs, exist_ok=True)
        self.samples = {}   # row -> candidate -> [[value, regime, or as long as the run lasts the probe]]
        self.dropped = 0
        self.on_one_core = 0
        self.notes = []
        self.start = time.monotonic()
        if args.append and os.path.exists(self.path("bench.json")):
            with open(self.path("bench.json"), encoding="utf-8") as f:
                self.samples = json.load(f)["samples"]

    def path(self, name):
        return os.path.join(self.out, name)

    def left(self):
        return self.args.minutes * 60 - (time.monotonic() - self.start)

    def compile(self, chosen):
        for mpi in sorted({c.mpi for c in chosen}):
            compiled("rows", mpi, self.programs)

    def take(self, text, name, ranks):
        for line in text.splitlines():
            words = line.split()
            if len(words) not in (4, 5, 6) or ":" not in words[0] or kind_of(words[0]) not in {**UNITS, **dict.fromkeys(LESS_IS_BETTER)}:
                continue
            low, high = sorted((float(words[2]), float(words[3])))
            if ranks == 2 and (high > low * AGREE or len(words) > 4 and int(words[4]) > LOST):
                self.dropped += 1
                continue
            where = ANY if ranks > 2 else (low * high) ** 0.5
            row = words[0] + (f"@{ranks}" if ranks > 2 else "")
            self.samples.setdefault(row, {}).setdefault(name, []).append([float(words[1]), where])

    def job(self, name, command, env, ranks):
        limit = max(5, min(90 if ranks == 2 else 45, self.left()))
        ended = launch.run(command, env, self.programs, limit, subprocess.PIPE)
        self.take(ended.text, name, ranks)
        if ended.status or ended.late:
            errors = f"did not end in {limit:.0f} s; what it printed until then counts" if ended.late else ended.errors
            last = errors.strip().splitlines()[-1:] or ["no message"]
            self.notes.append(f"{name}, {ranks} ranks: ended with {ended.status}: {last[0]}")
        print(f"    {name:22} {ranks} ranks  {ended.seconds:5.1f} s" + (f"  ended with {ended.status}" if ended.status else ""), flush=True)

    def run(self, chosen):
        self.compile(chosen)
        kinds = self.args.rows.split(",") if self.args.rows else None
        for turn in range(self.args.rounds):
            print(f"  round {turn + 1} of {self.args.rounds}, {self.left() / 60:.1f} minutes left", flush=True)
            if not kinds or any(k.startswith("capi") for k in kinds):
                heap = {"LD_PRELOAD": os.path.join(self.build, "lib", "libsennit-heap.so")}
                for program, env in (("bench_capi", {}), ("bench_bulk", heap)):
                    self.job("sennit, C API", [os.path.join(self.build, "bin", program)], {**os.environ, **env}, 2)
            for i in range(len(chosen)):
                c = chosen[(i + turn * 3) % len(chosen)]
                for ranks, most, rows in jobs(self.args.quick):
                    rows = [r for r in rows if not kinds or kind_of(r) in kinds]
                    if turn >= most and ranks > 2 or not rows or ranks not in self.args.ranks:
                        continue
                    if self.left() < 5:
                        self.notes.append(f"the time was up in round {turn + 1}")
                        return
                    program = [os.path.join(self.programs, "rows." + c.mpi), *rows]
                    self.job(c.name, c.command(program, ranks, self.build), c.environment(ranks), ranks)

    # ---- results ----

    def save(self):
        self.on_one_core += regimes(self.samples)
        with open(self.path("bench.json"), "w", encoding="utf-8") as f:
            json.dump({"machine": machine(self.build), "samples": self.samples, "notes": self.notes}, f)


def machine(build):
    info = subprocess.run([os.path.join(build, "bin", "sennit"), "info"], capture_output=True, text=True, check=False).stdout
    model = next((line.split(None, 1)[1] for line in info.splitlines() if line.startswith("machine")), "unknown")
    cpus = next((line.strip() for line in info.splitlines() if "cpus online" in line), "")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip()
    return {"processor": model, "cpus": cpus, "kernel": platform.release(), "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "commit": commit, "thp": first_line("/sys/kernel/mm/transparent_hugepage/enabled")}


def first_line(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.readline().strip()
    except OSError:
        return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--quick", action="store_true", help="a subset, under 90 seconds")
    parser.add_argument("--rounds", type=int, help="rounds (default 5, quick 1)")
    parser.add_argument("--minutes", type=float, help="stop then (default 15, quick 1.4)")
    parser.add_argument("--only", help="candidates whose names contain one of these, comma-separated")
    parser.add_argument("--rows", help="kinds of rows, comma-separated: " + " ".join(TITLES))
    parser.add_argument("--ranks", help="numbers of ranks: 2, 4, 8, and on a large machine more")
    parser.add_argument("--append", action="store_true", help="add to the samples of out/bench.json")
    parser.add_argument("--report", action="store_true", help="run nothing: the table and plots of out/bench.json")
    parser.add_argument("--doc", help="write the results to this page, too (docs/performance.md)")
    parser.add_argument("--section", help="there as a part of its own, as of another machine, and not as the page's top")
    args = parser.parse_args()
    launch.heed()
    args.rounds = args.rounds or (1 if args.quick else 5)
    args.minutes = args.minutes or (1.4 if args.quick else 15)
    ranks = args.ranks or ("2,4" if args.quick else ",".join(str(n) for n in (2, *many())))
    args.ranks = [int(n) for n in ranks.split(",")]
    args.append |= args.report
    bench = Bench(args)
    if not args.report:
        chosen = [c for c in candidates() if not args.only or any(w.lower() in c.name.lower() for w in args.only.split(";"))]
        print(f"{len(chosen)} candidates: " + "; ".join(c.name for c in chosen))
        bench.run(chosen)
        bench.save()
    import report  # pylint: disable=import-outside-toplevel
    report.write(bench.path("bench.json"), bench.out, args.doc, args.section)
    if bench.dropped:
        print(f"{bench.dropped} figures were dropped: the cores moved meanwhile, or other programs ran")
    if bench.on_one_core:
        print(f"{bench.on_one_core} figures were dropped: the two processors were one core's two threads meanwhile")


if __name__ == "__main__":
    if shutil.which("git") is None:
        sys.exit("bench: git is needed")
    main()

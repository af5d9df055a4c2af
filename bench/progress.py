#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Progress: how much of a transfer hides behind computing, what a waiting rank uses, what more ranks than cores cost, and
what the progress thread costs. Sennit with and without its thread, and each MPI of this machine by itself, with its own
asynchronous progress where it has one.

    progress.py [--build BUILD] [--rounds N] [--cells CELLS] [--only WORDS] [--without WORDS] [--ranks 2,4,8,16] [--sizes 4k,64k,...]
                [--minutes M] [--least N] [--append] [--report] [--doc PAGE]

Cells, each of which can run by itself and add to what stands in out/progress.json (--append):
    lat      latency at 8 B and 4 KiB, with the thread and without
    idle     share of a core that a waiting rank uses, and how fast it is awake
    away     one-sided reads from a rank that is outside the library, its core idle
    overlap  share of a transfer that is hidden, sender's and receiver's side
    total    both ranks work for 20 ms while they exchange a message, no core idle: what a turn takes
    crowd    collectives, exchanges with neighbours and ping-pong with 2, 4, 8 and 16 ranks; ping-pong beside ranks that compute, and a rank that serves such
    threads  8-byte messages of 1 and 8 threads a rank, each with its own communicator (MPI_THREAD_MULTIPLE)
    udp, ether    lat, idle, overlap and total between two hosts (network namespaces, needs root) against the MPIs' own TCP
    suite    mpi4py's test suite with 2, 4, 8 and 16 ranks, of Open MPI 4: not by itself, for it takes minutes
Each round runs every candidate once, in an order that changes; shown are medians and ranges. N rounds of every cell are run
however long they take, further ones only within M minutes. What the thread costs is told by runs with it and without, one after
the other, for which the cores lay alike, near or far (or one would be told that a far core is the thread's fault): where these
are too few, further ones are made of those rows alone, for a few minutes more. Writes out/progress.json.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
import bench  # pylint: disable=wrong-import-position
import launch  # pylint: disable=wrong-import-position
import report  # pylint: disable=wrong-import-position
from hosts_cores import Cores  # pylint: disable=wrong-import-position

SIZES = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
NODE = ["lat", "idle", "away", "overlap", "total", "crowd", "threads"]
HOSTS = ["udp", "ether"]
SUITE = "suite"
# The sections of the page, each of which is written if something of it was measured.
SECTIONS = {"Progress": [c for c in NODE + HOSTS if c not in ("idle", "crowd")],
            "Ranks that wait, and more ranks than cores": ["idle", "crowd", SUITE]}
NO_THREAD = ", no thread"
FEW = 2  # ranks, with a core each
ALLOWED = 1.05  # latency with the thread over latency without
WORSE = 1.03    # a turn without an idle core, likewise
COSTS = ("lat", "total")  # kinds of rows that say what the thread costs
IDLE = 1         # percent of a core that a waiting rank may use
AWAKE = 50       # us after the message, on a node, that he may be awake, as docs/design.md says ("What kind of call a thread is in")
LATER = 30       # us, between hosts, later than a thread that sleeps in poll() on a bare socket
BARE = "bare calls"
PAIRS = 7        # runs with it and without, of each of them
PAIRS_TRIED = 3 * PAIRS
PAIRS_TIME = 360  # s, for all that are missing
LIMIT = 60      # s of a run; in a crowd, where some MPIs take a thousand times as long as others, SHORT
SHORT = 20
STEPS = {"allreduce": lambda n: math.log2(n), "alltoall": lambda n: n - 1, "exchange": lambda n: 1, "pairs": lambda n: 1,
         SUITE: lambda n: 1}  # of a rank
NEAR = 1.5      # times proportional
SUITE_LIMIT = 300  # s


def candidates():
    ob1 = ["--mca", "pml", "ob1", "--mca", "btl"]
    shm = {"I_MPI_FABRICS": "shm"}
    off = {"SENNIT_PROGRESS": "0"}
    all_of = [
        bench.Candidate("Open MPI 4", "o4", options=[*ob1, "self,vader"]),
        bench.Candidate("Open MPI 5", "o5", options=[*ob1, "self,sm"]),
        bench.Candidate("MPICH 4", "m4"),
        bench.Candidate("MPICH 4, async", "m4", env={"MPIR_CVAR_ASYNC_PROGRESS": "1", "MPICH_ASYNC_PROGRESS": "1"}),
        bench.Candidate("MPICH 5", "m5"),
        bench.Candidate("MPICH 5, async", "m5", env={"MPIR_CVAR_ASYNC_PROGRESS": "1"}),
        bench.Candidate("Intel MPI", "im", env=shm),
        bench.Candidate("Intel MPI, async", "im", env={"I_MPI_ASYNC_PROGRESS": "1", "I_MPI_ASYNC_PROGRESS_PIN": "0,1"}),
        bench.Candidate("sennit, Open MPI 4", "o4", ours=True),
        bench.Candidate("sennit, Open MPI 4" + NO_THREAD, "o4", ours=True, env=off),
        bench.Candidate("sennit, Open MPI 5", "o5", ours=True),
        bench.Candidate("sennit, Open MPI 5" + NO_THREAD, "o5", ours=True, env=off),
        bench.Candidate("sennit, MPICH 5", "m5", ours=True),
        bench.Candidate("sennit, Intel MPI", "im", ours=True),
    ]
    return [c for c in all_of if os.path.exists(bench.launcher(c.mpi)) and os.path.exists(bench.compiler(c.mpi))]


def size_of(text):
    shift = {"k": 10, "m": 20}.get(text[-1].lower(), 0)
    return int(text[:-1] if shift else text) << shift


def rows_of(cell, ranks, sizes):
    if cell == "crowd":
        begin = ["allreduce:8:200"]  # ranks connect and settle on their cores; the last figure of a row counts
        rows = ["exchange:8:100", "alltoall:4096:100", "pairs:8:100", "allreduce:8:100"]
        return begin + rows + ["neighbours:65536:100", "beside:8:100", "served:8"] if ranks > 2 else begin + rows
    if ranks != 2:
        return []
    hide = [f"{side}:{n}" for n in sizes for side in ("hidesend", "hiderecv")]
    totals = [f"total:{n}" for n in sizes]
    return {"lat": ["lat:8:200", "lat:4096:200"], "idle": ["idle:0", "wake:8"], "away": ["away:8", "away:65536"],
            "threads": ["threads:1", "threads:8"], "overlap": hide, "total": totals}.get(
        cell, ["lat:8:200", "lat:4096:200", "idle:0", "wake:8", *hide, *totals, "away:8"])  # the last one fails over Open MPI 4 between hosts


def compile_for(build, chosen):
    programs = os.path.join(build, "bench-programs")
    os.makedirs(programs, exist_ok=True)
    for mpi in sorted({c.mpi for c in chosen}):
        for name in ("rows", "threads"):
            subprocess.run([bench.compiler(mpi), "-O2", "-Wno-stringop-overflow", "-std=c17", "-D_GNU_SOURCE", "-pthread", "-o",
                            os.path.join(programs, f"{name}.{mpi}"), os.path.join(HERE, name + ".c")], check=True)
    return programs


def figures(text, rows):
    """{row: (value, place)} of what the program printed."""
    kinds = {r.split(":")[0] for r in rows}
    found = [line.split() for line in text.splitlines()]
    return {w[0]: (float(w[1]), bench.place(float(w[2]), float(w[3]))) for w in found if len(w) >= 4 and w[0].split(":")[0] in kinds}


class Between:
    """Two hosts, and who runs between them: the candidates of net.py, and sennit without its thread."""

    def __init__(self, build, programs, words):
        import net  # pylint: disable=import-outside-toplevel
        self.net, self.build, self.programs, self.words = net, build, programs, words
        self.cores = Cores(held=False)

    def chosen(self, driver):
        ours = [c for c in self.net.candidates(["o4", "m5"]) if not c.ours or c.ours == driver]
        ours += [self.net.Candidate(c.name + NO_THREAD, c.mpi, ours=c.ours, env=dict(c.env, SENNIT_PROGRESS="0"))
                 for c in ours if c.ours and c.mpi.name == "o4"]
        return [c for c in ours if not self.words or any(w.lower() in c.name.lower() for w in self.words)]

    def run(self, c, names, rows, limit):
        bench_net = self.net.Bench.__new__(self.net.Bench)  # for its command line alone
        bench_net.build, bench_net.work, bench_net.cores = self.build, self.build, self.cores
        bench_net.program = lambda mpi: os.path.join(self.programs, "rows." + mpi.name)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SENNIT_", "FI_", "OMPI_", "PMIX_", "PRTE_", "MPIR_"))}
        for who in ("OMPI", "PRTE"):
            env.update({f"{who}_ALLOW_RUN_AS_ROOT": "1", f"{who}_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        env.update(c.mpi.environment(), **c.env)
        if c.ours:
            env["SENNIT_NET"] = c.ours
        return figures(launch.run(bench_net.command(c, names, rows), env, self.build, limit).text, rows)


class Progress:
    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.out = os.path.join(ROOT, "out")
        os.makedirs(self.out, exist_ok=True)
        self.path = os.path.join(self.out, "progress.json")
        self.end = time.monotonic() + args.minutes * 60
        self.turn = 0
        self.samples = {}  # "cell/row@ranks" -> candidate -> [values]
        self.pairs = {}    # likewise -> candidate with the thread -> [[value with it, value without]]
        self.machine = bench.machine(self.build)
        if (args.append or args.report) and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                before = json.load(f)
            self.samples, self.pairs = before["samples"], before.get("pairs", {})
            if args.report:
                self.machine = before["machine"]
        self.words = args.only.split(";") if args.only else []
        self.sizes = [size_of(s) for s in args.sizes.split(",")]

    def note(self, cell, ranks, round_of, pairs_alone):
        """round_of: {candidate: its figures}. Pairs alone: not all candidates ran, and the tables compare them."""
        for who, found in round_of.items():
            without = round_of.get(who + NO_THREAD, {})
            for row, (value, where) in found.items():
                name = f"{cell}/{row}@{ranks}"
                if not pairs_alone:
                    self.samples.setdefault(name, {}).setdefault(who, []).append(value)
                if row.split(":")[0] in COSTS and where and where == without.get(row, (0, None))[1]:
                    self.pairs.setdefault(name, {}).setdefault(who, []).append([value, without[row][0]])

    def left(self):
        return LIMIT if self.turn < self.args.least else self.end - time.monotonic()

    def in_turn(self, chosen):
        """Who is alone with his counterpart comes first or second by turns, too."""
        at = self.turn % max(len(chosen), 1)
        return chosen[at:] + chosen[:at]

    def node(self, cell, chosen, programs, kinds=None):
        for ranks in ([2] if cell != "crowd" else [int(n) for n in self.args.ranks.split(",")]):
            rows, found = self.rows(cell, ranks, kinds), {}
            for c in self.in_turn(chosen) if rows else []:
                if self.left() < 5:
                    break
                program = os.path.join(programs, f"{'threads' if cell == 'threads' else 'rows'}.{c.mpi}")
                command = c.command([program, *rows], ranks, self.build)
                ended = launch.run(command, c.environment(ranks), programs, min(SHORT if cell == "crowd" else LIMIT, self.left()))
                found[c.name] = figures(ended.text, rows)
            self.note(cell, ranks, found, bool(kinds))

    def suite(self, chosen):
        """Its time as a whole, but for how types are made, which sends nothing, and windows, of which Open MPI 4 by itself runs no test.
        A run that did not come to its end is left out."""
        sys.path.insert(0, os.path.join(ROOT, "tests", "mpi"))
        import run as tests  # pylint: disable=import-outside-toplevel
        python, source = (os.path.join(bench.PEERS, *path) for path in (("o4", "bin", "python"), ("mpi4py", "test")))
        chosen = [c for c in chosen if c.mpi == "o4" and not c.env]
        left_out = [word for name in tests.left_out(tests.Mpi("o4")) for word in ("-x", name)] if chosen else []
        for ranks in [int(n) for n in self.args.ranks.split(",")]:
            found = {}
            for c in self.in_turn(chosen):
                with tempfile.TemporaryDirectory(prefix="sennit-suite-") as out:
                    words = [python, os.path.join(ROOT, "tests", "mpi", "suite.py"), out, "0", source, "-e", "spawn", "-e", "dynproc",
                             "-e", "test_rma", *left_out]
                    ended = launch.run(c.command(words, ranks, self.build), {**c.environment(ranks), **tests.RECV_MPROBE}, out, SUITE_LIMIT)
                    running = tests.outcomes(out, ranks)[1]
                if running:
                    print(f"the suite, {ranks} ranks, {c.name}: {running[0]} after {ended.seconds:.0f} s")
                else:
                    found[c.name] = {f"{SUITE}:0": (ended.seconds, None)}
            self.note(SUITE, ranks, found, False)
            self.save()

    def hosts(self, cell, chosen, between, kinds=None):
        if os.geteuid() != 0:
            print(f"{cell}: left out, making network namespaces needs root")
            return
        rows, found = self.rows(cell, 2, kinds), {}
        try:
            names = between.net.hosts_up(2, self.args.mtu)
            if not kinds:
                program = os.path.join(self.build, "bin", "net_bare")
                bare = {row: between.net.bare_once(program, names, between.cores, cell, kind, 8) for row, kind in (("lat:8", "ping-pong"), ("wake:8", "wake"))}
                found[BARE] = {row: (value, None) for row, value in bare.items() if value}
            for c in self.in_turn(chosen):
                if self.left() < 5:
                    break
                found[c.name] = between.run(c, names, rows, min(LIMIT, self.left()))
        finally:
            with launch.undisturbed():
                between.net.hosts_down()
        self.note(cell, 2, found, bool(kinds))

    def rows(self, cell, ranks, kinds):
        return [r for r in rows_of(cell, ranks, self.sizes) if not kinds or r.split(":")[0] in kinds]

    def short_of_pairs(self, cell, chosen):
        """Who is to run again, with the thread and without."""
        names = {c.name for c in chosen}
        rows = [f"{cell}/{':'.join(r.split(':')[:2])}@2" for r in self.rows(cell, 2, COSTS)]
        short = {who for who in names if who + NO_THREAD in names
                 and any(len(self.pairs.get(name, {}).get(who, [])) < PAIRS for name in rows)}
        return [c for c in chosen if c.name.replace(NO_THREAD, "") in short]

    def find_pairs(self, cell, chosen, again):
        for _ in range(PAIRS_TRIED):
            short = self.short_of_pairs(cell, chosen)
            if not short or self.left() < 5:
                return
            self.turn += 1
            again(short)
            self.save()

    def run(self):
        cells = self.args.cells.split(",")
        out = [w.lower() for w in (self.args.without or "").split(";") if w]
        chosen = [c for c in candidates() if (not self.words or any(w.lower() in c.name.lower() for w in self.words))
                  and not any(w in c.name.lower() for w in out)]
        programs = compile_for(self.build, candidates())
        between = Between(self.build, programs, self.words) if set(cells) & set(HOSTS) else None
        for self.turn in range(self.args.rounds):
            for cell in cells:
                if cell in NODE:
                    self.node(cell, chosen, programs)
                elif cell in HOSTS:
                    self.hosts(cell, between.chosen(cell), between)
                elif cell == SUITE:
                    self.suite(chosen)
                else:
                    sys.exit(f"progress.py: there is no cell {cell}; there are {', '.join(NODE + HOSTS + [SUITE])}")
                self.save()
        self.end = max(self.end, time.monotonic() + PAIRS_TIME)
        for cell in [c for c in cells if c in COSTS]:
            self.find_pairs(cell, chosen, lambda who, cell=cell: self.node(cell, who, programs, COSTS))
        for cell in [c for c in cells if c in HOSTS and os.geteuid() == 0]:
            self.find_pairs(cell, between.chosen(cell), lambda who, cell=cell: self.hosts(cell, who, between, COSTS))

    def save(self):
        with open(self.path, "w", encoding="utf-8") as f:
            json.dump({"machine": self.machine, "samples": self.samples, "pairs": self.pairs}, f)


# ---- what it says ----

PLACES = {"udp": "between hosts, UDP", "ether": "between hosts, Ethernet"}


def title(name):
    cell, _, row = name.partition("/")
    row, _, ranks = row.partition("@")
    place = PLACES.get(cell, "one node")
    if cell == SUITE:
        return f"mpi4py's test suite, {ranks} ranks"
    if cell == "threads":
        return f"message rate of {row.partition(':')[2]} threads a rank"
    return f"{bench.title(row)}, {ranks} ranks" if cell == "crowd" else f"{bench.title(row)}, {place}"


def in_order(samples):
    kinds = list(bench.TITLES)

    def key(name):
        cell, _, row = name.partition("/")
        kind, size = row.partition("@")[0].split(":")
        kind = {"threads": "rate"}.get(kind, kind)
        return ((NODE + HOSTS + [SUITE]).index(cell), kinds.index(kind) if kind in kinds else 99, kind, int(row.partition("@")[2]), int(size))
    return sorted(samples, key=key)


def text_of(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def costs(pairs):
    """["row, MPI: with the thread over without"], of what the thread itself costs."""
    found = []
    for name in in_order(pairs):
        allowed = ALLOWED if name.partition("/")[2].startswith("lat:") else WORSE
        for who, both in pairs[name].items():
            ratios = [a / b for a, b in both]
            ratio = statistics.median(ratios)
            verdict = f", too few to tell ({len(both)})" if len(both) < PAIRS else ", more than allowed" if ratio > allowed else ""
            found.append(f"{title(name)}, {who}: {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}{verdict})")
    return found


def later(woken, latency):
    """There and back, where one side is awake; the other's sleep is what is more than that."""
    return statistics.median(woken) - 2 * statistics.median(latency)


def waiting(samples, every):
    """["place, MPI: ..."], of what a rank that waits uses, and how late it is for the message that ends its wait. every: these samples,
    and those of who looks."""
    found = []
    for name in in_order(samples):
        cell, _, row = name.partition("/")
        if not row.startswith("wake:"):
            continue
        place = PLACES.get(cell, "one node")
        latency = every.get(f"{cell if cell in PLACES else 'lat'}/lat:8@2", {})
        idle = samples.get(f"{cell}/idle:0@2", {})
        for who, values in samples[name].items():
            if not who.startswith("sennit") or NO_THREAD in who or who not in idle:
                continue
            used = statistics.median(idle[who])
            words = f"{place}, {who}: {used:.2f} % of a core ({'met' if used < IDLE else 'MISSED'})"
            if cell in PLACES and not {BARE} <= latency.keys() & samples[name].keys():
                words += ", awake: the bare calls were not measured"
            elif who in latency:
                late, most, bare = later(values, latency[who]), AWAKE, ""
                if cell in PLACES:
                    most = later(samples[name][BARE], latency[BARE])
                    most, bare = most + LATER, f", a thread in poll() on a bare socket {most:.0f}"
                words += f", awake {late:.0f} us later than who looks{bare} ({'met' if late <= most else 'MISSED'})"
            found.append(words)
    return found


def crowds(samples):
    """[(row, who, ratio)]: the time over that of few ranks, times ranks a core, times what each rank has to do."""
    found, cores = [], os.cpu_count() or FEW
    for name in in_order(samples):
        kind, ranks = name.partition("/")[2].split(":")[0], int(name.partition("@")[2])
        few = samples.get(f"{name.partition('@')[0]}@{FEW}", {})
        if name.partition("/")[0] in ("crowd", SUITE) and kind in STEPS and ranks > cores:
            fair = ranks / cores * STEPS[kind](ranks) / STEPS[kind](FEW)
            found += [(title(name), who, statistics.median(v) / statistics.median(few[who]) / fair)
                      for who, v in samples[name].items() if who in few]
    return found


def best(samples, less, wanted):
    """"value (range) by whom" of the best whom `wanted` takes."""
    found = {who: v for who, v in samples.items() if wanted(who)}
    if not found:
        return "-"
    who = (min if less else max)(found, key=lambda w: statistics.median(found[w]))
    return f"{text_of(found[who])}, {who.replace('sennit, ', 'over ').replace(NO_THREAD, '').replace(', async', '')}"


def section(samples, pairs, every=None):
    """The lines of docs/performance.md; every: the samples of other sections, too."""
    def ours(who):
        return who.startswith("sennit")
    groups = [("sennit", lambda w: ours(w) and NO_THREAD not in w), ("sennit, no thread", lambda w: NO_THREAD in w),
              ("best other", lambda w: not ours(w) and "async" not in w and w != BARE), ("best other, own asynchronous progress", lambda w: "async" in w)]
    lines = ["From `bench/progress.py`, a part of `make bench`: medians and ranges over the rounds. \"No thread\" is "
             "sennit with `SENNIT_PROGRESS=0`. A hidden share of 1 is all of the transfer; what the same calls take for a message of no "
             "bytes is not counted.", "", "| row | unit | " + " | ".join(name for name, _ in groups) + " |", "|" + "---|" * (len(groups) + 2)]
    for name in in_order(samples):
        kind = name.partition("/")[2].split(":")[0]
        cells = [best(samples[name], kind in bench.LESS_IS_BETTER, wanted) for _, wanted in groups]
        lines.append(f"| {title(name)} | {bench.UNITS.get(kind, 'us')} | " + " | ".join(cells) + " |")
    cost = [f"- {line}" for line in costs(pairs)]
    if cost:
        lines += ["", f"What the thread costs: with it over without it, medians and ranges of pairs of runs for which the cores lay alike "
                  f"({ALLOWED} is allowed for latency, {WORSE} for work):", "", *cost]
    waits = [f"- {line}" for line in waiting(samples, every or samples)]
    if waits:
        lines += ["", f"Ranks that wait: under {IDLE} % of a core is promised, and to be awake at most {AWAKE} us "
                  f"after the message on a node, and between hosts {LATER} us later than a thread that sleeps in poll() on a bare socket:", "", *waits]
    ratios = crowds(samples)
    if ratios:
        lines += ["", f"The time over that of {FEW} ranks times ranks a core times the messages that each rank has to "
                  f"exchange one after the other (1 is proportional, up to {NEAR} is near):", ""]
    for row in dict.fromkeys(row for row, _, _ in ratios):
        of_row = [(who, r) for what, who, r in ratios if what == row]
        lines.append(f"- {row}: " + ", ".join(f"{who.replace('sennit, ', 'sennit over ')} {r:.2f}{' (near)' if r <= NEAR else ''}"
                                               for who, r in of_row))
    return lines


def show(samples, pairs):
    for name in in_order(samples):
        print(f"\n{title(name)}")
        for who, values in samples[name].items():
            print(f"  {who:34} {text_of(values)}")
    print()
    for line in costs(pairs):
        print(f"the thread costs: {line}")
    for line in waiting(samples, samples):
        print(f"waiting: {line}")
    for row, who, ratio in crowds(samples):
        print(f"over proportional: {row}, {who}: {ratio:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", default=",".join(NODE + HOSTS))
    parser.add_argument("--only", help="candidates whose names contain one of these, separated by ;")
    parser.add_argument("--without", help="leave those out whose names contain one of these; on one node")
    parser.add_argument("--ranks", default="2,4,8,16", help="of the cell crowd")
    parser.add_argument("--sizes", default=",".join(f"{n >> 10}k" for n in SIZES))
    parser.add_argument("--mtu", type=int, default=1500, help="between hosts")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--least", type=int, default=1, help="rounds of every cell, whatever time they take")
    parser.add_argument("--append", action="store_true", help="add to the samples of out/progress.json")
    parser.add_argument("--report", action="store_true", help="run nothing: show out/progress.json")
    parser.add_argument("--table", action="store_true", help="also print the sections for docs/performance.md")
    parser.add_argument("--doc", help="put those sections into this page (docs/performance.md)")
    args = parser.parse_args()
    launch.heed()
    progress = Progress(args)
    if not args.report:
        progress.run()
    show(progress.samples, progress.pairs)
    for name, cells in SECTIONS.items():
        part, pairs = ({row: values for row, values in of_all.items() if row.partition("/")[0] in cells}
                       for of_all in (progress.samples, progress.pairs))
        print("\n".join(section(part, pairs, progress.samples)) if args.table and part else "")
        if args.doc and part:
            report.put_part(args.doc, name, section(part, pairs, progress.samples) + ["", report.measured(progress.machine)])


if __name__ == "__main__":
    main()

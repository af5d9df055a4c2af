#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several rails and bursts, between two hosts: sennit's strategies against each other, Open MPI's (multi-link) TCP and MPICH's.

    net_multi.py [--build BUILD] [--what burst[:BYTES],lone,equal,unequal,frames,kinds,degrade,die] [--json FILE] [--append | --more]
                 [--report] [--doc docs/performance.md]

The hosts are network namespaces that this makes (it needs root and tc with tbf), a core each. One MPI program for all, candidates in
turn; shown are medians, and a verdict a row: what the scheduler is meant to reach, and whether it does. The sum of the rails is what
sennit reaches over each of them alone in the same run; where a rail changes, these as long as the rail was so.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))
import rails  # noqa: E402
import bench as node  # noqa: E402
import launch  # noqa: E402
import report  # noqa: E402

OURS, FIFO, EQUAL, OPENMPI, MPICH = "sennit", "sennit, fifo", "sennit, equal split", "Open MPI 4 TCP", "MPICH 5 TCP"
COLUMNS = (OURS, FIFO, EQUAL, OPENMPI, MPICH)
TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include")
PINNED = ["sh", "-c", 'exec taskset -c "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" "$0" "$@"']
LONG, CHANGING = 4 << 20, 1 << 20


def candidate(name, interfaces):
    """(MPI, environment, launcher's options, over sennit)"""
    if name == OPENMPI:
        return "o4", {}, TCP + (interfaces,), False
    if name == MPICH:
        return "m5", {"FI_PROVIDER": "tcp", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_TCP_IFACE": "eth0"}, (), False
    strategy = {OURS: None, FIFO: "fifo", EQUAL: "aggregate,equal"}[name]
    return "o4", {"SENNIT_STRATEGY": strategy} if strategy else {}, (), True


class Bench:
    def __init__(self, build, work, rows, more=False):
        self.build, self.work, self.rows, self.more = build, work, rows, more

    def program(self, mpi):
        path = os.path.join(self.work, "net_multi." + mpi.name)
        if not os.path.exists(path):
            subprocess.run([mpi.compiler(), "-O2", os.path.join(HERE, "net_multi.c"), "-o", path], check=True)
        return path

    def job(self, name, hosts, words, more=None):
        """The figure of one run, and from when to when it was measured; None where the run failed."""
        kind, env, options, ours = candidate(name, ",".join("eth%d" % r for r in range(hosts.rails)))
        mpi = rails.mpi_named(kind)
        try:
            command, full = rails.mpi_command(mpi, self.build, self.work, hosts, PINNED + [self.program(mpi)] + words,
                                              {**env, **(more or {})}, options, ours)
            ended = launch.run(command, full, self.work, 60, subprocess.STDOUT)
        except OSError as e:
            print("%s: %s" % (name, e))
            return None, None
        if ended.late or ended.status:
            print("%s: %s: %s" % (name, "not done after 60 s" if ended.late else "exit status %d" % ended.status, ended.text[-300:]))
            return None, None
        found = {line.split()[0]: [float(w) for w in line.split()[1:3 if line[0] == "S" else 2]] for line in ended.text.splitlines()
                 if line.startswith(("RATE", "LATENCY", "SPAN"))}
        return found.get("RATE", found.get("LATENCY"))[0], found.get("SPAN")

    def row(self, title, kind, unit, asked, hosts, words, names, rounds, alone=0, during=None):
        """Candidates in turn. alone: MB/s of the rails alone. during(hosts, marks) changes rails while each runs."""
        row = {"kind": kind, "unit": unit, "asked": asked, "figures": {}, "sums": []}
        if self.more:
            row = self.rows.get(title, row)
        for _ in range(rounds):
            for name in names:
                marks = [(0, r, mbit) for r, mbit in enumerate(hosts.limits)]
                worker = threading.Thread(target=during, args=(hosts, marks)) if during else None
                if worker:
                    worker.start()
                figure, span = self.job(name, hosts, words)
                if worker:
                    worker.join()
                if figure is None:
                    continue
                if alone and name == OURS:
                    row["sums"].append(alone * carried(marks, span) if during else alone)
                row["figures"].setdefault(name, []).append(figure)
        self.rows[title] = row
        print(title)
        for name, values in row["figures"].items():
            print("  %-24s %12.1f   %s" % (name, statistics.median(values), " ".join("%.1f" % v for v in values)))
        print("  %s" % " | ".join(cells(title, row)[-3:]), flush=True)

    # ---- what is measured ----

    def burst(self, size=None):
        h = hosts_of([0])
        for size in (int(size),) if size else (8, 64, 512):
            self.row("burst of 256 messages of %d bytes" % size, "burst", "messages/s", 3, h, ["burst", str(size), "300"],
                     (OURS, FIFO, OPENMPI, MPICH), 3)

    def lone(self):
        self.row("8 bytes back and forth", "lone", "us one way", 1.05, hosts_of([0]), ["lone", "8", "4000"],
                 (OURS, FIFO, OPENMPI, MPICH), 5)

    def streams(self, title, asked, rates, mtus=(1500, 1500), addresses=True):
        """Long messages over two rails, and over each of them alone."""
        alone = 0
        for r in range(2):
            if r and rates[1] == rates[0] and mtus[1] == mtus[0] and addresses is True:
                alone *= 2
                break
            driver = "udp" if addresses is True or r in addresses else "ether"
            alone += self.job(OURS, hosts_of([rates[r]], (mtus[r],)), ["stream", str(LONG), "1.5"],
                              {"SENNIT_NET": driver + ":eth0"})[0] or 0
            rails.tear_down()
        names = (OURS, EQUAL, OPENMPI) if addresses is True else (OURS, EQUAL)
        self.row(title, "stream", "MB/s", asked, hosts_of(rates, mtus, addresses), ["stream", str(LONG), "1.5"], names, 3, alone)

    def equal(self):
        self.streams("two rails of 400 Mbit/s", 0.92, [400, 400])

    def unequal(self):
        self.streams("800 and 200 Mbit/s", 0.88, [800, 200])

    def frames(self):
        self.streams("800 and 200 Mbit/s, MTU 1500 and 9000", 0.88, [800, 200], (1500, 9000))

    def kinds(self):
        self.streams("800 and 200 Mbit/s, UDP and Ethernet", 0.88, [800, 200], (1500, 1500), (0,))

    def changing(self, title, during, seconds):
        h = hosts_of([400])
        alone = self.job(OURS, h, ["stream", str(CHANGING), "1.5"])[0] or 0
        rails.tear_down()
        self.row(title, "change", "MB/s", 0.88, hosts_of([400, 400]), ["stream", str(CHANGING), str(seconds)],
                 (OURS, EQUAL, OPENMPI), 1, alone / 400, during)

    def degrade(self):
        def during(hosts, marks):
            change(hosts, marks, 1, 400)
            time.sleep(2.5)
            change(hosts, marks, 1, 40)
        self.changing("400 and 400 Mbit/s, the second falling to 40 in mid-run", during, 5)

    def die(self):
        def during(hosts, marks):
            for state, mbit in (("down", 0), ("up", 400)):
                time.sleep(2.5 if mbit == 0 else 1.5)
                hosts.cable(1, state)
                marks.append((time.monotonic(), 1, mbit))
        self.changing("400 and 400 Mbit/s, the second cut for 1.5 s in mid-run", during, 5)


def hosts_of(rates, mtus=(1500, 1500), addresses=True):
    h = rails.Hosts(len(rates), mtus, addresses)
    h.limits = rates
    for r, mbit in enumerate(rates):
        if mbit:
            h.rate(r, mbit)
    return h


def change(hosts, marks, rail, mbit):
    hosts.rate(rail, mbit)
    marks.append((time.monotonic(), rail, mbit))


def carried(marks, span):
    """The mean of all rails' Mbit/s together, from span[0] to span[1], with each as it was since its last mark."""
    total = 0
    for rail in {m[1] for m in marks}:
        own = [(max(span[0], at), mbit) for at, r, mbit in marks if r == rail and at < span[1]]
        ends = [at for at, _ in own[1:]] + [span[1]]
        total += sum(mbit * (end - at) for (at, mbit), end in zip(own, ends))
    return total / (span[1] - span[0])


# ---- the page ----

def cells(title, row):
    middle = {name: statistics.median(v) for name, v in row["figures"].items()}
    ours, less = middle.get(OURS), row["kind"] == "lone"
    out = [title, row["unit"]]
    out += ["%s (%s..%s)" % tuple(report.number(v) for v in (middle[c], min(row["figures"][c]), max(row["figures"][c])))
            if c in middle else "" for c in COLUMNS]
    against = statistics.median(row["sums"]) if row["sums"] else middle.get(FIFO)
    if not ours or not against:
        return out + ["", "", "", "not measured"]
    of = ours / against
    words = {"burst": "at least %.2g of fifo", "lone": "at most %.3g of fifo"}.get(row["kind"], "at least %.2g of the sum")
    out += [report.number(against) if row["sums"] else "", words % row["asked"], "%.2f" % of]
    behind = [c for c in COLUMNS if not c.startswith("sennit") and c in middle and (ours > middle[c] if less else ours < middle[c])]
    met = of <= row["asked"] if less else of >= row["asked"]
    return out + [("met" if met else "NOT MET") + "".join(", behind " + c for c in behind)]


def section(rows):
    heads = ["row", "unit", *COLUMNS, "sum of the rails", "asked", "is", "verdict"]
    lines = ["From `bench/net_multi.py`, a part of `make bench`: two hosts that are network namespaces of this machine, a core each; medians and "
             "ranges of alternating runs (one run where a rail changes). The rails are limited by `tc`; the sum is what sennit reaches over each of them alone in the same "
             "run. Open MPI's TCP uses both interfaces. Shaping and both ends share this machine's two cores.", "",
             "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(cells(title, row)) + " |" for title, row in rows.items()]


def save(path, measured):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(measured, f, indent=1)


def main():
    parts = ("burst", "lone", "equal", "unequal", "frames", "kinds", "degrade", "die")
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default=os.path.join(ROOT, "build"))
    p.add_argument("--what", default=",".join(parts))
    p.add_argument("--json", default=os.path.join(ROOT, "out", "net_multi.json"))
    p.add_argument("--append", action="store_true", help="keep the rows of that file that are not measured again")
    p.add_argument("--more", action="store_true", help="likewise, and add to the figures of those that are")
    p.add_argument("--report", action="store_true", help="run nothing: what stands in that file")
    p.add_argument("--doc", help="put the results into this page, too (docs/performance.md)")
    args = p.parse_args()
    launch.heed()
    measured = {"machine": None, "rows": {}}
    if args.append or args.more or args.report:
        with open(args.json, encoding="utf-8") as f:
            measured = json.load(f)
    if not args.report:
        if os.geteuid() != 0:
            print("skipped: making network namespaces needs root")
            return rails.SKIP
        measured["machine"] = node.machine(os.path.abspath(args.build))
        with tempfile.TemporaryDirectory() as work:
            bench = Bench(os.path.abspath(args.build), work, measured["rows"], args.more)
            for what in args.what.split(","):
                name, _, size = what.partition(":")
                try:
                    getattr(bench, name)(*[size] * bool(size))
                finally:
                    with launch.undisturbed():
                        rails.tear_down()
                save(args.json, measured)
    lines = section(measured["rows"])
    print("\n".join(lines[2:]))
    if args.doc:
        report.put_part(args.doc, "Several rails", lines + ["", report.measured(measured["machine"])])
    return 0


if __name__ == "__main__":
    sys.exit(main())

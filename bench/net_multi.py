#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several rails and bursts, between two hosts: sennit's strategies against each other, Open MPI's (multi-link) TCP and MPICH's.

    net_multi.py BUILD [burst] [equal] [unequal] [degrade] [die] [lone] [rails]

The hosts are network namespaces that this makes (it needs root and tc with tbf). One MPI program for all; each figure is the median
of three runs (two for streams, one where a rail changes), alternating.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "net"))
import rails  # noqa: E402

BOTH = "eth0,eth1"


def candidates(interfaces):
    tcp = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", interfaces)
    found = [("sennit", "o4", {}, (), True)]
    for strategy in ("fifo", "aggregate", "aggregate,equal"):
        found.append(("sennit " + strategy, "o4", {"SENNIT_STRATEGY": strategy}, (), True))
    found.append(("Open MPI 4 TCP", "o4", {}, tcp, False))
    found.append(("MPICH 5 TCP", "m5", {"FI_PROVIDER": "tcp", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_TCP_IFACE": "eth0"}, (), False))
    return found


class Bench:
    def __init__(self, build, work):
        self.build, self.work = build, work

    def program(self, mpi):
        path = os.path.join(self.work, "net_multi." + mpi.name)
        if not os.path.exists(path):
            subprocess.run([mpi.compiler(), "-O2", os.path.join(HERE, "net_multi.c"), "-o", path], check=True)
        return path

    def table(self, title, hosts, words, rounds, names=None, during=None):
        interfaces = BOTH if len(hosts.rails) > 1 else "eth0"
        rows = [c for c in candidates(interfaces) if names is None or c[0] in names]
        figures = {c[0]: [] for c in rows}
        for _ in range(rounds):
            for name, kind, env, options, ours in rows:
                mpi = rails.mpi_named(kind)
                worker = threading.Thread(target=during, args=(hosts,)) if during else None
                try:
                    if worker:
                        worker.start()
                    out = rails.mpi_job(mpi, self.build, self.work, hosts, [self.program(mpi)] + words, env, options, ours)
                    figures[name] += [float(line.split()[1]) for line in out.splitlines()
                                      if line.startswith(("RATE", "LATENCY"))]
                except (rails.Failed, subprocess.TimeoutExpired, OSError) as e:
                    print("%s: %s" % (name, str(e)[-300:]))
                if worker:
                    worker.join()
        print(title)
        ours = statistics.median(figures["sennit"]) if figures.get("sennit") else 0
        for name, values in figures.items():
            if values:
                middle = statistics.median(values)
                print("  %-24s %12.1f   sennit / this: %.2f" % (name, middle, ours / middle))
        sys.stdout.flush()


def two(rates):
    h = rails.Hosts(len(rates))
    h.rails = rates
    for r, mbit in enumerate(rates):
        if mbit:
            h.rate(r, mbit)
    return h


def degrade(hosts):
    """The second rail falls to a tenth one second after the job was started, for good."""
    hosts.rate(1, 400)
    time.sleep(2)
    hosts.rate(1, 40)


def die(hosts):
    """The second rail is cut after two seconds, and whole again after two more."""
    time.sleep(2)
    hosts.cable(1, "down")
    time.sleep(2)
    hosts.cable(1, "up")


def main():
    if len(sys.argv) < 2 or os.geteuid() != 0:
        print(__doc__)
        return 2
    what = sys.argv[2:] or ["burst", "lone", "rails", "equal", "unequal", "degrade", "die"]
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(os.path.abspath(sys.argv[1]), work)
        try:
            if "burst" in what:
                h = two([0])
                for size in (8, 64, 512):
                    bench.table("bursts of 256 messages of %d bytes, messages/s" % size, h, ["burst", str(size), "400"], 3,
                                ("sennit", "sennit fifo", "Open MPI 4 TCP", "MPICH 5 TCP"))
                rails.tear_down()
            if "lone" in what:
                h = two([0])
                bench.table("8 bytes back and forth, us one way", h, ["lone", "8", "5000"], 3,
                            ("sennit", "sennit aggregate", "sennit fifo", "Open MPI 4 TCP", "MPICH 5 TCP"))
                rails.tear_down()
            for name, rates in (("equal", [400, 400]), ("unequal", [800, 200])):
                if name in what:
                    for only in (0, 1):
                        bench.table("%s: the rail of %d Mbit/s alone, MB/s" % (name, rates[only]), two([rates[only]]),
                                    ["stream", str(4 << 20), "2"], 1, ("sennit", "Open MPI 4 TCP"))
                        rails.tear_down()
                    bench.table("%s: both, MB/s" % name, two(rates), ["stream", str(4 << 20), "2"], 2)
                    rails.tear_down()
            if "degrade" in what:
                bench.table("400 + 400, the second falling to 40, MB/s over 5 s", two([400, 400]), ["stream", str(1 << 20), "5"],
                            1, None, degrade)
                rails.tear_down()
            if "die" in what:
                bench.table("400 + 400, the second cut for 2 s, MB/s over 6 s", two([400, 400]), ["stream", str(1 << 20), "6"],
                            1, ("sennit", "sennit aggregate,equal", "Open MPI 4 TCP"), die)
                rails.tear_down()
            if "rails" in what:
                for rates in ([0], [0, 0]):
                    bench.table("8 bytes back and forth, us one way, %d rails" % len(rates), two(rates), ["lone", "8", "5000"], 3,
                                ("sennit",))
                    rails.tear_down()
        finally:
            rails.tear_down()
    return 0


if __name__ == "__main__":
    sys.exit(main())

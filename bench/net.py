#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Between hosts: one MPI program over each MPI's own TCP and over sennit, in turn, and the limit that the kernel sets.

    net.py [--build BUILD] [--quick] [--rounds N] [--minutes M] [--mtu 1500,9000] [--what bare,latency,stream,exchange,compute,loss,incast]
           [--sizes 8,65536] [--loss 0,0.1,1] [--only "Open MPI 4,sennit udp"] [--json FILE [--append] [--report]] [--doc PAGE]

The hosts are network namespaces that this makes (it needs root), joined by a veth pair, by a bridge for the incast, or by
a lossy wire in user space. Every round runs each candidate once, in an order that changes; shown are medians over the
rounds, their range, and sennit's ratio to the better of the peers (above 1: sennit is better, also where less is better).
Near (the two cores shared a cache meanwhile) and far are told apart, by probes around each run; a run during which they moved
is dropped.
With --minutes the rest of the time is shared among the parts that are still to come: as many rounds of each as fit.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(ROOT, "tests", "net"), os.path.join(ROOT, "tests", "mpi")]
import hosts as net  # noqa: E402
from job import PEERS, Mpi  # noqa: E402
import bench as node  # noqa: E402
import launch  # noqa: E402
import net_page  # noqa: E402
import report  # noqa: E402
from bench import human  # noqa: E402
from hosts_cores import Cores  # noqa: E402

KNOWN = {"what", "figure", "candidate", "bytes", "runs"}  # of a row, in whatever version
SMALL, LARGE = [8, 4096, 16384], [65536, 262144, 1 << 20, 4 << 20]
COMPUTE = [1024, 8192, 65536, 262144]

AGENT = """#!/bin/sh
# stands for ssh: [-x] ADDRESS COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
n=$((${1##*.} - 1)); shift
case $n in
%s
esac
exec ip netns exec %s-$n unshare --uts sh -c 'hostname host'$n'; exec sh -c "$0"' "$*"
"""
HOSTS = 9  # the most that are made


class Candidate:
    """A way for messages to go: an MPI, over its own TCP or over one of sennit's drivers."""

    def __init__(self, name, mpi, ours=None, env=None, options=()):
        self.name, self.mpi, self.ours, self.options = name, mpi, ours, list(options)
        self.env = dict(env or {})


class Mpich4:
    """Debian's MPICH, which has UCX's TCP."""
    name, launcher = "m4", "/usr/bin/mpirun.mpich"

    @staticmethod
    def compiler():
        return "mpicc.mpich"

    @staticmethod
    def environment():
        return {}


def candidates(ours_on):
    """Everything of this that is installed."""
    found = [Candidate("Open MPI 4 tcp", Mpi("o4"), options=["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
                                                               "btl_tcp_if_include", "eth0"])]
    if os.path.exists(os.path.join(PEERS, "o5", "bin", "mpirun")):
        found.append(Candidate("Open MPI 5 tcp", Mpi("o5"), options=["--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                                                                       "--mca", "btl_tcp_if_include", "eth0"]))
    if shutil.which("mpirun.mpich") and shutil.which("mpicc.mpich"):
        found.append(Candidate("MPICH 4 tcp", Mpich4(), env={"UCX_TLS": "self,tcp", "UCX_NET_DEVICES": "eth0"}))
    if os.path.exists(os.path.join(PEERS, "m5", "bin", "mpirun")):
        found.append(Candidate("MPICH 5 tcp", Mpi("m5"), env={"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0",
                                                          "MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1"}))
    for driver in ("udp", "ether"):
        for mpi in ours_on:
            found.append(Candidate("sennit %s%s" % (driver, "" if mpi == "o4" else " " + mpi), Mpi(mpi), ours=driver))
    return found


def hosts_up(count, mtu, loss=None):
    names = net.hosts(count)
    if loss is None:
        net.veth(names, (mtu,) * count)
    else:
        net.Wire(names, mtu, loss=loss)
    net.address(names)
    return names


def hosts_down():
    net.tear_down()
    net.made.clear()
    net.children.clear()


def figures_of(text):
    """{size: [figures]} of the lines that net_mpi prints."""
    lines = [line.split() for line in text.splitlines()]
    return {int(words[0]): [float(w) for w in words[1:]] for words in lines if len(words) >= 2 and words[0].isdigit()}


class Bench:
    def __init__(self, args):
        self.build, self.work = os.path.abspath(args.build), os.path.join(os.path.abspath(args.build), "bench-net")
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        net.WIRE = os.path.join(self.build, "bin", "net_wire")
        self.rounds, self.quick, self.verbose = args.rounds, args.quick, args.verbose
        self.sizes = [int(s) for s in args.sizes.split(",")] if args.sizes else None
        self.all = [c for c in candidates(args.ours.split(",")) if not args.only or any(w in c.name for w in args.only.split(","))]
        for mpi in {c.mpi.name: c.mpi for c in self.all}.values():
            subprocess.run([mpi.compiler(), "-O2", "-Wno-stringop-overflow", os.path.join(HERE, "net_mpi.c"), "-o", self.program(mpi)], check=True)
        self.cores = Cores(held=True)
        self.notes = []  # what went wrong
        self.late = {}  # (what, candidate) -> seconds in which it did not end
        self.rows = {}  # (what, figure, candidate, bytes) -> what is known of it
        self.end = time.monotonic() + args.minutes * 60
        self.parts = 1  # still to come, this one included
        self.dropped = 0  # runs during which the cores moved

    def until(self):
        """When the part that begins now is to be done."""
        now = time.monotonic()
        return now + max(self.end - now, 0) / max(self.parts, 1)

    def program(self, mpi):
        return os.path.join(self.work, "net_mpi." + mpi.name)

    def agent(self):
        path = os.path.join(self.work, "agent")
        with open(path, "w", encoding="utf-8") as f:
            f.write(AGENT % ("\n".join(f"{n}) {self.cores.join(n)} ;;" for n in range(HOSTS)), net.TAG))
        os.chmod(path, 0o755)
        return path

    def command(self, c, names, words):
        addresses = ["10.77.0.%d" % (i + 1) for i in range(len(names))]
        list_of, total, agent = ",".join("%s:1" % a for a in addresses), str(len(names)), self.agent()
        if c.mpi.name == "o4":
            launch = ["--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "eth0", "--oversubscribe", "--bind-to",
                      "none", "-H", list_of, "-n", total]
        elif c.mpi.name == "o5":
            launch = ["--prtemca", "plm_ssh_agent", agent, "--prtemca", "oob_tcp_if_include", "eth0", "--map-by",
                      ":OVERSUBSCRIBE", "--bind-to", "none", "-H", list_of, "-n", total]
        else:
            launch = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", list_of, "-n", total]
        command = [c.mpi.launcher] + launch + c.options + [self.program(c.mpi)] + words
        if c.ours:
            command = [os.path.join(self.build, "bin", "sennit"), "run", "--"] + command
        return self.cores.on(0, ["ip", "netns", "exec", names[0], "unshare", "--uts", "sh", "-c", 'hostname host0; exec "$@"', "sh",
                                 *command])

    def core_ns(self):
        """How long a cache line takes from one core to the other."""
        where = os.path.join(self.build, "bin", "bench_where")
        return float(subprocess.run([where], capture_output=True, text=True, check=True, timeout=10).stdout)

    def placed(self, measure):
        """What measure() finds, and where the cores lay meanwhile: near, far, or None if they moved."""
        before = self.core_ns()
        found = measure()
        where = node.place(before, self.core_ns())
        self.dropped += bool(found) and not where
        return found, where

    def wrong(self, text):
        print(text)
        self.notes.append(text)

    def once(self, title, c, names, words, limit=60):
        """{size: [figures]}, or {} with a word about it if the job did not end well."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SENNIT_", "FI_", "OMPI_", "PMIX_", "PRTE_", "MPIR_"))}
        env.update(c.mpi.environment(), **c.env)
        if c.ours:
            env["SENNIT_NET"] = c.ours
        if self.verbose:
            env["SENNIT_STATS"] = "1"
        r = launch.run(self.command(c, names, words), env, self.work, limit, subprocess.STDOUT)
        if r.late:
            self.wrong("%s, %s: not done after %d s" % (title, c.name, limit))
            self.late[title, c.name] = int(limit)
            return figures_of(r.text)
        if r.status:
            self.wrong("%s, %s: exit status %d" % (title, c.name, r.status))
            print(r.text[-1500:])
            return {}
        if self.verbose:
            print(c.name, "\n".join(s for s in r.text.splitlines() if (" net." in s) and not s.endswith(" 0")))
        return figures_of(r.text)

    def note(self, what, cores, figure, candidate, size, values, up=False):
        known = self.rows.setdefault((what, cores, figure, candidate, size),
                                     {"what": what, "cores": cores, "figure": figure, "candidate": candidate, "bytes": size, "up": up,
                                      "runs": []})
        known["runs"] += values
        known.pop("late", None)
        known["median"] = statistics.median(known["runs"])

    def compare(self, title, names, words, show, limit=60):
        """All candidates, `rounds` times in turn; show: {figure's index: (heading, larger is better, format)}."""
        got = {where: {c.name: [] for c in self.all} for where in node.REGIMES}
        until, longest = self.until(), 0
        for i in range(self.rounds):
            began = time.monotonic()
            if i and began + longest > until:
                break
            for c in self.all[i % len(self.all):] + self.all[:i % len(self.all)]:
                figures, where = self.placed(lambda c=c: self.once(title, c, names, words, max(5, min(limit, self.end - time.monotonic()))))
                if figures and where:
                    got[where][c.name].append(figures)
            longest = max(longest, time.monotonic() - began)
        for index, (heading, up, form) in show.items():
            for where, runs in got.items():
                if any(runs.values()):
                    self.table(title, where, heading, runs, index, up, form)

    def table(self, title, where, heading, got, index, up, form):
        sizes = sorted({s for runs in got.values() for run in runs for s in run})
        print("\n%s, cores %s: %s" % (title, where, heading))
        print("%-20s" % "" + "".join("%28s" % human(s) for s in sizes))
        medians = {}
        for c in self.all:
            cells = []
            for s in sizes:
                values = sorted(run[s][index] for run in got[c.name] if s in run)
                if not values:
                    cells.append("%28s" % "-")
                    continue
                medians[c.name, s] = statistics.median(values)
                cells.append("%28s" % ((form + " (" + form + "-" + form + ")") % (medians[c.name, s], values[0], values[-1])))
                self.note(title, where, heading, c.name, s, values, up)
            print("%-20s" % c.name + "".join(cells))
        for c in self.all:
            if not c.ours:
                continue
            cells = []
            for s in sizes:
                peers = [medians[p.name, s] for p in self.all if not p.ours and (p.name, s) in medians]
                own = medians.get((c.name, s))
                if not peers or not own:
                    cells.append("%28s" % "-")
                    continue
                best = max(peers) if up else min(peers)
                cells.append("%28s" % ("%.2f" % (own / best if up else best / own)))
            print("%-20s" % ("= " + c.name) + "".join(cells))
        sys.stdout.flush()

    # ---- what is compared ----

    def latency(self, mtu):
        names = hosts_up(2, mtu)
        sizes = [str(s) for s in self.sizes or SMALL + LARGE]
        self.compare("ping-pong, MTU %d" % mtu, names, ["pingpong", "40" if self.quick else "150"] + sizes,
                     {0: ("one way, us", False, "%.1f")})
        hosts_down()

    def stream(self, mtu):
        names = hosts_up(2, mtu)
        self.compare("stream, MTU %d" % mtu, names, ["stream", "60" if self.quick else "200"] + [str(s) for s in self.sizes or LARGE[:3]],
                     {0: ("MB/s", True, "%.0f"), 1: ("receiver's CPU, ns a byte", False, "%.3f")})
        hosts_down()

    def exchange(self, mtu):
        names = hosts_up(2, mtu)
        self.compare("exchange, MTU %d" % mtu, names, ["exchange", "60" if self.quick else "200"] + [str(s) for s in self.sizes or LARGE],
                     {0: ("MB/s each way", True, "%.0f"), 1: ("CPU, ns a byte", False, "%.3f")})
        hosts_down()

    def compute(self, mtu):
        names = hosts_up(2, mtu)
        self.compare(net_page.COMPUTE % mtu, names, ["compute", "60" if self.quick else "200"] + [str(s) for s in self.sizes or COMPUTE],
                     {0: ("us a turn", False, "%.0f")})
        hosts_down()

    def loss(self, percent):
        """As many messages as lose some hundred frames at most: TCP may wait 200 ms for each."""
        names, title, sizes = hosts_up(2, 1500, percent), net_page.LOST % percent, self.sizes or (8, 65536)
        most = [max(40, int(400 / percent / -(-s // 1400))) if percent else 0 for s in sizes]
        self.compare(title, names, ["pingpong", "100" if self.quick else "400"] + ["%d:%d" % both for both in zip(sizes, most)],
                     {0: ("median one way, us", False, "%.0f"), 1: ("99th percentile, us", False, "%.0f"),
                      2: (net_page.MEAN, False, "%.0f")}, 20)
        for c in self.all:
            for s in sizes:
                if (title, c.name) in self.late and not any((title, w, net_page.MEAN, c.name, s) in self.rows for w in node.REGIMES):
                    self.rows[title, "", net_page.MEAN, c.name, s] = {"what": title, "cores": "", "figure": net_page.MEAN,
                                                                      "candidate": c.name, "bytes": s, "up": False, "runs": [],
                                                                      "late": self.late[title, c.name]}
        hosts_down()

    def incast(self, mtu):
        names = hosts_up(HOSTS, mtu)
        self.compare("8 hosts to one, MTU %d" % mtu, names, ["incast", "6" if self.quick else "20", "1048576"],
                     {0: ("MB/s of all", True, "%.0f"), 1: ("short messages' median, us", False, "%.0f"),
                      2: ("short messages' 99th percentile, us", False, "%.0f")})
        hosts_down()

    def bare(self, mtu):
        """The kernel's own limit: the same calls, without a protocol, and what part of it sennit reaches."""
        names = hosts_up(2, mtu)
        sizes = self.sizes or SMALL[:1] + LARGE[:3]
        jobs = [("ping-pong", way, s) for way in net_page.BARE for s in sizes]
        jobs += [("stream", way, s) for way in net_page.BARE for s in sizes if s >= LARGE[0]]
        got = {(*job, where): [] for job in jobs for where in node.REGIMES}
        until = self.until()
        for i in range(self.rounds):
            if i and time.monotonic() > until:
                break
            for kind, way, size in jobs:
                value, where = self.placed(lambda kind=kind, way=way, size=size: bare_once(
                    os.path.join(self.build, "bin", "net_bare"), names, self.cores, way, kind, size))
                if value and where:
                    got[kind, way, size, where].append(value)
        print("\nbare calls, MTU %d: ping-pong, one way us; streams, MB/s" % mtu)
        for (kind, way, size, where), values in got.items():
            if values:
                print("%-12s%-8s%8s %-5s %10.1f (%.1f-%.1f)" % (kind, way, human(size), where, statistics.median(values), min(values),
                                                              max(values)))
                streams = kind == "stream"
                self.note(net_page.LIMIT + ("stream, " if streams else "") + "MTU %d" % mtu, where,
                          "MB/s" if streams else "one way, us", way, size, values, streams)
        hosts_down()


def bare_once(program, names, cores, way, kind, size):
    """What the bare program measures between two hosts, or None. The Ethernet driver joins bodies, and has no ring for them."""
    def command(i):
        calls = "joined" if way == "ether" and size >= LARGE[0] else way
        return cores.on(i, ["ip", "netns", "exec", names[i], program, calls, str(i), str(size)] +
                        ([kind] if kind in ("stream", "wake") else []))
    with launch.started(command(1)) as other:
        other.stdout.readline()
        first = launch.run(command(0), limit=5)
    if first.late:  # a frame was lost, which nothing there would notice
        print("bare calls, %s, %s of %s: not done after 5 s" % (way, kind, human(size)))
    out = first.text.split()
    return float(out[1]) if len(out) == 2 and not first.late else None


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default=os.path.join(ROOT, "build"))
    p.add_argument("--quick", action="store_true", help="one round of short runs: does it work, and roughly how fast")
    p.add_argument("--rounds", type=int)
    p.add_argument("--minutes", type=float, default=60, help="stop after as many rounds of each part as fit")
    p.add_argument("--mtu", default="1500,9000")
    p.add_argument("--what", default="bare,latency,stream,exchange,compute,loss,incast")
    p.add_argument("--sizes", default="", help="bytes of the messages, instead of the usual ones")
    p.add_argument("--loss", default="0,0.1,1", help="percent of the frames")
    p.add_argument("--only", default="", help="candidates whose names contain one of these words")
    p.add_argument("--ours", default="o4,m5", help="the MPIs under which sennit is measured")
    p.add_argument("--json", help="write every figure to this file")
    p.add_argument("--append", action="store_true", help="add to the figures of that file")
    p.add_argument("--report", action="store_true", help="run nothing: what stands in that file")
    p.add_argument("--doc", help="put the results into this page, too (docs/performance.md)")
    p.add_argument("--verbose", action="store_true", help="sennit's counters after each run")
    args = p.parse_args(argv)
    args.rounds = args.rounds or (1 if args.quick else 5)
    launch.heed()
    if os.geteuid() != 0 and not args.report:
        print("skipped: making network namespaces needs root")
        return net.SKIP
    measured = {"machine": node.machine(os.path.abspath(args.build)), "rows": [], "notes": []}
    if args.append or args.report:
        before = earlier(args)
        measured = before if args.report else {**measured, "rows": before["rows"], "notes": before["notes"]}
    if not args.report:
        run(args, measured)
        if args.json:
            os.makedirs(os.path.dirname(os.path.abspath(args.json)), exist_ok=True)
            with open(args.json, "w", encoding="utf-8") as f:
                json.dump(measured, f, indent=1)
    if args.doc:
        report.put_part(args.doc, "Between hosts", net_page.section(measured["rows"], measured["notes"]) + ["", report.measured(measured["machine"])])
    return 0


def earlier(args):
    """What stands in the file. What a version wrote that did not tell near and far apart can be shown, but not be added to."""
    what = "--report" if args.report else "--append"
    if not args.json:
        sys.exit(f"net.py: {what} needs --json FILE, the file that is meant")
    instead = f". Run without {what}, which measures everything and writes the file anew"
    try:
        with open(args.json, encoding="utf-8") as f:
            before = json.load(f)
    except (OSError, ValueError) as e:
        sys.exit(f"net.py: cannot read {args.json}: {getattr(e, 'strerror', None) or e}{instead}")
    if not isinstance(before, dict) or not {"machine", "rows", "notes"} <= before.keys() or not all(KNOWN <= row.keys() for row in before["rows"]):
        sys.exit(f"net.py: {args.json} has not what net.py writes{instead}")
    if not args.report and not all("cores" in row for row in before["rows"]):
        sys.exit(f"net.py: {args.json} is of an older version, which did not tell near and far cores apart: what is measured now cannot be "
                 f"added to it{instead}, or name another file")
    for row in before["rows"]:
        row.setdefault("cores", node.ANY)
    return before


def run(args, measured):
    """Adds the figures of this run."""
    bench, what = Bench(args), args.what.split(",")
    bench.rows = {(r["what"], r["cores"], r["figure"], r["candidate"], r["bytes"]): r for r in measured["rows"]}
    mtus = [int(m) for m in args.mtu.split(",")]
    parts = [(getattr(bench, name), mtu) for mtu in mtus for name in ("bare", "latency", "stream", "exchange", "compute") if name in what]
    parts += [(bench.loss, percent) for percent in map(float, args.loss.split(",")) if "loss" in what]
    parts += [(bench.incast, mtus[0])] if "incast" in what else []
    try:
        for i, (part, argument) in enumerate(parts):
            bench.parts = len(parts) - i
            part(argument)
    finally:
        with launch.undisturbed():
            net.tear_down()
    measured["rows"] = list(bench.rows.values())
    measured["notes"] += bench.notes
    if bench.dropped:
        print("%d runs were dropped: the cores moved meanwhile" % bench.dropped)


if __name__ == "__main__":
    sys.exit(main())

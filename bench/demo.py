#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make demo: one unmodified MPI program under this machine's MPI, by itself and over sennit, in turn.

Prints a table and draws build/demo.png. The two are run alternately, so that a disturbance of the machine hits both, and
the medians over the runs are shown.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

import launch
from bench import human

HERE = os.path.dirname(os.path.abspath(__file__))


def fail(message):
    sys.exit("demo: " + message)


def find_mpi(args):
    """The launcher and the compiler of one MPI."""
    launcher = shutil.which(args.mpirun)
    if not launcher:
        fail(f"{args.mpirun} not found; --mpirun and --mpicc choose another MPI")
    compiler = shutil.which(args.mpicc)
    if not compiler:
        fail(f"{args.mpicc} not found; --mpirun and --mpicc choose another MPI")
    return launcher, compiler


def launcher_options(launcher, build):
    """One rank a core where there are two cores; and which MPI it is, as `sennit run` finds out."""
    command = [os.path.join(build, "bin", "sennit"), "run", "--dry-run", "--", launcher, "-n", "2", "./a.out"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    name = said.partition("\n")[0].removeprefix("# ")
    options = ["-n", "2"]
    if "Open MPI" in name:
        options += ["--bind-to", "core"] if os.cpu_count() > 1 else ["--oversubscribe", "--bind-to", "none"]
    elif "MPI" in name and "unknown" not in name and os.cpu_count() > 1:
        options += ["-bind-to", "core"]
    return options, name or launcher


def busy(seconds=0.5):
    """How many processors others keep busy now. Not the load average: the build that has just ended is still in it."""
    def look():
        with open("/proc/stat", encoding="ascii") as f:
            ticks = [int(n) for n in f.readline().split()[1:9]]  # user nice system idle iowait irq softirq steal
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4]

    try:
        total, used = look()
        time.sleep(seconds)
        later = look()
        return (later[1] - used) / max(later[0] - total, 1) * os.cpu_count()
    except (OSError, ValueError, IndexError):
        return 0


def run_once(command, env):
    """{bytes: one-way microseconds}"""
    r = launch.run(command, env, limit=600, errors=subprocess.PIPE)
    if r.late:
        fail("no end after 600 s: " + " ".join(command))
    if r.status != 0:
        sys.stderr.write(r.text + r.errors)
        fail(f"exit status {r.status}: " + " ".join(command))
    return {int(a): float(b) for a, b in (line.split() for line in r.text.splitlines() if line[:1].isdigit())}


def table(results):
    """Rows of (bytes, stock us, sennit us, stock MB/s, sennit MB/s, how many times as fast)."""
    rows = []
    for size in sorted(results["stock"][0]):
        us = {name: statistics.median(run[size] for run in runs) for name, runs in results.items()}
        rows.append((size, us["stock"], us["sennit"], size / us["stock"], size / us["sennit"],
                     us["stock"] / us["sennit"]))
    return rows


def print_table(rows):
    print(f"{'message':>9} {'stock us':>11} {'sennit us':>11} {'stock MB/s':>11} {'sennit MB/s':>11} {'ratio':>7}")
    for size, stock, sennit, stock_rate, sennit_rate, ratio in rows:
        print(f"{human(size):>9} {stock:11.2f} {sennit:11.2f} {stock_rate:11.0f} {sennit_rate:11.0f} {ratio:7.2f}")
    print("One way: half a round trip. MB are 10^6 bytes. Ratio above 1: sennit is faster. Every message size was checked.")


def draw(rows, title, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("No plot: matplotlib is missing (apt install python3-matplotlib)")
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4))
    colours = {"stock": "#8a8f98", "sennit": "#0b7a75"}
    for column, name in ((1, "stock"), (2, "sennit")):
        left.plot([max(r[0], 0.5) for r in rows], [r[column] for r in rows], "o-", ms=3, color=colours[name], label=name)
        right.plot([r[0] for r in rows if r[0]], [r[column + 2] / 1000 for r in rows if r[0]], "o-", ms=3,
                   color=colours[name], label=name)
    ticks = [1, 1 << 5, 1 << 10, 1 << 15, 1 << 20, 1 << 25]
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [human(t) for t in ticks])
        axis.set_xlabel("message size")
        axis.grid(True, alpha=0.3)
        axis.legend(frameon=False)
    left.set_yscale("log")
    left.set_ylabel("one way, microseconds (lower is better)")
    right.set_ylabel("GB/s (higher is better)")
    right.set_ylim(bottom=0)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print("Plot: " + path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build directory")
    parser.add_argument("--mpirun", default="mpirun", help="the launcher to use")
    parser.add_argument("--mpicc", default="mpicc", help="the compiler of the same MPI")
    parser.add_argument("--max", type=int, default=64 << 20, help="largest message in bytes")
    parser.add_argument("--ms", type=float, default=50, help="time for each size in one run")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each")
    args = parser.parse_args()
    launch.heed()

    build = os.path.abspath(args.build)
    launcher, compiler = find_mpi(args)
    options, name = launcher_options(launcher, build)
    program = os.path.join(build, "demo_pingpong")
    subprocess.run([compiler, "-O2", "-o", program, os.path.join(HERE, "demo_pingpong.c")], check=True)
    env = dict(os.environ)
    if os.geteuid() == 0:  # containers; Open MPI wants to be told twice
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"

    stock = [launcher, *options, program, str(args.max), str(args.ms)]
    sennit = [os.path.join(build, "bin", "sennit"), "run", "--", *stock]
    print(f"{name}: the same program, alternately\n  {' '.join(stock)}\n  {' '.join(sennit)}\n")
    others = busy()
    if others > 0.3 and os.cpu_count() - others < 1.7:  # of the two that the ranks want
        print(f"Note: other programs keep {others:.1f} of {os.cpu_count()} processors busy now, so the figures below will vary a"
              " lot from run to run.\n")
    results = {"stock": [], "sennit": []}
    for turn in range(args.repeat):
        for which, command in (("stock", stock), ("sennit", sennit)):
            if sys.stdout.isatty():
                print(f"\rrun {turn + 1} of {args.repeat}: {which}   ", end="", flush=True)
            results[which].append(run_once(command, env))
    if sys.stdout.isatty():
        print("\r" + " " * 40 + "\r", end="")
    rows = table(results)
    print_table(rows)
    draw(rows, f"{name}, by itself (stock) and over sennit, two ranks on one node", os.path.join(build, "demo.png"))


if __name__ == "__main__":
    main()

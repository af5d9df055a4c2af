#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The split of a stream over two rails while one degrades, recovers, and the other dies and comes back.

usage: sched_plot.py SCHED_SIM OUT.png [STRATEGY ...]

SCHED_SIM is build/bin/sched_sim: the scheduler as it is, on simulated rails in virtual time. One row of the figure for each strategy
(default: aggregate,split and aggregate,equal). Needs matplotlib.
"""
import csv
import subprocess
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    print("skipped: no matplotlib here")
    sys.exit(77)


def trace(program, strategy):
    out = subprocess.run([program, "trace", strategy], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    rows = list(csv.DictReader(out.splitlines()))
    return {key: [float(r[key]) for r in rows] for key in rows[0]}


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    strategies = sys.argv[3:] or ["aggregate,split", "aggregate,equal"]
    fig, axes = plt.subplots(len(strategies), 1, sharex=True, squeeze=False, figsize=(9, 3.2 * len(strategies)))
    for ax, strategy in zip(axes[:, 0], strategies):
        t = trace(sys.argv[1], strategy)
        ax.stackplot(t["ms"], t["rail0"], t["rail1"], labels=["rail 0 carries", "rail 1 carries"],
                     colors=["#4c78a8", "#f58518"], alpha=0.7)
        ax.step(t["ms"], [a + b for a, b in zip(t["capacity0"], t["capacity1"])], "k--", lw=1, where="post",
                label="what both could")
        ax.plot(t["ms"], t["model1"], color="#b33", lw=1, label="model of rail 1")
        total = sum(a + b for a, b in zip(t["rail0"], t["rail1"]))
        could = sum(a + b for a, b in zip(t["capacity0"], t["capacity1"]))
        ax.set_title("%s: %.0f %% of what both could carry" % (strategy, 100 * total / could))
        ax.set_ylabel("MB/s")
        ax.set_ylim(0, 260)
        ax.legend(loc="upper right", fontsize="small")
        print("%s: %.1f %%" % (strategy, 100 * total / could))
    axes[-1, 0].set_xlabel("ms of virtual time")
    fig.tight_layout()
    fig.savefig(sys.argv[2], dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())

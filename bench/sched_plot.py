#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The split of a stream over two rails while one degrades, recovers, and the other dies and comes back, as an SVG picture.

usage: sched_plot.py SCHED_SIM OUT.svg [STRATEGY ...]

SCHED_SIM is build/bin/sched_sim: the scheduler as it is, on simulated rails in virtual time. One panel for each strategy (default:
aggregate,split and aggregate,equal).
"""
import csv
import subprocess
import sys

WIDTH, HEIGHT, LEFT, TOP, MOST = 860, 210, 60, 40, 220.0


def trace(program, strategy):
    out = subprocess.run([program, "trace", strategy], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    rows = list(csv.DictReader(out.splitlines()))
    return {key: [float(r[key]) for r in rows] for key in rows[0]}


def line(xs, ys):
    return " ".join("%.1f,%.1f" % p for p in zip(xs, ys))


def panel(t, strategy, top):
    """One strategy's picture as SVG, from y = top on; and what part of the capacity it carried."""
    end = t["ms"][-1] + 10
    x = [LEFT + ms / end * (WIDTH - LEFT - 20) for ms in t["ms"]]
    bottom = top + HEIGHT

    def y(values):
        return [bottom - v / MOST * HEIGHT for v in values]

    both = [a + b for a, b in zip(t["rail0"], t["rail1"])]
    could = [a + b for a, b in zip(t["capacity0"], t["capacity1"])]
    part = 100 * sum(both) / sum(could)
    floor = [bottom] * len(x)
    out = ['<text x="%d" y="%d" font-weight="bold">%s: %.0f %% of what both could carry</text>' % (LEFT, top - 8, strategy, part)]
    for low, high, colour in ((floor, y(t["rail0"]), "#4c78a8"), (y(t["rail0"]), y(both), "#f58518")):
        out.append('<polygon points="%s %s" fill="%s" fill-opacity="0.75"/>' % (line(x, high), line(x[::-1], low[::-1]), colour))
    out.append('<polyline points="%s" fill="none" stroke="black" stroke-dasharray="5 3"/>' % line(x, y(could)))
    out.append('<polyline points="%s" fill="none" stroke="#a00"/>' % line(x, y(t["model1"])))
    for mb in (0, 100, 200):
        out.append('<text x="%d" y="%.0f" text-anchor="end">%d</text>' % (LEFT - 6, bottom - mb / MOST * HEIGHT + 4, mb))
    for ms in range(0, int(end) + 1, 500):
        out.append('<text x="%.0f" y="%d" text-anchor="middle">%d ms</text>' %
                   (LEFT + ms / end * (WIDTH - LEFT - 20), bottom + 16, ms))
    return out, part


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    strategies = sys.argv[3:] or ["aggregate,split", "aggregate,equal"]
    step = HEIGHT + 60
    height = TOP + step * len(strategies) + 10
    svg = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">' % (WIDTH, height),
           '<rect width="100%" height="100%" fill="white"/>']
    for i, strategy in enumerate(strategies):
        shapes, part = panel(trace(sys.argv[1], strategy), strategy, TOP + i * step)
        svg += shapes
        print("%s: %.1f %%" % (strategy, part))
    svg.append('<text x="%d" y="%d">MB/s over virtual time. <tspan fill="#4c78a8">rail 0</tspan>, <tspan fill="#f58518">rail 1</tspan>, '
               'dashed: what both could, <tspan fill="#a00">line: the model of rail 1</tspan></text>' % (LEFT, height - 8))
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write("\n".join(svg + ["</svg>", ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

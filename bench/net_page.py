# SPDX-License-Identifier: BSD-3-Clause
"""What net.py measured between hosts, for docs/performance.md."""
import json
import os

from bench import human

DRIVERS = (("udp", "UDP"), ("ether", "Ethernet"))
LIMIT = "bare, "  # the rows of the kernel's own calls: "bare, MTU 1500" belongs to "ping-pong, MTU 1500"


def number(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def text_of(row):
    runs = row["runs"]
    return number(row["median"]) + (f" ({number(min(runs))}..{number(max(runs))})" if len(runs) > 1 else "")


def is_ours(row, driver=None):
    words = row["candidate"].split()
    return words[0] == "sennit" and (driver is None or driver in words)


def best(rows, up):
    return (max if up else min)(rows, key=lambda r: r["median"], default=None)


def ratio(ours, peer, up):
    """Above 1: ours is better."""
    if not ours or not peer or not ours["median"] or not peer["median"]:
        return None
    return ours["median"] / peer["median"] if up else peer["median"] / ours["median"]


def groups(rows):
    """[(what, figure, bytes), rows of it], in the order in which they were measured."""
    found = {}
    for row in rows:
        if not row["what"].startswith(LIMIT):
            found.setdefault((row["what"], row["figure"], row["bytes"]), []).append(row)
    return list(found.items())


def judge(rows, up):
    """The best of each driver, the best of the others, and the two ratios."""
    ours = [best([r for r in rows if is_ours(r, driver)], up) for driver, _ in DRIVERS]
    peer = best([r for r in rows if not is_ours(r)], up)
    return ours, peer, [ratio(o, peer, up) for o in ours]


def limits(rows):
    """[[where, bytes, driver's name, the bare calls' figure, sennit's, the one over the other]]"""
    found = []
    for row in rows:
        if not row["what"].startswith(LIMIT):
            continue
        where = row["what"][len(LIMIT):]
        ours = best([r for r in rows if r["what"] == "ping-pong, " + where and r["bytes"] == row["bytes"] and
                     is_ours(r, row["candidate"])], False)
        if ours:
            found.append([where, row["bytes"], dict(DRIVERS)[row["candidate"]], row, ours, ours["median"] / row["median"]])
    return found


def section(rows):
    heads = ["row", "figure"] + [f"sennit, {name}" for _, name in DRIVERS] + ["best other", "by"] + [f"ratio, {n}" for _, n in DRIVERS]
    lines = ["", "## Between hosts", "", "From `bench/net.py`, a part of `make bench`: two hosts (for the incast nine) that are network "
             "namespaces of this machine, one core each; the others over their own TCP. The ratio is above 1 where sennit is better, also "
             "where less is better. Both hosts share this machine's processor, so the kernel's path costs more of the figure "
             "than between two machines, and the wire costs nothing.", "",
             "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (what, figure, size), of_it in groups(rows):
        ours, peer, ratios = judge(of_it, of_it[0].get("up", False))
        cells = [f"{what}, {human(size)}", figure] + [text_of(o) if o else "-" for o in ours]
        cells += [text_of(peer) if peer else "-", peer["candidate"] if peer else ""]
        lines.append("| " + " | ".join(cells + [f"{r:.2f}" if r else "" for r in ratios]) + " |")
    bare = limits(rows)
    if bare:
        lines += ["", "The bare limit: two programs that make the same system calls on the same hosts, with no protocol between, and how much "
                  "longer a message of sennit takes, one way.", "", "| path | size | driver | bare calls, us | sennit, us | over it |",
                  "|---|---|---|---|---|---|"]
        lines += [f"| {where} | {human(size)} | {name} | {number(row['median'])} | {number(ours['median'])} | {over:.2f} |"
                  for where, size, name, row, ours, over in bare]
    return lines


def section_of(out):
    """What net.py has left there, if it ran."""
    path = os.path.join(out, "net.json")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return section(json.load(f))

# SPDX-License-Identifier: BSD-3-Clause
"""What net.py measured between hosts, for docs/performance.md."""
from bench import ANY, MEANING, human
from report import LEVEL, number

DRIVERS = (("udp", "UDP"), ("ether", "Ethernet"))
PROMISED_8 = {"udp": 1.4, "ether": 2.0}  # 8 bytes through MPI, over the better TCP
NEAR_LIMIT = 1.1  # of the bare calls' time
COLLAPSE = 2      # times as long as without loss, on the same wire
LOST, MEAN = "ping-pong, %g %% lost", "mean one way, us"
COMPUTE = "both post, compute for 100 us and wait, MTU %d"
LIMIT = "bare, "  # the rows of the kernel's own calls: "bare, MTU 1500" belongs to "ping-pong, MTU 1500", "bare, stream, ..." to "stream, ..."
NAMES = {"o4": "Open MPI 4", "o5": "Open MPI 5", "m5": "MPICH 5", "im": "Intel MPI"}
BARE = ("udp", "ether", "xdp")  # the last one is no driver: a candidate


def text_of(row):
    runs = row["runs"]
    return number(row["median"]) + (f" ({number(min(runs))}..{number(max(runs))})" if len(runs) > 1 else "")


def is_ours(row, driver=None):
    words = row["candidate"].split()
    return words[0] == "sennit" and (driver is None or driver in words)


def text_of_ours(row):
    words = row["candidate"].split()
    return f"{text_of(row)} over {NAMES[words[2] if len(words) > 2 else 'o4']}"


def best(rows, up):
    return (max if up else min)(rows, key=lambda r: r["median"], default=None)


def ratio(ours, peer, up):
    """Above 1: ours is better."""
    if not ours or not peer or not ours["median"] or not peer["median"]:
        return None
    return ours["median"] / peer["median"] if up else peer["median"] / ours["median"]


def groups(rows):
    """[(what, cores, figure, bytes), rows of it], in the order in which they were measured."""
    found = {}
    for row in rows:
        if not row["what"].startswith(LIMIT):
            found.setdefault((row["what"], row["cores"], row["figure"], row["bytes"]), []).append(row)
    return list(found.items())


def judge(rows, up):
    """The best of each driver, the best of the others, and the two ratios."""
    ours = [best([r for r in rows if is_ours(r, driver)], up) for driver, _ in DRIVERS]
    peer = best([r for r in rows if not is_ours(r)], up)
    return ours, peer, [ratio(o, peer, up) for o in ours]


def limits(rows):
    """[[where, cores, bytes, driver's name, the bare calls' figure, sennit's, how much worse that is]]"""
    found = []
    for row in rows:
        if not row["what"].startswith(LIMIT) or row["candidate"] not in dict(DRIVERS):
            continue
        where, up = row["what"][len(LIMIT):], row.get("up", False)
        where = where if where.startswith("stream") else "ping-pong, " + where
        here = (where, row["cores"], row["figure"], row["bytes"])
        ours = best([r for r in rows if (r["what"], r["cores"], r["figure"], r["bytes"]) == here and is_ours(r, row["candidate"])], up)
        if ours:
            found.append([where, row["cores"], row["bytes"], dict(DRIVERS)[row["candidate"]], row, ours, 1 / ratio(ours, row, up)])
    return found


def xdp(rows):
    """[[where, cores, bytes, figure, AF_XDP's, the calls' of the Ethernet driver, the ratio]], all without a protocol."""
    bare = {(r["what"], r["cores"], r["bytes"], r["candidate"]): r for r in rows if r["what"].startswith(LIMIT)}
    found = []
    for (what, cores, size, who), row in bare.items():
        driver = bare.get((what, cores, size, "ether"))
        if who == "xdp" and driver:
            found.append([what[len(LIMIT):], cores, size, row["figure"], row, driver, ratio(row, driver, row.get("up", False))])
    return found


def promised(what, figure, size, driver):
    """The ratio to the best other that sennit promises there, or None."""
    if "lost" in what:
        return None  # held against the same wire without loss
    if "CPU" in figure or "99th" in figure:
        return 1.0
    if what.startswith("ping-pong, MTU") and size == 8:
        return PROMISED_8[driver]
    if size >= 65536 and "MTU" in what and what.split(",")[0] in ("ping-pong", "stream", "exchange"):
        return 1.0 if driver == "udp" or "9000" in what else None
    return None


def verdict(reached, promise):
    if reached is None:
        return "-"
    if promise is not None and promise > 1:
        return "met" if reached >= promise else "MISSED"
    return "leads" if reached >= 1 else "level" if reached >= LEVEL else "BEHIND" + (", MISSED" if promise else "")


def losses(rows):
    """[[percent, cores, bytes, driver's name, mean with none lost, mean with that many lost, the one over the other]] on one wire."""
    mean = {(r["what"], r["cores"], r["bytes"], r["candidate"]): r for r in rows if r["figure"] == MEAN}
    found = []
    for (what, cores, size, who), row in mean.items():
        clean = mean.get((LOST % 0, cores, size, who))
        if clean and what != LOST % 0:
            found.append([what.split(", ")[1], cores, size, who, clean, row, row["median"] / clean["median"]])
    return found


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] + ["| " + " | ".join(row) + " |" for row in rows]


def unended(rows):
    """The lines of those that did not end on a lossy wire."""
    return [[r["what"].split(", ")[1], "", human(r["bytes"]), r["candidate"], "", f"not done in {r['late']} s", "", "COLLAPSES"]
            for r in rows if "late" in r]


def section(rows, notes=()):
    heads = ["row", "cores", "figure"] + [f"sennit, {name}" for _, name in DRIVERS] + ["best other", "by"] + [f"ratio, {n}" for _, n in DRIVERS]
    lines = ["From `bench/net.py`, a part of `make bench`: two hosts (for the incast nine) that are network "
             "namespaces of this machine, with a core each, which nothing of the other one uses; the others over their own TCP, sennit over the MPI with which it is best. The ratio is above 1 where sennit is better, also "
             "where less is better. Both hosts share this machine's processor, so the kernel's path costs more of the figure "
             "than between two machines, and the wire costs nothing. Promised are "
             f"{PROMISED_8['ether']:g} times for 8 bytes over Ethernet and {PROMISED_8['udp']:g} over UDP (met or MISSED), and no less than "
             "the best other from 64 KiB on (over Ethernet with MTU 9000), in processor time a byte and in the 99th percentile of the incast's "
             f"short messages. {MEANING}" + (f", `{ANY}`: they were not told apart." if any(r["cores"] == ANY for r in rows) else "."), ""]
    late, rows = unended(rows), [r for r in rows if "late" not in r]
    cells = []
    for (what, cores, figure, size), of_it in groups(rows):
        ours, peer, ratios = judge(of_it, of_it[0].get("up", False))
        verdicts = [verdict(r, promised(what, figure, size, driver)) for r, (driver, _) in zip(ratios, DRIVERS)]
        cells.append([f"{what}, {human(size)}", cores, figure] + [text_of_ours(o) if o else "-" for o in ours] +
                     [text_of(peer) if peer else "-", peer["candidate"] if peer else ""] +
                     [f"{r:.2f}" if r else "" for r in ratios] + [" / ".join(verdicts)])
    lines += table(heads + ["verdict"], cells)
    lossy = losses(rows)
    if lossy or late:
        lines += ["", "Loss, on one wire in user space (which is the slowest part there): the mean one way, against the mean of the same "
                  f"wire that loses nothing. Up to {COLLAPSE} times as long is no collapse.", ""]
        lines += table(["lost", "cores", "size", "by", "none lost, us", "us", "over it", "verdict"],
                       [[lost, cores, human(size), who, text_of(clean), text_of(row), f"{over:.2f}",
                         "no collapse" if over <= COLLAPSE else "COLLAPSES"] for lost, cores, size, who, clean, row, over in lossy] + late)
    bare = limits(rows)
    if bare:
        lines += ["", "The bare limit: two programs that make the same system calls on the same hosts, with no protocol between, and how much "
                  "longer a message of sennit takes, one way, or how much less a stream carries.", ""]
        lines += table(["path", "cores", "size", "driver", "figure", "bare calls", "sennit", "over it", "verdict"],
                       [[where, cores, human(size), name, row["figure"], number(row["median"]), number(ours["median"]), f"{over:.2f}",
                         f"within {NEAR_LIMIT}" if over <= NEAR_LIMIT else f"beyond {NEAR_LIMIT}"]
                        for where, cores, size, name, row, ours, over in bare])
    other = xdp(rows)
    if other:
        lines += ["", "AF_XDP, copy mode, which no driver uses ([why](experiments.md#af_xdp)), beside the calls of the Ethernet driver, both bare. Above 1: "
                  "AF_XDP is better.", ""]
        lines += table(["path", "cores", "size", "figure", "AF_XDP", "Ethernet driver's calls", "ratio"],
                       [[where, cores, human(size), figure, number(row["median"]), number(ours["median"]), f"{r:.2f}"]
                        for where, cores, size, figure, row, ours, r in other])
    if notes:
        lines += ["", "What went wrong in the run:", "", *(f"- {note}" for note in notes)]
    return lines

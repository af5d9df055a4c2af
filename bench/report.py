# SPDX-License-Identifier: BSD-3-Clause
"""What bench.py measured, as a table, one verdict a row, plots, and a page."""
import json
import os
import re
import statistics

import bench

OURS = "sennit"
LINE = 64  # bytes
BARE = ("capilat", "capipost", "capirate", "capiratio", "capibw", "capibwpart", "capimap", "capimappart")  # rows with nobody to compare with
LEVEL = 0.97                                 # from here on sennit counts as level: noise
KERNEL_COPY = ("Open MPI 4", "Open MPI 4 UCX", "Open MPI 5", "Open MPI 5 UCX", "MPICH 4", "MPICH 5")
KERNEL_FROM = 256 << 10                      # bytes, from which on all of these let the kernel copy
STREAMS = ("bw", "cold", "used")


def kinds_in_order(rows):
    order = [k for k in bench.TITLES if not k.startswith(bench.THREADS)] + ["alltoall", "allreduce", "bcast", "exchange", "reduce", "gather", "scatter", "allgatherv", "alltoallv", "gatherv", "scatterv", "iallreduce", "ibcast", "ialltoall"]
    order += [k for k in bench.TITLES if k.startswith(bench.THREADS)]
    return sorted(rows, key=lambda r: (int(r.partition("@")[2] or 2), order.index(bench.kind_of(r)),
                                       int(r.split("@")[0].split(":")[1])))


class Row:
    """One row in one regime."""

    def __init__(self, name, regime, samples):
        self.name, self.regime, self.kind = name, regime, bench.kind_of(name)
        self.less = self.kind in bench.LESS_IS_BETTER
        self.values = {}
        for who, taken in samples.items():
            kept = sorted(v for v, where in taken if where == regime)
            if kept:
                self.values[who] = kept
        best = min if self.less else max
        self.median = {who: statistics.median(v) for who, v in self.values.items()}
        ours = [w for w in self.median if w.startswith(OURS)]
        peers = [w for w in self.median if not w.startswith(OURS)]
        self.ours = best(ours, key=self.median.get) if ours else None
        self.peer = best(peers, key=self.median.get) if peers else None

    @property
    def ratio(self):
        if not self.ours or not self.peer:
            return None
        a, b = self.median[self.ours], self.median[self.peer]
        if self.kind.startswith("hide"):
            return None
        return b / a if self.less else a / b

    def verdict(self):
        if self.kind == "capiratio":
            if int(self.name.split(":")[1]) > LINE:  # more lines than the bare exchange moves
                return ""
            return "within 1.5" if self.median[self.ours] <= 1.5 else "beyond 1.5"
        if self.kind in ("capibwpart", "capimappart"):
            return "within 0.85" if self.median[self.ours] >= 0.85 else "beyond 0.85"
        if self.kind in BARE or not self.ours or not self.peer:
            return ""
        if self.kind.startswith("hide"):
            ours, peer = self.median[self.ours], self.median[self.peer]
            if ours < max(0.95, peer - 0.02):  # below what is promised, or clearly less than another hides
                return "BEHIND"
            return "leads" if ours >= peer else "level"
        return "leads" if self.ratio >= 1 else "level" if self.ratio >= LEVEL else "BEHIND"


def number(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values):
    return f"{number(values[0])}..{number(values[-1])}" if len(values) > 1 else "one sample"


def rows_of(data):
    made = []
    for regime in (*bench.REGIMES, bench.ANY):
        for name in kinds_in_order(data["samples"]):
            row = Row(name, regime, data["samples"][name])
            if row.median:
                made.append(row)
    return made


def line(row):
    unit = bench.UNITS.get(row.kind, "us")
    ours = f"{number(row.median[row.ours])} ({spread(row.values[row.ours])})" if row.ours else "-"
    peer = f"{number(row.median[row.peer])} ({spread(row.values[row.peer])})" if row.peer else "-"
    ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
    return (bench.title(row.name), row.regime, unit, ours, (row.ours or "").replace("sennit, ", "over "), peer, row.peer or "",
            ratio, row.verdict())


HEADS = ("row", "cores", "unit", "sennit", "", "best other", "", "ratio", "verdict")


def print_table(rows, out):
    lines = [HEADS] + [line(r) for r in rows]
    widths = [max(len(x[i]) for x in lines) for i in range(len(HEADS))]
    text = "\n".join("  ".join(x[i].ljust(widths[i]) for i in range(len(HEADS))).rstrip() for x in lines) + "\n"
    counts = {}
    for r in rows:
        if r.verdict():
            counts[r.verdict()] = counts.get(r.verdict(), 0) + 1
    text += "\n" + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) + "\n"
    with open(os.path.join(out, "bench.txt"), "w", encoding="utf-8") as f:
        f.write(text)
    print(text)


# ---- plots ----

PLOTS = (("lat", "one way, us", True), ("bw", "MB/s, cached", False), ("cold", "MB/s, rotated out of cache", False),
         ("used", "MB/s, written and read", False))


def curves(axis, rows, kind, regime, label, log):
    found = {}
    for r in rows:
        if r.kind == kind and r.regime == regime and "@" not in r.name:
            for who, value in r.median.items():
                found.setdefault(who, []).append((max(int(r.name.split(":")[1]), 0.5), value))
    for who, points in sorted(found.items()):
        ours = who.startswith(OURS)
        axis.plot(*zip(*sorted(points)), "o-" if ours else "s--", ms=3, lw=1.8 if ours else 1, label=who)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("bytes")
    axis.set_ylabel(label)
    axis.set_title(f"{bench.TITLES[kind]}, cores {regime}", fontsize=9)
    axis.grid(True, alpha=0.3)
    if log:
        axis.set_yscale("log")
    elif found:
        axis.set_ylim(bottom=0)
    return bool(found)


def bars(axis, rows, kinds, regimes):
    chosen = [r for r in rows if r.kind in kinds and r.regime in regimes]
    who = sorted({w for r in chosen for w in r.median})
    for i, name in enumerate(who):
        axis.bar([k + i * 0.8 / len(who) for k in range(len(chosen))], [r.median.get(name, 0) for r in chosen],
                 0.8 / len(who), label=name, hatch="//" if name.startswith(OURS) else None)
    axis.set_xticks([k + 0.4 for k in range(len(chosen))], [f"{bench.title(r.name)}\n{r.regime}" for r in chosen], fontsize=6,
                    rotation=20)
    return bool(chosen)


def draw(rows, out):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("No plots: matplotlib is missing (apt install python3-matplotlib)")
        return []
    made = []

    def finish(figure, axis, name):
        axis.legend(fontsize=6, frameon=False)
        figure.tight_layout()
        path = os.path.join(out, name)
        figure.savefig(path, dpi=120)
        pyplot.close(figure)
        made.append(path)

    for regime in bench.REGIMES:
        figure, axes = pyplot.subplots(2, 2, figsize=(11, 8))
        any_found = [curves(axis, rows, kind, regime, label, log) for axis, (kind, label, log) in zip(axes.flat, PLOTS)]
        if any(any_found):
            finish(figure, axes.flat[0], f"bench-{regime}.png")
        pyplot.close(figure)
    for name, kinds, regimes in (("rate", ("rate", "rates", "capirate"), (*bench.REGIMES, bench.ANY)),
                                 ("overlap", ("hidesend", "hiderecv"), bench.REGIMES),
                                 ("crowd", ("alltoall", "allreduce", "bcast", "exchange", "reduce"), (bench.ANY,))):
        figure, axis = pyplot.subplots(figsize=(11, 4.5))
        if bars(axis, rows, kinds, regimes):
            if name == "crowd":
                axis.set_yscale("log")
                axis.set_ylabel("us a call, 4 and 8 ranks on these cores")
            finish(figure, axis, f"bench-{name}.png")
        pyplot.close(figure)
    return made


# ---- the page: a part for each program, of which one run replaces one ----

def put_part(path, title, lines):
    """Put the lines into the page as its section `title`, in the place of what stood there or behind the others; as its top for
    None. The rest of the page stays."""
    parts = [""]
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            parts = re.split(r"^(?=## )", f.read(), flags=re.MULTILINE)
    heading = f"## {title}"
    text = "\n".join(([heading, ""] if title else []) + lines).rstrip("\n") + "\n"
    at = 0 if title is None else next((i for i, part in enumerate(parts) if part.partition("\n")[0] == heading), len(parts))
    parts[at:at + 1] = [text]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(part.rstrip("\n") + "\n" for part in parts if part.strip()))
    print("Page: " + path)


def measured(machine):
    """One sentence: where, when, and what. The parts of the page may come from different runs."""
    return (f"Machine: {machine['processor']}, {machine['cpus']}; Linux {machine['kernel']}; transparent huge pages "
            f"{machine['thp']}; {machine['date']}, commit {machine['commit']}.")


def top(data, rows, section):
    most = max((len(v) for r in rows for v in r.values.values()), default=0)
    written = f'`bench/bench.py --doc FILE --section "{section}"`' if section else "`make bench DOC=1`"
    lines = [] if section else ["# Performance", ""]
    lines += [f"Written by {written}; do not edit. Medians, with the range of all rounds; the ratio is "
             "sennit's best to the best of the others, above 1 where sennit is ahead, also where less is better. "
             f"{bench.MEANING}; the machine moved them.", "",
             f"{measured(data['machine'])} Samples of a figure: {most} at most. Only cores in these positions were seen: "
             f"{', '.join(sorted({r.regime for r in rows} - {bench.ANY}))}.", "",
             "| " + " | ".join(h or "by" for h in HEADS) + " |", "|" + "---|" * len(HEADS)]
    lines += ["| " + " | ".join(line(r)) + " |" for r in rows]
    lines += against_the_kernel(rows)
    if data["notes"]:
        lines += ["", "What went wrong in the run:", "", *(f"- {n}" for n in data["notes"])]
    return lines


def against_the_kernel(rows):
    """Asked for where cores are near: twice the best of those who let the kernel copy."""
    ratios = {}
    for r in rows:
        peers = [r.median[w] for w in KERNEL_COPY if w in r.median]
        size = int(re.split("[:@]", r.name)[1])
        if r.regime == bench.NEAR and r.kind in STREAMS and size >= KERNEL_FROM and r.ours and peers:
            ratios.setdefault(size, {})[r.kind] = r.median[r.ours] / max(peers)
    if not ratios:
        return []
    lines = ["", "Cores near, bandwidth over that of the best of the stacks whose long messages are copied once by the kernel "
             f"({', '.join(KERNEL_COPY)}), of which twice is promised:", "",
             "| | " + " | ".join(bench.TITLES[kind] for kind in STREAMS) + " |", "|" + "---|" * (1 + len(STREAMS))]
    for size, of in sorted(ratios.items()):
        told = [f"{of[k]:.2f}" + ("" if of[k] >= 2 else " MISSED") if k in of else "" for k in STREAMS]
        lines.append(f"| {bench.human(size)} | " + " | ".join(told) + " |")
    return lines


def write(source, out, doc, section=None):
    with open(source, encoding="utf-8") as f:
        data = json.load(f)
    rows = rows_of(data)
    print_table(rows, out)
    for note in data["notes"]:
        print("note: " + note)
    for path in draw(rows, out):
        print("Plot: " + path)
    if doc:
        put_part(doc, section, top(data, rows, section))

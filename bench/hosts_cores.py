# SPDX-License-Identifier: BSD-3-Clause
"""A core for each of the hosts that a benchmark makes on one machine.

What runs on a host may use that core and no other, as on a host whose cores all have ranks: a thread that asks for every core
(sennit's do, for those that nobody uses) would otherwise get that of the other host. That takes a cpuset; where none can be
made the processes are bound, and their threads are not held.
"""
import atexit
import contextlib
import os


def hierarchy():
    """The mounted folder of cpusets, and whether it is one of version 2; (None, False): there is none."""
    with open("/proc/self/mounts", encoding="utf-8") as f:
        mounts = [line.split() for line in f]
    for _, where, kind, options, *_ in mounts:
        if kind == "cgroup" and "cpuset" in options.split(","):
            return where, False
    for _, where, kind, *_ in mounts:
        if kind == "cgroup2":
            with contextlib.suppress(OSError), open(os.path.join(where, "cgroup.controllers"), encoding="utf-8") as f:
                if "cpuset" in f.read().split():
                    return where, True
    return None, False


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read().strip()


class Cores:
    """held: nothing on a host runs elsewhere; else its processes are bound, and their threads may ask for every core."""

    def __init__(self, held):
        self.cores = sorted(os.sched_getaffinity(0))
        self.root, self.unified = hierarchy() if held else (None, False)
        self.made = {}  # core -> the folder of its cpuset
        try:
            for core in self.cores if self.root else ():
                self.make(core)
        except OSError as e:
            print(f"no cpusets ({e}): the hosts' processes are bound to a core each, and their threads are not held")
            self.clear()
        atexit.register(self.clear)

    def make(self, core):
        if self.unified:
            with contextlib.suppress(OSError):  # it may be on already
                write(os.path.join(self.root, "cgroup.subtree_control"), "+cpuset")
        folder = os.path.join(self.root, f"sennit-bench-{os.getpid()}-{core}")
        os.mkdir(folder)
        self.made[core] = folder
        write(os.path.join(folder, "cpuset.cpus"), str(core))
        if not self.unified:
            write(os.path.join(folder, "cpuset.mems"), read(os.path.join(self.root, "cpuset.mems")))

    def clear(self):
        for folder in self.made.values():
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        self.made = {}

    def of(self, host):
        return self.cores[host % len(self.cores)]

    def join(self, host):
        """What a shell says to have itself, and all that it starts, on that host's core."""
        core = self.of(host)
        into = f"echo $$ > {os.path.join(self.made[core], 'cgroup.procs')} && " if core in self.made else ""
        return f"{into}taskset -cp {core} $$ > /dev/null"

    def on(self, host, command):
        return ["sh", "-c", self.join(host) + ' && exec "$@"', "sh", *command]

# SPDX-License-Identifier: BSD-3-Clause
"""A core for each of the hosts that a benchmark makes on one machine.

What runs on a host may use that core and no other, as on a host whose cores all have ranks: a thread that asks for every core
(sennit's do, for those that nobody uses) would otherwise get that of the other host. That takes a cpuset; where none can be
made the processes are bound, and their threads are not held.
"""
import atexit
import contextlib
import os
import subprocess
import tempfile
import time


def hierarchy():
    """The version of control groups that has cpusets here, or None."""
    with open("/proc/self/mounts", encoding="utf-8") as f:
        mounts = [line.split() for line in f]
    if any(kind == "cgroup" and "cpuset" in options.split(",") for _, _, kind, options, *_ in mounts):
        return 1
    for _, where, kind, *_ in mounts:
        if kind == "cgroup2":
            with contextlib.suppress(OSError), open(os.path.join(where, "cgroup.controllers"), encoding="utf-8") as f:
                if "cpuset" in f.read().split():
                    return 2
    return None


def mounted(version):
    """In a place of its own: `ip netns exec` hides what is mounted below /sys, and a launcher in there starts ranks, too."""
    folder = tempfile.mkdtemp(prefix="sennit-cpusets-")
    kind = ["-t", "cgroup2"] if version == 2 else ["-t", "cgroup", "-o", "cpuset"]
    if subprocess.run(["mount", *kind, "none", folder], check=False).returncode:
        os.rmdir(folder)
        raise OSError("they cannot be mounted")
    return folder


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
        self.version, self.root = hierarchy() if held else None, None
        self.made = {}  # core -> the folder of its cpuset
        atexit.register(self.clear)
        try:
            if self.version:
                self.root = mounted(self.version)
                for core in self.cores:
                    self.make(core)
        except OSError as e:
            print(f"no cpusets ({e}): the hosts' processes are bound to a core each, and their threads are not held")
            self.clear()

    def make(self, core):
        if self.version == 2:
            with contextlib.suppress(OSError):  # it may be on already
                write(os.path.join(self.root, "cgroup.subtree_control"), "+cpuset")
        folder = os.path.join(self.root, f"sennit-bench-{os.getpid()}-{core}")
        os.mkdir(folder)
        self.made[core] = folder
        write(os.path.join(folder, "cpuset.cpus"), str(core))
        if self.version == 1:
            write(os.path.join(folder, "cpuset.mems"), read(os.path.join(self.root, "cpuset.mems")))

    def clear(self):
        for folder in self.made.values():
            for _ in range(20):  # until who was in there has gone
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                    break
                time.sleep(0.05)
        self.made = {}
        if self.root:
            subprocess.run(["umount", "-l", self.root], check=False)
            with contextlib.suppress(OSError):
                os.rmdir(self.root)
        self.root = None

    def of(self, host):
        return self.cores[host % len(self.cores)]

    def join(self, host):
        """What a shell says to have itself, and all that it starts, on that host's core."""
        core = self.of(host)
        into = f"echo $$ > {os.path.join(self.made[core], 'cgroup.procs')} && " if core in self.made else ""
        return f"{into}taskset -cp {core} $$ > /dev/null || exit 1"

    def on(self, host, command):
        return ["sh", "-c", self.join(host) + '; exec "$@"', "sh", *command]

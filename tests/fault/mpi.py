# SPDX-License-Identifier: BSD-3-Clause
"""Faults under MPI programs: the stress of tests/mpi with the kernel's copies refused, ranks in namespaces of their own,
ranks stopped and ranks killed; these also on several hosts.

    mpi.py --build BUILD --work FOLDER [--across HOSTS:DRIVER] CASE MPI
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mpi"))
from across import Across  # noqa: E402
from job import Mpi, Runner, fail, judge, marked_processes, skip, tail  # noqa: E402


def total(result, name):
    return sum(c.get(name, 0) for c in result.counters().values())


def kernel_copied(result):
    return total(result, "local.copy_read_bytes") + total(result, "local.copy_write_bytes")


# What is counted in the end must not hang on the seed: the rounds that any machine gets through, see LEAST in stress.c, are enough.
SEED = ["-s", "1"]
# Where peers map each other's heap, too few large messages would be left for the kernel to refuse.
NO_HEAP = {"SENNIT_HEAP": "no"}


def rank_of(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as f:
        variables = dict(pair.partition("=")[::2] for pair in f.read().split("\0"))
    return next(variables[name] for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK") if name in variables)


class Case:
    def __init__(self, args):
        self.mpi, self.runner, self.timeout = Mpi(args.mpi), Runner(args.build, args.work), args.timeout
        self.noptrace = os.path.join(args.build, "bin", "noptrace")
        built_for = "m5" if args.mpi == "im" else args.mpi
        self.stress = os.path.join(args.build, "tests", "mpi", built_for, "stress")
        if not os.path.exists(self.stress):
            skip(f"{self.stress} is not built")
        if args.across:
            self.runner.across = Across(args.across, self.runner.work)

    def run(self, wrapper=(), ranks=2, seconds=4, env=None, during=None, options=()):
        command = [*wrapper, self.stress, "-t", str(seconds), "-w", "40",
                   *options]
        return self.runner.run(self.mpi, ranks, command, env={"SENNIT_TUNE": "no", **(env or {})}, during=during, timeout=self.timeout)

    def ranks_of(self, mark, ranks):
        """The processes that run the stress itself, once all of them are at work. A job that never is so ends by its time."""
        while True:
            pids = sorted(p for p, line in marked_processes(mark).items() if line.startswith(self.stress))
            with open(os.path.join(self.runner.work, "job.log"), encoding="utf-8", errors="replace") as log:
                if len(pids) == ranks and " seed " in log.read():
                    return pids
            time.sleep(0.05)

    def run_beside(self, harm, ranks):
        """The stress goes on until this has been done to its processes."""
        end = os.path.join(self.runner.work, "end")

        def during(mark):
            try:
                harm(self.ranks_of(mark, ranks))
            finally:
                with open(end, "w", encoding="ascii"):
                    pass

        return self.run(ranks=ranks, seconds=1, during=during, options=["-f", end])

    def refused(self):
        for error in ("eperm", "enosys"):
            result = self.run([self.noptrace, "-e", error], ranks=3, env=NO_HEAP, options=SEED)
            judge(result, f"copies refused with {error}", 3, 10)
            if kernel_copied(result) or not total(result, "local.copy_stream_bytes"):
                fail("the bytes did not go through shared memory")

    def refused_to_read(self):
        judge(self.run([self.noptrace, "-o", "read"], env=NO_HEAP), "reading refused", 2, 10)

    def refused_midway(self):
        """After some copies have worked, so that it also happens inside a message. By choice there might be none to refuse."""
        env = {**NO_HEAP, "SENNIT_COPY": "read", "SENNIT_FAULT": "read:eperm@30+,write:eperm"}
        result = self.run(env=env, seconds=6, options=SEED)
        judge(result, "copies refused midway", 2, 10)
        kernel, stream = kernel_copied(result), total(result, "local.copy_stream_bytes")
        if not kernel or not stream:
            fail(f"{kernel} bytes by kernel copy before the refusal, {stream} through shared memory after it")

    def namespaces(self, options):
        wrapper = ["unshare", *options]
        if subprocess.run(wrapper + ["true"], capture_output=True, check=False).returncode != 0:
            skip(f"{' '.join(wrapper)} is not allowed here")
        result = self.run(wrapper)
        judge(result, " ".join(wrapper), 0)
        # inside, the ranks have the same process number: count what they sent instead
        if total(result, "core.sends") < 10:
            fail("the messages did not go over sennit")

    def pid_namespaces(self):
        self.namespaces(["--pid", "--fork", "--kill-child"] + ([] if os.geteuid() == 0 else ["-r"]))

    def user_namespaces(self):
        self.namespaces(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc"])

    def stopped(self):
        """One rank after the other sleeps for seconds in the middle of whatever it does, then all at once."""
        stops = []

        def stop(pids):
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(3)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.2)  # the first ones are awake beside those that still sleep
            stops.append(pids)
            time.sleep(0.3)

        def harm(pids):
            time.sleep(1)
            for pid in pids:
                stop([pid])
            stop(pids)
            stop(pids[::-1])

        judge(self.run_beside(harm, 3), "ranks stopped and continued", 3, 10)
        if len(stops) < 5:
            fail(f"stopped {len(stops)} times, not 5")

    def moved(self):
        """All threads of the ranks go from core to core, also to the core of another rank, and back to all cores."""
        moves = []

        def harm(pids):
            cores = sorted(os.sched_getaffinity(0))
            for turn in range(12):
                for i, pid in enumerate(pids):
                    to = cores if turn % 4 == 3 else [cores[(i * (turn % 2) + turn) % len(cores)]]
                    for task in os.listdir(f"/proc/{pid}/task"):
                        try:
                            os.sched_setaffinity(int(task), to)
                            moves.append(to)
                        except ProcessLookupError:
                            pass
                time.sleep(0.25)

        judge(self.run_beside(harm, 3), "ranks moved about", 3, 10)
        if len(moves) < 30:
            fail(f"only {len(moves)} threads were moved")

    def hotplug(self):
        """Cores go and come back while ranks are bound to them: a matter of the whole machine, so in soak only."""
        switches = [f"/sys/devices/system/cpu/cpu{n}/online" for n in range(1, os.cpu_count() or 1)]
        switches = [s for s in switches if os.access(s, os.W_OK)]
        if not switches:
            skip("no core here can be taken away")
        done = []

        def turn(path, word):
            with open(path, "w", encoding="ascii") as f:
                f.write(word)

        def harm(_pids):
            for _ in range(3):
                turn(switches[-1], "0")
                time.sleep(0.7)
                turn(switches[-1], "1")
                time.sleep(0.7)
                done.append(1)

        try:
            judge(self.run_beside(harm, 2), "a core taken away and given back", 2, 10)
        finally:
            turn(switches[-1], "1")
        if len(done) < 3:
            fail("the core did not go and come")

    def died(self, result, what):
        """It ended with an error, and nothing is left of it on any host."""
        if result.timed_out:
            print(tail(result.text))
            fail(f"{what}: the job did not end")
        if result.status == 0:
            fail(f"{what}, and the job says that all is well")
        left = [name for name in result.left if "/mpich_shm_" not in name]  # MPICH's own, which it leaves behind
        if self.runner.across:
            left += self.runner.across.left()
        if left:
            fail(f"{what}: left behind: {', '.join(left)}")
        print(f"{what}: the job ended with status {result.status}")

    def killed(self):
        """The launcher ends the job, with an error, soon; nothing is left of it."""
        when, victim = [], []

        def during(mark):
            pid = self.ranks_of(mark, 3)[-1]
            victim.extend((pid, rank_of(pid)))
            time.sleep(1)
            when.append(time.monotonic())
            os.kill(pid, signal.SIGKILL)

        result = self.run(ranks=3, seconds=50, during=during)
        took = time.monotonic() - when[0] if when else 0
        if not when or took > 30:
            print(tail(result.text))
            fail(f"the job did not end within 30 s of the death of a rank ({took:.0f} s)")
        self.died(result, "a rank killed")
        said = re.search(r"(\w+ \d+) \(pid %d, on this node\) has ended without closing its endpoint" % victim[0], result.text)
        if said and said.group(1) != f"rank {victim[1]}":  # the launcher may be sooner than the others' word
            fail(f"rank {victim[1]} was killed, and the others say that {said.group(1)} was")
        print("the others", "named it" if said else "had no time to name it")

    def far_rank(self, mark, ranks):
        """One on the second host, in the midst of traffic that has no end by itself."""
        return next(pid for pid in self.ranks_of(mark, ranks) if self.runner.across.is_on(pid, 1))

    def far_death(self, what, ranks, wrapper=(), env=None):
        killed = []

        def during(mark):
            killed.append(self.far_rank(mark, ranks))
            os.kill(killed[0], signal.SIGKILL)

        result = self.run(wrapper, ranks, env=env, during=during, options=["-f", os.path.join(self.runner.work, "never")])
        if not killed:
            print(tail(result.text))
            fail("the job ended before a rank was killed")
        self.died(result, what)
        return result

    def far_killed(self):
        """A rank on another host. The launcher sees it, and ends the job."""
        self.far_death("a rank on another host killed", 4)

    def far_silent(self):
        """The launcher sees a shell instead, which lives on: the other rank finds out, and ends with an error."""
        ended, said = (os.path.join(self.runner.work, name) for name in ("ended", "said"))
        # in a file what it says, for MPICH's launcher may end before it has passed that on
        shell = ["sh", "-c", '"$0" "$@" 2>> %s; s=$?; [ $s = 137 ] || : > %s; until [ -e %s ]; do sleep 0.1; done; exit $s'
                 % (said, ended, ended)]
        result = self.far_death("a rank on another host died unseen", 2, shell, {"SENNIT_PEER_TIMEOUT": "6000"})
        with open(said, encoding="utf-8", errors="replace") as f:
            text = f.read()
        if not re.search(r"the peer at \S+ \(rank [01]\) has been silent for \d+ ms", text):
            print(tail(result.text), tail(text), sep="\n")
            fail("it does not say who was silent")

    def far_stopped(self):
        """Short of the peer time-out it costs time only."""
        stopped = []

        def during(mark):
            pid = self.far_rank(mark, 4)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(3)
            os.kill(pid, signal.SIGCONT)
            stopped.append(pid)
            with open(end, "w", encoding="ascii"):
                pass

        end = os.path.join(self.runner.work, "end")
        judge(self.run(ranks=4, seconds=1, during=during, options=["-f", end]), "a rank on another host stopped", 4, 10)
        if not stopped:
            fail("the job ended before a rank was stopped")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--across", help="over several hosts: HOSTS:DRIVER")
    parser.add_argument("case", choices=["refused", "refused_to_read", "refused_midway", "pid_namespaces",
                                         "user_namespaces", "stopped", "moved", "hotplug", "killed", "far_killed", "far_silent", "far_stopped"])
    parser.add_argument("mpi")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    case = Case(args)
    try:
        getattr(case, args.case)()
    finally:
        if case.runner.across:
            case.runner.across.end()


if __name__ == "__main__":
    main()

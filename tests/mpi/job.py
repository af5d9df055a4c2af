# SPDX-License-Identifier: BSD-3-Clause
"""Start MPI jobs for the tests: the stock MPI or the same one over sennit, with a bounded life and nothing left behind.

The MPIs: o4 Debian's Open MPI, o5, m5 and im the wheels of Open MPI 5, MPICH 5 and Intel MPI that tests/peers.sh fetches;
a5 MPICH 5 for programs that are compiled for the ABI of MPI 5 (libmpi_abi.so).
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = os.path.join(ROOT, ".peers")
SKIP = 77
MARK = "TEST_JOB_MARK"  # in the environment of every process of a job, to find those that outlive it


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def fail(why):
    print(f"FAILED: {why}")
    sys.exit(1)


class Mpi:
    """One MPI: how to compile for it and how to start N ranks of it."""

    TITLES = {"o4": "Debian's Open MPI", "o5": "Open MPI 5", "m5": "MPICH 5", "im": "Intel MPI", "a5": "MPICH 5, by the ABI of MPI 5"}

    def __init__(self, name):
        self.name = name
        place = "m5" if name == "a5" else name
        self.bin = "/usr/bin" if name == "o4" else os.path.join(PEERS, place, "bin")
        self.python = os.path.join(PEERS, place, "bin", "python")
        launcher = {"o4": "mpirun.openmpi", "im": "mpiexec.hydra"}.get(name, "mpirun")
        self.launcher = os.path.join(self.bin, launcher)
        if not os.path.exists(self.launcher):
            hint = "apt install openmpi-bin" if name == "o4" else "run tests/peers.sh"
            skip(f"{self.TITLES[name]} is not here ({hint})")

    def version(self):
        said = subprocess.run([self.launcher, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
        info = os.path.join(self.bin, "ompi_info")
        if said.strip() or not os.path.exists(info):
            return said
        said = subprocess.run([info, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
        return said.replace("Open MPI v", "mpirun (Open MPI) ")  # Ubuntu 26.04's mpirun does not say it

    def compiler(self):
        """For Intel MPI, whose wheel has no headers, MPICH's: the two share their ABI."""
        if self.name == "o4":
            return "mpicc.openmpi"
        if self.name == "im":
            return os.path.join(PEERS, "m5", "bin", "mpicc")
        return os.path.join(self.bin, "mpicc_abi" if self.name == "a5" else "mpicc")

    def needs_python(self):
        if not os.path.exists(self.python):
            skip("the virtual environments are not here (run tests/peers.sh)")

    def needs_suite(self):
        self.needs_python()
        if not os.path.exists(os.path.join(PEERS, "mpi4py", ".stamp")):
            skip("mpi4py's test suite is not here (run tests/peers.sh)")

    def command(self, ranks):
        if self.name == "o4":
            return [self.launcher, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
        if self.name == "o5":
            return [self.launcher, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", str(ranks)]
        return [self.launcher, "-n", str(ranks)]

    def environment(self):
        """More ranks than cores are the rule here, and the tests may run as root."""
        if self.name in ("o4", "o5"):
            return {f"{who}_ALLOW_RUN_AS_ROOT{how}": "1" for who in ("OMPI", "PRTE") for how in ("", "_CONFIRM")}
        if self.name == "im":
            lib = os.path.join(PEERS, "im", "lib")
            return {"I_MPI_HYDRA_BOOTSTRAP": "fork", "I_MPI_PIN": "0", "LD_LIBRARY_PATH": lib}
        return {}


class Result:
    def __init__(self, status, text, seconds, timed_out, left):
        self.status, self.text, self.seconds = status, text, seconds
        self.timed_out = timed_out
        self.left = left  # what the job left behind, in words

    def counters(self):
        """{pid: {counter: value}}, as SENNIT_STATS prints them when an endpoint closes; endpoints of a process added up."""
        all_of = {}
        for pid, name, value in re.findall(r"sennit\[(\d+)\] ([a-z0-9_.]+) (\d+)\b", self.text):
            own = all_of.setdefault(int(pid), {})
            own[name] = own.get(name, 0) + int(value)
        return all_of


def marked_processes(mark):
    """Processes of a job, and of nothing else: the mark is unique."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if f"{MARK}={mark}".encode() in f.read().split(b"\0"):
                    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as g:
                        state = g.read().rpartition(")")[2].split()[0]
                    if state not in "ZX":
                        with open(f"/proc/{pid}/cmdline", "rb") as g:
                            found[int(pid)] = g.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            pass
    return found


def end_all(mark, done=lambda pids: not pids, but=None):
    """End the processes of a job (but not this one), until they are gone, or whatever else `done` says of them."""
    for _ in range(50):
        pids = [p for p in marked_processes(mark) if p != but]
        if done(pids):
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.1)


def private_shm(command, listing):
    """The job in a mount namespace of its own with an empty /dev/shm, whose content is listed when the job has ended:
    exact, whatever else runs on the machine. None where that is not allowed."""
    script = 'mount -t tmpfs tmpfs /dev/shm || exit 125; "$@"; s=$?; ls -A /dev/shm >"$0"; exit $s'
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        test = unshare + ["sh", "-c", "mount -t tmpfs tmpfs /dev/shm"]
        if subprocess.run(test, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0:
            return unshare + ["sh", "-c", script, listing] + command
    return None


class Runner:
    """Runs jobs in a folder of the build tree, which also gets their output."""

    def __init__(self, build, work):
        self.build, self.work = os.path.abspath(build), os.path.abspath(work)
        self.across = None  # several hosts, see across.py
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        libc = ctypes.CDLL(None)
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what a dead launcher leaves becomes ours

    def environment(self, mpi, sennit, more):
        env = {k: v for k, v in os.environ.items() if not re.match(r"(SENNIT|FI|OMPI|PMIX|PRTE|MPIR|I_MPI)_", k)}
        env.update(mpi.environment())
        if sennit:
            env["SENNIT_STATS"] = "1"
        # TMPDIR: launchers keep their session files there; short, as paths of sockets are limited
        env["TMPDIR"] = self.tmp
        env.update(more or {})
        return env

    def run(self, mpi, ranks, program, *, sennit=True, timeout=60, env=None, name="job", launch=None,
            during=None, apart=0, before=()):
        """One job to its end, at most `timeout` seconds. launch: arguments for the launcher besides the number of
        ranks. during: called with the job's mark in a thread of its own when the job has started. apart: over several hosts,
        so many more ranks are started as a program of their own, which is the same one. before: words before all of that."""
        self.tmp = os.path.join("/tmp", f"job-{os.getpid()}")
        os.makedirs(self.tmp, exist_ok=True)
        mark = uuid.uuid4().hex
        listing = os.path.join(self.work, f"{name}.shm")
        handed = {MARK: mark, **(env or {})}
        command = (self.across.command(mpi, ranks, handed, apart) if self.across else mpi.command(ranks)) + (launch or []) + list(program)
        if apart:
            command += self.across.apart(mpi, apart, handed) + list(program)
            ranks += apart
        if sennit:
            command = [os.path.join(self.build, "bin", "sennit"), "run", "--"] + command
        command = [*before, *command]
        environ = self.environment(mpi, sennit, handed)
        if self.across:
            command = self.across.prefix() + command
            environ["SENNIT_NET"] = self.across.driver
        wrapped = private_shm(command, listing)
        log = os.path.join(self.work, f"{name}.log")
        start = time.monotonic()
        with open(log, "w", encoding="utf-8") as out:
            out.write(f"$ {' '.join(command)}\n")
            out.flush()
            job = subprocess.Popen(wrapped or command, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, env=environ, cwd=self.work, start_new_session=True)
            if during:
                threading.Thread(target=during, args=(mark,), daemon=True).start()
            try:
                status, timed_out = job.wait(timeout), False
            except subprocess.TimeoutExpired:
                status, timed_out = None, True
                if wrapped is None:
                    end_all(mark)
                else:
                    self.end_but_shell(mark, job)
                job.wait()
        seconds = time.monotonic() - start
        left = self.what_is_left(mark, listing if wrapped else None)
        with open(log, encoding="utf-8", errors="replace") as f:
            result = Result(status, f.read(), seconds, timed_out, left)
        if self.across and sennit:
            self.across.check(result, ranks)
        return result

    @staticmethod
    def end_but_shell(mark, job):
        """End a job that is stuck, but let the shell around it list /dev/shm first."""
        end_all(mark, lambda pids: not pids or job.poll() is not None, job.pid)
        if job.poll() is None:
            end_all(mark)

    def what_is_left(self, mark, listing):
        left = []
        for _ in range(300):  # a launcher may return a moment before its last helper
            pids = marked_processes(mark)
            if not pids:
                break
            time.sleep(0.1)
        left += [f"process {pid} ({line})" for pid, line in pids.items()]
        end_all(mark)
        if listing and os.path.exists(listing):
            with open(listing, encoding="utf-8") as f:
                left += [f"/dev/shm/{line}" for line in f.read().split()]
        else:
            left += [f"/dev/shm/{f}" for f in os.listdir("/dev/shm") if "sennit" in f]
        for folder, _, files in os.walk(self.tmp):
            left += [os.path.join(folder, f) for f in files if "sennit" in f]
        shutil.rmtree(self.tmp, ignore_errors=True)
        return left


def tail(text, lines=25):
    kept = [line for line in text.splitlines() if not re.match(r"sennit\[\d+\] [a-z0-9_.]+ \d+$", line)]
    return "\n".join(kept[-lines:])


def judge(result, what, ranks=0, messages=1):
    """Fail unless the job ended well, left nothing and, with ranks, went over sennit on every rank."""
    if result.timed_out:
        print(tail(result.text, 60))
        fail(f"{what}: not done after {result.seconds:.0f} s")
    if result.status != 0:
        print(tail(result.text, 60))
        fail(f"{what}: exit status {result.status}")
    if result.left:
        fail(f"{what}: left behind: {', '.join(result.left)}")
    if not ranks:
        return
    senders = {pid: c for pid, c in result.counters().items() if c.get("core.sends", 0) > 0}
    total = sum(c["core.sends"] for c in senders.values())
    if len(senders) < ranks or total < messages:
        print(tail(result.text))
        fail(f"{what}: {len(senders)} of {ranks} ranks sent over sennit, {total} messages (at least {messages} expected)")
    print(f"{what}: {total} messages over sennit, {result.seconds:.0f} s")

# SPDX-License-Identifier: BSD-3-Clause
"""Starting the jobs that are measured, so that nothing of a job outlives it: not when it is late, nor when the driver is told to end.

A job is a session of its own, of which the whole is ended, at first with SIGTERM, so that a launcher can end its ranks and clear up.
Launchers may put ranks into sessions of their own: what is left is found by a mark in its environment, and killed. A driver calls
heed() first.
"""
import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
import types
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "mpi"))
import job as marked  # noqa: E402  pylint: disable=wrong-import-position

GRACE = 5   # s that a launcher has after SIGTERM
LINGER = 2  # s after its end that helpers of a launcher have
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
heard = types.SimpleNamespace(waits=0, number=0)  # how many do not want to be disturbed; the signal that came meanwhile
started_jobs = {}  # mark -> Popen, or None where that has not come so far


def end_by(number):
    print(f"{os.path.basename(sys.argv[0])}: ended by {signal.Signals(number).name}", file=sys.stderr)
    sys.exit(128 + number)


def on_signal(number, _frame):
    if heard.waits:
        heard.number = number
    else:
        end_by(number)


def heed():
    """From now on a signal that asks the driver to end is an exit like another, by which jobs and hosts are taken down."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, on_signal)


@contextlib.contextmanager
def undisturbed():
    """A signal waits for the end of this."""
    heard.waits += 1
    try:
        yield
    finally:
        heard.waits -= 1
        if heard.number and not heard.waits:
            number, heard.number = heard.number, 0
            end_by(number)


def to_group(job, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, number)


def end(mark, well=False):
    """The job, whatever it does about it. well: it has ended by itself, and its helpers may still do so."""
    job = started_jobs[mark]
    if job and job.poll() is None:
        to_group(job, signal.SIGTERM)
        try:
            job.wait(GRACE)
        except subprocess.TimeoutExpired:
            to_group(job, signal.SIGKILL)
            job.wait()
    until = time.monotonic() + (LINGER if well else 0)
    while time.monotonic() < until and marked.marked_processes(mark):
        time.sleep(0.05)
    marked.end_all(mark)
    del started_jobs[mark]


@contextlib.contextmanager
def started(command, env=None, cwd=None, errors=subprocess.DEVNULL):
    """A job, as a Popen of which stdout is a pipe; it has ended when this is left."""
    mark = uuid.uuid4().hex
    started_jobs[mark] = None
    try:
        with undisturbed():
            started_jobs[mark] = subprocess.Popen(command, env={**(os.environ if env is None else env), marked.MARK: mark}, cwd=cwd, text=True,
                                                  errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                                  start_new_session=True)
        yield started_jobs[mark]
    finally:
        with undisturbed():
            job = started_jobs[mark]
            end(mark, well=job is not None and job.poll() == 0)
            for pipe in (job.stdout, job.stderr) if job else ():
                if pipe:
                    pipe.close()


def run(command, env=None, cwd=None, limit=None, errors=subprocess.DEVNULL):
    """A job to its end, of at most `limit` seconds: .text and .errors that it printed until then, its .status, how many
    .seconds that took, and whether it was .late."""
    began = time.monotonic()
    with started(command, env, cwd, errors) as job:
        try:
            text, said = job.communicate(timeout=limit)
            late = False
        except subprocess.TimeoutExpired as e:
            text, said = (b.decode(errors="replace") if isinstance(b, bytes) else b for b in (e.output, e.stderr))
            late = True
        seconds = time.monotonic() - began
    return types.SimpleNamespace(text=text or "", errors=said or "", status=job.returncode, late=late, seconds=seconds)


@atexit.register
def end_rest():
    """Those of which nobody came to see the end."""
    for mark in list(started_jobs):
        end(mark)

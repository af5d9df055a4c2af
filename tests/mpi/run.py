# SPDX-License-Identifier: BSD-3-Clause
"""The tests with MPI programs, each over sennit unless it says stock:

    run.py --build BUILD --work FOLDER build  MPI...             compile the programs of this folder
    run.py --build BUILD --work FOLDER stress MPI RANKS [arguments]    and likewise rma, short, first, leave, targets, ops, holes, gone, threads, late, later, neighbours, arrives, above, large, waits, gives, again, alike, together, sums, blocks, rooted, vary, begun, matched, probed, requests, pending, holds, relay, vain, seen, asked, unequal, served, statics, sides, watched
    run.py --build BUILD --work FOLDER tsan   MPI RANKS [arguments]    many, later and arrives, over what BUILD/thread has for the thread sanitizer
    run.py --build BUILD --work FOLDER python MPI RANKS          an mpi4py program
    run.py --build BUILD --work FOLDER hpcc | lammps  MPI RANKS
    run.py --build BUILD --work FOLDER netpipe MPI [REPEATS]     of each size; or as many as it finds worth measuring
    run.py --build BUILD --work FOLDER stock  MPI [TYPED]        mpi4py's test suite without sennit, as the measure
    run.py --build BUILD --work FOLDER suite  MPI RANKS [TYPED]  and over sennit: every test passes that passed there

FOLDER gets the output of the job in job.log; of several jobs at a time each has a folder there. Exit status 77: something it needs is not here, and it says what.
"""

import argparse
import concurrent.futures
import contextlib
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

import job
from across import Across
from job import Mpi, Runner, fail, judge, skip, tail

HERE = os.path.dirname(os.path.abspath(__file__))
DEBIAN_PYTHON = "/usr/bin/python3"
PROGRAMS = {
    "stress": ["stress.c", "storm.c", "steps.c", "layout.c", "util.c"],
    "rma": ["rma.c", "util.c"],
    "short": ["short.c", "util.c"],
    "first": ["first.c"],
    "mended": ["mended.c"],
    "stale": ["stale.c"],
    "node": ["node.c"],
    "onesided": ["onesided.c"],
    "leave": ["leave.c"],
    "targets": ["targets.c", "util.c"],
    "ops": ["ops.c", "util.c"],
    "holes": ["holes.c", "util.c"],
    "gone": ["gone.c"],
    "threads": ["threads.c", "util.c"],
    "neighbours": ["neighbours.c"],
    "later": ["later.c", "util.c"],
    "late": ["late.c", "util.c"],
    "arrives": ["arrives.c", "util.c"],
    "above": ["above.c", "util.c"],
    "many": ["many.c", "util.c"],
    "waits": ["waits.c"],
    "large": ["large.c"],
    "gives": ["gives.c"],
    "alike": ["alike.c", "util.c"],
    "unequal": ["unequal.c", "util.c"],
    "served": ["served.c", "util.c"],
    "statics": ["statics.c", "util.c"],
    "sides": ["sides.c", "util.c"],
    "again": ["again.c"],
    "requests": ["requests.c"],
    "requests_tool": ["requests.c"],
    "pending": ["pending.c"],
    "holds": ["holds.c", "util.c"],
    "relay": ["relay.c", "util.c"],
    "vain": ["vain.c", "util.c"],
    "asked": ["asked.c"],
    "alloc": ["alloc.c", "util.c"],
    "again_tool": ["again.c"],
    "sums": ["sums.c"],
    "blocks": ["blocks.c"],
    "rooted": ["rooted.c"],
    "vary": ["vary.c"],
    "begun": ["begun.c"],
    "matched": ["matched.c"],
    "probed": ["probed.c"],
    "together": ["together.c", "together_flat.c"],
    "together_tool": ["together.c", "together_flat.c"],
    "seen": ["seen.c"],
    "watched": ["watched.c"],
}
# A library that such a program is linked with, made of this.
TOOLS = {"again_tool": "tool.c", "together_tool": "tool.c", "requests_tool": "tool_any.c", "seen": "tool_seen.c"}
# Those that are compiled for the ABI of MPI 5, too: what depends on how handles, constants and statuses look.
OF_MPI5 = ("stress", "first", "mended", "node", "onesided", "waits", "again", "alike", "requests", "pending", "holds", "relay", "vain", "asked", "unequal", "served", "sums", "blocks", "rooted", "vary", "begun", "matched", "probed", "together")
# What each prints at its end.
SAID = {"node": r"the ranks of a node share it", "onesided": r"every sum right", "pending": r"nobody waits for ever", "gives": r"left his core to those that compute"}
# gcc takes MPICH's MPI_STATUSES_IGNORE for an array of size 0, and Open MPI 6 deprecates MPI_Get_elements_x for what MPI 3 has not.
FLAGS = ["-O1", "-g1", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-Wno-stringop-overflow",
         "-Wno-stringop-overread", "-Wno-deprecated-declarations"]
# On Debian's stock Open MPI 4 too, MPI_Compare_and_swap in osc/rdma ends in a segmentation fault; in 5 there is no other.
RMA_OPTIONS = {") 4.": ["--mca", "osc", "^rdma,ucx"]}


def programs_folder(args, mpi):
    return os.path.join(args.build, "tests", "mpi", "m5" if mpi == "im" else mpi)


def build(args):
    for name in args.rest:
        folder = programs_folder(args, name)
        os.makedirs(folder, exist_ok=True)
        compiler = Mpi(name).compiler()
        if not shutil.which(compiler):
            skip(f"{compiler} is not here (apt install libopenmpi-dev)")
        for library in ("libcuda.so.1", "libze_loader.so.1", "libamdhip64.so.5"):  # called like those of GPUs
            subprocess.run(["cc", "-shared", "-o", os.path.join(folder, library), "-x", "c", "/dev/null"], check=True)
        for program, sources in PROGRAMS.items():
            if name == "a5" and program not in OF_MPI5:
                continue
            binary = os.path.join(folder, program)
            tool = [f"{binary}.so"] if program in TOOLS else []
            commands = [[compiler, *FLAGS, "-shared", "-fPIC", "-o", t, os.path.join(HERE, TOOLS[program])] for t in tool]
            commands.append([compiler, *FLAGS, "-o", binary, *(os.path.join(HERE, s) for s in sources), *tool, "-lm", "-ldl",
                             "-pthread", "-rdynamic"])
            if any(subprocess.run(c, check=False).returncode != 0 for c in commands):
                fail(f"{program} does not compile for {Mpi.TITLES[name]}")


def several(many, what, args, more):
    """what(args, runner, *more) for each of these, so many at a time, which is sooner where jobs wait more than they do."""
    with concurrent.futures.ProcessPoolExecutor(many) as at_once:
        jobs = [at_once.submit(what, args, Runner(args.build, os.path.join(args.work, str(i))), *each) for i, each in enumerate(more)]
        try:
            for each in jobs:
                each.result()
        finally:
            at_once.shutdown(cancel_futures=True)


def own_program(args, runner, *more):
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    binary = os.path.join(programs_folder(args, mpi.name), args.what)
    if not os.path.exists(binary):
        skip(f"{binary} is not built")
    launch = next((o for v, o in RMA_OPTIONS.items() if args.what == "rma" and v in mpi.version()), [])
    result = runner.run(mpi, ranks, [binary, *args.rest[2:], *more], timeout=args.timeout, launch=launch)
    verdict(result, f"{args.what} on {ranks} ranks of {mpi.TITLES[mpi.name]}", ranks, SAID.get(args.what, r"every byte right"))
    return result


def again(args, runner):
    """Calls seen before are taken over where that is right, and nowhere else."""
    result = own_program(args, runner)
    counters(result, ("core.tried_sends", "core.tried_recvs"), True)


def alike(args, runner):
    """So are those that are like others."""
    counters(own_program(args, runner), ("core.tried_sends",), True)


def mapped(args, runner):
    """Such memory is shared by the two sides."""
    counters(own_program(args, runner), ("local.copy_mapped_bytes",), True)


def later(args, runner):
    """Calls go without the MPI until a second thread calls; flat collectives after that, too."""
    counters(own_program(args, runner), ("core.tried_sends", "progress.awake"), True)


def neighbours(args, runner):
    """Ranks that have to do all the time are not disturbed by progress threads."""
    counted = own_program(args, runner).counters().values()
    wakes, sends = (sum(c.get(name, 0) for c in counted) for name in ("progress.wakes", "core.sends"))
    print(f"  {wakes} wake-ups of progress threads, {sends} messages")
    if not 10000 < sends or wakes > sends / 2:
        fail("progress threads are woken for messages of ranks that have to do all the time")


def counters(result, names, many):
    for name in names:
        count = sum(c.get(name, 0) for c in result.counters().values())
        print(f"  {name} {count}")
        if (count > 1000) != many:
            fail(f"{name} is {count}")


def today():
    """What takes long is tested in parts, another one every day; the soak has the whole."""
    return int(time.time()) // 86400


ARRIVALS = (11, 6)  # calls by which a second thread begins, and places where the first one may be then


def arrives(args, runner):
    """A second thread's first call, of each kind, while the first has receives pending that are the library's own. One job for each kind and place:
    every day another quarter of them, which sees all kinds, or all."""
    each = [(call, place) for call in range(ARRIVALS[0]) for place in range(ARRIVALS[1])]
    if "all" not in args.rest:
        each = each[today() % 4::4]
    own = 0
    for call, place in each:
        rest = [*args.rest[:2], str(call), str(place)]
        result = own_program(argparse.Namespace(**{**vars(args), "rest": rest}), runner)
        said = re.search(r"call (\d+) of (\d+), place (\d+) of (\d+): (\d+) requests of the library's own", result.text)
        if not said or [int(n) for n in said.groups()[:4]] != [call, ARRIVALS[0], place, ARRIVALS[1]]:
            fail("it did something else than what was asked for")
        own += int(said.group(5))
    print(f"  {own} requests of the library's own were pending in {len(each)} jobs")
    if own < 2 * len(each):
        fail("too few requests of the library's own")


def above(args, runner):
    """A second thread of a class above the first one's, of which one in three finds it at receives of the library's own."""
    allowed = subprocess.run(["chrt", "-f", "1", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False) if shutil.which("chrt") else None
    if allowed is None or allowed.returncode != 0:
        skip("nobody may be of a class above others here")
    for _ in range(12):
        own_program(args, runner)


def requests(args, runner):
    """Receives with requests of the library's own, some of which become the MPI's."""
    result = own_program(args, runner)
    if "-o" not in args.rest:  # which says itself whether there were any
        counters(result, ("core.ahead_recvs", "core.handed_over"), "tool" not in args.what)


# The launcher ends everybody when it sees a rank die, so it sees a shell instead.
# And MPICH has a rank ended that waits for several, and one that waits for one if it does not leave before: it has heard then.
FATAL = r"(?s)Fatal error in internal_\w+: .*Connection reset by peer"
UNTIL_HEARD = '"$0" -d "$@" 2>> "$1.said"; [ $? = 137 ] || : > "$1.end"; for i in $(seq 600); do [ -e "$1.end" ] && break; sleep 0.1; done'


KINDS = ("barrier", "bcast", "allreduce", "alltoall", "allgather")  # of collectives
FLAT = ("barrier", "allreduce")  # where ranks outnumber cores


def flat(args, runner):
    counters(own_program(args, runner), ("progress.awake",), True)


def together(args, runner):
    """Likewise collectives, and each kind of them. Where a rank dies the other must hear of it by itself."""
    if args.rest[-1] == "-k":
        for kind in KINDS:
            print(kind)
            again(argparse.Namespace(**{**vars(args), "rest": [*args.rest[:-1], "-w", "-k", kind]}), runner)
        for kind in FLAT:
            print(f"{kind}, flat")
            flat(argparse.Namespace(**{**vars(args), "rest": [*args.rest[:-1], "-b", "-k", kind]}), runner)
        return
    if "-d" in args.rest:
        death(args, runner)
    elif "-f" in args.rest:
        flat(args, runner)
    elif args.rest[-1] == "page":  # one rank goes through its MPI, and its messages are late
        counters(own_program(args, runner), ("core.tried_sends",), True)
    else:
        again(args, runner)


def sums(args, runner):
    """Long sums; their order, which the program knows, tells that they went without the MPI."""
    if "-d" in args.rest:
        death(args, runner)
    elif "-n" in args.rest:
        namesakes(args, runner)
    elif "-l" in args.rest:
        limited(args, runner)
    else:
        own_program(args, runner)


def blocks(args, runner):
    """Short collectives of blocks: most of the calls have no message."""
    result = own_program(args, runner)
    sends, calls = (sum(c.get("core.sends", 0) for c in result.counters().values()), int(re.search(r"blocks: (\d+) calls", result.text)[1]))
    print(f"  {sends} messages in {calls} calls")
    alone = args.rest[-1] in ("-w", "-v", "-s")
    ranks = int(args.rest[1])  # two of them have messages for MPI_Bcast
    if (sends < calls * ((ranks - 1) / 2 if ranks > 2 else 0.75)) == alone:
        fail("that many are not expected")
    if not alone and f"sennit: rank 0 of a communicator wants 0 bytes of rank {ranks - 1} in MPI_Allgatherv, which sends 20: " not in result.text:
        fail("the length in which two ranks differ is not said")


def rooted(args, runner):
    """Likewise, to one rank and from it."""
    if "-d" in args.rest:
        death(args, runner, *args.rest[3:])
        return
    result = own_program(args, runner)
    sends, calls = (sum(c.get("core.sends", 0) for c in result.counters().values()), int(re.search(r": (\d+) calls", result.text)[1]))
    print(f"  {sends} messages in {calls} calls")
    ranks = int(args.rest[1])
    if args.rest[-1] == "-l":  # to make communicators takes many
        return
    share = 1 / 3 if args.what == "rooted" else 0.45 if ranks == 2 else 0.7  # long ones have messages
    theirs = args.rest[-1] in ("-w", "-v", "-s") or (args.what == "begun" and args.rest[0] in ("m5", "im") and args.rest[-1] == "-m")
    if ranks <= 4 and (sends < calls * share) == theirs:
        fail("that many are not expected")


def matched(args, runner):
    """MPI_Mprobe and MPI_Mrecv: most of them without the MPI, which receives what it is told of."""
    result = own_program(args, runner)
    receives = sum(c.get("core.receives", 0) for c in result.counters().values())
    calls = int(re.search(r": (\d+) calls", result.text)[1])
    print(f"  {receives} receives of the MPI's for {calls} calls")
    if receives > (0.92 if "-m" in args.rest else 0.8) * calls:  # beside other threads more are late, where others want the cores
        fail("that many are not expected")


def probed(args, runner):
    """MPI_Iprobe: most of it without the MPI; beside another thread's calls some of it, where others want the cores."""
    result = own_program(args, runner)
    tried = sum(c.get("core.tried_probes", 0) for c in result.counters().values())
    calls = int(re.search(r": (\d+) calls", result.text)[1])
    print(f"  {tried} without the MPI of {calls} calls")
    if tried < (1000 if "-m" in args.rest else 0.5 * calls):
        fail("that many are not expected")


def limited(args, runner):
    """Where files may not be as long as the memory for long sums, these are the MPI's: no signal ends the program."""
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    program = [os.path.join(programs_folder(args, mpi.name), args.what), "-n"]
    before = ["sh", "-c", 'ulimit -f 10000; exec "$@"', "sh"]
    verdict(runner.run(mpi, ranks, program, timeout=args.timeout, before=before), "short files", ranks, r"every byte right")


def watched(args, runner):
    """Under memcheck, all of them or the last one alone: no byte of a message is taken for one that was never written."""
    if not shutil.which("valgrind"):
        skip("valgrind is not here")
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    program = [os.path.join(programs_folder(args, mpi.name), args.what)]
    memcheck = ["valgrind", "-q"]
    if "-o" in args.rest:
        memcheck = ["sh", "-c", f'[ "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = {ranks - 1} ] && exec valgrind -q "$@"; exec "$@"', "sh"]
    result = runner.run(mpi, ranks, memcheck + program, timeout=args.timeout)
    verdict(result, "under memcheck", ranks, r"every byte right")
    told = re.findall(r"uninitialised.*\n==\d+==\s+(?:at|by) \w+: \w+ \(watched\.c:\d+\)", result.text)
    if told:
        print("\n".join(told))
        fail(f"memcheck tells of {len(told)} places of the program")


def namesakes(args, runner):
    """Two jobs that have the same numbers of processes, each in a namespace of its own, and share the names of sockets."""
    before = ["unshare", "-pf", "--kill-child", "--mount-proc"]
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode != 0:
        skip("a namespace of process numbers cannot be had here")
    mpi, ranks, seen = Mpi(args.rest[0]), int(args.rest[1]), set()
    program = [os.path.join(programs_folder(args, mpi.name), args.what), "-n"]
    held, own = [], os.readlink("/proc/self/ns/pid")

    def hold(mark):
        """The first one's namespace is still there when the second one begins: its number is nobody else's."""
        for _ in range(200):
            for pid in job.marked_processes(mark):
                with contextlib.suppress(OSError):
                    if not held and os.readlink(f"/proc/{pid}/ns/pid") != own:
                        held.append(os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY))
            if held:
                return
            time.sleep(0.01)

    for name in ("one", "two"):
        result = runner.run(mpi, ranks, program, timeout=args.timeout / 2, before=before, name=name,
                            during=hold if name == "one" else None)
        if not held:
            fail("the first one's namespace was not seen")
        verdict(result, f"job {name}", ranks, r"every byte right")
        names = set(re.findall(r"name (@\S+)", result.text))
        if len(names) != ranks:
            fail(f"{ranks} ranks have {len(names)} names")
        if seen & names:
            fail(f"both jobs have {seen & names}")
        seen |= names


def pending(args, runner):
    """Requests of the library's own while their ranks are elsewhere; likewise, in each kind of wait."""
    if "-d" not in args.rest:
        own_program(args, runner)
        return
    # most of such a job is the time that is left to its launcher
    several(6, death, args, [[str(how), *(["-m"] if "-m" in args.rest else [])] for how in range(2 * 9)])


CALLED = r"MPI_\w+(?: of \d+ bytes)?(?:, root \d+)?"
UNEQUAL = rf"sennit: rank \d of a communicator of \d called ({CALLED}), where rank \d called ({CALLED}): all of its ranks must make the same"


def unequal_case(args, runner, case):
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    result = runner.run(mpi, ranks, [os.path.join(programs_folder(args, mpi.name), "unequal"), case], timeout=args.timeout / 2)
    said = re.search(UNEQUAL, result.text)
    print(f"case {case}: {said.group(0) if said else 'nothing'}")
    if result.timed_out or "has heard of it" not in result.text or not said or said.group(1) == said.group(2):
        print(tail(result.text))
        fail(f"case {case}: no word of two ranks' different collectives in {result.seconds:.1f} s")


def unequal(args, runner):
    """Ranks that make different collectives hear of it, and those that are late are waited for."""
    several(4, unequal_case, args, [[str(case)] for case in range(6)])
    if args.rest[0] in ("o4", "im"):  # most of it is sleep
        own_program(args, runner, "slow")


def asked(args, runner):
    """Each function that takes requests is the first to be asked; likewise after MPI_Request_c2f. One MPI of each family takes the
    functions by one of their names, the other by the other."""
    hows = range(args.rest[0] in ("o5", "im"), 2 * 15, 2)
    several(3, own_program, args, [[str(how), *(["-c"] if how % 4 > 1 else [])] for how in hows])


# The MPIs are not instrumented. What they read and write is theirs, but their locks count; that they take some in another order now and
# then is theirs as well. Nothing is suppressed by name.
TSAN_OPTIONS = "ignore_noninstrumented_modules=1 detect_deadlocks=0 report_thread_leaks=0 exitcode=0 log_path={}"
# Memory hooks of an MPI take a lock when a thread's stack is given back, and then the sanitizer has already forgotten the thread.
NO_HOOKS = {"OMPI_MCA_memory": "^patcher", "FI_MR_CACHE_MONITOR": "disabled", "UCX_MEM_EVENTS": "no",
            "UCX_MEM_MMAP_HOOK_MODE": "none"}

# Open MPI's pml/cm looks whether who waited has freed a send after it has told of its end, without a lock, so that a thread that ends
# another's request may return it a second time, over any provider. Then the communicator is one reference short, and the static
# MPI_COMM_WORLD is freed: of all that the sanitizer says, only this, in a call of the program that no function of ours is in, is not ours.
RETURNED_TWICE = re.compile(r"CHECK failed: sanitizer_allocator_secondary\.h.*\n(?: *#\d+ .*\n)* *#\d+ free .*\n *#\d+ .*\(mca_pml_cm\.so(?:.*\n *#\d+)*")


def returned_twice(reports):
    found = RETURNED_TWICE.search(reports)
    return found and "libsennit" not in found.group(0) and "SUMMARY: ThreadSanitizer" not in reports


def libtsan(build):
    """It must come before the C library in a program that is not linked with it."""
    linked = subprocess.run(["ldd", os.path.join(build, "lib", "libsennit-fi.so")], capture_output=True, text=True, check=False)
    found = re.search(r"libtsan\S* => (/\S+)", linked.stdout)
    if not found:
        skip("this compiler's thread sanitizer is not a library that can be preloaded")
    path = found.group(1)
    tried = subprocess.run(["true"], env={"LD_PRELOAD": path}, capture_output=True, text=True, check=False)
    if tried.returncode or tried.stderr:
        skip(f"{path} cannot be preloaded here: {tried.stderr.strip()}")
    return path


def tsan(args, runner):
    """Threads at once, one at a time, and one that others join."""
    runner.build = os.path.join(args.build, "thread")
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    before = ["env", f"LD_PRELOAD={libtsan(runner.build)}"]  # no shell: Debian's does not stand it
    windows = ["-w"] if mpi.name in ("m5", "im") else []  # Open MPI 5 does not stand those made by several threads at once
    for name, *options in (["many", *args.rest[2:], *windows], ["many", *args.rest[2:], "-o"], ["later"], ["holds"],
                            *(["arrives", str(call), str(call % ARRIVALS[1])] for call in range(today() % 2, ARRIVALS[0], 2))):
        binary = os.path.join(programs_folder(args, mpi.name), name)
        if not os.path.exists(binary):
            skip(f"{binary} is not built")
        for again in (True, False):
            folder = tempfile.mkdtemp(dir=runner.work)
            env = {"TSAN_OPTIONS": TSAN_OPTIONS.format(os.path.join(folder, "report")), **NO_HOOKS}
            result = runner.run(mpi, ranks, [binary, *options], timeout=args.timeout // 3, env=env, before=before)
            reports = ""
            for file_name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, file_name), encoding="utf-8", errors="replace") as file:
                    reports += file.read()
            if not (again and mpi.name in ("o4", "o5") and returned_twice(reports)):
                break
            print(f"{reports[:4000]}\n{name}: Open MPI has returned a request twice, which is a fault of its own; once more")
        if reports:
            print(reports[:20000])
            count = reports.count("WARNING: ThreadSanitizer:") + reports.count("ThreadSanitizer: CHECK failed")
            fail(f"{count} reports of the thread sanitizer (in {folder})")
        verdict(result, f"{name} {' '.join(options)} on {ranks} ranks of {mpi.TITLES[mpi.name]}", ranks, r"every byte right")


def death(args, runner, *how):
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    binary = os.path.join(programs_folder(args, mpi.name), args.what)
    with tempfile.TemporaryDirectory() as folder:
        word = os.path.join(folder, "word")
        result = runner.run(mpi, ranks, ["sh", "-c", UNTIL_HEARD, binary, word, *how, *(["-b"] if ranks > 2 else [])], timeout=args.timeout)
        said = result.text
        if os.path.exists(f"{word}.said"):  # not so if it has not even started
            with open(f"{word}.said", encoding="utf-8", errors="replace") as file:
                said += file.read()
        if result.timed_out or not (os.path.exists(word) or re.search(FATAL, said)):
            print(tail(said))
            fail(f"no word of the other's death in {result.seconds:.1f} s")
    print(f"word of the other's death after {result.seconds:.1f} s")


def gone(args, runner):
    """A send to a rank that has died fails, where the launcher is told to go on, and whoever sends survives that."""
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    goes_on = ["--enable-recovery"] if mpi.name.startswith("o") else ["-disable-auto-cleanup"]
    with tempfile.TemporaryDirectory() as folder:
        word = os.path.join(folder, "word")
        result = runner.run(mpi, ranks, [os.path.join(programs_folder(args, mpi.name), "gone"), word], timeout=args.timeout, launch=goes_on)
        said = open(word, encoding="utf-8").read() if os.path.exists(word) else "rank 0 has found nothing: it has died"
    if result.timed_out or not said.startswith("an error"):
        print(tail(result.text))
        fail(f"{said.strip()}; the job took {result.seconds:.1f} s")
    print(f"  {said.strip()}")


def verdict(result, what, ranks, said, messages=10):
    """It ended well, went over sennit, and printed what it prints at its end (an exit status alone can lie)."""
    if not result.timed_out and result.status == 0 and not re.search(said, result.text):
        print(tail(result.text))
        fail(f"{what}: the end of its output is missing ({said})")
    judge(result, what, ranks, messages)
    lines = result.text.splitlines()
    for pattern in (r"\bseed \d+", said):
        found = [line for line in lines if re.search(pattern, line)]
        if found:
            print(f"  {found[-1].strip()}")


def starts_several(mpi):
    """Debian 13's mpirun (5.0.7) ends in a segmentation fault whenever it is given more than one program."""
    command = [*mpi.command(1), "true", ":", "-n", "1", "true"]
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(command, env=env, capture_output=True, timeout=60, check=False).returncode == 0


def python(args, runner):
    """Debian's mpi4py for Debian's Open MPI, the wheel's for the others."""
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    interpreter = mpi.python
    if mpi.name == "o4":
        interpreter = DEBIAN_PYTHON
        if subprocess.run([interpreter, "-c", "import mpi4py"], capture_output=True, check=False).returncode != 0:
            skip("mpi4py is not here (apt install python3-mpi4py)")
    else:
        mpi.needs_python()
    apart = ranks // 2 if runner.across and starts_several(mpi) else 0  # as coupled models are started: mpirun -n 2 ./ocean : -n 2 ./air
    result = runner.run(mpi, ranks - apart, [interpreter, os.path.join(HERE, "program.py")], timeout=args.timeout, apart=apart)
    verdict(result, f"mpi4py program on {ranks} ranks of {mpi.TITLES[mpi.name]}", ranks, r"program\.py: all right")


def debian_binary(name):
    path = shutil.which(name)
    if not path:
        skip(f"{name} is not here (a Debian package)")
    return path


def library_of(mpi):
    """Debian's programs are linked with libmpi.so.40, which the wheel of Open MPI 5 has too."""
    return {"LD_LIBRARY_PATH": os.path.join(job.PEERS, "o5", "lib")} if mpi.name == "o5" else {}


HPCC = """HPLinpack benchmark input file
made by tests/mpi/run.py
HPL.out
8
1
{n} Ns
1
{nb} NBs
0
1
1 Ps
{ranks} Qs
16.0
1
2
1
4
1
2
1
1
1
1
1
0
2
64
0
0
1
8
#
0
1200
0
40
"""


def hpcc(args, runner):
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    binary = debian_binary("hpcc")
    with open(os.path.join(runner.work, "hpccinf.txt"), "w", encoding="ascii") as f:
        f.write(HPCC.format(n=400, nb=40, ranks=ranks))
    env = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **library_of(mpi)}
    result = runner.run(mpi, ranks, [binary], timeout=args.timeout, env=env)
    try:
        with open(os.path.join(runner.work, "hpccoutf.txt"), encoding="utf-8", errors="replace") as f:
            report = f.read()
    except OSError:
        report = ""
    result.text += report
    what = f"hpcc on {ranks} ranks of {mpi.TITLES[mpi.name]}"
    # of HPL, PTRANS, RandomAccess, FFT: what does not pass says so
    wrong = re.search(r"^.*(FAILED|failed the|Failed residual).*$", report, re.M)
    if wrong and not re.search(r"^\s*0 (tests|matrices) ", wrong.group(0)):
        fail(f"{what}: {wrong.group(0)}")
    verdict(result, what, ranks, r"^Success=1$|\nSuccess=1\n", 1000)


def netpipe(args, runner):
    """Its integrity check, up to 1 MiB, at sizes off by three bytes either way."""
    mpi = Mpi(args.rest[0])
    binary = debian_binary("NPmpich2" if mpi.name in ("m5", "im") else "NPopenmpi")
    for mode in ([], ["-a"], ["-S"]):
        command = [binary, "-i", "-u", "1048576", "-o", os.path.join(runner.work, "np.out"), *mode]
        command += ["-n", args.rest[1]] if len(args.rest) > 1 else []
        result = runner.run(mpi, 2, command, timeout=args.timeout, env=library_of(mpi))
        if re.search("Integrity check failed", result.text):
            fail(f"NetPIPE: {tail(result.text, 5)}")
        verdict(result, f"NetPIPE {' '.join(mode)} over {mpi.TITLES[mpi.name]}", 2, r"Integrity check passed")


LAMMPS = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 20
run 200
"""


def lammps(args, runner):
    """A melt: the same numbers to the last digit as the stock MPI gives on as many ranks."""
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    binary = debian_binary("lmp")
    with open(os.path.join(runner.work, "in.melt"), "w", encoding="ascii") as f:
        f.write(LAMMPS)
    steps = []
    for sennit in (False, True):
        command = [binary, "-in", "in.melt", "-log", "none"]
        env = {"OMP_NUM_THREADS": "1", **library_of(mpi)}
        result = runner.run(mpi, ranks, command, sennit=sennit, timeout=args.timeout, env=env,
                            name="job" if sennit else "stock")
        steps.append(re.findall(r"^ *\d+(?: +-?[\d.]+){4,} *$", result.text, re.M))
    what = f"LAMMPS on {ranks} ranks of {mpi.TITLES[mpi.name]}"
    verdict(result, what, ranks, r"Loop time of")
    if len(steps[0]) != 11 or steps[0] != steps[1]:
        fail(f"{what}: not what the stock MPI computes: {steps[1][-1:]} instead of {steps[0][-1:]}")


# What Open MPI 4.1 cannot do over libfabric with any provider; over libfabric's own tcp provider each of these ends in a
# segmentation fault or never:
#  - a contiguous derived type is taken to begin at the buffer's address, whatever its lower bound, so a type of absolute
#    addresses is sent from NULL;
#  - cancelling a send (a segmentation fault, an error or nothing, by chance);
#  - a synchronous send that is received by matched probe. mpi4py's own recv need not use that (RECV_MPROBE below), its
#    module pkl5 always does.
NOT_OVER_LIBFABRIC = ["testAlltoallwBottom", "test_p2p_obj.*testCancel", "test_p2p_buf.*testProbeCancel"] + [
    f"test_util_pkl5.*.{name}" for name in ("testBigMPI", "testGetStatusAll", "testIMProbe", "testISSend*", "testMProbe",
                                            "testMessageProbeIProbe", "testProbe", "testSSend*", "testTestAll",
                                            "testWaitAll")]
# Likewise Open MPI 5: MPI_Comm_revoke works with pml ob1 alone.
NOT_WITH = {") 5.": ["test_ulfm.*.testRevoke"]}
# Threads alone, no messages; and some must be done, or not be done, at a time by the clock.
BY_THE_CLOCK = ["test_util_pool.TestThreadPool.test_apply_async*"]
# Between hosts the stock MPICH, over its own tcp, does not finish these: the ranks disagree about the edges of a graph.
NOT_ACROSS = {"m5": ["test_comm_topo.*.testDistgraphcomm*"]}
RECV_MPROBE = {"MPI4PY_RC_RECV_MPROBE": "0"}


def outcomes(folder, ranks):
    """{test: outcome}, the worst of the ranks; and where ranks were that did not reach the end."""
    worst, running = {}, []
    for rank in range(ranks):
        last = None
        try:
            with open(os.path.join(folder, f"rank-{rank}"), encoding="utf-8") as f:
                lines = f.read().splitlines()
        except OSError:
            running.append(f"rank {rank} never began")
            continue
        for line in lines:
            what, _, test = line.partition("\t")[0].partition(" ")
            last = test if what == "start" else None
            if what != "start" and worst.get(test, "ok") in ("ok", "skip") and worst.get(test) != "skip":
                worst[test] = what
        if last:
            running.append(f"rank {rank} was in {last}")
    return worst, running


def left_out(mpi):
    version = mpi.version()  # Debian 13's own is an Open MPI 5, too
    return BY_THE_CLOCK + NOT_OVER_LIBFABRIC + [name for which, names in NOT_WITH.items() if which in version for name in names]


def run_suite(args, runner, mpi, ranks, sennit, typed):
    tests = os.path.join(job.PEERS, "mpi4py", "test")
    suite = [mpi.python, os.path.join(HERE, "suite.py"), runner.work, str(typed), tests, "-e", "spawn", "-e", "dynproc"]
    for name in left_out(mpi) + (NOT_ACROSS.get(mpi.name, []) if runner.across else []):
        suite += ["-x", name]
    env = dict(RECV_MPROBE)
    if not sennit:
        env["OMPI_MCA_mpi_yield_when_idle"] = "1"  # or it takes minutes on a machine that is not idle
    result = runner.run(mpi, ranks, suite, sennit=sennit, timeout=args.timeout, env=env)
    worst, running = outcomes(runner.work, ranks)
    bad = sorted(f"{what} {test}" for test, what in worst.items() if what not in ("ok", "skip"))
    return result, worst, running, bad


def stock_folder(mpi, typed):
    """Where what the stock MPI passes is kept, until another version of it or of the suite is installed."""
    version = mpi.version()
    with open(os.path.join(job.PEERS, "mpi4py", ".stamp"), encoding="utf-8") as f:
        suite_version = f.read().strip()
    asked = f"{version} {suite_version} {left_out(mpi)} {RECV_MPROBE} {typed > 0}"
    return os.path.join(job.PEERS, f"stock-{mpi.name}-{zlib.crc32(asked.encode()):08x}")


def stock(args, runner):
    mpi = Mpi(args.rest[0])
    mpi.needs_suite()
    typed = int(args.rest[1]) if len(args.rest) > 1 else 0
    measure = stock_folder(mpi, typed)
    if os.path.exists(measure):
        print(f"known from an earlier run: {measure}")
        return
    args.timeout /= 2
    for _ in range(2):  # what the stock MPI does by itself, now and then, is no fault of ours
        result, worst, running, bad = run_suite(args, runner, mpi, 2, False, typed)
        passed = sorted(t for t, what in worst.items() if what == "ok")
        if not (result.timed_out or running or len(passed) < 1000):
            break
    if result.timed_out or running or len(passed) < 1000:
        print(tail(result.text))
        fail(f"the stock suite did not run to its end: {len(passed)} passed; {'; '.join(running)}")
    with open(measure, "w", encoding="utf-8") as f:
        f.write("\n".join(passed) + "\n")
    print(f"mpi4py's suite on the stock {mpi.TITLES[mpi.name]}: {len(passed)} pass, {len(worst) - len(passed)} do not "
          f"or are skipped, {result.seconds:.0f} s")
    for line in bad:
        print(f"  {line}")


def suite(args, runner):
    mpi, ranks = Mpi(args.rest[0]), int(args.rest[1])
    mpi.needs_suite()
    typed = int(args.rest[2]) if len(args.rest) > 2 else 0
    measure = stock_folder(mpi, typed)
    if not os.path.exists(measure):
        skip(f"the stock suite has not run ({measure} is missing)")
    with open(measure, encoding="utf-8") as f:
        must_pass = set(f.read().split())
    result, worst, running, bad = run_suite(args, runner, mpi, ranks, True, typed)
    if runner.across:
        # Over several hosts Debian's Open MPI 4 makes no window for programs with MPI_THREAD_MULTIPLE, over its own TCP either (with
        # --mca btl self,vader,ofi it does over sennit, but then its osc/rdma crashes in MPI_Compare_and_swap).
        must_pass -= {t for t, what in worst.items() if what == "no-window"}
        must_pass = {t for t in must_pass if not any(fnmatch.fnmatch(t, name) for name in NOT_ACROSS.get(mpi.name, []))}
    missing = sorted(f"{t} ({worst.get(t, 'not reached')})" for t in must_pass if worst.get(t) != "ok")
    what = f"mpi4py's suite on {ranks} ranks of {mpi.TITLES[mpi.name]}"
    if result.timed_out or running or missing:
        print(tail(result.text, 40))
        for line in running + missing[:40]:
            print(f"  {line}")
        fail(f"{what}: {len(missing)} tests that pass without sennit do not pass over it"
             + (", and it did not end" if running or result.timed_out else ""))
    if bad:  # also fail without sennit, or are not run there
        result.status = 0
    judge(result, what, ranks, 10000)
    print(f"  {sum(w == 'ok' for w in worst.values())} pass, all {len(must_pass)} of the stock MPI among them"
          + (" (less those for which it makes no window over several hosts)" if runner.across else ""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--timeout", type=float, default=100)
    parser.add_argument("--across", help="over several hosts: HOSTS:DRIVER or HOSTS:DRIVER:ssh")
    parser.add_argument("what")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    todo = {"build": None, "stress": own_program, "rma": own_program, "short": own_program, "first": own_program, "mended": own_program, "stale": own_program, "node": own_program, "onesided": own_program, "leave": own_program, "targets": own_program, "ops": own_program, "holes": own_program, "gone": gone, "threads": own_program, "served": own_program, "later": later, "neighbours": neighbours, "late": own_program, "arrives": arrives, "above": above, "large": own_program,
            "waits": own_program, "gives": own_program, "tsan": tsan, "again": again, "again_tool": again, "alike": alike, "unequal": unequal, "sums": sums, "blocks": blocks, "rooted": rooted, "vary": rooted, "begun": rooted, "matched": matched, "probed": probed, "together": together, "together_tool": together,
            "requests": requests, "requests_tool": requests, "pending": pending, "holds": own_program, "relay": own_program, "vain": own_program, "seen": own_program, "alloc": mapped, "statics": mapped, "sides": own_program, "asked": asked, "watched": watched, "python": python, "hpcc": hpcc, "netpipe": netpipe, "lammps": lammps, "stock": stock, "suite": suite}
    if args.what not in todo:
        parser.error(f"what is {args.what}?")
    if args.what == "build":
        build(args)
        return
    runner = Runner(args.build, args.work)
    try:
        if args.across:
            runner.across = Across(args.across, runner.work)
        todo[args.what](args, runner)
    finally:
        if runner.across:
            runner.across.end()


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a user gets wrong, in an MPI job over two hosts from `sennit run` to its end: it ends in seconds, and what it says names
what was wrong and what to do; or it works in spite of it.

usage: errors.py SENNIT WIRE [CASE]     (without one: all with Debian's Open MPI, four at a time, for they spend their time waiting)
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "mpi")]
import hosts as net  # noqa: E402
from across import Across  # noqa: E402
from job import Mpi, Result, Runner, marked_processes, skip, tail  # noqa: E402

NO_RIGHTS = ["setpriv", "--bounding-set=-net_raw,-net_admin", "--inh-caps=-net_raw,-net_admin"]


class Hosts(Across):
    """Two hosts whose launcher uses eth0; on a wire that this can spoil, if there is a word for it."""

    def __init__(self, work, want, build):
        self.spoil, self.second = want["spoil"], want["second"]
        super().__init__("2:", work)
        self.driver = want["net"]
        with open(self.agent, encoding="utf-8") as f:
            agent = f.read()
        with open(self.agent, "w", encoding="utf-8") as f:  # several of these run at a time, each with a host1 of the same /tmp
            f.write(agent.replace("env -i ", f"env -i TMPDIR={work} "))
        if want["bare"]:  # the second host has nothing of sennit
            with open(self.agent, encoding="utf-8") as f:
                agent = f.read()
            hide = f"unshare --mount sh -c 'mount -t tmpfs none {build}/lib; exec \"$@\"' sh unshare --uts"
            with open(self.agent, "w", encoding="utf-8") as f:
                f.write(agent.replace("unshare --uts", hide))

    def network(self):
        if self.spoil:
            net.Wire(self.names).say(self.spoil)
            net.address(self.names)
        else:
            super().network()
        if self.second:
            self.second(self.names)


def second_network(names, addresses, mtu=1500, path=1500, joined=True):
    """eth1 of both, on a switch that carries frames of the length `path`; or on one that lets nothing through."""
    switch = net.TAG + "-sw1"
    net.sh("ip", "netns", "add", switch)
    net.made.append(switch)
    net.sh("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
    for i, (name, own) in enumerate(zip(names, addresses)):
        port = "q%d" % i
        net.sh("ip", "link", "add", "eth1", "netns", name, "type", "veth", "peer", "name", port, "netns", switch)
        net.sh("ip", "-n", switch, "link", "set", port, "mtu", str(path), *(("master", "br0") if joined else ()), "up")
        net.sh("ip", "-n", name, "link", "set", "eth1", "mtu", str(mtu), "up")
        net.sh("ip", "-n", name, "addr", "add", own, "dev", "eth1", *(("nodad",) if ":" in own else ()))
    net.sh("ip", "-n", switch, "link", "set", "br0", "up")


def there(name, value):
    """Before the program: the second host has another setting than the first."""
    return ["sh", "-c", 'case $(hostname) in host1) %s=%s; export %s;; esac; exec "$@"' % (name, value, name), "sh"]


# Who ends first takes the other one along, which then says nothing: where it is the second host that knows, it loses patience first.
FIRST_THERE = there("SENNIT_PEER_TIMEOUT", 4000)


NEAR, FAR = ("10.78.0.1/24", "10.78.0.2/24"), ("10.78.0.1/24", "10.79.0.2/24")


def case(said, net_setting, works=False, spoil=None, second=None, before=(), jobs=1, bare=False, mpi="o4", stays=False, words=()):
    return {"said": said, "net": net_setting, "works": works, "spoil": spoil, "second": second, "before": list(before), "jobs": jobs,
            "bare": bare, "mpi": mpi, "stays": stays, "words": list(words)}


CASES = {
    "wrong_interface": case([r'no interface that is up has the name or address "eth7"', r"no network is open here \(SENNIT_NET"],
                            "udp:eth7"),
    "wrong_word": case([r'SENNIT_NET is "tcp": use auto, off, or a list of udp'], "tcp"),
    "off": case([r"no network is open here \(SENNIT_NET"], "off"),
    "off_there": case([r"no network is open there \(SENNIT_NET"], "udp", before=there("SENNIT_NET", "off"), words=("late", "1")),
    "other_kind": case([r"the network there is of another kind than here.*\(SENNIT_NET\)"], "udp",
                       before=there("SENNIT_NET", "ether")),
    "no_rights": case([r"a packet socket needs CAP_NET_RAW in this network namespace", r"no network is open here"], "ether",
                      before=NO_RIGHTS),
    "without_sennit": case([r"libsennit-mpi\.so' from LD_PRELOAD cannot be preloaded",
                            r"host1.*(PML cm cannot be selected|selected pml ob1, but peer .* pml cm|No components were able to be opened in the pml)"], "udp", bare=True),  # Open MPI 4, 5
    # MPICH's launcher never ends such a job, sennit or not: it is ended here, once it has said what is wrong
    "without_sennit_mpich": case([r"libsennit-mpi\.so' from LD_PRELOAD cannot be preloaded",
                                  r"host0: ready for \d+ ms, and no rank of another host has come.*`sennit doctor HOST`"], "udp",
                                 bare=True, mpi="m5", stays=True),
    "unreachable": case([r"no answer from 10\.78\.0\.\d \(rank \d\) in \d+ ms.*`sennit doctor HOST`"], "udp:eth1",
                        second=lambda n: second_network(n, NEAR, joined=False)),
    "no_route": case([r"no answer from 10\.7[89]\.0\.\d \(rank \d\) in \d+ ms.*refuses to send \(Network is unreachable\)"], "udp:eth1",
                     second=lambda n: second_network(n, FAR)),
    "firewall": case([r"no answer from 10\.77\.0\.\d \(rank \d\) in \d+ ms.*: a firewall, or no way for UDP.*`sennit doctor HOST`"], "udp",
                     spoil="firewall"),
    "version_udp": case([r"a frame of version 2 of the network protocol came, and this is version 1: is another sennit installed",
                         r"no answer from 10\.77\.0\.\d"], "udp", spoil="version"),
    "version_ether": case([r"a frame of version 2 of the network protocol came", r"no answer from \w\w:\w\w"], "ether",
                          spoil="version"),
    "key_udp": case([r"no answer from 10\.77\.0\.\d.*\d frames came here that this process's key does not fit"], "udp", spoil="key",
                    before=FIRST_THERE),
    "key_ether": case([r"no answer from \w\w:\w\w.*\d frames came here that this process's key does not fit"], "ether", spoil="key",
                      before=FIRST_THERE),
    "one_way": case([r"no answer from 10\.77\.0\.\d \(rank \d\) in \d+ ms"], "udp", spoil="halfwall"),
    "same_address": case([r"no answer from 10\.78\.0\.1 \(rank \d\) in \d+ ms.*This host has that address, too"], "udp:eth1",
                         second=lambda n: second_network(n, (NEAR[0], NEAR[0]))),
    "ipv6_only": case([r"OK 2 ranks"], "udp:eth1", works=True, second=lambda n: second_network(n, ("fd00:5e::1/64", "fd00:5e::2/64"))),
    "two_jobs_udp": case([r"OK 4 ranks"], "udp", works=True, jobs=2),
    "two_jobs_ether": case([r"OK 4 ranks"], "ether", works=True, jobs=2),
    # both ends take 9,000 bytes, what lies between silently drops them: found, and worked around
    "mtu_hole_udp": case([r"OK 2 ranks"], "udp:eth1", works=True, second=lambda n: second_network(n, NEAR, 9000)),
    "mtu_hole_ether": case([r"OK 2 ranks"], "ether:eth1", works=True, second=lambda n: second_network(n, NEAR, 9000)),
}


def run(build, work, want):
    mpi, program = Mpi(want["mpi"]), os.path.join(work, "mpi_job")
    runner = Runner(build, os.path.join(work, "job"))
    if not shutil.which(mpi.compiler()):
        skip(f"{mpi.compiler()} is not here")
    if subprocess.run([mpi.compiler(), os.path.join(HERE, "mpi_job.c"), "-o", program], check=False).returncode:
        net.fail("the job does not compile")
    runner.across = Hosts(runner.work, want, runner.build)
    ranks = 2 * want["jobs"]
    try:
        results = several(runner, mpi, ranks, want["before"] + [program] + want["words"], want["jobs"],
                          {"SENNIT_PEER_TIMEOUT": "20000" if want["works"] or want["before"] == FIRST_THERE else "3000"},
                          want["said"] if want["stays"] else ())
    finally:
        runner.across.end()
    for result in results:
        judge(want, result)
        if want["jobs"] > 1:
            apart(result, ranks)
    print("passed")


def end_when_said(log, said, mark):
    """The job goes on for ever: it is ended when it has said all that."""
    for _ in range(400):
        time.sleep(0.25)
        with open(log, encoding="utf-8", errors="replace") as f:
            text = f.read()
        if all(re.search(word, text) for word in said):
            for pid, command in marked_processes(mark).items():
                if not command.startswith("sh -c"):  # that one lists what is left
                    os.kill(pid, signal.SIGKILL)
            return


def several(runner, mpi, ranks, program, jobs, env, until=()):
    """The results of that many jobs, at the same time on the same hosts, of which each shares /dev/shm with the others."""
    if jobs == 1:
        log = os.path.join(runner.work, "job.log")
        return [runner.run(mpi, ranks, program, timeout=100, env=env,
                           during=(lambda mark: end_when_said(log, until, mark)) if until else None)]
    runner.tmp = runner.work
    for host in range(2):  # Open MPI's daemons of two jobs that both make it are in each other's way
        os.makedirs(os.path.join(runner.work, f"ompi.host{host}.{os.getuid()}"), mode=0o700, exist_ok=True)
    command = [os.path.join(runner.build, "bin", "sennit"), "run", "--", *runner.across.command(mpi, ranks, env), *program]
    environ = dict(runner.environment(mpi, True, env), SENNIT_NET=runner.across.driver)
    began = time.monotonic()
    running = [subprocess.Popen(runner.across.prefix() + command, env=environ, cwd=runner.work, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(jobs)]
    results = []
    for job in running:
        try:
            text, timed_out = job.communicate(timeout=max(1, began + 100 - time.monotonic()))[0], False
        except subprocess.TimeoutExpired:
            job.kill()
            text, timed_out = job.communicate()[0], True
        results.append(Result(job.returncode, text, time.monotonic() - began, timed_out, []))
    return results


def apart(result, ranks):
    """None of the job's ranks had to do with a stranger: each knows those of the other host, and nobody used a wrong key."""
    total = {}
    for own in result.counters().values():
        for name, value in own.items():
            total[name] = total.get(name, 0) + value
    # each with all of the other host, but that Open MPI 5 comes to its end without messages
    if not ranks <= total.get("net.connects", 0) <= ranks * ranks // 2:
        net.fail("%s connections between hosts in a job of %d ranks" % (total.get("net.connects"), ranks))
    net.refuse(total, "net.drop_mac", "net.drop_record", "net.drop_refused", "net.peers_gone")


def judge(want, result):
    print(tail(result.text, 40))
    if result.timed_out:
        net.fail("it has not ended after %.0f s" % result.seconds)
    if (result.status == 0) != want["works"]:
        net.fail("exit status %s" % result.status)
    for text in want["said"]:
        if not re.search(text, result.text):
            net.fail("it does not say: " + text)
    left = [text for text in result.left if not text.startswith("process ")]  # a launcher's daemon may need its time to go
    if left and not want["stays"]:  # MPICH has files of its own
        net.fail("left behind: " + ", ".join(left))


def run_all():
    def one(name):
        return subprocess.run([sys.executable, *sys.argv, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=150, check=False)
    names = [name for name, want in CASES.items() if want["mpi"] == "o4"]
    with ThreadPoolExecutor(4) as pool:
        ended = dict(zip(names, pool.map(one, names)))
    for name, r in ended.items():
        print(f"{name}: {r.stdout.splitlines()[-1] if r.returncode == 0 and r.stdout else r.stdout}")
    statuses = {r.returncode for r in ended.values()}
    sys.exit(1 if statuses - {0, net.SKIP} else max(statuses))


def main():
    sennit, net.WIRE, *name = sys.argv[1:]
    if os.geteuid() != 0:
        print("skipped: making network namespaces needs root")
        sys.exit(net.SKIP)
    if not name:
        run_all()
    with tempfile.TemporaryDirectory(prefix="sennit-test-") as work:
        run(os.path.dirname(os.path.dirname(os.path.abspath(sennit))), work, CASES[name[0]])


if __name__ == "__main__":
    main()

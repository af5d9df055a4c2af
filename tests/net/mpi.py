#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An MPI job over several hosts, started by the stock launcher: ranks on one host talk through the local rail, others
through the network.

usage: mpi.py BUILD WORK MPI DRIVER HOSTS RANKS_PER_HOST

The hosts are network namespaces with a host name of their own. In the place of ssh stands an agent that enters a namespace.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "mpi")]
import hosts as net  # noqa: E402
from job import Mpi  # noqa: E402

AGENT = """#!/bin/sh
# stands for ssh: [-x] ADDRESS COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
host=%s-$((${1##*.} - 1)); shift
exec ip netns exec $host unshare --uts sh -c 'hostname '$host'; exec sh -c "$0"' "$*"
"""


def launch(mpi, agent, addresses, each):
    hosts = ",".join("%s:%d" % (a, each) for a in addresses)
    total = str(each * len(addresses))
    if mpi.name == "o4":
        return [mpi.launcher, "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "eth0", "--oversubscribe",
                "--bind-to", "none", "-H", hosts, "-n", total]
    if mpi.name == "o5":
        return [mpi.launcher, "--prtemca", "plm_ssh_agent", agent, "--prtemca", "oob_tcp_if_include", "eth0", "--map-by",
                ":OVERSUBSCRIBE", "--bind-to", "none", "-H", hosts, "-n", total]
    return [mpi.launcher, "-launcher", "ssh", "-launcher-exec", agent, "-hosts", hosts, "-n", total]


def run(build, work, mpi, driver, count, each):
    agent, program = os.path.join(work, "agent"), os.path.join(work, "mpi_job")
    if mpi.name != "o4":
        mpi.needs_python()
    if subprocess.run([mpi.compiler(), os.path.join(HERE, "mpi_job.c"), "-o", program], check=False).returncode:
        net.fail("the job does not compile")
    names = net.hosts(count)
    net.veth(names, (1500,) * count)
    net.address(names)
    with open(agent, "w", encoding="utf-8") as f:
        f.write(AGENT % net.TAG)
    os.chmod(agent, 0o755)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SENNIT_", "FI_", "OMPI_", "PMIX_", "PRTE_", "MPIR_"))}
    env.update(mpi.environment(), SENNIT_STATS="1", SENNIT_NET=driver)
    if each == 1:  # then what asks for an answer gets none from a rank that makes no call
        env.update(SENNIT_PROGRESS="0", SENNIT_LINGER="300", SENNIT_PEER_TIMEOUT="2000")
    addresses = ["10.77.0.%d" % (i + 1) for i in range(count)]
    command = ["ip", "netns", "exec", names[0], "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', names[0],
               os.path.join(build, "bin", "sennit"), "run", "--"]
    command += launch(mpi, agent, addresses, each) + [program]
    try:
        job = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                             cwd=work, timeout=100, check=False)
        out, status = job.stdout.decode(errors="replace"), job.returncode
    except subprocess.TimeoutExpired as e:
        out, status = (e.stdout or b"").decode(errors="replace"), "time-out"
    total = {}
    for line in out.splitlines():
        words = line.split()
        if len(words) == 3 and words[0].startswith("sennit[") and words[2].isdigit():
            total[words[1]] = total.get(words[1], 0) + int(words[2])
        else:
            print(line)
    if status or "OK %d ranks" % (count * each) not in out:
        net.fail("the job ended with %s" % status)
    # every rank has opened the network and spoken to those on other hosts, and those beside it went the short way
    net.need(total, "net.connects", count * each)
    net.need(total, "net.tx_rendezvous")
    if each > 1:
        net.need(total, "local.tx_eager", each)
    net.refuse(total, "net.peers_gone", "net.drop_record", "net.drop_mac")


def main():
    build, work, name, driver, count, each = sys.argv[1:7]
    if os.geteuid() != 0:
        print("skipped: making network namespaces needs root")
        sys.exit(net.SKIP)
    mpi = Mpi(name)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    try:
        run(os.path.abspath(build), os.path.abspath(work), mpi, driver, int(count), int(each))
        print("passed")
    finally:
        for host in net.made: # what the launcher left behind, if the job was cut short
            pids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=False).stdout.split()
            for pid in pids:
                subprocess.run(["kill", "-9", pid], check=False, stderr=subprocess.DEVNULL)
        net.tear_down()


main()

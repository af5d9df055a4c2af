#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Between hosts: messages move while a process computes, and while it is disturbed; a flood on one rail does not starve the other.

usage: apart.py PROGRAM CASE     (apart.py --list prints the cases)

The hosts are network namespaces (hosts.py): needs root, otherwise exits 77.
"""
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
PROGRAM, CASE = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else ("", "")
sys.argv = sys.argv[:1]
import hosts as net  # noqa: E402


def start(where, words, driver):
    ranks = [net.Rank(host, i, [PROGRAM, i, len(where), *words], net.DRIVERS[driver]) for i, host in enumerate(where)]
    until = time.monotonic() + 20
    addresses = [r.line(until).split()[1] for r in ranks]
    for r in ranks:
        for a in addresses:
            r.say(a)
    return ranks, time.monotonic() + 60


def overlap(driver):
    """Short and long, the receiver away and the sender away: the other side gets done, and the bytes are there."""
    (sender, receiver), until = start(net.two(driver), ["overlap"], driver)
    receiver.wait_for("posted", until)
    sender.say("GO")
    sender.wait_for("moved", until)
    receiver.say("GO")
    sender.wait_for("posted", until)
    receiver.wait_for("moved", until)
    sender.say("GO")
    total = net.finish([sender, receiver], 60)
    net.need(total, "net.tx_rendezvous", 2)


def disturbed(driver):
    """Signals in every call, forks, programs started, cores changed."""
    ranks, _ = start(net.two(driver), ["disturbed"], driver)
    net.need(net.finish(ranks, 60), "net.tx_rendezvous", 60)


def fair(driver, flooder):
    """Rank 1 is on rank 0's host, rank 2 on another; one of them floods."""
    here, there = net.two(driver)
    ranks, until = start([here, here, there], ["fair", flooder], driver)
    ranks[0].wait_for("met", until)
    for r in ranks[1:]:
        r.say("GO")
    for r in ranks[1:]:
        r.wait_for("full", until)
    ranks[0].say("GO")
    net.finish(ranks, 60)


CASES = {
    "overlap_udp": lambda: overlap("udp"),
    "overlap_ether": lambda: overlap("ether"),
    "disturbed_udp": lambda: disturbed("udp"),
    "disturbed_ether": lambda: disturbed("ether"),
    "fair_local_flood": lambda: fair("udp", 1),
    "fair_net_flood": lambda: fair("udp", 2),
    "fair_ether_flood": lambda: fair("ether", 2),
}


def main():
    if not PROGRAM:
        print("\n".join(CASES))
        return
    if os.geteuid() != 0:
        print("skipped: making network namespaces needs root")
        sys.exit(net.SKIP)
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    try:
        CASES[CASE]()
        print("passed")
    finally:
        net.tear_down()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Between hosts: messages move while a process computes, and while it is disturbed; a flood on one rail does not starve the other;
what it costs to be woken.

usage: apart.py PROGRAM WAKES CASE     (apart.py --list prints the cases)

The hosts are network namespaces (hosts.py): needs root, otherwise exits 77.
"""
import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
PROGRAM, WAKES, CASE = sys.argv[1:4] if len(sys.argv) > 3 else ("", "", "")
sys.argv = sys.argv[:1]
import hosts as net  # noqa: E402


def start(where, words, driver, program=None):
    ranks = [net.Rank(host, i, [program or PROGRAM, i, len(where), *words], net.DRIVERS[driver]) for i, host in enumerate(where)]
    until = net.awake() + 60
    addresses = [r.line(until).split()[1] for r in ranks]
    for r in ranks:
        for a in addresses:
            r.say(a)
    return ranks, net.awake() + 60


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
    """Rank 1 is on rank 0's host, rank 2 on another; one of them floods (0: both)."""
    here, there = net.two(driver)
    ranks, until = start([here, here, there], ["fair", flooder], driver)
    ranks[0].wait_for("met", until)
    for r in ranks[1:]:
        r.say("GO")
    for r in ranks[1:]:
        r.wait_for("full", until)
    ranks[0].say("GO")
    net.finish(ranks, 60)


def wakes(driver, down=()):
    """Rank 0 sends when rank 1 is ready: asleep, or computing. Before these messages rank 1's interface goes down and up again."""
    most = {"udp": 20, "ether": 16, "auto": 20}[driver]
    names = net.two(driver)
    (sender, receiver), until = start(names, [most], driver, WAKES)
    for lap in range(93):
        receiver.wait_for("ready", until)
        if lap in down:
            for to in ("down", "up"):
                net.sh("ip", "-n", names[1], "link", "set", "eth0", to)
        sender.say("GO")
    net.finish([sender, receiver], 60)


CASES = {
    "overlap_udp": lambda: overlap("udp"),
    "overlap_ether": lambda: overlap("ether"),
    "disturbed_udp": lambda: disturbed("udp"),
    "disturbed_ether": lambda: disturbed("ether"),
    "fair_local_flood": lambda: fair("udp", 1),
    "fair_net_flood": lambda: fair("udp", 2),
    "fair_ether_flood": lambda: fair("ether", 2),
    "fair_floods": lambda: fair("udp", 0),
    "fair_ether_floods": lambda: fair("ether", 0),
    "overlap_auto": lambda: overlap("auto"),
    "disturbed_auto": lambda: disturbed("auto"),
    "wakes_auto": lambda: wakes("auto"),
    "wakes_auto_down": lambda: wakes("auto", (30, 51, 70)),
    "wakes_udp": lambda: wakes("udp"),
    "wakes_ether": lambda: wakes("ether"),
    "wakes_ether_down": lambda: wakes("ether", (30, 51, 70)),
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

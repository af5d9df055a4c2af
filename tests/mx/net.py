#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The cases of pair.c between two hosts (network namespaces), over UDP: endpoints are found by host name and number.

usage: net.py PAIR CASE     needs root, otherwise exits 77
"""
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "net"))
PAIR, CASE = sys.argv[1:3]
sys.argv = sys.argv[:1]
import hosts as net  # noqa: E402

NUMBER = 3


def main():
    if os.geteuid() != 0:
        print("skipped: making network namespaces needs root")
        sys.exit(net.SKIP)
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    try:
        here, there = net.two("udp")
        ranks = [net.Rank(here, 0, [PAIR, CASE, "serve", NUMBER]), net.Rank(there, 1, [PAIR, CASE, "10.77.0.1:0", NUMBER])]
        total = {}
        for r in ranks:
            said = net.ended(r, net.awake() + 60).decode()
            if r.proc.returncode:
                net.fail("rank %d: exit %d: %s" % (r.rank, r.proc.returncode, said))
            for words in map(str.split, said.splitlines()):
                if len(words) == 3 and words[0].startswith("sennit[") and words[2].isdigit():
                    total[words[1]] = total.get(words[1], 0) + int(words[2])
        net.need(total, "net.connects", 2)
        net.refuse(total, "net.drop_mac", "net.drop_record", "net.drop_check")
        # both have closed: the number is free
        left = subprocess.run(net.on(here, "ss", "-Hltn"), stdout=subprocess.PIPE, check=True).stdout.decode()
        if left:
            net.fail("still listening: " + left)
        print("passed")
    finally:
        net.tear_down()


main()

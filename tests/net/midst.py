#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What befalls traffic between hosts in its midst: it goes on until this says that it is enough, and what befell it is seen in
counters that the ranks are asked for meanwhile.

usage: midst.py PEER WIRE CASE     (midst.py --list prints the cases)

The hosts are network namespaces (hosts.py): needs root, otherwise exits 77.
"""
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hosts as net  # noqa: E402

TIMERS = ("net.resend_timer", "net.again_timer")  # of frames that brought no answer
LEAST = 100                                       # messages that show that traffic goes on


def asked(ranks, *names):
    """The sum of these counters, now."""
    total = 0
    for r in ranks:
        for name in names:
            r.say(name)
            total += int(r.wait_for("SAYS", net.awake() + 60).split()[1])
    return total


def reach(ranks, least, *names):
    """Wait until each of them has counted so many."""
    until = net.awake() + 60
    for r in ranks:
        while (count := asked([r], *names)) < least:
            if net.awake() > until:
                net.fail("rank %d: %s is %d, not yet %d" % (r.rank, "+".join(names), count, least))
            time.sleep(0.02)


def moves(ranks):
    """More comes to each of them."""
    for r, before in [(r, asked([r], "received")) for r in ranks]:
        reach([r], before + LEAST, "received")


def stands(ranks, alone):
    """Nothing comes to any of them, and they have asked in vain. One that is alone may wait for the other to ask."""
    until, before = net.awake() + 60, (-1, 0)
    while True:
        now = asked(ranks, "received"), asked(ranks, *TIMERS)
        if now[0] == before[0] and (alone or now[1] > before[1]):
            return
        if net.awake() > until:
            net.fail("it goes on: %d messages received and %d timers, then %d and %d" % (*before, *now))
        before = now
        time.sleep(net.STEP)


def under_way(names, env, seed=1):
    ranks = net.start(names, "endless", 0, env, seed=seed)
    reach(ranks, LEAST, "received")
    return ranks


def enough(ranks, then=None):
    for r in ranks:
        r.say("GO")
    return net.finish(ranks, 60, then)


def for_a_while(ranks, seconds, begin, end):
    """These stand still from `begin` to `end`, so many seconds at least; then all goes on."""
    before = net.awake()
    begin()
    stands(ranks, len(ranks) == 1)
    time.sleep(max(0.0, before + seconds - net.awake()))
    end()


def case_cable(driver, word):
    """The cable is out for 1.5 s (one way or both): it costs time only."""
    names = net.hosts(2)
    wire = net.Wire(names)
    if driver != "ether":
        net.address(names)
    ranks = under_way(names, net.DRIVERS[driver])
    for_a_while(ranks, 1.5, lambda: wire.say(word), lambda: wire.say("heal"))
    moves(ranks)
    net.refuse(enough(ranks), "net.peers_gone")


def case_link(driver):
    """The interface itself goes down for 1.5 s, and comes up again: it costs time only."""
    names = net.two(driver)
    ranks = under_way(names, net.DRIVERS[driver])

    def link(word):
        return lambda: net.sh("ip", "-n", names[0], "link", "set", "eth0", word)

    for_a_while(ranks, 1.5, link("down"), link("up"))
    moves(ranks)
    net.refuse(enough(ranks), "net.peers_gone")


def case_stopped(driver):
    """One rank after the other is stopped for seconds and continued, within the peer time-out: it costs time only."""
    ranks = under_way(net.two(driver), net.DRIVERS[driver])
    for r in ranks:
        others = [other for other in ranks if other is not r]
        for_a_while(others, 2.5, lambda r=r: net.meets(r.proc, signal.SIGSTOP), lambda r=r: r.proc.send_signal(signal.SIGCONT))
        moves(ranks)
    net.refuse(enough(ranks), "net.peers_gone")


def case_frozen(driver):
    """Everybody is frozen for longer than the peer time-out, as a suspended virtual machine or a frozen container is: time
    in which nobody could look is not silence. Ranks wake one after the other."""
    # Long beside what this test may be without a core while it has stopped the one and not yet the other.
    ranks = under_way(net.two(driver), dict(net.DRIVERS[driver], SENNIT_PEER_TIMEOUT="4000"))
    for _ in range(2):
        for r in ranks:
            os.kill(r.proc.pid, signal.SIGSTOP)
        for r in ranks:
            net.meets(r.proc, signal.SIGSTOP)
        time.sleep(4.6)
        for r in ranks:
            r.proc.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        moves(ranks)
    net.refuse(enough(ranks), "net.peers_gone")


def case_two_jobs(driver):
    """Two jobs on the same hosts, with the same tags and at the same time, never see each other; nor does a stranger get in
    who has an endpoint's address but not its key."""
    names = net.two(driver)
    jobs = [under_way(names, net.DRIVERS[driver], seed) for seed in (1, 2)]
    everybody = jobs[0] + jobs[1]
    moves(everybody)
    target = jobs[0][0].address
    stranger = net.Rank(names[1], 0, [net.FATES, 0, "handshake"], dict(net.DRIVERS[driver], SENNIT_PEER_TIMEOUT="1000"))
    stranger.line(net.awake() + 60)
    stranger.say(target[:24] + "%02x" % (int(target[24:26], 16) ^ 1) + target[26:])  # byte 12: the key begins
    reach(jobs[0][:1], 1, "net.drop_mac")
    moves(everybody)
    for r in everybody:
        r.say("GO")
    totals = [net.finish(jobs[1], 60), net.finish(jobs[0], 60, lambda: stranger.verdict(net.awake() + 60))]
    for total in totals:
        net.refuse(total, "net.drop_record", "net.drop_check", "net.peers_gone", "net.restarts")
        if total["net.connects"] != 2:
            net.fail("%d connections in a job of two" % total["net.connects"])
    net.refuse(totals[0], "net.drop_mac")  # the other job never hears of the stranger


def case_flood(driver):
    """Forged, cut, changed, misdirected and repeated frames at an endpoint while it works: nothing lost, nothing accepted."""
    names = net.two(driver)
    flood = net.Rank(names[1], None, [sys.executable, os.path.join(net.HERE, "flood.py"), driver])
    flood.wait_for("listening", net.awake() + 60)
    ranks = under_way(names, net.DRIVERS[driver])
    flood.say(ranks[0].address)
    for name in ("net.drop_mac", "net.drop_link", "net.drop_short"):
        reach(ranks[:1], 1000, name)
    for _ in range(20):  # both at once: what should come, and what should not
        moves(ranks)
        reach(ranks[:1], asked(ranks[:1], "net.drop_link") + 1000, "net.drop_link")
    flood.say("enough")
    total = enough(ranks, lambda: print("flood: %s frames" % flood.line(net.awake() + 60)))
    net.refuse(total, "net.peers_gone", "net.restarts", "net.drop_record")


def case_ether_lost():
    """Ethernet frames no longer come through: what took the short cut comes by UDP, and so does all that follows; later they do again."""
    names = net.hosts(2)
    wire = net.Wire(names)
    net.address(names)
    ranks = under_way(names, net.DRIVERS["auto"])
    reach(ranks, 10, "net.quick_came")
    wire.say("ether")
    reach(ranks, 1, "net.quick_doubts")
    for _ in range(10):
        moves(ranks)
    wire.say("heal")
    moves(ranks)
    net.refuse(enough(ranks), "net.peers_gone", "net.drop_record")


def case_macs():
    """Two of three hosts exchange their MACs: nobody goes on sending with one that is another's, which would lead the bridge astray."""
    names = net.two("auto", (1500,) * 3, 3)
    ranks = under_way(names, net.DRIVERS["auto"])
    reach(ranks, 10, "net.quick_came")
    macs = [net.sh("ip", "-n", name, "-o", "link", "show", "eth0").stdout.decode().split("link/ether ")[1].split()[0]
            for name in names[:2]]
    for name, mac in zip(names, reversed(macs)):
        net.sh("ip", "-n", name, "link", "set", "eth0", "address", mac)
    for _ in range(20):
        moves(ranks)
    net.refuse(enough(ranks), "net.peers_gone", "net.drop_record")


CASES = {"auto_ether_lost": case_ether_lost, "auto_macs": case_macs}
for _driver in ("udp", "ether", "auto"):
    for _name, _case in (("link", case_link), ("stopped", case_stopped), ("frozen", case_frozen), ("two_jobs", case_two_jobs),
                         ("flood", case_flood)):
        CASES[_driver + "_" + _name] = lambda driver=_driver, case=_case: case(driver)
    CASES[_driver + "_cable"] = lambda driver=_driver: case_cable(driver, "cut")
    CASES[_driver + "_oneway"] = lambda driver=_driver: case_cable(driver, "oneway")

if __name__ == "__main__":
    net.main(CASES)

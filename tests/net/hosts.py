#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Messages between hosts: network namespaces, joined by a veth pair, a bridge, or a bad wire in user space.

usage: hosts.py PEER WIRE CASE     (hosts.py --list prints the cases)

Each host is a network namespace made by the test and taken down by it. Needs root and /dev/net/tun for the bad wire;
otherwise exits 77.
"""
import os
import platform
import random
import re
import select
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP = 77
PEER, WIRE = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 3 else ("", "")
FATES = os.path.join(os.path.dirname(PEER), "net_fates")
TAG = "sn%d" % os.getpid()
STEP = 0.25  # seconds: how often the clock below is read by somebody who waits
made = []
children = []
clock = {"read": time.monotonic(), "asleep": 0.0}


def awake():
    """A clock that stands still while this test does. It may be stopped together with all that it started, for longer than any limit
    here; a limit that passes meanwhile says nothing about those."""
    now = time.monotonic()
    clock["asleep"] += max(0.0, now - clock["read"] - 8 * STEP)
    clock["read"] = now
    return now - clock["asleep"]


def sh(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)


def hosts(count):
    names = ["%s-%d" % (TAG, i) for i in range(count)]
    for name in names:
        try:
            sh("ip", "netns", "add", name)
        except (OSError, subprocess.CalledProcessError) as e:
            print("skipped: cannot make network namespaces:", getattr(e, "output", b"").decode() or e)
            sys.exit(SKIP)
        made.append(name)
        sh("ip", "-n", name, "link", "set", "lo", "up")
    return names


def address(names, v6=False):
    for i, name in enumerate(names):
        if v6:
            sh("ip", "-n", name, "addr", "add", "fd00:5e::%d/64" % (i + 1), "dev", "eth0", "nodad")
        else:
            sh("ip", "-n", name, "addr", "add", "10.77.0.%d/24" % (i + 1), "dev", "eth0")


def veth(names, mtus):
    """Two hosts on a pair, more on a bridge that stands in a namespace of its own."""
    if len(names) == 2:
        sh("ip", "link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
    else:
        switch = "%s-sw" % TAG
        sh("ip", "netns", "add", switch)
        made.append(switch)
        sh("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        for i, name in enumerate(names):
            sh("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", "p%d" % i, "netns", switch)
            sh("ip", "-n", switch, "link", "set", "p%d" % i, "mtu", str(max(mtus)), "master", "br0", "up")
        sh("ip", "-n", switch, "link", "set", "br0", "up")
    for name, mtu in zip(names, mtus):
        sh("ip", "-n", name, "link", "set", "eth0", "mtu", str(mtu), "up")


class Wire:
    def __init__(self, names, mtu=1500, loss=0, duplicate=0, reorder=0, corrupt=0):
        if not os.path.exists("/dev/net/tun"):
            print("skipped: no /dev/net/tun here")
            sys.exit(SKIP)
        self.proc = subprocess.Popen([WIRE, names[0], names[1], str(mtu), "1", str(loss), str(duplicate), str(reorder),
                                      str(corrupt)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(self.proc)
        line = self.proc.stdout.readline()
        if not line.startswith("READY"):
            print("skipped: no TAP devices here")
            sys.exit(SKIP)
        for name in names:
            sh("ip", "-n", name, "link", "set", "eth0", "up")

    def say(self, word):
        self.proc.stdin.write(word + "\n")
        self.proc.stdin.flush()


def on(host, *command):
    """Run there. `ip netns exec` would also mount and unmount, for which it waits long where all cores are busy."""
    return ["nsenter", "--net=/run/netns/" + host, "--"] + [str(c) for c in command]


class Rank:
    """A process on a host; rank None: any program of which no lines are judged."""

    def __init__(self, host, rank, words, env=None):
        full = dict(os.environ, SENNIT_STATS="1", **(env or {}))
        self.rank = rank
        self.proc = subprocess.Popen(on(host, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=full)
        children.append(self.proc)
        self.rest = b""

    def line(self, until):
        while b"\n" not in self.rest:
            if not select.select([self.proc.stdout], [], [], STEP)[0]:
                if awake() >= until:
                    fail("rank %r says nothing any more" % self.rank)
                continue
            got = os.read(self.proc.stdout.fileno(), 65536)
            if not got:
                fail("rank %r ended: %s" % (self.rank, self.proc.stderr.read().decode()))
            self.rest += got
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def say(self, text):
        try:
            self.proc.stdin.write(text.encode() + b"\n")
            self.proc.stdin.flush()
        except BrokenPipeError:
            fail("rank %r has ended" % self.rank)

    def verdict(self, until):
        while True:
            line = self.line(until)
            print("rank %d: %s" % (self.rank, line))
            if line.startswith("OK"):
                return line
            if line.startswith("FAILED"):
                fail(line)

    def wait_for(self, word, until):
        while word not in (line := self.line(until)):
            if line.startswith("FAILED"):
                fail(line)
        return line


def fail(why):
    print("FAILED:", why)
    for c in children:
        if c.poll() is None and c.args[0] == "nsenter":
            c.send_signal(signal.SIGKILL)
        if c.args[0] == "nsenter" and c.stderr:
            said = c.stdout.read().decode()[-500:] + c.stderr.read().decode()[-3000:]
            print("--- a rank (%s) said:\n%s" % (c.poll(), said))
    sys.exit(1)


def start(where, mode, messages, env, modes=None, seed=1, under=None):
    """One rank on each host of `where`, run under the words of `under` for it; addresses exchanged."""
    ranks = [Rank(host, i, (under or {}).get(i, []) + [PEER, i, len(where), (modes or {}).get(i, mode), seed, messages], env)
             for i, host in enumerate(where)]
    until = awake() + 60
    addrs = [r.line(until).split()[1] for r in ranks]
    for r, own in zip(ranks, addrs):
        r.address = own
        for a in addrs:
            r.say(a)
    return ranks


def ended(rank, until):
    """What it said on its way out."""
    while awake() < until:
        try:
            return rank.proc.communicate(timeout=STEP)[1]
        except subprocess.TimeoutExpired:
            pass
    return fail("rank %d does not close" % rank.rank)


def finish(ranks, seconds, then=None, judged=False):
    """All must say OK, or have said it; then all close. Returns the sum of their counters."""
    until = awake() + seconds
    for r in ranks:
        if not judged:
            r.verdict(until)
    if then:
        then()
    total = {}
    for r in ranks:
        r.say("QUIT")
    for r in ranks:
        err = ended(r, awake() + 30)
        if r.proc.returncode:
            fail("rank %d: exit %d: %s" % (r.rank, r.proc.returncode, err.decode()))
        for text in err.decode().splitlines():
            words = text.split()
            if len(words) == 3 and words[0].startswith("sennit[") and words[2].isdigit():
                total[words[1]] = total.get(words[1], 0) + int(words[2])
    return total


def need(total, name, least=1):
    if total.get(name, 0) < least:
        fail("expected %s to be at least %d, it is %d; all: %r" % (name, least, total.get(name, 0), total))


def refuse(total, *names):
    for name in names:
        if total.get(name, 0):
            fail("%s is %d: %r" % (name, total[name], total))


DRIVERS = {"udp": {"SENNIT_NET": "udp"}, "udp6": {"SENNIT_NET": "udp"}, "ether": {"SENNIT_NET": "ether"}, "auto": {"SENNIT_NET": "auto"}}


def two(driver, mtus=(1500, 1500), count=2):
    names = hosts(count)
    veth(names, mtus)
    if driver != "ether":
        address(names, driver == "udp6")
    return names


def case_traffic(driver, mtus=(1500, 1500), messages=400):
    names = two(driver, mtus)
    total = finish(start(names, "traffic", messages, DRIVERS[driver]), 60)
    need(total, "net.tx_rendezvous")
    refuse(total, "net.drop_mac", "net.drop_record", "net.drop_check")
    need(total, "net.ether_whole_calls", driver == "ether" and max(mtus) > 4096)  # long frames in one stretch
    need(total, "net.ether_joined_receives", 20 * (driver == "ether" and max(mtus) < 65535 and kernel_joins()))
    need(total, "net.quick_came", 50 * (driver == "auto"))
    refuse(total, "net.quick_odd_frames")


def kernel_joins():
    """Does Linux cut up what a packet socket sends?"""
    return tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2]) >= (6, 2)


def case_four(driver):
    names = two(driver, (1500,) * 4, 4)
    # two ranks on each host: the local rail and the network at once
    total = finish(start(names + names, "traffic", 60, DRIVERS[driver]), 90)
    need(total, "net.tx_rendezvous")
    if driver == "ether" and kernel_joins():  # a bridge loses joined packets of a type that is not IP's: so none are sent but to try
        need(total, "net.ether_joined_sends")
        refuse(total, "net.ether_joined_receives")


def case_bad_wire(driver, mtu=1500, messages=300, **harm):
    names = hosts(2)
    wire = Wire(names, mtu, **harm)
    if driver != "ether":
        address(names, driver == "udp6")
    wire.say("cut\nheal")  # in one piece, as a wire that waits for its core reads them: it must not stay cut
    total = finish(start(names, "traffic", messages, DRIVERS[driver]), 120)
    wire.proc.stdin.close()
    print("wire:", wire.proc.stdout.read().strip())
    need(total, "net.tx_rendezvous")
    if harm.get("corrupt") and driver == "ether":
        need(total, "net.drop_check")


def case_no_bodies():
    """Something between the hosts lets only one of the ethertypes pass: bodies come all the same."""
    names = hosts(2)
    wire = Wire(names)
    wire.say("bodies")
    total = finish(start(names, "traffic", 100, DRIVERS["ether"]), 120)
    need(total, "net.tx_rendezvous")
    refuse(total, "net.ether_joined_receives", "net.peers_gone")


def case_no_short_cut():
    """Something between the hosts knows no ethertype but IP's: after three tries in vain all goes over UDP."""
    names = hosts(2)
    wire = Wire(names)
    address(names)
    wire.say("ether")
    total = finish(start(names, "traffic", 100, DRIVERS["auto"]), 60)
    need(total, "net.tx_rendezvous")
    refuse(total, "net.quick_up", "net.quick_came", "net.peers_gone")
    if total["net.quick_sent"] > 6:
        fail("%d frames took a way that leads nowhere" % total["net.quick_sent"])


def case_one_privileged():
    """Only one side may open a packet socket: nothing is sent to where the other has none."""
    under = {1: ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", "--"]}
    total = finish(start(two("auto"), "traffic", 100, DRIVERS["auto"], under=under), 60)
    need(total, "net.tx_rendezvous")
    refuse(total, "net.quick_sent", "net.quick_came", "net.peers_gone")


def case_routed():
    """A router stands between: no Ethernet frame is sent to a host of another segment."""
    names = hosts(3)
    for i, name in enumerate(names[:2]):
        sh("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", "p%d" % i, "netns", names[2])
        sh("ip", "-n", name, "addr", "add", "10.77.%d.2/24" % i, "dev", "eth0")
        sh("ip", "-n", name, "link", "set", "eth0", "up")
        sh("ip", "-n", names[2], "addr", "add", "10.77.%d.1/24" % i, "dev", "p%d" % i)
        sh("ip", "-n", names[2], "link", "set", "p%d" % i, "up")
        sh("ip", "-n", name, "route", "add", "default", "via", "10.77.%d.1" % i)
    sh(*on(names[2], "sysctl", "-w", "net.ipv4.ip_forward=1"))
    total = finish(start(names[:2], "traffic", 100, DRIVERS["auto"]), 60)
    need(total, "net.tx_rendezvous")
    refuse(total, "net.quick_sent", "net.quick_came", "net.peers_gone")


def case_crowd(at_once):
    """Each frame is shown to all packet sockets of a host: of 20 processes on one 16 have one, the others use UDP. Of those that start at
    once some more may have one, but not fewer."""
    names = two("auto")
    ranks = []
    for i in range(20):
        ranks.append(Rank(names[0], None, [PEER, i, 1, "traffic", 1, 0], DRIVERS["auto"]))
        if not at_once:
            ranks[-1].line(awake() + 60)
    for rank in ranks if at_once else ():
        rank.line(awake() + 60)
    listed = subprocess.run(on(names[0], "cat", "/proc/net/packet"), check=True, capture_output=True, text=True).stdout
    found = sum(line.split()[3:4] == ["88b6"] for line in listed.splitlines())
    if found < 16 or (found > 16 and not at_once):
        fail("%d packet sockets: %s" % (found, listed))


STATES = ("unmet", "handshake", "eager", "announced", "serving", "fetching", "idle")


def fated(names, env, state):
    """Two processes of fates.c, of which the second is doomed, up to where the first says that it is in this state."""
    ranks = [Rank(host, i, [FATES, i, state], env) for i, host in enumerate(names)]
    until = awake() + 60  # where all cores are busy, opening an endpoint waits for the kernel (membarrier)
    ranks[0].address, ranks[1].address = [r.line(until).split()[1] for r in ranks]
    if state in ("handshake", "unmet"):
        meets(ranks[1].proc, signal.SIGSTOP)  # before it has heard of anybody
    ranks[0].say(ranks[1].address)
    ranks[1].say(ranks[0].address)
    ranks[0].wait_for("ready", until)
    return ranks


def state_of(pid, task):
    """A thread that ends meanwhile is as good as stopped."""
    try:
        with open("/proc/%d/task/%s/stat" % (pid, task), encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"


def meets(proc, how):
    """It is killed or stopped, and is so in all its threads when this returns."""
    os.kill(proc.pid, how)
    if how == signal.SIGKILL:
        proc.wait(60)
        return
    until = awake() + 60
    while awake() < until:
        if all(state_of(proc.pid, t) == "T" for t in os.listdir("/proc/%d/task" % proc.pid)):
            return
        time.sleep(0.001)
    fail("a process does not stop")


def case_fates(driver, how):
    """A peer dies, hangs or is cut off, whatever state the requests with it are in: all end with an error. How soon is judged in
    virtual time (test_sim's `prompt`); here the machine may be busy."""
    names = hosts(2)
    wire = Wire(names)
    if driver != "ether":
        address(names)

    # Long beside what the wire, or one of the ranks, may be without a core while they still get to know each other.
    patience = 3
    pairs = [fated(names, dict(DRIVERS[driver], SENNIT_PEER_TIMEOUT=str(1000 * patience)), s) for s in STATES]
    time.sleep(0.05)
    begin = awake()

    if how == "cut":
        wire.say("cut")
    for survivor, doomed in pairs:
        if how != "cut":
            meets(doomed.proc, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    for state, (survivor, doomed) in zip(STATES, pairs):
        if state == "eager":
            survivor.say("GO")
    for survivor, doomed in pairs:
        survivor.verdict(begin + 15 * patience)
    print("after %.1f s, of which the peer time-out is %d" % (awake() - begin, patience))

    for survivor, doomed in pairs:
        doomed.proc.kill()
    finish([survivor for survivor, doomed in pairs], 0, judged=True)


def case_restart(driver):
    """A process is killed in the middle of everything and a new one takes its place, while every frame of the old session
    that was seen on the wire comes again and again, to both sides."""
    names = two(driver)
    env = dict(DRIVERS[driver], SENNIT_PEER_TIMEOUT="3000")
    flood = [sys.executable, os.path.join(HERE, "flood.py"), driver, "3"]
    echoes = [Rank(names[1 - i], None, flood) for i in range(2)]  # what is said to 0 comes from 1's host
    until = awake() + 40
    for e in echoes:
        e.wait_for("listening", until)
    ranks = [Rank(host, i, [FATES, i, "again"], env) for i, host in enumerate(names)]
    addresses = [r.line(until).split()[1] for r in ranks]
    for i in range(2):
        ranks[i].say(addresses[1 - i])
    ranks[0].wait_for("met", until)
    time.sleep(0.3)
    ranks[1].proc.kill()
    ranks[0].wait_for("gone", until)
    ranks[1] = Rank(names[1], 1, [FATES, 1, "anew"], env)
    addresses[1] = ranks[1].line(until).split()[1]
    for i in range(2):
        echoes[i].say(addresses[i])
    for e in echoes:
        e.wait_for("replaying", until)
    for i in range(2):
        ranks[i].say(addresses[1 - i])
    total = finish(ranks, 40, lambda: print("echoes:", [e.line(until) for e in echoes]))
    refuse(total, "net.drop_record", "net.restarts")
    need(total, "net.drop_state", 10)  # the survivor remembers the session that is over
    need(total, "net.drop_link", 10)  # the new process never heard of it
    if total["net.peers_gone"] != 1:
        fail("%d peers were given up" % total["net.peers_gone"])


def case_compute(driver):
    """A receiver computes for 6 s without calls, longer than the peer time-out of 3 s: served by its service thread."""
    names = two(driver)
    env = dict(DRIVERS[driver], SENNIT_PEER_TIMEOUT="3000")
    total = finish(start(names, "compute", 6000, env), 60)
    need(total, "net.serviced")


def case_one_copy(mtu):
    """A long message over UDP: the kernel puts nearly every piece where it belongs; nothing is copied again."""
    total = finish(start(two("udp", (mtu, mtu)), "compute", 0, DRIVERS["udp"]), 60)
    # but for what came before the receive was posted
    pieces = total["net.rx_data"] + total["net.rx_push"] - total.get("net.rx_stashed", 0)
    # A receiver that had to wait for its core asks again for what was only late: then a block comes whose turn it is not.
    wrong = pieces // 20 + 64 * (total.get("net.again_evidence", 0) + total.get("net.again_timer", 0))
    need(total, "net.rx_placed", pieces - wrong)
    if total.get("net.rx_moved", 0) > wrong:
        fail("%d of %d pieces were put elsewhere: %r" % (total["net.rx_moved"], pieces, total))


def case_deliver(driver):
    """A delivered send completes only once the receiver, busy elsewhere, has taken the message in; a short one without a
    receive. Of one that is announced DONE says so, and no further message.
    """
    names = two(driver)
    for length, messages in ((1000, 4), (40000, 2)):
        ranks = start(names, "deliver", length, DRIVERS[driver])
        ranks[0].wait_for("waiting", awake() + 60)
        ranks[1].say("GO")
        total = finish(ranks, 60)
        if total["net.tx_eager"] != messages:
            fail("%d bytes: %d short messages, %d expected" % (length, total["net.tx_eager"], messages))


def case_incast(driver):
    """Eight hosts send to one, long messages and short ones mixed."""
    names = two(driver, (1500,) * 9, 9)
    total = finish(start(names, "incast", 12, DRIVERS[driver]), 100)
    need(total, "net.tx_rendezvous", 8 * 12)
    refuse(total, "net.peers_gone")


def case_speed(driver, mtu=1500):
    names = two(driver, (mtu, mtu))
    total = finish(start(names, "pingpong", 0, DRIVERS[driver]), 60)
    for name in sorted(total):
        if name.startswith("net."):
            print(name, total[name])


def case_soak(driver, seconds=int(os.environ.get("SOAK_SECONDS", "600"))):
    """Round after round, each with another wire and other troubles, all of them short of the peer time-out."""
    rnd = random.Random(int(os.environ.get("SOAK_SEED", "0")) or time.time_ns())
    end, rounds = awake() + seconds, 0
    while awake() < end:
        seed = rnd.randrange(1 << 30)
        r = random.Random(seed)
        mtu, harm = r.choice((1500, 1500, 9000)), {"loss": r.choice((0, 0.1, 1, 5)), "duplicate": r.choice((0, 2)),
                                                   "reorder": r.choice((0, 5)), "corrupt": r.choice((0, 1))}
        print("round %d, seed %d: mtu %d, %r" % (rounds, seed, mtu, harm), flush=True)
        names = hosts(2)
        wire = Wire(names, mtu, **harm)
        if driver != "ether":
            address(names, driver == "udp6")
        env = dict(DRIVERS[driver], SENNIT_PEER_TIMEOUT="30000")  # a starved test may leave the cable out for longer
        ranks = start(names * r.choice((1, 1, 2)), "traffic", r.randrange(50, 1500), env, seed=seed)
        for _ in range(r.randrange(6)):
            time.sleep(r.random() * 0.2)
            if r.random() < 0.3:
                victim = r.choice(ranks).proc
                victim.send_signal(signal.SIGSTOP)
                time.sleep(r.random())
                victim.send_signal(signal.SIGCONT)
                continue
            wire.say(r.choice(("cut", "oneway")))
            time.sleep(r.random() * 0.5)
            wire.say("heal")
        total = finish(ranks, 400)  # it may be frozen for a while together with all the others
        refuse(total, "net.peers_gone", "net.drop_record")
        tear_down()
        children.clear()
        made.clear()
        rounds += 1
    print("%d rounds" % rounds)


CASES = {
    "udp": lambda: case_traffic("udp"),
    "udp6": lambda: case_traffic("udp6"),
    "udp_9000": lambda: case_traffic("udp", (9000, 9000)),
    "udp_65535": lambda: case_traffic("udp", (65535, 65535)),
    "udp_mismatch": lambda: case_traffic("udp", (9000, 1500)),
    "udp_four": lambda: case_four("udp"),
    "udp_loss_0.1": lambda: case_bad_wire("udp", loss=0.1),
    "udp_loss_1": lambda: case_bad_wire("udp", loss=1),
    "udp_loss_10": lambda: case_bad_wire("udp", loss=10, messages=100),
    "udp_harm": lambda: case_bad_wire("udp", loss=1, duplicate=2, reorder=5, corrupt=1),
    "udp_kill": lambda: case_fates("udp", "kill"),
    "udp_stop": lambda: case_fates("udp", "stop"),
    "udp_cut_off": lambda: case_fates("udp", "cut"),
    "udp_restart": lambda: case_restart("udp"),
    "udp6_harm": lambda: case_bad_wire("udp6", loss=1, duplicate=2, reorder=5, corrupt=1),
    "udp_incast": lambda: case_incast("udp"),
    "udp_compute": lambda: case_compute("udp"),
    "udp_deliver": lambda: case_deliver("udp"),
    "udp_one_copy": lambda: case_one_copy(1500),
    "udp_one_copy_9000": lambda: case_one_copy(9000),
    "ether": lambda: case_traffic("ether"),
    "ether_9000": lambda: case_traffic("ether", (9000, 9000)),
    "ether_65535": lambda: case_traffic("ether", (65535, 65535)),
    "ether_mismatch": lambda: case_traffic("ether", (1500, 9000)),
    "ether_four": lambda: case_four("ether"),
    "ether_loss_0.1": lambda: case_bad_wire("ether", loss=0.1),
    "ether_loss_1": lambda: case_bad_wire("ether", loss=1),
    "ether_loss_10": lambda: case_bad_wire("ether", loss=10, messages=100),
    "ether_harm": lambda: case_bad_wire("ether", loss=1, duplicate=2, reorder=5, corrupt=1),
    "ether_harm_9000": lambda: case_bad_wire("ether", mtu=9000, loss=1, duplicate=2, reorder=5, corrupt=1),
    "ether_no_bodies": case_no_bodies,
    "ether_kill": lambda: case_fates("ether", "kill"),
    "ether_stop": lambda: case_fates("ether", "stop"),
    "ether_cut_off": lambda: case_fates("ether", "cut"),
    "ether_restart": lambda: case_restart("ether"),
    "ether_incast": lambda: case_incast("ether"),
    "ether_compute": lambda: case_compute("ether"),
    "ether_deliver": lambda: case_deliver("ether"),
    "auto": lambda: case_traffic("auto"),
    "auto_9000": lambda: case_traffic("auto", (9000, 9000)),
    "auto_mismatch": lambda: case_traffic("auto", (9000, 1500)),
    "auto_four": lambda: case_four("auto"),
    "auto_loss_1": lambda: case_bad_wire("auto", loss=1),
    "auto_harm": lambda: case_bad_wire("auto", loss=1, duplicate=2, reorder=5, corrupt=1),
    "auto_no_ether": case_no_short_cut,
    "auto_one_privileged": case_one_privileged,
    "auto_routed": case_routed,
    "auto_crowd": lambda: case_crowd(False),
    "auto_crowd_at_once": lambda: case_crowd(True),
    "auto_kill": lambda: case_fates("auto", "kill"),
    "auto_cut_off": lambda: case_fates("auto", "cut"),
    "auto_incast": lambda: case_incast("auto"),
    "auto_compute": lambda: case_compute("auto"),
}
SOAK = {"soak_" + d: (lambda d=d: case_soak(d)) for d in DRIVERS}
EXTRA = {
    "udp_speed": lambda: case_speed("udp"),
    "udp_speed_9000": lambda: case_speed("udp", 9000),
    "auto_speed": lambda: case_speed("auto"),
    "ether_speed": lambda: case_speed("ether"),
    "ether_speed_9000": lambda: case_speed("ether", 9000),
}


def tear_down():
    for c in children:
        if c.poll() is None:
            c.kill()
            c.wait()
    for name in made:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, timeout=60)


def main(cases, more=None):
    """Runs the case that the arguments name, of these; `more` are not in the list."""
    if len(sys.argv) == 2 and sys.argv[1] == "--list":
        print("\n".join(cases))
        return
    if os.geteuid() != 0:
        print("skipped: making network namespaces needs root")
        sys.exit(SKIP)
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    try:
        dict(cases, **(more or {}))[sys.argv[3]]()
        print("passed")
    finally:
        tear_down()


if __name__ == "__main__":
    main(CASES, dict(EXTRA, **SOAK))

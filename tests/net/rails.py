#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several rails between two hosts: two network namespaces joined by two or more veth pairs, rate-limited by tc.

usage: rails.py RAIL_PEER CASE     (rails.py --list prints the cases)

Needs root, and tc with the tbf queue; otherwise exits 77. Also used, as a module, by bench/net_multi.py.
"""
import os
import re
import select
import subprocess
import sys
import tempfile
import time

SKIP = 77
made = []
children = []


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def sh(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)


class Hosts:
    """Two namespaces with `rails` pairs: eth0 is 10.77.0.0/24, eth1 10.77.1.0/24, and so on."""

    def __init__(self, rails=2, mtus=(1500, 1500, 1500, 1500), addresses=True):
        self.rails = rails
        self.names = ["sr%d-%d" % (os.getpid(), i) for i in range(2)]
        for name in self.names:
            try:
                sh("ip", "netns", "add", name)
            except (OSError, subprocess.CalledProcessError) as e:
                raise Skipped("cannot make network namespaces: %s" % e)
            made.append(name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
        for r in range(rails):
            sh("ip", "link", "add", "eth%d" % r, "netns", self.names[0], "type", "veth", "peer", "name", "eth%d" % r,
               "netns", self.names[1])
            for i, name in enumerate(self.names):
                sh("ip", "-n", name, "link", "set", "eth%d" % r, "mtu", str(mtus[r]), "up")
                if addresses is True or (addresses and r in addresses):
                    sh("ip", "-n", name, "addr", "add", "10.77.%d.%d/24" % (r, i + 1), "dev", "eth%d" % r)

        self.wait_up(rails)

    def wait_up(self, rails):
        """The kernel reports a carrier up to a second after it is there, and endpoints leave out what has none."""
        until = time.monotonic() + 60
        for name in self.names:
            while any("state UP" not in sh("ip", "-n", name, "link", "show", "eth%d" % r).stdout.decode()
                      for r in range(rails)):
                if time.monotonic() > until:
                    raise Failed("the links do not come up")
                time.sleep(0.05)

    def rate(self, rail, mbit, only=None):
        """Limit both ends of a rail, or one (0 or 1)."""
        for i, name in enumerate(self.names):
            if only is not None and i != only:
                continue
            burst = max(32, mbit // 8)
            try:
                sh("tc", "-n", name, "qdisc", "replace", "dev", "eth%d" % rail, "root", "tbf", "rate", "%dmbit" % mbit,
                   "burst", "%dk" % burst, "limit", "2m")
            except (OSError, subprocess.CalledProcessError) as e:
                raise Skipped("no tc with tbf here: %s" % e)

    def cable(self, rail, state):
        sh("ip", "-n", self.names[0], "link", "set", "eth%d" % rail, state)
        if state == "up":
            for i, name in enumerate(self.names):
                sh("ip", "-n", name, "addr", "replace", "10.77.%d.%d/24" % (rail, i + 1), "dev", "eth%d" % rail)

    def carried(self, rail):
        """Bytes sent by rank 0 on this rail so far."""
        out = sh("ip", "netns", "exec", self.names[0], "cat", "/sys/class/net/eth%d/statistics/tx_bytes" % rail)
        return int(out.stdout)


class Rank:
    def __init__(self, peer, host, rank, words, env):
        full = dict(os.environ, SENNIT_STATS="1", **env)
        self.rank = rank
        self.proc = subprocess.Popen(["ip", "netns", "exec", host, peer, str(rank)] + [str(w) for w in words],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=full)
        children.append(self.proc)
        self.rest = b""
        self.lines = []

    def line(self, until):
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.proc.stdout], [], [], left)[0]:
                self.proc.kill()
                raise Failed("rank %d says nothing any more; %s" % (self.rank, self.proc.stderr.read().decode()[-3000:]))
            got = os.read(self.proc.stdout.fileno(), 65536)
            if not got:
                raise Failed("rank %d ended: %s" % (self.rank, self.proc.stderr.read().decode()[-3000:]))
            self.rest += got
        line, self.rest = self.rest.split(b"\n", 1)
        self.lines.append(line.decode())
        return self.lines[-1]

    def say(self, text):
        self.proc.stdin.write(text.encode() + b"\n")
        self.proc.stdin.flush()

    def verdict(self, until):
        while True:
            line = self.line(until)
            if line.startswith("OK"):
                return
            if line.startswith("FAILED"):
                raise Failed(line)

    def figure(self, word):
        for line in self.lines:
            if line.startswith(word):
                return float(line.split()[1])
        raise Failed("rank %d printed no %s: %r" % (self.rank, word, self.lines))

    def over_time(self):
        return [tuple(float(w) for w in line.split()[1:]) for line in self.lines if line.startswith("AT ")]


def start(peer, hosts, mode, size, count, seconds=0, env=None):
    ranks = [Rank(peer, host, i, (mode, size, count, seconds), env or {}) for i, host in enumerate(hosts.names)]
    until = time.monotonic() + 60
    addresses = [r.line(until).split()[1] for r in ranks]
    ranks[0].say(addresses[1])
    ranks[1].say(addresses[0])
    return ranks


def finish(ranks, limit=60):
    """Both must say OK, and close. Returns the counters of each."""
    until = time.monotonic() + limit
    for r in reversed(ranks):
        r.verdict(until)
    counters = []
    for r in ranks:
        r.say("QUIT")
    for r in ranks:
        _, err = r.proc.communicate(timeout=60)
        if r.proc.returncode:
            raise Failed("rank %d: exit %d: %s" % (r.rank, r.proc.returncode, err.decode()[-3000:]))
        found = {}
        for text in err.decode().splitlines():
            words = text.split()
            if len(words) == 3 and words[0].startswith("sennit[") and words[2].isdigit():
                found[words[1]] = found.get(words[1], 0) + int(words[2])
        counters.append(found)
    return counters


def need(counters, name, least=1):
    total = sum(c.get(name, 0) for c in counters)
    if total < least:
        raise Failed("expected %s to be at least %d, it is %d: %r" % (name, least, total, counters))


class Steps:
    """Messages of `size` bytes one by one, each when it is asked for: what a rail carried is known for each of them, and what is
    judged is how many messages it takes until the split has changed, not how long."""

    def __init__(self, peer, hosts, size=1 << 20, env=None):
        self.hosts = hosts
        self.ranks = start(peer, hosts, "steps", size, 0, env=env)

    def one(self, rail, change=None):
        """One message; its part that the rail carried. `change` is called in the middle of it."""
        before = [self.hosts.carried(r) for r in range(self.hosts.rails)]
        for r in self.ranks:
            r.say("GO")
        if change:
            time.sleep(0.02)
            change()
        until = time.monotonic() + 40
        for r in self.ranks:
            while not r.line(until).startswith("STEP"):
                pass
        return share(self.hosts, before, rail)

    def until(self, what, rail, least, most, limit):
        """Send messages until two in a row have such a share; how many came before these."""
        shares = []
        while len(shares) < limit + 2:
            shares.append(self.one(rail))
            if all(least <= s <= most for s in shares[-2:]) and len(shares) > 1:
                print("%s: after %d messages" % (what, len(shares) - 2))
                return
        raise Failed("%s: not within %d messages: %s" % (what, limit, " ".join("%.2f" % s for s in shares)))

    def end(self):
        for r in self.ranks:
            r.say("END")
        return finish(self.ranks)


def share(hosts, before, rail):
    now = [hosts.carried(r) - b for r, b in enumerate(before)]
    return now[rail] / max(1, sum(now))


AGENT = """#!/bin/sh
# stands for ssh: [-x] ADDRESS COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
n=$((${1##*.} - 1)); shift
exec ip netns exec %s-$n unshare --uts sh -c 'hostname host'$n'; exec sh -c "$0"' "$*"
"""


def mpi_command(mpi, build, work, hosts, program, env, options=(), ours=True):
    """What runs a program on both hosts with one rank each, by the stock launcher, and its environment. mpi: job.Mpi."""
    agent = os.path.join(work, "agent")
    with open(agent, "w", encoding="utf-8") as f:
        f.write(AGENT % hosts.names[0].rsplit("-", 1)[0])
    os.chmod(agent, 0o755)
    if mpi.name == "m5":
        launch = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", "10.77.0.1:1,10.77.0.2:1", "-n", "2"]
    else:
        prefix, rsh, place = (("--mca", "plm_rsh_agent", "--oversubscribe") if mpi.name == "o4" else
                              ("--prtemca", "plm_ssh_agent", "--map-by=:OVERSUBSCRIBE"))
        launch = [prefix, rsh, agent, prefix, "oob_tcp_if_include", "eth0", place, "--bind-to", "none", "-H",
                  "10.77.0.1:1,10.77.0.2:1", "-n", "2"]
    run = [os.path.join(build, "bin", "sennit"), "run", "--"] if ours else []
    full = {k: v for k, v in os.environ.items() if not k.startswith(("SENNIT_", "FI_", "OMPI_", "PMIX_", "PRTE_", "MPIR_"))}
    full.update(mpi.environment(), **env)
    return ["ip", "netns", "exec", hosts.names[0], "unshare", "--uts", "sh", "-c", 'hostname host0; exec "$@"',
            "sh"] + run + [mpi.launcher] + launch + list(options) + program, full


def mpi_job(mpi, build, work, hosts, program, env):
    """Its output."""
    command, full = mpi_command(mpi, build, work, hosts, program, env)
    job = subprocess.run(command, env=full, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         timeout=60, check=False)
    out = job.stdout.decode(errors="replace")
    if job.returncode:
        raise Failed("%s ended with %d: %s" % (mpi.name, job.returncode, out[-3000:]))
    return out


def mpi_named(name):
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(os.path.dirname(here), "mpi"))
    from job import Mpi
    return Mpi(name)


# ---- cases ----

def case_mpi(peer):
    """A stock Open MPI job over two unlike rails: collectives of all sizes, every byte checked, and both rails carry."""
    build = os.path.dirname(os.path.dirname(os.path.abspath(peer)))
    mpi = mpi_named("o4")
    h = Hosts(mtus=(1500, 9000))
    h.rate(0, 400)
    h.rate(1, 200)
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "mpi_job")
        subprocess.run([mpi.compiler(), os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_job.c"), "-o", program],
                       check=True)
        before = [h.carried(0), h.carried(1)]
        out = mpi_job(mpi, build, work, h, [program], {"SENNIT_STATS": "1"})
    parts = [share(h, before, r) for r in range(2)]
    print("shares %.2f %.2f" % tuple(parts))
    if "OK 2 ranks" not in out or min(parts) < 0.03:
        raise Failed("shares %r; %s" % (parts, out[-2000:]))


# The rates are low, so that a busy machine reaches them, too, and the shares follow from the rails alone.

def case_shares(peer):
    """Equal rails carry half each of a long message; one of a quarter of the other's rate carries a fifth: in two messages in a row, for
    one may fall into a moment in which somebody else has the processor."""
    for rates, least, most in (((40, 40), 0.35, 0.65), ((80, 20), 0.1, 0.3)):
        h = Hosts()
        h.rate(0, rates[0])
        h.rate(1, rates[1])
        steps = Steps(peer, h)
        steps.until("%d + %d Mbit/s" % rates, 1, least, most, 40)
        steps.end()
        tear_down()


def case_subnet(peer):
    """Two cards of one subnet on separate wires: each rail keeps to its card."""
    h = Hosts(addresses=(0,))
    for i, name in enumerate(h.names):
        sh("ip", "-n", name, "addr", "add", "10.77.0.%d/24" % (i + 3), "dev", "eth1")
    h.rate(0, 80)
    h.rate(1, 80)
    steps = Steps(peer, h, env={"SENNIT_NET": "auto"})
    steps.until("the second card carries its part", 1, 0.3, 0.7, 40)
    steps.end()


def case_first_dead(peer):
    """The first rail, which the address names first, carries nothing though its cable is in: contact by the second. Once it
    works it is used."""
    h = Hosts()
    h.rate(0, 80)
    h.rate(1, 80)
    for i, name in enumerate(h.names):  # to nobody
        sh("ip", "-n", name, "neigh", "replace", "10.77.0.%d" % (2 - i), "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud",
           "permanent")
    steps = Steps(peer, h)
    steps.until("the second rail carries all", 1, 0.9, 1, 4)
    for i, name in enumerate(h.names):
        sh("ip", "-n", name, "neigh", "del", "10.77.0.%d" % (2 - i), "dev", "eth0")
    steps.until("the first one works and is used", 0, 0.25, 0.75, 200)
    steps.end()


def case_degrade(peer):
    """A rail falls to a tenth in mid-message: its share follows by and by; then it recovers, and gets it back."""
    h = Hosts()
    h.rate(0, 80)
    h.rate(1, 80)
    steps = Steps(peer, h)
    steps.until("two equal rails", 1, 0.3, 0.7, 10)
    steps.one(1, lambda: h.rate(1, 8))
    steps.until("a tenth is noticed", 1, 0.01, 0.25, 40)
    h.rate(1, 80)
    steps.until("that it is whole again", 1, 0.3, 0.7, 40)
    steps.end()


def case_cut(peer):
    """A cable is pulled in mid-message and put back: nothing is lost, the other rail goes on, the first is taken back."""
    h = Hosts()
    h.rate(0, 80)
    h.rate(1, 80)
    steps = Steps(peer, h)
    steps.until("two equal rails", 0, 0.3, 0.7, 10)
    steps.one(0, lambda: h.cable(0, "down"))
    steps.until("the cut is noticed", 0, 0, 0.01, 3)
    h.cable(0, "up")
    steps.until("that it is whole again", 0, 0.3, 0.7, 200)
    counters = steps.end()
    need(counters, "net.rail_down", 1)
    need(counters, "net.rail_up", 3)
    if any(c.get("net.peers_gone") for c in counters):
        raise Failed("the peer was given up")


def case_order(peer):
    """Short, middling and long messages of one tag over two rails of different speed and delay match in order."""
    h = Hosts(mtus=(1500, 9000))
    h.rate(0, 800)
    h.rate(1, 100)
    finish(start(peer, h, "mixed", 0, 600))


def case_kinds(peer):
    """A UDP rail with 1500-byte frames and an Ethernet rail with 9000 carry one stream."""
    h = Hosts(mtus=(1500, 9000), addresses=(0,))
    h.rate(0, 80)
    h.rate(1, 80)
    steps = Steps(peer, h, env={"SENNIT_NET": "auto"})
    steps.until("the Ethernet rail carries its part", 1, 0.3, 0.7, 40)
    steps.end()


def case_three(peer):
    """Three rails, fast, slower, slow: each carries its part of long messages."""
    h = Hosts(3, (1500, 9000, 1500))
    h.rate(0, 80)
    h.rate(1, 40)
    h.rate(2, 20)
    steps = Steps(peer, h)
    for rail, least, most in ((0, 0.4, 0.75), (1, 0.15, 0.45), (2, 0.06, 0.3)):  # 4/7, 2/7 and 1/7 at best
        steps.until("rail %d has its part" % rail, rail, least, most, 40)
    steps.end()


def case_lone(peer):
    """A lone message leaves at once: a frame of its own, a send call a frame, and nothing besides but acknowledgements that a busy
    machine makes late (frames and calls are counted, no time)."""
    h = Hosts(1)
    env = {"SENNIT_NET": "udp:eth0"}
    counters = finish(start(peer, h, "lone", 8, 2000, 0, env))
    for c in counters:
        again = c.get("net.resend_fast", 0) + c.get("net.resend_timer", 0)
        other = c.get("net.tx_ack", 0) + c.get("net.tx_probes", 0)
        if c["net.tx_records"] < 2000 or c["net.tx_msg"] - again < c["net.tx_records"]:
            raise Failed("messages of a ping-pong shared frames: %r" % c)
        if c["net.udp_send_calls"] > c["net.tx_frames"] + c.get("net.driver_full", 0):
            raise Failed("more than a send call a frame: %r" % c)
        if c["net.tx_frames"] > 2000 + again + other + 50:
            raise Failed("more than a frame a message: %r" % c)
    print("send calls %s for 2000 messages" % [c["net.udp_send_calls"] for c in counters])


def case_burst(peer):
    """A burst shares frames, at least four messages in each, and frames share calls; with fifo no frame has two."""
    h = Hosts(1)
    c = finish(start(peer, h, "burst", 512, 60))[0]
    print("512 bytes: %.1f frames a call" % (c["net.tx_frames"] / c["net.udp_send_calls"]))
    if c["net.tx_frames"] < 2 * c["net.udp_send_calls"]:
        raise Failed("full frames leave one by one: %r" % c)
    for strategy, least, most in (("aggregate,split", 4, 1000), ("fifo", 0.999, 1.01)):
        counters = finish(start(peer, h, "burst", 8, 60, 0, {"SENNIT_STRATEGY": strategy}))
        ratio = counters[0]["net.tx_records"] / (counters[0]["net.tx_msg"] - counters[0].get("net.resend_timer", 0) -
                                                counters[0].get("net.resend_fast", 0))
        print("%s: %.3f messages a frame" % (strategy, ratio))
        if not least <= ratio <= most:
            raise Failed("%s put %.3f messages into a frame" % (strategy, ratio))


def case_vectors(peer):
    """Messages of many segments: the rail gathers long ones where they lie, short ones are copied together; every byte, and those
    between the segments, are looked at."""
    for size, least, mtu in ((100, "net.tx_packed", 1500), (1501, "net.tx_gathered", 1500), (1501, "net.tx_gathered", 9000)):
        for net in ("udp:eth0", "ether:eth0"):
            h = Hosts(1, (mtu,))
            counters = finish(start(peer, h, "vector", size, 12, 0, {"SENNIT_NET": net}))
            need(counters, least, 100)
            other = counters[0].get({"net.tx_packed": "net.tx_gathered", "net.tx_gathered": "net.tx_packed"}[least], 0)
            if other > (counters[0].get("net.tx_data", 0) + counters[0].get("net.tx_push", 0)) / 10:
                raise Failed("%s, %d bytes: %d pieces went the other way: %r" % (net, size, other, counters[0]))
            tear_down()


def case_mpi_vectors(peer):
    """A derived type of few blocks, which MPICH hands over as segments: the rail gathers them."""
    build = os.path.dirname(os.path.dirname(os.path.abspath(peer)))
    mpi = mpi_named("m5")
    h = Hosts(1)
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "mpi_job")
        subprocess.run([mpi.compiler(), os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_job.c"), "-o", program],
                       check=True)
        out = mpi_job(mpi, build, work, h, [program, "vectors"], {"SENNIT_STATS": "1", "MPIR_CVAR_CH4_OFI_ENABLE_PT2PT_NOPACK": "1"})
    if "OK 2 ranks" not in out or "net.tx_gathered" not in out:
        raise Failed(out[-2000:])
    print("gathered", [line.split()[-1] for line in out.splitlines() if "net.tx_gathered" in line])


def case_shown(peer):
    """`sennit info --peer` shows window, model and split of each rail of a running process."""
    h = Hosts()
    h.rate(0, 400)
    h.rate(1, 100)
    ranks = start(peer, h, "stream", 4 << 20, 40)
    while len(ranks[1].over_time()) < 6:  # so often it has said what came: a dozen messages
        ranks[1].line(time.monotonic() + 60)
    tool = os.path.join(os.path.dirname(peer), "sennit")
    shown = [sh(tool, "info", "--peer", str(r.proc.pid)).stdout.decode() for r in ranks]
    finish(ranks)
    print(shown[1])
    for text in shown:
        for word in ("window", "rail 0 out", "rail 1 out", "strategy aggregate,split", "rail 0 in", "rail 1 in", "rail 0 model",
                     "rail 1 model"):
            if word not in text:
                raise Failed("no \"%s\" in: %s" % (word, text))
    for rail in (0, 1):  # the receiver's model: a rate of long transfers, and how many samples it rests on. Latency is measured on an idle rail
        found = re.search(r"rail %d model +.*then ([\d.]+); latency [\d.]+ us; (\d+) samples" % rail, shown[1])
        if not found or float(found[1]) <= 0 or int(found[2]) < 1:
            raise Failed("rail %d's model is shown as %r" % (rail, found and found[0]))
    parts = [float(line.split(" % of")[0].split()[-1]) for line in shown[1].splitlines() if "% of the bytes" in line]
    if len(parts) != 2 or not 98 <= sum(parts) <= 102 or parts[1] > parts[0]:
        raise Failed("the split is shown as %r" % parts)


CASES = {name[5:]: f for name, f in list(globals().items()) if name.startswith("case_")}


def tear_down():
    for c in children:
        if c.poll() is None:
            c.kill()
            c.wait()
    children.clear()
    for name in made:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, timeout=60)
    made.clear()


def main():
    if len(sys.argv) == 2 and sys.argv[1] == "--list":
        print("\n".join(CASES))
        return 0
    if os.geteuid() != 0:
        print("skipped: making network namespaces needs root")
        return SKIP
    try:
        CASES[sys.argv[2]](sys.argv[1])
        print("passed")
        return 0
    except Skipped as e:
        print("skipped:", e)
        return SKIP
    except Failed as e:
        print("FAILED:", e)
        return 1
    finally:
        tear_down()


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""MPI jobs of run.py over several hosts: network namespaces with a host name of their own, on one bridge. The stock launcher
starts its daemons through an agent in the place of ssh, which, as ssh does, takes no variable of the environment along; or
through ssh itself, to a daemon of its own on each host.
"""
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "net"))
import hosts as net  # noqa: E402
from job import fail, skip  # noqa: E402

AGENT = """#!/bin/sh
# stands for ssh: [-x] ADDRESS COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
n=$((${1##*.} - 1)); shift
cd /
exec env -i HOME="$HOME" PATH=/usr/local/bin:/usr/bin:/bin SHELL=/bin/sh nsenter --net=/run/netns/%(tag)s-$n unshare --uts \\
	sh -c 'hostname host'$n'; exec sh -c "$0"' "$*"
"""
SSH = """#!/bin/sh
exec ssh -F %(work)s/ssh_config "$@"
"""
SSH_CONFIG = """Host *
  IdentityFile %(work)s/key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  BatchMode yes
"""
SSHD_CONFIG = """HostKey %(work)s/hostkey
AuthorizedKeysFile %(work)s/key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
ListenAddress %(address)s
"""


class Across:
    """spec: HOSTS:DRIVER, or HOSTS:DRIVER:ssh."""

    def __init__(self, spec, work):
        count, self.driver, *rest = spec.split(":")
        if os.geteuid() != 0:
            skip("making network namespaces needs root")
        self.work = work
        self.names = net.hosts(int(count))
        self.network()
        self.addresses = ["10.77.0.%d" % (i + 1) for i in range(len(self.names))]
        self.daemons = []
        self.agent = os.path.join(work, "agent")
        text = AGENT % {"tag": net.TAG}
        if rest == ["ssh"]:
            self.start_ssh()
            text = SSH % {"work": work}
        with open(self.agent, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.agent, 0o755)

    def network(self):
        net.veth(self.names, (1500,) * len(self.names))
        net.address(self.names)

    def start_ssh(self):
        sshd = os.environ.get("SSHD") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
        if not sshd or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
            skip("ssh or sshd is not here (Debian: openssh-client, openssh-server)")
        for name in ("key", "hostkey"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(self.work, name)], check=True)
        with open(os.path.join(self.work, "ssh_config"), "w", encoding="utf-8") as f:
            f.write(SSH_CONFIG % {"work": self.work})
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd insists
        for i, (name, address) in enumerate(zip(self.names, self.addresses)):
            config = os.path.join(self.work, "sshd_config.%d" % i)
            with open(config, "w", encoding="utf-8") as f:
                f.write(SSHD_CONFIG % {"work": self.work, "address": address})
            self.daemons.append(subprocess.Popen(net.on(name, "unshare", "--uts", "sh", "-c",
                                                        'hostname host%d; exec "$@"' % i, "sh", sshd, "-D", "-e", "-f", config),
                                                 stderr=subprocess.DEVNULL))
        for _ in range(100):
            test = ["ssh", "-F", os.path.join(self.work, "ssh_config"), self.addresses[-1], "hostname"]
            said = subprocess.run(net.on(self.names[0], *test), capture_output=True, text=True, check=False)
            if said.returncode == 0:
                return
            if any(d.poll() is not None for d in self.daemons):
                skip("sshd does not run here")
            time.sleep(0.1)
        skip("nobody can log in through sshd here: " + said.stderr)

    def prefix(self):
        """Where the launcher runs: on the first host."""
        return net.on(self.names[0], "unshare", "--uts", "sh", "-c", 'hostname host0; exec "$@"', "sh")

    def command(self, mpi, ranks, env, apart=0):
        """env: what the job's processes need besides what `sennit run` hands on by itself. apart: ranks that come behind these."""
        each = -(-(ranks + apart) // len(self.names))
        kept = self.kept(env)
        hosts = ",".join("%s:%d" % (a, each) for a in self.addresses)
        if mpi.name == "o4":
            return [mpi.launcher, "--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", "eth0",
                    "--oversubscribe", "--bind-to", "none", *kept, "-H", hosts, "-n", str(ranks)]
        if mpi.name == "o5":
            return [mpi.launcher, "--prtemca", "plm_ssh_agent", self.agent, "--prtemca", "oob_tcp_if_include", "eth0",
                    "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", *kept, "-H", hosts, "-n", str(ranks)]
        return [mpi.launcher, "-launcher", "ssh", "-launcher-exec", self.agent, "-hosts", hosts, "-n", str(ranks)]

    @staticmethod
    def kept(env):
        """What tells Open MPI to hand these variables on."""
        return [word for name in env for word in ("-x", name)]

    def apart(self, mpi, ranks, env):
        """The last ranks of a job, as a program of its own, on the last host."""
        own = [*self.kept(env), "-H", "%s:%d" % (self.addresses[-1], ranks)] if mpi.name in ("o4", "o5") else []
        return [":", *own, "-n", str(ranks)]

    def check(self, result, ranks):
        """Did the hosts speak to each other over sennit, and those beside each other the short way?"""
        total = {}
        for own in result.counters().values():
            for name, value in own.items():
                total[name] = total.get(name, 0) + value
        if result.status == 0 and total.get("net.connects", 0) < 2:
            fail("the hosts did not speak to each other over sennit")
        if result.status == 0 and ranks > len(self.names) and not total.get("local.tx_eager"):
            fail("ranks of one host did not speak to each other by shared memory")
        for name in ("net.drop_record", "net.drop_mac", "net.peers_gone"):
            if result.status == 0 and total.get(name):
                fail("%s is %d" % (name, total[name]))

    def is_on(self, pid, host):
        """Does this process run on the host with this number?"""
        return os.stat("/proc/%d/ns/net" % pid).st_ino == os.stat("/run/netns/" + self.names[host]).st_ino

    def left(self):
        """Processes and sockets on the hosts, in words. A launcher's daemons may end a moment after it."""
        for _ in range(300):
            found = []
            for name in self.names:
                found += ["process " + pid for pid in net.sh("ip", "netns", "pids", name).stdout.decode().split()]
                for kind in ("udp", "udp6", "packet", "unix"):
                    text = net.sh(*net.on(name, "cat", "/proc/net/" + kind)).stdout.decode()
                    found += ["%s: a socket: %s" % (name, line) for line in text.splitlines()[1:]]
            if not found:
                break
            time.sleep(0.1)
        return found

    def end(self):
        for d in self.daemons:
            d.kill()
            d.wait()
        for host in net.made:  # what the launcher left behind, if the job was cut short
            pids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=False).stdout.split()
            for pid in pids:
                subprocess.run(["kill", "-9", pid], check=False, stderr=subprocess.DEVNULL)
        net.tear_down()

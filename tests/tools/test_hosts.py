# SPDX-License-Identifier: BSD-3-Clause
"""`sennit doctor HOST` and `sennit info` between hosts (network namespaces): each thing that a newcomer gets wrong is named,
with what to do about it."""
import os
import shutil
import subprocess
import sys
import unittest

from common import SENNIT, SOURCE, ToolTest

sys.argv = [sys.argv[0]]
sys.path.insert(0, os.path.join(SOURCE, "tests", "net"))
import hosts as net  # noqa: E402

net.WIRE = os.environ["WIRE"]
RSH = 'shift; exec nsenter --net=/run/netns/%s -- sh -c "$*"'


class HostsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(net.made.clear)
        self.addCleanup(net.children.clear)
        self.addCleanup(net.tear_down)
        self.names = net.hosts(2)
        self.wire = net.Wire(self.names)
        net.address(self.names)
        self.rsh = self.script("rsh", RSH % self.names[1])

    def on_first(self, *args, before=(), **env):
        r = subprocess.run([*before, *net.on(self.names[0], SENNIT, *args)], env={**self.env, **env}, capture_output=True,
                           text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        return r

    def doctor(self, status, *said, rsh=None, **env):
        r = self.on_first("doctor", "--rsh", rsh or self.rsh, "host1", **env)
        for text in said:
            self.assertRegex(r.stdout + r.stderr, text)
        self.assertEqual(r.returncode, status, r.stdout)

    def test_a_host_that_answers(self):
        for how in ("auto", "udp:eth0", "ether"):
            self.doctor(0, r"(?m)^ok +host1 +version .*, reached in .*MTU 1500$", SENNIT_NET=how)

    def test_a_log_in_whose_shell_is_csh(self):
        csh = 'case "$2" in [A-Z]*=*) echo "${2%%%% *}: Command not found." >&2; exit 1;; esac\n' + RSH
        self.doctor(0, r"(?m)^ok +host1 +version ", rsh=self.script("csh", csh % self.names[1]))

    def test_a_wrong_interface(self):
        self.doctor(1, r'no interface that is up has the name or address "eth7"', r"MISSING +host1 .*\n +-> set SENNIT_NET",
                    SENNIT_NET="udp:eth7")

    def test_a_network_that_is_off(self):
        self.doctor(1, r"network is open here", SENNIT_NET="off")

    def test_a_host_without_sennit(self):
        self.doctor(1, r"MISSING +host1 +this program is not there.*\n +-> install the same sennit",
                    rsh=self.script("rsh2", "exec sh -c /no/such/sennit"))

    def test_a_host_that_nobody_can_log_in_to(self):
        self.doctor(1, r"MISSING +host1 +no command can be run there.*\n +-> make `ssh HOST true` work",
                    rsh=self.script("rsh3", "exit 255"))

    def test_another_version(self):
        self.doctor(1, r"MISSING +host1 +sennit 9\.9\.9 \(protocol 2\) is there.*\n +-> install the same sennit",
                    rsh=self.script("rsh4", "echo welcome; echo sennit 9.9.9 2 1500 00; cat >/dev/null"))

    def test_a_firewall(self):
        self.wire.say("firewall")
        self.doctor(1, r"MISSING +host1 +it answers over .*, but UDP does not get through on eth0\n +-> allow UDP",
                    r"no answer from 10\.77\.0\.2 in \d+ ms.*firewall", SENNIT_PEER_TIMEOUT="1000")

    def test_another_mtu(self):
        net.sh("ip", "-n", self.names[1], "link", "set", "eth0", "mtu", "1400")
        self.doctor(0, r"limited +host1 +reached in .*1400 bytes there and 1500 here.*\n +-> the same MTU")

    def test_rights_that_are_missing(self):
        drop = ["setpriv", "--bounding-set=-net_raw,-net_admin", "--inh-caps=-net_raw,-net_admin"]
        r = subprocess.run(net.on(self.names[0], *drop, SENNIT, "doctor"), env={**self.env, "SENNIT_NET": "ether"},
                           capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        self.assertRegex(r.stdout, r"MISSING +raw Ethernet +.*CAP_NET_RAW.*\n +-> run as root")
        with open("/proc/sys/net/core/rmem_max", encoding="ascii") as f:
            small = int(f.read()) < 8 << 20
        self.assertRegex(r.stdout, r"limited +socket buffers .*\n +-> sysctl net.core.rmem_max" if small else "ok +socket buffers")

    def test_info_shows_the_interfaces(self):
        shown = r"(?m)^network +eth0 \(10\.77\.0\.1, MTU 1500, segmentation (on|off|\?), receive offload (on|off|\?)\): "
        self.assertRegex(self.on_first("info").stdout, shown + "UDP, as it has an IP address")
        self.assertRegex(self.on_first("info", SENNIT_NET="ether:eth0").stdout, shown + "Ethernet frames, by the setting net")
        self.assertRegex(self.on_first("info", SENNIT_NET="udp:eth7").stdout, r"(?m)^network +no interface .* \"eth7\"")
        self.assertRegex(self.on_first("info", SENNIT_NET="off").stdout, r"(?m)^network +off")
        net.sh("ip", "-n", self.names[0], "addr", "flush", "dev", "eth0")
        self.assertRegex(self.on_first("info").stdout, r"(?m)^network +eth0 \(no IP address.*Ethernet frames, as it has no IP")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: making network namespaces needs root")
        sys.exit(77)
    if not shutil.which("ip"):
        print("skipped: ip is not installed (Debian: iproute2)")
        sys.exit(77)
    unittest.main(verbosity=2)

# SPDX-License-Identifier: BSD-3-Clause
"""`sennit info` and `sennit doctor`: they tell the truth about settings and about what is refused."""
import ctypes
import os
import platform
import re
import resource
import signal
import struct
import subprocess
import time
import unittest

from common import SENNIT, SOURCE, ToolTest


class InfoTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.env["HOME"] = self.dir  # no settings of whoever runs the test

    def test_every_setting_with_value_and_origin(self):
        r = self.sennit("info", SENNIT_EAGER="4k")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"(?m)^sennit +\d+\.\d+\.\d+$")
        self.assertRegex(r.stdout, r"(?m)^rails +local .*by the kernel$")
        self.assertRegex(r.stdout, r"(?m)^module +/dev/sennit: ")
        self.assertRegex(r.stdout, r"(?m)^waiting +\d+ process(es)? for \d+ cores?: who waits spins for \d+ us, then sleeps\n"
                         r" +\d+ processes for \d+ cores?: who waits yields for \d+ us, then sleeps")
        self.assertRegex(r.stdout, r"(?m)^  eager +4096 bytes +environment")
        self.assertRegex(r.stdout, r"(?m)^  copy +auto +default")

    def test_a_settings_file_is_named(self):
        os.mkdir(self.dir + "/.config")
        with open(self.dir + "/.config/sennit.conf", "w", encoding="utf-8") as f:
            f.write("# mine\nspin = 7\n")
        r = self.sennit("info")
        self.assertRegex(r.stdout, r"(?m)^  spin +7 us +.*sennit\.conf")

    def test_a_rail_that_is_off_is_named(self):
        self.assertRegex(self.sennit("info", SENNIT_NET="off").stdout, r"(?m)^ +net .*; not open here")

    def test_of_each_interface_is_said_what_it_is_used_for(self):
        self.assertRegex(self.sennit("info", SENNIT_NET="auto").stdout,
                         r"(?m)^network .*(: UDP, .*(short messages|no Ethernet frames)|Ethernet frames|no interface is up)")

    def test_a_setting_of_the_network_that_is_none_is_not_taken_for_one(self):
        for value, said in (("foo", '"foo"'), ("udp,bar", '"udp,bar"'), ("", "empty")):
            self.assertRegex(self.sennit("info", SENNIT_NET=value).stdout, r"(?m)^(network|  ) +SENNIT_NET is " + said)
            self.assertRegex(self.sennit("doctor", SENNIT_NET=value).stdout, r"(?m)^limited +network .*SENNIT_NET is " + said)

    def test_help_is_found_by_whoever_asks_for_it(self):
        for asked, of in ((["help"], "sennit "), (["-h"], "sennit "), (["help", "perf"], "sennit perf "),
                          (["perf", "-h"], "sennit perf ")):
            r = self.sennit(*asked)
            self.assertEqual((r.returncode, r.stderr), (0, ""), asked)
            self.assertTrue(r.stdout.startswith("Usage: " + of + "["), r.stdout)

    def test_unknown_variables_are_reported(self):
        r = self.sennit("info", SENNIT_EAGRE="4k")
        self.assertEqual(r.returncode, 1)
        self.assertIn("SENNIT_EAGRE", r.stderr)

    def test_a_value_out_of_range_is_reported_and_not_taken(self):
        r = self.sennit("info", SENNIT_EAGER="1")
        self.assertRegex(r.stderr, "(?i)eager")
        self.assertRegex(r.stdout, r"(?m)^  eager +\d+ bytes +default")

    def test_what_was_measured_is_shown_with_its_origin(self):
        self.assertIn("not measured yet", self.sennit("tune", "--show").stdout)
        r = self.sennit("tune")
        if r.returncode and re.search("other programs|cores moved|two cores|bound to cores", r.stderr):
            self.skipTest(r.stderr)
        self.assertEqual(r.returncode, 0, r.stderr)
        chunk = re.search(r"(?m)^  chunk +(\d+)", r.stdout).group(1)
        self.assertRegex(self.sennit("info").stdout, rf"(?m)^  chunk +{chunk} bytes +measured \(here, cores (near|far)")
        self.assertRegex(self.sennit("info", SENNIT_CHUNK="2k").stdout, r"(?m)^  chunk +2048 bytes +environment")
        self.assertRegex(self.sennit("info", SENNIT_TUNE="no").stdout, r"(?m)^  chunk +\d+ bytes +default")
        self.assertRegex(self.sennit("tune", "--show").stdout, r"(?m)^  1 MiB|^ +1 MiB .*\|")

    def test_help_and_manual_list_the_same_settings(self):
        names = re.findall(r"(?m)^  ([a-z_]+) ", self.sennit("info", "--settings").stdout)
        manual = self.sennit("info", "--man").stdout
        self.assertEqual(names, re.findall(r"(?m)^\.BR ([a-z_]+) ", manual))
        for name in names:
            self.assertIn("SENNIT_" + name.upper(), manual)

    def test_the_manual_page_has_every_command_with_every_option(self):
        with open(os.path.join(SOURCE, "docs", "man", "sennit.1.in"), encoding="utf-8") as f:
            page = f.read().replace("\\-", "-")
        commands = re.findall(r"(?m)^  (?:sennit )?([a-z]+) ", self.sennit("help").stdout)
        self.assertIn("run", commands)
        for command in commands:
            part = re.search(rf"(?ms)^\.SS sennit {command}$(.*?)(?=^\.S[SH]|\Z)", page)
            self.assertTrue(part, command)
            for short, name in re.findall(r"(?m)^ +(?:(-[A-Za-z]), )?(--[a-z-]+)", self.sennit(command, "--help").stdout):
                if name not in ("--help", "--usage", "--version"):
                    self.assertRegex(part.group(1), re.escape(name) + r"(?![a-z-])", command)
                    self.assertRegex(part.group(1), r"[ (]" + re.escape(short) + r"(?![A-Za-z-])", command)

    def test_the_tuning_page_has_every_setting_with_its_default(self):
        shown = self.sennit("info", "--settings", SENNIT_TUNE="no").stdout
        table = dict(re.findall(r"(?m)^  ([a-z_]+) +(\S.*?) +(?:default|environment)\b", shown))
        table.update(tune="yes", fault="")
        with open(os.path.join(SOURCE, "docs", "tuning.md"), encoding="utf-8") as f:
            page = re.findall(r"(?m)^\| `([a-z_]+)` \|([^|]*)\| *\S", f.read())
        self.assertEqual({name: re.sub(", .measured.*", "", default).strip() for name, default in page}, table)

    def test_peers_of_a_running_pair_are_shown(self):
        perf = subprocess.Popen([SENNIT, "perf", "--size=8", "--iterations=100000000"], env=self.env,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        shown = (r"(?m)^process %d \(" % perf.pid, r"(?m)^  endpoint [0-9a-f]{16}$", r"(?m)^  peer 0 \(pid \d+\)$",
                 r"(?m)^    reading its memory +(allowed|refused: .*)$",
                 r"(?m)^    cores +[12] process(es)? for \d+ cores?: who waits (spins|yields) for \d+ us, then sleeps$")
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                r = self.sennit("info", "--peer", str(perf.pid))
                if all(re.search(row, r.stdout) for row in shown):  # they come one after the other
                    break
            self.assertEqual(r.returncode, 0, r.stderr)
            for row in shown:
                self.assertRegex(r.stdout, row)
            self.assertIn("process %d " % perf.pid, self.sennit("info", "--peer").stdout)
        finally:
            os.killpg(perf.pid, signal.SIGKILL)
            perf.wait()
        self.assertEqual(self.sennit("info", "--peer", str(perf.pid)).returncode, 1)

    def test_wrong_arguments(self):
        for args in (("info", "more"), ("doctor", "--more"), ("doctor", ""), ("perf", "more"), ("info", "--nonsense"), ("nonsense",), ()):
            r = self.sennit(*args)
            self.assertEqual(r.returncode, 2, args)
            self.assertTrue(r.stderr)


class TopTest(ToolTest):
    def test_one_look_says_what_there_is(self):
        r = self.sennit("top", "-n", "1")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"(?m)^kernel module: ")
        self.assertEqual(len(re.findall("(?m)^kernel module: ", r.stdout)), 1)

    def test_it_looks_as_often_as_it_is_told(self):
        r = self.sennit("top", "-n", "3", "-d", "0.05")
        self.assertEqual(len(re.findall("(?m)^kernel module: ", r.stdout)), 3)
        if os.path.exists("/dev/sennit"):
            self.assertRegex(r.stdout, r"(?m)^ +pinned_now +\d+|^ +copies +\d+")

    def test_wrong_arguments(self):
        for args in (("-n", "0"), ("-n", "x"), ("-d", "0"), ("-d", "nan"), ("1", "2"), ("x",)):
            r = self.sennit("top", *args)
            self.assertEqual(r.returncode, 2, args)
            self.assertTrue(r.stderr)

    def test_a_process_that_is_not_there_is_named(self):
        r = self.sennit("top", "-n", "1", "4194304")
        self.assertEqual(r.returncode, 1)
        self.assertIn("4194304", r.stderr)


def refuse_single_copy():
    """In a child before exec: a seccomp filter under which process_vm_readv and _writev fail with EPERM."""
    first = {"x86_64": 310, "aarch64": 270}[platform.machine()]
    program = b"".join(struct.pack("HBBI", *op) for op in (
        (0x20, 0, 0, 0),             # load the number of the system call
        (0x15, 1, 0, first),         # readv: go to the refusal
        (0x15, 0, 1, first + 1),     # writev: likewise; anything else: skip it
        (0x06, 0, 0, 0x00050001),    # refuse with EPERM
        (0x06, 0, 0, 0x7fff0000)))   # allow
    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = struct.pack("HL", len(program) // 8, ctypes.addressof(kept := ctypes.create_string_buffer(program)))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filter_, 0, 0) != 0:  # no new privileges; seccomp filter
        raise OSError(ctypes.get_errno(), "seccomp")
    del kept


class DoctorTest(ToolTest):
    def doctor(self, before):
        return subprocess.run([SENNIT, "doctor"], env=self.env, capture_output=True, text=True, timeout=120, check=False,
                              preexec_fn=before)

    def test_every_path_has_a_line(self):
        r = self.sennit("doctor")
        for what in ("process_vm_readv", "process_vm_writev", "kernel module", "memfd", "abstract sockets", "membarrier", "pidfd",
                     "sennit itself", "descriptors", "huge pages", "shared memory", "processors", "namespaces", "network", "raw Ethernet", "provider"):
            self.assertRegex(r.stdout, r"(?m)^(ok|limited|MISSING) +" + what)
        missing = len(re.findall("(?m)^MISSING", r.stdout))
        self.assertEqual(r.returncode, 1 if missing else 0)
        self.assertRegex(r.stdout, r"\d+ ok, \d+ limited, %d missing" % missing)
        self.assertRegex(r.stdout, r"(?m)^ok +sennit itself .* copied (once|twice), ")

    def test_it_says_which_way_the_bytes_went(self):
        for copy, said in (("read", "once, by the receiver"), ("write", "once, by the sender"),
                           ("shared", "once, by (both sides|the receiver)"), ("stream", "twice, through shared memory")):
            self.assertRegex(self.sennit("doctor", SENNIT_COPY=copy).stdout,
                             rf"(?m)^ok +sennit itself .* copied {said}", copy)

    def test_a_descriptor_limit_is_seen(self):
        r = self.doctor(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))
        self.assertRegex(r.stdout, r"(?m)^limited +descriptors +128 ")
        self.assertIn("ulimit", r.stdout)

    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "the filter is written for two machines")
    def test_a_refused_single_copy_is_seen_and_survived(self):
        r = self.doctor(refuse_single_copy)
        self.assertRegex(r.stdout, r"(?m)^limited +process_vm_readv +refused \(Operation not permitted\)")
        self.assertRegex(r.stdout, r"(?m)^limited +process_vm_writev +refused")
        self.assertRegex(r.stdout, r"(?m)^ok +sennit itself .* twice, through shared memory$")


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: BSD-3-Clause
"""`sennit info` and `sennit doctor`: they tell the truth about settings and about what is refused."""
import re
import unittest

from common import ToolTest


class InfoTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.env["HOME"] = self.dir  # no settings of whoever runs the test

    def test_every_setting_with_value_and_origin(self):
        r = self.sennit("info", SENNIT_EAGER="4k")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"(?m)^sennit +\d+\.\d+\.\d+$")
        self.assertRegex(r.stdout, r"(?m)^rails +local ")
        self.assertRegex(r.stdout, r"(?m)^  eager +4096 bytes +environment")
        self.assertRegex(r.stdout, r"(?m)^  copy +auto +default")

    def test_a_settings_file_is_named(self):
        import os
        os.mkdir(self.dir + "/.config")
        with open(self.dir + "/.config/sennit.conf", "w", encoding="utf-8") as f:
            f.write("# mine\nspin = 7\n")
        r = self.sennit("info")
        self.assertRegex(r.stdout, r"(?m)^  spin +7 us +.*sennit\.conf")

    def test_unknown_variables_are_reported(self):
        r = self.sennit("info", SENNIT_EAGRE="4k")
        self.assertEqual(r.returncode, 1)
        self.assertIn("SENNIT_EAGRE", r.stderr)

    def test_a_value_out_of_range_is_reported_and_not_taken(self):
        r = self.sennit("info", SENNIT_EAGER="1")
        self.assertRegex(r.stderr, "(?i)eager")
        self.assertRegex(r.stdout, r"(?m)^  eager +\d+ bytes +default")

    def test_help_and_manual_list_the_same_settings(self):
        names = re.findall(r"(?m)^  ([a-z_]+) ", self.sennit("info", "--settings").stdout)
        manual = self.sennit("info", "--man").stdout
        self.assertEqual(names, re.findall(r"(?m)^\.BR ([a-z_]+) ", manual))
        for name in names:
            self.assertIn("SENNIT_" + name.upper(), manual)

    def test_wrong_arguments(self):
        for args in (("info", "more"), ("doctor", "more"), ("perf", "more"), ("info", "--nonsense"), ("nonsense",), ()):
            r = self.sennit(*args)
            self.assertEqual(r.returncode, 2, args)
            self.assertTrue(r.stderr)


class DoctorTest(ToolTest):
    def test_every_path_has_a_line(self):
        r = self.sennit("doctor")
        for what in ("process_vm_readv", "process_vm_writev", "memfd", "abstract sockets", "membarrier", "pidfd",
                     "sennit itself", "descriptors", "huge pages", "processors", "namespaces", "provider"):
            self.assertRegex(r.stdout, r"(?m)^(ok|limited|MISSING) +" + what)
        missing = len(re.findall("(?m)^MISSING", r.stdout))
        self.assertEqual(r.returncode, 1 if missing else 0)
        self.assertRegex(r.stdout, r"\d+ ok, \d+ limited, %d missing" % missing)
        self.assertRegex(r.stdout, r"(?m)^ok +sennit itself")

    def test_a_descriptor_limit_is_seen(self):
        import resource
        import subprocess
        from common import SENNIT
        r = subprocess.run([SENNIT, "doctor"], env=self.env, capture_output=True, text=True, timeout=120, check=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))
        self.assertRegex(r.stdout, r"(?m)^limited +descriptors +128 ")
        self.assertIn("ulimit", r.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

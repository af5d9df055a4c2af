# SPDX-License-Identifier: BSD-3-Clause
"""tests/skips.py: whoever reads the end of `make check` learns why each test that was skipped was."""
import os
import subprocess
import sys
import unittest

from common import SOURCE, ToolTest

LISTED = """add_test({0} sh {0})
set_tests_properties({0} PROPERTIES SKIP_RETURN_CODE 77)
"""


class SkipsTest(ToolTest):
    def told(self, **tests):
        """The exit status and the list, after ctest ran these scripts."""
        for name, text in tests.items():
            self.script(name, text)
        with open(self.dir + "/CTestTestfile.cmake", "w", encoding="utf-8") as f:
            f.writelines(LISTED.format(name) for name in tests)
        subprocess.run(["ctest", "--output-junit", "results.xml", "--test-output-size-passed", "100000"], cwd=self.dir,
                       capture_output=True, timeout=60, check=False)
        r = subprocess.run([sys.executable, os.path.join(SOURCE, "tests", "skips.py"), self.dir + "/results.xml"],
                           capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(r.stderr, "")
        return r.returncode, r.stdout

    def test_nothing_skipped_nothing_said(self):
        self.assertEqual(self.told(good="echo skipped: not me", bad="exit 1"), (0, ""))

    def test_the_reason_is_the_last_thing_a_test_said(self):
        status, said = self.told(shell="echo begins; echo 'skipped: no ssh here'; exit 77", upper="echo 'SKIP: no qemu'; exit 77",
                                 plain="echo spin is not installed; exit 77", error="echo no room >&2; exit 77")
        self.assertEqual(status, 0)
        self.assertIn("(4):\n", said)
        for line in ("shell: no ssh here", "upper: no qemu", "plain: spin is not installed", "error: no room"):
            self.assertIn(f"\n  {line}\n", said)

    def test_a_case_of_a_test_that_passed_is_named(self):
        long = "yes '0123456789' | head -n 2000\n"  # ctest would keep the beginning only
        cases = "echo '[ RUN      ] {0}'\necho {1}\necho '[  SKIPPED ] {0}'\n"
        status, said = self.told(
            cmocka=long + cases.format("moves", "one core only") + "echo '[ RUN      ] stays'\necho '[==========] 2 test(s) run.'\n"
            "echo '[  SKIPPED ] 1 test(s), listed below:'\necho '[  SKIPPED ] moves'",
            python="echo \"test_two (__main__.A.test_two) ... skipped 'gcc is missing'\" >&2")
        self.assertEqual((status, said.splitlines()[1:]),
                         (0, ["Skipped, and why (2):", "  cmocka: moves: one core only",
                              "  python: test_two: gcc is missing"]))

    def test_one_that_does_not_say_why_is_a_mistake(self):
        for text in ("exit 77", "echo '[ RUN      ] moves'; echo '[  SKIPPED ] moves'"):
            status, said = self.told(silent=text)
            self.assertEqual(status, 1)
            self.assertIn("IT DOES NOT SAY WHY", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)

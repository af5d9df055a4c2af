# SPDX-License-Identifier: BSD-3-Clause
"""Nothing of a job that a benchmark has started outlives it, though its ranks are deaf to SIGTERM and in sessions of their own: not
when it is late, nor when the driver is told to end."""
import os
import signal
import subprocess
import sys
import time
import unittest

from common import SENNIT, SOURCE, ToolTest

BENCH = os.path.join(SOURCE, "bench")
sys.path[:0] = [BENCH, os.path.join(SOURCE, "tests", "mpi")]
import job  # noqa: E402
import launch  # noqa: E402

RANK = """trap '' TERM INT HUP
echo "$%s" >%%s/mark.part.$$
mv %%s/mark.part.$$ %%s/mark.$$
while :; do sleep 0.2; done""" % job.MARK

# A driver as it is, but with an MPI whose launcher is the script and whose compiler does nothing.
DRIVER = """import sys
sys.path.insert(0, %r)
import bench, launch, %s as driver
launch.GRACE = 1
bench.launcher, bench.compiler = (lambda mpi: %r), (lambda mpi: "/bin/true")
bench.ROOT = driver.ROOT = %r
sys.argv = [%r, "--build", %r, "--only", "MPICH 4", "--rounds", "1", *%r]
driver.main()
"""
CASES = (("progress", signal.SIGTERM, ["--cells", "lat"]), ("progress", signal.SIGINT, ["--cells", "lat"]),
         ("bench", signal.SIGTERM, ["--rows", "lat", "--ranks", "2"]), ("crowd", signal.SIGTERM, ["--ranks", "2"]))


def until(what, seconds=30):
    """What it returns once that is true, or at the end of the time."""
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


class LaunchTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: [job.end_all(mark) for mark in self.seen])
        self.seen = set()
        self.addCleanup(setattr, launch, "GRACE", launch.GRACE)
        launch.GRACE = 1
        rank = self.script("rank", RANK % (self.dir, self.dir, self.dir))
        self.launcher = self.script("launcher", f"setsid {rank} & {rank} & trap '' TERM; wait; sleep 1000")
        os.makedirs(os.path.join(self.dir, "bin"))
        os.symlink(SENNIT, os.path.join(self.dir, "bin", "sennit"))
        for name in ("bench_hops", "bench_where"):
            self.script("bin/" + name, "echo hop 1 1")

    def marks(self):
        """Those of the ranks that have begun."""
        found = []
        for name in os.listdir(self.dir):
            if name.startswith("mark.") and "part" not in name:
                with open(os.path.join(self.dir, name), encoding="utf-8") as f:
                    found.append(f.read().strip())
        self.seen.update(found)
        return found

    def nothing_left(self, marks):
        self.assertEqual(len(set(marks)), 1)
        self.assertNotIn("", marks)
        self.assertEqual(job.marked_processes(marks[0]), {})

    def test_a_driver_that_is_told_to_end_takes_its_job_along(self):
        for module, number, words in CASES:
            for name in [n for n in os.listdir(self.dir) if n.startswith("mark.")]:
                os.unlink(os.path.join(self.dir, name))
            with self.subTest(driver=module, by=number):
                text = DRIVER % (BENCH, module, self.launcher, self.dir, module, self.dir, words)
                with subprocess.Popen([sys.executable, "-c", text], env=self.env, cwd=self.dir, text=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as driver:
                    begun = until(lambda driver=driver: len(self.marks()) == 2 or driver.poll() is not None)
                    marks = self.marks()
                    alive = [len(job.marked_processes(mark)) for mark in set(marks)]
                    driver.send_signal(number)
                    said = driver.communicate(timeout=60)[0]
                self.assertTrue(begun and alive and alive[0] >= 3, said)
                self.assertEqual(driver.returncode, 128 + number, said)
                self.nothing_left(marks)

    def test_a_job_that_is_late_is_ended_with_all_that_it_has_started(self):
        ended = launch.run([self.launcher], self.env, self.dir, limit=2)
        self.assertTrue(ended.late)
        self.assertEqual(ended.status, -signal.SIGKILL)
        self.nothing_left(self.marks())

    def test_a_launcher_may_end_its_ranks_itself_and_what_was_printed_counts(self):
        tidy = self.script("tidy", f"trap 'touch {self.dir}/tidied; exit 3' TERM; echo first; while :; do sleep 0.1; done")
        ended = launch.run([tidy], self.env, self.dir, limit=1)
        self.assertEqual((ended.text, ended.status, ended.late), ("first\n", 3, True))
        self.assertTrue(os.path.exists(self.dir + "/tidied"))

    def test_what_a_job_leaves_that_ends_well_is_ended_too(self):
        ended = launch.run([self.script("leaves", f"setsid {self.dir}/rank >/dev/null & sleep 0.5; echo done")], self.env, self.dir, limit=30)
        self.assertEqual((ended.text, ended.status, ended.late), ("done\n", 0, False))
        self.nothing_left(self.marks())


if __name__ == "__main__":
    unittest.main(verbosity=2)

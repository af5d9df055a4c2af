# SPDX-License-Identifier: BSD-3-Clause
"""`sennit perf`: what it prints has the promised shape, and damage and death are reported."""
import json
import resource
import subprocess
import unittest

from common import SENNIT, ToolTest


class PerfTest(ToolTest):
    def perf(self, *args, **env):
        r = self.sennit("perf", *args, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_json(self):
        out = json.loads(self.perf("--json", "-M", "256k", "-i", "50", "-W", "8"))
        sizes = [r["bytes"] for r in out["results"]]
        self.assertEqual(sizes, [0] + [1 << n for n in range(19)])
        for r in out["results"]:
            lat = r["latency_us"]
            self.assertTrue(0 < lat["p50"] <= lat["p90"] <= lat["p99"], r)
            if r["bytes"]:
                rate = r["mbytes_per_s"]
                self.assertTrue(rate["p50"] >= rate["p90"] >= rate["p99"] > 0, r)
                self.assertGreaterEqual(r["checked_bytes"], r["bytes"])

    def test_table(self):
        lines = self.perf("-m", "3", "-M", "100", "-i", "20").splitlines()
        self.assertEqual([line.split()[0] for line in lines[2:]], ["3", "4", "8", "16", "32", "64", "100"])

    def test_each_way_of_copying(self):
        for copy in ("auto", "read", "write", "stream"):
            self.perf("-s", "1000003", "-i", "5", "-W", "4", SENNIT_COPY=copy)

    def test_one_size_only_latency_or_bandwidth(self):
        r = json.loads(self.perf("-j", "-s", "4k", "-i", "20", "-l"))["results"][0]
        self.assertNotIn("mbytes_per_s", r)
        r = json.loads(self.perf("-j", "-s", "4k", "-i", "20", "-b"))["results"][0]
        self.assertNotIn("latency_us", r)

    def test_wrong_arguments(self):
        for args in (("-m", "x"), ("-m", "2", "-M", "1"), ("-l", "-b"), ("-i", "0"), ("-s", "-1"), ("-M", "1t"),
                     ("-M", "99999999999g")):
            self.assertEqual(self.sennit("perf", *args).returncode, 2, args)

    def test_hardly_any_descriptors(self):
        """It works, or says what is missing; it never hangs or crashes."""
        ends = set()
        running = {limit: subprocess.Popen([SENNIT, "perf", "-s", "300k", "-i", "3", "-W", "2"], env=self.env, text=True,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                           preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
                   for limit in range(4, 24)}
        for process in running.values():
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        for limit, process in running.items():
            said = process.communicate(timeout=60)[1]
            ends.add(process.returncode)
            self.assertIn(process.returncode, (0, 1), f"{limit} descriptors: {said}")
            if process.returncode:
                self.assertRegex(said, "(?i)too many open files", f"{limit} descriptors")
        self.assertEqual(ends, {0, 1})

    def test_a_limit_on_the_size_of_files_is_named(self):
        """It counts for shared memory, and the kernel kills who goes beyond it."""
        for command in ("perf", "-s", "8", "-i", "3"), ("doctor",):
            r = subprocess.run([SENNIT, *command], env=self.env, capture_output=True, text=True, timeout=60, check=False,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18)))
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn("ulimit -f", r.stdout + r.stderr)
        # the side that fails says why, and the other one does not wait for it until both are given up
        self.assertRegex(r.stdout, r"sennit itself +a message between two processes fails: .*ulimit -f")

    def test_the_other_process_dies(self):
        p = subprocess.Popen([SENNIT, "perf", "-s", "8", "-i", "100000000", "-l"], env=self.env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            child = None
            while not child:  # its only child is the second process
                with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="utf-8") as f:
                    child = f.read().split()
            subprocess.run(["sleep", "1"], check=True)
            subprocess.run(["kill", "-9", child[0]], check=True)
            _, err = p.communicate(timeout=60)
        finally:
            p.kill()
        self.assertEqual(p.returncode, 1)
        self.assertIn("gone", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)

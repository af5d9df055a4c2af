# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark's judgement: what it counts as near, far and moved, who leads a row, and that its C API part runs."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.environ["SOURCE"], "bench"))
import bench  # noqa: E402
import net  # noqa: E402
import net_page  # noqa: E402
import progress  # noqa: E402
import report  # noqa: E402


def row(name, samples, regime="near"):
    return report.Row(name, regime, {who: [[v, regime] for v in values] for who, values in samples.items()})


class RegimeTest(unittest.TestCase):
    def test_near_ends_at_the_widest_gap(self):
        for probes, least, most in (([25, 30, 55, 120, 140], 60, 115), ([29, 60, 66, 73, 90, 235, 260], 100, 200),
                                    ([60, 63, 66], 90, 90), ([200, 240], 90, 90), ([30, 240], 80, 90), ([], 90, 90)):
            self.assertTrue(least <= bench.boundary(probes) <= most, probes)

    def test_what_was_one_core_is_left_out(self):
        probes = [26, 27, 31, 58, 61, 75, 100, 130, 240, 260]
        self.assertTrue(31 < bench.beginning(probes) < 58 and 75 < bench.boundary(probes) < 240)
        self.assertEqual(bench.beginning([25, 28, 30, 55, 120, 130]), 0)  # one that was disturbed
        samples = {"lat:8": {"A": [[1, p] for p in probes] + [[2, "near"]], "B": [[1, 26]]}}
        self.assertEqual(bench.regimes(samples), 4)
        self.assertNotIn("B", samples["lat:8"])
        self.assertEqual(len(samples["lat:8"]["A"]), len(probes) - 2)

    def test_what_an_earlier_run_has_named_stays(self):
        samples = {"lat:8": {"MPICH 5": [[1, 66.0], [2, "far"], [3, 235.0], [4, "any"]]}}
        bench.regimes(samples)
        self.assertEqual([where for _, where in samples["lat:8"]["MPICH 5"]], ["near", "far", "far", "any"])

    def test_a_figure_during_which_the_cores_moved_is_dropped(self):
        b = bench.Bench.__new__(bench.Bench)
        b.samples, b.dropped = {}, 0
        b.take("lat:8 0.3 25 30 0\nlat:8 0.3 25 120 0\nlat:8 0.3 30 30 80\n", "MPICH 5", 2)
        b.take("bcast:8 3 0 0 900\n", "MPICH 5", 4)
        self.assertEqual((b.dropped, len(b.samples["lat:8"]["MPICH 5"]), b.samples["bcast:8@4"]["MPICH 5"]), (2, 1, [[3.0, "any"]]))


class VerdictTest(unittest.TestCase):
    def test_less_is_better_for_latency(self):
        r = row("lat:8", {"sennit, Open MPI 4": [0.2], "Intel MPI": [0.3], "MPICH 4": [0.1]})
        self.assertEqual((r.ours, r.peer, r.verdict()), ("sennit, Open MPI 4", "MPICH 4", "BEHIND"))
        self.assertAlmostEqual(r.ratio, 0.5)

    def test_more_is_better_for_rates_and_the_best_of_ours_counts(self):
        r = row("rate:8", {"sennit, Open MPI 4": [5], "sennit, Intel MPI": [9, 11], "MPICH 4": [8, 8, 80]})
        self.assertEqual((r.ours, r.verdict()), ("sennit, Intel MPI", "leads"))
        self.assertAlmostEqual(r.ratio, 10 / 8)

    def test_noise_is_level(self):
        self.assertEqual(row("bw:65536", {"sennit, MPICH 5": [98], "MPICH 5": [100]}).verdict(), "level")

    def test_other_regimes_do_not_count(self):
        r = report.Row("lat:8", "far", {"sennit, MPICH 5": [[1, "far"]], "MPICH 5": [[0.1, "near"], [2, "far"]]})
        self.assertEqual((r.median["MPICH 5"], r.verdict()), (2, "leads"))

    def test_hidden_share_needs_95_percent(self):
        self.assertEqual(row("hiderecv:1048576", {"sennit, MPICH 5": [0.9], "MPICH 5": [0.1]}).verdict(), "BEHIND")
        self.assertEqual(row("hiderecv:1048576", {"sennit, MPICH 5": [0.97], "MPICH 5": [0.1]}).verdict(), "leads")
        self.assertEqual(row("hidesend:1048576", {"sennit, MPICH 5": [0.97], "MPICH 5": [0.98]}).verdict(), "level")


class PageTest(unittest.TestCase):
    def test_table_and_page_hold_every_row(self):
        data = {"machine": {"processor": "P", "cpus": "2", "kernel": "6", "thp": "never", "date": "d", "commit": "c"},
                "notes": ["one thing"],
                "samples": {"lat:8": {"sennit, MPICH 5": [[1, "far"]], "MPICH 5": [[2, "far"]]},
                            "bcast:8@4": {"sennit, MPICH 5": [[3, "any"]], "MPICH 5": [[30, "any"]]}}}
        with tempfile.TemporaryDirectory(prefix="sennit-test-") as out:
            source, page = os.path.join(out, "b.json"), os.path.join(out, "page.md")
            with open(source, "w", encoding="utf-8") as f:
                json.dump(data, f)
            report.write(source, out, page)
            with open(page, encoding="utf-8") as f:
                text = f.read()
            report.write(source, out, page, "Elsewhere")
            with open(page, encoding="utf-8") as f:
                self.assertEqual(f.read().split("\n## Elsewhere\n")[0], text)
            with open(page, encoding="utf-8") as f:
                elsewhere = f.read().split("\n## Elsewhere\n")[1]
        self.assertTrue(text.startswith("# Performance\n"))
        self.assertNotIn("\n# ", elsewhere)
        for words in ("latency, 8 B", "bcast, 8 B, 4 ranks", "2.00", "10.00", "one thing"):
            self.assertIn(words, text)
            self.assertIn(words, elsewhere)

    def test_each_program_replaces_its_part_and_keeps_the_others(self):
        with tempfile.TemporaryDirectory(prefix="sennit-test-") as out:
            page = os.path.join(out, "page.md")
            for title, words in (("Progress", "one"), (None, "# Top"), ("Between hosts", "two"), ("Several rails", "three"),
                                 ("Between hosts", "four"), (None, "# Other top"), ("Progress", "five"), ("Several rails", "six")):
                report.put_part(page, title, [words, ""])
            with open(page, encoding="utf-8") as f:
                text = f.read()
        self.assertEqual(text, "# Other top\n\n## Progress\n\nfive\n\n## Between hosts\n\nfour\n\n## Several rails\n\nsix\n")


class NetTest(unittest.TestCase):
    @staticmethod
    def rows(what, figure, size, up=False, cores="near", **median):
        return [{"what": what, "cores": cores, "figure": figure, "bytes": size, "up": up, "candidate": who.replace("_", " "), "median": value,
                 "runs": [value]} for who, value in median.items()]

    def line(self, rows, begin):
        return next(text for text in net_page.section(rows) if text.startswith("| " + begin))

    def test_what_was_promised_is_judged_for_each_driver(self):
        rows = self.rows("ping-pong, MTU 1500", "one way, us", 8, tcp=8, mpich=6, sennit_udp=4, sennit_ether=3.1)
        self.assertIn("| 6 | mpich | 1.50 | 1.94 | met / MISSED |", self.line(rows, "ping-pong, MTU 1500, 8 B"))
        rows = self.rows("stream, MTU 1500", "MB/s", 65536, True, tcp=1000, sennit_udp=900, sennit_ether=500)
        self.assertIn("| 0.90 | 0.50 | BEHIND, MISSED / BEHIND |", self.line(rows, "stream, MTU 1500, 64 KiB"))
        rows = self.rows("stream, MTU 9000", "MB/s", 65536, True, tcp=1000, sennit_udp=980, sennit_ether=500)
        self.assertIn("| level / BEHIND, MISSED |", self.line(rows, "stream, MTU 9000, 64 KiB"))
        rows += self.rows("stream, MTU 9000", "MB/s", 65536, True, sennit_udp_m5=1200)
        self.assertIn("| 1200 over MPICH 5 | 500.0 over Open MPI 4 |", self.line(rows, "stream, MTU 9000, 64 KiB"))
        self.assertIn("| leads / - |", self.line(self.rows("8 hosts to one, MTU 1500", "99th", 8, tcp=9, sennit_udp=2), "8 hosts"))

    def test_loss_is_held_against_the_same_wire_and_the_bare_calls_against_sennit(self):
        rows = self.rows("ping-pong, 0 % lost", net_page.MEAN, 8, tcp=30, sennit_udp=40)
        rows += self.rows("ping-pong, 1 % lost", net_page.MEAN, 8, tcp=600, sennit_udp=70)
        text = net_page.section(rows)
        self.assertIn("| 1 % lost | near | 8 B | sennit udp | 40 | 70 | 1.75 | no collapse |", text)
        self.assertIn("| 1 % lost | near | 8 B | tcp | 30 | 600.0 | 20.00 | COLLAPSES |", text)
        rows.append({"what": "ping-pong, 1 % lost", "cores": "", "figure": net_page.MEAN, "bytes": 65536, "candidate": "tcp", "runs": [], "late": 20})
        self.assertIn("| 1 % lost |  | 64 KiB | tcp |  | not done in 20 s |  | COLLAPSES |", net_page.section(rows))
        rows = self.rows("bare, MTU 1500", "one way, us", 8, udp=5) + self.rows("ping-pong, MTU 1500", "one way, us", 8, sennit_udp=5.4)
        self.assertIn("| ping-pong, MTU 1500 | near | 8 B | UDP | one way, us | 5 | 5.4 | 1.08 | within 1.1 |", net_page.section(rows))
        rows += self.rows("ping-pong, MTU 1500", "one way, us", 8, cores="far", sennit_udp=4.9)  # near's limit is not far's
        self.assertIn("| ping-pong, MTU 1500 | near | 8 B | UDP | one way, us | 5 | 5.4 | 1.08 | within 1.1 |", net_page.section(rows))
        rows = self.rows("bare, stream, MTU 1500", "MB/s", 65536, up=True, udp=3000, ether=900, xdp=450)
        rows += self.rows("stream, MTU 1500", "MB/s", 65536, up=True, sennit_udp=2400)
        page = net_page.section(rows)
        self.assertIn("| stream, MTU 1500 | near | 64 KiB | UDP | MB/s | 3000 | 2400 | 1.25 | beyond 1.1 |", page)
        self.assertIn("| stream, MTU 1500 | near | 64 KiB | MB/s | 450.0 | 900.0 | 0.50 |", page)

    def run_again(self, data, *args):
        """net.main for a file with this content: what it ends with, and the page."""
        with tempfile.TemporaryDirectory(prefix="sennit-test-") as out:
            source, page = os.path.join(out, "net.json"), os.path.join(out, "page.md")
            if data is not None:
                with open(source, "w", encoding="utf-8") as f:
                    json.dump(data, f)
            with unittest.mock.patch("bench.machine", return_value={}), unittest.mock.patch("os.geteuid", return_value=0), \
                 unittest.mock.patch("net.run") as run:
                try:
                    ended = net.main(["--json", source, "--doc", page, *args])
                except SystemExit as e:
                    ended = e.code
            self.assertFalse(run.called)
            if not os.path.exists(page):
                return ended, ""
            with open(page, encoding="utf-8") as f:
                return ended, f.read()

    def test_a_file_of_an_older_version_is_shown_but_not_added_to(self):
        machine = {"processor": "P", "cpus": "2", "kernel": "6", "thp": "never", "date": "d", "commit": "c"}
        old = self.rows("ping-pong, MTU 1500", "one way, us", 8, tcp=8, sennit_udp=4)
        for row_of in old:
            del row_of["cores"]
        data = {"machine": machine, "rows": old, "notes": []}
        ended, page = self.run_again(data, "--report")
        self.assertEqual(ended, 0)
        self.assertIn("| ping-pong, MTU 1500, 8 B | any | one way, us | 4 over Open MPI 4 |", page)
        self.assertIn("`any`: they were not told apart.", page)
        self.assertRegex(self.run_again(data, "--append")[0], "older version.* near and far .*Run without --append")
        for other in ({"machine": machine, "samples": {}, "notes": []}, [], None):
            self.assertRegex(self.run_again(other, "--append")[0], r"net\.json.*\. Run without --append")


class ProgressTest(unittest.TestCase):
    SAMPLES = {"lat/lat:8@2": {"sennit, Open MPI 4": [1.2, 1.1, 1.0], "sennit, Open MPI 4, no thread": [1.0], "MPICH 5": [2], "MPICH 5, async": [30]},
               "overlap/hiderecv:1048576@2": {"sennit, MPICH 5": [0.97], "MPICH 5": [0.1]},
               "udp/total:65536@2": {"sennit udp": [1.01], "sennit udp, no thread": [1.0]}}
    PAIRS = {"lat/lat:8@2": {"sennit, Open MPI 4": [[1.1, 1.0]] * 7, "sennit, Open MPI 5": [[3.0, 1.0]]},
             "udp/total:65536@2": {"sennit udp": [[1.01, 1.0]] * 7}}

    def test_what_the_thread_costs_is_judged(self):
        total = "work and an exchange, over the work alone, 64 KiB, between hosts, UDP"
        self.assertEqual(progress.costs(self.PAIRS),
                         ["latency, 8 B, one node, sennit, Open MPI 4: 1.100 (1.100 to 1.100, more than allowed)",
                          "latency, 8 B, one node, sennit, Open MPI 5: 3.000 (3.000 to 3.000, too few to tell (1))",
                          total + ", sennit udp: 1.010 (1.010 to 1.010)"])

    def test_what_waiting_costs_is_judged_and_stated(self):
        ours, other = "sennit, MPICH 5", "MPICH 5"
        samples = {"idle/idle:0@2": {ours: [0.3], other: [99]}, "idle/wake:8@2": {ours: [30, 40, 90], ours + progress.NO_THREAD: [30], other: [1]},
                   "udp/idle:0@2": {"sennit udp": [1.5]}, "udp/wake:8@2": {"sennit udp": [120], progress.BARE: [80]},
                   "ether/idle:0@2": {"sennit ether": [0.5]}, "ether/wake:8@2": {"sennit ether": [100]}}
        latency = {"lat/lat:8@2": {ours: [0.5]}, "udp/lat:8@2": {"sennit udp": [6.0], progress.BARE: [3.0]}}
        self.assertEqual(progress.waiting(samples, {**samples, **latency}),
                         ["one node, sennit, MPICH 5: 0.30 % of a core (met), awake 39 us later than who looks (met)",
                          "between hosts, UDP, sennit udp: 1.50 % of a core (MISSED), awake 108 us later than who looks, "
                          "a thread in poll() on a bare socket 74 (MISSED)",
                          "between hosts, Ethernet, sennit ether: 0.50 % of a core (met), awake: the bare calls were not measured"])
        latency["udp/lat:8@2"]["sennit udp"] = [9.0]  # 102 later, and 104 are allowed
        self.assertIn("awake 102 us later than who looks, a thread in poll() on a bare socket 74 (met)",
                      progress.waiting(samples, {**samples, **latency})[1])
        self.assertNotIn(progress.BARE, "\n".join(line for line in progress.section(samples, {}) if line.startswith("|")))
        self.assertIn("- one node, sennit, MPICH 5: 0.30 % of a core (met)", progress.section(samples, {}))

    def test_the_suites_time_is_held_against_that_of_two_ranks(self):
        ours, other = "sennit, Open MPI 4", "Open MPI 4"
        samples = {"suite/suite:0@2": {ours: [20], other: [20]}, "suite/suite:0@8": {ours: [100], other: [400]}}
        with unittest.mock.patch("os.cpu_count", return_value=2):
            text = "\n".join(progress.section(samples, {}))
        self.assertIn("- mpi4py's test suite, 8 ranks: sennit over Open MPI 4 1.25 (near), Open MPI 4 5.00", text)
        self.assertIn("| mpi4py's test suite, 8 ranks | s | 100 (100 to 100), over Open MPI 4 |", text)

    def test_latency_with_the_thread_is_judged_between_hosts_too(self):
        self.assertEqual(progress.costs({"ether/lat:8@2": {"sennit ether": [[6.6, 6.0]] * 7}}),
                         ["latency, 8 B, between hosts, Ethernet, sennit ether: 1.100 (1.100 to 1.100, more than allowed)"])

    def test_its_section_names_the_best_of_each_kind(self):
        text = "\n".join(progress.section(self.SAMPLES, self.PAIRS))
        for words in ("1.1 (1 to 1.2), over Open MPI 4 | 1 (1 to 1), over Open MPI 4 | 2 (2 to 2), MPICH 5 | 30 (30 to 30), MPICH 5 |",
                      "hidden share, receiver computes, 1 MiB, one node", "1.100 (1.100 to 1.100, more than allowed)"):
            self.assertIn(words, text)


class CapiTest(unittest.TestCase):
    def rows(self, program, *args):
        path = os.path.join(os.path.dirname(os.environ["SENNIT"]), program)
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("two cores are needed")
        text = subprocess.run([path, *args], capture_output=True, text=True, timeout=120, check=True).stdout
        return {row: float(value) for row, value in (line.split()[:2] for line in text.splitlines())}

    def test_it_runs_and_its_lines_are_understood(self):
        rows = self.rows("bench_capi", "2")
        for name in ("capilat:0", "capilat:8", "capilat:4096", "capipost:8", "capiratio:8", "capirate:8"):
            self.assertGreater(rows[name], 0)

    def test_large_messages_beside_bare_copies(self):
        rows = self.rows("bench_bulk", "0.1", "32768")
        for name in ("capibw:8192", "capibwpart:32768"):
            self.assertGreater(rows[name], 0)


if __name__ == "__main__":
    unittest.main()

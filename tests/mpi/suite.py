# SPDX-License-Identifier: BSD-3-Clause
"""One rank of mpi4py's test suite, its outcome of every test written down as it goes.

    python suite.py RESULTS TYPED MPI4PY/test [arguments of the suite's own main.py]

RESULTS/rank-N gets a line "start TEST" when a test begins and "OUTCOME TEST<tab>SECONDS" when it ends, so that the driver can compare
two runs test by test, and can say where each rank was when one hangs. The first TYPED ranks run test_datatype, too: it is more
than half of the suite's time, and there is no message in it.
"""

import atexit
import os
import sys
import time
import unittest


def own_rank():
    for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    sys.exit("suite.py: not started by an MPI launcher that says its rank")


class Recorder(unittest.TextTestResult):
    out = None

    def startTest(self, test):
        self.outcome = "ok"
        self.began = time.monotonic()
        Recorder.out.write(f"start {test.id()}\n")
        super().startTest(test)

    def stopTest(self, test):
        Recorder.out.write(f"{self.outcome} {test.id()}\t{time.monotonic() - self.began:.1f}\n")
        super().stopTest(test)

    def addSkip(self, test, reason):
        self.outcome = "skip"
        if not isinstance(test, unittest.TestCase):  # a whole class or module
            Recorder.out.write(f"skip {test.id()}\n")
        super().addSkip(test, reason)

    def addError(self, test, err):
        self.outcome = "no-window" if "MPI_ERR_WIN: invalid window" in str(err[1]) else "error"
        if not isinstance(test, unittest.TestCase):
            Recorder.out.write(f"error {test.id()}\n")
        super().addError(test, err)

    def addFailure(self, test, err):
        self.outcome = "fail"
        super().addFailure(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.outcome = "fail"
        super().addSubTest(test, subtest, err)

    def addUnexpectedSuccess(self, test):
        self.outcome = "fail"
        super().addUnexpectedSuccess(test)


if __name__ == "__main__":
    results, typed, testdir = sys.argv[1:4]
    Recorder.out = open(os.path.join(results, f"rank-{own_rank()}"), "w", buffering=1, encoding="utf-8")
    unittest.TextTestRunner.resultclass = Recorder
    sys.dont_write_bytecode = True
    sys.path.insert(0, testdir)
    sys.argv[1:] = sys.argv[4:]
    if own_rank() >= int(typed):
        sys.argv += ["-e", "test_datatype"]
    # Its own discovery starts from the folder of main.py, wherever we are.
    atexit.register(Recorder.out.close)
    from main import main

    main(module=None)

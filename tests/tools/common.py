# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the `sennit` command share."""
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

SENNIT = os.environ["SENNIT"]
SOURCE = os.environ["SOURCE"]

# Variables that change what is tested: each test sets those that it is about.
FOREIGN = ("FI_", "GLIBC_TUNABLES", "LD_PRELOAD", "OMPI_", "MPIR_", "PMI", "I_MPI_", "SENNIT", "LD_LIBRARY_PATH", "SLURM_", "VIRTUAL_ENV", "CONDA_PREFIX")


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="sennit-test-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        self.env["XDG_CACHE_HOME"] = self.dir + "/cache"
        self.env["OMPI_ALLOW_RUN_AS_ROOT"] = self.env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"

    def sennit(self, *args, timeout=120, **env):
        return subprocess.run([SENNIT, *args], env={**self.env, **env}, capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, check=False)

    def script(self, name, text):
        """An executable shell script in the test's directory."""
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, stat.S_IRWXU)
        return path

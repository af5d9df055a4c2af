# SPDX-License-Identifier: BSD-3-Clause
"""`sennit run -- srun`: what sennit sets reaches the ranks, whatever srun has been told to hand on of the environment."""
import os
import shlex
import shutil
import unittest

from test_run import RunTest

NEEDED = {"FI_PROVIDER_PATH", "FI_PROVIDER", "LD_PRELOAD", "GLIBC_TUNABLES", "OMPI_MCA_pml", "OMPI_MCA_mtl", "MPIR_CVAR_CH4_NETMOD",
          "MPIR_CVAR_NOLOCAL", "I_MPI_FABRICS"}


class Srun(RunTest):
    def setUp(self):
        super().setUp()
        shutil.copy(os.environ["ANY_LIBRARY"], self.dir + "/provider/libsennit-mpi.so")
        self.shim = os.path.realpath(self.dir + "/provider/libsennit-mpi.so")
        self.srun = self.script("srun", "exit 0")

    def words(self, *args, **env):
        return shlex.split(self.dry(self.srun, *args, **env)[-1])[1:]

    def exported(self, word, before="--export="):
        """The list as a dictionary; all of what is needed is in it, once."""
        self.assertTrue(word.startswith(before), word)
        items = [item.partition("=")[::2] for item in word[len(before):].split(",")]
        self.assertEqual(len(items), len(dict(items)), word)
        self.assertLessEqual(NEEDED, set(dict(items)), word)
        return dict(items)

    def test_everything_is_handed_on(self):
        for words in (["-n", "2", "true"], ["--export=ALL", "-n", "2", "true"], ["--export=all,A=1", "true"], ["--export=A,ALL", "true"]):
            self.assertEqual(self.words(*words), words)

    def test_nothing_but_what_sennit_sets(self):
        last = self.words("--export=NONE", "-n", "2", "true", SENNIT_NET="off")
        self.assertEqual(last[1:], ["-n", "2", "true"])
        got = self.exported(last[0])
        self.assertIn("SENNIT_NET", got)
        self.assertFalse({"NONE", "HOME", "PATH"} & set(got), got)

    def test_beside_what_the_user_names(self):
        last = self.words("-n", "2", "--export", "A,B=1,FI_PROVIDER=tcp", "true", ":", "-n", "1", "--export=NONE", "true")
        got = self.exported(last[3], "")
        self.assertEqual((got["A"], got["B"], got["FI_PROVIDER"]), ("", "1", "tcp"))
        self.exported(last[8])

    def test_before_what_the_user_preloads(self):
        for which in ("", "ALL,"):
            last = self.words("--export=" + which + "LD_PRELOAD=/nowhere/tool.so", "true")
            self.assertIn("LD_PRELOAD=" + self.shim + ":/nowhere/tool.so", last[0].replace("--export=", "").split(","))

    def test_the_programs_own_arguments_are_its_own(self):
        for words in (["-n", "2", "true", "--export=NONE"], ["-l", "true", "--export", "NONE", ":", "-l", "true", "--export=A"],
                      ["--export-file=NONE", "true"], ["--export=NIL", "true"], ["--export=", "true"], ["true", "--export"], ["--export"]):
            self.assertEqual(self.words(*words), words)
        other = self.script("other", "exit 0")
        self.assertTrue(self.dry(other, "--export=NONE")[-1].endswith("/other --export=NONE"))

    def test_in_a_job_of_sbatch_export_none(self):
        other = self.script("other", "exit 0")  # it may call srun
        for command in (self.srun, other):
            lines = self.dry(command, "true", SLURM_EXPORT_ENV="NONE")
            self.exported(self.exports(lines)["SLURM_EXPORT_ENV"], "")
        for value in ("NIL", ""):
            self.assertNotIn("SLURM_EXPORT_ENV", self.exports(self.dry(self.srun, "true", SLURM_EXPORT_ENV=value)))
        self.assertEqual(self.exports(self.dry(self.srun, "true", SLURM_EXPORT_ENV="ALL"))["SLURM_EXPORT_ENV"], "ALL")
        run = self.run_("--", self.script("env", "echo $SLURM_EXPORT_ENV"), SLURM_EXPORT_ENV="A")
        if "ASan runtime does not come first" not in run.stderr or not os.environ["SANITIZE"]:
            self.assertEqual(self.exported(run.stdout.strip(), "")["A"], "")


if __name__ == "__main__":
    unittest.main(verbosity=2)

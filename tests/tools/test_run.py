# SPDX-License-Identifier: BSD-3-Clause
"""`sennit run`: which MPI is it, what is set, and what is said when it cannot work."""
import glob
import os
import platform
import shutil
import stat
import subprocess
import unittest

from common import SENNIT, SOURCE, ToolTest

HYDRA = """HYDRA build details:
    Version:                                 %s
    Configure options:                       '--with-hwloc-prefix=/usr' %s '--prefix=/usr'
    Process Manager:                         pmi"""

ALWAYS = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


class RunTest(ToolTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.dir + "/provider")
        self.provider = self.dir + "/provider/libsennit-fi.so"
        shutil.copy(os.environ["ANY_LIBRARY"], self.provider)

    def run_(self, *args, **env):
        return self.sennit("run", "--provider-dir", self.dir + "/provider", *args, **env)

    def dry(self, *args, **env):
        r = self.run_("--dry-run", "--", *args, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout.splitlines()

    def compile(self, name, *words, source="int main(void) { return 0; }"):
        path = self.dir + "/" + name
        subprocess.run(["cc", "-x", "c", "-", "-o", path, *words], input=source.encode(), check=True)
        return path

    def launcher(self, name, version):
        return self.script(name, "cat <<'END'\n" + version + "\nEND")

    def library(self, name, *marks):
        """A file of this machine's ELF kind that looks like an MPI library."""
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(os.environ["ANY_LIBRARY"], path)
        with open(path, "ab") as f:
            for mark in marks:
                f.write(b"\0" + mark + b"\0")
        return path

    def exports(self, lines):
        return dict(line[len("export "):].split("=", 1) for line in lines if line.startswith("export "))


class Mistakes(RunTest):
    def expect(self, result, status, *words):
        self.assertEqual(result.returncode, status, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_no_command(self):
        self.expect(self.run_("--"), 2, "no command")
        self.expect(self.run_(), 2, "no command")

    def test_command_not_found(self):
        self.expect(self.run_("--", "no-such-launcher", "-n", "2"), 127, "no-such-launcher", "not found")
        self.expect(self.run_("--", "/no/such/launcher"), 127, "not found")

    def test_command_not_executable(self):
        with open(self.dir + "/data", "w", encoding="utf-8") as f:
            f.write("data")
        os.chmod(self.dir + "/data", stat.S_IRUSR)
        self.expect(self.run_("--", self.dir + "/data"), 126, "Permission denied")

    def test_unknown_option(self):
        self.expect(self.run_("--nonsense", "--", "true"), 2, "nonsense")

    def test_library_missing(self):
        r = self.sennit("run", "--provider-dir", self.dir, "--", "true")
        self.expect(r, 1, "libsennit-fi.so was not found", self.dir)

    def test_library_at_a_path_with_a_colon(self):
        """libfabric takes it for two directories, and the MPI would say no more than that there is no such transport."""
        os.mkdir(self.dir + "/1:2")
        shutil.copy(self.provider, self.dir + "/1:2")
        r = self.sennit("run", "--provider-dir", self.dir + "/1:2", "--", "true")
        self.expect(r, 1, "libsennit-fi.so cannot be loaded", "colon")

    def test_library_is_found_without_proc(self):
        """As in a root of its own that nobody has mounted /proc in."""
        if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/proc"], capture_output=True, check=False).returncode:
            self.skipTest("no file systems of our own may be mounted here")
        command = 'mount -t tmpfs none /proc && exec "$0" run --dry-run -- true'
        r = subprocess.run(["unshare", "-rm", "sh", "-c", command, os.environ["SENNIT"]], env=self.env, capture_output=True, text=True,
                           timeout=60, check=False)
        if "LeakSanitizer has encountered" in r.stderr and os.environ["SANITIZE"]:
            self.skipTest("the sanitizer of addresses wants /proc, and reads there that it need not")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("FI_PROVIDER=sennit", r.stdout)

    def test_library_is_not_a_library(self):
        with open(self.provider, "w", encoding="utf-8") as f:
            f.write("hello")
        self.expect(self.run_("--", "true"), 126, "not a shared library")

    def test_other_architecture(self):
        with open(self.provider, "r+b") as f:
            f.seek(18)
            f.write((22).to_bytes(2, "little"))  # EM_S390
        self.expect(self.run_("--", shutil.which("cat"), "/dev/null"), 126, "s390", "build sennit for that machine")

    def test_damaged_elf_files_do_no_harm(self):
        with open(self.provider, "rb") as f:
            whole = f.read()
        for cut in (4, 16, 19, 20, 40, 64, 70, 120, 400, len(whole) // 2):
            with open(self.dir + "/program", "wb") as f:
                f.write(whole[:cut])
            os.chmod(self.dir + "/program", stat.S_IRWXU)
            r = self.run_("--dry-run", "--", self.launcher("mpirun", HYDRA % ("5.0.2", "'--with-device=ch4:ofi'")),
                          self.dir + "/program")
            self.assertEqual(r.returncode, 0, (cut, r.stderr))


    def test_a_program_of_another_mpi_would_run_alone(self):
        self.compile("libmpich.so.12", "-shared", "-fPIC", "-Wl,-soname,libmpich.so.12")
        program = self.compile("program", "-Wl,--no-as-needed", "-L" + self.dir, "-l:libmpich.so.12")
        said = "linked with MPICH or Intel MPI (libmpich.so.12) but started by Open MPI 4.1.4: every rank would run alone"
        lines = self.dry(self.launcher("mpirun", "mpirun (Open MPI) 4.1.4"), "-n", "2", program)
        self.assertTrue(any(said in line for line in lines), lines)
        lines = self.dry(self.launcher("mpirun", "mpirun (Open MPI) 4.1.4"), "-n", "2", "/bin/true", "a")
        self.assertFalse(any(line.startswith("#") for line in lines[1:]), lines)

    def test_an_mpi_that_only_a_library_names(self):
        """As Fortran's bindings do, each a library of its own; found as the loader would, in a ring of libraries, too."""
        rpath = ("-Wl,--no-as-needed", "-L" + self.dir, "-Wl,-rpath,$ORIGIN")
        self.compile("libmpi.so.40", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40")
        self.compile("libring.so", "-shared", "-fPIC", "-Wl,-soname,libring.so")
        self.compile("libfort.so", "-shared", "-fPIC", "-Wl,-soname,libfort.so", *rpath, "-l:libring.so")
        self.compile("libring.so", "-shared", "-fPIC", "-Wl,-soname,libring.so", *rpath, "-l:libfort.so", "-l:libmpi.so.40")
        program = self.compile("program", *rpath, "-l:libfort.so")
        lines = self.dry(self.launcher("mpirun", HYDRA % ("5.0.2", "'--with-device=ch4:ofi'")), "-n", "2", program)
        said = "the program is linked with Open MPI but started by MPICH 5.0.2: every rank would run alone"
        self.assertTrue(any(said in line for line in lines), lines)
        self.compile("libfort.so", "-shared", "-fPIC", "-Wl,-soname,libfort.so", *rpath[:2], "-l:libring.so")  # by the program's list
        self.compile("libring.so", "-shared", "-fPIC", "-Wl,-soname,libring.so", *rpath[:2], "-l:libmpi.so.40")
        program = self.compile("program", *rpath, "-Wl,--disable-new-dtags", "-l:libfort.so")
        lines = self.dry(self.launcher("mpirun", HYDRA % ("5.0.2", "'--with-device=ch4:ofi'")), "-n", "2", program)
        self.assertTrue(any(said in line for line in lines), lines)
        os.unlink(os.path.join(self.dir, "libfort.so"))  # that it is missing is for the loader to say
        lines = self.dry(self.launcher("mpirun", HYDRA % ("5.0.2", "'--with-device=ch4:ofi'")), "-n", "2", program)
        self.assertFalse(any(said in line for line in lines), lines)

    def test_a_static_program_is_named(self):
        try:
            program = self.compile("fixed", "-static")
        except subprocess.CalledProcessError:
            self.skipTest("this compiler has no static C library")
        for start in ([], [self.launcher("mpirun", "mpirun (Open MPI) 4.1.4"), "-n", "2"]):
            lines = self.dry(*start, program)
            self.assertTrue(any(program + " is statically linked" in line for line in lines), lines)
            r = self.run_("--", *start, program)
            self.assertEqual((r.returncode, r.stderr.count("is statically linked")), (0, 1), r.stderr)

    def test_a_loader_that_is_named_is_no_static_program(self):
        kind = platform.machine().replace("_", "-")
        loader = next((f for f in glob.glob(f"/lib*/ld-linux-{kind}.so.*") if os.access(f, os.X_OK)), None)
        if not loader:
            self.skipTest("no loader of the C library is where it usually is")
        for start in ([], [self.launcher("mpirun", "mpirun (Open MPI) 4.1.4"), "-n", "2"]):
            r = self.run_("--", *start, loader, "/bin/true")
            self.assertEqual((r.returncode, r.stderr), (0, ""))


class Programs(RunTest):
    def test_a_program_is_never_asked_for_its_version(self):
        path = self.script("simulation", "echo ran >> '%s/log'" % self.dir)
        lines = self.dry(path)
        self.assertFalse(os.path.exists(self.dir + "/log"))
        e = self.exports(lines)
        for name in ("FI_PROVIDER_PATH", "OMPI_MCA_pml", "MPIR_CVAR_NOLOCAL", "I_MPI_FABRICS"):
            self.assertIn(name, e)

    def test_a_program_runs_with_the_environment_set(self):
        r = self.run_("sh", "-c", 'echo "$FI_PROVIDER_PATH|$FI_PROVIDER|$OMPI_MCA_mtl|$1"', "sh", "an argument")
        self.assertEqual(r.stdout, self.dir + "/provider|sennit|ofi|an argument\n", r.stderr)

    def test_a_variable_that_is_no_setting_is_named_once_and_does_no_harm(self):
        r = self.run_("--", "true", SENNIT_COPPY="read")
        self.assertEqual((r.returncode, r.stderr.count("SENNIT_COPPY")), (0, 1))
        self.assertEqual(self.run_("-q", "--", "true", SENNIT_COPPY="read").stderr, "")

    def test_the_command_is_called_as_the_user_calls_it(self):
        self.compile("named", source="#include <stdio.h>\nint main(int n, char **a) { puts(a[0]); }")
        r = self.run_("--", "named", PATH=self.dir + ":" + os.environ["PATH"])
        self.assertEqual(r.stdout, "named\n", r.stderr)
        r = self.run_("--", self.dir + "/named")
        self.assertEqual(r.stdout, self.dir + "/named\n", r.stderr)

    def test_the_exit_status_is_the_commands(self):
        self.assertEqual(self.run_("--", "sh", "-c", "exit 5").returncode, 5)

    def test_dry_run_can_be_pasted_into_a_shell(self):
        lines = self.dry("sh", "-c", "echo \"it's $OMPI_MCA_pml\"")
        path = self.script("pasted", "\n".join(lines))
        with os.popen(path) as out:
            self.assertEqual(out.read(), "it's cm\n")


class FirstRun(RunTest):
    """Of a machine: what copies cost there is measured and kept. On one core that ends at once, with a sentence, where it begins."""

    def setUp(self):
        super().setUp()
        cores = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, {min(cores)})

    def said(self, **env):
        return self.run_("--", "true", **{"SENNIT_LOG": "info", "SENNIT_TUNE": "yes", **env}).stderr

    def test_it_is_measured(self):
        self.assertIn("a measurement needs two cores", self.said())
        self.assertIn("a measurement needs two cores", self.said(PMI_RANK="0", PMI_SIZE="1"))

    def test_not_where_it_cannot_be_kept(self):
        self.assertIn("/nowhere/at/all/sennit cannot be made", self.said(XDG_CACHE_HOME="/nowhere/at/all"))
        self.assertFalse(os.path.exists("/nowhere"))

    def test_not_by_all_ranks_of_a_job_at_once(self):
        for env in ({"PMI_RANK": "0", "PMI_SIZE": "2"}, {"PMIX_RANK": "1", "SLURM_NTASKS": "2"},
                    {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}):
            self.assertEqual(self.said(**env), "")


class Preload(RunTest):
    """libsennit-mpi.so beside the provider, or where it is installed, goes in front of the program."""

    def setUp(self):
        super().setUp()
        self.shim = self.dir + "/provider/libsennit-mpi.so"
        shutil.copy(os.environ["ANY_LIBRARY"], self.shim)

    def test_before_what_the_user_preloads(self):
        lines = self.dry("true", LD_PRELOAD="/nowhere/tool.so")
        self.assertEqual(self.exports(lines)["LD_PRELOAD"], self.shim + ":/nowhere/tool.so")

    def test_a_program_of_another_c_library_is_left_alone(self):
        self.compile("libc.musl.so.1", "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libc.musl-x86_64.so.1")
        program = self.compile("musl", "-nostdlib", "-Wl,--no-as-needed", "-L" + self.dir, "-l:libc.musl.so.1")
        for start in ([], [self.launcher("mpirun", "mpirun (Open MPI) 4.1.4"), "-n", "2"]):
            self.assertIn("LD_PRELOAD", self.exports(self.dry(*start, "/bin/true")))
            lines = self.dry(*start, program)
            self.assertTrue(any(program + " is made for another C library" in line for line in lines), lines)
            self.assertNotIn("LD_PRELOAD", self.exports(lines))

    @unittest.skipIf(os.getuid(), "only root can make such a file")
    def test_a_program_that_is_given_rights_is_named(self):
        program = self.dir + "/rights"
        shutil.copy("/bin/true", program)
        for owner, mode, said in ((0, 0o4755, False), (65534, 0o755, False), (65534, 0o4755, True)):
            os.chown(program, owner, 0)
            os.chmod(program, mode)
            for start in ([], [self.launcher("mpirun", "mpirun (Open MPI) 4.1.4"), "-n", "2"]):
                lines = self.dry(*start, program)
                self.assertEqual(any(program + " is given rights by its file" in line for line in lines), said, lines)

    def test_a_program_that_takes_the_environment_away_is_named(self):
        for words, taken in ((["sudo", "-n", "true"], True), (["env", "-i", "true"], True), (["env", "true"], False)):
            path = self.script(words[0], "exit 0")
            said = "\n".join(self.dry(path, *words[1:]))
            self.assertEqual("may take the environment away" in said, taken, said)

    def test_on_other_nodes_of_open_mpi_too(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 5.0.11")
        self.assertIn(" -x LD_PRELOAD ", self.dry(path, "./a.out")[-1])

    def test_before_what_the_launchers_arguments_preload(self):
        open_mpi, mpich = "mpirun (Open MPI) 4.1.4", HYDRA % ("5.0.2", "'--with-device=ch4:ofi'")
        both = self.shim + ":/nowhere/tool.so"
        for version, words, then in ((open_mpi, ["-x", "LD_PRELOAD=/nowhere/tool.so"], "-x LD_PRELOAD=" + both),
                                     (open_mpi, ["--x", "LD_PRELOAD=/nowhere/tool.so"], "--x LD_PRELOAD=" + both),
                                     (open_mpi, ["-x", "LD_PRELOAD"], "-x LD_PRELOAD"),
                                     (mpich, ["-genv", "LD_PRELOAD", "/nowhere/tool.so"], "-genv LD_PRELOAD " + both),
                                     (mpich, ["-env", "LD_PRELOAD=/nowhere/tool.so"], "-env LD_PRELOAD=" + both),
                                     (mpich, ["-genv", "LD_PRELOADS", "/nowhere/tool.so"], "-genv LD_PRELOADS /nowhere/tool.so")):
            last = self.dry(self.launcher("mpirun", version), "-n", "2", *words, "./a.out")[-1]
            self.assertTrue(last.endswith(" -n 2 " + then + " ./a.out"), last)
            words = [w.replace("/nowhere/tool.so", "/nowhere/tool.so:/nowhere/other.so") for w in words]
            last = self.dry(self.launcher("mpirun", version), *words, "./a.out", SENNIT_SHIM="no", SENNIT_HEAP="no")[-1]
            self.assertTrue(last.endswith(" ".join(words) + " ./a.out"), last)

    def test_the_heap_goes_in_front_of_it_unless_switched_off(self):
        heap = self.dir + "/provider/libsennit-heap.so"
        shutil.copy(os.environ["ANY_LIBRARY"], heap)
        self.assertEqual(self.exports(self.dry("true"))["LD_PRELOAD"], heap + ":" + self.shim)
        self.assertEqual(self.exports(self.dry("true", SENNIT_HEAP="no"))["LD_PRELOAD"], self.shim)

    def test_in_the_installed_place(self):
        os.mkdir(self.dir + "/sennit")
        os.rename(self.shim, self.dir + "/sennit/libsennit-mpi.so")
        self.assertEqual(self.exports(self.dry("true"))["LD_PRELOAD"], self.dir + "/sennit/libsennit-mpi.so")

    def test_not_when_it_is_switched_off(self):
        self.assertNotIn("LD_PRELOAD", self.exports(self.dry("true", SENNIT_SHIM="no")))

    def test_a_path_that_the_loader_would_split_is_left_out(self):
        os.rename(self.dir + "/provider", self.dir + "/a provider")
        r = self.sennit("run", "--provider-dir", self.dir + "/a provider", "--dry-run", "--", "true")
        self.assertNotIn("LD_PRELOAD", r.stdout.replace("cannot be preloaded", ""))
        self.assertIn("cannot be preloaded", r.stdout)


class Tunables(RunTest):
    """What the C library has the kernel do at each switch is left out, unless the user says otherwise."""

    def test_no_rseq(self):
        self.assertEqual(self.exports(self.dry("true"))["GLIBC_TUNABLES"], "glibc.pthread.rseq=0")

    def test_beside_what_the_user_sets(self):
        lines = self.dry("true", GLIBC_TUNABLES="glibc.malloc.check=0")
        self.assertEqual(self.exports(lines)["GLIBC_TUNABLES"], "glibc.pthread.rseq=0:glibc.malloc.check=0")

    def test_the_user_may_want_it(self):
        self.assertNotIn("GLIBC_TUNABLES", self.exports(self.dry("true", GLIBC_TUNABLES="glibc.pthread.rseq=1")))

    def test_the_library_does_as_it_is_told(self):
        source = """extern const unsigned __rseq_size __attribute__((weak));
                    int main(void) { return &__rseq_size && __rseq_size; }"""
        self.assertEqual(self.run_("--", self.compile("rseq", source=source)).returncode, 0)


class Sanitizers(RunTest):
    """A program that was built to have its memory watched runs over what is in front of it, and is watched as by itself."""

    def test_a_large_block_that_is_overrun(self):
        source = """#include <stdlib.h>
                    int main(void) { volatile char *p = malloc(1 << 20); p[(1 << 20) + 3] = 1; return 0; }"""
        program = self.compile("overrun", "-fsanitize=address", source=source)
        for heap in ("yes", "no"):
            r = self.sennit("run", "-q", "--", program, SENNIT_HEAP=heap, ASAN_OPTIONS="detect_leaks=0")
            if "ASan runtime does not come first" in r.stderr and os.environ["SANITIZE"]:
                self.skipTest("these libraries are built for a sanitizer themselves")
            self.assertIn("heap-buffer-overflow", r.stderr)
            self.assertIn("1048576-byte region", r.stderr)
            self.assertNotEqual(r.returncode, 0)

    def test_a_runtime_that_asks_before_it_is_ready(self):
        """As clang's of threads: its first call of the C library is pthread_atfork(), before its own close() may be called."""
        source = """#define _GNU_SOURCE
                    #include <fcntl.h>
                    #include <pthread.h>
                    #include <stdlib.h>
                    #include <sys/syscall.h>
                    #include <unistd.h>
                    static int ready;
                    static void nothing(void) { }
                    void __tsan_init(void) { }
                    int close(int fd) { if (!ready) abort(); return (int)syscall(SYS_close, fd); }
                    static void begin(void) { ready = pthread_atfork(nothing, nothing, nothing) == 0; }
                    __attribute__((section(".preinit_array"), used)) static void (*const first)(void) = begin;
                    int main(void) { return close(open("/dev/null", O_RDONLY)) || !ready; }"""
        r = self.sennit("run", "-q", "--", self.compile("early", "-rdynamic", source=source))
        if "ASan runtime does not come first" in r.stderr and os.environ["SANITIZE"]:
            self.skipTest("these libraries are built for a sanitizer themselves")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_the_compilers_own_runtimes(self):
        """gcc's of threads allocates while it looks for what it stands before (it looks for names that this C library lacks)."""
        for kind in ("thread", "address", "leak"):
            with self.subTest(kind):
                try:
                    program = self.compile(kind, "-fsanitize=" + kind)
                except subprocess.CalledProcessError:
                    continue  # this compiler has none
                if subprocess.run([program], capture_output=True).returncode:
                    continue  # nor by itself: the system places memory where it does not expect any
                r = self.sennit("run", "-q", "--", program, ASAN_OPTIONS="detect_leaks=0")
                if os.environ["SANITIZE"]:
                    self.skipTest("these libraries are built for a sanitizer themselves")
                self.assertEqual(r.returncode, 0, r.stderr)


class Allocators(RunTest):
    """Whose malloc is not the heap's has no use for it, and its memory would be looked through in vain (valgrind), or counted."""

    ARENA = """
               #include <dlfcn.h>
               #include <stddef.h>
               int main(void) { char out[64]; int (*info)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, "sennit_heap_info");
                                return info ? info(out) == 0 : 2; }
               """
    OWN = """void *malloc(unsigned long n) { static char room[1 << 20]; static unsigned long used;
                                             used += (n + 15) / 16 * 16; return room + used - (n + 15) / 16 * 16; }
             void free(void *p) { (void)p; }"""

    def has_arena(self, program, **env):
        if os.environ["SANITIZE"]:
            self.skipTest("this build has no shareable heap")
        r = self.sennit("run", "-q", "--", program, **env)
        self.assertIn(r.returncode, (0, 1, 2), r.stderr)
        if r.returncode == 2:
            self.skipTest("this build has no shareable heap")
        return r.returncode == 1

    def test_there_is_one_where_programs_call_it(self):
        program = self.compile("plain", "-D_GNU_SOURCE", source=self.ARENA)
        if not self.has_arena(program):
            self.skipTest("the heap leaves itself out here: huge pages always, limited address space, or no overcommit")
        self.assertFalse(self.has_arena(program, LD_PRELOAD="/nowhere/vgpreload_memcheck-amd64-linux.so"))
        # its own entry for malloc is the address of malloc for all
        fixed = self.compile("fixed", "-D_GNU_SOURCE", "-no-pie", "-fno-pie", source="#include <stdlib.h>\nvoid *(*const taken)(size_t) = malloc;" + self.ARENA)
        self.assertTrue(self.has_arena(fixed))
        own = self.compile("own", "-D_GNU_SOURCE", "-rdynamic", "-fno-builtin", source=self.ARENA + self.OWN)
        self.assertFalse(self.has_arena(own))


    def test_a_helper_of_another_c_library_runs(self):
        """A rank's child loads what is in front of the rank; musl refuses what has a symbol that it lacks."""
        if not shutil.which("musl-gcc"):
            self.skipTest("musl-gcc is not installed (Debian: musl-tools)")
        if os.environ["SANITIZE"]:
            self.skipTest("this build has no shareable heap")
        source, program = self.dir + "/helper.c", self.dir + "/helper"
        with open(source, "w", encoding="utf-8") as f:
            f.write("""#include <stdlib.h>
                       #include <string.h>
                       int main(void) { char *p = malloc(8 << 20); return !p || !memset(p, 1, 8 << 20) || !(p = realloc(p, 9 << 20)); }""")
        subprocess.run(["musl-gcc", "-o", program, source], check=True, timeout=60)
        r = self.sennit("run", "-q", "--", "sh", "-c", f"case $LD_PRELOAD in *libsennit-heap*) {program};; *) exit 9;; esac")
        self.assertEqual(r.returncode, 0, r.stderr)


class Libfabric(ToolTest):
    def test_fi_info_finds_the_provider(self):
        if not shutil.which("fi_info"):
            self.skipTest("fi_info is not installed (Debian: libfabric-bin)")
        r = self.sennit("run", "-q", "--", "fi_info", "-p", "sennit")
        if "ASan runtime does not come first" in r.stderr:
            self.skipTest("a library with the address sanitizer cannot be loaded by a program without")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("provider: sennit", r.stdout)
        self.assertIn("type: FI_EP_RDM", r.stdout)


def windows():
    """Who makes them over Open MPI 4, where /dev/shm has room for them."""
    fs = os.statvfs("/dev/shm")
    return {"OMPI_MCA_osc_rdma_priority": "99"} if fs.f_blocks * fs.f_frsize >= 1 << 30 else {}


class Detection(RunTest):
    def test_open_mpi_4(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/")
        lines = self.dry(path, "-n", "2", "./a.out", SENNIT_EAGER="4k")
        self.assertEqual(lines[0], "# Open MPI 4.1.4")
        self.assertEqual(self.exports(lines), {**ALWAYS, "FI_PROVIDER_PATH": self.dir + "/provider", "FI_PROVIDER": "sennit",
                                               "OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", **windows()})
        self.assertEqual(lines[-1], path + " -x FI_PROVIDER_PATH -x FI_PROVIDER -x GLIBC_TUNABLES -x SENNIT_EAGER -n 2 ./a.out")

    def test_who_makes_windows_the_user_may_say(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 4.1.4")
        for r in (self.run_("--", path, "./a.out", OMPI_MCA_osc_rdma_priority="7"),
                  self.run_("--", path, "--mca", "osc_rdma_priority", "7", "./a.out")):
            self.assertEqual(r.stderr, "")

    def test_open_rte(self):
        path = self.launcher("mpiexec.openmpi", "mpiexec.openmpi (OpenRTE) 4.1.2")
        self.assertEqual(self.dry(path)[0], "# Open MPI 4.1.2")

    def test_open_mpi_5(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 5.0.11")
        lines = self.dry(path, "-n", "2", "./a.out")
        self.assertEqual(lines[0], "# Open MPI 5.0.11")
        self.assertEqual(self.exports(lines)["OMPI_MCA_pml"], "cm")
        self.assertNotIn("OMPI_MCA_btl", self.exports(lines))

    def test_rules_for_the_collectives_of_open_mpi_unless_the_user_has_some(self):
        rules = os.path.realpath(self.dir + "/provider/openmpi-allreduce.rules")
        with open(rules, "w", encoding="utf-8") as f:
            f.write("0\n")
        names = ("OMPI_MCA_coll_tuned_use_dynamic_rules", "OMPI_MCA_coll_tuned_dynamic_rules_filename")
        path = self.launcher("mpirun", "mpirun (Open MPI) 5.0.11")
        e = self.exports(self.dry(path, "-n", "2", "./a.out"))
        self.assertEqual([e.get(n) for n in names], ["1", rules])
        chosen = ((["--mca", "coll_tuned_priority", "1"], {}), (["--mca", "coll", "^tuned"], {}), ([], {"OMPI_MCA_coll_sync_priority": "99"}),
                  (["-x", "OMPI_MCA_coll_tuned_use_dynamic_rules=0"], {}), ([], {names[1]: "/my/rules"}), (["--tune", "file"], {}),
                  (["-am", "file"], {}), ([], {"OMPI_MCA_mca_base_param_files": "file"}))
        for words, env in chosen:
            e = self.exports(self.dry(path, *words, "-n", "2", "./a.out", **env))
            self.assertEqual([e.get(n) for n in names], [None, None], (words, env))

    def test_one_decision_for_all_ranks_about_the_rules_for_the_collectives_of_open_mpi(self):
        with open(self.dir + "/provider/openmpi-allreduce.rules", "w", encoding="utf-8") as f:
            f.write("0\n")
        name = "OMPI_MCA_coll_tuned_use_dynamic_rules"
        launcher = self.launcher("mpirun", "mpirun (Open MPI) 5.0.11")
        for path, ours in ((launcher, True), (shutil.which("true"), False)):
            self.assertIn(name, self.exports(self.dry(path)))
            for rank in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"):
                self.assertEqual(name in self.exports(self.dry(path, **{rank: "0"})), ours, (path, rank))

    def test_no_rules_where_a_file_of_parameters_has_some(self):
        with open(self.dir + "/provider/openmpi-allreduce.rules", "w", encoding="utf-8") as f:
            f.write("0\n")
        path = os.path.join(self.dir, "mpirun")
        os.symlink(self.launcher("bin/mpirun", "mpirun (Open MPI) 5.0.11"), path)
        name = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
        for place in ("home/.openmpi/mca-params.conf", "etc/openmpi-mca-params.conf"):
            file = os.path.join(self.dir, place)
            os.makedirs(os.path.dirname(file), exist_ok=True)
            for text, ours in (("# coll\nbtl = self\n", True), ("btl = self\n  coll_tuned_use_dynamic_rules = 1\n", False)):
                with open(file, "w", encoding="utf-8") as f:
                    f.write(text)
                e = self.exports(self.dry(path, "-n", "2", "./a.out", HOME=self.dir + "/home"))
                self.assertEqual(name in e, ours, (place, text))
            os.remove(file)

    def test_open_mpi_5_that_has_no_windows_over_cm_alone(self):
        for version, alone in (("5.0.0", False), ("5.0.7", False), ("5.0.8", False), ("5.0.9", True), ("5.1.0", True), ("4.1.4", True)):
            e = self.exports(self.dry(self.launcher("mpirun", "mpirun (Open MPI) " + version), "-n", "2", "./a.out"))
            self.assertEqual((e["OMPI_MCA_pml"], e.get("OMPI_MCA_btl")), ("cm", None) if alone else ("^ucx", "self,ofi"), version)

    def test_open_mpi_whose_libfabric_ends_who_forks(self):
        for version, ends in (("4.0.3", True), ("4.1.2", True), ("4.1.4", False), ("5.0.0", False)):
            e = self.exports(self.dry(self.launcher("mpirun", "mpirun (Open MPI) " + version), "-n", "2", "./a.out"))
            self.assertEqual(e.get("RDMAV_FORK_SAFE"), "1" if ends else None, version)

    def test_open_mpi_of_which_prrte_says_no_version(self):
        wordless = "Sorry!  You were supposed to get help about:\n    version\nBut I couldn't open the help file:\n    /usr/help-schizo-ompi.txt"
        for text in ("prterun (PRRTE) 3.0.13", wordless):  # Ubuntu 26.04
            path = self.launcher("mpirun", text)
            self.assertIn("# Open MPI 5 or later (PRRTE)", self.dry(path, "./a.out"))
            self.launcher("ompi_info", "Open MPI v5.0.7\n\nhttps://www.open-mpi.org/community/help/")
            lines = self.dry(path, "./a.out")
            self.assertIn("# Open MPI 5.0.7", lines)
            self.assertEqual(self.exports(lines)["OMPI_MCA_pml"], "^ucx")
            os.makedirs(self.dir + "/elsewhere", exist_ok=True)
            link = self.dir + "/elsewhere/mpirun"  # as a module, or a user's ~/bin, has it
            os.symlink(path, link)
            self.assertIn("# Open MPI 5.0.7", self.dry(link, "./a.out"))
            os.remove(link)
            os.remove(self.dir + "/ompi_info")

    def test_variables_given_with_x_are_not_given_twice(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 5.0.11")
        lines = self.dry(path, "-x", "FI_PROVIDER=tcp", "-n", "2", "./a.out")
        self.assertEqual(lines[-1], path + " -x FI_PROVIDER_PATH -x GLIBC_TUNABLES -x FI_PROVIDER=tcp -n 2 ./a.out")
        self.assertTrue(any("FI_PROVIDER is set on the command line" in line for line in lines))

    def test_each_of_several_programs_is_given_them(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 4.1.4")
        lines = self.dry(path, "-n", "1", "./a.out", "b", ":", "-n", "2", "./c.out", SENNIT_NET="udp")
        given = "-x FI_PROVIDER_PATH -x FI_PROVIDER -x GLIBC_TUNABLES -x SENNIT_NET"
        self.assertEqual(lines[-1], f"{path} {given} -n 1 ./a.out b : {given} -n 2 ./c.out")

    def test_a_file_of_programs_is_given_them(self):
        file = os.path.join(self.dir, "programs")
        for version, text, own, listed in (("4.1.4", "-n 1 ./a.out", [], True), ("4.1.4", "-x A -n 1 ./a.out", [], False),
                                           ("4.1.4", "-n 1 ./a.out", ["-x", "A", "./b.out"], False), ("5.0.11", "-n 1 ./a.out", [], False)):
            path = self.launcher("mpirun", "mpirun (Open MPI) " + version)
            with open(file, "w", encoding="utf-8") as f:
                f.write(text + "\n")
            lines = self.dry(path, *own, "--app", file, SENNIT_NET="udp")
            e = self.exports(lines)
            self.assertEqual(e.get("OMPI_MCA_mca_base_env_list"),  # quoted, as a shell wants it
                             "'FI_PROVIDER_PATH;FI_PROVIDER;GLIBC_TUNABLES;SENNIT_NET'" if listed else None, text)
            self.assertEqual("-x FI_PROVIDER" in lines[-1], not listed, text)
            self.assertEqual(any("of its lines needs" in line for line in lines), "-x" in text and version.startswith("4"), text)

    def test_base_env_list_excludes_x(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 4.1.4")
        lines = self.dry(path, "./a.out", OMPI_MCA_mca_base_env_list="HOME")
        self.assertEqual(lines[-1], path + " ./a.out")
        self.assertTrue(any("mca_base_env_list" in line for line in lines))

    def test_mca_on_the_command_line_is_reported(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 4.1.4")
        lines = self.dry(path, "--mca", "pml", "ob1", "./a.out")
        self.assertTrue(any("sets pml to ob1" in line for line in lines))

    def test_another_pml_keeps_its_own_btls(self):
        # with those set here alone, ob1 of Open MPI 5 is a segmentation fault in place of a job without sennit
        path = self.launcher("mpirun", "mpirun (Open MPI) 5.0.7")
        for value, other in (("ob1", True), ("ob1,ucx", True), ("^cm", True), ("cm", False), ("cm,ob1", False), ("^ucx", False)):
            given = self.dry(path, "--mca", "pml", value, "./a.out")
            inherited = self.dry(path, "./a.out", OMPI_MCA_pml=value)
            for lines in (given, inherited):
                self.assertEqual(self.exports(lines).get("OMPI_MCA_btl"), None if other else "self,ofi", value)

    def test_mpich_with_libfabric(self):
        path = self.launcher("mpiexec", HYDRA % ("5.0.2", "'--with-device=ch4:ucx,ofi'"))
        lines = self.dry(path, "-n", "2", "./a.out")
        self.assertEqual(lines[0], "# MPICH 5.0.2")
        self.assertEqual(self.exports(lines), {**ALWAYS, "FI_PROVIDER_PATH": self.dir + "/provider", "FI_PROVIDER": "sennit",
                                               "MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1",
                                               "MPIR_CVAR_CH4_OFI_ENABLE_PT2PT_NOPACK": "0"})
        self.assertEqual(lines[-1], path + " -n 2 ./a.out")

    def test_mpich_for_ucx_alone_says_what_to_install(self):
        self.launcher("bin/mpiexec", HYDRA % ("4.0.2", "'--with-device=ch4:ucx'"))
        r = self.run_("--", self.dir + "/bin/mpiexec", "-n", "2", "./a.out", PATH="/usr/bin:/bin", HOME=self.dir)
        if r.returncode == 0:
            self.skipTest("this machine has an MPICH or Intel MPI in a system directory")
        self.assertEqual(r.returncode, 1)
        self.assertIn("pip install mpich", r.stderr)

    def test_mpich_for_ucx_alone_takes_another_library(self):
        path = self.launcher("bin/mpiexec", HYDRA % ("4.0.2", "'--with-device=ch4:ucx'"))
        library = self.library("venv/lib/libmpi.so.12", b"libfabric.so.1", b"MPICH Version:\t5")
        os.mkdir(self.dir + "/venv/lib/mpich")
        lines = self.dry(path, "-n", "2", "python3", VIRTUAL_ENV=self.dir + "/venv")
        self.assertFalse(os.path.exists(self.dir + "/cache"), "a dry run leaves nothing behind")
        where = self.exports(lines)["LD_LIBRARY_PATH"]
        self.assertTrue(where.startswith(self.dir + "/cache/sennit/mpich-"))
        self.assertIn("ln -sfn %s %s/libmpich.so.12" % (library, where), lines)
        self.assertNotIn("I_MPI_FABRICS", self.exports(lines))
        for _ in range(2):  # the second time finds the links in place
            r = self.run_("--", path, "-n", "2", "python3", VIRTUAL_ENV=self.dir + "/venv")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn(library, r.stderr)
            self.assertEqual(os.readlink(where + "/libmpich.so.12"), library)
            self.assertEqual(sorted(os.listdir(where)), ["libmpi.so.12", "libmpich.so.12", "mpich"])

    def test_intels_library_in_place_of_mpichs(self):
        path = self.launcher("bin/mpiexec", HYDRA % ("4.0.2", "'--with-device=ch4:ucx'"))
        self.library("intel/libmpi.so.12", b"libfabric.so.1", b"Intel(R) MPI Library %s for Linux* OS")
        lines = self.dry(path, "./a.out", LD_LIBRARY_PATH=self.dir + "/intel")
        self.assertEqual(self.exports(lines)["I_MPI_FABRICS"], "ofi")
        self.assertTrue(self.exports(lines)["LD_LIBRARY_PATH"].endswith(":" + self.dir + "/intel"))

    def test_a_library_that_does_not_suit_is_refused(self):
        path = self.launcher("bin/mpiexec", HYDRA % ("4.0.2", "'--with-device=ch4:ucx'"))
        library = self.library("x/libmpi.so.12", b"MPICH Version:\t5")
        r = self.run_("--mpich-lib", library, "--", path, "./a.out")
        self.assertEqual(r.returncode, 1)
        self.assertIn("not a library of MPICH's ABI that uses libfabric", r.stderr)
        r = self.run_("--mpich-lib", self.dir + "/none", "--", path, "./a.out")
        self.assertIn("not there", r.stderr)

    def test_intel_mpi(self):
        path = self.launcher("mpiexec.hydra", "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626")
        lines = self.dry(path, "-n", "2", "./a.out")
        self.assertEqual(lines[0], "# Intel MPI 2021.18.1")
        self.assertEqual(self.exports(lines), {**ALWAYS, "FI_PROVIDER_PATH": self.dir + "/provider", "FI_PROVIDER": "sennit",
                                               "I_MPI_FABRICS": "ofi", "I_MPI_HYDRA_ENV": "all", "MPIR_CVAR_CH4_OFI_TAG_BITS": "25"})
        own = self.dry(path, "-n", "2", "./a.out", MPIR_CVAR_CH4_OFI_RANK_BITS="20")
        self.assertNotIn("MPIR_CVAR_CH4_OFI_TAG_BITS", self.exports(own))

    def test_the_library_that_the_program_runs_on_is_told(self):
        hydra = self.launcher("m/mpiexec", HYDRA % ("5.0.2", "'--with-device=ch4:ofi'"))
        intel = self.launcher("i/mpiexec.hydra", "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626")
        self.library("mpich/libmpi.so.12", b"libfabric.so.1", b"MPICH Version:\t5")
        self.library("intel/libmpi.so.12", b"libfabric.so.1", b"Intel(R) MPI Library %s for Linux* OS")
        self.compile("libmpi.so.12", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.12")

        def told(launcher, kind, *words, **env):
            program = self.compile("p-" + kind, "-Wl,--no-as-needed", "-L" + self.dir, "-l:libmpi.so.12", *words)
            e = self.exports(self.dry(launcher, "-n", "2", program, **env))
            return "MPIR_CVAR_NOLOCAL" in e, "I_MPI_FABRICS" in e

        with_mpich = "-Wl,--enable-new-dtags,-rpath,/nothing:" + self.dir + "/mpich"
        self.assertEqual(told(intel, "mpich", with_mpich), (True, True))
        self.assertEqual(told(hydra, "mpich", with_mpich), (True, False))
        self.assertEqual(told(hydra, "intel", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/intel"), (True, True))
        self.assertEqual(told(intel, "intel", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/intel"), (False, True))
        self.assertEqual(told(intel, "mpich", with_mpich, LD_LIBRARY_PATH=self.dir + "/intel"), (False, True))
        self.assertEqual(told(intel, "old", "-Wl,--disable-new-dtags,-rpath," + self.dir + "/mpich",
                              LD_LIBRARY_PATH=self.dir + "/intel"), (True, True))
        # Intel's bits of a tag would be fewer than MPICH's
        self.assertNotIn("MPIR_CVAR_CH4_OFI_TAG_BITS", self.exports(self.dry(intel, "-n", "2", self.dir + "/p-mpich")))
        self.assertIn("MPIR_CVAR_CH4_OFI_TAG_BITS", self.exports(self.dry(hydra, "-n", "2", self.dir + "/p-intel")))

    def test_unknown_launcher_gets_everything(self):
        lines = self.dry(self.launcher("mpirun", "my own mpirun 1.0"), "./a.out")
        self.assertTrue(any("does not say which MPI" in line for line in lines))
        self.assertIn("OMPI_MCA_mtl", self.exports(lines))
        self.assertIn("I_MPI_FABRICS", self.exports(lines))
        self.assertNotIn("MPIR_CVAR_CH4_OFI_TAG_BITS", self.exports(lines))  # MPICH's tags have more

    def test_what_the_user_set_is_kept_and_reported(self):
        path = self.launcher("mpirun", "mpirun (Open MPI) 4.1.4")
        lines = self.dry(path, "./a.out", FI_PROVIDER="tcp", FI_PROVIDER_PATH="/opt/providers", OMPI_MCA_mtl="ofi")
        self.assertTrue(any("FI_PROVIDER=tcp is already set and kept" in line for line in lines))
        self.assertEqual(self.exports(lines), {**ALWAYS, "FI_PROVIDER_PATH": self.dir + "/provider:/opt/providers",
                                               "OMPI_MCA_pml": "cm", **windows()})
        r = self.run_("--", path, "./a.out", FI_PROVIDER="tcp")
        self.assertIn("FI_PROVIDER=tcp is already set and kept", r.stderr)
        r = self.run_("--quiet", "--", path, "./a.out", FI_PROVIDER="tcp")
        self.assertEqual(r.stderr, "")


class Installed(RunTest):
    """The launchers of this machine, and the wheels if tests/peers.sh has installed them."""

    def check(self, launcher, title, name, *values):
        if not shutil.which(launcher):
            self.skipTest(launcher + " is not installed")
        lines = self.dry(launcher, "-n", "2", "true")
        self.assertTrue(lines[0].startswith("# " + title), lines[0])
        self.assertIn(self.exports(lines)[name], values)

    def test_debian_open_mpi(self):  # 4.1.4 in Debian 12, 5.0.7 in 13
        self.check("mpirun.openmpi", "Open MPI", "OMPI_MCA_pml", "cm", "^ucx")

    def test_debian_mpich(self):
        if not shutil.which("mpirun.mpich"):
            self.skipTest("mpirun.mpich is not installed")
        wheel = SOURCE + "/.peers/m5/lib/libmpi.so.12"
        r = self.run_("--dry-run", *(["--mpich-lib", wheel] if os.path.exists(wheel) else []), "mpirun.mpich", "true")
        if os.path.exists(wheel) or r.returncode == 0:
            self.assertIn("export MPIR_CVAR_NOLOCAL=1", r.stdout)
        else:
            self.assertIn("built for UCX alone", r.stderr)

    def test_wheel_of_open_mpi(self):
        self.check(SOURCE + "/.peers/o5/bin/mpirun", "Open MPI 5", "OMPI_MCA_pml", "cm")

    def test_wheel_of_mpich(self):
        self.check(SOURCE + "/.peers/m5/bin/mpiexec", "MPICH 5", "MPIR_CVAR_CH4_NETMOD", "ofi")

    def test_wheel_of_intel_mpi(self):
        self.check(SOURCE + "/.peers/im/bin/mpirun", "Intel MPI", "I_MPI_FABRICS", "ofi")

    def test_open_mpi_hands_the_environment_to_its_ranks(self):
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("mpirun.openmpi is not installed")
        r = self.run_("--", "mpirun.openmpi", "--oversubscribe", "-n", "2", "sh", "-c", "echo $FI_PROVIDER $OMPI_MCA_mtl")
        self.assertEqual(r.stdout, "sennit ofi\n" * 2, r.stderr)


if __name__ == "__main__":
    assert os.access(SENNIT, os.X_OK)
    unittest.main(verbosity=2)

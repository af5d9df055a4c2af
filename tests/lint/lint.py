# SPDX-License-Identifier: BSD-3-Clause
"""lint.py style|format|clang SOURCE BUILD: exits 0, 1 with the findings, or 77 where the tool for it is missing."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

FILE_LINES = 620      # a file is read in one sitting
FUNCTION_LINES = 70     # a function fits a screen; a test may tell a longer story
TEST_FUNCTION_LINES = 90
FORMAT_VERSION = "14"  # .clang-format is written for this one; others lay out differently

CODE = (".c", ".h")
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", "Kbuild")
FOLDERS = ("include", "src", "ofi", "mx", "shim", "tools", "bench", "tests", "cmake", "kmod", ".ci")


# What each room may include of others: the table in docs/design.md, "Rooms".
API = ("sennit", "sennit_ioctl.h")  # the latter is the kernel module's interface
ROOMS = {
    "src/base": API,
    "src/match": ("base",) + API,
    "src/sched": ("base",) + API,
    "src/copy": ("base",) + API,
    "src/progress": ("base", "shim.h") + API,
    "src/local": ("base", "copy", "progress", "core/rail.h") + API,
    "src/net": ("base", "copy", "progress", "sched", "core/rail.h") + API,
    "src/core": ("base", "match", "progress") + API,
    "ofi": ("base", "progress", "shim.h") + API,
    "mx": ("base", "net/iface.h", "progress", "myriexpress.h", "mx_extensions.h") + API,
    "shim": ("base/copy.h", "base/launched.h", "base/memory.h", "base/signals.h", "base/small_file.h", "base/thp.h", "copy/bypass.h", "copy/far.h",
             "copy/heap.h", "copy/heap_file.h"),
}


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def files(root, endings):
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                path = os.path.join(where, name)
                if name.endswith(endings) and not os.path.islink(path):
                    yield path


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def long_functions(lines, most):
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start + 1 > most:
                yield start, number - start + 1
            start = None


def arrows(root):
    """Includes of what a room should not know."""
    for room, knows in ROOMS.items():
        folder = os.path.join(root, room)
        for name in sorted(n for n in os.listdir(folder) if n.endswith(CODE)):
            for header in re.findall(r'^#include "([^"]+)"', text(os.path.join(folder, name)), re.M):
                first = header.split("/")[0]
                own = os.path.exists(os.path.join(folder, header)) or first == os.path.basename(room)
                if not own and header not in knows and first not in knows:
                    yield f"{room}/{name}: includes {header}, which that room does not know (docs/design.md, Rooms)"


def check_style(root, _build):
    found = list(dead_links(root)) + list(arrows(root))
    for path in files(root, CODE + SCRIPTS):
        body = text(path)
        lines = body.splitlines()
        name = os.path.relpath(path, root)
        if not any("SPDX-License-Identifier:" in line for line in lines[:3]):
            found.append(f"{name}: no SPDX-License-Identifier in its first lines")
        if body and not body.endswith("\n"):
            found.append(f"{name}: the last line has no end")
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                found.append(f"{name}:{number}: blanks at the end of the line")
            if re.search(r"\b(TODO|FIXME|XXX)\b", line) and not path.endswith("lint.py"):
                found.append(f"{name}:{number}: unfinished work is not left in comments")
        if path.endswith(CODE):
            if len(lines) > FILE_LINES:
                found.append(f"{name}: {len(lines)} lines; split it by meaning (at most {FILE_LINES})")
            most = TEST_FUNCTION_LINES if name.startswith("tests") else FUNCTION_LINES
            for number, count in long_functions(lines, most):
                found.append(f"{name}:{number}: a function of {count} lines (at most {most})")
    return found


def dead_links(root):
    """Links between the pages, and to pictures, that lead nowhere."""
    for where, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        for name in names:
            if not name.endswith(".md"):
                continue
            for link in re.findall(r"\]\(([^)#]+)", text(os.path.join(where, name))):
                if "://" not in link and not os.path.exists(os.path.join(where, link)):
                    yield f"{os.path.relpath(os.path.join(where, name), root)}: {link} does not exist"


def check_format(root, _build):
    tool = shutil.which("clang-format-" + FORMAT_VERSION) or shutil.which("clang-format")
    if not tool:
        skip("clang-format is not installed")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    if not re.search(r"version %s\." % FORMAT_VERSION, version):
        skip(f"{version.strip()}; the layout is that of version {FORMAT_VERSION}")
    paths = list(files(root, CODE))
    r = subprocess.run([tool, "--dry-run", "--Werror", *paths], capture_output=True, text=True, check=False)
    return sorted({line for line in r.stderr.splitlines() if ": error:" in line}) if r.returncode else []


def check_clang(_root, build):
    """Every file that the build compiles, with clang's warnings as errors."""
    clang = shutil.which("clang")
    if not clang:
        skip("clang is not installed")
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    found, seen = [], set()
    for entry in commands:
        words = shlex.split(entry["command"])
        flags = [w for w in words[1:] if w.startswith(("-I", "-D", "-std=", "-W")) and w != "-Werror"]
        for i, word in enumerate(words):
            if word == "-isystem":
                flags += ["-isystem", words[i + 1]]
        if entry["file"] in seen:
            continue
        seen.add(entry["file"])
        command = [clang, "-fsyntax-only", "-Werror", *flags, entry["file"]]
        r = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
        if r.returncode:
            found.append(r.stderr)
    return found


def main():
    check, root, build = sys.argv[1:4]
    found = {"style": check_style, "format": check_format, "clang": check_clang}[check](root, build)
    for line in found:
        print(line)
    print(f"{check}: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

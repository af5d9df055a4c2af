#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""skips.py RESULTS.xml: what ctest --output-junit wrote, as the end of `make check` shows it: each test, and each case of a
test, that was skipped, with the reason that it printed. Exits 1 if one says none: a reader could not tell what is missing."""
import re
import sys
import xml.etree.ElementTree as ET

SAID = re.compile(r"(?i)^\s*skip(?:ped)?: *(.+)")
CASE = re.compile(r"^\[  SKIPPED \] ([a-z_0-9]+)$")                      # cmocka; the reason stands before it
METHOD = re.compile(r"^(\w+) \(.*\.\.\. skipped ['\"](.*)['\"]$")          # unittest


def reason(lines):
    """The last of the lines that is prose."""
    for line in reversed(lines):
        if SAID.match(line):
            return SAID.match(line).group(1)
        if line.strip() and not line.startswith("["):
            return line.strip()
    return None


def skipped(test):
    """(what, why) of a test that was skipped, or of its cases."""
    name, lines = test.get("name"), (test.findtext("system-out") or "").splitlines()
    if test.find("skipped") is not None:
        yield name, reason(lines)
        return
    begin = 0
    for i, line in enumerate(lines):
        if line.startswith("[ RUN"):
            begin = i
        elif line.startswith("[====="):
            begin = len(lines)  # cmocka's summary names them again
        if (case := CASE.match(line)) and begin < i:
            yield f"{name}: {case.group(1)}", reason(lines[begin:i])
        if method := METHOD.match(line):
            yield f"{name}: {method.group(1)}", method.group(2).replace(r"\n", " ").strip()


def main():
    tests = ET.parse(sys.argv[1]).getroot().iter("testcase")
    found = [each for test in tests for each in skipped(test)]
    if found:
        print(f"\nSkipped, and why ({len(found)}):")
    for what, why in found:
        print(f"  {what}: {why or 'IT DOES NOT SAY WHY'}")
    return 0 if all(why for _, why in found) else 1


if __name__ == "__main__":
    sys.exit(main())

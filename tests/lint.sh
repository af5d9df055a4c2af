#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tests/lint.sh [BUILD [NODES]]: clang-tidy over the product (src, ofi, mx, shim, tools) and cppcheck over everything that is compiled;
# exits 1 when one of them finds something.
#
# BUILD is a configured build tree (default: build, configured here if it is not there yet); its compile_commands.json says
# what is compiled and how. clang's analyzer, which takes nearly all of the time, follows each function until it has seen NODES
# states of the program; by itself it goes on to 225,000. Both analyzers are told to take their settings from the repository:
# .clang-tidy, and the suppressions below. Versions are those of Debian 12, since findings and layout differ from one version to the next.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
nodes=${2:-225000}
jobs=$(nproc)
cppcheck_version=2.10
failed=0

for tool in clang-tidy-14 run-clang-tidy-14 cppcheck cmake; do
	command -v "$tool" >/dev/null || {
		echo "lint: $tool is missing (Debian: clang-tidy-14 cppcheck cmake)"
		exit 77
	}
done
[ -f "$build/compile_commands.json" ] || cmake -S . -B "$build" >/dev/null || exit 1

report() { # report NAME STATUS
	if [ "$2" -eq 0 ]; then
		echo "lint: $1 found nothing"
	else
		echo "lint: $1 found faults (above)"
		failed=1
	fi
}

# cppcheck, which keeps one processor busy whatever -j says, runs beside clang-tidy.
# System headers are not read, so macros from them (cmocka's) are unknown to it.
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
beside=
version=$(cppcheck --version)
[ "$version" != "Cppcheck $cppcheck_version" ] || {
	cppcheck --quiet --error-exitcode=1 --project="$build/compile_commands.json" --enable=warning,performance,portability \
		--inline-suppr --library=posix,gnu --suppress=unknownMacro --suppress=missingIncludeSystem >"$logs/cppcheck" 2>&1 &
	beside=$!
}

run-clang-tidy-14 -quiet -p "$build" -j "$jobs" -extra-arg=-Xclang -extra-arg=-analyzer-config -extra-arg=-Xclang \
	-extra-arg=max-nodes="$nodes" "$PWD/(src|ofi|mx|shim|tools)/.*[.]c" >"$logs/tidy" 2>&1
status=$?
# The count of suppressed warnings that clang-tidy prints for every file is not news.
[ "$status" -eq 0 ] || grep -E -v -e '^[0-9]+ warnings? generated\.$' -e '^clang-tidy-14 ' -e '^Suppressed ' "$logs/tidy"
report clang-tidy "$status"

[ -n "$beside" ] || {
	[ "$failed" -eq 0 ] || exit 1
	echo "lint: $version finds other things than $cppcheck_version, which the sources are kept free of: not run"
	exit 77
}
wait "$beside"
status=$?
cat "$logs/cppcheck"
report cppcheck "$status"

exit $failed

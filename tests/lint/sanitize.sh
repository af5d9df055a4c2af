#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build with a sanitizer and run the tests with these labels, less those named: sanitize.sh SOURCE BUILD SANITIZERS LABELS NOT
set -eu
source=$1 build=$2 sanitizers=$3 labels=$4 not=$5
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
cmake -S "$source" -B "$build" -G Ninja -DSENNIT_SANITIZE="$sanitizers" >/dev/null
cmake --build "$build" -j 2
exec ctest --test-dir "$build" -L "$labels" -E "$not" --output-on-failure --timeout 240

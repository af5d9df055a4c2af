#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build these targets with a sanitizer and run the tests with these labels, less those named:
#   sanitize.sh SOURCE BUILD SANITIZERS LABELS NOT TARGET...
# Labels -: build only.
# -O1: at -O2 gcc takes two to three times as long for instrumented code, which is most of this test's time.
set -eu
source=$1 build=$2 sanitizers=$3 labels=$4 not=$5
shift 5
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
cmake -S "$source" -B "$build" -G Ninja -DSENNIT_SANITIZE="$sanitizers" -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" >/dev/null
cmake --build "$build" -j 2 --target "$@"
[ "$labels" = - ] || exec ctest --test-dir "$build" -L "$labels" -E "$not" --output-on-failure --timeout 240 -j 6 # halves of a processor

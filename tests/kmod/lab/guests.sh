#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# guests.sh CACHE KERNEL PROGRAM: two emulated machines joined by an Ethernet cable, one with the module, one without: PROGRAM
# runs on both, and both must be content.
. "$(dirname "$0")/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$lab/boot.sh" -n -w "$work/wire1" "$1" "$2" "$3" guest 1 >"$work/other" 2>&1 &
other=$!
status=0 others=0
"$lab/boot.sh" -w "$work/wire0" "$1" "$2" "$3" guest 0 || status=$?
wait $other || others=$?
echo "---- the one without the module:"
cat "$work/other"
[ $others = 0 ] || status=$others
exit $status

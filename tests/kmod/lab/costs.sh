#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# costs.sh CACHE PROGRAM: runs kmod_test_budget where a nanosecond is an instruction, and writes its table into docs/kmod.md.
. "$(dirname "$0")/common.sh"

said=$(mktemp)
trap 'rm -f "$said" "$said.table"' EXIT
"$lab/boot.sh" -i "$1" 6.1 "$2" | tee "$said"
{
	echo "| copy | bytes | instructions | above the bytes | pages pinned | chunks | look-ups | moved for each byte | system calls |"
	echo "|---|---|---|---|---|---|---|---|---|"
	sed -n 's/^\(region, \|two, \|process_vm_readv\)\(first\|again\)\? *\([0-9][0-9. ]*\)$/\1\2 \3/p' "$said" |
		awk '{ n = NF; name = $1; for (i = 2; i <= n - 6; i++) name = name " " $i
			printf "| %s | %d | %d | %d | %d | %d | %d | %s | 1 |\n", name, $(n-5), $(n-4), $(n-4) - $(n-5), $(n-3), $(n-2), $(n-1), $n }'
	echo
	sed -n 's/^overlap misses: \(.*\)/Overlap misses in all of it: \1./p' "$said"
} >"$said.table"
[ "$(grep -c '^| [rtp]' "$said.table")" -ge 10 ] || { echo "the table was not understood"; exit 1; }
sed -i -e '/^<!-- costs.sh -->/,/^<!-- end -->/{/^<!-- costs.sh -->/!{/^<!-- end -->/!d}}' -e "/^<!-- costs.sh -->/r $said.table" \
	"$root/docs/kmod.md"

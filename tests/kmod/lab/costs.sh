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
	# A name, of one word or two, and then figures: seven, or, of the kernel's own call, two.
	awk '/^(region,|two,) / || /^process_vm_readv / {
		at = $1 ~ /,$/ ? 3 : 2
		name = at == 3 ? $1 " " $2 : $1
		printf "| %s | %d | %d | %d |", name, $at, $(at + 1), $(at + 1) - $at
		for (i = 2; i < 7; i++)
			printf " %s |", NF == at + 1 ? "" : $(at + i)
		print ""
	}' "$said"
	echo
	sed -n 's/^overlap misses: \(.*\)/Overlap misses in all of it: \1./p' "$said"
} >"$said.table"
[ "$(grep -c '^| [rtp]' "$said.table")" -ge 10 ] || { echo "the table was not understood"; exit 1; }
sed -i -e '/^<!-- costs.sh -->/,/^<!-- end -->/{/^<!-- costs.sh -->/!{/^<!-- end -->/!d}}' -e "/^<!-- costs.sh -->/r $said.table" \
	"$root/docs/kmod.md"

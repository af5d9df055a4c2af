#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# again.sh: which machines boot.sh starts again, and which not. The machine is played: it says what each of its boots is to say.
. "$(dirname "$0")/common.sh"
need cpio busybox

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/cache/played/mod/kmod"
touch "$work/cache/played/vmlinuz" "$work/cache/played/mod/kmod/sennit.ko"
cat >"$work/bin/qemu-system-x86_64" <<'PLAYED'
#!/bin/bash
boots=$(($(cat boots) + 1))
echo $boots >boots
. "./boot$boots"
PLAYED
chmod +x "$work/bin/qemu-system-x86_64"
cd "$work"

# What a machine says, and how it ends: booted STATUS [COMPLAINT [COMPLAINT-BEFORE]] is one that came as far as its end.
cat >says <<'SAYS'
fell() { echo "[ 1.9] $1"; exit 0; }
began() { printf '==== init\r\n'; }
booted() {
	began
	printf '==== status %s\r\n%s\n==== before init\r\n%s\n' "$1" "${2:-}" "${3:-}"
	exit $(($1 * 2 + 1))
}
SAYS

# judged NAME STATUS BOOTS BOOT...: the first boots that may come, each what the machine does; want boot.sh's status, and so many boots
judged() {
	local name=$1 want=$2 want_boots=$3 status=0 i=0 boot
	shift 3
	for boot in "$@"; do
		i=$((i + 1))
		{ cat says && echo "$boot"; } >"boot$i"
	done
	echo 0 >boots
	PATH=$work/bin:$PATH "$lab/boot.sh" -t 90 cache played says >said 2>&1 || status=$?
	echo "$name: status $status, $(cat boots) boots"
	[ $status = "$want" ] && [ "$(cat boots)" = "$want_boots" ] && return
	cat said
	exit 1
}

oops='Oops: int3: 0000 [#1] PREEMPT SMP NOPTI'
well='booted 0'
judged all_is_well 0 1 "$well"
judged it_fell_at_boot 0 2 "fell '$oops'" "$well"
judged it_was_stuck_at_boot 0 2 "fell 'watchdog: BUG: soft lockup - CPU#1 stuck for 22s!'" "$well"
judged it_panicked_at_boot 0 2 "fell 'Kernel panic - not syncing: Fatal exception in interrupt'" "$well"
judged it_said_nothing 0 2 "exit 0" "$well"
judged it_fell_twice 0 3 "fell '$oops'" "fell '$oops'" "$well"
judged it_fell_each_time 1 3 "fell '$oops'" "fell '$oops'" "fell '$oops'"
judged it_complained_quietly_at_boot 0 2 "booted 0 '' 'WARNING: CPU: 0 PID: 1'" "$well"
judged it_does_so_each_time 1 3 "booted 0 '' WARNING:" "booted 0 '' WARNING:" "booted 0 '' WARNING:"
judged it_fell_under_test 1 1 "began; fell '$oops'" "$well"
judged it_ended_under_test 1 1 "began; exit 0" "$well"
judged it_complained_under_test 1 1 "booted 0 'WARNING: CPU: 0 PID: 1'" "$well"
judged the_program_failed 1 1 "booted 1" "$well"
judged the_program_skipped 77 1 "booted 77" "$well"
judged both_complaints 1 1 "booted 0 WARNING: WARNING:" "$well"
judged failed_after_a_complaint 1 1 "booted 1 '' WARNING:" "$well"
judged it_fell_and_then_failed 1 2 "fell '$oops'" "booted 1"

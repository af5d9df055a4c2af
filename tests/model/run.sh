#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Check a model exhaustively: run.sh WORKDIR MODEL.pml pass|fail [-DNAME ...]. "fail" demands that the check finds the
# planted error, which shows that it can.
set -eu
work=$1 model=$2 want=$3
shift 3
command -v spin >/dev/null || { echo "spin is not installed: skipped"; exit 77; }
src=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work"
work=$(mktemp -d "$work/model.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
spin "$@" -a "$src/$model" >spin.log
# MEMLIM bounds memory; a search that hits a bound is not exhaustive and must not pass
# Compiling is most of the time of a check that finds its error early.
case $want in
pass) optimise=-O1 table=-w25 ;; # 256 MiB, so that few states lie in one place
*) optimise=-O0 table= ;;
esac
case $model in
board.pml) optimise=-O1 ;; # its errors lie deep
esac
gcc $optimise -w -DSAFETY -DMEMLIM=4096 -o pan pan.c
./pan -m2000000 $table >pan.log
cat pan.log
grep -q "errors: 0" pan.log && verdict=pass || verdict=fail
if grep -qE "max search depth too small|search was not completed|out of memory" pan.log && [ "$verdict" = pass ]; then
	echo "the search was cut short: no verdict"
	exit 1
fi
if [ "$verdict" = pass ] && grep -q "Search not completed" pan.log; then
	exit 1
fi
echo "$model $*: $verdict (wanted: $want)"
[ "$verdict" = "$want" ]

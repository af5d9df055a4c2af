#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# build.sh CACHE KERNEL: builds the module and the tests' own modules against a kernel of the cache; a warning fails.
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
[ -e "$cache/$kernel/build" ] || skip "kernel $kernel is not in the cache"
need make gcc

cc=()
case $kernel in
6.*) command -v gcc-12 >/dev/null || cc=(CC=gcc) ;;
esac
for source in kmod tests/kmod/dmadouble; do
	to=$cache/$kernel/mod/${source##*/}
	mkdir -p "$to"
	cp -u "$root/$source"/*.[ch] "$root/$source/Kbuild" "$to/"
	nice make -s -C "$(readlink -f "$cache/$kernel/build")" M="$to" CONFIG_DEBUG_INFO_BTF_MODULES= W=1 KCFLAGS=-Werror \
		"${cc[@]}" modules
done

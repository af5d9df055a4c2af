#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# build.sh CACHE KERNEL [wide]: builds the module and the tests' own modules against a kernel of the cache; a warning fails.
# "wide": only the module, in mod/wide, as one that lingers (sn_linger).
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
[ -e "$cache/$kernel/build" ] || skip "kernel $kernel is not in the cache"
need make gcc
headers=$(readlink -f "$cache/$kernel/build")

# module SOURCE NAME OPTION...: SOURCE is a folder with a Kbuild file; it becomes mod/NAME
module() {
	local source=$1 to=$cache/$kernel/mod/$2
	shift 2
	mkdir -p "$to"
	cp -u "$source"/*.[ch] "$source/Kbuild" "$to/"
	if [ "$kernel" = current ]; then # with its own tools
		nice unshare -rm sh -c 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
			"$cache/current/root" env PATH=/usr/bin make -s -C "/${headers#*/root/}" M="/mod/${to##*/}" \
			CONFIG_DEBUG_INFO_BTF_MODULES= "$@" modules
	else
		nice make -s -C "$headers" M="$to" CONFIG_DEBUG_INFO_BTF_MODULES= "$@" modules
	fi
}

strict=(W=1 KCFLAGS=-Werror)
if [ "$kernel" = arm64 ]; then
	need aarch64-linux-gnu-gcc aarch64-linux-gnu-gcc-12
	cross=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
	driver=$cache/arm64/mod/zynqmp_dma
	module "$root/kmod" kmod "${cross[@]}" "${strict[@]}"
	mkdir -p "$driver/xilinx"
	cp -u "$cache"/arm64/driver/drivers/dma/dmaengine.h "$driver/"
	cp -u "$cache"/arm64/driver/drivers/dma/xilinx/zynqmp_dma.c "$driver/xilinx/"
	echo "obj-m := xilinx/zynqmp_dma.o" >"$driver/Kbuild"
	nice make -s -C "$headers" M="$driver" CONFIG_DEBUG_INFO_BTF_MODULES= "${cross[@]}" modules
	cp -u "$driver/xilinx/zynqmp_dma.ko" "$driver/"
	program() {
		aarch64-linux-gnu-gcc -static -Wl,--wrap=ioctl -O2 -Wall -Wextra -D_GNU_SOURCE -I"$root/kmod" -I"$root/src" -I"$root/include" \
			-I"$root/tests/kmod" -o "$cache/arm64/mod/kmod_$1" "$root/tests/kmod/$1.c" "$root/tests/kmod/kt.c" "${@:2}" -pthread
	}
	program test_dma
	program test_regions
	program test_net "$root"/tests/kmod/nethost.c "$root"/tests/kmod/veth.c "$root"/src/net/{auth,check,wire}.c
	exit 0
fi
cc=()
case $kernel in
6.*) command -v gcc-12 >/dev/null || cc=(CC=gcc) ;;
esac
if [ "${3:-}" = wide ]; then
	module "$root/kmod" wide W=1 KCFLAGS="-Werror -DSN_WIDE" "${cc[@]}"
	exit 0
fi
module "$root/kmod" kmod "${strict[@]}" "${cc[@]}"
module "$root/tests/kmod/dmadouble" dmadouble "${strict[@]}" "${cc[@]}"

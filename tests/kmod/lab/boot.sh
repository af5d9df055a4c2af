#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# boot.sh [-a KERNEL-ARGS] [-m MODULE-PARAMETERS] [-d DOUBLE-PARAMETERS] [-t SECONDS] CACHE KERNEL PROGRAM [ARGUMENT...]
#
# Boots the kernel in QEMU's emulation with the module loaded (and, with -d, the DMA engine's double), runs the static
# PROGRAM as root, unloads the modules, and passes when the program did, the modules went, and the kernel had nothing to
# complain about. The program's exit status 77 skips.
. "$(dirname "$0")/common.sh"

args= parameters= double= limit=200
while getopts a:m:d:t: option; do
	case $option in
	a) args=$OPTARG ;;
	m) parameters=$OPTARG ;;
	d) double=$OPTARG ;;
	t) limit=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
cache=$1
kernel=$2
program=$3
shift 3
[ -e "$cache/$kernel/vmlinuz" ] || skip "kernel $kernel is not in the cache"
[ -e "$cache/$kernel/mod/kmod/sennit.ko" ] || skip "the module is not built for $kernel"
need qemu-system-x86_64 cpio gzip busybox

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root"/{bin,proc,sys,dev,tmp}
cp "$(command -v busybox)" "$work/root/bin/busybox"
cp "$lab/init" "$work/root/init"
cp "$cache/$kernel/mod/kmod/sennit.ko" "$cache/$kernel/mod/dmadouble/dmadouble.ko" "$work/root/"
cp "$program" "$work/root/test"
{
	echo "parameters='$parameters'"
	echo "double='$double'"
	echo "arguments='$*'"
} >"$work/root/settings"
(cd "$work/root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

status=0
nice timeout -k 3 "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 768 -nodefaults -no-reboot \
	-object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=256M \
	-numa node,memdev=m0,cpus=0-1 -numa node,memdev=m1 -display none -serial stdio \
	-device isa-debug-exit,iobase=0xf4,iosize=0x04 -kernel "$cache/$kernel/vmlinuz" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet panic=-1 oops=panic $args" </dev/null >"$work/log" 2>&1 || status=$?

# isa-debug-exit makes (value << 1) | 1 of what is written to it: init writes the program's status.
sed -e 's/\r$//' -e '/^==== kernel log/,$d' "$work/log"
bad='BUG:|WARNING:|Oops|KASAN|DMA-API: .*device driver|unreferenced object|general protection|refcount_t|INFO: task|possible circular'
if grep -E -q "$bad" "$work/log"; then
	echo "FAIL: the kernel complained:"
	grep -E -A 40 "$bad" "$work/log" | head -n 120
	exit 1
fi
case $status in
1) exit 0 ;;
155) exit 77 ;;
124 | 137) echo "FAIL: not finished within $limit s" ;;
*) echo "FAIL: status $status" ;;
esac
tail -n 60 "$work/log"
exit 1

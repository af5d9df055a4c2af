#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# boot.sh [-inz] [-a KERNEL-ARGS] [-b BUILD] [-c CPU-FLAGS] [-m MODULE-PARAMETERS] [-d DOUBLE-PARAMETERS] [-r TREE] [-s PACKAGES]
# [-t SECONDS] [-w SOCKET] CACHE KERNEL PROGRAM [ARGUMENT...]
#
# Boots the kernel in QEMU's emulation with the module loaded (and, with -d, the DMA engine's double), runs the static
# PROGRAM as root, unloads the modules, and passes when the program did, the modules went, and the kernel had nothing to
# complain about. The program's exit status 77 skips; one that is not through a minute before SECONDS are over (or half of
# them, of few) is killed, and what the kernel knows of it is shown. With -r the files of TREE are there, too, and more memory. With -i a PC has one
# processor and counts instructions: its clocks go by a nanosecond an instruction. -c says what else a PC's processors have
# or lack, -s how many packages they are in. -n leaves the module out, -b takes another build of it. With -z the machine is stopped for
# two and a half seconds whenever PROGRAM says "==== stop". With -w a PC has an
# Ethernet card (virtio-net, eth0), whose cable is a pair of sockets: this end is SOCKET, the other one SOCKET with its last
# character, 0 or 1, changed.
. "$(dirname "$0")/common.sh"

args= flags= parameters= double= tree= wire= own=sennit build=kmod memory=512 processors=2 limit=440 packages=1 stops=
clock=(-accel "tcg,thread=multi")
while getopts inza:b:c:m:d:r:s:t:w: option; do
	case $option in
	i) processors=1 clock=(-accel "tcg,thread=single" -icount "shift=0,sleep=off") ;;
	n) own= ;;
	z) stops=yes ;;
	a) args=$OPTARG ;;
	b) build=$OPTARG ;;
	c) flags=,$OPTARG ;;
	m) parameters=$OPTARG ;;
	d) double=$OPTARG ;;
	r) tree=$OPTARG memory=1536 ;;
	s) packages=$OPTARG ;;
	t) limit=$OPTARG ;;
	w) wire=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
cache=$1
kernel=$2
program=$3
shift 3
mod=$cache/$kernel/mod
image=$cache/$kernel/vmlinux
[ -e "$image" ] || image=$cache/$kernel/vmlinuz
[ -e "$image" ] || skip "kernel $kernel is not in the cache"
[ -z "${own:-}" ] || [ -e "$mod/$build/sennit.ko" ] || skip "the module is not built for $kernel"
need cpio
# A PC has no DMA engine in QEMU, so one may have the double; this arm64 machine has eight channels of its own.
if [ "$kernel" = arm64 ]; then
	need qemu-system-aarch64
	busybox=$(find "$cache/arm64/root" -path "*bin/busybox" -type f -print -quit) # in /bin, or since Debian 13 in /usr/bin
	engine=${own:+zynqmp_dma}
	debug_exit=no
	machine=(qemu-system-aarch64 -M xlnx-versal-virt -m 1024 -no-reboot -display none -serial stdio)
	args="console=ttyAMA0 $args"
else
	need qemu-system-x86_64 busybox
	busybox=$(command -v busybox)
	engine=${double:+dmadouble}
	debug_exit=yes
	# la57: an interrupt while the kernel looks at its CPU trips KASAN there, now and then, with five-level page tables.
	machine=(qemu-system-x86_64 "${clock[@]}" -smp "$processors,sockets=$packages" -cpu "max,la57=off$flags" -m $((memory + 256)) -nodefaults -no-reboot
		-object memory-backend-ram,id=m0,size=${memory}M -object memory-backend-ram,id=m1,size=256M
		-numa node,memdev=m0 -numa node,memdev=m1 -display none -serial stdio
		-device isa-debug-exit,iobase=0xf4,iosize=0x04)
	if [ -n "$wire" ]; then
		side=${wire: -1}
		machine+=(-device "virtio-net-pci,netdev=wire,romfile=,mac=52:54:00:00:00:0$side"
			-netdev "dgram,id=wire,local.type=unix,local.path=$wire,remote.type=unix,remote.path=${wire%?}$((1 - side))")
	fi
	# no_timer_check: a machine that gets no time while its kernel counts the timer's first ticks would not boot. cryptomgr.notests:
	# newer kernels try all their ciphers at boot, for longer than the watchdog bears in emulation.
	args="console=ttyS0 no_timer_check cryptomgr.notests $args"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root"/{bin,proc,sys,dev,tmp}
[ -z "$tree" ] || cp -a "$tree/." "$work/root/"
cp "$busybox" "$work/root/bin/busybox"
cp "$lab/init" "$work/root/init"
for file in ${own:+"$mod/$build/sennit.ko"} ${engine:+"$mod/$engine/$engine.ko"}; do
	cp "$file" "$work/root/"
done
cp "$program" "$work/root/test"
has_inside() {
	find "$cache/$kernel/root" -name modules.builtin -exec grep -q "/$1[.]ko" {} +
}
# What the kernel has as modules of its own, in the order in which they need each other; one that was built here has all inside.
drivers=(veth fuse) # two hosts in one machine, a file system that a program makes
[ -z "$wire" ] || drivers+=(failover net_failover virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_net)
for driver in $([ ! -d "$cache/$kernel/root" ] || echo "${drivers[@]}"); do
	found=$(find "$cache/$kernel/root" -name "$driver.ko*" -print -quit)
	case $found in
	*.xz) xz -dc "$found" >"$work/root/$driver.ko" ;;
	*.ko) cp "$found" "$work/root/$driver.ko" ;;
	*) [[ $driver = veth || $driver = fuse ]] || has_inside "$driver" || skip "this kernel has no $driver" ;;
	esac
done
{
	echo "parameters='$parameters'"
	echo "own='$own'"
	echo "drivers='${drivers[*]}'"
	echo "engine='$engine'"
	echo "engine_parameters='$double'"
	echo "arguments='$*'"
	echo "debug_exit=$debug_exit"
} >"$work/root/settings"
(cd "$work/root" && find . | cpio -o -H newc --quiet) >"$work/initrd" # not packed, for the same reason as the kernel

# stop_when_told PROCESS-GROUP: until it has ended.
stop_when_told() {
	local stopped=0 told
	while kill -0 "$1" 2>/dev/null; do
		told=$(grep -c '^==== stop' "$work/log") || true
		if [ "$told" -gt $stopped ]; then
			stopped=$told
			kill -STOP -- "-$1" && sleep 2.5 && kill -CONT -- "-$1"
		fi
		sleep 0.05
	done
}

# end_unless_booted PROCESS SECONDS
end_unless_booted() {
	local left
	for ((left = $2 * 10; left > 0; left--)); do
		! grep -q -s '^==== init' "$work/log" && kill -0 "$1" 2>/dev/null || return 0
		sleep 0.1
	done
	echo "the emulated machine has not booted within $2 s"
	kill "$1" 2>/dev/null || true
}

# boot SECONDS. Nice, but not so that it gets a tenth of a processor beside whatever else spins: then what is to follow within a second
# does not. A processor that is stuck ends the machine, which says what each of them was at. Of "limit", which it does not know, the
# kernel makes a variable of its first process: how long the program may take. What is left is for booting, and for what there is to
# say then.
boot() {
	local seconds=$1 process said
	status=0
	nice -n 4 timeout -k 3 "$seconds" "${machine[@]}" -kernel "$image" -initrd "$work/initrd" \
		-append "quiet panic=-1 oops=panic softlockup_panic=1 panic_print=0x40 limit=$((seconds > 120 ? seconds - 60 : seconds / 2)) $args" \
		</dev/null >"$work/log" 2>&1 &
	process=$!
	end_unless_booted $process $((seconds / 3))
	[ -z "$stops" ] || stop_when_told $process
	wait $process || status=$?
	# A machine without a debug-exit port is powered off when it has said how it went.
	if [ "$kernel" = arm64 ] && [ $status = 0 ]; then
		said=$(tr -d '\r' <"$work/log" | sed -n 's/^==== status //p')
		status=$((${said:-1} * 2 + 1))
	fi
}

# What the kernel said before its first process began, of which that says the quiet part at the end, and what it said from then on.
before() {
	sed -e '/^==== init/,/^==== before init/d' "$work/log"
}
after() {
	sed -n -e '/^==== init/,/^==== before init/p' "$work/log"
}
bad='BUG:|WARNING:|Oops|KASAN|DMA-API: .*device driver|unreferenced object|general protection|refcount_t|INFO: task|possible circular'
fallen='soft lockup|Kernel panic'

# A kernel that falls before its first process begins has not seen anything of what is tested here: QEMU's emulation of more than one
# processor does that, once in a thousand boots (seen in a kworker, when the kernel changes its clock; in a softirq, at an int3 that
# was in the kernel's text while it changed that). It is started again, twice at most. One that came further is not, if anything is
# wrong with what came then.
boot "$limit"
for try in second third; do
	if grep -q '^==== init' "$work/log"; then
		grep -E -q "$bad|$fallen" <(before) || break
		[ $status = 1 ] && ! grep -E -q "$bad|$fallen" <(after) || break
	fi
	[ $((limit - SECONDS)) -ge 60 ] || break
	echo "the emulated machine fell or complained before its first process began, and is started for the $try time; it said:"
	head -n 80 <(before)
	boot $((limit - SECONDS))
done

# isa-debug-exit makes (value << 1) | 1 of what is written to it: init writes the program's status.
sed -e 's/\r$//' -e '/^==== status/,$d' "$work/log"
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
tail -n 60 <(after)
exit 1

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# udev.sh CACHE KERNEL: the udev rule, as it is installed, on a kernel with the module: Debian's udev, unpacked, reads it in the
# emulated machine; udev_guest.sh looks what comes of it.
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
need ldd
if [ ! -e "$cache/udev" ]; then
	rm -rf "$cache/udev.new" "$cache/udev.new.deb"
	unpack_packages "$cache/udev.new" udev
	mv "$cache/udev.new" "$cache/udev"
fi
udevadm=$(find "$cache/udev" -path '*/bin/udevadm')
! ldd "$udevadm" | grep "not found" || skip "what udev needs is not here"

make_tree
mkdir -p "$tree"/{run,usr/bin,lib/udev/rules.d}
cp "$udevadm" "$tree/usr/bin/udevadm"
ln -s udevadm "$tree/usr/bin/systemd-udevd"
bring_libraries "$udevadm"
cp "$root/kmod/60-sennit.rules" "$tree/lib/udev/rules.d/"
status=0
"$lab/boot.sh" -r "$tree" "$cache" "$kernel" "$lab/udev_guest.sh" || status=$?
exit $status

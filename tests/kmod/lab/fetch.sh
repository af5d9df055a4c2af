#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fetch.sh CACHE KERNEL: brings a kernel into the cache, once.
#   6.1    Debian's own: image and headers (6.1 on Debian 12, of which the name is; 6.12 on Debian 13)
#   6.12   that of Debian 12's backports: image and headers
#   arm64  Debian's for that machine, and the source of a driver for a DMA engine that QEMU has there
#   current  the newest that Debian's backports have, with the compiler and the tools that it wants, for what runs here may be too old
#   kasan  6.1 built from Debian's source with kasan.config: KASAN, lockdep, kmemleak, DMA debugging (minutes)
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
mkdir -p "$cache"
exec 9>"$cache/$kernel.lock"
flock 9
case $kernel in
kasan) stamp=$(sha256sum <"$lab/kasan.config") ;;
6.12) stamp=3 ;;
6.1 | arm64) stamp=2 ;;
*) stamp=1 ;;
esac
[ "$(cat "$cache/$kernel/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
need apt-get apt-cache dpkg-deb make gcc

# The newest version of a kind of kernel that apt knows of, such as 6.1.0-1-amd64.
arch=amd64
version_of() {
	apt-cache "${apt_options[@]}" depends "linux-headers-$arch" 2>/dev/null |
		sed -n 's/^ *Depends: linux-headers-//p' | head -n 1
}

# Kernel headers as modules want them, at the place where they now are.
fetch_headers() {
	local release common kbuild
	release=$(version_of)
	[ -n "$release" ] || skip "apt knows no linux-headers-$arch"
	common=${release%-"$arch"}-common
	kbuild=linux-kbuild-${release%%-*}
	case $release in
	6.1.*) kbuild=linux-kbuild-6.1 ;;
	esac
	unpack_packages "$new/root" "linux-headers-$release" "linux-headers-$common" "$@"
	(apt_options=(-o APT::Sandbox::User=root "${host_options[@]}") && unpack_packages "$new/root" "$kbuild") # runs here
	# By where it lies itself, not by a full path: a cache may be moved, and several builds may link to one.
	sed -i 's#include /usr/src/#include $(dir $(lastword $(MAKEFILE_LIST)))../#' "$new/root/usr/src/linux-headers-$release/Makefile"
	ln -s "root/usr/src/linux-headers-$release" "$new/build"
}

# The image as the package has it, and as boot.sh would rather have it: an emulated PC unpacks a kernel for longer than it boots it.
# How it is packed, and where: the boot protocol's setup_sects, payload_offset and payload_length, of which the last four bytes are
# the size.
use_image() {
	local image sectors unpack
	image=$(find "$new/root" -name 'vmlinuz*' -type f -print -quit) # in /boot, or since Debian 13 with the modules
	ln -s "${image#"$new"/}" "$new/vmlinuz"
	[ $arch = amd64 ] || return 0
	sectors=$(od -An -tu1 -j 497 -N 1 "$image")
	set -- $(od -An -tu4 -j 584 -N 8 "$image")
	dd if="$image" of="$new/packed" bs=1M iflag=skip_bytes,count_bytes skip=$(((sectors + 1) * 512 + $1)) count=$(($2 - 4)) status=none
	for unpack in xz zstd; do
		$unpack -dc "$new/packed" >"$new/vmlinux" 2>/dev/null && break
		rm -f "$new/vmlinux" # packed otherwise, or there is no such program: it boots all the same
	done
	rm "$new/packed"
}

# Gives apt a view of suites and an architecture beside the machine's own, which stays as it is.
use_suite() {
	local site suite
	site=$(apt-get indextargets --format '$(SITE) $(COMPONENT) $(RELEASE)' 'Created-By: Packages' |
		awk '$2 == "main" && $3 !~ /-/ { print $1; exit }')
	[ -n "$site" ] || skip "apt has no sources"
	mkdir -p "$new/apt/lists/partial"
	touch "$new/apt/status"
	for suite in "$@"; do
		echo "deb $site $suite main" >>"$new/apt/sources.list"
	done
	apt_options+=(-o Dir::State::lists="$new/apt/lists" -o Dir::Etc::sourcelist="$new/apt/sources.list"
		-o Dir::Etc::sourceparts=- -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
		-o APT::Architecture="$arch" -o APT::Architectures::="$arch" -o Dir::State::status="$new/apt/status")
	timeout -k 5 120 apt-get -qq "${apt_options[@]}" update >"$new/apt/log" 2>&1 ||
		skip "cannot read $* for $arch ($(tail -n 1 "$new/apt/log"))"
}

# The newest kernel's image and headers, with all that building a module for it needs, in a folder to change root into: a
# machine's own tools may be older than the kernel.
fetch_current() {
	local release to=$new/root tool
	use_suite trixie trixie-backports
	release=$(apt-cache "${apt_options[@]}" search --names-only '^linux-headers-[0-9].*-amd64$' | cut -d ' ' -f 1 |
		grep -v -E -- '-(cloud|rt)-' | sort -V | tail -n 1)
	[ -n "$release" ] || skip "apt knows no newer kernel"
	release=${release#linux-headers-}
	mkdir -p "$new/deb/partial" "$to"
	timeout -k 5 300 apt-get -qq "${apt_options[@]}" -o Dir::Cache::archives="$new/deb" -o APT::Install-Recommends=no \
		-t trixie-backports -y --download-only install "linux-headers-$release" "linux-image-$release" make dash bash coreutils sed \
		grep findutils gawk >"$new/apt/log" 2>&1 || skip "cannot download Linux $release ($(tail -n 1 "$new/apt/log"))"
	for tool in "$new"/deb/*.deb; do
		dpkg-deb -x "$tool" "$to"
	done
	rm -r "$new/deb"
	for tool in bin sbin lib lib64; do
		[ -e "$to/$tool" ] || ln -s "usr/$tool" "$to/$tool"
	done
	for tool in "$to"/usr/bin/x86_64-linux-gnu-*; do # as the packages that were left out would have it
		[ -e "$to/usr/bin/${tool##*-gnu-}" ] || ln -s "${tool##*/}" "$to/usr/bin/${tool##*-gnu-}"
	done
	ln -sf gawk "$to/usr/bin/awk"
	mkdir -p "$to/mod" "$to/proc" "$to/dev"
	ln -s root/mod "$new/mod"
	ln -s "root/usr/src/linux-headers-$release" "$new/build"
	ln -s "root/usr/lib/modules/$release/vmlinuz" "$new/vmlinuz"
}

# Takes files out of the kernel's source package; with --occurrence=1 tar stops where it has them all.
fetch_source() {
	local to=$1 package
	shift
	mkdir -p "$to"
	package=$(apt-cache depends linux-source 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n 1)
	[ -n "$package" ] || skip "apt knows no linux-source"
	(apt_options=(-o APT::Sandbox::User=root) && unpack_packages "$new/source" "$package")
	tar -xf "$new/source/usr/src/$package".tar.xz -C "$to" --strip-components=1 "$@"
	rm -r "$new/source"
}

build_kasan() {
	local tree log=$cache/kasan-build.log
	need flex bison bc xz perl
	tree=$new/tree
	fetch_source "$tree"
	make -C "$tree" tinyconfig >"$log" 2>&1
	cat "$lab/kasan.config" >>"$tree/.config"
	if ! { make -C "$tree" olddefconfig && nice make -C "$tree" -j"$(nproc)" bzImage modules_prepare; } >>"$log" 2>&1; then
		echo "the kernel did not build; see $log"
		exit 1
	fi
	cp "$tree/vmlinux.symvers" "$tree/Module.symvers"
	cp "$tree/arch/x86/boot/bzImage" "$new/vmlinuz"
	ln -s tree "$new/build"
}

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
host_options=()
new=$cache/$kernel.new
rm -rf "$new" "$new.deb"
mkdir -p "$new"
case $kernel in
6.1)
	fetch_headers "linux-image-$(version_of)"
	use_image
	;;
6.12)
	[ "$codename" = bookworm ] || skip "it is Debian 12's backports that have Linux 6.12"
	use_suite "$codename-backports"
	host_options=("${apt_options[@]}")
	fetch_headers "linux-image-$(version_of)"
	use_image
	;;
arm64)
	arch=arm64
	use_suite "$codename"
	fetch_headers "linux-image-$(version_of)" busybox-static libcmocka0 libcmocka-dev
	use_image
	need xz
	fetch_source "$new/driver" --occurrence=1 --no-anchored dma/dmaengine.h xilinx/zynqmp_dma.c
	;;
current) fetch_current ;;
kasan) build_kasan ;;
*)
	echo "no such kernel: $kernel"
	exit 1
	;;
esac
echo "$stamp" >"$new/stamp"
rm -rf "${cache:?}/$kernel"
mv "$new" "$cache/$kernel"
